#!/usr/bin/env bash
# A folder that runs wherever it is put (ARCHITECTURE.md, "The bundle"), from what is built.
# usage: exec/bundle/make.sh FOLDER BUILD RANK_CUDA PROGRAMS
#   BUILD      has luoshu, luoshu-rank and bundle/ (target bundle-parts)
#   RANK_CUDA  the rank program of the cuda backend
#   PROGRAMS   has tests and benches for a GPU in cuda/, cuda/mpi/ and gpu/
set -euo pipefail
folder=$1 build=$2 rank_cuda=$3 programs=$4
fail() { echo "bundle: $*" >&2; exit 1; }
new=$folder.new
rm -rf "$new"
mkdir -p "$new"/{bin,lib/openmpi,lib/pmix,lib/absent,share/openmpi,share/pmix,exec,gpu/tests}

# ---- what is built ----
cp "$build/luoshu" "$build/luoshu-sim.so" "$build/luoshu-rank" "$new/bin"
cp "$rank_cuda" "$new/bin/luoshu-rank-cuda"
cp "$build/bundle/libnccl.so.2" "$new/lib/absent"
(cd "$programs" && find $(ls -d cuda gpu 2>/dev/null) -type f -perm -u+x ! -name '*.[do]') | while read -r p; do
    mkdir -p "$new/gpu/tests/${p%/*}"
    cp "$programs/$p" "$new/gpu/tests/$p"
done
cp -r scenarios "$new"
# Where the scripts look for each other and for what they read.
mkdir -p "$new/tests/gpu"
cp tests/gpu/*.sh tests/gpu/torch_bench.py "$new/tests/gpu"
cp tests/run.sh tests/runs.sh tests/cuda.sh tests/lsan.supp "$new/tests"
cp exec/recipe.h "$new/exec"
cp exec/bundle/env.sh LICENSE "$new"
git describe --always --dirty >"$new/commit" 2>/dev/null || echo unknown >"$new/commit"

# ---- Open MPI: what ranks of one host need ----
mpi_libdir=$(ompi_info --path pkglibdir --parsable | cut -d: -f3)
mpi_data=$(ompi_info --path pkgdatadir --parsable | cut -d: -f3)
pmix_libdir=$(ls -d "$(dirname "$(readlink -f "$(ldd "$mpi_libdir/mca_pmix_ext3x.so" | awk '$1 ~ /^libpmix/ {print $3}')")")"/pmix)
plugins=(allocator_basic allocator_bucket bml_r2 btl_self btl_vader coll_basic coll_inter coll_libnbc coll_self coll_sm
    coll_tuned errmgr_default_app errmgr_default_hnp ess_env ess_hnp ess_pmi ess_singleton filem_raw grpcomm_direct iof_hnp
    mpool_hugepage odls_default oob_tcp op_avx osc_rdma osc_sm patcher_overwrite plm_isolated pmix_ext3x pmix_isolated
    pml_ob1 pstat_linux rcache_grdma reachable_weighted regx_fwd regx_naive rmaps_ppr rmaps_round_robin rml_oob
    routed_direct routed_radix rtc_hwloc schizo_ompi schizo_orte shmem_mmap shmem_posix state_app state_hnp state_novm
    topo_basic)
for p in "${plugins[@]}"; do cp "$mpi_libdir/mca_$p.so" "$new/lib/openmpi"; done
cp "$(readlink -f "$(command -v mpirun)")" "$new/bin/mpirun"
cp "$mpi_data"/help-*.txt "$new/share/openmpi"
cp "$pmix_libdir"/*.so "$new/lib/pmix"
cp "$pmix_libdir"/../../share/pmix/help-*.txt "$new/share/pmix"

# ---- the libraries that these need, and those need ----
# The loader and libc belong to the machine, as the driver does. cuBLASLt has 500 MB and NCCL 200: env.sh looks for them there.
theirs='^(ld-linux-.*|lib(c|m|pthread|dl|rt|util|resolv)|libcuda|libcublasLt|libnccl)\.so'
mapfile -t objects < <(find "$new" -type f \( -path '*/bin/*' -o -path '*/gpu/tests/*' -o -name '*.so*' \))
LD_LIBRARY_PATH=$(dirname "$mpi_libdir") ldd "${objects[@]}" 2>/dev/null | awk '$2 == "=>"' | sort -u >"$new/needed"
lost=$(awk -v theirs="$theirs" '$1 !~ theirs && $3 == "not" {print $1}' "$new/needed")
[ -z "$lost" ] || fail "not found here: $(tr '\n' ' ' <<<"$lost")"
awk -v theirs="$theirs" '$1 !~ theirs {print $1, $3}' "$new/needed" | sort -u | while read -r name path; do
    cp -L "$path" "$new/lib/$name"
done
rm "$new/needed"
cp "$build/bundle/libluoplaces.so" "$new/lib"

# ---- where they look for them ----
# DT_RPATH, not DT_RUNPATH: it holds for libraries of libraries, too, and goes before LD_LIBRARY_PATH, where another Open MPI
# may lie. NCCL and cuBLASLt, which are not here, are found by LD_LIBRARY_PATH all the same.
chmod -R u+w "$new"
mapfile -t objects < <(find "$new" -type f \( -path '*/bin/*' -o -path '*/gpu/tests/*' -o -name '*.so*' \))
for f in "${objects[@]}"; do
    strip -s "$f"
    up=$(realpath --relative-to="$(dirname "$f")" "$new/lib")
    patchelf --force-rpath --set-rpath "\$ORIGIN/$up" "$f"
done
patchelf --add-needed libluoplaces.so "$new"/lib/libopen-pal.so.*

# What is called of NCCL and not in the library that stands for its absence would end a program in the middle.
called() { nm -D --undefined-only "${objects[@]}" 2>/dev/null | awk '$2 ~ /^p?nccl[A-Z]/ {print $2}' | sort -u; }
lost=$(comm -23 <(called) <(nm -D --defined-only "$new/lib/absent/libnccl.so.2" | awk '{print $3}' | sort -u))
[ -z "$lost" ] || fail "exec/bundle/nccl_absent.c lacks $(tr '\n' ' ' <<<"$lost")"
rm -rf "$folder"
mv "$new" "$folder"
