/* hf.h: what the files that read a Hugging Face config.json share; not for others.
 *
 * Keys of a config are used, harmless (one note lists them) or refused, because they would change
 * cost or numbers. What is read becomes a luoshu.model/1 tree (docs/formats.md#luoshumodel1), which
 * core/io/read/read_model.c checks as it does any other. */
#ifndef LUO_CORE_IO_HF_HF_H
#define LUO_CORE_IO_HF_HF_H
#include "core/io/read/read_model.h"

typedef struct hf_type hf_type;

typedef struct hf_reader {
    luo_doc *doc;
    const luo_doc_node *config;
    const luo_overrides *overrides;
    const hf_type *type;
    bool *used; /* by position in the object */
} hf_reader;

/* A key of theirs that becomes one of ours; "moe.experts" is a key of the map `moe`. standard: what
 * the class has where a file says nothing, NULL: ours has that; HF_NEEDED: the file has to say it.
 * null says the same as nothing, but where the class has a number: there it is ours. */
typedef struct hf_key {
    const char *theirs, *ours, *standard;
} hf_key;
extern const char HF_NEEDED[];

struct hf_type {
    const char *type, *family;
    const hf_key *keys; /* ended by a NULL */
    int nkeys;
    const char *fixed; /* "norm=layernorm linear_bias=true": what all of this type have */
    void (*rest)(hf_reader *hf); /* what is no plain key */
};
/* hf_types.c: the table. */
extern const hf_type hf_types[];
extern const int hf_ntypes;

/* ---- the tree that is made ---- */

/* ours becomes text, which is copied; theirs (NULL: not from the file): where it stands. */
void hf_put(hf_reader *hf, const char *ours, const char *text, bool quoted,
            const luo_doc_node *theirs);
/* All of a list of theirs; NULL: nothing. */
void hf_put_list(hf_reader *hf, const char *ours, const luo_doc_node *theirs);
void hf_put_number(hf_reader *hf, const char *ours, double value, const luo_doc_node *theirs);
/* Is there such a key, and what number is it; otherwise where it is none. */
bool hf_has(const hf_reader *hf, const char *ours);
double hf_number(const hf_reader *hf, const char *ours, double otherwise);

/* ---- the config ---- */

/* The value of a key, marked as used; NULL: there is none. */
const luo_doc_node *hf_use(hf_reader *hf, const char *key);
/* Nothing, or null. */
bool hf_is_null(const luo_doc_node *node);
/* Is the key true; otherwise where the file does not say. */
bool hf_flag(hf_reader *hf, const char *key, bool otherwise);
/* NULL: no text. */
const char *hf_text(const luo_doc_node *node);
void hf_take(hf_reader *hf, const hf_key *key);
/* The same of a key in a map of theirs. */
void hf_take_in(hf_reader *hf, const luo_doc_node *map, const hf_key *key);
void hf_refuse(hf_reader *hf, const luo_doc_node *at, const char *why);
/* A text that has to begin so (whole: that has to be it); what is no text says nothing. */
void hf_expect(hf_reader *hf, const char *key, const char *begin, bool whole, const char *why);
/* Refused where it is true (false). */
void hf_expect_flag(hf_reader *hf, const char *key, bool good, const char *why);

/* ---- hf_attention.c: positions and windows ---- */

/* rope_scaling of older files, rope_parameters of newer ones. */
void hf_take_rope(hf_reader *hf);
/* The base of layers with a window, whose positions are not scaled: of key (older files), or
 * rope_theta of rope_parameters.sliding_attention. Pre: windows are taken. */
void hf_take_local_rope(hf_reader *hf, const hf_key *key);
/* Layers with attention over a window: layer_types where the file has them, else layers first ..
 * first + each - 1 of every `every`. key: its size, standard: of the class, NULL: none. */
typedef struct hf_windows {
    const char *key, *standard;
    int64_t first, every, each;
} hf_windows;
void hf_take_window(hf_reader *hf, const hf_windows *w);
#endif
