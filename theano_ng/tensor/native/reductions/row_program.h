/* Reductions of rows, with elementwise operations before, between and after the reductions; part of reduce.c.
 *
 * The last dimensions of the common shape form rows. A row stays in the cache while all operations are applied to it.
 * Short rows are processed several at a time (a tile), long rows block by block. tensor/reductions/row_program.py
 * writes the programs. */
#ifndef THEANO_NG_ROW_PROGRAM_H
#define THEANO_NG_ROW_PROGRAM_H

#include "elementwise/elemwise_params.h"

/* An entry of a program. The values come first, then the operations in the order of execution; an operation is followed
 * by its arguments (for a MAP, the result is the last of them).
 *   entry: one of the kinds below
 *   level: of a value or of a MAP: whether there is one value, one per row, or one per element
 *   number: of an argument, the number of the value; of an operation, the pass in which it runs
 *   type: NumPy's type number of a value, or of an accumulator
 *   input, output: the number of a value among the inputs or outputs; -1: the value is no input or output
 *   ndim, broadcastable: of an input or output
 *   buffer: number of the buffer of a value that only one block needs; -1: the value has its own memory
 *   kernel, program: of a MAP, as for tng_elemwise
 *   operation, has_identity, identity: of a FOLD, as for tng_reduce */
NATIVE_PARAMS(entry, entry, level, number, type, input, output, ndim, broadcastable, buffer, kernel, program, operation,
              has_identity, identity[2]);
enum { VALUE, MAP, FOLD, ARGUMENT };
enum { ONE, ROW, ELEMENT };

/* rank: number of dimensions of the common shape; row_rank: number of its last dimensions, which form a row; n_buffers:
 * number of buffers for a block */
NATIVE_TABLE(row_program, entry, entries, rank, row_rank, n_buffers);
NATIVE_READER(row_program)

#define TILE_ELEMENTS 1024 /* elements of a tile of short rows */
#define ACROSS_ROWS 16     /* minimum number of rows of a tile if the elements of a row are not adjacent */
#define SPREAD_BELOW 112   /* elements of a row; if rows are shorter, one call of a kernel processes several of them */

/* A value and its memory.
 *   base, strides: the data of an input or output, or the value's own memory
 *   own: memory for the value in a tile or block; NULL: the value is read or written at `base`
 *   spread: memory with the value of each row, once for each element of the row
 *   spread_rows: the number of rows whose values are in `spread`
 *   every: bytes from the value of a row to the value of the next row; -1: this distance is not the same for all rows
 *   flat: whether the elements of a row are adjacent
 *   copied: whether the part of the value that belongs to a tile is copied to `own` */
typedef struct {
    const struct entry_params *params;
    char *base, *own, *spread;
    const npy_intp *strides;
    int64_t item, every, spread_rows;
    int flat, copied;
} RowValue;

typedef void (*map_fn)(int64_t n, char **ptr, const int64_t *stride);

typedef struct {
    const struct entry_params *params; /* the operation; its arguments follow */
    int n_args;
    FoldPlan plan; /* only for a FOLD */
    char *accumulators;
    char lowest[16]; /* the first value of an accumulator */
} RowStep;

typedef struct {
    int nd, outer, n_steps, wide; /* wide: whether rows are split into blocks */
    int64_t dims[MAX_ND], columns, rows, tile;
    RowValue *values;
    RowStep *steps;
    int64_t row, count; /* the first row of the tile, and the number of its rows */
} RowRun;

/* Return the address of the first element that row number `row` of a value has. */
static char *row_address(const RowRun *run, const RowValue *v, int64_t row)
{
    if (v->every >= 0)
        return v->base + row * v->every;
    char *at = v->base;
    for (int d = run->outer - 1; d >= 0; --d) {
        if (!(v->params->broadcastable >> d & 1))
            at += row % run->dims[d] * v->strides[d];
        row /= run->dims[d];
    }
    return at;
}

