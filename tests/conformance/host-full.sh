# shellcheck shell=bash
# Behaviour of run.sh: the host's disk is full, below Bailey's home or where files go: said, nothing half-made, and it can be mended.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

# Takes all room of a file system, or gives it back.
fill() { # DIRECTORY
	head -c 100m /dev/zero 2>/dev/null >"$1/filler" || true
	(
		set +e
		i=0
		while : >"$1/filler.$i"; do i=$((i + 1)); done
	) 2>/dev/null || true
}
drain() {
	rm -f "$1"/filler*
}
names_below() { # DIRECTORY...
	find "$@" -mindepth 1 ! -name 'filler*' 2>/dev/null | sort
}

# BAILEY_HOME and $T/dest are file systems of 3 MiB and 400 inodes.
on_small_disks() {
	local before verb
	new --name one
	inside 'head -c 6000000 /dev/urandom >large; mkdir tree; head -c 500000 /dev/urandom | tee tree/a tree/b >tree/c
		i=0; while [ $i -lt 600 ]; do : >tree/$i; i=$((i + 1)); done'
	before=$(names_below "$BAILEY_HOME")
	fill "$BAILEY_HOME"
	for verb in 'create' 'snapshot one' 'fork one'; do
		# shellcheck disable=SC2086 # words
		limit=20 bailey $verb
		refused "$(rc_of disk_full)" disk_full "the home is full: $verb"
	done
	is 'nothing half-made is left of them' "$before" "$(names_below "$BAILEY_HOME")"
	limit=20 bailey apply one "$T/w" --yes
	refused "$(rc_of disk_full)" disk_full 'apply, which keeps the changes there'
	is 'it has applied nothing' '' "$(ls -A "$T/w")"
	limit=20 bailey exec one -- sh -c 'head -c 5000000 /dev/zero; exit 3'
	is 'a command still runs, and its output comes whole' '3 5000000' "$rc $(stat -c %s "$T/out")"
	bailey ls --all
	is 'ls' 0 "$rc"
	bailey stop one
	is 'stop' 0 "$rc"
	if [ "$maker" = docker ]; then
		# a container's guest is told by files there whom to dial
		fill "$BAILEY_HOME"
		limit=20 bailey start one
		refused "$(rc_of disk_full)" disk_full 'start, which writes there'
		drain "$BAILEY_HOME"
	fi
	bailey start one
	is 'start' 0 "$rc"
	drain "$BAILEY_HOME"
	tells 'with room again all goes on' x 'echo x'
	bailey snapshot one --name two
	is 'snapshot too' 0 "$rc"

	# the disk gets full while a command writes
	bailey exec one -- sh -c 'head -c 8000000 /dev/zero; echo; echo end'
	is 'more output than the disk holds comes whole' '0 8000005' "$rc $(stat -c %s "$T/out")"
	limit=20 bailey exec one -- sh -c 'echo x'
	is 'the next command runs' '0 x' "$rc $(cat "$T/out")"
	bailey rm --force one two
	is 'rm' 0 "$rc"

	new
	inside 'head -c 6000000 /dev/urandom >large; mkdir tree; head -c 2500000 /dev/urandom >tree/a
		cp tree/a tree/b; mkdir many; i=0; while [ $i -lt 600 ]; do : >many/$i; i=$((i + 1)); done'
	bailey cp "$sb:/workspace/large" "$T/dest/large"
	refused "$(rc_of disk_full)" disk_full 'cp of a file to a full disk'
	is 'nothing of the file stays' '' "$(names_below "$T/dest")"
	echo before >"$T/dest/b"
	bailey cp "$sb:/workspace/tree/." "$T/dest"
	refused "$(rc_of disk_full)" disk_full 'cp of a tree'
	holds 'no file is there in part' eval '[ ! -e "$T/dest/a" ] || [ "$(stat -c %s "$T/dest/a")" = 2500000 ]'
	holds 'nor one under another name' [ "$(find "$T/dest" -name '.bailey*' | wc -l)" -eq 0 ]
	rm -rf "$T/dest"/*
	bailey cp "$sb:/workspace/many" "$T/dest/many"
	refused "$(rc_of disk_full)" disk_full 'cp of more files than there are inodes'
	rm -rf "$T/dest"/*
	bailey cp "$sb:/workspace/tree/a" "$T/dest/a"
	is 'what has room is copied' '0 2500000' "$rc $(stat -c %s "$T/dest/a")"
	rm -rf "$T/dest"/*
	bailey apply "$sb" "$T/dest" --yes
	refused "$(rc_of disk_full)" disk_full 'apply to a full disk'
	holds 'no file of it is there in part' [ "$(find "$T/dest" -name '.bailey*' | wc -l)" -eq 0 ]
	rc=0
	"$BAILEY" apply "$sb" - 2>"$T/err" >"$T/dest/changes.tar" || rc=$?
	refused "$(rc_of disk_full)" disk_full 'an archive of changes to a full disk'
	bailey rm --force "$sb"
	bailey prune
	is 'prune' 0 "$rc"
	is 'no sandbox is left' '' "$(ids)"
	is 'and no record' '' "$(find "$BAILEY_HOME/sandbox/runs" "$BAILEY_HOME/sandbox/names" -mindepth 1)"
}

# a daemon doesn't see mounts of another namespace
if [ "$maker" = docker ]; then
	mkdir "$T/small" "$T/dest"
	trap 'umount "$T/small" "$T/dest" 2>/dev/null || true; cd /; stop_all; rm -rf "$T"' EXIT
	mount -t tmpfs -o size=3m,nr_inodes=400,mode=700 tmpfs "$T/small"
	mount -t tmpfs -o size=3m,nr_inodes=400,mode=700 tmpfs "$T/dest"
	home=$BAILEY_HOME
	export BAILEY_HOME=$T/small
	on_small_disks
	export BAILEY_HOME=$home
	umount "$T/small" "$T/dest"
	return
fi
if ! can_mount; then
	skip 'small disks' 'no mounts here'
	return
fi
mkdir "$T/small" "$T/dest"
{
	declare -p T lib section limit passed failed skipped rc sb who rw maker image id_pattern started
	declare -f
} >"$T/functions"
in_private_mounts '
	mounter tmpfs "$1/small" size=3m,nr_inodes=400,mode=700,uid=$2
	mounter tmpfs "$1/dest" size=3m,nr_inodes=400,mode=700,uid=$2
	export BAILEY_HOME=$1/small
	back bash -c "set -eu; . \"\$1/functions\"; cd \"\$1/w\"; on_small_disks" bash "$1"' "$T" "$(id -u)" ||
	not_ok 'it ran to its end' "$(cat "$T/err")"
