#!/usr/bin/env bash
# `luoshu validate`: exit codes and sentences; on published measurements, where they are at hand, the
# closed form of whole steps. They are third-party data and no part of this repository.
set -u
LUOSHU=${LUOSHU:-$PWD/luoshu} DATA=${DATA:-../shared/data}
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
n=0; bad=0
expect() { # EXIT TEXT ARGS...
    local want=$1 text=$2; shift 2
    n=$((n + 1))
    "$LUOSHU" validate "$@" >"$tmp/out" 2>&1; local rc=$?
    [ $rc = "$want" ] && grep -qF -- "$text" "$tmp/out" && return
    echo "FAIL validate $* (exit $rc, want $want: $text)"; head -n 5 "$tmp/out"; bad=$((bad + 1))
}
made=scenarios/examples/measured
expect 0 "synthetic               4" synthetic --data $made
expect 0 "by the closed form" synthetic --data $made --closed --bar strict
expect 0 "1 of 1 rows that ran out of memory are said to" synthetic --data $made
expect 0 "1 rows are not scored: memory is that of programs, and with --closed there are none." synthetic --data $made --closed
expect 2 '`--data` is missing' synthetic
expect 0 "synthetic: of 1 pairs of plans for one network on as many GPUs, 1 are in the measured order" synthetic --data $made
expect 3 "is no suite of" elsewhere --data $made
expect 3 "cannot be opened" all --data "$tmp/none"
mkdir -p "$tmp/cal/suites"; grep -v ',val,' $made/suites/synthetic.csv >"$tmp/cal/suites/synthetic.csv"
expect 3 "holds calibration rows only; there is nothing to validate." synthetic --data "$tmp/cal"
expect 0 "no accuracy" synthetic --data "$tmp/cal" --rows cal
# A bar that is broken is a negative answer: the same rows, ten times slower, under a suite with one.
mkdir -p "$tmp/slow/suites"
sed -E '/^syn-[4-6]/{s/,synthetic,megatron/,korthikanti,megatron/; s/,0\.([0-9]+),measured/,\1,measured/}' \
    $made/suites/synthetic.csv >"$tmp/slow/suites/korthikanti.csv"
expect 1 "korthikanti" korthikanti --data "$tmp/slow" --closed
# Rows that no case of ours says are counted and named; they break no bar.
mkdir -p "$tmp/moe/suites"
{ sed -n 2p $made/suites/synthetic.csv | sed 's/$/,experts/'; grep '^syn-[12456]' $made/suites/synthetic.csv | sed 's/$/,/'
  grep '^syn-4' $made/suites/synthetic.csv | sed 's/^syn-4/syn-moe/; s/$/,8/'; } | sed 's/,synthetic,megatron/,vtrain,megatron/' \
    >"$tmp/moe/suites/vtrain.csv"
expect 0 "1 rows are not scored: experts are scored where their sizes are printed and \`ep\` divides the GPUs of a stage" all --data "$tmp/moe" --closed
expect 0 "  syn-moe" all --data "$tmp/moe" --closed
# A cell that is none costs its row, a software that is not known too; the others are scored.
odd() { mkdir -p "$tmp/$1/suites"; awk -F, -v OFS=, "/^syn-5/ { \$$2 = \"$3\" } 1" $made/suites/synthetic.csv >"$tmp/$1/suites/synthetic.csv"; }
odd cell 17 2k
expect 0 "warning: \`seq\` is \`2k\`; a whole number above 0 is expected. The row is left out." synthetic --data "$tmp/cell" --closed
expect 0 "synthetic               3" synthetic --data "$tmp/cell" --closed
odd software 4 other
expect 0 "1 rows are not scored: there is no stack \`other\`" synthetic --data "$tmp/software" --closed
expect 0 "synthetic               3" synthetic --data "$tmp/software" --closed
# The other way round, the pair is not in the measured order.
mkdir -p "$tmp/turn/suites"
sed '/^syn-4/s/,0\.47,/,0.56,/' $made/suites/synthetic.csv >"$tmp/turn/suites/synthetic.csv"
expect 0 "as many GPUs, 0 are in the measured order" synthetic --data "$tmp/turn"
# A row that makes no sense is told, and the others are scored; a bar of its suite is not kept.
mkdir -p "$tmp/odd/suites"
{ sed -n 2p $made/suites/synthetic.csv; sed -n '/^syn-[124567]/{s/,synthetic,megatron/,vtrain,megatron/; /^syn-4/s/,4,32,0,/,4,31,0,/; p}' \
    $made/suites/synthetic.csv; } >"$tmp/odd/suites/vtrain.csv"
