/* check_bucket.c: which tensors travel together (docs/architecture/gradients.md#buckets and vectors
 * B of 8), the calls in the text of a program, and what luo_program_check says of wrong ones. */
#include "core/graph/program/program.h"
#include "core/plan/compile.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"
#include "tests/parked/program_parse.h"

enum { MODELS = 3 };

static luo_model model_of(int k)
{
    luo_model m = k == 0 ? luo_test_gpt(4, 64, 8, 256) : luo_test_gpt(24, 1024, 16, 50257);
    m.max_sequence_tokens = k == 0 ? 128 : 1024;
    if (k == 2) m = luo_test_llama(32, 4096, 11008, 32, 32000);
    return m;
}

static luo_plan *plan_of(luo_arena *a, const luo_model *m, int32_t replicas, luo_bucketing bucket)
{
    luo_str line = {0};
    for (int32_t d = 0; d < replicas; d++)
        luo_str_addf(&line, "%s1: [%d]*%d", d ? " || " : "", (int)d, (int)m->layers);
    luo_plan *p = luo_test_plan(a, luo_str_get(&line));
    luo_str_free(&line);
    p->sequence_tokens = 128;
    ((luo_pipeline *)p->pipelines)[0].micro_batch_sequences = 1;
    p->bucket = bucket;
    return p;
}

static luo_programs *compiled(luo_arena *a, const luo_plan *p, const luo_model *m)
{
    const luo_compile_opts opts = {.check = true};
    luo_programs *set;
    luo_err err = {0};
    ck_assert_msg(luo_plan_compile(a, p, m, NULL, &opts, &set, &err) == LUO_OK, "%s", err.text);
    return set;
}

static bool is_bucket(const luo_instr *i)
{
    return i->kind == LUO_INSTR_COLLECTIVE && i->phase == LUO_PHASE_POST && i->npieces > 0;
}

/* ---- vectors B ---- */

static const struct {
    int model;
    luo_bucketing bucket;
    int32_t replicas, buckets;
    int64_t first, last, largest;
} vectors[] = {
    {0, {LUO_BUCKET_MIB, true, 1e-6, 0}, 2, 68, 256, 65536, 65536}, /* each reaches the cap */
    {0, {LUO_BUCKET_MIB, true, 0.125, 0}, 2, 7, 132864, 98816, 133632},
    {0, {LUO_BUCKET_MIB, false, 0, 0}, 2, 1, 898560, 898560, 898560},
    {0, {LUO_BUCKET_DDP, false, 0, 0}, 2, 1, 898560, 898560, 898560},
    {0, {LUO_BUCKET_MEGATRON, false, 0, 0}, 8, 1, 898560, 898560, 898560},
    {0, {LUO_BUCKET_MEGATRON, false, 0, 0}, 128, 1, 898560, 898560, 898560},
    {0, {LUO_BUCKET_DEEPSPEED, false, 0, 0}, 2, 1, 898560, 898560, 898560},
    {0, {LUO_BUCKET_UNIT, false, 0, 0}, 2, 6, 512, 98304, 199936},
    {1, {LUO_BUCKET_MIB, true, 1e-6, 0}, 2, 388, 4096, 205852672, 205852672},
    {1, {LUO_BUCKET_MIB, true, 0.125, 0}, 2, 146, 16789504, 205852672, 205852672},
    {1, {LUO_BUCKET_MIB, false, 0, 0}, 2, 37, 33583104, 214249472, 214249472},
    {1, {LUO_BUCKET_DDP, false, 0, 0}, 2, 37, 16789504, 226856960, 226856960},
    {1, {LUO_BUCKET_MEGATRON, false, 0, 0}, 8, 8, 167944192, 243650560, 243650560},
    {1, {LUO_BUCKET_MEGATRON, false, 0, 0}, 128, 3, 520638464, 378011648, 520642560},
    {1, {LUO_BUCKET_DEEPSPEED, false, 0, 0}, 2, 1, 1419292672, 1419292672, 1419292672},
    {1, {LUO_BUCKET_UNIT, false, 0, 0}, 2, 26, 8192, 210046976, 210046976},
    {2, {LUO_BUCKET_MIB, true, 1e-6, 0}, 2, 291, 524288000, 524288000, 524288000},
    {2, {LUO_BUCKET_MIB, true, 0.125, 0}, 2, 226, 524288000, 524304384, 524304384},
    {2, {LUO_BUCKET_MIB, true, 25, 0}, 2, 226, 524288000, 524304384, 524304384},
    {2, {LUO_BUCKET_DDP, false, 0, 0}, 2, 226, 524288000, 524304384, 524304384},
    {2, {LUO_BUCKET_MEGATRON, false, 0, 0}, 8, 130, 524288000, 591413248, 591413248},
    {2, {LUO_BUCKET_MEGATRON, false, 0, 0}, 128, 44, 524288000, 973111296, 973111296},
    {2, {LUO_BUCKET_DEEPSPEED, false, 0, 0}, 2, 14, 1942028288, 1782644736, 1979793408},
    {2, {LUO_BUCKET_UNIT, false, 0, 0}, 2, 34, 524304384, 524288000, 809533440},
};

