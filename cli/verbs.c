/* verbs.c: the table of verbs and their options; help/help_verbs.c prints it. */
#include <string.h>

#include "cli/cli.h"
#include "cli/plan/plan.h"
#include "core/base/words.h"
#include "core/sync/loop.h"

#define N(t) ((int)(sizeof(t) / sizeof(t)[0]))

const luo_option luo_common_options[] = {
    {"help", NULL, "this text"},
    {"json", NULL, "one JSON document on stdout, text on stderr"},
    {"quiet", NULL, "no notes, no progress"},
    {"color", "WHEN", "auto, always or never (auto)"},
};
const int luo_ncommon_options = N(luo_common_options);

#define DEAD                                                                                       \
    {                                                                                              \
        "dead", "SET", "failed devices, \"[3,7]\" or 3,7 (none)"                                   \
    }
#define OUT                                                                                        \
    {                                                                                              \
        "out", "DIR", "where to write (NAME-seedN)"                                                \
    }
#define FORCE                                                                                      \
    {                                                                                              \
        "force", NULL, "use a folder that is not empty; new results replace old ones"              \
    }
#define LIMIT \
    {"limit", "NAME=VALUE", "raise a limit of work (`luoshu help limits`)"}
#define MODEL                                                                                      \
    {                                                                                              \
        "model", "FILE", "model.yaml or a Hugging Face config.json"                                \
    }
#define DTYPE \
    {"dtype", "NAME", "of model and plan: bf16, f32, f64 (as the files say)"}
#define STACK                                                                                      \
    {                                                                                              \
        "stack", "FILE", "stack file or built-in name (luoshu-cuda)"                               \
    }
#define VERBOSE                                                                                    \
    {                                                                                              \
        "verbose", NULL, "progress every ten seconds where stderr is no terminal"                  \
    }
#define PROGRESS \
    {"progress", "HOW", "auto: a line on a terminal; json: lines of JSON on stderr (auto)"}
#define CLUSTER                                                                                    \
    {                                                                                              \
        "cluster", "FILE", "cluster.yaml"                                                          \
    }

static const luo_option resolve_options[] = {
    {"shape", "4x8", "sizes of the tensor"},
    {"node-size", "N", "devices of a node (8)"},
    {"rack-size", "N", "devices of a rack (0: no racks)"},
    {"planner", "NAME", "greedy minrank rr rr-node cost exact (greedy)"},
    DEAD,
    {"reduce-then-move", NULL, "reduce first where no other way is known"},
    {"elem", "N", "bytes of an element (1)"},
};

static const luo_option switch_options[] = {
    MODEL, CLUSTER, LIMIT, DTYPE,
    {"planner", "NAME", "as of resolve (exact up to a size where it takes under 1 s, else greedy)"},
    {"reset", "WHEN", "balance counters: fused, bucket or tensor (fused)"},
    DEAD,
};

static const luo_option validate_options[] = {
    {"data", "DIR", "folder with suites/ and micro/ (required)"},
    {"profile-dir", "DIR", "profiles and stacks that go before the built-in ones"},
    {"out", "DIR", "where to write tables and figures (nowhere)"},
    FORCE,
    {"bar", "WHICH", "normal or strict (normal)"},
    {"rows", "WHICH", "val, or cal: what the constants were fitted on (val)"},
    {"cross", "K", "K folds of the cal rows, each by constants fitted on the others (none)"},
    {"leave", "WHICH", "source or gpu: each by constants fitted on all others alone (none)"},
    {"closed", NULL, "score the closed form instead of the simulator"},
    VERBOSE,
    PROGRESS,
};

static const luo_option check_options[] = {
    MODEL, CLUSTER, STACK, LIMIT, DTYPE,
    {"backend", "NAME", "scenarios: as `run` on host or cuda (as `sim`)"},
    {"ranks", "N", "scenarios: processes of that run (one per device)"},
};

static const luo_option explain_options[] = {
    LIMIT,
    MODEL,
    CLUSTER,
    STACK,
    DTYPE,
    {"program", "DEVICE", "print the program of this device"},
    {"simulate", NULL, "plans: also how long a simulated step takes, and where its time goes"},
    {"annotations", NULL, "plans: also how every parameter lies on the devices"},
};

