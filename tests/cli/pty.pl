# usage: pty.pl ROWS COLUMNS SCRIPT PROGRAM...
# Runs a program on a pseudo-terminal of its own, as its session leader's controlling terminal, and
# follows a script, one step a line: "wait REGEX" (in all that was printed since the last match),
# "send TEXT" (\n \r \t \xNN mean what they do in C), "size ROWS COLUMNS", "kill SIGNAL" (the
# program), "hangup" (closes our side).  Prints what the program printed, then a line "modes: same"
# or "modes: changed" (the terminal's settings before and after), and ends with the program's
# status. A wait of more than 20 s ends it all with status 99.
use strict;
use warnings;
use Fcntl;
use POSIX ();

my ($rows, $columns, $script, @program) = @ARGV;
my $max = 20;
sysopen my $master, '/dev/ptmx', O_RDWR | O_NOCTTY or die "ptmx: $!";
my $zero = pack 'i', 0;
ioctl $master, 0x40045431, $zero or die "unlock: $!"; # TIOCSPTLCK
my $number = pack 'i', 0;
ioctl $master, 0x80045430, $number or die "number: $!"; # TIOCGPTN
my $name = '/dev/pts/' . unpack 'i', $number;
# kept open: its settings are read at the end
sysopen my $slave, $name, O_RDWR | O_NOCTTY or die "$name: $!";
size($rows, $columns);

sub size {
	my $size = pack 'S4', @_, 0, 0;
	ioctl $master, 0x5414, $size or die "size: $!"; # TIOCSWINSZ
}

sub modes {
	my $t = '';
	ioctl $slave, 0x5401, $t or die "modes: $!"; # TCGETS
	return substr $t, 0, 36; # perl hands over a larger buffer
}

my $before = modes();
my $pid = fork // die "fork: $!";
if (!$pid) {
	close $master;
	POSIX::setsid();
	ioctl $slave, 0x540e, my $none = 0; # TIOCSCTTY
	open STDIN, '<&', $slave;
	open STDOUT, '>&', $slave;
	open STDERR, '>&', $slave;
	close $slave;
	exec @program or POSIX::_exit(98);
}

my ($all, $seen, $ended) = ('', 0, 0);

# Reads for at most this many seconds; false when the program has ended and nothing more comes.
sub pump {
	my ($seconds) = @_;
	my $bits = '';
	vec($bits, fileno $master, 1) = 1;
	if (select($bits, undef, undef, $seconds) > 0) {
		my $n = sysread $master, $all, 65536, length $all;
		return 1 if $n;
	}
	return 0;
}

sub ended {
	if (!$ended && waitpid($pid, POSIX::WNOHANG()) == $pid) {
		$ended = 1;
		our $status = $?;
	}
	return $ended;
}

sub give_up {
	kill KILL => $pid;
	print "$all\npty.pl: $_[0]\n";
	exit 99;
}

for my $line (split /\n/, $script) {
	my ($word, $rest) = $line =~ /^\s*(\w+) ?(.*)$/ or next;
	if ($word eq 'wait') {
		my $end = time + $max;
		while (1) {
			if (substr($all, $seen) =~ /$rest/) {
				$seen += $+[0];
				last;
			}
			pump(0.1) or ended() and !pump(0.1) and give_up("ended before '$rest'");
			time < $end or give_up("no '$rest'");
		}
	} elsif ($word eq 'send') {
		my %short = (n => "\n", r => "\r", t => "\t");
		$rest =~ s/\\x([0-9a-f]{2})|\\([nrt])/defined $1 ? chr hex $1 : $short{$2}/ge;
		syswrite $master, $rest;
	} elsif ($word eq 'size') {
		size(split / /, $rest);
	} elsif ($word eq 'kill') {
		kill $rest, $pid;
	} elsif ($word eq 'hangup') {
		close $slave;
		close $master;
		$master = undef;
	} else {
		die "step '$line'\n";
	}
}
my $end = time + $max;
until (ended()) {
	$master ? pump(0.05) : select undef, undef, undef, 0.05;
	time < $end or give_up('did not end');
}
1 while $master && pump(0.05);
print $all, "\n";
print 'modes: ', modes() eq $before ? 'same' : 'changed', "\n" if $master;
our $status;
exit($status & 127 ? 128 + ($status & 127) : $status >> 8);
