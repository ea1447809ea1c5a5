#include "core/sync/mode_keys.h"

#include <stddef.h>
#include <string.h>

#define CLOCKS                                                                                     \
    {                                                                                              \
        "bsp", "ssp", "asp"                                                                        \
    }

const luo_mode_key luo_mode_keys[] = {
    {"staleness", {"ssp"}, false},     {"servers", CLOCKS, false},
    {"server_devices", CLOCKS, false}, {"max_group", {"preduce"}, false},
    {"guard", {"preduce"}, false},     {"pairs", {"preduce"}, false},
    {"wait_s", {"preduce"}, false},    {"adaptive", {"preduce"}, false},
    {"wait_max_s", {"preduce"}, true}, {"wait_min_s", {"preduce"}, true},
    {"request_s", {"preduce"}, false}, {"beta", {"preduce"}, false},
};
const int luo_nmode_keys = sizeof luo_mode_keys / sizeof *luo_mode_keys;

int luo_mode_key_count(const luo_mode_key *key)
{
    int n = 0;
    while (n < LUO_MODE_KEY_MODES && key->mode[n]) n++;
    return n;
}

bool luo_mode_key_is_of(const luo_mode_key *key, const char *mode)
{
    for (int i = 0; i < luo_mode_key_count(key); i++)
        if (strcmp(key->mode[i], mode) == 0) return true;
    return false;
}
