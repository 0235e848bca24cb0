# shellcheck shell=bash
# Behaviour of run.sh: exec --detach: an id alone; the command goes on by itself.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
bailey exec "$sb" --detach -- sh -c 'echo words; sleep 0.5; echo done >/workspace/done; exit 3'
cmd=$(cat "$T/out")
is 'status' 0 "$rc"
like 'prints the command'\''s id alone' '+([0-9])' "$cmd"
bailey ps "$sb"
like 'ps has it' "*$cmd*sh*" "$(cat "$T/out")"
bailey wait "$sb" "$cmd"
is 'wait has its status' 3 "$rc"
tells 'it did its work' 'done' 'cat /workspace/done'
bailey logs "$sb" "$cmd"
is 'logs has its output' words "$(cat "$T/out")"
bailey exec "$sb" --detach --json -- true
reports 'JSON: the id' command number '+([0-9])'
bailey exec "$sb" --detach -- /no/such
holds 'a command that is not there is said at once' [ "$rc" -eq 127 ]
n=0
for i in 1 2 3 4 5 6 7 8 9 10; do
	detach true
	[ "$cmd" -le "$n" ] || n=$cmd
done
is 'ids go up' "$n" "$cmd"
