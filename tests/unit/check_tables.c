/* check_tables.c: models with embedding tables: their sizes, what a step of each way sends, how
 * long that takes, and which way planner `auto` takes. */
#include <math.h>

#include "tests/cost_fixture.h"
#include "tests/prop/prop.h"
#include "tests/tables_scene.h"

static const int64_t bottom[] = {512, 256, 64, 16}, top[] = {512, 256}, few[] = {8};
static const luo_model dlrm = {.name = "d",
                               .family = LUO_FAMILY_DLRM,
                               .dtype = LUO_F32,
                               .features = {26, 33762577, 16, 13},
                               .bottom_mlp = {4, bottom},
                               .mlp = {2, top}};
static const luo_model wide = {.name = "w",
                               .family = LUO_FAMILY_WIDE_DEEP,
                               .dtype = LUO_F32,
                               .features = {3, 5000, 7, 2},
                               .mlp = {1, few}};

/* ---- sizes ---- */

/* By hand: rows 33762577 x 16; bottom 13 > 512 > 256 > 64 > 16; pairs of 27, and 16 more, are 367;
 * top 367 > 512 > 256 > 1. */
START_TEST(parameters)
{
    int64_t n;
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t below;
    ck_assert_int_eq(luo_model_parameters(&dlrm, &n, NULL), LUO_OK);
    ck_assert_int_eq(n, 540201232 + 155984 + 320001);
    ck_assert_int_eq(luo_model_dense_layers(&dlrm, layer, &below), 7);
    ck_assert_int_eq(below, 4);
    ck_assert_int_eq(layer[4].in, 367);
    ck_assert_int_eq(layer[6].in, 256);
    ck_assert_int_eq(layer[6].out, 1);
    /* products of layers, and of the 351 pairs */
    luo_near(luo_model_flops_per_token(&dlrm, 1), 6.0 * (155136 + 319232 + 351 * 16), 1e-12,
             "dlrm");
    /* 8 numbers a row, with that of the wide part; 23 > 8 > 1 */
    ck_assert_int_eq(luo_model_parameters(&wide, &n, NULL), LUO_OK);
    ck_assert_int_eq(n, 40000 + 192 + 9);
    ck_assert(!luo_model_has_layers(&wide) && luo_model_has_tables(&wide));
}
END_TEST

/* ---- rows ---- */

/* The slow twin: a row counts for a worker unless an earlier key of its samples is the same. */
static int64_t touched(const scene *s, const tables_layout *l, int32_t w, int32_t server)
{
    int64_t first = 0, n = 0;
    const int64_t slots = s->clicks.slots;
    for (int32_t i = 0; i < w; i++) first += l->samples[i];
    for (int64_t i = first * slots; i < (first + l->samples[w]) * slots; i++) {
        const uint64_t key = s->clicks.key[s->clicks.embed[i]];
        bool seen = key % (uint64_t)l->servers != (uint64_t)server;
        for (int64_t k = first * slots; k < i && !seen; k++)
            seen = s->clicks.key[s->clicks.embed[k]] == key;
        n += !seen;
    }
    return n;
}

START_TEST(rows_of_workers_and_servers)
{
    LUO_PROP_FOR(seed, 10)
    {
        scene *s = open_scene("scenarios/clusters/tiny8.yaml", &wide, 64 + (int64_t)seed, seed);
        tables_layout l;
        ck_assert_int_eq(tables_layout_open(arena, &s->in, &l, NULL), LUO_OK);
        ck_assert_int_eq(tables_layout_deal(arena, &l, LUO_TABLES_EQUAL, NULL), LUO_OK);
        ck_assert_int_eq(tables_layout_serve(arena, &l, 1 + (int32_t)(seed % 8), NULL), LUO_OK);
        for (int32_t w = 0; w < l.n; w++) {
            int64_t all = 0;
            for (int32_t k = 0; k < l.servers; k++) {
                ck_assert_int_eq(l.rows[w * l.servers + k], touched(s, &l, w, k));
                all += l.rows[w * l.servers + k];
            }
            ck_assert_int_eq(all, l.touched[w]);
        }
        close_scene();
    }
}
END_TEST

