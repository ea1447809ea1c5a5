/* check_lengths.c: draws, batches and histograms of sequence lengths. */
#include <math.h>

#include "core/plan/lengths/lengths.h"
#include "tests/check_main.h"

static luo_lengths preset(const char *name, int64_t ctx, luo_length_part *parts)
{
    luo_lengths lengths;
    ck_assert(luo_length_preset(name, ctx, parts, &lengths));
    return lengths;
}

/* ---- draws: vectors of a reference program, one off for another libm ---- */

static const struct {
    const char *name;
    uint64_t seed;
    int64_t length[8];
} firsts[] = {
    {"syn-web", 1, {615, 463, 919, 102, 500, 509, 1729, 456}},
    {"syn-web", 7, {1091, 255, 484, 4349, 614, 1964, 354, 631}},
    {"syn-code", 1, {1136, 821, 1799, 147, 896, 5625, 2741, 807}},
};

START_TEST(first_draws)
{
    luo_length_part parts[LUO_PRESET_PARTS];
    const luo_lengths lengths = preset(firsts[_i].name, 32768, parts);
    luo_length_source source = luo_length_source_open(firsts[_i].seed);
    for (int i = 0; i < 8; i++) {
        int64_t tokens;
        ck_assert_int_eq(luo_lengths_draw(&lengths, &source, &tokens, NULL), LUO_OK);
        ck_assert_int_le(llabs(tokens - firsts[_i].length[i]), 1);
    }
}
END_TEST

static const struct {
    const char *name;
    uint64_t seed;
    int32_t n;
    int64_t longest, last;
} batches[] = {{"syn-web", 1, 83, 13051, 1235}, {"syn-code", 3, 32, 21379, 7548}};

START_TEST(batch_of_100k)
{
    luo_arena *a = luo_arena_new(0);
    luo_length_part parts[LUO_PRESET_PARTS];
    const luo_lengths lengths = preset(batches[_i].name, 32768, parts);
    const luo_batch_rule rule = {.tokens = 100000, .most = 32768, .least = 32};
    luo_length_source source = luo_length_source_open(batches[_i].seed);
    int64_t *length, sum = 0, longest = 0;
    int32_t n;
    ck_assert_int_eq(luo_lengths_batch(a, &lengths, &rule, 1000, &source, &length, &n, NULL),
                     LUO_OK);
    for (int32_t i = 0; i < n; i++) {
        sum += length[i];
        longest = length[i] > longest ? length[i] : longest;
    }
    ck_assert_int_eq(n, batches[_i].n);
    ck_assert_int_eq(sum, 100000);
    ck_assert_int_le(llabs(longest - batches[_i].longest), 1);
    ck_assert_int_le(llabs(length[n - 1] - batches[_i].last), 80); /* one each, at most */
    luo_arena_free(a);
}
END_TEST

/* The presets are what docs say of them. */
static const struct {
    const char *name;
    double mean, median, p90, p99, below_8k, tokens_above;
} shapes[] = {{"syn-web", 1380, 629, 3098, 12573, 0.977, 0.22},
              {"syn-code", 3137, 1366, 8179, 24001, 0.900, 0.47}};

START_TEST(preset_shape)
{
    luo_arena *a = luo_arena_new(0);
    luo_length_part parts[LUO_PRESET_PARTS];
    const luo_lengths lengths = preset(shapes[_i].name, 32768, parts);
    luo_histogram h;
    double count = 0, below = 0, above = 0, median = 0, p90 = 0, p99 = 0;
    ck_assert(luo_lengths_synthetic(&lengths));
    ck_assert_int_eq(luo_lengths_histogram(a, &lengths, 5, 1e6, 32768, &h, NULL), LUO_OK);
    for (int32_t i = 0; i < h.n; i++) count += h.count[i];
    for (int32_t i = 0; i < h.n; i++) {
        if (below < 0.5 * count) median = (double)h.length[i];
        if (below < 0.9 * count) p90 = (double)h.length[i];
        if (below < 0.99 * count) p99 = (double)h.length[i];
        below += h.count[i];
        if (h.length[i] >= 8192) above += h.count[i] * (double)h.length[i];
    }
    ck_assert_double_eq_tol(1e6 / count, shapes[_i].mean, 0.02 * shapes[_i].mean);
    ck_assert_double_eq_tol(median, shapes[_i].median, 0.02 * shapes[_i].median);
    ck_assert_double_eq_tol(p90, shapes[_i].p90, 0.03 * shapes[_i].p90);
    ck_assert_double_eq_tol(p99, shapes[_i].p99, 0.05 * shapes[_i].p99);
    ck_assert_double_eq_tol(above / 1e6, shapes[_i].tokens_above, 0.01);
    ck_assert_double_eq_tol(h.tokens, 1e6, 1e-3);
    luo_arena_free(a);
}
END_TEST

