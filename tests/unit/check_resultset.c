/* check_resultset.c: who owns a folder of results, and what stands in it when a process
 * is killed while it replaces them, at drawn moments (LUO_SEED, LUO_CASES). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/rng.h"
#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/result/resultset.h"
#include "tests/check_main.h"

static char base[64], path[256];

static const char *in(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", base, name);
    return path;
}

static void begin(void)
{
    snprintf(base, sizeof base, "/tmp/luo-set-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    ck_assert_int_eq(system(command), 0);
}

static luo_status put(const char *dir, const char *name, int k)
{
    char at[512], new[520];
    snprintf(at, sizeof at, "%s/%s", dir, name);
    snprintf(new, sizeof new, "%s.tmp-1", at);
    FILE *f = fopen(new, "w"); /* not synced, as kills are no loss of power */
    if (!f) return LUO_EIO;
    fprintf(f, "%d\n", k);
    return fclose(f) == 0 && rename(new, at) == 0 ? LUO_OK : LUO_EIO;
}

/* The number in DIR/SET/NAME; -1: there is no such file. */
static int get(const char *set, const char *name)
{
    char at[512];
    int k = -1;
    snprintf(at, sizeof at, "%s/%s", in(set), name);
    FILE *f = fopen(at, "r");
    if (f && fscanf(f, "%d", &k) != 1) k = -2;
    if (f) fclose(f);
    return k;
}

/* Run 1 of set k has the number k, as has run 2 of even sets. */
static luo_status begin_set(void *ctx, const char *dir, luo_err *err)
{
    char at[512];
    const int k = *(const int *)ctx;
    for (int i = 1; i <= 2 - k % 2; i++) {
        snprintf(at, sizeof at, "%s/run-%d", dir, i);
        LUO_TRY(luo_file_make_dir(at, err));
        LUO_TRY(put(at, "manifest.json", k));
    }
    return LUO_OK;
}

static luo_status one_set(int k, luo_err *err)
{
    luo_set set;
    const luo_set_new how = {.begin = begin_set, .ctx = &k};
    LUO_TRY(luo_set_open(&set, in("o"), true, err));
    luo_status st =
        luo_set_old(&set) ? luo_set_replace(&set, &how, err) : begin_set(&k, set.real, err);
    if (st == LUO_OK) st = put(set.real, "compare.csv", k);
    const luo_status closed = luo_set_close(&set, st == LUO_OK, err);
    return st == LUO_OK ? closed : st;
}

/* ---- killed ---- */

static void replace_for_ever(int from)
{
    luo_err err = {0};
    for (int k = from;; k++)
        if (one_set(k, &err) != LUO_OK) {
            fprintf(stderr, "set %d: %s\n", k, err.text);
            _exit(3);
        }
}

/* The number of the set in o: all of it is of one. */
static int whole(void)
{
    const int one = get("o", "run-1/manifest.json"), two = get("o", "run-2/manifest.json");
    const int table = get("o", "compare.csv");
    ck_assert_int_gt(one, 0);
    ck_assert_int_eq(two, one % 2 ? -1 : one);
    ck_assert(table == one || table == -1);
    return one;
}

