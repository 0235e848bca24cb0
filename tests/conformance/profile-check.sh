# shellcheck shell=bash
# Behaviour of run.sh: create --profile check: a command on a worktree, behind an agent's walls without its socket.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

tree=$T/tree
image=()
[ -z "${BAILEY_RUN_IMAGE:-}" ] || image=(--image "$BAILEY_RUN_IMAGE")
mkdir "$tree"
[ "$who" = user ] || chown 64000:64000 "$tree"
check=(${image[@]+"${image[@]}"} --profile check --param tid=t-1 --param "worktree=$tree")

new "${check[@]}" --keep --param 'command=id -u; pwd; echo x >f && cat f; ls -d /run/gw 2>/dev/null; ulimit -n
	(exec 3<>/dev/tcp/127.0.0.1/4000) 2>/dev/null && echo model; echo "$0"; exit 3'
bailey wait "$sb" 1
is 'its status' 3 "$rc"
bailey logs "$sb" 1
is 'what it sees' '64000 /workspace x 4096 bash' "$(tr '\n' ' ' <"$T/out" | sed 's/ $//')"
is 'what it wrote' x "$(cat "$tree/f")"
is 'the record' 'check t-1 3600000 512 4000 8589934592' \
	"$(fact profile) $(fact tid) $(fact ttl_ms) $(fact pids) $(fact cpu_millis) $(fact memory_bytes)"
like 'its end is known' '[0-9]*' "$(fact deadline_ms)"

new "${check[@]}" --param timeout=1s --param 'command=sleep 300'
holds 'it ends at its deadline' until_true 80 unlisted "$sb"
new "${check[@]}" --param 'command=sleep 0.5'
holds 'without --keep it goes with its command' until_true 80 unlisted "$sb"
if [ "$who" = root ] && [ "$engine" = native ]; then
	chown 0:0 "$tree" "$tree/f"
	new "${check[@]}" --root-workspace --keep --param 'command=echo y >f; stat -c %u:%g f'
	bailey wait "$sb" 1
	bailey logs "$sb" 1
	is 'a worktree that was not handed over: inside' 64000:64000 "$(cat "$T/out")"
	is 'and on the host' 0:0 "$(stat -c %u:%g "$tree/f")"
	bailey create "${check[@]}" --param command=true
	refused "$(rc_of workspace_root_owned)" workspace_root_owned 'one of root has to be meant'
	chown 12345:12345 "$tree"
	bailey create "${check[@]}" --param command=true
	refused "$(rc_of workspace_not_owned)" workspace_not_owned "one of somebody else's"
	chown 0:0 "$tree"
fi
bailey create "${check[@]}" ${rw[@]+"${rw[@]}"} --param command=true --param timeout=61m
refused "$(rc_of value_out_of_range)" value_out_of_range 'over an hour'
bailey create "${check[@]}" ${rw[@]+"${rw[@]}"} --param command=true --param sockets="$T"
refused "$(rc_of bad_value)" bad_value 'a socket'
bailey create "${check[@]}" ${rw[@]+"${rw[@]}"} --param command=true --param tid=t-2
refused "$(rc_of bad_value)" bad_value 'a key twice'
bailey create "${check[@]}" ${rw[@]+"${rw[@]}"} -- true
refused "$(rc_of bad_value)" bad_value 'a command of words'
refuses bad_value 'no such profile' create --profile root --param tid=x
refuses usage 'a parameter without a value' create --profile check --param tid
refuses usage 'parameters without a profile' create --param tid=x
