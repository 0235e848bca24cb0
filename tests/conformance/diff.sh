# shellcheck shell=bash
# Behaviour of run.sh: diff: what was added, changed and removed.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
bailey diff "$sb"
is 'of a new one' 0 "$rc"
before=$(wc -l <"$T/out")
inside 'cd /workspace; echo x >added; mkdir d; echo y >d/f; ln -s a link
	echo z >"$(printf "odd\nname\377")"'
bailey diff "$sb"
is 'status' 0 "$rc"
for path in workspace/added workspace/d workspace/d/f workspace/link; do
	like "added: $path" "*A ?(/)$path*" "$(cat "$T/out")"
done
between 'a line each: odd names are escaped' $((before + 5)) $((before + 7)) "$(wc -l <"$T/out")"
if LC_ALL=C grep -q $'\xff' "$T/out"; then
	not_ok 'no raw bytes' "$(cat -v "$T/out")"
else
	ok 'no raw bytes'
fi
bailey diff "$sb" --json
holds 'JSON' eval 'flat "$T/out" >/dev/null'
like 'JSON: an entry' '*workspace/added*' "$(cat "$T/out")"
bailey stop "$sb"
bailey diff "$sb"
like 'of a stopped one' '*A ?(/)workspace/added*' "$(cat "$T/out")"
bailey fork "$sb"
sb=$(cat "$T/out")
inside 'cd /workspace; rm added; echo changed >d/f; echo n >new'
bailey diff "$sb"
like 'of a fork: what is new' '*A ?(/)workspace/new*' "$(cat "$T/out")"
like 'of a fork: not what is gone' '!(*workspace/added*)' "$(grep -v '^D' "$T/out")"
inside 'mkdir many; cd many; i=0; while [ $i -lt 3000 ]; do : >$i; i=$((i + 1)); done'
bailey diff "$sb"
between 'three thousand' 3000 3030 "$(wc -l <"$T/out")"
refuses sandbox_not_found 'an unknown sandbox' diff nobody
