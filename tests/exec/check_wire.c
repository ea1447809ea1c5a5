/* check_wire.c: frames over a real socket: cut anywhere, closed, garbage; payloads that
 * end too early; and whole messages there and back. */
#include "exec/wire.h"

#include <math.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/rng.h"
#include "exec/message.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

static void fill(luo_wire *w, luo_rng *rng, int n)
{
    for (int i = 0; i < n; i++) {
        char text[40] = "";
        for (int k = (int)luo_rng_pick(rng, 39), c = 0; c < k; c++)
            text[c] = (char)('a' + luo_rng_pick(rng, 26));
        luo_wire_put_int(w, (int64_t)luo_rng_next(rng));
        luo_wire_put_num(w, luo_rng_normal(rng));
        luo_wire_put_text(w, text);
    }
    luo_wire_put_text(w, NULL);
}

static void same(luo_wire *got, luo_rng *rng, int n)
{
    luo_wire want = {0};
    fill(&want, rng, n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(luo_wire_int(got), luo_wire_int(&want));
        ck_assert_double_eq(luo_wire_num(got), luo_wire_num(&want));
        ck_assert_str_eq(luo_wire_text(got), luo_wire_text(&want));
    }
    ck_assert_ptr_null(luo_wire_text(got));
    ck_assert(!got->failed && got->pos == got->len);
    luo_wire_free(&want);
}

/* Whatever the sizes of the pieces in which they arrive, frames come out as they were sent. */
START_TEST(pieces)
{
    int many = 0;
    LUO_PROP_FOR(seed, 200)
    {
        int fd[2], pipe_fd[2];
        luo_rng rng = luo_rng_seed(seed), cuts = luo_rng_stream(seed, "cuts");
        luo_wire_in in = {.limit = 1 << 20};
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pipe_fd), 0);
        const int frames = 1 + (int)luo_rng_pick(&cuts, 4);
        int size[4], seen = 0;
        for (int f = 0; f < frames; f++) {
            luo_wire w = {0};
            luo_rng each = luo_rng_stream(seed, f ? "b" : "a");
            size[f] = (int)luo_rng_pick(&rng, 20);
            fill(&w, &each, size[f]);
            ck_assert_int_eq(luo_wire_send(fd[0], 7 + f, &w, NULL), LUO_OK);
            luo_wire_free(&w);
        }
        ck_assert_int_eq(shutdown(fd[0], SHUT_WR), 0);
        for (;;) {
            unsigned char piece[512];
            const ssize_t n = read(fd[1], piece, (size_t)(1 + luo_rng_pick(&cuts, 511)));
            if (n <= 0) break;
            ck_assert_int_eq(write(pipe_fd[0], piece, (size_t)n), n);
            ck_assert_int_eq(luo_wire_read(&in, pipe_fd[1], NULL), LUO_OK);
            for (bool got = true; got;) {
                int32_t kind;
                luo_wire w;
                ck_assert_int_eq(luo_wire_next(&in, &got, &kind, &w, NULL), LUO_OK);
                if (!got) break;
                luo_rng each = luo_rng_stream(seed, seen ? "b" : "a");
                ck_assert_int_eq(kind, 7 + seen);
                same(&w, &each, size[seen++]);
            }
        }
        ck_assert_int_eq(seen, frames);
        many += frames > 1;
        luo_wire_in_free(&in);
        for (int i = 0; i < 2; i++) close(fd[i]), close(pipe_fd[i]);
    }
    ck_assert_int_gt(many, 0);
}
END_TEST

START_TEST(closed)
{
    int fd[2];
    luo_err err = {0};
    luo_wire_in in = {.limit = 100};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    ck_assert_int_eq(luo_wire_read(&in, fd[0], &err), LUO_OK); /* nothing is there yet */
    close(fd[1]);
    ck_assert_int_eq(luo_wire_read(&in, fd[0], &err), LUO_EPEER);
    ck_assert_int_eq(luo_wire_send(fd[0], 1, NULL, &err), LUO_EPEER);
    ck_assert_str_eq(err.text, "the other side is gone.");
    luo_wire_in_free(&in);
    close(fd[0]);
}
END_TEST

