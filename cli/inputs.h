/* inputs.h: what `sim` and `run` have in common: options and files into a session. Sentences
 * are in err, or, of files, in cli->diags (err is then empty). */
#ifndef LUO_CLI_INPUTS_H
#define LUO_CLI_INPUTS_H
#include "cli/run/session.h"

/* --trace-steps (otherwise `trace`), --plots, --limit-s, --force, --keep-programs, --verbose. */
luo_status luo_inputs_shared(luo_cli *cli, luo_session *session, const char *trace, luo_err *err);
/* --comm, --comm-streams, --fold, and the simulator, loaded once for all processes. */
luo_status luo_inputs_simulator(luo_cli *cli, luo_session *session, luo_err *err);
/* Model and plans of the scenario in this type; sc, which is the caller's, points to copies. */
luo_status luo_inputs_dtype(luo_cli *cli, luo_scenario *sc, luo_dtype dtype, luo_err *err);
/* Steps of an option, "0-3,40", as ranges; expected: what the sentence of an error asks for.
 * Owner: cli->arena. Errors: LUO_EUSAGE; LUO_ENOMEM. */
luo_status luo_inputs_steps(luo_cli *cli, const char *option, const char *text,
                            const char *expected, const luo_range **out, int32_t *n, luo_err *err);
/* An option with the values on and off; on if it is not given. */
luo_status luo_inputs_on_off(const luo_args *args, const char *name, bool *out, luo_err *err);
/* A scenario with --set, --seed, --steps, --stack and --policies, or, where the first file of the
 * command is a plan, all its files with --model and --cluster: a scenario without events, a policy
 * `static` each. Its folder is `plan`, of several the name of the file. */
luo_status luo_inputs_read(luo_cli *cli, luo_session *session, const char *path, luo_err *err);
/* Name for a folder: of the scenario, or `plan`, of several `plans`. Pre: luo_inputs_read. */
const char *luo_inputs_name(const luo_session *session);
/* --out, `dir`, or NAME-seedN. */
luo_status luo_inputs_dir(luo_cli *cli, luo_session *session, const char *dir, luo_err *err);
#endif
