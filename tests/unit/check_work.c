/* check_work.c: limits of work: the table, what is refused, how a limit is raised. */
#include "core/base/work.h"

#include "tests/check_main.h"

START_TEST(table)
{
    const luo_work_id id = (luo_work_id)_i;
    const double most = (double)luo_work_default(id);
    luo_work w = {0};
    luo_err err = {0};
    char text[80];
    ck_assert(luo_work_name(id)[0] && luo_work_unit(id)[0] && luo_work_bounds(id)[0] && most > 0);
    ck_assert_int_eq(luo_work_most(NULL, id), luo_work_default(id));
    ck_assert_int_eq(luo_work_check(NULL, id, most, "x has", &err), LUO_OK);
    ck_assert_int_eq(luo_work_check(&w, id, most + 1, "x has", &err), LUO_E2BIG);
    snprintf(text, sizeof text, "x has %.0f %s; ", most + 1, luo_work_unit(id));
    ck_assert_msg(strncmp(err.text, text, strlen(text)) == 0, "%s", err.text);
    snprintf(text, sizeof text, "`--limit %s=%.0f` raises it.", luo_work_name(id), most + 1);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
    snprintf(text, sizeof text, "%s=%.0f", luo_work_name(id), most + 1);
    ck_assert_int_eq(luo_work_set(&w, text, &err), LUO_OK);
    ck_assert_int_eq(luo_work_check(&w, id, most + 1, "x has", &err), LUO_OK);
    ck_assert_int_eq(luo_work_check(&w, id, most + 2, "x has", &err), LUO_E2BIG);
    ck_assert_int_eq(luo_work_check(&w, id, 1e300, "x has", &err), LUO_E2BIG);
    ck_assert_int_eq(luo_work_over(&w, id, "x makes", &err), LUO_E2BIG);
}
END_TEST

static const char *const bad[] = {
    "",           "events",   "events=",   "events=x", "events=0", "events=-1",
    "events=1.5", "event=1",  "events=1 ", "=1",       "events= 1",
    "events=99999999999999999999"};

START_TEST(bad_option)
{
    luo_work w = {0};
    luo_err err = {0};
    ck_assert_int_eq(luo_work_set(&w, bad[_i], &err), LUO_EUSAGE);
    ck_assert_int_eq(w.most[LUO_WORK_EVENTS], 0);
}
END_TEST

LUO_SUITE("base.work", LUO_T_N(table, LUO_WORKS), LUO_T_N(bad_option, LUO_ROWS(bad)))
