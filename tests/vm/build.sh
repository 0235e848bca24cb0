#!/usr/bin/env bash
# Builds the QEMU guest: Debian 12 with Debian's own kernel, systemd and cgroup v2, as kernel, initrd and a raw ext4 image.
# run.sh calls it with the directory to fill; the hash of this file is part of that directory's name, so an edit rebuilds.
# Root is needed for the owners of the files; nothing is mounted.
set -eu

out=${1:?usage: build.sh DIRECTORY}
release=bookworm newer=trixie

packages=(
	systemd-sysv dbus dbus-user-session libpam-systemd linux-image-cloud-amd64 kmod busybox-static
	openssh-server sudo python3-minimal jq procps strace util-linux uidmap iproute2 apparmor e2fsprogs xfsprogs git
)

# Whatever is not needed to reach ssh and a user session.  Without udev the kernel's devtmpfs makes the device nodes.
masked=(
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service
	fstrim.timer systemd-tmpfiles-clean.timer getty@tty1.service serial-getty@ttyS0.service
	systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket
	systemd-udev-trigger.service systemd-timesyncd.service systemd-pstore.service
	systemd-binfmt.service systemd-random-seed.service systemd-update-utmp.service
	modprobe@configfs.service modprobe@dm_mod.service modprobe@fuse.service modprobe@loop.service
	sys-fs-fuse-connections.mount sys-kernel-config.mount
	systemd-update-utmp-runlevel.service systemd-journal-flush.service dev-hugepages.mount
	sys-kernel-debug.mount sys-kernel-tracing.mount modprobe@drm.service
)

# The host's settings of apt that decide whether a mirror is reached and believed (proxy, certificates, dates).
apt_options() {
	apt-config dump 2>/dev/null |
		grep -E '^Acquire::(https?::(Proxy|CAInfo|CAPath|SslCert|SslKey)|Check-)' || true
}

# The host's own mirror when the host is Debian, since a mirror near by may be the only one in reach.
mirror() {
	if [ -n "${BAILEY_MIRROR:-}" ]; then
		echo "$BAILEY_MIRROR"
		return
	fi
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
		grep -v '^ *#' | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ' |
		grep . || echo http://deb.debian.org/debian
}

bootstrap() {
	local root=$1

	apt_options >"$work/apt.conf"
	# INITRD=No: the initrd is made below, with nothing but what this guest needs
	INITRD=No mmdebstrap --quiet --variant=minbase \
		--include="$(IFS=,; echo "${packages[*]}")" \
		--aptopt="$work/apt.conf" --aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
		"$release" "$root" "$(mirror)" >&2
	rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
}

# The parser of a newer Debian, run by chroot: this one's is too old for the rules of docs/doctor.md.
add_new_parser() {
	local root=$1

	mmdebstrap --quiet --variant=extract --include=apparmor,base-files --aptopt="$work/apt.conf" \
		--aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		"$newer" "$root/opt/newer" "$(mirror)" >&2
}

add_user() {
	local root=$1 user=$2

	chroot "$root" useradd -m -s /bin/bash "$user"
	install -d -m 700 "$root/home/$user/.ssh"
	install -m 600 "$out/key.pub" "$root/home/$user/.ssh/authorized_keys"
	chroot "$root" chown -R "$user:$user" "/home/$user"
}

configure() {
	local root=$1

	echo guest >"$root/etc/hostname"
	printf '127.0.0.1 localhost guest\n::1 localhost\n' >"$root/etc/hosts"
	: >"$root/etc/fstab"
	tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
	install -d -m 700 "$root/root/.ssh"
	install -m 600 "$out/key.pub" "$root/root/.ssh/authorized_keys"
	add_user "$root" tester # has a user manager from boot
	add_user "$root" plain  # has one only while logged in
	mkdir -p "$root/var/lib/systemd/linger"
	: >"$root/var/lib/systemd/linger/tester"
	mkdir -p "$root/etc/systemd/journald.conf.d"
	printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n' >"$root/etc/systemd/journald.conf.d/vm.conf"
	printf 'UseDNS no\nPrintMotd no\nPrintLastLog no\nPasswordAuthentication no\nGSSAPIAuthentication no\n' \
		>"$root/etc/ssh/sshd_config.d/vm.conf"
	sed -i '/pam_motd\|pam_mail\|pam_lastlog/d' "$root/etc/pam.d/sshd" "$root/etc/pam.d/login"
	chroot "$root" systemctl --quiet mask "${masked[@]}"
	chroot "$root" systemctl --quiet set-default multi-user.target
	rm -f "$root"/etc/ssh/ssh_host_rsa_key* "$root"/etc/ssh/ssh_host_ecdsa_key*
	awk '{ print "guest", $1, $2 }' "$root/etc/ssh/ssh_host_ed25519_key.pub" >"$out/known_hosts"
	rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
}

# busybox and the few modules between the kernel and its root file system; the address is set here too, so that the guest
# needs no network manager.
make_initrd() {
	local root=$1 version=$2 dir=$1/initrd module

	mkdir -p "$dir/bin" "$dir/m" "$dir/proc" "$dir/sys" "$dir/dev" "$dir/root"
	cp "$root/bin/busybox" "$dir/bin/busybox"
	cat >"$dir/init" <<-'INIT'
		#!/bin/busybox sh
		/bin/busybox mount -t devtmpfs dev /dev
		/bin/busybox mount -t proc proc /proc
		while read -r m; do /bin/busybox insmod "/m/$m"; done </m/order
		/bin/busybox ip link set lo up
		/bin/busybox ip addr add 10.0.2.15/24 dev eth0
		/bin/busybox ip link set eth0 up
		while [ ! -b /dev/vda ]; do /bin/busybox usleep 20000; done
		/bin/busybox mount -t ext4 -o rw,noatime /dev/vda /root || exec /bin/busybox sh
		/bin/busybox umount /proc
		/bin/busybox mount --move /dev /root/dev
		exec /bin/busybox switch_root /root /sbin/init
	INIT
	chmod 755 "$dir/init"
	chroot "$root" modprobe -a -S "$version" --show-depends \
		virtio_pci virtio_mmio virtio_blk virtio_net virtio_rng crc32c_generic crc32c_intel ext4 |
		awk '$1 == "insmod" && !seen[$2]++ { print $2 }' |
		while read -r module; do
			cp "$root$module" "$dir/m/"
			basename "$module" >>"$dir/m/order"
		done
	chroot "$root" sh -c 'cd /initrd && find . | cpio --quiet -o -H newc' >"$out/initrd"
	rm -rf "$dir"
}

work=$(mktemp -d "$out/work.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root

rm -f "$out/key" "$out/key.pub"
ssh-keygen -q -t ed25519 -N '' -C bailey-test-guest -f "$out/key"
bootstrap "$root"
add_new_parser "$root"
configure "$root"
kernel=$(cd "$root/boot" && echo vmlinuz-*)
make_initrd "$root" "${kernel#vmlinuz-}"
cp "$root/boot/$kernel" "$out/kernel"
rm -rf "${root:?}"/boot/*
truncate -s 3G "$out/guest.img"
mkfs.ext4 -q -F -L guest -m 0 -O ^has_journal -E lazy_itable_init=1 -d "$root" "$out/guest.img"
chown -R --reference="$out" "$out"
