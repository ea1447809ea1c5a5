/* forked.h: things that end the process. */
#ifndef LUO_TESTS_CUDA_FORKED_H
#define LUO_TESTS_CUDA_FORKED_H
#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

/* Does fn end a process of its own by a signal or with another exit code than 0? What it says about
 * that is not shown. */
static inline bool ends_badly(void (*fn)(void))
{
    const pid_t child = fork();
    if (child == 0) {
        const int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 2);
        fn();
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && status != 0;
}
#endif
