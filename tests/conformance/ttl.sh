# shellcheck shell=bash
# Behaviour of run.sh: --ttl: the sandbox ends and goes by itself.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --ttl 2s --name short
detach sleep 300
pid=$(owner_of "$sb")
between 'inspect has it' 1 2000 "$(fact ttl_ms)"
limit=20 bailey exec "$sb" -- sleep 100
holds 'a client is told' [ "$rc" -ne 0 ]
holds 'and told why' eval 'says sandbox_lost || says sandbox_not_running || says timeout || says engine_lost'
holds 'it is gone' until_true 50 unlisted "$sb"
holds 'so is its engine' until_true 50 dead "$pid"
new --name short
ok 'its name is free'
new --ttl 2s
bailey stop "$sb"
holds 'a stopped one goes too' until_true 60 unlisted "$sb"
new --ttl 2s
bailey pause "$sb"
holds 'a paused one goes too' until_true 60 unlisted "$sb"
new --ttl 1h
tells 'one with time left stays' x 'echo x'
