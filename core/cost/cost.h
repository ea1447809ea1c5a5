/* cost.h: seconds of one instruction and of one collective (docs/cost-model.md).
 *
 * Notation of docs/cost-model.md#notation. All results are seconds on a device or a group that
 * nothing else disturbs; slowdowns of health and events are the caller's. 0 work is 0 seconds. A
 * number that is not known is LUO_EINPUT, never a guess: E1 a value of the profile, E2 its peak for
 * a dtype, E3 a value that no source tells.
 */
#ifndef LUO_CORE_COST_COST_H
#define LUO_CORE_COST_COST_H
#include "core/cost/cluster.h"
#include "core/graph/program/program.h"

typedef struct luo_cost_ctx {
    const luo_cluster *cluster;
    const luo_stack *stack;
    luo_dtype dtype;        /* of activations and weights, where a function has no own dtype */
    int32_t nops;           /* of the programs: tells kinds of operations apart on CPUs, .. */
    const luo_op_info *ops; /* .. NULL: not known */
} luo_cost_ctx;

/* One batched product of (m x k) by (k x n). */
typedef struct luo_gemm {
    int64_t m, n, k, batch, elem_bytes;
    luo_gemm_form form;
} luo_gemm;
/* Cost: 50 ns. Errors: E1, E2. Source: docs/cost-model.md#matrix-products. */
luo_status luo_cost_gemm(const luo_profile *profile, luo_dtype dtype, const luo_gemm *g,
                         double *seconds, luo_err *err);

/* Products of experts at once, by a key of LUO_COST_GROUPED. Errors: as above. */
luo_status luo_cost_grouped(const luo_profile *profile, luo_dtype dtype, const luo_cost_key *key,
                            double *seconds, luo_err *err);

/* Products by a key of LUO_COST_GEMM or GROUPED: as above, or, of a layer where the stack has a
 * recipe, in fp8, with the kernels that cast what this product is the first to read. Pre: dtype
 * bf16 where there is a recipe. Errors: as above. Source: docs/cost-model.md#fp8. */
luo_status luo_cost_product(const luo_profile *profile, const luo_stack *stack, luo_dtype dtype,
                            const luo_cost_key *key, double *seconds, luo_err *err);
/* Moved for an element of bf16 that becomes fp8; 0 without a recipe. */
double luo_cost_cast_bytes(const luo_stack *stack);
/* Moved for a parameter that is updated, its cast included where that is made then. */
double luo_cost_update_bytes(const luo_stack *stack);

/* Kernel that moves `bytes` (docs/cost-model.md#streaming-kernels). Errors: E1. */
luo_status luo_cost_stream(const luo_profile *profile, double bytes, double *seconds, luo_err *err);

typedef struct luo_attention {
    int64_t heads, head_dim;   /* query heads on this device */
    int64_t sequences, tokens; /* so many sequences of that length .. */
    int64_t rest;              /* .. and one of this length (0: none) */
    const int64_t *lengths;    /* not NULL: `sequences` lengths instead of tokens and rest */
    bool causal;
    int64_t pairs; /* above 0: so many of a query and a key per head, and no sequences (a step of
                      context parallelism's ring); the mask has been counted */
    int64_t value_dim; /* elements of a value; 0: head_dim */
    int64_t window; /* a token sees so many at most, itself among them; 0: all. Fused attention
                       leaves out the rest */
} luo_attention;
/* Fused attention. Errors: E2. */
luo_status luo_cost_attention(const luo_profile *profile, luo_dtype dtype,
                              const luo_attention *attention, bool backward, double *seconds,
                              luo_err *err);
/* Unfused: two batched products per sequence length, softmax and dropout; the full square,
 * causal or not. */
luo_status luo_cost_attention_unfused(const luo_profile *profile, luo_dtype dtype,
                                      const luo_attention *attention, bool backward,
                                      double *seconds, luo_err *err);
/* Attention whose keys and values go round a ring of `parts`, all of them doing the same at the
 * same time. Seconds from the begin of its first step to the end of the last. Forward: the next
 * keys travel beside a step, to where those of the step before were. Backward: so again, and behind
 * them in the same lane the sums of gradients of the step before, which that step does not wait
 * for; they go home last. Source: docs/architecture/context.md#bytes. See: tests/unit/check_cost.c
 * (V-C5). */
