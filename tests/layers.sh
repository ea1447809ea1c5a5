#!/usr/bin/env bash
# Direction of dependencies: cli -> sim, exec -> core; inside core base, sync, hspmd, graph, cost, plan, run,
# each only on those before it; io may use all, none use io. MPI only in exec, CBLAS only in exec/host, LAPACK nowhere,
# CUDA, cuBLAS and NCCL only in exec/cuda, none of them in the command. From includes and from symbols.
set -u
order=(base sync hspmd graph cost plan run io)
bad=0
sources() { git ls-files "$@" | grep -E '\.(c|h|cpp|cu|cuh|inc)$'; }
objects() { git ls-files "$1" | sed -nE "s#(.*)\.c\$#$B/\1.o#p"; [ "$1" != core/io ] || echo "$B/core/io/builtin_files.o"; }
fail() { echo "layers: $*"; bad=1; }
below=()
for f in "${order[@]}"; do
    below+=("$f")
    [ "$f" = io ] && below=("${order[@]}")
    allowed=$(IFS='|'; echo "${below[*]}")
    hits=$(grep -nE '#include "core/' $(sources core/$f) | grep -vE "#include \"core/($allowed)/")
    [ -z "$hits" ] || fail "core/$f includes what is above it:"$'\n'"$hits"
done
hits=$(grep -nE '#include ("(sim|exec|cli|tests)/|<(simgrid|xbt|mpi|cuda|nccl|cblas))' $(sources core))
[ -z "$hits" ] || fail "core knows a backend:"$'\n'"$hits"
hits=$(grep -nE '#include <(yaml|jansson|csv|zlib)' $(sources core sim | grep -v '^core/io/'))
[ -z "$hits" ] || fail "a file library outside core/io:"$'\n'"$hits"
hits=$(grep -nE '#include [<"]glpk' $(sources core sim cli exec | grep -v '^core/plan/lp\.c$'))
[ -z "$hits" ] || fail "GLPK outside core/plan/lp.c:"$'\n'"$hits"
hits=$(grep -nE '#include "(cli|exec)/' $(sources sim))
[ -z "$hits" ] || fail "sim knows what is above it:"$'\n'"$hits"
exec=$(sources exec)
shared=$(sources exec | grep -vE '^exec/(host|cuda|bundle)/|^exec/main')
hits=$(grep -nE '#include ("(sim|cli|tests)/|<(simgrid|xbt))' $exec)
[ -z "$hits" ] || fail "exec knows more than core:"$'\n'"$hits"
hits=$(grep -nE '#include [<"](mpi|cblas|openblas[a-z_]*)\.h' $(sources sim cli))
[ -z "$hits" ] || fail "MPI or CBLAS outside exec:"$'\n'"$hits"
hits=$(grep -nE '#include [<"](cblas|openblas[a-z_]*)\.h' $shared)
[ -z "$hits" ] || fail "CBLAS outside exec/host:"$'\n'"$hits"
gpu='(cuda|nccl|cublas|driver_types|vector_types)[a-zA-Z0-9_]*\.h'
hits=$(grep -nE "#include [<\"]$gpu" $(sources core sim cli exec/host) $shared)
[ -z "$hits" ] || fail "CUDA, cuBLAS or NCCL outside exec/cuda:"$'\n'"$hits"
hits=$(grep -nE '#include "exec/cuda/' $(sources core sim cli exec/host) $shared)
[ -z "$hits" ] || fail "exec/cuda is for its ranks alone:"$'\n'"$hits"
hits=$(grep -nE '#include ("exec/host/|<(cblas|openblas))' $(sources exec/cuda))
[ -z "$hits" ] || fail "exec/cuda leans on exec/host:"$'\n'"$hits"
hits=$(grep -nE '\b[sdcz](sy|ge|po|he|st)[a-z0-9]{2,6}_\(' $(sources core sim cli exec))
[ -z "$hits" ] || fail "LAPACK (core/sync/eigen.h is there):"$'\n'"$hits"
hits=$(readelf -d $B/luoshu | grep -E 'NEEDED.*lib(mpi|openblas|cuda|cublas|nccl|simgrid|stdc)')
[ -z "$hits" ] || fail "the command links what only ranks, or luoshu-sim.so, need:"$'\n'"$hits"
# sim/shim.cpp's goes before SimGrid's own only where the loader sees it.
[ ! -e $B/luoshu-sim.so ] || nm -D --defined-only $B/luoshu-sim.so | grep -q CommImpl6detach || fail "luoshu-sim.so hides CommImpl::detach (sim/shim.cpp)."
# Symbols: what a folder's objects need must be defined in a folder before it.
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
: >"$tmp/have"
for f in "${order[@]}"; do
    nm --defined-only $(objects core/$f) | awk 'NF==3{print $3}' >>"$tmp/have"
    sort -u -o "$tmp/have" "$tmp/have"
    nm -u $(objects core/$f) | awk '$1=="U" && $2 ~ /^luo_/{print $2}' | sort -u >"$tmp/need"
    hits=$(comm -23 "$tmp/need" "$tmp/have" | tr '\n' ' ')
    [ -z "$hits" ] || fail "core/$f needs symbols of folders above it: $hits"
done
nm --defined-only $B/libluoexec.a 2>/dev/null | awk 'NF==3{print $3}' | sort -u - "$tmp/have" >"$tmp/have_exec"
nm -u $B/libluoexec.a 2>/dev/null | awk '$1=="U" && $2 ~ /^luo_/{print $2}' | sort -u >"$tmp/need"
hits=$(comm -23 "$tmp/need" "$tmp/have_exec" | tr '\n' ' ')
[ -z "$hits" ] || fail "exec needs symbols of cli or sim: $hits"
nm --defined-only $B/libluosim.a 2>/dev/null | awk 'NF==3{print $3}' | sort -u - "$tmp/have" >"$tmp/have_sim"
nm -u $B/libluosim.a 2>/dev/null | awk '$1=="U" && $2 ~ /^luo_/{print $2}' | sort -u >"$tmp/need"
hits=$(comm -23 "$tmp/need" "$tmp/have_sim" | tr '\n' ' ')
[ -z "$hits" ] || fail "sim needs symbols of cli or exec: $hits"
echo 'int main(void){return 0;}' >"$tmp/m.c"
$CC "$tmp/m.c" -Wl,--whole-archive $B/libluocore.a -Wl,--no-whole-archive $1 -lm -o "$tmp/m" \
    2>"$tmp/log" || fail "core does not link on its own: $(head -n 3 "$tmp/log")"
# Folders that one can take in: few files, and a page that says what comes in and what goes out.
for d in $(git ls-files core cli sim exec | sed 's#/[^/]*$##' | sort -u); do
    n=$(git ls-files "$d" | sed "s#^$d/##" | grep -vc /)
    [ "$n" -le 30 ] || fail "$d holds $n files; at most 30."
    [ -f "$d/README.md" ] || fail "$d has no README.md."
done
[ $bad = 0 ] && echo "layers: in order"
exit $bad
