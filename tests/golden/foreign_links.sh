# Folders of others may hold links: every verb that writes into a given folder replaces them, or refuses, and never writes
# where they lead. Each fills a folder; then all that it wrote becomes links to files elsewhere, and it writes again.
mkdir victims; n=0
turn() { # DIR FIND-OPTION...
    local f
    while read -r f; do n=$((n + 1)); echo victim >"victims/$n"; ln -sf "$PWD/victims/$n" "$f"; done < <(find "$@" -type f ! -name .lock | sort)
}
tell() { # NAME RC
    [ $n -gt 0 ] && echo "$1: exit $2, written through: $(grep -Lx victim -r victims | wc -l)"; rm -f victims/*; n=0
}
twice() { # NAME DIR WORD...
    local name=$1 dir=$2; shift 2
    "$LUOSHU" "$@" >first 2>&1 || cat first
    turn "$dir"; "$LUOSHU" "$@" --force >again 2>again.err; local rc=$?
    sed "s|$PWD/||g" again.err | grep '^luoshu: error' | sed 's/`[^`]*`/`..`/'; tell "$name" $rc
}
S=$TOP/scenarios made=$TOP/scenarios/examples/measured
twice sim one sim $S/examples/small.yaml --plots off --quiet --out one
rm -rf one; "$LUOSHU" sim $S/examples/small.yaml --quiet --out one >/dev/null
"$LUOSHU" sim $S/examples/small.yaml --plots off --quiet --seed 2 --out two >/dev/null
twice compare cmp compare one/static two/static --allow-different --out cmp
twice sync sync sync bsp --workers 2 --compute-s 1 --sync-s 0.1 --horizon-s 5 --quiet --out sync
twice embed embed embed ps --workers 2 --servers 2 --keys zipf:theta=1.05,vocab=500,batch=8,slots=4 --iterations 5 --quiet --out embed
twice moe moe moe exchange --cluster $S/clusters/a100-64.yaml --nodes 4 --plots off --quiet --out moe
twice validate val validate synthetic --data $made --quiet --out val
twice calibrate cal calibrate --from $made/suites/synthetic.csv --fit gemm_ratio,host_launch_us --quiet --out cal

# Figures and their tables are drawn again without --force.
turn one/plots; turn one/static/plots
"$LUOSHU" plot one >/dev/null; tell plot $?
find one -type l | wc -l
mkdir elsewhere; rm -rf one/plots; ln -s "$PWD/elsewhere" one/plots
"$LUOSHU" plot one; echo "exit $?"; ls elsewhere
rm one/plots; mv one/static away; ln -s "$PWD/away" one/static; rm -rf away/plots
"$LUOSHU" plot one >/dev/null; echo "exit $?"; ls -d away/plots
rm one/static; sed -i 's|^static|../away|' one/compare.csv; "$LUOSHU" plot one >/dev/null; echo "exit $?"; ls -d away/plots
# What a user names as a file is followed, as before: the link stays.
echo old >named; ln -s named link.json
"$LUOSHU" plan uniform --model $S/models/tiny-llama.yaml --cluster $S/clusters/tiny2.yaml --force --out link.json --quiet >/dev/null; echo "exit $?"
[ -L link.json ] && head -c 1 named
