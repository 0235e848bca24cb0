# shellcheck shell=bash
# Behaviour of run.sh: names: taken, freed, invalid, prefixes of ids.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --name one
tells 'a sandbox is made with a name' x 'echo x'
one=$sb
is 'inspect says it' one "$(fact name)"
is 'found by its name' "$one" "$(fact id one)"
is 'found by the start of its id' "$one" "$(fact id "${one:0:8}")"
refuses sandbox_not_found 'three letters are too few' inspect "${one:0:3}"
refuses sandbox_not_found 'a name nobody has' inspect two
refuses sandbox_not_found 'a name with a slash' inspect ../runs
refuses sandbox_not_found 'an empty name' inspect ''
refuses sandbox_exists 'a name that is taken' create --name one
for name in UPPER .dot -dash 'a b' a/b "$(printf 'a%.0s' {1..64})" $'a\nb' ''; do
	bailey create --name "$name"
	holds "a name that can't be: '${name//$'\n'/newline}'" [ "$rc" -eq 2 ]
done
is 'nothing was made by that' 1 "$(ids | wc -l)"
bailey rm --force one
is 'removed by its name' 0 "$rc"
new --name one
holds 'the name is free again' [ "$sb" != "$one" ]
bailey rm --force one

# of many that want one name, one gets it
for i in 1 2 3 4 5; do
	beside "many.$i" create --name many
done
all_ended
is 'five at once want one name: one is made' 1 "$(cat "$T"/many.*.rc | grep -cx 0)"
is 'and one is listed' 1 "$(ids | wc -l)"
is 'it is the one that the name finds' "$(cat "$T"/many.*.out)" "$(fact id many)"
is 'the others are told why' 4 "$(cat "$T"/many.*.err | grep -c '\[sandbox_exists\]')"