static luo_status hear(const void *data, size_t n, size_t limit, luo_err *err)
{
    int fd[2];
    luo_wire_in in = {.limit = limit};
    luo_wire w;
    int32_t kind;
    bool got;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    ck_assert_int_eq(write(fd[1], data, n), (ssize_t)n);
    ck_assert_int_eq(luo_wire_read(&in, fd[0], err), LUO_OK);
    const luo_status st = luo_wire_next(&in, &got, &kind, &w, err);
    if (st == LUO_OK) ck_assert(!got);
    ck_assert_uint_le(in.len, limit + 4096);
    luo_wire_in_free(&in);
    close(fd[0]);
    close(fd[1]);
    return st;
}

START_TEST(garbage)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const unsigned char big[16] = {'l', 'u', 'o', '1', 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    static const char flood[20000] = "luo";
    luo_err err = {0};
    ck_assert_int_eq(hear(http, sizeof http - 1, 100, &err), LUO_EPARSE);
    ck_assert_str_eq(err.text, "what arrived is no message; a rank is expected.");
    ck_assert_int_eq(hear(big, sizeof big, 100, &err), LUO_EPARSE);
    ck_assert_str_eq(err.text, "a message of 4294967295 bytes arrived; at most 100 are expected.");
    ck_assert_int_eq(hear(http, 7, 100, &err), LUO_OK); /* could still become one */
    ck_assert_int_eq(hear(flood, sizeof flood, 100, &err), LUO_EPARSE);
}
END_TEST

/* A payload cut anywhere, or with any byte changed, is refused or read, never overrun. */
START_TEST(broken_payload)
{
    luo_rng rng = luo_rng_seed(5);
    luo_wire w = {0};
    fill(&w, &rng, 3);
    int refused = 0;
    for (size_t len = 0; len < w.len; len++) {
        unsigned char *copy = malloc(len ? len : 1); /* so that a sanitizer sees the end */
        luo_wire cut = {.at = copy, .len = len};
        memcpy(copy, w.at, len);
        for (int i = 0; i < 3; i++) {
            luo_wire_int(&cut);
            luo_wire_num(&cut);
            luo_wire_text(&cut);
        }
        luo_wire_text(&cut);
        refused += cut.failed;
        free(copy);
    }
    ck_assert_int_eq(refused, (int)w.len);
    luo_wire_clear(&w);
    luo_wire_put_text(&w, "abc");
    w.at[9] = 0; /* a text with a 0 inside */
    ck_assert_ptr_null(luo_wire_text(&w));
    ck_assert(w.failed);
    luo_wire_clear(&w);
    luo_wire_put_int(&w, 7);
    ck_assert_int_eq(luo_wire_int_in(&w, 0, 6), 0);
    ck_assert(w.failed);
    luo_wire_clear(&w);
    luo_wire_put_int(&w, 7);
    ck_assert(!luo_wire_has(&w, INT64_MAX, 8));
    luo_wire_free(&w);
}
END_TEST

