/* Elementwise operations: the driver around generated inner loops, and DimShuffle.
 *
 * tng_elemwise checks shapes, allocates outputs, sorts and merges the dimensions, and calls the kernel
 *
 *     void kernel(int64_t n, char **ptr, const int64_t *stride)
 *
 * over pieces of n elements. `ptr` and `stride` have an entry for each operand (the inputs, then the outputs). After
 * the operands, `ptr` has a pointer to an int: a kernel that divides integers sets the int to 1 if a divisor is zero,
 * and checks the divisors first if the int is 1 (divisors.h). stride[-1] is the address of the program that the
 * interpreter runs (blocks/blocks.h). A kernel supports only strides equal to the item size, and stride 0 for some
 * operands. Operands of kind HOISTED always have stride 0. Either all operands of kind MAYBE_BROADCAST have stride 0,
 * or none (loops/program.py). Operands with other strides are copied through a small buffer, piece by piece, so that
 * the vectorized loop of the kernel also handles these operands.
 *
 * The packed parameters are described in elemwise_params.h. The scratch memory holds a Plan. */
#include "elemwise_params.h"
#include "divisors.h"
#include "common/strided.h"
#include "common/threads.h"

typedef void (*kernel_fn)(int64_t n, char **ptr, const int64_t *stride);

#define MAX_ND 32
#define ROW_MIN 48   /* elements; the kernel gets several shorter rows at once, through the buffers */
#define HOIST_MIN 16 /* the limit instead of ROW_MIN, if buffers would have to repeat a single value in each row */
#define SHORT_RUN 16 /* elements; for fewer, a call of memcpy costs more than a loop */
#define PIECE_MIN 64
#define PIECE_MAX 1024   /* elements in a buffer */
#define GROUP 16         /* rows that are transposed together */
#define GROUP_BYTES 2048 /* bytes of one row in the buffers of a group */

/* A plan describes the loops for the shapes and strides of the operands. It is stored in the scratch memory, and used
 * until the shapes or strides change. PART(name, length in 64-bit words): */
#define PLAN_PARTS(PART)                                                                                            \
    PART(head, H_COUNT)              /* H_* below */                                                                \
    PART(dims, nd)                   /* shape of the result */                                                      \
    PART(in_dims, (nin * nd))        /* [nin][nd] shapes of the inputs that the plan was made for */                \
    PART(in_strides, (nin * nd))     /* [nin][nd] strides of the inputs that the plan was made for */               \
    PART(out_strides, (nout * nd))   /* [nout][nd] strides of the outputs */                                        \
    PART(low, nin + nout)            /* bytes from an operand's data pointer to its lowest address */               \
    PART(high, nin + nout)           /* bytes from an operand's data pointer to the end of its highest element */   \
    PART(base, nin + nout)           /* bytes from the data pointer to the first element; loops may be reversed */  \
    PART(item, nin + nout)           /* item size */                                                                \
    PART(buffered, nin + nout)       /* whether the operand goes through a buffer */                                \
    PART(program, 1)                 /* the address that an interpreter reads as stride[-1], just before kstride */ \
    PART(kstride, nin + nout)        /* stride passed to the kernel */                                              \
    PART(lens, nd)                   /* loop lengths, innermost first */                                            \
    PART(strides, (nin + nout) * nd) /* [nop][nd] loop strides, innermost first */

#define PLAN_FIELD(part, count) int64_t *part;
typedef struct {
    PLAN_PARTS(PLAN_FIELD)
} Plan;

enum { H_VALID, H_LOOPS, H_SIZE, H_FORTRAN, H_ROWS, H_BUFFERED, H_ITEMS, H_PIECE, H_COUNT };

#define PLAN_PLACE(part, count) p.part = memory, memory += (count);
static inline Plan plan_at(int64_t *memory, int nd, int nin, int nout)
{
    Plan p;
    PLAN_PARTS(PLAN_PLACE)
    return p;
}

#define PLAN_COUNT(part, count) +(count)
static int64_t elemwise_scratch(int nin, int nout, const int64_t *given)
{
    const struct elemwise_params *params = (const struct elemwise_params *)given;
    int64_t nd = params->ndim;
    if (params->n_operands != nin + nout || nd < 0 || nd > MAX_ND) {
        PyErr_Format(PyExc_ValueError,
                     "Elemwise: parameters for %lld operands with %lld dimensions, but there are %d inputs and outputs",
                     (long long)params->n_operands, (long long)nd, nin + nout);
        return -1;
    }
    return 0 PLAN_PARTS(PLAN_COUNT);
}

/* -- shapes ------------------------------------------------------------------------------------------------------- */

/* Return 1 if new outputs should be F-contiguous: the strides of all inputs grow from the first dimension to the last.
 * Otherwise outputs are C-contiguous. Inputs that are rows or columns fit either order. */
static int wants_fortran(int nd, int nin, PyObject **in, const struct operand_params *operands)
{
    int seen = 0;
    if (nd < 2)
        return 0;
    for (int i = 0; i < nin; ++i) {
        PyArrayObject *a = (PyArrayObject *)in[i];
        int64_t before = 0;
        if (operands[i].kind == HOISTED)
            continue;
        for (int d = 0; d < nd; ++d) {
            int64_t stride = PyArray_STRIDE(a, d);
            if (PyArray_DIM(a, d) == 1)
                continue;
            stride = stride < 0 ? -stride : stride;
            if (stride < before)
                return 0;
            seen |= before != 0 && stride > before;
            before = stride;
        }
    }
    return seen;
}

static void extent(int nd, const npy_intp *dims, const npy_intp *strides, int64_t item, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = item;
    for (int d = 0; d < nd; ++d) {
        if (dims[d] == 0) {
            *high = *low = 0;
            return;
        }
        int64_t reach = (dims[d] - 1) * strides[d];
        *(reach < 0 ? low : high) += reach;
    }
}

