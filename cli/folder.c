#include "cli/folder.h"

/* Whoever takes it begins the results in their place. */
static luo_status begin_empty(void *ctx, const char *dir, luo_err *err)
{
    (void)ctx, (void)dir, (void)err;
    return LUO_OK;
}

luo_status luo_folder_take(luo_cli *cli, const char *dir, bool flat, int32_t nread,
                           const char *const *read, luo_set *set, luo_err *err)
{
    const luo_set_new how = {.begin = begin_empty, .nread = nread, .read = read};
    LUO_TRY(luo_set_open(set, dir, luo_args_has(&cli->args, "force"), err));
    luo_status st = flat ? luo_set_flat(set, err) : LUO_OK;
    if (st == LUO_OK && luo_set_old(set)) st = luo_set_replace(set, &how, err);
    if (st != LUO_OK) luo_set_close(set, false, NULL); /* nothing is begun, nothing to undo */
    return st;
}

luo_folder_end luo_folder_end_of(luo_status st)
{
    if (st == LUO_OK || st == LUO_ENO || st == LUO_ELOST) return LUO_FOLDER_WHOLE;
    return st == LUO_EIO ? LUO_FOLDER_PART : LUO_FOLDER_NONE;
}

luo_status luo_folder_give(luo_cli *cli, luo_set *set, luo_folder_end end, luo_err *err)
{
    if (end == LUO_FOLDER_PART && luo_set_replaced(set))
        luo_cli_note(cli, LUO_NOTE,
                     "the results before these are kept in `%s/%s` until a run into "
                     "this folder is whole.",
                     set->dir, LUO_SET_OLD);
    const luo_status undone = end == LUO_FOLDER_NONE ? luo_set_undo(set, err) : LUO_OK;
    const luo_status closed =
        luo_set_close(set, end == LUO_FOLDER_WHOLE, undone == LUO_OK ? err : NULL);
    return undone == LUO_OK ? closed : undone;
}
