# shellcheck shell=bash
# Topic of run.sh: files of the host that a caller's streams lead to keep their owner and mode.
# what run.sh and the libraries share
# shellcheck disable=SC2154

owners() {
	stat -c '%n %u %g %a' /dev/null /dev/zero /dev/full /dev/tty "$T/stream" "$T/stream2"
}
: >"$T/stream"
: >"$T/stream2"
before=$(owners)
bailey doctor
is 'doctor' "$before" "$(owners)"
"$BAILEY" run -i -- true </dev/null >/dev/null 2>/dev/null || true
is 'run with null devices' "$before" "$(owners)"
"$BAILEY" run -i -- true <"$T/stream" >>"$T/stream2" 2>&1 || true
is 'run with a file' "$before" "$(owners)"
bailey create --name devices
is 'create' 0 "$rc"
"$BAILEY" exec devices -i -- true </dev/null >/dev/null 2>/dev/null || true
"$BAILEY" exec devices -i -- true <"$T/stream" >>"$T/stream2" 2>&1 || true
is 'exec' "$before" "$(owners)"
bailey rm --force devices
is 'rm' "0 $before" "$rc $(owners)"
