#include "exec/coordinator/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/io/files.h"
#include "exec/limits.h"

/* ---- the command line ---- */

/* Of the launcher; of a group of ranks without inputs and variables. */
enum { WORDS = 16, GROUP_WORDS = 11 };

typedef struct group { /* ranks that follow each other on a host */
    const char *host;  /* NULL: the launcher chooses */
    int32_t n;
    char text[12]; /* n */
} group;

typedef struct command {
    const char **at; /* WORDS + ngroups * (GROUP_WORDS + ninputs + 2 * nforwarded) */
    int n, nforwarded;
    char **forwarded; /* names of variables */
    group *groups;
    int32_t ngroups;
    int hosts; /* srun: file descriptor of a list with a host for each rank; -1: none */
    char address[LUO_RENDEZVOUS_HOST + 16], mpirun[4096], file[32];
} command;

void luo_launch_pin(const luo_exec_options *options)
{
    if (options->nccl_algo) setenv("NCCL_ALGO", options->nccl_algo, 1);
    if (options->nccl_proto) setenv("NCCL_PROTO", options->nccl_proto, 1);
}

/* A word of "NAME,FI_*" that has a variable, as it stands in the environment. */
static bool matches(const char *word, size_t n, const char *variable)
{
    if (n > 0 && word[n - 1] == '*') return strncmp(word, variable, n - 1) == 0;
    return strncmp(word, variable, n) == 0 && variable[n] == '=';
}

static bool is_listed(const char *list, const char *variable)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (matches(at, strcspn(at, ","), variable)) return true;
    return false;
}

/* mpirun gives its environment to the ranks of this host alone. */
static bool goes_along(const luo_exec_options *options, const char *variable)
{
    if (is_listed(LUO_RENDEZVOUS_VARIABLE, variable)) return false; /* it always does */
    return is_listed(options->forward, variable) ||
           (options->gpus && is_listed("NCCL_*,CUDA_*,CUBLAS*", variable));
}

luo_status luo_launch_check_forward(const char *list, luo_err *err)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        const size_t n = strcspn(at, ",");
        bool found = n > 0 && at[n - 1] == '*'; /* which may be none */
        for (int i = 0; environ[i] && !found; i++) found = matches(at, n, environ[i]);
        if (!found)
            return luo_err_set(err, LUO_EUSAGE,
                               "`forward` of `--launcher` names `%.*s`, which is not set; "
                               "variables of the environment are expected, such as "
                               "LD_LIBRARY_PATH or 'FI_*'.",
                               (int)n, at);
    }
    return LUO_OK;
}

static luo_status list_variables(const luo_exec_options *options, command *c, luo_err *err)
{
    int n = 0;
    while (environ[n]) n++;
    c->forwarded = calloc((size_t)n + 1, sizeof *c->forwarded);
    if (!c->forwarded) return luo_err_nomem(err);
    for (int i = 0; options->launcher == LUO_LAUNCH_MPIRUN && i < n; i++) {
        if (!goes_along(options, environ[i])) continue;
        char *name = strndup(environ[i], strcspn(environ[i], "="));
        if (!name) return luo_err_nomem(err);
        c->forwarded[c->nforwarded++] = name;
    }
    return LUO_OK;
}

static bool is_alone(const luo_rendezvous *rendezvous)
{
    return !rendezvous || rendezvous->alone;
}

static void add(command *c, const char *word)
{
    c->at[c->n++] = word;
}

static void add_rank(command *c, const luo_exec_options *options, const luo_rendezvous *rendezvous)
{
    add(c, options->program);
    if (rendezvous) {
        snprintf(c->address, sizeof c->address, "%s:%d", rendezvous->host, rendezvous->port);
        add(c, "--control");
        add(c, c->address);
    }
    for (int32_t i = 0; i < options->ninputs; i++) add(c, options->inputs[i]);
}

bool luo_launch_mpirun(char *out, size_t size)
{
    static const char name[] = "mpirun";
    if (luo_file_beside(name, out, size, NULL) == LUO_OK && access(out, X_OK) == 0) return true;
    snprintf(out, size, "%s", name);
    return false;
}

static void add_words(command *c, const char *const *words)
{
    while (*words) add(c, *words++);
}

static void add_srun(command *c, const luo_exec_options *options, const luo_rendezvous *rendezvous)
{
    static const char *const words[] = {"srun",         "--overcommit", "--kill-on-bad-exit=1",
                                        "--input=none", "--export=ALL", NULL};
    add_words(c, words);
    if (c->hosts >= 0) add(c, "--distribution=arbitrary"); /* as in SLURM_HOSTFILE */
    add(c, "-n");
    add(c, c->groups[0].text);
    add_rank(c, options, rendezvous);
}

