/* calibrate_suite.c: `luoshu calibrate --from SUITE..`: profiles and stacks from published
 * steps. The files of today are taken as they are; only what was fitted is written anew in them. */
#include "cli/calibrate/calibrate_suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/calibrate/calibrate.h"
#include "cli/validate/validate.h"
#include "core/io/builtin.h"
#include "core/io/files.h"
#include "core/io/read/input_tables.h"

typedef struct job {
    luo_cli *cli;
    const char *dir, *params, *name;
    uint64_t seed;
    luo_suite rows;
    luo_str csv;
} job;

bool luo_calibrate_suite_is(luo_cli *cli, const char *path)
{
    luo_source src;
    luo_err err;
    if (luo_source_read(cli->arena, path, &src, &err) != LUO_OK) return false; /* told later */
    return luo_input_table_of(&src) && strcmp(luo_input_table_of(&src)->name, "suite") == 0;
}

/* ---- files: an entry of `values` is one line, or a line and what is indented below it ---- */

static bool names(const char *line, const char *key)
{
    const size_t n = strlen(key);
    line += strspn(line, " ");
    if (strncmp(line, "- name: ", 8) == 0)
        line += 8;
    else if (strncmp(line, "- {name: ", 9) == 0)
        line += 9;
    else
        return false;
    return strncmp(line, key, n) == 0 && strchr(",\r\n ", line[n]);
}

static size_t line_length(const char *at)
{
    const size_t n = strcspn(at, "\n");
    return n + (at[n] == '\n');
}

static void put_value(luo_str *out, const luo_calibrated_value *value)
{
    luo_str_addf(out, "  - {name: %s, value: %.6g, ", value->key, value->value);
    if (value->spread > 0) luo_str_addf(out, "spread: %.3g, ", value->spread);
    luo_str_addf(out, "source: \"%s\", provenance: %s}\n", value->source,
                 luo_provenance_name(value->provenance));
}

const char *luo_calibrate_text_with(luo_arena *arena, const char *text,
                                    const luo_calibrated_value *value)
{
    const char *key = value->key;
    luo_str out = {0};
    bool done = false, known = false;
    for (const char *at = text; *at && !known; at += line_length(at)) known = names(at, key);
    for (const char *at = text; *at;) {
        size_t n = line_length(at);
        if (names(at, key)) {
            put_value(&out, value);
            done = true;
            for (at += n; strncmp(at, "    ", 4) == 0;) at += line_length(at);
            continue;
        }
        luo_str_addn(&out, at, n);
        if (!known && !done && strncmp(at, "values:", 7) == 0) {
            put_value(&out, value);
            done = true;
        }
        at += n;
    }
    const char *made = out.failed || !done ? NULL : luo_arena_strdup(arena, luo_str_get(&out));
    luo_str_free(&out);
    return made;
}

static const char *with_name(luo_arena *arena, const char *text, const char *name)
{
    const char *at = strstr(text, "\nname: ");
    if (!at) return NULL;
    return luo_arena_printf(arena, "%.*s\nname: %s%s", (int)(at - text), text, name,
                            at + 1 + strcspn(at + 1, "\n"));
}

luo_status luo_calibrate_source(luo_cli *cli, bool stack, const char *path, luo_source *out,
                                luo_err *err)
{
    char builtin[LUO_ERR_PATH];
    const char *folder = stack ? LUO_BUILTIN_STACKS : LUO_BUILTIN_PROFILES;
    if (luo_builtin_path(folder, path, builtin, sizeof builtin)) path = builtin;
    return luo_files_get(NULL, cli->arena, path, out, err);
}

/* DIR/NAME, or DIR/SUB/NAME where sub is "/SUB". */
static luo_status write_file(luo_cli *cli, const char *dir, const char *sub, const char *name,
                             const char *text, luo_err *err)
{
    const char *folder = luo_arena_printf(cli->arena, "%s%s", dir, sub);
    const char *path = folder ? luo_arena_printf(cli->arena, "%s/%s", folder, name) : NULL;
    if (!path) return luo_err_nomem(err);
    LUO_TRY(*sub ? luo_file_make_own_dir(folder, err) : luo_file_make_dir(folder, err));
    LUO_TRY(luo_file_write_own(path, text, strlen(text), err));
    fprintf(luo_cli_out(cli), "%s\n", path);
    return LUO_OK;
}

