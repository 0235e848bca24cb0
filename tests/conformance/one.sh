#!/usr/bin/env bash
# usage: one.sh ENGINE BEHAVIOUR
# Runs one behaviour in a home of its own, then removes its sandboxes and looks for what is left.
# run.sh starts it below reaper.pl, which looks for processes.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/lib.sh"

# shellcheck disable=SC2034 # for the behaviours
engine=$1 behaviour=$2
section="$behaviour: " limit=30 began=${EPOCHREALTIME/[.,]/}
T=$(mktemp -d /var/tmp/bailey-conformance.XXXXXX)
export BAILEY_HOME=$T/home
# an engine that is ending may still write there
trap 'cd /; stop_all; rm -rf "$T" 2>/dev/null || { sleep 1 && rm -rf "$T"; }' EXIT
mkdir "$T/home" "$T/w"
cd "$T/w"
# shellcheck disable=SC1090 # one of the files beside this one
. "$here/$behaviour.sh"
cd /
stop_all
remove_all
nothing_left
echo "# $behaviour: $(((${EPOCHREALTIME/[.,]/} - began) / 100000)) tenths of a second"
finish >/dev/null
