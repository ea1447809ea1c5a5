/* What the simulator says when things go wrong: failures at any date, programs that cannot finish,
 * a worker process that is killed; and that a second run says the same, byte for byte. */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/str.h"
#include "sim/step/death.h"
#include "tests/prop/prop.h"
#include "tests/sim_programs.h"

static const layout plan = {2, 2, 1, 4, 3, 1, 0, 0, 0}; /* devices 0 to 3; 4 and 5 are spare */

/* ---- a result as text ---- */

static void add_devices(luo_str *s, const luo_step_result *x)
{
    for (int32_t i = 0; i < x->n; i++) {
        const luo_parts *p = &x->parts[i];
        luo_str_addf(s, "%d %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g", i,
                     p->compute_s, p->recompute_s, p->tp_s, p->ep_s, p->cp_s, p->pp_s, p->dp_s,
                     p->move_s, p->io_s, p->bubble_s);
        luo_str_addf(s, " %.17g %.17g\n", x->compute_s[i], x->predicted_s[i]);
    }
}

static char *text_of(rig *r, const luo_step_result *x)
{
    luo_str s = {0};
    luo_str_addf(&s, "%s `%s` %.17g %.17g %d %d\n", luo_status_name(x->status), x->text,
                 x->start_s, x->end_s, x->failed_device, x->failed_link);
    add_devices(&s, x);
    for (int32_t i = 0; i < x->nrecords; i++) {
        const luo_op_record *o = &x->records[i];
        luo_str_addf(&s, "%d %d %d %.17g %.17g %s\n", o->device, o->task, o->instr, o->start_s,
                     o->end_s, luo_status_name(o->status));
    }
    for (int32_t i = 0; x->links && i < x->nlinks; i++)
        luo_str_addf(&s, "%.17g %.17g %.17g %.17g\n", x->links[i].bytes_up,
                     x->links[i].bytes_down, x->links[i].busy_up_s, x->links[i].busy_down_s);
    for (int32_t i = 0; i < x->ncomm; i++) {
        const luo_comm_use *c = &x->comm[i];
        luo_str_addf(&s, "%d %d %d %d %d %lld %lld %.17g %.17g\n", c->group, c->exchange, c->coll,
                     c->stream, c->devices, (long long)c->calls, (long long)c->bytes, c->busy_s,
                     c->exposed_s);
    }
    char *copy = luo_arena_strdup(r->arena, luo_str_get(&s));
    luo_str_free(&s);
    return copy;
}

/* Names the first line that differs: the texts are too long for Check. */
static void same_text(const char *a, const char *b)
{
    int line = 1;
    const char *x = a, *y = b;
    for (; *a && *a == *b; a++, b++)
        if (*a == '\n') {
            line++;
            x = a + 1;
            y = b + 1;
        }
    ck_assert_msg(*a == *b, "line %d: `%.*s` and `%.*s`", line, (int)strcspn(x, "\n"), x,
                  (int)strcspn(y, "\n"), y);
}

/* ---- failures ---- */

/* Dates from the trace of an undisturbed step: middle of the first transfer of device 0. */
static double middle_of_transfer(const rig *r, const luo_step_result *s, double *start)
{
    const luo_role *role = &r->set.roles[rig_program(r, 0)->role];
    for (int32_t i = 0; i < s->nrecords; i++) {
        const luo_op_record *o = &s->records[i];
        if (o->device != 0 || role->instr[o->instr].kind != LUO_INSTR_P2P) continue;
        *start = o->start_s;
        return 0.5 * (o->start_s + o->end_s);
    }
    ck_abort_msg("no transfer in the trace");
    return 0;
}

typedef struct failure {
    const char *target; /* docs/formats.md#words-units-names */
    bool in_transfer;   /* else early, while all compute */
    int32_t device;     /* named; -1: a link */
    const char *link;   /* named; a part of its name */
} failure;
static const failure failures[] = {
    {"device:1", false, 1, NULL},       {"device:2", false, 2, NULL},
    {"device:0", true, 0, NULL},        {"node:n-1", false, 2, NULL},
    {"link:n-0/nic0", true, -1, "n-0/nic0"}, {"link:n-1/nic1", true, -1, "n-1/nic1"},
    {"switch:spine", true, -1, "/nic"}, {"node:n-0", true, 0, NULL},
};

