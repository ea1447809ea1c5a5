/* layout.c: --pipeline-model-parallel-layout of Megatron-LM: "E|t*5|t*6|t,m,L". */
#include <ctype.h>
#include <string.h>

#include "core/io/convert/training.h"

enum { LAYERS_MAX = 1 << 16 };

typedef struct layout_reader {
    convert_job *job;
    convert_place at;
    bool drop_mtp;
    luo_str plain; /* letters and bars alone */
} layout_reader;

static luo_status wrong(const layout_reader *reader, const char *what)
{
    return convert_error(reader->job, reader->at.line, reader->at.col,
                         "the layout of the pipeline has %s; stages of E, t, m and L with | "
                         "between, such as `E|t*5|t*6|tL`, are expected.",
                         what);
}

/* A number behind `*`; 1 where there is none. */
static luo_status read_times(const layout_reader *reader, const char **at, int64_t *times)
{
    *times = 1;
    if (**at != '*') return LUO_OK;
    ++*at;
    if (!isdigit((unsigned char)**at)) return wrong(reader, "a `*` without a number");
    for (*times = 0; isdigit((unsigned char)**at); ++*at)
        if (*times < LAYERS_MAX) *times = *times * 10 + (**at - '0');
    return LUO_OK;
}

static luo_status repeat(layout_reader *reader, const char *from, size_t n, int64_t times)
{
    if ((int64_t)n * times + (int64_t)reader->plain.len > LAYERS_MAX)
        return wrong(reader, "more than 65536 layers");
    for (int64_t i = 0; i < times; i++) luo_str_addn(&reader->plain, from, n);
    return LUO_OK;
}

/* Letters and bars with `x*n` written out, up to a bracket or the end. */
static luo_status expand_letters(layout_reader *reader, const char **at)
{
    int64_t times;
    while (**at && **at != '(' && **at != ')') {
        const char *letter = (*at)++;
        if (*letter == ',' || isspace((unsigned char)*letter)) continue;
        if (!strchr("EtmL|", *letter)) return wrong(reader, "an unknown letter");
        LUO_TRY(read_times(reader, at, &times));
        LUO_TRY(repeat(reader, letter, 1, times));
    }
    return LUO_OK;
}

static luo_status expand(layout_reader *reader, const char *text)
{
    for (const char *at = text; *at;) {
        int64_t times;
        LUO_TRY(expand_letters(reader, &at));
        if (!*at) break;
        if (*at++ == ')') return wrong(reader, "a `)` without its `(`");
        const size_t from = reader->plain.len;
        LUO_TRY(expand_letters(reader, &at));
        if (*at == '(') return wrong(reader, "brackets in brackets");
        if (!*at++) return wrong(reader, "a `(` without its `)`");
        LUO_TRY(read_times(reader, &at, &times));
        luo_str part = {0};
        luo_str_addn(&part, luo_str_get(&reader->plain) + from, reader->plain.len - from);
        const luo_status st = times ? repeat(reader, luo_str_get(&part), part.len, times - 1)
                                    : wrong(reader, "a part that stands 0 times");
        luo_str_free(&part);
        LUO_TRY(st);
    }
    return reader->plain.failed ? convert_nomem(reader->job) : LUO_OK;
}

static luo_status count(layout_reader *reader, convert_layout *out)
{
    int64_t embeddings = 0, heads = 0, mtp = 0, layers = 0, at = 0;
    const char *text = luo_str_get(&reader->plain);
    out->chunk[0].lo = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '|') {
            out->chunk[at].hi = (int32_t)layers;
            out->chunk[++at].lo = (int32_t)layers;
        }
        embeddings += *p == 'E';
        heads += *p == 'L';
        mtp += *p == 'm';
        layers += *p == 't';
    }
    out->chunk[at].hi = (int32_t)layers;
    out->layers = layers;
    if (embeddings != 1 || heads != 1 || text[0] != 'E' || text[reader->plain.len - 1] != 'L')
        return wrong(reader, embeddings > 1 && !heads ? "the embedding twice and no head"
                             : embeddings != 1        ? "not one embedding E"
                             : heads != 1             ? "not one head L"
                                                      : "its E not first or its L not last");
    if (mtp && !reader->drop_mtp)
        return wrong(reader, "layers m, of prediction of several tokens, which no model has here "
                             "(--approximate leaves them out)");
    if (mtp)
        convert_note(reader->job, LUO_WARNING,
                     "%lld layer%s of prediction of several tokens %s left out (--approximate).",
                     (long long)mtp, mtp > 1 ? "s" : "", mtp > 1 ? "are" : "is");
    return LUO_OK;
}

static luo_status cut(layout_reader *reader, int32_t stages, convert_layout *out)
{
    int32_t chunks = 1;
    for (const char *p = luo_str_get(&reader->plain); *p; p++) chunks += *p == '|';
    if (chunks % stages)
        return convert_error(reader->job, reader->at.line, reader->at.col,
                             "the layout has %d chunks on %d stages; a multiple of the stages is "
                             "expected.",
                             chunks, stages);
    *out = (convert_layout){.nchunks = chunks / stages, .stages = stages};
    out->chunk = LUO_NEW_N(reader->job->arena, luo_range, chunks);
    return out->chunk ? count(reader, out) : convert_nomem(reader->job);
}

luo_status convert_layout_read(convert_job *job, const char *text, convert_place at, int32_t stages,
                               bool drop_mtp, convert_layout *out)
{
    layout_reader reader = {.job = job, .at = at, .drop_mtp = drop_mtp};
    luo_status st = expand(&reader, text);
    if (st == LUO_OK && reader.plain.len == 0) st = wrong(&reader, "nothing in it");
    if (st == LUO_OK) st = cut(&reader, stages, out);
    luo_str_free(&reader.plain);
    return st;
}
