/* Reductions over any set of axes, of arrays and of elementwise operations.
 *
 * The dimensions become loops, from the smallest stride of the input to the largest. Accumulators lie in the same order, so that the
 * innermost loop either runs along one accumulator or along contiguous ones. The inner loops are folds: those of reduce_folds.h, or for
 * other operations a generated kernel of the form fold_fn (tensor/reductions/careduce.py). Sums of floats are pairwise over contiguous stretches.
 */
#include "elemwise_words.h"
#include "reduce_folds.h"
#include "threads.h"
#include <stdlib.h>

#define MAX_ND 32
#define PAIRWISE_MIN 2048  /* shorter stretches are summed directly, in 4 vectors of accumulators */
#define TILE 2048          /* accumulators that are in use at a time when rows are combined */
#define WIDE 2048          /* shorter rows are run together to about this many elements */
#define PIECE 256          /* elements with a stride that are brought together, */
#define PIECES 4           /* and of how many rows */
#define CACHED (4 << 20)   /* bytes; more come from memory, where extremes of one row after the other are faster than of several */
#define SHORT 16           /* stretches for which a call of the fold costs more than strides do */

/* How elements are combined. */
typedef struct {
    Fold fold;
    fold_fn combine;       /* of two accumulators; NULL for generated folds */
    int op, pairwise, idempotent, has_identity;
    int pairs;             /* complex numbers that are summed as pairs of real ones */
    int64_t x_item, acc_item;
    char identity[16];
} How;

/* One loop for each dimension, innermost first. */
typedef struct {
    int count;
    int64_t len[MAX_ND + 1], as[MAX_ND + 1], xs[MAX_ND + 1];
} Loops;

/* -- loops -------------------------------------------------------------------------------------------------------- */

/* `count` copies of `bytes` bytes. */
static void fill(char *to, int64_t count, const char *from, int64_t bytes)
{
    int64_t done = bytes, all = count * bytes;
    if (all == 0)
        return;
    memcpy(to, from, (size_t)bytes);
    for (; done < all; done *= 2)
        memcpy(to + done, to, (size_t)(all - done < done ? all - done : done));
}

/* Folds a stretch into one accumulator; halves of long stretches are summed apart. */
static void fold_stretch(const How *how, int64_t n, char *acc, const char *x, int64_t x_stride)
{
    if (!how->pairwise || n <= PAIRWISE_MIN) {
        how->fold.fold(n, acc, 0, x, x_stride);
        return;
    }
    int64_t half = n / 2 / 64 * 64;
    int64_t left[2] = {0, 0}, right[2] = {0, 0};
    fold_stretch(how, half, (char *)left, x, x_stride);
    fold_stretch(how, n - half, (char *)right, x + half * x_stride, x_stride);
    how->combine(1, (char *)left, 0, (char *)right, how->acc_item);
    how->combine(1, acc, 0, (char *)left, how->acc_item);
}

CLONES static void gather(char *restrict to, int64_t n, const char *restrict from, int64_t step, int64_t item)
{
    switch (item) {
    case 1: GATHER((uint8_t *)to, uint8_t, n, from, step) break;
    case 2: GATHER((uint16_t *)to, uint16_t, n, from, step) break;
    case 4: GATHER((uint32_t *)to, uint32_t, n, from, step) break;
    default: GATHER((uint64_t *)to, uint64_t, n, from, step)
    }
}

