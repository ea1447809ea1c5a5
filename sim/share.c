#include "sim/share.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/hash.h"
#include "sim/sim.h"

/* What a device or link of a world has that a healthy one has not. */
enum { SLOWDOWN, DOWN, FACTOR, LATENCY };
typedef struct departure {
    int32_t what, target;
    double value;
} departure;

struct sim_shared {
    uint64_t next; /* of the same bucket: place in the region; 0: none */
    uint64_t config, programs;
    double update;
    int32_t ndevices, nlinks, ndepartures; /* with a place; departures follow, then the arrays */
    sim_head head;
};

enum { BUCKETS = 4096 };
typedef struct region { /* shared by all processes that come of the one that made it */
    _Atomic uint64_t used;
    _Atomic uint64_t bucket[BUCKETS]; /* place of the newest step; 0: none */
} region;

/* Set before a process has others. Steps are added and never changed, so that nobody waits for
 * anybody, and whoever is killed leaves no more than a gap. */
static region *shared_region;

luo_status luo_sim_share(luo_err *err)
{
    if (shared_region) return LUO_OK;
    void *at = mmap(NULL, SIM_SHARE_BYTES, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return luo_err_nomem(err);
    shared_region = at;
    atomic_store(&shared_region->used, (sizeof(region) + 15) / 16 * 16);
    return LUO_OK;
}

/* ---- the config ---- */

#define ADD(hash, value) luo_hash_bytes(hash, &(value), sizeof(value))

/* Arrays that are added to one of these have to be added here; numbers are already. */
_Static_assert(offsetof(luo_node_group, nodes) == 7 * sizeof(void *), "all are in hash_group");
_Static_assert(offsetof(luo_cluster, ngroups) == 5 * sizeof(void *), "all are in hash_cluster");
_Static_assert(sizeof(luo_profile) - offsetof(luo_profile, ncurves) == 40, "in hash_profile");

static uint64_t hash_profile(uint64_t h, const luo_profile *profile)
{
    const size_t first = offsetof(luo_profile, peak_flops);
    h = luo_hash_str(h, profile->name);
    h = ADD(h, profile->cpu);
    h = luo_hash_bytes(h, (const char *)profile + first, offsetof(luo_profile, ncurves) - first);
    for (int32_t i = 0; i < profile->ncurves; i++) {
        h = ADD(h, profile->curves[i].op);
        h = ADD(h, profile->curves[i].devices);
        h = luo_hash_bytes(h, profile->curves[i].at,
                           (size_t)profile->curves[i].n * sizeof *profile->curves[i].at);
    }
    for (int32_t i = 0; i < profile->nop_times; i++) {
        h = luo_hash_str(h, profile->op_times[i].op);
        h = ADD(h, profile->op_times[i].dtype);
        h = ADD(h, profile->op_times[i].m);
        h = ADD(h, profile->op_times[i].n);
        h = ADD(h, profile->op_times[i].k);
        h = ADD(h, profile->op_times[i].seconds);
    }
    for (int32_t i = 0; i < profile->np2p_times; i++) {
        h = luo_hash_str(h, profile->p2p_times[i].link_class);
        h = ADD(h, profile->p2p_times[i].bytes);
        h = ADD(h, profile->p2p_times[i].seconds);
    }
    return h;
}

static uint64_t hash_group(uint64_t h, const luo_node_group *group)
{
    const size_t first = offsetof(luo_node_group, nodes);
    h = luo_hash_str(h, group->name);
    h = luo_hash_str(h, group->site ? group->site : "");
    h = luo_hash_bytes(h, (const char *)group + first, sizeof *group - first);
    for (int32_t i = 0; i < group->nracks; i++)
        h = luo_hash_str(h, group->racks ? group->racks[i] : "");
    h = luo_hash_bytes(h, group->mesh, (size_t)group->nmesh * sizeof *group->mesh);
    if (!group->profiles) return hash_profile(h, group->profile);
    for (int32_t i = 0; i < group->devices_per_node; i++) h = hash_profile(h, group->profiles[i]);
    return h;
}

static uint64_t hash_cluster(uint64_t h, const luo_cluster *cluster)
{
    const size_t first = offsetof(luo_cluster, ngroups);
    h = luo_hash_bytes(h, (const char *)cluster + first, offsetof(luo_cluster, ndevices) - first);
    for (int32_t i = 0; i < cluster->ngroups; i++) h = hash_group(h, &cluster->groups[i]);
    for (int32_t i = 0; i < cluster->nsite_links; i++) {
        h = luo_hash_str(h, cluster->site_links[i].a);
        h = luo_hash_str(h, cluster->site_links[i].b);
        h = ADD(h, cluster->site_links[i].bytes_per_s);
        h = ADD(h, cluster->site_links[i].latency_s);
    }
    return h;
}

uint64_t sim_share_config(const luo_backend_config *config)
{
    const size_t first = offsetof(luo_stack, host_launch_s);
    const int32_t numbers[] = {(int32_t)config->dtype, (int32_t)config->comm, config->fold,
                               config->one_comm_stream};
    uint64_t h = hash_cluster(LUO_HASH_EMPTY, config->cluster);
    h = ADD(h, numbers);
    return luo_hash_bytes(h, (const char *)config->stack + first, sizeof(luo_stack) - first);
}

/* ---- worlds ---- */

/* A link without a place, of a rack that no program is in, keeps its number, which is no place. */
static int32_t place_of(const int32_t *place, int32_t number)
{
    return place[number] >= 0 ? place[number] : -1 - number;
}

static int32_t number_of(const int32_t *numbers, int32_t place)
{
    return place >= 0 ? numbers[place] : -1 - place;
}

static departure *list_departures(luo_arena *arena, const sim_share_key *key, int32_t *n)
{
    const luo_world *world = key->world;
    const int32_t *device = key->places->device_place, *link = key->places->link_place;
    const int64_t most = 2 * (int64_t)world->ndevices + 2 * (int64_t)world->nlinks;
    int64_t count = 0;
    departure *out = NULL;
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 1 && !(out = LUO_NEW_N(arena, departure, count + 1))) return NULL;
        count = 0;
#define DEPART(differs, kind, place, index, number)                                                \
    if (differs) {                                                                                 \
        if (out) out[count] = (departure){kind, place_of(place, index), number};                   \
        count++;                                                                                   \
    }
        for (int32_t d = 0; d < world->ndevices; d++) {
            DEPART(world->slowdown[d] != 1, SLOWDOWN, device, d, world->slowdown[d])
            DEPART(!world->up[d], DOWN, device, d, 1)
        }
        for (int32_t l = 0; l < world->nlinks; l++) {
            DEPART(world->link_factor[l] != 1, FACTOR, link, l, world->link_factor[l])
            DEPART(world->link_extra_latency_s[l] != 0, LATENCY, link, l,
                   world->link_extra_latency_s[l])
        }
#undef DEPART
    }
    *n = count <= most ? (int32_t)count : 0;
    return out;
}

