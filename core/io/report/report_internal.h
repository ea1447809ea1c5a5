/* report_internal.h: what the files of the report share; not for others. */
#ifndef LUO_CORE_IO_REPORT_REPORT_INTERNAL_H
#define LUO_CORE_IO_REPORT_REPORT_INTERNAL_H
#include "core/io/document/doc.h"
#include "core/io/report/report.h"
#include "core/io/result/result.h"

typedef struct report_page {
    luo_arena *arena;
    const luo_report_opts *opts;
    luo_str html; /* what is written so far; `failed`: out of memory */
    luo_diags *diags;
    luo_err err;      /* what is not in diags yet */
    luo_result *runs; /* of the page of runs, as is the rest */
    int32_t nruns;
    luo_str notes;
} report_page;

/* report_runs.c, report_sweep.c, report_replay.c: all of the page but what stands behind it. Pre:
 * of the last two, opts->npaths is 1. Errors, in page->err or diags: of reading the files of the
 * folder; LUO_EINPUT a file that luoshu has not written so; LUO_ENOMEM. */
luo_status luo_report_runs(report_page *page);
luo_status luo_report_sweep(report_page *page);
luo_status luo_report_replay(report_page *page);

/* report_page.c: HTML as it is. */
void luo_report_put(report_page *page, const char *html);
/* <TAG>text</TAG>; tag may have attributes. */
void luo_report_put_element(report_page *page, const char *tag, const char *text);
/* Up to what the page is about. question, answer: "": none. */
void luo_report_begin(report_page *page, const char *title, const char *heading,
                      const char *question, const char *answer);
void luo_report_end(report_page *page);
/* Paths of the .svg in DIR/plots, sorted, 64 at most. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_report_list_figures(report_page *page, const char *dir, const char ***out,
                                   int32_t *n);
/* One of them; of: the run it is of, or "". Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_report_put_figure(report_page *page, const char *path, const char *of);
/* The section of all of a folder. Errors: as above. */
luo_status luo_report_put_figures(report_page *page, const char *dir);
/* A row of two: what something is, and its text. */
void luo_report_put_row(report_page *page, const char *key, const char *text);

typedef struct report_column {
    const char *title, *unit, *meaning; /* unit: HTML; "": none */
    bool word;                          /* sorted by letters */
} report_column;

/* The head of a table, and cells of its rows; a number that is not finite is a dash. */
void luo_report_put_titles(report_page *page, const report_column *columns, int32_t n);
void luo_report_put_cell(report_page *page, bool word, const char *text);
void luo_report_put_number(report_page *page, double value, int decimals);

/* A JSON document in a folder; NULL: there is none, or none that can be read. */
const luo_doc_node *luo_report_read(report_page *page, const char *dir, const char *name);
/* Text of a scalar, harmless to a terminal; "": there is none. */
const char *luo_report_text(report_page *page, const luo_doc_node *node);
/* A number of a map; NAN: none. */
double luo_report_real(const luo_doc_node *map, const char *key);

/* report_text.c: text as the content of an element or of an attribute in double quotes. */
void luo_report_escape(luo_str *page, const char *text);
/* Base64 without line breaks. */
void luo_report_base64(luo_str *page, const char *bytes, size_t n);
/* gzip of n bytes. Errors: LUO_ENOMEM. */
luo_status luo_report_pack(luo_str *packed, const char *bytes, size_t n, luo_err *err);

/* report_data.c: the JSON document that the script of the page reads: throughput, events and
 * busiest links of every run over time, and its traced steps slice by slice. Errors: in diags. */
luo_status luo_report_data(luo_arena *arena, const luo_result *runs, int32_t n, luo_str *json,
                           luo_diags *diags);
/* report_timeline.c: the key `timeline` of one run, with at most `most` slices; null: no step was
 * traced. Slices are rows of nine numbers: row, stream, op, kind, phase, micro-batch (-1: none),
 * nanoseconds from the begin of the step, nanoseconds long, bytes. */
luo_status luo_report_timeline(luo_arena *arena, const luo_result *run, int64_t most,
                               luo_jsonw *json, luo_diags *diags);
#endif
