/* Random policies, events and processes: ranges from tiny to absurd. */
#include "tests/storm/storm.h"

/* ---- policies ---- */

static void add_detector(storm_case *c, luo_str *s)
{
    if (storm_one_in(c, 3))
        luo_str_addf(s, ", threshold_slowdown: %.4g",
                     storm_decade(c, 1, storm_pick(c, 4) ? 3 : 1e6));
    if (storm_one_in(c, 4)) luo_str_addf(s, ", replan_gap: %.4g", storm_decade(c, 1e-3, 10));
    if (storm_one_in(c, 4)) luo_str_addf(s, ", window_steps: %d", 1 + storm_pick(c, 8));
}

static void add_planning(storm_case *c, luo_str *s)
{
    luo_str_addf(s, ", planner_s: %.6g", storm_one_in(c, 3) ? 0 : storm_decade(c, 1e-5, 1));
}

static void add_restart(storm_case *c, luo_str *s)
{
    if (storm_pick(c, 3))
        luo_str_addf(s, ", restart_s: %.6g", storm_one_in(c, 4) ? 0 : storm_decade(c, 1e-4, 10));
    if (storm_one_in(c, 2))
        luo_str_addf(s, ", payback_steps: %d", storm_one_in(c, 2) ? 0 : storm_pick(c, 1000000));
}

static void add_malleus(storm_case *c, luo_str *s)
{
    static const char *const ranks[] = {"filled", "steady", "event"};
    static const char *const modes[] = {"async", "sync", "auto"};
    if (storm_one_in(c, 3)) luo_str_addf(s, ", plan_mode: %s", modes[storm_pick(c, 3)]);
    if (storm_one_in(c, 3)) luo_str_addf(s, ", rank: %s", ranks[storm_pick(c, 3)]);
    if (storm_one_in(c, 3)) luo_str_addf(s, ", top_k: %d", 1 + storm_pick(c, 40));
    if (storm_one_in(c, 4)) luo_str_add(s, ", always_switch: true");
    if (storm_one_in(c, 4)) luo_str_add(s, ", grouping: split2");
    if (storm_one_in(c, 4)) luo_str_add(s, ", dp: auto");
    if (storm_one_in(c, 4)) luo_str_addf(s, ", reentry_probes: %d", storm_pick(c, 8));
}

enum {
    STATIC,
    RESTART,
    REBALANCE,
    OOBLECK,
    SPARES,
    DROP_REPLICA,
    REROUTE,
    MALLEUS,
    ORACLE,
    POLICIES
};

static void add_policy(storm_case *c, int k)
{
    static const char *const names[POLICIES] = {"static",       "restart", "rebalance",
                                                "oobleck",      "spares",  "drop_replica",
                                                "reroute",      "malleus", "oracle"};
    luo_str s = {0};
    luo_str_addf(&s, "name: %s", names[k]);
    if (c->planned && storm_one_in(c, 8))
        luo_str_addf(&s, ", planner: {name: %s}", storm_pick(c, 2) ? "uniform" : "malleus");
    if (k != ORACLE) add_detector(c, &s);
    if (k != ORACLE && k != STATIC) add_planning(c, &s);
    if (k == RESTART || k == OOBLECK || k == SPARES || k == MALLEUS) add_restart(c, &s);
    if (k == DROP_REPLICA && storm_one_in(c, 3)) luo_str_add(&s, ", lost_batch: lose");
    if (k == RESTART && storm_one_in(c, 4)) luo_str_add(&s, ", strict_uniform: true");
    if (k == MALLEUS) add_malleus(c, &s);
    storm_add(c, STORM_POLICIES, luo_str_get(&s));
    luo_str_free(&s);
}

enum { PADDING, PACK_STATIC, PACK_DYNAMIC, UNIFORM_BEST, HOTSPA, ONE_PLAN, HYDRAULIS, LENGTHS };

