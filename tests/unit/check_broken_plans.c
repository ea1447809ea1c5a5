/* check_broken_plans.c: A9 (docs/architecture/tests.md): plans that cannot work. Each row is a
 * good plan with one or two parts replaced. It must be refused, by reading, luo_plan_check,
 * luo_plan_compile with the program check, or the memory check, with the right status, one sentence
 * and its place; and by a run before its backend opens. */
#include "core/io/document/doc.h"
#include "core/io/read/read.h"
#include "core/plan/compile.h"
#include "core/plan/planners.h"
#include "core/run/driver.h"
#include "tests/check_main.h"

/* tiny-llama: 4 layers, 8 heads, 4 key-value heads, 160 feed-forward columns, 256 vocabulary rows;
 * tiny8: two nodes of four devices with 80 GiB. */
static const char small[] =
    "{\"schema\":\"luoshu.plan/1\",\"name\":\"b\",\n"
    "\"layers\":4,\"devices\":8,\"dtype\":\"f32\",\"sequence_tokens\":16,\n"
    "\"schedule\":{\"kind\":\"1f1b\",\"chunks\":1},\n"
    "\"pipelines\":[\n"
    "{\"micro_batches\":4,\"stages\":[{\"layers\":[[0,2]],\"devices\":[0,1]},\n"
    " {\"layers\":[[2,4]],\"devices\":[2,3]}]},\n"
    "{\"micro_batches\":3,\"stages\":[{\"layers\":[[0,3]],\"devices\":[4,5]},\n"
    " {\"layers\":[[3,4]],\"devices\":[6]}]}]\n"
    "}\n";
/* llama-7b: 6,738,415,616 parameters (V-C1), 12.6 GiB in bf16, 25.1 GiB of f32 gradients, 75.3 GiB
 * of master weights and moments; each of 8 devices has an eighth. */
static const char large[] =
    "{\"schema\":\"luoshu.plan/1\",\"name\":\"big\",\n"
    "\"layers\":32,\"devices\":8,\"sequence_tokens\":4096,\n"
    "\"schedule\":{\"kind\":\"1f1b\"},\n"
    "\"pipelines\":[\n"
    "{\"micro_batches\":8,\"stages\":[{\"layers\":[[0,16]],\"devices\":[0,1,2,3]},\n"
    " {\"layers\":[[16,32]],\"devices\":[4,5,6,7]}]}]\n"
    "}\n";
/* One pipeline of three stages, to which raw annotations are added. */
static const char three[] =
    "{\"schema\":\"luoshu.plan/1\",\n"
    "\"layers\":4,\"devices\":8,\"dtype\":\"f32\",\"sequence_tokens\":16,\n"
    "\"pipelines\":[\n"
    "{\"micro_batches\":4,\"stages\":[{\"layers\":[[0,1]],\"devices\":[0,1]},\n"
    " {\"layers\":[[1,2]],\"devices\":[2,3]},{\"layers\":[[2,4]],\"devices\":[4,5]}]}]\n"
    "}\n";

/* A stage without devices, and two pipelines that run it. */
static const char lost[] =
    "{\"schema\":\"luoshu.plan/1\",\n"
    "\"layers\":4,\"devices\":8,\"dtype\":\"f32\",\"sequence_tokens\":16,\n"
    "\"schedule\":{\"kind\":\"1f1b\"},\n"
    "\"pipelines\":[\n"
    "{\"micro_batches\":4,\"stages\":[{\"layers\":[[0,2]],\"devices\":[0]},\n"
    " {\"layers\":[[2,4]],\"devices\":[],\"reroute\":[{\"pipeline\":1,\"micro_batches\":3},"
    "{\"pipeline\":2,\"micro_batches\":1}]}]},\n"
    "{\"micro_batches\":4,\"stages\":[{\"layers\":[[0,2]],\"devices\":[2]},\n"
    " {\"layers\":[[2,4]],\"devices\":[3]}]},\n"
    "{\"micro_batches\":4,\"stages\":[{\"layers\":[[0,2]],\"devices\":[4]},\n"
    " {\"layers\":[[2,4]],\"devices\":[5]}]}]\n"
    "}\n";

typedef enum finder { READ, CHECK, COMPILE, MEMORY } finder;

#define RAW(tensor, annotation) \
    ",\n\"annotations\":[{\"tensor\":\"" tensor "\",\"annotation\":\"" annotation "\"}]}\n"

