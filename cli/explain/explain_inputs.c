/* explain_inputs.c: cluster, model and profile as the program sees them. */
#include "cli/explain/explain.h"

/* "3" or "unlimited", a rate in bytes per second where 0 means the latter. */
static const char *rate(double bytes_per_s, char *buf, size_t size)
{
    if (bytes_per_s > 0) snprintf(buf, size, "%g", bytes_per_s / 1e9);
    else snprintf(buf, size, "unlimited");
    return buf;
}

static void print_groups(FILE *out, const luo_cluster *c)
{
    char read[32], write[32];
    fprintf(out, "\n%-12s %8s %10s %10s %10s  %s   (disks in gbytes_per_s)\n", "group", "cores",
            "memory_gib", "disk_read", "disk_write", "nics");
    for (int32_t i = 0; i < c->ngroups; i++) {
        const luo_node_group *g = &c->groups[i];
        fprintf(out, "%-12s %8g %10g %10s %10s  ", g->name, g->host_cores,
                g->host_memory_bytes / 1073741824.0,
                rate(g->disk_read_bytes_per_s, read, sizeof read),
                rate(g->disk_write_bytes_per_s, write, sizeof write));
        if (g->nics) fprintf(out, "%d %s\n", g->nics, g->nic_shared ? "shared" : "by slot");
        else fputs("none\n", out);
    }
}

/* What is not the same for all devices of a group. */
static void print_state(FILE *out, const luo_cluster *c)
{
    char read[32], write[32];
    luo_str s = {0};
    fprintf(out, "storage: read %s, write %s gbytes_per_s\n",
            rate(c->storage_read_bytes_per_s, read, sizeof read),
            rate(c->storage_write_bytes_per_s, write, sizeof write));
    luo_devset_print(&s, c->standby, c->nstandby);
    fprintf(out, "standby: %s\n", luo_str_get(&s));
    luo_str_free(&s);
    for (int32_t i = 0; i < c->nhealth; i++) {
        const luo_health *h = &c->health[i];
        if (h->down) fprintf(out, "health: %s down\n", h->target);
        else fprintf(out, "health: %s slow %.3f\n", h->target, h->slowdown);
    }
}

void luo_explain_cluster(FILE *out, const luo_cluster *c)
{
    static const char *const fabrics[] = {"single", "two_tier", "rail"};
    fprintf(out,
            "cluster %s: %d devices, %d nodes, %d racks, %d links; fabric %s, %.3f us a hop\n\n",
            c->name, c->ndevices, c->nnodes, c->nracks, c->nlinks, fabrics[c->fabric],
            c->hop_latency_s * 1e6);
    fprintf(out, "%-12s %-10s %-12s %-8s %-8s %8s  %s\n", "node", "devices", "profile", "rack",
            "site", "slowdown", "host");
    for (int32_t i = 0; i < c->nnodes; i++) {
        const luo_node *n = &c->nodes[i];
        const luo_node_group *g = &c->groups[n->group];
        fprintf(out, "%-12s %4d-%-5d %-12s %-8s %-8s %8.3f  %s\n", n->name, n->first_device,
                n->first_device + g->devices_per_node - 1, g->profile->name, c->racks[n->rack],
                c->sites[n->site], g->base_slowdown, g->hosts ? g->hosts[n->index] : "-");
    }
    print_groups(out, c);
    print_state(out, c);
    fprintf(out, "\n%-20s %-8s %18s %12s\n", "link", "class", "gbytes_per_s", "latency_us");
    for (int32_t i = 0; i < c->nlinks; i++)
        fprintf(out, "%-20s %-8s %18.3f %12.3f\n", c->links[i].name,
                luo_link_kind_name(c->links[i].kind), c->links[i].bytes_per_s / 1e9,
                c->links[i].latency_s * 1e6);
}

static const char *yes(bool b)
{
    return b ? "true" : "false";
}

