/* foreign_job.h: a table of another program on its way to one of ours; for calibrate_foreign.c and
 * calibrate_nccl.c only. */
#ifndef LUO_CLI_CALIBRATE_FOREIGN_JOB_H
#define LUO_CLI_CALIBRATE_FOREIGN_JOB_H
#include "cli/cli.h"
#include "core/graph/program/coll.h"
#include "core/io/io.h"

typedef struct foreign_job {
    luo_cli *cli;
    const luo_source *src;
    luo_str rows; /* of our table */
    int32_t n, left, odd;
} foreign_job;

luo_status foreign_bad(foreign_job *job, const char *what);
/* A row of collective_times; bytes: of the full tensor; printed: bandwidth of bus as the source has
 * it, in GB/s, which wins where it is another; 0: none. */
void foreign_put_collective(foreign_job *job, luo_coll op, const char *dtype, int32_t devices,
                            int32_t nodes, double bytes, double seconds, double printed);
/* The collective of our name. */
bool foreign_collective_of(const char *name, luo_coll *op);

/* What nccl-tests prints, of any version, as text or JSON. What neither says is asked of the
 * options --collective and --devices. Errors: LUO_EINPUT, LUO_EPARSE, LUO_EUSAGE. */
bool foreign_nccl_is_json(const luo_source *src);
luo_status foreign_read_nccl(foreign_job *job);
luo_status foreign_read_nccl_json(foreign_job *job);
#endif
