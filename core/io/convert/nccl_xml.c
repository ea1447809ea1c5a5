/* nccl_xml.c: a topology as NCCL writes it with NCCL_TOPO_DUMP_FILE: one node. Rates are those of
 * NCCL's own table (src/graph/topo.cc). */
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/convert/node.h"

enum { DEPTH = 64, LANES = 16 };

typedef struct place {        /* an open element */
    double pcie_gbytes_per_s; /* narrowest way from here to the socket; 0: not over PCIe */
    int32_t bridge;           /* PCIe element above the device; 0: none */
    int32_t gpu;
} place;

typedef struct xml {
    convert_job *job;
    XML_Parser parser;
    convert_node node;
    place open[DEPTH];
    int32_t depth, npci, ncpus, sm;
    char bus[CONVERT_SLOTS][24]; /* of the GPUs */
    int32_t bridge[CONVERT_SLOTS];
    int32_t nlinks; /* NVLinks whose other end is a GPU */
    struct xml_link {
        int32_t from, count;
        char target[24];
    } link[CONVERT_SLOTS * CONVERT_SLOTS];
    bool failed;
} xml;

static const char *attribute(const char **pairs, const char *name)
{
    for (; *pairs; pairs += 2)
        if (strcmp(pairs[0], name) == 0) return pairs[1];
    return NULL;
}

static double number(const char **pairs, const char *name, double otherwise)
{
    const char *text = attribute(pairs, name);
    char *end;
    const double v = text ? strtod(text, &end) : otherwise;
    return text && end == text ? otherwise : v;
}

/* 100 Mbit/s units of a lane, by its speed in GT/s; eight of them are a byte, ten a Gbit. */
static double lane_units(const char *speed)
{
    static const struct {
        const char *speed;
        double units;
    } known[] = {{"2.5", 15}, {"5", 30}, {"8", 60}, {"16", 120}, {"32", 240}, {"64", 480}};
    for (size_t i = 0; speed && i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i].speed);
        const char *rest = speed + n;
        if (strncmp(speed, known[i].speed, n) != 0) continue;
        if (*rest == '.' && rest[1] == '0') rest += 2; /* 16.0 GT/s */
        if (*rest == ' ' || *rest == 0) return known[i].units;
    }
    return 60;
}

static double pcie_of(const char **pairs)
{
    const double width = number(pairs, "link_width", 0);
    return (width > 0 ? width : LANES) * lane_units(attribute(pairs, "link_speed")) / 80;
}

/* GB/s of one NVLink, one way, by compute capability. */
static double nvlink_of(int32_t sm)
{
    if (sm >= 100) return 40.1;
    if (sm >= 90) return 20.6;
    if (sm == 86) return 12;
    return sm >= 70 ? 20 : 18;
}

static void copy(char out[24], const char *text)
{
    size_t n = text ? strlen(text) : 0;
    if (n > 23) n = 23;
    if (n) memcpy(out, text, n);
    out[n] = 0;
}

static void see_gpu(xml *x, const place *above, place *here, const char **pairs)
{
    const int32_t i = x->node.devices;
    if (i == CONVERT_SLOTS) return;
    x->sm = (int32_t)number(pairs, "sm", 0);
    x->bridge[i] = above->bridge;
    if (above->pcie_gbytes_per_s > 0) x->node.pcie_gbytes_per_s = above->pcie_gbytes_per_s;
    here->gpu = ++x->node.devices;
}

static void see_nvlink(xml *x, const place *above, const char **pairs)
{
    const char *class = attribute(pairs, "tclass");
    const int32_t count = (int32_t)number(pairs, "count", 1);
    if (above->gpu == 0 || count < 1 || count > 1024) return;
    if (class && strncmp(class, "0x0680", 6) == 0) {
        if (above->gpu == 1) x->node.port_lanes += count;
    } else if (x->nlinks < CONVERT_SLOTS * CONVERT_SLOTS) {
        struct xml_link *link = &x->link[x->nlinks++];
        link->from = above->gpu - 1;
        link->count = count;
        copy(link->target, attribute(pairs, "target"));
    }
}

