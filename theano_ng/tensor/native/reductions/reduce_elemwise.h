/* Reductions of elementwise operations, without an array for the intermediate result; part of reduce.c.
 *
 * For sums, a summing kernel (`folds`) is called for runs: the elements along the innermost loop. The kernel adds all
 * values that it computes to one accumulator, or each value to a separate accumulator. For reductions other than sums,
 * the elementwise kernel computes blocks that fit the cache, and each block is then folded. Sums along some of the axes
 * are also computed in blocks if the array is small, if the runs are short, or if the accumulators of a run are not
 * contiguous. For such a block, the summing kernel adds each value to a zero in a separate array, which is folded. */
#ifndef THEANO_NG_REDUCE_ELEMWISE_H
#define THEANO_NG_REDUCE_ELEMWISE_H

#include "elementwise/divisors.h"
#include "elementwise/elemwise_params.h"

/* The packed parameters of tng_reduce_elemwise, after the parameters of a reduction.
 *   kernel: the elementwise kernel; if `folds` is not NO_SUM, a summing kernel, which adds up the values it computes
 *   program: the program that the kernel runs if it is the interpreter
 *   folds: NO_SUM, ONE_SUM (all elements are summed) or SEPARATE_SUMS (along some axes)
 *   scratch: scratch memory of tng_elemwise
 *   has_maybe_broadcast: an input is of kind MAYBE_BROADCAST
 *   computed_divisor: DIVISION or MODULO if the kernel divides by a value that it computes (divisors.h)
 *   has_divisors: the kernel reports zeros among its divisors
 *   operands: the inputs of the elementwise operation, then its result */
NATIVE_TABLE(reduce_elemwise, operand, operands, REDUCTION, kernel, program, folds, scratch, has_maybe_broadcast,
             computed_divisor, has_divisors);
NATIVE_READER(reduce_elemwise)
enum { NO_SUM, ONE_SUM, SEPARATE_SUMS };

#define BLOCK 32768  /* bytes of a block of intermediate results, which is reduced while it is in the cache */
#define COLUMNS 1024 /* maximum number of adjacent accumulators of a block; they stay in the cache, too */

/* The division of the common shape of the inputs into blocks. */
typedef struct {
    int64_t dims[MAX_ND], block[MAX_ND];
    int order[MAX_ND]; /* dimensions, in the order in which blocks are counted */
    int rank[MAX_ND];  /* dimensions, by decreasing stride of the leading input; a block is a C array in this order */
    int64_t start[MAX_ND];
} Blocks;

static void order_dimensions(Blocks *b, int nd, const int64_t *strides)
{
    for (int d = nd - 1, n = 0; d >= 0; --d) {
        int at = n++;
        for (; at > 0 && llabs(strides[b->order[at - 1]]) > llabs(strides[d]); --at)
            b->order[at] = b->order[at - 1];
        b->order[at] = d;
    }
    for (int k = 0; k < nd; ++k)
        b->rank[k] = b->order[nd - 1 - k];
}

/* Set b->block, the lengths of a block, and b->order. An element of a block has `item` bytes. */
static void cut_blocks(Blocks *b, int nd, int64_t axes, int64_t item)
{
    int64_t room = BLOCK / item;
    if (nd > 0 && !(axes >> b->order[0] & 1))
        for (int k = 1; k < nd; ++k)
            if (axes >> b->order[k] & 1) {
                int reduced = b->order[k];
                memmove(&b->order[2], &b->order[1], (size_t)(k - 1) * sizeof(int));
                b->order[1] = reduced;
                room = room < COLUMNS ? room : COLUMNS;
                break;
            }
    memset(b->start, 0, sizeof b->start);
    for (int k = 0; k < nd; ++k) {
        int d = b->order[k];
        b->block[d] = b->dims[d] < room ? b->dims[d] : room;
        if (k == 0)
            room = BLOCK / item;
        room = room / (b->block[d] > 0 ? b->block[d] : 1);
        room = room > 1 ? room : 1;
    }
}

/* Advance to the next block. Return 0 after the last block. */
static int next_block(Blocks *b, int nd)
{
    for (int k = 0; k < nd; ++k) {
        int d = b->order[k];
        if ((b->start[d] += b->block[d]) < b->dims[d])
            return 1;
        b->start[d] = 0;
    }
    return 0;
}

