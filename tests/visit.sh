#!/usr/bin/env bash
# tests/gpu/visit.sh from start to end without a GPU, cut off at three places by SIGKILL: nothing that was
# written is lost, nothing is done twice but what was under way, and the rest is done. Plain: over made-up
# programs, whose output is no measurement. `tests/visit.sh standin`: over the programs of the build on
# the stand-in for CUDA (four minutes).
set -u
export LC_ALL=C
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
n=0; bad=0
check() { # NAME CONDITION..: the condition is a command
    local name=$1; shift; n=$((n + 1))
    "$@" && return
    echo "FAIL $name"; tail -n 20 "$tmp/log"; bad=$((bad + 1))
}
out=$tmp/out

program() { # PATH, its text from stdin
    mkdir -p "$(dirname "$1")"; { echo '#!/usr/bin/env bash'; cat; } >"$1"; chmod +x "$1"
}
made_up() {
    local b=$tmp/build p
    program $b/tests/gpu/facts <<<'echo "device NVIDIA H100 made up"'
    program $b/tests/gpu/startup <<<'echo mode,what,s,used_bytes; sleep 0.7; echo "$CUDA_MODULE_LOADING,context,0.5,1000"'
    for p in check_kernels check_products check_attention check_block check_kernels_step check_exec check_state_gpu check_watch_gpu \
        check_experts mpi/check_comm mpi/check_comm_faults mpi/ranks mpi/accept mpi/kinds mpi/experts; do
        program $b/tests/cuda/$p <<<'echo "100%: Checks: 3, Failures: 0, Errors: 0"'
    done
    program $b/tests/cuda/mpi/check_comm_faults <<<'sleep 0.7; echo "100%: Checks: 3, Failures: 0, Errors: 0"'
    for p in kernels attention products; do
        program $b/tests/gpu/bench_$p <<'END'
echo "name,shape,type,s,bytes,flop,gbytes_per_s,tflop_per_s,ceiling,share"
for i in 1 2 3 4 5 6 7 8; do echo "row$i,x,bf16,0.001000000,0,1000000000,0.000,1.000,4.000,0.2500"; sleep 0.05; done
END
    done
    program "$tmp/bin/mpirun" <<<'shift 2; exec "$@"'
    program "$tmp/bin/sanitizer" <<<'exec "${@: -1}"'
    program "$tmp/bin/python" <<<'echo "autocast,1,4.000000000,1.000,1.000000,0,9.9,99,made_up_kernel"'
    program "$tmp/bin/luoshu" <<END
case \$1 in
explain | sim) exec "$LUOSHU" "\$@" ;;
run) while [ \$# -gt 1 ]; do [ "\$1" != --out ] || out=\$2; shift; done
    mkdir -p "\$out/plan"; printf 'step,step_s,loss\n0,3,1\n1,2,1\n2,1,1\n3,5,1\n4,5,1\n5,5,1\n6,5,1\n7,5,1\n' >"\$out/plan/steps.csv" ;;
calibrate) while [ \$# -gt 1 ]; do [ "\$1" != --out ] || out=\$2; shift; done
    mkdir -p "\$out"; "$tmp/cluster" >"\$out/cluster.yaml" ;;
compare) while [ \$# -gt 1 ]; do [ "\$1" != --out ] || out=\$2; shift; done
    mkdir -p "\$out"; printf 'op,kind,calls,reference_s,other_s,error_ratio\nlayers.0.norm1,COMPUTE,2,2,4,-0.5\nlayers.*.norm1,COMPUTE,4,3,6,-0.5\n' >"\$out/compare_ops.csv" ;;
esac
END
    program "$tmp/bin/luoshu-rank-cuda" <<<'touch "$2/op_times-1.csv"'
    program "$tmp/cluster" <<<". tests/gpu/training.sh; cluster h100"
    export LUO_GPU_BUILD=$b LUOSHU=$tmp/bin/luoshu COMPUTE_SANITIZER=$tmp/bin/sanitizer LUO_PYTHON=$tmp/bin/python PATH=$tmp/bin:$PATH
}
standin() {
    local b=${B:-build/release}
    export LUO_GPU_BUILD=$b LUO_VISIT_HOST=$LUOSHU LUOSHU=$PWD/$b/standin/luoshu LUO_PYTHON=/bin/false LUO_CASES=2
}
case ${1:-} in standin) standin ;; *) made_up ;; esac
export LUO_GPU_OUT=$out LUO_GPU_QUICK=1 LUO_VISIT_MODEL="scenarios/models/tiny-llama.yaml 64 2 2" LUO_BENCH_STEPS=4

