/* tests/storm/host_case.c: one case: a run, what befalls it, what is left, and a run that resumes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/storm/host.h"

typedef enum trouble { NONE, STRIKE, DISK, LIMIT } trouble; /* LIMIT: of the size of a file */

typedef struct storm_first { /* the run that trouble meets */
    storm_job job;
    trouble trouble;
    storm_strike strike;
    storm_process process;
    int64_t bytes; /* of the disk, or of a file */
    const char *out;
} storm_first;

/* ---- the first run ---- */

static void begin_command(storm_command *cmd, const char *input, const char *out)
{
    const char *const words[] = {getenv("LUOSHU"), "run", input,     "--backend", "host",
                                 "--dtype",        "f64", "--plots", "off",       "--quiet",
                                 "--out",          out};
    *cmd = (storm_command){0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) storm_word(cmd, words[i]);
}

static void add_number(storm_case *c, storm_command *cmd, const char *option, int64_t value)
{
    storm_word(cmd, option);
    storm_word(cmd, luo_arena_printf(c->arena, "%lld", (long long)value));
}

/* What a bare plan is told on the command line. */
static void add_inputs(storm_case *c, storm_command *cmd, int64_t steps)
{
    storm_word(cmd, "--model");
    storm_word(cmd, storm_path(c, "model.yaml"));
    storm_word(cmd, "--cluster");
    storm_word(cmd, storm_path(c, "cluster.yaml"));
    add_number(c, cmd, "--seed", (int64_t)c->data_seed);
    add_number(c, cmd, "--steps", steps);
}

static bool stops_for_ever(const storm_first *f)
{
    return f->trouble == STRIKE && f->strike.signal == SIGSTOP && f->strike.wake_s == 0;
}

static void compose(storm_case *c, storm_first *f, storm_command *cmd)
{
    begin_command(cmd, f->job.input, f->out);
    if (!f->job.scenario) add_inputs(c, cmd, c->steps);
    if (!f->job.scenario && f->job.every) add_number(c, cmd, "--checkpoint-every", f->job.every);
    if (!f->job.scenario && storm_chance(c, 30)) add_number(c, cmd, "--ranks", c->devices);
    add_number(c, cmd, "--max-restarts", f->job.max_restarts);
    if (stops_for_ever(f)) add_number(c, cmd, "--stuck-s", 3);
    if (storm_chance(c, 70)) {
        storm_word(cmd, "--trace-steps");
        storm_word(cmd, "none");
    }
    if (f->trouble == LIMIT) cmd->file_limit = f->bytes;
}

static bool mount_disk(storm_case *c, int64_t bytes)
{
    char how[64];
    const char *at = storm_path(c, "disk");
    snprintf(how, sizeof how, "size=%lld", (long long)bytes);
    mkdir(at, 0777);
    return mount("storm", at, "tmpfs", 0, how) == 0;
}

static void draw_trouble(storm_case *c, storm_first *f)
{
    const int64_t draw = storm_draw(c, 0, 99);
    f->out = storm_path(c, "a");
    f->trouble = draw < 30 ? NONE : draw < 78 ? STRIKE : draw < 92 ? DISK : LIMIT;
    f->bytes = 1024 * storm_draw(c, 1, 1 << storm_draw(c, 4, 11));
    if (f->trouble == STRIKE) storm_draw_strike(c, &f->strike);
    if (f->trouble == DISK && !mount_disk(c, f->bytes)) f->trouble = NONE; /* not root */
    if (f->trouble == DISK) f->out = storm_path(c, "disk/a");
    if (f->trouble >= DISK)
        storm_tell(c, "%s of %lld bytes", f->trouble == DISK ? "a disk" : "files",
                   (long long)f->bytes);
}

/* ---- its verdict ---- */

static const char *table(storm_case *c, const char *out, const char *policy, const char *name)
{
    return luo_arena_printf(c->arena, "%s/%s/%s", out, policy, name);
}

static bool struck(const storm_first *f)
{
    return f->trouble == STRIKE && f->strike.struck && f->strike.wake_s == 0;
}

static bool may_be_told(const storm_first *f, int code)
{
    const storm_strike *s = &f->strike;
    if (s->whom == STORM_COORDINATOR || s->whom == STORM_COMMAND)
        return code == (s->signal == SIGKILL ? 4 : 128 + s->signal);
    if (s->signal == SIGSTOP) return code == 6 || code == 4;
    return code == 4 && (f->job.scenario || f->job.max_restarts == 0);
}

/* Exit codes as documented; what befell the run may also have come too late to matter. */
static bool may_exit(const storm_first *f, int code)
{
    if (code == 0) return true;
    if (code == 3 && f->job.scenario) return !f->strike.struck; /* a policy refuses the plan */
    if (code == 1 && f->job.scenario) return f->job.events || struck(f); /* a policy lost */
    if (struck(f) && may_be_told(f, code)) return true;
    return code == 4 && f->trouble >= DISK;
}

static void check_exit(storm_case *c, const storm_first *f)
{
    const int how = f->process.how;
    if (f->process.hung) return;
    if (WIFSIGNALED(how)) {
        const bool own =
            struck(f) && f->strike.at == f->process.pid && WTERMSIG(how) == f->strike.signal;
        if (!own) storm_wrong(c, "the command was ended by signal %d", WTERMSIG(how));
    } else if (!may_exit(f, WEXITSTATUS(how))) {
        storm_wrong(c, "exit %d", WEXITSTATUS(how));
    }
}

