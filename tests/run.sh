#!/usr/bin/env bash
# usage: tests/run.sh [--strict] [SUITE...]
# Runs the suites of the table below in order, each under a deadline and with its output in build/logs/SUITE.log, and sums
# up.  A suite prints lines "ok NAME", "not ok NAME", "skip NAME REASON"; when its last line is "N passed, N failed,
# N skipped", that line counts.  --strict (CI) makes a skip that tests/allowed-skips.txt does not name a failure.
# './dev test' builds what the suites need and calls this.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"
export BAILEY_BUILD=${BAILEY_BUILD:-$root/build}
export BAILEY_LOGS=${BAILEY_LOGS:-$BAILEY_BUILD/logs}
export BAILEY_STAGE=${BAILEY_STAGE:-$BAILEY_BUILD/stage}
export BAILEY=${BAILEY:-$BAILEY_STAGE/bin/bailey}
test_user=bailey-test
made_user=
user_tree=
delegated=
cgroup_parent=
passed=0 failed=0 skipped=0
strict=

# name, runs as (self: whoever calls; user: a normal user, made for it when the caller is root), seconds, command
suites() {
	cat <<'END'
unit-gcc         self  120 tests/unit.sh unit-gcc release
unit-asan-gcc    self  240 tests/unit.sh unit-asan-gcc asan-gcc
unit-asan-clang  self  240 tests/unit.sh unit-asan-clang asan-clang
house            self  120 tests/house/run.sh
lint             self  900 tools/lint.sh
fuzz-replay      self  240 tools/fuzz.sh replay
cli              self  240 tests/cli/run.sh --here
cli-user         user  240 tests/cli/run.sh --here
library          self  120 tests/library/run.sh
library-user     user  120 tests/library/run.sh
images           self  600 tests/images/run.sh
images-user      user  600 tests/images/run.sh
docker-api       self  600 tests/docker/api.sh
docker-adopt     self  180 tests/docker/adopt.sh
docker-sweep     self  120 tests/docker/sweep.sh
docker-runtimes  self  200 tests/docker/runtimes.sh
escape           self  180 tests/escape/run.sh
escape-user      user  180 tests/escape/run.sh
walls            self   60 tests/bench/same-walls.sh
walls-user       user   60 tests/bench/same-walls.sh
profiles         self  120 tests/profiles/run.sh
profiles-user    user  120 tests/profiles/run.sh
conformance      self  240 tests/conformance/run.sh
conformance-user user  240 tests/conformance/run.sh
disk             self  240 tests/disk/run.sh
disk-user        user   60 tests/disk/run.sh
hostile-guest    self  300 tests/hostile-guest/run.sh
hostile-user     user  300 tests/hostile-guest/run.sh
two-users        self  150 tests/two-users/run.sh
launcher         self  180 tests/launcher/run.sh
leak             self  150 tests/leak/run.sh
leak-living      self  150 tests/leak/living.sh
leak-living-user user  150 tests/leak/living.sh
archives         self  120 tests/archives/run.sh
races            self  240 tests/races/run.sh
agents           self  420 tests/agents/run.sh
package-build    self  420 tests/agents/package-build.sh
vm               self  900 tests/vm/in-suite.sh
END
}

# The normal user gets a copy of the tree: a clone below /root is closed to it.
make_user() {
	[ -z "$user_tree" ] || return 0
	if ! id "$test_user" >/dev/null 2>&1; then
		useradd --create-home --shell /bin/sh "$test_user" || return 1
		made_user=1
	fi
	user_tree=$(mktemp -d /var/tmp/bailey-test.XXXXXX)
	tar -C "$root" --exclude=./.git --exclude=./build -cf - . | tar -C "$user_tree" -xf -
	mkdir -p "$user_tree/build"
	cp -a "$BAILEY_STAGE" "$user_tree/build/stage"
	if [ -d "$BAILEY_BUILD/release/tests" ]; then
		mkdir -p "$user_tree/build/release"
		cp -a "$BAILEY_BUILD/release/tests" "$user_tree/build/release/"
	fi
	chown -R "$test_user:" "$user_tree"
	delegate "$test_user"
}

# A normal user has limits only in a cgroup subtree of its own; where systemd gives none, root lends one for the run.
delegate() {
	[ -x tools/delegate.sh ] || return 0
	tools/delegate.sh up "$1" >"$BAILEY_LOGS/delegate.log" 2>&1 || {
		cat "$BAILEY_LOGS/delegate.log" >&2
		return 1
	}
	delegated=$1
	cgroup_parent=$(sed -n 's/^BAILEY_CGROUP_PARENT=//p' "$BAILEY_LOGS/delegate.log")
}

drop_user() {
	[ -z "$delegated" ] || tools/delegate.sh down "$delegated" >>"$BAILEY_LOGS/delegate.log" 2>&1 || true
	[ -n "$user_tree" ] || return 0
	rm -rf "$user_tree"
	[ -z "$made_user" ] || userdel -r "$test_user" >/dev/null 2>&1 || true
}
trap drop_user EXIT
trap 'exit 130' INT TERM