/* Rows of n elements each, all onto the same n accumulators. */
static void fold_rows(const How *how, int64_t n, char *acc, int64_t as, const char *x, int64_t xs, int64_t rows, int64_t row_stride)
{
    int contiguous = as == how->acc_item && xs == how->x_item;
    if (contiguous && n * 2 <= WIDE && row_stride == n * xs && rows > 4 * WIDE / n && how->combine != NULL
        && (how->idempotent || how->has_identity)) {
        /* A few columns: several rows are one wide row, whose pieces are combined at the end. */
        int64_t m = WIDE / n, item = how->acc_item;
        char wide[WIDE * sizeof(int64_t) * 2] __attribute__((aligned(64)));
        if (how->idempotent)
            fill(wide, m, acc, n * item);
        else
            fill(wide, n * m, how->identity, item);
        memcpy(wide, acc, (size_t)(n * item));
        if (how->fold.rows != NULL)
            how->fold.rows(n * m, wide, x, m * row_stride, rows / m);
        else
            for (int64_t r = 0; r < rows / m; ++r)
                how->fold.fold(n * m, wide, item, x + r * m * row_stride, xs);
        how->fold.fold(n * (rows % m), wide, item, x + rows / m * m * row_stride, xs);
        for (int64_t piece = 1; piece < m; ++piece)
            how->combine(n, wide, item, wide + piece * n * item, item);
        memcpy(acc, wide, (size_t)(n * item));
        return;
    }
    char piece[PIECES * PIECE * sizeof(int64_t)] __attribute__((aligned(64)));
    int gathers = !contiguous && as == how->acc_item && xs != how->x_item && how->fold.rows != NULL && n >= SHORT;
    int64_t tile = rows > 4 && n > 2 * TILE ? TILE : n;
    for (int64_t from = 0; from < n; from += tile, acc += tile * as, x += tile * xs) {
        int64_t count = n - from < tile ? n - from : tile;
        if (contiguous && how->fold.rows != NULL && (!how->idempotent || n > 2 * TILE || rows * n * xs <= CACHED))
            how->fold.rows(count, acc, x, row_stride, rows);
        else if (gathers)
            for (int64_t r = 0; r < rows; r += PIECES)
                for (int64_t at = 0; at < count; at += PIECE) {
                    int64_t some = count - at < PIECE ? count - at : PIECE, several = rows - r < PIECES ? rows - r : PIECES;
                    for (int64_t k = 0; k < several; ++k)
                        gather(piece + k * PIECE * how->x_item, some, x + (r + k) * row_stride + at * xs, xs, how->x_item);
                    how->fold.rows(some, acc + at * as, piece, PIECE * how->x_item, several);
                }
        else
            for (int64_t r = 0; r < rows; ++r)
                how->fold.fold(count, acc, as, x + r * row_stride, xs);
    }
}

static void swap_loops(Loops *l, int a, int b)
{
    int64_t t;
    t = l->len[a], l->len[a] = l->len[b], l->len[b] = t;
    t = l->as[a], l->as[a] = l->as[b], l->as[b] = t;
    t = l->xs[a], l->xs[a] = l->xs[b], l->xs[b] = t;
}

/* Dimensions to loops: those of length 1 need none, those that follow each other in memory are one. Moves the pointers to where strides
 * are positive. Returns whether there is anything to fold. */
static int make_loops(Loops *l, int nd, const int64_t *dims, char **acc, const int64_t *as, const char **x, const int64_t *xs)
{
    l->count = 0;
    for (int d = nd - 1; d >= 0; --d) {
        int64_t step = xs[d], acc_step = as[d];
        if (dims[d] == 0)
            return 0;
        if (dims[d] == 1)
            continue;
        if (step < 0) {
            *x += (dims[d] - 1) * step;
            *acc += (dims[d] - 1) * acc_step;
            step = -step;
            acc_step = -acc_step;
        }
        int at = l->count++;
        l->len[at] = dims[d];
        l->as[at] = acc_step;
        l->xs[at] = step;
        for (; at > 0 && l->xs[at - 1] > step; --at)
            swap_loops(l, at, at - 1);
    }
    for (int k = 0; k + 1 < l->count;) {
        if (l->xs[k + 1] == l->xs[k] * l->len[k] && l->as[k + 1] == l->as[k] * l->len[k]) {
            l->len[k] *= l->len[k + 1];
            for (int j = k + 1; j + 1 < l->count; ++j)
                swap_loops(l, j, j + 1);
            --l->count;
        }
        else
            ++k;
    }
    return 1;
}

/* acc OP= x over the loops; those with accumulator stride 0 are reduced. */
static void fold_loops(const How *how, const Loops *given, char *acc, const char *x)
{
    Loops l = *given;
    int64_t index[MAX_ND + 1] = {0};
    if (l.count == 0) {
        how->fold.fold(1, acc, 0, x, 0);
        return;
    }
    /* A call for each few elements would cost more than strides do. */
    if (l.count == 2 && l.as[0] == 0 && l.as[1] == how->acc_item && l.xs[0] == how->x_item && l.len[0] < SHORT && how->fold.brief != NULL) {
        how->fold.brief(l.len[1], acc, x, l.xs[1], l.len[0]);
        return;
    }
    if (l.count > 1 && l.len[0] < SHORT && l.len[1] > 4 * l.len[0]
        && !(l.as[0] == how->acc_item && l.as[1] == 0 && l.xs[1] == l.len[0] * l.xs[0]))
        swap_loops(&l, 0, 1);
    /* Accumulators side by side: the next loop is the innermost of those that come back to them. */
    int rows = 0;
    if (l.as[0] != 0)
        for (int k = 1; k < l.count && !rows; ++k)
            if (l.as[k] == 0) {
                rows = 1;
                for (; k > 1; --k)
                    swap_loops(&l, k, k - 1);
            }
    for (;;) {
        if (rows)
            fold_rows(how, l.len[0], acc, l.as[0], x, l.xs[0], l.len[1], l.xs[1]);
        else if (l.as[0] == 0)
            fold_stretch(how, l.len[0], acc, x, l.xs[0]);
        else
            how->fold.fold(l.len[0], acc, l.as[0], x, l.xs[0]);
        int k = 1 + rows;
        for (; k < l.count; ++k) {
            acc += l.as[k];
            x += l.xs[k];
            if (++index[k] < l.len[k])
                break;
            acc -= l.as[k] * l.len[k];
            x -= l.xs[k] * l.len[k];
            index[k] = 0;
        }
        if (k >= l.count)
            break;
    }
}

