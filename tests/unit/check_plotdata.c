/* check_plotdata.c: the tables beside figures, whole, of runs whose tables are made by hand here:
 * what they hold follows from docs/results.md with pencil and paper. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/files.h"
#include "core/io/plot/plotdata.h"
#include "tests/check_main.h"
#include "tests/run_fixture.h"

typedef struct desk {
    fixture *f;
    const char *dir; /* of the run and of what is made */
    luo_diags diags;
} desk;

static desk open_desk(const char *name)
{
    desk d = {.f = fix_new()};
    luo_err err = {0};
    d.dir = fix_dir(d.f->arena, name);
    ck_assert_int_eq(luo_file_make_dir(d.dir, &err), LUO_OK);
    luo_diags_init(&d.diags, d.f->arena);
    return d;
}

static void close_desk(desk *d)
{
    for (const luo_diag *x = d->diags.first; x; x = x->next) ck_abort_msg("%s", x->err.text);
    fix_remove(d->f->arena, d->dir);
    luo_arena_free(d->f->arena);
}

static void put_into(const desk *d, const char *dir, const char *file, const char *text)
{
    luo_err err = {0};
    const char *path = luo_arena_printf(d->f->arena, "%s/%s", dir, file);
    ck_assert_int_eq(luo_file_write_atomic(path, text, strlen(text), &err), LUO_OK);
}

static void put(const desk *d, const char *file, const char *text)
{
    put_into(d, d->dir, file, text);
}

/* Rows of a table that was made, without its first line. */
static const char *made(const desk *d, const char *file)
{
    luo_source src;
    luo_err err = {0};
    const char *path = luo_arena_printf(d->f->arena, "%s/%s", d->dir, file);
    ck_assert_msg(luo_source_read(d->f->arena, path, &src, &err) == LUO_OK, "%s", err.text);
    return strchr(src.text, '\n') + 1;
}

static int64_t lines(const char *text)
{
    int64_t n = 0;
    for (; (text = strchr(text, '\n')); text++) n++;
    return n;
}

/* Step 1 is done again, by another plan and after a second without a step. */
#define STEPS                                                                                      \
    "step,plan,t_start_s,t_end_s,tokens,tokens_per_s,compute_s,recompute_s,tp_s,ep_s,cp_s,pp_s,"   \
    "dp_s,move_s,io_s,bubble_s\n"                                                                  \
    "0,0,0,1,10,10,0.6,0,0,0,0,0,0,0,0,0.4\n"                                                      \
    "1,0,1,2,10,10,0.9,0,0,0,0,0,0,0,0,0.1\n"                                                      \
    "1,1,3,3.5,10,40,0.3,0,0,0,0,0,0,0,0,0.2\n"                                                    \
    "2,1,3.5,4,10,20,0.4,0,0,0,0,0,0,0,0,0.1\n"

