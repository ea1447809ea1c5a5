/* report_sweep.c: the page of a sweep, of sweep-answer.json and sweep.json. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/report/report_internal.h"
#include "core/io/sweep/sweep.h"

enum { LISTED = 24 }; /* values and seeds of a sweep that are listed; of more their number */

/* Of the page, up to the end of its cells: values of keys may be long. The rest is for figures. */
static const size_t ROOM = LUO_REPORT_BYTES / 2;

typedef struct sweep_page {
    report_page *page;
    const char *dir;
    const luo_doc_node *definition, *answer;
    bool least; /* it sought a value and not the best cell */
    int32_t ncases, nkeys;
    const luo_doc_node **cases;
} sweep_page;

/* ---- cells ---- */

/* What the file has of a case, after its keys and policy. */
static const struct case_figure {
    const char *title, *unit, *key;
    int32_t column; /* of sweep.csv, whose meaning it has; -1: `meaning` */
    const char *meaning;
    double scale; /* of what the file has, for the unit */
    int decimals;
} figures[] = {
    {"goodput", "tokens/s", "goodput_mean_tokens_per_s", LUO_COL_SWEEP_goodput_tokens_per_s, "", 1,
     0},
    {"from", "tokens/s", "goodput_low95_tokens_per_s", -1,
     "low end of the 95 % interval of mean goodput over the seeds", 1, 0},
    {"to", "tokens/s", "goodput_high95_tokens_per_s", -1, "high end of it", 1, 0},
    {"seeds", "", "seeds", -1, "seeds with figures; what stands beside is their mean", 1, 0},
    {"step", "s", "step_mean_s", LUO_COL_SWEEP_step_mean_s, "", 1, 6},
    {"MFU", "%", "mfu_ratio", LUO_COL_SWEEP_mfu_ratio, "", 100, 1},
    {"lost", "%", "lost_ratio", -1, "share of the time not spent in steps that stayed", 100, 1},
    {"memory", "%", "peak_memory_ratio", LUO_COL_SWEEP_peak_memory_ratio, "", 100, 1},
};
enum { FIGURES = sizeof figures / sizeof *figures };

static bool is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return *text && !*end;
}

/* Value of a key in a case. */
static const luo_doc_node *value_of(const luo_doc_node *one, int32_t key)
{
    const luo_doc_node *values = luo_doc_get(one, "values");
    const luo_doc_node *at = values && values->type == LUO_DOC_MAP ? values->first : NULL;
    while (at && key-- > 0) at = at->next;
    return at;
}

static report_column column_of(const struct case_figure *figure)
{
    const luo_table_def *table = luo_table_def_at(LUO_TABLE_SWEEP);
    return (report_column){
        figure->title, figure->unit,
        figure->column < 0 ? figure->meaning : table->columns[figure->column].help, false};
}

/* Are values of that key sorted by letters? */
static bool is_word(const sweep_page *sweep, int32_t key)
{
    for (int32_t i = 0; i < sweep->ncases; i++) {
        const luo_doc_node *value = value_of(sweep->cases[i], key);
        if (!value || !is_number(value->text)) return true;
    }
    return false;
}

static void put_titles(const sweep_page *sweep, const bool *word)
{
    report_page *page = sweep->page;
    report_column columns[LUO_SWEEP_KEYS + FIGURES + 2];
    const luo_doc_node *keys = luo_doc_get(sweep->definition, "keys");
    int32_t n = 0;
    for (; n < sweep->nkeys; n++) {
        const char *name = luo_report_text(page, luo_doc_get(luo_doc_nth(keys, n), "key"));
        columns[n] = (report_column){name, "", "value of the key", word[n]};
    }
    columns[n++] = (report_column){"policy", "", "policy of the scenario", true};
    for (int32_t i = 0; i < FIGURES; i++) columns[n++] = column_of(&figures[i]);
    columns[n++] = (report_column){"state", "", "the worst of the seeds", true};
    luo_report_put_titles(page, columns, n);
}

/* The best cell stands out where it is the answer. */
static bool is_best(const sweep_page *sweep, const luo_doc_node *one)
{
    const luo_doc_node *best = luo_doc_get(sweep->answer, "best");
    const char *policy = luo_doc_text(best, "policy"), *own = luo_doc_text(one, "policy");
    int64_t cell, at;
    return !sweep->least && luo_doc_int(luo_doc_get(best, "cell"), &cell) &&
           luo_doc_int(luo_doc_get(one, "cell"), &at) && cell == at && policy && own &&
           strcmp(policy, own) == 0;
}

