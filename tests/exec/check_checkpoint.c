/* check_checkpoint.c: checkpoints come and go whole: other plans, kills, full disks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/checkpoint/checkpoint_info.h"
#include "exec/state/checkpoint.h"
#include "tests/exec/state_make.h"
#include "tests/prop/prop.h"

static char dir[64];

static void remove_all(const char *path)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", path);
    ck_assert_int_eq(system(command), 0);
}

static void fresh_dir(void)
{
    snprintf(dir, sizeof dir, "build/check_checkpoint.%ld", (long)getpid());
    remove_all(dir);
}

/* Names in a folder, ascending, with blanks between. */
static const char *names_in(const char *path)
{
    static char text[512];
    struct dirent **e;
    const int n = scandir(path, &e, NULL, alphasort);
    text[0] = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(e[i]->d_name, ".") != 0 && strcmp(e[i]->d_name, "..") != 0) {
            strcat(text, text[0] ? " " : "");
            strcat(text, e[i]->d_name);
        }
        free(e[i]);
    }
    free(e);
    return text;
}

static int32_t keep;

static luo_status save_rank(state_rank *r, const luo_gather *gather)
{
    return luo_checkpoint_save(&r->w->state[r->rank], &r->w->model, dir, 42, "some.txt", 0xabcdef,
                               keep, gather, &r->err);
}

/* The writer's status. */
static luo_status save(state_world *w, int64_t step, luo_err *err)
{
    static state_rank ranks[STATE_RANKS];
    for (int32_t r = 0; r < w->n; r++) w->state[r].step = step;
    state_each(w, ranks, save_rank, NULL);
    for (int32_t r = 1; r < w->n; r++) ck_assert_int_eq(ranks[r].st, LUO_OK);
    if (err) *err = ranks[0].err;
    return ranks[0].st;
}

static luo_status load(state_world *w, const char *path, luo_err *err)
{
    for (int32_t r = 0; r < w->n; r++) {
        const luo_share share = {.rank = r, .ranks = w->n};
        const luo_status st = luo_checkpoint_load(&w->state[r], &w->model, path, share, err);
        if (st != LUO_OK) return st;
    }
    return LUO_OK;
}

static luo_status find(luo_arena *arena, const char *in, int64_t until, luo_found *f, luo_err *err)
{
    *f = (luo_found){0};
    return luo_checkpoint_find(arena, in, until, f, err);
}

static int64_t found(int64_t until)
{
    luo_found f;
    luo_err err;
    luo_arena *arena = luo_arena_new(0);
    const int64_t step = find(arena, dir, until, &f, &err) == LUO_OK ? f.step : -1;
    luo_arena_free(arena);
    return step;
}

/* ---- plans ---- */

START_TEST(any_plan_to_any)
{
    fresh_dir();
    LUO_PROP_FOR(seed, 40)
    {
        luo_rng rng = luo_rng_seed(seed);
        const luo_model model = state_model((int)luo_rng_pick(&rng, STATE_MODELS));
        const size_t elem = luo_rng_pick(&rng, 2) ? 8 : 4;
        state_world a, b;
        luo_err err = {0};
        luo_found f;
        keep = 1;
        state_open(&a, state_lines[luo_rng_pick(&rng, LUO_ROWS(state_lines))], &model,
                   (int)luo_rng_pick(&rng, 2), elem);
        state_open(&b, state_lines[luo_rng_pick(&rng, LUO_ROWS(state_lines))], &model,
                   (int)luo_rng_pick(&rng, 2), elem);
        state_truth(&a, 7, false);
        ck_assert_msg(save(&a, (int64_t)seed, &err) == LUO_OK, "%s", err.text);
        ck_assert_int_eq(find(a.arena, dir, INT64_MAX, &f, &err), LUO_OK);
        ck_assert_int_eq(f.step, (int64_t)seed);
        ck_assert_msg(load(&b, f.path, &err) == LUO_OK, "%s", err.text);
        ck_assert_int_eq(state_truth(&b, 7, true), 0);
        ck_assert_int_eq(b.state[b.n - 1].step, (int64_t)seed);
        state_close(&a);
        state_close(&b);
    }
    remove_all(dir);
}
END_TEST