/* The share of one of the loops. */
static void fold_share(const How *how, const Loops *l, int k, int64_t begin, int64_t end, char *acc, const char *x)
{
    Loops part = *l;
    part.len[k] = end - begin;
    if (begin < end)
        fold_loops(how, &part, acc + begin * l->as[k], x + begin * l->xs[k]);
}

#ifdef _OPENMP
/* Threads share the longest loop that has accumulators of its own for each step; where it is short, each thread reduces a part into
 * accumulators of its own, which are combined in order. Returns 0 if there is nothing to share. */
static int fold_in_threads(const How *how, const Loops *l, char *acc, int64_t acc_count, const char *x)
{
    int threads = native_threads(), kept = -1, reduced = -1;
    for (int k = 0; k < l->count; ++k)
        if (l->as[k] == 0)
            reduced = reduced < 0 || l->len[k] >= l->len[reduced] ? k : reduced;
        else
            kept = kept < 0 || l->len[k] >= l->len[kept] ? k : kept;
    if (threads < 2)
        return 0;
    if (kept >= 0 && l->len[kept] >= 16 * threads) {
        int64_t grains = (l->len[kept] + 7) / 8;
#pragma omp parallel num_threads(threads)
        {
            int64_t n = omp_get_num_threads(), me = omp_get_thread_num(), end = grains * (me + 1) / n * 8;
            fold_share(how, l, kept, grains * me / n * 8, end < l->len[kept] ? end : l->len[kept], acc, x);
        }
        return 1;
    }
    if (reduced < 0 || how->combine == NULL || !how->has_identity || acc_count > TILE)
        return 0;
    for (int k = 0; k < l->count; ++k)
        if (l->as[k] < 0)
            return 0;
    size_t bytes = (size_t)(acc_count * how->acc_item), room = (bytes + 63) / 64 * 64;
    char *own = malloc(room * (size_t)threads);
    if (own == NULL)
        return 0;
    for (int t = 0; t < threads; ++t)
        fill(own + (size_t)t * room, acc_count, how->identity, how->acc_item);
#pragma omp parallel num_threads(threads)
    {
        int64_t n = omp_get_num_threads(), me = omp_get_thread_num();
        fold_share(how, l, reduced, l->len[reduced] * me / n, l->len[reduced] * (me + 1) / n, own + (size_t)me * room, x);
    }
    for (int t = 0; t < threads; ++t)
        how->combine(acc_count, acc, how->acc_item, own + (size_t)t * room, how->acc_item);
    free(own);
    return 1;
}
#endif

/* -- one reduction ------------------------------------------------------------------------------------------------ */

/* Words: fold kernel (0: shipped), operation OP_*, rank, reduced axes (bits), element, accumulator and output type numbers, size from
 * which threads share the work (0: never), has an identity, the identity's bytes (two words). */
enum { W_KERNEL, W_OP, W_ND, W_AXES, W_X_TYPE, W_ACC_TYPE, W_OUT_TYPE, W_OPENMP, W_HAS_IDENTITY, W_IDENTITY, W_END = W_IDENTITY + 2 };

typedef struct {
    How how;
    int nd, kept;
    npy_intp out_dims[MAX_ND];
    npy_intp out_strides[MAX_ND]; /* of the accumulators, in the order of the kept dimensions */
    int64_t strides[MAX_ND];      /* of the accumulators, by dimension; 0: reduced */
    char *acc;                    /* the accumulator of the first elements */
    npy_intp count;
    PyArrayObject *own;           /* whose accumulators these are: NULL if they are the result itself */
    int type;                     /* of the accumulators */
    int64_t axes;                 /* the reduced dimensions (bits) */
} Reduction;

static int real_of(int type)
{
    return type == NPY_CFLOAT ? NPY_FLOAT : type == NPY_CDOUBLE ? NPY_DOUBLE : type;
}

