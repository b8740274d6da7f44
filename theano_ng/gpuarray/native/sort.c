/* Sorting, and selection of the k best elements, on a device (kernels/sort.py).
 *
 * Kernels work on contiguous arrays, along the last axis. Other inputs are copied first. If the axis is not the last
 * axis, or the type of the indices is not int64, the kernels write to temporary arrays, which are then copied to the
 * outputs. Nothing here waits for the device. */
#include "gpu_axes.h"
#include "sorting/sort_axis.h"

/* Size in bits of a digit on GPUs, and number of digits, as in kernels/sort.py */
enum { DIGIT = 4, DIGITS = 1 << DIGIT };

/* The largest number of groups that share a line */
#define MOST_SHARES ((size_t)1024)

/* A place in the memory of the device. */
typedef struct {
    gpudata *data;
    size_t at;
} Place;

/* Lines of n elements. They are contiguous, and follow each other. `order`: all bits are set if the largest element
 * comes first. `group`: the maximum number of threads in a group; 1 on processors, where a thread processes a line.
 * A line is divided into `shares` pieces of `piece` elements. */
typedef struct {
    gpucontext *ctx;
    const char *who;
    size_t n, count, item, group, shares, piece;
    uint64_t order;
} Lines;

/* Divide the lines so that the device is busy, but each group has at least `least` elements. `wanted`: the number of
 * groups; if it is negative, there are several groups for each processor of a GPU, and lines are not divided on CPUs. */
static void divide(Lines *l, int64_t least, int64_t wanted)
{
    size_t groups = (size_t)wanted, most = (l->n + (size_t)least - 1) / (size_t)least;
    if (wanted < 0) {
        unsigned processors = 0;
        gpucontext_property(l->ctx, GA_CTX_PROP_NUMPROCS, &processors);
        groups = l->group == 1 ? 0 : (size_t)processors * 8;
    }
    l->shares = l->count == 0 ? 1 : groups / l->count;
    l->shares = l->shares < most ? l->shares : most;
    l->shares = l->shares < 1 ? 1 : l->shares > MOST_SHARES ? MOST_SHARES : l->shares;
    l->piece = (l->n + l->shares - 1) / l->shares;
}

static gpudata *room(const Lines *l, size_t count, size_t item)
{
    int code = GA_NO_ERROR;
    size_t bytes;
    gpudata *made = NULL;
    if (__builtin_mul_overflow(count, item, &bytes))
        PyErr_NoMemory();
    else if ((made = gpudata_alloc(l->ctx, bytes, NULL, 0, &code)) == NULL)
        gpu_failed(l->ctx, code, l->who);
    return made;
}

/* The stream reuses the memory only after the kernels have run. */
static void release(gpudata *data)
{
    if (data != NULL)
        gpudata_release(data);
}

static void push_place(Arguments *args, const Place *place)
{
    args_push(args, place->data);
    args_push(args, &place->at);
}

static int launch(const Lines *l, int64_t kernel, size_t groups, const Arguments *args)
{
    return gpu_run_groups((gpukernel *)(intptr_t)kernel, groups, 1, l->group, args->at, l->who);
}

static void push_lines(Arguments *args, const Lines *l)
{
    args_push(args, &l->n);
    args_push(args, &l->count);
}

static void push_shares(Arguments *args, const Lines *l, gpudata *counts)
{
    args_push(args, &l->piece);
    args_push(args, &l->shares);
    args_push(args, counts);
}

/* Count a digit in each piece of each line. `known`: the bits of the keys that must equal those in `states`, or 0. */
static int count_pieces(const Lines *l, int64_t kernel, const Place *x, uint32_t shift, uint64_t known, gpudata *states,
                        gpudata *counts)
{
    Arguments args = {0};
    push_lines(&args, l);
    args_push(&args, &l->order);
    push_place(&args, x);
    args_push(&args, &shift);
    args_push(&args, &known);
    args_push(&args, states);
    push_shares(&args, l, counts);
    return launch(l, kernel, l->count * l->shares, &args);
}

