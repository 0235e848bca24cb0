# shellcheck shell=bash
# Behaviour of run.sh: owner, channel or guest are killed in the middle of each verb: it ends, and what is said afterwards is true.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

# how many moments of each pair: they lie between the verb's begin and a bit behind its usual end
moments=4
[ "$maker" = native ] || moments=1 # a container takes a hundred times as long
moments=${BAILEY_TEST_MOMENTS:-$moments}
wrong=() killed=0 hung=0 tries=0

# What is there can be listed, is in a state that there is, and can be removed.
judge() { # WHAT
	local id state
	[ "$rc" -ne 137 ] || hung=$((hung + 1))
	if [ "$rc" -ne 0 ] && ! tail -n 2 "$T/err" | grep -qE '^bailey: .*\[[a-z_]+\]$'; then
		wrong+=("$1: status $rc without a reason: $(head -c 200 "$T/err")")
	fi
	limit=10 bailey ls --all --json
	[ "$rc" -eq 0 ] || wrong+=("$1: ls: $(left)")
	while read -r id state; do
		case $state in
		running | paused | stopped | lost | snapshot | creating | removing) ;;
		*) wrong+=("$1: $id is in the state '$state'") ;;
		esac
		limit=20 bailey rm --force "$id"
		[ "$rc" -eq 0 ] || says sandbox_not_found || wrong+=("$1: rm: $(left)")
	done < <(perl "$lib/json.pl" <"$T/out" 2>/dev/null |
		awk -F '\t' '$1 ~ /\.id$/ { id = $3 } $1 ~ /\.state$/ { print id, $3 }')
}

# One verb, one victim, at each moment of so many microseconds.
kill_at() { # VICTIM MICROSECONDS WORD...
	local victim=$1 most=$2 i n at=0
	shift 2
	n=$moments
	[ "$1" != create ] || n=$((moments * 5))
	for ((i = 0; i < n; i++)); do
		at=$((most * i / n))
		owner=0
		if [ "$1" != create ]; then
			sb=
			bailey create
			sb=$(cat "$T/out")
			[ -n "$sb" ] || {
				wrong+=("$1: no sandbox: $(left)")
				return
			}
			owner=$(owner_of "$sb")
			GUEST=''
			[ "$victim:$maker" != guest:docker ] || GUEST=$(guest_of "$sb")
			export GUEST
			[ "$1" != start ] || bailey stop "$sb"
		fi
		try perl "$here/killer.pl" "$T/killed" "$victim" "$at" "$owner" "$BAILEY" "${@//@/$sb}"
		killed=$((killed + $(cat "$T/killed")))
		tries=$((tries + 1))
		judge "$1, $victim killed after $at us"
	done
}

mkdir "$T/tree"
head -c 3000000 /dev/urandom >"$T/tree/large"
for i in {1..50}; do
	echo "$i" >"$T/tree/$i"
done
for victim in owner channel guest new; do
	[ "$victim" = guest ] || [ "$victim" = channel ] || kill_at "$victim" 16000 create
	[ "$victim" = new ] || {
		kill_at "$victim" 8000 exec @ -- sh -c 'head -c 1000000 /dev/zero'
		kill_at "$victim" 12000 cp "$T/tree" @:/workspace/tree
		kill_at "$victim" 8000 cp @:/etc "$T/out-tree"
		kill_at "$victim" 6000 stop @
		kill_at "$victim" 8000 start @
		kill_at "$victim" 8000 rm @
	}
	[ "$victim" = guest ] || {
		kill_at "$victim" 16000 snapshot @
		kill_at "$victim" 16000 fork @
	}
	is "$victim: none waits for ever" 0 "$hung"
	is "$victim: all end with a reason, are listed and can be removed" '' \
		"$(printf '%s\n' ${wrong[@]+"${wrong[@]}"})"
	between "$victim: kills that hit something, of $tries" $((tries / 4)) 100000 "$killed"
	wrong=() killed=0 hung=0 tries=0
done
rm -rf "$T/tree" "$T/out-tree"
bailey prune
is 'prune' 0 "$rc"

# with one range of ids for all, a killed owner's has to be free again
if [ "$who $maker" = 'root native' ]; then
	export BAILEY_IDS_BASE=3000041472 BAILEY_IDS_COUNT=1
	for i in 1 2 3 4; do
		bailey create
		is "range of ids, time $i" 0 "$rc"
		owner=$(owner_of "$(cat "$T/out")")
		[ "$i" -ne 1 ] || refuses id_range_exhausted 'while it is taken there is none' create
		kill -KILL "$owner"
		until_true 50 dead "$owner" || true
	done
	unset BAILEY_IDS_BASE BAILEY_IDS_COUNT
	bailey prune
fi
is 'no sandbox is left' '' "$(ids)"