static const departure *departures_of(const sim_shared *shared)
{
    return (const departure *)(shared + 1);
}

const luo_world *sim_share_world(luo_arena *arena, const sim_shared *shared,
                                 const luo_cluster *cluster, const sim_places *places)
{
    luo_world *world = LUO_NEW(arena, luo_world);
    if (!world) return NULL;
    world->ndevices = cluster->ndevices;
    world->nlinks = cluster->nlinks;
    world->slowdown = LUO_NEW_N(arena, double, world->ndevices);
    world->up = LUO_NEW_N(arena, bool, world->ndevices);
    world->link_factor = LUO_NEW_N(arena, double, world->nlinks);
    world->link_extra_latency_s = LUO_NEW_N(arena, double, world->nlinks);
    if (!world->slowdown || !world->up || !world->link_factor || !world->link_extra_latency_s)
        return NULL;
    for (int32_t d = 0; d < world->ndevices; d++) {
        world->slowdown[d] = 1;
        world->up[d] = true;
    }
    for (int32_t l = 0; l < world->nlinks; l++) world->link_factor[l] = 1;
    const departure *at = departures_of(shared);
    for (int32_t i = 0; i < shared->ndepartures; i++) {
        const bool of_device = at[i].what == SLOWDOWN || at[i].what == DOWN;
        const int32_t target =
            number_of(of_device ? places->device : places->link, at[i].target);
        if (at[i].what == SLOWDOWN) world->slowdown[target] = at[i].value;
        if (at[i].what == DOWN) world->up[target] = false;
        if (at[i].what == FACTOR) world->link_factor[target] = at[i].value;
        if (at[i].what == LATENCY) world->link_extra_latency_s[target] = at[i].value;
    }
    return world;
}

