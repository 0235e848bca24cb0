# shellcheck shell=bash
# Behaviour of run.sh: exec: output, error output, every byte, environment, directory.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
bailey exec "$sb" -- sh -c 'echo out; echo err >&2'
is 'out and err stay apart' 'out/err' "$(cat "$T/out")/$(cat "$T/err")"
bailey exec "$sb" -- sh -c 'printf "a\0b\377\n"'
is 'every byte' '6100 62ff 0a' "$(od -An -tx1 "$T/out" | tr -d ' \n' | sed 's/..../& /g')"
head -c 20000000 /dev/urandom >"$T/random"
sum=$(file_sum "$T/random")
bailey cp "$T/random" "$sb:/workspace/random"
is 'cp for the test' 0 "$rc"
bailey exec "$sb" -- cat /workspace/random
is '20 MB of output' "$sum" "$(file_sum "$T/out")"
bailey exec "$sb" -- sh -c 'cat /workspace/random >&2'
is '20 MB of error output' "$sum" "$(file_sum "$T/err")"
bailey exec "$sb" -- sh -c 'cat /workspace/random & cat /workspace/random >&2; wait'
is 'both at once' "$sum $sum" "$(file_sum "$T/out") $(file_sum "$T/err")"
# more than is kept of a command: a reader that is slow loses nothing
got=$("$BAILEY" exec "$sb" -- sh -c 'cat /workspace/random /workspace/random /workspace/random' |
	perl -e '$n = 0;
		while ($r = sysread STDIN, $s, 65536) { $n += $r; select undef, undef, undef, 0.002 }
		print $n')
is 'a slow reader of 60 MB loses nothing' 60000000 "$got"
bailey exec "$sb" --env A=1 --env B='x  y' --workdir /tmp -- sh -c 'echo "$A|$B|$(pwd)"'
is 'variables and directory' '1|x  y|/tmp' "$(cat "$T/out")"
tells 'they hold for that command alone' '' 'echo $A'
bailey exec "$sb" -- printf '%s|' a '' 'b c' $'d\ne' '*'
is 'arguments arrive as they are' $'a||b c|d\ne|*|' "$(cat "$T/out")"
long=$(printf 'x%.0s' {1..100000})
bailey exec "$sb" -- sh -c 'echo ${#1} ${#2}' sh "$long" "$long"
is 'long arguments' '100000 100000' "$(cat "$T/out")"
bailey exec "$sb" -- sh -c 'exec >&- 2>&-; exit 6'
is 'a command that closes its output' 6 "$rc"
bailey exec "$sb" -- sh -c 'sleep 3 & echo x'
is 'what goes on in the background keeps nobody waiting' 'x' "$(cat "$T/out")"
got=$(timeout -s KILL 20 "$BAILEY" exec "$sb" -- yes 2>/dev/null | head -n 1)
is 'a reader that goes away' y "$got"
if [ "$who" = root ]; then
	bailey exec "$sb" --user 0 -- id -u
	is 'as another user' 0 "$(cat "$T/out")"
else
	bailey exec "$sb" --user 1001 -- id -u
	refused 125 permission_denied 'as another user'
	like 'the remedy names the option' '*--user*' "$(cat "$T/err")"
fi
