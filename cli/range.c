#include "cli/range.h"

#include <math.h>

void luo_cli_range_print(FILE *out, const luo_time_range *range, double seconds)
{
    luo_str text = {0}, parts = {0};
    luo_time_range_say(&text, range, seconds);
    luo_time_range_say_parts(&parts, range);
    fprintf(out, " (%s s in 80 of 100 cases%s%s)", luo_str_get(&text), parts.len ? "; " : "",
            luo_str_get(&parts));
    luo_str_free(&text);
    luo_str_free(&parts);
}

const char *luo_cli_range_apart(const luo_time_range *a, double a_s, const luo_time_range *b,
                                double b_s)
{
    return luo_time_range_differs(log(a_s / b_s), luo_time_range_pair_sd(a, 1, b, 1, false))
               ? ", by more than the range"
               : ", within the range";
}

void luo_cli_range_warn(luo_cli *cli, const luo_cluster *cluster, const luo_stack *stack,
                        const luo_time_range *range)
{
    luo_str names = {0};
    char width[32] = "much";
    luo_time_range_say_unfitted(&names, cluster, stack);
    if (range) snprintf(width, sizeof width, "%.0f %%", 100 * (luo_time_range_high(range, 1) - 1));
    if (names.len)
        luo_cli_note(cli, LUO_WARNING,
                     "%s: no efficiency was fitted or measured; a step may be off by %s either "
                     "way: `luoshu calibrate` measures them.",
                     names.at, width);
    luo_str_free(&names);
}
