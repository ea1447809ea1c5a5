# A plan made for 4 devices and one for 8, on a cluster of 8: the numbers of the first are those of the first 4.
plan() { # DEVICES PIPELINES
    echo "{\"schema\": \"luoshu.plan/1\", \"layers\": 4, \"devices\": $1, \"dtype\": \"f32\", \"sequence_tokens\": 16, \"pipelines\": [$2]}"
}
one='{"micro_batches": 2, "stages": [{"layers": [[0,2]], "devices": [0,1]}, {"layers": [[2,4]], "devices": [2,3]}]}'
two='{"micro_batches": 2, "stages": [{"layers": [[0,2]], "devices": [4,5]}, {"layers": [[2,4]], "devices": [6,7]}]}'
plan 4 "$one" >four.json; plan 8 "$one" >same.json; plan 8 "$one, $two" >eight.json
on() { "$LUOSHU" switch "$1" "$2" --model "$TOP/scenarios/models/tiny-llama.yaml" --cluster "$TOP/scenarios/clusters/$3.yaml"; echo "exit $?"; }
on four.json same.json tiny8
on four.json eight.json tiny8 # all that the second pipeline holds comes from the first
on eight.json four.json tiny8
on eight.json four.json tiny2
