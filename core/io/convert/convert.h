/* convert.h: files of other tools into plans, models, clusters and tables of ours
 * (docs/formats.md#files-of-other-tools).
 *
 * A kind of source is one row of converters.inc. What is made is whole in memory and is read again
 * as any file of ours before it is given. Keys of a source are used, harmless (one note lists
 * them) or refused, because they would change cost or numbers. */
#ifndef LUO_CORE_IO_CONVERT_CONVERT_H
#define LUO_CORE_IO_CONVERT_CONVERT_H
#include "core/io/io.h"

typedef enum luo_convert_kind {
#define LUO_CONVERTER(kind, word, function, options, out, source) LUO_CONVERT_##kind,
#include "core/io/convert/converters.inc"
#undef LUO_CONVERTER
    LUO_CONVERT_KINDS
} luo_convert_kind;

/* Options that belong to some kinds alone. */
typedef enum luo_convert_option {
    LUO_CONVERT_DEVICES = 1,
    LUO_CONVERT_MICRO_BATCHES = 2,
    LUO_CONVERT_PROFILE = 4,
    LUO_CONVERT_APPROXIMATE = 8,
    LUO_CONVERT_REPAIR = 16,
    LUO_CONVERT_MODEL = 32,
    LUO_CONVERT_UNITS = 64,
    LUO_CONVERT_SEQUENCE = 256,
    LUO_CONVERT_MIN_GPUS = 512,
    LUO_CONVERT_RUN = 1024,
    LUO_CONVERT_FOLDER = 128 /* no option: the source may be a folder of them */
} luo_convert_option;

/* Name of the command line; a phrase on the source; what it makes, as names of files with commas
 * between; options that are its own, as bits. Pre: 0 <= kind < LUO_CONVERT_KINDS. */
const char *luo_convert_kind_name(luo_convert_kind kind);
const char *luo_convert_kind_source(luo_convert_kind kind);
const char *luo_convert_kind_out(luo_convert_kind kind);
int luo_convert_kind_options(luo_convert_kind kind);

typedef struct luo_convert_opts {
    luo_convert_kind kind;
    const char *source;        /* a path */
    int32_t devices;           /* of the job; 0: as the source says */
    int64_t min_gpus;          /* of a job that counts */
    int64_t sequence_tokens;   /* 0: as the source or the model says */
    const char *micro_batches; /* "33,31": of the pipelines; NULL: as the source says */
    const char *profile; /* of the devices: a file or a built-in name; NULL: from the source */
    const char *model;   /* a model file; NULL: none */
    const char *units;   /* what counts and names are of: "device:[0-7]", "node:GROUP"; NULL:
                          * devices from 0, names as they are */
    bool approximate, repair;
    bool run; /* of steps that were printed also a run directory */
} luo_convert_opts;

typedef struct luo_convert_file {
    const char *name; /* "plan.json" */
    const char *text;
    size_t len;
    uint64_t hash; /* of the bytes */
} luo_convert_file;

enum { LUO_CONVERT_FILES = 16 };
typedef struct luo_convert_made {
    int32_t nfiles;
    luo_convert_file file[LUO_CONVERT_FILES];
    const char *summary; /* one sentence without its point: what it says */
} luo_convert_made;

/* Reads opts->source; *made is set when all that it makes is right.
 * Errors: LUO_EINPUT, LUO_EPARSE, LUO_E2BIG the source, with line and column; LUO_EUSAGE an option
 *         that is missing or wrong; LUO_ENOMEM. All in diags; notes and warnings, too.
 * Owner:  arena. */
luo_status luo_convert(luo_arena *arena, const luo_convert_opts *opts, luo_convert_made *made,
                       luo_diags *diags);
#endif
