/* The fixed programs of the profiles, made from scripts/ when Bailey is built. */
#pragma once

/* For `sh -c`; arguments: SNAPSHOT a commit's name, DELIVER and DELETE_BRANCH a branch. */
extern const char script_git_probe[], script_git_snapshot[], script_git_deliver[],
	script_git_delete_branch[], script_git_venv[];

/* Arguments: DEVICE:INODE and UID:GID. */
extern const char script_handoff[];
extern const char script_handoff_none[];
