# shellcheck shell=bash
# Topic of run.sh: the environment and the user of the command.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

expect_out \
	$'PATH=/usr/local/sbin:*:/bin\nHOME=/home/agent\nLANG=C.UTF-8' \
	'nothing of the host enters' -- run -- env
SECRET=hidden expect_out '' 'a variable of the host stays out' -- run -- sh -c 'printf %s "$SECRET"'
expect_out 'a=b c' '--env NAME=VALUE' -- run --env 'X1=a=b c' -- sh -c 'printf %s "$X1"'
expect_out $'one\ntwo' 'a value of two lines' -- run --env $'X1=one\ntwo' -- printenv X1
expect_out '' 'an empty value' -- run --env X1= -- printenv X1
X1=copied expect_out copied '--env NAME copies' -- run --env X1 -- printenv X1
X=copied expect_out copied '--env with a name of one letter' -- run --env X -- printenv X
unset X1
expect_reason bad_value '--env NAME that is not set' -- run --env X1 -- true
expect_reason bad_value '--env without a name' -- run --env =x -- true
expect_reason bad_value 'a name with a blank' -- run --env 'A B=1' -- true
expect_out two 'the last one of a name wins' -- run --env X1=one --env X1=two -- printenv X1
expect_out /elsewhere 'one of Bailey'\''s own can be set' -- run --env HOME=/elsewhere -- \
	printenv HOME
expect_out '1' 'it is there once' -- run --env HOME=/elsewhere -- sh -c 'env | grep -c ^HOME='

printf '%s\n' '# a comment' '' 'X1=one' 'X2=a # b' '#X3=no' "X4='q'" >"$T/env"
X5=copied
export X5
echo X5 >>"$T/env"
expect_out $'one\na # b\n'"'q'"$'\ncopied' '--env-file' -- run --env-file "$T/env" -- \
	printenv X1 X2 X4 X5
expect_rc 1 '--env-file: a comment sets nothing' -- run --env-file "$T/env" -- printenv X3
expect_out flag 'a flag goes before the file' -- run --env-file "$T/env" --env X1=flag -- \
	printenv X1
unset X5
expect_reason bad_value '--env-file: a name that is not set' -- run --env-file "$T/env" -- true
printf 'X1=one\n=two\n' >"$T/env"
expect_reason bad_value '--env-file: a line without a name' -- run --env-file "$T/env" -- true
printf 'X1=one\n \n' >"$T/env"
expect_reason bad_value '--env-file: a line of blanks' -- run --env-file "$T/env" -- true
printf 'X1=one\nA\tB=1\n' >"$T/env"
expect_reason bad_value '--env-file: a control byte in a name' -- run --env-file "$T/env" -- true
printf 'X1=o\0ne\n' >"$T/env"
expect_reason bad_value '--env-file: a NUL byte' -- run --env-file "$T/env" -- true
expect_reason bad_value '--env-file: no such file' -- run --env-file "$T/none" -- true
expect_reason bad_value '--env-file: a directory' -- run --env-file "$T" -- true
expect_reason bad_value '--env-file: endless' -- run --env-file /dev/zero -- true
printf 'X1=a\r\nX2=last' >"$T/env"
expect_out last '--env-file: a last line without its end' -- run --env-file "$T/env" -- printenv X2

numbered() { # COUNT [PREFIX]
	perl -e 'print "$ARGV[1]V$_=$_\n" for 1 .. $ARGV[0]' "$1" "${2-}"
}
numbered 10000 | sort >"$T/env"
is "the list is whole" 10000 "$(wc -l <"$T/env")"
bailey run --env-file "$T/env" -- sh -c 'env | grep "^V[0-9]" | sort'
holds '10,000 variables arrive whole' cmp -s "$T/env" "$T/out"
mapfile -t words < <(numbered 10000 --env=)
bailey run "${words[@]}" -- sh -c 'env | grep "^V[0-9]" | sort'
holds '10,000 flags --env' cmp -s "$T/env" "$T/out"
expect_reason value_out_of_range '10,001 flags --env' -- run "${words[@]}" --env X1=1 -- true
numbered 20000 >"$T/env"
expect_reason value_out_of_range '20,000 variables' -- run --env-file "$T/env" -- true
perl -e 'printf "V%d=%s\n", $_, "x" x 100000 for 1 .. 35' >"$T/env"
expect_reason value_out_of_range 'more bytes than the kernel takes' -- run --env-file "$T/env" -- \
	true
printf 'V1=%140000s\n' x >"$T/env"
expect_reason value_out_of_range 'one value longer than the kernel takes' -- \
	run --env-file "$T/env" -- true
unset words

expect_out '1000 1000 1000 1000 1000' 'the command is user and group 1000' -- \
	run -- sh -c 'echo $(id -u) $(id -ru) $(id -g) $(id -rg) $(id -G)'
expect_out '0 0 0' '--user 0' -- run --user 0 -- sh -c 'echo $(id -u) $(id -g) $(id -G)'
expect_out '12 34 34' '--user 12:34' -- run --user 12:34 -- sh -c 'echo $(id -u) $(id -g) $(id -G)'
expect_out '12 12 12' '--user 12' -- run --user 12 -- sh -c 'echo $(id -u) $(id -g) $(id -G)'
expect_out agent 'the user has a name' -- run -- id -un
expect_out '/home/agent' 'it starts at home' -- run -- pwd
expect_out '/usr/bin' '--workdir' -- run --workdir /usr/bin -- pwd
expect_rc 0 'home, /tmp and /dev/shm can be written' -- run -- \
	sh -c 'echo x >~/a && echo x >/tmp/a && echo x >/dev/shm/a'
expect_rc 0 'user 0 inside can write nothing more' -- run --user 0 -- \
	sh -c '! touch /a && ! touch /usr/a && ! touch /etc/a'
expect_out '*No space left*' '--tmp-size is a limit' -- run --tmp-size 1m -- \
	sh -c 'dd if=/dev/zero of=/tmp/a bs=1M count=2 2>&1 | cat'
