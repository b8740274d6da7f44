/* Reductions over any set of axes, of arrays and of elementwise operations.
 *
 * The dimensions become loops, from the smallest stride of the input to the largest. Accumulators are ordered in memory
 * like the elements, so that the innermost loop runs either along one accumulator or along contiguous accumulators. The
 * inner loops are folds: functions of reduce_folds.h, or for other operations a generated kernel of type fold_fn
 * (tensor/reductions/careduce.py). Sums of floats are pairwise over contiguous runs. */
#include "native.h"
#include "reduce_folds.h"
#include "common/threads.h"
#include <stdlib.h>

#define MAX_ND 32
#define PAIRWISE_MIN 2048 /* shorter runs are summed directly, in 4 vectors of accumulators */
#define TILE 2048         /* accumulators that are used at a time when rows are combined */
#define WIDE 2048         /* shorter rows are joined to rows of nearly this many elements */
#define PIECE 256         /* strided elements of a row that are copied to a buffer at once */
#define PIECES 4          /* rows whose pieces are copied to the buffer at once */
#define CACHED (4 << 20)  /* bytes; extremes of larger arrays are faster row by row than several rows at a time */
#define MAX_SHARES 64     /* maximum number of parts of a reduction that is divided among threads */
#define SHORT 16          /* elements; for shorter runs a call of the fold costs more than strided access */

/* The operation that combines elements. */
typedef struct {
    Fold fold;
    fold_fn combine; /* combines accumulators with accumulators; NULL for generated folds */
    int op, pairwise, idempotent, has_identity;
    int pairs; /* whether complex numbers are summed as pairs of real numbers */
    int64_t x_item, acc_item;
    char identity[16];
} FoldPlan;

/* One loop for each dimension, innermost first. `as` and `xs` are the strides of the accumulators and of x. */
typedef struct {
    int count;
    int64_t len[MAX_ND + 1], as[MAX_ND + 1], xs[MAX_ND + 1];
} Loops;

/* -- loops -------------------------------------------------------------------------------------------------------- */

/* Write `count` copies of the `bytes` bytes at `from`. */
static void fill(char *to, int64_t count, const char *from, int64_t bytes)
{
    int64_t done = bytes, all = count * bytes;
    if (all == 0)
        return;
    memcpy(to, from, (size_t)bytes);
    for (; done < all; done *= 2)
        memcpy(to + done, to, (size_t)(all - done < done ? all - done : done));
}

/* Fold a run into one accumulator; the halves of long runs are summed separately. */
static void fold_stretch(const FoldPlan *plan, int64_t n, char *acc, const char *x, int64_t x_stride)
{
    if (!plan->pairwise || n <= PAIRWISE_MIN) {
        plan->fold.fold(n, acc, 0, x, x_stride);
        return;
    }
    int64_t half = n / 2 / 64 * 64;
    int64_t left[2] = {0, 0}, right[2] = {0, 0};
    fold_stretch(plan, half, (char *)left, x, x_stride);
    fold_stretch(plan, n - half, (char *)right, x + half * x_stride, x_stride);
    plan->combine(1, (char *)left, 0, (char *)right, plan->acc_item);
    plan->combine(1, acc, 0, (char *)left, plan->acc_item);
}

/* An element of complex128. */
typedef struct {
    uint64_t parts[2];
} Sixteen;

/* Copy strided elements to contiguous memory. */
VECTORISED static void gather(char *restrict to, int64_t n, const char *restrict from, int64_t step, int64_t item)
{
    switch (item) {
    case 1: GATHER((uint8_t *)to, uint8_t, n, from, step) break;
    case 2: GATHER((uint16_t *)to, uint16_t, n, from, step) break;
    case 4: GATHER((uint32_t *)to, uint32_t, n, from, step) break;
    case 8: GATHER((uint64_t *)to, uint64_t, n, from, step) break;
    default: GATHER((Sixteen *)to, Sixteen, n, from, step)
    }
}

