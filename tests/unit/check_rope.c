/* check_rope.c: frequencies of scaled rotary positions against values that are worked out by hand,
 * and against a second way of writing each rule. */
#include <math.h>

#include "core/graph/rope.h"
#include "tests/check_main.h"

#define PI 3.14159265358979323846
enum { PAIRS = 64 };

static luo_model model_of(luo_rope_kind kind)
{
    return (luo_model){.head_dim = 2 * PAIRS, .rope_base = 500000,
                       .rope = {.kind = kind, .factor = 8, .original_tokens = 8192, .low_freq = 1,
                                .high_freq = 4, .beta_fast = 32, .beta_slow = 1}};
}

static double plain(const luo_model *m, int i)
{
    return 1 / pow(m->rope_base, 2.0 * i / (2 * PAIRS));
}

/* By wavelengths, as the code of Llama 3.1 says it. */
static double llama3(const luo_model *m, int i)
{
    const double f = plain(m, i), wave = 2 * PI / f, old = 8192;
    if (wave < old / 4) return f;
    if (wave > old / 1) return f / 8;
    const double smooth = (old / wave - 1) / (4 - 1);
    return (1 - smooth) * f / 8 + smooth * f;
}

/* Pairs with 32 rounds and with one in 8,192 tokens: 128 ln(8192 / (2 pi 32)) / (2 ln 500000) =
 * 18.08 and 34.98; between 18 and 35 evenly more is divided. */
static double yarn(const luo_model *m, int i)
{
    const double share = i <= 18 ? 0 : i >= 35 ? 1 : (i - 18) / 17.0;
    return plain(m, i) / 8 * share + plain(m, i) * (1 - share);
}

START_TEST(kinds)
{
    double at[PAIRS];
    for (int kind = LUO_ROPE_PLAIN; kind <= LUO_ROPE_YARN; kind++) {
        const luo_model m = model_of((luo_rope_kind)kind);
        ck_assert_int_eq(luo_rope_pairs(&m), PAIRS);
        const luo_turns by = luo_rope_turns(&m, 0, 0, at);
        const bool of_base = kind == LUO_ROPE_PLAIN || kind == LUO_ROPE_DYNAMIC;
        ck_assert(by.base == 500000 && by.turned == 2 * PAIRS);
        ck_assert_ptr_eq(by.frequency, of_base ? NULL : at);
        for (int i = 0; i < PAIRS && !of_base; i++) {
            const double want = kind == LUO_ROPE_LINEAR   ? plain(&m, i) / 8
                                : kind == LUO_ROPE_LLAMA3 ? llama3(&m, i)
                                : kind == LUO_ROPE_YARN   ? yarn(&m, i)
                                                          : plain(&m, i);
            ck_assert_msg(fabs(at[i] - want) <= 1e-13 * want, "%d, pair %d: %.17g, not %.17g", kind,
                          i, at[i], want);
        }
        ck_assert(fabs(by.factor - (kind == LUO_ROPE_YARN ? 1.2079441541679836 : 1)) < 1e-15);
    }
}
END_TEST

/* Latent attention turns a part of a head; a factor that is given is taken. */
START_TEST(of_latent_attention)
{
    luo_model m = model_of(LUO_ROPE_LINEAR);
    double at[2];
    m.latent = (luo_latent){0, 8, 4, 4, 5};
    m.rope_base = 100;
    ck_assert_int_eq(luo_rope_pairs(&m), 2);
    ck_assert_ptr_eq(luo_rope_turns(&m, 0, 0, at).frequency, at);
    ck_assert(fabs(at[0] - 0.125) < 1e-15 && fabs(at[1] - 0.0125) < 1e-15);
    m.rope.kind = LUO_ROPE_YARN;
    m.rope.attention_factor = 1.5;
    ck_assert(luo_rope_turns(&m, 0, 0, at).factor == 1.5);
}
END_TEST

/* Layers with a window have the other base, as it is; those without are scaled. */
START_TEST(of_windows)
{
    luo_model m = model_of(LUO_ROPE_YARN);
    double at[PAIRS];
    m.window = (luo_window){1024, 0, 6, 5};
    for (int64_t layer = 0; layer < 12; layer++) {
        const bool global = layer % 6 == 5;
        m.rope_local_base = 10000;
        const luo_turns two = luo_rope_turns(&m, layer, 0, at);
        ck_assert(two.base == (global ? 500000 : 10000) && (two.factor > 1) == global);
        ck_assert_ptr_eq(two.frequency, global ? at : NULL);
        m.rope_local_base = 0;
        ck_assert_ptr_eq(luo_rope_turns(&m, layer, 0, at).frequency, at);
    }
}
END_TEST

/* Each pair by its own factor; which list, by the length of the sequences. sqrt(1 + ln 32 /
 * ln 4096) is 1.1902380714238083. */
START_TEST(of_long_sequences)
{
    static const double brief[2] = {1, 1.25}, far[2] = {1.5, 40};
    luo_model m = model_of(LUO_ROPE_LONGROPE);
    double at[2];
    m.head_dim = 4;
    m.rope_base = 10000;
    m.rope.factor = 32;
    m.rope.original_tokens = 4096;
    m.rope.short_factors = (luo_rope_factors){2, brief};
    m.rope.long_factors = (luo_rope_factors){2, far};
    for (int i = 0; i < 2; i++) {
        const luo_turns by = luo_rope_turns(&m, 0, i ? 4097 : 4096, at);
        const double *f = i ? far : brief;
        ck_assert_ptr_eq(by.frequency, at);
        ck_assert(fabs(by.factor - 1.1902380714238083) < 1e-15);
        ck_assert(fabs(at[0] - 1 / f[0]) < 1e-16 && fabs(at[1] - 0.01 / f[1]) < 1e-17);
    }
    m.rope.factor = 1;
    ck_assert(luo_rope_turns(&m, 0, 1, at).factor == 1);
    m.rope.attention_factor = 1.3;
    ck_assert(luo_rope_turns(&m, 0, 1, at).factor == 1.3);
}
END_TEST

LUO_SUITE("graph.rope", LUO_T(kinds), LUO_T(of_latent_attention), LUO_T(of_windows),
          LUO_T(of_long_sequences))
