/* The gradient of correlation with respect to the weights, for one floating-point type. A tap is one position
 * in a filter. A tile of sums has a row for each pair of a channel and a tap, and a column for each filter. Each sum is
 * over pixels of the frame (conv_engine.h). conv_type.h includes this file once for each type. */

/* PIXELS_AT_ONCE: maximum number of pixels of a block of lines. The sums of a tile are computed for several blocks
 * before the next tile: for at most BLOCKS_AT_ONCE blocks, which have at most PIXELS_ROOM pixels together. */
#define PIXELS_AT_ONCE 128
#define PIXELS_ROOM 384
#define BLOCKS_AT_ONCE 32

struct TYPED(sums) {
    const struct TYPED(kernels) * kernels;
    struct frame frame;
    int64_t units, groups, filters, channels, taps, grid[3];
    int64_t images; /* number of images whose frames are in memory at once */
    const REAL *image, *top;
    int64_t from_channel;
    npy_intp *off; /* [channels of a group times taps] offsets in the frame */
    REAL *sums;    /* [group][...] */
};

static int64_t TYPED(padded_filters)(const struct TYPED(sums) * job)
{
    return (job->filters + job->kernels->lanes - 1) / job->kernels->lanes * job->kernels->lanes;
}

/* A chunk of filters. The registers of filters are divided into chunks of nearly equal size, up to `widest` registers
 * each. */
struct TYPED(chunk) {
    int64_t number, first, wide; /* number of the chunk; its first register, and its number of registers */
};

static int TYPED(next_chunk)(const struct TYPED(sums) * job, struct TYPED(chunk) * chunk)
{
    int64_t registers = TYPED(padded_filters)(job) / job->kernels->lanes,
            chunks = (registers + job->kernels->widest - 1) / job->kernels->widest;
    chunk->first += chunk->wide;
    if (++chunk->number >= chunks)
        return 0;
    chunk->wide = (registers - chunk->first + chunks - chunk->number - 1) / (chunks - chunk->number);
    return 1;
}
#define FIRST_CHUNK {-1, 0, 0}

/* A block: the outputs of some lines of an image. x: the pixel in the frame for the first output; pixels_before: number
 * of pixels whose gradients precede the gradients of the block in each chunk of `y`. */
struct TYPED(lines) {
    const REAL *x;
    int64_t lines, columns, pixels_before;
};

/* Add the contributions of `n_blocks` blocks of lines to the sums of the channels and taps [k0, k1). `y` contains the
 * gradients with respect to the outputs, one chunk of filters after the other. */
static void TYPED(add_blocks)(const struct TYPED(sums) * job, int64_t group, int64_t k0, int64_t k1,
                              const struct TYPED(lines) * blocks, int n_blocks, const REAL *y)
{
    const struct TYPED(kernels) *kernels = job->kernels;
    int64_t all = job->channels * job->taps, pitch = job->frame.pitch[2];
    struct TYPED(chunk) chunk = FIRST_CHUNK;
    while (TYPED(next_chunk)(job, &chunk)) {
        int64_t width = chunk.wide * kernels->lanes, most = kernels->outer_rows[chunk.wide - 1];
        REAL *sums = job->sums + (group * TYPED(padded_filters)(job) + chunk.first * kernels->lanes) * all;
        const REAL *gradients = y + chunk.first * kernels->lanes * PIXELS_ROOM;
        for (int64_t k = k0; k < k1; k += most) {
            int64_t rows = k1 - k < most ? k1 - k : most;
            for (int b = 0; b < n_blocks; ++b)
                kernels->outer[chunk.wide - 1][rows - 1](blocks[b].lines, blocks[b].columns, blocks[b].x, pitch,
                                                         job->off + k, gradients + blocks[b].pixels_before * width,
                                                         width, sums + k * width);
        }
    }
}