/* `fail` takes the devices of the target, and its links (core/cost/cluster.h). */
static int32_t changes_of(rig *r, const char *target, double at_s, luo_change *out)
{
    luo_target t;
    int32_t n = 0;
    rig_check(r, luo_target_parse(r->arena, &r->cluster, target, &t, &r->err));
    for (int32_t i = 0; i < t.choices[0].ndev; i++)
        out[n++] = (luo_change){at_s, LUO_CHANGE_DOWN, t.choices[0].dev[i], 0, 0, false};
    for (int32_t i = 0; i < t.choices[0].nlink; i++)
        out[n++] = (luo_change){at_s, LUO_CHANGE_LINK, t.choices[0].link[i], 0, 0, false};
    return n;
}

static void check_named(const rig *r, const failure *f, const luo_step_result *s)
{
    char number[16];
    ck_assert_msg(s->status == LUO_EPEER, "%s: %s %s", f->target, luo_status_name(s->status),
                  s->text);
    if (f->device >= 0) {
        snprintf(number, sizeof number, "%d", f->device);
        ck_assert_msg(s->failed_device == f->device, "%s: device %d", f->target, s->failed_device);
        ck_assert_msg(strstr(s->text, number) != NULL, "%s: %s", f->target, s->text);
        return;
    }
    ck_assert_int_ge(s->failed_link, 0);
    const char *name = r->cluster.links[s->failed_link].name;
    ck_assert_msg(strstr(name, f->link) != NULL, "%s: link %s", f->target, name);
    ck_assert_msg(strstr(s->text, name) != NULL, "%s: %s", f->target, s->text);
}

/* The step ends at the date of the failure; with the world mended the next one is as before. */
START_TEST(a_failure_ends_the_step_and_the_next_recovers)
{
    const failure *f = &failures[_i / 2];
    rig *r = step_rig(&plan);
    luo_change at[16];
    double start = 0;
    r->config.fold = _i % 2;
    r->trace = true;
    const luo_step_result well = rig_step(r);
    const double step = rig_seconds(&well), date = middle_of_transfer(r, &well, &start);
    const double when = f->in_transfer ? date : 0.005;
    const luo_step_result s = rig_step_with(r, at, changes_of(r, f->target, when, at));
    check_named(r, f, &s);
    ck_assert_msg(fabs(rig_seconds(&s) - when) <= 1e-9, "%s: ended at %.12g, failed at %.12g",
                  f->target, rig_seconds(&s), when);
    const luo_step_result next = rig_step(r);
    rig_near(rig_seconds(&next), step, 1e-9, "next step");
    rig_free(r);
}
END_TEST

/* A NIC that goes down while nothing uses it is noticed by the first transfer over it. */
START_TEST(an_idle_link_fails_when_it_is_used)
{
    rig *r = step_rig(&plan);
    double start = 0;
    r->config.fold = _i % 2;
    r->config.comm = (luo_comm_mode)(_i / 2);
    r->trace = true;
    const luo_step_result well = rig_step(r);
    middle_of_transfer(r, &well, &start);
    ck_assert(start > 0.01);
    const int32_t nic = luo_cluster_find_link(&r->cluster, "n-0/nic0");
    const luo_change down = {0.001, LUO_CHANGE_LINK, nic, 0, 0, false};
    const luo_step_result s = rig_step_with(r, &down, 1);
    ck_assert_int_eq(s.status, LUO_EPEER);
    ck_assert_int_eq(s.failed_link, nic);
    rig_near(rig_seconds(&s), start, 1e-6, "failed");
    rig_free(r);
}
END_TEST

/* Between the two devices of a tensor group, which are simulated as one when folded; the change
 * before is of a link that nobody uses. */
