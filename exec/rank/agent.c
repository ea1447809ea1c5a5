#include "exec/rank/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/rank/agent_internal.h"
#include "exec/wire.h"

/* ---- when the coordinator is gone ---- */

static int code_of_break(void)
{
    return luo_status_exit(LUO_EPEER);
}

/* Under --launcher none the coordinator is a child of rank 0, whose end the launcher of the user
 * waits for: its exit code is the run's. The other ranks let rank 0 go first, because launchers
 * give back the first code that is not 0. */
static int code_of_coordinator(void)
{
    int how;
    pid_t got;
    while ((got = waitpid(-1, &how, 0)) < 0 && errno == EINTR) {
    }
    if (got > 0) return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
    sleep(1);
    return code_of_break();
}

/* ---- finding it ---- */

typedef struct rendezvous_point {
    char address[320], token[LUO_TOKEN_TEXT];
} rendezvous_point;

static luo_status where_to(luo_agent *a, rendezvous_point *p, luo_err *err)
{
    memset(p, 0, sizeof *p);
    if (a->args->control) {
        snprintf(p->address, sizeof p->address, "%s", a->args->control);
        snprintf(p->token, sizeof p->token, "%s", a->args->token ? a->args->token : "");
    }
    return a->args->broadcast ? luo_boot_tell(a->boot, p, sizeof *p, err) : LUO_OK;
}

static luo_status hello(const luo_agent *a, const rendezvous_point *p, int fd, luo_err *err)
{
    luo_wire w = {0};
    char host[LUO_HOST_TEXT] = "";
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "a host");
    luo_wire_put_int(&w, LUO_MESSAGE_VERSION);
    luo_wire_put_text(&w, p->token);
    luo_wire_put_int(&w, a->rank);
    luo_wire_put_int(&w, a->nranks);
    luo_wire_put_int(&w, getpid());
    luo_wire_put_text(&w, host);
    const luo_status st = luo_wire_send(fd, LUO_SAY_HELLO, &w, err);
    luo_wire_free(&w);
    return st;
}

static luo_status meet(luo_agent *a, luo_err *err)
{
    rendezvous_point p;
    int fd;
    LUO_TRY(where_to(a, &p, err));
    LUO_TRY(luo_wire_connect(p.address, &fd, err));
    luo_status st = hello(a, &p, fd, err);
    if (st == LUO_OK)
        st = luo_listener_start(fd, &a->where,
                                a->args->broadcast ? code_of_coordinator : code_of_break,
                                &a->listener, err);
    else
        close(fd);
    return st;
}

/* ---- serving ---- */

static void answer(luo_agent *a, luo_command *c)
{
    luo_wire body = {0}, w = {0};
    luo_err err = {0};
    luo_status st = luo_agent_work(a, c, &body, &err);
    a->where.job = -1;
    a->where.waiting = false;
    if (st == LUO_OK && body.failed) st = luo_err_nomem(&err);
    luo_wire_put_int(&w, c->serial);
    luo_wire_put_int(&w, st);
    luo_wire_put_text(&w, st == LUO_OK ? "" : err.text);
    if (st == LUO_OK) luo_wire_put_bytes(&w, body.at, body.len);
    /* A coordinator that is gone is the listener's to see; an answer that cannot be made would
     * never come. */
    const luo_status sent = luo_listener_say(a->listener, LUO_SAY_ANSWER, &w, NULL);
    if (sent != LUO_OK && sent != LUO_EPEER) _exit(luo_status_exit(sent));
    luo_wire_free(&body);
    luo_wire_free(&w);
}

static void remark(const luo_agent *a)
{
    const char *text = a->x && a->executor->remark ? a->executor->remark(a->x) : NULL;
    if (text && a->say) a->say(a->rank, text);
}

static void serve(luo_agent *a)
{
    luo_command c;
    for (luo_listener_next(a->listener, &c); c.kind != LUO_SAY_END;
         luo_listener_next(a->listener, &c)) {
        answer(a, &c);
        remark(a);
        luo_wire_free(&c.payload);
    }
    luo_wire_free(&c.payload);
}

static luo_status live(luo_agent *a, luo_err *err)
{
    a->arena = luo_arena_new(1 << 20);
    if (!a->arena) return luo_err_nomem(err);
    a->where.job = -1;
    LUO_TRY(luo_boot_open(&a->boot, &a->rank, &a->nranks, err));
    signal(SIGXFSZ, SIG_IGN); /* not before: without room for its own files MPI would hang */
    LUO_TRY(meet(a, err));
    serve(a);
    return LUO_OK;
}

static void give_back(luo_agent *a)
{
    luo_agent_drop_jobs(a);
    if (a->x) a->executor->close(a->x);
    if (a->corpus) luo_corpus_close(a->corpus);
    if (a->listener) luo_listener_close(a->listener);
    luo_arena_free(a->arena);
    luo_boot_close(a->boot); /* last: a sanitized build looks for leaks there */
}

luo_status luo_rank_main(int argc, char **argv, const luo_rank_executor *executor,
                         void (*say)(int32_t rank, const char *text), int *code, luo_err *err)
{
    luo_rank_args args;
    luo_agent a = {.args = &args, .executor = executor, .say = say};
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL); /* before MPI makes threads: the listener takes it */
    LUO_TRY(luo_rank_args_read(argc, argv, &args, err));
    const luo_status st = live(&a, err);
    free(args.overrides);
    /* Under --launcher none the coordinator has already said why it is not there. The others end by
     * themselves, so MPI is not ended in common. */
    if (st == LUO_EPEER && args.broadcast) _exit(code_of_coordinator());
    if (st == LUO_OK) {
        give_back(&a);
        if (args.broadcast && args.control) *code = code_of_coordinator();
    }
    return st;
}