START_TEST(step_order_and_report)
{
    luo_arena *a = luo_arena_new(0);
    luo_wire w = {0};
    luo_err err = {0};
    const luo_pace pace[] = {{10, 1}, {14.5, 2.5}};
    const struct luo_delay delay[] = {{9, 3, 1e-9, 5e-6}};
    const int64_t length[] = {7, 5};
    const luo_step_order o = {.step = 4,
                              .part = {1, 3, 2, length},
                              .trace = true,
                              .quiet = true,
                              .npace = 2,
                              .pace = pace,
                              .withdraw_s = 13,
                              .kill_s = INFINITY,
                              .delay = delay,
                              .ndelay = 1};
    luo_step_order got;
    luo_message_put_step_order(&w, &o, 12);
    ck_assert_int_eq(luo_message_get_step_order(a, &w, 1000, &got, &err),
                     LUO_OK); /* another host */
    ck_assert_int_eq(got.step, 4);
    ck_assert(got.part.index == 1 && got.part.n == 3 && got.part.nsequences == 2);
    ck_assert(got.part.length[0] == 7 && got.part.length[1] == 5);
    ck_assert(got.trace && got.quiet && isinf(got.kill_s));
    ck_assert_double_eq(got.withdraw_s, 1001);
    ck_assert_double_eq(got.pace[1].at_s, 1002.5);
    ck_assert_double_eq(got.pace[1].slowdown, 2.5);
    ck_assert_double_eq(got.delay[0].at_s, 997);
    ck_assert_int_eq(got.delay[0].device, 3);
    ck_assert_double_eq(got.delay[0].extra_s, 5e-6);

    const luo_comm_use comm = {.group = -1,
                               .exchange = 2,
                               .devices = 4,
                               .calls = 5,
                               .bytes = 6,
                               .busy_s = 0.5,
                               .exposed_s = 0.25};
    const luo_op_record record = {
        .device = 3, .task = 1, .instr = 9, .start_s = 1, .end_s = 2, .status = LUO_ECANCELED};
    const luo_step_report r = {.status = LUO_ECANCELED,
                               .text = "drained",
                               .start_s = 100,
                               .end_s = 103,
                               .parts = {.compute_s = 1, .bubble_s = 2},
                               .compute_s = 1.5,
                               .predicted_s = 1.25,
                               .has_loss = true,
                               .loss = 7,
                               .grad_norm = 8,
                               .aux_loss = 9,
                               .ncomm = 1,
                               .comm = &comm,
                               .nrecords = 1,
                               .records = &record,
                               .memory_bytes = 99};
    luo_step_report back;
    double late;
    luo_wire_clear(&w);
    luo_message_put_report(&w, &r, 0.125);
    ck_assert_int_eq(luo_message_get_report(a, &w, &back, &late, &err), LUO_OK);
    ck_assert_double_eq(late, 0.125);
    ck_assert_double_eq(back.end_s - back.start_s, 3);
    ck_assert_str_eq(back.text, "drained");
    ck_assert_double_eq(back.parts.compute_s + back.parts.bubble_s, 3);
    ck_assert(back.has_loss && back.loss == 7 && back.grad_norm == 8 && back.aux_loss == 9);
    ck_assert_int_eq(back.memory_bytes, 99);
    ck_assert(back.comm->group == -1 && back.comm->exchange == 2 && back.comm->bytes == 6);
    ck_assert_double_eq(back.comm->exposed_s, 0.25);
    ck_assert_int_eq(back.records[0].status, LUO_ECANCELED);
    ck_assert_double_eq(back.records[0].end_s, 2);
    for (size_t len = 0; len + 1 < w.len; len++) { /* cut anywhere: a sentence */
        luo_wire cut = {.at = w.at, .len = len};
        ck_assert_int_eq(luo_message_get_report(a, &cut, &back, &late, &err), LUO_EPARSE);
    }
    luo_wire_free(&w);
    luo_arena_free(a);
}
END_TEST

START_TEST(addresses)
{
    luo_err err = {0};
    int fd, port, listener;
    char text[64];
    ck_assert_int_eq(luo_wire_connect("nowhere", &fd, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`nowhere` is no address; HOST:PORT is expected.");
    ck_assert_int_eq(luo_wire_listen("127.0.0.1", &listener, &port, &err), LUO_OK);
    snprintf(text, sizeof text, "127.0.0.1:%d", port);
    ck_assert_int_eq(luo_wire_connect(text, &fd, &err), LUO_OK);
    const int in = luo_wire_accept(listener, 0.5);
    ck_assert_int_ge(in, 0);
    luo_wire w = {0};
    static const char block[1 << 16];
    for (int i = 0; i < 400; i++) luo_wire_put_bytes(&w, block, sizeof block);
    const luo_status st = luo_wire_send(in, 1, &w, &err); /* nobody reads it */
    ck_assert_int_eq(st, LUO_ETIMEOUT);
    close(in);
    close(fd);
    close(listener);
    ck_assert_int_eq(luo_wire_connect(text, &fd, &err), LUO_EPEER);
    ck_assert_ptr_nonnull(strstr(err.text, "the coordinator has to run and be reachable there."));
    luo_wire_free(&w);
}
END_TEST

LUO_SUITE("exec.wire", LUO_T(pieces), LUO_T(closed), LUO_T(garbage), LUO_T(broken_payload),
          LUO_T(step_order_and_report), LUO_T(addresses))