static void check_sentences(storm_case *c, const storm_process *p, int most)
{
    int errors, warnings;
    const bool code = WIFEXITED(p->how) && WEXITSTATUS(p->how) > 0 && WEXITSTATUS(p->how) < 128;
    storm_check_words(c, p->err, &errors, &warnings);
    if (p->hung) return;
    const bool lost = WEXITSTATUS(p->how) == 1 && warnings > 0; /* a policy, which is no error */
    if (code && errors == 0 && !lost)
        storm_wrong(c, "exit %d without a sentence", WEXITSTATUS(p->how));
    if (p->how == 0 && errors > 0) storm_wrong(c, "exit 0 with an error");
    if (errors > most) storm_wrong(c, "%d errors; one is enough", errors);
}

static void check_complete(storm_case *c, const char *out, const char *policy, int64_t steps)
{
    int64_t first;
    const int64_t done = storm_steps_done(c, table(c, out, policy, "steps.csv"), &first);
    if (done != steps)
        storm_wrong(c, "exit 0 after %lld of %lld steps", (long long)done, (long long)steps);
    if (!storm_says(c, table(c, out, policy, "manifest.json"), "\"state\": \"complete\""))
        storm_wrong(c, "exit 0 and the manifest of %s is not complete", policy);
}

static void check_first(storm_case *c, const storm_first *f)
{
    int64_t first;
    check_exit(c, f);
    check_sentences(c, &f->process, f->job.npolicies + 1);
    storm_check_tables(c, f->out);
    storm_check_ranks(c, f->out, &f->strike);
    for (int i = 0; i < f->job.npolicies; i++) {
        storm_check_curve(c, table(c, f->out, f->job.policy[i], "steps.csv"));
        storm_steps_done(c, table(c, f->out, f->job.policy[i], "steps.csv"), &first);
        if (f->process.how == 0) check_complete(c, f->out, f->job.policy[i], c->steps);
    }
}

/* ---- the run that resumes ---- */

typedef struct again {
    const char *checkpoints;
    storm_damage damage;
    int64_t newest, steps;
    storm_process process;
} again;

static void check_damaged(storm_case *c, const again *a, int64_t first, int warnings)
{
    if (a->process.how != 0) return; /* it was refused in a sentence */
    if (first == a->newest && a->damage.must_tell) storm_wrong(c, "a damaged checkpoint was used");
    if (first < a->newest && warnings == 0)
        storm_wrong(c, "went back to step %lld and said nothing", (long long)first);
    if (first < a->newest && !storm_says(c, storm_path(c, "b/plan/events.csv"), "checkpoint"))
        storm_wrong(c, "went back to step %lld and events.csv says nothing", (long long)first);
}

static void check_again(storm_case *c, const again *a)
{
    const char *steps = storm_path(c, "b/plan/steps.csv");
    const int how = a->process.how, code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    int64_t first;
    int errors, warnings;
    check_sentences(c, &a->process, 1);
    storm_check_words(c, a->process.err, &errors, &warnings);
    storm_steps_done(c, steps, &first);
    const bool may_refuse = a->damage.done || a->newest < 0;
    if (code != 0 && !(may_refuse && code == 3) && !a->process.hung)
        storm_wrong(c, "exit %d of the run that resumes", code);
    if (code == 0) check_complete(c, storm_path(c, "b"), "plan", a->steps);
    if (code == 0 && !a->damage.done && first != a->newest)
        storm_wrong(c, "resumes at step %lld, not %lld", (long long)first, (long long)a->newest);
    if (a->damage.done) check_damaged(c, a, first, warnings);
    storm_check_tables(c, storm_path(c, "b"));
    storm_check_curve(c, steps);
}

static void resume(storm_case *c, const storm_first *f)
{
    int64_t steps[16];
    storm_command cmd;
    const char *policy = f->job.policy[storm_draw(c, 0, f->job.npolicies - 1)];
    again a = {.checkpoints = table(c, f->out, policy, "checkpoints")};
    const int n = storm_checkpoints(c, a.checkpoints, steps, 16);
    a.newest = n ? steps[0] : -1;
    a.steps = (n ? a.newest : 0) + storm_draw(c, 1, 4);
    if (n == 0 && storm_chance(c, 75)) return;
    storm_remove(storm_path(c, "before"));
    storm_make_plan(c, storm_path(c, "second.json"));
    if (n && storm_chance(c, 40)) storm_do_damage(c, a.checkpoints, &a.damage);
    begin_command(&cmd, storm_path(c, "second.json"), storm_path(c, "b"));
    add_inputs(c, &cmd, a.steps);
    storm_word(&cmd, "--resume");
    storm_word(&cmd, a.checkpoints);
    storm_start(c, &cmd, "b", &a.process);
    storm_wait(c, &a.process);
    storm_nobody(c);
    check_again(c, &a);
}

void storm_run_case(storm_case *c)
{
    storm_first f = {0};
    storm_command cmd;
    storm_make_inputs(c);
    if (!storm_reference(c)) return;
    storm_make_job(c, &f.job);
    draw_trouble(c, &f);
    compose(c, &f, &cmd);
    storm_start(c, &cmd, "a", &f.process);
    if (f.trouble == STRIKE) storm_strike_now(c, &f.process, &f.strike, f.out);
    storm_wait(c, &f.process);
    storm_nobody(c);
    check_first(c, &f);
    resume(c, &f);
    if (f.trouble == DISK) umount2(storm_path(c, "disk"), MNT_DETACH);
}
