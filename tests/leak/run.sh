#!/usr/bin/env bash
# usage: tests/leak/run.sh [--here] [COUNT]
# Nothing is left behind: counts the host's cgroups, processes, mounts, network namespaces and files
# before and after COUNT sandboxes (1000; a normal user 300) of all the kinds of sandboxes.pl, four
# at a time, and one more run, which sweeps.  Started as root it does that as root and then as a
# normal user with a delegated cgroup; --here is for the caller alone.
# It works in mount and pid namespaces of its own with an empty /tmp, so that every process and every
# file there is one of the test's (not where the program itself lies below /tmp).
# Needs bash, coreutils, util-linux and perl-base.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/user.sh"

only_here='' T=''
host_mounts=9 # a descriptor of the list of mounts of the host's first process

cleanup() {
	cd /
	stop_all
	[ -z "$T" ] || rm -rf "$T"
	drop_user
}

# Counts one thing; each is a line of the table in counted.
count_cgroups() { # HIERARCHY
	find "/sys/fs/cgroup/$1" -type d 2>/dev/null | wc -l
}

count_processes() {
	local p=(/proc/[0-9]*)
	echo ${#p[@]}
}

count_network_namespaces() {
	readlink /proc/[0-9]*/ns/net 2>/dev/null | sort -u | wc -l
}

count_mounts() { # self|host
	if [ "$1" = host ]; then
		wc -l <"/proc/self/fd/$host_mounts"
	else
		wc -l </proc/self/mountinfo
	fi
}

count_files() { # DIRECTORY
	find "$1" -mindepth 1 2>/dev/null | wc -l
}

# Files of the log come and go by rotation, so the log is left out.
count_home() {
	find "$BAILEY_HOME" -mindepth 1 ! -path "$BAILEY_HOME/log/*" | wc -l
}

counted() {
	local h
	for h in /sys/fs/cgroup /sys/fs/cgroup/*; do
		if [ -f "$h/cgroup.procs" ]; then
			echo "cgroups ${h#/sys/fs/cgroup/}"
		fi
	done
	echo processes
	echo network_namespaces
	echo mounts self
	[ ! -e "/proc/self/fd/$host_mounts" ] || echo mounts host
	[ "$BAILEY_LEAK_INSIDE" = plain ] || echo files /tmp
	echo files /run/bailey
	echo home
}

# What other programs of this host do shows in the cgroups: the largest of five looks is taken
# before, and after there is time to come down to it.
count() { # THING [ARGUMENT]
	"count_$1" "${@:2}"
}

largest() { # THING [ARGUMENT]
	local i n max=0
	for i in 1 2 3 4 5; do
		n=$(count "$@")
		[ "$n" -le "$max" ] || max=$n
		[ "$i" -eq 5 ] || sleep 0.02
	done
	echo "$max"
}

is_down_to() { # MAXIMUM THING [ARGUMENT]
	[ "$(count "${@:2}")" -le "$1" ]
}

check_kinds() { # FILE
	local kind made right wrong
	wrong=$(grep '^wrong' "$1" || true)
	[ -z "$wrong" ] || not_ok 'each sandbox ended as it had to' "$wrong"
	while IFS=$'\t' read -r kind made right; do
		[ "$kind" != wrong ] || continue
		is "$made sandboxes: $kind" "$made" "$right"
	done <"$1"
}

leak_test() { # COUNT
	local thing before=() things=() i began=$SECONDS
	new_mark
	bailey run -- true # what is made once and stays: the home, the lock of the ids
	[ "$rc" -eq 0 ] || {
		not_ok 'a sandbox starts' "$(left)"
		return
	}
	mapfile -t things < <(counted)
	for thing in "${things[@]}"; do
		# shellcheck disable=SC2086 # words
		before+=("$(largest $thing)")
	done
	perl "$here/sandboxes.pl" "$1" 4 "$mark" "$BAILEY" >"$T/kinds"
	check_kinds "$T/kinds"
	is 'all were made' "$1" \
		"$(awk -F '\t' '$1 != "wrong" { n += $2 } END { print n + 0 }' "$T/kinds")"
	is 'no process is left' '' "$(until_true 10 none_marked "$mark" || marked "$mark")"
	bailey run -- true
	is 'no cgroup is left behind the sweep' '' "$(cgroups)"
	for i in "${!things[@]}"; do
		# shellcheck disable=SC2086
		if until_true 100 is_down_to "${before[i]}" ${things[i]}; then
			ok "${things[i]}: ${before[i]} before, no more after"
		else
			not_ok "${things[i]}" "before ${before[i]}, after $(count ${things[i]})"
		fi
	done
	echo "# $section$1 sandboxes: $((SECONDS - began)) s"
}

main() {
	local n=''
	if [ "${1:-}" = --here ]; then
		only_here=1
		shift
	fi
	case ${1:-} in
	'') ;;
	*[!0-9]*)
		sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
		exit 2
		;;
	*) n=$1 ;;
	esac
	find_bailey
	if [ -z "${BAILEY_LEAK_INSIDE:-}" ]; then
		export BAILEY_LEAK_INSIDE=tmp
		case $BAILEY:$here in
		/tmp/* | *:/tmp/*) BAILEY_LEAK_INSIDE=plain ;;
		esac
		if [ -r /proc/1/mountinfo ]; then
			exec 9</proc/1/mountinfo
		fi
		# shellcheck disable=SC2016 # expanded inside
		in_private_mounts '[ "$BAILEY_LEAK_INSIDE" = plain ] ||
			mounter tmpfs /tmp mode=1777,size=64m
			export -f back
			unshare --pid --fork --kill-child --mount-proc bash -c "back \"\$@\"" bash "$@"' \
			bash "$here/run.sh" ${only_here:+--here} ${n:+"$n"}
		return
	fi
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	T=$(mktemp -d /var/tmp/bailey-leak.XXXXXX)
	export BAILEY_HOME=$T/home
	if [ "$(id -u)" -ne 0 ]; then
		section='user: '
		leak_test "${n:-300}"
	else
		section='root: '
		leak_test "${n:-1000}"
		if [ -z "$only_here" ]; then
			prepare_user
			run_as_user bash "$user_dir/tests/leak/run.sh" --here "${n:-300}" \
				>"$T/user.log" 2>&1 || true
			add_log user "$T/user.log"
		fi
	fi
	finish
}

main "$@"
