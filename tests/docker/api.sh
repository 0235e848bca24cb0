#!/usr/bin/env bash
# usage: tests/docker/api.sh [TOPIC...]
# The client of the Docker API: against a scripted hostile daemon (over a Unix socket, loopback TCP and TLS), against a real
# one of Docker and, as root, of Podman.  Needs python3, openssl, and for the real ones what tests/lib/docker.sh names.
set -eu
export LC_ALL=C.UTF-8
unset CDPATH DOCKER_HOST DOCKER_CERT_PATH DOCKER_TLS_VERIFY CONTAINER_HOST

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
BAILEY_BUILD=${BAILEY_BUILD:-$root/build}
program=${API_FOR_TEST:-$BAILEY_BUILD/release/src/engine/docker/api_for_test}
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/docker.sh"

T='' fake_pid='' fake_in='' target=()
ID=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef

# shellcheck disable=SC2317 # by trap
cleanup() {
	cd /
	stop_docker
	[ -z "$fake_in" ] || exec {fake_in}>&-
	[ -z "$fake_pid" ] || end_pid "$fake_pid"
	[ -z "$T" ] || rm -rf --one-file-system "$T"
}

# --- what is expected -----------------------------------------------------------------------------

api() { # WORD...
	try "$program" ${target[@]+"${target[@]}"} "$@"
}

# It fails with that reason and a message that matches (behind a tab, its remedy too); nothing but printable bytes is shown.
refuses() { # REASON PATTERN NAME WORD...
	local reason=$1 pattern=$2 name=$3 got
	shift 3
	api "$@"
	[[ $pattern == *$'\t'* ]] || pattern+=$'\t?*'
	# an archive may stand before it
	got=$(tr '\0' '\n' <"$T/out" | tail -n 1)
	# shellcheck disable=SC2053
	if [ "$rc" -ne 1 ] || [[ $got != "$reason"$'\t'$pattern ]]; then
		not_ok "$name" "expected status 1, $reason, $pattern
$(left)"
	elif printf %s "$got" | tr -d '\t' | grep -q '[^ -~]'; then
		not_ok "$name" "a byte of the daemon's reached the message: $(printf %s "$got" | cat -v)"
	else
		ok "$name"
	fi
}

# It succeeds and prints that.
gives() { # PATTERN NAME WORD...
	local pattern=$1 name=$2
	shift 2
	api "$@"
	# shellcheck disable=SC2053
	if [ "$rc" -eq 0 ] && [[ $(tr -d '\0' <"$T/out") == $pattern ]]; then
		ok "$name"
	else
		not_ok "$name" "expected: $pattern
$(left)"
	fi
}

# What the last one printed as "KEY=VALUE".
value() { # KEY
	sed -n "s/^$1=//p" "$T/out"
}

# --- the hostile daemon ---------------------------------------------------------------------------

start_fake() {
	mkdir "$T/certs" "$T/fake"
	"$here/certs.sh" "$T/certs"
	mkfifo "$T/fake.in"
	python3 -W ignore "$here/fake_daemon.py" "$T/fake" "$T/certs" <"$T/fake.in" >"$T/fake.log" 2>&1 &
	fake_pid=$!
	exec {fake_in}>"$T/fake.in"
	until_true 200 test -e "$T/fake/ports"
}

port() { # KIND
	sed -n "s/^$1=//p" "$T/fake/ports"
}

