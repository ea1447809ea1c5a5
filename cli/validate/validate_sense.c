/* validate_sense.c: what the error of a suite would be if a rate that nobody printed were 20 %
 * lower or higher (docs/calibration.md#validation). The closed form tells; it is the simulator's to
 * 2 %. */
#include <math.h>
#include <string.h>

#include "cli/validate/validate.h"

/* What may be assumed: the rate of NICs, and two of a GPU. */
typedef enum sense { SENSE_NIC, SENSE_MEMORY, SENSE_PEAK } sense;
static const char *const senses[LUO_SENSES] = {"rate of the NICs", "rate of the GPUs' memory",
                                           "peak of the GPUs"};

static bool assumed_value(const luo_profile *profile, const char *name)
{
    const size_t n = strlen(name);
    for (int32_t i = 0; i < profile->nvalues; i++) {
        const luo_value *value = &profile->values[i];
        if (strncmp(value->name, name, n) == 0 &&
            (value->provenance == LUO_FROM_CHOSEN || value->provenance == LUO_FROM_REPORTED))
            return true;
    }
    return false;
}

static bool rests_on(const luo_case *one, sense what)
{
    if (!one->cluster || !one->profile || !(one->measured_s > 0)) return false;
    if (strcmp(one->row->gpu, "mixed") == 0) return false; /* goes by times of layers and links */
    if (what == SENSE_MEMORY) return assumed_value(one->profile, "memory_gbytes_per_s");
    if (what == SENSE_PEAK) return assumed_value(one->profile, "peak_");
    return luo_suite_nodes(one->row) > 1 && luo_suite_fabric_of(one->row).chosen;
}

static void scale(luo_case *one, sense what, double by)
{
    for (int32_t i = 0; i < one->cluster->ngroups; i++) {
        luo_profile *profile =
            (luo_profile *)(uintptr_t)one->cluster->groups[i].profile; /* the kit's */
        if (what == SENSE_NIC) one->cluster->groups[i].nic_bytes_per_s *= by;
        if (what == SENSE_MEMORY) profile->memory_bytes_per_s *= by;
        for (int k = 0; what == SENSE_PEAK && k < 3; k++) profile->peak_flops[k] *= by;
        if (what == SENSE_PEAK) profile->fp8_flops *= by;
    }
}

/* Mean |error| of the rows that rest on it, all of whose rates are `by` of what they are. */
static luo_status mean_at(const luo_validation *validation, luo_arena *scratch, const char *suite,
                          sense what, double by, double *mean, int32_t *rows, luo_err *err)
{
    double sum = 0;
    *rows = 0;
    for (int32_t i = 0; i < validation->n; i++) {
        luo_case *one = (luo_case *)(uintptr_t)validation->at[i].c; /* put back below */
        luo_step_cost cost;
        luo_err none;
        if (strcmp(validation->at[i].suite, suite) != 0 ||
            !luo_validation_counts(validation, &validation->at[i]) || !rests_on(one, what))
            continue;
        scale(one, what, by);
        const luo_status st = luo_case_closed(scratch, one, &cost, &none);
        scale(one, what, 1 / by);
        luo_arena_reset(scratch, 0);
        if (st == LUO_EUNSUP) continue; /* no closed form */
        if (st != LUO_OK) {
            *err = none;
            return st;
        }
        sum += fabs(cost.step / one->measured_s - 1);
        ++*rows;
    }
    *mean = *rows ? sum / *rows : 0;
    return LUO_OK;
}

luo_status luo_validation_sense(luo_validation *validation, luo_err *err)
{
    static const double at[3] = {1, 0.8, 1.2};
    luo_arena *scratch = luo_arena_new(1 << 20);
    luo_status st = scratch ? LUO_OK : luo_err_nomem(err);
    for (int32_t i = 0; i < validation->nsuites; i++)
        for (int k = 0; k < LUO_SENSES && st == LUO_OK; k++) {
            luo_sensitivity *sensitivity = &validation->suites[i].sense[k];
            sensitivity->what = senses[k];
            for (int j = 0; j < 3 && st == LUO_OK; j++)
                st = mean_at(validation, scratch, validation->suites[i].suite, (sense)k, at[j],
                             &sensitivity->mean[j], &sensitivity->rows, err);
        }
    luo_arena_free(scratch);
    return st;
}

void luo_sensitivity_print(FILE *out, const char *suite, const luo_sensitivity *sensitivity)
{
    if (sensitivity->rows == 0) return;
    fprintf(out,
            "%s: the %s is an assumption of %d rows; mean |error| of the closed form on them "
            "%.1f %%, with 20 %% less of it %.1f %%, with 20 %% more %.1f %%\n",
            suite, sensitivity->what, (int)sensitivity->rows, 100 * sensitivity->mean[0],
            100 * sensitivity->mean[1], 100 * sensitivity->mean[2]);
}