typedef struct luo_ring {
    int32_t parts;
    bool backward;
    double first, rest; /* of step 0, of each other one */
    double hop;         /* keys, then values to the next, together; their gradients as long */
    double sum;         /* what came is added to what a step made, both together */
    double lead;        /* the first keys may leave so long before step 0 */
} luo_ring;
double luo_cost_ring(const luo_ring *ring);

/* Seconds of `kernels` kernels that need `gpu_seconds` on the device when the host takes
 * host_launch_s for each: (t^rho + (kernels*chi)^rho)^(1/rho); 0 if gpu_seconds is 0. */
double luo_cost_host(const luo_stack *stack, double gpu_seconds, double kernels);
/* Seconds of a kernel that needs gpu_seconds on the device and `seconds` with its host, when the
 * device runs at 1 - loss of its speed. Pre: 0 < seconds, 0 <= loss < 1. */
double luo_cost_slowed(const luo_stack *stack, double gpu_seconds, double seconds, double loss);

/* Seconds of a COMPUTE or LOCAL instruction on `device`: the formula for its GPU type with the
 * host's floor taken per instruction (luo_cost_kernels each), times base_slowdown. Taken
 * so, the floor is never below that of a layer, since the p-norm is convex, and under 1 % above it
 * unless small and large kernels mix near host_launch_s; luo_cost_role has it per layer.
 * Attention is fused or not as the stack has it. LUO_COST_OPTIMIZER: a[0]*a[1] bytes streamed,
 * scaled by the stack's optimizer_bytes over the default 34; the 40 launches belong to the
 * step, not to an instruction: see luo_cost_role.
 * Shapes: `dtype` selects the peak; element bytes are the key's own. Errors: E1, E2. */
luo_status luo_cost_instr(const luo_cost_ctx *ctx, int32_t device, const luo_cost_key *key,
                          luo_dtype dtype, double *seconds, luo_err *err);
/* The same without host floor and base_slowdown. */
luo_status luo_cost_key_seconds(const luo_profile *profile, const luo_stack *stack,
                                const luo_cost_key *key, luo_dtype dtype, double *seconds,
                                luo_err *err);
/* Does this backward run the attention core forward again first? Where selective recompute says so
 * and attention is not fused. */
bool luo_cost_again(const luo_stack *stack, const luo_cost_key *key);
/* Kernels that the host launches for it: 1, for unfused attention 3 forward and 5 backward (8 with
 * the core forward again). */
int32_t luo_cost_kernels(const luo_stack *stack, const luo_cost_key *key);
typedef struct luo_comm_cost { /* of a COLLECTIVE, or of messages of rows of experts */
    double seconds;            /* in closed form, as far as nothing hides it */
    double loss; /* overlap loss of its links: compute beside it runs at 1 - loss of its speed */
} luo_comm_cost;

/* All instructions of a role on `device`, host floor per layer: in each segment, the
 * instructions of one layer (forward, backward and recompute apart) share the factor that makes
 * them, with the layer's communication, last t_layer. Kernels: the stack's kernels_forward, 2 more
 * if the part has collectives, 1.75 times as many backward; 0: those of its instructions and one a
 * collective, or message with rows of experts. Instructions of no layer have their own floor; the
 * OPTIMIZER instructions of a segment share 40 launches. With tp_overlap what is issued between the
 * making of a gradient and its reduction (dW) runs beside that and is slowed by its loss; the
 * layer's communication is then what is left of it. On a CPU an instruction is costed by cpu.h, and
 * there is no host to be waited for. comm: of instruction i where it is a COLLECTIVE or moves rows
 * of experts; NULL: none counted. Out: seconds[i] for COMPUTE and LOCAL, 0 for others. */
luo_status luo_cost_role(luo_arena *scratch, const luo_cost_ctx *ctx, int32_t device,
                         const luo_role *role, const luo_comm_cost *comm, double *seconds,
                         luo_err *err);
/* Compute of `work` seconds that starts together with communication of `comm` seconds lasts this
 * long: slowed by loss while both run. */
double luo_cost_beside(double work, double comm, double loss);
/* Communication of a group slows compute by this share. NVLink where several are on a
 * node, network where they are on several: the larger if both. NCCL takes a multiprocessor for each
 * of its channels: 16 of 108 on an A100 with eight NICs where the ring goes through all GPUs, 2 for
 * a NIC alone (sjeaugey, nccl issue 689: public). */
