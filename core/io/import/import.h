/* import.h: files of others into tables of ours (docs/formats.md#imported-files).
 *
 * A kind of source is one row of importers.inc. What is written is a table of lengths, one by one
 * or in classes, which appears whole or not (core/io/replace.h). Of a source its keys and columns
 * are used, harmless (listed once) or refused, because they would change numbers. */
#ifndef LUO_CORE_IO_IMPORT_IMPORT_H
#define LUO_CORE_IO_IMPORT_IMPORT_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/words.h"

typedef enum luo_import_kind {
#define LUO_IMPORTER(kind, word, function, options, source) LUO_IMPORT_##kind,
#include "core/io/import/importers.inc"
#undef LUO_IMPORTER
    LUO_IMPORT_KINDS
} luo_import_kind;

/* Options that belong to some kinds alone. */
typedef enum luo_import_option { LUO_IMPORT_LENGTH = 1, LUO_IMPORT_UNIT = 2 } luo_import_option;

/* Which tokens of a request count. */
#define LUO_IMPORT_LENGTH_LIST(X)                                                                  \
    X(LUO_IMPORT_CONTEXT, "context")                                                               \
    X(LUO_IMPORT_GENERATED, "generated")                                                           \
    X(LUO_IMPORT_TOTAL, "total")
typedef enum luo_import_length {
    LUO_IMPORT_LENGTH_LIST(LUO_WORD_VALUE) LUO_IMPORT_LENGTHS
} luo_import_length;

/* What stands for the tokens of a text. */
#define LUO_IMPORT_UNIT_LIST(X) X(LUO_IMPORT_BYTES, "bytes") X(LUO_IMPORT_WORDS, "words")
typedef enum luo_import_unit {
    LUO_IMPORT_UNIT_LIST(LUO_WORD_VALUE) LUO_IMPORT_UNITS
} luo_import_unit;

/* What is left out and counted: without a token, with a 0 byte, symbolic links, neither a file nor
 * a folder. */
#define LUO_IMPORT_SKIP_LIST(X)                                                                    \
    X(LUO_IMPORT_EMPTY, "empty")                                                                   \
    X(LUO_IMPORT_BINARY, "binary")                                                                 \
    X(LUO_IMPORT_LINKS, "links")                                                                   \
    X(LUO_IMPORT_SPECIAL, "special")
typedef enum luo_import_skip {
    LUO_IMPORT_SKIP_LIST(LUO_WORD_VALUE) LUO_IMPORT_SKIPS
} luo_import_skip;

/* Name of the command line; a phrase on the source; options that are its own, as bits.
 * Pre: 0 <= kind < LUO_IMPORT_KINDS, and so on. */
const char *luo_import_kind_name(luo_import_kind kind);
const char *luo_import_kind_source(luo_import_kind kind);
int luo_import_kind_options(luo_import_kind kind);
const char *luo_import_length_name(luo_import_length length);
const char *luo_import_unit_name(luo_import_unit unit);
const char *luo_import_skip_name(luo_import_skip skip);

enum { LUO_IMPORT_EDGES = 1024 };
typedef struct luo_import_opts {
    luo_import_kind kind;
    const char *source; /* a path */
    const char *out;    /* path of the table; a regular file there is replaced */
    luo_import_length length;
    luo_import_unit unit;
    int32_t nedges;      /* classes from edge[i] to before edge[i + 1]; 0: lengths one by one */
    const int64_t *edge; /* nedges of them, 0 or more, ascending */
    const char *edges;   /* as they are said on the command line, for the table's first line */
} luo_import_opts;

/* 1, 2, 4 .. 2^53 into edge[0..54); returns 54. */
int32_t luo_import_powers(int64_t *edge);
/* "1,512,4096" into edge[0..LUO_IMPORT_EDGES). Errors: LUO_EUSAGE, in a sentence on `--histogram`:
 * not 2 to LUO_IMPORT_EDGES whole numbers from 0 to 2^53 that ascend. */
luo_status luo_import_edges_parse(const char *text, int64_t *edge, int32_t *n, luo_err *err);

typedef struct luo_import_made {
    int64_t lengths, rows; /* that were read, and rows of the table without its header */
    int64_t bytes;         /* of the table */
    int64_t least, most;   /* tokens */
    double tokens;         /* of all lengths; exact up to 2^53 */
    bool arrivals;         /* the table has `arrival_s` */
    double last_s;         /* the latest arrival after the first row */
    uint64_t hash;         /* of the table's bytes */
    int64_t skipped[LUO_IMPORT_SKIPS];
    int32_t nunused; /* keys or columns that have no use */
    const char *const *unused;
} luo_import_made;

/* Reads opts->source and writes opts->out; *made is set when it is there.
 * Units:  tokens, or what stands for them (opts->unit).
 * Errors: LUO_EINPUT, LUO_EPARSE the source, with file, line and column; no length in it; LUO_E2BIG
 *         a line of JSON above 1 MiB, folders in folders beyond 200, a length above 2^53;
 *         LUO_EUSAGE the output is (in) the source; LUO_EIO; LUO_ENOMEM. All in diags, up to 20 a
 *         file; what stood at opts->out is then untouched.
 * Owner:  made->unused belongs to arena.
 * Cost:   one pass; memory does not depend on the length of the source but for the names of one
 *         folder at each level. */
luo_status luo_import(luo_arena *arena, const luo_import_opts *opts, luo_import_made *made,
                      luo_diags *diags);
/* "2023-11-16 18:15:46.6805900", also with T between, and with Z or an offset behind: ns since
 * 1970. False: another form, no such date, or not from 1970 to 2261. */
bool luo_import_time(const char *text, int64_t *ns);
#endif
