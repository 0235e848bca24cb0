# shellcheck shell=bash
# Behaviour of run.sh: a client that is killed ends nothing; one that talks nonsense neither.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
start "$BAILEY" exec "$sb" -- sh -c 'echo one; sleep 1; echo two; echo x >/workspace/f; exit 3'
holds 'it runs' until_true 30 grep -q one "$T/bg.out"
kill -KILL "$bg"
finish_bg 5
bailey attach "$sb" 1
is 'another attaches and has it all' $'3 one\ntwo' "$rc $(cat "$T/out")"
tells 'it did its work' x 'cat /workspace/f'
# killed at any moment of a copy
head -c 20000000 /dev/urandom >"$T/f"
for delay in 0.005 0.02 0.05 0.1; do
	"$BAILEY" cp "$T/f" "$sb:/workspace/copy" >/dev/null 2>&1 </dev/null &
	p=$!
	sleep "$delay"
	kill -KILL "$p" 2>/dev/null || true
	wait "$p" 2>/dev/null || true
done
settled() {
	inside 'ls -A /workspace | grep -vx copy | grep -vx f; [ ! -e copy ] || stat -c %s copy'
	[[ $(cat "$T/out") == ?(20000000) ]]
}
holds 'a copy is whole or not there' until_true 30 settled
[ -S "$BAILEY_HOME/sandbox/runs/$sb/sock" ] || {
	not_ok 'there is a socket' "$(ls -la "$BAILEY_HOME/sandbox/runs/$sb")"
	return
}
cd "$BAILEY_HOME/sandbox/runs/$sb" || return
for words in 'GET / HTTP/1.0' "$(head -c 3000 /dev/urandom | od -An -tx1)" '' BILY; do
	rc=0
	timeout -s KILL 10 perl -MSocket -e 'socket my $s, PF_UNIX, SOCK_STREAM, 0;
		$SIG{PIPE} = "IGNORE";
		connect $s, pack_sockaddr_un("sock") or exit 3;
		syswrite $s, $ARGV[0];
		shutdown $s, 1;
		1 while sysread $s, my $b, 4096;
		exit 0' "$words" >/dev/null 2>&1 || rc=$?
	is "a connection with nonsense ends (${#words} bytes)" 0 "$rc"
done
cd "$T/w" || return
tells 'and nothing else does' x 'echo x'
