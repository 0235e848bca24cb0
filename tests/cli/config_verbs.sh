#!/usr/bin/env bash
# Tests of the command line itself and of the verbs config, completion, help and version, on the built program.
# BAILEY names it.
set -eu

bailey=${BAILEY:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BAILEY_HOME=$work/home
mkdir -p "$BAILEY_HOME"
passed=0 failed=0

result() { # NAME GOOD DETAIL
	if [ "$2" = yes ]; then
		echo "ok $1"
		passed=$((passed + 1))
	else
		printf 'not ok %s\n    %s\n' "$1" "$3"
		failed=$((failed + 1))
	fi
}

# Runs bailey with the words behind '--'; status, and patterns (of bash) that stdout and stderr must match.
expect() { # NAME STATUS STDOUT STDERR -- WORD...
	local name=$1 status=$2 out=$3 err=$4 got=0 good=yes
	shift 5
	"$bailey" "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
	# shellcheck disable=SC2053 # the right sides are patterns
	[[ $got == "$status" && $(cat "$work/out") == $out && $(cat "$work/err") == $err ]] || good=no
	result "$name" $good "status $got, stdout $(head -c 300 "$work/out" | cat -v), stderr $(head -c 300 "$work/err" | cat -v)"
}

expect 'no verb' 2 '' 'usage: bailey *' --
expect 'help' 0 'bailey: *Usage: *  config *--version*' '' -- --help
expect 'help on a verb' 0 'bailey log: *--follow*' '' -- help log
expect 'help on a sub-verb' 0 'bailey config show: *--origin*' '' -- config show --help
expect 'help on nothing known' 2 '' '*no such verb*' -- help nothing
expect 'version' 0 'bailey [0-9]*.[0-9]*.[0-9]*' '' -- --version
expect 'version as a verb' 0 'bailey [0-9]*' '' -- version
expect 'version as JSON' 0 '{"version":"[0-9]*"}' '' -- --version --json
expect 'unknown verb' 2 '' "bailey: *'lgo'* \[usage]
  try: *'bailey log'*" -- lgo
expect 'unknown verb as JSON' 2 '{"error":{"reason":"usage","message":"*","remedy":"*","retry":"never"}}' '' -- lgo --json
expect 'unknown sub-verb' 2 '' "*'config shows'*'bailey config show'*" -- config shows
expect 'no sub-verb' 2 '' '*no sub-verb*' -- config
expect 'unknown flag' 2 '' "*'--folow'*'--follow'*" -- log --folow
expect 'unknown flag as JSON' 2 '{"error":{"reason":"usage",*' '' -- log --folow --json
expect 'flag twice' 2 '' '*given twice*' -- log --lines 1 --lines 2
expect 'value out of range' 2 '' '*1 to 1000000*\[value_out_of_range]*' -- log -n 0
expect 'value of another form' 2 '' '*\[bad_value]*' -- log -n x
expect 'too many arguments' 2 '' '*too many*' -- version 1
expect 'too few arguments' 2 '' '*too few*bash|zsh|fish*' -- completion
expect 'control bytes in a verb' 2 '' '*control bytes*' -- $'a\e[2J'
expect 'an escape is shown, not sent' 2 '' '*\\x1b\[2J*' -- log -n $'\e[2J'

out_is() { # NAME STATUS PATTERN, of the last redirected run
	local good=yes
	# shellcheck disable=SC2053
	[[ $got == "$2" && $(cat "$work/err") == $3 ]] || good=no
	result "$1" $good "status $got, stderr $(cat "$work/err")"
}
got=0
"$bailey" version >&- 2>"$work/err" || got=$?
out_is 'closed standard output' 5 '*\[output_failed]*'
got=0
"$bailey" version >/dev/full 2>"$work/err" || got=$?
out_is 'full standard output' 5 '*No space left*\[output_failed]*'
mkfifo "$work/fifo"
: <"$work/fifo" &
got=0
exec 3>"$work/fifo"
wait $!
"$bailey" version >&3 2>"$work/err" || got=$?
exec 3>&-
out_is 'standard output without a reader' 5 '*Broken pipe*\[output_failed]*'

config=$BAILEY_HOME/config.toml
unset "${!BAILEY_RUN_@}" "${!BAILEY_IDS_@}"
expect 'config show' 0 '*memory = "2g"*' '' -- config show
printf '[run]\nmemory = "3g"\ncpus = 0.5\n' >"$config"
expect 'config show reads the file' 0 '*memory = "3g"*' '' -- config show
expect 'config show names file and line' 0 "*memory = \"3g\"*# $config:2*pids = 256 *# default*" '' -- config show --origin
export BAILEY_RUN_MEMORY=4g
expect 'config show names the variable' 0 '*memory = "4g" *# environment BAILEY_RUN_MEMORY*' '' -- config show --origin
expect 'config show as JSON' 0 \
	'{"config":{*"run.memory":{"value":4294967296,"text":"4g","origin":"environment","variable":"BAILEY_RUN_MEMORY"}*}}' '' \
	-- config show --json
unset BAILEY_RUN_MEMORY
"$bailey" config show >"$work/shown"
cp "$work/shown" "$config"
expect 'config show can be read back' 0 "$(sed 's/[][*?\\]/\\&/g' "$work/shown")" '' -- config show
expect 'config check' 0 "*ok: $config" '' -- config check
expect 'config check as JSON' 0 "{\"ok\":true,\"files\":\[*\"$config\"]}" '' -- config check --json
printf '[run]\nmemory = \n' >"$config"
expect 'config check names line and column' 2 '' "*config.toml:2:*\[config_invalid]*" -- config check
expect 'a broken file stops other verbs' 2 '' '*config_invalid*' -- config show
expect 'a broken file leaves help alone' 0 '*Usage: *' '' -- config show --help
printf '[run]\nmemroy = 1\n' >"$config"
expect 'unknown key' 2 '' "*config.toml:2'*'run.memroy'*'run.memory'*" -- config check
printf '[run]\nunlimited = true\n' >"$config"
expect 'a way out of a wall in a file' 2 '' '*config_invalid*--unlimited*' -- config check
rm "$config"
export BAILEY_RUN_UNLIMITED=true
expect 'a way out of a wall in a variable' 2 '' '*BAILEY_RUN_UNLIMITED*--unlimited*' -- config check
unset BAILEY_RUN_UNLIMITED
echo >"$config"
BAILEY_LIBEXEC=$work expect 'a config file without its reader' 2 '' '*bailey-toml*Reinstall*' -- config check
rm "$config"
expect 'no config file' 0 '*ok: *' '' -- config check

# What the script offers for a line; the last word is the one being typed.
offers() { # NAME PATTERN WORD...
	local name=$1 pattern=$2 got good=yes
	shift 2
	got=$("$bailey" completion bash >"$work/c" && bash -c \
		'. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bailey; printf "%s " "${COMPREPLY[@]}"' sh "$work/c" "$@")
	# shellcheck disable=SC2053
	[[ " $got" == $pattern ]] || good=no
	result "$name" $good "offered: $got"
}
offers 'bash completes verbs' ' config completion ' bailey co
offers 'bash completes sub-verbs' ' show check ' bailey config ''
offers 'bash completes flags' ' --origin ' bailey config show --o
offers 'bash completes letters too' '* -n *' bailey log -
offers 'bash completes shells' ' zsh ' bailey completion z
offers 'bash completes no flag for a value' '  ' bailey log --lines ''
expect 'completion for an unknown shell' 2 '' '*csh*\[bad_value]*' -- completion csh

if grep -q __asan_init "$bailey"; then
	: # a sanitizer brings its own
elif command -v readelf >/dev/null; then
	needed=$(readelf -d "$bailey" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
	case $needed in
	libc.so.6) result 'bailey links libc alone' yes '' ;;
	*) result 'bailey links libc alone' no "it links $needed" ;;
	esac
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
