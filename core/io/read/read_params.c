/* read_params.c: what a planner is told beyond cluster and model (`luoshu.params/1`,
 * keys: docs/formats.md#luoshuparams1), YAML, and so JSON, too. */
#include "core/io/document/doc_table.h"
#include "core/io/read/read.h"

typedef struct params_yaml {
    const char *schema;
    double *alpha, *k, *act;
    uint32_t alpha_count, k_count, act_count;
    double tau, emb, extra, bound, gap, context;
    double state, share, safe, overlap;
    int32_t zero_replicas, grad_bytes;
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

static const luo_doc_field fields[] = {
    LUO_DOC_TEXT("schema", REQ, params_yaml, schema),
    LUO_DOC_SEQ("alpha", OPT, params_yaml, alpha, alpha_count, alpha_entry, 0),
    LUO_DOC_FLOAT("tau_ms", OPT, params_yaml, tau, MS),
    LUO_DOC_SEQ("k_mib", OPT, params_yaml, k, k_count, mib_entry, 0),
    LUO_DOC_FLOAT("emb_mib", OPT, params_yaml, emb, MIB),
    LUO_DOC_FLOAT("extra_mib", OPT, params_yaml, extra, MIB),
    LUO_DOC_FLOAT("bound_mib", OPT, params_yaml, bound, MIB),
    LUO_DOC_FLOAT("gap_mib", OPT, params_yaml, gap, MIB_OR_0),
    LUO_DOC_FLOAT("context_mib", OPT, params_yaml, context, MIB),
    LUO_DOC_INT("zero_replicas", OPT, params_yaml, zero_replicas, LUO_WITHIN(1, 64)),
    LUO_DOC_SEQ("act_bytes", OPT, params_yaml, act, act_count, act_entry, 0),
    LUO_DOC_FLOAT("state_bytes", OPT, params_yaml, state, PER_UNIT),
    LUO_DOC_FLOAT("optimizer_share", OPT, params_yaml, share, LUO_WITHIN(0, 1)),
    LUO_DOC_FLOAT("safe_gib", OPT, params_yaml, safe, GIB_OR_0),
    LUO_DOC_FLOAT("prop_overlap", OPT, params_yaml, overlap, LUO_WITHIN(0, 1)),
    LUO_DOC_INT("grad_bytes", OPT, params_yaml, grad_bytes, LUO_WITHIN(2, 4)),
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

static void take_pool(luo_doc *doc, const params_yaml *y, luo_pool_params *out)
{
    const luo_doc_node *act = luo_doc_get(doc->root, "act_bytes"),
                       *grad = luo_doc_get(doc->root, "grad_bytes");
    if (act && (y->act_count == 0 || y->act_count > LUO_POOL_TP_KINDS))
        luo_doc_error(doc, act,
                      "`act_bytes` has %d values; 1 to %d are expected, for tp 1, 2, 4 and so on.",
                      (int)y->act_count, LUO_POOL_TP_KINDS);
    if (grad && y->grad_bytes == 3)
        luo_doc_error(doc, grad, "`grad_bytes` is 3; 2 (bf16) or 4 (f32) is expected.");
    *out = (luo_pool_params){.nact = (int32_t)y->act_count,
                             .act_bytes = y->act,
                             .state_bytes = y->state,
                             .optimizer_share = given_or(doc, "optimizer_share", y->share, -1),
                             .safe_gib = given_or(doc, "safe_gib", y->safe, -1),
                             .gap_mib = given_or(doc, "gap_mib", y->gap, -1),
                             .bound_mib = y->bound,
                             .prop_overlap = y->overlap,
                             .grad_bytes = grad ? y->grad_bytes : 4};
}

static void take(luo_doc *doc, const params_yaml *y, luo_params *out)
{
    const luo_doc_node *alpha = luo_doc_get(doc->root, "alpha"),
                       *node = luo_doc_get(doc->root, "k_mib");
    luo_str text = {0};
    if (alpha && y->alpha_count == 0)
        luo_doc_error(doc, alpha, "`alpha` is empty; one value or more is expected.");
    if (node && y->k_count == 0)
        luo_doc_error(doc, node, "`k_mib` is empty; one value or more is expected.");
    if (!rises(y->alpha, (int32_t)y->alpha_count)) {
        say_alpha(y->alpha, (int32_t)y->alpha_count, &text);
        luo_doc_error(doc, alpha, "%s", luo_str_get(&text));
        luo_str_free(&text);
    }
    out->malleus = (luo_malleus_params){.nalpha = (int32_t)y->alpha_count,
                                        .alpha = y->alpha,
                                        .tau_s = y->tau * 1e-3,
                                        .nk = (int32_t)y->k_count,
                                        .k_mib = y->k,
                                        .emb_mib = y->emb,
                                        .extra_mib = y->extra,
                                        .bound_mib = y->bound,
                                        .gap_mib = given_or(doc, "gap_mib", y->gap, -1),
                                        .context_mib = y->context,
                                        .zero_replicas = y->zero_replicas};
    take_pool(doc, y, &out->pool);
}

luo_status luo_read_params_text(luo_arena *arena, const luo_source *src, luo_params *out,
                                luo_diags *diags)
{
    luo_doc doc = {.arena = arena, .src = src, .diags = diags};
    luo_params p = {0};
    void *data = NULL;
    luo_doc_parse(&doc);
    luo_doc_check(&doc, &luo_doc_params);
    if (doc.st == LUO_OK && luo_doc_load(&doc, &schema, &data) == LUO_OK) take(&doc, data, &p);
    if (doc.st == LUO_OK) *out = p;
    return doc.st;
}

luo_status luo_read_params(luo_arena *arena, const char *path, luo_params *out, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_params_text(arena, &src, out, diags);
}