static void whole_world(state_world *w)
{
    const luo_model model = state_model(0);
    state_open(w, state_lines[1], &model, 1, 4);
    state_truth(w, 7, false);
    fresh_dir();
    keep = 0;
}

/* ---- what stands in it ---- */

static const char info_text[] = "{\n"
                                "  \"schema\": \"luoshu.checkpoint/1\",\n"
                                "  \"step\": 7,\n"
                                "  \"seed\": 42,\n"
                                "  \"data\": \"some.txt\",\n"
                                "  \"precision\": \"f32\",\n"
                                "  \"plan\": \"0000000000abcdef\",\n"
                                "  \"model\": {\n"
                                "    \"name\": \"test-llama\",\n"
                                "    \"family\": \"llama\",\n"
                                "    \"layers\": 4,\n"
                                "    \"hidden\": 24,\n"
                                "    \"ffn_hidden\": 36,\n"
                                "    \"heads\": 4,\n"
                                "    \"kv_heads\": 4,\n"
                                "    \"head_dim\": 6,\n"
                                "    \"vocab\": 40,\n"
                                "    \"tied_embeddings\": false,\n"
                                "    \"linear_bias\": false,\n"
                                "    \"out_bias\": false,\n"
                                "    \"qkv_bias\": false,\n"
                                "    \"qk_norm\": false,\n"
                                "    \"causal\": true,\n"
                                "    \"norm\": \"rmsnorm\",\n"
                                "    \"activation\": \"swiglu\",\n"
                                "    \"position\": \"rope\",\n"
                                "    \"norm_eps\": \"9.9999999999999995e-07\",\n"
                                "    \"rope_base\": \"10000\"\n"
                                "  }\n"
                                "}\n";

START_TEST(contents)
{
    state_world w;
    char path[128];
    size_t n;
    luo_tensor_file f;
    luo_checkpoint_info info;
    whole_world(&w);
    ck_assert_int_eq(save(&w, 7, NULL), LUO_OK);
    ck_assert_str_eq(names_in(dir), "step-000007");
    snprintf(path, sizeof path, "%s/step-000007", dir);
    ck_assert_str_eq(names_in(path),
                     "config.json model.safetensors optimizer.safetensors state.json");
    snprintf(path, sizeof path, "%s/step-000007/state.json", dir);
    char *text = state_slurp(path, &n);
    ck_assert_str_eq(text, info_text);
    free(text);
    ck_assert_int_eq(luo_checkpoint_info_read(w.arena, path, &info, NULL), LUO_OK);
    ck_assert(info.step == 7 && info.seed == 42 && info.plan_hash == 0xabcdef);
    ck_assert_str_eq(info.data, "some.txt");
    snprintf(path, sizeof path, "%s/step-000007/optimizer.safetensors", dir);
    ck_assert_int_eq(luo_tensor_file_open(w.arena, path, &f, NULL), LUO_OK);
    ck_assert_int_eq(f.head.n, 2 * w.nparam);
    const luo_file_tensor *o =
        luo_safetensors_find(&f.head, "model.layers.1.self_attn.o_proj.weight.exp_avg_sq");
    double v;
    luo_tensor_take(o->dtype, luo_tensor_file_at(&f, o) + 4 * (24 * 5 + 9), 1, 1, 8, &v);
    for (int32_t i = 0; i < w.nparam; i++)
        if (strcmp(w.param[i].name, "layers.1.attn.out.weight") == 0)
            ck_assert(v == state_true(&w.param[i], 2, 24 * 9 + 5));
    luo_tensor_file_close(&f);
    state_close(&w);
    remove_all(dir);
}
END_TEST

/* ---- how many are kept ---- */

