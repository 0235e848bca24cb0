# shellcheck shell=bash
# Topic of run.sh: --model-socket, the one way out of a sandbox.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

mkdir "$T/gw"
socket=$T/gw/llm.sock
start perl "$here/model.pl" serve "$socket"
until_true 100 [ -e "$socket.up" ] || not_ok 'the server is up' "$(cat "$T/bg.err")"

inside() { # MODE [COUNT]: runs one of the modes in a sandbox
	rc=0
	timeout -s KILL 60 "$BAILEY" run -i --model-socket "$socket" -- \
		perl - "$@" <"$here/model.pl" >"$T/out" 2>"$T/err" || rc=$?
}
answer() { # NAME PATTERN
	# shellcheck disable=SC2053
	if [ "$rc" -eq 0 ] && [[ $(tr -d '\r' <"$T/out") == $2 ]]; then
		ok "$1"
	else
		not_ok "$1" "expected: $2; $(left)"
	fi
}

inside http
answer 'an HTTP exchange' $'HTTP/1.1 200 OK\nContent-Length: *POST /v1/messages with hello'
inside half
answer 'the client ends its half first' '300000 bytes'
inside down
answer 'the server ends its half first and still gets all' $'first\n300000'
inside both 8388608
answer '8 MiB both ways at once' same
inside many 20
answer '20 connections at once' '20 answers'
inside many 64
answer '64 connections at once' '64 answers'
inside queue 90
answer 'more than the relay has room for wait their turn' '90 answers'
inside after 200
answer '200 connections one after the other' '200 in a row'
inside slow
answer 'a reader that stops stops itself alone' 'answer to 1'

bailey run --model-socket "$socket" -- env
for line in ANTHROPIC_BASE_URL=http://127.0.0.1:4000 OPENAI_BASE_URL=http://127.0.0.1:4000/v1 \
	OPENAI_API_BASE=http://127.0.0.1:4000/v1 \
	GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4000; do
	holds "variable ${line%%=*}" grep -qx "$line" "$T/out"
done
expect_out own 'a variable can be set otherwise' -- \
	run --model-socket "$socket" --env OPENAI_BASE_URL=own -- printenv OPENAI_BASE_URL
expect_rc 1 'without a socket they are not set' -- run -- printenv OPENAI_BASE_URL
connects='use IO::Socket::INET;
	print IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $ARGV[0]) ? "yes" : "no"'
expect_out no 'without a socket nothing listens' -- run -- perl -e "$connects" 4000
expect_out yes 'with one it does' -- run --model-socket "$socket" -- perl -e "$connects" 4000
expect_out no 'on that port alone' -- run --model-socket "$socket" -- perl -e "$connects" 4001
expect_out '/run/gw/llm.sock' 'nothing else of its directory is shown' -- \
	run --model-socket "$socket" -- sh -c 'echo /run/gw/*'
expect_rc 0 'it can'\''t be removed from inside' -- run --model-socket "$socket" --user 0 -- \
	sh -c '! rm -f /run/gw/llm.sock 2>/dev/null'
holds 'and is still there' [ -S "$socket" ]
echo no >"$T/gw/file"
expect_reason model_socket_missing 'a plain file' -- run --model-socket "$T/gw/file" -- true
expect_reason model_socket_missing 'no such socket' -- run --model-socket "$T/gw/none" -- true
ln -s llm.sock "$T/gw/link"
expect_out yes 'a link to the socket' -- run --model-socket "$T/gw/link" -- perl -e "$connects" 4000
for s in /run/docker.sock /run/dbus/system_bus_socket; do
	[ ! -S "$s" ] || expect_reason mount_forbidden "the host's $s" -- \
		run --model-socket "$s" -- true
done
# A server that is gone: the connection ends, the sandbox goes on.
kill "$bg"
finish_bg 10
expect_out 'closed' 'a server that is gone' -- run --model-socket "$socket" -- perl -e '
	use IO::Socket::INET; my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort =>
		4000) or die;
	alarm 10; print sysread($s, my $x, 1) ? "data" : "closed"'
