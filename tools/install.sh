#!/bin/sh
# usage: tools/install.sh install|uninstall [--prefix P]
# Copies build/stage to P (default /usr/local) and writes P/share/bailey/manifest: 'd' lines for the directories that it
# made, 'f' lines for the files.  uninstall removes what the manifest names and nothing else.  DESTDIR is heeded.
set -eu

cd "$(dirname "$0")/.."
stage=${BAILEY_STAGE:-$PWD/build/stage}
verb=${1:-}
prefix=/usr/local
[ $# -eq 0 ] || shift

die() {
	echo "$verb: $*" >&2
	exit 1
}

usage() {
	echo "usage: ./dev install|uninstall [--prefix P]" >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--prefix)
		[ $# -ge 2 ] || usage
		prefix=$2
		shift
		;;
	--prefix=*) prefix=${1#--prefix=} ;;
	*) usage ;;
	esac
	shift
done
case $prefix in
/*) ;;
*) die "the prefix '$prefix' is not an absolute path" ;;
esac
root=${DESTDIR:-}${prefix%/}
manifest=$root/share/bailey/manifest

# Reads manifest lines, refusing a path that leads out of the prefix.
read_manifest() {
	while read -r kind path; do
		case $kind:/$path/ in
		*/../* | *//*) die "the manifest '$manifest' names '$path', which is no path below the prefix" ;;
		[df]:*) printf '%s %s\n' "$kind" "$path" ;;
		*) die "the manifest '$manifest' has a line that this program can't read" ;;
		esac
	done <"$manifest"
}

writable() {
	d=$root
	while [ ! -e "$d" ] && [ "$d" != / ] && [ -n "$d" ]; do
		d=${d%/*}
	done
	[ -w "${d:-/}" ] || die "can't write to '${d:-/}'; use sudo, or --prefix \"\$HOME/.local\""
}

# Makes a directory below the root and notes each one that was not there.
make_dir() {
	[ ! -d "$root/$1" ] || return 0
	case $1 in
	*/*) make_dir "${1%/*}" ;;
	esac
	mkdir "$root/$1"
	# the 'd' line of an earlier install was carried over already
	grep -qxF "d $1" "$new" || echo "d $1" >>"$new"
}

copy_file() {
	if [ -h "$stage/$1" ]; then
		rm -f "$root/$1"
		cp -P "$stage/$1" "$root/$1"
	else
		mode=0644
		[ ! -x "$stage/$1" ] || mode=0755
		# by another name first: a program that runs at this moment keeps its file
		install -m "$mode" "$stage/$1" "$root/$1.bailey-new"
		mv -f "$root/$1.bailey-new" "$root/$1"
	fi
	echo "f $1" >>"$new"
}

do_install() {
	[ -x "$stage/bin/bailey" ] || die "nothing is built; run './dev build'"
	writable
	new=$(mktemp)
	trap 'rm -f "$new" "$new.old"' EXIT
	: >"$new.old"
	if [ -f "$manifest" ]; then
		read_manifest >"$new.old"
		grep '^d ' "$new.old" >"$new" || true
	fi
	[ -d "$root" ] || mkdir -p "$root"
	make_dir share/bailey
	(cd "$stage" && find . \( -type f -o -type l \) | sed 's/^\.\///' | sort) >"$new.files"
	while read -r f; do
		case $f in
		*/*) make_dir "${f%/*}" ;;
		esac
		copy_file "$f"
	done <"$new.files"
	rm -f "$new.files"
	# what an older version had and this one hasn't
	sed -n 's/^f //p' "$new.old" | while read -r f; do
		grep -qxF "f $f" "$new" || [ "$f" = share/bailey/manifest ] || rm -f "$root/$f"
	done
	echo "f share/bailey/manifest" >>"$new"
	install -m 0644 "$new" "$manifest"
	"$root/bin/bailey" --version >/dev/null || die "'$root/bin/bailey --version' fails"
	echo "installed $(grep -c '^f ' "$manifest") files in $root"
}

do_uninstall() {
	[ -f "$manifest" ] || die "no manifest '$manifest': nothing was installed there by './dev install'"
	list=$(mktemp)
	trap 'rm -f "$list"' EXIT
	read_manifest >"$list"
	[ -w "${manifest%/*}" ] || die "can't write to '${manifest%/*}'; use sudo"
	sed -n 's/^f //p' "$list" | while read -r f; do
		rm -f "$root/$f"
	done
	# deepest first; a directory in which something else lies stays
	sed -n 's/^d //p' "$list" | sort -r | while read -r d; do
		[ ! -d "$root/$d" ] || rmdir "$root/$d" 2>/dev/null || true
	done
	echo "removed $(grep -c '^f ' "$list") files from $root"
}

case $verb in
install) do_install ;;
uninstall) do_uninstall ;;
*) usage ;;
esac