static void add_variable(command *c, const char *name)
{
    add(c, "-x"); /* the name: its value would stand where all can read it */
    add(c, name);
}

/* A program for each group of ranks: mpirun numbers ranks in the order of programs, but takes hosts
 * of one list in an order of its own, itself first, and fills their slots. */
static void add_mpirun(command *c, const luo_exec_options *options,
                       const luo_rendezvous *rendezvous)
{
    static const char *const words[] = {"--allow-run-as-root", "--oversubscribe", "--bind-to",
                                        "none", NULL};
    snprintf(c->mpirun, sizeof c->mpirun, "mpirun");
    if (options->launcher == LUO_LAUNCH_LOCAL) (void)luo_launch_mpirun(c->mpirun, sizeof c->mpirun);
    add(c, c->mpirun);
    add_words(c, words);
    for (int32_t i = 0; i < c->ngroups; i++) {
        if (i > 0) add(c, ":");
        if (rendezvous && !rendezvous->alone) add_variable(c, LUO_RENDEZVOUS_VARIABLE);
        for (int k = 0; k < c->nforwarded; k++) add_variable(c, c->forwarded[k]);
        add(c, "-n");
        add(c, c->groups[i].text);
        if (c->groups[i].host) add(c, "--host");
        if (c->groups[i].host) add(c, c->groups[i].host);
        add_rank(c, options, rendezvous);
    }
}

/* host_of NULL, or srun, which gets a list: one group. */
static luo_status group_ranks(command *c, const char *const *host_of, int32_t n, luo_err *err)
{
    c->groups = calloc((size_t)n, sizeof *c->groups);
    if (!c->groups) return luo_err_nomem(err);
    for (int32_t r = 0; r < n; r++) {
        const char *host = host_of ? host_of[r] : NULL;
        if (r == 0 || (host && strcmp(host, c->groups[c->ngroups - 1].host) != 0))
            c->groups[c->ngroups++].host = host;
        c->groups[c->ngroups - 1].n++;
    }
    for (int32_t i = 0; i < c->ngroups; i++)
        snprintf(c->groups[i].text, sizeof c->groups[i].text, "%d", c->groups[i].n);
    return LUO_OK;
}

/* Lies in memory: the launcher alone reads it. */
static luo_status write_hosts(command *c, const char *const *host_of, int32_t n, luo_err *err)
{
    c->hosts = memfd_create("luoshu-hosts", MFD_CLOEXEC);
    bool good = c->hosts >= 0;
    for (int32_t r = 0; r < n && good; r++) good = dprintf(c->hosts, "%s\n", host_of[r]) > 0;
    if (!good) return luo_io_err(err, "write", "the hosts of the ranks in memory");
    snprintf(c->file, sizeof c->file, "/dev/fd/%d", c->hosts);
    return LUO_OK;
}

static luo_status compose(command *c, const luo_exec_options *options,
                          const luo_rendezvous *rendezvous, const char *const *host_of, int32_t n,
                          luo_err *err)
{
    const bool srun = options->launcher == LUO_LAUNCH_SRUN;
    LUO_TRY(list_variables(options, c, err));
    LUO_TRY(group_ranks(c, srun ? NULL : host_of, n, err));
    if (host_of && srun) LUO_TRY(write_hosts(c, host_of, n, err));
    const size_t words = GROUP_WORDS + (size_t)options->ninputs + 2 * (size_t)c->nforwarded;
    c->at = calloc(WORDS + (size_t)c->ngroups * words, sizeof *c->at);
    if (!c->at) return luo_err_nomem(err);
    if (srun)
        add_srun(c, options, rendezvous);
    else
        add_mpirun(c, options, rendezvous);
    return LUO_OK;
}

static void free_command(command *c)
{
    for (int i = 0; i < c->nforwarded; i++) free(c->forwarded[i]);
    free(c->forwarded);
    free(c->groups);
    free(c->at);
    if (c->hosts >= 0) close(c->hosts);
}

/* ---- the process ---- */

/* Containers often forbid reading another process's memory; Open MPI then writes a warning for each
 * message unless told not to try. */
