#!/usr/bin/env bash
# usage: tests/house/run.sh
# The checks check the sources; this checks the checks.  Each case plants one fault in a small tree of its own and
# expects the check to name it; the same tree without the fault must pass.  Also ./dev's own behaviour, the counting of
# tests/run.sh, and install and uninstall.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

ok() {
	echo "ok $1"
	passed=$((passed + 1))
}

not_ok() {
	echo "not ok $1"
	[ -z "${2:-}" ] || printf '%s\n' "$2" | sed 's/^/    /'
	failed=$((failed + 1))
}

# A tree of three rooms in which every check passes.
tree() {
	rm -rf "$work/tree"
	mkdir -p "$work/tree/src/base" "$work/tree/src/low" "$work/tree/src/low/deep" "$work/tree/tests" "$work/tree/tools"
	cd "$work/tree"
	cat >ROOMS <<'END'
base
low        base
low/deep   base low
! foo.h     low
! cmocka.h  tests
END
	cp "$root/src/base/banned.h" src/base/
	cat >src/base/reasons.def <<'END'
REASON(USAGE, "usage", 400, 2, NEVER, "Read.")
REASON(DISK_FULL, "disk_full", 507, 5, LATER, "Free.")
END
	echo '#include "base/banned.h"' >src/base/a.h
	printf '#include "base/a.h"\n#include "low/l.h"\n' >src/low/l.c
	printf '#include <foo.h>\n' >src/low/l.h
	printf '#include "low/l.h"\n\nint f(void)\n{\n\treturn R_USAGE + R_DISK_FULL;\n}\n' >src/low/deep/d.c
	printf '#include <cmocka.h>\nint t = R_DISK_FULL;\n' >src/low/l_test.c
	echo 'expect "usage"' >tests/t.sh
	git init -q .
}

# clean CHECK: the tree as it is passes
clean() {
	local out
	if out=$("$root/tools/check-$1" "$work/tree" 2>&1); then ok "$1:clean"; else not_ok "$1:clean" "$out"; fi
}

# fault NAME CHECK TEXT: the check fails and its output has TEXT
fault() {
	local out
	if out=$("$root/tools/check-$2" "$work/tree" 2>&1); then
		not_ok "$2:$1" "the check passed"
	elif ! grep -qF -- "$3" <<<"$out"; then
		not_ok "$2:$1" "expected '$3' in: $out"
	else
		ok "$2:$1"
	fi
}

# a function of N lines
long_function() {
	local i
	echo "static int $1(int a,"
	printf '\tint b)\n{\n'
	for ((i = 0; i < $2 - 4; i++)); do echo "	a += $i;"; done
	echo "}"
}

test_rooms() {
	tree
	clean rooms
	echo '#include "low/l.h"' >src/base/b.c
	fault forbidden-edge rooms 'src/base/b.c:1: base may not include low'
	tree
	echo '#include "low/deep/d.h"' >>src/low/l.c
	fault edge-to-a-room-inside rooms 'low may not include low/deep'
	tree
	echo '#include <foo.h>' >>src/base/a.h
	fault third-party rooms 'src/base/a.h:2: <foo.h> belongs to the room low alone'
	sed -i 's/^! foo.h .*/& base/' ROOMS
	clean rooms
	tree
	echo '#include <cmocka.h>' >>src/low/l.c
	fault test-header rooms '<cmocka.h> belongs to the room tests alone'
	tree
	echo '#include "l.h"' >>src/low/l.c
	fault no-room-named rooms '"l.h": name its room'
	tree
	echo '#include "generated.h"' >>src/low/l.c
	clean rooms
	mkdir src/attic
	echo 'int x;' >src/attic/x.c
	fault file-in-no-room rooms 'src/attic/x.c:1: lies in no room'
	tree
	sed -i 's/^base$/base low/' ROOMS
	fault loop-in-table rooms 'ROOMS: the table has a loop'
	tree
	echo '#include "low/m.h"' >>src/low/l.h
	echo '#include "low/l.h"' >src/low/m.h
	fault loop-of-headers rooms 'headers include each other'
}

test_size() {
	local i
	tree
	clean size
	long_function big 90 >src/low/big.c
	fault function-of-90 size 'src/low/big.c:1: big has 90 lines, over 80'
	tree
	long_function edge 80 >src/low/big.c
	for ((i = 0; i < 30; i++)); do long_function "f$i" 10; done >>src/low/big.c
	clean size
	for ((i = 0; i < 3; i++)); do long_function "g$i" 60; done >src/low/more.c
	fault too-many-long size '4 of 35 functions have 60 lines or more'
	tree
	for ((i = 0; i < 800; i++)); do echo "extern int x$i;"; done >src/low/long.h
	fault file-of-800 size 'src/low/long.h: 800 lines'
	tree
	rm src/low/deep/d.c
	fault nothing-found size 'no function found'
}

