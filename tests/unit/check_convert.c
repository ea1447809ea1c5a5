/* check_convert.c: files of other tools into files of ours (core/io/convert): vectors V-L1 to V-L4,
 * V-M1, V-M2, V-N1, V-D1, V-S1, V-S2, V-A1 of the conventions, and what each tool's words become.
 * What the command says: tests/golden/import_files.sh. */
#include <string.h>
#include <unistd.h>

#include "core/io/convert/convert.h"
#include "core/io/read/read.h"
#include "tests/check_main.h"

static luo_arena *arena;
static luo_diags diags;
static char path[64], model_path[64];

static void begin(void)
{
    if (arena) return;
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    snprintf(path, sizeof path, "build/check_convert.%ld", (long)getpid());
    snprintf(model_path, sizeof model_path, "build/check_convert.%ld.model", (long)getpid());
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(name, "wb");
    ck_assert(f && fwrite(text, 1, strlen(text), f) == strlen(text) && fclose(f) == 0);
}

/* Imports the text; made is set if it is good. */
static luo_status convert(luo_convert_kind kind, const char *text, luo_convert_opts opts,
                          luo_convert_made *made)
{
    begin();
    put(path, text);
    opts.kind = kind;
    opts.source = path;
    luo_diags_init(&diags, arena);
    const luo_status st = luo_convert(arena, &opts, made, &diags);
    unlink(path);
    unlink(model_path);
    ck_assert_int_eq(st == LUO_OK, diags.n_errors == 0);
    return st;
}

static const char *first_error(void)
{
    for (const luo_diag *d = diags.first; d; d = d->next)
        if (d->severity == LUO_ERROR) return d->err.text;
    return "";
}

static const char *file_of(const luo_convert_made *made, const char *name)
{
    for (int32_t i = 0; i < made->nfiles; i++)
        if (strcmp(made->file[i].name, name) == 0) return made->file[i].text;
    return "";
}

static luo_plan *plan_of(const luo_convert_made *made)
{
    luo_plan *plan;
    const char *text = file_of(made, "plan.json");
    const luo_source src = {"plan.json", text, strlen(text)};
    ck_assert_int_eq(luo_read_plan_text(arena, &src, &plan, &diags), LUO_OK);
    return plan;
}

static luo_model *model_of(const luo_convert_made *made)
{
    luo_model *model;
    const char *text = file_of(made, "model.yaml");
    const luo_source src = {"model.yaml", text, strlen(text)};
    ck_assert_int_eq(luo_read_model_text(arena, &src, NULL, &model, &diags), LUO_OK);
    return model;
}

static void model_file(int layers)
{
    char text[256];
    begin();
    snprintf(text, sizeof text,
             "schema: luoshu.model/1\nname: m\nfamily: llama\nlayers: %d\nhidden: 64\n"
             "ffn_hidden: 128\nheads: 8\nvocab: 1024\nmax_sequence_tokens: 128\n",
             layers);
    put(model_path, text);
}

/* "2 pipelines: [0,1] [4,5] / [2,3] [6,7]": devices of the stages. */
static const char *devices_of(const luo_plan *plan)
{
    luo_str text = {0};
    for (int32_t p = 0; p < plan->npipelines; p++) {
        luo_str_add(&text, p ? " / " : "");
        for (int32_t s = 0; s < plan->pipelines[p].nstages; s++) {
            const luo_stage *st = &plan->pipelines[p].stages[s];
            luo_str_add(&text, s ? " " : "");
            for (int32_t i = 0; i < st->ndev; i++)
                luo_str_addf(&text, "%s%d", i ? "," : "", st->dev[i]);
        }
    }
    const char *copy = luo_arena_strdup(arena, luo_str_get(&text));
    luo_str_free(&text);
    return copy;
}

/* "0-5 | 5-11": layers of the stages of pipeline 0, chunks with + between. */
static const char *layers_of(const luo_plan *plan)
{
    luo_str text = {0};
    for (int32_t s = 0; s < plan->pipelines[0].nstages; s++) {
        const luo_stage *st = &plan->pipelines[0].stages[s];
        luo_str_add(&text, s ? " | " : "");
        for (int32_t i = 0; i < st->nlayers; i++)
            luo_str_addf(&text, "%s%d-%d", i ? "+" : "", st->layers[i].lo, st->layers[i].hi);
    }
    const char *copy = luo_arena_strdup(arena, luo_str_get(&text));
    luo_str_free(&text);
    return copy;
}

/* ---- Megatron ---- */

#define SIZES "--hidden-size 64 --num-attention-heads 8 --seq-length 128 --vocab-size 1024 "

