/* verb_export.c: `luoshu export KIND FILE`. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/folder.h"
#include "cli/load.h"
#include "cli/options/ways.h"
#include "core/base/hash.h"
#include "core/base/words.h"
#include "core/io/export/export.h"
#include "core/io/trace/trace_table.h"

typedef struct output {
    luo_cli *cli;
    const char *path; /* NULL: to stdout */
    bool folder;
    int32_t files;
    int64_t bytes;
    uint64_t hash; /* of all files, one behind the other */
} output;

/* ---- options ---- */

static luo_status read_kind(const char *word, luo_export_kind *out, luo_err *err)
{
    const char *names[LUO_EXPORT_KINDS];
    luo_str text = {0};
    for (int k = 0; k < LUO_EXPORT_KINDS; k++) {
        names[k] = luo_export_kind_name((luo_export_kind)k);
        *out = (luo_export_kind)k;
        if (strcmp(names[k], word) == 0) return LUO_OK;
    }
    luo_words_expected(&text, word, names, LUO_EXPORT_KINDS);
    luo_err_set(err, LUO_EUSAGE, "unknown kind `%.60s`; %s", word, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

/* Options that a kind would not look at, and those that it can't do without. */
static luo_status check_options(const luo_args *args, luo_export_kind kind, luo_err *err)
{
    luo_way_option rows[] = {{"model", 0, 0}, {"cluster", 0, 0}, {"stack", 0, 0}, {"dtype", 0, 0}};
    static const unsigned uses[] = {LUO_EXPORT_MODEL, LUO_EXPORT_CLUSTER, LUO_EXPORT_STACK};
    char text[64];
    for (int k = 0; k < LUO_EXPORT_KINDS; k++) {
        const luo_export_kind one = (luo_export_kind)k;
        for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
            if (luo_export_kind_takes(one) & uses[i]) rows[i].taken |= 1U << k;
            if (luo_export_kind_needs(one) & uses[i]) rows[i].needed |= 1U << k;
        }
        if (luo_export_kind_of(one) == LUO_EXPORT_OF_PLAN) rows[3].taken |= 1U << k;
    }
    snprintf(text, sizeof text, "`luoshu export %s`", luo_export_kind_name(kind));
    LUO_TRY(luo_way_check(args, rows, (int)(sizeof rows / sizeof *rows), (int)kind, text, err));
    if (!luo_args_has(args, "stack") || luo_args_has(args, "cluster")) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--stack` says how long instructions take on a cluster; name it by "
                       "--cluster, too.");
}

/* ---- files ---- */

static luo_status read_plan(luo_cli *cli, luo_export_source *source, const luo_doc **doc)
{
    luo_model *model = NULL;
    luo_cluster *cluster = NULL;
    luo_plan *plan;
    source->plan_file = cli->args.files[1];
    source->model_file = luo_args_get(&cli->args, "model", NULL);
    source->cluster_file = luo_args_get(&cli->args, "cluster", NULL);
    if (source->model_file) LUO_TRY(luo_cli_model(cli, &model));
    if (source->cluster_file) LUO_TRY(luo_cli_cluster(cli, &cluster));
    LUO_TRY(luo_cli_plan(cli, source->plan_file, model, cluster, &plan, doc));
    source->plan = plan;
    source->model = model;
    source->cluster = cluster;
    return LUO_OK;
}

static luo_status read_cluster(luo_cli *cli, luo_export_source *source)
{
    luo_cluster *cluster;
    source->cluster_file = cli->args.files[1];
    LUO_TRY(luo_read_cluster(cli->arena, source->cluster_file, &cluster, &cli->diags));
    source->cluster = cluster;
    return LUO_OK;
}

static luo_status read_run(luo_cli *cli, luo_export_source *source, luo_trace_run *run)
{
    LUO_TRY(luo_trace_read(cli->arena, cli->args.files[1], run, &cli->diags));
    run->head.version = LUO_VERSION;
    source->run = run;
    return LUO_OK;
}

static luo_status read_source(luo_cli *cli, luo_export_kind kind, luo_export_source *source,
                              luo_trace_run *run, const luo_doc **doc)
{
    switch (luo_export_kind_of(kind)) {
    case LUO_EXPORT_OF_CLUSTER:
        return read_cluster(cli, source);
    case LUO_EXPORT_OF_RUN:
        return read_run(cli, source, run);
    case LUO_EXPORT_OF_PLAN:
        break;
    }
    return read_plan(cli, source, doc);
}

static luo_status put(void *ctx, const char *name, const luo_str *text, luo_err *err)
{
    output *out = ctx;
    const char *bytes = luo_str_get(text);
    out->files++;
    out->bytes += (int64_t)text->len;
    out->hash = luo_hash_bytes(out->hash, bytes, text->len);
    if (!out->path) {
        fwrite(bytes, 1, text->len, luo_cli_out(out->cli));
        return LUO_OK;
    }
    if (!name) return luo_file_write_atomic(out->path, bytes, text->len, err);
    const char *path = luo_arena_printf(out->cli->arena, "%s/%s", out->path, name);
    return path ? luo_file_write_own(path, bytes, text->len, err) : luo_err_nomem(err);
}

static luo_status drop(void *ctx, const char *name, bool *was_there, luo_err *err)
{
    const output *out = ctx;
    const char *path = luo_arena_printf(out->cli->arena, "%s/%s", out->path, name);
    if (!path) return luo_err_nomem(err);
    *was_there = unlink(path) == 0;
    if (*was_there || errno == ENOENT) return LUO_OK;
    return luo_err_set(err, LUO_EIO, "cannot remove `%s`: %s.", path, strerror(errno));
}

static luo_status open_output(luo_cli *cli, luo_export_kind kind, output *out, luo_err *err)
{
    struct stat old;
    *out = (output){.cli = cli,
                    .path = luo_args_get(&cli->args, "out", NULL),
                    .folder = luo_export_kind_needs(kind) & LUO_EXPORT_FOLDER,
                    .hash = LUO_HASH_EMPTY};
    if (out->folder && !out->path) out->path = luo_export_kind_name(kind);
    if (out->folder || !out->path || luo_args_has(&cli->args, "force") ||
        stat(out->path, &old) != 0 || !S_ISREG(old.st_mode))
        return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE, "`%s` exists; give another --out, or --force.", out->path);
}

/* ---- the verb ---- */

static void tell(luo_cli *cli, luo_export_kind kind, const output *out, const luo_export_made *made)
{
    if (out->folder)
        fprintf(luo_cli_out(cli), "%s: %d files, %lld bytes; hash %016llx\n", out->path,
                (int)out->files, (long long)out->bytes, (unsigned long long)out->hash);
    else if (out->path)
        fprintf(luo_cli_out(cli), "%s: %lld bytes; hash %016llx\n", out->path,
                (long long)out->bytes, (unsigned long long)out->hash);
    if (made->note) luo_cli_note(cli, LUO_NOTE, "%s", made->note);
    luo_jsonw_text(&cli->json, "kind", luo_export_kind_name(kind));
    luo_jsonw_text(&cli->json, "out", out->path);
    luo_jsonw_int(&cli->json, "files", out->files);
    luo_jsonw_int(&cli->json, "bytes", out->bytes);
    luo_jsonw_hash(&cli->json, "hash", out->hash);
    luo_jsonw_text(&cli->json, "note", made->note);
}

static luo_status write_all(luo_cli *cli, luo_export_kind kind, const luo_export_source *source,
                            output *out, luo_export_made *made, luo_err *err)
{
    const luo_export_sink sink = {put, drop, out};
    luo_set set = {0};
    if (!out->folder) return luo_export(cli->arena, kind, source, &sink, made, err);
    LUO_TRY(luo_folder_take(cli, out->path, true, 0, NULL, &set, err));
    const luo_status st = luo_export(cli->arena, kind, source, &sink, made, err);
    const luo_folder_end end = st == LUO_OK ? LUO_FOLDER_WHOLE : LUO_FOLDER_NONE;
    const luo_status closed = luo_folder_give(cli, &set, end, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

/* A refusal of a part of the plan has its place there. */
static luo_status report(luo_cli *cli, const luo_doc *doc, luo_status st, const luo_err *err)
{
    if (st == LUO_OK || !err->text[0]) return st;
    if (doc && (err->pointer[0] || st == LUO_EUNREP) && !err->path[0])
        return luo_doc_report_err(doc, err, &cli->diags);
    return luo_cli_fail(cli, st, err);
}

luo_status luo_verb_export_run(luo_cli *cli)
{
    luo_export_source source = {0};
    luo_trace_run run = {0};
    luo_export_made made;
    luo_export_kind kind;
    luo_stack stack;
    const luo_doc *doc = NULL;
    luo_err err = {0};
    output out;
    LUO_TRY(luo_cli_files(cli, 2, 2, "a kind and a plan, a cluster or a run are"));
    LUO_TRY(luo_cli_fail(cli, read_kind(cli->args.files[0], &kind, &err), &err));
    LUO_TRY(luo_cli_fail(cli, check_options(&cli->args, kind, &err), &err));
    LUO_TRY(luo_cli_fail(cli, open_output(cli, kind, &out, &err), &err));
    LUO_TRY(luo_cli_stack(cli, &stack));
    source.stack = &stack;
    LUO_TRY(read_source(cli, kind, &source, &run, &doc));
    luo_cli_flush(cli); /* notes on the files stand before the text */
    const luo_status st = write_all(cli, kind, &source, &out, &made, &err);
    luo_trace_free(run.trace);
    LUO_TRY(report(cli, doc, st, &err));
    tell(cli, kind, &out, &made);
    return LUO_OK;
}
