# Mistakes of people who do not know luoshu yet: each gets one sentence that says what is wrong, where, and what would
# be right. By file, by option, by what they mix up.
S=$TOP/scenarios M=$TOP/scenarios/models/tiny-llama.yaml C=$TOP/scenarios/clusters/tiny8.yaml
c() { "$LUOSHU" check "$@" 2>&1; echo "exit $?"; }
# ---- files that are none of ours ----
printf 'name: c\nnode_groups:\n  - {name: g, nodes: 1, devices_per_node: 1, profile: h20}\n' >noschema.yaml; c noschema.yaml
printf 'num_layers: 2\nhidden_size: 8\n' >hf.yaml; c hf.yaml
printf '[job]\nname = "x"\n[optimizer]\nlr = 1e-4\n' >train.toml; c train.toml
printf '2026-01-01 12:00:00 INFO iteration 1/100 loss 3.2\n' >train.log; c train.log; "$LUOSHU" sim train.log
: >empty.yaml; c empty.yaml; mkdir folder; c folder; c nowhere.yaml; c; gzip -nc "$M" >model.yaml.gz; c model.yaml.gz
head -c 40 model.yaml.gz >cut.gz; c cut.gz; printf 'name: \377\376\n' >binary.yaml; c binary.yaml; head -c 300 "$M" | tr '\n' '\r' >mac.yaml; c mac.yaml
printf '{"schema": "luoshu.plan/1", "layers": 2' >cut.json; c cut.json; printf '# nothing\n\n' >comment.yaml; c comment.yaml
# ---- YAML as people type it ----
y() { printf 'schema: luoshu.cluster/1\nname: c\nnode_groups:\n  - {name: g, nodes: %s, devices_per_node: %s, profile: %s, pcie: {bandwidth_gbytes_per_s: 25}}\n%b' "$@" >c.yaml; c c.yaml; }
y 1 8 h20 '\tfabric: {kind: single}\n'; printf 'schema: luoshu.cluster/1\nname: c\nnode_groups:\n\t- {name: g, nodes: 1}\n' >tab.yaml; c tab.yaml
y nan 8 h20 ''; y .inf 8 h20 ''; y -1 8 h20 ''; y 99999999999999999999 8 h20 ''; y 1.5 8 h20 ''; y "'2'" 8 h20 ''; y 1e1 8 h20 ''; y 0x10 8 h20 ''; y 010 8 h20 ''
y 1 8 h2O ''; y 1 8 h100-sxm5x ''; y 1 8 nowhere.yaml ''; y 2 8 h20 ''; y 1 100 h20 ''; y 1 8 h20 'fabrick: {kind: single}\n'
y 1 8 h20 'fabric: {kind: fat_tree}\n'; y 1 8 h20 'name: d\n'; y 1 8 h20 'standby: [0-1]\n'; y 1 8 h20 'storage: {read_gbps: 3, write_gbytes_per_s: 3}\n'
y 1 8 h20 'health: [{target: "gpu:3", state: slow, slowdown: 2}]\n'; y 1 8 h20 'health: [{target: "device:9", state: down}]\n'
y 1 8 h20 'health: [{target: "device:3", state: broken}]\n'; y 1 8 h20 'health: [{target: "device:3", state: slow}]\n'
printf '\357\273\277schema: luoshu.cluster/1\r\nname: c\r\nnode_groups:\r\n  - {name: g, nodes: 1, devices_per_node: 1, profile: h20}\r\n' >windows.yaml; c windows.yaml
sed 's/hidden: /hidden_size: /' "$M" >m.yaml; c m.yaml; sed 's/family: llama/family: llama2/' "$M" >m.yaml; c m.yaml; sed 's/heads: .*/heads: 7/' "$M" >m.yaml; c m.yaml
sed 's/1$/2/' "$M" >m.yaml; c m.yaml
# ---- scenarios ----
sed -e 's/extent: {steps: 30}/extent: {steps: 5}/' -e "s|\.\./|$S/|" "$S/examples/small.yaml" >base.yaml
s() { sed "$1" base.yaml >s.yaml; c s.yaml; }
s 's/at_step: 10/at_step: 10000/'; s 's/at_step: 10/at: 10/'; s 's/at_step: 10/at_step: 1, at_s: 3/'; s 's/, at_step: 10//'; s 's/slowdown: 2.0/factor: 2.0/'; s 's/slowdown: 2.0/slowdown: 0.5/'
s 's/extent: {steps: 5}/extent: {duration_s: 10}/; s/at_step: 10/at_s: 20/'
s 's/kind: straggler/kind: stragler/'; s 's/name: restart,/name: restrat,/'; s 's/{name: static}/{name: static}\n  - {name: static}/'; s 's/steps: 5}/steps: 5, duration_s: 5}/'
s 's/detect_fail_s/detect_fail_ms/'; s 's|cluster: .*|cluster: nowhere.yaml|'; s 's/name: uniform/name: unifrom/'; s 's/"device:5"/"device:8"/'; s 's/"device:5"/5/'
s 's/planner: {name: uniform}/plan: base.yaml/'; s "s|model: .*|model: $C|"; s 's/seed: 1/seed: -1/'; s 's/- {id: slow, /- {id: slow, id: slow, /'; s '/events:/s/$/\n  - {id: slow, kind: fail, target: "device:1", at_step: 2}/'
# ---- tables ----
printf 't_s,kind,target,value\n1,straggler,device:0,2\n2,straggler,gpu3,2\n3,fail,node:,\n4,fail,any rack:r0,\n5,fail,device:[0-,\n6,fail,"any device:[0-3]",\n7,fail,node:h20-1,\n8,fail,device:h20-1/3,\n9,fail,node:h20,\n' >trace.csv; c trace.csv
printf '1,straggler,device:0,2\n' >headless.csv; c headless.csv; printf 't_s;kind;target\n1;fail;device:0\n' >semicolon.csv; c semicolon.csv
printf 'device,rate\n0,1.5\n1,fast\n2,nan\n3,inf\n4,-2\n5,1.5 x\n' >rates.csv; c rates.csv; printf 'device,rate,speed\n0,1,1\n' >more.csv; c more.csv; printf 'device,rate\n0\n' >less.csv; c less.csv
# ---- options ----
o() { "$LUOSHU" plan uniform --model "$M" --cluster "$C" "$@" 2>&1; echo "exit $?"; }
for words in "--gbs 8" "--seq-len 128" "--num-layers 4" "--tensor-parallel 2" "--tp-size 2" "--pipeline-parallel-size 2" "--world-size 8" "--gpus 8" "--mbs 1" \
    "--batch-size 8" "--lr 1" "--tp two" "--tp 3" "--tp 0" "--tp 2.5" "--pp 99" "--seq-length 99999999" "--global-batch-size 7 --dp 4" "--zero 4" "--recompute yes" \
    "--schedule 1f1bb" "--tp" "-tp 2"; do o $words; done
"$LUOSHU" plan unifrm; "$LUOSHU" plan uniform --model "$C" --cluster "$M"; "$LUOSHU" plan uniform --model "$M"
"$LUOSHU" sim "$S/plans/tiny2.json" --model "$M" --cluster "$C"; "$LUOSHU" sim "$M"; "$LUOSHU" sim base.yaml --set 'events[5].slowdown=3'; "$LUOSHU" sim base.yaml --set seed
"$LUOSHU" sim base.yaml --policies sttic; "$LUOSHU" sim base.yaml --seed abc; "$LUOSHU" sim base.yaml -v; "$LUOSHU" sim base.yaml base.yaml; "$LUOSHU" simulate x; "$LUOSHU" compare nowhere
