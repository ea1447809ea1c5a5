# Rows of measured times may say `gather`; without them an all-gather stands for it.
row='add a collective'
steps() {
    sed -i 's/    X(BCAST, "broadcast")/    X(BCAST, "broadcast")    \\\n    X(GATHER, "gather")/' core/graph/program/coll.h &&
        sed -i 's/`broadcast` | - | yes/`broadcast` `gather` | - | yes/' docs/formats.md &&
        insert after core/cost/busbw.c '[LUO_COLL_BCAST] = {' <<'X' &&
        [LUO_COLL_GATHER] = {LUO_COLL_GATHER, LUO_COLL_AG, LUO_COLL_AR, LUO_COLL_RS},
X
        insert after exec/host/calibrate_comm.c '    case LUO_COLL_BCAST:' <<'X' &&
    case LUO_COLL_GATHER: /* not measured: listed by none */
X
        insert after exec/cuda/calibrate/calibrate_comm.c '    case LUO_COLL_BCAST:' <<'X'
    case LUO_COLL_GATHER:
X
}
show() { # a table may have it
    mkdir "$tmp/tables" && sed 's/,broadcast,/,gather,/; s/^all_gather,/gather,/' scenarios/profiles/tables/titan-rtx.csv >"$tmp/tables/titan-rtx.csv" &&
        sed -i 's/^all_reduce,/gather,/' "$tmp/tables/titan-rtx.csv" && grep -q '^gather,' "$tmp/tables/titan-rtx.csv" &&
        cp scenarios/profiles/titan-rtx.yaml "$tmp/" && "$LUOSHU" check "$tmp/titan-rtx.yaml" && "$B/tests/unit/check_docs" || return 1
    sed -i 's/^gather,/gathr,/' "$tmp/tables/titan-rtx.csv"
    ! "$LUOSHU" check "$tmp/titan-rtx.yaml"
}
