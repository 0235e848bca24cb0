# shellcheck shell=bash
# Behaviour of run.sh: pause and resume.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
detach sh -c 'i=0; while :; do i=$((i + 1)); echo $i >/workspace/new; mv /workspace/new /workspace/n; sleep 0.02; done'
sleep 0.3
bailey pause "$sb"
is 'pause' 0 "$rc"
state 'it is paused' paused
bailey pause "$sb"
is 'again' 0 "$rc"
limit=5 bailey exec "$sb" -- true
holds 'exec says so' says sandbox_not_running
limit=30
bailey resume "$sb"
is 'resume' 0 "$rc"
state 'it runs again' running
inside 'a=$(cat /workspace/n); sleep 0.3; b=$(cat /workspace/n); [ "$b" -gt "$a" ] && echo goes on'
is 'the command goes on' 'goes on' "$(cat "$T/out")"
# nothing runs while it is paused
a=$(inside 'cat /workspace/n' && cat "$T/out")
bailey pause "$sb"
sleep 1.5
bailey resume "$sb"
b=$(inside 'cat /workspace/n' && cat "$T/out")
between 'it stood still meanwhile' 0 $((a + 40)) "$b"
bailey pause "$sb"
bailey rm "$sb" --force
is 'a paused one is removed' 0 "$rc"
refuses sandbox_not_found 'an unknown sandbox' pause nobody
