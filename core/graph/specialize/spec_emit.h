/* spec_emit.h: the state of writing one role: instructions, buffers, dependencies. */
#ifndef LUO_CORE_GRAPH_SPECIALIZE_SPEC_EMIT_H
#define LUO_CORE_GRAPH_SPECIALIZE_SPEC_EMIT_H
#include "core/graph/specialize/spec_internal.h"

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

typedef struct emit_late { /* a sum of pieces that waits for its call */
    int32_t key, op;
} emit_late;

typedef struct emit_born { /* what a buffer was made for */
    int32_t tensor;
    int32_t between;      /* not 0: of a leader behind step between - 1 of operation `tensor` */
    int32_t position;     /* among the lengths of the role */
    int32_t buffer_class; /* known when all is emitted */
} emit_born;

typedef struct spec_lengths { /* of a role, ascending; of a device that holds state only none */
    const int32_t *at;
    int32_t n;
} spec_lengths;

typedef struct emitter {
    spec *s;
    int32_t dev, stage;
    const spec_class *c;
    int32_t length, position, phase, seg; /* position: of the length among those of the role */
    bool failed; /* out of memory */
    size_t mark; /* of scratch */
    luo_instr *instr;
    luo_segment *segment;
    emit_buffer *buf;
    emit_born *born;
    spec_slot_ref *ref;
    int32_t ninstr, cap_instr, nseg, cap_seg, nbuf, cap_buf, cap_born, cap_ref, npieces;
    luo_intern slot_key;     /* (step, item) */
    int32_t *buffer, *stamp; /* by tensor: its buffer, valid if stamp fits (0: never) */
    const spec_dims **held;  /* by table: luo_spec_held .. */
    bool *sought;            /* .. has looked it up */
    int32_t *again;          /* by tensor: segment in which it was gathered again */
    int32_t *redone;         /* by layer: segment in which it ran again */
    int32_t besides;         /* buffer that the next instruction waits for besides; -1: none */
    int32_t gate;            /* gradient that came from another stage, not waited for yet; -1 */
    int32_t last[LUO_LANES][LUO_LANES]; /* [waiter][lane]: latest instruction waited for */
    /* ZeRO-2 and 3 (spec_units_emit.c) */
    int32_t computed; /* latest of stream compute in this segment; -1: none */
    int32_t after;    /* what communication waits for beside its operands; -1: nothing */
    bool at_start;    /* communication waits for the tasks before */
    int32_t vs;       /* virtual stage of the segment */
    int32_t nunits, unit; /* units of the segment, position of the one at hand; -1: not begun */
    int32_t *units;
    emit_late *late;
    int32_t nlate, cap_late, called; /* called: key of the latest call; -1: none */
    int32_t also; /* of this segment; what is added waits for it as well; -1: for nothing */
} emitter;

luo_status luo_spec_emit_open(emitter *e);
luo_status luo_spec_emit_close(emitter *e, luo_role *role, const spec_slot_ref **refs);
void luo_spec_begin(emitter *e, int32_t phase, int32_t chunk, int64_t tokens);
void luo_spec_end(emitter *e);
/* Sizes of a tensor on the device for the length at hand; NULL: it holds nothing of it. */
const spec_dims *luo_spec_held(const emitter *e, int32_t tensor);
/* Buffer of a tensor for the length at hand, -1: none yet. */
int32_t luo_spec_buffer(const emitter *e, int32_t tensor);
void luo_spec_bind(emitter *e, int32_t tensor, int32_t buffer);
/* A buffer for the tensor, with the sizes of the length at hand, before it has a use. */
luo_buffer luo_spec_describe(emitter *e, int32_t tensor);
/* Pre: the device holds the tensor. */
int32_t luo_spec_new_buffer(emitter *e, int32_t tensor);
/* What a leader has behind a step of operation o: LUO_LEADER_GATHER or LUO_LEADER_EXCHANGE. */
luo_buffer luo_spec_describe_between(emitter *e, int32_t o, int32_t step);
int32_t luo_spec_between(emitter *e, int32_t o, int32_t step);
/* spec_bucket_emit.c: the calls of Pre or Post, in the device's order. */
void luo_spec_emit_turns(emitter *e);
/* The latest call of a group of stream dp in this segment, if it stands in another lane than i: -1
 * if there is none. The next call has to wait for it, since lanes of dp share communicators, which
 * run in the order of issue (exec/cuda/comm/comm_plan.h). */
int32_t luo_spec_call_before(const emitter *e, int32_t group, const luo_instr *i);
/* In a task: the calls of all buckets that stand behind operation o; the last of these
 * buckets, -1: none. */
int32_t luo_spec_emit_buckets(emitter *e, int32_t o);
/* The calls of bucket b on this device, if it takes part. */
void luo_spec_emit_bucket(emitter *e, int32_t b);

/* spec_places.c: operations of a phase and virtual stage (-1: of all), in their order; of BI and BW
 * those of the other are among them. Pre: luo_spec_list_places. */
const int32_t *luo_spec_places(const emitter *e, int32_t phase, int32_t vs, int32_t *n);
bool luo_spec_is_here(const emitter *e, int32_t o, int32_t phase, int32_t vs);
/* spec_emit.c */
int64_t luo_spec_loaded(const emitter *e, int32_t o); /* bytes of a placeholder */
void luo_spec_emit_reshard(emitter *e, int32_t o, bool again);
void luo_spec_emit_accumulate(emitter *e, int32_t o);

/* spec_units_emit.c: what ZeRO-2 and 3 add to a segment of F or B of virtual stage vs. */
void luo_spec_units_begin(emitter *e, int32_t vs);
/* Right before operation o; true: it is emitted at its unit, or later. */
bool luo_spec_units_before(emitter *e, int32_t o);
/* Right behind it. */
void luo_spec_units_behind(emitter *e, int32_t o);
void luo_spec_units_end(emitter *e);
/* Slot number for item k of this device in a step. */
int32_t luo_spec_slot(emitter *e, const spec_step *step, int32_t k);
/* Room for element n of an array; NULL and failed: out of memory. */
void *luo_spec_room(emitter *e, void *at, int32_t n, int32_t *cap, size_t bytes);
/* Instruction of operation o with everything but cost, slot and operands. */
luo_instr luo_spec_instr(const emitter *e, int32_t o, luo_instr_kind kind, luo_stream stream);
/* Adds the instruction with its operands and the dependencies that follow from them. */
void luo_spec_push(emitter *e, const luo_instr *i, const int32_t *in, int32_t nin,
                   const int32_t *out, int32_t nout);

/* spec_pattern.c. Pre: the spec has patterns. The set is emptied if it is full, or of another
 * graph: before the first role. */
luo_status luo_spec_begin_patterns(spec *s);
/* The pattern that the role follows, kept or not. Pre: the emitter has just been opened. */
luo_status luo_spec_find_pattern(emitter *e, const spec_lengths *lengths, int32_t *id);
/* bound false: it is not kept, and nothing has changed. */
luo_status luo_spec_bind_pattern(emitter *e, int32_t id, const spec_lengths *lengths,
                                 luo_role *role, const spec_slot_ref **refs, bool *bound);
/* Of an emitted role, if there is room. */
luo_status luo_spec_keep_pattern(emitter *e, int32_t id, const spec_lengths *lengths,
                                 const luo_role *role, const spec_slot_ref *refs);
#endif
