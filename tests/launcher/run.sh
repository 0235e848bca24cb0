#!/usr/bin/env bash
# usage: tests/launcher/run.sh
# A launcher of root's and the users that it serves: their sandboxes, what each may do and see, the
# ceiling, deadlines, what the two processes can still do, and who kills what.  Makes users and
# removes them, so only root runs it; for others it is a skip.  Needs bash, coreutils, util-linux,
# procps and perl-base.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/user.sh"

T='' stage='' sock='' pid='' users=() ids=1811939328

make_user() { # NAME
	useradd --create-home --home-dir "$T/$1" --shell /bin/sh "$1"
	users+=("$1")
	chmod 700 "$T/$1"
}

# Nothing is delegated to these users: without the launcher they have no limits.
as() { # NAME COMMAND...
	local name=$1
	shift
	try timeout -s KILL 30 runuser -u "$name" -- env -i PATH="$PATH" LANG=C.UTF-8 HOME="$T/$name" \
		BAILEY_LAUNCHER="$sock" sh -c 'cd && exec "$@"' sh "$@"
}

bailey_as() { # NAME WORD...
	as "$1" "$stage/bin/bailey" "${@:2}"
}

as_root() { # WORD...
	BAILEY_LAUNCHER=$sock try "$stage/bin/bailey" "$@"
}

begin() { # FLAG...
	BAILEY_HOME=$T/home BAILEY_IDS_BASE=$ids "$stage/bin/bailey" launcher --socket "$sock" \
		"$@" >"$T/launcher.log" 2>&1 &
	pid=$!
	until_true 50 grep -q listening "$T/launcher.log" || {
		cat "$T/launcher.log"
		return 1
	}
	spawner=$(ps -o pid= --ppid "$pid" | tr -d ' ')
}

end() {
	[ -n "$pid" ] || return 0
	kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
	pid=''
	until_true 50 eval "! kill -0 $spawner 2>/dev/null" || true
}

again() { # FLAG...
	end
	begin --allow-uid "$alice" --allow-uid "$bob" "$@"
}

cleanup() {
	local u
	cd /
	if [ -n "$pid" ]; then
		for u in alice bob; do
			bailey_as "bailey-$u" ls --all --json
			perl "$lib/json.pl" <"$T/out" 2>/dev/null | awk -F '\t' '$1 ~ /\.id$/ { print $3 }' >"$T/ids" || true
			while read -r id; do bailey_as "bailey-$u" rm --force "$id" </dev/null; done <"$T/ids"
		done
		end
	fi
	for u in ${users[@]+"${users[@]}"}; do
		userdel -r "$u" >/dev/null 2>&1 || true
	done
	[ -z "$T" ] || rm -rf "$T"
}

# One line of STATUS, as root or another.
status() { # NAME [UID]
	perl "$here/ask.pl" "$sock" status "${@:2}" | awk -v name="$1" '$1 == name { print $2 }'
}

refused() { # REASON NAME
	if [ "$rc" -ne 0 ] && grep -q "\[$1\]\$" "$T/err"; then
		ok "$2"
	else
		not_ok "$2" "expected [$1]
$(left)"
	fi
}

done_well() { # NAME
	if [ "$rc" -eq 0 ]; then
		ok "$1"
	else
		not_ok "$1" "$(left)"
	fi
}

# --- what users get ------------------------------------------------------------------------------

test_limits() {
	as bailey-alice env BAILEY_LAUNCHER=none "$stage/bin/bailey" create
	refused resource_limits_unenforced 'a user alone has no limits (control)'
	bailey_as bailey-alice create --name box --memory 64m
	done_well 'with the launcher there is a sandbox'
	id=$(cat "$T/out")
	bailey_as bailey-alice exec box -- perl -e 'my $x = "x" x (200 << 20); print "alive"'
	holds 'its memory limit holds' [ "$rc" -eq 137 ]
	bailey_as bailey-alice exec box -- sh -c 'id -u; cat /proc/self/uid_map; cat /proc/self/status'
	like 'its ids are a private range' '1000*' "$(cat "$T/out")"
	like 'no capabilities inside' '*CapEff:	0000000000000000*' "$(cat "$T/out")"
	holds 'root inside is not root' awk -v base="$ids" '
		$1 == 0 && $3 == 65535 && $2 >= base && $2 < base + 4096 * 65536 { found = 1 }
		END { exit !found }' "$T/out"
}

