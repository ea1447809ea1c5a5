#include "cli/run/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/io/jsonw.h"

double luo_cli_wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

luo_progress luo_progress_new(const luo_cli *cli)
{
    const char *term = getenv("TERM");
    const bool json = cli->progress_fd >= 0, wanted = !json && !cli->quiet && !cli->as_json;
    const bool terminal = isatty(2);
    return (luo_progress){.line = wanted && terminal && term && strcmp(term, "dumb") != 0,
                          .lines = wanted && !terminal && cli->verbose,
                          .json = cli->progress_fd,
                          .verb = cli->verb,
                          .start_s = luo_cli_wall_s()};
}

/* Is it time for the next line? */
static bool is_due(const luo_progress *progress, double now)
{
    if (progress->json >= 0) return progress->last_s == 0 || now - progress->last_s >= 0.5;
    if (progress->line) return now - progress->start_s >= 0.5 && now - progress->last_s >= 0.1;
    return progress->lines && now - fmax(progress->start_s, progress->last_s) >= 10;
}

/* Seconds left at the pace until now; < 0: not known. share: of the work that is done. */
static double left_s(double spent_s, double share)
{
    return share > 0 && share <= 1 ? spent_s / share - spent_s : -1;
}

/* The text, and the time that is left. */
static void show_line(luo_progress *progress, double share, const char *fmt, ...) LUO_PRINTF(3, 4);
static void show_line(luo_progress *progress, double share, const char *fmt, ...)
{
    const double now = luo_cli_wall_s(), left = left_s(now - progress->start_s, share);
    va_list args;
    if (progress->line) fputs("\r\033[K", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    if (left >= 0) fprintf(stderr, "  eta %lld:%02lld", (long long)left / 60, (long long)left % 60);
    if (progress->lines) fputc('\n', stderr);
    fflush(stderr);
    progress->last_s = now;
    progress->shown = progress->line;
}

/* Begins a line of JSON in *out with what all have: how far, and what is left. */
static luo_jsonw open_json(const luo_progress *progress, luo_str *out, double share)
{
    const double spent = luo_cli_wall_s() - progress->start_s, left = left_s(spent, share);
    luo_jsonw json = luo_jsonw_start(out);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", "luoshu.progress/1");
    luo_jsonw_text(&json, "verb", progress->verb);
    luo_jsonw_num(&json, "share_ratio", share > 0 ? fmin(share, 1) : 0, 6);
    luo_jsonw_num(&json, "wall_s", spent, 3);
    luo_jsonw_num(&json, "left_s", left >= 0 ? left : NAN, 3);
    return json;
}

/* In one write, so that the lines of several processes do not mix. */
static void close_json(luo_progress *progress, luo_jsonw *json, luo_str *out)
{
    size_t n = 0;
    luo_jsonw_close(json);
    for (size_t i = 0; i < out->len; i++) { /* texts have no line ends: they are escaped there */
        const bool indent = n > 0 && out->at[n - 1] == '\n' && out->at[i] == ' ';
        if (!indent) out->at[n++] = out->at[i];
    }
    for (size_t i = 0; i + 1 < n; i++)
        if (out->at[i] == '\n') out->at[i] = ' ';
    /* Whoever has stopped to read it misses it; the work goes on. */
    if (!out->failed && write(progress->json, out->at, n) < 0) progress->json = -1;
    luo_str_free(out);
    progress->last_s = luo_cli_wall_s();
}

static void show_done_json(luo_progress *progress, double share, int64_t done, int64_t of,
                           const char *unit, const char *at, int32_t steps)
{
    luo_str text = {0};
    luo_jsonw json = open_json(progress, &text, share);
    luo_jsonw_int(&json, "done", done);
    luo_jsonw_int(&json, "of", of);
    luo_jsonw_text(&json, "unit", unit);
    if (at) luo_jsonw_text(&json, "at", at);
    if (steps >= 0) luo_jsonw_int(&json, "simulated_steps", steps);
    close_json(progress, &json, &text);
}

void luo_progress_count(luo_progress *progress, const char *label, int64_t done, int64_t of,
                        const char *what)
{
    const double share = of > 0 && done > 0 ? fmin(1, ((double)done + 0.5) / (double)of) : 0;
    if (!is_due(progress, luo_cli_wall_s())) return;
    if (progress->json >= 0)
        show_done_json(progress, share, done, of, what, NULL, -1);
    else
        show_line(progress, share, "%s  %lld/%lld %s  %.0f %%", label, (long long)done,
                  (long long)of, what, of > 0 ? 100.0 * (double)done / (double)of : 0.0);
}

void luo_progress_parts(luo_progress *progress, const char *at, int64_t done, int64_t of,
                        int32_t steps)
{
    const double share = done ? ((double)done + 0.5) / (double)of : 0;
    if (!is_due(progress, luo_cli_wall_s())) return;
    if (progress->json >= 0)
        show_done_json(progress, share, done, of, "parts", at, steps);
    else
        show_line(progress, share, "auto  %s, %lld/%lld parts  %d simulated steps", at,
                  (long long)done, (long long)of, steps);
}

static void show_run_json(luo_progress *progress, double share, const luo_progress_of_run *run)
{
    luo_str text = {0};
    luo_jsonw json = open_json(progress, &text, share);
    luo_jsonw_text(&json, "policy", run->policy);
    luo_jsonw_seed(&json, "seed", run->seed);
    luo_jsonw_int(&json, "step", run->step);
    if (run->steps > 0) luo_jsonw_int(&json, "steps", run->steps);
    luo_jsonw_num(&json, "t_s", run->t_s, 9);
    if (run->duration_s > 0) luo_jsonw_num(&json, "duration_s", run->duration_s, 9);
    luo_jsonw_int(&json, "events", run->events);
    luo_jsonw_bool(&json, "over", run->over);
    close_json(progress, &json, &text);
}

void luo_progress_run(luo_progress *progress, const luo_progress_of_run *run)
{
    const double now = luo_cli_wall_s(), spent = now - progress->start_s;
    char of_steps[32] = "", of_time[32] = "";
    double share = 0;
    if (!is_due(progress, now) && !(run->over && progress->json >= 0)) return;
    if (run->steps > 0) {
        snprintf(of_steps, sizeof of_steps, "/%lld", (long long)run->steps);
        share = (double)run->step / (double)run->steps;
    } else if (run->duration_s > 0) {
        snprintf(of_time, sizeof of_time, "/%.0f", run->duration_s);
        share = fmin(1, run->t_s / run->duration_s);
    }
    if (progress->json >= 0)
        show_run_json(progress, share, run);
    else
        show_line(progress, share, "%s  step %lld%s  t %.0f%s s  %.0fx real time  %d events",
                  run->policy, (long long)run->step, of_steps, run->t_s, of_time,
                  spent > 0 ? run->t_s / spent : 0.0, run->events);
}

void luo_progress_erase(luo_progress *progress)
{
    if (progress->shown) fputs("\r\033[K", stderr);
    progress->shown = false;
}
