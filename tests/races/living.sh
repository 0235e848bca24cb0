#!/usr/bin/env bash
# usage: tests/races/living.sh [ROUNDS [SECONDS]]
# The races of run.sh for what reads trees in programs of its own: `image import` of a directory, a boot with a mount below a
# workspace, `diff` and `apply` of a copy-on-write workspace that the host changes, and of a sandbox whose commands change
# it.  A round is one run of the verb over ten directories that are exchanged for links: ROUNDS (10000) of each, or as many
# as SECONDS (4) allow.  The control looks first and opens then: it must lose each race.  run.sh calls this; BAILEY or the
# staged program is used.
# Needs bash, coreutils, tar and perl-base.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/user.sh"

rounds=${1:-10000} seconds=${2:-4} n=10 count=0 well=0 leaked=''
find_bailey
T=$(mktemp -d /var/tmp/bailey-races.XXXXXX)
export BAILEY_HOME=$T/home
rw=()
[ "$(id -u)" -ne 0 ] || rw=(--root-workspace)

cleanup() {
	cd /
	stop_all
	[ ! -d "$T/home/sandbox" ] || "$BAILEY" ls --all --json | grep -o '"id":"[^"]*"' | cut -d '"' -f 4 |
		xargs -r "$BAILEY" rm --force >/dev/null 2>&1 || true
	rm -rf "$T"
}
trap cleanup EXIT

# Directories, and beside each a link to TARGET.
plant() { # DIR TARGET
	local i
	for ((i = 0; i < n; i++)); do
		mkdir -p "$1/d$i"
		echo inside >"$1/d$i/f"
		ln -s "$2" "$1/d$i.link"
	done
}

# Runs one round after the other; each says what it read on standard output.
race() { # NAME FUNCTION
	local began=$SECONDS
	count=0 well=0 leaked=''
	while [ "$count" -lt "$rounds" ] && [ $((SECONDS - began)) -lt "$seconds" ] && [ -z "$leaked" ]; do
		rc=0
		"$2" >"$T/read" 2>"$T/err" </dev/null || rc=$?
		[ "$rc" -ne 0 ] || well=$((well + 1))
		if [ "$rc" -ne 0 ] && ! grep -qE '\[[a-z_]+\]$' "$T/err"; then
			leaked="no reason: $(head -c 300 "$T/err")"
		fi
		! grep -aqE 'd[0-9](\.link)?/SECRET|SECRET-INSIDE-OF-IT' "$T/read" || leaked=$(grep -aE 'SECRET' "$T/read" | head -n 3)
		count=$((count + 1))
	done
	is "$1: nothing outside was read" '' "$leaked"
	echo "# $1: $count rounds, $((count - well)) with an error"
	between "$1: rounds" 5 "$rounds" "$count"
}

control() { # NAME DIR
	between "control-$1" 1 1000000000 "$(perl "$here/naive.pl" "$2" "$n" SECRET 30)"
}

import_round() {
	local status=0
	"$BAILEY" image import "$T/tree" --name race --replace >/dev/null || status=$?
	(cd "$T/home/images/trees" 2>/dev/null && find . -name '*SECRET*' -print && grep -rhs SECRET-INSIDE-OF-IT .) || true
	return "$status"
}

mkdir "$T/outside"
echo SECRET-INSIDE-OF-IT >"$T/outside/SECRET-NAME"
mkdir -p "$T/tree/bin"
cp "$(dirname "$BAILEY")/../libexec/bailey/bailey-guest" "$T/tree/bin/sh"
plant "$T/tree" "$T/outside"
start perl "$here/swap.pl" "$T/tree" "$n"
race 'image import' import_round
control 'image import' "$T/tree"
stop_all

# a workspace whose names another sandbox may exchange while a mount goes below it
boot_round() {
	"$BAILEY" run --workspace "$T/boot:rw" "${rw[@]}" --mount "$T/source:/workspace/d$((count % n))" -- \
		sh -c 'cat /workspace/d?/SECRET-NAME /workspace/d?.link/SECRET-NAME /workspace/d?/f 2>/dev/null; true'
}

mkdir "$T/boot" "$T/source"
echo source >"$T/source/f"
plant "$T/boot" "$T/outside"
start perl "$here/swap.pl" "$T/boot" "$n"
race 'boot with a mount' boot_round
control 'boot with a mount' "$T/boot"
stop_all
is 'boot with a mount: nothing outside was made' SECRET-NAME "$(ls -A "$T/outside")"
is 'boot with a mount: nothing outside was written' SECRET-INSIDE-OF-IT "$(cat "$T/outside/SECRET-NAME")"

diff_round() {
	"$BAILEY" diff "$sb" "${cow[@]}" && "$BAILEY" apply "$sb" - | tar -tvf -
}

# what the directory had is listed as gone: it is read
mkdir "$T/cow"
plant "$T/cow" "$T/outside"
try "$BAILEY" create --workspace "$T/cow:cow" "${rw[@]}"
if [ "$rc" -ne 0 ] && says layer_unsupported; then
	skip 'diff of a workspace' 'this kernel has no overlay for a user'
else
	sb=$(cat "$T/out") cow=(--workspace)
	"$BAILEY" exec "$sb" -- sh -c "for d in d?; do rm -r \$d; mkdir \$d; echo new >\$d/new; done"
	diff_round >"$T/read"
	is 'diff of a workspace: it sees what is gone' "$n" "$(grep -c '^D d[0-9]/f$' "$T/read")"
	start perl "$here/swap.pl" "$T/cow" "$n"
	race 'diff of a workspace' diff_round
	control 'diff of a workspace' "$T/cow"
	stop_all
	"$BAILEY" rm --force "$sb"
fi

# links that would lead to the host's files, or beside the directory, as the worker sees them
try "$BAILEY" create
sb=$(cat "$T/out") cow=()
perl -e 'local $/; open my $f, "<", $ARGV[0]; print <$f>' "$here/swap.pl" | "$BAILEY" exec -i "$sb" -- sh -c '
	cat >"$HOME/swap.pl"; mkdir -p outside; echo SECRET-INSIDE >outside/SECRET-NAME; mkdir d0 d1 d2 d3 d4 d5 d6 d7 d8 d9
	for d in d?; do echo inside >$d/f; done
	for d in d0 d1 d2; do ln -s ../outside $d.link; done
	for d in d3 d4 d5; do ln -s "$0" $d.link; done
	for d in d6 d7; do ln -s "../../../../../../../../../..$0" $d.link; done
	for d in d8 d9; do ln -s ../workspace/outside $d.link; done' "$T/outside"
"$BAILEY" exec "$sb" --detach -- sh -c "exec perl \"\$HOME/swap.pl\" /workspace $n" >/dev/null
race 'diff of what commands exchange' diff_round
perl -e 'local $/; open my $f, "<", $ARGV[0]; print <$f>' "$here/naive.pl" >"$T/naive.pl"
"$BAILEY" cp "$T/naive.pl" "$sb:/workspace/naive.pl"
between 'control-diff of what commands exchange' 1 1000000000 \
	"$("$BAILEY" exec "$sb" -- perl /workspace/naive.pl /workspace "$n" SECRET 20)"
finish
