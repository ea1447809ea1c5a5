# y = x + x, in front of the head: linear, so that it is its own gradient. One model asks for it (by a key of its own,
# where it is meant to stay): programs of all others are what they were.
row='add an op'
steps() {
    insert before core/graph/ops.inc 'LUO_OP(ROW_MAX,' <<'X' &&
LUO_OP(TWICE, "twice", "x -> y", 1, 1, einsum, twice, compute, twice, STREAM, NOTHING, volume, twice)
X
    insert before core/graph/autodiff.c 'static luo_status (*const gradients[LUO_OP_KINDS])' <<'X' &&
static luo_status diff_twice(diff *d, const int32_t *dy)
{
    return emit_one(d, LUO_OP_TWICE, 0, dy, 1);
}

X
    insert before core/graph/specialize/spec_cost.c 'static void cost_rides(' <<'X' &&
static void cost_twice(const look *l, luo_instr *i)
{
    pass_over(l, i, 2, in_volume(l, 0));
}

X
    insert before exec/host/ops.c '#define host_run_none' <<'X' &&
static void host_run_twice(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const void *x = host_buf(r, op->instr->in[0], task), *both[2] = {x, x};
    r->x->k->add(op->rows, 2, both, host_buf(r, op->instr->out[0], task));
}

X
    insert before exec/cuda/ops.c 'static const kernel *const kernels[' <<'X' &&
static luo_status run_twice(luo_rank *r, const gpu_op *op, int32_t task)
{
    const gpu_array x[2] = {in_of(r, op, 0, task), in_of(r, op, 0, task)};
    return done(r, op, gpu_add(compute(r), op->b->rows, 2, x, out_of(r, op, 0, task)));
}
static const kernel kernel_twice = {run_twice, NULL};

X
    insert before tests/exec/check_gradients.c '/* ---- experts: logits' <<'X' &&
static void twice_make(chain *c)
{
    has(c, c->t * c->h);
    c->ny = c->t * c->h;
}
static void twice(chain *c)
{
    const void *const x[2] = {c->x[0], c->x[0]};
    k->add(c->ny, 2, x, c->y);
}
static void twice_dx(chain *c)
{
    const void *const dy[2] = {c->c, c->c};
    k->add(c->ny, 2, dy, c->dx[0]);
}

X
    insert after tests/exec/check_gradients.c '    ROW(add, LUO_OP_ADD),' <<'X' &&
    ROW(twice, LUO_OP_TWICE),
X
    insert after core/graph/build.c '    x = luo_build_reshard(builder, "head.in", x, LUO_FORM_X);' <<'X'
    if (strcmp(builder->m->name, "tiny-twice") == 0)
        x = luo_build_op1(builder, LUO_OP_TWICE, "head.twice", "th", 1, &x);
X
}
show() { # deduced, differentiated, its gradient measured, costed, and run; all others as they were
    "$B/tests/exec/check_gradients" || return 1
    sed 's/^name: tiny-llama/name: tiny-twice/' scenarios/models/tiny-llama.yaml >"$tmp/with.yaml" && sed 's/tiny-llama/tiny-twice/' scenarios/host/plans/tiny-1.json >"$tmp/with.json" &&
        cp scenarios/models/tiny-llama.yaml "$tmp/without.yaml" && cp scenarios/host/plans/tiny-1.json "$tmp/without.json" &&
        "$LUOSHU" explain "$tmp/with.json" --model "$tmp/with.yaml" --cluster scenarios/host/ranks4x2.yaml --program 0 >"$tmp/program" &&
        [ "$(grep -c 'COMPUTE.*cost stream [1-9].*head\.twice' "$tmp/program")" -ge 2 ] &&
        trained with && trained without || return 1
    [ "$(wc -l <"$tmp/with.loss")" = 3 ] && ! cmp -s "$tmp/with.loss" "$tmp/without.loss" && "$B/tests/unit/check_graph"
}
trained() { # NAME: losses of two steps from the same weights
    "$LUOSHU" run "$tmp/$1.json" --backend host --model "$tmp/$1.yaml" --cluster scenarios/host/ranks4x2.yaml --steps 2 --out "$tmp/$1" --plots off &&
        awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "loss") c = i} {print $c}' "$(find "$tmp/$1" -name steps.csv)" >"$tmp/$1.loss"
}
