/* Products of a sparse matrix with dense rows, for one element type. sparse.c includes this file once for each type,
 * with T, NAME(f) and, for floating point, WIDE defined. MAC(z, a, b) adds a * b to z.
 *
 * A pattern is compressed along its major dimension: the entries start[i] .. start[i + 1] - 1 belong to line i. `index`
 * has the positions of the entries in the minor dimension. The elements of a dense row are contiguous; rows are `*_row`
 * elements apart. */

#ifdef WIDE
typedef T NAME(wide) __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));
#define VEC NAME(wide)
#define LANES ((npy_intp)(64 / sizeof(T)))
/* The row of b for an entry is prefetched this number of entries earlier, because the rows have arbitrary addresses,
 * which the processor cannot predict. */
#define AHEAD 8

/* Compute one line of the product from column c on, in blocks of COUNT * LANES columns, as long as a whole block is
 * left. The sums of a block stay in registers. */
#define BLOCK(COUNT)                                                                 \
    for (; c + (COUNT) * LANES <= n; c += (COUNT) * LANES) {                         \
        VEC sum[COUNT];                                                              \
        for (int v = 0; v < (COUNT); ++v)                                            \
            sum[v] = (VEC){0};                                                       \
        for (npy_int32 k = from; k < to; ++k) {                                      \
            const T *row = b + index[k] * b_row + c, factor = data[k];               \
            if (k + AHEAD < total) {                                                 \
                const char *next = (const char *)(b + index[k + AHEAD] * b_row + c); \
                for (int v = 0; v < (COUNT); ++v)                                    \
                    __builtin_prefetch(next + 64 * v);                               \
            }                                                                        \
            for (int v = 0; v < (COUNT); ++v)                                        \
                sum[v] += factor * *(const VEC *)(row + v * LANES);                  \
        }                                                                            \
        for (int v = 0; v < (COUNT); ++v)                                            \
            *(VEC *)(z + c + v * LANES) = sum[v];                                    \
    }
#endif

/* z[i] = the sum of data * b[index] over the entries of line i. */
VECTORISED static void NAME(lines_by_rows)(npy_intp lines, npy_intp n, const npy_int32 *start, const npy_int32 *index,
                                           const T *data, const T *b, npy_intp b_row, T *z)
{
    const npy_int32 total = start[lines];
    (void)total;
    for (npy_intp i = 0; i < lines; ++i, z += n) {
        const npy_int32 from = start[i], to = start[i + 1];
        npy_intp c = 0;
#ifdef WIDE
        if (n >= LANES) {
            BLOCK(8)
            BLOCK(4)
            BLOCK(1)
        }
#endif
        /* Compute the remaining columns: a few columns, or all columns for types without WIDE. */
        for (; c < n; c += 8) {
            const npy_intp width = n - c < 8 ? n - c : 8;
            T sum[8];
            memset(sum, 0, sizeof sum);
            if (width == 1) {
                /* Use two sums, so that an addition does not wait for the previous addition. */
                npy_int32 k = from;
                for (; k + 1 < to; k += 2) {
                    MAC(sum[0], data[k], b[index[k] * b_row + c]);
                    MAC(sum[1], data[k + 1], b[index[k + 1] * b_row + c]);
                }
                if (k < to)
                    MAC(sum[0], data[k], b[index[k] * b_row + c]);
                ADD_TO(sum[0], sum[1]);
            }
            else if (width == 8)
                for (npy_int32 k = from; k < to; ++k)
                    for (int v = 0; v < 8; ++v)
                        MAC(sum[v], data[k], b[index[k] * b_row + c + v]);
            else
                for (npy_int32 k = from; k < to; ++k)
                    for (npy_intp v = 0; v < width; ++v)
                        MAC(sum[v], data[k], b[index[k] * b_row + c + v]);
            memcpy(z + c, sum, width * sizeof(T));
        }
    }
}

/* z[index] += data * b[i] for the entries of each line i. */
VECTORISED static void NAME(rows_by_lines)(npy_intp lines, npy_intp n, const npy_int32 *start, const npy_int32 *index,
                                           const T *data, const T *b, npy_intp b_row, T *z, npy_intp z_row)
{
    const npy_int32 total = start[lines];
    (void)total;
    if (n == 1) {
        for (npy_intp i = 0; i < lines; ++i, b += b_row) {
            const T factor = b[0];
            const npy_int32 to = start[i + 1];
            for (npy_int32 k = start[i]; k < to; ++k)
                MAC(z[index[k] * z_row], data[k], factor);
        }
        return;
    }
    for (npy_intp i = 0; i < lines; ++i, b += b_row)
        for (npy_int32 k = start[i]; k < start[i + 1]; ++k) {
            T *to = z + index[k] * z_row;
            const T factor = data[k];
            npy_intp c = 0;
#ifdef WIDE
            if (k + AHEAD < total) {
                const char *next = (const char *)(z + index[k + AHEAD] * z_row);
                const npy_intp bytes = n * (npy_intp)sizeof(T) < 1024 ? n * (npy_intp)sizeof(T) : 1024;
                for (npy_intp at = 0; at < bytes; at += 64)
                    __builtin_prefetch(next + at, 1);
            }
            for (; c + LANES <= n; c += LANES)
                *(VEC *)(to + c) += factor * *(const VEC *)(b + c);
#endif
            for (; c < n; ++c)
                MAC(to[c], factor, b[c]);
        }
}

