#!/usr/bin/env bash
# usage: tests/archives/run.sh [FILES]
# The rooms archive and tree: the hostile corpus (run.py, corpus.py) against its controls, round trips
# with other archivers, full disks, and a tree of FILES files (20000) in bounded memory.
# BAILEY_BUILD names the builds; tree-tool is taken from build/release, or where TREE_TOOL says.
# Needs bash, coreutils, util-linux, GNU tar and python3; libarchive's bsdtar where there is one.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"

files=${1:-20000}
tool=${TREE_TOOL:-${BAILEY_BUILD:-$root/build}/release/tests/archives/tree-tool}
T=$(mktemp -d "${TMPDIR:-/tmp}/bailey-archives.XXXXXX")
trap 'chmod -R u+rwx "$T" 2>/dev/null || true; rm -rf "$T"' EXIT

# Everything that a walk sees of a tree, times in nanoseconds, what is in the files too.
picture() { # DIR
	(cd "$1" && find . -mindepth 1 -printf '%P|%y|%m|%n|%l|%T@|' \( -type f -printf '%s' , -true \) -print | sort | sha256sum &&
		find . -type f -print0 | sort -z | xargs -0r sha256sum | sha256sum)
}

make_tree() { # DIR
	local long
	mkdir -p "$1/dir/sub" "$1/empty"
	long=$(printf 'n%.0s' {1..200})
	mkdir -p "$1/$long/$long"
	echo deep >"$1/$long/$long/$long"
	echo 'not UTF-8' >"$1/$(printf 'a\xff\xfe\n b')"
	echo 'not UTF-8, and long' >"$1/$(printf '\xff%.0s' {1..150})"
	echo one >"$1/dir/file"
	ln "$1/dir/file" "$1/dir/sub/another-name"
	ln -s ../../outside "$1/dir/link"
	ln -s "$long$long$long" "$1/long-link"
	: >"$1/nothing"
	head -c 700000 /dev/urandom >"$1/dir/random"
	truncate -s 20M "$1/holes"
	for at in 0 1000000 5000000 19999999; do
		printf data | dd of="$1/holes" bs=1 seek="$at" conv=notrunc status=none
	done
	truncate -s 21M "$1/all-hole"
	touch -d '1960-01-01 00:00:00.5' "$1/nothing"
	touch -d '2026-01-02 03:04:05.123456789' "$1/dir/file"
	touch -h -d '2001-01-02 03:04:05.5' "$1/dir/link"
	chmod 0751 "$1/dir/sub"
	chmod 0604 "$1/dir/random"
	chmod 01777 "$1/empty"
	touch -d '2020-01-01 00:00:00.25' "$1/empty" "$1/dir/sub" "$1/$long/$long"
	touch -d '2020-01-01 00:00:01.75' "$1/dir" "$1/$long"
}

# The same entries and data, in any order; ids and holes are the writer's.
listing() { # ARCHIVE
	"$tool" list <"$1" | awk '
	/^  sum / { print last, $2; last = ""; next }
	last != "" { print last }
	{ $3 = $4 = 0; last = $0; sub(/\/$/, "", last) }
	END { if (last != "") print last }' | sed 's, \./, ,' | sort
}

trips() {
	local form
	make_tree "$T/tree"
	chmod 0755 "$T/tree"
	mkdir "$T/own" "$T/tar" "$T/pieces"
	"$tool" read "$T/tree" >"$T/own.tar" 2>/dev/null
	"$tool" write "$T/own" <"$T/own.tar" >/dev/null
	is 'a tree survives' "$(picture "$T/tree")" "$(picture "$T/own")"
	"$tool" write "$T/pieces" --piece 509 <"$T/own.tar" >/dev/null
	is 'a tree survives in pieces' "$(picture "$T/tree")" "$(picture "$T/pieces")"
	between 'holes stay holes' 0 200 "$(du -k "$T/own/holes" | cut -f1)"
	between 'holes take no room in the archive' 0 1500 "$(du -k --apparent-size "$T/own.tar" | cut -f1)"
	tar -C "$T/tar" -xpf "$T/own.tar" 2>"$T/err"
	is 'GNU tar reads it' "$(picture "$T/tree")" "$(picture "$T/tar")"
	for form in gnu pax 'gnu -S' 'pax -S' 'pax -S --sparse-version=1.0'; do
		rm -rf "$T/x" && mkdir "$T/x"
		# shellcheck disable=SC2086 # options
		tar -C "$T/tree" --format=$form -cf - . | "$tool" write "$T/x" >/dev/null
		# only pax keeps fractions of seconds
		case $form in
		pax*) is "GNU tar --format=$form is read" "$(picture "$T/tree")" "$(picture "$T/x")" ;;
		*) holds "GNU tar --format=$form is read" diff -r --no-dereference "$T/tree" "$T/x" ;;
		esac
	done
	rm -rf "$T/x" && mkdir "$T/x"
	python3 -c '
