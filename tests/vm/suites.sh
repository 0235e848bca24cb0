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
