/* serve.h: what a worker and its process have to say to each other, and the process.
 *
 * The process alone needs SimGrid: the command begins without it, and finds sim_serve by
 * sim/plugin/plugin.h. */
#ifndef LUO_SIM_STEP_SERVE_H
#define LUO_SIM_STEP_SERVE_H
#include "sim/step/report.h"

typedef struct sim_question { /* goes first; world, changes and noise follow */
    int32_t nchanges;
    bool trace, noise;
    double update;
} sim_question;

struct sim_episode;
typedef struct sim_birth { /* what the process is given */
    int fd, not_ours;      /* its end of the socket, and the other */
    const sim_net *net;
    const struct sim_worker *others; /* whose sockets it must not keep */
    int32_t nothers;
    const struct sim_episode *episode; /* it simulates this alone and asks nothing; else NULL */
} sim_birth;

enum { SIM_NO_MEMORY = 12 }; /* exit code of a process that had none */

/* Sends a reply as sim_worker takes it; false: the other side is gone. */
bool sim_reply_send(int fd, const sim_reply *reply);

/* Serves questions until the other side closes; birth: a sim_birth. Returns the exit code. */
__attribute__((visibility("default"))) int sim_serve(void *birth);
#endif
