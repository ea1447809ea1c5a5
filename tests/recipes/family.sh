# Decoders with learned positions and gated units: no family has that by default.
row='add a model family'
steps() {
    cat >>core/graph/families.inc <<'X' &&
LUO_FAMILY(GATED, "gated", decoder, LAYERS | ATTENTION | TEXT, LAYER, 1e-5, SWIGLU, LEARNED, 0, 0, true, true,
           true)
X
        sed -i 's/^| `family` |\(.*\)`mlp`/| `family` |\1`mlp` `gated`/' docs/formats.md &&
        sed -e 's/tiny-llama/tiny-gated/' -e 's/family: llama/family: gated/' -e '/kv_heads/d' -e 's/^#.*/# Of no system: a test of families./' scenarios/models/tiny-llama.yaml >scenarios/models/tiny-gated.yaml
}
show() { # its defaults count, and its graph is planned
    "$LUOSHU" explain scenarios/models/tiny-gated.yaml >"$tmp/model" &&
        "$LUOSHU" plan uniform --model scenarios/models/tiny-gated.yaml --cluster scenarios/clusters/tiny8.yaml --seq-length 128 --out "$tmp/plan.json" &&
        "$LUOSHU" explain "$tmp/plan.json" --model scenarios/models/tiny-gated.yaml --cluster scenarios/clusters/tiny8.yaml --program 0 >"$tmp/program" &&
        grep -q 'mlp\.gate' "$tmp/program" && grep -q 'wpe' "$tmp/program" && "$B/tests/unit/check_docs"
}
