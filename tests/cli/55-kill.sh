# shellcheck shell=bash
# Topic of run.sh: Bailey itself killed at any moment leaves nothing that runs and nothing that is
# mounted.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

mkdir "$T/w/killed"
before=$(wc -l </proc/self/mountinfo)
killed() { # NAME COUNT MS WORD...
	local name=$1 count=$2 ms=$3 left worst
	shift 3
	new_mark
	read -r left worst < <(MARK=$mark perl "$here/kill.pl" "$count" "$ms" "$BAILEY" run "$@" \
		"$mark" 2>"$T/err") || true
	is "$name, killed $count times: nothing runs on" 0 "$left"
	holds "$name: all was gone at once" [ "${worst:-9999}" -lt 1000 ]
}
killed 'a run' 100 20 -- sleep 60
killed 'a run with a workspace' 60 20 "${rw[@]}" --workspace "$T/w/killed:rw" -- sleep 60
killed 'a run without limits' 40 20 --unlimited --timeout 1h -- sleep 60
killed 'a busy run' 10 150 --json -- sh -c 'trap "" TERM HUP; (sleep 60 &) & yes'
is 'no mount is left' "$before" "$(wc -l </proc/self/mountinfo)"
n=$(cgroups | wc -l)
holds "there were cgroups to sweep" [ "$n" -gt 0 ]
expect_rc 0 'the next run' -- run -- true
is 'it swept the cgroups of the dead' '' "$(cgroups)"
new_mark
start "$BAILEY" run -- sleep 60 "$mark"
until_true 50 is_marked "$mark" '^sleep$' || true
expect_rc 0 'a run beside a living one' -- run -- true
holds 'sweeps nothing that lives' is_marked "$mark" '^sleep$'
holds 'nor its cgroup' [ -n "$(cgroups)" ]
kill -TERM "$bg"
finish_bg 10
is 'no cgroup is left' '' "$(cgroups)"
