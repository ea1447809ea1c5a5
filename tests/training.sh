#!/usr/bin/env bash
# Replicas that do not all wait for each other (key `training` of policy `static`), by the command: what each way of
# training makes of stragglers, failures and joins, and what is refused.
set -u
export LC_ALL=C
L=${LUOSHU:-$PWD/luoshu} S=$PWD/scenarios
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
n=0; bad=0
check() { # NAME CONDITION..: the condition is a command
    local name=$1; shift; n=$((n + 1))
    "$@" && return
    echo "FAIL $name"; tail -n 5 "$tmp/log" 2>/dev/null; bad=$((bad + 1))
}
plan() { # ZERO: eight pipelines of one device
    printf '{"schema": "luoshu.plan/1", "name": "dp8", "model": "tiny-llama", "cluster": "tiny8", "layers": 4, "devices": 8,
 "dtype": "bf16", "sequence_tokens": 64, "micro_batch_sequences": 2, "zero": %s, "sequence_parallel": false,
 "schedule": {"kind": "1f1b", "chunks": 1}, "pipelines": [' "$1"
    for d in 0 1 2 3 4 5 6 7; do
        printf '%s{"micro_batches": 2, "stages": [{"layers": [[0, 4]], "devices": [%s]}]}' "$([ $d = 0 ] || echo ', ')" $d
    done
    echo ']}'
}
plan 0 >"$tmp/plan.json"; plan 1 >"$tmp/zero.json"
scenario() { # EXTENT EVENTS [PLAN [POLICIES]]
    cat <<END
schema: luoshu.scenario/1
name: training
cluster: $S/clusters/tiny8.yaml
model: $S/models/tiny-llama.yaml
plan: ${3:-plan.json}
extent: $1
policies:
${4:-  - {name: static, label: programs\}
  - {name: static, label: allreduce, training: {sync: allreduce\}\}
  - {name: static, label: bsp, training: {sync: bsp, servers: 2\}\}
  - {name: static, label: ssp, training: {sync: ssp, staleness: 3, servers: 2\}\}
  - {name: static, label: asp, training: {sync: asp, servers: 2\}\}
  - {name: static, label: preduce, training: {sync: preduce, max_group: 4, wait_s: 0.0001, guard: 10\}\}
  - {name: static, label: adpsgd, training: {sync: adpsgd\}\}}
events: [$2]
END
}
run() { # NAME EXTENT EVENTS [EXIT]
    scenario "$2" "$3" >"$tmp/$1.yaml"
    "$L" sim "$tmp/$1.yaml" --out "$tmp/$1" --plots off --trace-steps none --quiet >"$tmp/log" 2>&1
    [ $? = "${4:-0}" ]
}
value() { # RUN COLUMN LABEL: of compare.csv
    awk -F, -v c="$2" -v l="$3" 'NR == 1 {for (i = 1; i <= NF; i++) {if ($i == c) k = i; if ($i == "run") r = i}; next} $r == l {print $k}' "$tmp/$1/compare.csv"
}
is() { awk -v a="$1" -v b="$3" "BEGIN {exit !(a != \"\" && b != \"\" && a $2 b)}"; }
near() { awk -v a="$1" -v b="$2" -v e="$3" 'BEGIN {d = a / b - 1; exit !(d < e && d > -e)}'; }
last() { tail -n 1 "$tmp/$1/$2/steps.csv" | cut -d, -f5; } # seconds at the end

virtual() { # all but the wall time
    awk -F, -v OFS=, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "wall_s") k = i} {$k = ""; print}' "$tmp/$1/$2/steps.csv"
}

# Without events a sum over all workers is what the programs do, and servers or groups cost what they exchange.
check "nothing happens" run quiet '{steps: 12}' ''
check "one sum for all: the programs' steps" [ "$(last quiet allreduce)" = "$(last quiet programs)" ]
check "no worker is behind: ssp is asp" [ "$(last quiet ssp)" = "$(last quiet asp)" ]
check "all are alike: bsp is ssp" near "$(last quiet bsp)" "$(last quiet ssp)" 1e-9

