# shellcheck shell=bash disable=SC2034,SC2154
# What the helper is for.  Sourced by run.sh.

section='probe: '
repository plain
helper probe
gives 'a repository' "kind repository
format sha1
branch main
commit $head"
git -C "$repo" checkout -q --detach v1
helper probe
gives 'a detached head' "kind repository
format sha1
commit $(git -C "$repo" rev-parse 'v1^{commit}')"
git -C "$repo" checkout -q main
git -C "$repo" pack-refs --all
helper probe
like 'packed names' "*commit $head" "$(cat "$T/out")"
git -C "$repo" worktree add -q "$T/tree" -b side
tree=$T/tree
repo=$tree
helper probe
gives 'a work tree of another' "kind worktree
link $T/plain/.git/worktrees/tree"
common=$T/plain/.git
helper probe
gives 'with its common directory' "kind worktree
link $T/plain/.git/worktrees/tree
format sha1
branch side
commit $head"
common=$T/none
git init -q "$T/empty"
repo=$T/empty
helper probe
gives 'one without a commit' 'kind repository
format sha1
branch main'
git init -q --bare "$T/bare"
repo=$T/bare
helper probe
like 'a bare one' 'kind bare*' "$(cat "$T/out")"
mkdir "$T/nothing"
repo=$T/nothing
helper probe
refused 'no repository' 4 '*not a git repository'
git init -q --object-format=sha256 "$T/sha256"
git -C "$T/sha256" commit -q --allow-empty -m x
repo=$T/sha256
helper probe
like 'other object ids' "*format sha256*commit $(git -C "$repo" rev-parse HEAD)" "$(cat "$T/out")"
shadow=$T/sha256.shadow
mkdir "$shadow"
helper snapshot HEAD
is 'and a snapshot of them' "$(git -C "$repo" rev-parse HEAD)" "$(git --git-dir="$shadow" rev-parse base)"

section='snapshot: '
repository snap
helper snapshot HEAD
gives 'the current commit' "commit $head
branch main"
is 'it is whole' '' "$(git --git-dir="$shadow" fsck --full 2>&1)"
is 'and nothing else came' "$head refs/heads/base" "$(git --git-dir="$shadow" for-each-ref --format='%(objectname) %(refname)')"
helper snapshot HEAD
refused 'into a directory that is not empty' 5 '*not empty'
for ref in v1 main "$(git -C "$repo" rev-parse HEAD~1)" refs/tags/v1; do
	rm -rf "$shadow" && mkdir "$shadow"
	helper snapshot "$ref"
	is "a commit by '${ref:0:12}'" "$(git -C "$repo" rev-parse "$ref^{commit}")" "$(git --git-dir="$shadow" rev-parse base)"
done
rm -rf "$shadow" && mkdir "$shadow"
helper snapshot nowhere
refused 'of no commit' 1 "there is no commit 'nowhere'"
is 'leaves the directory empty' '' "$(ls -A "$shadow")"
repo=$tree common=$T/plain/.git
helper snapshot HEAD
like 'from a work tree of another' "commit *branch side" "$(cat "$T/out")"
git clone -q --depth 1 "file://$T/snap" "$T/shallow"
repo=$T/shallow common=$T/none
rm -rf "$shadow" && mkdir "$shadow"
helper snapshot HEAD
gives 'of a shallow clone' "commit $(git -C "$repo" rev-parse HEAD)
branch main"
is 'it is whole as far as it goes' '' "$(git --git-dir="$shadow" fsck --full 2>&1)"
git clone -q --shared "$T/snap" "$T/shared"
repo=$T/shared
rm -rf "$shadow" && mkdir "$shadow"
helper snapshot HEAD
is 'objects of another repository come along' '' "$(rm -f "$shadow/objects/info/alternates" && git --git-dir="$shadow" fsck --full 2>&1)"

