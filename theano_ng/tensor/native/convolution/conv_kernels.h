/* The innermost loops of correlation, for one floating-point type and one instruction set. conv_type.h includes this
 * file for each pair, with REAL, MASK, WIDTH (bytes of a register), ROWS (rows of accumulators) and NAME(f) defined; a
 * pragma selects the instruction set.
 *
 * Each loop keeps a tile of sums in registers: `rows` rows, usually of `wide` registers each. Sizes and offsets are in
 * elements. */
typedef REAL NAME(vec) __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(half) __attribute__((vector_size(WIDTH / 2), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(least) __attribute__((vector_size(16), aligned(sizeof(REAL)), may_alias));
typedef MASK NAME(half_mask) __attribute__((vector_size(WIDTH / 2), aligned(sizeof(REAL)), may_alias));
typedef MASK NAME(mask) __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));
#define VEC NAME(vec)
#define LANES ((int)(WIDTH / sizeof(REAL)))
#define LEAST ((int)(16 / sizeof(REAL)))
#define INLINE static inline __attribute__((always_inline))

/* sums[i][j] += sum over k of a[k][i] b[off[k] + j], for `rows` values of i and `wide` registers of values of j. If
 * `fresh`, the previous sums are not read. Rows of sums are 3 registers apart. */
INLINE void NAME(tile)(const int rows, const int wide, npy_intp n, const REAL *a, const REAL *b, const npy_intp *off,
                       REAL *sums, int fresh)
{
    VEC total[8][3];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 3
        for (int j = 0; j < wide; ++j)
            total[i][j] = (VEC){0};
    for (npy_intp k = 0; k < n; ++k) {
        const REAL *line = b + off[k];
        VEC v[3];
#pragma GCC unroll 3
        for (int j = 0; j < wide; ++j)
            v[j] = *(const VEC *)(line + j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
            VEC w = a[i] - (VEC){0};
#pragma GCC unroll 3
            for (int j = 0; j < wide; ++j)
                total[i][j] += w * v[j];
        }
        a += rows;
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 3
        for (int j = 0; j < wide; ++j) {
            VEC *to = (VEC *)(sums + (3 * i + j) * LANES);
            if (!fresh)
                total[i][j] += *to;
            *to = total[i][j];
        }
}

/* sums[i][j] += sum over k of b[at[i] + off[k]] w[k][j], for `rows` pixels i and `wide` registers of filters j. If
 * `fresh`, the previous sums are not read. Pixels are read in place and broadcast. Rows of sums are 3 registers
 * apart. */
INLINE void NAME(across)(const int rows, const int wide, npy_intp n, const REAL *b, const npy_intp *at,
                         const npy_intp *off, const REAL *w, REAL *sums, int fresh)
{
    VEC total[8][3];
    const REAL *from[8];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
        from[i] = b + at[i];
#pragma GCC unroll 3
        for (int j = 0; j < wide; ++j)
            total[i][j] = (VEC){0};
    }
    for (npy_intp k = 0; k < n; ++k) {
        npy_intp here = off[k];
        VEC v[3];
#pragma GCC unroll 3
        for (int j = 0; j < wide; ++j)
            v[j] = *(const VEC *)(w + j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
            VEC pixel = from[i][here] - (VEC){0};
#pragma GCC unroll 3
            for (int j = 0; j < wide; ++j)
                total[i][j] += pixel * v[j];
        }
        w += wide * LANES;
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 3
        for (int j = 0; j < wide; ++j) {
            VEC *to = (VEC *)(sums + (3 * i + j) * LANES);
            if (!fresh)
                total[i][j] += *to;
            *to = total[i][j];
        }
}

/* sums[i][j] += the sum of x[off[i] + line * pitch + column] * y[line][column][j] over the lines and columns of a
 * block. Elements of x are read in place and broadcast. Rows of sums are `wide` registers apart; columns of y are
 * `step` elements apart. */
INLINE void NAME(outer)(const int rows, const int wide, npy_intp lines, npy_intp columns, const REAL *x, npy_intp pitch,
                        const npy_intp *off, const REAL *y, npy_intp step, REAL *sums)
{
    VEC total[8][4];
    const REAL *from[8];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
        from[i] = x + off[i];
#pragma GCC unroll 4
        for (int j = 0; j < wide; ++j)
            total[i][j] = *(const VEC *)(sums + (wide * i + j) * LANES);
    }
    for (npy_intp line = 0; line < lines; ++line) {
        for (npy_intp column = 0; column < columns; ++column) {
            VEC v[4];
#pragma GCC unroll 4
            for (int j = 0; j < wide; ++j)
                v[j] = *(const VEC *)(y + j * LANES);
#pragma GCC unroll 8
            for (int i = 0; i < rows; ++i) {
                VEC w = from[i][column] - (VEC){0};
#pragma GCC unroll 4
                for (int j = 0; j < wide; ++j)
                    total[i][j] += w * v[j];
            }
            y += step;
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i)
            from[i] += pitch;
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < wide; ++j)
            *(VEC *)(sums + (wide * i + j) * LANES) = total[i][j];
}

