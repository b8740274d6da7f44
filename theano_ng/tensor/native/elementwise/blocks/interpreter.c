/* The instructions of elementwise programs, and the loop over blocks that executes them. The file is compiled for
 * several levels of processors (setup.py) and does not use Python. instructions.h contains the C code of scalar ops;
 * this code needs the kernel prologue. */
#include "../../../../gof/c_include/kernel_prologue.h"
#ifdef TNG_HAS_MVEC
#include "../../../../gof/c_include/vector_math.h"
#endif
#define TNG_FOR_float32
#define TNG_FOR_float64
#include "../../../../gof/c_include/complex_numbers.h"
#define ROW_HEADERS
#include "instructions.h"
#undef ROW_HEADERS
#include "../../../../scalar/c_code/sum_blocks.h"
#include "blocks.h"

/* -- instructions ------------------------------------------------------------------------------------------------- */

#define ARGUMENTS int64_t n, char *out, const char *a, const char *b, const char *c, char *d
#define UNUSED(x) (void)(x)
#define UNUSED_HERE __attribute__((unused))

#define ROW1(NAME, T, T0, ...)                               \
    static void NAME(ARGUMENTS)                              \
    {                                                        \
        UNUSED(b), UNUSED(c), UNUSED(d);                     \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) \
        {                                                    \
            const T0 x0 UNUSED_HERE = ((const T0 *)a)[i];    \
            T z;                                             \
            __VA_ARGS__((T *)out)[i] = z;                    \
        }                                                    \
    }
#define LOOP2(T, T0, T1, ...)                            \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) \
    {                                                    \
        const T0 x0 UNUSED_HERE = ((const T0 *)a)[i];    \
        const T1 x1 UNUSED_HERE = ((const T1 *)b)[i];    \
        T z;                                             \
        __VA_ARGS__((T *)out)[i] = z;                    \
    }
#define ROW2(NAME, T, T0, T1, ...)    \
    static void NAME(ARGUMENTS)       \
    {                                 \
        UNUSED(c), UNUSED(d);         \
        LOOP2(T, T0, T1, __VA_ARGS__) \
    }
/* Define an instruction that divides integers. zeros_ becomes nonzero if a divisor is zero. zeros_ has the type of the
 * divisors, so that SIMD vectors of zeros_ and of divisors have the same number of elements. */
#define ROW2Z(NAME, T, T0, T1, ...)   \
    static void NAME(ARGUMENTS)       \
    {                                 \
        T zeros_ = 0;                 \
        UNUSED(c);                    \
        LOOP2(T, T0, T1, __VA_ARGS__) \
        if (zeros_)                   \
            *(int *)d = 1;            \
    }
#define ROW3(NAME, T, T0, T1, T2, ...)                       \
    static void NAME(ARGUMENTS)                              \
    {                                                        \
        UNUSED(d);                                           \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) \
        {                                                    \
            const T0 x0 UNUSED_HERE = ((const T0 *)a)[i];    \
            const T1 x1 UNUSED_HERE = ((const T1 *)b)[i];    \
            const T2 x2 UNUSED_HERE = ((const T2 *)c)[i];    \
            T z;                                             \
            __VA_ARGS__((T *)out)[i] = z;                    \
        }                                                    \
    }
/* Define an instruction that applies several operations in one loop. BEFORE reads the values that are constant in the
 * loop. */
#define CHAIN(NAME, T, BEFORE, ...)                          \
    static void NAME(ARGUMENTS)                              \
    {                                                        \
        UNUSED(c), UNUSED(d);                                \
        BEFORE                                               \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) \
        {                                                    \
            T z;                                             \
            __VA_ARGS__((T *)out)[i] = z;                    \
        }                                                    \
    }
#include "instructions.h"
#undef CHAIN
#undef ROW1
#undef ROW2
#undef ROW2Z
#undef ROW3

#define COPY(BITS)                               \
    static void copy_##BITS(ARGUMENTS)           \
    {                                            \
        UNUSED(b), UNUSED(c), UNUSED(d);         \
        memmove(out, a, (size_t)n * (BITS / 8)); \
    }
COPY(8)
COPY(16)
COPY(32)
COPY(64)

