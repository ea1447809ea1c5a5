# A rank killed with SIGKILL in the middle: named; with --max-restarts the run goes on from its last
# checkpoint on the devices left, and ends where the undisturbed run ends.
D=$HERE/host W="--backend host --model $TOP/scenarios/models/tiny-llama.yaml --cluster $D/eight.yaml"
kids() { local c; for c in $(pgrep -P "$1"); do echo "$c"; kids "$c"; done; }
ranks() { local p; for p in $(kids "$1"); do [ "$(cat /proc/$p/comm 2>/dev/null)" = luoshu-rank ] && echo "$p"; done; }
k() { # DIR OPTIONS: kills a rank after step 15
    local dir=$1 n=0; shift
    "$LUOSHU" run "$D/plan8.json" $W --dtype f64 --steps 60 --checkpoint-every 10 --out "$dir" \
        --plots off --quiet "$@" >"$dir.out" 2>&1 & local pid=$!
    until [ "$(wc -l 2>/dev/null <"$dir/plan/steps.csv")" -gt 15 ] 2>/dev/null; do
        sleep 0.02; n=$((n + 1)); [ $n -lt 3000 ] || break
    done
    kill -9 "$(ranks $pid | sed -n 4p)"; wait $pid; echo "$dir: exit $?"
}
mask() { sed -E 's/device [0-9]+/device D/g; s/rank [0-9]+, process [0-9]+ on [^)]*/rank R/; s/step [0-9]+/step S/g; s/noticed at [0-9.]+ s/noticed at T/' "$@"; }
k alone; mask alone.out; grep -h '"state"\|"exit"' alone/plan/manifest.json
k goes --max-restarts 2
grep -h '"state"\|"exit"' goes/plan/manifest.json
cut -d, -f4- goes/plan/events.csv | grep -v straggler | sed -E 's/device:[0-9]+/device:D/' | mask
"$LUOSHU" run "$D/plan8.json" $W --dtype f64 --steps 60 --out calm --plots off --quiet >/dev/null; echo "calm: exit $?"
"$LUOSHU" run "$D/four.json" $W --dtype f64 --steps 60 --resume alone/plan/checkpoints --out resumed \
    --plots off --quiet >/dev/null; echo "resumed: exit $?"
last() { awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "loss") k = i} END {print $k}' "$1/plan/steps.csv"; }
for d in goes resumed; do
    awk -v a="$(last $d)" -v b="$(last calm)" 'BEGIN {d = a / b - 1; if (d < 0) d = -d
        print "final loss within 1e-10: " (d <= 1e-10 ? "yes" : d)}'
done
grep -c . goes/plan/steps.csv | awk '{print "steps lost: " ($1 - 61 <= 10 ? "10 at most" : $1 - 61)}'
[ -z "$(ranks $$)" ] && echo "no process is left"