START_TEST(killed_while_replacing)
{
    const char *seed = getenv("LUO_SEED"), *cases = getenv("LUO_CASES");
    const uint64_t first = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    luo_rng rng = luo_rng_seed(first);
    luo_err err = {0};
    int k = 1, waited = 0, begun = 0;
    printf("LUO_SEED=%llu\n", (unsigned long long)first);
    fflush(stdout);
    begin();
    ck_assert_int_eq(one_set(k, &err), LUO_OK);
    ck_assert_int_eq(put(in("o"), "notes.txt", 7), LUO_OK);
    for (int i = 0; i < (cases ? atoi(cases) : 150); i++) {
        const long ns = (long)(luo_rng_next(&rng) % 12000000);
        const pid_t pid = fork();
        if (pid == 0) replace_for_ever(k + 1);
        nanosleep(&(struct timespec){0, ns}, NULL);
        int how;
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, &how, 0), pid);
        ck_assert(WIFSIGNALED(how));
        k = whole();
        waited += get("o", ".old/run-1/manifest.json") > 0;
        begun += get("o", "compare.csv") < 0;
        ck_assert_int_eq(one_set(++k, &err), LUO_OK); /* the lock of the dead is taken over */
        ck_assert_int_eq(whole(), k);
        ck_assert_int_eq(get("o", "compare.csv"), k);
        ck_assert_int_eq(get("o", "notes.txt"), 7); /* was never part of it */
        ck_assert_int_eq(get("o", ".old/run-1/manifest.json"), -1);
    }
    printf("%d sets, %d kills with an old set waiting, %d before the new one was whole\n", k,
           waited, begun);
    ck_assert_int_gt(waited, 0);
    ck_assert_int_eq(rmdir(base), -1);
    char command[160];
    snprintf(command, sizeof command, "[ \"$(ls -A '%s')\" = o ]",
             base); /* nothing is left beside */
    ck_assert_int_eq(system(command), 0);
    end();
}
END_TEST

/* ---- locks ---- */

START_TEST(one_owner)
{
    luo_set set, other;
    luo_err err = {0};
    char want[256];
    int pipes[2];
    begin();
    ck_assert_int_eq(pipe(pipes), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        char c = luo_set_open(&set, in("o"), false, &err) == LUO_OK ? 'y' : 'n';
        if (write(pipes[1], &c, 1) != 1) _exit(1);
        pause();
    }
    char c = 0;
    ck_assert_int_eq(read(pipes[0], &c, 1), 1);
    ck_assert_int_eq(c, 'y');
    for (int force = 0; force < 2; force++) {
        ck_assert_int_eq(luo_set_open(&other, in("o"), force, &err), LUO_EUSAGE);
        snprintf(want, sizeof want,
                 "folder `%s/o` is in use by process %ld; wait for it, end it, or give another "
                 "--out.",
                 base, (long)pid);
        ck_assert_str_eq(err.text, want);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert_int_eq(luo_set_open(&set, in("o"), false, &err),
                     LUO_OK); /* a lock alone is nothing */
    ck_assert_int_eq(luo_set_close(&set, true, &err), LUO_OK);
    ck_assert_int_eq(rmdir(in("o")), 0);
    end();
}
END_TEST

/* What lock files of other times say; whom they name. */
static const struct {
    const char *text;
    bool ours;
} locks[] = {
    {"", true},
    {"garbage", true},
    {"pid 999999999 start 5 host HERE\n", true}, /* dead */
    {"pid 999999999 start 1 host HERE\n", true},
    {"pid 1 start FIRST host HERE\n", false}, /* a number as any other */
    {"pid PARENT start 1 host HERE\n", true},    /* its number has another process now */
    {"pid PARENT start START host HERE\n", false} /* it lives, though its file system forgot */,
    {"pid PARENT start START host elsewhere\n", true}, /* flock has the say where it works */
};

static unsigned long long start_of(long pid)
{
    char stat[1024] = "", name[64];
    unsigned long long start = 0;
    snprintf(name, sizeof name, "/proc/%ld/stat", pid);
    FILE *p = fopen(name, "r");
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_nonnull(fgets(stat, sizeof stat, p));
    fclose(p);
    ck_assert_int_eq(sscanf(strrchr(stat, ')'),
                            ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                            "%*d %*d %llu",
                            &start),
                     1);
    return start;
}

static void fill(const char *text, FILE *f)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    for (const char *at = text; *at; at++)
        if (strncmp(at, "PARENT", 6) == 0)
            fprintf(f, "%ld", (long)getppid()), at += 5;
        else if (strncmp(at, "START", 5) == 0)
            fprintf(f, "%llu", start_of((long)getppid())), at += 4;
        else if (strncmp(at, "FIRST", 5) == 0)
            fprintf(f, "%llu", start_of(1)), at += 4;
        else if (strncmp(at, "HERE", 4) == 0)
            fputs(host, f), at += 3;
        else
            fputc(*at, f);
}