START_TEST(a_link_inside_a_node_fails)
{
    rig *r = step_rig(&plan);
    r->config.fold = _i % 2;
    r->config.comm = (luo_comm_mode)(_i / 2);
    const int32_t inside = luo_cluster_find_link(&r->cluster, "n-0/nv0"),
                  unused = luo_cluster_find_link(&r->cluster, "n-2/nv0");
    const luo_change down[] = {{0.0005, LUO_CHANGE_LINK, unused, 0, 0, false},
                               {0.001, LUO_CHANGE_LINK, inside, 0, 0, false}};
    const luo_step_result s = rig_step_with(r, down, 2);
    ck_assert_int_eq(s.status, LUO_EPEER);
    ck_assert_int_eq(s.failed_link, inside);
    rig_free(r);
}
END_TEST

START_TEST(what_is_not_used_may_fail)
{
    static const char *const targets[] = {"device:4", "node:n-2", "link:n-2/nic1", "link:n-2/nv0"};
    rig *r = step_rig(&plan), *twin = step_rig(&plan);
    luo_change at[16];
    r->trace = twin->trace = true;
    const luo_step_result s = rig_step_with(r, at, changes_of(r, targets[_i], 0.02, at));
    const luo_step_result t = rig_step(twin);
    same_text(text_of(r, &s), text_of(r, &t));
    rig_free(r);
    rig_free(twin);
}
END_TEST

START_TEST(a_device_that_is_down_at_the_start_fails_at_once)
{
    rig *r = step_rig(&plan);
    r->world->up[3] = false;
    r->config.fold = _i;
    const luo_step_result s = rig_step_with(r, NULL, 0);
    ck_assert_int_eq(s.status, LUO_EPEER);
    ck_assert_int_eq(s.failed_device, 3);
    ck_assert(s.end_s == s.start_s);
    r->world->up[3] = true;
    rig_step(r);
    rig_free(r);
}
END_TEST

/* A traced step is simulated up to the failure; without a trace its end is known. */
static void same_as_traced(rig *r, const luo_change *fail, const luo_step_result *s)
{
    char text[sizeof s->text];
    const double ended = rig_seconds(s);
    const int32_t device = s->failed_device, link = s->failed_link;
    const luo_status st = s->status;
    memcpy(text, s->text, sizeof text);
    r->trace = true;
    const luo_step_result slow = rig_step_with(r, fail, 1);
    r->trace = false;
    ck_assert_int_eq(slow.status, st);
    ck_assert_int_eq(slow.failed_device, device);
    ck_assert_int_eq(slow.failed_link, link);
    ck_assert_str_eq(slow.text, text);
    rig_near(rig_seconds(&slow), ended, 1e-9, "traced");
}

/* Any device or link at any date: the step ends then or, for a link, when the link is needed after
 * that; or nothing changes, because nothing needs it any more. The next step is well again. */
START_TEST(anything_may_fail_at_any_date)
{
    int device = 0, link = 0, spared = 0;
    LUO_PROP_FOR(seed, 80) {
        luo_rng rng = luo_rng_seed(seed);
        const int32_t tp = 1 + (int32_t)luo_rng_pick(&rng, 3);
        const layout l = {.tp = tp, .stages = 1 + (int32_t)luo_rng_pick(&rng, 3),
                          .pipelines = 1 + (int32_t)luo_rng_pick(&rng, 3), .micro_batches = 3,
                          .layers = 2, .nics = 1 + (int32_t)luo_rng_pick(&rng, tp)};
        rig *r = step_rig(&l);
        r->config.fold = luo_rng_pick(&rng, 2);
        r->config.comm = (luo_comm_mode)luo_rng_pick(&rng, 3);
        const luo_step_result well = rig_step(r);
        const double step = rig_seconds(&well), at = luo_rng_u(&rng) * step;
        const bool of_link = luo_rng_pick(&rng, 2);
        const luo_change fail = {
            at, of_link ? LUO_CHANGE_LINK : LUO_CHANGE_DOWN,
            (int32_t)luo_rng_pick(&rng, of_link ? r->cluster.nlinks : r->set.n), 0, 0, false};
        const luo_step_result s = rig_step_with(r, &fail, 1);
        const double ended = rig_seconds(&s);
        const bool failed = s.status == LUO_EPEER;
        ck_assert_msg(failed || (of_link && s.status == LUO_OK), "seed %d: %s", (int)seed, s.text);
        if (failed && of_link) ck_assert_int_eq(s.failed_link, fail.target);
        if (failed && !of_link) ck_assert_int_eq(s.failed_device, fail.target);
        if (!failed) rig_near(ended, step, 1e-9, "spared step");
        ck_assert_msg(!failed || (ended >= at - 1e-9 && ended <= step + 1e-9),
                      "seed %d: failed at %.9g, told at %.9g of %.9g", (int)seed, at, ended, step);
        if (!of_link) ck_assert(fabs(ended - at) <= 1e-9);
        same_as_traced(r, &fail, &s);
        const luo_step_result next = rig_step(r);
        rig_near(rig_seconds(&next), step, 1e-9, "next step");
        device += failed && !of_link;
        link += failed && of_link;
        spared += !failed;
        rig_free(r);
    }
    if (!getenv("LUO_CASES")) ck_assert(device > 20 && link > 5 && spared > 5);
}
END_TEST