/* Tables that a profile names go with it. */
static luo_status copy_tables(luo_cli *cli, const char *dir, const luo_source *profile,
                              luo_err *err)
{
    static const char word[] = "file: tables/";
    for (const char *at = profile->text; (at = strstr(at, word)); at++) {
        luo_source table;
        const size_t n = strcspn(at + 6, "},\r\n ");
        const char *name = luo_arena_strndup(cli->arena, at + 6, n);
        const char *path = name ? luo_file_path_join(cli->arena, profile->name, name) : NULL;
        if (!path) return luo_err_nomem(err);
        LUO_TRY(luo_files_get(NULL, cli->arena, path, &table, err));
        LUO_TRY(write_file(cli, dir, "/tables", name + 7, table.text, err));
    }
    return LUO_OK;
}

static const char *source_text(job *j, const luo_suite_row *row, const luo_fitted *fitted,
                               int32_t i)
{
    return luo_arena_printf(j->cli->arena,
                            "pattern search of `luoshu calibrate --from` on %d "
                            "calibration rows of suite %s%s",
                            (int)fitted->rows, row->suite,
                            fitted->weak[i] ? "; weakly determined" : "");
}

luo_status luo_calibrate_member_write(luo_cli *cli, const char *dir, const luo_source *src,
                                      const char *text, const char *name, bool stack, luo_err *err)
{
    const char *file = luo_arena_printf(cli->arena, "%s.yaml", name);
    if (!file) return luo_err_nomem(err);
    if (!stack) LUO_TRY(copy_tables(cli, dir, src, err));
    return write_file(cli, dir, stack ? "/stacks" : "", file, text, err);
}

static luo_status write_one(job *j, const luo_suite_row *row, const luo_fitted *fitted, bool stack,
                            const char *path, const char *name, luo_err *err)
{
    luo_source src;
    bool any = false;
    LUO_TRY(luo_calibrate_source(j->cli, stack, path, &src, err));
    const char *text = src.text;
    for (int32_t i = 0; i < fitted->n && text; i++) {
        const char *source = source_text(j, row, fitted, i);
        if (fitted->param[i]->of_stack != stack) continue;
        const luo_calibrated_value value = {fitted->param[i]->key, fitted->value[i], 0, source,
                                            LUO_FROM_FITTED};
        text = source ? luo_calibrate_text_with(j->cli->arena, text, &value) : NULL;
        any = true;
    }
    if (text && any) text = with_name(j->cli->arena, text, name);
    if (!text) return luo_err_nomem(err);
    return any ? luo_calibrate_member_write(j->cli, j->dir, &src, text, name, stack, err) : LUO_OK;
}

/* ---- a group of rows ---- */

static void put_rows(job *j, const luo_case *const *cases, int32_t n, double *mean)
{
    luo_arena *scratch = luo_arena_new(0);
    double sum = 0;
    int32_t rows = 0;
    for (int32_t i = 0; scratch && i < n; i++) {
        luo_step_cost cost;
        luo_err err;
        const luo_suite_row *row = cases[i]->row;
        if (!(cases[i]->measured_s > 0) ||
            luo_case_closed(scratch, cases[i], &cost, &err) != LUO_OK)
            continue;
        const double error = cost.step / cases[i]->measured_s - 1;
        luo_calibration_row(&j->csv, row->id, luo_suite_excluded(row) ? "excluded" : "calibration",
                            cases[i]->measured_s, cost.step, false, row->file);
        if (luo_suite_excluded(row)) continue;
        sum += fabs(error);
        rows++;
    }
    luo_arena_free(scratch);
    *mean = rows ? sum / rows : 0;
}

static void print_fitted(job *j, const luo_suite_row *row, const luo_fitted *fitted, double mean)
{
    FILE *out = luo_cli_out(j->cli);
    luo_jsonw *json = &j->cli->json;
    fprintf(out, "%s, %s: mean |error| %.1f %% of the closed form on %d calibration rows\n",
            row->suite, row->gpu, 100 * mean, (int)fitted->rows);
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_text(json, "suite", row->suite);
    luo_jsonw_text(json, "gpu", row->gpu);
    luo_jsonw_num(json, "mean_error", mean, 6);
    for (int32_t i = 0; i < fitted->n; i++) {
        fprintf(out, "  %-26s %12.6g%s\n", fitted->param[i]->name, fitted->value[i],
                fitted->weak[i] ? "  weakly determined" : "");
        luo_jsonw_num(json, fitted->param[i]->name, fitted->value[i], 9);
    }
    luo_jsonw_close(json);
}

