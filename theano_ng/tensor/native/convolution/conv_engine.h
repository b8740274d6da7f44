/* Correlation for one floating-point type; conv_type.h includes this file once for each type, with REAL and TYPED(f)
 * defined.
 *
 * The forward pass and the gradient with respect to the images are the same computation: an output is the sum over
 * channels and taps (elements of the kernel) of the tap's weight times the pixel that the tap reads. An image is copied
 * into a frame (struct frame), with its padding, so that pixels a stride apart are adjacent. In the frame, the pixels
 * of a tap are the pixels of the first tap, moved by a constant offset, and the pixels for a line of outputs are
 * contiguous.
 *
 * The micro-kernel `tile` multiplies packed weights with lines of the frame. If a pass is `shifted`, the lines are
 * read in place, and the columns of the frame between the lines give useless results. Otherwise the pixels of each tile
 * are first packed into a block. Packing has a small cost for each tile, but gives no useless results. If there are
 * enough filters to fill registers, the filters are placed along registers (`across`). Then every pixel is read in
 * place, no result is useless, and the sums are transposed at the end.
 *
 * If most pixels under the taps are padding, as in the gradient of a small image, the products are scattered
 * (`scattered`). Each pair of a filter and a tap is treated as a filter with a single tap. Each pixel is multiplied
 * with the weights of all pairs, and each product is added to its output. */

/* A block of packed weights has at most FILTERS_AT_ONCE filters, and SUMMED_AT_ONCE pairs of a channel and a tap. At
 * most TILES_AT_ONCE tiles are multiplied with a block before the next block. The block and the tiles stay in the
 * second-level cache. */
#define FILTERS_AT_ONCE 256
#define SUMMED_AT_ONCE 192
#define TILES_AT_ONCE 6
/* The maximum number of tiles of a block if filters are placed along registers. */
#define TILES_ACROSS 10
/* The maximum number of bytes of the frames of images that are computed together. */
#define BATCH_BYTES (1 << 21)
/* The cost of packing a register of pixels for a tile. The unit is the cost of multiplying two registers. */
#define PACKING 4.0
/* The cost of transposing a register of sums, in the same unit. */
#define TRANSPOSING 16.0
/* The cost of adding a register of products to outputs, in the same unit. */
#define ADDING 12.0

/* A pass computes one grid of outputs: all outputs, or in a gradient the outputs of one phase of the stride. */
struct TYPED(pass) {
    int64_t grid[3];       /* number of outputs along each axis */
    int64_t to;            /* offset of the first output of this pass in the output channel of a filter */
    int64_t taps, summed;  /* number of taps of the pass; number of channels times `taps` */
    npy_intp *off;         /* [summed] offsets of the pixels for the first output, in the frame */
    const int64_t *weight; /* [taps] offset of the tap in the kernel */
    /* [group][panel][summed][filter of the panel] packed weights, where a panel is the filters of one call of `tile`
     * or `across`; NULL: each block of weights is packed when it is used */
    REAL *packed;
    int shifted, across;
    int64_t linear;                  /* pixels of the frame from the first output's pixel to the last output's pixel */
    const struct TYPED(pass) * pair; /* the pass that computes the adjacent outputs, and runs together with this pass */
    int64_t chunks;                  /* number of chunks of filters; 0: this pass is the `pair` of another pass */
    /* whole: tiles of a unit (struct unit) of job->images images; rest: tiles of the last unit, if it has fewer
     * images */
    struct tiling whole, rest;
};

struct TYPED(job) {
    const struct TYPED(kernels) * kernels;
    struct frame frame;
    int64_t units, groups, filters, channels; /* units: number of images; filters, channels: numbers in a group */
    int64_t images; /* number of images that are computed together: tiles continue from one image to the
                                   * next */
    const REAL *from;
    REAL *to;
    /* elements of a channel of `from`, and of a filter of `to`; step: elements between outputs along each axis */
    int64_t from_channel, to_filter, step[3];
    const REAL *weights;
    /* all_weights: number of weights; by_...: elements from one group, filter or channel to the next; taps: number of
     * taps of the kernel */
    int64_t all_weights, by_group, by_filter, by_channel, taps;
    const npy_intp *consecutive;   /* offsets of the lines of a packed block */
    REAL *frames, *work;           /* memory of the first thread */
    npy_intp *at;                  /* [threads][pixels of a block of tiles] offsets in the frames */
    int64_t frame_size, work_size; /* numbers of elements of `frames` and `work` for each thread */
    int64_t to_group;              /* elements of `to` in each group */
    /* If products are scattered, the member `filters` is the number of filters times the number of taps. With tap t,
     * pixel p contributes to output scale * p + shift + dilation * t, if this index is from 0 to length - 1. */
    int scattered;
    int64_t scale[3], shift[3], dilation[3], kernel[3], length[3];
    const int64_t *weight; /* [taps] offset of the tap in the kernel */
    int64_t n_passes;
    struct TYPED(pass) * passes;
};

