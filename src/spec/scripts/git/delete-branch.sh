# shellcheck shell=sh disable=SC2034,SC2154
# Deletes a branch agent/ID, and nothing else.
agent_branch "$1"
owned "$repo"
find_git
[ -n "$common" ] || die 4 "its common git directory was not given"
view repo "$common"
only_a_branch "$1"
old=$(repo_git rev-parse --verify --quiet "refs/heads/$1") || die 1 "there is no branch '$1'"
repo_git update-ref --no-deref -d "refs/heads/$1" "$old"
printf 'deleted %s\n' "$old"
