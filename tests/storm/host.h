/* host.h: storms of real runs on processors: what the files of this program share.
 *
 * A case is drawn from its seed alone: a setting (model, data), a plan, a job (bare plan or
 * scenario with events and policies), one disturbance of the run, damage to what it has written,
 * and a second run under another plan that resumes. Verdicts never depend on how long something
 * took: whenever a blow falls, what was written before is still there, every loss is that of one
 * rank that was left alone, and nobody stays behind. Read host.c, host_case.c, then the others as
 * needed. */
#ifndef LUO_TESTS_STORM_HOST_H
#define LUO_TESTS_STORM_HOST_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/arena.h"
#include "core/base/rng.h"
#include "core/base/str.h"

/* ---- a case ---- */

typedef struct storm_setting { /* what the losses depend on */
    const char *name, *model;  /* the text of model.yaml */
    int32_t layers, heads, kv_heads, sequences, tokens;
} storm_setting;

typedef struct storm_case {
    uint64_t seed;
    luo_rng rng;
    luo_arena *arena;
    char dir[64]; /* all files of the case; its name is short, since sockets lie below it */
    const storm_setting *setting;
    uint64_t data_seed;
    int32_t devices, per_node, steps;
    bool longer;          /* sequences become longer at step STORM_LONGER_AT */
    luo_str story, wrong; /* what was done; what was wrong, a sentence a line */
} storm_case;

int64_t storm_draw(storm_case *c, int64_t lo, int64_t hi); /* lo..hi */
bool storm_chance(storm_case *c, int percent);
void storm_tell(storm_case *c, const char *fmt, ...) LUO_PRINTF(2, 3);
void storm_wrong(storm_case *c, const char *fmt, ...) LUO_PRINTF(2, 3);
/* Of every second case: calls between replicas run beside tasks, in buckets of a unit each. */
static inline bool storm_overlaps(const storm_case *c)
{
    return c->seed % 2 > 0;
}
void storm_run_case(storm_case *c);
/* Times as long as on a machine of its own: sanitizers, CK_TIMEOUT_MULTIPLIER. */
double storm_patience(void);

/* ---- files of a case ---- */

const char *storm_path(const storm_case *c, const char *name); /* DIR/name, in the arena */
void storm_write(storm_case *c, const char *path, const char *text);
/* Whole file, ended by a 0 that is not counted; NULL: it cannot be read. In the arena. */
char *storm_read(const storm_case *c, const char *path, size_t *n);
/* Regular files below dir whose path ends in `end`, at most max. */
int storm_find(const storm_case *c, const char *dir, const char *end, const char **out, int max);
void storm_remove(const char *dir);

/* ---- what is run: host_make.c, host_scenario.c ---- */

extern const storm_setting storm_settings[];
extern const int storm_nsettings;
/* Draws the number of devices; writes model.yaml, cluster.yaml, stack.yaml and alone.json. */
void storm_make_inputs(storm_case *c);
/* A random plan of the setting's sequences on the devices. */
void storm_make_plan(storm_case *c, const char *path);

enum { STORM_POLICIES = 2, STORM_LONGER_AT = 4, STORM_LONGER_BY = 8 };
typedef struct storm_job {
    bool scenario, events;
    bool picky; /* a policy may refuse the plan */
    const char *input; /* file of the plan or scenario */
    int npolicies;
    const char *policy[STORM_POLICIES]; /* folders of results; `plan` for a bare plan */
    int32_t every, max_restarts;        /* every: steps between checkpoints, 0: none */
} storm_job;
void storm_make_job(storm_case *c, storm_job *job);
/* Of a run that goes on behind a checkpoint, under another plan. */
void storm_make_job_again(storm_case *c, storm_job *job, const char *name, int64_t steps);
/* One device, undisturbed. */
const char *storm_make_alone(storm_case *c);

/* ---- processes: host_process.c ---- */

enum { STORM_WORDS = 40, STORM_FAMILY = 256 };
typedef struct storm_command {
    const char *word[STORM_WORDS + 1];
    int n;
} storm_command;
void storm_word(storm_command *cmd, const char *word);

typedef struct storm_process {
    pid_t pid;
    bool ended, hung;
    int how; /* of waitpid */
    double began;
    const char *out, *err; /* files */
} storm_process;

typedef struct storm_relative {
    pid_t pid, parent;
    char state, name[20];
} storm_relative;

/* Orphans come to this process, so that none can hide. */
void storm_adopt(void);
void storm_start(storm_case *c, const storm_command *cmd, const char *name, storm_process *out);
/* Takes note of who has ended. */
void storm_look(storm_process *p);
/* All that descends from this process and lives; ascending. */
int storm_family(storm_relative *out);
/* Waits for its end; one that takes too long is wrong, and ended. */
void storm_wait(storm_case *c, storm_process *p);
/* Nobody is left a few seconds after the end; who is, is wrong and ended. */
void storm_nobody(storm_case *c);
double storm_clock(void);
void storm_nap(double seconds);

/* ---- blows: host_strike.c ---- */

typedef enum storm_whom { STORM_RANK, STORM_LAUNCHER, STORM_COORDINATOR, STORM_COMMAND } storm_whom;
typedef enum storm_when { STORM_STARTS, STORM_RANKS, STORM_ROWS, STORM_SAVES } storm_when;
typedef struct storm_strike {
    storm_whom whom;
    storm_when when;
    int which, rows, signal;
    double after_s, wake_s; /* wake: of SIGSTOP, the time until SIGCONT; 0: never */
    const char *rot;        /* checkpoints to damage just before; NULL: none */
    bool struck;
    int64_t at; /* process */
} storm_strike;
void storm_draw_strike(storm_case *c, storm_strike *s);
/* Waits for the moment and strikes; what tables held just before goes to DIR/before. */
void storm_strike_now(storm_case *c, storm_process *p, storm_strike *s, const char *out);

/* ---- what was written: host_results.c ---- */

typedef struct storm_row {
    int64_t step, attempt;
    double loss, grad_norm; /* NAN: none */
} storm_row;
/* Rows of a steps.csv; -1: it is not there. */
int storm_rows(storm_case *c, const char *path, storm_row **out);
/* Tables below dir have whole rows, and begin with what DIR/before holds of them. */
void storm_check_tables(storm_case *c, const char *dir);
/* Every loss is the reference's. */
void storm_check_curve(storm_case *c, const char *path);
/* The step after the last one done; 0: none. first: the first one (-1: none). */
int64_t storm_steps_done(storm_case *c, const char *path, int64_t *first);
bool storm_says(storm_case *c, const char *path, const char *text);
/* Sentences of stderr: their form, and how many errors and warnings. */
void storm_check_words(storm_case *c, const char *path, int *errors, int *warnings);
/* No rank crashed. */
void storm_check_ranks(storm_case *c, const char *dir, const storm_strike *s);

/* ---- the reference: host_reference.c ---- */

/* Losses of one rank that was left alone. NULL: it failed (wrong). */
enum { STORM_STEPS = 16 };
const storm_row *storm_reference(storm_case *c);

/* ---- damage: host_damage.c ---- */

typedef struct storm_damage {
    bool done, must_tell; /* must_tell: no resume may use it */
    int64_t newest;       /* step of the checkpoint that was damaged */
    int left;             /* others that are whole */
} storm_damage;
/* Damages the newest checkpoint below dir, or all. */
void storm_do_damage(storm_case *c, const char *dir, storm_damage *out);
/* Checkpoints below dir, newest first. */
int storm_checkpoints(const char *dir, int64_t *steps, int max);
#endif