static void add_length_policy(storm_case *c, int k, int number)
{
    static const char *const names[LENGTHS] = {"padding",      "pack_static", "pack_dynamic",
                                               "uniform_best", "hotspa",      "one_plan",
                                               "hydraulis"};
    static const char *const stragglers[] = {"dispatch", "none", "joint"};
    static const char *const context[] = {"[2]", "[2, 4]", "[4]"};
    luo_str s = {0};
    luo_str_addf(&s, "name: %s, label: p%d", names[k], number);
    add_detector(c, &s);
    add_planning(c, &s);
    if (storm_one_in(c, 3)) luo_str_addf(&s, ", ahead: %d", storm_pick(c, 12));
    if (storm_one_in(c, 4)) luo_str_addf(&s, ", workers: %d", 1 + storm_pick(c, 3));
    if (storm_one_in(c, 4)) luo_str_addf(&s, ", context_parallel: %s", context[storm_pick(c, 3)]);
    if (k != PADDING && storm_pick(c, 3))
        luo_str_addf(&s, ", stragglers: %s", stragglers[storm_pick(c, k == HYDRAULIS ? 3 : 2)]);
    if (k >= UNIFORM_BEST && storm_one_in(c, 4)) luo_str_add(&s, ", score: max");
    if (k >= UNIFORM_BEST && storm_one_in(c, 4)) luo_str_addf(&s, ", kicks: %d", storm_pick(c, 9));
    if (k >= ONE_PLAN && storm_one_in(c, 4)) luo_str_add(&s, ", dispatch: public");
    if (k == HYDRAULIS && storm_pick(c, 4)) luo_str_add(&s, ", rank: objective");
    storm_add(c, STORM_POLICIES, luo_str_get(&s));
    luo_str_free(&s);
}

static void make_length_policies(storm_case *c)
{
    const int n = 1 + storm_pick(c, 2);
    for (int i = 0; i < n; i++)
        add_length_policy(c, storm_pick(c, 2) ? HYDRAULIS : storm_pick(c, LENGTHS), i);
}

void storm_make_policies(storm_case *c)
{
    if (c->uneven) {
        make_length_policies(c);
        return;
    }
    const int first = storm_pick(c, POLICIES), n = 1 + storm_pick(c, 3);
    for (int i = 0; i < n; i++) add_policy(c, (first + i * (1 + n)) % POLICIES);
    if (storm_one_in(c, 3) && c->nlines == 1) add_policy(c, (first + 1) % POLICIES);
    if (n == 1 && first == ORACLE && c->nlines == 1) add_policy(c, STATIC);
}

/* ---- targets ---- */

static void add_node(storm_case *c, luo_str *s)
{
    luo_str_addf(s, "\"node:%s\"", c->cluster->nodes[storm_pick(c, c->cluster->nnodes)].name);
}

static void add_devices(storm_case *c, luo_str *s)
{
    const int32_t n = c->cluster->ndevices, a = storm_pick(c, n), b = storm_pick(c, n);
    switch (storm_pick(c, 6)) {
    case 0:
        luo_str_addf(s, "\"device:[%d-%d]\"", a < b ? a : b, a < b ? b : a);
        break;
    case 1:
        luo_str_addf(s, "\"any device:[%d-%d]\"", a < b ? a : b, a < b ? b : a);
        break;
    case 2:
        add_node(c, s);
        break;
    case 3:
        if (storm_one_in(c, 3))
            luo_str_addf(s, "\"any node:%s\"",
                         c->cluster->groups[c->cluster->devices[a].group].name);
        else if (storm_one_in(c, 3))
            luo_str_addf(s, "\"rack:%s\"", c->cluster->racks[storm_pick(c, c->cluster->nracks)]);
        else if (storm_one_in(c, 3))
            luo_str_addf(s, "\"group:%s\"", c->cluster->groups[c->cluster->devices[a].group].name);
        else
            luo_str_addf(s, "\"device:%d\"", b);
        break;
    default:
        luo_str_addf(s, "\"device:%d\"", a);
    }
}

static void add_links(storm_case *c, luo_str *s)
{
    const luo_cluster *k = c->cluster;
    const luo_node *node = &k->nodes[storm_pick(c, k->nnodes)];
    if (storm_one_in(c, 6) && k->nnodes > 1) {
        if (k->fabric == LUO_FABRIC_TWO_TIER && storm_pick(c, 2))
            luo_str_addf(s, "\"switch:%s/leaf\"", k->racks[node->rack]);
        else
            luo_str_add(s, "\"switch:spine\"");
    } else if (storm_one_in(c, 4) && k->groups[node->group].scale_up == LUO_SCALE_UP_NVSWITCH) {
        luo_str_addf(s, "\"switch:%s/nvswitch\"", node->name);
    } else if (storm_one_in(c, 4)) {
        luo_str_addf(s, "\"any link:%s\"", k->groups[node->group].name);
    } else {
        luo_str_addf(s, "\"link:%s\"", k->links[storm_pick(c, k->nlinks)].name);
    }
}

