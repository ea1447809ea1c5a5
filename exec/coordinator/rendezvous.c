#include "exec/coordinator/rendezvous.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "exec/coordinator/hosts.h"
#include "exec/wire.h"

static const char loopback[] = "127.0.0.1";

/* ---- which address ---- */

/* Nothing says where the others are. A host's own name often means its loopback; then the way to an
 * address that no host has shows the interface of the default route. */
static bool guess(char address[LUO_HOSTS_ADDRESS])
{
    char name[LUO_RENDEZVOUS_HOST] = "";
    bool here;
    if (gethostname(name, sizeof name - 1) == 0 && luo_hosts_way(name, address, &here) &&
        strncmp(address, "127.", 4) != 0)
        return true;
    return luo_hosts_way("192.0.2.1", address, &here) && !here;
}

typedef enum reach { HERE, AWAY, UNKNOWN } reach;

/* AWAY: *address is where the first host that is not this one is reached from. */
static reach find(const luo_hosts *hosts, char address[LUO_HOSTS_ADDRESS])
{
    reach r = hosts->known ? HERE : UNKNOWN;
    bool here;
    for (int32_t i = 0; i < hosts->n; i++) {
        if (!luo_hosts_way(hosts->at[i], address, &here))
            r = UNKNOWN; /* a name that ssh alone knows */
        else if (!here)
            return AWAY;
    }
    return r;
}

static luo_status find_hosts(const luo_exec_options *options, char address[LUO_HOSTS_ADDRESS],
                             reach *out, luo_err *err)
{
    luo_hosts hosts;
    luo_arena *arena = luo_arena_new(4096);
    if (!arena) return luo_err_nomem(err);
    const luo_status st = luo_hosts_of_run(arena, options, &hosts, err);
    if (st == LUO_OK) *out = find(&hosts, address);
    luo_arena_free(arena);
    return st;
}

bool luo_rendezvous_alone(const luo_exec_options *options)
{
    char address[LUO_HOSTS_ADDRESS];
    reach r = UNKNOWN;
    return !options->listen && find_hosts(options, address, &r, NULL) == LUO_OK && r == HERE;
}

static luo_status choose(const luo_exec_options *options, luo_rendezvous *rendezvous, luo_err *err)
{
    char address[LUO_HOSTS_ADDRESS];
    reach r;
    bool here = false;
    LUO_TRY(find_hosts(options, address, &r, err));
    rendezvous->alone = r == HERE && !options->listen;
    if (options->listen) {
        if (!luo_hosts_way(options->listen, address, &here) || !here)
            return luo_err_set(err, LUO_EUSAGE,
                               "`listen` of `--launcher` is `%s`; an IPv4 address of this host, "
                               "or a name for one, is expected.",
                               options->listen);
    } else if (r == HERE) {
        snprintf(address, sizeof address, "%s", loopback);
    } else if (r == UNKNOWN && !guess(address)) {
        return luo_err_set(err, LUO_EBACKEND,
                           "nothing says at which address the other hosts reach this one; "
                           "`--launcher NAME,listen=ADDRESS` does.");
    }
    snprintf(rendezvous->host, sizeof rendezvous->host, "%s", address);
    return LUO_OK;
}

/* ---- the rendezvous ---- */

static luo_status draw_token(luo_rendezvous *rendezvous, luo_err *err)
{
    unsigned char draw[(LUO_RENDEZVOUS_TOKEN - 1) / 2];
    if (getrandom(draw, sizeof draw, 0) != (ssize_t)sizeof draw)
        return luo_err_set(err, LUO_EBACKEND, "the system gives no random bytes.");
    for (size_t i = 0; i < sizeof draw; i++)
        snprintf(rendezvous->token + 2 * i, 3, "%02x", draw[i]);
    return LUO_OK;
}

luo_status luo_rendezvous_open(const luo_exec_options *options, luo_rendezvous *out, luo_err *err)
{
    luo_rendezvous rendezvous = {.fd = -1, .rank0 = -1};
    LUO_TRY(draw_token(&rendezvous, err));
    LUO_TRY(choose(options, &rendezvous, err));
    LUO_TRY(luo_wire_listen(rendezvous.host, &rendezvous.fd, &rendezvous.port, err));
    *out = rendezvous;
    return LUO_OK;
}

void luo_rendezvous_shut(luo_rendezvous *rendezvous)
{
    if (rendezvous->fd >= 0) close(rendezvous->fd);
    rendezvous->fd = -1;
}

void luo_rendezvous_close(luo_rendezvous *rendezvous)
{
    luo_rendezvous_shut(rendezvous);
    if (rendezvous->rank0 >= 0) close(rendezvous->rank0);
    rendezvous->rank0 = -1;
}
