# shellcheck shell=bash
# Behaviour of run.sh: df: what sandboxes take.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

bailey df
is 'of an empty home' 0 "$rc"
new --name big
inside 'head -c 9000000 /dev/zero >/workspace/f'
bailey df
is 'status' 0 "$rc"
like 'the sandbox is in it' "*big*" "$(cat "$T/out")"
bailey df --json
like 'JSON: the sandbox' "*$sb*" "$(cat "$T/out")"
flat=$(flat "$T/out")
between 'JSON: its size is in it' 1 9 \
	"$(awk -F '\t' '$2 == "number" && $3 >= 9000000 && $3 < 40000000' <<<"$flat" | wc -l)"
