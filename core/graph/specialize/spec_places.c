/* spec_places.c: which operations a segment has to look at: those of its phase and virtual stage,
 * found for all of them at once. A plan of many stages has as many roles, and each looking at all
 * operations of the graph was a tenth of a compilation. */
#include "core/graph/specialize/spec_emit.h"

enum { TASKS = 2 }; /* lists of a class: of F, of B */

/* An operation that crosses from one virtual stage to another belongs to both. */
static int32_t places_of(const spec_class *class, int32_t o, int32_t at[2])
{
    int32_t n = 0;
    if (class->vs_in[o] >= 0) at[n++] = class->vs_in[o];
    if (class->vs_out[o] >= 0 && class->vs_out[o] != class->vs_in[o]) at[n++] = class->vs_out[o];
    return n;
}

static luo_status list_class(const spec *s, spec_class *class, int32_t task)
{
    const int32_t phase = task ? LUO_PHASE_B : LUO_PHASE_F, all = class->S * class->v;
    int32_t at[2], *first = LUO_NEW_N(s->scratch, int32_t, all + 1);
    int32_t *next = LUO_NEW_N(s->scratch, int32_t, all + 1);
    if (!first || !next) return luo_err_nomem(s->err);
    for (int32_t o = 0; o < s->g->nops; o++)
        for (int32_t k = (int32_t)s->g->op[o].phase == phase ? places_of(class, o, at) : 0; k > 0;
             k--)
            first[at[k - 1] + 1]++;
    for (int32_t vs = 0; vs < all; vs++) next[vs + 1] = first[vs + 1] += first[vs];
    int32_t *op = LUO_NEW_N(s->scratch, int32_t, first[all]);
    if (!op) return luo_err_nomem(s->err);
    for (int32_t o = 0; o < s->g->nops; o++)
        for (int32_t k = (int32_t)s->g->op[o].phase == phase ? places_of(class, o, at) : 0; k > 0;
             k--)
            op[next[at[k - 1]]++] = o;
    class->here[task] = (spec_places){first, op};
    return LUO_OK;
}

static luo_status list_phases(spec *s)
{
    int32_t *first = LUO_NEW_N(s->scratch, int32_t, LUO_PHASES + 1);
    int32_t *next = LUO_NEW_N(s->scratch, int32_t, LUO_PHASES + 1);
    int32_t *op = LUO_NEW_N(s->scratch, int32_t, s->g->nops);
    if (!first || !next || !op) return luo_err_nomem(s->err);
    for (int32_t o = 0; o < s->g->nops; o++) first[s->g->op[o].phase + 1]++;
    for (int32_t p = 0; p < LUO_PHASES; p++) next[p + 1] = first[p + 1] += first[p];
    for (int32_t o = 0; o < s->g->nops; o++) op[next[s->g->op[o].phase]++] = o;
    s->of_phase = (spec_places){first, op};
    return LUO_OK;
}

luo_status luo_spec_list_places(spec *s)
{
    for (int32_t i = 0; i < s->nclasses; i++)
        for (int32_t task = 0; task < TASKS; task++) LUO_TRY(list_class(s, &s->cls[i], task));
    return list_phases(s);
}

const int32_t *luo_spec_places(const emitter *e, int32_t phase, int32_t vs, int32_t *n)
{
    const bool back = luo_phase_is_backward(phase);
    const spec_places *of = vs < 0 ? &e->s->of_phase : &e->c->here[back];
    const int32_t k = vs < 0 ? phase : vs;
    *n = of->first[k + 1] - of->first[k];
    return of->op + of->first[k];
}

bool luo_spec_is_here(const emitter *e, int32_t o, int32_t phase, int32_t vs)
{
    const bool back = luo_phase_is_backward(phase);
    if ((int32_t)e->s->g->op[o].phase != (back ? LUO_PHASE_B : phase)) return false;
    if (back && phase != LUO_PHASE_B && e->s->late[o] != (phase == LUO_PHASE_BW)) return false;
    return vs < 0 || e->c->vs_in[o] == vs || e->c->vs_out[o] == vs;
}
