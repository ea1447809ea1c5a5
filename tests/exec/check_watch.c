/* check_watch.c: what must never happen: a silent hang, a rank that outlives its run, a
 * stranger at the rendezvous, a start that fails without a reason. */
#include <fcntl.h>
#include <sys/prctl.h>

#include "tests/exec/coord_rig.h"

/* ---- hangs ---- */

START_TEST(hang_is_named)
{
    rig g;
    pid_t pid[8];
    setenv("FAKE_HANG_DEVICE", "1", 1);
    setenv("FAKE_HANG_STEP", "1", 1);
    rig_open(&g, 3, "2: [0,1]*2 [2]*2");
    g.options.stuck_s = 3;
    rig_start(&g);
    const int32_t n = rig_pids(&g, pid);
    rig_step(&g, 0);
    const double began = luo_clock_s();
    ck_assert_int_eq(rig_run(&g, 1, NULL, 0), LUO_OK);
    ck_assert_int_eq(g.r.status, LUO_ESTUCK);
    ck_assert_double_ge(luo_clock_s() - began, 3);
    printf("%s\n", g.r.text);
    ck_assert_ptr_nonnull(
        strstr(g.r.text, "stuck for 3.0 s in step 1: device 0 waits in all_reduce"));
    ck_assert_ptr_nonnull(strstr(g.r.text, " for device 1; device 1 never issued it: it is in `"));
    ck_assert_double_ge(rig_gone_after(pid, n, RIG_PATIENCE_S), 0);
    rig_close(&g);
}
END_TEST

/* A stopped process answers nothing; with real communication the others wait for it. */
START_TEST(stopped_process)
{
    rig g;
    pid_t pid[8];
    char real[PATH_MAX + 32];
    rig_open(&g, 2, "2: [0,1]*4");
    char *const end = strstr(g.self, "/tests/exec/");
    ck_assert_ptr_nonnull(end);
    snprintf(real, sizeof real, "%.*s/luoshu-rank", (int)(end - g.self), g.self);
    g.options.program = real;
    g.options.stuck_s = 3;
    rig_start(&g);
    rig_step(&g, 0);
    const int32_t n = rig_pids(&g, pid);
    kill(pid[1], SIGSTOP);
    ck_assert_int_eq(rig_run(&g, 1, NULL, 0), LUO_OK);
    ck_assert_int_eq(g.r.status, LUO_ESTUCK);
    printf("%s\n", g.r.text);
    ck_assert_msg(strncmp(g.r.text, "stuck for 3.0 s in step 1: device 0 waits in all_", 49) == 0,
                  "%s", g.r.text);
    ck_assert_ptr_nonnull(strstr(g.r.text, " for device 1; device 1 never issued it: it does not "
                                           "answer (process "));
    ck_assert_double_ge(rig_gone_after(pid, n, RIG_PATIENCE_S), 0);
    rig_close(&g);
}
END_TEST

/* ---- ranks that give a step up, as their own watchdogs do ---- */

static void set_break(int device, luo_status status)
{
    char text[2][16];
    snprintf(text[0], sizeof text[0], "%d", device);
    snprintf(text[1], sizeof text[1], "%d", (int)status);
    setenv("FAKE_BREAK_DEVICE", text[0], 1);
    setenv("FAKE_BREAK_STATUS", text[1], 1);
    setenv("FAKE_BREAK_STEP", "1", 1);
}

