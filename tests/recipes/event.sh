# Devices at half of their speed, whatever the scenario says of speeds.
row='add an event kind'
kinds=core/run/events/events_kinds.c
steps() {
    sed -i 's/^    X(CAUSES, "causes",/    X(HALF, "half_speed", 1, 0, 0, 0, DEVICES, NONE, NONE, devices_down, nothing, half_speed) \\\n&/' \
        core/run/scenario.h &&
        insert before "$kinds" '/* ---- the table ---- */' <<'X' &&
static void apply_half_speed(const luo_effect *f, luo_burden *burden)
{
    (void)f;
    burden->slowdown *= 2;
}

X
        sed -i 's/| `kind` | `straggler` `fail` `leave` `join` `link` `flap` `lengths` |/| `kind` | `straggler` `fail` `leave` `join` `link` `flap` `lengths` `half_speed` |/' docs/formats.md
}
compiles() { # EDIT: scenario.h with another row
    mkdir -p "$tmp/core/run" && sed "$1" core/run/scenario.h >"$tmp/core/run/scenario.h" &&
        ! cmp -s core/run/scenario.h "$tmp/core/run/scenario.h" &&
        "${CC:-cc}" -std=c11 -D_GNU_SOURCE -I"$tmp" -I. -fsyntax-only "$kinds"
}
show() { # it is on for three steps, twice as long each; a row without functions, or with none that there are, is no program
    cat >"$tmp/half.yaml" <<X &&
schema: luoshu.scenario/1
name: half
seed: 1
cluster: $PWD/scenarios/clusters/tiny2.yaml
model: $PWD/scenarios/models/tiny-llama.yaml
plan: $PWD/scenarios/plans/tiny2.json
extent: {steps: 8}
data: {lengths: {kind: fixed, tokens: 64}}
policies: [{name: static}]
events:
  - {id: dim, kind: half_speed, target: "device:[0-1]", at_step: 3, duration_steps: 3}
X
        "$LUOSHU" check "$tmp/half.yaml" && "$LUOSHU" sim "$tmp/half.yaml" --out "$tmp/run" --plots off &&
        grep -q ',dim,fired,half_speed,' "$tmp/run/static/events.csv" &&
        awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i; next} {s = $at["step"]; took[s] = $at["step_s"]}
            END {exit !(took[2] > 0 && took[7] < 1.001 * took[2] && took[3] > 1.2 * took[2] && took[5] > 1.2 * took[2])}' "$tmp/run/static/steps.csv" &&
        compiles 's/nothing, down)/nothing, down) /' && "$B/tests/unit/check_docs" || return 1
    ! compiles 's/, devices_down, nothing, half_speed)/)/' 2>"$tmp/short" && ! compiles 's/nothing, half_speed)/nothing, forgotten)/' 2>"$tmp/unknown" &&
        grep -q 'apply_forgotten' "$tmp/unknown"
}
