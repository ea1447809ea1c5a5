# check-more
# Steps are remembered across seeds and policies (sim/share.h): every policy and seed has the bytes that it has as a
# command of its own, but for wall times, whatever --jobs. Devices become slow and fail: a step is asked for in several worlds.
sed -e "s|\.\./|$TOP/scenarios/|g" -e 's/restart_s: 1/restart_s: 0.01/' -e '/^events/,/^  - {id/d' "$TOP/scenarios/examples/small.yaml" >small.yaml
cat >>small.yaml <<'END'
processes:
  - {id: slow, kind: straggler, target: "device:[0-7]", distribution: exponential, mean_s: 2, life: {distribution: exponential, mean_s: 0.2}, slowdown_between: [1.3, 4]}
  - {id: fail, kind: fail, target: "device:[0-7]", distribution: exponential, mean_s: 8, life: {distribution: exponential, mean_s: 0.3}}
END
how="--set extent.steps=150 --set costs.detect_fail_s=0.01 --set costs.process_start_s=0.01 --plots off --quiet --trace-steps none"
for jobs in 1 3; do "$LUOSHU" sim small.yaml --seeds 1-3 --jobs $jobs $how --out "together$jobs" >/dev/null; echo "exit $?"; done
for seed in 1 2 3; do for policy in static restart; do
    "$LUOSHU" sim small.yaml --seed $seed --policies $policy $how --out "alone/$seed-$policy" >/dev/null
    for table in steps timeline events devices links comm memory switches truth; do
        wall=; [ $table = steps ] && wall='1!s/,[^,]*\(,[^,]*\)$/\1/'
        for jobs in 1 3; do
            cmp <(sed "$wall" "alone/$seed-$policy/$policy/$table.csv") <(sed "$wall" "together$jobs/seed$seed/$policy/$table.csv") ||
                echo "seed $seed, $policy, $table, $jobs jobs: differ"
        done
    done
    cmp "alone/$seed-$policy/$policy/summary.json" "together3/seed$seed/$policy/summary.json" && echo "seed $seed, $policy: $(tail -n +2 "alone/$seed-$policy/$policy/events.csv" | grep -c fired) events, the same"
done; done
