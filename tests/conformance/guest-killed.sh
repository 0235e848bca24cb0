# shellcheck shell=bash
# Behaviour of run.sh: PID 1 inside ends: the sandbox is lost, and that is said.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
detach sleep 300
guest=$(guest_of "$sb")
[ -n "$guest" ] || {
	not_ok 'there is a guest' "$(children_of "$(owner_of "$sb")")"
	return
}
beside c attach "$sb" "$cmd"
sleep 0.4
kill -KILL "$guest"
all_ended
between 'an attached client ends' 1 136 "$(cat "$T/c.rc")"
state 'it is lost' lost
is 'the reason' guest_lost "$(fact exit_reason)"
bailey exec "$sb" -- true
holds 'exec says so' eval 'says sandbox_lost || says guest_lost'
bailey rm "$sb"
is 'rm' 0 "$rc"
holds 'it is gone' unlisted "$sb"
# the workload can't do it from a namespace in which PID 1 takes no signals
new
tells 'from inside it is not done by signals' 'still here' \
	'for s in KILL TERM INT HUP SEGV; do kill -$s 1 2>/dev/null; done; sleep 0.2; echo still here'
state 'it runs on' running
