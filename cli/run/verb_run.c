/* verb_run.c: `luoshu run SCENARIO|PLAN --backend host|cuda`. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/inputs.h"
#include "cli/load.h"
#include "cli/machine.h"
#include "cli/options/spec.h"
#include "cli/run/run_checks.h"
#include "core/io/files.h"
#include "exec/coordinator/hosts.h"
#include "exec/coordinator/launch.h"

static luo_status find_backend(luo_cli *cli, luo_session *session, const luo_real_backend **out,
                               luo_err *err)
{
    if (!luo_args_has(&cli->args, "backend"))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--backend` is missing; name host or cuda, or use "
                           "`luoshu sim` to simulate.");
    LUO_TRY(luo_real_backend_of(&cli->args, out, err));
    session->run.backend = (*out)->row;
    session->run.simulator = luo_backend_find(luo_backends, luo_nbackends, "sim");
    return LUO_OK;
}

/* What only GPUs have. */
static luo_status gpu_options(luo_cli *cli, luo_exec_options *options, luo_err *err)
{
    enum { ALGO, PROTO, SHARE, PARTS };
    static const luo_text_part parts[PARTS] = {
        {"nccl_algo", false}, {"nccl_proto", false}, {"share", false}};
    static const char *const words[] = {"off", "on"};
    const char *text = luo_args_get(&cli->args, "cuda", NULL), *values[PARTS];
    int share = 0;
    if (!text) return LUO_OK;
    if (!options->gpus)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--cuda` is for --backend cuda; the others use no GPUs and no NCCL.");
    LUO_TRY(luo_spec_texts(cli->arena, "cuda",
                           "`nccl_algo=Ring,nccl_proto=Simple,share=on` or a part of it", text,
                           parts, PARTS, NULL, values, err));
    if (values[SHARE])
        LUO_TRY(luo_args_choice_of("cuda share", values[SHARE], words, 2, &share, err));
    options->nccl_algo = values[ALGO];
    options->nccl_proto = values[PROTO];
    options->share_gpus = share == 1;
    return LUO_OK;
}

static luo_status input_file(const luo_args *args, const char *option, const char **out,
                             luo_err *err)
{
    *out = luo_args_get(args, option, NULL);
    if (!*out || access(*out, R_OK) == 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT, "`--%s` is `%s`, which cannot be read; a file is expected.",
                       option, *out);
}

static luo_status contradictions(const luo_args *args, luo_err *err)
{
    if (!luo_args_has(args, "resume")) return LUO_OK;
    if (luo_args_has(args, "load"))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--load` gives the weights before the first step and "
                           "`--resume` goes on behind it; give one of them.");
    if (luo_args_has(args, "save-init"))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--save-init` writes the weights before the first step, "
                           "and `--resume` goes on behind it; give one of them.");
    return LUO_OK;
}

/* Is this one of the processes of mpirun or of a PMI launcher? */
static bool started(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE");
}

static int usual_launcher(void)
{
    char mpirun[4096];
    if (started()) return LUO_LAUNCH_NONE;
    return luo_launch_mpirun(mpirun, sizeof mpirun) ? LUO_LAUNCH_LOCAL : LUO_LAUNCH_MPIRUN;
}

/* What belongs to several hosts. */
static luo_status check_launcher(const luo_exec_options *options, luo_err *err)
{
    const char *const given[] = {options->hostfile, options->listen, options->forward};
    static const char *const names[] = {"--hostfile", "listen", "forward"};
    if (options->launcher == LUO_LAUNCH_NONE && options->forward)
        return luo_err_set(err, LUO_EUSAGE,
                           "`forward` of `--launcher` is for ranks that luoshu starts, and a "
                           "launcher of your own starts these; give the variables to that "
                           "(mpirun -x NAME).");
    for (int i = 0; i < 3 && options->launcher == LUO_LAUNCH_LOCAL; i++)
        if (given[i])
            return luo_err_set(err, LUO_EUSAGE,
                               "`%s` is for ranks on other hosts, and `--launcher local` starts "
                               "all on this one; leave one of them out, or use --launcher mpirun.",
                               names[i]);
    return luo_launch_check_forward(options->forward, err);
}

static luo_status read_launcher(luo_cli *cli, luo_exec_options *options, luo_err *err)
{
    static const char *const launchers[] = {"mpirun", "srun", "none", "local"};
    static const luo_text_part parts[] = {{"listen", false}, {"forward", true}};
    const char *text = luo_args_get(&cli->args, "launcher", NULL), *name = NULL, *values[2] = {0};
    int launcher = usual_launcher();
    if (text)
        LUO_TRY(luo_spec_texts(cli->arena, "launcher",
                               "`mpirun,listen=ADDRESS,forward=NAME` or a part of it", text, parts,
                               2, &name, values, err));
    if (name) LUO_TRY(luo_args_choice_of("launcher", name, launchers, 4, &launcher, err));
    options->launcher = (luo_launcher)launcher;
    options->listen = values[0];
    options->forward = values[1];
    return check_launcher(options, err);
}

enum { KEPT = 2 }; /* checkpoints unless told: the newest, and one in case that it is broken */

/* `N`, `N,keep=K` or `keep=K`. every: 0: as the scenario says. */
static luo_status read_checkpoints(luo_cli *cli, int64_t *every, int64_t *keep, luo_err *err)
{
    static const luo_text_part part = {"keep", false};
    const char *text = luo_args_get(&cli->args, "checkpoint-every", NULL), *first, *kept;
    *every = 0;
    *keep = KEPT;
    if (!text) return LUO_OK;
    LUO_TRY(luo_spec_texts(cli->arena, "checkpoint-every", "`100`, `100,keep=2` or `keep=2`", text,
                           &part, 1, &first, &kept, err));
    if (first) LUO_TRY(luo_args_int_of("checkpoint-every", first, 1, INT32_MAX, every, err));
    return kept ? luo_args_int_of("checkpoint-every keep", kept, 1, INT32_MAX, keep, err) : LUO_OK;
}

static luo_status read_opts(luo_cli *cli, luo_session *session, luo_exec_options *options,
                            luo_err *err)
{
    const luo_args *args = &cli->args;
    int64_t ranks, every, keep;
    LUO_TRY(luo_args_int(args, "ranks", 0, 1, 1 << 20, &ranks, err));
    LUO_TRY(read_checkpoints(cli, &every, &keep, err));
    LUO_TRY(luo_args_number(args, "stuck-s", 60, 0.1, 1e9, &options->stuck_s, err));
    LUO_TRY(contradictions(args, err));
    options->hostfile = luo_args_get(args, "hostfile", NULL);
    LUO_TRY(read_launcher(cli, options, err));
    LUO_TRY(input_file(args, "hostfile", &options->hostfile, err));
    LUO_TRY(input_file(args, "data", &options->data, err));
    LUO_TRY(input_file(args, "load", &options->load, err));
    LUO_TRY(input_file(args, "resume", &options->resume, err));
    options->save_init = luo_args_get(args, "save-init", NULL);
    options->dump_batches = luo_args_get(args, "dump-batches", NULL);
    options->ranks = (int32_t)ranks;
    options->keep = (int32_t)keep;
    session->run.resume = options->resume != NULL;
    session->at_once = 1; /* policies share the machine */
    return luo_inputs_shared(cli, session, "auto", err);
}

/* ---- the scenario as this run has it ---- */

static luo_status take_dtype(luo_cli *cli, luo_scenario *sc, const luo_real_backend *backend,
                             bool bare, luo_err *err)
{
    static const char *const names[] = {LUO_DTYPE_LIST(LUO_WORD_TEXT)};
    int which;
    LUO_TRY(luo_args_choice(&cli->args, "dtype", 0, names, LUO_DTYPES, &which, err));
    if (!luo_args_has(&cli->args, "dtype")) return luo_run_check_dtype(sc, backend, err);
    if ((luo_dtype)which == backend->refused)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--dtype` is `%s`, and backend `%s` computes in %s; give one of them.",
                           names[which], backend->row->name, backend->computes);
    LUO_TRY(luo_inputs_dtype(cli, sc, (luo_dtype)which, err));
    if (bare) sc->hash = luo_plan_hash(sc->plan);
    return LUO_OK;
}

