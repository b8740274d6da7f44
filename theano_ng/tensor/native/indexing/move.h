/* Functions that copy or add items and rows between two lists of positions. Gathers and scatters call these functions.
 *
 * A position of the destination is dst + to[b], or dst + b * dst_step if `to` is NULL. A position of the source is src
 * + from[b], or src + b * src_step if `from` is NULL. Positions are handled in order: if a position of the destination
 * occurs several times, the last copy remains, and sums accumulate. */
#ifndef THEANO_NG_MOVE_H
#define THEANO_NG_MOVE_H

#include "gather.h"

typedef void (*move_fn)(npy_intp n, npy_intp length, char *dst, const npy_intp *to, npy_intp dst_step, const char *src,
                        const npy_intp *from, npy_intp src_step);

#define MOVE_ARGUMENTS                                                                              \
    npy_intp n, npy_intp length, char *dst, const npy_intp *to, npy_intp dst_step, const char *src, \
        const npy_intp *from, npy_intp src_step

/* Run EFFECT for each position, with the addresses `d` and `s`. */
#define MOVE_LOOP(EFFECT)                           \
    do {                                            \
        if (to == NULL && from != NULL)             \
            for (npy_intp b = 0; b < n; ++b) {      \
                char *d = dst + b * dst_step;       \
                const char *s = src + from[b];      \
                EFFECT                              \
            }                                       \
        else if (from == NULL)                      \
            for (npy_intp b = 0; b < n; ++b) {      \
                char *d = dst + to[b];              \
                const char *s = src + b * src_step; \
                EFFECT                              \
            }                                       \
        else                                        \
            for (npy_intp b = 0; b < n; ++b) {      \
                char *d = dst + to[b];              \
                const char *s = src + from[b];      \
                EFFECT                              \
            }                                       \
    } while (0)

/* ---------------------------------------------------------------- copies */

#define DEFINE_COPY_ITEMS(NAME, SIZE)   \
    static void NAME(MOVE_ARGUMENTS)    \
    {                                   \
        (void)length;                   \
        MOVE_LOOP(memcpy(d, s, SIZE);); \
    }
DEFINE_COPY_ITEMS(copy_items_1, 1)
DEFINE_COPY_ITEMS(copy_items_2, 2)
DEFINE_COPY_ITEMS(copy_items_4, 4)
DEFINE_COPY_ITEMS(copy_items_8, 8)
DEFINE_COPY_ITEMS(copy_items_16, 16)
/* Copies of short rows, whose length is known at compile time. */
DEFINE_COPY_ITEMS(copy_items_32, 32)
DEFINE_COPY_ITEMS(copy_items_64, 64)

/* Copy a row of SIZE to 2 * SIZE - 1 bytes as two blocks that may overlap. */
#define COPY_TWO(SIZE) MOVE_LOOP(memcpy(d, s, SIZE); memcpy(d + (length - SIZE), s + (length - SIZE), SIZE);)

/* From this number of bytes on, memcpy is faster than a loop. */
#define COPY_CALL 16384

/* Copy rows of `length` bytes. Short rows are copied in blocks, without a function call. */
static void copy_rows(MOVE_ARGUMENTS)
{
    if (length >= COPY_CALL)
        MOVE_LOOP(memcpy(d, s, (size_t)length););
    else if (length >= 32) {
        const npy_intp whole = length & ~(npy_intp)31;
        /* The rows of the source (or of the destination, if `from` is NULL) have arbitrary addresses. Prefetch the
         * first cache line of the row that is 8 rows ahead; the hardware prefetches the rest of the row. */
        const npy_intp *there = from != NULL ? from : to;
        const char *far = from != NULL ? src : dst;
        MOVE_LOOP(if (b + 8 < n) __builtin_prefetch(far + there[b + 8]);
                  for (npy_intp k = 0; k < whole; k += 32) memcpy(d + k, s + k, 32);
                  if (whole < length) memcpy(d + (length - 32), s + (length - 32), 32););
    }
    else if (length >= 16)
        COPY_TWO(16);
    else if (length >= 8)
        COPY_TWO(8);
    else if (length >= 4)
        COPY_TWO(4);
    else
        MOVE_LOOP(for (npy_intp k = 0; k < length; ++k) d[k] = s[k];);
}

