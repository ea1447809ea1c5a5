/* check_process.c: children that end well, badly, too late, or with their parent. */
#include "core/base/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check_main.h"

/* ---- how it ended ---- */

static const struct {
    const char *script;
    int code, sig;
    const char *text;
} ends[] = {
    {"exit 0", 0, 0, "exit 0"},
    {"exit 3", 3, 0, "exit 3"},
    {"kill -9 $$", 128 + 9, 9, "signal 9"},
    {"kill -15 $$", 128 + 15, 15, "signal 15"},
};

START_TEST(says_how_it_ended)
{
    const char *argv[] = {"sh", "-c", ends[_i].script, NULL};
    luo_process p;
    char text[32];
    ck_assert_int_eq(luo_process_start(&(luo_process_opts){.argv = argv}, &p, NULL), LUO_OK);
    ck_assert(p.pid > 0);
    ck_assert(luo_process_wait(&p, INFINITY));
    ck_assert(p.pid == 0);
    ck_assert(luo_process_wait(&p, 0)); /* and again */
    ck_assert_int_eq(luo_process_code(&p), ends[_i].code);
    ck_assert_int_eq(luo_process_signal(&p), ends[_i].sig);
    ck_assert_str_eq(luo_process_text(&p, text, sizeof text), ends[_i].text);
}
END_TEST

START_TEST(tells_why_a_program_did_not_start)
{
    static const struct {
        const char *program;
        int why;
    } rows[] = {{"./there-is-no-such-program", ENOENT}, {"/dev/null", EACCES}};
    const char *argv[] = {rows[_i].program, NULL};
    luo_process p = {.pid = 99};
    int why = 0;
    ck_assert_int_eq(luo_process_start(&(luo_process_opts){.argv = argv}, &p, &why), LUO_EBACKEND);
    ck_assert_int_eq(why, rows[_i].why);
    ck_assert(p.pid == 0);
    luo_process_tell(&p, SIGKILL); /* nobody */
}
END_TEST

/* ---- what it runs ---- */

static int give(void *ctx)
{
    return *(int *)ctx;
}

START_TEST(runs_a_function)
{
    int code = 7;
    luo_process p;
    ck_assert_int_eq(luo_process_start(&(luo_process_opts){.inside = give, .ctx = &code}, &p, NULL),
                     LUO_OK);
    luo_process_wait(&p, INFINITY);
    ck_assert_int_eq(luo_process_code(&p), 7);
}
END_TEST

static int set_word(void *ctx)
{
    setenv("WORD", ctx, 1);
    return 0;
}

/* Loop: what a function set before, an environment of its own, a function that says no. */
START_TEST(runs_a_program_after_a_function)
{
    static const char *const says[] = {"[before]", "[given]", ""};
    const char *argv[] = {"sh", "-c", "read x; echo \"[$x$WORD]\"; echo no >&2", NULL};
    const char *env[] = {"WORD=given", "PATH=/usr/bin:/bin", NULL};
    int code = 5;
    char text[64] = "", word[] = "before";
    const int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    luo_process_opts opts = {
        .argv = argv, .inside = set_word, .ctx = word, .no_input = true, .out = out, .err = err};
    if (_i == 1) opts.env = env;
    if (_i == 2) opts.inside = give, opts.ctx = &code;
    luo_process p;
    ck_assert_int_eq(luo_process_start(&opts, &p, NULL), LUO_OK);
    luo_process_wait(&p, INFINITY);
    ck_assert_int_eq(luo_process_code(&p), _i == 2 ? 5 : 0);
    const ssize_t n = pread(out, text, sizeof text - 1, 0);
    ck_assert_int_eq(n, _i == 2 ? 0 : (ssize_t)strlen(says[_i]) + 1);
    text[strcspn(text, "\n")] = 0;
    ck_assert_str_eq(text, says[_i]);
    ck_assert_int_eq(lseek(err, 0, SEEK_END), _i == 2 ? 0 : 3);
}
END_TEST

/* ---- its end ---- */

static int sleep_long(void *ctx)
{
    signal(SIGTERM, ctx ? SIG_IGN : SIG_DFL); /* Check has a handler, which children inherit */
    if (ctx && write(*(int *)ctx, "x", 1) != 1) return 1; /* it ignores signals from now on */
    sleep(100);
    return 0;
}

