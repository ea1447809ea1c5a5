/* Messages that share NICs and uplinks, started at random dates, one NIC changing its speed on the
 * way: SimGrid, with lanes, wires and routes in between, against a slow twin that fills links by
 * max-min fairness. */
#include "tests/prop/prop.h"
#include "tests/sim_fixture.h"

enum { DEVICES_PER_NODE = 3, NODES_MAX = 5, SENDERS_MAX = NODES_MAX * DEVICES_PER_NODE };
static const double nic = 10e9;

typedef struct flow {
    int32_t src, dst; /* devices of different nodes */
    int64_t bytes;
    double start, end;
    double left, rate; /* of the twin */
} flow;

typedef struct traffic {
    int32_t nodes, n;
    int32_t rack[NODES_MAX];
    double uplink; /* 0: one switch */
    int32_t changed; /* node whose NIC changes at change_s to `factor` of its speed */
    double change_s, factor;
    flow flow[SENDERS_MAX];
} traffic;

/* ---- slow twin ---- */

enum { LINKS = 4 * NODES_MAX }; /* NIC out, NIC in, uplink out, uplink in */

static bool crosses(const traffic *t, const flow *f, int link)
{
    const int32_t a = f->src / DEVICES_PER_NODE, b = f->dst / DEVICES_PER_NODE, at = link / 4;
    const bool far = t->uplink > 0 && t->rack[a] != t->rack[b];
    switch (link % 4) {
    case 0: return a == at;
    case 1: return b == at;
    case 2: return far && t->rack[a] == at;
    default: return far && t->rack[b] == at;
    }
}

/* Rates of the flows under way: the link that gives its flows least decides for them, and so on. */
static void fill(traffic *t, const bool *going, double now)
{
    double room[LINKS];
    bool open[SENDERS_MAX];
    for (int l = 0; l < LINKS; l++) room[l] = l % 4 < 2 ? nic : t->uplink;
    for (int l = 0; l < 2 && now >= t->change_s; l++) room[4 * t->changed + l] *= t->factor;
    for (int k = 0; k < t->n; k++) open[k] = going[k];
    for (;;) {
        double least = HUGE_VAL;
        int narrow = -1;
        for (int l = 0; l < LINKS; l++) {
            int users = 0;
            for (int k = 0; k < t->n; k++) users += open[k] && crosses(t, &t->flow[k], l);
            if (users > 0 && room[l] / users < least) {
                least = room[l] / users;
                narrow = l;
            }
        }
        if (narrow < 0) return;
        for (int k = 0; k < t->n; k++) {
            if (!open[k] || !crosses(t, &t->flow[k], narrow)) continue;
            open[k] = false;
            t->flow[k].rate = least;
            for (int l = 0; l < LINKS; l++)
                if (crosses(t, &t->flow[k], l)) room[l] -= least;
        }
    }
}

static void run_twin(traffic *t)
{
    double now = 0;
    int left = t->n;
    for (int k = 0; k < t->n; k++) t->flow[k].left = (double)t->flow[k].bytes;
    while (left > 0) {
        bool going[SENDERS_MAX];
        double next = now < t->change_s ? t->change_s : HUGE_VAL;
        for (int k = 0; k < t->n; k++) going[k] = t->flow[k].start <= now && t->flow[k].left > 0;
        fill(t, going, now);
        for (int k = 0; k < t->n; k++) {
            const flow *f = &t->flow[k];
            if (going[k]) next = fmin(next, now + f->left / f->rate);
            else if (f->left > 0) next = fmin(next, f->start);
        }
        for (int k = 0; k < t->n; k++) {
            flow *f = &t->flow[k];
            if (!going[k]) continue;
            f->left -= f->rate * (next - now);
            if (f->left > 1e-3) continue;
            f->left = 0;
            f->end = next;
            left--;
        }
        now = next;
    }
}

/* ---- the simulator ---- */

