/* check_dsjson.c: the the computed vectors and conventions V-D1, V-D2. */
#include "tests/parked/dsjson.h"
#include "tests/check_main.h"

static const struct {
    const char *json, *ann; /* NULL: refused with `says` */
    luo_status st;
    const char *says;
} rows[] = {
    {"{\"split\":{\"0\":[4,1]},\"dup\":[2,2],\"device_group_union\":[[12,13,14,15],[30]],"
     "\"type\":\"variable\"}", "h=-1 [12-15]{0:4} | [30]{}", LUO_OK, ""},
    {"{\"split\":{\"0\":[2,2]},\"dup\":[4,4],\"device_group_union\":[[0,1,2,3],[16,17,18,19]],"
     "\"type\":\"placeholder\"}", "h=0 [0-3]{-1:4} | [16-19]{-1:4}", LUO_OK, ""},
    {"{\"split\":{\"0\":[2]},\"dup\":[4],\"device_group_union\":[[0,1,2,3,4,5,6,7]],"
     "\"type\":\"variable\"}", "[0-7]{-1:4,0:2}", LUO_OK, ""},
    {"{\"split\":{\"0\":[4]},\"dup\":[2],\"device_group_union\":[[0,1,2,3,4,5,6,7]],"
     "\"type\":\"placeholder\"}", "[0-7]{0:4,-1:2}", LUO_OK, ""},
    {"{\"split\":{\"0\":[4,1]},\"dup\":[2,2],\"device_group_union\":[[28,29,30,31],[38]],"
     "\"type\":\"variable\"}", "h=-1 [28-31]{0:4} | [38]{}", LUO_OK, ""}, /* V-D1 */
    {"{\"split\":{\"0\":[2]},\"dup\":[2],\"device_group_union\":[[0,1,2,3]],"
     "\"type\":\"variable\"}", "[0-3]{-1:2,0:2}", LUO_OK, ""}, /* V-D2 */
    {"{\"split\":{\"0\":2},\"dup\":2,\"device_group\":[0,1,2,3],\"type\":\"variable\"}",
     "[0-3]{-1:2,0:2}", LUO_OK, ""}, /* the old form */
    {"{\"split\":{},\"dup\":[1,2],\"device_group_union\":[[0],[1]],\"type\":\"variable\"}", NULL,
     LUO_EINPUT, "JSON entry 'qkv': dup 1 of member 0 is not a multiple of 2 subgroups."},
    {"{\"split\":{\"0\":[3,2]},\"dup\":[1,1],\"device_group_union\":[[0],[1]],"
     "\"type\":\"placeholder\"}", NULL, LUO_EINPUT,
     "JSON entry 'qkv': split \"0\" 3 of member 0 is not a multiple of 2 subgroups."},
    {"{\"split\":{\"0\":[1]},\"dup\":[2,2],\"device_group_union\":[[0],[1]],"
     "\"type\":\"variable\"}", NULL, LUO_EINPUT,
     "JSON entry 'qkv': split \"0\" has 1 counts for 2 subgroups."},
    {"{\"split\":{},\"dup\":[1],\"device_group_union\":[[0]],\"type\":\"weight\"}", NULL,
     LUO_EINPUT, "JSON entry 'qkv': type `weight` is neither `variable` nor `placeholder`."},
    {"{\"split\":{\"0\":[2]},\"dup\":[1],\"device_group_union\":[[0]],\"type\":\"variable\"}", NULL,
     LUO_EINPUT, NULL}, /* COUNT */
    {"{\"split\":{\"x\":[2]},\"dup\":[1],\"device_group_union\":[[0]],\"type\":\"variable\"}", NULL,
     LUO_EINPUT, "JSON entry 'qkv': split \"x\" is no dimension."},
    {"{\"split\":{}", NULL, LUO_EPARSE, NULL},
};