START_TEST(script)
{
    luo_convert_made made;
    ck_assert_int_eq(convert(LUO_CONVERT_MEGATRON_ARGS,
                             "#!/bin/bash\nGPUS=8; NODES=${NODES:-16}\nTP=8 # of a node\n"
                             "MODEL=(\n  --num-layers 96\n  --hidden-size 12288 "
                             "--num-attention-heads 96\n  --seq-length 2048 "
                             "--max-position-embeddings 2048 --vocab-size 51200\n)\n"
                             "BATCH=\"--micro-batch-size 1 \\\n --global-batch-size "
                             "$((GPUS * NODES * 12))\"\n"
                             "torchrun --nproc_per_node $GPUS --nnodes ${NODES} x.py "
                             "${MODEL[@]} $BATCH \\\n  --tensor-model-parallel-size $TP "
                             "--pipeline-model-parallel-size 16 "
                             "--num-layers-per-virtual-pipeline-stage 3 --sequence-parallel "
                             "--use-distributed-optimizer --recompute-activations --bf16 && echo\n",
                             (luo_convert_opts){0}, &made),
                     LUO_OK);
    const luo_plan *plan = plan_of(&made);
    const luo_model *model = model_of(&made);
    ck_assert_int_eq(model->layers, 96);
    ck_assert_int_eq(model->family, LUO_FAMILY_GPT);
    ck_assert_int_eq(model->ffn_hidden, 4 * 12288);
    ck_assert_int_eq(plan->devices, 128);
    ck_assert_int_eq(plan->npipelines, 1);
    ck_assert_int_eq(plan->pipelines[0].nstages, 16);
    ck_assert_int_eq(plan->pipelines[0].micro_batches, 1536);
    ck_assert_int_eq(plan->chunks, 2);
    ck_assert_int_eq(plan->zero, 1);
    ck_assert(plan->sequence_parallel);
    ck_assert_int_eq(plan->pipelines[0].stages[0].recompute, LUO_RECOMPUTE_SELECTIVE);
}
END_TEST

START_TEST(order) /* V-M1 */
{
    luo_convert_made made;
    const luo_convert_opts opts = {.devices = 8};
    ck_assert_int_eq(convert(LUO_CONVERT_MEGATRON_ARGS,
                             "x " SIZES "--num-layers 4 --tensor-model-parallel-size 2 "
                             "--pipeline-model-parallel-size 2",
                             opts, &made),
                     LUO_OK);
    ck_assert_str_eq(devices_of(plan_of(&made)), "0,1 4,5 / 2,3 6,7");
    ck_assert_int_eq(convert(LUO_CONVERT_MEGATRON_ARGS,
                             "x " SIZES "--num-layers 4 --tensor-model-parallel-size 2 "
                             "--pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping",
                             opts, &made),
                     LUO_OK);
    ck_assert_str_eq(devices_of(plan_of(&made)), "0,1 2,3 / 4,5 6,7");
}
END_TEST

static const struct { /* V-M2, and layouts V-L1 to V-L4 */
    const char *args;
    int32_t devices;
    bool approximate;
    const char *layers, *error;
} cuts[] = {
    {"--num-layers 10 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
     "--decoder-last-pipeline-num-layers 3",
     4, false, "0-1 | 1-4 | 4-7 | 7-10", NULL},
    {"--num-layers 61 --pipeline-model-parallel-size 8 --decoder-last-pipeline-num-layers 5", 8,
     false, "0-8 | 8-16 | 16-24 | 24-32 | 32-40 | 40-48 | 48-56 | 56-61", NULL},
    {"--num-layers 12 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "
     "'E|t*5|t*6|t,m,L'",
     4, true, "0-0 | 0-5 | 5-11 | 11-12", NULL},
    {"--num-layers 12 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "
     "'E|t*5|t*6|t,m,L'",
     4, false, NULL, "prediction of several tokens"},
    {"--num-layers 61 --pipeline-model-parallel-size 16 --pipeline-model-parallel-layout "
     "'Et*3|(tt|)*29,m|L'",
     16, true,
     "0-3+33-35 | 3-5+35-37 | 5-7+37-39 | 7-9+39-41 | 9-11+41-43 | 11-13+43-45 | 13-15+45-47 | "
     "15-17+47-49 | 17-19+49-51 | 19-21+51-53 | 21-23+53-55 | 23-25+55-57 | 25-27+57-59 | "
     "27-29+59-61 | 29-31+61-61 | 31-33+61-61",
     NULL},
    {"--num-layers 8 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
     "'Ett|tt|tt|ttL'",
     2, false, "0-2+4-6 | 2-4+6-8", NULL},
    {"--num-layers 1 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'E||t|L'", 4,
     false, "0-0 | 0-0 | 0-1 | 1-1", NULL},
    {"--num-layers 1 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E|t|L'", 2,
     false, NULL, "3 chunks on 2 stages"},
    {"--num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tE'", 2,
     false, NULL, "the embedding twice and no head"},
    {"--num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E((t))L'",
     2, false, NULL, "brackets in brackets"},
    {"--num-layers 5 --pipeline-model-parallel-size 2", 2, false, NULL, "a multiple of 2"},
    {"--num-layers 4 --pipeline-model-parallel-size 3", 2, false, NULL, "does not divide 2"},
    {"--num-layers 4 --micro-batch-size 3 --global-batch-size 8", 1, false, NULL,
     "a multiple of micro-batch 3"},
    {"--num-layers 4 --fp16", 1, false, NULL, "`fp16` is not supported"},
    {"--num-layers 4 --num-layers 5", 1, false, NULL, "one of them is expected"},
    {"--num-layers $LAYERS", 1, false, NULL, "a whole number is expected"},
    {"A=4; A=8; y --num-layers $A", 1, false, NULL, "a whole number is expected"},
    {"--num-layers 4 --tensor-model-parallel-size 2", 0, false, NULL, "`--devices` is missing"},
};