/* A device works until its message starts; it receives what comes to it. */
static rig *traffic_rig(const traffic *t)
{
    rig *r = rig_new(&(rig_shape){.nodes = t->nodes, .devices_per_node = DEVICES_PER_NODE,
                                  .nics = 1, .nic_bytes_per_s = nic,
                                  .uplink_bytes_per_s = t->uplink, .rack = t->rack});
    for (int32_t d = 0; d < t->nodes * DEVICES_PER_NODE; d++) {
        const int32_t role = rig_role(r);
        for (int k = 0; k < t->n; k++) {
            if (t->flow[k].src != d) continue;
            const int32_t work = rig_work(r, role, t->flow[k].start);
            rig_after(r, role, rig_p2p(r, role, LUO_STREAM_PP, t->flow[k].bytes, k), work);
        }
        for (int k = 0; k < t->n; k++)
            if (t->flow[k].dst == d) rig_p2p(r, role, LUO_STREAM_PP, 0, k);
        if (r->set.roles[role].ninstr == 0) rig_work(r, role, 1e-3);
        rig_device(r, d, role, 0, d);
        rig_task(r, d, 0, -1);
        for (int32_t i = 0; i < r->set.roles[role].ninstr; i++) {
            const luo_instr *in = &r->set.roles[role].instr[i];
            if (in->kind != LUO_INSTR_P2P) continue;
            const flow *f = &t->flow[in->exchange];
            rig_message(r, d, i, f->src == d ? f->dst : f->src, f->src == d, f->bytes);
        }
    }
    r->trace = true;
    return r;
}

static double end_of_send(const rig *r, const luo_step_result *s, int32_t device)
{
    const luo_role *role = &r->set.roles[rig_program(r, device)->role];
    for (int32_t i = 0; i < s->nrecords; i++)
        if (s->records[i].device == device && role->instr[s->records[i].instr].bytes > 0)
            return s->records[i].end_s;
    return -1;
}

static void draw(traffic *t, luo_rng *rng)
{
    t->nodes = 2 + (int32_t)luo_rng_pick(rng, NODES_MAX - 1);
    t->n = 0;
    t->changed = (int32_t)luo_rng_pick(rng, t->nodes);
    t->change_s = 0.6 * luo_rng_u(rng);
    t->factor = luo_rng_pick(rng, 2) ? 0.1 + 0.9 * luo_rng_u(rng) : 1;
    t->uplink = luo_rng_pick(rng, 2) ? nic * (0.5 + luo_rng_u(rng)) : 0;
    for (int32_t i = 0; i < t->nodes; i++)
        t->rack[i] = (int32_t)luo_rng_pick(rng, i < 2 ? 1 + i : 3);
    for (int32_t d = 0; d < t->nodes * DEVICES_PER_NODE; d++) {
        flow *f = &t->flow[t->n];
        if (luo_rng_pick(rng, 4) == 0) continue;
        const int32_t home = d / DEVICES_PER_NODE;
        const int32_t to = (home + 1 + (int32_t)luo_rng_pick(rng, t->nodes - 1)) % t->nodes;
        *f = (flow){.src = d, .dst = to * DEVICES_PER_NODE + (int32_t)luo_rng_pick(rng, 3)};
        f->bytes = 1 + (int64_t)(2e9 * luo_rng_u(rng));
        f->start = luo_rng_pick(rng, 3) ? 0.4 * luo_rng_u(rng) : 1e-3;
        t->n++;
    }
}

START_TEST(messages_share_links_by_max_min)
{
    int shared = 0, uplinks = 0;
    LUO_PROP_FOR(seed, 100) {
        luo_rng rng = luo_rng_seed(seed);
        traffic t;
        draw(&t, &rng);
        run_twin(&t);
        rig *r = traffic_rig(&t);
        char name[32];
        snprintf(name, sizeof name, "n-%d/nic0", t.changed);
        const luo_change change = {.at_s = t.change_s, .kind = LUO_CHANGE_LINK, .value = t.factor,
                                   .target = luo_cluster_find_link(&r->cluster, name)};
        const luo_step_result s = rig_step_with(r, &change, 1);
        ck_assert_msg(s.status == LUO_OK, "%s", s.text);
        for (int k = 0; k < t.n; k++) {
            const flow *f = &t.flow[k];
            const double got = end_of_send(r, &s, f->src);
            shared += f->end - f->start > 1.01 * (double)f->bytes / nic;
            ck_assert_msg(fabs(got - f->end) <= 1e-6 * f->end,
                          "seed %d, %d to %d: %.9g s, not %.9g", (int)seed, f->src, f->dst, got,
                          f->end);
        }
        uplinks += t.uplink > 0;
        rig_free(r);
    }
    if (!getenv("LUO_CASES")) ck_assert(shared > 300 && uplinks > 30);
}
END_TEST

LUO_MAIN("diff.sim_sharing", messages_share_links_by_max_min, 1)