/* A line of the frame has the pixels 0 ... q - 1. Pixel p is pixel start + step * p of a line of the image, which has
 * `length` pixels. Find the pixels *first ... *end - 1 of the frame's line that are inside the image. */
static void TYPED(inside)(int64_t start, int64_t step, int64_t length, int64_t q, int64_t *first, int64_t *end)
{
    *first = start >= 0 ? 0 : (-start + step - 1) / step;
    *end = length <= start ? 0 : (length - start + step - 1) / step;
    *first = *first > q ? q : *first;
    *end = *end > q ? q : *end < *first ? *first : *end;
}

/* Copy an image into its frame. */
static void TYPED(fill_frame)(const struct TYPED(kernels) * kernels, const struct frame *frame, const REAL *from,
                              REAL *to)
{
    const int64_t *len = frame->length, *q = frame->pitch, *step = frame->stride, *start = frame->start;
    int64_t slice = q[1] * q[2], size = q[0] * slice;
    /* Fill both phases of a stride of two at once. */
    int64_t two = step[2] == 2 && frame->phases[2] == 2 && frame->phase[2][1] == frame->phase[2][0] + 1,
            together = two ? 2 : 1;
    for (int64_t s0 = 0; s0 < frame->phases[0]; ++s0)
        for (int64_t s1 = 0; s1 < frame->phases[1]; ++s1)
            for (int64_t s2 = 0; s2 < frame->phases[2]; s2 += together, to += together * size) {
                int64_t x0 = start[0] + frame->phase[0][s0], x1 = start[1] + frame->phase[1][s1],
                        x2 = start[2] + frame->phase[2][s2];
                int64_t first0, end0, first1, end1, first2, end2;
                TYPED(inside)(x0, step[0], len[0], q[0], &first0, &end0);
                TYPED(inside)(x1, step[1], len[1], q[1], &first1, &end1);
                TYPED(inside)(x2, step[2], len[2], q[2], &first2, &end2);
                int filled = first1 < end1 && (two ? x2 < len[2] && x2 + 2 * q[2] > 0 : first2 < end2);
                if (!filled)
                    end1 = first1;
                for (REAL *phase = to; phase < to + together * size; phase += size) {
                    memset(phase, 0, first0 * slice * sizeof(REAL));
                    for (int64_t p0 = first0; p0 < end0; ++p0) {
                        memset(phase + p0 * slice, 0, first1 * q[2] * sizeof(REAL));
                        memset(phase + p0 * slice + end1 * q[2], 0, (q[1] - end1) * q[2] * sizeof(REAL));
                    }
                    memset(phase + end0 * slice, 0, (q[0] - end0) * slice * sizeof(REAL));
                }
                for (int64_t p0 = first0; filled && p0 < end0; ++p0) {
                    REAL *line = to + p0 * slice + first1 * q[2];
                    const REAL *pixels = from + ((x0 + p0 * step[0]) * len[1] + x1 + first1 * step[1]) * len[2];
                    if (two)
                        kernels->fill_two(end1 - first1, q[2], size, x2, len[2], line, pixels, step[1] * len[2]);
                    else
                        kernels->fill(end1 - first1, q[2], first2, end2, line, pixels + x2 + first2 * step[2],
                                      step[1] * len[2], step[2]);
                }
            }
}

