/* Annotated plans of which all gathers and scatters are auto, padded or grouped. The programs are
 * the same but for that word, and what travels is what the annotations say: a slow twin counts the
 * cells of every piece, of every tensor of a bucket, from the regions of both ends. Pieces of equal
 * length are padded as they are, and what is no gather or scatter says nothing. */
#include <string.h>

#include "core/cost/cost.h"
#include "core/hspmd/region.h"
#include "core/plan/compile.h"
#include "core/plan/hap/emit.h"
#include "core/plan/hap_graph/hap_model.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

enum { CASES = 60, MOST = 6 };
static int gathers, scatters, even, zeros, chosen[LUO_COLL_VARIANTS]; /* proof of hits */

typedef struct drawn {
    luo_arena *a;
    luo_rng rng;
    luo_model model;
    luo_plan *plan;
    int32_t n;
} drawn;

static luo_hap_numbers numbers_of(drawn *d, luo_hap_zero *zero)
{
    luo_hap_numbers x = {.ntypes = 2, .name = {"a", "b"}};
    const double link = luo_rng_pick(&d->rng, 2) ? 1e7 : 1e5;
    d->n = 2 + (int32_t)luo_rng_pick(&d->rng, MOST - 1);
    x.count[0] = 1 + (int32_t)luo_rng_pick(&d->rng, d->n - 1);
    x.count[1] = d->n - x.count[0];
    *zero = luo_rng_pick(&d->rng, 2) ? LUO_HAP_ZERO_ON : LUO_HAP_ZERO_OFF;
    for (int c = 0; c < LUO_HAP_CLASSES; c++) x.speed[0][c] = 4e6, x.speed[1][c] = 1e6;
    for (int l = 0; l < LUO_HAP_LINKS; l++) x.line[l] = (luo_hap_line){0, link};
    x.line[LUO_HAP_LINK_A2A].bandwidth_bytes_s *= d->n;
    x.line[LUO_HAP_LINK_AR].bandwidth_bytes_s /= *zero == LUO_HAP_ZERO_ON ? 8 : 2;
    if (luo_rng_pick(&d->rng, 2))
        x.line[LUO_HAP_LINK_AG_GROUPED].bandwidth_bytes_s =
            x.line[LUO_HAP_LINK_RS_GROUPED].bandwidth_bytes_s = link / 8;
    return x;
}

static void draw_shares(drawn *d, const luo_hap_numbers *x, double *shares)
{
    const double a = (double)luo_rng_pick(&d->rng, 6), b = (double)(1 + luo_rng_pick(&d->rng, 5));
    const double sum = a * x->count[0] + b * x->count[1];
    shares[0] = a / sum;
    shares[1] = b / sum;
}

static void draw(drawn *d, uint64_t seed)
{
    luo_hap_zero zero;
    luo_hap_graph *graph;
    luo_hap_result *result;
    luo_plan_annotation *at;
    luo_err err = {0};
    *d = (drawn){.a = luo_arena_new(1 << 20), .rng = luo_rng_seed(seed)};
    const int64_t sequences = 1 + luo_rng_pick(&d->rng, 9);
    d->model =
        luo_rng_pick(&d->rng, 2) ? luo_test_gpt(2, 32, 4, 64) : luo_test_llama(2, 32, 48, 4, 64);
    d->model.max_sequence_tokens = 64;
    const luo_hap_numbers numbers = numbers_of(d, &zero);
    const luo_hap_job job = {
        .opts = {.sayable = true, .rules = luo_rng_pick(&d->rng, 2) ? "b" : NULL},
        .no_memory = true,
        .zero = zero};
    luo_status st = luo_hap_model_graph(d->a, &d->model, LUO_F32, sequences, 16, &graph, &err);
    if (st == LUO_OK) st = luo_hap_alternate(d->a, graph, &numbers, &job, &result, &err);
    ck_assert_msg(st == LUO_OK, "LUO_SEED=%llu: %s", (unsigned long long)seed, err.text);
    if (luo_rng_pick(&d->rng, 3)) draw_shares(d, &numbers, result->shares);
    int32_t *device = LUO_NEW_N(d->a, int32_t, d->n);
    for (int32_t i = 0; i < d->n; i++) device[i] = i;
    d->plan = luo_test_plan(d->a, "1: [0]*2");
    luo_pipeline *pipe = (luo_pipeline *)d->plan->pipelines;
    ((luo_stage *)pipe->stages)->dev = device;
    ((luo_stage *)pipe->stages)->ndev = d->n;
    d->plan->dtype = LUO_F32;
    d->plan->sequence_parallel = false;
    if (luo_rng_pick(&d->rng, 2)) d->plan->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, 25, 1};
    d->plan->sequence_tokens = 16;
    pipe->micro_batch_sequences = d->plan->micro_batch_sequences = (int32_t)sequences;
    st = luo_hap_emit(d->a, result->program, &numbers, result->shares, device, &at,
                      &d->plan->nannotations, &err);
    ck_assert_msg(st == LUO_OK, "LUO_SEED=%llu: %s", (unsigned long long)seed, err.text);
    d->plan->annotations = at;
}