hosts() {
	local long
	target=()
	refuses bad_value '*must begin with unix://*' 'a host of no kind' -H ftp://x open
	refuses bad_value '*which is not spoken*'$'\t'"Forward the socket with 'ssh -L *" 'ssh' -H ssh://user@host open
	refuses bad_value '*must be absolute' 'a relative socket' -H unix://a open
	long=/tmp/$(printf 'x%.0s' {1..200})
	refuses bad_value '*at most 107 bytes' 'a path that is too long' -H "unix://$long" open
	refuses bad_value '*a byte that none can have' 'a newline in the host' -H $'unix:///a\nb' open
	refuses bad_value '*nothing may follow the port' 'a path behind the port' -H http://127.0.0.1:1/v1.41 open
	refuses value_out_of_range '*port*' 'port 0' -H http://127.0.0.1:0 open
	refuses value_out_of_range '*port*' 'port 70000' -H http://127.0.0.1:70000 open
	refuses bad_value '*must be a number' 'no port behind the colon' -H http://127.0.0.1: open
	refuses bad_value '*names no machine' 'no machine' -H http://:80 open
	refuses bad_value '*IPv6*' 'brackets around a name' -H 'http://[localhost]:80' open
	for long in http://192.0.2.1:2375 tcp://192.0.2.1:2375 http://docker.example:1 http://0.0.0.0:1 http://127.1:1 \
		http://2130706433:1 http://0x7f000001:1 http://localhost.example:1 'http://[::2]:1' \
		'http://[::ffff:127.0.0.1]:1' http://128.0.0.1:1; do
		refuses docker_insecure_host '*plain HTTP has no protection' "plain HTTP to ${long#*://}" -H "$long" open
	done
	refuses docker_unreachable '*No such file*' 'no socket' -H "unix://$T/none" open
	: >"$T/file"
	refuses docker_unreachable '*nobody listens*' 'a file instead of a socket' -H "unix://$T/file" open
	python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$T/dead"
	refuses docker_unreachable '*nobody listens*' 'a socket that nobody listens at' -H "unix://$T/dead" open
	refuses docker_unreachable "*can't reach 'http://127.0.0.1:1'*" 'a port that nobody listens at' -H http://127.0.0.1:1 open
	refuses docker_timeout '*its queue is full*' 'a daemon that takes no connection' -H "unix://$T/fake/full" open
	gives 'api=1.41 podman=0 local=1 *' 'a path alone' -H "$T/fake/sock" open
	gives "api=1.41 podman=0 local=0 host=http://127.0.0.1:$(port plain)" 'plain HTTP to loopback' -H "http://127.0.0.1:$(port plain)" open
	gives 'api=1.41 *' 'tcp:// to localhost' -H "tcp://localhost:$(port plain)/" open
	if [ -n "$(port plain6)" ]; then
		gives 'api=1.41 *' 'plain HTTP to ::1' -H "http://[::1]:$(port plain6)" open
	fi
}

# A user may not use the socket.
permission() {
	if [ "$(id -u)" -ne 0 ]; then
		skip permission 'only root can become another user'
		return 0
	fi
	target=()
	chmod 711 "$T" "$T/fake"
	chmod 600 "$T/fake/sock"
	cp "$program" "$T/program"
	try setpriv --reuid=65534 --regid=65534 --clear-groups "$T/program" -H "unix://$T/fake/sock" open
	like 'a socket without permission' $'docker_unreachable\t*Permission denied\t*as a user who may use the socket*' "$(cat "$T/out")"
	chmod 700 "$T"
}

choice() {
	target=()
	export DOCKER_HOST=unix://$T/fake/version-new CONTAINER_HOST=unix://$T/fake/version-podman
	gives '* podman=0 * host=unix://*/version-new' 'DOCKER_HOST' open
	gives "* host=unix://$T/fake/sock" 'what is configured comes first' -H "unix://$T/fake/sock" open
	unset DOCKER_HOST
	gives '* podman=1 * host=unix://*/version-podman' 'CONTAINER_HOST' open
	export CONTAINER_HOST=ssh://x
	refuses bad_value 'the environment variable CONTAINER_HOST: *' 'a bad CONTAINER_HOST' open
	unset CONTAINER_HOST
	mkdir -p "$T/run/podman"
	ln -s "$T/fake/version-podman" "$T/run/podman/podman.sock"
	export XDG_RUNTIME_DIR=$T/run
	if [ ! -S /var/run/docker.sock ]; then
		gives "* podman=1 * host=unix://$T/run/podman/podman.sock" "the user's Podman" open
		ln -s "$T/fake/sock" "$T/run/docker.sock"
		gives "* host=unix://$T/run/docker.sock" "the user's Docker" open
	fi
	export DOCKER_HOST='' http_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1 ALL_PROXY=socks5://127.0.0.1:1
	gives 'api=1.41 *' 'a proxy in the environment is not used' -H "http://127.0.0.1:$(port plain)" open
	unset DOCKER_HOST XDG_RUNTIME_DIR http_proxy all_proxy ALL_PROXY
}

versions() {
	local v=unix://$T/fake/version
	target=()
	gives 'api=1.44 *' 'a newer daemon is spoken to in the newest version that is known' -H "$v-new" open
	gives '* podman=1 *' 'Podman by its components' -H "$v-podman" open
	gives '* podman=1 *' 'Podman by its header' -H "$v-header" open
	refuses docker_version_unsupported '*1.12 to 1.40 of the API, Bailey 1.41 to *' 'a version that is too old' -H "$v-old" open
	refuses docker_version_unsupported '*1.98 to 1.99*' 'a version that is too new' -H "$v-newer" open
	refuses docker_bad_response '*no version*' 'a version that is a path' -H "$v-odd" open
	refuses docker_bad_response '*no version*' 'version 2' -H "$v-two" open
	refuses docker_bad_response '*no version*' 'no version' -H "$v-none" open
	refuses docker_bad_response '*HTTP/0.9*' 'something that speaks no HTTP' -H "$v-garbage" open
	refuses docker_refused '*404: "<html>who are you"' 'a web server that is no daemon' -H "$v-teapot" open
	refuses docker_timeout '*took too long*' 'a daemon that hangs' -H "$v-hang" -t 500 open
	refuses value_out_of_range '*time-out*' 'a time-out of nothing' -H "$v-new" -t 1 open
}

