/* fuzz_clicks.c: libFuzzer target of click logs: a text is read as what it looks like, Avazu's CSV
 * by a name of its header, Criteo's rows by a tab, else lines of keys. The reader takes files of
 * any length, so the text stands in a file that is memory. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/io/clicks/clicks_read.h"
#include "tests/fuzz/fuzz_io.h"

static luo_clicks_form form_of(const uint8_t *data, size_t size)
{
    static const char name[] = "banner_pos";
    if (memmem(data, size, name, sizeof name - 1)) return LUO_CLICKS_AVAZU;
    return size && memchr(data, '\t', size) ? LUO_CLICKS_CRITEO : LUO_CLICKS_KEYS;
}

static void judge_graph(luo_arena *arena, const luo_clicks *c)
{
    luo_bigraph graph;
    want(luo_clicks_graph(arena, c, &graph, NULL) == LUO_OK);
    want(graph.samples == c->samples && graph.embeds == c->embeds);
    for (int32_t i = 0; i < c->samples; i++) {
        const int64_t uses = graph.first[i + 1] - graph.first[i];
        want(uses >= 1 && uses <= c->slots);
    }
}

/* Keys ascend, each is used, and none of the numbers is of no key. */
static void judge_keys(luo_arena *arena, const luo_clicks *c)
{
    bool *used = LUO_NEW_N(arena, bool, c->embeds);
    want(used != NULL);
    for (int64_t i = 0; i < (int64_t)c->samples * c->slots; i++) {
        want(c->embed[i] >= 0 && c->embed[i] < c->embeds);
        used[c->embed[i]] = true;
    }
    for (int32_t e = 0; e < c->embeds; e++)
        want(used[e] && c->key[e] <= INT64_MAX && (e == 0 || c->key[e] > c->key[e - 1]));
    for (int32_t i = 0; c->clicked && i < c->samples; i++) want(c->clicked[i] <= 1);
}

static void read_it(luo_arena *arena, const char *path, luo_clicks_form form)
{
    luo_diags diags;
    luo_clicks c = {.samples = -1};
    luo_diags_init(&diags, arena);
    const luo_status st = luo_clicks_read(arena, path, form, &c, &diags);
    fuzz_judge(st, &diags);
    want((st == LUO_OK) == (c.samples > 0)); /* untouched after an error */
    if (st != LUO_OK) return;
    want(c.slots >= 1 && c.slots <= LUO_CLICKS_SLOTS && c.embeds >= 1 && !c.synthetic);
    want(form != LUO_CLICKS_KEYS || !c.clicked);
    judge_keys(arena, &c);
    judge_graph(arena, &c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    luo_arena *arena = luo_arena_new(0);
    const int fd = memfd_create("clicks", MFD_CLOEXEC);
    want(arena && fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_it(arena, path, form_of(data, size));
    close(fd);
    luo_arena_free(arena);
    return 0;
}
