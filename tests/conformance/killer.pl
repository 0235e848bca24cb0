# usage: killer.pl RESULT VICTIM MICROSECONDS OWNER COMMAND...
# Starts a command of the program, waits, and kills one part of an engine meanwhile: the owner (a
# pid, or 0: of what the command makes), its channel process, its guest, or (new) each process of an
# engine that was not there before.  GUEST in the environment is the guest's pid where it is no child
# of the owner's.  Writes to RESULT how many it killed; ends with the command's
# status, or 137 when the command did not end in 20 seconds.
# Only processes below the caller's own adopter (reaper.pl) are looked at.
use strict;
use warnings;
use POSIX ':sys_wait_h';

my ($result, $victim, $delay, $owner, @command) = @ARGV;

sub slurp {
	open my $f, '<', $_[0] or return '';
	local $/;
	return <$f> // '';
}

sub children {
	return split ' ', slurp("/proc/$_[0]/task/$_[0]/children");
}

# The program that a process runs, without its directory; before an exec it is its parent's.
sub program {
	my ($first) = split /\0/, slurp("/proc/$_[0]/cmdline");
	return '' unless defined $first;
	$first =~ s{.*/}{};
	return $first;
}

sub below {
	my @found;
	for my $child (children($_[0])) {
		push @found, $child, below($child);
	}
	return @found;
}

# reaper.pl adopts whatever engines are left by their parents
my $adopter = $$;
$adopter = parent($adopter) while $adopter > 1 && slurp("/proc/$adopter/cmdline") !~ m{/reaper\.pl\0};
die "killer.pl: not below reaper.pl\n" if $adopter <= 1;

sub engines {
	return grep { program($_) =~ /^bailey-engine-/ } below($adopter);
}

sub victims {
	my @engines = engines();
	return grep { !$_[0]{$_} } @engines if $victim eq 'new';
	return $ENV{GUEST} if $victim eq 'guest' && $ENV{GUEST};
	my %engine = map { $_ => 1 } @engines;
	my @owners = $owner || grep { my $p = $_; !$_[0]{$p} && !$engine{parent($p)} } @engines;
	return @owners if $victim eq 'owner';
	my $which = $victim eq 'guest' ? qr/^bailey-guest/ : qr/^bailey-engine-/;
	return grep { program($_) =~ $which } map { children($_) } @owners;
}

sub parent {
	my ($p) = slurp("/proc/$_[0]/stat") =~ /\) \S (\d+)/;
	return $p // 0;
}

my %before = map { $_ => 1 } engines();
my $pid = fork // die "fork: $!";
if (!$pid) {
	open STDIN, '<', '/dev/null';
	exec @command or POSIX::_exit(99);
}
select undef, undef, undef, $delay / 1e6;
my $killed = kill 'KILL', victims(\%before);
open my $f, '>', $result or die "$result: $!";
print $f "$killed\n";
close $f;
for (my $n = 0; $n < 4000; $n++) {
	if (waitpid($pid, WNOHANG) == $pid) {
		exit($? & 127 ? 128 + ($? & 127) : $? >> 8);
	}
	select undef, undef, undef, 0.005;
}
kill KILL => $pid;
waitpid $pid, 0;
exit 137;
