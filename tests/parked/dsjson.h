/* dsjson.h: the JSON border to Hetu: ds_parallel_config entries and files
 * (ds_parallel_config of PKU-DAIR/Hetu).
 *
 * An entry holds `split` {dim: [count per member]}, `dup` [per member], `device_group_union`
 * [[ids]..] and `type`, with the top level folded into the counts; the old form, one group with
 * plain counts and `device_group`, is read as well. */
#ifndef LUO_TESTS_PARKED_DSJSON_H
#define LUO_TESTS_PARKED_DSJSON_H
#include "core/hspmd/ann.h"
#include "core/io/io.h"

typedef enum luo_ds_type { LUO_DS_VARIABLE, LUO_DS_PLACEHOLDER } luo_ds_type;

/* Reads one entry, a JSON object. name: for sentences, as in `JSON entry 'qkv': dup 1 of member 0
 * is not a multiple of 2 subgroups`. Errors: LUO_EPARSE, LUO_EINPUT, LUO_E2BIG; LUO_ENOMEM.
 * Owner: *out belongs to arena; it is canonical. */
luo_status luo_dsjson_read_entry(luo_arena *arena, const char *json, const char *name,
                                 const luo_ann **out, luo_ds_type *type, luo_err *err);
/* Appends the entry of a. The devices are listed in the order that Hetu implies, so reading it
 * back gives the same regions, not always the same text. Pre: a is canonical.
 * Errors: LUO_EUNREP `JSON cannot express shares` and alike; LUO_ENOMEM. */
luo_status luo_dsjson_write_entry(const luo_ann *a, luo_ds_type type, luo_str *out, luo_err *err);

typedef struct luo_ds_item {
    const char *path; /* "llama.blocks.blocks0.attn.qkv" */
    const char *name; /* "qkv" */
    const luo_ann *ann; /* in our dimensions: 0 = the output features of qkv, dense_h_to_4h and
                           lm_head, which JSON calls "1" */
    luo_ds_type type;
    int32_t first, last; /* blocks of `range`, inclusive; -1: not in a block */
} luo_ds_item;

typedef struct luo_dsjson { /* a file; what is not an entry is kept as it is */
    bool zero;
    int32_t ndev, n;
    const int32_t *dev;
    luo_ds_item *items;
    const char *text; /* the file as JSON */
} luo_dsjson;

/* Unknown keys are kept, with a warning each; `cpu_offload` true is refused. */
luo_status luo_dsjson_read(luo_arena *arena, const luo_source *src, luo_dsjson **out,
                           luo_diags *diags);
/* Appends the file with the annotations of its items, indent 4; all else as it was read. */
luo_status luo_dsjson_write(luo_arena *scratch, const luo_dsjson *file, luo_str *out,
                            luo_err *err);
/* Annotation of the weight that item stands for: `rmsnorm` entries carry the split of their
 * activation, while the weight is a full copy in each member. */
luo_status luo_dsjson_weight(luo_arena *arena, const luo_ds_item *item, const luo_ann **out,
                             luo_err *err);
#endif
