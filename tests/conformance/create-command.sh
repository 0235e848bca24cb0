# shellcheck shell=bash
# Behaviour of run.sh: create COMMAND: the sandbox ends with the command, unless it is to be kept.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

bailey create -- sh -c 'echo words; sleep 0.7; exit 3'
sb=$(cat "$T/out")
like 'prints the id alone' "$id_pattern" "$sb"
bailey ps "$sb"
like 'the command runs' '*sh*' "$(cat "$T/out")"
bailey attach "$sb" 1
is 'its output and status' '3 words' "$rc $(cat "$T/out")"
holds 'the sandbox goes when it ends' until_true 50 unlisted "$sb"
refuses sandbox_not_found 'it is unknown then' inspect "$sb"

new --keep -- sh -c 'echo kept >/workspace/f; echo words; exit 4'
bailey wait "$sb" 1
is 'with --keep: its status' 4 "$rc"
bailey logs "$sb" 1
is 'with --keep: its output' words "$(cat "$T/out")"
tells 'with --keep: its files' kept 'cat /workspace/f'

new --keep -- /no/such/command
bailey wait "$sb" 1
is 'a command that is not there' 127 "$rc"
