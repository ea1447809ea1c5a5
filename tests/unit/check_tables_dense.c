/* check_tables_dense.c: the dense part of models with tables by planner `hap`: its program in the
 * step is what its triples say, and it is taken where it is faster. */
#include <math.h>

#include "core/plan/hap/hap_cluster.h"
#include "tests/cost_fixture.h"
#include "tests/prop/prop.h"
#include "tests/tables_scene.h"

static const int64_t wide_layers[] = {4096, 4096, 4096}, bottom[] = {512, 256, 64, 16},
                     top[] = {512, 256};
static const luo_model dlrm = {.name = "d",
                               .family = LUO_FAMILY_DLRM,
                               .dtype = LUO_F32,
                               .features = {26, 33762577, 16, 13},
                               .bottom_mlp = {4, bottom},
                               .mlp = {2, top}};
static const luo_model wide = {.name = "w",
                               .family = LUO_FAMILY_WIDE_DEEP,
                               .dtype = LUO_F32,
                               .features = {26, 100000, 16, 13},
                               .mlp = {3, wide_layers}};

/* ---- random cases ---- */

typedef struct random_case {
    luo_model model;
    int64_t bottom[3], top[3];
    scene *scene;
    tables_layout l;
    luo_hap_job job;
    tables_dense dense;
    luo_hap_result *result;
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t layers, below;
} random_case;

static int64_t pick(luo_rng *rng, const int64_t *of, int32_t n)
{
    return of[luo_rng_pick(rng, n)];
}

static void pick_model(random_case *c, luo_rng *rng)
{
    static const int64_t columns[] = {2, 48, 384, 3000, 5000};
    const int64_t width = 2 + luo_rng_pick(rng, 6);
    c->model = wide;
    c->model.features = (luo_features){2 + luo_rng_pick(rng, 3), 500, width, 3};
    for (int i = 0; i < 3; i++) {
        c->top[i] = pick(rng, columns, 5);
        c->bottom[i] = pick(rng, columns, 5);
    }
    c->model.mlp = (luo_mlp){1 + (int32_t)luo_rng_pick(rng, 3), c->top};
    if (luo_rng_pick(rng, 2) == 0) return;
    c->model.family = LUO_FAMILY_DLRM;
    c->bottom[1] = width;
    c->model.bottom_mlp = (luo_mlp){2, c->bottom};
}

/* Two to four devices on nodes of their own or of one, some of them slow. */
static void pick_devices(random_case *c, luo_rng *rng, uint64_t seed)
{
    static const char *const clusters[] = {"scenarios/clusters/tiny8.yaml",
                                           "scenarios/clusters/v100x8-p100x21.yaml"};
    static const int64_t batches[] = {17, 61, 499};
    const int32_t n = 2 + (int32_t)luo_rng_pick(rng, 3), every = n == 4 ? 2 : 3;
    scene *s = open_scene(clusters[seed % 2], &c->model, pick(rng, batches, 3), seed);
    for (int32_t d = 0; d < s->cluster->ndevices; d++) {
        s->candidate[d] = d % every == 1 && d / every < n;
        if (seed % 3) s->rate[d] = 1 + (double)luo_rng_pick(rng, 3);
    }
    c->scene = s;
}

/* Planner `hap` is asked. */
static void answer_case(random_case *c, uint64_t seed)
{
    luo_err err = {0};
    c->layers = luo_model_dense_layers(&c->model, c->layer, &c->below);
    ck_assert_int_eq(tables_layout_open(arena, &c->scene->in, &c->l, NULL), LUO_OK);
    ck_assert_msg(tables_dense_ask(arena, &c->l, &c->job, &c->dense, &c->result, &err) == LUO_OK,
                  "seed %llu: %s", (unsigned long long)seed, err.text);
    c->l.hap = &c->dense;
}

static void open_case(random_case *c, uint64_t seed, const luo_hap_job *job)
{
    luo_rng rng = luo_rng_seed(seed);
    *c = (random_case){.job = *job};
    pick_model(c, &rng);
    pick_devices(c, &rng, seed);
    answer_case(c, seed);
}

