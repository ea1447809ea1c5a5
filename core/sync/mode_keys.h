/* mode_keys.h: what some ways of waiting for each other have, and others would ignore: keys of
 * `training` in a scenario (docs/formats.md#training) and options of `luoshu sync`, those of
 * groups as parts of --groups. Who reads either refuses by this table. */
#ifndef LUO_CORE_SYNC_MODE_KEYS_H
#define LUO_CORE_SYNC_MODE_KEYS_H
#include <stdbool.h>

enum { LUO_MODE_KEY_MODES = 3 };

typedef struct luo_mode_key {
    const char *name;                     /* "wait_s" */
    const char *mode[LUO_MODE_KEY_MODES]; /* names of those that have it (loop.h); then NULLs */
    bool adaptive;                        /* and only while waits are adaptive */
} luo_mode_key;

extern const luo_mode_key luo_mode_keys[];
extern const int luo_nmode_keys;

bool luo_mode_key_is_of(const luo_mode_key *key, const char *mode);
/* How many modes have it; they come first in key->mode. */
int luo_mode_key_count(const luo_mode_key *key);
#endif
