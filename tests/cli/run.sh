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

test_user=bailey-test
only_here=
T=
made_user='' user_dir='' cgroup_name=''

usage() {
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
	exit "$1"
}

cleanup() {
	stop_all
	[ -z "$T" ] || rm -rf "$T"
	[ -z "$cgroup_name" ] || "$root/tools/delegate.sh" down "$test_user" "$cgroup_name" || true
	[ -z "$user_dir" ] || rm -rf "$user_dir"
	[ -z "$made_user" ] || userdel -r "$test_user" >/dev/null 2>&1 || true
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
		start=$SECONDS
		# shellcheck disable=SC1090 # one of the files beside this one
		. "$file"
		section=''
		echo "# $who/$topic: $((SECONDS - start)) s"
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

# A copy that the user may read, in case the tree lies below /root, and a cgroup of the user's own.
prepare_user() {
	if ! id "$test_user" >/dev/null 2>&1; then
		useradd --create-home --shell /bin/sh "$test_user"
		made_user=1
	fi
	user_dir=$(mktemp -d /var/tmp/bailey-cli-user.XXXXXX)
	mkdir -p "$user_dir/src/base" "$user_dir/tests" "$user_dir/build"
	cp -a "$root/tests/cli" "$root/tests/lib" "$user_dir/tests/"
	cp "$root/src/base/reasons.def" "$user_dir/src/base/"
	cp -a "$(dirname "$BAILEY")/.." "$user_dir/build/stage"
	chown -R "$test_user:" "$user_dir"
	cgroup_name=bailey-cli-$$
	cgroup_line=$("$root/tools/delegate.sh" up "$test_user" "$cgroup_name")
}

user_main() { # TOPIC...
	local home log=$T/user.log
	prepare_user
	home=$(getent passwd "$test_user" | cut -d: -f6)
	runuser -u "$test_user" -- \
		env -i PATH="$PATH" HOME="$home" USER="$test_user" LOGNAME="$test_user" \
			LANG=C.UTF-8 \
		"$cgroup_line" BAILEY="$user_dir/build/stage/bin/bailey" \
			BAILEY_TEST_GIB="${BAILEY_TEST_GIB:-1}" \
		sh -c 'cd "$1" && shift && exec "$@"' sh "$user_dir" bash \
			"$user_dir/tests/cli/run.sh" --here "$@" 2>&1 |
		tee "$log" | grep -vE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' || true
	if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; \
		then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		skipped=$((skipped + BASH_REMATCH[3]))
	else
		not_ok "user: the suite ran to its end" "$(tail -n 3 "$log")"
	fi
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
	BAILEY=$(realpath "${BAILEY:-${BAILEY_STAGE:-$root/build/stage}/bin/bailey}")
	[ -x "$BAILEY" ] || {
		echo "run.sh: no bailey at '$BAILEY'; './dev build' makes it" >&2
		exit 2
	}
	export BAILEY
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	mapfile -t topics < <(all_topics)
	[ $# -eq 0 ] || topics=("$@")
	here_main "${topics[@]}"
	[ -n "$only_here" ] || [ "$(id -u)" -ne 0 ] || user_main "${topics[@]}"
	finish
}

main "$@"