static move_fn copy_of(npy_intp bytes)
{
    switch (bytes) {
    case 1: return copy_items_1;
    case 2: return copy_items_2;
    case 4: return copy_items_4;
    case 8: return copy_items_8;
    case 16: return copy_items_16;
    case 32: return copy_items_32;
    case 64: return copy_items_64;
    default: return copy_rows;
    }
}

/* ---------------------------------------------------------------- sums */

#define DEFINE_ADD(ITEMS, ROWS, TYPE)                                                                             \
    static void ITEMS(MOVE_ARGUMENTS)                                                                             \
    {                                                                                                             \
        typedef TYPE __attribute__((aligned(1), may_alias)) item;                                                 \
        (void)length;                                                                                             \
        MOVE_LOOP(*(item *)d += *(const item *)s;);                                                               \
    }                                                                                                             \
    STRIDED_CLONES static void ROWS(MOVE_ARGUMENTS)                                                               \
    {                                                                                                             \
        typedef TYPE __attribute__((aligned(1), may_alias)) item;                                                 \
        const npy_intp *there = to != NULL ? to : from;                                                           \
        const char *far = to != NULL ? dst : src;                                                                 \
        MOVE_LOOP(if (b + 8 < n) __builtin_prefetch(far + there[b + 8], 1); item *restrict x = (item *)d;         \
                  const item *restrict y = (const item *)s; for (npy_intp k = 0; k < length; ++k) x[k] += y[k];); \
    }
/* Signed integers are added as unsigned integers: the bits of the result are equal, and unsigned overflow wraps by
 * definition. */
DEFINE_ADD(add_items_u1, add_rows_u1, uint8_t)
DEFINE_ADD(add_items_u2, add_rows_u2, uint16_t)
DEFINE_ADD(add_items_u4, add_rows_u4, uint32_t)
DEFINE_ADD(add_items_u8, add_rows_u8, uint64_t)
DEFINE_ADD(add_items_f4, add_rows_f4, float)
DEFINE_ADD(add_items_f8, add_rows_f8, double)

/* Find the functions that add items and rows of a dtype at many positions. For a dtype without such functions
 * (float16), they are NULL, and inc_row_fn adds at one position at a time. A complex item is a row of two reals:
 * `parts` is then 2, otherwise 1. */