START_TEST(vector_b)
{
    static const int64_t sums[MODELS] = {898560, 1419292672, 26953662464};
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_model m = model_of(vectors[_i].model);
    const luo_programs *set =
        compiled(a, plan_of(a, &m, vectors[_i].replicas, vectors[_i].bucket), &m);
    const luo_role *r = &set->roles[set->at[0].role];
    int32_t n = 0;
    int64_t first = 0, last = 0, largest = 0, sum = 0;
    for (int32_t i = 0; i < r->ninstr; i++) {
        if (!is_bucket(&r->instr[i])) continue;
        last = r->instr[i].bytes;
        if (n++ == 0) first = last;
        if (last > largest) largest = last;
        sum += last;
    }
    ck_assert_int_eq(n, vectors[_i].buckets);
    ck_assert_int_eq(first, vectors[_i].first);
    ck_assert_int_eq(last, vectors[_i].last);
    ck_assert_int_eq(largest, vectors[_i].largest);
    ck_assert_int_eq(sum, sums[vectors[_i].model]);
    luo_arena_free(a);
}
END_TEST

/* Tensors of the seven buckets of tiny-gpt. */
START_TEST(tensors_of_a_bucket)
{
    static const int32_t tensors[] = {6, 14, 12, 6, 14, 12, 4};
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_model m = model_of(0);
    const luo_bucketing b = {LUO_BUCKET_MIB, true, 0.125, 0};
    const luo_programs *set = compiled(a, plan_of(a, &m, 2, b), &m);
    const luo_role *r = &set->roles[set->at[0].role];
    int32_t n = 0;
    for (int32_t i = 0; i < r->ninstr; i++) {
        if (!is_bucket(&r->instr[i])) continue;
        ck_assert_int_lt(n, LUO_ROWS(tensors));
        ck_assert_int_eq(r->instr[i].npieces, tensors[n++]);
        ck_assert_int_eq(set->exchanges[r->instr[i].exchange].nparts, r->instr[i].npieces);
    }
    ck_assert_int_eq(n, LUO_ROWS(tensors));
    luo_arena_free(a);
}
END_TEST

/* ---- when a bucket is full ---- */

START_TEST(closing)
{
    const luo_bucket_item items[] = {/* keys 0 and 1 come by turns; units 0 0 1 1 1 2 */
                                     {0, 0, true, 100, 400}, {1, 0, true, 900, 3600},
                                     {0, 1, true, 100, 400}, {0, 1, true, 100, 400},
                                     {1, 1, true, 900, 3600}, {0, 2, true, 100, 400}};
    static const int32_t expected[] = {0, 1, 2, 2, 3, 2};
    luo_arena *a = luo_arena_new(1 << 12);
    const luo_bucketing b = {LUO_BUCKET_MIB, true, 1, 0};
    int32_t bucket[6], n;
    luo_err err;
    ck_assert_int_eq(luo_bucket_close(a, b, 2, items, 6, 2, bucket, &n, &err), LUO_OK);
    ck_assert_int_eq(n, 4); /* weights: the first bucket of a key ends with its first unit */
    for (int i = 0; i < 6; i++) ck_assert_int_eq(bucket[i], expected[i]);
    luo_arena_free(a);
}
END_TEST

