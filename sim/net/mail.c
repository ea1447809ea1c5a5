/* mail.c: messages between classes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/overlap.h"
#include "sim/net/traffic.h"

typedef struct use { /* a message as one of its ends sees it */
    sim_key key;
    int32_t src_class, dst_class;
    bool receive;
    int32_t class, instr, src, dst; /* class of this end; devices */
    int64_t bytes;
} use;

typedef struct class_post {
    int32_t class, instr;
    bool receive;
    sim_post post;
} class_post;

typedef struct mailer {
    sim_maker *k;
    use *uses;
    int32_t nuses, room_uses;
    sim_channel *channels;
    int32_t nchannels, room_channels;
    class_post *posts;
    int32_t nposts, room_posts;
    sim_post *dealt; /* the posts as instructions have them */
} mailer;

static int by_channel(const use *x, const use *y)
{
    const int order = sim_key_order(&x->key, &y->key);
    if (order) return order;
    if (x->src_class != y->src_class) return x->src_class < y->src_class ? -1 : 1;
    return (x->dst_class > y->dst_class) - (x->dst_class < y->dst_class);
}

static int by_post(const use *x, const use *y)
{
    if (x->receive != y->receive) return x->receive ? 1 : -1;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    return (x->instr > y->instr) - (x->instr < y->instr);
}

static int by_all(const void *a, const void *b)
{
    const use *x = a, *y = b;
    int order = by_channel(x, y);
    if (order == 0) order = by_post(x, y);
    if (order) return order;
    if (x->src != y->src) return x->src < y->src ? -1 : 1;
    return (x->dst > y->dst) - (x->dst < y->dst);
}

static luo_status collect_slot(mailer *m, int32_t class, int32_t device, const luo_instr *in,
                               const luo_slot *slot)
{
    const int32_t *class_of = m->k->net->class_of;
    for (int32_t i = 0; i < slot->nmessage; i++) {
        const luo_message *msg = &slot->message[i];
        const int32_t src = msg->send ? device : msg->peer, dst = msg->send ? msg->peer : device;
        LUO_TRY(sim_maker_room(m->k, &m->uses, m->nuses, &m->room_uses, sizeof *m->uses));
        m->uses[m->nuses++] = (use){sim_key_of(in), class_of[src], class_of[dst], !msg->send,
                                    class,           in->id,       src,          dst,
                                    sim_message_bytes(m->k->net, in, src, dst, msg->bytes)};
    }
    return LUO_OK;
}

static luo_status collect(mailer *m)
{
    const sim_net *net = m->k->net;
    for (int32_t l = 0; l < net->nclasses; l++) {
        const sim_class *class = &net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++)
            for (int32_t d = 0; class->ops[i].what == SIM_MAIL && d < class->n; d++)
                LUO_TRY(collect_slot(m, l, net->set->at[class->member[d]].device,
                                     &class->role->instr[i],
                                     sim_slot(net, class, d, &class->role->instr[i])));
    }
    return LUO_OK;
}

/* What does not grow with bytes. */
static void fixed_part(const sim_net *net, const use *u, double *fixed)
{
    luo_flow flow;
    luo_cost_p2p_flow(&net->cost, u->src, u->dst, u->bytes, &flow);
    *fixed = flow.delay_s + luo_cluster_path_latency(net->config->cluster, u->src, u->dst);
}

/* Closed form of messages in order of (src, dst): the device with most to send or to receive. Rows
 * of experts wait for each other's bytes alone, as between classes. */
static luo_status price(sim_maker *maker, const use *u, int32_t n, double *seconds)
{
    const sim_net *net = maker->net;
    const bool rows = luo_instr_trades(&net->classes[u->class].role->instr[u->instr]);
    double *s = luo_arena_alloc(maker->flows, (size_t)n * sizeof *s), fixed = 0;
    if (!s) return luo_err_nomem(maker->err);
    *seconds = 0;
    for (int32_t i = 0; i < n; i++) {
        double out = 0, back = 0, own = 0;
        s[i] = luo_cost_p2p_seconds(&net->cost, u[i].src, u[i].dst, u[i].bytes, 0);
        if (rows) fixed_part(net, &u[i], &own);
        s[i] -= own;
        fixed = fmax(fixed, own);
        for (int32_t j = 0; j <= i; j++) {
            out += u[j].src == u[i].src ? s[j] : 0;
            back += u[j].dst == u[i].dst ? s[j] : 0;
        }
        *seconds = fmax(*seconds, fmax(out, back));
    }
    *seconds += fixed;
    return LUO_OK;
}

