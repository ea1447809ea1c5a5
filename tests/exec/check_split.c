/* check_split.c: under a launcher of the user's: rank 0's process makes the coordinator,
 * the address goes round by MPI, the launcher sees the run's exit code, and a death is the end. */
#include <fcntl.h>

#include "tests/exec/coord_rig.h"

enum { CODE = 7, RANKS = 3 };

static int say(const char *text)
{
    fprintf(stderr, "split: %s\n", text);
    return 1;
}

/* The coordinator's part, as `luoshu run --launcher none` does it. */
static int coordinate(const luo_rendezvous *rendezvous, const char *how)
{
    rig g;
    int64_t step = 0;
    rig_open(&g, RANKS, "2: [0,1]*2 [2]*2");
    g.options.launcher = LUO_LAUNCH_NONE;
    g.options.rendezvous = rendezvous;
    g.options.checkpoints = NULL;
    if (strcmp(how, "--more") == 0) g.world->up[2] = false;
    rig_begin(&g);
    luo_status st = rig_state(&g, LUO_STATE_INIT, &step);
    if (st == LUO_OK) rig_step(&g, 0);
    if (st == LUO_OK && strcmp(how, "--dies") == 0) {
        kill(g.b->workers.at[2].pid, SIGKILL);
        if (rig_run(&g, 1, NULL, 0) != LUO_OK || !g.r.died || g.r.failed_device != 2)
            return say(g.r.text);
        st = rig_state(&g, LUO_STATE_INIT, &step);
    }
    luo_host_backend.close(g.b);
    FILE *f = fopen(getenv("SPLIT_OUT"), "w");
    if (!f) return say("no SPLIT_OUT");
    fprintf(f, "%s %s\n", luo_status_name(st), st == LUO_OK ? "" : g.err.text);
    fclose(f);
    rig_remove(&g);
    luo_arena_free(g.arena);
    return CODE;
}

static int split(const char *how)
{
    static const char *const inputs[] = {"--model", RIG_MODEL, "--cluster", RIG_CLUSTER};
    char self[PATH_MAX] = "";
    luo_rendezvous rendezvous;
    luo_err err = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return say("no /proc");
    const luo_exec_options o = {
        .program = self, .launcher = LUO_LAUNCH_NONE, .ninputs = 4, .inputs = inputs};
    if (luo_launch_split(&o, &rendezvous, &err) != LUO_OK) return say(err.text);
    return coordinate(&rendezvous, how);
}

static const struct {
    const char *how, *says;
    bool code; /* the launcher sees the run's exit code; else its own word for a death */
} rows[] = {
    {"--well", "LUO_OK \n", true},
    {"--dies",
     "LUO_EBACKEND ranks are gone, and under `--launcher none` they cannot be started "
     "again; let luoshu start them.\n",
     false},
    {"--more",
     "LUO_EINPUT the launcher started 3 ranks and 2 devices are up; as many ranks as "
     "devices are expected.\n",
     true},
};

START_TEST(under_a_launcher)
{
    char command[2 * PATH_MAX], self[PATH_MAX] = "", out[] = "/tmp/luoshu-split-XXXXXX";
    char text[512] = "";
    const int fd = mkstemp(out);
    rig_ignore_leaks_of_mpi();
    ck_assert(fd >= 0 && readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command,
             "SPLIT_OUT=%s OMPI_MCA_btl_vader_single_copy_mechanism=none mpirun "
             "--allow-run-as-root --oversubscribe --bind-to none -n %d '%s' %s >/dev/null 2>&1",
             out, RANKS, self, rows[_i].how);
    const int how = system(command);
    ck_assert(WIFEXITED(how));
    if (rows[_i].code)
        ck_assert_int_eq(WEXITSTATUS(how), CODE);
    else
        ck_assert_int_ne(WEXITSTATUS(how), 0);
    for (int i = 0; i < 600 && !text[0]; i++) { /* it may outlive the launcher by a moment */
        ck_assert_int_ge(pread(fd, text, sizeof text - 1, 0), 0);
        if (!text[0]) usleep(50000);
    }
    ck_assert_str_eq(text, rows[_i].says);
    close(fd);
    unlink(out);
}
END_TEST

START_TEST(no_launcher)
{
    luo_rendezvous rendezvous;
    luo_err err = {0};
    const luo_exec_options o = {.program = "/bin/false", .launcher = LUO_LAUNCH_NONE};
    unsetenv("OMPI_COMM_WORLD_RANK");
    ck_assert_int_eq(luo_launch_split(&o, &rendezvous, &err), LUO_EUSAGE);
    ck_assert_str_eq(err.text, "`--launcher none` is given and no launcher is around; start it as "
                               "`mpirun -n RANKS luoshu run ..`, or leave the option out.");
}
END_TEST

int main(int argc, char **argv)
{
    const luo_test_row tests[] = {LUO_T_N(under_a_launcher, LUO_ROWS(rows)), LUO_T(no_launcher)};
    luo_err err = {0};
    int code = 0;
    if (argc < 2) return luo_run_suite("exec.split", tests, LUO_ROWS(tests));
    if (argc == 2) return split(argv[1]);
    const luo_status st = luo_rank_main(argc, argv, &fake_executor, NULL, &code, &err);
    if (st == LUO_OK) return code;
    say(err.text);
    return luo_status_exit(st);
}
