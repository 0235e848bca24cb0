#!/usr/bin/env bash
# usage: tests/docker/sweep.sh
# What a sweep removes of a home's containers and run directories, and what it leaves; that a failure is in the audit log, and
# that a home without sandboxes asks no daemon.  Against a private daemon, and against one that answers what it is told to.
# Needs root, python3 and what tests/lib/docker.sh names; BAILEY is the program, or the staged one.
set -eu
export LC_ALL=C.UTF-8
unset CDPATH DOCKER_HOST DOCKER_CERT_PATH DOCKER_TLS_VERIFY CONTAINER_HOST

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
BAILEY=$(realpath "${BAILEY:-${BAILEY_STAGE:-$root/build/stage}/bin/bailey}")
engine=$(dirname "$BAILEY")/../libexec/bailey/bailey-engine-docker
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/docker.sh"

T='' fake_pid=''

# shellcheck disable=SC2317 # by trap
cleanup() {
	cd /
	[ -z "$fake_pid" ] || end_pid "$fake_pid"
	stop_docker
	[ -z "$T" ] || rm -rf --one-file-system "$T"
}

old=$((($(date +%s) - 700) * 1000)) recent=$((($(date +%s) - 300) * 1000))

# FNV-1a of the path, as base/home.c has it.
hash_of() { # PATH
	local h=2166136261 i
	for ((i = 0; i < ${#1}; i++)); do
		h=$((((h ^ $(printf %d "'${1:i:1}")) * 16777619) & 0xffffffff))
	done
	printf '%08x\n' "$h"
}

# A container of that home: NAME, its id in $made; the rest are labels.
put() { # HOME start|create LABEL...
	local home=$1 verb=$2 words=() label
	shift 2
	for label in "$@"; do
		words+=(--label "$label")
	done
	made=$(docker create --network none --label "bailey.home=$home" "${words[@]}" test/busybox:1 \
		/bin/sleep 300)
	[ "$verb" = create ] || docker start "$made" >/dev/null
}

stays() { # NAME CONTAINER
	is "$1" "$2" "$(docker ps -aq --no-trunc | grep -F "$2" || true)"
}

goes() { # NAME CONTAINER
	is "$1" '' "$(docker ps -aq --no-trunc | grep -F "$2" || true)"
}

last_audit() {
	[ ! -e "$BAILEY_HOME/security_audit.jsonl" ] || tail -n 1 "$BAILEY_HOME/security_audit.jsonl"
}

audited() { # NAME REASON COUNT
	like "$1: the audit log says so" \
		"*task_sandbox_cleanup_failed*\"reason\":\"$2\",\"count\":$3*" "$(last_audit)"
}

real_daemon() {
	local kept foreign ended overdue late unreadable many=() dir
	start_docker "$T/daemon"
	# shellcheck disable=SC2119
	import_busybox
	put "$hash" start bailey.id=0000000000000001 "bailey.deadline=$old"
	overdue=$made
	put "$hash" start bailey.id=0000000000000002 "bailey.deadline=$recent"
	late=$made
	put "$hash" start bailey.id=0000000000000003 bailey.deadline=soon
	unreadable=$made
	put "$hash" start bailey.id=0000000000000004
	kept=$made
	put 0badc0de start bailey.id=0000000000000005 "bailey.deadline=$old"
	foreign=$made
	put "$hash" start bailey.id=0000000000000006
	ended=$made
	docker kill "$ended" >/dev/null
	mkdir -p "$runs/000000000000000a" "$runs/000000000000000b"
	for dir in "$runs"/*; do
		printf 'id %s\nname \nstate lost\nengine docker\nowner_pid 0\nstopped_ms 1\n' "${dir##*/}" \
			>"$dir/meta"
	done
	touch -d '-20 minutes' "$runs/000000000000000a"

	try "$engine" sweep
	is 'nothing was ever made here: status' 0 "$rc"
	stays 'nothing was ever made here: no daemon was asked' "$overdue"
	touch "$BAILEY_HOME/sandbox/docker"
	try "$engine" sweep
	is 'sweep' 0 "$rc"
	goes '700 seconds over its time' "$overdue"
	goes 'ended' "$ended"
	stays '300 seconds over its time' "$late"
	stays 'a time that is no number' "$unreadable"
	stays 'no time at all' "$kept"
	stays 'of another home' "$foreign"
	holds 'an old directory without a container goes' test ! -e "$runs/000000000000000a"

	put "$hash" create bailey.id=not-an-id
	put "$hash" create bailey.id=0000000000000007
	ended=$made
	try "$engine" sweep
	is 'one entry of another form: status' 5 "$rc"
	stays 'one entry of another form: nothing is removed' "$ended"
	audited 'one entry of another form' list_invalid 1
	mapfile -t many < <(docker ps -aq)
	docker rm -f "${many[@]}" >/dev/null
	stop_docker
	try "$engine" sweep
	is 'no daemon: status' 5 "$rc"
	audited 'no daemon' docker_unreachable 1
}

# A list with COUNT containers that ended, of which none can be removed.
scripted() { # list|garbage COUNT
	[ -z "$fake_pid" ] || end_pid "$fake_pid"
	rm -f "$T/fake.sock" "$T/fake.log"
	python3 -W ignore - "$T/fake.sock" "$1" "$2" "$hash" >"$T/fake.log" <<'END' &
import json, os, socket, sys
path, kind, count, home = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
s = socket.socket(socket.AF_UNIX)
s.bind(path)
s.listen(64)
while True:
    c, _ = s.accept()
    r = c.makefile("rb")
    while True:
        line = r.readline().decode().split()
        if not line:
            break
        while r.readline() not in (b"\r\n", b""):
            pass
        status, body = "200 OK", "{}"
        if line[1].endswith("/version"):
            body = json.dumps({"ApiVersion": "1.41", "Version": "20.10.24", "MinAPIVersion": "1.12"})
        elif line[1].endswith("/_ping"):
            body = "OK"
        elif "/containers/json" in line[1]:
            body = "[{" if kind == "garbage" else json.dumps([{
                "Id": "%064x" % i, "State": "exited",
                "Labels": {"bailey.id": "%016x" % i, "bailey.home": home}} for i in range(count)])
        elif line[0] == "DELETE":
            print(line[1], flush=True)
            status, body = "500 Internal Server Error", json.dumps({"message": "busy"})
        elif "/images/json" in line[1]:
            body = "[]"
        data = body.encode()
        c.sendall(("HTTP/1.1 %s\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                   % (status, len(data))).encode() + data)
    c.close()
END
	fake_pid=$!
	until_true 100 test -S "$T/fake.sock"
	export DOCKER_HOST=unix://$T/fake.sock
}

fake_daemon() {
	scripted garbage 0
	try "$engine" sweep
	is 'a list that is garbage: status' 5 "$rc"
	audited 'a list that is garbage' list_invalid 1
	is 'a list that is garbage: nothing is removed' 0 "$(wc -l <"$T/fake.log")"
	scripted list 300
	try "$engine" sweep
	holds 'none can be removed: it fails' test "$rc" -ne 0
	is 'none can be removed: 256 are tried' 256 "$(wc -l <"$T/fake.log")"
	audited 'none can be removed' container_remove_failed 256
}

# shellcheck disable=SC2119 # without options
have_docker || {
	skip docker 'no dockerd here, or no root'
	finish
	exit 0
}
trap cleanup EXIT
T=$(mktemp -d "${TMPDIR:-/tmp}/bailey-sweep.XXXXXX")
export BAILEY_HOME=$T/home BAILEY_LAUNCHER=none
runs=$BAILEY_HOME/sandbox/runs
mkdir -p "$runs"
chmod 700 "$BAILEY_HOME"
hash=$(hash_of "$BAILEY_HOME")
real_daemon
fake_daemon
finish