/* ---- programs that cannot finish (A3, docs/architecture/tests.md) ---- */

/* Device 1 waits for a message that device 0 never sends. */
static rig *missing_send(void)
{
    rig *r = rig_new(&(rig_shape){.nodes = 2});
    const int32_t idle = rig_role(r), receiver = rig_role(r);
    rig_work(r, idle, 0.1);
    const int32_t id = rig_p2p(r, receiver, LUO_STREAM_PP, 0, 0);
    for (int32_t d = 0; d < 2; d++) {
        rig_device(r, d, d, 0, d);
        rig_task(r, d, 0, -1);
    }
    rig_message(r, 1, id, 0, false, 100);
    return r;
}

static rig *size_mismatch(void)
{
    rig *r = rig_new(&(rig_shape){.nodes = 2});
    const int32_t sender = rig_role(r), receiver = rig_role(r);
    rig_p2p(r, sender, LUO_STREAM_PP, 100, 0);
    rig_p2p(r, receiver, LUO_STREAM_PP, 0, 0);
    for (int32_t d = 0; d < 2; d++) {
        rig_device(r, d, d, 0, d);
        rig_task(r, d, 0, -1);
        rig_message(r, d, 0, 1 - d, d == 0, d == 0 ? 100 : 200);
    }
    return r;
}

/* Two collectives of one stream, in other orders on the two devices. */
static rig *order_swap(void)
{
    static const int32_t both[] = {0, 1};
    rig *r = rig_new(&(rig_shape){.nodes = 2});
    const int32_t group = rig_group(r, LUO_STREAM_TP, 2, both);
    for (int32_t d = 0; d < 2; d++) {
        const int32_t role = rig_role(r);
        for (int32_t k = 0; k < 2; k++)
            rig_collective(r, role, LUO_STREAM_TP, LUO_COLL_AR, 1000, d == 0 ? k : 1 - k);
        rig_device(r, d, role, 0, 0);
        rig_task(r, d, 0, -1);
        for (int32_t k = 0; k < 2; k++) rig_join(r, d, k, group);
    }
    return r;
}

/* Device 1 is in the group and has no program. */
static rig *dead_peer(void)
{
    static const int32_t both[] = {0, 1};
    rig *r = rig_new(&(rig_shape){.nodes = 2});
    const int32_t group = rig_group(r, LUO_STREAM_TP, 2, both), role = rig_role(r);
    const int32_t id = rig_collective(r, role, LUO_STREAM_TP, LUO_COLL_AR, 1000, 0);
    rig_device(r, 0, role, 0, 0);
    rig_task(r, 0, 0, -1);
    rig_join(r, 0, id, group);
    return r;
}

