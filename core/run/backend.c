#include "core/run/backend.h"

#include <string.h>

const luo_backend *luo_backend_find(const luo_backend *const *table, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}
