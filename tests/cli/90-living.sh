# shellcheck shell=bash
# Topic of run.sh: the verbs of sandboxes that live: what each prints, as text and as JSON, and what becomes of the terminal.
# What they do is tests/conformance's matter.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

pty() { # SCRIPT WORD...
	local script=$1
	shift
	try perl "$here/pty.pl" 24 80 "$script" "$BAILEY" "$@"
	tr -d '\r' <"$T/out" >"$T/out.plain"
	mv "$T/out.plain" "$T/out"
}
bailey create --name living --disk 64m
[ "$rc" -eq 0 ] || {
	not_ok 'create' "$(left)"
	return 0
}
id=$(cat "$T/out")
like 'create: the id alone' 'b+([0-9a-f])' "$id"
bailey create --json --name second
reports 'create: JSON' id string 'b+([0-9a-f])' name string second
bailey create --json
reports 'create: JSON without a name' id string 'b+([0-9a-f])' name null ''
third=$(sed 's/.*"id":"\([^"]*\)".*/\1/' "$T/out")

# exec
expect_out 'words a  b*' 'exec' -- exec living -- echo words 'a  b'
expect_out 'words*' 'exec by the start of the id' -- exec "${id:0:8}" echo words
expect_rc 3 'exec: flags in front of the sandbox' -- exec --workdir /tmp living sh -c 'exit 3'
bailey exec living --json --env A=1 -- sh -c 'echo $A; printf "\377" >&2; exit 3'
is 'exec: JSON: status' 3 "$rc"
reports 'exec: JSON' id string "$id" command number '+([0-9])' exit_code number 3 signal null '' reason null '' \
	oom_killed bool false timed_out bool false wall_ms number '+([0-9])' stdout string '1\\n' \
	stdout_base64 bool false stderr string '/w==' stderr_base64 bool true truncated bool false
bailey exec living --json -- sh -c 'kill -TERM $$'
reports 'exec: JSON of a signal' exit_code null '' signal number 15 reason string signal
expect_reason command_not_found 'exec: no such command' -- exec living /no/such
bailey exec living -d -- sh -c 'echo out; echo err >&2; exit 4'
first=$(cat "$T/out")
like 'exec --detach: the command'\''s id alone' '+([0-9])' "$first"
bailey exec living -d --json -- sleep 300
reports 'exec --detach: JSON' id string "$id" command number '+([0-9])'
sleeper=$(sed 's/.*"command":\([0-9]*\).*/\1/' "$T/out")

# wait, attach, logs, ps, kill
bailey wait living "$first"
is 'wait' 4 "$rc"
bailey wait living "$first" --json
reports 'wait: JSON' id string "$id" command number "$first" exit_code number 4 signal null '' reason null '' \
	oom_killed bool false timed_out bool false
bailey attach living "$first"
is 'attach' '4 out err' "$rc $(cat "$T/out") $(cat "$T/err")"
bailey attach living "$first" --json
reports 'attach: JSON' command number "$first" exit_code number 4 stdout string 'out\\n' stderr string 'err\\n'
bailey logs living "$first"
is 'logs' '0 out err' "$rc $(cat "$T/out") $(cat "$T/err")"
bailey logs living "$first" --json
reports 'logs: JSON' command number "$first" stdout string 'out\\n' stderr string 'err\\n' stdout_base64 bool false \
	stderr_base64 bool false truncated bool false dropped_bytes number 0
bailey logs living --json
reports 'logs of all: JSON' 0.command number '+([0-9])' 1.command number '+([0-9])'
bailey logs living
like 'logs of all' '*words a  b*words*out*' "$(cat "$T/out")"
bailey ps living
like 'ps: a header' '*ID  STATE*COMMAND'$'\n''*' "$(cat "$T/out")"
like 'ps: one that runs' "*$sleeper  running *sleep 300*" "$(cat "$T/out")"
like 'ps: one that was ended by a signal' '*signalled*signal 15*' "$(cat "$T/out")"
bailey ps living --json
n=$((sleeper - 1))
reports 'ps: JSON' $n.command number "$sleeper" $n.state string running $n.pid number '+([0-9])' $n.exit_code null '' \
	$n.signal null '' $n.errno null '' $n.timed_out bool false $n.killed bool false $n.oom_killed bool false \
	$n.terminal bool false $n.stdin bool false $n.detached bool true $n.started_ms number '+([0-9])' \
	$n.ended_ms null '' $n.stdout_bytes number 0 $n.stderr_bytes number 0 $n.dropped_bytes number 0 \
	$n.argv.0 string sleep $n.argv.1 string 300
bailey kill living "$sleeper" --signal SIGTERM --json
reports 'kill: JSON' id string "$id" command number "$sleeper" signal number 15 survivors number '+([0-9])'
bailey wait living "$sleeper"
is 'kill' 143 "$rc"
bailey kill living --json
reports 'kill of all: JSON' command null '' signal number 9 survivors number 0

