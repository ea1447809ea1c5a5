/* explain_inputs.c: cluster, model and profile as the program sees them. */
#include "cli/explain/explain.h"
#include "core/base/devset.h"

/* "3" or "unlimited", a rate in bytes per second where 0 means the latter. */
static const char *rate(double bytes_per_s, char *buf, size_t size)
{
    if (bytes_per_s > 0) snprintf(buf, size, "%g", bytes_per_s / 1e9);
    else snprintf(buf, size, "unlimited");
    return buf;
}

static const char *memory(double bytes, char *buf, size_t size)
{
    if (bytes > 0) snprintf(buf, size, "%g", bytes / 1073741824.0);
    else snprintf(buf, size, "unlimited");
    return buf;
}

static void print_groups(FILE *out, const luo_cluster *cluster)
{
    char read[32], write[32], host[32];
    fprintf(out, "\n%-12s %8s %10s %10s %10s  %s   (disks in gbytes_per_s)\n", "group", "cores",
            "memory_gib", "disk_read", "disk_write", "nics");
    for (int32_t i = 0; i < cluster->ngroups; i++) {
        const luo_node_group *group = &cluster->groups[i];
        fprintf(out, "%-12s %8g %10s %10s %10s  ", group->name, group->host_cores,
                memory(group->host_memory_bytes, host, sizeof host),
                rate(group->disk_read_bytes_per_s, read, sizeof read),
                rate(group->disk_write_bytes_per_s, write, sizeof write));
        if (group->nics)
            fprintf(out, "%d %s\n", group->nics, group->nic_shared ? "shared" : "by slot");
        else fputs("none\n", out);
    }
}

/* What is not the same for all devices of a group. */
static void print_state(FILE *out, const luo_cluster *cluster)
{
    char read[32], write[32];
    luo_str text = {0};
    fprintf(out, "storage: read %s, write %s gbytes_per_s\n",
            rate(cluster->storage_read_bytes_per_s, read, sizeof read),
            rate(cluster->storage_write_bytes_per_s, write, sizeof write));
    luo_devset_print(&text, cluster->standby, cluster->nstandby);
    fprintf(out, "standby: %s\n", luo_str_get(&text));
    luo_str_free(&text);
    for (int32_t i = 0; i < cluster->nhealth; i++) {
        const luo_health *health = &cluster->health[i];
        if (health->down)
            fprintf(out, "health: %s down\n", health->target);
        else
            fprintf(out, "health: %s slow %.3f\n", health->target, health->slowdown);
    }
}

static void print_nodes(FILE *out, const luo_cluster *cluster)
{
    luo_str types = {0};
    int wide = 12;
    for (int32_t g = 0; g < cluster->ngroups; g++) {
        luo_str_clear(&types);
        luo_node_group_say_profiles(&types, &cluster->groups[g]);
        if ((int)types.len > wide) wide = (int)types.len;
    }
    fprintf(out, "%-12s %-10s %-*s %-8s %-8s %8s  %s\n", "node", "devices", wide, "profile", "rack",
            "site", "slowdown", "host");
    for (int32_t i = 0; i < cluster->nnodes; i++) {
        const luo_node *node = &cluster->nodes[i];
        const luo_node_group *group = &cluster->groups[node->group];
        luo_str_clear(&types);
        luo_node_group_say_profiles(&types, group);
        fprintf(out, "%-12s %4d-%-5d %-*s %-8s %-8s %8.3f  %s\n", node->name, node->first_device,
                node->first_device + group->devices_per_node - 1, wide, luo_str_get(&types),
                cluster->racks[node->rack], cluster->sites[node->site], group->base_slowdown,
                group->hosts ? group->hosts[node->index] : "-");
    }
    luo_str_free(&types);
}

static bool same_links(const luo_link *a, const luo_link *b)
{
    return a->kind == b->kind && a->bytes_per_s == b->bytes_per_s && a->latency_s == b->latency_s;
}

/* By class, the first and how many; equal ones that follow each other are one row. */
static void print_links(FILE *out, const luo_cluster *cluster)
{
    fprintf(out, "\n%-8s %8s %18s %12s  %s\n", "class", "links", "gbytes_per_s", "latency_us",
            "names");
    for (int32_t i = 0, next; i < cluster->nlinks; i = next) {
        const luo_link *link = &cluster->links[i];
        next = i + 1;
        while (next < cluster->nlinks && same_links(link, &cluster->links[next])) next++;
        fprintf(out, "%-8s %8d %18.3f %12.3f  %s%s%s\n", luo_link_kind_name(link->kind), next - i,
                link->bytes_per_s / 1e9, link->latency_s * 1e6, link->name,
                next - i > 1 ? " .. " : "", next - i > 1 ? cluster->links[next - 1].name : "");
    }
}

