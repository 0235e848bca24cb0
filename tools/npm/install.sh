#!/bin/sh
# Installs one agent's pinned program once and prints the directory that holds it.
#   tools/npm/install.sh claude|codex
# The program goes to ${BAILEY_CACHE:-~/.cache/bailey}/agents/NAME-LOCK, where LOCK is the start of
# the lock file's hash: another pin is another directory.  npm checks the package against the lock
# file and runs nothing of what it installs.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
agent=${1:-}
case $agent in
claude) bin=node_modules/@anthropic-ai/claude-code-linux-x64 ;;
codex) bin=node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin ;;
*)
	echo "usage: install.sh claude|codex" >&2
	exit 2
	;;
esac
if [ "$(uname -m)" != x86_64 ]; then
	echo "install.sh: the pinned programs are for x86_64, this machine is $(uname -m)" >&2
	exit 1
fi

lock=$(sha256sum "$here/$agent/package-lock.json" | cut -c1-12)
agents=${BAILEY_CACHE:-$HOME/.cache/bailey}/agents
dir=$agents/$agent-$lock
if [ -x "$dir/$bin/$agent" ]; then
	echo "$dir/$bin"
	exit 0
fi

command -v npm >/dev/null || {
	echo "install.sh: npm is missing; install it with: apt-get install nodejs npm" >&2
	exit 1
}
mkdir -p "$agents"
part=$(mktemp -d "$agents/.part-XXXXXX")
trap 'rm -rf "$part"' EXIT
trap 'exit 130' INT TERM
cp "$here/$agent/package.json" "$here/$agent/package-lock.json" "$part/"
echo "install.sh: fetching $agent (some 100 MB, once)" >&2
# its own npm cache, removed with the rest: the user's is left as it was
npm ci --prefix "$part" --cache "$part/.npm" --ignore-scripts --no-audit --no-fund --no-update-notifier \
	--loglevel=error >"$part/npm.log" 2>&1 </dev/null || {
	cat "$part/npm.log" >&2
	echo "install.sh: npm could not install $agent" >&2
	exit 1
}
[ -x "$part/$bin/$agent" ] || {
	echo "install.sh: the package of $agent has no program '$bin/$agent'" >&2
	exit 1
}
rm -rf "$part/.npm"
chmod 755 "$part"
# a second install may have been quicker; its result is the same
mv -T "$part" "$dir" 2>/dev/null || [ -x "$dir/$bin/$agent" ]
trap - EXIT
rm -rf "$part"
echo "$dir/$bin"