/* -- the plan ----------------------------------------------------------------------------------------------------- */

static void drop_loop(Plan *p, int nd, int nop, int loops, int k)
{
    for (int j = k; j + 1 < loops; ++j) {
        p->lens[j] = p->lens[j + 1];
        for (int o = 0; o < nop; ++o)
            p->strides[o * nd + j] = p->strides[o * nd + j + 1];
    }
}

/* Record the shapes and strides that the plan is made for, and the byte range of each operand. */
static void note_operands(Plan *p, int nd, int nin, int nout, PyObject **in, PyObject **out)
{
    size_t bytes = (size_t)nd * sizeof(int64_t);
    for (int o = 0; o < nin + nout; ++o) {
        PyArrayObject *a = (PyArrayObject *)(o < nin ? in[o] : out[o - nin]);
        p->item[o] = PyArray_ITEMSIZE(a);
        p->base[o] = 0;
        extent(nd, PyArray_DIMS(a), PyArray_STRIDES(a), p->item[o], &p->low[o], &p->high[o]);
    }
    for (int i = 0; i < nin; ++i) {
        memcpy(p->in_dims + i * nd, PyArray_DIMS((PyArrayObject *)in[i]), bytes);
        memcpy(p->in_strides + i * nd, PyArray_STRIDES((PyArrayObject *)in[i]), bytes);
    }
    for (int j = 0; j < nout; ++j)
        memcpy(p->out_strides + j * nd, PyArray_STRIDES((PyArrayObject *)out[j]), bytes);
}

/* Sort the dimensions to loop over by the stride of the first output, smallest first. Dimensions of length 1 need no
 * loop. Return the number of loops. */
static int order_loops(const int64_t *dims, int nd, PyArrayObject *first, int *order)
{
    const npy_intp *lead = PyArray_STRIDES(first);
    int loops = 0;
    for (int d = nd - 1; d >= 0; --d) {
        if (dims[d] == 1)
            continue;
        int at = loops++;
        int64_t key = lead[d] < 0 ? -lead[d] : lead[d];
        while (at > 0 && (lead[order[at - 1]] < 0 ? -lead[order[at - 1]] : lead[order[at - 1]]) > key) {
            order[at] = order[at - 1];
            --at;
        }
        order[at] = d;
    }
    return loops;
}

/* Set the lengths and strides of the loops. Each loop runs in the direction in which most operands have positive
 * strides. */
static void set_loops(Plan *p, int nd, int nin, int nop, PyObject **in, PyObject **out, int loops, const int *order)
{
    for (int k = 0; k < loops; ++k) {
        int d = order[k], backwards = 0;
        p->lens[k] = p->dims[d];
        for (int o = 0; o < nop; ++o) {
            PyArrayObject *a = (PyArrayObject *)(o < nin ? in[o] : out[o - nin]);
            int64_t s = PyArray_DIM(a, d) == 1 ? 0 : PyArray_STRIDE(a, d);
            p->strides[o * nd + k] = s;
            backwards += (s < 0) - (s > 0);
        }
        if (backwards > 0)
            for (int o = 0; o < nop; ++o) {
                int64_t *s = &p->strides[o * nd + k];
                p->base[o] += (p->lens[k] - 1) * *s;
                *s = -*s;
            }
    }
}

/* Merge two adjacent loops if, for every operand, the outer stride continues the inner loop. Return the number of loops
 * that remain. */
static int join_loops(Plan *p, int nd, int nop, int loops)
{
    int64_t *strides = p->strides;
    for (int k = 0; k + 1 < loops;) {
        int joins = 1;
        for (int o = 0; o < nop && joins; ++o)
            joins = strides[o * nd + k + 1] == strides[o * nd + k] * p->lens[k];
        if (!joins) {
            ++k;
            continue;
        }
        p->lens[k] *= p->lens[k + 1];
        /* The merged loop keeps the inner stride. */
        for (int o = 0; o < nop; ++o)
            strides[o * nd + k + 1] = strides[o * nd + k];
        int64_t length = p->lens[k];
        drop_loop(p, nd, nop, loops, k);
        p->lens[k] = length;
        --loops;
    }
    return loops;
}

/* Return the stride that the kernel expects of an operand along one row. `alternate`: for the kernel's variant in which
 * MAYBE_BROADCAST operands are single values. */
static int64_t wanted_stride(const Plan *p, const struct operand_params *operands, int o, int alternate)
{
    return operands[o].kind == HOISTED || (alternate && operands[o].kind == MAYBE_BROADCAST) ? 0 : p->item[o];
}

/* Return 1 if the kernel's alternate variant can read more operands in place along one row than the plain variant. */
static int choose_variant(const Plan *p, int nd, int nop, const struct operand_params *operands,
                          int has_maybe_broadcast)
{
    int misfits[2] = {0, 0};
    for (int alternate = 0; alternate <= has_maybe_broadcast; ++alternate)
        for (int o = 0; o < nop; ++o) {
            int64_t want = wanted_stride(p, operands, o, alternate), here = p->strides[o * nd];
            /* A variant cannot be used if it expects a single value and the operand's stride is not 0: count this
             * misfit more than all other misfits. */
            misfits[alternate] += want != 0 && here != want ? 1 : want == 0 && here != 0 ? 1000000 : 0;
        }
    return has_maybe_broadcast && misfits[1] < misfits[0];
}

