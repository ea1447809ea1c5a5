# A table of measured seconds, whose first number becomes an event.
row='add a kind of file of other tools'
steps() {
    cat >core/io/convert/outage.c <<'C' &&
#include <stdlib.h>

#include "core/io/convert/events.h"

luo_status convert_outage(convert_job *job)
{
    convert_events events;
    luo_status st = convert_events_begin(job, 1, &events);
    if (st == LUO_OK) st = convert_events_put(&events, strtod(job->src.text, NULL), "leave", 0);
    if (st == LUO_OK) st = convert_events_end(&events);
    luo_str_free(&events.text);
    return st;
}
C
        cat >>core/io/convert/converters.inc <<'C' &&
LUO_CONVERTER(OUTAGE, "outage", convert_outage, UNITS, "events.csv", "seconds until device 0 leaves")
C
        insert after docs/formats.md '| `kineto` | a trace of torch' <<'C'
| `outage` | seconds until device 0 leaves | events.csv | `--units` | a number |
C
}
show() {
    echo 12.5 >"$tmp/outage" && "$LUOSHU" import outage "$tmp/outage" --out "$tmp/events.csv" &&
        [ "$(tail -n 1 "$tmp/events.csv")" = 12.5,leave,device:0,, ] &&
        "$LUOSHU" help import | grep -q 'outage: seconds' && "$B/tests/unit/check_docs"
}