static void adders_of(PyArrayObject *z, move_fn *items, move_fn *rows, npy_intp *parts)
{
    static const move_fn of_integers[][2] = {{add_items_u1, add_rows_u1},
                                             {add_items_u2, add_rows_u2},
                                             {add_items_u4, add_rows_u4},
                                             {add_items_u8, add_rows_u8}};
    npy_intp size = PyArray_ITEMSIZE(z);
    char kind = PyArray_DESCR(z)->kind;
    *items = *rows = NULL;
    *parts = kind == 'c' ? 2 : 1;
    if (kind == 'i' || kind == 'u') {
        const move_fn *found = of_integers[size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
        *items = found[0];
        *rows = found[1];
    }
    else if ((kind == 'f' && size == 4) || (kind == 'c' && size == 8)) {
        *items = kind == 'c' ? add_rows_f4 : add_items_f4;
        *rows = add_rows_f4;
    }
    else if ((kind == 'f' && size == 8) || (kind == 'c' && size == 16)) {
        *items = kind == 'c' ? add_rows_f8 : add_items_f8;
        *rows = add_rows_f8;
    }
}

/* ---------------------------------------------------------------- the dimensions that are not indexed by arrays */

typedef struct {
    npy_intp itemsize, length;
    move_fn move;     /* moves items or rows at many positions; NULL: loops over `rest` move one position at a time */
    inc_row_fn add;   /* adds a row; NULL: rows are copied */
    npy_intp at_once; /* maximum number of positions in a call of `move`; `outer`: plan of the loops around this call */
    StridedPlan rest, outer;
} Mover;

static inline npy_intp absolute(npy_intp value)
{
    return value < 0 ? -value : value;
}

/* Plan moves for the dimensions `g->rest`, which have the strides `dst` in the destination and `src` in the source.
 * index_dst, index_src: the smallest strides between positions in these arrays. `add`: the function that adds rows, or
 * NULL for copies. Return the number of elements at each position. */
static npy_intp mover_plan(Mover *m, const Gather *g, PyArrayObject *z, inc_row_fn add, const npy_intp *dst,
                           const npy_intp *src, npy_intp index_dst, npy_intp index_src)
{
    StridedPlan inner;
    move_fn items = NULL, rows = NULL;
    npy_intp parts, total = strided_plan(&m->rest, g->rest.nd, g->rest.dim, dst, src);
    m->itemsize = PyArray_ITEMSIZE(z);
    m->add = add;
    m->move = NULL;
    m->at_once = GATHER_CHUNK;
    if (total == 0)
        return 0;
    if (add != NULL)
        adders_of(z, &items, &rows, &parts);
    else {
        items = copy_of(m->itemsize);
        parts = m->itemsize;
    }
    strided_plan(&inner, g->rest.nd - g->pos, g->rest.dim + g->pos, dst + g->pos, src + g->pos);
    int last = inner.nd - 1;
    if (last >= 0 && (inner.dst[last] != m->itemsize || inner.src[last] != m->itemsize)) {
        /* If the items of one position are far apart, but the same item of the next position is close, move one item at
         * many positions, then the next item. */
        npy_intp step = index_dst < index_src ? index_dst : index_src;
        if (step < absolute(inner.dst[last]) || step < absolute(inner.src[last])) {
            m->outer = m->rest;
            m->move = items;
            m->length = parts;
            m->at_once = 256;
        }
        return total;
    }
    if (last > 0)
        return total;
    strided_plan(&m->outer, g->pos, g->rest.dim, dst, src);
    m->length = last < 0 ? parts : inner.dim[0] * parts;
    m->move = add == NULL ? copy_of(m->length) : last < 0 ? items : rows;
    return total;
}

/* Move the elements at n positions. */
static void mover_run(const Mover *m, npy_intp n, char *dst, const npy_intp *to, npy_intp dst_step, const char *src,
                      const npy_intp *from, npy_intp src_step)
{
    if (m->move == NULL || (n < 4 && m->outer.nd > 0)) {
        for (npy_intp b = 0; b < n; ++b) {
            char *d = dst + (to != NULL ? to[b] : b * dst_step);
            const char *s = src + (from != NULL ? from[b] : b * src_step);
            if (m->add != NULL)
                strided_add_planned(m->add, &m->rest, d, s);
            else
                strided_copy_planned(m->itemsize, &m->rest, d, s);
        }
        return;
    }
    for (npy_intp b = 0; b < n; b += m->at_once) {
        npy_intp some = n - b < m->at_once ? n - b : m->at_once;
        const npy_intp *to_b = to == NULL ? NULL : to + b, *from_b = from == NULL ? NULL : from + b;
        char *dst_b = dst + (to == NULL ? b * dst_step : 0);
        const char *src_b = src + (from == NULL ? b * src_step : 0);
#define MOVE_ROW(n_, d, ds, s, ss)         \
    for (npy_intp i_ = 0; i_ < (n_); ++i_) \
    m->move(some, m->length, (d) + i_ * (ds), to_b, dst_step, (s) + i_ * (ss), from_b, src_step)
        STRIDED_RUN(&m->outer, dst_b, src_b, MOVE_ROW);
#undef MOVE_ROW
    }
}

/* -------------------------------------------------------------- the most frequent cases, without lists of positions */

/* dst[b] = src[index[b]]; `stride`: bytes between items of src. Stop and return 1 at an index that is out of bounds. */
typedef int (*pick_fn)(npy_intp n, const char *index, npy_int64 size, char *dst, const char *src, npy_intp stride);

#define PICK_LOOP(INDEX, EFFECT)                                      \
    do {                                                              \
        _Pragma("GCC unroll 4") for (npy_intp b = 0; b < n; ++b)      \
        {                                                             \
            npy_int64 j = ((const INDEX *)index)[b], back = j + size; \
            j = j < 0 ? back : j;                                     \
            if ((npy_uint64)j >= (npy_uint64)size)                    \
                return 1;                                             \
            EFFECT;                                                   \
        }                                                             \
        return 0;                                                     \
    } while (0)

#define DEFINE_PICK(SIZE)                                                                                        \
    static int pick_##SIZE##_by_int32(npy_intp n, const char *index, npy_int64 size, char *dst, const char *src, \
                                      npy_intp stride)                                                           \
    {                                                                                                            \
        if (stride == SIZE)                                                                                      \
            PICK_LOOP(npy_int32, memcpy(dst + b * SIZE, src + j * SIZE, SIZE));                                  \
        PICK_LOOP(npy_int32, memcpy(dst + b * SIZE, src + j * stride, SIZE));                                    \
    }                                                                                                            \
    static int pick_##SIZE##_by_int64(npy_intp n, const char *index, npy_int64 size, char *dst, const char *src, \
                                      npy_intp stride)                                                           \
    {                                                                                                            \
        if (stride == SIZE)                                                                                      \
            PICK_LOOP(npy_int64, memcpy(dst + b * SIZE, src + j * SIZE, SIZE));                                  \
        PICK_LOOP(npy_int64, memcpy(dst + b * SIZE, src + j * stride, SIZE));                                    \
    }