/* What the extreme of no numbers would be. */
static void set_lowest(How *how, int type, int highest)
{
#define LOWEST(number, T, least, most)                      \
    case number: {                                          \
        T value = highest ? (T)(most) : (T)(least);         \
        memcpy(how->identity, &value, sizeof value);        \
        break;                                              \
    }
    switch (dtype_key(type)) {
        LOWEST(KEY('b', 1), uint8_t, 0, 1)
        LOWEST(KEY('i', 1), int8_t, INT8_MIN, INT8_MAX)
        LOWEST(KEY('i', 2), int16_t, INT16_MIN, INT16_MAX)
        LOWEST(KEY('i', 4), int32_t, INT32_MIN, INT32_MAX)
        LOWEST(KEY('i', 8), int64_t, INT64_MIN, INT64_MAX)
        LOWEST(KEY('u', 1), uint8_t, 0, UINT8_MAX)
        LOWEST(KEY('u', 2), uint16_t, 0, UINT16_MAX)
        LOWEST(KEY('u', 4), uint32_t, 0, UINT32_MAX)
        LOWEST(KEY('u', 8), uint64_t, 0, UINT64_MAX)
        LOWEST(KEY('f', 4), float, -INFINITY, INFINITY)
        LOWEST(KEY('f', 8), double, -INFINITY, INFINITY)
    default: return;
    }
    how->has_identity = 1;
}

static int set_how(How *how, const int64_t *params)
{
    int op = (int)params[W_OP], x_type = (int)params[W_X_TYPE], acc_type = (int)params[W_ACC_TYPE];
    memset(how, 0, sizeof *how);
    how->op = op;
    how->has_identity = (int)params[W_HAS_IDENTITY];
    memcpy(how->identity, &params[W_IDENTITY], sizeof how->identity);
    if (params[W_KERNEL]) {
        how->fold.fold = (fold_fn)(intptr_t)params[W_KERNEL];
        return 0;
    }
    if (op == OP_ADD) {
        how->pairs = PyTypeNum_ISCOMPLEX(acc_type) && PyTypeNum_ISCOMPLEX(x_type);
        x_type = how->pairs ? real_of(x_type) : x_type;
        acc_type = how->pairs ? real_of(acc_type) : acc_type;
    }
    how->fold = find_fold(op, x_type, acc_type);
    how->combine = find_fold(op, acc_type, acc_type).fold;
    how->pairwise = op == OP_ADD && how->combine != NULL && !PyTypeNum_ISINTEGER(acc_type);
    how->idempotent = op == OP_MAX || op == OP_MIN || op == OP_AND || op == OP_OR;
    if (op == OP_MAX || op == OP_MIN)
        set_lowest(how, acc_type, op == OP_MIN);
    if (how->fold.fold != NULL)
        return 0;
    PyErr_SetString(PyExc_SystemError, "Reduction: no shipped code for these types and no kernel");
    return -1;
}

/* Whether the extents of two arrays overlap. */
static int share_memory(PyArrayObject *a, PyArrayObject *b)
{
    PyArrayObject *both[2] = {a, b};
    intptr_t low[2], high[2];
    for (int k = 0; k < 2; ++k) {
        low[k] = high[k] = (intptr_t)PyArray_DATA(both[k]);
        for (int d = 0; d < PyArray_NDIM(both[k]); ++d) {
            if (PyArray_DIM(both[k], d) == 0)
                return 0;
            intptr_t reach = (PyArray_DIM(both[k], d) - 1) * PyArray_STRIDE(both[k], d);
            *(reach < 0 ? &low[k] : &high[k]) += reach;
        }
        high[k] += PyArray_ITEMSIZE(both[k]);
    }
    return low[0] < high[1] && low[1] < high[0];
}

/* Provides the result in *out and accumulators with their first values, for elements of this shape and order in
 * memory. The result shares no memory with the inputs. Returns 0, or -1 with an exception set. */
