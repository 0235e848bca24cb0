#!/usr/bin/env bash
# Runs Bailey in a virtual machine with cgroup v2, systemd and Debian's kernel, whatever the host has: './dev test-vm'.
#
#     tests/vm/run.sh [--list] [--shell USER] [SUITE...]
#
# The guest's image is built once per version of build.sh, below ${BAILEY_CACHE:-~/.cache/bailey}; a run boots a throw-away
# overlay of it by QEMU's own emulation (no KVM needed), copies the staged Bailey and the tests in by ssh, runs the suites
# of the table below and prints 'ok', 'not ok' and 'skip' lines, seconds per step, and the totals as the last line.
# --list prints the names of the suites; --shell opens a shell in the guest instead of running them.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
build=${BAILEY_BUILD:-$top/build}
stage=${BAILEY_STAGE:-$build/stage}
cache=${BAILEY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bailey}
image=
run=
qemu=
port=
passed=0 failed=0 skipped=0

# name, user of the login, seconds, what is prepared as root (a sysctl set to 0), suites.sh's arguments.
# Order matters: 'refusal' wants its user not logged in yet, and the last ones forbid user namespaces.
suites() {
	cat <<-'END'
		refusal          root    60  none                                       refusal
		doctor           root    60  none                                       doctor
		doctor-user      tester  60  none                                       doctor
		session          plain   60  none                                       session
		limits           root    120 none                                       limits
		limits-user      tester  120 none                                       limits
		escape           root    400 none                                       escape
		escape-user      tester  400 none                                       escape
		apparmor         root    60  none                                       apparmor
		unit             tester  120 none                                       unit
		conformance      root    700 none                                       conformance
		conformance-user tester  700 none                                       conformance
		disk             root    400 none                                       disk
		hostile-guest    root    600 none                                       hostile
		launcher         root    240 none                                       launcher
		leak             root    120 none                                       leak
		leak-user        tester  120 none                                       leak
		userns-clone     tester  60  sysctl:kernel.unprivileged_userns_clone    userns kernel.unprivileged_userns_clone
		userns-max       tester  60  sysctl:user.max_user_namespaces            userns user.max_user_namespaces
		userns-max-root  root    60  sysctl:user.max_user_namespaces            userns user.max_user_namespaces
	END
}

die() {
	echo "vm: $*" >&2
	exit 1
}

