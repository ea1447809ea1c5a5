/* keys_dump.h: all that a reader returns, as text: for tests of what a key changes. */
#ifndef LUO_TESTS_KEYS_DUMP_H
#define LUO_TESTS_KEYS_DUMP_H
#include "core/base/str.h"
#include "core/cost/cluster.h"
#include "core/plan/plan.h"

#define DUMP_D(m) luo_str_addf(s, #m "=%a\n", (double)x->m)
#define DUMP_I(m) luo_str_addf(s, #m "=%lld\n", (long long)x->m)
#define DUMP_S(m) luo_str_addf(s, #m "=%s\n", x->m ? x->m : "")

static inline void dump_values(luo_str *s, const luo_profile *x)
{
    DUMP_S(name);
    DUMP_I(cpu);
    for (int32_t i = 0; i < x->nvalues; i++)
        luo_str_addf(s, "%s %s %a %d %a\n", x->values[i].name, x->values[i].source,
                     x->values[i].value, (int)x->values[i].provenance,
                     x->values[i].has_spread ? x->values[i].spread : -1);
    luo_str_addf(s, "%s %s %s %s %s %lld %lld\n", x->calibrated.date, x->calibrated.device,
                 x->calibrated.driver, x->calibrated.cuda, x->calibrated.nccl,
                 (long long)x->calibrated.rows, (long long)x->calibrated.validation_rows);
}

/* The numbers that the formulas use. */
static inline void dump_profile(luo_str *s, const luo_profile *x)
{
    for (int i = 0; i < 3; i++) DUMP_D(peak_flops[i]);
    DUMP_D(memory_bytes);
    DUMP_D(reserved_bytes);
    DUMP_D(memory_bytes_per_s);
    DUMP_D(sm_count);
    DUMP_D(launch_s);
    DUMP_D(gemm_ratio);
    DUMP_D(gemm_depth);
    DUMP_D(memory_ratio);
    DUMP_D(attention_forward_ratio);
    DUMP_D(attention_backward_ratio);
    DUMP_D(attention_depth);
    DUMP_D(misaligned_factor);
    DUMP_D(net_ratio);
    DUMP_D(net_half_bytes);
    DUMP_D(net_step_s);
    DUMP_D(p2p_s);
    DUMP_D(overlap_loss_nvlink_ratio);
    DUMP_D(overlap_loss_net_ratio);
    for (int i = 0; i < LUO_TABLE_CLASSES; i++) DUMP_D(tables_bytes_per_s[i]);
    for (int32_t i = 0; i < x->ncurves; i++)
        for (int32_t k = 0; k < x->curves[i].n; k++)
            luo_str_addf(s, "%d %d %a %a\n", (int)x->curves[i].op, x->curves[i].devices,
                         x->curves[i].at[k].bytes, x->curves[i].at[k].busbw_bytes_per_s);
    for (int32_t i = 0; i < x->nop_times; i++)
        luo_str_addf(s, "%s %d %lld %lld %lld %a\n", x->op_times[i].op, (int)x->op_times[i].dtype,
                     (long long)x->op_times[i].m, (long long)x->op_times[i].n,
                     (long long)x->op_times[i].k, x->op_times[i].seconds);
}

