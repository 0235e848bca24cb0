# shellcheck shell=bash
# Behaviour of run.sh: records of a time before the host started anew: said, nothing hangs, all can be removed.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --name old
owner=$(owner_of "$sb")
detach sh -c 'echo words; sleep 300'
record=$BAILEY_HOME/sandbox/runs/$sb
cp -a "$record" "$T/record"
kill -KILL "$owner"
holds 'the owner is dead' until_true 30 dead "$owner"
# its number is somebody else's now
rm -rf "${record:?}"
cp -a "$T/record" "$record"
sed -i "s/^owner_pid .*/owner_pid $$/" "$record/meta"
began_ls=$SECONDS
bailey ls --all
is 'ls' 0 "$rc"
# one is waited for that may only have lost its owner
holds 'in time' [ $((SECONDS - began_ls)) -le "$([ "$maker" = native ] && echo 5 || echo 8)" ]
like 'says it is lost' "*$sb*lost*" "$(cat "$T/out")"
bailey inspect old --json
reports 'inspect too' state string lost name string old
limit=10 bailey exec old -- true
refused 125 sandbox_lost 'exec too'
bailey rm old
is 'rm' 0 "$rc"
holds 'the process that has the number lives' alive $$
holds 'it is gone' unlisted "$sb"
new --name old
ok 'its name is free'