/* ---- programs ---- */

static int64_t sent(const luo_programs *set, int32_t device, const char *op)
{
    const luo_program *p = luo_programs_find(set, device);
    const luo_role *r = &set->roles[p->role];
    int64_t bytes = 0;
    for (int32_t i = 0; i < r->ninstr; i++) {
        const luo_instr *in = &r->instr[i];
        if (strcmp(set->ops[in->op].name, op) != 0) continue;
        if (in->kind == LUO_INSTR_COLLECTIVE) bytes += in->bytes;
        for (int32_t k = 0; in->kind == LUO_INSTR_P2P && k < p->slots[in->slot].nmessage; k++)
            if (p->slots[in->slot].message[k].send) bytes += p->slots[in->slot].message[k].bytes;
    }
    return bytes;
}

/* What a worker sends to servers, by hand: its rows that are not on itself. */
static int64_t elsewhere(const tables_layout *l, int32_t w)
{
    return l->touched[w] - (l->server_of[w] < 0 ? 0 : l->rows[w * l->servers + l->server_of[w]]);
}

START_TEST(every_way_is_good_programs)
{
    const tables_traffic plain = tables_traffic_plain();
    const luo_model *const model = _i % 2 ? &wide : &dlrm;
    scene *s = open_scene("scenarios/clusters/v100x8-p100x21.yaml", model, 500, (uint64_t)_i);
    const int64_t row = 4 * luo_model_row_width(model);
    tables_layout l;
    s->candidate[3] = _i != 1;
    ck_assert_int_eq(tables_layout_open(arena, &s->in, &l, NULL), LUO_OK);
    ck_assert_int_eq(l.n, _i == 1 ? 28 : 29);
    ck_assert_int_eq(
        tables_layout_deal(arena, &l, _i > 1 ? LUO_TABLES_SPEED : LUO_TABLES_EQUAL, NULL), LUO_OK);
    ck_assert_int_eq(tables_layout_serve(arena, &l, _i > 1 ? l.n : 4, NULL), LUO_OK);
    /* one of every node first: the V100s are devices 0 to 7, then 7 P100s a node */
    ck_assert_int_eq(l.order[0], 0);
    ck_assert_int_eq(l.dev[l.order[1]], 8);
    ck_assert_int_eq(l.dev[l.order[2]], 15);
    uint64_t hash[LUO_TABLES_WAYS];
    int64_t all = 0, most = 0;
    for (int32_t w = 0; w < l.n; w++) {
        all += l.touched[w];
        if (l.touched[w] > most) most = l.touched[w];
    }
    for (luo_tables_way way = 0; way < LUO_TABLES_WAYS; way++) {
        const luo_programs *set = step(&l, way, NULL, &plain);
        hash[way] = set->hash;
        ck_assert_uint_eq(set->hash, step(&l, way, NULL, &plain)->hash);
        ck_assert(way == LUO_TABLES_WAY_cached || way == 0 || hash[way] != hash[way - 1]);
        for (int32_t w = 0; w < l.n; w++) {
            const int64_t pushed = sent(set, l.dev[w], "rows.push");
            switch (luo_tables_way_of(way)->tables) {
            case LUO_TABLES_SERVERS:
            case LUO_TABLES_CACHES:
                ck_assert_int_eq(pushed, elsewhere(&l, w) * (row + 8));
                ck_assert_int_eq(sent(set, l.dev[w], "rows.keys"), elsewhere(&l, w) * 8);
                break;
            case LUO_TABLES_ALL_TO_ALL:
                ck_assert_int_eq(pushed, most * (row + 8));
                break;
            case LUO_TABLES_ALL_GATHER:
                ck_assert_int_eq(sent(set, l.dev[w], "rows.gather_gradients"), all * (row + 8));
                break;
            case LUO_TABLES_ALL_REDUCE:
                ck_assert_int_eq(sent(set, l.dev[w], "rows.reduce"), model->features.rows * row);
            }
        }
    }
    close_scene();
}
END_TEST