START_TEST(kept)
{
    state_world w;
    whole_world(&w);
    const int64_t steps[] = {10, 20, 30, 40};
    keep = 2;
    for (int i = 0; i < 4; i++) ck_assert_int_eq(save(&w, steps[i], NULL), LUO_OK);
    ck_assert_str_eq(names_in(dir), "step-000030 step-000040");
    ck_assert_int_eq(save(&w, 5, NULL), LUO_OK); /* gone back: the new one stays, and the newest */
    ck_assert_str_eq(names_in(dir), "step-000005 step-000040");
    keep = 0;
    ck_assert_int_eq(save(&w, 1234567, NULL), LUO_OK);
    ck_assert_str_eq(names_in(dir), "step-000005 step-000040 step-1234567");
    keep = 1;
    ck_assert_int_eq(save(&w, 41, NULL), LUO_OK);
    ck_assert_str_eq(names_in(dir), "step-000041");
    state_close(&w);
    remove_all(dir);
}
END_TEST

START_TEST(same_step_again)
{
    state_world w;
    char path[128];
    luo_err err;
    whole_world(&w);
    ck_assert_int_eq(save(&w, 3, NULL), LUO_OK);
    for (int32_t r = 0; r < w.n; r++) luo_state_init(&w.state[r], &w.model, 1);
    ck_assert_int_eq(save(&w, 3, NULL), LUO_OK);
    ck_assert_str_eq(names_in(dir), "step-000003");
    snprintf(path, sizeof path, "%s/step-000003", dir);
    state_truth(&w, 7, false);
    ck_assert_int_eq(load(&w, path, &err), LUO_OK);
    ck_assert_int_gt(state_truth(&w, 1, true), 0); /* the second one, not the truth */
    state_close(&w);
    remove_all(dir);
}
END_TEST

/* ---- which one is found ---- */

static int64_t flip(const char *file, int64_t at, int bit)
{
    FILE *f = fopen(file, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, (long)at, SEEK_SET), 0);
    const int byte = fgetc(f);
    ck_assert_int_eq(fseek(f, (long)at, SEEK_SET), 0);
    ck_assert_int_ne(fputc(byte ^ 1 << bit, f), EOF);
    ck_assert_int_eq(fclose(f), 0);
    return at;
}

/* One bit of every tensor, in turn: under whatever plan it is read, one of the ranks says so. */
START_TEST(damaged)
{
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    const luo_model model = state_model(0);
    luo_rng rng = luo_rng_seed(luo_prop_first());
    state_world a, b;
    luo_err err = {0};
    char folder[96], file[160];
    fresh_dir();
    state_open(&a, state_lines[0], &model, 0, 4);
    state_open(&b, state_lines[3], &model, 0, 4);
    state_truth(&a, 7, false);
    ck_assert_int_eq(save(&a, 3, NULL), LUO_OK);
    snprintf(folder, sizeof folder, "%s/step-000003", dir);
    for (int k = 0; k < 2; k++) {
        luo_tensor_file f;
        snprintf(file, sizeof file, "%s/%s", folder, names[k]);
        ck_assert_int_eq(luo_tensor_file_open(a.arena, file, &f, &err), LUO_OK);
        ck_assert_int_gt(f.head.n, 4);
        for (int32_t i = 0; i < f.head.n; i++) {
            const luo_file_tensor *t = &f.head.at[i];
            const int64_t bytes = t->end - t->begin;
            ck_assert(t->summed && bytes > 0);
            const int bit = (int)luo_rng_pick(&rng, 8);
            const int64_t where = luo_rng_pick(&rng, bytes);
            const int64_t at = flip(file, f.head.data + t->begin + where, bit);
            for (int w = 0; w < 2; w++) {
                ck_assert_int_eq(load(w ? &b : &a, folder, &err), LUO_EINPUT);
                ck_assert_msg(strstr(err.text, t->name) && strstr(err.text, file) &&
                                  strstr(err.text, "is damaged"),
                              "%s", err.text);
            }
            flip(file, at, bit);
        }
        luo_tensor_file_close(&f);
    }
    ck_assert_int_eq(load(&b, folder, &err), LUO_OK);
    ck_assert_int_eq(state_truth(&b, 7, true), 0);
    state_close(&a);
    state_close(&b);
    remove_all(dir);
}
END_TEST

