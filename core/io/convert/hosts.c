/* hosts.c: hosts as Slurm writes them, as a hostfile. */
#include "core/io/convert/convert_internal.h"
#include "core/io/hostlist.h"

luo_status convert_hostlist(convert_job *job)
{
    luo_err err = {0};
    luo_str list = {0}, text = {0};
    const char *const *hosts;
    int32_t n;
    /* one a line is the same as one behind a comma */
    for (const char *c = job->src.text; *c; c++) luo_str_addc(&list, *c == '\n' ? ',' : *c);
    luo_status st = list.failed ? convert_nomem(job) : LUO_OK;
    if (st == LUO_OK &&
        luo_hostlist_expand(job->arena, luo_str_get(&list), &hosts, &n, &err) != LUO_OK) {
        luo_err_at(&err, err.st, job->src.name, 0, 0);
        st = luo_diags_err(job->diags, &err);
    }
    luo_str_free(&list);
    if (st != LUO_OK) return st;
    if (n == 0)
        return convert_error(job, 0, 0,
                             "there is no host in it; names such as "
                             "gpu-[001-003,7] are expected.");
    for (int32_t i = 0; i < n; i++) luo_str_addf(&text, "%s\n", hosts[i]);
    LUO_TRY(convert_add(job, "hostfile", &text));
    return convert_say(job, "%d host%s", n, n > 1 ? "s" : "");
}