/* All of them, or one for which another waits while a third is stopped. */
START_TEST(communicators_lost)
{
    rig g;
    pid_t pid[8];
    const bool stops = _i == 1;
    set_break(stops ? 1 : -2, LUO_EPEER);
    rig_open(&g, 3, "2: [0,1]*2 [2]*2");
    rig_start(&g);
    const int32_t n = rig_pids(&g, pid);
    rig_step(&g, 0);
    if (stops) kill(pid[2], SIGSTOP);
    ck_assert_int_eq(rig_run(&g, 1, NULL, 0), LUO_OK);
    printf("%s\n", g.r.text);
    ck_assert(g.r.status == LUO_EPEER && g.r.died);
    ck_assert_int_eq(g.r.failed_device, stops ? 2 : -1);
    ck_assert_int_eq(strncmp(g.r.text, "device 2 (rank 2, process ", 26) == 0, stops);
    char want[128];
    snprintf(want, sizeof want, "network error: device %d waits in all_reduce of `x` in step 1, ",
             stops ? 1 : 0);
    ck_assert_ptr_nonnull(strstr(g.r.text, want));
    ck_assert_double_ge(rig_gone_after(pid, n, RIG_PATIENCE_S), 0);
    int64_t step = 0; /* they start again, and go on */
    unsetenv("FAKE_BREAK_DEVICE");
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_OK);
    rig_step(&g, 1);
    rig_close(&g);
}
END_TEST

START_TEST(stuck_by_itself)
{
    rig g;
    set_break(-2, LUO_ESTUCK);
    rig_open(&g, 2, "2: [0,1]*4");
    rig_start(&g);
    rig_step(&g, 0);
    ck_assert_int_eq(rig_run(&g, 1, NULL, 0), LUO_OK);
    ck_assert_int_eq(g.r.status, LUO_ESTUCK);
    ck_assert_str_eq(g.r.text, "network error: device 0 waits in all_reduce of `x`; all processes "
                               "have to start again.");
    rig_close(&g);
}
END_TEST

/* ---- a coordinator that is killed ---- */

static pid_t fork_coordinator(int device_info)
{
    const pid_t pid = fork();
    if (pid != 0) return pid;
    rig g;
    pid_t list[8];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("FAKE_TASK_S", "5", 1);
    rig_open(&g, 3, "2: [0,1]*4");
    rig_start(&g);
    const int32_t n = rig_pids(&g, list);
    list[n] = g.b->workers.launch.process.pid;
    if (write(device_info, g.dir, sizeof g.dir) < 0) _exit(1);
    if (write(device_info, list, (size_t)(n + 1) * sizeof *list) < 0) _exit(1);
    rig_run(&g, 0, NULL, 0);
    _exit(0);
}

START_TEST(coordinator_killed)
{
    int fd[2];
    rig g = {0};
    pid_t list[8];
    ck_assert_int_eq(pipe(fd), 0);
    const pid_t pid = fork_coordinator(fd[1]);
    ck_assert_int_eq(read(fd[0], g.dir, sizeof g.dir), sizeof g.dir);
    ck_assert_int_eq(read(fd[0], list, 4 * sizeof *list), 4 * sizeof *list);
    usleep(200000);                      /* into the step */
    if (_i == 1) kill(list[1], SIGSTOP); /* even one that cannot see it */
    kill(pid, SIGKILL);
    const double gone = rig_gone_after(list, _i == 1 ? 1 : 3, RIG_PATIENCE_S);
    printf("coordinator killed: ranks gone after %.1f ms\n", 1000 * gone);
    ck_assert_double_ge(gone, 0);
    ck_assert_double_ge(rig_gone_after(list, 4, RIG_PATIENCE_S), 0); /* the launcher too */
    waitpid(pid, NULL, 0);
    rig_remove(&g);
}
END_TEST

/* ---- strangers ---- */

static int knock(const luo_rendezvous *d)
{
    char address[LUO_RENDEZVOUS_HOST + 16];
    int fd = -1;
    snprintf(address, sizeof address, "127.0.0.1:%d", d->port);
    ck_assert_int_eq(luo_wire_connect(address, &fd, NULL), LUO_OK);
    return fd;
}

