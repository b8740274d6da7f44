/* Correlations of images with kernels on a device, and their gradients. kernels/correlation.py defines the sum that the
 * kernels compute; this file expresses each correlation as such sums. The arrays may have any strides. */
#include "context.h"
#include "gpu_axes.h"
#include "gpu_tiles.h"

/* Parameters of a node.
 * kind, n_dims, pads, stride, dilation, groups, unshared: see conv_shapes.h
 * typecode: type of all arrays
 * large, medium, small, rows, columns: see gpu_tiles.h
 * on_gpu: whether groups of threads compute tiles; otherwise a thread does, and there is only the tile `large`
 * processors: number of processors to keep busy; 0: those of the device
 * sum_of_parts: the kernel that adds the parts of sums */
NATIVE_FUNCTION(correlate, kind, n_dims, pads[6], stride[3], dilation[3], groups, unshared, typecode, large, medium,
                small, rows, columns, on_gpu, processors, sum_of_parts)

#include "convolution/conv_shapes.h"

/* An array of images, (outer, inner, *axis), or of kernels, (outer, *place, inner, *axis). The names of the axes are the
 * names of their strides, in elements. Missing axes have stride 0. */
typedef struct {
    gpudata *data;
    size_t offset; /* bytes */
    ssize_t outer, inner, axis[3], place[3];
} Array;

/* The arguments of a kernel, in the order of _PARAMETERS in kernels/correlation.py */
typedef struct {
    size_t groups, m, u, v[3], q, t[3], p[3], n[3], parts, b_size;
    uint32_t sparse;
    ssize_t start[3], v_step[3], t_step[3], p_step[3];
    gpudata *a;
    size_t a_at;
    ssize_t a_g, a_m, a_q, a_t[3], a_p[3];
    gpudata *b;
    size_t b_at;
    ssize_t b_g, b_u, b_q, b_s[3];
    gpudata *out;
    size_t out_at;
    ssize_t out_part, out_g, out_m, out_u, out_v[3], out_p[3];
} Sum;

static Array describe(const GpuArray *a, int n, size_t size)
{
    Array result = {.data = a->data, .offset = a->offset, .outer = a->strides[0] / (ssize_t)size};
    int positions = (int)a->nd - n - 2; /* n if unshared, otherwise 0 */
    result.inner = a->strides[1 + positions] / (ssize_t)size;
    for (int d = 0; d < n; ++d) {
        result.axis[3 - n + d] = a->strides[2 + positions + d] / (ssize_t)size;
        if (positions)
            result.place[3 - n + d] = a->strides[1 + d] / (ssize_t)size;
    }
    return result;
}

/* ---- the sums ---- */

static Sum new_sum(size_t groups, const Array *a, const Array *b, size_t size)
{
    Sum s = {.groups = groups, .parts = 1, .a = a->data, .a_at = a->offset, .b = b->data, .b_at = b->offset};
    s.b_size = gpudata_size(b->data) / size;
    for (int d = 0; d < 3; ++d)
        s.v[d] = s.t[d] = s.p[d] = s.n[d] = 1;
    return s;
}

/* out[f, o] = sum of kernels[f, (o,) c, tap] * image[c, o * stride + tap * dilation - pad] over c and tap */
static Sum forward(const struct geometry *g, const Array *x, const Array *w, const Array *y, int unshared, size_t size)
{
    Sum s = new_sum((size_t)g->groups, w, x, size);
    s.m = (size_t)g->filters;
    s.u = (size_t)g->batch;
    s.q = (size_t)g->channels;
    s.a_g = w->outer * g->filters, s.a_m = w->outer, s.a_q = w->inner;
    s.b_g = x->inner * g->channels, s.b_u = x->outer, s.b_q = x->inner;
    s.out_g = y->inner * g->filters, s.out_m = y->inner, s.out_u = y->outer;
    for (int d = 0; d < 3; ++d) {
        *(unshared ? &s.p[d] : &s.v[d]) = (size_t)g->top[d];
        *(unshared ? &s.p_step[d] : &s.v_step[d]) = g->stride[d];
        *(unshared ? &s.out_p[d] : &s.out_v[d]) = y->axis[d];
        s.a_p[d] = w->place[d];
        s.t[d] = (size_t)g->kernel[d];
        s.t_step[d] = g->dilation[d];
        s.start[d] = -g->pad[d];
        s.n[d] = (size_t)g->image[d];
        s.a_t[d] = w->axis[d];
        s.b_s[d] = x->axis[d];
    }
    return s;
}

