/* read_params.c: what a planner is told beyond cluster and model (`luoshu.params/1`,
 * keys: docs/formats.md#luoshuparams1), YAML, and so JSON, too. */
#include "core/io/document/doc_table.h"
#include "core/io/read/read.h"

typedef struct type_yaml { /* of planner hap */
    const char *profile;
    double gemm, conv, attn, elt;
} type_yaml;

typedef struct line_yaml {
    double latency, bandwidth;
} line_yaml;

typedef struct params_yaml {
    const char *schema;
    double *alpha, *k, *act;
    uint32_t alpha_count, k_count, act_count;
    double tau, emb, extra, bound, gap, context;
    double state, share, safe, overlap;
    int32_t zero_replicas, grad_bytes;
    struct hap_yaml {
        type_yaml *types;
        int32_t ntypes;
        struct {
            line_yaml ag, agg, rs, rsg, ar, a2a, p2p;
        } collectives;
    } hap;
} params_yaml;

#define OPT LUO_DOC_OPT
#define REQ LUO_DOC_REQ

#define MIB LUO_OF(LUO_Q_BYTES, 1048576.0)
#define MIB_OR_0 LUO_OF_OR_0(LUO_Q_BYTES, 1048576.0)
#define MS LUO_OF(LUO_Q_TIME, 1e-3)
#define GIB_OR_0 LUO_OF_OR_0(LUO_Q_BYTES, 1073741824.0)
#define ALPHA LUO_OF(LUO_Q_SLOWDOWN, 1)
#define PER_UNIT LUO_WITHIN(1e-3, 1e6) /* bytes, over the hidden size or its square */

static const luo_doc_schema alpha_entry = LUO_DOC_SCALAR_OF(LUO_DOC_REAL, double, ALPHA);
static const luo_doc_schema mib_entry = LUO_DOC_SCALAR_OF(LUO_DOC_REAL, double, MIB);
static const luo_doc_schema act_entry = LUO_DOC_SCALAR_OF(LUO_DOC_REAL, double, PER_UNIT);

#define TFLOPS LUO_OF(LUO_Q_COMPUTE, 1e12)
#define GBYTES LUO_OF(LUO_Q_BANDWIDTH, 1e9)
/* null: the device is never waited for */
#define SPEED(key, type, member, limit_, says_)                                                    \
    LUO_DOC_FIELD(key, OPT, type, member, says_, .form = LUO_DOC_REAL, .limit = limit_,            \
                  .or_null = true)

static const luo_doc_field line_fields[] = {
    LUO_DOC_FLOAT("latency_s", OPT, line_yaml, latency, LUO_OF_OR_0(LUO_Q_LATENCY, 1),
                  "0 | of a collective; grouped: of one broadcast or reduce"),
    LUO_DOC_FLOAT("bandwidth_gbytes_per_s", REQ, line_yaml, bandwidth, GBYTES,
                  "of the whole padded tensor"),
    LUO_DOC_END};
static const luo_doc_field type_fields[] = {
    LUO_DOC_TEXT("profile", REQ, type_yaml, profile, "name of the type's profile"),
    SPEED("gemm_tflop_per_s", type_yaml, gemm, TFLOPS, "error where needed | matrix products"),
    SPEED("conv_tflop_per_s", type_yaml, conv, TFLOPS, "error where needed | convolutions"),
    SPEED("attn_tflop_per_s", type_yaml, attn, TFLOPS, "error where needed | attention"),
    SPEED("elt_gbytes_per_s", type_yaml, elt, LUO_OF(LUO_Q_MEMORY_BANDWIDTH, 1e9),
          "error where needed | all that moves bytes: elementwise, norms, embeddings, loss"),
    LUO_DOC_END};
static const luo_doc_schema type_entry = LUO_DOC_STRUCT_OF(type_yaml, type_fields, NULL);
#define LINE(key, flag, member, says_)                                                             \
    LUO_DOC_MAPPING(key, flag, struct hap_yaml, collectives.member, line_fields, NULL, says_)
static const luo_doc_field coll_fields[] = {
    LINE("allgather", REQ, ag, "of pieces padded to the longest"),
    LINE("allgather_grouped", OPT, agg, "not available | as many broadcasts of exact pieces"),
    LINE("reducescatter", REQ, rs, "to pieces padded to the longest"),
    LINE("reducescatter_grouped", OPT, rsg, "not available | as many reduces of exact pieces"),
    LINE("allreduce", REQ, ar, "of partial sums"),
    LINE("alltoall", REQ, a2a, "from pieces of one dimension to pieces of another"),
    LINE("p2p", REQ, p2p, "between neighbours, where pieces get other lengths"),
    LUO_DOC_END};
static const luo_doc_field hap_fields[] = {
    LUO_DOC_SEQ("types", REQ, struct hap_yaml, types, ntypes, type_entry, 1,
                "every type of the cluster's devices"),
    LUO_DOC_INNER("collectives", REQ, coll_fields, "of all devices together"), LUO_DOC_END};