static int begin(Reduction *r, const int64_t *params, const int64_t *dims, const int64_t *x_strides, PyObject **inputs, int n_inputs,
                 PyObject **out)
{
    int64_t axes = r->axes = params[W_AXES];
    int by_stride[MAX_ND], acc_type = (int)params[W_ACC_TYPE], out_type = (int)params[W_OUT_TYPE], first = -1;
    r->own = NULL;
    r->nd = (int)params[W_ND];
    r->kept = 0;
    r->type = acc_type;
    if (set_how(&r->how, params) < 0)
        return -1;
    for (int d = 0; d < r->nd; ++d)
        if (axes >> d & 1) {
            if (dims[d] == 0 && first < 0)
                first = d;
        }
        else
            r->out_dims[r->kept++] = dims[d];
    PyArrayObject *result = native_alloc(out, r->kept, r->out_dims, out_type);
    for (int i = 0; i < n_inputs && result != NULL; ++i)
        if (share_memory(result, (PyArrayObject *)inputs[i])) {
            Py_CLEAR(*out);
            result = native_alloc(out, r->kept, r->out_dims, out_type);
        }
    if (result == NULL)
        return -1;
    r->count = PyArray_SIZE(result);
    if (first >= 0 && r->count > 0 && !params[W_HAS_IDENTITY]) {
        PyErr_Format(PyExc_ValueError,
                     "Reduction: the input has length 0 in dimension %d, and the reduced operation has no identity to return for no elements",
                     first);
        return -1;
    }
    /* Accumulators in the order of the elements that they take. */
    int n = 0;
    for (int d = r->nd - 1; d >= 0; --d)
        if (!(axes >> d & 1)) {
            int at = n++;
            for (; at > 0 && dims[d] != 1 && (dims[by_stride[at - 1]] == 1 || llabs(x_strides[by_stride[at - 1]]) > llabs(x_strides[d])); --at)
                by_stride[at] = by_stride[at - 1];
            by_stride[at] = d;
        }
    int64_t item = PyArray_ITEMSIZE(result), offset = 0, in_place = PyArray_EquivTypenums(acc_type, out_type);
    if (!in_place) {
        PyArray_Descr *descr = PyArray_DescrFromType(acc_type);
        if (descr == NULL)
            return -1;
        item = PyDataType_ELSIZE(descr);
        Py_DECREF(descr);
    }
    r->how.acc_item = item;
    memset(r->strides, 0, sizeof r->strides);
    int64_t step = item;
    for (int k = 0; k < n; ++k) {
        int d = by_stride[k];
        r->strides[d] = x_strides[d] < 0 ? -step : step;
        offset += x_strides[d] < 0 ? (dims[d] - 1) * step : 0;
        step *= dims[d];
    }
    for (int d = 0, k = 0; d < r->nd; ++d)
        if (!(axes >> d & 1)) {
            r->out_strides[k] = r->strides[d];
            in_place &= dims[d] == 1 || r->strides[d] == PyArray_STRIDE(result, k);
            ++k;
        }
    char *room = PyArray_BYTES(result);
    if (!in_place && r->count > 0) {
        r->own = native_new(1, &r->count, acc_type, 0);
        if (r->own == NULL)
            return -1;
        room = PyArray_BYTES(r->own);
    }
    r->acc = room + (r->count > 0 ? offset : 0);
    static const char zeros[16] = {0};
    if (!r->how.has_identity)
        ;
    else if (memcmp(r->how.identity, zeros, sizeof zeros) == 0)
        memset(room, 0, (size_t)(r->count * item));
    else
        fill(room, r->count, r->how.identity, item);
    return 0;
}

/* Folds a box of elements; acc is the accumulator of the first. */
static void accumulate(const Reduction *r, const int64_t *dims, char *acc, const char *x, const int64_t *x_strides, int64_t x_item,
                       int64_t openmp)
{
    Loops l;
    How how = r->how;
    int64_t size = 1, lens[MAX_ND + 1], as[MAX_ND + 1], xs[MAX_ND + 1];
    int nd = r->nd;
    for (int d = 0; d < nd; ++d) {
        size *= dims[d];
        lens[d] = dims[d];
        as[d] = r->strides[d];
        xs[d] = x_strides[d];
    }
    how.x_item = x_item;
    if (how.pairs) {
        how.x_item /= 2;
        how.acc_item /= 2;
        lens[nd] = 2;
        as[nd] = how.acc_item;
        xs[nd++] = how.x_item;
    }
    if (!make_loops(&l, nd, lens, &acc, as, &x, xs))
        return;
#ifdef _OPENMP
    if (openmp > 0 && size >= openmp && fold_in_threads(&how, &l, acc, how.pairs ? 2 * r->count : r->count, x))
        return;
#else
    (void)openmp;
#endif
    fold_loops(&how, &l, acc, x);
}

/* The result, from the accumulators. Returns `status`, or -1 on error. */
static int finish(Reduction *r, PyObject *out, int status)
{
    if (r->own == NULL)
        return status;
    if (status == 0) {
        PyArrayObject *view = (PyArrayObject *)PyArray_New(&PyArray_Type, r->kept, r->out_dims, r->type, r->out_strides, r->acc, 0,
                                                           NPY_ARRAY_ALIGNED, NULL);
        status = view == NULL ? -1 : PyArray_CopyInto((PyArrayObject *)out, view);
        Py_XDECREF(view);
    }
    Py_DECREF(r->own);
    return status;
}

/* An operation without identity: the first element of each group, then the others, along each reduced axis those behind the first, at
 * index 0 of the axes with larger strides. */
