#include "core/io/result/columns.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* clang-format off */
#define I(name, help) {name, LUO_CELL_INT, help}
#define S(name, help) {name, LUO_CELL_SECONDS, help}
#define R(name, help) {name, LUO_CELL_RATIO, help}
#define V(name, help) {name, LUO_CELL_RATE, help}
#define N(name, help) {name, LUO_CELL_NUMBER, help}
#define T(name, help) {name, LUO_CELL_TEXT, help}
/* clang-format on */

/* Parts of a step, docs/results.md#parts-of-a-step. */
#define PARTS_TO_DP                                                                                \
    S("tp_s", "tensor-parallel communication that nothing hides"),                                 \
        S("ep_s", "expert all-to-all that nothing before hides"),                                  \
        S("cp_s", "context-parallel ring that nothing before hides"),                              \
        S("pp_s", "pipeline transfers that nothing before hides"),                                 \
        S("dp_s", "gradient and parameter exchange that nothing before hides")

static const luo_column steps[] = {
    I("step", "number of the step, 0 first"),
    I("attempt", "0, or how often this step had been tried before"),
    I("plan", "index in plans/"),
    S("t_start_s", "run time at the start"),
    S("t_end_s", "run time at the end"),
    S("step_s", "t_end_s - t_start_s"),
    I("sequences", "sequences of the batch"),
    I("tokens", "tokens of the batch"),
    V("tokens_per_s", "tokens / step_s"),
    S("compute_s", "kernels, recompute excluded; this and the next nine are means over the devices "
                   "of the plan and sum to step_s"),
    S("recompute_s", "forward kernels run again in the backward pass"),
    PARTS_TO_DP,
    S("move_s", "state moved by a switch"),
    S("io_s", "checkpoint reads and writes that nothing before hides"),
    S("bubble_s", "nothing to do"),
    I("devices_used", "devices of the plan"),
    I("devices_up", "devices of the cluster that are up"),
    I("slowest_device",
      "device with the largest slowdown, the lowest on ties; empty: none is slow"),
    R("max_slowdown", "its slowdown"),
    N("loss", "training loss; empty on sim"),
    N("grad_norm", "norm of the gradient; empty on sim"),
    S("wall_s", "wall clock spent since the row before"),
};

static const luo_column timeline[] = {
    I("seq", "number of the row"),
    S("t_start_s", "run time at the start"),
    S("t_end_s", "run time at the end"),
    T("kind", "step detect plan specialize switch checkpoint restart wait"),
    I("blocking", "1: training stands still or is this; these rows tile the run. 0: beside it"),
    I("step", "step under way or next"),
    I("plan", "index in plans/ of the plan in force; empty: none"),
    T("event", "id of the event that caused it; empty: none"),
    I("bytes", "moved, written or read"),
};

static const luo_column events[] = {
    I("seq", "number of the row"),
    S("t_s", "run time"),
    I("step", "step under way or next"),
    T("id", "event id of the scenario, or process-N of a process that died without one"),
    T("phase", "fired ended ignored detected decided switched restarted passed lost never"),
    T("kind", "straggler fail leave join link flap lengths; the policy; checkpoint"),
    T("target", "what it hits, after any draw; a checkpoint that was passed over"),
    R("value", "slowdown or bandwidth factor injected; empty: the kind has none"),
    T("detail", "words and counts; what was measured stands in log.txt"),
};

static const luo_column ops[] = {
    I("seq", "issue order on the device within the step"),
    I("step", "number of the step"),
    I("attempt", "0, or how often this step had been tried before"),
    I("device", "device"),
    T("stream", "compute tp pp dp move io"),
    T("phase", "pre F B post switch BI BW"),
    I("instruction", "id in the device's program"),
    T("kind", "COMPUTE COLLECTIVE P2P LOCAL IO"),
    T("op", "name of the op in the graph"),
    I("pipeline", "pipeline of the device; empty: outside of any"),
    I("stage", "stage of the device; empty: outside of any"),
    I("chunk", "part of an interleaved stage"),
    I("micro_batch", "empty in pre, post and switch"),
    I("layer", "empty: no layer's"),
    T("peer", "P2P: the other device or device set; COLLECTIVE: the group; else empty"),
    I("bytes", "collective: of the full tensor; P2P: sent by this device; else moved"),
    I("flop", "floating-point operations"),
    S("t_start_s", "run time at the start"),
    S("t_end_s", "run time at the end"),
    T("status", "LUO_OK, or how it failed"),
};

