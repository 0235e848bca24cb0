#!/usr/bin/env bash
# Tests of `bailey log` on the built program, which BAILEY names: what it prints, what it escapes, and that following
# survives rotation.
set -eu

bailey=${BAILEY:?}
work=$(mktemp -d)
follower=''
trap '[ -z "$follower" ] || kill "$follower" 2>/dev/null; rm -rf "$work"' EXIT
export BAILEY_HOME=$work/home
log=$BAILEY_HOME/log/bailey.jsonl
passed=0 failed=0

is() { # NAME EXPECTED GOT
	if [ "$2" = "$3" ]; then
		echo "ok $1"
		passed=$((passed + 1))
	else
		printf 'not ok %s\n    expected: %s\n    got: %s\n' "$1" "$2" "$3"
		failed=$((failed + 1))
	fi
}

is 'no log is no failure' '' "$("$bailey" log)"
mkdir -p "$BAILEY_HOME/log"
echo '{"time":"t1","level":"info","event":"old","pid":1}' >"$log.1"
cat >"$log" <<'END'
{"time":"t2","level":"info","event":"run","pid":2,"id":"b1","command":"ls \"a b\"","none":null,"yes":true,"empty":""}
{"time":"t3","level":"error","event":"bad","text":"\u001b[2J"}
END
printf 'no JSON \033[2J \302\233 \342\200\256 \377 \303\244\n' >>"$log"
is 'fields' 't2 info run pid=2 id=b1 command="ls \"a b\"" none=null yes=true empty=""' "$("$bailey" log | sed -n 2p)"
is 'the older file comes first' 't1 info old pid=1' "$("$bailey" log | sed -n 1p)"
is 'escaped as it was logged' 't3 error bad text="\u001b[2J"' "$("$bailey" log | sed -n 3p)"
is 'no control byte reaches the terminal' 'no JSON \x1b[2J \xc2\x9b \xe2\x80\xae \xff ä' "$("$bailey" log -n 1)"
is 'the last lines' 2 "$("$bailey" log --lines 2 | wc -l)"
is 'lines reach back into the older file' 4 "$("$bailey" log --lines 4 | wc -l)"
is 'JSON passes' "$(cat "$log.1" "$log")" "$("$bailey" log --json)"
seq -f '{"time":"%g","level":"info","event":"e"}' 300 >>"$log"
is 'a hundred lines without asking' 100 "$("$bailey" log | wc -l)"

# Waits until the follower has printed a line that ends so, at most 10 s.
saw() { # NAME END
	local i
	for ((i = 0; i < 100; i++)); do
		if grep -q "$2\$" "$work/followed"; then
			is "$1" "$2" "$2"
			return
		fi
		sleep 0.1
	done
	is "$1" "a line that ends in $2" "$(tail -n 3 "$work/followed")"
}
line() {
	echo "{\"time\":\"t\",\"level\":\"info\",\"event\":\"$1\"}"
}
"$bailey" log --follow -n 1 >"$work/followed" 2>&1 &
follower=$!
saw 'follow begins with the last line' '300 info e'
line one >>"$log"
saw 'follow prints what comes' ' one'
printf '{"time":"t","level":"in' >>"$log"
sleep 0.5
echo 'fo","event":"two"}' >>"$log"
saw 'follow waits for the end of a line' 't info two'
mv "$log" "$log.1"
saw 'nothing is lost before a rotation' ' two'
line three >>"$log"
saw 'follow survives rotation' ' three'
line four >>"$log"
mv "$log" "$log.1"
line five >>"$log"
mv "$log" "$log.1"
line six >>"$log"
saw 'follow survives two rotations at once' ' six'
is 'each line came once and in order' 'one two three four five six' \
	"$(sed -n 's/.*t info //p' "$work/followed" | tr '\n' ' ' | sed 's/ $//')"
kill "$follower"
wait "$follower" 2>/dev/null || true
follower=''

mkfifo "$work/fifo"
: <"$work/fifo" &
exec 3>"$work/fifo"
wait $!
status=0
timeout 10 "$bailey" log --follow >&3 2>"$work/err" || status=$?
exec 3>&-
is 'follow ends with its reader' 5 "$status"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
