#!/usr/bin/env bash
# The command as a process: what it loads, that signals end every verb, that little memory is a sentence and no hang.
# A verb that was told to end gets 30 s here (a busy machine); that half a second is what it takes is
# LUO_PROCESS_GRACE_S, and each prints how long it took.
set -u
. tests/runs.sh
trap 'for p in "${mine[@]}"; do kill -KILL -- "-$p" 2>/dev/null; done; rm -rf "$tmp"' EXIT
mine=()
models="--model $S/models/llama-32b.yaml --cluster $S/clusters/mixed48.yaml"
set -m # each in a group of its own

# ---- SimGrid is loaded by who simulates, and by nobody else ----
loads() { LD_DEBUG=files "$L" "$@" 2>&1 >/dev/null | grep -c 'calling init: .*\(simgrid\|ns3\|openblas\)'; }
check "version loads neither SimGrid nor OpenBLAS" [ "$(loads version)" = 0 ]
check "check does not" [ "$(loads check "$S/demo/plan.json")" = 0 ]
check "resolve does not" [ "$(loads resolve "[0,1]{-2:2}" "[0,1]{-1:2}" --shape 4x4)" = 0 ]
plan="$S/plans/tiny2.json --model $S/models/tiny-llama.yaml --cluster $S/clusters/tiny2.yaml"
check "explain does not" [ "$(loads explain $plan)" = 0 ]
check "explain --program does not" [ "$(loads explain $plan --program 1)" = 0 ]
check "explain --simulate does" [ "$(loads explain $plan --simulate)" -gt 0 ]
mkdir "$tmp/alone"; cp "$L" "$tmp/alone/luoshu"
alone() { "$tmp/alone/luoshu" "$@" >"$tmp/alone.out" 2>&1; echo $? >"$tmp/alone.rc"; }
missing="luoshu: error: \`$(realpath "$tmp")/alone/luoshu-sim.so\` is missing, the simulator; it belongs beside \`luoshu\`, where \`make\` puts it."
for v in "sim $S/examples/small.yaml --out $tmp/a" "plan auto $models --global-batch-size 64 --out $tmp/a.json" \
    "validate synthetic --data $S/examples/measured --out $tmp/v"; do
    alone $v
    check "missing: exit of $v" [ "$(cat "$tmp/alone.rc")" = 4 ]
    check "missing: the sentence of $v" grep -qxF "$missing" "$tmp/alone.out"
done

# Of another build: the two exchange structures as they lie in memory.
echo 'const char sim_stamp[] = "another"; int sim_serve(void *birth) { return birth != 0; }' |
    "${CC:-gcc}" -shared -fPIC -x c - -o "$tmp/alone/luoshu-sim.so"
other="luoshu: error: the simulator cannot be loaded: it is of another build; SimGrid 3.32 and the \`luoshu-sim.so\` of this build are expected."
alone sim "$S/examples/small.yaml" --out "$tmp/b"
check "another build's simulator: exit" [ "$(cat "$tmp/alone.rc")" = 4 ]
check "another build's simulator: the sentence" grep -qxF "$other" "$tmp/alone.out"

# ---- little memory: it works, or it ends with a sentence; no thread spins, no constructor aborts ----
fits() { # KIB NAME WORDS..
    local kib=$1 name=$2 rc; shift 2
    (ulimit -v "$kib"; exec timeout -s KILL 60 "$L" "$@") >"$tmp/fits.out" 2>"$tmp/fits.err"; rc=$?
    check "$kib KiB, $name: exit $rc" eval "[ $rc = 0 ] || [ $rc = 4 ]"
    check "$kib KiB, $name: says why" eval "[ $rc = 0 ] || grep -qE '^(luoshu|[^ ]+:[0-9]+:[0-9]+): error: .*[.]\$' '$tmp/fits.err'"
    echo "$kib KiB, $name: $rc"
}
# What sanitizers take of the address space is more.
if ! "$L" version | grep -q fsanitize; then
    for kib in 50000 100000 150000 220000; do
        fits $kib version version
        fits $kib check check "$S/examples/small.yaml"
        fits $kib resolve resolve "[0,1]{-2:2}" "[0,1]{-1:2}" --shape 4x4
        fits $kib import import lengths-text "$S/profiles" --unit words --out "$tmp/few.csv" --force
        fits $kib sim sim "$S/examples/small.yaml" --out "$tmp/f" --force --plots off
        fits $kib plan plan auto $models --global-batch-size 64 --out "$tmp/f.json" --force
        fits $kib sync sync preduce --workers 64 --compute-s 1 --horizon-s 100 --dense-bytes 1e9 --out "$tmp/fs" --force
        fits $kib embed embed het --workers 8 --keys zipf:theta=1.05,vocab=2e6,batch=64,slots=26 --cache-rows 10000 --iterations 5 --out "$tmp/fh" --force
        fits $kib run run "$H/demo.yaml" --backend host --out "$tmp/fr" --force --plots off
        fits $kib calibrate calibrate --quick --ranks 2 --out "$tmp/fc" --force
    done
    # Around what MPI and BLAS take: OpenBLAS tries for ever where it gets no buffer, mpirun waits for ever for itself.
    for kib in 180000 210000 300000 400000 425000 450000 500000; do
        fits $kib run run "$H/plans/tiny-2.json" --model "$S/models/tiny-llama.yaml" --cluster "$H/ranks4x2.yaml" --backend host --ranks 2 --out "$tmp/fr" --force --plots off
        fits $kib "sync" sync bsp --toy softreg --workers 2 --servers 1 --iterations 5 --backend host --out "$tmp/ft" --force
    done
