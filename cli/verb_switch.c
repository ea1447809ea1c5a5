/* verb_switch.c: `luoshu switch PLAN_A PLAN_B`: bytes per link class, sender, receiver. */
#include <stdlib.h>
#include <string.h>

#include "cli/load.h"

typedef struct job {
    luo_cluster *cluster;
    luo_switch_tensor *tensor;
    int32_t n;
    luo_switch_opts opts;
    luo_switch sw;
    int64_t *sent, *received; /* [device * LUO_LINK_CLASSES + class] */
    int32_t *messages;        /* per device, sent and received */
    double seconds;
} job;

enum { STATE_BYTES = 12, BUCKETS = 10 }; /* master, two moments */

static luo_status read_opts(luo_cli *cli, job *j, luo_err *err)
{
    static const char *const resets[] = {"fused", "bucket", "tensor"};
    int reset;
    j->opts.planner.link_class = luo_cluster_link_class;
    j->opts.planner.link_ctx = j->cluster;
    j->opts.planner_unsaid = !luo_args_has(&cli->args, "planner");
    LUO_TRY(luo_sender_parse(luo_args_get(&cli->args, "planner", "greedy"),
                             &j->opts.planner.sender, err));
    LUO_TRY(luo_args_choice(&cli->args, "reset", 0, resets, 3, &reset, err));
    j->opts.reset = (luo_reset)reset;
    for (int c = 1; c < LUO_LINK_CLASSES; c++) {
        j->opts.planner.bytes_per_s[c] = luo_cluster_class_bytes_per_s(j->cluster, c);
        j->opts.planner.latency_s[c] = 0;
    }
    return luo_cli_dead(cli, &j->opts.planner, err);
}

/* Tensors are matched by name: both plans hold the same model. */
static luo_status read_tensors(luo_cli *cli, job *j, luo_err *err)
{
    luo_model *model;
    luo_plan *plan[2];
    luo_param *param[2];
    int32_t n[2];
    LUO_TRY(luo_cli_model(cli, &model));
    for (int k = 0; k < 2; k++) {
        LUO_TRY(luo_cli_plan_of_part(cli, cli->args.files[k], model, j->cluster, &plan[k]));
        LUO_TRY(luo_plan_params(cli->arena, plan[k], model, &param[k], &n[k], err));
    }
    if (n[0] != n[1])
        return luo_err_set(err, LUO_EINPUT, "plan `%s` has %d parameters, `%s` has %d; both must "
                           "be plans of one model.", cli->args.files[0], n[0], cli->args.files[1],
                           n[1]);
    j->n = n[0];
    j->tensor = LUO_NEW_N(cli->arena, luo_switch_tensor, j->n);
    if (!j->tensor) return luo_err_nomem(err);
    for (int32_t i = 0; i < j->n; i++)
        j->tensor[i] = (luo_switch_tensor){
            param[0][i].name,  param[0][i].state,
            param[1][i].state, param[0][i].shape,
            STATE_BYTES,       param[0][i].layer < 0 ? 0 : param[0][i].layer % BUCKETS};
    return LUO_OK;
}

static luo_status tally(luo_cli *cli, job *j, luo_err *err)
{
    const size_t n = (size_t)j->cluster->ndevices;
    j->sent = LUO_NEW_N(cli->arena, int64_t, n * LUO_LINK_CLASSES);
    j->received = LUO_NEW_N(cli->arena, int64_t, n * LUO_LINK_CLASSES);
    j->messages = LUO_NEW_N(cli->arena, int32_t, n);
    if (!j->sent || !j->received || !j->messages) return luo_err_nomem(err);
    for (int32_t i = 0; i < j->sw.npair; i++) {
        const luo_pair *pair = &j->sw.pair[i];
        j->sent[pair->src * LUO_LINK_CLASSES + pair->link_class] += pair->bytes;
        j->received[pair->dst * LUO_LINK_CLASSES + pair->link_class] += pair->bytes;
        j->messages[pair->src]++;
        j->messages[pair->dst]++;
    }
    return LUO_OK;
}

/* docs/planners.md#cost-of-the-change: the busiest device and class, plus 20 us a message of that
 * device. */
static double seconds(const job *j)
{
    double worst = 0;
    for (int32_t d = 0; d < j->cluster->ndevices; d++)
        for (int c = 1; c < LUO_LINK_CLASSES; c++) {
            const int64_t out = j->sent[d * LUO_LINK_CLASSES + c];
            const int64_t in = j->received[d * LUO_LINK_CLASSES + c];
            const double rate = j->opts.planner.bytes_per_s[c];
            const double bytes = (double)(out > in ? out : in);
            if (bytes <= 0 || rate <= 0) continue;
            const double s = bytes / rate + 20e-6 * j->messages[d];
            if (s > worst) worst = s;
        }
    return worst;
}

typedef struct largest {
    int32_t device, link_class;
    int64_t bytes;
} largest;

/* The largest sender in the worst class that carries anything. */
static largest find_largest(const job *j)
{
    largest best = {-1, 0, 0};
    for (int c = LUO_LINK_CLASSES - 1; c > 0 && best.device < 0; c--)
        for (int32_t d = 0; d < j->cluster->ndevices; d++)
            if (j->sent[d * LUO_LINK_CLASSES + c] > best.bytes)
                best = (largest){d, c, j->sent[d * LUO_LINK_CLASSES + c]};
    return best;
}

