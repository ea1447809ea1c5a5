/* check_replace.c: what files are replaced, and how. Devices are nodes of our own: the
 * real ones are left alone. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/replace.h"
#include "tests/check_main.h"

static char dir[32], at[64]; /* fit a socket's address */

static const char *in(const char *name)
{
    snprintf(at, sizeof at, "%s/%s", dir, name);
    return at;
}

static void begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/luo-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void end(void)
{
    static const char *const names[] = {"a", "b", "link", "pipe", "null", "socket", "x/f", "x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(in(names[i]));
    ck_assert_int_eq(rmdir(dir), 0); /* no temporary file was left */
}

static luo_status put(const char *name, const char *text, luo_err *err)
{
    char path[64];
    snprintf(path, sizeof path, "%s", in(name));
    return luo_file_write_atomic(path, text, strlen(text), err);
}

static const char *text_of(const char *name)
{
    static char text[64];
    FILE *f = fopen(in(name), "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static mode_t mode_of(const char *name)
{
    struct stat info;
    ck_assert_int_eq(lstat(in(name), &info), 0);
    return info.st_mode;
}

START_TEST(new_and_old_files)
{
    luo_err err = {0};
    begin();
    ck_assert_int_eq(put("a", "1", &err), LUO_OK);
    ck_assert_str_eq(text_of("a"), "1");
    ck_assert_int_eq(chmod(in("a"), 0600), 0);
    ck_assert_int_eq(put("a", "2", &err), LUO_OK);
    ck_assert_str_eq(text_of("a"), "2");
    ck_assert_int_eq(mode_of("a") & 0777, 0600); /* as secret as before */
    end();
}
END_TEST

/* The file changes, the link stays; one that points to nothing gets its file. */
START_TEST(links_are_followed)
{
    luo_err err = {0};
    begin();
    ck_assert_int_eq(mkdir(in("x"), 0777), 0);
    ck_assert_int_eq(symlink("x/f", in("link")), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(put("link", i ? "2" : "1", &err), LUO_OK);
        ck_assert(S_ISLNK(mode_of("link")));
        ck_assert(S_ISREG(mode_of("x/f")));
        ck_assert_str_eq(text_of("x/f"), i ? "2" : "1");
    }
    end();
}
END_TEST

START_TEST(links_in_a_circle)
{
    luo_err err = {0};
    begin();
    ck_assert_int_eq(symlink("link", in("link")), 0);
    ck_assert_int_eq(put("link", "1", &err), LUO_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, ": too many levels of symbolic links; "));
    end();
}
END_TEST

START_TEST(pipes_are_written_through)
{
    char got[8] = "";
    luo_err err = {0};
    begin();
    ck_assert_int_eq(mkfifo(in("pipe"), 0666), 0);
    ck_assert_int_eq(put("pipe", "1", &err), LUO_EIO); /* and does not wait */
    ck_assert_ptr_nonnull(strstr(err.text, "; a pipe needs a reader first."));
    const int fd = open(in("pipe"), O_RDONLY | O_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(put("pipe", "through", &err), LUO_OK);
    ck_assert_int_eq(read(fd, got, sizeof got), 7);
    ck_assert_mem_eq(got, "through", 7);
    ck_assert(S_ISFIFO(mode_of("pipe")));
    close(fd);
    end();
}
END_TEST

START_TEST(devices_are_written_through)
{
    luo_err err = {0};
    begin();
    if (mknod(in("null"), S_IFCHR | 0666, makedev(1, 3)) == 0) {
        const luo_status st = put("null", "gone", &err);
        /* A folder mounted without devices says so; it is still a device afterwards. */
        ck_assert(st == LUO_OK || strstr(err.text, "permission denied"));
        ck_assert(S_ISCHR(mode_of("null")));
    } else {
        ck_assert(errno == EPERM || errno == EACCES); /* only root makes nodes */
    }
    end();
}
END_TEST

START_TEST(folders_and_sockets_are_refused)
{
    char want[256];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    luo_err err = {0};
    begin();
    ck_assert_int_eq(mkdir(in("x"), 0777), 0);
    ck_assert_int_eq(put("x", "1", &err), LUO_EIO);
    snprintf(want, sizeof want, "cannot write `%s/x`: it is a folder; name a file.", dir);
    ck_assert_str_eq(err.text, want);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", in("socket"));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    ck_assert_int_eq(put("socket", "1", &err), LUO_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, ": it is a socket; name a file."));
    ck_assert(S_ISSOCK(mode_of("socket")));
    close(fd);
    end();
}
END_TEST

/* Ended while it writes, by whatever signal: as before, and nothing beside it. */
START_TEST(ended_by_a_signal)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGKILL};
    luo_err err = {0};
    char path[64];
    int go[2], status;
    begin();
    ck_assert_int_eq(put("a", "old", &err), LUO_OK);
    snprintf(path, sizeof path, "%s", in("a"));
    ck_assert_int_eq(pipe(go), 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char byte;
        const pid_t pid = fork();
        if (pid == 0) {
            luo_replace f;
            signal(signals[i], SIG_DFL); /* Check has handlers of its own */
            if (luo_replace_open(&f, path, NULL) != LUO_OK) _exit(1);
            if (luo_replace_put(&f, "new", 3, NULL) != LUO_OK || write(go[1], "g", 1) != 1)
                _exit(1);
            for (;;) pause();
        }
        ck_assert_int_eq(read(go[0], &byte, 1), 1);
        ck_assert_int_eq(kill(pid, signals[i]), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status));
        ck_assert_str_eq(text_of("a"), "old");
    }
    end();
}
END_TEST