as_user() {
	local limit=$1
	shift
	make_user || return 1
	runuser -u "$test_user" -- env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 CI="${CI:-}" \
		HOME="$(getent passwd "$test_user" | cut -d: -f6)" USER="$test_user" LOGNAME="$test_user" \
		BAILEY_BUILD="$user_tree/build" BAILEY_LOGS="$user_tree/build/logs" \
		BAILEY_STAGE="$user_tree/build/stage" BAILEY="$user_tree/build/stage/bin/bailey" \
		${cgroup_parent:+BAILEY_CGROUP_PARENT="$cgroup_parent"} \
		sh -c 'cd "$1" && shift && exec "$@"' sh "$user_tree" timeout -k 10 "$limit" "$@"
}

as_self() {
	local limit=$1
	shift
	timeout -k 10 "$limit" "$@"
}

# Counts a log; the suite's own last line wins over the lines before it.
tally() {
	awk '
	/^ok / { ok++ }
	/^not ok / { bad++ }
	/^skip / { skip++ }
	NF { last = $0 }
	END {
		if (last ~ /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/) {
			split(last, f, " ")
			print f[1], f[3], f[5]
		} else {
			print ok + 0, bad + 0, skip + 0
		}
	}' "$1"
}

# Under --strict, each skip must be named in allowed-skips.txt as SUITE/NAME (its own SUITE/ prefix counts).
check_skips() {
	local suite=$1 log=$2 count=$3 unknown
	[ -n "$strict" ] && [ "$count" -gt 0 ] || return 0
	unknown=$(awk -v suite="$suite" -v count="$count" '
	FILENAME == ARGV[1] { if ($1 != "" && $1 !~ /^#/ && NF > 1) allowed[$1] = 1; next }
	/^skip / {
		name = $2
		sub("^" suite "/", "", name)
		named++
		if (!((suite "/" name) in allowed))
			print suite "/" name
	}
	END { if (named < count) print suite "/(" count - named " without a name)" }
	' tests/allowed-skips.txt "$log")
	[ -n "$unknown" ] || return 0
	echo "$unknown" | sed 's/^/  skip not in tests\/allowed-skips.txt: /'
	failed=$((failed + $(echo "$unknown" | wc -l)))
	return 1
}

show_failure() {
	local log=$1
	if grep -q '^not ok ' "$log"; then
		grep -A 40 '^not ok ' "$log" | grep -v '^ok ' | head -n 160 | sed 's/^/  /'
	else
		tail -n 40 "$log" | sed 's/^/  /'
	fi
	echo "  the whole output: $log"
}

missing_suite() {
	echo "skip $1 missing" | tee "$2"
	skipped=$((skipped + 1))
	check_skips "$1" "$2" 1 || true
}

run_suite() {
	local name=$1 who=$2 limit=$3 log=$BAILEY_LOGS/$1.log start=$SECONDS rc=0 p f s
	shift 3
	if [ ! -x "$1" ]; then
		missing_suite "$name" "$log"
		return 0
	fi
	[ "$(id -u)" -eq 0 ] || who=self
	"as_$who" "$limit" "$@" >"$log" 2>&1 </dev/null || rc=$?
	[ "$rc" -ne 124 ] && [ "$rc" -ne 137 ] || echo "not ok $name over its $limit s" >>"$log"
	read -r p f s <<<"$(tally "$log")"
	if [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then
		f=1
		echo "not ok $name exit status $rc" >>"$log"
	elif [ $((p + f + s)) -eq 0 ]; then
		f=1
		echo "not ok $name ran nothing" >>"$log"
	fi
	printf '%-16s %5d passed %3d failed %3d skipped %4d s\n' "$name" "$p" "$f" "$s" $((SECONDS - start))
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	[ "$f" -eq 0 ] || show_failure "$log"
	grep '^skip ' "$log" | sed 's/^/  /' || true
	check_skips "$name" "$log" "$s" || true
}

wanted() {
	local name=$1 w
	shift
	[ $# -gt 0 ] || return 0
	for w in "$@"; do
		[ "$w" != "$name" ] || return 0
	done
	return 1
}

main() {
	local name who limit command w
	if [ "${1:-}" = --strict ]; then
		strict=1
		shift
	fi
	for w in "$@"; do
		suites | grep -q "^$w " || {
			echo "tests/run.sh: no suite '$w'; there are:" >&2
			suites | awk '{ print "  " $1 }' >&2
			exit 2
		}
	done
	mkdir -p "$BAILEY_LOGS"
	if [ "$(id -u)" -ne 0 ] && [ -x tools/delegate.sh ] && tools/delegate.sh needed && sudo -n true 2>/dev/null; then
		delegate "$(id -un)"
		export BAILEY_CGROUP_PARENT="$cgroup_parent"
	fi
	while read -r name who limit command; do
		# shellcheck disable=SC2086 # the table's command is words
		! wanted "$name" "$@" || run_suite "$name" "$who" "$limit" $command
	done < <(suites)
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
}

main "$@"