static const struct {
    const char *base;
    const char *part[4]; /* from, to, from, to */
    finder by;
    luo_status st;
    int line, col;
    const char *says; /* one of the errors; MEMORY: a part of it */
} rows[] = {
    /* lost stages */
    {lost, {"\"devices\":[],", "\"devices\":[1],"}, CHECK, LUO_EINPUT, 6, 44,
     "stage 1 has devices and `reroute`; `devices` is [] where others run the stage."},
    {lost, {"\"1f1b\"", "\"gpipe\""}, CHECK, LUO_EINPUT, 6, 43,
     "`reroute` does not go with another schedule than 1f1b, zb_h1 and zb_h2; schedule 1f1b, zb_h1 "
     "or zb_h2 and zero 0 or 1 without such are expected."},
    {lost, {"\"layers\":4,", "\"layers\":4,\"zero\":2,"}, CHECK, LUO_EINPUT, 6, 43,
     "`reroute` does not go with zero 2 or 3; schedule 1f1b, zb_h1 or zb_h2 and zero 0 or 1 "
     "without such are expected."},
    {lost, {"\"pipeline\":2", "\"pipeline\":3"}, CHECK, LUO_EINPUT, 6, 89,
     "pipeline 3 does not exist; pipelines are 0 to 2."},
    {lost, {"\"pipeline\":2", "\"pipeline\":1"}, CHECK, LUO_EINPUT, 6, 89,
     "pipeline 1 is named twice; one entry with the sum is expected."},
    {lost, {"\"pipeline\":2", "\"pipeline\":0"}, CHECK, LUO_EINPUT, 6, 89,
     "pipeline 0 cannot run stage 1 of pipeline 0; another pipeline with as many stages, and the "
     "same layers and recompute on this one, is expected."},
    {lost, {"[[0,2]],\"devices\":[4]", "[[0,3]],\"devices\":[4]",
            "[[2,4]],\"devices\":[5]", "[[3,4]],\"devices\":[5]"}, CHECK, LUO_EINPUT, 6, 89,
     "pipeline 2 cannot run stage 1 of pipeline 0; another pipeline with as many stages, and the "
     "same layers and recompute on this one, is expected."},
    {lost, {"\"devices\":[5]", "\"devices\":[],\"reroute\":[{\"pipeline\":1,"
            "\"micro_batches\":4}]"}, CHECK, LUO_EINPUT, 6, 89,
     "stage 1 of pipeline 2 has no devices either; give one that has."},
    {lost, {"\"devices\":[5]", "\"devices\":[5,6]"}, CHECK, LUO_EINPUT, 6, 89,
     "stage 1 of pipelines 1 and 2 has other tensor-parallel groups; peers of one stage have equal "
     "ones."},
    {lost, {"\"micro_batches\":1", "\"micro_batches\":2"}, CHECK, LUO_EINPUT, 6, 43,
     "5 micro-batches are dealt; pipeline 0 has 4."},
    {lost, {"\"reroute\":[{\"pipeline\":1,\"micro_batches\":3},"
            "{\"pipeline\":2,\"micro_batches\":1}]", "\"head\":true"}, READ, LUO_EINPUT, 6, 30,
     "`devices` is empty; at least 1 is expected."},
    /* layers */
    {small, {"[[3,4]]", "[[3,3]]"}, CHECK, LUO_EINPUT, 7, 29,
     "pipeline 1 holds 3 of 4 layers; layer 3 is in no stage."},
    {small, {"[[2,4]]", "[[1,4]]"}, CHECK, LUO_EINPUT, 6, 13,
     "layer 1 of pipeline 0 is held twice; each layer stands in one stage."},
    {small, {"[[0,2]]", "[[2,4]]", "[[2,4]],\"devices\":[2,3]", "[[0,2]],\"devices\":[2,3]"},
     CHECK, LUO_EINPUT, 6, 13,
     "layers [0,2] come after layer 3 of pipeline 0; stages follow the order of the layers."},
    {small, {"[[2,4]]", "[[4,2]]"}, CHECK, LUO_EINPUT, 6, 13,
     "layers [4,2] are no range within 0 to 4; `lo` up to, not including, `hi` is expected."},
    {small, {"[[2,4]]", "[[2,5]]"}, CHECK, LUO_EINPUT, 6, 13,
     "layers [2,5] are no range within 0 to 4; `lo` up to, not including, `hi` is expected."},
    {small, {"\"layers\":4", "\"layers\":5"}, CHECK, LUO_EINPUT, 2, 10,
     "`layers` is 5; model `tiny-llama` has 4."},
    {small, {"[[2,4]]", "[]"}, READ, LUO_EINPUT, 6, 12,
     "`layers` is empty; at least 1 is expected."},
    {small, {"[[2,4]]", "[[2,4],[4,4]]"}, CHECK, LUO_EINPUT, 6, 12,
     "stage 1 has 2 layer ranges; `chunks` 1 asks for as many."},
    /* devices */
    {small, {"\"devices\":[6]", "\"devices\":[3]"}, CHECK, LUO_EINPUT, 8, 31,
     "device 3 is used twice; it already stands in a stage of pipeline 0."},
    {small, {"\"devices\":[2,3]", "\"devices\":[2,2]"}, CHECK, LUO_EINPUT, 6, 33,
     "device 2 is used twice; it already stands in a stage of pipeline 0."},
    {small, {"\"devices\":[6]", "\"devices\":[8]"}, CHECK, LUO_EINPUT, 8, 31,
     "device 8 is not among the 8 devices of the plan; ids are 0 to 7."},
    {small, {"\"devices\":[6]", "\"devices\":[-6]"}, READ, LUO_EINPUT, 8, 31,
     "`-6` in `devices`; a whole number from 0 to 131071 is expected."},
    {small, {"\"devices\":[6]", "\"devices\":[]"}, READ, LUO_EINPUT, 8, 30,
     "`devices` is empty; at least 1 is expected."},
    {small, {"\"devices\":8", "\"devices\":9"}, CHECK, LUO_EINPUT, 2, 22,
     "`devices` is 9; cluster `tiny8` has 8."},
    /* shares: heads, key-value heads, feed-forward, vocabulary, context parallelism */
    {small, {"\"devices\":[4,5]", "\"devices\":[4]", "\"devices\":[6]", "\"devices\":[5,6,7]"},
     CHECK, LUO_EINPUT, 8, 30,
     "tensor parallelism of 3 would cut 8 heads into 2.66667 each; it must give whole heads."},
    {small, {"\"devices\":[2,3]", "\"devices\":[2,3],\"shares\":[7,1]"}, CHECK, LUO_EINPUT, 6, 45,
     "`shares` [7,1] would cut 4 key-value heads into 3.5 and 0.5; shares must give whole heads."},
    {small, {"\"devices\":[2,3]", "\"devices\":[2,3],\"shares\":[3,61]"}, CHECK, LUO_EINPUT, 6, 45,
     "`shares` [3,61] would cut 160 feed-forward columns into 7.5 and 152.5; shares must give "
     "whole columns."},
    {small, {"[[0,2]],\"devices\":[0,1]", "[[0,0]],\"devices\":[0,1],\"shares\":[1021,4]",
             "[[2,4]]", "[[0,4]]"},
     CHECK, LUO_EINPUT, 5, 73,
     "`shares` [1021,4] would cut 256 vocabulary rows into 255.001 and 0.999024; shares must give "
     "whole rows (pad `vocab`)."},
    {small, {"\"devices\":[2,3]", "\"devices\":[2,3],\"shares\":[1,1,2]"}, READ, LUO_EINPUT, 6, 45,
     "`shares` has 3 values; the stage has a tensor-parallel width of 2."},
    {small, {"\"devices\":[2,3]", "\"devices\":[2,3],\"shares\":[2,0]"}, READ, LUO_EINPUT, 6, 48,
     "`0` in `shares`; a whole number above 0 is expected."},
    {small, {"\"devices\":[2,3]", "\"devices\":[2,3],\"context_parallel\":3,\"shares\":[2],"
                                    "\"context_shares\":[1]"}, CHECK, LUO_EINPUT,
     6, 55, "`context_parallel` is 3; it must divide the 2 devices of the stage."},
    {small, {"\"devices\":[2,3]", "\"devices\":[2,3],\"context_parallel\":2"}, CHECK, LUO_EINPUT,
     6, 2, "stage 1 cuts sequences otherwise than stage 0 of pipeline 0; context parallelism is "
           "alike in all stages of a pipeline."},
    {small, {"\"devices\":[4,5]", "\"devices\":[4,5],\"context_kind\":\"ring\""}, CHECK,
     LUO_EINPUT, 7, 79,
     "`context_kind` means nothing with `context_parallel` 1; leave it out."},
    {small, {"\"devices\":[6]",
             "\"devices\":[6,7],\"context_parallel\":2,\"context_inner\":2"},
     CHECK, LUO_EINPUT, 8, 73,
     "`context_inner` is given, but `context_kind` is `auto`; only `2d` has it."},
    {small, {"\"devices\":[6]",
             "\"devices\":[6,7],\"context_parallel\":2,\"context_kind\":\"2d\""},
     CHECK, LUO_EINPUT, 8, 72,
     "`context_kind` `2d` with `context_inner` 0; a divisor of `context_parallel` 2 between 1 and "
     "it is expected."},
    {small, {"\"devices\":[6]", "\"devices\":[6,7],\"context_parallel\":2,"
             "\"context_shares\":[63,2]"}, CHECK, LUO_EINPUT, 8, 74,
     "sequences are cut into 65 shares; up to 64 are expected."},
    {small, {"\"devices\":[6]", "\"devices\":[6,7],\"context_parallel\":2,"
             "\"context_shares\":[1,2,3]"}, READ, LUO_EINPUT, 8, 74,
     "`context_shares` has 3 values; the stage has a context-parallel width of 2."},
    {large, {"[[0,16]],\"devices\":[0,1,2,3]", "[[0,16]],\"devices\":[0,1,2,3],\"shares\":[31,1],"
             "\"context_parallel\":2,\"context_kind\":\"a2a\""}, CHECK, LUO_EINPUT, 5, 121,
     "`context_parallel` 2: a2a needs 2 query heads a tensor rank, not 1; use ring."},
    {large, {"[[0,16]],\"devices\":[0,1,2,3]", "[[0,16]],\"devices\":[0,1,2,3],\"shares\":[62,2],"
             "\"context_parallel\":2,\"context_kind\":\"a2a\""}, CHECK, LUO_EINPUT, 5, 121,
     "`context_parallel` 2: a2a needs 2 query heads a tensor rank, not 1; use ring."},
    /* micro-batches, schedule, chunks */
    {small, {"\"micro_batches\":4", "\"micro_batches\":0"}, READ, LUO_EINPUT, 5, 18,
     "`micro_batches` is `0`; a whole number above 0 is expected."},
    {small, {"\"micro_batches\":4", "\"micro_batches\":4294967297"}, READ, LUO_EINPUT, 5, 18,
     "`micro_batches` is `4294967297`; a whole number from 1 to 1073741824 is expected."},
    {small, {"\"micro_batches\":4", "\"micro_batches\":4,\"micro_batch_tokens\":[16,16,16]"}, READ,
     LUO_EINPUT, 5, 41, "`micro_batch_tokens` has 3 values; the pipeline has 4 micro-batches."},
    {small, {"\"kind\":\"1f1b\"", "\"kind\":\"interleaved_1f1b\""}, CHECK, LUO_EINPUT, 7, 18,
     "interleaved schedule: 3 micro-batches are not a multiple of 2 stages; choose a multiple."},
    {small, {"\"1f1b\",\"chunks\":1", "\"gpipe\",\"chunks\":2"}, CHECK, LUO_EINPUT, 3, 37,
     "`chunks` is 2 with schedule `gpipe`; more than 1 needs `interleaved_1f1b`."},
    {small, {"\"1f1b\",\"chunks\":1", "\"interleaved_1f1b\",\"chunks\":2", "[[0,2]]",
             "[[0,1],[1,2]]"},
     CHECK, LUO_EINPUT, 6, 12, "stage 1 has 1 layer ranges; `chunks` 2 asks for as many."},
    {small, {"\"1f1b\",\"chunks\":1", "\"interleaved_1f1b\",\"chunks\":2", "[[0,2]]",
             "[[0,1],[2,3]]"},
     CHECK, LUO_EINPUT, 5, 47,
     "layer 2 of pipeline 0 is held twice; each layer stands in one stage."},
    /* embedding, head, experts, recompute, state */
    {small, {"\"devices\":[0,1]", "\"devices\":[0,1],\"embedding\":true", "\"devices\":[2,3]",
             "\"devices\":[2,3],\"embedding\":true"}, CHECK, LUO_EINPUT, 5, 29,
     "pipeline 0 has 2 stages with `embedding`; exactly one is expected."},
    {small, {"\"devices\":[0,1]", "\"devices\":[0,1],\"head\":true", "\"devices\":[2,3]",
             "\"devices\":[2,3],\"head\":true"}, CHECK, LUO_EINPUT, 5, 29,
     "pipeline 0 has 2 stages with `head`; exactly one is expected."},
    {small, {"\"devices\":[0,1]", "\"devices\":[0,1],\"head\":true"}, CHECK, LUO_EINPUT, 5, 71,
     "stage 0 has the head, but a stage after it holds layers; the head comes last."},
    {small, {"\"devices\":[6]", "\"devices\":[6],\"head\":false"}, CHECK, LUO_EINPUT, 7, 29,
     "pipeline 1 has 0 stages with `head`; exactly one is expected."},
    {small, {"\"devices\":[2,3]", "\"devices\":[2,3],\"experts\":\"expert\""}, CHECK, LUO_EINPUT,
     6, 46, "`experts` is `expert`, but model `tiny-llama` has no experts; leave it out."},
    {small, {"\n}\n", ",\n\"expert_groups\":[[0],[1]]}\n"}, CHECK, LUO_EINPUT, 9, 17,
     "`expert_groups` are given, but model `tiny-llama` has no experts; leave them out."},
    {small, {"\"devices\":[2,3]",
             "\"devices\":[2,3],\"recompute\":{\"mode\":\"full\",\"layers\":[[0,1]]}"},
     CHECK, LUO_EINPUT, 6, 73,
     "recompute of layers [0,1] is not within the layers of stage 1; give ranges of this stage, or "
     "none for all of it."},
    {small, {"\"devices\":8",
             "\"devices\":8,\"zero\":3,\"shard\":\"hybrid\",\"shard_pipelines\":3"}, COMPILE,
     LUO_EINPUT, 2, 68, "shard_pipelines 3 does not divide 2."},
    {small, {"\"devices\":8",
             "\"devices\":8,\"zero\":3,\"shard\":\"hybrid\",\"shard_pipelines\":2"}, COMPILE,
     LUO_EINPUT, 2, 31,
     "zero 3: pipelines 0 and 1 run 4 and 3 micro-batches; give equally many or zero 1."},
    {small, {"\"devices\":8", "\"devices\":8,\"zero\":2"}, COMPILE, LUO_EINPUT, 2, 31,
     "zero 2: pipelines 0 and 1 run 4 and 3 micro-batches; give equally many or zero 1."},
    {small, {"\n}\n", ",\n\"state_layout\":{\"data\":2,\"tensor\":2,\"pipeline\":2,"
                      "\"devices\":[0,1,2,3,4,5,6]}}\n"}, CHECK, LUO_EINPUT, 9, 16,
     "state layout 2 x 2 x 2 needs 8 devices; 7 are listed."},
    /* numbers that are negative, too large or no numbers; files that are none */
    {small, {"\"sequence_tokens\":16", "\"sequence_tokens\":-16"}, READ, LUO_EINPUT, 2, 56,
     "`sequence_tokens` is `-16`; a whole number above 0 is expected."},
    {small, {"\"sequence_tokens\":16", "\"sequence_tokens\":9223372036854775807"}, READ,
     LUO_EINPUT, 2, 56, "`sequence_tokens` is `9223372036854775807`; a whole number from 1 to "
                        "1000000000 is expected."},
    {small, {"\"sequence_tokens\":16", "\"sequence_tokens\":99999999999999999999"}, READ,
     LUO_EINPUT, 2, 56, "`sequence_tokens` is `99999999999999999999`; a whole number from 1 to "
                        "1000000000 is expected."},
    {small, {"\"sequence_tokens\":16", "\"sequence_tokens\":16.5"}, READ, LUO_EINPUT, 2, 56,
     "`sequence_tokens` is `16.5`; a whole number above 0 is expected."},
    {small, {"\"sequence_tokens\":16", "\"sequence_tokens\":129"}, CHECK, LUO_EINPUT, 2, 56,
     "`sequence_tokens` is 129; model `tiny-llama` takes up to 128."},
    {large, {"\"devices\":8", "\"devices\":8,\"micro_batch_sequences\":16777216"}, CHECK,
     LUO_EINPUT, 4, 13, "a step of 549755813888 tokens is too large; up to 10000000000 are taken."},
    {small, {"\n}\n", ",\n\"assignment\":[{\"sequence\":0,\"length_tokens\":10000000000,"
                      "\"pipeline\":0,\"micro_batch\":0},{\"sequence\":1,\"length_tokens\":1,"
                      "\"pipeline\":0,\"micro_batch\":0}]}\n"}, CHECK, LUO_EINPUT, 9, 14,
     "`assignment` has more than 10000000000 tokens in a step; fewer are taken."},
    {small, {"\n}\n", ",\n\"assignment\":[{\"sequence\":0,\"length_tokens\":17,\"pipeline\":0,"
                      "\"micro_batch\":0}]}\n", "\"micro_batches\":4",
             "\"micro_batches\":4,\"micro_batch_tokens\":[16,16,16,16]"}, CHECK, LUO_EINPUT, 5, 42,
     "micro-batch 0 of pipeline 0 has 16 tokens, but `assignment` gives it 17; at least as many "
     "are needed."},
    {small, {"]}]}]\n}", "]}]}]"}, READ, LUO_EPARSE, 9, 1,
     "`}` expected near end of file; one JSON document is expected."},
    {small, {"\"layers\":4", "\"layers\":4,\"layers\":4"}, READ, LUO_EPARSE, 2, 12,
     "`layers` is given twice, first at line 2; each key is given once."},
    {small, {"\"devices\":[2,3]", "\"device\":[2,3]"}, READ, LUO_EINPUT, 6, 20,
     "unknown key `device`; did you mean `devices`?"},
    /* raw annotations */
    {small, {"\n}\n", RAW("wte.weight", "[0,1]{0:2")}, CHECK, LUO_EINPUT, 9, 52,
     "annotation, column 10: expected '}', found the end"},
    {small, {"\n}\n", RAW("wte.weight", "h=-1 [0,1]{0:2} | [4,8]{0:2}")}, CHECK, LUO_EINPUT, 9, 52,
     "device 8 is not among the 8 devices of the plan; ids are 0 to 7."},
    {small, {"\n}\n", RAW("wte.weight", "h=-1 [0,1]{0:2} | [4,7]{0:2}")}, COMPILE, LUO_EDEDUCE,
     9, 16, "op 'wte': D_DEVICES: device 5 of subgroup 1 is in 'ids' but not in 'wte.weight'; "
            "insert a Reshard"},
    {small, {"\n}\n", RAW("wte.weight", "[0,1]{0:2}")}, COMPILE, LUO_EDEDUCE, 9, 16,
     "op 'wte': D_UNION: 'ids' has 2 subgroups but 'wte.weight' has 1; insert a Reshard"},
    {small, {"\n}\n", RAW("layers.0.mlp.up.weight", "h=-1 [0,1]{1:2} | [4,5]{1:2}")}, COMPILE,
     LUO_EDEDUCE, 9, 16,
     "op 'layers.0.mlp.gate_up': D_CUT: letter h is cut 1 by 'layers.0.mlp.gather' but 2 by "
     "'layers.0.mlp.up.weight' on device 0; insert a Reshard"},
    {small, {"\n}\n", RAW("layers.0.attn.q.weight", "h=-1 [0,1]{-1:2} | [4,5]{-1:2}")}, COMPILE,
     LUO_EDEDUCE, 9, 16,
     "op 'layers.0.attn.core': D_UNCUT: dimension 1 of 'layers.0.attn.k.rope' is cut; insert a "
     "Reshard that gathers the heads"},
    {small, {"\n}\n", RAW("layers.1.norm1.weight", "h=-1 [0,1]{3:2} | [4,5]{-1:2}")}, COMPILE,
     LUO_EINPUT, 9, 16, "tensor 'layers.1.norm1.weight': key 3, but it has 1 dimensions"},
    {small, {"\n}\n", RAW("layers.0.attn.q", "h=0 [0,1]{0:2} | [4,5]{0:2}")}, COMPILE, LUO_EDEDUCE,
     9, 16, "op `layers.0.attn.qkv`: `layers.0.attn.q` is deduced as h=0 [0,1]{1:2} | [4,5]{1:2}, "
            "the plan says h=0 [0,1]{0:2} | [4,5]{0:2}."},
    {small, {"\n}\n", RAW("layers.9.attn.q", "h=0 [0,1]{0:2} | [4,5]{0:2}")}, COMPILE, LUO_EINPUT,
     9, 16, "the plan annotates `layers.9.attn.q`, but no tensor is called so; `luoshu explain` "
            "lists them."},
    {small, {"\n}\n", RAW("layers.0.mlp.up\",\"at\":\"nowhere", "[0]{}")}, COMPILE, LUO_EINPUT, 9,
     16, "annotation of `layers.0.mlp.up`: no operation is called `nowhere`; `luoshu explain` "
         "lists them."},
    {small, {"\n}\n", RAW("layers.0.mlp.up.weight\",\"variant\":\"2d",
                          "h=-1 [0,1]{0:2} | [4,5]{0:2}")}, COMPILE, LUO_EINPUT, 9, 16,
     "annotation of `layers.0.mlp.up.weight`: variant `2d` is not compiled; use `auto`."},
    {small, {"\n}\n", RAW("layers.1.norm1.weight.state", "h=-1 [0,1]{-1:2} | [4,7]{-1:2}")},
     COMPILE, LUO_EINPUT, 9, 16,
     "device 7 of `layers.1.norm1.weight` is in no stage; name devices of the plan's stages."},
    {small, {"\n}\n", RAW("loss.all", "h=-1 [2,3]{-1:2} | [7]{}")}, COMPILE, LUO_EINPUT, 9, 16,
     "reshard 'loss.all': h=-2 [2,3]{-1:2} | [6]{} -> h=-1 [2,3]{-1:2} | [7]{} is not supported "
     "(PARTIAL_TIER: the summands would cross from one tier to the other); reduce to the source "
     "layout first, then move, or pass --reduce-then-move"},
    /* memory */
    {large, {"[[0,16]],\"devices\":[0,1,2,3]", "[[0,32]],\"devices\":[0]",
             ",\n {\"layers\":[[16,32]],\"devices\":[4,5,6,7]}", ""}, MEMORY, LUO_EOOM, 0, 0,
     " on device 0 (a-0/0) of 80.0 GiB less 1.9 GiB reserved (weights 12.6, gradients 25.1, "
     "optimizer 75.3, "},
    {large, {"1f1b", "gpipe", "\"micro_batches\":8", "\"micro_batches\":64"}, MEMORY, LUO_EOOM, 0,
     0, " on device 4 (a-1/0) of 80.0 GiB less 1.9 GiB reserved (weights 1.6, gradients 3.1, "
        "optimizer 9.4, "},
    {large, {"\"devices\":8", "\"devices\":8,\"micro_batch_sequences\":32"}, MEMORY, LUO_EOOM, 0, 0,
     "try more stages or `recompute`."},
    {small, {"\"devices\":8", "\"devices\":8,\"micro_batch_sequences\":16777216"}, MEMORY, LUO_EOOM,
     0, 0, "(weights 0.0, gradients 0.0, optimizer 0.0, "},
};