START_TEST(waits_until_a_deadline)
{
    luo_process p;
    ck_assert_int_eq(luo_process_start(&(luo_process_opts){.inside = sleep_long}, &p, NULL),
                     LUO_OK);
    ck_assert(!luo_process_wait(&p, 0));
    ck_assert(!luo_process_wait(&p, 0.02));
    ck_assert(p.pid > 0);
    luo_process_end(&p, 50);
    ck_assert(p.pid == 0);
    ck_assert_int_eq(luo_process_signal(&p), SIGTERM);
}
END_TEST

START_TEST(kills_what_does_not_end)
{
    int fd[2];
    char c;
    luo_process p;
    ck_assert_int_eq(pipe(fd), 0);
    ck_assert_int_eq(
        luo_process_start(&(luo_process_opts){.inside = sleep_long, .ctx = &fd[1]}, &p, NULL),
        LUO_OK);
    ck_assert_int_eq(read(fd[0], &c, 1), 1);
    luo_process_end(&p, _i ? 0.05 : 0);
    ck_assert_int_eq(luo_process_signal(&p), SIGKILL);
}
END_TEST

/* Of children that hear it and that are stopped. */
START_TEST(urges_and_then_kills)
{
    luo_process p;
    ck_assert_int_eq(luo_process_start(&(luo_process_opts){.inside = sleep_long}, &p, NULL),
                     LUO_OK);
    if (_i) luo_process_tell(&p, SIGSTOP);
    if (_i) ck_assert_int_eq(waitid(P_PID, (id_t)p.pid, NULL, WSTOPPED | WNOWAIT), 0);
    do luo_process_urge(&p, SIGHUP);
    while (!luo_process_wait(&p, 0.002));
    ck_assert_int_eq(p.told, SIGHUP);
    ck_assert_int_eq(luo_process_signal(&p), _i ? SIGKILL : SIGHUP);
    luo_process_urge(&p, SIGHUP); /* nobody */
}
END_TEST

/* Longer than LUO_PROCESS_CHILD_S, which a child gets that does not close. */
static int close_long(void *ctx)
{
    struct timespec left = {.tv_sec = 1, .tv_nsec = 200000000};
    luo_process_catch();
    if (write(*(int *)ctx, "x", 1) != 1) return 1;
    while (!*luo_process_asked()) usleep(1000);
    luo_process_closing();
    while (nanosleep(&left, &left) != 0) {
    }
    return 7;
}