static void cut_file(const char *name, int64_t bytes)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    ck_assert_int_eq(truncate(path, bytes), 0);
}

START_TEST(finding)
{
    state_world w;
    char file[128], want[400];
    luo_found f;
    luo_err err;
    whole_world(&w);
    for (int64_t s = 10; s <= 40; s += 10) ck_assert_int_eq(save(&w, s, NULL), LUO_OK);
    ck_assert_int_eq(found(INT64_MAX), 40);
    ck_assert_int_eq(found(39), 30);
    ck_assert_int_eq(found(10), 10);
    ck_assert_int_eq(found(9), -1);
    cut_file("step-000040/optimizer.safetensors", 4000);
    ck_assert_int_eq(found(INT64_MAX), 30);
    cut_file("step-000030/state.json", 10);
    ck_assert_int_eq(found(INT64_MAX), 20);
    snprintf(file, sizeof file, "%s/step-000020/model.safetensors", dir);
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(found(INT64_MAX), 10);
    snprintf(file, sizeof file, "%s/step-000010", dir);
    ck_assert_int_eq(find(w.arena, dir, INT64_MAX, &f, &err), LUO_OK);
    ck_assert(!f.named && f.npassed == 3);
    snprintf(want, sizeof want, "%s/step-000040", dir);
    ck_assert_str_eq(f.passed[0].path, want);
    ck_assert_ptr_nonnull(strstr(f.passed[0].why, "optimizer.safetensors"));
    ck_assert_ptr_nonnull(strstr(f.passed[1].why, "state.json:2:3`"));
    ck_assert_ptr_nonnull(strstr(f.passed[2].why, "model.safetensors"));
    ck_assert_int_eq(find(w.arena, file, 10, &f, &err), LUO_OK);
    ck_assert_str_eq(f.path, file);
    ck_assert(f.step == 10 && f.named && f.npassed == 0);
    ck_assert_int_eq(find(w.arena, file, 9, &f, &err), LUO_EINPUT);
    snprintf(want, sizeof want, "%s/step-000011", dir);
    ck_assert_int_eq(rename(file, want), 0);
    ck_assert_int_eq(find(w.arena, dir, 15, &f, &err), LUO_EINPUT);
    snprintf(want, sizeof want,
             "`%s` holds no whole checkpoint of up to 15 steps: `%s/step-000011` "
             "holds step 10; its name says 11.",
             dir, dir);
    ck_assert_str_eq(err.text, want);
    state_close(&w);
    remove_all(dir);
}
END_TEST

