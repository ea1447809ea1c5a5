#!/usr/bin/env bash
# `luoshu sync` and `embed` on processes: what the command makes of toy models on ranks, and ranks that are killed
# or stopped: one sentence that names who, no hang, files that can be read, nobody left. Modes beside the
# serial computation: tests/mpi/sync.c.
set -u
. tests/runs.sh
toys() { # OUT WANTED_EXIT arguments..
    local out=$1 want=$2; shift 2
    run "$out" "$want" "$@" --backend host --seed 3
}
says() { grep -qF -- "$2" "$tmp/$1.err" || { cat "$tmp/$1.err"; false; }; } # OUT TEXT
one_sentence() { [ "$(wc -l <"$tmp/$1.err")" = 1 ]; }
lines() { awk 'NR > 1' "$1" | wc -l; }

# ---- files of a run, and those of the simulator ----
check "bsp" toys bsp 0 sync bsp --toy softreg --workers 4 --servers 2 --iterations 15 --verify on
check "bsp: a row for every iteration" [ "$(lines "$tmp/bsp/iterations.csv")" = 60 ]
check "bsp: whole files" whole "$tmp/bsp/iterations.csv" "$tmp/bsp/groups.csv" "$tmp/bsp/ahead.csv"
check "bsp: complete" grep -q '"state": "complete"' "$tmp/bsp/summary.json"
check "bsp: clocks" grep -q '"clock_gap": 1$' "$tmp/bsp/summary.json"
check "bsp: verified" grep -qE '"verify_error": [0-9.]+e-1[0-9],' "$tmp/bsp/summary.json"
check "bsp: what it says" grep -q '^verify: all weights computed again serially' "$tmp/bsp.out"
"$L" sync bsp --workers 4 --compute-s 1 --sync-s 0.1 --horizon-s 30 --out "$tmp/sim" --quiet >/dev/null 2>&1
for f in iterations groups ahead; do
    check "the same columns: $f" [ "$(head -n 1 "$tmp/bsp/$f.csv")" = "$(head -n 1 "$tmp/sim/$f.csv")" ]
done
# The groups of all-reduce and of pairs hang on no time: those of the simulator.
check "adpsgd" toys pairs 0 sync adpsgd --toy mlp --workers 4 --iterations 12 --verify on
"$L" sync adpsgd --workers 4 --compute-s 1 --sync-s 0 --horizon-s 12 --seed 3 --out "$tmp/pairs-sim" --quiet >/dev/null 2>&1
check "adpsgd: the simulator's groups" cmp -s <(column "$tmp/pairs/groups.csv" members | sort) \
    <(column "$tmp/pairs-sim/groups.csv" members | sort)

# ---- exchanges: what they move is what the simulator counts for the same keys, 8-byte numbers as two floats ----
keys=zipf:theta=1.1,vocab=3000,batch=24,slots=4
payload() { tr -d ' \n' <"$tmp/$1/summary.json" | sed -n "s/.*\"$2\":{\([^}]*\)}.*/\1/p"; } # OUT payload|bytes
same_bytes() { # RUN SIM
    local a b; a=$(payload "$1" payload); b=$(payload "$2" bytes)
    [ -n "$a" ] && [ "$a" = "$b" ] || { echo "run $a; sim $b"; false; }
}
counted() { # OUT HORIZON arguments..: the simulator
    local out=$1 until=$2; shift 2
    "$L" "$@" --compute-s 1 --horizon-s "$until" --seed 3 --out "$tmp/$out" --quiet >/dev/null 2>&1
}
check "hybrid" toys hybrid 0 sync bsp --exchange hybrid --toy wide_deep --keys $keys --workers 3 --servers 2 --iterations 1 --verify on
counted hybrid-sim 1.9 sync bsp --exchange hybrid --keys $keys --width 10 --dense-bytes 1160 --workers 3 --servers 2
check "hybrid: the simulator's bytes" same_bytes hybrid hybrid-sim
cost="sync bsp --exchange hybrid --hybrid cost --keys zipf:vocab=40,batch=32,slots=4 --servers 1 --alpha-s 1e-9"
check "hybrid by cost: a small table" toys cost 0 $cost --toy wide_deep --workers 3 --iterations 1 --verify on
counted cost-sim 1.9 $cost --width 10 --dense-bytes 1160 --workers 3
check "hybrid by cost: by the ring, as the simulator" [ "$(payload cost payload)" = "\"push\":0,\"pull\":0,\"meta\":0,$(payload cost-sim bytes)" ]
check "ps" toys dense 0 sync bsp --exchange ps --toy softreg --workers 3 --servers 2 --iterations 7 --verify on
counted dense-sim 7.9 sync bsp --exchange ps --width 130 --dense-bytes 5200 --workers 3 --servers 2
check "ps: the simulator's bytes" same_bytes dense dense-sim
check "allreduce" toys ring 0 sync bsp --exchange allreduce --toy mlp --workers 3 --iterations 7 --verify on
counted ring-sim 7.9 sync bsp --exchange allreduce --dense-bytes 9880 --workers 3
check "allreduce: the simulator's bytes" same_bytes ring ring-sim