/* ---- events ---- */

static void add_trigger(storm_case *c, luo_str *s)
{
    const double a = storm_seconds(c), b = storm_seconds(c);
    const int k = storm_pick(c, 20), m = storm_pick(c, 20);
    switch (storm_pick(c, 8)) {
    case 0:
        luo_str_addf(s, ", between_s: [%.9g, %.9g]", a < b ? a : b, a < b ? b : a);
        break;
    case 1:
        luo_str_addf(s, ", between_steps: [%d, %d]", k < m ? k : m, k < m ? m : k);
        break;
    case 2:
        luo_str_addf(s, ", per_step_probability: %.6g", storm_decade(c, 1e-3, 1));
        break;
    case 3:
        luo_str_addf(s, ", at_s: %.9g", a);
        break;
    case 4:
        luo_str_addf(s, ", at_s: %.9g", storm_decade(c, 1e-4, 0.2));
        break;
    default:
        luo_str_addf(s, ", at_step: %d", k);
    }
}

static void add_life(storm_case *c, luo_str *s)
{
    const int k = storm_pick(c, 6);
    if (k == 0) return; /* for ever */
    if (k == 1)
        luo_str_addf(s, ", duration_steps: %d", 1 + storm_pick(c, 10));
    else
        luo_str_addf(s, ", duration_s: %.9g", storm_seconds(c));
}

static double draw_slowdown(storm_case *c)
{
    return storm_decade(c, 1, storm_one_in(c, 4) ? 1e6 : storm_one_in(c, 3) ? 100 : 8);
}

static void add_slowdown(storm_case *c, luo_str *s)
{
    const double a = draw_slowdown(c), b = draw_slowdown(c);
    if (storm_pick(c, 3))
        luo_str_addf(s, ", slowdown: %.9g", a);
    else
        luo_str_addf(s, ", slowdown_between: [%.9g, %.9g]", a < b ? a : b, a < b ? b : a);
}

static void add_link_change(storm_case *c, luo_str *s)
{
    const int which = storm_pick(c, 3);
    if (which != 1)
        luo_str_addf(s, ", bandwidth_factor: %.9g",
                     storm_decade(c, storm_pick(c, 4) ? 0.01 : 1e-6, 1));
    if (which != 0)
        luo_str_addf(s, ", extra_latency_us: %.6g",
                     storm_decade(c, 1e-3, storm_pick(c, 4) ? 1e3 : 1e8));
}

static const luo_event_kind kinds[] = {
    LUO_EVENT_STRAGGLER, LUO_EVENT_STRAGGLER, LUO_EVENT_STRAGGLER, LUO_EVENT_FAIL,
    LUO_EVENT_FAIL,      LUO_EVENT_FAIL,      LUO_EVENT_JOIN,      LUO_EVENT_LEAVE,
    LUO_EVENT_LINK,      LUO_EVENT_FLAP,      LUO_EVENT_LENGTHS};

static void add_what(storm_case *c, luo_str *s, luo_event_kind kind)
{
    switch (kind) {
    case LUO_EVENT_STRAGGLER:
        add_slowdown(c, s);
        if (storm_one_in(c, 4)) luo_str_addf(s, ", ramp_s: %.9g", storm_seconds(c));
        break;
    case LUO_EVENT_LEAVE:
        if (storm_pick(c, 4)) luo_str_addf(s, ", notice_s: %.9g", storm_seconds(c));
        break;
    case LUO_EVENT_LINK:
        add_link_change(c, s);
        break;
    case LUO_EVENT_FLAP:
        luo_str_addf(s, ", down_s: %.9g, up_s: %.9g", storm_decade(c, 1e-3, 10),
                     storm_decade(c, 1e-3, 10));
        break;
    case LUO_EVENT_LENGTHS:
        luo_str_addf(s, ", lengths: {kind: fixed, tokens: %d}", 1 + storm_pick(c, 300));
        break;
    default:
        break;
    }
}

