#!/usr/bin/env bash
# Runs of `luoshu sync` beside each other, and the figures that need several: sync_rate, pr_wait, pr_speedup,
# pr_isolation. Synthetic: compute times and stragglers are what the lines below say.
# usage: tests/sync_figures.sh [OUT] (luoshu-sync)
#   OUT/sync_sweep.csv  a row a run; OUT/isolation.csv  groups of two runs; OUT/plots/  the figures
#   OUT/ssp, OUT/preduce, OUT/servers  a run each, and in plots/ its figures: sync_timeline, sync_gap, pr_sizes, sync_servers
# A minute on two cores.
set -u
export LC_ALL=C
L=${LUOSHU:-$PWD/luoshu} out=${1:-luoshu-sync}
mkdir -p "$out" || exit 4
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT

simulate() { # options..: into $tmp/run
    "$L" "$@" --out "$tmp/run" --force --quiet >"$tmp/said" 2>&1 ||
        { echo "sync_figures: FAILED: $*" >&2; cat "$tmp/said" >&2; exit 4; }
}
of_run() { sed -nE "s/^  \"$1\": ([0-9.]+),?\$/\1/p" "$tmp/run/summary.json"; }
row() { # FIGURE SETTING X options..: a row of the sweep; those of allreduce come first at each X
    local figure=$1 setting=$2 x=$3 rate
    shift 3
    simulate "$@"
    rate=$(of_run updates_per_s)
    [ "$setting" != allreduce ] || base=$rate
    echo "$figure,$setting,$x,$rate,$(of_run lambda2),$(awk "BEGIN {printf \"%.6f\", $rate / $base}")"
}

eight="--workers 8 --compute-s 1 --sync-s 0.1 --horizon-s 1000"
{
    echo figure,setting,x,updates_per_s,lambda2,speedup
    # One of eight workers is slower by a factor.
    for x in 1 1.25 1.5 2 3 4 6 8; do
        slow="--straggler factor:7=$x"
        row sync_rate allreduce $x sync allreduce $eight $slow
        row sync_rate bsp $x sync bsp $eight $slow
        for s in 1 3 10; do row sync_rate "ssp $s" $x sync ssp --staleness $s $eight $slow; done
        row sync_rate preduce $x sync preduce --groups wait_s=0.2 $eight $slow
        row sync_rate adpsgd $x sync adpsgd $eight $slow
        row sync_rate asp $x sync asp $eight $slow
    done
    # Each of eight workers sleeps for 0.5 s in one iteration of ten.
    now_and_then="--straggler bern:p=0.1,sleep=0.5"
    simulate sync allreduce $eight $now_and_then; base=$(of_run updates_per_s)
    for x in 0.001 0.02 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.55 0.6; do
        row pr_wait preduce $x sync preduce --groups wait_s=$x $eight $now_and_then
    done
    # The same with another sleep.
    for x in 0 0.1 0.25 0.5 0.75 1 1.5 2; do
        sleep="--straggler bern:p=0.1,sleep=$x"
        row pr_speedup allreduce $x sync allreduce $eight $sleep
        for w in 0.05 0.2; do row pr_speedup "preduce $w" $x sync preduce --groups wait_s=$w $eight $sleep; done
        row pr_speedup "guard 0.05" $x sync preduce --groups wait_s=0.05,guard=10 $eight $sleep
        row pr_speedup adpsgd $x sync adpsgd $eight $sleep
        row pr_speedup "ssp 3" $x sync ssp --staleness 3 $eight $sleep
    done
} >"$out/sync_sweep.csv"

# Two pairs that never meet, unless a guard group joins them.
two="sync preduce --workers 4 --compute-s 1,1.03,5,5.02 --sync-s 0.1 --horizon-s 40"
groups() { tail -n +2 "$tmp/run/groups.csv" | cut -d, -f2- | sed "s/^/$1,/"; }
{
    echo setting,t_s,members,guard
    simulate $two --groups wait_s=0.2,max_group=2; groups "no guard (lambda2 $(printf %.3f "$(of_run lambda2)"))"
    simulate $two --groups wait_s=0.2,max_group=2,guard=2; groups "guard 2 (lambda2 $(printf %.3f "$(of_run lambda2)"))"
} >"$out/isolation.csv"
"$L" plot "$out"

one() { # NAME options..: a run of its own, and its figures
    local name=$1
    shift
    simulate "$@"
    rm -rf "${out:?}/$name"; mv "$tmp/run" "$out/$name"
    "$L" plot "$out/$name"
}
late="--compute-s 1,1,1,1,1,1,1,2 --horizon-s 100"
one ssp sync ssp --staleness 3 --workers 8 --sync-s 0.1 $late
one preduce sync preduce --groups wait_s=0.2,guard=3 --workers 8 --sync-s 0.1 $late
one servers sync ssp --staleness 3 --workers 8 $late --servers 6 --shard range --keys zipf:theta=1.2,vocab=1e5,batch=32,slots=26
