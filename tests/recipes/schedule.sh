# 1F1B with one more forward in flight on each stage.
row='add a schedule'
steps() {
    cat >>core/graph/schedule/schedules.inc <<'X' &&
LUO_SCHED(EAGER, "eager_1f1b", false, 0, eager, ASKED)
X
        sed -i 's/`zb_h2` | - | required/`zb_h2` `eager_1f1b` | - | required/' docs/formats.md &&
        sed -i '/^| schedule |/s/`zb_h2` if asked for/`zb_h2`, `eager_1f1b` if asked for/' docs/planners.md &&
        insert before core/graph/schedule/sched.c 'static int64_t warm_up_twice(' <<'X'
static int64_t warm_up_eager(int32_t S, int32_t s, int32_t m, int32_t v)
{
    (void)m, (void)v;
    return S - s;
}

X
}
show() { # a plan may name it; it keeps more activations than 1F1B
    at="--model scenarios/models/tiny-llama.yaml --cluster scenarios/clusters/tiny8.yaml"
    "$LUOSHU" plan uniform $at --tp 1 --pp 4 --dp 2 --micro-batch-size 1 --schedule 1f1b --seq-length 128 --out "$tmp/1f1b.json" &&
        sed 's/"1f1b"/"eager_1f1b"/' "$tmp/1f1b.json" >"$tmp/eager.json" && ! cmp -s "$tmp/1f1b.json" "$tmp/eager.json" || return 1
    for p in 1f1b eager; do
        "$LUOSHU" sim "$tmp/$p.json" $at --steps 2 --out "$tmp/$p" --plots off || return 1
        awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "activations_bytes") c = i} NR > 1 {n += $c} END {print n}' "$(find "$tmp/$p" -name memory.csv)" >"$tmp/$p.bytes"
    done
    [ "$(cat "$tmp/eager.bytes")" -gt "$(cat "$tmp/1f1b.bytes")" ] && "$B/tests/unit/check_docs"
}
