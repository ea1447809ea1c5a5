/* memory.h: closed forms of device memory (docs/cost-model.md#memory), for planners and `validate`.
 * What a program needs is decided by its buffers (luo_program_memory), and how many micro-batches
 * a stage holds by the schedule (luo_sched_kept), not here. */
#ifndef LUO_CORE_COST_STEP_MEMORY_H
#define LUO_CORE_COST_STEP_MEMORY_H
#include "core/graph/specialize/bucket.h"
#include "core/graph/context.h"
#include "core/graph/program/memory_rules.h"
#include "core/graph/schedule/sched.h"

/* One device of stage `stage` of `stages`. Notation: t tensor parallel, D replicas. */
typedef struct luo_mem_spec {
    const luo_model *model;
    double layers;            /* of the stage, all its chunks */
    double recompute_layers;  /* of these, with `recompute`; < 0: all */
    double dense_layers;      /* of a model with experts: layers without, of these; < 0: as many as
                                 of an average stage */
    int32_t experts_among;    /* devices that have all experts together, each some whole ones; 0:
                                 experts are cut over t */
    int recompute;            /* 0 none, 1 selective, 2 full (luo_recompute of core/plan) */
    int64_t micro_batch_tokens, sequence_tokens;
    luo_context context; /* c 0 or 1: none; tokens are of all ranks, equal shares */
    int32_t tp, stage, stages, chunks, micro_batches, replicas, zero;
    luo_bucketing bucket; /* zero 2: what is cut together, as luo_bucketing_of gives it */
    int32_t gathered; /* zero 3: layers that are whole at once, prefetch depth + 1; 0: 2 */
    luo_sched_kind schedule;
    bool embedding, head, sequence_parallel, attention_fused;
    const luo_memory_rules *rules; /* of the stack; NULL: the published formulas as they are */
    double gradient_bytes; /* per parameter; 0: 4 */
    double buffer_bytes;   /* communication buffers: bucket cap * bytes */
    double factor;         /* 0: the allocator's of the rules, 1.05 without rules */
    double reserved_bytes;
} luo_mem_spec;

typedef struct luo_mem { /* bytes, rounded up; peak = ceil(allocated * factor + communicators +
                            reserved) */
    int64_t weights, gradients, optimizer, activations, buffers, peak;
    int64_t allocated; /* sum of the parts, and what the framework holds */
    int64_t needed;    /* peak with the headroom of the rules, to be called fitting */
} luo_mem;

/* State of `parameters` local parameters, of which a device has one part of `replicas`.
 * weight_bytes 2 (bf16) or 4: master copy and two moments are 12, or 8 when the weights are f32;
 * f64: 16. */
void luo_mem_state(double parameters, int64_t weight_bytes, double gradient_bytes, int32_t zero,
                   double replicas, luo_mem *out);
/* Parameters of one layer on one device of t: products, biases and norms, all over t but for the
 * router, which every device has. layer tells dense from expert layers. */
double luo_mem_layer_parameters(const luo_model *model, int64_t layer, int32_t tp);
/* Matrices of attention, and norms of latent vectors, on one of tp devices, which do not cut what
 * makes latent vectors. */
double luo_mem_attention_parameters(const luo_model *model, int32_t tp);
/* Vocabulary padded to a multiple of 128*t; classes of a vit as they are. */
int64_t luo_mem_vocab(const luo_model *model, int32_t tp);
/* Activations that one layer keeps for one micro-batch, bytes; of a model with experts, one that
 * has them. recompute as above. */
double luo_mem_layer_activations(const luo_mem_spec *spec, int recompute);
/* Communicators of a device of the stage in programs of equal pipelines
 * (luo_program_communicators): groups of tensor and context parallelism, of copies and of all
 * devices, and lanes of messages between stages. With context parallelism or dealt experts a bound,
 * up to 8 above, else exact (tests/unit/check_memory.c). Pre: that of luo_mem_stage. */
int32_t luo_mem_communicators(const luo_mem_spec *spec);
/* All of it (8.1 to 8.5). With rules it is what the same plan's program needs under them (held
 * together by tests/unit/check_memory.c): no dropout unless they say so, the last norm, what
 * backward of one layer works on, and gradients of the logits beside that of the head. With context
 * parallelism: of a rank's tokens, state over replicas*c copies, what goes round or is exchanged
 * (docs/architecture/context.md#the-rest-of-the-step). Pre: model
 * is no vgg; tp, stages, chunks, replicas >= 1. */
void luo_mem_stage(const luo_mem_spec *spec, luo_mem *out);
#endif
