/* Correlation for one floating-point type; conv.c includes this once per type, with REAL, TYPED(f) and KERNELS (of the type, by instruction
 * set) defined.
 *
 * The forward pass and the gradient with respect to the images are the same: sums over channels and taps of weights times an image that was
 * moved. An image is copied into a frame, with its padding, and so that pixels a stride apart are neighbours (struct frame). There every
 * tap is an offset, and the outputs of a line lie side by side. The micro-kernel multiplies packed weights with lines of the frame
 * (`shifted`), or with a block of it that was packed for the tile, which costs a little for each tile, and saves the columns between the lines.
 *
 * The gradient with respect to the weights reads the frame too: a tile is channels and taps by filters, summed over pixels.
 */

/* A block of packed weights, and how many tiles go through it before the next one: both stay in the second cache. */
#define FILTERS_AT_ONCE 256
#define SUMMED_AT_ONCE 192
#define TILES_AT_ONCE 6
/* Bytes of frames of images that go together. */
#define BATCH_BYTES (1 << 21)
/* What copying a register for a tile costs, in products of registers. */
#define PACKING 4.0
/* Pixels that the gradient of the weights goes through before the next taps: as many blocks of lines as have room. */
#define PIXELS_AT_ONCE 128
#define PIXELS_ROOM 384
#define BLOCKS_AT_ONCE 32

/* One grid of outputs: all of them, or those of one phase of the stride of a gradient. */
struct TYPED(pass) {
    int64_t grid[3];          /* outputs along each axis */
    int64_t to;               /* the first of them, in the image of a filter */
    int64_t taps, summed;     /* of the kernel; channels times taps */
    npy_intp *off;            /* [summed] where the first output finds its pixel */
    const int64_t *weight;    /* [taps] where the tap lies in the kernel */
    REAL *packed;             /* [group][filters of a panel][summed] */
    int shifted;
    int64_t linear;           /* pixels of the frame from the first output to the last */
    struct tiling whole, rest;      /* of as many images as go together, and of those that remain */
};

struct TYPED(job) {
    const struct TYPED(kernels) *kernels;
    struct frame frame;
    int64_t units, groups, filters, channels;       /* images, groups; of a group */
    int64_t images;                                 /* that are computed together: tiles go on from one to the next */
    const REAL *from;
    REAL *to;
    int64_t from_channel, to_filter, step[3];       /* elements of an image of `from` and of `to`; between outputs */
    int64_t n_passes;
    struct TYPED(pass) *passes;
};

/* Pixels 0 ... q - 1 of a line of the frame: those from *first to *end - 1 are in the image, which has `length` pixels. */
static void TYPED(inside)(int64_t start, int64_t step, int64_t length, int64_t q, int64_t *first, int64_t *end)
{
    *first = start >= 0 ? 0 : (-start + step - 1) / step;
    *end = length <= start ? 0 : (length - start + step - 1) / step;
    *first = *first > q ? q : *first;
    *end = *end > q ? q : *end < *first ? *first : *end;
}

/* Copies an image into its frame. */
static void TYPED(fill_frame)(const struct TYPED(kernels) *kernels, const struct frame *frame, const REAL *from, REAL *to)
{
    const int64_t *len = frame->length, *q = frame->pitch, *step = frame->stride, *start = frame->start;
    int64_t slice = q[1] * q[2];
    for (int64_t s0 = 0; s0 < frame->phases[0]; ++s0)
        for (int64_t s1 = 0; s1 < frame->phases[1]; ++s1)
            for (int64_t s2 = 0; s2 < frame->phases[2]; ++s2) {
                int64_t x0 = start[0] + frame->phase[0][s0], x1 = start[1] + frame->phase[1][s1], x2 = start[2] + frame->phase[2][s2];
                int64_t first0, end0, first1, end1, first2, end2;
                TYPED(inside)(x0, step[0], len[0], q[0], &first0, &end0);
                TYPED(inside)(x1, step[1], len[1], q[1], &first1, &end1);
                TYPED(inside)(x2, step[2], len[2], q[2], &first2, &end2);
                memset(to, 0, first0 * slice * sizeof(REAL));
                for (int64_t p0 = first0; p0 < end0; ++p0) {
                    REAL *line = to + p0 * slice;
                    memset(line, 0, first1 * q[2] * sizeof(REAL));
                    if (first1 < end1 && first2 < end2)
                        kernels->fill(end1 - first1, q[2], first2, end2, line + first1 * q[2],
                                      from + ((x0 + p0 * step[0]) * len[1] + x1 + first1 * step[1]) * len[2] + x2 + first2 * step[2],
                                      step[1] * len[2], step[2]);
                    else
                        memset(line + first1 * q[2], 0, (end1 - first1) * q[2] * sizeof(REAL));
                    memset(line + end1 * q[2], 0, (q[1] - end1) * q[2] * sizeof(REAL));
                }
                memset(to + end0 * slice, 0, (q[0] - end0) * slice * sizeof(REAL));
                to += q[0] * slice;
            }
}