fi

# ---- signals ----
family() { local p; for p in "$@"; do echo "$p"; family $(pgrep -P "$p"); done; }
left_of() { # PID..: is any of them still there? they get a moment to go
    local p i
    for i in $(seq 100); do
        for p in "$@"; do kill -0 "$p" 2>/dev/null && { sleep 0.1; continue 2; }; done
        return 0
    done
    return 1
}
began_work() { # it or a child of it has computed for some hundredths of a second, or it waits for a file
    local spent
    for _ in $(seq 1000); do
        [ -e "/proc/$pid/stat" ] || return 1
        spent=$(cat $(family "$pid" | sed 's|.*|/proc/&/stat|') 2>/dev/null | awk '{sub(/.*\) /, ""); n += $12 + $13} END {print n + 0}')
        [ "$spent" -lt 3 ] && [ -z "$waits" ] || return 0
        sleep 0.02
    done
    return 1
}
until_deaf() { # its first child hears nothing more
    local child
    until child=$(pgrep -P "$pid" | head -n 1) && [ -n "$child" ]; do kill -0 "$pid" || return 1; sleep 0.02; done
    kill -STOP "$child"
    until grep -qs '^State:.*T' "/proc/$child/status"; do [ -e "/proc/$child" ] || return 1; sleep 0.02; done
}
stopped() { # SIGNAL NAME WORDS..: starts, waits until it is at work, tells it to end; limit: it ends by itself with this code
    local sig=$1 name=$2 all began code; shift 2
    "$L" "$@" >"$tmp/said" 2>&1 </dev/null & pid=$!; mine+=("$pid")
    check "$name: it was at work" began_work
    [ -z "$deaf" ] || until_deaf
    sleep 0.2
    all=$(family "$pid"); began=$(now)
    [ -n "$limit" ] || kill "-$sig" "$pid"
    { sleep 30; kill -KILL -- "-$pid"; } 2>/dev/null & local watch=$!
    wait "$pid" 2>/dev/null; code=$?
    kill -KILL -- "-$watch" 2>/dev/null; wait "$watch" 2>/dev/null
    echo "$name: $sig, $(calc_s "$began") s"
    check "$name: exit $code" [ $code = "${limit:-$((128 + $(kill -l "$sig")))}" ]
    check "$name: nobody is left" left_of $all
}
# Much to read, to plan and to simulate; a pipe that nobody writes to; a policy at a plan that takes its time.
waits= deaf= limit=
awk 'BEGIN {print "schema: luoshu.model/1"; for (i = 0; i < 1500000; i++) print "k" i ": [1, 2, {a: 3}]"}' >"$tmp/large.yaml"
mkdir -p "$tmp/data/suites"; mkfifo "$tmp/pipe" "$tmp/data/suites/synthetic.csv"
stopped INT check check "$tmp/large.yaml"
stopped TERM explain explain "$tmp/large.yaml"
stopped TERM plan plan auto $models --global-batch-size 64 --out "$tmp/p.json"
stopped INT sync sync preduce --workers 512 --compute-s 1 --horizon-s 1e5 --dense-bytes 1e9 --out "$tmp/s"
stopped HUP embed embed het --workers 8 --keys zipf:theta=1.05,vocab=2e6,batch=64,slots=26 --cache-rows 10000 --iterations 20000 --out "$tmp/h"
stopped INT calibrate calibrate --ranks 2 --out "$tmp/c"
waits=yes
stopped TERM moe moe exchange --cluster "$tmp/pipe" --out "$tmp/m"
stopped INT validate validate synthetic --data "$tmp/data" --out "$tmp/v"
stopped HUP reading check "$tmp/pipe"
stopped HUP import import lengths-text "$tmp/pipe" --unit words --out "$tmp/words.csv"
waits=
for sig in INT TERM HUP; do
    stopped $sig "sim $sig" sim "$S/bench/w4.yaml" --out "$tmp/sim$sig" --trace-steps none --plots off
    check "sim $sig: the rows are whole" whole $(find "$tmp/sim$sig" -name '*.csv' ! -path '*/config/*') /dev/null
    check "sim $sig: interrupted" eval 'grep -qh "\"state\": \"interrupted\"" "$tmp/sim$sig"/*/manifest.json'
done
# Policies that hear nothing are killed, and their verb ends by itself: of a run, of one whose time is over, of seeds.
deaf=yes
for sig in INT TERM; do
    stopped $sig "deaf $sig" sim "$S/bench/w4.yaml" --out "$tmp/deaf$sig" --trace-steps none --plots off
    check "deaf $sig: interrupted" eval 'grep -qh "\"state\": \"interrupted\"" "$tmp/deaf$sig"/*/manifest.json'
done
stopped TERM "deaf seeds" sim "$S/bench/w4.yaml" --seeds 1-2 --out "$tmp/deafseeds" --trace-steps none --plots off
limit=6
stopped none "deaf limit" sim "$S/bench/w4.yaml" --out "$tmp/deaflimit" --limit-s 3 --trace-steps none --plots off
deaf= limit=
stopped INT run run "$H/demo.yaml" --backend host --out "$tmp/run" --plots off
finish
