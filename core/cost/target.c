/* Targets of events and health (docs/formats.md#targets). */
#include <stdio.h>
#include <string.h>

#include "core/base/devset.h"
#include "core/base/words.h"
#include "core/cost/cluster.h"

typedef struct parser {
    luo_arena *arena;
    const luo_cluster *c;
    const char *text; /* all of it, for sentences */
    luo_err *err;
} parser;

#define WRONG(p, st, fmt, ...) \
    luo_err_set((p)->err, (st), "`target` is `%s`; " fmt, (p)->text, __VA_ARGS__)

static luo_status unexpected(const parser *p, const char *what)
{
    return WRONG(p, LUO_EINPUT, "%s.", what);
}

/* A decimal number without sign or leading zeros that fills all of text; -1 if it is none. */
static int32_t whole_number(const char *text)
{
    int64_t v = 0;
    if (!*text || strlen(text) > 9 || (text[0] == '0' && text[1])) return -1;
    for (; *text >= '0' && *text <= '9'; text++) v = 10 * v + (*text - '0');
    return *text ? -1 : (int32_t)v;
}

static int32_t find_group(const luo_cluster *cluster, const char *name, size_t len)
{
    for (int32_t i = 0; i < cluster->ngroups; i++)
        if (strlen(cluster->groups[i].name) == len &&
            strncmp(cluster->groups[i].name, name, len) == 0)
            return i;
    return -1;
}

static luo_status unknown_group(const parser *p, const char *name, size_t len)
{
    const char *names[64];
    char word[64];
    luo_str text = {0};
    int n = 0;
    for (; n < p->c->ngroups && n < 64; n++) names[n] = p->c->groups[n].name;
    snprintf(word, sizeof word, "%.*s", (int)len, name);
    luo_words_expected(&text, word, names, n);
    const luo_status st =
        text.failed ? luo_err_nomem(p->err)
                    : WRONG(p, LUO_EINPUT, "no group is named `%s`; %s", word, luo_str_get(&text));
    luo_str_free(&text);
    return st;
}

/* "h20-1" -> node number; names of groups hold no `-`. */
static luo_status read_node(const parser *p, const char *name, size_t len, int32_t *out)
{
    const char *dash = memchr(name, '-', len);
    if (!dash) return unexpected(p, "a node is named GROUP-I, as `h20-1`");
    const int32_t g = find_group(p->c, name, (size_t)(dash - name));
    if (g < 0) return unknown_group(p, name, (size_t)(dash - name));
    char digits[16] = "x";
    const size_t n = len - (size_t)(dash + 1 - name);
    if (n > 0 && n < sizeof digits) snprintf(digits, sizeof digits, "%.*s", (int)n, dash + 1);
    const int32_t i = whole_number(digits);
    if (i < 0 || i >= p->c->groups[g].nodes) {
        if (p->c->groups[g].nodes == 1)
            return WRONG(p, LUO_EINPUT, "group `%s` has node 0 only.", p->c->groups[g].name);
        return WRONG(p, LUO_EINPUT, "group `%s` has nodes 0 to %d.", p->c->groups[g].name,
                     p->c->groups[g].nodes - 1);
    }
    int32_t first = 0;
    for (int32_t k = 0; k < g; k++) first += p->c->groups[k].nodes;
    *out = first + i;
    return LUO_OK;
}

/* "12", "[0-3,7]" or "h20-1/3". Pre of the caller: at least one device comes out. */
static luo_status read_devices(const parser *p, const char *text, int32_t **dev, int32_t *n)
{
    const char *slash = strchr(text, '/');
    if (slash) {
        int32_t node = 0;
        LUO_TRY(read_node(p, text, (size_t)(slash - text), &node));
        const int32_t slots = p->c->groups[p->c->nodes[node].group].devices_per_node;
        const int32_t slot = whole_number(slash + 1);
        if (slot < 0 || slot >= slots)
            return WRONG(p, LUO_EINPUT, "node `%s` has slots 0 to %d.", p->c->nodes[node].name,
                         slots - 1);
        *dev = LUO_NEW_N(p->arena, int32_t, 1);
        if (!*dev) return luo_err_nomem(p->err);
        (*dev)[0] = p->c->nodes[node].first_device + slot;
        *n = 1;
        return LUO_OK;
    }
    if (text[0] != '[' && whole_number(text) < 0)
        return WRONG(p, LUO_EPARSE, "%s.", "a device id, a device set `[0-3]` or an alias "
                                           "`h20-1/3` is expected");
    luo_err inner = {0};
    const luo_status st =
        luo_devset_parse(p->arena, text, true, p->c->ndevices, dev, n, &inner);
    if (st != LUO_OK) return WRONG(p, st, "%s", inner.text);
    if (*n == 0) return unexpected(p, "at least one device is expected");
    return LUO_OK;
}

