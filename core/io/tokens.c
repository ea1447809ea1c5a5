#include "core/io/tokens.h"

#include <stdbool.h>
#include <string.h>

static bool ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), k = strlen(end);
    return n >= k && strcmp(path + n - k, end) == 0;
}

int32_t luo_tokens_width(const char *path)
{
    return ends_in(path, ".u16") ? 2 : ends_in(path, ".u32") ? 4 : 1;
}

uint32_t luo_tokens_end(int32_t width)
{
    return width == 2 ? UINT16_MAX : UINT32_MAX;
}

luo_status luo_tokens_check_name(const char *path, luo_err *err)
{
    static const char *const json[] = {".json", ".jsonl", ".ndjson"};
    for (size_t i = 0; i < sizeof json / sizeof *json; i++)
        if (ends_in(path, json[i]))
            return luo_err_set(
                err, LUO_EINPUT,
                "`%s` is JSON by its name, which is not taken apart; its plain text, "
                "or tokens as .u16 or .u32, are expected.",
                path);
    return LUO_OK;
}

luo_status luo_tokens_check_size(const char *path, int64_t bytes, luo_err *err)
{
    const int32_t width = luo_tokens_width(path);
    if (bytes % width == 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "`%s` has %lld bytes; a multiple of %d is expected by its name.", path,
                       (long long)bytes, (int)width);
}
