/* perfetto.c: a trace in the form that Perfetto opens, by the writer of the results. */
#include "core/io/export/export_internal.h"
#include "core/io/trace/trace_table.h"

luo_status export_perfetto(export_job *job)
{
    const luo_trace_run *run = job->source->run;
    luo_str text = {0}, left_out = {0};
    luo_status st = luo_trace_print(run->trace, &run->head, &text, job->err);
    if (st != LUO_OK) {
        luo_str_free(&text);
        return st;
    }
    if (luo_trace_warning(run->trace, &left_out))
        st = export_note(job, "%s", luo_str_get(&left_out));
    luo_str_free(&left_out);
    const luo_status put = export_put(job, NULL, &text);
    return st == LUO_OK ? put : st;
}
