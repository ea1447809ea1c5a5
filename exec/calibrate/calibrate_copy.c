/* calibrate_copy.c: memcpy between buffers, as pieces of tensors are moved. */
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "exec/calibrate/calibrate.h"
#include "exec/clock.h"

luo_status luo_calibrate_copies(luo_measurer *measurer, luo_err *err)
{
    enum { REPEAT = 15 };
    const size_t most = 16 << 20;
    char *from = malloc(most), *to = malloc(most);
    luo_status st = from && to ? LUO_OK : luo_err_nomem(err);
    for (size_t n = 1 << 12; st == LUO_OK && n <= most; n *= 4) {
        double s[REPEAT];
        memset(from, 1, n);
        memset(to, 2, n);
        for (int k = 0; k < REPEAT; k++) {
            const double start = luo_clock_s();
            memcpy(to, from, n);
            s[k] = luo_clock_s() - start;
            from[k] = to[n - 1 - (size_t)k]; /* so that it is not left out */
        }
        qsort(s, REPEAT, sizeof *s, luo_vec_by_double);
        luo_str_addf(&measurer->ops, "copy,f32,%zu,0,0,%.4f,%d,calibration\n", n / 4,
                     1e6 * s[REPEAT / 2], REPEAT);
    }
    free(from);
    free(to);
    return st;
}
