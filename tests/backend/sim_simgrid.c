/* What SimGrid 3.32 does, as the simulator counts on it: the vectors of
 * docs/architecture/simulator.md#simgrid, through the shim. Each row is a process of its own (one
 * engine per process); an actor writes down "date what status", and the whole text is compared. */
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/exec.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>
#include <unistd.h>
#include <xbt/config.h>

#include "sim/shim.h"
#include "tests/check_main.h"

/* ---- what the actors use; they run one at a time ---- */

static char heard[1024];
static int digits = 6;
static long deadlocks;
static sg_sem_t sem[4];
static sg_comm_t shared_comm; /* of the vector: what another actor cancels */
static sg_exec_t shared_exec;

static void say(const char *what, int status)
{
    const size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s%.*f %s %d", n ? ", " : "", digits,
             simgrid_get_clock(), what, status);
}

static void count_deadlock(void *count)
{
    ++*(long *)count;
}

static sg_host_t host(int i)
{
    const char name[] = {'n', (char)('0' + i), 0};
    return sg_host_by_name(name);
}

static sg_exec_t work(int at, double flops)
{
    sg_exec_t e = sg_actor_exec_init(flops);
    sg_exec_set_host(e, host(at));
    sg_exec_start(e);
    return e;
}

static void say_work(int at, double flops)
{
    say("exec", (int)sg_exec_wait(work(at, flops)));
}

static void say_send(int from, int to, double bytes)
{
    sg_comm_t c = luo_shim_send(host(from), host(to), (uint64_t)bytes);
    if (c) say("send", (int)sg_comm_wait(c));
    else say("refused", 0);
}

static void link_power(int at, int on)
{
    char name[32];
    snprintf(name, sizeof name, "c_link_%d_UP", at);
    luo_shim_link_power(sg_link_by_name(name), on);
    snprintf(name, sizeof name, "c_link_%d_DOWN", at);
    luo_shim_link_power(sg_link_by_name(name), on);
}

static void link_bandwidth(int at, double bytes_per_s)
{
    char name[32];
    snprintf(name, sizeof name, "c_link_%d_UP", at);
    sg_link_set_bandwidth(sg_link_by_name(name), bytes_per_s);
    snprintf(name, sizeof name, "c_link_%d_DOWN", at);
    sg_link_set_bandwidth(sg_link_by_name(name), bytes_per_s);
}

#define ACTOR(name) static void name(int argc, char **argv)
#define UNUSED (void)argc, (void)argv

/* ---- actors ---- */

ACTOR(ten_gflop)
{
    UNUSED;
    say_work(1, 10e9);
}

ACTOR(half_speed_at_5)
{
    UNUSED;
    sg_actor_sleep_until(5);
    sg_host_set_pstate(host(1), 1);
}

ACTOR(ten_gflop_on_n3)
{
    UNUSED;
    say_work(3, 10e9);
}

ACTOR(exec_and_send)
{
    UNUSED;
    sg_exec_t e = work(2, 100e9);
    say_send(1, 2, 100e9);
    say("exec", (int)sg_exec_wait(e));
}

ACTOR(n2_off_at_5)
{
    UNUSED;
    sg_actor_sleep_until(5);
    sg_host_turn_off(host(2));
}

ACTOR(start_on_off_host)
{
    UNUSED;
    sg_host_turn_off(host(2));
    say_work(2, 1e9);
    say_send(1, 2, 1e9);
    say_send(2, 1, 1e9);
}

ACTOR(sends_to_n2)
{
    UNUSED;
    say_send(1, 2, 100e9);
    sg_actor_sleep_until(3);
    say_send(1, 2, 1e9);
    link_power(2, 1);
    say_send(1, 2, 1e9);
}

ACTOR(n2_unplugged_at_2)
{
    UNUSED;
    sg_actor_sleep_until(2);
    link_power(2, 0);
}

ACTOR(ten_gb)
{
    UNUSED;
    say_send(1, 2, 10e9);
}

