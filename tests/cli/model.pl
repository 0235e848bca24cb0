# usage: model.pl serve SOCKET | model.pl MODE [COUNT]
# Both ends of what the suite sends through --model-socket.  serve listens on a Unix socket, for
# each connection in a process of its own; the other modes are run inside a sandbox and speak to
# 127.0.0.1:4000.  The first line of a connection says what the two do:  GET ... (HTTP), HALF (we
# end first), DOWN (the server ends first), BOTH N (N bytes each way at once), WAIT (an answer only
# when more comes).  The bytes are numbers that count up, so that a loss or a change of order
# shows.
use strict;
use warnings;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();

my ($mode, $argument) = @ARGV;
$SIG{PIPE} = 'IGNORE';

sub pattern {
	my ($n) = @_;
	return substr pack('N*', 0 .. $n / 4), 0, $n;
}

sub line {
	my ($s) = @_;
	my ($line, $c) = ('', '');
	$line .= $c while $c ne "\n" && sysread $s, $c, 1;
	return $line;
}

sub put {
	my ($s, $data) = @_;
	my $at = 0;
	while ($at < length $data) {
		my $n = syswrite $s, $data, 65536, $at;
		defined $n or return 0;
		$at += $n;
	}
	return 1;
}

sub rest {
	my ($s) = @_;
	my $data = '';
	1 while sysread $s, $data, 65536, length $data;
	return $data;
}

# Sends and receives at once; a peer that does one after the other would never end here.
sub both {
	my ($s, $n) = @_;
	my ($out, $at, $in) = (pattern($n), 0, '');
	$s->blocking(0);
	while ($at < $n || length $in < $n) {
		my $r = my $w = '';
		vec($r, fileno $s, 1) = length $in < $n;
		vec($w, fileno $s, 1) = $at < $n;
		select $r, $w, undef, 20 or return 'stuck at ' . $at . ' and ' . length $in;
		if (vec $r, fileno $s, 1) {
			my $got = sysread $s, $in, 65536, length $in;
			return 'end after ' . length $in if defined $got && !$got;
		}
		if (vec $w, fileno $s, 1) {
			$at += syswrite($s, $out, 65536, $at) // 0;
		}
	}
	return $in eq $out ? 'same' : 'other bytes';
}

sub serve_one {
	my ($s) = @_;
	my $first = line($s);
	if ($first =~ /^(GET|POST) (\S+)/) {
		my ($what, $length) = ("$1 $2", 0);
		while ((my $header = line($s)) =~ /\S/) {
			$length = $1 if $header =~ /^content-length: (\d+)/i;
		}
		my $body = '';
		while (length $body < $length) {
			sysread $s, $body, $length - length $body, length $body or last;
		}
		my $answer = "$what with $body";
		my $size = length $answer;
		put($s, "HTTP/1.1 200 OK\r\nContent-Length: $size\r\n\r\n$answer");
	} elsif ($first eq "HALF\n") {
		put($s, length(rest($s)) . " bytes\n");
	} elsif ($first eq "DOWN\n") {
		put($s, "first\n");
		shutdown $s, 1;
		my $n = length rest($s);
		open my $f, '>', "$argument.down";
		print $f $n;
		close $f;
	} elsif ($first eq "SEEN\n") {
		open my $f, '<', "$argument.down" or return;
		put($s, <$f> // '');
	} elsif ($first =~ /^BOTH (\d+)/) {
		both($s, $1);
	} elsif ($first eq "WAIT\n") {
		put($s, 'answer to ' . line($s));
	}
}

sub serve {
	my $listener = IO::Socket::UNIX->new(Local => $argument, Listen => 64)
		or die "listen at $argument: $!";
	$SIG{CHLD} = 'IGNORE';
	open my $up, '>', "$argument.up";
	while (1) {
		my $s = $listener->accept or next;
		my $pid = fork;
		if (defined $pid && !$pid) {
			close $listener;
			serve_one($s);
			POSIX::_exit(0);
		}
		close $s;
	}
}

sub dial {
	my ($first) = @_;
	my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => 4000)
		or die "connect: $!\n";
	put($s, $first);
	return $s;
}

if ($mode eq 'serve') {
	serve();
} elsif ($mode eq 'http') {
	my $s = dial("POST /v1/messages HTTP/1.1\r\nHost: model\r\nContent-Length: 5\r\n\r\nhello");
	shutdown $s, 1;
	print rest($s);
} elsif ($mode eq 'half') {
	my $s = dial("HALF\n");
	put($s, pattern(300000));
	shutdown $s, 1;
	print rest($s);
} elsif ($mode eq 'down') {
	my $s = dial("DOWN\n");
	print rest($s);
	put($s, pattern(300000)) or print 'closed';
	shutdown $s, 1;
	# the sandbox ends with its command, and what is still on its way with that: ask what came
	for (1 .. 100) {
		my $seen = rest(dial("SEEN\n"));
		print($seen), last if length $seen;
		select undef, undef, undef, 0.1;
	}
} elsif ($mode eq 'both') {
	print both(dial("BOTH $argument\n"), $argument);
} elsif ($mode eq 'many') {
	my @all = map { dial("WAIT\n") } 1 .. $argument;
	put($all[$_], "$_\n") for reverse 0 .. $#all;
	my $good = grep { line($all[$_]) eq "answer to $_\n" } 0 .. $#all;
	print "$good answers";
} elsif ($mode eq 'queue') {
	my @all = map { dial("WAIT\n") } 1 .. $argument;
	my $good = 0;
	for my $i (0 .. $#all) {
		put($all[$i], "$i\n");
		$good++ if line($all[$i]) eq "answer to $i\n";
		close $all[$i];
	}
	print "$good answers";
} elsif ($mode eq 'slow') {
	# a reader that stops must stop its own connection only
	my $stopped = dial("BOTH 8000000\n");
	my $s = dial("WAIT\n");
	put($s, "1\n");
	print line($s);
} elsif ($mode eq 'after') {
	for my $i (1 .. $argument) {
		my $s = dial("WAIT\n");
		put($s, "$i\n");
		line($s) eq "answer to $i\n" or die "answer $i\n";
	}
	print "$argument in a row";
} else {
	die "mode '$mode'\n";
}
