# shellcheck shell=bash
# Behaviour of run.sh: create --read-only: nothing of the root is written.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --read-only
is 'inspect says so' 1 "$(fact read_only | sed 's/true/1/')"
tells 'the root is read-only' no \
	'for f in /usr/x /etc/x /x /var/x; do touch $f && echo yes; done 2>/dev/null || echo no'
tells '/tmp is writable' x 'echo x >/tmp/f; cat /tmp/f'
bailey stop "$sb"
bailey start "$sb"
tells 'it starts again' x 'echo x'
