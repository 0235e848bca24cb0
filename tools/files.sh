# shellcheck shell=sh
# Sourced, not run, in the root of the tree.  tree_files [PATHSPEC...] lists the files of the tree, committed or about to
# be; it fails rather than list nothing, since a check over no files would pass.

tree_files() {
	tree_list=$(git -c safe.directory="$PWD" ls-files -co --exclude-standard -- "$@") || {
		echo "the checks read the list of files from git: run them in a clone" >&2
		return 1
	}
	printf '%s\n' "$tree_list" | while read -r tree_f; do
		[ ! -f "$tree_f" ] || printf '%s\n' "$tree_f"
	done
}
