# shellcheck shell=bash
# Behaviour of run.sh: events: what happened, a line each.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

start "$BAILEY" events --follow
sleep 0.2
new --name seen
detach true
bailey wait "$sb" "$cmd"
for verb in pause resume stop start; do
	bailey "$verb" "$sb"
	is "$verb" 0 "$rc"
done
bailey fork "$sb"
child=$(cat "$T/out")
bailey rm --force "$sb"
bailey events --json
is 'status' 0 "$rc"
for event in created started command_started command_ended paused resumed stopped forked removed; do
	if grep -q "\"$event\"" "$T/out"; then
		ok "JSON: $event"
	else
		not_ok "JSON: $event" "$(tail -n 20 "$T/out")"
	fi
done
head -n 1 "$T/out" >"$T/line"
holds 'JSON: a line is a value' eval 'flat "$T/line" >/dev/null'
bailey events
like 'as text' "*$sb*" "$(cat "$T/out")"
holds '--follow had the end too' until_true 20 grep -q removed "$T/bg.out"
kill -INT "$bg"
finish_bg 5
holds 'an interrupt ends it' [ "$rc" -ne 137 ]
bailey rm --force "$child"
