#!/usr/bin/env bash
# How the GPU kernels reach memory, read from the PTX in the built objects: whole units move in one instruction,
# nothing goes through bytes or local memory, nothing is spilled. It needs nvcc and no GPU, and shows no speed.
set -u
export LC_ALL=C
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
n=0; bad=0
check() { # NAME CONDITION..: the condition is a command
    local name=$1; shift; n=$((n + 1))
    "$@" && return
    echo "FAIL $name"; cat "$tmp/log"; bad=$((bad + 1))
}

# What is expected of each kernel, and each is named once. Names are regular expressions without spaces. Kinds:
#   units  arrays go in whole units: `loads / stores`, each a list of
#          v4, v2   16 and 8 bytes at a time, at least once, and no other vectors
#          edge:N   units at the ends of a row go element by element, as does a GPU_ANY twin in the same kernel:
#                   at most N bytes for each that goes in vectors
#          B:N      beside them at most N single loads (stores) of B bits: ids, a row's sum, columns of a table
#   one    a thread has one element at a time, or there is one thread
#   any    GPU_ANY: element by element on purpose
#   tiles  bound by products: tiles go by cp.async; registers are full, and a spill is no fault
# All but tiles are held to: no local memory, no spills. All: no bytes, no access that asks what memory it is.
cat >"$tmp/table" <<'END'
norm<[01],.*>            units v4 / v4
norm_dx<[01],.*>         units v4 / v4
norm_dw<[01],.*>         units v4 / v4
bias<[01]>               units v4 / v4
rope<[01]>               units v4 32:8 64:1 / v4
latent<[01]>             units v4 32:8 64:1 / v4
latent_dx<[01]>          units v4 32:8 64:1 / v4
embedding<[01]>          units v4 32:1 / v4
embedding_dw<0,0>        units v4 32:24 / v4
embedding_dw<1,0>        units v4 v2 32:24 / v4
embedding_dw<1,1>        units v4 32:24 / v4
pointwise<[01],.*>       units v4 edge:1 / v4 edge:1
add<0,0,0>               units v4 edge:1 / v4 edge:1
add<0,0,1>               units v4 edge:1 / v2 edge:1
add<0,1,0>               units v4 v2 edge:1 / v4 edge:1
add<1,1,0>               units v2 edge:1 / v4 edge:1
add<1,1,1>               units v4 edge:1 / v4 edge:1
row_max<[01]>            units v4 edge:1 / 32:1
row_sum<0,0>             units v4 edge:1 32:1 / v4 edge:1 32:1
row_sum<1,0>             units v2 edge:1 32:1 / v4 edge:1 32:1
loss_dx<0,0>             units v4 edge:1 32:6 64:1 / v4 edge:1
loss_dx<0,1>             units v4 edge:1 32:6 64:1 / v2 edge:1
column_parts<[01]>       units v4 edge:1 / 32:8
squares_of_chunks<[01]>  units v4 edge:2 64:2 / 64:1
update<0>                units v4 edge:2 32:4 64:16 / v4 v2 edge:3 32:2
update<1>                units v4 v2 edge:2 32:4 64:16 / v4 v2 edge:3 32:2
sum_gradients<0>         units v4 edge:4 32:2 64:4 / v4 edge:4 32:2
sum_gradients<1>         units v4 v2 edge:4 32:2 64:4 / v4 v2 edge:4 32:2
round_weights            units v4 edge:2 32:1 64:2 / v2 edge:2
pack<[01]>               units v4 32:2 / v4
combine<[01]>            units v4 32:21 / v4
combine_dx<[01],false>   units v4 32:2 / v4
combine_dx<[01],true>    units v4 32:2 / v4 32:1
token_gate<[01]>         units v4 32:1 / v4
token_gate_dx<[01]>      units v4 32:1 / v4 32:1
copy_segments<unsignedint>    units v4 64:64 32:2 / v4 32:2
copy_segments<unsignedshort>  units v4 64:64 16:2 / v4 16:2
attention_rows<[01]>     units v4 32:2 / 32:2
attention_merge<[01]>    units v4 32:2 / v4 32:1
attention_join           units v4 / v4
(norm|norm_d[xw]|bias|rope|latent|latent_dx|pack|combine|combine_dx|token_gate|token_gate_dx|embedding|embedding_dw|pointwise|add|row_max|row_sum|loss_dx|column_parts|attention_rows|attention_merge)<2(,.*)?>  any
columns_finish           one
row_target               one
loss                     one
sum_of                   one
squares_of_all           one
move_bias                one
route                    one
route_(hash|dealt|dx)    one
count_choices            one
drop                     one
places                   one
balance_(parts|all)      one
stamp                    one
spin                     one
delay                    one
attention_(forward|keys|queries)<(64|128),(false|true),(false|true)>  tiles
attention_simple_(forward|keys|queries)<(float|__nv_bfloat16)>  tiles
END

