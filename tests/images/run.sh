#!/usr/bin/env bash
# usage: tests/images/run.sh [TOPIC...]
# Images: what mmdebstrap, docker save, skopeo and umoci make is imported and run, a registry on
# loopback is pulled from, hostile archives are refused, and whoever is killed, races or fills the
# disk leaves nothing half-made.  Only root runs a Docker daemon; what that saves is then imported
# by a normal user too.  Needs python3 and the packages of need_test_packages in ./dev.
set -eu
export LC_ALL=C.UTF-8
unset CDPATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib/tap.sh"
. "$here/../lib/host.sh"
. "$here/../lib/user.sh"

T='' tool_path='' docker_pid='' registry_pid='' build_pid=''

end_daemon() { # PID
	[ -n "$1" ] || return 0
	kill "$1" 2>/dev/null || true
	until_true 100 eval "! kill -0 $1 2>/dev/null" || kill -KILL "$1" 2>/dev/null || true
}

# shellcheck disable=SC2317 # by trap
cleanup() {
	cd /
	stop_all
	end_daemon "$docker_pid"
	end_daemon "$registry_pid"
	if [ -n "$build_pid" ]; then
		end_daemon "$build_pid"
		# it takes its chroot away by itself
		until_true 300 none_marked "$T" || true
	fi
	[ -z "$T" ] || rm -rf --one-file-system "$T"
	drop_user
}

have() { # NAME PROGRAM...
	local name=$1 p
	shift
	for p in "$@"; do
		command -v "$p" >/dev/null 2>&1 && continue
		skip "$name" "$p is not installed"
		return 1
	done
}

image() { # WORD...
	try env PATH="${tool_path:-$PATH}" "$BAILEY" image "$@"
}

# `bailey image` refuses with this reason, in both forms.
image_reason() { # REASON NAME WORD...
	local reason=$1 name=$2 want
	shift 2
	want=$(refusal_rc "$reason" image)
	image "$@"
	if ! refused_as_text "$reason" "$want" '*'; then
		not_ok "$name" "expected [$reason], status $want
$(left)"
		return 0
	fi
	image "$1" --json "${@:2}"
	if refused_as_json "$reason" "$want"; then
		ok "$name"
	else
		not_ok "$name (JSON)" "expected reason $reason, status $want
$(left)"
	fi
}

# It does what was asked and prints this.
image_out() { # PATTERN NAME WORD...
	local pattern=$1 name=$2
	shift 2
	image "$@"
	# shellcheck disable=SC2053
	if [ "$rc" -eq 0 ] && [[ $(cat "$T/out") == $pattern ]]; then
		ok "$name"
	else
		not_ok "$name" "expected: $pattern
$(left)"
	fi
}

field() { # IMAGE KEY
	"$BAILEY" image inspect "$1" | sed -n "s/^$2  *//p"
}

tree_of() { # IMAGE
	echo "$BAILEY_HOME/images/trees/$(field "$1" chain | sed 's/^sha256://')/root"
}

# Nothing of the store is left but what these images need.
store_is_clean() {
	[ -z "$(ls -A "$BAILEY_HOME/images/tmp")" ] &&
		[ "$(find "$BAILEY_HOME/images/trees" -mindepth 1 -maxdepth 1 | wc -l)" -eq "$1" ]
}

# A small root tree, made of one static program.
small_tree() { # DIR
	mkdir -p "$1/bin" "$1/etc"
	cp "$(dirname "$BAILEY")/../libexec/bailey/bailey-guest" "$1/bin/sh"
	echo text >"$1/etc/file"
}

# --- what any caller can do -----------------------------------------------------------------------