static int fold_from_first(Reduction *r, const int64_t *dims, PyArrayObject *x, const int64_t *x_strides)
{
    int64_t box[MAX_ND];
    int reduced[MAX_ND], n = 0, k = 0;
    npy_intp head_strides[MAX_ND];
    for (int d = 0; d < r->nd; ++d) {
        box[d] = dims[d];
        if (!(r->axes >> d & 1))
            head_strides[k++] = x_strides[d];
        else {
            int at = n++;
            for (; at > 0 && llabs(x_strides[reduced[at - 1]]) > llabs(x_strides[d]); --at)
                reduced[at] = reduced[at - 1];
            reduced[at] = d;
            box[d] = 1;
        }
    }
    if (r->count == 0)
        return 0;
    PyArrayObject *head = (PyArrayObject *)PyArray_New(&PyArray_Type, r->kept, r->out_dims, PyArray_TYPE(x), head_strides, PyArray_DATA(x), 0,
                                                       NPY_ARRAY_ALIGNED, NULL);
    PyArrayObject *first = head == NULL ? NULL
                                        : (PyArrayObject *)PyArray_New(&PyArray_Type, r->kept, r->out_dims, r->type, r->out_strides, r->acc, 0,
                                                                       NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE, NULL);
    int status = first == NULL ? -1 : PyArray_CopyInto(first, head);
    Py_XDECREF(head);
    Py_XDECREF(first);
    for (int i = 0; i < n && status == 0; ++i) {
        int d = reduced[i];
        if (dims[d] > 1) {
            box[d] = dims[d] - 1;
            accumulate(r, box, r->acc, PyArray_BYTES(x) + x_strides[d], x_strides, PyArray_ITEMSIZE(x), 0);
        }
        box[d] = dims[d];
    }
    return status;
}

