/* coord_rig.h: the host backend as a driver uses it, on the tiny cluster and model, with
 * ranks that are this very test program (RIG_MAIN) or luoshu-rank. */
#ifndef LUO_TESTS_COORD_RIG_H
#define LUO_TESTS_COORD_RIG_H
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/read/read.h"
#include "exec/coordinator/coord.h"
#include "exec/coordinator/host.h"
#include "exec/rank/agent.h"
#include "tests/check_main.h"
#include "tests/exec/fake_exec.h"
#include "tests/plan_make.h"

#define RIG_CLUSTER "scenarios/clusters/tiny8.yaml"
#define RIG_MODEL "scenarios/models/tiny-llama.yaml"

enum { RIG_PATIENCE_S = 30 }; /* what takes moments may take so long on a busy machine */

typedef struct rig {
    luo_arena *arena;
    luo_model *model;
    luo_cluster *cluster;
    luo_world *world;
    char self[PATH_MAX], dir[64];
    luo_exec_options options;
    luo_backend_config config;
    luo_backend_state *b;
    luo_plan *plan;
    luo_programs *set;
    luo_recipe recipe;
    luo_step_result r; /* of the last step */
    luo_err err;
} rig;

/* Not those of Check: the rig is also used by processes that are no test. */
static inline void rig_fail(const char *what, const luo_err *err)
{
    fprintf(stderr, "rig: %s: %s\n", what, err ? err->text : "");
    abort();
}

static inline void rig_must(bool good, const char *what)
{
    if (!good) rig_fail(what, NULL);
}

/* Compiles a plan line for f32 and 32 tokens. */
static inline luo_plan *rig_plan(rig *g, const char *line, luo_programs **set, luo_recipe *recipe)
{
    luo_plan *p = luo_test_plan(g->arena, line);
    const luo_compile_opts opts = {.check = true};
    p->dtype = LUO_F32;
    p->sequence_tokens = 32;
    p->sequence_parallel = false;
    if (luo_plan_compile(g->arena, p, g->model, g->cluster, &opts, set, &g->err) != LUO_OK)
        rig_fail("plan", &g->err);
    *recipe = (luo_recipe){.plan = p, .sequence_tokens = 32};
    return p;
}

static inline void rig_take(rig *g, const char *line)
{
    g->plan = rig_plan(g, line, &g->set, &g->recipe);
}

/* As tests/run.sh does it; for a test that is started by hand in a sanitized build. */
static inline void rig_ignore_leaks_of_mpi(void)
{
    char text[PATH_MAX + 64], here[PATH_MAX];
    rig_must(getcwd(here, sizeof here) != NULL, "a working directory");
    snprintf(text, sizeof text, "suppressions=%s/tests/lsan.supp:print_suppressions=0", here);
    setenv("LSAN_OPTIONS", text, 0);
}

static inline void rig_files(rig *g)
{
    luo_diags d;
    luo_diags_init(&d, g->arena);
    if (luo_read_cluster(g->arena, RIG_CLUSTER, &g->cluster, &d) != LUO_OK ||
        luo_read_model(g->arena, RIG_MODEL, &g->model, &d) != LUO_OK)
        rig_fail("inputs", &d.first->err);
    snprintf(g->dir, sizeof g->dir, "/tmp/luoshu-coord-XXXXXX");
    rig_must(mkdtemp(g->dir) != NULL, "a folder");
}

/* Devices from `ndevices` on are taken for down, so that no rank is started for them. */
static inline void rig_open(rig *g, int32_t ndevices, const char *line)
{
    static const char *const inputs[] = {"--model", RIG_MODEL, "--cluster", RIG_CLUSTER};
    memset(g, 0, sizeof *g);
    g->arena = luo_arena_new(1 << 20);
    rig_ignore_leaks_of_mpi();
    rig_files(g);
    const ssize_t n = readlink("/proc/self/exe", g->self, sizeof g->self - 1);
    rig_must(n > 0, "/proc");
    g->options = (luo_exec_options){.program = g->self,
                                    .ninputs = 4,
                                    .inputs = inputs,
                                    .keep = 2,
                                    .stuck_s = 60,
                                    .checkpoints = luo_arena_printf(g->arena, "%s/ckpt", g->dir),
                                    .log = luo_arena_printf(g->arena, "%s/ranks.log", g->dir)};
    g->config = (luo_backend_config){.cluster = g->cluster,
                                     .model = g->model,
                                     .dtype = LUO_F32,
                                     .options = &g->options,
                                     .seed = 7};
    rig_must(luo_world_new(g->arena, g->cluster, &g->world, &g->err) == LUO_OK, "a world");
    for (int32_t d = ndevices; d < g->cluster->ndevices; d++) g->world->up[d] = false;
    rig_take(g, line);
}

