/* The pool of a context: memory that its device gave, in segments, cut into blocks.
 *
 * There are two heaps of blocks, so that small blocks do not cut up what large ones need. The large heap has the segments. Blocks of up to SMALL bytes
 * are in the small heap, whose regions (chunks of CHUNK bytes) are blocks of the large one. In both, a free block joins its free neighbours, and who asks gets the
 * smallest that is large enough (of equal ones that of the earliest region, then of the lowest place: where memory lies depends on nothing but what was asked for), cut
 * to size when what remains is of use: O(log n), by a treap in the order of sizes.
 *
 * Most programs ask again and again for the same sizes. So a block that is released first lies on the shelf of its size, as it is, and is had from there again
 * in constant time. Shelves are cleared into the heaps whenever a size is not on them.
 *
 * What a device is asked for, and how often, is in `pool_counts`. */
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINIMUM ((size_t)256)      /* bytes of the smallest block, and of every alignment */
#define SMALL ((size_t)1 << 20)    /* the largest block of the small heap */
#define CHUNK ((size_t)2 << 20)
#define MEDIUM ((size_t)10 << 20)  /* blocks of less share a segment of SHARED; others have one of their own */
#define SHARED ((size_t)20 << 20)
#define GRANULE ((size_t)2 << 20)  /* that segments are a multiple of */
#define SHELVES 64
#define RECORDS 60

enum { LARGE_HEAP, SMALL_HEAP, HEAPS };
enum block_state { IN_USE, ON_SHELF, IN_HEAP, IS_CHUNK };

/* A piece of a segment. The blocks of a region (a segment, or a chunk) are linked in the order of their places. */
struct block {
    struct segment *segment;
    size_t offset, size;       /* bytes, in the segment */
    size_t wanted;             /* bytes that it was last given out for: the size of its shelf */
    device_memory memory;      /* made when the block is first given out; 0: not yet */
    struct block *before, *after;
    struct block *chunk;       /* of the large heap, that this one is a part of; NULL in the large heap */
    struct block *left, *right; /* of the treap; `right` is also the next on a shelf, or of the spare records */
    uint32_t priority;
    uint8_t state, heap;
    uint8_t owns;               /* `memory` is the block's, not that of the segment, which is the block as a whole */
};

struct segment {
    struct segment *previous, *next;
    device_memory memory;
    size_t size;
    uint64_t number; /* in the order of birth */
    struct block *first;
    int whole;       /* of a pool that keeps nothing: one block */
};

struct shelf {
    struct block *first;
    size_t size;
};

/* Where records of blocks come from: all are found here when the pool is closed. */
struct slab {
    struct slab *next;
    struct block blocks[RECORDS];
};

struct pool {
    gpucontext *context;
    struct segment *segments;
    struct block *free[HEAPS]; /* roots of treaps */
    struct shelf shelves[SHELVES];
    struct slab *slabs;
    struct block *spare;       /* records of blocks that are none */
    size_t alignment;          /* a power of 2 */
    uint64_t born;             /* segments */
    uint32_t random;
    int keeps;
    pool_counts counts;
};

/* ---- records ---- */

static int more_records(struct pool *pool)
{
    struct slab *slab = calloc(1, sizeof *slab);
    if (!slab)
        return -1;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (int i = RECORDS; i-- > 0;) {
        slab->blocks[i].right = pool->spare;
        pool->spare = &slab->blocks[i];
    }
    return 0;
}

static struct block *block_new(struct pool *pool, struct segment *segment, size_t offset, size_t size, int heap)
{
    if (!pool->spare && more_records(pool) < 0)
        return NULL;
    struct block *block = pool->spare;
    pool->spare = block->right;
    memset(block, 0, sizeof *block);
    block->segment = segment;
    block->offset = offset;
    block->size = size;
    block->heap = (uint8_t)heap;
    /* xorshift: the treap's shape is random, and the same in every run */
    pool->random ^= pool->random << 13;
    pool->random ^= pool->random >> 17;
    pool->random ^= pool->random << 5;
    block->priority = pool->random;
    return block;
}

