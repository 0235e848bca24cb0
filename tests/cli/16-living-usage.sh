# shellcheck shell=bash
# Topic of run.sh: what the verbs of living sandboxes refuse before they look for one, and what they say where there is none.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

for words in exec 'exec x' ps attach 'attach x' kill wait 'wait x' logs inspect stats pause resume stop start cp 'cp x' port \
	'port x' snapshot fork diff apply 'apply x' rm 'ps a b' 'attach a b c' 'kill a b c' 'cp a b c' 'diff a b' 'ls a' \
	'df a' 'prune a' 'events a' 'image import' 'image rm' 'image export a' 'image ls a'; do
	verb=${words%% *}
	[ "$verb" != image ] || verb=${words#image } verb="image ${verb%% *}"
	rest=${words#"$verb"}
	# shellcheck disable=SC2086 # words
	expect_reason usage "arguments: $words" -- "$verb" $rest
done
expect_reason usage 'image without a sub-verb' -- image
text="*'bailey snapshot'*" expect_reason usage 'a verb that is nearly one' -- snapshto x

# a sandbox that nobody has: by every verb, with its own status
for words in 'exec x -- true' 'attach x 1' 'wait x 1' 'ps x' 'kill x' 'kill x 1' 'logs x' 'logs x 1' 'inspect x' 'stats x' \
	'pause x' 'resume x' 'stop x' 'start x' 'cp x:/f f' 'cp f x:/f' 'cp x:/f -' 'port x 80' 'snapshot x' 'fork x' 'diff x' \
	'apply x dir --yes' 'rm x'; do
	[ "$words" != 'cp x:/f -' ] || continue # --json does not go with it
	# shellcheck disable=SC2086
	expect_reason sandbox_not_found "no such sandbox: $words" -- $words
done
for name in '' ../runs a/b UPPER $'a\nb' $'\e[2J' .. "$(printf 'a%.0s' {1..300})"; do
	bailey inspect "$name"
	refused_rc=$(refusal_rc sandbox_not_found inspect)
	ended "$refused_rc" sandbox_not_found "a name that nobody can have: $(printf %q "${name:0:20}")"
	if LC_ALL=C grep -q $'\e' "$T/err"; then
		not_ok 'nothing that changes a terminal' "$(cat -v "$T/err")"
	fi
done

# VERB [FLAG] REASON VALUE...
while read -r reason verb flag values; do
	for v in $values; do
		expect_reason "$reason" "$verb $flag $v" -- "$verb" "$flag=$v" x
	done
done <<'TABLE'
value_out_of_range create --disk 0 1 1023k 2t
bad_value create --disk x -1 1.5g
value_out_of_range create --ttl 367d
bad_value create --ttl soon 1h30m -1
bad_value create --name UPPER .dot _x a/b
value_out_of_range kill --signal 0 65 99
bad_value kill --signal NONE SIG term 9x
value_out_of_range stop --grace 2d
bad_value rm --grace x
TABLE
expect_reason bad_value 'create --name of 64 characters' -- create "--name=$(printf 'a%.0s' {1..64})"
expect_reason value_out_of_range 'create --name without a character' -- create --name= true
expect_reason bad_value 'exec --timeout soon' -- exec --timeout soon x true
expect_reason value_out_of_range 'exec --timeout 367d' -- exec --timeout 367d x true
expect_reason bad_value 'exec --env without a name' -- exec --env =1 x true
expect_reason bad_value 'exec --env of what is not set here' -- exec --env NOT_SET_HERE x true
for id in x 0 99999999999 1.5 ''; do
	for verb in attach wait kill logs; do
		bailey $verb x "$id"
		holds "$verb of a command '$id'" eval 'says value_out_of_range || says bad_value'
	done
done
for port in 0 65536 x 80:x 80:65536 : 80: ''; do
	bailey port x "$port"
	holds "port '$port'" eval 'says value_out_of_range || says bad_value'
done

# what belongs to the command is none of our flags
bailey exec x --no-such-flag true
ended 125 usage 'a flag in front of the command is ours'
bailey exec x true --no-such-flag
ended 125 sandbox_not_found 'one behind it is the command'\''s'
bailey exec x -- --no-such-flag
ended 125 sandbox_not_found 'and one behind --'
bailey exec x true --json
ended 125 sandbox_not_found 'its --json is none of ours either'
bailey exec --json x -t -- true
holds 'a terminal and JSON' refused_as_json usage 125

# sides of cp
expect_reason usage 'cp: no sandbox' -- cp a b
expect_reason usage 'cp: two sandboxes' -- cp x:/a x:/b
expect_reason usage 'cp: a path of the host with a colon' -- cp ./a:b c
expect_reason usage 'cp: an empty path inside' -- cp x: b
expect_reason usage 'cp: no side at all' -- cp - -

# several: each is said, the status is that of the first
bailey rm x y
is 'rm of two: status' "$(refusal_rc sandbox_not_found rm)" "$rc"
is 'rm of two: each is said' 2 "$(grep -c sandbox_not_found "$T/err")"
bailey stop --json x y
reports 'stop of two: JSON' errors.0.sandbox string x errors.1.sandbox string y \
	errors.1.reason string sandbox_not_found error.reason string sandbox_not_found
holds 'none was done' eval '! grep -q "^done\.[0-9]" <<<"$flat"'

# an empty home
for verb in ls 'ls --all' df prune events; do
	# shellcheck disable=SC2086
	expect_rc 0 "of an empty home: $verb" -- $verb
done
bailey ls --json
reports 'of an empty home: ls --json' '' list ''
mkdir "$T/nohome"
chmod 500 "$T/nohome"
if [ "$who" = user ]; then
	BAILEY_HOME=$T/nohome/x bailey create
	ended "$(refusal_rc state_unwritable create)" state_unwritable 'a home that cannot be made'
fi
rmdir "$T/nohome"
BAILEY_HOME=relative expect_reason bad_value 'a home that is no path' -- ls

# standard output that takes nothing
for verb in ls df 'help create'; do
	rc=0
	# shellcheck disable=SC2086
	timeout 20 "$BAILEY" $verb >/dev/full 2>"$T/err" </dev/null || rc=$?
	ended "$(refusal_rc output_failed ls)" output_failed "a full standard output: $verb"
done

# images are another program
mkdir "$T/libexec"
BAILEY_LIBEXEC=$T/libexec bailey image ls
ended "$(refusal_rc tool_missing image)" tool_missing 'no program for images'
