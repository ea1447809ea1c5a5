/* check_main.h: libcheck with table rows and a plain main.
 *
 *   LUO_MAIN("suite.name", test, LUO_ROWS(rows))       one looped test
 *   LUO_SUITE("suite.name", LUO_T(a), LUO_T_N(b, 7))   several
 * Exit code 0 when all pass. The closing line is Check's own summary. */
#ifndef LUO_TESTS_CHECK_MAIN_H
#define LUO_TESTS_CHECK_MAIN_H
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LUO_ROWS(table) ((int)(sizeof(table) / sizeof((table)[0])))

typedef struct luo_test_row {
    const TTest *test;
    int n; /* loop count */
} luo_test_row;

#define LUO_T(fn) {(fn), 1}
#define LUO_T_N(fn, n) {(fn), (n)}

static inline int luo_run_suite(const char *name, const luo_test_row *rows, int n)
{
    Suite *suite = suite_create(name);
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 240);
    for (int i = 0; i < n; i++) tcase_add_loop_test(tc, rows[i].test, 0, rows[i].n);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

#define LUO_SUITE(name, ...)                                                  \
    int main(void)                                                            \
    {                                                                         \
        const luo_test_row rows_[] = {__VA_ARGS__};                           \
        return luo_run_suite(name, rows_, (int)(sizeof rows_ / sizeof *rows_)); \
    }
#define LUO_MAIN(name, fn, n) LUO_SUITE(name, LUO_T_N(fn, n))
#endif
