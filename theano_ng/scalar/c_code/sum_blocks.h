/* Sum the values that a kernel computes, one block at a time. A block stays in the cache and is added to 4 vectors of
 * accumulators. The loop between TNG_SUM_BEGIN and TNG_SUM_END must write the next `tng_n` of the `tng_total` values to
 * the array VALUES. */
#define TNG_SUM_BLOCK 1024
#define TNG_SUM_BEGIN(T, VALUES)                                                  \
    typedef T tng_lanes __attribute__((vector_size(64), may_alias));              \
    enum { TNG_LANES = 64 / sizeof(T) };                                          \
    T VALUES[TNG_SUM_BLOCK] __attribute__((aligned(64)));                         \
    tng_lanes tng_sums[4] = {{0}, {0}, {0}, {0}};                                 \
    T tng_rest = 0;                                                               \
    for (int64_t tng_from = 0; tng_from < tng_total; tng_from += TNG_SUM_BLOCK) { \
        const int64_t tng_n = tng_total - tng_from < TNG_SUM_BLOCK ? tng_total - tng_from : TNG_SUM_BLOCK;

#define TNG_SUM_END(T, VALUES, ACC)                                                      \
    int64_t tng_k = 0;                                                                   \
    for (; tng_k + 4 * TNG_LANES <= tng_n; tng_k += 4 * TNG_LANES)                       \
        for (int tng_r = 0; tng_r < 4; ++tng_r)                                          \
            tng_sums[tng_r] += *(const tng_lanes *)(VALUES + tng_k + tng_r * TNG_LANES); \
    for (; tng_k < tng_n; ++tng_k)                                                       \
        tng_rest += VALUES[tng_k];                                                       \
    }                                                                                    \
    tng_sums[0] = (tng_sums[0] + tng_sums[1]) + (tng_sums[2] + tng_sums[3]);             \
    for (int tng_half = TNG_LANES / 2; tng_half > 0; tng_half /= 2)                      \
        for (int tng_l = 0; tng_l < tng_half; ++tng_l)                                   \
            tng_sums[0][tng_l] += tng_sums[0][tng_l + tng_half];                         \
    *(ACC) += tng_rest + tng_sums[0][0];

/* Add the k-th value that a kernel computes to ACC[k], one block of values at a time. The loop between
 * TNG_ADD_BEGIN and TNG_ADD_END must write the next `tng_n` of the `tng_total` values to the array VALUES. */
#define TNG_ADD_BEGIN(T, VALUES)                                                  \
    T VALUES[TNG_SUM_BLOCK] __attribute__((aligned(64)));                         \
    for (int64_t tng_from = 0; tng_from < tng_total; tng_from += TNG_SUM_BLOCK) { \
        const int64_t tng_n = tng_total - tng_from < TNG_SUM_BLOCK ? tng_total - tng_from : TNG_SUM_BLOCK;

#define TNG_ADD_END(VALUES, ACC)                    \
    for (int64_t tng_k = 0; tng_k < tng_n; ++tng_k) \
        ACC[tng_from + tng_k] += VALUES[tng_k];     \
    }
