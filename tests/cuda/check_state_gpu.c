/* check_state_gpu.c: state between host arrays and the device, for single devices of
 * random plans with pieces cut from their weights, in f32 and bf16: every cell comes to its place
 * and back, through windows of any size, and nothing else is written. Lists of cells are packed,
 * unpacked and carried from job to job, slice by slice. */
#include "exec/bind/cells.h"
#include "exec/cuda/comm/packed.h"
#include "tests/cuda/gpu_case.h"
#include "tests/exec/state_make.h"
#include "tests/plan_random.h"

static plan_tally plans;
static struct {
    int64_t jobs, pieces, cut, several, cells, segments, slices;
} met;

static luo_err err;
#define OK(call) ck_assert_msg((call) == LUO_OK, "%s: %s", #call, err.text)

/* ---- one device of a plan, without its peers ---- */

typedef struct lone {
    luo_exec x;
    luo_job job;
    unsigned char *image; /* of the slab */
} lone;

static int64_t offset_of(const luo_job *j, int32_t buffer)
{
    return j->bound.layout.at[buffer];
}

/* What gpu_bind_update makes, without the gradients. */
static void make_chunks(luo_arena *a, luo_job *j)
{
    const luo_bound *b = &j->bound;
    void *p;
    int64_t n = 0;
    for (int32_t i = 0; i < b->npairs; i++) n += b->pair[i].ncells;
    gpu_update_chunk *at = LUO_NEW_N(a, gpu_update_chunk, n);
    for (int32_t i = 0; i < b->npairs; i++)
        for (int32_t k = 0; k < b->pair[i].ncells; k++) {
            const luo_cells *c = &b->pair[i].cells[k];
            const gpu_piece w = gpu_piece_at(j, (int32_t)(b->pair[i].piece - b->piece));
            ck_assert_int_le(c->n, GPU_CHUNK);
            at[j->nupdate++] = (gpu_update_chunk){.master = w.master + c->state,
                                                  .weight = (char *)w.weight + 2 * c->weight,
                                                  .n = (int32_t)c->n};
        }
    OK(gpu_alloc(n * (int64_t)sizeof *at, "chunks", &p, &err));
    GPU_CASE_OK(cudaMemcpy(p, at, (size_t)n * sizeof *at, cudaMemcpyHostToDevice));
    GPU_CASE_OK(cudaDeviceSynchronize());
    j->update_chunk = p;
}

static void look(lone *l)
{
    GPU_CASE_OK(
        cudaMemcpy(l->image, l->job.slab, (size_t)l->job.slab_bytes, cudaMemcpyDeviceToHost));
}

static void open_lone(lone *l, luo_arena *a, const luo_rank_config *config, const luo_programs *set,
                      const luo_recipe *recipe, int64_t window)
{
    void *p;
    memset(l, 0, sizeof *l);
    l->x.config = *config;
    l->x.device = config->device_of[config->rank];
    l->x.window = window;
    GPU_CASE_OK(cudaStreamCreateWithFlags(&l->x.stream[LUO_STREAM_MOVE], cudaStreamNonBlocking));
    l->job = (luo_job){.x = &l->x, .arena = a};
    OK(luo_bind(a, &l->x.config, set, recipe, &l->job.bound, &err));
    l->job.slab_bytes = l->job.bound.layout.bytes;
    OK(gpu_alloc(l->job.slab_bytes, "slab", &p, &err));
    l->job.slab = p;
    GPU_CASE_OK(cudaMemset(p, 0xff, (size_t)l->job.slab_bytes));
    GPU_CASE_OK(cudaDeviceSynchronize());
    OK(gpu_state_bind(&l->job, &err));
    make_chunks(a, &l->job);
    l->image = LUO_NEW_N(a, unsigned char, l->job.slab_bytes);
    met.jobs++;
}

static void close_lone(lone *l)
{
    gpu_state_unbind(&l->job);
    gpu_free((void *)(uintptr_t)l->job.update_chunk);
    gpu_free(l->job.slab);
    GPU_CASE_OK(cudaStreamDestroy(l->x.stream[LUO_STREAM_MOVE]));
}

/* ---- cells, one by one ---- */

static uint16_t bf16_of(float x) /* to the nearest, ties to even */
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

typedef struct seeker {
    const luo_param *param;
    const char *array;
    int which;
    bool half;           /* bf16 */
    unsigned char *mark; /* per byte of the slab: it belongs to a piece */
    int64_t seen;
} seeker;

