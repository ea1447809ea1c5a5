#!/usr/bin/env bash
# The archive of a bundle, FOLDER.tar.xz, or a sentence if it is larger than what can be carried.
# usage: exec/bundle/pack.sh FOLDER MIB
set -euo pipefail
folder=$1 most=$2
archive=$folder.tar.xz
# A dictionary in which all programs lie: much of each is the same.
tar -C "$(dirname "$folder")" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$(basename "$folder")" |
    xz -6 --lzma2=preset=6,dict=192MiB >"$archive.tmp"
bytes=$(stat -c %s "$archive.tmp")
mib=$(awk "BEGIN {printf \"%.1f\", $bytes / 1048576}")
if [ "$bytes" -gt $((most * 1048576)) ]; then
    rm "$archive.tmp"
    echo "bundle: the archive of $folder has $mib MiB, more than the $most that were allowed (BUNDLE_MIB)." >&2
    exit 1
fi
mv "$archive.tmp" "$archive"
echo "$folder: $(du -sm "$folder" | cut -f 1) MiB"
echo "$archive: $mib MiB"