/* sums[i][lane] += x[off[i] + line * pitch + column] y[line * y_pitch + column], one register of columns at a time.
 * Each lane has a separate sum; the caller adds up the lanes. Both operands may be read up to a register after the end
 * of a line. */
INLINE void NAME(along)(const int rows, npy_intp lines, npy_intp columns, const REAL *x, npy_intp pitch,
                        const npy_intp *off, const REAL *y, npy_intp y_pitch, REAL *sums)
{
    VEC total[9];
    npy_intp whole = columns / LANES * LANES;
    NAME(mask) inside = {0};
    for (int i = 0; i < LANES; ++i)
        inside[i] = i < columns - whole ? -1 : 0;
#pragma GCC unroll 9
    for (int i = 0; i < rows; ++i)
        total[i] = *(const VEC *)(sums + i * LANES);
    for (npy_intp line = 0; line < lines; ++line) {
        for (npy_intp column = 0; column < whole; column += LANES) {
            VEC v = *(const VEC *)(y + column);
#pragma GCC unroll 9
            for (int i = 0; i < rows; ++i)
                total[i] += *(const VEC *)(x + off[i] + column) * v;
        }
        if (whole < columns) {
            /* Set the elements after the end of the line to zero: memory there may contain anything, such as NaN. */
            VEC v = (VEC)(*(const NAME(mask) *)(y + whole) & inside);
#pragma GCC unroll 9
            for (int i = 0; i < rows; ++i)
                total[i] += (VEC)(*(const NAME(mask) *)(x + off[i] + whole) & inside) * v;
        }
        x += pitch;
        y += y_pitch;
    }
#pragma GCC unroll 9
    for (int i = 0; i < rows; ++i)
        *(VEC *)(sums + i * LANES) = total[i];
}

/* Copy the pieces of n lines to lines of 3 registers, so that the pieces are adjacent. The function may read up to a
 * register after a piece, and write up to a register after the last line. */
static void NAME(pack)(npy_intp n, const npy_intp *off, const REAL *from, const struct piece *pieces, int n_pieces,
                       REAL *to)
{
    for (int p = 0; p < n_pieces; ++p) {
        const REAL *source = from + pieces[p].from;
        REAL *line = to + pieces[p].column;
        npy_intp whole = pieces[p].n / LANES * LANES;
        if (whole < pieces[p].n && pieces[p].column + whole + LANES <= 3 * LANES)
            whole += LANES; /* copy a whole register: the next pieces overwrite the excess elements */
        for (npy_intp i = 0; i < whole; i += LANES)
            for (npy_intp k = 0; k < n; ++k)
                *(VEC *)(line + k * 3 * LANES + i) = *(const VEC *)(source + off[k] + i);
        if (whole < pieces[p].n) {
            NAME(mask) inside = {0};
            for (int i = 0; i < LANES; ++i)
                inside[i] = i < pieces[p].n - whole ? -1 : 0;
            for (npy_intp k = 0; k < n; ++k) {
                NAME(mask) *end = (NAME(mask) *)(line + k * 3 * LANES + whole);
                *end = (*end & ~inside) | (*(const NAME(mask) *)(source + off[k] + whole) & inside);
            }
        }
    }
}

/* Transpose a square matrix in registers. The position of an element consists of the bits of its row number, then the
 * bits of its column number. Each round moves the highest bit to the other end. After one round for each bit of the row
 * number, rows are columns. */
INLINE void NAME(transpose_square)(VEC *v)
{
    NAME(mask) low, high;
    for (int k = 0; k < LANES; ++k) {
        low[k] = k / 2 + k % 2 * LANES;
        high[k] = low[k] + LANES / 2;
    }
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
        VEC next[LANES];
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; ++i) {
            next[2 * i] = __builtin_shuffle(v[i], v[i + LANES / 2], low);
            next[2 * i + 1] = __builtin_shuffle(v[i], v[i + LANES / 2], high);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; ++i)
            v[i] = next[i];
    }
}

