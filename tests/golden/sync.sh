# Vectors S0, S1, ASP, PR4, PR5 by the command: four workers, the last twice as slow; what is written of them.
l() { "$LUOSHU" sync "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: sync $*"; }
four="--workers 4 --compute-s 1,1,1,2 --sync-s 0.1 --horizon-s 22"
l bsp $four --out bsp # rounds of 2.1 s: 10 of them
l ssp --staleness 1 $four --out ssp
l asp $four --out asp
l allreduce $four --out allreduce
l adpsgd $four --out adpsgd
l preduce --groups wait_s=0.2 $four --out pr4
l preduce --groups wait_s=0.2,guard=3 $four --out pr5
l preduce --groups wait_s=0.2,request_s=0.05 ${four/--sync-s 0.1/--sync-s 0} --out requests # as PR4: 17, 17, 17, 9
grep ',1$' pr5/groups.csv
head -n 4 pr4/groups.csv pr4/iterations.csv ssp/iterations.csv ssp/ahead.csv
l preduce --groups wait_s=0.2,beta=0.5 $four --out pr4 --force --json
tr -d ' \n' <pr4/summary.json; echo
# PS1's servers see every row; by range the popular keys are on one of them.
rows="--workers 4 --compute-s 1 --horizon-s 20 --keys zipf:theta=1.2,vocab=1000,batch=16,slots=4 --servers 2 --seed 3"
l ssp --staleness 3 --straggler factor:2=1.5 $rows --out mod
l ssp --staleness 3 --straggler factor:2=1.5 $rows --shard range --out range
cat mod/servers.csv range/servers.csv
# Beside 1e9 bytes of dense gradients; and the rows, too, where a ring is cheaper.
l bsp $rows --exchange hybrid --dense-bytes 1e9 --out hybrid
l bsp ${rows/theta=1.2,vocab=1000,batch=16/theta=0,vocab=1000,batch=512} --exchange hybrid --dense-bytes 1e9 \
    --hybrid cost --alpha-s 0 --out cost
l asp $rows --exchange hybrid --dense-bytes 1e9 --out barrier
l bsp --workers 4 --compute-s 1 --horizon-s 20 --exchange allreduce --dense-bytes 4e6 --out ring \
    --alpha-s 1e-5 --bandwidth-gbytes-per-s 1 # RG1: .00606
# Deaths.
l bsp $four --die 3=5 --out dead
l preduce $four --die 3=5,0=12.5,1=12.5,2=12.5 --out dead --force
l asp $four --die server=3 --out dead --force
l preduce $four --die controller=3 --out dead --force
# A trace: worker 1 computes for 5 s in its first iteration.
printf 'worker,iteration,seconds\n1,0,5\n' >slow.csv
l bsp $four --straggler trace:slow.csv --out trace
"$LUOSHU" check slow.csv
printf 'worker,iteration,seconds\n4,0,5\n' >none.csv
l bsp $four --straggler trace:none.csv
printf 'worker,iteration,seconds\n1,0,5\n1,0,6\n' >twice.csv
l bsp $four --straggler trace:twice.csv
"$LUOSHU" check twice.csv
l asp --workers 100 --compute-s 1e-9 --sync-s 0 --horizon-s 1 --out many --limit iterations=500
# The same bytes again.
l preduce --groups wait_s=0.2,guard=3 $four --out again --quiet >/dev/null
cmp pr5/groups.csv again/groups.csv && cmp pr5/iterations.csv again/iterations.csv && cmp pr5/summary.json again/summary.json
# A dead controller ends the run: an exchange that would end later does not count.
for t in 2 7; do "$LUOSHU" sync preduce --workers 4 --compute-s 1 --sync-s 5 --groups wait_s=0.1 --horizon-s 100 --die controller=$t --out gone --force | head -n 1; done