static inline void dump_stack(luo_str *s, const luo_stack *x)
{
    DUMP_S(name);
    DUMP_D(host_launch_s);
    DUMP_D(host_exponent);
    DUMP_D(busbw_factor);
    DUMP_D(tp_exposed_factor);
    DUMP_D(scale_jitter);
    DUMP_D(grad_comm_bytes);
    DUMP_D(optimizer_bytes);
    DUMP_I(attention_fused);
    DUMP_I(p2p_blocking);
    DUMP_I(scatter_gather);
    DUMP_I(tp_overlap);
    DUMP_I(tf32);
    DUMP_I(dp_overlap);
    DUMP_I(shard_overlap);
    DUMP_I(fp8_recipe);
    DUMP_I(eager);
    DUMP_I(fp8_weights_once);
    DUMP_D(kernels_forward);
    DUMP_D(gemm_ratio);
    DUMP_D(attention_ratio);
    DUMP_D(source_spread);
    DUMP_D(residual_spread);
    for (int32_t i = 0; i < x->ngiven; i++)
        luo_str_addf(s, "%s %s %d %a\n", x->given[i].name, x->given[i].source,
                     (int)x->given[i].provenance, x->given[i].has_spread ? x->given[i].spread : -1);
    DUMP_I(bucket.has_mib);
    DUMP_D(bucket.mib);
    DUMP_I(bucket.lanes);
    DUMP_I(memory.dropout);
    DUMP_I(memory.silu_again);
    DUMP_I(memory.norm2_again);
    DUMP_I(memory.cross_entropy_unfused);
    DUMP_I(memory.dummy_gradients);
    DUMP_I(memory.flat_gradients);
    DUMP_I(memory.expert_weights_inside);
    DUMP_I(memory.outputs_kept);
    DUMP_D(memory.gradient_bytes);
    DUMP_D(memory.f32_state_bytes);
    DUMP_D(memory.framework_bytes);
    DUMP_D(memory.communicator_bytes);
    DUMP_D(memory.allocator_factor);
    DUMP_D(memory.headroom_factor);
}

static inline void dump_group(luo_str *s, const luo_node_group *x)
{
    DUMP_S(name);
    DUMP_S(site);
    for (int32_t i = 0; i < x->devices_per_node; i++)
        luo_str_addf(s, "%s\n", luo_node_group_profile(x, i)->name);
    DUMP_I(nodes);
    DUMP_I(devices_per_node);
    for (int32_t i = 0; i < x->nracks; i++) DUMP_S(racks[i]);
    for (int32_t i = 0; x->hosts && i < x->nodes; i++) DUMP_S(hosts[i]);
    DUMP_D(base_slowdown);
    DUMP_I(scale_up);
    DUMP_D(scale_up_bytes_per_s);
    DUMP_D(scale_up_latency_s);
    for (int32_t i = 0; i < x->nmesh; i++)
        luo_str_addf(s, "mesh %d %d %d\n", x->mesh[i].a, x->mesh[i].b, x->mesh[i].lanes);
    DUMP_I(has_pcie);
    DUMP_D(pcie_bytes_per_s);
    DUMP_D(pcie_latency_s);
    DUMP_D(socket_bytes_per_s);
    DUMP_I(devices_per_switch);
    DUMP_I(sockets);
    DUMP_I(nics);
    DUMP_D(nic_bytes_per_s);
    DUMP_D(nic_latency_s);
    DUMP_I(nic_shared);
    DUMP_D(host_cores);
    DUMP_D(host_memory_bytes);
    DUMP_D(disk_read_bytes_per_s);
    DUMP_D(disk_write_bytes_per_s);
}

static inline void dump_cluster(luo_str *s, const luo_cluster *x)
{
    DUMP_S(name);
    for (int32_t i = 0; i < x->ngroups; i++) dump_group(s, &x->groups[i]);
    DUMP_I(fabric);
    DUMP_D(hop_latency_s);
    DUMP_D(rack_uplink_bytes_per_s);
    for (int32_t i = 0; i < x->nsite_links; i++)
        luo_str_addf(s, "line %s %s %a %a\n", x->site_links[i].a, x->site_links[i].b,
                     x->site_links[i].bytes_per_s, x->site_links[i].latency_s);
    DUMP_D(storage_read_bytes_per_s);
    DUMP_D(storage_write_bytes_per_s);
    for (int32_t i = 0; i < x->nstandby; i++) DUMP_I(standby[i]);
    for (int32_t i = 0; i < x->nhealth; i++)
        luo_str_addf(s, "health %s %d %a\n", x->health[i].target, x->health[i].down,
                     x->health[i].slowdown);
}