static void say_hello(int fd, const char *token, int64_t rank)
{
    luo_wire w = {0};
    luo_wire_put_int(&w, LUO_MESSAGE_VERSION);
    luo_wire_put_text(&w, token);
    luo_wire_put_int(&w, rank);
    luo_wire_put_int(&w, 2);
    luo_wire_put_int(&w, 1);
    luo_wire_put_text(&w, "elsewhere");
    luo_wire_send(fd, LUO_SAY_HELLO, &w, NULL);
    luo_wire_free(&w);
}

START_TEST(strangers)
{
    static const char garbage[] = "GET / HTTP/1.1\r\n\r\n";
    rig g;
    char byte;
    int fd[4];
    rig_open(&g, 2, "2: [0,1]*4");
    rig_begin(&g);
    luo_workers *f = &g.b->workers; /* its rendezvous is open before anybody else knows of it */
    ck_assert_int_eq(luo_rendezvous_open(&g.options, &f->rendezvous, &g.err), LUO_OK);
    f->has_rendezvous = true;
    for (int i = 0; i < 4; i++) fd[i] = knock(&f->rendezvous);
    ck_assert_int_eq(write(fd[0], garbage, sizeof garbage - 1), sizeof garbage - 1);
    say_hello(fd[1], "0123456789abcdef0123456789abcdef", 0);
    say_hello(fd[2], NULL, 1);
    int64_t step = 0; /* fd[3] says nothing */
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_OK);
    for (int i = 0; i < 4; i++) ck_assert_int_le(read(fd[i], &byte, 1), 0); /* sent away */
    rig_step(&g, 0);
    for (int i = 0; i < 4; i++) close(fd[i]);
    rig_close(&g);
}
END_TEST

/* Who knows the token and is not a rank of this job is an error with a sentence. */
START_TEST(wrong_rank)
{
    rig g;
    rig_open(&g, 2, "2: [0,1]*4");
    rig_begin(&g);
    luo_workers *f = &g.b->workers;
    ck_assert_int_eq(luo_rendezvous_open(&g.options, &f->rendezvous, &g.err), LUO_OK);
    f->has_rendezvous = true;
    const int fd = knock(&f->rendezvous);
    say_hello(fd, f->rendezvous.token, 9);
    int64_t step = 0;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_EBACKEND);
    ck_assert_str_eq(g.err.text, "rank 9 of 2 came where 2 ranks are expected; the launcher has to "
                                 "start them as one MPI job.");
    close(fd);
    rig_close(&g);
}
END_TEST

/* ---- starts that fail ---- */

static const struct {
    const char *program, *input, *path, *data, *says;
    luo_launcher launcher;
    luo_status st;
    int32_t ranks;
} starts[] = {
    {.path = "/nowhere",
     .st = LUO_EBACKEND,
     .says = "cannot start `mpirun`: no such file or directory; Open MPI has to be installed "
             "(openmpi-bin)."},
    {.path = "/nowhere",
     .launcher = LUO_LAUNCH_SRUN,
     .st = LUO_EBACKEND,
     .says = "cannot start `srun`: no such file or directory; Slurm has to be installed, or use "
             "--launcher mpirun."},
    {.path = "/nowhere",
     .launcher = LUO_LAUNCH_LOCAL,
     .st = LUO_EBACKEND,
     .says = "cannot start `mpirun`: no such file or directory; a bundle has one (`make bundle`), "
             "or Open MPI has to be installed (openmpi-bin)."},
    {.program = "/nowhere/luoshu-rank",
     .st = LUO_EBACKEND,
     .says = "the ranks did not start (0 of 2 came): mpirun was unable to launch the specified "
             "application as it could not access or execute an executable: Executable: "
             "/nowhere/luoshu-rank"},
    {.program = "/bin/false",
     .st = LUO_EBACKEND,
     .says = "the ranks did not start (0 of 2 came): "},
    {.input = "/nowhere/model.yaml", .st = LUO_EINPUT, .says = "/nowhere/model.yaml"},
    {.data = "/nowhere/text", .st = LUO_EINPUT, .says = "/nowhere/text"},
    {.ranks = 1,
     .st = LUO_EINPUT,
     .says = "device 1 of the plan gets no rank, as there are 1 ranks (devices up to 0); a larger "
             "`--ranks` is needed."},
};