/* Weights of a group in the order in which the micro-kernel reads them. */
static void TYPED(pack_weights)(const struct TYPED(job) *job, const struct TYPED(pass) *pass, const REAL *weights, int64_t by_filter,
                                int64_t by_channel, REAL *to)
{
    int rows = job->kernels->rows;
    for (int64_t f = 0; f < job->filters; f += rows) {
        int64_t count = job->filters - f < rows ? job->filters - f : rows;
        for (int64_t c = 0; c < job->channels; ++c, to += count * pass->taps)
            for (int64_t i = 0; i < count; ++i) {
                const REAL *w = weights + (f + i) * by_filter + c * by_channel;
                for (int64_t t = 0; t < pass->taps; ++t)
                    to[t * count + i] = w[pass->weight[t]];
            }
    }
}

/* Appends the pieces of the outputs begin ... end - 1, which are counted through all images at once (shifted: those of one, and the columns
 * between their lines). */
static void TYPED(add_pieces)(const struct TYPED(job) *job, const struct TYPED(pass) *pass, int64_t begin, int64_t end, struct tiling *tiling)
{
    const int64_t *q = job->frame.pitch, *grid = pass->grid;
    int64_t width = pass->shifted ? q[2] : grid[2], height = pass->shifted ? q[1] : grid[1];
    int64_t from_image = job->groups * job->channels * job->from_channel, to_image = job->groups * job->filters * job->to_filter;
    if (!job->frame.borrowed)
        from_image = job->channels * job->frame.channel;
    for (int64_t at = begin; at < end;) {
        int64_t column = at % width, line = at / width, slice = line / height, g1 = line % height, image = 0;
        if (!pass->shifted) {
            image = slice / grid[0];
            slice %= grid[0];
        }
        int64_t count = end - at < width - column ? end - at : width - column;
        int64_t useful = column + count <= grid[2] ? count : grid[2] - column;
        if (useful > 0 && g1 < grid[1])
            tiling->pieces[tiling->n_pieces++] =
                (struct piece){at - begin, useful, image * from_image + (slice * q[1] + g1) * q[2] + column,
                               image * to_image + slice * job->step[0] + g1 * job->step[1] + column * job->step[2]};
        at += count;
    }
}

/* Cuts the outputs of some images into tiles. -1 with MemoryError. */
static int TYPED(plan)(const struct TYPED(job) *job, const struct TYPED(pass) *pass, int64_t images, struct tiling *tiling, struct arena *arena)
{
    int64_t lanes = job->kernels->lanes, columns = 3 * lanes, lines = pass->grid[0] * pass->grid[1] * images;
    int64_t all = pass->shifted ? pass->linear : lines * pass->grid[2], n = (all + columns - 1) / columns;
    tiling->tiles = take(arena, n, sizeof *tiling->tiles);
    tiling->pieces = take(arena, n + lines, sizeof *tiling->pieces);
    if (tiling->tiles == NULL || tiling->pieces == NULL)
        return -1;
    for (int64_t begin = 0; begin < all; begin += columns) {
        struct tile *tile = &tiling->tiles[tiling->n_tiles++];
        int64_t count = all - begin < columns ? all - begin : columns, first = tiling->n_pieces;
        *tile = (struct tile){.begin = begin, .count = count, .wide = (count + lanes - 1) / lanes, .pieces = tiling->pieces + first};
        TYPED(add_pieces)(job, pass, begin, begin + count, tiling);
        tile->n_pieces = tiling->n_pieces - first;
        /* Nothing behind the last pixel of a borrowed image may be read. */
        if (job->frame.borrowed)
            tile->exact = pass->shifted ? begin + tile->wide * lanes > pass->linear : begin + count > all - 2 * lanes;
        tile->pack = !pass->shifted || tile->exact;
    }
    return 0;
}