static const luo_doc_field fields[] = {
    LUO_DOC_TEXT("schema", REQ, params_yaml, schema, "`luoshu.params/1`"),
    LUO_DOC_SEQ("alpha", OPT, params_yaml, alpha, alpha_count, alpha_entry, 0,
                "from the cost model | how much slower a healthy group of tp, tp/2, tp/4 .. "
                "devices is than a full one"),
    LUO_DOC_FLOAT(
        "tau_ms", OPT, params_yaml, tau, MS,
        "from the cost model | time of one layer and one micro-batch on a full healthy group"),
    LUO_DOC_SEQ(
        "k_mib", OPT, params_yaml, k, k_count, mib_entry, 0,
        "from the memory model | memory of a layer by stage, from the last stage backwards"),
    LUO_DOC_FLOAT("emb_mib", OPT, params_yaml, emb, MIB,
                  "from the memory model | embedding, or head, of the first and last stage"),
    LUO_DOC_FLOAT("extra_mib", OPT, params_yaml, extra, MIB,
                  "from the memory model | what a device holds whatever its layers"),
    LUO_DOC_FLOAT("bound_mib", OPT, params_yaml, bound, MIB,
                  "from the profile | memory of a device"),
    LUO_DOC_FLOAT("gap_mib", OPT, params_yaml, gap, MIB_OR_0, "4096 | kept free below the bound"),
    LUO_DOC_FLOAT("context_mib", OPT, params_yaml, context, MIB,
                  "4500 | context, communicators and fragmentation, in the memory model"),
    LUO_DOC_INT("zero_replicas", OPT, params_yaml, zero_replicas, LUO_WITHIN(1, 64),
                "1 | copies of each piece of optimizer state under ZeRO-1; more than 1 is refused, "
                "as plans keep one"),
    LUO_DOC_SEQ("act_bytes", OPT, params_yaml, act, act_count, act_entry, 0,
                "from the memory model | activations of a token, layer and hidden unit, times tp, "
                "for tp 1, 2, 4, 8, 16"),
    LUO_DOC_FLOAT("state_bytes", OPT, params_yaml, state, PER_UNIT,
                  "from the memory model | weights, gradients and optimizer state of a layer, over "
                  "the square of the hidden size"),
    LUO_DOC_FLOAT("optimizer_share", OPT, params_yaml, share, LUO_WITHIN(0, 1),
                  "0.75 | share of the state that lies in the optimizer's layout"),
    LUO_DOC_FLOAT("safe_gib", OPT, params_yaml, safe, GIB_OR_0, "0 | kept free beside the gap"),
    LUO_DOC_FLOAT(
        "prop_overlap", OPT, params_yaml, overlap, LUO_WITHIN(0, 1),
        "0 | share of the time of moves between the optimizer's layout and a plan that is hidden"),
    LUO_DOC_INT("grad_bytes", OPT, params_yaml, grad_bytes, LUO_WITHIN(2, 4),
                "4 | of a gradient that moves: 2 (bf16) or 4 (f32)"),
    LUO_DOC_MAPPING("hap", OPT, params_yaml, hap, hap_fields, NULL,
                    "from the cost model | speeds and bandwidths, published or supposed"),
    LUO_DOC_END};
static const luo_doc_schema schema = LUO_DOC_STRUCT_OF(params_yaml, fields, NULL);

const luo_doc_kind luo_doc_params = {"params", &schema};

/* ---- alpha ---- */

static bool rises(const double *v, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (i == 0 ? v[0] != 1 : v[i] <= v[i - 1]) return false;
    return true;
}

static void say_alpha(const double *v, int32_t n, luo_str *text)
{
    luo_str_add(text, "`alpha` is [");
    for (int32_t i = 0; i < n; i++) luo_str_addf(text, i ? ", %.6g" : "%.6g", v[i]);
    luo_str_add(text, "]; it must start at 1 and rise.");
}

/* ---- the whole ---- */

static double given_or(const luo_doc *doc, const char *key, double value, double otherwise)
{
    return luo_doc_get(doc->root, key) ? value : otherwise;
}

static void take_pool(luo_doc *doc, const params_yaml *yaml, luo_pool_params *out)
{
    const luo_doc_node *act = luo_doc_get(doc->root, "act_bytes"),
                       *grad = luo_doc_get(doc->root, "grad_bytes");
    if (act && (yaml->act_count == 0 || yaml->act_count > LUO_POOL_TP_KINDS))
        luo_doc_error(doc, act,
                      "`act_bytes` has %d values; 1 to %d are expected, for tp 1, 2, 4 and so on.",
                      (int)yaml->act_count, LUO_POOL_TP_KINDS);
    if (grad && yaml->grad_bytes == 3)
        luo_doc_error(doc, grad, "`grad_bytes` is 3; 2 (bf16) or 4 (f32) is expected.");
    *out = (luo_pool_params){.nact = (int32_t)yaml->act_count,
                             .act_bytes = yaml->act,
                             .state_bytes = yaml->state,
                             .optimizer_share = given_or(doc, "optimizer_share", yaml->share, -1),
                             .safe_gib = given_or(doc, "safe_gib", yaml->safe, -1),
                             .gap_mib = given_or(doc, "gap_mib", yaml->gap, -1),
                             .bound_mib = yaml->bound,
                             .prop_overlap = yaml->overlap,
                             .grad_bytes = grad ? yaml->grad_bytes : 4};
}

