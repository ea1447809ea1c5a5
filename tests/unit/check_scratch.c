/* check_scratch.c: folders in memory: what a killed process left goes, what lives or is not ours
 * stays, and no link is followed. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/scratch.h"
#include "tests/check_main.h"

static bool there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* A process that has one and waits to be killed; its path comes through a pipe. */
static pid_t start_owner(char path[64])
{
    int fd[2];
    ck_assert_int_eq(pipe(fd), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        luo_scratch scratch;
        luo_err err;
        if (luo_scratch_open(&scratch, &err) != LUO_OK) _exit(1);
        put_file(scratch.path, "state", "x");
        if (write(fd[1], scratch.path, sizeof scratch.path) != (ssize_t)sizeof scratch.path)
            _exit(1);
        for (;;) pause();
    }
    ck_assert_int_eq(read(fd[0], path, 64), 64);
    close(fd[0]);
    close(fd[1]);
    return pid;
}

static void kill_owner(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(opened_and_closed)
{
    luo_scratch scratch;
    luo_err err;
    struct stat info;
    char path[64];
    ck_assert_int_eq(luo_scratch_open(&scratch, &err), LUO_OK);
    snprintf(path, sizeof path, "%s", scratch.path);
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_int_eq(info.st_mode & 07777, 0700);
    put_file(path, "state", "x");
    luo_scratch_sweep(); /* we live */
    ck_assert(there(path));
    luo_scratch_close(&scratch);
    ck_assert(!there(path));
    luo_scratch_close(&scratch);
}
END_TEST

START_TEST(killed_and_alive)
{
    char dead[64], alive[64];
    const pid_t first = start_owner(dead), second = start_owner(alive);
    kill_owner(first);
    ck_assert(there(dead)); /* a kill leaves it */
    luo_scratch_sweep();
    ck_assert(!there(dead));
    ck_assert(there(alive));
    kill_owner(second);
    luo_scratch_sweep();
    ck_assert(!there(alive));
}
END_TEST

/* A number that a living process has now, which began at another time, keeps nothing. */
START_TEST(number_used_again)
{
    char path[64], line[160], host[64];
    const pid_t owner = start_owner(path);
    kill_owner(owner);
    ck_assert_int_eq(gethostname(host, sizeof host), 0);
    snprintf(line, sizeof line, "pid %ld start 1 host %s\n", (long)getppid(), host);
    put_file(path, ".lock", line);
    luo_scratch_sweep();
    ck_assert(!there(path));
}
END_TEST

/* Planted by hand under our own prefix: a link to a folder, one open to others, a file, one
 * whose lock is a link. */
START_TEST(not_ours)
{
    char victim[] = "/tmp/luo-victim-XXXXXX", path[4][64];
    luo_scratch scratch;
    luo_err err;
    ck_assert_ptr_nonnull(mkdtemp(victim));
    put_file(victim, ".lock", "pid 1 start 1 host x\n");
    for (int i = 0; i < 4; i++)
        snprintf(path[i], sizeof path[i], "/dev/shm/luoshu-%ld-plant%d", (long)geteuid(), i);
    ck_assert_int_eq(symlink(victim, path[0]), 0);
    ck_assert_int_eq(mkdir(path[1], 0700), 0);
    ck_assert_int_eq(chmod(path[1], 0777), 0);
    put_file(path[1], ".lock", "pid 1 start 1 host x\n");
    put_file("/dev/shm", path[2] + strlen("/dev/shm/"), "text");
    ck_assert_int_eq(mkdir(path[3], 0700), 0);
    char lock[96], target[96];
    snprintf(lock, sizeof lock, "%s/.lock", path[3]);
    snprintf(target, sizeof target, "%s/.lock", victim);
    ck_assert_int_eq(symlink(target, lock), 0);
    ck_assert_int_eq(luo_scratch_open(&scratch, &err), LUO_OK);
    luo_scratch_close(&scratch);
    for (int i = 0; i < 4; i++) ck_assert_msg(there(path[i]), "%s", path[i]);
    ck_assert(there(target));
    remove(target);
    remove(victim);
    remove(lock);
    snprintf(lock, sizeof lock, "%s/.lock", path[1]);
    remove(lock);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(remove(path[i]), 0);
}
END_TEST

LUO_SUITE("io.scratch", LUO_T(opened_and_closed), LUO_T(killed_and_alive), LUO_T(number_used_again),
          LUO_T(not_ours))
