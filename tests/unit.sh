#!/bin/sh
# usage: tests/unit.sh LABEL BUILDDIR
# Runs the unit tests of one build directory and prints a line per case.
set -eu

build=${BAILEY_BUILD:-build}/$2
slow=1
case $2 in asan-*) slow=3 ;; esac
# meson says in its log what failed; the status is the summary's business
meson test -C "$build" --no-rebuild --no-suite slow -t "$slow" >/dev/null 2>&1 || true
exec "$(dirname "$0")/../tools/test-summary" "$1" "$build/meson-logs/testlog.json"
