# Two jobs on one cluster (scenarios/examples/jobs.yaml): the answer, jobs.csv, marks of others, the same bytes whatever
# --jobs is, `compare` and `report` of the set; alone in `jobs` a job takes what it takes without; who refuses them.
E=$HERE/../../scenarios/examples
"$LUOSHU" sim "$E/jobs.yaml" --out two --jobs 1 --plots off
"$LUOSHU" sim "$E/jobs.yaml" --out two-more --jobs 4 --plots off >/dev/null 2>&1
cat two/jobs.csv
for run in chat chat-alone code code-alone; do
    cut -d, -f1-23 "two/$run/steps.csv" >one
    cut -d, -f1-23 "two-more/$run/steps.csv" | cmp - one
    for table in events links comm devices timeline; do cmp "two/$run/$table.csv" "two-more/$run/$table.csv"; done
done
cmp two/jobs.csv two-more/jobs.csv
cat two/chat/events.csv two/code/events.csv
"$LUOSHU" compare two | head -2
grep -o '"job": "[a-z]*"\|"alone": [a-z]*' two/chat-alone/manifest.json

# Devices of chat alone in `jobs`, and without: the same steps, but for wall time.
sed -e "s|\.\./|$E/../|g" -e '/name: code/d' "$E/jobs.yaml" >alone.yaml
sed -e "s|\.\./|$E/../|g" -e '/name: code/d' -e 's/^jobs://' -e 's/extent.*/extent: {steps: 200}/' \
    -e 's/.*name: chat, model: \(.*\), plan: \(.*\)}/model: \1\nplan: \2\npolicies: [{name: static}]/' "$E/jobs.yaml" >plain.yaml
"$LUOSHU" sim alone.yaml --out alone --plots off 2>/dev/null | head -1
"$LUOSHU" sim plain.yaml --out plain --plots off >/dev/null 2>&1
cut -d, -f1-21 plain/static/steps.csv >one
cut -d, -f1-21 alone/chat/steps.csv | cmp - one && echo same steps

# By duration: its steps begin until 25 s after its first; alone it does more of them.
sed -e "s|\.\./|$E/../|g" -e 's/steps: 60/duration_s: 25/' "$E/jobs.yaml" >lasting.yaml
"$LUOSHU" sim lasting.yaml --out lasting --plots off >/dev/null 2>&1
cut -d, -f1-6 lasting/jobs.csv
tail -n 1 lasting/code/steps.csv | cut -d, -f4,5

# Refused: no contention, ranks.
"$LUOSHU" sim "$E/jobs.yaml" --comm model --out no
"$LUOSHU" run "$E/jobs.yaml" --backend host --dtype f32 --out no
"$LUOSHU" check "$E/jobs.yaml"