/* Raw annotations for all tensors of one layer of `three`. */
static const struct {
    int layer;
    const char *devices, *says;
} layers[] = {
    {2, "[0,1]", "pipeline 0: device sets come back in an order that is not interleaved; give "
                 "every chunk the stages in the same order."},
    {1, "[0,2]", "device 0 is in stages 0 and 1 of pipeline 0; a device belongs to one stage."},
    {0, "[1,2]", "device 1 is in stages 0 and 1 of pipeline 0; a device belongs to one stage."},
};

static luo_arena *arena;
static luo_diags diags;
static luo_model *tiny, *seven;
static luo_cluster *cluster, *one_down;

static void setup(void)
{
    luo_source src;
    luo_err err;
    arena = luo_arena_new(0);
    luo_diags_init(&diags, arena);
    luo_read_model(arena, "scenarios/models/tiny-llama.yaml", &tiny, &diags);
    luo_read_model(arena, "scenarios/models/llama-7b.yaml", &seven, &diags);
    luo_read_cluster(arena, "scenarios/clusters/tiny8.yaml", &cluster, &diags);
    ck_assert_int_eq(luo_source_read(arena, "scenarios/clusters/tiny8.yaml", &src, &err), LUO_OK);
    src.text = luo_arena_printf(arena, "%shealth: [{target: \"device:5\", state: down}]\n",
                                src.text);
    src.len = strlen(src.text);
    luo_read_cluster_text(arena, &src, NULL, &one_down, &diags);
    ck_assert_int_eq(diags.n_errors, 0);
}

