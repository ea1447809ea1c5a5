/* calibrate_sources.c: `luoshu calibrate --from DIR`: constants of GPU types and of software from
 * the steps of all suites of a folder at once (docs/calibration.md#many-sources-at-once). */
#include <math.h>
#include <string.h>

#include "cli/calibrate/calibrate_suite.h"
#include "cli/validate/validate.h"
#include "core/io/builtin.h"
#include "core/io/read/input_tables.h"
#include "core/io/result/table.h"

typedef struct job {
    luo_cli *cli;
    const char *dir; /* results */
    luo_suite rows;
    luo_kit kit;
    luo_suite_effects_result found;
} job;

static luo_status read_folder(job *j, const char *folder, luo_err *err)
{
    const char *dir = luo_arena_printf(j->cli->arena, "%s/suites", folder), **names = NULL;
    int32_t n = 0;
    if (!dir) return luo_err_nomem(err);
    LUO_TRY(luo_validate_files(j->cli->arena, dir, &names, &n, err));
    for (int32_t i = 0; i < n; i++) {
        const char *path = luo_arena_printf(j->cli->arena, "%s/%s", dir, names[i]);
        if (!path) return luo_err_nomem(err);
        LUO_TRY(luo_read_suite(j->cli->arena, path, &j->rows, &j->cli->diags));
    }
    return LUO_OK;
}

/* Calibration rows that can be said as cases; others are counted, and told. */
static luo_status make_cases(job *j, const luo_case ***out, int32_t *n, luo_err *err)
{
    luo_case *one = LUO_NEW_N(j->cli->arena, luo_case, j->rows.n + 1);
    const luo_case **list = *out = LUO_NEW_N(j->cli->arena, const luo_case *, j->rows.n + 1);
    if (!one || !list) return luo_err_nomem(err);
    for (int32_t i = 0; i < j->rows.n; i++) {
        luo_err why = {0};
        if (j->rows.at[i].split != LUO_SPLIT_CAL) continue;
        const luo_status st =
            luo_case_make(j->cli->arena, &j->rows.at[i], &j->kit.as, &one[*n], &why);
        if (st == LUO_OK) {
            list[*n] = &one[*n];
            (*n)++;
        } else if (st == LUO_EUNSUP || st == LUO_EINPUT)
            (void)luo_cli_note(j->cli, LUO_NOTE, "%s is left out: %s", j->rows.at[i].id, why.text);
        else {
            *err = why;
            return st;
        }
    }
    return LUO_OK;
}

/* ---- what was found ---- */

static const char *const levels[] = {[LUO_EFFECTS_ALL] = "all",
                                     [LUO_EFFECTS_ARCHITECTURE] = "architecture",
                                     [LUO_EFFECTS_GPU] = "gpu",
                                     [LUO_EFFECTS_SOFTWARE] = "software"};
static const char *const states[] = {
    [LUO_EFFECTS_FITTED] = "fitted", [LUO_EFFECTS_BOUND] = "bound", [LUO_EFFECTS_PRIOR] = "prior"};

static void print_found(job *j)
{
    FILE *out = luo_cli_out(j->cli);
    const luo_suite_effects_result *found = &j->found;
    fprintf(out,
            "%d rows of %d sources: mean |error| %.1f %%, bias %+.1f %%; a row %.1f %%, a "
            "source %.1f %% (standard deviations)\n",
            (int)found->nrows, (int)found->nsources, 100 * found->error, 100 * found->bias,
            100 * found->noise, 100 * found->between);
    fprintf(out, "%-14s %-26s %-24s %10s %10s %8s %-7s %5s %8s\n", "level", "of", "constant",
            "value", "prior", "spread", "state", "rows", "sources");
    for (int32_t i = 0; i < found->n; i++) {
        const luo_effects_named *constant = &found->constant[i];
        fprintf(out, "%-14s %-26s %-24s %10.4g %10.4g %8.3f %-7s %5d %8d\n",
                levels[constant->level], *constant->of ? constant->of : "-", constant->key,
                constant->value, constant->prior, constant->spread, states[constant->state],
                (int)constant->rows, (int)constant->sources);
    }
    for (int32_t i = 0; i < found->nsources; i++)
        fprintf(out, "source %-22s %+6.1f %%\n", found->source[i], 100 * expm1(found->effect[i]));
}