answers() {
	local name words
	target=(-H "unix://$T/fake/sock")
	for name in fine fine-chunked fine-continue fine-trailer fine-until-close; do
		gives "{\"Id\":\"$ID\"*" "answer: $name" inspect "$name"
	done
	while read -r name words; do
		refuses docker_bad_response "*$words*" "answer: $name" inspect "$name"
	done <<-'END'
		long it is cut off
		short not JSON
		negative Content-Length
		wordy Content-Length
		overflow not a number
		huge too long
		twice its length twice
		both its length twice
		gzip-coding compressed
		gzip-transfer encoded in a way
		chunk-word chunked
		chunk-size chunked
		chunk-end chunked
		redirect redirects are not followed
		redirect-307 redirects are not followed
		switch switches protocols
		early its status
		status-999 its status
		status-20 response code
		http-2 does not begin
		http-9 HTTP/0.9
		icy HTTP/0.9
		binary HTTP/0.9
		no-colon colon
		nul byte in header
		html content type
		untyped content type
		not-json not JSON
		empty not JSON
		deep nested too deep
		deeper nested too deep
		many too many parts
		keys duplicate
		zero not JSON
		utf-8 not JSON
		surrogate not JSON
		number not JSON
		behind not JSON
		array not the object
		stateless describes no container
		traversal describes no container
		upper describes no container
		head-line head is too long
		head-lines head is too long
		head-continue head is too long
		trailers head is too long
		body-endless too long
		body-until-close too long
		refusal-endless too long
		reset cut off
	END
	refuses docker_unreachable '*went away: Empty reply*' 'answer: nothing' inspect nothing
	refuses docker_refused '*500: "no \\x1b?31mred\\nand \\xe2\\x80\\xae xxx*..."' 'words of a refusal are quoted and cut' inspect refusal
	refuses docker_refused '*502: "<html>\\x00\\x1b]0;title\\x07"' 'so is what is no JSON' inspect refusal-html
	refuses docker_refused '*says 500' 'a refusal without words' inspect refusal-empty
	refuses docker_refused '*500: "{*' 'a refusal with a message that is none' inspect refusal-odd
	refuses docker_refused '*500: "[[[*..."' 'a refusal that is nested' inspect refusal-deep
	refuses docker_refused '*says 204' 'nothing where something is due' inspect status-empty
	refuses docker_refused '*authorization denied*' 'a plugin of the daemon says no' inspect unauthorized
	refuses sandbox_not_found '*No such container*' 'a container that is none' inspect missing
	for name in hang hang-in-head hang-in-body slow chunk-extension; do
		refuses docker_timeout '*took too long*' "answer: $name" -t 700 inspect "$name"
	done
}

# At each byte of an answer: no part is taken for the whole, but for one that lacks only the last byte behind the last chunk.
cuts() {
	target=(-H "unix://$T/fake/sock")
	api each cut 220
	is 'an answer cut at each byte' "$(cut_counts GOOD 220 0)" "$(counted)"
	api each cutchunk 360
	is 'a chunked answer cut at each byte' "$(cut_counts GOOD_CHUNKED 360 1)" "$(counted)"
}

counted() {
	echo "$(value docker_unreachable) gone, $(value docker_bad_response) bad, $(value none) fine"
}

# Up to the end of the status line nothing has come.
cut_counts() { # ANSWER TRIED SPARE
	python3 - "$here" "$@" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import fake_daemon
answer = getattr(fake_daemon, sys.argv[2])
first, spare = answer.index(b"\n") + 1, int(sys.argv[4])
print(f"{first} gone, {len(answer) - first - spare} bad, {int(sys.argv[3]) - len(answer) + spare} fine")
END
}

names() {
	local name
	target=(-H "unix://$T/fake/sock")
	for name in '' .. ../x a/b 'a?b' 'a b' $'a\nb' -a 'a%2fb' "$(printf 'x%.0s' {1..300})"; do
		refuses bad_value '*is no name of a container*' "no name of a container: $(printf %.12q "$name")" inspect "$name"
	done
	for name in '' .. ../x a//b 'a?b' -a /a a/ 'a b' a/../b; do
		refuses bad_value '*is no name of an image*' "no name of an image: $name" image-inspect "$name"
	done
	refuses bad_value '*is no name of a volume*' 'no name of a volume' volume-create a/b
	refuses bad_value '*no signal*' 'no signal' kill x 99
	api list 'k=v&all=0 "x'
	api inspect fine
	api get tar '/a b/../?&#%2e'
	api list evil
	like 'an id in a list that is none' $'docker_bad_response\t*without an id*' "$(cat "$T/out")"
	curl_unix requests >"$T/requests"
	holds 'text of a query is escaped' grep -qF '/v1.41/containers/json?all=1&filters=%7B%22label%22%3A%5B%22k%3Dv%26all%3D0%20%5C%22x%22%5D%7D"' "$T/requests"
	holds 'a path is escaped and not tidied' grep -qF '/v1.41/containers/tar/archive?path=%2Fa%20b%2F..%2F%3F%26%23%252e"' "$T/requests"
	holds 'no request holds a cookie, proxy words or a compression' not grep -qiE '"(cookie|proxy[a-z-]*|accept-encoding|authorization)":' "$T/requests"
}

