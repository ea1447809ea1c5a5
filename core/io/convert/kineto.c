/* kineto.c: traces of torch's profiler (Kineto): how long operations took, of all ranks together.
 *
 * With record_shapes products have sizes, and kernels of NCCL say what they moved; other kernels
 * are told by name. A kernel belongs to the operation of its `External id`. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/io/convert/convert_internal.h"
#include "core/io/files.h"
#include "core/io/result/table.h"

typedef struct sample { /* one kernel */
    const char *op, *dtype;
    int64_t m, n, k; /* of a product; of a collective: devices, bytes, 0 */
    bool collective;
    double us;
} sample;

typedef struct kineto {
    convert_job *job;
    sample *at;
    int64_t n, cap;
    int32_t files;
    luo_map products;             /* of one file: External id to 1 + number of the operation .. */
    const luo_doc_node **product; /* .. which is here */
    int64_t nproducts, cap_products;
    const char *gpu;
} kineto;

static luo_status add_sample(kineto *k, sample one)
{
    if (k->n == k->cap) {
        const int64_t cap = k->cap ? 2 * k->cap : 1024;
        sample *more = LUO_NEW_N(k->job->arena, sample, cap);
        if (!more) return convert_nomem(k->job);
        if (k->n) memcpy(more, k->at, (size_t)k->n * sizeof *more);
        k->at = more;
        k->cap = cap;
    }
    k->at[k->n++] = one;
    return LUO_OK;
}

/* ---- products: aten::mm and its like ---- */

/* Which of its inputs are the two matrices; -1: it is no product. */
static int first_matrix(const char *name)
{
    if (strcmp(name, "aten::mm") == 0) return 0;
    return strcmp(name, "aten::addmm") == 0 ? 1 : -1;
}

/* Half is as fast as BFloat16, and tables have no word for it. */
static const char *dtype_of(const char *type)
{
    if (strstr(type, "BFloat16") || strcmp(type, "Half") == 0 || strstr(type, "c10::Half"))
        return "bf16";
    return strcmp(type, "double") == 0 ? "f64" : "f32";
}

static luo_status keep_product(kineto *k, const luo_doc_node *event)
{
    const luo_doc_node *args = luo_doc_get(event, "args");
    int64_t id;
    if (!luo_doc_int(luo_doc_get(args, "External id"), &id) || !luo_doc_get(args, "Input Dims"))
        return LUO_OK;
    if (k->nproducts == k->cap_products) {
        const int64_t cap = k->cap_products ? 2 * k->cap_products : 256;
        const luo_doc_node **more = LUO_NEW_N(k->job->arena, const luo_doc_node *, cap);
        if (!more) return convert_nomem(k->job);
        if (k->nproducts) memcpy(more, k->product, (size_t)k->nproducts * sizeof *more);
        k->product = more;
        k->cap_products = cap;
    }
    k->product[k->nproducts++] = event;
    int64_t *slot = luo_map_at(&k->products, (uint64_t)id, 0);
    if (!slot) return convert_nomem(k->job);
    *slot = k->nproducts;
    return LUO_OK;
}

/* Sizes [m, k] x [k, n]. */
static bool sizes_of(const luo_doc_node *event, sample *out)
{
    const luo_doc_node *args = luo_doc_get(event, "args"), *dims = luo_doc_get(args, "Input Dims");
    const int first = first_matrix(luo_doc_get(event, "name")->text);
    const luo_doc_node *a = luo_doc_nth(dims, first), *b = luo_doc_nth(dims, first + 1);
    const luo_doc_node *types = luo_doc_get(args, "Input type");
    const luo_doc_node *type = luo_doc_nth(types, first);
    int64_t inner;
    if (!a || !b || a->n != 2 || b->n != 2 || !luo_doc_int(luo_doc_nth(a, 0), &out->m) ||
        !luo_doc_int(luo_doc_nth(a, 1), &out->k) || !luo_doc_int(luo_doc_nth(b, 0), &inner) ||
        !luo_doc_int(luo_doc_nth(b, 1), &out->n) || inner != out->k)
        return false;
    out->op = "gemm";
    out->dtype = dtype_of(type ? type->text : "");
    return out->m > 0 && out->n > 0 && out->k > 0;
}