static luo_status write_table(job *j, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, j->dir, luo_table_def_at(LUO_TABLE_CONSTANTS), err);
    for (int32_t i = 0; i < j->found.n && st == LUO_OK; i++) {
        const luo_effects_named *constant = &j->found.constant[i];
        luo_table_text(&table, LUO_COL_CONSTANTS_level, levels[constant->level]);
        luo_table_text(&table, LUO_COL_CONSTANTS_of, constant->of);
        luo_table_text(&table, LUO_COL_CONSTANTS_key, constant->key);
        luo_table_num(&table, LUO_COL_CONSTANTS_value, constant->value);
        luo_table_num(&table, LUO_COL_CONSTANTS_prior, constant->prior);
        luo_table_num(&table, LUO_COL_CONSTANTS_spread, constant->spread);
        luo_table_text(&table, LUO_COL_CONSTANTS_state, states[constant->state]);
        luo_table_int(&table, LUO_COL_CONSTANTS_rows, constant->rows);
        luo_table_int(&table, LUO_COL_CONSTANTS_sources, constant->sources);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

/* ---- profiles and stacks ---- */

/* The narrowest level that says `key` of this GPU type or software; NULL: none. */
static const luo_effects_named *constant_of(const job *j, const char *name, bool stack,
                                            const char *key)
{
    const char *architecture = stack ? NULL : luo_effects_architecture(name);
    const luo_effects_named *best = NULL;
    for (int32_t i = 0; i < j->found.n; i++) {
        const luo_effects_named *constant = &j->found.constant[i];
        if (strcmp(constant->key, key) != 0 || (constant->level == LUO_EFFECTS_SOFTWARE) != stack)
            continue;
        const char *of = constant->level == LUO_EFFECTS_ARCHITECTURE ? architecture
                         : constant->level == LUO_EFFECTS_ALL        ? ""
                                                                     : name;
        if (of && strcmp(constant->of, of) == 0 && (!best || constant->level > best->level))
            best = constant;
    }
    return best;
}

static const char *source_of(job *j, const luo_effects_named *constant, const char *architecture)
{
    if (constant->rows > 0 && constant->state == LUO_EFFECTS_FITTED)
        return luo_arena_printf(j->cli->arena,
                                "%d rows of %d sources, by `luoshu calibrate --from` a "
                                "folder",
                                (int)constant->rows, (int)constant->sources);
    if (constant->level == LUO_EFFECTS_SOFTWARE)
        return "default of docs/calibration.md#many-sources-at-once: the rows do not tell it";
    return luo_arena_printf(j->cli->arena, "inherited from %s: %s",
                            architecture ? architecture : "all architectures",
                            constant->rows > 0 ? "the rows do not tell it" : "no row of its own");
}

static luo_status write_member(job *j, const char *path, const char *name, bool stack, luo_err *err)
{
    luo_source src;
    bool any = false;
    LUO_TRY(luo_calibrate_source(j->cli, stack, path, &src, err));
    const char *text = src.text;
    for (int32_t i = 0; text && i < j->found.n; i++) {
        const luo_effects_named *constant = &j->found.constant[i];
        if (constant != constant_of(j, name, stack, constant->key)) continue;
        const char *source = source_of(j, constant, stack ? NULL : luo_effects_architecture(name));
        const bool fitted = constant->rows > 0 && constant->state == LUO_EFFECTS_FITTED;
        const luo_calibrated_value value = {constant->key, constant->value, constant->spread,
                                            source, fitted ? LUO_FROM_FITTED : LUO_FROM_CHOSEN};
        text = source ? luo_calibrate_text_with(j->cli->arena, text, &value) : NULL;
        any = true;
    }
    if (!text) return luo_err_nomem(err);
    return any ? luo_calibrate_member_write(j->cli, j->dir, &src, text, name, stack, err) : LUO_OK;
}

static luo_status write_members(job *j, luo_err *err)
{
    for (int32_t i = 0; i < j->kit.nprofiles; i++) {
        bool seen = false; /* at another precision */
        for (int32_t k = 0; k < i && !seen; k++)
            seen = strcmp(j->kit.profiles[k].name, j->kit.profiles[i].name) == 0;
        if (!seen)
            LUO_TRY(write_member(j, j->kit.profiles[i].path, j->kit.profiles[i].name, false, err));
    }
    for (int32_t i = 0; i < j->kit.nstacks; i++) {
        bool seen = strcmp(j->kit.stacks[i].name, j->kit.stacks[i].system) != 0; /* of a site */
        for (int32_t k = 0; k < i && !seen; k++)
            seen = strcmp(j->kit.stacks[k].name, j->kit.stacks[i].name) == 0;
        if (!seen)
            LUO_TRY(write_member(j, j->kit.stacks[i].path, j->kit.stacks[i].name, true, err));
    }
    return LUO_OK;
}

static luo_status calibrate_folder(job *j, const char *folder, luo_err *err)
{
    const luo_case **cases;
    int32_t n = 0;
    LUO_TRY(read_folder(j, folder, err));
    luo_kit_open(j->cli, luo_args_get(&j->cli->args, "profile-dir", NULL), NULL, true, &j->kit);
    LUO_TRY(make_cases(j, &cases, &n, err));
    LUO_TRY(luo_kit_add_types(&j->kit, err));
    LUO_TRY(luo_kit_pool(&j->kit, cases, n, NULL, 0, &j->found, err));
    print_found(j);
    LUO_TRY(write_table(j, err));
    return write_members(j, err);
}

luo_status luo_calibrate_sources(luo_cli *cli, const char *dir, const char *folder)
{
    luo_err err = {0};
    job j = {.cli = cli, .dir = dir};
    const luo_status st = calibrate_folder(&j, folder, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
