# shellcheck shell=bash
# Behaviour of run.sh: stop ends the processes and keeps the files; start begins anew.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --env COLOUR=blue
tells 'a file' x 'echo x >/workspace/f; echo y >~/g; mkdir -p /workspace/d; echo z >/tmp/t; cat /workspace/f'
detach sh -c 'trap "echo bye >/workspace/bye; exit 0" TERM
	echo up; while :; do sleep 0.1; done'
kept=$cmd
sleep 0.3
bailey stop "$sb"
is 'stop' 0 "$rc"
state 'it is stopped' stopped
bailey exec "$sb" -- true
refused 125 sandbox_not_running 'exec says so'
bailey attach "$sb" "$kept"
is 'output of a command of before' up "$(cat "$T/out")"
bailey ps "$sb"
is 'ps of a stopped one' 0 "$rc"
bailey stop "$sb"
is 'stop again' 0 "$rc"
bailey start "$sb"
is 'start' 0 "$rc"
state 'it runs' running
tells 'files are there' 'x y' 'echo $(cat /workspace/f ~/g)'
tells '/tmp is new' none 'cat /tmp/t 2>/dev/null || echo none'
tells 'the command was asked first' bye 'cat /workspace/bye'
tells 'the environment is the same' blue 'echo $COLOUR'
bailey start "$sb"
is 'start again' 0 "$rc"
detach true
holds 'ids of commands go on' [ "$cmd" -gt "$kept" ]
for i in 1 2 3; do
	bailey stop "$sb"
	bailey start "$sb"
done
tells 'three times more' 'x' 'cat /workspace/f'
refuses sandbox_not_found 'an unknown sandbox' stop nobody