forms() {
	local tree=$T/forms f
	small_tree "$tree"
	ln "$tree/etc/file" "$tree/etc/same"
	ln -s file "$tree/etc/link"
	mkfifo "$tree/etc/pipe"
	chmod 4755 "$tree/bin/sh"
	tar -C "$tree" -cf "$T/forms.tar" .
	gzip -k "$T/forms.tar"
	zstd -q "$T/forms.tar"
	image_out forms 'a directory, by its own name' import "$tree"
	image_out plain 'a tar' import "$T/forms.tar" --name plain
	image_out packed 'gzip' import --name packed "$T/forms.tar.gz"
	image_out zpacked 'zstd' import "$T/forms.tar.zst" --name=zpacked
	"$BAILEY" image import --name piped - <"$T/forms.tar" >"$T/out" 2>"$T/err" || true
	is 'standard input' piped "$(cat "$T/out")"
	(tail -c +1 "$T/forms.tar.gz" | "$BAILEY" image import --name piped2 -) >"$T/out" 2>"$T/err" || true
	is 'a pipe' piped2 "$(cat "$T/out")"
	for f in packed zpacked piped piped2; do
		is "the same image from $f" "$(field plain id)" "$(field $f id)"
	done
	is 'a hard link is one file' 2 "$(stat -c %h "$(tree_of plain)/etc/file")"
	is 'a link stays one' file "$(readlink "$(tree_of plain)/etc/link")"
	is 'setuid is stripped' 755 "$(stat -c %a "$(tree_of plain)/bin/sh")"
	is 'and counted' 1 "$(field plain setid_stripped)"
	is 'a FIFO is left out' 1 "$(field plain special_skipped)"
	image ls
	is 'ls has a line each' 7 "$(wc -l <"$T/out")"
	image ls --json
	reports 'ls --json' '0.name' string forms '5.name' string zpacked
	image inspect --json plain
	reports 'inspect --json' name string plain size_bytes number '*'
	image_reason image_exists 'a name that is taken' import "$tree" --name plain
	image_out plain '--replace' import "$tree" --name plain --replace
	image_out forms 'the same again' import "$tree" --name forms
	image_reason image_not_found 'inspect of none' inspect none
	image_reason image_not_found 'rm of none' rm none
	image_reason bad_value 'a name with a slash' import "$tree" --name a/b
	image_reason bad_value "the name 'host'" import "$tree" --name host
	image_reason value_out_of_range 'no name at all' import "$T/forms/etc/../" --name ''
	mkdir "$T/odd"
	touch "$T/odd/file"
	image_reason image_invalid 'a directory that is no root' import "$T/odd"
	image_reason image_missing 'no such file' import "$T/none"
	image_reason usage 'no such flag' import --nmae x "$tree"
	image_reason usage 'too many words' import a b
	image rm forms plain packed zpacked piped piped2
	holds 'rm frees all of it' store_is_clean 0
}

