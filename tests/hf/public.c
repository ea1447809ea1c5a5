/* public.c: losses of a Hugging Face folder, and the folder written again in other files.
 *
 *   public loss FOLDER BATCHES STEP     mean loss of a step of --dump-batches
 *   public rewrite FOLDER OUT DTYPE     two files and an index, of F32, F16 or BF16
 *   public same FILE FILE               are all cells of all tensors the same?  */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hf/public.h"

/* Sum over all tokens that have a next one in their document. */
static double sequence_loss(const folder *f, const int *ids, int n, int64_t *targets)
{
    double *y = logits_of(f, ids, n), sum = 0;
    int64_t vocab = f->at[0].dim[0];
    for (int i = 0; i < f->n; i++)
        if (f->at[i].dim[0] > vocab) vocab = f->at[i].dim[0];
    vocab = (int64_t)number(f, "vocab_size", (double)vocab);
    for (int t = 0; t + 1 < n; t++) {
        const double *row = y + t * vocab;
        double most = -INFINITY, all = 0;
        for (int64_t v = 0; v < vocab; v++) most = fmax(most, row[v]);
        for (int64_t v = 0; v < vocab; v++) all += exp(row[v] - most);
        sum += most + log(all) - row[ids[t + 1]];
        ++*targets;
    }
    free(y);
    return sum;
}

static int say_loss(const char *path, const char *batches, int step)
{
    folder f;
    char *line = NULL;
    size_t cap = 0;
    double sum = 0;
    int64_t targets = 0;
    FILE *file = fopen(batches, "r");
    if (!file) give_up("cannot read", batches);
    read_folder(path, &f);
    while (getline(&line, &cap, file) > 0) {
        json_t *b = json_loads(line, 0, NULL), *ids = json_object_get(b, "ids");
        json_t *starts = json_object_get(b, "document_starts");
        if (json_integer_value(json_object_get(b, "step")) == step) {
            const int n = (int)(json_array_size(ids) -
                                (size_t)json_integer_value(json_object_get(b, "pads")));
            f.sequence = (int)json_array_size(ids);
            int *id = calloc((size_t)n + 1, sizeof *id);
            for (int i = 0; i < n; i++)
                id[i] = (int)json_integer_value(json_array_get(ids, (size_t)i));
            for (size_t d = 0; d < json_array_size(starts); d++) {
                const int from = (int)json_integer_value(json_array_get(starts, d));
                int to = d + 1 < json_array_size(starts)
                             ? (int)json_integer_value(json_array_get(starts, d + 1))
                             : n;
                if (to > n) to = n;
                if (from < to) sum += sequence_loss(&f, id + from, to - from, &targets);
            }
            free(id);
        }
        json_decref(b);
    }
    if (targets == 0) give_up("no such step", batches);
    printf("%.12g\n", sum / (double)targets);
    return 0;
}

static int compare(const char *first, const char *second)
{
    folder a = {0}, b = {0};
    read_tensors(first, &a);
    read_tensors(second, &b);
    if (a.n != b.n || a.n == 0) give_up("another number of tensors", second);
    for (int i = 0; i < a.n; i++) {
        const tensor *t = find(&b, a.at[i].name);
        if (!t || t->n != a.at[i].n || t->dim[0] != a.at[i].dim[0])
            give_up("missing", a.at[i].name);
        if (memcmp(t->at, a.at[i].at, (size_t)t->n * sizeof *t->at) != 0)
            give_up("another value", a.at[i].name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    folder f;
    if (argc == 5 && strcmp(argv[1], "loss") == 0) return say_loss(argv[2], argv[3], atoi(argv[4]));
    if (argc == 4 && strcmp(argv[1], "same") == 0) return compare(argv[2], argv[3]);
    if (argc != 5 || strcmp(argv[1], "rewrite") != 0) give_up("usage", "loss, rewrite or same");
    read_folder(argv[2], &f);
    write_folder(argv[3], &f, argv[4]);
    return 0;
}
