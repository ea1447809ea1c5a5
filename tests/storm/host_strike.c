/* host_strike.c: blows: a process of the run is ended or stopped at a random moment. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/io/files.h"
#include "tests/storm/host.h"

static const char *const whom_names[] = {"a rank", "the launcher", "the coordinator",
                                         "the command"};
static const char *const when_names[] = {"after the start", "after the first rank", "after a row",
                                         "while a checkpoint is written"};

/* A stopped launcher or coordinator cannot know of it: these wake up again. No SIGSEGV: Open MPI
 * then prints a backtrace from its handler, in which a rank that was taking memory hangs. */
static void draw_signal(storm_case *c, storm_strike *s)
{
    static const int rank[] = {SIGKILL, SIGKILL, SIGTERM, SIGQUIT, SIGSTOP},
                     other[] = {SIGKILL, SIGKILL, SIGTERM, SIGINT, SIGSTOP};
    s->signal = (s->whom == STORM_RANK ? rank : other)[storm_draw(c, 0, 4)];
    if (s->signal == SIGSTOP && (s->whom != STORM_RANK || storm_chance(c, 50)))
        s->wake_s = 0.001 * (double)storm_draw(c, 50, 1500);
    if (s->signal == SIGSTOP && s->wake_s == 0 && s->when < STORM_ROWS)
        s->when = STORM_ROWS; /* while ranks start, they have two minutes */
}

void storm_draw_strike(storm_case *c, storm_strike *s)
{
    static const int most_ms[] = {2500, 600, 200, 15};
    static const storm_whom whom[] = {STORM_RANK,     STORM_RANK,        STORM_RANK,
                                      STORM_LAUNCHER, STORM_COORDINATOR, STORM_COMMAND};
    *s = (storm_strike){.whom = whom[storm_draw(c, 0, 5)], .when = (storm_when)storm_draw(c, 0, 3)};
    s->which = (int)storm_draw(c, 0, 7);
    s->rows = (int)storm_draw(c, 1, c->steps);
    draw_signal(c, s);
    s->after_s = 0.001 * (double)storm_draw(c, 0, most_ms[s->when]);
    storm_tell(c, "blow: signal %d to %s, %.3f s %s%s", s->signal, whom_names[s->whom], s->after_s,
               when_names[s->when], s->wake_s > 0 ? ", and it goes on later" : "");
}

/* ---- the moment ---- */

static int count_ranks(void)
{
    storm_relative at[STORM_FAMILY];
    int found = 0;
    for (int i = storm_family(at) - 1; i >= 0; i--) found += strcmp(at[i].name, "luoshu-rank") == 0;
    return found;
}

static int count_rows(storm_case *c, const char *out)
{
    const char *at[8];
    int lines = 0;
    const int n = storm_find(c, out, "/steps.csv", at, 8);
    for (int i = 0; i < n; i++)
        for (const char *p = storm_read(c, at[i], NULL); p && (p = strchr(p, '\n')); p++) lines++;
    return lines - n;
}

/* Files of a checkpoint that is put together lie in a hidden folder. */
static bool saves(storm_case *c, const char *out)
{
    const char *at[64];
    const int n = storm_find(c, out, "", at, 64);
    for (int i = 0; i < n; i++)
        if (strstr(at[i], "/.step-")) return true;
    return false;
}

static bool come(storm_case *c, const storm_process *p, const storm_strike *s, const char *out)
{
    const size_t mark = luo_arena_mark(c->arena);
    bool yes = true;
    switch (s->when) {
    case STORM_STARTS:
        yes = storm_clock() > p->began;
        break;
    case STORM_RANKS:
        yes = count_ranks() > 0;
        break;
    case STORM_ROWS:
        yes = count_rows(c, out) >= s->rows;
        break;
    case STORM_SAVES:
        yes = saves(c, out);
        break;
    }
    luo_arena_reset(c->arena, mark);
    return yes;
}

/* ---- the blow ---- */

static pid_t find(const storm_process *p, const storm_strike *s)
{
    storm_relative at[STORM_FAMILY], *rank[STORM_FAMILY];
    const int n = storm_family(at);
    int ranks = 0;
    if (s->whom == STORM_COMMAND) return p->pid;
    for (int i = 0; i < n; i++) {
        if (s->whom == STORM_COORDINATOR && at[i].parent == p->pid) return at[i].pid;
        if (s->whom == STORM_LAUNCHER && strcmp(at[i].name, "mpirun") == 0) return at[i].pid;
        if (strcmp(at[i].name, "luoshu-rank") == 0) rank[ranks++] = &at[i];
    }
    return s->whom == STORM_RANK && ranks > 0 ? rank[s->which % ranks]->pid : 0;
}

/* A copy of the tables as they are. */
static void keep_tables(storm_case *c, const char *out)
{
    const char *at[64];
    const int n = storm_find(c, out, ".csv", at, 64);
    luo_err err;
    for (int i = 0; i < n; i++) {
        const char *to =
            luo_arena_printf(c->arena, "%s/before/%s", c->dir, at[i] + strlen(out) + 1);
        const char *text = storm_read(c, at[i], NULL), *slash = to ? strrchr(to, '/') : NULL;
        if (!text || !slash || strstr(to, "/config/")) continue;
        const char *folder = luo_arena_strndup(c->arena, to, (size_t)(slash - to));
        if (folder && luo_file_make_dir(folder, &err) == LUO_OK) storm_write(c, to, text);
    }
}

static void pause_for(storm_process *p, double seconds)
{
    const double until = storm_clock() + seconds;
    while (!p->ended && storm_clock() < until) {
        storm_look(p);
        storm_nap(0.001);
    }
}

void storm_strike_now(storm_case *c, storm_process *p, storm_strike *s, const char *out)
{
    const double until = p->began + 60 * storm_patience();
    storm_damage ignored;
    pid_t pid = 0;
    while (!p->ended && !come(c, p, s, out) && storm_clock() < until) pause_for(p, 0.002);
    pause_for(p, s->after_s);
    while (!p->ended && (pid = find(p, s)) == 0 && storm_clock() < until) pause_for(p, 0.002);
    if (p->ended || pid == 0) return;
    keep_tables(c, out);
    if (s->rot) storm_do_damage(c, s->rot, &ignored);
    s->struck = kill(pid, s->signal) == 0;
    s->at = pid;
    storm_tell(c, "process %d got it %.2f s after the start", (int)pid, storm_clock() - p->began);
    if (s->signal != SIGSTOP || s->wake_s == 0) return;
    pause_for(p, s->wake_s);
    if (!p->ended) kill(pid, SIGCONT);
}
