# When calls between replicas run beside a device's computation, of the traced steps: -v run=NAME, fed with an ops.csv without
# quoted fields. One line.
BEGIN {FS = ","; little = 2e-9} # times have nine digits
NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i; next}
{
    device = $at["step"] "/" $at["device"]; phase = $at["phase"]; start = $at["t_start_s"]; end = $at["t_end_s"]
    task = phase == "F" || phase == "B"
}
$at["kind"] == "COMPUTE" && task {
    if (phase == "F" && (!(device in forward) || start < forward[device])) forward[device] = start
    if (phase == "B" && end > backward[device]) backward[device] = end
    n[device]++; from[device, n[device]] = start; to[device, n[device]] = end
}
$at["stream"] == "dp" && phase == "pre" && end > gathered[device] {gathered[device] = end}
$at["stream"] == "dp" && phase == "post" && $at["op"] != "loss.all" && (!(device in reduced) || start < reduced[device]) {
    reduced[device] = start
}
$at["stream"] == "dp" && task {calls[device]++; began[device, calls[device]] = start; ended[device, calls[device]] = end}
END {
    for (d in forward) {
        early += gathered[d] > forward[d] + little
        ahead += (d in reduced) && reduced[d] < backward[d] - little
        for (c = 1; c <= calls[d]; c++)
            for (k = 1; k <= n[d]; k++) beside += began[d, c] < to[d, k] - little && ended[d, c] > from[d, k] + little
    }
    printf "%s: the first forward waits for %s weights, gradients begin %s the last backward%s\n", run,
        early ? "its" : "all", ahead ? "before" : "behind", beside ? ", calls in tasks run beside computation" : ""
}