/* Set `views` to the parts of the inputs at `start`. Dimension k of a view is dimension rank[k] of `start`. If `same`,
 * the block has the same lengths as the previous block, whose views are reused. */
static int set_views(int nd, int nin, PyObject **in, const struct operand_params *operands, const int *rank,
                     const int64_t *start, const int64_t *lens, int same, PyObject **views)
{
    for (int i = 0; i < nin; ++i) {
        PyArrayObject *a = (PyArrayObject *)in[i];
        char *data = PyArray_BYTES(a);
        npy_intp dims[MAX_ND], strides[MAX_ND];
        for (int k = 0; k < nd; ++k) {
            int repeated = is_broadcast(&operands[i], k);
            dims[k] = repeated ? 1 : lens[k];
            strides[k] = PyArray_STRIDE(a, rank[k]);
            data += repeated ? 0 : start[rank[k]] * strides[k];
        }
        if (same) {
            /* No other code keeps the view, so its data pointer may be changed. */
            ((PyArrayObject_fields *)views[i])->data = data;
            continue;
        }
        PyArray_Descr *descr = PyArray_DESCR(a);
        Py_INCREF(descr);
        PyObject *view = PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, strides, data,
                                              PyArray_FLAGS(a) & NPY_ARRAY_ALIGNED, NULL);
        if (view == NULL)
            return -1;
        Py_XSETREF(views[i], view);
    }
    return 0;
}

/* Compute and fold one block after the other. In `inner` and in r->strides, dimension k is dimension b->rank[k] of the
 * inputs. Return 0, or -1 with an exception set. */
static int reduce_blocks(Reduction *r, Blocks *b, int nin, PyObject **in, native_fn elemwise,
                         struct elemwise_params *inner, int64_t item, int has_divisors)
{
    PyObject *views[nin + 1], *piece = NULL;
    int64_t lens[MAX_ND], before[MAX_ND];
    int nd = r->nd, same = 0, status = 0, more = 1;
    memset(views, 0, sizeof views);
    for (int d = 0; d < nd; ++d)
        more &= b->dims[d] != 0;
    while (more) {
        int64_t offset = 0;
        for (int k = 0; k < nd; ++k) {
            int d = b->rank[k];
            lens[k] = b->dims[d] - b->start[d] < b->block[d] ? b->dims[d] - b->start[d] : b->block[d];
            offset += b->start[d] * r->strides[k];
        }
        same = same && memcmp(lens, before, (size_t)nd * sizeof(int64_t)) == 0;
        memcpy(before, lens, (size_t)nd * sizeof(int64_t));
        status = set_views(nd, nin, in, inner->operands, b->rank, b->start, lens, same, views);
        same = 1;
        if (status == 0)
            status = elemwise(nin, 1, views, &piece, (int64_t *)inner);
        if (status < 0) {
            /* Report the position of the zero in the inputs, not in their views. */
            if (has_divisors && PyErr_ExceptionMatches(PyExc_ZeroDivisionError)) {
                PyErr_Clear();
                zero_met(nin, in, inner->operands, inner->computed_divisor);
            }
            break;
        }
        accumulate(r, lens, r->acc + offset, PyArray_BYTES((PyArrayObject *)piece),
                   PyArray_STRIDES((PyArrayObject *)piece), item, 0);
        /* Stop early if the result of `all` or `any` is decided, unless the remaining divisors must be checked for
         * zeros. */
        more = next_block(b, nd)
               && !(r->count == 1 && r->type == NPY_BOOL && *r->acc == (r->plan.op == OP_OR) && r->plan.op != OP_XOR
                    && !has_divisors);
    }
    for (int i = 0; i < nin; ++i)
        Py_XDECREF(views[i]);
    Py_XDECREF(piece);
    return status;
}

/* Return the number of the input that has the most dimensions that are not broadcastable. Return -1 with an exception
 * set if an input does not have `nd` dimensions. */