/* Pack the weights of `count` filters of a group, from filter f on, in the order in which `tile` reads them. */
static void TYPED(pack_weights)(const struct TYPED(job) * job, const struct TYPED(pass) * pass, int64_t group,
                                int64_t f, int64_t count)
{
    REAL *to = pass->packed + (group * job->filters + f) * pass->summed;
    for (int64_t c = 0; c < job->channels; ++c, to += count * pass->taps)
        for (int64_t i = 0; i < count; ++i) {
            int64_t filter = (f + i) * job->by_filter;
            if (job->scattered)
                filter = (f + i) / job->taps * job->by_filter + job->weight[(f + i) % job->taps];
            const REAL *w = job->weights + group * job->by_group + filter + c * job->by_channel;
            for (int64_t t = 0; t < pass->taps; ++t)
                to[t * count + i] = w[pass->weight[t]];
        }
}

/* A chunk of filters, which are placed along `wide` registers. first: the first filter of the chunk. */
struct TYPED(across) {
    int64_t first, wide;
};

static int64_t TYPED(registers)(const struct TYPED(job) * job)
{
    return (job->filters + job->kernels->lanes - 1) / job->kernels->lanes;
}

/* Return a chunk of filters by its number. The registers of filters are divided into chunks of nearly equal size, at
 * most three registers each. */
static struct TYPED(across) TYPED(chunk_across)(const struct TYPED(job) * job, int64_t number)
{
    int64_t registers = TYPED(registers)(job), chunks = (registers + 2) / 3, first = number * registers / chunks;
    return (struct TYPED(across)){first * job->kernels->lanes, (number + 1) * registers / chunks - first};
}

/* Pack the weights of a chunk of filters in the order in which `across` reads them, for n pairs of a channel and
 * a tap, from pair k0 on. `room` is memory for the kernels of one register of filters. */
static void TYPED(pack_across)(const struct TYPED(job) * job, const struct TYPED(pass) * pass, int64_t group,
                               struct TYPED(across) chunk, int64_t k0, int64_t n, REAL *to, REAL *room)
{
    int64_t lanes = job->kernels->lanes, width = chunk.wide * lanes,
            plain = pass->taps == job->taps && job->by_channel == job->taps;
    for (int64_t t = 0; t < pass->taps; ++t)
        plain &= pass->weight[t] == t;
    for (int64_t j = 0; j < chunk.wide; ++j, to += lanes) {
        int64_t f = chunk.first + j * lanes, rows = job->filters - f < lanes ? job->filters - f : lanes;
        int64_t start = group * job->by_group + f * job->by_filter;
        if (plain) {
            job->kernels->transpose(rows, n, job->weights + start + k0, job->by_filter, job->all_weights - start - k0,
                                    to, width);
            continue;
        }
        for (int64_t k = k0; k < k0 + n;) {
            int64_t c = k / pass->taps, t = k % pass->taps,
                    end = k0 + n < (c + 1) * pass->taps ? k0 + n - c * pass->taps : pass->taps;
            int64_t from = start + c * job->by_channel;
            if (job->by_filter == 1) { /* filters are contiguous already */
                memcpy(to + (k - k0) * width, job->weights + from, rows * sizeof(REAL));
                memset(to + (k - k0) * width + rows, 0, (lanes - rows) * sizeof(REAL));
                ++k;
                continue;
            }
            job->kernels->transpose(rows, job->taps, job->weights + from, job->by_filter, job->all_weights - from, room,
                                    lanes);
            for (; t < end; ++t, ++k)
                memcpy(to + (k - k0) * width, room + pass->weight[t] * lanes, lanes * sizeof(REAL));
        }
    }
}

/* Return the number of filters with which tiles are multiplied at once. If products are scattered, all taps of a filter
 * are multiplied at once. */
static int64_t TYPED(filters_at_once)(const struct TYPED(job) * job)
{
    if (!job->scattered)
        return FILTERS_AT_ONCE;
    int64_t even = job->kernels->rows * job->taps;
    return FILTERS_AT_ONCE >= even ? FILTERS_AT_ONCE / even * even : FILTERS_AT_ONCE / job->taps * job->taps;
}

static int64_t TYPED(count_chunks)(const struct TYPED(job) * job, const struct TYPED(pass) * pass)
{
    int64_t at_once = TYPED(filters_at_once)(job);
    return pass->across ? (TYPED(registers)(job) + 2) / 3 : (job->filters + at_once - 1) / at_once;
}

