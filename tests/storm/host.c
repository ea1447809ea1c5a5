/* host.c: a storm of real runs on processors. usage: [LUO_SEED=s] [STORM_N=n] host
 *
 * Environment: LUOSHU, the command. Case i is drawn from seed s + i alone (1 and 10 by default, 4
 * without LUO_SCALE); LUO_SEED=s STORM_N=1 plays one again, though not to the millisecond: what
 * befalls a run does so at times of day. The files of a case that failed stay, and are named. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/prop/prop.h"
#include "tests/storm/host.h"

/* Disks that cases mount are seen by them alone and go with this process. */
static void own_mounts(void)
{
    if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0)
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static bool run_one(uint64_t seed)
{
    storm_case c = {
        .seed = seed, .rng = luo_rng_stream(seed, "storm-host"), .arena = luo_arena_new(1 << 20)};
    const double began = storm_clock();
    snprintf(c.dir, sizeof c.dir, "/tmp/storm-XXXXXX");
    if (!c.arena || !mkdtemp(c.dir)) {
        printf("FAIL seed %llu: no memory or no folder in /tmp\n", (unsigned long long)seed);
        return false;
    }
    storm_run_case(&c);
    const bool good = c.wrong.len == 0;
    printf("%s seed %llu: %.1f s\n", good ? "ok  " : "FAIL", (unsigned long long)seed,
           storm_clock() - began);
    if (!good || getenv("STORM_TELL")) printf("%s", luo_str_get(&c.story));
    if (!good) printf("wrong:\n%s  files: %s\n", luo_str_get(&c.wrong), c.dir);
    fflush(stdout);
    if (good) storm_remove(c.dir);
    luo_str_free(&c.story);
    luo_str_free(&c.wrong);
    luo_arena_free(c.arena);
    return good;
}

int main(void)
{
    const uint64_t first = luo_prop_first(), n = luo_prop_env("STORM_N", luo_prop_few(4, 10));
    uint64_t bad = 0;
    if (!getenv("LUOSHU")) {
        printf("host: LUOSHU names no command\n");
        return 1;
    }
    printf("seeds %llu..%llu\n", (unsigned long long)first, (unsigned long long)(first + n - 1));
    storm_adopt();
    own_mounts();
    for (uint64_t seed = first; seed < first + n; seed++) bad += !run_one(seed);
    printf("%d%%: Checks: %llu, Failures: %llu, Errors: 0\n", (int)(100 * (n - bad) / (n ? n : 1)),
           (unsigned long long)n, (unsigned long long)bad);
    return bad > 0;
}