/* In a folder of results a link is replaced, and what it points to stays; so is a pipe. */
START_TEST(own_files_follow_no_link)
{
    luo_err err = {0};
    char path[64];
    begin();
    ck_assert_int_eq(put("a", "theirs", &err), LUO_OK);
    ck_assert_int_eq(symlink("a", in("link")), 0);
    ck_assert_int_eq(mkfifo(in("pipe"), 0666), 0);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "pipe" : "link";
        snprintf(path, sizeof path, "%s", in(name));
        ck_assert_int_eq(luo_file_write_own(path, "ours", 4, &err), LUO_OK);
        ck_assert(S_ISREG(mode_of(name)));
        ck_assert_str_eq(text_of(name), "ours");
    }
    ck_assert_str_eq(text_of("a"), "theirs");
    ck_assert_int_eq(mkdir(in("x"), 0777), 0);
    ck_assert_int_eq(luo_file_write_own(in("x"), "1", 1, &err), LUO_EIO);
    ck_assert_int_eq(luo_file_make_own_dir(in("x"), &err), LUO_OK);
    ck_assert_int_eq(remove(in("link")), 0);
    ck_assert_int_eq(symlink("x", in("link")), 0);
    ck_assert_int_eq(luo_file_make_own_dir(in("link"), &err), LUO_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "it is a link to elsewhere; remove it"));
    end();
}
END_TEST

/* Given up: as before, and nothing beside it. */
START_TEST(given_up)
{
    char path[64];
    luo_replace f;
    luo_err err = {0};
    begin();
    ck_assert_int_eq(put("a", "old", &err), LUO_OK);
    snprintf(path, sizeof path, "%s", in("a"));
    ck_assert_int_eq(luo_replace_open(&f, path, &err), LUO_OK);
    ck_assert_int_eq(luo_replace_put(&f, "new", 3, &err), LUO_OK);
    ck_assert_str_eq(text_of("a"), "old");
    ck_assert_int_eq(luo_replace_close(&f, false, &err), LUO_OK);
    ck_assert_int_eq(luo_replace_close(&f, true, &err), LUO_OK); /* closed already */
    ck_assert_str_eq(text_of("a"), "old");
    end();
}
END_TEST

/* What the system says is told, and the old file stays. */
START_TEST(file_gets_too_large)
{
    static const char large[4096];
    const struct rlimit limit = {1000, 1000};
    luo_err err = {0};
    begin();
    ck_assert_int_eq(put("a", "old", &err), LUO_OK);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(luo_file_write_atomic(in("a"), large, sizeof large, &err), LUO_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/a`: file too large; choose another place"));
    ck_assert_str_eq(text_of("a"), "old");
    end();
}
END_TEST

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

/* A reader begins late and takes little at a time; signals come while nothing can be written. */
START_TEST(signals_do_not_stop_it)
{
    enum { N = 300000 };
    static uint8_t bytes[N];
    const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    const struct sigaction act = {.sa_handler = on_alarm}; /* no SA_RESTART */
    int fd[2], go[2], status;
    for (int i = 0; i < N; i++) bytes[i] = (uint8_t)(i * 31 + i / 256);
    ck_assert(pipe(fd) == 0 && pipe(go) == 0);
    const pid_t reader = fork();
    if (reader == 0) {
        uint8_t got[997];
        int n = 0, wrong = 0;
        ssize_t k;
        close(fd[1]);
        wrong = read(go[0], got, 1) != 1;
        usleep(40000);
        for (; (k = read(fd[0], got, sizeof got)) > 0; n += (int)k)
            for (int i = 0; i < k; i++) wrong += n + i >= N || got[i] != bytes[n + i];
        _exit(n == N && !wrong ? 0 : 1);
    }
    close(fd[0]);
    ck_assert_int_eq(sigaction(SIGALRM, &act, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    ck_assert_int_eq(write(go[1], "g", 1), 1);
    ck_assert(luo_file_put(fd[1], bytes, N));
    ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
    close(fd[1]);
    ck_assert_int_gt(alarms, 0);
    ck_assert_int_eq(waitpid(reader, &status, 0), reader);
    ck_assert_int_eq(status, 0);
    ck_assert(!luo_file_put(fd[1], bytes, 1));
    ck_assert_int_eq(errno, EBADF);
    ck_assert(luo_file_put(fd[1], bytes, 0));
}
END_TEST

LUO_SUITE("io.replace", LUO_T(new_and_old_files), LUO_T(links_are_followed),
          LUO_T(links_in_a_circle), LUO_T(pipes_are_written_through),
          LUO_T(devices_are_written_through), LUO_T(folders_and_sockets_are_refused),
          LUO_T(ended_by_a_signal), LUO_T(own_files_follow_no_link), LUO_T(given_up),
          LUO_T(file_gets_too_large), LUO_T(signals_do_not_stop_it))
