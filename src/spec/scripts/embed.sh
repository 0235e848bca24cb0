#!/bin/sh
# embed.sh NAME FILE...: the files, one behind the other, as a C string.  Comments stay behind.
set -eu
name=$1
shift
printf 'const char %s[] =\n' "$name"
sed -e '/^[[:space:]]*#/d' -e '/^[[:space:]]*$/d' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/\t"/' -e 's/$/\\n"/' "$@"
echo '	;'