static int add_counts(const Lines *l, int64_t kernel, size_t rows, size_t length, gpudata *counts)
{
    Arguments args = {0};
    args_push(&args, &rows);
    args_push(&args, &length);
    args_push(&args, counts);
    return launch(l, kernel, rows, &args);
}

/* ------------------------------------------------------------------ sorted lines */

/* The kernels that sort: by a thread or a group for each line; and those for lines that several groups share. */
typedef struct {
    int64_t lines, count, add, move, positions;
} SortKernels;

/* Elements, and the indices that move with them (data == NULL: there are none). */
typedef struct {
    Place x, index;
} Elements;

static void push_sort(Arguments *args, const Lines *l, const Elements *from, const Elements *to, const Elements *work,
                      const uint32_t *made)
{
    push_lines(args, l);
    args_push(args, &l->order);
    push_place(args, &from->x);
    push_place(args, &to->x);
    push_place(args, &work->x);
    if (to->index.data == NULL)
        return;
    args_push(args, made);
    push_place(args, *made ? &to->index : &from->index);
    push_place(args, &to->index);
    push_place(args, &work->index);
}

/* Sort lines that several groups share, one digit after the other. The number of digits is even, so that the last pass
 * writes to `to`. */
static int sort_pieces(const Lines *l, const SortKernels *k, Elements from, const Elements *to, const Elements *work)
{
    gpudata *counts = room(l, l->count * DIGITS * l->shares, sizeof(size_t));
    int status = counts == NULL ? -1 : 0;
    uint32_t made = 0;
    if (status == 0 && to->index.data != NULL && from.index.data == NULL) {
        Arguments args = {0};
        push_lines(&args, l);
        push_place(&args, &to->index);
        status = gpu_run((gpukernel *)(intptr_t)k->positions, l->n * l->count, args.at, l->who);
        from.index = to->index; /* the first pass writes to `work` */
    }
    for (uint32_t shift = 0; status == 0 && shift < 8 * l->item; shift += DIGIT) {
        const Elements *target = shift / DIGIT % 2 ? to : work;
        Arguments args = {0};
        if ((status = count_pieces(l, k->count, &from.x, shift, 0, counts, counts)) < 0
            || (status = add_counts(l, k->add, l->count, DIGITS * l->shares, counts)) < 0)
            break;
        push_sort(&args, l, &from, target, target, &made);
        args_push(&args, &shift);
        push_shares(&args, l, counts);
        status = launch(l, k->move, l->count * l->shares, &args);
        from = *target;
    }
    release(counts);
    return status;
}

/* Sort lines stably. If `to` has indices but `from` has none, the indices of `from` are the positions in the line. */
static int sort_lines(const Lines *l, const SortKernels *k, const Elements *from, const Elements *to)
{
    Elements work = {{NULL, 0}, {NULL, 0}};
    uint32_t made = from->index.data == NULL;
    int status = -1;
    work.x.data = room(l, l->n * l->count, l->item);
    if (work.x.data != NULL && to->index.data != NULL)
        work.index.data = room(l, l->n * l->count, sizeof(int64_t));
    if (work.x.data != NULL && (to->index.data == NULL) == (work.index.data == NULL)) {
        if (l->shares > 1)
            status = sort_pieces(l, k, *from, to, &work);
        else {
            Arguments args = {0};
            push_sort(&args, l, from, to, &work, &made);
            status = launch(l, k->lines, l->count, &args);
        }
    }
    release(work.x.data);
    release(work.index.data);
    return status;
}

/* ------------------------------------------------------------------ selected elements */

/* The kernels that select: by a thread or a group for each line; and those for lines that several groups share. */
typedef struct {
    int64_t lines, count, choose, count_best, add, copy_best;
} SelectKernels;

