#!/bin/sh
# all.sh DIRECTORY: every script of the profiles, as C.
set -eu
cd "$1"
echo '#include "spec/scripts.h"'
for operation in probe snapshot deliver delete-branch venv; do
	sh embed.sh "script_git_$(echo "$operation" | tr - _)" git/common.sh "git/$operation.sh"
done
sh embed.sh script_handoff handoff.sh
sh embed.sh script_handoff_none handoff-none.sh