static const luo_option plan_options[] = {
    LIMIT,
    MODEL,
    CLUSTER,
    {"out", "FILE", "plan file; with --top also FILE-2.json .. (plan.json)"},
    {"force", NULL, "replace an existing file"},
    {"top", "N", "best plans: uniform, auto, hydraulis write N (1), malleus ranks N (32)"},
    STACK,
    {"global-batch-size", "N", "sequences of a step (64)"},
    {"seq-length", "N", "tokens of a sequence (4096, or what the model takes if less)"},
    {"micro-batch-size", "N", "sequences of a micro-batch (search; with tp, pp, dp: 1)"},
    {"tp", "N", "tensor parallelism (search)"},
    {"pp", "N", "pipeline stages (search)"},
    {"dp", "N", "pipelines (search); malleus: auto tries one more too"},
    {"cp", "N", "context parallelism (search)"},
    {"zero", "N", "0 to 3, malleus 0 or 1 (search; with tp, pp, dp: 1); hap on, off, auto (auto)"},
    {"shard", "HOW", "of --zero 3, full, hybrid or grad-op (search)"},
    {"schedule", "NAME",
#define SEARCHED(name) name " "
#define ASKED(name)
#define LUO_SCHED(kind, name, takes_chunks, late, warm_up, uniform) uniform(name)
#include "core/graph/schedule/schedules.inc"
     "(search)"
#undef SEARCHED
#undef ASKED
#define SEARCHED(name)
#define ASKED(name) ", " name
#include "core/graph/schedule/schedules.inc"
#undef LUO_SCHED
#undef SEARCHED
#undef ASKED
    },
    {"chunks", "N", "chunks of a stage, 1: 1f1b (search)"},
    {"layers", "HOW", "equal or balanced by speed of the stages (both)"},
    {"tensor-model-parallel-size", "N", "as --tp"},
    {"pipeline-model-parallel-size", "N", "as --pp"},
    {"data-parallel-size", "N", "as --dp"},
    {"context-parallel-size", "N", "as --cp"},
    {"recompute", "HOW", "none, selective or full (search)"},
    {"recompute-granularity", "HOW", "as --recompute"},
    {"use-distributed-optimizer", NULL, "as --zero 1"},
    {"no-distributed-optimizer", NULL, "as --zero 0"},
    {"no-sequence-parallel", NULL, "without sequence parallelism"},
    {"use-tp-pp-dp-mapping", NULL, "pipelines on neighbouring devices"},
    {"micro-batches", "N", "of a step, all pipelines (from the batch)"},
    {"rates", "FILE", "slowness of devices (the cluster's health)"},
    {"prev", "PLAN", "running plan, the base if no size is given; auto: plan with pinned parts"},
    {"params", "FILE", "alpha, tau, constants of memory; speeds (cost model)"},
    {"memory", "FORM",
     "table or model (table if --params has `k_mib`; hydraulis `act_bytes`); "
     "hap on or off (on)"},
    {"rank", "BY", "simulated or objective (by size); malleus also filled, steady, event"},
    {"why", NULL, "what limits each plan, as shares of its step"},
    {"grouping", "HOW", "halving or split2 (halving)"},
    {"stage-order", "HOW", "slowest first falling, or rising (falling)"},
    {"search-healthy", NULL, "search also when no device is slow or missing"},
    {"seed", "N", "of the search's random kicks, and of drawn lengths (0)"},
    {"pool", "FILE", "costs of strategies by length (cost model)"},
    {"lengths", "FILE", "lengths or classes, or syn-web, syn-code (hydraulis: required)"},
    {"budget", "N", "tokens of a step (6250 a device)"},
    {"ctx", "N", "longest sequence (the model's)"},
    {"long", "HOW", "longer ones: cut or split (cut)"},
    {"os", "D,T,P", "optimizer's layout: data, tensor, pipeline (by --steps; a node)"},
    {"steps", "N", "batches that are drawn and planned, under every policy (0; auto 2)"},
    {"context-parallel", "LIST", "sizes such as 1,2,4 (1)"},
    {"proposal", "WHICH", "both, floor or public (both)"},
    {"score", "HOW", "of micro-batches, sum or max as published (sum)"},
    {"dispatch", "HOW", "full, or public: without the cost of a micro-batch (full)"},
    {"max-plans", "N", "plans that are packed in a step (16)"},
    {"kicks", "N", "random restarts of a dispatch (32, of many sequences 8)"},
    {"grid", "N", "tokens between lengths of the proposal (1024)"},
    {"gpu-step", "N", "devices between its sizes (1, above 64 devices 4)"},
    {"switch-ms", "MS", "of hotspa, per change of strategy (100)"},
    {"stragglers", "WORD", "dispatch: slow replicas get less; joint: they are also cut anew"},
    {"data", "SPEC",
     "samples of models with tables: FILE, criteo:FILE, avazu:FILE, synthetic (that)"},
    {"servers", "N", "devices that are servers of tables (search)"},
    {"cache", "SPEC", "of tables, on each device: rows=N,policy=lru,pull_bound=100,.. (none)"},
    {"batch", "N", "sequences of a step (32 a device)"},
    {"batch-per-device", "N", "the same, of each device (32)"},
    DTYPE,
    {"starts", "LIST", "shares to begin with, of prop, even, mem (prop,even, and mem if known)"},
    {"segments", "HOW", "off, layer, or a number of runs of layers with shares of their own (off)"},
    {"factors", "ON", "on or off: gradients of weights by their factors (on)"},
    {"grouped", "ON", "on or off: gathers of exact pieces beside padded ones (on)"},
    {"integer", "ON", "on or off: pieces of whole lengths (on)"},
    {"search", "HOW", "astar or dp, layer by layer (astar)"},
    {"rules", "LETTERS", "axes that may be cut, such as b, or all (all)"},
    {"baseline", "NAME", "dp-ev, dp-cp or ep instead of a search"},
    {"network", "NAME", "vgg19, vit, bert-base or bert-moe, as published, instead of --model"},
    {"compat", NULL, "as published: rules, work and search of the public code"},
    PROGRESS,
};