START_TEST(who_decides)
{
    const luo_bucketing none = {0}, ddp = {LUO_BUCKET_DDP, false, 0, 0}, three = {0, true, 3, 0};
    ck_assert_int_eq(luo_bucketing_of(none, none).rule, LUO_BUCKET_MEGATRON);
    ck_assert_int_eq(luo_bucketing_of(none, none).lanes, 2);
    ck_assert(luo_bucketing_is_off(luo_bucketing_of((luo_bucketing){0, true, 0, 3}, none)));
    ck_assert_int_eq(luo_bucketing_of((luo_bucketing){0, true, 0, 3}, ddp).lanes, 3);
    ck_assert_int_eq(luo_bucketing_of(none, ddp).rule, LUO_BUCKET_DDP);
    const luo_bucketing b = luo_bucketing_of(three, ddp);
    ck_assert(b.rule == LUO_BUCKET_MIB && b.mib == 3 && !luo_bucketing_is_off(b));
    ck_assert(luo_bucketing_of((luo_bucketing){LUO_BUCKET_MIB, false, 0, 0}, ddp).mib == 25);
}
END_TEST

/* ---- text and check ---- */

static luo_programs *small(luo_arena *a)
{
    const luo_model m = model_of(0);
    const luo_bucketing b = {LUO_BUCKET_MIB, true, 0.125, 0};
    return compiled(a, plan_of(a, &m, 2, b), &m);
}

START_TEST(text_of_pieces)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_programs *set = small(a), *again;
    luo_str one = {0}, two = {0};
    luo_err err = {0};
    luo_program_print(&one, set, -1);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&one), " pieces "));
    ck_assert_msg(luo_program_parse(a, luo_str_get(&one), &again, &err) == LUO_OK, "%s", err.text);
    luo_program_print(&two, again, -1);
    ck_assert_str_eq(luo_str_get(&one), luo_str_get(&two));
    ck_assert_uint_eq(set->hash, again->hash);
    luo_str_free(&one);
    luo_str_free(&two);
    luo_arena_free(a);
}
END_TEST

/* Lane 0 is left out, so that programs of one lane read and hash as if there were no others. */
START_TEST(text_of_lanes)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_programs *set = small(a), *again;
    luo_role *r = (luo_role *)&set->roles[0];
    luo_str one = {0}, two = {0};
    luo_err err = {0};
    luo_program_print(&one, set, -1);
    ck_assert_ptr_null(strstr(luo_str_get(&one), " lane "));
    luo_str_clear(&one);
    for (int32_t i = 0, n = 0; i < r->ninstr; i++)
        if (is_bucket(&r->instr[i]))
            ((luo_instr *)&r->instr[i])->lane = (uint8_t)(n++ % LUO_DP_LANES);
    luo_program_print(&one, set, -1);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&one), " lane 3 op "));
    ck_assert_msg(luo_program_parse(a, luo_str_get(&one), &again, &err) == LUO_OK, "%s", err.text);
    luo_program_print(&two, again, -1);
    ck_assert_str_eq(luo_str_get(&one), luo_str_get(&two));
    ck_assert_uint_ne(set->hash, again->hash);
    ck_assert_int_eq(luo_program_check(a, again, &err), LUO_OK);
    char *lane = strstr(luo_str_get(&one), " lane 3 op ");
    lane[6] = '4';
    ck_assert_int_eq(luo_program_parse(a, luo_str_get(&one), &again, &err), LUO_EPARSE);
    ck_assert_msg(strstr(err.text, "a lane from 0 to 3") != NULL, "%s", err.text);
    luo_str_free(&one);
    luo_str_free(&two);
    luo_arena_free(a);
}
END_TEST

