# shellcheck shell=bash
# Topic of run.sh: a command with a terminal.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

pty() { # ROWS COLUMNS SCRIPT WORD...
	local rows=$1 columns=$2 script=$3
	shift 3
	try perl "$here/pty.pl" "$rows" "$columns" "$script" "$BAILEY" "$@"
	tr -d '\r' <"$T/out" >"$T/out.plain"
	mv "$T/out.plain" "$T/out"
}
terminal() { # NAME RC PATTERN: of the last pty
	# shellcheck disable=SC2053
	if [ "$rc" = "$2" ] && [[ $(cat "$T/out") == $3 ]]; then
		ok "$1"
	else
		not_ok "$1" "expected status $2: $3
$(left)"
	fi
}

pty 24 80 '' run -t -- sh -c 'test -t 0 && test -t 1 && test -t 2 && echo yes >/dev/tty'
terminal '-t gives a controlling terminal' 0 'yes*modes: same'
pty 24 80 '' run -- sh -c 'test -t 0 && test -t 1 && echo yes'
terminal 'a terminal on both sides gives one too' 0 'yes*'
pty 24 80 '' run -i -- sh -c 'test -t 0 || echo no'
terminal '-i alone gives none' 0 'no*'
pty 24 80 '' run --json -- sh -c 'test -t 1 || echo no'
terminal '--json gives none' 0 '{*"stdout":"no\\n"*'
expect_out 'yes*' '-t without one outside' -- run -t -- sh -c 'test -t 0 && test -t 1 && echo yes'
pty 24 80 '' run -t -- tty
terminal 'it has a name' 0 $'/dev/console\n*modes: same'
expect_out "not a tty" 'neither: none' -- run -- sh -c 'tty || true'
pty 33 77 '' run -t -- stty size
terminal 'its size' 0 '33 77*'
pty 20 20 $'wait ready\nsize 44 55\nwait 44 55\nsend \\n' run -t -- \
	bash -c 'trap "stty size" WINCH; echo ready
		until read -r -t 0.1; [ $? -lt 128 ]; do :; done'
terminal 'a new size' 0 '*44 55*modes: same'
TERM=xterm-256color pty 24 80 '' run -t -- printenv TERM
terminal 'TERM is passed' 0 'xterm-256color*'
TERM=$'x\ny' pty 24 80 '' run -t -- printenv TERM
terminal 'a bad TERM is not' 0 'dumb*'
expect_rc 1 'without a terminal there is no TERM' -- run -- printenv TERM
pty 24 80 $'wait ready\nsend \\x03' run -t -- \
	sh -c 'trap "echo got INT; exit 3" INT; echo ready; while :; do sleep 0.1; done'
terminal 'Ctrl-C reaches the command' 3 '*got INT*modes: same'
pty 24 80 $'wait ready\nsend \\x03' run -t -- sh -c 'echo ready; exec sleep 60'
terminal 'Ctrl-C ends one that lets it' 130 '*modes: same'
pty 24 80 $'wait ready\nsend \\x1c' run -t -- sh -c 'echo ready; exec sleep 60'
terminal 'so does Ctrl-backslash' 131 '*modes: same'
pty 24 80 $'wait ready\nsend \\x03' run -i -- sh -c 'echo ready; exec sleep 60'
terminal 'Ctrl-C without a terminal of its own' 130 '*'
pty 24 80 $'wait ready\nsend some words\\n\nwait got: some words' run -t -- \
	sh -c 'echo ready; read -r a; echo "got: $a"; exit 4'
terminal 'what is typed arrives, and is shown once' 4 $'ready\nsome words\ngot: some words\n*'
pty 24 80 $'wait ready\nsend word\\x04\\x04' run -t -- sh -c 'echo ready; cat; exit 5'
terminal 'Ctrl-D is the end of input' 5 '*'
pty 24 80 $'wait ready\nsend secret\\n\nwait got' run -t -- \
	sh -c 'stty -echo; echo ready; read -r a; echo "got ${#a}"; stty echo'
terminal 'what is typed without echo is not shown' 0 $'ready\ngot 6\n*'
pty 24 80 $'wait [$] \nsend echo $((6 * 7))\\n\nwait 42\nsend exit 7\\n' run -it -- sh
terminal 'a shell' 7 '*42*modes: same'
pty 24 80 $'wait [$] \nsend sleep 50 &\\n\nwait [$] \nsend jobs\\n\nwait Running\nsend exit\\n' \
	run -it -- sh
terminal 'a shell with job control' 0 '*Running*modes: same'
pty 24 80 $'wait ready\nkill TERM' run -t -- sh -c 'echo ready; exec sleep 60'
terminal 'SIGTERM: status, and the modes are restored' 143 '*modes: same'
pty 24 80 'wait ready' run -t --timeout 500ms -- sh -c 'stty raw -echo; echo ready; exec sleep 60'
terminal 'a timeout restores the modes' 124 '*timeout*modes: same'
new_mark
pty 24 80 $'wait ready\nhangup' run -t -- sh -c 'echo ready; exec sleep 60' "$mark"
case $rc in
0 | 99 | 137) not_ok 'a terminal that goes away ends the command' "$(left)" ;;
*) ok 'a terminal that goes away ends the command' ;;
esac
holds 'and nothing is left' until_true 30 none_marked "$mark"
pty 24 80 '' run -t -- sh -c 'seq 20000; exit 6'
is 'much output through a terminal is whole' "6 20000" "$rc $(grep -c '^[0-9]' "$T/out")"
pty 24 80 '' run -t -- no-such-command
terminal 'a refusal restores the modes' 127 '*\[command_not_found]*modes: same'
