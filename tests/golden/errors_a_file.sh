# At most 20 errors of a file are told, of each file: 25 wrong models are 25 lines, and 30 wrong rows
# of a table between them 20 and a count.
for i in $(seq 25); do
    printf 'schema: luoshu.model/1\nname: m%d\nfamily: gpt\nlayers: 0\n' "$i" >"m$i.yaml"
done
{ echo device,rate; for i in $(seq 30); do echo "$i,slow"; done; } >rates.csv
"$LUOSHU" check m1.yaml rates.csv m2.yaml; echo "exit $?"
"$LUOSHU" check $(seq -f 'm%g.yaml' 25) 2>&1 | grep -c 'error: `layers`'