/* The first call of a bucket on one role, to be spoiled; and the pieces of it. */
static luo_instr_piece *pieces_of(luo_programs *set, int32_t role, luo_instr **instr)
{
    luo_role *r = (luo_role *)&set->roles[role];
    for (int32_t i = 0; i < r->ninstr; i++)
        if (is_bucket(&r->instr[i])) {
            *instr = (luo_instr *)&r->instr[i];
            return (luo_instr_piece *)(*instr)->piece;
        }
    ck_abort_msg("no bucket");
    return NULL;
}

START_TEST(wrong_pieces)
{
    static const char *const said[] = {
        "a piece names a buffer that the role does not have", "a piece ends outside of its buffer",
        "its pieces are not its bytes", "it reads and writes other buffers than its pieces'",
        "only a collective has pieces", "only communication of stream dp has a lane, 0 to 3",
        "only communication of stream dp has a lane, 0 to 3", NULL};
    luo_arena *a = luo_arena_new(1 << 20), *scratch = luo_arena_new(1 << 16);
    luo_programs *set = small(a);
    luo_instr *i = NULL;
    luo_err err = {0};
    luo_instr_piece *p = pieces_of(set, set->at[0].role, &i);
    switch (_i) {
    case 0: p[0].buffer = -1; break;
    case 1:
        ((int64_t *)set->roles[set->at[0].role].offset)[i->first_piece] = 1;
        break;
    case 2: p[0].count--; break;
    case 3: p[0] = p[1]; break;
    case 4: i->kind = LUO_INSTR_COMPUTE; i->slot = -1; break;
    case 5: i->lane = LUO_DP_LANES; break;
    case 6: ((luo_instr *)set->roles[0].instr)[0].lane = 1; break;
    default: break;
    }
    const luo_status st = luo_program_check(scratch, set, &err);
    if (said[_i]) {
        ck_assert_int_eq(st, LUO_EINPUT);
        ck_assert_msg(strstr(err.text, said[_i]) != NULL, "%s", err.text);
    } else {
        ck_assert_msg(st == LUO_OK, "%s", err.text);
    }
    luo_arena_free(scratch);
    luo_arena_free(a);
}
END_TEST

/* Two devices of roles of their own: one has moved an element from one piece to another. */
START_TEST(different_pieces)
{
    luo_arena *a = luo_arena_new(1 << 20), *scratch = luo_arena_new(1 << 16);
    luo_programs *set = small(a);
    luo_role *roles = LUO_NEW_N(a, luo_role, 2);
    luo_program *at = (luo_program *)set->at;
    luo_err err = {0};
    ck_assert(set->n == 2 && set->nroles == 1);
    roles[0] = roles[1] = set->roles[0];
    luo_instr *own = LUO_NEW_N(a, luo_instr, roles[0].ninstr), *i = NULL;
    memcpy(own, roles[0].instr, (size_t)roles[0].ninstr * sizeof *own);
    roles[1].instr = own;
    set->roles = roles;
    set->nroles = 2;
    at[1].role = 1;
    const luo_instr_piece *was = pieces_of(set, 1, &i);
    luo_instr_piece *p = LUO_NEW_N(a, luo_instr_piece, i->npieces);
    memcpy(p, was, (size_t)i->npieces * sizeof *p);
    const int32_t last = i->npieces - 1;
    luo_buffer *buf = (luo_buffer *)roles[1].buf; /* with room for it */
    buf[p[last].buffer].bytes += buf[p[last].buffer].elem_bytes;
    p[last].count++;
    p[0].count--;
    i->piece = p;
    ck_assert_int_eq(luo_program_check(scratch, set, &err), LUO_EINPUT);
    const char *said = "devices 0 and 1 meet with different pieces in `bucket.";
    ck_assert_msg(strstr(err.text, said) != NULL, "%s", err.text);
    luo_arena_free(scratch);
    luo_arena_free(a);
}
END_TEST

/* Pieces of a call are neighbours in memory in their order, then the other weights, gradients and
 * states; a call need not be packed where its pieces are whole tensors that follow each other. */
