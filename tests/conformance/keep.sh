# shellcheck shell=bash
# Behaviour of run.sh: --keep and what goes without it.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --keep -- sh -c 'echo x >/workspace/f'
bailey wait "$sb" 1
is 'the command ended' 0 "$rc"
sleep 0.5
tells 'the sandbox stays' x 'cat /workspace/f'
is 'inspect says so' 1 "$(fact keep | sed 's/true/1/')"
new -- sh -c 'sleep 0.5'
detach sleep 300
holds 'without it, it goes with its first command' until_true 60 unlisted "$sb"