/* One that closes says so, in memory of both. */
START_TEST(urges_and_lets_close)
{
    int fd[2];
    char c;
    luo_process p;
    volatile bool *closing =
        mmap(NULL, sizeof *closing, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_int_eq(pipe(fd), 0);
    ck_assert((void *)closing != MAP_FAILED);
    const luo_process_opts opts = {.inside = close_long, .ctx = &fd[1], .closing = closing};
    ck_assert_int_eq(luo_process_start(&opts, &p, NULL), LUO_OK);
    ck_assert_int_eq(read(fd[0], &c, 1), 1);
    ck_assert(!*closing);
    do luo_process_urge(&p, SIGHUP);
    while (!luo_process_wait(&p, 0.002));
    ck_assert(*closing);
    ck_assert_int_eq(luo_process_code(&p), 7);
}
END_TEST

/* The pipe closes when nobody holds it any more: the child of the child has gone too. */
START_TEST(ends_a_group)
{
    int fd[2];
    char c;
    luo_process p;
    const char *argv[] = {"sh", "-c", "sleep 100 & sleep 100", NULL};
    ck_assert_int_eq(pipe(fd), 0);
    ck_assert_int_eq(luo_process_start(&(luo_process_opts){.argv = argv, .group = true}, &p, NULL),
                     LUO_OK);
    close(fd[1]);
    luo_process_end(&p, 50);
    ck_assert_int_eq(luo_process_signal(&p), SIGTERM);
    ck_assert_int_eq(read(fd[0], &c, 1), 0);
}
END_TEST

static int start_one_more(void *ctx)
{
    luo_process p;
    (void)ctx;
    return luo_process_start(&(luo_process_opts){.inside = sleep_long, .parent_signal = SIGKILL},
                             &p, NULL);
}

START_TEST(ends_with_its_parent)
{
    int fd[2];
    char c;
    luo_process p;
    ck_assert_int_eq(pipe(fd), 0);
    ck_assert_int_eq(luo_process_start(&(luo_process_opts){.inside = start_one_more}, &p, NULL),
                     LUO_OK);
    close(fd[1]);
    luo_process_wait(&p, INFINITY);
    ck_assert_int_eq(luo_process_code(&p), 0);
    ck_assert_int_eq(read(fd[0], &c, 1), 0);
}
END_TEST

/* ---- asked to end ---- */

typedef enum answer {
    NOBODY_LOOKS,
    CLOSES,
    CLOSED_BEFORE,
    ASKED_TWICE,
    TOLD_BY_PARENT_TOO,
    TOLD_BY_PARENT_LATE,
    RUNG_FROM_OUTSIDE,
    LETS
} answer;

/* How long it closes: 0: it is not closing; INFINITY: until a signal ends it. */
static double closes_s(answer how)
{
    if (how == TOLD_BY_PARENT_LATE) return INFINITY;
    return how == CLOSES || how == CLOSED_BEFORE || how == TOLD_BY_PARENT_TOO
               ? 1.2 * LUO_PROCESS_GRACE_S
               : 0;
}

static const struct {
    answer how;
    int signal, code, killed_by;
} asks[] = {
    {NOBODY_LOOKS, SIGINT, 128 + SIGINT, 0},
    {NOBODY_LOOKS, SIGHUP, 128 + SIGHUP, 0},
    {CLOSES, SIGTERM, 7, 0}, /* takes longer than the grace and ends by itself */
    {CLOSED_BEFORE, SIGTERM, 7, 0},
    {ASKED_TWICE, SIGTERM, 128 + SIGTERM, 0},
    {TOLD_BY_PARENT_TOO, SIGINT, 7, 0},
    {TOLD_BY_PARENT_LATE, SIGINT, 128 + SIGINT, 0},
    {RUNG_FROM_OUTSIDE, SIGTERM, 128 + SIGTERM, 0},
    {LETS, SIGINT, 128 + SIGINT, SIGINT},
};

static int be_asked(void *ctx)
{
    const answer how = *(answer *)ctx;
    const double s = closes_s(how);
    luo_process_catch();
    if (how == LETS) luo_process_let();
    if (how == CLOSED_BEFORE) luo_process_closing();
    if (how == RUNG_FROM_OUTSIDE) raise(SIGALRM);
    if (write(1, "x", 1) != 1) return 1;
    while (!*luo_process_asked()) usleep(1000);
    if (how == ASKED_TWICE) raise(SIGTERM);
    if (s > 0 && how != CLOSED_BEFORE) luo_process_closing();
    if (how == TOLD_BY_PARENT_TOO || how == TOLD_BY_PARENT_LATE) kill(getppid(), SIGUSR1);
    while (s == 0 || isinf(s)) pause();
    struct timespec left = {.tv_nsec = (long)(s * 1e9)};
    while (nanosleep(&left, &left) != 0) {
    }
    return 7;
}

static volatile int heard;

static void hear(int sig)
{
    heard = sig;
}

START_TEST(asked_to_end)
{
    int fd[2];
    char c;
    luo_process p;
    answer how = asks[_i].how;
    heard = 0;
    signal(SIGUSR1, hear);
    ck_assert_int_eq(pipe(fd), 0);
    const luo_process_opts opts = {.inside = be_asked, .ctx = &how, .out = fd[1]};
    ck_assert_int_eq(luo_process_start(&opts, &p, NULL), LUO_OK);
    ck_assert_int_eq(read(fd[0], &c, 1), 1);
    luo_process_tell(&p, asks[_i].signal);
    const bool again = how == TOLD_BY_PARENT_TOO || how == TOLD_BY_PARENT_LATE;
    while (again && !heard) usleep(1000);
    if (how == TOLD_BY_PARENT_LATE) usleep((useconds_t)(1.2 * LUO_PROCESS_GRACE_S * 1e6));
    if (again) luo_process_tell(&p, asks[_i].signal);
    luo_process_wait(&p, INFINITY);
    ck_assert_int_eq(luo_process_code(&p), asks[_i].code);
    ck_assert_int_eq(luo_process_signal(&p), asks[_i].killed_by);
}
END_TEST

LUO_SUITE("base.process", LUO_T_N(says_how_it_ended, LUO_ROWS(ends)),
          LUO_T_N(tells_why_a_program_did_not_start, 2), LUO_T(runs_a_function),
          LUO_T_N(runs_a_program_after_a_function, 3), LUO_T(waits_until_a_deadline),
          LUO_T_N(kills_what_does_not_end, 2), LUO_T_N(urges_and_then_kills, 2),
          LUO_T(urges_and_lets_close), LUO_T(ends_a_group), LUO_T(ends_with_its_parent),
          LUO_T_N(asked_to_end, LUO_ROWS(asks)))
