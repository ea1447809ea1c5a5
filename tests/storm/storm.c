/* Storms: random scenarios run by the command itself, and what has to hold afterwards.
 *
 *   make storm                              STORM_N cases from LUO_SEED (1) on
 *   LUO_SEED=7 STORM_N=1 STORM_KEEP=1 build/release/tests/storm/storm
 *
 * A case that fails is shrunk by leaving out policies, events and processes while it still fails;
 * its folder is kept. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/storm/storm.h"

#ifdef __SANITIZE_ADDRESS__
enum { SLOWER = 8, LARGER = 8 };
#else
enum { SLOWER = 1, LARGER = 1 };
#endif
enum { WALL_S = 60, LIMIT_S = 20, MEMORY_MIB = 1536, FILE_MIB = 512 };

typedef struct tally { /* shared between the jobs */
    int next, done, failed, refused, no_plan, out_of_memory, unlike, slow;
    storm_counts counts;
    double wall_s, slowest_s;
    uint64_t slowest, peak_bytes;
} tally;

typedef struct storm {
    const char *luoshu, *folder;
    uint64_t first;
    int n, jobs, shrink_s;
    bool keep;
    tally *t;
} storm;

static long env_of(const char *name, long otherwise)
{
    const char *v = getenv(name);
    return v && *v ? atol(v) : otherwise;
}

/* ---- one case ---- */

typedef struct verdict {
    int exit;
    bool good, unlike; /* unlike: `check` and `sim` */
    double wall_s;
    uint64_t peak_bytes;
    storm_counts counts;
} verdict;

static bool is_sentence(const char *said)
{
    const char *at = strstr(said, "error: ");
    return at && strlen(at) > 12;
}

/* The command on the case; out: where results go. */
static storm_end simulate(const storm *s, const storm_case *c, const char *out, char *line,
                          size_t size)
{
    static const storm_limits limits = {WALL_S * SLOWER, (uint64_t)LARGER * MEMORY_MIB << 20,
                                        (uint64_t)FILE_MIB << 20};
    char scenario[4096], limit[16];
    char *argv[32] = {(char *)s->luoshu, "sim",     scenario, "--out",     (char *)out,
                      "--force",         "--plots", "off",    "--limit-s", limit};
    int n = 10;
    storm_end end;
    snprintf(scenario, sizeof scenario, "%s/scenario.yaml", c->dir);
    snprintf(limit, sizeof limit, "%d", LIMIT_S * SLOWER);
    for (int i = 0; i < c->nargs; i++) argv[n++] = (char *)c->arg[i];
    for (int i = 0, k = 0; i < n && line; i++)
        k += snprintf(line + k, size - (size_t)k, "%s%s", i ? " " : "", argv[i]);
    if (!storm_start(argv, c->dir, "sim", &limits, &end)) end.exit = -1;
    return end;
}

static int checked(const storm *s, const storm_case *c)
{
    static const storm_limits limits = {WALL_S * SLOWER, (uint64_t)LARGER * MEMORY_MIB << 20,
                                        (uint64_t)FILE_MIB << 20};
    char scenario[4096];
    char *const argv[] = {(char *)s->luoshu, "check", scenario, NULL};
    storm_end end;
    snprintf(scenario, sizeof scenario, "%s/scenario.yaml", c->dir);
    return storm_start(argv, c->dir, "check", &limits, &end) ? end.exit : -1;
}

static void judge_end(const storm_end *e, luo_str *why)
{
    static const int sane[] = {0, 1, 3, 5, 6}; /* 6: by --limit-s, counted apart */
    bool known = false;
    for (int i = 0; i < 5; i++) known |= e->exit == sane[i];
    if (e->late)
        luo_str_addf(why, "killed after %.1f s with %.0f MiB\n", e->wall_s,
                     (double)e->peak_bytes / 1048576);
    else if (e->signal)
        luo_str_addf(why, "ended by signal %d\n", e->signal);
    else if (!known)
        luo_str_addf(why, "exit %d\n", e->exit);
    else if (e->exit > 1 && !is_sentence(e->said))
        luo_str_addf(why, "exit %d without a sentence\n", e->exit);
}

static bool has_results(const char *out)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/compare.csv", out);
    return stat(path, &st) == 0;
}

static void remove_all(const char *path)
{
    char line[4200];
    snprintf(line, sizeof line, "rm -rf '%s'", path);
    if (system(line) != 0) fprintf(stderr, "storm: `%s` is left\n", path);
}

