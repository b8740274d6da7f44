/* Products of matrices and vectors on a device. On CUDA devices, cuBLASLt computes the products that it can compute
 * (device/cublas.c), and the kernels of kernels/product.py compute the others. For the kernels, the code finds the form
 * of the product for which a kernel is fastest: it may exchange the factors (out.T = b.T a.T), or copy a factor that has
 * no unit strides. */
#include "context.h"
#include "cublas.h"
#include "gpu_axes.h"
#include "gpu_tiles.h"

/* Parameters of a node.
 * kind: see `enum kind`
 * row: for IN_ROW, the index of the matrix that the product overwrites
 * in_place: whether the result overwrites the first input
 * typecode: type of all arrays
 * out_typecode: type of the result, which differs from `typecode` only with an ending
 * has_ending: whether the kernels apply an elementwise operation to the product
 * large, medium, small, along: the kernels of kernels/product.py. `along` is 0 on GPUs. With an ending, all are 0.
 * ended: with an ending, the address of a Python object that builds these kernels when they are needed
 * addresses: the kernels that this object has built, in the same order; 0 for the others
 * rows, columns: sizes of the tiles of the first three kernels, each in one byte, that of `large` in the lowest byte
 * library: which products cuBLASLt computes; see `enum library`
 * tf32: whether cuBLASLt may round float32 factors to TF32
 * operands: inputs of the elementwise operation, which follow the inputs of the product
 *
 * Parameters of an operand.
 * typecode: element type
 * is_number: whether the input is an array of one element on the host, which is passed by value
 * broadcastable: bits of the axes whose length is 1 according to the type */
NATIVE_PARAMS(operand, typecode, is_number, broadcastable);
NATIVE_TABLE(product, operand, operands, kind, row, in_place, typecode, out_typecode, has_ending, large, medium, small,
             along, ended, addresses, rows, columns, library, tf32);
NATIVE_READER(product)

enum library { NEVER, ALWAYS, IF_LARGE };

/* The inputs: (x, y), (c, alpha, a, b, beta), (y, alpha, a, x, beta), (a, alpha, x, y), as for GEMM with a first axis
 * along which matrices are stacked, and (c, x, y) for a product that overwrites a matrix of the stack c. */
enum kind { DOT22, GEMM, GEMV, GER, BATCH, IN_ROW };

typedef matrix_stack Matrices;

/* MOST_OPERANDS: see `GpuProductElemwise`. LARGEST_NUMBER: bytes of the largest number that is passed by value. */
enum { MOST_OPERANDS = 16, LARGEST_NUMBER = 16 };

typedef struct {
    Matrices a, b, c, out;
    double alpha, beta;                       /* used unless the array is given */
    const GpuArray *alpha_array, *beta_array; /* 0-d arrays, or NULL */
    PyGpuArrayObject *temporary;              /* an owned reference to memory for this call, or NULL */
    int n_operands;
    Matrices operands[MOST_OPERANDS]; /* unused for numbers */
    char numbers[MOST_OPERANDS][LARGEST_NUMBER];
} Product;

/* Describe an array as a stack of matrices. `axes` are the places of its axes among batch, row and column; other axes have
 * length 1. */
static int describe(Matrices *m, const PyGpuArrayObject *a, const int *axes)
{
    ssize_t size = (ssize_t)gpuarray_get_elsize(a->ga.typecode);
    if (gpu_aligned(&a->ga, "a product of matrices") < 0)
        return -1;
    m->data = a->ga.data;
    m->offset = a->ga.offset;
    for (int i = 0; i < 3; ++i) {
        m->dims[i] = 1;
        m->strides[i] = 0;
    }
    for (unsigned i = 0; i < a->ga.nd; ++i) {
        m->dims[axes[i]] = a->ga.dimensions[i];
        m->strides[axes[i]] = a->ga.dimensions[i] == 1 ? 0 : a->ga.strides[i] / size;
    }
    return 0;
}