typedef struct luo_target_choice choice;

/* Links of a node of one kind follow each other from `first`; appends them, returns how many. */
static int32_t add_run(const luo_cluster *cluster, int32_t node, int32_t first, int32_t *out)
{
    if (first < 0) return 0;
    int32_t n = 0;
    const luo_link *link = &cluster->links[first];
    for (; first + n < cluster->nlinks && link[n].kind == link->kind && link[n].node == node; n++)
        if (out) out[n] = first + n;
    return n;
}

static int32_t add_links(const luo_cluster *cluster, int32_t node, int32_t *out)
{
    const luo_node *at = &cluster->nodes[node];
    const int32_t first[] = {at->nvlink, at->pcie, at->pcie_switch, at->socket, at->nic};
    int32_t n = 0;
    for (int i = 0; i < 5; i++) n += add_run(cluster, node, first[i], out ? out + n : NULL);
    return n;
}

/* Devices and links of whole nodes. */
static luo_status take_nodes(const parser *p, const int32_t *nodes, int32_t n, choice *out)
{
    const luo_cluster *cluster = p->c;
    int32_t ndev = 0, nlink = 0;
    for (int32_t i = 0; i < n; i++) {
        ndev += cluster->groups[cluster->nodes[nodes[i]].group].devices_per_node;
        nlink += add_links(cluster, nodes[i], NULL);
    }
    int32_t *dev = LUO_NEW_N(p->arena, int32_t, ndev), *link = LUO_NEW_N(p->arena, int32_t, nlink);
    if (!dev || !link) return luo_err_nomem(p->err);
    ndev = nlink = 0;
    for (int32_t i = 0; i < n; i++) {
        const luo_node *node = &cluster->nodes[nodes[i]];
        for (int32_t s = 0; s < cluster->groups[node->group].devices_per_node; s++)
            dev[ndev++] = node->first_device + s;
        nlink += add_links(cluster, nodes[i], link + nlink);
    }
    *out = (choice){out->name, ndev, nlink, dev, link};
    return LUO_OK;
}

typedef bool (*link_test)(const luo_cluster *c, const luo_link *l, int32_t a, int32_t b);

static luo_status take_links(const parser *p, link_test on, int32_t a, int32_t b, choice *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->c->nlinks; i++) n += on(p->c, &p->c->links[i], a, b);
    int32_t *link = LUO_NEW_N(p->arena, int32_t, n);
    if (!link) return luo_err_nomem(p->err);
    n = 0;
    for (int32_t i = 0; i < p->c->nlinks; i++)
        if (on(p->c, &p->c->links[i], a, b)) link[n++] = i;
    *out = (choice){out->name, 0, n, NULL, link};
    return LUO_OK;
}

/* a: rack; b: rail or -1 */
static bool on_leaf(const luo_cluster *cluster, const luo_link *link, int32_t a, int32_t b)
{
    if (b >= 0 && link->index != b) return false;
    return (link->kind == LUO_LINK_UPLINK && link->rack == a) ||
           (link->kind == LUO_LINK_NIC && cluster->nodes[link->node].rack == a);
}

static bool on_spine(const luo_cluster *cluster, const luo_link *link, int32_t a, int32_t b)
{
    (void)a, (void)b;
    return link->kind == LUO_LINK_LINE ||
           link->kind == (cluster->fabric == LUO_FABRIC_SINGLE ? LUO_LINK_NIC : LUO_LINK_UPLINK);
}