static int leading_input(int nd, int nin, PyObject **in, const struct operand_params *operands)
{
    int lead = 0, most = -1;
    for (int i = 0; i < nin; ++i) {
        int longer = 0;
        if (!PyArray_Check(in[i]) || PyArray_NDIM((PyArrayObject *)in[i]) != nd) {
            PyErr_Format(PyExc_TypeError, "Elemwise: input[%d] must be an ndarray with %d dimensions", i, nd);
            return -1;
        }
        for (int d = 0; d < nd; ++d)
            longer += !is_broadcast(&operands[i], d);
        if (longer > most) {
            most = longer;
            lead = i;
        }
    }
    return lead;
}

/* -- sums by the kernel ------------------------------------------------------------------------------------------- */

#define LEAF 4096        /* elements that one call adds to one accumulator; the sums of longer runs are pairwise */
#define GATHERED 2048    /* elements of strided operands that are copied to a buffer at once */
#define LONG 128         /* elements of a run; for shorter runs, several rows are passed to the kernel at once */
#define LONG_REPEATED 32 /* instead of LONG, if a single value of an operand would have to be repeated along each run */

/* A summing kernel, which loops/kernel.py generates. Its output pointer is the address of the first accumulator. Its
 * output stride is 0 if there is only one accumulator; otherwise accumulators are contiguous. */
typedef void (*summing_fn)(int64_t n, char **ptr, const int64_t *stride);

typedef struct {
    summing_fn kernel;
    const FoldPlan *plan;
    int nin;
    const struct operand_params *operands;
    int64_t *stride; /* strides of the inputs and accumulators, for the kernel; stride[-1] is the program's address */
    const int64_t *item;
    char *room;       /* buffer for `gathered` elements of each operand, one operand after the other */
    int64_t gathered; /* GATHERED, or fewer if there are fewer elements; a multiple of 16, for alignment */
    int64_t *filled;  /* for each operand, the number of rows in `room` that need not be copied again */
    int *zeros;       /* set to 1 by the kernel if a divisor is zero */
} Summing;

/* Nested loops over all operands and the accumulators, innermost first. In loop k, operand i has the stride
 * `steps[k * nin + i]`, and the accumulators have the stride `as[k]`. `as[k]` is 0 if the sum runs along loop k. */
typedef struct {
    int count;
    int64_t len[MAX_ND + 1], as[MAX_ND + 1];
    int64_t *steps;
} Nest;

/* Turn dimensions into loops, in the order of `rank`. Dimensions of length 1 are dropped, and dimensions that are
 * adjacent in all operands are merged. Move the pointers so that no accumulator has a negative stride. Return 0 if
 * there are no elements. */
static int make_nest(Nest *nest, int nd, const int *rank, const int64_t *dims, const int64_t *as, int nin,
                     PyObject **in, const struct operand_params *operands, char **data, char **acc)
{
    int n = 0;
    for (int k = nd - 1; k >= 0; --k) {
        int d = rank[k], joins = n > 0;
        int64_t *steps = nest->steps + n * nin;
        if (dims[d] == 0)
            return 0;
        if (dims[d] == 1)
            continue;
        nest->as[n] = as[d];
        for (int i = 0; i < nin; ++i)
            steps[i] = is_broadcast(&operands[i], d) ? 0 : PyArray_STRIDE((PyArrayObject *)in[i], d);
        if (as[d] < 0) {
            *acc += (dims[d] - 1) * as[d];
            nest->as[n] = -as[d];
            for (int i = 0; i < nin; ++i) {
                data[i] += (dims[d] - 1) * steps[i];
                steps[i] = -steps[i];
            }
        }
        joins = joins && nest->as[n] == nest->as[n - 1] * nest->len[n - 1];
        for (int i = 0; i < nin && joins; ++i)
            joins = steps[i] == steps[i - nin] * nest->len[n - 1];
        if (joins)
            nest->len[n - 1] *= dims[d];
        else
            nest->len[n++] = dims[d];
    }
    nest->count = n;
    return 1;
}

/* Set the strides of the inputs for the kernel. `steps`: the strides of the inputs along a run, or NULL if the kernel
 * gets several rows at once. If `steps` is not NULL and all inputs of kind MAYBE_BROADCAST have the step 0, the kernel
 * treats these inputs as single values. */
