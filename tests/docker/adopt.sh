#!/usr/bin/env bash
# usage: tests/docker/adopt.sh
# Sandboxes on Docker go on when their owner dies: owner, channel and both are killed while a command writes numbers, and the
# next client finds all of them, and the command's own exit status.  Needs root and what tests/lib/docker.sh names; BAILEY is
# the program, or the staged one.
set -eu
export LC_ALL=C.UTF-8
unset CDPATH DOCKER_HOST DOCKER_CERT_PATH DOCKER_TLS_VERIFY CONTAINER_HOST

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
BAILEY=$(realpath "${BAILEY:-${BAILEY_STAGE:-$root/build/stage}/bin/bailey}")
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/docker.sh"

T=''

# shellcheck disable=SC2317 # by trap
cleanup() {
	cd /
	[ -z "$T" ] || "$BAILEY" prune --all --force >/dev/null 2>&1 || true
	stop_docker
	[ -z "$T" ] || rm -rf --one-file-system "$T"
}

fact() { # KEY: of the record, as it lies there
	sed -n "s/^$1 //p" "$BAILEY_HOME/sandbox/runs/$sb/meta"
}

dead() { # PID
	[ ! -d "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

await_dead() { # PID...
	local p i
	for p in "$@"; do
		for ((i = 0; i < 100; i++)); do
			! dead "$p" || break
			sleep 0.05
		done
	done
}

# What is to be killed: the owner, its channel, or both, the channel first.
victims() { # WHO
	local owner channels
	owner=$(fact owner_pid)
	channels=$(cat "/proc/$owner/task/$owner/children")
	case $1 in
	owner) echo "$owner" ;;
	channel) echo "$channels" ;;
	both) echo "$channels $owner" ;;
	esac
}

numbers='i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo $i; sleep 0.05; done; exit 7'
new() {
	sb=$("$BAILEY" create --image test/busybox:1 "$@")
}

goes_on() { # WHO
	local cmd before pids
	new
	before=$(docker inspect -f '{{.State.StartedAt}}' "$(docker ps -q)")
	cmd=$("$BAILEY" exec --detach "$sb" -- /bin/sh -c "$numbers")
	sleep 0.5
	pids=$(victims "$1")
	# shellcheck disable=SC2086 # words
	kill -KILL $pids
	# shellcheck disable=SC2086
	await_dead $pids
	[ "$1" = channel ] || sleep 1
	try "$BAILEY" attach "$sb" "$cmd"
	is "$1 killed: the exit status is the command's own" 7 "$rc"
	is "$1 killed: every number, once" "$(seq 60)" "$(cat "$T/out")"
	is "$1 killed: the container is the same" "$before" \
		"$(docker inspect -f '{{.State.StartedAt}}' "$(docker ps -q)")"
	try "$BAILEY" exec "$sb" -- echo yes
	is "$1 killed: another command" "0 yes" "$rc $(cat "$T/out")"
	is "$1 killed: what is kept is its owner's alone" 600 \
		"$(stat -c %a "$BAILEY_HOME/sandbox/runs/$sb/kept")"
	"$BAILEY" rm --force "$sb"
	is "$1 killed: nothing is left" '' "$(docker ps -aq)$(ls "$BAILEY_HOME/sandbox/runs")"
}

kill_owner() {
	local pids
	pids=$(victims owner)
	kill -KILL "$pids"
	await_dead "$pids"
}

two_at_once() {
	local p i pids=()
	new
	kill_owner
	for i in 1 2 3 4; do
		"$BAILEY" exec "$sb" -- echo "$i" >"$T/at-once.$i" 2>&1 &
		pids+=($!)
	done
	for p in "${pids[@]}"; do
		wait "$p" || true
	done
	is 'four clients at once' '1 2 3 4' "$(cat "$T"/at-once.* | tr '\n' ' ' | sed 's/ $//')"
	is 'one owner and its channel' 2 "$(pgrep -f -c "bailey-engine-docker adopt $sb" || true)"
	"$BAILEY" rm --force "$sb"
}

of_state() { # paused|stopped
	new
	"$BAILEY" exec "$sb" -- sh -c 'echo kept >/workspace/f'
	if [ "$1" = paused ]; then
		"$BAILEY" pause "$sb"
	else
		"$BAILEY" stop "$sb"
	fi
	kill_owner
	is "$1: it is known so" "$1" "$("$BAILEY" inspect "$sb" --json |
		sed -n 's/.*"state": *"\([a-z]*\)".*/\1/p' | head -n 1)"
	try "$BAILEY" start "$sb"
	is "$1: it is started" 0 "$rc"
	try "$BAILEY" exec "$sb" -- cat /workspace/f
	is "$1: with its files" "0 kept" "$rc $(cat "$T/out")"
	"$BAILEY" rm --force "$sb"
}

ends_alone() {
	new --ttl 3s
	kill_owner
	"$BAILEY" exec "$sb" -- true
	sleep 4
	is 'the time to live goes on' '' "$(docker ps -aq)"
}

gone() {
	new
	kill_owner
	docker rm -f "$(docker ps -aq)" >/dev/null
	try "$BAILEY" exec "$sb" -- true
	is 'a container that was removed: refused' 125 "$rc"
	like 'a container that was removed: lost' '*sandbox_lost*' "$(cat "$T/err")"
	"$BAILEY" rm --force "$sb"
	is 'a container that was removed: its record too' '' "$(ls "$BAILEY_HOME/sandbox/runs")"
}

listed() {
	new
	kill_owner
	try "$BAILEY" ls
	like 'ls: it runs' "*$sb*running*" "$(cat "$T/out")"
	"$BAILEY" rm --force "$sb"
}

swept() {
	new
	kill_owner
	env BAILEY_DOCKER_HOST="$DOCKER_HOST" "$(dirname "$BAILEY")/../libexec/bailey/bailey-engine-docker" sweep \
		>/dev/null
	sleep 1
	holds 'a sweep finds it a new owner' test -d "/proc/$(fact owner_pid)"
	"$BAILEY" rm --force "$sb"
}

# shellcheck disable=SC2119 # without options
have_docker || {
	skip docker 'no dockerd here, or no root'
	finish
	exit 0
}
trap cleanup EXIT
T=$(mktemp -d "${TMPDIR:-/tmp}/bailey-adopt.XXXXXX")
start_docker "$T/daemon"
# shellcheck disable=SC2119
import_busybox
export BAILEY_HOME=$T/home BAILEY_LAUNCHER=none BAILEY_ENGINE_DEFAULT=docker BAILEY_DOCKER_DISK=watch
for who in owner channel both; do
	goes_on "$who"
done
two_at_once
of_state paused
of_state stopped
ends_alone
gone
listed
swept
finish
