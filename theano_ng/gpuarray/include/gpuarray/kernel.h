/* Kernels: functions that devices run. */
#ifndef GPUARRAY_KERNEL_H
#define GPUARRAY_KERNEL_H

#include "gpuarray/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel and its arguments, for the C code of Ops. A record that is filled with zeros has no kernel. */
typedef struct _GpuKernel {
    gpukernel *k;
    void **args; /* arguments set by GpuKernel_setarg */
} GpuKernel;

/* Build the kernel `name` for a context, from `count` source strings (with lengths; if `lengths` is NULL, the
 * strings are null-terminated). `types` has the GA_... code of each of the `n` arguments (GA_BUFFER for memory);
 * `flags` are GA_USE_.... On failure, *text (if text is not NULL) is a malloc'd listing of the source with the
 * compiler's messages. */
int GpuKernel_init(GpuKernel *, gpucontext *, unsigned count, const char **texts, const size_t *lengths,
                   const char *name, unsigned n, const int *types, int flags, char **text);
void GpuKernel_clear(GpuKernel *);
gpucontext *GpuKernel_context(GpuKernel *); /* borrowed reference */
/* Choose a number of groups and a group size (in threads) for n threads in total. If *groups or *group is not 0 on
 * entry, keep that value. */
int GpuKernel_sched(GpuKernel *, size_t n, size_t *groups, size_t *group);
/* Launch the kernel: along each of `nd` axes, `groups` groups of `group` threads, with `local_memory` bytes for each
 * group. args[i] is a gpudata *, or the address of a scalar. If args is NULL, use the arguments set by
 * GpuKernel_setarg. */
int GpuKernel_call(GpuKernel *, unsigned nd, const size_t *groups, const size_t *group, size_t local_memory,
                   void **args);
int GpuKernel_setarg(GpuKernel *, unsigned i, void *value);
const char *GpuKernel_error(const GpuKernel *, int code);

/* The corresponding functions for gpukernel, a kernel with a reference count and without stored arguments.
 * gpukernel_build builds `n` kernels from one source text: `names`, `counts` (of arguments) and `types` have one entry
 * per kernel. `options` are compiler options. *log (if log is not NULL) is the malloc'd output of the compiler, or
 * NULL. */
int gpukernel_build(gpucontext *, const char *text, int flags, const char *options, unsigned n,
                    const char *const *names, const unsigned *counts, const int *const *types, gpukernel **kernels,
                    char **log);
void gpukernel_retain(gpukernel *);
void gpukernel_release(gpukernel *);
gpucontext *gpukernel_context(gpukernel *); /* borrowed reference */
int gpukernel_sched(gpukernel *, size_t n, size_t *groups, size_t *group);
int gpukernel_call(gpukernel *, unsigned nd, const size_t *groups, const size_t *group, size_t local_memory,
                   void *const *args);
int gpukernel_property(gpukernel *, int property, void *value);

#ifdef __cplusplus
}
#endif

#endif