test_verbs() {
	bailey_as bailey-alice ls
	like 'ls' '*box*running*' "$(cat "$T/out")"
	bailey_as bailey-alice exec box -- sh -c 'echo hello >/workspace/f'
	done_well 'exec'
	bailey_as bailey-alice cp box:/workspace/f got
	is 'cp' hello "$(cat "$T/bailey-alice/got")"
	is 'what is copied out is the user'"'"'s' "$alice" "$(stat -c %u "$T/bailey-alice/got")"
	bailey_as bailey-alice diff box
	like 'diff' '*A workspace/f*' "$(cat "$T/out")"
	bailey_as bailey-alice stop box
	done_well 'stop'
	bailey_as bailey-alice start box
	done_well 'start'
	bailey_as bailey-alice fork box --name copy
	done_well 'fork'
	bailey_as bailey-alice exec copy -- cat /workspace/f
	is 'a fork has the files' hello "$(cat "$T/out")"
	bailey_as bailey-alice rm --force copy
	done_well 'rm'
	bailey_as bailey-alice create -- sh -c 'exit 3'
	done_well 'a command of its own'
}

test_workspace() {
	as bailey-alice mkdir -p ws
	bailey_as bailey-alice create --name mine --workspace "$T/bailey-alice/ws:rw" -- sh -c 'echo x >/workspace/new; sleep 60'
	done_well 'a workspace of the user'
	until_true 50 [ -e "$T/bailey-alice/ws/new" ] || true
	is 'what is made in it is the user'"'"'s' "$alice" "$(stat -c %u "$T/bailey-alice/ws/new")"
	bailey_as bailey-alice rm --force mine
	as bailey-bob sh -c 'mkdir -p shared && chmod 777 shared'
	chmod 755 "$T/bailey-bob"
	bailey_as bailey-alice create --workspace "$T/bailey-bob/shared:rw"
	refused workspace_not_owned 'the workspace of another, although he may write to it'
	perl "$here/ask.pl" "$sock" create "$alice" "$T/bailey-bob/shared" >"$T/out" 2>"$T/err" || true
	like 'the same, asked without our client' '*workspace_not_owned*' "$(cat "$T/out")"
	chmod 700 "$T/bailey-bob"
	bailey_as bailey-alice create --workspace /etc:ro
	refused mount_forbidden 'a directory of the host'
	perl "$here/ask.pl" "$sock" create "$alice" /etc >"$T/out" 2>"$T/err" || true
	like 'the same, asked without our client' '*mount_forbidden*' "$(cat "$T/out")"
}

test_others() {
	bailey_as bailey-bob ls --all
	holds 'another user sees no sandbox of hers' test -z "$(grep box "$T/out")"
	for what in "$id" box; do
		bailey_as bailey-bob exec "$what" -- id
		refused sandbox_not_found "nor can use it by '$what'"
		bailey_as bailey-bob rm --force "$what"
		refused sandbox_not_found "nor remove it by '$what'"
	done
	as bailey-bob cat "$T/home/users/$alice/sandbox/runs/$id/meta"
	holds 'her home is closed to him' [ "$rc" -ne 0 ]
	as bailey-alice cat "$T/home/users/$alice/sandbox/runs/$id/meta"
	holds 'and by its path to her' [ "$rc" -ne 0 ]
	as bailey-bob perl -MSocket -e 'socket my $s, PF_UNIX, SOCK_STREAM, 0;
		connect $s, pack_sockaddr_un($ARGV[0]) or exit 7' "$T/home/users/$alice/sandbox/runs/$id/sock"
	is 'her socket too' 7 "$rc"
	bailey_as bailey-bob create --name box
	done_well 'a name of hers is free for him'
	bailey_as bailey-bob exec box -- hostname
	holds 'and leads to his own' [ "$(cat "$T/out")" != "$id" ]
	bailey_as bailey-bob rm --force box
	bailey_as bailey-eve create
	refused not_allowed 'a user that it does not serve'
	bailey_as bailey-eve ls
	refused not_allowed 'nor is told what there is'
}

