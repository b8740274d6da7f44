/* Stable radix sort, and selection by histograms, on order-preserving keys (sort_keys.h).
 *
 * A sort by all digits needs one pass for each digit of the range of the keys. The size of the digits is chosen so that
 * the counters stay in the first or second cache level. A pass is skipped if all elements have the same digit. */
#ifndef THEANO_NG_RADIX_H
#define THEANO_NG_RADIX_H

#include "sort_keys.h"

#define DIGIT_BITS 11
#define DIGIT_BITS_FEW 8
#define RADIX_FEW 6000 /* below this number of elements, digits have only DIGIT_BITS_FEW bits */
#define RADIX_PASSES 8
/* The number of counters of all passes. */
#define RADIX_COUNTERS (((64 + DIGIT_BITS - 1) / DIGIT_BITS) << DIGIT_BITS)

typedef struct {
    int passes, bits;
} Digits;

/* Choose the number and the size of the digits for n keys from 0 to `range`. */
static inline Digits radix_digits(uint64_t range, npy_intp n)
{
    int most = n < RADIX_FEW ? DIGIT_BITS_FEW : DIGIT_BITS, length = bit_length(range);
    Digits d;
    d.passes = (length + most - 1) / most;
    d.bits = d.passes == 0 ? 0 : (length + d.passes - 1) / d.passes;
    return d;
}

/* Replace the count of each digit in a pass by the first position of the elements with this digit. Return 0 if all n
 * elements have the same digit. */
static inline int radix_positions(npy_intp *count, int bits, npy_intp n)
{
    npy_intp sum = 0;
    for (npy_intp b = 0; b < (npy_intp)1 << bits; ++b) {
        npy_intp here = count[b];
        if (here == n)
            return 0;
        count[b] = sum;
        sum += here;
    }
    return 1;
}

/* Define radix_<name>, which sorts the elements x of type `bits_t` by `KEY(element)` into z. The memory of x and of z
 * does not overlap. tmp has room for n elements.
 *
 * If there are more than three digits, elements are first sorted by the upper three digits. An insertion sort then
 * completes the order, usually with few moves. If it needs too many moves, because the elements are concentrated in few
 * parts of their range, the elements are sorted by all digits instead. */
