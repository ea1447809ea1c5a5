# check-more
# Family mlp: layers of feed-forward alone, explained, planned, checked and simulated; what has no meaning for them is refused.
S=$TOP/scenarios
m="--model $S/models/mlp-small.yaml"
eight="--cluster $S/clusters/tiny8.yaml"
mixed="--cluster $S/clusters/h20x24-h800x8.yaml"
sizes="--global-batch-size 64 --seq-length 512"
quiet() { grep -v '^planning: '; }
"$LUOSHU" explain "$S/models/mlp-small.yaml"
"$LUOSHU" plan uniform $m $eight $sizes --tp 2 --pp 2 --zero 1 --recompute selective --out u.json | quiet
"$LUOSHU" check u.json $m $eight
"$LUOSHU" explain u.json $m $eight --annotations | sed -n '1,/^communication/p'
"$LUOSHU" plan hap $m $mixed --batch 64 --seq-length 512 --out h.json | sed -nE 's/ in [0-9.]+ s$//; 1,16p; /^lm_head/,$p'
"$LUOSHU" check h.json $m $mixed
"$LUOSHU" plan auto $m $mixed $sizes --out a.json | quiet
"$LUOSHU" plan malleus $m $eight $sizes --out w.json | quiet
"$LUOSHU" plan hydraulis $m $eight --lengths syn-web | sed -n '1,16p'
"$LUOSHU" sim u.json $m $eight --steps 2 --out sim --plots off
"$LUOSHU" plan uniform $m $eight $sizes --cp 2
"$LUOSHU" plan hydraulis $m $eight --lengths syn-web --context-parallel 1,2
sed 's/"devices": \[/"context_parallel": 2, &/' u.json >c.json; "$LUOSHU" check c.json $m $eight
(sed 's/^name: .*/name: heads/' "$S/models/mlp-small.yaml"; echo 'heads: 8'; echo 'position: rope') >heads.yaml
"$LUOSHU" explain heads.yaml
