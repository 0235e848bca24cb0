# shellcheck shell=bash
# Behaviour of run.sh: the owner is killed: so is the sandbox, and that is said; a container goes on.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

# one that is its owner's process ends with it, and says so
ends() {
	new --name one
	detach sleep 300
	owner=$(owner_of "$sb")
	beside c attach "$sb" "$cmd"
	sleep 0.4
	processes=$(children_of "$owner")
	kill -KILL "$owner"
	all_ended
	between 'an attached client ends' 1 136 "$(cat "$T/c.rc")"
	for p in $processes; do
		holds 'a process of it is gone' until_true 50 dead "$p"
	done
	bailey ls --all
	is 'ls' 0 "$rc"
	like 'says it is lost' "*$sb*lost*" "$(cat "$T/out")"
	bailey inspect "$sb" --json
	reports 'inspect too' state string lost
	bailey exec "$sb" -- true
	refused 125 sandbox_lost 'exec too'
	refuses sandbox_lost 'start too' start "$sb"
	bailey rm "$sb"
	is 'rm' 0 "$rc"
	holds 'it is gone' unlisted "$sb"
	new --name one
	ok 'its name is free'
	bailey rm --force one
}

# a container goes on: the next client finds it a new owner
goes_on() {
	new --name one
	detach sh -c 'i=0; while [ $i -lt 40 ]; do i=$((i + 1)); echo $i; sleep 0.05; done; exit 7'
	owner=$(owner_of "$sb")
	beside c attach "$sb" "$cmd"
	sleep 0.4
	kill -KILL "$owner"
	all_ended
	holds 'an attached client ends' test "$(cat "$T/c.rc")" -ne 0
	bailey ls --all
	like 'it runs' "*$sb*running*" "$(cat "$T/out")"
	bailey attach "$sb" "$cmd"
	is 'the command ends as it would have' 7 "$rc"
	is 'all that it wrote is there' "$(seq 40)" "$(cat "$T/out")"
	holds 'the owner is another' test "$(owner_of "$sb")" != "$owner"
	bailey rm --force one
	is 'rm' 0 "$rc"
	holds 'it is gone' unlisted "$sb"
}

if [ "$engine" = native ]; then
	ends
else
	goes_on
fi

# the client killed at each step of a creation, and the engine: it is nobody's child, so the reaper's
engines() {
	local p
	for p in $(children_of "$PPID"); do
		if [[ $(tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline") == *bailey-engine-* ]]; then
			echo "$p"
		fi
	done
}
victims() {
	if [ "$victim" = client ]; then
		echo "$client"
	else
		engines
	fi
}
for victim in client engine; do
	for delay in 0.001 0.004 0.008 0.012 0.02 0.03 0.05; do
		"$BAILEY" create >/dev/null 2>&1 </dev/null &
		client=$!
		sleep "$delay"
		for p in $(victims); do
			kill -KILL "$p" 2>/dev/null || true
		done
		wait "$client" 2>/dev/null || true
	done
	bailey ls --all
	is "ls after creations whose $victim was killed" 0 "$rc"
done
bailey prune
is 'prune takes the rest' 0 "$rc"
