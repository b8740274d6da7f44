/* Where the windows of a pooling lie; the loops in pool_planes.h and pool_gradients.h read this. */
#ifndef THEANO_NG_POOL_WINDOWS_H
#define THEANO_NG_POOL_WINDOWS_H

#include "native.h"

/* An axis that is pooled. Window o covers the elements first[o] to last[o] - 1; with the margins it has room[o]. */
typedef struct {
    npy_intp n, out, window, stride, pad;
    npy_intp *first, *last, *room;
    npy_intp whole_begin, whole_end; /* windows that are not cut */
    npy_intp step;                   /* elements from one index of this axis to the next */
} Axis;

/* An element of a line belongs to at most `layers` windows: in layer l to window (i + pad) / stride - l, in the last layer only where the
 * remainder of that division is less than `rest`. With many layers, or margins wider than the image, lines are walked window by window. */
typedef struct {
    int nd;                  /* how many axes */
    npy_intp planes, in_size, out_size, out_rows, most_rows;
    int all_rows_once;       /* each line of the image belongs to exactly one window */
    int direct;
    npy_intp layers, rest, before;
    npy_intp kept;           /* lines of the output that are kept while an image is taken line by line; 1 when it is not */
    Axis *axes;
} Windows;

#define MOST_LAYERS 16

static inline const Axis *last_axis(const Windows *w)
{
    return &w->axes[w->nd - 1];
}

/* Where the lines of the image begin that a line of the output is made of. Returns how many there are. */
static inline npy_intp window_rows(const Windows *w, const npy_intp *index, npy_intp *rows)
{
    npy_intp count = 1;
    if (w->nd == 2) {
        const Axis *a = &w->axes[0];
        npy_intp first = a->first[index[0]];
        count = a->last[index[0]] - first;
        for (npy_intp y = 0; y < count; ++y)
            rows[y] = (first + y) * a->step;
        return count;
    }
    rows[0] = 0;
    for (int d = 0; d < w->nd - 1; ++d) {
        const Axis *a = &w->axes[d];
        npy_intp first = a->first[index[d]], length = a->last[index[d]] - first;
        for (npy_intp j = count - 1; j >= 0; --j) {
            npy_intp before = rows[j];
            for (npy_intp y = 0; y < length; ++y)
                rows[j * length + y] = before + (first + y) * a->step;
        }
        count *= length;
    }
    return count;
}

/* What a sum over these lines is divided by, along the axes but the last. */
static inline npy_intp outer_count(const Windows *w, const npy_intp *index, int with_padding)
{
    npy_intp count = 1;
    for (int d = 0; d < w->nd - 1; ++d) {
        const Axis *a = &w->axes[d];
        npy_intp o = index[d];
        count *= with_padding ? a->room[o] : a->last[o] - a->first[o];
    }
    return count;
}

static inline void first_row(const Windows *w, npy_intp *index)
{
    for (int d = 0; d < w->nd - 1; ++d)
        index[d] = 0;
}

static inline void next_row(const Windows *w, npy_intp *index)
{
    for (int d = w->nd - 2; d >= 0; --d) {
        if (++index[d] < w->axes[d].out)
            return;
        index[d] = 0;
    }
}

#endif