ACTOR(n2_slow_at_5)
{
    UNUSED;
    sg_actor_sleep_until(5);
    link_bandwidth(2, 0.5e9);
}

ACTOR(two_gb_1_to_2)
{
    UNUSED;
    say_send(1, 2, 2e9);
}

ACTOR(two_gb_3_to_2)
{
    UNUSED;
    say_send(3, 2, 2e9);
}

ACTOR(two_gb_2_to_1)
{
    UNUSED;
    say_send(2, 1, 2e9);
}

ACTOR(waits_for_mail)
{
    UNUSED;
    sg_mailbox_get(sg_mailbox_by_name("nobody"));
    say("mail", 0);
}

/* A step of the ring: work, send on, and wait until the neighbour's message has come. */
ACTOR(ring_rank)
{
    (void)argc;
    const int me = atoi(argv[0]), next = (me + 1) % 4;
    for (int step = 0; step < 6; step++) {
        sg_exec_wait(work(me, 1e9));
        sg_comm_wait(luo_shim_send(host(me), host(next), 1000000));
        sg_sem_release(sem[next]);
        sg_sem_acquire(sem[me]);
    }
    if (me == 0) say("ring", 0);
}

ACTOR(one_gflop)
{
    UNUSED;
    say_work(1, 1e9);
}

ACTOR(asleep_daemon)
{
    UNUSED;
    sg_actor_daemonize(sg_actor_self());
    sg_actor_sleep_until(1e6);
}

ACTOR(asleep)
{
    UNUSED;
    sg_actor_sleep_until(1e6);
}

/* The example of docs/architecture/simulator.md#simgrid. */
ACTOR(example_rank)
{
    UNUSED;
    sg_exec_t e = work(1, 2e9);
    say_send(1, 2, 1e9);
    say("exec", (int)sg_exec_wait(e));
    sg_comm_t c = luo_shim_send(host(1), host(2), 100000000000);
    e = work(2, 100e9);
    say("send", (int)sg_comm_wait(c));
    say("exec", (int)sg_exec_wait(e));
    sg_host_turn_on(host(2));
    say_work(2, 1e9);
}

ACTOR(example_fault)
{
    UNUSED;
    sg_actor_daemonize(sg_actor_self());
    sg_actor_sleep_until(10);
    sg_host_turn_off(host(2));
}

/* Cancelling by another actor: an exec says 1, a transfer 4. */
ACTOR(cancelled)
{
    UNUSED;
    shared_exec = work(1, 100e9);
    say("exec", (int)sg_exec_wait(shared_exec));
    shared_comm = luo_shim_send(host(1), host(2), 100000000000);
    say("send", (int)sg_comm_wait(shared_comm));
}

ACTOR(canceller)
{
    UNUSED;
    sg_actor_sleep_until(1);
    luo_shim_exec_cancel(shared_exec);
    sg_actor_sleep_until(2);
    luo_shim_comm_cancel(shared_comm);
}

/* A timeout: the handle of an exec lives on, a transfer is over. */
ACTOR(impatient)
{
    UNUSED;
    sg_exec_t e = work(1, 2e9);
    say("exec", (int)sg_exec_wait_for(e, 1));
    say("exec", (int)sg_exec_wait_for(e, 0));
    say("exec", (int)sg_exec_wait(e));
    say("send", (int)sg_comm_wait_for(luo_shim_send(host(1), host(2), 2000000000), 1));
}

/* Routes given with the transfer, on a platform of ours: link i moves i + 1 GB/s. */
static sg_link_t own_link[3];

static void say_flow(int first, double bytes)
{
    shared_comm = luo_shim_flow(host(0), host(1), own_link + first, 2, (uint64_t)bytes);
    say("flow", (int)sg_comm_wait(shared_comm));
}

ACTOR(over_0_and_1)
{
    UNUSED;
    say_flow(0, 1e9);
}

