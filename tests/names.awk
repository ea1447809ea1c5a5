# Names of functions that headers declare: `luo_` and a word of the header's path, or the name of a
# type that the header declares itself; a plural counts as its singular. Without luo_ it is the folder
# that names them: sim_, host_, and gpu_ in exec/cuda. Prints what breaks this.
#     awk -f tests/names.awk HEADERS

function singular(word) { sub(/s$/, "", word); return word }

# Is `name` the name of a type of this header, or does it go on behind one?
function of_type(name,    n, parts, i, head) {
    n = split(name, parts, "_")
    for (i = 1; i <= n; i++) {
        head = head (i > 1 ? "_" : "") parts[i]
        if (singular(head) in types) return 1
    }
    return 0
}

function judge(    i, parts, n, name) {
    for (i = 1; i <= count; i++) {
        name = called[i]
        sub(/^luo_/, "", name)
        split(name, parts, "_")
        if (!(singular(parts[1]) in words) && !of_type(name))
            print place[i] ": " called[i]
    }
    seen += count
    count = 0
}

function add_type(name) { sub(/^luo_/, "", name); types[singular(name)] = 1 }

FNR == 1 {
    judge()
    delete types
    delete words
    n = split(FILENAME, parts, /[\/_.]/)
    for (i = 1; i <= n; i++) words[singular(parts[i])] = 1
    if ("cuda" in words) words["gpu"] = 1
}

# struct luo_x {, typedef .. luo_x;, } luo_x;, typedef .. (*luo_x)(..
/^(typedef )?(struct|enum|union) luo_[a-z0-9_]+ \{/ {
    match($0, /luo_[a-z0-9_]+/)
    add_type(substr($0, RSTART, RLENGTH))
}
/^(typedef|}).* luo_[a-z0-9_]+;/ {
    match($0, /luo_[a-z0-9_]+;/)
    add_type(substr($0, RSTART, RLENGTH - 1))
}
/^typedef/ && match($0, /(\(\*| )luo_[a-z0-9_]+\)?\(/) {
    name = substr($0, RSTART + 1, RLENGTH - 2)
    gsub(/[*)]/, "", name)
    add_type(name)
}

# A function is declared at the start of a line.
/^[A-Za-z_]/ && !/^(typedef|_Static_assert)/ {
    line = $0
    gsub(/__[a-z_]+__ ?\(\(?[^)]*\)?\)/, "", line)
    if (!match(line, /[a-z_][a-z0-9_]*\(/) || substr(line, 1, RSTART) ~ /=/) next
    count++
    called[count] = substr(line, RSTART, RLENGTH - 1)
    place[count] = FILENAME ":" FNR
}

END { judge(); if (!seen) print "no function was found" }
