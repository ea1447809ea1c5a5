/* public.h: a reader of Hugging Face folders that knows nothing of luoshu: files by the README of
 * huggingface/safetensors, networks by the published code of transformers (modeling_*.py), in plain
 * loops of doubles. It ends the program where something is missing. */
#ifndef LUO_TESTS_HF_PUBLIC_H
#define LUO_TESTS_HF_PUBLIC_H
#include <jansson.h>
#include <stdint.h>

typedef struct tensor {
    char *name;
    int rank;
    int64_t dim[2], n; /* n: cells */
    double *at;
} tensor;

typedef struct folder {
    json_t *config;
    int n;
    tensor *at;
    int sequence; /* tokens of the sequence that a document is packed into */
} folder;

/* config.json, and the tensors of model.safetensors or of all files of the index. */
void read_folder(const char *path, folder *out);
/* The same tensors in two files and an index, as F32, F16 or BF16; also config.json. */
void write_folder(const char *path, const folder *f, const char *dtype);
/* The tensors of one file, added. */
void read_tensors(const char *path, folder *out);
/* NULL: there is none of that name. */
const tensor *find(const folder *f, const char *name);

/* Logits [n x vocab] of one sequence, to be freed. */
double *logits_of(const folder *f, const int *ids, int n);

double number(const folder *f, const char *key, double otherwise);
int flag(const folder *f, const char *key, int otherwise);
const char *text(const folder *f, const char *key);
_Noreturn void give_up(const char *why, const char *what);
#endif