/* out[column][row] = in[row][column], for at most a register of rows, which are `pitch` elements apart. Lines of out
 * are `step` elements apart. Each line has the length of a register; its elements for missing rows are zero. Elements
 * after a row of `in` may be read, but not in[limit] or later elements. */
static void NAME(transpose)(npy_intp rows, npy_intp columns, const REAL *in, npy_intp pitch, npy_intp limit, REAL *out,
                            npy_intp step)
{
    for (npy_intp begin = 0; begin < columns; begin += LANES) {
        /* The last round handles a whole register of columns if possible, so it may repeat some columns. */
        npy_intp column = columns >= LANES && begin + LANES > columns ? columns - LANES : begin;
        npy_intp count = columns - column < LANES ? columns - column : LANES;
        VEC v[LANES];
        if (rows == LANES && (rows - 1) * pitch + column + LANES <= limit) {
#pragma GCC unroll 16
            for (int i = 0; i < LANES; ++i)
                v[i] = *(const VEC *)(in + i * pitch + column);
        }
        else
            for (int i = 0; i < LANES; ++i) {
                v[i] = (VEC){0};
                if (i < rows && i * pitch + column + LANES <= limit)
                    v[i] = *(const VEC *)(in + i * pitch + column);
                else if (i < rows)
                    for (int k = 0; k < count; ++k)
                        v[i][k] = in[i * pitch + column + k];
            }
        NAME(transpose_square)(v);
        if (count == LANES) {
#pragma GCC unroll 16
            for (int k = 0; k < LANES; ++k)
                *(VEC *)(out + (column + k) * step) = v[k];
        }
        else
            for (int k = 0; k < count; ++k)
                *(VEC *)(out + (column + k) * step) = v[k];
    }
}

/* Copy n elements. */
INLINE void NAME(copy)(REAL *to, const REAL *from, npy_intp n)
{
    npy_intp i = 0;
    for (; i + LANES <= n; i += LANES)
        *(VEC *)(to + i) = *(const VEC *)(from + i);
    if (i < n) {
        if (i > 0)
            *(VEC *)(to + n - LANES) = *(const VEC *)(from + n - LANES);
        else if (n >= LANES / 2) {
            NAME(half) first = *(const NAME(half) *)from, last = *(const NAME(half) *)(from + n - LANES / 2);
            *(NAME(half) *)to = first;
            *(NAME(half) *)(to + n - LANES / 2) = last;
        }
        else
            for (; i < n; ++i)
                to[i] = from[i];
    }
}

/* Copy the sums of a tile to their outputs, for `filters` filters. */
static void NAME(unpack)(npy_intp filters, const REAL *sums, const struct piece *pieces, int n_pieces, REAL *to,
                         npy_intp to_filter, npy_intp step)
{
    for (npy_intp f = 0; f < filters; ++f, sums += 3 * LANES, to += to_filter)
        for (int p = 0; p < n_pieces; ++p) {
            const REAL *sum = sums + pieces[p].column;
            REAL *out = to + pieces[p].to;
            if (step == 1)
                NAME(copy)(out, sum, pieces[p].n);
            else
                for (npy_intp i = 0; i < pieces[p].n; ++i)
                    out[i * step] = sum[i];
        }
}

/* Add `lines` lines of n elements to lines whose elements are `step` apart. */
static void NAME(add)(npy_intp lines, npy_intp n, const REAL *from, npy_intp pitch, REAL *to, npy_intp to_pitch,
                      npy_intp step)
{
    for (; lines > 0; --lines, from += pitch, to += to_pitch) {
        npy_intp i = 0;
        if (step == 1) {
            for (; i + LANES <= n; i += LANES)
                *(VEC *)(to + i) += *(const VEC *)(from + i);
            if (i + LANES / 2 <= n) {
                *(NAME(half) *)(to + i) += *(const NAME(half) *)(from + i);
                i += LANES / 2;
            }
            for (; i + LEAST <= n; i += LEAST)
                *(NAME(least) *)(to + i) += *(const NAME(least) *)(from + i);
        }
        for (; i < n; ++i)
            to[i * step] += from[i];
    }
}

