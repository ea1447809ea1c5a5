# `luoshu embed`: rows of embedding tables on servers, cached, and partitioned. Keys are synthetic.
keys=zipf:theta=1.05,vocab=500,batch=8,slots=4
one() { "$LUOSHU" embed "$@"; echo "exit $?"; }
one ps --workers 2 --servers 2 --keys $keys --iterations 20 --out ps
one het --workers 2 --servers 2 --keys $keys --iterations 20 --cache-rows 100 --policy lfu --pull-bound 4 \
    --push-bound 4 --compute-s 0.01 --straggler factor:1=2 --out het
head -n 3 het/iterations.csv het/servers.csv het/staleness.csv
cat het/summary.json
one het --workers 2 --servers 2 --keys $keys --iterations 20 --cache-rows 100 --policy lfu --pull-bound 4 \
    --push-bound 4 --compute-s 0.01 --straggler factor:1=2 --out again >/dev/null
for f in het/*.*; do cmp "$f" "again/${f#het/}" && echo "$f: the same"; done

# GP1 of tests/unit/check_gmp.c: parts 0,0,1,1,0,1,0,1, homes 0,1,0,1; costs 4.75 (modulo) and 1.75.
printf '0,2\n0,2\n1,3\n1,3\n0,3\n1,2\n0,2\n1,3\n' >keys.csv
one gmp --data keys.csv --workers 2 --rounds 1 --batch 2 --balance 1 --replicas 0.25 --out gmp
cat gmp/partition.csv gmp/partitions.csv gmp/traffic.csv
one gmp --data synthetic:samples=300,slots=3,vocab=90,groups=3,local=0.9 --workers 3 --per-node 2 --batch 20 \
    --iterations 4 --out gmp2 --json
one ps --workers 2 --keys trace:keys.csv --batch 2 --iterations 2 --out trace

# What is wrong.
printf '1,2,3,4\n1,2,3\n' >short.csv
one gmp --data short.csv --workers 1
printf '5,6\n' >single.csv
one gmp --data single.csv --workers 2
one gmp --data none.csv --workers 2
one gmp --data synthetic:samples=x --workers 2
one gmp --data synthetic:samples=9,size=3 --workers 2
one gmp --data synthetic:samples=5,samples=9 --workers 2
one gmp --data synthetic:slots=9,vocab=8 --workers 2
one gmp --data synthetic:samples=1e8 --workers 2
one gmp --data keys.csv
one gmp --data keys.csv --workers 2 --policy lru
one ps --keys $keys --workers 2 --cache-rows 5
one het --keys $keys --workers 2
one het --keys $keys --workers 2 --cache-rows 5 --policy mru
one het --keys $keys --workers 2 --cache-rows 5 --batch 3
one het --keys zipf:vocab=0 --workers 2 --cache-rows 5
one lfu --workers 2
one ps --keys $keys --workers 2 --iterations 100000000
one ps --keys zipf:vocab=1e8,batch=2,slots=2 --workers 2 --limit embed-mib=100
one het --keys zipf:vocab=1e5,batch=2,slots=2 --workers 64 --cache-rows 100000 --limit embed-mib=100
one gmp --data synthetic:samples=1000 --workers 1000 --limit embed-mib=50
one gmp --data synthetic:samples=1e5 --workers 2 --limit embed-mib=10
one ps --keys $keys --workers 2 --groups wait_s=3
one ps --keys $keys --workers 2 plan.json
one ps --keys $keys --workers 2 --out gmp
