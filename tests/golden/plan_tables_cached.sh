# check-more
# `plan auto` of a model with embedding tables where caches are allowed, which it simulates for seconds; a device is gone.
S=$TOP/scenarios
printf 'device,rate\n5,inf\n' >rates.csv
"$LUOSHU" plan auto --model "$S/models/wide-deep-criteo.yaml" --cluster "$S/clusters/a100-32x1.yaml" \
    --cache rows=100000,policy=lfu,pull_bound=20,push_bound=20 --rates rates.csv >out
code=$?; grep -v '^planning: ' out; echo "exit $code"