static inline void dump_model(luo_str *s, const luo_model *x)
{
    DUMP_S(name);
    DUMP_I(family);
    DUMP_I(layers);
    DUMP_I(hidden);
    DUMP_I(ffn_hidden);
    DUMP_I(heads);
    DUMP_I(kv_heads);
    DUMP_I(head_dim);
    DUMP_I(vocab);
    DUMP_I(max_sequence_tokens);
    DUMP_I(token_types);
    DUMP_I(classes);
    DUMP_I(variant);
    DUMP_I(tied_embeddings);
    DUMP_I(linear_bias);
    DUMP_S(type);
    DUMP_I(out_bias);
    DUMP_I(qkv_bias);
    DUMP_I(qk_norm);
    DUMP_I(causal);
    DUMP_I(parallel_residual);
    DUMP_I(shared_norm);
    DUMP_I(post_norms);
    DUMP_I(norm_offset);
    DUMP_I(position_offset);
    DUMP_D(partial_rotary);
    DUMP_D(rope_local_base);
    DUMP_D(embedding_scale);
    DUMP_D(attention_scale);
    DUMP_D(attention_softcap);
    DUMP_D(logit_softcap);
    DUMP_I(rope.kind);
    DUMP_D(rope.factor);
    DUMP_I(rope.original_tokens);
    DUMP_D(rope.low_freq);
    DUMP_D(rope.high_freq);
    DUMP_D(rope.beta_fast);
    DUMP_D(rope.beta_slow);
    DUMP_D(rope.attention_factor);
    for (int32_t i = 0; i < x->rope.short_factors.n; i++) DUMP_D(rope.short_factors.at[i]);
    for (int32_t i = 0; i < x->rope.long_factors.n; i++) DUMP_D(rope.long_factors.at[i]);
    DUMP_I(window.tokens);
    DUMP_I(window.first);
    DUMP_I(window.every);
    DUMP_I(window.each);
    DUMP_I(norm);
    DUMP_I(activation);
    DUMP_I(position);
    DUMP_D(norm_eps);
    DUMP_D(rope_base);
    DUMP_I(moe.experts);
    DUMP_I(moe.experts_per_token);
    DUMP_I(moe.expert_ffn_hidden);
    DUMP_I(moe.shared_experts);
    DUMP_I(moe.shared_ffn_hidden);
    DUMP_I(moe.first_dense_layers);
    DUMP_I(moe.every_layers);
    DUMP_D(moe.capacity_factor);
    DUMP_I(moe.top1);
    DUMP_I(moe.gate);
    DUMP_I(moe.renorm);
    DUMP_I(moe.shared_gate);
    DUMP_D(moe.routed_scale);
    DUMP_I(moe.route_groups);
    DUMP_I(moe.route_groups_kept);
    DUMP_D(moe.aux_loss);
    DUMP_D(moe.bias_rate);
    DUMP_I(latent.q_lora);
    DUMP_I(latent.kv_lora);
    DUMP_I(latent.nope);
    DUMP_I(latent.rope);
    DUMP_I(latent.v);
    DUMP_I(image.height_px);
    DUMP_I(image.width_px);
    DUMP_I(image.channels);
    DUMP_I(image.patch_px);
    DUMP_I(features.slots);
    DUMP_I(features.rows);
    DUMP_I(features.width);
    DUMP_I(features.dense);
    for (int32_t i = 0; i < x->bottom_mlp.n; i++) DUMP_I(bottom_mlp.columns[i]);
    for (int32_t i = 0; i < x->mlp.n; i++) DUMP_I(mlp.columns[i]);
    DUMP_I(dtype);
}

static inline void dump_plan(luo_str *s, const luo_plan *x)
{
    DUMP_S(name);
    DUMP_S(model);
    DUMP_S(cluster);
    DUMP_S(meta_json);
    for (int32_t i = 0; i < x->npinned; i++) DUMP_S(pinned[i]);
    luo_str_addf(s, "hash=%016llx\n", (unsigned long long)luo_plan_hash(x));
}
#endif