START_TEST(nothing_to_find)
{
    luo_found f;
    luo_err err;
    luo_arena *arena = luo_arena_new(0);
    ck_assert_int_eq(find(arena, "build/none", INT64_MAX, &f, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "cannot read build/none: no such file or directory.");
    ck_assert_int_eq(find(arena, "core", INT64_MAX, &f, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`core` holds no checkpoint; a folder `step-N`, or one of such "
                               "folders, is expected.");
    luo_arena_free(arena);
}
END_TEST

START_TEST(names_of_folders)
{
    static const struct {
        const char *name;
        int64_t step;
    } rows[] = {{"step-000123", 123},
                {"step-000000", 0},
                {"step-1234567", 1234567},
                {"step-12", -1},
                {"step-", -1},
                {"step-00012x", -1},
                {".step-000123.tmp-9", -1},
                {"step-9999999999999999999", -1}};
    for (int i = 0; i < LUO_ROWS(rows); i++)
        ck_assert_int_eq(luo_checkpoint_step(rows[i].name), rows[i].step);
}
END_TEST

/* ---- not of this run ---- */

static const struct {
    const char *from, *to, *says; /* change of state.json; sentence behind the path */
} others[] = {
    {"\"hidden\": 24", "\"hidden\": 48",
     "the checkpoint is of model `test-llama` with `hidden` 48; 24 is expected for model "
     "`test-llama`."},
    {"\"causal\": true", "\"causal\": false",
     "the checkpoint is of model `test-llama` with `causal` false; true is expected for model "
     "`test-llama`."},
    {"\"position\": \"rope\"", "\"position\": \"learned\"",
     "the checkpoint is of model `test-llama` with `position` learned; rope is expected for model "
     "`test-llama`."},
    {"\"10000\"", "\"500000\"",
     "the checkpoint is of model `test-llama` with `rope_base` 500000; 10000 is expected for model "
     "`test-llama`."},
    {"\"causal\": true",
     "\"causal\": true, \"rope_scaling\": \"longrope\", "
     "\"rope_long_factors\": [\"2\"]",
     "the checkpoint is of model `test-llama` with `rope_scaling` longrope; plain is expected for "
     "model `test-llama`."},
    {"\"causal\": true", "\"causal\": true, \"rope_long_factors\": [\"2\"]",
     "the checkpoint is of model `test-llama` with `rope_long_factors` list a8c83832281aa685; "
     "none is expected for model `test-llama`."},
    {"\"f32\"", "\"f64\"", "the checkpoint is in f64; this run computes in f32."},
    {"checkpoint/1", "checkpoint/2",
     "`schema` is `luoshu.checkpoint/2`; `luoshu.checkpoint/1` is expected."},
    {"\"step\": 7", "\"step\": -7", "`step` is `-7`; a whole number of at least 0 is expected."},
    {"\"seed\": 42", "\"seed\": \"x\"",
     "`seed` is the text \"x\"; a whole number from 0 is expected."},
    {"\"seed\": 42", "\"seeds\": 42", "unknown key `seeds`; did you mean `seed`?"},
    {"\"10000\"", "\"many\"", "`rope_base` is the text \"many\"; a number as text is expected."},
    {"0000000000abcdef", "xyz", "`plan` is the text \"xyz\"; a hash of 16 digits is expected."},
    {"\"family\": \"llama\"", "\"family\": \"moe\"",
     "the checkpoint is of model `test-llama` with `family` moe; llama is expected for model "
     "`test-llama`."},
    {"\"rmsnorm\"", "\"rms\"", "`norm` is `rms`; did you mean `rmsnorm`?"},
};

START_TEST(another_run)
{
    state_world w;
    char path[128];
    size_t n;
    luo_err err = {0};
    luo_str changed = {0};
    whole_world(&w);
    ck_assert_int_eq(save(&w, 7, NULL), LUO_OK);
    snprintf(path, sizeof path, "%s/step-000007/state.json", dir);
    char *text = state_slurp(path, &n), *at = strstr(text, others[_i].from);
    ck_assert_ptr_nonnull(at);
    luo_str_addn(&changed, text, (size_t)(at - text));
    luo_str_add(&changed, others[_i].to);
    luo_str_add(&changed, at + strlen(others[_i].from));
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(changed.at, 1, changed.len, f) == changed.len && fclose(f) == 0);
    path[strlen(path) - strlen("/state.json")] = 0;
    ck_assert_int_eq(load(&w, path, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, others[_i].says);
    ck_assert_str_eq(err.path + strlen(path), "/state.json");
    free(text);
    luo_str_free(&changed);
    state_close(&w);
    remove_all(dir);
}
END_TEST

/* The facts of experts were not in the state.json of before. */
START_TEST(older)
{
    luo_model written = {.name = "m", .family = LUO_FAMILY_MOE}, mine = written;
    luo_err err = {0};
    mine.moe.experts = 8;
    ck_assert_int_eq(luo_checkpoint_same_model(&written, &mine, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text,
                     "the checkpoint says no `experts` of its model, as luoshu wrote it before it "
                     "had the names of Hugging Face types; convert it as "
                     "docs/formats.md#older-checkpoints says, or go on with the luoshu that wrote "
                     "it.");
    written.moe.experts = 4;
    ck_assert_int_eq(luo_checkpoint_same_model(&written, &mine, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "the checkpoint is of model `m` with `experts` 4; 8 is expected for "
                               "model `m`.");
}
END_TEST

/* ---- kills and full disks ---- */

/* Runs fn in a process of its own; its wait status. */
static int in_child(void (*fn)(int), int arg)
{
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        fn(arg);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static state_world killed;

static void save_and_die(int at)
{
    killed.kill_at = at;
    save(&killed, 9, NULL);
}

START_TEST(killed_while_saving)
{
    whole_world(&killed);
    ck_assert_int_eq(save(&killed, 5, NULL), LUO_OK);
    const int gathers = 3 * killed.nparam;
    ck_assert_int_eq(killed.calls, gathers);
    for (int at = 1; at <= gathers; at += 1 + gathers / 12) {
        const int status = in_child(save_and_die, at);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        ck_assert_int_eq(found(INT64_MAX), 5);
        ck_assert_ptr_nonnull(strstr(names_in(dir), ".step-000009.tmp-"));
    }
    ck_assert_int_eq(save(&killed, 9, NULL), LUO_OK); /* clears up */
    ck_assert_str_eq(names_in(dir), "step-000005 step-000009");
    state_close(&killed);
    remove_all(dir);
}
END_TEST

/* Killed at any moment, by a clock: what is found is whole, and is the old one or the new one. */
START_TEST(killed_by_the_clock)
{
    state_world w;
    luo_found f;
    luo_err err;
    int64_t seen[3] = {0};
    whole_world(&w);
    luo_rng rng = luo_rng_seed(luo_prop_first());
    ck_assert_int_eq(save(&w, 1, NULL), LUO_OK);
    keep = 1;
    for (int64_t k = 2; k < 40; k++) {
        fflush(NULL);
        const pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            save(&w, k, NULL);
            _exit(0);
        }
        usleep((useconds_t)(1000 + luo_rng_pick(&rng, 30000)));
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        ck_assert_int_eq(find(w.arena, dir, INT64_MAX, &f, &err), LUO_OK);
        ck_assert_int_le(f.step, k);
        seen[f.step == k]++;
        ck_assert_int_eq(load(&w, f.path, &err), LUO_OK);
        ck_assert_int_eq(state_truth(&w, 7, true), 0);
    }
    printf("%lld saved, %lld killed before\n", (long long)seen[1], (long long)seen[0]);
    state_close(&w);
    remove_all(dir);
}
END_TEST

static state_world limited;

static void save_under_limit(int bytes)
{
    const struct rlimit r = {(rlim_t)bytes, (rlim_t)bytes};
    luo_err err = {0};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &r) != 0) _exit(90);
    const luo_status st = save(&limited, 9, &err);
    if (st != LUO_EIO) _exit(91);
    if (!strstr(err.text, "cannot write `") || !strstr(err.text, ": file too large;")) _exit(92);
    if (limited.calls != 3 * limited.nparam) _exit(93); /* nobody was left waiting */
}

START_TEST(disk_full)
{
    static const int room[] = {0, 1000, 4096, 40000, 70000, 120000};
    whole_world(&limited);
    ck_assert_int_eq(save(&limited, 5, NULL), LUO_OK);
    const int status = in_child(save_under_limit, room[_i]);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", WEXITSTATUS(status));
    ck_assert_str_eq(names_in(dir), "step-000005");
    ck_assert_int_eq(found(INT64_MAX), 5);
    state_close(&limited);
    remove_all(dir);
}
END_TEST

static void save_init_under_limit(int bytes)
{
    const struct rlimit r = {(rlim_t)bytes, (rlim_t)bytes};
    char path[128];
    luo_err err = {0};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &r) != 0) _exit(90);
    snprintf(path, sizeof path, "%s/init", dir);
    if (state_save_weights(&limited, path, &err) != LUO_EIO) _exit(91);
}

