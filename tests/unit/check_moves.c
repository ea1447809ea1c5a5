/* check_moves.c: every key of a cluster, a profile and a stack moves what it is for, in the right
 * direction: the simulated step of some plan, the time of checkpoints, memory, or what is refused.
 * The keys are those of the readers' own tables, each of which needs a row of tests/moves_rows.h.
 * Printed: key, output, and by how much the second value moves it. */
#include "core/io/document/doc_table.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"
#include "core/plan/grid.h"
#include "sim/sim.h"
#include "tests/driver_fixture.h"
#include "tests/moves_rows.h"

static const char *const outputs[] = {
    [STEP_S] = "step",        [WRITING] = "run, storage", [TO_DISK] = "run, disk",
    [TO_PEERS] = "refused",   [READING] = "run, fails",   [READING_DISK] = "run, fails, disk",
    [MEMORY] = "memory",      [ROOM] = "refused",         [NAMES] = "nothing",
    [RANGE] = "range",        [ELSEWHERE] = "elsewhere"};

/* ---- files ---- */

static luo_arena *words; /* of texts; runs have `arena` */

typedef struct texts { /* NULL: none */
    const char *cluster, *profile, *stack, *model, *table;
} texts;

static luo_status get_text(void *ctx, luo_arena *a, const char *name, luo_source *out, luo_err *err)
{
    const texts *t = ctx;
    const char *text = strstr(name, "t.csv") ? t->table : t->profile;
    (void)a;
    (void)err;
    *out = (luo_source){name, text, strlen(text)};
    return LUO_OK;
}

static const char *table_of(const char *name)
{
    if (strncmp(name, "p2p_times ", 10) == 0)
        return luo_arena_printf(words,
                                "class,size_bytes,time_us,role\n%s,1024,30,calibration\n"
                                "%s,16777216,2000,calibration\n",
                                name + 10, name + 10);
    if (strcmp(name, "collective_times") == 0)
        return "collective,dtype,devices,nodes,size_bytes,time_us,algbw_gbytes_per_s,"
               "busbw_gbytes_per_s,role\n"
               "all_reduce,bf16,2,1,1048576,100,,15,calibration\n"
               "all_reduce,bf16,2,1,268435456,30000,,16,calibration\n";
    return "op,dtype,m,n,k,time_us,samples,role\ngemm,bf16,1024,1536,1024,900,1,calibration\n";
}

/* A profile with `value` for `name`; of_table: the kind of its table, NULL: none. */
static const char *profile_of(const char *name, double value, const char *of_table, bool cpu,
                              bool bf16)
{
    static const struct {
        const char *name;
        double value;
        const char *unless; /* that name is given: small messages matter then */
    } base[] = {{"peak_bf16_tflop_per_s", 100, ""},
                {"peak_f32_tflop_per_s", 20, ""},
                {"peak_fp8_tflop_per_s", 200, ""},
                {"peak_f64_tflop_per_s", 10, ""},
                {"memory_gbytes_per_s", 1000, ""},
                {"memory_gib", 16, ""},
                {"reserved_gib", 1, ""},
                {"launch_us", 4, ""},
                {"net_half_bytes", 1e4, "net_step_us"},
                {"sm_count", 100, ""}};
    luo_str s = {0};
    luo_str_addf(&s, "schema: luoshu.profile/1\nname: p\nkind: %s\nvalues:\n", cpu ? "cpu" : "gpu");
    for (int i = bf16 ? 0 : 1; i < LUO_ROWS(base); i++)
        if (!name || (strcmp(base[i].name, name) != 0 && strcmp(base[i].unless, name) != 0))
            luo_str_addf(&s, "  - {name: %s, value: %g, source: x, provenance: chosen}\n",
                         base[i].name, base[i].value);
    if (name)
        luo_str_addf(&s, "  - {name: %s, value: %.9g, source: x, provenance: chosen}\n", name,
                     value);
    if (of_table)
        luo_str_addf(&s, "tables: [{kind: %.*s, file: t.csv}]\n", (int)strcspn(of_table, " "),
                     of_table);
    const char *text = luo_arena_strdup(words, luo_str_get(&s));
    luo_str_free(&s);
    return text;
}