/* Determine the memory layout of an input. */
static void describe_layout(const RowRun *run, RowValue *v, PyArrayObject *a)
{
    int64_t expected = v->item, ndim = PyArray_NDIM(a), level = v->params->level;
    int repeated = 1, regular = 1;
    v->base = PyArray_BYTES(a);
    v->strides = PyArray_STRIDES(a);
    v->flat = 1;
    if (level == ONE) {
        v->every = 0;
        return;
    }
    if (level == ELEMENT)
        for (int d = (int)ndim - 1; d >= run->outer; --d) {
            v->flat &= run->dims[d] == 1 || v->strides[d] == expected;
            expected *= run->dims[d];
        }
    v->every = expected;
    for (int d = run->outer - 1; d >= 0; --d) {
        int fixed = run->dims[d] == 1, still = v->params->broadcastable >> d & 1 || v->strides[d] == 0;
        repeated &= fixed || still;
        regular &= fixed || (!still && v->strides[d] == expected);
        expected *= run->dims[d];
    }
    if (!regular)
        v->every = repeated ? 0 : -1;
}

/* Copy the elements of one row to contiguous memory. */
static void copy_row(const RowRun *run, const RowValue *v, char *to, const char *from)
{
    int last = run->nd - 1;
    int64_t index[MAX_ND] = {0}, n = run->dims[last], step = v->strides[last];
    if (v->flat) {
        memcpy(to, from, (size_t)(run->columns * v->item));
        return;
    }
    for (;;) {
        gather(to, n, from, step, v->item);
        to += n * v->item;
        int d = last - 1;
        for (; d >= run->outer; --d) {
            from += v->strides[d];
            if (++index[d] < run->dims[d])
                break;
            from -= v->strides[d] * run->dims[d];
            index[d] = 0;
        }
        if (d < run->outer)
            return;
    }
}

/* Copy `count` rows of a matrix column by column, because the elements of a column may be adjacent in memory. */
VECTORISED static void copy_across(char *restrict to, const char *restrict from, int64_t count, int64_t columns,
                                   int64_t every, int64_t step, int64_t item)
{
#define ACROSS(T)                                                            \
    {                                                                        \
        for (int64_t i = 0; i < columns; ++i, from += step)                  \
            for (int64_t t = 0; t < count; ++t)                              \
                ((T *)to)[t * columns + i] = *(const T *)(from + t * every); \
        break;                                                               \
    }
    switch (item) {
    case 1: ACROSS(uint8_t)
    case 2: ACROSS(uint16_t)
    case 4: ACROSS(uint32_t)
    case 8: ACROSS(uint64_t)
    default: ACROSS(Sixteen)
    }
#undef ACROSS
}

/* Copy the inputs that a kernel cannot read in place. */
static void load_tile(RowRun *run, int n_values)
{
    for (int i = 0; i < n_values; ++i) {
        RowValue *v = run->values + i;
        v->spread_rows = 0;
        /* if every == 0, all rows share one row, which the first tile has copied */
        if (v->params->input < 0 || !v->copied || (v->every == 0 && run->row > 0))
            continue;
        if (v->params->level == ELEMENT && run->columns == 0)
            continue;
        if (v->params->level == ELEMENT && !v->flat && run->nd == 2) {
            copy_across(v->own, row_address(run, v, run->row), run->count, run->columns,
                        v->every == 0 ? 0 : v->strides[0], v->strides[1], v->item);
            continue;
        }
        for (int64_t t = 0; t < run->count; ++t) {
            const char *from = row_address(run, v, run->row + t);
            if (v->params->level == ROW)
                memcpy(v->own + t * v->item, from, (size_t)v->item);
            else
                copy_row(run, v, v->own + t * run->columns * v->item, from);
        }
    }
}

