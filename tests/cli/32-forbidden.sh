# shellcheck shell=bash
# Topic of run.sh: the objects of the host that no mount shows, by whatever name.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

f=$T/forbidden
mkdir "$f"
forbidden() { # NAME PATH
	expect_reason mount_forbidden "forbidden: $1" -- run --mount "$2:/mnt" -- true
}
allowed() { # NAME PATH
	expect_rc 0 "allowed: $1" -- run --mount "$2:/mnt" -- true
}

for dir in / /etc /proc /sys /dev /boot /run /var/run /home /root /etc/ /etc/../etc //etc \
	/usr/../etc /proc/1 /proc/self /sys/kernel /dev/pts \
	/etc/ssl; do
	[ ! -d "$dir" ] || forbidden "$dir" "$dir"
done
expect_reason mount_forbidden 'forbidden as workspace: /etc' -- run --workspace /etc -- true
expect_reason mount_forbidden 'forbidden as workspace: / by ..' -- \
	run --workspace ../../../../../../.. -- true
expect_reason mount_forbidden 'forbidden as image: /' -- run --image / -- true
expect_reason mount_source_missing 'a magic link leads nowhere' -- \
	run --mount /proc/self/root/usr:/mnt -- true
expect_reason mount_source_missing 'a magic link to a descriptor' -- \
	run --mount /proc/self/cwd:/mnt -- true

# A home directory with everything in it, by HOME.
old_home=$HOME
export HOME=$T/homes/one
mkdir -p "$HOME/project/src" "$HOME/.config/other" "$HOME/.local/share/other"
trees=(.ssh .aws .gnupg .docker .kube .azure .oci .password-store .terraform.d .mozilla
	.antigravity .claude .codex .cursor .gemini .grok .qwen .colima .lima .rd
	.config/{chromium,gcloud,gh,github-copilot,google-chrome,op,opencode,rclone}
	.local/share/{bailey,containers,docker,keyrings,opencode})
for tree in "${trees[@]}"; do
	mkdir -p "$HOME/$tree/inside"
done
mkdir "$HOME/.cargo" "$HOME/.m2" "$HOME/.config/containers"
for file in .netrc .npmrc .pypirc .git-credentials .vault-token .claude.json .bash_history \
	.cargo/credentials.toml .m2/settings.xml .config/containers/auth.json; do
	echo secret >"$HOME/$file"
done
for dir in .cargo .m2 .config/containers; do
	forbidden "home: $dir, which holds a file of keys" "$HOME/$dir"
done
forbidden 'a home directory' "$HOME"
forbidden 'a home directory with a slash' "$HOME/"
forbidden 'what lies above a home directory' "$T/homes"
allowed 'a project in it' "$HOME/project"
allowed 'a directory beside the secrets' "$HOME/.config/other"
for tree in "${trees[@]}"; do
	forbidden "home: $tree" "$HOME/$tree"
	forbidden "home: inside $tree" "$HOME/$tree/inside"
done
forbidden 'what holds some of them (~/.config)' "$HOME/.config"
forbidden 'what holds some of them (~/.local)' "$HOME/.local"
forbidden 'a slash behind it' "$HOME/.ssh/"
forbidden 'a dot in it' "$HOME/./.ssh/."
forbidden 'there and back' "$HOME/project/../.ssh"
ln -s "$HOME/.ssh" "$f/innocent"
forbidden 'through a link' "$f/innocent"
forbidden 'through a link, inside' "$f/innocent/inside"
ln -s "$HOME" "$f/harmless"
forbidden 'a home through a link' "$f/harmless"
allowed 'a project through that link' "$f/harmless/project"
mv "$HOME/.aws" "$HOME/project/aws"
ln -s project/aws "$HOME/.aws"
forbidden 'where a link in the home leads' "$HOME/project/aws"
forbidden 'and what holds that' "$HOME/project"
rm "$HOME/.aws"
allowed 'which is fine without the link' "$HOME/project"
mv "$HOME/.netrc" "$HOME/project/netrc"
ln -s project/netrc "$HOME/.netrc"
forbidden 'what holds a file that a link in the home leads to' "$HOME/project"
rm "$HOME/.netrc"
mkdir -p "$T/homes2/empty"
HOME=$T/homes2/empty forbidden 'a home with nothing in it' "$T/homes2/empty"
HOME=$T/homes2/empty forbidden 'what lies above a home with nothing in it' "$T/homes2"
export HOME=$old_home

