# `luoshu compare` of folders of sync and embed: rates over the first, what each lacks is empty; other folders are refused.
common="--workers 4 --compute-s 1,1,1,2 --sync-s 0.1 --quiet --force"
"$LUOSHU" sync allreduce $common --horizon-s 22 --out all
"$LUOSHU" sync preduce $common --groups wait_s=0.2 --horizon-s 22 --out pr
"$LUOSHU" sync ssp $common --staleness 2 --horizon-s 22 --die server=11 --out dead; echo "exit $?"
"$LUOSHU" embed het --workers 2 --cache-rows 100 --keys zipf:theta=1.05,vocab=1e3,batch=32,slots=4 --iterations 20 --out het --quiet --force
"$LUOSHU" compare all ./pr/ dead het --out cmp; echo "exit $?"; cat cmp/compare_sync.csv
"$LUOSHU" compare all pr --out cmp; echo "exit $?"; "$LUOSHU" compare all pr --out cmp --force --json --quiet; ls cmp
mkdir empty broken; sed 's/"workers": 4,//' all/summary.json >broken/summary.json
"$LUOSHU" compare all empty; echo "exit $?"; "$LUOSHU" compare broken; echo "exit $?"
# Partitions have no time; exchanges and layers of experts are not compared.
for k in 1 2; do
    "$LUOSHU" embed gmp --data synthetic:samples=300,slots=3,vocab=90,groups=3,local=0.9 --workers 3 --rounds $k --batch 20 --iterations 4 --out gmp$k --quiet >/dev/null
done
"$LUOSHU" compare gmp1 gmp2 het --out parts; echo "exit $?"; cat parts/compare_sync.csv
head -n 2 gmp1/partitions.csv
"$LUOSHU" moe exchange --cluster $TOP/scenarios/clusters/a100-64.yaml --nodes 4 --plots off --quiet --out moe >/dev/null
"$LUOSHU" compare moe; echo "exit $?"; "$LUOSHU" compare gmp1 moe --out none; echo "exit $?"
sed 's/"cost"/"price"/' gmp1/summary.json >broken/summary.json; "$LUOSHU" compare broken; echo "exit $?"

# Without --out: into a set that is given alone, else beside the first run; never over what compares other runs.
mkdir work; cd work; mv ../all ../pr ../het .
c() { "$LUOSHU" compare "$@" --quiet >out; local rc=$?; echo "exit $rc: $*"; sed -n '/^written/p' out; rm out; }
echo mine,too >compare_sync.csv; c all pr; cat compare_sync.csv; rm compare_sync.csv
c all pr; cut -d, -f1 compare_sync.csv | tr '\n' ' '; echo; c pr all; c het; [ -e het/compare_sync.csv ] && echo "in het"
c het all; cut -d, -f1 compare_sync.csv | tr '\n' ' '; echo; c het all --force; cut -d, -f1 compare_sync.csv | tr '\n' ' '; echo
small="$TOP/scenarios/examples/small.yaml --plots off --quiet"
for k in 1 2; do "$LUOSHU" sim $small --seed $k --out o$k >/dev/null; done
cp o1/compare.csv before; c o1; c o1/static o1/restart; cmp before o1/compare.csv && echo "the same"
c o1/static o2/static; cmp before o1/compare.csv && echo "as before"
echo mine >compare.csv; c o1 o2; cat compare.csv; rm compare.csv
echo mine >compare.json; c o1 o2; cat compare.json; rm compare.json
cp o1/compare.csv .; c o1 o2; cmp before compare.csv && echo "as before"; rm compare.csv
c o1 o2; cut -d, -f1 compare.csv | tr '\n' ' '; echo; c o1 o2; c none; [ -e none ] || echo "no folder"
