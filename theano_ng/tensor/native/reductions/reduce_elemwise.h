/* Reductions of elementwise operations, without an array for the intermediate result; part of reduce.c.
 *
 * If all elements are summed, the kernel itself sums the values that it computes (`folds`); it is called for runs of
 * the inputs. Otherwise the kernel of elemwise.c computes blocks that fit the cache, and each block is then folded. */
#ifndef THEANO_NG_REDUCE_ELEMWISE_H
#define THEANO_NG_REDUCE_ELEMWISE_H

#include "elementwise/divisors.h"
#include "elementwise/elemwise_params.h"

/* The packed parameters of tng_reduce_elemwise, after the parameters of a reduction.
 *   kernel: the elementwise operation's kernel; if `folds`, a kernel that sums the values that it computes
 *   program: the program that the kernel runs if it is the interpreter
 *   scratch: scratch memory of tng_elemwise
 *   has_maybe_broadcast: an input is of kind MAYBE_BROADCAST
 *   computed_divisor: DIVISION or MODULO if the kernel divides by a value that it computes (divisors.h)
 *   has_divisors: the kernel reports zeros among its divisors
 *   operands: the inputs of the elementwise operation, then its result */
NATIVE_TABLE(reduce_elemwise, operand, operands, REDUCTION, kernel, program, folds, scratch, has_maybe_broadcast, computed_divisor, has_divisors);
NATIVE_READER(reduce_elemwise)

#define BLOCK 32768  /* bytes of intermediate results that are reduced while they are in the cache */
#define COLUMNS 1024 /* adjacent accumulators, few enough to stay in the cache too */

/* The division of the common shape into blocks. */
typedef struct {
    int64_t dims[MAX_ND], block[MAX_ND];
    int order[MAX_ND]; /* dimensions, in the order in which blocks are counted */
    int rank[MAX_ND];  /* dimensions, from the largest stride to the smallest, so that blocks are arrays in C order */
    int64_t start[MAX_ND];
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
static int set_views(int nd, int nin, PyObject **in, const struct operand_params *operands, const int *rank, const int64_t *start,
                     const int64_t *lens, int same, PyObject **views)
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
        PyObject *view = PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, strides, data, PyArray_FLAGS(a) & NPY_ARRAY_ALIGNED,
                                              NULL);
        if (view == NULL)
            return -1;
        Py_XSETREF(views[i], view);
    }
    return 0;
}

/* Compute and fold one block after the other. In `inner` and in r->strides, dimensions are counted by rank. Return 0,
 * or -1 with an exception set. */
static int reduce_blocks(Reduction *r, Blocks *b, int nin, PyObject **in, native_fn elemwise, struct elemwise_params *inner, int64_t item,
                         int has_divisors)
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
        accumulate(r, lens, r->acc + offset, PyArray_BYTES((PyArrayObject *)piece), PyArray_STRIDES((PyArrayObject *)piece), item, 0);
        /* Stop early if the result of `all` or `any` is decided, unless the remaining divisors must be checked for
         * zeros. */
        more = next_block(b, nd)
               && !(r->count == 1 && r->type == NPY_BOOL && *r->acc == (r->plan.op == OP_OR) && r->plan.op != OP_XOR && !has_divisors);
    }
    for (int i = 0; i < nin; ++i)
        Py_XDECREF(views[i]);
    Py_XDECREF(piece);
    return status;
}

/* Return the input with most dimensions that are not broadcastable, or -1 with an exception set if an input has not
 * `nd` dimensions. */
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

/* -- the kernel folds --------------------------------------------------------------------------------------------- */

#define LEAF 4096   /* elements that one call sums; the sums of longer runs are pairwise */
#define GATHERED 1024 /* elements of strided operands that are copied to a buffer at once */

/* A kernel of loops/kernel.py that sums: the pointer of its output is the address of the accumulator. */
typedef void (*summing_fn)(int64_t n, char **ptr, const int64_t *stride);

typedef struct {
    summing_fn kernel;
    const FoldPlan *plan;
    int nin;
    /* stride that the kernel expects of each operand along the run, in bytes: the item size, or 0 if it reads a single
     * value */
    const int64_t *stride;
    const int64_t *step;   /* the actual stride in bytes */
    const int64_t *item;
    int gathers;           /* whether `stride` and `step` differ */
    char *room;            /* GATHERED elements of up to 16 bytes for each operand */
    int *zeros;            /* set to 1 by the kernel if a divisor is zero */
} Summing;

static void sum_leaf(const Summing *s, int64_t n, char **data, int64_t from, char *acc)
{
    char *ptr[s->nin + 2];
    ptr[s->nin] = acc;
    ptr[s->nin + 1] = (char *)s->zeros;
    for (int i = 0; i < s->nin; ++i) {
        ptr[i] = data[i] + from * s->step[i];
        if (s->step[i] == s->stride[i])
            continue;
        char *to = s->room + (int64_t)i * GATHERED * 16;
        if (s->item[i] <= 8)
            gather(to, n, ptr[i], s->step[i], s->item[i]);
        else
            for (int64_t k = 0; k < n; ++k)
                memcpy(to + k * s->item[i], ptr[i] + k * s->step[i], (size_t)s->item[i]);
        ptr[i] = to;
    }
    s->kernel(n, ptr, s->stride);
}