static void push_select(Arguments *args, const Lines *l, const size_t *k, const Place *x, const Elements *to)
{
    push_lines(args, l);
    args_push(args, k);
    args_push(args, &l->order);
    push_place(args, x);
    push_place(args, &to->x);
    push_place(args, &to->index);
}

/* Find the k-th best key of lines that several groups share, from its highest digit on. */
static int find_limits(const Lines *l, const SelectKernels *kernels, const size_t *k, const Place *x, gpudata *states,
                       gpudata *counts)
{
    uint64_t known = 0;
    for (int32_t at = (int32_t)(8 * l->item) - DIGIT; at >= 0; at -= DIGIT) {
        uint32_t shift = (uint32_t)at, is_first = known == 0;
        if (count_pieces(l, kernels->count, x, shift, known, states, counts) < 0)
            return -1;
        Arguments args = {0};
        args_push(&args, &l->count);
        args_push(&args, k);
        args_push(&args, &shift);
        args_push(&args, &is_first);
        args_push(&args, &l->shares);
        args_push(&args, counts);
        args_push(&args, states);
        if (launch(l, kernels->choose, l->count, &args) < 0)
            return -1;
        known |= (uint64_t)(DIGITS - 1) << shift;
    }
    return 0;
}

/* Copy the elements that are better than the limits. */
static int copy_pieces(const Lines *l, const SelectKernels *kernels, const size_t *k, const Place *x,
                       const Elements *to, gpudata *states, gpudata *counts)
{
    Arguments args = {0};
    push_lines(&args, l);
    args_push(&args, &l->order);
    push_place(&args, x);
    args_push(&args, states);
    push_shares(&args, l, counts);
    if (launch(l, kernels->count_best, l->count * l->shares, &args) < 0
        || add_counts(l, kernels->add, 2 * l->count, l->shares, counts) < 0)
        return -1;
    args.n = 0;
    push_select(&args, l, k, x, to);
    args_push(&args, states);
    push_shares(&args, l, counts);
    return launch(l, kernels->copy_best, l->count * l->shares, &args);
}

/* Select the k best elements of each line, in the order of the line. */
static int select_lines(const Lines *l, const SelectKernels *kernels, size_t k, const Place *x, const Elements *to)
{
    Arguments args = {0};
    if (l->shares == 1) {
        push_select(&args, l, &k, x, to);
        return launch(l, kernels->lines, l->count, &args);
    }
    gpudata *counts = room(l, l->count * DIGITS * l->shares, sizeof(size_t));
    gpudata *states = counts == NULL ? NULL : room(l, 2 * l->count, sizeof(uint64_t));
    int status = states == NULL ? -1
                 : find_limits(l, kernels, &k, x, states, counts) < 0
                     ? -1
                     : copy_pieces(l, kernels, &k, x, to, states, counts);
    release(counts);
    release(states);
    return status;
}

/* ------------------------------------------------------------------ inputs and outputs */

/* Return a view of an array with an axis moved to the end. */
static PyGpuArrayObject *axis_last(PyGpuArrayObject *a, unsigned axis)
{
    unsigned axes[GA_MAX_DIMS];
    for (unsigned i = 0; i < a->ga.nd; ++i)
        axes[i] = i < axis ? i : i + 1 < a->ga.nd ? i + 1 : axis;
    return pygpu_transpose(a, axes);
}

/* Return the input as a contiguous array with the axis at the end, a new reference. */
static PyGpuArrayObject *lines_of(PyGpuArrayObject *x, unsigned axis)
{
    if (axis + 1 == x->ga.nd && GpuArray_IS_C_CONTIGUOUS(&x->ga))
        return (PyGpuArrayObject *)Py_NewRef((PyObject *)x);
    PyGpuArrayObject *view = axis_last(x, axis), *made = view;
    if (view != NULL && !GpuArray_IS_C_CONTIGUOUS(&view->ga)) {
        made = pygpu_copy(view, GA_C_ORDER);
        Py_DECREF(view);
    }
    return made;
}