/* Return the address of a value for row `t` of the tile, from element `from` on. */
static char *value_at(const RowRun *run, const RowValue *v, int64_t t, int64_t from)
{
    int64_t level = v->params->level;
    if (level == ONE)
        return v->base;
    if (level == ROW)
        return v->own != NULL ? v->own + t * v->item : v->base + (run->row + t) * v->every;
    if (v->own == NULL)
        return row_address(run, v, run->row + t) + from * v->item;
    if (v->params->buffer >= 0 && run->wide)
        return v->own;
    return v->own + (t * run->columns + from) * v->item;
}

/* Write the value of each row of the tile once for each element of the row. Return the address of the copies. */
static char *spread(const RowRun *run, RowValue *v)
{
    if (v->spread_rows != run->count)
        repeat_each(v->spread, value_at(run, v, 0, 0), v->item, run->count, run->columns, v->item);
    v->spread_rows = run->count;
    return v->spread;
}

static RowValue *argument(const RowRun *run, const RowStep *step, int k)
{
    return run->values + step->params[1 + k].number;
}

/* Return the distance in bytes from the value of a row of the tile to the value of the next row. Return -1 if this
 * distance is not the same for all rows. */
static int64_t distance(const RowRun *run, const RowValue *v)
{
    int64_t level = v->params->level;
    if (level == ELEMENT)
        return v->own == NULL ? v->every : run->columns * v->item;
    return level == ONE
    ? 0 : v->item;
}

/* Apply an elementwise operation to elements from..from+n of each row of the tile, or to the values of the rows. */
static void run_map(const RowRun *run, const RowStep *step, int64_t from, int64_t n)
{
    int n_args = step->n_args, zero = 0, of_rows = step->params->level == ROW, irregular = 0;
    int together = of_rows || run->count == 1 || run->columns < SPREAD_BELOW;
    int64_t behind_program[n_args + 1], *stride = behind_program + 1, next[n_args];
    char *ptr[n_args + 1];
    map_fn kernel = (map_fn)(intptr_t)step->params->kernel;
    behind_program[0] = step->params->program;
    ptr[n_args] = (char *)&zero;
    for (int k = 0; k < n_args; ++k) {
        RowValue *v = argument(run, step, k);
        int repeats = !of_rows && v->params->level == ROW;
        ptr[k] = repeats && together && run->count > 1 ? spread(run, v) : value_at(run, v, 0, from);
        stride[k] = v->params->level == ONE
        || (repeats && (!together || run->count == 1)) ? 0 : v->item;
        next[k] = distance(run, v);
        irregular |= next[k] < 0;
    }
    if (of_rows)
        argument(run, step, n_args - 1)->spread_rows = 0;
    if (together) {
        kernel(of_rows ? run->count : run->count * n, ptr, stride);
        return;
    }
    for (int64_t t = 0;;) {
        kernel(n, ptr, stride);
        if (++t == run->count)
            return;
        for (int k = 0; k < n_args; ++k)
            ptr[k] += next[k];
        for (int k = 0; k < n_args && irregular; ++k)
            if (next[k] < 0)
                ptr[k] = value_at(run, argument(run, step, k), t, from);
    }
}

/* Fold elements from..from+n of each row of the tile into the accumulators. */
static void run_fold(const RowRun *run, const RowStep *step, int64_t from, int64_t n, char *acc)
{
    const RowValue *v = argument(run, step, 0);
    const Fold *fold = &step->plan.fold;
    char *x = value_at(run, v, 0, from);
    if (n == 0) /* a fold may read the first element even if n is 0 */
        return;
    if (run->columns < SHORT && fold->brief != NULL) {
        int64_t every = v->own == NULL && v->every == 0 ? 0 : n * v->item;
        fold->brief(run->count, acc, x, every, n);
        return;
    }
    int64_t next = distance(run, v);
    for (int64_t t = 0; t < run->count; ++t, x += next)
        fold->fold(n, acc + t * step->plan.acc_item, 0, next < 0 ? value_at(run, v, t, from) : x, v->item);
}

/* Run the operations begin..end of a pass on elements from..from+n; sums of long rows are pairwise. acc: memory for the
 * accumulators of all operations. */
