# One device wants what others hold each a part of: they send, and no batch has to be planned.
row='add a re-shard rule'
own=tests/unit/check_graph.c # a plan there moves by it now
programs=(unit/check_resolve prop/prop_resolve)
steps() {
    sed -i 's/^    LUO_MEMBER_ALLGATHER,/&\n    LUO_MEMBER_COLLECT,/' core/hspmd/resolve_internal.h &&
        sed -i 's/"sendrecv",     "allgather",$/"sendrecv", "allgather", "collect",/' core/hspmd/resolve.c &&
        insert before core/hspmd/resolve_move.c 'luo_status luo_emit_bsr(luo_build *build' <<'X' &&
static luo_status find_collect(const luo_build *build, const luo_side *s, const luo_side *d,
                               bool *works)
{
    luo_region *part = luo_arena_alloc(build->arena, (size_t)s->h.n * sizeof *part);
    *works = false;
    if (!part) return luo_err_nomem(build->err);
    for (int32_t i = 0; i < s->h.n; i++) {
        part[i] = s->h.at[i].region;
        if (part[i].empty || luo_planner_dead(build->planner, s->h.at[i].dev)) return LUO_OK;
    }
    for (int32_t k = 0; k < build->shape->rank && d->h.n == 1; k++)
        *works = *works || luo_tiles(part, s->h.n, &d->h.at[0].region, k);
    return LUO_OK;
}

static luo_status emit_collect(luo_build *build, const luo_side *s, int32_t to, int32_t step)
{
    for (int32_t i = 0; i < s->h.n; i++) {
        const luo_holding *has = &s->h.at[i];
        LUO_TRY(has->dev == to ? luo_moves_copy(build->arena, build->out, step, to, &has->region,
                                                build->err)
                               : luo_moves_send(build->arena, build->out, step, has->dev, to,
                                                &has->region, build->err));
    }
    return LUO_OK;
}

X
        insert after core/hspmd/resolve_move.c 'movement.kind = works ? LUO_MEMBER_ALLGATHER : LUO_MEMBER_BSR;' <<'X' &&
        if (!works) LUO_TRY(find_collect(build, s, d, &works));
        if (works && movement.kind == LUO_MEMBER_BSR) movement.kind = LUO_MEMBER_COLLECT;
X
        insert before core/hspmd/resolve_move.c '    case LUO_MEMBER_BSR:' <<'X' &&
    case LUO_MEMBER_COLLECT:
        return emit_collect(build, movement->s, movement->d->h.at[0].dev, step);
X
        sed -i 's/^pieces, each equally often), else `bsr`/pieces, each equally often), `collect` (onto one device), else `bsr`/' docs/annotations.md &&
        insert before tests/unit/check_resolve.c '{"[0,1]{0:2}", "[0,1]{1:2}", "0x4", -1, LUO_OK, "identity"' <<'X' &&
    {"[0,1]{0:2}", "[2]{}", "4", -1, LUO_OK, "bottom collect",
     "0 send 0->2 [0:2); 0 send 1->2 [2:4)", ""},
    {"[0,1]{1:2}", "[1]{}", "2x4", -1, LUO_OK, "bottom collect",
     "0 send 0->1 [0:2)x[0:2); 0 copy 1 [0:2)x[2:4)", ""},
X
        sed -i '/layers.0.mlp.down.weight.shard", "h=0i/s/identity,bsr/identity,collect/' "$own" &&
        sed -i 's/"bsr",      "allreduce", "reducescatter"};/"bsr", "allreduce", "reducescatter", "collect"};/' tests/prop/prop_resolve.c
}
show() { # asked, in the vectors, met among random cases and right there, in the programs of a plan
    [ "$("$LUOSHU" resolve "[0,1]{0:2}" "[2]{}" --shape 4 | head -n 1)" = 'kind: bottom collect' ] &&
        "$B/tests/unit/check_resolve" && LUO_CASES=5000 "$B/tests/prop/prop_resolve" >"$tmp/met" || { tail "$tmp/met"; return 1; }
    grep -E '^bottom collect +[1-9]' "$tmp/met" && "$B/tests/unit/check_graph"
}
