# shellcheck shell=bash disable=SC2034,SC2154
# Repositories that want to run something, or to be something else.  Sourced by run.sh.

section='hostile: '
canary=$T/canary
cat >"$T/trap" <<END
#!/bin/sh
echo "\$0 \$*" >>'$canary'
exit 0
END
chmod +x "$T/trap"

untouched() { # NAME
	is "$1" '' "$(cat "$canary" 2>/dev/null)"
	rm -f "$canary"
}

# Every setting of git's that names a program, a hook of every name, filters, and a place for more settings.
set_traps() { # GIT-DIRECTORY
	local dir=$1 hook key
	for key in core.fsmonitor core.sshCommand core.editor core.pager core.askPass core.gitProxy core.alternateRefsCommand \
		sequence.editor gpg.program gpg.ssh.program diff.external credential.helper uploadpack.packObjectsHook \
		filter.x.clean filter.x.smudge filter.x.process merge.x.driver diff.x.textconv diff.x.command \
		trailer.x.command remote.origin.uploadpack remote.origin.receivepack alias.rev-parse alias.rev-list \
		alias.update-ref alias.index-pack alias.pack-objects gc.recentObjectsHook interactive.diffFilter \
		pager.rev-list pager.rev-parse pager.update-ref maintenance.auto; do
		git --git-dir="$dir" config "$key" "$T/trap"
	done
	git --git-dir="$dir" config core.hooksPath "$T/hooks"
	git --git-dir="$dir" config include.path "$T/more"
	git --git-dir="$dir" config protocol.ext.allow always
	git --git-dir="$dir" config remote.origin.url "ext::$T/trap"
	git --git-dir="$dir" config remote.origin.promisor true
	git --git-dir="$dir" config extensions.partialClone origin
	git --git-dir="$dir" config core.repositoryFormatVersion 1
	git --git-dir="$dir" config core.worktree /
	git --git-dir="$dir" config gc.auto 1
	printf '[core]\n\tfsmonitor = %s\n' "$T/trap" >"$T/more"
	mkdir -p "$T/hooks" "$dir/hooks" "$dir/info"
	for hook in pre-commit post-commit post-checkout post-index-change reference-transaction update pre-receive \
		post-receive post-update pre-auto-gc fsmonitor-watchman post-rewrite proc-receive push-to-checkout; do
		cp "$T/trap" "$T/hooks/$hook"
		cp "$T/trap" "$dir/hooks/$hook"
	done
	echo '* filter=x diff=x merge=x' >"$dir/info/attributes"
}

repository traps
echo '* filter=x diff=x merge=x' >"$repo/.gitattributes"
git -C "$repo" add . && git -C "$repo" commit -qm attributes
head=$(git -C "$repo" rev-parse HEAD)
git -C "$repo" branch agent/old
set_traps "$repo/.git"
# the traps are good: git itself falls into them
git -C "$repo" update-ref refs/heads/x "$head" 2>/dev/null || true
if [ -s "$canary" ]; then ok 'the traps work'; else not_ok 'the traps work'; fi
rm -f "$canary"
helper probe
gives 'probe' "kind repository
format sha1
branch main
commit $head"
untouched 'probe ran nothing'
helper snapshot HEAD
gives 'snapshot' "commit $head
branch main"
untouched 'snapshot ran nothing'
agent_work t-1
rm -f "$canary"
set_traps "$shadow"
helper deliver agent/t-1
gives 'deliver' "commit $work"
untouched 'deliver ran nothing'
helper delete-branch agent/old
gives 'delete-branch' "deleted $head"
untouched 'delete-branch ran nothing'

# A promised object that is not there would be fetched by whatever the repository names.
repository promised
blob=$(git -C "$repo" rev-parse HEAD:file)
set_traps "$repo/.git"
rm -f "$repo/.git/objects/${blob:0:2}/${blob:2}"
helper snapshot HEAD
like 'an object that is missing' '[1-9]*' "$rc"
untouched 'is not fetched'

