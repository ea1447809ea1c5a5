/* bench_io.c: the readers against docs/speed.md: a table of 1,000,000 rows in a
 * second, a plan of 16,384 devices read, checked and hashed in 0.3 s, a small file in 20 ms. */
#include <string.h>

#include "core/io/io.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"
#include "tests/bench/bench.h"

static void fail_on(luo_status st, const luo_diags *d)
{
    if (st != LUO_OK) luo_bench_fail("%s", d->first ? d->first->err.text : luo_status_name(st));
}

/* pipelines x 8 stages x 8 devices, 4 layers a stage. */
static void write_plan(luo_str *s, int pipelines)
{
    luo_str_addf(s, "{\"schema\":\"luoshu.plan/1\",\"layers\":32,\"devices\":%d,"
                    "\"sequence_tokens\":4096,\"pipelines\":[", pipelines * 64);
    for (int i = 0; i < pipelines; i++) {
        luo_str_addf(s, "%s{\"micro_batches\":8,\"stages\":[", i ? "," : "");
        for (int k = 0; k < 8; k++) {
            luo_str_addf(s, "%s{\"layers\":[[%d,%d]],\"devices\":[", k ? "," : "", 4 * k,
                         4 * k + 4);
            for (int d = 0; d < 8; d++)
                luo_str_addf(s, "%s%d", d ? "," : "", i * 64 + k * 8 + d);
            luo_str_add(s, "]}");
        }
        luo_str_add(s, "]}");
    }
    luo_str_add(s, "]}");
}

static double time_plan(const luo_source *src)
{
    const double t = luo_bench_now();
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_plan *p;
    luo_plan_finding *f;
    int32_t n;
    luo_diags_init(&diags, arena);
    fail_on(luo_read_plan_text(arena, src, &p, &diags), &diags);
    fail_on(luo_plan_check(arena, p, NULL, NULL, &f, &n), &diags);
    if (luo_plan_hash(p) == 0) luo_bench_fail("no hash");
    luo_arena_free(arena);
    return luo_bench_now() - t;
}

static double time_table(const luo_source *src, int rows)
{
    const double t = luo_bench_now();
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_csv_cell c[LUO_CSV_COLUMNS];
    luo_diags_init(&diags, arena);
    luo_csv *table =
        luo_csv_open(src, luo_input_table_op_times.columns, luo_input_table_op_times.n, &diags);
    int n = 0;
    while (luo_csv_next(table, c)) n++;
    fail_on(luo_csv_close(table), &diags);
    if (n != rows) luo_bench_fail("%d rows of %d", n, rows);
    luo_arena_free(arena);
    return luo_bench_now() - t;
}

static double time_check(const char *path)
{
    const double t = luo_bench_now();
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_file_kind k;
    luo_diags_init(&diags, arena);
    fail_on(luo_file_kind_of(path, &k, &diags), &diags);
    fail_on(luo_file_check(arena, path, k, &diags), &diags);
    luo_arena_free(arena);
    return luo_bench_now() - t;
}

int main(void)
{
    enum { RUNS = 5, ROWS = 500000 };
    double plan[RUNS], table[RUNS], small[RUNS];
    luo_str p = {0}, t = {0};
    write_plan(&p, 256);
    luo_str_add(&t, "op,dtype,m,n,k,time_us,samples,role\n");
    for (int i = 0; i < ROWS; i++)
        luo_str_addf(&t, "matmul,bf16,%d,4096,1024,%d.%03d,10,calibration\n", i, i % 977, i % 1000);
    const luo_source ps = {"p.json", p.at, p.len}, ts = {"t.csv", t.at, t.len};
    for (int i = 0; i < RUNS; i++) {
        plan[i] = time_plan(&ps);
        table[i] = time_table(&ts, ROWS);
        small[i] = time_check("tests/golden/inputs/demo-day.yaml");
    }
    printf("io.plan_16384_devices %.4f s (want 0.3)\n", luo_bench_median(plan, RUNS));
    printf("io.csv_rows %.0f rows/s (want 1000000)\n", ROWS / luo_bench_median(table, RUNS));
    printf("io.check_scenario %.2f ms (want 20)\n", 1e3 * luo_bench_median(small, RUNS));
    luo_str_free(&p);
    luo_str_free(&t);
    return 0;
}
