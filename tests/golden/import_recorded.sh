# What clusters of others recorded: timelines of StragglerAnalysis, jobs of AcmeTrace. Numbers are synthetic.
i() { "$LUOSHU" import "$@"; local rc=$?; [ $rc = 0 ] || echo "exit $rc: $*"; }
# 2 pipelines of 2 stages, 2 micro-batches of 10 ms forward and 20 ms backward; stage 0 of pipeline 1 takes twice as long
awk 'BEGIN { printf "["
    for (s = 0; s < 2; s++) for (d = 0; d < 2; d++) for (m = 0; m < 2; m++) for (f = 0; f < 2; f++) {
        us = (f ? 20000 : 10000) * (d == 1 && s == 0 ? 2 : 1)
        printf "%s{\"name\":\"%s-compute\",\"pid\":%d,\"tid\":%d,\"ts\":%d,\"dur\":%d,\"ph\":\"X\",\"args\":{\"step\":0,\"model_chunk\":0,\"mb_id\":%d,\"seq_id\":%d}},\n",
            "", f ? "backward" : "forward", d, 5 * (d + 2 * s), 50000 * f + 10000 * (s + 2 * m), us, m, m }
    for (s = 0; s < 2; s++) for (d = 0; d < 2; d++) printf "%s{\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"ph\":\"M\",\"args\":{\"name\":\"PP rank %d, TP rank 0, compute\"}}",
        s + d ? ",\n" : "", d, 5 * (d + 2 * s), s
    print "]" }' >timeline.json
gzip -nc timeline.json >timeline-T.json.gz
printf 'trial_name: T\nrun_id: 0\ndp_size: 2\ndsp_size: 1\npp_size: 2\ntp_size: 1\nvpp_size: 1\nworld_size: 4\n' >meta-T.yaml
cat >model.yaml <<'X'
{schema: luoshu.model/1, name: small, family: llama, layers: 4, hidden: 64, ffn_hidden: 128, heads: 4, vocab: 1000, max_sequence_tokens: 128}
X
cat >lab.yaml <<'X'
schema: luoshu.cluster/1
name: lab
node_groups:
  - {name: lab, nodes: 2, devices_per_node: 2, profile: h20, pcie: {bandwidth_gbytes_per_s: 12, latency_us: 1.5},
     nics: {count: 1, bandwidth_gbytes_per_s: 12.5, latency_us: 2}}
fabric: {kind: single, hop_latency_us: 0.5}
X
i stragglers timeline-T.json.gz --model model.yaml --out rec; ls rec; cat rec/rates.csv rec/events.csv; sed -n 2,5p rec/recorded.csv
"$LUOSHU" check rec/recorded.csv rec/plan.json rec/rates.csv rec/events.csv; "$LUOSHU" check timeline.json timeline-T.json.gz
"$LUOSHU" plot rec; "$LUOSHU" plot rec --figure memory; grep -c ',forward,' rec/plots/gantt.csv
# what reads them: a planner the rates, a scenario the events, a simulation the plan
"$LUOSHU" plan malleus --model model.yaml --cluster lab.yaml --rates rec/rates.csv --out m.json 2>/dev/null | grep -c 'h20\|device' >/dev/null && echo planned
cat >slow.yaml <<'X'
{schema: luoshu.scenario/1, name: slow, cluster: lab.yaml, model: model.yaml, plan: rec/plan.json, extent: {steps: 4},
 data: {batch: {sequences: 4}, lengths: {kind: fixed, tokens: 128}}, policies: [{name: static}], traces: [{file: rec/events.csv}]}
X
"$LUOSHU" sim slow.yaml --out slow --plots off --quiet >log 2>&1; cut -d, -f4-8 slow/static/events.csv
# jobs that failed
cat >jobs.csv <<'X'
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
1,u1,8,64,960,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,7488.0
2,u1,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:19:51+08:00,57,32,456.0
3,u2,8,64,960,Other,NODE_FAIL,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 01:20:51+08:00,3717,32,237888.0
4,u2,8,64,960,Other,COMPLETED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 01:20:51+08:00,3717,32,237888.0
X
i acme-jobs jobs.csv --units node:lab --min-gpus 64 --out acme; cat acme/events.csv acme/causes.csv; "$LUOSHU" check acme/events.csv acme/causes.csv
sed 's/rec.events/acme\/events/; s/steps: 4/duration_s: 4000/; s/static/restart/' slow.yaml >acme.yaml
"$LUOSHU" sim acme.yaml --out acme-run --plots off --quiet >log 2>&1; cut -d, -f4-7 acme-run/restart/events.csv | grep fired
"$LUOSHU" check jobs.csv; i acme-jobs jobs.csv; i stragglers jobs.csv; i stragglers timeline-T.json.gz --min-gpus 3
