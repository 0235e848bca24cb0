#!/usr/bin/env bash
# usage: tests/disk/run.sh [BEHAVIOUR...]
# Layers that lie in files (native.layers 'loop'): the behaviours of tests/conformance that have to do with files, on a store
# that shares blocks (xfs) and on one that doesn't (ext4), both in files below /var/tmp.  A normal user is refused, which is
# looked at too.  Needs root and loop devices for the rest.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/user.sh"

PATH=$PATH:/usr/sbin:/sbin
T='' mounts=()
behaviours=(create stop-start files-persist disk-full df stats inspect diff apply cp-trees cow-workspace fork-stopped
	fork-running fork-chain fork-identity fork-progress snapshot three-ways ttl prune owner-killed)
[ $# -eq 0 ] || behaviours=("$@")

clean() {
	for m in ${mounts[@]+"${mounts[@]}"}; do
		umount "$m" || umount -l "$m" || true
	done
	rm -rf "$T"
}

# What a setting that can't be had says; nothing is made.
refused_setting() { # NAME REASON VALUE [STORE]
	local rc=0
	BAILEY_HOME=$T/home BAILEY_NATIVE_LAYERS=$3 BAILEY_NATIVE_LAYER_STORE=${4-} \
		timeout -s KILL 20 "$BAILEY" create >"$T/out" 2>"$T/err" </dev/null || rc=$?
	if [ "$rc" -ne 0 ] && grep -q "\[$2\]" "$T/err" && grep -q '^  try: ' "$T/err" && ! [ -s "$T/out" ] &&
		[ -z "$(ls -A "$T/home/sandbox/runs" 2>/dev/null)" ]; then
		ok "$1"
	else
		not_ok "$1" "status $rc, not [$2]: $(cat "$T/out" "$T/err"; ls -A "$T/home/sandbox/runs" 2>&1)"
	fi
}

# doctor tries what the setting asks for, and speaks of nothing that it doesn't.
doctor() { # NAME PATTERN KIND [STORE]
	local line
	line=$(BAILEY_HOME=$T/home BAILEY_NATIVE_LAYERS=$3 BAILEY_NATIVE_LAYER_STORE=${4-} \
		timeout -s KILL 60 "$BAILEY" doctor 2>&1 </dev/null | grep -A 3 'layer-store' || true)
	like "$1" "$2" "$line"
}

refusals() {
	mkdir -m 700 "$T/home" "$T/open"
	refused_setting 'settings: a kind that there is not' bad_value disk
	refused_setting 'settings: a store that is no absolute path' bad_value loop layers
	doctor 'doctor: says nothing of a store that nobody asked for' '' tmpfs
	if [ "$(id -u)" -ne 0 ]; then
		refused_setting 'settings: a normal user has no loop devices' layer_unsupported loop
		if grep -q "native.layers" "$T/err"; then
			ok 'settings: and is told what to set'
		else
			not_ok 'settings: and is told what to set' "$(cat "$T/err")"
		fi
		doctor 'doctor: says it too' '*layer_unsupported*' loop
		return
	fi
	doctor 'doctor: tries the store' '*\[state_unwritable\]*' loop "$T/none"
	refused_setting 'settings: a store that is not there' state_unwritable loop "$T/none"
	chmod 777 "$T/open"
	refused_setting 'settings: a store that others can write to' state_unwritable loop "$T/open"
}

# A file system in a file, mounted at $T/NAME.
make_store() { # NAME MKFS...
	local name=$1
	shift
	truncate -s 12G "$T/$name.img"
	"$@" "$T/$name.img" >"$T/mkfs.log" 2>&1 || return 1
	mkdir "$T/$name"
	mount -o loop,nosuid,nodev "$T/$name.img" "$T/$name" 2>"$T/mkfs.log" || return 1
	mounts+=("$T/$name")
	mkdir -m 700 "$T/$name/layers"
}

run_on() { # NAME
	BAILEY_NATIVE_LAYERS=loop BAILEY_NATIVE_LAYER_STORE=$T/$1/layers \
		"$here/../conformance/run.sh" --jobs 2 "${behaviours[@]}" >"$T/$1.log" 2>&1 || true
	sed -n "s/^\(ok\|not ok\|skip\) /\1 $1: /p; /^    /p" "$T/$1.log" | tee -a "$T/all"
	# the template of a size is all that has a name
	if [ -z "$(find "$T/$1/layers" -mindepth 1 ! -name 'template-*')" ]; then
		ok "$1: nothing is left in the store"
	else
		not_ok "$1: nothing is left in the store" "$(ls -A "$T/$1/layers")"
	fi
}

main() {
	find_bailey
	T=$(mktemp -d /var/tmp/bailey-disk.XXXXXX)
	trap clean EXIT
	trap 'exit 130' INT TERM
	: >"$T/all"
	refusals
	if [ "$(id -u)" -ne 0 ]; then
		finish
		return
	fi
	if ! [ -w /dev/loop-control ]; then
		skip 'loop-devices' 'there is no /dev/loop-control here'
		finish
		return
	fi
	for store in xfs ext4; do
		case $store in
		xfs) mkfs=(mkfs.xfs -q -m reflink=1) ;;
		ext4) mkfs=(mkfs.ext4 -q -F -m 0) ;;
		esac
		if make_store $store "${mkfs[@]}"; then
			doctor "$store: doctor" '*works*' loop "$T/$store/layers"
			run_on $store
		else
			not_ok "$store: a store is made" "$(cat "$T/mkfs.log")"
		fi
	done
	passed=$((passed + $(grep -c '^ok ' "$T/all" || true)))
	failed=$((failed + $(grep -c '^not ok ' "$T/all" || true)))
	skipped=$((skipped + $(grep -c '^skip ' "$T/all" || true)))
	finish
}

main
