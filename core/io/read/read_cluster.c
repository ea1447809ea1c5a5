/* read_cluster.c: cluster.yaml with its profiles into a finished luo_cluster
 * (docs/formats.md#luoshucluster1). */
#include <stdio.h>
#include <string.h>

#include "core/base/devset.h"
#include "core/io/builtin.h"
#include "core/io/document/doc_table.h"
#include "core/io/document/nested.h"
#include "core/io/hostlist.h"
#include "core/io/read/read.h"

/* ---- the file as it is read; a number that is not given is 0 ---- */

typedef struct mesh_yaml {
    int32_t a, b, lanes;
} mesh_yaml;
typedef struct scale_up_yaml {
    luo_scale_up kind;
    double bandwidth, latency;
} scale_up_yaml;
typedef struct pcie_yaml {
    double bandwidth, latency, socket;
    int32_t devices_per_switch, sockets;
} pcie_yaml;
typedef struct nics_yaml {
    int32_t count, attach;
    double bandwidth, latency;
} nics_yaml;
typedef struct host_yaml {
    double cores, memory, disk_read, disk_write;
} host_yaml;
typedef struct group_yaml {
    const char *name, *profile, *site;
    int32_t nodes, devices_per_node;
    double base_slowdown;
    const char **profiles, **racks, **hosts;
    mesh_yaml *mesh;
    uint32_t profiles_count, racks_count, hosts_count, mesh_count;
    scale_up_yaml scale_up;
    pcie_yaml pcie;
    nics_yaml nics;
    host_yaml host;
} group_yaml;
typedef struct line_yaml {
    const char *a, *b;
    double bandwidth, latency;
} line_yaml;
typedef struct fabric_yaml {
    luo_fabric kind;
    double hop, uplink;
    line_yaml *lines;
    uint32_t lines_count;
} fabric_yaml;
typedef struct storage_yaml {
    double read, write;
} storage_yaml;
typedef struct health_yaml {
    const char *target;
    int32_t state;
    double slowdown;
} health_yaml;
typedef struct cluster_yaml {
    const char *schema, *name, *standby;
    group_yaml *groups;
    health_yaml *health;
    uint32_t groups_count, health_count;
    fabric_yaml fabric;
    storage_yaml storage;
} cluster_yaml;

#define OPT LUO_DOC_OPT
#define REQ LUO_DOC_REQ

#define GBYTES_PER_S LUO_OF(LUO_Q_BANDWIDTH, 1e9)
#define LATENCY LUO_OF_OR_0(LUO_Q_LATENCY, 1e-6)
#define SLOTS LUO_OF(LUO_Q_SLOTS, 1)
#define SLOWDOWN LUO_OF(LUO_Q_SLOWDOWN, 1)

static const luo_doc_word scale_ups[] = {
    {"none", LUO_SCALE_UP_NONE}, {"nvswitch", LUO_SCALE_UP_NVSWITCH}, {"mesh", LUO_SCALE_UP_MESH}};
static const luo_doc_word fabrics[] = {LUO_FABRIC_LIST(LUO_DOC_WORD_ROW)};
static const luo_doc_word attaches[] = {{"slot", 0}, {"shared", 1}};
static const luo_doc_word states[] = {{"down", 0}, {"slow", 1}};

static const luo_doc_schema text_entry = LUO_DOC_SCALAR_OF(LUO_DOC_STRING, char *, LUO_DOC_ANY);

#include "core/io/read/fields/cluster_fields.inc"
static const luo_doc_schema schema = LUO_DOC_STRUCT_OF(cluster_yaml, cluster_fields, NULL);

const luo_doc_kind luo_doc_cluster = {"cluster", &schema};

/* ---- what needs more than one key ---- */

/* Hosts as Slurm writes them, "gpu-[001-003]", one by one. */
static void expand_hosts(luo_doc *doc, const luo_doc_node *at, group_yaml *yaml)
{
    luo_str list = {0};
    luo_err err = {0};
    const char *const *names;
    int32_t n;
    for (uint32_t i = 0; i < yaml->hosts_count; i++)
        luo_str_addf(&list, "%s%s", i ? "," : "", yaml->hosts[i]);
    if (strchr(luo_str_get(&list), '[')) {
        if (luo_hostlist_expand(doc->arena, list.at, &names, &n, &err) == LUO_OK) {
            yaml->hosts = (const char **)names;
            yaml->hosts_count = (uint32_t)n;
        } else {
            luo_doc_error(doc, luo_doc_get(at, "hosts"), "%s", err.text);
        }
    }
    luo_str_free(&list);
}

