/* The launch queue of a context collects launches, copies and products while a virtual machine runs the nodes of a
 * function, and gives them to the device together: as one CUDA graph, if the same calls have been made before.
 *
 * All data of a call is collected: the kernel, its size, addresses and numbers. So nothing has to be known about the
 * function, its shapes or its memory. A graph runs only if the calls that have been collected are equal to the calls of
 * the graph, or after the arguments that differ have been replaced in it.
 *
 * The GIL protects a queue. */
#ifndef TNG_LAUNCH_QUEUE_H
#define TNG_LAUNCH_QUEUE_H

#include "context.h"
#include "work_queue.h"

enum call_kind { CALL_LAUNCH, CALL_COPY, CALL_FILL, CALL_PRODUCT, CALL_KINDS };

/* Return the queue of a context, which is created first if there is none. `open_queue` is the address of the variable that
 * points to the open queue of the process. `raise` sets the exception for an error code, and returns -1. Return NULL if
 * memory is exhausted. */
WorkQueue *launch_queue_of(gpucontext *, WorkQueue **open_queue, int (*raise)(gpucontext *, int code));
void launch_queue_free(gpucontext *);

/* Return whether this thread collects calls for the context. If another thread does, close its queue. */
int queue_collects(gpucontext *);
/* Collect a call. The arguments are those of the functions of the device table. */
int queue_launch(gpukernel *, unsigned ndim, const size_t *groups, const size_t *group, size_t local_memory,
                 const size_t *sizes, void *const *values);
int queue_copy(gpucontext *, device_memory to, size_t to_offset, device_memory from, size_t from_offset, size_t size);
int queue_fill(gpucontext *, device_memory, size_t offset, size_t size, uint8_t byte);
/* The data is that of cublas_run(). */
int queue_product(gpucontext *, const void *data, size_t size);
/* Make the calls that are held back. Later calls of the piece are made at once. */
int queue_make_held(gpucontext *);
/* Add a call that the caller has made to the collected calls, if this thread collects calls for the context. */
void queue_note(gpucontext *, enum call_kind, const void *data, size_t size);
/* Make the next launch unique: one of its arguments is a number that no other launch has. */
void queue_number_next(gpucontext *);
/* Give the calls that this thread has collected to the device. Every function of a context that is not collected calls
 * this before it calls the device. Other threads may call this without the GIL, and then it does nothing. */
int queue_flush(gpucontext *);
/* The same for callers that cannot report an error. The error is reported when the queue is closed. */
void queue_give(gpucontext *);
/* Close the open queue of the process, before the GIL is released. An error is reported when a queue of the context is
 * closed next. */
void queue_close_any(void);

typedef struct queue_counts {
    uint64_t calls;    /* calls that were given to the device one by one */
    uint64_t recorded; /* graphs that were recorded */
    uint64_t runs;     /* runs of graphs */
    uint64_t replaced; /* calls with new arguments in these runs */
    uint64_t in_runs;  /* calls that these runs made */
} queue_counts;

void queue_count(gpucontext *, queue_counts *);
/* Return the name of the function whose graph ran last, or NULL if there is none. */
const char *queue_latest_function(gpucontext *);

/* ---- cublas.c ---- */
/* Make a product whose data was collected. */
int cublas_run(gpucontext *, const void *data);

#endif
