# shellcheck shell=bash
# Topic of run.sh: standard input, output and error.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

# perl, because head and wc move 8 and 64 KiB at a time, which is what would be measured then; from
# a larger pipe (F_SETPIPE_SZ), since waiting for each other takes most of the time
count='fcntl STDIN, 1031, 1 << 20; $n += $r while $r = sysread STDIN, $s, 1 << 20; print $n'
gib=${BAILEY_TEST_GIB:-$([ "$who" = root ] && echo 10 || echo 1)} # more than 32 bits count
got=$("$BAILEY" run -- dd if=/dev/zero bs=1M count=$((gib << 10)) status=none | perl -e "$count")
is "$gib GiB of output" $((gib << 30)) "$got"
got=$("$BAILEY" run -- perl -e 'syswrite STDERR, "x" x 65536 for 1 .. 160' 2>&1 >/dev/null |
	perl -e "$count")
is '10 MiB of standard error' 10485760 "$got"
head -c 52428800 /dev/urandom >"$T/random"
is 'the test has 50 MiB of input' 52428800 "$(stat -c %s "$T/random")"
sum=$(sha256sum <"$T/random")
is '50 MiB in and out by pipes' "$sum" \
	"$(head -c 52428800 "$T/random" | "$BAILEY" run -i -- cat | sha256sum)"
"$BAILEY" run -i -- cat <"$T/random" >"$T/copy"
is '50 MiB in and out by files' "$sum" "$(sha256sum <"$T/copy")"
echo first >"$T/copy"
"$BAILEY" run -i -- cat <"$T/random" >>"$T/copy"
is '50 MiB appended' "$sum" "$(tail -c +7 "$T/copy" | sha256sum)"
is '50 MiB of input to a command that counts' 52428800 "$("$BAILEY" run -i -- wc -c <"$T/random")"
rm "$T/random" "$T/copy"

is 'without -i the input is empty' '' "$(echo words | "$BAILEY" run -- cat)"
is 'with -i it is the caller'\''s' words "$(echo words | "$BAILEY" run -i -- cat)"
is 'its end arrives' 0 "$("$BAILEY" run -i -- wc -c </dev/null)"
is 'a line at a time' 'one two' \
	"$( (
		echo one
		sleep 0.5
		echo two
	) | "$BAILEY" run -i -- sh -c 'read a; read b; echo $a $b')"
mkfifo "$T/fifo"
exec 7<>"$T/fifo"
echo start >&7
rc=0
timeout -s KILL 15 "$BAILEY" run -i -- sh -c 'read -r a; exit 4' <&7 || rc=$?
exec 7>&-
is 'a command that ends does not wait for the input' 4 "$rc"
yes | timeout -s KILL 20 "$BAILEY" run -i -- head -n 1 >"$T/out" && rc=0 || rc=$?
is 'a command that reads only some of an endless input' '0 y' "$rc $(cat "$T/out")"
is 'out and err stay apart' 'out/err' \
	"$("$BAILEY" run -- sh -c 'echo out; echo err >&2' 2>"$T/err")/$(cat "$T/err")"
bailey run -- sh -c 'exec >&- 2>&-; exit 6'
is 'a command that closes its output' 6 "$rc"
bailey run -- sh -c 'echo x >/dev/stdout && echo y >/dev/stderr'
is 'the streams can be opened by name' 'x/y' "$(cat "$T/out")/$(cat "$T/err")"

# Where the output goes.
stream_case() { # NAME RC REASON SCRIPT: the script gets the program as $1
	rc=0
	timeout -s KILL 30 sh -c "$4" sh "$BAILEY" >"$T/out" 2>"$T/err" </dev/null || rc=$?
	if [ "$rc" = "$2" ] && { [ -z "$3" ] || says "$3"; }; then
		ok "$1"
	else
		not_ok "$1" "expected status $2, reason $3; $(left)"
	fi
}
stream_case 'a full disk takes no output' 125 disk_full '"$1" run -- echo x >/dev/full'
stream_case 'much output to a full disk' 125 disk_full \
	'"$1" run -- dd if=/dev/zero bs=1M count=9 status=none >/dev/full'