START_TEST(cut)
{
    luo_convert_made made;
    char text[512];
    snprintf(text, sizeof text, "x " SIZES "%s\n", cuts[_i].args);
    const luo_convert_opts opts = {.devices = cuts[_i].devices,
                                   .approximate = cuts[_i].approximate};
    const luo_status st = convert(LUO_CONVERT_MEGATRON_ARGS, text, opts, &made);
    if (cuts[_i].error) {
        ck_assert_int_ne(st, LUO_OK);
        ck_assert_msg(strstr(first_error(), cuts[_i].error) != NULL, "%s", first_error());
    } else {
        ck_assert_msg(st == LUO_OK, "%s", first_error());
        ck_assert_str_eq(layers_of(plan_of(&made)), cuts[_i].layers);
    }
}
END_TEST

START_TEST(yaml) /* the file's name says that it is YAML: through a link it is a script */
{
    luo_convert_made made;
    char name[80];
    begin();
    snprintf(name, sizeof name, "%s.yaml", path);
    put(name, "model_parallel:\n  tensor_model_parallel_size: 2\nlanguage_model:\n"
              "  num_layers: 4\n  hidden_size: 4096\n  num_attention_heads: 32\n  swiglu: true\n"
              "  normalization: RMSNorm\n  position_embedding_type: rope\n"
              "  untie_embeddings_and_output_weights: true\n  add_bias_linear: false\n"
              "seq_length: 128\nvocab_size: 32000\nworld_size: 4\n");
    const luo_convert_opts opts = {.kind = LUO_CONVERT_MEGATRON_ARGS, .source = name};
    ck_assert_int_eq(luo_convert(arena, &opts, &made, &diags), LUO_OK);
    unlink(name);
    const luo_model *model = model_of(&made);
    ck_assert_int_eq(model->family, LUO_FAMILY_LLAMA);
    ck_assert_int_eq(model->ffn_hidden, 10880); /* V-M2: swiglu */
    ck_assert(!model->tied_embeddings && !model->linear_bias && !model->qkv_bias);
    ck_assert_int_eq(plan_of(&made)->npipelines, 2);
}
END_TEST

START_TEST(experts)
{
    luo_convert_made made;
    const luo_convert_opts opts = {.devices = 8};
    ck_assert_int_eq(convert(LUO_CONVERT_MEGATRON_ARGS,
                             "x " SIZES "--num-layers 4 --num-experts 8 --moe-router-topk 2 "
                             "--moe-ffn-hidden-size 96 --swiglu --normalization RMSNorm "
                             "--position-embedding-type rope --disable-bias-linear "
                             "--expert-model-parallel-size 4",
                             opts, &made),
                     LUO_OK);
    const luo_plan *plan = plan_of(&made);
    ck_assert_int_eq(model_of(&made)->moe.experts, 8);
    ck_assert_int_eq(model_of(&made)->moe.expert_ffn_hidden, 96);
    ck_assert_int_eq(plan->ngroups, 2);
    ck_assert_int_eq(plan->expert_groups[1].n, 4);
    ck_assert_int_eq(plan->expert_groups[1].pipeline[0], 4);
}
END_TEST

