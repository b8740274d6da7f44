/* The memory pool of a context. It allocates segments from the device and cuts them into blocks.
 *
 * There are two heaps of blocks, so that small blocks do not fragment the memory for large blocks. The large heap
 * contains the segments. Blocks of up to SMALL bytes are in the small heap. Its regions, the chunks, are blocks of the
 * large heap. A chunk has CHUNK bytes, or fewer if memory is scarce. In both heaps, a free block merges with its free
 * neighbors. A request gets the smallest block that is large enough. Of blocks with equal sizes, it gets the block in
 * the oldest segment at the lowest offset, so addresses depend only on the sequence of requests. The block is cut to
 * size if the rest is usable. A treap of the free blocks, ordered by size, makes these operations O(log n).
 *
 * Most programs request the same sizes again and again. So a released block first goes, unmerged, to the shelf of its
 * size, and is reused from there. If a request finds no block on the shelf of its size, the blocks on all shelves move
 * into the heaps. A shelf, too, gives the block in the oldest segment at the lowest offset. So a function that is called
 * again gets the same blocks, which recorded graphs rely on (launch_queue.c).
 *
 * `pool_counts` records the number and total size of the allocations from the device. */
#include "launch_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINIMUM ((size_t)256)   /* size of the smallest block, and smallest alignment, in bytes */
#define SMALL ((size_t)1 << 20) /* size of the largest block of the small heap, in bytes */
#define CHUNK ((size_t)2 << 20)
/* blocks of less than MEDIUM bytes share a segment of SHARED bytes; a larger block gets a separate segment */
#define MEDIUM ((size_t)10 << 20)
#define SHARED ((size_t)20 << 20)
#define GRANULE ((size_t)2 << 20) /* sizes of separate segments are multiples of GRANULE bytes */
#define SHELVES 64
#define RECORDS 60

enum { LARGE_HEAP, SMALL_HEAP, HEAPS };
enum block_state { IN_USE, ON_SHELF, IN_HEAP, IS_CHUNK };

/* A piece of a segment. The blocks of a region (a segment or a chunk) are linked in the order of their offsets. */
struct block {
    struct segment *segment;
    size_t offset, size;  /* in bytes; `offset` is relative to the start of the segment */
    size_t wanted;        /* bytes of the last request that got this block; this size selects the shelf */
    device_memory memory; /* allocated when the block is first used; 0 before */
    struct block *before, *after;
    struct block *chunk; /* block of the large heap that contains this block; NULL in the large heap */
    /* children in the treap; on a shelf, the first child and the next sibling; `right` is also the next spare record */
    struct block *left, *right;
    uint32_t priority;
    uint8_t state, heap;
    /* nonzero: `memory` was allocated for this block; 0: the block has no memory yet, or it is the whole segment and
     * uses the segment's memory */
    uint8_t owns;
};

struct segment {
    struct segment *previous, *next;
    device_memory memory;
    size_t size;
    uint64_t number; /* sequence number of the allocation */
    struct block *first;
    int whole; /* whether the segment is a single block (whole_block); true if the pool keeps no free memory */
};

struct shelf {
    struct block *first; /* the root of a pairing heap */
    size_t size;
};

/* Storage for RECORDS block records. pool_close() visits all records through the list of slabs. */
struct slab {
    struct slab *next;
    struct block blocks[RECORDS];
};

struct pool {
    gpucontext *context;
    struct segment *segments;
    struct block *free[HEAPS]; /* roots of the treaps */
    struct shelf shelves[SHELVES];
    struct slab *slabs;
    struct block *spare; /* list of unused block records */
    size_t alignment;    /* bytes; a power of 2 */
    uint64_t born;       /* number of segments allocated so far */
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
    /* xorshift: the treap's shape is random, but the same in every run */
    pool->random ^= pool->random << 13;
    pool->random ^= pool->random >> 17;
    pool->random ^= pool->random << 5;
    block->priority = pool->random;
    return block;
}

static void block_drop_memory(struct pool *pool, struct block *block)
{
    if (block->owns) {
        /* Collected calls may use the memory. If memory is an address in the segment, the address stays valid. */
        if (!pool->context->info.shares_addresses)
            queue_give(pool->context);
        pool->context->table->release(pool->context->device, block->memory, 1);
    }
    block->memory = block->owns = 0;
}

static void block_forget(struct pool *pool, struct block *block)
{
    block_drop_memory(pool, block);
    block->right = pool->spare;
    pool->spare = block;
}

/* ---- free blocks, in the order of sizes ---- */

static int block_before(const struct block *a, const struct block *b)
{
    if (a->segment != b->segment)
        return a->segment->number < b->segment->number;
    return a->offset < b->offset;
}

static int block_less(const struct block *a, const struct block *b)
{
    return a->size != b->size ? a->size < b->size : block_before(a, b);
}

/* Split a treap into two treaps: the blocks before `at`, and the other blocks. */
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

/* ---- merging and cutting blocks ---- */

/* Merge `other`, which is not in the heap, into the preceding block `block`. */
static void block_absorb(struct pool *pool, struct block *block, struct block *other)
{
    block_drop_memory(pool, block);
    block->size += other->size;
    block->after = other->after;
    if (other->after)
        other->after->before = block;
    block_forget(pool, other);
}

/* Put a free block into its heap, merged with its free neighbors. If the merged block is a whole chunk, the
 * chunk returns to the large heap. */
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

