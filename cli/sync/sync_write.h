/* sync_write.h: what `luoshu sync` writes: iterations.csv and groups.csv while it runs, then
 * ahead.csv, servers.csv and summary.json, and what it prints. */
#ifndef LUO_CLI_SYNC_SYNC_WRITE_H
#define LUO_CLI_SYNC_SYNC_WRITE_H
#include "cli/folder.h"
#include "cli/sync/sync_cost.h"
#include "core/io/result/table.h"

typedef struct luo_sync_write {
    const char *dir;
    luo_set set;
    luo_table iterations, groups;
    const char *kind;                               /* NULL: the mode's name */
    void (*more)(luo_jsonw *json, const void *ctx); /* further keys; NULL: none */
    const void *more_ctx;
} luo_sync_write;

/* Takes the folder and begins the tables of iterations and groups there. Errors: those of
 * luo_folder_take. */
luo_status luo_sync_write_open(luo_cli *cli, const char *dir, luo_sync_write *out, luo_err *err);
/* The rows of a run go there. */
luo_loop_sink luo_sync_write_sink(luo_sync_write *write);
/* The other files, the text or the document. opts: as simulated. mode: as asked for. */
luo_status luo_sync_write_end(luo_cli *cli, luo_sync_write *write, luo_loop_mode mode,
                              const luo_loop_opts *opts, const luo_sync_cost *cost,
                              const luo_loop_summary *summary, luo_err *err);
/* servers.csv. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_sync_write_servers(const char *dir, const luo_exchange_bytes *bytes, luo_err *err);
/* The keys that facts_of writes into summary.json, and into the document of --json. Errors:
 * LUO_EIO; LUO_ENOMEM. */
luo_status luo_sync_write_summary(luo_cli *cli, const char *dir,
                                  void (*facts_of)(luo_jsonw *json, const void *ctx),
                                  const void *ctx, luo_err *err);
/* Gives everything back; safe on one that is all zero. end: what came of the run, if its
 * tables can be written. Errors: LUO_EIO. */
luo_status luo_sync_write_close(luo_cli *cli, luo_sync_write *write, luo_folder_end end,
                                luo_err *err);
#endif
