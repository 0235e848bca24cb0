#!/usr/bin/env bash
# A Debian source package of some size builds and passes its own tests inside a sandbox.
#   tests/agents/package-build.sh                BAILEY names the program
# The package is xz-utils: about 30,000 lines of C without comments, and it needs no more than gcc
# and make.  It is fetched outside by apt, which checks the archive's signature, with private
# lists; the system's own sources stay as they are. The last line is 'N passed, N failed, N
# skipped'.
# shellcheck disable=SC2016,SC2317 # the formats are for apt and perl; the steps are called through step
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd -P)
BAILEY=${BAILEY:-$top/build/stage/bin/bailey}
package=xz-utils
least_lines=20000
# shellcheck source=tools/need.sh
. "$top/tools/need.sh"

work=$(mktemp -d)
delegated=
cleanup() {
	[ -z "$delegated" ] || "$top/tools/delegate.sh" down "$(id -un)" "$delegated" || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
passed=0
failed=0
workspace_flags=()
[ "$(id -u)" -ne 0 ] || workspace_flags=(--root-workspace)

# step NAME COMMAND...: what it prints goes to a log, whose end is shown when it fails; the next
# steps then can't go on.
step() {
	local name=$1 start=$SECONDS
	shift
	if "$@" >"$work/log" 2>&1; then
		echo "ok $name ($((SECONDS - start)) s)"
		passed=$((passed + 1))
	else
		echo "not ok $name ($((SECONDS - start)) s)"
		tail -n 30 "$work/log" | sed 's/^/# /'
		failed=$((failed + 1))
		finish
	fi
}

finish() {
	echo "$passed passed, $failed failed, 0 skipped"
	[ "$failed" -eq 0 ]
	exit
}

private_apt() {
	apt-get -q -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$work/apt/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$work/apt" \
		-o APT::Sandbox::User="$(id -un)" "$@"
}

# The system's mirrors, as source entries.
fetch() {
	mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/download"
	apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)' |
		awk '$1 == "Packages" && $4 == "main" { print "deb-src", $2, $3, $4 }' | sort -u >"$work/apt/sources.list"
	private_apt update
	(cd "$work/download" && private_apt source --download-only "$package")
	mkdir "$work/source"
	tar -xJf "$work"/download/*.orig.tar.xz -C "$work/source" --strip-components=1
}

# Lines of C that are neither blank nor comment.
count_lines() {
	find "$work/source" -name '*.[ch]' -exec cat {} + >"$work/all.c"
	perl -0777 -ne 's{/\*.*?\*/}{}gs; s{//[^\n]*}{}g; print scalar(grep { /\S/ } split /\n/), "\n"' \
		"$work/all.c" >"$work/lines"
	cat "$work/lines"
	[ "$(cat "$work/lines")" -ge "$least_lines" ]
}

inside() {
	"$BAILEY" run --workspace "$work/source:rw" "${workspace_flags[@]}" --memory 2g --cpus 2 --pids 512 \
		--tmp-size 256m --timeout 10m -- "$@" </dev/null
}

# automake's summary: every test is counted, so that none is left out in silence.
tests_passed() {
	local total pass
	inside make check >"$work/check" 2>&1 || {
		cat "$work/check"
		return 1
	}
	total=$(sed -n 's/^# TOTAL: *//p' "$work/check" | awk '{ n += $1 } END { print n + 0 }')
	pass=$(sed -n 's/^# PASS: *//p' "$work/check" | awk '{ n += $1 } END { print n + 0 }')
	grep '^# [A-Z]*:' "$work/check"
	[ "$total" -gt 0 ] && [ "$pass" -eq "$total" ]
}

built_program_works() {
	# the archive was made by the host's xz, and is read by the one just built
	cp "$work"/download/*.orig.tar.xz "$work/source/sample.xz"
	inside sh -c './src/xz/xz --version && ./src/xz/xz --test sample.xz'
}

all_mine() {
	find "$work/source" ! \( -uid "$(id -u)" -gid "$(id -g)" \) -o -perm /6000 | tee "$work/foreign"
	[ ! -s "$work/foreign" ]
}

need_packages gcc libc6-dev make xz-utils
if "$top/tools/delegate.sh" needed; then
	delegated=bailey-package-$$
	line=$("$top/tools/delegate.sh" up "$(id -un)" "$delegated")
	export "${line?}"
fi
step "fetch $package" fetch
step "at least $least_lines lines of C" count_lines
echo "# $(basename "$work"/download/*.dsc .dsc): $(cat "$work/lines") lines of C"
step "configure inside" inside ./configure --disable-dependency-tracking
step "make inside" inside make -j2
step "make check inside" tests_passed
echo "# $(sed -n 's/^# PASS: */own tests passed: /p' "$work/check" | tail -n 1)"
step "the built program works inside" built_program_works
step "all files belong to the caller, none is setuid" all_mine
finish
