# shellcheck shell=sh disable=SC2034,SC2154
# Copies one commit and all that it needs into the empty shadow directory, which becomes a bare repository.
owned "$repo"
find_git
[ -n "$common" ] || die 4 "its common git directory was not given"
owned "$shadow"
[ -z "$(ls -A -- "$shadow")" ] || die 5 "the shadow directory is not empty"
view repo "$common"
read_head
[ "$1" = HEAD ] || at=$1
resolve "$at"
[ -n "$commit" ] || die 1 "there is no commit '$1'"
git init --quiet --bare --template= --object-format="$format" --initial-branch=base "$shadow"
copy_shallow "$common" "$shadow"
printf '%s\n' "$commit" | { repo_git pack-objects --revs --stdout --quiet || true; } |
	git --git-dir="$shadow" -c pack.threads=1 index-pack --stdin >/dev/null
git --git-dir="$shadow" rev-list --objects --quiet "$commit"
git --git-dir="$shadow" update-ref refs/heads/base "$commit"
printf 'commit %s\n' "$commit"
[ -z "$branch" ] || printf 'branch %s\n' "$branch"
