/* fuzz_message.c: libFuzzer target of what coordinator and ranks tell each other: any
 * payload is refused with a sentence, or what it says is written, read and written again as the
 * same bytes. The first byte tells which message it is. */
#include "exec/message.h"
#include "tests/fuzz/fuzz_io.h"

static luo_status read_message(int which, luo_arena *arena, luo_wire *in, luo_wire *out,
                               luo_err *err)
{
    luo_setup setup;
    luo_device_info told;
    luo_state_order state;
    luo_step_order step;
    luo_step_report report;
    double late_s;
    switch (which) {
    case 0:
        LUO_TRY(luo_message_get_setup(arena, in, &setup, err));
        luo_message_put_setup(out, &setup);
        break;
    case 1:
        LUO_TRY(luo_message_get_device_info(in, &told, err));
        luo_message_put_device_info(out, &told);
        break;
    case 2:
        LUO_TRY(luo_message_get_state_order(in, &state, err));
        luo_message_put_state_order(out, &state);
        break;
    case 3:
        LUO_TRY(luo_message_get_step_order(arena, in, 0, &step, err));
        luo_message_put_step_order(out, &step, 0);
        break;
    default:
        LUO_TRY(luo_message_get_report(arena, in, &report, &late_s, err));
        luo_message_put_report(out, &report, late_s);
    }
    return luo_message_end(in, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    luo_arena *arena = luo_arena_new(0);
    luo_wire in = {0}, out = {0}, again = {0};
    luo_err err = {0};
    if (size > 1) {
        luo_wire_put_bytes(&in, data + 1, size - 1);
        if (read_message(data[0] % 5, arena, &in, &out, &err) == LUO_OK) {
            want(read_message(data[0] % 5, arena, &out, &again, &err) == LUO_OK);
            want(out.len == again.len && memcmp(out.at, again.at, out.len) == 0);
        } else {
            want(err.text[0]);
        }
    }
    luo_wire_free(&in);
    luo_wire_free(&out);
    luo_wire_free(&again);
    luo_arena_free(arena);
    return 0;
}
