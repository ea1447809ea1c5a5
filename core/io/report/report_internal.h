/* report_internal.h: what the files of the report share; not for others. */
#ifndef LUO_CORE_IO_REPORT_REPORT_INTERNAL_H
#define LUO_CORE_IO_REPORT_REPORT_INTERNAL_H
#include "core/io/report/report.h"
#include "core/io/result/result.h"

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