static const luo_column memory[] = {
    I("plan", "index in plans/"),
    I("device", "device"),
    T("node", "node of the device"),
    T("profile", "GPU type"),
    I("pipeline", "pipeline of the device"),
    I("stage", "stage of the device"),
    I("capacity_bytes", "memory of the device"),
    I("reserved_bytes", "kept for driver, context and libraries"),
    I("weights_bytes", "working copies of parameters"),
    I("gradients_bytes", "gradients"),
    I("optimizer_bytes", "master weights and moments"),
    I("activations_bytes", "largest sum of stored activations"),
    I("buffers_bytes", "work and communication buffers at the peak"),
    I("peak_bytes", "largest sum of all at one time"),
    I("free_bytes", "capacity - reserved - peak; negative when over"),
    I("peak_instruction", "instruction at which the peak is reached"),
    T("verdict", "fits over"),
    I("measured_bytes", "largest use seen by the allocator; empty on sim"),
};

static const luo_column comm[] = {
    I("plan", "index in plans/"),
    T("group", "device set; P2P: source and target annotation"),
    T("collective", "all_reduce reduce_scatter all_gather all_to_all broadcast p2p"),
    T("stream", "tp pp dp move io"),
    T("class", "slowest link class between its devices: local nvlink pcie socket nic uplink line"),
    I("devices", "devices that take part"),
    I("calls", "times it ran"),
    I("bytes", "sum over calls of the full tensor; P2P: of all messages"),
    S("busy_s", "time it was under way, mean over its devices"),
    S("exposed_s", "part of busy_s that no compute hides"),
    V("algbw_gbytes_per_s", "bytes / busy_s; empty when it never ran"),
    V("busbw_gbytes_per_s", "algbw times the factor of nccl-tests; empty when it never ran"),
};

static const luo_column links[] = {
    T("link", "name and direction: > away from devices, < towards them"),
    T("class", "nvlink pcie socket nic uplink line storage"),
    I("bytes", "carried over the run"),
    S("busy_s", "time with at least one flow"),
    R("utilisation_ratio", "bytes / (bandwidth * run time); empty when nothing ran"),
    V("peak_gbytes_per_s", "bytes / busy_s, the rate while in use; empty when never used"),
};

static const luo_column devices[] = {
    I("device", "device"),
    T("node", "node of the device"),
    T("profile", "GPU type"),
    S("up_s", "run time while up"),
    S("used_s", "run time in steps of plans that use it"),
    S("compute_s", "kernels, recompute included"),
    PARTS_TO_DP,
    S("bubble_s", "used but nothing to do"),
    R("mean_slowdown", "mean over used_s"),
    R("caused_slowdown", "step time of the first plan with only this device slow, at "
                         "mean_slowdown, over that with none; empty: not computed"),
};

static const luo_column switches[] = {
    I("seq", "number of the row"),
    S("t_s", "run time when it began"),
    I("from_plan", "index in plans/"),
    I("to_plan", "index in plans/"),
    T("event", "id of the event that caused it; empty: none"),
    S("detect_s", "from the event to its detection"),
    S("plan_s", "planning that training waited for"),
    S("specialize_s", "compiling and opening communicators"),
    S("move_s", "moving state"),
    S("total_s", "training stood still for"),
    I("bytes_local", "copied within a device"),
    I("bytes_nvlink", "moved over NVLink"),
    I("bytes_pcie", "moved over PCIe"),
    I("bytes_nic", "moved over NICs"),
    I("messages", "messages"),
    I("max_sender", "device that sends most; empty: none sends"),
    I("max_sender_bytes", "bytes it sends"),
    T("source", "devices checkpoint"),
};

static const luo_column truth[] = {
    T("id", "event id of the scenario"),
    T("kind", "straggler fail leave join link flap lengths"),
    T("target", "what it hit, after any draw"),
    R("value", "slowdown or bandwidth factor; empty: the kind has none"),
    S("t_start_s", "run time"),
    S("t_end_s", "run time; empty: for ever"),
    I("first_step", "first step it touched"),
    I("last_step", "last step it touched; empty: for ever"),
    S("detected_s", "run time of the first detection; empty: never"),
};

