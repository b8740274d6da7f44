/* Correlation for one floating-point type: its kernels for each instruction set, and the functions that choose and call
 * them. conv.c includes this file once for each type, with REAL, MASK and TYPED(f) defined. */
struct TYPED(kernels) {
    /* lanes: elements of a register; rows: filters of a full tile */
    int lanes, rows;
    /* widest: largest number of registers of filters in `outer`; outer_rows: number of rows of `outer` for each number
     * of registers */
    int widest, outer_rows[4];
    void (*tile[3][8])(npy_intp, const REAL *, const REAL *, const npy_intp *, REAL *, int);
    void (*across[3][8])(npy_intp, const REAL *, const npy_intp *, const npy_intp *, const REAL *, REAL *, int);
    void (*outer[4][8])(npy_intp, npy_intp, const REAL *, npy_intp, const npy_intp *, const REAL *, npy_intp, REAL *);
    void (*along[9])(npy_intp, npy_intp, const REAL *, npy_intp, const npy_intp *, const REAL *, npy_intp, REAL *);
    void (*transpose)(npy_intp, npy_intp, const REAL *, npy_intp, npy_intp, REAL *, npy_intp);
    void (*pack)(npy_intp, const npy_intp *, const REAL *, const struct piece *, int, REAL *);
    void (*unpack)(npy_intp, const REAL *, const struct piece *, int, REAL *, npy_intp, npy_intp);
    void (*unpack_two)(npy_intp, const REAL *, const REAL *, const struct piece *, int, REAL *, npy_intp);
    void (*add)(npy_intp, npy_intp, const REAL *, npy_intp, REAL *, npy_intp, npy_intp);
    void (*fill)(npy_intp, npy_intp, npy_intp, npy_intp, REAL *, const REAL *, npy_intp, npy_intp);
    void (*fill_two)(npy_intp, npy_intp, npy_intp, npy_intp, npy_intp, REAL *, const REAL *, npy_intp);
    REAL (*dot)(npy_intp, const REAL *, const REAL *);
    void (*add_scaled)(npy_intp, REAL, const REAL *, REAL *);
};

#define NAME(f) PASTE(TYPED(f), baseline)
#define WIDTH 16
#define ROWS 4
#include "conv_kernels.h"
#undef NAME
#undef WIDTH
#undef ROWS
#if defined(__x86_64__) && defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define NAME(f) PASTE(TYPED(f), avx2)
#define WIDTH 32
#define ROWS 4
#include "conv_kernels.h"
#undef NAME
#undef WIDTH
#undef ROWS
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma")
#define NAME(f) PASTE(TYPED(f), avx512)
#define WIDTH 64
#define ROWS 8
#include "conv_kernels.h"
#undef NAME
#undef WIDTH
#undef ROWS
#pragma GCC pop_options
#endif

static const struct TYPED(kernels) * TYPED(kernels_for)(int64_t wanted)
{
    switch (best_isa(wanted)) {
#if defined(__x86_64__) && defined(__GNUC__)
    case AVX512: return &PASTE(TYPED(kernels), avx512);
    case AVX2: return &PASTE(TYPED(kernels), avx2);
#endif
    default: return &PASTE(TYPED(kernels), baseline);
    }
}

#include "conv_engine.h"
#include "conv_weights.h"
#include "conv_unshared.h"

/* Let a job scatter its products (conv_engine.h) if scattering costs less than `cost`. `off` and `weight` are memory
 * for the tables of the job's pass. */