# The guest is thrown away whole, so QEMU is ended without further ado.
cleanup() {
	if [ -n "$qemu" ]; then
		kill "$qemu" 2>/dev/null || true
		wait "$qemu" 2>/dev/null || true
	fi
	[ -z "$run" ] || rm -rf --one-file-system "$run"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

get_packages() {
	if [ ! -e "$top/tools/need.sh" ]; then
		for p in qemu-system-x86_64 qemu-img mmdebstrap ssh; do
			command -v "$p" >/dev/null || die "'$p' is missing"
		done
		return
	fi
	# shellcheck source=/dev/null
	. "$top/tools/need.sh"
	need_packages qemu-system-x86 qemu-utils mmdebstrap e2fsprogs openssh-client ||
		die "the packages for the virtual machine are missing"
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo --preserve-env=http_proxy,https_proxy,BAILEY_MIRROR "$@"
	fi
}

# A lock, since two runs may start on an empty cache; a build that breaks off leaves nothing that looks finished.
build_image() {
	local new

	image=$cache/vm-$(sha256sum "$here/build.sh" | head -c 12)
	mkdir -p "$cache"
	exec 9>"$cache/vm.lock"
	flock 9
	if [ ! -e "$image/guest.img" ]; then
		new=$(mktemp -d "$cache/vm-new.XXXXXX")
		if ! as_root "$here/build.sh" "$new" >"$cache/vm-build.log" 2>&1; then
			tail -n 30 "$cache/vm-build.log" >&2
			as_root rm -rf --one-file-system "$new"
			die "the guest's image could not be built; the whole log: $cache/vm-build.log"
		fi
		mv "$new" "$image"
	fi
	exec 9>&-
}

# What makes emulation bearable, by measurement: without address randomization QEMU finds the code it has translated for
# the last process again (a quarter of the time per fork and exec), and what is costly to emulate is off (wide vectors,
# byte-wise clearing of pages, the fifth level of page tables, reading a clock device).
start_qemu() {
	local cpu=max,la57=off,avx=off,avx2=off,erms=off
	local append="console=ttyS0 quiet panic=-1 net.ifnames=0 systemd.show_status=0 audit=0 apparmor=1
		norandmaps mitigations=off init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off
		clearcpuid=rep_good tsc=reliable clocksource=tsc"

	port=$((20000 + RANDOM % 12000))
	qemu-system-x86_64 -accel tcg,thread=multi -M q35 -cpu "$cpu" -smp 2 -m 2048 \
		-nodefaults -no-user-config -display none -no-reboot -serial "file:$run/serial.log" \
		-kernel "$image/kernel" -initrd "$image/initrd" -append "${append//[$'\n\t']/ }" \
		-drive "file=$run/disk.qcow2,if=virtio,format=qcow2,cache=unsafe" \
		-netdev "user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" \
		-device virtio-net-pci,netdev=n0,romfile= -device virtio-rng-pci \
		>"$run/qemu.log" 2>&1 </dev/null &
	qemu=$!
}

# One connection per user, since a login costs seconds here; it ends with QEMU.
guest_ssh() {
	local user=$1

	shift
	ssh -F none -i "$image/key" -p "$port" -o BatchMode=yes -o IdentitiesOnly=yes -o ConnectTimeout=20 \
		-o HostKeyAlias=guest -o UserKnownHostsFile="$image/known_hosts" -o StrictHostKeyChecking=yes \
		-o ControlMaster=auto -o ControlPath="$run/ssh-%r" -o ControlPersist=yes \
		-o ServerAliveInterval=15 -o LogLevel=ERROR "$user@127.0.0.1" "$@"
}

boot_failed() {
	echo "vm: $*; the end of the guest's console:" >&2
	tail -n 40 "$run/serial.log" >&2 2>/dev/null || true
	cat "$run/qemu.log" "$run/ssh.log" >&2 2>/dev/null || true
	exit 1
}

# QEMU itself binds the port: when another has it, QEMU ends at once and the next port is tried.
boot() {
	local try deadline=$((SECONDS + 150))

	qemu-img create -q -f qcow2 -F raw -b "$image/guest.img" "$run/disk.qcow2" 9>&-
	for try in 1 2 3 4 5; do
		start_qemu
		sleep 1
		kill -0 "$qemu" 2>/dev/null && break
		qemu=
		grep -q "hostfwd\|Address already in use" "$run/qemu.log" || break
	done
	[ -n "$qemu" ] || boot_failed "QEMU did not start (try $try)"
	until guest_ssh root true >"$run/ssh.log" 2>&1; do
		kill -0 "$qemu" 2>/dev/null || boot_failed "QEMU ended"
		[ "$SECONDS" -lt "$deadline" ] || boot_failed "no ssh in time"
		sleep 0.5
	done
}

# The directory below which a build has the programs of the suites.
find_programs() {
	local d

	for d in "$build"/release "$build" "$build"/*; do
		[ ! -x "$d/tests/escape/escape-probe" ] || { echo "$d"; return; }
	done
}

# The suites find their programs where a build would have them; a swap file makes 'swap 0' mean something.
copy_in() {
	local programs

	[ -x "$stage/bin/bailey" ] || die "no '$stage/bin/bailey'; run './dev build' first"
	tar -C "$stage" --owner=0 --group=0 -cf - . | guest_ssh root 'mkdir /opt/bailey && tar -C /opt/bailey -xf -'
	tar -C "$top" --owner=0 --group=0 -cf - tests tools/delegate.sh src/base/reasons.def docs/doctor.md |
		guest_ssh root 'mkdir /opt/src && tar -C /opt/src -xf -'
	programs=$(find_programs)
	[ -n "$programs" ] || die "no programs of the suites below '$build'; run './dev build' first"
	tar -C "$programs" --owner=0 --group=0 -cf - tests/escape/escape-probe tests/hostile-guest/hostile-{guest,client} |
		guest_ssh root 'mkdir /opt/src/build && tar -C /opt/src/build -xf -'
	guest_ssh root 'chmod 755 /opt /opt/src /opt/bailey; date -s "@'"$(date +%s)"'" >/dev/null
		fallocate -l 512M /swap && chmod 600 /swap && mkswap -q /swap && swapon /swap'
}

prepare() {
	case $1 in
	none) ;;
	sysctl:*)
		guest_ssh root "sysctl -qw user.max_user_namespaces=7000 kernel.unprivileged_userns_clone=1 ${1#sysctl:}=0"
		;;
	*) die "no preparation '$1'" ;;
	esac
}

# Prints a suite's log with the suite's name before every test's, and adds it up.  'no control', the escape suite's word for
# an attack that fails outside too, counts as nothing; that suite itself insists on how many must count.
count() {
	local name=$1 log=$2 status=$3 p f s

	sed -E -e "s,^(ok|not ok|skip|no control) ,\1 $name/," -e '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/d' "$log" >"$run/shown"
	p=$(grep -c '^ok ' "$run/shown") || true
	f=$(grep -c '^not ok ' "$run/shown") || true
	s=$(grep -c '^skip ' "$run/shown") || true
	cat "$run/shown"
	if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
		echo "not ok $name/exit-status $status"
		f=1
	elif [ $((p + f + s)) -eq 0 ]; then
		echo "not ok $name/ran-nothing"
		f=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	echo "# $name: $p passed, $f failed, $s skipped"
}

run_suite() {
	local name=$1 user=$2 limit=$3 before=$4 start=$SECONDS status=0

	shift 4
	prepare "$before" </dev/null || die "'$before' failed in the guest"
	guest_ssh "$user" "exec timeout -k 5 $limit /opt/src/tests/vm/suites.sh $*" >"$run/$name.log" 2>&1 </dev/null ||
		status=$?
	count "$name" "$run/$name.log" "$status"
	echo "# $name: $((SECONDS - start)) s"
}

wanted() {
	local name=$1 w

	shift
	[ $# -gt 0 ] || return 0
	for w in "$@"; do
		[ "$w" != "$name" ] || return 0
	done
	return 1
}

timed() {
	local name=$1 start=$SECONDS

	shift
	"$@"
	echo "# $name: $((SECONDS - start)) s"
}

main() {
	local shell='' name user limit before arguments w

	case ${1:-} in
	--list) suites | awk '{ print $1 }' && exit ;;
	--shell) shell=${2:?--shell needs a user} && shift 2 ;;
	-h | --help) sed -n '2,/^set /{/^#/p}' "$0" && exit ;;
	esac
	for w in "$@"; do
		suites | grep -q "^$w " || die "no suite '$w'; see --list"
	done
	get_packages
	timed build build_image
	run=$(mktemp -d "${TMPDIR:-/tmp}/bailey-vm.XXXXXX")
	timed boot boot
	timed copy copy_in
	if [ -n "$shell" ]; then
		guest_ssh "$shell" -t
		exit
	fi
	while read -r name user limit before arguments; do
		# shellcheck disable=SC2086 # the table's last column is words
		! wanted "$name" "$@" || run_suite "$name" "$user" "$limit" "$before" $arguments
	done < <(suites)
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
}

main "$@"