/* Read a scalar, which is an array on the host or on the device of `c`. */
static int read_scalar(PyObject *value, PyGpuArrayObject *c, int typecode, double *number, const GpuArray **array)
{
    *array = NULL;
    if (PyGpuArray_Check(value)) {
        PyGpuArrayObject *a = gpu_input(value, typecode, 0);
        if (a == NULL || !gpu_same_context(a, c) || gpu_aligned(&a->ga, "a product of matrices") < 0)
            return -1;
        *array = &a->ga;
        return 0;
    }
    *number = PyFloat_AsDouble(value);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* ---- the form of a product ---- */

/* Estimated times of a multiplication and addition with vectors along the summed axis, relative to the largest tile, and of
 * copying one element */
static const double along_cost = 3, copy_cost = 100;

static void exchange_axes(Matrices *m)
{
    size_t dim = m->dims[1];
    ssize_t stride = m->strides[1];
    m->dims[1] = m->dims[2];
    m->strides[1] = m->strides[2];
    m->dims[2] = dim;
    m->strides[2] = stride;
}

/* Exchange the factors: the transposed result is the product of the transposed factors in the other order. */
static void exchange_factors(Product *p)
{
    Matrices a = p->a;
    p->a = p->b;
    p->b = a;
    exchange_axes(&p->a);
    exchange_axes(&p->b);
    exchange_axes(&p->c);
    exchange_axes(&p->out);
    for (int i = 0; i < p->n_operands; ++i)
        exchange_axes(&p->operands[i]);
}

static int is_unit(const Matrices *m, int axis)
{
    return m->dims[axis] <= 1 || m->strides[axis] == 1;
}

/* Replace b by a copy in C order. */
static int copy_b(Product *p, PyGpuContextObject *ctx, int typecode)
{
    ssize_t strides[3], size = (ssize_t)gpuarray_get_elsize(typecode);
    static const int axes[] = {0, 1, 2};
    for (int i = 0; i < 3; ++i)
        strides[i] = p->b.strides[i] * size;
    PyGpuArrayObject *view =
        pygpu_fromgpudata(p->b.data, p->b.offset, typecode, 3, p->b.dims, strides, ctx, 0, Py_None, Py_None);
    if (view == NULL)
        return -1;
    p->temporary = pygpu_copy(view, GA_C_ORDER);
    Py_DECREF(view);
    return p->temporary == NULL ? -1 : describe(&p->b, p->temporary, axes);
}

/* Return the number of rows of b for which a kernel may read `padded` elements without leaving the memory. */
static size_t whole_rows(const Matrices *b, size_t padded, size_t size)
{
    ssize_t room = (ssize_t)((gpudata_size(b->data) - b->offset) / size) - (ssize_t)padded;
    if (b->strides[0] > 0)
        room -= (ssize_t)(b->dims[0] - 1) * b->strides[0];
    if (room < 0)
        return 0;
    return b->strides[1] <= 0 ? b->dims[1] : (size_t)room / (size_t)b->strides[1] + 1;
}

/* ---- the launch ---- */

static void push_matrices(Arguments *args, Matrices *m)
{
    args_push(args, m->data);
    args_push(args, &m->offset);
    for (int i = 0; i < 3; ++i) {
        if (m->dims[i] <= 1)
            m->strides[i] = i == 2; /* a unit stride for the kernels that test it */
        args_push(args, &m->strides[i]);
    }
}

/* The number of the kernel `along`; the numbers of the others are those of their tiles. */
enum { ALONG = N_TILES };

/* Return the kernel of a tile. A kernel with an ending is built when it is used for the first time. */
static gpukernel *kernel_of(const Tile *tile, int number, const struct product_params *params)
{
    const int64_t *addresses = (const int64_t *)(intptr_t)params->addresses;
    if (!params->has_ending)
        return tile->kernel;
    if (__builtin_expect(addresses[number] == 0, 0)) {
        PyObject *built = PyObject_CallFunction((PyObject *)(intptr_t)params->ended, "i", number);
        if (built == NULL)
            return NULL;
        Py_DECREF(built);
    }
    return (gpukernel *)(intptr_t)addresses[number];
}

static int launch(Product *p, const Tile *tile, int number, size_t processors, const struct product_params *params)
{
    gpukernel *kernel = kernel_of(tile, number, params);
    int typecode = (int)params->typecode;
    if (kernel == NULL)
        return -1;
    int on_gpu = gpukernel_context(kernel)->info.vector_bytes == 0;
    size_t size = gpuarray_get_elsize(typecode),
           padded = (p->b.dims[2] + tile->columns - 1) / tile->columns * tile->columns;
    size_t whole = whole_rows(&p->b, padded, size),
           count = p->out.dims[0] * tiles_of(p->out.dims[1], p->out.dims[2], tile);
    float alpha = (float)p->alpha, beta = (float)p->beta;
    uint32_t scalars = (p->alpha_array != NULL) | (uint32_t)(p->beta_array != NULL) << 1;
    Arguments args = {0};
    args_push(&args, &p->out.dims[0]);
    args_push(&args, &p->out.dims[1]);
    args_push(&args, &p->out.dims[2]);
    args_push(&args, &p->a.dims[2]);
    args_push(&args, &whole);
    args_push(&args, typecode == GA_DOUBLE ? (void *)&p->alpha : &alpha);
    args_push(&args, typecode == GA_DOUBLE ? (void *)&p->beta : &beta);
    args_push(&args, &scalars);
    for (int i = 0; i < 2; ++i) {
        const GpuArray *scalar = i == 0 ? p->alpha_array : p->beta_array;
        args_push(&args, scalar == NULL ? p->out.data : scalar->data);
        args_push(&args, scalar == NULL ? &p->out.offset : &scalar->offset);
    }
    push_matrices(&args, &p->a);
    push_matrices(&args, &p->b);
    push_matrices(&args, &p->c);
    push_matrices(&args, &p->out);
    for (int i = 0; i < p->n_operands; ++i)
        if (params->operands[i].is_number)
            args_push(&args, p->numbers[i]);
        else
            push_matrices(&args, &p->operands[i]);
    size_t most = processors * (on_gpu ? 64 : 4), groups[2] = {count < most ? count : most, 1};
    size_t group[2] = {on_gpu ? 16 : 1, on_gpu ? 16 : 1};
    int code = gpukernel_call(kernel, 2, groups, group, 0, args.at);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(kernel), code, "the product of matrices");
}

