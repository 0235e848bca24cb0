# shellcheck shell=sh disable=SC2034,SC2154
# Stands in front of each operation of the git helper.
#
# The repository is somebody's: its settings, hooks and filters may name programs.  Git therefore never runs with the
# repository as its git directory.  It runs with a "view": a git directory made here, with settings of its own, in which the
# repository's names are links and its objects are read through GIT_OBJECT_DIRECTORY.
#
# Exit status: 1 failed, 3 a directory is not the caller's, 4 not a repository that is understood, 5 a conflict.
set -eu
umask 077
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR \
	GIT_NAMESPACE GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_EXEC_PATH GIT_TEMPLATE_DIR
export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 \
	GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=none \
	GIT_PAGER=cat GIT_EDITOR=false
repo=${HELPER_REPO:-/repo} git=${HELPER_GIT:-/git} shadow=${HELPER_SHADOW:-/shadow} venv=${HELPER_VENV:-/opt/venv}
scratch=$(mktemp -d /tmp/helper.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
newline='
'

die() {
	status=$1
	shift
	printf '%s\n' "$*" >&2
	exit "$status"
}

owned() {
	if [ -L "$1" ] || ! [ -d "$1" ]; then die 4 "'$1' is not a directory"; fi
	owner=$(stat -c %u -- "$1")
	[ "$owner" = "$(id -u)" ] || die 3 "'$1' belongs to uid $owner, not to $(id -u)"
}

# The first line of a file of the repository's, which may be anything.
line_of() {
	if [ -L "$1" ] || ! [ -f "$1" ]; then die 4 "'$1' is not a file"; fi
	line=$(head -c 4096 -- "$1" | tr -d '\000' | head -n 1)
}

# Sets kind, link (where a .git file leads, as it says), common and head; common is empty when it was not given.
find_git() {
	link='' common='' head=''
	if [ -L "$repo/.git" ]; then
		die 4 "'.git' is a link"
	elif [ -d "$repo/.git" ]; then
		kind=repository common=$repo/.git head=$repo/.git/HEAD
	elif [ -f "$repo/.git" ]; then
		find_elsewhere
	elif [ -f "$repo/HEAD" ] && [ -d "$repo/objects" ] && [ -d "$repo/refs" ]; then
		kind=bare common=$repo head=$repo/HEAD
	else
		die 4 "'$repo' is not a git repository"
	fi
	if [ -n "$common" ]; then check_common; fi
}

find_elsewhere() {
	line_of "$repo/.git"
	case $line in
	"gitdir: "*[![:print:]]*) die 4 "'.git' names a path with control characters" ;;
	"gitdir: "*) link=${line#gitdir: } ;;
	*) die 4 "'.git' is neither a directory nor a line that names one" ;;
	esac
	name=${link##*/}
	kind=separate
	case $link in
	*/worktrees/*/*) ;;
	*/worktrees/.. | */worktrees/. | */worktrees/) ;;
	*/worktrees/*) kind=worktree ;;
	esac
	[ -d "$git" ] || return 0
	common=$git head=$git/HEAD
	if [ "$kind" = worktree ]; then
		if [ -L "$git/worktrees" ] || [ -L "$git/worktrees/$name" ]; then die 4 "'worktrees' is a link"; fi
		head=$git/worktrees/$name/HEAD
	fi
}

check_common() {
	owned "$common"
	owned "$common/objects"
	owned "$common/refs"
	[ ! -L "$common/packed-refs" ] || die 4 "'packed-refs' is a link"
	format=sha1
	if [ -f "$common/config" ]; then
		# only looked at as text: git never reads it
		grep -Eqi '^[[:space:]]*objectformat[[:space:]]*=[[:space:]]*"?sha256' -- "$common/config" && format=sha256
		! grep -Eqi '^[[:space:]]*refstorage[[:space:]]*=[[:space:]]*"?reftable' -- "$common/config" ||
			die 4 "its names are kept in a reftable, which is not understood"
	fi
}

# view NAME COMMON: a git directory over the names of COMMON.
view() {
	dir=$scratch/$1
	mkdir "$dir" "$dir/objects"
	ln -s "$2/refs" "$dir/refs"
	ln -s "$2/packed-refs" "$dir/packed-refs"
	[ ! -d "$2/logs" ] || [ -L "$2/logs" ] || ln -s "$2/logs" "$dir/logs"
	echo 'ref: refs/heads/none' >"$dir/HEAD"
	{
		echo '[core]'
		if [ "$format" = sha256 ]; then echo 'repositoryformatversion = 1'; else echo 'repositoryformatversion = 0'; fi
		echo 'bare = true'
		echo 'logallrefupdates = false'
		echo 'hookspath = /dev/null'
		echo 'fsmonitor = false'
		echo '[gc]'
		echo 'auto = 0'
		echo '[pack]'
		echo 'threads = 1'
		echo 'windowmemory = 128m'
		echo 'deltacachesize = 64m'
		if [ "$format" = sha256 ]; then
			echo '[extensions]'
			echo 'objectformat = sha256'
		fi
	} >"$dir/config"
	copy_shallow "$2" "$dir"
}

copy_shallow() {
	if [ -L "$1/shallow" ] || ! [ -s "$1/shallow" ]; then return 0; fi
	! grep -Evq '^[0-9a-f]+$' -- "$1/shallow" || die 4 "'shallow' holds something else than commits"
	cat -- "$1/shallow" >"$2/shallow"
}

# Git over the repository's names and objects.
repo_git() {
	GIT_OBJECT_DIRECTORY=$common/objects git --git-dir="$scratch/repo" "$@"
}

is_hex() {
	case $1 in
	*[!0-9a-f]*) return 1 ;;
	esac
	[ ${#1} = 40 ] || [ ${#1} = 64 ]
}

# Sets branch ('' when detached) and at (the name or id to look up) from HEAD.
read_head() {
	line_of "$head"
	branch=''
	case $line in
	"ref: refs/heads/"*)
		at=${line#ref: }
		git check-ref-format "$at" || die 4 "HEAD names no branch"
		branch=${at#refs/heads/}
		;;
	*)
		is_hex "$line" || die 4 "HEAD is neither a branch nor a commit"
		at=$line
		;;
	esac
}

# Sets commit from a name, or to ''.
resolve() {
	commit=''
	case $1 in
	refs/*) ;;
	*) is_hex "$1" || set -- "refs/heads/$1" "refs/tags/$1" "refs/remotes/$1" ;;
	esac
	for candidate in "$@"; do
		commit=$(repo_git rev-parse --verify --quiet "$candidate^{commit}") && return 0
	done
	commit=''
}

# A branch that is the current one of a work tree must not move under it; one that is a link to another is that other.
only_a_branch() {
	for f in "$common/HEAD" "$common"/worktrees/*/HEAD; do
		if [ -L "$f" ] || ! [ -f "$f" ]; then continue; fi
		line_of "$f"
		[ "$line" != "ref: refs/heads/$1" ] || die 5 "branch '$1' is checked out"
	done
	for f in "$common/refs/heads" "$common/refs/heads/agent" "$common/refs/heads/$1"; do
		[ ! -L "$f" ] || die 4 "'$f' is a link"
	done
	! repo_git symbolic-ref --quiet "refs/heads/$1" >/dev/null || die 5 "branch '$1' is a link to another"
}

# The one form of branch that is written or deleted.
agent_branch() {
	case $1 in
	*"$newline"*) ;;
	agent/*)
		if printf '%s\n' "${1#agent/}" | grep -Eq '^[0-9a-z][0-9a-z-]{0,63}$'; then return 0; fi
		;;
	esac
	die 1 "'$1' is not agent/ and a task id"
}