visit() { tests/gpu/visit.sh "$@" >"$tmp/log" 2>&1; }
ends() { # CODE arguments..
    local want=$1 rc; shift
    visit "$@"; rc=$?
    [ $rc = "$want" ] || { echo "exit $rc, not $want"; return 1; }
}
# Starts it in a session of its own, waits until FILE has LINE, kills all of it.
cut_off_at() { # FILE LINE
    setsid tests/gpu/visit.sh >"$tmp/log" 2>&1 &
    local pid=$! k
    for ((k = 0; k < 6000; k++)); do
        grep -qs "$2" "$out/$1" && break
        sleep 0.02
    done
    pkill -KILL -s "$pid" # its items lead groups of their own (timeout)
    wait "$pid"
    [ $k -lt 6000 ]
} 2>/dev/null
keep() { rm -rf "$tmp/kept$1"; cp -r "$out" "$tmp/kept$1"; }
nothing_lost() { # KEPT: each file of rows begins with what it was
    local f
    for f in "$tmp/kept$1"/*.csv "$tmp/kept$1/visit.txt"; do
        cmp -s "$f" <(head -c "$(stat -c %s "$f")" "$out/${f##*/}") || { echo "${f##*/} lost something"; return 1; }
    done
}
begun() { awk -F, -v i="$1" '$3 == i && $5 == "begun"' "$out/visit.csv" | wc -l; }

check "cut off in facts" cut_off_at visit.csv ',startup-eager,1,begun'; keep 1
check "cut off in the middle of rates" cut_off_at rates.csv '^bench_kernels,1,.*'; keep 2
check "cut off in ranks" cut_off_at visit.csv ',check_comm_faults,1,begun'; keep 3
check "the rest is done" ends 0
for i in 1 2 3; do check "nothing is lost, $i" nothing_lost $i; done
check "what was under way is begun again" [ "$(begun startup-eager) $(begun check_comm_faults)" = "2 2" ]
check "what was done is not" [ "$(begun check_kernels) $(begun bench_products) $(begun graphs)" = "1 1 1" ]
check "rows of both attempts" [ "$(cut -d, -f1,2 "$out/rates.csv" | grep -c '^bench_kernels,[12]$')" -gt 8 ]
check "each item has an end" [ -z "$(tests/gpu/visit.sh --list | tr ' ' '\n' | sed -n 's/:.*//p' | while read -r i; do
    grep -qE ",$i,[0-9]+,(ok|missing)," "$out/visit.csv" || echo "$i"; done)" ]
check "eight files at most" [ "$(find "$out" -type f | wc -l)" = 8 ]
check "steps, as they are and launched one by one" grep -qE '^no-graphs,1,luoshu,bf16-no-graphs,tiny-llama,' "$out/train.csv"
check "a step is predicted" grep -qE '^predicted,1,predicted,bf16,tiny-llama,.*,[0-9.e-]+,-?[0-9.]+,$' "$out/train.csv"
check "it says what it is of" grep -q "^ON THE STAND-IN FOR CUDA" "$out/facts.txt"
check "nothing is left to do" ends 0
check "a part again" ends 0 --part rates --again
check "its rows" [ "$(begun bench_kernels) $(begun bench_products) $(begun check_kernels)" = "3 2 1" ]
if [ "${1:-}" != standin ]; then
    check "the loss on both" grep -qE '^one-rank,[0-9],plain,one-rank,8,0,[0-9.]+,ok$' "$out/check.csv"
    check "the loss of a model with experts on both" grep -qE '^one-rank-experts,[0-9],plain,one-rank-experts,8,0,[0-9.]+,ok$' "$out/check.csv"
    check "operations beside the simulator's" grep -qE "^layers.\*.norm1 +3.000000s +6.000000s +-50.0 %$" "$out/visit.txt"
    check "the kernel of attention" grep -qE '^torch-autocast,1,torch,.*,made_up_kernel$' "$out/train.csv"
    program "$LUO_GPU_BUILD/tests/cuda/check_kernels" <<<'echo "50%: Checks: 2, Failures: 1, Errors: 0"; exit 1'
    program "$LUO_GPU_BUILD/tests/cuda/check_products" <<<'sleep 60'
    check "what fails, and what lasts" env LUO_VISIT_S=5 bash -c 'tests/gpu/visit.sh --part correct --again >/dev/null 2>&1; [ $? = 1 ]'
    check "its end" grep -qE ',correct,check_products,2,late,' "$out/visit.csv"
    check "its row" grep -qE '^check_kernels,2,plain,check_kernels,2,1,[0-9.]+,failed$' "$out/check.csv"
    check "too little time" env LUO_VISIT_S=1 bash -c 'tests/gpu/visit.sh --part rates --again >/dev/null 2>&1; [ $? = 3 ]'
    check "a part that is none" ends 2 --part rate
fi

[ -z "${KEEP:-}" ] || cp -r "$out" "$KEEP"
echo "$(((n - bad) * 100 / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