/* Describe a factor for cuBLASLt, which expects float32 factors of float16 matrices. *wide becomes an owned reference to
 * a converted copy, or NULL. */
static int describe_factor(matrix_factor *to, double number, const GpuArray *array, PyGpuContextObject *ctx,
                           PyGpuArrayObject **wide)
{
    *to = (matrix_factor){.number = number};
    *wide = NULL;
    if (array == NULL)
        return 0;
    if (array->typecode == GA_HALF) {
        *wide = pygpu_empty(0, NULL, GA_FLOAT, GA_C_ORDER, ctx, Py_None);
        if (*wide == NULL || gpu_assign(*wide, array, "a factor of a product") < 0)
            return -1;
        array = &(*wide)->ga;
    }
    to->data = array->data;
    to->offset = array->offset;
    return 0;
}

/* Let cuBLASLt compute the product. Return 1 if the library does not compute this product. */
static int call_library(const Product *p, PyGpuContextObject *ctx, const struct product_params *params)
{
    matrix_factor alpha, beta;
    PyGpuArrayObject *wide_alpha = NULL, *wide_beta = NULL;
    int code = -1;
    if (describe_factor(&alpha, p->alpha, p->alpha_array, ctx, &wide_alpha) == 0
        && describe_factor(&beta, p->beta, p->beta_array, ctx, &wide_beta) == 0)
        code = cublas_product(ctx->ctx, (int)params->typecode, (int)params->tf32, &alpha, &p->a, &p->b, &beta, &p->c,
                              &p->out);
    Py_XDECREF(wide_alpha);
    Py_XDECREF(wide_beta);
    if (code < 0)
        return -1;
    if (code == GA_UNSUPPORTED_ERROR)
        return 1;
    return code == GA_NO_ERROR ? 0 : gpu_failed(ctx->ctx, code, "a product of matrices");
}

/* Multiplications from which on cuBLASLt and a second kernel take less time than a kernel with an ending. This number
 * is an estimate: a second kernel takes a few microseconds, in which a device computes about so many products. */