static const luo_option sim_options[] = {
    LIMIT,
    MODEL,
    CLUSTER,
    DTYPE,
    {"steps", "N", "steps; for a bare plan 3 by default"},
    {"policies", "A,B", "only these policies of the scenario"},
    {"seed", "N", "instead of the scenario's seed"},
    {"seeds", "SET", "run each of these, 1-8 or 1,3,9-12, and compare the policies over them"},
    {"jobs", "N", "processes at a time: policies, with --seeds seeds (cores)"},
    {"set", "PATH=VALUE", "change a value of the scenario, events[0].slowdown=3"},
    STACK,
    {"comm", "HOW", "collectives as model, flow or message (flow)"},
    {"fold", "ON", "on or off: simulate equal lanes once (on)"},
    {"comm-streams", "N", "1 or 3 communication streams (3)"},
    {"draws", "N", "steps with drawn constants, into draws.csv of each policy"},
    {"trace-steps", "WHICH", "auto, none, all or 0-3,40 (auto)"},
    {"plots", "ON", "figures, as SVG: on or off (on)"},
    {"keep-programs", NULL, "write the program texts as well"},
    {"limit-s", "S", "stop after this wall time, exit 6 (0: never)"},
    OUT,
    FORCE,
    {"verbose", NULL, "tell what each policy did"},
    PROGRESS,
};

static const luo_option sweep_options[] = {
    LIMIT,
    DTYPE,
    STACK,
    {"grid", "KEY=A,B",
     "values of a key, as --set has it, or LO:HI[:STEP]; of several each with each"},
    {"plans", "A,B", "plan files, as values of `plan`"},
    {"clusters", "A,B", "cluster files, as values of `cluster`"},
    {"seeds", "SET", "every cell under each of these, 1-8 or 1,3,9-12 (the scenario's)"},
    {"seed", "N", "instead of the scenario's seed"},
    {"policies", "A,B", "only these policies of the scenario"},
    {"least", "COND", "the smallest value of --over for which it holds, such as goodput>=5e5"},
    {"over", "KEY=LO:HI", "the key that --least seeks, with :STEP how closely (1)"},
    {"part", "I/N", "only this part; others into the same folder (by Slurm array, mpirun; 1/1)"},
    {"jobs", "N", "processes of this part (cores)"},
    {"steps", "N", "steps of a run"},
    {"set", "PATH=VALUE", "change a value of the scenario, events[0].slowdown=3"},
    {"comm", "HOW", "collectives as model, flow or message (flow)"},
    {"fold", "ON", "on or off: simulate equal lanes once (on)"},
    {"comm-streams", "N", "1 or 3 communication streams (3)"},
    {"ranges", "ON", "with one seed: how sure each step is, on or off (on)"},
    {"plots", "ON", "figures, as SVG: on or off (on)"},
    {"out", "DIR", "where to write, and to go on (NAME-sweep)"},
    {"force", NULL, "use a folder that is not empty; another sweep in it goes"},
    {"verbose", NULL, "list the figures"},
    PROGRESS,
};

static const luo_option run_options[] = {
    LIMIT,
    {"backend", "NAME", "host, on processors, or cuda, on GPUs; required"},
    MODEL,
    CLUSTER,
    STACK,
    {"steps", "N", "steps; for a bare plan 3 by default"},
    {"policies", "A,B", "only these policies of the scenario"},
    {"seed", "N", "instead of the scenario's seed"},
    {"set", "PATH=VALUE", "change a value of the scenario, events[0].slowdown=3"},
    {"ranks", "N", "processes; a rank is a device (all of the cluster)"},
    {"launcher", "SPEC", "mpirun, srun, local, none: yours; ,listen=ADDRESS,forward=NAME (mpirun)"},
    {"hostfile", "FILE", "a host for each node of the cluster, in its order (this one)"},
    {"data", "FILE", "text, or tokens as .u16, .u32; of wide: criteo:FILE, avazu:FILE (synthetic)"},
    {"dtype", "NAME", "host: f32, f64; cuda: bf16, f32 (the plan's)"},
    {"load", "PATH", "weights before the first step: safetensors, their index, a folder (drawn)"},
    {"save-init", "FILE", "write the weights before the first step"},
    {"checkpoint-every", "N", "steps (as the scenario says); N,keep=K: the newest K stay (2)"},
    {"resume", "DIR", "go on with the newest checkpoint in this folder"},
    {"max-restarts", "N", "processes that may die by themselves (3; bare plan 0)"},
    {"stuck-s", "S", "no instruction completed for so long: stuck, exit 6 (60; toys 30)"},
    {"cuda", "SPEC", "nccl_algo=Ring,nccl_proto=LL: pinned; share=on: ranks share GPUs"},
    {"dump-batches", "FILE", "write the batches as lines of JSON"},
    {"trace-steps", "WHICH", "auto, none, all or 0-3,40 (auto)"},
    {"plots", "ON", "figures, as SVG: on or off (on)"},
    {"keep-programs", NULL, "write the program texts as well"},
    {"limit-s", "S", "stop after this wall time, exit 6 (0: never)"},
    OUT,
    FORCE,
    {"verbose", NULL, "tell what each policy did"},
    PROGRESS,
};

