#!/usr/bin/env bash
# What `make bundle` makes, over the stand-in for CUDA: it runs in an empty root (loader and libc, /proc, a few
# devices, the loopback; no shell), wherever it is put, with the Open MPI that it carries; nothing in it looks elsewhere;
# exec/bundle/env.sh finds what a machine has of CUDA; without NCCL one rank runs. Of GPUs it shows nothing.
# B: what is built there (bundle-parts, STANDIN_RANK, BUNDLE_BARE, CUDA_TESTS).
set -u
. tests/runs.sh
B=${B:-build/release}
skipped=
# Namespaces of our own: as root, or as the root of a user namespace.
own=(unshare --mount --propagation private)
[ "$(id -u)" = 0 ] || own+=(--map-root-user)
can() { "${own[@]}" true 2>/dev/null; }

# ---- making it ----
bundle() { exec/bundle/make.sh "$tmp/$1" "$B" "$2" "$B/tests" >"$tmp/made" 2>&1 || { tail -n 3 "$tmp/made"; false; }; }
check "it is made" bundle full "$B/standin/luoshu-rank-cuda"
check "it is made, without NCCL" bundle bare "$B/bundle/luoshu-rank-cuda"
objects() { find "$1" -type f \( -perm -u+x -o -name '*.so*' \) | while read -r f; do [ "$(head -c 4 "$f")" != $'\x7fELF' ] || echo "$f"; done; }
check "it has programs" [ "$(objects "$tmp/full" | grep -cE '/(bin/(luoshu|luoshu-rank|luoshu-rank-cuda|mpirun)|gpu/tests/cuda/(mpi/)?check_[a-z_]*)$')" -gt 12 ]
paths() { # every DT_RPATH is inside of the folder, and there is no DT_RUNPATH
    local f at ok=0
    while read -r f; do
        at=$(readelf -d "$f" | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\1 \2/p')
        case $at in 'RPATH $ORIGIN'*) ;; *) echo "$f: $at"; ok=1; continue ;; esac
        at=$(realpath -m "${at/#RPATH \$ORIGIN/$(dirname "$f")}")
        [ "$at" = "$tmp/full/lib" ] || { echo "$f looks in $at"; ok=1; }
    done < <(objects "$tmp/full")
    return $ok
}
check "nothing looks elsewhere" paths
check "no debug information" [ -z "$(for f in "$tmp"/full/bin/*; do readelf -S "$f" | grep -o '[.]debug_info'; done)" ]

# ---- the archive ----
mkdir "$tmp/large" && head -c 2500000 /dev/urandom >"$tmp/large/random"
pack() { exec/bundle/pack.sh "$tmp/$1" "$2" >"$tmp/packed" 2>&1; }
check "too large: refused" eval '! pack large 2'
check "too large: the sentence" grep -qxE "bundle: the archive of .*/large has 2\.4 MiB, more than the 2 that were allowed \(BUNDLE_MIB\)\." "$tmp/packed"
check "too large: nothing stays" [ -z "$(ls "$tmp"/large.tar* 2>/dev/null)" ]
check "small enough" pack large 3
check "small enough: its size is told" grep -qE '/large\.tar\.xz: 2\.4 MiB$' "$tmp/packed"
mkdir "$tmp/again" && tar -xJf "$tmp/large.tar.xz" -C "$tmp/again"
check "what was packed" cmp -s "$tmp/large/random" "$tmp/again/large/random"

# ---- without nvcc ----
no_cuda() { ! make --no-print-directory NVCC= "$@" bundle >"$tmp/said" 2>&1; }
check "no nvcc: refused" no_cuda
check "no nvcc: the sentence" grep -qx 'make bundle: it needs the cuda backend, which this build lacks (no nvcc).' "$tmp/said"

