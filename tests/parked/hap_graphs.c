#include "tests/parked/hap_graphs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define IN(...) ((const int32_t[]){__VA_ARGS__})

typedef struct net {
    luo_hap_graph *g;
    char prefix[16]; /* of names, per block */
} net;

static const char *named(const net *n, const char *name, char *buf)
{
    snprintf(buf, 32, "%s%s", n->prefix, name);
    return buf;
}

static int32_t param(const net *n, const char *name, int32_t rank, const int64_t *dims)
{
    char buf[32];
    return luo_hap_graph_leaf(n->g, named(n, name, buf), LUO_HAP_PARAM, false, rank, dims);
}

static int32_t op(const net *n, luo_hap_kind kind, const char *signature, const char *whole,
                  const int64_t *sizes, const int32_t *in, const char *result)
{
    char buf[32], first[34], second[34];
    named(n, result, buf);
    snprintf(first, sizeof first, "%s.1", buf);
    snprintf(second, sizeof second, "%s.2", buf);
    return luo_hap_graph_op(n->g, kind, buf, signature, whole, sizes, in,
                            (const char *const[]){buf, first, second});
}

static int32_t loss(const net *n, int32_t x, const char *signature, int32_t rank,
                    const int64_t *dims)
{
    const int32_t labels = luo_hap_graph_leaf(n->g, "y", LUO_HAP_INPUT, true, rank, dims);
    return luo_hap_graph_op(n->g, LUO_HAP_LOSS, "loss", signature, "", NULL, IN(x, labels),
                            (const char *const[]){"L"});
}

luo_hap_graph *luo_hap_graphs_mlp(luo_arena *arena, const luo_hap_mlp_in *in)
{
    static const char letters[] = "acdefghij";
    const net n = {luo_hap_graph_new(arena, 4), ""};
    int32_t x = luo_hap_graph_leaf(n.g, "x", LUO_HAP_INPUT, false, 2, DIMS(in->batch, in->d[0]));
    for (int32_t l = 0; l < in->layers; l++) {
        const char a = letters[l], c = letters[l + 1];
        char name[4][8], signature[32];
        snprintf(name[0], 8, "w%d", l);
        snprintf(name[1], 8, "v%d", l);
        snprintf(name[2], 8, "h%d", l);
        snprintf(name[3], 8, "a%d", l);
        snprintf(signature, sizeof signature, in->biases ? "b%c,%c%c,%c->b%c" : "b%c,%c%c->b%c", a,
                 a, c, c, c);
        const int32_t w = param(&n, name[0], 2, DIMS(in->d[l], in->d[l + 1]));
        const int32_t v = in->biases ? param(&n, name[1], 1, DIMS(in->d[l + 1])) : -1;
        x = op(&n, LUO_HAP_LINEAR, signature, "", NULL, IN(x, w, v), name[2]);
        if (l == 0 && in->conv_first) n.g->op[0].class = LUO_HAP_ON_CONV;
        if (l == in->layers - 1 || in->no_relu) continue;
        snprintf(signature, sizeof signature, "b%c->b%c", c, c);
        x = op(&n, LUO_HAP_UNARY, signature, "", NULL, IN(x), name[3]);
    }
    char signature[16];
    snprintf(signature, sizeof signature, "b%c,b->", letters[in->layers]);
    loss(&n, x, signature, 1, DIMS(in->batch));
    return n.g;
}

/* ---- encoders ---- */

static int32_t add_norm(const net *n, int32_t x, int32_t z, int64_t width, const char *index)
{
    char name[4][16];
    snprintf(name[0], 16, "r%s", index);
    snprintf(name[1], 16, "ln%sg", index);
    snprintf(name[2], 16, "ln%sb", index);
    snprintf(name[3], 16, "n%s", index);
    const int32_t sum = op(n, LUO_HAP_ADD, "bsm,bsm->bsm", "", NULL, IN(x, z), name[0]);
    const int32_t g = param(n, name[1], 1, DIMS(width)), b = param(n, name[2], 1, DIMS(width));
    return op(n, LUO_HAP_NORM, "bsm,m,m->bsm", "m", NULL, IN(sum, g, b), name[3]);
}

static int32_t feed_forward(const net *n, int32_t x, const luo_hap_sizes *z)
{
    const int64_t m = z->width, f = z->feed_forward;
    const int32_t w1 = param(n, "w1", 2, DIMS(m, f)), b1 = param(n, "b1", 1, DIMS(f));
    const int32_t f0 = op(n, LUO_HAP_LINEAR, "bsm,mf,f->bsf", "", NULL, IN(x, w1, b1), "f0");
    const int32_t f1 = op(n, LUO_HAP_UNARY, "bsf->bsf", "", NULL, IN(f0), "f1");
    const int32_t w2 = param(n, "w2", 2, DIMS(f, m)), b2 = param(n, "b2", 1, DIMS(m));
    return op(n, LUO_HAP_LINEAR, "bsf,fm,m->bsm", "", NULL, IN(f1, w2, b2), "f2");
}