static luo_status make_traffic(sim_maker *maker, const use *u, int32_t n, int32_t *id)
{
    const double factor = luo_overlap_exposed_factor(
        maker->net->config->stack, &maker->net->classes[u->class].role->instr[u->instr]);
    double seconds = 0;
    luo_arena_reset(maker->flows, 0);
    LUO_TRY(price(maker, u, n, &seconds));
    seconds *= factor;
    for (int32_t i = 0; i < n; i++) {
        luo_flow flow;
        luo_cost_p2p_flow(&maker->net->cost, u[i].src, u[i].dst, u[i].bytes, &flow);
        const double latency =
            luo_cluster_path_latency(maker->net->config->cluster, u[i].src, u[i].dst);
        const sim_message msg = {flow.src, flow.dst, flow.bytes * factor,
                                 (flow.delay_s + latency) * factor, (double)u[i].bytes};
        LUO_TRY(sim_maker_message(maker, &msg));
    }
    LUO_TRY(sim_maker_close(maker, seconds, 1, id));
    if (maker->net->classes[u->src_class].thread &&
        maker->net->classes[u->src_class].node == maker->net->classes[u->dst_class].node &&
        sim_net_threads(maker->arena, maker->net, &u->dst_class, 1, seconds, &maker->traffics[*id]))
        return luo_err_nomem(maker->err);
    return LUO_OK;
}

/* The messages of one instruction in one channel, from one end. */
static luo_status make_post(mailer *m, const use *u, int32_t n)
{
    sim_channel *channel = &m->channels[m->nchannels];
    sim_post post = {.channel = m->nchannels, .traffic = -1};
    for (int32_t i = 0; i < n; i++) post.bytes += u[i].bytes;
    if (u->receive) channel->nreceive++;
    else channel->nsend++;
    if (!u->receive && channel->dst >= 0) LUO_TRY(make_traffic(m->k, u, n, &post.traffic));
    LUO_TRY(sim_maker_room(m->k, &m->posts, m->nposts, &m->room_posts, sizeof *m->posts));
    m->posts[m->nposts++] = (class_post){u->class, u->instr, u->receive, post};
    return LUO_OK;
}

static luo_status make_channel(mailer *m, const use *u, int32_t n)
{
    LUO_TRY(sim_maker_room(m->k, &m->channels, m->nchannels, &m->room_channels,
                           sizeof *m->channels));
    m->channels[m->nchannels] =
        (sim_channel){u->src_class, u->dst_class, u->src, u->dst, 0, 0};
    for (int32_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && by_post(&u[i], &u[i + same]) == 0;) same++;
        LUO_TRY(make_post(m, u + i, same));
    }
    m->nchannels++;
    return LUO_OK;
}

static sim_cross *cross_of(const mailer *m, const class_post *post)
{
    const sim_class *class = &m->k->net->classes[post->class];
    return &class->cross[class->ops[post->instr].cross];
}

/* Hands every instruction its posts, in the order of channels. */
static luo_status deal(mailer *m)
{
    sim_post *room = LUO_NEW_N(m->k->arena, sim_post, m->nposts);
    if (!room) return luo_err_nomem(m->k->err);
    m->dealt = room;
    for (int32_t i = 0; i < m->nposts; i++) {
        sim_cross *cross = cross_of(m, &m->posts[i]);
        cross->rendezvous = -1;
        (*(m->posts[i].receive ? &cross->nin : &cross->nout))++;
    }
    for (int32_t i = 0; i < m->nposts; i++) {
        sim_cross *cross = cross_of(m, &m->posts[i]);
        if (cross->out) continue;
        cross->out = room;
        cross->in = room + cross->nout;
        room += cross->nout + cross->nin;
        cross->nout = cross->nin = 0;
    }
    for (int32_t i = 0; i < m->nposts; i++) {
        sim_cross *cross = cross_of(m, &m->posts[i]);
        if (m->posts[i].receive) ((sim_post *)cross->in)[cross->nin++] = m->posts[i].post;
        else ((sim_post *)cross->out)[cross->nout++] = m->posts[i].post;
    }
    return LUO_OK;
}

/* ---- messages of one instruction in closed form ---- */

/* What a device sends to several classes goes one after another over the same kind of link, inside
 * its node or out of it; other devices of the class send beside it. */
static luo_status take_turns(mailer *m, const sim_class *class, const luo_instr *in,
                             const sim_cross *cross)
{
    const sim_net *net = m->k->net;
    const luo_device *at = net->config->cluster->devices;
    for (int32_t d = 0; d < class->n; d++) {
        const luo_slot *slot = sim_slot(net, class, d, in);
        const int32_t src = net->set->at[class->member[d]].device;
        double sent[2] = {0, 0};
        for (int32_t k = 0; k < cross->nout; k++) {
            sim_post *post = (sim_post *)&cross->out[k];
            const int32_t to = m->channels[post->channel].dst;
            double own = 0;
            bool far = false;
            for (int32_t i = 0; i < slot->nmessage && post->traffic >= 0; i++) {
                const luo_message *msg = &slot->message[i];
                if (!msg->send || net->class_of[msg->peer] != to) continue;
                far = at[msg->peer].node != at[src].node;
                const double s =
                    luo_cost_p2p_seconds(&net->cost, src, msg->peer,
                                         sim_message_bytes(net, in, src, msg->peer, msg->bytes), 0);
                own += s * luo_overlap_exposed_factor(net->config->stack, in);
            }
            if (own <= 0) continue;
            post->before_s = fmax(post->before_s, sent[far]);
            sent[far] += fmax(0, own - m->k->traffics[post->traffic].fixed_s);
        }
    }
    return LUO_OK;
}

