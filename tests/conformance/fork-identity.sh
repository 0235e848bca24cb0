# shellcheck shell=bash
# Behaviour of run.sh: fork: an identity of its own.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

identity='cat /etc/machine-id; uname -n; cat /etc/hostname | grep .; cat /proc/sys/kernel/hostname'
new --name parent
inside "$identity"
mapfile -t a <"$T/out"
is 'the test has an identity' 4 ${#a[@]}
inside 'echo x >/workspace/f; id -u'
uid=$(cat "$T/out")
bailey stop "$sb"
for of in stopped running; do
	[ "$of" = stopped ] || bailey start parent
	bailey fork parent
	is "of a $of one" 0 "$rc"
	sb=$(cat "$T/out")
	inside "$identity"
	mapfile -t b <"$T/out"
	holds "$of: another machine-id" [ "${a[0]}" != "${b[0]-}" ]
	holds "$of: another host name" [ "${a[1]}" != "${b[1]-}" ]
	is "$of: the host name is one name" "${b[1]-} ${b[1]-}" "${b[2]-} ${b[3]-}"
	holds "$of: not its parent's name" [ "$(fact name)" != parent ]
	tells "$of: the workload's id inside is the same" "$uid" 'id -u'
	tells "$of: it owns its files" mine \
		'[ -O /workspace/f ] && echo changed >/workspace/f && echo mine'
done