# A submodule is a name and an id; its repository is not entered.
repository with-sub
sub=$repo
repository outer
git -C "$repo" submodule --quiet add "$sub" sub 2>/dev/null
git -C "$repo" commit -qm sub
set_traps "$repo/.git/modules/sub"
git -C "$repo" config fetch.recurseSubmodules true
git -C "$repo" config submodule.recurse true
helper snapshot HEAD
gives 'a submodule' "commit $(git -C "$repo" rev-parse HEAD)
branch main"
untouched 'it ran nothing'
repo=$repo/sub common=$T/outer/.git/modules/sub
rm -rf "$shadow" && mkdir "$shadow"
helper snapshot HEAD
like 'the submodule itself' 'commit *' "$(cat "$T/out")"
untouched 'it ran nothing either'
common=$T/none

repository alternates
mkdir -p "$T/outside"
echo "$T/outside
../../../../../../etc" >"$repo/.git/objects/info/alternates"
helper snapshot HEAD
is 'objects that lead elsewhere do no harm' 0 "$rc"

repository linked
mv "$repo/.git" "$T/linked.git" && ln -s "$T/linked.git" "$repo/.git"
helper probe
refused 'a .git that is a link' 4 '*is a link'
repository links
mv "$repo/.git/refs" "$T/links.refs" && ln -s "$T/links.refs" "$repo/.git/refs"
helper probe
refused 'names that are a link' 4 '*not a directory'
repository branch-link
helper snapshot HEAD
agent_work t-1
ln -s "$T/outside" "$repo/.git/refs/heads/agent"
helper deliver agent/t-1
refused 'a directory of branches that is a link' 4 '*is a link'
is 'nothing was written there' '' "$(ls -A "$T/outside")"

mkdir "$T/gitfile"
repo=$T/gitfile
for text in '' 'x' 'gitdir: ' $'gitdir: /a\x1b[2J/worktrees/x' "gitdir: $T/plain/.git/worktrees/.." 'gitdir: ../../etc/worktrees/../..'; do
	printf '%s\n' "$text" >"$repo/.git"
	common=$T/plain/.git
	helper snapshot HEAD
	case $rc in
	1 | 4) ok "a .git file that says '$(printf '%s' "${text:0:24}" | tr -cd '[:print:]')'" ;;
	0) is 'one that leads back is the repository itself' "$(git -C "$T/plain" rev-parse HEAD)" "$(git --git-dir="$shadow" rev-parse base)" ;;
	*) not_ok 'a .git file' "$rc: $(cat "$T/err")" ;;
	esac
	rm -rf "$shadow" && mkdir "$shadow"
done
common=$T/none
repository head
for text in 'ref: refs/heads/../../../etc' 'ref: /etc/passwd' 'ref: refs/tags/v1' '-x' "$head$head" ''; do
	printf '%s\n' "$text" >"$repo/.git/HEAD"
	helper probe
	is "HEAD says '${text:0:28}'" 4 "$rc"
done
head -c 100000 /dev/zero >"$repo/.git/HEAD"
helper probe
is 'HEAD is zeros' 4 "$rc"

if [ "$(id -u)" -eq 0 ]; then
	repository foreign
	chown 12345 "$repo"
	helper probe
	refused 'a folder of somebody else' 3 "*belongs to uid 12345, not to 0"
	chown 0 "$repo" && chown 12345 "$repo/.git"
	helper probe
	refused 'a repository of somebody else' 3 '*belongs to uid 12345*'
	repository foreign-shadow
	chown 12345 "$shadow"
	helper snapshot HEAD
	refused 'a shadow directory of somebody else' 3 '*belongs to uid 12345*'
	venv=$T/venv
	chown 12345 "$venv"
	helper venv
	refused 'an environment of somebody else' 3 '*belongs to uid 12345*'
fi