/* ---- the other kinds ---- */

START_TEST(kinds_stay_within)
{
    static const luo_length_row rows[] = {{10, 20, 1}, {20, 30, 0}, {30, 31, 3}};
    const luo_lengths uniform = {.kind = LUO_LENGTH_UNIFORM, .low = 3, .high = 5};
    const luo_lengths table = {.kind = LUO_LENGTH_HISTOGRAM, .nrows = 3, .rows = rows};
    luo_length_source source = luo_length_source_open(1);
    int64_t tokens, met[6] = {0}, thirties = 0;
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(luo_lengths_draw(&uniform, &source, &tokens, NULL), LUO_OK);
        ck_assert(tokens >= 3 && tokens <= 5);
        met[tokens]++;
        ck_assert_int_eq(luo_lengths_draw(&table, &source, &tokens, NULL), LUO_OK);
        ck_assert((tokens >= 10 && tokens < 20) || tokens == 30);
        thirties += tokens == 30;
    }
    for (int k = 3; k <= 5; k++) ck_assert_int_gt(met[k], 250);
    ck_assert(thirties > 700 && thirties < 800);
    ck_assert(!luo_lengths_synthetic(&table));
}
END_TEST

START_TEST(file_is_repeated)
{
    static const int64_t given[] = {5, 7};
    luo_lengths lengths = {.kind = LUO_LENGTH_FILE, .ngiven = 2, .given = given, .repeat = 2};
    luo_length_source source = luo_length_source_open(1);
    luo_err err = {0};
    int64_t tokens;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(luo_lengths_draw(&lengths, &source, &tokens, &err), LUO_OK);
        ck_assert_int_eq(tokens, given[i % 2]);
    }
    ck_assert_int_eq(luo_lengths_draw(&lengths, &source, &tokens, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "the file of lengths is at its end after 4 sequences; `repeat` says "
                               "how often it is read.");
    lengths.repeat = 0;
    ck_assert_int_eq(luo_lengths_draw(&lengths, &source, &tokens, &err), LUO_OK);
}
END_TEST

/* Every file of a mixture is taken in its own order, and ends when it is at its own end. */
START_TEST(files_of_a_mixture)
{
    static const int64_t a[] = {1, 2, 3}, b[] = {10, 20, 30, 40};
    const luo_length_part parts[] = {
        {2, {.kind = LUO_LENGTH_FILE, .ngiven = 3, .given = a}},
        {1, {.kind = LUO_LENGTH_FIXED, .tokens = 7}},
        {1, {.kind = LUO_LENGTH_FILE, .ngiven = 4, .given = b, .repeat = 2}}};
    const luo_lengths lengths = {.kind = LUO_LENGTH_MIXTURE, .nparts = 3, .parts = parts};
    luo_length_source source = luo_length_source_open(5);
    int64_t tokens;
    int na = 0, nb = 0, n = 0;
    luo_err err = {0};
    while (luo_lengths_draw(&lengths, &source, &tokens, &err) == LUO_OK) {
        ck_assert_int_lt(n++, 1000);
        if (tokens == 7) continue;
        if (tokens < 7)
            ck_assert_int_eq(tokens, a[na++ % 3]);
        else
            ck_assert_int_eq(tokens, b[nb++ % 4]);
    }
    ck_assert_int_eq(nb, 8);
    ck_assert_int_gt(na, 5);
    ck_assert_ptr_nonnull(strstr(err.text, "at its end after 8 sequences"));
}
END_TEST