static bool on_nvswitch(const luo_cluster *cluster, const luo_link *link, int32_t a, int32_t b)
{
    (void)cluster, (void)b;
    return link->kind == LUO_LINK_NVLINK && link->node == a;
}

static int32_t find_rack(const luo_cluster *cluster, const char *name, size_t len)
{
    for (int32_t i = 0; i < cluster->nracks; i++)
        if (strlen(cluster->racks[i]) == len && strncmp(cluster->racks[i], name, len) == 0)
            return i;
    return -1;
}

static luo_status unknown_rack(const parser *p, const char *name, size_t len)
{
    return WRONG(p, LUO_EINPUT, "no rack is named `%.*s`, the first is `%s`.", (int)len, name,
                 p->c->racks[0]);
}

static luo_status read_leaf(const parser *p, const char *name, const char *slash, choice *out)
{
    const luo_cluster *cluster = p->c;
    const int32_t rack = find_rack(cluster, name, (size_t)(slash - name));
    if (rack < 0) return unknown_rack(p, name, (size_t)(slash - name));
    if (cluster->fabric == LUO_FABRIC_SINGLE)
        return unexpected(p, "a `single` fabric has no leaves, its one switch is `spine`");
    int32_t rail = -1;
    if (cluster->fabric == LUO_FABRIC_RAIL) {
        rail = whole_number(slash + 5);
        if (rail < 0 || rail >= cluster->groups[0].nics)
            return WRONG(p, LUO_EINPUT, "rack `%s` has switches `leaf0` to `leaf%d`.",
                         cluster->racks[rack], cluster->groups[0].nics - 1);
    } else if (slash[5]) {
        return WRONG(p, LUO_EINPUT, "rack `%s` has one switch, `leaf`.", cluster->racks[rack]);
    }
    return take_links(p, on_leaf, rack, rail, out);
}

static luo_status read_switch(const parser *p, const char *name, choice *out)
{
    const char *slash = strrchr(name, '/');
    if (strcmp(name, "spine") == 0) {
        if (p->c->nnodes < 2) return unexpected(p, "a single node has no spine");
        return take_links(p, on_spine, 0, 0, out);
    }
    if (slash && strcmp(slash, "/nvswitch") == 0) {
        int32_t node = 0;
        LUO_TRY(read_node(p, name, (size_t)(slash - name), &node));
        if (p->c->groups[p->c->nodes[node].group].scale_up != LUO_SCALE_UP_NVSWITCH)
            return WRONG(p, LUO_EINPUT, "node `%s` has no nvswitch.", p->c->nodes[node].name);
        return take_links(p, on_nvswitch, node, 0, out);
    }
    if (slash && strncmp(slash, "/leaf", 5) == 0) return read_leaf(p, name, slash, out);
    return unexpected(p, "a switch is `NODE/nvswitch`, `RACK/leaf` (`RACK/leafK` with rails) or "
                         "`spine`");
}

static luo_status read_link(const parser *p, const char *name, choice *out)
{
    const int32_t i = luo_cluster_find_link(p->c, name);
    if (i < 0)
        return unexpected(p, "no link has that name, names are as `h20-1/nic3`, `r0/up` or "
                             "`storage`");
    int32_t *link = LUO_NEW_N(p->arena, int32_t, 1);
    if (!link) return luo_err_nomem(p->err);
    link[0] = i;
    *out = (choice){out->name, 0, 1, NULL, link};
    return LUO_OK;
}

static luo_status read_nodes_of(const parser *p, int32_t group, int32_t rack, choice *out)
{
    int32_t *nodes = LUO_NEW_N(p->arena, int32_t, p->c->nnodes), n = 0;
    if (!nodes) return luo_err_nomem(p->err);
    for (int32_t i = 0; i < p->c->nnodes; i++)
        if (group >= 0 ? p->c->nodes[i].group == group : p->c->nodes[i].rack == rack)
            nodes[n++] = i;
    return take_nodes(p, nodes, n, out);
}