START_TEST(log_with_arguments)
{
    luo_convert_made made;
    const luo_convert_opts opts = {.profile = "h100"};
    ck_assert_int_eq(
        convert(LUO_CONVERT_MEGATRON_LOG,
                "------ arguments ------\n  bf16 ......... True\n  num_layers ........ 4\n"
                "  hidden_size ...... 64\n  num_attention_heads ... 8\n  seq_length ..... 128\n"
                "  padded_vocab_size ... 1024\n  world_size ..... 8\n  micro_batch_size ... 1\n"
                "  global_batch_size ... 16\n  add_bias_linear ... True\n"
                "  recompute_granularity ... None\n  tensor_model_parallel_size ... 2\n"
                " iteration 1/ 9 | elapsed time per iteration (ms): 9000.0 | global batch size: 16 "
                "|\n iteration 2/ 9 | elapsed time per iteration (ms): 2000.0 |\n"
                " iteration 3/ 9 | elapsed time per iteration (ms): 1001.0 | throughput per GPU "
                "(TFLOP/s/GPU): 250.5 |\n iteration 4/ 9 | elapsed time per iteration (ms): 1003.0 "
                "|\n iteration 5/ 9 | elapsed time per iteration (ms): 1002.0 |\n",
                opts, &made),
        LUO_OK);
    const char *row = file_of(&made, "measured.csv");
    ck_assert_msg(strstr(row,
                         "\nlog-1,val,imported,megatron-core,,h100,8,8,,imported,4,64,8,8,256,"
                         "1024,128,bf16,2,1,1,4,1,1,16,0,none,0,,,1.002,measured,,,250.5,log,"),
                  "%s", row);
    ck_assert_int_eq(plan_of(&made)->pipelines[0].micro_batches, 4);
}
END_TEST

/* ---- others ---- */