import sys, tarfile
tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT).add(sys.argv[1], ".")' "$T/tree" >"$T/py.tar"
	# the end mark is what close() would write
	head -c 1024 /dev/zero >>"$T/py.tar"
	"$tool" write "$T/x" <"$T/py.tar" >/dev/null
	holds "Python's is read" diff -r --no-dereference "$T/tree" "$T/x"
	rm -rf "$T/x" && mkdir "$T/x"
	python3 -c '
import sys, tarfile
t = tarfile.open(fileobj=sys.stdin.buffer, mode="r|")
t.extractall(sys.argv[1], filter="fully_trusted") if hasattr(tarfile, "data_filter") else t.extractall(sys.argv[1])' "$T/x" <"$T/own.tar"
	holds 'Python reads it' diff -r --no-dereference "$T/tree" "$T/x"
	if ! command -v bsdtar >/dev/null; then
		skip bsdtar 'libarchive-tools is not installed'
		return
	fi
	# libarchive 3.6 writes and reads the fractions of such times with the wrong sign
	touch -d '1960-01-01 00:00:00' "$T/tree/nothing"
	"$tool" read "$T/tree" >"$T/own.tar" 2>/dev/null
	for form in gnutar pax ustar; do
		rm -rf "$T/x" && mkdir "$T/x"
		bsdtar -C "$T/tree" --format=$form -cf - . 2>/dev/null | "$tool" write "$T/x" >/dev/null || true
		case $form in
		pax) is "bsdtar --format=$form is read" "$(picture "$T/tree")" "$(picture "$T/x")" ;;
		gnutar) holds "bsdtar --format=$form is read" diff -r --no-dereference "$T/tree" "$T/x" ;;
		# it leaves out what does not fit
		*) holds "bsdtar --format=$form is read" diff -r --no-dereference "$T/tree/dir" "$T/x/dir" ;;
		esac
	done
	rm -rf "$T/x" && mkdir "$T/x"
	LC_ALL=C.UTF-8 bsdtar -C "$T/x" -xpf "$T/own.tar"
	is 'bsdtar reads it' "$(picture "$T/tree")" "$(picture "$T/x")"
}