/* Return 1 if the variant of the kernel (plain or alternate) reads all operands in place. */
static int reads_in_place(const Plan *p, int nd, int nop, const struct operand_params *operands, int alternate)
{
    for (int o = 0; o < nop; ++o)
        if (p->strides[o * nd] != wanted_stride(p, operands, o, alternate))
            return 0;
    return 1;
}

/* Decide for each operand whether the kernel reads it in place or through a buffer. */
static void choose_buffers(Plan *p, int nd, int nop, const struct operand_params *operands, int has_maybe_broadcast,
                           int loops)
{
    /* Call the kernel for each row if rows are long. Shorter rows are run together, in pieces. A piece has room for at
     * least one such row, because ROW_MIN < PIECE_MIN. */
    int rows = loops > 1 && p->lens[0] >= ROW_MIN;
    if (loops > 1 && has_maybe_broadcast && p->lens[0] >= HOIST_MIN && reads_in_place(p, nd, nop, operands, 1))
        rows = 1;
    int alternate = choose_variant(p, nd, nop, operands, has_maybe_broadcast && (rows || loops == 1));
    int64_t buffered = 0, items = 0, piece = PIECE_MAX;
    for (int o = 0; o < nop; ++o) {
        const int64_t *strides = p->strides + o * nd;
        p->kstride[o] = wanted_stride(p, operands, o, alternate);
        p->buffered[o] = p->kstride[o] != 0 && strides[0] != p->item[o];
        /* If rows are run together, an operand is read in place only if its rows are adjacent in memory. */
        if (!rows && p->kstride[o] != 0)
            for (int k = 1; k < loops; ++k)
                p->buffered[o] |= strides[k] != strides[k - 1] * p->lens[k - 1];
        if (p->head[H_SIZE] <= 1)
            p->buffered[o] = 0;
        buffered += p->buffered[o];
        items += p->buffered[o] ? p->item[o] : 0;
    }
    while (piece > PIECE_MIN && piece * items > 128 * 1024)
        piece /= 2;
    p->head[H_ROWS] = rows;
    p->head[H_BUFFERED] = buffered;
    p->head[H_ITEMS] = items;
    p->head[H_PIECE] = piece;
}

/* Fill in the plan, except H_VALID; `out` holds the final output arrays. */
static void make_plan(Plan *p, int nd, int nin, int nout, PyObject **in, PyObject **out,
                      const struct operand_params *operands, int has_maybe_broadcast)
{
    int nop = nin + nout, order[MAX_ND];
    note_operands(p, nd, nin, nout, in, out);
    int loops = order_loops(p->dims, nd, (PyArrayObject *)out[0], order);
    set_loops(p, nd, nin, nop, in, out, loops, order);
    loops = join_loops(p, nd, nop, loops);
    if (loops == 0 && nd > 0) {
        p->lens[0] = 1;
        for (int o = 0; o < nop; ++o)
            p->strides[o * nd] = 0;
    }
    p->head[H_LOOPS] = loops;
    p->head[H_SIZE] = 1;
    for (int d = 0; d < nd; ++d)
        p->head[H_SIZE] *= p->dims[d];
    choose_buffers(p, nd, nop, operands, has_maybe_broadcast, loops);
}

/* -- running ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const Plan *plan;
    kernel_fn kernel;
    char **data; /* [nop + 1] where the loops start in each operand, then the pointer to the int for zero divisors */
    int nd, nin, nop;
} Run;

#define COPY_ITEMS(T)                                                                                      \
    {                                                                                                      \
        T *to = (T *)buffer;                                                                               \
        if (step == -(int64_t)sizeof(T))                                                                   \
            gather_reversed_##T(to, (const T *)from, n);                                                   \
        else if (step == 2 * (int64_t)sizeof(T))                                                           \
            gather_second_##T(to, (const T *)from, n);                                                     \
        else if (step == 0) {                                                                              \
            T value = *(const T *)from;                                                                    \
            for (int64_t k = 0; k < n; ++k)                                                                \
                to[k] = value;                                                                             \
        }                                                                                                  \
        else {                                                                                             \
            /* Without unrolling, the address steps cost more than the copies. */                          \
            _Pragma("GCC unroll 4") for (int64_t k = 0; k < n; ++k) to[k] = *(const T *)(from + k * step); \
        }                                                                                                  \
        break;                                                                                             \
    }

typedef struct {
    uint64_t low, high;
} Wide;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define RUN_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define RUN_CLONES
#endif

/* Copies of items in reversed order, and of every second item. The compiler knows the step of these copies, and can
 * therefore vectorize the loops. */
#define RUNS(T)                                                                    \
    RUN_CLONES static void gather_reversed_##T(T *to, const T *last, int64_t n)    \
    {                                                                              \
        for (int64_t k = 0; k < n; ++k)                                            \
            to[k] = last[-k];                                                      \
    }                                                                              \
    RUN_CLONES static void scatter_reversed_##T(T *last, const T *from, int64_t n) \
    {                                                                              \
        for (int64_t k = 0; k < n; ++k)                                            \
            last[-k] = from[k];                                                    \
    }                                                                              \
    RUN_CLONES static void gather_second_##T(T *to, const T *from, int64_t n)      \
    {                                                                              \
        for (int64_t k = 0; k < n; ++k)                                            \
            to[k] = from[2 * k];                                                   \
    }
RUNS(uint8_t)
RUNS(uint16_t)
RUNS(uint32_t)
RUNS(uint64_t)
RUNS(Wide)

static void gather_run(char *buffer, const char *from, int64_t n, int64_t step, int64_t item)
{
    if (step == item && n >= SHORT_RUN) {
        memcpy(buffer, from, (size_t)(n * item));
        return;
    }
    switch (item) {
    case 1: COPY_ITEMS(uint8_t)
    case 2: COPY_ITEMS(uint16_t)
    case 4: COPY_ITEMS(uint32_t)
    case 8: COPY_ITEMS(uint64_t)
    default: COPY_ITEMS(Wide)
    }
}

