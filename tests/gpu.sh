#!/usr/bin/env bash
# The scripts of `make check-gpu` and `make bench-gpu` where there is no GPU: what they say then, and
# what they make of the output of programs, which are made up here. No number is a measurement.
set -u
export LC_ALL=C
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
n=0; bad=0
check() { # NAME CONDITION..: the condition is a command
    local name=$1; shift; n=$((n + 1))
    "$@" && return
    echo "FAIL $name"; cat "$tmp/log"; bad=$((bad + 1))
}
run() { # EXIT COMMAND..: its output into $tmp/log
    local want=$1; shift
    env -u LUO_GPU_BUILD "$@" >"$tmp/log" 2>&1
    local rc=$?
    [ $rc = "$want" ] || { echo "exit $rc, not $want" >>"$tmp/log"; return 1; }
}
says() { grep -qF -- "$1" "$tmp/log"; }
listing() { find tests/gpu/results 2>/dev/null | sort; }

program() { # PATH, its text from stdin
    mkdir -p "$(dirname "$1")"; { echo '#!/usr/bin/env bash'; cat; } >"$1"; chmod +x "$1"
}

# ---- nothing there ----
program "$tmp/bin/nvidia-smi" <<<'exit 9' # also on a machine that has one
before=$(listing)
for s in check bench; do
    check "$s: no backend" run 4 NO_CUDA="no nvcc" tests/gpu/$s.sh
    check "$s: says so" says "$s-gpu: not run: this build has no cuda backend (no nvcc); nvcc, cuBLASLt and NCCL are needed."
    check "$s: no GPU" run 4 NO_CUDA= PATH="$tmp/bin:$PATH" tests/gpu/$s.sh
    check "$s: says that" says "$s-gpu: not run: no GPU is there"
    check "$s: refuses" run 4 LUO_GPU_BUILD="$tmp" LUO_GPU_OUT=tests/gpu/results/x tests/gpu/$s.sh
    check "$s: says why" says "results of the stand-in do not belong in tests/gpu/results."
done
check "nothing was written" [ "$before" = "$(listing)" ]

# ---- made-up programs ----
b=$tmp/build
program $b/tests/gpu/facts <<<'echo "device NVIDIA H100 made up"'
program $b/tests/cuda/check_one <<<'echo "100%: Checks: 3, Failures: 0, Errors: 0"'
program $b/tests/gpu/bench_products <<'END'
echo "name,shape,type,s,bytes,flop,gbytes_per_s,tflop_per_s,ceiling,share"
echo "all,$2 tokens,$3,0.001000000,0,1000000000,0.000,1.000,4.000,0.2500"
END
for p in kernels attention; do
    program $b/tests/gpu/bench_$p <<<'echo "name,shape,type,s,bytes,flop,gbytes_per_s,tflop_per_s,ceiling,share"'
done
# steps of 3, 2, 1, 5 seconds; models of 8 layers and more do not fit
program "$tmp/luoshu" <<END
case \$1 in
explain) exec "$LUOSHU" "\$@" ;;
run) grep -q '"layers": [89],' "\$2" && exit 5
    while [ \$# -gt 1 ]; do [ "\$1" != --out ] || out=\$2; shift; done
    mkdir -p "\$out/plan"; printf 'step,step_s\n0,3\n1,2\n2,1\n3,5\n' >"\$out/plan/steps.csv" ;;
esac
END
program "$tmp/python" <<'END'
case " $* " in *" autocast "*) echo "autocast,1,4.000000000,1.000,1.000000,0,9.9,99" ;; *) echo "no kernel" >&2; exit 1 ;; esac
END

check "check: passes" run 0 LUO_GPU_BUILD=$b LUO_GPU_OUT="$tmp/out" tests/gpu/check.sh
check "check: label" grep -q "^ON THE STAND-IN FOR CUDA" "$tmp/out/check.txt"
check "check: row" grep -qE '^plain,cuda/check_one,3,0,[0-9.]+,ok$' "$tmp/out/check.csv"
program $b/tests/cuda/check_two <<<'echo "50%: Checks: 2, Failures: 1, Errors: 0"; exit 1'
check "check: fails" run 1 LUO_GPU_BUILD=$b LUO_GPU_OUT="$tmp/out" tests/gpu/check.sh
check "check: failed row" grep -qE '^plain,cuda/check_two,,,,failed$' "$tmp/out/check.csv"

sed 's/^layers: .*/layers: 9/' scenarios/models/tiny-llama.yaml >"$tmp/nine.yaml"
check "bench: runs" run 0 LUO_GPU_BUILD=$b LUO_GPU_OUT="$tmp/out" LUOSHU="$tmp/luoshu" LUO_PYTHON="$tmp/python" \
    LUO_BENCH_STEPS=4 LUO_BENCH_MODELS="$tmp/nine.yaml 64 2 3" tests/gpu/bench.sh
# 5 of 9 layers fit. Median of 2, 1, 5. tiny-llama with 5 layers: 245,440 parameters less 16,384.
parameters=$(sed 's/^layers: .*/layers: 5/' "$tmp/nine.yaml" >"$tmp/five.yaml"; "$LUOSHU" explain "$tmp/five.yaml" | sed -n 's/^model .*: \([0-9]*\) parameters.*/\1/p')
full=$((6 * (parameters - 256 * 64) + 12 * 5 * 64 * 64)) half=$((6 * (parameters - 256 * 64) + 6 * 5 * 64 * 64))
check "bench: luoshu" grep -qx "luoshu,bf16,nine,5,9,$parameters,64,2,3,bf16,2.000000,192.0,$full,$half,989,0.0000,0.0000,,," "$tmp/out/train.csv"
check "bench: torch" grep -q "^torch,compile-autocast,nine,5,9,$parameters,64,2,3,bf16,4.000000,96.0,$full,$half,989," "$tmp/out/train.csv"
check "bench: one failed" says "torch master, nine: failed: no kernel"
check "bench: ratio" says "nine: luoshu has 2.000 of PyTorch's tokens/s"
check "bench: layers" says "nine: 5 of 9 layers fit into the device's memory"
check "bench: table" cmp -s <("$b/tests/gpu/bench_products" x 128 bf16) "$tmp/out/products-nine.csv"

echo "$(((n - bad) * 100 / n))%: Checks: $n, Failures: $bad, Errors: 0"
[ $bad = 0 ]
