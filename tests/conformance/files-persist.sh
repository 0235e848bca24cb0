# shellcheck shell=bash
# Behaviour of run.sh: files of all kinds over stop and start; the image is never written.
# what is expanded inside; what the library shares
# shellcheck disable=SC2016,SC2034,SC2154

new
make='cd /workspace && mkdir -p d/e && echo x >d/e/f && touch -d @1000000000 d/e/f &&
	ln d/e/f hard && ln -s d/e soft && chmod 750 d && head -c 100000 /dev/urandom >random &&
	truncate -s 1000000 hole && printf x >"$(printf "n\377\n m")" && echo 1 >gone && rm gone &&
	mkdir r && rmdir r'
! tells_kinds 'FIFOs and holes' || make="$make && mkfifo fifo"
inside "$make"
is 'files are made' 0 "$rc"
a=$(tree_sum_inside /workspace)
bailey stop "$sb"
bailey start "$sb"
is 'they are the same' "$a" "$(tree_sum_inside /workspace)"
tells 'hard links are' 2 'stat -c %h /workspace/hard'
[ "$engine" = gvisor ] || tells 'holes are' yes '[ $(stat -c %b /workspace/hole) -lt 100 ] && echo yes'
tells 'names are' found '[ -f "$(printf "/workspace/n\377\n m")" ] && echo found'
