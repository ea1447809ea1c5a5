#!/usr/bin/env bash
# `make check-gpu`: everything that can only be shown on a GPU. Every program of tests/cuda with the
# real libraries (several ranks share the GPUs there are, each with an NCCL_HOSTID of its own), then
# compute-sanitizer's memcheck and racecheck over those of one rank. Writes check.txt and check.csv
# into tests/gpu/results/DEVICE-DATE; see common.sh. Without a GPU: a sentence and exit 4.
# LUO_SCALE multiplies the random cases.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/common.sh
gpu_ready check-gpu
bad=0
csv=$out/check.csv; text=$out/check.txt
echo "tool,program,checks,failures,s,status" >"$csv.tmp"
facts >"$text.tmp" || exit 1

say() { echo "$*"; echo "$*" >>"$text.tmp"; }

# Lines of tests/run.sh: "ok   NAME: 100%: Checks: 5, Failures: 0, Errors: 0, 1.2 s", "FAIL NAME (exit 1)".
rows() { # of plain runs, from its output
    awk -v OFS=, '
        $1 == "ok" {name = $2; sub(/:$/, "", name); n = f = s = 0
            for (i = 3; i <= NF; i++) {
                if ($i == "Checks:") n = $(i + 1) + 0
                if ($i == "Failures:" || $i == "Errors:") f += $(i + 1)
                if ($i == "s") s = $(i - 1) + 0
            }
            print "plain", name, n, f, s, "ok"}
        $1 == "FAIL" {print "plain", $2, "", "", "", "failed"}'
}

plain() {
    local list
    mapfile -t list < <(programs 'tests/cuda/*' 'tests/cuda/mpi/*')
    [ ${#list[@]} -gt 0 ] || { say "no test program was built"; bad=1; return; }
    B=$build LUO_JOBS=1 ./tests/run.sh "${list[@]}" | tee "$out/check.log"
    [ "${PIPESTATUS[0]}" = 0 ] || bad=1
    cat "$out/check.log" >>"$text.tmp"
    rows <"$out/check.log" >>"$csv.tmp"
    rm -f "$out/check.log"
}

# A few cases of each: these tools are slow. One process, so that they see what the tests do.
sanitize() { # TOOL CASES
    local s=$1 tool=$2 cases=$3 p name status began
    while read -r p; do
        name=cuda/${p##*/}
        began=$EPOCHREALTIME
        if CK_FORK=no CK_TIMEOUT_MULTIPLIER=20 LUO_CASES=$cases "$s" --tool "$tool" --error-exitcode 9 "$p" >"$out/$tool.log" 2>&1; then
            status=ok
        else
            status=failed; bad=1
            tail -n 25 "$out/$tool.log" | sed 's/^/     /' | tee -a "$text.tmp"
        fi
        say "$tool $name: $status"
        awk -v OFS=, -v t="$tool" -v n="$name" -v a="$began" -v b="$EPOCHREALTIME" -v st="$status" \
            'BEGIN {print t, n, "", "", sprintf("%.1f", b - a), st}' >>"$csv.tmp"
    done < <(programs 'tests/cuda/check_*' 'tests/cuda/prop_*')
    rm -f "$out/$tool.log"
}

plain
if [ -n "$label" ]; then
    say "memcheck and racecheck: not run on the stand-in"
elif s=$(sanitizer); then
    sanitize "$s" memcheck 10
    sanitize "$s" racecheck 5
else
    say "memcheck and racecheck: not run: compute-sanitizer is not found (COMPUTE_SANITIZER, PATH, CUDA_HOME)."
    echo "memcheck,,,,,missing" >>"$csv.tmp"
    bad=1
fi
mv "$csv.tmp" "$csv"
mv "$text.tmp" "$text"
echo "results in $out"
n=$(grep -c ',ok$' "$csv"); f=$(grep -cE ',(failed|missing)$' "$csv")
echo "$n passed, $f failed"
[ $bad = 0 ]
