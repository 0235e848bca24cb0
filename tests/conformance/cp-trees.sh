# shellcheck shell=bash
# Behaviour of run.sh: cp: directories, both ways, with all that is in them.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
mkdir -p "$T/t/a/b" "$T/t/empty"
echo x >"$T/t/a/f"
ln "$T/t/a/f" "$T/t/a/hard"
ln -s f "$T/t/a/soft"
ln -s /nowhere "$T/t/a/dangling"
head -c 500000 /dev/urandom >"$T/t/a/b/random"
chmod 700 "$T/t/a/b"
chmod 444 "$T/t/a/f"
for i in {1..400}; do
	echo "$i" >"$T/t/a/b/$i"
done
find "$T/t" -depth -exec touch -h -d @1000000000 {} +
sum=$(tree_sum "$T/t")
bailey cp "$T/t" "$sb:/workspace/new"
is 'in, as a new name' 0 "$rc"
is 'it is the same' "$sum" "$(tree_sum_inside /workspace/new)"
tells 'hard links' 2 'stat -c %h /workspace/new/a/hard'
bailey cp "$sb:/workspace/new" "$T/back"
is 'out, as a new name' 0 "$rc"
is 'it is the same' "$sum" "$(tree_sum "$T/back")"
holds 'hard links' [ "$T/back/a/hard" -ef "$T/back/a/f" ]
bailey cp "$T/t" "$sb:/workspace"
is 'into a directory: below it' "$sum" "$(tree_sum_inside /workspace/t)"
bailey cp "$T/t/." "$sb:/workspace/new"
is '/. merges' "$sum" "$(tree_sum_inside /workspace/new)"
mkdir "$T/into"
bailey cp "$sb:/workspace/new" "$T/into"
is 'out into a directory' "$sum" "$(tree_sum "$T/into/new")"
refuses not_a_directory 'a tree over a file' cp "$T/t" "$sb:/workspace/new/a/f"
inside 'ls -A /etc/alternatives'
cp "$T/out" "$T/names"
bailey cp "$sb:/etc/alternatives" "$T/alternatives"
is 'a tree of the image' "$(cat "$T/names")" "$(ls -A "$T/alternatives")"