/* Deaths are answered as the policy says; a bare plan has none, and survives only if it is told. */
static luo_status take_restarts(luo_cli *cli, luo_session *session, luo_exec_options *options,
                                luo_err *err)
{
    int64_t most;
    LUO_TRY(
        luo_args_int(&cli->args, "max-restarts", session->bare ? 0 : 3, 0, INT32_MAX, &most, err));
    session->run.max_restarts = options->max_restarts = (int32_t)most;
    session->run.answer_deaths = session->bare && most > 0;
    return LUO_OK;
}

static luo_status take_checkpoints(luo_cli *cli, luo_scenario *sc, luo_err *err)
{
    int64_t every, keep;
    LUO_TRY(read_checkpoints(cli, &every, &keep, err));
    if (every == 0) return LUO_OK;
    sc->checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc->checkpoint.every_steps = every;
    return LUO_OK;
}

static luo_status one_host(luo_cli *cli, const luo_exec_options *options, luo_err *err)
{
    luo_hosts hosts;
    LUO_TRY(luo_hosts_of_run(cli->arena, options, &hosts, err));
    if (hosts.n < 2) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "`checkpoint.target` is `peer`, which a real run keeps in the memory of one "
                       "host, and there are %d (`%s`, `%s` ..); `storage` that all of them see is "
                       "expected.",
                       hosts.n, hosts.at[0], hosts.at[1]);
}