static void seek(void *ctx, int64_t global, int64_t local, int64_t n)
{
    seeker *s = ctx;
    for (int64_t i = 0; i < n; i++, s->seen++) {
        const float want = (float)state_true(s->param, s->which, global + i);
        const int64_t at = (local + i) * (s->half ? 2 : 4);
        const uint16_t rounded = bf16_of(want);
        const void *truth = s->half ? (const void *)&rounded : &want;
        ck_assert_msg(memcmp(s->array + at, truth, s->half ? 2 : 4) == 0,
                      "%s, array %d%s, cell %lld", s->param->name, s->which,
                      s->half ? " in bf16" : "", (long long)(global + i));
        memset(s->mark + at, 1, s->half ? 2 : 4);
    }
}

/* An array of the image against the truth, in its frame, only cells of the piece. */
static void check_array(lone *l, int32_t i, int which, bool half, int64_t at, const luo_frame *f,
                        unsigned char *mark)
{
    const luo_piece *p = &l->job.bound.piece[i];
    seeker s = {p->param, (const char *)l->image + at, which, half, mark + at, 0};
    luo_cells_each(&p->param->shape, &f->region, &p->piece, seek, &s);
    ck_assert_int_eq(s.seen, luo_region_volume(&p->piece));
    met.cells += s.seen;
}

/* State lies where exec/bind/bound.h says; what else was written are weights of others, which are
 * 0. */
static void check_slab(luo_arena *a, lone *l)
{
    const luo_bound *b = &l->job.bound;
    unsigned char *mark = LUO_NEW_N(a, unsigned char, l->job.slab_bytes);
    const bool half = b->config->dtype == LUO_BF16;
    look(l);
    for (int32_t i = 0; i < b->npieces; i++) {
        const luo_piece *p = &b->piece[i];
        if (p->piece.empty) continue;
        const int64_t w = offset_of(&l->job, b->weight_buffer[i]);
        const int64_t s = offset_of(&l->job, b->state_buffer[i]), run = 4 * p->state_frame.volume;
        check_array(l, i, 0, half, w, &p->weight_frame, mark);
        if (half) check_array(l, i, 0, false, s, &p->state_frame, mark);
        check_array(l, i, 1, false, s + run * half, &p->state_frame, mark);
        check_array(l, i, 2, false, s + run * (1 + half), &p->state_frame, mark);
        for (int64_t k = 0; k < luo_bound_desc(b, b->weight_buffer[i])->bytes && !half; k++)
            mark[w + k] |= l->image[w + k] == 0;
        met.pieces++;
        met.cut += p->state_frame.volume < p->weight_frame.volume;
        if (half) continue;
        luo_copy_segments several;
        OK(luo_frame_segments(a, &p->weight_frame, &p->piece, &several, &err));
        met.several += several.n > 1;
    }
    for (int64_t k = 0; k < l->job.slab_bytes; k++)
        ck_assert_msg(mark[k] || l->image[k] == 0xff, "byte %lld was written", (long long)k);
}

/* Fills or checks what gpu_state gives. */
static void walk_arrays(luo_state *s, bool check)
{
    for (int32_t i = 0; i < s->n; i++)
        for (int which = 0; which < 3; which++) {
            const luo_piece *p = &s->at[i];
            const luo_frame *f;
            state_walk k = {.param = p->param, .which = which, .elem = 4, .check = check};
            k.array = luo_piece_array(p, (luo_array)which, &f);
            ck_assert_int_eq(k.array == NULL, p->piece.empty);
            if (k.array) luo_cells_each(&p->param->shape, &f->region, NULL, state_walk_run, &k);
            ck_assert_int_eq(k.seen, p->state_frame.volume);
            ck_assert_int_eq(k.wrong, 0);
        }
}

/* ---- there and back ---- */

static void there_and_back(luo_arena *a, lone *l)
{
    luo_state *s = gpu_state(&l->job);
    ck_assert(s->elem == 4 && s->device == l->x.device && s->n == l->job.bound.npieces);
    OK(gpu_fetch(&l->job, false, &err));
    walk_arrays(s, false);
    OK(gpu_store(&l->job, true, &err));
    for (int32_t i = 0; i < s->n; i++) ck_assert(!s->at[i].weight && !s->at[i].m && !s->at[i].v);
    check_slab(a, l);
    OK(gpu_fetch(&l->job, true, &err));
    walk_arrays(s, true);
    OK(gpu_store(&l->job, false, &err));
    check_slab(a, l);
}

/* ---- lists of cells ---- */