void luo_explain_cluster(FILE *out, const luo_cluster *cluster)
{
    fprintf(out,
            "cluster %s: %d devices, %d nodes, %d racks, %d links; fabric %s, %.3f us a hop\n\n",
            cluster->name, cluster->ndevices, cluster->nnodes, cluster->nracks, cluster->nlinks,
            luo_fabric_name(cluster->fabric), cluster->hop_latency_s * 1e6);
    print_nodes(out, cluster);
    print_groups(out, cluster);
    print_state(out, cluster);
    print_links(out, cluster);
}

static const char *yes(bool b)
{
    return b ? "true" : "false";
}

/* A comma, but before the first. */
static void part(FILE *out, int *n, const char *key)
{
    fprintf(out, "%s%s ", (*n)++ ? ", " : "", key);
}

/* Keys that most models do not have, those that are given. */
static void print_variants(FILE *out, const luo_model *model)
{
    const struct {
        const char *key;
        bool is;
    } flags[] = {{"parallel_residual", model->parallel_residual},
                 {"shared_norm", model->shared_norm},
                 {"post_norms", model->post_norms},
                 {"norm_offset", model->norm_offset},
                 {"moe.shared_gate", model->moe.shared_gate}};
    const struct {
        const char *key;
        double value, usual;
    } numbers[] = {{"position_offset", (double)model->position_offset, 0},
                   {"rope_local_base", model->rope_local_base, 0},
                   {"partial_rotary", model->partial_rotary, 1},
                   {"embedding_scale", model->embedding_scale, 1},
                   {"attention_scale", model->attention_scale, 0},
                   {"attention_softcap", model->attention_softcap, 0},
                   {"logit_softcap", model->logit_softcap, 0}};
    const luo_window *window = &model->window;
    int64_t cut = 0;
    int n = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].is) part(out, &n, flags[i].key), fputs("true", out);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value > 0 && numbers[i].value != numbers[i].usual)
            part(out, &n, numbers[i].key), fprintf(out, "%g", numbers[i].value);
    if (model->rope.kind != LUO_ROPE_PLAIN)
        part(out, &n, "rope_scaling"),
            fprintf(out, "%s by %g", luo_rope_kind_name(model->rope.kind), model->rope.factor);
    for (int64_t l = 0; l < model->layers; l++) cut += luo_window_of(window, l) > 0;
    if (window->tokens > 0)
        part(out, &n, "sliding_window"),
            fprintf(out, "%lld tokens in %lld layers", (long long)window->tokens, (long long)cut);
    if (n) fputc('\n', out);
}

static void print_layers(FILE *out, const luo_model *model)
{
    fprintf(out, "norm %s eps %g  activation %s  position %s",
            luo_norm_name(model->norm), model->norm_eps, luo_activation_name(model->activation),
            luo_position_name(model->position));
    if (!luo_model_has_attention(model)) {
        fprintf(out,
                "\ntied_embeddings %s  linear_bias %s; no attention: layers are feed-forward\n",
                yes(model->tied_embeddings), yes(model->linear_bias));
        return;
    }
    if (model->position == LUO_POS_ROPE) fprintf(out, " base %g", model->rope_base);
    fprintf(out, "  causal %s\ntied_embeddings %s  linear_bias %s  out_bias %s  qkv_bias %s  "
            "qk_norm %s\n",
            yes(model->causal), yes(model->tied_embeddings), yes(model->linear_bias),
            yes(model->out_bias), yes(model->qkv_bias), yes(model->qk_norm));
    print_variants(out, model);
    if (model->token_types) fprintf(out, "token_types %lld\n", (long long)model->token_types);
    const luo_moe *moe = &model->moe;
    const char *gate = moe->top1 ? "top1" : luo_gate_kind_name(moe->gate);
    if (moe->experts)
        fprintf(out,
                "experts %lld of ffn_hidden %lld, %lld a token (gate %s), capacity_factor %g; "
                "shared %lld of %lld; first_dense_layers %lld, every_layers %lld\n",
                (long long)moe->experts, (long long)moe->expert_ffn_hidden,
                (long long)moe->experts_per_token, gate, moe->capacity_factor,
                (long long)moe->shared_experts, (long long)moe->shared_ffn_hidden,
                (long long)moe->first_dense_layers, (long long)moe->every_layers);
    const luo_latent *latent = &model->latent;
    if (luo_model_is_latent(model))
        fprintf(out,
                "latent attention: q_lora %lld, kv_lora %lld; a head has %lld without and %lld "
                "with positions, values of %lld\n",
                (long long)latent->q_lora, (long long)latent->kv_lora, (long long)latent->nope,
                (long long)latent->rope, (long long)latent->v);
    const luo_image *image = &model->image;
    if (image->height_px)
        fprintf(out, "image %lld x %lld px, %lld channels, patch %lld px; %lld classes\n",
                (long long)image->height_px, (long long)image->width_px, (long long)image->channels,
                (long long)image->patch_px, (long long)model->classes);
}

