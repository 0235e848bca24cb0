# Speaks to a launcher as a client that is not ours:
#   ask.pl SOCKET status [UID]         prints names and values, asked as UID
#   ask.pl SOCKET create UID DIR       a sandbox with DIR as its writable workspace; prints the answer
#   ask.pl SOCKET check UID DIR [OVER] a check of DIR; with OVER by a mount of it there, in a namespace of UID's own
#   ask.pl SOCKET garbage COUNT        malformed messages, one a connection; prints how many connections ended
#   ask.pl SOCKET fds COUNT            messages with descriptors that no request has
# Only perl-base: descriptors are sent by the system call.
use strict;
use warnings;
use Socket;

my ($path, $what, @args) = @ARGV;
my ($SEQPACKET, $SYS_sendmsg) = (5, 46);
$SIG{PIPE} = 'IGNORE';

sub become {
	my $uid = shift // return;
	$) = "$uid $uid";
	($<, $>) = ($uid, $uid);
}

sub dial {
	socket my $s, PF_UNIX, $SEQPACKET, 0 or die "socket: $!\n";
	connect $s, pack_sockaddr_un($path) or die "connect: $!\n";
	return $s;
}

sub message {
	my ($op, @strings) = @_;
	return pack('L4', 0x484c4c42, $op, scalar @strings, 1) . join '', map { pack 'L/a*', $_ } @strings;
}

# struct msghdr with one iovec and one SCM_RIGHTS, by hand.
sub send_fds {
	my ($s, $bytes, @fds) = @_;
	my $rights = pack 'i*', @fds;
	my $control = pack('Q l l', 16 + length $rights, SOL_SOCKET, 1) . $rights;
	$control .= "\0" x (-length($control) % 8);
	my $iov = pack 'P Q', $bytes, length $bytes;
	my $h = pack 'Q L x4 P Q P Q i x4', 0, 0, $iov, 1, $control, length $control, 0;
	return syscall($SYS_sendmsg, fileno $s, $h, 0x4000);
}

if ($what eq 'status') {
	become($args[0]);
	my $s = dial();
	send $s, message(3), 0;
	recv $s, my $got, 65536, 0;
	my (undef, $op, $n) = unpack 'L4', $got;
	my @v = unpack '(L/a*)*', substr $got, 16;
	while (@v) {
		my ($name, $value) = splice @v, 0, 2;
		print "$name $value\n";
	}
} elsif ($what eq 'create') {
	become($args[0]);
	my $s = dial();
	# O_PATH
	my $dir = syscall 257, -100, "$args[1]\0", 0x210000, 0;
	die "open: $!\n" if $dir < 0;
	socketpair my $ours, my $theirs, PF_UNIX, SOCK_STREAM, 0;
	send_fds($s, message(1, 'create', 'memory', 1 << 26, 'cpus', 1000, 'pids', 64, 'tmp_size', 1 << 20,
		'disk', 1 << 20, 'uid', 1000, 'gid', 1000, '@workspace', 'rw'), $dir, fileno $theirs);
	close $theirs;
	sysread $ours, my $got, 65536;
	$got =~ tr/\x20-\x7e/ /c;
	print "$got\n";
} elsif ($what eq 'check') {
	become($args[0]);
	my $s = dial();
	my $where = $args[1];
	if ($args[2]) {
		# CLONE_NEWUSER | CLONE_NEWNS, then a bind mount
		syscall(272, 0x10020000) == 0 or die "unshare: $!\n";
		syscall(165, "$args[1]\0", "$args[2]\0", 0, 0x1000, 0) == 0 or die "mount: $!\n";
		$where = $args[2];
	}
	my $dir = syscall 257, -100, "$where\0", 0x210000, 0;
	die "open: $!\n" if $dir < 0;
	socketpair my $ours, my $theirs, PF_UNIX, SOCK_STREAM, 0;
	send_fds($s, message(1, 'check', 'tid', 't1', 'command', 'true', '@worktree', 'x'), $dir, fileno $theirs);
	close $theirs;
	sysread $ours, my $got, 65536;
	$got =~ tr/\x20-\x7e/ /c;
	print "$got\n";
} elsif ($what eq 'garbage') {
	my ($ended, $seed) = (0, 12345);
	srand $seed;
	my $good = message(1, 'create', 'memory', '1');
	for my $i (1 .. $args[0]) {
		my $s = dial();
		my $bytes = $i % 2 ? join '', map { chr int rand 256 } 1 .. 1 + int rand 200
			: substr $good, 0, 1 + int rand(length($good) - 1);
		send $s, $bytes, 0;
		my $r = sysread $s, my $got, 65536;
		$ended++ if !defined $r || $r == 0;
	}
	print "$ended\n";
} elsif ($what eq 'fds') {
	for my $i (1 .. $args[0]) {
		my $s = dial();
		# STATUS takes none
		send_fds($s, message(3), (0) x 20);
		sysread $s, my $got, 65536;
	}
}
