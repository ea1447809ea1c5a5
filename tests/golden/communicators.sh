# A stack whose communicators take 30,000 MiB each, where 78.1 GiB are left of a device: two fit. The pipeline of two devices
# has three on each (all devices for the norm, a lane of sends, one of receives), 87.9 GiB. Whatever planners give fits
# under that stack when it is compiled; with one thirtieth of it everything does.
S=$TOP/scenarios
printf 'schema: luoshu.stack/1\nname: heavy\nvalues: [{name: communicator_mib, value: 30000, source: "this test", provenance: chosen}]\n' >heavy.yaml
sed 's/30000/1000/' heavy.yaml >light.yaml
on="--model $S/models/tiny-llama.yaml --cluster $S/clusters/tiny2.yaml"
cp "$HERE/plans/tiny-pp2.json" pp2.json
for s in luoshu-cuda light.yaml heavy.yaml; do "$LUOSHU" check pp2.json $on --stack $s; echo "exit $?"; done
"$LUOSHU" explain pp2.json $on --stack light.yaml | sed -n '/^device node/,$p'
"$LUOSHU" explain pp2.json $on --stack light.yaml --json 2>/dev/null | grep -o '"communicators_bytes": [0-9]*'
on="--model $S/models/tiny-llama.yaml --cluster $S/clusters/tiny8.yaml --stack heavy.yaml"
for p in uniform malleus hap auto; do
    batch="--global-batch-size 16"
    [ $p = hap ] && batch="--batch 16"
    "$LUOSHU" plan $p $on $batch --out $p.json --quiet >/dev/null; "$LUOSHU" check $p.json $on
done