static void launch_all(const gpu_packed *p, cudaStream_t stream, char *in, char *out, bool packs,
                       bool packed)
{
    for (int32_t k = 0; k < p->nslices; k++) {
        const int64_t at = packed ? 4 * k * p->slice[0].elements : 0;
        OK(gpu_packed_copy(p, k, stream, in + (packs ? 0 : at), out + (packs ? at : 0), &err));
    }
    GPU_CASE_OK(cudaStreamSynchronize(stream));
    met.slices += p->nslices;
}

static gpu_list list_of(luo_arena *a, luo_arena *scratch)
{
    return (gpu_list){.arena = a, .scratch = scratch, .err = &err};
}

/* The region in two parts, cut along a dimension, as a switch may move them. */
static void halve(luo_arena *a, luo_rng *r, const luo_region *whole, luo_region out[2])
{
    const int32_t d = (int32_t)luo_rng_pick(r, whole->rank);
    const luo_span s = whole->dim[d].at[0];
    const int64_t mid = s.lo + luo_rng_pick(r, s.hi - s.lo + 1);
    luo_span *at = LUO_NEW_N(a, luo_span, 2);
    at[0] = (luo_span){s.lo, mid};
    at[1] = (luo_span){mid, s.hi};
    for (int k = 0; k < 2; k++) {
        out[k] = *whole;
        out[k].dim[d].at = &at[k];
        out[k].empty = at[k].lo == at[k].hi;
    }
    if (whole->dim[d].n == 1) return;
    out[0] = *whole;
    out[1].empty = true;
}

static void add_region(lone *from, lone *to, bool carries, int32_t i, const luo_region *r,
                       gpu_list *out, gpu_list *in)
{
    if (r->empty) return;
    if (carries) {
        OK(gpu_list_carry(out, &from->job, &to->job, i, r));
        return;
    }
    OK(gpu_list_pack(out, &from->job, i, r));
    OK(gpu_list_pack(in, &to->job, i, r));
}

/* All pieces of `from` packed, and unpacked in `to`; or carried there: the same. */
static void send_state(luo_rng *r, luo_arena *a, lone *from, lone *to, bool carries, int64_t most)
{
    luo_arena *scratch = luo_arena_new(0);
    gpu_list out = list_of(a, scratch), in = list_of(a, scratch);
    gpu_packed p, q = {0};
    void *packed = NULL;
    const cudaStream_t stream = to->x.stream[LUO_STREAM_MOVE];
    for (int32_t i = 0; i < from->job.bound.npieces; i++) {
        luo_region half[2];
        if (from->job.bound.piece[i].piece.empty) continue;
        halve(a, r, &from->job.bound.piece[i].piece, half);
        for (int k = 0; k < 2; k++) add_region(from, to, carries, i, &half[k], &out, &in);
    }
    met.segments += out.n;
    OK(gpu_packed_make(&out, carries ? GPU_PACKED_CARRY : GPU_PACKED_PACK, most, &p));
    if (carries) {
        launch_all(&p, stream, from->job.slab, to->job.slab, true, false);
    } else {
        OK(gpu_packed_make(&in, GPU_PACKED_UNPACK, most, &q));
        OK(gpu_alloc(4 * p.elements, "packed", &packed, &err));
        launch_all(&p, stream, from->job.slab, packed, true, true);
        launch_all(&q, stream, packed, to->job.slab, false, true);
    }
    gpu_packed_free(&p);
    gpu_packed_free(&q);
    gpu_free(packed);
    OK(gpu_round_state(&to->job, &err));
    luo_arena_free(scratch);
}

static void one_device(luo_arena *a, luo_rng *r, const luo_rank_config *config,
                       const luo_programs *set, const luo_recipe *recipe)
{
    lone l, other;
    const int64_t window = 1 + luo_rng_pick(r, 3) * luo_rng_pick(r, 400);
    open_lone(&l, a, config, set, recipe, window);
    there_and_back(a, &l);
    open_lone(&other, a, config, set, recipe, window);
    send_state(r, a, &l, &other, luo_rng_pick(r, 2), 1 + luo_rng_pick(r, 3000));
    check_slab(a, &other);
    close_lone(&other);
    close_lone(&l);
}