static void set_strides(const Summing *s, const int64_t *steps)
{
    int same = steps != NULL;
    for (int i = 0; i < s->nin && same; ++i)
        same = s->operands[i].kind != MAYBE_BROADCAST || steps[i] == 0;
    for (int i = 0; i < s->nin; ++i) {
        int one_value = s->operands[i].kind == HOISTED || (s->operands[i].kind == MAYBE_BROADCAST && same);
        s->stride[i] = one_value ? 0 : s->item[i];
    }
}

/* Add a loop over one element to a nest without loops, because the kernel is called for the innermost loop. */
static void single_element(Nest *nest, const Summing *s)
{
    nest->count = 1;
    nest->len[0] = 1;
    nest->as[0] = 0;
    memcpy(nest->steps, s->item, (size_t)s->nin * sizeof *s->item);
}

/* Copy rows of n elements each to a contiguous array. */
static void copy_rows(char *to, int64_t n, int64_t rows, const char *from, int64_t step, int64_t row_step, int64_t item)
{
    if (step == 0)
        repeat_each(to, from, row_step, rows, n, item);
    else
        for (int64_t r = 0; r < rows; ++r, to += n * item, from += row_step)
            gather(to, n, from, step, item);
}

/* Call the kernel for a part of a run. */
static void sum_part(const Summing *s, int64_t n, char *const *data, const int64_t *steps, int64_t from, char *acc)
{
    char *ptr[s->nin + 2], *room = s->room;
    ptr[s->nin] = acc;
    ptr[s->nin + 1] = (char *)s->zeros;
    for (int i = 0; i < s->nin; room += s->gathered * s->item[i], ++i) {
        ptr[i] = data[i] + from * steps[i];
        if (steps[i] == s->stride[i])
            continue;
        copy_rows(room, n, 1, ptr[i], steps[i], 0, s->item[i]);
        ptr[i] = room;
    }
    s->kernel(n, ptr, s->stride);
}

static int gathers(const Summing *s, const int64_t *steps)
{
    for (int i = 0; i < s->nin; ++i)
        if (s->stride[i] != steps[i])
            return 1;
    return 0;
}

/* Add a run to one accumulator. */
static void sum_run(const Summing *s, int64_t n, char *const *data, const int64_t *steps, int64_t from, char *acc)
{
    if (n <= GATHERED / 2 || (n <= LEAF && !gathers(s, steps))) {
        sum_part(s, n, data, steps, from, acc);
        return;
    }
    int64_t half = n / 2 / 64 * 64;
    int64_t left[2] = {0, 0}, right[2] = {0, 0};
    sum_run(s, half, data, steps, from, (char *)left);
    sum_run(s, n - half, data, steps, from + half, (char *)right);
    s->plan->combine(1, (char *)left, 0, (char *)right, s->plan->acc_item);
    s->plan->combine(1, acc, 0, (char *)left, s->plan->acc_item);
}

/* Add each element of a run to a separate accumulator. */
static void add_run(const Summing *s, int64_t n, char *const *data, const int64_t *steps, char *acc)
{
    int64_t part = n > GATHERED && gathers(s, steps) ? GATHERED : n;
    for (int64_t from = 0; from < n; from += part)
        sum_part(s, n - from < part ? n - from : part, data, steps, from, acc + from * s->plan->acc_item);
}

/* Add each element of several rows of n elements to a separate accumulator. There are at most GATHERED elements. The
 * strides in s->stride are the item sizes, or 0 for HOISTED operands. If all rows of an operand are the same, the first
 * s->filled rows are already in s->room, and only later rows are copied. */
static void add_rows(const Summing *s, int64_t n, int64_t rows, char *const *data, const int64_t *steps,
                     const int64_t *row_steps, char *acc)
{
    char *ptr[s->nin + 2], *room = s->room;
    ptr[s->nin] = acc;
    ptr[s->nin + 1] = (char *)s->zeros;
    for (int i = 0; i < s->nin; room += s->gathered * s->item[i], ++i) {
        int64_t item = s->item[i], done = row_steps[i] == 0 ? s->filled[i] : 0;
        ptr[i] = data[i];
        if (s->stride[i] == 0 || (steps[i] == item && row_steps[i] == n * item))
            continue;
        if (done < rows) {
            copy_rows(room + done * n * item, n, rows - done, data[i] + done * row_steps[i], steps[i], row_steps[i],
                      item);
            s->filled[i] = rows;
        }
        ptr[i] = room;
    }
    s->kernel(n * rows, ptr, s->stride);
}