/* out[f, (o,) c, tap] = sum of gradient[f, o] * image[c, o * stride + tap * dilation - pad] over images and o */
static Sum of_weights(const struct geometry *g, const Array *x, const Array *w, const Array *y, int unshared,
                      size_t size)
{
    Sum s = new_sum((size_t)g->groups, y, x, size);
    s.m = (size_t)g->filters;
    s.u = (size_t)g->channels;
    s.q = (size_t)g->batch;
    s.a_g = y->inner * g->filters, s.a_m = y->inner, s.a_q = y->outer;
    s.b_g = x->inner * g->channels, s.b_u = x->inner, s.b_q = x->outer;
    s.out_g = w->outer * g->filters, s.out_m = w->outer, s.out_u = w->inner;
    for (int d = 0; d < 3; ++d) {
        *(unshared ? &s.p[d] : &s.t[d]) = (size_t)g->top[d];
        *(unshared ? &s.p_step[d] : &s.t_step[d]) = g->stride[d];
        *(unshared ? &s.a_p[d] : &s.a_t[d]) = y->axis[d];
        s.out_p[d] = w->place[d];
        s.v[d] = (size_t)g->kernel[d];
        s.v_step[d] = g->dilation[d];
        s.start[d] = -g->pad[d];
        s.n[d] = (size_t)g->image[d];
        s.b_s[d] = x->axis[d];
        s.out_v[d] = w->axis[d];
    }
    return s;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Tap k connects a pixel with the output (pixel + pad - k * dilation) / s, where s is the stride, if the division has no
 * remainder. So the taps k, k + step, k + 2 step ... connect the pixels first + s i, for all i, where step is s divided by
 * the greatest common divisor of s and the dilation. Return the first pixel for the first tap k < step. */
static int64_t first_pixel(const struct geometry *g, int axis, int64_t tap)
{
    int64_t rest = (tap * g->dilation[axis] - g->pad[axis]) % g->stride[axis];
    return rest < 0 ? rest + g->stride[axis] : rest;
}

/* The gradient of the pixels that the given first taps of the axes reach. The pixels are inside of the image. */
static Sum of_inputs(const struct geometry *g, const Array *x, const Array *w, const Array *y, int unshared,
                     size_t size, const int64_t *taps)
{
    Sum s = new_sum((size_t)g->groups, w, y, size);
    ssize_t a_moved = 0, out_moved = 0;
    s.m = (size_t)g->channels;
    s.u = (size_t)g->batch;
    s.q = (size_t)g->filters;
    s.sparse = (uint32_t)unshared;
    s.a_g = w->outer * g->filters, s.a_m = w->inner, s.a_q = w->outer;
    s.b_g = y->inner * g->filters, s.b_u = y->outer, s.b_q = y->inner;
    s.out_g = x->inner * g->channels, s.out_m = x->inner, s.out_u = x->outer;
    for (int d = 0; d < 3; ++d) {
        int64_t stride = g->stride[d], common = common_divisor(stride, g->dilation[d]), step = stride / common;
        int64_t tap = taps[d], first = first_pixel(g, d, tap);
        int64_t output = (first + g->pad[d] - tap * g->dilation[d]) / stride;
        *(unshared ? &s.p[d] : &s.v[d]) = (size_t)((g->image[d] - first + stride - 1) / stride);
        *(unshared ? &s.p_step[d] : &s.v_step[d]) = 1;
        *(unshared ? &s.out_p[d] : &s.out_v[d]) = x->axis[d] * stride;
        s.t[d] = (size_t)((g->kernel[d] - tap + step - 1) / step);
        s.t_step[d] = -g->dilation[d] / common;
        s.start[d] = output;
        s.n[d] = (size_t)g->top[d];
        s.a_p[d] = w->place[d];
        s.a_t[d] = w->axis[d] * step - w->place[d] * (g->dilation[d] / common);
        s.b_s[d] = y->axis[d];
        a_moved += tap * w->axis[d] + output * w->place[d];
        out_moved += first * x->axis[d];
    }
    s.a_at += (size_t)a_moved * size;
    s.out_at = (size_t)out_moved; /* elements; `compute` adds the begin of the array */
    return s;
}

/* ---- launches ---- */

static void push_sizes(Arguments *args, const size_t *values, int count)
{
    for (int i = 0; i < count; ++i)
        args_push(args, &values[i]);
}

static void push_steps(Arguments *args, const ssize_t *values, int count)
{
    for (int i = 0; i < count; ++i)
        args_push(args, &values[i]);
}

typedef struct {
    Tile tiles[N_TILES];
    int n_tiles, on_gpu;
    size_t processors;
} Device;

static size_t columns_of(const Sum *s)
{
    return s->u * s->v[0] * s->v[1] * s->v[2];
}

static size_t products_of(const Sum *s)
{
    return s->groups * s->p[0] * s->p[1] * s->p[2];
}

static int launch(const Sum *s, const Device *device)
{
    double cost;
    size_t n = columns_of(s), batch = products_of(s) * s->parts;
    const Tile *tile =
        &device->tiles[choose_tile(device->tiles, device->n_tiles, batch, s->m, n, device->processors, &cost)];
    size_t count = batch * tiles_of(s->m, n, tile), most = device->processors * (device->on_gpu ? 64 : 4);
    size_t groups[2] = {count < most ? count : most, 1}, side = device->on_gpu ? 16 : 1, group[2] = {side, side};
    Arguments args = {0};
    push_sizes(&args, &s->groups, (int)((&s->b_size - &s->groups) + 1));
    args_push(&args, &s->sparse);
    push_steps(&args, s->start, 12);
    args_push(&args, s->a);
    args_push(&args, &s->a_at);
    push_steps(&args, &s->a_g, 9);
    args_push(&args, s->b);
    args_push(&args, &s->b_at);
    push_steps(&args, &s->b_g, 6);
    args_push(&args, s->out);
    args_push(&args, &s->out_at);
    push_steps(&args, &s->out_part, 10);
    int code = gpukernel_call(tile->kernel, 2, groups, group, 0, args.at);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(tile->kernel), code, "a correlation");
}