/* Some devices of a plan. */
static void one_plan(luo_arena *a, luo_rng *r, luo_plan *p, const luo_model *m, int32_t devices)
{
    luo_programs *set = NULL;
    p->state_layout = (luo_state_layout){0};
    OK(luo_plan_compile(a, p, m, NULL, NULL, &set, &err));
    const luo_recipe recipe = {.plan = p, .sequence_tokens = p->sequence_tokens};
    int32_t *dev = LUO_NEW_N(a, int32_t, set->n);
    for (int32_t i = 0; i < set->n; i++) dev[i] = set->at[i].device;
    for (int32_t k = 0; k < devices; k++) {
        const luo_rank_config c = {.rank = (int32_t)luo_rng_pick(r, set->n),
                                   .nranks = set->n,
                                   .device_of = dev,
                                   .model = m,
                                   .dtype = p->dtype};
        one_device(a, r, &c, set, &recipe);
    }
}

static void one_case(uint64_t seed)
{
    luo_rng r = luo_rng_seed(seed);
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *p = plan_random(a, &r, &plans);
    p->dtype = seed % 2 ? LUO_BF16 : LUO_F32;
    luo_model m = luo_test_llama(p->layers, 8, 12, 4, 20);
    if (luo_rng_pick(&r, 3) == 0) m = luo_test_gpt(p->layers, 8, 4, 20);
    m.max_sequence_tokens = 24;
    one_plan(a, &r, p, &m, 2);
    luo_arena_free(a);
}

/* Pipelines that cut a weight otherwise share its state in pieces of several segments. */
static void one_line(const char *line, luo_dtype dtype)
{
    luo_rng r = luo_rng_seed(3);
    luo_arena *a = luo_arena_new(1 << 20);
    luo_plan *p = luo_test_plan(a, line);
    const luo_model m = luo_test_llama(p->layers, 16, 24, 4, 20);
    p->dtype = dtype;
    p->zero = 1;
    p->sequence_tokens = 16;
    one_plan(a, &r, p, &m, 4);
    luo_arena_free(a);
}

enum { CASES = 8 };

START_TEST(devices)
{
    static const char *const lines[] = {"2: [0,1]*2 || 1: [2]*2 || 1: [3]*2",
                                        "2: [0-3]*1 || 1: [4,5]*1 || 1: [6,7]*1"};
    for (int i = 0; i < 4; i++) one_line(lines[i / 2], i % 2 ? LUO_BF16 : LUO_F32);
    LUO_PROP_FOR(seed, CASES) one_case(seed);
    printf("%lld jobs, %lld pieces (%lld cut from their weight, %lld of f32 in several strips), "
           "%lld cells checked; %lld strips in %lld slices\n",
           (long long)met.jobs, (long long)met.pieces, (long long)met.cut, (long long)met.several,
           (long long)met.cells, (long long)met.segments, (long long)met.slices);
    fflush(stdout);
    if (luo_prop_env("LUO_CASES", CASES) < CASES) return;
    ck_assert(met.cut > 100 && met.several > 20 && met.segments > 2 * met.pieces);
    ck_assert(met.slices > 60);
}
END_TEST

/* A rank beside the plan has no state, and nothing happens to it; what was not fetched cannot be
 * stored. */
START_TEST(beside)
{
    luo_arena *a = luo_arena_new(1 << 18);
    luo_plan *p = luo_test_plan(a, "2: [0]*1 [1]*1");
    p->sequence_tokens = 16;
    const luo_model m = luo_test_llama(p->layers, 8, 12, 4, 20);
    const luo_recipe recipe = {.plan = p, .sequence_tokens = 16};
    const int32_t dev[3] = {0, 1, 5};
    luo_programs *set;
    luo_exec x = {
        .config = {.rank = 2, .nranks = 3, .device_of = dev, .model = &m, .dtype = LUO_F32},
        .device = 5,
        .window = 7};
    luo_job j = {.x = &x, .arena = a};
    p->dtype = LUO_F32;
    OK(luo_plan_compile(a, p, &m, NULL, NULL, &set, &err));
    OK(luo_bind(a, &x.config, set, &recipe, &j.bound, &err));
    OK(gpu_state_bind(&j, &err));
    OK(gpu_fetch(&j, true, &err));
    ck_assert(gpu_state(&j)->n > 10 && !gpu_state(&j)->at[0].weight);
    OK(gpu_store(&j, true, &err));
    OK(gpu_round_state(&j, &err));
    ck_assert_int_eq(gpu_store(&j, true, &err), LUO_EBUG);
    OK(gpu_store(&j, false, &err));
    gpu_state_unbind(&j);
    luo_arena_free(a);
}
END_TEST
LUO_SUITE("cuda.state", LUO_T(devices), LUO_T(beside))
