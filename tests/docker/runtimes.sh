#!/usr/bin/env bash
# usage: tests/docker/runtimes.sh
# Which runtimes a container may have: known to the daemon, its limits hold, and it shares Bailey's socket.  gVisor as it must
# be set up, and in each way that it must not; rootless Podman, which on cgroup v1 takes limits and sets none.
# Needs root and what tests/lib/docker.sh names for gVisor and Podman; BAILEY is the program, or the staged one.
set -eu
export LC_ALL=C.UTF-8
unset CDPATH DOCKER_HOST DOCKER_CERT_PATH DOCKER_TLS_VERIFY CONTAINER_HOST

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # tap.sh and user.sh use it
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/user.sh"
. "$here/../lib/docker.sh"

T='' rootless='' user=bailey-rootless

# shellcheck disable=SC2317 # by trap
cleanup() {
	cd /
	stop_docker
	end_rootless
	[ -z "$T" ] || rm -rf --one-file-system "$T"
}

runtime() { # NAME WORD...
	local name=$1
	shift
	BAILEY_DOCKER_RUNTIME=$name try "$BAILEY" "$@"
}

refused() { # NAME REASON TEXT
	like "$1: $2" "*$3*\[$2\]*" "$(cat "$T/err")"
	is "$1: the status says so too" 5 "$rc"
	is "$1: no container is left" '' "$(docker ps -aq)"
	is "$1: no record is left" '' "$(ls -A "$BAILEY_HOME/sandbox/runs" 2>/dev/null)"
}

# What uses up its memory is ended, by whatever the runtime has for that.
held() { # NAME
	try "$BAILEY" exec "$(cat "$T/id")" -- sh -c 'head -c 100000000 /dev/zero | tail -c 90000000 | wc -c'
	is "$1: it never has 90 MB" '' "$(grep -x 90000000 "$T/out" || true)"
	try "$BAILEY" rm --force "$(cat "$T/id")"
	is "$1: rm" 0 "$rc"
}

made() { # NAME RUNTIME WORD...
	local name=$1 runtime=$2
	shift 2
	runtime "$runtime" create --memory 64m "$@"
	is "$name: it is made" 0 "$rc"
	cp "$T/out" "$T/id"
}

