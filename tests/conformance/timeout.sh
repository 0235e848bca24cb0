# shellcheck shell=bash
# Behaviour of run.sh: exec --timeout ends a command and its tree, and no other.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
detach sh -c 'sleep 4; echo on'
other=$cmd
bailey exec "$sb" --timeout 700ms -- sh -c 'trap "" TERM
	(setsid sleep 300 &); echo words; sleep 300'
is 'status' 124 "$rc"
is 'its output' words "$(cat "$T/out")"
holds 'the reason is said' says timeout
tells 'its tree is gone' 1 'grep -l "^Name:.sleep$" /proc/[0-9]*/status 2>/dev/null | wc -l'
bailey exec "$sb" --timeout 5s -- sh -c 'exit 3'
is 'in time' 3 "$rc"
bailey exec "$sb" --timeout 500ms --detach -- sleep 300
cmd=$(cat "$T/out")
bailey wait "$sb" "$cmd"
is 'of a detached one' 124 "$rc"
bailey attach "$sb" "$other"
is 'the other command went on' '0 on' "$rc $(cat "$T/out")"
bailey exec "$sb" --timeout soon -- true
refused 125 bad_value 'a time that is none'