static const luo_option sync_options[] = {
    LIMIT,
    {"backend", "NAME", "sim, or host: toy models on processes (sim)"},
    {"workers", "N", "workers; required"},
    {"compute-s", "S", "an iteration computes so long, one number or one a worker (host: 0)"},
    {"straggler", "SPEC", "factor:2=1.8,5=3 bern:p=0.1,sleep=0.5 trace:FILE (none)"},
    {"horizon-s", "S", "sim: what ends later does not count; required"},
    {"sync-s", "S", "sim: communication of an iteration (from --exchange)"},
    {"staleness", "N", "of ssp: iterations that workers may be ahead; -1: any number"},
    {"exchange", "HOW", "of bsp, ssp, asp: ps, allreduce or hybrid (ps)"},
    {"hybrid", "HOW", "of hybrid: rows on servers by kind, or where cheaper by cost (kind)"},
    {"servers", "N", "of bsp, ssp, asp: parameter servers (0; host 1)"},
    {"shard", "HOW", "of servers: keys by mod or range (mod)"},
    {"keys", "SPEC", "rows of an iteration, zipf:theta=1.05,vocab=1e6,batch=32,slots=26"},
    {"dense-bytes", "N", "sim: dense gradients of an iteration"},
    {"width", "N", "sim: numbers of a row (16)"},
    {"alpha-s", "S", "latency of a message; host: of --hybrid cost (1e-5)"},
    {"bandwidth-gbytes-per-s", "X", "of a network card, each way; host: as --alpha-s (12.5)"},
    {"groups", "SPEC", "wait_s=0.001,max_group=4,guard=0,pairs=off,.. (docs/sync.md)"},
    {"toy", "NAME", "host: softreg, mlp, wide or wide_deep (softreg)"},
    {"iterations", "N", "host: iterations of each worker (20)"},
    {"batch", "N", "host: samples of a worker in an iteration (32)"},
    {"rate", "X", "host: learning rate (0.2)"},
    {"data", "SPEC", "host: of wide, wide_deep: criteo:FILE, avazu:FILE (synthetic)"},
    {"verify", "ON", "host: on or off: compute all again, serially (off)"},
    {"stuck-s", "S", "host: no message for so long: stuck, exit 6 (30)"},
    {"die", "LIST", "who dies when, 3=12.5,server=30,controller=40; host: one (nobody)"},
    {"seed", "N", "of what is drawn (0)"},
    OUT,
    FORCE,
};

static const luo_option embed_options[] = {
    LIMIT,
    {"backend", "NAME", "sim, or host: a toy model on processes (sim)"},
    {"workers", "N", "workers; of gmp as many parts; required"},
    {"servers", "N", "of ps, het: parameter servers (1)"},
    {"keys", "SPEC", "sim, of ps, het: zipf:theta=1.05,vocab=1e6,batch=32,slots=26 or a file's"},
    {"data", "SPEC", "of gmp, host: FILE, criteo:FILE, avazu:FILE or synthetic:samples=1e5,.."},
    {"iterations", "N", "batches of each worker (100; gmp: an epoch; host 20)"},
    {"batch", "N", "samples of a worker (32; gmp 8192, host 32)"},
    {"cache-rows", "N", "of het, host gmp: rows that each worker keeps"},
    {"policy", "NAME", "of these: which rows go, lru, lfu or lfuopt (lru)"},
    {"pull-bound", "N", "of het, gmp: updates that a copy may lack (100; host 0)"},
    {"push-bound", "N", "of het, gmp: updates that a copy may hold back (100; host 0)"},
    {"rounds", "N", "of gmp: passes over samples and embeddings (5)"},
    {"balance", "X", "of gmp: weight of equal parts (100)"},
    {"replicas", "X", "sim, of gmp: share of the embeddings that a part has copies of (0.01)"},
    {"per-node", "N", "sim, of gmp: parts of a node, whose rows cost a tenth (1)"},
    {"compute-s", "S", "an iteration computes so long (0)"},
    {"straggler", "SPEC", "factor:2=1.8,5=3 bern:p=0.1,sleep=0.5 trace:FILE (none)"},
    {"width", "N", "sim: numbers of a row (16)"},
    {"alpha-s", "S", "sim: latency of a message (1e-5)"},
    {"bandwidth-gbytes-per-s", "X", "sim: of a network card, each way (12.5)"},
    {"shard", "HOW", "host: keys by mod or range (mod)"},
    {"rate", "X", "host: learning rate (0.2)"},
    {"verify", "ON", "host: on or off: compute all again, serially (off)"},
    {"stuck-s", "S", "host: no message for so long: stuck, exit 6 (30)"},
    {"die", "WHO=S", "host: worker or `server` that is killed then (nobody)"},
    {"seed", "N", "of what is drawn (0)"},
    OUT,
    FORCE,
};

static const luo_option moe_options[] = {
    CLUSTER,
    STACK,
    {"nodes", "N", "of exchange: nodes (the cluster's)"},
    {"devices-per-node", "N", "of exchange: devices of a node (the cluster's)"},
    {"free-gib", "X", "of exchange: memory that a leader may use (all but what is reserved)"},
    {"model", "FILE", "of layer: model.yaml or a Hugging Face config.json, with experts"},
    DTYPE,
    {"expert-parallel", "N", "of layer: devices that have all experts (the most that divide them)"},
    {"tokens", "N", "of layer: tokens of a device (4096)"},
    {"exchange", "HOW", "of layer: flat, leader, or 2d: inside the nodes, then between (flat)"},
    {"plots", "ON", "on or off (on)"},
    OUT,
    FORCE,
};