static const struct {
    luo_convert_kind kind;
    int32_t devices;
    bool model, approximate;
    const char *text;
    const char *file, *has; /* what a file has; NULL: an error */
    const char *error;
} others[] = {
    {LUO_CONVERT_TORCHTITAN, 64, false, false,
     "[model]\nname = \"llama3\"\nflavor = '70B' # of them\n[training]\nlocal_batch_size = 4\n"
     "seq_len = 8_192\n[parallelism]\ndata_parallel_replicate_degree = 2\n"
     "data_parallel_shard_degree = -1\ntensor_parallel_degree = 8\n"
     "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n",
     "plan.json",
     "\"zero\": 3, \"sequence_parallel\": true, \"schedule\": {\"kind\": \"1f1b\", "
     "\"chunks\": 1}, \"shard\": \"hybrid\", \"shard_pipelines\": 4",
     NULL},
    {LUO_CONVERT_TORCHTITAN, 4, true, false,
     "[training]\nseq_len = 128\n[parallelism]\npipeline_parallel_degree = 2\n"
     "fsdp_reshard_after_forward = \"default\"\nmodule_fqns_per_model_part = [\n  "
     "[\"tok_embeddings\", \"layers.0\"],\n  [\"layers.1\", \"layers.2\", \"layers.3\", "
     "\"norm\", \"output\"]\n]\n",
     "plan.json",
     "\"shard\": \"grad-op\",\n \"pipelines\": [\n  {\"micro_batches\": 1, "
     "\"stages\": [\n   {\"layers\": [[0, 1]], \"devices\": [0]},\n   "
     "{\"layers\": [[1, 4]], \"devices\": [2]}]}",
     NULL},
    {LUO_CONVERT_MEGATRON_ARGS, 1, false, false,
     "x " SIZES "--num-layers 4 --swiglu --normalization RMSNorm --position-embedding-type rope "
     "--multi-latent-attention --kv-lora-rank 16 --qk-head-dim 8 --qk-pos-emb-head-dim 4 "
     "--v-head-dim 8 --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 32 "
     "--moe-layer-freq '([0]*1+[1]*3)' --disable-bias-linear",
     "model.yaml",
     "attention: {kind: mla, q_lora_rank: 0, kv_lora_rank: 16, qk_nope_head_dim: 8, "
     "qk_rope_head_dim: 4, v_head_dim: 8}\nmoe: {experts: 4, experts_per_token: 2, "
     "expert_ffn_hidden: 32, first_dense_layers: 1, renorm: true}",
     NULL},
    {LUO_CONVERT_MEGATRON_ARGS, 1, false, false,
     "x " SIZES "--num-layers 4 --num-experts 4 --moe-layer-freq '([1]*2+[0]*2)'", NULL, NULL,
     "only the first layers"},
    {LUO_CONVERT_TORCHTITAN, 0, false, false,
     "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nbatch_size = 1\n", NULL, NULL,
     "`--devices` is missing"},
    {LUO_CONVERT_TORCHTITAN, 8, false, false, "[model]\nname = \"llama3\"\nflavor = \"9B\"\n", NULL,
     NULL, "8B, 70B or 405B"},
    {LUO_CONVERT_TORCHTITAN, 8, false, false, "[model\nname = 1\n", NULL, NULL, "is not closed"},
    {LUO_CONVERT_TORCHTITAN, 8, true, false,
     "[float8]\nenable_float8_linear = true\n[training]\nseq_len = 128\n", NULL, NULL,
     "`float8.enable_float8_linear` is not supported"},
    {LUO_CONVERT_DEEPSPEED, 16, true, false,
     "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": 4, "
     "\"gradient_accumulation_steps\": 2, \"zero_optimization\": {\"stage\": 3, "
     "\"reduce_bucket_size\": 5e8}}",
     "plan.json", "\"micro_batch_sequences\": 4,\n \"zero\": 3", NULL},
    {LUO_CONVERT_DEEPSPEED, 4, true, false,
     "{\"train_batch_size\": 33, \"train_micro_batch_size_per_gpu\": 4, "
     "\"gradient_accumulation_steps\": 2}",
     NULL, NULL, "`train_batch_size` is 33"},
    {LUO_CONVERT_DEEPSPEED, 4, true, false,
     "{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}}", NULL,
     NULL, "`offload_optimizer` is not supported"},
    {LUO_CONVERT_DEEPSPEED, 4, true, true,
     "{\"train_micro_batch_size_per_gpu\": 1, \"fp16\": {\"enabled\": true}, "
     "\"zero_optimization\": {\"stage\": 2}}",
     "plan.json", "\"zero\": 2", NULL},
    {LUO_CONVERT_DEEPSPEED, 4, false, false, "{}", NULL, NULL, "`--model` is missing"},
    {LUO_CONVERT_CALCULON, 0, true, false, "{\"num_blocks\": 4, \"attn_heads\": 8}", NULL, NULL,
     "`--model` is given"},
    {LUO_CONVERT_CALCULON, 0, true, false,
     "{\"num_procs\": 1, \"tensor_par\": 1, \"pipeline_par\": 1, \"weight_offload\": true}", NULL,
     NULL, "`weight_offload` is not supported"},
    {LUO_CONVERT_CALCULON, 0, false, false,
     "{\"hidden\": 64, \"feedforward\": 256, \"seq_size\": 128, \"attn_heads\": 8, \"attn_size\": "
     "8, \"num_blocks\": 4}",
     "model.yaml", "layers: 4\nhidden: 64\nffn_hidden: 256\nheads: 8\nvocab: 51200", NULL},
    {LUO_CONVERT_CALCULON, 0, true, false,
     "{\"num_procs\": 8, \"tensor_par\": 2, \"pipeline_par\": 2, \"data_par\": 2, \"batch_size\": "
     "16, \"microbatch_size\": 1, \"activation_recompute\": \"attn_only\", "
     "\"pipeline_interleaving\": 2, \"optimizer_sharding\": true, \"tensor_par_comm_type\": "
     "\"rs_ag\", \"weight_offload\": false}",
     "plan.json",
     "\"zero\": 1, \"sequence_parallel\": true, \"schedule\": {\"kind\": "
     "\"interleaved_1f1b\", \"chunks\": 2}",
     NULL},
    {LUO_CONVERT_SIMUMAX, 0, false, false,
     "{\"hidden_size\": 64, \"head_num\": 8, \"kv_head_num\": 8, \"head_size\": 8, "
     "\"intermediate_size\": 96, \"layer_num\": 4, \"expert_num\": 8, \"topk\": 2, "
     "\"vocab_size\": 1024, \"use_swiglu\": true}",
     "model.yaml", "moe: {experts: 8, experts_per_token: 2, expert_ffn_hidden: 96}", NULL},
    {LUO_CONVERT_SIMUMAX, 0, true, false,
     "{\"seq_len\": 128, \"micro_batch_size\": 1, \"micro_batch_num\": 8, \"world_size\": 8, "
     "\"tp_size\": 1, \"pp_size\": 2, \"zero_state\": 1, \"enable_recompute\": true, "
     "\"recompute_granularity\": \"full_block\", \"recompute_layer_num\": 1}",
     "plan.json",
     "{\"layers\": [[0, 2]], \"devices\": [0], \"recompute\": {\"mode\": \"full\", \"layers\": "
     "[[0, 1]]}}",
     NULL},
    {LUO_CONVERT_VTRAIN, 0, false, false,
     "{\"num_gpus\": 8, \"tensor_parallel_size\": 2, \"data_parallel_size\": 2, "
     "\"pipeline_parallel_size\": 2, \"global_batch_size\": 8, \"micro_batch_size\": 1, "
     "\"num_layers\": 4, \"hidden_size\": 64, \"num_attention_heads\": 8, \"max_length\": 128, "
     "\"use_checkpoint\": true, \"inter_node_bandwidth\": 800, \"intra_node_bandwidth\": 150}",
     "plan.json", "\"recompute\": {\"mode\": \"full\"}", NULL},
    {LUO_CONVERT_HOSTLIST, 0, false, false, "gpu-[001-003,7],c[8-9]x[1-2]\nlast", "hostfile",
     "gpu-001\ngpu-002\ngpu-003\ngpu-7\nc8x1\nc8x2\nc9x1\nc9x2\nlast\n", NULL},
    {LUO_CONVERT_HOSTLIST, 0, false, false, "gpu-[3-1]", NULL, NULL,
     "the list of hosts has `[3-1`"},
    {LUO_CONVERT_FAULTS, 0, false, false,
     "[{\"node_id\": \"b\", \"event_time\": 9, \"event_type\": \"fault_start\"}, {\"node_id\": "
     "\"a\", \"event_time\": 3.5, \"event_type\": \"fault_start\", \"fault_type\": {\"Desc\": "
     "\"GPU xid\"}}, {\"node_id\": \"a\", \"event_time\": 8, \"event_type\": \"fault_end\"}]",
     "events.csv", "3.5,fail,node:a,4.5,gpu-xid-1\n9,fail,node:b,,fault-2\n", NULL},
    {LUO_CONVERT_FAULTS, 0, false, false,
     "[{\"node_id\": \"a\", \"event_time\": 1, "
     "\"event_type\": \"over\"}]",
     NULL, NULL, "fault_start or fault_end"},
    {LUO_CONVERT_BAMBOO, 0, false, false,
     "0,add,n1\n0,add,n2\n500,add,n3\n2000,remove,n1\n2500,add,n4\n9000,remove,n9\n", "events.csv",
     "0,leave,device:2,,\n0.5,join,device:2,,\n2,leave,device:0,,\n2.5,join,device:0,,\n", NULL},
    {LUO_CONVERT_GCP, 0, false, false,
     "2021-11-01, 10:00:00, 3\n2021-11-01, 10:01:00, 1\n2021-11-01, 10:02:00, 2\n", "events.csv",
     "60,leave,device:2,,\n60,leave,device:1,,\n120,join,device:1,,\n", NULL},
    {LUO_CONVERT_SKYPILOT, 0, false, false,
     "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [2, 2, 1]}", "events.csv",
     "1200,leave,device:1,,\n", NULL},
    {LUO_CONVERT_SKYPILOT, 0, false, false, "{\"data\": [2]}", NULL, NULL, "`gap_seconds`"},
    {LUO_CONVERT_PAI, 0, false, false,
     "worker,gpu,time,batch_time_norm\n0,25,1,100\n1,25,1,100\n2,25,1,250\n0,25,2,90\n"
     "1,25,2,100\n2,25,2,120\n",
     "rates.csv", "0,1,1\n1,1,1\n2,2.5,1\n0,1,2\n1,1,2\n2,1.2,2\n", NULL},
    {LUO_CONVERT_KINETO, 0, false, false,
     "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"args\": "
     "{\"External id\": 7, \"Input Dims\": [[64, 32], [32, 16]], \"Input type\": "
     "[\"c10::BFloat16\", \"c10::BFloat16\"]}}, {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
     "\"k, of it\", \"dur\": 12.5, \"args\": {\"External id\": 7}}, {\"ph\": \"X\", \"cat\": "
     "\"kernel\", \"name\": \"other, 1\", \"dur\": 3, \"args\": {}}]}",
     "op_times.csv",
     "gemm,bf16,64,16,32,12.5000,1,calibration\n\"other, 1\",bf16,0,0,0,3.0000,1,calibration\n",
     NULL},
    {LUO_CONVERT_KINETO, 0, false, false,
     "{\"traceEvents\": [{\"cat\": \"kernel\", \"name\": \"ncclDevKernel\", \"dur\": 40, \"args\": "
     "{\"Collective name\": \"_allgather_base\", \"In msg nelems\": 1024, \"dtype\": "
     "\"BFloat16\", \"Group size\": 8}}]}",
     "collective_times.csv", "all_gather,bf16,8,1,16384,40.0000,calibration\n", NULL},
};