DEFINE_PICK(4)
DEFINE_PICK(8)
DEFINE_PICK(16)
DEFINE_PICK(32)
DEFINE_PICK(64)

/* Return 1 if runs along the last dimension of the walk have at least 16 positions, and if only one index array varies
 * along a run, with contiguous int32 or int64 indices. Store the number of this array in *which. */
static int picks(const Gather *g, const Mover *m, int *which)
{
    int last = g->nd - 1;
    *which = -1;
    if (last < 0 || g->n_arrays == 0 || g->dim[last] < 16 || m->outer.nd != 0)
        return 0;
    for (int i = 0; i < g->n_arrays; ++i) {
        if (g->array[i].step[last] == 0)
            continue;
        if (*which >= 0)
            return 0;
        *which = i;
    }
    const IndexArray *a = &g->array[*which];
    return (a->add == add_int64 && a->step[last] == 8) || (a->add == add_int32 && a->step[last] == 4);
}

static pick_fn pick_of(const Gather *g, const Mover *m, int *which)
{
    if (m->move == NULL || !picks(g, m, which))
        return NULL;
    int wide = g->array[*which].add == add_int64;
    if (m->move == copy_items_4)
        return wide ? pick_4_by_int64 : pick_4_by_int32;
    if (m->move == copy_items_8)
        return wide ? pick_8_by_int64 : pick_8_by_int32;
    if (m->move == copy_items_16)
        return wide ? pick_16_by_int64 : pick_16_by_int32;
    if (m->move == copy_items_32)
        return wide ? pick_32_by_int64 : pick_32_by_int32;
    return m->move != copy_items_64 ? NULL : wide ? pick_64_by_int64 : pick_64_by_int32;
}

/* dst[index[b]] += src[b] for items of real dtypes. Stop and return 1 at an index that is out of bounds. */
#define DEFINE_PICK_SUM(NAME, T)                                                                          \
    static int NAME##_by_int32(npy_intp n, const char *index, npy_int64 size, char *dst, npy_intp stride, \
                               const char *src, npy_intp src_step)                                        \
    {                                                                                                     \
        typedef T __attribute__((aligned(1), may_alias)) item;                                            \
        if (stride == (npy_intp)sizeof(T) && src_step == (npy_intp)sizeof(T))                             \
            PICK_LOOP(npy_int32, ((item *)dst)[j] += ((const item *)src)[b]);                             \
        PICK_LOOP(npy_int32, *(item *)(dst + j * stride) += *(const item *)(src + b * src_step));         \
    }                                                                                                     \
    static int NAME##_by_int64(npy_intp n, const char *index, npy_int64 size, char *dst, npy_intp stride, \
                               const char *src, npy_intp src_step)                                        \
    {                                                                                                     \
        typedef T __attribute__((aligned(1), may_alias)) item;                                            \
        if (stride == (npy_intp)sizeof(T) && src_step == (npy_intp)sizeof(T))                             \
            PICK_LOOP(npy_int64, ((item *)dst)[j] += ((const item *)src)[b]);                             \
        PICK_LOOP(npy_int64, *(item *)(dst + j * stride) += *(const item *)(src + b * src_step));         \
    }
DEFINE_PICK_SUM(pick_sum_f4, float)
DEFINE_PICK_SUM(pick_sum_f8, double)

typedef int (*pick_sum_fn)(npy_intp n, const char *index, npy_int64 size, char *dst, npy_intp stride, const char *src,
                           npy_intp src_step);

static pick_sum_fn pick_sum_of(const Gather *g, const Mover *m)
{
    int which;
    if ((m->move != add_items_f4 && m->move != add_items_f8) || g->n_arrays != 1 || g->nd != 1 || !picks(g, m, &which))
        return NULL;
    if (g->array[0].add == add_int64)
        return m->move == add_items_f4 ? pick_sum_f4_by_int64 : pick_sum_f8_by_int64;
    return m->move == add_items_f4 ? pick_sum_f4_by_int32 : pick_sum_f8_by_int32;
}

