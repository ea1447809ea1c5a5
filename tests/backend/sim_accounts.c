/* What the simulator tells besides time: records, links, communication. */
#include "tests/begins.h"
#include "tests/sim_programs.h"

#define LAYOUT(t, s, p, m, l) \
    .tp = (t), .stages = (s), .pipelines = (p), .micro_batches = (m), .layers = (l)
static const layout layouts[] = {
    {LAYOUT(4, 1, 1, 2, 2)}, {LAYOUT(2, 2, 2, 3, 2)}, {LAYOUT(4, 2, 3, 4, 1), .nics = 2},
    {LAYOUT(2, 4, 1, 4, 1), .stages_per_node = 2}, {LAYOUT(1, 2, 2, 2, 1)},
};

/* Between nodes: 3 of 4 equal parts leave every NIC twice. */
START_TEST(links_of_one_collective)
{
    static const int32_t dev[] = {0, 1, 2, 3};
    rig *r = rig_new(&(rig_shape){.nodes = 4});
    const int32_t role = rig_role(r), work = rig_work(r, role, 0.1);
    const int32_t sum = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, 1000000000, 0);
    const int32_t group = rig_group(r, LUO_STREAM_DP, 4, dev);
    (void)work; /* beside it */
    r->stack.dp_overlap = true;
    for (int32_t d = 0; d < 4; d++) {
        rig_device(r, d, role, 0, 0);
        rig_task(r, d, 0, -1);
        rig_join(r, d, sum, group);
    }
    r->config.comm = (luo_comm_mode)_i;
    const luo_step_result s = rig_step(r);
    ck_assert_int_eq(s.nlinks, r->cluster.nlinks);
    for (int32_t d = 0; d < 4; d++) {
        const luo_link_use *u = &s.links[r->cluster.nodes[d].nic];
        rig_near(u->bytes_up, 1.5e9, 1e-9, "bytes out");
        rig_near(u->bytes_down, 1.5e9, 1e-9, "bytes in");
        rig_near(u->busy_up_s, 0.15, 1e-6, "busy out");
        ck_assert(s.links[r->cluster.nodes[d].nvlink].bytes_up == 0);
    }
    ck_assert_int_eq(s.ncomm, 1);
    const luo_comm_use *c = &s.comm[0];
    ck_assert(c->group == group && c->coll == LUO_COLL_AR && c->stream == LUO_STREAM_DP);
    ck_assert(c->devices == 4 && c->calls == 1 && c->bytes == 1000000000);
    rig_near(c->busy_s, 0.15, 1e-6, "busy");
    rig_near(c->exposed_s, 0.05, 1e-6, "exposed");
    rig_free(r);
}
END_TEST

/* A message of 1 GB that leaves node 0 by a shared NIC while the device works for 60 ms. */
START_TEST(links_of_one_message)
{
    rig *r = rig_new(&(rig_shape){.nodes = 2, .devices_per_node = 2, .nics = 1});
    const int32_t sender = rig_role(r), receiver = rig_role(r);
    rig_work(r, sender, 0.06);
    const int32_t send = rig_p2p(r, sender, LUO_STREAM_PP, 1000000000, 0);
    const int32_t receive = rig_p2p(r, receiver, LUO_STREAM_PP, 0, 0);
    rig_device(r, 0, sender, 0, 0);
    rig_device(r, 2, receiver, 0, 1);
    rig_task(r, 0, 0, -1);
    rig_task(r, 2, 0, -1);
    rig_message(r, 0, send, 2, true, 1000000000);
    rig_message(r, 2, receive, 0, false, 1000000000);
    const luo_step_result s = rig_step(r);
    const luo_link_use *out = &s.links[r->cluster.nodes[0].nic];
    const luo_link_use *in = &s.links[r->cluster.nodes[1].nic];
    ck_assert(out->bytes_up == 1e9 && out->bytes_down == 0);
    ck_assert(in->bytes_down == 1e9 && in->bytes_up == 0);
    rig_near(out->busy_up_s, 0.1, 1e-6, "busy");
    ck_assert_int_eq(s.ncomm, 1);
    ck_assert(s.comm[0].group == -1 && s.comm[0].exchange == 0 && s.comm[0].calls == 1);
    ck_assert(s.comm[0].bytes == 1000000000 && s.comm[0].devices == 2);
    rig_near(s.comm[0].exposed_s, 0.04, 1e-6, "exposed");
    rig_near(s.parts[0].pp_s, 0.04, 1e-6, "shown");
    rig_near(s.parts[1].pp_s, 0.1, 1e-6, "waited for");
    rig_free(r);
}
END_TEST