test_reasons() {
	tree
	clean reasons
	echo 'REASON(NEW, "new_one", 400, 2, NEVER, "Do.")' >>src/base/reasons.def
	fault never-emitted reasons 'R_NEW is never emitted'
	fault never-tested reasons 'no test expects R_NEW (new_one)'
	echo 'int x = R_NEW;' >src/low/n.c
	fault emitted-but-untested reasons 'no test expects R_NEW'
	echo 'grep new_one_more' >>tests/t.sh
	fault longer-word-is-no-test reasons 'no test expects R_NEW'
	echo 'grep new_one' >>tests/t.sh
	clean reasons
	tree
	echo 'the usage of words' >tests/t.sh
	fault everyday-word-is-no-test reasons 'no test expects R_USAGE'
	tree
	mkdir tests/house
	mv tests/t.sh tests/house/
	fault own-tests-do-not-count reasons 'no test expects R_USAGE'
	tree
	echo 'REASON(ODD,' >>src/base/reasons.def
	fault unreadable-row reasons "a row that this check can't read"
}

test_banned() {
	tree
	clean banned
	printf 'int x;\nint y = std::atoi("1");\n' >src/low/x.cpp
	fault call-in-cpp banned 'src/low/x.cpp:2: atoi is banned'
	tree
	printf '/* system(3)\n is banned */\nconst char *s = "system(x)";\n' >src/low/x.c
	clean banned
	echo 'int z = p->system(1) + my_system(2);' >>src/low/x.c
	clean banned
}

test_words() {
	tree
	clean words
	echo "see $work/tree/src" >notes.md
	fault own-path words 'the path of this checkout'
	tree
	printf 'look in /%s/%s/bailey\n' home somebody >notes.md
	fault home-of-a-person words 'a home directory of a person'
	tree
	printf '/* TO''DO: later */\n' >src/low/x.c
	fault unfinished-mark words 'src/low/x.c:1:'
	tree
	printf 'The ja''il is safe.\n' >notes.md
	fault synonym words 'say sandbox'
	tree
	printf 'A seam''less experience.\n' >notes.md
	fault advertisement words 'not how good it is'
}

test_docs() {
	tree
	printf '#!/bin/sh\necho "  build x"\n' >dev
	chmod +x dev
	echo '[a](src/low/l.c) [b](https://example.org/) [c](#part)' >notes.md
	clean docs
	echo '[d](missing.md)' >>notes.md
	fault dead-link docs "notes.md: 'missing.md' does not exist"
	tree
	printf '#!/bin/sh\necho "  build x"\n' >dev
	chmod +x dev
	echo 'Run ./dev polish.' >CONTRIBUTING.md
	fault unknown-verb docs "./dev help does not know 'polish'"
}

# suite NAME TEXT STATUS: a tree with only tests/run.sh and one suite that prints TEXT
suite() {
	rm -rf "$work/suite"
	mkdir -p "$work/suite/tests/cli" "$work/suite/build/logs"
	cp "$root/tests/run.sh" "$work/suite/tests/"
	echo 'cli/known for a reason' >"$work/suite/tests/allowed-skips.txt"
	printf '#!/bin/sh\ncat <<END\n%s\nEND\nexit %s\n' "$1" "$2" >"$work/suite/tests/cli/run.sh"
	chmod +x "$work/suite/tests/cli/run.sh"
}

# counts NAME LAST-LINE STATUS [OPTION]
counts() {
	local out status=0
	out=$(env -u BAILEY_BUILD -u BAILEY_LOGS -u BAILEY_STAGE "$work/suite/tests/run.sh" ${4:+"$4"} cli 2>&1) || status=$?
	if [ "${out##*$'\n'}" = "$2" ] && [ "$status" -eq "$3" ]; then
		ok "run:$1"
	else
		not_ok "run:$1" "status $status: $out"
	fi
}

test_run() {
	suite $'ok a\nok b' 0
	counts lines '2 passed, 0 failed, 0 skipped' 0
	suite $'ok a\nnot ok b' 1
	counts failure '1 passed, 1 failed, 0 skipped' 1
	suite $'ok a\n5 passed, 0 failed, 1 skipped' 0
	counts own-totals '5 passed, 0 failed, 1 skipped' 0
	counts unnamed-skip '5 passed, 1 failed, 1 skipped' 1 --strict
	suite $'ok a\nskip known no such host' 0
	counts allowed-skip '1 passed, 0 failed, 1 skipped' 0 --strict
	suite $'ok a\nskip unknown because' 0
	counts skip-unstrict '1 passed, 0 failed, 1 skipped' 0
	counts skip-strict '1 passed, 1 failed, 1 skipped' 1 --strict
	suite 'ok a' 3
	counts bad-status '1 passed, 1 failed, 0 skipped' 1
	suite 'hello' 0
	counts nothing-ran '0 passed, 1 failed, 0 skipped' 1
	suite '' 0
	rm "$work/suite/tests/cli/run.sh"
	counts missing '0 passed, 0 failed, 1 skipped' 0
	counts missing-strict '0 passed, 1 failed, 1 skipped' 1 --strict
}