/* Return 1 if runs are so long that the kernel is called separately for each run. */
static int is_long(const Summing *s, const Nest *nest)
{
    int repeated = 0;
    for (int i = 0; i < s->nin; ++i)
        repeated |= s->operands[i].kind != HOISTED && nest->steps[i] == 0;
    return nest->len[0] >= (repeated ? LONG_REPEATED : LONG);
}

/* Return 1 if sum_wide is faster than one call for each row. `rows`: the result of order_loops. */
static int is_wide(const Summing *s, const Nest *nest, int rows)
{
    int64_t n = nest->len[0];
    if (!rows || n * 2 > WIDE || nest->len[1] <= 4 * WIDE / n)
        return 0;
    for (int i = 0; i < s->nin && n >= LONG_REPEATED; ++i)
        if (s->operands[i].kind != HOISTED && nest->steps[i] == 0)
            return 0;
    return 1;
}

/* Add rows of few elements to the same accumulators: several rows are treated as one wide row, whose pieces are combined
 * at the end. */
static void sum_wide(const Summing *s, int64_t n, int64_t rows, char *const *data, const int64_t *steps,
                     const int64_t *row_steps, char *acc)
{
    int64_t m = WIDE / n, item = s->plan->acc_item;
    char wide[WIDE * sizeof(int64_t)] __attribute__((aligned(64)));
    char *here[s->nin];
    memset(wide, 0, (size_t)(n * m * item));
    memcpy(wide, acc, (size_t)(n * item));
    memcpy(here, data, sizeof here);
    memset(s->filled, 0, (size_t)s->nin * sizeof *s->filled);
    for (int64_t r = 0; r < rows; r += m) {
        add_rows(s, n, rows - r < m ? rows - r : m, here, steps, row_steps, wide);
        for (int i = 0; i < s->nin; ++i)
            here[i] += m * row_steps[i];
    }
    for (int64_t piece = 1; piece < m; ++piece)
        s->plan->combine(n, wide, item, wide + piece * n * item, item);
    memcpy(acc, wide, (size_t)(n * item));
}

/* Add rows of n elements each to the same n accumulators. Process the columns in tiles whose accumulators stay in the
 * cache. */
static void sum_rows(const Summing *s, int64_t n, int64_t rows, char *const *data, const int64_t *steps,
                     const int64_t *row_steps, char *acc)
{
    int64_t tile = rows > 4 && n > 2 * TILE ? TILE : n;
    char *here[s->nin];
    for (int64_t from = 0; from < n; from += tile) {
        for (int i = 0; i < s->nin; ++i)
            here[i] = data[i] + from * steps[i];
        for (int64_t r = 0; r < rows; ++r) {
            add_run(s, n - from < tile ? n - from : tile, here, steps, acc + from * s->plan->acc_item);
            for (int i = 0; i < s->nin; ++i)
                here[i] += row_steps[i];
        }
    }
}

/* Advance the loops from loop k on. Return 0 after the last iteration. */
static int next_run(const Nest *nest, int nin, int k, int64_t *index, char **data, char **acc)
{
    for (; k < nest->count; ++k) {
        const int64_t *steps = nest->steps + k * nin;
        *acc += nest->as[k];
        for (int i = 0; i < nin; ++i)
            data[i] += steps[i];
        if (++index[k] < nest->len[k])
            return 1;
        *acc -= nest->as[k] * nest->len[k];
        for (int i = 0; i < nin; ++i)
            data[i] -= steps[i] * nest->len[k];
        index[k] = 0;
    }
    return 0;
}

static void move_loop(Nest *nest, int nin, int from, int to)
{
    for (int k = from; k > to; --k) {
        int64_t t;
        t = nest->len[k], nest->len[k] = nest->len[k - 1], nest->len[k - 1] = t;
        t = nest->as[k], nest->as[k] = nest->as[k - 1], nest->as[k - 1] = t;
        for (int i = k * nin; i < (k + 1) * nin; ++i)
            t = nest->steps[i], nest->steps[i] = nest->steps[i - nin], nest->steps[i - nin] = t;
    }
}