not() {
	! "$@"
}

curl_unix() { # PATH
	python3 - "$T/fake/sock" "$1" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(f"GET /v1.41/{sys.argv[2]} HTTP/1.1\r\n\r\n".encode())
while data := s.recv(65536):
    sys.stdout.write(data.decode())
END
}

calls() {
	target=(-H "unix://$T/fake/sock")
	gives "$ID"$'\n''?"one","two"?' 'create: id and warnings' create made '{"Image":"x"}'
	gives "$ID"$'\n''??' 'create: no warnings' create made-null '{"Image":"x"}'
	refuses docker_bad_response '*warning*no text' 'create: a warning that is none' create made-odd '{"Image":"x"}'
	refuses docker_bad_response '*warnings are no list' 'create: too many warnings' create made-many '{"Image":"x"}'
	refuses docker_bad_response '*no id*' 'create: an id that leads elsewhere' create made-evil '{"Image":"x"}'
	refuses docker_bad_response '*no id*' 'create: an id that is short' create made-short '{"Image":"x"}'
	refuses docker_refused '*' 'create: 200 is not what is said' create made-200 '{"Image":"x"}'
	refuses sandbox_exists '*name in use*' 'create: the name is taken' create taken '{"Image":"x"}'
	refuses docker_refused '*400: "invalid value"' 'create: refused' create invalid '{"Image":"x"}'
	refuses image_missing "*No such image*"$'\t'"Run 'bailey image build agent'*" 'create: no image of ours' create imageless '{"Image":"bailey/agent:v1"}'
	refuses image_missing "*"$'\t'"Run 'docker pull registry.example/a:1'*" 'create: no image of a registry' create imageless '{"Image":"registry.example/a:1"}'
	refuses image_missing "*"$'\t'"Load it *" 'create: no image at all' create imageless '{"Image":"local/a:1"}'
	refuses image_missing '*No such image*' 'an image that is missing' image-inspect nope:1
	gives '' 'an image that is missing is removed' image-remove nope:1
	gives '' 'a container that is missing is removed' remove nobody force
	refuses sandbox_not_found '*' 'start of a missing one' start nobody
	refuses sandbox_not_found '*' 'wait for a missing one' wait nobody 1000
	gives '' 'start of one that runs' start not-modified
	gives '??' 'no changes' changes null
	gives '*"/a"*' 'changes' changes some
	refuses docker_bad_response '*no change' 'a change of a relative path' changes relative
	refuses docker_bad_response '*no change' 'a change of an unknown kind' changes kind
	api changes large
	is 'a long list of changes' "0 60000" "$rc $(grep -o Kind "$T/out" | wc -l)"
	gives "sha256:$ID" 'commit' commit full a b
	gives "sha256:$ID" 'commit, without the kind of digest' commit bare a b
	refuses docker_bad_response '*no id*' 'commit, with an id that leads elsewhere' commit evil a b
	gives $'version=99.1\n*driver=x?x1b?1m\n*runtimes=a z\n*' 'facts are escaped, odd names left out' info
	gives fine 'a forked child leaves the connection alone' again 3
}

archives() {
	target=(-H "unix://$T/fake/sock")
	api get tar /
	is 'archive' "0 10240" "$rc $(wc -c <"$T/out")"
	refuses docker_bad_response '*cut off*' 'an archive that is cut' get tar-cut /
	refuses docker_bad_response '*cut off*' 'a chunked archive that is cut' get tar-chunk-cut /
	refuses docker_bad_response '*not a tar*' 'an archive of another type' get tar-typed /
	refuses docker_refused '*500: "no"' 'an archive that is refused' get tar-refused /
	refuses sandbox_not_found '*' 'an archive of a missing container' get nobody /
	refuses output_failed 'that is enough' 'an endless archive is stopped by whoever takes it' get tar-endless / 100000
	target+=(image-load)
	load_report name test/a:1
	load_report id "sha256:$ID"
	load_report error $'docker_refused\t*"no ?x1b space"\t*'
	load_report silent $'docker_bad_response\t*does not say which*'
	load_report evil $'docker_bad_response\t*does not say which*'
	load_report garbage $'docker_bad_response\t*not JSON*'
}

