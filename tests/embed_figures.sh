#!/usr/bin/env bash
# Runs of `luoshu embed` beside each other, and the figures het_cache, het_bound and het_theta. Synthetic: keys
# are drawn by Zipf's law.
# usage: tests/embed_figures.sh [OUT] (luoshu-embed)
#   OUT/embed_sweep.csv  a row a run; OUT/plots/  the figures
# ITERATIONS, VOCAB and BATCH make it shorter (100, 100000, 128). Two minutes on a core.
set -u
export LC_ALL=C
L=${LUOSHU:-$PWD/luoshu} out=${1:-luoshu-embed}
iterations=${ITERATIONS:-100} vocab=${VOCAB:-100000} batch=${BATCH:-128}
workers=8
mkdir -p "$out" || exit 4
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT

of_run() { sed -nE "s/^ *\"$1\": ([0-9.-]+),?\$/\1/p" "$tmp/run/summary.json"; }
moved() { # bytes of an iteration of a worker
    awk "BEGIN {printf \"%.0f\", ($(of_run push) + $(of_run pull) + $(of_run meta)) / $iterations / $workers}"
}
row() { # FIGURE SETTING X THETA options..
    local figure=$1 setting=$2 x=$3 theta=$4 saved
    shift 4
    "$L" "$@" --keys "zipf:theta=$theta,vocab=$vocab,batch=$batch,slots=26" --width 128 --workers $workers \
        --servers 2 --iterations "$iterations" --out "$tmp/run" --force --quiet >"$tmp/said" 2>&1 ||
        { echo "embed_figures: FAILED: $*" >&2; cat "$tmp/said" >&2; exit 4; }
    echo "$figure,$setting,$x,$(moved),$(of_run saved_ratio),$(of_run hit_rate)"
}
rows() { awk "BEGIN {printf \"%d\", $1 * $vocab}"; } # a share of the keys
{
    echo figure,setting,x,bytes_per_iteration,saved_ratio,hit_rate
    plain=$(row het_cache none 0 1.05 embed ps | cut -d, -f4-) # whatever the cache
    for x in 0.01 0.02 0.05 0.1 0.2 0.5 1; do
        echo "het_cache,none,$x,$plain"
        for p in lru lfu lfuopt; do
            row het_cache $p $x 1.05 embed het --cache-rows "$(rows $x)" --policy $p
        done
    done
    for x in 1 3 10 30 100 300 1000; do
        echo "het_bound,none,$x,$plain"
        for c in 0.1 1; do
            row het_bound "lfu $c" $x 1.05 embed het --cache-rows "$(rows $c)" --policy lfu \
                --pull-bound $x --push-bound $x
        done
    done
    for x in 0.6 0.8 0.9 1 1.05 1.1 1.2 1.4; do
        row het_theta none $x $x embed ps
        for p in lru lfu lfuopt; do
            row het_theta $p $x $x embed het --cache-rows "$(rows 0.1)" --policy $p
        done
    done
} >"$out/embed_sweep.csv"
"$L" plot "$out"
