# shellcheck shell=bash
# Behaviour of run.sh: kill: a command and all that it started, and nothing else.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

# a tree with a daemon in a session of its own, twice removed, that ignores signals
tree='trap "" TERM HUP
	(setsid sh -c "trap \"\" TERM HUP; (while :; do sleep 0.1; done) &
		while :; do sleep 0.1; done" &)
	sleep 1000 & echo ready; wait'
running() { # all of the sandbox's processes but what is known
	inside 'n=0; for d in /proc/[0-9]*; do grep -qE "^(Name:.(sleep|sh))$" $d/status 2>/dev/null &&
		[ ${d#/proc/} != $$ ] && n=$((n + 1)); done; echo $n'
	cat "$T/out"
}
few() {
	[ "$(running)" -le "$1" ]
}
new
detach sleep 500
other=$cmd
is 'one process' 1 "$(running)"
detach sh -c "$tree"
sleep 0.5
holds 'a tree runs' [ "$(running)" -ge 5 ]
bailey kill "$sb" "$cmd"
is 'kill' 0 "$rc"
holds 'the whole tree is gone' until_true 30 few 1
bailey wait "$sb" "$cmd"
is 'its status' 137 "$rc"
bailey ps "$sb"
like 'the other command runs on' "*$other*sleep*" "$(cat "$T/out")"
bailey kill "$sb" "$other" --signal TERM
bailey wait "$sb" "$other"
is 'another signal' 143 "$rc"
bailey kill "$sb" "$other"
holds 'a command that has ended' [ "$rc" -le 5 ]
detach sh -c "$tree"
a=$cmd
detach sh -c "$tree"
sleep 0.5
bailey kill "$sb"
is 'without a command: every one' 0 "$rc"
holds 'all are gone' until_true 30 few 0
bailey wait "$sb" "$a"
is 'the status of one' 137 "$rc"
tells 'the sandbox goes on' x 'echo x'
bailey kill "$sb" "$a" --signal 99
is 'a signal that is none' 2 "$rc"
# what outlives its command is still ended by kill
detach sh -c '(setsid sleep 700 &) ; exit 0'
bailey wait "$sb" "$cmd"
is 'a command whose child stays' 0 "$rc"
is 'it stays' 1 "$(running)"
bailey kill "$sb" "$cmd"
holds 'kill ends it too' until_true 30 few 0
