/* The number of threads that may share a loop (config.openmp). */
#ifndef THEANO_NG_THREADS_H
#define THEANO_NG_THREADS_H

#ifdef _OPENMP
#include "native.h"
#if defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#include "gomp.h"
#else
#include <omp.h>
#endif
#include <pthread.h>

/* State of the process's pool of threads. All native modules share this state through a capsule in their package.
 *   watched: the fork handler is registered
 *   lost: this process was forked after the handler was registered, so it has no threads of the pool */
typedef struct {
    int watched, lost;
} NativeThreads;

#define NATIVE_THREADS_CAPSULE "theano_ng.tensor.native._threads"

static NativeThreads *native_threads_known = NULL;

static void native_threads_forked(void)
{
    native_threads_known->lost = 1;
}

/* Return the shared state. Modules are never unloaded, so a pointer to a module's static struct stays valid. */
static inline NativeThreads *native_threads_find(void)
{
    static NativeThreads own = {0, 0};
    PyObject *package = PyImport_ImportModule("theano_ng.tensor.native");
    PyObject *capsule = package == NULL ? NULL : PyObject_GetAttrString(package, "_threads");
    if (package != NULL && capsule == NULL) {
        PyErr_Clear();
        capsule = PyCapsule_New(&own, NATIVE_THREADS_CAPSULE, NULL);
        if (capsule != NULL)
            PyObject_SetAttrString(package, "_threads", capsule);
    }
    NativeThreads *known =
        capsule == NULL ? NULL : (NativeThreads *)PyCapsule_GetPointer(capsule, NATIVE_THREADS_CAPSULE);
    Py_XDECREF(capsule);
    Py_XDECREF(package);
    PyErr_Clear();
    return known == NULL ? &own : known;
}

/* Return the number set by OMP_NUM_THREADS or omp_set_num_threads. In the child of a process whose threads were in use,
 * return 1: GNU's pool of threads does not survive a fork, and the first parallel loop of the child would wait forever.
 * Call this function before every parallel loop, with the GIL. */
static inline int native_threads(void)
{
    if (native_threads_known == NULL)
        native_threads_known = native_threads_find();
    if (native_threads_known->lost)
        return 1;
    int threads = omp_get_max_threads();
    if (threads > 1 && !native_threads_known->watched)
        native_threads_known->watched = pthread_atfork(NULL, NULL, native_threads_forked) == 0;
    return threads;
}
#else
static inline int native_threads(void)
{
    return 1;
}
#endif

#endif
