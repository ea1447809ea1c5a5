# Keys and columns by the tables of the readers; JSON Schemas; topics that are none.
"$LUOSHU" help files
"$LUOSHU" help cluster
"$LUOSHU" help cluster.node_groups.nics
"$LUOSHU" help scenario.data
"$LUOSHU" help plan.zero
"$LUOSHU" help rates
for kind in $("$LUOSHU" help files | sed -n 2p); do
    "$LUOSHU" help "$kind" | tail -n 1
    "$LUOSHU" help "$kind" --json-schema | grep '"title"'
done
for topic in clustr scenaro rate cluster.nodegroups cluster.name.x cluster.x resume nonsense "rates --json-schema" \
    "cluster.name --json-schema" "--json-schema" "a b"; do
    "$LUOSHU" help $topic; echo "exit $?"
done