# In namespaces of its own, so that a normal user has a small file system too.
disk() {
	cat >"$T/disk.sh" <<'END'
set -eu
mount -t tmpfs -o size=1m tmpfs "$2"
echo before >"$2/old"
head -c 3000000 /dev/zero >"$3/old"
tar -C "$3" -cf - old | "$1" write "$2" && exit 1
[ "$(cat "$2/old")" = before ] && [ "$(ls -A "$2")" = old ] || echo "left: $(ls -A "$2")"
mv "$3/old" "$3/new"
tar -C "$3" -cf - new | "$1" write "$2" && exit 1
[ "$(ls -A "$2")" = old ] || echo "left: $(ls -A "$2")"
mount -t tmpfs -o nr_inodes=5 tmpfs "$2"
mkdir "$3/d" && touch "$3/d/1" "$3/d/2" "$3/d/3" "$3/d/4"
tar -C "$3" -cf - d | "$1" write "$2" && exit 1
mkdir "$3/h" "$3/h/other" && echo text >"$3/h/a" && truncate -s 10m "$3/h/a"
ln "$3/h/a" "$3/h/other/a" && ln "$3/h/a" "$3/h/other/b" && ln "$3/h/a" "$3/h/z"
mount -t tmpfs tmpfs "$2"
mkdir -p "$2/h/other" && mount -t tmpfs tmpfs "$2/h/other" && echo old >"$2/h/other/b"
tar -C "$3" -S --sort=name -cf - h/a h/other h/z | "$1" write "$2" >/dev/null
diff -r "$3/h" "$2/h"
[ "$2/h/a" -ef "$2/h/z" ] || echo 'no link'
[ "$(du -k "$2/h/other/b" | cut -f1)" -lt 100 ] || echo 'no hole in the copy'
[ "$(ls -A "$2/h/other" | wc -l)" = 2 ] || echo "left: $(ls -A "$2/h/other")"
mount -t tmpfs -o size=100m tmpfs "$2"
mkdir "$3/m"
for i in 1 2 3 4 5 6 7 8 9; do head -c 12000000 /dev/zero >"$3/m/$i"; done
tar -C "$3" -cf - m | "$1" write "$2" && exit 1
[ "$(stat -f -c %a "$2")" -ge 1000 ] || echo "free: $(stat -f -c %a "$2")"
[ "$(ls -A "$2/m" | wc -l)" -ge 6 ] || echo "written: $(ls -A "$2/m")"
mount -t tmpfs -o nr_inodes=10000 tmpfs "$2"
mkdir "$3/n"
(cd "$3/n" && seq 10000 | xargs touch)
tar -C "$3" -cf - n | "$1" write "$2" && exit 1
[ "$(stat -f -c %d "$2")" -ge 90 ] || echo "free inodes: $(stat -f -c %d "$2")"
exit 0
END
	mkdir "$T/full" "$T/much"
	if ! unshare -rm true 2>/dev/null; then
		skip full-disk 'no user namespace to mount in'
		return
	fi
	rc=0
	unshare -rm sh "$T/disk.sh" "$tool" "$T/full" "$T/much" >"$T/out" 2>"$T/err" || rc=$?
	is 'a full disk is an error' 0 "$rc"
	is 'nothing unfinished stays' '' "$(cat "$T/out")"
	is 'it says what and where' "disk_full: can't write 'old': No space left on device
disk_full: can't write 'new': No space left on device
disk_full: can't create 'd/4': No space left on device
disk_full: can't write 'm/N': too little would stay free on its file system
disk_full: can't write 'n/N': too little would stay free on its file system" "$(sed -E "s,'d/[1-4]','d/4',;s,'([mn])/[0-9]+','\1/N'," "$T/err")"
	rm -rf "$T/much"
}

# Prints the kilobytes that a command had at most, or the 10,000 of what started it if that is more.
peak() { # COMMAND...
	/usr/bin/env python3 -c '
import resource, subprocess, sys
r = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(r.returncode)' "$@"
}

many() {
	mkdir "$T/many" "$T/many-out"
	(cd "$T/many" && seq 1 "$files" | awk '{ d = int($1 / 1000); if (!(d in s)) { s[d] = 1; print d > "dirs" } print d "/f" $1 > "names" }' &&
		xargs mkdir <dirs && xargs touch <names && rm dirs names)
	peak "$tool" read "$T/many" >"$T/many.tar" 2>"$T/err"
	between "$files files are read in 20 MB" 1 20000 "$(tail -n 1 "$T/err")"
	peak "$tool" write "$T/many-out" <"$T/many.tar" >/dev/null 2>"$T/err"
	between "$files files are written in $((20 + files / 20000)) MB" 1 $((20000 + files / 20)) "$(tail -n 1 "$T/err")"
	is "$files files arrive" "$files" "$(find "$T/many-out" -type f | wc -l)"
	"$tool" fingerprint "$T/many" >"$T/out"
	if [ "$files" -lt 190000 ]; then
		like 'their fingerprint is whole' '* whole' "$(cat "$T/out")"
	else
		like 'their fingerprint is partial' '* partial' "$(cat "$T/out")"
	fi
	"$tool" remove "$T" many >/dev/null
	"$tool" remove "$T" many-out >/dev/null
	holds 'they are removed' [ ! -e "$T/many" ]
}

hostile() {
	python3 -B "$here/run.py" "$tool" "$T" >"$T/hostile" || true
	tail -n 1 "$T/hostile" | grep -q ' passed, ' || not_ok hostile "$(tail -n 5 "$T/hostile")"
	grep -v ' passed, ' "$T/hostile"
	passed=$((passed + $(grep -c '^ok ' "$T/hostile" || true)))
	failed=$((failed + $(grep -c '^not ok ' "$T/hostile" || true)))
}

if ! command -v python3 >/dev/null; then
	skip archives 'python3 is not installed'
	finish
	exit
fi
[ -x "$tool" ] || {
	echo "tests/archives/run.sh: no $tool" >&2
	exit 2
}
umask 022
trips
disk
many
hostile
finish
