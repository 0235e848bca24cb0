# shellcheck shell=bash
# Behaviour of run.sh: logs: what a command wrote, in order; --follow.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
detach sh -c 'echo one; sleep 0.2; echo err >&2; sleep 0.2; echo two'
bailey wait "$sb" "$cmd"
bailey logs "$sb" "$cmd"
is 'status' 0 "$rc"
is 'output' $'one\ntwo' "$(cat "$T/out")"
is 'error output' err "$(cat "$T/err")"
rc=0
timeout 20 "$BAILEY" logs "$sb" "$cmd" >"$T/out" 2>&1 </dev/null || rc=$?
is 'both in the order in which they came' $'one\nerr\ntwo' "$(cat "$T/out")"
detach sh -c 'echo a; sleep 1; echo b'
bailey logs "$sb" "$cmd"
is 'of a running one: up to now' a "$(cat "$T/out")"
is 'without waiting for its end' 0 "$rc"
bailey logs "$sb" "$cmd" --follow
is '--follow: up to its end' $'a\nb' "$(cat "$T/out")"
bailey logs "$sb" 999
refused "$(rc_of no_such_command)" no_such_command 'an unknown command'
bailey stop "$sb"
bailey logs "$sb" "$cmd"
is 'of a stopped sandbox' $'a\nb' "$(cat "$T/out")"