# Limits that somebody raised meanwhile: it does not start with them.
raised() {
	local id container words
	made 'raised' ''
	id=$(cat "$T/id") container=$(docker ps -q)
	try "$BAILEY" stop "$id"
	for words in 'memory --memory 256m --memory-swap 256m' 'process --pids-limit 4000' 'cpu --cpus 1.5'; do
		# shellcheck disable=SC2086 # words
		docker update ${words#* } "$container" >/dev/null
		try "$BAILEY" start "$id"
		like "raised: the ${words%% *} limit" "*${words%% *} limit*\[resource_limits_unenforced\]*" "$(cat "$T/err")"
		is 'raised: nothing runs' '' "$(docker ps -q)"
		docker update --memory 64m --memory-swap 64m --pids-limit 300 --cpus 1 "$container" >/dev/null
	done
	try "$BAILEY" start "$id"
	is 'raised: as they were it starts' 0 "$rc"
	try "$BAILEY" rm --force "$id"
}

gvisor() {
	local host
	host=$(uname -r)
	made 'runc' ''
	try "$BAILEY" exec "$(cat "$T/id")" -- uname -r
	is 'runc: this kernel' "$host" "$(cat "$T/out")"
	held 'runc'
	made 'gVisor' runsc
	try "$BAILEY" exec "$(cat "$T/id")" -- uname -r
	is 'gVisor: it answers' 0 "$rc"
	holds 'gVisor: another kernel' [ "$(cat "$T/out")" != "$host" ]
	held 'gVisor'

	runtime runsc-free create --memory 64m
	refused 'without cgroups' resource_limits_unenforced 'memory limit'
	like 'without cgroups: the remedy names the flag' '*--ignore-cgroups*' "$(cat "$T/err")"
	made 'without cgroups, --unlimited' runsc-free --unlimited
	# the control: without the check it would have had them
	try "$BAILEY" exec "$(cat "$T/id")" -- sh -c 'head -c 100000000 /dev/zero | tail -c 90000000 | wc -c'
	is 'without cgroups: nothing holds it' 90000000 "$(cat "$T/out")"
	try "$BAILEY" rm --force "$(cat "$T/id")"

	runtime runsc-closed create --memory 64m
	refused 'without sockets' runtime_unsupported runsc-closed
	like 'without sockets: the remedy names the flag' '*--host-uds=open*' "$(cat "$T/err")"
	runtime runsc-false create --memory 64m
	refused 'runc by the name of gVisor' runtime_unsupported 'on gVisor'
	runtime kata-runtime create --memory 64m
	refused 'one that the daemon does not have' runtime_unsupported kata-runtime
	runtime 'r;c' create
	like 'a name that is none' '*\[bad_value\]*' "$(cat "$T/err")"
}

as_rootless() {
	runuser -u "$user" -- env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME="$T/rootless/home" LC_ALL=C.UTF-8 \
		XDG_RUNTIME_DIR="$T/rootless/run" CONTAINERS_CONF="$docker_dir/containers.conf" DOCKER_HOST="$DOCKER_HOST" \
		BAILEY_HOME="$T/rootless/home/bailey" BAILEY_LAUNCHER=none BAILEY_ENGINE_DEFAULT=docker \
		BAILEY_DOCKER_DISK=watch BAILEY_RUN_IMAGE=test/busybox:1 "$@"
}

start_rootless() {
	docker_dir=$T/rootless docker_kind=podman
	export DOCKER_HOST=unix://$T/rootless/sock
	id "$user" >/dev/null 2>&1 || useradd --home-dir "$T/rootless/home" --shell /bin/sh "$user"
	mkdir -p "$T/rootless/run" "$T/rootless/home"
	podman_config >"$T/rootless/containers.conf"
	chmod 755 "$T"
	chmod 700 "$T/rootless/run"
	chown -R "$user" "$T/rootless"
	as_rootless podman --root "$T/rootless/data" --runroot "$T/rootless/exec" --tmpdir "$T/rootless/tmp" \
		--storage-driver overlay system service --time 0 "$DOCKER_HOST" >"$T/rootless/log" 2>&1 </dev/null &
	rootless=$!
	until_true 300 docker_answers
}

# Its pause process outlives the service; its files are its ids'.
end_rootless() {
	[ -n "$rootless" ] || return 0
	end_pid "$rootless"
	rootless=''
	ps -o pid= -u "$user" | while read -r p; do
		kill -KILL "$p" 2>/dev/null || true
	done
	until_true 50 eval '[ -z "$(ps -o pid= -u "$user")" ]' || true
	userdel "$user" 2>/dev/null || true
}

main() {
	find_bailey
	have_docker --gvisor --podman || {
		skip gvisor 'needs root, dockerd, runsc and podman'
		finish
		return
	}
	T=$(mktemp -d /var/tmp/bailey-runtimes.XXXXXX)
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	start_docker "$T/daemon" --gvisor
	import_busybox test/busybox:1
	export BAILEY_HOME=$T/home BAILEY_LAUNCHER=none BAILEY_ENGINE_DEFAULT=docker BAILEY_DOCKER_DISK=watch \
		BAILEY_RUN_IMAGE=test/busybox:1
	raised
	gvisor
	stop_docker

	start_rootless
	import_busybox test/busybox:1
	try as_rootless "$BAILEY" create --memory 64m
	if grep -q cgroup2 /proc/self/mounts && [ -e /sys/fs/cgroup/cgroup.controllers ]; then
		is 'rootless Podman on cgroup v2: it is made' 0 "$rc"
	else
		BAILEY_HOME=$T/rootless/home/bailey refused 'rootless Podman on cgroup v1' resource_limits_unenforced ''
	fi
	finish
}

main
