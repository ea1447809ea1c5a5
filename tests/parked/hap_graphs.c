#include "tests/parked/hap_graphs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define IN(...) ((const int32_t[]){__VA_ARGS__})

static int32_t op(luo_hap_graph *g, luo_hap_kind kind, const char *signature, const int32_t *in,
                  const char *name)
{
    return luo_hap_graph_op(g, kind, name, signature, "", NULL, in, (const char *const[]){name});
}

luo_hap_graph *luo_hap_graphs_mlp(luo_arena *arena, const luo_hap_mlp_in *in)
{
    static const char letters[] = "acdefghij";
    luo_hap_graph *g = luo_hap_graph_new(arena, 4);
    int32_t x = luo_hap_graph_leaf(g, "x", LUO_HAP_INPUT, false, 2, DIMS(in->batch, in->d[0]));
    for (int32_t l = 0; l < in->layers; l++) {
        const char a = letters[l], c = letters[l + 1];
        char name[4][16], signature[32];
        snprintf(name[0], sizeof name[0], "w%d", l);
        snprintf(name[1], sizeof name[1], "v%d", l);
        snprintf(name[2], sizeof name[2], "h%d", l);
        snprintf(name[3], sizeof name[3], "a%d", l);
        snprintf(signature, sizeof signature, in->biases ? "b%c,%c%c,%c->b%c" : "b%c,%c%c->b%c", a,
                 a, c, c, c);
        const int32_t w =
            luo_hap_graph_leaf(g, name[0], LUO_HAP_PARAM, false, 2, DIMS(in->d[l], in->d[l + 1]));
        const int32_t v =
            in->biases ? luo_hap_graph_leaf(g, name[1], LUO_HAP_PARAM, false, 1, DIMS(in->d[l + 1]))
                       : -1;
        x = op(g, LUO_HAP_LINEAR, signature, IN(x, w, v), name[2]);
        if (l == 0 && in->conv_first) g->op[0].class = LUO_HAP_ON_CONV;
        if (l == in->layers - 1 || in->no_relu) continue;
        snprintf(signature, sizeof signature, "b%c->b%c", c, c);
        x = op(g, LUO_HAP_UNARY, signature, IN(x), name[3]);
    }
    char signature[16];
    snprintf(signature, sizeof signature, "b%c,b->", letters[in->layers]);
    const int32_t labels = luo_hap_graph_leaf(g, "y", LUO_HAP_INPUT, true, 1, DIMS(in->batch));
    luo_hap_graph_op(g, LUO_HAP_LOSS, "loss", signature, "", NULL, IN(x, labels),
                     (const char *const[]){"L"});
    return g;
}

luo_hap_graph *luo_hap_graphs_named(luo_arena *arena, const char *name, int32_t n, int32_t blocks)
{
    const luo_hap_encoder sizes = {32 * n, 128, 768, 12, 3072, 33280, 0, 0};
    if (blocks) return luo_hap_network_bert(arena, &sizes, blocks);
    int network = 0;
    while (strcmp(luo_hap_network_names()[network], name) != 0) network++;
    return luo_hap_network_graph(arena, (luo_hap_network)network, 32 * n, n);
}

luo_hap_numbers luo_hap_graphs_toy(const int32_t *count, const double *speed, double elt_factor,
                                   double ag, double ar, double a2a)
{
    luo_hap_numbers out = {.ntypes = 2, .name = {"A", "B"}};
    for (int32_t t = 0; t < 2; t++) {
        out.count[t] = count ? count[t] : 1;
        for (int32_t c = 0; c < LUO_HAP_CLASSES; c++) out.speed[t][c] = speed[t];
        out.speed[t][LUO_HAP_ON_ELT] = elt_factor > 0 ? elt_factor * speed[t] : (double)INFINITY;
    }
    out.line[LUO_HAP_LINK_AG].bandwidth_bytes_s = ag;
    out.line[LUO_HAP_LINK_RS].bandwidth_bytes_s = ag;
    out.line[LUO_HAP_LINK_P2P].bandwidth_bytes_s = ag;
    out.line[LUO_HAP_LINK_AR].bandwidth_bytes_s = ar;
    out.line[LUO_HAP_LINK_A2A].bandwidth_bytes_s = a2a;
    return out;
}

luo_hap_numbers luo_hap_graphs_set(const char *name)
{
    static const struct {
        const char *name;
        int32_t count[2];
        double line[LUO_HAP_LINKS]; /* ag, agg, rs, rsg, ar, a2a, p2p */
    } sets[] = {
        {"H8",
         {2, 6},
         {9463184466, 9146232360, 9740459122, 8756865799, 5906161310, 24588140722, 9463184466}},
        {"H29",
         {8, 21},
         {815418707, 549828906, 876490907, 512358434, 476774816, 7504501871, 815418707}},
        {"H64",
         {16, 48},
         {815418707, 549828906, 876490907, 512358434, 476774816, 7504501871, 815418707}},
        {"H4",
         {2, 2},
         {2911974213, 1823299698, 2697857772, 2031969976, 1592001970, 7881094967, 2911974213}},
    };
    const double speed[] = {3858755112937. * 2 / 3, 2149250936815. * 2 / 3};
    luo_hap_numbers out = {0};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (strcmp(sets[i].name, name) != 0) continue;
        out = luo_hap_graphs_toy(sets[i].count, speed, 0, 1, 1, 1);
        for (int32_t l = 0; l < LUO_HAP_LINKS; l++) out.line[l].bandwidth_bytes_s = sets[i].line[l];
    }
    out.name[0] = "v100";
    out.name[1] = "p100";
    return out;
}