/* Return the number of parts into which to divide the sums, so that all processors have work. */
static size_t parts_of(const Sum *s, const Device *device)
{
    size_t count = products_of(s) * tiles_of(s->m, columns_of(s), &device->tiles[device->n_tiles - 1]);
    size_t wanted = device->processors * (device->on_gpu ? 2 : 1), length = s->q * s->t[0] * s->t[1] * s->t[2];
    size_t parts = count < wanted ? wanted / count : 1, most = length / (device->on_gpu ? 256 : 2048);
    parts = parts < most ? parts : most;
    return parts < 1 ? 1 : parts > 64 ? 64 : parts;
}

static int add_parts(gpukernel *kernel, size_t n, size_t parts, PyGpuArrayObject *x, PyGpuArrayObject *out)
{
    Arguments args = {0};
    args_push(&args, &n);
    args_push(&args, &parts);
    args_array(&args, &x->ga, &x->ga.offset);
    args_array(&args, &out->ga, &out->ga.offset);
    return gpu_run(kernel, n, args.at, "a correlation");
}

/* Compute the result from the two inputs. */
static int compute(const struct geometry *g, PyGpuArrayObject *first, PyGpuArrayObject *second, PyGpuArrayObject *out,
                   const struct correlate_params *params)
{
    int n = (int)params->n_dims, kind = (int)params->kind, unshared = params->unshared != 0, status = 0;
    size_t size = gpuarray_get_elsize((int)params->typecode), total = gpu_size(&out->ga);
    int number = params->typecode == GA_HALF ? GA_FLOAT : (int)params->typecode;
    Array one = describe(&first->ga, n, size), two = describe(&second->ga, n, size),
          result = describe(&out->ga, n, size);
    Device device = {.n_tiles = params->on_gpu ? N_TILES : 1, .on_gpu = params->on_gpu != 0};
    PyGpuArrayObject *partial = NULL;
    size_t parts = 0;
    int64_t phases[3] = {1, 1, 1};
    int has_gaps = 0; /* whether there are pixels that no tap reaches */
    device.processors = params->processors ? (size_t)params->processors : out->context->ctx->info.processors;
    fill_tiles(device.tiles, params->large, params->medium, params->small, params->rows, params->columns);
    for (int d = 0; kind == INPUTS && d < 3; ++d) {
        int64_t step = g->stride[d] / common_divisor(g->stride[d], g->dilation[d]);
        phases[d] = g->kernel[d] < step ? g->kernel[d] : step;
        has_gaps |= phases[d] < g->stride[d];
    }
    if (has_gaps) {
        int code = GpuArray_memset(&out->ga, 0);
        if (code != GA_NO_ERROR)
            return gpu_failed(out->context->ctx, code, "a correlation");
    }
    for (int64_t k = 0; k < phases[0] * phases[1] * phases[2] && status == 0; ++k) {
        const int64_t taps[3] = {k / (phases[1] * phases[2]), k / phases[2] % phases[1], k % phases[2]};
        int inside = 1;
        for (int d = 0; kind == INPUTS && d < 3; ++d)
            inside &= first_pixel(g, d, taps[d]) < g->image[d];
        if (!inside)
            continue;
        Sum s = kind == FORWARD   ? forward(g, &one, &two, &result, unshared, size)
                : kind == WEIGHTS ? of_weights(g, &one, &result, &two, unshared, size)
                                  : of_inputs(g, &result, &one, &two, unshared, size, taps);
        if (parts == 0 && (parts = has_gaps ? 1 : parts_of(&s, &device)) > 1) {
            size_t length = parts * total;
            if ((partial = pygpu_empty(1, &length, number, GA_C_ORDER, out->context, Py_None)) == NULL)
                return -1;
        }
        PyGpuArrayObject *to = partial == NULL ? out : partial;
        s.parts = parts;
        s.out = to->ga.data;
        s.out_at = to->ga.offset + s.out_at * gpuarray_get_elsize(to->ga.typecode);
        s.out_part = (ssize_t)total;
        status = launch(&s, &device);
    }
    if (status == 0 && partial != NULL)
        status = add_parts((gpukernel *)(intptr_t)params->sum_of_parts, total, parts, partial, out);
    Py_XDECREF(partial);
    return status;
}