static const char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at && !strstr(at + 1, from), "`%s` must occur once", from);
    return luo_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

/* ---- the way of a plan up to the backend ---- */

static luo_status memory(const luo_plan *p, const luo_cluster *c, const luo_programs *set,
                         luo_err *err)
{
    luo_memory *m = LUO_NEW_N(arena, luo_memory, set->n);
    double ratio;
    int32_t device;
    LUO_TRY(luo_plan_memory(arena, set, m, err));
    return luo_plan_fits(p, c, set, m, &ratio, &device, err);
}

static luo_status way(const luo_source *src, const luo_model *m, const luo_cluster *c,
                      luo_plan **plan, finder *by)
{
    const luo_compile_opts opts = {.check = true};
    luo_plan_finding *f;
    luo_programs *set;
    luo_err err = {0};
    int32_t n;
    *plan = NULL;
    *by = READ;
    luo_doc doc = {.arena = arena, .src = src, .diags = &diags};
    LUO_TRY(luo_read_plan_doc(&doc, plan));
    *by = CHECK;
    luo_status st = luo_plan_check(arena, *plan, m, c, &f, &n);
    luo_doc_report_plan(&doc, f, n, &diags);
    if (st != LUO_OK) return st;
    *by = COMPILE;
    st = luo_plan_compile(arena, *plan, m, c, &opts, &set, &err);
    if (st != LUO_OK) return luo_doc_report_err(&doc, &err, &diags);
    *by = MEMORY;
    st = memory(*plan, c, set, &err);
    return st == LUO_OK ? st : luo_diags_err(&diags, &err);
}