section='deliver: '
repository deliver
helper snapshot HEAD
agent_work t-1
helper deliver agent/t-1
gives 'a new branch' "commit $work"
is 'it is there' "$work" "$(git -C "$repo" rev-parse agent/t-1)"
is 'it needs the shadow no more' '' "$(mv "$shadow" "$shadow.away" && git -C "$repo" fsck --full 2>&1; mv "$shadow.away" "$shadow")"
is 'nothing else moved' "$head refs/heads/main" "$(git -C "$repo" for-each-ref --format='%(objectname) %(refname)' refs/heads/main)"
is 'the work tree is as it was' '' "$(git -C "$repo" status --porcelain)"
helper deliver agent/t-1
gives 'again is the same' "commit $work"
git -C "$T/work" commit -q --allow-empty -m four
git -C "$T/work" push -q origin HEAD:agent/t-1
helper deliver agent/t-1
gives 'forward' "commit $(git -C "$T/work" rev-parse HEAD)"
before=$(git -C "$repo" rev-parse agent/t-1)
agent_work t-1 other
helper deliver agent/t-1
refused 'not over other commits' 5 '*other commits*'
is 'the branch stays' "$before" "$(git -C "$repo" rev-parse agent/t-1)"
agent_work t-2
git -C "$repo" worktree add -q "$T/out-tree" -b agent/t-2
helper deliver agent/t-2
refused 'not one that is checked out' 5 '*checked out'
helper deliver agent/t-9
refused 'one that is not there' 1 '*no branch*'
for branch in main agent/ agent/a/b agent/../main 'agent/a b' agent/A $'agent/a\nb' '--help'; do
	helper deliver "$branch"
	refused "'${branch//$'\n'/ }' is no name for one" 1 '*not agent/ and a task id'
done
for n in {1..60}; do echo "$n" >"$T/work/f$n"; done
git -C "$T/work" add . && git -C "$T/work" commit -qm many && git -C "$T/work" push -q origin HEAD:agent/many
git -C "$repo" pack-refs --all
helper deliver agent/many
gives 'many objects' "commit $(git -C "$T/work" rev-parse HEAD)"
is 'the repository is whole' '' "$(git -C "$repo" fsck --full 2>&1 | grep -v dangling || true)"

section='delete-branch: '
helper delete-branch agent/many
gives 'a branch' "deleted $(git -C "$T/work" rev-parse HEAD)"
is 'it is gone' '' "$(git -C "$repo" branch --list agent/many)"
git -C "$repo" branch agent/packed && git -C "$repo" pack-refs --all
helper delete-branch agent/packed
gives 'a packed one' "deleted $head"
is 'it is gone too' '' "$(git -C "$repo" branch --list agent/packed)"
is 'the others stay' "$head $before" "$(git -C "$repo" rev-parse main agent/t-1 | tr '\n' ' ' | sed 's/ $//')"
holds 'packed-refs is a file still' [ ! -L "$repo/.git/packed-refs" ]
helper delete-branch agent/many
refused 'one that is not there' 1 '*no branch*'
helper delete-branch main
refused 'nothing but such a branch' 1 '*not agent/*'
helper delete-branch agent/t-2
refused 'not one that is checked out' 5 '*checked out'
git -C "$repo" symbolic-ref refs/heads/agent/link refs/heads/main
helper delete-branch agent/link
refused 'not what a link leads to' 5 '*link to another'
is 'main is there' "$head" "$(git -C "$repo" rev-parse main)"

section='venv: '
venv=$T/venv
mkdir -p "$venv/bin"
printf 'home = /usr/bin\nversion = 3.11.2\n' >"$venv/pyvenv.cfg"
ln -s /bin/true "$venv/bin/python"
helper venv
gives 'an environment' "python $(readlink -f /bin/true)
version 3.11.2"
ln -sfn /nonexistent/python3 "$venv/bin/python"
helper venv
refused 'without its interpreter' 4 '*/nonexistent/python3*'
rm "$venv/pyvenv.cfg"
helper venv
refused 'no environment' 4 '*pyvenv.cfg*'
