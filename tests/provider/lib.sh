# shellcheck shell=sh disable=SC2154 # top and work are the caller's
# Sourced by the demo and the agents' tests: the provider's start and each agent's command line.
# The caller sets $top (the tree) and $work (a private directory that it removes).

# provider_start AGENT PROJECT: starts the provider on $work/model.sock and waits until it listens;
# its pid is in $provider.
provider_start() {
	rm -f "$work/model.sock"
	: >"$work/provider.out"
	node "$top/tests/provider/provider.js" --listen "unix:$work/model.sock" \
		--script "$top/tests/provider/$2-$1.json" --log "$work/provider.log" \
		>"$work/provider.out" 2>&1 </dev/null &
	provider=$!
	provider_tries=0
	until grep -q '^listening' "$work/provider.out"; do
		provider_tries=$((provider_tries + 1))
		if [ "$provider_tries" -gt 100 ] || ! kill -0 "$provider" 2>/dev/null; then
			echo "the model provider did not start:" >&2
			cat "$work/provider.out" >&2
			return 1
		fi
		sleep 0.1
	done
}

provider_stop() {
	[ -z "${provider:-}" ] || kill "$provider" 2>/dev/null || true
	[ -z "${provider:-}" ] || wait "$provider" 2>/dev/null || true
	provider=
}

# agent_run AGENT TASK RUN...: the real CLI, headless, through the command RUN (a 'bailey run' with
# its options but for the environment).  Prints the agent's final reply; what else it says goes to
# $work/agent.err.
agent_run() {
	agent_name=$1
	agent_task=$2
	shift 2
	case $agent_name in
	claude)
		"$@" --env ANTHROPIC_AUTH_TOKEN=none --env CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
			--env DISABLE_TELEMETRY=1 --env CLAUDE_CODE_MAX_RETRIES=1 \
			-- /opt/agent/claude -p "$agent_task" --tools Bash,Read,Edit --allowedTools Bash,Read,Edit \
			--permission-mode dontAsk --max-turns 12 </dev/null 2>"$work/agent.err"
		;;
	codex)
		# it reads no base address from the environment, and its own sandbox would need a
		# user namespace inside ours
		agent_model='name="local",base_url="http://127.0.0.1:4000/v1",env_key="MODEL_KEY"'
		agent_model="$agent_model,wire_api=\"responses\",request_max_retries=1,stream_max_retries=1"
		"$@" --env MODEL_KEY=none -- /opt/agent/codex exec --skip-git-repo-check --ephemeral \
			-m gpt-5.5 -c model_provider=local -c "model_providers.local={$agent_model}" \
			-c analytics.enabled=false --disable unbounded_connection_retries \
			--dangerously-bypass-approvals-and-sandbox "$agent_task" </dev/null 2>"$work/agent.err"
		;;
	*)
		echo "no such agent '$agent_name' (claude, codex)" >&2
		return 2
		;;
	esac
}