static void put_case(const sweep_page *sweep, const luo_doc_node *one, const bool *word)
{
    report_page *page = sweep->page;
    const char *policy = luo_doc_text(one, "policy");
    luo_report_put(page, is_best(sweep, one) ? "<tr class=\"best\">" : "<tr>");
    for (int32_t k = 0; k < sweep->nkeys; k++)
        luo_report_put_cell(page, word[k], luo_report_text(page, value_of(one, k)));
    luo_report_put_cell(page, true, policy ? luo_result_shown(page->arena, policy) : "-");
    for (int32_t i = 0; i < FIGURES; i++)
        luo_report_put_number(page, figures[i].scale * luo_report_real(one, figures[i].key),
                              figures[i].decimals);
    luo_report_put_cell(page, true, luo_report_text(page, luo_doc_get(one, "state")));
    luo_report_put(page, "</tr>\n");
}

static void put_cells(const sweep_page *sweep)
{
    report_page *page = sweep->page;
    bool word[LUO_SWEEP_KEYS];
    int64_t more = 0;
    for (int32_t k = 0; k < sweep->nkeys; k++) word[k] = is_word(sweep, k);
    luo_report_put(page, "<section id=\"cells\">\n<h2>Cells</h2>\n"
                         "<div class=\"wide\"><table class=\"sorts\">\n");
    put_titles(sweep, word);
    luo_report_put(page, "<tbody>\n");
    int32_t n = 0;
    for (; n < sweep->ncases && page->html.len < ROOM; n++) put_case(sweep, sweep->cases[n], word);
    luo_report_put(page, "</tbody>\n</table></div>\n");
    luo_doc_int(luo_doc_get(sweep->answer, "more_cases"), &more);
    more += sweep->ncases - n;
    if (more > 0)
        luo_str_addf(&page->html, "<p>%lld more are in sweep.csv.</p>\n", (long long)more);
    luo_report_put(page, "</section>\n");
}

/* ---- keys ---- */

static void put_factors(const sweep_page *sweep)
{
    static const report_column columns[] = {
        {"key", "", "a swept key, or the policy", true},
        {"explains", "%", "share of the variance of the logarithm of goodput", false}};
    report_page *page = sweep->page;
    const luo_doc_node *list = luo_doc_get(sweep->answer, "factors");
    if (sweep->least || !list || list->n == 0) return;
    luo_report_put(page, "<section id=\"factors\">\n<h2>Which key matters</h2>\n"
                         "<table class=\"sorts\">\n");
    luo_report_put_titles(page, columns, 2);
    luo_report_put(page, "<tbody>\n");
    for (const luo_doc_node *at = list->first; at; at = at->next) {
        luo_report_put(page, "<tr>");
        luo_report_put_cell(page, true, luo_report_text(page, luo_doc_get(at, "name")));
        luo_report_put_number(page, 100 * luo_report_real(at, "variance_ratio"), 1);
        luo_report_put(page, "</tr>\n");
    }
    luo_report_put(page, "</tbody>\n</table>\n<p>Main effects, as shares of the variance of the "
                         "logarithm of goodput; what is left are seeds, and what keys do "
                         "together.</p>\n</section>\n");
}

/* ---- what made it ---- */

static void put_values(report_page *page, const char *title, const luo_doc_node *list)
{
    luo_str text = {0};
    const luo_doc_node *at = list && list->type == LUO_DOC_LIST ? list->first : NULL;
    for (int32_t i = 0; at && i < LISTED; at = at->next, i++)
        luo_str_addf(&text, "%s%s", i ? ", " : "", luo_report_text(page, at));
    if (at) luo_str_addf(&text, " .. %d in all", (int)list->n);
    luo_report_put_row(page, title, luo_str_get(&text));
    luo_str_free(&text);
}

static void put_range(report_page *page, const char *title, const luo_doc_node *key)
{
    const char *text = luo_arena_printf(page->arena, "from %.12g in steps of %.12g, %.12g values",
                                        luo_report_real(key, "lo"), luo_report_real(key, "step"),
                                        luo_report_real(key, "n"));
    luo_report_put_row(page, title, text ? text : "");
}

