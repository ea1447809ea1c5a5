# What was moved, written or read when, from the table of a run as it stands.
row='add a figure'
steps() {
    cat >plots/traffic.gp <<'X' &&
# Bytes of what a run did beside its steps.
# Reads timeline.csv.
no_runs = 1
i = strlen(ARG0); while (i > 0 && ARG0[i:i] ne '/') { i = i - 1 }; load ARG0[1:i].'common.gp'
title = seen('Bytes that a run moved beside its steps', 'Bytes beside the steps')
do for [fmt in formats] {
    eval open_of(fmt)
    eval set_y('bytes')
    plot run.'/timeline.csv' using (column('t_start_s')):(column('bytes')) with impulses title 'bytes'
    unset output
}
X
        sed -i 's/^    X(LENGTHCDF,/    X(TRAFFIC, "traffic", TABLE_TIMELINE) \\\n&/' core/io/plot/plots.c &&
        insert after plots/README.md '| `links` | run |' <<'X' &&
| `traffic` | run | time; bytes | `timeline.csv` |
X
    sed -i 's/`errorbox`, /&`traffic`, /' tests/golden/meant.stderr tests/golden/usage_verbs.stderr
}
show() {
    "$LUOSHU" sim scenarios/examples/small.yaml --policies static --out "$tmp/run" --plots off &&
        "$LUOSHU" plot "$tmp/run" --figure traffic && [ -s "$(find "$tmp/run" -name traffic.svg)" ] &&
        "$B/tests/unit/check_docs" && tests/golden.sh meant usage_verbs
}
