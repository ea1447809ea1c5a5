# `luoshu compare` of folders of --sync and --embed: rates over the first, what each lacks is empty; other folders are refused.
common="--workers 4 --compute-s 1,1,1,2 --sync-s 0.1 --quiet --force"
"$LUOSHU" sim --sync allreduce $common --horizon-s 22 --out all
"$LUOSHU" sim --sync preduce $common --wait-s 0.2 --horizon-s 22 --out pr
"$LUOSHU" sim --sync ssp $common --staleness 2 --horizon-s 22 --die server=11 --out dead; echo "exit $?"
"$LUOSHU" sim --embed het --workers 2 --cache-rows 100 --keys zipf:theta=1.05,vocab=1e3,batch=32,slots=4 --iterations 20 --out het --quiet --force
"$LUOSHU" compare all ./pr/ dead het --out cmp; echo "exit $?"; cat cmp/compare_sync.csv
"$LUOSHU" compare all pr --out cmp; echo "exit $?"; "$LUOSHU" compare all pr --out cmp --force --json --quiet; ls cmp
mkdir empty broken; sed 's/"workers": 4,//' all/summary.json >broken/summary.json
"$LUOSHU" compare all empty; echo "exit $?"; "$LUOSHU" compare broken; echo "exit $?"
