# shellcheck shell=bash
# Behaviour of run.sh: two clients at once: one stops, one executes.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

# each of six either ran, or says why it did not, or was ended by the stop
judge() {
	local i
	for i in 1 2 3 4 5 6; do
		case $(cat "$T/se.$i.rc") in
		0) grep -q x "$T/se.$i.out" ;;
		125) grep -qE '\[(sandbox_not_running|busy)\]' "$T/se.$i.err" ;;
		129 | 137 | 143) [ ! -s "$T/se.$i.err" ] || grep -q signal "$T/se.$i.err" ;;
		*) false ;;
		esac || echo "status $(cat "$T/se.$i.rc"): $(head -c 300 "$T/se.$i.err")"
	done
}
new
for delay in 0 0.002 0.01 0.03; do
	for i in 1 2 3 4 5 6; do
		beside "se.$i" exec "$sb" -- sh -c 'echo x; exit 0'
	done
	sleep "$delay"
	bailey stop "$sb"
	is "after $delay s: stop" 0 "$rc"
	all_ended
	is "after $delay s: each runs, or is told why not" '' "$(judge)"
	state "after $delay s: it is stopped" stopped
	bailey start "$sb"
done
tells 'the sandbox goes on' x 'echo x'
for verb in stop start pause resume stop start; do
	beside "verb.$verb" "$verb" "$sb"
done
all_ended
bailey resume "$sb"
bailey start "$sb"
state 'all verbs at once: it can be started' running
tells 'and goes on' x 'echo x'
