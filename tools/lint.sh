#!/usr/bin/env bash
# usage: tools/lint.sh [CHECK...] | --fix-format
# Every check of the sources; prints "ok CHECK" or its findings and "not ok CHECK", then the totals.  './dev lint' and
# the suite `lint` call it after build/asan-clang exists, whose compile commands clang-tidy takes.
set -eu

cd "$(dirname "$0")/.."
. tools/files.sh
tree_files dev >/dev/null
build=${BAILEY_BUILD:-$PWD/build}
passed=0 failed=0

c_files() {
	tree_files 'src/*.c' 'src/*.h' 'src/*.cpp' 'tests/*.c' 'tests/*.h' 'tools/*.c'
}

# Scripts by name or by their first line.
scripts() {
	tree_files | while read -r f; do
		case $f in
		*.sh) printf '%s\n' "$f" ;;
		*.*) ;;
		*) ! head -n 1 "$f" | grep -qE '^#!.*[ /](ba)?sh$' || printf '%s\n' "$f" ;;
		esac
	done
	tree_files .ci/run
}

lint_format() {
	c_files | xargs clang-format-19 --dry-run -Werror --ferror-limit=3
}

# One file; a stamp named after everything that the outcome rests on spares the next run.
tidy_one() {
	local f=$1 key stamp
	key=$({
		cat .clang-tidy "${f%/*}/.clang-tidy" "$f" 2>/dev/null || true
		clang-tidy-19 --version
		clang-19 -E -Isrc -D_GNU_SOURCE -include src/base/banned.h "$f" 2>/dev/null || echo "$RANDOM"
	} | sha256sum | cut -d' ' -f1)
	stamp=$BAILEY_TIDY/tidy-ok/$key
	[ ! -e "$stamp" ] || return 0
	# cmocka's assertions return as far as the analyzer knows, and count as branches
	case $f in
	*_test.c) set -- --checks=-clang-analyzer-core.*,-readability-function-cognitive-complexity,-readability-function-size ;;
	*) set -- ;;
	esac
	clang-tidy-19 --quiet "$@" -p "$BAILEY_TIDY" "$f" 2>&1 | grep -vE '^[0-9]+ warnings? (generated|treated)|^$' || true
	[ "${PIPESTATUS[0]}" -eq 0 ] || return 1
	mkdir -p "${stamp%/*}" && : >"$stamp"
}
export -f tidy_one

lint_tidy() {
	export BAILEY_TIDY=$build/asan-clang
	[ -e "$BAILEY_TIDY/compile_commands.json" ] || {
		echo "no $BAILEY_TIDY/compile_commands.json: run './dev lint'"
		return 1
	}
	# only what the build compiles: a probe that a test builds by itself has no compile command
	c_files | grep '\.c$' | while read -r f; do
		! grep -q "/$f\"\|\"\(\.\./\)*$f\"" "$BAILEY_TIDY/compile_commands.json" || printf '%s\n' "$f"
	done | xargs -P "$(nproc)" -I '{}' bash -c 'tidy_one "$1"' _ '{}'
}

# resourceLeak knows nothing of cleanup attributes, uninitvar nothing of other files; clang-tidy and the sanitizers do
# better.  The other two misread tables and loop conditions.
lint_cppcheck() {
	mkdir -p "$build/cppcheck"
	tree_files 'src/*.c' 'tools/*.c' 'tests/*.c' | cppcheck --quiet --language=c --std=c11 --error-exitcode=1 \
		--enable=warning,performance,portability --inline-suppr --suppress=missingIncludeSystem --suppress=varFuncNullUB \
		--suppress=resourceLeak --suppress=uninitvar --suppress=ctuPointerArith --suppress=arrayIndexThenCheck -D__x86_64__ \
		--cppcheck-build-dir="$build/cppcheck" -j "$(nproc)" -D_GNU_SOURCE -D__linux__ -Isrc --file-list=-
}

lint_shellcheck() {
	scripts | sort -u | xargs shellcheck
}

lint_codespell() {
	tree_files | grep -vE '^LICENSE$|package-lock\.json$|^tests/corpus/' | xargs codespell
}

lint_rooms() {
	tools/check-rooms
}

lint_size() {
	tools/check-size
}

lint_reasons() {
	tools/check-reasons
}

lint_banned() {
	tools/check-banned
}

lint_words() {
	tools/check-words
}

lint_docs() {
	tools/check-docs
}

run_check() {
	local out
	if out=$("lint_$1" 2>&1); then
		echo "ok $1"
		[ "$1" != size ] || echo "$out"
		passed=$((passed + 1))
	else
		echo "not ok $1"
		printf '%s\n' "$out" | head -n 100
		failed=$((failed + 1))
	fi
}

if [ "${1:-}" = --fix-format ]; then
	c_files | xargs clang-format-19 -i
	exit 0
fi
[ $# -gt 0 ] || set -- format rooms size reasons banned words docs shellcheck codespell cppcheck tidy
for check in "$@"; do
	run_check "$check"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
