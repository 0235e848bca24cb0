#!/bin/sh
# Hands a user a cgroup subtree in which Bailey may set limits, where no systemd of the user's does
# it; takes it back.
#   tools/delegate.sh up [USER [NAME]]     prints BAILEY_CGROUP_PARENT=..., for the environment of bailey
#   tools/delegate.sh down [USER [NAME]]   removes the subtree; nothing may run in it any more
#   tools/delegate.sh needed               exits with 0 when the caller has no limits without it
# USER is the caller unless named, NAME is bailey-UID.  Works as root or through sudo.  The subtree
# lies below the caller's own cgroup, so that its limits go on to hold.  cgroup v2 without systemd:
# the calling shell is moved into the subtree, since a process may only be placed by who may write
# to the place it comes from.
# shellcheck disable=SC2016 # the scripts given to a root shell expand their own arguments
set -eu

usage() {
	echo "usage: delegate.sh up|down [USER [NAME]] | needed" >&2
	exit 2
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# mount_of TYPE CONTROLLER: "mount-point root-of-the-mount" of the hierarchy; the controller may be
# empty.
mount_of() {
	awk -v type="$1" -v want="$2" '{
		for (i = 7; $i != "-"; i++) ;
		if ($(i + 1) == type && (want == "" || ("," $(i + 3) ",") ~ ("," want ","))) { print $5, $4; exit }
	}' /proc/self/mountinfo
}

# own_of CONTROLLER: the caller's own cgroup as /proc names it; empty: v2.
own_of() {
	awk -F: -v want="$1" '(want == "" && $1 == 0) || (want != "" && ("," $2 ",") ~ ("," want ",")) {
		sub(/^[^:]*:[^:]*:/, ""); print; exit
	}' /proc/self/cgroup
}

# own_dir TYPE CONTROLLER: the caller's own cgroup as a directory; the mount itself where it is not
# visible.
own_dir() {
	found=$(mount_of "$1" "$2")
	[ -n "$found" ] || return 1
	own_mount=${found% *}
	own_root=${found##* }
	own=$(own_of "$2")
	[ "$own_root" = / ] || own=${own#"$own_root"}
	[ "$own" != / ] || own=
	if [ -n "$own" ] && [ -d "$own_mount$own" ]; then
		echo "$own_mount$own"
	else
		echo "$own_mount"
	fi
}

up_v1() {
	for c in $controllers; do
		dir=$(own_dir cgroup "$c") || {
			# only pauses need it, and they have another way
			[ "$c" != freezer ] || continue
			echo "delegate.sh: no cgroup hierarchy has the controller '$c'" >&2
			exit 1
		}
		as_root mkdir -p "$dir/$name"
		as_root chown "$user" "$dir/$name" "$dir/$name/cgroup.procs" "$dir/$name/tasks"
	done
	echo "BAILEY_CGROUP_PARENT=$name"
}

up_v2() {
	dir=$(own_dir cgroup2 "")
	found=$(mount_of cgroup2 "")
	as_root mkdir -p "$dir/$name/caller"
	for d in "$dir" "$dir/$name"; do
		as_root sh -c 'echo "+memory +pids +cpu" >"$1/cgroup.subtree_control"' sh "$d" 2>/dev/null || {
			as_root rmdir "$dir/$name/caller" "$dir/$name"
			echo "delegate.sh: '$d' can't hand on memory, pids and cpu: it holds processes, or lacks them" >&2
			exit 1
		}
	done
	for f in "" /cgroup.procs /cgroup.subtree_control /caller /caller/cgroup.procs; do
		as_root chown "$user" "$dir/$name$f"
	done
	as_root sh -c 'echo "$2" >"$1/cgroup.procs"' sh "$dir/$name/caller" "$PPID"
	parent=${dir#"${found% *}"}/$name
	echo "BAILEY_CGROUP_PARENT=${parent#/}"
}

# remove DIR: a cgroup directory is removed by rmdir, the inner ones first; the last killed process
# may still be leaving.
remove() {
	[ -d "$1" ] || return 0
	tries=0
	while :; do
		as_root find "$1" -depth -type d -exec rmdir {} \; 2>/dev/null || true
		[ -d "$1" ] || return 0
		tries=$((tries + 1))
		[ "$tries" -lt 20 ] || break
		sleep 0.1
	done
	echo "delegate.sh: '$1' is still in use" >&2
	return 1
}

down() {
	status=0
	for c in $controllers; do
		dir=$(own_dir cgroup "$c") || continue
		remove "$dir/$name" || status=1
	done
	[ -z "$v2" ] || {
		# the calling shell may be inside: then the subtree is two levels up
		dir=$(own_dir cgroup2 "")
		case $dir in
		*/"$name"/caller)
			dir=${dir%/"$name"/caller}
			as_root sh -c 'while read -r p; do echo "$p" >"$2/cgroup.procs"; done <"$1"' sh \
				"$dir/$name/caller/cgroup.procs" "$dir" || status=1
			;;
		esac
		remove "$dir/$name" || status=1
	}
	return $status
}

# Root makes its own cgroups, and on cgroup v2 a user's systemd is asked for some.
needed() {
	[ "$uid" -ne 0 ] && [ -z "${BAILEY_CGROUP_PARENT:-}" ] &&
		! { [ -n "$v2" ] && [ -S "/run/user/$uid/systemd/private" ]; }
}

verb=${1:-}
user=${2:-$(id -un)}
uid=$(id -u "$user")
name=${3:-bailey-$uid}
case $name in
*/* | .* | "") usage ;;
esac
controllers="memory pids cpu freezer"
v2=
[ -n "$(mount_of cgroup memory)" ] || {
	controllers=
	v2=1
}
case $verb in
up)
	if [ -n "$v2" ]; then
		up_v2
	else
		up_v1
	fi
	;;
down) down ;;
needed) needed ;;
*) usage ;;
esac
