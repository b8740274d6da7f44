/* Tiles of products: the choice of a tile by the sizes of the matrices. See kernels/product.py. */
#ifndef TNG_GPU_TILES_H
#define TNG_GPU_TILES_H

#include "gpu.h"

enum { N_TILES = 3 };

/* A kernel, and the part of the result that one thread or group of it computes */
typedef struct {
    gpukernel *kernel;
    size_t rows, columns;
} Tile;

/* Estimated times of a multiplication and addition, relative to the largest tile */
static const double tile_cost[N_TILES] = {1, 1.6, 3};

/* Fill in the tiles. rows, columns: the sizes of the tiles, each in one byte, the first in the lowest byte. */
static inline void fill_tiles(Tile *tiles, int64_t large, int64_t medium, int64_t small, int64_t rows, int64_t columns)
{
    const int64_t kernels[N_TILES] = {large, medium, small};
    for (int i = 0; i < N_TILES; ++i) {
        tiles[i].kernel = (gpukernel *)(intptr_t)kernels[i];
        tiles[i].rows = (size_t)(rows >> 8 * i & 255);
        tiles[i].columns = (size_t)(columns >> 8 * i & 255);
    }
}

static inline size_t tiles_of(size_t m, size_t n, const Tile *tile)
{
    return (m + tile->rows - 1) / tile->rows * ((n + tile->columns - 1) / tile->columns);
}

/* Return the index of the best of `count` tiles for m times n results. `cost` becomes the time in units of k
 * multiplications. */
static inline int choose_tile(const Tile *tiles, int count, size_t batch, size_t m, size_t n, size_t processors,
                              double *cost)
{
    int best = 0;
    for (int i = 0; i < count; ++i) {
        size_t all = batch * tiles_of(m, n, &tiles[i]), rounds = (all + processors - 1) / processors;
        double time = (double)rounds * (double)(tiles[i].rows * tiles[i].columns) * tile_cost[i];
        if (i == 0 || time < *cost) {
            *cost = time;
            best = i;
        }
    }
    return best;
}

#endif
