#!/usr/bin/env bash
# usage: tests/two-users/run.sh
# Two real users of one host: what B can't do with A's sandboxes, directories and processes, nor
# with root's; A can, which is the control.  Makes both users and removes them, so only root runs
# it; for others it is a skip.  Needs bash, coreutils, util-linux and perl-base.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/user.sh"

T='' stage='' users=() extra=()

# --- the users -----------------------------------------------------------------------------------

# A home that others can't enter.
make_user() { # NAME
	useradd --create-home --home-dir "$T/$1" --shell /bin/sh "$1"
	users+=("$1")
	chmod 700 "$T/$1"
}

# In a subshell: with cgroup v2 alone, the shell that asks is moved into the user's cgroup.
enter() ( # NAME COMMAND...
	name=$1
	shift
	line=$("$root/tools/delegate.sh" up "$name" "bailey-$name")
	exec timeout -s KILL 20 runuser -u "$name" -- env -i PATH="$PATH" LANG=C.UTF-8 USER="$name" \
		LOGNAME="$name" HOME="$T/$name" "$line" ${extra[@]+"${extra[@]}"} \
		sh -c 'cd && exec "$@"' sh "$@"
)

# Runs a command as that user, as after a log-in; sets rc.
as() { # NAME COMMAND...
	try enter "$@"
}

bailey_as() { # NAME WORD...
	as "$1" "$stage/bin/bailey" "${@:2}"
}

as_root() { # WORD...
	BAILEY_HOME=$T/root-home try "$stage/bin/bailey" "$@"
}

cleanup() {
	local u id
	cd /
	for u in ${users[@]+"${users[@]}"}; do
		bailey_as "$u" ls --all --json
		for id in $(perl "$lib/json.pl" <"$T/out" 2>/dev/null |
			awk -F '\t' '$1 ~ /\.id$/ { print $3 }'); do
			bailey_as "$u" rm --force "$id"
		done
		end_user "$u"
	done
	[ -z "${root_id-}" ] || as_root rm --force "$root_id"
	[ -z "$T" ] || rm -rf "$T"
}

end_user() { # NAME
	local p
	# what is still a process of this user, which this test made, is the test's
	for p in $(ps -o pid= -u "$1" 2>/dev/null); do
		kill -KILL "$p" 2>/dev/null || true
	done
	"$root/tools/delegate.sh" down "$1" "bailey-$1" || true
	userdel -r "$1" >/dev/null 2>&1 || true
}

# --- what is tried -------------------------------------------------------------------------------

# A home of Bailey's that is not the user's own, as somebody would try it.
with_home() { # HOME COMMAND...
	local extra=("BAILEY_HOME=$1")
	shift
	"$@"
}

no_secret() { # NAME
	if grep -qa secret "$T/out" "$T/err"; then
		not_ok "$1: nothing is read" "$(left)"
	fi
}

# B is refused, by whatever way it is tried; the same words are A's control.
closed() { # NAME WORD...
	local name=$1 how
	shift
	for how in own theirs; do
		if [ "$how" = own ]; then
			bailey_as bob "$@"
		else
			with_home "$a_home" bailey_as bob "$@"
		fi
		if [ "$rc" -ne 0 ] && grep -qE '\[[a-z_]+\]$' "$T/err"; then
			ok "$name: closed ($how home, $(grep -oE '\[[a-z_]+\]$' "$T/err" | tail -n 1))"
		else
			not_ok "$name: closed ($how home)" "$(left)"
		fi
		no_secret "$name"
	done
}

open_() { # NAME WORD...
	local name=$1
	shift
	bailey_as alice "$@"
	holds "$name: open to its owner" [ "$rc" -eq 0 ]
}

