#!/usr/bin/env bash
# Real runs whose processes are killed, stopped and left alone. A3 and A15 (docs/architecture/tests.md): none
# hangs without a word, none leaves a process behind, and what was written can be read.
set -u
. tests/runs.sh
steps=40 every=5
tiny="$H/plans/tiny-4.json --model $S/models/tiny-llama.yaml --cluster $H/ranks4x2.yaml --dtype f64"
start() { # OUT arguments..: a run in the background; pid
    local out=$1; shift
    "$L" run "$@" --seed 3 --backend host --ranks ${nranks:-4} --plots off --quiet --limit-s 600 --out "$tmp/$out" \
        >"$tmp/$out.out" 2>"$tmp/$out.err" &
    pid=$!
    mine+=("$pid")
    table=$tmp/$out/plan
}
at_work() { until_rows "$table/steps.csv" "$1" "$pid" && mapfile -t rank < <(ranks "$pid") && [ ${#rank[@]} = 4 ]; }
ends() { # WANTED_EXIT
    wait "$pid"; local rc=$?
    [ $rc = "$1" ] || { echo "exit $rc, not $1"; head -n 5 "$tmp"/*.err; false; }
}

# ---- undisturbed ----
start quiet $tiny --steps $steps --checkpoint-every $every
check "undisturbed" ends 0

# ---- one is killed ----
start killed $tiny --steps $steps --checkpoint-every $every --max-restarts 1
check "killed: it was at work" at_work 9
all=$(family "$pid"); killed_at=$(now)
kill -KILL "${rank[2]}"
events=$table/events.csv
check "killed: in the table" until_says "$events" process-1 "$pid"
echo "killed: noticed after $(calc_s "$killed_at") s"
check "killed: the run ends" ends 0
check "killed: which device" grep -qE '^[0-9]+,[0-9.]+,[0-9]+,process-1,fired,fail,device:2,' "$events"
check "killed: noticed by its end, before the watchdog says that a rank is stuck" eval '! grep -q stuck "$events" "$tmp/killed.err"'
check "killed: which process" grep -q "device 2 (rank 2, process ${rank[2]} on .*) died in step" "$events"
check "killed: its device has left" eval '! grep -qE "\"devices\": *\[[^]]*2[^0-9]" "$table/plans/plan-001.json"'
check "killed: complete" [ "$(state_of "$table")" = '"state": "complete"' ]
check "killed: all steps" [ "$(curve "$table" | wc -l)" = $steps ]
redone=$(grep -o '"steps_redone": [0-9]*' "$table/summary.json" | grep -o '[0-9]*$')
echo "killed: $redone steps were done again"
check "killed: no more was lost than since the checkpoint" [ "$redone" -le $((every + 1)) ]
check "killed: the same curve" near 1e-10 <(curve "$table") <(curve "$tmp/quiet/plan")
check "killed: nobody is left" left_of $all

# ---- one is killed, and no restart is allowed ----
start no-more $tiny --steps $steps --checkpoint-every $every --max-restarts 0
check "no restart: it was at work" at_work 9
all=$(family "$pid")
kill -KILL "${rank[1]}"
check "no restart: exit 4" ends 4
check "no restart: device and checkpoint are named" grep -qE \
    "^luoshu: error: device 1 died in step [0-9]+ and no more restarts are allowed .*; step [0-9]*[05] can be resumed with \`--resume $tmp/no-more/plan/checkpoints\`\." "$tmp/no-more.err"
check "no restart: failed" [ "$(state_of "$table")" = '"state": "failed"' ]
check "no restart: nobody is left" left_of $all
start more $tiny --steps $steps --resume "$tmp/no-more/plan/checkpoints"
check "no restart: and it can" ends 0
check "no restart: the same curve" near 1e-10 <(curve "$table") <(curve "$tmp/quiet/plan" | tail -n "$(curve "$table" | wc -l)")

# ---- one is killed while the ranks start; then one of two, on a cluster of eight ----
# Rank 1 comes 2 s late, so that rank 0 still waits for it when it is killed.
mkdir "$tmp/late"
printf '#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != 1 ] || sleep 2\nexec "$@"\n' >"$tmp/late/late"
printf '#!/bin/bash\nfor a; do case $a in */luoshu-rank) set -- "$@" %s ;; esac; set -- "$@" "$a"; shift; done\nexec %s "$@"\n' \
    "$tmp/late/late" "$(command -v mpirun)" >"$tmp/late/mpirun"
chmod +x "$tmp/late/"*
start_two() { # OUT MAX_RESTARTS arguments..
    PATH=$tmp/late:$PATH nranks=2 start "$1" "$H/plans/tiny-2.json" --model "$S/models/tiny-llama.yaml" --cluster "$H/ranks4x2.yaml" --dtype f64 \
        --steps 20 --checkpoint-every $every --max-restarts "$2"
}
one_is_there() { until mapfile -t rank < <(ranks "$pid") && [ ${#rank[@]} -ge 1 ]; do kill -0 "$pid" 2>/dev/null || return 1; done; }
start_two first 2
check "start: a rank is there" one_is_there
kill -KILL "${rank[0]}"
check "start: it is told" until_says "$table/events.csv" "a process died while the ranks started" "$pid"
check "start: then they were at work" until_rows "$table/steps.csv" 8 "$pid"
all=$(family "$pid"); mapfile -t rank < <(ranks "$pid")
kill -KILL "${rank[1]}"
check "two ranks: the run ends" ends 0
check "two ranks: two restarts" grep -q '"restarts": 2' "$table/summary.json"
check "two ranks: on the two devices of a whole node" \
    [ "$(grep -oE '"devices": *\[[0-9]+\]' "$table/plans/plan-001.json" | grep -o '[0-9]*' | tr '\n' ' ')" = "2 3 " ]
check "two ranks: nobody is left" left_of $all
start_two none 0
check "no start: a rank is there" one_is_there
all=$(family "$pid")
kill -KILL "${rank[0]}"
check "no start: exit 4" ends 4
check "no start: it says so" grep -q "a process died in step 0 and no more restarts are allowed" "$tmp/none.err"
check "no start: failed" [ "$(state_of "$table")" = '"state": "failed"' ]
check "no start: nobody is left" left_of $all

# ---- one hangs ----
# A larger model, so that a rank is stopped inside a step and not between two.
start hangs "$H/plans/ranks-4.json" --model "$H/llama-5m.yaml" --cluster "$H/ranks8.yaml" --steps 100 --stuck-s 2
check "hangs: it was at work" at_work 2
sleep 0.1
all=$(family "$pid"); stopped_at=$(now)
kill -STOP "${rank[3]}"
check "hangs: exit 6" ends 6
echo "hangs: ended after $(calc_s "$stopped_at") s, 2 of them the watchdog's"
# device and instruction that wait, for whom, and who gives no answer
check "hangs: who waits for whom" grep -qE "^luoshu: error: stuck for [0-9.]+ s in step [0-9]+: .*device [0-2] waits in [a-z_]+ .*instruction [0-9]+\) .*device 3.*it does not answer \(process ${rank[3]} on " "$tmp/hangs.err"
grep -h "stuck for" "$tmp/hangs.err"
check "hangs: nobody is left" left_of $all

# ---- the run itself is killed ----
# The command, whose child then ends in order; that child, which is told to end, or which cannot.
for whom in command interrupted coordinator; do
    start "$whom" $tiny --steps 100000 --checkpoint-every $every
    check "$whom killed: it was at work" at_work 12
    all=$(family "$pid")
    case $whom in
    command) killed=$pid sig=KILL wanted=interrupted code=137 ;;
    interrupted) killed=$(pgrep -P "$pid") sig=INT wanted=interrupted code=130 ;;
    coordinator) killed=$(pgrep -P "$pid") sig=KILL wanted=failed code=4 ;;
    esac
    kill -$sig "$killed"
    check "$whom killed: exit" ends $code 2>/dev/null
    check "$whom killed: nobody is left" left_of $all
    check "$whom killed: rows" whole $(find "$table" -name '*.csv' ! -path '*/config/*')
    check "$whom killed: manifest" [ "$(state_of "$table")" = "\"state\": \"$wanted\"" ]
done
check "coordinator killed: what died, and how to go on" grep -qE \
    "^luoshu: error: the process of policy \`plan\` was ended from outside by signal 9 .* step [0-9]*[05] can be resumed with \`--resume $table/checkpoints\`\.$" "$tmp/coordinator.err"
at=$(ls "$table/checkpoints" | sed -n 's/^step-0*//p' | sort -n | tail -n 1)
start goes-on $tiny --steps $((at + 2)) --resume "$table/checkpoints"
check "killed: its checkpoint can be resumed" ends 0
check "killed: two steps more" [ "$(column "$table/steps.csv" step | tr '\n' ' ')" = "$at $((at + 1)) " ]

finish