# ---- exec/bundle/env.sh, on machines that have this and that ----
# A bundle of exec/bundle/env.sh and a program that needs both libraries; a loader that knows nothing of this machine's CUDA.
mkdir -p "$tmp/small/bin" "$tmp/small/lib/absent" "$tmp/site/nvidia/nccl/lib" "$tmp/site/nvidia/cu13/lib" "$tmp/home/lib64"
cp exec/bundle/env.sh "$tmp/small"
for l in libcublasLt.so.13 libnccl.so.2; do
    gcc -shared -Wl,-soname,$l -o "$tmp/$l" -x c - <<<'int here;'
done
echo 'int main(void) {return 0;}' | gcc -x c -o "$tmp/small/bin/luoshu-rank-cuda" - -x none -Wl,--no-as-needed "$tmp/libcublasLt.so.13" "$tmp/libnccl.so.2"
cp "$tmp/libnccl.so.2" "$tmp/small/lib/absent"
cp "$tmp/libnccl.so.2" "$tmp/site/nvidia/nccl/lib"
cp "$tmp/libcublasLt.so.13" "$tmp/site/nvidia/cu13/lib"
cp "$tmp/libcublasLt.so.13" "$tmp/home/lib64"
mkdir "$tmp/both" && cp "$tmp"/lib*.so.* "$tmp/both"
# What it says, its status, and what the loader then finds; with BEFORE run ahead.
cat >"$tmp/machine.sh" <<'END'
mount --bind /dev/null /etc/ld.so.cache
for d in /usr/local/cuda*; do [ -d "$d" ] && [ ! -L "$d" ] && mount -t tmpfs none "$d"; done
unset CUDA_HOME LD_LIBRARY_PATH PYTHONPATH
eval "$1"
. "$2/env.sh"; echo "status $?"
[ -z "${3:-}" ] || . "$2/env.sh" >/dev/null
echo "path ${LD_LIBRARY_PATH:-}"
echo "looked ${LUO_NCCL_LOOKED:-}"
LD_TRACE_LOADED_OBJECTS=1 "$2/bin/luoshu-rank-cuda" | awk '/nccl|cublasLt/ {print "loads", $1, $3}'
echo "left $(declare -F | grep -c luo_)"
END
machine() { # BEFORE [twice]
    "${own[@]}" bash "$tmp/machine.sh" "$1" "$tmp/small" "${2:-}" >"$tmp/said" 2>&1
}
says() { grep -qxF "$1" "$tmp/said" || { cat "$tmp/said"; false; }; }
loads() { # CUBLAS NCCL: folders
    says "loads libcublasLt.so.13 $1/libcublasLt.so.13" && says "loads libnccl.so.2 $2/libnccl.so.2"
}
environments() {
    machine "export PYTHONPATH=$tmp/site"
    check "env.sh: Python packages" loads "$tmp/site/nvidia/cu13/lib" "$tmp/site/nvidia/nccl/lib"
    check "env.sh: says what it found" says "luoshu: libnccl.so.2 is $tmp/site/nvidia/nccl/lib/libnccl.so.2"
    check "env.sh: status" says "status 0"
    check "env.sh: leaves no functions" says "left 0"
    machine "export PYTHONPATH=$tmp/site CUDA_HOME=$tmp/home"
    check "env.sh: CUDA_HOME before Python" loads "$tmp/home/lib64" "$tmp/site/nvidia/nccl/lib"
    machine "export PYTHONPATH=$tmp/site CUDA_HOME=$tmp/home LD_LIBRARY_PATH=$tmp/both"
    check "env.sh: what the loader finds comes first" loads "$tmp/both" "$tmp/both"
    check "env.sh: and adds nothing" says "path $tmp/both"
    machine "export CUDA_HOME=$tmp/home"
    check "env.sh: no NCCL: the one that says so" loads "$tmp/home/lib64" "$tmp/small/lib/absent"
    check "env.sh: no NCCL: the sentence" says \
        "luoshu: NCCL is missing: libnccl.so.2 was looked for in $(sed -n 's/^looked //p' "$tmp/said"); one rank runs without it."
    check "env.sh: no NCCL: where it looked" grep -q "^looked the loader's folders, .*$tmp/home/lib64" "$tmp/said"
    check "env.sh: no NCCL: status" says "status 0"
    machine "export CUDA_HOME=$tmp/home" twice
    check "env.sh: twice is once" says "path $tmp/home/lib64:$tmp/small/lib/absent"
    machine "export CUDA_HOME=$tmp/home; . $tmp/small/env.sh >/dev/null; export PYTHONPATH=$tmp/site"
    check "env.sh: NCCL that came later is found" loads "$tmp/home/lib64" "$tmp/site/nvidia/nccl/lib"
    mv "$tmp/small/bin" "$tmp/small/gone"
    machine "export CUDA_HOME=$tmp/home"
    check "env.sh: not whole: the sentence" grep -qE '^luoshu: .*/small/bin/luoshu-rank-cuda does not start here; ' "$tmp/said"
    check "env.sh: not whole: status" says "status 1"
    mv "$tmp/small/gone" "$tmp/small/bin"
    machine "LUO_PYTHON=/nowhere"
    check "env.sh: no cuBLASLt: the sentence" grep -qE "^luoshu: libcublasLt.so.13 is missing: looked for in the loader's folders(, .*)?; --backend cuda needs it\.$" "$tmp/said"
    check "env.sh: no cuBLASLt: status" says "status 1"
}

