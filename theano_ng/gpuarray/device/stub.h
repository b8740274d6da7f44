/* The interface between tests and stub.c. Each of the devices "stub0" to "stub7" ("stub" is the first) has one record.
 * The functions are exported: Python's ctypes calls them through the extension module. */
#ifndef TNG_STUB_H
#define TNG_STUB_H

#include "device.h"

#define STUB_DEVICES 8

/* The functions of device_table. Calls of `alloc` with a parent count as STUB_BLOCK, without a parent as STUB_ALLOC. */
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
    uint64_t written, read;   /* bytes copied from and to the host */
    uint64_t held, held_most; /* bytes allocated now, and the maximum so far */
    uint64_t allocated;       /* unreleased pieces of memory, including blocks inside other pieces */
    uint64_t capacity;        /* size of the memory, bytes; set by tests */
    /* Set by tests. Each matching call decrements `fails_in`, and the call that makes it 0 fails. If it is 0 already,
     * no call fails. */
    int64_t fails_in;
    int32_t failing_call; /* the `stub_call` that matches; -1: all calls match */
    int32_t failing_code;
    int32_t recording; /* set by tests: calls are recorded for stub_text */
} stub_state;

/* Return the record of a device, or NULL if the number is invalid. */
stub_state *stub_of(unsigned number);
/* Reset the counts to 0, the limits to their defaults and the text to empty. Allocated memory is kept. */
void stub_reset(unsigned number);
/* Return the source text of program `i`, counted from 0 among the programs that were built while calls were recorded.
 * Return NULL if there are fewer programs. */
const char *stub_program(unsigned number, unsigned i);
/* Return one line for each recorded call, such as "launch axpy (4) (256) 0" or "write 80". */
const char *stub_text(unsigned number);

#endif
