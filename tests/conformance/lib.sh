# shellcheck shell=bash disable=SC2034,SC2154
# What the behaviours have in common: a sandbox in $sb, words run in it, what is said about it.
# Sourced by one.sh behind tap.sh and host.sh.

sb=''
who=user
[ "$(id -u)" -ne 0 ] || who=root
rw=() # what a directory of root's needs to be writable
[ $who = user ] || rw=(--root-workspace)
# what sandboxes are made by, as inspect says it, and from
maker=${BAILEY_ENGINE_DEFAULT:-native} image=${BAILEY_RUN_IMAGE:-host}
id_pattern='b+([0-9a-f])'

# Makes a sandbox; sets sb to its id.  A failure ends the behaviour: nothing that follows could hold.
new() { # FLAG...
	bailey create "$@"
	sb=$(cat "$T/out")
	[ "$rc" -eq 0 ] && [ -n "$sb" ] && return
	not_ok "a sandbox is made (create $*)" "$(left)"
	exit 1
}

# Runs a script inside.
inside() { # SCRIPT [ARGUMENT...]
	bailey exec "$sb" -- sh -c "$@"
}

# The script ends with status 0 and prints that.
tells() { # NAME EXPECTED SCRIPT
	inside "$3"
	if [ "$rc" -eq 0 ] && [ "$(cat "$T/out")" = "$2" ]; then
		ok "$1"
	else
		not_ok "$1" "expected: $2
$(left)"
	fi
}

# Starts a command detached; sets cmd to its id.
detach() { # COMMAND...
	bailey exec "$sb" --detach -- "$@"
	cmd=$(cat "$T/out")
	[ "$rc" -eq 0 ] && [ -n "$cmd" ] && return
	not_ok "a command is started ($*)" "$(left)"
	exit 1
}

# Runs the program beside what follows, for at most 25 s (BAILEY_TEST_SLOW times that); what it
# leaves is in $T/NAME.out, NAME.err and NAME.rc.  Its pid is in $bg.
beside() { # NAME WORD...
	local name=$T/$1
	shift
	# shellcheck disable=SC2016 # expanded by the inner shell
	sh -c 'name=$1 seconds=$2; shift 2; rc=0
		timeout -s KILL "$seconds" "$@" >"$name.out" 2>"$name.err" </dev/null || rc=$?
		echo "$rc" >"$name.rc"' sh "$name" "$((25 * ${BAILEY_TEST_SLOW:-1}))" "$BAILEY" "$@" &
	bg=$!
	started+=("$bg")
}

# Waits for all that were started by beside.
all_ended() {
	local p
	for p in ${started[@]+"${started[@]}"}; do
		wait "$p" || true
	done
	started=()
}

# One value of what inspect says; nothing when it isn't there.
fact() { # KEY [SANDBOX]
	timeout -s KILL 20 "$BAILEY" inspect --json "${2:-$sb}" 2>/dev/null </dev/null |
		perl "$lib/json.pl" 2>/dev/null |
		awk -F '\t' -v key="$1" '$1 == key { print $3; exit }'
}

# Every id of this home.
ids() {
	timeout -s KILL 20 "$BAILEY" ls --all --json 2>/dev/null </dev/null |
		perl "$lib/json.pl" 2>/dev/null |
		awk -F '\t' '$1 ~ /(^|\.)id$/ { print $3 }'
}

listed() { # SANDBOX
	ids | grep -qx "$1"
}

unlisted() { # SANDBOX
	! listed "$1"
}

state_is() { # STATE [SANDBOX]
	[ "$(fact state "${2:-$sb}")" = "$1" ]
}

# The state comes within five seconds.
state() { # NAME STATE [SANDBOX]
	if until_true 50 state_is "$2" "${3:-$sb}"; then
		ok "$1"
	else
		not_ok "$1" "expected state $2, got $(fact state "${3:-$sb}")"
	fi
}

# The last command failed with that reason: two lines on standard error, status as given.
refused() { # RC REASON NAME
	if [ "$rc" = "$1" ] && says "$2"; then
		ok "$3"
	else
		not_ok "$3" "expected status $1, [$2]
$(left)"
	fi
}

# The status of the reason for verbs that pass no command's status on.
rc_of() { # REASON
	refusal_rc "$1" other
}

# A verb refuses: bailey WORD... ends with the reason and the reason's own status.
refuses() { # REASON NAME WORD...
	local reason=$1 name=$2
	shift 2
	bailey "$@"
	refused "$(rc_of "$reason")" "$reason" "$name"
}

# The processes of a sandbox's engine: the owner, and all that it started.
owner_of() { # SANDBOX
	fact owner_pid "$1"
}

