# shellcheck shell=sh disable=SC2034,SC2154
# Whether the directory is a virtual environment whose interpreter is there.  Nothing of it is run.
owned "$venv"
line_of "$venv/pyvenv.cfg"
[ -e "$venv/bin/python" ] || die 4 "its interpreter '$(readlink -- "$venv/bin/python" 2>/dev/null | tr -cd '[:print:]')' is not there"
python=$(readlink -f -- "$venv/bin/python")
if ! [ -f "$python" ] || ! [ -x "$python" ]; then die 4 "its interpreter is not a program"; fi
printf 'python %s\n' "$(printf '%s' "$python" | tr -cd '[:print:]')"
sed -n 's/^version[a-z_]*[ =]*\([0-9.]*\).*/version \1/p' -- "$venv/pyvenv.cfg" | head -n 1