# By name, wherever they lie: the homes that no list names, and copies of them.
mkdir -p "$f/elsewhere/.ssh/inside" "$f/elsewhere/.sshd" "$f/elsewhere/.claude/worktrees/one"
forbidden 'a directory named .ssh' "$f/elsewhere/.ssh"
forbidden 'what lies in a directory named .ssh' "$f/elsewhere/.ssh/inside"
allowed 'a name that only begins so' "$f/elsewhere/.sshd"
allowed "a project's own .claude" "$f/elsewhere/.claude/worktrees/one"

# What is absent, for those who could make it.
writable() { # DIR: sets words
	words=(run "${rw[@]}" --mount "$1:/mnt:rw" -- true)
}
mkdir -p "$T/homes3/me/.local" "$T/homes3/me/.config/other" "$T/homes3/me/project"
export HOME=$T/homes3/me
for dir in .local .config; do
	writable "$HOME/$dir"
	text='*could make*try: Mount it read-only*' \
		expect_reason mount_forbidden "writable, and keys could be made in it: $dir" -- "${words[@]}"
	allowed "the same read-only: $dir" "$HOME/$dir"
done
writable "$HOME/project"
expect_rc 0 'writable: a project' -- "${words[@]}"
ln -s ../project/gh "$HOME/.config/gh"
writable "$HOME/.config"
expect_reason mount_forbidden 'writable, with a link that could be replaced' -- "${words[@]}"
rm "$HOME/.config/gh"
export HOME=$old_home

# Bailey's own programs: the next run would start what a sandbox has put there.
mkdir -p "$f/own"
cp -a "$(dirname "$BAILEY")/.." "$f/own/stage"
with_own() { # NAME RC PATH
	writable "$3"
	try "$f/own/stage/bin/bailey" "${words[@]}"
	if [ "$2" = 0 ]; then
		is "$1" 0 "$rc"
	else
		refusal mount_forbidden '*try: Mount it read-only*' "$1"
	fi
}
mkdir "$f/own/stage/project"
with_own "writable, with bailey in it" 125 "$f/own"
with_own "writable: where bailey lies" 125 "$f/own/stage/bin"
with_own "writable: where bailey-guest lies" 125 "$f/own/stage/libexec"
with_own "writable: a directory beside them" 0 "$f/own/stage/project"
try "$f/own/stage/bin/bailey" run --workspace "$f/own" -- true
is 'read-only, with bailey in it' 0 "$rc"

# Directories of many programs, as wholes.
for dir in /tmp /var/tmp /dev/shm /var/log /run/user; do
	[ ! -d "$dir" ] || forbidden "as a whole: $dir" "$dir"
done
mkdir -p "$f/runtime/sub"
XDG_RUNTIME_DIR=$f/runtime forbidden 'as a whole: $XDG_RUNTIME_DIR' "$f/runtime"
XDG_RUNTIME_DIR=$f/runtime allowed 'a directory in $XDG_RUNTIME_DIR' "$f/runtime/sub"
mkdir -p "$f/t/tmux-$(id -u)"
TMUX_TMPDIR=$f/t forbidden 'a directory with the sockets of tmux' "$f/t"
allowed 'which is fine for others' "$f/t"
below_tmp=$(mktemp -d /tmp/bailey-cli.XXXXXX)
allowed 'a directory in /tmp' "$below_tmp"
rmdir "$below_tmp"