static void put_origin(const sweep_page *sweep)
{
    static const char *const facts[] = {"version", "scenario", "scenario_hash"};
    report_page *page = sweep->page;
    const luo_doc_node *keys = luo_doc_get(sweep->definition, "keys");
    luo_report_put(page, "<section id=\"origin\">\n<h2>What made it</h2>\n<table>\n");
    luo_report_put_row(page, "this page", page->opts->command);
    luo_report_put_row(page, "folder", luo_result_shown(page->arena, sweep->dir));
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        luo_report_put_row(page, facts[i],
                           luo_report_text(page, luo_doc_get(sweep->definition, facts[i])));
    put_values(page, "settings", luo_doc_get(sweep->definition, "settings"));
    for (const luo_doc_node *key = keys ? keys->first : NULL; key; key = key->next) {
        const char *name = luo_report_text(page, luo_doc_get(key, "key"));
        if (luo_doc_get(key, "values"))
            put_values(page, name, luo_doc_get(key, "values"));
        else
            put_range(page, name, key);
        if (luo_doc_get(key, "hashes")) put_values(page, "hashes", luo_doc_get(key, "hashes"));
    }
    put_values(page, "seeds", luo_doc_get(sweep->definition, "seeds"));
    luo_report_put(page, "</table>\n</section>\n");
}

/* ---- the page ---- */

static int by_cell(const void *a, const void *b)
{
    const double x = luo_report_real(*(const luo_doc_node *const *)a, "cell");
    const double y = luo_report_real(*(const luo_doc_node *const *)b, "cell");
    return (x > y) - (x < y);
}

static luo_status read_answer(sweep_page *sweep)
{
    report_page *page = sweep->page;
    sweep->definition = luo_report_read(page, sweep->dir, LUO_SWEEP_DEFINITION);
    sweep->answer = luo_report_read(page, sweep->dir, LUO_SWEEP_ANSWER);
    const char *schema = luo_report_text(page, luo_doc_get(sweep->answer, "schema"));
    const luo_doc_node *keys = luo_doc_get(sweep->definition, "keys");
    const luo_doc_node *cases = luo_doc_get(sweep->answer, "cases");
    if (strcmp(schema, LUO_SWEEP_ANSWER_SCHEMA) != 0)
        return luo_err_set(&page->err, LUO_EINPUT,
                           "the sweep in `%s` has no " LUO_SWEEP_ANSWER " yet; give its command "
                           "again, which goes on where it was and answers.",
                           sweep->dir);
    if (!keys || keys->type != LUO_DOC_LIST || keys->n > LUO_SWEEP_KEYS || !cases ||
        cases->type != LUO_DOC_LIST || !luo_doc_text(sweep->answer, "answer"))
        return luo_err_set(
            &page->err, LUO_EINPUT,
            "`%s` or `%s` in `%s` is not as luoshu wrote it; give the command of the "
            "sweep again, with --force.",
            LUO_SWEEP_DEFINITION, LUO_SWEEP_ANSWER, sweep->dir);
    sweep->nkeys = keys->n;
    sweep->least = luo_doc_text(sweep->answer, "condition") != NULL;
    sweep->cases = LUO_NEW_N(page->arena, const luo_doc_node *, cases->n + 1);
    if (!sweep->cases) return luo_err_nomem(&page->err);
    for (const luo_doc_node *at = cases->first; at; at = at->next)
        sweep->cases[sweep->ncases++] = at;
    if (sweep->least)
        qsort((void *)sweep->cases, (size_t)sweep->ncases, sizeof *sweep->cases, by_cell);
    return LUO_OK;
}

luo_status luo_report_sweep(report_page *page)
{
    sweep_page sweep = {.page = page, .dir = page->opts->paths[0]};
    LUO_TRY(read_answer(&sweep));
    const char *heading =
        luo_arena_printf(page->arena, "Sweep of %s",
                         luo_report_text(page, luo_doc_get(sweep.definition, "scenario")));
    const char *title = heading ? luo_arena_printf(page->arena, "luoshu: %s", heading) : NULL;
    if (!title) return luo_err_nomem(&page->err);
    luo_report_begin(page, title, heading,
                     luo_report_text(page, luo_doc_get(sweep.answer, "question")),
                     luo_doc_text(sweep.answer, "answer"));
    put_cells(&sweep);
    put_factors(&sweep);
    LUO_TRY(luo_report_put_figures(page, sweep.dir));
    put_origin(&sweep);
    return LUO_OK;
}