/* Three devices of a node send 1 GB each at once. Slots 0 to 0 go by NIC 0, 1 to 2 and 2 to 1 by
 * NIC 1, of 10 GB/s each: the last arrives after 0.2 s, not after the 0.15 s of 3 GB at 20 GB/s. */
START_TEST(uneven_loads_of_nics)
{
    rig *r = rig_new(&(rig_shape){.nodes = 2, .devices_per_node = 3, .nics = 2});
    static const int32_t peer[] = {3, 5, 4, 0, 2, 1};
    const int32_t role[] = {rig_role(r), rig_role(r)};
    const int32_t id[] = {rig_p2p(r, role[0], LUO_STREAM_PP, 1000000000, 0),
                          rig_p2p(r, role[1], LUO_STREAM_PP, 0, 0)};
    for (int32_t d = 0; d < 6; d++) {
        rig_device(r, d, role[d / 3], 0, d / 3);
        rig_task(r, d, 0, -1);
        rig_message(r, d, id[d / 3], peer[d], d < 3, 1000000000);
    }
    r->config.fold = _i;
    const luo_step_result s = rig_step(r);
    rig_near(rig_seconds(&s), 0.2, 1e-6, "the NIC of two");
    const luo_link_use *nic = &s.links[r->cluster.nodes[0].nic];
    ck_assert(nic[0].bytes_up == 1e9 && nic[1].bytes_up == 2e9);
    rig_near(nic[0].busy_up_s, 0.1, 1e-6, "busy");
    rig_free(r);
}
END_TEST

/* Device 3 writes 1 GB to the storage while device 0 reads 2 GB of it: each over its PCIe, its NIC,
 * the uplink of its rack (with `rail`: of its NIC there), and the storage. Nothing else moves. */
START_TEST(links_to_the_storage)
{
    rig *r = rig_new(&(rig_shape){.nodes = 2, .devices_per_node = 2, .uplink_bytes_per_s = 40e9});
    luo_node_group *g = (luo_node_group *)(uintptr_t)r->cluster.groups;
    const bool rail = _i % 2, unlimited = _i / 2;
    g->has_pcie = true;
    g->pcie_bytes_per_s = 50e9;
    if (rail) r->cluster.fabric = LUO_FABRIC_RAIL;
    r->cluster.storage_write_bytes_per_s = unlimited ? 0 : 5e9;
    r->cluster.storage_read_bytes_per_s = 4e9;
    rig_check(r, luo_cluster_finish(r->arena, &r->cluster, &r->err));
    rig_check(r, luo_world_new(r->arena, &r->cluster, &r->world, &r->err));
    const int32_t role[] = {rig_role(r), rig_role(r)};
    for (int k = 0; k < 2; k++) {
        rig_add(r, role[k], (luo_instr){.kind = LUO_INSTR_IO, .stream = LUO_STREAM_IO,
                                        .bytes = k ? 1000000000 : 2000000000});
        rig_device(r, 3 * k, role[k], 0, 0);
        rig_task(r, 3 * k, 0, -1);
    }
    ((luo_op_info *)(uintptr_t)r->set.ops)[1].name = "checkpoint_write";
    const luo_step_result s = rig_step(r);
    const luo_node *node = r->cluster.nodes;
    const int32_t uplink[] = {r->cluster.uplinks[node[0].rack],
                              r->cluster.uplinks[node[1].rack] + (rail ? 1 : 0)};
    const int32_t path[2][3] = {{node[0].pcie, node[0].nic, uplink[0]},
                                {node[1].pcie + 1, node[1].nic + 1, uplink[1]}};
    for (int32_t l = 0; l < s.nlinks; l++) {
        double up = l == r->cluster.storage && !unlimited ? 1e9 : 0;
        double down = l == r->cluster.storage ? 2e9 : 0;
        for (int h = 0; h < 3; h++) {
            if (path[0][h] == l) down = 2e9;
            if (path[1][h] == l) up = 1e9;
        }
        ck_assert_msg(s.links[l].bytes_up == up && s.links[l].bytes_down == down,
                      "%s: %g bytes up, %g down; %g and %g are right", r->cluster.links[l].name,
                      s.links[l].bytes_up, s.links[l].bytes_down, up, down);
    }
    rig_near(s.parts[0].io_s, 0.5, 1e-6, "2 GB at the 4 GB/s of the storage");
    rig_near(s.parts[1].io_s, unlimited ? 0.1 : 0.2, 1e-6, "1 GB at 5 GB/s, or at the NIC's 10");
    rig_free(r);
}
END_TEST