typedef struct deadlock {
    const char *name;
    rig *(*make)(void);
    const char *says[3]; /* device, instruction, peer */
    const char *refusal; /* a part of what luo_program_check says */
} deadlock;
static const deadlock deadlocks[] = {
    {"missing send", missing_send, {"device 1", "`op1`", "device 0"},
     "device 1 waits in `op1` (micro-batch -1) for device 0, which never sends it"},
    {"size mismatch", size_mismatch, {"device 1", "`op", "device 0"},
     "device 0 sends 100 bytes to device 1 in `op1` (micro-batch -1), which expects 200"},
    {"order swap", order_swap, {"device 0", "`op", "device 1"},
     "devices 0 and 1 meet in group [0,1] with different calls"},
    {"dead peer", dead_peer, {"device 0", "`op0`", "device 1"},
     "device 1 is in group 0 but never calls it; device 0 waits for it"},
};

/* Programs of a plan do not get as far as a backend. */
START_TEST(a_deadlock_is_refused_by_the_check)
{
    const deadlock *d = &deadlocks[_i];
    rig *r = d->make();
    ck_assert_int_eq(luo_program_check(r->arena, &r->set, &r->err), LUO_EINPUT);
    ck_assert_msg(strstr(r->err.text, d->refusal) != NULL, "%s: %s", d->name, r->err.text);
    rig_free(r);
}
END_TEST

START_TEST(a_deadlock_is_told_at_once)
{
    const deadlock *d = &deadlocks[_i / 3];
    rig *r = d->make();
    luo_step_result s;
    r->config.comm = (luo_comm_mode)(_i % 3);
    const luo_status st = rig_try(r, NULL, 0, &s);
    ck_assert_msg(st == LUO_OK, "%s: %s", d->name, r->err.text);
    ck_assert_msg(s.status == LUO_ESTUCK, "%s: %s %s", d->name, luo_status_name(s.status), s.text);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(strstr(s.text, d->says[i]) != NULL, "%s: `%s` is not in `%s`", d->name,
                      d->says[i], s.text);
    rig_free(r);
}
END_TEST

/* ---- twice the same ---- */

START_TEST(two_runs_are_byte_identical)
{
    char *text[2][3];
    double seconds[2];
    rig *r[2];
    for (int k = 0; k < 2; k++) {
        luo_change at[16];
        r[k] = step_rig(&(layout){2, 4, 2, 6, 2, 0, 0, 0, 0});
        r[k]->trace = true;
        r[k]->config.comm = (luo_comm_mode)(_i / 2);
        r[k]->config.fold = _i % 2;
        r[k]->config.compute_sigma = r[k]->config.comm_sigma = 0.1;
        r[k]->config.seed = 7;
        const luo_step_result a = rig_step(r[k]);
        text[k][0] = text_of(r[k], &a);
        seconds[0] = rig_seconds(&a);
        const luo_step_result b = rig_step_with(r[k], at, changes_of(r[k], "device:5", 0.03, at));
        text[k][1] = text_of(r[k], &b);
        const luo_step_result c = rig_step(r[k]);
        text[k][2] = text_of(r[k], &c);
        seconds[1] = rig_seconds(&c); /* in the same world */
    }
    for (int i = 0; i < 3; i++) same_text(text[0][i], text[1][i]);
    ck_assert(strcmp(text[0][0], text[0][2]) != 0); /* noise differs from step to step */
    ck_assert(seconds[0] != seconds[1]);
    rig_free(r[0]);
    rig_free(r[1]);
}
END_TEST

/* ---- the worker process ---- */

/* Some child of this process other than `not`; 0: none. */
static pid_t child_of(pid_t parent, pid_t other)
{
    DIR *dir = opendir("/proc");
    pid_t found = 0;
    for (const struct dirent *e; dir && !found && (e = readdir(dir)) != NULL;) {
        char path[300];
        int pid = 0, ppid = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = strtol(e->d_name, NULL, 10) > 0 ? fopen(path, "r") : NULL;
        if (!f) continue;
        if (fscanf(f, "%d (%*[^)]) %*c %d", &pid, &ppid) == 2 && ppid == parent && pid != other)
            found = pid;
        fclose(f);
    }
    if (dir) closedir(dir);
    return found;
}