/* `rows` are of values or of switches. */
static const char *stack_of(const char *rows)
{
    return luo_arena_printf(words, "schema: luoshu.stack/1\nname: s\n%s", rows ? rows : "");
}

static texts texts_of(scene_id id)
{
    const scene *s = &scenes[id];
    return (texts){.cluster = s->cluster,
                   .model = s->model,
                   .stack = stack_of(NULL),
                   .table = s->table ? table_of(s->table) : NULL,
                   .profile = profile_of(s->over, 20, s->table, s->cpu, true)};
}

/* ---- runs ---- */

typedef struct outcome {
    luo_status st;
    char says[1024]; /* unless LUO_OK */
    double value;
} outcome;

static luo_cluster *cluster;
static luo_model *a_model;

static luo_status read_all(const texts *t, luo_diags *diags)
{
    const luo_files files = {get_text, (void *)(uintptr_t)t};
    const luo_source of_cluster = {"cluster", t->cluster, strlen(t->cluster)};
    const luo_source of_model = {"model", t->model, strlen(t->model)};
    const luo_source of_stack = {"stack", t->stack, strlen(t->stack)};
    LUO_TRY(luo_read_cluster_text(arena, &of_cluster, &files, &cluster, diags));
    LUO_TRY(luo_read_stack_text(arena, &of_stack, &sc.stack, diags));
    return luo_read_model_text(arena, &of_model, NULL, &a_model, diags);
}

static luo_status plan_scene(const scene *s, luo_err *err)
{
    const int32_t n = s->tp * s->stages * s->pipelines;
    int32_t *dev = LUO_NEW_N(arena, int32_t, n);
    luo_plan *made;
    if (n == 0) {
        sc.plan = NULL;
        sc.planner = "uniform";
        sc.batch_sequences = 8;
        sc.length_tokens = 1024;
        return LUO_OK;
    }
    for (int32_t i = 0; i < n; i++) dev[i] = i;
    const luo_grid g = {.name = "plan",
                        .model = a_model,
                        .cluster = cluster,
                        .dtype = a_model->dtype,
                        .sequence_tokens = 1024,
                        .micro_batches = 4,
                        .micro_batch_sequences = 1,
                        .pipelines = s->pipelines,
                        .stages = s->stages,
                        .tp = s->tp,
                        .dev = dev,
                        .zero = s->zero};
    LUO_TRY(luo_plan_grid(arena, &g, &made, err));
    if (s->uneven) {
        luo_stage *of = (luo_stage *)made->pipelines[1].stages;
        static const luo_range first = {0, 1}, second = {1, 4};
        of[0].layers = &first;
        of[1].layers = &second;
    }
    sc.plan = made;
    return LUO_OK;
}

static void prepare_run(output of)
{
    const bool reads = of == READING || of == READING_DISK;
    if (of == NAMES) of = STEP_S;
    luo_read_policy_defaults(&spec, reads ? "restart" : "static");
    spec.planner_s = 1;
    sc.steps = of == STEP_S || of == MEMORY || of == ROOM || of == RANGE ? 1 : 4;
    if (sc.steps > 1) {
        sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
        sc.checkpoint.every_steps = 2;
        sc.checkpoint.blocking = true;
    }
    if (of == TO_DISK || of == READING_DISK) sc.checkpoint.target = LUO_TARGET_DISK;
    if (of == TO_PEERS) sc.checkpoint.target = LUO_TARGET_PEER;
    if (!reads) return;
    events[0] = (luo_event){.id = "gone",
                            .target = "device:3",
                            .cause = "",
                            .kind = LUO_EVENT_FAIL,
                            .trigger = LUO_AT_STEP,
                            .at = {3}};
    sc.nevents = 1;
}