/* variant NULL: as the planner says. */
static luo_programs *compile(drawn *d, const char *variant, uint64_t seed)
{
    luo_plan plan = *d->plan;
    luo_plan_annotation *at = LUO_NEW_N(d->a, luo_plan_annotation, plan.nannotations);
    luo_programs *set;
    luo_err err = {0};
    const luo_compile_opts opts = {.check = true};
    memcpy(at, plan.annotations, (size_t)plan.nannotations * sizeof *at);
    for (int32_t i = 0; i < plan.nannotations && variant; i++)
        if (strcmp(at[i].variant, "factors") != 0) at[i].variant = variant;
    plan.annotations = at;
    ck_assert_msg(luo_plan_compile(d->a, &plan, &d->model, NULL, &opts, &set, &err) == LUO_OK,
                  "LUO_SEED=%llu, %s: %s", (unsigned long long)seed, variant ? variant : "own",
                  err.text);
    return set;
}

/* ---- slow twin ---- */

/* Cells of the piece of every member that one exchange moves, added to cells: what they hold of the
 * gathered tensor before, or of the scattered one after. */
static void add_cells(drawn *d, const luo_exchange *x, const luo_group *group, bool gathers_it,
                      int64_t *cells)
{
    const luo_ann *ann;
    ck_assert_int_eq(luo_ann_parse(d->a, gathers_it ? x->src : x->dst, &ann, NULL), LUO_OK);
    for (int32_t i = 0; i < group->n; i++)
        for (int32_t k = 0; k < ann->grp[0].ndev; k++) {
            luo_region r;
            if (ann->grp[0].dev[k] != group->dev[i]) continue;
            ck_assert_int_eq(luo_region_of(d->a, ann, &x->shape, 0, k, &r, NULL), LUO_OK);
            cells[i] += r.empty ? 0 : luo_region_volume(&r);
        }
}

/* Bytes that travel from those of one rank to all others: n - 1 times this over n. */
static int64_t travels(const int64_t *cells, int32_t n, int64_t elem, luo_coll_variant v)
{
    int64_t sum = 0, longest = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += cells[i];
        if (cells[i] > longest) longest = cells[i];
    }
    return elem * (v == LUO_COLL_PADDED ? n * longest : sum);
}

static void check_call(drawn *d, const luo_programs *set, const luo_instr *in, const luo_slot *slot,
                       luo_coll_variant v, uint64_t seed)
{
    const luo_group *group = &set->groups[slot->group];
    const luo_exchange *x = &set->exchanges[in->exchange];
    const bool ag = in->coll == LUO_COLL_AG;
    int64_t cells[MOST] = {0}, sum = 0;
    bool equal = true;
    for (int32_t p = 0; p < x->nparts; p++)
        add_cells(d, &set->exchanges[x->part[p]], group, ag, cells);
    if (x->nparts == 0) add_cells(d, x, group, ag, cells);
    for (int32_t i = 0; i < group->n; i++) {
        equal &= cells[i] == cells[0];
        sum += cells[i];
        zeros += cells[i] == 0;
        if (in->v) ck_assert_int_eq(slot->counts[i], cells[i]);
    }
    const luo_coll_variant want = equal && v == LUO_COLL_PADDED ? LUO_COLL_AUTO : v;
    const luo_cost_call call = luo_cost_call_of(set, in, slot, in->bytes);
    ck_assert_msg(in->v == !equal && in->variant == want, "LUO_SEED=%llu: `%s` is %s of %s pieces",
                  (unsigned long long)seed, set->ops[in->op].name,
                  luo_coll_variant_name((luo_coll_variant)in->variant), equal ? "equal" : "uneven");
    ck_assert_int_eq(in->bytes, sum * x->elem_bytes);
    ck_assert_int_eq(luo_cost_call_bytes(&call), travels(cells, group->n, x->elem_bytes, v));
    int64_t pieces = 0;
    for (int32_t i = 0; i < luo_cost_call_parts(&call); i++) {
        int32_t room[MOST];
        const luo_cost_part part = luo_cost_call_part(&call, i, room);
        pieces += part.bytes;
        if (v != LUO_COLL_GROUPED) continue;
        ck_assert_int_eq(part.bytes, cells[i] * x->elem_bytes);
        ck_assert(part.dev[0] == group->dev[i] && part.reversed == !ag);
    }
    ck_assert_int_eq(pieces, travels(cells, group->n, x->elem_bytes, v));
    gathers += ag;
    scatters += !ag;
    even += equal;
}