/* ---- data-parallel ---- */

/* Restricted to samples, planner `hap` says what is said without it: the same programs. */
START_TEST(by_samples_it_is_data_parallel)
{
    const luo_hap_job job = {.opts = {.rules = "b"}, .no_memory = true};
    const tables_traffic plain = tables_traffic_plain();
    LUO_PROP_FOR(seed, 30)
    {
        random_case c;
        open_case(&c, seed, &job);
        ck_assert(tables_dense_is_parallel(&c.dense, c.layers));
        ck_assert_str_eq(tables_dense_text(arena, &c.model, &c.dense), "");
        for (int deal = 0; deal < LUO_TABLES_DEALS; deal++) {
            tables_layout_deal(arena, &c.l, (luo_tables_deal)deal, NULL);
            tables_layout_serve(arena, &c.l, 2, NULL);
            for (luo_tables_way way = 0; way < LUO_TABLES_WAYS; way++) {
                if (luo_tables_way_of(way)->dense == LUO_TABLES_SERVERS) continue;
                const luo_programs *cut = step(&c.l, way, &c.dense, &plain);
                const luo_programs *not = step(&c.l, way, NULL, &plain);
                ck_assert_msg(cut->hash == not ->hash, "seed %llu, %s", (unsigned long long)seed,
                              luo_tables_way_of(way)->name);
                if (deal == 0 && way == 0 && seed % 10 == 0)
                    luo_near(simulate(c.scene, cut), simulate(c.scene, not ), 1e-9, "seconds");
            }
        }
        close_scene();
    }
}
END_TEST

/* ---- what a program does, counted from the triples ---- */

typedef struct counted {
    double products, activations; /* FLOP; bytes */
    double moved[LUO_COLLS];      /* bytes, by collective */
    int32_t calls[LUO_COLLS];
    double weights; /* elements kept */
    double values;  /* bytes kept until backward */
} counted;

typedef struct lengths { /* of planner `hap`, by worker */
    const random_case *c;
    luo_hap_cuts *cuts;
    int32_t place[4];
} lengths;

static lengths lengths_of(const random_case *c)
{
    lengths out = {.c = c};
    luo_hap_devices d;
    const luo_hap_result *r = c->result;
    ck_assert_int_eq(
        luo_hap_devices_of(arena, c->scene->cluster, c->l.dev, c->l.n, c->scene->rate, &d, NULL),
        LUO_OK);
    ck_assert_int_eq(
        luo_hap_program_cuts(arena, r->program->space, &r->numbers, r->shares, &out.cuts, NULL),
        LUO_OK);
    for (int32_t w = 0; w < c->l.n; w++)
        while (d.device[out.place[w]] != c->l.dev[w]) out.place[w]++;
    return out;
}

/* Part of an extent that worker w has; samples are dealt apart. */
static double part(const lengths *x, int32_t ext, int32_t w)
{
    if (ext < 0) return 1;
    const int64_t extent = x->cuts->extent[ext];
    if (extent == x->c->l.in->batch) return (double)x->c->l.samples[w] / (double)extent;
    return x->cuts->length[ext * x->c->l.n + x->place[w]] / (double)extent;
}

static double most(const lengths *x, int32_t ext)
{
    double out = 0;
    for (int32_t w = 0; w < x->c->l.n; w++) out = fmax(out, part(x, ext, w));
    return out;
}

static void count_calls(const lengths *x, const luo_hap_triple *t, counted *out)
{
    static const luo_coll colls[] = {[LUO_HAP_MOVE_AG] = LUO_COLL_AG,
                                     [LUO_HAP_MOVE_RS] = LUO_COLL_RS,
                                     [LUO_HAP_MOVE_AR] = LUO_COLL_AR,
                                     [LUO_HAP_MOVE_A2A] = LUO_COLL_A2A};
    for (int32_t i = 0; i < t->ncoll; i++) {
        const luo_hap_coll *c = &t->coll[i];
        ck_assert_int_ne(c->kind, LUO_HAP_MOVE_RE);
        const double share =
            c->kind == LUO_HAP_MOVE_A2A ? fmax(most(x, c->ext), most(x, c->ext2)) : 1;
        out->moved[colls[c->kind]] += share * c->bytes;
        out->calls[colls[c->kind]]++;
    }
}