test_summary() {
	local out
	printf '%s\n' \
		'{"name": "bailey:base/x", "stdout": "[ RUN      ] a\n[       OK ] a\n[  FAILED  ] b\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] b\n", "result": "FAIL"}' \
		'{"name": "bailey:base/y", "stdout": "", "result": "SKIP"}' \
		'{"name": "bailey:base/z", "stdout": "quote \" and \\n", "result": "OK"}' \
		'{"name": "bailey:base/t", "stdout": "", "result": "TIMEOUT"}' >"$work/testlog.json"
	out=$("$root/tools/test-summary" unit "$work/testlog.json") && not_ok summary:status "$out"
	if [ "$(grep -vE '^    ' <<<"$out")" = "ok unit/base/x:a
not ok unit/base/x:b
skip unit/base/y its program asked to be skipped
ok unit/base/z
not ok unit/base/t TIMEOUT
2 passed, 2 failed, 1 skipped" ]; then ok summary:lines; else not_ok summary:lines "$out"; fi
}

test_install() {
	local p=$work/prefix before after
	mkdir -p "$work/stage/bin" "$work/stage/libexec/bailey" "$work/stage/share/man/man1" "$p/share/man" "$p/bin"
	printf '#!/bin/sh\necho bailey\n' >"$work/stage/bin/bailey"
	chmod 755 "$work/stage/bin/bailey"
	echo guest >"$work/stage/libexec/bailey/bailey-guest"
	echo page >"$work/stage/share/man/man1/bailey.1"
	ln -s bailey.1 "$work/stage/share/man/man1/link.1"
	echo mine >"$p/bin/other"
	before=$(cd "$p" && find . | sort)
	BAILEY_STAGE=$work/stage "$root/tools/install.sh" install --prefix "$p" >/dev/null
	if cmp -s "$work/stage/bin/bailey" "$p/bin/bailey" && [ -x "$p/bin/bailey" ] && [ -h "$p/share/man/man1/link.1" ] &&
		[ ! -x "$p/libexec/bailey/bailey-guest" ]; then ok install:files; else not_ok install:files "$(ls -lR "$p")"; fi
	# an upgrade that drops a file
	rm "$work/stage/share/man/man1/link.1"
	BAILEY_STAGE=$work/stage "$root/tools/install.sh" install --prefix="$p" >/dev/null
	if [ ! -e "$p/share/man/man1/link.1" ] && [ ! -h "$p/share/man/man1/link.1" ] && [ -e "$p/share/man/man1/bailey.1" ]
	then ok install:upgrade; else not_ok install:upgrade "$(ls -lR "$p")"; fi
	"$root/tools/install.sh" uninstall --prefix "$p" >/dev/null
	after=$(cd "$p" && find . | sort)
	if [ "$before" = "$after" ]; then ok install:uninstall; else not_ok install:uninstall "$after"; fi
	if "$root/tools/install.sh" uninstall --prefix "$p" >/dev/null 2>&1; then not_ok install:twice; else ok install:twice; fi
	mkdir -p "$p/share/bailey"
	echo "f ../victim" >"$p/share/bailey/manifest"
	echo x >"$work/victim"
	if "$root/tools/install.sh" uninstall --prefix "$p" >/dev/null 2>&1 || [ ! -e "$work/victim" ]; then
		not_ok install:manifest-leads-out
	else
		ok install:manifest-leads-out
	fi
}

test_dev() {
	local status=0 out
	out=$("$root/dev" no-such-verb 2>&1) || status=$?
	if [ "$status" -eq 2 ] && grep -q '^usage: ./dev' <<<"$out"; then ok dev:unknown-verb; else not_ok dev:unknown-verb "$out"; fi
	if "$root/dev" help | grep -q '^usage: ./dev'; then ok dev:help; else not_ok dev:help; fi
	# no dpkg in PATH: a message, not a crash
	mkdir -p "$work/bin"
	out=$(PATH=$work/bin /bin/sh -c ". '$root/tools/need.sh'; need_packages made-up" 2>&1) && not_ok need:without-dpkg "$out"
	if grep -q 'made-up' <<<"$out"; then ok need:without-dpkg; else not_ok need:without-dpkg "$out"; fi
	out=$(cd "$work" && . "$root/tools/need.sh" && need_packages bash coreutils 2>&1)
	if [ -z "$out" ] && [ ! -e "$work/build" ]; then ok need:nothing-missing; else not_ok need:nothing-missing "$out"; fi
}

test_rooms
test_size
test_reasons
test_banned
test_words
test_docs
test_run
test_summary
test_install
test_dev
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