/* A block of channels and taps of a tile, side by side. */
static void TYPED(pack_tile)(const struct TYPED(job) *job, const struct TYPED(pass) *pass, const struct tile *tile, int64_t n, const npy_intp *off,
                             const REAL *from, REAL *block)
{
    if (!tile->exact)
        job->kernels->pack(n, off, from, tile->pieces, tile->n_pieces, block);
    else
        for (int64_t i = 0; i < n; ++i, block += 3 * job->kernels->lanes) {
            if (pass->shifted)
                memcpy(block, from + off[i] + tile->begin, tile->count * sizeof(REAL));
            else
                for (int p = 0; p < tile->n_pieces; ++p)
                    memcpy(block + tile->pieces[p].column, from + off[i] + tile->pieces[p].from, tile->pieces[p].n * sizeof(REAL));
        }
}

/* Some images, and a group of their channels. */
struct TYPED(unit) {
    int64_t group, images;
    const REAL *from;
    REAL *to;
};

static struct TYPED(unit) TYPED(unit_of)(const struct TYPED(job) *job, int64_t number)
{
    int64_t group = number % job->groups, first = number / job->groups * job->images, channel = first * job->groups + group;
    return (struct TYPED(unit)){group, job->units - first < job->images ? job->units - first : job->images,
                                job->from + channel * job->channels * job->from_channel, job->to + channel * job->filters * job->to_filter};
}

static const struct tiling *TYPED(tiling_of)(const struct TYPED(job) *job, const struct TYPED(unit) *unit, int64_t pass)
{
    return unit->images == job->images ? &job->passes[pass].whole : &job->passes[pass].rest;
}

/* Copies a channel, counted through the images of the unit, into its frame. */
static void TYPED(fill_channel)(const struct TYPED(job) *job, const struct TYPED(unit) *unit, int64_t c, REAL *frames)
{
    int64_t channel = c / job->channels * job->groups * job->channels + c % job->channels;
    TYPED(fill_frame)(job->kernels, &job->frame, unit->from + channel * job->from_channel, frames + c * job->frame.channel);
}

