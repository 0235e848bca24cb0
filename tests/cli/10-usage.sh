# shellcheck shell=bash
# Topic of run.sh: what is refused before a sandbox is made, and the verbs beside `run` as far as a
# run shows in them.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

text="*'--memroy'*Use '--memory'*" expect_reason usage 'unknown flag names the nearest' -- \
	run --memroy 1g -- true
text="*'--timout'*Use '--timeout'*" expect_reason usage 'unknown flag with a value' -- \
	run --timout=3s -- true
expect_reason usage 'unknown letter' -- run -x -- true
expect_reason usage 'no command' -- run
expect_reason usage 'no command behind --' -- run --timeout 3s --
expect_reason usage 'empty command' -- run -- ''
expect_reason usage 'flag without its value' -- run --memory
expect_reason usage 'flag twice' -- run --memory 1g --memory 2g -- true
expect_reason usage 'value for a switch' -- run --unlimited=yes -- true
bailey run --tty --json -- true
holds "terminal and JSON" refused_as_json usage 125
expect_reason network_unsupported 'network host' -- run --network host -- true
expect_reason network_unsupported 'network bridge' -- run --network=bridge -- true

expect_reason command_not_found 'no such command' -- run -- no-such-command
expect_reason command_not_found 'no such path' -- run -- /no/such/command
expect_reason command_not_executable 'a file that is no program' -- run -- /etc/passwd
expect_reason command_not_executable 'a directory' -- run -- /usr
expect_reason image_missing 'no such image' -- run --image "$T/none" -- true
expect_reason mount_source_missing 'no such workspace' -- run --workspace "$T/none" -- true
expect_reason mount_source_missing 'no such mount source' -- run --mount "$T/none:/mnt" -- true
touch "$T/w/file"
expect_reason mount_source_missing 'a file as workspace' -- run --workspace "$T/w/file" -- true
expect_reason mount_target_invalid 'no such working directory' -- run --workdir /none -- true
expect_reason mount_target_invalid 'relative working directory' -- run --workdir tmp -- true
expect_reason mount_target_invalid 'working directory with ..' -- run --workdir /tmp/../proc -- true
expect_reason mount_target_invalid 'working directory in /proc' -- run --workdir /proc/1 -- true

# FLAG REASON VALUE...
while read -r flag reason values; do
	for v in $values; do
		expect_reason "$reason" "--$flag $v" -- run "--$flag=$v" -- true
	done
done <<'TABLE'
memory value_out_of_range 0 1k 1023k 17t 999999999t
memory bad_value 18446744073709551616 99999999999999999999t x -1 1x 1.5g 0x10 2gg m
cpus value_out_of_range 0 0.001 1025
cpus bad_value x -1 1e3 0.5.5 .
pids value_out_of_range 0 65537 4294967297 18446744073709551617
pids bad_value x -1 2.5 1k 0x10
timeout value_out_of_range 31d 721h
timeout bad_value 99999999999999999999d x -1s 5w 1h30m 1.5h
tmp-size value_out_of_range 0 4k 2t
user bad_value root -1 1:x 1: :1
user value_out_of_range 65535 1:65535 4294967296
json-fd value_out_of_range 1048576
TABLE

# What is inside the range is taken, at both of its ends.
for words in '--memory 2m --pids 1' '--memory 16t' '--cpus 0.01 --timeout 1d' '--cpus 1024' \
	'--pids 65536' '--timeout 30d' \
	'--tmp-size 64k' '--user 65534:65534' '--timeout 0'; do
	# shellcheck disable=SC2086 # words
	expect_rc 0 "taken: $words" -- run $words -- true
done

for words in "--workspace;$T/a"$'\n'b "--mount;$T/w:/a"$'\n'b "--mount;$T/w"$'\n'":/mnt" \
	"--image;a"$'\n'b \
	"--env;A"$'\n'"B=1" "--workdir;/tmp/a"$'\n'b "--model-socket;$T/a"$'\e'b; do
	expect_reason bad_value "control byte in ${words%%;*}" -- \
		run "${words%%;*}" "${words#*;}" -- true
done
bailey run -- $'no\e[2J\nsuch'
is 'a command with control bytes: status' 127 "$rc"
like 'a command with control bytes is shown escaped' '*no\\x1b\[2J\\x0asuch*' "$(cat "$T/err")"

expect_out 'a -- b*' 'what follows the command is its own' -- run echo a -- b --json
expect_out '--help' "--help behind the command is its own" -- run -- printf %s --help
expect_out 'bailey run: *--workspace*--timeout*' 'help on run' -- run --help
for verb in run config 'config show' 'config check' log completion help version doctor bench; do
	# shellcheck disable=SC2086 # a sub-verb is a word of its own
	expect_out "bailey $verb: *" "--help of $verb" -- $verb --help
done
expect_out 'bailey [0-9]*.[0-9]*.[0-9]*' '--version' -- --version
expect_out '*_bailey*complete *' 'completion for bash' -- completion bash

# Arguments arrive as they were given, also many and long ones.
bailey run -- printf "[%s]\n" "" " a  b " "*" "\$x" "\\\\" ä
is "odd arguments" "[]
[ a  b ]
[*]
[\$x]
[\\\\]
[ä]" "$(cat "$T/out")"
expect_out '131000' 'one long argument' -- run -- sh -c 'echo ${#1}' sh "$(printf '%131000s' x)"
mapfile -t many < <(seq 100000)
expect_out '100000 100000' 'a hundred thousand arguments' -- run -- \
	sh -c 'shift 99999; echo $((99999 + $#)) $1' sh "${many[@]}"
unset many
