#!/usr/bin/env python3
"""usage: fake_daemon.py DIRECTORY [CERTIFICATES]

A scripted hostile Docker daemon.  It listens on Unix sockets in DIRECTORY, on loopback TCP, and with CERTIFICATES (as
tests/docker/certs.sh makes them) on TLS; DIRECTORY/ports names the ports when all of them listen.  What it does to a call
is in the name that is asked about: a container 'twice' gets an answer that gives its length twice.  On DIRECTORY/sock the
version is answered well; on DIRECTORY/version-WORD it is what WORD says.  It ends when its standard input does.
"""

import json
import os
import socket
import ssl
import struct
import sys
import threading
import time

ID = "0123456789abcdef" * 4
VERSION = {
    "Version": "99.1", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux", "Arch": "amd64",
    "KernelVersion": "6.1", "Components": [{"Name": "Engine", "Version": "99.1"}],
}
WELL = {"Id": ID, "State": {"Running": True, "Paused": False, "Status": "running"}}
STREAM = "application/vnd.docker.raw-stream"
requests = []  # what was asked, for the test of what is sent


class Gone(Exception):
    pass


def text(value):
    return json.dumps(value).encode()


def answer(body, status="200 OK", kind="application/json", more=(), length=True):
    head = [f"HTTP/1.1 {status}"]
    if kind:
        head.append(f"Content-Type: {kind}")
    if length is True:
        head.append(f"Content-Length: {len(body)}")
    elif length is not False:
        head.append(f"Content-Length: {length}")
    head.extend(more)
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body


def chunked(body, size=7, end=b"0\r\n\r\n"):
    parts = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + end


def chunked_answer(raw):
    return answer(b"", more=("Transfer-Encoding: chunked",), length=False) + raw


def frame(stream, data):
    return struct.pack(">BxxxI", stream, len(data)) + data


def flood(connection, first, again, pause=0.0):
    connection.sendall(first)
    for _ in range(1 << 20):
        connection.sendall(again)
        if pause:
            time.sleep(pause)


def deep(n):
    return b"[" * n + b"]" * n


GOOD = answer(text(WELL))
GOOD_CHUNKED = chunked_answer(chunked(text(WELL)))

