#!/usr/bin/env bash
# The escape suite: what a sandbox made by `bailey run` can't do.
#
#     tests/escape/run.sh [--bailey PATH] [--probe PATH] [--only NAME]... [--min N]
#                         [--extra OPTION]... [--json] [--list]
#
# Each case runs twice, by the same user, on the same host, against the same object: outside, where
# the attack must succeed (the control), and inside `bailey run`, where it must be blocked in the
# way that the case names.  A case whose control doesn't succeed proves nothing: it is listed as
# 'no control', with the reason, and not counted.
#
#     ok NAME outside: ... inside: ...      blocked as expected
#     not ok NAME ...                       the attack worked, or failed in an unexpected way
#     no control NAME ...                   this host or user can't do it outside either
#     N passed, N failed, N skipped         the last line; 'no control' is counted apart, in the line before
#
# Exit status: 0; 1 when a case fails or fewer than --min are counted; 2 when the suite itself can't
# run.  After every inside run the host is looked at too: the secrets unchanged, the outsider alive,
# nothing planted, no setuid bit left in the workspace; at the end, Bailey's own programs unchanged.
#
# --bailey   default: $BAILEY, else the staged one (build/stage/bin/bailey), else the one in PATH
# --probe    default: the escape-probe of the build; it must be static
# --only     one case, as named by --list; may be given again
# --min      how many cases must be counted: 40, or 1 with --only
# --extra    an option added to every `bailey run`; with --unlimited the cases that need a cgroup
#            have no control
#
# Scratch files lie in ESCAPE_DIR (default /var/tmp: a disk, so that idmapped mounts and file
# handles work).  As root more controls exist (devices, mounts, modules); as a normal user others
# are more telling (setuid programs).
set -euo pipefail
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
readonly SEP=$'\x1f' # not white space: `read` keeps empty fields between it
readonly DEFAULT_MIN=40 DEADLINE=30

bailey='' probe='' min='' json=false list=false
only=() extra=()

die() {
	printf 'escape suite: %s\n' "$1" >&2
	exit 2
}