static const luo_option demo_options[] = {
    OUT,
    FORCE,
    {"seed", "N", "instead of the demo's seed"},
    {"duration-s", "S", "only so many seconds of the day (86400)"},
    {"plots", "ON", "figures, as SVG: on or off (on)"},
    {"verbose", NULL, "tell what each policy did"},
    PROGRESS,
};

static const luo_option replay_options[] = {
    {"steps", "LIST", "only these steps, 0-3,40 (all)"},
    {"scenario", "FILE", "also a scenario with the slow workers as stragglers (none)"},
    {"model", "FILE", "of --scenario: model.yaml or a Hugging Face config.json"},
    {"cluster", "FILE", "of --scenario: cluster.yaml"},
    {"plan", "FILE", "of --scenario: its plan (plan.json beside TIMELINE)"},
    {"plots", "ON", "on or off (on)"},
    {"out", "DIR", "where to write (replay)"},
    FORCE,
};

static const luo_option compare_options[] = {
    {"out", "DIR", "where to write (a set given alone, or the first run's folder)"},
    FORCE,
    {"allow-different", NULL, "do not fail when programs differ"},
    {"plots", "ON", "on or off (on)"},
    {"verbose", NULL, "list the figures"},
};

static const luo_option calibrate_options[] = {
    {"backend", "NAME", "host, or cuda (host)"},
    {"out", "DIR", "where to write (calibration)"},
    FORCE,
    {"ranks", "N", "only for N ranks (1, 2, 4, 8 and on to a core each)"},
    {"quick", NULL, "a part of the sizes, and in f32 only"},
    {"from", "FILE", "tables instead of measuring; more of them follow it"},
    {"collective", "NAME", "of nccl-tests: what was timed (as the file says)"},
    {"devices", "N", "of nccl-tests: ranks that took part (as the file says)"},
    {"profile", "FILE", "of GPUs: peaks and bandwidth of a datasheet (as measured)"},
    {"model", "FILE", "of times of layers: the network that was timed; of a pool"},
    DTYPE,
    {"stack", "FILE", "of times of layers, or of a pool: the software (luoshu-cuda)"},
    {"cluster", "FILE", "of GPUs: where collectives of nodes were measured; of a pool"},
    {"os", "D,T,P", "of a pool: optimizer's layout (all devices, a node, 1)"},
    {"ctx", "N", "of a pool: longest sequence (the model's)"},
    {"seed", "N", "of GPUs and suites: of the search for constants (0)"},
    {"fit", "LIST", "of suites: constants to fit, joined by commas (by suite)"},
    {"name", "NAME", "of suites: of the stack that is written (by suite)"},
    {"profile-dir", "DIR", "of suites: profiles and stacks to begin with (built in)"},
    VERBOSE,
    PROGRESS,
};

static const luo_option import_options[] = {
    {"out", "FILE",
     "file to write; of several, their folder (lengths.csv, or what is named above)"},
    {"force", NULL, "replace existing files"},
    {"length", "WHICH", "tokens of a request: context, generated or total (total)"},
    {"unit", "UNIT", "what stands for tokens of a text: bytes or words (bytes)"},
    {"histogram", "EDGES", "classes: log2, or edges such as 1,512,4096 (none)"},
    {"devices", "N", "GPUs of the training (as the source says)"},
    {"model", "FILE", "the network, where the source does not say it"},
    {"seq-length", "N", "tokens of a sequence (as the source says, else 4096 or the model's)"},
    {"micro-batches", "LIST", "of each pipeline, such as 33,31 (as the source says)"},
    {"repair", NULL, "deal layers by how many a stage has, where their numbers are wrong"},
    {"profile", "NAME", "GPUs of the node"},
    {"units", "WHICH",
     "what counts and names are of: device:[0-7] or node:GROUP (as the source says)"},
    {"min-gpus", "N", "of a job that counts (1)"},
    {"run", NULL, "also make --out a run, which compare sets beside a simulated one"},
    {"approximate", NULL, "leave out what has no place here, with a warning"},
};

static const luo_option export_options[] = {
    {"out", "FILE", "file to write (stdout), or folder (chakra)"},
    {"force", NULL, "replace an existing file, or the files of a folder"},
    {"model", "FILE", "model of the plan"},
    {"cluster", "FILE", "cluster of the plan"},
    DTYPE,
    {"stack", "FILE", "of traces: the software that says how long things take (luoshu-cuda)"},
};

static const luo_option plot_options[] = {
    {"figure", "NAME", "only this figure (all that have data)"},
    {"column", "N", "1: 84 mm wide, 2: 174 mm (2)"},
    {"step", "N", "of gantt: this step (the first traced one)"},
    {"plan", "K", "of gantt: the first traced step of this plan"},
    {"out", "DIR", "of lengths: where to write (lengthcdf)"},
    {"ctx", "N", "of syn-web, syn-code: longest sequence (32768)"},
    {"seed", "N", "of syn-web, syn-code: of what is drawn (0)"},
};