/* ---- a run ends before its backend opens ---- */

static int opened;

static luo_status count_open(const luo_backend_config *config, luo_backend_state **out,
                             luo_err *err)
{
    (void)config;
    (void)out;
    opened++;
    return luo_err_set(err, LUO_EBACKEND, "opened.");
}

static luo_status run(const luo_plan *p, const luo_model *m, const luo_cluster *c)
{
    static const luo_backend backend = {.name = "none", .open = count_open};
    static const luo_sink sink = {0};
    luo_policy_spec spec;
    luo_err err;
    luo_read_policy_defaults(&spec, "static");
    luo_scenario sc = {.name = "s", .cluster = c, .model = m, .plan = p, .steps = 1,
                       .npolicies = 1, .policies = &spec};
    const luo_run_opts opts = {.backend = &backend};
    luo_stack_default(&sc.stack);
    opened = 0;
    return luo_run_policy(&sc, 0, &opts, &sink, &err);
}

/* One line that says what is wrong and what would be right. */
static void check_sentence(const char *text)
{
    const size_t n = strlen(text);
    ck_assert_msg(n > 10 && n < 400 && !strchr(text, '\n'), "%s", text);
    ck_assert_msg(text[n - 1] == '.' || text[n - 1] == '?' || strchr(text, ':'), "%s", text);
    ck_assert_msg(!strstr(text, "nan") && !strstr(text, "-2147483648"), "%s", text);
}