/* Write `times` copies of each of `count` values. The values are `step` bytes apart. */
VECTORISED static void repeat_each(char *restrict to, const char *restrict from, int64_t step, int64_t count,
                                   int64_t times, int64_t item)
{
#define REPEAT(T)                                                         \
    {                                                                     \
        T *out = (T *)to;                                                 \
        for (int64_t k = 0; k < count; ++k, out += times, from += step) { \
            const T value = *(const T *)from;                             \
            for (int64_t i = 0; i < times; ++i)                           \
                out[i] = value;                                           \
        }                                                                 \
        break;                                                            \
    }
    switch (item) {
    case 1: REPEAT(uint8_t)
    case 2: REPEAT(uint16_t)
    case 4: REPEAT(uint32_t)
    case 8: REPEAT(uint64_t)
    default: REPEAT(Sixteen)
    }
#undef REPEAT
}

/* Fold rows of n elements each into the same n accumulators. */
static void fold_rows(const FoldPlan *plan, int64_t n, char *acc, int64_t as, const char *x, int64_t xs, int64_t rows,
                      int64_t row_stride)
{
    int contiguous = as == plan->acc_item && xs == plan->x_item;
    if (contiguous && n * 2 <= WIDE && row_stride == n * xs && rows > 4 * WIDE / n && plan->combine != NULL
        && (plan->idempotent || plan->has_identity)) {
        /* If there are few columns, treat several rows as one wide row, whose pieces are combined at the end. */
        int64_t m = WIDE / n, item = plan->acc_item;
        char wide[WIDE * sizeof(int64_t) * 2] __attribute__((aligned(64)));
        if (plan->idempotent)
            fill(wide, m, acc, n * item);
        else
            fill(wide, n * m, plan->identity, item);
        memcpy(wide, acc, (size_t)(n * item));
        if (plan->fold.rows != NULL)
            plan->fold.rows(n * m, wide, x, m * row_stride, rows / m);
        else
            for (int64_t r = 0; r < rows / m; ++r)
                plan->fold.fold(n * m, wide, item, x + r * m * row_stride, xs);
        plan->fold.fold(n * (rows % m), wide, item, x + rows / m * m * row_stride, xs);
        for (int64_t piece = 1; piece < m; ++piece)
            plan->combine(n, wide, item, wide + piece * n * item, item);
        memcpy(acc, wide, (size_t)(n * item));
        return;
    }
    char piece[PIECES * PIECE * sizeof(int64_t)] __attribute__((aligned(64)));
    int gathers = !contiguous && as == plan->acc_item && xs != plan->x_item && plan->fold.rows != NULL && n >= SHORT;
    int64_t tile = rows > 4 && n > 2 * TILE ? TILE : n;
    for (int64_t from = 0; from < n; from += tile, acc += tile * as, x += tile * xs) {
        int64_t count = n - from < tile ? n - from : tile;
        if (contiguous && plan->fold.rows != NULL && (!plan->idempotent || n > 2 * TILE || rows * n * xs <= CACHED))
            plan->fold.rows(count, acc, x, row_stride, rows);
        else if (gathers)
            for (int64_t r = 0; r < rows; r += PIECES)
                for (int64_t at = 0; at < count; at += PIECE) {
                    int64_t some = count - at < PIECE ? count - at : PIECE,
                            several = rows - r < PIECES ? rows - r : PIECES;
                    for (int64_t k = 0; k < several; ++k)
                        gather(piece + k * PIECE * plan->x_item, some, x + (r + k) * row_stride + at * xs, xs,
                               plan->x_item);
                    plan->fold.rows(some, acc + at * as, piece, PIECE * plan->x_item, several);
                }
        else
            for (int64_t r = 0; r < rows; ++r)
                plan->fold.fold(count, acc, as, x + r * row_stride, xs);
    }
}

static void swap_loops(Loops *l, int a, int b)
{
    int64_t t;
    t = l->len[a], l->len[a] = l->len[b], l->len[b] = t;
    t = l->as[a], l->as[a] = l->as[b], l->as[b] = t;
    t = l->xs[a], l->xs[a] = l->xs[b], l->xs[b] = t;
}

