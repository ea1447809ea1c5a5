#!/usr/bin/env bash
# Turns text files into a C table {name, text}: cli/embed.sh FILE... > embed.c
set -eu
echo '/* Made by cli/embed.sh; do not edit. */'
echo '#include "cli/embed.h"'
echo 'const luo_embedded luo_embedded_files[] = {'
for f in "$@"; do
    printf '    {"%s",\n' "$f"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/     "/' -e 's/$/\\n"/' "$f"
    printf '    },\n'
done
echo '    {0, 0},'
echo '};'