/* Pack all weights of a pass. */
static void TYPED(pack_all)(const struct TYPED(job) * job, const struct TYPED(pass) * pass, int threads)
{
    int64_t rows = job->kernels->rows, lanes = job->kernels->lanes, at_once = TYPED(filters_at_once)(job);
    int64_t chunks = pass->chunks,
            panels = pass->across ? 1 : ((chunks > 1 ? at_once : job->filters) + rows - 1) / rows;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < job->groups * chunks * panels; ++i) {
        int64_t group = i / (chunks * panels), number = i / panels % chunks, f = number * at_once + i % panels * rows,
                end = (number + 1) * at_once;
        if (pass->across) {
            struct TYPED(across) chunk = TYPED(chunk_across)(job, number);
            TYPED(pack_across)(job, pass, group, chunk, 0, pass->summed,
                               pass->packed + (group * TYPED(registers)(job) * lanes + chunk.first) * pass->summed,
                               job->work + thread_number() * job->work_size);
            continue;
        }
        end = end < job->filters ? end : job->filters;
        if (f < end)
            TYPED(pack_weights)(job, pass, group, f, end - f < rows ? end - f : rows);
    }
}

/* Append the pieces of the outputs begin ... end - 1 to a tiling. The outputs of all images are numbered as one
 * sequence. If the pass is shifted, each image has a separate sequence, which includes the columns of the frame between
 * the lines of outputs. */
static void TYPED(add_pieces)(const struct TYPED(job) * job, const struct TYPED(pass) * pass, int64_t begin,
                              int64_t end, struct tiling *tiling)
{
    const int64_t *q = job->frame.pitch, *grid = pass->grid;
    int64_t width = pass->shifted ? q[2] : grid[2], height = pass->shifted ? q[1] : grid[1];
    int64_t from_image = job->groups * job->channels * job->from_channel, to_image = job->groups * job->to_group;
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

/* Divide the outputs of some images into tiles, and the tiles into blocks of nearly equal size. Return 0, or -1 with
 * MemoryError. */
static int TYPED(plan)(const struct TYPED(job) * job, const struct TYPED(pass) * pass, int64_t images,
                       struct tiling *tiling, struct arena *arena)
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
        *tile = (struct tile){
            .begin = begin, .count = count, .wide = (count + lanes - 1) / lanes, .pieces = tiling->pieces + first};
        TYPED(add_pieces)(job, pass, begin, begin + count, tiling);
        tile->n_pieces = tiling->n_pieces - first;
        /* If the frame is the image itself (`borrowed`), memory after the last pixel must not be read. Set `exact`
         * for tiles whose loops would otherwise read this memory. */
        if (job->frame.borrowed)
            tile->exact = pass->shifted ? begin + tile->wide * lanes > pass->linear : begin + count > all - 2 * lanes;
        tile->pack = !pass->shifted || tile->exact;
    }
    int64_t most = pass->across ? TILES_ACROSS : TILES_AT_ONCE;
    tiling->blocks = (tiling->n_tiles + most - 1) / most;
    return 0;
}

/* Pack the pixels of a tile for n pairs of a channel and a tap into a contiguous block. */
static void TYPED(pack_tile)(const struct TYPED(job) * job, const struct TYPED(pass) * pass, const struct tile *tile,
                             int64_t n, const npy_intp *off, const REAL *from, REAL *block)
{
    if (!tile->exact)
        job->kernels->pack(n, off, from, tile->pieces, tile->n_pieces, block);
    else
        for (int64_t i = 0; i < n; ++i, block += 3 * job->kernels->lanes) {
            if (pass->shifted)
                memcpy(block, from + off[i] + tile->begin, tile->count * sizeof(REAL));
            else
                for (int p = 0; p < tile->n_pieces; ++p)
                    memcpy(block + tile->pieces[p].column, from + off[i] + tile->pieces[p].from,
                           tile->pieces[p].n * sizeof(REAL));
        }
}

/* A unit of work: some images, and one group of their channels. */
struct TYPED(unit) {
    int64_t group, images;
    const REAL *from;
    REAL *to;
};