ACTOR(over_1_and_2)
{
    UNUSED;
    say_flow(1, 3e9);
}

ACTOR(cancels_flow_at_1)
{
    UNUSED;
    sg_actor_sleep_until(1);
    luo_shim_comm_cancel(shared_comm);
}

/* ---- vectors ---- */

typedef struct vector {
    const char *id;
    xbt_main_func_t actor[2];
    const char *want;
    const char *speed;   /* dates for n1; NULL: none */
    double bytes_per_s, latency_s; /* 0: of platform P */
    bool crosstraffic, defaults;   /* network model as SimGrid has it */
    bool own;                      /* platform of ours, not P */
    bool stay;                     /* luo_shim_hosts_stay */
    int digits;                    /* 0: 6 */
    long deadlocks;
    double end_s; /* 0: not looked at */
} vector;

#define V(name, ...) .id = name, .actor = {__VA_ARGS__}
static const vector vectors[] = {
    {V("S1", ten_gflop, half_speed_at_5), .want = "15.000000 exec 0"},
    {V("S2", ten_gflop), .speed = "5 0.3\n10 1\n", .want = "13.500000 exec 0"},
    {V("S3", ten_gflop), .speed = "5 1e-12\n8 1\n", .want = "13.000000 exec 0"},
    {V("S4", ten_gflop), .speed = "5 0\n", .want = "10.000000 exec 0"},
    {V("S5", ten_gflop_on_n3, ten_gflop_on_n3), .want = "20.000000 exec 0, 20.000000 exec 0"},
    {V("S6", exec_and_send, n2_off_at_5), .want = "5.000000 send 4, 5.000000 exec 3"},
    {V("S6 unlisted", exec_and_send, n2_off_at_5), .stay = true,
     .want = "100.000010 send 4, 100.000010 exec 3"}, /* who says so has to cancel */
    {V("S7", start_on_off_host),
     .want = "0.000000 exec 3, 0.000000 refused 0, 0.000000 refused 0"},
    {V("S8", sends_to_n2, n2_unplugged_at_2),
     .want = "2.000000 send 4, 3.000000 send 4, 4.000010 send 0"},
    {V("S9", ten_gb, n2_slow_at_5), .want = "15.000020 send 0"},
    {V("S10", two_gb_1_to_2, two_gb_3_to_2), .bytes_per_s = 200e9,
     .want = "0.020010 send 0, 0.020010 send 0"},
    {V("S10 one each way", two_gb_1_to_2, two_gb_2_to_1), .bytes_per_s = 200e9,
     .want = "0.010010 send 0, 0.010010 send 0"},
    {V("S10 crosstraffic", two_gb_1_to_2, two_gb_2_to_1), .bytes_per_s = 200e9,
     .crosstraffic = true, .want = "0.010510 send 0, 0.010510 send 0"},
    {V("S11", two_gb_1_to_2), .bytes_per_s = 200e9, .defaults = true, .digits = 9,
     .want = "0.010439378 send 0"},
    {V("S11 100 us", two_gb_1_to_2), .bytes_per_s = 200e9, .latency_s = 100e-6, .defaults = true,
     .digits = 9, .want = "0.199235880 send 0"},
    {V("S12", waits_for_mail), .want = "", .deadlocks = 1},
    {V("S13", NULL), .want = "6.006060 ring 0"},
    {V("S14 daemon", one_gflop, asleep_daemon), .want = "1.000000 exec 0", .end_s = 1},
    {V("S14 not", one_gflop, asleep), .want = "1.000000 exec 0", .end_s = 1e6},
    {V("example", example_rank, example_fault),
     .want = "1.000010 send 0, 2.000000 exec 0, 10.000000 send 4, 10.000000 exec 3, "
             "11.000000 exec 0"},
    {V("cancel", cancelled, canceller), .want = "1.000000 exec 1, 2.000000 send 4"},
    {V("routes", over_0_and_1, over_1_and_2), .own = true, /* link 1: 1 GB/s each, then all */
     .want = "1.000000 flow 0, 2.000000 flow 0"},
    {V("cancelled flow", over_1_and_2, cancels_flow_at_1), .own = true,
     .want = "1.000000 flow 4"},
    {V("timeout", impatient),
     .want = "1.000000 exec 2, 1.000000 exec 2, 2.000000 exec 0, 3.000000 send 2"},
};

