# Traffic over run time. By hand: under one plan every step carries the same, at one rate from its start to its end; so a window
# holds of each step the share of it that lies in the window. Straggler and checkpoints make steps of different length, and gaps.
"$LUOSHU" sim "$TOP/scenarios/examples/small.yaml" --policies static --set 'costs.detect_fail_s=0.1' --plots off --out out --quiet >/dev/null
awk -F, '
FILENAME ~ /steps/ { if (FNR > 1) { steps++; start[steps] = $4; end[steps] = $5 } next }
FILENAME ~ /links/ { if (FNR > 1) total[$1] = $3; next }
FNR == 1 { next }
{
    want = 0
    for (i = 1; i <= steps; i++) {
        from = start[i] > $3 ? start[i] : $3; to = end[i] < $4 ? end[i] : $4
        if (to > from) want += total[$1] / steps * (to - from) / (end[i] - start[i])
    }
    off = want - $5; if (off < 0) off = -off
    if (off > 1 + 1e-6 * total[$1]) print "window", $1, $3, "has", $5, "and not", want
    if ($3 != (was[$1] == "" ? "0.000000000" : was[$1])) print "a gap before", $1, $3
    was[$1] = $4; n[$1]++; sum[$1] += $5
}
END {
    for (link in n) {
        links++; windows = n[link]; off = sum[link] - total[link]; if (off < 0) off = -off
        if (off > n[link]) print link, "carried", total[link], "and not", sum[link]
        if (was[link] + 0 < end[steps] + 0) print link, "ends at", was[link]
    }
    print steps, "steps,", links, "links and directions,", windows, "windows each"
}' out/static/steps.csv out/static/links.csv out/static/link_windows.csv