static bool name_good(const char *name)
{
    if (*name < 'a' || *name > 'z') return false;
    for (; *name; name++)
        if (!((*name >= 'a' && *name <= 'z') || (*name >= '0' && *name <= '9') || *name == '_'))
            return false;
    return true;
}

static void check_scale_up(luo_doc *doc, const luo_doc_node *at, const group_yaml *yaml)
{
    const luo_doc_node *up = luo_doc_get(at, "scale_up"),
                       *links = luo_doc_get(at, "scale_up_links");
    const luo_doc_node *bandwidth = luo_doc_get(up, "bandwidth_gbytes_per_s");
    const luo_doc_node *latency = luo_doc_get(up, "latency_us");
    const luo_doc_node *idle = bandwidth ? bandwidth : latency;
    if (up && yaml->scale_up.kind != LUO_SCALE_UP_NONE && !bandwidth)
        luo_doc_missing(doc, up, "bandwidth_gbytes_per_s");
    if (up && yaml->scale_up.kind == LUO_SCALE_UP_NONE && idle)
        luo_doc_error_key(doc, idle,
                          "`%s` has no meaning with `kind` none; choose `nvswitch` or "
                          "`mesh`, or leave it out.",
                          idle->key);
    if (yaml->scale_up.kind == LUO_SCALE_UP_MESH && yaml->mesh_count == 0)
        luo_doc_missing(doc, at, "scale_up_links");
    if (yaml->scale_up.kind != LUO_SCALE_UP_MESH && links)
        luo_doc_error_key(doc, links,
                          "`scale_up_links` belongs to `scale_up` of kind `mesh`; "
                          "leave it out or change the kind.");
}

static void check_profiles(luo_doc *doc, const luo_doc_node *at, const group_yaml *yaml)
{
    const luo_doc_node *one = luo_doc_get(at, "profile"), *each = luo_doc_get(at, "profiles");
    if (!one && !each) luo_doc_missing(doc, at, "profile");
    if (one && each)
        luo_doc_error_key(doc, each,
                          "`profile` and `profiles` are both given; leave out `profiles` where all "
                          "devices of a node are of one type, else `profile`.");
    if (each && yaml->profiles_count != (uint32_t)yaml->devices_per_node)
        luo_doc_error(doc, each,
                      "`profiles` has %u entries for %d devices of a node; one per device, in "
                      "order of slots, is expected.",
                      yaml->profiles_count, yaml->devices_per_node);
}

static void check_group(luo_doc *doc, const luo_doc_node *at, group_yaml *yaml, bool several)
{
    const luo_doc_node *name = luo_doc_get(at, "name"), *racks = luo_doc_get(at, "racks");
    const luo_doc_node *hosts = luo_doc_get(at, "hosts");
    if (!name_good(yaml->name))
        luo_doc_error(doc, name,
                      "`name` is `%.60s`; a to z, digits and _ are expected, a letter "
                      "first.",
                      yaml->name);
    expand_hosts(doc, at, yaml);
    if (racks && yaml->racks_count != 1 && yaml->racks_count != (uint32_t)yaml->nodes)
        luo_doc_error(doc, racks,
                      "`racks` has %u entries for %d nodes; one, or one per node, is "
                      "expected.",
                      yaml->racks_count, yaml->nodes);
    if (hosts && yaml->hosts_count != (uint32_t)yaml->nodes)
        luo_doc_error(doc, hosts, "`hosts` has %u entries for %d nodes; one per node is expected.",
                      yaml->hosts_count, yaml->nodes);
    for (uint32_t i = 0; i < yaml->hosts_count; i++)
        if (!luo_cluster_is_host_name(yaml->hosts[i]))
            luo_doc_error(doc,
                          (uint32_t)hosts->n == yaml->hosts_count ? luo_doc_nth(hosts, i) : hosts,
                          "`%.60s` is no name of a host; letters, digits, `.`, `-` and `_` are "
                          "expected, a letter or digit first.",
                          yaml->hosts[i]);
    if (several && !luo_doc_get(at, "nics"))
        luo_doc_error(doc, at,
                      "key `nics` is missing; it is required when there is more than one "
                      "node.");
    check_profiles(doc, at, yaml);
    check_scale_up(doc, at, yaml);
}

