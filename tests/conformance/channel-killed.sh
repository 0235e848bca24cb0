# shellcheck shell=bash
# Behaviour of run.sh: the channel process is killed: commands go on and nothing of their output is lost.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

# the child of the owner that runs the owner's program
channel_pid() {
	local p
	for p in $(children_of "$(owner_of "$sb")"); do
		if [[ $(tr '\0' ' ' <"/proc/$p/cmdline") == *bailey-engine-* ]]; then
			echo "$p"
			return
		fi
	done
}
new
a=$(channel_pid)
[ -n "$a" ] || {
	not_ok 'there is a channel process' "$(children_of "$(owner_of "$sb")")"
	return
}
detach sh -c 'i=0; while [ $i -lt 400 ]; do i=$((i + 1)); echo line $i
	[ $((i % 10)) -ne 0 ] || sleep 0.05; done; echo e >&2; exit 7'
long=$cmd
seq -f 'line %g' 1 400 >"$T/want"
for n in 1 2 3; do
	sleep 0.4
	p=$(channel_pid)
	kill -KILL "$p"
	holds "kill $n: it is gone" until_true 30 dead "$p"
	state "kill $n: the sandbox runs" running
	tells "kill $n: a new command runs" x 'echo x'
done
bailey attach "$sb" "$long"
is 'the command'\''s status' 7 "$rc"
is 'all its output, once' '' "$(diff "$T/want" "$T/out" | head -n 20)"
is 'and error output' e "$(cat "$T/err")"
kill -KILL "$(channel_pid)"
bailey attach "$sb" "$long"
is 'of one that had ended before, too' '7 e' "$rc $(cat "$T/err")"
is 'all its output, once' '' "$(diff "$T/want" "$T/out" | head -n 20)"
detach true
holds 'ids are not used again' [ "$cmd" -gt "$long" ]
# while a client writes
head -c 3000000 /dev/urandom >"$T/f"
(
	sleep 0.05
	kill -KILL "$(channel_pid)"
) &
killer=$!
limit=20 bailey cp "$T/f" "$sb:/workspace/f"
wait "$killer" || true
holds 'a copy meanwhile ends, well or with a reason' \
	eval '[ $rc -eq 0 ] || says engine_lost || says busy'
tells 'the sandbox goes on' x 'echo x'
