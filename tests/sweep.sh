#!/usr/bin/env bash
# A sweep that is killed at random moments and started again, one in parts by hand and by mpirun, and one of another
# number of processes: the table has the same bytes.
#     tests/sweep.sh; LUO_SEED=n plays one again, KILLS (20)
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
RANDOM=${LUO_SEED:=$(($(date +%s) % 30000))}
bad=0
fail() { echo "sweep: LUO_SEED=$LUO_SEED: $*"; bad=1; }
same() { cmp -s once/sweep.csv "$1/sweep.csv" || fail "$1: another table"; }
sed -e "s|\.\./|$top/scenarios/|g" -e '/^events/,/^  - {id/d' "$top/scenarios/examples/small.yaml" >small.yaml
echo 'processes: [{id: p, kind: straggler, target: "device:[0-7]", distribution: exponential, mean_s: 0.4, life: {distribution: exponential, mean_s: 0.1}, slowdown: 3}]' >>small.yaml
begin() { # DIR OPTIONS.. &: in the place of the shell, which is to be killed itself
    local to=$1
    shift
    exec "$LUOSHU" sweep small.yaml --grid processes[0].slowdown=2,3 --grid model.layers=4:8:2 --seeds 1-4 --plots off \
        --out "$to" "$@"
}
sweep() { (begin "$@"); }
ms() { echo $(($(date +%s%N) / 1000000)); }

began=$(ms)
sweep once --jobs 2 >once.txt 2>once.err || fail "exit $?: $(cat once.err)"
took=$(($(ms) - began + 1))
rows=$(grep -c . once/sweep.csv)
[ "$rows" = 49 ] || fail "$rows lines, not 1 + 2 * 3 * 4 * 2"

# Each time some of the runs are made; a kill may come before, in and behind every one of them. At last it ends.
went_on=0
for ((i = 0; i < ${KILLS:=20}; i++)); do
    begin killed --jobs 2 >/dev/null 2>&1 &
    child=$!
    sleep "$(awk -v ms=$((RANDOM % (took / 2 + 1))) 'BEGIN {printf "%.3f", ms / 1000}')"
    kill -KILL $child 2>/dev/null
    wait $child 2>/dev/null
    have=$(grep -c complete killed/sweep-parts/1-of-1/rows.csv 2>/dev/null)
    [ "${have:-0}" -gt 0 ] && [ ! -e killed/sweep.csv ] && went_on=$((went_on + 1))
    [ -e killed/sweep.csv ] && { same killed; rm -r killed; }
done
sweep killed --jobs 1 >killed.txt 2>/dev/null || fail "exit $? behind the kills"
same killed
[ $went_on -gt 0 ] || fail "no kill left a sweep half done"
cmp -s <(sed 's/once/killed/' once.txt) killed.txt || fail "another answer behind the kills"

# A row that is torn goes, and its unit is made again; one that is whole stays.
head -c -30 killed/sweep-parts/1-of-1/rows.csv >torn && cp torn killed/sweep-parts/1-of-1/rows.csv && rm killed/sweep.csv
sweep killed >/dev/null 2>&1 || fail "exit $? behind a torn row"
same killed

# Parts by hand, at the same time: whoever is last makes the table.
for part in 1 2 3; do sweep parts --part $part/3 --jobs 1 >parts.$part 2>&1 & done
wait
same parts
[ "$(cat parts.? | grep -c ^best)" -ge 1 ] || fail "no part has told the answer: $(cat parts.?)"
sweep parts --part 2/3 >again 2>&1 && grep -q ^best again || fail "a part that is done does not tell the answer"

# Begun by one, killed, ended by others: what a journal has nobody makes again.
begin mixed --jobs 1 >/dev/null 2>&1 &
child=$!
sleep "$(awk -v ms=$((took / 2)) 'BEGIN {printf "%.3f", ms / 1000}')"
kill -KILL $child 2>/dev/null
wait $child 2>/dev/null
cp mixed/sweep-parts/1-of-1/rows.csv mixed.rows
for part in 1 2; do sweep mixed --part $part/2 --jobs 1 >/dev/null 2>&1 || fail "part $part: exit $?"; done
same mixed
cmp -s mixed.rows mixed/sweep-parts/1-of-1/rows.csv || fail "the journal of another part has changed"

# Ranks and tasks of an array by the environment alone.
for task in 4 6; do
    for rank in 0 1; do
        SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_MIN=4 SLURM_ARRAY_TASK_STEP=2 SLURM_ARRAY_TASK_COUNT=2 \
            OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 sweep array --jobs 1 >/dev/null 2>&1 || fail "array: exit $?"
    done
done
same array
[ "$(ls array/sweep-parts | tr '\n' ' ')" = "1-of-4 2-of-4 3-of-4 4-of-4 " ] || fail "parts of the array: $(ls array/sweep-parts)"
if command -v mpirun >/dev/null; then
    export -f begin
    LUOSHU=$LUOSHU mpirun --allow-run-as-root --oversubscribe -n 2 bash -c 'begin mpi' >mpi.txt 2>&1 ||
        fail "mpirun: $(tail -n 3 mpi.txt)"
    same mpi
fi

# SIGTERM: what is done stays, and the exit says so.
begin asked --jobs 1 >/dev/null 2>&1 &
child=$!
sleep "$(awk -v ms=$((took / 2)) 'BEGIN {printf "%.3f", ms / 1000}')"
kill -TERM $child
wait $child
code=$?
[ $code = 143 ] || [ -e asked/sweep.csv ] || fail "SIGTERM: exit $code"
sweep asked >/dev/null 2>&1 || fail "exit $? behind SIGTERM"
same asked

# One of its processes is killed: told, and what the others did is kept.
begin ended --jobs 2 >/dev/null 2>ended.err &
child=$!
until grep -q complete ended/sweep-parts/1-of-1/rows.csv 2>/dev/null || ! kill -0 $child; do sleep 0.01; done
kill -KILL "$(pgrep -P $child | head -n 1)"
wait $child
code=$?
[ $code = 4 ] && grep -q "under seed .* has ended (signal 9); the same command goes on" ended.err || fail "a killed process: exit $code, $(cat ended.err)"
sweep ended >/dev/null 2>&1 || fail "exit $? behind a killed process"
same ended

# A process that works on a part keeps others from it.
begin busy --jobs 1 >/dev/null 2>&1 &
child=$!
while [ ! -e busy/sweep-parts/1-of-1/rows.csv ]; do sleep 0.01; done
sweep busy >busy.out 2>busy.err
code=$?
grep -q "owns\|in use\|process" busy.err && [ $code = 2 ] || [ -e busy/sweep.csv ] || fail "two on one part: exit $code, $(cat busy.err)"
wait $child
same busy
[ $bad = 0 ] && echo "sweep: LUO_SEED=$LUO_SEED, $KILLS kills, $went_on of them in the middle; parts, ranks, arrays: the same table"
exit $bad
