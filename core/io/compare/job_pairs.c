/* job_pairs.c: jobs that share a cluster, each beside the others and alone. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/io/compare/compare_internal.h"
#include "core/io/result/repeats.h"

/* Parts of a step, of both tables: from compute_s to bubble_s. */
enum { PARTS = LUO_COL_STEPS_bubble_s - LUO_COL_STEPS_compute_s + 1 };
_Static_assert(PARTS == LUO_TIME(bubble_s) + 1, "parts of steps are those of the run");

const luo_result *luo_compare_reference(const luo_result *runs, int32_t n, const luo_result *result)
{
    for (int32_t i = 0; result->job && i < n; i++)
        if (runs[i].alone && strcmp(runs[i].job, result->job) == 0 &&
            strcmp(runs[i].seed, result->seed) == 0)
            return &runs[i];
    return &runs[0];
}

/* ---- when others ran ---- */

typedef struct change { /* of how many other jobs run */
    double t_s;
    int32_t others;
} change;

typedef struct presence {
    change *at;
    int32_t n, room;
    luo_str names; /* of the others */
} presence;

static luo_status read_presence(luo_arena *arena, const luo_result *run, presence *out,
                                luo_diags *diags)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_csv *csv = luo_result_table(arena, run->dir, LUO_TABLE_EVENTS, diags);
    int32_t others = 0;
    bool ok = true;
    while (ok && csv && luo_csv_next(csv, cells)) {
        const char *phase = cells[LUO_COL_EVENTS_phase].text;
        if (strcmp(cells[LUO_COL_EVENTS_kind].text, "job") != 0) continue;
        const bool begun = strcmp(phase, luo_event_phase_name(LUO_EVENT_PHASE_FIRED)) == 0;
        others += begun ? 1 : -1;
        if (begun)
            luo_str_addf(&out->names, "%s%s", out->n > 0 ? ", " : "",
                         luo_result_shown(arena, cells[LUO_COL_EVENTS_id].text));
        ok = LUO_VEC_ROOM_IN(arena, out->at, out->n, out->room);
        if (ok) out->at[out->n++] = (change){cells[LUO_COL_EVENTS_t_s].number, others};
    }
    const luo_status st = luo_csv_close(csv);
    return ok && !out->names.failed ? st : LUO_ENOMEM;
}

/* Did another job run at some time in between? */
static bool meets(const presence *p, double start_s, double end_s)
{
    for (int32_t i = 0; i < p->n; i++) {
        const double until = i + 1 < p->n ? p->at[i + 1].t_s : HUGE_VAL;
        if (p->at[i].others > 0 && p->at[i].t_s < end_s && until > start_s) return true;
    }
    return false;
}

static luo_status read_steps(luo_arena *arena, const presence *p, luo_job_pair *pair,
                             double parts[PARTS], luo_diags *diags)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_repeats *rows = luo_repeats_open(arena, pair->run->dir, LUO_TABLE_STEPS, diags);
    double sum = 0;
    for (int i = 0; i < PARTS; i++) parts[i] = 0;
    while (rows && luo_repeats_next(rows, cells)) {
        if (!meets(p, cells[LUO_COL_STEPS_t_start_s].number, cells[LUO_COL_STEPS_t_end_s].number))
            continue;
        pair->beside_steps++;
        sum += cells[LUO_COL_STEPS_step_s].number;
        for (int i = 0; i < PARTS; i++)
            parts[i] += cells[LUO_COL_STEPS_compute_s + i].number;
    }
    if (pair->beside_steps > 0) pair->beside_step_s = sum / (double)pair->beside_steps;
    for (int i = 0; i < PARTS && pair->beside_steps > 0; i++)
        parts[i] /= (double)pair->beside_steps;
    return luo_repeats_close(rows);
}

static void find_part(luo_job_pair *pair, const double parts[PARTS])
{
    for (int i = 0; i < PARTS; i++) {
        const double more = parts[i] - pair->alone->time[i] / (double)pair->alone->steps_done;
        if (more <= pair->part_s) continue;
        pair->part = i;
        pair->part_s = more;
    }
}

/* ---- where they met ---- */

typedef struct used_link {
    const char *name, *class;
    double load; /* sum of the shares of its bandwidth that the jobs take */
    int32_t users;
    bool own; /* the job at hand is one of them */
} used_link;

