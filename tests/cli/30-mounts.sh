# shellcheck shell=bash
# Topic of run.sh: workspaces and mounts, and which objects of the host are never shown.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154,SC2164

ws=$T/w/project
mkdir -p "$ws/sub"
echo text >"$ws/file"
expect_out text 'a workspace is at /workspace' -- run --workspace "$ws" -- cat /workspace/file
expect_out /workspace 'the command starts in it' -- run --workspace "$ws" -- pwd
cd "$ws"
expect_out text 'a workspace by a relative path' -- run --workspace . -- cat file
cd "$T/w"
expect_rc 0 'a workspace is read-only' -- run --workspace "$ws" -- \
	sh -c '! touch new 2>/dev/null && ! rm -f file 2>/dev/null'
expect_rc 0 'a workspace with :ro is read-only' -- run --workspace "$ws:ro" -- \
	sh -c '! touch new 2>/dev/null'
is 'nothing was written in it' 'file sub' "$(cd "$ws" && echo *)"
expect_rc 0 'a workspace with :rw' -- run "${rw[@]}" --workspace "$ws:rw" -- \
	sh -c 'echo in >new && mkdir dir && echo x >>file'
is 'what was written is there' 'in' "$(cat "$ws/new")"
is 'it belongs to the caller' "$(id -u):$(id -g) $(id -u):$(id -g)" \
	"$(stat -c %u:%g "$ws/new" "$ws/dir" | tr '\n' ' ' | sed 's/ $//')"
expect_out '1000:1000' 'inside it belongs to the command'\''s user' -- run --workspace "$ws" -- \
	stat -c %u:%g new
expect_out '12:34' 'also with --user' -- run --workspace "$ws" --user 12:34 -- stat -c %u:%g new
expect_rc 0 '--user 12:34 may write' -- run "${rw[@]}" --workspace "$ws:rw" --user 12:34 -- \
	sh -c 'echo x >by12'
is 'what user 12 wrote belongs to the caller' "$(id -u)" "$(stat -c %u "$ws/by12")"
expect_rc 0 'a setuid bit in it is refused' -- run "${rw[@]}" --workspace "$ws:rw" -- \
	sh -c '! chmod u+s new 2>/dev/null'

mkdir "$T/w/a" "$T/w/b" "$T/w/a/inner"
echo a >"$T/w/a/name"
echo b >"$T/w/b/name"
expect_out 'a b' 'two mounts' -- run --mount "$T/w/a:/mnt/a" --mount "$T/w/b:/mnt/b" -- \
	sh -c 'echo $(cat /mnt/a/name /mnt/b/name)'
expect_out 'a b' 'a mount inside another' -- \
	run --mount "$T/w/a:/mnt" --mount "$T/w/b:/mnt/inner" -- \
		sh -c 'echo $(cat /mnt/name /mnt/inner/name)'
expect_out 'b' 'a mount inside the workspace' -- \
	run --workspace "$ws" --mount "$T/w/b:/workspace/sub" -- cat sub/name
expect_reason mount_target_invalid 'no place for it inside a read-only mount' -- \
	run --mount "$T/w/a:/mnt" --mount "$T/w/b:/mnt/none" -- true
is 'and none was made on the host' 'inner name' "$(cd "$T/w/a" && echo *)"
expect_out 'b' 'a mount below the home' -- run --mount "$T/w/b:/home/agent/data/set" -- \
	cat data/set/name
expect_out 'b' 'a mount below /tmp' -- run --mount "$T/w/b:/tmp/b" -- cat /tmp/b/name
expect_rc 0 'a mount is read-only' -- run --mount "$T/w/b:/mnt" -- \
	sh -c '! touch /mnt/new 2>/dev/null'
expect_rc 0 'a mount with :rw' -- run "${rw[@]}" --mount "$T/w/b:/mnt:rw" -- touch /mnt/new
mkdir "$T/w/odd:name" "$T/w/sp ace"
expect_rc 0 'a colon in the source' -- run --mount "$T/w/odd:name:/mnt" -- true
expect_rc 0 'a blank in source and target' -- run --mount "$T/w/sp ace:/mnt/a b" -- \
	sh -c 'cd "/mnt/a b"'
ln -s a "$T/w/link"
expect_out a 'a source by a link' -- run --mount "$T/w/link:/mnt" -- cat /mnt/name
ln -s /usr "$T/w/a/out"
expect_rc 0 'a link inside a mount leads into the sandbox' -- run --mount "$T/w/a:/mnt" -- \
	test -d /mnt/out/bin

expect_reason mount_source_relative 'a relative source' -- run --mount a:/mnt -- true
expect_reason mount_source_relative 'a relative source with ./' -- run --mount ./a:/mnt -- true
ln -s "$T/w/none" "$T/w/dangling"
expect_reason mount_source_missing 'a dangling link' -- run --mount "$T/w/dangling:/mnt" -- true
expect_reason mount_source_missing 'a dangling link as workspace' -- \
	run --workspace "$T/w/dangling" -- true
