# shellcheck shell=bash
# Topic of run.sh: the objects of the host that no mount shows, by whatever name.
# what is expanded inside; what run.sh and the libraries share
# shellcheck disable=SC2016,SC2034,SC2154

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
trees=(.ssh .aws .gnupg .docker .config/gcloud .azure .kube .claude .codex .gemini .grok .qwen \
	.config/opencode
	.local/share/opencode .config/gh .antigravity .local/share/bailey)
for tree in "${trees[@]}"; do
	mkdir -p "$HOME/$tree/inside"
done
for file in .netrc .npmrc .git-credentials .claude.json; do
	echo secret >"$HOME/$file"
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
ln -s "$HOME/.ssh" "$T/w/innocent"
forbidden 'through a link' "$T/w/innocent"
forbidden 'through a link, inside' "$T/w/innocent/inside"
ln -s "$HOME" "$T/w/harmless"
forbidden 'a home through a link' "$T/w/harmless"
allowed 'a project through that link' "$T/w/harmless/project"
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
use IO::Socket::UNIX; unlink $ARGV[0];
my $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die "listen: $!";
open my $f, ">", "$ARGV[0].up"; sleep 600;
PERL
mkdir -p "$T/w/sock" "$T/w/run"
listen() { # PATH
	start perl "$T/listen.pl" "$1"
	until_true 100 [ -e "$1.up" ] || not_ok "the listener is up" "$(cat "$T/bg.err")"
}
listen "$T/w/sock/docker.sock"
expect_reason model_socket_missing 'a plain file is no socket' -- \
	run --model-socket "$T/listen.pl" -- true
expect_reason model_socket_missing 'no socket at all' -- run --model-socket "$T/none" -- true
expect_reason model_socket_missing 'a directory is no socket' -- run --model-socket "$T/w/sock" -- \
	true
for name in DOCKER_HOST CONTAINER_HOST; do
	export $name="unix://$T/w/sock/docker.sock"
	expect_reason mount_forbidden "the socket of $name" -- \
		run --model-socket "$T/w/sock/docker.sock" -- true
	forbidden "a directory with the socket of $name" "$T/w/sock"
	unset $name
done
SSH_AUTH_SOCK=$T/w/sock/docker.sock expect_reason mount_forbidden 'the socket of SSH_AUTH_SOCK' -- \
	run --model-socket "$T/w/sock/docker.sock" -- true
SSH_AUTH_SOCK=$T/w/sock/docker.sock forbidden 'a directory with the socket of SSH_AUTH_SOCK' \
	"$T/w/sock"
ln -s docker.sock "$T/w/sock/model.sock"
DOCKER_HOST=unix://$T/w/sock/docker.sock expect_reason mount_forbidden 'it by another name' -- \
	run --model-socket "$T/w/sock/model.sock" -- true
XDG_RUNTIME_DIR=$T/w/sock expect_reason mount_forbidden 'docker.sock of XDG_RUNTIME_DIR' -- \
	run --model-socket "$T/w/sock/docker.sock" -- true
expect_rc 0 'any other socket is fine' -- run --model-socket "$T/w/sock/docker.sock" -- true
stop_all

# The same objects by a bind mount.
if can_mount; then
	alias_script='mounter bind "$2" "$1"; back "$BAILEY" run --mount "$2:/mnt" -- true'
	mkdir -p "$T/w/alias" "$T/w/alias2/sub"
	for dir in /etc /run "$BAILEY_HOME"; do
		try in_private_mounts "$alias_script" "$dir" "$T/w/alias"
		refusal mount_forbidden '*alias*' "a bind mount of $dir"
	done
	try in_private_mounts "$alias_script" /etc/ssl "$T/w/alias"
	refusal mount_forbidden '*alias*' 'a bind mount of what lies inside'
	# a normal user clones a mount with those below it, so that is where this could go wrong
	try in_private_mounts \
		'mounter bind "$2/sub" "$1"; back "$BAILEY" run --mount "$2:/mnt" -- ls /mnt/sub' \
			/etc "$T/w/alias2"
	holds 'a bind mount below the source shows nothing' [ ! -s "$T/out" ]
else
	skip 'bind mounts' 'no private mounts here'
fi
