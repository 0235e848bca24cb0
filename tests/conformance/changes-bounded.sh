# shellcheck shell=bash
# Behaviour of run.sh: changes that are too many, or too large as an archive, are refused with a reason, in bounded memory.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

# one file under many names is written out under each of them
new --disk 4m
inside 'head -c 2000000 /dev/zero >f; i=0; while [ $i -lt 20 ]; do ln f l$i; i=$((i + 1)); done'
refuses archive_too_large 'an archive of many times the disk' apply "$sb" -
like 'it says what to do' '*--disk*' "$(cat "$T/err")"
mkdir "$T/target"
refuses archive_too_large 'and to a directory' apply "$sb" "$T/target" --yes
is 'nothing is applied' '' "$(ls -A "$T/target")"
bailey diff "$sb"
is 'diff has no such limit' '0 21' "$rc $(grep -c 'workspace/' "$T/out")"
bailey rm --force "$sb"

# 280 MB of paths
new --disk 200m
limit=90 inside 'perl -e "for (1 .. 19) { mkdir \"p\" x 200 or die; chdir \"p\" x 200 or die }
	for (1 .. 70000) { open my \$f, q(>), sprintf(\"%0200d\", \$_) or die }"'
is 'many long paths are made' 0 "$rc"
# of address space; what is kept of them is below 400 MB
(
	ulimit -v 700000
	bailey diff "$sb"
	refused "$(rc_of archive_too_large)" archive_too_large 'diff of more paths than it keeps'
	is 'it prints nothing of them' 0 "$(stat -c %s "$T/out")"
)
tells 'the sandbox goes on' x 'echo x'