ptx_of() { # OBJECT: its PTX, which is in the clear there (exec/cuda/cuda.mk)
    tr '\000' '\001' <"$1" | awk 'BEGIN {RS = "\001"} /\.version [0-9.]+\n\.target sm_/ {sub(/^.*\.version/, ".version"); print}'
}
# Lines `kernel access [count]` of PTX and of what ptxas -v says of it, kernels by their names in C++.
accesses_of() { # PTX: `load 32`, `store v4`, `load bytes`..
    awk '/^[ \t]*(\.[a-z]+ )*\.entry / {match($0, /\.entry [^ (]*/); k = substr($0, RSTART + 7, RLENGTH - 7); print k, "there"}
        match($0, /(^|[ \t;{])(ld|st)\.[a-z0-9.]+/) {
            op = substr($0, RSTART, RLENGTH); sub(/^[ \t;{]/, "", op)
            if (op ~ /\.(param|shared|const)/) next
            what = op ~ /^ld/ ? "load" : "store"
            if (op ~ /\.local/) print k, "local"
            else if (op !~ /\.global/) print k, "generic"
            else if (op ~ /[usb]8$/) print k, "bytes"
            else if (match(op, /\.v[24]\.[a-z]+[0-9]+/)) {
                v = substr(op, RSTART + 1, 2); bits = op; sub(/.*[a-z]/, "", bits); bits *= substr(v, 2)
                print k, what, bits == 128 ? "v4" : bits == 64 ? "v2" : bits
            } else {sub(/.*[a-z]/, "", op); print k, what, op}
        }' "$1" | names
}
# Options of ptxas: kernels to make machine code of. Products of tiles take most of its time, and what it says of
# them is not judged: make check-all alone (LUO_SCALE) makes theirs.
entries() { # PTX
    [ "${LUO_SCALE:-1}" = 1 ] || return 0
    awk 'match($0, /\.entry [^ (]*/) {k = substr($0, RSTART + 7, RLENGTH - 7)
        if (k !~ /attention_(simple_)?(forward|keys|queries)/) {printf "%s%s", n++ ? "," : "--entry ", k}}' "$1"
}
spills_of() { # FILE of what ptxas -v said
    awk '/Compiling entry function/ {split($0, part, "\047"); k = part[2]}
        / bytes stack frame/ {print k, "spilled", $1 + $5 + $9}' "$1" | names
}
names() { # the first word, which is mangled
    c++filt | sed -e 's/(anonymous namespace):://g; s/^void //' -e ':a; s/^\([^(]*\)([^()]*)/\1/; ta' |
        awk '{for (i = 1; i <= NF && $i !~ /^(there|load|store|local|generic|bytes|spilled)$/; i++) printf "%s", $i
              for (; i <= NF; i++) printf " %s", $i; print ""}'
}
# TABLE FACTS: one line for each fault.
judge() {
    awk 'function fault(k, s) {print k ": " s; }
        function held(k, what, list,   i, part, ask, cut, by, bits, wide, narrow, spare, m) { # what is expected: list
            m = split(list, part, " ")
            for (i = 1; i <= m; i++) {split(part[i], ask, ":"); cut[ask[1]] = ask[2] == "" ? 1 : ask[2]}
            for (bits in widths) {
                by = seen[k, what, bits]
                if (bits ~ /^v/) {
                    if (bits in cut && !by) fault(k, "no " what " of " 4 * substr(bits, 2) " bytes")
                    if (!(bits in cut) && by) fault(k, by " " what "s of " 4 * substr(bits, 2) " bytes, which are not expected")
                    wide += by * 4 * substr(bits, 2)
                } else {
                    spare = bits in cut ? cut[bits] : 0
                    if (by > spare) narrow += (by - spare) * bits / 8
                }
            }
            if (narrow > wide * cut["edge"])
                fault(k, narrow " bytes in single " what "s beside " wide + 0 " in vectors, at most " wide * cut["edge"] " expected")
        }
        NR == FNR {name[++rows] = "^" $1 "$"; kind[rows] = $2; $1 = $2 = ""; split($0, side, "/"); loads[rows] = side[1]; stores[rows] = side[2]; next}
        $2 == "there" {kernel[$1]}
        $2 == "spilled" {spilled[$1] += $3}
        $2 == "load" || $2 == "store" {seen[$1, $2, $3]++; widths[$3]}
        $2 ~ /^(local|generic|bytes)$/ {seen[$1, $2]++}
        END {
            widths["v4"]; widths["v2"]
            for (k in kernel) {
                row = 0
                for (i = 1; i <= rows; i++)
                    if (k ~ name[i]) {used[i] = 1; if (row) fault(k, "is in two rows"); row = i}
                if (!row) {fault(k, "is in no row"); continue}
                if (seen[k, "bytes"]) fault(k, seen[k, "bytes"] " accesses of single bytes")
                if (seen[k, "generic"]) fault(k, seen[k, "generic"] " accesses that do not know that memory is global")
                if (kind[row] != "tiles") {
                    if (seen[k, "local"]) fault(k, seen[k, "local"] " accesses of local memory")
                    if (spilled[k]) fault(k, spilled[k] " bytes of stack and spills")
                }
                if (kind[row] == "units") {held(k, "load", loads[row]); held(k, "store", stores[row])}
                else if (kind[row] !~ /^(one|any|tiles)$/) fault(k, "unknown kind " kind[row])
            }
            for (i = 1; i <= rows; i++) if (!used[i]) fault(substr(name[i], 2, length(name[i]) - 2), "no kernel has this name")
        }' "$1" "$2" | sort
}