# The guest as the host sees it.
guest_of() { # SANDBOX
	local p
	if [ "$maker" = docker ]; then
		docker inspect -f '{{.State.Pid}}' "$(docker ps -qf "label=bailey.id=$1")"
		return
	fi
	for p in $(children_of "$(owner_of "$1")"); do
		[[ $(tr '\0' ' ' <"/proc/$p/cmdline") != *bailey-guest* ]] || echo "$p"
	done
}

# Its owner is killed, and whatever would go on without one: it is lost.
lose() { # SANDBOX
	local owner container
	owner=$(owner_of "$1")
	kill -KILL "$owner"
	until_true 30 dead "$owner" || true
	[ "$maker" = docker ] || return 0
	container=$(docker ps -aqf "label=bailey.id=$1")
	docker rm -f "$container" >/dev/null
}

children_of() { # PID
	cat "/proc/$1/task/$1/children" 2>/dev/null || true
}

alive() { # PID
	[ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

dead() { # PID
	! alive "$1"
}

# What a tree holds: kind, mode, size, whole second and name of each entry, and all bytes.
tree_words='find . -mindepth 1 \( -type d -printf "d %m %p\0" -o -type l -printf "l %l %p\0" -o \
	-printf "%y %m %s %Ts %p\0" \) | sort -z | sha256sum
	find . -type f -print0 | sort -z | xargs -0r sha256sum -z | sha256sum'

tree_sum() { # DIRECTORY
	(cd "$1" && sh -c "$tree_words")
}

# The same inside.
tree_sum_inside() { # DIRECTORY
	inside "cd '$1' && $tree_words"
	cat "$T/out"
}

file_sum() { # FILE
	sha256sum <"$1" | cut -d ' ' -f 1
}

# A sandbox with files that are not usual, below /workspace/odd: of every kind, with holes, with names that are no text.
odd=$'not\xff\xfeutf8'
# what is there, of what kind, how long, and how much room it takes
look='cd /workspace/odd && find . -mindepth 1 \( -type d -printf "%y %p\0" -o -printf "%y %s %l %p\0" \) | sort -z | sha256sum
	[ $(($(stat -c %b hole) / 2)) -lt 1024 ] && echo sparse; dd if=hole bs=1 skip=100000000 count=4 2>/dev/null'
make_odd() {
	new --disk 48m
	inside 'mkdir odd && cd odd && echo 1 >"$(printf "not\377\376utf8")" && mkdir "$(printf "d\200\nx")" &&
		echo 2 >"$(printf "d\200\nx/in")" && ln -s "$(printf "to\377")" "$(printf "l\377")" && truncate -s 300M hole &&
		printf data | dd of=hole bs=1 seek=100000000 conv=notrunc 2>/dev/null && truncate -s 200M all-hole &&
		mkfifo fifo && perl -MSocket -e "socket S, PF_UNIX, SOCK_STREAM, 0; bind S, pack_sockaddr_un(q(sock)) or die"
		perl -e "exit(syscall(259, -100, my \$n = q(device), 0020666, 0x103) == 0 ? 0 : 3)"'
}

# gVisor keeps FIFOs and sockets of files in its own memory, and says of every file that it has no holes.
tells_kinds() { # NAME
	[ "$engine" = gvisor ] || return 0
	skip "$1" 'gVisor has FIFOs and sockets in its memory alone, and tells of no holes'
	return 1
}

# Removes what the behaviour left standing.
remove_all() {
	local all
	mapfile -t all < <(ids)
	[ ${#all[@]} -eq 0 ] || bailey rm --force "${all[@]}"
	bailey prune
	if [ "$rc" -ne 0 ]; then
		not_ok 'prune' "$(left)"
	fi
}

no_cgroups() {
	[ -z "$(cgroups)" ]
}

no_runs() {
	[ -z "$(find "$BAILEY_HOME/sandbox/runs" "$BAILEY_HOME/sandbox/names" -mindepth 1 2>/dev/null)" ]
}

nothing_left() {
	if until_true 50 no_cgroups; then
		ok 'no cgroup is left'
	else
		not_ok 'no cgroup is left' "$(cgroups)"
	fi
	if until_true 50 no_runs; then
		ok 'no record is left'
	else
		not_ok 'no record is left' \
			"$(find "$BAILEY_HOME/sandbox/runs" "$BAILEY_HOME/sandbox/names" -mindepth 1 2>&1 | head)"
	fi
	if grep -F "$T" /proc/self/mountinfo >"$T/out"; then
		not_ok 'no mount is left' "$(cat "$T/out")"
	else
		ok 'no mount is left'
	fi
}
