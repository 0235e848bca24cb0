# shellcheck shell=bash
# Behaviour of run.sh: a hundred clients (BAILEY_TEST_CLIENTS) follow one command.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

clients=${BAILEY_TEST_CLIENTS:-100}
new
detach sh -c 'sleep 1; i=0
	while [ $i -lt 40 ]; do head -c 25000 /dev/zero | tr "\0" x; i=$((i + 1)); done
	echo; exit 7'
for ((i = 0; i < clients; i++)); do
	beside "many.$i" attach "$sb" "$cmd"
done
all_ended
is 'each has the status' "$clients 7" "$(sort "$T"/many.*.rc | uniq -c | sed 's/^ *//')"
is 'each has all of it' "$clients 1000001" \
	"$(stat -c %s "$T"/many.*.out | sort | uniq -c | sed 's/^ *//')"
is 'the same' 1 "$(sha256sum "$T"/many.*.out | cut -d ' ' -f 1 | sort -u | wc -l)"
tells 'the sandbox goes on' x 'echo x'
rm -f "$T"/many.*
