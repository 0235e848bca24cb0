# usage: sandboxes.pl COUNT PARALLEL MARK BAILEY
# Makes COUNT sandboxes, PARALLEL at a time, of ten kinds in turn, among them some whose `bailey` is
# killed at a random moment.  Each long-running command has MARK among its arguments.  Prints, a
# line for each kind, how many there were and how many ended as that kind has to.
use strict;
use warnings;

my ($count, $parallel, $mark, $bailey) = @ARGV;

# name, the status it must end with (a regex; of the killed: by signal 9), kill after ms, words
my @kinds = (
	['plain', '0', 0, '--', 'true'],
	['plain', '7', 0, '--', 'sh', '-c', 'exit 7'],
	['plain', '0', 0, '--json', '--', 'true'],
	['unlimited', '0', 0, '--unlimited', '--', 'true'],
	['timeout', '124', 0, '--timeout', '30ms', '--', 'sleep', '60', $mark],
	['oom', '137', 0, '--memory', '8m', '--', 'sh', '-c',
		'x=$(head -c 64m /dev/zero | tr "\\0" x)'],
	['killed', '', 15, '--', 'sleep', '60', $mark],
	['killed', '', 40, '--', 'sh', '-c', 'trap "" TERM HUP; (sleep 60 &) & sleep 60', $mark],
	['refused', '125', 0, '--memroy', '1g', '--', 'true'],
	['not found', '127', 0, '--', 'no-such-command'],
);

my (%running, %made, %right, %wrong);

# The clock that select works by; Time::HiRes is not in perl-base.
sub now_ms {
	my $t = pack 'q2', 0, 0;
	syscall 228, 1, $t; # clock_gettime, monotonic
	my ($s, $ns) = unpack 'q2', $t;
	return $s * 1000 + $ns / 1e6;
}

sub start_one {
	my ($kind) = @_;
	my ($name, $status, $kill, @words) = @$kind;
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', '/dev/null';
		exec $bailey, 'run', @words or exit 99;
	}
	$running{$pid} = [$kind, $kill ? now_ms() + rand $kill : 0];
	$made{$name}++;
}

sub ended {
	my ($pid, $status) = @_;
	my ($name, $want, $kill) = @{$running{$pid}[0]};
	my $got = $status & 127 ? 'signal ' . ($status & 127) : $status >> 8;
	if ($kill ? $got eq 'signal 9' : $got =~ /^$want$/) {
		$right{$name}++;
	} else {
		$wrong{"$name: $got"}++;
	}
	delete $running{$pid};
}

for (my $i = 0; $i < $count || %running;) {
	start_one($kinds[$i++ % @kinds]) while $i < $count && keys %running < $parallel;
	for my $pid (keys %running) {
		my $at = $running{$pid}[1];
		kill KILL => $pid if $at && now_ms() >= $at;
	}
	my $pid = waitpid -1, 1; # WNOHANG
	if ($pid > 0) {
		ended($pid, $?);
	} else {
		select undef, undef, undef, 0.002;
	}
}
printf "%s\t%d\t%d\n", $_, $made{$_}, $right{$_} // 0 for sort keys %made;
print "wrong\t$_\t$wrong{$_}\n" for sort keys %wrong;
