#!/usr/bin/env bash
# The git helper's scripts with real git on repositories that are good, odd and hostile.  No sandbox is
# around them here: whatever a repository could have them run would leave its mark on the host.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts=$PWD/src/spec/scripts/git
T=$(mktemp -d /tmp/bailey-profiles.XXXXXX)
trap 'rm -rf "$T"' EXIT
. tests/lib/tap.sh
export HOME=$T/home GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example GIT_COMMITTER_NAME=a \
	GIT_COMMITTER_EMAIL=a@example
mkdir "$HOME"
git config --global protocol.file.allow always
git config --global init.defaultBranch main

# A repository with two commits on main, a tag, and a file that git's filters would see.
repository() { # NAME
	repo=$T/$1
	git init -q "$repo"
	echo one >"$repo/file"
	git -C "$repo" add . && git -C "$repo" commit -qm one
	git -C "$repo" tag -am first v1
	echo two >"$repo/file"
	git -C "$repo" commit -qam two
	head=$(git -C "$repo" rev-parse HEAD)
	shadow=$T/$1.shadow
	mkdir "$shadow"
	common=$T/none
}

# Runs an operation as the profile does: the text behind `sh -c`, and arguments.
helper() { # OPERATION [ARGUMENT]
	local operation=$1
	shift
	rc=0
	env -i PATH="$PATH" HOME=/tmp LANG=C.UTF-8 HELPER_REPO="$repo" HELPER_GIT="$common" HELPER_SHADOW="$shadow" \
		HELPER_VENV="${venv:-}" sh -c "$(cat "$scripts/common.sh" "$scripts/$operation.sh")" "$operation" "$@" \
		>"$T/out" 2>"$T/err" </dev/null || rc=$?
}

gives() { # NAME EXPECTED
	is "$1" "0: $2" "$rc: $(cat "$T/out")$(cat "$T/err")"
}

refused() { # NAME STATUS PATTERN
	is "$1" "$2: " "$rc: $(cat "$T/out")"
	like "$1, and why" "$3" "$(cat "$T/err")"
}

# A branch agent/ID in the shadow directory, one commit ahead.
agent_work() { # ID [MESSAGE]
	rm -rf "$T/work"
	git clone -q "$shadow" "$T/work" -b base
	echo "${2:-three}" >>"$T/work/file"
	git -C "$T/work" commit -qam "${2:-three}"
	git -C "$T/work" push -q -f origin "HEAD:refs/heads/agent/$1"
	work=$(git -C "$T/work" rev-parse HEAD)
}

. tests/profiles/ordinary.sh
. tests/profiles/hostile.sh
finish
