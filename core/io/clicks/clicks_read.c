#include "core/io/clicks/clicks_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/vec.h"
#include "core/io/json_number.h"
#include "core/io/result/csv.h"

enum { CRITEO_CELLS = 40, CRITEO_SLOTS = 26, AVAZU_SLOTS = 22, AVAZU_COLUMNS };

static const char *const form_names[] = {LUO_CLICKS_FORM_LIST(LUO_WORD_TEXT)};

#define FEATURE(name)                                                                              \
    {                                                                                              \
        name, LUO_CSV_TEXT, true, LUO_FROM(0), NULL, false, NULL                                   \
    }
static const luo_csv_column avazu[AVAZU_COLUMNS] = {
    FEATURE("hour"),
    FEATURE("C1"),
    FEATURE("banner_pos"),
    FEATURE("site_id"),
    FEATURE("site_domain"),
    FEATURE("site_category"),
    FEATURE("app_id"),
    FEATURE("app_domain"),
    FEATURE("app_category"),
    FEATURE("device_id"),
    FEATURE("device_ip"),
    FEATURE("device_model"),
    FEATURE("device_type"),
    FEATURE("device_conn_type"),
    FEATURE("C14"),
    FEATURE("C15"),
    FEATURE("C16"),
    FEATURE("C17"),
    FEATURE("C18"),
    FEATURE("C19"),
    FEATURE("C20"),
    FEATURE("C21"),
    {"click", LUO_CSV_TEXT, false, LUO_FROM(0), NULL, false, NULL},
};

typedef struct click_log {
    luo_csv *table;
    luo_diags *diags;
    const char *path;
    luo_map number; /* of a key */
    int32_t *embed; /* by malloc */
    uint64_t *key;
    uint8_t *clicked; /* by malloc */
    int64_t n, cap_embed;
    int32_t slots, samples, embeds, cap_key, cap_clicked;
    bool unlabelled; /* some sample has no 0 or 1 */
    luo_status st;
} click_log;

const char *luo_clicks_form_name(luo_clicks_form form)
{
    return form_names[form];
}

static void fail(click_log *log, luo_status st, const char *says)
{
    log->st = luo_diags_add(log->diags, LUO_ERROR, st, log->path, 0, 0, "%s", says);
}

static void add_key(click_log *log, uint64_t key)
{
    int64_t *number = luo_map_at(&log->number, key, log->embeds);
    if (!number || !LUO_VEC_ROOM(log->embed, log->n, log->cap_embed) ||
        !LUO_VEC_ROOM(log->key, log->embeds, log->cap_key)) {
        if (log->st == LUO_OK)
            fail(log, LUO_ENOMEM, "this process is out of memory; free some or use less.");
        return;
    }
    if (*number == log->embeds) log->key[log->embeds++] = key;
    log->embed[log->n++] = (int32_t)*number;
}

static uint64_t hashed(int slot, const char *text)
{
    const unsigned char at = (unsigned char)slot;
    return luo_hash_str(luo_hash_bytes(LUO_HASH_EMPTY, &at, 1), text) >> 1;
}

/* label: its cell, NULL: there is none. */
static void end_sample(click_log *log, const char *label)
{
    const bool known = label && (strcmp(label, "0") == 0 || strcmp(label, "1") == 0);
    log->unlabelled = log->unlabelled || !known;
    if (LUO_VEC_ROOM(log->clicked, log->samples, log->cap_clicked))
        log->clicked[log->samples] = known && *label == '1';
    else if (log->st == LUO_OK)
        fail(log, LUO_ENOMEM, "this process is out of memory; free some or use less.");
    if (++log->samples == INT32_MAX && log->st == LUO_OK)
        fail(log, LUO_E2BIG, "there are 2147483647 samples or more; fewer are expected.");
}

/* ---- forms ---- */

/* False: a cell is no key, which is reported. */
static bool parse_keys(click_log *log, const char *const *cells, uint64_t *key)
{
    for (int i = 0; i < log->slots; i++) {
        int64_t whole;
        if (luo_json_number_whole(cells[i], strlen(cells[i]), &whole) && whole >= 0) {
            key[i] = (uint64_t)whole;
            continue;
        }
        luo_csv_error(log->table, i,
                      "`%.60s` is no key; a whole number from 0 to %" PRId64 " is expected.",
                      cells[i], INT64_MAX);
        return false;
    }
    return true;
}