static void refuse(const luo_source *src, const luo_model *m, const luo_cluster *c, finder by,
                   luo_status st, int line, int col, const char *says)
{
    luo_plan *p;
    finder found;
    const luo_status got = way(src, m, c, &p, &found);
    ck_assert_msg(got != LUO_OK, "accepted, but expected: %s", says);
    const luo_diag *d = diags.first;
    for (; d; d = d->next) {
        check_sentence(d->err.text);
        const char *text = d->err.text;
        if (by == MEMORY ? strstr(text, says) != NULL : strcmp(text, says) == 0) break;
    }
    ck_assert_msg(d != NULL, "first of %d: %d:%d %s\nexpected: %s", diags.n_errors,
                  diags.first->err.line, diags.first->err.col, diags.first->err.text, says);
    const luo_err *e = &d->err;
    ck_assert_msg(got == st && found == by, "%s by %d: %s", luo_status_name(got), found, e->text);
    ck_assert_int_eq(luo_status_exit(got), by == MEMORY ? 5 : 3);
    ck_assert_msg(e->line == line && e->col == col, "%d:%d: %s", e->line, e->col, e->text);
    if (!p) return;
    ck_assert_int_eq(luo_status_exit(run(p, m, c)), luo_status_exit(st));
    ck_assert_int_eq(opened, 0);
}

