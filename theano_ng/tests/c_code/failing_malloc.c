/* Allocation functions that fail on request. A process that is started with LD_PRELOAD=failing_malloc.so and
 * PYTHONMALLOC=malloc uses them for Python, NumPy and compiled code.
 *
 * Only allocations of the thread that calls failing_malloc_arm fail, until it calls failing_malloc_disarm. The
 * allocation functions call those of the C library. Therefore the C library can free and resize the blocks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static _Thread_local long asked, first, last;
static _Thread_local int armed, of_places;
static atomic_long alive;

/* Call sites of allocations: the return addresses in the function that calls malloc, and in its caller. */
enum { INNER = 3, OUTER = 2, PLACES = 64 };
struct place {
    void *callers[OUTER];
};
static struct place known[PLACES];
static int places;

enum { REFUSE, GIVE_AT_KNOWN_PLACES, LEARN };

/* Let allocation number n of this thread fail, counted from 1. If `onward` is nonzero, all later allocations fail, too,
 * except those of at most 40 bytes (integers, floats, cells). If those small allocations failed, CPython's interpreter
 * would try endlessly to enter an exception handler, and would leak references to arguments of functions that have
 * cells.
 *
 * about_place: REFUSE: all allocations selected by n and onward fail.
 *              GIVE_AT_KNOWN_PLACES: a selected allocation at a known call site succeeds.
 *              LEARN: a selected allocation fails, and its call site becomes known.
 */
void failing_malloc_arm(long n, int onward, int about_place)
{
    asked = 0;
    of_places = about_place;
    first = n;
    last = onward ? LONG_MAX : n;
    armed = 1;
}

/* Stop the failures, and return the number of allocations since failing_malloc_arm. */
long failing_malloc_disarm(void)
{
    armed = 0;
    return asked;
}

/* Return the number of allocated blocks of the process. */
long failing_malloc_alive(void)
{
    return alive;
}

static __attribute__((noinline)) int at_known_place(void)
{
    void *frames[INNER + OUTER];
    struct place here = {{NULL}};
    armed = 0; /* the first call of backtrace allocates memory */
    int depth = backtrace(frames, INNER + OUTER);
    armed = 1;
    if (depth < INNER + OUTER)
        return 0;
    memcpy(here.callers, frames + INNER, sizeof here.callers);
    for (int i = 0; i < places; ++i)
        if (memcmp(&known[i], &here, sizeof here) == 0)
            return of_places == GIVE_AT_KNOWN_PLACES;
    if (of_places == LEARN && places < PLACES)
        known[places++] = here;
    return 0;
}

static __attribute__((noinline)) int fails(size_t size)
{
    if (!armed)
        return 0;
    ++asked;
    if (asked < first || asked > last || (asked > first && size <= 40))
        return 0;
    if (of_places != REFUSE && at_known_place())
        return 0;
    errno = ENOMEM;
    return 1;
}

static void *counted(void *memory)
{
    if (memory != NULL)
        ++alive;
    return memory;
}

__attribute__((noinline)) void *malloc(size_t size)
{
    return fails(size) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fails(count * size) ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size)
{
    if (memory == NULL)
        return malloc(size);
    return fails(size) ? NULL : __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size)
{
    return fails(size) ? NULL : counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    void *found = memalign(alignment, size);
    if (found == NULL)
        return ENOMEM;
    *memory = found;
    return 0;
}

void free(void *memory)
{
    if (memory != NULL)
        --alive;
    __libc_free(memory);
}
