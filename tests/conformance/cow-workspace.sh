# shellcheck shell=bash
# Behaviour of run.sh: --workspace DIR:cow: a view of a directory; nothing reaches it before apply.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

mkdir -p "$T/p/d" "$T/p/gone"
echo x >"$T/p/f"
echo y >"$T/p/d/g"
echo z >"$T/p/gone/h"
chmod 755 "$T/p/f"
sum=$(tree_sum "$T/p")
bailey create --workspace "$T/p:cow" "${rw[@]}"
if [ "$rc" -ne 0 ] && [ "$maker" = native ] && says layer_unsupported; then
	skip 'cow' 'this kernel has no overlay for a user'
	return
fi
sb=$(cat "$T/out")
is 'create' 0 "$rc"
is 'inspect says so' cow "$(fact workspace_mode)"
tells 'the files are there' 'x y z' 'echo $(cat f d/g gone/h)'
tells 'and can be written' 'new more' \
	'echo new >f && echo more >d/m && rm -r gone && echo $(cat f d/m)'
is 'the directory is as it was' "$sum" "$(tree_sum "$T/p")"
bailey diff "$sb" --workspace
like 'diff: changed' '*M ?(/)f*' "$(cat "$T/out")"
like 'diff: added' '*A ?(/)d/m*' "$(cat "$T/out")"
like 'diff: removed' '*D ?(/)gone*' "$(cat "$T/out")"
bailey stop "$sb"
bailey start "$sb"
tells 'they are kept over stop and start' 'new more' '[ ! -e gone ] && echo $(cat f d/m)'
is 'the directory is still as it was' "$sum" "$(tree_sum "$T/p")"
bailey apply "$sb" "$T/p" d/m --yes
is 'apply of one' 0 "$rc"
is 'it is there, alone' 'more x' "$(cat "$T/p/d/m") $(cat "$T/p/f")"
bailey apply "$sb" "$T/p" --yes
is 'apply of all' 0 "$rc"
is 'they are there' 'new more' "$(cat "$T/p/f") $(cat "$T/p/d/m")"
holds 'what was removed is gone' [ ! -e "$T/p/gone" ]
is 'modes' 755 "$(stat -c %a "$T/p/f")"
is 'they are the caller'\''s' "$(id -u)" "$(stat -c %u "$T/p/d/m")"
bailey rm --force "$sb"
is 'removal leaves the directory' 'new more' "$(cat "$T/p/f") $(cat "$T/p/d/m")"