static struct TYPED(unit) TYPED(unit_of)(const struct TYPED(job) * job, int64_t number)
{
    int64_t group = number % job->groups, first = number / job->groups * job->images,
            channel = first * job->groups + group;
    return (struct TYPED(unit)){group, job->units - first < job->images ? job->units - first : job->images,
                                job->from + channel * job->channels * job->from_channel,
                                job->to + channel * job->to_group};
}

static const struct tiling *TYPED(tiling_of)(const struct TYPED(job) * job, const struct TYPED(unit) * unit,
                                             int64_t pass)
{
    return unit->images == job->images ? &job->passes[pass].whole : &job->passes[pass].rest;
}

/* Copy channel c into its frame. Channels are counted over all images of the unit. */
static void TYPED(fill_channel)(const struct TYPED(job) * job, const struct TYPED(unit) * unit, int64_t c, REAL *frames)
{
    int64_t channel = c / job->channels * job->groups * job->channels + c % job->channels;
    TYPED(fill_frame)(job->kernels, &job->frame, unit->from + channel * job->from_channel,
                      frames + c * job->frame.channel);
}

/* Scatter the products of a tile: add each product of a pixel and a tap of a filter to its output. `sums` starts with
 * the first tap of a filter. */
static void TYPED(scatter_tile)(const struct TYPED(job) * job, const struct tile *tile, int64_t filters,
                                const REAL *sums, REAL *to)
{
    const int64_t *length = job->length, *q = job->frame.pitch, *kernel = job->kernel;
    int64_t from_image = job->groups * job->channels * job->from_channel, columns = 3 * job->kernels->lanes;
    for (int p = 0; p < tile->n_pieces; ++p) {
        const struct piece *piece = &tile->pieces[p];
        int64_t pixel = piece->from % from_image, image = piece->from / from_image;
        int64_t at[3] = {pixel / (q[1] * q[2]), pixel / q[2] % q[1], pixel % q[2]}, first[3];
        for (int i = 0; i < 3; ++i)
            first[i] = at[i] * job->scale[i] + job->shift[i];
        for (int64_t t = 0; t < job->taps; ++t) {
            int64_t x0 = first[0] + t / (kernel[1] * kernel[2]) * job->dilation[0],
                    x1 = first[1] + t / kernel[2] % kernel[1] * job->dilation[1];
            int64_t x2 = first[2] + t % kernel[2] * job->dilation[2], begin, end;
            TYPED(inside)(x2, job->scale[2], length[2], piece->n, &begin, &end);
            if (x0 >= 0 && x0 < length[0] && x1 >= 0 && x1 < length[1] && begin < end)
                job->kernels->add(filters, end - begin, sums + t * columns + piece->column + begin, job->taps * columns,
                                  to + image * job->groups * job->to_group + (x0 * length[1] + x1) * length[2] + x2
                                      + begin * job->scale[2],
                                  job->to_filter, job->scale[2]);
        }
    }
}

/* Compute the sums of some tiles for the filters f0 ... f1 - 1 of a group. */
static void TYPED(sum_tiles)(const struct TYPED(job) * job, const struct TYPED(unit) * unit,
                             const struct TYPED(pass) * pass, const struct tile *tiles, int64_t n_tiles, int64_t f0,
                             int64_t f1, const REAL *frames, REAL *sums, REAL *block)
{
    const REAL *from = job->frame.borrowed ? unit->from : frames,
               *packed = pass->packed + unit->group * job->filters * pass->summed;
    const struct TYPED(kernels) *kernels = job->kernels;
    int64_t columns = 3 * kernels->lanes, k = 0;
    do {
        int64_t n = pass->summed - k < SUMMED_AT_ONCE ? pass->summed - k : SUMMED_AT_ONCE;
        for (int t = 0; t < n_tiles; ++t) {
            const struct tile *tile = &tiles[t];
            if (tile->pack)
                TYPED(pack_tile)(job, pass, tile, n, pass->off + k, from, block);
            const REAL *lines = tile->pack ? block : from + tile->begin;
            const npy_intp *off = tile->pack ? job->consecutive : pass->off + k;
            for (int64_t f = f0; f < f1; f += kernels->rows) {
                int64_t rows = f1 - f < kernels->rows ? f1 - f : kernels->rows;
                kernels->tile[tile->wide - 1][rows - 1](n, packed + f * pass->summed + k * rows, lines, off,
                                                        sums + (t * (f1 - f0) + f - f0) * columns, k == 0);
            }
        }
        k += n;
    } while (k < pass->summed);
}