/* Return the array to which kernels write the result for an output, a new reference: the output, or a temporary array
 * of type `typecode` with the axis at the end. */
static PyGpuArrayObject *result_for(PyGpuArrayObject *z, unsigned axis, int typecode)
{
    if (axis + 1 == z->ga.nd && z->ga.typecode == typecode)
        return (PyGpuArrayObject *)Py_NewRef((PyObject *)z);
    PyGpuArrayObject *view = axis_last(z, axis), *made = NULL;
    if (view != NULL)
        made = pygpu_empty(view->ga.nd, view->ga.dimensions, typecode, GA_C_ORDER, z->context, Py_None);
    Py_XDECREF(view);
    return made;
}

/* Copy a result to its output. */
static int store(PyGpuArrayObject *z, PyGpuArrayObject *result, unsigned axis, const char *who)
{
    if (z == result)
        return 0;
    PyGpuArrayObject *view = axis_last(z, axis);
    int status = view == NULL ? -1 : gpu_assign(view, &result->ga, who);
    Py_XDECREF(view);
    return status;
}

static Place place_of(const PyGpuArrayObject *a)
{
    Place place = {NULL, 0};
    if (a != NULL)
        place = (Place){a->ga.data, a->ga.offset};
    return place;
}

/* Parameters of the Ops: the maximum number of threads in a group, and the arguments of divide(). */
static Lines describe(const PyGpuArrayObject *x, unsigned axis, int64_t group, const char *who)
{
    Lines l = {
        x->context->ctx, who, x->ga.dimensions[axis], 1, gpuarray_get_elsize(x->ga.typecode), (size_t)group, 1, 0, 0};
    for (unsigned i = 0; i < x->ga.nd; ++i)
        l.count *= i == axis ? 1 : x->ga.dimensions[i];
    return l;
}

/* ------------------------------------------------------------------ sort, argsort: (x, axis) */

NATIVE_FUNCTION(sort, indexed, group, least, groups, lines, count, add, move, positions)
static int tng_sort(int nin, int nout, PyObject **in, PyObject **out, const struct sort_params *params)
{
    (void)nin, (void)nout;
    const char *who = params->indexed ? "GpuArgSortOp" : "GpuSortOp";
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1), *from = NULL, *to = NULL;
    int along, status = -1;
    if (x == NULL || read_axis(in[1], (int)x->ga.nd, &along) < 0 || gpu_aligned(&x->ga, who) < 0)
        return -1;
    unsigned axis = (unsigned)along;
    int typecode = params->indexed ? GA_LONG : x->ga.typecode;
    gpu_not_shared(out, &x->ga);
    PyGpuArrayObject *z = gpu_alloc(out, x->context, x->ga.nd, x->ga.dimensions, typecode);
    if (z == NULL || gpu_size(&z->ga) == 0)
        return z == NULL ? -1 : 0;
    Lines l = describe(x, axis, params->group, who);
    divide(&l, params->least, params->groups);
    SortKernels kernels = {params->lines, params->count, params->add, params->move, params->positions};
    gpudata *values = NULL;
    if ((from = lines_of(x, axis)) == NULL || (to = result_for(z, axis, typecode)) == NULL
        || (params->indexed && (values = room(&l, l.n * l.count, l.item)) == NULL))
        goto done;
    Elements given = {place_of(from), place_of(NULL)}, result = {place_of(to), place_of(NULL)};
    if (params->indexed)
        result = (Elements){{values, 0}, place_of(to)};
    if (sort_lines(&l, &kernels, &given, &result) == 0)
        status = store(z, to, axis, who);
done:
    release(values);
    Py_XDECREF(from);
    Py_XDECREF(to);
    return status;
}

/* ------------------------------------------------------------------ topk: (x, k); outputs: values, indices, or both */

/* The results of a node: the outputs, and the arrays to which kernels write. An output that does not exist is NULL. */
typedef struct {
    PyGpuArrayObject *z[2], *result[2];
} Results;

