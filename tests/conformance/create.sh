# shellcheck shell=bash
# Behaviour of run.sh: what create makes, and what it refuses without leaving anything.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

bailey create
sb=$(cat "$T/out")
is 'status' 0 "$rc"
like 'prints the id alone' "$id_pattern" "$sb"
is 'one line' 1 "$(wc -l <"$T/out")"
is 'nothing else' '' "$(cat "$T/err")"
state 'it runs' running
is 'its engine' "$maker" "$(fact engine)"
tells 'the workspace is writable' x 'echo x >/workspace/f && cat /workspace/f'
tells 'the home is' x 'echo x >~/f && cat ~/f'
tells '/tmp is' x 'echo x >/tmp/f && cat /tmp/f'
tells 'it starts in the workspace' /workspace pwd
tells 'no network but loopback' lo 'sed -n "s/^ *\([a-z0-9]*\):.*/\1/p" /proc/net/dev'
tells 'the host name is one name' same '[ "$(uname -n)" = "$(cat /etc/hostname)" ] && echo same'
tells 'nothing of the environment comes in' '' 'env | grep BAILEY || true'
bailey create --json
reports 'JSON: the id' id string "$id_pattern"
is 'both are there' 2 "$(ids | wc -l)"
first=$sb
sb=$(sed 's/.*"id": *"\([^"]*\)".*/\1/' "$T/out")
tells 'the files of one are not those of the other' none 'ls /workspace/f 2>/dev/null || echo none'
sb=$first
new --env COLOUR=blue --workdir /tmp --memory 300m --pids 33
tells 'variables and directory of the command line' 'blue /tmp' 'echo $COLOUR $(pwd)'
is 'its memory limit' $((300 << 20)) "$(fact memory_bytes)"
is 'its process limit' 33 "$(fact pids)"
before=$(ids | wc -l)
refuses value_out_of_range 'too small a disk' create --disk 1
refuses bad_value 'a time that is none' create --ttl soon
if [ "$maker" = native ]; then
	refuses image_missing 'an image that is not there' create --image "$T/none"
else
	refuses image_missing 'an image that is not there' create --image none/such:1
	refuses bad_value 'what is no name of an image' create --image "$T/none"
	mkdir "$T/cow"
	refuses layer_unsupported 'a copy-on-write workspace' create --workspace "$T/cow:cow" "${rw[@]}"
	like 'the remedy fits a container' '*native engine*' "$(cat "$T/err")"
fi
refuses mount_source_missing 'a workspace that is not there' create --workspace "$T/none"
mkdir "$T/home2"
BAILEY_LIBEXEC=$T/home2 bailey create
holds 'no engine program' [ "$rc" -ne 0 ]
is 'a refusal leaves no sandbox' "$before" "$(ids | wc -l)"
is 'and no record' "$before" "$(find "$BAILEY_HOME/sandbox/runs" -mindepth 1 -maxdepth 1 | wc -l)"
