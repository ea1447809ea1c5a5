/* fuzz_plan_json.c: libFuzzer target of the plan reader, its checks and its writer: what
 * is written reads back with the same hash. */
#include "core/io/document/doc.h"
#include "core/io/read/read.h"
#include "core/io/write_plan.h"
#include "tests/fuzz/fuzz_io.h"

static void round_trip(luo_arena *arena, const luo_plan *p)
{
    luo_str text = {0};
    luo_plan *again = NULL, *copy = NULL;
    luo_plan_finding *findings;
    luo_diags diags;
    luo_err err;
    int32_t n;
    luo_plan_json(&text, p);
    const luo_source src = {"again", luo_str_get(&text), text.len};
    luo_diags_init(&diags, arena);
    luo_doc doc = {.arena = arena, .src = &src, .diags = &diags};
    want(luo_read_plan_doc(&doc, &again) == LUO_OK);
    want(luo_plan_hash(again) == luo_plan_hash(p));
    want(luo_plan_copy(arena, p, &copy, &err) == LUO_OK);
    want(luo_plan_hash(copy) == luo_plan_hash(p));
    want((luo_plan_check(arena, p, NULL, NULL, &findings, &n) == LUO_OK) == (n == 0));
    luo_doc_report_plan(&doc, findings, n, &diags);
    want(diags.n_errors == n);
    luo_str_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_plan *plan = NULL;
    luo_diags_init(&diags, arena);
    const luo_source src = fuzz_source(arena, data, size);
    const luo_status st = luo_read_plan_text(arena, &src, &plan, &diags);
    fuzz_judge(st, &diags);
    want((st == LUO_OK) == (plan != NULL));
    if (plan) round_trip(arena, plan);
    luo_arena_free(arena);
    return 0;
}
