/* Windows with stride 2 along the last axis, computed with vectors of LANES elements. Unlike in pool_gradients.h, no
 * values are spread (each value repeated for the columns of its window). The last vector of a line overlaps the
 * previous vector, and computes some elements again.
 *
 * pool.c includes this file for each type and number of lanes, with REAL, WORD (an integer of the size of REAL), LANES
 * and LANED(f) defined. */
#if LANES == 8
#define EVEN {0, 2, 4, 6, 8, 10, 12, 14}
#define ODD {1, 3, 5, 7, 9, 11, 13, 15}
#define BEFORE {0, 8, 9, 10, 11, 12, 13, 14}
#define LOW {0, 8, 1, 9, 2, 10, 3, 11}
#define HIGH {4, 12, 5, 13, 6, 14, 7, 15}
#elif LANES == 4
#define EVEN {0, 2, 4, 6}
#define ODD {1, 3, 5, 7}
#define BEFORE {0, 4, 5, 6}
#define LOW {0, 4, 1, 5}
#define HIGH {2, 6, 3, 7}
#else
#define EVEN {0, 2}
#define ODD {1, 3}
#define BEFORE {0, 2}
#define LOW {0, 2}
#define HIGH {1, 3}
#endif

typedef REAL LANED(vector)
__attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef WORD LANED(mask)
__attribute__((vector_size(LANES * sizeof(REAL))));

INLINE LANED(vector)
LANED(load)
(const REAL *from)
{
    return *(const LANED(vector) *)from;
}

/* Copy n >= LANES elements. */
INLINE void LANED(copy)
(npy_intp n, const REAL *from, REAL *to)
{
    for (npy_intp i = 0; i < n; i += LANES) {
        if (i > n - LANES)
            i = n - LANES;
        *(LANED(vector) *)(to + i) = LANED(load)
        (from + i);
    }
}

/* Return the sum m + v, or the maximum of m and v. NaN is greater than all numbers. */
INLINE LANED(vector)
LANED(joined)
(const int adds, LANED(vector) m, LANED(vector) v)
{
    if (adds)
        return m + v;
    LANED(mask)
    takes = (v > m) | (v != v);
    return (LANED(vector))(((LANED(mask))v & takes) | ((LANED(mask))m & ~takes));
}

/* Combine LANES columns of all lines. `rows`: offsets of the lines; NULL: the lines are n elements apart. */
INLINE LANED(vector)
LANED(column)
(const int adds, const int lines, npy_intp n, const npy_intp *rows, const REAL *x)
{
    LANED(vector)
    m = LANED(load)
    (rows == NULL ? x : x + rows[0]);
    for (int k = 1; k < lines; ++k)
        m = LANED(joined)
    (adds, m, LANED(load)(rows == NULL ? x + k * n : x + rows[k]));
    return m;
}

/* Compute maxima or sums of `count` >= LANES windows of two or three columns, which are all inside the image. */
INLINE void LANED(windows)
(npy_intp count, const int adds, const int window, const int lines, npy_intp n, const npy_intp *rows, const REAL *x,
 REAL *z)
{
    const LANED(mask)
    even = EVEN, odd = ODD, before = BEFORE;
    for (npy_intp o = 0; o < count; o += LANES) {
        if (o > count - LANES)
            o = count - LANES;
        LANED(vector)
        result, low, high;
        if (window == 2) {
            low = LANED(column)
            (adds, lines, n, rows, x + 2 * o);
            high = LANED(column)
            (adds, lines, n, rows, x + 2 * o + LANES);
            result = LANED(joined)
            (adds, __builtin_shuffle(low, high, even), __builtin_shuffle(low, high, odd));
        }
        else {
            low = LANED(column)
            (adds, lines, n, rows, x + 2 * o + 1);
            high = LANED(column)
            (adds, lines, n, rows, x + 2 * o + 1 + LANES);
            LANED(vector)
            third = __builtin_shuffle(low, high, odd), first = LANED(column)
            (adds, lines, n, rows, x + 2 * o);
            result = LANED(joined)
            (adds, __builtin_shuffle(first, third, before), __builtin_shuffle(low, high, even));
            result = LANED(joined)
            (adds, result, third);
        }
        *(LANED(vector) *)(z + o) = result;
    }
}

/* Return g where x equals the maximum z, else 0. */
INLINE LANED(vector)
LANED(where)
(LANED(vector) x, const REAL *z, const REAL *g)
{
    return (LANED(vector))((LANED(mask))(x == LANED(load)(z)) & (LANED(mask))LANED(load)(g));
}

/* Interleave the values of left and right columns, and store them. */
INLINE void LANED(store)
(LANED(vector) left, LANED(vector) right, REAL *to)
{
    const LANED(mask)
    low = LOW, high = HIGH;
    *(LANED(vector) *)to = __builtin_shuffle(left, right, low);
    *(LANED(vector) *)(to + LANES) = __builtin_shuffle(left, right, high);
}

/* Compute the gradients of `count` >= LANES adjacent windows of two columns, in `lines` lines that are n elements
 * apart. */
INLINE void LANED(gradients_apart)
(npy_intp count, const int lines, npy_intp n, const REAL *x, const REAL *z, const REAL *g, REAL *gx)
{
    const LANED(mask)
    even = EVEN, odd = ODD;
    for (npy_intp o = 0; o < count; o += LANES) {
        if (o > count - LANES)
            o = count - LANES;
        for (int k = 0; k < lines; ++k) {
            LANED(vector)
            a = LANED(load)
            (x + k * n + 2 * o), b = LANED(load)
            (x + k * n + 2 * o + LANES);
            LANED(store)
            (LANED(where)(__builtin_shuffle(a, b, even), z + o, g + o),
             LANED(where)(__builtin_shuffle(a, b, odd), z + o, g + o), gx + k * n + 2 * o);
        }
    }
}

/* Compute the gradients of `count` >= LANES pairs of columns of one line. Pair o is the columns 0 and 1 of window o.
 * For windows of three columns, the first column of the pair is also the last column of window o - 1. If `two`, the
 * line belongs to windows of two output lines. */
INLINE void LANED(gradients)
(npy_intp count, const int window, const int two, const REAL *x, const REAL *z, const REAL *g, const REAL *z2,
 const REAL *g2, REAL *gx)
{
    const LANED(mask)
    even = EVEN, odd = ODD;
    for (npy_intp o = 0; o < count; o += LANES) {
        if (o > count - LANES)
            o = count - LANES;
        LANED(vector)
        a = LANED(load)
        (x + 2 * o), b = LANED(load)
        (x + 2 * o + LANES);
        LANED(vector)
        left = __builtin_shuffle(a, b, even), right = __builtin_shuffle(a, b, odd);
        LANED(vector)
        of_left = LANED(where)
        (left, z + o, g + o), of_right = LANED(where)
        (right, z + o, g + o);
        if (window == 3)
            of_left += LANED(where)
        (left, z + o - 1, g + o - 1);
        if (two) {
            LANED(vector)
            second = LANED(where)
            (left, z2 + o, g2 + o);
            if (window == 3)
                second += LANED(where)
            (left, z2 + o - 1, g2 + o - 1);
            of_left += second;
            of_right += LANED(where)
            (right, z2 + o, g2 + o);
        }
        LANED(store)
        (of_left, of_right, gx + 2 * o);
    }
}

#undef EVEN
#undef ODD
#undef BEFORE
#undef LOW
#undef HIGH
