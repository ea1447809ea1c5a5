#include <stdbool.h>
#include <stdlib.h>

#include "core/base/vec.h"
#include "core/sync/embed/het.h"

/* All rows at once, where the key says which is whose. False: out of memory. */
static bool all_made(luo_het_store *store)
{
    const size_t rows = (size_t)store->dense, width = (size_t)store->width;
    if (store->n == store->dense) return true;
    store->versions = calloc(rows, sizeof *store->versions);
    if (width) store->values = calloc(rows, width * sizeof *store->values);
    if (!store->versions || (width && !store->values)) return false;
    store->n = store->dense;
    return true;
}

/* -1: out of memory. */
static int64_t row_made(luo_het_store *store, uint64_t key)
{
    if (store->dense) return all_made(store) ? (int64_t)key : -1;
    const size_t width = (size_t)store->width;
    int64_t *row = luo_map_at(&store->row, key, -1);
    if (!row || *row >= 0) return row ? *row : -1;
    if (!LUO_VEC_ROOM(store->versions, store->n, store->cap)) return -1;
    if (store->width && store->n == store->cap_values &&
        !luo_vec_grow32(NULL, &store->values, &store->cap_values, width * sizeof(double)))
        return -1;
    store->versions[store->n] = 0;
    for (size_t k = 0; k < width; k++) store->values[(size_t)store->n * width + k] = 0;
    return *row = store->n++;
}

/* -1: there is none. */
static int64_t row_of(const luo_het_store *store, uint64_t key)
{
    if (store->dense) return store->n ? (int64_t)key : -1;
    return luo_map_get(&store->row, key, -1);
}

static luo_status push(luo_het_store *store, const luo_het_message *message, luo_err *err)
{
    const size_t width = (size_t)store->width;
    for (int32_t i = 0; i < message->push.n; i++) {
        const int64_t row = row_made(store, message->push.keys[i]);
        if (row < 0) return luo_err_nomem(err);
        store->versions[row] += message->push.counts[i];
        for (size_t k = 0; k < width; k++)
            store->values[(size_t)row * width + k] += message->push.grads[(size_t)i * width + k];
    }
    return LUO_OK;
}

static void answer(const luo_het_store *store, const luo_het_message *message)
{
    const size_t width = (size_t)store->width;
    for (int32_t i = 0; i < message->ask.n; i++) {
        const int64_t row = row_of(store, message->ask.keys[i]);
        const int64_t version = row < 0 ? 0 : store->versions[row], has = message->ask.versions[i];
        message->ask.given[i] = has < 0 || version - has > message->ask.bound;
        if (!message->ask.given[i]) continue;
        message->ask.versions[i] = version;
        for (size_t k = 0; k < width; k++)
            message->ask.values[(size_t)i * width + k] =
                row < 0 ? 0 : store->values[(size_t)row * width + k];
    }
}

luo_status luo_het_store_exchange(void *ctx, const luo_het_message *message, luo_err *err)
{
    LUO_TRY(push(ctx, message, err));
    answer(ctx, message);
    return LUO_OK;
}

int64_t luo_het_store_version(const luo_het_store *store, uint64_t key)
{
    const int64_t row = row_of(store, key);
    return row < 0 ? 0 : store->versions[row];
}

const double *luo_het_store_value(const luo_het_store *store, uint64_t key)
{
    const int64_t row = row_of(store, key);
    return row < 0 ? NULL : store->values + (size_t)row * (size_t)store->width;
}

void luo_het_store_free(luo_het_store *store)
{
    luo_map_free(&store->row);
    free(store->versions);
    free(store->values);
    *store = (luo_het_store){.width = store->width, .dense = store->dense};
}
