# shellcheck shell=bash
# Behaviour of run.sh: fork of a stopped sandbox: shared at once, then each for itself.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --disk 256m
inside 'cd /workspace; echo x >f; echo old >both; mkdir -p d/e; echo 1 >d/e/1; echo y >~/g
	head -c 20000000 /dev/urandom >big; sha256sum <big'
sum=$(cat "$T/out")
bailey stop "$sb"
a=$sb
began_fork=${EPOCHREALTIME/[.,]/}
bailey fork "$a" --name child
took=$(((${EPOCHREALTIME/[.,]/} - began_fork) / 1000))
is 'fork' 0 "$rc"
b=$(cat "$T/out")
like 'prints an id alone' "$id_pattern" "$b"
between 'it took ms' 0 3000 "$took"
is 'its parent' "$a" "$(fact parent "$b")"
is 'its name' child "$(fact name "$b")"
sb=$b
state 'it runs' running
tells 'it has the files' 'x old 1 y' 'cd /workspace; echo $(cat f both d/e/1 ~/g)'
tells 'all their bytes' "$sum" 'sha256sum </workspace/big'
tells 'and writes its own' new \
	'cd /workspace; echo new >both; rm -r d; mkdir d; echo b >b; cat both'
sb=$a
bailey start "$sb"
tells 'the parent has its own' 'old 1' 'cd /workspace; echo $(cat both d/e/1)'
tells 'and nothing of the child' none 'cat /workspace/b 2>/dev/null || echo none'
inside 'cd /workspace; echo a >a; echo parent >f'
sb=$b
tells 'nor the child of the parent'\''s' 'x none' \
	'cd /workspace; echo $(cat f; cat a 2>/dev/null || echo none)'
bailey rm --force "$a"
tells 'the child lives on without its parent' "$sum" 'sha256sum </workspace/big'
bailey stop "$b"
bailey start "$b"
tells 'and starts again' new 'cat /workspace/both'
tells 'a replaced directory is empty' '' 'ls /workspace/d'
refuses sandbox_not_found 'an unknown sandbox' fork nobody
refuses sandbox_exists 'a name that is taken' fork "$b" --name child