/* ---- memory ---- */

static luo_memory memory_of(const luo_programs *set, int32_t device)
{
    luo_memory m;
    ck_assert_int_eq(luo_program_memory(arena, set, device, &m, NULL), LUO_OK);
    return m;
}

START_TEST(memory_of_tables)
{
    const tables_traffic plain = tables_traffic_plain();
    scene *s = open_scene("scenarios/clusters/tiny8.yaml", &wide, 80, 1);
    const int64_t dense = 4 * (23 * 8 + 8 + 8 + 1), table = 5000 * 8 * 4;
    tables_layout l;
    tables_layout_open(arena, &s->in, &l, NULL);
    tables_layout_deal(arena, &l, LUO_TABLES_EQUAL, NULL);
    tables_layout_serve(arena, &l, 2, NULL);
    const luo_programs *whole = step(&l, LUO_TABLES_WAY_allreduce, NULL, &plain);
    ck_assert_int_eq(memory_of(whole, 0).weights, table + dense);
    ck_assert_int_eq(memory_of(whole, 0).gradients, table + dense + l.touched[0] * 32);
    ck_assert_int_eq(memory_of(whole, 0).optimizer, 2 * dense);
    const luo_programs *served = step(&l, LUO_TABLES_WAY_hybrid, NULL, &plain);
    ck_assert_int_eq(memory_of(served, l.dev[l.order[1]]).weights, table / 2 + dense);
    ck_assert_int_eq(memory_of(served, l.dev[l.order[7]]).weights, dense);
    ck_assert_int_eq(memory_of(step(&l, LUO_TABLES_WAY_sharded, NULL, &plain), 5).weights,
                     table / 8 + dense);
    ck_assert_int_eq(
        memory_of(step(&l, LUO_TABLES_WAY_ps, NULL, &plain), l.dev[l.order[7]]).optimizer, 0);
    close_scene();
}
END_TEST

/* ---- seconds ---- */

/* Nodes of one device: keys up, rows down, gradients up, one after the other; each of these takes
 * the latency of a message and what the busiest card carries, in or out (docs/sync.md#time). */
static double formula(const tables_layout *l, int64_t row, const luo_cluster *c)
{
    const double ratio = luo_cluster_profile(c, 0)->net_ratio;
    const double bw = c->groups[0].nic_bytes_per_s * ratio;
    const int64_t bytes[3] = {8, row, row + 8};
    double seconds = 0;
    for (int k = 0; k < 3; k++) {
        int64_t most = 0;
        for (int32_t w = 0; w < l->n; w++) {
            int64_t in = 0;
            for (int32_t v = 0; l->server_of[w] >= 0 && v < l->n; v++)
                if (v != w) in += l->rows[v * l->servers + l->server_of[w]];
            if (in > most) most = in;
            if (elsewhere(l, w) > most) most = elsewhere(l, w);
        }
        seconds += luo_cluster_path_latency(c, 0, 1) + (double)(most * bytes[k]) / bw;
    }
    return seconds;
}

START_TEST(exchange_is_as_the_formula)
{
    static luo_model big;
    big = dlrm;
    big.family = LUO_FAMILY_WIDE_DEEP;
    big.features = (luo_features){26, 100000, 511, 1};
    big.mlp = (luo_mlp){0, few}; /* its all-reduce would hide behind rows */
    scene *s = open_scene("scenarios/clusters/a100-32x1.yaml", &big, 8192, 3);
    stack.dp_overlap = true; /* so that rows wait for no call of the dense part */
    tables_traffic plain = tables_traffic_plain();
    tables_layout l;
    tables_layout_open(arena, &s->in, &l, NULL);
    tables_layout_deal(arena, &l, LUO_TABLES_EQUAL, NULL);
    tables_layout_serve(arena, &l, 1 << _i, NULL);
    const double with = simulate(s, step(&l, LUO_TABLES_WAY_hybrid, NULL, &plain));
    plain.asked = plain.pulled = plain.pushed = 0; /* the same work but for the rows of servers */
    const double without = simulate(s, step(&l, LUO_TABLES_WAY_hybrid, NULL, &plain));
    const double expected = formula(&l, 4 * 512, s->cluster);
    printf("%2d servers: %.6f s simulated, %.6f s by the formula\n", l.servers, with - without,
           expected);
    luo_near(with - without, expected, 0.02, "exchange with servers");
    close_scene();
}
END_TEST