/* What was sent into a channel, latest first: positions in the posts that were dealt. */
typedef struct dealt {
    const sim_post *post;
    int32_t *last, *before; /* by channel; by post; -1: none */
} dealt;

static luo_status index_sent(mailer *m, dealt *out)
{
    const int32_t n = m->nposts;
    *out = (dealt){.last = LUO_NEW_N(m->k->arena, int32_t, m->nchannels),
                   .before = LUO_NEW_N(m->k->arena, int32_t, n)};
    if (!out->last || !out->before) return luo_err_nomem(m->k->err);
    for (int32_t c = 0; c < m->nchannels; c++) out->last[c] = -1;
    out->post = m->dealt;
    for (int32_t i = 0; i < n; i++) {
        const sim_post *post = &out->post[i];
        if (post->traffic < 0) continue;
        out->before[i] = out->last[post->channel];
        out->last[post->channel] = i;
    }
    return LUO_OK;
}

/* Seconds in which `dst` gets what a class sends it, and whether that comes from another node. */
static luo_status gets(const mailer *m, const luo_instr *in, const luo_slot *slot, int32_t dst,
                       int32_t from, double *seconds, bool *far)
{
    const sim_net *net = m->k->net;
    const luo_device *at = net->config->cluster->devices;
    *seconds = 0;
    for (int32_t i = 0; i < slot->nmessage; i++) {
        const luo_message *msg = &slot->message[i];
        if (msg->send || net->class_of[msg->peer] != from) continue;
        *far = at[msg->peer].node != at[dst].node;
        const double s = luo_cost_p2p_seconds(
            &net->cost, msg->peer, dst, sim_message_bytes(net, in, msg->peer, dst, msg->bytes), 0);
        *seconds += s * luo_overlap_exposed_factor(net->config->stack, in);
    }
    return LUO_OK;
}

/* What a leader gets from several classes comes one after another as well, however devices are
 * folded into classes: they all begin at once. */
static luo_status take_turns_in(mailer *m, const dealt *sent, const sim_class *class,
                                const luo_instr *in, const sim_cross *cross)
{
    const sim_net *net = m->k->net;
    for (int32_t d = 0; d < class->n; d++) {
        double got[2] = {0, 0};
        for (int32_t k = 0; k < cross->nin; k++) {
            const int32_t c = cross->in[k].channel;
            double own, most = 0;
            bool far = false;
            LUO_TRY(gets(m, in, sim_slot(net, class, d, in), net->set->at[class->member[d]].device,
                         m->channels[c].src, &own, &far));
            for (int32_t i = sent->last[c]; i >= 0 && own > 0; i = sent->before[i]) {
                sim_post *post = (sim_post *)&sent->post[i];
                post->before_s = fmax(post->before_s, got[far]);
                most = fmax(most, own - m->k->traffics[post->traffic].fixed_s);
            }
            got[far] += most;
        }
    }
    return LUO_OK;
}

static luo_status find_turns_in(mailer *m)
{
    const sim_net *net = m->k->net;
    dealt sent;
    LUO_TRY(index_sent(m, &sent));
    for (int32_t l = 0; l < net->nclasses; l++) {
        const sim_class *class = &net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++) {
            const sim_op *op = &class->ops[i];
            const luo_instr *in = &class->role->instr[i];
            if (op->what != SIM_MAIL || !luo_instr_trades(in) || class->cross[op->cross].nin < 2)
                continue;
            LUO_TRY(take_turns_in(m, &sent, class, in, &class->cross[op->cross]));
        }
    }
    return LUO_OK;
}

static luo_status find_turns(mailer *m)
{
    const sim_net *net = m->k->net;
    for (int32_t l = 0; l < net->nclasses; l++) {
        const sim_class *class = &net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++) {
            const sim_op *op = &class->ops[i];
            if (op->what != SIM_MAIL || class->cross[op->cross].nout < 2) continue;
            LUO_TRY(take_turns(m, class, &class->role->instr[i], &class->cross[op->cross]));
        }
    }
    return LUO_OK;
}

luo_status sim_make_channels(sim_maker *maker)
{
    mailer m = {.k = maker};
    LUO_TRY(collect(&m));
    if (m.nuses > 1) qsort(m.uses, (size_t)m.nuses, sizeof *m.uses, by_all);
    for (int32_t i = 0, n; i < m.nuses; i += n) {
        for (n = 1; i + n < m.nuses && by_channel(&m.uses[i], &m.uses[i + n]) == 0;) n++;
        LUO_TRY(make_channel(&m, m.uses + i, n));
    }
    LUO_TRY(deal(&m));
    LUO_TRY(find_turns(&m));
    LUO_TRY(find_turns_in(&m));
    sim_channel *out = LUO_NEW_N(maker->arena, sim_channel, m.nchannels);
    if (!out) return luo_err_nomem(maker->err);
    if (m.nchannels) memcpy(out, m.channels, (size_t)m.nchannels * sizeof *out);
    maker->net->channels = out;
    maker->net->nchannels = m.nchannels;
    return LUO_OK;
}
