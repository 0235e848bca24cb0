#!/usr/bin/env python3
"""usage: hostile.py DIR OUTSIDE
Writes archives that `bailey image import` must refuse into DIR, each NAME.tar (or .tar.gz), and a table to standard
output: NAME, the reason expected, and the flags to import it with.  OUTSIDE is a directory that some of them try to write
to.  A name that begins with 'l-' is a layer of an OCI image, with 't-' a bare tree, with 'i-' an image whose own words are
wrong, with 'd-' an archive of `docker save`."""
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

out, outside = sys.argv[1:3]
TYPES = {
    "manifest": "application/vnd.oci.image.manifest.v1+json",
    "index": "application/vnd.oci.image.index.v1+json",
    "config": "application/vnd.oci.image.config.v1+json",
    "layer": "application/vnd.oci.image.layer.v1.tar",
}
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def entry(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644, uid=0, pax=None, size=None):
    t = tarfile.TarInfo(name)
    t.type, t.linkname, t.mode, t.uid, t.gid = kind, link, mode, uid, uid
    t.size = len(data) if size is None else size
    t.pax_headers = pax or {}
    return t, data


def tar(entries, end=True):
    """Bytes of a pax tar; entries are (TarInfo, bytes) or raw bytes."""
    b = io.BytesIO()
    for e in entries:
        if isinstance(e, bytes):
            b.write(e)
            continue
        info, data = e
        b.write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        b.write(data + b"\0" * (-len(data) % 512))
    if end:
        b.write(b"\0" * 1024)
    return b.getvalue()


def sha(data):
    return hashlib.sha256(data).hexdigest()


def d(name, mode=0o755):
    return entry(name, kind=tarfile.DIRTYPE, mode=mode)


def link(name, target):
    return entry(name, kind=tarfile.SYMTYPE, link=target)


def hard(name, target):
    return entry(name, kind=tarfile.LNKTYPE, link=target)


BASE = [d("bin"), entry("bin/sh", b"sh\n", mode=0o755), d("etc"), entry("etc/passwd", b"root:x:0:0::/:/bin/sh\n")]


def put(name, data, reason, flags=""):
    path = os.path.join(out, name)
    with open(path, "wb") as f:
        f.write(data)
    print(name, reason, flags)


def tree(name, entries, reason="archive_refused", flags="", end=True):
    put("t-" + name + ".tar", tar(BASE + entries, end), reason, flags)