/* ---- many devices ---- */

START_TEST(as_many_as_may_be)
{
    luo_err err = {0};
    scene *s = open_scene("scenarios/clusters/h100-16384.yaml", &wide, 2048, 1);
    tables_layout l;
    ck_assert_int_eq(tables_layout_open(arena, &s->in, &l, &err), LUO_E2BIG);
    ck_assert_str_eq(err.text, "more than 1024 devices may work; models with tables are planned on "
                               "at most so many.");
    for (int32_t d = 1024; d < s->cluster->ndevices; d++) s->candidate[d] = false;
    ck_assert_int_eq(tables_layout_open(arena, &s->in, &l, &err), LUO_OK);
    ck_assert_int_eq(tables_layout_deal(arena, &l, LUO_TABLES_EQUAL, &err), LUO_OK);
    ck_assert_int_eq(l.n, 1024);
    ck_assert_int_eq(l.samples[1023], 2);
    ck_assert_int_eq(l.order[1], 8); /* the first device of the second node */
    close_scene();
    s = open_scene("scenarios/clusters/h100-1024.yaml", &wide, 2048, 1);
    ck_assert_msg(luo_tables_plan(&s->in, &s->out, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(s->out.devices, 1024);
    ck_assert_int_eq(s->out.at[LUO_TABLES_WAY_ps].servers, 1);
    for (luo_tables_way way = 0; way < LUO_TABLES_WAYS; way++)
        if (way != LUO_TABLES_WAY_cached) ck_assert(isfinite(s->out.at[way].step.seconds));
    close_scene();
}
END_TEST

/* ---- caches ---- */

START_TEST(caches_leave_less_to_send)
{
    scene *s = open_scene("scenarios/clusters/tiny8.yaml", &wide, 8 * 400, 2);
    tables_layout l;
    double pulled = 1.0 + 1e-12, pushed = 1.0 + 1e-12;
    s->in.batch = 400;
    tables_layout_open(arena, &s->in, &l, NULL);
    tables_layout_deal(arena, &l, LUO_TABLES_EQUAL, NULL);
    for (int64_t bound = 0; bound <= 40; bound = 2 * bound + 5) {
        tables_traffic t;
        s->in.cache = (luo_het_opts){.rows = 5000, .pull_bound = bound, .push_bound = bound};
        ck_assert_int_eq(tables_traffic_cached(&l, &t, NULL), LUO_OK);
        ck_assert(t.asked == 1 && t.iterations == 50);
        ck_assert_msg(t.pulled <= pulled && t.pushed <= pushed, "bound %lld: %g %g",
                      (long long)bound, t.pulled, t.pushed);
        if (bound == 0) ck_assert_double_eq_tol(t.pushed, 1, 1e-12);
        pulled = t.pulled;
        pushed = t.pushed;
    }
    ck_assert(pulled < 0.8 && pushed < 0.8);
    close_scene();
}
END_TEST

/* ---- the planner ---- */

START_TEST(auto_takes_the_fastest)
{
    scene *s = open_scene("scenarios/clusters/v100x8-p100x21.yaml", &dlrm, 2048, 5);
    s->in.servers = 4;
    ask(s);
    const luo_tables_answer *a = &s->out;
    for (int k = 0; k < LUO_TABLES_WAYS; k++) {
        ck_assert(a->at[a->best].step.seconds <= a->at[k].step.seconds * (1 + 1e-9));
        ck_assert(isfinite(a->at[k].step.seconds) == (k != LUO_TABLES_WAY_cached));
    }
    ck_assert(strstr(a->at[LUO_TABLES_WAY_cached].why, "--cache`"));
    ck_assert_int_eq(a->at[LUO_TABLES_WAY_hybrid].servers, 4);
    ck_assert_int_eq(a->at[LUO_TABLES_WAY_sharded].servers, 0);
    /* 34 million rows for all, of which a step touches some thousands */
    ck_assert(a->at[LUO_TABLES_WAY_allreduce].step.seconds > 100 * a->at[a->best].step.seconds);
    ck_assert(a->least > 0 && a->least <= 70 && a->most >= 71);
    close_scene();
}
END_TEST

START_TEST(samples_by_speed)
{
    scene *s = open_scene("scenarios/clusters/tiny8.yaml", &wide, 4096, 5);
    static luo_model heavy;
    static const int64_t columns[] = {8192, 8192};
    heavy = wide;
    heavy.mlp = (luo_mlp){2, columns};
    s->judge.model = &heavy;
    s->rate[5] = 3;
    ask(s);
    const luo_tables_answer *a = &s->out;
    ck_assert(a->at[a->best].deal != LUO_TABLES_EQUAL);
    ck_assert(a->most > 2 * a->least && a->least > 0);
    close_scene();
}
END_TEST

/* Three devices that differ. */
static scene *open_three(const luo_model *model, int64_t batch, uint64_t seed)
{
    static const char *const cluster[] = {"scenarios/clusters/tiny8.yaml",
                                          "scenarios/clusters/v100x8-p100x21.yaml"};
    static const int32_t dev[2][3] = {{0, 3, 6}, {0, 8, 15}};
    const int which = (int)(seed % 2);
    luo_rng rng = luo_rng_seed(seed);
    scene *s = open_scene(cluster[which], model, batch, seed);
    for (int32_t d = 0; d < s->cluster->ndevices; d++) s->candidate[d] = false;
    for (int i = 0; i < 3; i++) {
        s->candidate[dev[which][i]] = true;
        s->rate[dev[which][i]] = i > 0 ? 1 + (double)luo_rng_pick(&rng, 30) / 10 : 1;
    }
    return s;
}

/* A dense part that counts: what one sample more costs is seen. */
static const luo_model *heavy_model(int64_t columns)
{
    static luo_model heavy;
    static int64_t mlp[2];
    mlp[0] = mlp[1] = columns;
    heavy = wide;
    heavy.mlp = (luo_mlp){2, mlp};
    return &heavy;
}

/* Level shares are the best of all splits, and more samples never compute shorter. */
START_TEST(level_beside_all_splits)
{
    double gain = 0;
    LUO_PROP_FOR(seed, 6)
    {
        enum { MOST = 400 };
        luo_rng rng = luo_rng_seed(seed + 7);
        const int64_t units = 3 + luo_rng_pick(&rng, MOST - 3);
        double seconds[3][MOST + 1], best = INFINITY, level = 0, equal = 0;
        scene *s = open_three(heavy_model(4096), units, seed);
        luo_err err = {0};
        tables_layout l;
        tables_layout_open(arena, &s->in, &l, &err);
        ck_assert_int_eq(tables_layout_deal(arena, &l, LUO_TABLES_LEVEL, &err), LUO_OK);
        for (int32_t w = 0; w < 3; w++) {
            ck_assert_int_eq(tables_work_seconds(arena, &l, w, units, seconds[w] + 1, &err),
                             LUO_OK);
            for (int64_t n = 2; n <= units; n++) ck_assert(seconds[w][n] >= seconds[w][n - 1]);
        }
        for (int64_t a = 1; a + 2 <= units; a++)
            for (int64_t b = 1; a + b + 1 <= units; b++)
                best =
                    fmin(best, fmax(seconds[0][a], fmax(seconds[1][b], seconds[2][units - a - b])));
        for (int32_t w = 0; w < 3; w++) {
            level = fmax(level, seconds[w][l.samples[w]]);
            equal = fmax(equal, seconds[w][(units + 2) / 3]);
        }
        gain = fmax(gain, equal / level);
        ck_assert_int_eq(l.samples[0] + l.samples[1] + l.samples[2], units);
        ck_assert_msg(level <= best * (1 + 1e-9) && level >= best * (1 - 1e-9),
                      "seed %llu: level %.9g s, best %.9g s", (unsigned long long)seed, level,
                      best);
        close_scene();
    }
    ck_assert(gain > 1.2); /* it was no matter of one sample more or less */
}
END_TEST

/* The planner's step beside the simulated steps of the same way with every split into units, with a
 * data-parallel dense part. */
START_TEST(planned_beside_all_splits)
{
    enum { UNITS = 10, UNIT = 700 };
    double worst = 0, gain = 0;
    LUO_PROP_FOR(seed, 4)
    {
        const tables_traffic plain = tables_traffic_plain();
        scene *s = open_three(heavy_model(2048), UNITS * UNIT, seed);
        tables_layout l;
        double best = INFINITY;
        s->in.servers = 3;
        ask(s);
        const luo_tables_answer_way *way = &s->out.at[LUO_TABLES_WAY_hybrid];
        for (int d = 0; d < LUO_TABLES_DEALS; d++) ck_assert(way->step.seconds <= way->dealt_s[d]);
        ck_assert(way->step.seconds == way->dealt_s[way->deal]);
        tables_layout_open(arena, &s->in, &l, NULL);
        for (int64_t a = 1; a + 2 <= UNITS; a++)
            for (int64_t b = 1; a + b + 1 <= UNITS; b++) {
                const int64_t units[3] = {a, b, UNITS - a - b};
                for (int w = 0; w < 3; w++) l.samples[w] = units[w] * UNIT;
                ck_assert_int_eq(tables_layout_count(arena, &l, NULL), LUO_OK);
                ck_assert_int_eq(tables_layout_serve(arena, &l, 3, NULL), LUO_OK);
                best = fmin(best, simulate(s, step(&l, LUO_TABLES_WAY_hybrid, NULL, &plain)));
            }
        worst = fmax(worst, way->part_s[LUO_TABLES_PARALLEL] / best);
        gain = fmax(gain, way->dealt_s[LUO_TABLES_EQUAL] / way->step.seconds);
        close_scene();
    }
    printf(
        "planned steps are at most %.4f of the best split's, up to %.2fx faster than equal ones\n",
        worst, gain);
    ck_assert(worst <= 1.02 && gain > 1.2);
}
END_TEST

START_TEST(what_cannot_be)
{
    scene *s = open_scene("scenarios/clusters/tiny8.yaml", &wide, 7, 5);
    luo_err err = {0};
    ck_assert_int_eq(luo_tables_plan(&s->in, &s->out, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "a step has 7 samples; each of the 8 devices needs one at least.");
    s->in.batch = 64;
    s->in.servers = 9;
    ck_assert_int_eq(luo_tables_plan(&s->in, &s->out, &err), LUO_EUSAGE);
    ck_assert_str_eq(err.text,
                     "9 servers are asked for; the 8 devices that may work are the most.");
    s->in.servers = 0;
    for (int d = 0; d < 8; d++) s->rate[d] = INFINITY;
    ck_assert_int_eq(luo_tables_plan(&s->in, &s->out, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "no device may work.");
    for (int d = 0; d < 8; d++) s->rate[d] = 1;
    static luo_model huge;
    huge = wide;
    huge.features.rows = 100000000000;
    s->judge.model = &huge;
    ck_assert_int_eq(luo_tables_plan(&s->in, &s->out, &err), LUO_EINFEASIBLE);
    ck_assert_msg(strstr(err.text, "no way fits; the last of them needs "), "%s", err.text);
    close_scene();
}
END_TEST

LUO_SUITE("run.tables", LUO_T(as_many_as_may_be), LUO_T(parameters),
          LUO_T(rows_of_workers_and_servers), LUO_T_N(every_way_is_good_programs, 4),
          LUO_T(memory_of_tables), LUO_T_N(exchange_is_as_the_formula, 6),
          LUO_T(caches_leave_less_to_send), LUO_T(auto_takes_the_fastest), LUO_T(samples_by_speed),
          LUO_T(level_beside_all_splits), LUO_T(planned_beside_all_splits), LUO_T(what_cannot_be))
