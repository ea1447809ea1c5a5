#include "exec/sync/sync_job.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const luo_sync_toys[] = {LUO_SYNC_TOY_LIST(LUO_WORD_TEXT)};
const char *const luo_sync_embeds[] = {LUO_SYNC_EMBED_LIST(LUO_WORD_TEXT)};
const char *const luo_sync_comms[] = {LUO_SYNC_COMM_LIST(LUO_WORD_TEXT)};

typedef enum kind { WHOLE, NUMBER, TEXT } kind;

/* One table makes the words and reads them. */
typedef struct field {
    const char *name;
    kind kind;
    size_t at;
} field;
#define F(name, kind)                                                                              \
    {                                                                                              \
#name, kind, offsetof(luo_sync_job, name)                                                  \
    }
static const field fields[] = {
    F(mode, WHOLE),        F(embed, WHOLE),        F(toy, WHOLE),      F(comm, WHOLE),
    F(shard, WHOLE),       F(policy, WHOLE),       F(workers, WHOLE),  F(servers, WHOLE),
    F(iterations, WHOLE),  F(seed, WHOLE),         F(batch, WHOLE),    F(rate, NUMBER),
    F(staleness, WHOLE),   F(compute, TEXT),       F(straggler, TEXT), F(max_group, WHOLE),
    F(guard, WHOLE),       F(pairs, WHOLE),        F(adaptive, WHOLE), F(wait_s, NUMBER),
    F(wait_max_s, NUMBER), F(wait_min_s, NUMBER),  F(beta, NUMBER),    F(cache_rows, WHOLE),
    F(pull_bound, WHOLE),  F(push_bound, WHOLE),   F(stuck_s, NUMBER), F(verify, WHOLE),
    F(form, WHOLE),        F(rounds, WHOLE),       F(balance, NUMBER), F(die, WHOLE),
    F(die_s, NUMBER),      F(dir, TEXT),           F(data, TEXT),      F(theta, NUMBER),
    F(vocab, WHOLE),       F(slots, WHOLE),        F(exchange, WHOLE), F(hybrid, WHOLE),
    F(alpha_s, NUMBER),    F(bytes_per_s, NUMBER),
};
enum { FIELDS = sizeof fields / sizeof *fields };

luo_sync_job luo_sync_job_default(void)
{
    return (luo_sync_job){.workers = 1,
                          .iterations = 20,
                          .seed = 1,
                          .batch = 32,
                          .rate = 0.2,
                          .compute = "0",
                          .straggler = "none",
                          .max_group = 1,
                          .wait_s = 0.001,
                          .wait_max_s = 0.01,
                          .wait_min_s = 1e-5,
                          .beta = 1,
                          .rounds = 5,
                          .balance = 100,
                          .stuck_s = 30,
                          .die = LUO_SYNC_NOBODY,
                          .dir = "",
                          .data = "",
                          .alpha_s = 1e-5,
                          .bytes_per_s = 12.5e9};
}

bool luo_sync_job_groups(const luo_sync_job *job)
{
    return job->embed == LUO_SYNC_NO_EMBED && luo_loop_mode_groups((luo_loop_mode)job->mode);
}

int32_t luo_sync_job_ranks(const luo_sync_job *job)
{
    return (int32_t)(job->workers + (luo_sync_job_groups(job) ? 1 : job->servers));
}

void luo_sync_job_who(const luo_sync_job *job, int32_t rank, char *out, size_t size)
{
    if (rank < job->workers)
        snprintf(out, size, "worker %d", (int)rank);
    else if (luo_sync_job_groups(job))
        snprintf(out, size, "the controller");
    else
        snprintf(out, size, "server %d", (int)(rank - job->workers));
}

static const char *print(luo_arena *arena, const luo_sync_job *job, const field *f)
{
    const void *at = (const char *)job + f->at;
    switch (f->kind) {
    case WHOLE:
        return luo_arena_printf(arena, "%lld", (long long)*(const int64_t *)at);
    case NUMBER:
        return luo_arena_printf(arena, "%.17g", *(const double *)at);
    case TEXT:
        break;
    }
    return *(const char *const *)at;
}

luo_status luo_sync_job_words(luo_arena *arena, const luo_sync_job *job, const char *const **words,
                              int32_t *n, luo_err *err)
{
    const char **at = LUO_NEW_N(arena, const char *, 2 * FIELDS + 2);
    if (!at) return luo_err_nomem(err);
    *n = 0;
    at[(*n)++] = "--sync-toy";
    for (int i = 0; i < FIELDS; i++) {
        at[(*n)++] = luo_arena_printf(arena, "--%s", fields[i].name);
        at[(*n)++] = print(arena, job, &fields[i]);
        if (!at[*n - 1] || !at[*n - 2]) return luo_err_nomem(err);
    }
    *words = at;
    return LUO_OK;
}

/* False: that is no value of the field. */
static bool take(luo_sync_job *job, const field *f, char *word)
{
    void *at = (char *)job + f->at;
    char *end = word;
    switch (f->kind) {
    case WHOLE:
        *(int64_t *)at = strtoll(word, &end, 10);
        break;
    case NUMBER:
        *(double *)at = strtod(word, &end);
        break;
    case TEXT:
        *(const char **)at = word;
        return true;
    }
    return end > word && *end == 0;
}

luo_status luo_sync_job_read(int argc, char **argv, luo_sync_job *out, luo_err *err)
{
    luo_sync_job job = luo_sync_job_default();
    for (int i = 2; i < argc; i += 2) {
        int f = 0;
        while (f < FIELDS && strcmp(argv[i] + strspn(argv[i], "-"), fields[f].name) != 0) f++;
        if (f == FIELDS || i + 1 == argc || !take(&job, &fields[f], argv[i + 1]))
            return luo_err_set(err, LUO_EUSAGE,
                               "unknown argument `%s`; `luoshu sync` starts this program "
                               "with the right ones.",
                               argv[i]);
    }
    *out = job;
    return LUO_OK;
}