#define SPREAD_ITEMS(T)                                                                               \
    {                                                                                                 \
        const T *from = (const T *)buffer;                                                            \
        if (step == -(int64_t)sizeof(T))                                                              \
            scatter_reversed_##T((T *)to, from, n);                                                   \
        else                                                                                          \
            _Pragma("GCC unroll 4") for (int64_t k = 0; k < n; ++k) * (T *)(to + k * step) = from[k]; \
        break;                                                                                        \
    }

static void scatter_run(char *to, const char *buffer, int64_t n, int64_t step, int64_t item)
{
    if (step == item && n >= SHORT_RUN) {
        memcpy(to, buffer, (size_t)(n * item));
        return;
    }
    switch (item) {
    case 1: SPREAD_ITEMS(uint8_t)
    case 2: SPREAD_ITEMS(uint16_t)
    case 4: SPREAD_ITEMS(uint32_t)
    case 8: SPREAD_ITEMS(uint64_t)
    default: SPREAD_ITEMS(Wide)
    }
}

#define ROWS_ITEMS(T)                                          \
    for (int64_t r = 0; r < rows; ++r, at += row_step)         \
        for (int64_t k = 0; k < n; ++k, buffer += sizeof(T)) { \
            if (gathers)                                       \
                *(T *)buffer = *(const T *)(at + k * step);    \
            else                                               \
                *(T *)(at + k * step) = *(const T *)buffer;    \
        }                                                      \
    break;

/* Copy several rows of n elements each. The rows are so short that one call for each row would be slow. */
static void move_rows(char *at, char *buffer, int gathers, int64_t rows, int64_t row_step, int64_t n, int64_t step,
                      int64_t item)
{
    switch (item) {
    case 1: ROWS_ITEMS(uint8_t)
    case 2: ROWS_ITEMS(uint16_t)
    case 4: ROWS_ITEMS(uint32_t)
    case 8: ROWS_ITEMS(uint64_t)
    default: ROWS_ITEMS(Wide)
    }
}

/* Copy n elements of operand o, from loop position `start` on: from an input into a contiguous buffer, or from the
 * buffer into an output. */
static void move_elements(const Run *run, int o, const int64_t *start, char *buffer, int64_t n)
{
    const Plan *p = run->plan;
    const int64_t *steps = p->strides + o * run->nd, *lens = p->lens;
    int loops = (int)p->head[H_LOOPS];
    int64_t index[MAX_ND], item = p->item[o];
    char *at = run->data[o];
    for (int k = 0; k < loops; ++k) {
        index[k] = start[k];
        at += start[k] * steps[k];
    }
    while (n > 0) {
        int64_t count = lens[0] - index[0];
        if (loops > 1 && index[0] == 0 && count < SHORT_RUN && n >= count) {
            int64_t rows = lens[1] - index[1] < n / count ? lens[1] - index[1] : n / count;
            move_rows(at, buffer, o < run->nin, rows, steps[1], count, steps[0], item);
            buffer += rows * count * item;
            n -= rows * count;
            at += rows * steps[1];
            index[1] += rows;
            for (int k = 1; k < loops && index[k] == lens[k]; ++k) {
                at -= lens[k] * steps[k];
                index[k] = 0;
                if (k + 1 < loops) {
                    at += steps[k + 1];
                    ++index[k + 1];
                }
            }
            continue;
        }
        if (count > n)
            count = n;
        if (o < run->nin)
            gather_run(buffer, at, count, steps[0], item);
        else
            scatter_run(at, buffer, count, steps[0], item);
        buffer += count * item;
        n -= count;
        at -= index[0] * steps[0];
        index[0] = 0;
        for (int k = 1; k < loops; ++k) {
            at += steps[k];
            if (++index[k] < lens[k])
                break;
            at -= lens[k] * steps[k];
            index[k] = 0;
        }
    }
}

/* Run the kernel for the positions begin..end. The positions of all loops are numbered as one sequence. */
static void run_sequence(const Run *run, int64_t begin, int64_t end)
{
    const Plan *p = run->plan;
    int nop = run->nop, loops = (int)p->head[H_LOOPS];
    char *ptr[nop + 1];
    ptr[nop] = run->data[nop];
    if (p->head[H_BUFFERED] == 0) {
        for (int o = 0; o < nop; ++o)
            ptr[o] = run->data[o] + begin * p->kstride[o];
        run->kernel(end - begin, ptr, p->kstride);
        return;
    }
    int64_t piece = p->head[H_PIECE], items = p->head[H_ITEMS];
    char room[piece * items + 64] __attribute__((aligned(64)));
    char *buffer[nop], *free_room = room;
    char periodic[nop];
    for (int o = 0; o < nop; ++o) {
        if (p->buffered[o]) {
            buffer[o] = free_room;
            free_room += piece * p->item[o];
        }
        /* All rows of an input may be the same row (a bias). If a piece is a whole number of rows, the buffer of such
         * an input is filled only once. */
        periodic[o] = p->buffered[o] && o < run->nin && loops > 1;
        for (int k = 1; k < loops; ++k)
            periodic[o] &= p->strides[o * run->nd + k] == 0;
    }
    if (loops > 1 && p->lens[0] < piece)
        piece -= piece % p->lens[0];
    for (int64_t at = begin; at < end; at += piece) {
        int64_t n = end - at < piece ? end - at : piece, start[MAX_ND], rest = at;
        for (int k = 0; k < loops; ++k) {
            start[k] = k + 1 < loops ? rest % p->lens[k] : rest;
            rest /= p->lens[k];
        }
        for (int o = 0; o < nop; ++o) {
            ptr[o] = p->buffered[o] ? buffer[o] : run->data[o] + at * p->kstride[o];
            if (p->buffered[o] && o < run->nin && (at == begin || !periodic[o]))
                move_elements(run, o, start, buffer[o], n);
        }
        run->kernel(n, ptr, p->kstride);
        for (int o = run->nin; o < nop; ++o)
            if (p->buffered[o])
                move_elements(run, o, start, buffer[o], n);
    }
}