static const double large_product = 1 << 22;

/* Let cuBLASLt compute the product. With an ending, the library computes into new memory, which then becomes the matrix
 * that the kernel reads: out = ending(0 a b + 1 c). Return 1 if the library does not compute this product. */
static int by_library(Product *p, PyGpuContextObject *ctx, const struct product_params *params)
{
    if (!params->has_ending)
        return call_library(p, ctx, params);
    size_t *dims = p->out.dims;
    static const int axes[] = {0, 1, 2};
    if (params->library == IF_LARGE
        && (double)dims[0] * (double)dims[1] * (double)dims[2] * (double)p->a.dims[2] < large_product)
        return 1;
    PyGpuArrayObject *made = pygpu_empty(3, dims, (int)params->typecode, GA_C_ORDER, ctx, Py_None);
    if (made == NULL)
        return -1;
    Matrices out = p->out;
    int status = describe(&p->out, made, axes) < 0 ? -1 : call_library(p, ctx, params);
    if (status == 0) {
        p->c = p->out;
        p->alpha = 0;
        p->beta = 1;
        p->alpha_array = p->beta_array = NULL;
        p->temporary = made;
    }
    else
        Py_DECREF(made);
    p->out = out;
    return status;
}

/* Compute out = alpha a b + beta c, with an elementwise operation at the end if the node has one. */
static int compute(Product *p, PyGpuContextObject *ctx, const struct product_params *params)
{
    const device_info *info = &ctx->ctx->info;
    size_t batch = p->out.dims[0], m = p->out.dims[1], n = p->out.dims[2], k = p->a.dims[2];
    Tile tiles[N_TILES], along = {(gpukernel *)(intptr_t)params->along, 4, 1};
    if (batch == 0 || m == 0 || n == 0)
        return 0;
    if (params->library != NEVER) {
        int status = by_library(p, ctx, params);
        if (status <= 0 && (status < 0 || !params->has_ending))
            return status;
    }
    fill_tiles(tiles, params->large, params->medium, params->small, params->rows, params->columns);
    double direct, exchanged, vectors;
    int tile = choose_tile(tiles, N_TILES, batch, m, n, info->processors, &direct);
    if (info->vector_bytes == 0)
        return launch(p, &tiles[tile], tile, info->processors, params);
    int other = choose_tile(tiles, N_TILES, batch, n, m, info->processors, &exchanged);
    size_t longer = m > n ? m : n, shorter = m > n ? n : m;
    vectors = along_cost * (double)batch * (double)shorter * (double)((longer + 3) / 4 * 4) / (double)info->processors;
    if (!is_unit(&p->b, 2))
        direct += copy_cost * (double)batch * (double)n;
    if (!is_unit(&p->a, 1))
        exchanged += copy_cost * (double)batch * (double)m;
    if (is_unit(&p->a, 2) && is_unit(&p->b, 1) && k > 1 && vectors < direct && vectors < exchanged) {
        if (m < n)
            exchange_factors(p);
        return launch(p, &along, ALONG, info->processors, params);
    }
    if (exchanged < direct) {
        exchange_factors(p);
        tile = other;
    }
    if (!is_unit(&p->b, 2) && copy_b(p, ctx, (int)params->typecode) < 0)
        return -1;
    return launch(p, &tiles[tile], tile, info->processors, params);
}

/* ---- the inputs ---- */

static int mismatch(enum kind kind, const Product *p, int has_c)
{
    const size_t *a = p->a.dims, *b = p->b.dims, *c = p->c.dims;
    switch (kind) {
    case GEMV:
        PyErr_Format(PyExc_ValueError,
                     "Incompatible shapes for gemv (beta * y + alpha * dot(A, x)). y: (%zu,), A: (%zu, %zu), x: (%zu,)",
                     c[1], a[1], a[2], b[1]);
        break;
    case GER:
        PyErr_Format(PyExc_ValueError, "Shape mismatch: A has shape (%zu, %zu), x (%zu,) and y (%zu,)", c[1], c[2],
                     a[1], b[2]);
        break;
    case BATCH:
        PyErr_Format(PyExc_ValueError,
                     "Shape mismatch: z has shape (%zu, %zu, %zu), x (%zu, %zu, %zu) and y (%zu, %zu, %zu)", c[0], c[1],
                     c[2], a[0], a[1], a[2], b[0], b[1], b[2]);
        break;
    default:
        if (a[2] != b[1])
            PyErr_Format(PyExc_ValueError,
                         "Shape mismatch: x has %zu cols (and %zu rows) but y has %zu rows (and %zu cols)", a[2], a[1],
                         b[1], b[2]);
        else if (has_c)
            PyErr_Format(PyExc_ValueError,
                         "Shape mismatch: z has shape (%zu, %zu) but the product of x and y has shape (%zu, %zu)", c[1],
                         c[2], a[1], b[2]);
    }
    return -1;
}

