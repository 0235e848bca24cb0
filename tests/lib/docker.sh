# shellcheck shell=bash
# A private container daemon for the shell suites: Docker's, or Podman's service, in a network
# namespace of its own, with everything it keeps below one directory.  Sourced behind tap.sh; root
# only.  Whoever starts one calls stop_docker at the end: nothing is left then.
#
#   start_docker DIR [--podman] [--gvisor] [--tcp PORT]... [--option WORD]...
#       exports DOCKER_HOST; $docker_pid is the daemon's; runtimes of --gvisor: runsc (with Unix
#       sockets), runsc-closed (without), runsc-free (its limits don't hold), runsc-false (runc)
#   import_busybox [REF]            test/busybox:1 unless named; /bin of busybox, users, /tmp
#   import_bookworm [REF]           bailey-test/bookworm:1; a Debian with python3, made once a machine
#   in_docker_net COMMAND...        in the daemon's network namespace (for what listens on TCP)
#   stop_docker

docker_pid='' docker_dir='' docker_kind='' docker_words=()

have_docker() { # [--podman] [--gvisor]
	local need="dockerd docker busybox tar unshare" word
	for word in "$@"; do
		[ "$word" != --podman ] || need="podman conmon runc docker busybox tar unshare"
		[ "$word" != --gvisor ] || need="$need runsc"
	done
	for word in $need; do
		command -v "$word" >/dev/null || return 1
	done
	[ "$(id -u)" -eq 0 ]
}

docker_answers() {
	docker version >/dev/null 2>&1
}

docker_config() { # GVISOR
	if [ -z "$1" ]; then
		echo '{}'
		return 0
	fi
	# without --network=none this runsc takes every network namespace for the host's
	cat <<-'END'
		{"runtimes": {
		  "runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none", "--host-uds=open"]},
		  "runsc-closed": {"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none"]},
		  "runsc-false": {"path": "/usr/bin/runc"},
		  "runsc-free": {"path": "/usr/bin/runsc",
		    "runtimeArgs": ["--network=none", "--host-uds=open", "--ignore-cgroups"]}}}
	END
}

# The hard limit of files may lie below what Podman gives by default; crun wants cgroup v2 alone.
podman_config() {
	local files
	files=$(ulimit -Hn)
	[ "$files" != unlimited ] || files=1048576
	cat <<-END
		[containers]
		default_ulimits = ["nofile=$files:$files", "nproc=20000:20000"]
		[engine]
		cgroup_manager = "cgroupfs"
		events_logger = "file"
		runtime = "runc"
	END
}

# "exec" all the way: the pid is the daemon's own.
launch_dockerd() { # WORD...
	# shellcheck disable=SC2016 # expanded by the shell inside
	unshare --net sh -c 'ip link set lo up; exec "$@"' sh \
		dockerd --config-file "$docker_dir/daemon.json" --data-root "$docker_dir/data" \
		--exec-root "$docker_dir/exec" -H "$DOCKER_HOST" -p "$docker_dir/pid" \
		--bridge=none --iptables=false --ip-forward=false --ip-masq=false "$@" \
		>>"$docker_dir/log" 2>&1 </dev/null &
	docker_pid=$!
}

podman_here() { # WORD...
	CONTAINERS_CONF=$docker_dir/containers.conf \
		podman --root "$docker_dir/data" --runroot "$docker_dir/exec" \
		--tmpdir "$docker_dir/tmp" --storage-driver overlay "$@"
}

launch_podman() {
	# shellcheck disable=SC2016
	CONTAINERS_CONF=$docker_dir/containers.conf \
		unshare --net sh -c 'ip link set lo up; exec "$@"' sh \
		podman --root "$docker_dir/data" --runroot "$docker_dir/exec" \
		--tmpdir "$docker_dir/tmp" --storage-driver overlay \
		system service --time 0 "$DOCKER_HOST" >>"$docker_dir/log" 2>&1 </dev/null &
	docker_pid=$!
}

start_docker() { # DIR [WORD...]
	local gvisor='' podman='' more=()
	docker_dir=$1 docker_kind=docker
	shift
	while [ $# -gt 0 ]; do
		case $1 in
		--podman) podman=1 docker_kind=podman ;;
		--gvisor) gvisor=1 ;;
		--tcp)
			more+=(-H "tcp://127.0.0.1:$2")
			shift
			;;
		--option)
			more+=("$2")
			shift
			;;
		*)
			echo "start_docker: what is '$1'?" >&2
			return 2
			;;
		esac
		shift
	done
	docker_words=(${more[@]+"${more[@]}"})
	mkdir -p "$docker_dir"
	# a socket's path is short
	export DOCKER_HOST=unix://$docker_dir/sock
	docker_config "$gvisor" >"$docker_dir/daemon.json"
	[ -z "$podman" ] || podman_config >"$docker_dir/containers.conf"
	restart_docker
}