/* Rows of all runs beside others are the same links in the same order. */
static luo_status add_links(luo_arena *arena, const luo_result *run, bool own, used_link **links,
                            int32_t *n, int32_t *room, luo_diags *diags)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_csv *csv = luo_result_table(arena, run->dir, LUO_TABLE_LINKS, diags);
    bool ok = true;
    for (int32_t i = 0; ok && csv && luo_csv_next(csv, cells); i++) {
        if (i == *n) {
            ok = LUO_VEC_ROOM_IN(arena, *links, *n, *room);
            if (!ok) break;
            (*links)[(*n)++] =
                (used_link){.name = luo_arena_strdup(arena, cells[LUO_COL_LINKS_link].text),
                            .class = luo_arena_strdup(arena, cells[LUO_COL_LINKS_class].text)};
            ok = (*links)[i].name && (*links)[i].class;
        }
        if (cells[LUO_COL_LINKS_bytes].whole <= 0) continue;
        used_link *link = &(*links)[i];
        if (isfinite(cells[LUO_COL_LINKS_utilisation_ratio].number))
            link->load += cells[LUO_COL_LINKS_utilisation_ratio].number;
        link->users++;
        link->own |= own;
    }
    const luo_status st = luo_csv_close(csv);
    return ok ? st : LUO_ENOMEM;
}

static luo_status find_link(luo_arena *arena, const luo_result *runs, int32_t n, luo_job_pair *pair,
                            luo_diags *diags)
{
    used_link *links = NULL;
    int32_t nlinks = 0, room = 0;
    const used_link *fullest = NULL;
    for (int32_t i = 0; i < n; i++)
        if (runs[i].job && !runs[i].alone && runs[i].measured &&
            strcmp(runs[i].seed, pair->run->seed) == 0)
            LUO_TRY(add_links(arena, &runs[i], &runs[i] == pair->run, &links, &nlinks, &room,
                              diags));
    for (int32_t i = 0; i < nlinks; i++)
        if (links[i].own && links[i].users > 1 && (!fullest || links[i].load > fullest->load))
            fullest = &links[i];
    if (!fullest) return LUO_OK;
    pair->link = luo_result_shown(arena, fullest->name);
    pair->class = luo_result_shown(arena, fullest->class);
    return LUO_OK;
}

/* ---- pairs ---- */

static luo_status read_pair(luo_arena *arena, const luo_result *runs, int32_t n, luo_job_pair *pair,
                            luo_diags *diags)
{
    presence p = {0};
    double parts[PARTS];
    luo_status st = read_presence(arena, pair->run, &p, diags);
    pair->others = luo_arena_strdup(arena, luo_str_get(&p.names));
    luo_str_free(&p.names);
    if (st == LUO_OK && !pair->others) st = LUO_ENOMEM;
    if (st == LUO_OK) st = read_steps(arena, &p, pair, parts, diags);
    if (st == LUO_OK && pair->beside_steps > 0) find_part(pair, parts);
    return st == LUO_OK ? find_link(arena, runs, n, pair, diags) : st;
}

luo_status luo_job_pairs_of(luo_arena *arena, const luo_result *runs, int32_t n, luo_job_pair **out,
                            int32_t *npairs, luo_diags *diags)
{
    luo_job_pair *pairs = LUO_NEW_N(arena, luo_job_pair, n);
    *npairs = 0;
    *out = pairs;
    if (!pairs) return LUO_ENOMEM;
    for (int32_t i = 0; i < n; i++) {
        const luo_result *alone = luo_compare_reference(runs, n, &runs[i]);
        if (!runs[i].job || runs[i].alone || !alone->alone || !runs[i].measured ||
            !alone->measured || alone->steps_done == 0)
            continue;
        luo_job_pair *pair = &pairs[(*npairs)++];
        *pair = (luo_job_pair){.run = &runs[i], .alone = alone, .part = -1};
        LUO_TRY(read_pair(arena, runs, n, pair, diags));
    }
    return LUO_OK;
}

double luo_job_pair_slower(const luo_job_pair *pair)
{
    return pair->beside_steps > 0 ? pair->beside_step_s / pair->alone->step_mean_s - 1 : NAN;
}

/* A thousandth is more than sums in another order, and less than anybody would act upon. */
static bool is_slower(const luo_job_pair *pair)
{
    return luo_job_pair_slower(pair) >= 0.001;
}