/* Add the contributions of the images and gradients of a group to the sums of the channels and taps [k0, k1). */
static void TYPED(add_outer)(const struct TYPED(sums) * job, int64_t group, int64_t k0, int64_t k1, REAL *frame_memory,
                             REAL *y)
{
    const struct frame *frame = &job->frame;
    const struct TYPED(kernels) *kernels = job->kernels;
    const int64_t *grid = job->grid;
    int64_t pixels = grid[0] * grid[1] * grid[2], columns_at_once = grid[2] < PIXELS_AT_ONCE ? grid[2] : PIXELS_AT_ONCE;
    int64_t lines_at_once = columns_at_once == 0 ? 1 : PIXELS_AT_ONCE / columns_at_once, in_y = 0;
    int64_t c0 = k0 / job->taps, c1 = (k1 + job->taps - 1) / job->taps;
    struct TYPED(lines) blocks[BLOCKS_AT_ONCE];
    int n_blocks = 0;
    for (int64_t n = 0; n < job->units; ++n) {
        const REAL *image = job->image + (n * job->groups + group) * job->channels * job->from_channel, *from = image;
        const REAL *top = job->top + (n * job->groups + group) * job->filters * pixels;
        if (n % job->images == 0) { /* the next images overwrite the frames that the blocks read */
            TYPED(add_blocks)(job, group, k0, k1, blocks, n_blocks, y);
            n_blocks = in_y = 0;
        }
        if (!frame->borrowed) {
            REAL *own = frame_memory + n % job->images * job->channels * frame->channel;
            for (int64_t c = c0; c < c1; ++c)
                TYPED(fill_frame)(kernels, frame, image + c * job->from_channel, own + c * frame->channel);
            from = own;
        }
        for (int64_t g0 = 0; g0 < grid[0]; ++g0)
            for (int64_t g1 = 0; g1 < grid[1]; g1 += lines_at_once)
                for (int64_t g2 = 0; g2 < grid[2]; g2 += columns_at_once) {
                    /* If the columns are divided, a block has a single line. The gradients of a block are therefore
                     * always contiguous. */
                    int64_t lines = grid[1] - g1 < lines_at_once ? grid[1] - g1 : lines_at_once;
                    int64_t columns = grid[2] - g2 < columns_at_once ? grid[2] - g2 : columns_at_once,
                            count = lines * columns;
                    if (n_blocks == BLOCKS_AT_ONCE || in_y + count > PIXELS_ROOM) {
                        TYPED(add_blocks)(job, group, k0, k1, blocks, n_blocks, y);
                        n_blocks = in_y = 0;
                    }
                    struct TYPED(chunk) chunk = FIRST_CHUNK;
                    while (TYPED(next_chunk)(job, &chunk)) {
                        int64_t width = chunk.wide * kernels->lanes, first = chunk.first * kernels->lanes;
                        for (int64_t f = first; f < first + width; f += kernels->lanes) {
                            const REAL *gradients = top + f * pixels + (g0 * grid[1] + g1) * grid[2] + g2;
                            kernels->transpose(job->filters - f < kernels->lanes ? job->filters - f : kernels->lanes,
                                               count, gradients, pixels,
                                               job->top + job->units * job->groups * job->filters * pixels - gradients,
                                               y + first * PIXELS_ROOM + in_y * width + f - first, width);
                        }
                    }
                    blocks[n_blocks++] = (struct TYPED(lines)){
                        from + (g0 * frame->pitch[1] + g1) * frame->pitch[2] + g2, lines, columns, in_y};
                    in_y += count;
                }
    }
    TYPED(add_blocks)(job, group, k0, k1, blocks, n_blocks, y);
}

/* Copy the sum of each filter, channel and tap to its weight. */
static void TYPED(gather_outer)(const struct TYPED(sums) * job, int64_t group, const int64_t *weight, REAL *to,
                                int64_t by_filter, int64_t by_channel)
{
    int64_t lanes = job->kernels->lanes, all = job->channels * job->taps;
    struct TYPED(chunk) chunk = FIRST_CHUNK;
    while (TYPED(next_chunk)(job, &chunk)) {
        int64_t width = chunk.wide * lanes, first = chunk.first * lanes;
        const REAL *sums = job->sums + (group * TYPED(padded_filters)(job) + first) * all;
        for (int64_t f = first; f < first + width && f < job->filters; ++f)
            for (int64_t c = 0; c < job->channels; ++c)
                for (int64_t t = 0; t < job->taps; ++t)
                    to[f * by_filter + c * by_channel + weight[t]] = sums[(c * job->taps + t) * width + f - first];
    }
}

/* The variant of add_outer for a group with few filters. The lanes of a register are neighboring pixels of a line.
 * `sums` has a register for each filter, channel and tap. gather_along adds up the lanes of each register. */
static void TYPED(add_along)(const struct TYPED(sums) * job, int64_t group, REAL *frame_memory, REAL *lines)
{
    const struct frame *frame = &job->frame;
    const struct TYPED(kernels) *kernels = job->kernels;
    int64_t all = job->channels * job->taps, pixels = job->grid[0] * job->grid[1] * job->grid[2],
            slice = job->grid[1] * job->grid[2];
    REAL *sums = job->sums + group * job->filters * all * kernels->lanes;
    for (int64_t n = 0; n < job->units; ++n) {
        const REAL *image = job->image + (n * job->groups + group) * job->channels * job->from_channel;
        for (int64_t c = 0; c < job->channels; ++c)
            TYPED(fill_frame)(kernels, frame, image + c * job->from_channel, frame_memory + c * frame->channel);
        for (int64_t f = 0; f < job->filters; ++f) {
            int64_t image_of = (n * job->groups + group) * job->filters + f;
            const REAL *gradients = job->top + image_of * pixels;
            /* memory after the last gradient must not be read: copy the gradients */
            if ((image_of + 1) * pixels + kernels->lanes > job->units * job->groups * job->filters * pixels)
                gradients = memcpy(lines, gradients, pixels * sizeof(REAL));
            for (int64_t g0 = 0; g0 < job->grid[0]; ++g0)
                for (int64_t k = 0; k < all; k += 9) {
                    int64_t rows = all - k < 9 ? all - k : 9;
                    kernels->along[rows - 1](job->grid[1], job->grid[2],
                                             frame_memory + g0 * frame->pitch[1] * frame->pitch[2], frame->pitch[2],
                                             job->off + k, gradients + g0 * slice, job->grid[2],
                                             sums + (f * all + k) * kernels->lanes);
                }
        }
    }
}

static void TYPED(gather_along)(const struct TYPED(sums) * job, int64_t group, const int64_t *weight, REAL *to,
                                int64_t by_filter, int64_t by_channel)
{
    int64_t lanes = job->kernels->lanes, all = job->channels * job->taps;
    const REAL *sums = job->sums + group * job->filters * all * lanes;
    for (int64_t f = 0; f < job->filters; ++f)
        for (int64_t c = 0; c < job->channels; ++c)
            for (int64_t t = 0; t < job->taps; ++t, sums += lanes) {
                REAL total = 0;
                for (int64_t i = 0; i < lanes; ++i)
                    total += sums[i];
                to[f * by_filter + c * by_channel + weight[t]] = total;
            }
}