static void block_drop_memory(struct pool *pool, struct block *block)
{
    if (block->owns)
        pool->context->table->release(pool->context->device, block->memory, 1);
    block->memory = block->owns = 0;
}

static void block_forget(struct pool *pool, struct block *block)
{
    block_drop_memory(pool, block);
    block->right = pool->spare;
    pool->spare = block;
}

/* ---- free blocks, in the order of sizes ---- */

static int block_less(const struct block *a, const struct block *b)
{
    if (a->size != b->size)
        return a->size < b->size;
    if (a->segment != b->segment)
        return a->segment->number < b->segment->number;
    return a->offset < b->offset;
}

/* What is before `at`, and the rest. */
static void treap_split(struct block *root, const struct block *at, struct block **low, struct block **high)
{
    while (root) {
        if (block_less(root, at)) {
            *low = root;
            low = &root->right;
            root = root->right;
        }
        else {
            *high = root;
            high = &root->left;
            root = root->left;
        }
    }
    *low = *high = NULL;
}

static struct block *treap_join(struct block *low, struct block *high)
{
    struct block *root = NULL, **place = &root;
    while (low && high) {
        if (low->priority > high->priority) {
            *place = low;
            place = &low->right;
            low = low->right;
        }
        else {
            *place = high;
            place = &high->left;
            high = high->left;
        }
    }
    *place = low ? low : high;
    return root;
}

static void heap_add(struct pool *pool, struct block *block)
{
    struct block **place = &pool->free[block->heap];
    while (*place && (*place)->priority >= block->priority)
        place = block_less(*place, block) ? &(*place)->right : &(*place)->left;
    struct block *below = *place;
    treap_split(below, block, &block->left, &block->right);
    *place = block;
    block->state = IN_HEAP;
}

static void heap_remove(struct pool *pool, struct block *block)
{
    struct block **place = &pool->free[block->heap];
    while (*place != block)
        place = block_less(*place, block) ? &(*place)->right : &(*place)->left;
    *place = treap_join(block->left, block->right);
}

static struct block *heap_find(struct pool *pool, int heap, size_t size)
{
    struct block *here = pool->free[heap], *found = NULL;
    while (here) {
        if (here->size >= size) {
            found = here;
            here = here->left;
        }
        else
            here = here->right;
    }
    return found;
}

/* ---- blocks that join and are cut ---- */

/* Takes `other`, which is not in the heap, into `block`, which is in front of it. */
static void block_absorb(struct pool *pool, struct block *block, struct block *other)
{
    block_drop_memory(pool, block);
    block->size += other->size;
    block->after = other->after;
    if (other->after)
        other->after->before = block;
    block_forget(pool, other);
}

/* What is free goes into its heap, joined with free neighbours. A chunk that is free as a whole goes back to the large heap. */
static void heap_put(struct pool *pool, struct block *block)
{
    if (block->after && block->after->state == IN_HEAP) {
        heap_remove(pool, block->after);
        block_absorb(pool, block, block->after);
    }
    if (block->before && block->before->state == IN_HEAP) {
        struct block *before = block->before;
        heap_remove(pool, before);
        block_absorb(pool, before, block);
        block = before;
    }
    struct block *chunk = block->chunk;
    if (chunk && !block->before && !block->after) {
        block_forget(pool, block);
        heap_put(pool, chunk);
        return;
    }
    heap_add(pool, block);
}

/* Takes a block out of its heap; cuts it to size where the rest is of use. */
static struct block *heap_take(struct pool *pool, struct block *block, size_t size)
{
    heap_remove(pool, block);
    size_t rest = block->size - size;
    if (rest >= (block->heap == LARGE_HEAP ? SMALL : pool->alignment)) {
        struct block *other = block_new(pool, block->segment, block->offset + size, rest, block->heap);
        if (other) { /* else the block is larger than it need be */
            block_drop_memory(pool, block);
            block->size = size;
            other->chunk = block->chunk;
            other->before = block;
            other->after = block->after;
            if (block->after)
                block->after->before = other;
            block->after = other;
            heap_add(pool, other);
        }
    }
    block->state = IN_USE;
    block->wanted = size;
    return block;
}

