#!/usr/bin/env bash
# usage: tests/conformance/run.sh [--engine native|docker|gvisor|podman] [--jobs N] [BEHAVIOUR...]
# What every engine's sandboxes do, seen from the command line of the built program (BAILEY, or the
# staged one).  One behaviour is one file NAME.sh beside this one; each runs by itself, with a home
# of its own and below a process that adopts whatever it leaves (reaper.pl), N at a time.  A
# behaviour that lacks.txt names for the engine is a skip.  Runs as whoever calls; all but native
# need root, and get a private daemon with an image of Debian.
# Needs bash, coreutils, util-linux and perl-base.
set -eu
export LC_ALL=C
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/user.sh"
. "$here/../lib/host.sh"
. "$here/../lib/docker.sh"

engine=native jobs=4 logs='' pids=()

usage() {
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
	exit "$1"
}

behaviours() {
	local f
	for f in "$here"/*.sh; do
		f=${f##*/}
		case $f in
		run.sh | lib.sh | one.sh) ;;
		*) echo "${f%.sh}" ;;
		esac
	done
}

# Why the engine may lack a behaviour; nothing when it must not.
lack() { # BEHAVIOUR
	awk -v engine="$engine" -v name="$1" '
		$1 == engine && $2 == name { sub(/^[^ \t]+[ \t]+[^ \t]+[ \t]+/, ""); print; exit }
	' "$here/lacks.txt"
}

run_one() { # BEHAVIOUR
	local why rc=0
	why=$(lack "$1")
	if [ -n "$why" ]; then
		echo "skip $1 $why"
		return
	fi
	# more than any behaviour needs on a busy machine of two cores
	perl "$here/reaper.pl" "$1" 100 bash "$here/one.sh" "$engine" "$1" || rc=$?
	[ "$rc" -eq 0 ] || echo "# $1: status $rc"
}

show() { # BEHAVIOUR
	cat "$logs/$1"
	grep -qE '^(ok|not ok|skip) ' "$logs/$1" || echo "not ok $1: ran to its end"
}

count() { # WORD
	grep -c "^$1 " "$logs/all" || true
}

# The statx of this gVisor fails where newer tools ask for all that there is: those of busybox ask for less.
without_statx() { # REF
	local name
	mkdir -p "$logs.daemon/tools/usr/local/bin"
	for name in ls stat; do
		ln -s /bin/busybox "$logs.daemon/tools/usr/local/bin/$name"
	done
	name=$(docker create --network none "$1" /bin/true)
	tar -C "$logs.daemon/tools" -cf - usr | docker cp - "$name:/" >/dev/null
	docker commit "$name" "$1" >/dev/null
	docker rm "$name" >/dev/null
}

# What the sandboxes are made by, and from.
choose_engine() {
	local words=()
	case $engine in
	native) return 0 ;;
	docker) ;;
	gvisor)
		words=(--gvisor)
		export BAILEY_DOCKER_RUNTIME=runsc
		;;
	podman) words=(--podman) ;;
	*)
		echo "run.sh: no engine '$engine'" >&2
		exit 2
		;;
	esac
	have_docker ${words[@]+"${words[@]}"} || {
		echo "run.sh: engine '$engine' needs root and its programs" >&2
		exit 77
	}
	start_docker "$logs.daemon" ${words[@]+"${words[@]}"}
	import_bookworm bailey-test/bookworm:1
	[ "$engine" != gvisor ] || without_statx bailey-test/bookworm:1
	export BAILEY_LAUNCHER=none BAILEY_ENGINE_DEFAULT=docker BAILEY_DOCKER_DISK=watch \
		BAILEY_RUN_IMAGE=bailey-test/bookworm:1
}

end_all() {
	end_beside "$logs" ${pids[@]+"${pids[@]}"}
	stop_docker
}

run_all() { # BEHAVIOUR...
	local name
	for name in "$@"; do
		while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
			wait -n || true
		done
		run_one "$name" >"$logs/$name" 2>&1 </dev/null &
		pids+=("$!")
	done
	for name in "$@"; do
		while jobs -rp | grep -qx "${pids[0]}"; do
			wait -n "${pids[0]}" || true
		done
		pids=(${pids[@]+"${pids[@]:1}"})
		show "$name" | tee -a "$logs/all"
	done
}

main() {
	local names name
	while [ $# -gt 0 ]; do
		case $1 in
		--engine) engine=${2:?} && shift ;;
		--jobs) jobs=${2:?} && shift ;;
		-h | --help) usage 0 ;;
		-*) usage 2 >&2 ;;
		*) break ;;
		esac
		shift
	done
	mapfile -t names < <(behaviours)
	[ $# -eq 0 ] || names=("$@")
	for name in "${names[@]}"; do
		[ -f "$here/$name.sh" ] || {
			echo "run.sh: no behaviour '$name'; there are: $(behaviours | tr '\n' ' ')" >&2
			exit 2
		}
	done
	find_bailey
	unset "${!BAILEY_RUN_@}" "${!BAILEY_IDS_@}" "${!BAILEY_CREATE_@}" BAILEY_LIBEXEC
	logs=$(mktemp -d /var/tmp/bailey-conformance.XXXXXX)
	trap end_all EXIT
	trap 'exit 130' INT TERM
	choose_engine
	run_all "${names[@]}"
	passed=$(count ok) failed=$(count 'not ok') skipped=$(count skip)
	finish
}

main "$@"
