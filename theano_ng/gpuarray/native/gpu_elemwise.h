/* Launches of the kernels of elementwise nodes (kernels/elemwise.py). */
#ifndef TNG_GPU_ELEMWISE_H
#define TNG_GPU_ELEMWISE_H

#include "context.h"
#include "gpu.h"

static inline size_t power_of_two(size_t n, size_t most)
{
    size_t p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

static inline size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* Launch a kernel for strided operands, along `rank` axes with these lengths. */
static inline int gpu_run_rows(gpukernel *kernel, int rank, const size_t *lengths, void *const *args, const char *what)
{
    const device_info *info = &gpukernel_context(kernel)->info;
    size_t rows = 1, inner = lengths[rank - 1], groups[2], group[2] = {1, 1};
    for (int d = 0; d < rank - 1; ++d)
        rows *= lengths[d];
    if (info->warp > 1) {
        size_t most = (size_t)info->processors * 32;
        group[0] = power_of_two(inner, 256);
        group[1] = at_most(power_of_two(rows, 256), 256 / group[0]);
        groups[0] = at_most((inner + group[0] - 1) / group[0], most);
        groups[1] = at_most((rows + group[1] - 1) / group[1], at_most(most / groups[0] + 1, 65535));
    }
    else {
        size_t threads = at_most(rows * inner / 4096 + 1, info->processors);
        groups[0] = rows < threads ? threads : 1;
        groups[1] = rows < threads ? 1 : threads;
    }
    int code = gpukernel_call(kernel, 2, groups, group, 0, args);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(kernel), code, what);
}

#endif