expect 1 "vtrain-single: 1 rows cannot be predicted; the first is syn-4: 31 sequences are not 2 equal shares." all --data "$tmp/odd" --closed
# What nobody printed is told with what it decides.
mkdir -p "$tmp/nics/suites"
sed -n '2p;/^syn-1/{s/,cal,/,val,/; s/,8,8,ib-hdr200x8,/,16,8,not-known,/; s/,fp16,1,1,1,8,1,2,/,fp16,1,1,1,16,1,2,/;p}' \
    $made/suites/synthetic.csv >"$tmp/nics/suites/synthetic.csv"
expect 0 "the rate of the NICs is an assumption of 1 rows" synthetic --data "$tmp/nics" --closed
# Collectives: a table of one bandwidth is told by any part of it, but for its least size, which is
# held to take what the next one takes: twice as long, 2^(1/8) in the mean. A wrong row shows; rows
# of text are left out; validation rows go by the profile that ships.
mkdir -p "$tmp/nccl/micro"
table() { echo "gpu_fabric,nodes,gpus,op,algo,bytes,busbw_GBps,algbw_GBps,source,note$1"
    for k in 20 21 22 23 24 25 26 27; do echo "H200 8x NVLink4,1,8,all_reduce,default,$((1 << k)),$2,,made up,$3"; done
    echo "H200 8x NVLink4,1,8,all_reduce,default,large,400,,made up,$3"; }
table "" 400.0 "" >"$tmp/nccl/micro/nccl_busbw.csv"
expect 0 "collectives, nccl_busbw: 8 rows, geometric mean of the errors 9.1 %, the largest 2.00 times" \
    collectives --data "$tmp/nccl" --cross 4
sed -i '5s/400.0/100.0/' "$tmp/nccl/micro/nccl_busbw.csv"
expect 0 "the largest 4.00 times" collectives --data "$tmp/nccl" --cross 8
expect 3 "holds calibration rows only" collectives --data "$tmp/nccl"
table ,split 10.00 ,val >"$tmp/nccl/micro/nccl_busbw.csv"
expect 1 "collectives             8" collectives --data "$tmp/nccl"
printf 'gpu,gpus,op,bytes,time_out_of_place_ns,time_in_place_ns\nX1,4,all_reduce,1000000,15000,1\n' \
    >"$tmp/nccl/micro/vtrain_allreduce_a100.csv"
expect 0 "  X1-all_reduce-4-1000000" collectives --data "$tmp/nccl" --rows cal
# The files: two runs are equal byte for byte, and the tables are whole.
n=$((n + 1))
for k in 1 2; do "$LUOSHU" validate synthetic --data $made --out "$tmp/v$k" >/dev/null 2>&1; done
cmp -s "$tmp/v1/validate.csv" "$tmp/v2/validate.csv" && [ "$(wc -l <"$tmp/v1/validate.csv")" = 9 ] &&
    [ "$(grep -c ',calibration,' "$tmp/v1/plots/predicted.csv")" = 3 ] ||
    { echo "FAIL tables of validate"; bad=$((bad + 1)); }
# Constants: validation rows are not looked at, whatever stands in them; a second run is the same
# byte for byte; what was written is read back and used.
n=$((n + 1))
mkdir -p "$tmp/far"; sed -E 's/,(0\.[0-9]+),(measured|from_tokens)(.*)/,\1,\2\3/; /,val,/s/,0\./,90./' \
    $made/suites/synthetic.csv >"$tmp/far/synthetic.csv"
