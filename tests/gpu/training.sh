# tests/gpu/training.sh: tokens/s of training steps, by luoshu, by PyTorch and by the simulator's
# prediction; sourced by bench.sh and visit.sh. Pre: common.sh; set are tmp (a folder), train (the CSV that
# rows are added to), steps, type, python, device, calibration (a folder, may be missing), LUOSHU, and a
# function say. Sets bad=1 where something failed.
#
# Flop of a token: 6 N + 12 L h s, where N is parameters without the embedding (a look-up), L layers, h
# heads times head size, s tokens of a sequence (PaLM, appendix B); `half` counts the half of the
# attention that a causal mask leaves: 6 N + 6 L h s. MFU is that times tokens/s over the peak in
# bf16 of the device's profile (scenarios/profiles), not a measured one.
# A model that does not fit runs with fewer layers, in luoshu and in PyTorch; the count is stated.

# ---- the device's profile: its peak, and memory for predictions ----
profile_of() { # DEVICE: name of a profile, or nothing
    case $1 in
    *GH200*) echo gh200 ;; *H200*) echo h200 ;; *H100*) echo h100 ;; *H800*) echo h800 ;; *H20*) echo h20 ;;
    *B200*) echo b200 ;; *A100*80GB*) echo a100-80 ;; *A100*) echo a100-40 ;;
    *V100*32GB*) echo v100-32 ;; *V100*) echo v100-16 ;;
    esac
}
peak_of() { # PROFILE: TFLOP/s of products of the type
    awk -v key="peak_${type}_tflop_per_s" '$3 == key {getline; print $2; exit}' "scenarios/profiles/$1.yaml"
}
cluster() { # PROFILE: one device
    cat <<END
schema: luoshu.cluster/1
name: bench
node_groups:
  - name: gpu
    nodes: 1
    devices_per_node: 1
    profile: $PWD/scenarios/profiles/$1.yaml
    racks: [r0]
    scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 300, latency_us: 1.0}
    pcie: {bandwidth_gbytes_per_s: 50, latency_us: 1.5, devices_per_switch: 1, sockets: 1, socket_gbytes_per_s: 60}
    host: {cores: 16, memory_gib: 128, disk_read_gbytes_per_s: 1, disk_write_gbytes_per_s: 1}
END
}

# ---- training ----
plan() { # MODEL LAYERS SEQUENCE SEQUENCES MICRO_BATCHES
    cat <<END
{"schema": "luoshu.plan/1", "name": "bench", "model": "$1", "cluster": "bench",
 "layers": $2, "devices": 1, "dtype": "$type", "sequence_tokens": $3, "micro_batch_sequences": $4,
 "zero": 0, "sequence_parallel": false, "schedule": {"kind": "1f1b", "chunks": 1},
 "pipelines": [{"micro_batches": $5, "stages": [{"layers": [[0, $2]], "devices": [0]}]}]}
END
}
# One long document of tokens of the whole vocabulary, so that each sequence is one document. Perl is
# in every Debian.
tokens() { # VOCAB SEQUENCES*LENGTH
    perl -e 'srand 7; my ($v, $n) = @ARGV; print pack "v*", map {int rand $v} 1 .. 4096 while ($n -= 4096) > -4096' "$1" "$2"
}
median_step() { # steps.csv: of the last two thirds
    awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "step_s") c = i; next} {x[n++] = $c}
        END {m = int(n / 3); k = 0; for (i = m; i < n; i++) y[k++] = x[i]
            for (i = 1; i < k; i++) for (j = i; j > 0 && y[j] < y[j - 1]; j--) {t = y[j]; y[j] = y[j - 1]; y[j - 1] = t}
            if (k) print (k % 2 ? y[(k - 1) / 2] : (y[k / 2] + y[k / 2 - 1]) / 2)}' "$1"
}
luoshu_step() { # -> seconds; or the run's exit code, what it said in $tmp/log
    rm -rf "$tmp/run"
    "$LUOSHU" run "$tmp/plan.json" --backend cuda --ranks 1 --steps "$steps" --model "$tmp/model.yaml" \
        --cluster "$tmp/cluster.yaml" --data "$tmp/tokens.u16" --out "$tmp/run" --plots off \
        --trace-steps none --quiet >"$tmp/log" 2>&1 || return
    median_step "$tmp/run/plan/steps.csv"
}
predicted_step() { # -> seconds by the simulator, on the calibrated profile
    local c=$calibration stack=()
    [ -f "$c/cluster.yaml" ] || return
    [ ! -f "$c/stack.yaml" ] || stack=(--stack "$c/stack.yaml")
    "$LUOSHU" sim "$tmp/plan.json" --model "$tmp/model.yaml" --cluster "$c/cluster.yaml" "${stack[@]}" --out "$tmp/sim" \
        --plots off --trace-steps none --quiet --force >"$tmp/log" 2>&1 ||
        { say "no prediction: $(tail -n 1 "$tmp/log")" >&2; return; }
    median_step "$tmp/sim/plan/steps.csv"
}

