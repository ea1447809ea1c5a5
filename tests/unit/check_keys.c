/* check_keys.c: A13 (docs/architecture/tests.md): for each key of each schema, a changed value
 * is seen in what the reader returns (for scenarios and plans, in the hash), or it is refused with
 * a sentence that names it. The lists are those of docs/formats.md and
 * docs/formats.md#names-of-values; that the readers know no other key is checked against their
 * tables, as they stand in the source. */
#include "core/io/read/read.h"
#include "tests/check_main.h"
#include "tests/keys_dump.h"
#include "tests/keys_rows.h"

static const struct {
    const char *source; /* where the reader's tables stand */
    const row *rows;
    int n;
} kinds[] = {
    {"core/io/read/read_cluster.c", cluster_rows, LUO_ROWS(cluster_rows)},
    {"core/io/read/read_profile.c", profile_rows, LUO_ROWS(profile_rows)},
    {"core/io/read/read_model.c", model_rows, LUO_ROWS(model_rows)},
    {"core/io/read/read_plan.c", plan_rows, LUO_ROWS(plan_rows)},
    {"core/io/read/scenario_schema.c", scenario_rows, LUO_ROWS(scenario_rows)},
};

static luo_arena *arena;
static luo_diags diags;

/* ---- reading any of the bases ---- */

/* Files that the bases and their changes name; others come from the disk. */
static luo_status get(void *ctx, luo_arena *a, const char *name, luo_source *out, luo_err *err)
{
    static const char q[] = "schema: luoshu.profile/1\nname: q\nvalues:\n"
                            "  - {name: peak_bf16_tflop_per_s, value: 1, source: x, "
                            "provenance: chosen}\n"
                            "  - {name: memory_gib, value: 1, source: x, provenance: chosen}\n"
                            "  - {name: memory_gbytes_per_s, value: 1, source: x, provenance: "
                            "chosen}\n";
    static const char ops[] = "op,dtype,m,n,k,time_us,samples,role\ngemm,bf16,8,8,8,5,1,"
                              "calibration\n";
    static const char ops2[] = "op,dtype,m,n,k,time_us,samples,role\ngemm,bf16,8,8,8,6,1,"
                               "calibration\n";
    static const char coll[] = "collective,dtype,devices,nodes,size_bytes,time_us,"
                               "algbw_gbytes_per_s,busbw_gbytes_per_s,role\n"
                               "all_reduce,bf16,2,1,1024,5,,,calibration\n";
    static const char p2p[] = "class,size_bytes,time_us,role\npcie,1024,5,calibration\n";
    static const char spot2[] = "t_s,kind,target\n1,fail,device:3\n";
    static const char causes2[] = "cause,kind,scope,count\ngpu,fail,device,149\n";
    static const struct {
        const char *name, *text;
    } made[] = {{"p.yaml", profile}, {"q.yaml", q},         {"ops.csv", ops},
                {"ops2.csv", ops2},  {"coll.csv", coll},    {"p2p.csv", p2p},
                {"spot2.csv", spot2}, {"causes2.csv", causes2},
                {"load.csv", "step,layer,expert,tokens\n0,0,0,1\n"}};
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    (void)ctx;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (strcmp(made[i].name, last) == 0) {
            *out = (luo_source){name, made[i].text, strlen(made[i].text)};
            return LUO_OK;
        }
    return luo_source_read(a, name, out, err);
}

static const luo_files files = {get, NULL};

static luo_status read_scenario(const luo_source *src, luo_str *s)
{
    luo_scenario *sc = NULL;
    LUO_TRY(luo_read_scenario_text(arena, src, &files, NULL, &sc, NULL, &diags));
    luo_str_addf(s, "%016llx", (unsigned long long)sc->hash);
    return LUO_OK;
}

static luo_status read_cluster(const luo_source *src, luo_str *s)
{
    luo_cluster *c = NULL;
    LUO_TRY(luo_read_cluster_text(arena, src, &files, &c, &diags));
    dump_cluster(s, c);
    return LUO_OK;
}

