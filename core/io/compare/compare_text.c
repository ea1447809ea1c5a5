/* The table of `luoshu compare` for people: fixed columns, units in the header. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/compare/compare_internal.h"

const char luo_goodput_means[] =
    "tokens of steps that stayed over the scenario's duration; where it has steps instead, over "
    "the run's own time if it made them all, else over the longest run's of its seed";

enum { COLUMNS = LUO_COMPARE_CELLS, WIDTH = LUO_COMPARE_CELL };

static const struct {
    const char *title, *unit;
    int column; /* of compare.csv */
} cells_of[COLUMNS] = {{"run", "", LUO_COL_COMPARE_run},
                       {"state", "", LUO_COL_COMPARE_state},
                       {"steps", "", LUO_COL_COMPARE_steps},
                       {"time", "h", LUO_COL_COMPARE_total_s},
                       {"step", "s", LUO_COL_COMPARE_step_mean_s},
                       {"range", "s", LUO_COL_COMPARE_low_s},
                       {"p99", "s", LUO_COL_COMPARE_step_p99_s},
                       {"goodput", "tok/s", LUO_COL_COMPARE_goodput_tokens_per_s},
                       {"MFU", "%", LUO_COL_COMPARE_mfu_ratio},
                       {"lost", "%", LUO_COL_COMPARE_lost_s},
                       {"switches", "", LUO_COL_COMPARE_switches},
                       {"restarts", "", LUO_COL_COMPARE_restarts},
                       {"memory", "%", LUO_COL_COMPARE_peak_memory_ratio},
                       {"speedup", "", LUO_COL_COMPARE_speedup}};

const char *luo_compare_title(int cell)
{
    return cells_of[cell].title;
}

const char *luo_compare_unit(int cell)
{
    return cells_of[cell].unit;
}

const char *luo_compare_meaning(int cell)
{
    return luo_table_def_at(LUO_TABLE_COMPARE)->columns[cells_of[cell].column].help;
}

static void put_num(char out[WIDTH], double v, int decimals)
{
    luo_str text = {0};
    if (isfinite(v)) luo_table_print_fixed(&text, v, decimals); /* never "-0.0" */
    if (text.len)
        snprintf(out, WIDTH, "%s", text.at);
    else
        snprintf(out, WIDTH, "-");
    luo_str_free(&text);
}

static void put_count(char out[WIDTH], int64_t v)
{
    if (v < 0)
        snprintf(out, WIDTH, "-");
    else
        snprintf(out, WIDTH, "%lld", (long long)v);
}

static void put_range(char out[WIDTH], const luo_result *result)
{
    luo_str text = {0};
    if (result->range && isfinite(result->step_mean_s))
        luo_time_range_say(&text, result->range, result->step_mean_s);
    snprintf(out, WIDTH, "%s", text.len ? text.at : "-");
    luo_str_free(&text);
}

void luo_compare_fill(luo_compare_row out, const luo_result *result, const luo_result *reference)
{
    if (snprintf(out[0], WIDTH, "%s", result->name) >= WIDTH) memcpy(out[0] + WIDTH - 3, "..", 3);
    snprintf(out[1], WIDTH, "%s", luo_run_state_name(result->state));
    put_count(out[2], result->steps_done);
    put_num(out[3], result->total_s / 3600, 2);
    put_num(out[4], result->step_mean_s, 3);
    put_range(out[5], result);
    put_num(out[6], result->step_p99_s, 3);
    put_num(out[7], result->goodput_tokens_per_s, 0);
    put_num(out[8], 100 * result->mfu_ratio, 1);
    put_num(out[9], 100 * luo_result_lost_s(result) / result->total_s, 1);
    put_count(out[10], result->switches);
    put_count(out[11], result->restarts);
    put_num(out[12], 100 * result->peak_memory_ratio, 1);
    put_num(out[13], luo_result_speedup(result, reference), 3);
}

static void put_row(luo_str *text, const luo_compare_row cells, const int *width)
{
    luo_str line = {0};
    for (int c = 0; c < COLUMNS; c++) {
        const int pad = width[c] - (int)strlen(cells[c]);
        const bool left = c < 2;
        if (c) luo_str_add(&line, "  ");
        if (left) luo_str_add(&line, cells[c]);
        for (int i = 0; i < pad; i++) luo_str_addc(&line, ' ');
        if (!left) luo_str_add(&line, cells[c]);
    }
    size_t n = line.len;
    while (n > 0 && line.at[n - 1] == ' ') n--;
    luo_str_addn(text, luo_str_get(&line), n);
    luo_str_addc(text, '\n');
    text->failed |= line.failed;
    luo_str_free(&line);
}

static void widen_columns(int *width, const luo_compare_row cells)
{
    for (int c = 0; c < COLUMNS; c++)
        if ((int)strlen(cells[c]) > width[c]) width[c] = (int)strlen(cells[c]);
}

void luo_compare_table(luo_str *text, const luo_result *runs, int32_t n)
{
    int width[COLUMNS] = {0};
    luo_compare_row cells, head[2];
    for (int c = 0; c < COLUMNS; c++)
        for (int k = 0; k < 2; k++)
            snprintf(head[k][c], WIDTH, "%s", k ? cells_of[c].unit : cells_of[c].title);
    widen_columns(width, head[0]);
    widen_columns(width, head[1]);
    for (int32_t i = 0; i < n; i++) {
        luo_compare_fill(cells, &runs[i], luo_compare_reference(runs, n, &runs[i]));
        widen_columns(width, cells);
    }
    put_row(text, head[0], width);
    put_row(text, head[1], width);
    for (int32_t i = 0; i < n; i++) {
        luo_compare_fill(cells, &runs[i], luo_compare_reference(runs, n, &runs[i]));
        put_row(text, cells, width);
    }
}

void luo_compare_notes(luo_str *text, const luo_result *runs, int32_t n)
{
    bool all = true;
    for (int32_t i = 0; i < n; i++) all &= runs[i].state == LUO_COMPLETE;
    if (!all) luo_str_addf(text, "goodput: %s\n", luo_goodput_means);
    luo_compare_range_text(text, runs, n);
    for (int32_t i = 0; i < n; i++) {
        const luo_result *result = &runs[i];
        if (result->measured && result->state != LUO_COMPLETE)
            luo_str_addf(text, "%s: %s after %.6g s; its tokens count over %.6g s\n", result->name,
                         luo_run_state_name(result->state), result->total_s, result->extent_s);
        if (result->state == LUO_FAILED && result->error[0])
            luo_str_addf(text, "%s: failed: %s\n", result->name, result->error);
    }
}
