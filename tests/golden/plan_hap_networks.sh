# The networks that HAP was published with, by its bandwidths (vectors: tests/unit/check_hap_golden.c) and by the cost
# model, and sentences of their own.
S=$TOP/scenarios
hap() { "$LUOSHU" plan hap --cluster "$S/clusters/$1.yaml" "${@:2}"; echo "exit $?"; }
for name in vgg19 vit bert-base bert-moe; do
    hap v100x8-p100x21 --network $name --params "$S/papers/hap-bandwidths.json" | sed -n '1,/^memory/p'
done
hap v100x16-p100x48 --network bert-base | sed -n 1,7p
hap v100x16-p100x48 --network vit --segments layer --search dp --json | grep -c '"blocks\.\|^    "[0-9]*\.'
for bad in "--model $S/models/tiny-gpt.yaml" "--dtype f32" "--seq-length 128" "--out x.json" "--rank simulated"; do
    hap v100x16-p100x48 --network vit $bad
done
hap v100x16-p100x48 --network vgg16; hap v100x16-p100x48 --network vgg19 --segments 2
"$LUOSHU" plan uniform --network vit