static const luo_column compare[] = {
    T("run", "name of the run directory"),
    T("policy", "policy or label"),
    T("backend", "sim host cuda"),
    T("state",
      "complete lost interrupted failed; of one that failed before it had figures they are "
      "empty"),
    I("seed", "seed of the scenario"),
    T("plan", "hash of the first plan; empty: it had none"),
    T("program", "hash of its program"),
    I("steps", "steps that stayed"),
    S("total_s", "run time, lost time included"),
    S("extent_s",
      "time the scenario gave it: its duration, or total_s if longer; of a given number "
      "of steps total_s if all were made, else that of the longest run of this seed "
      "here"),
    S("step_mean_s", "mean step"),
    S("step_p50_s", "median step; linear interpolation, as all quantiles here"),
    S("step_p99_s", "99th percentile of steps"),
    V("tokens_per_s", "tokens of all steps / time in steps"),
    V("goodput_tokens_per_s", "tokens of steps that stayed / extent_s, whatever the state"),
    R("mfu_ratio", "model flop utilisation (docs/cost-model.md)"),
    S("lost_s", "total_s less the steps that stayed"),
    I("switches", "switches"),
    I("restarts", "restarts"),
    R("peak_memory_ratio", "fullest device: peak / (capacity - reserved)"),
    R("speedup", "goodput / goodput of the first run"),
    R("error_ratio", "mean step / mean step of the first run - 1; empty unless one of the two is "
                     "host or cuda and the other is not the same backend"),
};

static const luo_column compare_steps[] = {
    I("step", "step that stayed in both runs"),
    S("reference_s", "step time in the first run"),
    S("other_s", "step time in the other"),
    R("error_ratio", "other / reference - 1"),
};

static const luo_column compare_ops[] = {
    T("op", "name of the op in the graph; with a *: sum over layers, over a kind, over all"),
    T("kind", "COMPUTE COLLECTIVE P2P LOCAL IO; * for all"),
    I("calls", "records in the first run, over steps traced in both"),
    S("reference_s", "sum of their times in the first run"),
    S("other_s", "the same in the other"),
    R("error_ratio", "other / reference - 1; empty when reference is 0"),
};

static const luo_column timelost[] = {
    T("run", "name of the run directory"),
    T("state", "complete interrupted lost failed"),
    S("compute_s", "this and the columns that follow sum to the run time"),
    S("recompute_s", "forward kernels run again in the backward pass"),
    PARTS_TO_DP,
    S("move_s", "state moved inside steps"),
    S("io_s", "checkpoint traffic inside steps"),
    S("bubble_s", "nothing to do"),
    S("redone_s", "steps whose result was lost"),
    S("detect_s", "waiting for a detection"),
    S("plan_s", "waiting for a planner"),
    S("specialize_s", "compiling and opening communicators"),
    S("switch_s", "moving state"),
    S("checkpoint_s", "blocking checkpoints"),
    S("restart_s", "restarts"),
    S("wait_s", "waiting for devices"),
};

static const luo_column throughput[] = {
    T("run", "name of the run directory"),
    S("t_s", "run time at the end of the step"),
    V("tokens_per_s", "median of this step and the ten before and after it; empty: a gap follows"),
    I("kept_tokens", "tokens of the steps up to here that stayed, as known then"),
};

static const luo_column stepcdf[] = {
    T("run", "name of the run directory"),
    S("step_s", "step time; steps that stayed"),
    R("share_ratio", "share of the steps that are not longer"),
};

static const luo_column lost[] = {
    T("run", "name of the run directory"),
    T("kind", "redone detect plan specialize switch checkpoint restart wait; lost: the run ends"),
    S("t_start_s", "run time at the start"),
    S("t_end_s", "run time at the end"),
};

static const luo_column marks[] = {
    S("t_s", "run time of an event that fired; those too close to the one before are left out"),
    T("kind", "straggler fail leave join link flap lengths"),
    T("label", "kind and target; empty: no room beside the label before"),
};

static const luo_column breakdown[] = {
    T("name", "run of a set, or plan of a run"),
    I("steps", "steps that stayed"),
    S("compute_s", "this and the columns that follow: mean over these steps"),
    S("recompute_s", "forward kernels run again in the backward pass"),
    PARTS_TO_DP,
    S("move_s", "state moved by a switch"),
    S("io_s", "checkpoint reads and writes that nothing before hides"),
    S("bubble_s", "nothing to do"),
};

