#!/usr/bin/env bash
# usage: tests/leak/living.sh [COUNT]
# Sandboxes that live leave nothing behind: makes and removes COUNT of them (BAILEY_TEST_CREATES, else 200), four at a time, of
# six kinds: unused, used, forked, stopped and started, with a command, with an owner that is killed.  Then there is
# no cgroup, process, run directory, range of ids or key of theirs, and the kernel holds no more mounts, network namespaces and
# open files than before, but for what others do.  Runs as whoever calls it.
# Needs bash, coreutils and perl-base.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/user.sh"

T='' workers=4
# ranges that no other home of the host uses: those held now are this suite's
export BAILEY_IDS_BASE=721420288 BAILEY_IDS_COUNT=512

cleanup() {
	local d
	stop_all
	[ -n "$T" ] || return 0
	for d in "$BAILEY_HOME"/sandbox/runs/*/; do
		[ ! -d "$d" ] || "$BAILEY" rm --force "$(basename "$d")" >/dev/null 2>&1 || true
	done
	rm -rf "$T"
}

owner_of() { # ID
	sed -n 's/^owner_pid //p' "$BAILEY_HOME/sandbox/runs/$1/meta"
}

# One of a kind; its status says whether all went as it had to.
one() { # NUMBER
	local sb other
	sb=$("$BAILEY" create) || return
	case $(($1 % 6)) in
	1) "$BAILEY" exec "$sb" -- true || return ;;
	2)
		other=$("$BAILEY" fork "$sb") || return
		"$BAILEY" rm --force "$other" || return
		;;
	3) "$BAILEY" stop "$sb" && "$BAILEY" start "$sb" || return ;;
	4) "$BAILEY" exec --detach "$sb" -- sh -c 'sleep 1000 & sleep 1000' || return ;;
	5)
		# what serves clients hears of it a little later
		kill -KILL "$(owner_of "$sb")" && until_true 50 "$BAILEY" rm --force "$sb" 2>/dev/null
		return
		;;
	esac
	"$BAILEY" rm --force "$sb"
}

work() { # FIRST COUNT
	local i
	for ((i = $1; i < $2; i += workers)); do
		one "$i" >/dev/null || echo "number $i, of kind $((i % 6))"
	done
}

make_all() { # COUNT
	local w
	for ((w = 0; w < workers; w++)); do
		work "$w" "$1" >"$T/wrong.$w" 2>&1 &
		started+=("$!")
	done
	wait
	started=()
	cat "$T"/wrong.*
}

# --- what is counted: this home's own, exactly ---

count_runs() {
	find "$BAILEY_HOME/sandbox/runs" "$BAILEY_HOME/sandbox/names" -mindepth 1 | wc -l
}

count_ids() {
	local inodes first=$((BAILEY_IDS_BASE / 65536))
	inodes=" $(stat -c %i /run/bailey/ids.? | tr '\n' ' ')"
	awk -v inodes="$inodes" -v first="$first" -v end=$((first + BAILEY_IDS_COUNT)) '
		{ split($6, file, ":") }
		index(inodes, " " file[3] " ") && $7 >= first && $7 < end { n++ }
		END { print n + 0 }' /proc/locks
}

# Keys of the users of those ranges; a keyring goes a little after its last process.
count_keys() {
	awk -F : -v first="$BAILEY_IDS_BASE" -v n="$BAILEY_IDS_COUNT" '
		$1 + 0 >= first && $1 + 0 < first + n * 65536 { k++ }
		END { print k + 0 }' /proc/key-users
}

# Owners have the home in their environment.
count_processes() {
	perl -e 'my ($home, $n) = ($ARGV[0], 0);
		for my $f (glob "/proc/[0-9]*/environ") {
			next if $f =~ m{^/proc/($$|self)/};
			open my $h, "<", $f or next;
			local $/;
			my $comm = "";
			if (open my $c, "<", $f =~ s/environ$/comm/r) { $comm = <$c> // "" }
			$n++ if $comm =~ /^bailey/ && index("\0" . (<$h> // ""), "\0BAILEY_HOME=$home\0") >= 0;
		}
		print "$n\n"' "$BAILEY_HOME"
}

count_cgroups() {
	cgroups | wc -l
}

# --- and what the kernel has of all ---

# Objects of a cache; 0 where it is merged with another.
count_slab() { # CACHE
	awk -v name="$1" '$1 == name { n = $2 } END { print n + 0 }' /proc/slabinfo
}

count_files() {
	cut -f 1 /proc/sys/fs/file-nr
}

is_at_most() { # MAXIMUM COMMAND...
	[ "$("${@:2}")" -le "$1" ]
}

is_at_least() { # MINIMUM COMMAND...
	[ "$("${@:2}")" -ge "$1" ]
}

# So that nothing below holds because nothing is seen.
see_one() {
	local sb thing
	sb=$("$BAILEY" create)
	for thing in "${exact[@]}"; do
		holds "control: $thing of one that lives" is_at_least 1 "count_$thing"
	done
	"$BAILEY" rm --force "$sb"
}

main() {
	local count=${1:-${BAILEY_TEST_CREATES:-200}} thing before=() i most began=$SECONDS
	local exact=(runs processes cgroups) shared=(files) allowed=(1000)
	# ranges and keys of its own has a sandbox that root makes, and only root sees the kernel's caches
	if [ "$(id -u)" -eq 0 ]; then
		exact+=(ids keys)
		shared+=('slab mnt_cache' 'slab net_namespace')
		allowed+=(1000 100)
	fi
	case $count in
	'' | *[!0-9]*)
		sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
		exit 2
		;;
	esac
	find_bailey
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	T=$(mktemp -d /var/tmp/bailey-living.XXXXXX)
	export BAILEY_HOME=$T/home
	one 0 >/dev/null # what is made once and stays
	for thing in "${shared[@]}"; do
		# shellcheck disable=SC2086 # words
		before+=("$(count_$thing)")
	done
	see_one
	is "$count are made and removed" '' "$(make_all "$count")"
	"$BAILEY" prune >/dev/null # sweeps what the killed ones left
	for thing in "${exact[@]}"; do
		holds "no $thing left" until_true 100 is_at_most 0 "count_$thing"
	done
	# others on this host do things too: of mounts and files a sandbox has dozens
	for i in "${!shared[@]}"; do
		thing=${shared[i]}
		most=$((before[i] + allowed[i]))
		# shellcheck disable=SC2086
		if until_true 300 is_at_most "$most" count_$thing; then
			ok "$thing: ${before[i]} before, $(count_$thing) after"
		else
			not_ok "$thing" "before ${before[i]}, after $(count_$thing)"
		fi
	done
	echo "# $count sandboxes: $((SECONDS - began)) s"
	finish
}

main "$@"