# A directory that is gone.
mkdir "$f/gone"
gone() { # WORD...
	# shellcheck disable=SC2317 # called through try
	(cd "$f/gone" && rmdir "$f/gone" && exec "$BAILEY" "$@")
}
try gone run --workspace . -- true
refusal mount_source_missing '*' 'the current directory, removed'
mkdir "$f/gone"
again() { # WORD...
	# shellcheck disable=SC2317 # called through try
	(cd "$f/gone" && rmdir "$f/gone" && mkdir "$f/gone" && exec "$BAILEY" "$@")
}
try again run --workspace . -- true
refusal mount_source_missing '*' 'the current directory, removed and made again'

# One that its owner has closed to us.
if [ "$(id -u)" -ne 0 ] && [ -d /root ] && [ ! -x /root ]; then
	text='*as a whole*' expect_reason mount_forbidden 'a closed directory is named as what it is' -- \
		run --mount /root:/mnt -- true
fi

# Homes of the password file.
listed=$(getent passwd "$(id -u)" | cut -d: -f6)
if [ -d "$listed" ]; then
	HOME=$T/none forbidden 'the home that the password file names' "$listed"
fi

forbidden "Bailey's home" "$BAILEY_HOME"
mkdir -p "$BAILEY_HOME/images"
forbidden "inside Bailey's home" "$BAILEY_HOME/images"
forbidden "what holds Bailey's home" "$T"
expect_reason mount_forbidden 'an image that holds it' -- run --image "$T" -- true

# Sockets that give the host away.
cat >"$T/listen.pl" <<'PERL'
use Socket; use IO::Socket::UNIX; unlink $ARGV[0];
my @how = $ARGV[1] ? (Type => SOCK_DGRAM) : (Listen => 1);
my $s = IO::Socket::UNIX->new(Local => $ARGV[0], @how) or die "listen: $!";
open my $f, ">", "$ARGV[0].up"; sleep 600;
PERL
mkdir -p "$f/sock" "$f/run"
listen() { # PATH [dgram]
	start perl "$T/listen.pl" "$@"
	disown # or the shell tells of its end
	until_true 100 [ -e "$1.up" ] || not_ok "the listener is up" "$(cat "$T/bg.err")"
}
bound() { # PATH: leaves a socket that nobody listens on
	perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && bind(S, sockaddr_un($ARGV[0])) or die $!' \
		"$1"
}
bound "$f/sock/s"
expect_reason model_socket_missing 'a plain file is no socket' -- \
	run --model-socket "$T/listen.pl" -- true
expect_reason model_socket_missing 'no socket at all' -- run --model-socket "$T/none" -- true
expect_reason model_socket_missing 'a directory is no socket' -- run --model-socket "$f/sock" -- \
	true
for name in DOCKER_HOST CONTAINER_HOST; do
	export $name="unix://$f/sock/s"
	expect_reason mount_forbidden "the socket of $name" -- \
		run --model-socket "$f/sock/s" -- true
	forbidden "a directory with the socket of $name" "$f/sock"
	unset $name
done
SSH_AUTH_SOCK=$f/sock/s expect_reason mount_forbidden 'the socket of SSH_AUTH_SOCK' -- \
	run --model-socket "$f/sock/s" -- true
SSH_AUTH_SOCK=$f/sock/s forbidden 'a directory with the socket of SSH_AUTH_SOCK' "$f/sock"
DBUS_SESSION_BUS_ADDRESS=unix:path=$f/sock/s,guid=0 \
	expect_reason mount_forbidden 'the socket of DBUS_SESSION_BUS_ADDRESS' -- \
	run --model-socket "$f/sock/s" -- true
ln -s s "$f/sock/model.sock"
DOCKER_HOST=unix://$f/sock/s expect_reason mount_forbidden 'it by another name' -- \
	run --model-socket "$f/sock/model.sock" -- true