# --- tasks ---------------------------------------------------------------------------------------

param() { # KEY=VALUE...
	local p
	flags=()
	for p in "$@"; do
		flags+=(--param "$p")
	done
}

test_tasks() {
	local wt=$T/bailey-alice/worktrees/t1
	as bailey-alice mkdir -p "$wt" sockets
	param tid=t1 'command=id -u; cat /proc/self/status; echo x >made' worktree="$wt" timeout=20s
	bailey_as bailey-alice create --profile check "${flags[@]}"
	done_well 'a check on a worktree of hers'
	until_true 100 [ -s "$wt/made" ] || true
	is 'what it makes is hers' "$alice" "$(stat -c %u "$wt/made" 2>/dev/null)"
	param tid=t1 'command=sleep 60' worktree="$wt" timeout=2h
	bailey_as bailey-alice create --profile check "${flags[@]}"
	refused value_out_of_range 'a check that is longer than an hour'
	param tid=t1 'command=true' worktree="$wt" nothing=1
	bailey_as bailey-alice create --profile check "${flags[@]}"
	refused bad_value 'a parameter that there is not'

	# a worktree that was handed over is the agents', in a directory of hers
	chown -R 64000:64000 "$wt"
	param tid=t1 'command=echo y >made2' worktree="$wt" timeout=20s
	bailey_as bailey-alice create --profile check "${flags[@]}"
	done_well 'a worktree that was handed over'
	until_true 100 [ -s "$wt/made2" ] || true
	is 'what is made in it is the agents'"'" 64000 "$(stat -c %u "$wt/made2" 2>/dev/null)"
	chmod 755 "$T/bailey-alice" "$T/bailey-alice/worktrees" "$wt"
	param tid=t1 'command=true' worktree="$wt" timeout=20s
	bailey_as bailey-bob create --profile check "${flags[@]}"
	refused workspace_not_owned 'the handed-over worktree of another'
	perl "$here/ask.pl" "$sock" check "$bob" "$wt" >"$T/out" 2>"$T/err" || true
	like 'the same, asked without our client' '*workspace_not_owned*' "$(cat "$T/out")"
	# by a mount of his own, so that it seems to lie in a directory of his
	as bailey-bob mkdir -p stolen
	perl "$here/ask.pl" "$sock" check "$bob" "$wt" "$T/bailey-bob/stolen" >"$T/out" 2>"$T/err" || true
	like 'nor by a mount over a directory of his' '*workspace_not_owned*' "$(cat "$T/out")"
	chmod 700 "$T/bailey-alice"
}

test_agent() {
	local wt=$T/bailey-alice/worktrees/t2 s=$T/bailey-alice/sockets/t2
	as bailey-alice mkdir -p "$wt" "$s"
	param tid=t2 model=m-1 'command=["claude","-p","x"]' worktree="$wt" sockets="$s" timeout=20s
	bailey_as bailey-alice create --profile agent "${flags[@]}"
	refused model_socket_missing 'an agent without its socket'
	as bailey-alice perl -MSocket -e 'socket my $s, PF_UNIX, SOCK_STREAM, 0; umask 0;
		chdir $ARGV[0]; bind $s, pack_sockaddr_un("llm.sock") or die; listen $s, 5' "$s"
	chmod 711 "$s"
	bailey_as bailey-alice create --profile agent "${flags[@]}"
	# there is no such program on this host: the walls were made, and the command was looked for
	refused command_not_found 'an agent with its socket'
	param tid=t2 model=m-1 'command=["sh","-c","id"]' worktree="$wt" sockets="$s"
	bailey_as bailey-alice create --profile agent "${flags[@]}"
	refused bad_value 'an agent that is none'
}

# --- the ceiling ---------------------------------------------------------------------------------