START_TEST(lock_files)
{
    luo_set set;
    luo_err err = {0};
    begin();
    ck_assert_int_eq(mkdir(in("o"), 0777), 0);
    FILE *f = fopen(in("o/.lock"), "w");
    ck_assert_ptr_nonnull(f);
    fill(locks[_i].text, f);
    fclose(f);
    ck_assert_int_eq(luo_set_open(&set, in("o"), false, &err),
                     locks[_i].ours ? LUO_OK : LUO_EUSAGE);
    ck_assert_int_eq(luo_set_close(&set, true, &err), LUO_OK);
    end();
}
END_TEST

/* Somebody holds the file. Is its owner dead, or has yet to write its name, it will be free soon;
 * somebody on another host is not waited for. */
static const struct {
    const char *text;
    bool waits;
} held[] = {
    {"", true},
    {"pid 999999999 start 5 host HERE\n", true},
    {"pid PARENT start START host elsewhere\n", false},
    {"pid PARENT start START host HERE\n", false},
};

START_TEST(held_files)
{
    luo_set set;
    luo_err err = {0};
    int tell[2];
    char c;
    begin();
    ck_assert_int_eq(mkdir(in("o"), 0777), 0);
    FILE *f = fopen(in("o/.lock"), "w");
    ck_assert_ptr_nonnull(f);
    fill(held[_i].text, f);
    fclose(f);
    ck_assert_int_eq(pipe(tell), 0);
    const pid_t holder = fork();
    if (holder == 0) {
        const int fd = open(in("o/.lock"), O_RDWR);
        if (flock(fd, LOCK_EX) != 0 || write(tell[1], "y", 1) != 1) _exit(1);
        if (held[_i].waits) usleep(300000);
        else pause();
        _exit(0);
    }
    ck_assert_int_eq(read(tell[0], &c, 1), 1);
    const luo_status st = luo_set_open(&set, in("o"), false, &err);
    ck_assert_msg(st == (held[_i].waits ? LUO_OK : LUO_EUSAGE), "%s", err.text);
    if (held[_i].waits) ck_assert_int_eq(luo_set_close(&set, true, &err), LUO_OK);
    else ck_assert_ptr_nonnull(strstr(err.text, "is in use by process "));
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    end();
}
END_TEST

/* ---- what may not be replaced ---- */

START_TEST(refusals)
{
    char file[256];
    int k = 2;
    luo_set set;
    luo_err err = {0};
    begin();
    ck_assert_int_eq(one_set(1, &err), LUO_OK);
    ck_assert_int_eq(luo_set_open(&set, in("o"), false, &err), LUO_EUSAGE);
    ck_assert_ptr_nonnull(strstr(err.text, "is not empty; give another --out, or --force."));
    ck_assert_int_eq(luo_set_open(&set, in("o"), true, &err), LUO_OK);
    snprintf(file, sizeof file, "%s/o/run-1/manifest.json", base);
    const char *const read[] = {NULL, file};
    const luo_set_new how = {.begin = begin_set, .ctx = &k, .nread = 2, .read = read};
    ck_assert_int_eq(luo_set_replace(&set, &how, &err), LUO_EUSAGE);
    ck_assert_ptr_nonnull(strstr(err.text, "is read by this run and lies among the results"));
    ck_assert_int_eq(mkdir(in("o/mine"), 0777), 0);
    ck_assert_int_eq(luo_set_label(&set, "mine", &err), LUO_OK); /* empty */
    ck_assert_int_eq(luo_set_label(&set, "run-1", &err), LUO_OK);
    ck_assert_int_eq(put(in("o/mine"), "x", 1), LUO_OK);
    ck_assert_int_eq(luo_set_label(&set, "mine", &err), LUO_EUSAGE);
    ck_assert_ptr_nonnull(strstr(err.text, "o/mine` is in the way of a run and is none"));
    ck_assert_int_eq(chdir(in("o/mine")), 0);
    const luo_set_new none = {.begin = begin_set, .ctx = &k};
    ck_assert_int_eq(luo_set_replace(&set, &none, &err), LUO_EUSAGE);
    ck_assert_ptr_nonnull(strstr(err.text, "you stand in folder"));
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(luo_set_close(&set, false, &err), LUO_OK);
    ck_assert_int_eq(get("o", "run-1/manifest.json"), 1);
    end();
}
END_TEST