ln -s loop "$T/w/loop"
expect_reason mount_source_missing 'a link to itself' -- run --mount "$T/w/loop:/mnt" -- true
for word in "$T/w/a" "$T/w/a:" ":/mnt" "a:rw"; do
	expect_reason bad_value "not SRC:DST: ${word#"$T"}" -- run --mount="$word" -- true
done
for target in mnt ./mnt / /mnt/ /mnt//a /mnt/../proc /.. /mnt/. /mnt/./a /proc /proc/1 /proc/sys \
	/sys /sys/fs /dev /dev/shm /dev/null \
	/tmp /home/agent "/$(printf '%255s' x | tr ' ' x)"; do
	expect_reason mount_target_invalid "target ${target:0:20}" -- \
		run --mount "$T/w/a:$target" -- true
done
expect_reason mount_target_invalid 'a target twice' -- \
	run --mount "$T/w/a:/mnt" --mount "$T/w/b:/mnt" -- true
expect_reason mount_target_invalid 'the workspace'\''s target again' -- \
	run --workspace "$ws" --mount "$T/w/b:/workspace" -- true
words=()
for ((i = 0; i < 32; i++)); do
	words+=(--mount "$T/w/a:/mnt/$i")
done
expect_out a '32 mounts' -- run "${words[@]}" -- cat /mnt/31/name
expect_reason value_out_of_range '33 mounts' -- run "${words[@]}" --mount "$T/w/a:/mnt/32" -- true

# Who owns what is written to.
if [ "$who" = root ]; then
	expect_reason workspace_root_owned 'a writable workspace of root' -- \
		run --workspace "$ws:rw" -- true
	expect_reason workspace_root_owned 'a writable mount of root' -- \
		run --mount "$ws:/mnt:rw" -- true
	mkdir "$T/w/theirs"
	echo secret >"$T/w/theirs/file"
	chmod 600 "$T/w/theirs/file"
	chown -R 12345:12345 "$T/w/theirs"
	expect_reason workspace_not_owned 'a writable workspace of somebody else' -- \
		run --workspace "$T/w/theirs:rw" -- true
	expect_reason workspace_not_owned 'nor with --root-workspace' -- \
		run --root-workspace --workspace "$T/w/theirs:rw" -- true
	expect_out '65534:65534' 'what others own belongs to nobody inside' -- \
		run --workspace "$T/w/theirs" -- stat -c %u:%g file
	expect_rc 1 'and is closed where it is closed to others' -- \
		run --workspace "$T/w/theirs" -- cat file
	expect_rc 1 'also for user 0 inside' -- run --workspace "$T/w/theirs" --user 0 -- cat file
else
	expect_reason workspace_not_owned 'a writable workspace of somebody else' -- \
		run --workspace /usr/share:rw -- true
	expect_reason workspace_not_owned 'a writable mount of somebody else' -- \
		run --mount /usr/share:/mnt:rw -- true
	expect_rc 0 'a readable one read-only' -- run --workspace /usr/share -- true
	mkdir "$T/w/replaced"
	cd "$T/w/replaced"
	rmdir "$T/w/replaced"
	mkdir "$T/w/replaced"
	expect_reason mount_source_missing 'another directory has its name now' -- \
		run --workspace . -- true
	cd "$T/w"
fi

# A full disk is refused at the start and named at the end.
if can_mount; then
	full='mounter tmpfs "$1" size=3m,mode=0777
		head -c 2900k /dev/zero >"$1/fill"
		[ "$2" = full ] || rm "$1/fill"
		shift 2
		back "$@"'
	mkdir "$T/w/small"
	small() { # HOW WORD...
		local how=$1
		shift
		try in_private_mounts "$full" "$T/w/small" "$how" "$BAILEY" "$@"
	}
	small free run "${rw[@]}" --workspace "$T/w/small:rw" -- true
	if grep -q idmap_unsupported "$T/err"; then
		skip 'full disk' 'this kernel has no idmapped tmpfs'
	else
		small full run "${rw[@]}" --workspace "$T/w/small:rw" -- true
		refusal disk_full '*small*' 'a workspace on a full disk'
		small full run --workspace "$T/w/small" -- true
		is 'a read-only one on a full disk is fine' 0 "$rc"
		small free run "${rw[@]}" --workspace "$T/w/small:rw" --json -- \
			dd if=/dev/zero of=big bs=1M count=9
		reports 'the command fills the disk (JSON)' \
			reason string disk_full exit_code number 1
		small free run "${rw[@]}" --workspace "$T/w/small:rw" -- \
			sh -c 'dd if=/dev/zero of=big bs=1M count=9 2>/dev/null; exit 5'
		ended 5 disk_full 'the command fills the disk'
	fi
	if [ "$who" = root ]; then
		try in_private_mounts 'mounter ramfs "$1" mode=0777; shift; "$@"' "$T/w/small" \
			"$BAILEY" run --workspace "$T/w/small" -- true
		refusal idmap_unsupported '*' 'a file system without idmapped mounts'
	fi
else
	skip 'full disk' 'no private mounts here'
fi
