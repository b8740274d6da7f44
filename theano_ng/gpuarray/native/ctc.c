/* Connectionist temporal classification on a device (kernels/ctc.py). The labels and the lengths are on the host, where
 * they are checked. */
#include "context.h"
#include "gpu_axes.h"
#include "networks/ctc_examples.h"

/* Inputs: activations (time, batch, symbol) on the device, labels (batch, length) and input lengths (batch) on the host.
 * Outputs: costs (batch), gradients.
 *
 * norms, paths, gradients: the kernels. real: size of the numbers in which they sum. group: number of threads in a group;
 * -1: a number that suits the device. */
NATIVE_FUNCTION(ctc, typecode, norms, paths, gradients, real, group)

/* The maximum number of threads in a group, as in kernels/ctc.py */
enum { GROUP = 256 };

/* Fill three lists for the labels of an example: the labels, the place of the next equal label (or -1), and whether no
 * equal label comes before. `last` has an element for each symbol; all elements are -1 before and after. */
static void describe_labels(const npy_int64 *labels, npy_intp count, npy_intp most, npy_int64 *last, npy_int64 *to)
{
    npy_int64 *next = to + most, *is_first = next + most;
    for (npy_intp l = count - 1; l >= 0; --l) {
        to[l] = labels[l];
        next[l] = last[labels[l]];
        is_first[l] = 1;
        if (next[l] >= 0)
            is_first[next[l]] = 0;
        last[labels[l]] = l;
    }
    for (npy_intp l = 0; l < count; ++l)
        last[labels[l]] = -1;
}

/* Return device memory with a record for each example; see kernels/ctc.py. `most`: the largest number of labels. */
static gpudata *upload_examples(const Examples *e, npy_intp symbols, npy_intp most, gpucontext *ctx)
{
    size_t record = 2 + 3 * (size_t)most, size = (size_t)e->batch * record * sizeof(npy_int64);
    npy_int64 *records = PyMem_Calloc((size_t)e->batch * record + 1, sizeof *records);
    npy_int64 *last = PyMem_New(npy_int64, symbols);
    gpudata *made = NULL;
    int code = GA_NO_ERROR;
    if (records == NULL || last == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (npy_intp k = 0; k < symbols; ++k)
        last[k] = -1;
    for (npy_intp i = 0; i < e->batch; ++i) {
        npy_int64 *to = records + (size_t)i * record;
        to[0] = e->lengths[i];
        to[1] = e->counts[i];
        describe_labels(e->labels + i * e->width, e->counts[i], most, last, to + 2);
    }
    made = gpudata_alloc(ctx, size, NULL, 0, &code);
    if (made != NULL && (code = gpudata_write(made, 0, records, size)) != GA_NO_ERROR) {
        gpudata_release(made);
        made = NULL;
    }
    if (made == NULL)
        gpu_failed(ctx, code, "ctc");
done:
    PyMem_Free(records);
    PyMem_Free(last);
    return made;
}

/* Return the number of threads in a group, for n elements. */
static size_t group_for(size_t n, int64_t wanted, const PyGpuContextObject *ctx)
{
    size_t group = 1;
    if (wanted >= 0)
        return (size_t)wanted;
    while (ctx->ctx->info.warp > 1 && group < n && group < GROUP)
        group *= 2;
    return group;
}

/* Run the kernels. `z` is the gradient, or NULL. */
static int compute(PyGpuArrayObject *x, PyGpuArrayObject *cost, PyGpuArrayObject *z, gpudata *examples, npy_intp most,
                   const struct ctc_params *params)
{
    static const char who[] = "ctc";
    gpucontext *ctx = x->context->ctx;
    size_t time = x->ga.dimensions[0], batch = x->ga.dimensions[1], steps = time * batch;
    size_t labels = (size_t)most, states = 2 * labels + 1, kept = z != NULL ? time : 2;
    size_t wide = group_for(x->ga.dimensions[2], params->group, x->context), real = (size_t)params->real;
    size_t totals = 2 * steps, backward = totals + batch, forward = backward + (z != NULL ? 2 * batch * states : 0);
    size_t size = (forward + batch * kept * states) * real;
    uint32_t with_gradient = z != NULL;
    int code = GA_NO_ERROR, status;
    gpudata *work = gpudata_alloc(ctx, size, NULL, 0, &code);
    if (work == NULL)
        return gpu_failed(ctx, code, who);
    Arguments args = {0};
    args_array(&args, &x->ga, &x->ga.offset);
    for (int d = 0; d < 3; ++d)
        args_push(&args, &x->ga.strides[d]);
    args_push(&args, work);
    args_push(&args, &totals);
    args_push(&args, &backward);
    args_push(&args, &forward);
    args_push(&args, examples);
    args_push(&args, &labels);
    args_push(&args, &states);
    args_push(&args, &kept);
    for (int d = 0; d < 3; ++d)
        args_push(&args, &x->ga.dimensions[d]);
    Arguments paths = args, gradients = args;
    args_array(&paths, &cost->ga, &cost->ga.offset);
    args_push(&paths, &with_gradient);
    status = steps == 0 ? 0 : gpu_run_groups((gpukernel *)(intptr_t)params->norms, steps, 1, wide, args.at, who);
    if (status == 0 && batch > 0)
        status = gpu_run_groups((gpukernel *)(intptr_t)params->paths, batch, 1,
                                group_for(states, params->group, x->context), paths.at, who);
    if (status == 0 && z != NULL && steps > 0) {
        args_array(&gradients, &z->ga, &z->ga.offset);
        status = gpu_run_groups((gpukernel *)(intptr_t)params->gradients, steps, 1, wide, gradients.at, who);
    }
    gpudata_release(work);
    return status;
}

static int tng_ctc(int nin, int nout, PyObject **in, PyObject **out, const struct ctc_params *params)
{
    (void)nin;
    PyGpuArrayObject *x = gpu_input(in[0], (int)params->typecode, 3), *cost, *z = NULL;
    if (x == NULL || gpu_aligned(&x->ga, "ctc") < 0)
        return -1;
    PyGpuContextObject *ctx = x->context;
    const npy_intp batch = (npy_intp)x->ga.dimensions[1], symbols = (npy_intp)x->ga.dimensions[2];
    gpudata *examples = NULL;
    npy_intp most = 0;
    int status = -1;
    Examples e;
    if (read_examples(&e, in[1], in[2], (npy_intp)x->ga.dimensions[0], batch, symbols) < 0)
        goto done;
    for (npy_intp i = 0; i < batch; ++i)
        most = e.counts[i] > most ? e.counts[i] : most;
    for (int k = 0; k < nout; ++k)
        gpu_not_shared(&out[k], &x->ga);
    if ((cost = gpu_alloc(&out[0], ctx, 1, &x->ga.dimensions[1], x->ga.typecode)) == NULL
        || (nout > 1 && (z = gpu_alloc(&out[1], ctx, 3, x->ga.dimensions, x->ga.typecode)) == NULL)
        || (examples = upload_examples(&e, symbols, most, ctx->ctx)) == NULL)
        goto done;
    status = compute(x, cost, z, examples, most, params);
done:
    drop_examples(&e);
    if (examples != NULL)
        gpudata_release(examples);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(ctc), {0}};
NATIVE_MODULE(ctc, entries)
