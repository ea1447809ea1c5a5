/* host_case.c: one case: a run, what befalls it, what is left, and a run that resumes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/storm/host.h"

typedef enum trouble { NONE, STRIKE, DISK } trouble;

/* One run of a case: the first one, or one that goes on behind a checkpoint. */
typedef struct leg {
    const char *name, *out; /* out: of its results */
    storm_job job;
    trouble trouble;
    storm_strike strike;
    storm_process process;
    int64_t bytes; /* of the disk */
    int64_t steps;
    const char *resume; /* folder of checkpoints; NULL: it begins */
    int64_t newest;     /* step of the newest one in it; -1: none */
    storm_damage damage;
} leg;

static const char *table(storm_case *c, const char *out, const char *policy, const char *name)
{
    return luo_arena_printf(c->arena, "%s/%s/%s", out, policy, name);
}

/* ---- the command ---- */

static void add_number(storm_case *c, storm_command *cmd, const char *option, int64_t value)
{
    storm_word(cmd, option);
    storm_word(cmd, luo_arena_printf(c->arena, "%lld", (long long)value));
}

static void add_file(storm_command *cmd, const char *option, const char *path)
{
    storm_word(cmd, option);
    storm_word(cmd, path);
}

/* What a bare plan is told on the command line. */
static void add_inputs(storm_case *c, storm_command *cmd, const leg *l)
{
    add_file(cmd, "--model", storm_path(c, "model.yaml"));
    add_file(cmd, "--cluster", storm_path(c, "cluster.yaml"));
    if (storm_overlaps(c)) add_file(cmd, "--stack", storm_path(c, "stack.yaml"));
    add_number(c, cmd, "--seed", (int64_t)c->data_seed);
    add_number(c, cmd, "--steps", l->steps);
    if (l->job.every) add_number(c, cmd, "--checkpoint-every", l->job.every);
    if (storm_chance(c, 30)) add_number(c, cmd, "--ranks", c->devices);
}

static bool stops_for_ever(const leg *l)
{
    return l->trouble == STRIKE && l->strike.signal == SIGSTOP && l->strike.wake_s == 0;
}

static void compose(storm_case *c, const leg *l, storm_command *cmd)
{
    const char *const words[] = {getenv("LUOSHU"), "run", l->job.input, "--backend", "host",
                                 "--dtype",        "f64", "--plots",    "off",       "--quiet"};
    *cmd = (storm_command){0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) storm_word(cmd, words[i]);
    if (!l->job.scenario) add_inputs(c, cmd, l);
    add_file(cmd, "--out", l->out);
    if (l->resume) add_file(cmd, "--resume", l->resume);
    add_number(c, cmd, "--max-restarts", l->job.max_restarts);
    if (stops_for_ever(l)) add_number(c, cmd, "--stuck-s", 3);
    if (storm_chance(c, 70)) add_file(cmd, "--trace-steps", "none");
}

/* ---- what befalls it ---- */

static bool mount_disk(storm_case *c, int64_t bytes)
{
    char how[64];
    const char *at = storm_path(c, "disk");
    snprintf(how, sizeof how, "size=%lld", (long long)bytes);
    mkdir(at, 0777);
    return mount("storm", at, "tmpfs", 0, how) == 0;
}

/* Sometimes a rank dies just when the newest checkpoint has been damaged. */
static void draw_rot(storm_case *c, leg *l)
{
    const storm_strike *s = &l->strike;
    const bool restarts = s->whom == STORM_RANK && s->signal == SIGKILL && l->job.max_restarts > 0;
    if (restarts && l->job.every && s->when == STORM_ROWS && storm_chance(c, 50))
        l->strike.rot = table(c, l->out, l->job.policy[0], "checkpoints");
}

static void draw_trouble(storm_case *c, leg *l)
{
    const int64_t draw = storm_draw(c, 0, 99);
    l->trouble = draw < 25 ? NONE : draw < 82 ? STRIKE : DISK;
    l->bytes = 1024 * storm_draw(c, 1, 1 << storm_draw(c, 4, 11));
    if (l->trouble == DISK && !mount_disk(c, l->bytes)) l->trouble = NONE; /* not root */
    if (l->trouble == DISK) l->out = storm_path(c, "disk/a");
    if (l->trouble == STRIKE) storm_draw_strike(c, &l->strike);
    if (l->trouble == STRIKE) draw_rot(c, l);
    if (l->trouble == DISK) storm_tell(c, "a disk of %lld bytes", (long long)l->bytes);
}

static void play(storm_case *c, leg *l)
{
    storm_command cmd;
    compose(c, l, &cmd);
    storm_remove(storm_path(c, "before"));
    storm_start(c, &cmd, l->name, &l->process);
    if (l->trouble == STRIKE) storm_strike_now(c, &l->process, &l->strike, l->out);
    storm_wait(c, &l->process);
    storm_nobody(c);
}

/* ---- the verdict ---- */

static bool struck(const leg *l)
{
    return l->trouble == STRIKE && l->strike.struck && l->strike.wake_s == 0;
}

static bool may_be_told(const leg *l, int code)
{
    const storm_strike *s = &l->strike;
    if (s->whom == STORM_COORDINATOR || s->whom == STORM_COMMAND)
        return code == (s->signal == SIGKILL ? 4 : 128 + s->signal);
    if (s->signal == SIGSTOP) return code == 6 || code == 4;
    if (s->rot && code == 3) return true;
    return code == 4 && (l->job.scenario || l->job.max_restarts == 0 || s->rot);
}

