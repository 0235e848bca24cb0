# shellcheck shell=bash
# Behaviour of run.sh: names that are no UTF-8, holes, FIFOs and sockets in diff, apply and archives.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

make_odd
is 'all are made but a device, which is refused' 3 "$rc"
inside "$look"
there=$(cat "$T/out")
kinds=
! tells_kinds 'FIFOs, sockets and holes' || kinds=1
like 'they are there, with their holes' "*${kinds:+sparse}*data" "$there"

bailey diff "$sb"
is 'diff' 0 "$rc"
for path in 'not\xff\xfeutf8' 'd\x80\x0ax' 'd\x80\x0ax/in' 'l\xff' hole all-hole ${kinds:+fifo sock}; do
	holds "diff has $path" grep -qxF "A workspace/odd/$path" "$T/out"
done
bailey diff "$sb" --json
like 'the size in JSON is with the holes' '*odd/all-hole"*"size":209715200*' "$(cat "$T/out")"
holds 'a name that is no text comes as base64' \
	grep -qF "$(printf 'workspace/odd/%s' "$odd" | base64 -w 0)" "$T/out"

mkdir "$T/target"
bailey apply "$sb" "$T/target" --yes
is 'apply' 0 "$rc"
[ -z "$kinds" ] || like 'it says what it left out' '*left out*' "$(cat "$T/err")"
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
	[ $verb$kinds = cp ] || between "$verb: without the holes: bytes" 1000 2000000 "$(stat -c %s "$T/tar")"
	mkdir "$T/$verb"
	tar -C "$T/$verb" -xf "$T/tar" 2>"$T/err" || true
	is "$verb: tar reads it" 'data 2' "$(
		dd if="$(find "$T/$verb" -name hole)" bs=1 skip=100000000 count=4 status=none) $(cat "$(find "$T/$verb" -name in)")"
	rm -rf "${T:?}/$verb"
done

rm -rf "$T/target" "$T/tar"
