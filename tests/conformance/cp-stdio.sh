# shellcheck shell=bash
# Behaviour of run.sh: cp: archives from standard input and to standard output.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
mkdir -p "$T/t/d"
echo x >"$T/t/d/f"
head -c 100000 /dev/urandom >"$T/t/d/r"
tar -C "$T/t" -cf "$T/t.tar" .
rc=0
timeout 20 "$BAILEY" cp - "$sb:/workspace" <"$T/t.tar" >"$T/out" 2>"$T/err" || rc=$?
is 'in' 0 "$rc"
tells 'it is there' x 'cat /workspace/d/f'
rc=0
timeout 20 "$BAILEY" cp "$sb:/workspace/d" - >"$T/o.tar" 2>"$T/err" </dev/null || rc=$?
is 'out' 0 "$rc"
mkdir "$T/o"
tar -C "$T/o" -xf "$T/o.tar"
is 'tar reads it' "$(file_sum "$T/t/d/r")" \
	"$(find "$T/o" -name r -exec cat {} + | sha256sum | cut -d ' ' -f 1)"
rc=0
head -c 50000 "$T/t.tar" | timeout 20 "$BAILEY" cp - "$sb:/workspace" >"$T/out" 2>"$T/err" || rc=$?
refused "$(rc_of archive_refused)" archive_refused 'an archive that is cut'
rc=0
head -c 50000 /dev/urandom | timeout 20 "$BAILEY" cp - "$sb:/workspace" >"$T/out" 2>"$T/err" || rc=$?
refused "$(rc_of archive_refused)" archive_refused 'what is no archive'
rc=0
timeout 20 "$BAILEY" cp "$sb:/workspace/d" - >/dev/full 2>"$T/err" </dev/null || rc=$?
holds 'a full disk outside' [ "$rc" -ne 0 ]
tar -C "$T/t" -cPf "$T/abs.tar" "$T/t/d/f"
rc=0
timeout 20 "$BAILEY" cp - "$sb:/workspace" <"$T/abs.tar" >"$T/out" 2>"$T/err" || rc=$?
holds 'absolute names' [ "$rc" -ne 0 ]
tells 'the sandbox goes on' x 'echo x'
