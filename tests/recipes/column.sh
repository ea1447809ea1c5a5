# Tokens of the batch per device of the plan.
row='add a result column'
steps() {
    insert after core/io/result/columns.inc 'LUO_COLUMN(STEPS, devices_up, INT' <<'X' &&
LUO_COLUMN(STEPS, tokens_per_device, NUMBER, FILLED, "tokens / devices_used")
X
        insert after core/io/result/put_rows.c 'LUO_COL_STEPS_devices_up, row->devices_up);' <<'X' &&
    luo_table_num(table, LUO_COL_STEPS_tokens_per_device, (double)row->tokens / row->devices_used);
X
        insert after docs/results.md '| `devices_up` | whole | devices of the cluster that are up' <<'X' &&
| `tokens_per_device` | number | tokens / devices_used |
X
        sed -i -e 's/devices_used,devices_up,"$/&\n     "tokens_per_device,"/' -e 's/0\.040000000,4,4,,"/0.040000000,4,4,4,,"/' \
        tests/unit/check_rundir.c
}
show() {
    "$LUOSHU" sim scenarios/examples/small.yaml --policies static --out "$tmp/run" --plots off &&
        awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i; if (!at["tokens_per_device"]) exit 1}
            NR > 1 && $at["tokens_per_device"] * $at["devices_used"] != $at["tokens"] {exit 1} END {exit NR < 2}' "$(find "$tmp/run" -name steps.csv)" &&
        "$B/tests/unit/check_rundir" && "$B/tests/unit/check_docs"
}