static const struct {
    int32_t coll, first[3]; /* turns of buffers 0, 1 and 2 */
    int32_t npieces;
    int64_t count, bytes; /* of the last piece, and of its buffer, in elements of 2 bytes */
    bool adjoins;
} neighbours[] = {
    {LUO_COLL_AR, {0, 1, 2}, 3, 64, 128, true},  {LUO_COLL_AR, {4, 5, 6}, 3, 64, 128, true},
    {LUO_COLL_AR, {0, 1, 2}, 3, 50, 100, true},  /* nothing has to follow the last one */
    {LUO_COLL_AR, {0, 1, 2}, 3, 63, 128, false}, /* a part of a tensor */
    {LUO_COLL_AR, {0, 1, 3}, 3, 64, 128, false}, {LUO_COLL_AR, {0, 2, 1}, 3, 64, 128, false},
    {LUO_COLL_AR, {2, 1, 0}, 3, 64, 128, false}, {LUO_COLL_AR, {2, 1, 0}, 1, 64, 128, true},
    {LUO_COLL_RS, {0, 1, 2}, 3, 64, 128, false}, /* every rank has a part of each */
};

START_TEST(pieces_that_adjoin)
{
    luo_buffer buf[3] = {{.elem_bytes = 2, .bytes = 128},
                         {.elem_bytes = 2, .bytes = 128},
                         {.elem_bytes = 2, .bytes = 128}};
    luo_instr_piece piece[3] = {{0, 64}, {1, 64}, {2, 64}};
    const luo_role role = {.nbuf = 3, .buf = buf};
    const luo_instr instr = {
        .coll = (uint8_t)neighbours[_i].coll, .piece = piece, .npieces = neighbours[_i].npieces};
    piece[neighbours[_i].npieces - 1].count = neighbours[_i].count;
    buf[neighbours[_i].npieces - 1].bytes = neighbours[_i].bytes;
    ck_assert_int_eq(luo_instr_adjoins(&role, neighbours[_i].first, &instr),
                     neighbours[_i].adjoins);
    buf[0].bytes = 100; /* the next one begins behind a gap */
    piece[0].count = 50;
    ck_assert_int_eq(luo_instr_adjoins(&role, neighbours[_i].first, &instr),
                     neighbours[_i].adjoins && neighbours[_i].npieces == 1);
}
END_TEST

START_TEST(order_in_memory)
{
    const luo_buffer buf[6] = {
        {.buffer_class = LUO_BUFFER_WEIGHT},    {.buffer_class = LUO_BUFFER_GRADIENT},
        {.buffer_class = LUO_BUFFER_STASH},     {.buffer_class = LUO_BUFFER_GRADIENT},
        {.buffer_class = LUO_BUFFER_OPTIMIZER}, {.buffer_class = LUO_BUFFER_GRADIENT}};
    const luo_instr_piece piece[2] = {{3, 1}, {1, 1}}, scattered = {5, 1};
    const luo_instr instr[2] = {{.coll = LUO_COLL_RS, .npieces = 1, .piece = &scattered},
                                {.coll = LUO_COLL_AR, .npieces = 2, .piece = piece}};
    const luo_role role = {.nbuf = 6, .buf = buf, .ninstr = 2, .instr = instr};
    static const int32_t want[6] = {2, 1, -1, 0, 3, 4};
    int32_t turn[6];
    luo_role_order(&role, turn);
    for (int i = 0; i < 6; i++) ck_assert_int_eq(turn[i], want[i]);
}
END_TEST

LUO_SUITE("bucket", LUO_T_N(vector_b, LUO_ROWS(vectors)), LUO_T(tensors_of_a_bucket),
          LUO_T(closing), LUO_T(who_decides), LUO_T(text_of_pieces), LUO_T(text_of_lanes),
          LUO_T_N(pieces_that_adjoin, LUO_ROWS(neighbours)), LUO_T(order_in_memory),
          LUO_T_N(wrong_pieces, 8), LUO_T(different_pieces))