/* What is refused only where the run gets to it: its length, limits of work, and what some later
 * plan needs that the first did not (a table, a peak of another device). */
static bool refused_later(const storm_end *sim)
{
    static const char *const says[] = {"a run lasts up to", "--limit ", "is a mesh and has no",
                                       "has no peak for dtype"};
    for (int i = 0; i < 4; i++)
        if (strstr(sim->said, says[i])) return true;
    return false;
}

/* `check` refuses what `sim` refuses before it starts, with the same exit code. */
static bool agree(int check, const storm_end *sim)
{
    if (sim->exit == 6) return true; /* of the policies that were not refused one was too slow */
    return check == 0 ? sim->exit != 3 || refused_later(sim) : check == sim->exit;
}

static verdict run_case(const storm *s, storm_case *c, char *line, size_t size, luo_str *why)
{
    verdict v = {0};
    const char *out = luo_arena_printf(c->arena, "%s/out", c->dir);
    const char *twin = luo_arena_printf(c->arena, "%s/twin", c->dir);
    remove_all(out);
    storm_end end = simulate(s, c, out, line, size);
    v.exit = end.exit;
    v.wall_s = end.wall_s;
    v.peak_bytes = end.peak_bytes;
    judge_end(&end, why);
    if (why->len > 0 && *end.said) luo_str_addf(why, "%.400s\n", end.said);
    const int check = checked(s, c);
    v.unlike = !agree(check, &end);
    if (v.unlike) luo_str_addf(why, "check gives %d, sim %d\n%.400s", check, end.exit, end.said);
    if (why->len == 0 && end.exit != 6 && (end.exit == 0 || has_results(out))) {
        storm_judge(c, out, end.exit, why, &v.counts);
        if (c->twice) {
            remove_all(twin);
            end = simulate(s, c, twin, NULL, 0);
            judge_end(&end, why);
            storm_judge_same(c->arena, out, twin, why);
            remove_all(twin);
        }
    }
    v.good = why->len == 0;
    return v;
}

/* ---- a case that fails ---- */

static bool fails(const storm *s, storm_case *c)
{
    luo_str why = {0};
    if (!storm_write_scenario(c)) return false;
    run_case(s, c, NULL, 0, &why);
    const bool bad = why.len > 0;
    luo_str_free(&why);
    return bad;
}

static int left(const storm_case *c, storm_section section)
{
    int n = 0;
    for (int i = 0; i < c->nlines; i++) n += c->line[i].section == section && !c->line[i].out;
    return n;
}

/* Leaves lines out, one at a time, while the case still fails. */
static void shrink(const storm *s, storm_case *c)
{
    const time_t began = time(NULL);
    for (int i = 0; i < c->nlines && time(NULL) < began + s->shrink_s; i++) {
        if (c->line[i].section == STORM_POLICIES && left(c, STORM_POLICIES) == 1) continue;
        c->line[i].out = true;
        if (!fails(s, c)) c->line[i].out = false;
    }
    storm_write_scenario(c);
}

static void report(const storm *s, storm_case *c, const luo_str *why)
{
    luo_str again = {0};
    char line[8192];
    shrink(s, c);
    run_case(s, c, line, sizeof line, &again);
    printf("FAIL LUO_SEED=%llu STORM_N=1: %s%s  %s\n", (unsigned long long)c->seed,
           luo_str_get(why), again.len ? "  shrunk: " : "  not seen again\n", luo_str_get(&again));
    printf("  %s\n", line);
    fflush(stdout);
    luo_str_free(&again);
}

/* ---- all cases ---- */

static void count(tally *t, const verdict *v, uint64_t seed)
{
#define ADD(field, x) __atomic_add_fetch(&t->field, (x), __ATOMIC_SEQ_CST)
    ADD(done, 1);
    ADD(failed, !v->good);
    ADD(refused, v->exit == 3);
    ADD(no_plan, v->exit == 1 && v->counts.complete + v->counts.lost == 0);
    ADD(out_of_memory, v->exit == 5);
    ADD(unlike, v->unlike);
    ADD(slow, v->exit == 6);
    ADD(counts.complete, v->counts.complete);
    ADD(counts.lost, v->counts.lost);
    ADD(counts.steps, v->counts.steps);
    ADD(counts.failures, v->counts.failures);
#undef ADD
    if (v->wall_s > t->slowest_s) { /* a race costs a figure of the last line, no more */
        t->slowest_s = v->wall_s;
        t->slowest = seed;
    }
    if (v->peak_bytes > t->peak_bytes) t->peak_bytes = v->peak_bytes;
}

