# shellcheck shell=bash
# Topic of run.sh: which cgroups of others a run takes away: those of dead owners, and no more.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

# Where this caller's cgroups are made, one directory a hierarchy.
new_mark
start "$BAILEY" run -- sleep 60 "$mark"
until_true 50 is_marked "$mark" '^sleep$' || true
mapfile -t parents < <(cgroups | sed 's,/[^/]*$,,')
owner=$(cgroups | head -n 1 | sed 's,.*/,,')
kill -TERM "$bg"
finish_bg 10
holds 'there are cgroups' [ ${#parents[@]} -gt 0 ]
like 'a name tells home, id and owner' "$(home_name)b*-$bg-*-$(stat -L -c %i /proc/self/ns/pid)" \
	"$owner"

if [ ${#parents[@]} -gt 0 ]; then
	pid_space=$(stat -L -c %i /proc/self/ns/pid)
	dead=$(sh -c 'echo $$')
	self_start=$(perl -e '$_ = <>; s/.*\)//; print +(split)[19]' /proc/$$/stat)
	own=$(home_name)
	other=bailey-$(printf %08x $((RANDOM * RANDOM)))-
	plant() { # NAME: in every hierarchy
		local p
		for p in "${parents[@]}"; do
			mkdir "$p/$1"
			planted+=("$p/$1")
		done
	}
	there() { # NAME: in how many hierarchies
		local p n=0
		for p in "${parents[@]}"; do
			[ ! -d "$p/$1" ] || n=$((n + 1))
		done
		echo "$n"
	}
	# what is left in one hierarchy alone: another caller may share only some of them
	part=${parents[-1]}/${own}b0123456789abcde0-$dead-1-$pid_space
	mkdir "$part"
	planted+=("$part")
	id=b0123456789abcdef
	all=${#parents[@]}
	[ "$who" = root ] && left=0 || left=$all
	# HIERARCHIES THAT KEEP IT;NAME;WHAT IT IS
	cases=("0;$own$id-$dead-1-$pid_space;a dead owner of this home"
		"0;$own$id-$$-1-$pid_space;a process that has its number now"
		"$left;$other$id-$dead-1-$pid_space;a dead owner of another home"
		"$all;$other$id-$$-$self_start-$pid_space;a living owner of another home"
		"$all;$own$id-$$-$self_start-$pid_space;a living owner of this home"
		"$all;$own$id-$dead-1-$((pid_space + 1));a number of another pid namespace"
		"$all;$own$id-$dead;a name of fewer words"
		"$all;$own$id-$dead-x-$pid_space;a start that is no number"
		"$all;${own%-}0-$id-$dead-1-$pid_space;a longer hash"
		"$all;bailey-$id;something else")
	for c in "${cases[@]}"; do
		name=${c#*;}
		plant "${name%;*}"
	done
	expect_rc 0 'a run beside them' -- run -- true
	for c in "${cases[@]}"; do
		name=${c#*;}
		is "swept or left: ${name#*;}" "${c%%;*} of $all" "$(there "${name%;*}") of $all"
	done
	holds 'swept: a rest in the last hierarchy alone' [ ! -d "$part" ]
	stop_all
fi
