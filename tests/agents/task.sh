#!/usr/bin/env bash
# One agent does the example's task inside a sandbox, as the calling user; prints 'ok ...' and 'not
# ok ...' lines.  Called by run.sh, once per agent and user; BAILEY names the program.
#   tests/agents/task.sh AGENT PROGRAM-DIR
# shellcheck disable=SC2317 # the checks are called through report
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd -P)
agent=$1
program=$2
who=$([ "$(id -u)" -eq 0 ] && echo root || echo user)
# shellcheck source=tests/provider/lib.sh
. "$top/tests/provider/lib.sh"

work=$(mktemp -d)
provider=
trap 'provider_stop; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0
workspace_flags=()
[ "$who" = user ] || workspace_flags=(--root-workspace)

# report NAME WHY COMMAND...: ok when the command succeeds.
report() {
	local name=$1 why=$2
	shift 2
	if "$@" >"$work/check.out" 2>&1; then
		echo "ok $agent as $who: $name"
	else
		echo "not ok $agent as $who: $name: $why"
		sed 's/^/# /' "$work/check.out"
		failed=1
	fi
}

# work_on COPY MODE: the agent's run; its reply is in $work/reply, its exit status in $work/status.
work_on() {
	local status=0
	cp -R "$top/examples/wordcount" "$1"
	provider_start "$agent" wordcount
	agent_run "$agent" "$(cat "$1/TASK.md")" "$BAILEY" run --workspace "$1:$2" "${workspace_flags[@]}" \
		--mount "$program:/opt/agent" --model-socket "$work/model.sock" \
		--timeout 2m --memory 4g --cpus 2 --pids 256 --tmp-size 256m >"$work/reply" || status=$?
	provider_stop
	echo "$status" >"$work/status"
}

status_is() {
	echo "exit status $(cat "$work/status"), stderr:"
	tail -n 20 "$work/agent.err"
	[ "$(cat "$work/status")" -eq "$1" ]
}

reply_says() {
	cat "$work/reply"
	grep -qF "$1" "$work/reply"
}

steps_are() {
	sed -n 's/.*"step":"\([a-z]*\)".*/\1/p' "$work/provider.log" |
		grep -v '^side$' | tr '\n' ' ' | tee "$work/steps"
	[ "$(cat "$work/steps")" = "$1 " ]
}

changed_is() {
	(diff -rq "$top/examples/wordcount" "$1" || true) >"$work/changed"
	cat "$work/changed"
	case $2 in
	nothing) [ ! -s "$work/changed" ] ;;
	*) [ "$(wc -l <"$work/changed")" -eq 1 ] && grep -q "$2 differ" "$work/changed" ;;
	esac
}

tests_pass() {
	"$BAILEY" run --workspace "$1:ro" -- make test O=/tmp/out
}

# Ownership as the caller's other tools see it, outside.
all_mine() {
	find "$1" ! \( -uid "$(id -u)" -gid "$(id -g)" \) | tee "$work/foreign"
	[ ! -s "$work/foreign" ]
}

# Inside the uid is 1000; as root that has to be another uid of the machine than root's.
unprivileged_uid() {
	"$BAILEY" run -- sh -c 'id -u; cat /proc/self/uid_map' >"$work/ids"
	cat "$work/ids"
	awk -v caller="$(id -u)" '
		NR == 1 { inside = $1 }
		NR > 1 && inside >= $1 && inside < $1 + $3 { outside = $2 + inside - $1; found = 1 }
		END {
			own = caller == 0 ? outside != 0 : outside == caller
			exit !(found && inside == 1000 && own)
		}' "$work/ids"
}

copy=$work/copy
work_on "$copy" rw
report "exits with 0" "another exit status" status_is 0
report "the final reply is printed" "another reply" reply_says "make test says: all tests passed"
report "went through its own tools, step by step" "other steps" steps_are "test read edit again done"
report "only the buggy file changed" "another change" changed_is "$copy" count.c
report "the tests pass in the copy" "they don't" tests_pass "$copy"
report "all files belong to the caller" "some don't" all_mine "$copy"
report "works under an unprivileged uid" "another uid" unprivileged_uid

# The same without the right to write: the failure has to come out, not a success story.
rm -rf "$work/provider.log"
readonly_copy=$work/readonly
work_on "$readonly_copy" ro
report "read-only workspace: the reply says that it failed" "another reply" reply_says "I could not finish the task"
report "read-only workspace: nothing changed" "something did" changed_is "$readonly_copy" nothing
exit $failed
