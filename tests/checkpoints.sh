#!/usr/bin/env bash
# Checkpoints that are damaged after they were written, files that cannot grow, and models in parts: what a
# run says, where it begins, how it ends.
set -u
. tests/runs.sh
tiny="$H/plans/tiny-2.json --model $S/models/tiny-llama.yaml --cluster $H/ranks4x2.yaml --dtype f64 --seed 3"
flip() { # FILE OFFSET: one bit of that byte, counted from the end
    local at=$(($(stat -c %s "$1") - $2)) byte
    byte=$(od -An -tu1 -j "$at" -N 1 "$1")
    printf "\\x$(printf %02x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}
says() { grep -qE "$2" "$1" || { echo "$1 does not say: $2"; head -n 5 "$1"; false; }; }

check "a run" host first 0 $tiny --steps 10 --checkpoint-every 5
kept=$tmp/first/plan/checkpoints new=$tmp/first/plan/checkpoints/step-000010

# ---- one bit ----
check "whole: check" "$L" check "$new/model.safetensors" "$new/optimizer.safetensors" >/dev/null
flip "$new/optimizer.safetensors" 100
"$L" check "$new/optimizer.safetensors" >/dev/null 2>"$tmp/check.err"; rc=$?
check "one bit: check" [ $rc = 3 ]
check "one bit: check names the tensor" says "$tmp/check.err" "^luoshu: error: tensor \`[a-z0-9_.]+\.exp_avg(_sq)?\` of \`$new/optimizer.safetensors\` is damaged: its bytes have checksum [0-9a-f]{8}; [0-9a-f]{8} was written with them\.$"
passed() { # OUT WHY: it said so everywhere, and began with step 5
    check "$1: terminal" says "$tmp/$1.err" "^luoshu: warning: checkpoint \`$new\` is passed over and \`$kept/step-000005\` is used: $2"
    check "$1: log" says "$tmp/$1/plan/log.txt" "warning.*checkpoint \`$new\` is passed over"
    check "$1: events" says "$tmp/$1/plan/events.csv" "^0,0\.0*,5,,passed,checkpoint,step-000010,,\"?step 5 is used: ${2/.\*\//}"
    check "$1: begins with step 5" [ "$(column "$tmp/$1/plan/steps.csv" step | head -n 1)" = 5 ]
}
check "one bit: the folder is resumed" host bit 0 $tiny --steps 12 --resume "$kept"
passed bit "tensor \`.*\` of \`.*/optimizer.safetensors\` is damaged: "
# another plan: every rank reads other parts
check "one bit: under another plan" host other 0 "$H/plans/tiny-4.json" ${tiny#* } --steps 12 --resume "$kept"
passed other "tensor \`.*\` of \`.*/optimizer.safetensors\` is damaged: "
check "one bit: by its name" host named 3 $tiny --steps 12 --resume "$new"
check "one bit: the tensor is named" says "$tmp/named.err" "error: tensor \`.*\` of \`.*/optimizer.safetensors\` is damaged"
check "one bit: of weights" cp "$new/model.safetensors" "$tmp/w.safetensors"
flip "$tmp/w.safetensors" 9
check "one bit: --load" host load 3 $tiny --steps 2 --load "$tmp/w.safetensors"
check "one bit: --load names the tensor" says "$tmp/load.err" "error: tensor \`.*\` of \`$tmp/w.safetensors\` is damaged"

# ---- cut ----
truncate -s 300 "$new/model.safetensors"
check "cut: the folder is resumed" host cut 0 $tiny --steps 12 --resume "$kept"
passed cut "\`.*/model.safetensors\`: the head is said to have "

# ---- files may not grow (the limit leaves Open MPI its own) ----
check "limit: a checkpoint" eval '(ulimit -f 12000; host limit 4 "$H/plans/ranks-4.json" --model "$H/llama-5m.yaml" --cluster "$H/ranks8.yaml" --steps 1 --checkpoint-every 1)'
check "limit: it is named" says "$tmp/limit.err" "^luoshu: error: cannot write \`$tmp/limit/plan/checkpoints/.*/model.safetensors\`: file too large"
check "limit: a table" eval '(ulimit -f 8; run table 4 sim scenarios/examples/small.yaml --set extent.steps=300 --plots off)'
check "limit: it is named" says "$tmp/table.err" "^luoshu: error: .*write .*\.csv.*: file too large"
finish
