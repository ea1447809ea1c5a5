/* status.h: the one list of statuses: name, exit code of the command, text. */
#ifndef LUO_CORE_BASE_STATUS_H
#define LUO_CORE_BASE_STATUS_H

/* X(name, exit, text). LUO_OK is first and 0. What a user gave wrongly is LUO_EINPUT; what a
 * caller of the library did wrongly is LUO_EBUG. */
#define LUO_STATUS_LIST(X)                                                                        \
    X(LUO_OK, 0, "ok")                                                                            \
    X(LUO_ENO, 1, "the answer is no")                                                             \
    X(LUO_EINFEASIBLE, 1, "no plan fits")                                                         \
    X(LUO_EUNSUP, 1, "re-shard not supported")                                                    \
    X(LUO_ELOST, 1, "no living owner")                                                            \
    X(LUO_EUNREP, 1, "not expressible in this format")                                            \
    X(LUO_ENORULE, 1, "no rule whose inputs can be made")                                         \
    X(LUO_EUSAGE, 2, "wrong use")                                                                 \
    X(LUO_EINPUT, 3, "bad input")                                                                 \
    X(LUO_EPARSE, 3, "syntax error")                                                              \
    X(LUO_ESHAPE, 3, "bad shape")                                                                 \
    X(LUO_EDEDUCE, 3, "annotation cannot be deduced")                                             \
    X(LUO_E2BIG, 3, "a stated limit is exceeded")                                                 \
    X(LUO_EBACKEND, 4, "backend failed")                                                          \
    X(LUO_EPEER, 4, "a peer failed")                                                              \
    X(LUO_ECANCELED, 4, "canceled")                                                               \
    X(LUO_EIO, 4, "input or output failed")                                                       \
    X(LUO_ENOMEM, 4, "out of memory in this process")                                             \
    X(LUO_EOOM, 5, "predicted to run out of device memory")                                       \
    X(LUO_ESTUCK, 6, "stuck")                                                                     \
    X(LUO_ETIMEOUT, 6, "timed out")                                                               \
    X(LUO_EBUG, 70, "fault of luoshu itself")

typedef enum luo_status {
#define LUO_STATUS_ENUM(name, exit, text) name,
    LUO_STATUS_LIST(LUO_STATUS_ENUM)
#undef LUO_STATUS_ENUM
        LUO_STATUS_COUNT
} luo_status;

/* "LUO_EINPUT" for LUO_EINPUT; "LUO_?" out of range. */
const char *luo_status_name(luo_status st);
/* The short text of the list. */
const char *luo_status_text(luo_status st);
/* Exit code of the command for st (docs/results.md#exit-codes-and-messages). */
int luo_status_exit(luo_status st);
#endif
