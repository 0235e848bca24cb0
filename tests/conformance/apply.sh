# shellcheck shell=bash
# Behaviour of run.sh: apply: chosen changes to a directory of the host, after they were shown.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
mkdir "$T/landing" "$T/target"
inside 'cd /workspace; echo x >a; mkdir d; echo y >d/b; ln -s /etc/passwd link; chmod 750 a
	ln -s "$0" d/out; mkfifo fifo' "$T/landing"
bailey apply "$sb" "$T/target" --dry-run
is '--dry-run: status' 0 "$rc"
like '--dry-run: shows them' '*workspace/a*' "$(cat "$T/out" "$T/err")"
is '--dry-run: does nothing' '' "$(ls -A "$T/target")"
bailey apply "$sb" "$T/target"
holds 'without a terminal it needs --yes' [ "$rc" -ne 0 ]
is 'and does nothing' '' "$(ls -A "$T/target")"
bailey apply "$sb" "$T/target" workspace/d --yes
is 'chosen paths' 0 "$rc"
is 'are there' y "$(cat "$T/target/workspace/d/b")"
holds 'others are not' [ ! -e "$T/target/workspace/a" ]
bailey apply "$sb" "$T/target" --yes
is 'all' 0 "$rc"
is 'all are there' 'x y' "$(cat "$T/target/workspace/a") $(cat "$T/target/workspace/d/b")"
is 'with their modes' 750 "$(stat -c %a "$T/target/workspace/a")"
is 'they are the caller'\''s' "$(id -u)" "$(stat -c %u "$T/target/workspace/a")"
is 'a link is a link' /etc/passwd "$(readlink "$T/target/workspace/link")"
holds 'no FIFO is made' [ ! -p "$T/target/workspace/fifo" ]
mkdir -p "$T/t2"
ln -s "$T/landing" "$T/t2/workspace"
bailey apply "$sb" "$T/t2" --yes
is 'through a link of the target nothing goes' '' "$(ls -A "$T/landing")"
rc=0
timeout 20 "$BAILEY" apply "$sb" - >"$T/o.tar" 2>"$T/err" </dev/null || rc=$?
is 'as an archive' 0 "$rc"
is 'and is whole' 0 "$(tar -tf "$T/o.tar" >/dev/null 2>&1; echo $?)"
like 'tar reads it' '*workspace/a*' "$(tar -tf "$T/o.tar" 2>&1)"
refuses sandbox_not_found 'an unknown sandbox' apply nobody "$T/target" --yes
