# tests/gpu/common.sh: what check.sh, bench.sh and visit.sh share; sourced. Sets `build` (programs), `out`
# (folder of results), `label`. From the Makefile: B, LUOSHU, NO_CUDA, MAKE. OUT: another folder of results.
#
# LUO_GPU_PROGRAMS=FOLDER: programs for a GPU that were built elsewhere (`make bundle`); nothing is built.
# LUO_GPU_BUILD=FOLDER runs the programs of that folder instead and looks for no GPU: so these scripts
# are tested on the stand-in for CUDA (tests/standin). Then LUO_GPU_OUT says where results go; they are
# labelled, and never go to tests/gpu/results, which has results of GPUs alone.
export LC_ALL=C
results=tests/gpu/results

missing() { # SENTENCE: what is missing; nothing is written
    echo "$what: not run: $1"
    exit 4
}

# Programs and results, or a sentence and exit 4.
gpu_ready() { # WHAT (the make target)
    what=$1
    if [ -n "${LUO_GPU_BUILD:-}" ]; then
        build=$LUO_GPU_BUILD
        label="ON THE STAND-IN FOR CUDA: no GPU was used, and no time here means anything"
        [ -n "${LUO_GPU_OUT:-}" ] || missing "LUO_GPU_BUILD needs LUO_GPU_OUT, a folder for results."
        case $(realpath -m "$LUO_GPU_OUT")/ in
        "$(realpath -m $results)"/*) missing "results of the stand-in do not belong in $results." ;;
        esac
        mkdir -p "$LUO_GPU_OUT" || exit 4
        out=$LUO_GPU_OUT
        return
    fi
    [ -z "${NO_CUDA:-}" ] || missing "this build has no cuda backend ($NO_CUDA); nvcc, cuBLASLt and NCCL are needed."
    nvidia-smi -L >/dev/null 2>&1 || missing "no GPU is there (\`nvidia-smi -L\` fails); one and its driver are needed."
    build=${LUO_GPU_PROGRAMS:-${B:-build/release}/gpu}
    [ -n "${LUO_GPU_PROGRAMS:-}" ] || "${MAKE:-make}" --no-print-directory -j"$(nproc)" gpu-programs ||
        { echo "$what: it does not build."; exit 1; }
    : "${LUOSHU:=$PWD/luoshu}"; export LUOSHU
    label=
    local device
    device=$("$build/tests/gpu/facts" | sed -n 's/^device //p') || exit 1
    [ -n "$device" ] || missing "the GPU cannot be used: $("$build/tests/gpu/facts" 2>&1 | tail -n 1)"
    out=${OUT:-$results/$(tr 'A-Z ' 'a-z-' <<<"$device" | tr -cd 'a-z0-9.-')-$(date -u +%F)}
    mkdir -p "$out" || exit 4
}

# Device, versions, date, commit.
facts() {
    [ -z "$label" ] || echo "$label"
    "$build/tests/gpu/facts" || return 1
    if [ -z "$label" ]; then
        echo "driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)"
        echo "gpus $(nvidia-smi -L | wc -l)"
        echo "nvcc $("${NVCC:-nvcc}" --version 2>/dev/null | sed -n 's/.*release [^,]*, V//p')"
    fi
    echo "date $(date -u +%FT%TZ)"
    # A bundle says itself what it was made of, wherever it lies.
    [ -z "${LUO_BUNDLE:-}" ] || { echo "commit $(cat "$LUO_BUNDLE/commit")"; return; }
    echo "commit $(git rev-parse HEAD 2>/dev/null || echo unknown)$([ -z "$(git status --porcelain 2>/dev/null)" ] || echo ' with changes')"
}

programs() { # PATTERN..: those of the build that are there
    local p
    for p in "$@"; do
        for p in $build/$p; do
            case $p in *.o | *.d) ;; *) [ -x "$p" ] && [ -f "$p" ] && echo "$p" ;; esac
        done
    done
}

sanitizer() { # prints the path of compute-sanitizer
    local s
    for s in "${COMPUTE_SANITIZER:-}" "$(command -v compute-sanitizer)" "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer"; do
        [ -n "$s" ] && [ -x "$s" ] && { echo "$s"; return; }
    done
    return 1
}