/* busy: the model does not see that transfers overlap, so busy seconds of shared links differ. */
static void same_links(const rig *r, const luo_step_result *a, const luo_step_result *b, bool busy)
{
    for (int32_t i = 0; i < a->nlinks; i++) {
        const luo_link_use *x = &a->links[i], *y = &b->links[i];
        ck_assert_msg(fabs(x->bytes_up - y->bytes_up) <= 1e-9 * x->bytes_up &&
                          fabs(x->bytes_down - y->bytes_down) <= 1e-9 * x->bytes_down,
                      "%s: %.17g %.17g bytes, folded %.17g %.17g", r->cluster.links[i].name,
                      x->bytes_up, x->bytes_down, y->bytes_up, y->bytes_down);
        ck_assert_msg(!busy || fabs(x->busy_up_s - y->busy_up_s) <= 1e-3 * x->busy_up_s + 1e-9,
                      "%s: busy %.9g, folded %.9g", r->cluster.links[i].name, x->busy_up_s,
                      y->busy_up_s);
    }
}

static void same_comm(const luo_step_result *a, const luo_step_result *b)
{
    ck_assert_int_eq(a->ncomm, b->ncomm);
    for (int32_t i = 0; i < a->ncomm; i++) {
        const luo_comm_use *x = &a->comm[i], *y = &b->comm[i];
        ck_assert(x->group == y->group && x->exchange == y->exchange && x->coll == y->coll);
        ck_assert(x->devices == y->devices && x->calls == y->calls && x->bytes == y->bytes);
        ck_assert_msg(fabs(x->busy_s - y->busy_s) <= 1e-3 * x->busy_s &&
                          fabs(x->exposed_s - y->exposed_s) <= 1e-3 * x->busy_s,
                      "row %d: busy %.9g exposed %.9g, folded %.9g %.9g", i, x->busy_s,
                      x->exposed_s, y->busy_s, y->exposed_s);
    }
}

/* Every device's instructions in the order of issue; starts and ends as unfolded. */
static void same_records(const rig *r, const luo_step_result *a, const luo_step_result *b)
{
    luo_arena *arena = luo_arena_new(0);
    int32_t at = 0;
    ck_assert_int_eq(a->nrecords, b->nrecords);
    for (int32_t d = 0; d < r->set.n; d++) {
        const luo_program *p = &r->set.at[d];
        const begins issued = begins_issued(arena, &r->set, p, r->stack.dp_overlap);
        for (int32_t k = 0; k < issued.n; k++, at++) {
            const luo_op_record *x = &a->records[at], *y = &b->records[at];
            const int32_t t = issued.at[k].task, i = issued.at[k].instr;
            ck_assert(x->device == p->device && x->task == t && x->instr == i);
            ck_assert(y->device == p->device && y->task == t && y->instr == i);
            ck_assert(x->status == LUO_OK && x->start_s <= x->end_s);
            ck_assert_msg(fabs(x->end_s - y->end_s) <= 1e-3 * x->end_s,
                          "device %d, task %d, instruction %d ends at %.9g, folded %.9g",
                          p->device, t, i, x->end_s, y->end_s);
        }
    }
    ck_assert_int_eq(at, a->nrecords);
    luo_arena_free(arena);
}

