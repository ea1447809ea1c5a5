#include "core/io/document/names.h"

#include <stddef.h>
#include <string.h>

/* A `*` stands for the rest of a name. */
static const char *const of_set[] = {"compare.csv", "compare.json",      "compare_*",   "seeds.csv",
                                     "pairs.csv",   "jobs.csv",          "sweep.csv",
                                     "sweep.json",  "sweep-answer.json", "sweep-parts",
                                     "report.html", "plots"};
static const char *const of_flat[] = {"iterations.csv", "groups.csv",     "ahead.csv",
                                      "servers.csv",    "summary.json",   "staleness.csv",
                                      "partition.csv",  "partitions.csv", "traffic.csv",
                                      "a2a_sweep.csv",  "moe_layer.csv",  "attribution.csv",
                                      "devices.csv",    "ranks"};

static bool fits(const char *name, const char *pattern)
{
    const size_t n = strcspn(pattern, "*");
    if (strncmp(name, pattern, n) != 0) return false;
    return pattern[n] || !name[n] ||
           strncmp(name + n, ".tmp-", 5) == 0; /* killed when writing it */
}

bool luo_name_of_set(const char *name)
{
    for (size_t i = 0; i < sizeof of_set / sizeof *of_set; i++)
        if (fits(name, of_set[i])) return true;
    return false;
}

bool luo_name_of_flat(const char *name)
{
    for (size_t i = 0; i < sizeof of_flat / sizeof *of_flat; i++)
        if (strcmp(name, of_flat[i]) == 0) return true;
    return false;
}

const char *luo_name_fault(const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
    if (!*name || name[strspn(name, good)])
        return "letters, digits and _ . + - are expected, it names a folder";
    if (*name == '.' || *name == '-')
        return "a letter or digit is expected first, it names a folder";
    if (strlen(name) > LUO_NAME_LETTERS)
        return "64 letters or fewer are expected, it names a folder";
    return NULL;
}

const char *luo_name_fault_of_run(const char *label)
{
    const char *fault = luo_name_fault(label);
    if (fault) return fault;
    return luo_name_of_set(label) ? "a result set keeps that name for itself, another is expected"
                                  : NULL;
}
