# shellcheck shell=bash
# Behaviour of run.sh: cp: single files, both ways.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
head -c 3000000 /dev/urandom >"$T/f"
chmod 640 "$T/f"
touch -d @1000000000 "$T/f"
bailey cp "$T/f" "$sb:/workspace/f"
is 'in' 0 "$rc"
tells 'its size, mode and time' '3000000 640 1000000000' 'stat -c "%s %a %Y" /workspace/f'
tells 'it is the workload'\''s' mine '[ -O /workspace/f ] && echo mine'
bailey cp "$sb:/workspace/f" "$T/g"
is 'out' 0 "$rc"
is 'the same bytes' "$(file_sum "$T/f")" "$(file_sum "$T/g")"
is 'the same mode and time' '640 1000000000' "$(stat -c '%a %Y' "$T/g")"
is 'it is the caller'\''s' "$(id -u)" "$(stat -c %u "$T/g")"
bailey cp "$T/f" "$sb:/workspace"
is 'into a directory' 0 "$rc"
mkdir "$T/d"
bailey cp "$sb:/workspace/f" "$T/d"
is 'out into a directory' "$(file_sum "$T/f")" "$(file_sum "$T/d/f")"
bailey cp "$T/f" "$sb:relative"
tells 'a relative path' 3000000 'stat -c %s /workspace/relative'
: >"$T/empty"
bailey cp "$T/empty" "$sb:/workspace/empty"
tells 'an empty file' 0 'stat -c %s /workspace/empty'
inside 'echo old >/workspace/over'
echo new >"$T/new"
bailey cp "$T/new" "$sb:/workspace/over"
tells 'over another' new 'cat /workspace/over'
refuses path_not_found 'what is not there' cp "$sb:/none" "$T/none"
holds 'nothing was made' [ ! -e "$T/none" ]
refuses path_not_found 'what is not there on the host' cp "$T/none" "$sb:/workspace/none"
refuses path_not_found 'into what is not there' cp "$T/f" "$sb:/none/f"
refuses sandbox_not_found 'an unknown sandbox' cp "$T/f" nobody:/workspace/f
# a normal user's sandbox has one id, which owns all that was made for it
[ "$who" = user ] ||
	refuses permission_denied 'where the workload may not write' cp "$T/f" "$sb:/etc/planted"
bailey cp "$T/f" "$T/g"
is 'no sandbox at all' 2 "$rc"
inside 'chmod 4755 /workspace/over 2>/dev/null; chmod 755 /workspace/over'
cp "$T/new" "$T/setuid"
chmod 6755 "$T/setuid"
bailey cp "$T/setuid" "$sb:/workspace/setuid"
tells 'no setuid bit goes in' '755' 'stat -c %a /workspace/setuid'
inside 'ln -s /etc/passwd /workspace/link; ln -s ../../../../etc/shadow /workspace/up'
bailey cp "$sb:/workspace/link" "$T/link"
is 'a link comes as a link' /etc/passwd "$(readlink "$T/link")"
ln -s /etc/hostname "$T/hostlink"
bailey cp "$T/hostlink" "$sb:/workspace/hostlink"
tells 'a link goes as a link' /etc/hostname 'readlink /workspace/hostlink'
inside 'ln -s "$0" /workspace/out' "$T/landing"
mkdir "$T/landing"
bailey cp "$T/f" "$sb:/workspace/out/f"
is 'a link inside leads nowhere outside' '' "$(ls "$T/landing")"
bailey stop "$sb"
bailey cp "$sb:/workspace/f" "$T/stopped"
holds 'of a stopped sandbox: refused, or right' eval '[ "$rc" -ne 0 ] || cmp -s "$T/f" "$T/stopped"'