/* Steps do not gather again what no gradient reads: biases, and weights where no one wants the
 * gradient of what the layer was given. */
static void leave_out_unread(const luo_hap_graph *g, const luo_hap_triple *t, counted *out)
{
    const luo_hap_op *op = &g->op[t->op];
    for (int32_t j = 1; j < op->nin; j++) {
        if (t->take[j].how != LUO_HAP_HOW_ZERO) continue;
        if (j == op->weight && luo_hap_graph_trains(g, op->in[0])) continue;
        out->moved[LUO_COLL_AG] -= (double)g->tensor[op->in[j]].bytes;
        out->calls[LUO_COLL_AG]--;
    }
}

static bool is_activation(const luo_hap_op *op)
{
    return strstr(op->name, ".activation") != NULL;
}

/* Bytes of a tensor in that relation. */
static double size_of(const lengths *x, int32_t tensor, luo_rel rel, int32_t w)
{
    const luo_hap_space *space = x->c->result->program->space;
    const luo_hap_tensor *t = &space->graph->tensor[tensor];
    const int32_t ext = rel.kind == LUO_REL_G ? luo_hap_space_extent(space, t->dim[rel.dim]) : -1;
    return (double)t->bytes * part(x, ext, w);
}

/* What a product makes and what is moved: activations take the place of what they read. */
static double values_of(const lengths *x, int32_t o, const luo_hap_triple *t, int32_t w)
{
    const luo_hap_program *p = x->c->result->program;
    const luo_hap_op *op = &p->space->graph->op[o];
    const luo_rel out = p->space->rule[o][t->rule].out[0];
    double bytes = op->kind == LUO_HAP_LINEAR ? size_of(x, op->out[0], out, w) : 0;
    for (int32_t j = 0; j < op->nin; j++)
        if (t->take[j].how >= LUO_HAP_HOW_GATHER && t->take[j].how != LUO_HAP_HOW_SLICE)
            bytes += size_of(x, op->in[j], t->take[j].to, w);
    return bytes;
}

static counted count_triples(const lengths *x, int32_t w)
{
    const luo_hap_program *p = x->c->result->program;
    const luo_hap_graph *g = p->space->graph;
    counted out = {0};
    for (int32_t o = 0; o < g->nops; o++) {
        const luo_hap_triple *t = &p->space->triple[p->choice[o]];
        const luo_hap_op *op = &g->op[o];
        const double has = part(x, t->ext, w), bias = op->bias < 0 ? 0 : op->backward[op->bias];
        const bool factors = op->bias >= 0 && t->take[1].how == LUO_HAP_HOW_FACTORS;
        luo_hap_bytes held[LUO_HAP_BYTES_MOST];
        if (op->kind == LUO_HAP_LINEAR) /* steps leave out the gradient of the bias */
            out.products += t->w_full + t->w_split * has - bias * (factors ? 1 : has);
        if (is_activation(op)) /* twice its bytes, and three times in backward */
            out.activations += 5 * (double)g->tensor[op->in[0]].bytes * has;
        count_calls(x, t, &out);
        leave_out_unread(g, t, &out);
        out.values += values_of(x, o, t, w);
        for (int32_t i = luo_hap_bytes_of(p->space, t, held); i-- > 0;)
            if (held[i].fact < 0 && !held[i].transient)
                out.weights += held[i].bytes / luo_hap_state_bytes(g) * part(x, held[i].ext, w);
    }
    return out;
}