#define ROW1(NAME, ...) {#NAME, NAME},
#define ROW2 ROW1
#define ROW2Z ROW1
#define ROW3 ROW1
#define CHAIN ROW1
const Instruction block_instructions[] = {
#include "instructions.h"
    {"copy_8", copy_8}, {"copy_16", copy_16}, {"copy_32", copy_32}, {"copy_64", copy_64}, {NULL, NULL},
};

/* -- programs ----------------------------------------------------------------------------------------------------- */

/* A value is an operand of the node (inputs, then outputs), a constant or a register. Its number is its position in the
 * list of all values: operands, constants, registers, and last the int that is set if a divisor is zero. */
typedef struct {
    int64_t run; /* address of an instruction_fn */
    /* Numbers of values. If the instruction has fewer than four operands, d is the number of the int that is set if a
     * divisor is zero, and the other unused numbers are 0. */
    int64_t out, a, b, c, d;
} Step;

typedef struct {
    int64_t compiled; /* address of a compiled kernel that replaces the program; 0 if there is none yet */
    int64_t block;    /* elements in a block */
    int64_t n_inputs, n_outputs, n_constants, n_registers;
    int64_t register_item; /* bytes reserved for an element of a register */
    int64_t repeated_item; /* sum of the item sizes in bytes of the inputs that may be single values */
    int64_t n_steps;
    int64_t alternate; /* number of an input: if its stride is 0, the program `other` is run; -1: none */
    int64_t other;     /* address of a program in which MAYBE_BROADCAST inputs are single values */
    int64_t steps;     /* offset of the Steps, in words; the members below are offsets of lists: */
    int64_t items;     /* item size of each operand in bytes */
    int64_t repeated;  /* kind of each operand; 0: an array of elements */
    int64_t constants; /* addresses of blocks that are filled with a constant */
    /* for loops over elements: the number of integer divisors that may have to be checked first, then their numbers;
     * for loops over steps: the number of the boolean value that ends the loop, or -1 */
    int64_t divisors;
} Program;

/* Kinds of operands.
 *   REPEATED: a single value, with which a block is filled
 *   READ_ONCE: a single value that needs no block, because every instruction reads it only once
 *   MOVES: an operand with one row for each step, only in loops over steps */
#define REPEATED 1
#define MOVES 4
#define READ_ONCE 8

static void fill(char *block, const char *value, int64_t n, int64_t item)
{
#define FILL(T)                          \
    {                                    \
        T one;                           \
        memcpy(&one, value, sizeof one); \
        for (int64_t i = 0; i < n; ++i)  \
            ((T *)block)[i] = one;       \
        break;                           \
    }
    switch (item) {
    case 1: FILL(uint8_t)
    case 2: FILL(uint16_t)
    case 4: FILL(uint32_t)
    case 8: FILL(uint64_t)
    default: FILL(theano_complex128)
    }
}

/* Fill `values` with the address of each value. Inputs that are single values get blocks, which follow the registers in
 * `room`. */
static void begin(const Program *p, char **values, char **ptr, char *room, int64_t length, char *moves, int *zeros)
{
    const int64_t *words = (const int64_t *)p;
    const int64_t nop = p->n_inputs + p->n_outputs;
    char *next = room + p->n_registers * length * p->register_item;
    for (int64_t o = 0; o < nop; ++o) {
        const int64_t kind = words[p->repeated + o];
        moves[o] = !(kind == REPEATED || kind == READ_ONCE);
        values[o] = ptr[o];
        if (!moves[o] && kind != READ_ONCE) {
            fill(next, ptr[o], length, words[p->items + o]);
            values[o] = next;
            next += length * words[p->items + o];
        }
    }
    for (int64_t k = 0; k < p->n_constants; ++k)
        values[nop + k] = (char *)(intptr_t)words[p->constants + k];
    for (int64_t k = 0; k < p->n_registers; ++k)
        values[nop + p->n_constants + k] = room + k * length * p->register_item;
    values[nop + p->n_constants + p->n_registers] = (char *)zeros;
}

static inline __attribute__((always_inline)) void run_steps(const Program *p, const Step *steps, int64_t n,
                                                            char **values)
{
    for (int64_t k = 0; k < p->n_steps; ++k) {
        const Step *s = steps + k;
        ((instruction_fn)(intptr_t)s->run)(n, values[s->out], values[s->a], values[s->b], values[s->c], values[s->d]);
    }
}

static inline void advance(const Program *p, char **values, const char *moves, int64_t count, int64_t n)
{
    const int64_t *items = (const int64_t *)p + p->items;
    for (int64_t o = 0; o < count; ++o)
        if (moves[o])
            values[o] += n * items[o];
}