stream_case 'closed output' 125 output_failed '"$1" run -- echo x >&-'
stream_case 'closed output that nothing is written to' 0 '' '"$1" run -- true >&-'
stream_case 'closed input' 0 '' '"$1" run -i -- cat <&-'
stream_case 'closed error output' 3 '' '"$1" run -- sh -c "echo x >&2; exit 3" 2>&- || exit 3'
stream_case 'all closed' 125 '' '"$1" run -- echo x <&- >&- 2>&-'
stream_case 'the report to a full disk' 125 output_failed '"$1" run --json -- echo x >/dev/full'
stream_case 'a refusal without any output' 125 '' '"$1" run --memroy 1 -- true >&- 2>&-'
if can_mount; then
	mkdir "$T/w/tiny"
	try in_private_mounts \
		'mounter tmpfs "$1" size=1m,mode=0777
		back "$BAILEY" run -- dd if=/dev/zero bs=1M count=9 >"$1/out"' "$T/w/tiny"
	ended 125 disk_full 'output to a file on a disk that fills'
fi
# A reader that goes away ends the command by SIGPIPE, as in any pipeline.
began=$SECONDS
got=$(timeout -s KILL 30 "$BAILEY" run -- yes 2>"$T/err" | head -n 1)
is 'a reader that goes away' "y" "$got"
holds 'ends the command' [ $((SECONDS - began)) -lt 20 ]
set +o pipefail
"$BAILEY" run -- sh -c 'yes; echo $? >&2' 2>"$T/err" | head -n 1 >/dev/null
like 'it sees a broken pipe' '141*' "$(cat "$T/err")"
# A reader that is slow loses nothing.
got=$("$BAILEY" run -- dd if=/dev/zero bs=64k count=64 status=none |
	perl -e 'select(undef, undef, undef, 0.005), $n += $r while $r = sysread STDIN, $s, 65536;
		print $n')
is 'a slow reader' 4194304 "$got"
# The caller's descriptors keep their mode: another process may share them.
flags=$(perl -e 'use Fcntl; pipe my $r, my $w;
	if (!fork) { open STDOUT, ">&", $w; open STDIN, "<&", $r; exec @ARGV }
	close $w; wait; printf "%d", fcntl($r, F_GETFL, 0)
		& O_NONBLOCK' "$BAILEY" run -i --timeout 300ms -- sleep 9 2>/dev/null)
is 'no descriptor of the caller becomes non-blocking' 0 "$flags"

# Captured output has a limit.
bailey run --json -- sh -c 'head -c 17M /dev/zero | tr "\0" x; head -c 5 /dev/zero | tr "\0" y >&2'
is 'JSON: the text of 16 MiB' 16777216 \
	"$(perl -e 'local $/; <STDIN> =~ /"stdout":"(x*)"/ and print length $1' <"$T/out")"
sed 's/xxxxx*/x/g' "$T/out" >"$T/short"
report=$T/short reports 'JSON: truncated' truncated bool true stderr string yyyyy exit_code number 0
got=$("$BAILEY" run --json -- perl -e '$x = "x" x 1048576; print $x for 1 .. 512' |
	perl -e 'local $/; $_ = <STDIN>; print /"truncated":true/ && length')
between 'JSON: a lot of output is read and dropped' 16777216 16778216 "$got"
BAILEY_OUTPUT_MAX_CAPTURE=4k bailey run --json -- sh -c 'head -c 4096 /dev/zero | tr "\0" x'
reports 'JSON: exactly the limit is whole' truncated bool false
BAILEY_OUTPUT_MAX_CAPTURE=4k bailey run --json -- sh -c 'head -c 4097 /dev/zero | tr "\0" x'
reports 'JSON: one byte more is not' truncated bool true
BAILEY_OUTPUT_MAX_CAPTURE=4k bailey run --json -- sh -c 'yes ä | head -c 9000'
reports 'JSON: cut inside a character' stdout string '*' truncated bool true
rc=0
(
	ulimit -v 40000
	exec "$BAILEY" run --json -- sh -c 'head -c 16M /dev/zero | tr "\0" x'
) >"$T/out" 2>"$T/err" </dev/null || rc=$?
holds 'no memory for the report is a refusal' refused_as_json no_memory 125
rc=0
(
	ulimit -n 6
	exec "$BAILEY" run --json -- true
) >"$T/out" 2>"$T/err" </dev/null || rc=$?
holds 'no descriptors left' refused_as_json sandbox_setup_failed 125