/* Copy every second of 2 n - 1 elements, for n > LANES / 2, and return n. */
INLINE npy_intp NAME(every_second)(REAL *to, const REAL *from, npy_intp n)
{
    NAME(mask) even;
    NAME(half_mask) even_half;
    for (int k = 0; k < LANES; ++k)
        even[k] = 2 * k;
    for (int k = 0; k < LANES / 2; ++k)
        even_half[k] = 2 * k;
    npy_intp i = 0, last = n - LANES / 2;
    for (; i + LANES < n; i += LANES)
        *(VEC *)(to + i) = __builtin_shuffle(*(const VEC *)(from + 2 * i), *(const VEC *)(from + 2 * i + LANES), even);
    if (i < last)
        *(NAME(half) *)(to + i) = __builtin_shuffle(*(const NAME(half) *)(from + 2 * i),
                                                    *(const NAME(half) *)(from + 2 * i + LANES / 2), even_half);
    /* For the last elements, load vectors that begin one element earlier, so that no load goes beyond the line. */
    const REAL *end = from + 2 * last - 1;
    *(NAME(half) *)(to + last) =
        __builtin_shuffle(*(const NAME(half) *)end, *(const NAME(half) *)(end + LANES / 2), even_half + 1);
    return n;
}

/* Write a few zeros. */
INLINE void NAME(clear)(REAL *to, npy_intp n)
{
    for (; n > 0; --n) {
        *to++ = 0;
        __asm__ volatile(""
                         :
                         :
                         : "memory"); /* prevents a call of memset, which costs more than the loop for the
                                                 * few zeros at the end of a line */
    }
}

/* The inverse of split: interleave n elements of each array. */
INLINE void NAME(merge)(REAL *to, const REAL *even, const REAL *odd, npy_intp n)
{
    NAME(mask) low, high;
    NAME(half_mask) half_low, half_high;
    for (int k = 0; k < LANES; ++k) {
        low[k] = k / 2 + k % 2 * LANES;
        high[k] = low[k] + LANES / 2;
    }
    for (int k = 0; k < LANES / 2; ++k) {
        half_low[k] = k / 2 + k % 2 * (LANES / 2);
        half_high[k] = half_low[k] + LANES / 4;
    }
    npy_intp i = 0;
    if (n >= LANES)
        for (; i < n; i += LANES) {
            i = i + LANES > n ? n - LANES : i; /* handle the last elements, some of them a second time */
            VEC a = *(const VEC *)(even + i), b = *(const VEC *)(odd + i);
            *(VEC *)(to + 2 * i) = __builtin_shuffle(a, b, low);
            *(VEC *)(to + 2 * i + LANES) = __builtin_shuffle(a, b, high);
        }
    else if (LANES > 2 && n >= LANES / 2)
        for (; i < n; i += LANES / 2) {
            i = i + LANES / 2 > n ? n - LANES / 2 : i;
            NAME(half) a = *(const NAME(half) *)(even + i), b = *(const NAME(half) *)(odd + i);
            *(NAME(half) *)(to + 2 * i) = __builtin_shuffle(a, b, half_low);
            *(NAME(half) *)(to + 2 * i + LANES / 2) = __builtin_shuffle(a, b, half_high);
        }
    else
        for (; i < n; ++i) {
            to[2 * i] = even[i];
            to[2 * i + 1] = odd[i];
        }
}

/* The variant of unpack for two tiles whose outputs alternate. */
static void NAME(unpack_two)(npy_intp filters, const REAL *even, const REAL *odd, const struct piece *pieces,
                             int n_pieces, REAL *to, npy_intp to_filter)
{
    for (npy_intp f = 0; f < filters; ++f, even += 3 * LANES, odd += 3 * LANES, to += to_filter)
        for (int p = 0; p < n_pieces; ++p)
            NAME(merge)(to + pieces[p].to, even + pieces[p].column, odd + pieces[p].column, pieces[p].n);
}

/* Fill lines of a frame of `width` elements each. The elements first ... end - 1 are every step-th element of a line of
 * the image; the other elements are zero. */
static void NAME(fill)(npy_intp lines, npy_intp width, npy_intp first, npy_intp end, REAL *to, const REAL *from,
                       npy_intp pitch, npy_intp step)
{
    npy_intp n = end - first;
    for (; lines > 0; --lines, to += width, from += pitch) {
        REAL *out = to + first;
        npy_intp i = 0;
        NAME(clear)(to, first);
        if (step == 1)
            NAME(copy)(out, from, n);
        else {
            if (step == 2 && n > LANES / 2)
                i = NAME(every_second)(out, from, n);
            for (; i < n; ++i)
                out[i] = from[i * step];
        }
        NAME(clear)(to + end, width - end);
    }
}

