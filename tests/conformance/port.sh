# shellcheck shell=bash
# Behaviour of run.sh: port: a port of the host's loopback onto one inside.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

server='use IO::Socket::INET;
	$SIG{CHLD} = "IGNORE";
	my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8080, Listen => 20,
		ReuseAddr => 1) or die "listen: $!";
	while (my $c = $l->accept) {
		next if fork;
		my $n;
		syswrite $c, $b, $n while $n = sysread $c, $b, 65536;
		exit
	}'
client='use IO::Socket::INET;
	my ($port, $size) = @ARGV;
	my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "connect: $!";
	my $data = join("", map { chr int rand 256 } 1 .. 1000) x ($size / 1000);
	if (!fork) {
		my $o = 0;
		while ($o < length $data) { $o += syswrite $c, $data, 65536, $o }
		shutdown $c, 1;
		exit
	}
	my $got = "";
	1 while sysread $c, $got, 65536, length $got;
	print $got eq $data ? "same" : "differs: " . length $got'
new
detach perl -e "$server"
listens_inside() {
	inside 'grep -q ":1F90 .* 0A " /proc/net/tcp'
	[ "$rc" -eq 0 ]
}
holds 'the server listens' until_true 50 listens_inside
start "$BAILEY" port "$sb" 8080
holds 'it says its port' until_true 50 grep -q '[0-9]' "$T/bg.out"
port=$(grep -oE '[0-9]+' "$T/bg.out" | tail -n 1)
is 'a little' same "$(timeout 20 perl -e "$client" "$port" 1000)"
is '5 MB there and back, and the end' same "$(timeout 30 perl -e "$client" "$port" 5000000)"
all=0
pids=()
for i in 1 2 3 4 5 6 7 8; do
	timeout 30 perl -e "$client" "$port" 200000 >"$T/port.$i" &
	pids+=("$!")
done
for p in "${pids[@]}"; do
	wait "$p" || true
done
is 'eight at once' 8 "$(cat "$T"/port.* | grep -o same | wc -l)"
listens=$(awk -v p="$(printf ':%04X' "$port")" 'index($2, p) && $4 == "0A" { print $2 }' \
	/proc/net/tcp)
like 'on loopback alone' '0100007F:*' "$listens"
bailey kill "$sb"
rc=0
timeout 10 perl -e "$client" "$port" 1000 >"$T/out" 2>&1 || rc=$?
like 'when nobody listens inside the connection ends' 'differs: 0' "$(cat "$T/out")"
kill -INT "$bg"
finish_bg 10
holds 'an interrupt ends it' [ "$rc" -ne 137 ]
refuses value_out_of_range 'a port that is none' port "$sb" 70000
refuses sandbox_not_found 'an unknown sandbox' port nobody 8080
