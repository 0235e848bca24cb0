# shellcheck shell=bash
# Behaviour of run.sh: a full process limit: exec says so, kill and files still work.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new --pids 20
detach perl -e '$| = 1; my $n = 0;
	while (1) {
		my $p = fork;
		if (!defined $p) { print "full at $n\n"; sleep 1 while 1 }
		if (!$p) { sleep 1 while 1 }
		$n++;
	}'
full() {
	bailey logs "$sb" "$cmd"
	grep -q full "$T/out"
}
holds 'it becomes full' until_true 100 full
between 'at about the limit' 10 200 "$(sed 's/.* //' "$T/out")"
limit=20 bailey exec "$sb" -- true
refused 125 pids_exhausted 'exec says so'
echo x >"$T/f"
bailey cp "$T/f" "$sb:/workspace/f"
is 'cp in works' 0 "$rc"
bailey cp "$sb:/workspace/f" "$T/g"
is 'cp out works' x "$(cat "$T/g")"
for verb in ps stats inspect; do
	bailey "$verb" "$sb"
	is "$verb works" 0 "$rc"
done
bailey kill "$sb" "$cmd"
is 'kill works' 0 "$rc"
free() {
	bailey exec "$sb" -- true
	[ "$rc" -eq 0 ]
}
holds 'then there is room' until_true 50 free
# a bomb that goes on while it is killed
detach perl -e 'while (1) {
	my $p = fork;
	exec "sleep", "1000" if defined $p && !$p && rand() < 0.1 }'
sleep 0.7
bailey kill "$sb" "$cmd"
is 'a fork bomb is killed' 0 "$rc"
holds 'and then there is room again' until_true 100 free
