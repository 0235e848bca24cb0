# shellcheck shell=bash
# Behaviour of run.sh: the example that forks a failing project three ways and keeps the fix whose tests pass.
# what the library shares
# shellcheck disable=SC2154

cp -R "$here/../../examples/wordcount" "$T/wordcount"
rc=0
BAILEY=$BAILEY timeout -k 5 80 bash "$here/../../examples/three-ways/run.sh" "$T/wordcount" >"$T/out" 2>"$T/err" || rc=$?
is 'it ends well' 0 "$rc"
holds 'one fix passes' grep -qx 'keep-the-state: tests pass' "$T/out"
is 'two do not' 2 "$(grep -c 'tests fail: 2 of them$' "$T/out")"
holds 'the project is mended by that one' grep -qx '	bool in_word = false;' "$T/wordcount/src/count.c"
holds 'and its tests pass' grep -qx 'all tests passed' "$T/out"