# Connects to a socket by its path, as a client without Bailey's program would.
connect_as() { # NAME SOCKET
	# shellcheck disable=SC2016 # perl's
	as "$1" perl -MSocket -e '$SIG{PIPE} = "IGNORE";
		my ($dir, $name) = $ARGV[0] =~ m,(.*)/(.*),;
		chdir $dir or do { print "chdir: $!"; exit 4 };
		socket my $s, PF_UNIX, SOCK_STREAM, 0;
		connect $s, pack_sockaddr_un($name) or do { print "connect: $!"; exit 5 };
		syswrite $s, pack("V3 V v v Q Q", 1, 0, 24, 0x594c4942, 2, 0, 1, 0);
		my $n = sysread $s, my $b, 4096;
		print defined $n && $n > 0 ? "answered" : "hung up"' "$2"
}

test_sandboxes() {
	local other=bob sock=$a_home/sandbox/runs/$a_id/sock
	for what in "$a_id" box "${a_id:0:10}"; do
		open_ "inspect $what" inspect "$what"
		closed "inspect $what" inspect "$what"
		closed "exec in $what" exec "$what" -- cat /workspace/secret
		closed "cp from $what" cp "$what:/workspace/secret" "$T/$other/stolen"
	done
	open_ 'exec' exec box -- cat /workspace/secret
	closed 'attach' attach box 1
	closed 'logs' logs box 1
	closed 'stop' stop box
	closed 'pause' pause box
	closed 'snapshot' snapshot box
	closed 'fork' fork box
	closed 'diff' diff box
	closed 'kill' kill box
	closed 'port' port box 80
	closed 'rm' rm --force box
	closed 'rm by id' rm --force "$a_id"
	bailey_as bob ls --all --json
	is 'ls of the other user' 0 "$rc"
	holds 'has nothing of it' eval '! grep -q "$a_id" "$T/out"'
	bailey_as bob prune --stopped
	bailey_as bob events
	holds 'nor have its events' eval '! grep -q "$a_id" "$T/out"'
	connect_as alice "$sock"
	is 'the socket answers its owner' answered "$(cat "$T/out")"
	connect_as bob "$sock"
	holds 'the socket: closed' eval '! grep -q answered "$T/out"'
	bailey_as alice inspect box
	holds 'it lives' [ "$rc" -eq 0 ]
}

# Even where the directories let somebody in, the socket asks who it is.
test_peer_credentials() {
	local dir=$a_home/sandbox/runs/$a_id
	chmod 755 "$T/alice" "$T/alice/.local" "$T/alice/.local/share" "$a_home" "$a_home/sandbox" \
		"$a_home/sandbox/runs" "$dir"
	chmod 777 "$dir/sock"
	connect_as alice "$dir/sock"
	is 'an open path: the socket answers its owner' answered "$(cat "$T/out")"
	connect_as bob "$dir/sock"
	is 'an open path: it hangs up on others' 'hung up' "$(cat "$T/out")"
	with_home "$a_home" bailey_as bob exec "$a_id" -- cat /workspace/secret
	holds 'an open path: exec is refused' [ "$rc" -ne 0 ]
	no_secret 'an open path'
	chmod 700 "$T/alice" "$a_home" "$a_home/sandbox" "$a_home/sandbox/runs" "$dir"
}

# A directory that anybody may read, below a home that nobody else may enter.
test_directories() {
	local dir=$T/alice/project mode
	for mode in ro rw cow; do
		bailey_as alice create --workspace "$dir:$mode"
		if [ "$mode" = cow ] && [ "$rc" -ne 0 ] && says layer_unsupported; then
			continue
		fi
		is "workspace :$mode: open to its owner" 0 "$rc"
		closed "workspace :$mode" create --workspace "$dir:$mode"
		closed "workspace :$mode by run" run --workspace "$dir:$mode" -- cat /workspace/secret
	done
	bailey_as alice create --mount "$dir:/m"
	is 'mount: open to its owner' 0 "$rc"
	closed 'mount' create --mount "$dir:/m"
	closed 'image' create --image "$T/alice/image"
	bailey_as alice run --image "$T/alice/image" -- /bin/sh -c 'cat /secret'
	ended 127 command_not_found 'image: open to its owner, with nothing in it'
	closed 'apply from' apply "$b_id" "$dir" --yes
	closed 'cp into' cp "$b_id:/workspace/mine" "$dir/planted"
	holds 'nothing was written' [ ! -e "$dir/planted" ]
	closed 'cp from' cp "$dir/secret" "$b_id:/workspace/stolen"
	# a link in one's own home leads no further
	as bob ln -s "$dir" "$T/bob/link"
	closed 'workspace by a link' create --workspace "$T/bob/link"
}

