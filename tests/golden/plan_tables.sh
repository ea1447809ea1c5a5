# Models with embedding tables: which way `plan auto` takes. Planning time is the wall's, so its line is left out.
S=$TOP/scenarios
t() { "$LUOSHU" plan auto --model "$S/models/$1-criteo.yaml" --cluster "$S/clusters/$2.yaml" "${@:3}" >out
    code=$?; grep -v '^planning: \|"time_s"' out; echo "exit $code"; }
t dlrm v100x8-p100x21 --servers 4; t wide-deep tiny8; t wide-deep tiny8 --json --global-batch-size 512 --seed 3
# wide layers, few samples, slow links: planner hap cuts layers; its samples are one more deal
printf 'schema: luoshu.model/1\nname: cut\nfamily: wide_deep\nfeatures: {slots: 26, rows: 100000, width: 16, dense: 13}
mlp: [4096, 4096, 4096]\ndtype: f32\n' >cut.yaml
printf 'device,rate\n5,2\n' >rates.csv
"$LUOSHU" plan auto --model cut.yaml --cluster "$S/clusters/tiny8.yaml" --global-batch-size 256 --rates rates.csv >out
code=$?; grep -v '^planning: ' out; echo "exit $code"
t dlrm tiny2 --data synthetic:samples=1000,vocab=50000,theta=0.8
"$LUOSHU" explain "$S/models/dlrm-criteo.yaml"; "$LUOSHU" explain "$S/models/wide-deep-criteo.yaml"
# what does not go together, or cannot be
t dlrm tiny8 --tp 2; t dlrm tiny8 --servers 9; t dlrm tiny8 --cache pull_bound=3; t dlrm tiny8 --cache rows=0; t dlrm tiny8 --pull-bound 3; t dlrm tiny8 --global-batch-size 7
t dlrm h100-16384; t dlrm a100-64 --servers 40; t dlrm tiny8 --data synthetic:slots=5; t dlrm h20-24
t dlrm tiny8 --data none.csv; t dlrm tiny8 --global-batch-size 10000000
"$LUOSHU" plan auto --model "$S/models/tiny-llama.yaml" --cluster "$S/clusters/tiny8.yaml" --servers 2
"$LUOSHU" plan uniform --model "$S/models/dlrm-criteo.yaml" --cluster "$S/clusters/tiny8.yaml"
"$LUOSHU" plan hap --model "$S/models/dlrm-criteo.yaml" --cluster "$S/clusters/tiny8.yaml"
"$LUOSHU" plan malleus --model "$S/models/dlrm-criteo.yaml" --cluster "$S/clusters/tiny8.yaml"
"$LUOSHU" plan hydraulis --model "$S/models/dlrm-criteo.yaml" --cluster "$S/clusters/tiny8.yaml" --lengths syn-web
"$LUOSHU" sim "$S/examples/small.yaml" --set model="$S/models/dlrm-criteo.yaml"