/* If the innermost loop runs along accumulators, move the first reduced loop to the second place, and return 1. */
static int order_loops(Nest *nest, int nin)
{
    for (int k = 1; k < nest->count && nest->as[0] != 0; ++k)
        if (nest->as[k] == 0) {
            move_loop(nest, nin, k, 1);
            return 1;
        }
    return 0;
}

/* Sum in the order of the loops. s->stride is set for runs along the first loop. `rows`: the result of order_loops. */
static void sum_nest(const Summing *s, const Nest *nest, int rows, char **data, char *acc)
{
    int64_t index[MAX_ND + 1], n = nest->len[0];
    const int64_t *steps = nest->steps, *row_steps = nest->steps + s->nin;
    memset(index, 0, (size_t)nest->count * sizeof *index);
    s->stride[s->nin] = nest->as[0];
    int wide = is_wide(s, nest, rows);
    if (wide)
        set_strides(s, NULL);
    do {
        if (wide)
            sum_wide(s, n, nest->len[1], data, steps, row_steps, acc);
        else if (rows)
            sum_rows(s, n, nest->len[1], data, steps, row_steps, acc);
        else if (nest->as[0] == 0)
            sum_run(s, n, data, steps, 0, acc);
        else
            add_run(s, n, data, steps, acc);
    } while (next_run(nest, s->nin, 1 + rows, index, data, &acc));
}

/* Compute a block: add its elements to the zeros of a contiguous array. */
static void compute_block(const Summing *s, const Nest *nest, char **data, char *block)
{
    int64_t index[MAX_ND + 1], n = nest->len[0], rows = nest->count > 1 && !is_long(s, nest) ? nest->len[1] : 1;
    const int64_t *steps = nest->steps, *row_steps = nest->steps + s->nin;
    memset(index, 0, (size_t)nest->count * sizeof *index);
    s->stride[s->nin] = s->plan->acc_item;
    set_strides(s, rows > 1 ? NULL : steps);
    if (rows == 1) {
        do
            add_run(s, n, data, steps, block);
        while (next_run(nest, s->nin, 1, index, data, &block));
        return;
    }
    int64_t m = GATHERED / n;
    char *here[s->nin];
    do {
        memcpy(here, data, sizeof here);
        memset(s->filled, 0, (size_t)s->nin * sizeof *s->filled);
        for (int64_t r = 0; r < rows; r += m) {
            add_rows(s, n, rows - r < m ? rows - r : m, here, steps, row_steps, block + r * nest->as[1]);
            for (int i = 0; i < s->nin; ++i)
                here[i] += m * row_steps[i];
        }
    } while (next_run(nest, s->nin, 2, index, data, &block));
}

/* Return 1 if the whole array is one block. Scan loops that are compiled to one C function sum arrays of this size in
 * the same order, so the results are equal (scan/array_nodes.py). */
static int is_small(const Blocks *b, int nd, int64_t item)
{
    int64_t count = 1;
    for (int d = 0; d < nd; ++d) {
        count *= b->dims[d];
        if (b->dims[d] > COLUMNS)
            return 0;
    }
    return count * item <= BLOCK;
}

/* Return 1 if an array is summed in blocks: if it is small, if its runs are short, or if the accumulators of a run are
 * not contiguous. `rows`: the result of order_loops. */
static int in_blocks(const Summing *s, const Nest *nest, int rows, int small)
{
    if (small || (nest->as[0] != 0 && nest->as[0] != s->plan->acc_item))
        return 1;
    return !is_long(s, nest) && !is_wide(s, nest, rows);
}