static int has_zero(const char *y, int64_t n, int64_t item)
{
#define LOOK(T)                             \
    {                                       \
        T zero = 0;                         \
        for (int64_t i = 0; i < n; ++i)     \
            zero |= ((const T *)y)[i] == 0; \
        return zero != 0;                   \
    }
    switch (item) {
    case 1: LOOK(uint8_t)
    case 2: LOOK(uint16_t)
    case 4: LOOK(uint32_t)
    default: LOOK(uint64_t)
    }
}

/* Check the divisors before anything is overwritten, if *zeros is nonzero (divisors.h). Return 1 if a divisor is zero;
 * then *zeros stays 1. Otherwise set *zeros to 0 and return 0. If the program has no divisors to check, *zeros is
 * already the result of earlier calls, so return 0 and do not change it. */
static int meets_zero(const Program *p, char **ptr, int64_t n, const char *moves, int *zeros)
{
    const int64_t *words = (const int64_t *)p, *divisors = words + p->divisors;
    if (divisors[0] == 0 || *zeros == 0)
        return 0;
    for (int64_t k = 1; k <= divisors[0]; ++k)
        if (has_zero(ptr[divisors[k]], moves[divisors[k]] ? n : 1, words[p->items + divisors[k]]))
            return 1;
    return *zeros = 0;
}

/* Call the compiled kernel if there is one. Otherwise reserve room for the registers and for the inputs that are single
 * values: a block of `length` elements each. */
#define BEGIN                                                                                                     \
    const Program *p = (const Program *)(intptr_t)stride[-1];                                                     \
    const int64_t compiled = __atomic_load_n(&p->compiled, __ATOMIC_ACQUIRE);                                     \
    if (compiled) {                                                                                               \
        ((blocks_fn)(intptr_t)compiled)(total, ptr, stride);                                                      \
        return;                                                                                                   \
    }                                                                                                             \
    if (p->alternate >= 0 && stride[p->alternate] == 0)                                                           \
        p = (const Program *)(intptr_t)p->other;                                                                  \
    const int64_t nop = p->n_inputs + p->n_outputs, n_values = nop + p->n_constants + p->n_registers + 1;         \
    const int64_t length = total < p->block ? (total + 63) / 64 * 64 : p->block;                                  \
    char room[length * (p->n_registers * p->register_item + p->repeated_item) + 64] __attribute__((aligned(64))); \
    char *values[n_values], moves[nop];                                                                           \
    const Step *steps = (const Step *)((const int64_t *)p + p->steps);

void blocks_run(int64_t total, char **ptr, const int64_t *stride)
{
    BEGIN
    int *zeros = (int *)ptr[nop];
    begin(p, values, ptr, room, length, moves, zeros);
    if (meets_zero(p, ptr, total, moves, zeros))
        return;
    for (int64_t at = 0; at < total; at += length) {
        const int64_t n = total - at < length ? total - at : length;
        run_steps(p, steps, n, values);
        advance(p, values, moves, nop, n);
    }
}

/* The pointer of the output is the address of the accumulators. The stride of the output is 0 if there is only one
 * accumulator, as in compiled kernels that sum. */
#define SUM(NAME, T)                                                         \
    static void sum_##NAME(int64_t total, char **ptr, const int64_t *stride) \
    {                                                                        \
        BEGIN                                                                \
        int *zeros = (int *)ptr[nop];                                        \
        T *accumulator = (T *)ptr[nop - 1];                                  \
        const int64_t tng_total = total;                                     \
        begin(p, values, ptr, room, length, moves, zeros);                   \
        if (stride[nop - 1] != 0) {                                          \
            T block[length];                                                 \
            values[nop - 1] = (char *)block;                                 \
            for (int64_t at = 0; at < total; at += length) {                 \
                const int64_t n = total - at < length ? total - at : length; \
                run_steps(p, steps, n, values);                              \
                advance(p, values, moves, nop - 1, n);                       \
                for (int64_t i = 0; i < n; ++i)                              \
                    accumulator[at + i] += block[i];                         \
            }                                                                \
            return;                                                          \
        }                                                                    \
        TNG_SUM_BEGIN(T, computed)                                           \
        for (int64_t at = 0; at < tng_n; at += length) {                     \
            const int64_t n = tng_n - at < length ? tng_n - at : length;     \
            values[nop - 1] = (char *)(computed + at);                       \
            run_steps(p, steps, n, values);                                  \
            advance(p, values, moves, nop - 1, n);                           \
        }                                                                    \
        TNG_SUM_END(T, computed, accumulator)                                \
    }
