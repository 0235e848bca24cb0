# shellcheck shell=bash
# Behaviour of run.sh: rm: what is not there.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

refuses sandbox_not_found 'an unknown name' rm nobody
refuses sandbox_not_found 'an unknown id' rm b0123456789abcdef
refuses sandbox_not_found 'a path' rm ../../etc
new
bailey rm --force "$sb"
refuses sandbox_not_found 'one that was removed' rm "$sb"
new
for i in 1 2 3; do
	beside "rm.$i" rm --force "$sb"
done
all_ended
between 'three at once: at least one does it' 1 3 "$(cat "$T"/rm.*.rc | grep -cx 0)"
holds 'it is gone' unlisted "$sb"
