/* nccl_absent.c: a `libnccl.so.2` for a machine without NCCL, so that what needs none
 * runs: one rank, and the tests of one process. It stands in a folder of its own, which env.sh
 * names last and only if no other is found. Its version is 0, which no NCCL has; every other
 * function fails, and ncclGetLastError says where NCCL was looked for. make.sh compares the list
 * below with what the programs call. No NCCL's header here: nothing is read of the arguments, so
 * none are named. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, INTERNAL_ERROR = 3 }; /* ncclResult_t */

#define FAILS(name)                                                                                \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return INTERNAL_ERROR;                                                                     \
    }
FAILS(ncclAllGather)
FAILS(ncclAllReduce)
FAILS(ncclBroadcast)
FAILS(ncclCommAbort)
FAILS(ncclCommDestroy)
FAILS(ncclCommFinalize)
FAILS(ncclCommGetAsyncError)
FAILS(ncclCommInitRankConfig)
FAILS(ncclCommSplit)
FAILS(ncclGetUniqueId)
FAILS(ncclGroupEnd)
FAILS(ncclGroupStart)
FAILS(ncclRecv)
FAILS(ncclReduce)
FAILS(ncclReduceScatter)
FAILS(ncclSend)

int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    if (version) *version = 0;
    return version ? SUCCESS : INTERNAL_ERROR;
}

const char *ncclGetErrorString(int result);
const char *ncclGetErrorString(int result)
{
    return result == SUCCESS ? "no error" : "NCCL is missing on this machine";
}

/* env.sh says where it looked; without it nobody did. */
const char *ncclGetLastError(void *comm);
const char *ncclGetLastError(void *comm)
{
    static char text[400];
    const char *looked = getenv("LUO_NCCL_LOOKED");
    (void)comm;
    if (looked)
        snprintf(text, sizeof text, "libnccl.so.2 was looked for in %s", looked);
    else
        snprintf(text, sizeof text, "nobody looked for libnccl.so.2, as `. env.sh` would have");
    return text;
}
