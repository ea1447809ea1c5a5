/* check_bad.c: every file in tests/golden/bad/KIND/ is wrong, and FILE.want says how:
 * one line LINE:COL: severity: sentence each. BLESS=1 writes the .want files anew. */
#include <dirent.h>

#include "tests/parked/dsjson.h"
#include "core/io/io.h"
#include "tests/check_main.h"

static const char *const kinds[] = {"model", "cluster", "profile", "stack",
                                    "scenario", "plan", "csv", "params", "dsjson"};

static luo_status read_kind(luo_arena *arena, int kind, const char *path, luo_diags *diags)
{
    static const luo_file_kind known[] = {LUO_FILE_MODEL, LUO_FILE_CLUSTER, LUO_FILE_PROFILE,
                                          LUO_FILE_STACK, LUO_FILE_SCENARIO, LUO_FILE_PLAN,
                                          LUO_FILE_TABLE, LUO_FILE_PARAMS};
    luo_source src;
    luo_dsjson *ds;
    luo_err err;
    if (kind < 8) return luo_file_check(arena, path, known[kind], diags);
    ck_assert_int_eq(luo_source_read(arena, path, &src, &err), LUO_OK);
    return luo_dsjson_read(arena, &src, &ds, diags);
}

static void print(const luo_diags *d, const char *path, luo_str *s)
{
    static const char *const severity[] = {"note", "warning", "error"};
    const char *slash = strrchr(path, '/');
    for (const luo_diag *x = d->first; x; x = x->next) {
        const char *file = x->err.path[0] ? strrchr(x->err.path, '/') : NULL;
        if (file && strcmp(file, slash) != 0) luo_str_addf(s, "%s:", file + 1);
        luo_str_addf(s, "%d:%d: %s: %s\n", x->err.line, x->err.col, severity[x->severity],
                     x->err.text);
    }
}

static void check_one(int kind, const char *path)
{
    luo_arena *arena = luo_arena_new(0);
    luo_diags diags;
    luo_err err;
    luo_source want = {"", "", 0};
    luo_str s = {0}, name = {0};
    luo_diags_init(&diags, arena);
    const luo_status st = read_kind(arena, kind, path, &diags);
    print(&diags, path, &s);
    luo_str_addf(&name, "%s.want", path);
    if (getenv("BLESS"))
        ck_assert_int_eq(luo_file_write_atomic(name.at, luo_str_get(&s), s.len, &err), LUO_OK);
    ck_assert_msg(luo_source_read(arena, name.at, &want, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(strcmp(want.text, luo_str_get(&s)) == 0, "%s: wanted\n%sgot\n%s", path,
                  want.text, luo_str_get(&s));
    ck_assert_msg(luo_status_exit(st) == 3, "%s: exit %d", path, luo_status_exit(st));
    ck_assert_msg(diags.n_errors > 0, "%s is accepted", path);
    luo_str_free(&s);
    luo_str_free(&name);
    luo_arena_free(arena);
}

static int is_input(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);
    return e->d_name[0] != '.' && (n < 5 || strcmp(e->d_name + n - 5, ".want") != 0);
}

START_TEST(folder)
{
    char dir[128], path[512];
    struct dirent **list;
    snprintf(dir, sizeof dir, "tests/golden/bad/%s", kinds[_i]);
    const int n = scandir(dir, &list, is_input, alphasort);
    ck_assert_msg(n > 0, "%s is empty", dir);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        check_one(_i, path);
        free(list[i]);
    }
    free(list);
}
END_TEST

LUO_MAIN("io.bad", folder, LUO_ROWS(kinds))