static void add_event(storm_case *c, int i)
{
    const luo_event_kind kind = kinds[storm_pick(c, sizeof kinds / sizeof *kinds)];
    luo_str s = {0};
    luo_str_addf(&s, "id: e%d, kind: %s", i, luo_event_kind_name(kind));
    if (kind != LUO_EVENT_LENGTHS) {
        luo_str_add(&s, ", target: ");
        const bool links = kind == LUO_EVENT_LINK || kind == LUO_EVENT_FLAP;
        const bool any = kind == LUO_EVENT_FAIL || kind == LUO_EVENT_JOIN;
        if (links && storm_one_in(c, 4))
            add_node(c, &s);
        else if (links || (any && storm_one_in(c, 4)))
            add_links(c, &s);
        else
            add_devices(c, &s);
    }
    add_trigger(c, &s);
    add_what(c, &s, kind);
    if (kind != LUO_EVENT_JOIN) add_life(c, &s);
    storm_add(c, STORM_EVENTS, luo_str_get(&s));
    luo_str_free(&s);
}

/* ---- processes ---- */

static void add_drawn_life(storm_case *c, luo_str *s)
{
    switch (storm_pick(c, 4)) {
    case 0:
        luo_str_addf(s, ", duration_s: %.9g", storm_seconds(c));
        break;
    case 1:
        luo_str_addf(s, ", life: {distribution: exponential, mean_s: %.9g}", storm_seconds(c));
        break;
    case 2:
        luo_str_addf(s, ", life: {distribution: lognormal, median_s: %.9g, sigma: %.4g}",
                     storm_seconds(c), storm_decade(c, 0.1, 2));
        break;
    default:
        break;
    }
}

static void add_process(storm_case *c, int i)
{
    static const luo_event_kind some[] = {LUO_EVENT_STRAGGLER, LUO_EVENT_FAIL, LUO_EVENT_LINK};
    const luo_event_kind kind = some[storm_pick(c, 3)];
    const bool weibull = storm_one_in(c, 2);
    const double mean_s = storm_decade(c, 1e-2, 100);
    luo_str s = {0};
    luo_str_addf(&s, "id: p%d, kind: %s, target: \"device:[0-%d]\", distribution: %s, mean_s: %.6g",
                 i, luo_event_kind_name(kind), storm_pick(c, c->cluster->ndevices),
                 weibull ? "weibull" : "exponential", mean_s);
    if (weibull) luo_str_addf(&s, ", shape: %.4g", storm_decade(c, 0.5, 3));
    if (kind == LUO_EVENT_STRAGGLER) add_slowdown(c, &s);
    if (kind == LUO_EVENT_LINK) add_link_change(c, &s);
    if (kind == LUO_EVENT_FAIL)
        add_drawn_life(c, &s);
    else
        luo_str_addf(&s, ", duration_s: %.9g",
                     mean_s * storm_decade(c, 1e-3, 3)); /* a few at once */
    storm_add(c, STORM_PROCESSES, luo_str_get(&s));
    luo_str_free(&s);
}

/* Causes of a table: failures of devices, nodes, links and the whole job. */
static void add_causes(storm_case *c)
{
    luo_str s = {0};
    luo_str_add(&s, "cause,kind,scope,count,life_median_s,life_sigma,value\n");
    luo_str_addf(&s, "hbm,fail,device,%d,%.6g,0.5,\n", 1 + storm_pick(c, 9), storm_seconds(c));
    luo_str_addf(&s, "power,fail,node,%d,%.6g,,\n", 1 + storm_pick(c, 9), storm_seconds(c));
    luo_str_addf(&s, "cable,link,link,%d,%.6g,,0.5\n", 1 + storm_pick(c, 9), storm_seconds(c));
    luo_str_addf(&s, "software,fail,job,%d,,,\n", 1 + storm_pick(c, 9));
    luo_str_addf(&s, "heat,straggler,device,%d,%.6g,1,2.5\n", 1 + storm_pick(c, 9),
                 storm_seconds(c));
    storm_write(c, "causes.csv", luo_str_get(&s));
    luo_str_clear(&s);
    luo_str_addf(&s,
                 "id: causes, kind: causes, target: \"device:[0-%d]\", file: causes.csv, "
                 "observed_devices: %d, observed_s: %.6g",
                 c->cluster->ndevices - 1, 1 + storm_pick(c, 1000), storm_decade(c, 1, 1e5));
    storm_add(c, STORM_PROCESSES, luo_str_get(&s));
    luo_str_free(&s);
}

void storm_make_events(storm_case *c)
{
    const int n = storm_one_in(c, 8) ? 0 : storm_one_in(c, 8) ? 30 : 1 + storm_pick(c, 6);
    for (int i = 0; i < n; i++) add_event(c, i);
    for (int i = 0; i < 2; i++)
        if (storm_one_in(c, 5)) add_process(c, i);
    if (storm_one_in(c, 10)) add_causes(c);
}