/* Kills the worker of `parent` in a while. */
static pid_t start_killer(double seconds)
{
    const pid_t parent = getpid(), pid = fork();
    if (pid != 0) return pid;
    usleep((useconds_t)(1e6 * seconds));
    const pid_t worker = child_of(parent, getpid());
    _exit(worker > 0 && kill(worker, SIGKILL) == 0 ? 0 : 1);
}

static void check_lost(rig *r, luo_status st, const char *says)
{
    ck_assert_msg(st == LUO_EBACKEND, "%s", luo_status_name(st));
    ck_assert_msg(strncmp(r->err.text, says, strlen(says)) == 0, "`%s`", r->err.text);
    rig_free(r);
}

/* AddressSanitizer answers this signal itself: it reports, and ends the process with code 1. */
#ifdef __SANITIZE_ADDRESS__
static const char crashed[] = "the simulator process ended with code 1: ";
#else
static const char crashed[] = "the simulator process crashed (signal 11, Segmentation fault)";
#endif
static const char killed[] = "the simulator process was killed (signal 9), by somebody or by ";
static const struct {
    int sig;
    const char *says;
} signals[] = {
    {SIGKILL, killed},
    {SIGABRT, "SimGrid gave the simulation up (signal 6); it cannot simulate these inputs, or "},
    {SIGSEGV, crashed},
    {SIGUSR1, "the simulator process was ended from outside (signal 10, User defined signal 1); "},
};

START_TEST(a_worker_killed_between_steps_is_told)
{
    rig *r = step_rig(&plan);
    luo_step_result s;
    rig_step(r);
    const pid_t worker = child_of(getpid(), 0);
    ck_assert_int_gt(worker, 0);
    ck_assert_int_eq(kill(worker, signals[_i].sig), 0);
    r->world->slowdown[0] = 2; /* not the step it knows */
    check_lost(r, rig_try(r, NULL, 0, &s), signals[_i].says);
}
END_TEST

/* A ring by messages over one device of each node. */
static rig *rings(int32_t nodes, int n)
{
    static const luo_stream streams[] = {LUO_STREAM_DP, LUO_STREAM_MOVE}; /* in each other's way */
    rig *r = rig_new(&(rig_shape){.nodes = nodes});
    const int32_t role = rig_role(r);
    int32_t dev[256], id[4], group[2];
    for (int i = 0; i < 4; i++)
        id[i] = rig_collective(r, role, streams[i % n], LUO_COLL_AR, 1000000, i);
    for (int32_t d = 0; d < nodes; d++) dev[d] = d;
    for (int i = 0; i < n; i++) group[i] = rig_group(r, streams[i], nodes, dev);
    for (int32_t d = 0; d < nodes; d++) {
        rig_device(r, d, role, d, 0);
        rig_task(r, d, 0, -1);
        for (int i = 0; i < 4; i++) rig_join(r, d, id[i], group[i % n]);
    }
    r->config.comm = LUO_COMM_MESSAGE;
    return r;
}

/* Links as no file can give them: SimGrid's own check ends the worker. */
START_TEST(an_abort_of_simgrid_is_told)
{
    rig *r = rings(4, 2);
    luo_step_result s;
    luo_link *links = LUO_NEW_N(r->arena, luo_link, r->cluster.nlinks);
    for (int32_t l = 0; l < r->cluster.nlinks; l++) {
        links[l] = r->cluster.links[l];
        if (links[l].kind != LUO_LINK_NIC || links[l].node > 0) links[l].bytes_per_s = INFINITY;
    }
    r->cluster.links = links;
    rig_open(r);
    check_lost(r, rig_try(r, NULL, 0, &s),
               "SimGrid gave the simulation up (signal 6): The Impossible Did Happen (yet again); "
               "it cannot simulate these inputs, or luoshu asks it wrongly: ");
}
END_TEST

