/* import_lengths.c: `luoshu import lengths-KIND SOURCE`: tables of lengths. */
#include "cli/import/import_verb.h"

#include <string.h>
#include <sys/stat.h>

#include "core/io/import/import.h"
#include "core/io/io.h"

static luo_status read_classes(luo_cli *cli, luo_import_opts *opts, luo_err *err)
{
    opts->edges = luo_args_get(&cli->args, "histogram", NULL);
    if (!opts->edges) return LUO_OK;
    int64_t *edge = LUO_NEW_N(cli->arena, int64_t, LUO_IMPORT_EDGES);
    if (!edge) return luo_err_nomem(err);
    opts->edge = edge;
    if (strcmp(opts->edges, "log2") != 0)
        return luo_import_edges_parse(opts->edges, edge, &opts->nedges, err);
    opts->nedges = luo_import_powers(edge);
    return LUO_OK;
}

static luo_status read_opts(luo_cli *cli, luo_import_opts *opts, luo_err *err)
{
    const luo_args *args = &cli->args;
    const char *lengths[LUO_IMPORT_LENGTHS], *units[LUO_IMPORT_UNITS];
    struct stat old;
    int length, unit;
    for (int i = 0; i < LUO_IMPORT_LENGTHS; i++)
        lengths[i] = luo_import_length_name((luo_import_length)i);
    for (int i = 0; i < LUO_IMPORT_UNITS; i++) units[i] = luo_import_unit_name((luo_import_unit)i);
    LUO_TRY(luo_args_choice(args, "length", LUO_IMPORT_TOTAL, lengths, LUO_IMPORT_LENGTHS, &length,
                            err));
    LUO_TRY(luo_args_choice(args, "unit", LUO_IMPORT_BYTES, units, LUO_IMPORT_UNITS, &unit, err));
    LUO_TRY(read_classes(cli, opts, err));
    opts->length = (luo_import_length)length;
    opts->unit = (luo_import_unit)unit;
    opts->source = args->files[1];
    opts->out = luo_args_get(args, "out", "lengths.csv");
    if (!luo_args_has(args, "force") && stat(opts->out, &old) == 0 && S_ISREG(old.st_mode))
        return luo_err_set(err, LUO_EUSAGE, "`%s` exists; give another --out, or --force.",
                           opts->out);
    return LUO_OK;
}

/* ---- what was made ---- */

static void tell_left_out(FILE *out, const luo_import_made *made)
{
    int n = 0;
    for (int k = 0; k < LUO_IMPORT_SKIPS; k++)
        if (made->skipped[k])
            fprintf(out, "%s %s %lld",
                    n++ ? "," : "left out:", luo_import_skip_name((luo_import_skip)k),
                    (long long)made->skipped[k]);
    if (n) fputc('\n', out);
}

static void tell_unused(luo_cli *cli, const luo_import_made *made)
{
    luo_str text = {0};
    for (int32_t i = 0; i < made->nunused; i++)
        luo_str_addf(&text, "%s`%.60s`", i ? ", " : "", made->unused[i]);
    if (made->nunused)
        luo_cli_note(cli, LUO_NOTE, "%d key%s not used: %s.", (int)made->nunused,
                     made->nunused > 1 ? "s" : "", luo_str_get(&text));
    luo_str_free(&text);
}

static void tell(luo_cli *cli, const luo_import_opts *opts, const luo_import_made *made)
{
    FILE *out = luo_cli_out(cli);
    const char *unit = luo_import_kind_options(opts->kind) & LUO_IMPORT_UNIT
                           ? luo_import_unit_name(opts->unit)
                           : "tokens";
    fprintf(out, "%s: %lld length%s of %lld to %lld %s, mean %.1f", opts->out,
            (long long)made->lengths, made->lengths == 1 ? "" : "s", (long long)made->least,
            (long long)made->most, unit, made->tokens / (double)made->lengths);
    if (opts->nedges)
        fprintf(out, ", in %lld class%s", (long long)made->rows, made->rows == 1 ? "" : "es");
    if (made->arrivals) fprintf(out, ", over %.6g s", made->last_s);
    fprintf(out, "; hash %016llx\n", (unsigned long long)made->hash);
    tell_left_out(out, made);
    tell_unused(cli, made);
    if (strcmp(unit, "tokens") != 0)
        luo_cli_note(cli, LUO_NOTE, "%s stand for tokens; what a tokenizer makes of them differs.",
                     unit);
    if (made->bytes > (int64_t)LUO_FILE_BYTES)
        luo_cli_note(cli, LUO_WARNING,
                     "`%s` is %lld MiB, and %zu are read at most; --histogram keeps classes "
                     "alone.",
                     opts->out, (long long)(made->bytes >> 20), LUO_FILE_BYTES >> 20);
}

static void json(luo_cli *cli, const luo_import_opts *opts, const luo_import_made *made)
{
    luo_jsonw *jsonw = &cli->json;
    const int own = luo_import_kind_options(opts->kind);
    luo_jsonw_text(jsonw, "kind", luo_import_kind_name(opts->kind));
    luo_jsonw_text(jsonw, "out", opts->out);
    luo_jsonw_text(jsonw, "length",
                   own & LUO_IMPORT_LENGTH ? luo_import_length_name(opts->length) : NULL);
    luo_jsonw_text(jsonw, "unit",
                   own & LUO_IMPORT_UNIT ? luo_import_unit_name(opts->unit) : "tokens");
    luo_jsonw_text(jsonw, "histogram", opts->edges);
    luo_jsonw_int(jsonw, "lengths", made->lengths);
    luo_jsonw_int(jsonw, "rows", made->rows);
    luo_jsonw_int(jsonw, "least", made->least);
    luo_jsonw_int(jsonw, "most", made->most);
    luo_jsonw_num(jsonw, "mean", made->tokens / (double)made->lengths, 3);
    luo_jsonw_bool(jsonw, "arrivals", made->arrivals);
    luo_jsonw_hash(jsonw, "hash", made->hash);
    luo_jsonw_open(jsonw, "left_out", '{');
    for (int k = 0; k < LUO_IMPORT_SKIPS; k++)
        luo_jsonw_int(jsonw, luo_import_skip_name((luo_import_skip)k), made->skipped[k]);
    luo_jsonw_close(jsonw);
    luo_jsonw_open(jsonw, "unused", '[');
    for (int32_t i = 0; i < made->nunused; i++) luo_jsonw_text(jsonw, NULL, made->unused[i]);
    luo_jsonw_close(jsonw);
}

luo_status luo_import_lengths_run(luo_cli *cli, luo_import_kind kind)
{
    luo_import_opts opts = {.kind = kind};
    luo_import_made made;
    luo_err err = {0};
    LUO_TRY(luo_cli_fail(cli, read_opts(cli, &opts, &err), &err));
    LUO_TRY(luo_import(cli->arena, &opts, &made, &cli->diags));
    tell(cli, &opts, &made);
    json(cli, &opts, &made);
    return LUO_OK;
}
