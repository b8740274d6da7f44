/* GNU's OpenMP library, which is loaded when threads are first needed. A module that is linked with the library would
 * not load at all on systems without the library. Loops are sequential if the library is missing, and also until
 * native_threads() is called for the first time.
 *
 * This file defines the functions that gcc calls for parallel loops, and the functions of omp.h that we use. If a
 * pragma needs another function, the linker takes it from the library; theano_ng/tests/test_built.py detects this. */
#ifndef THEANO_NG_GOMP_H
#define THEANO_NG_GOMP_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

typedef void (*gomp_body)(void *);

static struct {
    bool asked;
    void (*parallel)(gomp_body, void *, unsigned, unsigned);
    void (*barrier)(void);
    bool (*dynamic_start)(long, long, long, long, long *, long *);
    bool (*dynamic_next)(long *, long *);
    void (*loop_end)(void);
    int (*max_threads)(void), (*num_threads)(void), (*thread_num)(void);
} gomp;

/* Load the library on the first call, which needs the GIL. Return true if it has all functions that this file uses. */
static inline bool gomp_find(void)
{
    if (gomp.asked)
        return gomp.parallel != NULL;
    gomp.asked = true;
    void *library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_LOCAL), *found[8];
    static const char *const names[] = {"GOMP_barrier",
                                        "GOMP_loop_nonmonotonic_dynamic_start",
                                        "GOMP_loop_nonmonotonic_dynamic_next",
                                        "GOMP_loop_end_nowait",
                                        "omp_get_max_threads",
                                        "omp_get_num_threads",
                                        "omp_get_thread_num",
                                        "GOMP_parallel"};
    for (int i = 0; i < 8; ++i)
        if (library == NULL || (found[i] = dlsym(library, names[i])) == NULL)
            return false;
    gomp.barrier = (void (*)(void))found[0];
    gomp.dynamic_start = (bool (*)(long, long, long, long, long *, long *))found[1];
    gomp.dynamic_next = (bool (*)(long *, long *))found[2];
    gomp.loop_end = (void (*)(void))found[3];
    gomp.max_threads = (int (*)(void))found[4];
    gomp.num_threads = (int (*)(void))found[5];
    gomp.thread_num = (int (*)(void))found[6];
    gomp.parallel = (void (*)(gomp_body, void *, unsigned, unsigned))found[7];
    return true;
}

#define GOMP_OURS __attribute__((visibility("hidden")))

GOMP_OURS void GOMP_parallel(gomp_body body, void *data, unsigned threads, unsigned flags)
{
    if (gomp.parallel != NULL)
        gomp.parallel(body, data, threads, flags);
    else
        body(data);
}

GOMP_OURS void GOMP_barrier(void)
{
    if (gomp.parallel != NULL)
        gomp.barrier();
}

/* Without the library, the calling thread gets the whole loop as one chunk. */
GOMP_OURS bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk, long *from, long *to)
{
    if (gomp.parallel != NULL)
        return gomp.dynamic_start(start, end, step, chunk, from, to);
    *from = start, *to = end;
    return step > 0 ? start < end : start > end;
}

GOMP_OURS bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to)
{
    return gomp.parallel != NULL && gomp.dynamic_next(from, to);
}

GOMP_OURS void GOMP_loop_end_nowait(void)
{
    if (gomp.parallel != NULL)
        gomp.loop_end();
}

GOMP_OURS int omp_get_max_threads(void)
{
    return gomp_find() ? gomp.max_threads() : 1;
}

GOMP_OURS int omp_get_num_threads(void)
{
    return gomp.parallel != NULL ? gomp.num_threads() : 1;
}

GOMP_OURS int omp_get_thread_num(void)
{
    return gomp.parallel != NULL ? gomp.thread_num() : 0;
}

#endif