static const luo_column gantt[] = {
    I("row", "0 first: the first device of every stage, by pipeline and stage"),
    T("name", "pipeline, stage, device"),
    I("lane", "0 compute, 1 tp, 2 pp, 3 dp, 4 move, 5 io"),
    T("kind", "forward backward recompute other tp pp dp move io"),
    I("micro_batch", "empty: none"),
    S("t_start_s", "run time; edges are rounded to 1/1500 of the step"),
    S("t_end_s", "run time"),
    R("covered_ratio", "busy for this share of it, in quarters"),
};

static const luo_column slowdown[] = {
    I("pipeline", "pipeline in the first plan"),
    I("stage", "stage in the first plan"),
    R("caused_slowdown", "largest of its devices"),
};

static const luo_column busiest[] = {
    I("rank", "row of the figure; by class, the link that carried most first"),
    T("link", "name and direction"),
    T("class", "nvlink pcie socket nic uplink line storage"),
    I("bytes", "carried over the run"),
    R("utilisation_ratio", "bytes / (bandwidth * run time)"),
};

static const luo_column predicted[] = {
    T("suite", "what is predicted: step, or the kind of an op: compute collective p2p local io"),
    T("case", "number of the step, or name of the op"),
    T("role", "calibration: the model was fitted on it; validation: it was not; empty: not known"),
    S("measured_s", "time in the run on host or cuda; of an op: summed over the traced steps"),
    S("predicted_s", "the same in the simulated run"),
};

static const luo_column seeds[] = {
    T("run", "policy, as its folder is named"),
    I("seeds", "runs, each of another seed"),
    V("goodput_p10_tokens_per_s", "goodput as in compare.csv; 10th "
                                  "of 100 runs"),
    V("goodput_p50_tokens_per_s", "the same, 50th"),
    V("goodput_p90_tokens_per_s", "the same, 90th"),
    R("speedup_p10", "goodput / that of the first run of the same seed; 10th of 100 runs"),
    R("speedup_p50", "the same, 50th"),
    R("speedup_p90", "the same, 90th"),
    R("lost_p50_ratio", "share of time not spent in steps that stayed, 50th"),
    V("goodput_mean_tokens_per_s", "goodput as in compare.csv, mean over the seeds"),
    V("goodput_low95_tokens_per_s", "its 95 % interval by Student's t, lower end; empty: one seed"),
    V("goodput_high95_tokens_per_s", "the same, upper end"),
};

static const luo_column pairs[] = {
    T("run", "policy, as its folder is named"),
    T("other", "the one it is held against, seed by seed"),
    I("seeds", "that both have figures of"),
    I("ahead", "of them with more goodput than the other"),
    I("behind", "of them with less"),
    V("difference_tokens_per_s", "goodput less that of the other, mean over these seeds"),
    V("difference_low95_tokens_per_s", "its 95 % interval by Student's t, lower end; empty: one "
                                       "seed"),
    V("difference_high95_tokens_per_s", "the same, upper end"),
    R("difference_ratio", "the mean difference over the other's mean goodput"),
    R("p", "of a mean difference so far from 0, were there none; two-sided, of this pair alone"),
};

static const luo_column bands[] = {
    T("run", "policy, as its folder is named"),
    S("t_s", "run time"),
    V("kept_p10_tokens", "tokens of the steps so far that stayed, as known then; 10th of 100 runs"),
    V("kept_p50_tokens", "the same, 50th"),
    V("kept_p90_tokens", "the same, 90th"),
    V("ideal_tokens", "t_s at the speed of the first step"),
    V("kept_mean_tokens", "as kept_p50_tokens, mean over the seeds"),
    V("kept_low95_tokens", "its 95 % interval by Student's t, lower end"),
    V("kept_high95_tokens", "the same, upper end"),
};

