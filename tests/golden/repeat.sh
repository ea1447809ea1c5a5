# check-more
# Two runs with one seed write the same bytes, wall_ columns and manifests aside; another seed does not
# change a scenario without draws; with noise it does.
run() { "$LUOSHU" sim "$TOP/scenarios/examples/small.yaml" --out "$1" --plots off --quiet "${@:2}" >/dev/null 2>&1 || echo "exit $? of $1"; }
# Tables without wall_ columns, the trace unpacked, plans and summaries.
bytes() {
    (cd "$1" && for f in $(find . -name '*.csv' -o -name 'summary.json' -o -name 'plan-*.json' | sort); do
        echo "== $f"
        awk -F, 'FNR == 1 {for (i = 1; i <= NF; i++) keep[i] = $i !~ /^wall_/} {s = ""; for (i = 1; i <= NF; i++) if (keep[i] || FILENAME !~ /csv$/) s = s $i ","; print s}' "$f"
    done; for f in $(find . -name 'trace.json.gz' | sort); do gunzip -c "$f"; done) | md5sum
}
run a; run b
run c --set noise.compute_sigma=0.05 --seed 1; run d --set noise.compute_sigma=0.05 --seed 1
run e --set noise.compute_sigma=0.05 --seed 2
[ "$(bytes a)" = "$(bytes b)" ] && echo "same seed: same bytes" || echo "same seed: OTHER BYTES"
[ "$(bytes c)" = "$(bytes d)" ] && echo "same seed, noise: same bytes" || echo "same seed, noise: OTHER BYTES"
[ "$(bytes c)" != "$(bytes e)" ] && echo "other seed, noise: other bytes" || echo "other seed, noise: SAME BYTES"
[ "$(find a -name '*.csv' | wc -l)" -gt 15 ] && echo "tables compared"