START_TEST(failed_start)
{
    rig g;
    int64_t step = 0;
    rig_open(&g, 2, "2: [0,1]*4");
    const char *inputs[] = {"--model", RIG_MODEL, "--cluster", RIG_CLUSTER};
    if (starts[_i].input) inputs[1] = starts[_i].input;
    g.options.inputs = inputs;
    if (starts[_i].program) g.options.program = starts[_i].program;
    if (starts[_i].path) setenv("PATH", starts[_i].path, 1);
    g.options.launcher = starts[_i].launcher;
    g.options.data = starts[_i].data;
    g.options.ranks = starts[_i].ranks;
    rig_begin(&g);
    const luo_status st = rig_state(&g, LUO_STATE_INIT, &step);
    ck_assert_msg(st == starts[_i].st, "%s: %s", luo_status_name(st), g.err.text);
    ck_assert_msg(strstr(g.err.text, starts[_i].says) != NULL, "%s", g.err.text);
    setenv("PATH", "/bin:/usr/bin", 1);
    rig_close(&g);
}
END_TEST

/* A rank that is killed on its way is a death, not a start that cannot be: it may go well later.
 */
START_TEST(killed_while_starting)
{
    rig g;
    int64_t step = 0;
    rig_open(&g, 2, "2: [0,1]*4");
    g.options.program = luo_arena_printf(g.arena, "%s/rank.sh", g.dir);
    FILE *f = fopen(g.options.program, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "#!/bin/sh\nrm '%s/first' 2>/dev/null && kill -9 $$\nexec '%s' \"$@\"\n", g.dir,
            g.self);
    fclose(f);
    ck_assert_int_eq(chmod(g.options.program, 0755), 0);
    f = fopen(luo_arena_printf(g.arena, "%s/first", g.dir), "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    rig_begin(&g);
    const luo_status st = rig_state(&g, LUO_STATE_INIT, &step);
    ck_assert_msg(st == LUO_EPEER, "%s: %s", luo_status_name(st), g.err.text);
    ck_assert_ptr_nonnull(strstr(g.err.text, "a process died while the ranks started ("));
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_OK);
    rig_step(&g, 0);
    rig_close(&g);
}
END_TEST

/* Nothing that a launcher or a rank writes reaches the terminal; a clean run leaves no log. */
START_TEST(quiet)
{
    rig g;
    pid_t pid[8];
    char text[256] = "";
    const int out = dup(1), log = open(".", O_TMPFILE | O_RDWR, 0600);
    const bool dies = _i == 1;
    rig_open(&g, 2, "2: [0,1]*4");
    fflush(stdout);
    const int err = dup(2);
    dup2(log, 1);
    dup2(log, 2);
    rig_start(&g);
    rig_step(&g, 0);
    rig_pids(&g, pid);
    if (dies) kill(pid[1], SIGKILL);
    if (dies) rig_run(&g, 1, NULL, 0);
    luo_host_backend.close(g.b);
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    ck_assert_int_eq(pread(log, text, sizeof text - 1, 0), 0);
    ck_assert_int_eq(access(g.options.log, F_OK), dies ? 0 : -1);
    ck_assert_double_ge(rig_gone_after(pid, 2, RIG_PATIENCE_S), 0);
    rig_remove(&g);
    luo_arena_free(g.arena);
}
END_TEST

RIG_MAIN("exec.watch", LUO_T(hang_is_named), LUO_T_N(communicators_lost, 2),
         LUO_T(stuck_by_itself), LUO_T(stopped_process), LUO_T_N(coordinator_killed, 2),
         LUO_T(strangers), LUO_T(wrong_rank), LUO_T_N(failed_start, LUO_ROWS(starts)),
         LUO_T(killed_while_starting), LUO_T_N(quiet, 2))
