# shellcheck shell=bash
# Behaviour of run.sh: out of memory: the command is ended and told so; the sandbox goes on.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

eat='$x = "x" x 1000000; push @a, $x . $_ while 1'
new --memory 64m
detach sleep 300
other=$cmd
bailey exec "$sb" -- perl -e "$eat"
refused 137 oom 'the status, and the reason'
state 'the sandbox runs' running
tells 'and runs commands' x 'echo x'
bailey ps "$sb"
like 'the other command lives' "*$other*running*" "$(grep sleep "$T/out" || true)"
bailey exec "$sb" --json -- perl -e "$eat"
reports 'JSON: the reason' reason string oom
bailey exec "$sb" -- sh -c 'kill -KILL $$'
is 'a mere kill is not that' 137 "$rc"
holds 'it is not said then' eval '! says oom'
bailey stats "$sb"
is 'stats work' 0 "$rc"
