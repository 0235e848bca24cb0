# shellcheck shell=bash
# Behaviour of run.sh: fork of a running sandbox: a copy of one moment; its processes stay where they are.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --disk 256m
inside 'cd /workspace; echo x >f; mkdir d; ln f hard; ln -s f soft
	head -c 5000000 /dev/urandom >big; sha256sum <big'
sum=$(cat "$T/out")
detach sh -c 'i=0; while :; do i=$((i + 1)); echo $i >n.new; mv n.new n; sleep 0.01; done'
sleep 0.3
counts='a=$(cat n); sleep 0.3; b=$(cat n); [ "$b" -gt "$a" ] && echo goes on || echo stands still'
a=$sb
bailey fork "$a"
is 'fork' 0 "$rc"
b=$(cat "$T/out")
state 'the parent runs on' running "$a"
tells 'so does its command' 'goes on' "$counts"
bailey ps "$a"
like 'ps has it' '*sh*' "$(cat "$T/out")"
sb=$b
state 'the fork runs' running
tells 'it has the files' 'x f' 'cd /workspace; echo $(cat f) $(readlink soft)'
tells 'all their bytes' "$sum" 'sha256sum </workspace/big'
tells 'hard links' same 'cd /workspace; [ f -ef hard ] && echo same'
tells 'no command of the parent' 'stands still' "$counts"
bailey ps "$b" --json
is 'ps has none of them either' 0 "$(grep -c '"running"' "$T/out" || true)"
inside 'echo child >/workspace/f'
sb=$a
tells 'what it writes is its own' x 'cat /workspace/f'
bailey rm --force "$a"
sb=$b
tells 'it lives on without its parent' child 'cat /workspace/f'
