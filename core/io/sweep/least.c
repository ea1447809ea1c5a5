/* least.c: the smallest value of a key for which a condition holds: both ends, then bisection. */
#include <math.h>
#include <string.h>

#include "core/io/json_number.h"
#include "core/io/sweep/sweep.h"

static const char *const quantities[] = {
#define QUANTITY_WORD(word, member) word,
    LUO_SWEEP_QUANTITY_LIST(QUANTITY_WORD)
#undef QUANTITY_WORD
};
enum { QUANTITIES = sizeof quantities / sizeof *quantities };

double luo_sweep_quantity(const luo_sweep_condition *condition, const luo_sweep_case *of)
{
    const double value[] = {
#define QUANTITY_VALUE(word, member) of->member,
        LUO_SWEEP_QUANTITY_LIST(QUANTITY_VALUE)
#undef QUANTITY_VALUE
    };
    return value[condition->quantity];
}

luo_status luo_sweep_read_condition(const char *text, luo_sweep_condition *out, luo_err *err)
{
    const size_t n = strcspn(text, "<>=");
    const char *at = text + n;
    *out = (luo_sweep_condition){.text = text, .quantity = -1};
    if (strcmp(text, "state=complete") == 0) return LUO_OK;
    for (int32_t i = 0; i < QUANTITIES; i++)
        if (strlen(quantities[i]) == n && memcmp(quantities[i], text, n) == 0) out->quantity = i;
    if (*at == '<' || *at == '>') {
        out->sign = *at == '>' ? 1 : -1;
        out->strict = at[1] != '=';
        at += out->strict ? 1 : 2;
    }
    if (out->quantity >= 0 && out->sign && luo_json_number_float(at, strlen(at), &out->limit))
        return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`--least` is `%.200s`; a condition such as goodput>=5e5 is expected, on "
                       "step_s, goodput, mfu, lost or memory, or state=complete.",
                       text);
}

static bool meets(const luo_sweep_condition *condition, const luo_sweep_case *of)
{
    if (condition->quantity < 0) return true;
    const double over = condition->sign * (luo_sweep_quantity(condition, of) - condition->limit);
    return condition->strict ? over > 0 : over >= 0;
}

bool luo_sweep_holds(const luo_sweep_condition *condition, const luo_sweep_answer *answer,
                     int64_t cell, const luo_sweep_case **which)
{
    *which = NULL;
    for (int64_t i = 0; i < answer->ncases; i++) {
        const luo_sweep_case *of = &answer->at[i];
        if (of->cell != cell || of->bound || of->n == 0) continue;
        const bool sound =
            of->state == LUO_COMPLETE || (condition->quantity >= 0 && of->state == LUO_LOST);
        if (sound && meets(condition, of)) {
            *which = of;
            return true;
        }
        if (!*which ||
            (condition->quantity >= 0 && condition->sign * (luo_sweep_quantity(condition, of) -
                                                            luo_sweep_quantity(condition, *which)) >
                                             0))
            *which = of;
    }
    return false;
}

int64_t luo_sweep_next(const luo_sweep_search *search)
{
    if (search->first < 0) return 0;
    if (search->last < 0 && search->n > 1) return search->n - 1;
    if (search->first || search->hi - search->lo <= 1 || search->hi == search->n) return -1;
    return search->lo + (search->hi - search->lo) / 2;
}

void luo_sweep_tell(luo_sweep_search *search, int64_t cell, bool holds)
{
    if (cell == 0) search->first = holds;
    if (cell == search->n - 1) search->last = holds;
    if (holds && cell < search->hi) search->hi = cell;
    if (!holds && cell > search->lo && cell < search->hi) search->lo = cell;
}