test_ceiling() {
	printf 'max-memory 128m\nmax-sandboxes-per-uid 2\nmax-lifetime 1h\nprofiles create\n' >"$T/ceiling"
	chmod 666 "$T/ceiling"
	try env BAILEY_HOME="$T/home" "$stage/bin/bailey" launcher --socket "$T/other.sock" --ceiling "$T/ceiling"
	refused config_invalid 'a ceiling that anybody may write'
	chmod 600 "$T/ceiling"
	again --ceiling "$T/ceiling"
	bailey_as bailey-bob create --memory 129m
	refused ceiling_exceeded 'more memory'
	bailey_as bailey-bob create --memory 128m --ttl 2h
	refused ceiling_exceeded 'a longer life'
	bailey_as bailey-bob create --memory 128m --name one
	done_well 'what lies below'
	bailey_as bailey-bob inspect one
	holds 'it has an end' grep -qE '^ttl_ms +3600000' "$T/out"
	bailey_as bailey-bob create --memory 64m --name two
	bailey_as bailey-bob create --memory 64m --name three
	refused too_many_sandboxes 'a third one'
	bailey_as bailey-bob rm --force one two
	until_true 50 eval '[ "$(status sandboxes "$bob")" = 0 ]' || true
	bailey_as bailey-bob create --memory 64m --name three
	done_well 'when they are gone there is room'
	bailey_as bailey-bob rm --force three
	bailey_as bailey-bob create --unlimited
	refused not_allowed 'none without limits'
	printf 'max-creates-per-minute 3\n' >"$T/ceiling"
	again --ceiling "$T/ceiling"
	# a minute that ends in between gives more
	for _ in 1 2 3 4 5 6 7 8; do
		bailey_as bailey-bob create --memory 64m -- true
		[ "$rc" -eq 0 ] || break
	done
	refused too_many_sandboxes 'too many in a minute'
	again
}

# --- what is malformed ---------------------------------------------------------------------------

test_malformed() {
	local before fds
	before=$(status malformed)
	fds=$(find "/proc/$pid/fd" -mindepth 1 | wc -l)
	perl "$here/ask.pl" "$sock" garbage 2000 >"$T/out" 2>"$T/err" || true
	is 'each malformed message ends its connection' 2000 "$(cat "$T/out")"
	between 'and is counted' 2000 2010 "$(($(status malformed) - before))"
	until_true 50 eval '[ "$(status clients)" = 1 ]' || true
	is 'no descriptor is left' "$fds" "$(find "/proc/$pid/fd" -mindepth 1 | wc -l)"
	bailey_as bailey-alice ls
	done_well 'it goes on serving'
	perl "$here/ask.pl" "$sock" fds 30 >"$T/out" 2>"$T/err" || true
	until_true 50 eval '[ "$(status clients)" = 1 ]' || true
	is 'descriptors that nobody asked for are closed' "$fds" "$(find "/proc/$pid/fd" -mindepth 1 | wc -l)"
}

# --- deadlines and deaths ------------------------------------------------------------------------

meta() { # ID KEY
	awk -v key="$2" '$1 == key { print $2 }' "$T/home/users/$alice/sandbox/runs/$1/meta"
}

gone() { # ID
	[ ! -e "$T/home/users/$alice/sandbox/runs/$1" ] ||
		grep -q '^state lost' "$T/home/users/$alice/sandbox/runs/$1/meta"
}

test_deadline() {
	local owner
	bailey_as bailey-alice create --ttl 2s --name late
	late=$(cat "$T/out")
	owner=$(meta "$late" owner_pid)
	kill -STOP "$owner"
	bailey_as bailey-alice create --ttl 2s --name early
	early=$(cat "$T/out")
	until_true 40 gone "$early" || true
	holds 'an owner sees to its deadline' gone "$early"
	holds 'one that is stuck does not (control)' eval "! gone $late"
	until_true 150 eval "! kill -0 $owner 2>/dev/null" || true
	holds 'the launcher does' eval "! kill -0 $owner 2>/dev/null"
	bailey_as bailey-alice prune
}

