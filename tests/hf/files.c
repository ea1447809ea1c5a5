/* files.c: folders of safetensors files, read and written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hf/public.h"

void give_up(const char *why, const char *what)
{
    fprintf(stderr, "%s: %s\n", why, what);
    exit(2);
}

static unsigned char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) give_up("cannot read", path);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *at = malloc(*n + 1);
    if (fread(at, 1, *n, f) != *n) give_up("cannot read", path);
    at[*n] = 0;
    fclose(f);
    return at;
}

static double half(uint16_t v)
{
    const int e = v >> 10 & 31, m = v & 1023;
    const double x = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return v >> 15 ? -x : x;
}

static double cell(const char *dtype, const unsigned char *at, int64_t i)
{
    double d;
    float f;
    uint16_t h;
    uint32_t u;
    if (strcmp(dtype, "F64") == 0) return memcpy(&d, at + 8 * i, 8), d;
    if (strcmp(dtype, "F32") == 0) return memcpy(&f, at + 4 * i, 4), (double)f;
    memcpy(&h, at + 2 * i, 2);
    if (strcmp(dtype, "F16") == 0) return half(h);
    if (strcmp(dtype, "BF16") != 0) give_up("unknown dtype", dtype);
    u = (uint32_t)h << 16;
    return memcpy(&f, &u, 4), (double)f;
}

void read_tensors(const char *path, folder *out)
{
    size_t bytes;
    uint64_t head;
    unsigned char *file = slurp(path, &bytes);
    memcpy(&head, file, 8);
    json_t *json = json_loadb((const char *)file + 8, head, 0, NULL), *row;
    const char *name;
    json_object_foreach(json, name, row)
    {
        json_t *shape = json_object_get(row, "shape");
        tensor t = {strdup(name), (int)json_array_size(shape), {1, 1}, 1, NULL};
        if (strcmp(name, "__metadata__") == 0) continue;
        for (int d = 0; d < t.rank; d++) {
            t.dim[d] = json_integer_value(json_array_get(shape, (size_t)d));
            t.n *= t.dim[d];
        }
        const int64_t begin =
            json_integer_value(json_array_get(json_object_get(row, "data_offsets"), 0));
        t.at = malloc((size_t)t.n * sizeof *t.at);
        for (int64_t i = 0; i < t.n; i++)
            t.at[i] =
                cell(json_string_value(json_object_get(row, "dtype")), file + 8 + head + begin, i);
        out->at = realloc(out->at, (size_t)(out->n + 1) * sizeof *out->at);
        out->at[out->n++] = t;
    }
    json_decref(json);
    free(file);
}

void read_folder(const char *path, folder *out)
{
    char name[512];
    *out = (folder){0};
    snprintf(name, sizeof name, "%s/config.json", path);
    out->config = json_load_file(name, 0, NULL);
    if (!out->config) give_up("no JSON", name);
    snprintf(name, sizeof name, "%s/model.safetensors.index.json", path);
    json_t *index = json_load_file(name, 0, NULL), *file, *seen = json_object();
    snprintf(name, sizeof name, "%s/model.safetensors", path);
    if (!index) read_tensors(name, out);
    const char *key;
    json_object_foreach(json_object_get(index, "weight_map"), key, file)
    {
        if (json_object_get(seen, json_string_value(file))) continue;
        json_object_set_new(seen, json_string_value(file), json_true());
        snprintf(name, sizeof name, "%s/%s", path, json_string_value(file));
        read_tensors(name, out);
    }
    json_decref(seen);
    json_decref(index);
}

const tensor *find(const folder *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->at[i].name, name) == 0) return &f->at[i];
    return NULL;
}

/* ---- writing ---- */

/* Rounded to nearest; those of these tests are neither huge nor tiny. */
static uint16_t to_half(double v)
{
    int e;
    const double m = frexp(fabs(v), &e);
    const uint16_t sign = v < 0 ? 0x8000 : 0;
    if (v == 0 || e < -23) return sign;
    if (e < -13) return (uint16_t)(sign | (uint16_t)nearbyint(ldexp(m, e + 24)));
    return (uint16_t)(sign + ((e + 14) << 10) + (int)nearbyint(ldexp(m, 11)) - 1024);
}

static void put_cell(FILE *file, const char *dtype, double v)
{
    const float f = (float)v;
    uint16_t h = to_half(v);
    uint32_t u;
    if (strcmp(dtype, "F32") == 0) {
        fwrite(&f, 4, 1, file);
        return;
    }
    memcpy(&u, &f, 4);
    if (strcmp(dtype, "BF16") == 0) h = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    fwrite(&h, 2, 1, file);
}

/* Every second tensor from `first` on. */
static void write_part(const char *path, const folder *f, const char *dtype, int first)
{
    json_t *json = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    int64_t at = 0;
    const int64_t each = strcmp(dtype, "F32") == 0 ? 4 : 2;
    for (int i = first; i < f->n; i += 2) {
        const tensor *t = &f->at[i];
        json_t *shape = json_array();
        for (int d = 0; d < t->rank; d++) json_array_append_new(shape, json_integer(t->dim[d]));
        json_object_set_new(json, t->name,
                            json_pack("{s:s,s:o,s:[I,I]}", "dtype", dtype, "shape", shape,
                                      "data_offsets", (json_int_t)at,
                                      (json_int_t)(at + each * t->n)));
        at += each * t->n;
    }
    char *head = json_dumps(json, JSON_COMPACT);
    const uint64_t n = strlen(head);
    FILE *file = fopen(path, "wb");
    if (!file) give_up("cannot write", path);
    fwrite(&n, 8, 1, file);
    fwrite(head, 1, n, file);
    for (int i = first; i < f->n; i += 2)
        for (int64_t k = 0; k < f->at[i].n; k++) put_cell(file, dtype, f->at[i].at[k]);
    fclose(file);
    free(head);
    json_decref(json);
}

void write_folder(const char *path, const folder *f, const char *dtype)
{
    static const char *const parts[2] = {"model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors"};
    char name[512];
    json_t *map = json_object();
    for (int i = 0; i < f->n; i++)
        json_object_set_new(map, f->at[i].name, json_string(parts[i % 2]));
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/%s", path, parts[i]);
        write_part(name, f, dtype, i);
    }
    json_t *index = json_pack("{s:{s:i},s:o}", "metadata", "total_size", 0, "weight_map", map);
    snprintf(name, sizeof name, "%s/model.safetensors.index.json", path);
    json_dump_file(index, name, JSON_INDENT(2));
    snprintf(name, sizeof name, "%s/config.json", path);
    json_dump_file(f->config, name, JSON_INDENT(2));
    json_decref(index);
}