static void TYPED(consider_scattering)(struct TYPED(job) * job, const struct geometry *g, int inputs, double cost,
                                       npy_intp *off, int64_t *weight)
{
    const int64_t *source = inputs ? g->top : g->image, *target = inputs ? g->image : g->top;
    int64_t pixels = source[0] * source[1] * source[2], taps = job->taps;
    struct TYPED(job) scattered = *job;
    struct TYPED(pass) pass = {
        .grid = {source[0], source[1], source[2]}, .taps = 1, .summed = job->channels, .off = off, .weight = weight};
    if (taps == 1 || taps > FILTERS_AT_ONCE || pixels == 0
        || (!inputs && (g->stride[0] != 1 || g->stride[1] != 1 || g->stride[2] != 1)))
        return;
    scattered.scattered = 1;
    scattered.filters = job->filters * taps;
    scattered.frame = (struct frame){.channel = job->from_channel, .borrowed = 1};
    for (int i = 0; i < 3; ++i) {
        scattered.frame.pitch[i] = source[i];
        scattered.kernel[i] = g->kernel[i];
        scattered.length[i] = target[i];
        scattered.scale[i] = inputs ? g->stride[i] : 1;
        scattered.shift[i] = inputs ? -g->pad[i] : g->pad[i];
        scattered.dilation[i] = inputs ? g->dilation[i] : -g->dilation[i];
    }
    double adding =
        (double)scattered.filters * ADDING * ((double)pixels / job->kernels->lanes + (double)(source[0] * source[1]));
    if (TYPED(choose)(&scattered, &pass) + adding >= cost)
        return;
    for (int64_t c = 0; c < job->channels; ++c)
        off[c] = c * job->from_channel;
    for (int64_t t = 0; t < taps; ++t)
        weight[t] = g->flip ? taps - 1 - t : t;
    scattered.weight = weight;
    scattered.n_passes = 1;
    *job = scattered;
    job->passes[0] = pass;
    job->passes[0].weight = first_tap;
}

/* Compute the forward pass (`from` is the image) or the gradient with respect to the images (`from` is the gradient of
 * the output). */
