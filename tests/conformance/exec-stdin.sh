# shellcheck shell=bash
# Behaviour of run.sh: exec: standard input with -i, none without.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
head -c 20000000 /dev/urandom >"$T/random"
sum=$(file_sum "$T/random")
is 'without -i it is empty' '' "$(echo words | timeout 20 "$BAILEY" exec "$sb" -- cat)"
is 'with -i it is the caller'\''s' words "$(echo words | timeout 20 "$BAILEY" exec "$sb" -i -- cat)"
is 'its end arrives' 0 "$(timeout 20 "$BAILEY" exec "$sb" -i -- wc -c </dev/null)"
is '20 MB in and out by a file' "$sum" \
	"$(timeout 30 "$BAILEY" exec "$sb" -i -- cat <"$T/random" | sha256sum | cut -d ' ' -f 1)"
# shellcheck disable=SC2002 # a pipe is the point
is '20 MB in and out by a pipe' "$sum" \
	"$(cat "$T/random" | timeout 30 "$BAILEY" exec "$sb" -i -- cat | sha256sum | cut -d ' ' -f 1)"
is 'a line at a time' 'one two' \
	"$( (
		echo one
		sleep 0.3
		echo two
	) | timeout 20 "$BAILEY" exec "$sb" -i -- sh -c 'read a; read b; echo $a $b')"
rc=0
yes | timeout -s KILL 20 "$BAILEY" exec "$sb" -i -- head -n 1 >"$T/out" || rc=$?
is 'a command that reads only some of an endless input' '0 y' "$rc $(cat "$T/out")"
mkfifo "$T/fifo"
exec 7<>"$T/fifo"
rc=0
timeout -s KILL 20 "$BAILEY" exec "$sb" -i -- sh -c 'exit 4' <&7 >"$T/out" 2>&1 || rc=$?
exec 7>&-
is 'a command that ends does not wait for the input' 4 "$rc"
rc=0
timeout -s KILL 20 "$BAILEY" exec "$sb" -i -- sh -c 'sleep 0.5; wc -c' <"$T/random" >"$T/out" || rc=$?
is 'a command that reads late' '0 20000000' "$rc $(cat "$T/out")"