load_report() { # WHAT PATTERN
	rc=0
	echo "$1" | timeout 20 "$program" "${target[@]}" >"$T/out" 2>"$T/err" || rc=$?
	like "load: $1" "$2" "$(cat "$T/out")"
	echo "$1" >"$T/archive"
	timeout 20 "$program" "${target[@]}" >"$T/out" 2>"$T/err" <"$T/archive" || true
	like "load from a file: $1" "$2" "$(cat "$T/out")"
}

# The command's input comes from a pipe; $T/out has what it gave.
exec_with() { # INPUT WORD...
	local input=$1
	shift
	rc=0
	printf %s "$input" | timeout 20 "$program" "${target[@]}" exec "$@" >"$T/out" 2>"$T/err" || rc=$?
}

streams() {
	local name where=$1
	section="$where: "
	exec_with ping half exec-echo cat
	case $where in
	tls*) ;;
	*) like 'a stream, closed by half' $'hello ping\nrunning=0 exit=7' "$(cat "$T/out")" ;;
	esac
	api exec xhalf exec-errors cat
	is 'other streams than standard output are dropped' 'hello world' "$(cat "$T/out")"
	for name in bad-stream bad-pad bad-long; do
		api exec xhalf "exec-$name" cat
		is "a stream ends where the framing does: $name" 'hello ' "$(cat "$T/out")"
	done
	api exec xhalf exec-cut-frame cat
	is 'a frame that is cut off' 'hello wor' "$(cat "$T/out")"
	api exec xhalf exec-cut-head cat
	is 'a head of a frame that is cut off' 'hello ' "$(cat "$T/out")"
	refuses docker_bad_response '*not a stream by its head' 'a stream of another type' exec xhalf exec-typed cat
	refuses docker_bad_response '*not a stream by its head' 'a stream with a length' exec xhalf exec-length cat
	refuses docker_refused '*500: "no \\x1b?1m such process"' 'a command that is refused' exec xhalf exec-refused cat
	refuses sandbox_not_running '*is paused*' 'a paused container' exec xhalf exec-refused-409 cat
	refuses sandbox_not_running '*is not running*' 'a container that does not run' exec xhalf exec-stopped cat
	refuses sandbox_not_found '*' 'a missing container' exec xhalf nobody cat
	refuses docker_bad_response '*no id*' 'an id of a command that leads elsewhere' exec xhalf exec-evil cat
	refuses docker_bad_response '*does not give the stream*' 'another status' exec xhalf exec-status cat
	refuses docker_bad_response '*head is too long*' 'an endless head' exec xhalf exec-endless-head cat
	refuses docker_bad_response '*head is too long*' 'a head of many lines' exec xhalf exec-large-head cat
	refuses docker_bad_response '*cut off in its head*' 'half a head' exec xhalf exec-half-head cat
	refuses docker_unreachable '*went away*' 'no answer' exec xhalf exec-nothing cat
	refuses docker_timeout '*took too long*' 'a daemon that hangs' -t 700 exec xhalf exec-hang cat
	bulk
	no_relay_left
	section=
}

out_has() { # BYTES
	[ "$(wc -c <"$T/out")" -ge "$1" ]
}

# More than all buffers hold, both ways; it comes back whole.
bulk() {
	local n=3000000 sum
	head -c $n /dev/urandom >"$T/bulk"
	: >"$T/out"
	sum=$( (printf 'hello '; cat "$T/bulk") | sha256sum)
	timeout 60 "$program" "${target[@]}" exec xclose exec-echo cat < <(
		cat "$T/bulk"
		until_true 300 out_has $((n + 6))
	) >"$T/out" 2>"$T/err" || true
	is 'three megabytes there and back' "$sum" "$(sha256sum <"$T/out")"
	: >"$T/out"
	timeout 60 "$program" "${target[@]}" exec xclose exec-bytewise cat < <(
		echo byte by byte
		until_true 300 out_has 13
	) >"$T/out" 2>"$T/err" || true
	is 'frames that come byte by byte' 'byte by byte' "$(cat "$T/out")"
	timeout 20 "$program" "${target[@]}" exec xclose exec-flood cat < <(sleep 5) 2>"$T/err" | head -c 1000000 | wc -c >"$T/out" || true
	is 'a flood, which nobody takes any more' 1000000 "$(cat "$T/out")"
	# nothing comes, and the holder ends
	timeout 20 "$program" "${target[@]}" exec xclose exec-late cat </dev/null >"$T/out" 2>"$T/err" || true
	is 'a silent stream is let go' '' "$(cat "$T/out")"
}

relays() {
	# it keeps the arguments of the program that it was forked from
	marked "$T/fake" "$(basename "$program")\$"
	marked "${target[1]}" "$(basename "$program")\$"
}

no_relay_left() {
	until_true 120 eval '[ -z "$(relays)" ]' || true
	is 'no relay is left' '' "$(relays)"
}

