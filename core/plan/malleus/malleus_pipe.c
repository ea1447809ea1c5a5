/* Level 3 of the straggler planner: one pipeline, solved once per vector of class counts
 * (docs/planners.md#layers-and-micro-batches). */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/plan/malleus/malleus_internal.h"

enum { FIRST_ROOM = 256 };

const int32_t *luo_mal_vector(const luo_mal_mix *mix, int32_t id)
{
    return mix->vectors + (size_t)id * (size_t)mix->ncls;
}

static bool grow_rows(luo_mal_search *search, luo_mal_mix *mix)
{
    const size_t was = (size_t)mix->room, now = was ? 2 * was : FIRST_ROOM;
    const size_t row = (size_t)mix->ncls * sizeof *mix->vectors;
    void *pipes = luo_arena_grow(search->arena, mix->pipes, was * sizeof *mix->pipes,
                                 now * sizeof *mix->pipes);
    if (!pipes) return false;
    mix->pipes = pipes;
    void *vectors = luo_arena_grow(search->arena, mix->vectors, was * row, now * row);
    if (!vectors) return false;
    mix->vectors = vectors;
    mix->room = (int32_t)now;
    return true;
}

static uint32_t home(const luo_mal_mix *mix, uint64_t key)
{
    return (uint32_t)(key ^ key >> 32) & (mix->nslots - 1);
}

static bool grow_slots(luo_mal_search *search, luo_mal_mix *mix)
{
    mix->nslots = mix->nslots ? 2 * mix->nslots : 4 * FIRST_ROOM;
    mix->slots = LUO_NEW_N(search->arena, int32_t, mix->nslots);
    if (!mix->slots) return false;
    for (int32_t id = 0; id < mix->npipes; id++) {
        uint32_t at = home(mix, mix->pipes[id].key);
        while (mix->slots[at]) at = (at + 1) & (mix->nslots - 1);
        mix->slots[at] = id + 1;
    }
    return true;
}

/* Slot of the vector, or the empty one where it belongs. */
static uint32_t find(const luo_mal_mix *mix, uint64_t key, const int32_t *v)
{
    const size_t row = (size_t)mix->ncls * sizeof *v;
    uint32_t at = home(mix, key);
    for (; mix->slots[at]; at = (at + 1) & (mix->nslots - 1)) {
        const int32_t id = mix->slots[at] - 1;
        if (mix->pipes[id].key == key && memcmp(luo_mal_vector(mix, id), v, row) == 0) break;
    }
    return at;
}

/* Layers that a group of the class holds; as the callback says, INT64_MAX without one. Asked once
 * per answer that the contract lets differ. */
static int64_t cap_of(luo_mal_search *search, const luo_mal_class *class, int32_t stages,
                      int32_t stage)
{
    const luo_malleus_in *in = search->in;
    int32_t sizes = 1, k = 0;
    if (!in->cap) return INT64_MAX;
    while (in->tp >> sizes) sizes++;
    while (in->tp >> k > class->size) k++;
    const int32_t row = class->kind * sizes + k, at = 2 * (stages - stage) + (stage == 0);
    if (at >= search->ncaps[row]) {
        const int32_t now = 2 * at + 32;
        int64_t *caps =
            luo_arena_grow(search->arena, search->caps[row],
                           (size_t)search->ncaps[row] * sizeof *caps, (size_t)now * sizeof *caps);
        if (!caps) {
            search->nomem = true;
            return 0;
        }
        for (int32_t i = search->ncaps[row]; i < now; i++) caps[i] = -1;
        search->caps[row] = caps;
        search->ncaps[row] = now;
    }
    int64_t *cap = &search->caps[row][at];
    if (*cap < 0) *cap = in->cap(in->cap_ctx, class->kind, class->size, stages, stage, search->dp);
    return *cap;
}