static bool may_read_memory(void)
{
    char from = 1, to = 0;
    const struct iovec local = {&to, 1}, remote = {&from, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 && to == 1;
}

/* Open MPI's own sockets listen on all interfaces, whatever it is told of interfaces: where ranks
 * share memory they need none. */
static void share_memory(void)
{
    setenv("OMPI_MCA_btl", "self,vader", 0);
    setenv("OMPI_MCA_pml", "ob1", 0);
}

/* --launcher local: no other host, whatever batch system is around. Exclusions, since the names of
 * all plugins that an Open MPI could have are not known. */
static void stay_here(void)
{
    setenv("OMPI_MCA_plm", "isolated", 1);
    setenv("OMPI_MCA_ras", "^slurm,gridengine,tm,lsf", 1);
}

/* A launcher that is killed leaves them behind; in our folder the next start finds them. */
static void keep_files_in(const char *scratch)
{
    setenv("OMPI_MCA_orte_tmpdir_base", scratch, 0);
    setenv("OMPI_MCA_btl_vader_backing_directory", scratch, 0);
}

void luo_launch_environment(bool alone, const char *scratch)
{
    if (alone) share_memory();
    if (alone && scratch[0]) keep_files_in(scratch);
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
    setenv("OMPI_MCA_btl", "^openib", 0); /* old, and talkative where it finds a device */
    if (!may_read_memory()) setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    /* A rank is one core. OpenBLAS begins threads before the rank can say so, and without memory
     * for them (ulimit -v) it would try for ever. */
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
}

typedef struct before { /* what is done in the launcher's process before it is one */
    const luo_exec_options *options;
    const luo_rendezvous *rendezvous;
    const command *command;
    const char *scratch;
} before;

/* What the job's own shape would say of nodes and tasks goes against a list of hosts: --nodes may
 * not even be given with one. */
static void name_hosts(const command *c)
{
    static const char *const shapes[] = {"SLURM_NNODES", "SLURM_JOB_NUM_NODES",
                                         "SLURM_NTASKS_PER_NODE", "SLURM_DISTRIBUTION"};
    fcntl(c->hosts, F_SETFD, 0);
    setenv("SLURM_HOSTFILE", c->file, 1);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) unsetenv(shapes[i]);
}

static int prepare(void *ctx)
{
    const before *b = ctx;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGXFSZ, SIG_DFL); /* MPI hangs where its files may not grow; so it ends */
    if (b->options->launcher == LUO_LAUNCH_LOCAL) stay_here();
    luo_launch_environment(is_alone(b->rendezvous), b->scratch);
    if (b->rendezvous) setenv(LUO_RENDEZVOUS_VARIABLE, b->rendezvous->token, 1);
    if (b->command->hosts >= 0) name_hosts(b->command);
    return 0;
}

static luo_status no_launcher(const luo_exec_options *options, int code, luo_err *err)
{
    static const char *const right[] = {
        [LUO_LAUNCH_MPIRUN] = "Open MPI has to be installed (openmpi-bin)",
        [LUO_LAUNCH_SRUN] = "Slurm has to be installed, or use --launcher mpirun",
        [LUO_LAUNCH_LOCAL] = "a bundle has one (`make bundle`), or Open MPI has to be installed "
                             "(openmpi-bin)"};
    char why[128];
    luo_io_errno_text(code, why, sizeof why);
    return luo_err_set(err, LUO_EBACKEND, "cannot start `%s`: %s; %s.",
                       options->launcher == LUO_LAUNCH_SRUN ? "srun" : "mpirun", why,
                       right[options->launcher]);
}

static luo_status spawn_launcher(const luo_exec_options *options, const command *c,
                                 const luo_rendezvous *rendezvous, luo_launch *launch, luo_err *err)
{
    int why;
    before b = {options, rendezvous, c, launch->scratch.path};
    const luo_process_opts opts = {
        .inside = prepare,
        .ctx = &b,
        .argv = c->at,
        .no_input = true,
        .out = launch->log,
        .err = launch->log,
        .group = true,
        .parent_signal = SIGTERM /* mpirun and srun then end their ranks, also on other hosts */
    };
    if (luo_process_start(&opts, &launch->process, &why) == LUO_OK) return LUO_OK;
    return no_launcher(options, why, err);
}

static luo_status open_log(const luo_exec_options *options, luo_launch *launch, luo_err *err)
{
    launch->log = options->log ? open(options->log,
                                      O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666)
                               : memfd_create("luoshu-ranks", MFD_CLOEXEC);
    if (launch->log < 0)
        return luo_io_err(err, "write", options->log ? options->log : "a log in memory");
    launch->has_log = true;
    launch->log_from = lseek(launch->log, 0, SEEK_END);
    return LUO_OK;
}