static void print_tables(FILE *out, const luo_model *model)
{
    const luo_features *features = &model->features;
    luo_dense_layer layer[LUO_DENSE_LAYERS];
    int32_t bottom;
    const int32_t n = luo_model_dense_layers(model, layer, &bottom);
    fprintf(out,
            "%s: tables of %lld rows of %lld numbers; a sample has %lld keys and %lld numbers; "
            "dtype %s\ndense layers:",
            luo_family_desc_of(model->family)->name, (long long)features->rows,
            (long long)luo_model_row_width(model), (long long)features->slots,
            (long long)features->dense, luo_dtype_name(model->dtype));
    for (int32_t i = 0; i < n; i++)
        fprintf(out, "%s %lld x %lld", i == bottom && i > 0 ? "; behind the embeddings" : "",
                (long long)layer[i].in, (long long)layer[i].out);
    fprintf(out, "\nmodel flop per sample: %.6e\n", luo_model_flops_per_token(model, 1));
}

luo_status luo_explain_model(FILE *out, const luo_model *model, luo_err *err)
{
    int64_t parameters;
    LUO_TRY(luo_model_parameters(model, &parameters, err));
    fprintf(out, "model %s: %lld parameters\n", model->name, (long long)parameters);
    if (luo_model_has_tables(model)) {
        print_tables(out, model);
        return LUO_OK;
    }
    fprintf(out, "layers %lld  hidden %lld  ffn_hidden %lld  ", (long long)model->layers,
            (long long)model->hidden, (long long)model->ffn_hidden);
    if (luo_model_has_attention(model))
        fprintf(out, "heads %lld  kv_heads %lld  head_dim %lld  ", (long long)model->heads,
                (long long)model->kv_heads, (long long)model->head_dim);
    fprintf(out, "vocab %lld  max_sequence_tokens %lld  dtype %s\n", (long long)model->vocab,
            (long long)model->max_sequence_tokens, luo_dtype_name(model->dtype));
    print_layers(out, model);
    fprintf(out, "model flop per token at 4096 tokens: %.6e\n",
            luo_model_flops_per_token(model, 4096));
    return LUO_OK;
}

void luo_explain_profile(FILE *out, const luo_profile *profile)
{
    fprintf(out, "profile %s (%s)\n\n%-32s %16s %-12s %-6s %s\n", profile->name,
            profile->cpu ? "cpu" : "gpu", "value", "number", "provenance", "spread", "source");
    for (int32_t i = 0; i < profile->nvalues; i++) {
        const luo_value *value = &profile->values[i];
        char spread[16] = "-";
        if (value->has_spread) snprintf(spread, sizeof spread, "%.3g", value->spread);
        fprintf(out, "%-32s %16g %-12s %-6s %s\n", value->name, value->value,
                luo_provenance_name(value->provenance), spread, value->source);
    }
    const luo_calibrated *calibrated = &profile->calibrated;
    if (*calibrated->date)
        fprintf(
            out, "calibrated %s on %s (driver %s, cuda %s, nccl %s): %lld rows, %lld to validate\n",
            calibrated->date, calibrated->device, *calibrated->driver ? calibrated->driver : "-",
            *calibrated->cuda ? calibrated->cuda : "-", *calibrated->nccl ? calibrated->nccl : "-",
            (long long)calibrated->rows, (long long)calibrated->validation_rows);
    if (profile->ncurves || profile->nop_times)
        fprintf(out, "tables: %d curves of collectives, %d measured operations\n", profile->ncurves,
                profile->nop_times);
}
