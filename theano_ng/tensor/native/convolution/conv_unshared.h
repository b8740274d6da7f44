/* Correlation with a separate kernel for each position of the output, for one floating-point type. Each weight is used
 * once for each image, so most of the time is spent on reading the weights. conv_type.h includes this file once for
 * each type. */

/* Copy the pixels of one image under the kernel at a position, for all channels of a group. Pixels of the padding
 * are zero. */
static void TYPED(gather)(const struct geometry *g, const REAL *image, const int64_t *at, REAL *line)
{
    int64_t size = g->image[0] * g->image[1] * g->image[2];
    for (int64_t c = 0; c < g->channels; ++c, image += size)
        for (int64_t t0 = 0; t0 < g->kernel[0]; ++t0)
            for (int64_t t1 = 0; t1 < g->kernel[1]; ++t1) {
                int64_t x0 = at[0] * g->stride[0] - g->pad[0] + t0 * g->dilation[0],
                        x1 = at[1] * g->stride[1] - g->pad[1] + t1 * g->dilation[1];
                int64_t x2 = at[2] * g->stride[2] - g->pad[2];
                int outside = x0 < 0 || x0 >= g->image[0] || x1 < 0 || x1 >= g->image[1];
                for (int64_t t2 = 0; t2 < g->kernel[2]; ++t2, x2 += g->dilation[2])
                    *line++ =
                        outside || x2 < 0 || x2 >= g->image[2] ? 0 : image[(x0 * g->image[1] + x1) * g->image[2] + x2];
            }
}

/* Add a line of pixels to an image. The line has the layout that `gather` writes. */
static void TYPED(scatter)(const struct geometry *g, const REAL *line, const int64_t *at, REAL *image)
{
    int64_t size = g->image[0] * g->image[1] * g->image[2];
    for (int64_t c = 0; c < g->channels; ++c, image += size)
        for (int64_t t0 = 0; t0 < g->kernel[0]; ++t0)
            for (int64_t t1 = 0; t1 < g->kernel[1]; ++t1) {
                int64_t x0 = at[0] * g->stride[0] - g->pad[0] + t0 * g->dilation[0],
                        x1 = at[1] * g->stride[1] - g->pad[1] + t1 * g->dilation[1];
                int64_t x2 = at[2] * g->stride[2] - g->pad[2];
                int outside = x0 < 0 || x0 >= g->image[0] || x1 < 0 || x1 >= g->image[1];
                for (int64_t t2 = 0; t2 < g->kernel[2]; ++t2, x2 += g->dilation[2], ++line)
                    if (!(outside || x2 < 0 || x2 >= g->image[2]))
                        image[(x0 * g->image[1] + x1) * g->image[2] + x2] += *line;
            }
}

/* Number of lines of pixels that are gathered before the weights of a position are read. */
#define IMAGES_AT_ONCE 8

static void TYPED(unshared_position)(const struct geometry *g, const struct TYPED(kernels) * kernels, int kind,
                                     int64_t p, const REAL *bottom, REAL *weights, REAL *top, REAL *lines)
{
    int64_t positions = g->top[0] * g->top[1] * g->top[2], size = g->image[0] * g->image[1] * g->image[2];
    int64_t length = g->channels * g->kernel[0] * g->kernel[1] * g->kernel[2];
    int64_t at[3] = {p / (g->top[1] * g->top[2]), p / g->top[2] % g->top[1], p % g->top[2]};
    for (int64_t group = 0; group < g->groups; ++group) {
        REAL *w = weights + (group * g->filters * positions + p) * length;
        if (kind == WEIGHTS)
            for (int64_t f = 0; f < g->filters; ++f)
                memset(w + f * positions * length, 0, length * sizeof(REAL));
        for (int64_t n0 = 0; n0 < g->batch; n0 += IMAGES_AT_ONCE) {
            int64_t count = g->batch - n0 < IMAGES_AT_ONCE ? g->batch - n0 : IMAGES_AT_ONCE;
            for (int64_t n = 0; n < count; ++n)
                TYPED(gather)(g, bottom + ((n0 + n) * g->groups + group) * g->channels * size, at, lines + n * length);
            for (int64_t f = 0; f < g->filters; ++f)
                for (int64_t n = 0; n < count; ++n) {
                    REAL *y = top + (((n0 + n) * g->groups + group) * g->filters + f) * positions + p;
                    if (kind == FORWARD)
                        *y = kernels->dot(length, w + f * positions * length, lines + n * length);
                    else
                        kernels->add_scaled(length, *y, lines + n * length, w + f * positions * length);
                }
        }
    }
}

static void TYPED(unshared_image)(const struct geometry *g, const struct TYPED(kernels) * kernels, int64_t n,
                                  REAL *bottom, const REAL *weights, const REAL *top, REAL *line)
{
    int64_t positions = g->top[0] * g->top[1] * g->top[2], size = g->image[0] * g->image[1] * g->image[2];
    int64_t length = g->channels * g->kernel[0] * g->kernel[1] * g->kernel[2];
    memset(bottom + n * g->groups * g->channels * size, 0, g->groups * g->channels * size * sizeof(REAL));
    for (int64_t group = 0; group < g->groups; ++group)
        for (int64_t p = 0; p < positions; ++p) {
            int64_t at[3] = {p / (g->top[1] * g->top[2]), p / g->top[2] % g->top[1], p % g->top[2]};
            memset(line, 0, length * sizeof(REAL));
            for (int64_t f = 0; f < g->filters; ++f)
                kernels->add_scaled(length, top[((n * g->groups + group) * g->filters + f) * positions + p],
                                    weights + ((group * g->filters + f) * positions + p) * length, line);
            TYPED(scatter)(g, line, at, bottom + (n * g->groups + group) * g->channels * size);
        }
}

static int TYPED(run_unshared)(const struct geometry *given, const struct TYPED(kernels) * kernels, int kind,
                               int threads, REAL *bottom, REAL *weights, REAL *top, struct arena *arena)
{
    struct geometry geometry = *given, *g = &geometry;
    /* A reversed kernel reads the pixels in reverse order: its first tap reads the last pixel. Negative dilations and
     * adapted padding give this order. */
    for (int i = 0; given->flip && i < 3; ++i) {
        geometry.pad[i] -= (given->kernel[i] - 1) * given->dilation[i];
        geometry.dilation[i] = -given->dilation[i];
    }
    int64_t length = g->channels * g->kernel[0] * g->kernel[1] * g->kernel[2],
            positions = g->top[0] * g->top[1] * g->top[2];
    REAL *lines = take(arena, (int64_t)threads * IMAGES_AT_ONCE, length * (int64_t)sizeof(REAL));
    if (lines == NULL)
        return -1;
    if (kind == INPUTS) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (int64_t n = 0; n < g->batch; ++n)
            TYPED(unshared_image)(g, kernels, n, bottom, weights, top,
                                  lines + thread_number() * IMAGES_AT_ONCE * length);
    }
    else {
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (int64_t p = 0; p < positions; ++p)
            TYPED(unshared_position)(g, kernels, kind, p, bottom, weights, top,
                                     lines + thread_number() * IMAGES_AT_ONCE * length);
    }
    return 0;
}
