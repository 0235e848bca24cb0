# shellcheck shell=bash
# Behaviour of run.sh: names that are no UTF-8, holes, FIFOs and sockets in snapshots and forks.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

make_odd
inside "$look"
there=$(cat "$T/out")
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
