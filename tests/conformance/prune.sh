# shellcheck shell=bash
# Behaviour of run.sh: prune: what is dead goes, what lives stays.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

bailey prune
is 'of an empty home' 0 "$rc"
new --name alive
lives=$sb
new --name dead
lose "$sb"
bailey prune
is 'status' 0 "$rc"
like 'says what it removed' "*$sb*" "$(cat "$T/out")"
holds 'the dead one is gone' unlisted "$sb"
holds 'no record of it' [ ! -e "$BAILEY_HOME/sandbox/runs/$sb" ]
new --name dead
ok 'its name is free'
bailey stop "$sb"
bailey prune
holds 'a stopped one stays' listed "$sb"
bailey prune --stopped
holds 'with --stopped it goes' unlisted "$sb"
sb=$lives
tells 'the living one lives' x 'echo x'
bailey prune --json
holds 'JSON' eval 'flat "$T/out" >/dev/null'