double sim_share_update(const sim_shared *shared)
{
    return shared->update;
}

/* ---- arrays ---- */

/* Devices of a stage, and links of their nodes, mostly have the same: an array is kept as runs of
 * equal elements, each behind its length. */
static int64_t run_length(const char *at, int64_t n, size_t size)
{
    int64_t run = 1;
    while (run < n && memcmp(at, at + (size_t)run * size, size) == 0) run++;
    return run;
}

static size_t runs_bytes(const void *from, int64_t n, size_t size)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < n; bytes += sizeof i + size)
        i += run_length((const char *)from + (size_t)i * size, n - i, size);
    return bytes;
}

static char *put_runs(char *to, const void *from, int64_t n, size_t size)
{
    for (int64_t i = 0, run; i < n; i += run) {
        const char *at = (const char *)from + (size_t)i * size;
        run = run_length(at, n - i, size);
        memcpy(to, &run, sizeof run);
        memcpy(to + sizeof run, at, size);
        to += sizeof run + size;
    }
    return to;
}

/* Next array behind *from; moves it on. */
static void *take_runs(luo_arena *arena, const char **from, int64_t n, size_t size)
{
    char *to = luo_arena_alloc(arena, (size_t)n * size);
    if (!to) return NULL;
    for (int64_t i = 0, run; i < n; i += run) {
        memcpy(&run, *from, sizeof run);
        for (int64_t k = 0; k < run; k++)
            memcpy(to + (size_t)(i + k) * size, *from + sizeof run, size);
        *from += sizeof run + size;
    }
    return to;
}

/* Use of the links with a place, in the order of places. *all: no other link is used. */
static luo_link_use *gather_links(luo_arena *arena, const sim_places *places,
                                  const sim_reply *reply, bool *all)
{
    static const luo_link_use unused = {0};
    luo_link_use *out = LUO_NEW_N(arena, luo_link_use, places->nlinks);
    *all = true;
    for (int32_t l = 0; out && l < reply->head.nlinks; l++) {
        if (places->link_place[l] >= 0) out[places->link_place[l]] = reply->links[l];
        else if (memcmp(&reply->links[l], &unused, sizeof unused) != 0) *all = false;
    }
    return out;
}

static luo_link_use *scatter_links(luo_arena *arena, const sim_places *places,
                                   const luo_link_use *use, int32_t nlinks)
{
    luo_link_use *out = LUO_NEW_N(arena, luo_link_use, nlinks);
    for (int32_t i = 0; out && use && i < places->nlinks; i++) out[places->link[i]] = use[i];
    return use ? out : NULL;
}

/* ---- steps ---- */

static uint32_t bucket_of(const sim_share_key *key)
{
    uint64_t h = ADD(LUO_HASH_EMPTY, key->config);
    h = ADD(h, key->programs);
    return (uint32_t)(ADD(h, key->update) % BUCKETS);
}

static const sim_shared *shared_at(uint64_t place)
{
    return (const sim_shared *)((const char *)shared_region + place);
}

static bool is_same(const sim_shared *shared, const sim_share_key *key, const departure *at,
                    int32_t n)
{
    return shared->config == key->config && shared->programs == key->programs &&
           shared->update == key->update && shared->ndevices == key->places->ndevices &&
           shared->nlinks == key->places->nlinks && shared->ndepartures == n &&
           (n == 0 || memcmp(departures_of(shared), at, (size_t)n * sizeof *at) == 0);
}