/* Compute the outputs of a block of tiles for the filters f0 ... f1 - 1 of a group, at most FILTERS_AT_ONCE filters. */
static void TYPED(run_tiles)(const struct TYPED(job) * job, const struct TYPED(unit) * unit, int64_t number,
                             int64_t part, int64_t f0, int64_t f1, const REAL *frames, REAL *work)
{
    const struct TYPED(pass) *pass = &job->passes[number];
    const struct tiling *tiling = TYPED(tiling_of)(job, unit, number);
    int64_t begin = part * tiling->n_tiles / tiling->blocks,
            n_tiles = (part + 1) * tiling->n_tiles / tiling->blocks - begin;
    const struct tile *tiles = tiling->tiles + begin;
    int64_t columns = 3 * job->kernels->lanes, half = n_tiles * (f1 - f0) * columns;
    REAL *block = work + TILES_AT_ONCE * FILTERS_AT_ONCE * columns;
    TYPED(sum_tiles)(job, unit, pass, tiles, n_tiles, f0, f1, frames, work, block);
    if (pass->pair != NULL)
        TYPED(sum_tiles)(job, unit, pass->pair, tiles, n_tiles, f0, f1, frames, work + half, block);
    for (int t = 0; t < n_tiles; ++t) {
        const REAL *sums = work + t * (f1 - f0) * columns;
        if (job->scattered)
            TYPED(scatter_tile)(job, &tiles[t], (f1 - f0) / job->taps, sums,
                                unit->to + f0 / job->taps * job->to_filter);
        else if (pass->pair != NULL) {
            int later = pass->pair->to < pass->to;
            job->kernels->unpack_two(f1 - f0, sums + later * half, sums + !later * half, tiles[t].pieces,
                                     tiles[t].n_pieces, unit->to + pass->to - later + f0 * job->to_filter,
                                     job->to_filter);
        }
        else
            job->kernels->unpack(f1 - f0, sums, tiles[t].pieces, tiles[t].n_pieces,
                                 unit->to + pass->to + f0 * job->to_filter, job->to_filter, job->step[2]);
    }
}

/* Compute the outputs of a block of tiles for a chunk of filters that are placed along registers. */
static void TYPED(run_across)(const struct TYPED(job) * job, const struct TYPED(unit) * unit, int64_t number,
                              int64_t part, int64_t chunk_number, const REAL *frames, REAL *work, npy_intp *at)
{
    const struct TYPED(pass) *pass = &job->passes[number];
    const struct TYPED(kernels) *kernels = job->kernels;
    const struct tiling *tiling = TYPED(tiling_of)(job, unit, number);
    int64_t begin = part * tiling->n_tiles / tiling->blocks,
            n_tiles = (part + 1) * tiling->n_tiles / tiling->blocks - begin;
    const struct tile *tiles = tiling->tiles + begin;
    const REAL *from = job->frame.borrowed ? unit->from : frames;
    struct TYPED(across) chunk = TYPED(chunk_across)(job, chunk_number);
    int64_t lanes = kernels->lanes, columns = 3 * lanes, width = chunk.wide * lanes, pixels = 0, k = 0;
    REAL *sums = work, *lines = sums + TILES_ACROSS * columns * columns, *block = lines + lanes * columns,
         *room = block + SUMMED_AT_ONCE * columns;
    for (int t = 0; t < n_tiles; ++t)
        for (int p = 0; p < tiles[t].n_pieces; ++p)
            for (int64_t i = 0; i < tiles[t].pieces[p].n; ++i)
                at[pixels++] = tiles[t].pieces[p].from + i;
    do {
        int64_t n = pass->summed - k < SUMMED_AT_ONCE ? pass->summed - k : SUMMED_AT_ONCE;
        const REAL *weights =
            pass->packed + (unit->group * TYPED(registers)(job) * lanes + chunk.first) * pass->summed + k * width;
        if (pass->packed == NULL) {
            TYPED(pack_across)(job, pass, unit->group, chunk, k, n, block, room);
            weights = block;
        }
        for (int64_t p = 0; p < pixels; p += kernels->rows) {
            int64_t rows = pixels - p < kernels->rows ? pixels - p : kernels->rows;
            kernels->across[chunk.wide - 1][rows - 1](n, from, at + p, pass->off + k, weights, sums + p * columns,
                                                      k == 0);
        }
        k += n;
    } while (k < pass->summed);
    for (int64_t f = chunk.first; f < job->filters && f < chunk.first + width; f += lanes, sums += lanes)
        for (int t = 0; t < n_tiles; ++t) {
            for (int64_t p = 0; p < tiles[t].count; p += lanes)
                kernels->transpose(tiles[t].count - p < lanes ? tiles[t].count - p : lanes, lanes,
                                   sums + (t * columns + p) * columns, columns, NPY_MAX_INTP, lines + p, columns);
            kernels->unpack(job->filters - f < lanes ? job->filters - f : lanes, lines, tiles[t].pieces,
                            tiles[t].n_pieces, unit->to + pass->to + f * job->to_filter, job->to_filter, job->step[2]);
        }
}