START_TEST(other)
{
    luo_convert_made made;
    model_file(4);
    const luo_convert_opts opts = {.devices = others[_i].devices,
                                   .model = others[_i].model ? model_path : NULL,
                                   .approximate = others[_i].approximate};
    const luo_status st = convert(others[_i].kind, others[_i].text, opts, &made);
    if (others[_i].error) {
        ck_assert_int_ne(st, LUO_OK);
        ck_assert_msg(strstr(first_error(), others[_i].error) != NULL, "%s", first_error());
        return;
    }
    ck_assert_msg(st == LUO_OK, "%s", first_error());
    ck_assert_msg(strstr(file_of(&made, others[_i].file), others[_i].has) != NULL, "%s",
                  file_of(&made, others[_i].file));
}
END_TEST

START_TEST(counts) /* V-A1 */
{
    luo_convert_made made;
    const luo_convert_opts opts = {.units = "device:[0-7]"};
    ck_assert_int_eq(convert(LUO_CONVERT_SPOT_SAILOR,
                             "[{\"Time\": 0, \"GPUs\": 4}, {\"Time\": 63, \"GPUs\": 4}, {\"Time\": "
                             "126, \"GPUs\": 3}, {\"Time\": 189, \"GPUs\": 5}]",
                             opts, &made),
                     LUO_OK);
    ck_assert(strstr(file_of(&made, "events.csv"),
                     "id\n0,leave,device:7,,\n0,leave,device:6,,\n0,leave,device:5,,\n"
                     "0,leave,device:4,,\n126,leave,device:3,,\n189,join,device:3,,\n"
                     "189,join,device:4,,\n"));
    const luo_convert_opts nodes = {.units = "node:spot"};
    ck_assert_int_eq(convert(LUO_CONVERT_SPOT_SAILOR,
                             "[{\"Time\": 0, \"GPUs\": 2}, {\"Time\": 63, \"GPUs\": 1}]", nodes,
                             &made),
                     LUO_OK);
    ck_assert(strstr(file_of(&made, "events.csv"), "63,leave,node:spot-1,,\n"));
}
END_TEST