/* 256 devices keep the worker busy for seconds. */
START_TEST(a_worker_killed_in_a_step_is_told)
{
    rig *r = rings(256, 2);
    luo_step_result s;
    int32_t status = 0;
    rig_open(r);
    const pid_t killer = start_killer(0.3);
    const luo_status st = rig_try(r, NULL, 0, &s);
    check_lost(r, st, killed);
    waitpid(killer, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

static volatile int stop_asked;

static void ask_to_stop(int sig)
{
    stop_asked = sig;
}

/* Seconds before such a step is through. */
START_TEST(an_interrupted_step_ends)
{
    rig *r = rings(256, 2);
    luo_step_result s;
    const struct sigaction act = {.sa_handler = ask_to_stop};
    const struct itimerval soon = {.it_value = {0, 300000}};
    sigaction(SIGALRM, &act, NULL);
    r->config.interrupted = &stop_asked;
    rig_open(r);
    setitimer(ITIMER_REAL, &soon, NULL);
    ck_assert_int_eq(rig_try(r, NULL, 0, &s), LUO_ECANCELED);
    ck_assert_str_eq(r->err.text, "the step was interrupted while it was simulated.");
    rig_free(r); /* its worker is gone, too */
}
END_TEST

/* What SimGrid 3.32 writes. */
static const struct {
    int how;
    const char *log, *says;
} deaths[] = {
    {SIGABRT,
     "[0.000000] ./src/kernel/resource/StandardLinkImpl.cpp:23: [root/CRITICAL] Link 'l' declared "
     "several times in the platform.\nBacktrace (displayed in actor maestro):\n  ->  0# main in "
     "x\n",
     "SimGrid gave the simulation up (signal 6): Link 'l' declared several times in the platform; "
     "it cannot simulate these inputs, or luoshu asks it wrongly: please report it with the "
     "inputs."},
    {SIGABRT,
     "a warning\n[0.5] ./src/xbt/exception.cpp:48: [xbt_exception/CRITICAL] Uncaught exception "
     "std::bad_alloc: std::bad_alloc\n[0.5] ./src/xbt/exception.cpp:75: [xbt_exception/CRITICAL] "
     "Current backtrace:\n",
     "SimGrid gave the simulation up (signal 6): Uncaught exception std::bad_alloc: "
     "std::bad_alloc; "
     "it cannot simulate these inputs, or luoshu asks it wrongly: please report it with the "
     "inputs."},
    {SIGSEGV, "Segmentation fault.\n\n",
     "the simulator process crashed (signal 11, Segmentation fault): Segmentation fault; this is "
     "a fault of luoshu or of SimGrid: please report it with the inputs."},
    {1 << 8, "one\nSUMMARY: AddressSanitizer: heap-use-after-free x.c:3\n",
     "the simulator process ended with code 1: SUMMARY: AddressSanitizer: heap-use-after-free "
     "x.c:3."},
    {1 << 8, "", "the simulator process ended with code 1."},
};

START_TEST(a_death_is_told)
{
    char text[SIM_DEATH_TEXT];
    sim_death_text(deaths[_i].how, deaths[_i].log, text);
    ck_assert_str_eq(text, deaths[_i].says);
}
END_TEST

LUO_SUITE("backend.sim_faults", LUO_T_N(a_death_is_told, LUO_ROWS(deaths)),
          LUO_T_N(a_failure_ends_the_step_and_the_next_recovers, 2 * LUO_ROWS(failures)),
          LUO_T_N(an_idle_link_fails_when_it_is_used, 6), LUO_T_N(a_link_inside_a_node_fails, 6),
          LUO_T_N(what_is_not_used_may_fail, 4),
          LUO_T_N(a_device_that_is_down_at_the_start_fails_at_once, 2),
          LUO_T(anything_may_fail_at_any_date),
          LUO_T_N(a_deadlock_is_refused_by_the_check, LUO_ROWS(deadlocks)),
          LUO_T_N(a_deadlock_is_told_at_once, 3 * LUO_ROWS(deadlocks)),
          LUO_T_N(two_runs_are_byte_identical, 6),
          LUO_T_N(a_worker_killed_between_steps_is_told, LUO_ROWS(signals)),
          LUO_T(an_abort_of_simgrid_is_told), LUO_T(a_worker_killed_in_a_step_is_told),
          LUO_T(an_interrupted_step_ends))
