#!/usr/bin/env bash
# Turns text files into a C table {name, text}: cli/embed.sh HEADER TYPE TABLE FILE... > OUT.c
set -eu
header=$1 type=$2 table=$3
shift 3
echo '/* Made by cli/embed.sh; do not edit. */'
echo "#include \"$header\""
echo "const $type $table[] = {"
for f in "$@"; do
    printf '    {"%s",\n' "$f"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/     "/' -e 's/$/\\n"/' "$f"
    printf '    },\n'
done
echo '    {0, 0},'
echo '};'