static counted count_program(const luo_programs *set, int32_t device)
{
    const luo_role *r = &set->roles[luo_programs_find(set, device)->role];
    counted out = {0};
    for (int32_t i = 0; i < r->ninstr; i++) {
        const luo_instr *in = &r->instr[i];
        const char *op = set->ops[in->op].name;
        if (in->cost.kind == LUO_COST_GEMM) out.products += (double)in->flops;
        if (strstr(op, ".activation")) out.activations += (double)in->bytes;
        if (in->kind != LUO_INSTR_COLLECTIVE || strncmp(op, "rows.", 5) == 0) continue;
        out.moved[in->coll] += (double)in->bytes;
        out.calls[in->coll]++;
    }
    for (int32_t b = 0; b < r->nbuf; b++) {
        const luo_buffer *buffer = &r->buf[b];
        if (strcmp(buffer->tensor, "dense") == 0)
            out.weights += (double)buffer->bytes / (double)buffer->elem_bytes;
        if (buffer->buffer_class == LUO_BUFFER_STASH && strcmp(buffer->tensor, "embeddings") != 0)
            out.values += (double)buffer->bytes;
    }
    return out;
}

/* Does an axis that is no sample have as many? Then extents do not tell whose they are. */
static bool is_ambiguous(const random_case *c)
{
    bool any = false;
    for (int32_t i = 0; i < c->layers; i++)
        any |= c->layer[i].in == c->l.in->batch || c->layer[i].out == c->l.in->batch;
    return any;
}

static void note(const random_case *c, int32_t *met)
{
    const luo_hap_program *p = c->result->program;
    for (int32_t o = 0; o < p->space->graph->nops; o++)
        for (int32_t j = 0; j < p->space->graph->op[o].nin; j++)
            met[p->space->triple[p->choice[o]].take[j].how]++;
}

static void compare_worker(const counted *want, const counted *got, uint64_t seed, int32_t w)
{
    const struct {
        const char *what;
        double want, got;
    } rows[] = {
        {"FLOP of products", want->products, got->products},
        {"bytes of activations", want->activations, got->activations},
        {"weights", want->weights, got->weights},
        {"bytes of values", want->values, got->values},
        {"summed bytes", want->moved[LUO_COLL_AR], got->moved[LUO_COLL_AR]},
        {"scattered bytes", want->moved[LUO_COLL_RS], got->moved[LUO_COLL_RS]},
        {"gathered bytes", want->moved[LUO_COLL_AG], got->moved[LUO_COLL_AG]},
        {"exchanged bytes", want->moved[LUO_COLL_A2A], got->moved[LUO_COLL_A2A]},
        /* of sums there are fewer: a bias is summed with its weight */
        {"scatters", want->calls[LUO_COLL_RS], got->calls[LUO_COLL_RS]},
        {"gathers", want->calls[LUO_COLL_AG], got->calls[LUO_COLL_AG]},
        {"exchanges", want->calls[LUO_COLL_A2A], got->calls[LUO_COLL_A2A]},
    };
    for (size_t i = 0; i < LUO_ROWS(rows); i++)
        ck_assert_msg(fabs(rows[i].want - rows[i].got) <= 1e-9 * fmax(1, rows[i].want),
                      "LUO_SEED=%llu LUO_CASES=1: worker %d: %s %.9g, by the triples %.9g",
                      (unsigned long long)seed, w, rows[i].what, rows[i].got, rows[i].want);
}

static void compare(const random_case *c, uint64_t seed)
{
    const tables_traffic plain = tables_traffic_plain();
    const lengths x = lengths_of(c);
    const luo_programs *set = step(&c->l, LUO_TABLES_WAY_sharded, &c->dense, &plain);
    for (int32_t w = 0; w < c->l.n; w++) {
        const counted want = count_triples(&x, w), got = count_program(set, c->l.dev[w]);
        compare_worker(&want, &got, seed, w);
    }
}