static inline void rig_begin(rig *g)
{
    if (luo_host_backend.open(&g->config, &g->b, &g->err) != LUO_OK) rig_fail("open", &g->err);
}

static inline luo_status rig_state(rig *g, luo_state_action action, int64_t *step)
{
    const luo_state_request q = {.action = action,
                                 .recipe = &g->recipe,
                                 .programs = g->set,
                                 .world = g->world,
                                 .step = *step};
    return luo_host_backend.state(g->b, &q, step, &g->err);
}

/* Opens, and makes the first weights. */
static inline void rig_start(rig *g)
{
    int64_t step = 0;
    rig_begin(g);
    if (rig_state(g, LUO_STATE_INIT, &step) != LUO_OK) rig_fail("init", &g->err);
    rig_must(step == 0, "the first weights have steps");
}

static inline luo_status rig_run(rig *g, int64_t step, const luo_change *c, int32_t n)
{
    const luo_step_request q = {.programs = g->set,
                                .recipe = &g->recipe,
                                .world = g->world,
                                .changes = c,
                                .nchanges = n,
                                .step = step};
    return luo_host_backend.run_ranks(g->b, &q, &g->r, &g->err);
}

/* One step that ends well. */
static inline void rig_step(rig *g, int64_t step)
{
    if (rig_run(g, step, NULL, 0) != LUO_OK) rig_fail("step", &g->err);
    if (g->r.status != LUO_OK) rig_fail(g->r.text, NULL);
}

/* The programs of a switch to another plan, which becomes that of the rig if it succeeds. */
static inline luo_status rig_switch(rig *g, const char *line, int32_t ndead, const int32_t *dead,
                                    const luo_change *c, int32_t n)
{
    luo_programs *set;
    luo_recipe recipe;
    luo_switching what;
    luo_plan *to = rig_plan(g, line, &set, &recipe);
    if (luo_switching_compile(g->arena, g->plan, to, g->model, g->cluster, ndead, dead, &what,
                              &g->err) != LUO_OK)
        rig_fail("switch", &g->err);
    const luo_recipe r = {.plan = to,
                          .from = g->plan,
                          .sequence_tokens = 32,
                          .from_tokens = 32,
                          .ndead = ndead,
                          .dead = dead};
    const luo_step_request q = {
        .programs = what.set, .recipe = &r, .world = g->world, .changes = c, .nchanges = n};
    const luo_status st = luo_host_backend.run_ranks(g->b, &q, &g->r, &g->err);
    if (st != LUO_OK || g->r.status != LUO_OK) return st;
    g->plan = to;
    g->set = set;
    g->recipe = recipe;
    return st;
}

static inline double rig_now(const rig *g)
{
    return luo_host_backend.now(g->b);
}

static inline int32_t rig_pids(const rig *g, pid_t *out)
{
    for (int32_t r = 0; r < g->b->workers.n; r++) out[r] = g->b->workers.at[r].pid;
    return g->b->workers.n;
}

/* A process that its parent has not collected yet does nothing any more. */
static inline bool rig_lives(pid_t pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = pid > 0 ? fopen(path, "r") : NULL;
    if (!f) return false;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(f);
    return state != 'Z';
}

/* Seconds until none of the processes is left; -1: some still are after `limit_s`. */
static inline double rig_gone_after(const pid_t *pid, int32_t n, double limit_s)
{
    const double began = luo_clock_s();
    for (;;) {
        int32_t left = 0;
        for (int32_t i = 0; i < n; i++) left += rig_lives(pid[i]);
        if (left == 0) return luo_clock_s() - began;
        if (luo_clock_s() - began > limit_s) return -1;
        usleep(1000);
    }
}

static inline void rig_remove(rig *g)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", g->dir);
    rig_must(system(command) == 0, "rm");
}

/* Ends the run and sees that nothing is left. */
static inline void rig_close(rig *g)
{
    pid_t pid[64];
    const int32_t n = g->b ? rig_pids(g, pid) : 0;
    luo_host_backend.close(g->b);
    rig_must(rig_gone_after(pid, n, RIG_PATIENCE_S) >= 0, "ranks outlive their run");
    rig_remove(g);
    luo_arena_free(g->arena);
}

/* main of a test whose ranks are itself. */
#define RIG_MAIN(name, ...)                                                                        \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const luo_test_row rows_[] = {__VA_ARGS__};                                                \
        luo_err err = {0};                                                                         \
        int code = 0;                                                                              \
        if (argc < 2) return luo_run_suite(name, rows_, LUO_ROWS(rows_));                          \
        const luo_status st = luo_rank_main(argc, argv, &fake_executor, NULL, &code, &err);        \
        if (st == LUO_OK) return code;                                                             \
        fprintf(stderr, "luoshu-rank: error: %s\n", err.text);                                     \
        return luo_status_exit(st);                                                                \
    }
#endif
