/* graph.h: the logical graph of a model: tensors, operations, their annotations.
 *
 * Letters name dimensions and mean the same in every tensor of a graph: t tokens of a micro-batch,
 * h hidden, n query heads, g key-value heads, d head size, f feed-forward, v vocabulary, p
 * positions; with experts e experts, k choices of a token, w width of an expert, s of the shared
 * ones, o the one logit of their gate, r rows of an expert, z devices that send rows; with latent
 * attention q and c the latent vectors of queries and of keys and values, i elements of a head
 * without positions, b those with them (d is both), u those of a value. An operation is the einsum
 * of its tensors' letters unless its kind says otherwise. The sizes of t and r are bound per micro-
 * batch; every other is fixed.
 */
#ifndef LUO_CORE_GRAPH_GRAPH_H
#define LUO_CORE_GRAPH_GRAPH_H
#include "core/graph/annset.h"
#include "core/graph/context.h"
#include "core/graph/moe/gate.h"
#include "core/graph/op.h"
#include "core/graph/program/program.h"

typedef enum luo_tensor_kind {
    LUO_TENSOR_DATA,  /* placeholder */
    LUO_TENSOR_STATE, /* what the optimizer keeps; 12 bytes an element in mixed precision */
    LUO_TENSOR_SHARD, /* piece of the working copy that arrives from a state kept elsewhere */
    LUO_TENSOR_PARAM, /* working copy, made in Pre */
    LUO_TENSOR_GRAD,  /* running sum over the micro-batches */
    LUO_TENSOR_FULL,  /* ZeRO-3: a parameter gathered from its pieces for one task */
    LUO_TENSOR_VALUE
} luo_tensor_kind;

/* What a plan gives to the output of a Leaf or a Reshard
 * (docs/annotations.md#from-a-plan-to-annotations), at a place: block number, LUO_PLACE_EMBEDDING
 * or LUO_PLACE_HEAD. */
typedef enum luo_form {
    LUO_FORM_NONE,
    LUO_FORM_X,      /* activations between operations: {0:t} with sequence parallelism */
    LUO_FORM_WHOLE,  /* {-1:t}, members cut the tokens */
    LUO_FORM_CUT,    /* weight {0:t} */
    LUO_FORM_ENDS,   /* the same of embedding and head, which have copies of it */
    LUO_FORM_DUP,    /* weight {-1:t} */
    LUO_FORM_STATE,  /* state of the parameter that the next operation makes */
    LUO_FORM_SHARD,  /* the ZeRO cut of it */
    LUO_FORM_SCALAR, /* complete scalar on the place's devices */
    LUO_FORM_ALL,    /* complete scalar on all devices; the operand is one summand a device */
    /* Of experts, dealt among the devices of a member or cut (core/plan/experts.c): */
    LUO_FORM_ROUTED,    /* tokens of which every device sends its own to the experts */
    LUO_FORM_COUNTS,    /* rows that every device sends to the experts here */
    LUO_FORM_ROWS,      /* rows where their experts are */
    LUO_FORM_ROWS_HOME, /* rows where their tokens are */
    LUO_FORM_EXPERTS,   /* weights of experts */
    LUO_FORM_LOAD,      /* how often experts were chosen, by the tokens of a pipeline */
    /* Of attention under context parallelism (core/plan/context.c): */
    LUO_FORM_HEADS,  /* queries: heads cut among the ranks of a part, tokens whole there */
    LUO_FORM_KEYS,   /* keys and values on their way there */
    LUO_FORM_COPIES, /* keys and values there: what the queries of each rank read */
    LUO_FORM_HOME,   /* results: tokens cut, heads cut by tensor parallelism */
    LUO_FORM_RING,   /* + j: COPIES after j hops round the ring */
    LUO_FORMS = LUO_FORM_RING + LUO_CONTEXT_SHARES
} luo_form;
enum { LUO_PLACE_EMBEDDING = -1, LUO_PLACE_HEAD = INT32_MAX };
enum { LUO_DIM_TOKENS = -1, LUO_DIM_ROWS = -2 };

typedef struct luo_tensor {
    const char *name, *letters;
    int32_t kind, layer; /* layer -1: none */
    int32_t op;          /* that makes it */
    int32_t form, place;
    int32_t ann;         /* id in the graph's annset, -1: not known yet */
    bool counted; /* state or parameter: what counts move, not a gradient; whole on every device, in
                     the precision of sums, without moments */
    int64_t elem_bytes;
    int32_t rank;
    int64_t dim[LUO_RANK_MAX]; /* LUO_DIM_TOKENS where the letter is t, LUO_DIM_ROWS: r */
} luo_tensor;

typedef struct luo_op {
    const char *name;
    int32_t kind, layer;
    int32_t forward; /* operation whose gradient this is part of; -1: none */
    int32_t phase;   /* luo_phase, set by luo_graph_segment */
    int32_t ring;    /* attention under context parallelism: step of the ring */
    int32_t after;   /* tensor that is waited for, though it is not read: memory is free then; 0:
                        none (tensor 0 is data) */
    uint8_t variant, variant_back; /* Reshard: luo_coll_variant of its gathers and scatters, and of
                                      those of its gradient */
    int32_t nin, nout;
    const int32_t *in, *out;
} luo_op;

