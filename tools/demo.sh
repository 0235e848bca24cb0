#!/usr/bin/env bash
# The demo: a real agent mends a real program inside a sandbox, then ten things that the sandbox
# can't do.
#   ./dev demo [--agent claude|codex]
# Run by ./dev after the build, with BAILEY naming the program.  The model is played by a script
# (tests/provider) on one Unix socket; everything else is real: the CLI, its tools, the compiler,
# the tests.  Exits with 1 if the agent's work is not as expected or one of the ten attempts
# succeeds.
# shellcheck disable=SC2016 # what runs inside expands its own variables
set -eu

top=$(cd "$(dirname "$0")/.." && pwd -P)
BAILEY=${BAILEY:-$top/build/stage/bin/bailey}
agent=claude
while [ $# -gt 0 ]; do
	case $1 in
	--agent) agent=${2:-} && shift 2 ;;
	--agent=*) agent=${1#--agent=} && shift ;;
	*) agent= && break ;;
	esac
done
case $agent in
claude | codex) ;;
*)
	echo "usage: ./dev demo [--agent claude|codex]" >&2
	exit 2
	;;
esac

# shellcheck source=tools/need.sh
. "$top/tools/need.sh"
# shellcheck source=tests/provider/lib.sh
. "$top/tests/provider/lib.sh"

work=$(mktemp -d)
provider=
listener=
outsider=
delegated=
cleanup() {
	provider_stop
	for pid in $listener $outsider; do
		kill "$pid" 2>/dev/null || true
	done
	if [ -n "$delegated" ]; then
		"$top/tools/delegate.sh" down "$(id -un)" "$delegated" || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# What a fresh machine lacks.  A node that is there already is kept, wherever it comes from.
install_needs() {
	need_packages make gcc libc6-dev diffutils
	command -v node >/dev/null || need_packages nodejs
	command -v npm >/dev/null || need_packages npm
}

# A normal user's limits need a cgroup subtree: systemd gives one, elsewhere root has to, once.
delegate_cgroups() {
	"$top/tools/delegate.sh" needed || return 0
	delegated=bailey-demo-$$
	local line
	line=$("$top/tools/delegate.sh" up "$(id -un)" "$delegated")
	export "${line?}"
}

# bailey run, with what every use here has in common.
sandbox=("$BAILEY" run)
if [ "$(id -u)" -eq 0 ]; then
	root_workspace=(--root-workspace)
else
	root_workspace=()
fi

# --- the agent's work ---

mend() {
	local copy=$work/after reply
	cp -R "$top/examples/wordcount" "$work/before"
	cp -R "$top/examples/wordcount" "$copy"
	provider_start "$agent" wordcount
	echo "== $agent mends examples/wordcount inside a sandbox: no network, one workspace, one socket to the model"
	if ! agent_run "$agent" "$(cat "$copy/TASK.md")" "${sandbox[@]}" \
		--workspace "$copy:rw" "${root_workspace[@]}" --mount "$program:/opt/agent" \
		--model-socket "$work/model.sock" --timeout 5m --memory 4g --cpus 2 --pids 256 --tmp-size 256m \
		>"$work/reply"; then
		echo "demo: the agent failed:" >&2
		cat "$work/reply" "$work/agent.err" >&2
		exit 1
	fi
	provider_stop
	reply=$(cat "$work/reply")
	echo
	echo "$reply"
	echo
	(cd "$work" && diff -ru before after) || true
	check_mended "$copy" "$reply"
}

check_mended() {
	local changed
	changed=$(diff -rq "$work/before" "$1" || true)
	case $changed in
	*"
"* | "") ;;
	*src/count.c*differ) changed=as-expected ;;
	esac
	if [ "$changed" != as-expected ]; then
		echo "demo: something else than src/count.c changed, or nothing did: $changed" >&2
		exit 1
	fi
	case $2 in
	*"make test says: all tests passed"*) ;;
	*)
		echo "demo: the agent's reply is not the expected one" >&2
		exit 1
		;;
	esac
}

# --- ten attempts ---

number=0
broken=0

# Prints a command so that it can be pasted.
show() {
	local word line=
	for word in "$@"; do
		case $word in
		*[!A-Za-z0-9_./:=,@%+-]* | "") word="'${word//\'/\'\\\'\'}'" ;;
		esac
		line+=" $word"
	done
	echo "   \$ bailey${line}"
}

# attempt TITLE EXPECTED VERIFY run ARGUMENT...: blocked when the command failed, its words (or how
# it ended) match EXPECTED, and VERIFY, which looks from outside, agrees.
attempt() {
	local title=$1 expected=$2 verify=$3 output status=0
	shift 3
	number=$((number + 1))
	echo "$number. $title"
	show "$@"
	output=$("$BAILEY" "$@" </dev/null 2>&1) || status=$?
	verdict "$expected" "$verify" "$status" "$output"
}