START_TEST(steps_do_what_triples_say)
{
    static const char *const rules[] = {NULL, "b", "io", "o", "i", "bo", "bi"};
    int32_t met[LUO_HAP_HOW_RESHARE + 1] = {0};
    LUO_PROP_FOR(seed, 300)
    {
        const luo_hap_job job = {.opts = {.rules = rules[seed % 7], .factors = seed % 3 > 0},
                                 .no_memory = true};
        random_case c;
        open_case(&c, seed, &job);
        if (!is_ambiguous(&c)) {
            ck_assert_int_eq(tables_layout_deal(arena, &c.l, seed % 5 ? LUO_TABLES_HAP : 0, NULL),
                             LUO_OK);
            compare(&c, seed);
            note(&c, met);
        }
        close_scene();
    }
    printf("gathers %d, slices %d, scatters %d, sums %d, exchanges %d, factors %d\n",
           met[LUO_HAP_HOW_GATHER], met[LUO_HAP_HOW_SLICE], met[LUO_HAP_HOW_SCATTER],
           met[LUO_HAP_HOW_REDUCE], met[LUO_HAP_HOW_EXCHANGE], met[LUO_HAP_HOW_FACTORS]);
    ck_assert(met[LUO_HAP_HOW_GATHER] && met[LUO_HAP_HOW_SLICE] && met[LUO_HAP_HOW_SCATTER] &&
              met[LUO_HAP_HOW_REDUCE] && met[LUO_HAP_HOW_EXCHANGE] && met[LUO_HAP_HOW_FACTORS]);
}
END_TEST

/* 1.1e9 weights with their state are 17.4 GB, and a V100 has 16: of four each keeps a quarter. */
START_TEST(weights_in_pieces)
{
    static const int64_t columns[] = {33000, 33000};
    int32_t met[LUO_HAP_HOW_RESHARE + 1] = {0};
    random_case c = {.model = wide, .job = {.opts = {.rules = "b"}}};
    c.model.mlp = (luo_mlp){2, columns};
    c.scene = open_scene("scenarios/clusters/v100x8-p100x21.yaml", &c.model, 61, 1);
    for (int32_t d = 0; d < c.scene->cluster->ndevices; d++) c.scene->candidate[d] = d < 4;
    c.scene->rate[2] = 1.5;
    answer_case(&c, 0);
    note(&c, met);
    ck_assert_int_gt(met[LUO_HAP_HOW_ZERO], 0);
    ck_assert_ptr_nonnull(strstr(tables_dense_text(arena, &c.model, &c.dense),
                                 "mlp.1 by samples, weights in pieces"));
    for (int deal = 0; deal < LUO_TABLES_DEALS; deal++) {
        tables_layout_deal(arena, &c.l, (luo_tables_deal)deal, NULL);
        compare(&c, 0);
    }
    close_scene();
}
END_TEST

/* ---- the planner ---- */

/* The fastest data-parallel step of a way, made without the planner's answer. */
static double by_hand(const scene *s, luo_tables_way way)
{
    const tables_traffic plain = tables_traffic_plain();
    const bool mixed = isfinite(s->out.at[way].dealt_s[LUO_TABLES_SPEED]);
    double least = INFINITY;
    for (int deal = 0; deal < (mixed ? LUO_TABLES_HAP : 1); deal++) {
        tables_layout l;
        ck_assert_int_eq(tables_layout_open(arena, &s->in, &l, NULL), LUO_OK);
        ck_assert_int_eq(tables_layout_deal(arena, &l, (luo_tables_deal)deal, NULL), LUO_OK);
        if (luo_tables_way_of(way)->tables <= LUO_TABLES_CACHES)
            ck_assert_int_eq(tables_layout_serve(arena, &l, s->out.at[way].servers, NULL), LUO_OK);
        least = fmin(least, simulate(s, step(&l, way, NULL, &plain)));
    }
    return least;
}

static void never_slower(const scene *s)
{
    const luo_tables_answer *a = &s->out;
    for (int k = 0; k < LUO_TABLES_WAYS; k++) {
        const luo_tables_answer_way *x = &a->at[k];
        if (k != LUO_TABLES_WAY_cached && isfinite(x->step.seconds))
            ck_assert_double_le(x->step.seconds, by_hand(s, (luo_tables_way)k) * (1 + 1e-9));
        ck_assert(!(x->step.seconds > x->part_s[LUO_TABLES_PARALLEL]));
        ck_assert(!(x->step.seconds > x->part_s[LUO_TABLES_BY_HAP]));
        if (isfinite(x->step.seconds)) ck_assert(x->step.seconds == x->part_s[x->part]);
        if (luo_tables_way_of((luo_tables_way)k)->dense == LUO_TABLES_SERVERS)
            ck_assert(isinf(x->part_s[LUO_TABLES_BY_HAP]));
    }
}