START_TEST(read_row)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_ann *a;
    luo_ds_type type;
    luo_err err;
    luo_str s = {0};
    const luo_status st = luo_dsjson_read_entry(arena, rows[_i].json, "qkv", &a, &type, &err);
    ck_assert_int_eq(st, rows[_i].st);
    if (st == LUO_OK) {
        luo_ann_print(&s, a);
        ck_assert_str_eq(luo_str_get(&s), rows[_i].ann);
        luo_str text = {0};
        const luo_ann *b;
        ck_assert_int_eq(luo_dsjson_write_entry(a, type, &text, &err), LUO_OK);
        ck_assert_int_eq(luo_dsjson_read_entry(arena, text.at, "qkv", &b, &type, &err), LUO_OK);
        ck_assert(luo_ann_equal(a, b)); /* read entries are in the implied order already */
        luo_str_free(&text);
    } else if (rows[_i].says) {
        ck_assert_str_eq(err.text, rows[_i].says);
    }
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *ann;
    luo_ds_type type;
    const char *json, *says;
} writes[] = {
    {"[0-7]{0:2,-1:4}", LUO_DS_VARIABLE,
     "{\"split\": {\"0\": [2]}, \"dup\": [4], \"device_group_union\": [[0, 4, 1, 5, 2, 6, 3, 7]], "
     "\"type\": \"variable\"}", ""},
    {"h=-1 [12-15]{0:4} | [30]{}", LUO_DS_VARIABLE,
     "{\"split\": {\"0\": [4, 1]}, \"dup\": [2, 2], \"device_group_union\": [[12, 13, 14, 15], "
     "[30]], \"type\": \"variable\"}", ""},
    {"h=0 [0-3]{-1:4} | [16-19]{-1:4}", LUO_DS_PLACEHOLDER,
     "{\"split\": {\"0\": [2, 2]}, \"dup\": [4, 4], \"device_group_union\": [[0, 1, 2, 3], "
     "[16, 17, 18, 19]], \"type\": \"placeholder\"}", ""},
    {"[0,1]{0:(3,1)}", LUO_DS_VARIABLE, NULL, "JSON cannot express shares."},
    {"h=0:(3,1) [0]{} | [1]{}", LUO_DS_PLACEHOLDER, NULL, "JSON cannot express shares."},
    {"h=0i [0]{} | [1]{}", LUO_DS_PLACEHOLDER, NULL, "JSON cannot express the inner pattern."},
    {"h=1 [0]{} | [1]{}", LUO_DS_PLACEHOLDER, NULL, "JSON cannot express h=1 of a placeholder."},
    {"h=0 [0]{} | [1]{}", LUO_DS_VARIABLE, NULL, "JSON cannot express h=0 of a variable."},
    {"[0,1]{-2:2}", LUO_DS_VARIABLE, NULL, "JSON cannot express partial values."},
};

START_TEST(write_row)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_ann *a;
    luo_err err;
    luo_str s = {0};
    ck_assert_int_eq(luo_ann_parse(arena, writes[_i].ann, &a, &err), LUO_OK);
    const luo_status st = luo_dsjson_write_entry(a, writes[_i].type, &s, &err);
    if (writes[_i].json) ck_assert_str_eq(luo_str_get(&s), writes[_i].json);
    else ck_assert_str_eq(err.text, writes[_i].says);
    ck_assert_int_eq(st, writes[_i].json ? LUO_OK : LUO_EUNREP);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

#define ENTRY(split, dup, type) \
    "{\"split\":" split ",\"dup\":" dup \
    ",\"device_group_union\":[[12,13,14,15],[30]],\"type\":\"" type "\"}"
#define WEIGHT(dim) ENTRY("{\"" dim "\":[4,1]}", "[2,2]", "variable")

static const char file[] =
    "{\"zero\":true,\"devices\":[12,13,14,15,30],\"recompute_granularity\":null,"
    "\"recompute_layer_idxs_list\":[[],[0]],\"mine\":1.5,"
    "\"input\":" ENTRY("{\"0\":[2,2]}", "[4,1]", "placeholder") ","
    "\"llama\":{\"wte\":" WEIGHT("0") ",\"blocks\":{\"blocks0\":{\"range\":[0],"
    "\"recompute\":[false,true],"
    "\"output_recompute\":[false,false],\"cpu_offload\":[false,false],"
    "\"rmsnorm1\":" WEIGHT("0") ",\"attn\":{\"qkv\":" WEIGHT("1") ",\"dense\":" WEIGHT("0") "},"
    "\"rmsnorm2\":" WEIGHT("0") ",\"mlp\":{\"dense_h_to_4h\":" WEIGHT("1") ","
    "\"dense_4h_to_h\":" WEIGHT("0") ",\"activation_func\":{}}},"
    "\"blocks59\":{\"range\":[1,2,59],\"rmsnorm1\":" WEIGHT("0") "}},"
    "\"rmsnorm_final\":" WEIGHT("0") "},"
    "\"lm_head\":" WEIGHT("1") ",\"label\":" ENTRY("{\"0\":[2,2]}", "[4,1]", "placeholder") "}";

