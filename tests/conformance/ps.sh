# shellcheck shell=bash
# Behaviour of run.sh: ps: the commands of a sandbox.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
bailey ps "$sb"
is 'status without commands' 0 "$rc"
detach sleep 300
bailey exec "$sb" -- sh -c 'exit 3'
bailey exec "$sb" -- printf 'x' $'a\nb\e[31m'
bailey ps "$sb"
like 'the running one' "*$cmd*sleep 300*" "$(cat "$T/out")"
if LC_ALL=C grep -q $'\e' "$T/out"; then
	not_ok 'nothing that changes a terminal' "$(cat -v "$T/out")"
else
	ok 'nothing that changes a terminal'
fi
bailey ps "$sb" --json
reports 'JSON: the running one' 0.command number "$cmd" 0.state string running 0.argv.0 string sleep
bailey ps nobody
refused "$(rc_of sandbox_not_found)" sandbox_not_found 'an unknown sandbox'