# Lines as layers.py writes them.
list_tree() { # DIR
	(cd "$1" && find . -mindepth 1 -print0 | sort -z | while IFS= read -r -d '' f; do
		local name=${f#./}
		name=${name//\\/\\\\}
		name=${name//$'\n'/\\n}
		if [ -L "$f" ]; then
			echo "$name l $(readlink "$f")"
		elif [ -d "$f" ]; then
			echo "$name d"
		else
			echo "$name f $(cat "$f")"
		fi
	done)
}

layer_cases() {
	local f name before after
	mkdir "$T/layers"
	python3 "$here/layers.py" "$T/layers"
	image import "$T/layers/plain.tar" --name plain
	before=$(cd "$(tree_of plain)" && find . -type f -exec stat -c '%n %a %Y %i' {} + | sort)
	for f in "$T/layers"/*.tar; do
		name=$(basename "$f" .tar)
		image import "$f" --name case --replace
		is "layers: $name" "$(sort "${f%.tar}.expected")" "$(list_tree "$(tree_of case)" | sort)"
	done
	after=$(cd "$(tree_of plain)" && find . -type f -exec stat -c '%n %a %Y %i' {} + | sort)
	is 'layers on top change nothing below' "$before" "$after"
	image import "$T/layers/directory-mode.tar" --name case --replace
	is 'a mode of a directory is its own' '700 755' \
		"$(stat -c %a "$(tree_of case)/v/sub" "$(tree_of plain)/v/sub" | xargs)"
	is 'files are shared between layers' "$(stat -c %i "$(tree_of plain)/v/a")" \
		"$(stat -c %i "$(tree_of case)/v/a")"
	image rm case
	holds 'layers go with the last image that needs them' store_is_clean 1
	shared_layers
	image rm plain
	holds 'and the shared ones too' store_is_clean 0
}

# Two images on one large layer, each with small ones of its own, imported in either order.
shared_layers() {
	python3 - "$T/layers" "$here" <<'END'
import sys
dir_, here = sys.argv[1:3]
sys.path.insert(0, here)
sys.argv = ["x", dir_, "/nowhere"]
from hostile import BASE, Layout, entry, tar
large = tar(BASE + [entry("large", b"x" * (17 << 20))])
for name, n in (("left", 3), ("right", 2)):
    small = [tar([entry("%s%d" % (name, i), b"x")]) for i in range(n)]
    open(dir_ + "/" + name, "wb").write(Layout(large, *small).tar())
END
	image import "$T/layers/left" --name left
	image import "$T/layers/right" --name right
	is 'a large layer is shared' "$(stat -c %i "$(tree_of left)/large")" \
		"$(stat -c %i "$(tree_of right)/large")"
	is 'small ones are not mixed up' 'left0 left1 left2 right0 right1' \
		"$(cd "$(tree_of left)" && echo left*) $(cd "$(tree_of right)" && echo right*)"
	is 'nor seen in each other' '' "$(find "$(tree_of left)" -name 'right*')"
	image rm left
	holds 'what both need stays' store_is_clean 3
	image rm right
}

snapshot() { # DIR
	(cd "$1" && find . -exec stat -c '%n %a %u %s %Y %h' {} + | sort && cat canary)
}

hostile() {
	local dir=$T/hostile outside=$T/outside before file reason flags bad=0 n=0
	mkdir "$dir" "$outside"
	echo canary >"$outside/canary"
	python3 "$here/hostile.py" "$dir" "$outside" >"$dir.list"
	before=$(snapshot "$outside")
	while read -r file reason flags; do
		n=$((n + 1))
		if [ "$reason" = ok ]; then
			# shellcheck disable=SC2086 # flags are words
			image_out hostile "hostile: $file is none" import $flags --name hostile "$dir/$file"
			image rm hostile
		else
			# shellcheck disable=SC2086
			image import $flags --name hostile "$dir/$file"
			holds "hostile: $file" refused_as_text "$reason" \
				"$(refusal_rc "$reason" image)" '*'
		fi
		store_is_clean 0 && [ -z "$(ls -A "$BAILEY_HOME/images/refs")" ] || bad=$((bad + 1))
		rm "$dir/$file"
	done <"$dir.list"
	is 'hostile: nothing of them is left in the store' 0 "$bad"
	is 'hostile: nothing outside was touched' "$before" "$(snapshot "$outside")"
	between 'hostile: how many there are' 60 1000 "$n"
	# the control: the means are real ones
	mkdir "$T/control"
	python3 "$here/hostile.py" "$dir" "$outside" >/dev/null
	(cd "$T/control" && tar -xPf "$dir/t-absolute.tar" 2>/dev/null) || true
	(cd "$T/control" && tar -xPf "$dir/t-dotdot.tar" 2>/dev/null) || true
	holds 'hostile: tar -P does write outside' \
		[ -e "$outside/absolute" -a -e "$outside/dotdot" ]
	rm -rf "$dir" "$T/control"
}

# A tar of many files, so that an import takes a while.
slow_tar() { # FILE
	python3 - "$1" <<'END'
import io, sys, tarfile
with tarfile.open(sys.argv[1], "w") as t:
    d = tarfile.TarInfo("bin"); d.type = tarfile.DIRTYPE; d.mode = 0o755
    t.addfile(d)
    for i in range(1500):
        e = tarfile.TarInfo("bin/f%d" % i); e.size = 100
        t.addfile(e, io.BytesIO(b"x" * 100))
END
}

races() {
	local p i bad=0 pids=()
	slow_tar "$T/slow.tar"
	for i in 1 2 3 4; do
		"$BAILEY" image import "$T/slow.tar" --name "race$i" >/dev/null 2>"$T/race$i.err" &
		pids+=($!)
	done
	for p in "${pids[@]}"; do
		wait "$p" || bad=$((bad + 1))
	done
	is 'four imports of one tree at once' 0 "$bad"
	holds 'make one tree' store_is_clean 1
	pids=()
	for i in 1 2 3 4; do
		"$BAILEY" image rm "race$i" >/dev/null 2>&1 &
		pids+=($!)
		"$BAILEY" image import "$T/slow.tar" --name "again$i" >/dev/null 2>&1 &
		pids+=($!)
	done
	bad=0
	for p in "${pids[@]}"; do
		wait "$p" || bad=$((bad + 1))
	done
	is 'four removals beside four imports' 0 "$bad"
	is 'leave whole images' 1500 "$(find "$(tree_of again1)/bin" -type f | wc -l)"
	image rm again1 again2 again3 again4
	holds 'and go' store_is_clean 0
	for i in 1 2 3 4 5 6; do
		"$BAILEY" image import "$T/slow.tar" --name killed >/dev/null 2>&1 &
		p=$!
		sleep "0.0$i"
		kill -KILL $p 2>/dev/null || true
		wait $p 2>/dev/null || true
		image inspect killed
		[ "$rc" -ne 0 ] || [ "$(find "$(tree_of killed)/bin" -type f | wc -l)" -eq 1500 ] ||
			bad=$((bad + 1))
		image rm killed
	done
	is 'killed anywhere, an import is whole or not there' 0 "$bad"
	# a removal frees what the killed ones left
	small_tree "$T/small"
	image import "$T/small"
	image rm small
	holds 'and what it left is gone with the next' store_is_clean 0
}

full_disk() {
	# the store on a file system of 3 MiB
	if ! can_mount; then
		skip 'a full disk' 'no mounts here'
		return
	fi
	mkdir "$T/tiny"
	dd if=/dev/urandom of="$T/large" bs=1M count=5 status=none
	mkdir -p "$T/big/bin"
	mv "$T/large" "$T/big/bin/large"
	# shellcheck disable=SC2016 # expanded by the shell inside
	try in_private_mounts '
		mounter tmpfs "$1" size=3m
		export BAILEY_HOME=$1
		"$BAILEY" image import "$2" --name full && exit 1
		[ -z "$(ls -A "$1/images/tmp" "$1/images/trees" "$1/images/refs" | grep -v :)" ] || exit 2
		rm "$2/bin/large"
		"$BAILEY" image import "$2" --name fits' "$T/tiny" "$T/big"
	like 'a full disk is said' '*disk_full*' "$(cat "$T/err")"
	is 'a full disk leaves nothing, and what fits comes in' '0 fits' "$rc $(cat "$T/out")"
}

# A directory whose files are exchanged for links while it is imported.
swapped_links() {
	local i bad=0 unclear=0 dir=$T/swap
	small_tree "$dir"
	mkdir "$dir/d" "$T/secret"
	echo secret >"$T/secret/f"
	echo plain >"$dir/d/f"
	start python3 "$here/swap.py" "$dir" "$T/secret"
	for i in $(seq 30); do
		image import "$dir" --name "swap$i"
		[ "$rc" -ne 0 ] || ! grep -rqs secret "$(tree_of "swap$i")" || bad=$((bad + 1))
		if [ "$rc" -eq 0 ]; then
			image rm "swap$i"
		else
			refused_as_text busy 5 '*was changed while it was read*' || unclear="$unclear
$(left)"
		fi
	done
	{ stop_all && wait "$bg"; } 2>/dev/null || true
	is 'links that come and go lead nowhere' 0 "$bad"
	is 'and whoever trips over them is told' 0 "$unclear"
}

status_of() { # PID KEY
	sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"
}

only_child() { # PID
	tr -d ' ' <"/proc/$1/task/$1/children"
}

# What reads an archive has walls around it, and its end is told.
behind_walls() {
	local p reader caps=000000000000000b
	[ "$(id -u)" -eq 0 ] || caps=0000000000000000
	mkfifo "$T/slow"
	exec 9<>"$T/slow"
	"$BAILEY" image import --name walls - <&9 9<&- >"$T/out" 2>"$T/err" &
	p=$!
	started+=("$p")
	until_true 100 eval '[ "$(status_of "$(only_child $p)" NoNewPrivs)" = 1 ]' 2>/dev/null || true
	until_true 100 eval '[ "$(status_of "$(only_child $p)" Seccomp)" = 2 ]' 2>/dev/null || true
	reader=$(only_child "$p")
	is 'the reader of an archive: filter, privileges, capabilities' "2 1 $caps" \
		"$(status_of "$reader" Seccomp) $(status_of "$reader" NoNewPrivs) $(status_of "$reader" CapEff)"
	is 'whoever started it has no filter' 0 "$(status_of "$p" Seccomp)"
	kill -KILL "$reader"
	rc=0
	wait "$p" || rc=$?
	exec 9<&-
	holds 'a reader that is killed is said' refused_as_text io_failed 5 '*ended by signal 9*'
	holds 'and leaves nothing' store_is_clean 0
}

users_and_words() {
	local dir=$T/words
	mkdir "$dir"
	python3 - "$dir" "$here" <<'END'
import sys, json
d_, here = sys.argv[1:3]
sys.path.insert(0, here)
sys.dont_write_bytecode = True
sys.argv = ["x", d_, "/nowhere"]
from hostile import Layout, tar, d, entry
files = [d("bin"), entry("bin/sh", b"x"), d("etc"), d("srv"),
         entry("etc/passwd", b"root:x:0:0::/:/bin/sh\nbad line\nd:x:7:8:::\nbig:x:99999999999:1::\n"),
         entry("etc/group", b"root:x:0:\nstaff:x:50:d\n")]
for name, words in {
        "name": {"User": "d"}, "group": {"User": "d:staff"}, "number": {"User": "1234"},
        "both": {"User": "5:6"}, "listed": {"User": "7"}, "none": {}}.items():
    x = Layout(tar(files))
    x.config["config"].update(words)
    x.config["config"].update({"WorkingDir": "//srv/", "Env": ["A=1", "B=two words\n"],
                               "Entrypoint": ["/bin/sh", "-c"], "Cmd": None})
    open(d_ + "/" + name + ".tar", "wb").write(x.tar())
END
	local name
	for name in name:7:8 group:7:50 number:1234:0 both:5:6 listed:7:8; do
		image import "$dir/${name%%:*}.tar" --name u
		is "user by ${name%%:*}" "${name#*:}" "$(field u uid):$(field u gid)"
		image rm u
	done
	image import "$dir/none.tar" --name u --json
	reports 'the words of an image' workdir string /srv 'env.1' string '*' \
		'entrypoint.1' string -c has_user bool false
	is 'a new line in a variable is kept' 'B=two words\x0a' "$(field u env | tail -n 1)"
	image rm u
}

# What an image says of itself holds for run, create and exec, unless a flag says otherwise.
words_hold() {
	local name ids id line other=9:9
	# a normal user's sandbox has one id alone
	[ "$(id -u)" -eq 0 ] || other=''
	if [ ! -x /bin/busybox ]; then
		skip 'the words of an image' '/bin/busybox is not there'
		return 0
	fi
	mkdir "$T/hold"
	python3 - "$T/hold" "$here" <<'END'
import sys
dir_, here = sys.argv[1:3]
sys.path.insert(0, here)
sys.argv = ["x", dir_, "/nowhere"]
from hostile import Layout, d, entry, link, tar
files = [d("bin"), entry("bin/busybox", open("/bin/busybox", "rb").read(), mode=0o755), d("etc"), d("srv"),
         entry("etc/passwd", b"root:x:0:0::/:/bin/sh\nd:x:7:8:::\n"), entry("etc/group", b"root:x:0:\nstaff:x:50:d\n")]
files += [link("bin/" + x, "busybox") for x in ("sh", "id")]
for name, user in (("named", "d"), ("grouped", "d:staff"), ("numbered", "1234:4321"), ("unnamed", None)):
    x = Layout(tar(files))
    x.config["config"] = {"Env": ["A=one", "PATH=/bin"], "WorkingDir": "/srv", "Entrypoint": ["/bin/sh", "-c"],
                          "Cmd": ["echo $A $(id -u):$(id -g) $PWD"]}
    if user:
        x.config["config"]["User"] = user
    open(dir_ + "/" + name + ".tar", "wb").write(x.tar())
END
	# shellcheck disable=SC2016 # expanded in the sandbox
	line='echo $A $(id -u):$(id -g) $PWD'
	for name in named:7:8 grouped:7:50 numbered:1234:4321 unnamed:1000:1000; do
		ids=${name#*:} name=${name%%:*}
		image import "$T/hold/$name.tar"
		expect_out "one $ids /srv" "$name: run, by its own command" -- run --image "$name"
		expect_out "one $ids /srv" "$name: run, by another" -- run --image "$name" -- sh -c "$line"
		expect_out 'two 9:9 /etc' "$name: run, with flags" -- run --image "$name" --env A=two \
			--user 9:9 --workdir /etc
		bailey create --image "$name"
		id=$(cat "$T/out")
		expect_out "one $ids /srv" "$name: exec" -- exec "$id" -- sh -c "$line"
		expect_out "two ${other:-$ids} /etc" "$name: exec, with flags" -- exec --env A=two \
			${other:+--user "$other"} --workdir /etc "$id" -- sh -c "$line"
		image_reason busy "$name: rm while a sandbox has it" rm "$name"
		bailey rm "$id"
		image_out '' "$name: rm" rm "$name"
	done
}

# 127 layers of one file, on a large one that another image has too.
many_layers() {
	local alone
	python3 - "$T" "$here" <<'END'
import sys
dir_, here = sys.argv[1:3]
sys.path.insert(0, here)
sys.argv = ["x", dir_, "/nowhere"]
from hostile import BASE, Layout, entry, tar
large = tar(BASE + [entry("large", b"x" * (17 << 20))])
open(dir_ + "/many.tar", "wb").write(Layout(large, *[tar([entry("f%d" % i, b"x")]) for i in range(126)]).tar())
open(dir_ + "/few.tar", "wb").write(Layout(large, tar([entry("own", b"y" * (2 << 20))])).tar())
END
	image_out many '127 layers' import "$T/many.tar"
	is 'all of them are in it' '126 127' "$(find "$(tree_of many)" -name 'f*' | wc -l) $(field many layers)"
	alone=$(image_bytes image many)
	between 'one image has all of it alone' $((17 << 20)) $((20 << 20)) "$alone"
	is 'and shares nothing' '' "$(image_bytes shared '')"
	image_out few 'an image that shares the large layer' import "$T/few.tar"
	between 'the large layer is counted once' $((17 << 20)) $((18 << 20)) "$(image_bytes shared '')"
	between 'what one has alone' 1 $((2 << 20)) "$(image_bytes image many)"
	between 'and the other' $((2 << 20)) $((3 << 20)) "$(image_bytes image few)"
	image rm few
	is 'alone again' "$alone" "$(image_bytes image many)"
	image rm many
	holds 'and gone' store_is_clean 0
}

image_bytes() { # KIND NAME
	"$BAILEY" df --json | perl "$lib/json.pl" | awk -F '\t' -v kind="$1" -v name="$2" '
		{ split($1, at, "."); v[at[1], at[2]] = $3; n = at[1] }
		END {
			for (i = 0; i <= n; i++)
				if (v[i, "kind"] == kind && (name == "" || v[i, "name"] == name))
					print v[i, "bytes"]
		}'
}

# An image of one program, without usr or bin.
single_program() {
	have 'an image of one program' gcc || return 0
	printf '#include <stdio.h>\nint main(int n, char **v) { return puts(v[n - 1]) < 0; }\n' |
		gcc -static -x c -o "$T/say" - 2>"$T/err" || {
		skip 'an image of one program' 'gcc links nothing static here'
		return 0
	}
	python3 - "$T" "$here" <<'END'
import sys
dir_, here = sys.argv[1:3]
sys.path.insert(0, here)
sys.argv = ["x", dir_, "/nowhere"]
from hostile import Layout, entry, tar
x = Layout(tar([entry("say", open(dir_ + "/say", "rb").read(), mode=0o755)]))
x.config["config"] = {"Entrypoint": ["/say"], "Cmd": ["by itself"]}
open(dir_ + "/single.tar", "wb").write(x.tar())
END
	image_out single 'an image of one program' import "$T/single.tar"
	expect_out 'by itself' 'says what to start' -- run --image single
	expect_out 'as told' 'and starts what is asked for' -- run --image single -- /say 'as told'
	image rm single
}

# --- images of other programs ---------------------------------------------------------------------

run_it() { # IMAGE NAME
	expect_out 'PRETTY_NAME="Debian*' "$2 runs" -- run --image "$1" -- head -n 1 /etc/os-release
}

list_modes() { # IMAGE
	(cd "$(tree_of "$1")" && find . -printf '%p %m %U %G %s %Ts %l\n' | sort | sha256sum)
}

# mmdebstrap takes longest: it works beside the first topics, in a home of its own.
begin_build() {
	command -v mmdebstrap >/dev/null 2>&1 || return 0
	BAILEY_HOME=$T/home2 "$BAILEY" image build --debian bookworm >"$T/build.out" 2>"$T/build.err" \
		</dev/null &
	build_pid=$!
}

# Makes $T/deb.tar, which the others begin with.
built() {
	have 'an image by mmdebstrap' mmdebstrap || return 0
	rc=0
	wait "$build_pid" || rc=$?
	build_pid=''
	is 'an image by mmdebstrap' 0debian-bookworm "$rc$(cat "$T/build.out" "$T/build.err")"
	[ "$rc" -eq 0 ] || return 0
	export BAILEY_HOME=$T/home2
	run_it debian-bookworm 'an image by mmdebstrap'
	image_reason image_exists 'a second one of that name' build --debian bookworm
	image_out '' 'export' export debian-bookworm "$T/deb.tar"
	image_out back 'import of an export' import "$T/deb.tar" --name back
	image export back "$T/deb2.tar"
	is 'an export of it is the same again' "$(tar -xOf "$T/deb.tar" --wildcards 'blobs/*' | sha256sum)" \
		"$(tar -xOf "$T/deb2.tar" --wildcards 'blobs/*' | sha256sum)"
	is 'and so is the tree' "$(list_modes debian-bookworm)" "$(list_modes back)"
	start "$BAILEY" run --image debian-bookworm -- sleep 60
	until_true 100 eval '[ -n "$(cat /proc/$bg/task/$bg/children)" ]' || true
	image_reason busy 'rm of an image in use' rm debian-bookworm
	{ stop_all && wait "$bg"; } 2>/dev/null || true
	lives
	image_out 'name*debian-bookworm*' 'it is still there' inspect debian-bookworm
}

# The image under a sandbox that stays.
lives() {
	local id
	bailey create --user 0 --image debian-bookworm
	id=$(cat "$T/out")
	expect_out 'PRETTY_NAME="Debian*' 'a sandbox that lives has it' -- \
		exec "$id" -- head -n 1 /etc/os-release
	expect_rc 0 'its root can be written to' -- exec "$id" -- \
		sh -c 'echo changed >/etc/issue && rm /etc/debian_version'
	image_reason busy 'rm of the image of a sandbox' rm debian-bookworm
	is 'the image is as it was' 1 "$(grep -c Debian "$(tree_of debian-bookworm)/etc/issue")"
	expect_out "D etc/debian_version*M etc/issue*" 'what differs from the image' -- diff "$id"
	expect_rc 0 'the sandbox goes' -- rm "$id"
}

# What the others begin with; that it is missing was said where it was to be made.
need_deb() {
	[ -s "$T/deb.tar" ]
}

# A private daemon without a network; it makes no container.
start_docker() {
	local d=$T/docker
	mkdir "$d"
	DOCKER_HOST=unix://$d/sock
	export DOCKER_HOST
	# its mounts go with it: on a host whose / is not shared it mounts its data on itself, and leaves that behind
	unshare -m --propagation private dockerd --data-root "$d/data" --exec-root "$d/exec" -H "$DOCKER_HOST" -p "$d/pid" \
		--bridge=none --iptables=false --ip-forward=false --ip-masq=false \
		>"$d/log" 2>&1 </dev/null &
	docker_pid=$!
	until_true 150 eval 'docker version >/dev/null 2>&1'
}

docker_saved() {
	if [ "$(id -u)" -ne 0 ] || ! have 'docker save' docker dockerd || ! need_deb; then
		return 0
	fi
	if ! start_docker; then
		not_ok 'docker save' "$(tail -n 3 "$T/docker/log")"
		return 0
	fi
	try docker load -i "$T/deb.tar"
	is 'docker load takes an export' 0 "$rc"
	mkdir "$T/context"
	echo made >"$T/context/file"
	printf '%s\n' 'FROM debian-bookworm' 'COPY file /opt/file' 'COPY file /opt/again' \
		'ENV WORD="two words"' 'USER daemon' 'WORKDIR /opt' 'ENTRYPOINT ["/bin/cat"]' \
		'CMD ["file"]' >"$T/context/Dockerfile"
	try env DOCKER_BUILDKIT=0 docker build -q -t test/made:1 "$T/context"
	try docker save -o "$T/saved.tar" test/made:1
	end_daemon "$docker_pid"
	docker_pid=''
	rm -rf "$T/docker"
	image_out made:1 'docker save' import "$T/saved.tar"
	run_it made:1 'docker save'
	expect_out made "the image's own command" -- run --image made:1
	expect_out 'two words 1:1 /opt' "its environment, user and directory" -- \
		run --image made:1 -- sh -c 'echo "$WORD $(id -u):$(id -g) $(pwd)"'
	expect_out 'mine 1000 /' 'and what overrides them' -- run --image made:1 --env WORD=mine \
		--user 1000 --workdir / -- sh -c 'echo "$WORD $(id -u) $PWD"'
	is 'its first layer is the one that is there' "$(stat -c %i "$(tree_of back)/bin/cat")" \
		"$(stat -c %i "$(tree_of made:1)/bin/cat")"
	saved_as_user
	image rm made:1
}

# The same archive, imported and run by a normal user.
saved_as_user() {
	if [ "$(id -u)" -ne 0 ]; then
		return 0
	fi
	prepare_user
	cp "$T/saved.tar" "$user_dir/"
	chown "$test_user:" "$user_dir/saved.tar"
	# shellcheck disable=SC2016 # expanded by the shell inside
	run_as_user bash -c '
		export BAILEY_HOME=$PWD/home
		"$BAILEY" image import saved.tar &&
			"$BAILEY" image inspect made:1 | grep ids_kept &&
			exec "$BAILEY" run --image made:1' >"$T/out" 2>"$T/err" </dev/null || true
	is 'docker save, as a normal user' 'made:1 ids_kept no made' "$(xargs <"$T/out")$(cat "$T/err")"
}

layouts() {
	if ! have 'an OCI layout' skopeo || ! need_deb; then
		return 0
	fi
	try skopeo copy --quiet "oci-archive:$T/deb.tar" "oci:$T/lay:one"
	is 'skopeo takes an export' 0 "$rc"
	[ "$rc" -eq 0 ] || return 0
	image_out one 'an OCI layout by skopeo' import "$T/lay"
	run_it one 'an OCI layout by skopeo'
	tar -C "$T/lay" -cf "$T/lay.tar" .
	image_out two 'the same as a tar' import "$T/lay.tar" --name two
	is 'is the same image' "$(field one id)" "$(field two id)"
	image_reason image_not_found 'a name that is not in it' import "$T/lay" --ref none
	image rm two
	have 'an OCI layout by umoci' umoci || return 0
	mkdir "$T/add"
	echo added >"$T/add/f"
	try umoci insert --image "$T/lay:one" --tag two "$T/add" /opt/add
	try umoci insert --image "$T/lay:two" --tag three --whiteout /opt/add/f
	try umoci insert --image "$T/lay:three" --tag four --opaque "$T/add" /usr/games
	image_reason image_invalid 'several images in a layout' import "$T/lay"
	image_out two 'an OCI layout by umoci' import "$T/lay" --ref two
	run_it two 'an OCI layout by umoci'
	expect_out added 'what umoci put in' -- run --image two -- cat /opt/add/f
	image_out four 'whiteouts by umoci' import "$T/lay" --ref four
	expect_out f 'hide what they name' -- run --image four -- \
		sh -c 'ls -A /opt/add && ls -A /usr/games'
	image rm two four
}

start_registry() {
	local i port
	mkdir "$T/registry"
	for i in 1 2 3 4 5; do
		port=$((20000 + RANDOM % 10000))
		printf '%s\n' 'version: 0.1' 'log: {level: error}' "storage: {filesystem: {rootdirectory: $T/registry}}" \
			"http: {addr: '127.0.0.1:$port'}" >"$T/registry.yml"
		docker-registry serve "$T/registry.yml" >>"$T/registry.log" 2>&1 </dev/null &
		registry_pid=$!
		registry=127.0.0.1:$port
		! until_true 50 eval ": 2>/dev/null </dev/tcp/127.0.0.1/$port" || return 0
		end_daemon "$registry_pid"
		echo "try $i of 5" >>"$T/registry.log"
	done
	return 1
}

pulled() {
	local registry digest
	if ! have 'pull' skopeo docker-registry || ! [ -d "$T/lay" ]; then
		return 0
	fi
	if ! start_registry; then
		not_ok 'pull' "$(tail -n 3 "$T/registry.log")"
		return 0
	fi
	try skopeo copy --quiet --dest-tls-verify=false "oci:$T/lay:one" "docker://$registry/a/deb:v1"
	digest=$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$registry/a/deb:v1")
	image_out deb:v1 'pull' pull --insecure-registry "$registry/a/deb:v1"
	run_it deb:v1 'pull'
	is 'the record says where it came from' "$registry/a/deb:v1" "$(field deb:v1 reference)"
	image_out pinned 'pull by digest' pull --insecure-registry --name pinned "$registry/a/deb@$digest"
	is 'gets the same' "$(field deb:v1 id)" "$(field pinned id)"
	image_reason tool_failed 'a digest that is not there' pull --insecure-registry \
		"$registry/a/deb@sha256:$(printf '%064d' 0)"
	image_reason tool_failed 'TLS is asked for' pull "$registry/a/deb:v1" --name tls
	# a registry that lies: another manifest under the digest that was asked for
	find "$T/registry" -path "*/${digest#sha256:}/data" -exec sh -c 'echo " " >>"$1"' _ {} \;
	image_reason tool_failed 'a registry that changed what it has' pull --insecure-registry \
		--name lie "$registry/a/deb@$digest"
	end_daemon "$registry_pid"
	registry_pid=''
	image rm deb:v1 pinned
}

missing_tools() {
	mkdir "$T/nothing"
	tool_path=$T/nothing
	image_reason tool_missing 'no skopeo' pull 127.0.0.1:1/x
	image_reason tool_missing 'no mmdebstrap' build --debian bookworm \
		--mirror http://127.0.0.1:1/
	tool_path=''
	image_reason bad_value 'a package that is an option' build --debian bookworm --packages=-x
	image_reason bad_value 'a release that is an option' build --debian=--help
	image_reason bad_value 'a reference that is an option' pull -- --help
	image_reason bad_value 'a release that apt does not know' build --debian trixie-none
	image_reason usage 'no release' build
	image_reason bad_value 'an insecure registry elsewhere' pull --insecure-registry \
		registry.example/x
	image build --debian bookworm --mirror http://127.0.0.1:1/ --name none
	holds 'a mirror that does not answer' refused_as_text tool_failed 5 '*'
	"$BAILEY" log --lines 5 >"$T/out" 2>&1 || true
	like 'what the program said is in the log' '*tool_failed*mmdebstrap*' "$(cat "$T/out")"
}

main() {
	local topics topic at
	find_bailey
	T=$(mktemp -d /var/tmp/bailey-images.XXXXXX)
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	export BAILEY_HOME=$T/home PYTHONDONTWRITEBYTECODE=1
	topics=(forms layer_cases hostile races full_disk swapped_links behind_walls users_and_words words_hold many_layers
		single_program missing_tools built docker_saved layouts pulled)
	[ $# -eq 0 ] || topics=("$@")
	[[ " ${topics[*]} " != *' built '* ]] || begin_build
	for topic in "${topics[@]}"; do
		at=${EPOCHREALTIME/[.,]/}
		"$topic"
		echo "# $topic: $(((${EPOCHREALTIME/[.,]/} - at) / 100000)) tenths of a second"
	done
	finish
}

main "$@"
