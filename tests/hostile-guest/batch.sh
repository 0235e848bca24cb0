#!/usr/bin/env bash
# usage: batch.sh LIBEXEC CLIENT LIE...
# Tells each lie to a client and looks at what became of the client, the host and the engine.
# Started by run.sh below a reaper.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../conformance/lib.sh"

libexec=$1 client=$2
shift 2
T=$(mktemp -d /var/tmp/bailey-hostile.XXXXXX)
export BAILEY_HOME=$T/home
trap 'cd /; stop_all; rm -rf "$T"' EXIT
mkdir "$T/home" "$T/w"
landed=/var/tmp/bailey-hostile-landed
deadline=20 # seconds; the library itself gives up after 15 without progress
memory=48   # MiB: the most that the owner or the channel process may ever have had
space=512   # MiB of address space for the client

# Lies after which a client may end well: what they say is odd, harmless, and of the guest alone.
may_succeed() { # LIE
	case $1 in
	none | close-5 | close-6 | cut-5 | cut-6) ;;
	left-huge | above-credit* | ended-twice | data-tiny | boot-flood | stream-many | ack-lies | ack-unknown) ;;
	tar-deep | tar-setuid | tar-char-device | tar-block-device | tar-fifo | tar-nothing | tar-dot | tar-control) ;;
	kill-never | read-twice | list-control | stat-link-* | write-ack-lies | resume-*) ;;
	*) return 1 ;;
	esac
}

# The verb that meets the lie.
meet() { # LIE
	case $1 in
	run-never*) limit=$deadline bailey exec "$sb" --timeout 2s -- true ;;
	kill-never)
		bailey exec "$sb" --detach -- true
		limit=$deadline bailey kill "$sb" 1
		;;
	tar-*) limit=$deadline bailey cp "$sb:/d" "$T/w/out" ;;
	stat-* | list-* | search-* | read-* | write-*) limit=$deadline try "$client" "$sb" "${1%%-*}" ;;
	dial-*) limit=$deadline try dial ;;
	*) limit=$deadline bailey exec "$sb" -- true ;;
	esac
}

dial() {
	local port
	start "$BAILEY" port "$sb" 8080
	until_true 50 grep -q '[0-9]' "$T/bg.out" || return 3
	port=$(grep -oE '[0-9]+' "$T/bg.out" | tail -n 1)
	timeout 10 perl -MSocket -e 'socket my $s, PF_INET, SOCK_STREAM, 0;
		connect $s, pack_sockaddr_in($ARGV[0], inet_aton("127.0.0.1")) or exit 4;
		my $n = 0; while ($r = sysread $s, my $b, 65536) { $n += $r; last if $n > 20000000 } exit 5' "$port"
	rc=$?
	stop_all
	echo 'bailey: the connection ended [io_failed]' >&2
	echo '  try: nothing' >&2
	return $rc
}

# Everything of the test's own directory that isn't the place asked for.
surroundings() {
	(cd "$T" && find . -path ./home -prune -o -path ./w/out -prune -o -path './out' -o -path './err' -o \
		-path './bg.*' -o -printf '%y %m %s %p\n' | grep -v ' \./w$' | sort)
	[ ! -e "$landed" ] || echo "landed at $landed"
	cat "$T/w/canary"
	[ ! "$T/w/out/h" -ef /etc/passwd ] || echo 'linked to /etc/passwd'
}

high_water() { # PID: KiB
	sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status" 2>/dev/null
}

# The owner and its child that runs the same program.
engine_size() { # prints the larger, in MiB
	local p max=0 n owner
	owner=$(owner_of "$sb")
	[ -n "$owner" ] || return 0
	for p in $owner $(children_of "$owner"); do
		[[ $(tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline") == *bailey-engine-* ]] || continue
		n=$(high_water "$p")
		[ "${n:-0}" -le "$max" ] || max=$n
	done
	echo $((max / 1024))
}

# The reason that the client gave, behind whatever the guest had it print.
told() {
	tail -c 4000 "$T/err" | grep -aE 'bailey: .* \[[a-z_]+\]$' | grep -oE '\[[a-z_]+\]$' | tail -n 1
}

client_ended() { # LIE
	if [ "$rc" -eq 137 ]; then
		not_ok "$1: the client ends in time" "$(left)"
	elif [ "$rc" -eq 0 ] && may_succeed "$1"; then
		ok "$1: the client"
	elif [ "$1" = ended-twice ] && [ "$rc" -eq 3 ]; then
		ok "$1: the client has the first end"
	elif [ "$rc" -ne 0 ] && [ -n "$(told)" ]; then
		ok "$1: the client is told $(told)"
	else
		not_ok "$1: the client is told" "$(left)"
	fi
	if [ -n "$(cat "$T/err" "$T/out" | tr -dc '\033' | head -c 1)" ]; then
		not_ok "$1: no bytes of the guest's change a terminal" "$(cat -v "$T/err")"
	fi
}

host_unharmed() { # LIE BEFORE
	local now
	now=$(surroundings)
	if [ "$now" = "$2" ]; then
		ok "$1: nothing outside is written"
	else
		not_ok "$1: nothing outside is written" "$(diff <(echo "$2") <(echo "$now"))"
	fi
	rm -rf "$landed" "$T/w/landing"/* "$T/w/landed" "$T/landed"
	if [ -e "$T/w/out" ] && [ -n "$(find "$T/w/out" \( -perm /6000 -o -type b -o -type c \) 2>&1)" ]; then
		not_ok "$1: no device and no setuid bit is made" "$(find "$T/w/out" -ls)"
	fi
}

engine_well() { # LIE
	local size state
	limit=6 bailey inspect "$sb" --json
	state=$(flat "$T/out" 2>/dev/null | awk -F '\t' '$1 == "state" { print $3 }')
	like "$1: the sandbox goes on or is lost" '@(running|lost)' "$state"
	size=$(engine_size)
	between "$1: the engine stays small (MiB)" 0 "$memory" "${size:-0}"
}

boot_lie() { # LIE
	limit=$deadline bailey create --env LIE="$1"
	if [ "$rc" -eq 0 ] && may_succeed "$1"; then
		sb=$(cat "$T/out")
		return 0
	fi
	client_ended "$1"
	is "$1: no sandbox is left" '' "$(ids)"
	return 1
}

tell_lie() { # LIE
	local before
	if [[ $1 == boot-* ]]; then
		boot_lie "$1" || return 0
	else
		bailey create --env LIE="$1"
		[ "$rc" -eq 0 ] || {
			not_ok "$1: a sandbox is made" "$(left)"
			return 0
		}
		sb=$(cat "$T/out")
	fi
	rm -rf "$T/w/out"
	before=$(surroundings)
	meet "$1"
	client_ended "$1"
	host_unharmed "$1" "$before"
	engine_well "$1"
	limit=10 bailey rm --force "$sb"
	is "$1: it can be removed" 0 "$rc"
}

cd "$T/w"
mkdir landing
echo canary >canary
head -c 9000000 /dev/zero >"$T/f"
ulimit -v $((space << 10))
export BAILEY_LIBEXEC=$libexec
for lie in "$@"; do
	tell_lie "$lie"
done
section='hostile-guest: '
limit=30
remove_all
nothing_left
finish >/dev/null
