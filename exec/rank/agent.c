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

static luo_status where_to(luo_agent *agent, rendezvous_point *point, luo_err *err)
{
    memset(point, 0, sizeof *point);
    if (agent->args->control) {
        snprintf(point->address, sizeof point->address, "%s", agent->args->control);
        snprintf(point->token, sizeof point->token, "%s",
                 agent->args->token ? agent->args->token : "");
    }
    return agent->args->broadcast ? luo_boot_tell(agent->boot, point, sizeof *point, err) : LUO_OK;
}

static luo_status hello(const luo_agent *agent, const rendezvous_point *point, int fd, luo_err *err)
{
    luo_wire wire = {0};
    char host[LUO_HOST_TEXT] = "";
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "a host");
    luo_wire_put_int(&wire, LUO_MESSAGE_VERSION);
    luo_wire_put_text(&wire, point->token);
    luo_wire_put_int(&wire, agent->rank);
    luo_wire_put_int(&wire, agent->nranks);
    luo_wire_put_int(&wire, getpid());
    luo_wire_put_text(&wire, host);
    const luo_status st = luo_wire_send(fd, LUO_SAY_HELLO, &wire, err);
    luo_wire_free(&wire);
    return st;
}

static luo_status meet(luo_agent *agent, luo_err *err)
{
    rendezvous_point point;
    int fd;
    LUO_TRY(where_to(agent, &point, err));
    LUO_TRY(luo_wire_connect(point.address, &fd, err));
    luo_status st = hello(agent, &point, fd, err);
    if (st == LUO_OK)
        st = luo_listener_start(fd, &agent->where,
                                agent->args->broadcast ? code_of_coordinator : code_of_break,
                                &agent->listener, err);
    else
        close(fd);
    return st;
}

/* ---- serving ---- */

static void answer(luo_agent *agent, luo_command *command)
{
    luo_wire body = {0}, wire = {0};
    luo_err err = {0};
    luo_status st = luo_agent_work(agent, command, &body, &err);
    agent->where.job = -1;
    agent->where.waiting = false;
    if (st == LUO_OK && body.failed) st = luo_err_nomem(&err);
    luo_wire_put_int(&wire, command->serial);
    luo_wire_put_int(&wire, st);
    luo_wire_put_text(&wire, st == LUO_OK ? "" : err.text);
    if (st == LUO_OK) luo_wire_put_bytes(&wire, body.at, body.len);
    /* A coordinator that is gone is the listener's to see; an answer that cannot be made would
     * never come. */
    const luo_status sent = luo_listener_say(agent->listener, LUO_SAY_ANSWER, &wire, NULL);
    if (sent != LUO_OK && sent != LUO_EPEER) _exit(luo_status_exit(sent));
    luo_wire_free(&body);
    luo_wire_free(&wire);
}

static void remark(const luo_agent *agent)
{
    const char *text =
        agent->x && agent->executor->remark ? agent->executor->remark(agent->x) : NULL;
    if (text && agent->say) agent->say(agent->rank, text);
}

static void serve(luo_agent *agent)
{
    luo_command command;
    for (luo_listener_next(agent->listener, &command); command.kind != LUO_SAY_END;
         luo_listener_next(agent->listener, &command)) {
        answer(agent, &command);
        remark(agent);
        luo_wire_free(&command.payload);
    }
    luo_wire_free(&command.payload);
}

static luo_status live(luo_agent *agent, luo_err *err)
{
    agent->arena = luo_arena_new(1 << 20);
    if (!agent->arena) return luo_err_nomem(err);
    agent->where.job = -1;
    LUO_TRY(luo_boot_open(&agent->boot, &agent->rank, &agent->nranks, err));
    signal(SIGXFSZ, SIG_IGN); /* not before: without room for its own files MPI would hang */
    LUO_TRY(meet(agent, err));
    serve(agent);
    return LUO_OK;
}

static void give_back(luo_agent *agent)
{
    luo_agent_drop_jobs(agent);
    if (agent->x) agent->executor->close(agent->x);
    if (agent->corpus) luo_corpus_close(agent->corpus);
    if (agent->listener) luo_listener_close(agent->listener);
    luo_arena_free(agent->arena);
    luo_boot_close(agent->boot); /* last: a sanitized build looks for leaks there */
}

luo_status luo_rank_main(int argc, char **argv, const luo_rank_executor *executor,
                         void (*say)(int32_t rank, const char *text), int *code, luo_err *err)
{
    luo_rank_args args;
    luo_agent agent = {.args = &args, .executor = executor, .say = say};
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL); /* before MPI makes threads: the listener takes it */
    LUO_TRY(luo_rank_args_read(argc, argv, &args, err));
    const luo_status st = live(&agent, err);
    free(args.overrides);
    /* Under --launcher none the coordinator has already said why it is not there. The others end by
     * themselves, so MPI is not ended in common. */
    if (st == LUO_EPEER && args.broadcast) _exit(code_of_coordinator());
    if (st == LUO_OK) {
        give_back(&agent);
        if (args.broadcast && args.control) *code = code_of_coordinator();
    }
    return st;
}