# ---- a click log ----
awk 'BEGIN {srand(5); for (i = 0; i < 400; i++) {a = int(rand() * 20); line = (rand() < a / 20) ? 1 : 0
    for (c = 0; c < 13; c++) line = line "\t" int(rand() * 9)
    line = line "\t" sprintf("%08x", a); for (c = 1; c < 26; c++) line = line "\t" sprintf("%x", int(rand() * 6)); print line}}' >"$tmp/criteo.tsv"
check "a click log" toys clicks 0 embed gmp --data "criteo:$tmp/criteo.tsv" --workers 2 --cache-rows 50 --pull-bound 2 --push-bound 1 \
    --rate 0.1 --iterations 40 --verify on
check "a click log: loss falls" awk '/loss_first/ {a = $2 + 0} /loss_last/ {b = $2 + 0} END {exit !(b < a)}' "$tmp/clicks/summary.json"
check "a click log: exact sums" grep -q '"sums_wrong": 0.0*$' "$tmp/clicks/summary.json"
check "a click log, wide and deep" toys deep 0 sync asp --exchange hybrid --toy wide_deep --data "criteo:$tmp/criteo.tsv" --workers 3 --servers 2 \
    --iterations 40 --verify on
check "a click log, wide and deep: loss falls" awk '/loss_first/ {a = $2 + 0} /loss_last/ {b = $2 + 0} END {exit !(b < a)}' "$tmp/deep/summary.json"
sed -i '7s/\t[^\t]*$//' "$tmp/criteo.tsv"
check "a bad click log" toys bad 3 sync bsp --toy wide --data "criteo:$tmp/criteo.tsv" --workers 1
check "a bad click log: where" says bad "criteo.tsv:7:1: 39 cells; 40 are expected."

check "too much to verify" toys much 3 embed het --workers 1 --cache-rows 10 --batch 4096 --iterations 100000 --verify on
check "too much to verify: what helps" says much "fewer --iterations, a smaller --batch or --verify off is expected"