/* Take a block out of its heap. If the rest beyond `size` bytes is usable, cut it off and put it into the heap. */
static struct block *heap_take(struct pool *pool, struct block *block, size_t size)
{
    heap_remove(pool, block);
    size_t rest = block->size - size;
    if (rest >= (block->heap == LARGE_HEAP ? SMALL : pool->alignment)) {
        struct block *other = block_new(pool, block->segment, block->offset + size, rest, block->heap);
        if (other) { /* if there is no record for the rest, the block keeps its size */
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

/* Join two pairing heaps. */
static struct block *shelf_join(struct block *a, struct block *b)
{
    if (!a || !b)
        return a ? a : b;
    if (block_before(b, a)) {
        struct block *other = a;
        a = b;
        b = other;
    }
    b->right = a->left;
    a->left = b;
    return a;
}

static void shelf_add(struct shelf *shelf, struct block *block)
{
    block->state = ON_SHELF;
    block->left = block->right = NULL;
    shelf->first = shelf_join(shelf->first, block);
}

/* Take the first block from a shelf that is not empty. Its children are joined in pairs, then the pairs are joined. */
static struct block *shelf_take(struct shelf *shelf)
{
    struct block *taken = shelf->first, *rest = taken->left, *pairs = NULL, *joined = NULL;
    while (rest) {
        struct block *a = rest, *b = a->right;
        rest = b ? b->right : NULL;
        a->right = NULL;
        if (b)
            b->right = NULL;
        a = shelf_join(a, b);
        a->right = pairs;
        pairs = a;
    }
    while (pairs) {
        struct block *pair = pairs;
        pairs = pair->right;
        pair->right = NULL;
        joined = shelf_join(joined, pair);
    }
    shelf->first = joined;
    return taken;
}

static void shelves_clear(struct pool *pool)
{
    for (struct shelf *shelf = pool->shelves; shelf < pool->shelves + SHELVES; ++shelf)
        while (shelf->first)
            heap_put(pool, shelf_take(shelf));
}

/* ---- segments ---- */

static size_t rounded(size_t size, size_t multiple)
{
    return (size + multiple - 1) / multiple * multiple;
}

/* Allocate a new segment, as one free block of the large heap. If the result is GA_MEMORY_ERROR, no message is set. */
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

/* Return the segment's memory to the device. The memory of its blocks must have been released before. */
static void segment_free(struct pool *pool, struct segment *segment)
{
    queue_give(pool->context);
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

/* ---- finding blocks for requests ---- */

/* Take a block from the large heap. If no free block is large enough, allocate a new segment. The segment is larger
 * than requested, so that other blocks can use the rest. If the device lacks memory, the segment has the
 * requested size. */
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
        /* if no free block has CHUNK bytes, use a smaller free block as the chunk before allocating a segment */
        if (!chunk && (chunk = heap_find(pool, LARGE_HEAP, size)))
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

/* Allocate a segment for one block, in a pool that keeps no free memory. The segment has exactly the requested size, so
 * that tools such as compute-sanitizer and Oclgrind detect every access outside of the block. */
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

/* Allocate the memory of a block from its segment, when the block is used for the first time in its present size. */
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
    /* Query how much memory is free now. If the query fails, `info` keeps the values of the time when the context was
     * opened. */
    context->table->info(context->device, &info);
    largest_of(pool, &largest, &pieces);
    char limit[96] = "";
    if (info.largest && size > info.largest)
        snprintf(limit, sizeof limit, " The driver allocates at most %zu bytes at once.", info.largest);
    return context_failed(
        context, GA_MEMORY_ERROR,
        "Error allocating %zu bytes of device memory (out of memory). Driver report %zu bytes free and %zu total.%s %s "
        "holds %zu bytes in %zu "
        "arrays (at most %zu bytes until now), and keeps %zu bytes for more in %zu pieces, the largest of %zu bytes.",
        size, info.free_memory, info.memory, limit, context->name[0] ? context->name : "The context", counts->in_use,
        counts->blocks, counts->peak, counts->reserved - counts->in_use, pieces, largest);
}

static int assign_block(struct pool *pool, struct block *block, gpudata *data)
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
        block = shelf_take(shelf);
        return assign_block(pool, block, data);
    }
    if (!pool->keeps) {
        int code = whole_block(pool, size ? size : 1, &block);
        return code == GA_NO_ERROR       ? assign_block(pool, block, data)
               : code == GA_MEMORY_ERROR ? out_of_memory(pool, size)
                                         : code;
    }
    shelves_clear(pool);
    int code = find_block(pool, whole, &block);
    if (code == GA_MEMORY_ERROR) {
        pool_trim(context);
        code = find_block(pool, whole, &block);
    }
    if (code == GA_MEMORY_ERROR)
        return out_of_memory(pool, size);
    return code == GA_NO_ERROR ? assign_block(pool, block, data) : code;
}

void pool_release(gpucontext *context, gpudata *data)
{
    struct pool *pool = context->pool;
    struct block *block = data->block;
    data->block = NULL;
    data->memory = 0;
    if (!pool || !block) /* the pool was closed, which freed all its memory */
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
    shelf_add(shelf, block);
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
        return context_failed(context, GA_MEMORY_ERROR, "out of host memory for the pool of a device");
    pool->context = context;
    pool->keeps = !(preallocate < 0);
    pool->random = 2463534242u;
    pool->alignment = MINIMUM;
    while (pool->alignment < context->info.alignment)
        pool->alignment *= 2;
    context->pool = pool;
    if (!(preallocate > 0))
        return GA_NO_ERROR;
    double size = preallocate <= 1 ? (preallocate < .95 ? preallocate : .95) * (double)context->info.memory
                                   : preallocate * 1048576.;
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
