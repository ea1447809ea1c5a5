/* check_kill.c: acceptance A15. A child writes a run; it is killed at 20 random moments;
 * every CSV must parse then and the manifest say `running`. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/rng.h"
#include "core/io/json_number.h"
#include "core/io/result/table.h"
#include "core/io/say.h"
#include "tests/check_main.h"
#include "tests/run_fixture.h"

enum { KILLS = 20, LONGEST_US = 60000 };

static int comments; /* rows cut by a kill */

/* Cells of one line; -1: a quote is left open or a cell is of the wrong kind. */
static int cells(const luo_table_def *def, const char *at, const char *end)
{
    int n = 0;
    for (;; at++) {
        const char *from = at;
        bool quoted = at < end && *at == '"';
        if (quoted) {
            for (at++; at < end && !(at[0] == '"' && at[1] != '"'); at++) at += at[0] == '"';
            if (at == end) return -1;
            at++;
        } else {
            while (at < end && *at != ',') at++;
        }
        if (at < end && *at != ',') return -1;
        const luo_cell_kind kind = n < def->n ? def->columns[n].kind : LUO_CELL_TEXT;
        const size_t len = (size_t)(at - from);
        if (kind != LUO_CELL_TEXT && len > 0 &&
            !luo_json_number_form(from, len, kind == LUO_CELL_INT))
            return -1;
        n++;
        if (at == end) return n;
    }
}

/* Rows of a file; every line is whole and has all its cells. */
static int64_t parse(const char *dir, const luo_table_def *def)
{
    char path[512];
    static char text[64 << 20];
    snprintf(path, sizeof path, "%s/%s", dir, def->file);
    FILE *f = fopen(path, "rb");
    if (!f) return -1; /* killed before it was made */
    const size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    ck_assert_uint_lt(n, sizeof text);
    if (n == 0) return -1; /* made, header not yet written */
    int64_t rows = -1;
    for (const char *at = text, *end; at < text + n; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + n - at));
        if (*at == '#') { /* a row that was not finished: a comment to any reader */
            comments++;
            if (!end) break;
            continue;
        }
        ck_assert_msg(end != NULL, "%s ends in the middle of a row", path);
        if (rows >= 0)
            ck_assert_msg(cells(def, at, end) == def->n, "%s, row %lld", path, (long long)rows);
        rows++;
    }
    return rows;
}

static void child(const fixture *f, const char *dir)
{
    const luo_rundir_opts opts = fix_opts(f);
    luo_rundir *r = NULL;
    if (luo_rundir_open(dir, &opts, &r, NULL) != LUO_OK) _exit(3);
    const luo_sink *k = luo_rundir_sink(r);
    if (k->plan(k->ctx, 0, &f->plan, &f->set, NULL) != LUO_OK) _exit(4);
    for (int64_t step = 0;; step++) {
        const luo_row_event e = {.t_s = 0.15 * (double)step,
                                 .id = "e",
                                 .phase = LUO_EVENT_PHASE_FIRED,
                                 .kind = "fail",
                                 .target = "device:1",
                                 .detail = "a, \"b\", c",
                                 .step = step};
        if (k->event(k->ctx, &e, NULL) != LUO_OK ||
            fix_step(k, f, step, 0.15 * (double)step, step % 2 == 0, NULL) != LUO_OK)
            _exit(5);
    }
}

START_TEST(killed)
{
    fixture *f = fix_new();
    luo_rng rng = luo_rng_stream(1, "kill");
    int64_t rows[LUO_RUN_TABLES] = {0};
    int running = 0;
    for (int k = 0; k < KILLS; k++) {
        const char *dir = fix_dir(f->arena, "kill");
        const pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) child(f, dir);
        usleep((useconds_t)luo_rng_pick(&rng, LONGEST_US));
        kill(pid, SIGKILL);
        int how;
        ck_assert_int_eq(waitpid(pid, &how, 0), pid);
        ck_assert_msg(WIFSIGNALED(how), "the child ended with %d", WEXITSTATUS(how));
        for (int i = 0; i < LUO_RUN_TABLES; i++) {
            const int64_t n = parse(dir, luo_table_def_at((luo_table_id)i));
            if (n > 0) rows[i] += n;
        }
        char path[512];
        snprintf(path, sizeof path, "%s/manifest.json", dir);
        json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
        if (j) {
            running++;
            ck_assert_str_eq(json_string_value(json_object_get(j, "state")), "running");
        }
        json_decref(j);
        fix_remove(f->arena, dir);
    }
    printf("steps %lld, ops %lld, %d manifests, %d rows cut\n", (long long)rows[LUO_TABLE_STEPS],
           (long long)rows[LUO_TABLE_OPS], running, comments);
    ck_assert_int_gt(rows[LUO_TABLE_STEPS], 100); /* kills did hit writing */
    ck_assert_int_gt(rows[LUO_TABLE_OPS], 1000);
    ck_assert_int_gt(running, KILLS / 2);
    luo_arena_free(f->arena);
}
END_TEST

LUO_MAIN("io.kill", killed, 1)