# ---- the check itself: kernels made up to be wrong ----
cat >"$tmp/wrong.ptx" <<'END'
.visible .entry _Z5bytesv(
    .param .u64 _Z5bytesv_param_0
)
{
    ld.param.u64 %rd1, [_Z5bytesv_param_0];
    @%p1 ld.global.u8 %rs1, [%rd1];
    st.global.v4.b32 [%rd1], {%r1, %r1, %r1, %r1};
}
.visible .entry _Z5splitv()
{
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
    st.global.v4.b32 [%rd1], {%r1, %r1, %r1, %r1};
    st.global.u32 [%rd1+16], %r1;
    st.global.u32 [%rd1+20], %r2;
}
.visible .entry _Z4edgev()
{
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f1, [%rd1];
    { st.global.v4.b32 [%rd1], {%r1, %r2, %r3, %r4}; }
}
.visible .entry _Z5looksv()
{
    ld.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    st.local.u32 [%rd2], %r1;
}
.visible .entry _Z3newv()
{
    ret;
}
.visible .entry _Z4halfv()
{
    ld.global.v2.u32 {%r1, %r2}, [%rd1];
    st.global.v2.b32 [%rd1], {%r1, %r2};
}
END
cat >"$tmp/wrong.v" <<'END'
ptxas info    : Compiling entry function '_Z4edgev' for 'sm_90'
ptxas info    : Function properties for _Z4edgev
    8 bytes stack frame, 4 bytes spill stores, 2 bytes spill loads
END
cat >"$tmp/wrong.table" <<'END'
bytes  units / v4
split  units v4 / v4
edge   units v4 edge:1 / v4
looks  one
half   units v4 / v2
gone   one
END
cat >"$tmp/wrong.faults" <<'END'
bytes: 1 accesses of single bytes
edge: 14 bytes of stack and spills
gone: no kernel has this name
half: 1 loads of 8 bytes, which are not expected
half: no load of 16 bytes
looks: 1 accesses of local memory
looks: 1 accesses that do not know that memory is global
new: is in no row
split: 8 bytes in single stores beside 16 in vectors, at most 0 expected
END
{ accesses_of "$tmp/wrong.ptx"; spills_of "$tmp/wrong.v"; } >"$tmp/facts"
judge "$tmp/wrong.table" "$tmp/facts" >"$tmp/log"
check "wrong kernels are found, and nothing else" cmp -s "$tmp/log" "$tmp/wrong.faults"

# ---- the kernels as they are built ----
objects=("${CUDA_OBJECTS:-${B:-build/release}}"/exec/cuda/*/*.cu.o)
ptxas=$(dirname "${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}")/ptxas
why=${NO_CUDA:-}
[ -n "$why" ] || [ -e "${objects[0]}" ] || why="no objects of exec/cuda"
[ -n "$why" ] || [ -x "$ptxas" ] || ptxas=$(command -v ptxas) || why="no ptxas beside nvcc"
if [ -z "$why" ]; then
    for o in "${objects[@]}"; do
        p=$tmp/$(basename "$o" .cu.o)
        ptx_of "$o" >"$p.ptx"
        "$ptxas" -arch="$(awk '$1 == ".target" {sub(/,.*/, "", $2); print $2; exit}' "$p.ptx")" -v $(entries "$p.ptx") -o "$tmp/code" "$p.ptx" >"$p.v" 2>&1 ||
            { echo "$o: PTX that ptxas takes is not in it"; tail -n 2 "$p.v"; } >>"$tmp/unread"
        { accesses_of "$p.ptx"; spills_of "$p.v"; } >>"$tmp/built"
    done
    touch "$tmp/unread"; cp "$tmp/unread" "$tmp/log"
    check "PTX is in every object" [ ! -s "$tmp/unread" ]
    judge "$tmp/table" "$tmp/built" >"$tmp/log"
    check "every kernel reaches memory as the table says" [ ! -s "$tmp/log" ]
fi

echo "$(((n - bad) * 100 / n))%: Checks: $n, Failures: $bad, Errors: 0${why:+ (kernels not looked at: $why)}"
[ $bad = 0 ]