static outcome value_of(output of)
{
    outcome x = {.st = LUO_OK};
    if (of == STEP_S || of == NAMES)
        x.value = last_step();
    else if (of == RANGE)
        x.value = fake.range_sd;
    else if (of != MEMORY)
        x.value = fake.summary.total_s;
    for (int32_t i = 0; i < fake.nmemory && of == MEMORY; i++)
        x.value = fmax(x.value, (double)fake.memory[i].memory.needed);
    return x;
}

static outcome run_texts(const texts *t, scene_id id, output of)
{
    outcome x = {.st = LUO_OK};
    luo_diags diags;
    luo_err err = {0};
    prepare("static", 1, 0);
    luo_diags_init(&diags, arena);
    x.st = read_all(t, &diags);
    for (const luo_diag *d = diags.first; d && x.st != LUO_OK; d = d->next)
        if (d->severity == LUO_ERROR) snprintf(x.says, sizeof x.says, "%s", d->err.text);
    if (x.st != LUO_OK) return x;
    sc.cluster = cluster;
    sc.model = a_model;
    x.st = plan_scene(&scenes[id], &err);
    opts.backend = &luo_sim_backend;
    opts.comm = LUO_COMM_FLOW;
    opts.fold = true;
    opts.range = of == RANGE;
    prepare_run(of);
    if (x.st == LUO_OK) x.st = run(&err);
    snprintf(x.says, sizeof x.says, "%s", err.text);
    return x.st == LUO_OK ? value_of(of) : x;
}

/* ---- what a row says ---- */

static void say(const char *key, output of, const char *from, const char *to, const char *what)
{
    printf("%-46s %-20s %-32.*s %-32.*s %s\n", key, outputs[of], (int)strcspn(from, "\n"), from,
           (int)strcspn(to, "\n"), to, what);
}

static void refused(const char *key, const outcome *x, const char *says)
{
    ck_assert_msg(x->st != LUO_OK, "%s is accepted", key);
    ck_assert_msg(strstr(x->says, says) != NULL, "%s: %s", key, x->says);
}

/* Runs both, and holds the second to what the row says of it. */
static void compare(const char *key, const texts *first, const texts *second, scene_id id,
                    output of, direction way, const char *says, const char *from, const char *to)
{
    const outcome a = run_texts(first, id, of), b = run_texts(second, id, of);
    ck_assert_msg(a.st == LUO_OK, "%s, first: %s", key, a.says);
    if (of == ROOM || of == TO_PEERS) {
        refused(key, &b, says);
        say(key, of, from, to, says);
        return;
    }
    ck_assert_msg(b.st == LUO_OK, "%s, second: %s", key, b.says);
    if (of == NAMES) {
        ck_assert_msg(a.value == b.value, "%s moves the step from %.17g to %.17g", key, a.value,
                      b.value);
        say(key, of, from, to, says);
        return;
    }
    const double more = b.value / a.value - 1;
    ck_assert_msg(way == MORE ? more > 1e-6 : more < -1e-6, "%s: %.9g becomes %.9g", key, a.value,
                  b.value);
    char change[48];
    snprintf(change, sizeof change, "%+.3g %%", 100 * more);
    say(key, of, from, to, change);
}

