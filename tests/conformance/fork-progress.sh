# shellcheck shell=bash
# Behaviour of run.sh: fork of a running sandbox whose files are copied: how far it is, in the events.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --disk 256m --memory 512m
inside 'head -c 150000000 /dev/urandom >/workspace/f'
is 'the files' 0 "$rc"
bailey fork "$sb"
is 'fork' 0 "$rc"
child=$(cat "$T/out")
bailey events --json
grep '"copying"' "$T/out" >"$T/copying" || true
if [ -s "$T/copying" ]; then
	is 'once for each 64 MiB' 2 "$(wc -l <"$T/copying")"
	like 'of the new sandbox' "*$child*" "$(cat "$T/copying")"
	like 'and of which' "*$sb*" "$(cat "$T/copying")"
	holds 'bytes grow' eval '[ "$(sed "s/.*\"bytes\":\"\([0-9]*\)\".*/\1/" "$T/copying" | sort -n | tail -n 1)" -ge 134217728 ]'
else
	# a store that shares blocks copies nothing
	like 'without a word only where blocks are shared, or the daemon copies' '@(loop|watched)' "$(fact disk_kind "$child")"
fi
sb=$child
tells 'the fork has it all' 150000000 'stat -c %s /workspace/f'