/* The tiles from `begin` on, TILES_AT_ONCE at most, of all filters of a group. */
static void TYPED(run_tiles)(const struct TYPED(job) *job, const struct TYPED(unit) *unit, int64_t number, int64_t begin, const REAL *frames, REAL *work,
                             const npy_intp *consecutive)
{
    const struct TYPED(pass) *pass = &job->passes[number];
    const struct tiling *tiling = TYPED(tiling_of)(job, unit, number);
    const struct tile *tiles = tiling->tiles + begin;
    int64_t n_tiles = tiling->n_tiles - begin < TILES_AT_ONCE ? tiling->n_tiles - begin : TILES_AT_ONCE;
    const REAL *from = job->frame.borrowed ? unit->from : frames, *packed = pass->packed + unit->group * job->filters * pass->summed;
    REAL *to = unit->to + pass->to;
    const struct TYPED(kernels) *kernels = job->kernels;
    int64_t columns = 3 * kernels->lanes;
    REAL *block = work + TILES_AT_ONCE * FILTERS_AT_ONCE * columns;
    for (int64_t f0 = 0; f0 < job->filters; f0 += FILTERS_AT_ONCE) {
        int64_t f1 = f0 + FILTERS_AT_ONCE < job->filters ? f0 + FILTERS_AT_ONCE : job->filters, k = 0;
        do {
            int64_t n = pass->summed - k < SUMMED_AT_ONCE ? pass->summed - k : SUMMED_AT_ONCE;
            for (int t = 0; t < n_tiles; ++t) {
                const struct tile *tile = &tiles[t];
                if (tile->pack)
                    TYPED(pack_tile)(job, pass, tile, n, pass->off + k, from, block);
                const REAL *lines = tile->pack ? block : from + tile->begin;
                const npy_intp *off = tile->pack ? consecutive : pass->off + k;
                for (int64_t f = f0; f < f1; f += kernels->rows) {
                    int64_t rows = job->filters - f < kernels->rows ? job->filters - f : kernels->rows;
                    kernels->tile[tile->wide - 1][rows - 1](n, packed + f * pass->summed + k * rows, lines, off, work + (t * FILTERS_AT_ONCE + f - f0) * columns,
                                                            k == 0);
                }
            }
            k += n;
        } while (k < pass->summed);
        for (int t = 0; t < n_tiles; ++t)
            kernels->unpack(f1 - f0, work + t * FILTERS_AT_ONCE * columns, tiles[t].pieces, tiles[t].n_pieces, to + f0 * job->to_filter, job->to_filter,
                            job->step[2]);
    }
}

/* Elements of scratch memory that a thread needs beside its frame. */
static int64_t TYPED(work_size)(const struct TYPED(job) *job)
{
    return (TILES_AT_ONCE * FILTERS_AT_ONCE + SUMMED_AT_ONCE + 8) * 3 * job->kernels->lanes;
}

/* All outputs; `frames` has room for the frames of a group of images for each thread, `work` for its tiles. */
static void TYPED(run_job)(const struct TYPED(job) *job, int threads, REAL *frames, int64_t frame_size, REAL *work, const npy_intp *consecutive)
{
    const struct frame *frame = &job->frame;
    int64_t units = (job->units + job->images - 1) / job->images * job->groups, work_size = TYPED(work_size)(job);
    if (threads == 1 || units >= threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
        for (int64_t unit = 0; unit < units; ++unit) {
            struct TYPED(unit) u = TYPED(unit_of)(job, unit);
            REAL *own = frames + thread_number() * frame_size;
            if (!frame->borrowed)
                for (int64_t c = 0; c < u.images * job->channels; ++c)
                    TYPED(fill_channel)(job, &u, c, own);
            for (int64_t p = 0; p < job->n_passes; ++p)
                for (int64_t begin = 0; begin < TYPED(tiling_of)(job, &u, p)->n_tiles; begin += TILES_AT_ONCE)
                    TYPED(run_tiles)(job, &u, p, begin, own, work + thread_number() * work_size, consecutive);
        }
        return;
    }
    /* Fewer images than threads: they share each. */
    for (int64_t unit = 0; unit < units; ++unit) {
        struct TYPED(unit) u = TYPED(unit_of)(job, unit);
#pragma omp parallel num_threads(threads)
        {
            if (!frame->borrowed) {
#pragma omp for
                for (int64_t c = 0; c < u.images * job->channels; ++c)
                    TYPED(fill_channel)(job, &u, c, frames);
            }
            for (int64_t p = 0; p < job->n_passes; ++p) {
#pragma omp for schedule(dynamic) nowait
                for (int64_t begin = 0; begin < TYPED(tiling_of)(job, &u, p)->n_tiles; begin += TILES_AT_ONCE)
                    TYPED(run_tiles)(job, &u, p, begin, frames, work + thread_number() * work_size, consecutive);
            }
        }
    }
}