# ---- killed, in the middle of a push and of an average, and from outside ----
# Before 0.2 s worker 0 has pushed, and waits for worker 1; then it begins to pass sums on.
dies() { # OUT WHO SECONDS arguments..
    local out=$1 who=$2 compute=$3; shift 3
    toys "$out" 4 sync bsp "$@" --workers 3 --iterations 900 --compute-s "$compute" --die "$who"
}
check "worker in a ring" dies inring 1=0.2 0.001 --exchange allreduce --toy mlp
check "worker in a ring: who" says inring "worker 1 (rank 1) was killed"
check "worker in a ring: one sentence" one_sentence inring
check "worker in a ring: files" whole "$tmp/inring/iterations.csv"
check "hybrid: worker in a ring" dies hring 0=0.2 0.001,2,0.001 --exchange hybrid --toy wide_deep --servers 2
check "hybrid: worker in a ring: who" says hring "worker 0 (rank 0) was killed"
check "hybrid: worker in a ring: nobody ended an iteration" [ "$(lines "$tmp/hring/iterations.csv")" = 0 ]
check "hybrid: worker in a push" dies hpush 2=0.2 0.001,0.001,0.3 --exchange hybrid --toy wide_deep --servers 2
check "hybrid: worker in a push: who" says hpush "worker 2 (rank 2) was killed"
check "hybrid: worker in a push: one sentence" one_sentence hpush
role() { # PID RANK: the process of that rank
    local p
    for p in $(ranks "$1"); do tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$2" && echo "$p"; done
}
strike() { # OUT SIGNAL RANK WANTED_EXIT arguments..: a run whose rank gets a signal while it trains
    local out=$1 sig=$2 rank=$3 want=$4 pid victim all rc; shift 4
    "$L" "$@" --backend host --seed 3 --out "$tmp/$out" --iterations 90000 >"$tmp/$out.out" 2>"$tmp/$out.err" &
    pid=$!; mine+=("$pid")
    until_rows "$tmp/$out/ranks/iterations-0.csv" 20 "$pid" || { echo "it did not train"; return 1; }
    victim=$(role "$pid" "$rank"); all=$(family "$pid")
    kill -"$sig" $victim
    wait "$pid"; rc=$?
    [ $rc = "$want" ] || { echo "exit $rc, not $want"; cat "$tmp/$out.err"; return 1; }
    left_of $all
}
check "worker in a push" strike push KILL 1 4 sync asp --toy softreg --workers 3 --servers 2
check "worker in a push: who" says push "worker 1 (rank 1) was killed"
check "worker in a push: one sentence" one_sentence push
check "worker in a push: files" whole "$tmp/push/iterations.csv"
check "worker in a push: lost" grep -q '"state": "lost"' "$tmp/push/summary.json"
check "worker in a push: rows" [ "$(lines "$tmp/push/iterations.csv")" -gt 5 ]
check "server" strike server KILL 3 4 sync bsp --toy mlp --workers 2 --servers 2
check "server: who" says server "server 1 (rank 3) was killed"
check "server: files" whole "$tmp/server/iterations.csv"
check "hybrid: server" strike hserver KILL 3 4 sync bsp --exchange hybrid --toy wide_deep --workers 2 --servers 2
check "hybrid: server: who" says hserver "server 1 (rank 3) was killed"
check "hybrid: server: one sentence" one_sentence hserver
check "controller" strike controller KILL 3 4 sync preduce --toy softreg --workers 3
check "controller: who" says controller "the controller (rank 3) was killed"
check "controller: files" whole "$tmp/controller/iterations.csv" "$tmp/controller/groups.csv"
check "stopped" strike stopped STOP 2 6 sync ssp --staleness 1 --toy softreg --workers 2 --servers 1 --stuck-s 1
check "stopped: who waits" says stopped "has waited 1 s for server 0"
check "stopped: one sentence" one_sentence stopped
check "stopped worker" strike astray STOP 1 6 sync bsp --exchange allreduce --toy mlp --workers 3 --stuck-s 1
check "stopped worker: who waits" grep -q 'has waited 1 s for' "$tmp/astray.err"

# Nobody waits for these, or one of a group that had formed does: groups form without a worker, servers answer the others.
unseen() { # NAME RANK arguments..
    local name=$1 rank=$2; shift 2
    check "stopped, $name" strike "unseen-$name" STOP "$rank" 6 "$@" --stuck-s 2
    check "stopped, $name: who" grep -qE "gives no sign of life to | has waited 2 s for " "$tmp/unseen-$name.err"
}
unseen preduce 1 sync preduce --toy softreg --workers 3
unseen asp 2 sync asp --toy softreg --workers 3 --servers 1

