/* Kernels: functions that devices run. */
#ifndef GPUARRAY_KERNEL_H
#define GPUARRAY_KERNEL_H

#include "gpuarray/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel, as users' code holds it. Zeroed: none. */
typedef struct _GpuKernel {
    gpukernel *k;
    void **args; /* of GpuKernel_setarg */
} GpuKernel;

/* Builds `name` of the `count` texts (with lengths, or NULL: up to their null bytes) for a context. `types` are the GA_... of its `n` arguments, GA_BUFFER for
 * memory; `flags` GA_USE_.... On failure *text (if text is not NULL) is a malloc'd listing with the compiler's words. */
int GpuKernel_init(GpuKernel *, gpucontext *, unsigned count, const char **texts, const size_t *lengths, const char *name, unsigned n,
                   const int *types, int flags, char **text);
void GpuKernel_clear(GpuKernel *);
gpucontext *GpuKernel_context(GpuKernel *); /* borrowed */
/* *groups and *group threads for n threads in all. Where one of them is not 0, it is kept. */
int GpuKernel_sched(GpuKernel *, size_t n, size_t *groups, size_t *group);
/* Runs it: `groups` groups of `group` threads along each of `nd` axes, with `local_memory` bytes for each group. args[i]: a gpudata *, or the address of a
 * number; NULL: what GpuKernel_setarg set. */
int GpuKernel_call(GpuKernel *, unsigned nd, const size_t *groups, const size_t *group, size_t local_memory, void **args);
int GpuKernel_setarg(GpuKernel *, unsigned i, void *value);
const char *GpuKernel_error(const GpuKernel *, int code);

/* The same for counted references. Several kernels of one text are built by one call: `names`, `counts` of arguments, and `types` of `n` kernels, one after the
 * other; `options` are words for the compiler. *log (if log is not NULL) is malloc'd, what the compiler said, or NULL. */
int gpukernel_build(gpucontext *, const char *text, int flags, const char *options, unsigned n, const char *const *names, const unsigned *counts,
                    const int *const *types, gpukernel **kernels, char **log);
void gpukernel_retain(gpukernel *);
void gpukernel_release(gpukernel *);
gpucontext *gpukernel_context(gpukernel *); /* borrowed */
int gpukernel_sched(gpukernel *, size_t n, size_t *groups, size_t *group);
int gpukernel_call(gpukernel *, unsigned nd, const size_t *groups, const size_t *group, size_t local_memory, void *const *args);
int gpukernel_property(gpukernel *, int property, void *value);

#ifdef __cplusplus
}
#endif

#endif
