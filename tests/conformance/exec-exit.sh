# shellcheck shell=bash
# Behaviour of run.sh: exec: the status is the command's own, or says why there is none.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
for code in 0 1 3 124 200 255; do
	bailey exec "$sb" -- sh -c "exit $code"
	is "status $code" $code "$rc"
done
for signal in KILL:137 TERM:143 SEGV:139 HUP:129; do
	bailey exec "$sb" -- sh -c "kill -${signal%:*} \$\$"
	is "signal ${signal%:*}" "${signal#*:}" "$rc"
done
bailey exec "$sb" -- /no/such
refused 127 command_not_found 'a command that is not there'
bailey exec "$sb" -- no-such
refused 127 command_not_found 'a name that is in no directory of PATH'
bailey exec "$sb" -- /etc/passwd
refused 126 command_not_executable 'a file that is no program'
bailey exec "$sb" -- /tmp
refused 126 command_not_executable 'a directory'
bailey exec "$sb" --workdir /none -- true
holds 'a working directory that is not there' [ "$rc" -eq 125 ]
bailey exec nobody -- true
refused 125 sandbox_not_found 'an unknown sandbox'
bailey exec "$sb"
holds 'no command' [ "$rc" -ne 0 ]
bailey exec "$sb" --json -- sh -c 'echo words; echo more >&2; exit 3'
is 'JSON: the status is the same' 3 "$rc"
reports 'JSON: status and output' exit_code number 3 stdout string 'words\\n' stderr string 'more\\n'