bound "$f/sock/bus"
XDG_RUNTIME_DIR=$f/sock expect_reason mount_forbidden 'the bus of XDG_RUNTIME_DIR' -- \
	run --model-socket "$f/sock/bus" -- true
expect_rc 0 'any other socket is fine' -- run --model-socket "$f/sock/s" -- true
mkdir -p "$f/tmux-0" "$f/tmux-notes" "$f/ssh-x" "$T/homes4/.gnupg"
for name in sock/docker.sock sock/S.gpg-agent.ssh sock/wayland-0 tmux-0/default ssh-x/agent.7; do
	bound "$f/$name"
	text='*a name like*' expect_reason mount_forbidden "a model socket by name: $name" -- \
		run --model-socket "$f/$name" -- true
done
bound "$f/tmux-notes/model.sock"
expect_rc 0 'a name that only looks like one' -- run --model-socket "$f/tmux-notes/model.sock" -- \
	true
bound "$T/homes4/.gnupg/any"
HOME=$T/homes4 expect_reason mount_forbidden 'a socket among keys' -- \
	run --model-socket "$T/homes4/.gnupg/any" -- true

# Sockets below a directory: whoever listens could be asked to run commands outside.
mkdir -p "$f/project/deep/run" "$f/project/other" "$f/copy"
reaches() { # NAME SOCKET PATH
	text="*the socket '$2'*try: Stop the program*" expect_reason mount_forbidden "socket: $1" -- \
		run --mount "$3:/mnt" -- true
}
allowed 'no socket yet' "$f/project"
listen "$f/project/deep/run/tmux"
reaches 'in a directory below' "$f/project/deep/run/tmux" "$f/project"
reaches 'in the directory' "$f/project/deep/run/tmux" "$f/project/deep/run"
expect_reason mount_forbidden 'socket: in a workspace' -- run --workspace "$f/project" -- true
expect_reason mount_forbidden 'socket: in a writable workspace' -- \
	run "${rw[@]}" --workspace "$f/project:rw" -- true
allowed 'beside the socket' "$f/project/other"
stop_all
until_true 100 eval '! grep -q project/deep/run/tmux /proc/net/unix'
allowed 'the program has ended and left its socket' "$f/project"
ln -s project/deep "$f/link"
listen "$f/link/run/linked"
reaches 'bound through a link' "$f/link/run/linked" "$f/project"
stop_all
listen "$f/project/deep/datagrams" dgram
reaches 'for datagrams' "$f/project/deep/datagrams" "$f/project"
stop_all
old_dir=$PWD
cd "$f/project" || exit
listen relative
cd "$old_dir" || exit
reaches 'bound by a relative name' relative "$f/project"
stop_all
listen "$f/model.sock"
expect_rc 0 'the model socket beside the workspace' -- \
	run --workspace "$f/copy" --model-socket "$f/model.sock" -- true
stop_all

# More users than anybody looks at, and services with keys; the runtime directory without its variable.
mkdir -p "$T/users/victim/.codex/inside" "$T/users/service/.kube" "$T/users/service/data"
for ((i = 0; i < 300; i++)); do
	echo "u$i:x:$((2000 + i)):100::/nonexistent/$i:/bin/sh"