/* Allocate the outputs of the shape `dims`, and arrays for the results. Return 0, or -1 with an exception set. */
static int make_results(Results *r, PyObject **out, PyGpuArrayObject *x, const size_t *dims, unsigned axis,
                        const int *wanted, const int *types)
{
    int results[2] = {x->ga.typecode, GA_LONG}, at = 0;
    for (int j = 0; j < 2; ++j) {
        if (wanted[j]) {
            gpu_not_shared(&out[at], &x->ga);
            r->z[j] = gpu_alloc(&out[at++], x->context, x->ga.nd, dims, types[j]);
            r->result[j] = r->z[j] == NULL ? NULL : result_for(r->z[j], axis, results[j]);
        }
        else
            r->result[j] = pygpu_empty(x->ga.nd, dims, results[j], GA_C_ORDER, x->context, Py_None);
        if (r->result[j] == NULL)
            return -1;
    }
    return 0;
}

NATIVE_FUNCTION(topk, axis, sorted, values, indices, index_type, group, least, groups, lines, count, add, move,
                positions, select, count_digits, choose, count_best, add_best, copy_best)
static int tng_topk(int nin, int nout, PyObject **in, PyObject **out, const struct topk_params *params)
{
    (void)nin, (void)nout;
    static const char who[] = "GpuTopKOp";
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1), *from = NULL;
    unsigned axis = (unsigned)params->axis;
    int64_t given;
    if (x == NULL || gpu_aligned(&x->ga, who) < 0 || native_as_int64(in[1], &given) < 0
        || check_k(given, (int64_t)x->ga.dimensions[axis]) < 0)
        return -1;
    size_t dims[GA_MAX_DIMS], k = (size_t)(given < 0 ? -given : given);
    memcpy(dims, x->ga.dimensions, x->ga.nd * sizeof *dims);
    dims[axis] = k;
    Lines l = describe(x, axis, params->group, who), best;
    l.order = given > 0 ? UINT64_MAX : 0;
    divide(&l, params->least, params->groups);
    best = l;
    best.n = k;
    divide(&best, params->least, params->groups);
    SortKernels sort = {params->lines, params->count, params->add, params->move, params->positions};
    SelectKernels choose = {params->select,     params->count_digits, params->choose,
                            params->count_best, params->add_best,     params->copy_best};
    int wanted[2] = {(int)params->values, (int)params->indices}, status = -1;
    int types[2] = {x->ga.typecode, (int)params->index_type};
    Results r = {{NULL, NULL}, {NULL, NULL}};
    gpudata *values = NULL, *indices = NULL;
    if (make_results(&r, out, x, dims, axis, wanted, types) < 0)
        goto done;
    if (l.count == 0) {
        status = 0;
        goto done;
    }
    if ((from = lines_of(x, axis)) == NULL)
        goto done;
    Elements result = {place_of(r.result[0]), place_of(r.result[1])}, all = {place_of(from), place_of(NULL)};
    if (!params->sorted)
        status = select_lines(&l, &choose, k, &all.x, &result);
    else if (k == l.n)
        status = sort_lines(&l, &sort, &all, &result);
    else if ((values = room(&l, k * l.count, l.item)) != NULL
             && (indices = room(&l, k * l.count, sizeof(int64_t))) != NULL) {
        Elements chosen = {{values, 0}, {indices, 0}};
        if (select_lines(&l, &choose, k, &all.x, &chosen) == 0)
            status = sort_lines(&best, &sort, &chosen, &result);
    }
    for (int j = 0; j < 2 && status == 0; ++j)
        if (wanted[j])
            status = store(r.z[j], r.result[j], axis, who);
done:
    release(values);
    release(indices);
    Py_XDECREF(from);
    for (int j = 0; j < 2; ++j)
        Py_XDECREF(r.result[j]);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(sort), NATIVE_ENTRY(topk), {0}};
NATIVE_MODULE(sort, entries)
