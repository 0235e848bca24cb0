#!/usr/bin/env bash
# Runs inside the guest as whoever is logged in: suites.sh SUITE [ARGUMENT].  run.sh says which suites run as whom.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

# What doctor says on a host where all is well.
suite_doctor() {
	bailey_run doctor
	sed 's/^/# /' "$scratch/out"
	check status is "$status" 0
	bailey_run doctor --json
	check json json_object
	finish
}

suite_limits() {
	exec "$here/limits.sh"
}

suite_escape() {
	exec "$here/../escape/run.sh" --bailey "$bailey"
}

# What the suites below need of this machine: where things are, and that an emulated CPU is ten times slower.
slow() {
	export BAILEY=$bailey BAILEY_BUILD=/opt/src/build BAILEY_TEST_SLOW=3 BAILEY_TEST_CLIENTS=20
	cd
}

# Left out: what is about speed and size alone, is the same on every kernel and takes minutes here; and the
# behaviours that need a compiler.
suite_conformance() {
	local names

	slow
	mapfile -t names < <(cd "$here/../conformance" && printf '%s\n' *.sh | sed -E 's/\.sh$//
		/^(run|lib|one|changes-bounded|many-files|killed-at-each-step|three-ways)$/d')
	exec "$here/../conformance/run.sh" --jobs 2 "${names[@]}"
}

# One behaviour for each thing that a layer in a file does otherwise than one in memory.
suite_disk() {
	slow
	exec "$here/../disk/run.sh" create stop-start disk-full diff fork-running fork-stopped fork-chain snapshot owner-killed
}

suite_hostile() {
	slow
	exec "$here/../hostile-guest/run.sh" --jobs 2
}

suite_launcher() {
	slow
	exec "$here/../launcher/run.sh"
}

suite_leak() {
	slow
	exec "$here/../leak/living.sh" 60
}

# Debian has AppArmor on: sandboxes work beneath it (the other suites), unconfined by any profile; and the profile that
# doctor.md gives for other hosts can be read by a parser that knows its rules.
suite_apparmor() {
	local new=/opt/newer

	check enabled grep -qx Y /sys/module/apparmor/parameters/enabled
	bailey_run run -- cat /proc/self/attr/apparmor/current
	check unconfined is "$(cat "$scratch/out")" unconfined
	sed -n '/^  ```$/,/^  ```$/{/```/d;p}' "$here/../../docs/doctor.md" >"$new/profile"
	check profile-found grep -q '^ *profile bailey ' "$new/profile"
	check profile-parses chroot "$new" /usr/sbin/apparmor_parser -Q -K /profile
	sed -i 's/userns,/usernz,/' "$new/profile"
	check parser-refuses-another not chroot "$new" /usr/sbin/apparmor_parser -Q -K /profile
	finish
}

not() {
	! "$@"
}

# The first commands in a home race for the unit of the user's manager: each gets its cgroup, and below that unit.
suite_unit() {
	local i k n pids dirs app

	app=/sys/fs/cgroup/user.slice/user-$(id -u).slice/user@$(id -u).service/app.slice
	for i in 1 2 3 4 5 6; do
		export BAILEY_HOME=$scratch/home-$i
		mkdir "$BAILEY_HOME"
		pids=() n=0
		for k in 1 2 3; do
			"$bailey" create --name "s$k" >"$scratch/out" 2>>"$scratch/err" </dev/null &
			pids+=("$!")
		done
		for k in "${pids[@]}"; do
			wait "$k" || n=$((n + 1))
		done
		check "first-commands-$i" is "$n" 0
		dirs=$(find "$app" -mindepth 1 -maxdepth 1 -type d -name 'bailey-*' ! -name '*.service')
		check "below-the-unit-$i" is "$dirs" ''
		bailey_run rm --force s1 s2 s3
	done
	finish
}

# A login without lingering has a user manager as long as it lasts; Bailey asks it for a scope.
suite_session() {
	check cgroup-is-roots test ! -w "/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cgroup.procs"
	bailey_run run --json -- true
	check run is "$status" 0
	check limits json_between memory_peak_bytes 1 $((256 << 20))
	finish
}

# As root, for a user without session and manager: no limits can be had, so the run is refused.
suite_refusal() {
	local uid

	uid=$(id -u plain)
	check no-manager soon 20 test ! -d "/run/user/$uid"
	bailey=$scratch/as-plain
	printf '#!/bin/sh\ncd / && exec setpriv --reuid %s --regid %s --init-groups --reset-env %s "$@"\n' \
		"$uid" "$uid" /opt/bailey/bin/bailey >"$bailey"
	chmod 755 "$bailey"
	bailey_run run --json -- true
	check status is "$status" 125
	check reason json_is reason resource_limits_unenforced
	check remedy json remedy
	bailey_run run --unlimited -- true
	check unlimited is "$status" 0
	finish
}

# A setting that forbids user namespaces is in force: Bailey must name it.
suite_userns() {
	local setting=$1

	if unshare --user --map-root-user true 2>"$scratch/err"; then
		not_ok "control: user namespaces work with $setting=0"
		finish
		return
	fi
	bailey_run run --json --unlimited -- true
	check status is "$status" 125
	check reason json_is reason userns_unavailable
	check named grep -qF "$setting" <(json message; json remedy)
	bailey_run doctor
	sed 's/^/# /' "$scratch/out"
	check doctor-status is "$status" 1
	check doctor-names-it grep -qF "$setting" "$scratch/out"
	finish
}

suite=$1
shift
"suite_$suite" "$@"
