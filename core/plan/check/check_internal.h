/* check_internal.h: what the parts of luo_plan_check share. Each part names all it finds and goes
 * on. */
#ifndef LUO_CORE_PLAN_CHECK_CHECK_INTERNAL_H
#define LUO_CORE_PLAN_CHECK_CHECK_INTERNAL_H
#include "core/plan/plan.h"

typedef struct luo_checker {
    luo_arena *arena;
    const luo_plan *p;
    const luo_model *model;     /* NULL: not given */
    const luo_cluster *cluster; /* NULL: not given */
    luo_plan_finding *at; /* the first LUO_DIAGS_MAX; NULL: none */
    int32_t n;            /* of all */
    char pointer[128]; /* where the next findings stand */
    bool failed;       /* out of memory */
} luo_checker;

/* Where the next findings stand, as a JSON pointer. */
void luo_check_place(luo_checker *checker, const char *fmt, ...) LUO_PRINTF(2, 3);
/* One finding more. */
void luo_check_find(luo_checker *checker, const char *fmt, ...) LUO_PRINTF(2, 3);

void luo_check_layers(luo_checker *checker);   /* check_layers.c */
void luo_check_ends(luo_checker *checker);     /* check_layers.c */
void luo_check_devices(luo_checker *checker);  /* check_devices.c */
void luo_check_shares(luo_checker *checker);   /* check_shares.c */
void luo_check_reroute(luo_checker *checker);  /* check_reroute.c */
void luo_check_contexts(luo_checker *checker); /* check_context.c */
void luo_check_experts(luo_checker *checker);  /* check_experts.c */
void luo_check_volume(luo_checker *checker);   /* check_volume.c: tokens, FLOP, assignment */

/* Of tensor rank k: its part of what a stage cuts. */
uint32_t luo_check_share(const luo_stage *stage, int32_t k);
#endif