static int check_input(PyObject *value, int nd, int type, PyArrayObject **x)
{
    if (!PyArray_Check(value) || PyArray_NDIM((PyArrayObject *)value) != nd
        || !PyArray_EquivTypenums(PyArray_TYPE((PyArrayObject *)value), type)) {
        PyErr_Format(PyExc_TypeError, "Reduction: the input must be an ndarray with %d dimensions and type number %d", nd, type);
        return -1;
    }
    /* A new reference; a copy only of what is misaligned or byte-swapped. */
    *x = (PyArrayObject *)PyArray_FromArray((PyArrayObject *)value, PyArray_DescrFromType(PyArray_TYPE((PyArrayObject *)value)),
                                            NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
    return *x == NULL ? -1 : 0;
}

/* A vector of few elements, of which the general road costs more than the fold. Returns 0 where that road has to be taken, or -1. */
static int reduce_few(const int64_t *params, PyArrayObject *x, PyObject **out)
{
    int64_t n = PyArray_DIM(x, 0);
    How how;
    int single = params[W_ACC_TYPE] == NPY_DOUBLE && params[W_OUT_TYPE] == NPY_FLOAT;
    if (params[W_AXES] != 1 || !params[W_HAS_IDENTITY] || (params[W_ACC_TYPE] != params[W_OUT_TYPE] && !single) || n > PAIRWISE_MIN)
        return 0;
    if (set_how(&how, params) < 0)
        return -1;
    if (how.pairs)
        return 0;
    PyArrayObject *result = native_alloc(out, 0, NULL, (int)params[W_OUT_TYPE]);
    if (result == NULL)
        return -1;
    if (share_memory(result, x))
        return 0;
    npy_float64 wide;
    char *acc = single ? (char *)&wide : PyArray_BYTES(result);
    memcpy(acc, how.identity, (size_t)(single ? (npy_intp)sizeof wide : PyArray_ITEMSIZE(result)));
    how.fold.fold(n, acc, 0, PyArray_BYTES(x), PyArray_STRIDE(x, 0));
    if (single)
        *(npy_float32 *)PyArray_DATA(result) = (npy_float32)wide;
    return 1;
}

static int tng_reduce(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    int nd = (int)params[W_ND], status;
    int64_t dims[MAX_ND], x_strides[MAX_ND];
    PyArrayObject *x;
    Reduction r;
    (void)nin;
    (void)nout;
    if (check_input(in[0], nd, (int)params[W_X_TYPE], &x) < 0)
        return -1;
    if (nd == 1 && (status = reduce_few(params, x, &out[0])) != 0) {
        Py_DECREF(x);
        return status < 0 ? -1 : 0;
    }
    for (int d = 0; d < nd; ++d) {
        dims[d] = PyArray_DIM(x, d);
        x_strides[d] = PyArray_STRIDE(x, d);
    }
    status = begin(&r, params, dims, x_strides, (PyObject **)&x, 1, &out[0]);
    if (status == 0) {
        if (r.how.has_identity)
            accumulate(&r, dims, r.acc, PyArray_BYTES(x), x_strides, PyArray_ITEMSIZE(x), params[W_OPENMP]);
        else
            status = fold_from_first(&r, dims, x, x_strides);
    }
    status = finish(&r, out[0], status);
    Py_DECREF(x);
    return status;
}

/* -- the reduction of an elementwise operation --------------------------------------------------------------------- */

#define BLOCK 32768  /* bytes of intermediate results that are reduced while they are in the cache */
#define COLUMNS 1024 /* accumulators side by side, so that they stay there too */

/* How the common shape is cut into blocks. */
typedef struct {
    int64_t dims[MAX_ND], block[MAX_ND];
    int order[MAX_ND]; /* dimensions, the one that blocks are counted along first */
    int rank[MAX_ND];  /* dimensions, the one with the largest stride first: the operation gets C-like arrays */
} Blocks;

static void cut_blocks(Blocks *b, int nd, int64_t axes, const int64_t *strides, int64_t item)
{
    int64_t room = BLOCK / item;
    for (int d = nd - 1, n = 0; d >= 0; --d) {
        int at = n++;
        for (; at > 0 && llabs(strides[b->order[at - 1]]) > llabs(strides[d]); --at)
            b->order[at] = b->order[at - 1];
        b->order[at] = d;
    }
    for (int k = 0; k < nd; ++k)
        b->rank[k] = b->order[nd - 1 - k];
    if (nd > 0 && !(axes >> b->order[0] & 1))
        for (int k = 1; k < nd; ++k)
            if (axes >> b->order[k] & 1) {
                int reduced = b->order[k];
                memmove(&b->order[2], &b->order[1], (size_t)(k - 1) * sizeof(int));
                b->order[1] = reduced;
                room = room < COLUMNS ? room : COLUMNS;
                break;
            }
    for (int k = 0; k < nd; ++k) {
        int d = b->order[k];
        b->block[d] = b->dims[d] < room ? b->dims[d] : room;
        if (k == 0)
            room = BLOCK / item;
        room = room / (b->block[d] > 0 ? b->block[d] : 1);
        room = room > 1 ? room : 1;
    }
}

/* Views of the inputs' parts at `start`, their dimension k that of number rank[k] here; those of the previous block serve again when it had
 * the same lengths. */
static int set_views(int nd, int nin, PyObject **in, const int64_t *operands, const int *rank, const int64_t *start, const int64_t *lens,
                     int same, PyObject **views)
{
    for (int i = 0; i < nin; ++i) {
        PyArrayObject *a = (PyArrayObject *)in[i];
        char *data = PyArray_BYTES(a);
        npy_intp dims[MAX_ND], strides[MAX_ND];
        for (int k = 0; k < nd; ++k) {
            int repeated = O_BROADCAST(operands[i], k) != 0;
            dims[k] = repeated ? 1 : lens[k];
            strides[k] = PyArray_STRIDE(a, rank[k]);
            data += repeated ? 0 : start[rank[k]] * strides[k];
        }
        if (same) {
            /* Only this function knows the view. */
            ((PyArrayObject_fields *)views[i])->data = data;
            continue;
        }
        PyArray_Descr *descr = PyArray_DESCR(a);
        Py_INCREF(descr);
        PyObject *view = PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, strides, data, PyArray_FLAGS(a) & NPY_ARRAY_ALIGNED,
                                              NULL);
        if (view == NULL)
            return -1;
        Py_XSETREF(views[i], view);
    }
    return 0;
}