#define DEFINE_RADIX(name, bits_t, KEY)                                                                            \
    static inline __attribute__((always_inline)) void counts_##name(                                               \
        const bits_t *x, npy_intp n, bits_t low, int shift, const int passes, int bits, npy_intp *count)           \
    {                                                                                                              \
        const uint64_t mask = ((uint64_t)1 << bits) - 1;                                                           \
        for (npy_intp i = 0; i < n; ++i) {                                                                         \
            uint64_t key = (uint64_t)(bits_t)(KEY(x[i]) - low) >> shift;                                           \
            for (int p = 0; p < passes; ++p) {                                                                     \
                ++count[((npy_intp)p << bits) + (npy_intp)(key & mask)];                                           \
                key >>= bits;                                                                                      \
            }                                                                                                      \
        }                                                                                                          \
    }                                                                                                              \
    static void passes_##name(const bits_t *x, npy_intp n, bits_t low, int skip, Digits d, bits_t *z, bits_t *tmp, \
                              npy_intp *count)                                                                     \
    {                                                                                                              \
        const uint64_t mask = ((uint64_t)1 << d.bits) - 1;                                                         \
        int todo[RADIX_PASSES], left = 0;                                                                          \
        memset(count, 0, ((size_t)d.passes << d.bits) * sizeof *count);                                            \
        switch (d.passes) {                                                                                        \
        case 0: break;                                                                                             \
        case 1: counts_##name(x, n, low, skip, 1, d.bits, count); break;                                           \
        case 2: counts_##name(x, n, low, skip, 2, d.bits, count); break;                                           \
        case 3: counts_##name(x, n, low, skip, 3, d.bits, count); break;                                           \
        default: counts_##name(x, n, low, skip, d.passes, d.bits, count);                                          \
        }                                                                                                          \
        for (int p = 0; p < d.passes; ++p)                                                                         \
            if (radix_positions(count + ((npy_intp)p << d.bits), d.bits, n))                                       \
                todo[left++] = p;                                                                                  \
        if (left == 0)                                                                                             \
            memcpy(z, x, (size_t)n * sizeof *x);                                                                   \
        for (int k = 0; k < left; ++k) {                                                                           \
            npy_intp *restrict place = count + ((npy_intp)todo[k] << d.bits);                                      \
            const int shift = skip + todo[k] * d.bits;                                                             \
            bits_t *restrict to = (left - k) % 2 ? z : tmp;                                                        \
            for (npy_intp i = 0; i < n; ++i) {                                                                     \
                bits_t element = x[i];                                                                             \
                to[place[((uint64_t)(bits_t)(KEY(element) - low) >> shift) & mask]++] = element;                   \
            }                                                                                                      \
            x = to;                                                                                                \
        }                                                                                                          \
    }                                                                                                              \
    /* Insertion sort; return 0 if it takes too many moves. */                                                     \
    static int settle_##name(bits_t *z, npy_intp n)                                                                \
    {                                                                                                              \
        npy_intp moves = 4 * n + 64;                                                                               \
        for (npy_intp i = 1; i < n; ++i) {                                                                         \
            bits_t element = z[i], key = KEY(element);                                                             \
            npy_intp j = i;                                                                                        \
            for (; j > 0 && KEY(z[j - 1]) > key; --j)                                                              \
                z[j] = z[j - 1];                                                                                   \
            z[j] = element;                                                                                        \
            moves -= i - j;                                                                                        \
            if (i - j > 1000 || moves < 0)                                                                         \
                return 0;                                                                                          \
        }                                                                                                          \
        return 1;                                                                                                  \
    }                                                                                                              \
    static void radix_##name(const bits_t *x, npy_intp n, bits_t low, bits_t high, bits_t *z, bits_t *tmp,         \
                             npy_intp *count)                                                                      \
    {                                                                                                              \
        uint64_t range = (uint64_t)(bits_t)(high - low);                                                           \
        Digits d = radix_digits(range, n);                                                                         \
        if (d.passes > 3) {                                                                                        \
            const Digits upper = {3, n < RADIX_FEW ? DIGIT_BITS_FEW : DIGIT_BITS};                                 \
            passes_##name(x, n, low, bit_length(range) - 3 * upper.bits, upper, z, tmp, count);                    \
            if (settle_##name(z, n))                                                                               \
                return;                                                                                            \
        }                                                                                                          \
        passes_##name(x, n, low, 0, d, z, tmp, count);                                                             \
    }

/* A record has a 32-bit key in its upper half and a 32-bit position in its lower half. Records are sorted
 * by the key alone. */
#define HIGH_HALF(record) ((record) & 0xffffffff00000000u)

/* Sort records in two alternating buffers. Return the buffer with the result. `range`: the largest key. */
static MAYBE_UNUSED uint64_t *radix_records(uint64_t *records, uint64_t *other, npy_intp n, uint64_t range,
                                            npy_intp *count)
{
    Digits d = radix_digits(range, n);
    const uint64_t mask = ((uint64_t)1 << d.bits) - 1;
    memset(count, 0, ((size_t)d.passes << d.bits) * sizeof *count);
    for (npy_intp i = 0; i < n; ++i) {
        uint64_t key = records[i] >> 32;
        for (int p = 0; p < d.passes; ++p, key >>= d.bits)
            ++count[((npy_intp)p << d.bits) + (npy_intp)(key & mask)];
    }
    for (int p = 0; p < d.passes; ++p) {
        npy_intp *restrict place = count + ((npy_intp)p << d.bits);
        const int shift = 32 + p * d.bits;
        if (!radix_positions(place, d.bits, n))
            continue;
        const uint64_t *restrict from = records;
        uint64_t *restrict to = other;
        for (npy_intp i = 0; i < n; ++i)
            to[place[(from[i] >> shift) & mask]++] = from[i];
        other = records;
        records = to;
    }
    return records;
}

/* ---------------------------------------------------------------- positions sorted by keys */

typedef struct {
    uint64_t key;
    int64_t at;
} Keyed;

#define FEW_KEYED 512

/* Stable merge sort of at most FEW_KEYED records; `other` has room for n records. */
static MAYBE_UNUSED void sort_few(Keyed *records, Keyed *other, npy_intp n)
{
    enum { RUN = 16 };
    for (npy_intp start = 0; start < n; start += RUN) {
        npy_intp end = start + RUN < n ? start + RUN : n;
        for (npy_intp i = start + 1; i < end; ++i) {
            Keyed moving = records[i];
            npy_intp j = i;
            for (; j > start && records[j - 1].key > moving.key; --j)
                records[j] = records[j - 1];
            records[j] = moving;
        }
    }
    Keyed *from = records, *to = other;
    for (npy_intp width = RUN; width < n; width *= 2) {
        for (npy_intp start = 0; start < n; start += 2 * width) {
            npy_intp middle = start + width < n ? start + width : n,
                     end = start + 2 * width < n ? start + 2 * width : n;
            npy_intp a = start, b = middle, k = start;
            while (a < middle && b < end) {
                int second = from[b].key < from[a].key;
                to[k++] = from[second ? b : a];
                b += second;
                a += !second;
            }
            memcpy(to + k, from + a, (size_t)(middle - a) * sizeof *to);
            memcpy(to + k + (middle - a), from + b, (size_t)(end - b) * sizeof *to);
        }
        Keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != records)
        memcpy(records, from, (size_t)n * sizeof *records);
}

#define FEW_EQUAL 128

/* Sort groups of records with equal upper parts of the keys; the records are already sorted by these parts. Return 0 if
 * a group is too large. */
static MAYBE_UNUSED int settle_records(uint64_t *sorted, npy_intp n, const uint64_t *keys)
{
    Keyed records[FEW_EQUAL], other[FEW_EQUAL];
    for (npy_intp start = 0, end; start < n; start = end) {
        uint64_t upper = sorted[start] >> 32;
        for (end = start + 1; end < n && sorted[end] >> 32 == upper;)
            ++end;
        npy_intp count = end - start;
        if (count == 1)
            continue;
        if (count > FEW_EQUAL)
            return 0;
        for (npy_intp i = 0; i < count; ++i) {
            uint64_t at = sorted[start + i] & UINT32_MAX;
            records[i] = (Keyed){keys[at], (int64_t)at};
        }
        sort_few(records, other, count);
        for (npy_intp i = 0; i < count; ++i)
            sorted[start + i] = (uint64_t)records[i].at;
    }
    return 1;
}

/* order <- the positions that sort the keys, in a stable order. `work` has n words, and `count` has RADIX_COUNTERS
 * elements. The keys are not changed. */
static MAYBE_UNUSED void order_of_keys(const uint64_t *keys, npy_intp n, int64_t *order, uint64_t *work,
                                       npy_intp *count)
{
    uint64_t low, high, *sorted;
    if (n <= FEW_EQUAL) {
        Keyed records[FEW_EQUAL], other[FEW_EQUAL];
        for (npy_intp i = 0; i < n; ++i)
            records[i] = (Keyed){keys[i], i};
        sort_few(records, other, n);
        for (npy_intp i = 0; i < n; ++i)
            order[i] = records[i].at;
        return;
    }
    keys_range(keys, n, &low, &high);
    if ((uint64_t)n > UINT32_MAX) {
        /* Positions do not fit into half a word: sort by one byte at a time, and move only positions. */
        uint64_t *from = work, *to = (uint64_t *)order;
        for (npy_intp i = 0; i < n; ++i)
            from[i] = (uint64_t)i;
        for (int shift = 0; shift < bit_length(high - low); shift += 8) {
            memset(count, 0, 256 * sizeof *count);
            for (npy_intp i = 0; i < n; ++i)
                ++count[((keys[i] - low) >> shift) & 255];
            if (!radix_positions(count, 8, n))
                continue;
            for (npy_intp i = 0; i < n; ++i)
                to[count[((keys[from[i]] - low) >> shift) & 255]++] = from[i];
            uint64_t *swap = from;
            from = to;
            to = swap;
        }
        if (from != (uint64_t *)order)
            memcpy(order, from, (size_t)n * sizeof *order);
        return;
    }
    /* Sort by the upper part of long keys first: four bytes, or three if there are few keys. This part nearly always
     * decides the order. */
    uint64_t range = high - low;
    int length = bit_length(range), most = n < RADIX_FEW ? 3 * DIGIT_BITS_FEW : 32,
        drop = length > most ? length - most : 0;
    for (npy_intp i = 0; i < n; ++i)
        work[i] = ((keys[i] - low) >> drop) << 32 | (uint64_t)i;
    sorted = radix_records(work, (uint64_t *)order, n, range >> drop, count);
    if (drop > 0 && !settle_records(sorted, n, keys)) {
        for (npy_intp i = 0; i < n; ++i)
            work[i] = (keys[i] - low) << 32 | (uint64_t)i;
        sorted = radix_records(work, (uint64_t *)order, n, range > UINT32_MAX ? UINT32_MAX : range, count);
        for (npy_intp i = 0; i < n && length > 32; ++i) {
            uint64_t at = sorted[i] & UINT32_MAX;
            sorted[i] = HIGH_HALF(keys[at] - low) | at;
        }
        if (length > 32)
            sorted = radix_records(sorted, sorted == work ? (uint64_t *)order : work, n, range >> 32, count);
    }
    for (npy_intp i = 0; i < n; ++i)
        order[i] = (int64_t)(sorted[i] & UINT32_MAX);
}

/* order <- the positions that stably sort n rows of m keys. first[i] <- whether the i-th row in this order differs
 * from the previous row. The leftmost column decides first; later columns are compared only for rows that are equal so
 * far. `work`: room for 3 n words. */
static MAYBE_UNUSED void order_of_rows(const uint64_t *keys, npy_intp n, npy_intp m, int64_t *order, npy_uint8 *first,
                                       uint64_t *work, npy_intp *count)
{
    uint64_t *column = work + n;
    int64_t *local = (int64_t *)(work + 2 * n);
    for (npy_intp i = 0; i < n; ++i) {
        order[i] = i;
        first[i] = i == 0;
    }
    int open = n > 1;
    for (npy_intp c = 0; c < m && open; ++c) {
        open = 0;
        for (npy_intp start = 0, end; start < n; start = end) {
            for (end = start + 1; end < n && !first[end];)
                ++end;
            npy_intp length = end - start;
            if (length == 1)
                continue;
            for (npy_intp i = 0; i < length; ++i)
                column[i] = keys[order[start + i] * m + c];
            order_of_keys(column, length, local, work, count);
            for (npy_intp i = 1; i < length; ++i) {
                first[start + i] = column[local[i]] != column[local[i - 1]];
                open |= !first[start + i];
            }
            for (npy_intp i = 0; i < length; ++i)
                local[i] = order[start + local[i]];
            memcpy(order + start, local, (size_t)length * sizeof *order);
        }
    }
}

/* ---------------------------------------------------------------- selection */

/* Return the k-th smallest key (k from 1), by histograms of ever smaller ranges. *below: the number of smaller keys.
 * `work`: room for n words. */
static MAYBE_UNUSED uint64_t select_key(const uint64_t *keys, npy_intp n, npy_intp k, npy_intp *below, uint64_t *work,
                                        npy_intp *count)
{
    const npy_intp buckets = (npy_intp)1 << DIGIT_BITS;
    *below = 0;
    for (;;) {
        uint64_t low, high;
        keys_range(keys, n, &low, &high);
        int length = bit_length(high - low), shift = length > DIGIT_BITS ? length - DIGIT_BITS : 0;
        if (length == 0)
            return low;
        memset(count, 0, (size_t)buckets * sizeof *count);
        for (npy_intp i = 0; i < n; ++i)
            ++count[(keys[i] - low) >> shift];
        npy_intp bucket = 0;
        for (; k > count[bucket]; ++bucket) {
            k -= count[bucket];
            *below += count[bucket];
        }
        if (shift == 0)
            return low + (uint64_t)bucket;
        npy_intp kept = 0;
        for (npy_intp i = 0; i < n; ++i) {
            uint64_t key = keys[i];
            work[kept] = key;
            kept += (npy_intp)((key - low) >> shift) == bucket;
        }
        keys = work;
        n = kept;
    }
}

#endif
