#!/usr/bin/env bash
# Three ways from one state: a sandbox with a failing project is forked three times, each fork tries another fix, and the
# one whose tests pass is applied to the project.  What an agent's script does when it is not sure.
#   examples/three-ways/run.sh [PROJECT]
# PROJECT is a copy of examples/wordcount; without it one is made in a temporary directory and thrown away.
# BAILEY names the program.  Exits with 0 when one fix was kept and the project's tests pass.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
BAILEY=${BAILEY:-bailey}
scratch=
base=
forks=

cleanup() {
	# shellcheck disable=SC2086 # ids hold no spaces
	[ -z "$base$forks" ] || "$BAILEY" rm $forks $base >/dev/null || true
	[ -z "$scratch" ] || rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

project=${1:-}
if [ -z "$project" ]; then
	scratch=$(mktemp -d)
	project=$scratch/wordcount
	cp -R "$here/../wordcount" "$project"
fi

# The tests write into /tmp/out, which is in no layer: what remains is the fix alone.
run_tests="make --silent --directory=/workspace test O=/tmp/out"

echo "== the project as it is, on a copy-on-write view: nothing reaches $project"
base=$("$BAILEY" create --workspace "$project:cow")
# shellcheck disable=SC2086
if "$BAILEY" exec "$base" -- $run_tests; then
	echo "its tests pass already: nothing to mend" >&2
	exit 1
fi
"$BAILEY" stop "$base"

echo "== three forks, three fixes, tested side by side"
tried=
for fix in "$here"/fixes/*.sed; do
	fork=$("$BAILEY" fork "$base")
	forks="$forks $fork"
	"$BAILEY" cp "$fix" "$fork:/tmp/fix.sed"
	"$BAILEY" exec "$fork" -- sed -i -f /tmp/fix.sed /workspace/src/count.c
	# shellcheck disable=SC2086
	command=$("$BAILEY" exec --detach "$fork" -- $run_tests)
	tried="$tried $fork:$command:$(basename "$fix" .sed)"
done

kept=
for try in $tried; do
	IFS=: read -r fork command name <<<"$try"
	if "$BAILEY" wait "$fork" "$command"; then
		echo "$name: tests pass"
		kept=${kept:-$fork}
	else
		echo "$name: tests fail: $("$BAILEY" logs "$fork" "$command" | grep -c FAIL) of them"
	fi
done
if [ -z "$kept" ]; then
	echo "no fix passes its tests" >&2
	exit 1
fi

echo "== what the kept fork changed, and then the project itself"
"$BAILEY" diff --workspace "$kept"
"$BAILEY" apply --yes "$kept" "$project"
"$BAILEY" run --workspace "$project" -- make --silent --directory=/workspace test O=/tmp/out
