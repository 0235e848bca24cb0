# shellcheck shell=bash
# Behaviour of run.sh: create --profile agent: an agent on its worktree, with its model and nothing else.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

tree=$BAILEY_HOME/worktrees/t-1 gw=$BAILEY_HOME/sockets/t-1
image=()
[ -z "${BAILEY_RUN_IMAGE:-}" ] || image=(--image "$BAILEY_RUN_IMAGE")
mkdir -p "$tree" "$gw" "$T/venv/bin"
chmod 711 "$gw"
echo here >"$tree/file"
[ "$who" = user ] || chown -R 64000:64000 "$tree"
# one exchange a connection
start perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 5) or die;
	while (my $c = $s->accept) { my $l = <$c>; print $c "you said $l"; close $c }' "$gw/llm.sock"
holds 'control: the model listens' until_true 100 [ -S "$gw/llm.sock" ]
chmod 666 "$gw/llm.sock"
# the agent: what it has and can do
cat >"$T/venv/bin/claude" <<'END'
#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/4000 && echo hello >&3 && read -r answer <&3
printf '%s\n' "$answer" "$*" "$(id -u):$(id -g)" "$(pwd)" "$(cat file)"
printf '%s\n' "$(find /tmp -maxdepth 0 -printf '%m %U')" "$(find /home/agent -maxdepth 0 -printf '%m %U')"
printf '%s\n' "$(ulimit -Hn) $(ulimit -n)" "$(test -S /run/gw/llm.sock && echo socket)" "$(ls /sys/class/net 2>/dev/null || sed -n '3,$s/ *\([^:]*\):.*/\1/p' /proc/net/dev)"
awk '/^CapEff|^CapBnd/ { print $2 }' /proc/self/status
touch made /tmp/x /home/agent/x
touch /x /opt/venv/x 2>/dev/null && echo 'the root is writable'
env | sort
exit 7
END
chmod 755 "$T/venv" "$T/venv/bin" "$T/venv/bin/claude"

agent() { # FLAG...
	bailey create ${image[@]+"${image[@]}"} --profile agent --param tid=t-1 --param model=coder/30b "$@"
}

new ${image[@]+"${image[@]}"} --keep --profile agent --param tid=t-1 --param model=coder/30b --param "venv=$T/venv" \
	--param env.ANTHROPIC_AUTH_TOKEN=secret --param timeout=2m -- claude -p 'two words'
bailey wait "$sb" 1
is 'its status' 7 "$rc"
bailey logs "$sb" 1
cp "$T/out" "$T/log"
line() { # NUMBER
	sed -n "$1p" "$T/log"
}
is 'the model answers behind 127.0.0.1:4000' 'you said hello' "$(line 1)"
is 'its arguments' '-p two words' "$(line 2)"
is 'its user' 64000:64000 "$(line 3)"
is 'its directory' /workspace "$(line 4)"
is 'the worktree' here "$(line 5)"
if [ "$who" = root ]; then
	is '/tmp' '1777 0' "$(line 6)"
else
	is '/tmp' '1777 64000' "$(line 6)"
fi
if [ "$engine" = podman ]; then
	is 'its home: no owner can be given there' '1777 0' "$(line 7)"
else
	is 'its home' '700 64000' "$(line 7)"
fi
is 'open files' '4096 4096' "$(line 8)"
is 'the socket' socket "$(line 9)"
is 'no network' lo "$(line 10)"
is 'no capability' '0000000000000000 0000000000000000' "$(sed -n '11,12p' "$T/log" | tr '\n' ' ' | sed 's/ $//')"
holds 'the root and the environment are read-only' eval '! grep -q "root is writable" "$T/log"'
holds 'what it wrote is in the worktree' [ -f "$tree/made" ]
is 'and belongs to whom the worktree belongs' "$(stat -c %u:%g "$tree")" "$(stat -c %u:%g "$tree/made")"
for entry in ANTHROPIC_AUTH_TOKEN=secret ANTHROPIC_MODEL=coder/30b ANTHROPIC_SMALL_FAST_MODEL=coder/30b \
	ANTHROPIC_BASE_URL=http://127.0.0.1:4000 VIRTUAL_ENV=/opt/venv PYTHONDONTWRITEBYTECODE=1 HOME=/home/agent; do
	holds "variable ${entry%%=*}" grep -qx "$entry" "$T/log"
done
is 'the environment comes first in PATH' /opt/venv/bin "$(sed -n 's/^PATH=\([^:]*\).*/\1/p' "$T/log")"
is 'the record' 'agent t-1 coder/30b 120000' "$(fact profile) $(fact tid) $(fact model) $(fact ttl_ms)"

agent -- bash -c true
refused "$(rc_of bad_value)" bad_value 'a command that is no agent'
agent --memory 64g -- claude
refused "$(rc_of usage)" usage 'a limit of the caller'
agent --param timeout=5h -- claude
refused "$(rc_of value_out_of_range)" value_out_of_range 'over 4 hours'
agent --param env.PATH=/workspace -- claude
refused "$(rc_of bad_value)" bad_value 'a variable that is not on the list'
refuses bad_value 'no task id' create --profile agent --param model=m -- claude
refuses mount_source_missing 'a task without a worktree' create --profile agent --param tid=t-2 --param model=m -- claude
ln -s t-1 "$BAILEY_HOME/worktrees/t-3"
refuses mount_source_missing 'a worktree that is a link' create --profile agent --param tid=t-3 --param model=m -- claude
touch "$gw/more"
agent -- claude
refused "$(rc_of mount_forbidden)" mount_forbidden 'a directory of sockets with more in it'
rm -f "$gw/more"
if [ "$who" = root ]; then
	chmod 600 "$gw/llm.sock"
	agent -- claude
	refused "$(rc_of permission_denied)" permission_denied 'a socket that it could not use'
fi
rm -f "$gw/llm.sock"
agent -- claude
refused "$(rc_of model_socket_missing)" model_socket_missing 'no socket'
