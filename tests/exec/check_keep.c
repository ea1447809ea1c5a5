/* check_keep.c: state and data through real processes: first weights, checkpoints, going
 * back, resuming under another plan, and the batches that were trained on. */
#include <dirent.h>

#include "core/io/files.h"
#include "tests/exec/coord_rig.h"

static luo_status load_at_most(rig *g, int64_t most, int64_t *step)
{
    *step = most;
    return rig_state(g, LUO_STATE_LOAD, step);
}

static const char *in_dir(rig *g, const char *name)
{
    return luo_arena_printf(g->arena, "%s/%s", g->dir, name);
}

static uint64_t file_hash(rig *g, const char *path)
{
    luo_source src;
    if (luo_source_read(g->arena, path, &src, &g->err) != LUO_OK) rig_fail(path, &g->err);
    return luo_source_hash(&src);
}

START_TEST(checkpoints)
{
    rig g;
    int64_t step;
    setenv("FAKE_TASK_S", "0.001", 1);
    rig_open(&g, 3, "2: [0,1]*2 [2]*2");
    ck_assert_int_eq(mkdir(in_dir(&g, "ckpt"), 0777), 0);
    ck_assert_int_eq(mkdir(in_dir(&g, "ckpt/step-000001"), 0777), 0); /* of somebody else */
    rig_start(&g);
    ck_assert_int_eq(load_at_most(&g, INT64_MAX, &step), LUO_EINPUT); /* none of this run */
    step = 0;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_OK);
    for (int64_t s = 0; s < 6; s++) {
        rig_step(&g, s);
        step = s + 1;
        if (step % 2 == 0) ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK);
    }
    ck_assert_int_eq(access(in_dir(&g, "ckpt/step-000002"), F_OK), -1); /* keep is 2 */
    ck_assert_int_eq(load_at_most(&g, INT64_MAX, &step), LUO_OK);
    ck_assert_int_eq(step, 6);
    ck_assert_int_eq(load_at_most(&g, 5, &step), LUO_OK);
    ck_assert_int_eq(step, 4);
    rig_step(&g, 4);
    step = 5;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK);
    ck_assert_int_eq(truncate(in_dir(&g, "ckpt/step-000006/model.safetensors"), 100), 0);
    ck_assert_int_eq(load_at_most(&g, INT64_MAX, &step), LUO_OK);
    ck_assert_int_eq(step, 5); /* the newest is broken */
    step = 9;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_EBUG);
    ck_assert_str_eq(g.err.text, "rank 0 has done 5 steps where 9 are to be saved.");
    rig_close(&g);
}
END_TEST

/* Weights of one run are the first of another, and a checkpoint resumes under another plan. */
START_TEST(weights_and_resume)
{
    rig g, h;
    int64_t step = 3;
    setenv("FAKE_TASK_S", "0.001", 1);
    rig_open(&g, 2, "2: [0,1]*4");
    g.options.save_init = in_dir(&g, "init.safetensors");
    rig_start(&g);
    const uint64_t first = file_hash(&g, g.options.save_init);
    for (int64_t s = 0; s < 3; s++) rig_step(&g, s);
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK);
    ck_assert_int_eq(unlink(g.options.save_init), 0);
    step = 0;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_OK);
    ck_assert_int_eq(access(g.options.save_init, F_OK), -1); /* written once */

    rig_open(&h, 3, "2: [0]*1 [1]*2 [2]*1"); /* another plan, the same numbers from the seed */
    h.options.save_init = in_dir(&h, "a.safetensors");
    rig_start(&h);
    ck_assert(file_hash(&h, h.options.save_init) == first);
    luo_host_backend.close(h.b);
    h.options.load = in_dir(&h, "a.safetensors");
    h.options.save_init = in_dir(&h, "b.safetensors");
    h.config.seed = 8; /* without a say now */
    rig_start(&h);
    ck_assert(file_hash(&h, h.options.save_init) == first);
    luo_host_backend.close(h.b);
    h.options.resume = g.options.checkpoints;
    rig_begin(&h);
    if (load_at_most(&h, INT64_MAX, &step) != LUO_OK) rig_fail("resume", &h.err);
    ck_assert_int_eq(step, 3);
    rig_step(&h, 3);
    step = 4;
    ck_assert_int_eq(rig_state(&h, LUO_STATE_SAVE, &step), LUO_OK);
    ck_assert_int_eq(load_at_most(&h, INT64_MAX, &step), LUO_OK);
    ck_assert_int_eq(step, 4); /* its own is the newer one now */
    ck_assert_int_eq(load_at_most(&h, 3, &step), LUO_OK);
    ck_assert_int_eq(step, 3); /* .. and the resumed one is still there */
    rig_close(&h);
    rig_close(&g);
}
END_TEST

START_TEST(refused_weights)
{
    rig g;
    int64_t step = 0;
    rig_open(&g, 2, "2: [0,1]*4");
    g.options.load = in_dir(&g, "none.safetensors");
    rig_begin(&g);
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_EINPUT);
    ck_assert_ptr_nonnull(strstr(g.err.text, "none.safetensors"));
    g.options.load = NULL;
    ck_assert_int_eq(rig_state(&g, LUO_STATE_INIT, &step), LUO_OK); /* the ranks live on */
    ck_assert_int_eq(g.b->starts, 1);
    rig_step(&g, 0);
    rig_close(&g);
}
END_TEST

/* One line per micro-batch of every step, each step once, however often it is done. */
START_TEST(batches)
{
    rig g;
    int64_t step = 1;
    luo_source src;
    setenv("FAKE_TASK_S", "0.001", 1);
    rig_open(&g, 2, "3: [0]*4 || 1: [1]*4");
    g.options.dump_batches = in_dir(&g, "batches.jsonl");
    rig_start(&g);
    rig_step(&g, 0);
    ck_assert_int_eq(rig_state(&g, LUO_STATE_SAVE, &step), LUO_OK);
    rig_step(&g, 1);
    rig_step(&g, 2);
    ck_assert_int_eq(load_at_most(&g, INT64_MAX, &step), LUO_OK);
    rig_step(&g, 1);
    rig_step(&g, 2);
    rig_step(&g, 3);
    ck_assert_int_eq(luo_source_read(g.arena, g.options.dump_batches, &src, &g.err), LUO_OK);
    int64_t line = 0;
    for (const char *at = src.text; *at; at = strchr(at, '\n') + 1, line++) {
        char want[64];
        const int k = (int)(line % 4); /* three of pipeline 0, one of pipeline 1 */
        snprintf(want, sizeof want, "{\"step\":%d,\"micro_batch\":%d,\"replica\":%d,",
                 (int)(line / 4), k % 3, k / 3);
        ck_assert_msg(strncmp(at, want, strlen(want)) == 0, "line %d: %.40s", (int)line, at);
    }
    ck_assert_int_eq(line, 16);
    rig_close(&g);
}
END_TEST

RIG_MAIN("exec.keep", LUO_T(checkpoints), LUO_T(weights_and_resume), LUO_T(refused_weights),
         LUO_T(batches))