static int TYPED(correlate_images)(const struct geometry *g, const struct TYPED(kernels) * kernels, int kind,
                                   int threads, const REAL *from, const REAL *weights, REAL *to, struct arena *arena)
{
    int inputs = kind == INPUTS;
    struct TYPED(job) job = {.kernels = kernels, .units = g->batch, .groups = g->groups, .from = from, .to = to};
    struct axis_taps *grids[3];
    int64_t n[3], taps = g->kernel[0] * g->kernel[1] * g->kernel[2], covered = 1;
    const int64_t *source = inputs ? g->top : g->image, *target = inputs ? g->image : g->top;
    job.filters = inputs ? g->channels : g->filters;
    job.channels = inputs ? g->filters : g->channels;
    for (int i = 0; i < 3; ++i) {
        n[i] = taps_of_axis(g, i, kind, &job.frame, &grids[i], arena);
        if (n[i] < 0)
            return -1;
        covered &= !inputs || n[i] == (g->stride[i] < g->image[i] ? g->stride[i] : g->image[i]);
    }
    if (finish_frame(&job.frame, sizeof(REAL), 4 * kernels->lanes) < 0)
        return -1;
    job.from_channel = source[0] * source[1] * source[2];
    job.to_filter = target[0] * target[1] * target[2];
    job.to_group = job.filters * job.to_filter;
    int64_t along[3] = {target[1] * target[2], target[2], 1};
    for (int i = 0; i < 3; ++i)
        job.step[i] = along[i] * (inputs ? g->stride[i] : 1);
    job.n_passes = n[0] * n[1] * n[2];
    job.weights = weights;
    job.taps = taps;
    job.all_weights = g->groups * g->filters * g->channels * taps;
    job.by_group = g->filters * g->channels * taps;
    job.by_filter = inputs ? taps : g->channels * taps;
    job.by_channel = inputs ? g->channels * taps : taps;
    struct TYPED(pass) *passes = take(arena, job.n_passes > 0 ? job.n_passes : 1, sizeof *passes);
    npy_intp *off = take(arena, job.channels * taps, sizeof *off),
             *consecutive = take(arena, SUMMED_AT_ONCE, sizeof *consecutive);
    int64_t *weight = take(arena, taps, sizeof *weight);
    if (passes == NULL || off == NULL || consecutive == NULL || weight == NULL)
        return -1;
    for (int64_t k = 0; k < SUMMED_AT_ONCE; ++k)
        consecutive[k] = k * 3 * kernels->lanes;
    job.consecutive = consecutive;
    job.passes = passes;
    double cost = 0;
    for (int64_t p = 0, summed = 0, n_taps = 0; p < job.n_passes; ++p) {
        const struct axis_taps *a = &grids[0][p / (n[1] * n[2])], *b = &grids[1][p / n[2] % n[1]],
                               *c = &grids[2][p % n[2]];
        struct TYPED(pass) *pass = &passes[p];
        *pass = (struct TYPED(pass)){.grid = {a->outputs, b->outputs, c->outputs},
                                     .to = a->first * along[0] + b->first * along[1] + c->first,
                                     .taps = a->n * b->n * c->n,
                                     .off = off + summed,
                                     .weight = weight + n_taps};
        pass->summed = job.channels * pass->taps;
        tabulate(g, &job.frame, a, b, c, job.channels, off + summed, weight + n_taps);
        summed += pass->summed;
        n_taps += pass->taps;
        cost += TYPED(choose)(&job, pass);
    }
    TYPED(consider_scattering)(&job, g, inputs, cost, off, weight);
    TYPED(choose_images)(&job, threads);
    job.frame_size = job.frame.borrowed ? 0 : job.images * (job.channels * job.frame.channel) + job.frame.slack;
    job.work_size = TYPED(work_for)(&job);
    job.frames = take(arena, job.frame_size, threads * (int64_t)sizeof *job.frames);
    job.work = take(arena, job.work_size, threads * (int64_t)sizeof *job.work);
    job.at = take(arena, TILES_ACROSS * 3 * kernels->lanes, threads * (int64_t)sizeof *job.at);
    if (job.frames == NULL || job.work == NULL || job.at == NULL)
        return -1;
    for (int64_t p = 0; p < job.n_passes; ++p) {
        struct TYPED(pass) *pass = &passes[p];
        pass->chunks = TYPED(count_chunks)(&job, pass);
        if (TYPED(plan)(&job, pass, job.images, &pass->whole, arena) < 0
            || (job.units % job.images != 0 && TYPED(plan)(&job, pass, job.units % job.images, &pass->rest, arena) < 0))
            return -1;
        if (pass->across && job.units <= job.images && pass->whole.blocks <= 1)
            continue; /* each block of weights is used only once: do not pack all weights in advance */
        int64_t filters = pass->across ? TYPED(registers)(&job) * kernels->lanes : job.filters;
        pass->packed = take(arena, g->groups * filters, pass->summed * (int64_t)sizeof *pass->packed);
        if (pass->packed == NULL)
            return -1;
        TYPED(pack_all)(&job, pass, threads);
    }
    for (int64_t p = 0; !job.scattered && n[2] == 2 && p < job.n_passes; p += 2)
        TYPED(pair)(&job, &passes[p], &passes[p + 1]);
    if (!covered || job.scattered)
        memset(to, 0, g->batch * g->groups * job.to_group * sizeof(REAL));
    TYPED(run_job)(&job, threads);
    return 0;
}

