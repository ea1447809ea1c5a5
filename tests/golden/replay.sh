# A recorded job replayed: synthetic, ms by hand. A worker of 2 x 2 computes 1.5 times as long: 134 instead of 115.25.
S=$TOP/scenarios/examples/recorded.csv
r() { "$LUOSHU" replay "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: $(echo "$*" | sed "s|$TOP/||g")"; }
r "$S" --out one; ls one one/plots; cat one/attribution.csv one/devices.csv one/compare_steps.csv one/compare_steps-ideal.csv
sed "s|$TOP/||" one/summary.json; cut -d, -f2 one/plots/gantt.csv | sort -u
cp -r one first; r "$S" --out one --force >/dev/null; diff -r one first && echo "the same again"
"$LUOSHU" check one/recorded.csv one/ideal.csv; r one/ideal.csv --plots off --out ideal | head -n 2 # without stragglers: 1
# three steps, the second one without the slow worker: alone it has no stragglers
{ cat "$S"; grep '^0' one/ideal.csv | sed 's/^0/5/'; grep '^0' "$S" | sed 's/^0/9/'; } >three.csv
r three.csv --steps 5 --plots off --out s | head -n 2; r three.csv --steps 0,6-9 --plots off --out s --force --json 2>text | grep '"slowdown"\|"steps"'; head -n 1 text
r three.csv --steps 6-8 --out x; r three.csv --steps 1- --out x; r "$S" --out one; r; r missing.csv; r "$S" --plots maybe
# what does not fit together
bad() { grep -v "$1" "$S" >bad.csv; r bad.csv --out x; }
bad '^0,1,1,pp,forward-recv,-1,-1,1'; bad '^0,.,1,pp,forward-recv,-1,-1,1'; [ -e x ] || echo "nothing written"
bad '^0,.,1,compute,forward'; bad '^0,0,0,.*gc,'; bad '^0,0'; bad '^0,.,1,dp,embedding'; bad '^0'; bad '^0,.,0,compute,forward-compute,0,1'
sed 's/,optimizer,/,optimiser,/; s/^\(0,1,1,.*\),/\1,-/' "$S" | head -n 40 >bad.csv; r bad.csv --out x
# one pipeline, which is its own mean
grep -v '^0,1' "$S" >alone.csv; r alone.csv --plots off --out alone | grep -v 1.0000
# stage 1 says that it began with the second micro-batch: its first forward waits for itself
sed 's/^\(0,.,1,compute,forward-compute,0,0,0\),[0-9.]*/\1,0.09/' "$S" >bad.csv; r bad.csv --out x
"$LUOSHU" compare one
# the same job as a scenario: its slow worker as a straggler, under policies
awk -F, 'BEGIN { OFS = "," } /^#/ { next } /^step/ { print "step,dp_rank,pp_rank,lane,op,model_chunk,mb_id,seq_id,start_us,dur_us"; next } { $9 *= 1e6; $10 *= 1e6; print }' "$S" >flat.csv
cat >model.yaml <<'X'
{schema: luoshu.model/1, name: small, family: llama, layers: 4, hidden: 64, ffn_hidden: 128, heads: 4, vocab: 1000, max_sequence_tokens: 128}
X
cat >lab.yaml <<'X'
schema: luoshu.cluster/1
name: lab
node_groups:
  - {name: lab, nodes: 2, devices_per_node: 2, profile: h20, pcie: {bandwidth_gbytes_per_s: 12, latency_us: 1.5},
     nics: {count: 1, bandwidth_gbytes_per_s: 12.5, latency_us: 2}}
fabric: {kind: single, hop_latency_us: 0.5}
X
"$LUOSHU" import stragglers flat.csv --model model.yaml --out rec --quiet >/dev/null; mkdir sub
r rec/recorded.csv --plots off --out sc --scenario sub/slow.yaml --model model.yaml --cluster lab.yaml | tail -n 5; cat sub/slow.yaml; "$LUOSHU" check sub/slow.yaml
"$LUOSHU" sim sub/slow.yaml --policies static --plots off --out simulated >/dev/null && cut -d, -f2 simulated/static/steps.csv | sort | uniq -c; grep -c fired simulated/static/events.csv
again="rec/recorded.csv --plots off --out sc --force --model model.yaml --cluster lab.yaml"
r $again --scenario sub/slow.yaml >/dev/null; r $again; r $again --scenario none/slow.yaml; r $again --scenario s.yaml --plan missing.json
"$LUOSHU" plan uniform --model model.yaml --cluster lab.yaml --tp 1 --pp 1 --dp 4 --seq-length 128 --global-batch-size 8 --out other.json >/dev/null 2>&1; r $again --scenario s.yaml --plan other.json
r rec/recorded.csv --plots off --out sc2 --scenario sub/slow.yaml --model model.yaml --cluster lab.yaml
# a folder that holds the timeline itself
r rec/recorded.csv --out rec --force; r rec/recorded.csv --plots off --out here >/dev/null; r here/recorded.csv --plots off --out here --force | head -n 1
