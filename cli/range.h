/* range.h: ranges of predicted steps, as commands print them. */
#ifndef LUO_CLI_RANGE_H
#define LUO_CLI_RANGE_H
#include "cli/cli.h"
#include "core/run/policy/judge_range.h"

/* " (2.1 to 2.9 s in 80 of 100 cases; of it: source 10 %, ..)" */
void luo_cli_range_print(FILE *out, const luo_time_range *range, double seconds);
/* ", within the range" or ", by more than the range": of two simulated plans on one cluster. */
const char *luo_cli_range_apart(const luo_time_range *a, double a_s, const luo_time_range *b,
                                double b_s);
/* Warns, once, of GPU types and a stack of which nothing was fitted or measured. range NULL: steps
 * are simulated elsewhere, and their range stands there. */
void luo_cli_range_warn(luo_cli *cli, const luo_cluster *cluster, const luo_stack *stack,
                        const luo_time_range *range);
#endif
