/* Maxima and their indices on a device. */
#include "gpu_axes.h"

/* A line is the elements of which one maximum is computed. If there are few lines, and a line has at least this many
 * elements, a group of threads searches each line. Otherwise one thread does. */
#define LONG_LINE 256

/* Input: x. Outputs: maxima, indices. The bits of `axes` are the axes to reduce. In the kernel `lines`, one thread
 * finds a maximum; in the kernel `groups`, a group of `group` threads finds a maximum. `threads`: see gpu_threads(). */
NATIVE_FUNCTION(max_and_argmax, axes, lines, groups, group, threads)
static int tng_max_and_argmax(int nin, int nout, PyObject **in, PyObject **out,
                              const struct max_and_argmax_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL || gpu_aligned(&x->ga, "GpuMaxAndArgmax") < 0)
        return -1;
    size_t dims[GA_MAX_DIMS], length = 1, n = 1;
    unsigned nd = 0, n_reduced = 0;
    int empty = -1;
    Axes kept = {0}, reduced = {0};
    for (unsigned i = 0; i < x->ga.nd; ++i) {
        size_t size = x->ga.dimensions[i];
        if (params->axes >> i & 1) {
            ++n_reduced;
            length *= size;
            if (size == 0 && empty < 0)
                empty = (int)i;
            axes_push(&reduced, size, x->ga.strides[i], 0);
        }
        else {
            dims[nd++] = size;
            n *= size;
            axes_push(&kept, size, x->ga.strides[i], 0);
        }
    }
    if (empty >= 0 && n > 0) {
        PyErr_Format(PyExc_ValueError,
                     "Max and argmax of an empty dimension have no value: the input has length 0 in dimension %d",
                     empty);
        return -1;
    }
    gpu_not_shared(out, &x->ga);
    gpu_not_shared(out + 1, &x->ga);
    PyGpuArrayObject *z = gpu_alloc(out, x->context, nd, dims, x->ga.typecode);
    PyGpuArrayObject *places = z == NULL ? NULL : gpu_alloc(out + 1, x->context, nd, dims, GA_LONG);
    if (places == NULL || n == 0)
        return places == NULL ? -1 : 0;
    gpukernel *lines = (gpukernel *)(intptr_t)params->lines, *groups = (gpukernel *)(intptr_t)params->groups;
    axes_pad(&kept, nd);
    axes_pad(&reduced, n_reduced);
    Arguments args = {0};
    args_array(&args, &z->ga, &z->ga.offset);
    args_array(&args, &places->ga, &places->ga.offset);
    args_array(&args, &x->ga, &x->ga.offset);
    args_push(&args, &n);
    args_push(&args, &length);
    args_axes(&args, &kept, 1);
    args_axes(&args, &reduced, 1);
    if (length >= LONG_LINE && n < gpu_threads(lines, params->threads))
        return gpu_run_groups(groups, n, (size_t)params->group, args.at, "GpuMaxAndArgmax");
    return gpu_run(lines, n, args.at, "GpuMaxAndArgmax");
}

static const NativeEntry entries[] = {NATIVE_ENTRY(max_and_argmax), {0}};
NATIVE_MODULE(argmax, entries)