/* Whether tiles are better packed: what is computed in vain between lines is compared with what copying costs. */
static void TYPED(choose)(const struct TYPED(job) *job, struct TYPED(pass) *pass)
{
    const int64_t *q = job->frame.pitch, *grid = pass->grid;
    double lanes = job->kernels->lanes, real = (double)grid[0] * grid[1] * grid[2];
    pass->linear = real == 0 ? 0 : ((grid[0] - 1) * q[1] + grid[1] - 1) * q[2] + grid[2];
    double pieces = real / lanes + (double)(grid[0] * grid[1]);
    pass->shifted = (pass->linear / lanes + 0.5) * job->filters <= real / lanes * job->filters + PACKING * pieces;
}

/* How many images go together: small ones do where all tiles are packed, so that weights are read for more than a few pixels. */
static void TYPED(choose_images)(struct TYPED(job) *job, int threads)
{
    int64_t least = NPY_MAX_INTP, size = job->channels * job->frame.channel, fair = (job->units + threads - 1) / threads;
    for (int64_t p = 0; p < job->n_passes; ++p) {
        int64_t outputs = job->passes[p].grid[0] * job->passes[p].grid[1] * job->passes[p].grid[2];
        least = job->passes[p].shifted ? NPY_MAX_INTP : outputs < least ? outputs : least;
        if (job->passes[p].shifted)
            break;
    }
    job->images = 1;
    if (least == 0 || least == NPY_MAX_INTP)
        return;
    int64_t wanted = (2 * TILES_AT_ONCE * 3 * job->kernels->lanes + least - 1) / least;
    while (job->images < wanted && job->images < fair && (job->images + 1) * size * (int64_t)sizeof(REAL) <= BATCH_BYTES)
        ++job->images;
}

/* ---- Gradient with respect to the weights ---- */

struct TYPED(sums) {
    const struct TYPED(kernels) *kernels;
    struct frame frame;
    int64_t units, groups, filters, channels, taps, grid[3];
    int64_t images;           /* whose frames are there at once */
    const REAL *image, *top;
    int64_t from_channel;
    npy_intp *off;            /* [channels of a group times taps] */
    REAL *sums;               /* [group][...] */
};

/* out[column][row] of in[row][column] for `rows` lines that are `pitch` apart; out has `step` elements for each column, those behind the
 * last row are zero. */
static void TYPED(transpose)(int64_t rows, int64_t columns, const REAL *in, int64_t pitch, REAL *out, int64_t step)
{
    for (int64_t r = 0; r < step; r += 16) {
        int64_t end = r + 16 < rows ? r + 16 : rows, last = r + 16 < step ? r + 16 : step;
        for (int64_t c = 0; c < columns; ++c) {
            int64_t i = r;
            for (; i < end; ++i)
                out[c * step + i] = in[i * pitch + c];
            for (; i < last; ++i)
                out[c * step + i] = 0;
        }
    }
}

static int64_t TYPED(padded_filters)(const struct TYPED(sums) *job)
{
    return (job->filters + job->kernels->lanes - 1) / job->kernels->lanes * job->kernels->lanes;
}

/* Filters in chunks of up to `widest` registers, of about equal size. */
struct TYPED(chunk) {
    int64_t number, first, wide;      /* registers */
};

static int TYPED(next_chunk)(const struct TYPED(sums) *job, struct TYPED(chunk) *chunk)
{
    int64_t registers = TYPED(padded_filters)(job) / job->kernels->lanes, chunks = (registers + job->kernels->widest - 1) / job->kernels->widest;
    chunk->first += chunk->wide;
    if (++chunk->number >= chunks)
        return 0;
    chunk->wide = (registers - chunk->first + chunks - chunk->number - 1) / (chunks - chunk->number);
    return 1;
}
#define FIRST_CHUNK {-1, 0, 0}

/* Pixels of some lines of an image: where the first output finds its first pixel in the frame, and the first of its gradients in `y`. */
struct TYPED(lines) {
    const REAL *x;
    int64_t lines, columns, pixels_before;
};

/* Adds what so many blocks of lines give for the channels and taps [k0, k1). `y` has the gradients of each chunk of filters. */
static void TYPED(add_blocks)(const struct TYPED(sums) *job, int64_t group, int64_t k0, int64_t k1, const struct TYPED(lines) *blocks, int n_blocks,
                              const REAL *y)
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
                kernels->outer[chunk.wide - 1][rows - 1](blocks[b].lines, blocks[b].columns, blocks[b].x, pitch, job->off + k,
                                                         gradients + blocks[b].pixels_before * width, width, sums + k * width);
        }
    }
}

