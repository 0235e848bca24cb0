# usage: reaper.pl NAME SECONDS COMMAND...
# Runs a command and adopts every process that it leaves behind (a child subreaper: what is started
# by it, however it detaches itself, becomes our child when its parent ends).  When the command has
# ended there is time for what is ending; then each process that is still there is a "not ok" line
# and is killed.  Over SECONDS everything is killed.  Ends with the command's status.
# BAILEY_TEST_SLOW (a number, else 1) multiplies both times, for a machine that is that much slower.
use strict;
use warnings;
use POSIX ':sys_wait_h';

my ($name, $seconds, @command) = @ARGV;
my $slow = $ENV{BAILEY_TEST_SLOW} || 1;
my $patience = 10 * $slow;
$seconds *= $slow;
syscall(157, 36, 1, 0, 0, 0) == 0 or die "prctl: $!"; # PR_SET_CHILD_SUBREAPER
my $status;
my $main = fork // die "fork: $!";
if (!$main) {
	exec @command or POSIX::_exit(98);
}
$SIG{TERM} = $SIG{INT} = sub { kill_all(); exit 130 };
$| = 1;

# Our descendants: a process is one when its chain of parents leads here.
sub descendants {
	my (%parent, %words, @found);
	for my $dir (glob '/proc/[0-9]*') {
		open my $f, '<', "$dir/stat" or next;
		my $line = <$f> // next;
		my ($pid, $comm, $state, $ppid) = $line =~ /^(\d+) \((.*)\) (\S) (\d+)/s or next;
		next if $state eq 'Z';
		$parent{$pid} = $ppid;
		$words{$pid} = $comm;
		if (open my $c, '<', "$dir/cmdline") {
			local $/;
			(my $all = <$c> // '') =~ tr/\0\n/  /;
			$words{$pid} .= ": $all";
		}
	}
	for my $pid (keys %parent) {
		my ($p, $n) = ($pid, 0);
		$p = $parent{$p} while defined $parent{$p} && $p != $$ && $n++ < 100;
		push @found, [$pid, $words{$pid}] if $p == $$ && $pid != $$;
	}
	@found = sort { $a->[0] <=> $b->[0] } @found; # sort has no value in scalar context
	return @found;
}

sub reap {
	while ((my $pid = waitpid -1, WNOHANG) > 0) {
		$status = $? if $pid == $main;
	}
}

sub kill_all {
	for (1 .. 50) {
		my @left = descendants() or last;
		kill KILL => map { $_->[0] } @left;
		select undef, undef, undef, 0.02;
		reap();
	}
}

sub wait_until {
	my ($seconds, $done) = @_;
	my $until = time + $seconds;
	until ($done->()) {
		return 0 if time > $until;
		select undef, undef, undef, 0.05;
		reap();
	}
	return 1;
}

if (!wait_until($seconds, sub { defined $status })) {
	print "not ok $name: over its $seconds s\n";
	print "    $_->[0] $_->[1]\n" for descendants();
	kill_all();
	exit 1;
}
if (wait_until($patience, sub { !descendants() })) {
	print "ok $name: no process is left\n";
} else {
	print "not ok $name: no process is left\n";
	print "    $_->[0] $_->[1]\n" for descendants();
	kill_all();
}
exit($status & 127 ? 128 + ($status & 127) : $status >> 8);