/* Compute and sum one block after the other. `block` has room for a block of accumulators. */
static void sum_blocks(Reduction *r, Blocks *b, const Summing *s, PyObject **in, Nest *nest, char *block)
{
    int64_t lens[MAX_ND], strides[MAX_ND];
    char *data[s->nin];
    r->plan.fold = find_fold(OP_ADD, r->type, r->type); /* a block has the type of the accumulators */
    do {
        int64_t step = r->plan.acc_item;
        char *acc = r->acc, *to = block;
        for (int k = r->nd - 1; k >= 0; --k) {
            int d = b->rank[k];
            lens[d] = b->dims[d] - b->start[d] < b->block[d] ? b->dims[d] - b->start[d] : b->block[d];
            strides[d] = step;
            step *= lens[d];
            acc += b->start[d] * r->strides[d];
        }
        for (int i = 0; i < s->nin; ++i) {
            data[i] = PyArray_BYTES((PyArrayObject *)in[i]);
            for (int d = 0; d < r->nd; ++d)
                data[i] +=
                    is_broadcast(&s->operands[i], d) ? 0 : b->start[d] * PyArray_STRIDE((PyArrayObject *)in[i], d);
        }
        memset(block, 0, (size_t)step);
        make_nest(nest, r->nd, b->rank, lens, strides, s->nin, in, s->operands, data, &to);
        if (nest->count == 0)
            single_element(nest, s);
        compute_block(s, nest, data, block);
        accumulate(r, lens, acc, block, strides, r->plan.acc_item, 0);
    } while (next_block(b, r->nd));
}