static bool any(const int64_t *bytes)
{
    for (int c = 0; c < LUO_LINK_CLASSES; c++)
        if (bytes[c]) return true;
    return false;
}

static void json_classes(luo_jsonw *json, const char *key, const int64_t *bytes)
{
    luo_jsonw_open(json, key, '[');
    for (int c = 0; c < 4; c++) luo_jsonw_int(json, NULL, bytes[c]);
    luo_jsonw_close(json);
}

static void json_sides(luo_jsonw *json, const char *key, const job *j, const int64_t *bytes)
{
    luo_jsonw_open(json, key, '[');
    for (int32_t d = 0; d < j->cluster->ndevices; d++) {
        if (!any(bytes + d * LUO_LINK_CLASSES)) continue;
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_int(json, "device", d);
        json_classes(json, "bytes", bytes + d * LUO_LINK_CLASSES);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
}

static void print_json(luo_cli *cli, const job *j)
{
    luo_jsonw *json = &cli->json;
    luo_str region = {0};
    const largest l = find_largest(j);
    json_classes(json, "bytes", j->sw.class_bytes);
    luo_jsonw_int(json, "messages", j->sw.nsend);
    luo_jsonw_int(json, "pairs", j->sw.npair);
    luo_jsonw_open(json, "largest", '{');
    luo_jsonw_int(json, "device", l.device);
    luo_jsonw_int(json, "class", l.link_class);
    luo_jsonw_int(json, "bytes", l.bytes);
    luo_jsonw_close(json);
    json_sides(json, "senders", j, j->sent);
    json_sides(json, "receivers", j, j->received);
    luo_jsonw_open(json, "lost", '[');
    for (int32_t i = 0; i < j->sw.nlost; i++) {
        luo_str_clear(&region);
        luo_region_print(&region, &j->sw.lost[i].region);
        luo_jsonw_open(json, NULL, '{');
        luo_jsonw_text(json, "tensor", j->tensor[j->sw.lost[i].tensor].name);
        luo_jsonw_text(json, "region", luo_str_get(&region));
        luo_jsonw_int(json, "device", j->sw.lost[i].dev);
        luo_jsonw_close(json);
    }
    luo_jsonw_close(json);
    luo_jsonw_num(json, "seconds", j->seconds, 9);
    luo_str_free(&region);
}

static void print_sides(FILE *out, const char *word, const job *j, const int64_t *bytes)
{
    fprintf(out, "\n%-9s %18s %18s %18s\n", word, "class1_bytes", "class2_bytes", "class3_bytes");
    for (int32_t d = 0; d < j->cluster->ndevices; d++) {
        const int64_t *b = bytes + d * LUO_LINK_CLASSES;
        if (any(b))
            fprintf(out, "%9d %18lld %18lld %18lld\n", d, (long long)b[1], (long long)b[2],
                    (long long)b[3]);
    }
}

static void print_text(const luo_cli *cli, const job *j)
{
    FILE *out = luo_cli_out(cli);
    const int64_t *b = j->sw.class_bytes;
    const largest l = find_largest(j);
    fprintf(out, "bytes class1 %lld class2 %lld class3 %lld (total %lld; copied locally %lld)\n",
            (long long)b[1], (long long)b[2], (long long)b[3], (long long)(b[1] + b[2] + b[3]),
            (long long)j->sw.local_bytes);
    fprintf(out, "sends %lld  messages %d  unchanged shards %lld\n", (long long)j->sw.nsend,
            j->sw.npair, (long long)j->sw.rebinds);
    if (l.device >= 0)
        fprintf(out, "largest sender: device %d, class %d, %lld bytes\n", l.device, l.link_class,
                (long long)l.bytes);
    fprintf(out, "closed-form time %.6f s\n", j->seconds);
    print_sides(out, "sender", j, j->sent);
    print_sides(out, "receiver", j, j->received);
    for (int32_t i = 0; i < j->sw.nlost; i++) {
        luo_str text = {0};
        luo_region_print(&text, &j->sw.lost[i].region);
        fprintf(out, "lost: %s %s for device %d\n", j->tensor[j->sw.lost[i].tensor].name,
                luo_str_get(&text), j->sw.lost[i].dev);
        luo_str_free(&text);
    }
}

static luo_status plan_switch(luo_cli *cli, luo_err *err)
{
    job j = {0};
    LUO_TRY(luo_cli_cluster(cli, &j.cluster));
    LUO_TRY(read_opts(cli, &j, err));
    LUO_TRY(read_tensors(cli, &j, err));
    const luo_status st = luo_switch_plan(cli->arena, j.tensor, j.n, &j.opts, &j.sw, err);
    if (st != LUO_OK && st != LUO_ELOST) return st;
    LUO_TRY(tally(cli, &j, err));
    j.seconds = seconds(&j);
    if (cli->as_json) print_json(cli, &j);
    else print_text(cli, &j);
    return st;
}

luo_status luo_verb_switch_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 2, 2, "two plans are"));
    const luo_status st = plan_switch(cli, &err);
    /* Readers have told their errors already. */
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