# the terminal
pty '' exec -t living -- sh -c 'test -t 0 && test -t 1 && test -t 2 && echo yes; exit 3'
is 'exec -t: status' 3 "$rc"
like 'exec -t: a terminal, and the settings are put back' '*yes*modes: same*' "$(cat "$T/out")"
TERM=xterm-256color pty '' exec -t living -- printenv TERM
like 'TERM is passed with -t' 'xterm-256color*' "$(cat "$T/out")"
TERM=xterm expect_rc 1 'and not without' -- exec living -- printenv TERM
pty $'wait ready\nsend \\x10\\x11' exec -t living -- sh -c 'echo ready; sleep 1; echo on >/workspace/on; sleep 200'
is 'ctrl-p ctrl-q: status' 0 "$rc"
like 'ctrl-p ctrl-q let go' '*let go of command*modes: same*' "$(cat "$T/out")"
expect_out 'on*' 'the command goes on' -- exec living -- sh -c 'sleep 1.5; cat /workspace/on'
pty $'wait ready\nsend \\x10x\\n\nwait got' exec -t living -- bash -c 'echo ready; read -r a; echo "got ${#a}"'
is 'ctrl-p and another key are passed on' 0 "$rc"
for sig in INT TERM; do
	pty $'wait ready\nkill '$sig exec -t living -- \
		bash -c 'trap "exit 7" INT TERM; echo ready; while :; do sleep 0.1; done'
	is "$sig is passed on" 7 "$rc"
	like "$sig: the settings are put back" '*modes: same*' "$(cat "$T/out")"
done
pty $'wait ready\nkill HUP' exec -t living -- sh -c 'echo ready; sleep 100'
is 'a hangup ends the client alone' 129 "$rc"
like 'and puts the settings back' '*modes: same*' "$(cat "$T/out")"
bailey ps living
like 'its command runs' '*running*sleep 100*' "$(cat "$T/out")"
bailey kill living
pty $'wait ready\nkill TERM\nwait once\nkill TERM' exec living -- \
	bash -c 'trap "echo once" TERM; (setsid sleep 77 &); echo ready; while :; do sleep 0.1; done'
is 'a second one kills' 137 "$rc"
expect_out 0 'with all that it started' -- exec living -- \
	sh -c 'n=0; for d in /proc/[0-9]*; do grep -qs "^Name:.sleep" $d/status && n=$((n + 1)); done; echo $n'

# readers that go, and one that has no room
rc=0
timeout 20 "$BAILEY" exec living -- yes 2>"$T/err" | head -n 1 >"$T/out" || rc=$?
is 'a reader that goes ends the client' 'y' "$(cat "$T/out")"
is 'and that is no failure to speak of' '' "$(cat "$T/err")"
bailey kill living
rc=0
timeout 20 "$BAILEY" exec living -- echo x >/dev/full 2>"$T/err" </dev/null || rc=$?
ended 125 disk_full 'no room for the output'

# ls, inspect, stats, df
bailey ls
like 'ls' '*ID *NAME *STATE *AGE *IMAGE *WORKSPACE*'"$id  living *running *host*" "$(cat "$T/out")"
bailey ls --json
reports 'ls: JSON' 0.id string "$id" 0.name string living 0.state string running 0.kind string sandbox 0.live bool true \
	0.engine string native 0.image string host 0.created_ms number '+([0-9])' 2.name null ''
bailey inspect living
like 'inspect' '*id *'"$id"'*state *running*' "$(cat "$T/out")"
bailey inspect living --json
reports 'inspect: JSON' id string "$id" name string living state string running kind string sandbox live bool true \
	engine string native image string host keep bool '*' read_only bool false disk_bytes number $((64 << 20)) \
	memory_bytes number $((2 << 30)) pids number 256 cpu_millis number 1000 owner_pid number '+([0-9])' uid number 1000 \
	gid number 1000 network string none created_ms number '+([0-9])'
bailey stats living
is 'stats: a header and a line' 2 "$(wc -l <"$T/out")"
bailey stats living --json
reports 'stats: JSON' id string "$id" cpu_us number '+([0-9])' memory_bytes number '+([0-9])' \
	memory_max_bytes number $((2 << 30)) pids number '+([0-9])' pids_max number 256 disk_used_bytes number '+([0-9])' \
	disk_max_bytes number $((64 << 20)) spool_bytes number '+([0-9])'
for key in memory_peak_bytes pids_refused oom_kills; do
	holds "stats: JSON: $key" grep -q "\"$key\":" "$T/out"
done
bailey df
like 'df' "*KIND *layer *$id *living *" "$(cat "$T/out")"
bailey df --json
reports 'df: JSON' 0.kind string layer 0.id string "$id" 0.name string living 0.bytes number '+([0-9])' 1.kind string spool