static void check_all(luo_doc *doc, const cluster_yaml *yaml)
{
    const luo_doc_node *groups = luo_doc_get(doc->root, "node_groups");
    const luo_doc_node *health = luo_doc_get(doc->root, "health");
    int64_t nodes = 0;
    for (uint32_t i = 0; i < yaml->groups_count; i++) nodes += yaml->groups[i].nodes;
    if (yaml->groups_count == 0)
        luo_doc_error(doc, groups, "`node_groups` is empty; one group or more is expected.");
    if (nodes > 1 && !luo_doc_get(doc->root, "fabric"))
        luo_doc_error(doc, doc->root,
                      "key `fabric` is missing; it is required when there is more "
                      "than one node.");
    const luo_doc_node *at = groups->first;
    for (uint32_t i = 0; i < yaml->groups_count; i++, at = at->next)
        check_group(doc, at, &yaml->groups[i], nodes > 1);
    at = health ? health->first : NULL;
    for (uint32_t i = 0; i < yaml->health_count; i++, at = at->next) {
        const luo_doc_node *slow = luo_doc_get(at, "slowdown");
        if (yaml->health[i].state == 1 && !slow) luo_doc_missing(doc, at, "slowdown");
        if (yaml->health[i].state == 0 && slow)
            luo_doc_error_key(doc, slow,
                              "`slowdown` has no meaning with `state` down; leave it "
                              "out.");
    }
}

/* ---- into the arena ---- */

static void take_links(luo_node_group *group, const group_yaml *yaml, const luo_doc_node *at)
{
    group->scale_up = yaml->scale_up.kind;
    group->scale_up_bytes_per_s = yaml->scale_up.bandwidth * 1e9;
    group->scale_up_latency_s = yaml->scale_up.latency * 1e-6;
    group->has_pcie = luo_doc_get(at, "pcie") != NULL;
    group->pcie_bytes_per_s = yaml->pcie.bandwidth * 1e9;
    group->pcie_latency_s = yaml->pcie.latency * 1e-6;
    group->socket_bytes_per_s = yaml->pcie.socket * 1e9;
    group->devices_per_switch = yaml->pcie.devices_per_switch;
    group->sockets = yaml->pcie.sockets;
    group->nics = yaml->nics.count;
    group->nic_bytes_per_s = yaml->nics.bandwidth * 1e9;
    group->nic_latency_s = yaml->nics.latency * 1e-6;
    group->nic_shared = yaml->nics.attach == 1;
    group->host_cores = yaml->host.cores;
    group->host_memory_bytes = yaml->host.memory * 1073741824.0;
    group->disk_read_bytes_per_s = yaml->host.disk_read * 1e9;
    group->disk_write_bytes_per_s = yaml->host.disk_write * 1e9;
}

static void take_group(luo_doc *doc, luo_node_group *group, const group_yaml *yaml,
                       const luo_doc_node *at)
{
    luo_mesh_link *mesh = LUO_NEW_N(doc->arena, luo_mesh_link, yaml->mesh_count);
    if (!mesh) luo_doc_nomem(doc);
    for (uint32_t i = 0; mesh && i < yaml->mesh_count; i++)
        mesh[i] = (luo_mesh_link){yaml->mesh[i].a, yaml->mesh[i].b, yaml->mesh[i].lanes};
    group->name = yaml->name;
    group->site = yaml->site;
    group->nodes = yaml->nodes;
    group->devices_per_node = yaml->devices_per_node;
    group->base_slowdown = yaml->base_slowdown;
    group->racks = yaml->racks_count ? yaml->racks : NULL;
    group->nracks = (int32_t)yaml->racks_count;
    group->hosts = yaml->hosts_count ? yaml->hosts : NULL;
    group->nmesh = mesh ? (int32_t)yaml->mesh_count : 0;
    group->mesh = mesh;
    take_links(group, yaml, at);
}