static int TYPED(correlate_weights)(const struct geometry *g, const struct TYPED(kernels) * kernels, int threads,
                                    const REAL *image, const REAL *top, REAL *to, struct arena *arena)
{
    struct TYPED(sums) job = {.kernels = kernels,
                              .units = g->batch,
                              .groups = g->groups,
                              .filters = g->filters,
                              .channels = g->channels,
                              .grid = {g->top[0], g->top[1], g->top[2]},
                              .image = image,
                              .top = top,
                              .taps = g->kernel[0] * g->kernel[1] * g->kernel[2],
                              .from_channel = g->image[0] * g->image[1] * g->image[2]};
    struct axis_taps *grids[3];
    for (int i = 0; i < 3; ++i)
        if (taps_of_axis(g, i, WEIGHTS, &job.frame, &grids[i], arena) < 0)
            return -1;
    if (finish_frame(&job.frame, sizeof(REAL), 4 * kernels->lanes) < 0)
        return -1;
    int few = g->filters * 3 <= kernels->lanes;
    if (few)
        job.frame.borrowed = 0;
    int64_t all = job.channels * job.taps, lanes = kernels->lanes, padded = TYPED(padded_filters)(&job);
    int64_t pixels = g->top[0] * g->top[1] * g->top[2], room = few ? pixels + lanes : PIXELS_ROOM * padded;
    job.images = 1;
    while (!few && job.images < job.units && job.images * pixels < PIXELS_ROOM
           && (job.images + 1) * job.channels * job.frame.channel * (int64_t)sizeof(REAL) <= BATCH_BYTES)
        ++job.images;
    int64_t frame_size = job.frame.borrowed ? 0 : job.images * job.channels * job.frame.channel + job.frame.slack;
    int64_t sums = g->groups * all * (few ? g->filters * lanes : padded);
    job.off = take(arena, all, sizeof *job.off);
    int64_t *weight = take(arena, job.taps, sizeof *weight);
    REAL *frames = take(arena, frame_size, threads * (int64_t)sizeof *frames);
    REAL *blocks = take(arena, room, threads * (int64_t)sizeof *blocks);
    job.sums = take(arena, sums, sizeof *job.sums);
    if (job.off == NULL || weight == NULL || frames == NULL || blocks == NULL || job.sums == NULL)
        return -1;
    tabulate(g, &job.frame, grids[0], grids[1], grids[2], job.channels, job.off, weight);
    memset(job.sums, 0, sums * sizeof *job.sums);
    /* A task is a group. If several threads work on each group, a task is a share of its channels and taps. */
    int64_t shares = few || g->groups >= threads ? 1 : threads, rows = kernels->rows * 3;
    int64_t share = (all + shares - 1) / shares;
    share = (share + rows - 1) / rows * rows;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
    for (int64_t task = 0; task < g->groups * shares; ++task) {
        int64_t group = task / shares, k0 = task % shares * share, k1 = k0 + share < all ? k0 + share : all;
        REAL *frame = frames + thread_number() * frame_size, *block = blocks + thread_number() * room;
        if (few)
            TYPED(add_along)(&job, group, frame, block);
        else if (k0 < k1)
            TYPED(add_outer)(&job, group, k0, k1, frame, block);
    }
    for (int64_t group = 0; group < g->groups; ++group)
        (few ? TYPED(gather_along) : TYPED(gather_outer))(&job, group, weight, to + group * g->filters * all, all,
                                                          job.taps);
    return 0;
}

static int TYPED(correlate)(const struct correlate_params *params, const struct geometry *g, void *a, void *b, void *to)
{
    const struct TYPED(kernels) *kernels = TYPED(kernels_for)(params->isa);
    struct arena arena = {0};
    int kind = (int)params->kind, status;
    double work = (double)g->batch * g->groups * g->filters * g->channels * g->top[0] * g->top[1] * g->top[2]
                  * g->kernel[0] * g->kernel[1] * g->kernel[2];
    int threads = params->threaded && work > 1e6 ? native_threads() : 1;
    if (params->unshared)
        status = TYPED(run_unshared)(g, kernels, kind, threads, kind == FORWARD || kind == WEIGHTS ? a : to,
                                     kind == FORWARD   ? b
                                     : kind == WEIGHTS ? to
                                                       : a,
                                     kind == FORWARD ? to : b, &arena);
    else if (kind == WEIGHTS)
        status = TYPED(correlate_weights)(g, kernels, threads, a, b, to, &arena);
    else
        status = TYPED(correlate_images)(g, kernels, kind, threads, kind == FORWARD ? a : b, kind == FORWARD ? b : a,
                                         to, &arena);
    release(&arena);
    return status;
}
