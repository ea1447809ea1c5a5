#!/usr/bin/env bash
# Ranks on several hosts: each starts on the host of its device, also when others have failed. With made-up names, by a
# mpirun and a srun that write down what they are told and start all here; and with network namespaces as hosts.
set -u
. tests/runs.sh
real=$(command -v mpirun) record=$tmp/record
mkdir "$tmp/fake"
export record real
cat >"$tmp/fake/mpirun" <<'END'
#!/usr/bin/env bash
echo "mpirun $*" >>"$record"
words=()
while [ $# -gt 0 ]; do
    case $1 in --host) shift ;; *) words+=("$1") ;; esac
    shift
done
exec "$real" "${words[@]}"
END
cat >"$tmp/fake/srun" <<'END'
#!/usr/bin/env bash
echo "srun $*" >>"$record"
echo "hosts $(tr '\n' ' ' <"$SLURM_HOSTFILE")nodes ${SLURM_NNODES-}${SLURM_JOB_NUM_NODES-}" >>"$record"
while [ "${1#-}" != "$1" ]; do
    [ "$1" = -n ] && { n=$2; shift; }
    shift
done
exec "$real" --allow-run-as-root --oversubscribe --bind-to none -n "$n" "$@"
END
chmod +x "$tmp/fake"/*
# What was told of hosts: of each start "3 HOST 2 HOST".
told() { grep ^mpirun "$record" | awk '{s = ""; for (i = 1; i < NF; i++) if ($i == "-n") s = s $(i + 1) " "; else if ($i == "--host") s = s $(i + 1) " "; print s}'; }
tells() { [ "$(told)" = "$(printf '%s \n' "$@")" ] || { told; false; }; }
says() { grep -qF -- "$2" "$tmp/$1.err" || { cat "$tmp/$1.err"; false; }; } # OUT TEXT

# ---- two nodes of three; device 1 dies at step 6 ----
cp "$S/models/tiny-llama.yaml" "$H/chosen.yaml" "$tmp"
sed -e 's/^name: ranks4x2/name: hosts2x3/; s/nodes: 4/nodes: 2/; s/devices_per_node: 2/devices_per_node: 3/' \
    "$H/ranks4x2.yaml" >"$tmp/cluster.yaml"
pipeline() { # MICRO_BATCHES DEVICE..: a stage each
    echo "{\"micro_batches\": $1, \"stages\": [{\"layers\": [[0, 2]], \"devices\": [$2]},
        {\"layers\": [[2, 3]], \"devices\": [$3]}, {\"layers\": [[3, 4]], \"devices\": [$4]}]}"
}
plan() { # NAME CLUSTER DEVICES PIPELINES
    echo "{\"schema\": \"luoshu.plan/1\", \"name\": \"$1\", \"model\": \"tiny-llama\", \"cluster\": \"$2\", \"layers\": 4,
        \"devices\": $3, \"dtype\": \"f64\", \"sequence_tokens\": 64, \"micro_batch_sequences\": 1, \"zero\": 1,
        \"sequence_parallel\": true, \"schedule\": {\"kind\": \"1f1b\", \"chunks\": 1}, \"pipelines\": [$4]}" >"$tmp/$1.json"
}
plan plan hosts2x3 6 "$(pipeline 4 0 1 2), $(pipeline 4 3 4 5)"
cat >"$tmp/day.yaml" <<'END'
schema: luoshu.scenario/1
name: hosts
seed: 3
cluster: cluster.yaml
model: tiny-llama.yaml
plan: plan.json
extent: {steps: 12}
data: {batch: {sequences: 8}, lengths: {kind: fixed, tokens: 64}}
policies:
  - {name: malleus, planner_s: 0, threshold_slowdown: 10, replan_gap: 10, restart_s: 0.1}
events:
  - {id: gone, kind: fail, target: "device:1", at_step: 6, hard: true, cause: chosen}
checkpoint: {every_steps: 3, mode: blocking, target: storage}
costs: {detect_fail_s: 0.1, process_start_s: 0, communicator_s: 0.05, replacement_s: 0}
END
devices() { tr -d ' \n' <"$1/plans/plan-001.json" | grep -o '"devices":\[[0-9,]*\]' | tr -c '0-9\n' ' ' | xargs -n 1 | sort -n | xargs; }
check "here" host here 0 "$tmp/day.yaml"
left=$(devices "$tmp/here/malleus")
echo "after the failure: devices $left"
check "device 1 has left" [ "${left/1/}" = "$left" ]
first=$(for d in $left; do [ "$d" -lt 3 ] && echo "$d"; done | wc -l)
check "the plan that follows is on both nodes" [ "$first" -gt 0 ]
faked() { local out=$1 want=$2; shift 2; rm -f "$record"; PATH=$tmp/fake:$PATH host "$out" "$want" "$@" --launcher "${launcher:-mpirun},listen=127.0.0.1${forward:-}"; }
twice() { tells "3 $1 3 $2" "$first $1 3 $2"; } # exactly the others, and no device moves

# ---- mpirun ----
printf '# two\nnode-1.invalid slots=3\nnode-2.invalid slots=3\n' >"$tmp/hosts"
check "mpirun" faked mpirun 0 "$tmp/day.yaml" --hostfile "$tmp/hosts"
check "mpirun: each where it belongs, twice" twice node-1.invalid node-2.invalid
check "mpirun: the same curve" near 1e-10 <(curve "$tmp/mpirun/malleus") <(curve "$tmp/here/malleus")
check "mpirun: the manifest" grep -qF '"hosts": "node-1.invalid, node-2.invalid"' "$tmp/mpirun/malleus/manifest.json"
# Policy `restart` leaves the whole node: nobody is started there, whether its host lives or not.
sed 's/name: malleus,/name: restart,/' "$tmp/day.yaml" >"$tmp/second.yaml"
check "a dead host" faked dead 0 "$tmp/second.yaml" --hostfile "$tmp/hosts"
check "a dead host is not asked" tells "3 node-1.invalid 3 node-2.invalid" "3 node-2.invalid"

# ---- names in the cluster's file ----
sed '/devices_per_node/a\    hosts: [b.invalid, a.invalid]' "$tmp/cluster.yaml" >"$tmp/named.yaml"
sed 's/cluster.yaml/named.yaml/' "$tmp/day.yaml" >"$tmp/named-day.yaml"
check "named" faked named 0 "$tmp/named-day.yaml"
check "named: in the order of the nodes" twice b.invalid a.invalid
check "named: a hostfile goes before" faked before 0 "$tmp/named-day.yaml" --steps 1 --hostfile "$tmp/hosts"
check "named: the hostfile's" tells "3 node-1.invalid 3 node-2.invalid"
sed '/devices_per_node/a\    hosts: [one.invalid, one.invalid]' "$tmp/cluster.yaml" >"$tmp/named.yaml"
check "two nodes of one host" faked both 0 "$tmp/named-day.yaml" --steps 1
check "two nodes of one host: one group" tells "6 one.invalid"
check "peer: on one host" run peer 3 run "$tmp/day.yaml" --backend host --set checkpoint.target=peer --hostfile "$tmp/hosts"
check "peer: the sentence" says peer 'there are 2 (`node-1.invalid`, `node-2.invalid` ..)'

# ---- too few; one that is elsewhere ----
sed 's/nodes: 2/nodes: 3/; s/hosts2x3/hosts3x3/' "$tmp/cluster.yaml" >"$tmp/three.yaml"
plan nine hosts3x3 9 "$(pipeline 8 0 1 2)"
sed 's/cluster.yaml/three.yaml/; s/plan.json/nine.json/' "$tmp/day.yaml" >"$tmp/three-day.yaml"
check "two hosts for three nodes" faked three 3 "$tmp/three-day.yaml" --hostfile "$tmp/hosts"
check "two hosts for three nodes: the sentence" says three \
    'device 6 is in node `cpu-2` of cluster `hosts3x3`, which has no host: 2 for 3 nodes;'
: >"$tmp/no-hosts"
check "no host" run empty 3 run "$tmp/day.yaml" --backend host --hostfile "$tmp/no-hosts"
check "no host: the sentence" says empty "\`$tmp/no-hosts\` names no host;"
printf 'localhost\n192.0.2.7\n' >"$tmp/far-hosts" # nobody has that address
check "elsewhere" faked away 4 "$tmp/day.yaml" --hostfile "$tmp/far-hosts"
check "elsewhere: who, where, and where it belongs" says away \
    "rank 3 runs on host \`$(hostname)\` and its device 3 (node \`cpu-1\`) is on \`192.0.2.7\`;"

# ---- srun ----
slurm() { SLURM_JOB_ID=7 SLURM_JOB_NODELIST=node-[08-09].invalid SLURM_NNODES=2 SLURM_JOB_NUM_NODES=2 launcher=srun faked "$@"; }
check "srun" slurm srun 0 "$tmp/day.yaml"
a=node-08.invalid b=node-09.invalid
want=("$a $a $a $b $b $b" "$(for _ in $(seq "$first"); do printf '%s ' "$a"; done)$b $b $b")
check "srun: a list of exactly the chosen, and nodes by it alone" \
    [ "$(grep ^hosts "$record")" = "$(printf 'hosts %s nodes \n' "${want[@]}")" ]
check "srun: as the list says" [ "$(grep -c -- '--export=ALL --distribution=arbitrary -n ' "$record")" = 2 ]
check "srun: the same curve" near 1e-10 <(curve "$tmp/srun/malleus") <(curve "$tmp/here/malleus")

# ---- variables ----
export FI_PROVIDER=efa FI_LOG_LEVEL=warn UCX_TLS=tcp
forward=',forward=FI_*,forward=UCX_TLS,forward=SLURM_*,forward=LUOSHU_T*' \
    check "forward" faked forward 0 "$tmp/day.yaml" --steps 1 --hostfile "$tmp/hosts"
check "forward: by mpirun" [ "$(grep -o ' -x [A-Z_]*' "$record" | sort | xargs)" = "$(printf -- '-x %s -x %s ' FI_LOG_LEVEL FI_LOG_LEVEL FI_PROVIDER FI_PROVIDER LUOSHU_TOKEN LUOSHU_TOKEN UCX_TLS UCX_TLS | xargs)" ]
check "forward: nothing else" eval 'faked silent 0 "$tmp/day.yaml" --steps 1 --hostfile "$tmp/hosts" && ! grep -q FI_ "$record"'
check "forward: not set" run unset 2 run "$tmp/day.yaml" --backend host --launcher mpirun,forward=FI_PROVIDER,forward=NOWHERE_SET
check "forward: not set: the sentence" says unset '`forward` of `--launcher` names `NOWHERE_SET`, which is not set;'

# ---- network namespaces as hosts ----
id=luo$$ spaces=()
on_host() { # HOST COMMAND..: there, with nothing of this environment, as ssh has it
    local host=$1; shift
    env -i PATH="$PATH" HOME=/root nsenter --net="/run/netns/$id-$host" unshare --uts --mount \
        sh -c 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec sh -c "$*"' sh "node-$host" "$tmp/etc-hosts" "$@"
}
make_hosts() {
    local k
    printf '127.0.0.1 localhost\n10.77.4.1 node-1 node-1.site\n10.77.4.2 node-2 node-2.site\n' >"$tmp/etc-hosts"
    for k in 1 2; do ip netns add "$id-$k" || return 1; spaces+=("$id-$k"); done
    ip link add "$id-a" netns "$id-1" type veth peer name "$id-b" netns "$id-2" || return 1
    for k in 1 2; do
        ip -n "$id-$k" link set lo up && ip -n "$id-$k" address add "10.77.4.$k/24" dev "$id-$([ $k = 1 ] && echo a || echo b)" &&
            ip -n "$id-$k" link set "$id-$([ $k = 1 ] && echo a || echo b)" up || return 1
    done
    on_host 1 true && on_host 2 true
}
drop_hosts() {
    local s
    for s in "${spaces[@]}"; do kill -KILL $(ip netns pids "$s") 2>/dev/null; ip netns delete "$s"; done
    cleanup
}
trap drop_hosts EXIT
agent() { # what mpirun has in the place of ssh: AGENT HOST COMMAND..
    declare -p PATH tmp id; declare -f on_host
    echo 'host=$1; shift; case $host in node-1 | 10.77.4.1) on_host 1 "$@" ;; node-2 | 10.77.4.2) on_host 2 "$@" ;; *) exit 1 ;; esac'
}
real_run() { # OUT HOST arguments..: from that host; mpirun writes its map
    local out=$1 from=$2; shift 2
    printf '%s ' "cd '$PWD';" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent="'$tmp/agent'" \
        OMPI_MCA_rmaps_base_display_map=1 FI_PROVIDER=efa exec "'$L'" run "$@" --backend host --launcher "'mpirun${forward:-}'" \
        --plots off --limit-s 300 --quiet --out "'$tmp/$out'" >"$tmp/$out.sh"
    on_host "$from" sh "$tmp/$out.sh" >"$tmp/$out.out" 2>"$tmp/$out.err"
}
say_err() { local out=$1; shift; "$@" || { cat "$tmp/$out.err"; tail -n 20 "$tmp/$out/malleus/ranks.log"; false; }; }
map() { awk '/JOB MAP/ {s = ""} /Data for node:/ {host = $4} /Process rank:/ {sub(/.*rank: /, ""); s = s $1 ":" host " "} /=======*$/ && !/MAP/ {if (s) print s; s = ""}' "$1" | uniq; }
mapped() { # OUT: by rank, of each start
    local want
    want=$(printf '%s\n' "0:node-1 1:node-1 2:node-1 3:node-2 4:node-2 5:node-2" \
        "$(for r in $(seq 0 $((first + 2))); do printf '%s ' "$r:node-$([ "$r" -lt "$first" ] && echo 1 || echo 2)"; done | sed 's/ $//')")
    [ "$(map "$tmp/$1/malleus/ranks.log" | while read -ra at; do printf '%s\n' "${at[@]}" | sort -n | xargs; done)" = "$want" ] ||
        { map "$tmp/$1/malleus/ranks.log"; false; }
}
if [ "$(id -u)" = 0 ] && make_hosts 2>"$tmp/why"; then
    { echo '#!/usr/bin/env bash'; agent; } >"$tmp/agent"; chmod +x "$tmp/agent"
    printf 'node-1 slots=3\nnode-2 slots=3\n' >"$tmp/hosts"
    forward=',forward=FI_*' real_run two 1 "$tmp/day.yaml" --hostfile "$tmp/hosts" & pid=$!
    until_rows "$tmp/two/malleus/steps.csv" 2 "$pid"
    far=$(for p in $(ip netns pids "$id-2"); do grep -qx luoshu-rank "/proc/$p/comm" && tr '\0' '\n' <"/proc/$p/environ" | grep -x FI_PROVIDER=efa; done)
    wait "$pid"; rc=$?
    check "two hosts: from the first" eval '[ $rc = 0 ] || { cat "$tmp/two.err"; false; }'
    check "two hosts: each where it belongs, twice" mapped two
    check "two hosts: variables are there" [ -n "$far" ]
    check "two hosts: the same curve" near 1e-10 <(curve "$tmp/two/malleus") <(curve "$tmp/here/malleus")
    printf 'node-1.site\n10.77.4.2\n' >"$tmp/hosts" # mpirun fills the slots of its own host first, left to itself
    forward=,forward=FI_PROVIDER check "two hosts: from the second, by other names" say_err other real_run other 2 "$tmp/day.yaml" --hostfile "$tmp/hosts"
    check "two hosts: from the second: the same curve" near 1e-10 <(curve "$tmp/other/malleus") <(curve "$tmp/here/malleus")
    sed '/devices_per_node/a\    hosts: [node-2, node-1]' "$tmp/cluster.yaml" >"$tmp/named.yaml"
    # The user's own launcher starts them in another order than the cluster's: refused.
    printf '%s ' "cd '$PWD';" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent="'$tmp/agent'" exec \
        mpirun --bind-to none --oversubscribe -n 3 --host node-1 "'$L'" run "$tmp/named-day.yaml" --backend host --plots off --quiet --out "'$tmp/own'" : \
        -n 3 --host node-2 "'$L'" run "$tmp/named-day.yaml" --backend host --plots off --quiet --out "'$tmp/own'" >"$tmp/own.sh"
    check "two hosts: a launcher that turns them round" eval '! on_host 1 timeout 100 sh "$tmp/own.sh" >"$tmp/own.err" 2>&1'
    check "two hosts: turned round: the sentence" says own 'rank 0 runs on host `node-1` and its device 0 (node `cpu-0`) is on `node-2`;'
    check "two hosts: nobody is left" left_of $(ip netns pids "$id-1") $(ip netns pids "$id-2")
else
    echo "SKIPPED two hosts for real: no network namespaces here ($(head -n 1 "$tmp/why" 2>/dev/null))"
fi
finish