/* Not given: NAN, which is an error where it is needed; null: INFINITY. */
static double speed_or(const luo_doc_node *type, const char *key, double value, double unit)
{
    const luo_doc_node *node = luo_doc_get(type, key);
    if (!node) return (double)NAN;
    return luo_doc_is(node, "null") ? (double)INFINITY : value * unit;
}

static void take_hap(luo_doc *doc, const params_yaml *yaml, luo_hap_params *out)
{
    const luo_doc_node *hap = luo_doc_get(doc->root, "hap");
    if (!hap) return;
    const line_yaml *line[LUO_HAP_LINKS] = {[LUO_HAP_LINK_AG] = &yaml->hap.collectives.ag,
                                            [LUO_HAP_LINK_AG_GROUPED] = &yaml->hap.collectives.agg,
                                            [LUO_HAP_LINK_RS] = &yaml->hap.collectives.rs,
                                            [LUO_HAP_LINK_RS_GROUPED] = &yaml->hap.collectives.rsg,
                                            [LUO_HAP_LINK_AR] = &yaml->hap.collectives.ar,
                                            [LUO_HAP_LINK_A2A] = &yaml->hap.collectives.a2a,
                                            [LUO_HAP_LINK_P2P] = &yaml->hap.collectives.p2p};
    luo_hap_type_params *type = LUO_NEW_N(doc->arena, luo_hap_type_params, yaml->hap.ntypes);
    const luo_doc_node *node = luo_doc_get(hap, "types")->first;
    if (!type) {
        luo_doc_nomem(doc);
        return;
    }
    for (int32_t t = 0; t < yaml->hap.ntypes; t++, node = node->next) {
        const type_yaml *from = &yaml->hap.types[t];
        type[t].profile = from->profile;
        type[t].speed[LUO_HAP_ON_GEMM] = speed_or(node, "gemm_tflop_per_s", from->gemm, 1e12);
        type[t].speed[LUO_HAP_ON_CONV] = speed_or(node, "conv_tflop_per_s", from->conv, 1e12);
        type[t].speed[LUO_HAP_ON_ATTN] = speed_or(node, "attn_tflop_per_s", from->attn, 1e12);
        type[t].speed[LUO_HAP_ON_ELT] = speed_or(node, "elt_gbytes_per_s", from->elt, 1e9);
    }
    *out = (luo_hap_params){.ntypes = yaml->hap.ntypes, .type = type};
    for (int32_t l = 0; l < LUO_HAP_LINKS; l++)
        out->line[l] = (luo_hap_line){line[l]->latency, line[l]->bandwidth * 1e9};
}

static void take(luo_doc *doc, const params_yaml *yaml, luo_params *out)
{
    const luo_doc_node *alpha = luo_doc_get(doc->root, "alpha"),
                       *node = luo_doc_get(doc->root, "k_mib");
    luo_str text = {0};
    if (alpha && yaml->alpha_count == 0)
        luo_doc_error(doc, alpha, "`alpha` is empty; one value or more is expected.");
    if (node && yaml->k_count == 0)
        luo_doc_error(doc, node, "`k_mib` is empty; one value or more is expected.");
    if (!rises(yaml->alpha, (int32_t)yaml->alpha_count)) {
        say_alpha(yaml->alpha, (int32_t)yaml->alpha_count, &text);
        luo_doc_error(doc, alpha, "%s", luo_str_get(&text));
        luo_str_free(&text);
    }
    out->malleus = (luo_malleus_params){.nalpha = (int32_t)yaml->alpha_count,
                                        .alpha = yaml->alpha,
                                        .tau_s = yaml->tau * 1e-3,
                                        .nk = (int32_t)yaml->k_count,
                                        .k_mib = yaml->k,
                                        .emb_mib = yaml->emb,
                                        .extra_mib = yaml->extra,
                                        .bound_mib = yaml->bound,
                                        .gap_mib = given_or(doc, "gap_mib", yaml->gap, -1),
                                        .context_mib = yaml->context,
                                        .zero_replicas = yaml->zero_replicas};
    take_pool(doc, yaml, &out->pool);
    take_hap(doc, yaml, &out->hap);
}

luo_status luo_read_params_text(luo_arena *arena, const luo_source *src, luo_params *out,
                                luo_diags *diags)
{
    luo_doc doc = {.arena = arena, .src = src, .diags = diags};
    luo_params params = {0};
    void *data = NULL;
    luo_doc_parse(&doc);
    luo_doc_check(&doc, &luo_doc_params);
    if (doc.st == LUO_OK && luo_doc_load(&doc, &schema, &data) == LUO_OK) take(&doc, data, &params);
    if (doc.st == LUO_OK) *out = params;
    return doc.st;
}

luo_status luo_read_params(luo_arena *arena, const char *path, luo_params *out, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_params_text(arena, &src, out, diags);
}
