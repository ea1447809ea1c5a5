/* search_internal.h: what the files of the search share. */
#ifndef LUO_CORE_PLAN_AUTO_SEARCH_INTERNAL_H
#define LUO_CORE_PLAN_AUTO_SEARCH_INTERNAL_H
#include "core/plan/auto/search.h"

/* The tightest stage of the pipeline that comes closest to fitting. */
typedef struct luo_auto_shortage {
    double over; /* needed / limit; 0: no pipeline was short of memory */
    double needed_bytes, limit_bytes;
    int32_t device;
} luo_auto_shortage;

/* Keeps the smaller shortage. */
void luo_auto_shortage_note(luo_auto_shortage *least, const luo_auto_job *job,
                            const luo_auto_stage *stage, int32_t stages);

/* Is that number of stages, or of micro-batches with it, among those that are searched? */
bool luo_auto_search_stages(const luo_auto_job *job, int32_t p);
int32_t luo_auto_search_first_micro_batches(const luo_auto_job *job, int32_t p);

/* Why no pipeline was found: memory, batch, or strategies. */
luo_status luo_auto_search_refuse(luo_arena *scratch, const luo_auto_job *job,
                                  const luo_auto_shortage *shortage, luo_err *err);
#endif
