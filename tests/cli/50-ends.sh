# shellcheck shell=bash
# Topic of run.sh: how a command ends, and what is said of it: exit status, signals, timeouts,
# limits, the JSON report.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

for code in 0 1 7 125 126 127 128 255; do
	bailey run -- sh -c "exit $code"
	is "status $code passes" "$code/" "$rc/$(cat "$T/err")"
done
for sig in TERM:143 INT:130 KILL:137 SEGV:139 ABRT:134 USR1:138 RTMIN:162; do
	expect_end signal "${sig#*:}" "ended by SIG${sig%:*}" -- perl -MPOSIX -e '
		$SIG{INT} = "DEFAULT"; kill $ARGV[0] eq "RTMIN" ? 34 : $ARGV[0], $$;
		sleep 9' "${sig%:*}"
done
expect_end oom 137 'memory limit' -- --memory 30m -- perl -e '$x = "a" x 200_000_000'
expect_end oom 1 'memory limit on a child' -- --memory 30m -- \
	sh -c 'perl -e "\$x = q(a) x 200_000_000"; exit 1'
expect_end pids_exhausted 2 'process limit' -- --pids 5 -- \
	sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait'
expect_rc 0 'a process limit that is reached and not passed' -- run --pids 2 -- \
	sh -c 'sleep 0.1 & wait'
expect_out 'ok' 'limits that nobody passed are no reason' -- run --memory 100m --pids 10 -- echo ok
bailey run -- sh -c 'kill -9 $$ & wait'
is 'a reason is two lines' 2 "$(wc -l <"$T/err")"

timeout_case() { # NAME COMMAND...
	local name=$1
	shift
	expect_end timeout 124 "timeout: $name" -- --timeout 200ms -- "$@"
}
timeout_case 'a command that waits' sleep 30
timeout_case 'one that is busy' sh -c 'while :; do :; done'
timeout_case 'one that ignores SIGTERM' sh -c 'trap "" TERM INT HUP; while :; do sleep 1; done'
timeout_case 'one that stops itself' sh -c 'kill -STOP $$'
timeout_case 'one that forks away twice and holds the output' perl -e '
	use POSIX; if (!fork) { POSIX::setsid(); fork and exit; $SIG{TERM} = "IGNORE"; sleep 30;
		exit } wait; sleep 30'
timeout_case 'one that writes without end' sh -c 'yes >/dev/null'
new_mark
bailey run --timeout 30s -- \
	perl -e 'use POSIX; if (!fork) { POSIX::setsid(); sleep 60; exit } exit 5' "$mark"
is 'what the command leaves running ends with it' 5 "$rc"
holds 'nothing of it is left' until_true 20 none_marked "$mark"

# Bailey itself stopped: the guest's own timer ends the sandbox.
new_mark
start "$BAILEY" run --timeout 1s -- sleep 60 "$mark"
until_true 50 is_marked "$mark" '^sleep$' || not_ok 'the command starts' "$(cat "$T/bg.err")"
kill -STOP "$bg"
holds 'the guest keeps the deadline when Bailey is stopped' until_true 60 none_marked "$mark" \
	'^(sleep|bailey-guest)$'
kill -CONT "$bg"
finish_bg 20
is 'and Bailey says so when it goes on' 124 "$rc"

# Signals for Bailey.
passes_on() { # SIGNAL RC
	new_mark
	start "$BAILEY" run --env "SIG=$1" -- \
		sh -c 'trap "echo got $SIG; exit 9" $SIG; echo ready; while :; do sleep 0.1; done' \
			"$mark"
	until_true 50 grep -q ready "$T/bg.out" || true
	kill "-$1" "$bg"
	finish_bg 20
	is "SIG$1 is passed on" "9: ready got $1" "$rc: $(tr '\n' ' ' <"$T/bg.out" | sed 's/ $//')"
}
# A background job of a script has SIGINT and SIGQUIT ignored, so these are only tried where they
# get through (terminal).
for sig in TERM HUP USR1 USR2; do
	passes_on $sig
done
signal_ends() { # SIGNAL RC
	new_mark
	start perl -e '$SIG{INT} = $SIG{QUIT} = "DEFAULT"; exec @ARGV' "$BAILEY" run -- \
		sleep 60 "$mark"
	until_true 50 is_marked "$mark" '^sleep$' || true
	kill "-$1" "$bg"
	finish_bg 20
	is "SIG$1 ends a command that lets it" "$2" "$rc"
	holds "and nothing is left (SIG$1)" until_true 20 none_marked "$mark"
}
signal_ends TERM 143
signal_ends INT 130
signal_ends HUP 129
signal_ends QUIT 131
new_mark
start "$BAILEY" run -- sh -c 'trap "echo got" TERM; echo ready; while :; do sleep 0.1; done' "$mark"
until_true 50 grep -q ready "$T/bg.out" || true
kill -TERM "$bg"
until_true 50 grep -q got "$T/bg.out" || true
kill -TERM "$bg"
finish_bg 5
like 'the second signal ends a command that ignores it' '*\[interrupted]*' "$(cat "$T/bg.err")"
is 'its status' 125 "$rc"
holds 'nothing of it is left after two signals' until_true 20 none_marked "$mark"

