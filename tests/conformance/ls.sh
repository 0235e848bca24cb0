# shellcheck shell=bash
# Behaviour of run.sh: ls: the sandboxes of this home; it never hangs.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

bailey ls
is 'of an empty home' 0 "$rc"
bailey ls --json
reports 'JSON: an empty list' '' list
new --name first
first=$sb
new
bailey ls
like 'the table has both' "*$first*" "$(cat "$T/out")"
like 'and the name' '*first*' "$(cat "$T/out")"
bailey ls --json
reports 'JSON: an entry' 0.id string "$id_pattern" 0.state string running \
	1.id string "$id_pattern" 1.state string running
bailey stop "$sb"
bailey ls --json
flat=$(flat "$T/out")
like 'a stopped one is said to be' "*state?string?stopped*" "$flat"
# an owner that doesn't answer
owner=$(owner_of "$first")
kill -STOP "$owner"
began_ls=$SECONDS
bailey ls
is 'beside an owner that does not answer' 0 "$rc"
holds 'in time' [ $((SECONDS - began_ls)) -le 6 ]
kill -CONT "$owner"
# records that nobody wrote
mkdir -p "$BAILEY_HOME/sandbox/runs/b0123456789abcdef" "$BAILEY_HOME/sandbox/runs/nonsense"
echo 'garbage' >"$BAILEY_HOME/sandbox/runs/b0123456789abcdef/meta"
bailey ls --all
is 'beside records that are broken' 0 "$rc"
like 'the others are listed' "*$first*" "$(cat "$T/out")"
rm -rf "$BAILEY_HOME/sandbox/runs/nonsense"
bailey rm --force b0123456789abcdef
rm -rf "$BAILEY_HOME/sandbox/runs/b0123456789abcdef"
