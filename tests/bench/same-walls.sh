#!/usr/bin/env bash
# usage: tests/bench/same-walls.sh
# Holds bailey-floor, by which `bailey bench` measures, to the walls that `bailey run` has: neither more nor less.  What a
# program sees inside the two is compared (mounts, ids, rights, limits, files, namespaces), and what only the system calls
# tell (filter, Landlock, keyring, cgroups and their limits).  Runs as whoever calls it; as root and as a normal user the walls
# differ, so both are worth a run.
set -eu
export LC_ALL=C

bailey=${BAILEY:-$(cd "$(dirname "$0")/../.." && pwd -P)/build/stage/bin/bailey}
libexec=$(dirname "$bailey")/../libexec/bailey
passed=0 failed=0 skipped=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

ok() {
	echo "ok $1"
	passed=$((passed + 1))
}

not_ok() {
	echo "not ok $1"
	failed=$((failed + 1))
}

finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
	exit
}

# same NAME: $dir/bailey.NAME and $dir/floor.NAME must be equal, and say something.
same() {
	if [ ! -s "$dir/bailey.$1" ]; then
		not_ok "$1 (nothing found for bailey)"
	elif diff -u "$dir/bailey.$1" "$dir/floor.$1" >"$dir/diff" 2>&1; then
		ok "$1 ($(wc -l <"$dir/bailey.$1") lines alike)"
	else
		not_ok "$1 (-bailey +floor)"
		sed -n '3,40p' "$dir/diff"
	fi
}

traced() {
	local out=$1
	shift
	strace -f -y -v -s 256 -o "$out" \
		-e trace=clone,clone3,unshare,seccomp,landlock_create_ruleset,landlock_restrict_self,keyctl,prctl,setsid,mkdirat,write,sethostname,ioctl,pivot_root,umount2 \
		"$@" </dev/null >"$dir/out" 2>&1
}

# The cgroups that a trace shows being made: one parent a line, in order.
parents() {
	sed -nE 's/.*mkdirat\([0-9]+<([^>]*)>, "bailey-[^"]*", 0755\) = 0.*/\1/p;
		s/.*mkdirat\([0-9]+<([^>]*)>, "bailey-[^"]*", 0755 <unfinished.*/\1/p' "$1"
}

# --- what the system calls say ---------------------------------------------------------------------------------------

# Names of cgroups and numbers of processes differ from run to run; whether a call was interrupted in the trace does not count.
calls() {
	sed -E 's/^[0-9]+ +//; s/ <unfinished \.\.\.>.*//; s/\) += .*//; s/\($//; s/bailey-[0-9a-z.-]*[0-9]/NAME/g' "$1"
}

facts() {
	local who=$1 trace=$dir/$1.trace
	calls "$trace" >"$dir/$who.calls"
	grep -E '^(clone3?|unshare)\(' "$dir/$who.calls" | grep -oE 'CLONE_NEW[A-Z]+' | sort >"$dir/$who.namespaces"
	grep -E '^seccomp\(SECCOMP_SET_MODE_FILTER' "$dir/$who.calls" >"$dir/$who.filter"
	grep -E '^landlock_' "$dir/$who.calls" | grep -v LANDLOCK_CREATE_RULESET_VERSION |
		sed -E 's/\([0-9]+<[^>]*>/(FD/' >"$dir/$who.landlock" || true
	grep -E '^(keyctl|setsid|sethostname)' "$dir/$who.calls" | sort -u >"$dir/$who.session"
	grep -E '^prctl\(PR_(SET_SECUREBITS|SET_NO_NEW_PRIVS|SET_PDEATHSIG)' "$dir/$who.calls" | sort -u >"$dir/$who.rights"
	grep -E '^ioctl\(.*SIOCSIFFLAGS' "$dir/$who.calls" | sed -E 's/\([0-9]+<[^>]*>/(FD/' >"$dir/$who.loopback"
	grep -E '^(pivot_root|umount2)\(' "$dir/$who.calls" >"$dir/$who.pivot"
	# a period of 100 ms is what a new cgroup has by itself
	sed -nE 's/^write\([0-9]+<([^>]*\/NAME\/[^>]*)>, "([^"]*)".*/\1 \2/p' "$dir/$who.calls" |
		grep -vE '/(cgroup\.procs|tasks) |/cpu\.cfs_period_us 100000$' | sort >"$dir/$who.limits" || true
	{
		sed -nE 's/^write\([0-9]+<([^>]*\/NAME)\/(cgroup\.procs|tasks)>.*/joins \1/p' "$dir/$who.calls"
		grep -oE 'CLONE_INTO_CGROUP' "$dir/$who.calls" || true
	} | sort >"$dir/$who.joins"
}