typedef struct luo_graph {
    luo_arena *arena;
    luo_annset *set;
    int32_t ntensors, nops, cap_tensors, cap_ops;
    luo_tensor *tensor;
    luo_op *op;
    int64_t size[26];    /* by letter */
    luo_gate gate;       /* experts 0: none */
    double rows_per_token; /* of one expert, if all get equally many */
    int64_t least_rows;    /* so that every device that sends rows has some of the dimension */
    int64_t elem_bytes;  /* of activations and working weights */
    int64_t sum_bytes;   /* of an element of an accumulated gradient or a statistic */
    int64_t state_bytes; /* of the optimizer's state of one element */
    int32_t ids, labels, exp, row_max, row_sum, loss; /* tensors; loss: its running sum */
    bool causal;
    luo_window window; /* of attention, as the model says */
    bool softcap; /* of logits */
    bool kv_whole; /* as built */
    /* Context parallelism; npipelines 0: no pipeline cuts sequences. */
    int32_t npipelines;
    const luo_context *context;  /* by pipeline */
    const int32_t *context_rank; /* by device id */
    bool scatter_each; /* gradients are cut to their pieces in every micro-batch (ZeRO-2, 3) */
    bool shard_copies; /* pieces have copies, among which gradients are summed once a step */
    bool joins; /* experts over several pipelines: tensors of such groups have fewer members */
    bool staggered;    /* updates do not wait for the norm of all gradients; set before
                          luo_graph_differentiate */
    bool matched;   /* every tensor is annotated by the plan: partial sums go through what is
                       linear in them, complete summands are added to them once */
    const bool *factors; /* matched: by tensor of the forward part, weights whose gradients every
                            device computes from all of its factors; NULL: none */
    bool failed; /* out of memory; further additions do nothing */
} luo_graph;

/* Empty graph of one precision. NULL: out of memory. */
luo_graph *luo_graph_new(luo_arena *arena, const luo_model *model, luo_dtype dtype);
/* Adds a tensor or an operation; the id. Names and letters are kept, not copied. */
int32_t luo_graph_tensor(luo_graph *graph, const char *name, const char *letters, int32_t kind,
                         int32_t layer);
int32_t luo_graph_op(luo_graph *graph, luo_op_kind kind, const char *name, int32_t layer,
                     const int32_t *in, int32_t nin, const int32_t *out, int32_t nout);
/* Tensor of that name, -1: none. Cost: O(tensors). */
int32_t luo_graph_find(const luo_graph *graph, const char *name);
/* Puts a Reshard of operand i in front of operation o, read by it alone; the new tensor, called
 * `NAME@OP`. Operation ids from o on move up by one. */
int32_t luo_graph_insert_reshard(luo_graph *graph, int32_t o, int32_t i);
/* Is parameter x a copy of one at another place, a table's for a head on another stage, or the
 * head's part of a table at both? It has no state of its own, and nothing is saved or moved of it.
 * Pre: x is made by a Reshard. */
bool luo_tensor_is_copy(const luo_graph *graph, int32_t x);
/* Is the tensor one of a micro-batch: does it have tokens, rows of experts or their senders? */
bool luo_tensor_is_task(const luo_tensor *tensor);
/* Sizes of tensor x for a micro-batch of `tokens` in each of `members` members. */
luo_shape luo_graph_shape(const luo_graph *graph, int32_t x, int64_t tokens, int32_t members);

typedef struct luo_build_opts {
    luo_dtype dtype;
    bool head_apart; /* some pipeline keeps head and embedding on different devices */
    bool kv_whole;   /* key-value heads are not cut: too few of them */
    bool state_apart; /* the optimizer has a layout of its own (docs/annotations.md#zero) */
    int32_t ring;     /* parts of the longest ring of context-parallel devices; 0 or 1: none */
    bool exchanges;   /* some devices exchange heads for tokens around attention */
    bool scatter_each; /* as in luo_graph */
    bool gather_each;  /* ZeRO-3: working copies are pieces, gathered for every task */
    bool shard_copies; /* as in luo_graph */
    /* By layer, NULL without experts: are experts dealt; devices that send rows to each other, so
     * many in every pipeline that they are a multiple of any one's. */
    const bool *dealt;
    const int32_t *sources;
    bool joins; /* as in luo_graph */
    bool apart;        /* an operation per product; but queries, keys and values of as many heads
                          are made by one */
} luo_build_opts;
/* Forward graph of a decoder (llama, gpt, moe, mlp),
 * docs/annotations.md#from-a-plan-to-annotations. Annotations are not set. Errors: LUO_EINPUT for
 * other families; LUO_ENOMEM. */
luo_status luo_graph_build(luo_arena *arena, const luo_model *model, const luo_build_opts *opts,
                           luo_graph **out, luo_err *err);

/* Annotations of the results of operations first..nops-1 (docs/annotations.md#deduction). Pre: the
 * outputs of Leaf and Reshard are annotated. Errors: LUO_EDEDUCE; LUO_ENOMEM. */
luo_status luo_graph_deduce(luo_graph *graph, int32_t first, luo_err *err);
/* The same of operation o alone. */
luo_status luo_graph_deduce_op(luo_graph *graph, int32_t o, luo_err *err);

/* Raw annotation for the output of a Reshard that differentiation makes; -1: none. */
typedef int32_t (*luo_override_fn)(void *ctx, const char *tensor);
/* Adds gradients, their accumulation, norm and update (docs/annotations.md#differentiation), with
 * annotations and phases. Staggered: the update is made as if the norm were within the bound, and
 * amended where it is not, when the norm is known (post-validation: Qi et al., arXiv 2401.10241,
 * section 4). Pre: the forward part is annotated. all: annotation {-2:n} of one summand per device,
 * for the norm.
 * Errors: LUO_EDEDUCE, LUO_ENOMEM. */
luo_status luo_graph_differentiate(luo_graph *graph, const luo_ann *all, luo_override_fn override,
                                   void *ctx, luo_err *err);
/* Sets the phase of operation o from those of the makers of its operands
 * (docs/architecture/programs.md#segments). */
void luo_graph_segment(luo_graph *graph, int32_t o);
/* One line per operation with its annotations, for people and tests. */
void luo_graph_print(luo_str *text, const luo_graph *graph);
#endif