# The guest killed from outside.
new_mark
start "$BAILEY" run -- sleep 60 "$mark"
until_true 50 is_marked "$mark" '^sleep$' || true
# shellcheck disable=SC2046 # one pid
kill -KILL $(marked "$mark" '^bailey-guest$') || true
finish_bg 20
like 'a guest that is killed' '*\[guest_lost]*' "$(cat "$T/bg.err")"
is 'its status' 125 "$rc"

# The JSON report: each field with its type, and only these.
report_fields() {
	cut -f 1,2 <<<"$flat" | tr '\t\n' '  '
}
bailey run --json --timeout 20s -- sh -c 'echo out; echo err >&2; exit 3'
is 'JSON: its status is the command'\''s' 3 "$rc"
reports 'JSON: it is JSON'
# an older kernel has no peak of processes
flat=${flat/pids_peak$'\t'null/pids_peak$'\t'number}
is 'JSON: fields and types' \
 "id string exit_code number signal null reason null oom_killed bool timed_out bool \
wall_ms number cpu_ms number memory_peak_bytes number pids_peak number \
stdout string stdout_base64 bool stderr string stderr_base64 bool truncated bool " \
	"$(report_fields)"
reports 'JSON: values' exit_code number 3 stdout string 'out\\n' stderr string 'err\\n' oom_killed \
	bool false timed_out bool false truncated bool false stdout_base64 bool false
is 'JSON: one line, nothing beside it' '1/0' "$(wc -l <"$T/out")/$(wc -c <"$T/err")"
bailey run --json --timeout 300ms -- sleep 30
reports 'JSON: timeout' timed_out bool true reason string timeout exit_code null '*'
number() { # FIELD: its value
	sed -n "s/^$1\tnumber\t//p" <<<"$flat"
}

between 'JSON: wall_ms' 300 20000 "$(number wall_ms)"
bailey run --json --memory 30m -- perl -e '$x = "a" x 200_000_000'
reports 'JSON: oom' oom_killed bool true reason string oom signal number 9 exit_code null '*'

between 'JSON: memory_peak_bytes' 15000000 31457280 "$(number memory_peak_bytes)"
bailey run --json -- \
	perl -e 'for (1 .. 4) { fork or (select(undef, undef, undef, 0.3), exit) } 1 while wait > 0;
		while ((times)[0] < 0.3) { $n++ for 1 .. 10000 } kill TERM => $$'
reports 'JSON: signal' signal number 15 reason string signal
if has pids_peak null; then
	skip 'JSON: pids_peak' 'this kernel does not keep it'
else
	reports 'JSON: pids_peak' pids_peak number 5
fi

between 'JSON: cpu_ms' 290 3000 "$(number cpu_ms)"
bailey run --json -- printf 'a\377b'
reports 'JSON: bytes that are no text' stdout string Yf9i stdout_base64 bool true stderr_base64 \
	bool false
bailey run --json -- \
	sh -c 'printf "\377\376" >&2; printf "\\0\\001\\033\\177\"\\\\"
		printf "\303\244\360\237\230\200"'
reports 'JSON: text that needs escapes' stderr string '//4=' stderr_base64 bool true stdout string \
	'\\u0000\\u0001\\u001b*\\"\\\\ä😀'
bailey run --json --json-fd 1 -- echo mixed
sed 1d "$T/out" >"$T/report"
report=$T/report reports '--json-fd 1: the report' exit_code number 0
is '--json-fd 1 leaves the output alone' mixed "$(head -n 1 "$T/out")"
try "$BAILEY" run --json-fd 5 -- sh -c 'echo out; echo err >&2; exit 4' 5>"$T/report"
report=$T/report reports '--json-fd 5: the report' exit_code number 4
is '--json-fd 5' '4 out err 4' \
	"$rc $(cat "$T/out") $(cat "$T/err") $(number exit_code)"
is '--json-fd keeps the output out of the report' '' "$(grep '^std' <<<"$flat" || true)"
bailey run --json-fd 9 -- true 9>&-
is '--json-fd on a closed descriptor: status' 125 "$rc"
holds '--json-fd on a closed descriptor' says output_failed
