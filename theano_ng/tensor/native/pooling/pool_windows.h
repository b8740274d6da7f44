/* Positions of the windows of a pooling, for the loops in pool_planes.h and pool_gradients.h. */
#ifndef THEANO_NG_POOL_WINDOWS_H
#define THEANO_NG_POOL_WINDOWS_H

#include "native.h"

/* A pooled axis. All lengths are in elements.
 *   n, out: length of the image and of the output
 *   window, stride, pad: length of a window, distance between windows, margin on each side
 *   first, last: window o covers the elements first[o] to last[o] - 1
 *   room: room[o] is the length of window o with the margins */
typedef struct {
    npy_intp n, out, window, stride, pad;
    npy_intp *first, *last, *room;
    npy_intp whole_begin, whole_end; /* range of the windows that are completely inside the image */
    npy_intp step;                   /* stride of this axis in the image, in elements */
} Axis;

/* The windows of all pooled axes. An element i of a line belongs to at most `layers` windows. The window of the element
 * in layer l is (i + pad) / stride - l. The element has a window in the last layer only if the remainder of the
 * division is less than `rest`. If there are many layers, or if margins are wider than the image, `direct` is set: the
 * loops then process a line window by window. */
typedef struct {
    int nd; /* number of pooled axes */
    npy_intp planes, in_size, out_size, out_rows, most_rows;
    int all_rows_once; /* whether each line of the image belongs to exactly one window */
    int direct;
    npy_intp layers, rest, before;
    npy_intp kept; /* number of output lines kept if an image is processed line by line; otherwise 1 */
    Axis *axes;
} Windows;

#define MAX_LAYERS 16

static inline const Axis *last_axis(const Windows *w)
{
    return &w->axes[w->nd - 1];
}

/* Store the offsets of the image lines from which an output line is computed. Return the number of these lines. */
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

/* Return the number of lines of a window: the product of its lengths along all pooled axes except the last. The divisor
 * of an average is this number times the length along the last axis. */
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