START_TEST(steps)
{
    desk d = open_desk("steps");
    const luo_time_range range = {.sd = log(1.5) / LUO_RANGE_SDS};
    const luo_result runs[] = {{.dir = d.dir, .name = "a", .total_s = 4},
                               {.dir = d.dir, .name = "b", .total_s = 4, .range = &range}};
    int64_t rows = -1;
    put(&d, "steps.csv", STEPS);
    ck_assert_int_eq(luo_plotdata_throughput(d.f->arena, runs, 1, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_int_eq(rows, 6);
    ck_assert_str_eq(made(&d, "throughput.csv"),
                     "a,1.000000000,15.000,10\na,2.000000000,15.000,20\na,2.000000000,,20\n"
                     "a,3.000000000,,10\na,3.500000000,15.000,20\na,4.000000000,15.000,30\n");
    ck_assert_int_eq(luo_plotdata_stepcdf(d.f->arena, runs, 1, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "stepcdf.csv"),
                     "a,0.500000000,0.000000\na,0.500000000,0.333333\n"
                     "a,0.500000000,0.666667\na,1.000000000,1.000000\n");
#define BETWEEN                                                                                    \
    ",0.000000000,0.000000000,0.000000000,0.000000000,0.000000000,0.000000000,"                    \
    "0.000000000,0.000000000,"
    ck_assert_int_eq(luo_plotdata_breakdown(d.f->arena, runs, 1, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "breakdown.csv"), "plan 0,1,0.600000000" BETWEEN "0.400000000,,\n"
                                                "plan 1,2,0.350000000" BETWEEN "0.150000000,,\n");
    ck_assert_int_eq(luo_plotdata_breakdown(d.f->arena, runs, 2, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "breakdown.csv"), "a,3,0.433333333" BETWEEN "0.233333333,,\n"
                                                "b,3,0.433333333" BETWEEN "0.233333333,0.444444444,"
                                                "1.000000000\n");
    close_desk(&d);
}
END_TEST

enum { LONG = 2403, AGAIN = 1000, STILL = 1502, SLOW = 2391 };

/* Of 2403 rows every third is drawn, and: the first and the last, where a step is done again (row
 * 1000 does step 999 once more), and where time passes (before row 1502). The rate rises by 1 a
 * row, so that its median over 21 rows is that of the row in their middle. */
START_TEST(many_steps)
{
    desk d = open_desk("many");
    const luo_result run = {.dir = d.dir, .name = "a"};
    luo_str text = {0};
    double t = 0;
    int64_t rows = -1;
    luo_str_add(&text, "step,plan,t_start_s,t_end_s,tokens,tokens_per_s\n");
    for (int i = 0; i < LONG; i++) {
        const double dur = i < SLOW ? 1 : 2;
        if (i == STILL) t += 0.5;
        luo_str_addf(&text, "%d,0,%.1f,%.1f,1,%d\n", i < AGAIN ? i : i - 1, t, t + dur, i);
        t += dur;
    }
    put(&d, "steps.csv", luo_str_get(&text));
    luo_str_free(&text);
    ck_assert_int_eq(luo_plotdata_throughput(d.f->arena, &run, 1, d.dir, &rows, &d.diags), LUO_OK);
    const char *all = made(&d, "throughput.csv");
    ck_assert_int_eq(rows, 801 + 2 + 2 + 1); /* thirds; again, still, last */
    ck_assert_int_eq(lines(all), rows);
    static const char *const has[] = {
        "a,1.000000000,5.000,1\na,4.000000000,6.500,4\na,7.000000000,8.000,7\n"
        "a,10.000000000,9.500,10\na,13.000000000,12.000,13\n",
        "a,1000.000000000,999.000,1000\na,1000.000000000,,999\na,1001.000000000,1000.000,1000\n"
        "a,1003.000000000,1002.000,1002\n",
        "a,1501.000000000,1500.000,1500\na,1502.000000000,1501.000,1501\na,1502.000000000,,1501\n"
        "a,1504.500000000,1503.000,1503\n",
        "a,2411.500000000,2396.000,2400\na,2415.500000000,2397.000,2402\n"};
    for (int i = 0; i < LUO_ROWS(has); i++) ck_assert_msg(strstr(all, has[i]), "%s", has[i]);
    /* 2402 stayed: the foot, every third, the last, both sides of the corner from 1 s to 2 s. */
    ck_assert_int_eq(luo_plotdata_stepcdf(d.f->arena, &run, 1, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_int_eq(rows, 1 + 801 + 2 + 1);
    const char *const corner = "a,1.000000000,0.994588\na,1.000000000,0.995004\n"
                               "a,2.000000000,0.995420\na,2.000000000,0.995837\n";
    ck_assert_msg(strstr(made(&d, "stepcdf.csv"), corner), "%s", corner);
    close_desk(&d);
}
END_TEST

/* Blocking rows that are no steps are lost, joined where they touch; so is a step that is done
 * again, and the end of a run that was lost. */
START_TEST(lost)
{
    static const char *const expected =
        "a,redone,1.000000000,2.000000000\na,detect,2.000000000,2.250000000\n"
        "a,restart,2.250000000,3.000000000\na,checkpoint,4.000000000,4.100000000\n"
        "a,checkpoint,4.600000000,4.700000000\na,wait,4.700000000,4.750000000\n"
        "a,wait,4.900000000,5.000000000\n";
    desk d = open_desk("lost");
    luo_result run = {.dir = d.dir, .name = "a", .total_s = 5, .state = LUO_COMPLETE};
    int64_t rows = -1;
    put(&d, "timeline.csv",
        "t_start_s,t_end_s,kind,blocking,step\n0,1,step,1,0\n1,2,step,1,1\n1,2,plan,0,1\n"
        "2,2.25,detect,1,2\n2.25,2.5,restart,1,1\n2.5,3,restart,1,1\n3,3.5,step,1,1\n"
        "3.5,4,step,1,2\n4,4.1,checkpoint,1,3\n4.1,4.6,step,1,3\n4.6,4.7,checkpoint,1,4\n"
        "4.7,4.75,wait,1,4\n4.9,5,wait,1,4\n");
    ck_assert_int_eq(luo_plotdata_lost(d.f->arena, &run, 1, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_int_eq(rows, 7);
    ck_assert_str_eq(made(&d, "lost.csv"), expected);
    run.state = LUO_LOST;
    ck_assert_int_eq(luo_plotdata_lost(d.f->arena, &run, 1, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "lost.csv"),
                     luo_arena_printf(d.f->arena, "%sa,lost,5.000000000,5.000000000\n", expected));
    for (int i = 0; i < LUO_TIMES; i++) run.time[i] = i;
    ck_assert_int_eq(luo_plotdata_timelost(d.f->arena, &run, 1, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_int_eq(rows, 1);
    ck_assert_int_eq(strncmp(made(&d, "timelost.csv"), "a,lost,0.000000000,1.000000000,", 31), 0);
    close_desk(&d);
}
END_TEST

/* Of 1200 s a mark takes 3 s and a label 40 s to both sides; devices that go are labelled first.
 * The marks are those of the run that lasts longest. */
START_TEST(marks)
{
    desk d = open_desk("marks");
    const luo_result runs[] = {{.dir = "nowhere", .name = "short", .total_s = 1},
                               {.dir = d.dir, .name = "long", .total_s = 1200},
                               {.dir = "nowhere", .name = "as long", .total_s = 1200},
                               {.dir = "nowhere", .name = "less", .total_s = 600}};
    int64_t rows = -1;
    put(&d, "events.csv",
        "t_s,phase,kind,target,value\n100,fired,straggler,device:12,2.571\n"
        "102,fired,fail,node:a,\n103,fired,fail,node:b,\n120,detected,fail,node:b,\n"
        "143,fired,link,link:h20-1/nic3,0.5\n146,fired,link,link:h20-1/nic3,0.25\n"
        "150,ended,link,link:h20-1/nic3,\n200,fired,straggler,device:12,2.571\n"
        "240,fired,straggler,device:13,2\n241,fired,straggler,device:14,2\n");
    ck_assert_int_eq(luo_plotdata_marks(d.f->arena, runs, 4, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "marks.csv"),
                     "-,100.000000000,straggler,-\n-,103.000000000,fail,fail node:b\n"
                     "-,143.000000000,link,-\n-,146.000000000,link,h20-1/nic3 x0.25\n"
                     "-,200.000000000,straggler,device:12 x2.57\n-,240.000000000,straggler,-\n");
    ck_assert_int_eq(rows, 6);
    close_desk(&d);
}
END_TEST

/* Of 1200 s two marks of one event lie 3 s apart at most. The second run meets the event of 100 s
 * 2 s later, that of 300 s not at all, and one of its own; the third was lost before 300 s. */
START_TEST(own_marks)
{
    desk d = open_desk("own_marks");
    const char *other = fix_dir(d.f->arena, "own_marks_other");
    const char *gone = fix_dir(d.f->arena, "own_marks_gone");
    luo_err err = {0};
    const luo_result runs[] = {{.dir = d.dir, .name = "a", .total_s = 1200},
                               {.dir = other, .name = "b", .total_s = 1200},
                               {.dir = gone, .name = "c", .total_s = 200}};
    int64_t rows = -1;
    ck_assert_int_eq(luo_file_make_dir(other, &err), LUO_OK);
    ck_assert_int_eq(luo_file_make_dir(gone, &err), LUO_OK);
    put(&d, "events.csv",
        "t_s,phase,kind,target,value\n100,fired,fail,node:a,\n300,fired,fail,node:b,\n"
        "400,fired,fail,node:c,\n");
    put_into(&d, other, "events.csv",
             "t_s,phase,kind,target,value\n102,fired,fail,node:a,\n400,fired,fail,node:c,\n"
             "400,fired,fail,node:d,\n500,fired,fail,node:e,\n");
    put_into(&d, gone, "events.csv", "t_s,phase,kind,target,value\n101,fired,fail,node:a,\n");
    ck_assert_int_eq(luo_plotdata_marks(d.f->arena, runs, 3, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "marks.csv"),
                     "-,100.000000000,fail,fail node:a\n-,400.000000000,fail,fail node:c\n"
                     "a,300.000000000,fail,-\nb,400.000000000,fail,-\nb,500.000000000,fail,-\n");
    ck_assert_int_eq(rows, 5);
    fix_remove(d.f->arena, other);
    fix_remove(d.f->arena, gone);
    close_desk(&d);
}
END_TEST

/* The largest of every stage of the first plan; nothing where nothing was slow. */
START_TEST(slowdown)
{
    desk d = open_desk("slowdown");
    const luo_result run = {.dir = d.dir, .name = "a"};
    int64_t rows = -1;
    put(&d, "memory.csv",
        "plan,device,pipeline,stage\n0,0,0,1\n0,1,0,0\n0,2,0,1\n0,3,1,0\n0,5,1,0\n0,7,2,0\n"
        "0,130,3,0\n1,4,0,0\n1,0,5,5\n");
    put(&d, "devices.csv",
        "device,caused_slowdown\n0,1.5\n1,1.1\n2,2\n3,1.2\n4,9\n5,\n7,\n130,1.3\n131,8\n");
    ck_assert_int_eq(luo_plotdata_slowdown(d.f->arena, &run, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "slowdown.csv"),
                     "0,0,1.100000\n0,1,2.000000\n1,0,1.200000\n3,0,1.300000\n");
    ck_assert_int_eq(rows, 4);
    put(&d, "devices.csv", "device,caused_slowdown\n0,1\n1,1.0004\n4,9\n");
    ck_assert_int_eq(luo_plotdata_slowdown(d.f->arena, &run, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_int_eq(rows, 0);
    put(&d, "devices.csv", "device,caused_slowdown\n0,1\n1,1.0006\n4,9\n");
    ck_assert_int_eq(luo_plotdata_slowdown(d.f->arena, &run, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_int_eq(rows, 2);
    close_desk(&d);
}
END_TEST

/* Classes against a count of one length after the other; the curve ends at all of them. */
START_TEST(lengths_of_classes)
{
    static const luo_length_row rows[] = {
        {100, 200, 30}, {250, 260, 0}, {400, 1000, 10}, {2000, 2000, 5}};
    const luo_lengths lengths = {
        .kind = LUO_LENGTH_HISTOGRAM, .nrows = LUO_ROWS(rows), .rows = rows};
    desk d = open_desk("classes");
    luo_plot_lengths one = {.name = "a", .lengths = &lengths};
    int64_t last = 0, length, n = 0;
    double sequences = 0, tokens = 0;
    ck_assert_int_eq(luo_plotdata_lengthcdf(d.f->arena, &one, 1, d.dir, &d.diags), LUO_OK);
    for (const char *at = made(&d, "lengthcdf.csv"); *at; at = strchr(at, '\n') + 1, n++) {
        double want[2] = {0}, all[2] = {0};
        ck_assert_int_eq(sscanf(at, "1,a,%" SCNd64 ",%lf,%lf", &length, &sequences, &tokens), 3);
        ck_assert(n < 2 ? length == 100 : length > last);
        last = length;
        for (int i = 0; i < LUO_ROWS(rows); i++) {
            const int64_t end = rows[i].high > rows[i].low ? rows[i].high : rows[i].low + 1;
            for (int64_t at_length = rows[i].low; at_length < end; at_length++) {
                const double each = rows[i].count / (double)(end - rows[i].low);
                const bool counts = n > 0 && at_length <= length; /* the first point is the foot */
                want[0] += counts ? each : 0;
                want[1] += counts ? each * (double)at_length : 0;
                all[0] += each;
                all[1] += each * (double)at_length;
            }
        }
        ck_assert_double_eq_tol(sequences, want[0] / all[0], 1e-6);
        ck_assert_double_eq_tol(tokens, want[1] / all[1], 1e-6);
        ck_assert_double_eq_tol(one.mean, all[1] / all[0], 1e-6);
    }
    ck_assert_int_gt(n, 300);
    ck_assert(last == 2000 && sequences == 1 && tokens == 1);
    ck_assert_double_eq(one.sequences, 45);
    close_desk(&d);
}
END_TEST

/* At most six of a class, most bytes first, the first of equal ones; none that carried nothing. */
START_TEST(busiest)
{
    desk d = open_desk("busiest");
    const luo_result run = {.dir = d.dir, .name = "a"};
    int64_t rows = -1;
    put(&d, "links.csv",
        "link,class,bytes,utilisation_ratio\na>,nic,10,0.1\nb>,nic,30,0.3\nc>,nic,20,0.2\n"
        "d>,nic,20,\ne>,nic,0,0\nf>,nic,5,0.5\ng>,nic,1,0.1\nh>,nic,7,0.7\ni>,nic,10,0.1\n"
        "s>,storage,4,\nn>,nvlink,1,0.01\n");
    ck_assert_int_eq(luo_plotdata_busiest(d.f->arena, &run, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "busiest.csv"),
                     "0,n>,nvlink,1,0.010000\n1,b>,nic,30,0.300000\n2,c>,nic,20,0.200000\n"
                     "3,d>,nic,20,\n4,a>,nic,10,0.100000\n5,i>,nic,10,0.100000\n"
                     "6,h>,nic,7,0.700000\n7,s>,storage,4,\n");
    ck_assert_int_eq(rows, 8);
    close_desk(&d);
}
END_TEST

/* A step of 1500 s from 100 s on: one column a second, and what is drawn at one is what covers
 * most of the seven around it. Device 1 is of the stage of device 0 and not drawn. */
START_TEST(gantt)
{
    desk d = open_desk("gantt");
    const luo_result run = {.dir = d.dir, .name = "a"};
    int64_t rows = -1;
    put(&d, "ops.csv",
        "step,attempt,device,stream,phase,op,pipeline,stage,micro_batch,t_start_s,t_end_s\n"
        "4,1,2,pp,F,act,0,1,7,200,201\n4,1,3,io,switch,save,,,,110,1600\n"
        "4,1,2,compute,F,mm,0,1,3,100,800\n4,1,2,compute,F,mm,0,1,4,800,1600\n"
        "4,1,2,pp,F,act,0,1,7,202,203\n"
        "4,1,2,pp,F,act,0,1,7,204,205\n4,1,2,pp,F,act,0,1,7,206,207\n"
        "4,1,2,pp,F,act,0,1,7,208,209\n4,1,2,pp,F,act,0,1,7,210,211\n"
        "4,1,0,compute,F,mm,0,0,0,100,400\n4,1,0,tp,F,ar,0,0,0,390,410\n"
        "4,1,0,compute,B,d.mm,0,0,0,400,700\n4,1,0,compute,B,mm,0,0,1,700,1000\n"
        "4,1,0,compute,BW,d.mm,0,0,1,1000,1200\n4,1,0,compute,post,adam,0,0,,1200,1600\n"
        "4,1,1,compute,F,mm,0,0,0,100,400\n"
        "4,2,0,compute,F,mm,0,0,0,1700,2000\n5,0,0,compute,F,mm,0,0,0,1800,2000\n");
    ck_assert_int_eq(luo_plotdata_gantt(d.f->arena, &run, -1, -1, d.dir, &rows, &d.diags), LUO_OK);
    ck_assert_str_eq(made(&d, "gantt.csv"),
                     "0,dev 3,5,io,,110.000000000,111.000000000,0.500000\n"
                     "0,dev 3,5,io,,111.000000000,113.000000000,0.750000\n"
                     "0,dev 3,5,io,,113.000000000,1600.000000000,1.000000\n"
                     "1,p0 s0 (dev 0),0,forward,0,100.000000000,400.000000000,1.000000\n"
                     "1,p0 s0 (dev 0),0,backward,0,400.000000000,700.000000000,1.000000\n"
                     "1,p0 s0 (dev 0),0,recompute,1,700.000000000,1000.000000000,1.000000\n"
                     "1,p0 s0 (dev 0),0,backward-weight,1,1000.000000000,1200.000000000,1.000000\n"
                     "1,p0 s0 (dev 0),0,other,,1200.000000000,1600.000000000,1.000000\n"
                     "1,p0 s0 (dev 0),1,tp,0,390.000000000,391.000000000,0.500000\n"
                     "1,p0 s0 (dev 0),1,tp,0,391.000000000,393.000000000,0.750000\n"
                     "1,p0 s0 (dev 0),1,tp,0,393.000000000,407.000000000,1.000000\n"
                     "1,p0 s0 (dev 0),1,tp,0,407.000000000,409.000000000,0.750000\n"
                     "1,p0 s0 (dev 0),1,tp,0,409.000000000,410.000000000,0.500000\n"
                     "2,p0 s1 (dev 2),0,forward,3,100.000000000,800.000000000,1.000000\n"
                     "2,p0 s1 (dev 2),0,forward,4,800.000000000,1600.000000000,1.000000\n"
                     "2,p0 s1 (dev 2),2,pp,7,200.000000000,201.000000000,0.250000\n"
                     "2,p0 s1 (dev 2),2,pp,7,202.000000000,209.000000000,0.500000\n"
                     "2,p0 s1 (dev 2),2,pp,7,210.000000000,211.000000000,0.250000\n");
    ck_assert_int_eq(rows, 18);
    close_desk(&d);
}
END_TEST

/* A step by its number, or the first of a plan; the second attempt of a step is a step of its own,
 * here of another plan. Rows name nodes where the run knows them. */
START_TEST(gantt_of_a_step)
{
    desk d = open_desk("gantt_step");
    const luo_result run = {.dir = d.dir, .name = "a"};
    int64_t rows = -1;
    put(&d, "ops.csv",
        "step,attempt,device,stream,phase,op,pipeline,stage,micro_batch,t_start_s,t_end_s\n"
        "4,0,0,compute,BI,a,0,0,0,0,15\n5,0,0,compute,F,b,0,0,0,15,30\n"
        "5,1,0,compute,BW,c,0,0,0,30,45\n7,0,0,compute,F,d,0,0,0,45,60\n");
    put(&d, "steps.csv",
        "step,attempt,plan\n4,0,0\n5,0,0\n5,1,1\n6,0,1\n7,0,1\n8,0,2\n");
    put(&d, "memory.csv", "plan,device,node\n0,0,\"a,1\"\n");
    static const struct {
        int64_t step, plan;
        const char *want; /* kind and begin; "": none */
    } cases[] = {{-1, -1, "backward-input,0,0.0"}, {5, -1, "forward,0,15.0"},
                 {-1, 1, "backward-weight,0,30.0"}, {5, 1, "backward-weight,0,30.0"},
                 {7, 1, "forward,0,45.0"},          {-1, 0, "backward-input,0,0.0"},
                 {6, -1, ""},                       {-1, 2, ""},
                 {4, 1, ""}};
    for (int i = 0; i < LUO_ROWS(cases); i++) {
        luo_diags_init(&d.diags, d.f->arena);
        ck_assert_int_eq(luo_plotdata_gantt(d.f->arena, &run, cases[i].step, cases[i].plan, d.dir,
                                            &rows, &d.diags),
                         LUO_OK);
        ck_assert_int_eq(rows, cases[i].want[0] ? 1 : 0);
        if (cases[i].want[0]) {
            const char *want =
                luo_arena_printf(d.f->arena, "0,\"p0 s0 dev 0 a,1\",0,%s", cases[i].want);
            ck_assert_msg(strncmp(made(&d, "gantt.csv"), want, strlen(want)) == 0, "%s", want);
            continue;
        }
        ck_assert_str_eq(d.diags.first->err.text,
                         luo_arena_printf(d.f->arena, "`%s` holds no trace of such a step; traced "
                                          "are 4, 5, 7.", d.dir));
    }
    luo_diags_init(&d.diags, d.f->arena); /* what is left in it was expected */
    close_desk(&d);
}
END_TEST

LUO_SUITE("io.plotdata", LUO_T(steps), LUO_T(many_steps), LUO_T(lost), LUO_T(marks),
          LUO_T(own_marks),
          LUO_T(slowdown), LUO_T(lengths_of_classes), LUO_T(busiest), LUO_T(gantt),
          LUO_T(gantt_of_a_step))