static luo_status read_profile(const luo_source *src, luo_str *s)
{
    luo_profile *p = NULL;
    LUO_TRY(luo_read_profile_text(arena, src, &files, &p, &diags));
    dump_values(s, p);
    dump_profile(s, p);
    return LUO_OK;
}

static luo_status read_stack(const luo_source *src, luo_str *s)
{
    luo_stack x;
    LUO_TRY(luo_read_stack_text(arena, src, &x, &diags));
    dump_stack(s, &x);
    return LUO_OK;
}

static luo_status read_plan(const luo_source *src, luo_str *s)
{
    luo_plan *p = NULL;
    LUO_TRY(luo_read_plan_text(arena, src, &p, &diags));
    dump_plan(s, p);
    return LUO_OK;
}

static luo_status read_model(const luo_source *src, luo_str *s)
{
    luo_model *m = NULL;
    LUO_TRY(luo_read_model_text(arena, src, NULL, &m, &diags));
    dump_model(s, m);
    return LUO_OK;
}

static bool is_file(const char *base)
{
    return base == scenario || base == uneven || base == experts || base == jobs;
}

/* What is read from a changed base, as text; errors stand in diags. */
static luo_status read_any(const char *base, const char *text, luo_str *s)
{
    const luo_source src = {is_file(base) ? base : "base", text, strlen(text)};
    luo_diags_init(&diags, arena);
    luo_str_clear(s);
    if (is_file(base)) return read_scenario(&src, s);
    if (base == cluster) return read_cluster(&src, s);
    if (base == profile) return read_profile(&src, s);
    if (base == stack) return read_stack(&src, s);
    if (base == plan) return read_plan(&src, s);
    return read_model(&src, s);
}

static const char *text_of(const char *base)
{
    luo_source src;
    luo_err err;
    if (!is_file(base)) return base;
    ck_assert_msg(luo_source_read(arena, base, &src, &err) == LUO_OK, "%s", err.text);
    return src.text;
}

/* ---- the tests ---- */

static const char *changed(const row *r, const char *text)
{
    if (!r->from) return luo_arena_printf(arena, "%s%s", text, r->to);
    const char *at = strstr(text, r->from);
    ck_assert_msg(at && !strstr(at + 1, r->from), "%s: `%s` must occur once", r->key, r->from);
    return luo_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, r->to,
                            at + strlen(r->from));
}

static bool refused_so(const char *says)
{
    for (const luo_diag *d = diags.first; d; d = d->next)
        if (d->severity == LUO_ERROR && strstr(d->err.text, says)) return true;
    return false;
}

static void check_row(const row *r)
{
    luo_str before = {0}, after = {0};
    const char *text = text_of(r->base);
    ck_assert_msg(read_any(r->base, text, &before) == LUO_OK, "base of %s: %s", r->key,
                  diags.first ? diags.first->err.text : "?");
    const luo_status st = read_any(r->base, changed(r, text), &after);
    const char *first = diags.first ? diags.first->err.text : "?";
    if (r->says) {
        ck_assert_msg(st != LUO_OK, "%s is accepted", r->key);
        ck_assert_msg(refused_so(r->says), "%s: %s", r->key, first);
    } else {
        ck_assert_msg(st == LUO_OK, "%s: %s", r->key, first);
        ck_assert_msg(strcmp(luo_str_get(&before), luo_str_get(&after)) != 0,
                      "%s: `%s` changes nothing", r->key, r->to);
    }
    luo_str_free(&before);
    luo_str_free(&after);
}

enum {
    ALL_ROWS = LUO_ROWS(cluster_rows) + LUO_ROWS(profile_rows) + LUO_ROWS(model_rows) +
               LUO_ROWS(plan_rows) + LUO_ROWS(scenario_rows)
};

START_TEST(each_key_counts)
{
    int kind = 0, i = _i;
    while (i >= kinds[kind].n) i -= kinds[kind++].n;
    arena = luo_arena_new(0);
    check_row(&kinds[kind].rows[i]);
    luo_arena_free(arena);
}
END_TEST

