/* calibrate_nccl.c: what nccl-tests prints, as text of any version or as JSON, into rows of
 * collective_times. */
#include <stdlib.h>
#include <string.h>

#include "cli/calibrate/foreign_job.h"
#include "core/base/utf8.h"
#include "core/cost/collective.h"
#include "core/io/document/doc.h"

/* ---- text ---- */

enum { WORDS = 24, HOSTS = 4096 };

/* Words of the line at `at`; returns how many. */
static int words_of(const char *at, const char **word, size_t *length)
{
    int n = 0;
    for (const char *end = at + strcspn(at, "\n"); n < WORDS;) {
        at += strspn(at, " \t\r");
        if (at >= end) break;
        word[n] = at;
        length[n] = strcspn(at, " \t\r\n");
        at += length[n++];
    }
    return n;
}

static bool is_word(const char *at, size_t n, const char *word)
{
    return strlen(word) == n && strncmp(at, word, n) == 0;
}

/* "all_reduce_perf" anywhere in a text; its own names are shorter than ours. */
static bool named_in(const char *text, luo_coll *op)
{
    static const struct {
        const char *word;
        luo_coll op;
    } names[] = {{"all_reduce", LUO_COLL_AR},
                 {"all_gather", LUO_COLL_AG},
                 {"reduce_scatter", LUO_COLL_RS},
                 {"alltoall", LUO_COLL_A2A},
                 {"broadcast", LUO_COLL_BCAST}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *op = names[i].op;
        if (strstr(text, names[i].word)) return true;
    }
    return false;
}

typedef struct nccl {
    luo_coll op;
    int32_t ranks, nhosts;
    const char *host[HOSTS]; /* distinct */
    size_t length[HOSTS];
    int time; /* word of a row with the seconds out of place; -1: not seen */
} nccl;

static void see_host(nccl *t, const char *at, size_t n)
{
    for (int32_t i = 0; i < t->nhosts; i++)
        if (t->length[i] == n && strncmp(t->host[i], at, n) == 0) return;
    if (t->nhosts == HOSTS) return;
    t->host[t->nhosts] = at;
    t->length[t->nhosts++] = n;
}

/* "#  Rank  0 Group  0 Pid  99 on  node-1 device  0", "#   size  count  type  redop  root  time" */
static void see_comment(nccl *t, const char *line)
{
    const char *word[WORDS];
    size_t n[WORDS];
    const int words = words_of(line, word, n);
    if (words > 2 && is_word(word[1], n[1], "Rank")) {
        t->ranks++;
        for (int i = 2; i + 1 < words; i++)
            if (is_word(word[i], n[i], "on")) see_host(t, word[i + 1], n[i + 1]);
    }
    if (words < 4 || !is_word(word[1], n[1], "size")) return;
    for (int i = words - 1; i > 0; i--)
        if (is_word(word[i], n[i], "time")) t->time = i - 1; /* the first; # is a word of its own */
}

static const char *dtype_of(const char *at, size_t n)
{
    if (is_word(at, n, "float")) return "f32";
    return is_word(at, n, "double") ? "f64" : "bf16";
}

static void see_row(foreign_job *job, const nccl *t, const char *line)
{
    const char *word[WORDS];
    size_t n[WORDS];
    const int words = words_of(line, word, n);
    if (t->time < 0 || words <= t->time || words < 4) return;
    char *end;
    const double bytes = strtod(word[0], &end), us = strtod(word[t->time], NULL);
    if (end != word[0] + n[0] || !(bytes >= 1) || !(us > 0)) {
        job->left++;
        return;
    }
    const double busbw = words > t->time + 2 ? strtod(word[t->time + 2], NULL) : 0;
    foreign_put_collective(job, t->op, dtype_of(word[2], n[2]), t->ranks, t->nhosts, bytes,
                           1e-6 * us, busbw);
}

/* Which collective: by --collective, else by text or name of the file. */
static luo_status find_collective(foreign_job *job, luo_coll *op)
{
    const char *said = luo_args_get(&job->cli->args, "collective", NULL);
    const char *names[LUO_COLLS];
    int which;
    luo_err err = {0};
    for (int i = 0; i < LUO_COLLS; i++) names[i] = luo_coll_name((luo_coll)i);
    if (said) {
        LUO_TRY(luo_cli_fail(
            job->cli,
            luo_args_choice(&job->cli->args, "collective", 0, names, LUO_COLLS, &which, &err),
            &err));
        *op = (luo_coll)which;
        return LUO_OK;
    }
    if (named_in(job->src->text, op) || named_in(job->src->name, op)) return LUO_OK;
    return foreign_bad(job, "neither its text nor its name says which collective was timed; give "
                            "--collective, such as all_reduce.");
}

