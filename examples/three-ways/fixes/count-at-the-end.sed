# a word counts where it ends
s/if (isspace(\(.*\))) {/if (!isspace(\1)) {/
s/in_word = false;$/in_word = HERE;/
s/in_word = true;$/in_word = false;/
s/in_word = HERE;$/in_word = true;/
s/bool in_word = true;/bool in_word = false;/
s/else if (!in_word)/else if (in_word)/
