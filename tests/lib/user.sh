# shellcheck shell=bash
# A normal user for the shell suites that root starts: made when there is none, with a copy of what
# the suites need and a cgroup of its own.  Sourced behind tap.sh; needs root (the tree).

test_user=bailey-test made_user='' user_dir='' cgroup_name=''

# Sets and exports BAILEY, the built program.
find_bailey() {
	BAILEY=$(realpath "${BAILEY:-${BAILEY_STAGE:-$root/build/stage}/bin/bailey}")
	[ -x "$BAILEY" ] || {
		echo "no bailey at '$BAILEY'; './dev build' makes it" >&2
		exit 2
	}
	export BAILEY
}

# The tree may lie where the user can't read it.
prepare_user() {
	if ! id "$test_user" >/dev/null 2>&1; then
		useradd --create-home --shell /bin/sh "$test_user"
		made_user=1
	fi
	user_dir=$(mktemp -d /var/tmp/bailey-user.XXXXXX)
	mkdir -p "$user_dir/src/base" "$user_dir/tests" "$user_dir/build"
	cp -a "$root/tests/cli" "$root/tests/leak" "$root/tests/lib" "$user_dir/tests/"
	cp "$root/src/base/reasons.def" "$user_dir/src/base/"
	cp -a "$(dirname "$BAILEY")/.." "$user_dir/build/stage"
	chown -R "$test_user:" "$user_dir"
	cgroup_name=bailey-test-$$
}

# A subshell: where there is cgroup v2 alone, the shell that asks is moved into the new cgroup.
run_as_user() ( # COMMAND...
	line=$("$root/tools/delegate.sh" up "$test_user" "$cgroup_name")
	cd "$user_dir" || exit
	exec runuser -u "$test_user" -- env -i PATH="$PATH" LANG=C.UTF-8 USER="$test_user" \
		HOME="$(getent passwd "$test_user" | cut -d: -f6)" LOGNAME="$test_user" "$line" \
		BAILEY="$user_dir/build/stage/bin/bailey" BAILEY_TEST_GIB="${BAILEY_TEST_GIB:-1}" \
		BAILEY_LEAK_INSIDE="${BAILEY_LEAK_INSIDE:-}" "$@"
)

drop_user() {
	[ -z "$cgroup_name" ] || "$root/tools/delegate.sh" down "$test_user" "$cgroup_name" || true
	[ -z "$user_dir" ] || rm -rf "$user_dir"
	[ -z "$made_user" ] || userdel -r "$test_user" >/dev/null 2>&1 || true
}

# Prints the log of another run of a suite but for its last line, which is added to our sums.
add_log() { # WHO FILE
	local sums='^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$'
	grep -vE "$sums" "$2" || true
	if [[ $(tail -n 1 "$2") =~ $sums ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		skipped=$((skipped + BASH_REMATCH[3]))
	else
		not_ok "$1: the suite ran to its end" "$(tail -n 3 "$2")"
	fi
}
