# shellcheck shell=bash
# Behaviour of run.sh: a full disk inside: said inside, bounded outside, and the sandbox goes on.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --disk 16m
# where nothing bounds it, it is looked at: what is over is stopped, and can be started to make room
if [ "$(fact disk_kind)" = watched ]; then
	inside 'dd if=/dev/zero of=/workspace/big bs=64k count=480 2>/dev/null; sleep 10'
	state 'it is stopped' stopped
	is 'the reason' disk_full "$(fact exit_reason)"
	bailey start "$sb"
	tells 'with room again it goes on' x 'rm /workspace/big; sleep 3; echo x'
	state 'and runs' running
	return
fi
inside 'dd if=/dev/zero of=/workspace/big bs=64k 2>&1'
like 'the command is told' '*No space left*' "$(cat "$T/out")"
inside 'stat -c %s /workspace/big'
between 'at its limit' 8000000 17000000 "$(cat "$T/out")"
tells 'commands still run' x 'echo x'
head -c 1000000 /dev/urandom >"$T/f"
refuses disk_full 'cp says so' cp "$T/f" "$sb:/workspace/f"
tells 'no part of it stays' none 'ls -A /workspace | grep -v big || echo none'
tells 'after a removal there is space' x 'rm /workspace/big; echo x >/workspace/f; cat /workspace/f'
bailey cp "$T/f" "$sb:/workspace/f"
is 'cp goes then' 0 "$rc"
inside 'i=0
	while true >/workspace/n$i; do i=$((i + 1)); [ $i -lt 100000 ] || break; done 2>/dev/null
	echo $i'
between 'the number of files is bounded too' 100 99999 "$(cat "$T/out")"
# the root file system of commands is the same disk
inside 'rm -f /workspace/n*; dd if=/dev/zero of="$HOME/big" bs=64k 2>&1'
like 'the home too' '*No space left*' "$(cat "$T/out")"