/* ---- a run without policies: its files lie in the folder itself ---- */

static void flat_file(const char *dir, const char *name, const char *text)
{
    char at[512];
    snprintf(at, sizeof at, "%s/%s", in(dir), name);
    FILE *f = fopen(at, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

#define FLAT "{\n  \"schema\": \"luoshu.sim/1\",\n"
#define AHEAD "ahead,iterations\n0,5\n"

static luo_status nothing(void *ctx, const char *dir, luo_err *err)
{
    (void)ctx, (void)dir, (void)err;
    return LUO_OK;
}

static void take_over(luo_set *set)
{
    const luo_set_new how = {.begin = nothing};
    luo_err err = {0};
    ck_assert_int_eq(luo_set_open(set, in("o"), true, &err), LUO_OK);
    ck_assert(luo_set_old(set));
    ck_assert_msg(luo_set_replace(set, &how, &err) == LUO_OK, "%s", err.text);
}

/* Whose files they are is told by what is in them, not by their names alone. */
START_TEST(flat_files)
{
    static const struct {
        const char *name, *text;
        bool old, in_the_way;
    } file[] = {
        {"ahead.csv", AHEAD, true, false},
        {"ahead.csv", "", true, false}, /* killed at once */
        {"ahead.csv", "ahead,of\n0,5\n", false, true},
        {"traffic.csv", "street,cars\n", false, true},
        {"summary.json", FLAT "}\n", true, false},
        {"summary.json", "{\"schema\": \"mine/1\"}\n", false, true},
        {"calibrate.csv", "case,role,measured,predicted,unit,error_ratio,source\n", false, false},
        {"notes.txt", FLAT, false, false}};
    for (int i = 0; i < LUO_ROWS(file); i++) {
        luo_set set;
        luo_err err = {0};
        begin();
        ck_assert_int_eq(mkdir(in("o"), 0777), 0);
        flat_file("o", file[i].name, file[i].text);
        ck_assert_int_eq(luo_set_open(&set, in("o"), true, &err), LUO_OK);
        ck_assert_msg(luo_set_old(&set) == file[i].old, "row %d", i);
        ck_assert_msg((luo_set_flat(&set, &err) == LUO_EUSAGE) == file[i].in_the_way, "row %d", i);
        if (file[i].in_the_way)
            ck_assert_ptr_nonnull(
                strstr(err.text, "is in the way and no result that --force replaces"));
        luo_set_close(&set, false, NULL);
        end();
    }
}
END_TEST

/* A pipe is not read, and the folder of a run has such names for itself. */
START_TEST(flat_others)
{
    luo_set set;
    luo_err err = {0};
    begin();
    ck_assert_int_eq(mkdir(in("o"), 0777), 0);
    ck_assert_int_eq(mkfifo(in("o/groups.csv"), 0666), 0);
    ck_assert_int_eq(luo_set_open(&set, in("o"), true, &err), LUO_OK);
    ck_assert(!luo_set_old(&set));
    ck_assert_int_eq(luo_set_flat(&set, &err), LUO_EUSAGE);
    ck_assert_int_eq(unlink(in("o/groups.csv")), 0);
    ck_assert_int_eq(mkdir(in("o/ranks"), 0777), 0);
    ck_assert_int_eq(luo_set_flat(&set, &err), LUO_OK); /* killed at once */
    flat_file("o/ranks", "best.txt", "mine\n");
    ck_assert(!luo_set_old(&set));
    ck_assert_int_eq(luo_set_flat(&set, &err), LUO_EUSAGE);
    flat_file("o/ranks", "facts-0.csv", "name,value\n");
    ck_assert(luo_set_old(&set));
    ck_assert_int_eq(luo_set_flat(&set, &err), LUO_OK);
    flat_file("o", "ahead.csv", AHEAD);
    flat_file("o", "manifest.json", "{}");
    ck_assert(!luo_set_old(&set));
    ck_assert_int_eq(luo_set_flat(&set, &err), LUO_EUSAGE);
    luo_set_close(&set, false, NULL);
    end();
}
END_TEST

/* Sets of several seeds go as a whole, with the log of one that failed. */
START_TEST(seeds_go)
{
    static const char *const gone[] = {"o/seed1", "o/seed3", "o/seed3.log", "o/pairs.csv"},
                             *const stay[] = {"o/seeds", "o/seed9", "o/seed9.log", "o/seedling"};
    luo_set set;
    begin();
    ck_assert_int_eq(mkdir(in("o"), 0777), 0);
    for (int i = 0; i < 4; i++) {
        if (strchr(gone[i], '.')) continue;
        ck_assert_int_eq(mkdir(in(gone[i]), 0777), 0);
        flat_file(gone[i], "compare.csv", "run\n");
    }
    for (int i = 0; i < 4; i++)
        if (!strchr(stay[i], '.')) ck_assert_int_eq(mkdir(in(stay[i]), 0777), 0);
    flat_file("o", "seed3.log", "why\n");
    flat_file("o", "seed9.log", "mine\n");
    flat_file("o", "pairs.csv", "run\n");
    flat_file("o/seeds", "compare.csv", "run\n");
    take_over(&set);
    ck_assert_int_eq(luo_set_close(&set, true, NULL), LUO_OK);
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(access(in(gone[i]), F_OK) != 0, "%s", gone[i]);
        ck_assert_msg(access(in(stay[i]), F_OK) == 0, "%s", stay[i]);
    }
    end();
}
END_TEST

/* ---- undone ---- */

static void check_before(const char *why)
{
    static const char *const are[] = {"o/run-1/manifest.json", "o/run-2/manifest.json",
                                      "o/compare.csv", "o/notes.txt", "o/.old/run-1/manifest.json"};
    static const char *const none[] = {"o/ahead.csv", "o/summary.json", "o/plots", "o/.back",
                                       "o/.lock",     "o/.old/.lock",   "o/run-3"};
    for (int i = 0; i < LUO_ROWS(are); i++)
        ck_assert_msg(access(in(are[i]), F_OK) == 0, "%s: %s", why, are[i]);
    for (int i = 0; i < LUO_ROWS(none); i++)
        ck_assert_msg(access(in(none[i]), F_OK) != 0, "%s: %s", why, none[i]);
    ck_assert_int_eq(get("o", "run-1/manifest.json"), 2);
    ck_assert_int_eq(get("o", ".old/run-1/manifest.json"), 1);
}

/* A set with another one that waits in it, and then a run that fails; also one that is killed while
 * it puts things back: what comes next carries on. */
START_TEST(undone)
{
    luo_set set;
    luo_err err = {0};
    int k = 2;
    const luo_set_new how = {.begin = begin_set, .ctx = &k};
    begin();
    ck_assert_int_eq(one_set(1, &err), LUO_OK);
    ck_assert_int_eq(luo_set_open(&set, in("o"), true, &err), LUO_OK);
    ck_assert_int_eq(luo_set_replace(&set, &how, &err), LUO_OK);
    ck_assert_int_eq(put(in("o"), "compare.csv", 2), LUO_OK);
    ck_assert_int_eq(luo_set_close(&set, false, &err), LUO_OK);
    ck_assert_int_eq(unlink(in("o/.old/.lock")), 0); /* of the process that is gone */
    flat_file("o", "notes.txt", "mine\n");
    take_over(&set);
    flat_file("o", "ahead.csv", AHEAD);
    flat_file("o", "summary.json", FLAT);
    ck_assert_int_eq(mkdir(in("o/plots"), 0777), 0);
    ck_assert_msg(luo_set_undo(&set, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(luo_set_close(&set, false, &err), LUO_OK);
    check_before("undone");
    /* killed: a part is back, the rest is not */
    char back[128], from[256], to[256];
    snprintf(back, sizeof back, "%s/o/.back", base);
    ck_assert_int_eq(mkdir(back, 0777), 0);
    static const char *const part[] = {"run-2", "compare.csv", ".old"};
    for (int i = 0; i < LUO_ROWS(part); i++) {
        snprintf(from, sizeof from, "%s/o/%s", base, part[i]);
        snprintf(to, sizeof to, "%s/%s", back, part[i]);
        ck_assert_int_eq(rename(from, to), 0);
    }
    ck_assert_int_eq(luo_set_open(&set, in("o"), true, &err), LUO_OK);
    ck_assert_int_eq(luo_set_close(&set, false, &err), LUO_OK);
    check_before("killed");
    end();
}
END_TEST

/* Where nothing was before, only what the run wrote goes; the folder too, if it made it. */
START_TEST(undone_fresh)
{
    for (int made = 0; made < 2; made++) {
        luo_set set;
        luo_err err = {0};
        begin();
        if (!made) {
            ck_assert_int_eq(mkdir(in("o"), 0777), 0);
            ck_assert_int_eq(mkdir(in("o/plots"), 0777), 0);
        }
        ck_assert_int_eq(luo_set_open(&set, in("o"), true, &err), LUO_OK);
        flat_file("o", "ahead.csv", AHEAD);
        ck_assert_int_eq(luo_set_undo(&set, &err), LUO_OK);
        ck_assert_int_eq(luo_set_close(&set, false, &err), LUO_OK);
        ck_assert_int_eq(access(in("o/ahead.csv"), F_OK), -1);
        ck_assert_int_eq(access(in("o/plots"), F_OK), made ? -1 : 0);
        ck_assert_int_eq(access(in("o"), F_OK), made ? -1 : 0);
        end();
    }
}
END_TEST

/* A folder of checkpoints that the new run begins with stays where it is; the set before waits
 * until the new one is whole, also over another one that never was. */
START_TEST(kept_and_waiting)
{
    char keep[256];
    luo_set set;
    luo_err err = {0};
    begin();
    ck_assert_int_eq(one_set(1, &err), LUO_OK);
    ck_assert_int_eq(luo_file_make_dir(in("o/run-1/checkpoints/step-000005"), &err), LUO_OK);
    ck_assert_int_eq(put(in("o/run-1/checkpoints/step-000005"), "state.json", 5), LUO_OK);
    snprintf(keep, sizeof keep, "%s/o/run-1/checkpoints", base);
    for (int k = 2; k < 4; k++) {
        const luo_set_new how = {.begin = begin_set, .ctx = &k, .keep = keep};
        ck_assert_int_eq(luo_set_open(&set, in("o"), true, &err), LUO_OK);
        ck_assert_msg(luo_set_replace(&set, &how, &err) == LUO_OK, "%s", err.text);
        ck_assert(luo_set_replaced(&set));
        ck_assert_int_eq(luo_set_close(&set, false, &err), LUO_OK);
        ck_assert_int_eq(get("o", "run-1/checkpoints/step-000005/state.json"), 5);
    }
    ck_assert_int_eq(get("o", "compare.csv"), -1);
    ck_assert_int_eq(get("o", ".old/run-2/manifest.json"), 2);
    ck_assert_int_eq(get("o", ".old/.old/compare.csv"), 1);
    ck_assert_int_eq(one_set(4, &err), LUO_OK);
    ck_assert_int_eq(get("o", "run-1/checkpoints/step-000005/state.json"), -1);
    ck_assert_int_eq(access(in("o/.old"), F_OK), -1);
    end();
}
END_TEST

LUO_SUITE("io.resultset", LUO_T(one_owner), LUO_T_N(lock_files, LUO_ROWS(locks)),
          LUO_T_N(held_files, LUO_ROWS(held)), LUO_T(refusals), LUO_T(kept_and_waiting),
          LUO_T(flat_files), LUO_T(flat_others), LUO_T(seeds_go), LUO_T(undone),
          LUO_T(undone_fresh), LUO_T(killed_while_replacing))
