#!/usr/bin/env bash
# Runs inside the guest, as root or as a user: every limit of `bailey run` where cgroup v2 has all controllers.
# What the workload measures comes back as its exit status, so that nothing depends on how its output is passed on.
set -eu
. "$(dirname "$0")/lib.sh"

mib=$((1 << 20))

allocate='
import sys
x = b"x" * (int(sys.argv[1]) << 20)
'
# exit status: how many children could be forked, at most 60
fork='
import os, sys, time
n = 0
try:
    while n < 60:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        n += 1
except BlockingIOError:
    pass
os._exit(n)
'
# exit status: per cent of one CPU had during three seconds
spin='
import os, time
end = time.monotonic() + 3
while time.monotonic() < end:
    pass
os._exit(min(int(time.process_time() / 3 * 100), 120))
'

memory() {
	bailey_run run --json --memory 64m -- python3 -c "$allocate" 200
	check memory-reason json_is reason oom
	check memory-oom-killed json_is oom_killed true
	check memory-peak-at-limit json_between memory_peak_bytes $((48 * mib)) $((66 * mib))
	bailey_run run --json --memory 256m -- python3 -c "$allocate" 100
	check memory-within-limit is "$status" 0
	check memory-peak json_between memory_peak_bytes $((100 * mib)) $((140 * mib))
	check memory-no-oom json_is oom_killed false
}

# Needs a guest with swap, else it shows nothing: the same limit with swap lets the same allocation pass.
swap() {
	local manager=--system

	[ "$(id -u)" -eq 0 ] || manager=--user
	if ! systemd-run "$manager" --scope --quiet -p MemoryMax=64M \
		python3 -c "$allocate" 100 >"$scratch/out" 2>"$scratch/err"; then
		not_ok "swap control: the allocation does not pass with swap"
		return
	fi
	bailey_run run --json --memory 64m -- python3 -c "$allocate" 100
	check swap-is-zero json_is reason oom
}

pids() {
	bailey_run run --json --pids 20 -- python3 -c "$fork"
	check pids-limited between "$status" 15 19
	check pids-peak json_between pids_peak 16 24
	bailey_run run --json --pids 100 -- python3 -c "$fork"
	check pids-control is "$status" 60
	check pids-peak-control json_between pids_peak 61 66
}

cpu() {
	bailey_run run --cpus 0.25 -- python3 -c "$spin"
	check cpu-limited between "$status" 10 40
	bailey_run run --cpus 1 -- python3 -c "$spin"
	check cpu-control between "$status" 60 120
}

no_sleeper() {
	! pgrep -f "^sleep $1\$" >/dev/null
}

deadline() {
	bailey_run run --json --timeout 3s -- sh -c 'setsid sleep 7771 & sleep 7772'
	check timeout-status is "$status" 124
	check timeout-reason json_is reason timeout
	check timeout-when between "$seconds" 2.9 15
	check timeout-nothing-lives soon 5 no_sleeper '777[12]'
}

# What the kernel itself says about the workload's cgroup while it runs.
kernel_view() {
	local owner pid='' dir

	"$bailey" run --memory 96m --pids 40 --cpus 0.5 -- sleep 8881 >"$scratch/out" 2>"$scratch/err" </dev/null &
	owner=$!
	soon 20 pgrep -f '^sleep 8881$' >/dev/null || true
	pid=$(pgrep -f '^sleep 8881$' | head -n 1)
	if [ -z "$pid" ]; then
		not_ok "kernel-view: the command does not run"
		return
	fi
	dir=$(limited_dir "$(cut -d: -f3 "/proc/$pid/cgroup")")
	echo "# cgroup: $dir"
	check kernel-memory is "$(cat "$dir/memory.max")" $((96 * mib))
	check kernel-swap is "$(cat "$dir/memory.swap.max")" 0
	check kernel-pids between "$(cat "$dir/pids.max")" 40 44
	check kernel-cpu is "$(awk '{ print $1 / $2 }' "$dir/cpu.max")" 0.5
	[ "$(id -u)" -eq 0 ] || check kernel-delegated grep -q "/user@$(id -u).service/" "/proc/$pid/cgroup"
	check kernel-dir-has-id soon 1 some_sandbox_dir
	kill -9 "$owner"
	wait "$owner" 2>/dev/null || true
	check owner-killed-command-gone soon 5 no_sleeper 8881
}

# The nearest cgroup at or above a path that has a memory limit.
limited_dir() {
	local dir=/sys/fs/cgroup$1

	while [ "$dir" != /sys/fs/cgroup ] && [ "$(cat "$dir/memory.max")" = max ]; do
		dir=${dir%/*}
	done
	echo "$dir"
}

# Directories that carry a sandbox's id.
sandbox_dirs() {
	find /sys/fs/cgroup -type d -regextype posix-extended -regex '.*/[^/]*b[0-9a-f]{16}[^/]*' 2>/dev/null
}

some_sandbox_dir() {
	[ -n "$(sandbox_dirs)" ]
}

no_sandbox_dir() {
	[ -z "$(sandbox_dirs)" ] || { sandbox_dirs; return 1; }
}

status_passed_on() {
	bailey_run run -- sh -c 'exit 7'
	check status is "$status" 7
	bailey_run run --json -- true
	check json-ok is "$status" 0
	check json-pids-peak json_between pids_peak 1 6
	bailey_run run --unlimited -- true
	check unlimited is "$status" 0
}

status_passed_on
memory
swap
pids
cpu
deadline
kernel_view
bailey_run run -- true # sweeps what the killed owner left
check after-kill-next-run is "$status" 0
check nothing-left soon 5 no_sandbox_dir
finish
