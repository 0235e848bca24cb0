# shellcheck shell=bash
# Behaviour of run.sh: wait: the status of a command, once it ends.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
detach sh -c 'sleep 0.5; exit 9'
bailey wait "$sb" "$cmd"
is 'waits' 9 "$rc"
bailey wait "$sb" "$cmd"
is 'again' 9 "$rc"
is 'prints nothing' '' "$(cat "$T/out")"
detach sh -c 'kill -TERM $$'
bailey wait "$sb" "$cmd"
is 'a signal' 143 "$rc"
bailey wait "$sb" 999
refused 125 no_such_command 'an unknown command'
detach sleep 30
limit=1 try "$BAILEY" wait "$sb" "$cmd"
is 'a client that stops waiting' 137 "$rc"
limit=30
bailey kill "$sb" "$cmd"
bailey wait "$sb" "$cmd"
is 'killed meanwhile' 137 "$rc"