static void take_lines(luo_doc *doc, luo_cluster *cluster, const fabric_yaml *yaml)
{
    luo_site_link *link = LUO_NEW_N(doc->arena, luo_site_link, yaml->lines_count);
    if (!link) luo_doc_nomem(doc);
    for (uint32_t i = 0; link && i < yaml->lines_count; i++)
        link[i] = (luo_site_link){yaml->lines[i].a, yaml->lines[i].b,
                                  yaml->lines[i].bandwidth * 1e9, yaml->lines[i].latency * 1e-6};
    cluster->site_links = link;
    cluster->nsite_links = link ? (int32_t)yaml->lines_count : 0;
}

static void take_health(luo_doc *doc, luo_cluster *cluster, const cluster_yaml *yaml)
{
    luo_health *health = LUO_NEW_N(doc->arena, luo_health, yaml->health_count);
    const luo_doc_node *list = luo_doc_get(doc->root, "health");
    const luo_doc_node *at = list ? list->first : NULL;
    if (!health) luo_doc_nomem(doc);
    for (uint32_t i = 0; health && i < yaml->health_count; i++, at = at->next) {
        const luo_doc_node *target = luo_doc_get(at, "target");
        health[i] = (luo_health){yaml->health[i].target, yaml->health[i].state == 0,
                                 yaml->health[i].slowdown, target->line, target->col};
    }
    cluster->health = health;
    cluster->nhealth = health ? (int32_t)yaml->health_count : 0;
}

/* Several groups and slots may name one profile: it is read once. */
typedef struct shelf {
    luo_doc *doc;
    const luo_files *files;
    uint32_t n;
    struct {
        const char *text;
        const luo_profile *profile;
    } *at;
} shelf;

static const luo_profile *find_profile(shelf *on, const luo_doc_node *node)
{
    luo_doc *doc = on->doc;
    luo_profile *profile = NULL;
    luo_source src;
    for (uint32_t k = 0; k < on->n; k++)
        if (strcmp(on->at[k].text, node->text) == 0) return on->at[k].profile;
    if (luo_nested_named(doc, on->files, node, LUO_BUILTIN_PROFILES, &src) == LUO_OK) {
        const luo_diag *before = doc->diags->last;
        const luo_status st =
            luo_read_profile_text(doc->arena, &src, on->files, &profile, doc->diags);
        if (st != LUO_OK && doc->st == LUO_OK) doc->st = st;
        luo_nested_trail(doc, before, "profile", node);
    }
    on->at[on->n].text = node->text;
    on->at[on->n++].profile = profile;
    return profile;
}

static void take_profiles(shelf *on, luo_node_group *group, const luo_doc_node *at)
{
    const luo_doc_node *one = luo_doc_get(at, "profile"), *each = luo_doc_get(at, "profiles");
    const luo_profile **profiles =
        LUO_NEW_N(on->doc->arena, const luo_profile *, each ? each->n : 0);
    int32_t n = 0;
    bool several = false;
    if (!profiles) luo_doc_nomem(on->doc);
    if (one) group->profile = find_profile(on, one);
    for (one = each && profiles ? each->first : NULL; one; one = one->next) {
        profiles[n] = find_profile(on, one);
        several |= profiles[n++] != profiles[0];
    }
    if (n > 0) group->profile = profiles[0];
    if (several) group->profiles = profiles;
}