START_TEST(disk_full_of_weights)
{
    char path[128];
    size_t n = 0, again = 0;
    whole_world(&limited);
    ck_assert_int_eq(mkdir(dir, 0777), 0);
    snprintf(path, sizeof path, "%s/init", dir);
    ck_assert_int_eq(state_save_weights(&limited, path, NULL), LUO_OK);
    char *old = state_slurp(path, &n);
    ck_assert_int_eq(in_child(save_init_under_limit, 5000), 0);
    char *text = state_slurp(path, &again);
    ck_assert(n == again && memcmp(old, text, n) == 0);
    ck_assert_str_eq(names_in(dir), "init");
    free(old);
    free(text);
    state_close(&limited);
    remove_all(dir);
}
END_TEST

START_TEST(no_folder)
{
    state_world w;
    luo_err err;
    whole_world(&w);
    snprintf(dir, sizeof dir, "Makefile/x");
    ck_assert_int_eq(save(&w, 1, &err), LUO_EIO);
    ck_assert_str_eq(err.text, "cannot make Makefile/x: not a directory.");
    ck_assert_int_eq(w.calls, 3 * w.nparam);
    state_close(&w);
}
END_TEST

/* ---- links in a folder of others ---- */

/* A folder with one file, beside the one of the checkpoints. */
static void make_elsewhere(char path[96])
{
    char file[128];
    snprintf(path, 96, "%s.elsewhere", dir);
    remove_all(path);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    snprintf(file, sizeof file, "%s/theirs", path);
    FILE *f = fopen(file, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(folder_is_a_link)
{
    state_world w;
    luo_err err;
    char elsewhere[96], target[128], want[192];
    whole_world(&w);
    make_elsewhere(elsewhere);
    snprintf(target, sizeof target, "../%s", elsewhere);
    ck_assert_int_eq(symlink(target, dir), 0);
    ck_assert_int_eq(save(&w, 1, &err), LUO_EIO);
    snprintf(want, sizeof want,
             "cannot write into `%s`: it is a link to elsewhere; remove it, and a folder is made.",
             dir);
    ck_assert_str_eq(err.text, want);
    ck_assert_str_eq(names_in(elsewhere), "theirs");
    state_close(&w);
    remove_all(dir);
    remove_all(elsewhere);
}
END_TEST

/* Names under which a folder is removed: what was left, what is replaced, what is too much. */
START_TEST(links_inside)
{
    static const char *const names[] = {".step-000001.tmp-1", "step-000002", "step-000001"};
    state_world w;
    char elsewhere[96], target[128], link[128];
    whole_world(&w);
    make_elsewhere(elsewhere);
    ck_assert_int_eq(mkdir(dir, 0777), 0);
    snprintf(target, sizeof target, "../../%s", elsewhere);
    for (size_t i = 0; i < LUO_ROWS(names); i++) {
        snprintf(link, sizeof link, "%s/%s", dir, names[i]);
        ck_assert_int_eq(symlink(target, link), 0);
        ck_assert_str_eq(names_in(link), "theirs");
    }
    keep = 1;
    ck_assert_int_eq(save(&w, 2, NULL), LUO_OK);
    ck_assert_str_eq(names_in(dir), "step-000002");
    ck_assert_str_eq(names_in(elsewhere), "theirs");
    state_close(&w);
    remove_all(dir);
    remove_all(elsewhere);
}
END_TEST

LUO_SUITE("exec.checkpoint", LUO_T(any_plan_to_any), LUO_T(contents), LUO_T(kept),
          LUO_T(same_step_again), LUO_T(finding), LUO_T(damaged), LUO_T(nothing_to_find),
          LUO_T(names_of_folders), LUO_T_N(another_run, LUO_ROWS(others)), LUO_T(older),
          LUO_T(killed_while_saving), LUO_T(killed_by_the_clock), LUO_T_N(disk_full, 6),
          LUO_T(disk_full_of_weights), LUO_T(no_folder), LUO_T(folder_is_a_link),
          LUO_T(links_inside))
