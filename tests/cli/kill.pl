# usage: kill.pl COUNT MAX_MS PROGRAM...
# Starts the program COUNT times and sends it SIGKILL after a random time of at most MAX_MS
# milliseconds.  Whatever has the word MARK among its arguments (the program is to pass it on) must
# be gone within a second of that: prints how many rounds left something behind, and the longest
# time in milliseconds until all was gone.
use strict;
use warnings;

my ($count, $max, @program) = @ARGV;
my ($left, $worst, $mark) = (0, 0, $ENV{MARK});
my $seed = time;
srand $seed;
printf STDERR "seed %s\n", $seed;

# Time::HiRes is not in perl-base
sub now {
	my $t = pack 'q2', 0, 0;
	syscall 228, 1, $t; # clock_gettime, monotonic
	my ($s, $ns) = unpack 'q2', $t;
	return $s + $ns / 1e9;
}

sub pause {
	select undef, undef, undef, $_[0];
}

sub alive {
	for my $dir (glob '/proc/[0-9]*') {
		open my $f, '<', "$dir/cmdline" or next;
		local $/;
		my $line = <$f>;
		return 1 if defined $line && index($line, $mark) >= 0 && $dir ne "/proc/$$";
	}
	return 0;
}

# Orphans come to this process and are reaped below: where no init does that (a container), the dead would hold what the
# kernel counts per user, the keyrings of their sandboxes for one.
syscall 157, 36, 1, 0, 0, 0; # prctl(PR_SET_CHILD_SUBREAPER)

for my $i (1 .. $count) {
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', '/dev/null';
		exec @program or exit 99;
	}
	pause(rand($max) / 1000);
	kill KILL => $pid;
	waitpid $pid, 0;
	my $since = now();
	my $still;
	pause(0.002) while ($still = alive()) && now() - $since < 1;
	1 while waitpid(-1, 1) > 0; # WNOHANG
	$left++ if $still;
	my $took = (now() - $since) * 1000;
	$worst = $took if $took > $worst;
}
printf "%d %d\n", $left, $worst;
