/* data_file.c: a mapped text or token file as a ring of tokens. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/document/input.h"
#include "core/io/tokens.h"
#include "exec/data/data_internal.h"

static luo_status unreadable(luo_err *err, const char *path)
{
    return luo_input_unreadable(path, err);
}

/* ---- entries ---- */

static uint32_t entry_of(const luo_corpus *corpus, int64_t i)
{
    return luo_tokens_entry(corpus->file + i * corpus->width, corpus->width);
}

static uint32_t end_mark(const luo_corpus *corpus)
{
    return luo_tokens_end(corpus->width);
}

/* One pass: every token is below the vocabulary; tokens before each block are noted. */
static luo_status scan_tokens(luo_corpus *corpus, const char *path, luo_err *err)
{
    const uint32_t mark = end_mark(corpus);
    int64_t *before = NULL;
    corpus->nbefore = corpus->entries / LUO_CORPUS_BLOCK + 1;
    corpus->before = before = LUO_NEW_N(corpus->arena, int64_t, corpus->nbefore);
    if (!before) return luo_err_nomem(err);
    for (int64_t i = 0; i < corpus->entries; i++) {
        const uint32_t v = entry_of(corpus, i);
        if (i % LUO_CORPUS_BLOCK == 0) before[i / LUO_CORPUS_BLOCK] = corpus->tokens;
        if (v == mark) continue;
        if (v >= corpus->vocab)
            return luo_err_set(err, LUO_EINPUT,
                               "token %lld of `%s` is %u; it must be below the vocabulary of "
                               "%lld.",
                               (long long)i, path, v, (long long)corpus->vocab);
        corpus->tokens++;
    }
    if (corpus->entries % LUO_CORPUS_BLOCK == 0) before[corpus->nbefore - 1] = corpus->tokens;
    return LUO_OK;
}

static luo_status check_text(luo_corpus *corpus, const char *path, luo_err *err)
{
    corpus->tokens = corpus->entries;
    if (corpus->vocab >= 256) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "`%s` is a text, whose bytes need a vocabulary of 256; the model has %lld.",
                       path, (long long)corpus->vocab);
}

/* ---- mapping ---- */

static luo_status map_file(luo_corpus *corpus, int fd, const char *path, luo_err *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return unreadable(err, path);
    if (info.st_size == 0)
        return luo_err_set(err, LUO_EINPUT, "`%s` is empty; at least one token is expected.", path);
    void *at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return errno == ENOMEM ? luo_err_nomem(err) : unreadable(err, path);
    corpus->file = at;
    corpus->bytes = (size_t)info.st_size;
    return LUO_OK;
}

luo_status luo_corpus_map(luo_corpus *corpus, const char *path, luo_err *err)
{
    int fd;
    LUO_TRY(luo_tokens_check_name(path, err));
    LUO_TRY(luo_input_open(path, LUO_INPUT_FILE, "a text or token file", &fd, err));
    const luo_status st = map_file(corpus, fd, path, err);
    close(fd);
    if (st != LUO_OK) return st;
    corpus->width = luo_tokens_width(path);
    corpus->kind = corpus->width == 1 ? LUO_CORPUS_TEXT : LUO_CORPUS_TOKENS;
    LUO_TRY(luo_tokens_check_size(path, (int64_t)corpus->bytes, err));
    corpus->entries = (int64_t)(corpus->bytes / (size_t)corpus->width);
    LUO_TRY(corpus->width == 1 ? check_text(corpus, path, err) : scan_tokens(corpus, path, err));
    if (corpus->tokens) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "`%s` holds ends of documents only; at least one token is expected.", path);
}

void luo_corpus_unmap(luo_corpus *corpus)
{
    if (corpus->file) munmap((void *)corpus->file, corpus->bytes);
    corpus->file = NULL;
}

/* ---- reading on ---- */

/* Length of the line end at i; 0: none. */
static int64_t line_end(const luo_corpus *corpus, int64_t i)
{
    if (corpus->file[i] == '\n') return 1;
    return corpus->file[i] == '\r' && i + 1 < corpus->entries && corpus->file[i + 1] == '\n' ? 2
                                                                                             : 0;
}

/* A line that holds something, behind one that holds nothing. */
static bool text_begins(const luo_corpus *corpus, int64_t i)
{
    const unsigned char *t = corpus->file;
    if (i == 0) return true;
    if (t[i - 1] != '\n' || line_end(corpus, i)) return false;
    const int64_t end = i >= 2 && t[i - 2] == '\r' ? i - 2 : i - 1; /* of the line before */
    return end == 0 || t[end - 1] == '\n';
}

static int32_t text_next(luo_corpus_at *corpus_at, bool *begins)
{
    const int64_t i = corpus_at->at;
    *begins = text_begins(corpus_at->c, i);
    corpus_at->at = i + 1 < corpus_at->c->tokens ? i + 1 : 0;
    return corpus_at->c->file[i];
}

static int32_t tokens_next(luo_corpus_at *corpus_at, bool *begins)
{
    const luo_corpus *corpus = corpus_at->c;
    *begins = corpus_at->entry == 0 || entry_of(corpus, corpus_at->entry - 1) == end_mark(corpus);
    uint32_t v;
    while ((v = entry_of(corpus, corpus_at->entry)) == end_mark(corpus)) {
        corpus_at->entry++;
        *begins = true;
    }
    corpus_at->entry++;
    corpus_at->at++;
    if (corpus_at->at == corpus->tokens) corpus_at->at = corpus_at->entry = 0;
    return (int32_t)v;
}

/* The last block with at most `at` tokens before it, then on entry by entry. */
static void tokens_seek(luo_corpus_at *corpus_at)
{
    const luo_corpus *corpus = corpus_at->c;
    int64_t lo = 0, hi = corpus->nbefore - 1;
    while (lo < hi) {
        const int64_t mid = (lo + hi + 1) / 2;
        if (corpus->before[mid] <= corpus_at->at)
            lo = mid;
        else
            hi = mid - 1;
    }
    corpus_at->entry = lo * LUO_CORPUS_BLOCK;
    for (int64_t left = corpus_at->at - corpus->before[lo]; left > 0; corpus_at->entry++)
        left -= entry_of(corpus, corpus_at->entry) != end_mark(corpus);
}

void luo_corpus_seek(luo_corpus_at *corpus_at, const luo_corpus *corpus, int64_t at)
{
    corpus_at->c = corpus;
    corpus_at->at = at;
    corpus_at->entry = at;
    if (corpus->kind == LUO_CORPUS_TOKENS) tokens_seek(corpus_at);
    if (corpus->kind == LUO_CORPUS_SYNTHETIC) luo_synthetic_seek(corpus_at);
}

int32_t luo_corpus_next(luo_corpus_at *corpus_at, bool *begins)
{
    switch (corpus_at->c->kind) {
    case LUO_CORPUS_TEXT:
        return text_next(corpus_at, begins);
    case LUO_CORPUS_TOKENS:
        return tokens_next(corpus_at, begins);
    case LUO_CORPUS_SYNTHETIC:
        break;
    }
    return luo_synthetic_next(corpus_at, begins);
}
