#!/usr/bin/env bash
# Published evaluations, replayed: every scenario of scenarios/papers and scenarios/combined, the settings of
# embedding tables (scenarios/papers/*.opts: options of `luoshu embed`), and ours beside what was published. usage: tests/papers.sh [OUT] (luoshu-papers)
#   OUT/NAME/       result set of each scenario; one newer than its file and than luoshu is kept
#   OUT/papers.csv  ours, published, provenance (scenarios/papers/published.csv); papers.md: as a table
#   OUT/cases.md    the ten cases of mixed clusters: their baseline and our best uniform plan
#   OUT/settings.csv, settings.md   step with stragglers over step without, by policy
#   OUT/lengths.csv, lengths.md   mean step of the policies for uneven lengths (synthetic lengths)
#   OUT/month/      SEEDS (8) months of 1,024 GPUs: seeds.csv, plots/goodput.svg
#   OUT/plots/      predicted: published and ours; settings: the table of settings
#   OUT/spot-gcp/   with DATA=DIR: DIR/bamboo_gcp_spot_counts.csv (time_s, instances; not shipped), replayed
# ONLY=hydraulis: of the scenarios those whose names begin so; rows of the others stay as they are in OUT, or empty.
# Half an hour on two cores, most of it for the months. Nothing is tuned to what is published.
set -u
export LC_ALL=C
L=${LUOSHU:-$PWD/luoshu} S=$PWD/scenarios P=$PWD/scenarios/papers began=$SECONDS
mkdir -p "${1:-luoshu-papers}/plots" || exit 4
out=$(cd "${1:-luoshu-papers}" && pwd)
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
runs=0 total=$(($(ls "$P"/*.yaml "$S"/combined/*.yaml | wc -l) - 1 + ${SEEDS:=8} + 1 + 5)) bad=0

simulate() { # NAME FILE options..: into OUT/NAME, unless that is there
    local dir=$out/$1 file=$2 rc what="done"
    case $1 in "${ONLY:-}"*) ;; *) return ;; esac
    shift 2
    runs=$((runs + 1))
    if [ "$dir/compare.csv" -nt "$file" ] && [ "$dir/compare.csv" -nt "$L" ]; then what="is there"
    else
        "$L" sim "$file" "$@" --out "$dir" --force --trace-steps none --quiet >"$tmp/said" 2>"$tmp/err"; rc=$?
        [ $rc -le 1 ] && [ -f "$dir/compare.csv" ] || { what="FAILED: $(grep error "$tmp/err" | head -n 1)"; bad=$((bad + 1)); }
    fi
    printf '[%2d/%d %4d s] %s %s\n' $runs "$total" $((SECONDS - began)) "${dir#"$out/"}" "$what" >&2
}

embed() { # NAME WAY SETTING options..: `embed WAY` with scenarios/papers/SETTING.opts, into OUT/NAME, unless that is there
    local dir=$out/$1 way=$2 file=$P/$3.opts what="done"
    case $1 in "${ONLY:-}"*) ;; *) return ;; esac
    shift 3
    runs=$((runs + 1))
    if [ "$dir/summary.json" -nt "$file" ] && [ "$dir/summary.json" -nt "$L" ]; then what="is there"
    else
        # shellcheck disable=SC2046 # a file of options is words
        "$L" embed "$way" $(sed '/^#/d' "$file") "$@" --out "$dir" --force --quiet >"$tmp/said" 2>"$tmp/err" ||
            { what="FAILED: $(grep error "$tmp/err" | head -n 1)"; bad=$((bad + 1)); }
    fi
    printf '[%2d/%d %4d s] %s %s\n' $runs "$total" $((SECONDS - began)) "${dir#"$out/"}" "$what" >&2
}

# ---- reading results; a value that does not exist is empty ----
cells='{while (match($0, /"[^"]*"/)) {q = substr($0, RSTART + 1, RLENGTH - 2); gsub(",", ";", q)
            $0 = substr($0, 1, RSTART - 1) q substr($0, RSTART + RLENGTH)}
        n = split($0, c, ",")}'
pick() { # FILE COLUMN CONDITION: of the last row whose cells v["NAME"] meet it
    [ -f "$1" ] && awk -v want="$2" "/^#/ {next} $cells"'
        !head {head = 1; m = n; for (i = 1; i <= n; i++) name[i] = c[i]; next}
        {for (i = 1; i <= m; i++) v[name[i]] = c[i]} '"$3"' {x = v[want]} END {print x}' "$1"
}
step_at() { pick "$out/$1/$2/steps.csv" step_s "v[\"step\"] == $3"; } # NAME POLICY STEP
switch_of() { pick "$out/$1/$2/switches.csv" "$4" "v[\"event\"] == \"$3\""; } # NAME POLICY EVENT COLUMN
calc() { awk -v a="$1" -v b="$2" "BEGIN {if (a != \"\" && b != \"\" && b != 0) print $3}"; } # A B FORMULA
fact() { [ ! -f "$out/$1/summary.json" ] || sed -nE "s/^ *\"$2\": ([0-9.e+-]+),?\$/\1/p" "$out/$1/summary.json"; } # NAME KEY
put() { [ -z "$2" ] || echo "$1,$2" >>"$tmp/ours.csv"; } # ID VALUE

# ---- runs ----
for f in "$P"/*.yaml "$S"/combined/spot.yaml "$S"/combined/mixed-nic.yaml "$S"/combined/recycle.yaml; do simulate "$(basename "$f" .yaml)" "$f"; done
for k in $(seq "$SEEDS"); do simulate "month/seed$k" "$S/combined/month.yaml" --seed "$k" --comm model --plots off; done
embed het-tenth het het-traffic --policy lfu --cache-rows 10000
embed het-all het het-traffic --policy lfu --cache-rows 100000
embed het-none ps het-traffic
for k in avazu criteo; do embed gmp-$k gmp gmp-$k; done

# ---- spot instances: a count falls, the highest node that is up leaves; it rises, the lowest comes back ----
gcp() { # FILE: a 7B model on 64 nodes of one A100-40 each; 24 Gbit/s a node and the storage are chosen
    awk -F, -v units=64 -v health="$tmp/health" '
        NR == 1 {print "t_s,kind,target,id"; for (i = 1; i <= NF; i++) at[$i] = i; next}
        {t = $(at["time_s"]); want = $(at["instances"]); if (want > units) want = units}
        NR == 2 {up = want; for (i = 0; i < units; i++) {is[i] = i < up; if (!is[i]) printf "{target: \"node:a100-%d\", state: down}, ", i >health}}
        {while (up > want) {for (i = units - 1; !is[i]; i--); is[i] = 0; up--; print t ",leave,node:a100-" i ",count" ++n}
         while (up < want) {for (i = 0; is[i]; i++); is[i] = 1; up++; print t ",join,node:a100-" i ",count" ++n}}' "$1" >"$out/spot-gcp.csv"
    cat >"$out/spot-gcp-cluster.yaml" <<END
schema: luoshu.cluster/1
name: spot64
node_groups:
  - {name: a100, nodes: 64, devices_per_node: 1, profile: $S/profiles/a100-40.yaml, racks: [r0],
     nics: {count: 1, bandwidth_gbytes_per_s: 3, latency_us: 20, attach: slot}}
fabric: {kind: single, hop_latency_us: 0.5}
storage: {read_gbytes_per_s: 20, write_gbytes_per_s: 10}
health: [$(cat "$tmp/health")]
END
    cat >"$tmp/spot-gcp.yaml" <<END
schema: luoshu.scenario/1
name: spot-gcp
cluster: $out/spot-gcp-cluster.yaml
model: $S/models/llama-7b.yaml
planner: {name: uniform}
extent: {duration_s: 97200}
data: {batch: {sequences: 512}, lengths: {kind: fixed, tokens: 2048}}
policies: [{name: static}, {name: restart}, {name: oobleck}, {name: malleus}, {name: oracle}]
traces: [{file: $out/spot-gcp.csv}]
checkpoint: {every_steps: 20, mode: background, target: storage}
END
    cmp -s "$tmp/spot-gcp.yaml" "$out/spot-gcp.yaml" || cp "$tmp/spot-gcp.yaml" "$out/spot-gcp.yaml"
    simulate spot-gcp "$out/spot-gcp.yaml"
}
[ -z "${DATA:-}" ] || { total=$((total + 1)); gcp "$DATA/bamboo_gcp_spot_counts.csv"; }

# ---- HSPMD ----
: >"$tmp/ours.csv"
bare() { # NAME PLAN MODEL CLUSTER: a plan alone, into OUT/NAME
    "$L" sim "$2" --model "$S/models/$3.yaml" --cluster "$S/clusters/$4.yaml" --out "$out/$1" --force --plots off \
        --trace-steps none --quiet >/dev/null
}
best_uniform() { # CASE: simulated step of the best plan that `plan uniform` finds for its model and cluster
    local of; of() { sed -n "s|^$1: *\.\./|$S/|p" "$P/$name.yaml"; }
    "$L" plan uniform --model "$(of model)" --cluster "$(of cluster)" --seq-length 4096 --global-batch-size 64 \
        --out "$out/$1-uniform.json" --force 2>/dev/null | sed -nE 's/^simulated step of the first: ([0-9.]+) s.*/\1/p'
}
cases() { # the ten cases: what is published of a baseline beside two of ours, over the published plan
    {
        echo "| case | model, cluster | published plan, s | baseline of the authors / it, as published | equal stages / it | our best uniform plan / it | policy \`malleus\` / it |"
        echo "|---|---|---|---|---|---|---|"
        for k in 01 02 03 04 05 06 07 08 09 10; do
            awk -F, -v id=hspmd-case-$k -v about="$(sed -nE "s|^(model\|cluster): .*/(.*)\.yaml|\2|p" "$P/hspmd-case-$k.yaml" | tac | paste -sd, | sed 's/,/, /')" '
                function cell(x, digits) {return x == "" ? "-" : sprintf("%." digits "f", x)}
                FILENAME ~ /published/ {if ($1 == id ".megatron") theirs = $2; next} {v[$1] = $2}
                END {print "| " (substr(id, 12) + 0) " | " about " | " cell(v[id ".published"], 3) " | " cell(theirs, 2) " | " cell(v[id ".equal"], 2) " | " \
                    cell(v[id ".uniform"], 2) " | " cell(v[id ".malleus"], 2) " |"}' "$P/published.csv" "$tmp/ours.csv"
        done
    } >"$out/cases.md"
}
for k in 01 02 03 04 05 06 07 08 09 10; do
    name=hspmd-case-$k; a=$(step_at $name published 2)
    put $name.published "$a"
    for p in equal malleus; do put $name.$p "$(calc "$(step_at $name $p 2)" "$a" 'a / b')"; done
    [ -z "$a" ] || put $name.uniform "$(calc "$(best_uniform $name)" "$a" 'a / b')"
done
cases # as a table
one=$(step_at hspmd-case-01 published 2)
c4=$(step_at hspmd-c4-c7 static 0)
put hspmd-c4.step "$c4"; put hspmd-c4.ratio "$(calc "$c4" "$one" 'a / b')"
for k in 13 14; do # plans of the states C2 and C3
    bare plan-$k "$S/plans/published/plan-$k.json" llama-32b h20-$((k == 13 ? 31 : 24))
    put hspmd-c$((k - 11)).step "$(step_at plan-$k plan 2)"
done
c2=$(step_at plan-13 plan 2)
for p in restart oobleck malleus; do
    put hspmd-c2.$p "$(calc "$(step_at hspmd-c1-c3 $p 59)" "$c2" 'a / b')"
    put hspmd-c3.$p "$(calc "$(step_at hspmd-c1-c3 $p 89)" "$(step_at plan-14 plan 2)" 'a / b')"
done
parts() { # ID NAME POLICY EVENT
    local s m p; s=$(switch_of "$2" "$3" "$4" specialize_s) m=$(switch_of "$2" "$3" "$4" move_s) p=$(switch_of "$2" "$3" "$4" plan_s)
    put "$1.$3.specialize" "$s"; put "$1.$3.move" "$m"; put "$1.$3.plan" "$p"
    put "$1.$3.change" "$(calc "$s" 1 "a + ${m:-0}")"
}
for p in malleus oobleck restart; do
    parts hspmd-c1-c2 hspmd-c1-c3 $p gpu; parts hspmd-c4-c5 hspmd-c4-c7 $p node1
    parts hspmd-c5-c6 hspmd-c4-c7 $p gpu; parts hspmd-c6-c7 hspmd-c4-c7 $p node2
done
sed 's/nics: {count: 8, bandwidth_gbytes_per_s: 50,/nics: {count: 8, bandwidth_gbytes_per_s: 11.4,/' "$S/clusters/h20-32.yaml" |
    sed "s#\.\./profiles#$S/profiles#" >"$tmp/slow.yaml"
for how in greedy minrank; do
    put hspmd-c1-c2.slow-$how "$("$L" switch "$S/plans/published/plan-12.json" "$S/plans/published/plan-13.json" --dead 31 --planner $how \
        --model "$S/models/llama-32b.yaml" --cluster "$tmp/slow.yaml" --json --quiet | grep -o '"seconds": *[0-9.e+-]*' | grep -o '[0-9.e+-]*$')"
    put hspmd-c1-c2.$how "$("$L" switch "$S/plans/published/plan-12.json" "$S/plans/published/plan-13.json" --dead 31 --planner $how \
        --model "$S/models/llama-32b.yaml" --cluster "$S/clusters/h20-32.yaml" --json --quiet | grep -o '"seconds": *[0-9.e+-]*' | grep -o '[0-9.e+-]*$')"
done

# ---- ReCycle: tokens that count in six hours of failures ----
goodput() { pick "$out/recycle/compare.csv" goodput_tokens_per_s "v[\"policy\"] == \"$1\""; } # POLICY
for p in oobleck restart malleus; do put recycle.$p "$(calc "$(goodput reroute)" "$(goodput $p)" 'a / b')"; done
put recycle.staggered "$(calc "$(goodput reroute-staggered)" "$(goodput oobleck-staggered)" 'a / b')"

# ---- Hetu v1: P-Reduce, HET, HET-GMP; all keys are synthetic ----
rate() { pick "$out/preduce-stragglers/compare.csv" goodput_tokens_per_s "v[\"policy\"] == \"$1\""; } # POLICY
for p in preduce ssp asp adpsgd; do put preduce.$p "$(calc "$(rate $p)" "$(rate allreduce)" 'a / b')"; done
for k in tenth all; do
    put het.$k "$(fact het-$k saved_with_flush_ratio)"
    put het.$k-exchange "$(calc "$(fact het-none total_s)" "$(fact het-$k total_s)" 'a / b')"
done
rows() { pick "$out/$1/partitions.csv" "$3" "v[\"partition\"] == \"$2\""; } # NAME PARTITION COLUMN
less() { calc "$(rows "$1" gmp "$2")" "$(rows "$1" random "$3")" '1 - a / b'; } # NAME COLUMN of gmp, COLUMN of random
for k in avazu criteo; do
    put gmp-$k.less "$(less gmp-$k pulls pulls)"; put gmp-$k.replicas "$(less gmp-$k replica_pulls replica_pulls)"
    put gmp-$k.both "$(less gmp-$k replica_pulls pulls)"
done

# ---- Hydraulis: mean step of all policies on the same batches ----
mean_step() { # NAME POLICY: empty where it lost a step
    [ -f "$out/$1/$2/steps.csv" ] && awk -F, '/^#/ {next} !c {for (i = 1; i <= NF; i++) if ($i == "step_s") c = i; next}
        {s += $c; n++} END {if (n) print s / n}' "$out/$1/$2/steps.csv"
}
lengths_policies="padding pack_dynamic uniform_best hotspa hydraulis"
echo "setting,policy,step_s,step_ratio" >"$out/lengths.csv"
for f in "$P"/hydraulis-*.yaml; do
    name=$(basename "$f" .yaml) ours=$(mean_step "$(basename "$f" .yaml)" hydraulis)
    for p in $lengths_policies; do
        a=$(mean_step "$name" $p)
        [ -z "$a" ] || echo "${name#hydraulis-},$p,$a,$(calc "$a" "$ours" 'a / b')" >>"$out/lengths.csv"
        put "$name.$p" "$a"; put "$name.$p-ratio" "$(calc "$a" "$ours" 'a / b')"
    done
done
{ cat "$S/pools/32b-a800.yaml"; echo 'prop_overlap: 1'; } >"$tmp/hidden.yaml" # by the published pool alone, nothing that moves counts
"$L" plan hydraulis --model "$S/models/llama-32b.yaml" --cluster "$S/clusters/a800-32.yaml" --pool "$S/pools/32b-a800.csv" --os 2,16,1 \
    --params "$tmp/hidden.yaml" --lengths syn-web --budget 200000 --steps 12 --seed 5 --rank objective --out "$tmp/plan.json" --force --quiet >"$tmp/pool" 2>"$tmp/err"
of_pool() { awk -v p="$1" '$1 == p {print $2 / 1000}' "$tmp/pool"; } # POLICY
for p in $lengths_policies; do
    put "pool-32b.$p" "$(of_pool $p)"; put "pool-32b.$p-ratio" "$(calc "$(of_pool $p)" "$(of_pool hydraulis)" 'a / b')"
done
awk -F, -v policies="$lengths_policies" '
    NR == 1 {n = split(policies, p, " "); next}
    !($1 in seen) {seen[$1] = 1; name[++m] = $1}
    {x[$1, $2] = $3}
    END {
        line = "| setting |"; rule = "|---|"
        for (i = 1; i <= n; i++) {line = line " " p[i] ", s |"; rule = rule "---|"}
        print line " uniform_best / hydraulis | hotspa / hydraulis |"; print rule "---|---|"
        for (k = 1; k <= m; k++) {
            line = "| " name[k] " |"
            for (i = 1; i <= n; i++) line = line " " (x[name[k], p[i]] == "" ? "-" : sprintf("%.2f", x[name[k], p[i]])) " |"
            own = x[name[k], "hydraulis"]
            print line sprintf(" %.2f | %.2f |", own ? x[name[k], "uniform_best"] / own : 0, own ? x[name[k], "hotspa"] / own : 0)
        }}' "$out/lengths.csv" >"$out/lengths.md"

# ---- Malleus: step with stragglers over step without, by policy ----
policies="static rebalance restart oobleck malleus oracle"
echo "setting,policy,healthy_s,slowed_s,slowed_ratio" >"$out/settings.csv"
for f in "$P"/malleus-*.yaml; do
    name=$(basename "$f" .yaml)
    for p in $policies; do
        a=$(step_at "$name" static 5) b=$(step_at "$name" $p 109) # all start with the same plan; oracle with the best
        [ -z "$b" ] || echo "${name#malleus-},$p,$a,$b,$(calc "$b" "$a" 'a / b')" >>"$out/settings.csv"
    done
done
awk -F, -v policies="$policies" '
    NR == 1 {n = split(policies, p, " "); next}
    !($1 in seen) {seen[$1] = 1; name[++m] = $1}
    {x[$1, $2] = $5; healthy[$1] = $3}
    function cell(a, b) {return a != "" && b != "" && b > 0 ? sprintf("%.2f", a / b) : "-"}
    END {
        line = "| setting | healthy step, s |"; rule = "|---|---|"
        for (i = 1; i <= n; i++) {line = line " " p[i] " |"; rule = rule "---|"}
        print line " static / malleus | restart / malleus |"; print rule "---|---|"
        for (k = 1; k <= m; k++) {
            line = sprintf("| %s | %.2f |", name[k], healthy[name[k]])
            for (i = 1; i <= n; i++) line = line " " cell(x[name[k], p[i]], 1) " |"
            print line " " cell(x[name[k], "static"], x[name[k], "malleus"]) " | " cell(x[name[k], "restart"], x[name[k], "malleus"]) " |"
        }}' "$out/settings.csv" >"$out/settings.md"
mean() { # POLICY: over all settings, its step over that of malleus
    awk -F, -v p="$1" '$2 == p {a[$1] = $4} $2 == "malleus" {b[$1] = $4}
        END {for (k in b) if (k in a) {s += a[k] / b[k]; n++} if (n) print s / n}' "$out/settings.csv"
}
for p in static rebalance restart oobleck; do put malleus.$p "$(mean $p)"; done
put malleus-70b-one.step "$(pick "$out/settings.csv" slowed_ratio 'v["setting"] == "70b-one-2.57" && v["policy"] == "malleus"')"

# ---- ours beside what was published ----
# what (no commas) | ours (several ids: least to most) | unit | id in published.csv | assumed
cat >"$tmp/items" <<'END'
step of plan 1 on 32 H20 + 16 H800|hspmd-case-01.published|s|hspmd-case-01.published|NICs, PCIe, memory of H800
a plan of equal stages / plan 1|hspmd-case-01.equal|ratio|hspmd-case-01.megatron|theirs Megatron, as published; ours a narrow search: 1F1B, types of GPUs not told apart
our best uniform plan / plan 1|hspmd-case-01.uniform|ratio||all that `plan uniform` searches: any schedule, layers and micro-batches by type
DeepSpeed / plan 1||ratio|hspmd-case-01.deepspeed|not comparable: their ZeRO-3 plan is not published
HexiScale / plan 1||ratio|hspmd-case-01.hexiscale|not comparable: not built
plan of `malleus` / plan 1|hspmd-case-01.malleus|ratio||
cases 1 to 10: equal stages / published plan|hspmd-case-01.equal hspmd-case-02.equal hspmd-case-03.equal hspmd-case-04.equal hspmd-case-05.equal hspmd-case-06.equal hspmd-case-07.equal hspmd-case-08.equal hspmd-case-09.equal hspmd-case-10.equal|ratio|hspmd-mixed.best|theirs: the best of their cases, over their baselines
cases 1 to 10: our best uniform plan / published plan|hspmd-case-01.uniform hspmd-case-02.uniform hspmd-case-03.uniform hspmd-case-04.uniform hspmd-case-05.uniform hspmd-case-06.uniform hspmd-case-07.uniform hspmd-case-08.uniform hspmd-case-09.uniform hspmd-case-10.uniform|ratio||
cases 1 to 10: plan of `malleus` / published plan|hspmd-case-01.malleus hspmd-case-02.malleus hspmd-case-03.malleus hspmd-case-04.malleus hspmd-case-05.malleus hspmd-case-06.malleus hspmd-case-07.malleus hspmd-case-08.malleus hspmd-case-09.malleus hspmd-case-10.malleus|ratio||
step of plan 11 without ZeRO (C4)|hspmd-c4.step|s|hspmd-c4.step|
C4 / plan 1|hspmd-c4.ratio|ratio|hspmd-c4.ratio|
step of plan 13 on 31 H20 (C2)|hspmd-c2.step|s|hspmd-c2.step|
C2: `oobleck` / plan 13|hspmd-c2.oobleck|ratio|hspmd-c2.oobleck|exact templates; whole nodes leave
C2: `restart` / plan 13|hspmd-c2.restart|ratio||whole nodes leave
C2: `malleus` / plan 13|hspmd-c2.malleus|ratio||
C3: `malleus` / plan 14 on 24 H20|hspmd-c3.malleus|ratio||
C1 to C2: operators and communicators|hspmd-c1-c2.malleus.specialize|s|hspmd-c1-c2.specialize|6.17 ms an operator of a device, calibrated on this row; 0.05 s a communicator, chosen
C1 to C2: state moved by `malleus`|hspmd-c1-c2.malleus.move|s|hspmd-c1-c2.move|NICs of 50 GB/s, chosen
C1 to C2: state moved to plan 13|hspmd-c1-c2.greedy|s|hspmd-c1-c2.move|the same; closed form
C1 to C2: the same without balance|hspmd-c1-c2.minrank|s|hspmd-c1-c2.move-minrank|the same; least rank sends
C1 to C2: state moved to plan 13, slow NICs|hspmd-c1-c2.slow-greedy|s|hspmd-c1-c2.move|NICs of 11.4 GB/s, calibrated on this row
C1 to C2: the same without balance, slow NICs|hspmd-c1-c2.slow-minrank|s|hspmd-c1-c2.move-minrank|NICs of the row above
C1 to C2: change without planning|hspmd-c1-c2.malleus.change|s|hspmd-c1-c2.total|theirs with 0.82 s of planning
C1 to C2: `restart`|hspmd-c1-c2.restart.change|s|hspmd-c1-c2.restart|60 s to start processes, chosen; storage 40 GB/s
C4 to C7: operators and communicators|hspmd-c4-c5.malleus.specialize hspmd-c5-c6.malleus.specialize hspmd-c6-c7.malleus.specialize|s|hspmd-mixed.specialize|constants of C1 to C2
C4 to C7: changes|hspmd-c4-c5.malleus.change hspmd-c5-c6.malleus.change hspmd-c6-c7.malleus.change|s|hspmd-mixed.total|as above
C4 to C7: restarts|hspmd-c4-c5.restart.change hspmd-c5-c6.restart.change hspmd-c6-c7.restart.change|s|hspmd-mixed.restart|as above
six hours of failures: goodput of `reroute` / `oobleck`, both with a staggered optimizer|recycle.staggered|ratio|recycle.oobleck|theirs: the most over their settings
six hours of failures: the same, both without|recycle.oobleck|ratio|recycle.oobleck|as above
six hours of failures: goodput of `reroute` / `restart`|recycle.restart|ratio||
ReCycle / Bamboo||ratio|recycle.bamboo|not comparable: not built
32B on 32 H20, 200K tokens, 32K context: `hydraulis`|hydraulis-h20-32k.hydraulis|s|hydraulis-h20-32k.step|theirs: CommonCrawl, ours: synthetic lengths; fabric chosen
the same: `hotspa`|hydraulis-h20-32k.hotspa|s|hydraulis-h20-32k.hotspa|the same
the same: `uniform_best`|hydraulis-h20-32k.uniform_best|s|hydraulis-h20-32k.megatron|theirs Megatron
the same: `padding`|hydraulis-h20-32k.padding|s|hydraulis-h20-32k.deepspeed|not comparable: theirs DeepSpeed, which need not pad
the same: `hotspa` / `hydraulis`|hydraulis-h20-32k.hotspa-ratio|ratio|hydraulis-h20-32k.hotspa-ratio|ratios depend on data and costs of strategies
the same: `uniform_best` / `hydraulis`|hydraulis-h20-32k.uniform_best-ratio|ratio|hydraulis-h20-32k.megatron-ratio|the same
the same, 16K context: `uniform_best` / `hydraulis`|hydraulis-h20-16k.uniform_best-ratio|ratio||
32B on 32 A800 by the published pool, nothing moves: `hotspa` / `hydraulis`|pool-32b.hotspa-ratio|ratio|hydraulis-h20-32k.hotspa-ratio|12 synthetic batches; theirs: H20
the same: `uniform_best` / `hydraulis`|pool-32b.uniform_best-ratio|ratio|hydraulis-h20-32k.megatron-ratio|the same
7B, 13B, 32B on 32 A800: `uniform_best` / `hydraulis`|hydraulis-7b-100k.uniform_best-ratio hydraulis-7b-200k.uniform_best-ratio hydraulis-13b-100k.uniform_best-ratio hydraulis-13b-200k.uniform_best-ratio hydraulis-32b-100k.uniform_best-ratio hydraulis-32b-200k.uniform_best-ratio|ratio|hydraulis.systems|theirs: other data, over existing systems
7B, 13B, 32B on 32 A800: `hotspa` / `hydraulis`|hydraulis-7b-100k.hotspa-ratio hydraulis-7b-200k.hotspa-ratio hydraulis-13b-100k.hotspa-ratio hydraulis-13b-200k.hotspa-ratio hydraulis-32b-100k.hotspa-ratio hydraulis-32b-200k.hotspa-ratio|ratio||
16 workers asleep now and then: `preduce` / `allreduce`|preduce.preduce|ratio|preduce.speedup|theirs: time to a loss; ours: updates alone, synthetic sleeps
16 workers asleep now and then: `ssp`, `asp` and `adpsgd` / `allreduce`|preduce.ssp preduce.asp preduce.adpsgd|ratio||updates alone, synthetic sleeps
traffic of embeddings saved by caches of a tenth of the keys|het.tenth|ratio|het.traffic|theirs: the most; ours: synthetic Zipf keys, what is pending at the end counts
traffic of embeddings saved by caches of all keys|het.all|ratio|het.traffic|as above
seconds of exchange without caches / with: a tenth, all|het.tenth-exchange het.all-exchange|ratio||exchange alone, nothing computes
training with caches / TensorFlow's servers and Parallax||ratio|het.speedup|not comparable: other systems, kernels and networks
rows between 8 parts saved over random: Avazu's shape|gmp-avazu.less|ratio|gmp.traffic|theirs: the most; ours: synthetic, scaled to 1e6 samples
rows between 8 parts saved, replicas in both and in ours alone: Avazu's shape|gmp-avazu.replicas gmp-avazu.both|ratio|gmp.traffic|as above; replicas of 1 %, pulls
rows between 8 parts saved over random: Criteo's shape|gmp-criteo.less|ratio|gmp.traffic|as above
rows between 8 parts saved, replicas in both and in ours alone: Criteo's shape|gmp-criteo.replicas gmp-criteo.both|ratio|gmp.traffic|as above; replicas of 1 %, pulls
training over partitions at random||ratio|gmp.speedup|not comparable: other systems, kernels and networks
70B with one slow device / none: `malleus`|malleus-70b-one.step|ratio|malleus-70b-one.objective|theirs: objective of their planner
mean of the settings below: `static` / `malleus`|malleus.static|ratio|malleus.average|theirs: other rates, other baselines
mean of the settings below: `restart` / `malleus`|malleus.restart|ratio|malleus.average|the same
END
awk -F'|' -v ours="$tmp/ours.csv" -v known="$P/published.csv" -v csv="$out/papers.csv" '
    function range(lo, hi,    a, b) {a = sprintf("%.4g", lo); b = sprintf("%.4g", hi == "" ? lo : hi); return lo == "" ? "-" : a == b ? a : a " to " b}
    BEGIN {
        while ((getline line < ours) > 0) {split(line, c, ","); value[c[1]] = c[2]}
        while ((getline line < known) > 0) {if (line ~ /^#/) continue; split(line, c, ","); low[c[1]] = c[2]; high[c[1]] = c[3]; from[c[1]] = c[5]}
        print "what,ours_low,ours_high,published_low,published_high,unit,provenance,assumed" >csv
        print "| what | ours | published | unit | provenance | assumed |\n|---|---|---|---|---|---|"
    }
    {
        n = split($2, id, " "); lo = hi = ""
        for (i = 1; i <= n; i++) {
            x = value[id[i]]; if (x == "") continue
            if (lo == "" || x < lo) lo = x; if (hi == "" || x > hi) hi = x
        }
        print "\"" $1 "\"," lo "," (n > 1 ? hi : "") "," low[$4] "," high[$4] "," $3 "," from[$4] ",\"" $5 "\"" >csv
        print "| " $1 " | " range(lo, hi) " | " range(low[$4], high[$4]) " | " $3 " | " ($4 == "" ? "-" : from[$4]) " | " $5 " |"
    }' "$tmp/items" >"$out/papers.md"
cat "$out/papers.md"; echo; cat "$out/cases.md"; echo; cat "$out/settings.md"; echo; cat "$out/lengths.md"

# ---- figures ----
awk -F, 'function suite(w) {return w ~ /step/ ? "step" : w ~ /restart/ ? "restart" : "change"}
    BEGIN {print "suite,case,role,measured_s,predicted_s"}
    NR > 1 && $2 != "" && $4 != "" && $6 == "s" {print suite($1) "," $1 ",," $4 "," $2}' "$out/papers.csv" >"$out/plots/predicted.csv"
draw() { LC_ALL=C.UTF-8 gnuplot -d -e "run='$out'; out='$out/plots/$1'; ran='$2'" "plots/$1.gp" && echo "$out/plots/$1.svg"; }
if command -v gnuplot >/dev/null; then
    draw predicted "seconds of papers and ours, simulated"
    [ "$(wc -l <"$out/settings.csv")" -lt 2 ] || draw settings "step with stragglers over step without, simulated"
fi
if ls "$out"/month/seed*/compare.csv >/dev/null 2>&1; then
    "$L" compare "$out"/month/seed*/ --out "$out/month" --force --quiet | tail -n 12
fi
echo "$((SECONDS - began)) s, $bad failed; $out/papers.csv, $out/settings.csv, $out/lengths.csv, $out/month/seeds.csv"
[ $bad = 0 ]
