/* Image patches on a device: images2neibs copies patches to the rows of a matrix, and neibs_sum adds rows to patches. */
#include "gpu_axes.h"
#include "networks/windows.h"

/* Append the numbers that describe patches along one dimension of the images. */
static void push_line(Arguments *args, const Line *line)
{
    args_push(args, &line->size);
    args_push(args, &line->neib);
    args_push(args, &line->step);
    args_push(args, &line->grid);
    args_push(args, &line->first);
}

/* Inputs: images (4 dimensions), neib_shape, neib_step. */
NATIVE_FUNCTION(images2neibs, mode, kernel)
static int tng_images2neibs(int nin, int nout, PyObject **in, PyObject **out, const struct images2neibs_params *params)
{
    static const char who[] = "GpuImages2Neibs";
    (void)nin, (void)nout;
    PyGpuArrayObject *x = gpu_input(in[0], -1, 4);
    if (x == NULL || gpu_aligned(&x->ga, who) < 0)
        return -1;
    Line rows = {.size = (npy_intp)x->ga.dimensions[2]}, columns = {.size = (npy_intp)x->ga.dimensions[3]};
    if (lay_out_both(&rows, &columns, in[1], in[2], params->mode) < 0)
        return -1;
    size_t images = x->ga.dimensions[0] * x->ga.dimensions[1];
    size_t dims[2] = {images * (size_t)(rows.grid * columns.grid), (size_t)(rows.neib * columns.neib)};
    gpu_not_shared(out, &x->ga);
    PyGpuArrayObject *z = gpu_alloc(out, x->context, 2, dims, x->ga.typecode);
    if (z == NULL)
        return -1;
    size_t n = gpu_size(&z->ga);
    uint32_t wraps = params->mode == WRAP_CENTERED;
    Arguments args = {0};
    args_array(&args, &z->ga, &z->ga.offset);
    args_array(&args, &x->ga, &x->ga.offset);
    args_push(&args, &n);
    args_push(&args, &x->ga.dimensions[1]);
    for (int d = 0; d < 4; ++d)
        args_push(&args, &x->ga.strides[d]);
    push_line(&args, &rows);
    push_line(&args, &columns);
    args_push(&args, &wraps);
    return gpu_run((gpukernel *)(intptr_t)params->kernel, n, args.at, who);
}

/* Inputs: rows (matrix), the four lengths of the images, neib_shape, neib_step. */
NATIVE_FUNCTION(neibs_sum, mode, kernel)
static int tng_neibs_sum(int nin, int nout, PyObject **in, PyObject **out, const struct neibs_sum_params *params)
{
    static const char who[] = "GpuImages2NeibsGrad";
    npy_intp lengths[4];
    Line rows, columns;
    (void)nin, (void)nout;
    PyGpuArrayObject *x = gpu_input(in[0], -1, 2);
    if (x == NULL || gpu_aligned(&x->ga, who) < 0)
        return -1;
    npy_intp shape[2] = {(npy_intp)x->ga.dimensions[0], (npy_intp)x->ga.dimensions[1]};
    if (lay_out_images(in, shape, params->mode, lengths, &rows, &columns) < 0)
        return -1;
    size_t dims[4];
    for (int d = 0; d < 4; ++d)
        dims[d] = (size_t)lengths[d];
    gpu_not_shared(out, &x->ga);
    PyGpuArrayObject *z = gpu_alloc(out, x->context, 4, dims, x->ga.typecode);
    if (z == NULL)
        return -1;
    size_t n = gpu_size(&z->ga);
    int32_t wraps = params->mode == WRAP_CENTERED;
    Arguments args = {0};
    args_array(&args, &z->ga, &z->ga.offset);
    args_array(&args, &x->ga, &x->ga.offset);
    args_push(&args, &n);
    args_push(&args, &x->ga.strides[0]);
    args_push(&args, &x->ga.strides[1]);
    push_line(&args, &rows);
    push_line(&args, &columns);
    args_push(&args, &wraps);
    return gpu_run((gpukernel *)(intptr_t)params->kernel, n, args.at, who);
}

static const NativeEntry entries[] = {NATIVE_ENTRY(images2neibs), NATIVE_ENTRY(neibs_sum), {0}};
NATIVE_MODULE(neighbours, entries)