/* Run the kernel for a group of rows, in pieces that fit the buffers. Operands that are contiguous `across` the rows
 * are transposed into their buffers. */
static void run_buffered(const Run *run, char *const *row, char *const *buffer, const char *across, int64_t rows,
                         int64_t piece)
{
    const Plan *p = run->plan;
    int nop = run->nop, nd = run->nd;
    char *ptr[nop + 1];
    ptr[nop] = run->data[nop];
    for (int64_t at = 0; at < p->lens[0]; at += piece) {
        int64_t n = p->lens[0] - at < piece ? p->lens[0] - at : piece;
        for (int o = 0; o < run->nin; ++o)
            if (across[o])
                strided_transpose(p->item[o], rows, n, buffer[o], piece * p->item[o], row[o] + at * p->strides[o * nd],
                                  p->strides[o * nd]);
        for (int64_t q = 0; q < rows; ++q) {
            for (int o = 0; o < nop; ++o) {
                const char *here = row[o] + q * p->strides[o * nd + 1] + at * p->strides[o * nd];
                ptr[o] = across[o] ? buffer[o] + q * piece * p->item[o] : p->buffered[o] ? buffer[o] : (char *)here;
                if (p->buffered[o] && !across[o] && o < run->nin)
                    gather_run(buffer[o], here, n, p->strides[o * nd], p->item[o]);
            }
            run->kernel(n, ptr, p->kstride);
            for (int o = run->nin; o < nop; ++o)
                if (p->buffered[o])
                    scatter_run(row[o] + q * p->strides[o * nd + 1] + at * p->strides[o * nd], buffer[o], n,
                                p->strides[o * nd], p->item[o]);
        }
    }
}

/* Run the kernel for the rows begin..end if no operand needs a buffer. Kernels do not change the array of pointers, so
 * each pointer is advanced in place. If a copy of the array were passed to the kernel for every row, the kernel would
 * have to wait until the copy is written. */
static void run_plain_rows(const Run *run, int64_t begin, int64_t end)
{
    const Plan *p = run->plan;
    int nop = run->nop, nd = run->nd, loops = (int)p->head[H_LOOPS];
    int64_t index[MAX_ND], step[nop], rest = begin, n0 = p->lens[0];
    char *row[nop + 1];
    row[nop] = run->data[nop];
    for (int o = 0; o < nop; ++o) {
        row[o] = run->data[o];
        step[o] = p->strides[o * nd + 1];
    }
    for (int k = 1; k < loops; ++k) {
        index[k] = k + 1 < loops ? rest % p->lens[k] : rest;
        rest /= p->lens[k];
        for (int o = 0; o < nop; ++o)
            row[o] += index[k] * p->strides[o * nd + k];
    }
    for (int64_t r = begin, rows; r < end; r += rows) {
        rows = end - r > p->lens[1] - index[1] ? p->lens[1] - index[1] : end - r;
        for (int64_t q = 0; q < rows; ++q) {
            run->kernel(n0, row, p->kstride);
            for (int o = 0; o < nop; ++o)
                row[o] += step[o];
        }
        index[1] += rows;
        for (int k = 1; k < loops && index[k] == p->lens[k]; ++k) {
            for (int o = 0; o < nop; ++o) {
                row[o] -= p->lens[k] * p->strides[o * nd + k];
                if (k + 1 < loops)
                    row[o] += p->strides[o * nd + k + 1];
            }
            index[k] = 0;
            if (k + 1 < loops)
                ++index[k + 1];
        }
    }
}

/* Run the kernel for the rows begin..end, with one or more calls for each row (the innermost loop).
 *
 * An input may be contiguous across the rows, for instance if one input is in C order and another input is in Fortran
 * order. Such an input is transposed into its buffer for a group of rows at once. A copy of a single row would load a
 * cache line for each item. */
static void run_rows(const Run *run, int64_t begin, int64_t end)
{
    const Plan *p = run->plan;
    int nop = run->nop, nd = run->nd, loops = (int)p->head[H_LOOPS];
    int64_t index[MAX_ND], rest = begin, group = 1, bytes = 0;
    char *row[nop], *buffer[nop], across[nop];
    int64_t piece = p->head[H_PIECE];
    if (p->head[H_BUFFERED] == 0) {
        run_plain_rows(run, begin, end);
        return;
    }
    for (int o = 0; o < nop; ++o) {
        const int64_t *steps = p->strides + o * nd, item = p->item[o];
        across[o] = p->buffered[o] && o < run->nin && item <= 8 && steps[1] == item && steps[0] != 0 && p->lens[1] > 1;
        if (across[o]) {
            group = GROUP;
            if (piece > GROUP_BYTES / item)
                piece = GROUP_BYTES / item;
        }
    }
    for (int o = 0; o < nop; ++o)
        bytes += p->buffered[o] ? p->item[o] * (across[o] ? GROUP : 1) : 0;
    /* The buffers are on the stack. With very many operands, rows are therefore handled one by one. */
    if (bytes * PIECE_MIN / 2 > 512 * 1024) {
        memset(across, 0, sizeof across);
        group = 1;
        piece = PIECE_MIN;
        bytes = p->head[H_ITEMS];
    }
    while (piece > PIECE_MIN / 2 && bytes * piece > 512 * 1024)
        piece /= 2;
    bytes *= piece;
    char room[bytes + 64] __attribute__((aligned(64)));
    char *free_room = room;
    for (int o = 0; o < nop; ++o) {
        row[o] = run->data[o];
        if (p->buffered[o]) {
            buffer[o] = free_room;
            free_room += piece * p->item[o] * (across[o] ? GROUP : 1);
        }
    }
    for (int k = 1; k < loops; ++k) {
        index[k] = k + 1 < loops ? rest % p->lens[k] : rest;
        rest /= p->lens[k];
        for (int o = 0; o < nop; ++o)
            row[o] += index[k] * p->strides[o * nd + k];
    }
    for (int64_t r = begin, rows; r < end; r += rows) {
        rows = group < end - r ? group : end - r;
        if (rows > p->lens[1] - index[1])
            rows = p->lens[1] - index[1];
        run_buffered(run, row, buffer, across, rows, piece);
        for (int k = 1; k < loops; ++k) {
            int64_t step = k == 1 ? rows : 1;
            for (int o = 0; o < nop; ++o)
                row[o] += step * p->strides[o * nd + k];
            index[k] += step;
            if (index[k] < p->lens[k])
                break;
            for (int o = 0; o < nop; ++o)
                row[o] -= p->lens[k] * p->strides[o * nd + k];
            index[k] = 0;
        }
    }
}

