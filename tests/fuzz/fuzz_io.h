/* fuzz_io.h: what the targets of the readers share: small good files in memory, and what
 * holds of every answer of a reader. */
#ifndef LUO_TESTS_FUZZ_IO_H
#define LUO_TESTS_FUZZ_IO_H
#include <stdlib.h>
#include <string.h>

#include "core/io/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void want(bool ok)
{
    if (!ok) abort();
}

static const char fuzz_profile[] =
    "schema: luoshu.profile/1\nname: x\nvalues:\n"
    "  - {name: peak_bf16_tflop_per_s, value: 9, source: a, provenance: chosen}\n"
    "  - {name: memory_gib, value: 9, source: a, provenance: chosen}\n"
    "  - {name: memory_gbytes_per_s, value: 9, source: a, provenance: chosen}\n";
static const char fuzz_cluster[] =
    "schema: luoshu.cluster/1\nname: c\nnode_groups:\n"
    "  - {name: a, nodes: 2, devices_per_node: 2, profile: p, scale_up: {kind: nvswitch, "
    "bandwidth_gbytes_per_s: 9}, nics: {count: 1, bandwidth_gbytes_per_s: 9}}\n"
    "fabric: {kind: single}\n";
static const char fuzz_model[] = "schema: luoshu.model/1\nname: m\nfamily: llama\nlayers: 4\n"
                                 "hidden: 8\nffn_hidden: 8\nheads: 2\nvocab: 8\n"
                                 "max_sequence_tokens: 64\n";
static const char fuzz_plan[] =
    "{\"schema\":\"luoshu.plan/1\",\"layers\":4,\"devices\":4,\"sequence_tokens\":8,\"pipelines\":"
    "[{\"micro_batches\":4,\"stages\":[{\"layers\":[[0,4]],\"devices\":[0,1]}]}]}";
static const char fuzz_trace[] = "t_s,kind,target\n1,fail,device:3\n";
static const char fuzz_causes[] = "cause,kind,scope,count\ngpu,fail,device,148\n";
static const char fuzz_ops[] = "op,dtype,m,n,k,time_us,role\ngemm,bf16,1,1,1,1,calibration\n";

/* Any name gives a good file of the kind that its first letter tells. */
static inline luo_status fuzz_get(void *ctx, luo_arena *arena, const char *path, luo_source *out,
                                  luo_err *err)
{
    static const struct {
        char letter;
        const char *text;
    } files[] = {{'p', fuzz_profile}, {'c', fuzz_cluster}, {'m', fuzz_model}, {'j', fuzz_plan},
                 {'t', fuzz_trace},   {'u', fuzz_causes},  {'o', fuzz_ops}};
    (void)ctx;
    (void)arena;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].letter == path[0]) {
            *out = (luo_source){"f", files[i].text, strlen(files[i].text)};
            return LUO_OK;
        }
    return luo_err_set(err, LUO_EINPUT, "cannot read `%s`: none; one is expected.", path);
}
static const luo_files fuzz_files = {fuzz_get, NULL};

/* Good means no error; bad means at least one, with a sentence, an exit code of 3 and its place
 * inside the file. */
static inline void fuzz_judge(luo_status st, const luo_diags *d)
{
    want((st == LUO_OK) == (d->n_errors == 0));
    for (const luo_diag *x = d->first; x; x = x->next) {
        want(x->err.text[0] && x->err.line >= 0 && x->err.col >= 0);
        want(x->severity != LUO_ERROR || luo_status_exit(x->err.st) == 3);
    }
}

/* data ended by a 0, as the readers get it. */
static inline luo_source fuzz_source(luo_arena *arena, const uint8_t *data, size_t size)
{
    char *text = luo_arena_alloc(arena, size + 1);
    if (!text) abort();
    if (size) memcpy(text, data, size);
    text[size] = 0;
    return (luo_source){"fuzz", text, size};
}
#endif
