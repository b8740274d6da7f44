/* The interface between a virtual machine and the queue of a device. A queue collects the work that consecutive steps
 * give to a device, so that the device gets all of it by one call. gpuarray/device/launch_queue.c implements it. */
#ifndef THEANO_NG_WORK_QUEUE_H
#define THEANO_NG_WORK_QUEUE_H

typedef struct WorkQueue WorkQueue;

/* `open_queue` of gof/_native.pyx points to the open queue of the process, or is NULL. The functions below set it. The
 * caller holds the GIL. */
struct WorkQueue {
    /* Open the queue, or do nothing if the device cannot be used. *site is NULL at first. The queue keeps there its
     * records of the work that follows this step, until `forget`. */
    void (*open)(WorkQueue *, void **site);
    /* Give the collected work to the device, and close the queue, unless it is closed already. On failure, now or when the
     * queue was closed without a caller that could report it, return -1 with an exception set, and store
     * in `failed` the value that `step` had when the failing work was collected. */
    int (*close)(WorkQueue *);
    void (*forget)(WorkQueue *, void *site);
    /* The machine that opens the queue sets these before: the index of the current step, and the name of the function,
     * which exists as long as the machine. */
    int step;
    const char *function;
    int failed;
};

#endif