static void run_all(const Run *run, int64_t openmp_minsize)
{
    const Plan *p = run->plan;
    int64_t size = p->head[H_SIZE], units = size, rows = p->head[H_ROWS];
    if (rows)
        units = size / p->lens[0];
#ifdef _OPENMP
    int count = openmp_minsize > 0 && size >= openmp_minsize ? native_threads() : 1;
    if (count > 1) {
        /* Each thread gets whole rows, or whole pieces of PIECE_MAX elements. With pieces, no two threads write to
         * one cache line of a contiguous output. */
        int64_t grain = rows ? 1 : PIECE_MAX, grains = (units + grain - 1) / grain;
#pragma omp parallel num_threads(count)
        {
            int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
            int64_t begin = grains * me / threads * grain, end = grains * (me + 1) / threads * grain;
            if (end > units)
                end = units;
            if (begin < end)
                (rows ? run_rows : run_sequence)(run, begin, end);
        }
        return;
    }
#else
    (void)openmp_minsize;
#endif
    (rows ? run_rows : run_sequence)(run, 0, units);
}

/* -- the native function ------------------------------------------------------------------------------------------ */

NATIVE_READER(elemwise)

/* Run the node again, with native-endian, aligned copies of the inputs that are marked in `copy`. */
static int with_copies(int nin, int nout, PyObject **in, PyObject **out, const struct elemwise_params *params,
                       const char *copy)
{
    PyObject *given[nin];
    int status = -1, made = 0;
    memcpy(given, in, sizeof given);
    for (; made < nin; ++made) {
        if (copy[made]) {
            PyArrayObject *a = (PyArrayObject *)in[made];
            PyArray_Descr *dtype = PyArray_DescrFromType((int)params->operands[made].type_number);
            given[made] = dtype == NULL ? NULL : PyArray_NewLikeArray(a, NPY_KEEPORDER, dtype, 0);
            if (given[made] == NULL || PyArray_CopyInto((PyArrayObject *)given[made], a) < 0) {
                Py_XDECREF(given[made]);
                goto done;
            }
        }
    }
    status = tng_elemwise(nin, nout, given, out, params);
done:
    for (int i = 0; i < made; ++i)
        if (copy[i])
            Py_DECREF(given[i]);
    return status;
}

static int bad_input(int i, PyObject *value, int nd, int type)
{
    if (!PyArray_Check(value))
        PyErr_Format(PyExc_TypeError, "Elemwise: input[%d] must be an ndarray, not %s", i, Py_TYPE(value)->tp_name);
    else
        PyErr_Format(PyExc_TypeError,
                     "Elemwise: input[%d] must have %d dimensions and type number %d, but has %d and %d", i, nd, type,
                     PyArray_NDIM((PyArrayObject *)value), PyArray_TYPE((PyArrayObject *)value));
    return -1;
}

/* Return 1 if two lists of lengths or strides are equal; they are too short for a call of memcmp. */
static inline int same_lengths(int nd, const npy_intp *a, const int64_t *b)
{
    for (int d = 0; d < nd; ++d)
        if (a[d] != b[d])
            return 0;
    return 1;
}

/* Return 1 if the byte ranges of operands a and b may overlap. */
static int meet(const PyArrayObject *a, const PyArrayObject *b)
{
    int64_t low_a, high_a, low_b, high_b;
    int nd = PyArray_NDIM(a);
    if (a != b && PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA) && PyArray_CHKFLAGS(b, NPY_ARRAY_OWNDATA))
        return 0; /* a and b own their data, so the blocks of memory are separate */
    intptr_t at_a = (intptr_t)PyArray_DATA((PyArrayObject *)a), at_b = (intptr_t)PyArray_DATA((PyArrayObject *)b);
    extent(nd, PyArray_DIMS((PyArrayObject *)a), PyArray_STRIDES((PyArrayObject *)a),
           PyArray_ITEMSIZE((PyArrayObject *)a), &low_a, &high_a);
    extent(nd, PyArray_DIMS((PyArrayObject *)b), PyArray_STRIDES((PyArrayObject *)b),
           PyArray_ITEMSIZE((PyArrayObject *)b), &low_b, &high_b);
    return at_a + low_a < at_b + high_b && at_b + low_b < at_a + high_a;
}