static void one(const storm *s, uint64_t seed)
{
    char dir[4096];
    luo_str why = {0};
    snprintf(dir, sizeof dir, "%s/%llu", s->folder, (unsigned long long)seed);
    storm_case c = {.seed = seed, .dir = dir, .arena = luo_arena_new(1 << 20)};
    verdict v = {0};
    if (mkdir(dir, 0755) < 0 || !c.arena || !storm_make(&c))
        printf("FAIL LUO_SEED=%llu: it cannot be made in %s\n", (unsigned long long)seed, dir);
    else {
        v = run_case(s, &c, NULL, 0, &why);
        if (!v.good) report(s, &c, &why);
    }
    count(s->t, &v, seed);
    if (v.good && !s->keep) remove_all(dir);
    luo_str_free(&why);
    luo_arena_free(c.arena);
}

/* In a process of its own: memory that a large case took would stay. */
static void apart(const storm *s, uint64_t seed)
{
    int how;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        one(s, seed);
        fflush(NULL);
        _exit(0);
    }
    if (pid > 0 && waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0) return;
    printf("FAIL LUO_SEED=%llu: the judge did not come to its end\n", (unsigned long long)seed);
    __atomic_add_fetch(&s->t->failed, 1, __ATOMIC_SEQ_CST);
}

static void work(const storm *s)
{
    for (;;) {
        const int k = __atomic_fetch_add(&s->t->next, 1, __ATOMIC_SEQ_CST);
        if (k >= s->n) return;
        apart(s, s->first + (uint64_t)k);
    }
}

static void run_jobs(const storm *s)
{
    for (int i = 0; i < s->jobs; i++) {
        fflush(NULL);
        const pid_t pid = fork();
        if (pid != 0) continue;
        work(s);
        fflush(NULL);
        _exit(0);
    }
    int how;
    while (wait(&how) > 0)
        if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) s->t->failed++;
}

/* A storm that hardly runs anything passes everything; one in twenty-five may be too much work. */
static int poor(const storm *s)
{
    const tally *t = s->t;
    const bool idle = s->n >= 50 && t->counts.complete + t->counts.lost < s->n / 2;
    const bool late = t->slow > 1 + s->n / 25;
    if (idle) printf("FAIL: the cases hardly run\n");
    if (late) printf("FAIL: %d cases reached --limit-s\n", t->slow);
    return idle + late;
}

static int close_down(const storm *s)
{
    const tally *t = s->t;
    const int missing = s->n - t->done, bad = t->failed + missing + poor(s);
    printf("%d cases: %d policies complete, %d lost, %d steps, %d switches and restarts; refused "
           "%d (%d not by check), no plan %d, too large %d, too slow %d\n",
           t->done, t->counts.complete, t->counts.lost, t->counts.steps, t->counts.failures,
           t->refused, t->unlike, t->no_plan, t->out_of_memory, t->slow);
    printf("slowest: seed %llu, %.1f s; most memory: %.0f MiB\n", (unsigned long long)t->slowest,
           t->slowest_s, (double)t->peak_bytes / 1048576);
    if (bad == 0 && !s->keep)
        remove_all(s->folder);
    else
        printf("folders: %s\n", s->folder);
    printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n",
           100 * (s->n - (bad < s->n ? bad : s->n)) / s->n, s->n, bad);
    return bad ? 1 : 0;
}

int main(void)
{
    char folder[] = "/tmp/luoshu-storm-XXXXXX", root[4096];
    storm s = {.luoshu = getenv("LUOSHU"),
               .first = (uint64_t)env_of("LUO_SEED", 1),
               .n = (int)env_of("STORM_N", env_of("LUO_SCALE", 1) > 1 ? 100 : 15),
               .jobs = (int)env_of("STORM_JOBS", 2),
               .keep = env_of("STORM_KEEP", 0) != 0,
               .shrink_s = (int)env_of("STORM_SHRINK_S", 60),
               .folder = mkdtemp(folder)};
    s.t = mmap(NULL, sizeof *s.t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!s.luoshu || !s.folder || s.t == MAP_FAILED || s.n < 1 || !getcwd(root, sizeof root)) {
        fprintf(stderr, "storm: LUOSHU names the command; STORM_N is 1 or more\n");
        return 1;
    }
    setenv("STORM_ROOT", root, 0);
    printf("seeds %llu..%llu\n", (unsigned long long)s.first,
           (unsigned long long)s.first + (unsigned long long)s.n - 1);
    run_jobs(&s);
    return close_down(&s);
}