# A device three times slower: barriers wait for it, ssp as well in the long run, asp and groups do not.
check "a straggler" run slow '{steps: 48}' '{id: s, kind: straggler, target: "device:3", slowdown: 3, at_s: 0}'
check "all-reduce is three times slower" near "$(last slow allreduce)" "$(awk -v a="$(last quiet allreduce)" 'BEGIN {print 12 * a}')" 0.06
check "the programs' steps here too" near "$(last slow allreduce)" "$(last slow programs)" 1e-6
check "ssp gains its bound alone" is "$(last slow ssp)" '<' "$(last slow bsp)"
check "asp makes 7 1/3 iterations where bsp makes 8/3" near "$(last slow asp)" \
    "$(awk -v a="$(last slow bsp)" 'BEGIN {print a * (8 / 3) / (22 / 3)}')" 0.06
check "pairs wait for it, one at a time" is "$(last slow adpsgd)" '<' "$(last slow allreduce)"
check "groups do not wait for it" is "$(last slow preduce)" '<' "$(awk -v a="$(last slow asp)" 'BEGIN {print 1.1 * a}')"

# Every iteration is a row: what a worker waits, computes and exchanges follows what it did before without a gap.
for w in allreduce bsp ssp asp preduce adpsgd; do
    check "$w: rows of iterations" awk -F, -v served="$(case $w in bsp | ssp | asp) echo 1 ;; esac)" 'NR == 1 {next}
        {n++; e = $3 - end[$1] - (served ? $5 : 0); if (e > 2e-9 || e < -2e-9 || ($6 == "") != (served != "") || $2 != k[$1]++) bad++
         if ($4 - $3 - $7 - (served ? 0 : $5) < -2e-9) bad++; end[$1] = $4}
        END {exit bad || n < 48 * 8}' "$tmp/slow/$w/iterations.csv"
done
check "all-reduce is one group of all" awk -F, 'NR > 1 && ($3 != "0 1 2 3 4 5 6 7" || $1 != NR - 2) {bad++} END {exit bad || NR < 49}' "$tmp/slow/allreduce/groups.csv"
check "pairs" awk -F, 'NR > 1 && split($3, m, " ") != 2 {bad++} END {exit bad || NR < 100}' "$tmp/slow/adpsgd/groups.csv"
check "the programs have no such rows" [ ! -e "$tmp/slow/programs/iterations.csv" ]

# A worker dies and comes back: nobody waits for it meanwhile.
check "a failure and a join" run gone '{steps: 40}' '{id: f, kind: fail, target: "device:3", at_s: 0.04}, {id: j, kind: join, target: "device:3", at_s: 0.12}' 1
for w in allreduce bsp ssp asp preduce adpsgd; do
    check "$w goes on" [ "$(value gone state $w)" = complete ]
    check "$w: who leaves, who comes" grep -qx 'note: worker 3 is back' "$tmp/gone/$w/log.txt"
    check "$w loses less than a worker" is "$(last gone $w)" '<' "$(awk -v a="$(last quiet $w)" 'BEGIN {print a / 12 * 40 * 1.1}')"
done
check "the policy alone is lost" [ "$(value gone state programs)" = lost ]
# Its links go down with a node: they are nobody's any more.
check "a node fails" run node '{steps: 20}' '{id: f, kind: fail, target: "node:a-1", at_s: 0.02}' 1
for w in allreduce bsp ssp asp preduce adpsgd; do check "$w goes on without the node" [ "$(value node state $w)" = complete ]; done
check "all are dead" run dead '{duration_s: 1}' '{id: f, kind: fail, target: "group:a", at_s: 0.04}' 1
check "it is lost, and when" grep -q '^1,0.040000000,.*,lost,static,.*no worker is left$' "$tmp/dead/ssp/events.csv"
check "a slow link slows servers" run link '{steps: 12}' '{id: l, kind: link, target: "link:a-0/nic3", bandwidth_factor: 0.01, at_s: 0}'
check "of bsp" is "$(last link bsp)" '>' "$(awk -v a="$(last quiet bsp)" 'BEGIN {print 1.01 * a}')"
check "of allreduce" is "$(last link allreduce)" '>' "$(awk -v a="$(last quiet allreduce)" 'BEGIN {print 1.01 * a}')"
check "all-reduce is as slow as the programs" near "$(last link allreduce)" "$(last link programs)" 1e-6
check "groups that do not cross it do not notice" [ "$(last link preduce)" = "$(last quiet preduce)" ]
check "the same again" run again '{steps: 40}' '{id: f, kind: fail, target: "device:3", at_s: 0.04}, {id: j, kind: join, target: "device:3", at_s: 0.12}' 1
for w in ssp preduce; do
    check "$w: byte by byte" [ "$(virtual gone $w)" = "$(virtual again $w)" ]
