#!/usr/bin/env bash
# Every page of docs/ that code, messages and documents name exists, with the section if one is named, and so does
# every file that a document links to or names. No page is named that is not shipped: names of such pages, and numbers of
# their sections, are listed here, since nobody could look them up.
set -u
n=0; bad=0
fail() { echo "FAIL $*"; bad=$((bad + 1)); }
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
find . \( -path ./build -o -path ./.git -o -type d -name 'luoshu-*' \) -prune -o -type f \( -name '*.[ch]' -o -name '*.cu' \
    -o -name '*.cuh' -o -name '*.inc' -o -name '*.cpp' -o -name '*.sh' -o -name '*.mk' -o -name Makefile -o -name '*.md' \
    -o -name '*.yaml' -o -name '*.csv' -o -name '*.gp' -o -name '*.py' -o -name '*.json' -o -path './tests/golden/*' \) \
    -print | sed 's#^\./##' | grep -v '^tests/links.sh$' >"$tmp/files"

# Sections as anchors: small letters, digits, - and _; a second one of that name ends in -1.
awk 'FNR == 1 {split("", seen); code = 0}
     /^```/ {code = !code}
     !code && /^#+ / {
         s = tolower($0); sub(/^#+ /, "", s); gsub(/[^a-z0-9_ -]/, "", s); gsub(/ /, "-", s)
         print FILENAME "#" s (seen[s]++ ? "-" seen[s] - 1 : "")
     }' README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md docs/*/*.md | sort >"$tmp/anchors"
there() { # PAGE[#SECTION] WHERE
    n=$((n + 1))
    [ -e "${1%%#*}" ] || { fail "$2: no page $1"; return; }
    [[ $1 == *#* && $1 == *.md#* ]] || return
    grep -qxF -- "$1" "$tmp/anchors" || fail "$2: no section $1"
}
while IFS=: read -r file line page; do there "$page" "$file:$line"; done < <(
    tr '\n' '\0' <"$tmp/files" |
    xargs -0 grep -noE 'docs/[a-z-]+(/[a-z-]+)*\.md(#[a-z0-9_-]+)?' | grep -vE '^docs/[^:]*:[0-9]+:docs/.*\]\(' | sort -u)
while IFS=: read -r file line link; do # (page.md#section) of a document, from its own folder
    link=${link#](}; link=${link%)}
    [[ $link == \#* ]] && link=$(basename "$file")$link
    there "$(realpath -m --relative-to=. "$(dirname "$file")/${link%%#*}")${link#"${link%%#*}"}" "$file:$line"
done < <(grep '\.md$' "$tmp/files" | tr '\n' '\0' | xargs -0 grep -noE '\]\([^)]*\)' | grep -v 'https\?:')

while IFS=: read -r file line path; do # `core/run/driver.c` of a document, with * for any
    path=${path//\`/}; n=$((n + 1))
    compgen -G "$path" >/dev/null || fail "$file:$line: no file $path"
done < <(grep '\.md$' "$tmp/files" | tr '\n' '\0' |
    xargs -0 grep -noE '`(core|exec|cli|sim|tests|scenarios|traces)/[A-Za-z0-9_./*-]*`')

pages='accuracy|conventions|hspmd|malleus|hetu1|hydraulis|hap|comm|cp-moe|simgrid|bench|design|style'
gone="(^|[^a-z/_-])($pages)\\.md|(^|[^a-z])specs/|\\.\\./shared/specs|(Malleus|HSPMD|Hydraulis|HAP)(, section| amendment)? [0-9]|[Aa]mendments? [0-9]"
n=$((n + 1))
if tr '\n' '\0' <"$tmp/files" | xargs -0 grep -nE "$gone" >"$tmp/gone"; then
    fail "$(wc -l <"$tmp/gone") places name a page that is not shipped"; head -n "${LINKS_SHOWN:-20}" "$tmp/gone"
fi
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
