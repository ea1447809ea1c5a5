/* hap_network.c: the networks of the published evaluation of HAP, operation by operation: their
 * sizes are those of its public code (repository alibaba/hap: config.py, models.py). */
#include "core/plan/hap_graph/hap_network.h"

#include <math.h>
#include <stdio.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define IN(...) ((const int32_t[]){__VA_ARGS__})

/* Base encoders; images of 32 x 32 in patches of 4 x 4 pixels of 3 colours. */
enum {
    BLOCKS = 12,
    WIDTH = 768,
    HEADS = 12,
    FEED_FORWARD = 3072,
    TOKENS = 128,
    WORDS = 33280,
    PATCHES = 64,
    PATCH = 48,
    CLASSES = 10
};

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

static int32_t feed_forward(const net *n, int32_t x, const luo_hap_encoder *encoder)
{
    const int64_t m = encoder->width, f = encoder->feed_forward;
    const int32_t w1 = param(n, "w1", 2, DIMS(m, f)), b1 = param(n, "b1", 1, DIMS(f));
    const int32_t f0 = op(n, LUO_HAP_LINEAR, "bsm,mf,f->bsf", "", NULL, IN(x, w1, b1), "f0");
    const int32_t f1 = op(n, LUO_HAP_UNARY, "bsf->bsf", "", NULL, IN(f0), "f1");
    const int32_t w2 = param(n, "w2", 2, DIMS(f, m)), b2 = param(n, "b2", 1, DIMS(m));
    return op(n, LUO_HAP_LINEAR, "bsf,fm,m->bsm", "", NULL, IN(f1, w2, b2), "f2");
}

static int32_t expert_layer(const net *n, int32_t x, const luo_hap_encoder *encoder)
{
    const int64_t m = encoder->width, f = encoder->feed_forward, E = encoder->experts;
    const int32_t wg = param(n, "wg", 2, DIMS(m, E));
    const int32_t D =
        op(n, LUO_HAP_GATE, "bsm,mE->bsEc,bsEc", "smEc", DIMS(encoder->capacity), IN(x, wg), "g");
    const int32_t u = op(n, LUO_HAP_DISPATCH, "bsm,bsEc->bEcm", "", NULL, IN(x, D), "u");
    const int32_t w1 = param(n, "w1", 3, DIMS(E, m, f));
    const int32_t f0 = op(n, LUO_HAP_EXPERT, "bEcm,Emf->bEcf", "", NULL, IN(u, w1), "e0");
    const int32_t f1 = op(n, LUO_HAP_UNARY, "bEcf->bEcf", "", NULL, IN(f0), "e1");
    const int32_t w2 = param(n, "w2", 3, DIMS(E, f, m));
    const int32_t f2 = op(n, LUO_HAP_EXPERT, "bEcf,Efm->bEcm", "", NULL, IN(f1, w2), "f0");
    return op(n, LUO_HAP_COMBINE, "bEcm,bsEc->bsm", "", NULL, IN(f2, D + 1), "f2");
}

static int32_t block(const net *n, int32_t x, const luo_hap_encoder *encoder, bool experts)
{
    const int64_t m = encoder->width, h = encoder->heads, e = encoder->width / encoder->heads;
    const int32_t w = param(n, "wqkv", 4, DIMS(m, 3, h, e)), v = param(n, "bqkv", 3, DIMS(3, h, e));
    const int32_t q =
        op(n, LUO_HAP_QKV, "bsm,mphe,phe->bshe,bshe,bshe", "pe", NULL, IN(x, w, v), "q");
    const int32_t o =
        op(n, LUO_HAP_ATTENTION, "bshe,bthe,bthe->bshe", "ste", NULL, IN(q, q + 1, q + 2), "o");
    const int32_t wo = param(n, "wo", 3, DIMS(h, e, m)), bo = param(n, "bo", 1, DIMS(m));
    const int32_t y = op(n, LUO_HAP_LINEAR, "bshe,hem,m->bsm", "e", NULL, IN(o, wo, bo), "z");
    const int32_t first = add_norm(n, x, y, m, "1");
    const int32_t second =
        experts ? expert_layer(n, first, encoder) : feed_forward(n, first, encoder);
    return add_norm(n, first, second, m, "2");
}

static int32_t blocks_of(net *n, int32_t x, const luo_hap_encoder *encoder, int32_t blocks)
{
    for (int32_t i = 0; i < blocks; i++) {
        snprintf(n->prefix, sizeof n->prefix, "%d.", i);
        n->g->block = i;
        x = block(n, x, encoder, encoder->experts > 0 && i % 2 == 1);
    }
    n->prefix[0] = 0;
    n->g->block = -1;
    return x;
}