static void check_set(drawn *d, const luo_programs *set, luo_coll_variant v, uint64_t seed)
{
    for (int32_t i = 0; i < set->n; i++) {
        const luo_role *role = &set->roles[set->at[i].role];
        for (int32_t k = 0; k < role->ninstr; k++) {
            const luo_instr *in = &role->instr[k];
            if (in->kind != LUO_INSTR_COLLECTIVE) continue;
            if (in->coll == LUO_COLL_AG || in->coll == LUO_COLL_RS)
                check_call(d, set, in, &set->at[i].slots[in->slot], v, seed);
            else
                ck_assert_int_eq(in->variant, LUO_COLL_AUTO);
        }
    }
}

/* Takes a word out of a text wherever it stands. */
static void take_out(luo_str *text, const char *word)
{
    luo_str out = {0};
    const char *at = luo_str_get(text);
    for (const char *found; (found = strstr(at, word)); at = found + strlen(word))
        luo_str_addn(&out, at, (size_t)(found - at));
    luo_str_add(&out, at);
    luo_str_free(text);
    *text = out;
}

static void check(uint64_t seed)
{
    drawn d;
    luo_str text[LUO_COLL_VARIANTS] = {{0}};
    draw(&d, seed);
    for (int v = 0; v < LUO_COLL_VARIANTS; v++) {
        const char *word = luo_coll_variant_name((luo_coll_variant)v);
        const luo_programs *set = compile(&d, word, seed);
        check_set(&d, set, (luo_coll_variant)v, seed);
        luo_program_print(&text[v], set, -1);
        if (v == LUO_COLL_AUTO) continue;
        take_out(&text[v], v == LUO_COLL_PADDED ? " padded" : " grouped");
        ck_assert_msg(strcmp(luo_str_get(&text[v]), luo_str_get(&text[0])) == 0,
                      "LUO_SEED=%llu: programs differ in more than `%s`", (unsigned long long)seed,
                      word);
    }
    const luo_programs *own = compile(&d, NULL, seed);
    for (int32_t r = 0; r < own->nroles; r++)
        for (int32_t k = 0; k < own->roles[r].ninstr; k++)
            if (own->roles[r].instr[k].v) chosen[own->roles[r].instr[k].variant]++;
    for (int v = 0; v < LUO_COLL_VARIANTS; v++) luo_str_free(&text[v]);
    luo_arena_free(d.a);
}

START_TEST(programs_differ_in_a_word)
{
    const uint64_t first = luo_prop_first();
    const uint64_t cases = luo_prop_env("LUO_CASES", CASES) * luo_prop_env("LUO_SCALE", 1);
    for (uint64_t k = 0; k < cases; k++) check(first + k);
    printf("%d gathers, %d scatters; %d of equal pieces, %d empty pieces; the "
           "planner's own of uneven pieces: %d padded, %d grouped, %d neither\n",
           gathers, scatters, even, zeros, chosen[LUO_COLL_PADDED], chosen[LUO_COLL_GROUPED],
           chosen[LUO_COLL_AUTO]);
    if (!getenv("LUO_CASES"))
        ck_assert(gathers && scatters && even && zeros && chosen[LUO_COLL_PADDED] &&
                  chosen[LUO_COLL_GROUPED]);
}
END_TEST

LUO_MAIN("prop.variant", programs_differ_in_a_word, 1)
