/* check_move.c: a switch that moves state, on a backend of 1 GB/s a sender.
 *
 * Plan A: pipeline i, stage s on devices 4i + 2s and 4i + 2s + 1 (nodes of 2 devices). Plan B: the
 * two stages of pipeline 0 change places. Each of devices 0..3 then needs a half of the model's
 * states that it does not have; pipeline 1 holds all of them as well. */
#include "core/run/run.h"
#include "tests/fake_backend.h"

static const luo_model model = {.name = "llama-test", .family = LUO_FAMILY_LLAMA, .layers = 24,
                                .hidden = 512, .ffn_hidden = 1024, .heads = 8, .kv_heads = 8,
                                .head_dim = 64, .vocab = 1024, .max_sequence_tokens = 256,
                                .causal = true, .rope_base = 10000, .norm_eps = 1e-6,
                                .dtype = LUO_BF16};
static luo_scenario sc;
static luo_run r;
static luo_run_opts opts = {.backend = &fake_backend};

static luo_plan *make_plan(bool swapped)
{
    static const int32_t dev[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const luo_range layers[] = {{0, 12}, {12, 24}};
    luo_plan *p = LUO_NEW(r.arena, luo_plan);
    luo_pipeline *pl = LUO_NEW_N(r.arena, luo_pipeline, 2);
    for (int32_t i = 0; i < 2; i++) {
        luo_stage *st = LUO_NEW_N(r.arena, luo_stage, 2);
        for (int32_t s = 0; s < 2; s++)
            st[s] = (luo_stage){.nlayers = 1, .layers = &layers[s], .ndev = 2,
                                .dev = dev + 4 * i + 2 * (swapped && i == 0 ? 1 - s : s),
                                .context_parallel = 1, .embedding = s == 0, .head = s == 1};
        pl[i] = (luo_pipeline){.micro_batches = 8, .micro_batch_sequences = 1, .nstages = 2,
                               .stages = st};
    }
    *p = (luo_plan){.name = swapped ? "b" : "a", .model = "llama-test", .cluster = "small",
                    .layers = 24, .devices = 8, .dtype = LUO_BF16, .sequence_tokens = 256,
                    .micro_batch_sequences = 1, .schedule = LUO_SCHED_1F1B, .chunks = 1,
                    .npipelines = 2, .pipelines = pl};
    return p;
}

static void open_run(void)
{
    luo_err err = {0};
    fake_reset();
    r = (luo_run){.arena = luo_arena_new(1 << 16),
                  .scratch = luo_arena_new(1 << 16),
                  .job.scenario = &sc,
                  .job.opts = &opts,
                  .job.sink = &fake_sink,
                  .backend.table = &fake_backend,
                  .decision.cause = "",
                  .plans.program_bytes = 1 << 30};
    sc = (luo_scenario){.name = "t", .cluster = fixture_cluster(r.arena, 1, 4, 2), .model = &model,
                        .steps = 1};
    const luo_backend_config config = {.cluster = sc.cluster};
    int32_t a, b;
    ck_assert_int_eq(fake_backend.open(&config, &r.backend.state, NULL), LUO_OK);
    ck_assert_int_eq(luo_events_new(r.arena, &sc, (luo_event_log){0}, &r.clock.events, NULL),
                     LUO_OK);
    ck_assert_msg(luo_run_use_plan(&r, make_plan(false), 256, &a, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_run_use_plan(&r, make_plan(true), 256, &b, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(a, 0);
    ck_assert_int_eq(b, 1);
    r.health.usable = LUO_NEW_N(r.arena, bool, 8);
    r.health.was_usable = LUO_NEW_N(r.arena, bool, 8);
    r.health.emptied = LUO_NEW_N(r.arena, bool, 8);
    r.health.was_leaving = LUO_NEW_N(r.arena, bool, 8);
    for (int32_t d = 0; d < 8; d++) r.health.usable[d] = true;
    ck_assert_int_eq(luo_account_init(&r, NULL), LUO_OK);
}

START_TEST(states_change_places)
{
    luo_row_switch row = {0};
    bool broken = true;
    int64_t parameters;
    open_run();
    luo_model_parameters(&model, &parameters, NULL);
    luo_err err = {0};
    ck_assert_msg(luo_run_move(&r, r.plans.list[0], 1, &row, &broken, &err) == LUO_OK, "%s",
                  err.text);
    ck_assert(!broken);
    /* 12 bytes a parameter, once; norms are held by both devices of a stage */
    const double least = 12 * (double)parameters;
    ck_assert_double_ge((double)row.bytes_nic, least);
    ck_assert_double_le((double)row.bytes_nic, least * 1.01);
    ck_assert_int_eq(row.bytes_nvlink + row.bytes_pcie, 0);
    ck_assert_int_ge(row.messages, 4);
    ck_assert_int_ge(row.max_sender, 0);
    ck_assert_double_eq_tol(row.move_s, (double)row.max_sender_bytes / 1e9, 1e-9);
    ck_assert_double_eq_tol(r.ledger.account.span[LUO_SPAN_SWITCH], row.move_s, 1e-12);
    ck_assert_int_eq(fake.ntime, 1);
    ck_assert_int_eq(fake.time[0].kind, LUO_SPAN_SWITCH);
    ck_assert_int_eq(fake.time[0].bytes, row.bytes_nic);
    /* back again: the same plan both ways moves nothing */
    luo_row_switch none = {0};
    ck_assert_int_eq(luo_run_move(&r, r.plans.list[1], 1, &none, &broken, NULL), LUO_OK);
    ck_assert_int_eq(none.messages, 0);
    ck_assert_double_eq(none.move_s, 0);
}
END_TEST

/* All layers on devices 2 and 3: stage 0 comes from 0 and 1 or, when they are dead, from 4 and 5;
 * with both dead it is lost; and to a dead device nothing is moved, which the driver answers. */
static int32_t one_stage(void)
{
    static const int32_t dev[] = {2, 3};
    static const luo_range all = {0, 24};
    static const luo_stage st = {.nlayers = 1, .layers = &all, .ndev = 2, .dev = dev,
                                 .context_parallel = 1, .embedding = true, .head = true};
    static const luo_pipeline pl = {.micro_batches = 16, .micro_batch_sequences = 1, .nstages = 1,
                                    .stages = &st};
    luo_plan *p = make_plan(false);
    int32_t index;
    luo_err err = {0};
    p->name = "one";
    p->npipelines = 1;
    p->pipelines = &pl;
    ck_assert_msg(luo_run_use_plan(&r, p, 256, &index, &err) == LUO_OK, "%s", err.text);
    return index;
}

static const struct {
    int32_t dead[4], ndead;
    luo_status st;
    bool broken;
} deaths[] = {
    {{0}, 0, LUO_OK, false},
    {{0, 1}, 2, LUO_OK, false},
    {{0, 4}, 2, LUO_ELOST, false},
    {{2}, 1, LUO_OK, true},
};

START_TEST(dead_owners)
{
    luo_row_switch row = {0};
    bool broken;
    open_run();
    const int32_t to = one_stage();
    for (int32_t i = 0; i < deaths[_i].ndead; i++) r.health.usable[deaths[_i].dead[i]] = false;
    ck_assert_int_eq(luo_run_move(&r, r.plans.list[0], to, &row, &broken, NULL), deaths[_i].st);
    ck_assert_int_eq(broken, deaths[_i].broken);
    ck_assert((row.bytes_nic > 0) == (deaths[_i].st == LUO_OK && !deaths[_i].broken));
}
END_TEST
/* Programs beyond the limit are given back, and are the same when they are needed again. */
START_TEST(programs_come_back)
{
    open_run();
    r.plans.program_bytes = 1;
    const uint64_t hash = r.plans.list[1]->program_hash;
    const int32_t third = one_stage();
    ck_assert_int_eq(third, 2);
    ck_assert_ptr_nonnull(r.plans.list[0]->set); /* it runs */
    ck_assert_ptr_null(r.plans.list[1]->set);
    int32_t index;
    ck_assert_int_eq(luo_run_use_plan(&r, make_plan(true), 256, &index, NULL), LUO_OK);
    ck_assert_int_eq(index, 1);
    ck_assert_uint_eq(r.plans.list[1]->set->hash, hash);
    ck_assert_ptr_null(r.plans.list[2]->set);
}
END_TEST
LUO_SUITE("run.move", LUO_T(programs_come_back), LUO_T(states_change_places),
          LUO_T_N(dead_owners, LUO_ROWS(deaths)))
