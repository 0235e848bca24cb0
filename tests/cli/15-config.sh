# shellcheck shell=bash
# Topic of run.sh: what sets a value of a run, what is logged, and where Bailey keeps its files.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

config=$BAILEY_HOME/config.toml
printf '[run]\ntimeout = "300ms"\nmemory = "30m"\n' >"$config"
bailey run -- sleep 20
is 'config.toml sets the timeout' 124 "$rc"
BAILEY_RUN_TIMEOUT=20s expect_rc 0 'the environment goes before config.toml' -- run -- \
	sleep 0.6
BAILEY_RUN_TIMEOUT=300ms expect_rc 0 'a flag goes before the environment' -- run --timeout 20s -- \
	sleep 0.6
eat='$x = "a" x 200_000_000; print length $x'
bailey run --timeout 0 -- perl -e "$eat"
like 'config.toml sets the memory' '*30 MiB*\[oom]*' "$(cat "$T/err")"
export BAILEY_RUN_MEMORY=50m
bailey run --timeout 0 -- perl -e "$eat"
like 'BAILEY_RUN_MEMORY goes before it' '*50 MiB*\[oom]*' "$(cat "$T/err")"
bailey config show --origin
like 'config show --origin names the variable' '*memory = "50m"*# environment BAILEY_RUN_MEMORY*' \
	"$(cat "$T/out")"
like 'config show --origin names file and line' "*timeout = \"300ms\"*# $config:2*" \
	"$(cat "$T/out")"
unset BAILEY_RUN_MEMORY
BAILEY_RUN_MEMORY=x expect_reason bad_value 'a bad variable' -- run -- true
BAILEY_RUN_UNLIMITED=true expect_reason config_invalid 'a way out in the environment' -- run -- true
printf '[run]\nmemory = \n' >"$config"
text="*config.toml:2*" expect_reason config_invalid 'config check with a broken file' -- \
	'config check'
expect_reason config_invalid 'a broken file stops run' -- run -- true
expect_rc 0 'a broken file leaves --help alone' -- run --help
printf '[run]\nunlimited = true\n' >"$config"
expect_reason config_invalid 'a way out in config.toml' -- run -- true
printf 'x = 1\n' >"$config"
chmod o+w "$config"
expect_reason config_invalid 'a config that everyone may write' -- run -- true
rm "$config"

# The ways out are found in the log afterwards.
bailey run --unlimited --allow-setgid -- true
is 'run with two ways out' 0 "$rc"
bailey log
for hatch in --unlimited --allow-setgid; do
	like "the log has $hatch" "*warning escape_hatch *hatch=$hatch*" "$(cat "$T/out")"
done
bailey run -- sh -c 'exit 7'
bailey log -n 1
like 'the log has the end' \
	'*info sandbox_ended *sandbox=b* engine=native profile=run exit=7 reason=exited *' \
		"$(cat "$T/out")"
bailey log --json -n 5
bad=0 lines=0
while IFS= read -r line; do
	lines=$((lines + 1))
	printf '%s\n' "$line" >"$T/line"
	flat=$(flat "$T/line") || flat=
	has time string '20*Z' || bad=$((bad + 1))
	has event string '?*' || bad=$((bad + 1))
done <"$T/out"
is 'the log is JSON lines' '5 lines, 0 bad' "$lines lines, $bad bad"
is 'nothing of the command is in the log' '' \
	"$(grep -c 'exit 7' "$BAILEY_HOME/log/bailey.jsonl" | grep -v '^0$' || true)"

BAILEY_HOME=relative/home expect_reason bad_value 'a relative BAILEY_HOME' -- run -- true
BAILEY_HOME=/proc/none bailey run -- true
is 'run without a home to write' 0 "$rc"
like 'run says that it could not log' 'bailey: log: *\[state_unwritable]' "$(cat "$T/err")"
is 'the home is closed to others' 700 "$(stat -c %a "$BAILEY_HOME/log")"

# The tree without its guest, with a guest that is no program, and with one that talks nonsense.
mkdir "$T/tree"
cp -a "$(dirname "$BAILEY")/.." "$T/tree/stage"
real=$BAILEY
BAILEY=$T/tree/stage/bin/bailey
expect_rc 0 'a copied tree runs' -- run -- true
rm "$T/tree/stage/libexec/bailey/bailey-guest"
expect_reason guest_missing 'no guest' -- run -- true
echo nonsense >"$T/tree/stage/libexec/bailey/bailey-guest"
chmod 755 "$T/tree/stage/libexec/bailey/bailey-guest"
expect_reason guest_missing 'a guest that is no program' -- run -- true
BAILEY=$real
mkdir "$T/false"
cp "$(readlink -f /usr/bin/perl)" "$T/false/bailey-guest"
chmod 755 "$T/false" "$T/false/bailey-guest"
false_guest() { # REASON NAME PERL: a guest that does this on its channel
	BAILEY_LIBEXEC=$T/false expect_reason "$1" "$2" -- run -- -e 'open C, "+<&=3" or die; '"$3"
}
false_guest wire_malformed 'a guest that sends nonsense' 'syswrite C, "nonsense" x 9'
false_guest wire_malformed 'a guest that sends a huge frame' 'syswrite C, "\xff" x 4096'
BAILEY_LIBEXEC=$T/false expect_end guest_lost 125 'a guest that ends without a word' -- \
	-- -e 'exit 0'
began=$SECONDS
BAILEY_LIBEXEC=$T/false bailey run --timeout 1s -- \
	-e 'open C, "+<&=3"; syswrite C, "x" x 99; sleep 60'
between 'the deadline holds for a guest that sends nonsense' 0 20 $((SECONDS - began))
is 'its status is no success' yes "$([ "$rc" -eq 0 ] || echo yes)"
rm -r "$T/tree" "$T/false"
