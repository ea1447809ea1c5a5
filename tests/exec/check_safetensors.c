/* check_safetensors.c: the file format: golden bytes, broken files, numbers, and Hugging
 * Face files as others write them. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "tests/exec/state_make.h"
#include "tests/prop/prop.h"

static char path[64];
static const luo_share alone = {.rank = 0, .ranks = 1};

static const char *put_file(const void *bytes, size_t n)
{
    snprintf(path, sizeof path, "build/check_safetensors.%ld", (long)getpid());
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    return path;
}

/* ---- golden bytes ---- */

static const char golden[] = "\xc0\0\0\0\0\0\0\0"
                             "{\"__metadata__\":{\"format\":\"pt\",\"crc32:a\":\"c3872656\","
                             "\"crc32:b\\\"\":\"8d3a01b8\"},"
                             "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                             "\"b\\\"\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[8,16]}}"
                             "      "
                             "\0\0\x80\x3f\0\0\0\xc0"
                             "\0\0\0\0\0\0\xe0\x3f";

START_TEST(golden_file)
{
    luo_file_tensor t[2] = {{.name = "a", .dtype = LUO_FILE_F32, .rank = 2, .dim = {2, 1}},
                            {.name = "b\"", .dtype = LUO_FILE_F64}};
    const float a[2] = {1, -2};
    const double b = 0.5;
    luo_tensor_writer w;
    luo_err err = {0};
    size_t n = 0;
    put_file("old", 3);
    ck_assert_int_eq(luo_tensor_writer_open(&w, path, t, 2, &err), LUO_OK);
    ck_assert_int_eq(luo_tensor_writer_put(&w, a, sizeof a, &err), LUO_OK);
    char *text = state_slurp(path, &n);
    ck_assert_str_eq(text, "old"); /* until the end */
    free(text);
    ck_assert_int_eq(luo_tensor_writer_put(&w, &b, sizeof b, &err), LUO_OK);
    ck_assert_int_eq(luo_tensor_writer_close(&w, true, &err), LUO_OK);
    ck_assert_int_eq(luo_tensor_writer_close(&w, true, &err), LUO_OK); /* closed already */
    text = state_slurp(path, &n);
    ck_assert_uint_eq(n, sizeof golden - 1);
    ck_assert_mem_eq(text, golden, n);
    free(text);
    ck_assert_int_eq(luo_tensor_writer_open(&w, path, t, 2, &err), LUO_OK);
    ck_assert_int_eq(luo_tensor_writer_close(&w, false, &err), LUO_OK);
    text = state_slurp(path, &n);
    ck_assert_mem_eq(text, golden, n); /* given up: as before */
    free(text);
    unlink(path);
}
END_TEST

/* As safetensors' own `serialize` writes it: no metadata, the largest dtype first. */
START_TEST(as_python_writes)
{
    static const char file[] =
        "\x78\0\0\0\0\0\0\0"
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"h\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[8,12]}}         "
        "\0\0\x80\x3f\0\0\0\x40"
        "\x80\x3f\x40\xc0";
    luo_arena *arena = luo_arena_new(0);
    luo_tensor_file f;
    luo_err err = {0};
    double v[2];
    put_file(file, sizeof file - 1);
    ck_assert_msg(luo_tensor_file_open(arena, path, &f, &err) == LUO_OK, "%s", err.text);
    ck_assert(f.head.n == 2 && f.head.data == 128);
    const luo_file_tensor *h = luo_safetensors_find(&f.head, "h");
    ck_assert(h && h->rank == 2 && h->dim[0] == 1 && h->dim[1] == 2 && h->dtype == LUO_FILE_BF16);
    luo_tensor_take(h->dtype, luo_tensor_file_at(&f, h), 1, 2, 8, v);
    ck_assert(v[0] == 1 && v[1] == -3);
    ck_assert_ptr_null(luo_safetensors_find(&f.head, "x"));
    luo_tensor_file_close(&f);
    luo_arena_free(arena);
    unlink(path);
}
END_TEST

/* ---- broken files ---- */

#define T(dtype, shape, places)                                                                    \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" places "}"
#define GOOD T("\"F32\"", "[2]", "[0,8]")