tls_hosts() {
	local c=$T/certs at kind
	target=()
	at=https://127.0.0.1:$(port good)
	gives "api=1.41 podman=0 local=0 host=$at" 'TLS with certificates' -H "$at" -c "$c/good" open
	gives 'api=1.41 *' 'tcp:// with certificates is TLS' -H "tcp://127.0.0.1:$(port good)" -c "$c/good" open
	gives 'api=1.41 *' 'TLS by a name' -H "https://localhost:$(port good)" -c "$c/good" open
	gives 'api=1.41 *' 'TLS 1.2' -H "https://127.0.0.1:$(port good12)" -c "$c/good" open
	export DOCKER_HOST=tcp${at#https} DOCKER_CERT_PATH=$c/good DOCKER_TLS_VERIFY=1
	gives "* host=$at" 'TLS by the environment' open
	refuses docker_tls_failed '*' 'certificates that are configured come first' -c "$c/wrong-ca" open
	unset DOCKER_CERT_PATH
	mkdir -p "$T/home"
	cp -r "$c/good" "$T/home/.docker"
	HOME=$T/home gives "* host=$at" 'certificates of the home' open
	HOME=$T/none refuses docker_tls_failed '*ca.pem*No such file*' 'no certificates' open
	unset DOCKER_HOST DOCKER_TLS_VERIFY
	refuses docker_tls_failed '*certificate*' 'an authority that is wrong' -H "$at" -c "$c/wrong-ca" open
	refuses docker_tls_failed '*certificate*' 'a server of a rogue authority' -H "https://127.0.0.1:$(port rogue)" -c "$c/good" open
	refuses docker_tls_failed '*expired*' 'a server whose certificate is over' -H "https://127.0.0.1:$(port expired)" -c "$c/good" open
	refuses docker_tls_failed '*name*' "another server's certificate" -H "https://127.0.0.1:$(port othername)" -c "$c/good" open
	refuses docker_tls_failed '*' 'TLS 1.1' -H "https://127.0.0.1:$(port tls11)" -c "$c/good" open
	for kind in expired rogue; do
		for at in good good12; do
			refuses docker_tls_failed '*' "a client certificate that is refused: $kind, $at" \
				-H "https://127.0.0.1:$(port $at)" -c "$c/$kind" open
		done
	done
	at=https://127.0.0.1:$(port good)
	refuses docker_tls_failed '*key.pem*No such file*' 'no key' -H "$at" -c "$c/keyless" open
	refuses docker_tls_failed '*key.pem*by other users' 'a key for all to read' -H "$at" -c "$c/open" open
	refuses docker_tls_failed '*' 'a key with a password asks nobody' -H "$at" -c "$c/encrypted" open
	refuses docker_tls_failed '*' 'a certificate that is garbage' -H "$at" -c "$c/garbage" open
	refuses docker_tls_failed '*' 'TLS to a server that speaks none' -H "https://127.0.0.1:$(port plain)" -c "$c/good" open
	refuses docker_unreachable '*' 'plain HTTP to a server that wants TLS' -H "http://127.0.0.1:$(port good)" open
	target=(-H "$at" -c "$c/good")
	gives "{\"Id\":\"$ID\"*" 'a call over TLS' inspect fine
	gives fine 'over TLS, a forked child leaves the connection alone' again 3
	refuses docker_bad_response '*' 'over TLS: cut off' inspect long
	streams tls
}

# What the engine links, nobody else does; of libraries it has these alone.
links() {
	local bin=$BAILEY_BUILD/stage p
	is 'the client links curl, jansson and the C library' 'libc.so.6 libcurl.so.4 libjansson.so.4 ' "$(needs "$program")"
	for p in "$bin/bin/bailey" "$bin/libexec/bailey/bailey-engine-native" "$bin/libexec/bailey/bailey-guest"; do
		[ -x "$p" ] || continue
		holds "${p##*/} links neither" not grep -qE 'curl|jansson' <<<"$(needs "$p")"
	done
}

# A sanitizer's own are not counted.
needs() { # PROGRAM
	readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE 'san|libm\.|libgcc|libresolv' | sort | tr '\n' ' '
}

# --- real daemons ---------------------------------------------------------------------------------

busybox_archive() { # FILE
	busybox_tree "$T/tree"
	tar -C "$T/tree" --numeric-owner --owner=0 --group=0 -cf "$1" .
	rm -rf "$T/tree"
}

body() { # COMMAND...
	python3 -c 'import json, sys
print(json.dumps({"Image": "test/api:1", "Cmd": sys.argv[1:], "Labels": {"bailey.test": "a b"},
    "HostConfig": {"NetworkMode": "none"}}))' "$@"
}

real_containers() {
	local id
	gives '*' 'create' create one "$(body sleep 1000)"
	id=$(head -n 1 "$T/out")
	refuses sandbox_exists '*' 'the name is taken' create one "$(body sleep 1000)"
	refuses image_missing '*' 'an image that is missing' create two '{"Image":"test/none:1","Cmd":["x"]}'
	refuses sandbox_not_running '*' 'a command before it runs' exec xhalf one cat
	gives '' 'start' start one
	gives '' 'start again' start one
	gives "*\"Id\":\"$id\"*" 'inspect by name' inspect one
	gives '*"Running":true*' 'inspect by id' inspect "$id"
	gives '*"SizeRw":*' 'inspect with sizes' size one
	gives "*\"Id\":\"$id\"*" 'list' list 'bailey.test=a b'
	gives '??' 'list by another label' list bailey.test=c
	gives '{*"memory_stats":*' 'stats' stats one
	refuses docker_timeout '*' 'wait, over time' wait one 300
	gives '' 'pause' pause one
	gives '' 'pause again' pause one
	gives '*"Paused":true*' 'it is paused' inspect one
	gives '' 'unpause' unpause one
	gives '' 'unpause again' unpause one
	exec_with 'some text' half one cat
	is 'a command: input, output and status' $'some text\nrunning=0 exit=0' "$(cat "$T/out")"
	exec_with '' half one sh -c 'echo out; echo err >&2; exit 3'
	is 'its standard error is not attached' $'out\n\nrunning=0 exit=3' "$(cat "$T/out")"
	api exec half one sh -c 'head -c 3000000 /dev/zero'
	is 'much output' 3000000 "$(head -n -1 "$T/out" | head -c -1 | wc -c)"
	exec_with "$(head -c 1000000 /dev/zero | tr '\0' x)" half one wc -c
	like 'much input' $'1000000\n*' "$(cat "$T/out")"
}

real_files() {
	mkdir -p "$T/put"
	echo content >"$T/put/file"
	tar -C "$T/put" -cf "$T/put.tar" file
	rc=0
	"$program" "${target[@]}" put one /tmp <"$T/put.tar" >"$T/out" 2>&1 || rc=$?
	is 'an archive is put' '0 ' "$rc $(cat "$T/out")"
	api get one /tmp/file
	is 'and got' content "$(tar -xOf "$T/out")"
	refuses path_not_found '*' 'a path that is missing' get one /nope
	refuses sandbox_not_found '*' 'a container that is missing' get two /nope
	"$program" "${target[@]}" put one /nope <"$T/put.tar" >"$T/out" 2>&1 || true
	# Podman makes the directory
	[ "$docker_kind" = podman ] || like 'put where nothing is' $'path_not_found\t*' "$(cat "$T/out")"
	gives '*"Path":"/tmp/file"*' 'changes' changes one
	api export one
	is 'export' content "$(tar -xOf "$T/out" tmp/file)"
	gives 'sha256:*' 'commit' commit one test/committed v1
	gives '*"one":"1"*"two":"2"*' 'with labels' image-inspect test/committed:v1
	gives '*test/committed:v1"*' 'images by label' image-list two=2
	gives '' 'tag' image-tag test/committed:v1 test/tagged v2
	gives '' 'untag' image-remove test/tagged:v2
	refuses image_missing '*' 'tag of nothing' image-tag test/none:1 a b
	gives '' 'a committed image is removed' image-remove test/committed:v1
	gives '' 'a second time' image-remove test/committed:v1
	docker save test/api:1 >"$T/saved.tar"
	gives '' 'it is used' image-tag test/api:1 test/again v1
	"$program" "${target[@]}" image-load <"$T/saved.tar" >"$T/out" 2>&1 || true
	like 'load' '*test/api:1' "$(cat "$T/out")"
	echo garbage | "$program" "${target[@]}" image-load >"$T/out" 2>&1 || true
	like 'load of garbage' $'docker_*\t*' "$(cat "$T/out")"
}

real_ends() {
	gives '' 'kill' kill one 9
	gives '*' 'wait' wait one 10000
	[ "$docker_kind" = podman ] || is 'its status' 137 "$(cat "$T/out")"
	gives '' 'kill of one that has ended' kill one 9
	gives '' 'stop of one that has ended' stop one 1
	gives '' 'remove' remove one plain
	gives '' 'remove again' remove one plain
	gives '*' 'one that stops by itself' create two "$(body sh -c 'trap "exit 7" TERM; while :; do sleep 0.1; done')"
	gives '' 'start it' start two
	refuses busy '*' 'it is not removed while it runs' remove two plain
	sleep 0.5
	gives '' 'stop' stop two 20
	gives 7 'with a status of its own' wait two 1000
	gives '' 'remove by force' remove two force
	gives '' 'a volume' volume-create vol
	gives '' 'again' volume-create vol
	gives '*"bailey.test":"1"*' 'inspect it' volume-inspect vol
	gives '' 'remove it' volume-remove vol
	gives '' 'remove it again' volume-remove vol
	refuses path_not_found '*' 'it is gone' volume-inspect vol
}

real() { # NAME [WORD...]
	local name=$1
	shift
	if ! have_docker "$@"; then
		skip "$name" 'needs root and the daemon'
		return 0
	fi
	section="$name: "
	if ! start_docker "$T/d" "$@"; then
		not_ok start "$(tail -n 5 "$T/d/log")"
		section=
		return 0
	fi
	target=(-H "$DOCKER_HOST")
	busybox_archive "$T/busybox.tar"
	gives 'api=1.4? *local=1 *' 'open' open
	gives '*driver=overlay*runtimes=*runc*' 'info' info
	"$program" "${target[@]}" image-import test/api 1 <"$T/busybox.tar" >"$T/out" 2>&1 || true
	like 'import' 'sha256:*' "$(cat "$T/out")"
	real_containers
	real_files
	real_ends
	daemon_ends
	no_relay_left
	stop_docker
	section=
}

# The daemon is killed while a stream and a wait are open.
daemon_ends() {
	gives '*' 'another' create three "$(body sleep 1000)"
	gives '' 'start it' start three
	# shellcheck disable=SC2024
	"$program" "${target[@]}" wait three 30000 >"$T/waited" 2>&1 &
	local waiter=$!
	"$program" "${target[@]}" exec xhalf three cat < <(sleep 30) >"$T/streamed" 2>&1 &
	local streamer=$!
	until_true 50 eval '[ -n "$(relays)" ]' || true
	sleep 0.5
	kill -KILL "$docker_pid"
	wait "$docker_pid" 2>/dev/null || true
	until_true 100 eval "! kill -0 $waiter 2>/dev/null" || true
	wait "$waiter" 2>/dev/null || true
	like 'a daemon that is killed during a wait' $'docker_*\t*' "$(cat "$T/waited")"
	until_true 100 eval "! kill -0 $streamer 2>/dev/null" || true
	holds 'its stream ends' not kill -0 "$streamer" 2>/dev/null
	refuses docker_unreachable '*' 'a daemon that was killed' open
	restart_docker || true
	gives '*"Id":*' 'it is back' inspect three
	gives '' 'remove what is left' remove three force
}

real_tls() {
	local at
	have_docker || return 0
	section='docker over TLS: '
	if ! start_docker "$T/d" --tcp 2376 --option --tlsverify --option "--tlscacert=$T/certs/ca.pem" \
		--option "--tlscert=$T/certs/server.pem" --option "--tlskey=$T/certs/server-key.pem"; then
		not_ok start "$(tail -n 5 "$T/d/log")"
		section=
		return 0
	fi
	at=https://127.0.0.1:2376
	in_net open
	like 'open' "api=1.4? podman=0 local=0 host=$at" "$(cat "$T/out")"
	import_busybox test/api:1
	in_net create tls "$(body sleep 1000)"
	in_net start tls
	rc=0
	: >"$T/out"
	(echo over TLS; until_true 100 out_has 9) | in_docker_net timeout 20 "$program" -H "$at" -c "$T/certs/good" exec xclose tls cat >"$T/out" 2>&1 || rc=$?
	is 'a stream over TLS' 'over TLS' "$(cat "$T/out")"
	in_net exec xhalf tls echo short
	is 'a command that ends' short "$(cat "$T/out")"
	try in_docker_net "$program" -H "$at" -c "$T/certs/rogue" open
	like 'a client of a rogue authority' $'docker_tls_failed\t*' "$(cat "$T/out")"
	try in_docker_net "$program" -H "$at" -c "$T/certs/expired" open
	like 'a client whose certificate is over' $'docker_tls_failed\t*' "$(cat "$T/out")"
	try in_docker_net "$program" -H http://127.0.0.1:2376 open
	like 'plain HTTP to it' $'docker_refused\t*HTTP request to an HTTPS server*' "$(cat "$T/out")"
	in_net remove tls force
	is 'remove' 0 "$rc"
	target=(-H "$at")
	no_relay_left
	stop_docker
	section=
}

in_net() { # WORD...
	try in_docker_net "$program" -H https://127.0.0.1:2376 -c "$T/certs/good" "$@"
}

main() {
	local topics='links hosts permission choice versions answers cuts names calls archives streams tls docker podman docker-tls' t
	[ -x "$program" ] || {
		echo "tests/docker/api.sh: no $program: build first" >&2
		exit 2
	}
	[ $# -eq 0 ] || topics=$*
	T=$(mktemp -d /tmp/bailey-api.XXXXXX)
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	start_fake
	for t in $topics; do
		case $t in
		streams)
			target=(-H "unix://$T/fake/sock")
			streams unix
			;;
		tls) tls_hosts ;;
		docker) real docker ;;
		podman) real podman --podman ;;
		docker-tls) real_tls ;;
		*) "$t" ;;
		esac
	done
	finish
}

main "$@"