done >"$T/passwd"
cat >>"$T/passwd" <<END
victim:x:3000:100::$T/users/victim:/bin/sh
service:x:600:100::$T/users/service:/usr/sbin/nologin
END
private() { # NAME REASON SCRIPT ARGUMENT...
	local name=$1 reason=$2
	shift 2
	try in_private_mounts "$@"
	if [ "$reason" = 0 ]; then
		is "$name" 0 "$rc"
	else
		refusal "$reason" '*' "$name"
	fi
}
if can_mount; then
	listed='mounter bind /etc/passwd "$1"; back "$BAILEY" run --mount "$2:/mnt" -- true'
	private 'the last of 300 homes' mount_forbidden "$listed" "$T/passwd" "$T/users/victim"
	private 'keys in the last of 300 homes' mount_forbidden \
		"$listed" "$T/passwd" "$T/users/victim/.codex/inside"
	private "a service's home with keys" mount_forbidden "$listed" "$T/passwd" "$T/users/service"
	private "a service's home without them" 0 "$listed" "$T/passwd" "$T/users/service/data"
	private "the runtime directory's bus without a variable" mount_forbidden '
		mounter tmpfs /run ""
		mkdir -p "/run/user/$(id -u)"
		perl -MSocket -e "socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(shift)) or die" \
			"/run/user/$(id -u)/bus"
		unset XDG_RUNTIME_DIR
		back "$BAILEY" run --model-socket "/run/user/$(id -u)/bus" -- true'
else
	skip 'another list of users' 'no private mounts here'
fi

# The same objects by a bind mount.
if can_mount; then
	alias_script='mounter bind "$2" "$1"; back "$BAILEY" run --mount "$2:/mnt" -- true'
	mkdir -p "$f/alias" "$f/alias2/sub" "$f/kept/.aws/inside" "$f/plain"
	echo secret >"$f/alias2/file"
	for dir in /etc /run "$BAILEY_HOME"; do
		try in_private_mounts "$alias_script" "$dir" "$f/alias"
		refusal mount_forbidden '*alias*' "a bind mount of $dir"
	done
	for dir in /etc/alternatives "$BAILEY_HOME/images" "$f/kept/.aws/inside"; do
		try in_private_mounts "$alias_script" "$dir" "$f/alias"
		refusal mount_forbidden '*alias*' "a bind mount of what lies inside: $dir"
	done
	private 'a bind mount of a harmless directory' 0 "$alias_script" "$f/plain" "$f/alias"

	# a normal user clones a mount with those below it; for root nothing of them is shown
	nested='mounter bind "$2" "$1"; back "$BAILEY" run --mount "${2%/*}:/mnt" -- ls /mnt/sub'
	for dir in /etc /etc/alternatives /dev/shm "$BAILEY_HOME" "$f/kept/.aws/inside"; do
		try in_private_mounts "$nested" "$dir" "$f/alias2/sub"
		holds "a bind mount below the source shows nothing: $dir" [ ! -s "$T/out" ]
		[ "$who" = root ] ||
			refusal mount_forbidden "*'$f/alias2/sub' is mounted in it*" "and is refused: $dir"
	done
	try in_private_mounts "${nested/ls*/cat /mnt/file}" /etc/passwd "$f/alias2/file"
	if [ "$who" = root ]; then
		holds 'a file mounted below the source is not shown' grep -qx secret "$T/out"
	else
		refusal mount_forbidden "*'$f/alias2/file' is mounted in it*" 'a file mounted below the source'
	fi
	# a normal user's kernel takes what the name leads to; for root it is what was opened
	covered='cd "$1"; mounter tmpfs "$1" ""; back "$BAILEY" run --workspace . -- true'
	if [ "$who" = root ]; then
		private 'the current directory, covered by a mount' 0 "$covered" "$f/plain"
	else
		private 'the current directory, covered by a mount' mount_source_changed \
			"$covered" "$f/plain"
	fi
	private 'a harmless mount below the source' 0 "$nested" "$f/plain" "$f/alias2/sub"
	private 'a file system of its own below the source' 0 \
		'mounter tmpfs "$1/sub" ""; back "$BAILEY" run --mount "$1:/mnt" -- ls /mnt/sub' "$f/alias2"
	listen "$f/plain/s"
	private 'a socket by a mount of its directory' mount_forbidden "$alias_script" "$f/plain" \
		"$f/alias"
	[ "$who" = root ] || private 'a socket in a mount below the source' mount_forbidden \
		"$nested" "$f/plain" "$f/alias2/sub"
	stop_all
else
	skip 'bind mounts' 'no private mounts here'
fi