START_TEST(broken)
{
    setup();
    const char *text = replaced(rows[_i].base, rows[_i].part[0], rows[_i].part[1]);
    if (rows[_i].part[2]) text = replaced(text, rows[_i].part[2], rows[_i].part[3]);
    const luo_source src = {"p.json", text, strlen(text)};
    refuse(&src, rows[_i].base == large ? seven : tiny, cluster, rows[_i].by, rows[_i].st,
           rows[_i].line, rows[_i].col, rows[_i].says);
    luo_arena_free(arena);
}
END_TEST

START_TEST(device_down)
{
    setup();
    const luo_source src = {"p.json", small, sizeof small - 1};
    refuse(&src, tiny, one_down, CHECK, LUO_EINPUT, 7, 61,
           "device 5 is down in cluster `tiny8`; leave it out.");
    luo_arena_free(arena);
}
END_TEST

START_TEST(layer_elsewhere)
{
    static const char *const tensors[] = {
        "in{-1:2}", "norm1.weight{-1:2}", "attn.gather{-1:2}", "attn.q.weight{0:2}",
        "attn.k.weight{0:2}", "attn.v.weight{0:2}", "attn.out.weight{0:2}", "attn.reduce{-1:2}",
        "norm2.weight{-1:2}", "mlp.gather{-1:2}", "mlp.gate.weight{0:2}", "mlp.up.weight{0:2}",
        "mlp.down.weight{0:2}", "mlp.reduce{-1:2}"};
    setup();
    luo_str s = {0};
    luo_str_add(&s, "]}]}],\n\"annotations\":[");
    for (int i = 0; i < LUO_ROWS(tensors); i++) {
        const char *form = strchr(tensors[i], '{');
        luo_str_addf(&s, "%s{\"tensor\":\"layers.%d.%.*s\",\"annotation\":\"%s%s\"}", i ? "," : "",
                     layers[_i].layer, (int)(form - tensors[i]), tensors[i], layers[_i].devices,
                     form);
    }
    luo_str_add(&s, "]\n}\n");
    const char *text = replaced(three, "]}]}]\n}\n", luo_str_get(&s));
    const luo_source src = {"p.json", text, strlen(text)};
    refuse(&src, tiny, cluster, COMPILE, LUO_EINPUT, 6, 15, layers[_i].says);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

/* The plans that the rows are made from are good, and a run of one does open its backend. */
START_TEST(unbroken)
{
    const char *const good[] = {small, large, three, lost};
    setup();
    const luo_source src = {"p.json", good[_i], strlen(good[_i])};
    luo_plan *p;
    finder by;
    ck_assert_msg(way(&src, _i == 1 ? seven : tiny, cluster, &p, &by) == LUO_OK, "%s",
                  diags.first ? diags.first->err.text : "?");
    ck_assert_int_eq(run(p, _i == 1 ? seven : tiny, cluster), LUO_EBACKEND);
    ck_assert_int_eq(opened, 1);
    luo_arena_free(arena);
}
END_TEST

static luo_status fits_with(const luo_plan *p, double communicator_bytes, luo_err *err)
{
    const luo_compile_opts opts = {.memory.communicator_bytes = communicator_bytes};
    luo_programs *set;
    LUO_TRY(luo_plan_compile(arena, p, seven, cluster, &opts, &set, err));
    return memory(p, cluster, set, err);
}

/* Each device of `large` is in 4: of its stage, of all, and a lane each of sends and receives. */
START_TEST(communicators_of_a_plan)
{
    setup();
    const luo_source src = {"p.json", large, sizeof large - 1};
    const double gib = 1073741824.0;
    luo_plan *p;
    finder by;
    luo_err err = {0};
    ck_assert_int_eq(way(&src, seven, cluster, &p, &by), LUO_OK);
    ck_assert_int_eq(fits_with(p, 0, &err), LUO_OK);
    ck_assert_int_eq(fits_with(p, gib, &err), LUO_OK);
    ck_assert_int_eq(fits_with(p, 19 * gib, &err), LUO_EOOM);
    ck_assert_msg(strstr(err.text, " of 80.0 GiB less 1.9 GiB reserved (weights 1.6, gradients "
                                   "3.1, optimizer 9.4, activations ") &&
                      strstr(err.text, ", communicators 76.0); try fewer groups of devices."),
                  "%s", err.text);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("plan.broken", LUO_T(communicators_of_a_plan), LUO_T_N(unbroken, 4),
          LUO_T_N(broken, LUO_ROWS(rows)), LUO_T(device_down),
          LUO_T_N(layer_elsewhere, LUO_ROWS(layers)))