verdict() {
	local text
	said=$4 # for the function that looks from outside
	text=$(printf "%s\n" "$4" | tr -d '\000-\010\013-\037' | sed '/^$/d' | head -n 5)
	[ -z "$text" ] || printf '%s\n' "$text" | sed 's/^/   | /'
	if [ "$3" -ne 0 ] && [[ "$text
exit status $3" =~ $1 ]] && "$2"; then
		echo "   blocked (exit status $3)"
	else
		echo "   NOT BLOCKED (exit status $3)"
		broken=$((broken + 1))
	fi
}

nothing_more() {
	:
}

secret_kept() {
	[[ "$said" != *"$(cat "$work/secret")"* ]]
}

outsider_lives() {
	kill -0 "$outsider"
}

# The copy has to have arrived, or nothing was tried.
no_setuid_file() {
	[ -f "$work/shared/sh" ] && [ -z "$(find "$work/shared" -perm /6000)" ]
}

# True when a process of this machine has the word among its arguments.
process_with() {
	local file word
	for file in /proc/[0-9]*/cmdline; do
		while IFS= read -r -d '' word; do
			[ "$word" != "$1" ] || return 0
		done 2>/dev/null <"$file" || true
	done
	return 1
}

try_network() {
	local port
	node "$top/tests/provider/provider.js" --listen 127.0.0.1:0 \
		--script "$top/tests/provider/wordcount-claude.json" >"$work/listener.out" 2>&1 </dev/null &
	listener=$!
	for _ in $(seq 50); do
		! grep -q '^listening' "$work/listener.out" || break
		sleep 0.1
	done
	port=$(sed -n 's/^listening on //p' "$work/listener.out")
	(exec 3<>"/dev/tcp/127.0.0.1/$port") # the listener is there for a process outside
	attempt "reach the network: a listener of this machine, then an address outside" \
		"Connection refused.*Network is unreachable" nothing_more \
		run -- bash -c "exec 3<>/dev/tcp/127.0.0.1/$port || exec 3<>/dev/tcp/192.0.2.1/80"
	kill "$listener"
	listener=
}

# The sandbox's processes ignore SIGTERM and leave their session; outside one can see them until
# the deadline.
try_deadline() {
	local mark=$((1000000 + $$)) status=0 seen=no
	local command=(run --timeout 2s -- sh -c "trap \"\" TERM; setsid sleep $mark & sleep $mark")
	number=$((number + 1))
	echo "$number. outlive its deadline"
	show "${command[@]}"
	"$BAILEY" "${command[@]}" </dev/null >"$work/deadline" 2>&1 &
	local pid=$!
	for _ in $(seq 15); do
		! process_with "$mark" || seen=yes
		[ "$seen" = no ] || break
		sleep 0.1
	done
	wait "$pid" || status=$?
	none_left() {
		[ "$seen" = yes ] && ! process_with "$mark"
	}
	verdict "exit status 124" none_left "$status" "$(cat "$work/deadline")"
}

try_all() {
	# perl is in every Debian, and can make a system call (165 is mount) without a program of
	# its own
	local mount='my ($type, $on) = ("tmpfs", "/tmp"); '
	mount+='syscall(165, $type, $on, $type, 0, 0) == 0 or die "mount: $!\n"; print "mounted\n"'
	local fork='for (1..100) { my $p = fork // die "fork $_: $!\n"; $p or sleep 20, exit } '
	fork+='print "100 started\n"'
	local allocate='my $x; $x .= "x" x (1 << 20) for 1..256; print "256 MiB allocated\n"'

	echo
	echo "== ten things that a sandbox can't do"
	head -c 16 /dev/urandom | od -An -tx1 >"$work/secret"
	mkdir "$work/shared"
	sleep 600 &
	outsider=$!

	attempt "read a file of this machine" "No such file or directory" secret_kept run -- cat "$work/secret"
	try_network
	attempt "gain a capability" "(Operation not permitted|Function not implemented)" nothing_more \
		run -- unshare --user --map-root-user grep CapEff /proc/self/status
	attempt "mount a file system" "(Operation not permitted|Function not implemented)" nothing_more \
		run -- perl -e "$mount"
	attempt "start more processes than allowed" "fork.*Resource temporarily unavailable" nothing_more \
		run --pids 32 -- perl -e "$fork"
	attempt "use more memory than allowed" "exit status 137" nothing_more \
		run --memory 64m -- perl -e "$allocate"
	attempt "fill the disk" "No space left on device" nothing_more \
		run --tmp-size 16m -- dd if=/dev/zero of=/tmp/fill bs=1M count=64
	attempt "end a process of this machine" "No such process" outsider_lives \
		run -- sh -c "kill -KILL $outsider"
	attempt "leave a setuid file in a workspace" "Operation not permitted" no_setuid_file \
		run --workspace "$work/shared:rw" "${root_workspace[@]}" -- \
		sh -c 'cp /bin/sh /workspace/sh && chmod 4755 /workspace/sh'
	try_deadline

	kill "$outsider"
	outsider=
}

install_needs
program=$("$top/tools/npm/install.sh" "$agent")
delegate_cgroups
mend
try_all
echo
if [ "$broken" -ne 0 ]; then
	echo "demo: $broken of $number attempts were not blocked" >&2
	exit 1
fi
echo "The agent's work is done, and $number of $number attempts were blocked."
