/* verb_resolve.c: `luoshu resolve SRC DST --shape 8x4`. */
#include "cli/cli.h"
#include "cli/load.h"
#include "core/hspmd/resolve.h"

static luo_status read_opts(luo_cli *cli, luo_resolve_opts *opts, luo_node_racks *where,
                            luo_err *err)
{
    const luo_args *args = &cli->args;
    int64_t node, rack, elem;
    LUO_TRY(luo_args_int(args, "node-size", 8, 1, LUO_DEVICE_LIMIT, &node, err));
    LUO_TRY(luo_args_int(args, "rack-size", 0, 0, LUO_DEVICE_LIMIT, &rack, err));
    LUO_TRY(luo_args_int(args, "elem", 1, 1, 1 << 20, &elem, err));
    *where = (luo_node_racks){(int32_t)node, (int32_t)rack};
    opts->planner.link_class = luo_node_racks_link_class;
    opts->planner.link_ctx = where;
    opts->elem_bytes = elem;
    opts->reduce_then_move = luo_args_has(args, "reduce-then-move");
    LUO_TRY(luo_sender_parse(luo_args_get(args, "planner", "greedy"), &opts->planner.sender, err));
    return luo_cli_dead(cli, &opts->planner, err);
}

static void print_text(const luo_cli *cli, const luo_resolution *resolution, const int64_t *bytes)
{
    FILE *out = luo_cli_out(cli);
    fprintf(out, "kind: %s\n", resolution->text);
    for (int32_t i = 0; i < resolution->moves.n; i++) {
        luo_str text = {0};
        luo_str_addf(&text, "%d ", resolution->moves.at[i].step);
        luo_move_print(&text, &resolution->moves.at[i]);
        fprintf(out, "%s\n", luo_str_get(&text));
        luo_str_free(&text);
    }
    fprintf(out, "bytes class1 %lld class2 %lld class3 %lld\n", (long long)bytes[1],
            (long long)bytes[2], (long long)bytes[3]);
}

static void print_json(luo_cli *cli, const luo_resolution *resolution, const int64_t *bytes)
{
    luo_jsonw *json = &cli->json;
    luo_str text = {0};
    luo_jsonw_text(json, "kind", resolution->text);
    luo_jsonw_text(json, "reason",
                   resolution->reason ? luo_unsupported_name(resolution->reason) : NULL);
    luo_jsonw_open(json, "ops", '[');
    for (int32_t i = 0; i < resolution->moves.n; i++) {
        luo_str_clear(&text);
        luo_str_addf(&text, "%d ", resolution->moves.at[i].step);
        luo_move_print(&text, &resolution->moves.at[i]);
        luo_jsonw_text(json, NULL, luo_str_get(&text));
    }
    luo_jsonw_close(json);
    luo_jsonw_open(json, "bytes", '[');
    for (int i = 0; i < 4; i++) luo_jsonw_int(json, NULL, bytes[i]);
    luo_jsonw_close(json);
    luo_str_free(&text);
}

static luo_status bind(luo_cli *cli, const char *text, const luo_shape *shape,
                       const luo_ann **out, luo_err *err)
{
    LUO_TRY(luo_ann_parse(cli->arena, text, out, err));
    return luo_ann_bind(*out, shape, LUO_BIND_ROUND, "x", err);
}

static luo_status resolve(luo_cli *cli, luo_err *err)
{
    luo_shape shape;
    luo_resolve_opts opts = {0};
    luo_node_racks where;
    const luo_ann *src, *dst;
    luo_resolution resolution = {0};
    int64_t bytes[LUO_LINK_CLASSES] = {0};
    const char *text = luo_args_get(&cli->args, "shape", NULL);
    if (!text)
        return luo_err_set(err, LUO_EUSAGE, "`--shape` is missing; give the sizes of the tensor, "
                                            "like 8x4.");
    LUO_TRY(luo_shape_parse(text, &shape, err));
    LUO_TRY(read_opts(cli, &opts, &where, err));
    LUO_TRY(bind(cli, cli->args.files[0], &shape, &src, err));
    LUO_TRY(bind(cli, cli->args.files[1], &shape, &dst, err));
    const luo_status st = luo_resolve(cli->arena, src, dst, &shape, &opts, &resolution, err);
    if (st != LUO_OK && st != LUO_EUNSUP && st != LUO_ELOST) return st;
    luo_planner *planner = luo_planner_new(cli->arena, &opts.planner);
    if (!planner) return luo_err_nomem(err);
    luo_moves_class_bytes(planner, &resolution.moves, opts.elem_bytes, bytes);
    if (cli->as_json)
        print_json(cli, &resolution, bytes);
    else
        print_text(cli, &resolution, bytes);
    return st;
}

luo_status luo_verb_resolve_run(luo_cli *cli)
{
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 2, 2, "two annotations are"));
    return luo_cli_fail(cli, resolve(cli, &err), &err);
}
