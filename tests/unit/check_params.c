/* check_params.c: rates and params of planners: good files, both notations, and what is
 * not given. Bad ones: tests/golden/bad/params and csv. */
#include <math.h>

#include "core/io/read/read.h"
#include "tests/cluster_fixture.h"

static luo_malleus_params read_params(luo_arena *a, const char *name, const char *text)
{
    const luo_source src = {name, text, strlen(text)};
    luo_params p = {0};
    luo_diags diags;
    luo_diags_init(&diags, a);
    ck_assert_msg(luo_read_params_text(a, &src, &p, &diags) == LUO_OK, "%s: %s", name,
                  diags.first ? diags.first->err.text : "?");
    return p.malleus;
}

static void same_list(int32_t n, const double *a, int32_t m, const double *b)
{
    ck_assert_int_eq(n, m);
    for (int32_t i = 0; i < n; i++) ck_assert_double_eq(a[i], b[i]);
}

START_TEST(yaml_and_json_say_the_same)
{
    luo_arena *a = luo_arena_new(0);
    const luo_malleus_params y = read_params(
        a, "p.yaml", "schema: luoshu.params/1\nalpha: [1, 1.9, 3.66, 7.22]\ntau_ms: 12.5\n"
                     "k_mib: [2895, 2685.5]\nemb_mib: 600\nextra_mib: 4700\nbound_mib: 81252\n"
                     "gap_mib: 0\ncontext_mib: 3000\nzero_replicas: 1\n");
    const luo_malleus_params j = read_params(
        a, "p.json", "{\"schema\": \"luoshu.params/1\", \"alpha\": [1, 1.9, 3.66, 7.22], "
                     "\"tau_ms\": 12.5, \"k_mib\": [2895, 2685.5], \"emb_mib\": 600, "
                     "\"extra_mib\": 4700, \"bound_mib\": 81252, \"gap_mib\": 0, "
                     "\"context_mib\": 3000, \"zero_replicas\": 1}");
    same_list(y.nalpha, y.alpha, j.nalpha, j.alpha);
    same_list(y.nk, y.k_mib, j.nk, j.k_mib);
    ck_assert_int_eq(y.nalpha, 4);
    ck_assert_int_eq(y.nk, 2);
    ck_assert_double_eq(y.alpha[2], 3.66);
    ck_assert_double_eq(y.tau_s, 0.0125);
    ck_assert_double_eq(j.tau_s, 0.0125);
    const double ys[] = {y.emb_mib, y.extra_mib, y.bound_mib, y.gap_mib, y.context_mib};
    const double js[] = {j.emb_mib, j.extra_mib, j.bound_mib, j.gap_mib, j.context_mib};
    const double want[] = {600, 4700, 81252, 0, 3000};
    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq(ys[i], want[i]);
        ck_assert_double_eq(js[i], want[i]);
    }
    ck_assert(y.zero_replicas == 1 && j.zero_replicas == 1);
    luo_arena_free(a);
}
END_TEST

/* Nothing given: a gap of 0 can be said, so that one is negative; the others are 0. */
START_TEST(all_keys_are_optional)
{
    static const char *const texts[] = {"schema: luoshu.params/1\n",
                                        "{\"schema\": \"luoshu.params/1\"}"};
    luo_arena *a = luo_arena_new(0);
    const luo_malleus_params p = read_params(a, _i ? "p.json" : "p.yaml", texts[_i]);
    ck_assert(p.nalpha == 0 && p.nk == 0 && p.zero_replicas == 0);
    ck_assert(p.tau_s <= 0 && p.emb_mib <= 0 && p.extra_mib <= 0 && p.bound_mib <= 0);
    ck_assert(p.gap_mib < 0 && p.context_mib <= 0);
    luo_arena_free(a);
}
END_TEST

