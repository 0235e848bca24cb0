#!/usr/bin/env bash
# usage: tests/races/run.sh [ROUNDS [SECONDS]]
# Names are exchanged for links in a loop while archives are written beneath them, trees are read,
# removed and fingerprinted: ROUNDS (10000) of each case, or as many as SECONDS (12) allow.  The
# control is code that joins paths and believes them: it must lose each race.  Then living.sh does so to
# `image import`, `diff` and `apply`, a third of SECONDS each, since a round is a run of the program: for
# 10000 of those give 3600 SECONDS.
# BAILEY_BUILD names the builds; race-tree is taken from build/release, or where RACE_TREE says.
# Needs bash, coreutils and util-linux; it is quicker in a tmpfs, which takes a user namespace.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"

rounds=${1:-10000} seconds=${2:-12}
tool=${RACE_TREE:-${BAILEY_BUILD:-$root/build}/release/tests/races/race-tree}
T=$(mktemp -d "${TMPDIR:-/tmp}/bailey-races.XXXXXX")
trap 'rm -rf "$T"' EXIT

[ -x "$tool" ] || {
	echo "tests/races/run.sh: no $tool" >&2
	exit 2
}

# A small file system of its own, where that is allowed.
inside() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	if unshare -rm true 2>/dev/null; then
		unshare -rm sh -c 'mount -t tmpfs -o size=16m tmpfs "$1" && shift && exec "$@"' sh "$T" "$@"
	else
		"$@"
	fi
}

count() { # FILE
	cat "$1"
	passed=$((passed + $(grep -c '^ok ' "$1" || true)))
	failed=$((failed + $(grep -c '^not ok ' "$1" || true)))
}

try inside "$tool" "$T" "$rounds" "$seconds"
cp "$T/out" "$T/ours" && count "$T/ours"
is 'all cases ran' 0 "$rc"
try inside "$tool" "$T" 100000000 "$seconds" naive
cp "$T/out" "$T/naive" && count "$T/naive"
is 'all controls ran' 0 "$rc"
# the same of whole programs
living() {
	bash "$here/living.sh" "$rounds" "$(((seconds + 2) / 3))"
}
try living
grep -v ' passed, ' "$T/out" >"$T/living" || true
count "$T/living"
is 'all of living.sh ran' 0 "$rc"
finish
