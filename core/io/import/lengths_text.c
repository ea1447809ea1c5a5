/* lengths_text.c: texts, a document a file, counted in bytes or in words between blanks. */
#include <string.h>

#include "core/io/import/import_internal.h"

enum { CHUNK = 1 << 16 };

/* ASCII's blanks: what isspace takes in the C locale. */
static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int64_t words_of(const unsigned char *text, size_t n, bool *within)
{
    int64_t words = 0;
    for (size_t i = 0; i < n; i++) {
        const bool blank = is_blank(text[i]);
        words += !blank && !*within;
        *within = !blank;
    }
    return words;
}

static luo_status one_text(import_job *job, const char *path, int fd)
{
    unsigned char text[CHUNK];
    int64_t length = 0;
    bool within = false;
    size_t n;
    do {
        LUO_TRY(import_read(job, path, fd, text, sizeof text, &n));
        if (memchr(text, 0, n)) {
            job->made.skipped[LUO_IMPORT_BINARY]++;
            return LUO_OK;
        }
        length += job->opts->unit == LUO_IMPORT_WORDS ? words_of(text, n, &within) : (int64_t)n;
    } while (n == sizeof text);
    return import_put(job, length, IMPORT_NO_ARRIVAL, path, 0, 0);
}

luo_status import_text(import_job *job)
{
    return import_each_file(job, one_text);
}