/* Is this the first row of its key? */
static bool first_of_key(const row *rows, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(rows[k].key, rows[i].key) == 0) return false;
    return true;
}

static int count_rows(const row *rows, int n, const char *name)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        if (strcmp(strchr(rows[i].key, '.') + 1, name) == 0) count += first_of_key(rows, i);
    return count;
}

/* The next key of a table in C: LUO_DOC_INT("key", ..). NULL: none. */
static const char *next_key(const char *at, char *key, size_t size)
{
    while ((at = strstr(at, "LUO_DOC_")) != NULL) {
        const char *name = at + strcspn(at, "(\n");
        at += 8;
        name += *name == '(' ? 1 + strspn(name + 1, " \n") : 0;
        if (*name++ != '"') continue;
        const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
        if (n == 0 || n >= size || name[n] != '"' || name[n + 1] != ',') continue;
        snprintf(key, size, "%.*s", (int)n, name);
        return name + n;
    }
    return NULL;
}

static int count_known(const char *text, const char *name, int *all)
{
    char key[64];
    int count = 0;
    *all = 0;
    while ((text = next_key(text, key, sizeof key)) != NULL) {
        ++*all;
        count += !name || strcmp(key, name) == 0;
    }
    return count;
}

static const char *read_source(const char *path)
{
    luo_source src;
    luo_err err;
    ck_assert_msg(luo_source_read(arena, path, &src, &err) == LUO_OK, "%s", err.text);
    return src.text;
}

/* A source with the lists of rows (.inc) that it includes, each once. */
static const char *read_tables(const char *path)
{
    static const char include[] = "#include \"";
    const char *const source = read_source(path), *text = source;
    for (const char *at = source; (at = strstr(at, include)) != NULL;) {
        at += strlen(include);
        const size_t n = strcspn(at, "\"");
        const char *file = luo_arena_strndup(arena, at, n);
        if (n > 4 && strcmp(file + n - 4, ".inc") == 0 && strstr(at + n, file) == NULL)
            text = luo_arena_printf(arena, "%s%s", text, read_source(file));
    }
    return text;
}

START_TEST(no_other_key)
{
    char key[64];
    int all, listed = 0;
    arena = luo_arena_new(0);
    const char *text = read_tables(kinds[_i].source);
    for (const char *at = text; (at = next_key(at, key, sizeof key)) != NULL;)
        ck_assert_msg(count_rows(kinds[_i].rows, kinds[_i].n, key) == count_known(text, key, &all),
                      "%s: key `%s` stands in %d schemas, %d are listed", kinds[_i].source, key,
                      count_known(text, key, &all), count_rows(kinds[_i].rows, kinds[_i].n, key));
    for (int i = 0; i < kinds[_i].n; i++) listed += first_of_key(kinds[_i].rows, i);
    count_known(text, NULL, &all);
    ck_assert_int_eq(listed, all);
    ck_assert_int_gt(all, 20);
    luo_arena_free(arena);
}
END_TEST

/* ---- names of values (docs/formats.md#names-of-values): each changes its own number ---- */

static const char *const profile_values[] = {"peak_bf16_tflop_per_s",
                                             "peak_f32_tflop_per_s",
                                             "peak_f64_tflop_per_s",
                                             "memory_gbytes_per_s",
                                             "memory_gib",
                                             "reserved_gib",
                                             "sm_count",
                                             "launch_us",
                                             "gemm_ratio",
                                             "gemm_depth",
                                             "memory_ratio",
                                             "attention_forward_ratio",
                                             "attention_backward_ratio",
                                             "attention_depth",
                                             "misaligned_factor",
                                             "net_ratio",
                                             "net_half_bytes",
                                             "net_step_us",
                                             "p2p_us",
                                             "overlap_loss_nvlink_ratio",
                                             "overlap_loss_net_ratio",
                                             "tables_nvlink_gbytes_per_s",
                                             "tables_pcie_gbytes_per_s",
                                             "tables_socket_gbytes_per_s",
                                             "tables_nic_gbytes_per_s",
                                             "tables_uplink_gbytes_per_s",
                                             "tables_line_gbytes_per_s",
                                             "peak_f16_tflop_per_s"};