static void run_elements(const RowRun *run, int begin, int end, int64_t from, int64_t n, char *const *acc)
{
    if (n > PAIRWISE_MIN) {
        int64_t half = n / 2 / 64 * 64, room[2][end - begin + 1][2];
        char *part[2][end - begin + 1];
        for (int side = 0; side < 2; ++side) {
            for (int k = begin; k < end; ++k) {
                part[side][k - begin] = (char *)room[side][k - begin];
                memcpy(room[side][k - begin], run->steps[k].lowest, 16);
            }
            run_elements(run, begin, end, from + side * half, side ? n - half : half, part[side]);
        }
        for (int k = begin; k < end; ++k)
            if (run->steps[k].params->entry == FOLD) {
                const FoldPlan *plan = &run->steps[k].plan;
                plan->combine(1, part[0][k - begin], 0, part[1][k - begin], plan->acc_item);
                plan->combine(1, acc[k - begin], 0, part[0][k - begin], plan->acc_item);
            }
        return;
    }
    for (int k = begin; k < end; ++k)
        if (run->steps[k].params->entry == MAP)
            run_map(run, run->steps + k, from, n);
        else
            run_fold(run, run->steps + k, from, n, acc[k - begin]);
}

/* Store the accumulators of a tile as values of its rows. */
static void store_results(const RowRun *run, const RowStep *step)
{
    RowValue *result = argument(run, step, 1);
    char *to = value_at(run, result, 0, 0);
    result->spread_rows = 0;
    if (step->params->type == result->params->type)
        memcpy(to, step->accumulators, (size_t)(run->count * result->item));
    else
        for (int64_t t = 0; t < run->count; ++t)
            ((npy_float32 *)to)[t] = (npy_float32)((npy_float64 *)step->accumulators)[t];
}

static void run_tile(RowRun *run)
{
    for (int begin = 0, end; begin < run->n_steps; begin = end) {
        int64_t pass = run->steps[begin].params->number;
        while (begin < run->n_steps && run->steps[begin].params->number == pass
               && run->steps[begin].params->entry == MAP && run->steps[begin].params->level == ROW)
            run_map(run, run->steps + begin++, 0, 1);
        for (end = begin; end < run->n_steps && run->steps[end].params->number == pass; ++end)
            if (run->steps[end].params->entry == FOLD)
                fill(run->steps[end].accumulators, run->count, run->steps[end].lowest, run->steps[end].plan.acc_item);
        if (begin == end)
            continue;
        char *acc[end - begin];
        for (int k = begin; k < end; ++k)
            acc[k - begin] = run->steps[k].accumulators;
        run_elements(run, begin, end, 0, run->columns, acc);
        for (int k = begin; k < end; ++k)
            if (run->steps[k].params->entry == FOLD)
                store_results(run, run->steps + k);
    }
}

/* Find the common shape, and check the shapes of the inputs. Return 0, or -1 with an exception set. */
static int common_shape(RowRun *run, int n_values, PyObject **in)
{
    for (int d = 0; d < run->nd; ++d) {
        int reference = -1;
        run->dims[d] = 1;
        for (int k = 0; k < n_values; ++k) {
            const struct entry_params *params = run->values[k].params;
            if (params->input < 0 || d >= params->ndim)
                continue;
            int64_t here = PyArray_DIM((PyArrayObject *)in[params->input], d);
            if (params->broadcastable >> d & 1) {
                if (here != 1)
                    return refuse_broadcast((int)params->input, d, here);
            }
            else if (reference < 0) {
                reference = (int)params->input;
                run->dims[d] = here;
            }
            else if (here != run->dims[d])
                return refuse_lengths(d, reference, run->dims[d], (int)params->input, here);
        }
    }
    run->rows = run->columns = 1;
    for (int d = 0; d < run->nd; ++d)
        *(d < run->outer ? &run->rows : &run->columns) *= run->dims[d];
    return 0;
}