static void print_layers(FILE *out, const luo_model *m)
{
    fprintf(out, "norm %s eps %g  activation %s  position %s",
            m->norm == LUO_NORM_RMS ? "rmsnorm" : "layernorm", m->norm_eps,
            m->activation == LUO_ACT_SWIGLU ? "swiglu" : "gelu",
            m->position == LUO_POS_ROPE ? "rope" : "learned");
    if (m->position == LUO_POS_ROPE) fprintf(out, " base %g", m->rope_base);
    fprintf(out, "  causal %s\ntied_embeddings %s  linear_bias %s  qkv_bias %s  qk_norm %s\n",
            yes(m->causal), yes(m->tied_embeddings), yes(m->linear_bias), yes(m->qkv_bias),
            yes(m->qk_norm));
    if (m->token_types) fprintf(out, "token_types %lld\n", (long long)m->token_types);
    const luo_moe *e = &m->moe;
    if (e->experts)
        fprintf(out, "experts %lld of ffn_hidden %lld, %lld a token (gate %s), capacity_factor %g; "
                     "shared %lld of %lld; first_dense_layers %lld, every_layers %lld\n",
                (long long)e->experts, (long long)e->expert_ffn_hidden,
                (long long)e->experts_per_token, e->top1 ? "top1" : "topk", e->capacity_factor,
                (long long)e->shared_experts, (long long)e->shared_ffn_hidden,
                (long long)e->first_dense_layers, (long long)e->every_layers);
    const luo_image *i = &m->image;
    if (i->height_px)
        fprintf(out, "image %lld x %lld px, %lld channels, patch %lld px; %lld classes\n",
                (long long)i->height_px, (long long)i->width_px, (long long)i->channels,
                (long long)i->patch_px, (long long)m->classes);
}

luo_status luo_explain_model(FILE *out, const luo_model *m, luo_err *err)
{
    int64_t parameters;
    LUO_TRY(luo_model_parameters(m, &parameters, err));
    fprintf(out, "model %s: %lld parameters\n", m->name, (long long)parameters);
    fprintf(out, "layers %lld  hidden %lld  ffn_hidden %lld  heads %lld  kv_heads %lld  "
                 "head_dim %lld  vocab %lld  max_sequence_tokens %lld  dtype %s\n",
            (long long)m->layers, (long long)m->hidden, (long long)m->ffn_hidden,
            (long long)m->heads, (long long)m->kv_heads, (long long)m->head_dim,
            (long long)m->vocab, (long long)m->max_sequence_tokens, luo_dtype_name(m->dtype));
    print_layers(out, m);
    fprintf(out, "model flop per token at 4096 tokens: %.6e\n",
            luo_model_flops_per_token(m, 4096));
    return LUO_OK;
}

void luo_explain_profile(FILE *out, const luo_profile *p)
{
    static const char *const from[] = {"paper",    "datasheet", "public_code", "reported",
                                       "measured", "fitted",    "chosen"};
    fprintf(out, "profile %s (%s)\n\n%-32s %16s %-12s %s\n", p->name, p->cpu ? "cpu" : "gpu",
            "value", "number", "provenance", "source");
    for (int32_t i = 0; i < p->nvalues; i++)
        fprintf(out, "%-32s %16g %-12s %s\n", p->values[i].name, p->values[i].value,
                from[p->values[i].provenance], p->values[i].source);
    const luo_calibrated *c = &p->calibrated;
    if (*c->date)
        fprintf(out,
                "calibrated %s on %s (driver %s, cuda %s, nccl %s): %lld rows, %lld to validate\n",
                c->date, c->device, *c->driver ? c->driver : "-", *c->cuda ? c->cuda : "-",
                *c->nccl ? c->nccl : "-", (long long)c->rows, (long long)c->validation_rows);
    if (p->ncurves || p->nop_times)
        fprintf(out, "tables: %d curves of collectives, %d measured operations\n", p->ncurves,
                p->nop_times);
}