double luo_cost_overlap_loss(const luo_cost_ctx *ctx, const int32_t *dev, int32_t n);
/* The same in two parts: which links the group has, in O(n), and the loss of a device on them. */
typedef struct luo_cost_reach {
    bool near, far; /* inside a node, between nodes */
} luo_cost_reach;
luo_cost_reach luo_cost_reach_of(const luo_cluster *cluster, const int32_t *dev, int32_t n);
double luo_cost_reach_loss(const luo_profile *profile, luo_cost_reach reach);

/* VOL: busbw = VOL(n)*S/t. coll: luo_coll. */
double luo_cost_volume(int coll, int32_t n);
/* Bandwidth of a node of this group to the fabric: the sum of its NICs, or of the PCIe links of its
 * devices if that is less (their traffic to the NICs passes them). 0: no NIC. */
double luo_cost_node_bytes_per_s(const luo_node_group *group);

/* A collective of `bytes` (of the full tensor; all-to-all: of what one device holds) over
 * dev[0..n). One node: measured curves with stack.busbw_factor, missing ops from
 * others, without any table alpha-beta of the ring. Several nodes: max(inside, network), slowest
 * node; where the group leaves a rack or a site, its uplink or line bounds the node's bandwidth,
 * and a step waits for the line's latency. Network: the half-size curve or, where that takes
 * less, LL or LL128: once + s*(step + line) + VOL(N)*S/(factor*e_n*bw*share), with step =
 * net_step_us in LL and s = 2*ceil(log2 N) for an all-reduce, through a tree, N - 1 for all else,
 * which has none in NCCL. CPUs have the curve alone, for these are NCCL's latencies.
 * share: part of a node's NICs that this group has, 0 = n/G. Order of dev does not matter,
 * but of a broadcast dev[0] is the root.
 * Returns seconds; 0 for one device or no bytes.
 * Cost: O(n), O(n^2) if devices of one node are scattered in dev.
 * See: tests/unit/check_ladder.c, tests/unit/check_nccl.c. */
double luo_cost_group_seconds(const luo_cost_ctx *ctx, int coll, const int32_t *dev, int32_t n,
                              int64_t bytes, double share);

/* Steps of it that follow each other, each feeling the latency of the path once; 1 for a broadcast
 * (a chain that streams) and for all-to-all. share is n/G. */
int32_t luo_cost_steps(const luo_cost_ctx *ctx, int coll, const int32_t *dev, int32_t n,
                       int64_t bytes);

/* One message: max(p2p_s, latency of the path) + bytes / bandwidth. Same node: measured
 * transfers, else the curve of 2 devices, else the path's narrowest link. Other node: bandwidth of
 * the node (as for collectives) * net_ratio * share, share 0 = 1/G: all devices of the node send at
 * once. src = dst is 0. */
double luo_cost_p2p_seconds(const luo_cost_ctx *ctx, int32_t src, int32_t dst, int64_t bytes,
                            double share);

/* A measured table of a kind's profile whose links are not those of the group (docs/cost-model.md
 * #tables-and-links). measured: bytes/s of its links, 0: not told; declared: of the group's, 0: it
 * has none of the class, and the table is not used. */
typedef struct luo_tables_note {
    const char *table;
    luo_table_class class;
    double measured, declared;
} luo_tables_note;
enum { LUO_TABLES_NOTES = 1 + LUO_TABLE_CLASSES }; /* collectives, messages of each class */
/* Returns their number. Pre: luo_cluster_finish. Cost: O(nodes * racks of the group). */
int32_t luo_cost_tables_elsewhere(const luo_cluster *cluster, int32_t kind,
                                  luo_tables_note out[LUO_TABLES_NOTES]);
/* Bit n - 1 is set where n devices of a mesh are priced without the profile's curves, since it has
 * none for just that number. 0: none such, or the group is no mesh. */
uint64_t luo_cost_mesh_without(const luo_node_group *group, const luo_profile *profile);

/* What a message takes before its bytes: max(p2p_s, latency of the path), or, where transfers were
 * measured, as long as the smallest of them. */
double luo_cost_p2p_start(const luo_cost_ctx *ctx, int32_t src, int32_t dst);

