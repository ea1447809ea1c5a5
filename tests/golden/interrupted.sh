# SIGINT and SIGTERM: whole rows, manifest `interrupted`, exit 128 + n (docs/results.md#exit-codes-and-messages).
i() { # SIGNAL
    "$LUOSHU" sim "$TOP/scenarios/examples/small.yaml" --set extent.steps=1000000000 --out "$1" \
        --plots off --quiet >out 2>err &
    local pid=$! n=0
    for p in static restart; do # both have begun
        until [ "$(wc -l 2>/dev/null <"$1/$p/steps.csv")" -gt 20 ] 2>/dev/null; do
            sleep 0.02; n=$((n + 1)); [ $n -lt 1000 ] || break
        done
    done
    kill "-$1" $pid; wait $pid; echo "$1: exit $?"; cat out err
    for p in "$1"/*/; do
        grep -h '"state"\|"exit"' "$p/manifest.json"
        awk -F, 'FNR == 1 {n = NF} NF != n {print FILENAME ": cut row " FNR}' "$p/steps.csv" "$p/timeline.csv"
    done
}
i INT
i TERM