class Layout:
    """An OCI layout in a tar; what is said of it can be bent before it is written."""

    def __init__(self, *layers):
        self.files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
        self.config = {"architecture": ARCH, "os": "linux", "config": {"Env": None, "Cmd": ["sh"]},
                       "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(x) for x in layers]}}
        self.layers = [self.blob(x, "layer") for x in layers]
        self.raw_config = None
        self.index_extra = []
        self.bend_manifest = lambda m: m
        self.bend_descriptor = lambda x: x

    def blob(self, data, kind):
        self.files["blobs/sha256/" + sha(data)] = data
        return {"mediaType": TYPES[kind], "digest": "sha256:" + sha(data), "size": len(data)}

    def tar(self):
        config = self.blob(self.raw_config or json.dumps(self.config).encode(), "config")
        m = self.bend_manifest({"schemaVersion": 2, "mediaType": TYPES["manifest"], "config": config,
                                "layers": self.layers})
        m = m if isinstance(m, bytes) else json.dumps(m).encode()
        one = self.bend_descriptor(self.blob(m, "manifest"))
        self.files["index.json"] = json.dumps(
            {"schemaVersion": 2, "manifests": [x for x in [one] + self.index_extra if x]}).encode()
        return tar([entry(n, x) for n, x in self.files.items()])


def layer(name, entries, reason="archive_refused"):
    put("l-" + name + ".tar", Layout(tar(BASE), tar(entries)).tar(), reason)


def trees():
    tree("absolute", [entry(outside + "/absolute", b"x")])
    tree("dotdot", [entry("a/../../../../../../../.." + outside + "/dotdot", b"x")])
    tree("dotdot-only", [d("..")])
    tree("link-then-file", [link("door", outside), entry("door/through", b"x")])
    tree("link-chain", [link("a", "b"), link("b", outside), entry("a/through", b"x")])
    tree("link-inside-then-file", [link("door", "etc"), entry("door/through", b"x")])
    tree("file-then-below", [entry("f", b"x"), entry("f/g", b"x")])
    tree("hardlink-absolute", [hard("h", outside + "/canary"), entry("h", b"x")])
    tree("hardlink-dotdot", [hard("h", "../../../../../../../../.." + outside + "/canary")])
    tree("hardlink-through-link", [link("door", outside), hard("h", "door/canary")])
    tree("hardlink-missing", [hard("h", "not/there")])
    tree("hardlink-to-directory", [hard("h", "etc")])
    tree("hardlink-to-itself", [hard("h", "h")])
    tree("root-is-a-link", [entry(".", kind=tarfile.SYMTYPE, link=outside)])
    tree("deep", [d("/".join(["d"] * 150))])
    tree("long-part", [entry("n" * 300, b"x")])
    tree("long-path", [entry("/".join(["p" * 200] * 25), b"x")])
    tree("link-to-nothing", [link("l", "")])
    tree("pax-path", [entry("ok", b"x", pax={"path": outside + "/through"})])
    tree("pax-linkpath", [entry("h", kind=tarfile.LNKTYPE, link="ok", pax={"linkpath": outside + "/canary"})])
    tree("unfinished", [entry("f", b"x" * 100, size=100000)], end=False)
    tree("size-huge", [entry("f", b"x", size=1 << 62)], "archive_too_large", end=False)
    tree("sparse-huge", [entry("f", b"1\n0\n1\n" + b"\0" * 506 + b"x", pax={
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "f",
        "GNU.sparse.realsize": str(1 << 50)})], "archive_too_large")
    tree("over-max-size", [entry("f", b"x" * 3000000)], "archive_too_large", "--max-size 2m")
    raw = bytearray(tar(BASE))
    raw[512 + 20] ^= 1  # in the name of the second entry
    put("t-checksum.tar", bytes(raw), "archive_refused")
    put("t-truncated.tar", tar(BASE + [entry("f", b"x" * 5000)])[:-4000], "archive_refused")
    put("t-truncated.tar.gz", gzip.compress(tar(BASE + [entry("f", os.urandom(5000))]))[:-2000], "archive_refused")
    put("t-noise.tar", os.urandom(4096), "archive_refused")
    put("t-empty.tar", b"", "archive_refused")
    # as it unfolds it grows a thousandfold
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb", mtime=0) as z:
        z.write(tar(BASE, False) + entry("f", size=400 << 20)[0].tobuf(tarfile.PAX_FORMAT))
        for _ in range(400):
            z.write(b"\0" * (1 << 20))
        z.write(b"\0" * 1024)
    put("t-bomb.tar.gz", bomb.getvalue(), "archive_too_large")


def layers():
    layer("whiteout-empty", [entry(".wh.", b"")])
    layer("whiteout-dot", [entry("etc/.wh..", b"")])
    layer("whiteout-dotdot", [entry("etc/.wh...", b"")])
    layer("whiteout-directory", [d("etc/.wh.passwd")])
    layer("whiteout-below", [entry("etc/.wh.x/passwd", b"")])
    layer("whiteout-link", [link("etc/.wh.passwd", outside)])
    layer("whiteout-unknown", [entry("etc/.wh..wh.what", b"")])
    layer("whiteout-through-link", [link("door", outside), entry("door/.wh.canary", b"")])
    layer("opaque-through-link", [link("door", outside), entry("door/.wh..wh..opq", b"")])
    layer("opaque-link", [link("etc/.wh..wh..opq", outside)])
    layer("whiteout-dotdot-path", [entry("etc/../.wh.bin", b"")])
    layer("link-then-file", [link("etc/door", outside), entry("etc/door/through", b"x")])
    layer("parent-not-named", [entry("door/through", b"x")], "ok")
    lower = Layout(tar(BASE + [link("door", outside)]), tar([entry("door/through", b"x")]))
    put("l-through-link-of-below.tar", lower.tar(), "archive_refused")
    lower = Layout(tar(BASE + [link("door", outside)]), tar([entry("door/.wh.canary", b"")]))
    put("l-whiteout-through-link-of-below.tar", lower.tar(), "archive_refused")


def images():
    one = tar(BASE)

    def image(name, reason, bend):
        x = Layout(one)
        x = bend(x) or x
        put("i-" + name + ".tar", x.tar(), reason)

    def lie(x):
        x.files["blobs/sha256/" + sha(one)] = tar(BASE + [entry("extra", b"x")])

    def diff_lie(x):
        x.config["rootfs"]["diff_ids"] = ["sha256:" + "0" * 64]

    def size_lie(x):
        x.layers[0]["size"] += 1

    def manifest_lie(x):
        x.bend_descriptor = lambda m: dict(m, size=m["size"] + 1)

    def config_lie(x):
        x.bend_manifest = lambda m: dict(m, config=dict(m["config"], digest="sha256:" + sha(one), size=len(one)))

    def missing(x):
        del x.files["blobs/sha256/" + sha(one)]

    def media(kind):
        def bend(x):
            x.layers[0]["mediaType"] = kind
        return bend

    def gzip_lie(x):
        packed = gzip.compress(one, mtime=0)
        x.layers = [dict(x.blob(packed, "layer"))]

    def set_config(**words):
        def bend(x):
            x.config.update(words)
        return bend

    def set_run(**words):
        def bend(x):
            x.config["config"].update(words)
        return bend

    def raw(text):
        def bend(x):
            x.raw_config = text
        return bend

    def other_digest(x):
        x.layers[0]["digest"] = "sha512:" + "0" * 128

    def path_digest(x):
        x.layers[0]["digest"] = "sha256:../../../../../../../.." + outside + "/canary"

    def loop(x):
        inner = json.dumps({"schemaVersion": 2, "manifests": []}).encode()
        for _ in range(8):
            inner = json.dumps({"schemaVersion": 2, "manifests": [x.blob(inner, "index")]}).encode()
        x.bend_descriptor = lambda m: x.blob(inner, "index")

    def foreign(x):
        x.bend_descriptor = lambda m: dict(m, platform={"os": "linux", "architecture": "s390x"})

    def several(x):
        x.index_extra = [x.blob(b"{}", "manifest")]

    def many_layers(x):
        x.layers = x.layers * 300

    image("layer-lie", "digest_mismatch", lie)
    image("diff-id-lie", "digest_mismatch", diff_lie)
    image("size-lie", "digest_mismatch", size_lie)
    image("manifest-size-lie", "digest_mismatch", manifest_lie)
    image("config-is-the-layer", "image_invalid", config_lie)
    image("layer-missing", "image_invalid", missing)
    image("media-unknown", "image_invalid", media("application/x-tar"))
    image("media-foreign", "image_invalid", media("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"))
    image("media-of-config", "image_invalid", media(TYPES["config"]))
    image("media-says-gzip", "image_invalid", media(TYPES["layer"] + "+gzip"))
    image("packed-unsaid", "digest_mismatch", lambda x: (gzip_lie(x), diff_lie(x))[1] and None)
    image("packed-as-plain", "image_invalid", gzip_lie)
    image("sha512", "image_invalid", other_digest)
    image("digest-is-a-path", "image_invalid", path_digest)
    image("index-loop", "image_invalid", loop)
    image("other-machine", "image_invalid", foreign)
    image("other-machine-in-config", "image_invalid", set_config(architecture="s390x"))
    image("other-system", "image_invalid", set_config(os="windows"))
    image("several", "image_invalid", several)
    image("many-layers", "image_invalid", many_layers)
    image("layers-unnamed", "image_invalid", set_config(rootfs={"type": "layers", "diff_ids": []}))
    image("env-without-name", "image_invalid", set_run(Env=["=x"]))
    image("env-control", "image_invalid", set_run(Env=["A\nB=x"]))
    image("env-is-text", "image_invalid", set_run(Env="A=b"))
    image("cmd-of-numbers", "image_invalid", set_run(Cmd=[1, 2]))
    image("workdir-relative", "image_invalid", set_run(WorkingDir="etc"))
    image("workdir-dotdot", "archive_refused", set_run(WorkingDir="/etc/../.."))
    image("user-unknown", "image_invalid", set_run(User="nobody-here"))
    image("user-large", "image_invalid", set_run(User="4294967295"))
    image("group-unknown", "image_invalid", set_run(User="root:none"))
    image("json-cut", "image_invalid", raw(b'{"architecture":'))
    image("json-deep", "image_invalid", raw(b"[" * 100000 + b"]" * 100000))
    image("json-twice", "image_invalid", raw(
        b'{"os":"linux","os":"linux","architecture":"%s"}' % ARCH.encode()))
    image("json-nul", "image_invalid", raw(b'{"os":"linux\\u0000"}'))
    image("json-large", "image_invalid", raw(b" " * (9 << 20)))

    def passwd(content):
        return Layout(tar([d("bin"), entry("bin/sh", b"x"), d("etc"), content]))

    for name, content in (
            ("passwd-link", link("etc/passwd", outside + "/passwd")),
            ("passwd-directory", d("etc/passwd")),
            ("passwd-large", entry("etc/passwd", b"x:x:1:1\n" * 200000))):
        x = passwd(content)
        x.config["config"]["User"] = "daemon"
        put("i-" + name + ".tar", x.tar(), "image_invalid")


def saved():
    one = tar(BASE)
    config = json.dumps({"architecture": ARCH, "os": "linux", "config": {}, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + sha(one)]}}).encode()

    def save(name, reason, manifest, entries=(), files=None, flags=""):
        files = files or {sha(config) + ".json": config, "a" * 64 + "/layer.tar": one}
        manifest = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        put("d-" + name + ".tar", tar([entry(n, x) for n, x in files.items()] + list(entries) +
                                      [entry("manifest.json", manifest)]), reason, flags)

    good = {"Config": sha(config) + ".json", "RepoTags": ["x:1"], "Layers": ["a" * 64 + "/layer.tar"]}
    save("good", "ok", [good])
    save("config-lie", "digest_mismatch", [dict(good, Config="b" * 64 + ".json")],
         files={"b" * 64 + ".json": config, "a" * 64 + "/layer.tar": one})
    save("layer-lie", "digest_mismatch", [good],
         files={sha(config) + ".json": config, "a" * 64 + "/layer.tar": tar(BASE + [d("x")])})
    save("path-dotdot", "archive_refused", [dict(good, Layers=["../../../../../.." + outside + "/canary"])])
    save("path-absolute", "archive_refused", [dict(good, Layers=[outside + "/canary"])])
    save("layer-missing", "image_invalid", [dict(good, Layers=["c" * 64 + "/layer.tar"])])
    save("twice", "archive_refused", [good], [entry("manifest.json", b"[]")])
    save("link-out", "archive_refused", [dict(good, Layers=["d" * 64 + "/layer.tar"])],
         [link("d" * 64 + "/layer.tar", "../../.." + outside + "/canary")])
    save("link-loop", "image_invalid", [dict(good, Layers=["d" * 64 + "/layer.tar"])],
         [link("d" * 64 + "/layer.tar", "../" + "d" * 64 + "/layer.tar")])
    save("link-of-layer", "ok", [dict(good, Layers=["d" * 64 + "/layer.tar"])],
         [link("d" * 64 + "/layer.tar", "../" + "a" * 64 + "/layer.tar")])
    save("layers-few", "image_invalid", [dict(good, Layers=[])])
    save("no-list", "image_invalid", {"Config": "x"})
    save("several", "image_invalid", [good, good])
    save("tag-unknown", "image_not_found", [good], flags="--ref y:1")


if __name__ == "__main__":
    trees()
    layers()
    images()
    saved()