/* Return the number of tasks of a pass for a unit: blocks of tiles times chunks of filters. No two tasks have an output
 * in common, so threads can run tasks in parallel. */
static int64_t TYPED(tasks_of)(const struct TYPED(job) * job, const struct TYPED(unit) * unit, int64_t number)
{
    const struct TYPED(pass) *pass = &job->passes[number];
    return (job->scattered ? 1 : TYPED(tiling_of)(job, unit, number)->blocks) * pass->chunks;
}

static void TYPED(run_task)(const struct TYPED(job) * job, const struct TYPED(unit) * unit, int64_t number,
                            int64_t task, const REAL *frames)
{
    const struct TYPED(pass) *pass = &job->passes[number];
    REAL *work = job->work + thread_number() * job->work_size;
    int64_t chunks = pass->chunks, part = task / chunks, chunk = task % chunks;
    if (pass->across) {
        TYPED(run_across)(job, unit, number, part, chunk, frames, work,
                          job->at + thread_number() * TILES_ACROSS * 3 * job->kernels->lanes);
        return;
    }
    int64_t at_once = pass->chunks > 1 ? TYPED(filters_at_once)(job) : job->filters, f0 = chunk * at_once;
    int64_t f1 = f0 + at_once < job->filters ? f0 + at_once : job->filters;
    int64_t end = job->scattered ? TYPED(tiling_of)(job, unit, number)->blocks : part + 1;
    for (; part < end; ++part)
        TYPED(run_tiles)(job, unit, number, part, f0, f1, frames, work);
}

/* Mark two passes, whose outputs alternate because the stride is two, as a pair that is computed together. Do this only
 * if the passes have equal tiles, and if there is room for the sums of both passes. */
static void TYPED(pair)(const struct TYPED(job) * job, struct TYPED(pass) * a, struct TYPED(pass) * b)
{
    int64_t apart = a->to - b->to;
    if (job->step[2] == 2 && (apart == 1 || apart == -1) && memcmp(a->grid, b->grid, sizeof a->grid) == 0 && !a->across
        && !b->across && a->shifted == b->shifted && job->filters <= FILTERS_AT_ONCE / 2) {
        a->pair = b;
        b->chunks = 0;
    }
}

/* Return the number of scratch elements that a thread needs in addition to its frame. */
static int64_t TYPED(work_for)(const struct TYPED(job) * job)
{
    int64_t columns = 3 * job->kernels->lanes, tiles = 0, across = 0;
    for (int64_t p = 0; p < job->n_passes; ++p)
        if (job->passes[p].across)
            across = (TILES_ACROSS * columns + job->kernels->lanes + SUMMED_AT_ONCE) * columns
                     + job->taps * job->kernels->lanes;
        else
            tiles = (TILES_AT_ONCE * FILTERS_AT_ONCE + SUMMED_AT_ONCE + 8) * columns;
    return tiles > across ? tiles : across;
}

