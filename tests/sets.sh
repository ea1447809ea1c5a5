#!/usr/bin/env bash
# Folders of results: one owner, and nothing of one run beside that of another, whenever a run is
# killed (SETS_SEED, SETS_KILLS). tests/unit/check_resultset kills where it happens, many times more.
set -u
. tests/runs.sh
cat >"$tmp/day.yaml" <<END
schema: luoshu.scenario/1
name: day
cluster: $S/clusters/tiny2.yaml
model: $S/models/tiny-llama.yaml
planner: {name: uniform}
extent: {steps: 40}
data: {batch: {sequences: 4}, lengths: {kind: fixed, tokens: 64}}
policies: [{name: static}, {name: restart, restart_s: 0.1, planner_s: 0.01}]
events: [{id: slow, kind: straggler, target: "device:1", slowdown: 1.5, at_s: 0.05}]
END
sim() { # OUT options..
    local out=$1; shift
    "$L" sim "$tmp/day.yaml" --out "$tmp/$out" --plots off --trace-steps 0 --quiet "$@" >"$tmp/$out.out" 2>"$tmp/$out.err"
}
endless="--set extent.steps=1000000000 --trace-steps none"
long() { # OUT options..: in the background, until it is at work; pid
    sim "$@" $endless & pid=$!; mine+=("$pid")
    until_rows "$tmp/$1/static/steps.csv" 100 "$pid" # more than the short runs have
}
# The shell that waits for it is its parent; the command itself is what the lock names.
owner() { sed -n 's/^pid \([0-9]*\) .*/\1/p' "$tmp/$1/.lock" 2>/dev/null; }
gone() { until ! kill -0 "$1" 2>/dev/null; do sleep 0.02; done; }
says() { grep -qF "$2" "$tmp/$1.err" || { cat "$tmp/$1.err"; false; }; }
content() { (cd "$1" && find . -name .old -prune -o -name .lock -o -type f -print0 | sort -z | xargs -0 cksum 2>/dev/null); }

# ---- two into one folder ----
check "one: at work" long one
check "one: another is refused" eval '! sim one --seed 2 --force'
check "one: it says by whom" says one "folder \`$tmp/one\` is in use by process $(owner one); wait for it, end it, or give another --out."
check "one: nothing of the other" eval '! grep -rq "\"seed\": 2" "$tmp/one" --include=manifest.json'
kill -KILL "$(owner one)"; gone "$(owner one)"
check "one: that of a dead process is taken over" sim one --force
check "one: and given back" [ ! -e "$tmp/one/.lock" ] && check "one: the old one is gone" [ ! -e "$tmp/one/.old" ]

# ---- a new set beside nothing of the old one ----
check "set: both policies" sim set
echo mine >"$tmp/set/notes.txt"
check "set: one policy" sim set --force --policies static --seed 5
check "set: nothing of the old one" [ ! -e "$tmp/set/restart" ]
check "set: its table" [ "$(cut -d, -f1,5 "$tmp/set/compare.csv" | tr '\n' ' ')" = "run,seed static,5 " ]
check "set: what is no result stays" grep -q mine "$tmp/set/notes.txt"
check "set: its own input is not replaced" eval '! "$L" sim "$tmp/set/static/config/day.yaml" --out "$tmp/set" --force >/dev/null 2>"$tmp/set.err"'
check "set: and it says so" says set "is read by this run and lies among the results"