/* Exit codes as documented; what befell the run may also have come too late to matter. */
static bool may_exit(const leg *l, int code)
{
    if (code == 0) return true;
    if (struck(l) && may_be_told(l, code)) return true;
    if (code == 1) return l->job.scenario && (l->job.events || struck(l)); /* a policy lost */
    if (code == 3 && l->resume) return l->damage.done || l->newest < 0;
    if (code == 3) return l->job.picky;
    return code == 4 && l->trouble == DISK;
}

static void check_exit(storm_case *c, const leg *l)
{
    const int how = l->process.how;
    if (l->process.hung) return;
    if (WIFSIGNALED(how)) {
        const bool own =
            struck(l) && l->strike.at == l->process.pid && WTERMSIG(how) == l->strike.signal;
        if (!own) storm_wrong(c, "the command was ended by signal %d", WTERMSIG(how));
    } else if (!may_exit(l, WEXITSTATUS(how))) {
        storm_wrong(c, "run %s: exit %d", l->name, WEXITSTATUS(how));
    }
}

static int check_sentences(storm_case *c, const leg *l)
{
    int errors, warnings;
    const storm_process *p = &l->process;
    const int code = WIFEXITED(p->how) ? WEXITSTATUS(p->how) : 0;
    storm_check_words(c, p->err, &errors, &warnings);
    if (p->hung) return warnings;
    const bool lost = code == 1 && warnings > 0; /* a policy, which is no error */
    if (code > 0 && code < 128 && errors == 0 && !lost)
        storm_wrong(c, "exit %d without a sentence", code);
    if (p->how == 0 && errors > 0) storm_wrong(c, "exit 0 with an error");
    if (errors > l->job.npolicies)
        storm_wrong(c, "%d errors; one is enough for a run", errors);
    return warnings;
}

static void check_complete(storm_case *c, const leg *l, const char *policy, int64_t done)
{
    if (done != l->steps)
        storm_wrong(c, "exit 0 after %lld of %lld steps", (long long)done, (long long)l->steps);
    if (!storm_says(c, table(c, l->out, policy, "manifest.json"), "\"state\": \"complete\""))
        storm_wrong(c, "exit 0 and the manifest of %s is not complete", policy);
}

/* Where it began: never behind a damaged checkpoint, and never earlier without a word. */
static void check_begin(storm_case *c, const leg *l, int64_t first, int warnings)
{
    const long long at = (long long)first;
    if (first < 0) return; /* no row */
    if (first > l->newest) storm_wrong(c, "begins at step %lld, of which there is nothing", at);
    if (first == l->newest && l->damage.must_tell) storm_wrong(c, "a damaged checkpoint was used");
    if (first >= l->newest) return;
    if (!l->damage.done) storm_wrong(c, "begins at step %lld, not %lld", at, (long long)l->newest);
    if (warnings == 0) storm_wrong(c, "went back to step %lld and said nothing", at);
    if (!storm_says(c, table(c, l->out, l->job.policy[0], "events.csv"), ",passed,checkpoint,"))
        storm_wrong(c, "went back to step %lld and events.csv says nothing", at);
}

static void judge(storm_case *c, const leg *l)
{
    check_exit(c, l);
    const int warnings = check_sentences(c, l);
    storm_check_tables(c, l->out);
    storm_check_ranks(c, l->out, &l->strike);
    for (int i = 0; i < l->job.npolicies; i++) {
        const char *steps = table(c, l->out, l->job.policy[i], "steps.csv");
        int64_t first;
        const int64_t done = storm_steps_done(c, steps, &first);
        storm_check_curve(c, steps);
        if (l->process.how == 0) check_complete(c, l, l->job.policy[i], done);
        if (l->resume) check_begin(c, l, first, warnings);
    }
}

/* ---- going on ---- */

/* The newest checkpoint of a policy of this run, or where the run itself went on from. */
static bool find_checkpoints(storm_case *c, const leg *l, leg *next)
{
    int64_t steps[16];
    const char *policy = l->job.policy[storm_draw(c, 0, l->job.npolicies - 1)];
    next->resume = table(c, l->out, policy, "checkpoints");
    int n = storm_checkpoints(next->resume, steps, 16);
    if (n == 0 && l->resume && !l->damage.done) {
        next->resume = l->resume;
        n = storm_checkpoints(next->resume, steps, 16);
    }
    next->newest = n ? steps[0] : -1;
    return n > 0;
}

static bool go_on(storm_case *c, const leg *l, leg *next, const char *name)
{
    *next = (leg){.name = name, .out = storm_path(c, name)};
    const bool found = find_checkpoints(c, l, next);
    if (!found && storm_chance(c, 75)) return false;
    next->steps = (found ? next->newest : 0) + storm_draw(c, 1, 4);
    if (next->steps > STORM_STEPS) return false;
    storm_make_job_again(c, &next->job, name, next->steps);
    next->damage.done = l->strike.rot; /* perhaps: the run may have replaced them */
    if (found && !l->strike.rot && storm_chance(c, 40)) {
        storm_do_damage(c, next->resume, &next->damage);
    } else if (storm_chance(c, 35)) {
        next->trouble = STRIKE;
        storm_draw_strike(c, &next->strike);
    }
    return true;
}

void storm_run_case(storm_case *c)
{
    leg l = {.name = "a"}, next;
    storm_make_inputs(c);
    if (!storm_reference(c)) return;
    l.out = storm_path(c, l.name);
    l.steps = c->steps;
    storm_make_job(c, &l.job);
    draw_trouble(c, &l);
    play(c, &l);
    judge(c, &l);
    for (const char *name = "b"; *name && go_on(c, &l, &next, name);
         name = *name == 'b' ? "c" : "") {
        play(c, &next);
        judge(c, &next);
        l = next;
        if (l.trouble == NONE && storm_chance(c, 70)) break;
    }
    umount2(storm_path(c, "disk"), MNT_DETACH);
}