# ---- the empty root ----
root=$tmp/root
make_root() {
    local l
    mkdir -p "$root"/{tmp,proc,dev,lib64,opt,lib/x86_64-linux-gnu}
    cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64"
    for l in c m pthread dl rt util; do cp -L /lib/x86_64-linux-gnu/lib$l.so.* "$root/lib/x86_64-linux-gnu"; done
}
net=(); ! command -v ip >/dev/null || net=(--net)
box() { # PROGRAM..: in the empty root
    "${own[@]}" --pid --fork --kill-child "${net[@]}" bash -c '
        [ -z "$2" ] || ip link set lo up
        mount -t proc proc "$1/proc"; mount -t tmpfs none "$1/dev"; mkdir "$1/dev/shm"
        for d in null urandom; do : >"$1/dev/$d"; mount --bind "/dev/$d" "$1/dev/$d"; done
        root=$1 enter=$(command -v chroot); shift 2; export PATH=/bin HOME=/; exec "$enter" "$root" "$@"' box "$root" "${net[*]}" "$@"
}
in_box() { # OUT WANTED_EXIT PROGRAM..
    local out=$tmp/$1 want=$2 rc; shift 2
    box "$@" >"$out.out" 2>"$out.err"; rc=$?
    [ $rc = "$want" ] || { echo "exit $rc, not $want: $*"; tail -n 5 "$out.out" "$out.err"; false; }
}
luoshu() { # OUT WANTED_EXIT FOLDER VERB arguments..
    local out=$1 want=$2 at=$3; shift 3
    in_box "$out" "$want" "$at/bin/luoshu" "$@" --model "$at/scenarios/models/tiny-llama.yaml" --cluster "$at/scenarios/host/ranks4x2.yaml" \
        --plots off --steps 3 --quiet --out "/tmp/$out"
}
plan() { echo "$1/scenarios/host/plans/tiny-$2.json"; }
ranks() { luoshu "$1" 0 "$2" run "$(plan "$2" "$4")" --backend "$3" --ranks "$4" "${@:5}"; } # OUT FOLDER BACKEND RANKS
libraries() { # FOLDER: none is missing, all are the bundle's or the machine's libc
    local f lost ok=0
    while read -r f; do
        lost=$(box /lib64/ld-linux-x86-64.so.2 --list "${f#"$root"}" 2>&1 |
            grep -vE "^\s(linux-vdso|/lib64/ld-linux)|=> ($1|/lib/x86_64-linux-gnu|/lib64)/" | grep -v 'statically linked')
        [ -z "$lost" ] || { echo "${f#"$root"}: $lost"; ok=1; }
    done < <(objects "$root$1" | grep -v /absent/)
    return $ok
}
empty_root() {
    local b=/opt/here moved="/opt/else where/bundle" p
    make_root
    cp -r "$tmp/full" "$root$b"
    ln -s "$b/scenarios" "$root/scenarios"
    check "root: there is no shell" in_box shell 127 /bin/sh
    check "root: no library is missing" libraries $b
    check "root: version" in_box version 0 $b/bin/luoshu --version
    check "root: what it says" grep -q '^luoshu ' "$tmp/version.out"
    check "root: sim" luoshu sim 0 $b sim "$(plan $b 2)"
    check "root: host, 2 ranks" ranks host2 $b host 2
    check "root: cuda, 1 rank" ranks cuda1 $b cuda 1
    check "root: cuda, 2 ranks" ranks cuda2 $b cuda 2
    check "root: cuda, 2 ranks: losses of host" near 1e-4 <(curve "$root/tmp/cuda2/plan") <(curve "$root/tmp/host2/plan")
    check "root: calibrate" in_box calibrate 0 $b/bin/luoshu calibrate --ranks 1 --quick --quiet --out /tmp/calibrate
    for p in check_attention check_exec; do
        CK_FORK=no LUO_CASES=2 check "root: $p" in_box $p 0 $b/gpu/tests/cuda/$p
        check "root: $p: its checks" grep -qE '^100%: Checks: [1-9]' "$tmp/$p.out"
    done
    # Another place, an environment that speaks of another Open MPI, and a batch system.
    mkdir -p "$root${moved%/*}" && mv "$root$b" "$root$moved"
    export OPAL_PREFIX=/opt/hpcx OPAL_PKGLIBDIR=/opt/hpcx/lib PMIX_PREFIX=/opt/hpcx SLURM_JOB_ID=7 SLURM_JOB_NODELIST=other SLURM_NODELIST=other
    check "moved: host, 2 ranks" ranks moved "$moved" host 2
    unset OPAL_PREFIX OPAL_PKGLIBDIR PMIX_PREFIX SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NODELIST
    check "moved: losses" near 1e-12 <(curve "$root/tmp/moved/plan") <(curve "$root/tmp/host2/plan")
    check "moved: other hosts are refused" luoshu hosts 2 "$moved" run "$(plan "$moved" 2)" --backend host --hostfile /tmp/hosts
    check "moved: which launcher that is" grep -qF '`--launcher local` starts all on this one' "$tmp/hosts.err"
    # No NCCL, as exec/bundle/env.sh leaves it.
    cp -r "$tmp/bare" "$root/opt/bare"
    export LD_LIBRARY_PATH=/opt/bare/lib/absent LUO_NCCL_LOOKED="the loader's folders, /usr/local/cuda/lib64"
    check "no NCCL: 1 rank" ranks bare1 /opt/bare cuda 1
    check "no NCCL: losses" near 1e-12 <(curve "$root/tmp/bare1/plan") <(curve "$root/tmp/cuda1/plan")
    check "no NCCL: the manifest" grep -qF '"nccl": "none"' "$root/tmp/bare1/plan/manifest.json"
    check "no NCCL: 2 ranks" luoshu bare2 4 /opt/bare run "$(plan /opt/bare 2)" --backend cuda --ranks 2
    check "no NCCL: 2 ranks: one sentence" [ "$(grep -cE "^luoshu: error: .*NCCL is missing on [^ ]+: libnccl.so.2 was looked for in $LUO_NCCL_LOOKED; 2 ranks speak through it, and one rank alone needs none\.$" "$tmp/bare2.err")/$(wc -l <"$tmp/bare2.err")" = 1/1 ]
    unset LD_LIBRARY_PATH LUO_NCCL_LOOKED
}
if can; then
    environments
    empty_root
else
    skipped="env.sh on other machines, and the empty root: neither root nor user namespaces are allowed here"
    echo "tests/bundle.sh: not run: $skipped."
fi
[ -z "$skipped" ] || echo "SKIPPED $skipped"
finish