/* Adds what the images and gradients of a group give for the channels and taps [k0, k1). */
static void TYPED(add_outer)(const struct TYPED(sums) *job, int64_t group, int64_t k0, int64_t k1, REAL *frame_memory, REAL *y)
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
        if (n % job->images == 0) {     /* the frames are about to be overwritten */
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
                    /* Where columns are cut, there is one line: the gradients of a block always lie side by side. */
                    int64_t lines = grid[1] - g1 < lines_at_once ? grid[1] - g1 : lines_at_once;
                    int64_t columns = grid[2] - g2 < columns_at_once ? grid[2] - g2 : columns_at_once, count = lines * columns;
                    if (n_blocks == BLOCKS_AT_ONCE || in_y + count > PIXELS_ROOM) {
                        TYPED(add_blocks)(job, group, k0, k1, blocks, n_blocks, y);
                        n_blocks = in_y = 0;
                    }
                    struct TYPED(chunk) chunk = FIRST_CHUNK;
                    while (TYPED(next_chunk)(job, &chunk)) {
                        int64_t width = chunk.wide * kernels->lanes, first = chunk.first * kernels->lanes;
                        TYPED(transpose)(job->filters - first < width ? job->filters - first : width, count,
                                         top + first * pixels + (g0 * grid[1] + g1) * grid[2] + g2, pixels, y + first * PIXELS_ROOM + in_y * width,
                                         width);
                    }
                    blocks[n_blocks++] = (struct TYPED(lines)){from + (g0 * frame->pitch[1] + g1) * frame->pitch[2] + g2, lines, columns, in_y};
                    in_y += count;
                }
    }
    TYPED(add_blocks)(job, group, k0, k1, blocks, n_blocks, y);
}

/* Where the sum of a filter and a channel and tap is. */
static void TYPED(gather_outer)(const struct TYPED(sums) *job, int64_t group, const int64_t *weight, REAL *to, int64_t by_filter, int64_t by_channel)
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

/* The same where a group has few filters: sums along the pixels. `sums` has a register for each filter, channel and tap. */
static void TYPED(add_along)(const struct TYPED(sums) *job, int64_t group, REAL *frame_memory, REAL *lines)
{
    const struct frame *frame = &job->frame;
    const struct TYPED(kernels) *kernels = job->kernels;
    int64_t all = job->channels * job->taps, pixels = job->grid[0] * job->grid[1] * job->grid[2], slice = job->grid[1] * job->grid[2];
    REAL *sums = job->sums + group * job->filters * all * kernels->lanes;
    for (int64_t n = 0; n < job->units; ++n) {
        const REAL *image = job->image + (n * job->groups + group) * job->channels * job->from_channel;
        for (int64_t c = 0; c < job->channels; ++c)
            TYPED(fill_frame)(kernels, frame, image + c * job->from_channel, frame_memory + c * frame->channel);
        for (int64_t f = 0; f < job->filters; ++f) {
            memcpy(lines, job->top + ((n * job->groups + group) * job->filters + f) * pixels, pixels * sizeof(REAL));
            for (int64_t g0 = 0; g0 < job->grid[0]; ++g0)
                for (int64_t k = 0; k < all; k += 8) {
                    int64_t rows = all - k < 8 ? all - k : 8;
                    kernels->along[rows - 1](job->grid[1], job->grid[2], frame_memory + g0 * frame->pitch[1] * frame->pitch[2], frame->pitch[2],
                                             job->off + k, lines + g0 * slice, job->grid[2], sums + (f * all + k) * kernels->lanes);
                }
        }
    }
}

static void TYPED(gather_along)(const struct TYPED(sums) *job, int64_t group, const int64_t *weight, REAL *to, int64_t by_filter, int64_t by_channel)
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