START_TEST(folding_keeps_the_accounts)
{
    rig *r[2];
    luo_step_result s[2];
    for (int k = 0; k < 2; k++) {
        r[k] = step_rig(&layouts[_i / 3]);
        r[k]->config.comm = (luo_comm_mode)(_i % 3);
        r[k]->config.fold = k;
        r[k]->trace = true;
        s[k] = rig_step(r[k]);
    }
    same_links(r[0], &s[0], &s[1], _i % 3 != LUO_COMM_MODEL || layouts[_i / 3].nics == 0);
    same_comm(&s[0], &s[1]);
    same_records(r[0], &s[0], &s[1]);
    rig_free(r[0]);
    rig_free(r[1]);
}
END_TEST

/* Step by step is for rings of up to 1,024 ranks; a run with longer ones says what it did. */
START_TEST(rings_too_long_are_told)
{
    static const int32_t sizes[] = {8, 1025};
    int32_t dev[1025];
    for (int32_t i = 0; i < 1025; i++) dev[i] = i;
    for (int k = 0; k < 2; k++) {
        rig *r = rig_new(&(rig_shape){.nodes = sizes[k]});
        const int32_t role = rig_role(r);
        const int32_t id =
            rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, INT64_C(1) << 30, 0);
        for (int32_t d = 0; d < sizes[k]; d++) {
            rig_device(r, d, role, d, 0);
            rig_task(r, d, 0, -1);
        }
        const int32_t group = rig_group(r, LUO_STREAM_DP, sizes[k], dev);
        for (int32_t d = 0; d < sizes[k]; d++) rig_join(r, d, id, group);
        r->config.comm = LUO_COMM_MESSAGE;
        const luo_step_result s = rig_step(r);
        ck_assert_msg(!s.note == (k == 0), "%d ranks: %s", sizes[k], s.note ? s.note : "no note");
        if (k == 1) ck_assert(strstr(s.note, "1,024"));
        rig_free(r);
    }
}
END_TEST

/* A part that is not the last keeps its gradients (4 bytes read, 4 written) or adds them to the sum
 * (4 more read); the last one reads the sum and updates (34 bytes). Whether GPUs compute folded or
 * one by one, or a CPU rank does; no part is taken for another that came before. */
START_TEST(parts_update_once)
{
    static const double bytes[] = {34, 8, 12, 12, 38, 34};
    rig *r = rig_new(&(rig_shape){.cores = _i == 2 ? 1 : 0});
    const int32_t role = rig_role(r);
    rig_work(r, role, 0.1);
    rig_add(r, role,
            (luo_instr){.kind = LUO_INSTR_COMPUTE,
                        .stream = LUO_STREAM_COMPUTE,
                        .cost = {LUO_COST_OPTIMIZER, {1000000000, LUO_OPTIMIZER_BYTES}}});
    rig_device(r, 0, role, 0, 0);
    rig_task(r, 0, 0, -1);
    r->config.fold = _i != 1;
    r->stack.optimizer_bytes = LUO_OPTIMIZER_BYTES;
    double whole = 0;
    for (int32_t k = 0; k < (int32_t)LUO_ROWS(bytes); k++) {
        const bool part = k > 0 && k < 5;
        if (part)
            r->part = (luo_step_part){.index = k - 1, .n = 4};
        else
            r->part = (luo_step_part){0};
        const luo_step_result s = rig_step(r);
        if (k == 0) whole = rig_seconds(&s) - 0.1;
        ck_assert_double_gt(whole, 0.001);
        rig_near(rig_seconds(&s), 0.1 + whole * bytes[k] / 34, 1e-9, "update");
        rig_near(s.predicted_s[0], rig_seconds(&s), 1e-9, "predicted");
    }
    rig_free(r);
}
END_TEST

LUO_SUITE("backend.sim_accounts", LUO_T_N(links_of_one_collective, 3), LUO_T(links_of_one_message),
          LUO_T_N(uneven_loads_of_nics, 2), LUO_T_N(links_to_the_storage, 4),
          LUO_T_N(folding_keeps_the_accounts, 3 * LUO_ROWS(layouts)),
          LUO_T(rings_too_long_are_told), LUO_T_N(parts_update_once, 3))