static int same_elements(const PyArrayObject *a, const PyArrayObject *b)
{
    int nd = PyArray_NDIM(a);
    return PyArray_DATA((PyArrayObject *)a) == PyArray_DATA((PyArrayObject *)b)
           && PyArray_ITEMSIZE((PyArrayObject *)a) == PyArray_ITEMSIZE((PyArrayObject *)b)
           && PyArray_CompareLists(PyArray_DIMS((PyArrayObject *)a), PyArray_DIMS((PyArrayObject *)b), nd)
           && PyArray_CompareLists(PyArray_STRIDES((PyArrayObject *)a), PyArray_STRIDES((PyArrayObject *)b), nd);
}

/* Return 1 if the previous value of an output can be reused: it has the right type, shape and layout, and shares no
 * memory with an input. */
static int fits_again(PyObject *old, int nd, const int64_t *dims, int type, int fortran, int nin, PyObject **in)
{
    PyArrayObject *a = (PyArrayObject *)old;
    if (old == NULL || !PyArray_CheckExact(old) || PyArray_NDIM(a) != nd || PyArray_TYPE(a) != type
        || !PyArray_ISBEHAVED(a) || !(fortran ? PyArray_IS_F_CONTIGUOUS(a) : native_has_c_strides(a))
        || !PyArray_CompareLists(PyArray_DIMS(a), (const npy_intp *)dims, nd))
        return 0;
    for (int i = 0; i < nin; ++i)
        if (meet(a, (PyArrayObject *)in[i]))
            return 0;
    return 1;
}

/* Return 1 if a division should not overwrite the input `target`, because a separate array for the result is cheaper.
 * Before a division overwrites an input, the divisors must be checked, which is one more pass over memory. The pass is
 * cheap if there is a single divisor, or if the divisors stay in the cache. A separate array is kept for the next call
 * (alloc.c) and costs nothing, unless it does not fit the last-level cache. */
static int cheaper_beside(PyArrayObject *target, int nin, const struct operand_params *operands)
{
    npy_intp bytes = PyArray_ITEMSIZE(target);
    int many = 0;
    for (int d = 0; d < PyArray_NDIM(target); ++d)
        bytes *= PyArray_DIM(target, d);
    for (int i = 0; i < nin; ++i)
        many |= operands[i].divides != NO_DIVISOR && operands[i].kind != HOISTED;
    return many && bytes >= (1 << 20) && bytes <= (8 << 20);
}

/* Store the output arrays in `out`: overwritten inputs, previous outputs, or new arrays. Return 1 if the inputs that
 * are marked in `copy` must be copied first, -1 with an exception set, else 0. */
static int provide_outputs(int nd, int nin, int nout, PyObject **in, PyObject **out,
                           const struct operand_params *operands, const int64_t *dims, int fortran,
                           int check_divisors_first, char *copy)
{
    int copies = 0;
    for (int j = 0; j < nout; ++j) {
        int source = (int)operands[nin + j].overwrites, type = (int)operands[nin + j].type_number;
        PyArrayObject *target = source < 0 ? NULL : (PyArrayObject *)in[source];
        if (target != NULL && PyArray_ISWRITEABLE(target) && PyArray_TYPE(target) == type
            && same_lengths(nd, PyArray_DIMS(target), dims)
            && !(check_divisors_first && cheaper_beside(target, nin, operands))) {
            for (int i = 0; i < nin; ++i)
                if (i != source && in[i] != in[source] && meet(target, (PyArrayObject *)in[i])
                    && !same_elements(target, (PyArrayObject *)in[i]))
                    copies |= copy[i] = 1;
            if (out[j] != in[source]) {
                Py_INCREF(in[source]);
                native_set(&out[j], in[source]);
            }
            continue;
        }
        if (fits_again(out[j], nd, dims, type, fortran, nin, in)) {
            /* The outputs of a node never share an array, but a caller may have put one array into the storage of two
             * outputs. */
            int shared = 0;
            for (int k = 0; k < j; ++k)
                shared |= meet((PyArrayObject *)out[k], (PyArrayObject *)out[j]);
            if (!shared)
                continue;
        }
        Py_CLEAR(out[j]);
        out[j] = (PyObject *)native_new(nd, (const npy_intp *)dims, type, fortran);
        if (out[j] == NULL)
            return -1;
    }
    return copies;
}

/* Return 1 if an output overwrites an input. */
static int overwrites_input(int nin, int nout, PyObject **in, PyObject **out)
{
    for (int j = 0; j < nout; ++j)
        for (int i = 0; i < nin; ++i)
            if (out[j] == in[i])
                return 1;
    return 0;
}