/* Compute all outputs. */
static void TYPED(run_job)(const struct TYPED(job) * job, int threads)
{
    const struct frame *frame = &job->frame;
    int64_t units = (job->units + job->images - 1) / job->images * job->groups;
    if (threads == 1 || units >= threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
        for (int64_t unit = 0; unit < units; ++unit) {
            struct TYPED(unit) u = TYPED(unit_of)(job, unit);
            REAL *own = job->frames + thread_number() * job->frame_size;
            if (!frame->borrowed)
                for (int64_t c = 0; c < u.images * job->channels; ++c)
                    TYPED(fill_channel)(job, &u, c, own);
            for (int64_t p = 0; p < job->n_passes; ++p)
                for (int64_t task = 0, end = TYPED(tasks_of)(job, &u, p); task < end; ++task)
                    TYPED(run_task)(job, &u, p, task, own);
        }
        return;
    }
    /* If there are fewer units than threads, all threads share each unit. */
    for (int64_t unit = 0; unit < units; ++unit) {
        struct TYPED(unit) u = TYPED(unit_of)(job, unit);
#pragma omp parallel num_threads(threads)
        {
            if (!frame->borrowed) {
#pragma omp for
                for (int64_t c = 0; c < u.images * job->channels; ++c)
                    TYPED(fill_channel)(job, &u, c, job->frames);
            }
            for (int64_t p = 0; p < job->n_passes; ++p) {
#pragma omp for schedule(dynamic) nowait
                for (int64_t task = 0; task < TYPED(tasks_of)(job, &u, p); ++task)
                    TYPED(run_task)(job, &u, p, task, job->frames);
            }
        }
    }
}

/* Choose how the tiles of a pass are computed, and return the cost for all channels and taps. The variables hold costs
 * for one channel and tap; the unit is the cost of multiplying two registers. `shifted` includes the useless results
 * between the lines, `packed` the packing of the tiles, and `across` the transposition of the sums. */
static double TYPED(choose)(const struct TYPED(job) * job, struct TYPED(pass) * pass)
{
    const int64_t *q = job->frame.pitch, *grid = pass->grid;
    double lanes = job->kernels->lanes, real = (double)grid[0] * grid[1] * grid[2], registers = TYPED(registers)(job);
    pass->linear = real == 0 ? 0 : ((grid[0] - 1) * q[1] + grid[1] - 1) * q[2] + grid[2];
    double pieces = real / lanes + (double)(grid[0] * grid[1]);
    double shifted = (pass->linear / lanes + 0.5) * job->filters,
           packed = real / lanes * job->filters + PACKING * pieces;
    /* A multiplication costs more with one register of filters: there are so few sums that each addition waits for the
     * previous addition to the same sum. */
    double alone = registers > 1 ? 1.02 : job->kernels->rows < 8 ? 2 : 1.2;
    double across = real * registers * (alone + TRANSPOSING / (pass->summed > 0 ? pass->summed : 1));
    /* Add 5 %, because lines of pixels are usually not aligned to registers. Filters (`across`) are aligned. */
    double best = 1.05 * (shifted <= packed ? shifted : packed);
    pass->shifted = shifted <= packed;
    pass->across = across < best && !job->scattered;
    pass->shifted &= !pass->across;
    return (pass->across ? across : best) * pass->summed;
}

/* Choose the number of images that are computed together. Small images are combined if no pass is shifted: each weight
 * that is read is then used for many pixels. */
static void TYPED(choose_images)(struct TYPED(job) * job, int threads)
{
    int64_t least = NPY_MAX_INTP, size = job->channels * job->frame.channel,
            fair = (job->units + threads - 1) / threads;
    job->images = 1;
    for (int64_t p = 0; p < job->n_passes; ++p) {
        int64_t outputs = job->passes[p].grid[0] * job->passes[p].grid[1] * job->passes[p].grid[2];
        if (job->passes[p].shifted || outputs == 0)
            return;
        least = outputs < least ? outputs : least;
        /* With many registers of filters, the threads can share the chunks of filters instead of the images. */
        if (job->passes[p].across && TYPED(registers)(job) >= 6 * threads)
            fair = job->units;
    }
    int64_t wanted = (2 * TILES_AT_ONCE * 3 * job->kernels->lanes + least - 1) / least;
    while (job->images < wanted && job->images < fair
           && (job->images + 1) * size * (int64_t)sizeof(REAL) <= BATCH_BYTES)
        ++job->images;
}