# --- what a program inside sees --------------------------------------------------------------------------------------

# Run by sh inside both; $1: the host's namespaces.
# shellcheck disable=SC2016 # for the shell inside
view='
echo "== mounts"
awk "{ dash = 0; for (i = 7; i <= NF; i++) if (\$i == \"-\") dash = i
	print \$5, \$4, \$6, \$(dash + 1), \$(dash + 3) }" /proc/self/mountinfo | sed -E "s/(uid|gid)=[0-9]{6,}/\1=BASE/g" | sort
echo "== ids"
awk "{ print FILENAME, \$1, \$3 }" /proc/self/uid_map /proc/self/gid_map
cat /proc/self/setgroups
id
echo "== status"
grep -E "^(Umask|Uid|Gid|Groups|SigBlk|SigIgn|Cap[A-Za-z]*|NoNewPrivs|Seccomp|Seccomp_filters|TracerPid):" /proc/self/status
echo "== rlimits"
cat /proc/self/limits
echo "== namespaces"
for n in $1; do
	name=${n%%:*}
	[ "$n" = "$(readlink "/proc/self/ns/$name")" ] && echo "$name shared" || echo "$name own"
done
cat /proc/self/cgroup
echo "== network"
sed "s/:.*//" /proc/net/dev
cat /proc/net/if_inet6
echo "== environment"
env | grep -vE "^(PWD|SHLVL|_|OLDPWD)=" | sort
pwd
uname -n
ls /proc/self/fd | head -n 3
echo "== files"
ls -lan / /dev /run /run/empty /tmp /home /home/agent /dev/shm /etc 2>&1 |
	awk "NF >= 9 { print \$1, \$3, \$4, \$9, \$10, \$11, \$12 } NF < 9 && !/^total/"
for f in passwd group hosts hostname nsswitch.conf; do cat "/etc/$f"; done
wc -c </etc/machine-id
'

split_view() {
	awk -v base="$dir/$1." '/^== / { out = base "view-" $2; next } { print >out }' "$dir/$1.view"
}

host_namespaces() {
	local n
	for n in user mnt pid net ipc uts cgroup; do
		readlink "/proc/self/ns/$n"
	done | tr '\n' ' '
}

main() {
	local dirs=() p aspect
	if ! command -v strace >/dev/null; then
		echo "skip same-walls strace is not installed"
		skipped=$((skipped + 1))
		finish
	fi
	if ! traced "$dir/bailey.trace" "$bailey" run -- /usr/bin/true; then
		not_ok "bailey run under strace: $(head -n 2 "$dir/out" | tr '\n' ' ')"
		finish
	fi
	while read -r p; do
		dirs+=(--cgroup "$p")
	done < <(parents "$dir/bailey.trace")
	[ ${#dirs[@]} -gt 0 ] || not_ok "bailey run made no cgroup"
	if ! traced "$dir/floor.trace" "$libexec/bailey-floor" "${dirs[@]}" /usr/bin/true; then
		not_ok "bailey-floor under strace: $(head -n 2 "$dir/out" | tr '\n' ' ')"
		finish
	fi
	facts bailey
	facts floor
	for aspect in namespaces filter landlock session rights loopback pivot limits joins; do
		# a kernel without Landlock's scopes gives neither of the two any
		[ $aspect != landlock ] || [ -s "$dir/bailey.landlock" ] || [ -s "$dir/floor.landlock" ] || {
			echo "skip landlock this kernel has no scopes"
			skipped=$((skipped + 1))
			continue
		}
		same "$aspect"
	done
	"$bailey" run -- /bin/sh -c "$view" sh "$(host_namespaces)" </dev/null >"$dir/bailey.view" 2>&1 || true
	"$libexec/bailey-floor" "${dirs[@]}" /bin/sh -c "$view" sh "$(host_namespaces)" </dev/null >"$dir/floor.view" 2>&1 || true
	split_view bailey
	split_view floor
	for aspect in mounts ids status rlimits namespaces network environment files; do
		same "view-$aspect"
	done
	finish
}

main
