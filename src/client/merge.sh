#!/bin/sh
# usage: merge.sh OUTPUT CC ARCHIVE...
# Makes a static library of one object from several; only its names that begin with bailey_ stay visible.
set -eu

out=$1 cc=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$cc" -nostdlib -r -o "$dir/bailey.o" -Wl,--whole-archive "$@" -Wl,--no-whole-archive
objcopy --wildcard --keep-global-symbol='bailey_*' "$dir/bailey.o"
rm -f "$out"
ar rcs "$out" "$dir/bailey.o"
