# shellcheck shell=bash disable=SC2034
# What the shell suites do to the host and look up on it: background processes, private mounts, a
# sandbox's processes and cgroups.  Sourced behind tap.sh; needs BAILEY, BAILEY_HOME and T.

started=()
planted=() # cgroups made by hand

# Starts a command in the background with its output in $T/bg.out and $T/bg.err; its pid is in $bg.
start() { # COMMAND...
	# now: the background does it later, and what an earlier one wrote would be read
	: >"$T/bg.out"
	: >"$T/bg.err"
	"$@" >"$T/bg.out" 2>"$T/bg.err" </dev/null &
	bg=$!
	started+=("$bg")
}

stop_all() {
	local p
	for p in ${started[@]+"${started[@]}"}; do
		kill -KILL "$p" 2>/dev/null || true
	done
	started=()
	for p in ${planted[@]+"${planted[@]}"}; do
		[ ! -d "$p" ] || rmdir "$p"
	done
	planted=()
}

# Waits for the last one started, at most so many seconds; sets rc (137 when it had to be killed).
finish_bg() { # SECONDS
	local p=$bg
	until_true "$(($1 * 10))" eval "! kill -0 $p 2>/dev/null" ||
		kill -KILL "$p" 2>/dev/null || true
	rc=0
	wait "$p" || rc=$?
	started=()
}

# A word that no other process has among its arguments; a sandbox is found again by it.
new_mark() {
	mark=8$RANDOM$RANDOM.$RANDOM$$
}

# The processes, by pid, whose first argument matches and that have the word among their arguments.
marked() { # WORD [FIRST]
	perl -e '
		my ($word, $first) = @ARGV;
		for my $dir (glob "/proc/[0-9]*") {
			open my $f, "<", "$dir/cmdline" or next;
			local $/;
			my @words = split /\0/, <$f> // "";
			next unless @words && grep { index($_, $word) >= 0 } @words[1 .. $#words];
			next if defined $first && $words[0] !~ /$first/;
			print substr($dir, 6), "\n" if substr($dir, 6) != $$;
		}' "$@"
}

is_marked() { # WORD [FIRST]
	[ -n "$(marked "$@")" ]
}

none_marked() { # WORD [FIRST]
	[ -z "$(marked "$@")" ]
}

# The name that this home's cgroups have in common: bailey- and FNV-1a of its path.
home_name() {
	local h=2166136261 i c
	for ((i = 0; i < ${#BAILEY_HOME}; i++)); do
		printf -v c %d "'${BAILEY_HOME:i:1}"
		h=$((((h ^ c) * 16777619) & 0xffffffff))
	done
	printf 'bailey-%08x-' "$h"
}

# The cgroups of this home's sandboxes, in all hierarchies.
cgroups() {
	find /sys/fs/cgroup -type d -name "$(home_name)*" 2>/dev/null | sort
}

# Runs a shell script in a mount namespace of its own, in which it may mount: "mounter TYPE DIR
# OPTIONS", "mounter bind DIR SOURCE", "mounter ro DIR ''" (remounts read-only).  "back" in front of
# a command gives it the caller's usual rights.  A normal user gets that by a user namespace in
# which the ids stay the same.
can_mount() {
	in_private_mounts true 2>/dev/null
}

in_private_mounts() { # SCRIPT [ARGUMENT...]
	local script=$1 prelude
	shift
	# shellcheck disable=SC2016 # expanded by the shell inside
	prelude='
		mounter() {
			perl -e '\''my ($type, $dir, $data) = @ARGV;
				my $flags = $type eq "bind" ? 4096 : $type eq "ro" ? 33 : 0;
				syscall(165, my $source = $flags ? $data : "none", $dir, $type,
					$flags, $flags ? 0 : $data) == 0
					or die "mount $type at $dir: $!\n"'\'' "$@"
		}
		back() {
			if [ "$(id -u)" = 0 ]; then
				"$@"
			else
				setpriv --inh-caps=-all --ambient-caps=-all "$@"
			fi
		}
	'
	if [ "$(id -u)" -eq 0 ]; then
		unshare -m --propagation private bash -c "set -eu;$prelude$script" bash "$@"
	else
		unshare -c --keep-caps -m --propagation private bash -c "set -eu;$prelude$script" \
			bash "$@"
	fi
}
