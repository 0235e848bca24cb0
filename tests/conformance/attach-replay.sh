# shellcheck shell=bash
# Behaviour of run.sh: attach: from the first byte, then on, then the status.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
detach sh -c 'echo one; echo err >&2; sleep 1; echo two; exit 5'
bailey attach "$sb" "$cmd"
is 'what was and what comes' $'one\ntwo' "$(cat "$T/out")"
is 'error output apart' err "$(cat "$T/err")"
is 'and the status' 5 "$rc"
bailey attach "$sb" "$cmd"
is 'again when it has ended' $'5 one\ntwo' "$rc $(cat "$T/out")"
detach sh -c 'head -c 3000000 /dev/zero | tr "\0" x; sleep 0.3
	head -c 3000000 /dev/zero | tr "\0" y'
bailey attach "$sb" "$cmd"
is '6 MB' '3000000 3000000' "$(tr -dc x <"$T/out" | wc -c) $(tr -dc y <"$T/out" | wc -c)"
detach sh -c 'read a; echo got $a; exit 6'
refuses no_such_command 'an unknown command' kill "$sb" 999
bailey attach "$sb" 999
refused 125 no_such_command 'attach to an unknown command'
bailey attach "$sb" x
holds 'an id that is none' [ "$rc" -ne 0 ]
# more than is kept: what was dropped is said
detach sh -c 'head -c 40000000 /dev/zero | tr "\0" x; echo; echo end'
bailey wait "$sb" "$cmd"
is 'a command that writes more than is kept ends' 0 "$rc"
bailey attach "$sb" "$cmd"
like 'the end is kept' '*x?end' "$(tail -c 6 "$T/out")"
between 'not all of it' 1000000 39000000 "$(wc -c <"$T/out")"
like 'what was dropped is said' '*[0-9]*' "$(cat "$T/err")"