# ---- killed ----
state() { # the whole old set (seed 1), or one of seed 2 with its state; else what is wrong
    local d=$tmp/k/now m
    cmp -s <(content "$tmp/k/first") <(content "$d") && { echo old; return; }
    for m in "$d"/*/manifest.json; do
        grep -q '"seed": 2' "$m" && grep -qE '"state": "(running|complete|interrupted)"' "$m" || { echo "mixture: $m"; return; }
    done
    [ ! -e "$d/compare.csv" ] || ! grep -v '^run,' "$d/compare.csv" | cut -d, -f5 | grep -qv '^2$' || { echo "mixture: compare.csv"; return; }
    [ -e "$d/static/manifest.json" ] && [ ! -e "$d/restart" ] && echo new || echo "neither"
}
seed=${SETS_SEED:-$((EPOCHSECONDS % 100000))} kills=${SETS_KILLS:-$(whole_check && echo 12 || echo 6)}
echo "SETS_SEED=$seed"; RANDOM=$seed
mkdir "$tmp/k"; began=$(now); sim k/first --seed 1; took=$(calc_s "$began"); old=0 new=0
for i in $(seq "$kills"); do
    rm -rf "$tmp/k/now"; cp -r "$tmp/k/first" "$tmp/k/now"
    setsid "$L" sim "$tmp/day.yaml" --out "$tmp/k/now" --plots off --quiet --force --seed 2 --policies static >/dev/null 2>&1 &
    pid=$!
    sleep "$(awk "BEGIN {print $took * $RANDOM / 32768}")"
    if [ $((i % 2)) = 0 ]; then kill -KILL "$pid" 2>/dev/null; else kill -KILL -- "-$pid" 2>/dev/null; fi
    wait "$pid" 2>/dev/null
    got=$(state)
    case $got in old) old=$((old + 1)) ;; new) new=$((new + 1)) ;; *) check "killed $i: $got" false ;; esac
    check "killed $i: the next is whole" sim k/now --force --seed 3
    check "killed $i: and alone" [ "$(ls -A "$tmp/k/now" | tr '\n' ' ')" = "compare.csv compare.json compare_ops.csv compare_steps.csv restart static " ]
    check "killed $i: nothing is left beside" [ "$(ls -A "$tmp/k" | tr '\n' ' ')" = "first first.err first.out now now.err now.out " ]
done
echo "killed: $old old sets, $new new ones"

# ---- told to end: the rows say so, and what was there before waits ----
check "stopped: before" sim stop
check "stopped: at work" long stop --force
until [ -n "$(owner stop)" ]; do sleep 0.02; done
kill -INT "$(owner stop)"; wait "$pid"
check "stopped: in the table" [ "$(cut -d, -f4 "$tmp/stop/compare.csv" | sort -u | tr '\n' ' ')" = "interrupted state " ]
check "stopped: the old one waits" grep -q complete "$tmp/stop/.old/compare.csv"

# ---- a real run ----
tiny="$H/plans/tiny-2.json --model $S/models/tiny-llama.yaml --cluster $H/ranks4x2.yaml"
real() { "$L" run $tiny --backend host --ranks 2 --plots off --quiet --checkpoint-every 2${keep:-} --out "$tmp/real" "$@" 2>"$tmp/real.err" >/dev/null; }
steps_of() { ls "$tmp/real/plan/checkpoints" | sed -n 's/^step-0*//p' | sort -n | tr '\n' ' '; }
keep=,keep=3 real --steps 100000 & pid=$!; mine+=("$pid")
check "real: at work" until_rows "$tmp/real/plan/steps.csv" 9 "$pid"
check "real: three are kept" eval 'for i in 1 2 3 4 5; do [ "$(steps_of | wc -w)" = 3 ] && break; sleep 0.3; done; [ $i -lt 5 ]'
check "real: --force does not touch them" eval '! sim real --force'
check "real: and says whose they are" says real "is in use by process $(owner real)"
kill -KILL "$(owner real)"; gone "$(owner real)"; wait "$pid" 2>/dev/null
at=$(steps_of | awk '{print $NF}')
check "real: a run that ends at once keeps them" eval '! real --force --resume "$tmp/real/plan/checkpoints" --steps 1'
check "real: they are where they were" [ "$(steps_of | awk '{print $NF}')" -ge "$at" ]
at=$(steps_of | awk '{print $NF}')
check "real: it goes on from them, in their place" real --force --resume "$tmp/real/plan/checkpoints" --steps $((at + 3))
check "real: from there" [ "$(sed -n 2p "$tmp/real/plan/steps.csv" | cut -d, -f1)" = "$at" ]
check "real: two are kept unless told" [ "$(steps_of | wc -w)" = 2 ]
check "real: the old one is gone" [ ! -e "$tmp/real/.old" ]

finish
