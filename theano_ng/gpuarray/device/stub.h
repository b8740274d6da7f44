/* What tests ask of stub.c and tell it: one record for each of its devices, "stub0" to "stub7" ("stub" is the first). The functions are exported: Python's
 * ctypes reaches them through the extension module. */
#ifndef TNG_STUB_H
#define TNG_STUB_H

#include "device.h"

#define STUB_DEVICES 8

/* The functions of the table; STUB_BLOCK is alloc with a parent. */
enum stub_call {
    STUB_OPEN,
    STUB_CLOSE,
    STUB_ALLOC,
    STUB_BLOCK,
    STUB_RELEASE,
    STUB_WRITE,
    STUB_READ,
    STUB_COPY,
    STUB_FILL,
    STUB_BUILD,
    STUB_KERNEL,
    STUB_LAUNCH,
    STUB_FENCE,
    STUB_SYNC,
    STUB_GRAPH,
    STUB_CALLS
};

typedef struct stub_state {
    uint64_t calls[STUB_CALLS];
    uint64_t written, read;   /* bytes, from and to the host */
    uint64_t held, held_most; /* bytes that are allocated, now and at most */
    uint64_t allocated;       /* pieces of memory that are not released, blocks of others among them */
    uint64_t capacity;        /* bytes; set by tests, before the device is opened or later */
    int64_t fails_in;         /* set by tests: the call that makes this 0 fails. 0: none */
    int32_t failing_call;     /* calls that count for it; -1: all */
    int32_t failing_code;
    int32_t recording;        /* set by tests: calls are written down, as stub_text shows them */
} stub_state;

/* NULL: there is no such number. */
stub_state *stub_of(unsigned number);
/* Counts begin again at 0, limits are as at first, and the text is empty. What is held stays so. */
void stub_reset(unsigned number);
/* The text of the program that was built so many programs after the first, while calls were recorded; NULL: there are not so many. */
const char *stub_program(unsigned number, unsigned i);
/* A line for each call: "launch axpy (4) (256) 0", "write 80". */
const char *stub_text(unsigned number);

#endif
