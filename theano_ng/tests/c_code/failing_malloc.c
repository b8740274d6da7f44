/* Allocations that fail on request, for a process that is started with LD_PRELOAD=failing_malloc.so and PYTHONMALLOC=malloc: those of Python,
 * of NumPy and of compiled code alike.
 *
 * Only the thread that calls failing_malloc_arm is meant, until it calls failing_malloc_disarm. The allocators are those of the C library:
 * what they give can be freed and resized by it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static _Thread_local long asked, first, last;
static _Thread_local size_t refused;
static _Thread_local int armed;
static atomic_long alive;

/* Let the allocation number n of this thread fail, counted from 1; and all behind it, if they are wanted, but those of an integer, a float or a
 * cell: without these CPython's interpreter tries for ever to enter an exception handler, and loses references to arguments of functions that
 * have cells.
 */
void failing_malloc_arm(long n, int onward)
{
    asked = 0;
    refused = 0;
    first = n;
    last = onward ? LONG_MAX : n;
    armed = 1;
}

/* How many allocations there were. */
long failing_malloc_disarm(void)
{
    armed = 0;
    return asked;
}

/* The size of the allocation number n. */
size_t failing_malloc_refused(void)
{
    return refused;
}

/* How many blocks the process has. */
long failing_malloc_alive(void)
{
    return alive;
}

static int fails(size_t size)
{
    if (!armed)
        return 0;
    ++asked;
    if (asked == first)
        refused = size;
    if (asked < first || asked > last || (asked > first && size <= 40))
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

void *malloc(size_t size)
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