/* Split 2 n elements into the elements with even indices and the elements with odd indices. */
INLINE void NAME(split)(REAL *even, REAL *odd, const REAL *from, npy_intp n)
{
    NAME(mask) numbers;
    NAME(half_mask) half_numbers;
    for (int k = 0; k < LANES; ++k)
        numbers[k] = 2 * k;
    for (int k = 0; k < LANES / 2; ++k)
        half_numbers[k] = 2 * k;
    npy_intp i = 0;
    if (n >= LANES)
        for (; i < n; i += LANES) {
            i = i + LANES > n ? n - LANES : i; /* handle the last elements, some of them a second time */
            VEC a = *(const VEC *)(from + 2 * i), b = *(const VEC *)(from + 2 * i + LANES);
            *(VEC *)(even + i) = __builtin_shuffle(a, b, numbers);
            *(VEC *)(odd + i) = __builtin_shuffle(a, b, numbers + 1);
        }
    else if (n >= LANES / 2)
        for (; i < n; i += LANES / 2) {
            i = i + LANES / 2 > n ? n - LANES / 2 : i;
            NAME(half) a = *(const NAME(half) *)(from + 2 * i), b = *(const NAME(half) *)(from + 2 * i + LANES / 2);
            *(NAME(half) *)(even + i) = __builtin_shuffle(a, b, half_numbers);
            *(NAME(half) *)(odd + i) = __builtin_shuffle(a, b, half_numbers + 1);
        }
    else
        for (; i < n; ++i) {
            even[i] = from[2 * i];
            odd[i] = from[2 * i + 1];
        }
}

/* Fill lines of two frames, which are `apart` elements apart. The first frame gets the elements x, x + 2, x + 4 ... of
 * a line of the image; the second frame gets the elements x + 1, x + 3 ... Elements outside the line, which has
 * `length` elements, are zero. */
static void NAME(fill_two)(npy_intp lines, npy_intp width, npy_intp apart, npy_intp x, npy_intp length, REAL *to,
                           const REAL *from, npy_intp pitch)
{
    npy_intp first = x >= 0 ? 0 : (1 - x) / 2, end = length <= x ? 0 : (length - x) / 2;
    first = first > width ? width : first;
    end = end > width ? width : end < first ? first : end;
    for (; lines > 0; --lines, to += width, from += pitch) {
        for (npy_intp p = first > 0 ? 0 : end; p < width; p = p + 1 == first ? end : p + 1) {
            npy_intp pixel = x + 2 * p;
            to[p] = pixel >= 0 && pixel < length ? from[pixel] : 0;
            to[apart + p] = pixel >= -1 && pixel + 1 < length ? from[pixel + 1] : 0;
        }
        NAME(split)(to + first, to + apart + first, from + x + 2 * first, end - first);
    }
}

/* Return the dot product of two lines. */
static REAL NAME(dot)(npy_intp n, const REAL *a, const REAL *b)
{
    VEC even = {0}, odd = {0};
    npy_intp k = 0;
    for (; k + 2 * LANES <= n; k += 2 * LANES) {
        even += *(const VEC *)(a + k) * *(const VEC *)(b + k);
        odd += *(const VEC *)(a + k + LANES) * *(const VEC *)(b + k + LANES);
    }
    even += odd;
    REAL total = 0;
    for (int i = 0; i < LANES; ++i)
        total += even[i];
    for (; k < n; ++k)
        total += a[k] * b[k];
    return total;
}

/* to += factor * from */
static void NAME(add_scaled)(npy_intp n, REAL factor, const REAL *from, REAL *to)
{
    for (npy_intp k = 0; k < n; ++k)
        to[k] += factor * from[k];
}

#define TILE(rows, wide)                                                                                              \
    static void NAME(tile_##rows##_##wide)(npy_intp n, const REAL *a, const REAL *b, const npy_intp *off, REAL *sums, \
                                           int fresh)                                                                 \
    {                                                                                                                 \
        NAME(tile)(rows, wide, n, a, b, off, sums, fresh);                                                            \
    }
#define ACROSS(rows, wide)                                                                                       \
    static void NAME(across_##rows##_##wide)(npy_intp n, const REAL *b, const npy_intp *at, const npy_intp *off, \
                                             const REAL *w, REAL *sums, int fresh)                               \
    {                                                                                                            \
        NAME(across)(rows, wide, n, b, at, off, w, sums, fresh);                                                 \
    }
