# shellcheck shell=bash
# Behaviour of run.sh: a command of a sandbox that lives has no more rights than one of `bailey run`; each control is outside.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
bailey exec "$sb" -- cat /proc/self/status
is 'no effective capability' 0000000000000000 "$(awk '$1 == "CapEff:" { print $2 }' "$T/out")"
is 'none to be had' 0000000000000000 "$(awk '$1 == "CapBnd:" { print $2 }' "$T/out")"
is 'the filter' 2 "$(awk '$1 == "Seccomp:" { print $2 }' "$T/out")"
tells 'no new privileges' 1 'perl -e "print syscall(157, 39, 0, 0, 0, 0)"'
is 'control: the host has no filter here' 0 "$(awk '$1 == "Seccomp:" { print $2 }' /proc/self/status)"
cp /bin/true "$T/true"
holds 'control: a setuid bit' chmod u+s "$T/true"
tells 'no setuid bit' refused 'cp /bin/true t; chmod u+s t 2>/dev/null && echo set || echo refused'
tells 'no other network' lo 'sed -n "3,\$s/ *\([^:]*\):.*/\1/p" /proc/net/dev'
exec 9</etc/passwd
bailey exec "$sb" -- sh -c 'ls /proc/self/fd | tr "\n" " "'
exec 9<&-
is 'three descriptors and the one of ls' '0 1 2 3 ' "$(cat "$T/out")"
SECRET=of-the-host bailey exec "$sb" -- env
holds 'nothing of the caller'\''s environment' eval '! grep -q of-the-host "$T/out"'
sleep 1000 &
started+=("$!")
holds 'control: the process is there' kill -0 "$!"
tells 'no process of the host' none "ls -d /proc/[0-9]* | while read -r p; do
	tr '\\0' ' ' <\$p/cmdline; done 2>/dev/null | grep -q '[s]leep 1000' && echo seen || echo none"
bailey exec -t "$sb" -- cat /proc/self/status
is 'with a terminal too' 2 "$(tr -d '\r' <"$T/out" | awk '$1 == "Seccomp:" { print $2 }')"
