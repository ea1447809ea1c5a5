# Text and --json of one re-shard; what cannot be done is exit 1, wrong input exit 3.
r() { "$LUOSHU" resolve "$@"; echo "exit $?"; }
r "[0,1]{-2:2}" "[0,1]{-1:2}" --shape 4x4
r "[0-3]{0:4}" "[4,5]{0:2}" --shape 8x4 --elem 2 --node-size 4
r "[0-3]{0:4}" "[4,5]{0:2}" --shape 8x4 --elem 2 --node-size 4 --json
r "[0]{}" "[1]{}" --shape 4 --dead 0
r "h=-2 [0,1]{-1:2} | [2]{}" "h=-1 [0,1]{-1:2} | [3]{}" --shape 4 --json
r "[0,1]{0:3}" "[0]{}" --shape 4
# Members of one side are groups of the other's: pieces in two groups of two, gathered and scattered.
r "h=-1 [0,1]{0:2} | [2,3]{0:2}" "h=-1 [0]{} | [1]{} | [2]{} | [3]{}" --shape 8x4
r "h=-2 [0]{} | [1]{} | [2]{} | [3]{}" "h=-2 [0,1]{0:2} | [2,3]{0:2}" --shape 8x4
