# shellcheck shell=bash
# Behaviour of run.sh: files that are more than the sandbox's memory: what would hold them is refused, or is full before the
# memory is; the sandbox goes on.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --memory 64m
kind=$(fact disk_kind)
if [ "$kind" != tmpfs ]; then
	bailey rm --force "$sb"
	skip 'memory' 'the layer is none of the sandbox'\''s memory'
	return
fi
head -c 200000000 /dev/zero >"$T/f"
for place in /workspace /tmp /dev/shm; do
	limit=25 bailey cp "$T/f" "$sb:$place/f"
	refused "$(rc_of disk_full)" disk_full "cp to $place says so"
done
is 'half of the memory' $((32 << 20)) "$(fact disk_bytes)"
like 'it goes on' running "$(fact state)"
bailey exec "$sb" -- sh -c 'rm -f /workspace/f /tmp/f /dev/shm/f; head -c 20000000 /dev/zero >/workspace/g; echo lives'
is 'and holds what it may' lives "$(cat "$T/out")"
bailey rm --force "$sb"
is 'rm' 0 "$rc"

refuses value_out_of_range 'files over the memory' create --memory 64m --disk 400m
like 'the remedy names the option' '*--memory*' "$(cat "$T/err")"
refuses value_out_of_range 'a large /tmp' create --memory 64m --tmp-size 64m

# A directory of the host that is memory takes what it gets, and counts: then the guest has none left, and its end says why.
[ "$(id -u)" -eq 0 ] || return 0 # only root mounts one
mkdir "$T/memory"
mount -t tmpfs -o size=300m tmpfs "$T/memory"
trap 'umount "$T/memory" 2>/dev/null || true; cd /; stop_all; rm -rf "$T"' EXIT
bailey create --memory 64m --workspace "$T/memory:rw" --root-workspace
if says idmap_unsupported; then
	# of a tmpfs before Linux 6.3
	umount "$T/memory"
	return
fi
sb=$(cat "$T/out")
is 'a sandbox on memory of the host' 0 "$rc"
limit=25 bailey cp "$T/f" "$sb:/workspace/f"
refused "$(rc_of oom)" oom 'no memory is left: cp says so'
like 'the remedy names the option' '*--memory*' "$(cat "$T/err")"
is 'inspect has the reason' oom "$(fact exit_reason)"
bailey rm --force "$sb"
is 'rm of what ended' 0 "$rc"
umount "$T/memory"
