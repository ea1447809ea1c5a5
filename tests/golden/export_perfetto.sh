# A trace made again of tables: all but counters and kinds of collectives is as the run wrote it.
S=$TOP/scenarios
x() { "$LUOSHU" export perfetto "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: $*"; }
"$LUOSHU" sim "$S/plans/tiny2.json" --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny2.yaml" --out plan --plots off --quiet >log 2>&1
cat >slow.yaml <<'EOF'
schema: luoshu.scenario/1
name: slow
cluster: cluster.yaml
model: model.yaml
plan: plan.json
extent: {steps: 8}
data: {batch: {sequences: 8}, lengths: {kind: fixed, tokens: 128}}
policies: [{name: rebalance}]
events: [{id: one, kind: straggler, target: "node:lab-1", slowdown: 3, at_step: 4, duration_s: 10}]
EOF
cat >cluster.yaml <<'EOF'
schema: luoshu.cluster/1
name: lab
node_groups:
  - {name: lab, nodes: 2, devices_per_node: 2, profiles: [h20, a100-80],
     pcie: {bandwidth_gbytes_per_s: 12, latency_us: 1.5}, nics: {count: 1, bandwidth_gbytes_per_s: 12.5, latency_us: 2}}
fabric: {kind: single, hop_latency_us: 0.5}
EOF
cat >model.yaml <<'EOF'
{schema: luoshu.model/1, name: small, family: llama, layers: 4, hidden: 64, ffn_hidden: 128, heads: 4, kv_heads: 2, vocab: 1000, max_sequence_tokens: 128}
EOF
cat >plan.json <<'EOF'
{"schema": "luoshu.plan/1", "name": "two", "model": "small", "cluster": "lab",
 "layers": 4, "devices": 4, "dtype": "bf16", "sequence_tokens": 128, "micro_batch_sequences": 1,
 "zero": 1, "sequence_parallel": true, "schedule": {"kind": "1f1b", "chunks": 1},
 "pipelines": [
  {"micro_batches": 4, "stages": [{"layers": [[0, 2]], "devices": [0], "recompute": {"mode": "full"}}, {"layers": [[2, 4]], "devices": [1]}]},
  {"micro_batches": 4, "stages": [{"layers": [[0, 2]], "devices": [2]}, {"layers": [[2, 4]], "devices": [3]}]}]}
EOF
"$LUOSHU" sim slow.yaml --out slow --plots off --quiet >log 2>&1
# lines without counters, names of tracks, kinds of collectives and numbers of arrows
lines() { gzip -dc "$1" | grep -E '"ph":"[Xifs]"' | sed -E 's/"kind":"(collective|all_[a-z]*|reduce_scatter|broadcast)",//; s/"id":[0-9]+//; s/,$//'; }
# how many lines of the second file have no like in the first, whose times are those to 3 ns
unlike() { awk '{ match($0, /"ts":[0-9.]+/); ts = substr($0, RSTART + 5, RLENGTH - 5); dur = 0
        if (match($0, /"dur":[0-9.]+/)) dur = substr($0, RSTART + 6, RLENGTH - 6)
        gsub(/"(ts|dur)":[0-9.]+,/, ""); k = $0 SUBSEP (++n[FILENAME, $0]) }
    FILENAME == ARGV[1] { start[k] = ts; long[k] = dur; next }
    { d = ts - start[k]; e = dur - long[k]; bad += !(k in start) || d * d > 1e-5 || e * e > 1e-5 } END { print bad + 0 }' "$1" "$2"; }
for run in plan/plan slow/rebalance; do
    x $run --out again.json.gz --force | sed 's/:.*//'
    lines $run/trace.json.gz >run.txt; lines again.json.gz >again.txt
    for ph in X i s f; do grep -c "\"ph\":\"$ph\"" again.txt; done | tr '\n' ' '
    echo "$(wc -l <run.txt) events, $(unlike run.txt again.txt) and $(unlike again.txt run.txt) differ"
done
gzip -dc again.json.gz | grep -E 'process_name|"policy"|"program_hashes"'
# some rows alone, of which only the table is left
mkdir rows; awk -F, 'NR == 1 || $2 == 4 && $4 == 1' slow/rebalance/ops.csv >rows/ops.csv
x rows/ops.csv >rows.gz; gzip -dc rows.gz | grep -c '"ph":"X"'; gzip -dc rows.gz | grep -E 'process_name'
# what is no table of operations
x nothing.csv; x rows/ops.csv --model model.yaml; x rows/ops.csv --dtype f32
sed 's/,compute,/,computer,/' rows/ops.csv | head -2 >word.csv; x word.csv
sed "s/,[^,]*$//" rows/ops.csv >short.csv; x short.csv
sed '2s/[^,]*,LUO_OK/-1,LUO_OK/' rows/ops.csv >time.csv; x time.csv
