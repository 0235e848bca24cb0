# shellcheck shell=bash
# Behaviour of run.sh: cp: odd names, holes, long paths, what is no file.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
mkdir "$T/odd"
(
	cd "$T/odd" || exit
	echo 1 >$'not\xff\xfeutf8'
	echo 2 >$'new\nline'
	echo 3 >-dash
	echo 4 >$'tab\tand\e[31mcolour'
	echo 5 >'back\slash'
	echo 6 >"$(printf 'n%.0s' {1..255})"
	ln -s $'to\n\xff' link
	truncate -s 50M hole
	printf x | dd of=hole bs=1 seek=20000000 conv=notrunc status=none
	# a path of more than 4000 bytes
	name=$(printf 'p%.0s' {1..200})
	for i in {1..20}; do
		mkdir "$name" && cd "$name" || exit
	done
	echo deep >deep
)
find "$T/odd" -depth -exec touch -h -d @1000000000 {} + 2>/dev/null || true
sum=$(tree_sum "$T/odd")
bailey cp "$T/odd" "$sb:/workspace/odd"
is 'in' 0 "$rc"
is 'it is the same' "$sum" "$(tree_sum_inside /workspace/odd)"
bailey cp "$sb:/workspace/odd" "$T/back"
is 'out' 0 "$rc"
is 'it is the same' "$sum" "$(tree_sum "$T/back")"
! tells_kinds 'a hole on the way out' ||
	between 'a hole stays a hole on the way out' 0 4096 "$(stat -c %b "$T/back/hole")"
bailey cp "$sb:/workspace/odd/"$'not\xff\xfeutf8' "$T/one"
is 'one by its name' 1 "$(cat "$T/one")"
bailey cp "$T/odd/"$'new\nline' "$sb:/workspace/"$'other\nline'
tells 'one to such a name' 2 'cat "$(printf "/workspace/other\nline")"'
rm -rf "$T/odd" "$T/back"

# what is no file, directory or link is left out, and said
inside 'mkdir /workspace/special && cd /workspace/special && mkfifo fifo && echo x >f &&
	perl -MSocket -e "socket S, PF_UNIX, SOCK_STREAM, 0; bind S, pack_sockaddr_un(q(sock))"'
bailey cp "$sb:/workspace/special" "$T/special"
is 'a FIFO and a socket do not stop a copy' x "$(cat "$T/special/f")"
holds 'and stay there' [ ! -e "$T/special/fifo" ]
holds 'neither does it make a socket' [ ! -e "$T/special/sock" ]
mkdir "$T/pipes"
mkfifo "$T/pipes/fifo"
echo x >"$T/pipes/f"
[ "$who" = user ] || mknod "$T/pipes/null" c 1 3
bailey cp "$T/pipes" "$sb:/workspace/pipes"
tells 'nor on the way in' x 'cat /workspace/pipes/f'
tells 'no device is made' none '[ -c /workspace/pipes/null ] || echo none'
limit=10 bailey cp "$sb:/workspace/special/fifo" "$T/fifo"
holds 'a FIFO alone: no waiting' [ "$rc" -ne 137 ]
limit=10 bailey cp "$T/pipes/fifo" "$sb:/workspace/fifo"
holds 'nor on the way in' [ "$rc" -ne 137 ]
limit=10 bailey cp "$sb:/dev/zero" "$T/zero"
holds 'a device alone: no copying of it' [ "$rc" -ne 137 ]
holds 'and nothing like it' [ ! -s "$T/zero" ]
