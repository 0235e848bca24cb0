# Reads one JSON value from standard input and prints its leaves, a line each: path, type, value,
# between tabs.  A path is made of keys and dots, a list's entry is its number.  Exit status 1 and
# a message when it is not exactly one JSON value. Perl's own parser is not in perl-base, which is
# all that the tests may count on.
use strict;
use warnings;

local $/;
my $text = <STDIN>;
my $valid = $text;
utf8::decode($valid) or die "not UTF-8\n";
my @out;
pos($text) = 0;

sub fail {
	die sprintf("%s at byte %d of %d\n", $_[0], pos($text) // 0, length $text);
}

sub string {
	$text =~ /\G"/gc or fail('no string');
	my $start = pos $text;
	# piece by piece: one pattern for the whole has a limit on its length
	1 while $text =~ /\G(?:[^"\\\x00-\x1f]++|\\(?:["\\\/bfnrt]|u[0-9a-fA-F]{4}))/gc;
	$text =~ /\G"/gc or fail('no end of a string');
	return substr $text, $start, pos($text) - 1 - $start;
}

sub value {
	my ($path) = @_;
	my $here = $path eq '' ? '' : "$path.";
	$text =~ /\G\s*/gc;
	if ($text =~ /\G\{\s*/gc) {
		my %seen;
		return push @out, "$path\tobject\t" if $text =~ /\G\}/gc;
		do {
			$text =~ /\G\s*/gc;
			my $key = string();
			fail("key '$key' twice") if $seen{$key}++;
			$text =~ /\G\s*:/gc or fail('no colon');
			value("$here$key");
			$text =~ /\G\s*/gc;
		} while $text =~ /\G,/gc;
		$text =~ /\G\}/gc or fail('no }');
	} elsif ($text =~ /\G\[\s*/gc) {
		my $n = 0;
		return push @out, "$path\tlist\t" if $text =~ /\G\]/gc;
		do {
			value($here . $n++);
			$text =~ /\G\s*/gc;
		} while $text =~ /\G,/gc;
		$text =~ /\G\]/gc or fail('no ]');
	} elsif ($text =~ /\G"/) {
		push @out, "$path\tstring\t" . string();
	} elsif ($text =~ /\G(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)/gc) {
		push @out, "$path\tnumber\t$1";
	} elsif ($text =~ /\G(true|false)/gc) {
		push @out, "$path\tbool\t$1";
	} elsif ($text =~ /\Gnull/gc) {
		push @out, "$path\tnull\t";
	} else {
		fail('no value');
	}
}

value('');
$text =~ /\G\s*\z/gc or fail('something behind the value');
print map { "$_\n" } @out;