cmp -s "$tmp/far/synthetic.csv" $made/suites/synthetic.csv && { echo "FAIL nothing was changed"; bad=$((bad + 1)); }
for f in $made/suites "$tmp/far"; do
    "$LUOSHU" calibrate --from $f/synthetic.csv --fit host_launch_us,gemm_ratio --out "$tmp/c" --force \
        >"$tmp/out" 2>&1 || { echo "FAIL calibrate"; head -n 3 "$tmp/out"; bad=$((bad + 1)); }
    cat "$tmp/c/stacks/megatron.yaml" "$tmp/c/a100-80.yaml"; done | awk '{l[NR] = $0}
    END{h = NR / 2; bad = NR == 0 || NR % 2; for (i = 1; i <= h; i++) bad += l[i] != l[i + h]; exit bad > 0}' ||
    { echo "FAIL constants depend on validation rows"; bad=$((bad + 1)); }
"$LUOSHU" check "$tmp/c/stacks/megatron.yaml" "$tmp/c/a100-80.yaml" >"$tmp/out" 2>&1 ||
    { echo "FAIL what calibrate wrote"; cat "$tmp/out"; bad=$((bad + 1)); }
expect 0 "synthetic               3" synthetic --data $made --rows cal --closed --profile-dir "$tmp/c"
# Two sources, the second a third slower: each by constants of the other.
mkdir -p "$tmp/two/suites"; cp $made/suites/synthetic.csv "$tmp/two/suites/quick.csv"
sed -i 's/,synthetic,/,quick,/' "$tmp/two/suites/quick.csv"
awk -F, -v OFS=, '/^syn/ {$3 = "slow"; for (i = 1; i <= NF; i++) if ($i == "measured") $(i - 1) *= 1.3333} 1' \
    $made/suites/synthetic.csv >"$tmp/two/suites/slow.csv"
expect 0 "by constants that were fitted on all others" all --data "$tmp/two" --leave source --closed --out "$tmp/left"
awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) c[$i] = i; next} $c["error_ratio"] != "" {s[$c["suite"]] += log(1 + $c["error_ratio"]); n[$c["suite"]]++}
    END {d = s["quick"] / n["quick"] - s["slow"] / n["slow"]; exit !(d > 0.35 && d < 0.65)}' "$tmp/left/validate.csv" ||
    { echo "FAIL each source by the other's rate"; bad=$((bad + 1)); }
n=$((n + 1))
expect 0 "  range" quick --data "$tmp/two" --leave source --closed
expect 2 'leave out `--rows`' all --data "$tmp/two" --leave source --rows cal
expect 3 '`--leave` has nothing to fit on: all calibration rows are of `synthetic`.' all --data $made --leave source
expect 3 'all calibration rows are of `A100-80G-SXM`' all --data "$tmp/two" --leave gpu
expect 0 "cross: folds" synthetic --data $made --cross 3 --closed
expect 2 'leave out `--rows`' synthetic --data $made --cross 3 --rows cal
if [ -d "$DATA/suites" ]; then
    mean() { awk -v s="$1" '$1 == s{print $3}' "$tmp/all"; }
    "$LUOSHU" validate all --data "$DATA" --rows cal --closed >"$tmp/all" 2>&1
    # What an independent program with the same formulas reached, and some room.
    while read -r suite most; do
        n=$((n + 1))
        awk -v a="$(mean "$suite")" -v b="$most" 'BEGIN{exit !(a != "" && a != "-" && a <= b)}' && continue
        echo "FAIL $suite: mean |error| $(mean "$suite") %, at most $most"; bad=$((bad + 1))
    done <<'END'
korthikanti 5
megatron-sc21 5
vtrain-multi 9
vtrain-single 9
END
else
    echo "skipped: no published measurements at $DATA"
fi
echo "$((100 * (n - bad) / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