static luo_status adjust(luo_cli *cli, luo_session *session, const luo_real_backend *backend,
                         luo_exec_options *options, luo_err *err)
{
    luo_scenario *sc = LUO_NEW(cli->arena, luo_scenario);
    if (!sc) return luo_err_nomem(err);
    *sc = *session->scenario;
    session->scenario = sc;
    LUO_TRY(luo_run_check_bounds(sc, err));
    LUO_TRY(luo_run_check_model(sc, err));
    LUO_TRY(take_dtype(cli, sc, backend, session->bare, err));
    LUO_TRY(take_restarts(cli, session, options, err));
    LUO_TRY(take_checkpoints(cli, sc, err));
    if (options->ranks > sc->cluster->ndevices)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--ranks` is %d and cluster `%s` has %d devices; a rank "
                           "is a device.",
                           options->ranks, sc->cluster->name, sc->cluster->ndevices);
    options->cluster = sc->cluster;
    if (sc->checkpoint.target == LUO_TARGET_PEER) LUO_TRY(one_host(cli, options, err));
    if (options->dump_batches && sc->npolicies > 1)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--dump-batches` is one file and the scenario has %d "
                           "policies; choose one with --policies.",
                           sc->npolicies);
    if (options->launcher == LUO_LAUNCH_NONE && sc->npolicies > 1)
        return luo_err_set(err, LUO_EUSAGE,
                           "a launcher of your own starts its ranks once, and the "
                           "scenario has %d policies; choose one with --policies.",
                           sc->npolicies);
    if (options->ranks == 0 && session->bare && options->max_restarts == 0)
        options->ranks = luo_run_ranks(cli, sc, err);
    LUO_TRY(luo_run_check_names(cli, sc, options, err));
    return luo_run_check_resume(cli, sc, options, err);
}

/* ---- what a rank is told ---- */

static luo_status add_file(luo_cli *cli, const char **at, int32_t *n, const char *option,
                           const char *path, luo_err *err)
{
    char *whole = realpath(path, NULL);
    at[(*n)++] = option;
    at[*n] = luo_arena_strdup(cli->arena, whole ? whole : path);
    free(whole);
    return at[(*n)++] ? LUO_OK : luo_err_nomem(err);
}

static luo_status rank_inputs(luo_cli *cli, const luo_session *session, luo_exec_options *options,
                              luo_err *err)
{
    const char **at = LUO_NEW_N(cli->arena, const char *, 8 + 2 * session->noverrides);
    int32_t n = 0;
    if (!at) return luo_err_nomem(err);
    if (session->bare) {
        LUO_TRY(add_file(cli, at, &n, "--model", luo_args_get(&cli->args, "model", ""), err));
        LUO_TRY(add_file(cli, at, &n, "--cluster", luo_args_get(&cli->args, "cluster", ""), err));
        if (luo_args_get(&cli->args, "stack", NULL))
            LUO_TRY(add_file(cli, at, &n, "--stack", luo_args_get(&cli->args, "stack", ""), err));
    } else {
        LUO_TRY(add_file(cli, at, &n, "--scenario", cli->args.files[0], err));
    }
    if (luo_args_has(&cli->args, "dtype")) {
        at[n++] = "--dtype";
        at[n++] = luo_args_get(&cli->args, "dtype", "");
    }
    for (int32_t i = 0; i < session->noverrides; i++) {
        at[n++] = "--set";
        at[n++] = session->overrides[i];
    }
    options->inputs = at;
    options->ninputs = n;
    return LUO_OK;
}

static luo_status run(luo_cli *cli, luo_err *err)
{
    luo_session session = {0};
    luo_exec_options options = {0};
    const luo_real_backend *backend = NULL;
    luo_rendezvous rendezvous;
    LUO_TRY(read_opts(cli, &session, &options, err));
    LUO_TRY(find_backend(cli, &session, &backend, err));
    options.gpus = backend->gpus;
    LUO_TRY(gpu_options(cli, &options, err));
    LUO_TRY(luo_machine_rank_program(cli->arena, backend->program, &options.program, err));
    LUO_TRY(luo_inputs_read(cli, &session, cli->args.files[0], err));
    LUO_TRY(adjust(cli, &session, backend, &options, err));
    LUO_TRY(rank_inputs(cli, &session, &options, err));
    LUO_TRY(luo_inputs_dir(cli, &session, NULL, err));
    if (options.launcher == LUO_LAUNCH_NONE) {
        LUO_TRY(luo_launch_split(&options, &rendezvous, err)); /* only one process comes back */
        options.rendezvous = &rendezvous;
        options.ranks = rendezvous.nranks;
    }
    session.run.ranks = options.ranks;
    session.exec = &options;
    luo_cli_flush(cli);
    return luo_session_run(cli, &session);
}

luo_status luo_verb_run_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, 1, "one scenario or plan is"));
    const luo_status st = run(cli, &err);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}
