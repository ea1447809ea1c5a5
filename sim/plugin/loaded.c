/* loaded.c: the part that needs SimGrid is in luoshu-sim.so, beside the command. */
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/process.h"
#include "core/io/files.h"
#include "sim/plugin/plugin.h"

enum { NO_MEMORY = 1 };

/* In a process of its own; what else than memory is wrong, the one that loads it says. */
static int try_file(void *path)
{
    const char *why = dlopen(path, RTLD_LAZY) ? "" : dlerror();
    return strstr(why, "failed to map") || strstr(why, "allocate") ? NO_MEMORY : 0;
}

/* Constructors of SimGrid's libraries end a process that has no memory for them: where memory is
 * limited, another one tries first. */
static luo_status try_memory(char *path, luo_err *err)
{
    struct rlimit most;
    luo_process process;
    if (getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return LUO_OK;
    const luo_process_opts opts = {
        .inside = try_file, .ctx = path, .err = open("/dev/null", O_WRONLY | O_CLOEXEC)};
    const luo_status st = luo_process_start(&opts, &process, NULL);
    if (opts.err >= 0) close(opts.err);
    if (st != LUO_OK) return luo_err_nomem(err);
    luo_process_wait(&process, INFINITY);
    if (luo_process_code(&process) == 0) return LUO_OK;
    return luo_err_set(err, LUO_ENOMEM,
                       "SimGrid cannot be loaded into the %llu KiB of memory that this process may "
                       "take (`ulimit -v`); allow more.",
                       (unsigned long long)most.rlim_cur / 1024);
}

static luo_status wrong_file(const char *why, luo_err *err)
{
    return luo_err_set(err, LUO_EBACKEND,
                       "the simulator cannot be loaded: %s; SimGrid 3.32 and the "
                       "`luoshu-sim.so` of this build are expected.",
                       why);
}

static luo_status load(int (**serve)(void *), luo_err *err)
{
    char path[4096];
    LUO_TRY(luo_file_beside("luoshu-sim.so", path, sizeof path, err));
    if (access(path, R_OK) != 0)
        return luo_err_set(err, LUO_EBACKEND,
                           "`%s` is missing, the simulator; it belongs beside `luoshu`, where "
                           "`make` puts it.",
                           path);
    LUO_TRY(try_memory(path, err));
    void *file = dlopen(path, RTLD_LAZY);
    void *found = file ? dlsym(file, "sim_serve") : NULL;
    if (!found) return wrong_file(dlerror(), err);
    const char *stamp = dlsym(file, "sim_stamp");
    if (!stamp || strcmp(stamp, SIM_STAMP) != 0) return wrong_file("it is of another build", err);
    *(void **)serve = found; /* as POSIX has it for functions */
    return LUO_OK;
}

luo_status sim_plugin_find(int (**serve)(void *), luo_err *err)
{
    static int (*known)(void *);
    if (!known) LUO_TRY(load(&known, err));
    *serve = known;
    return LUO_OK;
}
