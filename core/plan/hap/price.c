/* Prices of collectives at given shares. */
#include "core/plan/hap/price.h"

#include <math.h>

#include "core/plan/hap_graph/share.h"

const char *luo_hap_move_name(luo_hap_move move)
{
    static const char *const names[] = {"allgather", "reducescatter", "allreduce", "alltoall",
                                        "reshare"};
    return names[move];
}

static luo_status check_shares(const luo_hap_numbers *numbers, int32_t segment, const double *share,
                               luo_err *err)
{
    double sum = 0;
    for (int32_t t = 0; t < numbers->ntypes; t++) sum += numbers->count[t] * share[t];
    if (!(fabs(sum - 1) <= 1e-6))
        return luo_err_set(err, LUO_EINPUT, "shares of segment %d sum to %g; they must sum to 1.",
                           segment, sum);
    return LUO_OK;
}

/* One segment: weights of all devices, then each extent. */
static luo_status cut_segment(const luo_hap_numbers *numbers, luo_hap_cuts *cuts, int32_t segment,
                              const double *share, int64_t *weight, int64_t *len, luo_err *err)
{
    const int32_t n = cuts->ndevices;
    int32_t at = 0;
    LUO_TRY(check_shares(numbers, segment, share, err));
    LUO_TRY(luo_share_snap(share, numbers->ntypes, len, err));
    for (int32_t t = 0; t < numbers->ntypes; t++)
        for (int32_t i = 0; i < numbers->count[t]; i++) weight[at++] = len[t];
    for (int32_t e = 0; e < cuts->nextents; e++) {
        const int32_t row = segment * cuts->nextents + e;
        double *part = &cuts->part[row * cuts->ntypes], *length = &cuts->length[row * n];
        const double extent = (double)cuts->extent[e];
        LUO_TRY(luo_share_round(cuts->extent[e], weight, n, len, err));
        for (int32_t i = 0, t = 0, of = 0; i < n; i++) {
            if (of == numbers->count[t]) t++, of = 0;
            of++;
            length[i] = numbers->fractional ? share[t] * extent : (double)len[i];
            part[t] = fmax(part[t], length[i] / extent);
        }
        for (int32_t t = 0; t < cuts->ntypes; t++) cuts->most[row] = fmax(cuts->most[row], part[t]);
    }
    return LUO_OK;
}

luo_status luo_hap_cuts_new(luo_arena *arena, const luo_hap_numbers *numbers, int32_t nsegments,
                            const double *shares, int32_t nextents, const int64_t *extent,
                            luo_hap_cuts **out, luo_err *err)
{
    const int32_t n = luo_hap_numbers_devices(numbers);
    const int32_t rows = nsegments * nextents;
    luo_hap_cuts *cuts = LUO_NEW(arena, luo_hap_cuts);
    int64_t *weight = LUO_NEW_N(arena, int64_t, n + LUO_HAP_TYPES);
    int64_t *len = LUO_NEW_N(arena, int64_t, n + LUO_HAP_TYPES);
    if (!cuts || !weight || !len) return luo_err_nomem(err);
    *cuts = (luo_hap_cuts){.nextents = nextents,
                           .nsegments = nsegments,
                           .ntypes = numbers->ntypes,
                           .ndevices = n,
                           .extent = extent,
                           .most = LUO_NEW_N(arena, double, rows),
                           .part = LUO_NEW_N(arena, double, rows * numbers->ntypes),
                           .length = LUO_NEW_N(arena, double, rows *n)};
    if (!cuts->most || !cuts->part || !cuts->length) return luo_err_nomem(err);
    for (int32_t s = 0; s < nsegments; s++)
        LUO_TRY(cut_segment(numbers, cuts, s, &shares[s * numbers->ntypes], weight, len, err));
    *out = cuts;
    return LUO_OK;
}

static double line_s(const luo_hap_numbers *numbers, luo_hap_link link, double times, double bytes)
{
    const luo_hap_line *line = &numbers->line[link];
    return times * line->latency_s + bytes / line->bandwidth_bytes_s;
}

/* Padded to the longest piece, or exact pieces one by one. */
static double gather(const luo_hap_numbers *numbers, const luo_hap_cuts *cuts,
                     const luo_hap_coll *coll, luo_hap_link padded, luo_hap_link grouped,
                     bool *is_grouped)
{
    const double n = cuts->ndevices, most = cuts->most[coll->seg * cuts->nextents + coll->ext];
    const double seconds = line_s(numbers, padded, 1, n * most * coll->bytes);
    if (numbers->line[grouped].bandwidth_bytes_s > 0) {
        const double other = line_s(numbers, grouped, n, coll->bytes);
        *is_grouped = other < seconds;
        if (*is_grouped) return other;
    }
    return seconds;
}

double luo_hap_price_reshare(int32_t n, const double *from, const double *to)
{
    double most = 0, a = 0, b = 0;
    for (int32_t i = 0; i < n; i++) {
        const double overlap = fmax(0, fmin(a + from[i], b + to[i]) - fmax(a, b));
        most = fmax(most, fmax(from[i], to[i]) - overlap);
        a += from[i];
        b += to[i];
    }
    return most;
}

static double reshare(const luo_hap_numbers *numbers, const luo_hap_cuts *cuts,
                      const luo_hap_coll *coll)
{
    const int32_t n = cuts->ndevices;
    const double *from = &cuts->length[(coll->seg * cuts->nextents + coll->ext) * n];
    const double *to = &cuts->length[(coll->seg2 * cuts->nextents + coll->ext) * n];
    const double moved = luo_hap_price_reshare(n, from, to) / (double)cuts->extent[coll->ext];
    bool same = true;
    for (int32_t i = 0; i < n && same; i++) same = from[i] == to[i];
    return same ? 0 : line_s(numbers, LUO_HAP_LINK_P2P, 1, moved * coll->bytes);
}

double luo_hap_price(const luo_hap_numbers *numbers, const luo_hap_cuts *cuts,
                     const luo_hap_coll *coll, bool *grouped)
{
    bool is_grouped = false;
    double seconds = 0;
    const double *most = cuts->most;
    if (cuts->ndevices > 1) switch ((luo_hap_move)coll->kind) {
        case LUO_HAP_MOVE_AG:
            seconds =
                gather(numbers, cuts, coll, LUO_HAP_LINK_AG, LUO_HAP_LINK_AG_GROUPED, &is_grouped);
            break;
        case LUO_HAP_MOVE_RS:
            seconds =
                gather(numbers, cuts, coll, LUO_HAP_LINK_RS, LUO_HAP_LINK_RS_GROUPED, &is_grouped);
            break;
        case LUO_HAP_MOVE_AR:
            seconds = line_s(numbers, LUO_HAP_LINK_AR, 1, coll->bytes);
            break;
        case LUO_HAP_MOVE_A2A:
            seconds = line_s(numbers, LUO_HAP_LINK_A2A, 1,
                             cuts->ndevices * coll->bytes *
                                 fmax(most[coll->seg * cuts->nextents + coll->ext],
                                      most[coll->seg2 * cuts->nextents + coll->ext2]));
            break;
        case LUO_HAP_MOVE_RE:
            seconds = reshare(numbers, cuts, coll);
            break;
        }
    if (grouped) *grouped = is_grouped;
    return seconds;
}
