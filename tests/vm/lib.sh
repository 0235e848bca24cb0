# shellcheck shell=bash disable=SC2034 # what it sets, the suites read
# Sourced by the suites that run inside the guest: the three kinds of line, and what a run of bailey gave.
export LC_ALL=C
bailey=${BAILEY:-/opt/bailey/bin/bailey}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 skipped=0
status=0 seconds=0

ok() {
	passed=$((passed + 1))
	echo "ok $*"
}

not_ok() {
	failed=$((failed + 1))
	echo "not ok $*"
	echo "    exit $status, stdout: $(head -c 600 "$scratch/out" 2>/dev/null | tr '\n' ' ')"
	echo "    stderr: $(head -c 600 "$scratch/err" 2>/dev/null | tr '\n' ' ')"
}

skip() {
	skipped=$((skipped + 1))
	echo "skip $*"
}

# check NAME COMMAND...: ok when the command is true.
check() {
	local name=$1

	shift
	if "$@" >"$scratch/check" 2>&1; then
		ok "$name"
	else
		not_ok "$name: $(head -n 1 "$scratch/check")"
	fi
}

# Runs bailey with a deadline of its own; leaves $status, $seconds and the two outputs.
bailey_run() {
	local start=$EPOCHREALTIME

	status=0
	timeout -k 5 120 "$bailey" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
	seconds=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
}

# The value of a key anywhere in the JSON object that the last run printed; false when there is none.
json() {
	local value

	# no value is the one sign of failure: jq 1.6 takes an empty file for a success
	value=$(jq -r --arg key "$1" 'first(.. | objects | select(has($key)) | .[$key] | values | tostring)' \
		"$scratch/out" 2>"$scratch/jq") || true
	[ -n "$value" ] || { echo "no $1: $(head -n 1 "$scratch/jq")"; return 1; }
	echo "$value"
}

json_object() {
	[ "$(jq -r type "$scratch/out" 2>&1)" = object ] || { echo "not one JSON object"; return 1; }
}

# is VALUE WANTED, between VALUE LOW HIGH: with a message when not.
is() {
	[ "$1" = "$2" ] || { echo "'$1' instead of '$2'"; return 1; }
}

between() {
	awk -v v="$1" -v lo="$2" -v hi="$3" 'BEGIN { exit !(v != "" && v + 0 >= lo && v + 0 <= hi) }' ||
		{ echo "'$1' is not between $2 and $3"; return 1; }
}

json_is() {
	local value

	value=$(json "$1") || { echo "$value"; return 1; }
	is "$value" "$2"
}

json_between() {
	local value

	value=$(json "$1") || { echo "$value"; return 1; }
	between "$value" "$2" "$3"
}

# soon SECONDS COMMAND...: true once the command is.
soon() {
	local end=$((SECONDS + $1))

	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.2
	done
}

finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
}
