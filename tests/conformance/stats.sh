# shellcheck shell=bash
# Behaviour of run.sh: stats: what a sandbox uses.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --memory 512m
bailey exec "$sb" -- sh -c 'head -c 8000000 /dev/zero >/workspace/f
	i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done'
detach sleep 100
bailey stats "$sb" --json
is 'status' 0 "$rc"
flat=$(flat "$T/out")
number() { # KEY
	sed -n "s/^\(0\.\)\{0,1\}$1	number	//p" <<<"$flat"
}
between 'processor time' 10000 60000000 "$(number cpu_us)"
between 'memory' 1000000 $((512 << 20)) "$(number memory_bytes)"
# gVisor's own threads are counted too
between 'processes' 1 "$([ "$engine" = gvisor ] && echo 200 || echo 20)" "$(number pids)"
between 'disk' 8000000 20000000 "$(number disk_used_bytes)"
bailey stats "$sb"
like 'as text' '*[0-9]*' "$(cat "$T/out")"
rc=0
timeout -s INT 3 "$BAILEY" stats "$sb" --follow >"$T/out" 2>"$T/err" </dev/null || rc=$?
between '--follow: a line a second' 2 6 "$(wc -l <"$T/out")"
bailey stats nobody
refused "$(rc_of sandbox_not_found)" sandbox_not_found 'an unknown sandbox'
