#include "cli/run/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double luo_cli_wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

luo_progress luo_progress_new(const luo_cli *cli)
{
    const char *term = getenv("TERM");
    const bool wanted = !cli->quiet && !cli->as_json, terminal = isatty(2);
    return (luo_progress){.line = wanted && terminal && term && strcmp(term, "dumb") != 0,
                          .lines = wanted && !terminal && cli->verbose,
                          .start_s = luo_cli_wall_s()};
}

/* Is it time for the next line? */
static bool is_due(const luo_progress *p, double now)
{
    if (p->line) return now - p->start_s >= 0.5 && now - p->last_s >= 0.1;
    return p->lines && now - fmax(p->start_s, p->last_s) >= 10;
}

void luo_progress_show(luo_progress *p, double share, const char *fmt, ...)
{
    const double now = luo_cli_wall_s(), spent = now - p->start_s;
    va_list args;
    if (!is_due(p, now)) return;
    if (p->line) fputs("\r\033[K", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    if (share > 0 && share <= 1) {
        const long long left = (long long)(spent / share - spent);
        fprintf(stderr, "  eta %lld:%02lld", left / 60, left % 60);
    }
    if (p->lines) fputc('\n', stderr);
    fflush(stderr);
    p->last_s = now;
    p->shown = p->line;
}

void luo_progress_count(luo_progress *p, const char *label, int64_t done, int64_t of,
                        const char *what)
{
    const double share = of > 0 ? ((double)done + 0.5) / (double)of : 0;
    luo_progress_show(p, done > 0 ? fmin(1, share) : 0, "%s  %lld/%lld %s  %.0f %%", label,
                      (long long)done, (long long)of, what,
                      of > 0 ? 100.0 * (double)done / (double)of : 0.0);
}

void luo_progress_run(luo_progress *p, const char *label, int64_t step, int64_t steps, double t_s,
                      double duration_s, int32_t events)
{
    const double spent = luo_cli_wall_s() - p->start_s;
    char of_steps[32] = "", of_time[32] = "";
    double share = 0;
    if (steps > 0) {
        snprintf(of_steps, sizeof of_steps, "/%lld", (long long)steps);
        share = (double)step / (double)steps;
    } else if (duration_s > 0) {
        snprintf(of_time, sizeof of_time, "/%.0f", duration_s);
        share = fmin(1, t_s / duration_s);
    }
    luo_progress_show(p, share, "%s  step %lld%s  t %.0f%s s  %.0fx real time  %d events", label,
                      (long long)step, of_steps, t_s, of_time, spent > 0 ? t_s / spent : 0.0,
                      events);
}

void luo_progress_erase(luo_progress *p)
{
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}