static void take_keys(click_log *log, const char *const *cells, int n)
{
    uint64_t key[LUO_CSV_COLUMNS];
    if (log->slots == 0 && n <= LUO_CSV_COLUMNS) log->slots = n;
    if (n > LUO_CSV_COLUMNS)
        luo_csv_error(log->table, 0, "%d keys; at most %d are expected.", n, LUO_CSV_COLUMNS);
    else if (n != log->slots)
        luo_csv_error(log->table, 0, "%d key%s; %d are expected.", n, n == 1 ? "" : "s",
                      log->slots);
    else if (parse_keys(log, cells, key)) {
        for (int i = 0; i < n; i++) add_key(log, key[i]);
        end_sample(log, NULL);
    }
}

static void read_keys(click_log *log)
{
    const char *cells[LUO_CSV_COLUMNS];
    int n;
    log->table = luo_csv_open_plain(log->path, ',', log->diags);
    while (log->st == LUO_OK && (n = luo_csv_next_plain(log->table, cells)) > 0)
        take_keys(log, cells, n);
}

static void read_criteo(click_log *log)
{
    const char *cells[LUO_CSV_COLUMNS];
    int n;
    log->slots = CRITEO_SLOTS;
    log->table = luo_csv_open_plain(log->path, '\t', log->diags);
    while (log->st == LUO_OK && (n = luo_csv_next_plain(log->table, cells)) > 0) {
        if (n != CRITEO_CELLS) {
            luo_csv_error(log->table, 0, "%d cell%s; %d are expected.", n, n == 1 ? "" : "s",
                          CRITEO_CELLS);
            continue;
        }
        for (int i = 0; i < CRITEO_SLOTS; i++)
            add_key(log, hashed(i, cells[CRITEO_CELLS - CRITEO_SLOTS + i]));
        end_sample(log, cells[0]);
    }
}

static void read_avazu(click_log *log)
{
    luo_csv_cell cells[AVAZU_COLUMNS];
    log->slots = AVAZU_SLOTS;
    log->table = luo_csv_open_foreign(log->path, avazu, AVAZU_COLUMNS, log->diags);
    while (log->st == LUO_OK && luo_csv_next(log->table, cells)) {
        for (int i = 0; i < AVAZU_SLOTS; i++) add_key(log, hashed(i, cells[i].text));
        end_sample(log, cells[AVAZU_SLOTS].text);
    }
}

/* ---- the whole ---- */

static luo_status keep(luo_arena *arena, const click_log *log, luo_clicks *out)
{
    const size_t embed = (size_t)log->n * sizeof *log->embed,
                 key = (size_t)log->embeds * sizeof *log->key;
    luo_clicks clicks = {.samples = log->samples, .slots = log->slots, .embeds = log->embeds};
    clicks.embed = luo_arena_alloc(arena, embed);
    clicks.key = luo_arena_alloc(arena, key);
    clicks.clicked = log->unlabelled ? NULL : luo_arena_alloc(arena, (size_t)log->samples);
    if (!clicks.embed || !clicks.key || (!clicks.clicked && !log->unlabelled)) return LUO_ENOMEM;
    if (clicks.clicked) memcpy(clicks.clicked, log->clicked, (size_t)log->samples);
    memcpy(clicks.embed, log->embed, embed);
    memcpy(clicks.key, log->key, key);
    LUO_TRY(luo_clicks_order(arena, &clicks, NULL));
    *out = clicks;
    return LUO_OK;
}

luo_status luo_clicks_read(luo_arena *arena, const char *path, luo_clicks_form form,
                           luo_clicks *out, luo_diags *diags)
{
    static void (*const readers[])(click_log *) = {read_keys, read_criteo, read_avazu};
    click_log log = {.path = path, .diags = diags};
    readers[form](&log);
    const luo_status st = luo_csv_close(log.table);
    if (log.st == LUO_OK) log.st = st;
    if (log.st == LUO_OK && log.samples == 0)
        fail(&log, LUO_EINPUT, "there is no sample; one or more are expected.");
    if (log.st == LUO_OK && keep(arena, &log, out) != LUO_OK)
        fail(&log, LUO_ENOMEM, "this process is out of memory; free some or use less.");
    luo_map_free(&log.number);
    free(log.embed);
    free(log.clicked);
    free(log.key);
    return log.st;
}
