/* message.h: what coordinator and ranks say to each other, and how it is written.
 *
 * Every command carries a serial number and is answered once by every rank, in the order given:
 * serial, status, sentence, then what the command asked for. Times travel as seconds from now,
 * because hosts have clocks of their own; on the way nothing is added for the time of the travel.
 */
#ifndef LUO_EXEC_MESSAGE_H
#define LUO_EXEC_MESSAGE_H
#include "exec/rank/rank.h"
#include "exec/wire.h"

enum { LUO_MESSAGE_VERSION = 3, LUO_TOKEN_TEXT = 33, LUO_HOST_TEXT = 64 };

typedef enum luo_say {
    /* of a rank */
    LUO_SAY_HELLO = 1, /* version, token, rank, ranks, process, host; the first on a connection */
    LUO_SAY_ANSWER,    /* serial, status, sentence .. */
    LUO_SAY_HERE,      /* done, job, task, instr, waiting */
    LUO_SAY_WITHDRAW,  /* serial: this device fails softly in that command */
    LUO_SAY_BYE,       /* its launcher told it to end */
    /* of the coordinator */
    LUO_SAY_SETUP,   /* serial, luo_setup; answer: luo_device_info of that rank */
    LUO_SAY_PREPARE, /* serial, job, plan JSON, tokens, hash (0: not known); answer: hash */
    LUO_SAY_STATE,   /* serial, job, luo_state_order; answer: steps done */
    LUO_SAY_STEP,    /* serial, job, luo_step_order; answer: report */
    LUO_SAY_MOVE,    /* serial, job to leave, job to go to, dead devices, hash, luo_step_order of
                        which only withdraw_s and kill_s count; answer: report */
    LUO_SAY_DROP,    /* serial, job; answer: - */
    LUO_SAY_END,     /* no answer: the connection closes */
    LUO_SAY_ABORT,   /* serial: drain that command */
    LUO_SAY_WHERE    /* answered by HERE at once */
} luo_say;

typedef struct luo_setup {
    int32_t nranks;
    const int32_t *device_of;   /* by rank, ascending */
    const int32_t *place_of;    /* by rank: number of its device among those of its host */
    const char *const *host_of; /* by rank: where it has to be, an entry NULL: not known */
    bool share_gpus;
    luo_dtype dtype;
    uint64_t seed;
    const char *data; /* NULL: synthetic */
} luo_setup;

/* What fills or keeps the state of a job. One path at most is given for INIT and LOAD. */
typedef struct luo_state_order {
    luo_state_action action;
    const char *weights;    /* INIT: a file of weights */
    const char *checkpoint; /* INIT, LOAD: the folder of one checkpoint; SAVE: where they are */
    const char *save_init;  /* INIT: file to write the weights to */
    const char *data;       /* SAVE: name of the data, kept in the checkpoint */
    int64_t step;           /* SAVE: steps done */
    int32_t keep;
} luo_state_order;

void luo_message_put_setup(luo_wire *wire, const luo_setup *setup);
void luo_message_put_device_info(luo_wire *wire, const luo_device_info *info);
void luo_message_put_state_order(luo_wire *wire, const luo_state_order *order);
/* Times of the order are CLOCK_MONOTONIC here, and seconds from `now_s` on the wire. */
void luo_message_put_step_order(luo_wire *wire, const luo_step_order *order, double now_s);
/* late_s: from the arrival of the command to the start of the step. */
void luo_message_put_report(luo_wire *wire, const luo_step_report *report, double late_s);

/* Owner: arena; texts lie in the payload. Errors: LUO_EPARSE, LUO_ENOMEM. */
luo_status luo_message_get_setup(luo_arena *arena, luo_wire *wire, luo_setup *out, luo_err *err);
luo_status luo_message_get_device_info(luo_wire *wire, luo_device_info *out, luo_err *err);
luo_status luo_message_get_state_order(luo_wire *wire, luo_state_order *out, luo_err *err);
luo_status luo_message_get_step_order(luo_arena *arena, luo_wire *wire, double now_s,
                                      luo_step_order *out, luo_err *err);
luo_status luo_message_get_report(luo_arena *arena, luo_wire *wire, luo_step_report *out,
                                  double *late_s, luo_err *err);
/* LUO_OK unless the payload has failed or something is left in it. */
luo_status luo_message_end(const luo_wire *wire, luo_err *err);
#endif