static int tng_elemwise(int nin, int nout, PyObject **in, PyObject **out, const struct elemwise_params *params)
{
    kernel_fn kernel = (kernel_fn)(intptr_t)params->kernel;
    int nd = (int)params->ndim, nop = nin + nout, unfit = 0, zeros = 0, status;
    const struct operand_params *operands = params->operands;
    char copy[nin + 1], *data[nop + 1];
    Plan p = plan_at((int64_t *)(intptr_t)params->scratch, nd, nin, nout);

    int known = (int)p.head[H_VALID];
    for (int i = 0; i < nin; ++i) {
        PyArrayObject *a = (PyArrayObject *)in[i];
        if (!PyArray_Check(in[i]) || PyArray_NDIM(a) != nd
            || (PyArray_TYPE(a) != (int)operands[i].type_number
                && !PyArray_EquivTypenums(PyArray_TYPE(a), (int)operands[i].type_number)))
            return bad_input(i, in[i], nd, (int)operands[i].type_number);
        /* long and long long may be equal types with different numbers. The input is then copied to the expected type,
         * because the checks of the outputs compare type numbers. */
        unfit |= copy[i] = !PyArray_ISBEHAVED_RO(a) || PyArray_TYPE(a) != (int)operands[i].type_number;
        for (int d = 0; d < nd && known; ++d)
            known = PyArray_DIM(a, d) == p.in_dims[i * nd + d] && PyArray_STRIDE(a, d) == p.in_strides[i * nd + d];
    }
    if (unfit)
        return with_copies(nin, nout, in, out, params, copy);
    if (!known) {
        p.head[H_VALID] = 0;
        if (result_dims(nd, nin, in, operands, p.dims) < 0)
            return -1;
        p.head[H_FORTRAN] = wants_fortran(nd, nin, in, operands);
    }
    status = provide_outputs(nd, nin, nout, in, out, operands, p.dims, (int)p.head[H_FORTRAN],
                             (int)params->check_divisors_first, copy);
    if (status < 0)
        return -1;
    if (status > 0)
        return with_copies(nin, nout, in, out, params, copy);

    data[nop] = (char *)&zeros;
    *p.program = params->program;
    if (nd == 0) {
        for (int o = 0; o < nop; ++o)
            data[o] = PyArray_DATA((PyArrayObject *)(o < nin ? in[o] : out[o - nin]));
        p.head[H_VALID] = 1;
        zeros = (int)params->check_divisors_first;
        kernel(1, data, p.kstride);
        if (zeros)
            return zero_met(nin, in, operands, params->computed_divisor);
        return params->may_fail && PyErr_Occurred() ? -1 : 0;
    }

    for (int j = 0; j < nout && known; ++j)
        known = same_lengths(nd, PyArray_STRIDES((PyArrayObject *)out[j]), p.out_strides + j * nd);
    if (!known) {
        make_plan(&p, nd, nin, nout, in, out, operands, (int)params->has_maybe_broadcast);
        p.head[H_VALID] = 1;
    }
    if (p.head[H_SIZE] == 0)
        return 0;
    for (int o = 0; o < nop; ++o) {
        PyArrayObject *a = (PyArrayObject *)(o < nin ? in[o] : out[o - nin]);
        data[o] = PyArray_BYTES(a) + p.base[o];
    }
    Run run = {&p, kernel, data, nd, nin, nop};
    if (params->check_divisors_first && overwrites_input(nin, nout, in, out)) {
        /* If the kernel is called only once, it checks the divisors itself: zeros = 1 requests this. */
        zeros = !p.head[H_ROWS] && !p.head[H_BUFFERED] && params->openmp_minsize == 0;
        if (!zeros && check_divisors(nin, in, operands) < 0)
            return -1;
    }
    run_all(&run, params->may_fail ? 0 : params->openmp_minsize);
    if (zeros)
        return zero_met(nin, in, operands, params->computed_divisor);
    return params->may_fail && PyErr_Occurred() ? -1 : 0;
}

/* -- DimShuffle --------------------------------------------------------------------------------------------------- */

/* copies: whether the result is a copy; ndim_in: number of dimensions of the input; order: the input dimension of each
 * dimension of the result (-1: new). */
NATIVE_FUNCTION(dimshuffle, copies, ndim_in, n_order, order[])
static int tng_dimshuffle(int nin, int nout, PyObject **in, PyObject **out, const struct dimshuffle_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    int nd_in = (int)params->ndim_in, nd = (int)params->n_order;
    const int64_t *order = params->order;
    npy_intp dims[MAX_ND + 1], strides[MAX_ND + 1];
    uint32_t kept = 0;
    (void)nin;
    (void)nout;
    if (!PyArray_Check(in[0]) || PyArray_NDIM(x) != nd_in)
        return bad_input(0, in[0], nd_in, PyArray_Check(in[0]) ? PyArray_TYPE(x) : -1);
    for (int d = 0; d < nd; ++d) {
        if (order[d] >= 0) {
            dims[d] = PyArray_DIM(x, (int)order[d]);
            strides[d] = PyArray_STRIDE(x, (int)order[d]);
            kept |= 1u << order[d];
        }
        else {
            dims[d] = 1;
            strides[d] = 0;
        }
    }
    for (int d = 0; d < nd_in; ++d)
        if (!(kept >> d & 1) && PyArray_DIM(x, d) != 1) {
            PyErr_Format(PyExc_ValueError,
                         "DimShuffle: dimension %d of the input is dropped, so its length must be 1, but it is %lld", d,
                         (long long)PyArray_DIM(x, d));
            return -1;
        }
    /* New dimensions get the stride of a contiguous array, because BLAS and other C code read all strides. */
    for (int d = nd - 1; d >= 0; --d)
        if (order[d] < 0)
            strides[d] = d + 1 < nd ? strides[d + 1] * dims[d + 1] : PyArray_ITEMSIZE(x);
    PyArray_Descr *dtype = PyArray_DESCR(x);
    Py_INCREF(dtype);
    PyArrayObject *view =
        (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, dtype, nd, dims, strides, PyArray_DATA(x),
                                              PyArray_FLAGS(x) & (NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED), NULL);
    if (view == NULL)
        return -1;
    Py_INCREF(x);
    if (PyArray_SetBaseObject(view, (PyObject *)x) < 0) {
        Py_DECREF(view);
        return -1;
    }
    if (params->copies) {
        PyArrayObject *result = native_alloc(&out[0], nd, dims, PyArray_TYPE(x));
        int status = result == NULL ? -1 : PyArray_CopyInto(result, view);
        Py_DECREF(view);
        return status;
    }
    native_set(&out[0], (PyObject *)view);
    return 0;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY_WITH_SCRATCH(elemwise), NATIVE_ROW(operand), NATIVE_ENTRY(dimshuffle), {NULL}};
NATIVE_MODULE(elemwise, entries)