luo_hap_graph *luo_hap_network_bert(luo_arena *arena, const luo_hap_encoder *encoder,
                                    int32_t blocks)
{
    net n = {luo_hap_graph_new(arena, 4), ""};
    const int64_t b = encoder->batch, s = encoder->tokens, m = encoder->width;
    const int32_t ids = luo_hap_graph_leaf(n.g, "ids", LUO_HAP_INPUT, true, 2, DIMS(b, s));
    const int32_t E = param(&n, "E", 2, DIMS(encoder->words, m)), P = param(&n, "P", 2, DIMS(s, m));
    int32_t x = op(&n, LUO_HAP_EMBEDDING, "bs,vm->bsm", "", NULL, IN(ids, E), "x0");
    x = op(&n, LUO_HAP_ADD, "bsm,sm->bsm", "", NULL, IN(x, P), "x1");
    x = blocks_of(&n, x, encoder, blocks);
    const int32_t w = param(&n, "WD", 2, DIMS(m, encoder->words)),
                  v = param(&n, "bD", 1, DIMS(encoder->words));
    x = op(&n, LUO_HAP_LINEAR, "bsm,mv,v->bsv", "", NULL, IN(x, w, v), "logits");
    loss(&n, x, "bsv,bs->", 2, DIMS(b, s));
    return n.g;
}

static luo_hap_graph *vit(luo_arena *arena, int64_t batch)
{
    const luo_hap_encoder encoder = {batch, PATCHES + 1, WIDTH, HEADS, FEED_FORWARD, 0, 0, 0};
    net n = {luo_hap_graph_new(arena, 4), ""};
    int32_t x =
        luo_hap_graph_leaf(n.g, "patches", LUO_HAP_INPUT, false, 3, DIMS(batch, PATCHES, PATCH));
    const int32_t w = param(&n, "wp", 2, DIMS(PATCH, WIDTH)), v = param(&n, "bp", 1, DIMS(WIDTH));
    x = op(&n, LUO_HAP_LINEAR, "bup,pm,m->bum", "", NULL, IN(x, w, v), "x0");
    const int32_t token = param(&n, "cls", 1, DIMS(WIDTH));
    x = op(&n, LUO_HAP_APPEND, "bum,m->bsm", "us", DIMS(PATCHES + 1), IN(x, token), "x1");
    const int32_t P = param(&n, "P", 2, DIMS(PATCHES + 1, WIDTH));
    x = op(&n, LUO_HAP_ADD, "bsm,sm->bsm", "", NULL, IN(x, P), "x2");
    x = blocks_of(&n, x, &encoder, BLOCKS);
    x = op(&n, LUO_HAP_TAKE, "bsm->bm", "s", NULL, IN(x), "t");
    const int32_t wd = param(&n, "wd", 2, DIMS(WIDTH, CLASSES)),
                  vd = param(&n, "bd", 1, DIMS(CLASSES));
    x = op(&n, LUO_HAP_LINEAR, "bm,mv,v->bv", "", NULL, IN(x, wd, vd), "logits");
    loss(&n, x, "bv,b->", 1, DIMS(batch));
    return n.g;
}

static luo_hap_graph *vgg19(luo_arena *arena, int64_t batch)
{
    static const int32_t channels[] = {64,  64,  0,   128, 128, 0,   256, 256, 256, 256, 0,
                                       512, 512, 512, 512, 0,   512, 512, 512, 512, 0};
    static const int32_t width[] = {4096, 4096, CLASSES};
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

/* ---- by name ---- */

static const char *const words[] = {LUO_HAP_NETWORK_LIST(LUO_WORD_ONLY)};

const char *const *luo_hap_network_names(void)
{
    return words;
}

/* Two experts a device, as published, of 2.5 times their even share of tokens. */
static void add_experts(luo_hap_encoder *sizes, int32_t devices)
{
    sizes->experts = 2 * (int64_t)devices;
    sizes->capacity = (int64_t)ceil(TOKENS / (double)sizes->experts * 2.5);
}

luo_hap_graph *luo_hap_network_graph(luo_arena *arena, luo_hap_network network, int64_t samples,
                                     int32_t devices)
{
    luo_hap_encoder sizes = {samples, TOKENS, WIDTH, HEADS, FEED_FORWARD, WORDS, 0, 0};
    switch (network) {
    case LUO_HAP_VGG19:
        return vgg19(arena, samples);
    case LUO_HAP_VIT:
        return vit(arena, samples);
    case LUO_HAP_BERT_MOE:
        add_experts(&sizes, devices);
        break;
    case LUO_HAP_BERT_BASE:
    case LUO_HAP_NETWORKS:
        break;
    }
    return luo_hap_network_bert(arena, &sizes, BLOCKS);
}
