#!/usr/bin/env bash
# usage: tests/cli/config_docs.sh GENDOC BAILEY
# Holds the help, the man pages and the completions against the tables: what one of them leaves out is named.
# The build runs it as a test.
# shellcheck disable=SC2317 # the functions are called by check
set -eu

gendoc=$1 bailey=$2
failed=0
# without a dot: mandoc takes ".5" anywhere in a path for the section of a page
work=$(mktemp -d "${TMPDIR:-/tmp}/bailey-docs-XXXXXX")
trap 'rm -rf "$work"' EXIT

check() { # NAME COMMAND...
	local name=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		echo "ok $name"
	else
		echo "not ok $name"
		sed 's/^/    /' "$work/out"
		failed=1
	fi
}

# Each pattern in the file, or the ones that are missing are printed.
all_in() { # FILE PATTERN...
	local file=$1 missing=0 p
	shift
	for p in "$@"; do
		grep -qF -e "$p" "$file" || { echo "missing: $p"; missing=1; }
	done
	return "$missing"
}

# So that an empty list can't pass for a complete one.
at_least() {
	[ "$(wc -l <"$1")" -ge "$2" ] || { echo "$1 has fewer than $2 lines"; return 1; }
}

for list in flags keys verbs; do
	"$gendoc" "$list" >"$work/$list"
done
check 'the lists are whole' eval "at_least $work/flags 40 && at_least $work/keys 10 && at_least $work/verbs 10"

for shell in bash zsh fish; do
	"$bailey" completion $shell >"$work/completion.$shell"
done
"$gendoc" bailey >"$work/bailey.1"
"$gendoc" bailey.toml >"$work/bailey.toml.5"

# $verb is "config show" or "" for bailey itself
check_verb() {
	local verb=$1 page=${1%% *} flags=() macros=() fish=() f
	while IFS= read -r f; do
		flags+=("$f")
		macros+=("Fl \\-$(printf %s "${f#--}" | sed 's/-/\\-/g')")
		fish+=("-l ${f#--} ")
	done < <(awk -F '\t' -v v="$verb" '$1 == v { print $2 }' "$work/flags")
	# shellcheck disable=SC2086 # a sub-verb is a word of its own
	"$bailey" $verb --help >"$work/help" || return 1
	"$gendoc" "bailey${page:+-$page}" >"$work/page" || return 1
	[ ${#flags[@]} -ge 2 ] || { echo 'fewer than two flags'; return 1; }
	# the part of each script that belongs to the verb
	sed -n "/^\t\t'$verb')/,/;;/p" "$work/completion.bash" >"$work/bash"
	sed -n "/^_bailey${verb:+_${verb// /_}}() {/,/^}/p" "$work/completion.zsh" >"$work/zsh"
	if [ -z "$verb" ]; then
		grep -e '__fish_use_subcommand' "$work/completion.fish" >"$work/fish"
	else
		grep -e "__fish_seen_subcommand_from ${verb##* }'" "$work/completion.fish" >"$work/fish"
	fi
	all_in "$work/help" "${flags[@]}" && all_in "$work/page" "${macros[@]}" && all_in "$work/bash" "${flags[@]}" &&
		all_in "$work/zsh" "${flags[@]}" && all_in "$work/fish" "${fish[@]}"
}

check 'flags of bailey' check_verb ''
while IFS= read -r verb; do
	# shellcheck disable=SC2086 # a sub-verb is a word of its own
	if ! "$bailey" help $verb >/dev/null 2>&1; then
		echo "skip flags of bailey $verb: it was built without this verb"
		continue
	fi
	check "flags of bailey $verb" check_verb "$verb"
	case $verb in
	*' '*) ;;
	*)
		"$bailey" --help >"$work/help"
		check "verb $verb in help and page" eval \
			"all_in $work/help '  $verb ' && all_in $work/bailey.1 '.It Cm $verb' '.Xr bailey-$verb 1'"
		;;
	esac
done <"$work/verbs"

check_keys() {
	local key variable
	"$bailey" config show --json >"$work/show"
	while IFS=$'\t' read -r key variable; do
		all_in "$work/bailey.toml.5" ".It Va $key" ".Ev $variable" || return 1
		all_in "$work/show" "\"$key\":" || return 1
		all_in "$work/bailey.1" ".It Ev $variable" || return 1
	done <"$work/keys"
}
export BAILEY_HOME=$work/home
check 'keys in the page and in config show' check_keys

check_reasons() {
	local reasons
	reasons=$(sed -n 's/^REASON([A-Z_]*, *"\([a-z_]*\)".*/\1/p' "$(dirname "$0")/../../src/base/reasons.def")
	[ "$(printf '%s\n' "$reasons" | wc -l)" -ge 20 ] || { echo 'reasons.def not understood'; return 1; }
	for r in $reasons; do
		all_in "$work/bailey.1" ".It Er $r " || return 1
	done
}
check 'reasons in the page' check_reasons

# The rows of docs/profiles.md are the table's, and it has no others.
check_params() {
	local page
	page=$(dirname "$0")/../../docs/profiles.md
	"$gendoc" params >"$work/params"
	at_least "$work/params" 20 || return 1
	sed -n '/^## Parameters/,/^## /s/^| `.*/&/p' "$page" | diff - "$work/params"
}
check 'parameters in docs/profiles.md' check_params
check_params_page() {
	local keys
	mapfile -t keys < <(cut -d '`' -f 4 "$work/params" | sort -u | sed 's/^/.It Cm /')
	"$gendoc" bailey-create >"$work/page"
	all_in "$work/page" "${keys[@]}"
}
check 'parameters in the page' check_params_page

syntax() { # SHELL ARG...
	if command -v "$1" >/dev/null; then
		check "$1 accepts its completion" "$@"
	else
		echo "skip $1 accepts its completion: $1 is not installed"
	fi
}
syntax bash -n "$work/completion.bash"
syntax zsh -n "$work/completion.zsh"
syntax fish -n "$work/completion.fish"

if command -v mandoc >/dev/null; then
	for page in bailey bailey.toml $(sed -n '/ /!s/^/bailey-/p' "$work/verbs"); do
		"$gendoc" "$page" >"$work/page"
		check "mandoc on $page" mandoc -Tlint -W warning "$work/page"
	done
else
	echo 'skip mandoc on the pages: mandoc is not installed'
fi
exit $failed