/* ---- kernels ---- */

static bool collective_of(const luo_doc_node *args, sample *out)
{
    static const struct {
        const char *theirs, *ours;
        bool result_counts; /* bytes are those of the whole: group size times the input's */
    } names[] = {{"allreduce", "all_reduce", false},
                 {"_allgather_base", "all_gather", true},
                 {"allgather", "all_gather", true},
                 {"_reduce_scatter_base", "reduce_scatter", false},
                 {"reduce_scatter", "reduce_scatter", false},
                 {"all_to_all", "all_to_all", false},
                 {"broadcast", "broadcast", false}};
    const char *name = luo_doc_text(args, "Collective name"), *type = luo_doc_text(args, "dtype");
    int64_t elements, devices;
    if (!name || !luo_doc_int(luo_doc_get(args, "In msg nelems"), &elements) || elements < 1 ||
        !luo_doc_int(luo_doc_get(args, "Group size"), &devices) || devices < 2 ||
        devices > 131072 || elements > INT64_C(1) << 40)
        return false;
    out->dtype = dtype_of(type ? type : "");
    const int64_t bytes = strcmp(out->dtype, "bf16") == 0 ? 2 : strcmp(out->dtype, "f64") ? 4 : 8;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(name, names[i].theirs, strlen(names[i].theirs)) != 0) continue;
        out->op = names[i].ours;
        out->m = devices;
        out->n = elements * bytes * (names[i].result_counts ? devices : 1);
        out->collective = true;
        return true;
    }
    return false;
}

static luo_status take_kernel(kineto *k, const luo_doc_node *event)
{
    const luo_doc_node *args = luo_doc_get(event, "args"), *name = luo_doc_get(event, "name");
    sample one = {.dtype = "bf16"};
    int64_t id, at = 0;
    if (!name || !luo_doc_real(luo_doc_get(event, "dur"), &one.us) || !(one.us > 0)) return LUO_OK;
    if (luo_doc_int(luo_doc_get(args, "External id"), &id))
        at = luo_map_get(&k->products, (uint64_t)id, 0);
    if (!collective_of(args, &one) && !(at && sizes_of(k->product[at - 1], &one)))
        one = (sample){.op = name->text, .dtype = "bf16", .us = one.us};
    return add_sample(k, one);
}

static luo_status each_event(kineto *k, const luo_doc_node *events, bool kernels)
{
    for (const luo_doc_node *event = events->first; event; event = event->next) {
        const char *category = luo_doc_text(event, "cat"), *name = luo_doc_text(event, "name");
        if (!category || !name) continue;
        if (kernels && strcmp(category, "kernel") == 0) LUO_TRY(take_kernel(k, event));
        if (!kernels && strcmp(category, "cpu_op") == 0 && first_matrix(name) >= 0)
            LUO_TRY(keep_product(k, event));
    }
    return LUO_OK;
}

static luo_status read_trace(kineto *k, const luo_source *src)
{
    luo_doc doc = {.arena = k->job->arena, .src = src, .diags = k->job->diags};
    LUO_TRY(luo_doc_parse_json(&doc));
    const luo_doc_node *events = luo_doc_get(doc.root, "traceEvents");
    const luo_doc_node *gpu = luo_doc_nth(luo_doc_get(doc.root, "deviceProperties"), 0);
    if (!events || events->type != LUO_DOC_LIST)
        return convert_error(k->job, 0, 0, "there is no list `traceEvents` in it.");
    if (luo_doc_text(gpu, "name")) k->gpu = luo_doc_text(gpu, "name");
    luo_map_clear(&k->products);
    k->nproducts = 0;
    k->files++;
    LUO_TRY(each_event(k, events, false));
    return each_event(k, events, true);
}

/* ---- tables ---- */

static int compare(const sample *x, const sample *y)
{
    if (x->collective != y->collective) return x->collective - y->collective;
    const int op = strcmp(x->op, y->op), dtype = strcmp(x->dtype, y->dtype);
    if (op || dtype) return op ? op : dtype;
    if (x->m != y->m) return x->m < y->m ? -1 : 1;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return (x->k > y->k) - (x->k < y->k);
}

