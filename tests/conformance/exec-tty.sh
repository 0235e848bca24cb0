# shellcheck shell=bash
# Behaviour of run.sh: exec -t: a terminal of its own, its size, its restoration.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

on_tty() { # SCRIPT WORD...
	local script=$1
	shift
	try perl "$here/../cli/pty.pl" 31 97 "$script" "$BAILEY" "$@"
}
new
on_tty '' exec "$sb" -i -t -- sh -c 'tty && stty size'
like 'there is a terminal' '*/dev/pts/*' "$(cat "$T/out")"
like 'of the caller'\''s size' '*31 97*' "$(cat "$T/out")"
like 'its settings are put back' '*modes: same*' "$(cat "$T/out")"
is 'status' 0 "$rc"
on_tty 'wait ready
size 40 120
wait SIZE 40 120' exec "$sb" -i -t -- bash -c 'trap "echo SIZE \$(stty size); exit 5" WINCH
	echo ready; while :; do sleep 0.1; done'
is 'a new size arrives' 5 "$rc"
like 'settings after that' '*modes: same*' "$(cat "$T/out")"
on_tty 'wait ready
send words\n
wait got words' exec "$sb" -i -t -- sh -c 'echo ready; read a; echo got $a; exit 6'
is 'what is typed arrives' 6 "$rc"
on_tty 'wait ready
send \x03' exec "$sb" -i -t -- sh -c 'echo ready; exec sleep 20'
is 'an interrupt typed goes to the command' 130 "$rc"
like 'settings after that' '*modes: same*' "$(cat "$T/out")"
on_tty 'wait ready
kill KILL' exec "$sb" -i -t -- sh -c 'echo ready; sleep 0.2; echo on >/workspace/on; sleep 20'
tells 'the command goes on when the client is killed' on 'sleep 0.4; cat /workspace/on'
bailey kill "$sb"
is 'kill ends it' 0 "$rc"
