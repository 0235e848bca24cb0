#!/usr/bin/env bash
# usage: tools/fuzz.sh SECONDS | replay
# Builds the fuzz targets (the rooms' NAME_fuzz.c, listed in meson's `fuzzers`) with clang 19, libFuzzer, ASan and UBSan, then runs each that long, or
# only over its stored seeds.  New inputs stay in build/fuzz-corpus; a crash is written to build/fuzz-crashes.
set -eu

cd "$(dirname "$0")/.."
build=${BAILEY_BUILD:-$PWD/build}
logs=${BAILEY_LOGS:-$build/logs}
dir=$build/fuzz
mode=${1:?usage: tools/fuzz.sh SECONDS | replay}
passed=0 failed=0

compile() {
	if [ "$(cat "$dir/source-root" 2>/dev/null)" != "$PWD" ] || [ ! -e "$dir/build.ninja" ]; then
		rm -rf "$dir"
		CC=clang-19 CXX=clang++-19 meson setup "$dir" -Dfuzz=true -Dtests=disabled -Db_lundef=false \
			-Db_sanitize=address,undefined -Dc_args=-fsanitize=fuzzer-no-link || return 1
		echo "$PWD" >"$dir/source-root"
	fi
	ninja -C "$dir" fuzz-targets
}

run_target() {
	local exe=$1 name log
	name=$(basename "$exe")
	name=${name%_fuzz}
	log=$logs/fuzz-$name.log
	mkdir -p "tests/corpus/$name" "$build/fuzz-corpus/$name" "$build/fuzz-crashes"
	set -- -artifact_prefix="$build/fuzz-crashes/$name-" -timeout=10 -rss_limit_mb=2048
	if [ "$mode" = replay ]; then
		set -- "$@" -runs=0 "tests/corpus/$name"
	else
		set -- "$@" -max_total_time="$mode" "$build/fuzz-corpus/$name" "tests/corpus/$name"
	fi
	if [ "$mode" = replay ] && [ -z "$(ls "tests/corpus/$name")" ]; then
		echo "not ok $name has no seeds in tests/corpus/$name"
		failed=$((failed + 1))
	elif "$exe" "$@" >"$log" 2>&1; then
		echo "ok $name $(grep -o 'stat::number_of_executed_units: [0-9]*\|Done [0-9]* runs.*' "$log" | tail -n 1)"
		passed=$((passed + 1))
	else
		echo "not ok $name"
		tail -n 30 "$log"
		failed=$((failed + 1))
	fi
}

mkdir -p "$logs"
if ! compile >"$logs/build-fuzz.log" 2>&1; then
	tail -n 30 "$logs/build-fuzz.log"
	echo "not ok build of the fuzz targets"
	exit 1
fi
while read -r exe; do
	run_target "$exe" </dev/null
done < <(find "$dir" -type f -name '*_fuzz' -perm -u+x | sort)
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