/* z[k] = the dot product of row i of a and row index[k] of b, for the entries k of each line i. The dot product is
 * multiplied by scale[k] if `scale` is not NULL. */
VECTORISED static void NAME(dots_of_rows)(npy_intp lines, npy_intp n, const npy_int32 *start, const npy_int32 *index,
                                          const T *scale, const T *a, npy_intp a_row, const T *b, npy_intp b_row, T *z)
{
    const npy_int32 total = start[lines];
    (void)total;
    for (npy_intp i = 0; i < lines; ++i, a += a_row)
        for (npy_int32 k = start[i]; k < start[i + 1]; ++k) {
            const T *row = b + index[k] * b_row;
            T sum;
            memset(&sum, 0, sizeof sum);
            npy_intp c = 0;
#ifdef WIDE
            if (k + AHEAD < total) {
                const char *next = (const char *)(b + index[k + AHEAD] * b_row);
                const npy_intp bytes = n * (npy_intp)sizeof(T) < 1024 ? n * (npy_intp)sizeof(T) : 1024;
                for (npy_intp at = 0; at < bytes; at += 64)
                    __builtin_prefetch(next + at);
            }
            if (n >= LANES) {
                VEC even = {0}, odd = {0};
                for (; c + 2 * LANES <= n; c += 2 * LANES) {
                    even += *(const VEC *)(a + c) * *(const VEC *)(row + c);
                    odd += *(const VEC *)(a + c + LANES) * *(const VEC *)(row + c + LANES);
                }
                for (; c + LANES <= n; c += LANES)
                    even += *(const VEC *)(a + c) * *(const VEC *)(row + c);
                even += odd;
                for (int v = 0; v < (int)LANES; ++v)
                    sum += even[v];
            }
#endif
            for (; c < n; ++c)
                MAC(sum, a[c], row[c]);
            if (scale != NULL) {
                T product;
                memset(&product, 0, sizeof product);
                MAC(product, scale[k], sum);
                sum = product;
            }
            z[k] = sum;
        }
}

/* z[k] = data[k] * b[i, index[k]]; the strides of b are in bytes. */
static void NAME(entries_by_matrix)(npy_intp lines, const npy_int32 *start, const npy_int32 *index, const T *data,
                                    const char *b, npy_intp major, npy_intp minor, T *z)
{
    for (npy_intp i = 0; i < lines; ++i, b += major)
        for (npy_int32 k = start[i]; k < start[i + 1]; ++k) {
            T product;
            memset(&product, 0, sizeof product);
            MAC(product, data[k], *(const T *)(b + index[k] * minor));
            z[k] = product;
        }
}

/* z[k] = data[k] + b[index[k]]. */
static void NAME(entries_plus_vector)(npy_intp count, const npy_int32 *index, const T *data, const char *b,
                                      npy_intp step, T *z)
{
    for (npy_intp k = 0; k < count; ++k) {
        T total = data[k];
        ADD_TO(total, *(const T *)(b + index[k] * step));
        z[k] = total;
    }
}

/* z[i, index[k]] += data[k]; the strides of z are in bytes. */
static void NAME(matrix_plus_entries)(npy_intp lines, const npy_int32 *start, const npy_int32 *index, const T *data,
                                      char *z, npy_intp major, npy_intp minor)
{
    for (npy_intp i = 0; i < lines; ++i, z += major)
        for (npy_int32 k = start[i]; k < start[i + 1]; ++k)
            ADD_TO(*(T *)(z + index[k] * minor), data[k]);
}

/* z[k] = the sum of the entries that a second matrix (other_start, other_index, other) has at the position of entry k.
 * `line` has one element for each minor position; all elements of `line` are zero before and after the call. */
static void NAME(entries_of_other)(npy_intp lines, const npy_int32 *start, const npy_int32 *index,
                                   const npy_int32 *other_start, const npy_int32 *other_index, const T *other, T *line,
                                   T *z)
{
    for (npy_intp i = 0; i < lines; ++i) {
        for (npy_int32 k = other_start[i]; k < other_start[i + 1]; ++k)
            ADD_TO(line[other_index[k]], other[k]);
        for (npy_int32 k = start[i]; k < start[i + 1]; ++k)
            z[k] = line[index[k]];
        for (npy_int32 k = other_start[i]; k < other_start[i + 1]; ++k)
            memset(line + other_index[k], 0, sizeof(T));
    }
}

#undef VEC
#undef LANES
#undef AHEAD
#undef BLOCK
