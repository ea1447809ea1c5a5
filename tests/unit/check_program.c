/* check_program.c: text form, task orders, planted faults, memory. */
#include "core/graph/program/counts.h"
#include "core/hspmd/bsr/switch.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"
#include "tests/parked/program_parse.h"

typedef struct world {
    luo_arena *arena;
    luo_plan *plan;
    luo_model model;
    luo_programs *set;
    luo_err err;
} world;

static void open_world(world *w, const char *line)
{
    memset(w, 0, sizeof *w);
    w->arena = luo_arena_new(0);
    w->plan = luo_test_plan(w->arena, line);
    w->plan->sequence_tokens = 64;
    w->model = luo_test_llama(w->plan->layers, 64, 128, 4, 256);
}

static void compile_world(world *w)
{
    const luo_compile_opts opts = {.check = true, .bucket = {LUO_BUCKET_MIB, true, 0, 0}};
    const luo_status st =
        luo_plan_compile(w->arena, w->plan, &w->model, NULL, &opts, &w->set, &w->err);
    ck_assert_msg(st == LUO_OK, "%s", w->err.text);
}

static void close_world(world *w)
{
    luo_arena_free(w->arena);
}

/* ---- text ---- */

static const struct {
    const char *line;
    int32_t zero;
    bool gpt, full, split, staggered;
} text_rows[] = {
    {"1: [0]*1", 0, false, false, false, false},
    {"3: [0]*1 [1]*1", 0, false, false, false, false},
    {"2: [0,1]*2 || 3: [2]*1 [3]*1", 1, false, true, false, false},
    {"2: [0,1]:(3,1)*1 [4]*1 || 2: [2,3]*2", 1, true, false, false, false},
    {"4: [0,1]*1+1 [2,3]*1+1", 1, true, true, false, false},
    {"3: [0]*1 [1]*1", 0, false, false, true, false},
    {"2: [0,1]*2 || 3: [2]*1 [3]*1", 1, true, true, true, false},
    {"3: [0]*1 [1]*1", 0, false, false, true, true},
    {"2: [0,1]*2 || 3: [2]*1 [3]*1", 1, true, false, false, true},
};

static void build_row(world *w, int i)
{
    open_world(w, text_rows[i].line);
    w->plan->zero = text_rows[i].zero;
    if (text_rows[i].split) w->plan->schedule = LUO_SCHED_ZB_H1;
    w->plan->staggered = text_rows[i].staggered;
    if (text_rows[i].gpt) w->model = luo_test_gpt(w->plan->layers, 64, 4, 256);
    for (int32_t p = 0; p < w->plan->npipelines && text_rows[i].full; p++)
        ((luo_stage *)w->plan->pipelines[p].stages)[0].recompute = LUO_RECOMPUTE_FULL;
    compile_world(w);
}

START_TEST(text_identity)
{
    world w;
    luo_str a = {0}, b = {0};
    luo_programs *again = NULL;
    build_row(&w, _i);
    luo_program_print(&a, w.set, -1);
    const luo_status st = luo_program_parse(w.arena, luo_str_get(&a), &again, &w.err);
    ck_assert_msg(st == LUO_OK, "%d:%d %s", w.err.line, w.err.col, w.err.text);
    luo_program_print(&b, again, -1);
    ck_assert_str_eq(luo_str_get(&a), luo_str_get(&b));
    ck_assert_uint_eq(w.set->hash, again->hash);
    ck_assert_int_eq(luo_program_check(w.arena, again, &w.err), LUO_OK);
    luo_str_free(&a);
    luo_str_free(&b);
    close_world(&w);
}
END_TEST

/* Cutting the text anywhere is an error at a place, never a crash. */
START_TEST(text_cut)
{
    world w;
    luo_str a = {0};
    build_row(&w, 1);
    luo_program_print(&a, w.set, -1);
    luo_arena *scratch = luo_arena_new(0);
    for (size_t n = 0; n + 1 < a.len; n += n < 400 ? 1 : 97) {
        const size_t mark = luo_arena_mark(scratch);
        luo_programs *set;
        char *cut = luo_arena_strndup(scratch, a.at, n);
        ck_assert_int_eq(luo_program_parse(scratch, cut, &set, &w.err), LUO_EPARSE);
        ck_assert_int_gt(w.err.line, 0);
        luo_arena_reset(scratch, mark);
    }
    luo_arena_free(scratch);
    luo_str_free(&a);
    close_world(&w);
}
END_TEST

/* ---- counts: the slow twin has a list per slot, and compares each with all before it ---- */

typedef struct slow_list {
    const int64_t *at;
    int32_t n;
} slow_list;

static int32_t slow_id(slow_list *all, int32_t *n, const luo_programs *set, const luo_slot *s)
{
    const slow_list mine = {s->counts, set->groups[s->group].n};
    for (int32_t i = 0; i < *n; i++) {
        bool same = all[i].n == mine.n;
        for (int32_t k = 0; same && k < mine.n; k++) same = all[i].at[k] == mine.at[k];
        if (same) return i;
    }
    all[*n] = mine;
    return (*n)++;
}

