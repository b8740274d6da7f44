/* Errors that kernels find in indices and labels. A kernel cannot raise an exception. It writes the first invalid index
 * into memory that the host looks at whenever it waits for the device. So nothing waits only for this check.
 *
 * The memory of a context has a slot for each of INDEX_SLOTS - 1 host threads that launch such kernels. A thread that
 * ends leaves its slot to a later thread. In a slot, the errors of the thread's first failing launch are kept. If more
 * threads launch such kernels, the others share the last slot, and wait after each launch. kernels/index_errors.py
 * contains the code of kernels that writes a slot. */
#ifndef TNG_INDEX_ERRORS_H
#define TNG_INDEX_ERRORS_H

#include "context.h"

#define INDEX_SLOTS 32
/* A slot has a word for the failing launch (0: no error), a word for the first invalid index, and one word for the
 * length of the axis of each index array. */
#define INDEX_SLOT_WORDS (2 + GA_MAX_DIMS)

/* A launch as kernels know it: 35 bits for the number of the launch, 5 bits for the slot, 24 bits for the site. A site is
 * a node of a graph; see `gpuarray.index_errors`. */
#define INDEX_LAUNCH(number, slot, site) ((uint64_t)(number) << 29 | (uint64_t)(slot) << 24 | (uint64_t)(site))
#define INDEX_LAUNCH_NUMBER(launch) ((uint64_t)(launch) >> 29)
#define INDEX_LAUNCH_SLOT(launch) ((unsigned)((launch) >> 24) & 31)
#define INDEX_LAUNCH_SITE(launch) ((unsigned)(launch) & 0xffffff)

/* The first invalid index of a launch. `place` numbers the pairs of an element of the result and an index array, array
 * by array for each element. It is at most INDEX_LAST_PLACE: later places are stored as this number. `index` has 33
 * bits and a sign: values beyond the limits are stored as the limits. */
#define INDEX_LAST_PLACE ((uint64_t)0x7fffffff)
#define INDEX_LIMIT ((int64_t)1 << 32)

typedef struct index_error {
    unsigned site;
    uint64_t place;
    int64_t index;
    uint64_t lengths[GA_MAX_DIMS];
    int of_other_thread; /* whether another thread launched the kernel */
} index_error;

/* The arguments with which a kernel reports invalid indices, and whether the caller must wait after the launch. */
typedef struct index_watch {
    gpudata *slots; /* borrowed from the context */
    uint64_t launch;
    int wait;
} index_watch;

/* Prepare a launch from this thread for a site. */
int gpucontext_watch(gpucontext *, unsigned site, index_watch *);
/* Call this after the launch. A thread that waits without the GIL may have copied the slots to the host between the
 * preparation and the launch, and this thread has to copy them again when it waits. */
void gpucontext_watched(gpucontext *);
/* Call this after launches that were held back have been given to the device, for the same reason. */
void index_errors_may_follow(gpucontext *);
/* Look for errors after the host has waited. Return GA_INDEX_ERROR if a kernel has found an error, which this thread has
 * not seen yet. The thread that launched the kernel clears its slot; if this thread has ended, the first thread that gets
 * the error does. Another thread gets the error once, too, because it may use the results of the kernel. */
int index_errors_look(gpucontext *);
/* Return the error for which index_errors_look() returned GA_INDEX_ERROR last in this thread. */
const index_error *index_error_found(void);
void index_errors_free(gpucontext *);

#endif