static int by_what_and_time(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    const int order = compare(x, y);
    return order ? order : (x->us > y->us) - (x->us < y->us);
}

/* Every fourth of its table is kept for validation. */
static const char *role_of(int64_t i)
{
    return i % 4 == 3 ? "validation" : "calibration";
}

static luo_status write_tables(kineto *k, int64_t *nops, int64_t *ncollectives)
{
    luo_str ops = {0}, collectives = {0};
    luo_status st = LUO_OK;
    qsort(k->at, (size_t)k->n, sizeof *k->at, by_what_and_time);
    luo_str_add(&ops, "# luoshu import kineto: medians; operations without sizes by kernel\n"
                      "op,dtype,m,n,k,time_us,samples,role\n");
    luo_str_add(&collectives, "# luoshu import kineto: medians\n"
                              "collective,dtype,devices,nodes,size_bytes,time_us,role\n");
    for (int64_t from = 0, to; from < k->n; from = to) {
        const sample *one = &k->at[from];
        for (to = from + 1; to < k->n && compare(one, &k->at[to]) == 0;) to++;
        const double us = k->at[from + (to - from) / 2].us;
        if (one->collective) {
            luo_str_addf(&collectives, "%s,%s,%lld,%lld,%lld,%.4f,%s\n", one->op, one->dtype,
                         (long long)one->m, (long long)(one->m + 7) / 8, (long long)one->n, us,
                         role_of((*ncollectives)++));
        } else {
            luo_table_put_text(&ops, one->op);
            luo_str_addf(&ops, ",%s,%lld,%lld,%lld,%.4f,%lld,%s\n", one->dtype, (long long)one->m,
                         (long long)one->n, (long long)one->k, us, (long long)(to - from),
                         role_of((*nops)++));
        }
    }
    if (*nops) st = convert_add(k->job, "op_times.csv", &ops);
    if (st == LUO_OK && *ncollectives) {
        st = convert_add(k->job, "collective_times.csv", &collectives);
        convert_note(k->job, LUO_NOTE,
                     "a trace does not say which nodes a group is on: 8 devices "
                     "a node are taken.");
    }
    luo_str_free(&ops);
    luo_str_free(&collectives);
    return st;
}

static int is_trace(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

/* The file, or all .json files of a folder: one a rank, by the bytes of their names. */
static luo_status read_traces(kineto *k)
{
    struct dirent **entry;
    luo_status st = LUO_OK;
    luo_err err = {0};
    if (k->job->src.text) return read_trace(k, &k->job->src);
    const int n = scandir(k->job->opts->source, &entry, is_trace, NULL);
    if (n < 0) return convert_error(k->job, 0, 0, "the folder cannot be read.");
    for (int i = 0; i < n; i++)
        for (int j = i; j > 0 && strcmp(entry[j - 1]->d_name, entry[j]->d_name) > 0; j--) {
            struct dirent *swap = entry[j];
            entry[j] = entry[j - 1];
            entry[j - 1] = swap;
        }
    for (int i = 0; i < n; i++) {
        const char *path =
            luo_arena_printf(k->job->arena, "%s/%s", k->job->opts->source, entry[i]->d_name);
        if (st == LUO_OK && !path) st = convert_nomem(k->job);
        if (st == LUO_OK && luo_source_read(k->job->arena, path, &k->job->src, &err) != LUO_OK)
            st = luo_diags_err(k->job->diags, &err);
        if (st == LUO_OK) st = read_trace(k, &k->job->src);
        free(entry[i]);
    }
    free(entry);
    return st;
}

luo_status convert_kineto(convert_job *job)
{
    kineto k = {.job = job};
    int64_t nops = 0, ncollectives = 0;
    luo_status st = read_traces(&k);
    luo_map_free(&k.products);
    if (st != LUO_OK) return st;
    if (k.n == 0) return convert_error(job, 0, 0, "there is no event of category `kernel` in it.");
    LUO_TRY(write_tables(&k, &nops, &ncollectives));
    return convert_say(job,
                       "%lld kernels of %d rank%s on %.60s: %lld operations, %lld "
                       "collectives",
                       (long long)k.n, k.files, k.files > 1 ? "s" : "", k.gpu ? k.gpu : "a GPU",
                       (long long)nops, (long long)ncollectives);
}