static const char *edited(const char *key, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at && !strstr(at + 1, from), "%s: `%s` must occur once", key, from);
    return luo_arena_printf(words, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static bool tested_here(const char *key, output of, const char *says, bool has_edit)
{
    const bool here = has_edit || (of != NAMES && of != ELSEWHERE);
    ck_assert_msg((of != NAMES && of != ELSEWHERE) || says, "%s: say why", key);
    if (!here) say(key, of, "", "", says);
    return here;
}

START_TEST(cluster_key)
{
    const move *m = &cluster_moves[_i];
    words = luo_arena_new(0);
    if (tested_here(m->key, m->of, m->says, m->from)) {
        const texts first = texts_of(m->scene);
        texts second = first;
        second.cluster = edited(m->key, first.cluster, m->from, m->to);
        compare(m->key, &first, &second, m->scene, m->of, m->way, m->says, m->from, m->to);
    }
    luo_arena_free(words);
}
END_TEST

START_TEST(profile_key)
{
    const move *m = &profile_moves[_i];
    words = luo_arena_new(0);
    if (tested_here(m->key, m->of, m->says, m->from)) {
        texts first = texts_of(m->scene), second = first;
        first.profile = edited(m->key, first.profile, m->to, m->from);
        compare(m->key, &first, &second, m->scene, m->of, m->way, m->says, m->from, m->to);
    }
    luo_arena_free(words);
}
END_TEST

START_TEST(stack_key)
{
    tested_here(stack_moves[_i].key, stack_moves[_i].of, stack_moves[_i].says, false);
}
END_TEST

static void both_numbers(const value_move *m, texts both[2])
{
    char from[32], to[32];
    snprintf(from, sizeof from, "%g", m->from);
    snprintf(to, sizeof to, "%g", m->to);
    compare(m->name, &both[0], &both[1], m->scene, m->of, m->way, m->says, from, to);
}

START_TEST(profile_value)
{
    const value_move *m = &profile_value_moves[_i];
    words = luo_arena_new(0);
    if (tested_here(m->name, m->of, m->says, false)) {
        texts both[2] = {texts_of(m->scene), texts_of(m->scene)};
        const bool bf16 = strcmp(m->name, "peak_f16_tflop_per_s") != 0;
        for (int i = 0; i < 2; i++) {
            both[i].profile =
                profile_of(m->name, i ? m->to : m->from, m->table, scenes[m->scene].cpu, bf16);
            both[i].table = m->table ? table_of(m->table) : NULL;
            both[i].stack = stack_of(m->stack);
        }
        both_numbers(m, both);
    }
    luo_arena_free(words);
}
END_TEST

START_TEST(stack_value)
{
    const value_move *m = &stack_value_moves[_i];
    words = luo_arena_new(0);
    if (tested_here(m->name, m->of, m->says, false)) {
        texts both[2] = {texts_of(m->scene), texts_of(m->scene)};
        for (int i = 0; i < 2; i++) {
            both[i].profile = profile_of(NULL, 0, m->table, scenes[m->scene].cpu, true);
            both[i].table = m->table ? table_of(m->table) : NULL;
            both[i].stack = stack_of(luo_arena_printf(
                words, "values: [{name: %s, value: %g, source: x, provenance: chosen}]\n%s",
                m->name, i ? m->to : m->from, m->stack ? m->stack : ""));
        }
        both_numbers(m, both);
    }
    luo_arena_free(words);
}
END_TEST

START_TEST(stack_switch)
{
    const switch_move *m = &switch_moves[_i];
    words = luo_arena_new(0);
    texts both[2] = {texts_of(m->scene), texts_of(m->scene)};
    for (int i = 0; i < 2; i++) {
        both[i].stack = stack_of(luo_arena_printf(words, "switches: [{name: %s, value: %s}%s]\n",
                                                  m->name, i ? m->to : m->from, m->also));
        both[i].profile = profile_of("peak_tf32_tflop_per_s", 50, NULL, scenes[m->scene].cpu, true);
    }
    compare(m->name, &both[0], &both[1], m->scene, m->of, m->way, NULL, m->from, m->to);
    luo_arena_free(words);
}
END_TEST

START_TEST(table_column)
{
    const move *m = &table_moves[_i];
    words = luo_arena_new(0);
    if (tested_here(m->key, m->of, m->says, m->from)) {
        const bool messages = strncmp(m->key, "p2p", 3) == 0;
        texts first = texts_of(m->scene), second;
        char kind[32];
        snprintf(kind, sizeof kind, "%.*s", (int)strcspn(m->key, "."), m->key);
        first.profile = profile_of(NULL, 0, kind, scenes[m->scene].cpu, true);
        first.table = table_of(messages ? "p2p_times uplink" : kind);
        second = first;
        second.table = edited(m->key, first.table, m->from, m->to);
        compare(m->key, &first, &second, m->scene, m->of, m->way, m->says, m->from, m->to);
    }
    luo_arena_free(words);
}
END_TEST

/* ---- no key without a row ---- */

static const char *inside(const char *path, const char *key)
{
    return *path ? luo_arena_printf(words, "%s.%s", path, key) : key;
}

static void demand_rows(const luo_doc_field *f, const char *path, const move *rows, int n,
                        const char *kind)
{
    for (; f->key; f++) {
        const char *name = inside(path, f->key);
        const luo_doc_schema *s = f->value.entry ? f->value.entry : &f->value;
        if (s->form == LUO_DOC_STRUCT) {
            demand_rows(s->fields, name, rows, n, kind);
            continue;
        }
        int i = 0;
        while (i < n && strcmp(rows[i].key, name) != 0) i++;
        ck_assert_msg(i < n, "%s: `%s` has no row in tests/moves_rows.h", kind, name);
    }
}

START_TEST(all_keys)
{
    words = luo_arena_new(0);
    demand_rows(luo_doc_cluster.schema->fields, "", cluster_moves, LUO_ROWS(cluster_moves),
                "cluster");
    demand_rows(luo_doc_profile.schema->fields, "", profile_moves, LUO_ROWS(profile_moves),
                "profile");
    demand_rows(luo_doc_stack.schema->fields, "", stack_moves, LUO_ROWS(stack_moves), "stack");
    luo_arena_free(words);
}
END_TEST

static bool has_value(const value_move *rows, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].name, name) == 0) return true;
    return false;
}