/* Put arrays for the outputs into `out`. The arrays share no memory with the inputs. Return 0, or -1 with an exception
 * set. */
static int provide_outputs(RowRun *run, int n_values, int nin, PyObject **in, PyObject **out)
{
    for (int k = 0; k < n_values; ++k) {
        RowValue *v = run->values + k;
        if (v->params->output < 0)
            continue;
        npy_intp dims[MAX_ND];
        PyObject **place = out + v->params->output;
        for (int d = 0; d < v->params->ndim; ++d)
            dims[d] = d < run->outer || v->params->level == ELEMENT ? run->dims[d] : 1;
        PyArrayObject *array = native_alloc(place, (int)v->params->ndim, dims, (int)v->params->type);
        for (int i = 0; i < nin && array != NULL; ++i)
            if (share_memory(array, (PyArrayObject *)in[i])) {
                Py_CLEAR(*place);
                array = native_alloc(place, (int)v->params->ndim, dims, (int)v->params->type);
            }
        if (array == NULL)
            return -1;
        v->base = PyArray_BYTES(array);
        v->every = v->params->level == ELEMENT ? run->columns * v->item : v->item;
        v->flat = 1;
    }
    return 0;
}

/* Assign parts of the memory `room` to tiles, blocks and accumulators. If `room` is NULL, only determine the size of
 * this memory. Return the size in bytes. */
static int64_t distribute(RowRun *run, int n_values, int64_t n_buffers, char *room)
{
    int64_t size = 0, block = run->wide ? PAIRWISE_MIN : run->tile * run->columns, whole = run->tile * run->columns;
#define TAKE(place, bytes)                         \
    {                                              \
        (place) = (char *)((intptr_t)room + size); \
        size += ((bytes) + 63) / 64 * 64 + 320;    \
    }
    char *buffers[n_buffers + 1];
    for (int64_t b = 0; b < n_buffers; ++b)
        TAKE(buffers[b], block * (int64_t)sizeof(npy_complex128))
    for (int k = 0; k < n_values; ++k) {
        RowValue *v = run->values + k;
        int64_t level = v->params->level;
        if (level == ELEMENT && v->params->buffer >= 0)
            v->own = buffers[v->params->buffer];
        else if (v->copied)
            TAKE(v->own, (level == ELEMENT ? whole : run->tile) * v->item)
        if (level == ROW && run->tile > 1 && run->columns < SPREAD_BELOW)
            TAKE(v->spread, whole * v->item)
    }
    for (int k = 0; k < run->n_steps; ++k)
        if (run->steps[k].params->entry == FOLD)
            TAKE(run->steps[k].accumulators, run->tile * run->steps[k].plan.acc_item)
#undef TAKE
    return size;
}

/* Prepare the folds. Return 0, or -1 with an exception set. */
static int prepare_folds(RowRun *run)
{
    for (int k = 0; k < run->n_steps; ++k) {
        RowStep *step = run->steps + k;
        if (step->params->entry != FOLD)
            continue;
        struct reduction_params params = {.operation = step->params->operation,
                                          .element_type = argument(run, step, 0)->params->type,
                                          .accumulator_type = step->params->type,
                                          .has_identity = step->params->has_identity};
        memcpy(params.identity, step->params->identity, sizeof params.identity);
        if (run->columns == 0 && run->rows > 0 && !step->params->has_identity) {
            int empty = run->outer;
            while (run->dims[empty] != 0)
                ++empty;
            return refuse_empty(empty);
        }
        if (set_plan(&step->plan, &params, NULL) < 0 || (step->plan.acc_item = item_size((int)step->params->type)) < 0)
            return -1;
        memcpy(step->lowest, step->plan.identity, sizeof step->lowest);
    }
    return 0;
}

