# shellcheck shell=bash
# Behaviour of run.sh: a tree of many files: in, diff, apply, out, in bounded memory; more than the layer takes: said.
# BAILEY_TEST_FILES says how many (5000); a million take minutes, and more than the time that run.sh gives.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

files=${BAILEY_TEST_FILES:-5000}
limit=$((60 + files / 1000))

# The most that each process of the engine has had, in MiB: owner, channel and guest.
high_water() {
	local p max=0 n
	for p in "$(owner_of "$sb")" $(children_of "$(owner_of "$sb")"); do
		n=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$p/status" 2>/dev/null)
		[ "${n:-0}" -le "$max" ] || max=$n
	done
	echo $((max / 1024))
}
timed() { # WORD...
	local began=${EPOCHREALTIME/[.,]/}
	bailey "$@"
	echo "# many-files: $1 of $files: $(((${EPOCHREALTIME/[.,]/} - began) / 1000)) ms"
}

mkdir "$T/many"
(
	cd "$T/many" || exit
	seq 1 "$files" | awk '{ d = int($1 / 1000); if (!(d in s)) { s[d] = 1; print d > "../dirs" } print d "/f" $1 }' >../names
	xargs mkdir <../dirs
	perl -ne 'chomp; open my $f, ">", $_ or die; print $f $_ if $. % 10 == 0' ../names
)
dirs=$(wc -l <"$T/dirs")
sum=$(cd "$T/many" && find . -type f -printf '%P %s\n' | sort | sha256sum)
# an inode of the layer is counted with two kibibytes of its size, and what is in it is memory of the sandbox
new --disk $((files * 6 / 1024 + 32))m --memory $((files * 4 / 1024 + 1024))m
kind=$(fact disk_kind)
timed cp "$T/many" "$sb:/workspace/many"
is 'in' 0 "$rc"
tells 'all are there' "$files" 'find /workspace/many -type f | wc -l'
timed diff "$sb"
is 'diff' 0 "$rc"
between 'has all of them' $((files + dirs)) $((files + dirs + 20)) "$(wc -l <"$T/out")"
timed diff "$sb" --json
is 'and as JSON' $((files + dirs)) "$(grep -oE '"path":"[^"]*many/' "$T/out" | wc -l)"
timed cp "$sb:/workspace/many" "$T/back"
is 'out' 0 "$rc"
is 'they are the same' "$sum" "$(cd "$T/back" && find . -type f -printf '%P %s\n' | sort | sha256sum)"
mkdir "$T/applied"
timed apply "$sb" "$T/applied" --yes
is 'apply' 0 "$rc"
is 'all are applied' "$files" "$(find "$T/applied" -type f | wc -l)"
between 'memory of the engine and the guest: MiB' 1 48 "$(high_water)"
timed rm --force "$sb"
rm -rf "$T/back" "$T/applied"

# a layer for half of them, where one has a bound for files
if [ "$kind" = watched ]; then
	rm -rf "$T/many" "$T/names" "$T/dirs"
	return
fi
new --disk $((files / 1024 + 1))m
timed cp "$T/many" "$sb:/workspace/many"
refused "$(rc_of disk_full)" disk_full 'more than the layer takes'
like 'the remedy names the option' '*--disk*' "$(cat "$T/err")"
tells 'the sandbox goes on' x 'echo x'
timed rm --force "$sb"
rm -rf "$T/many" "$T/names" "$T/dirs"
