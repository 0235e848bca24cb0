#!/usr/bin/env bash
# usage: tests/library/run.sh
# libbailey as a program sees it: what the staged library exports and needs, the header by itself, and each program of
# examples/c built against it, shared and static, and run.  Needs gcc, binutils and pkg-config; g++ is used where it is.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
stage=${BAILEY_STAGE:-$root/build/stage}
T=$(mktemp -d /tmp/bailey-library.XXXXXX)
export BAILEY_HOME=$T/home BAILEY_LIBEXEC=$stage/libexec/bailey
server=''

cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	for d in "$BAILEY_HOME"/sandbox/runs/*/; do
		[ ! -d "$d" ] || "$T/rm" "$(basename "$d")" >/dev/null 2>&1 || true
	done
	rm -rf "$T"
}
trap cleanup EXIT

config() {
	PKG_CONFIG_PATH=$stage/lib/pkgconfig pkg-config --define-prefix "$@" bailey
}

build() { # OUTPUT SOURCE
	local flags
	flags=$(config --cflags --libs)
	# shellcheck disable=SC2086 # a list of flags
	gcc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -o "$T/$1" "$2" $flags -Wl,-rpath,"$stage/lib"
	# shellcheck disable=SC2046 # a list of flags
	gcc -std=c17 -D_GNU_SOURCE -O1 -o "$T/$1.static" "$2" $(config --cflags) "$stage/lib/libbailey.a"
}

surface() {
	local so=$stage/lib/libbailey.so.0 declared exported
	is "it needs the C library and nothing else" libc.so.6 \
		"$(readelf -d "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
	is "its name" libbailey.so.0 "$(readelf -d "$so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
	declared=$(gcc -E -P -I"$stage/include" -include bailey.h -x c /dev/null | tr '\n' ' ' |
		grep -o '__attribute__((visibility("default"))) [^(]*(' | grep -o 'bailey_[a-z_]*($' | tr -d '(' | sort)
	exported=$(nm -D --defined-only "$so" | sed -n 's/^[0-9a-f]* [TDBR] //p' | sed 's/@.*//' | sort)
	is "what it exports is what bailey.h declares" "$declared" "$exported"
	is "and the static one shows the same" "$declared" \
		"$(nm -g --defined-only "$stage/lib/libbailey.a" | sed -n 's/^[0-9a-f]* [TDBR] //p' | sort)"
}

header() {
	echo '#include <bailey.h>' >"$T/h.c"
	if gcc -std=c11 -pedantic -Wall -Wextra -Werror -I"$stage/include" -fsyntax-only "$T/h.c" 2>"$T/err"; then
		ok "the header in strict C11"
	else
		not_ok "the header in strict C11" "$(cat "$T/err")"
	fi
	if ! command -v g++ >/dev/null; then
		skip "the header in C++" "no g++"
	elif g++ -std=c++17 -Wall -Wextra -Werror -I"$stage/include" -fsyntax-only -x c++ "$T/h.c" 2>"$T/err"; then
		ok "the header in C++"
	else
		not_ok "the header in C++" "$(cat "$T/err")"
	fi
}