static const struct {
    const char *head;
    int64_t length; /* said; -1: as it is */
    size_t data;    /* bytes behind the head */
    luo_status st;
    const char *says;
} broken[] = {
    {"{\"a\":" GOOD "}", -1, 8, LUO_OK, ""},
    {"{}", -1, 0, LUO_OK, ""},
    {"{\"a\":" GOOD ",\"e\":" T("\"I64\"", "[0,7]", "[8,8]") "}  ", -1, 8, LUO_OK, ""},
    {"{\"a\":" GOOD "}", 9999, 8, LUO_EINPUT,
     "the head is said to have 9999 bytes; the file has 62 behind that number."},
    {"{\"a\":" GOOD "}", -2, 8, LUO_EINPUT,
     "the head is said to have 18446744073709551614 bytes; the file has 62 behind that number."},
    {"{\"a\":" GOOD "}", 53, 8, LUO_EPARSE,
     "the head is no JSON at line 1, column 54: `}` expected near end of file; one JSON document "
     "is expected."},
    {"{\"a\":" GOOD "}", 58, 8, LUO_EPARSE, NULL},
    {"{\"a\":" GOOD "}", 0, 8, LUO_EPARSE, NULL},
    {"", -1, 0, LUO_EPARSE, NULL},
    {"[1]", -1, 0, LUO_EINPUT, "the head holds no object; one of tensors is expected."},
    {"{\"a\":" GOOD ",\"a\":" GOOD "}", -1, 8, LUO_EPARSE, NULL},
    {"{\"\xff\":" GOOD "}", -1, 8, LUO_EPARSE, NULL},
    {"{\"a\":" GOOD ",}", -1, 8, LUO_EPARSE, NULL},
    {"{\"a\":" GOOD "}x", -1, 8, LUO_EPARSE, NULL},
    {"{\"a\":7}", -1, 8, LUO_EINPUT,
     "tensor `a`: no object stands here; one of `dtype`, `shape` and `data_offsets` is expected."},
    {"{\"a\":{}}", -1, 8, LUO_EINPUT,
     "tensor `a`: no `dtype` is given; a text such as `F32` is expected."},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", -1, 8, LUO_EINPUT,
     "tensor `a`: unknown key `x`; `dtype`, `shape` and `data_offsets` are expected."},
    {"{\"a\":" T("32", "[2]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: no `dtype` is given; a text such as `F32` is expected."},
    {"{\"a\":" T("\"f32\"", "[2]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: unknown `dtype` `f32`; F32, F64, F16 or BF16 is expected."},
    {"{\"a\":" T("\"F32\"", "2", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: no `shape` is given; a list of dimensions is expected."},
    {"{\"a\":" T("\"F32\"", "[-2]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: dimension 0 of `shape` is no whole number from 0 to below 2^40; one is "
     "expected."},
    {"{\"a\":" T("\"F32\"", "[1,2.0]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: dimension 1 of `shape` is no whole number from 0 to below 2^40; one is "
     "expected."},
    {"{\"a\":" T("\"F32\"", "[1099511627776]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: dimension 0 of `shape` is no whole number from 0 to below 2^40; one is "
     "expected."},
    {"{\"a\":" T("\"F32\"", "[99999999999999999999]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: dimension 0 of `shape` is no whole number from 0 to below 2^40; one is "
     "expected."},
    {"{\"a\":" T("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: `shape` has 9 dimensions; up to 8 are expected."},
    {"{\"a\":" T("\"F32\"", "[4294967296,4294967296]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: its shape is too large; below 2^63 bytes are expected."},
    {"{\"a\":" T("\"F32\"", "[3]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a` has 8 bytes of data; its shape and dtype need 12."},
    {"{\"a\":" T("\"F64\"", "[2]", "[0,8]") "}", -1, 8, LUO_EINPUT,
     "tensor `a` has 8 bytes of data; its shape and dtype need 16."},
    {"{\"a\":" T("\"F32\"", "[2]", "[0,8,9]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: no `data_offsets` are given; a begin and an end are expected."},
    {"{\"a\":" T("\"F32\"", "[2]", "null") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: no `data_offsets` are given; a begin and an end are expected."},
    {"{\"a\":" T("\"F32\"", "[2]", "[8,0]") "}", -1, 8, LUO_EINPUT,
     "tensor `a`: its `data_offsets` are no begin and end; two whole numbers that do not descend "
     "are expected."},
    {"{\"a\":" T("\"F32\"", "[2]", "[-8,0]") "}", -1, 8, LUO_EINPUT, NULL},
    {"{\"a\":" T("\"F32\"", "[2]", "[0,\"8\"]") "}", -1, 8, LUO_EINPUT, NULL},
    {"{\"a\":" T("\"F32\"", "[2]", "[1,9]") "}", -1, 9, LUO_EINPUT,
     "tensor `a` begins at byte 1 behind the head; 0 is expected, where the one before ends."},
    {"{\"a\":" GOOD "}", -1, 7, LUO_EINPUT,
     "tensor `a` ends at byte 8 behind the head; the file has 7 there."},
    {"{\"a\":" GOOD "}", -1, 9, LUO_EINPUT,
     "the tensors end at byte 8 behind the head; the file has 9 there."},
    {"{\"a\":" GOOD ",\"b\":" T("\"F32\"", "[2]", "[4,12]") "}", -1, 12, LUO_EINPUT,
     "tensor `b` begins at byte 4 behind the head; 8 is expected, where the one before ends."},
    {"{\"a\":" GOOD ",\"b\":" GOOD "}", -1, 8, LUO_EINPUT,
     "tensor `b` begins at byte 0 behind the head; 8 is expected, where the one before ends."},
    {"{\"a\":" GOOD ",\"b\":" T("\"F32\"", "[2]", "[12,20]") "}", -1, 20, LUO_EINPUT,
     "tensor `b` begins at byte 12 behind the head; 8 is expected, where the one before ends."},
    {"{\"__metadata__\":3,\"a\":" GOOD "}", -1, 8, LUO_EINPUT,
     "`__metadata__` is no object; one of texts is expected."},
    {"{\"__metadata__\":{\"k\":3},\"a\":" GOOD "}", -1, 8, LUO_EINPUT,
     "`k` in `__metadata__` is no text; one is expected."},
};

static size_t make_file(int row, char *file)
{
    const size_t n = strlen(broken[row].head);
    const uint64_t said = broken[row].length == -1 ? n : (uint64_t)broken[row].length;
    for (int i = 0; i < 8; i++) file[i] = (char)(said >> 8 * i);
    memcpy(file + 8, broken[row].head, n);
    memset(file + 8 + n, 0, broken[row].data);
    return 8 + n + broken[row].data;
}

START_TEST(broken_files)
{
    char file[512], want[2 * LUO_ERR_TEXT];
    luo_arena *arena = luo_arena_new(0);
    luo_tensor_file f = {.bytes = 77};
    luo_err err = {0};
    put_file(file, make_file(_i, file));
    ck_assert_int_eq(luo_tensor_file_open(arena, path, &f, &err), broken[_i].st);
    if (broken[_i].st == LUO_OK) {
        luo_tensor_file_close(&f);
    } else {
        snprintf(want, sizeof want, "`%s`: %s", path, broken[_i].says ? broken[_i].says : err.text);
        if (broken[_i].says) ck_assert_str_eq(err.text, want);
        ck_assert(strlen(err.text) > strlen(path) + 10 && f.bytes == 77);
    }
    luo_arena_free(arena);
    unlink(path);
}
END_TEST

START_TEST(short_files)
{
    luo_arena *arena = luo_arena_new(0);
    luo_tensor_file f;
    luo_err err = {0};
    char want[256];
    put_file(golden, (size_t)_i);
    ck_assert_int_eq(luo_tensor_file_open(arena, path, &f, &err), LUO_EINPUT);
    if (_i < 8) {
        snprintf(want, sizeof want,
                 "`%s`: the file has %d bytes; a safetensors file begins with 8 "
                 "bytes that tell the length of its head.",
                 path, _i);
        ck_assert_str_eq(err.text, want);
    }
    luo_arena_free(arena);
    unlink(path);
}
END_TEST

START_TEST(no_file)
{
    luo_arena *arena = luo_arena_new(0);
    luo_tensor_file f;
    luo_err err;
    ck_assert_int_eq(luo_tensor_file_open(arena, "build/none", &f, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "cannot read `build/none`: no such file or directory.");
    ck_assert_int_eq(luo_tensor_file_open(arena, "build", &f, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`build` is a folder; a safetensors file is expected.");
    luo_arena_free(arena);
}
END_TEST

/* Bytes changed at random: an answer or a sentence, and what is accepted lies inside. */
START_TEST(any_byte_changed)
{
    int accepted = 0;
    LUO_PROP_FOR(seed, 20000)
    {
        luo_rng rng = luo_rng_seed(seed);
        char file[sizeof golden];
        luo_arena *arena = luo_arena_new(0);
        luo_safetensors f;
        luo_err err = {0};
        memcpy(file, golden, sizeof golden);
        for (int64_t k = 1 + luo_rng_pick(&rng, 3); k > 0; k--)
            file[luo_rng_pick(&rng, 0x98)] = (char)luo_rng_pick(&rng, 256);
        const luo_status st = luo_safetensors_read(arena, file, sizeof golden - 1, &f, &err);
        accepted += st == LUO_OK;
        if (st != LUO_OK) ck_assert(err.text[0] && luo_status_exit(st) == 3);
        for (int32_t i = 0; st == LUO_OK && i < f.n; i++)
            ck_assert(f.data + f.at[i].end < (int64_t)sizeof golden);
        luo_arena_free(arena);
    }
    ck_assert_int_gt(accepted, 100); /* names and blanks */
}
END_TEST

/* ---- numbers ---- */

START_TEST(halves)
{
    for (uint32_t v = 0; v < 65536; v++) {
        const unsigned char at[2] = {(unsigned char)v, (unsigned char)(v >> 8)};
        const int e = (int)(v >> 10 & 31), m = (int)(v & 1023);
        double got, want = e == 0    ? ldexp(m, -24)
                           : e == 31 ? (m ? NAN : INFINITY)
                                     : ldexp(1024 + m, e - 25);
        float single;
        if (v >> 15) want = -want;
        luo_tensor_take(LUO_FILE_F16, at, 1, 1, 8, &got);
        ck_assert(isnan(want) ? isnan(got) : got == want);
        luo_tensor_take(LUO_FILE_F16, at, 1, 1, 4, &single);
        ck_assert(isnan(want) ? isnan(single) : (double)single == want);
        const uint32_t bits = v << 16;
        float wide;
        memcpy(&wide, &bits, 4);
        luo_tensor_take(LUO_FILE_BF16, at, 1, 1, 4, &single);
        ck_assert(isnan(wide) ? isnan(single) : single == wide);
    }
}
END_TEST

START_TEST(strides)
{
    const double d[6] = {1, 2, 3, 4, 5, 1e300};
    unsigned char odd[1 + sizeof d];
    float f[3];
    double g[3];
    memcpy(odd + 1, d, sizeof d); /* not aligned */
    luo_tensor_take(LUO_FILE_F64, odd + 1, 2, 3, 8, g);
    ck_assert(g[0] == 1 && g[1] == 3 && g[2] == 5);
    luo_tensor_take(LUO_FILE_F64, odd + 9, 2, 3, 4, f);
    ck_assert(f[0] == 2 && f[1] == 4 && isinf(f[2]));
}
END_TEST

/* ---- Hugging Face files ---- */

typedef struct made { /* a file under construction: tensors of one model */
    luo_file_tensor t[256];
    luo_str data;
    int32_t n;
} made;

static void add(made *m, const char *name, luo_file_dtype dtype, int32_t rank, int64_t d0,
                int64_t d1, double (*value)(int64_t r, int64_t c))
{
    m->t[m->n++] = (luo_file_tensor){.name = name, .dtype = dtype, .rank = rank, .dim = {d0, d1}};
    for (int64_t r = 0; r < d0; r++)
        for (int64_t c = 0; c < (rank == 2 ? d1 : 1); c++) {
            const double v = value(r, c);
            const float f = (float)v;
            uint32_t bits;
            memcpy(&bits, &f, 4);
            const uint16_t top = (uint16_t)(bits >> 16);
            if (dtype == LUO_FILE_F32)
                luo_str_addn(&m->data, (const char *)&f, 4);
            else if (dtype == LUO_FILE_F64)
                luo_str_addn(&m->data, (const char *)&v, 8);
            else
                luo_str_addn(&m->data, (const char *)&top, 2);
        }
}

static const char *finish(made *m)
{
    luo_str file = {0};
    luo_safetensors_head(&file, m->t, m->n);
    luo_str_addn(&file, luo_str_get(&m->data), m->data.len);
    put_file(file.at, file.len);
    luo_str_free(&file);
    luo_str_free(&m->data);
    return path;
}

static double by_place(int64_t r, int64_t c)
{
    return (double)(r * 16 + c) / 8; /* exact in bf16 up to 256 steps */
}

static double negative(int64_t r, int64_t c)
{
    return -by_place(r, c);
}

/* One layer, hidden 4, two heads of 2, one key-value head, ffn 6, vocabulary 8. */
static luo_model small(void)
{
    luo_model m = luo_test_llama(1, 4, 6, 2, 8);
    m.kv_heads = 1;
    return m;
}

static const char *llama_file(const char *prefix, luo_file_dtype dtype, bool head,
                              const char *extra)
{
    static char name[16][96];
    static const struct {
        const char *name;
        int64_t d0, d1;
    } all[] = {{"embed_tokens.weight", 8, 4},
               {"layers.0.input_layernorm.weight", 4, 0},
               {"layers.0.self_attn.q_proj.weight", 4, 4},
               {"layers.0.self_attn.k_proj.weight", 2, 4},
               {"layers.0.self_attn.v_proj.weight", 2, 4},
               {"layers.0.self_attn.o_proj.weight", 4, 4},
               {"layers.0.post_attention_layernorm.weight", 4, 0},
               {"layers.0.mlp.gate_proj.weight", 6, 4},
               {"layers.0.mlp.up_proj.weight", 6, 4},
               {"layers.0.mlp.down_proj.weight", 4, 6},
               {"norm.weight", 4, 0}};
    made m = {.n = 0};
    for (int i = 0; i < LUO_ROWS(all); i++) {
        snprintf(name[i], sizeof name[i], "%s%s", prefix, all[i].name);
        add(&m, name[i], dtype, all[i].d1 ? 2 : 1, all[i].d0, all[i].d1, by_place);
    }
    if (head) add(&m, "lm_head.weight", dtype, 2, 8, 4, negative);
    if (extra) add(&m, extra, dtype, 1, 3, 0, by_place);
    return finish(&m);
}

static const struct {
    const char *prefix;
    luo_file_dtype dtype;
    bool head;
    size_t elem;
} variants[] = {
    {"model.", LUO_FILE_F32, true, 4}, {"model.", LUO_FILE_BF16, true, 4},
    {"", LUO_FILE_F64, true, 8},       {"model.", LUO_FILE_F64, false, 4},
    {"", LUO_FILE_BF16, false, 8},     {"model.", LUO_FILE_F32, false, 8},
};

static const luo_piece *piece_of(const state_world *w, const char *name)
{
    for (int32_t i = 0; i < w->nparam; i++)
        if (strcmp(w->param[i].name, name) == 0) return &w->state[0].at[i];
    ck_abort_msg("%s", name);
}

START_TEST(llama_variants)
{
    state_world w;
    luo_err err = {0};
    const luo_model model = small();
    const size_t e = variants[_i].elem;
    state_open(&w, "1: [0]*1", &model, 0, e);
    llama_file(variants[_i].prefix, variants[_i].dtype, variants[_i].head, NULL);
    ck_assert_msg(luo_state_load_weights(&w.state[0], &w.model, path, alone, &err) == LUO_OK, "%s",
                  err.text);
    const double sign = variants[_i].head ? -1 : 1; /* else the embedding's */
    for (int64_t r = 0; r < 4; r++)
        for (int64_t c = 0; c < 4; c++) {
            ck_assert(state_get(piece_of(&w, "layers.0.attn.q.weight")->weight, e, 4 * r + c) ==
                      by_place(r, c));
            ck_assert(state_get(piece_of(&w, "layers.0.attn.out.weight")->weight, e, 4 * c + r) ==
                      by_place(r, c));
            ck_assert(state_get(piece_of(&w, "layers.0.mlp.down.weight")->weight, e, 4 * c + r) ==
                      by_place(r, c));
            ck_assert(state_get(piece_of(&w, "lm_head.weight")->weight, e, 4 * r + c) ==
                      sign * by_place(r, c));
            ck_assert(state_get(piece_of(&w, "norm.weight")->weight, e, r) == by_place(r, 0));
        }
    state_close(&w);
    unlink(path);
}
END_TEST

/* ---- a model in several files ---- */

static char part_path[2][96];

/* Tensors first, first + 2 .. of a file as a file of their own, with their names in the index. */
static void put_half(const luo_tensor_file *whole, int first, luo_str *index)
{
    luo_file_tensor t[64];
    luo_tensor_writer w;
    luo_err err = {0};
    int32_t n = 0;
    snprintf(part_path[first], sizeof part_path[first], "%s.%d", path, first);
    for (int32_t i = first; i < whole->head.n; i += 2) {
        t[n++] = whole->head.at[i];
        if (index->at[index->len - 1] != '{') luo_str_addc(index, ',');
        luo_str_addf(index, "\"%s\": \"%s\"", t[n - 1].name,
                     strrchr(part_path[first], '/') + 1);
    }
    ck_assert_int_eq(luo_tensor_writer_open(&w, part_path[first], t, n, &err), LUO_OK);
    for (int32_t i = first; i < whole->head.n; i += 2) {
        const luo_file_tensor *x = &whole->head.at[i];
        ck_assert_int_eq(luo_tensor_writer_put(&w, luo_tensor_file_at(whole, x),
                                               (size_t)(x->end - x->begin), &err),
                         LUO_OK);
    }
    ck_assert_int_eq(luo_tensor_writer_close(&w, true, &err), LUO_OK);
}

static void put_index(const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static luo_status load_whole(state_world *w, luo_err *err)
{
    return luo_state_load_weights(&w->state[0], &w->model, path, alone, err);
}

START_TEST(several_files)
{
    state_world w;
    luo_err err = {0};
    luo_str index = {0};
    luo_tensor_file whole;
    const luo_model model = small();
    state_open(&w, "1: [0]*1", &model, 0, 4);
    llama_file("model.", LUO_FILE_F32, true, NULL);
    ck_assert_int_eq(luo_tensor_file_open(w.arena, path, &whole, &err), LUO_OK);
    luo_str_add(&index, "{\"metadata\": {}, \"weight_map\": {");
    for (int i = 0; i < 2; i++) put_half(&whole, i, &index);
    luo_str_add(&index, "}}");
    luo_tensor_file_close(&whole);
    ck_assert_int_eq(load_whole(&w, &err), LUO_OK);
    const int64_t n = piece_of(&w, "lm_head.weight")->weight_frame.volume;
    void *want = luo_arena_calloc(w.arena, (size_t)n, 4);
    memcpy(want, piece_of(&w, "lm_head.weight")->weight, 4 * (size_t)n);
    memset(piece_of(&w, "lm_head.weight")->weight, 0, 4 * (size_t)n);
    put_index(luo_str_get(&index));
    ck_assert_msg(load_whole(&w, &err) == LUO_OK, "%s", err.text);
    ck_assert_mem_eq(piece_of(&w, "lm_head.weight")->weight, want, 4 * (size_t)n);

    FILE *f = fopen(part_path[1], "r+b"); /* its last byte */
    ck_assert(f && fseek(f, -1, SEEK_END) == 0 && fputc('x', f) == 'x' && fclose(f) == 0);
    ck_assert_int_eq(load_whole(&w, &err), LUO_EINPUT);
    ck_assert_msg(strstr(err.text, part_path[1]) && strstr(err.text, "is damaged"), "%s", err.text);
    ck_assert_int_eq(rename(part_path[0], part_path[1]), 0);
    ck_assert_int_eq(load_whole(&w, &err), LUO_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "no such file"));
    luo_str_free(&index);
    state_close(&w);
    unlink(path);
    unlink(part_path[1]);
}
END_TEST

static const struct {
    const char *text, *says;
    luo_status st;
} indices[] = {
    {"{\"weight_map\": {\"a\": \"GOOD\"}}", NULL, LUO_OK},
    {"{\"weight_map\": {\"b\": \"GOOD\"}}",
     "tensor `b` is not in the file that it names; an index and files that belong together are "
     "expected.",
     LUO_EINPUT},
    {"{\"weight_map\": {}}",
     "this is JSON without a `weight_map`; a safetensors file, or the index of several, is "
     "expected.",
     LUO_EINPUT},
    {"{\"weight_map\": {\"a\": \"../a\"}}",
     "`a` in `weight_map` is no name of a file; one beside the index is expected.", LUO_EINPUT},
    {"{\"weight_map\": {\"a\": 7}}",
     "`a` in `weight_map` is no name of a file; one beside the index is expected.", LUO_EINPUT},
    {"{\"weight_map\": {\"a\": \"GO", "this begins like JSON and is none at line 1, column ",
     LUO_EPARSE},
};

START_TEST(any_index)
{
    luo_file_tensor t = {.name = "a", .dtype = LUO_FILE_F32, .rank = 1, .dim = {1}};
    char text[256], good[96], want[400];
    luo_arena *arena = luo_arena_new(0);
    luo_tensor_file f;
    luo_tensor_writer w;
    luo_err err = {0};
    put_file("", 0);
    snprintf(good, sizeof good, "%s.part", path);
    ck_assert_int_eq(luo_tensor_writer_open(&w, good, &t, 1, &err), LUO_OK);
    ck_assert_int_eq(luo_tensor_writer_put(&w, "abcd", 4, &err), LUO_OK);
    ck_assert_int_eq(luo_tensor_writer_close(&w, true, &err), LUO_OK);
    const char *at = strstr(indices[_i].text, "GOOD");
    const int n = at ? (int)(at - indices[_i].text) : (int)strlen(indices[_i].text);
    snprintf(text, sizeof text, "%.*s%s%s", n, indices[_i].text,
             at ? strrchr(good, '/') + 1 : "", at ? at + 4 : "");
    put_index(text);
    ck_assert_int_eq(luo_tensor_file_open(arena, path, &f, &err), indices[_i].st);
    if (indices[_i].st == LUO_OK) {
        ck_assert_mem_eq(luo_tensor_file_at(&f, luo_safetensors_find(&f.head, "a")), "abcd", 4);
        luo_tensor_file_close(&f);
    } else {
        snprintf(want, sizeof want, "`%s`: %s", path, indices[_i].says);
        ck_assert_msg(strncmp(err.text, want, strlen(want)) == 0, "%s", err.text);
    }
    luo_arena_free(arena);
    unlink(path);
    unlink(good);
}
END_TEST

START_TEST(gpt_variants)
{
    static char name[16][96];
    static const struct {
        const char *name;
        int64_t d0, d1;
    } all[] = {{"wte.weight", 8, 4},
               {"wpe.weight", 5, 4},
               {"h.0.ln_1.weight", 4, 0},
               {"h.0.ln_1.bias", 4, 0},
               {"h.0.attn.c_attn.weight", 4, 12},
               {"h.0.attn.c_attn.bias", 12, 0},
               {"h.0.attn.c_proj.weight", 4, 4},
               {"h.0.attn.c_proj.bias", 4, 0},
               {"h.0.ln_2.weight", 4, 0},
               {"h.0.ln_2.bias", 4, 0},
               {"h.0.mlp.c_fc.weight", 4, 16},
               {"h.0.mlp.c_fc.bias", 16, 0},
               {"h.0.mlp.c_proj.weight", 16, 4},
               {"h.0.mlp.c_proj.bias", 4, 0},
               {"ln_f.weight", 4, 0},
               {"ln_f.bias", 4, 0}};
    made m = {.n = 0};
    state_world w;
    luo_err err = {0};
    luo_model model = luo_test_gpt(1, 4, 2, 8);
    model.max_sequence_tokens = 5;
    for (int i = 0; i < LUO_ROWS(all); i++) {
        snprintf(name[i], sizeof name[i], "%s%s", _i ? "transformer." : "", all[i].name);
        add(&m, name[i], LUO_FILE_F32, all[i].d1 ? 2 : 1, all[i].d0, all[i].d1, by_place);
    }
    if (_i)
        add(&m, "lm_head.weight", LUO_FILE_F32, 2, 8, 4, by_place);
    else
        add(&m, "h.0.attn.bias", LUO_FILE_U8, 1, 4, 0, by_place); /* a mask: 2 bytes each here */
    if (!_i) m.t[m.n - 1].dtype = LUO_FILE_F16;
    finish(&m);
    state_open(&w, "1: [0]*1", &model, 0, 4);
    ck_assert_msg(luo_state_load_weights(&w.state[0], &w.model, path, alone, &err) == LUO_OK, "%s",
                  err.text);
    for (int64_t out = 0; out < 4; out++) {
        for (int64_t in = 0; in < 4; in++) {
            ck_assert(state_get(piece_of(&w, "layers.0.attn.k.weight")->weight, 4, 4 * out + in) ==
                      by_place(in, 4 + out));
            ck_assert(state_get(piece_of(&w, "layers.0.attn.out.weight")->weight, 4,
                                4 * in + out) == by_place(in, out));
            ck_assert(state_get(piece_of(&w, "layers.0.mlp.up.weight")->weight, 4, 4 * out + in) ==
                      by_place(in, out));
            ck_assert(state_get(piece_of(&w, "layers.0.mlp.down.weight")->weight, 4,
                                4 * in + out) == by_place(in, out));
        }
        ck_assert(state_get(piece_of(&w, "layers.0.attn.v.bias")->weight, 4, out) ==
                  by_place(8 + out, 0));
    }
    state_close(&w);
    unlink(path);
}
END_TEST

#define OLDER                                                                                      \
    ", as luoshu wrote it before it had the names of Hugging Face types; convert it as "           \
    "docs/formats.md#older-checkpoints says, or go on with the luoshu that wrote it."
START_TEST(wrong_models)
{
    static const char *const says[] = {
        "`%s` has no tensor `model.layers.1.input_layernorm.weight`; model `test-llama` needs it.",
        "tensor `model.embed_tokens.weight` of `%s` has shape [8, 4]; the model's is [9, 4].",
        "tensor `model.layers.0.self_attn.k_proj.weight` of `%s` has shape [2, 4]; the model's is "
        "[4, 4].",
        "tensor `model.layers.0.self_attn.q_proj.bias` of `%s` has no place in model `test-llama`; "
        "a file of that model is expected.",
        "tensor `model.embed_tokens.weight` of `%s` is I32; F32, F64, F16 or BF16 is expected.",
        "tensor `model.layers.0.mlp.down_proj.weight` of `%s` has shape [4, 6]; the model's is "
        "[4, 7].",
        "`%s` has `model.layers.0.mlp.experts.gate_proj.weight`" OLDER,
        "`%s` has `model.layers.0.self_attn.k_shared_proj.weight`" OLDER,
    };
    static const char *const extra[] = {[3] = "model.layers.0.self_attn.q_proj.bias",
                                        [6] = "model.layers.0.mlp.experts.gate_proj.weight",
                                        [7] = "model.layers.0.self_attn.k_shared_proj.weight"};
    state_world w;
    luo_err err = {0};
    char want[512];
    luo_model model = small();
    if (_i == 0) model.layers = 2;
    if (_i == 1) model.vocab = 9;
    if (_i == 2) model.kv_heads = 2;
    llama_file("model.", _i == 4 ? LUO_FILE_F32 : LUO_FILE_BF16, true,
               _i < LUO_ROWS(extra) ? extra[_i] : NULL);
    if (_i == 4) {
        size_t n = 0;
        char *text = state_slurp(path, &n);
        memcpy(strstr(text + 8, "F32"), "I32", 3);
        put_file(text, n);
        free(text);
    }
    state_open(&w, _i == 0 ? "1: [0]*2" : "1: [0]*1", &model, 0, 4);
    if (_i == 5) /* only this one */
        for (int32_t i = 0; i < w.nparam; i++)
            if (strcmp(w.param[i].name, "layers.0.mlp.down.weight") == 0)
                w.param[i].shape.dim[0] = 7;
    ck_assert_int_eq(luo_state_load_weights(&w.state[0], &w.model, path, alone, &err), LUO_EINPUT);
    snprintf(want, sizeof want, says[_i], path);
    ck_assert_str_eq(err.text, want);
    state_close(&w);
    unlink(path);
}
END_TEST

LUO_SUITE("exec.safetensors", LUO_T(golden_file), LUO_T(as_python_writes),
          LUO_T_N(broken_files, LUO_ROWS(broken)), LUO_T_N(short_files, (int)sizeof golden - 1),
          LUO_T(no_file), LUO_T(any_byte_changed), LUO_T(halves), LUO_T(strides),
          LUO_T_N(llama_variants, LUO_ROWS(variants)),
          LUO_T(several_files), LUO_T_N(any_index, LUO_ROWS(indices)), LUO_T_N(gpt_variants, 2),
          LUO_T_N(wrong_models, 8))