/* Every slot gives back its list, element by element, and the ids are those of the twin. */
static int32_t compare_counts(const luo_programs *set, const luo_programs *again)
{
    enum { LISTS = 4096 };
    static slow_list all[LISTS];
    int32_t n = 0, slots = 0;
    luo_counts fast;
    ck_assert_int_eq(luo_counts_of(set, &fast, NULL), LUO_OK);
    for (int32_t i = 0; i < set->n; i++)
        for (int32_t k = 0; k < set->roles[set->at[i].role].nslot; k++) {
            const luo_slot *s = &set->at[i].slots[k], *t = &again->at[i].slots[k];
            ck_assert_int_eq(s->counts != NULL, t->counts != NULL);
            if (!s->counts) continue;
            ck_assert_int_lt(n, LISTS);
            ck_assert_int_eq(slow_id(all, &n, set, s), luo_counts_id(&fast, set, s));
            ck_assert_mem_eq(s->counts, t->counts,
                             (size_t)set->groups[s->group].n * sizeof *s->counts);
            slots++;
        }
    ck_assert_int_eq(n, fast.n);
    for (int32_t i = 0; i < n; i++) ck_assert_ptr_eq(all[i].at, fast.list[i].at);
    luo_counts_free(&fast);
    return slots;
}

/* Copies of lists at places of their own are the same text: lists are told by what they say. */
static void part_lists(luo_arena *a, luo_programs *set)
{
    for (int32_t i = 0; i < set->n; i++)
        for (int32_t k = 0; k < set->roles[set->at[i].role].nslot; k++) {
            luo_slot *s = (luo_slot *)&set->at[i].slots[k];
            if (!s->counts || (i + k) % 2) continue;
            const int32_t n = set->groups[s->group].n;
            int64_t *own = LUO_NEW_N(a, int64_t, n);
            memcpy(own, s->counts, (size_t)n * sizeof *own);
            s->counts = own;
        }
}

static const struct {
    const char *line;
    int32_t zero;
} counts_rows[] = {
    {"2: [0]*2 || 2: [1]*2 || 2: [2]*2", 1},
    {"2: [0]*2 || 2: [1]*2 || 2: [2]*2", 3},
    {"1: [0]*2 [7]*1 || 1: [1]*2 [8]*1 || 1: [2]*2 [9]*1 || 1: [3]*2 [10]*1 || 1: [4]*2 [11]*1", 3},
    {"2: [0,1]:(3,1)*1 [4]*1 || 2: [2,3]*2", 1},
};

START_TEST(counts_once)
{
    world w;
    luo_str a = {0}, b = {0};
    luo_programs *again = NULL;
    open_world(&w, counts_rows[_i].line);
    w.plan->zero = counts_rows[_i].zero;
    compile_world(&w);
    const uint64_t hash = w.set->hash;
    luo_program_print(&a, w.set, -1);
    ck_assert_msg(luo_program_parse(w.arena, luo_str_get(&a), &again, &w.err) == LUO_OK, "%s",
                  w.err.text);
    ck_assert_int_gt(compare_counts(w.set, again), 0);
    part_lists(w.arena, w.set);
    ck_assert_int_gt(compare_counts(w.set, again), 0);
    luo_program_print(&b, w.set, -1);
    ck_assert_str_eq(luo_str_get(&a), luo_str_get(&b));
    ck_assert_int_eq(luo_programs_hash(w.set, &w.err), LUO_OK);
    ck_assert_uint_eq(w.set->hash, hash);
    ck_assert_int_eq(luo_program_check(w.arena, w.set, &w.err), LUO_OK);
    luo_str_free(&a);
    luo_str_free(&b);
    close_world(&w);
}
END_TEST