START_TEST(never_within)
{
    const luo_lengths lengths = {
        .kind = LUO_LENGTH_LOGNORMAL, .median = 1e6, .sigma = 0.01, .low = 1, .high = 10};
    luo_length_source source = luo_length_source_open(1);
    luo_err err = {0};
    int64_t tokens;
    ck_assert_int_eq(luo_lengths_draw(&lengths, &source, &tokens, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "lengths with median 1e+06 and sigma 0.01 never fall within 1 and "
                               "10 tokens; wider bounds are needed.");
}
END_TEST

/* ---- batches ---- */

static const int64_t docs[] = {40, 100, 30, 10, 70};
static const struct {
    luo_batch_rule rule;
    int32_t n[2];
    int64_t length[2][8]; /* of two batches in a row */
} rules[] = {
    {{.sequences = 3}, {3, 3}, {{40, 100, 30}, {10, 70, 40}}},
    {{.sequences = 3, .most = 50}, {3, 3}, {{40, 50, 30}, {10, 50, 40}}},
    {{.sequences = 4, .most = 50, .splits = true}, {4, 4}, {{40, 50, 50, 30}, {10, 50, 20, 40}}},
    {{.tokens = 150}, {3, 4}, {{40, 100, 10}, {10, 70, 40, 30}}},
    {{.tokens = 150, .least = 20}, {2, 4}, {{40, 100}, {10, 70, 40, 30}}},
    {{.tokens = 150, .keeps_last = true}, {2, 4}, {{40, 100}, {30, 10, 70, 40}}},
    {{.tokens = 110, .most = 60, .splits = true, .keeps_last = true},
     {2, 3},
     {{40, 60}, {40, 30, 10}}},
};

START_TEST(batch_rule)
{
    const luo_lengths lengths = {.kind = LUO_LENGTH_FILE, .ngiven = 5, .given = docs};
    luo_arena *a = luo_arena_new(0);
    luo_length_source source = luo_length_source_open(1);
    for (int b = 0; b < 2; b++) {
        int64_t *length;
        int32_t n;
        ck_assert_int_eq(
            luo_lengths_batch(a, &lengths, &rules[_i].rule, 100, &source, &length, &n, NULL),
            LUO_OK);
        ck_assert_int_eq(n, rules[_i].n[b]);
        for (int32_t i = 0; i < n; i++) ck_assert_int_eq(length[i], rules[_i].length[b][i]);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(batch_has_a_limit)
{
    const luo_lengths lengths = {.kind = LUO_LENGTH_FIXED, .tokens = 1};
    const luo_batch_rule rule = {.tokens = 100};
    luo_arena *a = luo_arena_new(0);
    luo_length_source source = luo_length_source_open(1);
    luo_err err = {0};
    int64_t *length;
    int32_t n;
    ck_assert_int_eq(luo_lengths_batch(a, &lengths, &rule, 99, &source, &length, &n, &err),
                     LUO_E2BIG);
    ck_assert_str_eq(err.text, "a batch has more than 99 sequences; fewer tokens a step or a "
                               "higher limit are needed.");
    luo_arena_free(a);
}
END_TEST

START_TEST(histogram_of_rows)
{
    static const luo_length_row rows[] = {{10, 20, 2}, {20, 23, 0}, {30, 31, 4}, {90, 95, 1}};
    const luo_lengths lengths = {.kind = LUO_LENGTH_HISTOGRAM, .nrows = 4, .rows = rows};
    luo_arena *a = luo_arena_new(0);
    luo_histogram h;
    ck_assert_int_eq(luo_lengths_histogram(a, &lengths, 1, 400, 50, &h, NULL), LUO_OK);
    ck_assert_int_eq(h.n, 3); /* 2 of 15, 4 of 30, 1 of 50: 200 tokens, times two */
    const int64_t length[] = {15, 30, 50};
    const double count[] = {4, 8, 2};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(h.length[i], length[i]);
        ck_assert_double_eq_tol(h.count[i], count[i], 1e-12);
    }
    luo_arena_free(a);
}
END_TEST

/* ---- longer than the context ---- */

START_TEST(beyond_of_file)
{
    static const int64_t given[] = {5, 100, 101, 250, 1};
    const luo_lengths lengths = {.kind = LUO_LENGTH_FILE, .ngiven = 5, .given = given};
    const luo_length_beyond b = luo_lengths_beyond(&lengths, 100);
    ck_assert(b.sequences == 5 && b.longer == 2 && b.tokens == 457 && b.over == 151);
    ck_assert_int_eq(b.longest, 250);
}
END_TEST

/* Rows against one sequence of each of their lengths. */
START_TEST(beyond_of_rows)
{
    static const luo_length_row rows[] = {{1, 4, 3}, {8, 12, 4}, {20, 21, 0}, {1, 1, 2}};
    static const int64_t each[] = {1, 2, 3, 8, 9, 10, 11, 1, 1};
    const luo_lengths in_rows = {.kind = LUO_LENGTH_HISTOGRAM, .nrows = 4, .rows = rows};
    const luo_lengths alone = {.kind = LUO_LENGTH_FILE, .ngiven = 9, .given = each};
    for (int64_t ctx = 1; ctx <= 13; ctx++) {
        const luo_length_beyond a = luo_lengths_beyond(&in_rows, ctx);
        const luo_length_beyond b = luo_lengths_beyond(&alone, ctx);
        ck_assert(a.sequences == b.sequences && a.longer == b.longer && a.longest == b.longest);
        ck_assert(fabs(a.tokens - b.tokens) < 1e-9 && fabs(a.over - b.over) < 1e-9);
    }
}
END_TEST

START_TEST(beyond_of_formula)
{
    luo_length_part parts[LUO_PRESET_PARTS];
    const luo_lengths lengths = preset("syn-web", 4096, parts);
    const luo_length_beyond b = luo_lengths_beyond(&lengths, 4096);
    ck_assert(b.sequences == 0 && b.longer == 0 && b.over == 0);
}
END_TEST

/* What is split before gives the batches that are split as they are drawn. */
START_TEST(split_is_the_rule)
{
    static const int64_t given[] = {7, 30, 1, 10, 11, 45};
    static const int64_t want[] = {7, 10, 10, 10, 1, 10, 10, 1, 10, 10, 10, 10, 5};
    luo_arena *a = luo_arena_new(0);
    const luo_lengths lengths = {.kind = LUO_LENGTH_FILE, .ngiven = 6, .given = given};
    luo_lengths pieces;
    luo_err err;
    ck_assert_int_eq(luo_lengths_split(a, &lengths, 10, 13, &pieces, &err), LUO_OK);
    ck_assert_int_eq(pieces.ngiven, LUO_ROWS(want));
    for (int i = 0; i < LUO_ROWS(want); i++) ck_assert_int_eq(pieces.given[i], want[i]);
    ck_assert_int_eq(luo_lengths_split(a, &lengths, 10, 12, &pieces, &err), LUO_E2BIG);
    ck_assert_str_eq(err.text, "lengths split at 10 tokens are more than 12; a longer context, or "
                               "lengths that are cut, are expected.");
    ck_assert_int_eq(luo_lengths_split(a, &lengths, 45, 6, &pieces, &err), LUO_OK);
    ck_assert_ptr_eq(pieces.given, given);
    ck_assert_int_eq(luo_lengths_split(a, &lengths, 10, 13, &pieces, &err), LUO_OK);
    const luo_batch_rule rule = {.tokens = 64, .most = 10, .splits = true};
    luo_length_source one = luo_length_source_open(1), two = luo_length_source_open(1);
    for (int step = 0; step < 20; step++) {
        int64_t *x, *y;
        int32_t n, m;
        ck_assert_int_eq(luo_lengths_batch(a, &lengths, &rule, 100, &one, &x, &n, &err), LUO_OK);
        ck_assert_int_eq(luo_lengths_batch(a, &pieces, &rule, 100, &two, &y, &m, &err), LUO_OK);
        ck_assert_int_eq(n, m);
        for (int32_t i = 0; i < n; i++) ck_assert_int_eq(x[i], y[i]);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(words)
{
    luo_length_part parts[LUO_PRESET_PARTS];
    luo_lengths lengths;
    ck_assert_str_eq(luo_length_kind_name(LUO_LENGTH_MIXTURE), "mixture");
    ck_assert_str_eq(luo_length_kind_name(LUO_LENGTH_KINDS), "?");
    ck_assert_str_eq(luo_length_preset_name(1), "syn-code");
    ck_assert(!luo_length_preset("syn", 4096, parts, &lengths));
}
END_TEST

LUO_SUITE("lengths", LUO_T_N(first_draws, LUO_ROWS(firsts)),
          LUO_T_N(batch_of_100k, LUO_ROWS(batches)), LUO_T_N(preset_shape, LUO_ROWS(shapes)),
          LUO_T(kinds_stay_within), LUO_T(file_is_repeated), LUO_T(files_of_a_mixture),
          LUO_T(never_within), LUO_T_N(batch_rule, LUO_ROWS(rules)), LUO_T(batch_has_a_limit),
          LUO_T(histogram_of_rows), LUO_T(beyond_of_file), LUO_T(beyond_of_rows),
          LUO_T(beyond_of_formula), LUO_T(split_is_the_rule), LUO_T(words))