SUM(int64, npy_uint64)
SUM(uint64, npy_uint64)
SUM(float32, npy_float32)
SUM(float64, npy_float64)

/* -- loops -------------------------------------------------------------------------------------------------------- */

typedef struct {
    /* An operand with one row for each step.
     *   row: address of the row of this step
     *   first: address of the first row of the buffer
     *   left: number of rows to the end of the buffer, including the row of this step
     *   rows: number of rows of the buffer
     *   distance: bytes from one row to the next
     *   value: number of the operand
     *   item: bytes of an element
     *   block: a block to fill with the row's single value; NULL: the row itself is read or written */
    char *row, *first;
    int64_t left, rows;
    int64_t distance;
    int64_t value, item;
    char *block;
} Row;

/* Run all steps for one block of elements before the next block, because elements do not depend on each other. Return
 * the number of steps that were run. */
static int64_t run_loop(const Program *p, int64_t steps, int64_t n, char **values, Row *rows, int64_t n_rows)
{
    const int64_t *words = (const int64_t *)p, until = words[p->divisors];
    const Step *instructions = (const Step *)(words + p->steps);
    for (int64_t t = 0; t < steps; ++t) {
        for (Row *r = rows; r < rows + n_rows; ++r) {
            if (r->block != NULL)
                fill(r->block, r->row, n, r->item);
            else
                values[r->value] = r->row;
            r->row += r->distance;
            if (--r->left == 0) {
                r->row = r->first;
                r->left = r->rows;
            }
        }
        run_steps(p, instructions, n, values);
        if (until >= 0 && *values[until])
            return t + 1;
    }
    return steps;
}

int64_t blocks_loop(int64_t steps, int64_t total, char **base, const int64_t *place)
{
    const Program *p = (const Program *)(intptr_t)place[-1];
    const int64_t compiled = __atomic_load_n(&p->compiled, __ATOMIC_ACQUIRE);
    if (compiled)
        return ((blocks_loop_fn)(intptr_t)compiled)(steps, total, base, place);
    const int64_t *words = (const int64_t *)p, *kinds = words + p->repeated, *items = words + p->items;
    const int64_t nop = p->n_inputs + p->n_outputs, n_values = nop + p->n_constants + p->n_registers + 1;
    const int64_t length = total < p->block ? (total + 63) / 64 * 64 : p->block;
    char room[length * (p->n_registers * p->register_item + p->repeated_item) + 64] __attribute__((aligned(64)));
    char *values[n_values];
    Row rows[nop];
    int zeros = 0;
    values[n_values - 1] = (char *)&zeros;
    for (int64_t k = 0; k < p->n_constants; ++k)
        values[nop + k] = (char *)(intptr_t)words[p->constants + k];
    for (int64_t k = 0; k < p->n_registers; ++k)
        values[nop + p->n_constants + k] = room + k * length * p->register_item;
    int64_t done = steps;
    for (int64_t at = 0; at < total; at += length) {
        const int64_t n = total - at < length ? total - at : length;
        char *next = room + p->n_registers * length * p->register_item;
        int64_t n_rows = 0;
        for (int64_t o = 0; o < nop; ++o) {
            const int one = kinds[o] & REPEATED;
            char *const here = base[o] + (kinds[o] & (REPEATED | READ_ONCE) ? 0 : at * items[o]);
            values[o] = one ? next : here;
            next += one ? length * items[o] : 0;
            if (kinds[o] & MOVES) {
                const int64_t *where = place + 3 * o;
                rows[n_rows++] =
                    (Row){here + where[2] * where[0], here, where[1] - where[2], where[1], where[0], o, items[o],
                          one ? values[o] : NULL};
            }
            else if (one)
                fill(values[o], base[o], n, items[o]);
        }
        done = run_loop(p, steps, n, values, rows, n_rows);
    }
    return done;
}

const BlockSum block_sums[] = {
    {"int64", sum_int64}, {"uint64", sum_uint64}, {"float32", sum_float32}, {"float64", sum_float64}, {NULL, NULL},
};
