/* flags.h: arguments of a program as names and values, from a shell script, a YAML file or a log.
 */
#ifndef LUO_CORE_IO_CONVERT_FLAGS_H
#define LUO_CORE_IO_CONVERT_FLAGS_H
#include "core/io/convert/training.h"

typedef struct convert_flag {
    const char *name;  /* without dashes, `_` for `-` */
    const char *value; /* NULL: none was given */
    convert_place at;
    bool used;
} convert_flag;

typedef struct convert_flags {
    convert_job *job;
    convert_flag *at;
    int32_t n, cap;
} convert_flags;

/* name[0..n) with value (NULL: none). Errors: LUO_EINPUT the flag was given before with another
 * value; LUO_ENOMEM. */
luo_status convert_flags_put(convert_flags *flags, const char *name, size_t n, const char *value,
                             int line, int col);
/* The flag of that name, marked as used; NULL: there is none. */
convert_flag *convert_flags_use(convert_flags *flags, const char *name);
/* Is it given, and neither False nor None? */
bool convert_flags_is(convert_flags *flags, const char *name);
/* Its word; NULL where it is not given, or is None. Errors: none. */
const char *convert_flags_word(convert_flags *flags, const char *name);
/* Its number, 0 or more; *out stays where it is not given or None. Errors: LUO_EINPUT. */
luo_status convert_flags_int(convert_flags *flags, const char *name, int64_t *out);
luo_status convert_flags_real(convert_flags *flags, const char *name, double *out);
/* A note that lists those that were not used. */
luo_status convert_flags_unused(convert_flags *flags);

/* Flags of a shell script: its words, with variables that it sets itself. Nothing is run.
 * Errors: LUO_EINPUT a value that the script alone does not say. */
luo_status convert_flags_shell(convert_flags *flags);
/* Flags of a YAML file: every key with a plain value, whatever map it stands in. */
luo_status convert_flags_yaml(convert_flags *flags);
/* Flags of a JSON file, as of YAML. */
luo_status convert_flags_json(convert_flags *flags);
/* Flags of a TOML file: `section.key`; arrays as they are written. Errors: LUO_EINPUT a line that
 * is neither a section nor a key with a value. */
luo_status convert_flags_toml(convert_flags *flags);
/* Flags of lines such as "  num_layers ........ 32", which Megatron-LM prints when it starts. */
luo_status convert_flags_log(convert_flags *flags);

typedef struct convert_size { /* a number of a training: where its flag's value goes */
    const char *name;
    size_t offset;
} convert_size;
#define CONVERT_NETWORK(name, member)                                                              \
    {                                                                                              \
        name, offsetof(convert_training, network.member)                                           \
    }
#define CONVERT_TRAINING(name, member)                                                             \
    {                                                                                              \
        name, offsetof(convert_training, member)                                                   \
    }
/* Reads them in order. Errors: LUO_EINPUT. */
luo_status convert_flags_sizes(convert_flags *flags, const convert_size *sizes, size_t n,
                               convert_training *out);
/* An error at a flag that is given: `name` is `value`; `expected` is expected. */
luo_status convert_flags_wrong(convert_flags *flags, const char *name, const char *expected);
/* A flag that would change cost or numbers: an error, or with --approximate a warning. */
luo_status convert_flags_refuse(convert_flags *flags, const char *name, const char *why);

/* A training of Megatron-LM's arguments. Errors: LUO_EINPUT what changes cost or numbers and has no
 * place here; what contradicts. */
luo_status convert_megatron(convert_flags *flags, convert_training *out);
#endif