#define UNION "\"device_group_union\": [[28, 29, 30, 31], [38]], \"type\": \"variable\"}"
START_TEST(hetu) /* V-D1's weight */
{
    luo_convert_made made;
    model_file(4);
    luo_convert_opts opts = {.model = model_path, .micro_batches = "5,3"};
    const char *text = "{\"zero\": true, \"llama\": {\"blocks\": {\"blocks1\": {\"range\": [0, 3], "
                       "\"recompute\": [true, false], \"rmsnorm1\": {\"split\": {\"0\": [4, 1]}, "
                       "\"dup\": [2, 2], " UNION ", \"attn\": {\"qkv\": {\"split\": {\"1\": [4, "
                       "1]}, \"dup\": [2, 2], " UNION "}}}}}";
    ck_assert_msg(convert(LUO_CONVERT_HETU, text, opts, &made) == LUO_OK, "%s", first_error());
    const luo_plan *plan = plan_of(&made);
    ck_assert_str_eq(devices_of(plan), "28,29,30,31 / 38");
    ck_assert_int_eq(plan->pipelines[0].micro_batches, 5);
    ck_assert_int_eq(plan->pipelines[0].stages[0].recompute, LUO_RECOMPUTE_FULL);
    ck_assert_int_eq(plan->pipelines[1].stages[0].recompute, LUO_RECOMPUTE_NONE);
    opts.micro_batches = NULL;
    model_file(4);
    ck_assert_int_ne(convert(LUO_CONVERT_HETU, text, opts, &made), LUO_OK);
    ck_assert(strstr(first_error(), "`--micro-batches` is missing"));
}
END_TEST

START_TEST(sequences) /* 4096, or what the model takes; or as it is asked for */
{
    luo_convert_made made;
    luo_convert_opts opts = {.model = model_path, .devices = 2};
    model_file(2);
    ck_assert_int_eq(convert(LUO_CONVERT_DEEPSPEED, "{}", opts, &made), LUO_OK);
    ck_assert_int_eq(plan_of(&made)->sequence_tokens, 128);
    opts.sequence_tokens = 64;
    model_file(2);
    ck_assert_int_eq(convert(LUO_CONVERT_DEEPSPEED, "{}", opts, &made), LUO_OK);
    ck_assert_int_eq(plan_of(&made)->sequence_tokens, 64);
}
END_TEST

START_TEST(hetu_one_group) /* V-D2: two replicas in one group */
{
    luo_convert_made made;
    model_file(2);
    const luo_convert_opts opts = {.model = model_path, .micro_batches = "4,4"};
    ck_assert_int_eq(convert(LUO_CONVERT_HETU,
                             "{\"gpt\": {\"blocks\": {\"b\": {\"range\": [0, 1], \"qkv\": "
                             "{\"split\": {\"1\": [2]}, \"dup\": [2], \"device_group_union\": [[0, "
                             "1, 2, 3]], \"type\": \"variable\"}}}}}",
                             opts, &made),
                     LUO_OK);
    ck_assert_str_eq(devices_of(plan_of(&made)), "0,1 / 2,3");
}
END_TEST

#define SAILOR(first, second)                                                                      \
    "{\"pipeline_list\": [{\"layers_per_stage\": [" first "], \"tmp_per_stage\": [" second         \
    "]}], \"mbs\": 2, \"gbs\": 16}"
#define PLACES                                                                                     \
    "[[[[\"A\", 2, \"z\"]], 2], [[[\"B\", 2, \"z\"]], 2]], [[[[\"B\", 2, \"z\"]], 2], [[[\"B\", "  \
    "2, \"z\"]], 2]]"