static void see_net(xml *x, const char **pairs)
{
    const double speed = number(pairs, "speed", 0), latency = number(pairs, "latency", 0);
    x->node.nics++;
    x->node.nic_gbytes_per_s = (speed > 0 ? speed : 10000) / 8000;
    if (latency > 0) x->node.nic_latency_us = latency;
}

static void begin(void *ctx, const char *name, const char **pairs)
{
    xml *x = ctx;
    if (x->depth + 1 >= DEPTH) {
        XML_StopParser(x->parser, XML_FALSE);
        x->failed = true;
        return;
    }
    const place above = x->open[x->depth];
    place *here = &x->open[++x->depth];
    *here = above;
    if (strcmp(name, "cpu") == 0) x->ncpus++;
    if (strcmp(name, "pci") == 0) {
        const double rate = pcie_of(pairs);
        /* the device's own element lies below its switch */
        here->bridge = above.pcie_gbytes_per_s > 0 ? above.bridge : ++x->npci;
        here->pcie_gbytes_per_s = above.pcie_gbytes_per_s > 0 && above.pcie_gbytes_per_s < rate
                                      ? above.pcie_gbytes_per_s
                                      : rate;
        if (x->node.devices < CONVERT_SLOTS)
            copy(x->bus[x->node.devices], attribute(pairs, "busid"));
    }
    if (strcmp(name, "gpu") == 0) see_gpu(x, &above, here, pairs);
    if (strcmp(name, "nvlink") == 0) see_nvlink(x, &above, pairs);
    if (strcmp(name, "net") == 0) see_net(x, pairs);
}

static void end(void *ctx, const char *name)
{
    xml *x = ctx;
    (void)name;
    if (x->depth > 0) x->depth--;
}

static void join_links(xml *x)
{
    for (int32_t i = 0; i < x->nlinks; i++)
        for (int32_t to = 0; to < x->node.devices; to++)
            if (strcmp(x->bus[to], x->link[i].target) == 0 && to != x->link[i].from)
                x->node.lanes[x->link[i].from][to] = x->link[i].count;
}

/* GPUs under the same bridge below a socket; even parts alone can be said. */
static void count_switches(xml *x)
{
    int32_t switches = 0;
    const int32_t n = x->node.devices;
    for (int32_t a = 0; a < n; a++) {
        bool seen = false;
        for (int32_t b = 0; b < a; b++) seen |= x->bridge[b] == x->bridge[a];
        switches += !seen;
    }
    if (switches && switches < n && n % switches == 0) x->node.devices_per_switch = n / switches;
}

static luo_status parse(xml *x)
{
    const luo_source *src = &x->job->src;
    XML_SetUserData(x->parser, x);
    XML_SetElementHandler(x->parser, begin, end);
    if (XML_Parse(x->parser, src->text, (int)src->len, 1) == XML_STATUS_OK && !x->failed)
        return LUO_OK;
    return convert_error(x->job, (int)XML_GetCurrentLineNumber(x->parser),
                         (int)XML_GetCurrentColumnNumber(x->parser) + 1,
                         "this is no XML that NCCL writes: %s.",
                         x->failed ? "elements lie more than 64 deep"
                                   : XML_ErrorString(XML_GetErrorCode(x->parser)));
}

luo_status convert_nccl_xml(convert_job *job)
{
    xml *x = LUO_NEW(job->arena, xml);
    if (!x) return convert_nomem(job);
    *x = (xml){.job = job, .parser = XML_ParserCreate(NULL)};
    if (!x->parser) return convert_nomem(job);
    const luo_status st = parse(x);
    XML_ParserFree(x->parser);
    if (st != LUO_OK) return st;
    if (x->node.devices == 0)
        return convert_error(job, 0, 0,
                             "there is no GPU in it; a file of NCCL_TOPO_DUMP_FILE is "
                             "expected.");
    join_links(x);
    count_switches(x);
    x->node.lane_gbytes_per_s = nvlink_of(x->sm);
    x->node.sockets = x->ncpus && x->node.devices % x->ncpus == 0 ? x->ncpus : 1;
    return convert_node_file(job, &x->node);
}
