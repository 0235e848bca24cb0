# shellcheck shell=sh disable=SC2034,SC2154
# Fetches a branch agent/ID from the shadow directory into the repository: only forward, and never one that is checked out.
umask 022
agent_branch "$1"
owned "$repo"
find_git
[ -n "$common" ] || die 4 "its common git directory was not given"
owned "$shadow"
owned "$shadow/objects"
owned "$shadow/refs"
view repo "$common"
view shadow "$shadow"
only_a_branch "$1"
new=$(GIT_OBJECT_DIRECTORY=$shadow/objects git --git-dir="$scratch/shadow" rev-parse --verify --quiet "refs/heads/$1^{commit}") ||
	die 1 "there is no branch '$1' in the shadow directory"
old=$(repo_git rev-parse --verify --quiet "refs/heads/$1") || old=''
if [ "$old" = "$new" ]; then
	printf 'commit %s\n' "$new"
	exit 0
fi
both_git() {
	GIT_ALTERNATE_OBJECT_DIRECTORIES=$shadow/objects repo_git "$@"
}
[ -z "$old" ] || both_git merge-base --is-ancestor "$old" "$new" || die 5 "branch '$1' has other commits already"
both_git rev-list --objects --ignore-missing "$new" --not --all >"$scratch/objects"
if [ -s "$scratch/objects" ]; then
	cut -d ' ' -f 1 <"$scratch/objects" | { both_git pack-objects --stdout --quiet || true; } |
		repo_git index-pack --stdin --strict >/dev/null
fi
# whole without the shadow directory
repo_git rev-list --objects --quiet "$new" --not --all
if [ -z "$old" ]; then old=$(printf '%s' "$new" | tr 0-9a-f 0); fi
repo_git update-ref --no-deref "refs/heads/$1" "$new" "$old"
printf 'commit %s\n' "$new"