header="by,variant,model,layers,of_layers,parameters,sequence,micro_batch_sequences,micro_batches,type,step_s,tokens_per_s,flop_per_token,flop_per_token_half,peak_tflop_per_s,mfu,mfu_half,predicted_step_s,prediction_error,attention"
row() { # BY VARIANT STEP_S PREDICTED [ATTENTION]; the rest from the model at hand
    awk -v OFS=, -v by="$1" -v variant="$2" -v s="$3" -v p="$4" -v model="$name" -v l="$layers" -v all="$all" \
        -v n="$parameters" -v e="$embedding" -v a="$width" -v q="$sequence" -v b="$sequences" -v m="$micro" \
        -v t="$type" -v peak="$peak" -v attention="${5:-}" 'BEGIN {
        rate = q * b * m / s; f = 6 * (n - e) + 12 * l * a * q; h = 6 * (n - e) + 6 * l * a * q
        full = peak ? sprintf("%.4f", f * rate / peak / 1e12) : ""; half = peak ? sprintf("%.4f", h * rate / peak / 1e12) : ""
        print by, variant, model, l, all, n, q, b, m, t, sprintf("%.6f", s), sprintf("%.1f", rate),
            sprintf("%.0f", f), sprintf("%.0f", h), peak, full, half, p, p ? sprintf("%.4f", p / s - 1) : "", attention}' >>"$train"
    tail -n 1 "$train" | awk -F, '{printf "%-7s %-18s %-12s %3d of %d layers  %9.4f s  %10.0f tokens/s  MFU %s (half %s)%s\n",
        $1, $2, $3, $4, $5, $11, $12, $16 != "" ? sprintf("%.1f %%", 100 * $16) : "-", $17 != "" ? sprintf("%.1f %%", 100 * $17) : "-",
        $18 ? sprintf("  predicted %.4f s (%+.1f %%)", $18, 100 * $19) : ""}' | while IFS= read -r line; do say "$line"; done
}
key() { # NAME: of the model file at hand
    sed -n "s/^$1: *\\([^ #]*\\).*/\\1/p" "$tmp/model.yaml"
}
describe() { # what `row` needs, of $tmp/model.yaml with $layers layers
    parameters=$("$LUOSHU" explain "$tmp/model.yaml" | sed -n 's/^model .*: \([0-9]*\) parameters.*/\1/p')
    embedding=$(($(key vocab) * $(key hidden)))
    width=$("$LUOSHU" explain "$tmp/model.yaml" | awk '/^layers/ {for (i = 1; i < NF; i++) {if ($i == "heads") h = $(i + 1); if ($i == "head_dim") d = $(i + 1)}} END {print h * d}')
}
# With as many layers as fit: all, or fewer until the run is not refused for want of memory.
train_luoshu() {
    local s rc
    while :; do
        sed "s/^layers: .*/layers: $layers/" "$model" >"$tmp/model.yaml"
        plan "$name" "$layers" "$sequence" "$sequences" "$micro" >"$tmp/plan.json"
        s=$(luoshu_step); rc=$?
        [ $rc = 5 ] && [ "$layers" -gt 1 ] || break
        layers=$((layers > 8 ? layers - 4 : layers - 1))
    done
    describe
    [ $rc = 0 ] && [ -n "$s" ] || { say "luoshu, $name: failed: $(tail -n 1 "$tmp/log")"; bad=1; return; }
    [ "$layers" = "$all" ] || say "$name: $layers of $all layers fit into the device's memory"
    row luoshu "$type${variant:+-$variant}" "$s" "$(predicted_step)"
}
train_torch() {
    local v line rc variants=${variants:-autocast master}
    [ "$type" != f32 ] || variants=f32
    for v in $variants; do
        line=$("$python" tests/gpu/torch_bench.py --model "$model" --layers "$layers" --sequence "$sequence" --sequences "$sequences" \
            --micro-batches "$micro" --steps "$steps" --recipe exec/recipe.h --variant $v 2>"$tmp/log"); rc=$?
        if [ $rc = 3 ]; then say "$(tail -n 1 "$tmp/log")"; return; fi
        if [ $rc != 0 ]; then say "torch $v, $name: failed: $(tail -n 1 "$tmp/log")"; continue; fi
        say "torch $(cut -d, -f7,8 <<<"$line"), attention by $(cut -d, -f9 <<<"$line")"
        row torch "compile-$v" "$(cut -d, -f3 <<<"$line")" "" "$(cut -d, -f9 <<<"$line")"
    done
}
ratios() { # the faster of luoshu's over the faster of PyTorch's
    awk -F, 'NR > 1 && $1 == "luoshu" && $12 > l[$3] {l[$3] = $12} NR > 1 && $1 == "torch" && $12 > t[$3] {t[$3] = $12}
        END {for (m in l) if (t[m]) printf "%s: luoshu has %.3f of PyTorch'"'"'s tokens/s\n", m, l[m] / t[m]}' "$train" | sort | while IFS= read -r line; do say "$line"; done
}
# Before all that trains: the device's peak, a cluster of one of it, the head of $train.
begin_training() {
    local profile
    profile=$(profile_of "$device")
    peak=; [ -z "$profile" ] || peak=$(peak_of "$profile")
    say "== training, $type: steps of $steps, median of the last two thirds; peak ${peak:-not known} TFLOP/s${profile:+ ($profile.yaml)}"
    cluster "${profile:-h100}" >"$tmp/cluster.yaml"
    [ -s "$train" ] || echo "$header" >"$train"
}
take_model() { # a line of the models
    read -r model sequence sequences micro <<<"$1"
    name=$(basename "$model" .yaml)
    cp "$model" "$tmp/model.yaml"
    all=$(key layers); layers=$all
    tokens "$(key vocab)" $((sequence * sequences * micro * (steps + 2))) >"$tmp/tokens.u16"
}
