#include "core/run/events/step_lengths.h"

struct luo_step_lengths {
    int64_t from, tokens;
    luo_step_lengths *before;
};

int64_t luo_step_lengths_at(const luo_step_lengths *lengths, int64_t step)
{
    while (lengths && lengths->from > step) lengths = lengths->before;
    return lengths ? lengths->tokens : 0;
}

bool luo_step_lengths_note(luo_arena *arena, luo_step_lengths **lengths, int64_t from,
                           int64_t tokens)
{
    luo_step_lengths *latest = *lengths;
    if (tokens == (latest ? latest->tokens : 0)) return true;
    if (!latest || latest->from < from) {
        latest = LUO_NEW(arena, luo_step_lengths);
        if (!latest) return false;
        latest->from = from;
        latest->before = *lengths;
        *lengths = latest;
    }
    latest->tokens = tokens;
    return true;
}
