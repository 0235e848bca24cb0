# usage: naive.pl DIR COUNT SECRET SECONDS
# Looks whether DIR/d0 and so on are links, and believes the answer a moment later: the control.  Prints how often it saw a name
# that begins with SECRET in one of them.
use strict;
use warnings;

my ($dir, $count, $secret, $seconds) = @ARGV;
my ($until, $seen) = (time + $seconds, 0);
while (time < $until && !$seen) {
	for my $i (0 .. $count - 1) {
		next if -l "$dir/d$i";
		opendir my $d, "$dir/d$i" or next;
		$seen += grep { /^$secret/ } readdir $d;
	}
}
print "$seen\n";