START_TEST(sailor) /* V-S1, V-S2 in their form */
{
    luo_convert_made made;
    model_file(4);
    luo_convert_opts opts = {.model = model_path};
    ck_assert_int_eq(
        convert(LUO_CONVERT_SAILOR, SAILOR("[0, 1, 2], [3, 4, 5]", PLACES), opts, &made), LUO_OK);
    const luo_plan *plan = plan_of(&made);
    ck_assert_str_eq(layers_of(plan), "0-2 | 2-4");
    ck_assert_str_eq(devices_of(plan), "0,1 2,3 / 4,5 6,7");
    ck_assert_int_eq(plan->pipelines[0].micro_batches, 4);
    opts.repair = true;
    model_file(4);
    ck_assert_int_eq(
        convert(LUO_CONVERT_SAILOR, SAILOR("[0, 1, 2], [3, 3, 5]", PLACES), opts, &made), LUO_OK);
    ck_assert_str_eq(layers_of(plan_of(&made)), "0-2 | 2-4");
    opts.repair = false;
    model_file(4);
    ck_assert_int_ne(
        convert(LUO_CONVERT_SAILOR, SAILOR("[0, 1, 2], [3, 3, 5]", PLACES), opts, &made), LUO_OK);
    ck_assert(strstr(first_error(), "layer index 3 stands twice and 4 is missing"));
}
END_TEST

START_TEST(topology)
{
    luo_convert_made made;
    luo_convert_opts opts = {.profile = "a100-80"};
    const char *matrix = "\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tCPU Affinity\n"
                         "GPU0\t X \tNV4\tPIX\tSYS\tPXB\t0-31\n"
                         "GPU1\tNV4\t X \tSYS\tSYS\tSYS\t32-63\n"
                         "GPU2\tPIX\tSYS\t X \tNV4\tPXB\t0-31\n"
                         "GPU3\tSYS\tSYS\tNV4\t X \tSYS\t32-63\nmlx5_0\tPXB\tSYS\tPXB\tSYS\t X \n";
    ck_assert_int_eq(convert(LUO_CONVERT_TOPO, matrix, opts, &made), LUO_OK);
    ck_assert(strstr(file_of(&made, "cluster.yaml"),
                     "scale_up_links: [{a: 0, b: 1, lanes: 4}, {a: 2, b: 3, lanes: 4}]"));
    ck_assert(strstr(file_of(&made, "cluster.yaml"), "nics: {count: 1,"));
    ck_assert(strstr(file_of(&made, "cluster.yaml"), "sockets: 2,"));
    opts.profile = NULL;
    ck_assert_int_ne(convert(LUO_CONVERT_TOPO, matrix, opts, &made), LUO_OK);
    ck_assert(strstr(first_error(), "`--profile` is missing"));
}
END_TEST

#define GPU(bus, speed, width)                                                                     \
    "<pci busid=\"" bus "\" link_speed=\"" speed "\" link_width=\"" width "\"><gpu dev=\"0\" "     \
    "sm=\"90\"><nvlink target=\"sw\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
START_TEST(nccl_topology) /* V-N1 */
{
    luo_convert_made made;
    const luo_convert_opts opts = {.profile = "h100"};
    ck_assert_int_eq(convert(LUO_CONVERT_NCCL_XML,
                             "<system version=\"1\"><cpu numaid=\"0\">" GPU("a", "32.0 GT/s", "16")
                                 GPU("b", "32.0 GT/s", "16") "<nic><net speed=\"400000\"/></nic>"
                                                             "</cpu></system>",
                             opts, &made),
                     LUO_OK);
    const char *text = file_of(&made, "cluster.yaml");
    ck_assert_msg(strstr(text, "kind: nvswitch, bandwidth_gbytes_per_s: 370.8,") != NULL, "%s",
                  text);
    ck_assert(strstr(text, "pcie: {bandwidth_gbytes_per_s: 48,"));
    ck_assert(strstr(text, "nics: {count: 1, bandwidth_gbytes_per_s: 50,"));
    ck_assert_int_eq(
        convert(LUO_CONVERT_NCCL_XML,
                "<system version=\"1\"><cpu>" GPU("a", "8.0 GT/s PCIe", "8") "</cpu></system>",
                opts, &made),
        LUO_OK);
    ck_assert(strstr(file_of(&made, "cluster.yaml"), "pcie: {bandwidth_gbytes_per_s: 6,"));
    ck_assert_int_ne(convert(LUO_CONVERT_NCCL_XML, "<system><cpu></system>", opts, &made), LUO_OK);
    ck_assert(strstr(first_error(), "no XML that NCCL writes"));
}
END_TEST

LUO_SUITE("io.convert", LUO_T(script), LUO_T(order), LUO_T_N(cut, LUO_ROWS(cuts)), LUO_T(yaml),
          LUO_T(experts), LUO_T(log_with_arguments), LUO_T_N(other, LUO_ROWS(others)),
          LUO_T(counts), LUO_T(sequences), LUO_T(hetu), LUO_T(hetu_one_group), LUO_T(sailor),
          LUO_T(topology), LUO_T(nccl_topology))