typedef enum target_kind { DEVICE, NODE, GROUP, RACK, SWITCH, LINK, KINDS } target_kind;
static const char *const kinds[KINDS] = {"device", "node", "group", "rack", "switch", "link"};

static luo_status read_one(const parser *p, target_kind kind, const char *name, choice *out)
{
    const size_t len = strlen(name);
    int32_t i = 0, *dev = NULL;
    out->name = p->text;
    switch (kind) {
    case DEVICE:
        LUO_TRY(read_devices(p, name, &dev, &i));
        *out = (choice){out->name, i, 0, dev, NULL};
        return LUO_OK;
    case NODE:
        LUO_TRY(read_node(p, name, len, &i));
        return take_nodes(p, &i, 1, out);
    case GROUP:
        i = find_group(p->c, name, len);
        return i < 0 ? unknown_group(p, name, len) : read_nodes_of(p, i, -1, out);
    case RACK:
        i = find_rack(p->c, name, len);
        return i < 0 ? unknown_rack(p, name, len) : read_nodes_of(p, -1, i, out);
    case SWITCH: return read_switch(p, name, out);
    case LINK:
    case KINDS:
        break;
    }
    return read_link(p, name, out);
}

static luo_status name_choice(const parser *p, const char *kind, const char *name, choice *out)
{
    out->name = luo_arena_printf(p->arena, "%s:%s", kind, name);
    return out->name ? LUO_OK : luo_err_nomem(p->err);
}

static luo_status any_device(const parser *p, const char *name, luo_target *target)
{
    int32_t *dev = NULL, n = 0;
    LUO_TRY(read_devices(p, name, &dev, &n));
    target->choices = LUO_NEW_N(p->arena, choice, n);
    if (!target->choices) return luo_err_nomem(p->err);
    target->nchoices = n;
    for (int32_t i = 0; i < n; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", dev[i]);
        target->choices[i] = (choice){NULL, 1, 0, &dev[i], NULL};
        LUO_TRY(name_choice(p, "device", id, &target->choices[i]));
    }
    return LUO_OK;
}

static luo_status any_node(const parser *p, int32_t g, luo_target *target)
{
    const int32_t n = p->c->groups[g].nodes;
    target->choices = LUO_NEW_N(p->arena, choice, n);
    if (!target->choices) return luo_err_nomem(p->err);
    for (int32_t i = 0; i < p->c->nnodes; i++) {
        if (p->c->nodes[i].group != g) continue;
        choice *at = &target->choices[target->nchoices++];
        LUO_TRY(name_choice(p, "node", p->c->nodes[i].name, at));
        LUO_TRY(take_nodes(p, &i, 1, at));
    }
    return LUO_OK;
}

static luo_status any_link(const parser *p, int32_t g, luo_target *target)
{
    const luo_node_group *group = &p->c->groups[g];
    const int32_t n = group->nodes * group->nics;
    if (n == 0) return WRONG(p, LUO_EINPUT, "group `%s` has no NICs to draw from.", group->name);
    target->choices = LUO_NEW_N(p->arena, choice, n);
    int32_t *ids = LUO_NEW_N(p->arena, int32_t, n);
    if (!target->choices || !ids) return luo_err_nomem(p->err);
    for (int32_t i = 0; i < p->c->nlinks; i++) {
        const luo_link *link = &p->c->links[i];
        if (link->kind != LUO_LINK_NIC || p->c->nodes[link->node].group != g) continue;
        choice *at = &target->choices[target->nchoices];
        ids[target->nchoices] = i;
        *at = (choice){NULL, 0, 1, NULL, &ids[target->nchoices++]};
        LUO_TRY(name_choice(p, "link", link->name, at));
    }
    return LUO_OK;
}

static luo_status read_any(const parser *p, int kind, const char *name, luo_target *target)
{
    target->any = true;
    if (kind == DEVICE) return any_device(p, name, target);
    const int32_t g = find_group(p->c, name, strlen(name));
    if (kind == NODE && g >= 0) return any_node(p, g, target);
    if (kind == LINK && g >= 0) return any_link(p, g, target);
    if (kind == NODE || kind == LINK) return unknown_group(p, name, strlen(name));
    return unexpected(p, "`any` draws a device of a set, a node or a link of a group");
}

