#!/usr/bin/env bash
# The 14 published plans (docs/results-published.md#the-14-published-plans): accepted, within memory, and simulated. Prints one row each:
# plan, cluster, simulated seconds of a step, published seconds (empty: not printed by the paper),
# largest share of device memory. usage: tests/published.sh [markdown]
set -u
L=${LUOSHU:-./luoshu}; S=${TOP:-.}/scenarios
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
# docs/results-published.md: 6.05 (plan 1) and 6.91 (plan 11, C4) are the paper's, 17.27 (plan 13, C2) is reported.
declare -A said=([1]=6.05 [11]=6.91 [13]="17.27 (reported)")
[ "${1:-}" != markdown ] || printf '| plan | cluster | simulated step, s | published, s | memory of the fullest device |\n|---|---|---|---|---|\n'
for n in $(seq 1 14); do
    f=$S/plans/published/plan-$(printf %02d "$n").json
    cluster=$(sed -n 's/.*"cluster": "\([^"]*\)".*/\1/p' "$f" | head -n 1)
    model=$(sed -n 's/.*"model": "\([^"]*\)".*/\1/p' "$f" | head -n 1)
    with=(--model "$S/models/$model.yaml" --cluster "$S/clusters/$cluster.yaml")
    "$L" explain "$f" "${with[@]}" >"$tmp/e" 2>"$tmp/err" || { echo "plan $n: explain: $(cat "$tmp/err")"; continue; }
    "$L" sim "$f" "${with[@]}" --out "$tmp/o" --force --plots off --trace-steps none --quiet \
        >/dev/null 2>"$tmp/err" || { echo "plan $n: sim: $(cat "$tmp/err")"; continue; }
    step=$(awk -F, 'NR==1{for(i=1;i<=NF;i++) if($i=="step_s") c=i; next} {s=$c} END{printf "%.3f", s}' "$tmp/o/plan/steps.csv")
    mem=$(awk -F, 'NR==1{for(i=1;i<=NF;i++){if($i=="peak_bytes")p=i; if($i=="capacity_bytes")c=i; if($i=="reserved_bytes")r=i}; next}
        {x=100*($p+$r)/$c; if(x>m)m=x} END{printf "%.0f %%", m}' "$tmp/o/plan/memory.csv")
    if [ "${1:-}" = markdown ]; then echo "| $n | $cluster | $step | ${said[$n]:-} | $mem |"
    else echo "$n $cluster $step ${said[$n]:--} $mem"; fi
done