static luo_cluster *take(luo_doc *doc, const luo_files *files, const cluster_yaml *yaml)
{
    luo_cluster *cluster = LUO_NEW(doc->arena, luo_cluster);
    luo_node_group *group = LUO_NEW_N(doc->arena, luo_node_group, yaml->groups_count);
    shelf on = {.doc = doc, .files = files};
    uint32_t names = yaml->groups_count;
    for (uint32_t i = 0; i < yaml->groups_count; i++) names += yaml->groups[i].profiles_count;
    on.at = luo_arena_calloc(doc->arena, names, sizeof *on.at);
    if (!cluster || !group || !on.at) {
        luo_doc_nomem(doc);
        return NULL;
    }
    cluster->name = yaml->name;
    cluster->groups = group;
    cluster->ngroups = (int32_t)yaml->groups_count;
    cluster->fabric = yaml->fabric.kind;
    cluster->hop_latency_s = yaml->fabric.hop * 1e-6;
    cluster->rack_uplink_bytes_per_s = yaml->fabric.uplink * 1e9;
    cluster->storage_read_bytes_per_s = yaml->storage.read * 1e9;
    cluster->storage_write_bytes_per_s = yaml->storage.write * 1e9;
    const luo_doc_node *at = luo_doc_get(doc->root, "node_groups")->first;
    for (int32_t i = 0; i < cluster->ngroups; i++, at = at->next) {
        take_group(doc, &group[i], &yaml->groups[i], at);
        take_profiles(&on, &group[i], at);
    }
    take_lines(doc, cluster, &yaml->fabric);
    take_health(doc, cluster, yaml);
    return cluster;
}

/* ---- the whole ---- */

static void take_standby(luo_doc *doc, luo_cluster *cluster)
{
    const luo_doc_node *at = luo_doc_get(doc->root, "standby");
    int64_t devices = 0;
    int32_t *dev;
    luo_err err;
    if (!at) return;
    for (int32_t i = 0; i < cluster->ngroups; i++)
        devices += (int64_t)cluster->groups[i].nodes * cluster->groups[i].devices_per_node;
    const int32_t limit = devices < LUO_DEVICES_MAX ? (int32_t)devices : LUO_DEVICES_MAX;
    const luo_status st =
        luo_devset_parse(doc->arena, at->text, false, limit, &dev, &cluster->nstandby, &err);
    if (st == LUO_OK)
        cluster->standby = dev;
    else
        luo_doc_error(doc, at, "`standby` is no device set: %s", err.text);
}

/* luo_cluster_finish knows no lines: a key or a group it names gives the place. */
static const luo_doc_node *place_of(const luo_doc *doc, const luo_cluster *cluster,
                                    const char *says)
{
    const luo_doc_node *groups = luo_doc_get(doc->root, "node_groups"), *group = NULL;
    const luo_doc_node *at = groups->first;
    char word[80];
    for (int32_t i = 0; i < cluster->ngroups; i++, at = at->next) {
        snprintf(word, sizeof word, "`%s`", cluster->groups[i].name);
        if (strstr(says, word)) group = at;
    }
    const char *tick = strchr(says, '`');
    const size_t n = tick ? strcspn(tick + 1, "`") : 0;
    snprintf(word, sizeof word, "%.*s", (int)(n < 79 ? n : 79), tick ? tick + 1 : "");
    const luo_doc_node *fabric = luo_doc_get(doc->root, "fabric");
    const luo_doc_node *holders[] = {group, fabric, doc->root};
    for (int i = 0; i < 3; i++)
        if (luo_doc_get(holders[i], word)) return luo_doc_get(holders[i], word);
    if (group) return group;
    return strncmp(says, "fabric", 6) == 0 && fabric ? fabric : groups;
}

/* Tables of other links are told at the profile that has them. */
static void tell_of_tables(luo_doc *doc, const luo_cluster *cluster, int32_t kind,
                           const luo_doc_node *at)
{
    static const char *const classes[] = {LUO_LINK_CLASS_LIST(LUO_WORD_TEXT)};
    const luo_node_group *group = &cluster->groups[cluster->kinds[kind].group];
    const char *name = luo_device_kind_profile(cluster, kind)->name;
    luo_tables_note note[LUO_TABLES_NOTES];
    const int32_t n = luo_cost_tables_elsewhere(cluster, kind, note);
    for (int32_t i = 0; i < n; i++) {
        const char *class = classes[note[i].class];
        const double here = note[i].declared * 1e-9, there = note[i].measured * 1e-9;
        if (here <= 0)
            luo_diags_add(doc->diags, LUO_NOTE, LUO_OK, doc->src->name, at->line, at->col,
                          "`%s` of profile `%s` were measured over %s, which does not join devices "
                          "of `%s`; the formula without tables takes their place.",
                          note[i].table, name, class, group->name);
        else if (there > 0)
            luo_diags_add(doc->diags, LUO_NOTE, LUO_OK, doc->src->name, at->line, at->col,
                          "`%s` of profile `%s` were measured over %s of %g GB/s; for the %g GB/s "
                          "of `%s` the part that grows with bytes is scaled.",
                          note[i].table, name, class, there, here, group->name);
        else
            luo_diags_add(doc->diags, LUO_WARNING, LUO_OK, doc->src->name, at->line, at->col,
                          "profile `%s` does not tell over which links its `%s` were measured, so "
                          "that they stand for %s of any bandwidth, up to what %g GB/s carry in "
                          "`%s`; give it `tables_%s_gbytes_per_s`.",
                          name, note[i].table, class, here, group->name, class);
    }
}

