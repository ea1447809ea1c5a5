/* check_rendezvous.c: who may speak with a run, and where it listens: the token stands in no
 * argument, a rank is one connection, and only the interface that the hosts use has a port. */
#include <arpa/inet.h>
#include <dirent.h>
#include <sched.h>

#include "exec/coordinator/hosts.h"
#include "exec/coordinator/places.h"
#include "tests/exec/coord_rig.h"

/* ---- processes of a run on one host ---- */

static bool reads_in(const char *path, const char *text)
{
    char have[1 << 16];
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(have, 1, sizeof have, f) : 0;
    if (f) fclose(f);
    return memmem(have, n, text, strlen(text)) != NULL;
}

START_TEST(token_is_in_no_argument)
{
    rig g;
    pid_t pid[8];
    char path[300];
    int known = 0;
    rig_open(&g, 3, "2: [0,1]*2 [2]*2");
    rig_start(&g);
    const char *token = g.b->workers.rendezvous.token;
    const int32_t n = rig_pids(&g, pid);
    for (int32_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "/proc/%d/environ", (int)pid[i]);
        known += reads_in(path, token);
    }
    ck_assert_int_eq(known, 3); /* what is looked for is there */
    DIR *proc = opendir("/proc");
    for (const struct dirent *e; (e = readdir(proc));) {
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        ck_assert_msg(!reads_in(path, token), "%s", path);
    }
    closedir(proc);
    rig_close(&g);
}
END_TEST

static bool has_socket(pid_t pid, unsigned long inode)
{
    char path[300], to[64], want[64];
    bool found = false;
    snprintf(want, sizeof want, "socket:[%lu]", inode);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *fds = opendir(path);
    for (const struct dirent *e; fds && (e = readdir(fds)) && !found;) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, e->d_name);
        const ssize_t n = readlink(path, to, sizeof to - 1);
        found = n > 0 && (size_t)n == strlen(want) && memcmp(to, want, (size_t)n) == 0;
    }
    if (fds) closedir(fds);
    return found;
}

/* Sockets of pid that listen elsewhere than on the loopback; *all: that listen at all. */
static int open_sockets(pid_t pid, const char *table, int *all)
{
    char line[512], at[64];
    unsigned state;
    unsigned long inode;
    int n = 0;
    FILE *f = fopen(table, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, " %*d: %63[0-9A-F]:%*x %*s %x %*s %*s %*s %*s %*s %lu", at, &state,
                   &inode) != 3 ||
            state != 0x0A || !has_socket(pid, inode))
            continue;
        const bool v6 = strlen(at) > 8;
        const bool loopback =
            v6 ? strcmp(at, "00000000000000000000000001000000") == 0 : strcmp(at + 6, "7F") == 0;
        printf("process %d listens at %s\n", (int)pid, at);
        n += !loopback;
        (*all)++;
    }
    if (f) fclose(f);
    return n;
}

/* mpirun itself is left out: Open MPI 4 has no setting for the port of its own control messages. */
START_TEST(one_host_listens_to_itself)
{
    rig g;
    pid_t pid[9];
    int all = 0;
    rig_open(&g, 3, "2: [0,1]*2 [2]*2");
    rig_begin(&g);
    luo_workers *f = &g.b->workers;
    ck_assert_int_eq(luo_rendezvous_open(&g.options, &f->rendezvous, &g.err), LUO_OK);
    f->has_rendezvous = true;
    ck_assert_int_eq(open_sockets(getpid(), "/proc/net/tcp", &all), 0);
    ck_assert_int_eq(all, 1);
    int64_t step = 0;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_OK);
    rig_step(&g, 0);
    const int32_t n = rig_pids(&g, pid);
    pid[n] = getpid();
    for (int32_t i = 0; i <= n; i++) {
        ck_assert_int_eq(open_sockets(pid[i], "/proc/net/tcp", &all), 0);
        ck_assert_int_eq(open_sockets(pid[i], "/proc/net/tcp6", &all), 0);
    }
    rig_close(&g);
}
END_TEST

/* ---- a second rank 0 ---- */