/* Pick the items of all runs. The items in dst are contiguous and have `bytes` bytes. Return 0, or -1 with an exception
 * set. */
static int pick_all(Gather *g, pick_fn pick, int which, npy_intp bytes, char *dst)
{
    int last = g->nd - 1;
    IndexArray *a = &g->array[which];
    npy_intp n = g->dim[last];
    for (; g->left > 0; g->left -= n, dst += n * bytes) {
        npy_intp still = g->base, own;
        for (int i = 0; i < g->n_arrays; ++i)
            if (i != which) {
                if (g->array[i].add(&g->array[i], g->array[i].here, 0, 1, &own, 1) < 0)
                    return -1;
                still += own;
            }
        /* `pick` stops at an index that is out of bounds; `add` then sets the exception. */
        if (pick(n, a->here, a->size, dst, g->rest.data + still, a->stride)
            && a->add(a, a->here, a->step[last], n, NULL, 1) < 0)
            return -1;
        for (int k = last - 1; k >= 0; --k) {
            int on = ++g->at[k] < g->dim[k];
            for (int i = 0; i < g->n_arrays; ++i)
                g->array[i].here += on ? g->array[i].step[k] : -g->array[i].step[k] * (g->dim[k] - 1);
            if (on)
                break;
            g->at[k] = 0;
        }
    }
    return 0;
}

/* Return the index of the first true element of a mask from i on. The mask must have such an element. */
static inline npy_intp next_true(const char *mask, npy_intp i, npy_intp n)
{
    for (npy_uint64 word; i + 8 <= n && (memcpy(&word, mask + i, 8), word == 0);)
        i += 8;
    while (!mask[i])
        ++i;
    return i;
}

/* Copy the items where a mask is true to consecutive positions (compress), or copy consecutive items to the positions
 * where the mask is true (expand). The mask has n elements, of which `count` are true. */
typedef void (*mask_fn)(npy_intp n, npy_intp count, const char *mask, char *all, char *chosen, npy_intp chosen_step);

#define DEFINE_MASKED(COMPRESS, EXPAND, FILL, ITEM)                                                                   \
    static void COMPRESS(npy_intp n, npy_intp count, const char *mask, char *all, char *chosen, npy_intp chosen_step) \
    {                                                                                                                 \
        const npy_intp size = (npy_intp)sizeof(ITEM);                                                                 \
        npy_intp i = 0, k = 0;                                                                                        \
        (void)chosen_step;                                                                                            \
        /* While there is room for 8 items, unselected items are also written; later items overwrite them. */         \
        for (; i + 8 <= n && k + 8 <= count; i += 8) {                                                                \
            npy_uint64 word;                                                                                          \
            memcpy(&word, mask + i, 8);                                                                               \
            if (word == 0)                                                                                            \
                continue;                                                                                             \
            if (word == 0x0101010101010101u) {                                                                        \
                memcpy(chosen + k * size, all + i * size, 8 * sizeof(ITEM));                                          \
                k += 8;                                                                                               \
                continue;                                                                                             \
            }                                                                                                         \
            for (int e = 0; e < 8; ++e) {                                                                             \
                memcpy(chosen + k * size, all + (i + e) * size, sizeof(ITEM));                                        \
                k += mask[i + e] != 0;                                                                                \
            }                                                                                                         \
        }                                                                                                             \
        for (; k < count; ++i) {                                                                                      \
            i = next_true(mask, i, n);                                                                                \
            memcpy(chosen + k * size, all + i * size, sizeof(ITEM));                                                  \
            ++k;                                                                                                      \
        }                                                                                                             \
    }                                                                                                                 \
    STRIDED_CLONES static void FILL(npy_intp n, const char *mask, char *all, ITEM value)                              \
    {                                                                                                                 \
        typedef ITEM __attribute__((aligned(1), may_alias)) item;                                                     \
        item *restrict x = (item *)all;                                                                               \
        for (npy_intp i = 0; i < n; ++i)                                                                              \
            x[i] = mask[i] ? value : x[i];                                                                            \
    }                                                                                                                 \
    static void EXPAND(npy_intp n, npy_intp count, const char *mask, char *all, char *chosen, npy_intp chosen_step)   \
    {                                                                                                                 \
        const npy_intp size = (npy_intp)sizeof(ITEM);                                                                 \
        npy_intp i = 0, k = 0;                                                                                        \
        if (chosen_step == 0 && count > n / 32) {                                                                     \
            ITEM value;                                                                                               \
            memcpy(&value, chosen, sizeof(ITEM));                                                                     \
            FILL(n, mask, all, value);                                                                                \
            return;                                                                                                   \
        }                                                                                                             \
        for (; i + 8 <= n && k + 8 <= count; i += 8) {                                                                \
            npy_uint64 word;                                                                                          \
            memcpy(&word, mask + i, 8);                                                                               \
            if (word == 0)                                                                                            \
                continue;                                                                                             \
            if (word == 0x0101010101010101u) {                                                                        \
                for (int e = 0; e < 8; ++e)                                                                           \
                    memcpy(all + (i + e) * size, chosen + (k + e) * chosen_step, sizeof(ITEM));                       \
                k += 8;                                                                                               \
                continue;                                                                                             \
            }                                                                                                         \
            for (int e = 0; e < 8; ++e) {                                                                             \
                ITEM old, new;                                                                                        \
                memcpy(&old, all + (i + e) * size, sizeof(ITEM));                                                     \
                memcpy(&new, chosen + k * chosen_step, sizeof(ITEM));                                                 \
                new = mask[i + e] ? new : old;                                                                        \
                memcpy(all + (i + e) * size, &new, sizeof(ITEM));                                                     \
                k += mask[i + e] != 0;                                                                                \
            }                                                                                                         \
        }                                                                                                             \
        for (; k < count; ++i) {                                                                                      \
            i = next_true(mask, i, n);                                                                                \
            memcpy(all + i * size, chosen + k * chosen_step, sizeof(ITEM));                                           \
            ++k;                                                                                                      \
        }                                                                                                             \
    }