# cp
mkdir -p "$T/tree/d"
echo x >"$T/tree/d/f"
mkfifo "$T/tree/fifo"
bailey cp "$T/tree" living:copy
is 'cp: status' 0 "$rc"
like 'cp: says what it left out' '*1 entries left out*' "$(cat "$T/err")"
bailey cp --json living:/workspace/copy "$T/back"
reports 'cp: JSON' entries number '+([0-9])' bytes number 2 skipped number 0 changed number 0
is 'cp: and back' x "$(cat "$T/back/d/f")"
(cd "$T/tree" && bailey cp . living:/workspace/dot) || true
expect_out 'x*' 'cp of . to a new name' -- exec living -- cat /workspace/dot/d/f
bailey cp --json living:/workspace/copy -
holds 'cp --json with an archive on standard output' refused_as_json usage 2
pty '' cp living:/workspace/copy -
like 'cp: no archive to a terminal' '*\[usage]*' "$(cat "$T/out")"

# diff and apply
bailey diff living
like 'diff' '*A workspace/copy'$'\n''A workspace/copy/d'$'\n''A workspace/copy/d/f'$'\n''*' "$(cat "$T/out")"
bailey diff living --json
like 'diff: JSON' '\[*{"kind":"A","path":"workspace/copy/d/f","path_base64":false,"mode":33188,"size":2}*\]' \
	"$(cat "$T/out")"
mkdir "$T/target"
bailey apply living "$T/target" workspace/copy --dry-run --json
reports 'apply --dry-run: JSON' applied bool false changes.0.kind string A changes.0.path string workspace/copy
is 'and nothing is done' '' "$(ls -A "$T/target")"
pty $'wait Apply these\nsend n\\n' apply living "$T/target" workspace/copy
is 'apply asks: no' '0 ' "$rc $(ls -A "$T/target")"
pty $'wait Apply these\nsend y\\n' apply living "$T/target" workspace/copy
is 'apply asks: yes' '0 x' "$rc $(cat "$T/target/workspace/copy/d/f")"
expect_reason usage 'apply with nobody to ask' -- apply living "$T/target"
expect_reason path_not_found 'apply of a path that did not change' -- apply living "$T/target" none --yes
expect_reason path_not_found 'apply to no directory' -- apply living "$T/none" --yes
expect_reason bad_value 'apply of a path that leads out' -- apply living "$T/target" a/../../b --yes
bailey apply living "$T/target" workspace/copy --yes --json
reports 'apply: JSON' applied bool true changes.0.kind string M conflicts list ''

# port
start "$BAILEY" port living 8080 --json
holds 'port: says its address' until_true 50 grep -q port "$T/bg.out"
report=$T/bg.out reports 'port: JSON' address string 127.0.0.1 port number '+([0-9])' inside number 8080
kill -INT "$bg"
finish_bg 5
is 'port: an interrupt ends it' 130 "$rc"

# states, copies, events
for verb in pause resume stop start; do
	bailey $verb living second --json
	reports "$verb: JSON" done.0 string living done.1 string second errors list ''
done
bailey snapshot living --name frozen --json
reports 'snapshot: JSON' id string 'b+([0-9a-f])' name string frozen
bailey fork frozen --json
reports 'fork: JSON' id string 'b+([0-9a-f])' name null ''
forked=$(sed 's/.*"id":"\([^"]*\)".*/\1/' "$T/out")
bailey ls
like 'ls leaves snapshots out' '!(*frozen*)' "$(cat "$T/out")"
bailey ls --all
like 'ls --all lists them' '*frozen *snapshot *' "$(cat "$T/out")"
bailey events
like 'events' "*T*Z $id created*" "$(cat "$T/out")"
bailey events --json
grep -m 1 -F "\"$id\"" "$T/out" >"$T/line"
report=$T/line reports 'events: JSON' time_ms number '+([0-9])' id string "$id" event string '+([a-z_])'
start "$BAILEY" events --follow
holds 'events --follow' until_true 50 grep -q snapshot "$T/bg.out"
kill -INT "$bg"
finish_bg 5
is 'events: an interrupt ends it' 130 "$rc"

# rm, prune
bailey rm --force --json living nobody second
is 'rm: status of the first failure' 3 "$rc"
reports 'rm: JSON' done.0 string living done.1 string second errors.0.sandbox string nobody \
	errors.0.reason string sandbox_not_found error.reason string sandbox_not_found
bailey stop "$third"
bailey prune --json
reports 'prune: nothing is lost' '' list ''
bailey prune --stopped --json
reports 'prune --stopped: JSON' 0.id string "$third" 0.name null '' 0.state string stopped
expect_rc 0 'rm' -- rm --force "$forked" frozen
bailey ls --all --json
reports 'all are gone' '' list ''
