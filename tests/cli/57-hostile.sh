# shellcheck shell=bash
# Topic of run.sh: commands that would keep Bailey from coming to an end, or make it see another.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

now_ms() {
	local us=${EPOCHREALTIME/[.,]/}
	echo "${us%???}"
}
took() { # NAME LOWEST HIGHEST (ms): since $began
	between "$1" "$2" "$3" $(($(now_ms) - began))
}

# A copy of the output's descriptors lies in the queue of a socket that nobody reads: their end
# never comes.
mkdir "$T/deaf"
start perl -e 'use IO::Socket::UNIX;
	my $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 9) or die;
	open my $up, ">", "$ARGV[0].up"; sleep 300' "$T/deaf/llm.sock"
deaf=$bg
until_true 100 [ -e "$T/deaf/llm.sock.up" ] || not_ok 'the deaf server is up' "$(cat "$T/bg.err")"
send='use Socket;
	socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
	connect($s, pack_sockaddr_un("/run/gw/llm.sock")) or die "connect: $!";
	my $byte = "x";
	my $rights = pack "Q l4", 24, 1, 1, 1, 2; # SOL_SOCKET, SCM_RIGHTS, two descriptors
	my $data = pack "P Q", $byte, 1;
	my $message = pack "Q L x4 P Q P Q l x4", 0, 0, $data, 1, $rights, 24, 0;
	syscall(46, fileno $s, $message, 0) == 1 or die "sendmsg: $!";
	$| = 1; print "sent";'
began=$(now_ms)
limit=20 bailey run --timeout 30s --model-socket "$T/deaf/llm.sock" -- perl -e "$send"
is 'output sent away over the model socket: the run ends' '0 sent' "$rc $(cat "$T/out")"
took 'it ends with its command' 0 5000
began=$(now_ms)
limit=20 bailey run --timeout 1s --model-socket "$T/deaf/llm.sock" -- perl -e "$send sleep 60"
is 'the same at the deadline' '124 sent' "$rc $(cat "$T/out")"
took 'it does not outlive the deadline' 1000 3000
limit=20 bailey run --timeout 30s --json --model-socket "$T/deaf/llm.sock" -- perl -e "$send exit 3"
reports 'the same with --json' exit_code number 3 stdout string sent
kill "$deaf"
finish_bg 5

# PTRACE_TRACEME: a stop of the command, or of what the first process has adopted, is not its end.
expect_rc 0 'a command that asks to be traced' -- run -- \
	perl -e 'syscall(101, 0, 0, 0, 0) == 0 or exit 9; exec "true"'
limit=20 expect_out traced 'a grandchild that asks to be traced' -- run -- perl -e '
	pipe my $r, my $w;
	if (!fork) {
		fork and exit;
		select undef, undef, undef, 0.01 until getppid == 1;
		syscall(101, 0, 0, 0, 0) == 0 or exit 9;
		open STDOUT, ">&", $w;
		close $r;
		exec "echo", "traced";
	}
	close $w;
	wait;
	$SIG{ALRM} = sub { print "stuck"; exit };
	alarm 5;
	print <$r>'
limit=20 bailey run -- perl -e 'syscall(101, 0, 0, 0, 0) == 0 or exit 9; kill TERM => $$; sleep 9'
ended 143 signal 'its signals count as ever'

# Whoever reads our output has stopped, and the command has ended: one signal is enough.
mkfifo "$T/stalled"
exec 7<>"$T/stalled"
new_mark
"$BAILEY" run -- perl -e 'print "x" x 300_000; sleep 1' "$mark" \
	>"$T/stalled" 2>"$T/bg.err" </dev/null &
bg=$!
started+=("$bg")
until_true 50 is_marked "$mark" '^perl$' || not_ok 'it starts' "$(cat "$T/bg.err")"
until_true 50 none_marked "$mark" '^(perl|bailey-guest)$' || not_ok 'the command ends' ''
sleep 0.3
holds 'a reader that has stopped is waited for' kill -0 "$bg"
began=$(now_ms)
kill -TERM "$bg"
finish_bg 10
took 'but the first signal ends that' 0 2000
holds 'without being killed' [ "$rc" -ne 137 ]
exec 7>&-
rm "$T/stalled"