static const struct {
    const char *text;
    int line, col;
    const char *says;
} parse_rows[] = {
    {"luoshu.program/2\n", 1, 1, "program text: expected `luoshu.program/1`."},
    {"# a comment\n\nluoshu.program/1\nschedule 2f2b\n", 4, 14,
     "program text: expected gpipe, 1f1b, interleaved_1f1b, zb_h1 or zb_h2."},
    {"luoshu.program/1\nschedule 1f1b\npipelines x\n", 3, 11, "program text: expected a number."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 99999\n", 4, 10,
     "program text: expected a count that the text can hold."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 0\ngroups 1\ngroup 0 tp [0-\n", 6, 12,
     "program text: expected a device set such as `[0-3,7]`."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 0\ngroups 1\ngroup 1 tp [0]\n", 6, 8,
     "program text: expected ids that count up from 0."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 0\ngroups 1\ngroup 0 cp [0]\n", 6, 9,
     "program text: expected compute or tp or pp or dp or move or io."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 0\ngroups 1\ngroup 0 dp [0-3]\n"
     "counts 1\ncounts 0 5x3,4x2\n", 8, 17, "program text: expected fewer numbers."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 0\ngroups 1\ngroup 0 dp [0-3]\n"
     "counts 1\ncounts 0 5x0,4\n", 8, 12, "program text: expected a number in range."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 0\ngroups 1\ngroup 0 dp [0-3]\n"
     "counts 0\n", 7, 8, "program text: expected a number in range."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 0\ngroups 1\ngroup 0 dp [0-3]\n"
     "counts 1\ncounts 0 5x3\nroles 1\nrole 0 segments 0 buffers 0 instructions 0 slots 1\n"
     "tasks 1\ntasks 0 0\ndevices 1\ndevice 0 pipeline 0 stage 0 role 0 tasks 0\n"
     "slot 0 group 0 counts 0\n", 15, 24, "program text: expected one count per member."},
    {"luoshu.program/1\nschedule 1f1b\npipelines 1\nops 0\ngroups 1\ngroup 0 dp [0-3]\n"
     "counts 1\ncounts 0 5x3,4\nroles 1\nrole 0 segments 0 buffers 0 instructions 0 slots 1\n"
     "tasks 1\ntasks 0 0\ndevices 1\ndevice 0 pipeline 0 stage 0 role 0 tasks 0\n"
     "slot 0 group 0 counts 1\n", 15, 24, "program text: expected listed counts."},
};

START_TEST(parse_errors)
{
    luo_arena *a = luo_arena_new(0);
    luo_err err = {0};
    luo_programs *set;
    ck_assert_int_eq(luo_program_parse(a, parse_rows[_i].text, &set, &err), LUO_EPARSE);
    ck_assert_str_eq(err.text, parse_rows[_i].says);
    ck_assert_int_eq(err.line, parse_rows[_i].line);
    ck_assert_int_eq(err.col, parse_rows[_i].col);
    luo_arena_free(a);
}
END_TEST

/* tests/golden/two_stages.program; LUO_BLESS=1 writes it anew. */
START_TEST(golden)
{
    static const char path[] = "tests/golden/two_stages.program";
    world w;
    luo_str a = {0};
    open_world(&w, "2: [0]*1 [1]*1");
    compile_world(&w);
    luo_program_print(&a, w.set, -1);
    const char *bless = getenv("LUO_BLESS");
    FILE *f = fopen(path, bless ? "w" : "r");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    if (bless) {
        fputs(luo_str_get(&a), f);
    } else {
        char *old = calloc(1, a.len + 2);
        old[fread(old, 1, a.len + 1, f)] = 0;
        ck_assert_msg(strcmp(old, luo_str_get(&a)) == 0,
                      "the program of two stages has changed; if that is meant, run with "
                      "LUO_BLESS=1 and read the difference");
        free(old);
    }
    fclose(f);
    luo_str_free(&a);
    close_world(&w);
}
END_TEST

/* ---- task orders: the computed vectors ---- */

static const struct {
    const char *line;
    luo_sched_kind kind;
    int32_t device;
    const char *order;
} order_rows[] = {
    {"3: [0]*1 [1]*1", LUO_SCHED_1F1B, 0, "F0 F1 B0 F2 B1 B2"},
    {"3: [0]*1 [1]*1", LUO_SCHED_1F1B, 1, "F0 B0 F1 B1 F2 B2"},
    {"4: [0]*1 [1]*1 [2]*1", LUO_SCHED_1F1B, 0, "F0 F1 F2 B0 F3 B1 B2 B3"},
    {"2: [0]*1 [1]*1", LUO_SCHED_GPIPE, 1, "F0 F1 B0 B1"},
    {"4: [0]*1+1 [1]*1+1", LUO_SCHED_INTERLEAVED, 0,
     "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0"},
    {"4: [0]*1+1 [1]*1+1", LUO_SCHED_INTERLEAVED, 1,
     "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0"},
};

START_TEST(orders)
{
    world w;
    luo_str s = {0};
    open_world(&w, order_rows[_i].line);
    w.plan->schedule = order_rows[_i].kind;
    compile_world(&w);
    const luo_program *p = luo_programs_find(w.set, order_rows[_i].device);
    for (int32_t t = 1; t + 1 < p->ntask; t++) {
        const luo_segment *seg = &w.set->roles[p->role].seg[p->tasks[t].seg];
        luo_str_addf(&s, "%s%s%d", t > 1 ? " " : "", luo_phase_name((luo_phase)seg->phase),
                     (int)p->tasks[t].micro_batch);
        if (w.plan->chunks > 1) luo_str_addf(&s, ".%d", (int)seg->chunk);
    }
    ck_assert_str_eq(luo_str_get(&s), order_rows[_i].order);
    luo_str_free(&s);
    close_world(&w);
}
END_TEST

/* Receives come first in their task; every lane of pp carries one direction only. */
START_TEST(lanes)
{
    world w;
    open_world(&w, "4: [0]*1+1 [1]*1+1");
    compile_world(&w);
    int32_t seen[LUO_LANES] = {0};
    for (int32_t i = 0; i < w.set->n; i++) {
        const luo_program *p = &w.set->at[i];
        const luo_role *r = &w.set->roles[p->role];
        for (int32_t k = 0; k < r->ninstr; k++) {
            const luo_instr *in = &r->instr[k];
            if (in->stream != LUO_STREAM_PP) continue;
            const int32_t lane = luo_instr_lane(in);
            const bool recv = lane == LUO_LANE_PP_F_RECV || lane == LUO_LANE_PP_B_RECV;
            seen[lane]++;
            ck_assert_int_eq(p->slots[in->slot].message[0].send, !recv);
            ck_assert_int_eq(in->ndep, recv ? 0 : 1);
            ck_assert_int_eq(in->nout, recv);
        }
    }
    ck_assert_int_eq(seen[LUO_STREAM_PP], 3); /* 0.0 -> 1.0 -> 0.1 -> 1.1 */
    ck_assert_int_eq(seen[LUO_LANE_PP_F_RECV], 3);
    ck_assert_int_eq(seen[LUO_LANE_PP_B_SEND], 3);
    ck_assert_int_eq(seen[LUO_LANE_PP_B_RECV], 3);
    close_world(&w);
}
END_TEST

/* ---- planted faults ---- */

/* A role of its own for a device, so that a fault hits it alone. */
static luo_role *own_role(world *w, int32_t device)
{
    luo_program *p = (luo_program *)luo_programs_find(w->set, device);
    luo_role *roles = LUO_NEW_N(w->arena, luo_role, w->set->nroles + 1);
    memcpy(roles, w->set->roles, (size_t)w->set->nroles * sizeof *roles);
    luo_role *r = &roles[w->set->nroles];
    *r = roles[p->role];
    luo_instr *instr = LUO_NEW_N(w->arena, luo_instr, r->ninstr);
    memcpy(instr, r->instr, (size_t)r->ninstr * sizeof *instr);
    r->instr = instr;
    p->role = w->set->nroles++;
    w->set->roles = roles;
    return r;
}

/* n-th instruction of a kind, stream and phase. */
static luo_instr *nth(const luo_role *r, luo_instr_kind kind, luo_stream stream, luo_phase phase,
                      int n)
{
    for (int32_t i = 0; i < r->ninstr; i++) {
        const luo_instr *in = &r->instr[i];
        if (in->kind != kind || in->stream != stream || in->phase != phase) continue;
        if (n-- == 0) return (luo_instr *)in;
    }
    ck_abort_msg("no such instruction");
    return NULL;
}

static luo_run_task *own_tasks(world *w, int32_t device)
{
    luo_program *p = (luo_program *)luo_programs_find(w->set, device);
    luo_run_task *t = LUO_NEW_N(w->arena, luo_run_task, p->ntask);
    memcpy(t, p->tasks, (size_t)p->ntask * sizeof *t);
    p->tasks = t;
    return t;
}

static void lose_send(world *w)
{
    luo_instr *i = nth(own_role(w, 0), LUO_INSTR_P2P, LUO_STREAM_PP, LUO_PHASE_F, 0);
    i->kind = LUO_INSTR_LOCAL;
    i->stream = LUO_STREAM_COMPUTE;
    i->slot = -1;
}

static void lose_receive(world *w)
{
    luo_instr *i = nth(own_role(w, 2), LUO_INSTR_P2P, LUO_STREAM_PP, LUO_PHASE_F, 0);
    i->kind = LUO_INSTR_LOCAL;
    i->stream = LUO_STREAM_COMPUTE;
    i->slot = -1;
}

static void change_size(world *w)
{
    const luo_program *p = luo_programs_find(w->set, 2);
    const luo_instr *i = nth(&w->set->roles[p->role], LUO_INSTR_P2P, LUO_STREAM_PP, LUO_PHASE_F, 0);
    luo_slot *s = (luo_slot *)&p->slots[i->slot];
    ((luo_message *)s->message)->bytes += 2;
}

static void swap(luo_instr *a, luo_instr *b)
{
    const luo_instr t = *a;
    a->coll = b->coll, a->bytes = b->bytes, a->exchange = b->exchange, a->slot = b->slot;
    a->op = b->op;
    b->coll = t.coll, b->bytes = t.bytes, b->exchange = t.exchange, b->slot = t.slot;
    b->op = t.op;
}

static void swap_in_group(world *w)
{
    luo_role *r = own_role(w, 1);
    swap(nth(r, LUO_INSTR_COLLECTIVE, LUO_STREAM_TP, LUO_PHASE_F, 0),
         nth(r, LUO_INSTR_COLLECTIVE, LUO_STREAM_TP, LUO_PHASE_F, 1));
}

/* The first two neighbours in Post that call different groups. */
static void swap_neighbours(world *w, int32_t device)
{
    luo_role *r = own_role(w, device);
    const luo_slot *slots = luo_programs_find(w->set, device)->slots;
    for (int32_t i = 0; i + 1 < r->ninstr; i++) {
        luo_instr *a = (luo_instr *)&r->instr[i], *b = a + 1;
        if (a->phase != LUO_PHASE_POST || a->kind != LUO_INSTR_COLLECTIVE ||
            b->kind != LUO_INSTR_COLLECTIVE || slots[a->slot].group == slots[b->slot].group)
            continue;
        swap(a, b);
        return;
    }
    ck_abort_msg("no neighbours");
}

/* 4 waits for 5, which waits for 1, which waits for 0, which waits for 4. */
static void swap_between_groups(world *w)
{
    swap_neighbours(w, 1);
    swap_neighbours(w, 4);
}

static void lose_backward(world *w)
{
    luo_run_task *t = own_tasks(w, 0);
    luo_program *p = (luo_program *)luo_programs_find(w->set, 0);
    t[p->ntask - 2] = t[p->ntask - 1];
    p->ntask--;
}

static void repeat_backward(world *w)
{
    luo_run_task *t = own_tasks(w, 0);
    const luo_program *p = luo_programs_find(w->set, 0);
    t[p->ntask - 2].micro_batch--;
}

static void weights_first(world *w) /* of the last micro-batch */
{
    luo_run_task *t = own_tasks(w, 0);
    const luo_program *p = luo_programs_find(w->set, 0);
    const luo_run_task last = t[p->ntask - 2];
    t[p->ntask - 2] = t[p->ntask - 3];
    t[p->ntask - 3] = last;
}

static void reverse_micro_batches(world *w)
{
    for (int32_t d = 2; d <= 3; d++) {
        luo_run_task *t = own_tasks(w, d);
        const luo_program *p = luo_programs_find(w->set, d);
        for (int32_t i = 0; i < p->ntask; i++)
            if (t[i].micro_batch >= 0) t[i].micro_batch = 2 - t[i].micro_batch;
    }
}

static void read_early(world *w)
{
    luo_role *r = own_role(w, 0);
    luo_instr *first = nth(r, LUO_INSTR_COMPUTE, LUO_STREAM_COMPUTE, LUO_PHASE_F, 0);
    const luo_instr *last = nth(r, LUO_INSTR_P2P, LUO_STREAM_PP, LUO_PHASE_F, 0);
    first->in = last->in;
    first->nin = 1;
}

static luo_slot *own_slots(world *w, int32_t device)
{
    luo_program *p = (luo_program *)luo_programs_find(w->set, device);
    luo_slot *s = LUO_NEW_N(w->arena, luo_slot, w->set->roles[p->role].nslot);
    memcpy(s, p->slots, (size_t)w->set->roles[p->role].nslot * sizeof *s);
    p->slots = s;
    return s;
}

static void leave_group(world *w)
{
    const luo_program *p = luo_programs_find(w->set, 1);
    luo_slot *s = own_slots(w, 1);
    int32_t other = 0;
    while (w->set->groups[other].stream != LUO_STREAM_TP || w->set->groups[other].dev[0] < 2)
        other++;
    for (int32_t k = 0; k < w->set->roles[p->role].nslot; k++)
        if (s[k].group >= 0 && w->set->groups[s[k].group].stream == LUO_STREAM_TP)
            s[k].group = other;
}

static void wait_for_later(world *w)
{
    luo_role *r = own_role(w, 0);
    luo_instr *i = nth(r, LUO_INSTR_COMPUTE, LUO_STREAM_COMPUTE, LUO_PHASE_F, 0);
    int32_t *dep = LUO_NEW(w->arena, int32_t);
    *dep = i->id + 1;
    i->dep = dep;
    i->ndep = 1;
}

/* What device 0 runs first, of its own: a computation, a call and a message. */
static luo_instr *first_work(world *w)
{
    return nth(own_role(w, 0), LUO_INSTR_COMPUTE, LUO_STREAM_COMPUTE, LUO_PHASE_F, 0);
}

static luo_instr *first_call(world *w)
{
    return nth(own_role(w, 0), LUO_INSTR_COLLECTIVE, LUO_STREAM_TP, LUO_PHASE_F, 0);
}

static luo_instr *first_message(world *w)
{
    return nth(own_role(w, 0), LUO_INSTR_P2P, LUO_STREAM_PP, LUO_PHASE_F, 0);
}

static const int32_t *only(world *w, int32_t number)
{
    int32_t *made = LUO_NEW(w->arena, int32_t);
    *made = number;
    return made;
}

static void strange_kind(world *w)
{
    first_work(w)->kind = LUO_INSTR_IO + 1;
}

static void strange_stream(world *w)
{
    first_work(w)->stream = LUO_STREAMS;
}

static void strange_collective(world *w)
{
    first_call(w)->coll = LUO_COLLS;
}

static void strange_variant(world *w)
{
    first_call(w)->variant = LUO_COLL_VARIANTS;
}

static void variant_of_work(world *w)
{
    first_work(w)->variant = LUO_COLL_GROUPED;
}

static void variant_of_equal_pieces(world *w)
{
    first_call(w)->variant = LUO_COLL_PADDED;
}

static void variant_of_one(world *w)
{
    first_call(w)->variant = LUO_COLL_GROUPED;
}

static void call_among_messages(world *w)
{
    first_call(w)->stream = LUO_STREAM_PP;
}

static void strange_phase(world *w)
{
    first_work(w)->phase = LUO_PHASE_POST;
}

static void strange_op(world *w)
{
    first_work(w)->op = w->set->nops;
}

static void strange_input(world *w)
{
    luo_instr *i = first_work(w);
    i->in = only(w, w->set->roles[w->set->nroles - 1].nbuf);
    i->nin = 1;
}

static void strange_output(world *w)
{
    luo_instr *i = first_work(w);
    i->out = only(w, -1);
    i->nout = 1;
}

static void strange_wait(world *w)
{
    luo_instr *i = first_work(w);
    i->dep = only(w, w->set->roles[w->set->nroles - 1].ninstr);
    i->ndep = 1;
}

static void wait_for_itself(world *w)
{
    luo_instr *i = first_work(w);
    i->dep = only(w, i->id);
    i->ndep = 1;
}

static void message_to_nobody(world *w)
{
    first_message(w)->slot = -1;
}

static void call_of_no_slot(world *w)
{
    first_call(w)->slot = w->set->roles[w->set->nroles - 1].nslot;
}

static void work_with_a_slot(world *w)
{
    first_work(w)->slot = 0;
}

static void call_with_a_messages_slot(world *w)
{
    luo_role *r = own_role(w, 0);
    nth(r, LUO_INSTR_COLLECTIVE, LUO_STREAM_TP, LUO_PHASE_F, 0)->slot =
        nth(r, LUO_INSTR_P2P, LUO_STREAM_PP, LUO_PHASE_F, 0)->slot;
}

static void work_at_the_start(world *w)
{
    first_work(w)->at_start = true;
}

static void overlapping_segments(world *w)
{
    luo_role *r = own_role(w, 0);
    luo_segment *seg = LUO_NEW_N(w->arena, luo_segment, r->nseg);
    memcpy(seg, r->seg, (size_t)r->nseg * sizeof *seg);
    seg[1].first--;
    r->seg = seg;
}

static void work_in_no_segment(world *w)
{
    own_role(w, 0)->nseg--;
}

static void task_of_no_segment(world *w)
{
    const luo_program *p = luo_programs_find(w->set, 0);
    own_tasks(w, 0)[0].seg = w->set->roles[p->role].nseg;
}

static void task_of_no_micro_batch(world *w)
{
    const luo_program *p = luo_programs_find(w->set, 0);
    luo_run_task *t = own_tasks(w, 0);
    t[p->ntask - 2].micro_batch = -1;
}

static void task_of_a_strange_micro_batch(world *w)
{
    const luo_program *p = luo_programs_find(w->set, 0);
    luo_run_task *t = own_tasks(w, 0);
    t[p->ntask - 2].micro_batch = 1 << 20;
}

static void message_to(world *w, int32_t device)
{
    luo_message *m = LUO_NEW(w->arena, luo_message);
    luo_slot *s = &own_slots(w, 0)[first_message(w)->slot];
    *m = s->message[0];
    m->peer = device;
    s->message = m;
}

static void message_to_itself(world *w)
{
    message_to(w, 0);
}

static void message_to_a_stranger(world *w)
{
    message_to(w, 8);
}

static void join_group(world *w)
{
    const luo_program *p = luo_programs_find(w->set, 4);
    luo_slot *s = own_slots(w, 4);
    for (int32_t k = 0; k < w->set->roles[p->role].nslot; k++)
        for (int32_t g = 0; s[k].group >= 0 && g < w->set->ngroups; g++)
            if (w->set->groups[s[k].group].stream == LUO_STREAM_TP &&
                w->set->groups[g].stream == LUO_STREAM_TP && w->set->groups[g].dev[0] == 0)
                s[k].group = g;
}

static void strange_role(world *w)
{
    ((luo_program *)luo_programs_find(w->set, 0))->role = w->set->nroles;
}

typedef struct fault {
    void (*plant)(world *);
    const char *says;
} fault;

static const fault fault_rows[] = {
    {lose_send, "device 2 waits in `layers.1.in` (micro-batch 0) for device 0, which never sends "
                "it."},
    {lose_receive, "device 0 waits in `layers.1.in` (micro-batch 0) for device 2, which never "
                   "receives it."},
    {change_size, "device 0 sends 4096 bytes to device 2 in `layers.1.in` (micro-batch 0), which "
                  "expects 4098."},
    {swap_in_group,
     "devices 0 and 1 meet in group [0,1] with different calls: reduce_scatter of 8192 bytes in "
     "`wte.reduce` (micro-batch 0) and all_gather of 8192 bytes in `layers.0.attn.gather` "
     "(micro-batch 0)."},
    {swap_between_groups, "the programs wait for each other for ever: device "},
    {swap_between_groups, "(micro-batch -1) for device 1"},
    {lose_backward, "device 0: micro-batch 2 (chunk 0) runs forward 1 times and backward 0 times; "
                    "each once is right."},
    {repeat_backward, "device 0: backward of micro-batch 1 (chunk 0, 64 tokens) does not follow "
                      "one forward of as many tokens."},
    {reverse_micro_batches, "for device 2"},
    {read_early, "reads `layers.0.mlp.add` before anything has written it."},
    {leave_group, "device 1 is in group "},
    {wait_for_later, "it waits for a later instruction of its own segment."},
    {wait_for_itself, "it waits for a later instruction of its own segment."},
    {strange_kind, "its kind is not known."},
    {strange_stream, "its kind is not known."},
    {strange_collective, "its kind is not known."},
    {strange_variant, "only gathers and scatters have a variant, padded of uneven pieces."},
    {variant_of_work, "only gathers and scatters have a variant, padded of uneven pieces."},
    {variant_of_equal_pieces, "only gathers and scatters have a variant, padded of uneven pieces."},
    {variant_of_one,
     "devices 0 and 1 meet in group [0,1] with different calls: grouped reduce_scatter of 8192 "
     "bytes in `wte.reduce` (micro-batch 0) and reduce_scatter of 8192 bytes in `wte.reduce` "
     "(micro-batch 0)."},
    {call_among_messages, "stream pp carries messages only."},
    {strange_phase, "its phase is not its segment's."},
    {strange_op, "its op is not listed."},
    {strange_input, "it names a buffer that the role does not have."},
    {strange_output, "it names a buffer that the role does not have."},
    {strange_wait, "it waits for an instruction that the role does not have."},
    {message_to_nobody, "communication needs a slot of the role, nothing else has one."},
    {call_of_no_slot, "communication needs a slot of the role, nothing else has one."},
    {work_with_a_slot, "communication needs a slot of the role, nothing else has one."},
    {call_with_a_messages_slot, "is not of the instruction's kind and stream."},
    {work_at_the_start, "only communication waits for the tasks before."},
    {overlapping_segments, "segments do not follow each other."},
    {work_in_no_segment, "it is in no segment."},
    {task_of_no_segment, "device 0: task 0 names segment "},
    {task_of_no_micro_batch, "has micro-batch -1."},
    {task_of_a_strange_micro_batch, "has micro-batch 1048576."},
    {message_to_itself, "device 0 exchanges messages with device 0, which has no program."},
    {message_to_a_stranger, "device 0 exchanges messages with device 8, which has no program."},
    {join_group, " of 2 devices is called by 3."},
    {strange_role, "device 0 has role "},
};

static void refuses(const fault *row, luo_sched_kind schedule)
{
    world w;
    open_world(&w, "3: [0,1]*1 [2,3]*1 || 3: [4,5]*1 [6,7]*1");
    w.plan->schedule = schedule;
    compile_world(&w);
    row->plant(&w);
    ck_assert_int_eq(luo_program_check(w.arena, w.set, &w.err), LUO_EINPUT);
    ck_assert_msg(strstr(w.err.text, row->says) != NULL, "%s", w.err.text);
    close_world(&w);
}

START_TEST(faults)
{
    refuses(&fault_rows[_i], LUO_SCHED_1F1B);
}
END_TEST

/* ---- backward in two halves ---- */

static const fault half_rows[] = { /* the last task of device 0 is BW of micro-batch 2 */
    {lose_backward, "device 0: micro-batch 2 (chunk 0) makes its weight gradients 0 times; once "
                    "is right."},
    {repeat_backward, "device 0: weight gradients of micro-batch 1 (chunk 0, 64 tokens) do not "
                      "follow input gradients of as many tokens."},
    {weights_first, "device 0: weight gradients of micro-batch 2 (chunk 0, 64 tokens) do not "
                    "follow input gradients of as many tokens."},
    {lose_send, "device 2 waits in `layers.1.in` (micro-batch 0) for device 0, which never sends "
                "it."},
};

START_TEST(halves_fault)
{
    refuses(&half_rows[_i], LUO_SCHED_ZB_H1);
}
END_TEST

typedef struct half { /* of a role's segments of a phase */
    int64_t flops;
    int instructions, products, messages; /* products: of weight gradients */
} half;

static half count_phase(const luo_programs *set, const luo_role *r, luo_phase phase)
{
    half h = {0};
    for (int32_t i = 0; i < r->ninstr; i++) {
        const luo_instr *in = &r->instr[i];
        if (in->phase != phase || in->recompute) continue;
        h.flops += in->flops;
        h.instructions += in->kind == LUO_INSTR_COMPUTE;
        h.products += set->ops[in->op].kind == LUO_OP_MATMUL_DW;
        h.messages += in->kind == LUO_INSTR_P2P;
    }
    return h;
}

/* Both halves do what the whole does, messages and all that they wait for in the first; no stage
 * but the head's keeps more than 1F1B's first, within 4 %. */
START_TEST(halves)
{
    world a, b;
    int64_t most = 0;
    open_world(&a, "8: [0,1]*2 [2,3]*2 [4,5]*2 [6,7]*2");
    open_world(&b, "8: [0,1]*2 [2,3]*2 [4,5]*2 [6,7]*2");
    b.plan->schedule = LUO_SCHED_ZB_H1;
    compile_world(&a);
    compile_world(&b);
    ck_assert_int_eq(a.set->nroles, b.set->nroles);
    for (int32_t d = 0; d < a.set->n; d++) {
        const luo_role *x = &a.set->roles[a.set->at[d].role], *y = &b.set->roles[b.set->at[d].role];
        const half whole = count_phase(a.set, x, LUO_PHASE_B);
        const half bi = count_phase(b.set, y, LUO_PHASE_BI);
        const half bw = count_phase(b.set, y, LUO_PHASE_BW);
        ck_assert_int_eq(whole.flops, bi.flops + bw.flops);
        ck_assert_int_eq(whole.instructions, bi.instructions + bw.instructions);
        ck_assert_int_eq(whole.messages, bi.messages);
        ck_assert_int_eq(bi.products + bw.messages, 0);
        ck_assert_int_eq(whole.products, bw.products);
        ck_assert_int_ge(bw.products, 8);
        luo_memory before, after;
        ck_assert_int_eq(luo_program_memory(a.arena, a.set, d, &before, &a.err), LUO_OK);
        ck_assert_int_eq(luo_program_memory(b.arena, b.set, d, &after, &b.err), LUO_OK);
        if (d == 0) most = before.activations + before.buffers;
        if (d < 6) ck_assert_int_le(after.activations + after.buffers, most + most / 25);
    }
    close_world(&a);
    close_world(&b);
}
END_TEST

/* ---- lengths ---- */

/* Own micro-batch size per pipeline, own tokens per micro-batch; segments by length. */
START_TEST(lengths)
{
    world w;
    open_world(&w, "3: [0]*1 [1]*1 || 2: [2]*2");
    static const int64_t tokens[3] = {64, 32, 64};
    luo_pipeline *pipes = (luo_pipeline *)w.plan->pipelines;
    pipes[0].micro_batch_tokens = tokens;
    pipes[1].micro_batch_sequences = 2;
    compile_world(&w);
    const luo_program *a = luo_programs_find(w.set, 0), *b = luo_programs_find(w.set, 2);
    ck_assert_int_eq(w.set->roles[a->role].nseg, 6); /* pre, two lengths of F and B, post */
    ck_assert_int_eq(w.set->roles[b->role].nseg, 4);
    ck_assert_int_eq(w.set->roles[b->role].seg[1].tokens, 128);
    int64_t sum = 0;
    for (int32_t t = 0; t < a->ntask; t++) {
        const luo_segment *seg = &w.set->roles[a->role].seg[a->tasks[t].seg];
        if (seg->phase == LUO_PHASE_F) sum += seg->tokens;
    }
    ck_assert_int_eq(sum, 160);
    close_world(&w);
}
END_TEST

/* Sequences of 48 and 16 tokens cost the attention of 64 tokens in sequences of 40. */
START_TEST(assigned_lengths)
{
    world w;
    open_world(&w, "1: [0]*1");
    static const luo_assignment assignment[2] = {{0, 48, 0, 0}, {1, 16, 0, 0}};
    w.plan->assignment = assignment;
    w.plan->nassignment = 2;
    compile_world(&w);
    const luo_role *r = &w.set->roles[0];
    for (int32_t i = 0; i < r->ninstr; i++) {
        if (r->instr[i].cost.kind != LUO_COST_ATTENTION_F) continue;
        ck_assert_int_eq(r->instr[i].cost.a[2], 64);
        ck_assert_int_eq(r->instr[i].cost.a[3], 40);
        ck_assert_int_eq(r->instr[i].flops, 2 * 64 * (48 * 48 + 16 * 16));
    }
    close_world(&w);
}
END_TEST

/* ---- what moves with a switch, what a checkpoint holds ---- */

static luo_switch_tensor *switch_tensors(world *w, const luo_plan *from, const luo_plan *to,
                                         int32_t *n)
{
    luo_param *a, *b;
    ck_assert_int_eq(luo_plan_params(w->arena, from, &w->model, &a, n, &w->err), LUO_OK);
    ck_assert_int_eq(luo_plan_params(w->arena, to, &w->model, &b, n, &w->err), LUO_OK);
    luo_switch_tensor *t = LUO_NEW_N(w->arena, luo_switch_tensor, *n);
    for (int32_t i = 0; i < *n; i++)
        t[i] = (luo_switch_tensor){a[i].name, a[i].state, b[i].state, a[i].shape, 12, 0};
    return t;
}

START_TEST(switch_program)
{
    world w;
    int32_t n;
    luo_switch sw = {0};
    luo_programs *set;
    open_world(&w, "3: [0,1]*1 [2,3]*1 || 3: [4,5]*1 [6,7]*1");
    const luo_plan *to = luo_test_plan(w.arena, "3: [0,1]*1 [2,3]*1 || 3: [4,5]*2");
    const luo_switch_tensor *t = switch_tensors(&w, w.plan, to, &n);
    const luo_switch_opts opts = {0};
    ck_assert_int_eq(luo_switch_plan(w.arena, t, n, &opts, &sw, &w.err), LUO_OK);
    ck_assert_int_eq(luo_compile_switch(w.arena, t, n, &sw, &set, &w.err), LUO_OK);
    const luo_status st = luo_program_check(w.arena, set, &w.err);
    ck_assert_msg(st == LUO_OK, "%s", w.err.text);
    int64_t sent = 0, pairs = 0;
    for (int32_t i = 0; i < sw.npair; i++) pairs += sw.pair[i].bytes;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_role *r = &set->roles[set->at[i].role];
        for (int32_t k = 0; k < r->ninstr; k++)
            if (r->instr[k].kind == LUO_INSTR_P2P) sent += r->instr[k].bytes;
    }
    ck_assert_int_gt(sent, 0);
    ck_assert_int_eq(sent, pairs);
    close_world(&w);
}
END_TEST