/* ---- shelves ---- */

static struct shelf *shelf_of(struct pool *pool, size_t size)
{
    return &pool->shelves[(size / MINIMUM * 0x9E3779B97F4A7C15u) >> 58];
}

static void shelves_clear(struct pool *pool)
{
    for (struct shelf *shelf = pool->shelves; shelf < pool->shelves + SHELVES; ++shelf)
        while (shelf->first) {
            struct block *block = shelf->first;
            shelf->first = block->right;
            heap_put(pool, block);
        }
}

/* ---- segments ---- */

static size_t rounded(size_t size, size_t multiple)
{
    return (size + multiple - 1) / multiple * multiple;
}

/* A new segment, as one free block of the large heap. GA_MEMORY_ERROR leaves no sentence. */
static int segment_new(struct pool *pool, size_t size, struct block **block)
{
    gpucontext *context = pool->context;
    struct segment *segment = calloc(1, sizeof *segment);
    *block = segment ? block_new(pool, segment, 0, size, LARGE_HEAP) : NULL;
    if (!*block) {
        free(segment);
        return GA_MEMORY_ERROR;
    }
    int code = context->table->alloc(context->device, 0, 0, size, &segment->memory);
    ++pool->counts.allocations;
    if (code != GA_NO_ERROR) {
        block_forget(pool, *block);
        free(segment);
        return code == GA_MEMORY_ERROR ? code : context_checked(context, code);
    }
    segment->size = size;
    segment->number = pool->born++;
    segment->first = *block;
    segment->next = pool->segments;
    if (segment->next)
        segment->next->previous = segment;
    pool->segments = segment;
    pool->counts.reserved += size;
    return GA_NO_ERROR;
}

/* Its memory goes back to the device; its blocks have none of their own any more. */
static void segment_free(struct pool *pool, struct segment *segment)
{
    pool->context->table->release(pool->context->device, segment->memory, 0);
    pool->counts.reserved -= segment->size;
    if (segment->previous)
        segment->previous->next = segment->next;
    else
        pool->segments = segment->next;
    if (segment->next)
        segment->next->previous = segment->previous;
    free(segment);
}

/* ---- blocks for those who ask ---- */

/* A block of the large heap, from a new segment if there is none. Asked for more than is needed where others may have the rest, and for no
 * more than that when the device has not so much. */
static int large_block(struct pool *pool, size_t size, struct block **block)
{
    struct block *found = heap_find(pool, LARGE_HEAP, size);
    if (!found) {
        size_t generous = size < MEDIUM ? SHARED : rounded(size, GRANULE), largest = pool->context->info.largest;
        int code = GA_MEMORY_ERROR;
        if (!largest || generous <= largest)
            code = segment_new(pool, generous, &found);
        if (code == GA_MEMORY_ERROR && generous > size)
            code = segment_new(pool, size, &found);
        if (code != GA_NO_ERROR)
            return code;
        heap_add(pool, found);
    }
    *block = heap_take(pool, found, size);
    return GA_NO_ERROR;
}

static int small_block(struct pool *pool, size_t size, struct block **block)
{
    struct block *found = heap_find(pool, SMALL_HEAP, size);
    if (!found) {
        struct block *chunk = heap_find(pool, LARGE_HEAP, CHUNK);
        if (!chunk && (chunk = heap_find(pool, LARGE_HEAP, size))) /* a smaller one will do before the device is asked */
            chunk = heap_take(pool, chunk, chunk->size);
        else {
            int code = large_block(pool, CHUNK, &chunk);
            if (code == GA_MEMORY_ERROR)
                code = large_block(pool, size, &chunk);
            if (code != GA_NO_ERROR)
                return code;
        }
        found = block_new(pool, chunk->segment, chunk->offset, chunk->size, SMALL_HEAP);
        if (!found) {
            heap_put(pool, chunk);
            return GA_MEMORY_ERROR;
        }
        chunk->state = IS_CHUNK;
        found->chunk = chunk;
        heap_add(pool, found);
    }
    *block = heap_take(pool, found, size);
    return GA_NO_ERROR;
}