void luo_job_pairs_say(luo_str *text, const luo_job_pair *pairs, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const luo_job_pair *pair = &pairs[i];
        const double alone_s = pair->alone->step_mean_s;
        luo_str_addf(text, "%s: a step takes ", pair->run->name);
        if (pair->beside_steps == 0) {
            luo_str_addf(text, "%.4g s; no other job runs meanwhile.\n", alone_s);
            continue;
        }
        luo_str_addf(text, "%.4g s beside %s, %.4g s alone", pair->beside_step_s, pair->others,
                     alone_s);
        if (!is_slower(pair)) {
            luo_str_add(text, ": they do not hold it up.\n");
            continue;
        }
        luo_str_addf(text, ": %.3g %% longer", 100 * luo_job_pair_slower(pair));
        if (pair->part >= 0)
            luo_str_addf(text, ", most of it in `%s`, %.4g s", luo_result_time_name(pair->part),
                         pair->part_s);
        if (pair->link)
            luo_str_addf(text, "; the fullest link that they share is %s `%s`", pair->class,
                         pair->link);
        luo_str_add(text, ".\n");
    }
}

static luo_status put_pair(luo_table *table, const luo_job_pair *pair, luo_err *err)
{
    luo_table_text(table, LUO_COL_JOBS_run, pair->run->name);
    luo_table_text(table, LUO_COL_JOBS_alone, pair->alone->name);
    luo_table_text(table, LUO_COL_JOBS_others, pair->others);
    luo_table_int(table, LUO_COL_JOBS_steps, pair->run->steps_done);
    luo_table_int(table, LUO_COL_JOBS_beside_steps, pair->beside_steps);
    luo_table_num(table, LUO_COL_JOBS_beside_step_s,
                  pair->beside_steps > 0 ? pair->beside_step_s : NAN);
    luo_table_num(table, LUO_COL_JOBS_alone_step_s, pair->alone->step_mean_s);
    luo_table_num(table, LUO_COL_JOBS_longer_ratio, luo_job_pair_slower(pair));
    luo_table_text(table, LUO_COL_JOBS_part,
                   pair->part >= 0 ? luo_result_time_name(pair->part) : "");
    luo_table_num(table, LUO_COL_JOBS_part_step_s, pair->part >= 0 ? pair->part_s : NAN);
    luo_table_text(table, LUO_COL_JOBS_link, pair->link ? pair->link : "");
    luo_table_text(table, LUO_COL_JOBS_class, pair->class ? pair->class : "");
    return luo_table_end(table, err);
}

/* A table of an earlier comparison would be taken for this one's. */
static luo_status remove_old(const char *out, luo_err *err)
{
    luo_str path = {0};
    luo_str_addf(&path, "%s/%s", out, luo_table_def_at(LUO_TABLE_JOBS)->file);
    if (!path.failed) unlink(path.at);
    const luo_status st = path.failed ? luo_err_nomem(err) : LUO_OK;
    luo_str_free(&path);
    return st;
}

luo_status luo_job_pairs_write(const char *out, const luo_job_pair *pairs, int32_t n, luo_err *err)
{
    luo_table table = {0};
    if (n == 0) return remove_old(out, err);
    luo_status st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_JOBS), err);
    for (int32_t i = 0; st == LUO_OK && i < n; i++) st = put_pair(&table, &pairs[i], err);
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

void luo_job_pairs_json(luo_jsonw *json, const luo_job_pair *pairs, int32_t n)
{
    if (n == 0) return;
    luo_jsonw_open(json, "jobs", '[');
    for (int32_t i = 0; i < n; i++) {
        const luo_job_pair *pair = &pairs[i];
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "run", pair->run->name);
        luo_jsonw_text(json, "alone", pair->alone->name);
        luo_jsonw_text(json, "others", pair->others);
        luo_jsonw_int(json, "steps", pair->run->steps_done);
        luo_jsonw_int(json, "beside_steps", pair->beside_steps);
        luo_jsonw_num(json, "beside_step_s", pair->beside_steps > 0 ? pair->beside_step_s : NAN, 9);
        luo_jsonw_num(json, "alone_step_s", pair->alone->step_mean_s, 9);
        luo_jsonw_num(json, "longer_ratio", luo_job_pair_slower(pair), 6);
        luo_jsonw_text(json, "part", pair->part >= 0 ? luo_result_time_name(pair->part) : NULL);
        luo_jsonw_num(json, "part_step_s", pair->part >= 0 ? pair->part_s : NAN, 9);
        luo_jsonw_text(json, "link", pair->link);
        luo_jsonw_text(json, "class", pair->class);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}