done

# A step that begins without the one that others wait for: they go on.
check "a straggler dies between steps" run between '{steps: 20}' '{id: s, kind: straggler, target: "device:7", slowdown: 50, at_s: 0}, {id: f, kind: fail, target: "device:7", at_step: 3}' 1
for w in allreduce bsp ssp asp preduce adpsgd; do check "$w goes on between steps" [ "$(value between state $w)" = complete ]; done
# A link that is down when an exchange begins, and comes back.
check "a link comes back" run flap '{steps: 20}' '{id: l, kind: flap, target: "link:a-0/nic3", down_s: 0.01, up_s: 10, at_s: 0.005, duration_s: 5}' 1
for w in allreduce bsp ssp asp preduce adpsgd; do check "$w outlives the link" [ "$(value flap state $w)" = complete ]; done
# Four workers of two stages, each on both nodes: a slow link between the stages of one of them is in its own iterations.
staged() { # NAME EVENTS [EXIT]
    {
        printf '{"schema": "luoshu.plan/1", "name": "pp2", "model": "tiny-llama", "cluster": "tiny8", "layers": 4, "devices": 8,
 "dtype": "bf16", "sequence_tokens": 64, "micro_batch_sequences": 2, "zero": 0, "sequence_parallel": false,
 "schedule": {"kind": "1f1b", "chunks": 1}, "pipelines": ['
        for d in 0 1 2 3; do
            printf '%s{"micro_batches": 2, "stages": [{"layers": [[0, 2]], "devices": [%s]}, {"layers": [[2, 4]], "devices": [%s]}]}' \
                "$([ $d = 0 ] || echo ', ')" $d $((d + 4))
        done
        echo ']}'
    } >"$tmp/pp2.json"
    scenario '{steps: 12}' "$2" pp2.json '  - {name: static, label: programs}
  - {name: static, label: allreduce, training: {sync: allreduce}}
  - {name: static, label: asp, training: {sync: asp}}' >"$tmp/$1.yaml"
    "$L" sim "$tmp/$1.yaml" --out "$tmp/$1" --plots off --trace-steps none --quiet >"$tmp/log" 2>&1
    [ $? = "${3:-0}" ]
}
count() { awk -F, -v w="$3" 'NR > 1 && $1 == w {n++} END {print n + 0}' "$tmp/$1/$2/iterations.csv"; } # RUN LABEL WORKER
slow_inside='{id: l, kind: link, target: "link:a-0/nic3", bandwidth_factor: 0.001, at_s: 0}'
check "workers of two stages" staged pairs ''
check "their sum is the programs' step" [ "$(last pairs allreduce)" = "$(last pairs programs)" ]
check "a slow link inside a worker" staged inside "$slow_inside"
check "it slows the programs" is "$(last inside programs)" '>' "$(awk -v a="$(last pairs programs)" 'BEGIN {print 1.1 * a}')"
check "and all-reduce as much" near "$(last inside allreduce)" "$(last inside programs)" 1e-6
check "asp: its own worker alone" is "$(count inside asp 3)" '<' "$(count inside asp 0)"
check "the others are alike" [ "$(count inside asp 0)" = "$(count inside asp 1)" ]
check "it comes back" staged broken '{id: l, kind: flap, target: "link:a-0/nic3", down_s: 0.02, up_s: 10, at_s: 0.005, duration_s: 5}' 1
check "asp waits for nobody" is "$(count broken asp 3)" '<' "$(count broken asp 0)"
check "all-reduce does" is "$(last broken allreduce)" '>' "$(awk -v a="$(last pairs allreduce)" 'BEGIN {print a + 0.019}')"

# Servers that are devices: messages take what the formula says, over the share of the cards' bandwidth that the network
# reaches (0.9 here); a server beside the cluster gives what workers compute. When a server is gone, so is the run.
served() { # NAME EVENTS [EXIT]: 8 workers on nodes of one device
    {
        printf '{"schema": "luoshu.plan/1", "name": "p8", "model": "gpt-345m", "cluster": "a100-32x1", "layers": 24, "devices": 32,
 "dtype": "bf16", "sequence_tokens": 1024, "micro_batch_sequences": 4, "zero": 0, "sequence_parallel": false, "schedule": {"kind": "1f1b", "chunks": 1}, "pipelines": ['
        for d in 0 1 2 3 4 5 6 7; do
            printf '%s{"micro_batches": 1, "stages": [{"layers": [[0, 24]], "devices": [%s]}]}' "$([ $d = 0 ] || echo ', ')" $d
        done
        echo ']}'
    } >"$tmp/p8.json"
    scenario '{steps: 4}' "$2" p8.json '  - {name: static, label: f1, training: {sync: bsp, servers: 1}}
  - {name: static, label: f4, training: {sync: bsp, servers: 4}}
  - {name: static, label: f8, training: {sync: bsp, servers: 8}}
  - {name: static, label: d1, training: {sync: bsp, server_devices: [31]}}
  - {name: static, label: d4, training: {sync: bsp, server_devices: [28, 29, 30, 31]}}
  - {name: static, label: own, training: {sync: asp, server_devices: [0, 1, 2, 3, 4, 5, 6, 7]}}' |
        sed 's/tiny8.yaml/a100-32x1.yaml/; s/tiny-llama.yaml/gpt-345m.yaml/' >"$tmp/$1.yaml"
    "$L" sim "$tmp/$1.yaml" --out "$tmp/$1" --plots off --trace-steps none --quiet >"$tmp/log" 2>&1
    [ $? = "${3:-0}" ]
}
check "servers on devices" served served ''
for k in 1 4; do # f8: each worker's own bytes alone, an eighth and a half of what the servers carry in f1 and f4
    check "$k of them: messages as the formula" near \
        "$(awk -v d="$(last served d$k)" -v f="$(last served f$k)" -v e="$(last served f8)" -v k=$k 'BEGIN {x = (f - e) / (8 / k - 1); print (d - e + x) / (f - e + x)}')" 1.1111 1e-3
done
check "a server is gone" served unserved '{id: f, kind: fail, target: "device:31", at_s: 0.7}' 1
for w in d1 d4; do
    check "$w is lost, and when" grep -q "0.700000000,.*,lost,static,.*server $([ $w = d1 ] && echo 0 || echo 3) is gone with device 31" "$tmp/unserved/$w/events.csv"
done
for w in f1 own; do check "$w goes on without the device" [ "$(value unserved state $w)" = complete ]; done

# Requests to the controller of groups, and its answers, take 10 ms each of every iteration.
scenario '{steps: 12}' '' plan.json '  - {name: static, label: near, training: {sync: preduce, wait_s: 0.001}}
  - {name: static, label: far, training: {sync: preduce, wait_s: 0.001, request_s: 0.01}}' >"$tmp/request.yaml"
check "requests take time" "$L" sim "$tmp/request.yaml" --out "$tmp/request" --plots off --trace-steps none --quiet
check "twice as long" near "$(last request far)" "$(awk -v a="$(last request near)" 'BEGIN {print a + 12 * 0.02}')" 1e-5

# What cannot be is refused with its reason.
refused() { # SENTENCE PLAN POLICIES [MORE]
    scenario '{steps: 4}' '' "$2" "$3" >"$tmp/bad.yaml"
    [ -z "${4:-}" ] || echo "$4" >>"$tmp/bad.yaml"
    "$L" sim "$tmp/bad.yaml" --out "$tmp/bad" --plots off --force >"$tmp/log" 2>&1
    [ $? = 3 ] && grep -qF "$1" "$tmp/log"
}
ssp='  - {name: static, training: {sync: ssp}}'
check "state that replicas share" refused 'a plan with `zero` 0 and no experts shared is expected' zero.json "$ssp"
check "another policy" refused 'training` does not belong to policy `restart`' plan.json '  - {name: restart, training: {sync: ssp}}'
check "checkpoints" refused '`training` cannot go with `checkpoint`' plan.json "$ssp" 'checkpoint: {every_steps: 2}'
check "groups that are too large" refused '`max_group` 9 and 8 pipelines' plan.json '  - {name: static, training: {sync: preduce, max_group: 9}}'

echo "$(((n - bad) * 100 / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
