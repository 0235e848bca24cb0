# shellcheck shell=bash
# Owns the counting and the checks of the shell suites; sourced by tests/cli/run.sh and
# tests/leak/run.sh. The sourcing script sets BAILEY (the program) and T (a scratch directory), and
# may set section, which is put before names. A name is printed as it stands, but for a skip as one
# word, so that tests/allowed-skips.txt can name it.

passed=0 failed=0 skipped=0 section='' rc=0
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Where set -e ends a suite, it says so; a command whose failure is looked at comes here no more than it ends anything.
set -E
trap 'tap_died $? "${BASH_SOURCE[0]-}" "$LINENO" "$BASH_COMMAND"' ERR
tap_died() { # STATUS FILE LINE COMMAND
	[[ $- == *e* ]] && [ "$BASH_SUBSHELL" -eq 0 ] || return 0
	echo "not ok ${2##*/} line $3 ended the suite: status $1 of: ${4%%$'\n'*}" >&2
}

ok() { # NAME
	echo "ok $section$1"
	passed=$((passed + 1))
}

not_ok() { # NAME [DETAIL]
	echo "not ok $section$1"
	[ $# -lt 2 ] || printf '%s\n' "$2" | head -n 12 | cut -c 1-400 | sed 's/^/    /'
	failed=$((failed + 1))
}

skip() { # NAME REASON
	local name=${section//: //}$1
	echo "skip ${name// /-} $2"
	skipped=$((skipped + 1))
}

finish() {
	trap - ERR
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
}

is() { # NAME EXPECTED GOT
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "expected: $2
got: $3"
	fi
}

like() { # NAME PATTERN GOT
	# shellcheck disable=SC2053 # the right side is a pattern
	if [[ $3 == $2 ]]; then
		ok "$1"
	else
		not_ok "$1" "expected: $2
got: $3"
	fi
}

holds() { # NAME COMMAND...
	local name=$1
	shift
	if "$@"; then
		ok "$name"
	else
		not_ok "$name" "not true: $*
$(left)"
	fi
}

between() { # NAME LOWEST HIGHEST NUMBER
	if [[ $4 =~ ^[0-9]+$ ]] && [ "$4" -ge "$2" ] && [ "$4" -le "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "expected: $2 to $3
got: $4"
	fi
}

# What the last command left behind, for the detail of a failure.
left() {
	echo "exit status $rc"
	[ ! -s "$T/out" ] || echo "stdout: $(head -c 300 "$T/out" | tr '\0' '@')"
	[ ! -s "$T/err" ] || echo "stderr: $(head -c 900 "$T/err" | tr '\0' '@')"
}

# Runs a command to its end, at most $limit seconds (BAILEY_TEST_SLOW times that; a function: without
# a limit); sets rc and leaves $T/out and $T/err.
try() { # COMMAND...
	rc=0
	if declare -F "$1" >/dev/null; then
		"$@" >"$T/out" 2>"$T/err" </dev/null || rc=$?
		return 0
	fi
	# timeout's own words (a host that has no timer left) stay out of the command's
	# shellcheck disable=SC2016 # expanded by the inner shell
	timeout -s KILL "$((${limit:-60} * ${BAILEY_TEST_SLOW:-1}))" \
		sh -c 'exec "$@" 2>"$0"' "$T/err" "$@" >"$T/out" 2>/dev/null </dev/null || rc=$?
}

bailey() { # WORD...
	try "$BAILEY" "$@"
}

# The program with these words ends with that status and says nothing of its own.
expect_rc() { # RC NAME -- WORD...
	local want=$1 name=$2
	shift 3
	bailey "$@"
	if [ "$rc" = "$want" ]; then
		ok "$name"
	else
		not_ok "$name" "expected status $want; $(left)"
	fi
}

# Status 0, and standard output matches the pattern.
expect_out() { # PATTERN NAME -- WORD...
	local pattern=$1 name=$2
	shift 3
	bailey "$@"
	# shellcheck disable=SC2053
	if [ "$rc" -eq 0 ] && [[ $(tr -d '\0' <"$T/out") == $pattern ]]; then
		ok "$name"
	else
		not_ok "$name" "expected: $pattern
$(left)"
	fi
}

# The leaves of the JSON in a file, a line each: PATH, type and value between tabs; fails on
# anything but one JSON value.
flat() { # FILE
	perl "$lib/json.pl" <"$1"
}

# True when $flat (the output of flat) has this leaf; the value is a pattern.
has() { # PATH TYPE [VALUE]
	[[ $'\n'$flat$'\n' == *$'\n'"$1"$'\t'"$2"$'\t'${3-*}$'\n'* ]]
}

# The JSON that the last command printed (or the file in the variable report) has all these leaves;
# sets flat.
reports() { # NAME [PATH TYPE VALUE]...
	local name=$1 file=${report:-$T/out}
	shift
	flat=$(flat "$file" 2>&1) || set -- 'valid JSON' '' ''
	while [ $# -ge 3 ]; do
		has "$1" "$2" "$3" || {
			not_ok "$name" "expected: $1 $2 $3
$flat
$(left)"
			return 0
		}
		shift 3
	done
	ok "$name"
}

# The two lines of text that end standard error: message with [reason], remedy.  Sets lines.
says() { # REASON
	mapfile lines <"$T/err"
	[ ${#lines[@]} -ge 2 ] && [[ ${lines[-2]} == 'bailey: '?*" [$1]"$'\n' ]] &&
		[[ ${lines[-1]} == '  try: '?*$'\n' ]]
}

# The status that goes with a refusal.
refusal_rc() { # REASON VERB
	local exit
	case $2:$1 in
	run:command_not_found | exec:command_not_found) echo 127 ;;
	run:command_not_executable | exec:command_not_executable) echo 126 ;;
	run:* | exec:* | attach:* | wait:*) echo 125 ;;
	*)
		exit=$(sed -n "s/^REASON([A-Z_]*, *\"$1\", *[0-9]*, *\([0-9]*\),.*/\1/p" \
			"$lib/../../src/base/reasons.def")
		echo "${exit:-none}"
		;;
	esac
}

refused_as_text() { # REASON RC PATTERN
	local lines
	# shellcheck disable=SC2053
	[ "$rc" = "$2" ] && [ ! -s "$T/out" ] && says "$1" && [ ${#lines[@]} -eq 2 ] &&
		[[ ${lines[0]}${lines[1]%$'\n'} == $3 ]]
}

refused_as_json() { # REASON RC
	[ "$rc" = "$2" ] && [ "$(wc -l <"$T/out")" -eq 1 ] && flat=$(flat "$T/out") &&
		has error.reason string "$1" &&
		has error.message string '?*' && has error.remedy string '?*'
}

# The last `bailey run` was refused so, as text.
refusal() { # REASON PATTERN NAME
	if refused_as_text "$1" 125 "$2"; then
		ok "$3"
	else
		not_ok "$3" "expected [$1], text $2
$(left)"
	fi
}

# The last `bailey run` ended with this status and said this reason.
ended() { # RC REASON NAME
	if [ "$rc" = "$1" ] && says "$2"; then
		ok "$3"
	else
		not_ok "$3" "expected status $1, [$2]
$(left)"
	fi
}

# The program refuses with this reason, in both forms: two lines on standard error, or one JSON
# object on standard output. The variable text may hold a pattern for the whole of the two lines.
expect_reason() { # REASON NAME -- VERB [WORD...]
	local reason=$1 name=$2 want verb=$4 pattern=${text:-*}
	shift 4
	want=$(refusal_rc "$reason" "$verb")
	# shellcheck disable=SC2086 # a sub-verb is a word of its own
	bailey $verb "$@"
	if ! refused_as_text "$reason" "$want" "$pattern"; then
		not_ok "$name" "expected [$reason], status $want, text $pattern
$(left)"
		return 0
	fi
	# shellcheck disable=SC2086
	bailey $verb --json "$@"
	if refused_as_json "$reason" "$want"; then
		ok "$name"
	else
		not_ok "$name (JSON)" "expected reason $reason, status $want
$(left)"
	fi
}

# A command that ran came to this end, in both forms: a line and a remedy, or the field reason of
# the report.
expect_end() { # REASON RC NAME -- WORD... (of 'bailey run')
	local reason=$1 want=$2 name=$3
	shift 4
	bailey run "$@"
	if [ "$rc" != "$want" ] || ! says "$reason"; then
		not_ok "$name" "expected [$reason], status $want
$(left)"
		return 0
	fi
	bailey run --json "$@"
	if [ "$rc" = "$want" ] && flat=$(flat "$T/out") && has reason string "$reason"; then
		ok "$name"
	else
		not_ok "$name (JSON)" "expected reason $reason, status $want
$(left)"
	fi
}

# Waits until a command succeeds, at most so many tenths of a second.
until_true() { # TENTHS COMMAND...
	local n=$(($1 * 4))
	shift
	while ! "$@"; do
		n=$((n - 1))
		[ "$n" -gt 0 ] || return 1
		sleep 0.025
	done
}

# Ends what runs beside and removes DIR ('' for none); for a trap at the end.
end_beside() { # DIR [PID...]
	local dir=$1 p
	shift
	for p in "$@"; do
		kill -TERM "$p" 2>/dev/null || true
	done
	[ $# -eq 0 ] || wait
	[ -z "$dir" ] || rm -rf "$dir"
}