static luo_status take_reply(luo_arena *arena, const sim_shared *shared, const sim_places *places,
                             sim_reply *out, luo_err *err)
{
    const char *from = (const char *)(departures_of(shared) + shared->ndepartures);
    const sim_head *head = &shared->head;
    *out = (sim_reply){.head = *head};
    out->parts = take_runs(arena, &from, head->n, sizeof *out->parts);
    out->compute_s = take_runs(arena, &from, head->n, sizeof *out->compute_s);
    out->predicted_s = take_runs(arena, &from, head->n, sizeof *out->predicted_s);
    const luo_link_use *use = take_runs(arena, &from, shared->nlinks, sizeof *use);
    out->links = scatter_links(arena, places, use, head->nlinks);
    out->comm = take_runs(arena, &from, head->ncomm, sizeof *out->comm);
    out->records = luo_arena_alloc(arena, 0);
    return out->parts && out->compute_s && out->predicted_s && out->links && out->comm &&
                   out->records
               ? LUO_OK
               : luo_err_nomem(err);
}

bool sim_share_on(void)
{
    return shared_region != NULL;
}

luo_status sim_share_find(luo_arena *arena, const sim_share_key *key, const sim_shared **found,
                          sim_reply *out, luo_err *err)
{
    int32_t n;
    *found = NULL;
    if (!shared_region) return LUO_OK;
    const departure *at = list_departures(arena, key, &n);
    if (!at) return luo_err_nomem(err);
    uint64_t place = atomic_load(&shared_region->bucket[bucket_of(key)]);
    for (; place; place = shared_at(place)->next)
        if (is_same(shared_at(place), key, at, n)) {
            *found = shared_at(place);
            return take_reply(arena, *found, key->places, out, err);
        }
    return LUO_OK;
}

/* Room for so many bytes; NULL: there is none. */
static sim_shared *take_room(size_t bytes, uint64_t *place)
{
    if (atomic_load(&shared_region->used) + bytes > SIM_SHARE_BYTES) return NULL;
    *place = atomic_fetch_add(&shared_region->used, (bytes + 15) / 16 * 16);
    /* others may have taken what was left */
    return *place + bytes > SIM_SHARE_BYTES ? NULL
                                            : (sim_shared *)((char *)shared_region + *place);
}

void sim_share_put(luo_arena *scratch, const sim_share_key *key, const sim_reply *reply)
{
    int32_t n;
    bool all;
    uint64_t place;
    const sim_head *head = &reply->head;
    const int32_t nlinks = key->places->nlinks;
    if (!shared_region || head->nrecords > 0) return;
    const departure *at = list_departures(scratch, key, &n);
    const luo_link_use *links = gather_links(scratch, key->places, reply, &all);
    if (!at || !links || !all) return;
    const size_t bytes = sizeof(sim_shared) + (size_t)n * sizeof *at +
                         runs_bytes(reply->parts, head->n, sizeof *reply->parts) +
                         runs_bytes(reply->compute_s, head->n, sizeof(double)) +
                         runs_bytes(reply->predicted_s, head->n, sizeof(double)) +
                         runs_bytes(links, nlinks, sizeof *links) +
                         runs_bytes(reply->comm, head->ncomm, sizeof *reply->comm);
    sim_shared *to = take_room(bytes, &place);
    if (!to) return;
    *to = (sim_shared){.config = key->config,
                       .programs = key->programs,
                       .update = key->update,
                       .ndevices = key->places->ndevices,
                       .nlinks = nlinks,
                       .ndepartures = n,
                       .head = *head};
    if (n > 0) memcpy(to + 1, at, (size_t)n * sizeof *at);
    char *array = (char *)(to + 1) + (size_t)n * sizeof *at;
    array = put_runs(array, reply->parts, head->n, sizeof *reply->parts);
    array = put_runs(array, reply->compute_s, head->n, sizeof(double));
    array = put_runs(array, reply->predicted_s, head->n, sizeof(double));
    array = put_runs(array, links, nlinks, sizeof *links);
    put_runs(array, reply->comm, head->ncomm, sizeof *reply->comm);
    _Atomic uint64_t *bucket = &shared_region->bucket[bucket_of(key)];
    to->next = atomic_load(bucket);
    while (!atomic_compare_exchange_weak(bucket, &to->next, place)) {
    }
}
