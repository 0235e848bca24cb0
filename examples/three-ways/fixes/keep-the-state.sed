# a word may reach over two reads
/^\t\tbool in_word = false;$/d
s/^\tsize_t n;$/\tsize_t n;\n\tbool in_word = false;/
