# shellcheck shell=bash
# Behaviour of run.sh: names that are no UTF-8, holes, FIFOs and sockets in diff, apply, archives, snapshots and forks.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

odd=$'not\xff\xfeutf8'
# what is there, of what kind, how long, and how much room it takes
look='cd /workspace/odd && find . -mindepth 1 \( -type d -printf "%y %p\0" -o -printf "%y %s %l %p\0" \) | sort -z | sha256sum
	[ $(($(stat -c %b hole) / 2)) -lt 1024 ] && echo sparse; dd if=hole bs=1 skip=100000000 count=4 2>/dev/null'
new --disk 48m
inside 'mkdir odd && cd odd && echo 1 >"$(printf "not\377\376utf8")" && mkdir "$(printf "d\200\nx")" &&
	echo 2 >"$(printf "d\200\nx/in")" && ln -s "$(printf "to\377")" "$(printf "l\377")" && truncate -s 300M hole &&
	printf data | dd of=hole bs=1 seek=100000000 conv=notrunc 2>/dev/null && truncate -s 200M all-hole &&
	mkfifo fifo && perl -MSocket -e "socket S, PF_UNIX, SOCK_STREAM, 0; bind S, pack_sockaddr_un(q(sock)) or die"
	perl -e "exit(syscall(259, -100, my \$n = q(device), 0020666, 0x103) == 0 ? 0 : 3)"'
is 'all are made but a device, which is refused' 3 "$rc"
inside "$look"
there=$(cat "$T/out")
like 'they are there, with their holes' '*sparse*data' "$there"

bailey diff "$sb"
is 'diff' 0 "$rc"
for path in 'not\xff\xfeutf8' 'd\x80\x0ax' 'd\x80\x0ax/in' 'l\xff' hole all-hole fifo sock; do
	holds "diff has $path" grep -qxF "A workspace/odd/$path" "$T/out"
done
bailey diff "$sb" --json
like 'the size in JSON is with the holes' '*odd/all-hole"*"size":209715200*' "$(cat "$T/out")"
holds 'a name that is no text comes as base64' \
	grep -qF "$(printf 'workspace/odd/%s' "$odd" | base64 -w 0)" "$T/out"

mkdir "$T/target"
bailey apply "$sb" "$T/target" --yes
is 'apply' 0 "$rc"
like 'it says what it left out' '*left out*' "$(cat "$T/err")"
is 'odd names arrive' '1 2' "$(cat "$T/target/workspace/odd/$odd") $(cat "$T/target/workspace/odd/"d*/in)"
is 'a link too' $'to\xff' "$(readlink "$T/target/workspace/odd/"$'l\xff')"
is 'holes stay holes' "314572800 209715200 data" \
	"$(stat -c %s "$T/target/workspace/odd/hole" "$T/target/workspace/odd/all-hole" | xargs) $(
		dd if="$T/target/workspace/odd/hole" bs=1 skip=100000000 count=4 status=none)"
between 'and take no room: KiB' 0 2048 "$(du -sk "$T/target/workspace/odd" | cut -f 1)"
holds 'no FIFO, no socket' [ -z "$(find "$T/target" -type p -o -type s)" ]

for verb in apply cp; do
	rc=0
	if [ $verb = apply ]; then
		"$BAILEY" apply "$sb" - >"$T/tar" 2>"$T/err" || rc=$?
	else
		"$BAILEY" cp "$sb:/workspace/odd" - >"$T/tar" 2>"$T/err" || rc=$?
	fi
	is "$verb: an archive" 0 "$rc"
	between "$verb: without the holes: bytes" 1000 2000000 "$(stat -c %s "$T/tar")"
	mkdir "$T/$verb"
	tar -C "$T/$verb" -xf "$T/tar" 2>"$T/err" || true
	is "$verb: tar reads it" 'data 2' "$(
		dd if="$(find "$T/$verb" -name hole)" bs=1 skip=100000000 count=4 status=none) $(cat "$(find "$T/$verb" -name in)")"
	rm -rf "${T:?}/$verb"
done

a=$sb
for of in running stopped; do
	sb=$a
	[ $of = running ] || bailey stop "$a"
	bailey snapshot "$a" --name "snap-$of"
	is "snapshot of a $of one" 0 "$rc"
	bailey fork "snap-$of"
	is "a fork of it" 0 "$rc"
	sb=$(cat "$T/out")
	inside "$look"
	is "$of: all is as it was" "$there" "$(cat "$T/out")"
	tells "$of: a FIFO and a socket" 'ps' 'cd /workspace/odd; [ -p fifo ] && [ -S sock ] && echo ps'
done
rm -rf "$T/target" "$T/tar"