# name: all that is sent, before the connection ends
FIXED = {
    "fine": GOOD,
    "fine-chunked": GOOD_CHUNKED,
    "fine-continue": b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD,
    "fine-trailer": chunked_answer(chunked(text(WELL), end=b"0\r\nX-Trailer: 1\r\n\r\n")),
    "fine-until-close": answer(text(WELL), length=False),
    "nothing": b"",
    "long": answer(text(WELL), length=len(text(WELL)) + 10),
    "short": answer(text(WELL), length=len(text(WELL)) - 10),
    "negative": answer(text(WELL), length="-5"),
    "wordy": answer(text(WELL), length="many"),
    "overflow": answer(text(WELL), length="99999999999999999999999"),
    "huge": answer(text(WELL), length=5 << 20),
    "twice": answer(text(WELL), more=(f"Content-Length: {len(text(WELL))}",)),
    "both": answer(chunked(text(WELL)), more=("Transfer-Encoding: chunked",)),
    "gzip-coding": answer(text(WELL), more=("Content-Encoding: gzip",)),
    "gzip-transfer": answer(text(WELL), more=("Transfer-Encoding: gzip",), length=False),
    "chunk-word": chunked_answer(b"xyz\r\n{}\r\n0\r\n\r\n"),
    "chunk-size": chunked_answer(b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    "chunk-end": chunked_answer(b"2\r\n{}garbage\r\n0\r\n\r\n"),
    "redirect": answer(b"", "301 Moved", more=("Location: http://127.0.0.1:1/",)),
    "redirect-307": answer(b"", "307 Temporary", more=("Location: http://127.0.0.1:1/",)),
    "switch": answer(b"", "101 Switching", more=("Upgrade: tcp", "Connection: Upgrade"), length=False),
    "early": answer(b"", "103 Early Hints", length=False) + GOOD,
    "status-999": answer(b"{}", "999 Odd"),
    "status-20": answer(b"{}", "20 Odd"),
    "status-empty": answer(b"", "204 None", kind=None, length=False),
    "http-2": b"HTTP/2 200 OK\r\n\r\n{}",
    "http-9": b"{\"Id\":1}",
    "icy": b"ICY 200 OK\r\n\r\n{}",
    "binary": bytes(range(256)) * 8,
    "no-colon": b"HTTP/1.1 200 OK\r\nContent-Type application/json\r\n\r\n{}",
    "nul": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\0\r\n\r\n{}",
    "html": answer(text(WELL), kind="text/html"),
    "untyped": answer(text(WELL), kind=None),
    "not-json": answer(b"<html>\x1b[31mred</html>"),
    "empty": answer(b""),
    "deep": answer(deep(100)),
    "deeper": answer(deep(1000000)),
    "many": answer(b"[" + b"[]," * 200000 + b"[]]"),
    "keys": answer(b'{"Id":"%s","Id":"%s","State":{}}' % (ID.encode(), ID.encode())),
    "zero": answer(b'{"Id":"\\u0000","State":{}}'),
    "utf-8": answer(b'{"Id":"\xff\xfe","State":{}}'),
    "surrogate": answer(b'{"Id":"\\ud800","State":{}}'),
    "number": answer(b'{"Id":1e999,"State":{}}'),
    "behind": answer(text(WELL) + b"{}"),
    "array": answer(b"[]"),
    "stateless": answer(text({"Id": ID})),
    "traversal": answer(text({"Id": "../../images/x" + "0" * 50, "State": {}})),
    "upper": answer(text({"Id": ID.upper(), "State": {}})),
    "refusal": answer(text({"message": "no \x1b[31mred\nand \u202e " + "x" * 5000}), "500 Broken"),
    "refusal-html": answer(b"<html>\x00\x1b]0;title\x07", "502 Bad Gateway", kind="text/html"),
    "refusal-empty": answer(b"", "500 Broken", kind=None),
    "refusal-odd": answer(text({"message": {"a": 1}}), "500 Broken"),
    "refusal-deep": answer(deep(60000)[:60000], "500 Broken"),
    "missing": answer(text({"message": "No such container: missing"}), "404 None"),
    "unauthorized": answer(text({"message": "authorization denied by plugin"}), "403 Forbidden"),
}


def container(connection, name):
    """GET /containers/NAME/json"""
    word, _, rest = name.rpartition("-")
    if name in FIXED:
        connection.sendall(FIXED[name])
    elif word == "cut":
        connection.sendall(GOOD[:int(rest)])
    elif word == "cutchunk":
        connection.sendall(GOOD_CHUNKED[:int(rest)])
    elif name == "hang":
        time.sleep(60)
    elif name == "hang-in-head":
        connection.sendall(GOOD[:30])
        time.sleep(60)
    elif name == "hang-in-body":
        connection.sendall(GOOD[:-5])
        time.sleep(60)
    elif name == "slow":
        for byte in GOOD:
            connection.sendall(bytes([byte]))
            time.sleep(0.1)
    elif name == "head-line":
        flood(connection, b"HTTP/1.1 200 OK\r\nX: ", b"x" * 4096)
    elif name == "head-lines":
        flood(connection, b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100)
    elif name == "head-continue":
        flood(connection, b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
    elif name == "body-endless":
        flood(connection, chunked_answer(b""), chunked(b" " * 65536, 65536, b""))
    elif name == "body-until-close":
        flood(connection, answer(b"", length=False), b" " * 65536)
    elif name == "refusal-endless":
        flood(connection, answer(b"", "500 Broken", length=False), b" " * 65536)
    elif name == "chunk-extension":
        flood(connection, chunked_answer(b"2;"), b"x" * 4096)
    elif name == "trailers":
        flood(connection, chunked_answer(chunked(text(WELL), end=b"0\r\n")), b"X: y\r\n" * 100)
    elif name == "reset":
        connection.sendall(GOOD[:-5])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    else:
        connection.sendall(answer(text({"message": "No such container: " + name}), "404 None"))


def stopped_at_once(connection, verb, name):
    """POST /containers/NAME/VERB, DELETE /containers/NAME: all are refused as the name says."""
    status = {"refused": "500 Broken", "conflict": "409 Conflict", "not-modified": "304 Same"}.get(name, "404 None")
    connection.sendall(answer(text({"message": f"{verb} of {name}"}), status))


def create(connection, name):
    made = {
        "made": ("201 Created", {"Id": ID, "Warnings": ["one", "two"]}),
        "made-null": ("201 Created", {"Id": ID, "Warnings": None}),
        "made-odd": ("201 Created", {"Id": ID, "Warnings": [1]}),
        "made-many": ("201 Created", {"Id": ID, "Warnings": ["x"] * 1000}),
        "made-evil": ("201 Created", {"Id": "../" + ID[3:], "Warnings": []}),
        "made-short": ("201 Created", {"Id": ID[1:], "Warnings": []}),
        "made-200": ("200 OK", {"Id": ID, "Warnings": []}),
        "taken": ("409 Conflict", {"message": "name in use"}),
        "imageless": ("404 None", {"message": "No such image"}),
        "invalid": ("400 Bad", {"message": "invalid value"}),
    }
    status, body = made.get(name, ("500 Broken", {"message": "what is that"}))
    connection.sendall(answer(text(body), status))


ARCHIVE = bytes(10240)


def archive(connection, name):
    fixed = {
        "tar": answer(ARCHIVE, kind="application/x-tar"),
        "tar-cut": answer(ARCHIVE, kind="application/x-tar", length=20480),
        "tar-chunk-cut": answer(b"", kind="application/x-tar", more=("Transfer-Encoding: chunked",), length=False) +
        chunked(ARCHIVE, 1000, b""),
        "tar-typed": answer(ARCHIVE, kind="text/html"),
        "tar-refused": answer(text({"message": "no"}), "500 Broken"),
    }
    if name == "tar-endless":
        flood(connection, answer(b"", kind="application/x-tar", length=False), bytes(65536))
    elif name == "tar-stalls":
        connection.sendall(answer(ARCHIVE, kind="application/x-tar", length=20480))
        time.sleep(60)
    else:
        connection.sendall(fixed.get(name, answer(text({"message": "Could not find the file"}), "404 None")))


EXECS = [
    "echo", "echo-200", "bytewise", "errors", "bad-stream", "bad-pad", "bad-long", "cut-frame", "cut-head",
    "typed", "length", "refused", "refused-409", "endless-head", "status", "nothing", "hang", "flood", "half-head",
    "large-head", "late",
]


def exec_created(connection, name):
    if name == "exec-evil":
        connection.sendall(answer(text({"Id": "../../x"}), "201 Created"))
    elif name == "exec-stopped":
        connection.sendall(answer(text({"message": "Container exec-stopped is not running"}), "409 Conflict"))
    elif name.startswith("exec-") and name[5:] in EXECS:
        connection.sendall(answer(text({"Id": "%064x" % EXECS.index(name[5:])}), "201 Created"))
    else:
        connection.sendall(answer(text({"message": "No such container"}), "404 None"))


def echo(connection, reader, pieces):
    while True:
        data = reader(65536)
        if not data:
            return
        for piece in pieces(frame(1, data)):
            connection.sendall(piece)


def one_piece(data):
    return [data]


def exec_started(connection, reader, name):
    upgraded = answer(b"", "101 UPGRADED", kind=STREAM, more=("Connection: Upgrade", "Upgrade: tcp"), length=False)
    hello = frame(1, b"hello ")
    fixed = {
        "errors": upgraded + frame(2, b"error") + hello + frame(2, b"") + frame(0, b"in") + frame(1, b"world"),
        "bad-stream": upgraded + hello + frame(7, b"x") + frame(1, b"world"),
        "bad-pad": upgraded + hello + b"\1\1\0\0\0\0\0\1x",
        "bad-long": upgraded + hello + b"\1\0\0\0\xff\xff\xff\xff" + b"x" * 100,
        "cut-frame": upgraded + hello + frame(1, b"world")[:-2],
        "cut-head": upgraded + hello + frame(1, b"world")[:5],
        "typed": answer(b"", "101 UPGRADED", kind="text/html", length=False),
        "length": answer(b"", "101 UPGRADED", kind=STREAM, length=5) + b"12345",
        "refused": answer(text({"message": "no \x1b[1m such process"}), "500 Broken"),
        "refused-409": answer(text({"message": "is paused"}), "409 Conflict"),
        "status": answer(b"", "204 None", kind=None, length=False),
        "nothing": b"",
        "half-head": upgraded[:20],
        "large-head": b"HTTP/1.1 101 UPGRADED\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
    }
    if name in fixed:
        connection.sendall(fixed[name])
    elif name in ("echo", "echo-200"):
        if name == "echo-200":
            upgraded = answer(b"", kind=STREAM, length=False)
        # frames behind the head in one piece
        connection.sendall(upgraded + hello)
        echo(connection, reader, one_piece)
    elif name == "bytewise":
        connection.sendall(upgraded)
        echo(connection, reader, lambda data: [data[i:i + 1] for i in range(len(data))])
    elif name == "endless-head":
        flood(connection, b"HTTP/1.1 101 UPGRADED\r\nX: ", b"x" * 4096)
    elif name == "hang":
        time.sleep(60)
    elif name == "late":
        connection.sendall(upgraded)
        time.sleep(60)
    elif name == "flood":
        flood(connection, upgraded, frame(1, b"x" * 65528))


def load(connection, ref):
    reports = {
        "name": [{"stream": "Loaded image: test/a:1\n"}],
        "id": [{"status": "x"}, {"stream": f"Loaded image ID: sha256:{ID}\n"}],
        "error": [{"stream": "Loaded image: test/a:1\n"}, {"errorDetail": {"message": "x"}, "error": "no \x1b space"}],
        "silent": [{"stream": "done"}],
        "evil": [{"stream": "Loaded image: ../../x\n"}],
    }
    body = b"\r\n".join(text(r) for r in reports.get(ref, []))
    if ref == "garbage":
        body = b'{"stream":"a"}garbage'
    connection.sendall(answer(body))


class Session:
    """One connection: reads requests, answers each as its path says."""

    def __init__(self, connection, version):
        self.connection = connection
        self.version = version
        self.rest = b""

    def read(self, n):
        if self.rest:
            data, self.rest = self.rest[:n], self.rest[n:]
            return data
        return self.connection.recv(n)

    def line(self):
        while b"\n" not in self.rest:
            data = self.connection.recv(65536)
            if not data:
                raise Gone
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return line.rstrip(b"\r").decode()

    def body(self, fields):
        if fields.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                n = int(self.line(), 16)
                body += self.exactly(n)
                self.line()
                if n == 0:
                    return body
        return self.exactly(int(fields.get("content-length", "0")))

    def exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.read(n - len(data))
            if not part:
                raise Gone
            data += part
        return data

    def one(self):
        method, path, _ = self.line().split(" ")
        fields = {}
        while line := self.line():
            key, _, value = line.partition(":")
            fields[key.lower()] = value.strip()
        body = b""
        if "put" not in path:
            body = self.body(fields)
        requests.append({"method": method, "path": path, "fields": fields, "body": body.decode("latin-1")})
        self.route(method, path)
        return path.endswith("/version") and not self.version

    def route(self, method, path):
        path, _, query = path.partition("?")
        parts = path.split("/")
        names = dict(p.split("=", 1) for p in query.split("&") if "=" in p)
        if path == "/version":
            return self.say_version()
        parts = parts[2:]
        if parts[0] == "requests":
            return self.connection.sendall(answer(text(requests)))
        if parts == ["containers", "create"]:
            return create(self.connection, names["name"])
        if parts == ["containers", "json"]:
            return self.connection.sendall(answer(text([{"Id": "../x"}] if "evil" in query else [{"Id": ID}])))
        if parts[0] == "containers" and parts[2:] == ["json"]:
            return container(self.connection, parts[1])
        if parts[0] == "containers" and parts[2:] == ["changes"]:
            return self.changes(parts[1])
        if parts[0] == "containers" and parts[2:] == ["archive"]:
            return archive(self.connection, parts[1])
        if parts[0] == "containers" and parts[2:] == ["exec"]:
            return exec_created(self.connection, parts[1])
        if parts[0] == "exec" and parts[2:] == ["start"]:
            return exec_started(self.connection, self.read, EXECS[int(parts[1], 16)])
        if parts[0] == "exec":
            return self.connection.sendall(answer(text({"Running": False, "ExitCode": 7, "Pid": 0})))
        if parts == ["images", "load"]:
            return load(self.connection, requests[-1]["body"].strip())
        if parts == ["commit"]:
            made = {"bare": ID, "evil": "sha256:../x"}.get(names["container"], "sha256:" + ID)
            return self.connection.sendall(answer(text({"Id": made}), "201 Created"))
        if parts == ["info"]:
            return self.connection.sendall(answer(text({"Driver": "x\x1b[1m", "Runtimes": {"a b": {}, "z": {}, "a": {}}})))
        if parts[0] == "images":
            return self.connection.sendall(answer(text({"message": "No such image"}), "404 None"))
        return stopped_at_once(self.connection, method, parts[1] if len(parts) > 1 else "")

    def changes(self, name):
        body = {
            "null": b"null",
            "some": text([{"Path": "/a", "Kind": 1}]),
            "relative": text([{"Path": "a", "Kind": 1}]),
            "kind": text([{"Path": "/a", "Kind": 9}]),
            "large": text([{"Path": "/%080d" % i, "Kind": 1} for i in range(60000)]),
        }.get(name, b"{}")
        self.connection.sendall(answer(body))

    def say_version(self):
        v = dict(VERSION)
        word = self.version
        if word == "old":
            v["ApiVersion"] = "1.40"
        elif word == "new":
            v.update(ApiVersion="1.99", MinAPIVersion="1.44")
        elif word == "newer":
            v.update(ApiVersion="1.99", MinAPIVersion="1.98")
        elif word == "odd":
            v["ApiVersion"] = "1.41/../../x"
        elif word == "two":
            v["ApiVersion"] = "2.0"
        elif word == "none":
            del v["ApiVersion"]
        elif word == "podman":
            v["Components"] = [{"Name": "Podman Engine"}]
        elif word == "garbage":
            return self.connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        elif word == "teapot":
            return self.connection.sendall(answer(b"<html>who are you", "404 Not Found", kind="text/html"))
        elif word == "header":
            return self.connection.sendall(answer(text(v), more=("Libpod-API-Version: 4.3.1",)))
        elif word == "hang":
            time.sleep(60)
        return self.connection.sendall(answer(text(v)))

    def run(self):
        try:
            # the version is asked for on the same connection
            while self.one():
                pass
            if isinstance(self.connection, ssl.SSLSocket):
                self.connection.unwrap()
        except (Gone, OSError, ValueError, KeyError, IndexError):
            pass
        finally:
            self.connection.close()


def serve(listener, version="", context=None):
    def greet(connection):
        try:
            if context:
                connection = context.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        Session(connection, version).run()

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=greet, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen(16)
    return s


def tcp(family=socket.AF_INET, address="127.0.0.1"):
    s = socket.socket(family)
    s.bind((address, 0))
    s.listen(16)
    return s


def tls(certificates, name, version=ssl.TLSVersion.TLSv1_3):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    if version < ssl.TLSVersion.TLSv1_2:
        context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(f"{certificates}/{name}.pem", f"{certificates}/{name}-key.pem")
    context.load_verify_locations(f"{certificates}/ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def main():
    directory = sys.argv[1]
    ports = {}
    serve(unix(f"{directory}/sock"))
    for word in ("old", "new", "newer", "odd", "two", "none", "podman", "garbage", "teapot", "header", "hang"):
        serve(unix(f"{directory}/version-{word}"), word)
    # it listens, and never takes a connection: the queue of one is filled from here
    full = socket.socket(socket.AF_UNIX)
    full.bind(f"{directory}/full")
    full.listen(0)
    waiting = []
    for _ in range(2):
        s = socket.socket(socket.AF_UNIX)
        s.setblocking(False)
        try:
            s.connect(f"{directory}/full")
        except BlockingIOError:
            pass
        waiting.append(s)
    listener = tcp()
    ports["plain"] = listener.getsockname()[1]
    serve(listener)
    try:
        listener = tcp(socket.AF_INET6, "::1")
        ports["plain6"] = listener.getsockname()[1]
        serve(listener)
    except OSError:
        pass
    if len(sys.argv) > 2:
        kinds = [("good", "server", ssl.TLSVersion.TLSv1_3), ("good12", "server", ssl.TLSVersion.TLSv1_2),
                 ("tls11", "server", ssl.TLSVersion.TLSv1_1), ("expired", "server-expired", ssl.TLSVersion.TLSv1_3),
                 ("othername", "server-othername", ssl.TLSVersion.TLSv1_3), ("rogue", "server-rogue", ssl.TLSVersion.TLSv1_3)]
        for kind, name, version in kinds:
            listener = tcp()
            ports[kind] = listener.getsockname()[1]
            serve(listener, context=tls(sys.argv[2], name, version))
    with open(f"{directory}/ports.new", "w", encoding="ascii") as f:
        for key, value in ports.items():
            f.write(f"{key}={value}\n")
    os.rename(f"{directory}/ports.new", f"{directory}/ports")
    sys.stdin.read()
    return len(waiting) != 2


if __name__ == "__main__":
    sys.exit(main())
