#!/usr/bin/env bash
# usage: tests/hostile-guest/run.sh [--jobs N] [LIE...]
# A guest that lies (hostile-guest, in bailey-guest's place) against the built program (BAILEY, or
# the staged one): whatever it says, a client ends with a reason and in time, nothing outside what
# was asked for is written, the engine's processes stay small, the sandbox goes on or is lost, and
# it can be removed.  The lies are listed by the program; which verb meets which, and which may end
# well, is said in batch.sh.  Runs as whoever calls.
# Needs bash, coreutils, util-linux and perl-base.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/user.sh"

jobs=4 work='' pids=()

find_built() { # PROGRAM
	local p build=${BAILEY_BUILD:-$root/build}
	for p in "$build"/{,release/,*/}tests/hostile-guest/"$1"; do
		[ -x "$p" ] && echo "$p" && return
	done
	echo "no $1 below '$build'; './dev build' makes it" >&2
	exit 2
}

# A directory of programs as the installed one, but for the guest.
make_libexec() {
	local f
	mkdir "$work/libexec"
	for f in "$(dirname "$BAILEY")"/../libexec/bailey/*; do
		[ ! -f "$f" ] || cp "$f" "$work/libexec/"
	done
	cp "$guest" "$work/libexec/bailey-guest"
	chmod 755 "$work" "$work/libexec"
}

count() { # WORD
	cat "$work"/log.* | grep -c "^$1 " || true
}

main() {
	local lies i part
	while [ $# -gt 0 ]; do
		case $1 in
		--jobs) jobs=${2:?} && shift ;;
		-*)
			sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
			exit 2
			;;
		*) break ;;
		esac
		shift
	done
	find_bailey
	guest=$(find_built hostile-guest)
	client=$(find_built hostile-client)
	mapfile -t lies < <("$guest" --list)
	[ $# -eq 0 ] || lies=("$@")
	work=$(mktemp -d /var/tmp/bailey-hostile.XXXXXX)
	trap 'end_beside "$work" ${pids[@]+"${pids[@]}"}' EXIT
	trap 'exit 130' INT TERM
	make_libexec
	# every jobs-th one: neighbours in the list take about as long
	for ((i = 0; i < jobs; i++)); do
		part=()
		for ((k = i; k < ${#lies[@]}; k += jobs)); do
			part+=("${lies[k]}")
		done
		[ ${#part[@]} -gt 0 ] || continue
		perl "$here/../conformance/reaper.pl" "part $i" 400 bash "$here/batch.sh" \
			"$work/libexec" "$client" "${part[@]}" >"$work/log.$i" 2>&1 </dev/null &
		pids+=("$!")
	done
	wait
	pids=()
	cat "$work"/log.*
	passed=$(count ok) failed=$(count 'not ok') skipped=$(count skip)
	finish
}

main "$@"