START_TEST(all_values)
{
    luo_value_key key;
    for (int i = 0; luo_profile_value_key(i, &key); i++)
        ck_assert_msg(has_value(profile_value_moves, LUO_ROWS(profile_value_moves), key.name),
                      "value `%s` of a profile has no row in tests/moves_rows.h", key.name);
    for (int i = 0; luo_stack_value_key(i, &key); i++)
        ck_assert_msg(has_value(stack_value_moves, LUO_ROWS(stack_value_moves), key.name),
                      "value `%s` of a stack has no row in tests/moves_rows.h", key.name);
}
END_TEST

static bool has_switch(const char *name)
{
    for (int i = 0; i < LUO_ROWS(switch_moves); i++)
        if (strcmp(switch_moves[i].name, name) == 0) return true;
    return false;
}

START_TEST(all_switches)
{
    luo_switch_key key;
    for (int i = 0; luo_stack_switch_key(i, &key); i++)
        ck_assert_msg(has_switch(key.name), "switch `%s` has no row in tests/moves_rows.h",
                      key.name);
    ck_assert(has_switch("bucket_rule") && has_switch("fp8_recipe"));
}
END_TEST

START_TEST(all_columns)
{
    static const struct {
        const char *name;
        const luo_input_table *table;
    } tables[] = {{"op_times", &luo_input_table_op_times},
                  {"collective_times", &luo_input_table_collective_times},
                  {"p2p_times", &luo_input_table_p2p_times}};
    words = luo_arena_new(0);
    for (int t = 0; t < LUO_ROWS(tables); t++)
        for (int c = 0; c < tables[t].table->n; c++) {
            const char *key = inside(tables[t].name, tables[t].table->columns[c].name);
            int i = 0;
            while (i < LUO_ROWS(table_moves) && strcmp(table_moves[i].key, key) != 0) i++;
            ck_assert_msg(i < LUO_ROWS(table_moves), "column `%s` has no row in tests/moves_rows.h",
                          key);
        }
    luo_arena_free(words);
}
END_TEST

LUO_SUITE("moves", LUO_T(all_keys), LUO_T(all_values), LUO_T(all_switches), LUO_T(all_columns),
          LUO_T_N(cluster_key, LUO_ROWS(cluster_moves)),
          LUO_T_N(profile_key, LUO_ROWS(profile_moves)),
          LUO_T_N(profile_value, LUO_ROWS(profile_value_moves)),
          LUO_T_N(table_column, LUO_ROWS(table_moves)), LUO_T_N(stack_key, LUO_ROWS(stack_moves)),
          LUO_T_N(stack_value, LUO_ROWS(stack_value_moves)),
          LUO_T_N(stack_switch, LUO_ROWS(switch_moves)))