/* Two V100s of a node, and two P100s each of two nodes. By hand: data-parallel, gradients of 35.3e6
 * parameters go 5/6 of twice over a card of 10.4 Gbit/s: 0.181 s. */
START_TEST(layers_are_cut_where_links_are_slow)
{
    scene *s = open_scene("scenarios/clusters/v100x8-p100x21.yaml", &wide, 64, 5);
    for (int32_t d = 0; d < s->cluster->ndevices; d++)
        s->candidate[d] = d < 2 || (d >= 8 && d < 10) || (d >= 15 && d < 17);
    s->in.servers = 2;
    ask(s);
    const luo_tables_answer_way *best = &s->out.at[s->out.best];
    never_slower(s);
    ck_assert_int_eq(best->part, LUO_TABLES_BY_HAP);
    printf("cut %.6f s, data-parallel %.6f s: %s\n", best->step.seconds,
           best->part_s[LUO_TABLES_PARALLEL], s->out.hap);
    ck_assert(best->part_s[LUO_TABLES_PARALLEL] > 0.175 && best->step.seconds < 0.02);
    ck_assert_ptr_nonnull(strstr(s->out.hap, "mlp.1 by inputs"));
    ck_assert_str_eq(s->out.hap_why, "");
    close_scene();
}
END_TEST

START_TEST(small_layers_stay_data_parallel)
{
    scene *s = open_scene("scenarios/clusters/tiny8.yaml", &dlrm, 8192, 5);
    ask(s);
    never_slower(s);
    ck_assert_int_eq(s->out.at[s->out.best].part, LUO_TABLES_PARALLEL);
    close_scene();
}
END_TEST

/* Devices that differ: samples by its shares are a deal of their own. */
START_TEST(samples_by_its_shares)
{
    scene *s = open_scene("scenarios/clusters/tiny8.yaml", &wide, 4096, 5);
    int64_t all = 0;
    s->rate[5] = 3;
    s->rate[6] = 60;
    ask(s);
    never_slower(s);
    for (int k = 0; k < LUO_TABLES_WAYS; k++)
        if (k != LUO_TABLES_WAY_cached) ck_assert(isfinite(s->out.at[k].dealt_s[LUO_TABLES_HAP]));
    const luo_hap_job job = {.opts = {.factors = true}};
    tables_layout l;
    tables_dense dense;
    tables_layout_open(arena, &s->in, &l, NULL);
    ck_assert_int_eq(tables_dense_ask(arena, &l, &job, &dense, NULL, NULL), LUO_OK);
    for (int32_t w = 0; w < 8; w++) {
        ck_assert(dense.samples[w] >= 1);
        all += dense.samples[w];
    }
    ck_assert_int_eq(all, 4096);
    ck_assert(dense.samples[5] < dense.samples[0] && dense.samples[6] < dense.samples[5]);
    close_scene();
}
END_TEST

START_TEST(without_its_answer)
{
    scene *s = open_scene("scenarios/clusters/v100x8-p100x21.yaml", &wide, 64, 5);
    s->in.servers = 1;
    for (int32_t d = 0; d < s->cluster->ndevices; d++) {
        s->candidate[d] = d < 20;
        s->rate[d] = 1 + d;
    }
    ask(s);
    never_slower(s);
    ck_assert_msg(strstr(s->out.hap_why, "the cluster has more than 16 types of devices"), "%s",
                  s->out.hap_why);
    ck_assert(isinf(s->out.at[s->out.best].part_s[LUO_TABLES_BY_HAP]));
    for (int32_t d = 1; d < 20; d++) s->candidate[d] = false;
    ask(s);
    ck_assert_str_eq(s->out.hap_why, "one device has nothing to cut it for");
    close_scene();
}
END_TEST

LUO_SUITE("run.tables.dense", LUO_T(by_samples_it_is_data_parallel),
          LUO_T(steps_do_what_triples_say), LUO_T(weights_in_pieces),
          LUO_T(layers_are_cut_where_links_are_slow), LUO_T(small_layers_stay_data_parallel),
          LUO_T(samples_by_its_shares), LUO_T(without_its_answer))