DEFINE_MASKED(compress_1, expand_1, fill_1, npy_uint8)
DEFINE_MASKED(compress_2, expand_2, fill_2, npy_uint16)
DEFINE_MASKED(compress_4, expand_4, fill_4, npy_uint32)
DEFINE_MASKED(compress_8, expand_8, fill_8, npy_uint64)

/* Return the function for a contiguous mask over a contiguous vector, or NULL if there is none. */
static mask_fn masked_of(const Gather *g, const Mover *m, int expand)
{
    if (g->mask == NULL || g->nd != 1 || g->mask_step[0] != 1 || g->step[0] != m->length || m->outer.nd != 0)
        return NULL;
    if (m->move == copy_items_1)
        return expand ? expand_1 : compress_1;
    if (m->move == copy_items_2)
        return expand ? expand_2 : compress_2;
    if (m->move == copy_items_4)
        return expand ? expand_4 : compress_4;
    return m->move != copy_items_8 ? NULL : expand ? expand_8 : compress_8;
}

/* ---------------------------------------------------------------- offsets of all positions of a shape */

/* A walk over the positions of a shape; the last dimension varies fastest. */
typedef struct {
    int nd;
    npy_intp dim[NPY_MAXDIMS], stride[NPY_MAXDIMS], at[NPY_MAXDIMS], here;
} Walk;

static void walk_start(Walk *w, int nd, const npy_intp *dim, const npy_intp *stride)
{
    w->nd = 0;
    w->here = 0;
    for (int k = 0; k < nd; ++k) {
        int last = w->nd - 1;
        if (dim[k] == 1)
            continue;
        if (last >= 0 && w->stride[last] == stride[k] * dim[k])
            w->dim[last] *= dim[k];
        else
            w->dim[++last] = dim[k];
        w->stride[last] = stride[k];
        w->at[last] = 0;
        w->nd = last + 1;
    }
}

static void walk_next(Walk *w, npy_intp n, npy_intp *offset)
{
    int last = w->nd - 1;
    while (n > 0) {
        npy_intp run = last < 0 ? 1 : w->dim[last] - w->at[last], step = last < 0 ? 0 : w->stride[last];
        if (run > n)
            run = n;
        for (npy_intp i = 0; i < run; ++i)
            offset[i] = w->here + i * step;
        offset += run;
        n -= run;
        for (int k = last; k >= 0; --k) {
            npy_intp moved = k == last ? run : 1;
            w->at[k] += moved;
            w->here += w->stride[k] * moved;
            if (w->at[k] < w->dim[k])
                break;
            w->here -= w->stride[k] * w->dim[k];
            w->at[k] = 0;
        }
    }
}

#endif
