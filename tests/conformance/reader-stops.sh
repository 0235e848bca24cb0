# shellcheck shell=bash
# Behaviour of run.sh: a reader that stops reading stops nobody else.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
detach sh -c 'sleep 1; i=0
	while [ $i -lt 300 ]; do head -c 20000 /dev/zero | tr "\0" x; i=$((i + 1)); done; echo; echo end'
mkfifo "$T/fifo"
exec 7<>"$T/fifo"
"$BAILEY" attach "$sb" "$cmd" >&7 2>"$T/stuck.err" </dev/null &
stuck=$!
bailey attach "$sb" "$cmd"
is 'one reader stops, the other has it all' "0 6000005" "$rc $(stat -c %s "$T/out")"
whole=$(file_sum "$T/out")
bailey wait "$sb" "$cmd"
is 'the command has ended' 0 "$rc"
tells 'the sandbox serves others' x 'echo x'
holds 'the stuck one waits' alive "$stuck"
is 'then it reads on and has it all' "$whole" \
	"$(timeout 20 head -c 6000005 <&7 | sha256sum | cut -d ' ' -f 1)"
exec 7>&-
rc=0
wait "$stuck" || rc=$?
is 'and ends with the status' 0 "$rc"
# a client that is stopped itself
"$BAILEY" exec "$sb" -- sh -c 'head -c 3000000 /dev/zero; exit 4' >"$T/late" 2>"$T/late.err" \
	</dev/null &
late=$!
kill -STOP "$late"
sleep 0.3
tells 'while a client stands still others go on' x 'echo x'
kill -CONT "$late"
rc=0
wait "$late" || rc=$?
is 'it has all when it goes on' '4 3000000' "$rc $(stat -c %s "$T/late")"