test_launcher_killed() {
	local owner
	bailey_as bailey-alice create --ttl 6s --name orphan -- sleep 600
	late=$(cat "$T/out")
	owner=$(meta "$late" owner_pid)
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	until_true 50 eval "! kill -0 $spawner 2>/dev/null" || true
	holds 'the spawner ends with the launcher' eval "! kill -0 $spawner 2>/dev/null"
	holds 'a sandbox does not' kill -0 "$owner"
	kill -STOP "$owner"
	pid=''
	again
	bailey_as bailey-alice ls
	like 'the next launcher finds it' '*orphan*' "$(cat "$T/out")"
	until_true 200 eval "! kill -0 $owner 2>/dev/null" || true
	holds 'and holds its deadline' eval "! kill -0 $owner 2>/dev/null"
}

test_spawner_killed() {
	kill -KILL "$spawner"
	until_true 50 eval "! kill -0 $pid 2>/dev/null" || true
	holds 'without its spawner the launcher ends' eval "! kill -0 $pid 2>/dev/null"
	bailey_as bailey-alice ls
	refused launcher_unreachable 'and its clients are told'
	pid=''
	again
	bailey_as bailey-alice exec box -- echo still here
	is 'sandboxes go on' 'still here' "$(cat "$T/out")"
}

test_one_at_a_time() {
	try env BAILEY_HOME="$T/home" "$stage/bin/bailey" launcher --socket "$sock"
	refused busy 'a second launcher at the same place'
	try env BAILEY_HOME="$T/home" "$stage/bin/bailey" launcher --socket "$T/ceiling"
	refused state_unwritable 'where something else is'
	holds 'which is left alone' test -f "$T/ceiling"
}

# --- what the two can still do -------------------------------------------------------------------

field() { # PID NAME
	awk -v name="$2:" '$1 == name { print $2 }' "/proc/$1/status"
}

test_walls() {
	is 'launcher: one capability, to look at directories' 0000000000000004 "$(field "$pid" CapEff)"
	is 'launcher: none can be had again' 0000000000000004 "$(field "$pid" CapBnd)"
	is 'launcher: no new privileges' 1 "$(field "$pid" NoNewPrivs)"
	is 'launcher: a list of system calls' 2 "$(field "$pid" Seccomp)"
	holds 'launcher: a network of its own' \
		[ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]
	is 'launcher: with nothing in it' 0 "$(nsenter -t "$pid" -n sh -c 'cat /proc/net/route' | sed 1d | wc -l)"
	# listener, spawner, /proc/net/unix, standard streams, and the log now and then
	between 'launcher: few descriptors' 4 12 "$(find "/proc/$pid/fd" -mindepth 1 | wc -l)"
	is 'spawner: the rights that engines need (control)' "$(field $$ CapEff)" "$(field "$spawner" CapEff)"
	holds 'spawner: it has no socket of the clients' \
		[ -z "$(find "/proc/$spawner/fd" -lname "socket:*" -printf '%l\n' | sort | comm -12 - <(find "/proc/$pid/fd" -lname "socket:*" -printf '%l\n' | sort))" ]
}

# --- a user's own --------------------------------------------------------------------------------

# Not root's: it serves its user alone, with that user's rights.
test_own() {
	as bailey-bob "$stage/bin/bailey" launcher --socket "$T/bailey-bob/l.sock" --allow-uid "$alice"
	refused usage 'only root'"'"'s launcher serves others'
}

main() {
	finish_as_skip() { skip launcher 'makes users, which only root can'; finish; exit; }
	[ "$(id -u)" -eq 0 ] || finish_as_skip
	find_bailey
	T=$(mktemp -d /var/tmp/bailey-launcher.XXXXXX)
	trap cleanup EXIT
	chmod 755 "$T"
	stage=$T/stage
	cp -a "$(dirname "$BAILEY")/.." "$stage"
	sock=$T/l.sock
	unset BAILEY_HOME
	make_user bailey-alice
	make_user bailey-bob
	make_user bailey-eve
	alice=$(id -u bailey-alice) bob=$(id -u bailey-bob)
	begin --allow-uid "$alice" --allow-uid "$bob"
	test_limits
	test_verbs
	test_workspace
	test_others
	test_tasks
	test_agent
	test_walls
	test_malformed
	test_ceiling
	test_deadline
	test_launcher_killed
	test_spawner_killed
	test_one_at_a_time
	test_own
	finish
}

main