static int tng_row_program(int nin, int nout, PyObject **in, PyObject **out, const struct row_program_params *params)
{
    int n_values = 0, n_steps = 0;
    for (int64_t k = 0; k < params->n_entries; ++k) {
        n_values += params->entries[k].entry == VALUE;
        n_steps += params->entries[k].entry == MAP || params->entries[k].entry == FOLD;
    }
    RowValue values[n_values];
    RowStep steps[n_steps];
    RowRun run = {.nd = (int)params->rank,
                  .outer = (int)(params->rank - params->row_rank),
                  .n_steps = n_steps,
                  .values = values,
                  .steps = steps};
    (void)nout;
    memset(values, 0, sizeof values);
    memset(steps, 0, sizeof steps);
    for (int64_t k = 0, v = 0, s = -1; k < params->n_entries; ++k) {
        const struct entry_params *entry = params->entries + k;
        if (entry->entry == VALUE) {
            values[v].params = entry;
            if ((values[v++].item = item_size((int)entry->type)) < 0)
                return -1;
        }
        else if (entry->entry == ARGUMENT)
            ++steps[s].n_args;
        else
            steps[++s].params = entry;
    }
    for (int i = 0; i < n_values; ++i)
        if (values[i].params->input >= 0
            && (!PyArray_Check(in[values[i].params->input])
                || PyArray_NDIM((PyArrayObject *)in[values[i].params->input]) != values[i].params->ndim)) {
            PyErr_Format(PyExc_TypeError, "RowProgram: input[%d] must be an ndarray with %d dimensions",
                         (int)values[i].params->input, (int)values[i].params->ndim);
            return -1;
        }
    if (common_shape(&run, n_values, in) < 0 || prepare_folds(&run) < 0
        || provide_outputs(&run, n_values, nin, in, out) < 0)
        return -1;
    if (run.rows == 0)
        return 0;
    run.tile = run.columns > 0 && run.columns < TILE_ELEMENTS ? TILE_ELEMENTS / run.columns : 1;
    run.wide = run.columns > PAIRWISE_MIN;
    PyObject *copies[nin + 1];
    int n_copies = 0, status = -1;
    for (int i = 0; i < n_values; ++i) {
        RowValue *v = values + i;
        if (v->params->input < 0)
            continue;
        PyArrayObject *a = (PyArrayObject *)in[v->params->input];
        describe_layout(&run, v, a);
        if (v->flat)
            continue;
        if (!run.wide) {
            /* A tile has at least ACROSS_ROWS rows, so that adjacent elements of a column are copied together. */
            run.tile = run.tile < ACROSS_ROWS ? ACROSS_ROWS : run.tile;
            continue;
        }
        if ((a = (PyArrayObject *)PyArray_NewCopy(a, NPY_CORDER)) == NULL)
            goto done;
        copies[n_copies++] = (PyObject *)a;
        describe_layout(&run, v, a);
    }
    run.tile = run.tile < run.rows ? run.tile : run.rows;
    for (int i = 0; i < n_values; ++i) {
        RowValue *v = values + i;
        int64_t level = v->params->level;
        if (v->params->input >= 0) {
            if (level == ROW)
                v->copied = v->every != v->item;
            else if (level == ELEMENT) {
                int adjacent = v->every == run.columns * v->item;
                v->copied = !v->flat || (run.tile > 1 && run.columns < SPREAD_BELOW && !adjacent);
            }
        }
        else
            v->copied = v->params->output < 0 && (level == ROW || (level == ELEMENT && v->params->buffer < 0));
    }
    char *room = PyMem_RawMalloc((size_t)distribute(&run, n_values, params->n_buffers, NULL) + 64);
    if (room == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    distribute(&run, n_values, params->n_buffers, (char *)(((intptr_t)room + 63) / 64 * 64));
    for (run.row = 0; run.row < run.rows; run.row += run.count) {
        run.count = run.rows - run.row < run.tile ? run.rows - run.row : run.tile;
        load_tile(&run, n_values);
        run_tile(&run);
    }
    PyMem_RawFree(room);
    status = 0;
done:
    while (n_copies > 0)
        Py_DECREF(copies[--n_copies]);
    return status;
}

#endif