static void start_engine(const vector *v)
{
    char name[] = "luoshu";
    char quiet[] = "--log=root.thresh:critical";
#if defined(__SANITIZE_ADDRESS__)
    char contexts[] = "--cfg=contexts/factory:thread"; /* docs/architecture/simulator.md#simgrid */
#else
    char contexts[] = "--cfg=contexts/stack-size:256";
#endif
    char *argv[] = {name, quiet, contexts, NULL};
    int argc = 3;
    simgrid_init(&argc, argv);
    if (v->defaults) return;
    sg_cfg_set_string("network/model", "CM02");
    sg_cfg_set_double("network/TCP-gamma", 0);
    sg_cfg_set_boolean("network/crosstraffic", v->crosstraffic ? "yes" : "no");
}

/* Platform P of docs/architecture/simulator.md#simgrid. */
static void load_platform(const vector *v)
{
    char path[] = "/tmp/luo-simgrid-XXXXXX.xml";
    const int fd = mkstemps(path, 4);
    ck_assert_int_ge(fd, 0);
    FILE *f = fdopen(fd, "w");
    fprintf(f,
            "<?xml version='1.0'?>\n"
            "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            "<platform version=\"4.1\"><cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-3\" "
            "speed=\"1Gf,0.5Gf,0.25Gf\" bw=\"%.0fBps\" lat=\"%.9fs\"/></platform>\n",
            v->bytes_per_s > 0 ? v->bytes_per_s : 1e9, v->latency_s > 0 ? v->latency_s : 5e-6);
    fclose(f);
    simgrid_load_platform(path);
    unlink(path);
}

static void make_own_platform(void)
{
    luo_shim_zone_open();
    for (int i = 0; i < 2; i++) luo_shim_host_new(i ? "n1" : "n0", 1e9);
    for (int i = 0; i < 3; i++) {
        const char name[] = {'l', (char)('0' + i), 0};
        own_link[i] = luo_shim_link_new(name, (i + 1) * 1e9);
    }
    luo_shim_zone_seal();
}

static void start_ring(void)
{
    for (int i = 0; i < 4; i++) sem[i] = sg_sem_init(0);
    for (int i = 0; i < 4; i++) {
        char rank[] = {(char)('0' + i), 0};
        char *argv[] = {rank, NULL};
        sg_actor_create("rank", host(0), ring_rank, 1, argv);
    }
}

START_TEST(simgrid_does_as_counted_on)
{
    const vector *v = &vectors[_i];
    if (v->digits) digits = v->digits;
    start_engine(v);
    if (v->own) make_own_platform();
    else load_platform(v);
    luo_shim_on_deadlock(count_deadlock, &deadlocks);
    luo_shim_hosts_stay(v->stay);
    if (v->speed) luo_shim_host_speed(host(1), v->speed);
    for (int i = 0; i < 2 && v->actor[i]; i++)
        sg_actor_create("actor", host(0), v->actor[i], 0, NULL);
    if (!v->actor[0]) start_ring();
    simgrid_run();
    ck_assert_msg(strcmp(heard, v->want) == 0, "%s: heard `%s`, expected `%s`", v->id, heard,
                  v->want);
    ck_assert_msg(deadlocks == v->deadlocks, "%s: %ld deadlocks", v->id, deadlocks);
    if (v->end_s > 0) ck_assert_msg(simgrid_get_clock() == v->end_s, "%s", v->id);
}
END_TEST

LUO_MAIN("backend.sim_simgrid", simgrid_does_as_counted_on, LUO_ROWS(vectors))