# ---- over results of before: they wait until a run is whole ----
over() { "$L" "$@" --backend host --seed 3 --out "$tmp/bsp" --force >/dev/null 2>"$tmp/bsp.err"; } # says all
check "over: lost" eval '! over sync asp --toy softreg --workers 3 --servers 2 --iterations 90000 --die 1=0.2'
check "over: it says where they are" says bsp "the results before these are kept in \`$tmp/bsp/.old\`"
check "over: lost, and complete" grep -q '"state": "lost"' "$tmp/bsp/summary.json"
check "over: they are whole" eval 'grep -q "\"state\": \"complete\"" "$tmp/bsp/.old/summary.json" && [ -e "$tmp/bsp/.old/ranks/facts-5.csv" ]'
check "over: whole" over sync bsp --toy softreg --workers 2 --servers 1 --iterations 5
check "over: they are gone" [ ! -e "$tmp/bsp/.old" ]
check "over: nothing of more ranks" [ ! -e "$tmp/bsp/ranks/iterations-2.csv" ]

# ---- options ----
check "no workers" toys no 2 sync bsp
check "no workers: says" says no '`--workers` is missing; `luoshu sync --backend host` needs it.'
check "servers without use" toys no 2 sync preduce --workers 2 --servers 1
check "servers without use: says" says no '`--servers` is no option of `sync preduce`; it is of `bsp`, `ssp` or `asp`, leave it out.'
check "ssp without bound" toys no 2 sync ssp --workers 2
check "embed without a cache" toys no 2 embed het --workers 2
check "embed without a cache: says" says no '`--cache-rows` is missing; `luoshu embed het --backend host` needs it.'
check "a barrier without one" toys no 2 sync asp --exchange allreduce --workers 2
check "a barrier without one: says" says no '`--exchange allreduce` is a barrier and `asp` has none; `ps` or `hybrid` is expected.'
check "an exchange of groups" toys no 2 sync preduce --exchange hybrid --workers 2
check "an exchange of groups: says" says no '`--exchange` is given and groups communicate by all-reduce; leave it out.'
check "hybrid without rows" toys no 2 sync bsp --exchange hybrid --toy mlp --workers 2
check "hybrid without rows: says" says no '`--toy mlp` has no rows by key; `wide_deep`, with rows by key and a dense part, is expected with `--exchange hybrid`.'
check "hybrid without a dense part" toys no 2 sync bsp --exchange hybrid --toy wide --workers 2
check "hybrid without a dense part: says" says no '`--toy wide` has no dense part; '
check "servers of a ring" toys no 2 sync bsp --exchange allreduce --servers 2 --workers 2
check "servers of a ring: says" says no '`--servers` is no option of `--exchange allreduce`; leave it out.'
check "a server of a ring dies" toys no 2 sync bsp --exchange allreduce --die server=1 --workers 2
check "a server of a ring dies: says" says no '`--die` names a server and there is none; leave it out.'
check "keys of a dense toy" toys no 2 sync bsp --keys zipf:vocab=9 --workers 2
check "keys of a dense toy: says" says no '`--toy softreg` has no rows by key; `wide` or `wide_deep` is expected with `--keys`.'
check "keys and a batch" toys no 2 sync bsp --toy wide --keys zipf:vocab=9 --batch 3 --workers 2
check "keys and a batch: says" says no 'leave `--batch` out.'
check "a network without cost" toys no 2 sync bsp --alpha-s 1 --workers 2
check "a network without cost: says" says no '`--alpha-s` is of `--hybrid cost`, which is not given; leave it out.'
check "an option of the simulator" toys no 2 sync bsp --workers 2 --horizon-s 3
check "an option of the simulator: says" says no '`--horizon-s` is no option of `luoshu sync --backend host`; leave it out.'
check "two deaths" toys no 2 sync asp --workers 2 --die 0=1,1=2
finish