static luo_dsjson *read_text(luo_arena *arena, const char *text, luo_diags *diags)
{
    const luo_source src = {"ds.json", text, strlen(text)};
    luo_dsjson *f = NULL;
    luo_diags_init(diags, arena);
    const luo_status st = luo_dsjson_read(arena, &src, &f, diags);
    ck_assert_msg(st == LUO_OK, "%s", diags->first ? diags->first->err.text : "?");
    return f;
}

START_TEST(whole_file)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_err err;
    luo_str s = {0}, t = {0};
    luo_dsjson *f = read_text(arena, file, &diags);
    ck_assert(f->zero && f->ndev == 5 && f->n == 12);
    ck_assert(diags.first && !diags.first->next && diags.first->severity == LUO_WARNING);
    ck_assert_str_eq(diags.first->err.text, "unknown key `mine`; it is kept as it is.");
    ck_assert_str_eq(f->items[3].path, "llama.blocks.blocks0.attn.qkv");
    luo_ann_print(&s, f->items[3].ann); /* "1" of the file is our 0 */
    ck_assert_str_eq(s.at, "h=-1 [12-15]{0:4} | [30]{}");
    ck_assert(f->items[8].first == 1 && f->items[8].last == 59 && f->items[9].first == -1);
    const luo_ann *w;
    ck_assert_int_eq(luo_dsjson_weight(arena, &f->items[2], &w, &err), LUO_OK);
    luo_str_clear(&s);
    luo_ann_print(&s, w); /* V-D1: rmsnorm */
    ck_assert_str_eq(s.at, "h=-1 [12-15]{-1:4} | [30]{}");
    ck_assert_int_eq(luo_dsjson_write(arena, f, &t, &err), LUO_OK);
    ck_assert(strstr(t.at, "\"mine\": 1.5") && strstr(t.at, "\"recompute_granularity\": null"));
    const luo_dsjson *again = read_text(arena, t.at, &diags);
    ck_assert_int_eq(again->n, f->n);
    for (int32_t i = 0; i < f->n; i++) {
        ck_assert_str_eq(again->items[i].path, f->items[i].path);
        ck_assert(luo_ann_equal(again->items[i].ann, f->items[i].ann));
        ck_assert_int_eq(again->items[i].last, f->items[i].last);
    }
    luo_str_clear(&s);
    ck_assert_int_eq(luo_dsjson_write(arena, again, &s, &err), LUO_OK);
    ck_assert_str_eq(s.at, t.at);
    luo_str_free(&s);
    luo_str_free(&t);
    luo_arena_free(arena);
}
END_TEST

START_TEST(changed_item) /* what is written is the item, not the text */
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_err err;
    luo_str s = {0};
    luo_dsjson *f = read_text(arena, file, &diags);
    ck_assert_int_eq(luo_ann_parse(arena, "[0,1]{0:2}", &f->items[3].ann, &err), LUO_OK);
    ck_assert_int_eq(luo_dsjson_write(arena, f, &s, &err), LUO_OK);
    const luo_dsjson *again = read_text(arena, s.at, &diags);
    ck_assert(luo_ann_equal(again->items[3].ann, f->items[3].ann));
    luo_str_clear(&s);
    ck_assert_int_eq(luo_ann_parse(arena, "[0,1]{0:(3,1)}", &f->items[3].ann, &err), LUO_OK);
    ck_assert_int_eq(luo_dsjson_write(arena, f, &s, &err), LUO_EUNREP);
    ck_assert_str_eq(err.text, "JSON entry 'qkv': JSON cannot express shares.");
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST

START_TEST(offload_refused)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_dsjson *f;
    const char text[] = "{\"llama\":{\"blocks\":{\"blocks0\":{\"range\":[0],\n"
                        "\"cpu_offload\":[false,true]}}}}";
    const luo_source src = {"ds.json", text, sizeof text - 1};
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_dsjson_read(arena, &src, &f, &diags), LUO_EINPUT);
    ck_assert(diags.first->err.line == 2 && diags.first->err.col == 15);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("io.dsjson", LUO_T_N(read_row, LUO_ROWS(rows)), LUO_T_N(write_row, LUO_ROWS(writes)),
          LUO_T(whole_file), LUO_T(changed_item), LUO_T(offload_refused))
