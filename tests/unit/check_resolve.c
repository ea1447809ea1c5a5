/* check_resolve.c: the vectors of tests/vectors/resolve.txt, as text. */
#include <ctype.h>

#include "core/hspmd/resolve.h"
#include "tests/check_main.h"

#define FILE_NAME "tests/vectors/resolve.txt"

typedef struct vector {
    char id[16], src[256], dst[256], shape[32], opts[64], kind[128], ops[2048];
} vector;

/* "ID  SRC  =>  DST  @ SHAPE [opts]  :  KIND  :  OPS   # comment" */
static int read_vector(char *line, vector *v)
{
    char *hash = strstr(line, "   #");
    if (hash) *hash = 0;
    line[strcspn(line, "\n")] = 0;
    if (!isupper((unsigned char)line[0])) return 0;
    char *arrow = strstr(line, "  =>  "), *at = strstr(line, "  @ ");
    char *colon = at ? strstr(at, "  :  ") : NULL, *gap = strstr(line, "  ");
    ck_assert_msg(arrow && at && colon && gap, "vector `%s`", line);
    memset(v, 0, sizeof *v);
    snprintf(v->id, sizeof v->id, "%.*s", (int)(gap - line), line);
    snprintf(v->src, sizeof v->src, "%.*s", (int)(arrow - gap - 2), gap + 2);
    snprintf(v->dst, sizeof v->dst, "%.*s", (int)(at - arrow - 6), arrow + 6);
    *colon = 0;
    sscanf(at + 4, "%31s %63[^\n]", v->shape, v->opts);
    char *second = strstr(colon + 5, "  :  ");
    if (second) snprintf(v->ops, sizeof v->ops, "%s", second + 5);
    snprintf(v->kind, sizeof v->kind, "%.*s",
             second ? (int)(second - colon - 5) : (int)strlen(colon + 5), colon + 5);
    return 1;
}

static void read_opts(vector *v, luo_resolve_opts *o, luo_node_racks *where)
{
    char *word = strtok(v->opts, " ");
    for (; word; word = strtok(NULL, " ")) {
        if (strcmp(word, "node") == 0) where->node_size = atoi(strtok(NULL, " "));
        else if (strcmp(word, "rack") == 0) where->rack_size = atoi(strtok(NULL, " "));
        else if (strcmp(word, "fallback") == 0) o->reduce_then_move = true;
        else ck_assert_int_eq(luo_sender_parse(word, &o->planner.sender, NULL), LUO_OK);
    }
}

static void one(vector *v)
{
    luo_arena *arena = luo_arena_new(0);
    luo_node_racks where = {4, 0};
    luo_resolve_opts o = {.planner = {.link_class = luo_node_racks_link_class, .link_ctx = &where}};
    luo_resolution r = {0};
    luo_shape shape;
    luo_err err = {0};
    luo_str s = {0};
    const luo_ann *src, *dst;
    read_opts(v, &o, &where);
    ck_assert_int_eq(luo_shape_parse(v->shape, &shape, NULL), LUO_OK);
    ck_assert_msg(luo_ann_parse(arena, v->src, &src, &err) == LUO_OK, "%s: %s", v->id, err.text);
    ck_assert_msg(luo_ann_parse(arena, v->dst, &dst, &err) == LUO_OK, "%s: %s", v->id, err.text);
    const luo_status st = luo_resolve(arena, src, dst, &shape, &o, &r, &err);
    const bool refused = strcmp(v->kind, "unsupported") == 0;
    ck_assert_msg(st == (refused ? LUO_EUNSUP : LUO_OK), "%s: %s", v->id, err.text);
    ck_assert_msg(strcmp(r.text, v->kind) == 0, "%s: kind %s, want %s", v->id, r.text, v->kind);
    if (refused) luo_str_add(&s, luo_unsupported_name(r.reason));
    for (int32_t i = 0; i < r.moves.n; i++) {
        luo_str_addf(&s, "%s%d ", i ? "; " : "", r.moves.at[i].step);
        luo_move_print(&s, &r.moves.at[i]);
    }
    ck_assert_msg(strcmp(luo_str_get(&s), v->ops) == 0, "%s:\n got %s\nwant %s", v->id,
                  luo_str_get(&s), v->ops);
    luo_str_free(&s);
    luo_arena_free(arena);
}

START_TEST(vectors)
{
    FILE *f = fopen(FILE_NAME, "r");
    char line[4096];
    vector v;
    int n = 0;
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        if (!read_vector(line, &v)) continue;
        one(&v);
        n++;
    }
    fclose(f);
    ck_assert_int_eq(n, 66);
}
END_TEST