static const luo_column validate[] = {
    T("suite", "as it is reported: parts of a suite have a name of their own"),
    T("id", "of the row"),
    T("role", "validation calibration cross"),
    T("system", "software of the measured run"),
    T("gpu", "GPU of the measured run"),
    I("gpus", "GPUs of the measured run"),
    T("step_kind", "measured from_tflops96 from_tflops72 from_tokens oom mfu_only"),
    T("by", "what predicted_s comes from: sim closed none"),
    S("measured_s", "step; empty: it ran out of memory"),
    S("predicted_s", "step; empty: by none"),
    R("error_ratio", "predicted_s / measured_s - 1"),
    S("simulated_s", "step of the simulator; empty: there are no programs"),
    S("closed_s", "step of the closed form; empty: it cannot be said"),
    S("naive_s", "FLOP at the peak over the suite's median share of it; empty: no calibration row"),
    S("compute_s", "this and the columns up to bubble_s: mean over devices; empty: not simulated"),
    S("recompute_s", "forward kernels run again in the backward pass"),
    PARTS_TO_DP,
    S("bubble_s", "nothing to do, scale jitter included"),
    I("memory_measured_bytes", "largest over GPUs; empty: not printed"),
    I("memory_predicted_bytes", "of the device that needs most, reserve included; empty: none"),
    T("fits", "yes no; empty: not known"),
    I("fold", "of --cross; empty: none"),
    T("assumed", "what the row leaves open, and why nothing is predicted"),
};

static const luo_table_def defs[LUO_TABLES] = {
#define D(id, array, text)                                                                         \
    [id] = {#array ".csv", text, (int32_t)(sizeof array / sizeof *array), array}
    D(LUO_TABLE_STEPS, steps, "one row per attempt of a step"),
    D(LUO_TABLE_TIMELINE, timeline, "what the run did when"),
    D(LUO_TABLE_EVENTS, events, "what happened to it, and what it made of that"),
    D(LUO_TABLE_OPS, ops, "every instruction of the traced steps"),
    D(LUO_TABLE_MEMORY, memory, "predicted memory of every device of every plan"),
    D(LUO_TABLE_COMM, comm, "communication by group"),
    D(LUO_TABLE_LINKS, links, "traffic by link and direction"),
    D(LUO_TABLE_DEVICES, devices, "totals by device"),
    D(LUO_TABLE_SWITCHES, switches, "changes of plan"),
    D(LUO_TABLE_TRUTH, truth, "what was injected, for scoring a detector"),
    D(LUO_TABLE_COMPARE, compare, "runs side by side"),
    D(LUO_TABLE_COMPARE_STEPS, compare_steps, "steps of two runs side by side"),
    D(LUO_TABLE_COMPARE_OPS, compare_ops, "ops of two runs side by side"),
    D(LUO_TABLE_PLOT_TIMELOST, timelost, "the `time` of every summary.json, for `timelost`"),
    D(LUO_TABLE_PLOT_THROUGHPUT, throughput, "steps thinned out, for `throughput` and `goodput`"),
    D(LUO_TABLE_PLOT_STEPCDF, stepcdf, "quantiles of the step time, for `stepcdf`"),
    D(LUO_TABLE_PLOT_LOST, lost, "time without progress, for `throughput`"),
    D(LUO_TABLE_PLOT_MARKS, marks, "events, for every figure over run time"),
    D(LUO_TABLE_PLOT_BREAKDOWN, breakdown, "parts of a mean step, for `breakdown`"),
    D(LUO_TABLE_PLOT_GANTT, gantt, "one traced step, for `gantt`"),
    D(LUO_TABLE_PLOT_SLOWDOWN, slowdown, "by stage, for `slowdown`"),
    D(LUO_TABLE_PLOT_BUSIEST, busiest, "the busiest links of each class, for `links`"),
    D(LUO_TABLE_PLOT_PREDICTED, predicted, "simulated beside measured, for `predicted`"),
    D(LUO_TABLE_SEEDS, seeds, "policies over several seeds"),
    D(LUO_TABLE_PAIRS, pairs, "policies against each other, seed by seed"),
    D(LUO_TABLE_PLOT_BANDS, bands, "kept tokens over run time and seeds, for `goodput`"),
    D(LUO_TABLE_VALIDATE, validate, "published steps, predicted beside measured"),
#undef D
};

const luo_table_def *luo_table_def_at(luo_table_id id)
{
    assert((int)id >= 0 && id < LUO_TABLES);
    return &defs[id];
}

const luo_table_def *luo_table_def_find(const char *file)
{
    for (int i = 0; i < LUO_TABLES; i++)
        if (strcmp(defs[i].file, file) == 0) return &defs[i];
    return NULL;
}

int32_t luo_table_column(const luo_table_def *def, const char *name)
{
    for (int32_t i = 0; i < def->n; i++)
        if (strcmp(def->columns[i].name, name) == 0) return i;
    return -1;
}