/* Words: the kernel of the elementwise operation, the words of tng_reduce, those of tng_elemwise (the kernel's is free) with its scratch. */
static int tng_reduce_elemwise(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    static native_fn elemwise = NULL;
    const int64_t *how = params + 1;
    int64_t *inner = params + 1 + W_END, *operands = inner + E_OPERANDS;
    int nd = (int)how[W_ND], lead = 0, most = -1, status, same = 0;
    (void)nout;
    if (elemwise == NULL) {
        PyObject *module = PyImport_ImportModule("theano_ng.tensor.native.elemwise");
        PyObject *capsule = module == NULL ? NULL : PyObject_GetAttrString(module, "elemwise");
        elemwise = capsule == NULL ? NULL : (native_fn)PyCapsule_GetPointer(capsule, NATIVE_CAPSULE);
        Py_XDECREF(capsule);
        Py_XDECREF(module);
        if (elemwise == NULL)
            return -1;
    }
    inner[E_KERNEL] = params[0];
    for (int i = 0; i < nin; ++i) {
        int longer = 0;
        if (!PyArray_Check(in[i]) || PyArray_NDIM((PyArrayObject *)in[i]) != nd) {
            PyErr_Format(PyExc_TypeError, "Elemwise: input[%d] must be an ndarray with %d dimensions", i, nd);
            return -1;
        }
        for (int d = 0; d < nd; ++d)
            longer += !O_BROADCAST(operands[i], d);
        if (longer > most) {
            most = longer;
            lead = i;
        }
    }
    Blocks b;
    Reduction r;
    if (result_dims(nd, nin, in, operands, b.dims) < 0)
        return -1;
    int64_t strides[MAX_ND], start[MAX_ND] = {0}, before[MAX_ND], total = 1;
    PyArray_Descr *descr = PyArray_DescrFromType((int)how[W_X_TYPE]);
    if (descr == NULL)
        return -1;
    int64_t item = PyDataType_ELSIZE(descr);
    Py_DECREF(descr);
    for (int d = 0; d < nd; ++d) {
        /* Dimensions along which the leading input is repeated count as the outermost. */
        strides[d] = O_BROADCAST(operands[lead], d) ? INT64_MAX : PyArray_STRIDE((PyArrayObject *)in[lead], d);
        total = b.dims[d] == 0 ? 0 : total;
    }
    cut_blocks(&b, nd, how[W_AXES], strides, item);
    for (int d = 0; d < nd; ++d)
        strides[d] = strides[d] == INT64_MAX ? INT64_MAX : llabs(strides[d]);
    if (begin(&r, how, b.dims, strides, in, nin, out) < 0)
        return finish(&r, *out, -1);
    /* From here on, dimensions of blocks and what is reduced are counted by rank. */
    int64_t given[nin + 1];
    memcpy(given, operands, (size_t)nin * sizeof(int64_t));
    memcpy(strides, r.strides, sizeof strides);
    for (int k = 0; k < nd; ++k)
        r.strides[k] = strides[b.rank[k]];
    for (int i = 0; i < nin; ++i)
        for (int k = 0; k < nd; ++k)
            operands[i] = (operands[i] & ~(INT64_C(1) << k)) | (int64_t)O_BROADCAST(given[i], b.rank[k]) << k;
    PyObject *views[nin + 1], *piece = NULL;
    memset(views, 0, sizeof views);
    status = 0;
    while (total > 0 && status == 0) {
        int64_t lens[MAX_ND], offset = 0;
        for (int k = 0; k < nd; ++k) {
            int d = b.rank[k];
            lens[k] = b.dims[d] - start[d] < b.block[d] ? b.dims[d] - start[d] : b.block[d];
            offset += start[d] * r.strides[k];
        }
        same = same && memcmp(lens, before, (size_t)nd * sizeof(int64_t)) == 0;
        memcpy(before, lens, (size_t)nd * sizeof(int64_t));
        status = set_views(nd, nin, in, operands, b.rank, start, lens, same, views);
        same = 1;
        if (status == 0)
            status = elemwise(nin, 1, views, &piece, inner);
        if (status == 0)
            accumulate(&r, lens, r.acc + offset, PyArray_BYTES((PyArrayObject *)piece), PyArray_STRIDES((PyArrayObject *)piece), item, 0);
        int k = 0;
        for (; k < nd; ++k) {
            int d = b.order[k];
            if ((start[d] += b.block[d]) < b.dims[d])
                break;
            start[d] = 0;
        }
        /* What decides all or any ends the search. */
        if (k == nd || (r.count == 1 && r.type == NPY_BOOL && *r.acc == (r.how.op == OP_OR) && r.how.op != OP_XOR))
            break;
    }
    status = finish(&r, *out, status);
    memcpy(operands, given, (size_t)nin * sizeof(int64_t));
    for (int i = 0; i < nin; ++i)
        Py_XDECREF(views[i]);
    Py_XDECREF(piece);
    return status;
}

/* -- module ------------------------------------------------------------------------------------------------------- */

static PyObject *has_fold(PyObject *self, PyObject *args)
{
    int op, x_type, acc_type;
    (void)self;
    if (!PyArg_ParseTuple(args, "iii", &op, &x_type, &acc_type))
        return NULL;
    if (op == OP_ADD && PyTypeNum_ISCOMPLEX(x_type) && PyTypeNum_ISCOMPLEX(acc_type)) {
        x_type = real_of(x_type);
        acc_type = real_of(acc_type);
    }
    return PyBool_FromLong(find_fold(op, x_type, acc_type).fold != NULL);
}

static PyMethodDef methods[] = {
    {"has_fold", has_fold, METH_VARARGS, "has_fold(operation, element type number, accumulator type number): whether no kernel is needed."},
    {NULL, NULL, 0, NULL},
};

static const NativeEntry entries[] = {{"reduce", tng_reduce}, {"reduce_elemwise", tng_reduce_elemwise}, {NULL, NULL}};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "reduce", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_reduce(void)
{
    import_array();
    PyObject *module = PyModule_Create(&module_def);
    if (module == NULL || native_add_entries(module, entries) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
