# shellcheck shell=sh
# Sourced, not run.  need_packages A B C installs the Debian packages that are missing and is silent when none is;
# what apt prints goes to $BAILEY_LOGS/apt.log (default: build/logs of the tree one stands in).

need_have() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Prints how to become root: nothing, or sudo with the proxy settings that apt needs and sudo would drop.
need_root() {
	[ "$(id -u)" -ne 0 ] || return 0
	if ! command -v sudo >/dev/null 2>&1; then
		echo "need: not root and no sudo; as root run: apt-get install$need_missing" >&2
		return 1
	fi
	if ! sudo -n true 2>/dev/null && ! [ -t 0 ]; then
		echo "need: sudo asks for a password; as root run: apt-get install$need_missing" >&2
		return 1
	fi
	echo sudo
}

need_apt() {
	# the lists' own lock knows no waiting, so another apt at work is tried again
	need_try=0
	until $need_sudo env DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} \
		${https_proxy:+"https_proxy=$https_proxy"} apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" \
		</dev/null >>"$need_log" 2>&1; do
		need_try=$((need_try + 1))
		if [ "$need_try" -ge 3 ]; then
			echo "need: apt-get $1 failed; the end of $need_log:" >&2
			tail -n 15 "$need_log" >&2
			return 1
		fi
		sleep 5
	done
}

need_packages() {
	if ! command -v dpkg-query >/dev/null 2>&1; then
		echo "need: no dpkg here; install what stands for these Debian packages: $*" >&2
		return 1
	fi
	need_missing=
	for need_p in "$@"; do
		need_have "$need_p" || need_missing="$need_missing $need_p"
	done
	[ -n "$need_missing" ] || return 0
	need_sudo=$(need_root) || return 1
	need_logs=${BAILEY_LOGS:-build/logs}
	mkdir -p "$need_logs" || return 1
	need_log=$need_logs/apt.log
	echo "need: installing$need_missing" >&2
	need_apt update || return 1
	# shellcheck disable=SC2086 # one argument per package
	need_apt install --no-install-recommends $need_missing || return 1
}