/* For each kind: the number of inputs, the places of a and b among them, the ranks, and the axes of a, b and c. */
static const struct {
    int nin, a, b, a_rank, b_rank, c_rank, a_axes[3], b_axes[3], c_axes[3];
} forms[] = {
    [DOT22] = {2, 0, 1, 2, 2, 2, {1, 2}, {1, 2}, {1, 2}},
    [GEMM] = {5, 2, 3, 2, 2, 2, {1, 2}, {1, 2}, {1, 2}},
    [GEMV] = {5, 2, 3, 2, 1, 1, {1, 2}, {1}, {1}},
    [GER] = {4, 2, 3, 1, 1, 2, {1}, {2}, {1, 2}},
    [BATCH] = {5, 2, 3, 3, 3, 3, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}},
};

/* Read an input of the elementwise operation. `place` is its place among the inputs of the node. */
static int read_operand(Product *p, PyObject *value, int i, int place, PyGpuArrayObject *first,
                        const struct product_params *params)
{
    const struct operand_params *operand = &params->operands[i];
    int rank = forms[params->kind].c_rank;
    const int *axes = forms[params->kind].c_axes;
    if (operand->is_number) {
        PyArrayObject *number = (PyArrayObject *)value;
        if (!PyArray_Check(value) || PyArray_SIZE(number) != 1 || PyArray_ITEMSIZE(number) > LARGEST_NUMBER) {
            PyErr_Format(PyExc_TypeError, "input[%d] must be an array of one element on the host", place);
            return -1;
        }
        memcpy(p->numbers[i], PyArray_DATA(number), (size_t)PyArray_ITEMSIZE(number));
        return 0;
    }
    PyGpuArrayObject *a = gpu_input(value, (int)operand->typecode, rank);
    if (a == NULL || !gpu_same_context(a, first) || describe(&p->operands[i], a, axes) < 0)
        return -1;
    for (int d = 0; d < rank; ++d) {
        size_t expected = operand->broadcastable >> d & 1 ? 1 : p->out.dims[axes[d]];
        if (a->ga.dimensions[d] != expected) {
            PyErr_Format(PyExc_ValueError,
                         "Input dimension mis-match. (input[%d].shape[%d] = %zu, but the product needs the length %zu)",
                         place, d, a->ga.dimensions[d], expected);
            return -1;
        }
    }
    memcpy(p->operands[i].dims, p->out.dims, sizeof p->out.dims); /* the strides of broadcast axes are 0 */
    return 0;
}

