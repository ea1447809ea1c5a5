/* embed_sim.h: what `luoshu embed` simulates, one function a way of keeping embeddings. */
#ifndef LUO_CLI_SYNC_EMBED_SIM_H
#define LUO_CLI_SYNC_EMBED_SIM_H
#include "cli/cli.h"
#include "core/sync/embed/clicks.h"

/* Errors: LUO_EUSAGE, LUO_EINPUT, LUO_E2BIG, LUO_EIO, LUO_ENOMEM; empty where cli->diags has it. */
luo_status luo_embed_cached(luo_cli *cli, bool cached, luo_err *err); /* het; ps if not cached */
luo_status luo_embed_partition(luo_cli *cli, luo_err *err);           /* gmp */

/* Samples that an option names: `synthetic:samples=1e5,slots=26,vocab=1e6,theta=1.05,groups=1,
 * local=0` or a part of it, `criteo:FILE`, `avazu:FILE`, `trace:FILE`; a path alone is a trace.
 * Errors: as above; those of the file are in cli->diags. */
luo_status luo_embed_samples(luo_cli *cli, const char *option, uint64_t seed, luo_clicks *out,
                             luo_err *err);

/* So many bytes, before they are taken (docs/embeddings.md#how-it-grows); subject: what asks for
 * them, "`--keys` asks for". Errors: LUO_E2BIG. */
luo_status luo_embed_memory(luo_cli *cli, double bytes, const char *subject, luo_err *err);
#endif
