# check-more
# Programs for mixed GPUs: by the cost model, by published numbers, what it is compared with, and sentences of its own.
S=$TOP/scenarios
at="--model $S/models/tiny-gpt.yaml --cluster $S/clusters/h20x24-h800x8.yaml --dtype bf16"
cut() { sed -E 's/ in [0-9.]+ s$//'; }
hap() { "$LUOSHU" plan hap $at "$@"; }
hap --batch 64 | cut
hap --batch 64 --search dp --starts even --rules bh | sed -n 3p
hap --batch 64 --segments layer --integer off | sed -n 3,8p
hap --batch 64 --baseline dp-ev --grouped off --factors off | sed -n 3p
cat >params.json <<'X'
{"schema": "luoshu.params/1", "hap": {
  "types": [{"profile": "h20", "gemm_tflop_per_s": 100, "attn_tflop_per_s": 60, "elt_gbytes_per_s": null},
            {"profile": "h800", "gemm_tflop_per_s": 600, "attn_tflop_per_s": 300, "elt_gbytes_per_s": null}],
  "collectives": {"allgather": {"bandwidth_gbytes_per_s": 9.46}, "allgather_grouped": {"bandwidth_gbytes_per_s": 9.14},
    "reducescatter": {"bandwidth_gbytes_per_s": 9.74}, "reducescatter_grouped": {"bandwidth_gbytes_per_s": 8.75},
    "allreduce": {"bandwidth_gbytes_per_s": 5.9}, "alltoall": {"bandwidth_gbytes_per_s": 24.5},
    "p2p": {"bandwidth_gbytes_per_s": 9.46}}}}
X
hap --batch-per-device 2 --seq-length 32 --params params.json --json >one; hap --batch-per-device 2 --seq-length 32 --params params.json --json >two
cut_hap() { sed -e '/^    "time_s"/d' -e '/^  "range": {/,/^  },/d' "$1"; }
cut_hap one >one.cut; cut_hap two | cmp - one.cut && head -n 35 one.cut && tail -n 24 one.cut
hap --batch 64 --compat --params params.json | sed -n 3,7p
# a slow device is a type of its own, by the health of the cluster or by --rates
(sed "s#profile: \.\.#profile: $S#" "$S/clusters/h20-24.yaml"; echo 'health: [{target: "device:3", state: slow, slowdown: 5}]') >slow.yaml
small() { "$LUOSHU" plan hap --model "$S/models/tiny-gpt.yaml" --dtype bf16 --batch 768 "$@" | sed -n '3,/^operation/p'; }
small --cluster slow.yaml; printf 'device,rate\n3,5\n' >rates.csv; small --cluster "$S/clusters/h20-24.yaml" --rates rates.csv; rm slow.yaml rates.csv
sed 's/"attn_tflop_per_s": 60, //' params.json >none.json; hap --params none.json
sed 's/"h20"/"h21"/' params.json >other.json; hap --params other.json
hap --batch 8 --batch-per-device 8; hap --starts prop,evn; hap --segments 9; hap --segments many; hap --baseline ep
hap --zero 1; hap --memory table; hap --steps 3; hap --batch 4000000 --zero off
for rules in x B '' bhq; do hap --rules "$rules"; done; hap --starts ''
# what the published planner and the baselines do not follow
for option in 'zero on' 'zero auto' 'starts even' 'memory on' 'grouped on' 'factors on' 'integer on'; do hap --compat --${option% *} ${option#* }; done
hap --batch 64 --params params.json --compat --zero off --starts prop --memory off --grouped off --factors off --integer off | sed -n 3p
for option in 'zero on' 'starts even' 'memory on' 'factors on' 'rules b'; do hap --baseline dp-ev --${option% *} ${option#* }; done
hap --batch 64 --params params.json --compat --baseline dp-cp | sed -n 3p
hap --batch 64 --out p.json >/dev/null; grep -c '"tensor"' p.json; grep -E '"(wpe|layers.0.attn.out|d.layers.0.attn.out(@.*)?|d.layers.0.attn.k.bias)"' p.json
files="--model $S/models/tiny-gpt.yaml --cluster $S/clusters/h20x24-h800x8.yaml"
at() { echo "== $1"; "$LUOSHU" check q.json $files; }
"$LUOSHU" check p.json $files; "$LUOSHU" explain p.json $files --simulate | sed -n '/^communication/,/^simulated/p'
hap --batch 64 --rank simulated | sed -n 3,4p
grep -v '"tensor": "layers.0.norm1"' p.json >q.json; at 'one is missing'
sed 's/"tensor": "layers.0.norm2", "annotation": "\[0-31\]{-1:32}"/"tensor": "layers.0.norm2", "annotation": "[0-31]{1:32}"/' p.json >q.json; at 'another way'
sed 's/"tensor": "layers.0.mlp.up.bias"/"tensor": "layers.0.mlp.up.bais"/' p.json >q.json; at 'no such tensor'
sed 's/"at": "layers.0.mlp.add"/"at": "layers.0.mlp.adds"/' p.json >q.json; at 'no such operation'
sed 's/"tensor": "wte", "annotation": "[^"]*"/"tensor": "wte", "annotation": "[0-31]{0:(1,3,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}"/' p.json >q.json; at 'half a sequence'
sed 's/"tensor": "wte", "annotation": "[^"]*"/"tensor": "wte", "annotation": "[0,1]{0:2}"/' p.json >q.json; at 'other devices'
sed 's/"padded"/"flat"/' p.json >q.json; at 'a variant'
sed 's/"zero": 0/"zero": 1/' p.json >q.json; at 'a key'; rm q.json
hap --batch 64 --out p.json >/dev/null; hap --rules s --out q.json >/dev/null; ls
"$LUOSHU" plan uniform --compat
sed "s|planner: {name: uniform}|planner: {name: hap}|; s|: \.\./|: $S/|g" "$S/examples/small.yaml" >small.yaml
"$LUOSHU" sim small.yaml --policies static --out run --plots off
# with ZeRO a weight is whole while it is used: counted as the programs have it
seven="--model $S/models/llama-7b.yaml --cluster $S/clusters/v100x8-p100x21.yaml"
"$LUOSHU" plan hap $seven --batch-per-device 1 --seq-length 1024 --zero on --out zero.json --json | sed -n '/"memory"/,/]/p'
"$LUOSHU" explain zero.json $seven | grep -E '^device|^0 .*v100|^8 .*p100'
"$LUOSHU" plan hap --model "$S/models/llama-70b.yaml" --cluster "$S/clusters/tiny2.yaml" --batch 2 --seq-length 64