luo_status luo_launch_start(const luo_exec_options *options, const luo_rendezvous *rendezvous,
                            const char *const *host_of, int32_t n, luo_launch *out, luo_err *err)
{
    luo_launch launch = {0};
    command c = {.hosts = -1};
    LUO_TRY(luo_limits_check(is_alone(rendezvous) ? n : 1, err));
    luo_launch_pin(options);
    luo_status st = compose(&c, options, rendezvous, host_of, n, err);
    if (st == LUO_OK) st = open_log(options, &launch, err);
    if (st == LUO_OK && is_alone(rendezvous)) (void)luo_scratch_open(&launch.scratch, NULL);
    if (st == LUO_OK) st = spawn_launcher(options, &c, rendezvous, &launch, err);
    free_command(&c);
    if (st == LUO_OK)
        *out = launch;
    else
        luo_launch_end(&launch, options, 0);
    return st;
}

bool luo_launch_ended(luo_launch *launch)
{
    return luo_process_wait(&launch->process, 0);
}

void luo_launch_end(luo_launch *launch, const luo_exec_options *options, double wait_s)
{
    enum { GRACE_S = 2 };
    if (!luo_process_wait(&launch->process, wait_s)) luo_process_end(&launch->process, GRACE_S);
    luo_scratch_close(&launch->scratch);
    if (launch->has_log) {
        if (options->log && lseek(launch->log, 0, SEEK_END) == 0) unlink(options->log);
        close(launch->log);
    }
    *launch = (luo_launch){0};
}

/* ---- why it failed ---- */

enum { REASON_BYTES = 1 << 15 };

/* Lines up to the second ruler of dashes, on one line. */
static void first_notice(const char *at, char *text, size_t size)
{
    size_t used = 0;
    while (*at && used + 1 < size) {
        const size_t n = strcspn(at, "\n");
        if (used > 0 && strncmp(at, "-----", 5) == 0) break;
        if (strspn(at, "- \t\r") < n) {
            const int did =
                snprintf(text + used, size - used, "%s%.*s", used ? " " : "", (int)n, at);
            used = did < 0 || (size_t)did >= size - used ? size - 1 : used + (size_t)did;
        }
        at += n + (at[n] == '\n');
    }
    while (used > 0 && strchr(". \r", text[used - 1])) text[--used] = 0;
}

/* What was written since the start; NULL: nothing, or no memory. Owner: free. */
static char *read_log(const luo_launch *launch)
{
    char *log = launch->has_log ? calloc(1, REASON_BYTES + 1) : NULL;
    if (!log || pread(launch->log, log, REASON_BYTES, launch->log_from) > 0) return log;
    free(log);
    return NULL;
}

/* How mpirun tells that a rank was killed; of one that had not begun MPI only its own code does. */
static const char killed[] = "exited on signal";

bool luo_launch_rank_killed(const luo_launch *launch)
{
    char *log = read_log(launch);
    const bool found = log && strstr(log, killed);
    free(log);
    return found || (!luo_process_signal(&launch->process) &&
                     luo_process_code(&launch->process) == 128 + SIGKILL);
}

int32_t luo_launch_rank_named(const luo_launch *launch)
{
    static const char says[] = "process rank ";
    char *log = read_log(launch);
    const char *how = log ? strstr(log, killed) : NULL, *at = log;
    int32_t rank = -1;
    while (how && (at = strstr(at, says)) && at < how) {
        at += sizeof says - 1;
        rank = (int32_t)strtol(at, NULL, 10);
    }
    free(log);
    return rank;
}

static void line_of(const char *log, const char *at, char *text, size_t size)
{
    while (at > log && at[-1] != '\n') at--;
    size_t n = strcspn(at, "\n");
    while (n > 0 && strchr(". \r", at[n - 1])) n--;
    snprintf(text, size, "%.*s", (int)n, at);
}

/* What a rank program said itself; NULL: nothing. */
static const char *said_by_rank(const char *log)
{
    static const char *const ours[] = {"luoshu-rank: error: ", "luoshu-rank-cuda: error: "};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        const char *at = strstr(log, ours[i]);
        if (at) return at + strlen(ours[i]);
    }
    return NULL;
}

void luo_launch_reason(const luo_launch *launch, char *text, size_t size)
{
    char *log = read_log(launch);
    const char *said = log ? said_by_rank(log) : NULL, *how = log ? strstr(log, killed) : NULL;
    text[0] = 0;
    if (said)
        line_of(said, said, text, size);
    else if (how)
        line_of(log, how, text, size);
    else if (log)
        first_notice(log, text, size);
    free(log);
    if (text[0]) return;
    const int sig = luo_process_signal(&launch->process);
    snprintf(text, size,
             sig ? "the launcher was ended by signal %d" : "the launcher ended with code %d",
             sig ? sig : luo_process_code(&launch->process));
}
