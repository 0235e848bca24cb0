# shellcheck shell=bash
# Topic of run.sh: --image with a directory.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

image=$T/image
# A root file system from the host's own programs and what they link.
make_image() { # DIR
	local p lib
	mkdir -p "$1/usr/bin" "$1/etc" "$1/opt/data"
	for p in sh cat ls id touch; do
		cp -L "$(command -v $p)" "$1/usr/bin/$p"
		ldd "$(command -v $p)" | sed -n 's/.*[[:space:]]\(\/[^ ]*\) (0x.*/\1/p' |
			while IFS= read -r lib; do
			mkdir -p "$1$(dirname "$lib")"
			cp -L "$lib" "$1$lib"
		done
	done
	ln -s usr/bin "$1/bin"
	echo of-the-image >"$1/etc/name"
	echo data >"$1/opt/data/file"
}
make_image "$image"

expect_out of-the-image 'an image' -- run --image "$image" -- cat /etc/name
expect_out data 'its other directories' -- run --image "$image" -- cat /opt/data/file
expect_reason command_not_found 'nothing of the host is in it' -- run --image "$image" -- perl -e 1
expect_rc 0 'it is read-only' -- run --image "$image" -- \
	sh -c '! touch /etc/new 2>/dev/null && ! touch /new 2>/dev/null && touch /tmp/new'
expect_out uid=1000* 'its user' -- run --image "$image" -- id
mkdir "$T/w/with"
echo text >"$T/w/with/file"
expect_out text 'a workspace in it' -- run --image "$image" --workspace "$T/w/with" -- cat file
expect_out text 'a mount on one of its directories' -- \
	run --image "$image" --mount "$T/w/with:/opt/data" -- cat /opt/data/file
is 'the image is as it was' 'bin etc opt usr' "$(cd "$image" && echo [a-ko-z]*)"
BAILEY_RUN_IMAGE=$image expect_out of-the-image 'BAILEY_RUN_IMAGE' -- run -- cat /etc/name

# What an image plants where the sandbox has its own is not looked at.
mkdir "$T/landing"
for name in dev proc run tmp home sys workspace; do
	ln -s "$T/landing" "$image/$name"
done
expect_rc 0 'links in the place of /dev, /proc, /tmp' -- run --image "$image" -- \
	sh -c 'echo x >/dev/null && echo x >/tmp/x && echo x >~/x &&
		read -r line </proc/self/stat && [ -c /dev/null ] && [ -d /proc/self ]'
expect_out text 'a link in the place of /workspace' -- \
	run --image "$image" --workspace "$T/w/with" -- cat /workspace/file
is 'nothing was made where they lead' '' "$(ls -A "$T/landing")"
expect_reason mount_target_invalid 'a link in the way of a target' -- \
	run --image "$image" --mount "$T/w/with:/bin/x" -- true
mkdir "$T/landing/etc"
echo root:x:0:0::/:/bin/sh >"$T/landing/etc/passwd"
mv "$image/etc" "$T/image-etc"
ln -s "$T/landing/etc" "$image/etc"
expect_rc 1 'a link in the place of /etc leads nowhere on the host' -- run --image "$image" -- \
	cat /etc/passwd

mkdir "$T/w/empty" "$T/w/only-bin" "$T/w/only-bin/bin"
expect_reason image_invalid 'neither usr nor bin' -- run --image "$T/w/empty" -- true
cp "$(command -v sh)" "$T/w/only-bin/bin/"
expect_reason command_not_found 'a program whose loader is not in the image' -- \
	run --image "$T/w/only-bin" -- sh
expect_reason image_missing 'a file' -- run --image "$image/usr/bin/sh" -- true
expect_reason image_missing 'no such directory' -- run --image "$image/none" -- true
expect_reason mount_forbidden 'a forbidden directory' -- run --image /etc -- true
mkdir "$T/w/wide" "$T/w/wide/usr" "$T/w/wide/d"{1..300}
expect_reason image_invalid 'more entries than there are mounts' -- run --image "$T/w/wide" -- true
