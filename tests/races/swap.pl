# usage: swap.pl DIR COUNT
# Exchanges DIR/d0 and DIR/d0.link up to DIR/dCOUNT-1 without a pause, until it is killed.
use strict;
use warnings;

my ($dir, $count) = @ARGV;
my @names = map { "$dir/d$_\0" } 0 .. $count - 1;
my @links = map { "$dir/d$_.link\0" } 0 .. $count - 1;
while (1) {
	syscall(316, -100, $names[$_], -100, $links[$_], 2) for 0 .. $count - 1; # renameat2, RENAME_EXCHANGE
}