static luo_status unknown_kind(const parser *p, const char *word, const char *colon)
{
    char kind[32] = "";
    if (colon) snprintf(kind, sizeof kind, "%.*s", (int)(colon - word), word);
    const char *near = luo_word_nearest(kind, kinds, KINDS);
    if (near) return WRONG(p, LUO_EPARSE, "did you mean `%s:`?", near);
    return WRONG(p, LUO_EPARSE, "%s.",
                 "`device:`, `node:`, `group:`, `rack:`, `switch:` or "
                 "`link:` and a name is expected");
}

/* "any device:[0-3]": whether it draws, the kind and where the name begins. */
static luo_status read_kind(const parser *p, bool *any, int *kind, const char **name)
{
    *any = strncmp(p->text, "any ", 4) == 0;
    const char *word = *any ? p->text + 4 : p->text, *colon = strchr(word, ':');
    for (int i = 0; colon && i < KINDS; i++)
        if (strlen(kinds[i]) == (size_t)(colon - word) &&
            strncmp(kinds[i], word, strlen(kinds[i])) == 0) {
            *kind = i;
            *name = colon + 1;
            return LUO_OK;
        }
    return unknown_kind(p, word, colon);
}

/* Devices of any cluster; an alias `h20-1/3` by its form alone. */
static luo_status check_devices(const parser *p, const char *name)
{
    const char *dash = strchr(name, '-'), *slash = strchr(name, '/');
    int32_t *dev, n;
    luo_err inner = {0};
    if (slash && name[0] != '[' && dash && dash > name && dash + 1 < slash &&
        whole_number(slash + 1) >= 0)
        return LUO_OK;
    if (slash || (name[0] != '[' && whole_number(name) < 0))
        return WRONG(p, LUO_EPARSE, "%s.", "a device id, a device set `[0-3]` or an alias "
                                           "`h20-1/3` is expected");
    const luo_status st =
        luo_devset_parse(p->arena, name, true, LUO_DEVICE_LIMIT, &dev, &n, &inner);
    if (st != LUO_OK) return WRONG(p, st, "%s", inner.text);
    return n ? LUO_OK : unexpected(p, "at least one device is expected");
}

luo_status luo_target_check(luo_arena *arena, const char *text, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    const parser p = {arena, NULL, text, err};
    bool any;
    int kind;
    const char *name;
    luo_status st = read_kind(&p, &any, &kind, &name);
    if (st == LUO_OK && any && kind != DEVICE && kind != NODE && kind != LINK)
        st = unexpected(&p, "`any` draws a device of a set, a node or a link of a group");
    else if (st == LUO_OK && !*name)
        st = unexpected(&p, "a name behind `:` is expected");
    else if (st == LUO_OK && kind == DEVICE)
        st = check_devices(&p, name);
    else if (st == LUO_OK && kind == NODE && !any && !strchr(name, '-'))
        st = unexpected(&p, "a node is named GROUP-I, as `h20-1`");
    luo_arena_reset(arena, mark);
    return st;
}

luo_status luo_target_parse(luo_arena *arena, const luo_cluster *cluster, const char *text,
                            luo_target *out, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(arena);
    luo_target target = {0};
    parser p = {arena, cluster, luo_arena_strdup(arena, text), err};
    if (!p.text) return luo_err_nomem(err);
    bool any;
    int kind = KINDS;
    const char *name = NULL;
    LUO_TRY_OUT(read_kind(&p, &any, &kind, &name));
    target.kind = kind == SWITCH || kind == LINK ? LUO_TARGET_LINKS : LUO_TARGET_DEVICES;
    if (any) {
        LUO_TRY_OUT(read_any(&p, kind, name, &target));
    } else {
        target.nchoices = 1;
        target.choices = LUO_NEW(arena, choice);
        if (!target.choices) LUO_TRY_OUT(luo_err_nomem(err));
        LUO_TRY_OUT(read_one(&p, (target_kind)kind, name, target.choices));
    }
    *out = target;
out:
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    return st;
}