#define OUTER(rows, wide)                                                                                    \
    static void NAME(outer_##rows##_##wide)(npy_intp lines, npy_intp columns, const REAL *x, npy_intp pitch, \
                                            const npy_intp *off, const REAL *y, npy_intp step, REAL *sums)   \
    {                                                                                                        \
        NAME(outer)(rows, wide, lines, columns, x, pitch, off, y, step, sums);                               \
    }
#define ALONG(rows)                                                                                  \
    static void NAME(along_##rows)(npy_intp lines, npy_intp columns, const REAL *x, npy_intp pitch,  \
                                   const npy_intp *off, const REAL *y, npy_intp y_pitch, REAL *sums) \
    {                                                                                                \
        NAME(along)(rows, lines, columns, x, pitch, off, y, y_pitch, sums);                          \
    }
#define EACH_ROWS_4(f, ...) f(1, ##__VA_ARGS__) f(2, ##__VA_ARGS__) f(3, ##__VA_ARGS__) f(4, ##__VA_ARGS__)
#define EACH_ROWS_8(f, ...)       \
    EACH_ROWS_4(f, ##__VA_ARGS__) \
    f(5, ##__VA_ARGS__) f(6, ##__VA_ARGS__) f(7, ##__VA_ARGS__) f(8, ##__VA_ARGS__)
#define EACH_NAME(f, wide) NAME(f##_1##wide), NAME(f##_2##wide), NAME(f##_3##wide), NAME(f##_4##wide)
#define MORE_NAMES(f, wide) NAME(f##_5##wide), NAME(f##_6##wide), NAME(f##_7##wide), NAME(f##_8##wide)
#if ROWS == 8
EACH_ROWS_8(TILE, 1)
EACH_ROWS_8(TILE, 2)
EACH_ROWS_8(TILE, 3)
EACH_ROWS_8(ACROSS, 1)
EACH_ROWS_8(ACROSS, 2)
EACH_ROWS_8(ACROSS, 3)
EACH_ROWS_8(OUTER, 1)
EACH_ROWS_8(OUTER, 2)
EACH_ROWS_8(OUTER, 3)
EACH_ROWS_4(OUTER, 4)
OUTER(5, 4)
OUTER(6, 4)
#define ROW_OF(f, wide) {EACH_NAME(f, wide), MORE_NAMES(f, wide)}
#else
EACH_ROWS_4(TILE, 1)
EACH_ROWS_4(TILE, 2)
EACH_ROWS_4(TILE, 3)
EACH_ROWS_4(ACROSS, 1)
EACH_ROWS_4(ACROSS, 2)
EACH_ROWS_4(ACROSS, 3)
EACH_ROWS_4(OUTER, 1)
EACH_ROWS_4(OUTER, 2)
EACH_ROWS_4(OUTER, 3)
#define ROW_OF(f, wide) {EACH_NAME(f, wide)}
#endif
EACH_ROWS_8(ALONG)
ALONG(9)

static const struct TYPED(kernels) NAME(kernels) = {
    .lanes = LANES,
    .rows = ROWS,
    .tile = {ROW_OF(tile, _1), ROW_OF(tile, _2), ROW_OF(tile, _3)},
    .across = {ROW_OF(across, _1), ROW_OF(across, _2), ROW_OF(across, _3)},
#if ROWS == 8
    .widest = 4,
    .outer_rows = {8, 8, 8, 6},
    .outer = {ROW_OF(outer, _1),
              ROW_OF(outer, _2),
              ROW_OF(outer, _3),
              {EACH_NAME(outer, _4), NAME(outer_5_4), NAME(outer_6_4)}},
#else
    .widest = 3,
    .outer_rows = {4, 4, 4},
    .outer = {ROW_OF(outer, _1), ROW_OF(outer, _2), ROW_OF(outer, _3)},
#endif
    .along = {EACH_NAME(along, ), MORE_NAMES(along, ), NAME(along_9)},
    .transpose = NAME(transpose),
    .pack = NAME(pack),
    .unpack = NAME(unpack),
    .unpack_two = NAME(unpack_two),
    .add = NAME(add),
    .fill = NAME(fill),
    .fill_two = NAME(fill_two),
    .dot = NAME(dot),
    .add_scaled = NAME(add_scaled),
};
#undef TILE
#undef ACROSS
#undef OUTER
#undef ALONG
#undef EACH_ROWS_4
#undef EACH_ROWS_8
#undef EACH_NAME
#undef MORE_NAMES
#undef ROW_OF
#undef VEC
#undef LANES
#undef LEAST
#undef INLINE
