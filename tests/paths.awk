# tests/paths.awk: files that comments and pages name and the tree has not. usage: git ls-files | awk -f tests/paths.awk - FILE...
# In a comment a name with an ending of sources (core/run/apply.c) is to be a path from the root or from the file's own
# folder, on a page the end of one; a name that begins with a folder of the tree (tests/prop, scenarios/papers) is to be a
# path, with or without its ending; the first comment of a file that begins with a name names that file. Not looked at:
# texts in quotes, fenced blocks of pages, names with capitals (they stand for others), what a build or a run writes, and
# files of other programs.
BEGIN {
    n = split("dp_core.cpp expf.c x.c core/pipeline_parallel/schedules.py", word, " ")
    for (i = 1; i <= n; i++) foreign[word[i]]
    source = "[.](c|h|inc|cu|cuh|cpp|sh|awk|gp|mk)$"
    top = "^(core|sim|exec|cli|tests|docs|plots|scenarios|traces)/"
    written = "^(plots/.*[.](csv|svg)|tests/out/.*)$"
}
function add(path) { known[path]; sub(/[.][a-z]+$/, "", path); known[path] }
FILENAME == "-" { # every end of the path, and its folders
    add($0); whole[$0]
    rest = $0
    while ((i = index(rest, "/")) > 0) { rest = substr(rest, i + 1); known[rest] }
    for (dir = $0; sub(/[/][^/]*$/, "", dir);) known[dir]
    next
}
function judge(name,    strict) {
    sub(/^([.][.]?[/])+/, "", name); sub(/[.]+$/, "", name); sub(/[/]$/, "", name)
    strict = name ~ source && FILENAME !~ /[.]md$/
    if (strict ? name in whole || (folder name) in whole : name in known) return
    if (name in foreign || name ~ /^[.]/ || name ~ /(^|[/_-])[A-Z][A-Z]|[A-Z][A-Z][A-Z]/ || name ~ written) return
    if (name ~ source || name ~ top) print FILENAME ":" FNR ": " name
}
function look(text,    before, after, name) {
    while (match(text, /[A-Za-z0-9_.][A-Za-z0-9_.\/-]*/)) {
        before = RSTART > 1 ? substr(text, RSTART - 1, 1) : ""; after = substr(text, RSTART + RLENGTH, 1)
        name = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
        if (before !~ /[\/<$"}*{~%>]/ && after !~ /[*{<$(\[]/) judge(name)
    }
}
function comments(line,    text, i) { # of C: what stands in them, on this line
    text = ""
    if (!inside) gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
    while (line != "") {
        i = index(line, inside ? "*/" : "/*")
        if (inside) text = text " " (i ? substr(line, 1, i - 1) : line)
        if (!i) break
        line = substr(line, i + 2); inside = !inside
        if (!inside) gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
    }
    return text
}
FNR == 1 {
    inside = fenced = 0
    folder = FILENAME; sub(/[^\/]*$/, "", folder)
    own = FILENAME; sub(/.*[/]/, "", own)
    head = $0; sub(/^[/][*] */, "", head); sub(/[: ].*/, "", head)
    if ($0 ~ /^[/][*]/ && head ~ source && head != own && head != FILENAME) print FILENAME ":1: it says that it is " head
}
FILENAME ~ /[.]md$/ { if ($0 ~ /^ *```/) fenced = !fenced; else if (!fenced) look($0); next }
FILENAME ~ /[.](c|h|inc|cu|cuh|cpp)$/ { look(comments($0)); next }
match($0, /(^|[ \t])#.*/) { look(substr($0, RSTART)) }
