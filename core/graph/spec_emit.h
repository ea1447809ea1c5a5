/* core/graph/spec_emit.h: the state of writing one role: instructions, buffers, dependencies. */
#ifndef LUO_CORE_GRAPH_SPEC_EMIT_H
#define LUO_CORE_GRAPH_SPEC_EMIT_H
#include "core/graph/spec_in.h"

typedef struct maker { /* an instruction that wrote a buffer; one per segment, latest first */
    int32_t instr, seg;
    struct maker *next;
} maker;

typedef struct emit_buffer {
    luo_buffer b;
    maker *made;
    uint32_t read_there; /* lanes that have read it in the segment that made it */
    uint32_t waited;     /* lanes that have waited for it in segment waited_seg */
    int32_t waited_seg;
    uint8_t made_in, read_in; /* bit per phase */
} emit_buffer;

typedef struct emitter {
    spec *s;
    int32_t dev, stage;
    const spec_class *c;
    int32_t length, phase, seg;
    bool failed; /* out of memory */
    size_t mark; /* of scratch */
    luo_instr *instr;
    luo_segment *segment;
    emit_buffer *buf;
    spec_slot_ref *ref;
    int32_t ninstr, cap_instr, nseg, cap_seg, nbuf, cap_buf, cap_ref;
    luo_intern slot_key;     /* (step, item) */
    int32_t *buffer, *stamp; /* by tensor: its buffer, valid if stamp fits (0: never) */
    int32_t *again;          /* by tensor: segment in which it was gathered again */
    int32_t *redone;         /* by layer: segment in which it ran again */
    int32_t last[LUO_LANES][LUO_LANES]; /* [waiter][lane]: latest instruction waited for */
} emitter;

luo_status luo_spec_emit_open(emitter *e);
luo_status luo_spec_emit_close(emitter *e, luo_role *role, const spec_slot_ref **refs);
void luo_spec_begin(emitter *e, int32_t phase, int32_t chunk, int64_t tokens);
void luo_spec_end(emitter *e);
/* Buffer of a tensor for the length at hand, -1: none yet. */
int32_t luo_spec_buffer(const emitter *e, int32_t tensor);
void luo_spec_bind(emitter *e, int32_t tensor, int32_t buffer);
/* Pre: the device holds the tensor. */
int32_t luo_spec_new_buffer(emitter *e, int32_t tensor);
/* spec_bucket_emit.c: the calls of all buckets that stand behind operation o. */
void luo_spec_emit_buckets(emitter *e, int32_t o);
/* Slot number for item k of this device in a step. */
int32_t luo_spec_slot(emitter *e, const spec_step *step, int32_t k);
/* Instruction of operation o with everything but cost, slot and operands. */
luo_instr luo_spec_instr(const emitter *e, int32_t o, luo_instr_kind kind, luo_stream stream);
/* Adds the instruction with its operands and the dependencies that follow from them. */
void luo_spec_push(emitter *e, const luo_instr *i, const int32_t *in, int32_t nin,
                   const int32_t *out, int32_t nout);
#endif