int32_t luo_mal_lay_out(luo_mal_search *search, const luo_mal_mix *mix, const int32_t *v)
{
    int32_t n = 0, at = 0;
    for (int32_t c = 0; c < mix->ncls; c++) n += v[c];
    for (int32_t i = 0; i < mix->ncls; i++) {
        const int32_t c = search->in->rising ? mix->ncls - 1 - i : i;
        for (int32_t k = 0; k < v[c]; k++, at++) {
            search->stage_class[at] = c;
            search->y[at] = mix->cls[c].y;
            search->cap[at] = cap_of(search, &mix->cls[c], n, at);
        }
    }
    return n;
}

static bool split(luo_mal_search *search, int32_t n, luo_mal_pipe *pipe)
{
    int64_t room = 0;
    for (int32_t j = 0; j < n && room < search->in->layers; j++)
        room += search->cap[j] < search->in->layers ? search->cap[j] : search->in->layers;
    pipe->lack = room < search->in->layers ? search->in->layers - room : 0;
    if (pipe->lack) return false;
    search->count.solves++;
    const luo_status st = luo_plan_split_layers(search->arena, n, search->y, search->in->layers,
                                                search->cap, search->layers, NULL);
    if (st != LUO_OK) search->nomem = true;
    return st == LUO_OK;
}

/* Drops from v what 10.3 drops of the n stages just split: the slowest without layers; nobody
 * misses it. Those in front of all others leave together, which changes no other's cap. */
static bool trim(const luo_mal_search *search, int32_t n, int32_t *v)
{
    int32_t j = 0;
    if (search->in->rising) {
        for (j = n - 1; j >= 0 && search->layers[j] > 0;) j--;
        if (j >= 0) v[search->stage_class[j]]--;
        return j >= 0;
    }
    while (j < n && search->layers[j] > 0) j++;
    if (j == n) return false;
    v[search->stage_class[j]]--;
    for (int32_t k = 1; j == 0 && search->layers[k] == 0; k++) v[search->stage_class[k]]--;
    return true;
}

static void drop_slowest(int32_t *v, int32_t n)
{
    for (; n > 0; v++) {
        const int32_t k = *v < n ? *v : n;
        *v -= k;
        n -= k;
    }
}

/* Solves v or drops stages from it; true: dropped, to be solved again. */
static bool solve(luo_mal_search *search, const luo_mal_mix *mix, int32_t *v, luo_mal_pipe *pipe)
{
    const int32_t most = search->in->max_stages;
    int32_t n = 0;
    for (int32_t c = 0; c < mix->ncls; c++) n += v[c];
    pipe->lack = search->in->layers;
    if (most > 0 && n > most) {
        drop_slowest(v, n - most);
        return true;
    }
    if (n == 0) return false;
    luo_mal_lay_out(search, mix, v);
    if (!split(search, n, pipe)) return false;
    if (trim(search, n, v)) return true;
    for (int32_t j = 0; j < n; j++) {
        const double t = search->y[j] * (double)search->layers[j];
        pipe->o = fmax(pipe->o, t);
        pipe->fill += t;
    }
    pipe->stages = n;
    return false;
}

static uint64_t key_of(const luo_mal_mix *mix, const int32_t *v)
{
    uint64_t key = 0;
    for (int32_t c = 0; c < mix->ncls; c++) key += (uint64_t)v[c] * mix->salt[c];
    return key;
}

/* Adds a vector that is not there, as its own solution. Returns its id, 0 out of memory. */
static int32_t add(luo_mal_search *search, luo_mal_mix *mix, const int32_t *v,
                   const luo_mal_pipe *pipe)
{
    if ((mix->npipes == mix->room && !grow_rows(search, mix)) ||
        (2 * (uint32_t)mix->npipes >= mix->nslots && !grow_slots(search, mix))) {
        search->nomem = true;
        return 0;
    }
    const int32_t id = mix->npipes++;
    memcpy(mix->vectors + (size_t)id * (size_t)mix->ncls, v, (size_t)mix->ncls * sizeof *v);
    mix->pipes[id] = *pipe;
    mix->pipes[id].key = key_of(mix, v);
    mix->pipes[id].trimmed = id;
    mix->slots[find(mix, mix->pipes[id].key, v)] = id + 1;
    return id;
}

