# behind the first read a word goes on
s/bool in_word = false;/bool in_word = c->bytes > 0;/
