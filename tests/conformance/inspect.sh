# shellcheck shell=bash
# Behaviour of run.sh: inspect: facts about one sandbox.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --name seen --memory 256m --disk 64m --pids 50 --cpus 0.5
bailey inspect "$sb" --json
reports 'JSON: what was asked' id string "$sb" name string seen state string running \
	kind string sandbox memory_bytes number $((256 << 20)) disk_bytes number $((64 << 20)) \
	pids number 50 cpu_millis number 500
reports 'JSON: what was not' network string none image string "$image" engine string "$maker"
bailey inspect "$sb"
like 'as text' "*$sb*" "$(cat "$T/out")"
holds 'the owner lives' alive "$(owner_of "$sb")"
bailey inspect nobody
refused "$(rc_of sandbox_not_found)" sandbox_not_found 'an unknown sandbox'
bailey stop "$sb"
bailey inspect "$sb" --json
reports 'of a stopped one' state string stopped name string seen