/* Flow form of a collective: flows that all start delay_s after the collective does and then
 * carry `bytes` over luo_cluster_path(src, dst); the collective ends with the last of them.
 *
 * Inside a node: a ring over the members in slot order (all ordered pairs for all-to-all; a chain
 * from the root for a broadcast). The closed form's time t is split in the part that large
 * messages need, t_inf = VOL*S/(largest busbw of the curve), and the rest, which becomes delay.
 * bytes = t_inf / (seconds that the most loaded link needs per byte when each flow carries one
 * byte): a flow occupies its links for t_inf, whether the curve is above or below the link's
 * bandwidth.
 * Between nodes: n flows (n = least members of a node) from each node to the next in the order
 * (site, rack, node), member i to member i (all ordered pairs of nodes for all-to-all; NICs chosen
 * by both slots: to the member that loads them least). Each carries what its share of the NICs
 * moves in VOL(N)*S/(e_n*node_bw*share), i.e. VOL(N)*S/(n*e_n) bytes when a node has no more NICs
 * than devices, and waits VOL(N)*N*x0/(e_n*node_bw); where luo_cost_group takes LL or LL128
 * (chosen with share n/G), bytes/factor and its steps. An edge between unlike nodes takes the
 * slower of both. `share` itself does not appear: contention with other groups takes its place.
 * The latency of a flow's own path is taken out of its delay, then out of its bytes.
 * Equality: with links as in the cluster file and max-min sharing, the last flow ends at
 * luo_cost_group_seconds(.., share) when the devices of a node with NICs in common all take part
 * (in this group or in G/n - 1 groups like it at the same time) and inside and network share no
 * link. Owner: arena. */
typedef struct luo_flow {
    int32_t src, dst;
    double bytes, delay_s;
} luo_flow;
luo_status luo_cost_flow(luo_arena *arena, const luo_cost_ctx *ctx, int coll, const int32_t *dev,
                         int32_t n, int64_t bytes, luo_flow **flows, int32_t *nflows, luo_err *err);
/* The same for one message; not for src = dst. */
void luo_cost_p2p_flow(const luo_cost_ctx *ctx, int32_t src, int32_t dst, int64_t bytes,
                       luo_flow *flow);

/* A collective as a program has it, by the variant in which it is carried out. Padded: all pieces
 * are as long as the longest. Grouped: a broadcast of every piece, or a reduce, which takes as
 * long, one after another; those without bytes are left out. */
typedef struct luo_cost_call {
    int32_t coll, variant; /* luo_coll, luo_coll_variant */
    int32_t n;
    const int32_t *dev;
    int64_t bytes;         /* as luo_cost_group has them, without padding */
    const int64_t *counts; /* of the pieces, in any unit; NULL: equal, or auto */
} luo_cost_call;
/* bytes: those of the instruction, or what travels in their place. The set is kept. */
luo_cost_call luo_cost_call_of(const luo_programs *set, const luo_instr *in, const luo_slot *slot,
                               int64_t bytes);
bool luo_cost_call_equal(const luo_cost_call *a, const luo_cost_call *b);
/* Bytes of the full tensor as it travels, with padding. */
int64_t luo_cost_call_bytes(const luo_cost_call *call);
/* The collectives that it is one after another, each as luo_cost_group and luo_cost_flow take it.
 * reversed: from the others to dev[0], which sums: flows go the other way. Pre: 0 <= i < parts;
 * room for n devices. Owner: dev is the call's or room. */
typedef struct luo_cost_part {
    int32_t coll;
    const int32_t *dev;
    int64_t bytes;
    bool reversed;
} luo_cost_part;
int32_t luo_cost_call_parts(const luo_cost_call *call);
luo_cost_part luo_cost_call_part(const luo_cost_call *call, int32_t i, int32_t *room);
/* luo_cost_group_seconds and luo_cost_steps of all parts together. See: tests/prop/prop_variant.c
 */
double luo_cost_call_seconds(const luo_cost_ctx *ctx, const luo_cost_call *call, double share);
int32_t luo_cost_call_steps(const luo_cost_ctx *ctx, const luo_cost_call *call);

/* Step times grow by this factor with the number of devices: 1 + j*max(0, log2(N/256)). */
double luo_cost_jitter(const luo_stack *stack, int32_t devices);
#endif