/* Ranks by what the file says, else by --devices. */
static luo_status find_ranks(foreign_job *job, int32_t *ranks)
{
    int64_t said;
    luo_err err = {0};
    LUO_TRY(luo_cli_fail(
        job->cli, luo_args_int(&job->cli->args, "devices", 0, 2, 131072, &said, &err), &err));
    if (*ranks < 2) *ranks = (int32_t)said;
    if (*ranks >= 2) return LUO_OK;
    return foreign_bad(job, "it does not say how many ranks took part; give the whole output, or "
                            "--devices.");
}

luo_status foreign_read_nccl(foreign_job *job)
{
    nccl *t = LUO_NEW(job->cli->arena, nccl);
    if (!t) return luo_cli_error(job->cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    t->time = -1;
    for (const char *at = job->src->text; *at;
         at += strcspn(at, "\n") + (at[strcspn(at, "\n")] != 0))
        if (*at == '#') see_comment(t, at);
    LUO_TRY(find_collective(job, &t->op));
    LUO_TRY(find_ranks(job, &t->ranks));
    if (t->nhosts == 0) t->nhosts = 1;
    for (const char *at = job->src->text; *at;
         at += strcspn(at, "\n") + (at[strcspn(at, "\n")] != 0))
        if (*at == ' ' && strspn(at, " ") < strcspn(at, "\n")) see_row(job, t, at);
    return LUO_OK;
}

/* ---- JSON ---- */

bool foreign_nccl_is_json(const luo_source *src)
{
    const char *at = src->text + strspn(src->text, " \t\r\n");
    return *at == '{' && strstr(at, "\"results\"") && strstr(at, "\"out_of_place\"");
}

/* Lists of devices, wherever they stand: entries with `rank` and `hostname`. */
static void see_devices(nccl *t, const luo_doc_node *node)
{
    for (const luo_doc_node *one = node->first; one; one = one->next) {
        const char *host = luo_doc_text(one, "hostname");
        if (one->type == LUO_DOC_MAP && luo_doc_get(one, "rank")) {
            t->ranks++;
            if (host) see_host(t, host, strlen(host));
        } else if (one->type != LUO_DOC_SCALAR && (!one->key || strcmp(one->key, "results") != 0)) {
            see_devices(t, one);
        }
    }
}

static void see_result(foreign_job *job, const nccl *t, const luo_doc_node *result)
{
    const luo_doc_node *out = luo_doc_get(result, "out_of_place");
    const char *type = luo_doc_text(result, "type");
    double bytes, us, busbw = 0;
    luo_doc_real(luo_doc_get(out, "bus_bw"), &busbw);
    if (!luo_doc_real(luo_doc_get(result, "size"), &bytes) || bytes < 1 ||
        !luo_doc_real(luo_doc_get(out, "time"), &us) || !(us > 0)) {
        job->left++;
        return;
    }
    foreign_put_collective(job, t->op, dtype_of(type ? type : "", type ? strlen(type) : 0),
                           t->ranks, t->nhosts, bytes, 1e-6 * us, busbw);
}

luo_status foreign_read_nccl_json(foreign_job *job)
{
    luo_doc doc = {.arena = job->cli->arena, .src = job->src, .diags = &job->cli->diags};
    nccl *t = LUO_NEW(job->cli->arena, nccl);
    if (!t) return luo_cli_error(job->cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    LUO_TRY(luo_doc_parse_json(&doc));
    see_devices(t, doc.root);
    LUO_TRY(find_collective(job, &t->op));
    LUO_TRY(find_ranks(job, &t->ranks));
    if (t->nhosts == 0) t->nhosts = 1;
    const luo_doc_node *results = luo_doc_get(doc.root, "results");
    for (const luo_doc_node *one = results ? results->first : NULL; one; one = one->next)
        see_result(job, t, one);
    return LUO_OK;
}
