# shellcheck shell=bash
# Behaviour of run.sh: files copied into a layer of memory that are more than the sandbox's memory: the end says so.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --memory 64m --disk 400m
head -c 200000000 /dev/zero >"$T/f"
limit=25 bailey cp "$T/f" "$sb:/workspace/f"
if [ "$rc" -eq 0 ]; then
	skip 'memory' 'the layer is none of the sandbox'\''s memory'
	return
fi
refused "$(rc_of oom)" oom 'cp says so'
like 'the remedy names the option' '*--memory*' "$(cat "$T/err")"
is 'inspect has the reason' oom "$(fact exit_reason)"
bailey rm --force "$sb"
is 'rm' 0 "$rc"
