#!/usr/bin/env bash
# Claude Code and Codex do the example's task inside a sandbox, as root and as a normal user.
#   tests/agents/run.sh [AGENT...]               default: claude codex; BAILEY names the program
# As root the normal user is one that this script creates and removes. The last line is 'N passed,
# N failed, N skipped'.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd -P)
BAILEY=${BAILEY:-$top/build/stage/bin/bailey}
[ $# -gt 0 ] || set -- claude codex
# shellcheck source=tools/need.sh
. "$top/tools/need.sh"

user=bailey-agents
comment="tests of Bailey"
user_made=
delegated=
work=$(mktemp -d)
cleanup() {
	[ -z "$delegated" ] || "$top/tools/delegate.sh" down "$delegated" bailey-agents-$$ || true
	[ -z "$user_made" ] || userdel "$user" || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

need_packages make gcc libc6-dev diffutils
command -v node >/dev/null || need_packages nodejs
command -v npm >/dev/null || need_packages npm

: >"$work/results"
skip() {
	echo "skip $*" | tee -a "$work/results"
}

# task NAME COMMAND...: a task that ends without a word counts as failed.
task() {
	local name=$1 status=0
	shift
	"$@" >"$work/one" 2>&1 || status=$?
	cat "$work/one"
	cat "$work/one" >>"$work/results"
	if [ "$status" -ne 0 ] && ! grep -q '^not ok ' "$work/one"; then
		echo "not ok $name: ended with $status" | tee -a "$work/results"
	fi
}

# What the user needs to reach lies in one tree of its own: the clone and root's cache may be
# closed to it.
make_user_tree() {
	local agent
	chmod 711 "$work"
	mkdir -p "$work/tree/tests" "$work/programs" "$work/home"
	cp -R "$top/tests/agents" "$top/tests/provider" "$work/tree/tests/"
	cp -R "$top/examples" "$top/tools" "$work/tree/"
	cp -R "$(dirname "$BAILEY")/.." "$work/stage"
	for agent in "$@"; do
		program=$("$top/tools/npm/install.sh" "$agent")
		# hard links where the cache is on the same file system: a program has 400 MB
		cp -RlL "$program" "$work/programs/$agent" 2>/dev/null || {
			rm -rf "$work/programs/$agent"
			cp -RL "$program" "$work/programs/$agent"
		}
	done
	chmod -R go+rX "$work/tree" "$work/stage" "$work/programs"
	chown "$user" "$work/home"
}

as_user() {
	local agent line
	# one that a killed run left
	[ "$(getent passwd "$user" | cut -d: -f5)" != "$comment" ] || userdel "$user"
	useradd --comment "$comment" --no-create-home --home-dir "$work/home" --shell /bin/sh "$user"
	user_made=1
	make_user_tree "$@"
	line=$("$top/tools/delegate.sh" up "$user" bailey-agents-$$)
	delegated=$user
	for agent in "$@"; do
		task "$agent as user" runuser -u "$user" -- env -i PATH="$PATH" HOME="$work/home" \
			TMPDIR="$work/home" "$line" BAILEY="$work/stage/bin/$(basename "$BAILEY")" \
			"$work/tree/tests/agents/task.sh" "$agent" "$work/programs/$agent"
	done
}

for agent in "$@"; do
	program=$("$top/tools/npm/install.sh" "$agent")
	if "$top/tools/delegate.sh" needed; then
		line=$("$top/tools/delegate.sh" up "$(id -un)" bailey-agents-$$)
		delegated=$(id -un)
		export "${line?}"
	fi
	task "$agent" env BAILEY="$BAILEY" "$top/tests/agents/task.sh" "$agent" "$program"
done
if [ "$(id -u)" -ne 0 ]; then
	skip "agents-as-root not run by root"
else
	as_user "$@"
fi

passed=$(grep -c '^ok ' "$work/results" || true)
failed=$(grep -c '^not ok ' "$work/results" || true)
skipped=$(grep -c '^skip ' "$work/results" || true)
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