static const char *const stack_values[] = {"host_launch_us=1",
                                           "host_exponent=2",
                                           "busbw_factor=0.5",
                                           "grad_comm_bytes=4",
                                           "optimizer_bytes=3",
                                           "tp_exposed_factor=0.5",
                                           "scale_jitter=0.5",
                                           "kernels_forward=20",
                                           "gemm_ratio=0.5",
                                           "attention_ratio=0.5",
                                           "attention=0",
                                           "p2p=1",
                                           "scatter_gather=1",
                                           "tp_overlap=0",
                                           "precision=1",
                                           "dp_overlap=1",
                                           "shard_overlap=0",
                                           "elementwise=1",
                                           "fp8_weights=1",
                                           "bucket_mib=3",
                                           "dp_lanes=3",
                                           "gradient_bytes=2",
                                           "f32_state_bytes=24",
                                           "framework_gib=1",
                                           "communicator_mib=1",
                                           "allocator_factor=2",
                                           "headroom_factor=2",
                                           "source_spread=0.5",
                                           "residual_spread=0.5",
                                           "dropout=1",
                                           "silu=1",
                                           "norm_inputs=1",
                                           "cross_entropy=1",
                                           "dummy_gradients=1",
                                           "gradients=1",
                                           "expert_weights=1",
                                           "stage_outputs=1"};

/* The formula's numbers of a profile in which `name` is 0.5 or 1.5 (`high`). */
static void profile_with(const char *name, bool high, luo_str *s)
{
    static const char *const needed[] = {"peak_f32_tflop_per_s", "memory_gbytes_per_s",
                                         "memory_gib"};
    luo_value v[4] = {{.name = name, .value = strstr(name, "factor") || strstr(name, "count")
                                                  ? (high ? 2 : 3) : (high ? 0.75 : 0.5)}};
    luo_profile p = {.name = "p", .nvalues = 1, .values = v};
    luo_err err = {0};
    for (int i = 0; i < LUO_ROWS(needed); i++)
        if (strcmp(needed[i], name) != 0)
            v[p.nvalues++] = (luo_value){.name = needed[i], .value = 1};
    ck_assert_msg(luo_profile_finish(&p, &err) == LUO_OK, "%s", err.text);
    dump_profile(s, &p);
}

START_TEST(profile_value)
{
    luo_str a = {0}, b = {0};
    profile_with(profile_values[_i], false, &a);
    profile_with(profile_values[_i], true, &b);
    ck_assert_msg(strcmp(luo_str_get(&a), luo_str_get(&b)) != 0, "%s", profile_values[_i]);
    luo_str_free(&a);
    luo_str_free(&b);
}
END_TEST

START_TEST(stack_value)
{
    luo_str a = {0}, b = {0};
    luo_stack s;
    luo_err err = {0};
    char name[32];
    luo_stack_default(&s);
    dump_stack(&a, &s);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(stack_values[_i], "="), stack_values[_i]);
    ck_assert_msg(luo_stack_set(&s, name, atof(strchr(stack_values[_i], '=') + 1), &err) == LUO_OK,
                  "%s", err.text);
    dump_stack(&b, &s);
    ck_assert_msg(strcmp(luo_str_get(&a), luo_str_get(&b)) != 0, "%s", name);
    luo_str_free(&a);
    luo_str_free(&b);
}
END_TEST

LUO_SUITE("io.keys", LUO_T_N(each_key_counts, ALL_ROWS),
          LUO_T_N(no_other_key, LUO_ROWS(kinds)), LUO_T_N(profile_value, LUO_ROWS(profile_values)),
          LUO_T_N(stack_value, LUO_ROWS(stack_values)))