# Every process of A's sandboxes as /proc shows it.
test_processes() { # USER WHO
	local p n=0 found='' d
	for p in $(processes_of "$1"); do
		n=$((n + 1))
		for d in root cwd fd/3 fd/4 fd/5 environ mem maps; do
			# shellcheck disable=SC2016 # the inner shell's
			as bob sh -c 'ls "$1/" >/dev/null 2>&1 && echo open || { head -c 1 "$1" >/dev/null 2>&1 && echo open; }' \
				sh "/proc/$p/$d"
			[ "$(cat "$T/out")" != open ] || found="$found $p/$d"
		done
		as bob kill -TERM "$p"
		[ "$rc" -ne 0 ] || found="$found $p/signal"
	done
	holds "there are processes of $2" [ "$n" -ge 3 ]
	is "none of the $n processes of $2 is open" '' "$found"
}

# The owner and everything below it.
processes_of() { # OWNER-PID
	local p
	echo "$1"
	# shellcheck disable=SC2013 # words are what it holds
	for p in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		processes_of "$p"
	done
}

owner_pid() { # of the last inspect --json
	perl "$lib/json.pl" <"$T/out" | awk -F '\t' '$1 == "owner_pid" { print $3 }'
}

test_root() {
	as_root create --name rootbox
	root_id=$(cat "$T/out")
	is 'root makes one' 0 "$rc"
	as_root exec rootbox -- sh -c 'echo secret >/workspace/secret'
	a_home=$T/root-home
	closed 'exec in root'\''s' exec rootbox -- cat /workspace/secret
	closed 'inspect root'\''s' inspect "$root_id"
	closed 'rm root'\''s' rm --force rootbox
	connect_as bob "$a_home/sandbox/runs/$root_id/sock"
	holds 'root'\''s socket: closed' eval '! grep -q answered "$T/out"'
	as_root inspect --json rootbox
	test_processes "$(owner_pid)" root
	as_root exec rootbox -- cat /workspace/secret
	is 'root'\''s own: open' secret "$(cat "$T/out")"
}

prepare() {
	T=$(mktemp -d /var/tmp/bailey-two-users.XXXXXX)
	chmod 755 "$T"
	stage=$T/stage
	cp -a "$(dirname "$BAILEY")/.." "$stage"
	make_user alice
	make_user bob
	as alice sh -c 'umask 022 && mkdir -p project image/usr image/bin && echo secret >project/secret'
	a_home=$T/alice/.local/share/bailey
}

main() {
	if [ "$(id -u)" -ne 0 ]; then
		skip two-users 'only root can make two users'
		finish
		return
	fi
	for u in alice bob; do
		if id "$u" >/dev/null 2>&1; then
			skip two-users "this host has a user '$u'"
			finish
			return
		fi
	done
	find_bailey
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	prepare
	bailey_as alice create --name box
	is 'A makes a sandbox' 0 "$rc"
	a_id=$(cat "$T/out")
	bailey_as alice exec box -- sh -c 'echo secret >/workspace/secret'
	is 'with a file in it' 0 "$rc"
	bailey_as alice exec box --detach -- sh -c 'echo secret; sleep 600'
	bailey_as bob create --name box
	is 'B makes one of the same name' 0 "$rc"
	b_id=$(cat "$T/out")
	bailey_as bob exec "$b_id" -- sh -c 'echo mine >/workspace/mine'
	bailey_as bob rm --force "$b_id"
	bailey_as bob create --name other
	b_id=$(cat "$T/out")
	bailey_as bob exec "$b_id" -- sh -c 'echo mine >/workspace/mine'
	test_sandboxes
	test_peer_credentials
	test_directories
	bailey_as alice inspect --json box
	test_processes "$(owner_pid)" A
	test_root
	finish
}

main "$@"
