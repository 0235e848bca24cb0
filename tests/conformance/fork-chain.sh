# shellcheck shell=bash
# Behaviour of run.sh: forks of forks of forks: as right as the first.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --disk 64m
inside 'cd /workspace; echo 0 >n; echo x >first; mkdir d'
chain=("$sb")
for i in {1..12}; do
	bailey stop "$sb"
	bailey fork "$sb"
	[ "$rc" -eq 0 ] || {
		not_ok "fork $i" "$(left)"
		break
	}
	sb=$(cat "$T/out")
	chain+=("$sb")
	inside 'cd /workspace; echo $0 >n; echo x >d/$0; rm -f d/$(($0 - 2))' "$i"
	[ "$rc" -eq 0 ] || not_ok "write in fork $i" "$(left)"
done
tells 'the last of twelve' '12 x 11 12' \
	'cd /workspace; echo $(cat n first; ls d | sort -n)'
bailey rm --force "${chain[@]:0:12}"
is 'the others are removed' 0 "$rc"
tells 'it lives on' '12 x' 'cd /workspace; echo $(cat n first)'
bailey stop "$sb"
bailey start "$sb"
tells 'and starts again' '12 x' 'cd /workspace; echo $(cat n first)'