/* A segment with nothing else, of a pool that keeps nothing. It is as long as was asked for, so that tools which look for accesses outside of memory
 * (compute-sanitizer, Oclgrind) see them. */
static int whole_block(struct pool *pool, size_t size, struct block **block)
{
    int code = segment_new(pool, size, block);
    if (code == GA_NO_ERROR) {
        (*block)->segment->whole = 1;
        (*block)->state = IN_USE;
    }
    return code;
}

static int find_block(struct pool *pool, size_t size, struct block **block)
{
    return size <= SMALL ? small_block(pool, size, block) : large_block(pool, size, block);
}

/* The memory of a block, which the device is asked for when the block is given out for the first time in its present size. */
static int block_make_memory(struct pool *pool, struct block *block)
{
    struct segment *segment = block->segment;
    if (block->memory)
        return GA_NO_ERROR;
    if (block->size == segment->size) {
        block->memory = segment->memory;
        return GA_NO_ERROR;
    }
    gpucontext *context = pool->context;
    int code = context->table->alloc(context->device, segment->memory, block->offset, block->size, &block->memory);
    block->owns = code == GA_NO_ERROR;
    if (code != GA_NO_ERROR)
        block->memory = 0;
    return code;
}

static void largest_of(const struct pool *pool, size_t *largest, size_t *pieces)
{
    *largest = *pieces = 0;
    for (const struct segment *segment = pool->segments; segment; segment = segment->next)
        for (const struct block *block = segment->first; block; block = block->after)
            if (block->state == IN_HEAP) {
                ++*pieces;
                if (block->size > *largest)
                    *largest = block->size;
            }
}

static int out_of_memory(struct pool *pool, size_t size)
{
    gpucontext *context = pool->context;
    const pool_counts *counts = &pool->counts;
    device_info info = context->info;
    size_t largest, pieces;
    context->table->info(context->device, &info); /* what is free now; as it was at first where the device does not say */
    largest_of(pool, &largest, &pieces);
    char limit[96] = "";
    if (info.largest && size > info.largest)
        snprintf(limit, sizeof limit, " It gives no more than %zu bytes at once.", info.largest);
    return context_failed(context, GA_MEMORY_ERROR,
                          "Error allocating %zu bytes of device memory (out of memory). Driver report %zu bytes free and %zu total.%s %s holds %zu bytes in %zu "
                          "arrays (at most %zu bytes until now), and keeps %zu bytes for more in %zu pieces, the largest of %zu bytes.",
                          size, info.free_memory, info.memory, limit, context->name[0] ? context->name : "The context", counts->in_use, counts->blocks,
                          counts->peak, counts->reserved - counts->in_use, pieces, largest);
}

static int give(struct pool *pool, struct block *block, gpudata *data)
{
    int code = block_make_memory(pool, block);
    if (code != GA_NO_ERROR) {
        context_checked(pool->context, code);
        heap_put(pool, block);
        return code;
    }
    block->state = IN_USE;
    data->memory = block->memory;
    data->block = block;
    pool_counts *counts = &pool->counts;
    counts->in_use += block->size;
    ++counts->blocks;
    if (counts->in_use > counts->peak)
        counts->peak = counts->in_use;
    return GA_NO_ERROR;
}

int pool_alloc(gpucontext *context, size_t size, gpudata *data)
{
    struct pool *pool = context->pool;
    struct block *block;
    if (size > SIZE_MAX / 2)
        return out_of_memory(pool, size);
    size_t whole = size ? (size + pool->alignment - 1) & ~(pool->alignment - 1) : pool->alignment;
    struct shelf *shelf = shelf_of(pool, whole);
    if (shelf->first && shelf->size == whole) {
        block = shelf->first;
        shelf->first = block->right;
        return give(pool, block, data);
    }
    if (!pool->keeps) {
        int code = whole_block(pool, size ? size : 1, &block);
        return code == GA_NO_ERROR ? give(pool, block, data) : code == GA_MEMORY_ERROR ? out_of_memory(pool, size) : code;
    }
    shelves_clear(pool);
    int code = find_block(pool, whole, &block);
    if (code == GA_MEMORY_ERROR) {
        pool_trim(context);
        code = find_block(pool, whole, &block);
    }
    if (code == GA_MEMORY_ERROR)
        return out_of_memory(pool, size);
    return code == GA_NO_ERROR ? give(pool, block, data) : code;
}

