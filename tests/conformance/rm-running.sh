# shellcheck shell=bash
# Behaviour of run.sh: rm: running, stopped, paused ones, many; the grace.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

# how long the removal took, in ms
removal() { # FLAG...
	local began=${EPOCHREALTIME/[.,]/}
	bailey rm "$sb" "$@"
	took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
}
new
detach sh -c 'trap "exit 0" TERM; while :; do sleep 0.1; done'
removal
is 'a running one' 0 "$rc"
between 'its command ends when asked: ms' 0 8000 "$took"
holds 'is gone' unlisted "$sb"
new
detach sh -c 'trap "" TERM; while :; do sleep 0.1; done'
sleep 0.3
removal --grace 700ms
is 'one whose command will not end' 0 "$rc"
between 'it had its grace: ms' 500 6000 "$took"
new
detach sh -c 'trap "" TERM; while :; do sleep 0.1; done'
sleep 0.3
removal --force
is '--force' 0 "$rc"
between 'waits for nothing: ms' 0 3000 "$took"
all=()
for i in 1 2 3 4; do
	new
	all+=("$sb")
done
bailey stop "${all[0]}"
bailey pause "${all[1]}"
bailey rm --force "${all[0]}" nobody "${all[@]:1}"
refused "$(rc_of sandbox_not_found)" sandbox_not_found 'of many one is unknown: said'
is 'the others are removed' '' "$(ids)"
# removed while a client uses it
new
beside c exec "$sb" -- sleep 100
sleep 0.5
bailey rm --force "$sb"
is 'one that a client uses' 0 "$rc"
all_ended
holds 'the client ends' [ "$(cat "$T/c.rc")" -gt 0 ]
holds 'and says why' [ -s "$T/c.err" ]