# Starts it (again) over what there is.
restart_docker() {
	# a containerd that died with its daemon passes for alive while nobody has reaped it
	rm -f "$docker_dir/sock" "$docker_dir/pid" "$docker_dir/exec/containerd/containerd.pid"
	if [ "$docker_kind" = podman ]; then
		launch_podman
	else
		launch_dockerd ${docker_words[@]+"${docker_words[@]}"}
	fi
	until_true 300 docker_answers && return 0
	tail -n 5 "$docker_dir/log" >&2
	return 1
}

in_docker_net() { # COMMAND...
	nsenter -t "$docker_pid" -n -- "$@"
}

# The tree is made in $docker_dir and goes with it.
busybox_tree() { # DIR
	local d=$1 name
	mkdir -p "$d/bin" "$d/etc" "$d/root" "$d/home" "$d/proc" "$d/sys" "$d/dev" "$d/run" \
		"$d/var" "$d/usr/bin" "$d/workspace"
	mkdir -p "$d/tmp" "$d/var/tmp"
	chmod 1777 "$d/tmp" "$d/var/tmp"
	cp "$(command -v busybox)" "$d/bin/busybox"
	for name in $(busybox --list); do
		case $name in
		busybox | su | sudo | passwd | login) ;;
		*) ln -s busybox "$d/bin/$name" ;;
		esac
	done
	ln -s ../../bin/busybox "$d/usr/bin/env"
	printf '%s\n' root:x:0:0:root:/root:/bin/sh 'agent:x:1000:1000:agent:/home/agent:/bin/sh' \
		'nobody:x:65534:65534:nobody:/:/bin/false' >"$d/etc/passwd"
	printf '%s\n' root:x:0: agent:x:1000: nogroup:x:65534: >"$d/etc/group"
}

import_busybox() { # [REF]
	local d=$docker_dir/busybox
	rm -rf "$d"
	busybox_tree "$d"
	tar -C "$d" --numeric-owner --owner=0 --group=0 -cf - . |
		docker import - "${1:-test/busybox:1}" >/dev/null
	rm -rf "$d"
}

import_bookworm() { # [REF]
	local cache=/var/tmp/bailey-test-bookworm.tar made
	command -v mmdebstrap >/dev/null || return 1
	if [ ! -s "$cache" ]; then
		made=$(mktemp /var/tmp/bailey-test-bookworm.XXXXXX)
		mmdebstrap --quiet --format=tar --variant=minbase \
			--include=python3,git,procps,busybox-static \
			--dpkgopt='path-exclude=/usr/share/man/*' \
			--dpkgopt='path-exclude=/usr/share/doc/*' \
			--dpkgopt='path-exclude=/usr/share/locale/*' \
			bookworm "$made" >"$docker_dir/mmdebstrap.log" 2>&1 || {
			tail -n 3 "$docker_dir/mmdebstrap.log" >&2
			rm -f "$made"
			return 1
		}
		mv "$made" "$cache"
	fi
	docker import "$cache" "${1:-bailey-test/bookworm:1}" >/dev/null
}

# What has the directory among its arguments: shims and helpers that outlive their daemon.
docker_leftovers() {
	marked "$docker_dir" 'containerd|conmon|runsc|runc|docker|podman|exe$'
}

end_pid() { # PID
	kill -TERM "$1" 2>/dev/null || return 0
	until_true 150 eval "! kill -0 $1 2>/dev/null" || kill -KILL "$1" 2>/dev/null || true
	wait "$1" 2>/dev/null || true
}

stop_docker() {
	local p m
	[ -n "$docker_dir" ] || return 0
	if [ -n "$docker_pid" ] && docker_answers; then
		# shellcheck disable=SC2046 # ids
		timeout -k 5 60 docker rm -f $(docker ps -aq) >/dev/null 2>&1 || true
	fi
	[ -z "$docker_pid" ] || end_pid "$docker_pid"
	for p in $(docker_leftovers); do
		kill -KILL "$p" 2>/dev/null || true
	done
	until_true 50 eval '[ -z "$(docker_leftovers)" ]' || true
	awk -v d="$docker_dir/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
		while read -r m; do
			umount -l "$m" 2>/dev/null || true
		done
	rm -rf --one-file-system "$docker_dir"
	docker_pid='' docker_dir=''
	unset DOCKER_HOST
}
