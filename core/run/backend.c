/* backend.c: what all backends share. */
#include "core/run/backend.h"

#include <string.h>

const luo_backend *luo_backend_find(const luo_backend *const *table, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}

double luo_step_part_update(const luo_step_part *part, double bytes)
{
    const double element = sizeof(float);
    if (part->n < 2 || bytes <= 0) return 1;
    if (luo_step_part_is_last(part)) return (bytes + element) / bytes;
    return (part->index == 0 ? 2 : 3) * element / bytes; /* read one or two, write one */
}
