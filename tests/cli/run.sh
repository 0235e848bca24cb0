#!/usr/bin/env bash
# usage: tests/cli/run.sh [--here] [TOPIC...]
# Tests of the command line from outside, on the built program (BAILEY, or the staged one):
# whatever a person or a program sees of `bailey run`.  A topic is a file NN-TOPIC.sh beside this
# one.  Started as root it runs them as root, then all again as a normal user with a delegated
# cgroup, which it makes for that; --here is for the caller alone. Needs bash, coreutils,
# util-linux and perl-base.  BAILEY_TEST_GIB is how much output the largest case moves (10; a user
# 1).
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/user.sh"

only_here='' T='' user_pid=''

usage() {
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
	exit "$1"
}

cleanup() {
	cd /
	[ -z "$user_pid" ] || kill "$user_pid" 2>/dev/null || true
	stop_all
	[ -z "$T" ] || rm -rf "$T"
	drop_user
}

topic_file() { # TOPIC
	local f
	for f in "$here"/[0-9][0-9]-"$1".sh; do
		[ -f "$f" ] && echo "$f" && return
	done
	echo "run.sh: no topic '$1'; there are: $(all_topics | tr '\n' ' ')" >&2
	exit 2
}

all_topics() {
	local f
	for f in "$here"/[0-9][0-9]-*.sh; do
		f=${f##*/[0-9][0-9]-}
		echo "${f%.sh}"
	done
}

run_topics() { # TOPIC...
	local topic file start
	for topic in "$@"; do
		file=$(topic_file "$topic")
		section="$who/$topic: "
		start=${EPOCHREALTIME/[.,]/}
		# shellcheck disable=SC1090 # one of the files beside this one
		. "$file"
		section=''
		echo "# $who/$topic: $(((${EPOCHREALTIME/[.,]/} - start) / 100000)) tenths of a second"
	done
}

here_main() { # TOPIC...
	unset "${!BAILEY_RUN_@}" "${!BAILEY_IDS_@}" BAILEY_OUTPUT_MAX_CAPTURE BAILEY_LIBEXEC
	T=$(mktemp -d /var/tmp/bailey-cli.XXXXXX)
	export BAILEY_HOME=$T/home
	mkdir "$T/home" "$T/w"
	# shellcheck disable=SC2034 # for the topics
	case $(id -u) in
	0)
		who=root
		rw=(--root-workspace)
		;;
	*)
		who=user
		rw=()
		;;
	esac
	cd "$T/w"
	# everything below rests on this; without it a hundred lines would fail for one cause
	bailey run -- true
	if [ "$rc" -ne 0 ]; then
		not_ok "$who: a sandbox starts" "$(left)"
		return
	fi
	ok "$who: a sandbox starts"
	run_topics "$@"
}

main() {
	local topics
	case ${1:-} in
	--here)
		only_here=1
		shift
		;;
	-h | --help) usage 0 ;;
	-*) usage 2 >&2 ;;
	esac
	find_bailey
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	mapfile -t topics < <(all_topics)
	[ $# -eq 0 ] || topics=("$@")
	if [ -z "$only_here" ] && [ "$(id -u)" -eq 0 ]; then
		# beside root's own, since most of the time either is waiting
		prepare_user
		run_as_user bash "$user_dir/tests/cli/run.sh" --here "${topics[@]}" \
			>"$user_dir/log" 2>&1 </dev/null &
		user_pid=$!
	fi
	here_main "${topics[@]}"
	if [ -n "$user_pid" ]; then
		wait "$user_pid" || true
		user_pid=''
		add_log user "$user_dir/log"
	fi
	finish
}

main "$@"