parse_options() {
	while [ $# -gt 0 ]; do
		case $1 in
		--bailey) bailey=${2:?} && shift ;;
		--probe) probe=${2:?} && shift ;;
		--only) only+=("${2:?}") && shift ;;
		--min) min=${2:?} && shift ;;
		--extra) extra+=("${2:?}") && shift ;;
		--json) json=true ;;
		--list) list=true ;;
		-h | --help) sed -n '2,/^set /{/^#/p}' "${BASH_SOURCE[0]}" && exit 0 ;;
		*) die "unknown option '$1' (see --help)" ;;
		esac
		shift
	done
	if [ -z "$min" ]; then
		[ ${#only[@]} -gt 0 ] && min=1 || min=$DEFAULT_MIN
	fi
	[[ $min =~ ^[0-9]+$ ]] || die "--min '$min' is not a number"
}

find_programs() {
	local p build=${BAILEY_BUILD:-$top/build}

	if [ -z "$probe" ]; then
		for p in "$build"/{,release/,*/}tests/escape/escape-probe; do
			[ -x "$p" ] && probe=$p && break
		done
	fi
	[ -x "$probe" ] || die "no escape-probe; build it, or name it with --probe"
	$list && return
	if [ -z "$bailey" ]; then
		bailey=${BAILEY:-${BAILEY_STAGE:-$build/stage}/bin/bailey}
		[ -x "$bailey" ] || bailey=$(command -v bailey || true)
	fi
	[ -x "$bailey" ] || die "no bailey at '$bailey'; name it with --bailey"
	bailey=$(realpath "$bailey")
	probe=$(realpath "$probe")
}

# --- the objects that the attacks act on ---------------------------------------------------------

declare -A V # what @NAME@ stands for
scratch='' secret='' helper_pid=''

cleanup() {
	if [ -n "$helper_pid" ]; then
		kill "$helper_pid" 2>/dev/null || true # it takes its queue with it
		wait "$helper_pid" 2>/dev/null || true
	fi
	[ -z "$secret" ] || rm -f "$secret" "/dev/shm/bailey-escape-$tag"
	[ -z "$scratch" ] || rm -rf "$scratch"
}

# NAME [PATH TARGET]: a root with mount points in which PATH (NAME) is a symlink to TARGET (the
# landing directory).
make_image() {
	local dir=$scratch/image-$1 path=${2:-$1}

	mkdir -p "$dir"/{usr,bin,probe,dev,proc,etc,tmp,workspace,home/agent,run,var}
	rm -rf "${dir:?}/$path"
	ln -s "${3:-$scratch/landing}" "$dir/$path"
}

setuid_program() { # one whose owner isn't the caller
	local p

	if [ "$(id -u)" = 0 ]; then
		cp "$probe" "$scratch/bin/setuid"
		chown 1:1 "$scratch/bin/setuid"
		chmod 4755 "$scratch/bin/setuid"
		echo "<$scratch/bin|/probe>/setuid"
		return
	fi
	for p in /usr/bin/su /usr/bin/passwd /usr/bin/newgrp /usr/bin/mount; do
		[ -u "$p" ] && echo "$p" && return
	done
	echo /nonexistent
}

disk_of() { # MAJOR:MINOR of the file system that holds a directory, decimal
	local dev

	dev=$(stat -c %d "$1")
	echo "$(((dev >> 8) & 0xfff)):$((dev & 0xff))"
}

cgroup_file() { # NAME: a file of the cgroup tree's root, or a path that isn't there
	local f

	for f in /sys/fs/cgroup/"$1" /sys/fs/cgroup/{pids,memory,systemd,unified}/"$1"; do
		[ -e "$f" ] && echo "$f" && return
	done
	echo "/sys/fs/cgroup/$1"
}

start_helper() {
	local words word

	mkfifo "$scratch/helper.in" "$scratch/helper.out"
	BAILEY_ESCAPE_SECRET=helper "$scratch/outsider" --helper "$scratch" "$tag" \
		<"$scratch/helper.in" >"$scratch/helper.out" 2>/dev/null &
	helper_pid=$!
	# shellcheck disable=SC2034 # held open for as long as the runner lives
	exec {helper_in}>"$scratch/helper.in"
	read -r -a words <"$scratch/helper.out" || die "the helper did not start"
	for word in "${words[@]}"; do
		V[${word%%=*}]=${word#*=}
	done
}

make_objects() {
	local name

	scratch=$(mktemp -d "${ESCAPE_DIR:-/var/tmp}/bailey-escape.XXXXXX")
	tag=${scratch##*.}
	trap cleanup EXIT
	secret=$(mktemp "${HOME:?}/.bailey-escape-$tag-XXXX")
	echo "a secret of the caller" >"$secret"
	echo "a secret outside the mounts" >"$scratch/secret"
	echo "a secret in shared memory" >"/dev/shm/bailey-escape-$tag"
	mkdir -p "$scratch"/{bin,ws,ro,landing,inodes}
	chmod 700 "$scratch/bin" # a setuid program lies in it for a while
	cp "$probe" "$scratch/bin/escape-probe"
	cp "$probe" "$scratch/outsider"
	cp "$probe" "$scratch/victim"
	ln -s /etc "$scratch/etc-link"
	chmod 711 "$scratch" # so that an escaped command's other uid reaches the secret there
	for name in dev proc etc tmp home run workspace; do
		make_image "$name"
	done
	make_image null dev/null "$scratch/landing/planted"
	V[SCRATCH]=$scratch V[SECRET]=$secret V[SECRETNAME]=${secret##*/} V[HOME]=$HOME V[TAG]=$tag
	V[HOSTWS]=$scratch/ws V[WS]="<$scratch/ws|/workspace>" V[RO]="<$scratch/ro|/ro>"
	V[PROBE]="<$scratch/bin|/probe>/escape-probe"
	V[SETUID]=$(setuid_program) V[DISK]=$(disk_of "$scratch")
	V[CGPROCS]=$(cgroup_file cgroup.procs) V[RELEASEAGENT]=$(cgroup_file release_agent)
	V[HOSTIP]=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m1 -E '^[0-9.]+$' || echo none)
	V[HANDLE]=$("$probe" --handle "$scratch/secret" || echo none)
	V[PORT]=$((20000 + RANDOM % 10000))
	exec {leak_file}<"$scratch/secret" {leak_dir}<"$scratch"
	V[LEAKFILE]=$leak_file V[LEAKDIR]=$leak_dir V[FD]=$leak_dir
	start_helper
	if [[ "$scratch$secret" == *[[:space:]]* ]]; then
		die "the suite's paths must hold no white space: '$scratch', '$secret'"
	fi
}

reset_objects() { # before every run: the same object for both
	rm -rf "$scratch/ws" "$scratch/landing"/*
	mkdir -p "$scratch/ws/dir"
	echo "#!/bin/sh" >"$scratch/ws/victim"
	echo "read only" >"$scratch/ro/victim"
	chmod 0777 "$scratch/ro" && chmod 0666 "$scratch/ro/victim"
	ln -s "$secret" "$scratch/ws/link"
	ln -s "$scratch/landing" "$scratch/ws/out"
	ln -s "/proc/self/fd/${V[FD]}" "$scratch/ws/cwd"
}

# --- one run -------------------------------------------------------------------------------------

expand() { # SIDE TEXT -> the array `words`; twice, since objects themselves differ by side
	local text=$2 name

	for _ in 1 2; do
		for name in "${!V[@]}"; do
			text=${text//"@$name@"/"${V[$name]}"}
		done
		while [[ $text =~ \<([^|<>]*)\|([^|<>]*)\> ]]; do
			if [ "$1" = outside ]; then
				text=${text/"${BASH_REMATCH[0]}"/"${BASH_REMATCH[1]}"}
			else
				text=${text/"${BASH_REMATCH[0]}"/"${BASH_REMATCH[2]}"}
			fi
		done
	done
	read -r -a words <<<"$text"
}

# Builds the array `command` that runs the probe with the given words on a side.
build_command() { # SIDE OPTIONS WORD...
	local side=$1 options=$2
	shift 2

	if [ "$side" = outside ]; then
		command=("$scratch/bin/escape-probe" "$@")
		return
	fi
	local words
	expand inside "$options"
	command=("$bailey" run)
	[[ $options == *--workspace* ]] || command+=(--workspace "$scratch/ws:rw")
	command+=(--mount "$scratch/bin:/probe" --mount "$scratch/ro:/ro")
	[ "$(id -u)" != 0 ] || command+=(--root-workspace)
	[[ " ${words[*]} " == *" --timeout "* ]] || command+=(--timeout "${DEADLINE}s")
	command+=("${extra[@]}" "${words[@]}" -- /probe/escape-probe "$@")
}

peer_pid=''
start_peer() { # SIDE PEER
	local words command i

	expand "$1" "$2"
	build_command "$1" "-i" "${words[@]}" # a peer ends with its input
	[ "$1" != outside ] || command[0]=$scratch/victim # a copy, which may be overwritten
	rm -f "$scratch/peer.in" && mkfifo "$scratch/peer.in"
	"${command[@]}" <"$scratch/peer.in" >"$scratch/peer.out" 2>"$scratch/peer.err" &
	peer_pid=$!
	V[PEERPID]=$peer_pid
	exec {peer_in}>"$scratch/peer.in"
	for ((i = 0; i < 100; i++)); do
		grep -q ready "$scratch/peer.out" 2>/dev/null && return
		sleep 0.05
	done
	die "the peer '$2' did not start $1: $(tail -n 2 "$scratch/peer.err")"
}

stop_peer() {
	[ -n "$peer_pid" ] || return 0
	exec {peer_in}>&-
	{ wait "$peer_pid" || true; } 2>/dev/null # the shell would say 'Killed'
	peer_pid=''
}

# How Bailey refused: its messages end in "[REASON]".
refusal() {
	local reason

	reason=$(grep -o -E '\[[a-z_]+\]$' "$scratch/err" | head -n 1 | tr -d '[]' || true)
	echo "refused:${reason:-unknown}"
}

# Sets `outcome` and `detail` from the probe's line, or from how the run ended without one.
judge() { # NAME STATUS
	local line

	line=$(tr -d '\r' <"$scratch/out" | grep -E "^$1 (success|blocked|done|broken) " |
		tail -n 1 || true)
	if [ -n "$line" ]; then
		read -r _ outcome detail <<<"$line"
		return
	fi
	outcome=blocked
	case $2 in
	0) outcome=broken detail="exit 0 and no line" ;;
	125) detail=$(refusal) ;;
	*) detail=exit$2 ;;
	esac
}

run_side() { # SIDE: sets outcome and detail
	local side=$1 words command status=0

	reset_objects
	[ -z "$peer" ] || start_peer "$side" "$peer"
	expand "$side" "$args"
	build_command "$side" "$options" "$name" "${words[@]}"
	if ((flags & 2)); then
		command=("$probe" --with-tty "${command[@]}")
	fi
	# shellcheck disable=SC2206 # the wrapper's words
	command=(timeout --foreground -k 5 $((DEADLINE + 15)) $wrap "${command[@]}")
	{ # without the shell's word on a peer that was killed meanwhile
		(cd "$scratch/ws" && exec "${command[@]}") \
			>"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
	} 2>/dev/null
	((flags & 16)) || stop_peer
	judge "$name" "$status"
	[ "$outcome" != broken ] || detail="$detail $(head -n 1 "$scratch/err")"
	[ -z "$after" ] || after_run
	stop_peer
}

after_run() { # the host's own look at what the run left; it overrules all but a success
	local words was=$outcome

	[ "$was" != broken ] || return 0
	expand "$side" "$after"
	"$scratch/bin/escape-probe" "${words[@]}" >"$scratch/out" 2>"$scratch/err" || true
	local was_detail=$detail
	judge "${words[0]}" 1
	if [ "$outcome" = blocked ] && [ "$was" != "done" ]; then
		[ "$side" = outside ] && outcome=blocked || outcome=$was
		detail=$was_detail
	fi
}

host_intact() { # prints what is wrong, or nothing
	[ "$(cat "$secret")" = "a secret of the caller" ] || echo "the secret was changed"
	kill -0 "$helper_pid" 2>/dev/null || echo "the outsider was killed"
	[ -z "$(ls -A "$scratch/landing")" ] || echo "something landed on the host"
	[ "$(cat "$scratch/ro/victim")" = "read only" ] || echo "a read-only file was changed"
	[ -z "$(find "$scratch/ws" -perm /6000 -print -quit 2>/dev/null)" ] ||
		echo "a setuid or setgid bit was left"
}

program_sums() {
	local dir=${bailey%/*}/../libexec/bailey

	sha256sum "$bailey" "$scratch/bin/escape-probe" "$scratch/outsider"
	[ ! -d "$dir" ] || find "$dir" -type f -exec sha256sum {} + | sort
}

# --- the report ----------------------------------------------------------------------------------

passed=0 failed=0 skipped=0 rows=()

quote_json() {
	local s=${1//\\/\\\\}

	s=${s//\"/\\\"}
	printf '"%s"' "${s//[$'\x01'-$'\x1f']/ }"
}

report() { # RESULT OUTSIDE INSIDE
	case $1 in
	ok) passed=$((passed + 1)) ;;
	"not ok") failed=$((failed + 1)) ;;
	*) skipped=$((skipped + 1)) ;;
	esac
	if $json; then
		rows+=("$(printf '{"name":%s,"about":%s,"result":%s,"outside":%s,"inside":%s}' \
			"$(quote_json "$name")" "$(quote_json "$about")" "$(quote_json "$1")" \
			"$(quote_json "$2")" "$(quote_json "$3")")")
	elif [ -n "$3" ]; then
		printf '%s %s outside: %s inside: %s\n' "$1" "$name" "$2" "$3"
	else
		printf '%s %s %s\n' "$1" "$name" "$2"
	fi
}

# Until one succeeds or is blocked in an unexpected way.
run_inside() {
	local fd fds=("$leak_dir")

	! ((flags & 8)) || fds=({3..40})
	for fd in "${fds[@]}"; do
		V[FD]=$fd
		run_side inside
		[[ $outcome = blocked && "|$expect|" == *"|${detail%% *}|"* ]] && continue
		! ((flags & 8)) || detail="$detail (by descriptor $fd)"
		break
	done
	V[FD]=$leak_dir
}

run_case() {
	local outcome detail outside word wrong

	if ((flags & 1)) && [[ " ${extra[*]} " == *" --unlimited "* ]]; then
		report "no control" "needs limits, and the runs are unlimited" ""
		return
	fi
	# shellcheck disable=SC2086
	if [ -n "$wrap" ] && ! $wrap true >/dev/null 2>&1; then
		report "no control" "'$wrap' can't be done here" ""
		return
	fi
	run_side outside
	outside="$outcome $detail"
	if [ "$outcome" != success ]; then
		report "no control" "$outside" ""
		return
	fi
	run_inside
	word=${detail%% *}
	wrong=$(host_intact | head -n 1)
	if [ -n "$wrong" ]; then
		report "not ok" "$outside" "$outcome $detail, and $wrong"
	elif [ "$outcome" != blocked ]; then
		report "not ok" "$outside" "$outcome $detail"
	elif [[ "|$expect|" != *"|$word|"* ]]; then
		report "not ok" "$outside" "blocked $detail instead of $expect"
	else
		report ok "$outside" "blocked $detail"
	fi
}

wanted() {
	local o

	[ ${#only[@]} -gt 0 ] || return 0
	for o in "${only[@]}"; do
		[ "$o" != "$name" ] || return 0
	done
	return 1
}

# A sandbox in which nothing runs would pass every case: first, the probe must run and be heard.
check_sandbox() {
	local command

	reset_objects
	build_command inside "" --list
	"${command[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null ||
		die "the probe doesn't run inside: $(head -n 2 "$scratch/err")"
	grep -q '^host-secret ' "$scratch/out" || die "the probe's output doesn't come out"
}

finish() {
	local counted=$((passed + failed)) now

	now=$(program_sums)
	name=programs about="Bailey's own programs are unchanged"
	[ "$now" = "$sums" ] || report "not ok" "unchanged" "a program of Bailey's was changed"
	if $json; then
		printf '{"cases":[%s],"passed":%d,"failed":%d,"skipped":%d}\n' \
			"$(IFS=, && echo "${rows[*]}")" "$passed" "$failed" "$skipped"
	else
		[ "$counted" -ge "$min" ] ||
			printf 'only %d cases were counted; at least %d must be\n' "$counted" "$min"
		[ "$skipped" = 0 ] ||
			printf '%d cases have no control here and are not counted\n' "$skipped"
		printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
	fi
	[ "$failed" = 0 ] && [ "$counted" -ge "$min" ]
}

parse_options "$@"
find_programs
if $list; then
	exec "$probe" --list
fi
if [ -z "${ESCAPE_WITH_KEY:-}" ]; then
	ESCAPE_WITH_KEY=1 exec "$probe" --with-session-key "${BASH_SOURCE[0]}" "$@"
fi
export BAILEY_ESCAPE_SECRET="a secret in the environment"
[ -z "$("$probe" --table | cut -d "$SEP" -f 1 | sort | uniq -d)" ] ||
	die "two cases have the same name"
make_objects
sums=$(program_sums)
check_sandbox
while IFS=$SEP read -r name flags args expect options peer after wrap about <&3; do
	((flags & 4)) && continue
	wanted || continue
	run_case
done 3< <("$probe" --table)
finish