/* Beyond the vectors: scalars, empty parts, dead devices (-1: none). */
static const struct {
    const char *src, *dst, *shape;
    int32_t dead;
    luo_status st;
    const char *kind, *ops, *says;
} more[] = {
    {"[0,1]{-2:2}", "[0,1]{-1:2}", "", -1, LUO_OK, "bottom allreduce", "0 ar (0,1) ", ""},
    {"h=-2 [0]{} | [1]{}", "h=-1 [0]{} | [1]{}", "", -1, LUO_OK, "split_ar", "0 ar (0,1) ", ""},
    {"[0]{}", "[1]{}", "", -1, LUO_OK, "bottom sendrecv", "0 send 0->1 ", ""},
    {"[0]{}", "[1,0]{-1:2}", "", -1, LUO_OK, "bottom bsr", "0 send 0->1 ; 0 copy 0 ", ""},
    {"[0,1]{0:2}", "[0,1]{1:2}", "0x4", -1, LUO_OK, "identity", "", ""},
    {"[0,1]{0:2}", "[2]{}", "0x4", -1, LUO_OK, "bottom bsr", "", ""},
    {"[0-3]{0:(1,0),-2:2}", "[0-3]{-1:2,0:2}", "4", -1, LUO_EUNSUP, "unsupported", "",
     "reshard 'x': [0-3]{0:(1,0),-2:2} -> [0-3]{-1:2,0:2} is not supported (PARTIAL_REGIONS: the "
     "pieces of the sum do not land where DST wants them); reduce to the source layout first, then "
     "move, or pass --reduce-then-move"},
    {"[0,1]{-1:2}", "[2,3]{-1:2}", "4", 0, LUO_OK, "bottom bsr",
     "0 send 1->2 [0:4); 0 send 1->3 [0:4)", ""},
    {"[0,1]{0:2}", "[2,3]{0:2}", "4", 0, LUO_ELOST, "bottom bsr", "0 send 1->3 [2:4)",
     "reshard 'x': pieces without a living owner: 1; give a checkpoint."},
    {"h=0 [0]{} | [1]{}", "h=0 [2]{} | [3]{}", "4", 0, LUO_ELOST, "bottom bsr,sendrecv",
     "0 send 1->3 [2:4)", "reshard 'x': pieces without a living owner: 1; give a checkpoint."},
    {"[0,1]{-2:2}", "[1]{}", "4", 0, LUO_EUNSUP, "unsupported", "",
     "reshard 'x': [0,1]{-2:2} -> [1]{} is not supported (PARTIAL_DEVICES: the sum would land on "
     "other devices); reduce to the source layout first, then move, or pass --reduce-then-move"},
    {"[0,1]{0:2}", "[0,1]{0:2}", "4", 1, LUO_EINPUT, NULL, "",
     "reshard 'x': destination uses device 1, which is dead"},
    {"[0-4096]{0:4097}", "[0-4096]{1:4097}", "8192x8192", -1, LUO_E2BIG, NULL, "",
     "bsr: table of 16785409 cells for 'x'"},
};

START_TEST(beyond)
{
    luo_arena *arena = luo_arena_new(0);
    luo_resolve_opts o = {.name = "x", .reduce_then_move = more[_i].dead >= 0};
    luo_resolution r = {0};
    luo_shape shape;
    luo_err err = {0};
    luo_str s = {0};
    const luo_ann *src, *dst;
    o.planner.dead = &more[_i].dead;
    o.planner.ndead = more[_i].dead >= 0;
    ck_assert_int_eq(luo_shape_parse(more[_i].shape, &shape, NULL), LUO_OK);
    ck_assert_int_eq(luo_ann_parse(arena, more[_i].src, &src, NULL), LUO_OK);
    ck_assert_int_eq(luo_ann_parse(arena, more[_i].dst, &dst, NULL), LUO_OK);
    ck_assert_int_eq(luo_resolve(arena, src, dst, &shape, &o, &r, &err), more[_i].st);
    ck_assert_str_eq(err.text, more[_i].says);
    if (more[_i].kind) ck_assert_str_eq(r.text, more[_i].kind);
    for (int32_t i = 0; i < r.moves.n; i++) {
        luo_str_addf(&s, "%s%d ", i ? "; " : "", r.moves.at[i].step);
        luo_move_print(&s, &r.moves.at[i]);
    }
    ck_assert_str_eq(luo_str_get(&s), more[_i].ops);
    luo_str_free(&s);
    luo_arena_free(arena);
}
END_TEST
LUO_SUITE("hspmd.resolve", LUO_T(vectors), LUO_T_N(beyond, LUO_ROWS(more)))