static int32_t expert_layer(const net *n, int32_t x, const luo_hap_sizes *z)
{
    const int64_t m = z->width, f = z->feed_forward, E = z->experts;
    const int32_t wg = param(n, "wg", 2, DIMS(m, E));
    const int32_t D =
        op(n, LUO_HAP_GATE, "bsm,mE->bsEc,bsEc", "smEc", DIMS(z->capacity), IN(x, wg), "g");
    const int32_t u = op(n, LUO_HAP_DISPATCH, "bsm,bsEc->bEcm", "", NULL, IN(x, D), "u");
    const int32_t w1 = param(n, "w1", 3, DIMS(E, m, f));
    const int32_t f0 = op(n, LUO_HAP_EXPERT, "bEcm,Emf->bEcf", "", NULL, IN(u, w1), "e0");
    const int32_t f1 = op(n, LUO_HAP_UNARY, "bEcf->bEcf", "", NULL, IN(f0), "e1");
    const int32_t w2 = param(n, "w2", 3, DIMS(E, f, m));
    const int32_t f2 = op(n, LUO_HAP_EXPERT, "bEcf,Efm->bEcm", "", NULL, IN(f1, w2), "f0");
    return op(n, LUO_HAP_COMBINE, "bEcm,bsEc->bsm", "", NULL, IN(f2, D + 1), "f2");
}

static int32_t block(const net *n, int32_t x, const luo_hap_sizes *z, bool experts)
{
    const int64_t m = z->width, h = z->heads, e = z->width / z->heads;
    const int32_t w = param(n, "wqkv", 4, DIMS(m, 3, h, e)), v = param(n, "bqkv", 3, DIMS(3, h, e));
    const int32_t q =
        op(n, LUO_HAP_QKV, "bsm,mphe,phe->bshe,bshe,bshe", "pe", NULL, IN(x, w, v), "q");
    const int32_t o =
        op(n, LUO_HAP_ATTENTION, "bshe,bthe,bthe->bshe", "ste", NULL, IN(q, q + 1, q + 2), "o");
    const int32_t wo = param(n, "wo", 3, DIMS(h, e, m)), bo = param(n, "bo", 1, DIMS(m));
    const int32_t y = op(n, LUO_HAP_LINEAR, "bshe,hem,m->bsm", "e", NULL, IN(o, wo, bo), "z");
    const int32_t first = add_norm(n, x, y, m, "1");
    const int32_t second = experts ? expert_layer(n, first, z) : feed_forward(n, first, z);
    return add_norm(n, first, second, m, "2");
}

static int32_t blocks_of(net *n, int32_t x, const luo_hap_sizes *z, int32_t blocks)
{
    for (int32_t i = 0; i < blocks; i++) {
        snprintf(n->prefix, sizeof n->prefix, "%d.", i);
        x = block(n, x, z, z->experts > 0 && i % 2 == 1);
    }
    n->prefix[0] = 0;
    return x;
}

luo_hap_graph *luo_hap_graphs_bert(luo_arena *arena, const luo_hap_sizes *z, int32_t blocks)
{
    net n = {luo_hap_graph_new(arena, 4), ""};
    const int64_t b = z->batch, s = z->tokens, m = z->width;
    const int32_t ids = luo_hap_graph_leaf(n.g, "ids", LUO_HAP_INPUT, true, 2, DIMS(b, s));
    const int32_t E = param(&n, "E", 2, DIMS(z->words, m)), P = param(&n, "P", 2, DIMS(s, m));
    int32_t x = op(&n, LUO_HAP_EMBEDDING, "bs,vm->bsm", "", NULL, IN(ids, E), "x0");
    x = op(&n, LUO_HAP_ADD, "bsm,sm->bsm", "", NULL, IN(x, P), "x1");
    x = blocks_of(&n, x, z, blocks);
    const int32_t w = param(&n, "WD", 2, DIMS(m, z->words)), v = param(&n, "bD", 1, DIMS(z->words));
    x = op(&n, LUO_HAP_LINEAR, "bsm,mv,v->bsv", "", NULL, IN(x, w, v), "logits");
    loss(&n, x, "bsv,bs->", 2, DIMS(b, s));
    return n.g;
}

