/* topo.c: what `nvidia-smi topo -m` prints of a node. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/convert/node.h"

enum { COLUMNS = 2 * CONVERT_SLOTS, WORD = 24 };

typedef struct topo {
    convert_job *job;
    convert_node node;
    int32_t gpu[COLUMNS]; /* of a column: which GPU; -1: no GPU */
    int32_t ncolumns;
    int32_t pcie_switch[CONVERT_SLOTS]; /* the first GPU that is below the same switch */
    int line, rows;
} topo;

/* The next word of a line, without escapes of a terminal. False: there is none. */
static bool next_word(const char **at, const char *end, char word[WORD])
{
    int n = 0;
    for (const char *p = *at; p < end; p++) {
        if (*p == 27) {
            while (p < end && !isalpha((unsigned char)*p)) p++;
        } else if (!isspace((unsigned char)*p)) {
            if (n < WORD - 1) word[n++] = *p;
        } else if (n) {
            *at = p;
            word[n] = 0;
            return true;
        }
    }
    *at = end;
    word[n] = 0;
    return n > 0;
}

static bool is_named(const char *word, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(word, prefix, n) == 0 && isdigit((unsigned char)word[n]);
}

static bool is_nic(const char *word)
{
    return is_named(word, "NIC") || strncmp(word, "mlx", 3) == 0 || is_named(word, "ib");
}

static luo_status read_header(topo *t, const char *at, const char *end)
{
    char word[WORD];
    while (next_word(&at, end, word) && t->ncolumns < COLUMNS) {
        if (strcmp(word, "CPU") == 0 || strcmp(word, "NUMA") == 0) break;
        const bool gpu = is_named(word, "GPU");
        if (!gpu && !is_nic(word)) break;
        t->gpu[t->ncolumns++] = gpu ? t->node.devices++ : -1;
        t->node.nics += !gpu;
        if (t->node.devices == CONVERT_SLOTS) break;
    }
    return LUO_OK;
}

/* How GPU a lies to GPU b: X, NV12, PIX .. */
static luo_status take_way(topo *t, int32_t a, int32_t b, const char *way)
{
    static const char *const ways[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", NULL};
    if (strncmp(way, "NV", 2) == 0 && isdigit((unsigned char)way[2])) {
        t->node.lanes[a][b] = atoi(way + 2);
        return LUO_OK;
    }
    int k = 0;
    while (ways[k] && strcmp(ways[k], way) != 0) k++;
    if (!ways[k])
        return convert_error(t->job, t->line, 1,
                             "the way from GPU%d to GPU%d is `%s`; NV# or one of X, PIX, PXB, PHB, "
                             "NODE, SYS is expected.",
                             a, b, way);
    if (k == 1 && t->pcie_switch[b] < t->pcie_switch[a]) t->pcie_switch[a] = t->pcie_switch[b];
    return LUO_OK;
}

/* "0-31" or "0": the range of processors tells the socket where NVLinks hide the way. */
static int32_t first_cpu(const char *word)
{
    return isdigit((unsigned char)*word) ? atoi(word) : -1;
}

static luo_status read_row(topo *t, int32_t a, const char *at, const char *end, int32_t *cpu)
{
    char word[WORD];
    for (int32_t c = 0; c < t->ncolumns; c++) {
        if (!next_word(&at, end, word))
            return convert_error(t->job, t->line, 1, "the row of GPU%d has %d of %d columns.", a, c,
                                 t->ncolumns);
        if (t->gpu[c] >= 0) LUO_TRY(take_way(t, a, t->gpu[c], word));
    }
    cpu[a] = next_word(&at, end, word) ? first_cpu(word) : -1;
    t->rows++;
    return LUO_OK;
}

/* Sockets by their processors: GPUs of a node lie on them evenly here. */
static void count_places(topo *t, const int32_t *cpu)
{
    const int32_t n = t->node.devices;
    int32_t sockets = 0, switches = 0;
    for (int32_t a = 0; a < n; a++) {
        bool seen = false;
        for (int32_t b = 0; b < a; b++) seen |= cpu[b] == cpu[a];
        sockets += !seen;
        switches += t->pcie_switch[a] == a;
    }
    t->node.sockets = sockets && n % sockets == 0 ? sockets : 1;
    if (switches && switches < n && n % switches == 0) t->node.devices_per_switch = n / switches;
}

luo_status convert_topo(convert_job *job)
{
    topo *t = LUO_NEW(job->arena, topo);
    int32_t cpu[CONVERT_SLOTS];
    if (!t) return convert_nomem(job);
    *t = (topo){.job = job};
    for (int32_t i = 0; i < CONVERT_SLOTS; i++) {
        t->pcie_switch[i] = i;
        cpu[i] = -1;
    }
    const char *stop = job->src.text + job->src.len;
    for (const char *at = job->src.text; at < stop;) {
        const char *nl = memchr(at, '\n', (size_t)(stop - at)), *end = nl ? nl : stop, *rest = at;
        char word[WORD];
        t->line++;
        if (next_word(&rest, end, word)) {
            if (t->ncolumns == 0 && is_named(word, "GPU"))
                LUO_TRY(read_header(t, at, end));
            else if (is_named(word, "GPU") && atoi(word + 3) < t->node.devices)
                LUO_TRY(read_row(t, atoi(word + 3), rest, end, cpu));
        }
        at = end + 1;
    }
    if (t->rows == 0 || t->rows != t->node.devices)
        return convert_error(job, 0, 0,
                             "it has rows of %d of %d GPUs; the matrix of `nvidia-smi "
                             "topo -m` is expected.",
                             t->rows, t->node.devices);
    count_places(t, cpu);
    return convert_node_file(job, &t->node);
}