/* Set c[row] = x y, for a stack of matrices c. A product of another shape is broadcast to the shape of c[row]. */
static int product_in_row(PyObject **in, PyObject **out, const struct product_params *params)
{
    int code = (int)params->typecode, status = -1;
    PyGpuArrayObject *c = gpu_input(in[0], code, 3), *x = c == NULL ? NULL : gpu_input(in[1], code, 2);
    PyGpuArrayObject *y = x == NULL ? NULL : gpu_input(in[2], code, 2), *made = NULL;
    Product p = {.alpha = 1};
    if (y == NULL || !gpu_same_context(c, x) || !gpu_same_context(c, y) || describe(&p.out, c, forms[BATCH].c_axes) < 0
        || describe(&p.a, x, forms[DOT22].a_axes) < 0 || describe(&p.b, y, forms[DOT22].b_axes) < 0)
        return -1;
    if ((size_t)params->row >= c->ga.dimensions[0]) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for axis 0 with size %zu", (long long)params->row,
                     c->ga.dimensions[0]);
        return -1;
    }
    size_t dims[3] = {1, p.a.dims[1], p.b.dims[2]};
    if (p.a.dims[2] != p.b.dims[1])
        return mismatch(DOT22, &p, 0);
    native_set(out, Py_NewRef((PyObject *)c));
    p.out.offset += (size_t)(params->row * c->ga.strides[0]);
    p.out.dims[0] = 1;
    if (memcmp(dims, p.out.dims, sizeof dims) != 0
        && ((made = pygpu_empty(2, dims + 1, code, GA_C_ORDER, c->context, Py_None)) == NULL
            || describe(&p.out, made, forms[DOT22].c_axes) < 0))
        return -1;
    p.c = p.out;
    status = compute(&p, c->context, params);
    if (status == 0 && made != NULL) {
        PyObject *row = PyLong_FromLongLong(params->row);
        status = row == NULL ? -1 : PyObject_SetItem((PyObject *)c, row, (PyObject *)made);
        Py_XDECREF(row);
    }
    Py_XDECREF(made);
    Py_XDECREF(p.temporary);
    return status;
}

static int tng_product(int nin, int nout, PyObject **in, PyObject **out, const struct product_params *params)
{
    (void)nout;
    enum kind kind = (enum kind)params->kind;
    if (kind == IN_ROW)
        return product_in_row(in, out, params);
    int code = (int)params->typecode, has_c = kind != DOT22;
    PyGpuArrayObject *a = gpu_input(in[forms[kind].a], code, forms[kind].a_rank);
    PyGpuArrayObject *b = a == NULL ? NULL : gpu_input(in[forms[kind].b], code, forms[kind].b_rank);
    PyGpuArrayObject *c = b == NULL || !has_c ? b : gpu_input(in[0], code, forms[kind].c_rank);
    if (c == NULL || !gpu_same_context(a, b) || !gpu_same_context(a, c))
        return -1;
    Product p = {.alpha = 1, .beta = kind == GER};
    if (has_c
        && (read_scalar(in[1], c, code, &p.alpha, &p.alpha_array) < 0
            || (kind != GER && read_scalar(in[4], c, code, &p.beta, &p.beta_array) < 0)))
        return -1;
    if (describe(&p.a, a, forms[kind].a_axes) < 0 || describe(&p.b, b, forms[kind].b_axes) < 0
        || describe(&p.c, c, forms[kind].c_axes) < 0)
        return -1;
    size_t dims[3] = {p.a.dims[0], p.a.dims[1], p.b.dims[2]};
    if (p.a.dims[2] != p.b.dims[1] || p.a.dims[0] != p.b.dims[0] || (has_c && memcmp(dims, p.c.dims, sizeof dims) != 0))
        return mismatch(kind, &p, has_c);
    memcpy(p.out.dims, dims, sizeof dims);
    p.n_operands = nin - forms[kind].nin;
    for (int i = 0; i < p.n_operands; ++i)
        if (read_operand(&p, in[forms[kind].nin + i], i, forms[kind].nin + i, a, params) < 0)
            return -1;
    PyGpuArrayObject *made = c;
    if (params->in_place)
        native_set(out, Py_NewRef((PyObject *)c));
    else {
        gpu_not_shared(out, &a->ga);
        gpu_not_shared(out, &b->ga);
        gpu_not_shared(out, &c->ga);
        for (int i = forms[kind].nin; i < nin; ++i)
            if (PyGpuArray_Check(in[i]))
                gpu_not_shared(out, &((PyGpuArrayObject *)in[i])->ga);
        made = gpu_alloc(out, a->context, (unsigned)forms[kind].c_rank, dims + forms[kind].c_axes[0],
                         (int)params->out_typecode);
        if (made == NULL)
            return -1;
    }
    if (describe(&p.out, made, forms[kind].c_axes) < 0)
        return -1;
    if (!has_c)
        p.c = p.out;
    int status = compute(&p, a->context, params);
    Py_XDECREF(p.temporary);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(product), NATIVE_ROW(operand), {0}};
NATIVE_MODULE(product, entries)
