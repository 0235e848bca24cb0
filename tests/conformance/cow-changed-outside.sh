# shellcheck shell=bash
# Behaviour of run.sh: apply notices that the directory was changed outside meanwhile.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

mkdir "$T/p"
echo x >"$T/p/f"
echo y >"$T/p/g"
bailey create --workspace "$T/p:cow" "${rw[@]}"
if [ "$rc" -ne 0 ] && [ "$maker" = native ] && says layer_unsupported; then
	skip 'cow' 'this kernel has no overlay for a user'
	return
fi
sb=$(cat "$T/out")
inside 'echo inside >f; echo n >n'
is 'a view is written' 0 "$rc"
echo outside >"$T/p/f"
refuses workspace_changed 'a file that both changed' apply "$sb" "$T/p" --yes
is 'nothing was written' 'outside y' "$(cat "$T/p"/* | xargs)"
bailey apply "$sb" "$T/p" --yes --force
is '--force' 0 "$rc"
is 'writes' 'inside y n' "$(cat "$T/p"/* | xargs)"