static int32_t known(const luo_mal_mix *mix, uint64_t key, const int32_t *v)
{
    return mix->slots[find(mix, key, v)] - 1;
}

static int32_t pipe_of(luo_mal_search *search, luo_mal_mix *mix, uint64_t key, const int32_t *v)
{
    const size_t row = (size_t)mix->ncls * sizeof *v;
    int32_t id = known(mix, key, v), left = -1;
    luo_mal_pipe pipe = {0};
    if (id >= 0) return id;
    memcpy(search->rest, v, row);
    while (left < 0 && solve(search, mix, search->rest, &pipe))
        left = known(mix, key_of(mix, search->rest), search->rest);
    if (left < 0 && memcmp(search->rest, v, row) != 0) left = add(search, mix, search->rest, &pipe);
    if (left >= 0) pipe = mix->pipes[left];
    id = add(search, mix, v, &pipe);
    if (left >= 0) mix->pipes[id].trimmed = mix->pipes[left].trimmed;
    return id;
}

int32_t luo_mal_pipe_of(luo_mal_search *search, luo_mal_mix *mix, const int32_t *v)
{
    return pipe_of(search, mix, key_of(mix, v), v);
}

int32_t luo_mal_pipe_but(luo_mal_search *search, luo_mal_mix *mix, int32_t id, int32_t out,
                         int32_t in)
{
    uint64_t key = mix->pipes[id].key;
    memcpy(search->vector, luo_mal_vector(mix, id), (size_t)mix->ncls * sizeof *search->vector);
    if (out >= 0) {
        search->vector[out]--;
        key -= mix->salt[out];
    }
    if (in >= 0) {
        search->vector[in]++;
        key += mix->salt[in];
    }
    return pipe_of(search, mix, key, search->vector);
}

int32_t luo_mal_stages(luo_mal_search *search, const luo_mal_mix *mix, int32_t id)
{
    luo_mal_pipe pipe = {0};
    const int32_t n = luo_mal_lay_out(search, mix, luo_mal_vector(mix, id));
    split(search, n, &pipe);
    return n;
}

static bool make_rows(luo_mal_search *search, int32_t groups)
{
    luo_arena *arena = search->arena;
    int32_t rows = 1;
    while (search->in->tp >> rows) rows++;
    rows *= search->in->nkinds;
    search->caps = LUO_NEW_N(arena, int64_t *, rows);
    search->ncaps = LUO_NEW_N(arena, int32_t, rows);
    search->y = LUO_NEW_N(arena, double, groups);
    search->cap = LUO_NEW_N(arena, int64_t, groups);
    search->layers = LUO_NEW_N(arena, int64_t, groups);
    search->stage_class = LUO_NEW_N(arena, int32_t, groups);
    search->vector = LUO_NEW_N(arena, int32_t, groups);
    search->rest = LUO_NEW_N(arena, int32_t, groups);
    return search->caps && search->ncaps && search->y && search->cap && search->layers &&
           search->stage_class && search->vector && search->rest;
}

luo_status luo_mal_memo(luo_mal_search *search, luo_err *err)
{
    if (!make_rows(search, search->in->ndevices))
        return luo_err_nomem(err); /* no mix has more groups */
    for (int32_t i = 0; i < search->nmixes; i++)
        LUO_TRY(luo_mal_memo_of(search, &search->mixes[i], err));
    return LUO_OK;
}

luo_status luo_mal_memo_of(luo_mal_search *search, luo_mal_mix *mix, luo_err *err)
{
    const luo_mal_pipe none = {.lack = search->in->layers};
    memset(search->vector, 0, (size_t)mix->ncls * sizeof *search->vector);
    if (!grow_slots(search, mix)) return luo_err_nomem(err);
    add(search, mix, search->vector, &none);
    return search->nomem ? luo_err_nomem(err) : LUO_OK;
}
