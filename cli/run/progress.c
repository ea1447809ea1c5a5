#include "cli/run/progress.h"

#include <stdio.h>
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

luo_progress luo_progress_new(bool quiet)
{
    const char *term = getenv("TERM");
    const bool on = !quiet && isatty(2) && term && strcmp(term, "dumb") != 0;
    return (luo_progress){.on = on, .start_s = luo_cli_wall_s()};
}

void luo_progress_show(luo_progress *p, const char *label, int64_t step, int64_t steps, double t_s,
                       int32_t events)
{
    const double now = luo_cli_wall_s(), spent = now - p->start_s;
    if (!p->on || spent < 0.5 || now - p->last_s < 0.1) return;
    char of[32] = "", eta[32] = "";
    if (steps > 0) {
        snprintf(of, sizeof of, "/%lld", (long long)steps);
        const double left = step > 0 ? spent / (double)step * (double)(steps - step) : 0;
        snprintf(eta, sizeof eta, "  eta %d:%02d", (int)left / 60, (int)left % 60);
    }
    fprintf(stderr, "\r\033[K%s  step %lld%s  t %.0f s  %.0fx real time  %d events%s", label,
            (long long)step, of, t_s, t_s / spent, events, eta);
    fflush(stderr);
    p->last_s = now;
    p->shown = true;
}

void luo_progress_erase(luo_progress *p)
{
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}