/* Inputs: images and kernels, images and gradient, or kernels and gradient; the lengths of the result's axes, on the host */
static int tng_correlate(int nin, int nout, PyObject **in, PyObject **out, const struct correlate_params *params)
{
    (void)nout;
    struct geometry g;
    struct shape inputs[2], shape;
    PyGpuArrayObject *given[2];
    size_t dims[8];
    for (int i = 0; i < 2; ++i) {
        given[i] = gpu_input(in[i], (int)params->typecode, -1);
        if (given[i] == NULL || !gpu_same_context(given[0], given[i])
            || gpu_aligned(&given[i]->ga, "a correlation") < 0)
            return -1;
        inputs[i] = (struct shape){.n = (int)given[i]->ga.nd};
        for (int d = 0; d < inputs[i].n; ++d)
            inputs[i].dims[d] = (int64_t)given[i]->ga.dimensions[d];
        gpu_not_shared(out, &given[i]->ga);
    }
    if (measure(inputs, nin - 2, in + 2, params, &g, &shape) < 0)
        return -1;
    for (int d = 0; d < shape.n; ++d)
        dims[d] = (size_t)shape.dims[d];
    PyGpuArrayObject *result = gpu_alloc(out, given[0]->context, (unsigned)shape.n, dims, (int)params->typecode);
    if (result == NULL)
        return -1;
    return gpu_size(&result->ga) == 0 ? 0 : compute(&g, given[0], given[1], result, params);
}

static const NativeEntry entries[] = {NATIVE_ENTRY(correlate), {0}};
NATIVE_MODULE(correlation, entries)
