# shellcheck shell=bash
# Topic of run.sh: what the host must have: cgroups, user namespaces, ranges of ids, places for
# state.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

# What is counted for each user of the host is capped inside, but not to nothing.
expect_out yes 'a message queue of the default size can be made' -- run -- perl -e '
	my $name = "queue";
	print syscall(240, $name, 0102, 0600, 0) >= 0 ? "yes" : "no: $!"'
expect_out yes 'an inotify instance can be had' -- run -- perl -e '
	print syscall(294, 0) >= 0 ? "yes" : "no: $!"'

if [ "$who" = user ]; then
	text='*--unlimited*' BAILEY_CGROUP_PARENT=no-such-cgroup expect_reason \
		resource_limits_unenforced 'no delegated cgroup' -- run -- true
	BAILEY_CGROUP_PARENT=no-such-cgroup expect_rc 7 '--unlimited runs without' -- \
		run --unlimited -- sh -c 'exit 7'
	BAILEY_CGROUP_PARENT=no-such-cgroup expect_reason resource_limits_unenforced \
		'a smaller limit is no way around' -- \
		run --memory 10m --pids 3 -- true
	BAILEY_CGROUP_PARENT=no-such-cgroup bailey run --unlimited --json -- true
	reports 'what nobody counts is null' memory_peak_bytes null '*' pids_peak null '*' \
		exit_code number 0
	if can_mount; then
		try in_private_mounts \
			'echo 0 >/proc/sys/user/max_user_namespaces; back "$BAILEY" run -- true'
		refusal userns_unavailable '*' 'no user namespaces'
	else
		skip 'no user namespaces' 'none here to forbid them in'
	fi
	return 0
fi

# From here on: root's ranges of ids.
mkfifo "$T/fifo-ids"
exec 7<>"$T/fifo-ids"
range='read -r _ first _ </proc/self/uid_map; echo "$first"'
"$BAILEY" run -i -- sh -c "$range; read -r x" <&7 >"$T/first" 2>&1 &
bg=$!
started+=("$bg")
until_true 50 [ -s "$T/first" ] || true
bailey run -- sh -c "$range"
first=$(cat "$T/first")
second=$(cat "$T/out")
echo >&7
exec 7>&-
finish_bg 10
if [ -n "$first" ] && [ -n "$second" ] && [ "$first" -ne "$second" ] &&
	[ $(((first - second) % 65536)) -eq 0 ]; then
	ok 'two sandboxes have different ids'
else
	not_ok 'two sandboxes have different ids' "$first, $second; $(left)"
fi
holds 'from the range that is Bailey'\''s' [ "${first:-0}" -ge $((0x70000000)) ]
BAILEY_IDS_BASE=1000013824 expect_out yes 'BAILEY_IDS_BASE' -- \
	run -- sh -c 'read -r _ first count </proc/self/uid_map
		[ "$first" -ge 1000013824 ] && [ "$first" -lt 1300000000 ] && echo yes'
BAILEY_IDS_BASE=4293918720 expect_reason value_out_of_range 'a range past the last id' -- run -- \
	true
BAILEY_IDS_BASE=1000000000 expect_reason value_out_of_range 'a base between two ranges' -- \
	run -- true
BAILEY_IDS_BASE=0 expect_reason value_out_of_range 'a range with the host'\''s own ids' -- run -- \
	true

if can_mount; then
	# a /run of its own, so that no other sandbox of this host takes part
	both='first='\''read -r _ first _ </proc/self/uid_map; echo "$first"'\''
		mounter tmpfs /run size=1m,mode=0755
		out=$1
		shift
		mkfifo /run/fifo
		exec 7<>/run/fifo
		env $1 "$BAILEY" run -i -- sh -c "$first; read -r x" <&7 >"$out" 2>&1 &
		for i in $(seq 100); do [ ! -s "$out" ] || break; sleep 0.1; done
		rc=0
		env $2 "$BAILEY" run -- sh -c "$first" || rc=$?
		echo >&7
		wait $!
		exit $rc'
	try in_private_mounts "$both" "$T/map1" BAILEY_IDS_COUNT=1 BAILEY_IDS_COUNT=1
	refusal id_range_exhausted '*' 'no range is left'
	try in_private_mounts "$both" "$T/map1" BAILEY_IDS_COUNT=2 BAILEY_IDS_COUNT=2
	is 'the last range is used' 0 "$rc"
	# the same ids counted from two bases, in two homes
	try in_private_mounts "$both" "$T/map1" \
		"BAILEY_IDS_BASE=1900085248 BAILEY_IDS_COUNT=1 BAILEY_HOME=$T/home1" \
		"BAILEY_IDS_BASE=1900019712 BAILEY_IDS_COUNT=2 BAILEY_HOME=$T/home2"
	first=$(head -n 1 "$T/map1")
	second=$(cat "$T/out")
	is 'the first of two bases starts' 1900085248 "$first"
	[ "$rc" -eq 0 ] || second=refused
	holds 'two bases never give the same ids' [ "$first" != "$second" ]
	conflict() { # FILE LINE
		cp "$1" "$T/table" 2>/dev/null || : >"$T/table"
		echo "$2" >>"$T/table"
		try in_private_mounts 'mounter bind "$1" "$2"; "$BAILEY" run -- true' "$1" \
			"$T/table"
		if refused_as_text id_range_conflict 125 "*$1*"; then
			ok "ids that $1 gives away"
		else
			not_ok "ids that $1 gives away" "$(left)"
		fi
	}
	for table in /etc/subuid /etc/subgid; do
		[ -e "$table" ] || continue
		conflict "$table" "somebody:$((0x70000000 + 65536 * 7)):65536"
	done
	conflict /etc/passwd "somebody:x:$((0x70000000 + 99)):100::/nonexistent:/bin/false"
	conflict /etc/group "somebody:x:$((0x70000000 + 65536 * 99)):"
	try in_private_mounts \
		'mounter tmpfs /run mode=0755; mounter ro /run ""; "$BAILEY" run -- true'
	refusal state_unwritable '*/run/bailey*' 'no place for the lock of the ids'
else
	skip 'id ranges' 'no private mounts here'
fi