static void sum_stretch(const Summing *s, int64_t n, char **data, int64_t from, char *acc)
{
    if (n <= (s->gathers ? GATHERED : LEAF)) {
        sum_leaf(s, n, data, from, acc);
        return;
    }
    int64_t half = n / 2 / 64 * 64;
    int64_t left[2] = {0, 0}, right[2] = {0, 0};
    sum_stretch(s, half, data, from, (char *)left);
    sum_stretch(s, n - half, data, from + half, (char *)right);
    s->plan->combine(1, (char *)left, 0, (char *)right, s->plan->acc_item);
    s->plan->combine(1, acc, 0, (char *)left, s->plan->acc_item);
}

/* Sum all elements into one accumulator. Return 0, or -1 with an exception set. */
static int sum_all(const Reduction *r, const Blocks *b, int nin, PyObject **in, const struct reduce_elemwise_params *params)
{
    int64_t lens[MAX_ND + 1], steps[MAX_ND + 1][nin + 1], behind_program[nin + 2], *stride = behind_program + 1, item[nin + 1], index[MAX_ND + 1] = {0};
    char *data[nin + 1];
    int n = 0, alternates_fixed = 1, zeros = 0;
    behind_program[0] = params->program;
    for (int i = 0; i < nin; ++i) {
        data[i] = PyArray_BYTES((PyArrayObject *)in[i]);
        item[i] = PyArray_ITEMSIZE((PyArrayObject *)in[i]);
    }
    /* List the dimensions, innermost first; dimensions that are adjacent in all operands are merged. */
    for (int k = r->nd - 1; k >= 0; --k) {
        int d = b->rank[k], joins = n > 0;
        if (b->dims[d] == 0)
            return 0;
        if (b->dims[d] == 1)
            continue;
        for (int i = 0; i < nin; ++i) {
            steps[n][i] = is_broadcast(&params->operands[i], d) ? 0 : PyArray_STRIDE((PyArrayObject *)in[i], d);
            joins = joins && steps[n][i] == steps[n - 1][i] * lens[n - 1];
        }
        if (joins)
            lens[n - 1] *= b->dims[d];
        else
            lens[n++] = b->dims[d];
    }
    if (n == 0) {
        lens[n++] = 1;
        memcpy(steps[0], item, sizeof item);
    }
    for (int i = 0; i < nin; ++i)
        alternates_fixed &= params->operands[i].kind != MAYBE_BROADCAST || steps[0][i] == 0;
    Summing s = {.kernel = (summing_fn)(intptr_t)params->kernel, .plan = &r->plan, .nin = nin, .stride = stride, .step = steps[0], .item = item,
                 .zeros = &zeros};
    for (int i = 0; i < nin; ++i) {
        int one_value = params->operands[i].kind == HOISTED || (params->operands[i].kind == MAYBE_BROADCAST && alternates_fixed);
        stride[i] = one_value ? steps[0][i] : item[i];
        s.gathers |= stride[i] != steps[0][i];
    }
    if (s.gathers && (s.room = malloc((size_t)nin * GATHERED * 16)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int k = 0; k < n;) {
        sum_stretch(&s, lens[0], data, 0, r->acc);
        for (k = 1; k < n; ++k) {
            for (int i = 0; i < nin; ++i)
                data[i] += steps[k][i];
            if (++index[k] < lens[k])
                break;
            for (int i = 0; i < nin; ++i)
                data[i] -= steps[k][i] * lens[k];
            index[k] = 0;
        }
    }
    free(s.room);
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

#define INNER_WORDS(n_operands) ((sizeof(struct elemwise_params) + (size_t)(n_operands) * sizeof(struct operand_params)) / sizeof(int64_t))

/* Write the packed parameters of tng_elemwise to INNER_WORDS words of memory. */
static struct elemwise_params *inner_params(const struct reduce_elemwise_params *params, int64_t *room)
{
    struct elemwise_params *inner = (struct elemwise_params *)room;
    *inner = (struct elemwise_params){.kernel = params->kernel, .program = params->program, .scratch = params->scratch, .ndim = params->ndim,
                                     .has_maybe_broadcast = params->has_maybe_broadcast, .computed_divisor = params->computed_divisor,
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

static int tng_reduce_elemwise(int nin, int nout, PyObject **in, PyObject **out, const struct reduce_elemwise_params *params)
{
    const NativeEntry *elemwise = elemwise_entry();
    int64_t item = item_size((int)params->element_type), strides[MAX_ND], room[INNER_WORDS(nin + nout)];
    int nd = (int)params->ndim, lead = leading_input(nd, nin, in, params->operands);
    Blocks b;
    Reduction r;
    if (elemwise == NULL || item < 0 || lead < 0 || result_dims(nd, nin, in, params->operands, b.dims) < 0)
        return -1;
    /* Dimensions along which the leading input is repeated count as the outermost. */
    for (int d = 0; d < nd; ++d)
        strides[d] = is_broadcast(&params->operands[lead], d) ? INT64_MAX : llabs(PyArray_STRIDE((PyArrayObject *)in[lead], d));
    cut_blocks(&b, nd, params->axes, strides, item);
    if (begin(&r, (const struct reduction_params *)params, NULL, b.dims, strides, in, nin, out) < 0)
        return -1;
    if (params->folds)
        return finish(&r, *out, sum_all(&r, &b, nin, in, params));
    /* From here on, the dimensions of blocks and of the reduction are counted by rank. */
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