static int64_t io_bytes(world *w, bool write)
{
    luo_programs *set;
    int64_t sum = 0;
    const luo_status st =
        luo_compile_checkpoint(w->arena, w->plan, &w->model, write, &set, &w->err);
    ck_assert_msg(st == LUO_OK, "%s", w->err.text);
    ck_assert_int_eq(luo_program_check(w->arena, set, &w->err), LUO_OK);
    for (int32_t i = 0; i < set->n; i++) {
        const luo_role *r = &set->roles[set->at[i].role];
        for (int32_t k = 0; k < r->ninstr; k++) sum += r->instr[k].bytes;
    }
    return sum;
}

/* A checkpoint holds every parameter once, whoever has copies; reading gives each its own. */
START_TEST(checkpoint)
{
    world w;
    int64_t n;
    open_world(&w, "3: [0,1]*1 [2,3]*1 || 3: [4]*1 [5]*1");
    luo_model_parameters(&w.model, &n, NULL);
    w.plan->zero = _i;
    ck_assert_int_eq(io_bytes(&w, true), 12 * n);
    if (_i) ck_assert_int_eq(io_bytes(&w, false), 12 * n);
    else ck_assert_int_gt(io_bytes(&w, false), 24 * n);
    close_world(&w);
}
END_TEST

LUO_SUITE("program", LUO_T_N(text_identity, LUO_ROWS(text_rows)), LUO_T(text_cut),
          LUO_T_N(counts_once, LUO_ROWS(counts_rows)),
          LUO_T_N(parse_errors, LUO_ROWS(parse_rows)), LUO_T(golden),
          LUO_T_N(orders, LUO_ROWS(order_rows)), LUO_T(lanes),
          LUO_T_N(faults, LUO_ROWS(fault_rows)),
          LUO_T_N(halves_fault, LUO_ROWS(half_rows)), LUO_T(halves), LUO_T(lengths),
          LUO_T(assigned_lengths), LUO_T(switch_program), LUO_T_N(checkpoint, 2))