luo_hap_graph *luo_hap_graphs_vit(luo_arena *arena, int64_t batch)
{
    enum { PATCHES = 64, PATCH = 48, WIDTH = 768, CLASSES = 10 };
    const luo_hap_sizes z = {batch, PATCHES + 1, WIDTH, 12, 3072, 0, 0, 0};
    net n = {luo_hap_graph_new(arena, 4), ""};
    int32_t x =
        luo_hap_graph_leaf(n.g, "patches", LUO_HAP_INPUT, false, 3, DIMS(batch, PATCHES, PATCH));
    const int32_t w = param(&n, "wp", 2, DIMS(PATCH, WIDTH)), v = param(&n, "bp", 1, DIMS(WIDTH));
    x = op(&n, LUO_HAP_LINEAR, "bup,pm,m->bum", "", NULL, IN(x, w, v), "x0");
    const int32_t token = param(&n, "cls", 1, DIMS(WIDTH));
    x = op(&n, LUO_HAP_APPEND, "bum,m->bsm", "us", DIMS(PATCHES + 1), IN(x, token), "x1");
    const int32_t P = param(&n, "P", 2, DIMS(PATCHES + 1, WIDTH));
    x = op(&n, LUO_HAP_ADD, "bsm,sm->bsm", "", NULL, IN(x, P), "x2");
    x = blocks_of(&n, x, &z, 12);
    x = op(&n, LUO_HAP_TAKE, "bsm->bm", "s", NULL, IN(x), "t");
    const int32_t wd = param(&n, "wd", 2, DIMS(WIDTH, CLASSES)),
                  vd = param(&n, "bd", 1, DIMS(CLASSES));
    x = op(&n, LUO_HAP_LINEAR, "bm,mv,v->bv", "", NULL, IN(x, wd, vd), "logits");
    loss(&n, x, "bv,b->", 1, DIMS(batch));
    return n.g;
}

luo_hap_graph *luo_hap_graphs_vgg19(luo_arena *arena, int64_t batch)
{
    static const int32_t channels[] = {64,  64,  0,   128, 128, 0,   256, 256, 256, 256, 0,
                                       512, 512, 512, 512, 0,   512, 512, 512, 512, 0};
    static const int32_t width[] = {4096, 4096, 10};
    net n = {luo_hap_graph_new(arena, 4), ""};
    int64_t c = 3, side = 32;
    int32_t x =
        luo_hap_graph_leaf(n.g, "images", LUO_HAP_INPUT, false, 4, DIMS(batch, c, side, side));
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        snprintf(n.prefix, sizeof n.prefix, "%d.", (int)i);
        if (channels[i] == 0) {
            side /= 2;
            x = op(&n, LUO_HAP_POOL, "bcij->bcIJ", "ijIJ", DIMS(side, side), IN(x), "p");
            continue;
        }
        const int32_t w = param(&n, "w", 4, DIMS(channels[i], c, 3, 3));
        const int32_t v = param(&n, "v", 1, DIMS(channels[i]));
        x = op(&n, LUO_HAP_CONV, "bcij,ockl,o->boij", "ijkl", NULL, IN(x, w, v), "h");
        x = op(&n, LUO_HAP_UNARY, "boij->boij", "ij", NULL, IN(x), "a");
        c = channels[i];
    }
    n.prefix[0] = 0;
    x = op(&n, LUO_HAP_ADAPTIVE_POOL, "bcij->bcIJ", "ijIJ", DIMS(7, 7), IN(x), "p");
    for (int32_t l = 0; l < 3; l++) {
        snprintf(n.prefix, sizeof n.prefix, "c%d.", l);
        const int32_t w = l ? param(&n, "w", 2, DIMS(4096, width[l]))
                            : param(&n, "w", 4, DIMS(c, 7, 7, width[l]));
        const int32_t v = param(&n, "v", 1, DIMS(width[l]));
        x = op(&n, LUO_HAP_LINEAR, l ? "bc,cn,n->bn" : "bcIJ,cIJn,n->bn", l ? "" : "IJ", NULL,
               IN(x, w, v), "h");
        if (l < 2) x = op(&n, LUO_HAP_UNARY, "bn->bn", "", NULL, IN(x), "a");
    }
    n.prefix[0] = 0;
    loss(&n, x, "bn,b->", 1, DIMS(batch));
    return n.g;
}

luo_hap_graph *luo_hap_graphs_named(luo_arena *arena, const char *name, int32_t n, int32_t blocks)
{
    luo_hap_sizes z = {32 * n, 128, 768, 12, 3072, 33280, 0, 0};
    if (strcmp(name, "vgg19") == 0) return luo_hap_graphs_vgg19(arena, z.batch);
    if (strcmp(name, "vit") == 0) return luo_hap_graphs_vit(arena, z.batch);
    if (strcmp(name, "bert-moe") == 0) {
        z.experts = 2 * n;
        z.capacity = (int64_t)ceil(128. / (double)z.experts * 2.5);
    }
    return luo_hap_graphs_bert(arena, &z, blocks ? blocks : 12);
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
