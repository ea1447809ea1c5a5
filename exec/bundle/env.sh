# env.sh of a bundle, sourced by bash on the machine that it was carried to: finds what the machine has
# of CUDA and NCCL, says so, and makes `luoshu` and the scripts of tests/gpu work. Returns 1 if cuBLASLt
# is missing, without which the cuda backend cannot start; all else works then. LUO_PYTHON: a Python (python3).
#
# Looked at in this order: what the loader finds by itself (its cache, LD_LIBRARY_PATH as it is),
# CUDA_HOME, /usr/local/cuda*, Python packages (nvidia/*/lib).

luo_found_in() { # LIBRARY FOLDER..: the first that has it
    local name=$1 d
    shift
    for d in "$@"; do [ -e "$d/$name" ] && echo "$d" && return; done
    return 1
}

luo_folders() { # where CUDA and NCCL may lie, one a line
    local d p
    for d in ${CUDA_HOME:+"$CUDA_HOME/lib64"} /usr/local/cuda/lib64 /usr/local/cuda*/lib64; do
        [ -d "$d" ] && echo "$d"
    done
    "${LUO_PYTHON:-python3}" -c 'import sys; print("\n".join(p for p in sys.path if p))' 2>/dev/null |
        while read -r p; do
            for d in "$p"/nvidia/*/lib; do [ -d "$d" ] && echo "$d"; done
        done
}

luo_environment() { # BUNDLE
    local here=$1 name at path=() kept=() folders lost=0
    # What an earlier call added goes, or NCCL's stand-in would be found as if it were one.
    IFS=: read -ra path <<<"${LD_LIBRARY_PATH:-}"
    for at in "${path[@]}"; do
        case $at in "" | "$here"/*) ;; *) kept+=("$at") ;; esac
    done
    join() { local IFS=:; echo "$*"; }
    mapfile -t folders < <(luo_folders | awk '!had[$0]++')
    unset LUO_NCCL_LOOKED
    LD_TRACE_LOADED_OBJECTS=1 "$here/bin/luoshu-rank-cuda" >/dev/null || {
        echo "luoshu: $here/bin/luoshu-rank-cuda does not start here; the bundle has to be whole, and the machine like the one of the build." >&2
        return 1
    }
    export LUO_BUNDLE=$here PATH=$here/bin:${PATH//"$here/bin:"/}
    while read -r name at; do
        if [ "$at" != "" ]; then
            echo "luoshu: $name is $at"
        elif at=$(luo_found_in "$name" "${folders[@]}"); then
            case :$(join "${kept[@]}"): in *:"$at":*) ;; *) kept+=("$at") ;; esac
            echo "luoshu: $name is $at/$name"
        elif [ "$name" = libnccl.so.2 ]; then
            export LUO_NCCL_LOOKED="the loader's folders${folders[*]:+, $(join "${folders[@]}")}"
            kept+=("$here/lib/absent")
            echo "luoshu: NCCL is missing: $name was looked for in $LUO_NCCL_LOOKED; one rank runs without it."
        else
            lost=1
            echo "luoshu: $name is missing: looked for in the loader's folders${folders[*]:+, $(join "${folders[@]}")}; --backend cuda needs it." >&2
        fi
    done < <(LD_LIBRARY_PATH=$(join "${kept[@]}") LD_TRACE_LOADED_OBJECTS=1 "$here/bin/luoshu-rank-cuda" |
        awk '/libnccl|libcublasLt/ {print $1, $3 == "not" ? "" : $3}')
    unset -f join
    LD_LIBRARY_PATH=$(IFS=:; echo "${kept[*]}")
    if [ -n "$LD_LIBRARY_PATH" ]; then export LD_LIBRARY_PATH; else unset LD_LIBRARY_PATH; fi
    export LUOSHU=$here/bin/luoshu LUO_GPU_PROGRAMS=$here/gpu
    return $lost
}

luo_environment "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
luo_status=$?
unset -f luo_found_in luo_folders luo_environment
return $luo_status