programs() {
	local f name
	for f in "$root"/examples/c/*.c; do
		name=$(basename "$f" .c)
		if build "$name" "$f" 2>"$T/err"; then
			ok "examples/c/$name.c builds, shared and static"
		else
			not_ok "examples/c/$name.c builds, shared and static" "$(cat "$T/err")"
		fi
	done
	cat >"$T/rm.c" <<'END'
#include <bailey.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	struct bailey_error e;
	struct bailey *b;
	if (argc < 2 || bailey_open(NULL, &b, &e) < 0 || bailey_remove_sandbox(b, argv[1], 0, 1, &e) < 0) {
		fprintf(stderr, "%s [%s]\n", e.message, e.reason);
		return 1;
	}
	return 0;
}
END
	build rm "$T/rm.c"
	cat >"$T/states.c" <<'END'
#include <bailey.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	struct bailey_sandbox *s;
	struct bailey_error e;
	struct bailey *b;
	if (argc < 2 || bailey_open(NULL, &b, &e) < 0 || bailey_connect(b, argv[1], &s, &e) < 0 ||
		bailey_pause(s, &e) < 0 || bailey_resume(s, &e) < 0 || bailey_stop(s, 0, &e) < 0) {
		fprintf(stderr, "%s [%s]\n", e.message, e.reason);
		return 1;
	}
	bailey_disconnect(s);
	bailey_close(b);
	return 0;
}
END
	build states "$T/states.c"
}

# NAME EXPECTED PROGRAM [ARGUMENT...]: its output with ids and byte counts made plain
shows() {
	local name=$1 want=$2 got
	shift 2
	got=$(timeout 60 "$@" 2>&1 | sed -E 's/b[0-9a-f]{16}/ID/g') || got="$got
status $?"
	is "$name" "$want" "$got"
}

live() {
	local how id
	for how in '' .static; do
		shows "run$how: a command's output and status" "out
err
status 7" sh -c "'$T/run$how' sh -c 'echo out; sleep 0.1; echo err >&2; exit 7'; echo status \$?"
		shows "sandbox$how: states" "ID example running <
disk 268435456
state paused
state stopped
state running" sh -c "'$T/sandbox$how' | grep -v '^events '"
	done
	id=$("$T/create" box)
	shows "exec" "to a descriptor
status 3
it said: QUIET WORDS
command 1: sh, ended
command 2: tr, ended
command 3: sh, runs
it said: early
it goes on
signal 9, 0 left" "$T/exec" "$id"
	mkdir -p "$T/tree/sub"
	echo text >"$T/tree/sub/file"
	ln -s /etc/passwd "$T/tree/link"
	shows "files" "13 bytes, mode 600
as an archive of N bytes
as expected: path_not_found
found a/letter:2: second
from byte 6: second
in: 4 entries, 5 bytes
listed b
listed letter
out: 4 entries, 5 bytes" sh -c "'$T/files' box '$T/tree' | sed 's/ive of [0-9]* /ive of N /' | sort"
	is "what came out is what went in" "" "$(diff -r --no-dereference "$T/tree" "$T/tree.out" 2>&1)"
	shows "fork" "fork: A home/agent/way
fork: A home/agent/way-2
original: A home/agent/way
original: A home/agent/way-1
the fork's changes as an archive: there" sh -c "'$T/fork' box | sort"
	events_and_ports "$id"
	"$T/rm" box
}

events_and_ports() { # ID
	local id=$1
	"$T/events" >"$T/all" 2>&1 || true
	is "events: the whole history of the first" "ID created
ID removed" "$(sed -E 's/b[0-9a-f]{16}/ID/; s/^(ID [a-z_]+).*/\1/' "$T/all" | sed -n '1p;$p')"
	"$T/create" told >/dev/null
	timeout 20 "$T/events" told >"$T/told" 2>&1 &
	server=$!
	sleep 0.5
	"$T/states" told
	if wait "$server"; then
		is "events: of one sandbox over its connection" "paused resumed stopped" \
			"$(awk '{ printf "%s%s", sep, $2; sep = " " }' "$T/told")"
	else
		not_ok "events: of one sandbox over its connection" "$(cat "$T/told")"
	fi
	server=''
	"$T/rm" told
	if ! "$T/exec" "$id" >/dev/null 2>&1 || ! command -v perl >/dev/null; then
		skip port "no perl"
		return
	fi
	cat >"$T/serve.c" <<'END'
#include <bailey.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	static const char *const serve[] = { "perl", "-MIO::Socket", "-e",
		"$l = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => 8080) or die;"
		"$s = $l->accept; print $s 'got ' . <$s>; close $s", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_sandbox *s;
	struct bailey_error e;
	struct bailey *b;
	o.argv = serve;
	o.flags = BAILEY_DETACHED;
	if (argc != 2 || bailey_open(NULL, &b, &e) < 0 || bailey_connect(b, argv[1], &s, &e) < 0 ||
		bailey_exec(s, &o, NULL, &e) < 0)
		return 1;
	bailey_disconnect(s);
	bailey_close(b);
	return 0;
}
END
	build serve "$T/serve.c"
	"$T/serve" "$id"
	sleep 0.5
	shows "port: in and out" "inside answers: got ping
it says: hello from inside
good day" "$T/port" "$id"
}

surface
header
programs
live
finish
