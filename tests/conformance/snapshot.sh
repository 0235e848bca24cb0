# shellcheck shell=bash
# Behaviour of run.sh: snapshot: the files of now, kept; forks of it begin with them.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
inside 'echo x >/workspace/f; echo y >~/g; echo z >/tmp/t; ln -s f /workspace/l'
for of in running stopped; do
	[ "$of" = running ] || bailey stop "$sb"
	bailey snapshot "$sb" --name "snap-$of"
	is "of a $of one" 0 "$rc"
	snap=$(cat "$T/out")
	like "$of: prints an id alone" "$id_pattern" "$snap"
	is "$of: inspect says what it is" "snapshot $sb" "$(fact kind "$snap") $(fact parent "$snap")"
	bailey exec "$snap" -- true
	refused 125 snapshot_only "$of: nothing runs in it"
	refuses snapshot_only "$of: it is not started" start "$snap"
done
state 'the sandbox is as it was' stopped
bailey start "$sb"
inside 'echo changed >/workspace/f'
bailey fork "snap-running" --name tine
is 'a fork of it' 0 "$rc"
parent=$sb
sb=$(cat "$T/out")
tells 'has the files of then' 'x y f' 'echo $(cat /workspace/f ~/g) $(readlink /workspace/l)'
tells 'but nothing of /tmp' none 'cat /tmp/t 2>/dev/null || echo none'
bailey rm --force "$parent"
is 'the sandbox is removed' 0 "$rc"
bailey fork snap-stopped
is 'its snapshot still forks' 0 "$rc"
sb=$(cat "$T/out")
tells 'with its files' x 'cat /workspace/f'
refuses sandbox_not_found 'an unknown sandbox' snapshot nobody
