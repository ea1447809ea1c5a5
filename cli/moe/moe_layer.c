/* moe_layer.c: `luoshu moe layer`: moe_layer.csv. */
#include "core/plan/moe/moe_layer.h"
#include "cli/load.h"
#include "cli/moe/moe_sim.h"
#include "cli/sync/sync_write.h"

enum {
    STEPS = 21,
    PARTS = 20,
    EVERY = 5
}; /* of the exponent; lines between those that the text has */

typedef struct call {
    const luo_model *model;
    luo_moe_layer_in in;
    luo_moe_layer layer[STEPS]; /* exponent i / PARTS */
} call;

static const char *const passes[] = {"forward", "backward"};

/* The most devices that experts can be dealt to evenly. */
static int32_t most_devices(const luo_model *model, const luo_cluster *cluster)
{
    int64_t n = model->moe.experts;
    while (n > cluster->ndevices || model->moe.experts % n != 0) n--;
    return (int32_t)n;
}

static luo_status read_opts(luo_cli *cli, const luo_moe_sim *sim, call *c, luo_err *err)
{
    luo_model *model;
    int64_t devices;
    static const char *const names[] = {LUO_ALLTOALL_LIST(LUO_WORD_TEXT)};
    int exchange;
    LUO_TRY(luo_cli_model(cli, &model));
    if (model->moe.experts == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` has no experts; one of family moe is expected.",
                           model->name);
    LUO_TRY(luo_args_int(&cli->args, "expert-parallel", most_devices(model, sim->cluster), 1,
                         sim->cluster->ndevices, &devices, err));
    LUO_TRY(luo_args_choice(&cli->args, "exchange", 0, names, LUO_ALLTOALL_KINDS, &exchange, err));
    c->model = model;
    c->in = (luo_moe_layer_in){.model = model,
                               .cluster = sim->cluster,
                               .stack = &sim->stack,
                               .dtype = model->dtype,
                               .devices = (int32_t)devices,
                               .exchange = (luo_alltoall_kind)exchange};
    return luo_args_int(&cli->args, "tokens", 4096, 1, 1 << 24, &c->in.tokens, err);
}

static luo_status write_table(const char *dir, const call *c, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_MOE_LAYER), err);
    for (int i = 0; i < 2 * STEPS && st == LUO_OK; i++) {
        const luo_moe_layer *layer = &c->layer[i / 2];
        luo_table_num(&table, LUO_COL_MOE_LAYER_exponent, (double)(i / 2) / PARTS);
        luo_table_num(&table, LUO_COL_MOE_LAYER_expert_ratio, layer->expert_ratio);
        luo_table_num(&table, LUO_COL_MOE_LAYER_device_ratio, layer->device_ratio);
        luo_table_text(&table, LUO_COL_MOE_LAYER_pass, passes[i % 2]);
        for (int part = 0; part < (int)LUO_MOE_PARTS; part++)
            luo_table_num(&table, LUO_COL_MOE_LAYER_gate_s + part, layer->seconds[i % 2][part]);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

static void write_facts(luo_jsonw *json, const void *ctx)
{
    const call *c = ctx;
    luo_jsonw_text(json, "kind", "layer");
    luo_jsonw_text(json, "model", c->model->name);
    luo_jsonw_text(json, "cluster", c->in.cluster->name);
    luo_jsonw_int(json, "experts", c->model->moe.experts);
    luo_jsonw_int(json, "devices", c->in.devices);
    luo_jsonw_int(json, "tokens", c->in.tokens);
    luo_jsonw_text(json, "exchange", luo_alltoall_kind_name(c->in.exchange));
}

static void print_text(luo_cli *cli, const char *dir, const call *c)
{
    FILE *out = luo_cli_out(cli);
    fprintf(out,
            "%s: %lld experts on %d device%s, %lld tokens each, exchange %s; ms, forward and "
            "backward\n",
            c->model->name, (long long)c->model->moe.experts, (int)c->in.devices,
            c->in.devices == 1 ? "" : "s", (long long)c->in.tokens,
            luo_alltoall_kind_name(c->in.exchange));
    fprintf(out, "%8s %8s %9s %9s %9s %9s %9s\n", "exponent", "busiest", "gate", "transform",
            "exchange", "experts", "all");
    for (int i = 0; i < STEPS; i += EVERY) {
        const luo_moe_layer *layer = &c->layer[i];
        double all = 0;
        fprintf(out, "%8.2f %8.3f", (double)i / PARTS, layer->expert_ratio);
        for (int part = 0; part < (int)LUO_MOE_PARTS; part++) {
            const double s = layer->seconds[0][part] + layer->seconds[1][part];
            fprintf(out, " %9.4f", 1e3 * s);
            all += s;
        }
        fprintf(out, " %9.4f\n", 1e3 * all);
    }
    fprintf(out, "%s/moe_layer.csv\n%s/summary.json\n", dir, dir);
}

luo_status luo_moe_layers(luo_cli *cli, luo_moe_sim *sim, luo_err *err)
{
    call c = {0};
    LUO_TRY(read_opts(cli, sim, &c, err));
    for (int i = 0; i < STEPS; i++) {
        c.in.exponent = (double)i / PARTS;
        LUO_TRY(luo_moe_layer_of(&c.in, &c.layer[i], err));
    }
    LUO_TRY(luo_folder_take(cli, sim->dir, true, 0, NULL, &sim->set, err));
    LUO_TRY(write_table(sim->dir, &c, err));
    LUO_TRY(luo_sync_write_summary(cli, sim->dir, write_facts, &c, err));
    print_text(cli, sim->dir, &c);
    return LUO_OK;
}
