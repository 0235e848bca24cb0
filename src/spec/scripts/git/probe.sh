# shellcheck shell=sh disable=SC2034,SC2154
# Says what the folder is, one 'key value' a line.
owned "$repo"
find_git
printf 'kind %s\n' "$kind"
[ -z "$link" ] || printf 'link %s\n' "$link"
[ -n "$common" ] || exit 0
printf 'format %s\n' "$format"
view repo "$common"
read_head
[ -z "$branch" ] || printf 'branch %s\n' "$branch"
resolve "$at"
[ -z "$commit" ] || printf 'commit %s\n' "$commit"