/* Sum after allocating memory for copied operands and for a block. Return 0, or -1 with an exception set. */
static int sum_with_room(Reduction *r, Blocks *b, int64_t x_item, Summing *s, PyObject **in, Nest *nest, int separate,
                         char **data, char *acc)
{
    int small = separate && is_small(b, r->nd, x_item);
    int rows = order_loops(nest, s->nin), blocks = separate && in_blocks(s, nest, rows, small);
    int64_t most = 1, count = 1, item_sum = 0;
    char stack[2048] __attribute__((aligned(64))), *own = NULL;
    if (blocks)
        cut_blocks(b, r->nd, r->axes, x_item > r->plan.acc_item ? x_item : r->plan.acc_item);
    for (int d = 0; d < r->nd; ++d) {
        count *= b->dims[d];
        if (small)
            b->block[d] = b->dims[d];
        most *= blocks ? b->block[d] : 0;
    }
    for (int i = 0; i < s->nin; ++i)
        item_sum += s->item[i];
    set_strides(s, nest->steps);
    s->gathered = count < GATHERED ? (count + 15) / 16 * 16 : GATHERED;
    size_t copied = blocks || is_wide(s, nest, rows) || gathers(s, nest->steps) ? (size_t)(s->gathered * item_sum) : 0;
    size_t size = copied + (size_t)(most * r->plan.acc_item);
    if (size > sizeof stack && (own = malloc(size)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    s->room = own == NULL ? stack : own;
    if (blocks)
        sum_blocks(r, b, s, in, nest, s->room + copied);
    else
        sum_nest(s, nest, rows, data, acc);
    free(own);
    return 0;
}

/* Sum with a summing kernel (summing_fn). `x_item`: size of a summed value. Return 0, or -1 with an exception set. */
static int sum_elemwise(Reduction *r, Blocks *b, int64_t x_item, int nin, PyObject **in,
                        const struct reduce_elemwise_params *params)
{
    int64_t steps[(MAX_ND + 1) * nin], behind_program[nin + 2], item[nin], filled[nin];
    char *data[nin], *acc = r->acc;
    int zeros = 0, separate = params->folds == SEPARATE_SUMS;
    behind_program[0] = params->program;
    for (int i = 0; i < nin; ++i) {
        data[i] = PyArray_BYTES((PyArrayObject *)in[i]);
        item[i] = PyArray_ITEMSIZE((PyArrayObject *)in[i]);
    }
    Nest nest = {.steps = steps};
    Summing s = {.kernel = (summing_fn)(intptr_t)params->kernel,
                 .plan = &r->plan,
                 .nin = nin,
                 .operands = params->operands,
                 .stride = behind_program + 1,
                 .item = item,
                 .filled = filled,
                 .zeros = &zeros};
    if (!make_nest(&nest, r->nd, b->rank, b->dims, r->strides, nin, in, params->operands, data, &acc))
        return 0;
    if (nest.count == 0)
        single_element(&nest, &s);
    set_strides(&s, steps);
    if (!separate && !gathers(&s, steps)) {
        sum_nest(&s, &nest, 0, data, acc);
        return zeros ? zero_met(nin, in, params->operands, params->computed_divisor) : 0;
    }
    if (sum_with_room(r, b, x_item, &s, in, &nest, separate, data, acc) < 0)
        return -1;
    return zeros ? zero_met(nin, in, params->operands, params->computed_divisor) : 0;
}

/* -- the entry --------------------------------------------------------------------------------------------------- */

static const NativeEntry *elemwise_entry(void)
{
    static const NativeEntry *entry = NULL;
    if (entry == NULL)
        entry = native_entry("theano_ng.tensor.native.elemwise", "elemwise");
    return entry;
}

#define INNER_WORDS(n_operands) \
    ((sizeof(struct elemwise_params) + (size_t)(n_operands) * sizeof(struct operand_params)) / sizeof(int64_t))

/* Write the packed parameters of tng_elemwise to `room`, which has INNER_WORDS(n_operands) words. Return them. */
static struct elemwise_params *inner_params(const struct reduce_elemwise_params *params, int64_t *room)
{
    struct elemwise_params *inner = (struct elemwise_params *)room;
    *inner = (struct elemwise_params){.kernel = params->kernel,
                                      .program = params->program,
                                      .scratch = params->scratch,
                                      .ndim = params->ndim,
                                      .has_maybe_broadcast = params->has_maybe_broadcast,
                                      .computed_divisor = params->computed_divisor,
                                      .n_operands = params->n_operands};
    memcpy(inner->operands, params->operands, (size_t)params->n_operands * sizeof *inner->operands);
    return inner;
}

static int64_t reduce_elemwise_scratch(int nin, int nout, const int64_t *given)
{
    const struct reduce_elemwise_params *params = (const struct reduce_elemwise_params *)given;
    const NativeEntry *elemwise = elemwise_entry();
    int64_t room[INNER_WORDS(params->n_operands)];
    return elemwise == NULL ? -1 : elemwise->scratch(nin, nout, (int64_t *)inner_params(params, room));
}

static int tng_reduce_elemwise(int nin, int nout, PyObject **in, PyObject **out,
                               const struct reduce_elemwise_params *params)
{
    const NativeEntry *elemwise = elemwise_entry();
    int64_t item = item_size((int)params->element_type), strides[MAX_ND], room[INNER_WORDS(nin + nout)];
    int nd = (int)params->ndim, lead = leading_input(nd, nin, in, params->operands);
    Blocks b;
    Reduction r;
    if (elemwise == NULL || item < 0 || lead < 0 || result_dims(nd, nin, in, params->operands, b.dims) < 0)
        return -1;
    /* Sort the dimensions by the strides of the leading input. Dimensions along which this input is broadcast become
     * the outermost. */
    for (int d = 0; d < nd; ++d)
        strides[d] =
            is_broadcast(&params->operands[lead], d) ? INT64_MAX : llabs(PyArray_STRIDE((PyArrayObject *)in[lead], d));
    order_dimensions(&b, nd, strides);
    if (begin(&r, (const struct reduction_params *)params, NULL, b.dims, strides, in, nin, out) < 0)
        return -1;
    if (params->folds != NO_SUM)
        return finish(&r, *out, sum_elemwise(&r, &b, item, nin, in, params));
    cut_blocks(&b, nd, params->axes, item);
    /* In a block and in r.strides, dimension k is dimension b.rank[k] of the inputs. */
    struct elemwise_params *inner = inner_params(params, room);
    memcpy(strides, r.strides, sizeof strides);
    for (int k = 0; k < nd; ++k)
        r.strides[k] = strides[b.rank[k]];
    for (int i = 0; i < nin; ++i) {
        inner->operands[i].broadcastable = 0;
        for (int k = 0; k < nd; ++k)
            inner->operands[i].broadcastable |= (int64_t)is_broadcast(&params->operands[i], b.rank[k]) << k;
    }
    return finish(&r, *out, reduce_blocks(&r, &b, nin, in, elemwise->function, inner, item, (int)params->has_divisors));
}

#endif
