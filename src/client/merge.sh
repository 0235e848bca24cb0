#!/bin/sh
# usage: merge.sh OUTPUT CC... -- ARCHIVE...
# Makes a static library of one object from several; only its names that begin with bailey_ stay visible.
set -eu

out=$1
shift
cc=
while [ "$1" != -- ]; do
	cc="$cc $1"
	shift
done
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck disable=SC2086 # a compiler may come with words before it
$cc -nostdlib -r -o "$dir/bailey.o" -Wl,--whole-archive "$@" -Wl,--no-whole-archive
objcopy --wildcard --keep-global-symbol='bailey_*' "$dir/bailey.o"
rm -f "$out"
ar rcs "$out" "$dir/bailey.o"