START_TEST(rates_as_given)
{
    static const char text[] = "# who is slow\nrate,state,device\n2.57,,3\ninf,,5\n1.5,failed,6\n"
                               "1.1,standby,0\n1,joining,7\n";
    static const luo_rate_row want[] = {
        {3, 2.57, 0, LUO_RATE_USED, 3},           {5, (double)INFINITY, 0, LUO_RATE_FAILED, 4},
        {6, (double)INFINITY, 0, LUO_RATE_FAILED, 5}, {0, 1.1, 0, LUO_RATE_STANDBY, 6},
        {7, 1, 0, LUO_RATE_JOINING, 7}};
    luo_arena *a = luo_arena_new(0);
    const luo_source src = {"r.csv", text, sizeof text - 1};
    luo_rate_row *rows = NULL;
    luo_diags diags;
    int32_t n = 0;
    luo_diags_init(&diags, a);
    ck_assert_int_eq(luo_read_rates_text(a, &src, fixture_cluster(a, 1, 2, 4), &rows, &n, &diags),
                     LUO_OK);
    ck_assert_int_eq(n, LUO_ROWS(want));
    for (int32_t i = 0; i < n; i++) {
        ck_assert_int_eq(rows[i].device, want[i].device);
        ck_assert_int_eq(rows[i].state, want[i].state);
        ck_assert_int_eq(rows[i].line, want[i].line);
        ck_assert(rows[i].rate == want[i].rate || (isinf(rows[i].rate) && isinf(want[i].rate)));
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(rates_over_time)
{
    static const char text[] = "device,rate,t_s\n3,2,\n4,2,5\n3,1.5,10\n3,inf,20.5\n";
    luo_arena *a = luo_arena_new(0);
    const luo_source src = {"r.csv", text, sizeof text - 1};
    luo_rate_row *rows = NULL;
    luo_diags diags;
    int32_t n = 0;
    luo_diags_init(&diags, a);
    ck_assert_int_eq(luo_read_rates_text(a, &src, NULL, &rows, &n, &diags), LUO_OK);
    ck_assert_int_eq(n, 4);
    ck_assert_double_eq(rows[0].t_s, 0);
    ck_assert_double_eq(rows[3].t_s, 20.5);
    ck_assert_int_eq(rows[3].state, LUO_RATE_FAILED);
    luo_arena_free(a);
}
END_TEST

/* Speeds that are given, free, and not there; a form of a collective that is not there. */
START_TEST(of_hap)
{
    luo_arena *a = luo_arena_new(0);
    luo_diags diags;
    luo_params p = {0};
    const char *text =
        "{\"schema\": \"luoshu.params/1\", \"hap\": {\"types\": [{\"profile\": \"v100\", "
        "\"gemm_tflop_per_s\": 2.5, \"elt_gbytes_per_s\": null}, {\"profile\": \"a100\", "
        "\"gemm_tflop_per_s\": 5, \"conv_tflop_per_s\": 3, \"attn_tflop_per_s\": 2, "
        "\"elt_gbytes_per_s\": 7}], \"collectives\": {"
        "\"allgather\": {\"latency_s\": 0.5, \"bandwidth_gbytes_per_s\": 9}, "
        "\"reducescatter\": {\"bandwidth_gbytes_per_s\": 8}, "
        "\"allreduce\": {\"bandwidth_gbytes_per_s\": 7}, "
        "\"alltoall\": {\"bandwidth_gbytes_per_s\": 6}, "
        "\"p2p\": {\"bandwidth_gbytes_per_s\": 5}}}}";
    const luo_source src = {"p.json", text, strlen(text)};
    luo_diags_init(&diags, a);
    ck_assert_int_eq(luo_read_params_text(a, &src, &p, &diags), LUO_OK);
    ck_assert_int_eq(p.hap.ntypes, 2);
    ck_assert_str_eq(p.hap.type[0].profile, "v100");
    ck_assert_double_eq(p.hap.type[0].speed[LUO_HAP_ON_GEMM], 2.5e12);
    ck_assert(isnan(p.hap.type[0].speed[LUO_HAP_ON_CONV]));
    ck_assert(isnan(p.hap.type[0].speed[LUO_HAP_ON_ATTN]));
    ck_assert_double_eq(p.hap.type[1].speed[LUO_HAP_ON_GEMM], 5e12);
    ck_assert_double_eq(p.hap.type[1].speed[LUO_HAP_ON_CONV], 3e12);
    ck_assert_double_eq(p.hap.type[1].speed[LUO_HAP_ON_ATTN], 2e12);
    ck_assert_double_eq(p.hap.type[1].speed[LUO_HAP_ON_ELT], 7e9);
    ck_assert(isinf(p.hap.type[0].speed[LUO_HAP_ON_ELT]));
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_AG].latency_s, 0.5);
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_AG].bandwidth_bytes_s, 9e9);
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_AG_GROUPED].bandwidth_bytes_s, 0);
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_RS_GROUPED].bandwidth_bytes_s, 0);
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_RS].bandwidth_bytes_s, 8e9);
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_AR].bandwidth_bytes_s, 7e9);
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_A2A].bandwidth_bytes_s, 6e9);
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_P2P].bandwidth_bytes_s, 5e9);
    ck_assert_double_eq(p.hap.line[LUO_HAP_LINK_P2P].latency_s, 0);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("io.params", LUO_T(yaml_and_json_say_the_same), LUO_T(of_hap),
          LUO_T_N(all_keys_are_optional, 2), LUO_T(rates_as_given), LUO_T(rates_over_time))