/* A mesh whose profile has curves for some numbers of its devices alone. */
static void tell_of_mesh(luo_doc *doc, const luo_cluster *cluster, int32_t kind,
                         const luo_doc_node *at)
{
    const luo_node_group *group = &cluster->groups[cluster->kinds[kind].group];
    const luo_profile *profile = luo_device_kind_profile(cluster, kind);
    const uint64_t without = luo_cost_mesh_without(group, profile);
    char list[256] = "";
    size_t len = 0;
    if (!without) return;
    for (int32_t n = 2; n <= group->devices_per_node; n++)
        if (without >> (n - 1) & 1 && len < sizeof list - 8)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%d", len ? ", " : "", n);
    luo_diags_add(doc->diags, LUO_NOTE, LUO_OK, doc->src->name, at->line, at->col,
                  "profile `%s` has no `collective_times` for %s devices of the mesh `%s`; the "
                  "formula without tables takes their place.",
                  profile->name, list, group->name);
}

/* Where its profile is named. */
static const luo_doc_node *place_of_kind(const luo_doc *doc, const luo_device_kind *kind)
{
    const luo_doc_node *group = luo_doc_get(doc->root, "node_groups")->first;
    for (int32_t i = 0; i < kind->group; i++) group = group->next;
    const luo_doc_node *each = luo_doc_get(group, "profiles");
    if (!each) return luo_doc_get(group, "profile");
    each = each->first;
    for (int32_t i = 0; i < kind->slot; i++) each = each->next;
    return each;
}

static void finish(luo_doc *doc, luo_cluster *cluster)
{
    luo_err err = {0};
    if (doc->st != LUO_OK) return;
    const luo_status st = luo_cluster_finish(doc->arena, cluster, &err);
    for (int32_t k = 0; st == LUO_OK && k < cluster->nkinds; k++) {
        const luo_doc_node *at = place_of_kind(doc, &cluster->kinds[k]);
        tell_of_tables(doc, cluster, k, at);
        tell_of_mesh(doc, cluster, k, at);
    }
    if (st == LUO_OK) return;
    const luo_doc_node *at = place_of(doc, cluster, err.text);
    doc->st = st;
    luo_diags_add(doc->diags, LUO_ERROR, st, doc->src->name, err.line ? err.line : at->line,
                  err.line ? err.col : at->col, "%s", err.text);
}

luo_status luo_read_cluster_changed(luo_arena *arena, const luo_source *src,
                                    const luo_files *files, const luo_overrides *overrides,
                                    luo_cluster **out, luo_diags *diags)
{
    luo_doc doc = {.arena = arena, .src = src, .diags = diags};
    void *data = NULL;
    luo_cluster *cluster = NULL;
    luo_doc_parse(&doc);
    luo_doc_override_all(&doc, overrides);
    luo_doc_check(&doc, &luo_doc_cluster);
    if (doc.st == LUO_OK && luo_doc_load(&doc, &schema, &data) == LUO_OK) {
        check_all(&doc, data);
        cluster = take(&doc, files, data);
    }
    if (cluster) {
        take_standby(&doc, cluster);
        finish(&doc, cluster);
    }
    if (doc.st == LUO_OK) *out = cluster;
    return doc.st;
}

luo_status luo_read_cluster_text(luo_arena *arena, const luo_source *src, const luo_files *files,
                                 luo_cluster **out, luo_diags *diags)
{
    return luo_read_cluster_changed(arena, src, files, NULL, out, diags);
}

luo_status luo_read_cluster(luo_arena *arena, const char *path, luo_cluster **out, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_cluster_text(arena, &src, NULL, out, diags);
}