static const luo_option report_options[] = {
    {"out", "DIR", "where to write (what is given alone; of several `report`)"},
    FORCE,
    {"plots", "ON", "draw figures that are not there: on or off (on)"},
};

static const luo_option help_options[] = {
    {"json-schema", NULL, "the JSON Schema (draft 2020-12) of a kind of file, for editors"},
};

const luo_verb luo_verbs[] = {
    {"demo",
     "luoshu demo [options]",
     "Runs the built-in scenario of a mixed cluster under three policies and plots it.",
     "see everything once, on built-in inputs",
     demo_options,
     N(demo_options),
     "luoshu-demo/ with one folder per policy, compare.csv and plots/; real/ of the part for real",
     {"luoshu demo --force", NULL},
     "0 1 2 3 4",
     "luoshu.demo/1",
     luo_verb_demo_run},
    {"sim",
     "luoshu sim SCENARIO|PLAN.. [options]",
     "Simulates a scenario under its policies, or plans of one model and cluster for a few steps.",
     "simulate a scenario or plans",
     sim_options,
     N(sim_options),
     "a result set: one folder per policy, compare.csv, plots/; with --seeds one set a seed, "
     "seeds.csv, pairs.csv",
     {"luoshu sim scenarios/examples/small.yaml --out small --force",
      "luoshu sim scenarios/plans/published/plan-12.json --model scenarios/models/llama-32b.yaml"
      " --cluster scenarios/clusters/h20-32.yaml --force"},
     "0 1 2 3 4 5 6",
     "luoshu.sim/1",
     luo_verb_sim_run},
    {"sweep",
     "luoshu sweep SCENARIO --grid KEY=A,B [options]",
     "Simulates a scenario under many values of its keys, on as many processes and machines as"
     " there are; goes on where it was stopped (docs/sweeps.md).",
     "a scenario under many values",
     sweep_options,
     N(sweep_options),
     "sweep.csv, sweep.json, sweep-answer.json, sweep-parts/ with what each part has done, plots/ "
     "with a figure a key",
     {"luoshu sweep scenarios/examples/small.yaml --grid events[0].slowdown=1.5,3 --grid"
      " model.layers=4,8 --seeds 1-3 --out sweep --force",
      "luoshu sweep scenarios/examples/small.yaml --least \"step_s>=0.008\" --over"
      " model.layers=1:16 --policies static --out least --force"},
     "0 1 2 3 4",
     "luoshu.sweep/1",
     luo_verb_sweep_run},
    {"run",
     "luoshu run SCENARIO|PLAN --backend host|cuda [options]",
     "Trains for real with the programs that `sim` simulates; failures and stragglers included.",
     "run it for real (host, cuda)",
     run_options,
     N(run_options),
     "a result set as `sim` writes it, with checkpoints and ranks.log per policy",
     {"luoshu run scenarios/examples/small.yaml --backend host --policies restart --out host "
      "--force",
      "luoshu run scenarios/plans/tiny2.json --backend host --checkpoint-every 2 --model"
      " scenarios/models/tiny-llama.yaml --cluster scenarios/clusters/tiny2.yaml --force"},
     "0 1 2 3 4 5 6",
     "luoshu.run/1",
     luo_verb_run_run},
    {"plan",
     "luoshu plan PLANNER --model FILE --cluster FILE [options]",
     "Makes a plan; prints objective, lower bound, simulated step and planning time.",
     "make a plan",
     plan_options,
     N(plan_options),
     "plan.json",
     {"luoshu plan uniform --model scenarios/models/llama-7b.yaml"
      " --cluster scenarios/clusters/h20-32.yaml --force",
      "luoshu plan malleus --model scenarios/models/llama-32b.yaml --cluster"
      " scenarios/clusters/mixed48.yaml --rates scenarios/examples/rates.csv --tp 4 --force"},
     "0 1 2 3 4",
     "luoshu.plan.uniform/1",
     luo_verb_plan_run},
    {"check",
     "luoshu check FILE... [options]",
     "Checks files of any kind; scenarios as far as a run gets before it starts, plans also against"
     " --model and --cluster.",
     "check files",
     check_options,
     N(check_options),
     NULL,
     {"luoshu check scenarios/demo/demo.yaml",
      "luoshu check scenarios/host/demo.yaml --backend host --ranks 8"},
     "0 1 2 3 4 5",
     "luoshu.check/1",
     luo_verb_check_run},
    {"explain",
     "luoshu explain FILE [options]",
     "Prints what a plan, cluster, model or profile comes down to, before anything runs.",
     "show what a file comes down to",
     explain_options,
     N(explain_options),
     NULL,
     {"luoshu explain scenarios/plans/published/plan-13.json --model"
      " scenarios/models/llama-32b.yaml --cluster scenarios/clusters/h20-32.yaml",
      NULL},
     "0 2 3 5",
     "luoshu.explain/1",
     luo_verb_explain_run},
    {"resolve",
     "luoshu resolve SRC DST --shape 8x4 [options]",
     "Prints the communication that turns one annotation into another.",
     "derive one re-shard",
     resolve_options,
     N(resolve_options),
     NULL,
     {"luoshu resolve \"[0,1]{-2:2}\" \"[0,1]{-1:2}\" --shape 4x4", NULL},
     "0 1 2 3",
     "luoshu.resolve/1",
     luo_verb_resolve_run},
    {"switch",
     "luoshu switch PLAN_A PLAN_B --model FILE --cluster FILE [options]",
     "Plans the move of all state from one plan to another.",
     "plan the move between two plans",
     switch_options,
     N(switch_options),
     NULL,
     {"luoshu switch scenarios/plans/published/plan-12.json scenarios/plans/published/plan-13.json"
      " --model scenarios/models/llama-32b.yaml --cluster scenarios/clusters/h20-32.yaml --dead 31",
      NULL},
     "0 1 2 3",
     "luoshu.switch/1",
     luo_verb_switch_run},
    {"sync",
     "luoshu sync MODE [options]",
     "Data-parallel workers that wait for each other, or do not, by mode"
#define MODE_WORD(value, word) " " word
     LUO_LOOP_MODE_LIST(MODE_WORD)
#undef MODE_WORD
     "; without a model or a cluster (docs/sync.md).",
     "workers that wait for each other",
     sync_options,
     N(sync_options),
     "iterations.csv, groups.csv, ahead.csv, servers.csv, summary.json",
     {"luoshu sync bsp --workers 4 --compute-s 1,1,1,2 --sync-s 0.1 --horizon-s 20 --out bsp"
      " --force",
      "luoshu sync ssp --backend host --workers 2 --servers 1 --staleness 2 --out ssp --force"},
     "0 1 2 3 4 6",
     "luoshu.sync/1",
     luo_verb_sync_run},
    {"embed",
     "luoshu embed METHOD [options]",
     "Embedding tables of many workers by method: ps (on servers), het (cached) or gmp"
     " (partitioned); what travels (docs/embeddings.md).",
     "embedding tables on servers, in caches",
     embed_options,
     N(embed_options),
     "iterations.csv, servers.csv, staleness.csv, summary.json; of gmp partition.csv, "
     "partitions.csv, traffic.csv",
     {"luoshu embed het --workers 8 --keys zipf:vocab=1e5 --cache-rows 10000 --out het --force",
      "luoshu embed ps --backend host --workers 2 --servers 1 --out ps --force"},
     "0 1 2 3 4 6",
     "luoshu.embed/1",
     luo_verb_embed_run},
    {"moe",
     "luoshu moe exchange|layer --cluster FILE [options]",
     "Three exchanges of experts beside each other, or the time of a layer with experts"
     " (docs/moe.md).",
     "exchanges of experts",
     moe_options,
     N(moe_options),
     "a2a_sweep.csv or moe_layer.csv, summary.json, plots/",
     {"luoshu moe exchange --cluster scenarios/clusters/a100-64.yaml --nodes 4 --out exchange"
      " --force",
      "luoshu moe layer --model scenarios/models/mixtral-8x7b.yaml --cluster"
      " scenarios/clusters/a100-64.yaml --out layer --force"},
     "0 2 3 4",
     "luoshu.moe/1",
     luo_verb_moe_run},
    {"compare",
     "luoshu compare RUN... [options]",
     "Puts runs side by side; the first is the reference.",
     "put runs side by side",
     compare_options,
     N(compare_options),
     "compare.csv, compare.json, compare_steps.csv, "
     "compare_ops.csv; of sync and embed compare_sync.csv; of several seeds "
     "seeds.csv, pairs.csv; plots/: of one seed the figures that runs share, of sim beside a real "
     "run predicted, of several seeds goodput with bands",
     {"luoshu compare luoshu-demo/static luoshu-demo/restart --out cmp --force", NULL},
     "0 1 2 3 4",
     "luoshu.compare/1",
     luo_verb_compare_run},
    {"replay",
     "luoshu replay TIMELINE [options]",
     "Runs recorded steps again, as recorded and without stragglers, and says whom the difference "
     "is due to.",
     "who made recorded steps slow",
     replay_options,
     N(replay_options),
     "attribution.csv, devices.csv, compare_steps.csv, compare_steps-ideal.csv, recorded.csv, "
     "ideal.csv, summary.json, plots/; with --scenario the scenario",
     {"luoshu replay scenarios/examples/recorded.csv --out replay --force",
      "luoshu replay scenarios/examples/recorded.csv --steps 0 --plots off --out replay --force"},
     "0 2 3 4",
     "luoshu.replay/1",
     luo_verb_replay_run},
    {"calibrate",
     "luoshu calibrate [options] [--from FILE FILE...]",
     "Measures this machine, or takes measured tables, and makes profiles and clusters of it.",
     "measure this machine",
     calibrate_options,
     N(calibrate_options),
     "profile-N.yaml, cluster-N.yaml and tables for N ranks; calibrate.csv; or pool.csv",
     {"luoshu calibrate --ranks 2 --quick --out calibration --force", NULL},
     "0 2 3 4",
     "luoshu.calibrate/1",
     luo_verb_calibrate_run},
    {"validate",
     "luoshu validate SUITE|all --data DIR [options]",
     "Predicts published training steps and puts the errors beside bars and what others score.",
     "predict published measurements",
     validate_options,
     N(validate_options),
     "with --out: validate.csv; plots/predicted.csv and the figures predicted and errorbox",
     {"luoshu validate synthetic --data scenarios/examples/measured", NULL},
     "0 1 2 3 4",
     "luoshu.validate/1",
     luo_verb_validate_run},
    {"import",
     "luoshu import KIND SOURCE [options]",
     "Makes files of ours of a file or folder of other tools. KIND, and what SOURCE is:"
#define LUO_IMPORTER(kind, word, function, options, source) "\n  " word ": " source
#include "core/io/import/importers.inc"
#undef LUO_IMPORTER
#define LUO_CONVERTER(kind, word, function, options, out, source)                                  \
    "\n  " word ": " source " -> " out
#include "core/io/convert/converters.inc"
#undef LUO_CONVERTER
     ,
     "make files of ours of others'",
     import_options,
     N(import_options),
     "what the kind makes; lengths.csv: lengths one by one, with arrival times where there are any,"
     " or in classes",
     {"luoshu import lengths-text scenarios/profiles --unit words --out words.csv --force",
      "luoshu import lengths-azure scenarios/examples/requests.csv --histogram log2 --force"},
     "0 2 3 4",
     "luoshu.import/1",
     luo_verb_import_run},
    {"export",
     "luoshu export KIND PLAN|CLUSTER|RUN [options]",
     "Writes a plan, a cluster or a run as a file of others. KIND, and what comes out:"
#define LUO_EXPORTER(kind, word, function, source, needs, takes, says) "\n  " word ": " says
#include "core/io/export/exporters.inc"
#undef LUO_EXPORTER
     ,
     "write plans as others' files",
     export_options,
     N(export_options),
     "the file of --out; chakra: DIR/trace.RANK.et and DIR/comm_groups.json",
     {"luoshu export hostfile scenarios/clusters/h20-32.yaml",
      "luoshu export deepspeed scenarios/plans/tiny2.json --out ds_config.json --force"},
     "0 1 2 3 4",
     "luoshu.export/1",
     luo_verb_export_run},
    {"plot",
     "luoshu plot RUN...|LENGTHS... [options]",
     "Draws the figures of a run or a result set from its CSV files; or, of tables of lengths or"
     " syn-web, syn-code, how they are distributed.",
     "draw figures",
     plot_options,
     N(plot_options),
     "plots/ of the run, or of DIR: SVG, PNG and PDF files, and the scripts in plots/gp",
     {"luoshu plot luoshu-demo --figure throughput", "luoshu plot syn-web syn-code"},
     "0 2 3 4",
     NULL,
     luo_verb_plot_run},
    {"report",
     "luoshu report RUN|SET..|SWEEP|REPLAY [options]",
     "Makes one page, which opens from disk without a network: of runs the answer, a table that "
     "sorts, throughput over time, a timeline of traced steps, figures, assumptions, origin; of "
     "the folder of a sweep question, answer, cells, figures; of that of a replay who is slow.",
     "one page of runs, a sweep or a replay",
     report_options,
     N(report_options),
     "report.html, and plots/ where there were none",
     {"luoshu report luoshu-demo", "luoshu report sweep"},
     "0 2 3 4",
     "luoshu.report/1",
     luo_verb_report_run},
    {"help",
     "luoshu help [VERB | plan PLANNER | KIND[.KEY] | TABLE | files | limits | profiles]",
     "Prints the list of verbs, the help of one, the keys of a kind of file, the columns of a"
     " table; which files there are, limits of work and ranges of quantities, or the built-in"
     " profiles with their sources.",
     "verbs, their options, keys of files",
     help_options,
     N(help_options),
     NULL,
     {"luoshu help sim", "luoshu help cluster.node_groups"},
     "0 2",
     NULL,
     luo_verb_help_run},
    {"version",
     "luoshu version",
     "Prints version, backends, libraries and build flags.",
     "version, backends, build",
     NULL,
     0,
     NULL,
     {"luoshu version", NULL},
     "0",
     NULL,
     luo_verb_version_run},
};
const int luo_nverbs = N(luo_verbs);

const luo_verb *luo_verb_find(const char *name)
{
    for (int i = 0; i < luo_nverbs; i++)
        if (strcmp(luo_verbs[i].name, name) == 0) return &luo_verbs[i];
    return NULL;
}

luo_status luo_verb_unknown(const char *word, luo_err *err)
{
    const char *names[N(luo_verbs)];
    for (int i = 0; i < luo_nverbs; i++) names[i] = luo_verbs[i].name;
    /* `simulate` is further from `sim` than two letters, but plainly means it. */
    const char *near = luo_word_nearest(word, names, luo_nverbs);
    for (int i = 0; i < luo_nverbs && !near; i++)
        if (strncmp(word, names[i], strlen(names[i])) == 0) near = names[i];
    if (near)
        return luo_err_set(err, LUO_EUSAGE, "unknown verb `%s`; did you mean `%s`?", word, near);
    return luo_err_set(err, LUO_EUSAGE, "unknown verb `%s`; `luoshu --help` lists the known ones.",
                       word);
}