/* Turn dimensions into loops: drop dimensions of length 1, sort the loops by the stride of x, and merge adjacent
 * dimensions. Move the pointers so that no stride of x is negative. Return 0 if there are no elements, else 1. */
static int make_loops(Loops *l, int nd, const int64_t *dims, char **acc, const int64_t *as, const char **x,
                      const int64_t *xs)
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

/* acc OP= x over the loops; a loop with accumulator stride 0 is reduced. */
static void fold_loops(const FoldPlan *plan, const Loops *given, char *acc, const char *x)
{
    Loops l = *given;
    int64_t index[MAX_ND + 1] = {0};
    if (l.count == 0) {
        plan->fold.fold(1, acc, 0, x, 0);
        return;
    }
    /* If the innermost loop is short, a call of the fold for each run would cost more than strided access. Use the fold
     * for short rows, or swap the two innermost loops. */
    if (l.count == 2 && l.as[0] == 0 && l.as[1] == plan->acc_item && l.xs[0] == plan->x_item && l.len[0] < SHORT
        && plan->fold.brief != NULL) {
        plan->fold.brief(l.len[1], acc, x, l.xs[1], l.len[0]);
        return;
    }
    if (l.count > 1 && l.len[0] < SHORT && l.len[1] > 4 * l.len[0]
        && !(l.as[0] == plan->acc_item && l.as[1] == 0 && l.xs[1] == l.len[0] * l.xs[0]))
        swap_loops(&l, 0, 1);
    /* If the innermost loop runs along accumulators, move the first reduced loop to the second place, for fold_rows. */
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
            fold_rows(plan, l.len[0], acc, l.as[0], x, l.xs[0], l.len[1], l.xs[1]);
        else if (l.as[0] == 0)
            fold_stretch(plan, l.len[0], acc, x, l.xs[0]);
        else
            plan->fold.fold(l.len[0], acc, l.as[0], x, l.xs[0]);
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

/* The division of a reduction into shares, which threads compute. The division does not depend on the number of
 * threads, so that the result has the same bits for every number of threads. */
typedef struct {
    int loop; /* the loop that is divided */
    int64_t count, grain;
    char *own;    /* private accumulators of the shares of a reduced loop; NULL: shares have no common accumulator */
    int64_t room; /* bytes of the private accumulators of one share */
} Shares;

static int64_t start_of_share(const Loops *l, const Shares *s, int64_t share)
{
    int64_t len = l->len[s->loop], grains = (len + s->grain - 1) / s->grain,
            start = grains * share / s->count * s->grain;
    return start < len ? start : len;
}

/* Choose the loop to divide. Return 0 if all loops are too short.
 *
 * The longest loop that has separate accumulators for each step is divided into shares of at least 8 steps, so that two
 * shares never write to one cache line. If it is the innermost loop, the shares have at least 128 steps, because a
 * traversal of a few columns of many rows is slow. If this gives fewer than 16 shares, the longest reduced loop is
 * divided: its shares have private accumulators, which are then combined in order. There are at most `most` shares. */
static int choose_shares(const FoldPlan *plan, const Loops *l, int64_t acc_count, int64_t most, Shares *s)
{
    int kept = -1, reduced = -1, combines = plan->combine != NULL && plan->has_identity && acc_count <= TILE;
    for (int k = 0; k < l->count; ++k) {
        combines &= l->as[k] >= 0;
        if (l->as[k] == 0)
            reduced = reduced < 0 || l->len[k] >= l->len[reduced] ? k : reduced;
        else
            kept = kept < 0 || l->len[k] >= l->len[kept] ? k : kept;
    }
    int64_t of_kept = kept < 0 ? 0 : l->len[kept] / (kept == 0 ? 128 : 8);
    int64_t of_reduced = reduced < 0 || !combines ? 0 : l->len[reduced] / 64;
    int divides_reduced = of_kept < 16 && of_reduced > of_kept;
    s->loop = divides_reduced ? reduced : kept;
    s->grain = divides_reduced ? 1 : 8;
    s->count = divides_reduced ? of_reduced : of_kept;
    s->count = s->count < most ? s->count : most;
    s->own = NULL;
    s->room = (acc_count * plan->acc_item + 63) / 64 * 64;
    if (s->count > 1 && divides_reduced) {
        s->own = malloc((size_t)(s->room * s->count));
        if (s->own == NULL)
            return 0;
        for (int64_t share = 0; share < s->count; ++share)
            fill(s->own + share * s->room, acc_count, plan->identity, plan->acc_item);
    }
    return s->count > 1;
}

static void fold_share(const FoldPlan *plan, const Loops *l, const Shares *s, int64_t share, char *acc, const char *x)
{
    int64_t begin = start_of_share(l, s, share), end = start_of_share(l, s, share + 1);
    Loops part = *l;
    part.len[s->loop] = end - begin;
    acc = s->own != NULL ? s->own + share * s->room : acc + begin * l->as[s->loop];
    if (begin < end)
        fold_loops(plan, &part, acc, x + begin * l->xs[s->loop]);
}

/* Share the work among threads. Return 1 after the reduction, or 0 if the caller must reduce. */
static int fold_in_threads(const FoldPlan *plan, const Loops *l, char *acc, int64_t acc_count, int64_t most,
                           const char *x)
{
    Shares s;
    int threads = native_threads();
    if (!choose_shares(plan, l, acc_count, most, &s))
        return 0;
    if (threads < 2)
        for (int64_t share = 0; share < s.count; ++share)
            fold_share(plan, l, &s, share, acc, x);
    else {
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(static)
#endif
        for (int64_t share = 0; share < s.count; ++share)
            fold_share(plan, l, &s, share, acc, x);
    }
    for (int64_t share = 0; s.own != NULL && share < s.count; ++share)
        plan->combine(acc_count, acc, plan->acc_item, s.own + share * s.room, plan->acc_item);
    free(s.own);
    return 1;
}

/* -- one reduction ------------------------------------------------------------------------------------------------ */

/* The packed parameters of a reduction. The parameters of tng_reduce and tng_reduce_elemwise begin with them.
 *   operation: one of OP_*
 *   ndim: number of dimensions
 *   axes: the reduced axes (bits)
 *   element_type, accumulator_type, result_type: NumPy's type numbers
 *   has_identity: whether the operation has an identity
 *   identity: the bytes of the identity */
#define REDUCTION operation, ndim, axes, element_type, accumulator_type, result_type, has_identity, identity[2]
NATIVE_PARAMS(reduction, REDUCTION);

typedef struct {
    FoldPlan plan;
    int nd, kept;
    npy_intp out_dims[MAX_ND];
    npy_intp out_strides[MAX_ND]; /* strides of the accumulators, in the order of the kept dimensions */
    int64_t strides[MAX_ND];      /* strides of the accumulators, by dimension; 0: reduced */
    char *acc;                    /* the accumulator of the first element */
    npy_intp count;
    PyArrayObject *own; /* the array that holds the accumulators; NULL if the result holds them */
    int type;           /* type number of the accumulators */
    int64_t axes;       /* the reduced dimensions (bits) */
} Reduction;

static int real_of(int type)
{
    return type == NPY_CFLOAT ? NPY_FLOAT : type == NPY_CDOUBLE ? NPY_DOUBLE : type;
}

/* Set the identity of an extreme: the lowest value for a maximum, the highest value for a minimum. */
static void set_lowest(FoldPlan *plan, int type, int highest)
{
#define LOWEST(number, T, least, most)                \
    case number: {                                    \
        T value = highest ? (T)(most) : (T)(least);   \
        memcpy(plan->identity, &value, sizeof value); \
        break;                                        \
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
    plan->has_identity = 1;
}

/* Fill in `plan`. `fold`: a generated fold; NULL: take a fold of reduce_folds.h. Return 0, or -1 with an exception
 * set. */
static int set_plan(FoldPlan *plan, const struct reduction_params *params, fold_fn fold)
{
    int op = (int)params->operation, x_type = (int)params->element_type, acc_type = (int)params->accumulator_type;
    memset(plan, 0, sizeof *plan);
    plan->op = op;
    plan->has_identity = (int)params->has_identity;
    memcpy(plan->identity, params->identity, sizeof plan->identity);
    if (fold != NULL) {
        plan->fold.fold = fold;
        return 0;
    }
    if (op == OP_ADD) {
        plan->pairs = PyTypeNum_ISCOMPLEX(acc_type) && PyTypeNum_ISCOMPLEX(x_type);
        x_type = plan->pairs ? real_of(x_type) : x_type;
        acc_type = plan->pairs ? real_of(acc_type) : acc_type;
    }
    plan->fold = find_fold(op, x_type, acc_type);
    plan->combine = find_fold(op, acc_type, acc_type).fold;
    plan->pairwise = op == OP_ADD && plan->combine != NULL && !PyTypeNum_ISINTEGER(acc_type);
    plan->idempotent = op == OP_MAX || op == OP_MIN || op == OP_AND || op == OP_OR;
    if (op == OP_MAX || op == OP_MIN)
        set_lowest(plan, acc_type, op == OP_MIN);
    if (plan->fold.fold != NULL)
        return 0;
    PyErr_SetString(PyExc_SystemError, "Reduction: these types have neither shipped code nor a kernel");
    return -1;
}

/* Return the size of an element in bytes, or -1 with an exception set if the type does not exist. */
static int64_t item_size(int type)
{
    PyArray_Descr *descr = PyArray_DescrFromType(type);
    if (descr == NULL)
        return -1;
    int64_t item = PyDataType_ELSIZE(descr);
    Py_DECREF(descr);
    return item;
}

/* Return 1 if the byte ranges of two arrays overlap. */
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

/* Raise ValueError for an input without elements along dimension d. Return -1. */
static int refuse_empty(int d)
{
    PyErr_Format(PyExc_ValueError,
                 "Reduction: the input has length 0 in dimension %d, and the reduced operation has no identity, so "
                 "that it has no result for zero elements",
                 d);
    return -1;
}

/* Put an array for the result into *out, for elements of the shape `dims`. The array shares no memory with the inputs.
 * Return the array, or NULL with an exception set. */
static PyArrayObject *provide_result(Reduction *r, const struct reduction_params *params, const int64_t *dims,
                                     PyObject **inputs, int n_inputs, PyObject **out)
{
    int type = (int)params->result_type, empty = -1;
    r->kept = 0;
    for (int d = 0; d < r->nd; ++d)
        if (!(r->axes >> d & 1))
            r->out_dims[r->kept++] = dims[d];
        else if (dims[d] == 0 && empty < 0)
            empty = d;
    PyArrayObject *result = native_alloc(out, r->kept, r->out_dims, type);
    for (int i = 0; i < n_inputs && result != NULL; ++i)
        if (share_memory(result, (PyArrayObject *)inputs[i])) {
            Py_CLEAR(*out);
            result = native_alloc(out, r->kept, r->out_dims, type);
        }
    if (result == NULL)
        return NULL;
    r->count = PyArray_SIZE(result);
    if (empty >= 0 && r->count > 0 && !params->has_identity) {
        refuse_empty(empty);
        return NULL;
    }
    return result;
}

/* Set the strides of the accumulators, which are ordered in memory like the elements of x. Return the offset of the
 * first element's accumulator in bytes. */
static int64_t order_accumulators(Reduction *r, const int64_t *dims, const int64_t *x_strides)
{
    int by_stride[MAX_ND], n = 0;
    for (int d = r->nd - 1; d >= 0; --d)
        if (!(r->axes >> d & 1)) {
            int at = n++;
            for (; at > 0 && dims[d] != 1
                   && (dims[by_stride[at - 1]] == 1 || llabs(x_strides[by_stride[at - 1]]) > llabs(x_strides[d]));
                 --at)
                by_stride[at] = by_stride[at - 1];
            by_stride[at] = d;
        }
    int64_t step = r->plan.acc_item, offset = 0;
    memset(r->strides, 0, sizeof r->strides);
    for (int k = 0; k < n; ++k) {
        int d = by_stride[k];
        r->strides[d] = x_strides[d] < 0 ? -step : step;
        offset += x_strides[d] < 0 ? (dims[d] - 1) * step : 0;
        step *= dims[d];
    }
    return offset;
}

/* Begin a reduction of elements with the shape `dims` and the memory order of `x_strides`: put an array for the result
 * into *out, and initialize the accumulators. Return 0, or -1 with an exception set. */
static int begin(Reduction *r, const struct reduction_params *params, fold_fn fold, const int64_t *dims,
                 const int64_t *x_strides, PyObject **inputs, int n_inputs, PyObject **out)
{
    static const char zeros[16] = {0};
    r->own = NULL;
    r->axes = params->axes;
    r->nd = (int)params->ndim;
    r->type = (int)params->accumulator_type;
    if (set_plan(&r->plan, params, fold) < 0)
        return -1;
    PyArrayObject *result = provide_result(r, params, dims, inputs, n_inputs, out);
    if (result == NULL)
        return -1;
    int in_place = PyArray_EquivTypenums(r->type, (int)params->result_type);
    r->plan.acc_item = in_place ? PyArray_ITEMSIZE(result) : item_size(r->type);
    if (r->plan.acc_item < 0)
        return -1;
    int64_t offset = order_accumulators(r, dims, x_strides);
    for (int d = 0, k = 0; d < r->nd; ++d)
        if (!(r->axes >> d & 1)) {
            r->out_strides[k] = r->strides[d];
            in_place &= dims[d] == 1 || r->strides[d] == PyArray_STRIDE(result, k);
            ++k;
        }
    char *room = PyArray_BYTES(result);
    if (!in_place && r->count > 0) {
        r->own = native_new(1, &r->count, r->type, 0);
        if (r->own == NULL)
            return -1;
        room = PyArray_BYTES(r->own);
    }
    r->acc = room + (r->count > 0 ? offset : 0);
    if (r->plan.has_identity && memcmp(r->plan.identity, zeros, sizeof zeros) == 0)
        memset(room, 0, (size_t)(r->count * r->plan.acc_item));
    else if (r->plan.has_identity)
        fill(room, r->count, r->plan.identity, r->plan.acc_item);
    return 0;
}

/* Fold the elements of an array with the shape `dims`; acc is the accumulator of the first element. */
static void accumulate(const Reduction *r, const int64_t *dims, char *acc, const char *x, const int64_t *x_strides,
                       int64_t x_item, int64_t openmp)
{
    Loops l;
    FoldPlan plan = r->plan;
    int64_t size = 1, lens[MAX_ND + 1], as[MAX_ND + 1], xs[MAX_ND + 1];
    int nd = r->nd;
    for (int d = 0; d < nd; ++d) {
        size *= dims[d];
        lens[d] = dims[d];
        as[d] = r->strides[d];
        xs[d] = x_strides[d];
    }
    plan.x_item = x_item;
    if (plan.pairs) {
        plan.x_item /= 2;
        plan.acc_item /= 2;
        lens[nd] = 2;
        as[nd] = plan.acc_item;
        xs[nd++] = plan.x_item;
    }
    if (!make_loops(&l, nd, lens, &acc, as, &x, xs))
        return;
    if (openmp > 0 && size >= openmp) {
        /* Small shares cost more than large ones, so a share has at least a quarter of `openmp` elements. */
        int64_t most = size / openmp < MAX_SHARES / 4 ? size * 4 / openmp : MAX_SHARES;
        if (fold_in_threads(&plan, &l, acc, plan.pairs ? 2 * r->count : r->count, most, x))
            return;
    }
    fold_loops(&plan, &l, acc, x);
}

/* Convert the accumulators to the result, unless the result holds them. Return `status`, or -1 with an exception
 * set. */
static int finish(Reduction *r, PyObject *out, int status)
{
    if (r->own == NULL)
        return status;
    if (status == 0) {
        PyArrayObject *view = (PyArrayObject *)PyArray_New(&PyArray_Type, r->kept, r->out_dims, r->type, r->out_strides,
                                                           r->acc, 0, NPY_ARRAY_ALIGNED, NULL);
        status = view == NULL ? -1 : PyArray_CopyInto((PyArrayObject *)out, view);
        Py_XDECREF(view);
    }
    Py_DECREF(r->own);
    return status;
}

/* Reduce with an operation that has no identity. The accumulators start with the first element of each group. Then each
 * reduced axis, from the smallest stride to the largest, is folded from index 1 on. While an axis is folded, the
 * reduced axes with larger strides stay at index 0. */
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
    PyArrayObject *head = (PyArrayObject *)PyArray_New(&PyArray_Type, r->kept, r->out_dims, PyArray_TYPE(x),
                                                       head_strides, PyArray_DATA(x), 0, NPY_ARRAY_ALIGNED, NULL);
    PyArrayObject *first =
        head == NULL ? NULL
                     : (PyArrayObject *)PyArray_New(&PyArray_Type, r->kept, r->out_dims, r->type, r->out_strides,
                                                    r->acc, 0, NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE, NULL);
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
        PyErr_Format(PyExc_TypeError, "Reduction: the input must be an ndarray with %d dimensions and type number %d",
                     nd, type);
        return -1;
    }
    /* Return a new reference; copy the array only if it is misaligned or byte-swapped. */
    *x = (PyArrayObject *)PyArray_FromArray((PyArrayObject *)value,
                                            PyArray_DescrFromType(PyArray_TYPE((PyArrayObject *)value)),
                                            NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
    return *x == NULL ? -1 : 0;
}

/* Reduce a short vector by one call of the fold, because the general code would take longer than the fold. Return 1 if
 * the vector has been reduced, 0 if the caller must use the general code, -1 with an exception set. */
static int reduce_few(const struct reduction_params *params, fold_fn fold, PyArrayObject *x, PyObject **out)
{
    int64_t n = PyArray_DIM(x, 0);
    FoldPlan plan;
    int single = params->accumulator_type == NPY_DOUBLE && params->result_type == NPY_FLOAT;
    if (params->axes != 1 || !params->has_identity || (params->accumulator_type != params->result_type && !single)
        || n > PAIRWISE_MIN)
        return 0;
    if (set_plan(&plan, params, fold) < 0)
        return -1;
    if (plan.pairs)
        return 0;
    PyArrayObject *result = native_alloc(out, 0, NULL, (int)params->result_type);
    if (result == NULL)
        return -1;
    if (share_memory(result, x))
        return 0;
    npy_float64 wide;
    char *acc = single ? (char *)&wide : PyArray_BYTES(result);
    memcpy(acc, plan.identity, (size_t)(single ? (npy_intp)sizeof wide : PyArray_ITEMSIZE(result)));
    plan.fold.fold(n, acc, 0, PyArray_BYTES(x), PyArray_STRIDE(x, 0));
    if (single)
        *(npy_float32 *)PyArray_DATA(result) = (npy_float32)wide;
    return 1;
}

/* kernel: address of a generated fold (0: use a fold of reduce_folds.h); openmp_minsize: number of elements from which
 * threads share the work (0: never). */
NATIVE_FUNCTION(reduce, REDUCTION, kernel, openmp_minsize)
static int tng_reduce(int nin, int nout, PyObject **in, PyObject **out, const struct reduce_params *params)
{
    const struct reduction_params *reduction = (const struct reduction_params *)params;
    fold_fn fold = (fold_fn)(intptr_t)params->kernel;
    int nd = (int)params->ndim, status;
    int64_t dims[MAX_ND], x_strides[MAX_ND];
    PyArrayObject *x;
    Reduction r;
    (void)nin;
    (void)nout;
    if (check_input(in[0], nd, (int)params->element_type, &x) < 0)
        return -1;
    if (nd == 1 && (status = reduce_few(reduction, fold, x, &out[0])) != 0) {
        Py_DECREF(x);
        return status < 0 ? -1 : 0;
    }
    for (int d = 0; d < nd; ++d) {
        dims[d] = PyArray_DIM(x, d);
        x_strides[d] = PyArray_STRIDE(x, d);
    }
    status = begin(&r, reduction, fold, dims, x_strides, (PyObject **)&x, 1, &out[0]);
    if (status == 0) {
        if (r.plan.has_identity)
            accumulate(&r, dims, r.acc, PyArray_BYTES(x), x_strides, PyArray_ITEMSIZE(x), params->openmp_minsize);
        else
            status = fold_from_first(&r, dims, x, x_strides);
    }
    status = finish(&r, out[0], status);
    Py_DECREF(x);
    return status;
}

/* Reduce without Python objects, for scan loops that are compiled to one C function (scan/array_nodes.py). The elements
 * and the result are C-contiguous; the result has the accumulators' type. Return 0, or -1 if tng_reduce must raise the
 * exception. */
static int fold_box(const struct reduction_params *params, const int64_t *dims, const char *x, char *out)
{
    static const char zeros[16] = {0};
    int64_t x_strides[MAX_ND], step = item_size((int)params->element_type);
    Reduction r;
    r.axes = params->axes;
    r.nd = (int)params->ndim;
    r.type = (int)params->accumulator_type;
    if (step < 0 || set_plan(&r.plan, params, NULL) < 0 || (r.plan.acc_item = item_size(r.type)) < 0) {
        PyErr_Clear();
        return -1;
    }
    if (!r.plan.has_identity)
        return -1;
    int64_t x_item = step;
    r.count = 1;
    for (int d = r.nd - 1; d >= 0; --d) {
        x_strides[d] = step;
        step *= dims[d];
        r.count *= r.axes >> d & 1 ? 1 : dims[d];
    }
    order_accumulators(&r, dims, x_strides);
    if (memcmp(r.plan.identity, zeros, sizeof zeros) == 0)
        memset(out, 0, (size_t)(r.count * r.plan.acc_item));
    else
        fill(out, r.count, r.plan.identity, r.plan.acc_item);
    accumulate(&r, dims, out, x, x_strides, x_item, 0);
    return 0;
}

#include "reduce_elemwise.h"
#include "row_program.h"

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

static PyObject *fold_of(PyObject *self, PyObject *args)
{
    struct reduction_params params = {0};
    int op, x_type, acc_type;
    FoldPlan plan;
    (void)self;
    if (!PyArg_ParseTuple(args, "iii", &op, &x_type, &acc_type))
        return NULL;
    params.operation = op, params.element_type = x_type, params.accumulator_type = acc_type;
    if (set_plan(&plan, &params, NULL) < 0)
        return NULL;
    return Py_BuildValue("Ny#", PyLong_FromVoidPtr((void *)plan.fold.fold), plan.identity,
                         (Py_ssize_t)sizeof plan.identity);
}

static PyObject *address_of_fold_box(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return PyLong_FromVoidPtr((void *)fold_box);
}

static PyMethodDef methods[] = {
    {"fold_of", fold_of, METH_VARARGS,
     "fold_of(operation, element type number, accumulator type number): the address of a fold_fn (reduce_folds.h), and "
     "16 bytes that begin "
     "with the lowest value for a maximum, the highest one for a minimum."},
    {"address_of_fold_box", address_of_fold_box, METH_NOARGS,
     "address_of_fold_box(): of a reduction of C-contiguous elements, int (const int64_t *params, const int64_t *dims, "
     "const char *x, char *out)."},
    {"has_fold", has_fold, METH_VARARGS,
     "has_fold(operation, element type number, accumulator type number): True if no kernel is needed."},
    {NULL, NULL, 0, NULL},
};

static const NativeEntry entries[] = {
    NATIVE_ENTRY(reduce), NATIVE_ENTRY_WITH_SCRATCH(reduce_elemwise),
    NATIVE_ROW(operand),  NATIVE_ENTRY(row_program),
    NATIVE_ROW(entry),    {NULL},
};

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
