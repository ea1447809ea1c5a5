# tests/mutate.awk: mutants of one token. usage: awk -v seed=N -v most=N -f tests/mutate.awk FILE...
# Prints most lines "file<TAB>line<TAB>column<TAB>token<TAB>other token", drawn without repetition from all places of
# the files, the same ones for a seed with any awk. The other token may be empty. Comments, texts, preprocessor lines
# and bounds of declared arrays have no places.
function rnd(n) { state = state * 16807 % 2147483647; return int(state / 2147483647 * n) } # 0..n-1
function place(col, token, others) { at[places] = FILENAME "\t" FNR "\t" col "\t" token; other[places++] = others }
function number(col, t) {
    if (substr(text, 1, col - 1) ~ /^[ \t]*((static|const|extern|struct) )*[A-Za-z_0-9]+ [^=()]*\[$/) return
    if (t ~ /^0[xX]/) return
    if (t ~ /[.eE]/) place(col, t, t + 0 == 0 ? "1.0" : "(2*" t ")")
    else if (t + 0 == 0) place(col, t, "1")
    else if (t + 0 == 1) place(col, t, "0 2")
    else place(col, t, (t + 1) " " (t - 1))
}
function operator(col, op) {
    if (op in swap && (!(op in binary) || (substr(text, col - 1, 1) == " " && substr(text, col + length(op), 1) ~ /^ ?$/)))
        place(col, op, swap[op])
}
BEGIN {
    state = seed * 7919 % 2147483646 + 1
    for (i = 0; i < 10; i++) rnd(2)
    n = split("< <=,> <= <,> > >=,< >= >,< == != != == && || || && + - - + * / / * % * << >> >> << & | | & += -= -= += *= /= /= *= |= &= &= |= ++ -- -- ++ true false false true break continue continue break fmin fmax fmax fmin", pair, " ")
    for (i = 1; i < n; i += 2) { swap[pair[i]] = pair[i + 1]; gsub(",", " ", swap[pair[i]]) }
    n = split("< <= > >= + - * / % << >> & |", word, " ")
    for (i = 1; i <= n; i++) binary[word[i]]
    places = 0
}
FNR == 1 { comment = skip = 0 }
{
    text = $0
    if (skip || (!comment && text ~ /^[ \t]*#/)) { skip = text ~ /\\$/; next }
    i = 1
    while (i <= length(text)) {
        rest = substr(text, i)
        if (comment) {
            if (!(end = index(rest, "*/"))) break
            comment = 0; i += end + 1
        } else if (substr(rest, 1, 2) == "/*") { comment = 1; i += 2 }
        else if (substr(rest, 1, 2) == "//") break
        else if (rest ~ /^["']/) {
            quote = substr(rest, 1, 1)
            for (i++; i <= length(text) && substr(text, i, 1) != quote; i++) if (substr(text, i, 1) == "\\") i++
            i++
        } else if (match(rest, /^[A-Za-z_][A-Za-z_0-9]*/)) {
            t = substr(rest, 1, RLENGTH); n = RLENGTH
            if (t in swap) place(i, t, swap[t])
            i += n
        } else if (match(rest, /^[0-9]([eE][-+][0-9]|[A-Za-z_0-9.])*/)) { n = RLENGTH; number(i, substr(rest, 1, n)); i += n }
        else if (match(rest, /^(->|\.\.\.|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|\+=|-=|\*=|\/=|%=|\|=|&=|\^=)/)) {
            n = RLENGTH; operator(i, substr(rest, 1, n)); i += n
        } else {
            c = substr(rest, 1, 1)
            if (c == "!") place(i, "!", "")
            else operator(i, c)
            i++
        }
    }
}
END {
    if (most > places) most = places
    for (k = 0; k < most; k++) {
        p = k + rnd(places - k)
        t = at[p]; at[p] = at[k]; at[k] = t
        t = other[p]; other[p] = other[k]; other[k] = t
        n = split(other[k], word, " ")
        print at[k] "\t" (n ? word[1 + rnd(n)] : "")
    }
    print places " places" >"/dev/stderr"
}
