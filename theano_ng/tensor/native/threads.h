/* Threads of config.openmp: how many may share a loop. */
#ifndef THEANO_NG_THREADS_H
#define THEANO_NG_THREADS_H

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>

static int native_threads_lost = 0;

static void native_threads_forked(void)
{
    native_threads_lost = 1;
}

/* OMP_NUM_THREADS or what omp_set_num_threads said, but 1 in the child of a process whose threads were in use: GNU's pool of threads does
 * not survive a fork, and the first parallel loop of the child would wait for ever. Call it before every parallel loop. */
static inline int native_threads(void)
{
    static int watched = 0;
    if (native_threads_lost)
        return 1;
    int threads = omp_get_max_threads();
    if (threads > 1 && !watched)
        watched = pthread_atfork(NULL, NULL, native_threads_forked) == 0;
    return threads;
}
#else
static inline int native_threads(void)
{
    return 1;
}
#endif

#endif
