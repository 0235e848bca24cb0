# shellcheck shell=bash
# Behaviour of run.sh: create --profile script, git-helper and handoff.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

image=()
[ -z "${BAILEY_RUN_IMAGE:-}" ] || image=(--image "$BAILEY_RUN_IMAGE")
me=$(id -u)

# Runs one to its end; its output is in $T/out and its status in rc.
task() { # FLAG...
	local status
	new ${image[@]+"${image[@]}"} --keep "$@"
	bailey wait "$sb" 1
	status=$rc
	bailey logs "$sb" 1
	cat "$T/err" >>"$T/out"
	rc=$status
}

mkdir "$T/script"
echo 'id -u; pwd; cat "$0" | wc -l; touch /workspace/x 2>/dev/null && echo written; echo $((2 * 21)); exit 5' >"$T/script/script.sh"
task --profile script --param language=bash --param "script=$T/script"
if [ "$me" -eq 0 ]; then inside=1000; else inside=$me; fi
is 'a script' "5 $inside /tmp 1 42" "$rc $(tr '\n' ' ' <"$T/out" | sed 's/ $//')"

export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example
git init -q -b main repo
git -C repo commit -q --allow-empty -m one
head=$(git -C repo rev-parse HEAD)
mkdir shadow
git_task() { # OPERATION PARAM...
	local operation=$1 params=() p
	shift
	for p in "$@"; do params+=(--param "$p"); done
	task ${rw[@]+"${rw[@]}"} --profile git-helper --param "operation=$operation" "${params[@]}"
}
# an image may lack git
task ${rw[@]+"${rw[@]}"} --profile git-helper --param operation=probe --param "repo=$PWD/repo"
if grep -q 'git: not found' "$T/out"; then
	skip 'git-helper' "no git in $BAILEY_RUN_IMAGE"
else
	is 'probe' "0 kind repository format sha1 branch main commit $head" "$rc $(tr '\n' ' ' <"$T/out" | sed 's/ $//')"
	git_task snapshot "repo=$PWD/repo" "shadow=$PWD/shadow"
	is 'snapshot' "0 $head" "$rc $(git --git-dir=shadow rev-parse base)"
	git clone -q shadow work -b base
	git -C work commit -q --allow-empty -m two
	git -C work push -q origin HEAD:agent/t-1
	git_task deliver "repo=$PWD/repo" "shadow=$PWD/shadow" branch=agent/t-1
	is 'deliver' "0 $(git -C work rev-parse HEAD)" "$rc $(git -C repo rev-parse agent/t-1)"
	is "what it wrote is the caller's" "$me" "$(stat -c %u repo/.git/refs/heads/agent/t-1)"
	git_task delete-branch "repo=$PWD/repo" branch=agent/t-1
	is 'delete-branch' '0 ' "$rc $(git -C repo branch --list agent/t-1)"
	if [ "$me" -eq 0 ]; then
		git init -q foreign
		chown 12345 foreign
		git_task probe "repo=$PWD/foreign"
		is "a folder of somebody else's" 3 "$rc"
	fi
fi
bailey create --profile git-helper --param operation=probe --param "repo=$PWD/repo" --param branch=agent/x
refused "$(rc_of bad_value)" bad_value 'what an operation has no use for'

mkdir -p "$T/given/sub"
touch "$T/given/sub/file" "$T/outside"
chmod 0 "$T/given/sub/file"
ln -s "$T/outside" "$T/given/link"
owners() {
	stat -c '%u:%g %a' "$T/given" "$T/given/sub" "$T/given/sub/file" | sort -u | tr '\n' ' '
}
task ${rw[@]+"${rw[@]}"} --profile handoff --param to=agent --param "workspace=$T/given"
if [ "$me" -eq 0 ]; then
	is 'handed over' '0 ' "$rc $(cat "$T/out")"
	is 'all belongs to the agent' '64000:64000 600 64000:64000 755 ' "$(owners)"
	is 'a link is given too, and what it leads to is not' '64000 0' "$(stat -c %u "$T/given/link") $(stat -c %u "$T/outside")"
	task ${rw[@]+"${rw[@]}"} --profile handoff --param to=caller --param "workspace=$T/given"
	is 'handed back' '0:0 600 0:0 755 ' "$(owners)"
else
	like 'nobody to hand over to' '0 nothing to hand over*' "$rc $(cat "$T/out")"
	is 'nothing is changed' 0 "$(stat -c %a "$T/given/sub/file")"
fi
if [ "$me" -eq 0 ]; then
	bailey exec "$sb" -- cat /proc/self/status
	is 'root that hands over has three capabilities' 000000000000000b "$(awk '$1 == "CapEff:" { print $2 }' "$T/out")"
fi