static int come(const luo_rendezvous *d, int64_t rank)
{
    char address[LUO_RENDEZVOUS_HOST + 16];
    luo_wire w = {0};
    int fd = -1;
    snprintf(address, sizeof address, "%s:%d", d->host, d->port);
    rig_must(luo_wire_connect(address, &fd, NULL) == LUO_OK, "a way in");
    luo_wire_put_int(&w, LUO_MESSAGE_VERSION);
    luo_wire_put_text(&w, d->token);
    luo_wire_put_int(&w, rank);
    luo_wire_put_int(&w, 2);
    luo_wire_put_int(&w, getpid());
    luo_wire_put_text(&w, "elsewhere");
    rig_must(luo_wire_send(fd, LUO_SAY_HELLO, &w, NULL) == LUO_OK, "a hello");
    luo_wire_free(&w);
    return fd;
}

/* Answers the first command; then waits for the end. */
static void serve(int fd)
{
    luo_wire_in in = {.limit = LUO_WIRE_LIMIT};
    luo_wire m, w = {0};
    int32_t kind = 0;
    bool got = false;
    while (!got && luo_wire_read(&in, fd, NULL) == LUO_OK)
        if (luo_wire_next(&in, &got, &kind, &m, NULL) != LUO_OK || !got) usleep(1000);
    rig_must(got && kind == LUO_SAY_SETUP, "a setup");
    luo_wire_put_int(&w, luo_wire_int(&m));
    luo_wire_put_int(&w, LUO_OK);
    luo_wire_put_text(&w, "");
    rig_must(luo_wire_send(fd, LUO_SAY_ANSWER, &w, NULL) == LUO_OK, "an answer");
    luo_wire_free(&w);
    luo_wire_in_free(&in);
}

/* Both ranks of a run and an impostor, whichever of the first two that is. */
static pid_t fork_peers(const luo_rendezvous *d)
{
    const pid_t pid = fork();
    char byte;
    if (pid != 0) return pid;
    close(d->fd);
    const int one[] = {come(d, 0), come(d, 0)};
    struct pollfd p[] = {{.fd = one[0], .events = POLLIN}, {.fd = one[1], .events = POLLIN}};
    rig_must(poll(p, 2, 10000) == 1, "one is sent away");
    const int seated = p[0].revents ? 1 : 0;
    rig_must(recv(one[!seated], &byte, 1, 0) <= 0, "without a word");
    const int other = come(d, 1);
    serve(one[seated]);
    serve(other);
    rig_must(recv(other, &byte, 1, 0) == 1, "an end");
    _exit(0);
}