void pool_release(gpucontext *context, gpudata *data)
{
    struct pool *pool = context->pool;
    struct block *block = data->block;
    data->block = NULL;
    data->memory = 0;
    if (!pool || !block) /* the pool is closed, and with it went all its memory */
        return;
    pool->counts.in_use -= block->size;
    --pool->counts.blocks;
    if (block->segment->whole) {
        struct segment *segment = block->segment;
        block_forget(pool, block);
        segment_free(pool, segment);
        return;
    }
    struct shelf *shelf = shelf_of(pool, block->wanted);
    if (shelf->first && shelf->size != block->wanted) {
        heap_put(pool, block);
        return;
    }
    block->state = ON_SHELF;
    block->right = shelf->first;
    shelf->first = block;
    shelf->size = block->wanted;
}

void pool_trim(gpucontext *context)
{
    struct pool *pool = context->pool;
    if (!pool)
        return;
    shelves_clear(pool);
    struct segment *next;
    for (struct segment *segment = pool->segments; segment; segment = next) {
        struct block *first = segment->first;
        next = segment->next;
        if (first->state != IN_HEAP || first->size != segment->size)
            continue;
        heap_remove(pool, first);
        block_forget(pool, first);
        segment_free(pool, segment);
    }
}

/* ---- the pool ---- */

static int reserve(struct pool *pool, size_t size)
{
    size_t most = pool->context->info.largest ? pool->context->info.largest : size;
    for (size_t rest = size; rest >= pool->alignment;) {
        size_t part = (rest < most ? rest : most) & ~(pool->alignment - 1);
        struct block *block;
        int code = part ? segment_new(pool, part, &block) : GA_MEMORY_ERROR;
        if (code == GA_MEMORY_ERROR)
            return out_of_memory(pool, size);
        if (code != GA_NO_ERROR)
            return code;
        heap_add(pool, block);
        rest -= part;
    }
    return GA_NO_ERROR;
}

int pool_open(gpucontext *context, double preallocate)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return context_failed(context, GA_MEMORY_ERROR, "no memory for the pool of a device");
    pool->context = context;
    pool->keeps = !(preallocate < 0);
    pool->random = 2463534242u;
    pool->alignment = MINIMUM;
    while (pool->alignment < context->info.alignment)
        pool->alignment *= 2;
    context->pool = pool;
    if (!(preallocate > 0))
        return GA_NO_ERROR;
    double size = preallocate <= 1 ? (preallocate < .95 ? preallocate : .95) * (double)context->info.memory : preallocate * 1048576.;
    int code = size < (double)(SIZE_MAX / 2) ? reserve(pool, (size_t)size) : out_of_memory(pool, SIZE_MAX / 2);
    if (code != GA_NO_ERROR)
        pool_close(context);
    return code;
}

void pool_close(gpucontext *context)
{
    struct pool *pool = context->pool;
    if (!pool)
        return;
    for (struct slab *slab = pool->slabs; slab; slab = slab->next)
        for (int i = 0; i < RECORDS; ++i)
            if (slab->blocks[i].owns)
                block_drop_memory(pool, &slab->blocks[i]);
    for (struct segment *segment = pool->segments, *next; segment; segment = next) {
        next = segment->next;
        segment_free(pool, segment);
    }
    for (struct slab *slab = pool->slabs, *next; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
    free(pool);
    context->pool = NULL;
}

void pool_count(gpucontext *context, pool_counts *counts)
{
    if (context->pool)
        *counts = context->pool->counts;
    else
        memset(counts, 0, sizeof *counts);
}