static luo_status fit_group(job *j, const luo_suite_row *first, luo_err *err)
{
    luo_kit kit;
    luo_fitted fitted;
    int32_t n = 0;
    double mean;
    luo_case *one = LUO_NEW_N(j->cli->arena, luo_case, j->rows.n);
    const luo_case **list = LUO_NEW_N(j->cli->arena, const luo_case *, j->rows.n);
    if (!one || !list) return luo_err_nomem(err);
    luo_kit_open(j->cli, luo_args_get(&j->cli->args, "profile-dir", NULL), NULL, false,
                 &kit);
    for (int32_t i = 0; i < j->rows.n; i++) {
        const luo_suite_row *row = &j->rows.at[i];
        luo_err why = {0};
        if (row->split != LUO_SPLIT_CAL || !luo_validate_together(first, row)) continue;
        if (strcmp(row->precision, "fp8") == 0) continue; /* another GPU, as it were */
        const luo_status st = luo_case_make(j->cli->arena, row, &kit.as, &one[n], &why);
        if (st == LUO_EUNSUP || st == LUO_EINPUT) { /* the others can be fitted on */
            luo_diags_add(&j->cli->diags, LUO_WARNING, st, row->file, row->line, 1,
                          "%s The row is left out.", why.text);
            continue;
        }
        if (st != LUO_OK) {
            *err = why;
            return st;
        }
        list[n] = &one[n];
        n++;
    }
    if (n == 0) return LUO_OK;
    LUO_TRY(luo_kit_fit(&kit, list, n, luo_suite_recipe_of(first->suite), j->params, j->seed,
                        &fitted, err));
    put_rows(j, list, n, &mean);
    print_fitted(j, first, &fitted, mean);
    const char *name = j->name ? j->name : luo_validate_stack_name(j->cli->arena, first);
    if (!name) return luo_err_nomem(err);
    LUO_TRY(write_one(j, first, &fitted, true, kit.stacks[0].path, name, err));
    name = luo_validate_profile_name(j->cli->arena, first);
    return name ? write_one(j, first, &fitted, false, kit.profiles[0].path, name, err)
                : luo_err_nomem(err);
}

static luo_status fit_all(job *j, luo_err *err)
{
    for (int32_t i = 0; i < j->rows.n; i++) {
        bool seen = j->rows.at[i].split != LUO_SPLIT_CAL;
        for (int32_t k = 0; k < i && !seen; k++)
            seen = j->rows.at[k].split == LUO_SPLIT_CAL &&
                   luo_validate_together(&j->rows.at[k], &j->rows.at[i]);
        if (!seen) LUO_TRY(fit_group(j, &j->rows.at[i], err));
    }
    return LUO_OK;
}

static void count(const job *j)
{
    int32_t n[3] = {0};
    for (int32_t i = 0; i < j->rows.n; i++) n[j->rows.at[i].split]++;
    fprintf(luo_cli_out(j->cli), "%d calibration rows; %d validation rows are not looked at\n",
            (int)n[LUO_SPLIT_CAL], (int)n[LUO_SPLIT_VAL]);
}

static luo_status calibrate(job *j, luo_err *err)
{
    int64_t seed;
    const char *path;
    LUO_TRY(luo_args_int(&j->cli->args, "seed", 0, 0, INT64_MAX, &seed, err));
    j->seed = (uint64_t)seed;
    count(j);
    LUO_TRY(fit_all(j, err));
    LUO_TRY(luo_file_make_dir(j->dir, err));
    LUO_TRY(luo_calibration_csv(j->cli, j->dir, &j->csv, &path, err));
    fprintf(luo_cli_out(j->cli), "%s\n", path);
    return LUO_OK;
}

luo_status luo_calibrate_suites(luo_cli *cli, const char *dir, const char *first)
{
    luo_err err = {0};
    job j = {.cli = cli,
             .dir = dir,
             .params = luo_args_get(&cli->args, "fit", NULL),
             .name = luo_args_get(&cli->args, "name", NULL)};
    LUO_TRY(luo_read_suite(cli->arena, first, &j.rows, &cli->diags));
    for (int i = 0; i < cli->args.nfiles; i++)
        LUO_TRY(luo_read_suite(cli->arena, cli->args.files[i], &j.rows, &cli->diags));
    const luo_status st = calibrate(&j, &err);
    luo_str_free(&j.csv);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