START_TEST(second_rank)
{
    static const int32_t devices[] = {0, 1};
    static const char *const hosts[2] = {NULL};
    static const luo_setup setup = {
        .nranks = 2, .device_of = devices, .place_of = devices, .host_of = hosts, .dtype = LUO_F32};
    char want[200], address[LUO_RENDEZVOUS_HOST + 16];
    luo_err err = {0};
    luo_workers f = {.has_rendezvous = true};
    int how = -1, fd;
    rig g;
    rig_open(&g, 2, "2: [0,1]*4");
    g.options.program = luo_arena_printf(g.arena, "%s/rank.sh", g.dir);
    FILE *file = fopen(g.options.program, "w");
    fprintf(file, "#!/bin/sh\nexec sleep 5\n");
    fclose(file);
    ck_assert_int_eq(chmod(g.options.program, 0755), 0);
    ck_assert_int_eq(luo_rendezvous_open(&g.options, &f.rendezvous, &err), LUO_OK);
    snprintf(address, sizeof address, "%s:%d", f.rendezvous.host, f.rendezvous.port);
    const pid_t pid = fork_peers(&f.rendezvous);
    const luo_status st = luo_workers_start(&f, &g.options, NULL, &setup, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    snprintf(want, sizeof want,
             "a second rank 0 (process %d on elsewhere) came while the ranks started and was "
             "refused",
             (int)pid);
    ck_assert_str_eq(f.refused, want);
    ck_assert_int_eq(luo_wire_connect(address, &fd, &err), LUO_EPEER); /* too late: it is shut */
    luo_workers_end(&f);
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    ck_assert_int_eq(how, 0);
    rig_remove(&g);
    luo_arena_free(g.arena);
}
END_TEST

/* ---- hosts ---- */

static const struct {
    const char *list, *hosts;
} lists[] = {{"a", "a"},
             {"a[1-3,7],b", "a1 a2 a3 a7 b"},
             {"n[009-011]", "n009 n010 n011"},
             {"r[0-1]n[2-3],gpu[5]-ib", "r0n2 r0n3 r1n2 r1n3 gpu5-ib"},
             {"a,[3-4],b", "a 3 4 b"},
             {"", ""}};

START_TEST(slurm_list)
{
    luo_arena *arena = luo_arena_new(4096);
    luo_hosts h;
    char text[256] = "";
    ck_assert_int_eq(luo_hosts_of_slurm(arena, lists[_i].list, &h, NULL), LUO_OK);
    for (int32_t i = 0; i < h.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", h.at[i]);
    ck_assert_str_eq(text, lists[_i].hosts);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *list, *says;
} odd_lists[] = {
    {"a[1-x]",
     "the list of hosts has `[1-x`; numbers and ranges such as [1-4,7] are expected."},
    {"a[x]", "the list of hosts has `[x`; numbers and ranges such as [1-4,7] are expected."},
    {"a[4-1]",
     "the list of hosts has `[4-1`; numbers and ranges such as [1-4,7] are expected."},
    {"a[12345678901]",
     "the list of hosts has `[12345678901`; numbers and ranges such as [1-4,7] are expected."},
    {"a[1-4:2]",
     "the list of hosts has `[1-4:2`; numbers and ranges such as [1-4,7] are expected."},
    {"a[1x,2]",
     "the list of hosts has `[1x,2`; numbers and ranges such as [1-4,7] are expected."},
    {"a[01-3",
     "the list of hosts has `[01-3`; numbers and ranges such as [1-4,7] are expected."},
    {"x[", "the list of hosts has `[` without numbers; ranges such as [1-4,7] are expected."},
    {"-oProxyCommand=x", "`-oProxyCommand=x` is no name of a host; letters, digits, `.`, `-` and "
                         "`_` are expected, a letter or digit first."},
    {"a[1-999][1-999]", "more than 65536 hosts are named; as many or fewer are expected."},
};

START_TEST(odd_slurm_list)
{
    luo_arena *arena = luo_arena_new(4096);
    luo_err err = {0};
    luo_hosts h;
    ck_assert_int_eq(luo_hosts_of_slurm(arena, odd_lists[_i].list, &h, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, odd_lists[_i].says);
    luo_arena_free(arena);
}
END_TEST

/* ---- where it listens ---- */

/* A world with two interfaces besides the loopback; false: this system allows none. */
static bool enter_net(void)
{
    static const char *const words[] = {"link set lo up",
                                        "link add one type veth peer name two",
                                        "address add 10.77.1.1/24 dev one",
                                        "address add 10.77.2.1/24 dev two",
                                        "link set one up",
                                        "link set two up",
                                        "route add default via 10.77.1.254"};
    char command[128];
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    for (size_t i = 0; i < LUO_ROWS(words); i++) {
        snprintf(command, sizeof command, "ip %s >/dev/null 2>&1", words[i]);
        if (system(command) != 0) return false;
    }
    return true;
}

static const struct {
    const char *hostfile; /* what is in it; NULL: none */
    const char *variable[2], *value[2], *listen;
    luo_launcher launcher;
    const char *host; /* NULL: LUO_EUSAGE */
    bool alone, net;  /* net: needs the interfaces */
} meeting_points[] = {
    {.host = "127.0.0.1", .alone = true},
    {.hostfile = "# none\n127.0.0.1 slots=2 # two\nlocalhost\n",
     .host = "127.0.0.1",
     .alone = true},
    {.variable = {"SLURM_JOB_NODELIST"},
     .value = {"localhost"},
     .host = "127.0.0.1",
     .alone = true},
    {.launcher = LUO_LAUNCH_LOCAL, /* whatever the batch system has */
     .variable = {"SLURM_JOB_ID", "SLURM_JOB_NODELIST"},
     .value = {"7", "10.77.1.[1-3],10.77.2.9"},
     .host = "127.0.0.1",
     .alone = true},
    {.launcher = LUO_LAUNCH_NONE,
     .variable = {"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},
     .value = {"3", "3"},
     .host = "127.0.0.1",
     .alone = true},
    {.hostfile = "10.77.2.9 slots=4\n", .net = true, .host = "10.77.2.1"},
    {.hostfile = "localhost slots=4\n10.77.2.9\n10.77.1.9\n", .net = true, .host = "10.77.2.1"},
    {.launcher = LUO_LAUNCH_SRUN,
     .variable = {"SLURM_JOB_NODELIST"},
     .value = {"10.77.1.[1-3],10.77.2.9"},
     .net = true,
     .host = "10.77.1.1"},
    {.launcher = LUO_LAUNCH_NONE,
     .variable = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"},
     .value = {"10.77.2.[1-3]", "10.77.1.9"},
     .net = true,
     .host = "10.77.2.1"},
    {.hostfile = "nowhere.invalid\n", .net = true, .host = "10.77.1.1"}, /* the default route */
    {.variable = {"PBS_JOBID"}, .value = {"7"}, .net = true, .host = "10.77.1.1"},
    {.hostfile = "10.77.2.9\n", .listen = "10.77.1.1", .net = true, .host = "10.77.1.1"},
    {.listen = "10.77.1.1", .net = true, .host = "10.77.1.1"},
    {.listen = "10.77.1.9", .net = true},
};

/* Nobody but `host` has this port. */
static void only_at(const luo_rendezvous *d)
{
    struct sockaddr_in a = {0};
    socklen_t size = sizeof a;
    char text[INET_ADDRSTRLEN];
    ck_assert_int_eq(getsockname(d->fd, (struct sockaddr *)&a, &size), 0);
    ck_assert_str_eq(inet_ntop(AF_INET, &a.sin_addr, text, sizeof text), d->host);
}

START_TEST(listens_at)
{
    char path[] = "/tmp/luoshu-hosts-XXXXXX";
    luo_exec_options o = {.launcher = meeting_points[_i].launcher,
                          .listen = meeting_points[_i].listen};
    luo_rendezvous d;
    luo_err err = {0};
    if (meeting_points[_i].net && !enter_net()) {
        printf("no network of its own: not tested\n");
        return;
    }
    if (meeting_points[_i].hostfile) {
        const int fd = mkstemp(path);
        ck_assert_int_eq(
            write(fd, meeting_points[_i].hostfile, strlen(meeting_points[_i].hostfile)),
            (ssize_t)strlen(meeting_points[_i].hostfile));
        close(fd);
        o.hostfile = path;
    }
    for (int i = 0; i < 2; i++)
        if (meeting_points[_i].variable[i])
            setenv(meeting_points[_i].variable[i], meeting_points[_i].value[i], 1);
    const luo_status st = luo_rendezvous_open(&o, &d, &err);
    if (o.hostfile) unlink(path);
    if (!meeting_points[_i].host) {
        ck_assert_int_eq(st, LUO_EUSAGE);
        ck_assert_str_eq(err.text, "`listen` of `--launcher` is `10.77.1.9`; an IPv4 address of "
                                   "this host, or a name for one, is expected.");
        return;
    }
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    ck_assert_str_eq(d.host, meeting_points[_i].host);
    ck_assert_int_eq(d.alone, meeting_points[_i].alone);
    only_at(&d);
    luo_rendezvous_close(&d);
}
END_TEST

/* ---- where ranks belong ---- */

static const struct {
    const char *hostfile; /* what is in it; NULL: none */
    const char *named[2]; /* hosts of the cluster's file */
    luo_launcher launcher;
    int32_t n, device[8];
    const char *places; /* of each rank "HOST PLACE"; NULL: a sentence */
} belongings[] = {
    /* device 3 has failed: nobody moves */
    {.hostfile = "a slots=4\nb slots=4\n",
     .n = 7,
     .device = {0, 1, 2, 4, 5, 6, 7},
     .places = "a0 a1 a2 b0 b1 b2 b3 "},
    {.hostfile = "a\na\na\nb\n", .n = 2, .device = {3, 4}, .places = "a3 b0 "},
    {.hostfile = "a\nb\n", .launcher = LUO_LAUNCH_SRUN, .n = 1, .device = {6}, .places = "b2 "},
    {.hostfile = "a\n", .n = 3, .device = {0, 3, 4}, .places = "a0 a3 a4 "}, /* one has all */
    {.named = {"b", "a"}, .n = 2, .device = {0, 4}, .places = "b0 a0 "},
    {.named = {"a", "a"}, .n = 2, .device = {3, 7}, .places = "a3 a7 "},
    {.named = {"b", "a"}, .hostfile = "a\nb\n", .n = 1, .device = {4}, .places = "b0 "},
    {.named = {"b", "a"}, .launcher = LUO_LAUNCH_NONE, .n = 1, .device = {4}, .places = "-0 "},
    {.n = 2, .device = {3, 4}, .places = "-3 -4 "}, /* all here */
    {.launcher = LUO_LAUNCH_LOCAL, .n = 2, .device = {3, 4}, .places = "-3 -4 "},
    {.launcher = LUO_LAUNCH_NONE, .n = 2, .device = {3, 4}, .places = "-3 -0 "}, /* not known */
    {.named = {"a", NULL}, .n = 1, .device = {4}},
};

static const char *write_text(char *path, const char *text)
{
    const int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static luo_status find_places(rig *g, int i, const int32_t *device, luo_places *out)
{
    char path[] = "/tmp/luoshu-hosts-XXXXXX";
    const char *names[2] = {belongings[i].named[0], belongings[i].named[1]};
    luo_node_group *group = &g->cluster->groups[0];
    const luo_exec_options o = {
        .launcher = belongings[i].launcher,
        .cluster = g->cluster,
        .hostfile = belongings[i].hostfile ? write_text(path, belongings[i].hostfile) : NULL};
    group->hosts = names[0] ? names : NULL;
    const luo_status st =
        luo_places_find(g->arena, &o, g->cluster, device, belongings[i].n, out, &g->err);
    group->hosts = NULL;
    if (o.hostfile) unlink(o.hostfile);
    return st;
}

START_TEST(belongs)
{
    rig g;
    luo_places p;
    char text[256] = "";
    memset(&g, 0, sizeof g);
    g.arena = luo_arena_new(1 << 16);
    rig_files(&g);
    const luo_status st = find_places(&g, _i, belongings[_i].device, &p);
    if (!belongings[_i].places) {
        ck_assert_int_eq(st, LUO_EINPUT);
        ck_assert_str_eq(g.err.text,
                         "device 4 is in node `a-1` of cluster `tiny8`, which has no host: 1 "
                         "for 2 nodes; a hostfile with one for each node in the order of "
                         "the cluster, or `hosts` of each group in the cluster file, is expected.");
    } else {
        ck_assert_msg(st == LUO_OK, "%s", g.err.text);
        for (int32_t r = 0; r < belongings[_i].n; r++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d ",
                     p.host ? p.host[r] : "-", p.place[r]);
        ck_assert_str_eq(text, belongings[_i].places);
    }
    rig_remove(&g);
    luo_arena_free(g.arena);
}
END_TEST

/* ---- which host is meant ---- */

static const struct {
    const char *name;
    bool meant;
} names[] = {{"localhost", true},  {"127.0.0.1", true},
             {"192.0.2.7", false}, {"an-alias-of-ssh.invalid", true},
             {"node-7", true},     {"NODE-7.site", true}};

START_TEST(is_meant)
{
    setenv("SLURMD_NODENAME", "node-7", 1);
    ck_assert_int_eq(luo_hosts_meant(names[_i].name), names[_i].meant);
}
END_TEST

START_TEST(told_as)
{
    char own[LUO_HOSTS_NAME], told[LUO_HOSTS_NAME];
    luo_hosts_here(own);
    luo_hosts_told("localhost", told);
    ck_assert_str_eq(told, own);
    luo_hosts_told("me@node-7.site", told);
    ck_assert_str_eq(told, "node-7.site");
}
END_TEST

RIG_MAIN("exec.door", LUO_T(token_is_in_no_argument), LUO_T(one_host_listens_to_itself),
         LUO_T(second_rank), LUO_T_N(slurm_list, LUO_ROWS(lists)),
         LUO_T_N(odd_slurm_list, LUO_ROWS(odd_lists)),
         LUO_T_N(listens_at, LUO_ROWS(meeting_points)), LUO_T_N(belongs, LUO_ROWS(belongings)),
         LUO_T_N(is_meant, LUO_ROWS(names)), LUO_T(told_as))
