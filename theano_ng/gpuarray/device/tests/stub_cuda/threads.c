/* A program for ThreadSanitizer. Threads read, write and wait on one device of the fake driver, while another thread
 * allocates, copies, and records and runs graphs of copies. Argument: the path of the fake driver. The exit status is 0 if all arrays have the
 * right elements. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "gpuarray/buffer.h"
#include "launch_queue.h"

enum { ROUNDS = 20, SMALL = 100, LARGE = 5 << 20 };

static gpucontext *context;

static void check(int code)
{
    if (code == GA_NO_ERROR)
        return;
    fprintf(stderr, "%s\n", gpucontext_error(context, code));
    exit(1);
}

static gpudata *filled(size_t size, int byte)
{
    int code = GA_NO_ERROR;
    gpudata *made = gpudata_alloc(context, size, NULL, 0, &code);
    check(code);
    check(gpudata_memset(made, 0, byte));
    return made;
}

struct task {
    pthread_t thread;
    gpudata *data;
    size_t size;
    int byte;
};

static void *reads(void *given)
{
    struct task *task = given;
    char *host = malloc(task->size);
    for (int i = 0; i < ROUNDS; ++i) {
        check(gpudata_read(host, task->data, 0, task->size));
        for (size_t k = 0; k < task->size; ++k)
            if (host[k] != task->byte) {
                fprintf(stderr, "byte %zu is %d instead of %d\n", k, host[k], task->byte);
                exit(1);
            }
    }
    free(host);
    return NULL;
}

static void *writes(void *given)
{
    struct task *task = given;
    char *host = malloc(task->size);
    for (int i = 0; i < ROUNDS; ++i) {
        memset(host, i, task->size);
        check(gpudata_write(task->data, 0, host, task->size));
    }
    free(host);
    task->byte = ROUNDS - 1;
    return NULL;
}

static void *waits(void *unused)
{
    for (int i = 0; i < ROUNDS; ++i)
        check(gpucontext_sync(context));
    return unused;
}

static void *fails(void *given)
{
    struct task *task = given;
    for (int i = 0; i < ROUNDS; ++i) {
        int code = gpudata_read(NULL, task->data, task->size, 1);
        if (code != GA_VALUE_ERROR || strstr(gpucontext_error(context, code), "out of bounds") == NULL)
            exit(1);
    }
    return NULL;
}

static int raises(gpucontext *ctx, int code)
{
    fprintf(stderr, "%s\n", gpucontext_error(ctx, code));
    exit(1);
}

/* Copy between two arrays and back, many times, by a queue. The queue records a graph in the third call. */
static void copies(WorkQueue *queue, void **site, gpudata *a, gpudata *b)
{
    queue->open(queue, site);
    for (int i = 0; i < 10; ++i) {
        check(gpudata_move(b, 0, a, 0, SMALL));
        check(gpudata_move(a, SMALL, b, 0, SMALL));
    }
    queue->close(queue);
}

int main(int argc, char **argv)
{
    char text[4096];
    int code;
    void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (driver == NULL || device_set_library("cuda", argv[1]) != GA_NO_ERROR)
        return 2;
    ((void (*)(int))dlsym(driver, "fake_start"))(100);
    if ((context = gpucontext_open("cuda0", 0, 0, &code, text, sizeof text)) == NULL) {
        fprintf(stderr, "%s\n", text);
        return 2;
    }
    void *(*const work[])(void *) = {reads, reads, writes, writes, waits, fails};
    enum { N = sizeof work / sizeof *work };
    struct task tasks[N];
    for (int i = 0; i < N; ++i) {
        tasks[i].size = i % 2 ? SMALL : LARGE;
        tasks[i].byte = i + 1;
        tasks[i].data = filled(tasks[i].size, tasks[i].byte);
    }
    for (int i = 0; i < N; ++i)
        if (pthread_create(&tasks[i].thread, NULL, work[i], &tasks[i]))
            return 2;
    WorkQueue *open_queue = NULL, *queue = launch_queue_of(context, &open_queue, raises);
    void *site = NULL;
    gpudata *from = filled(2 * SMALL, 1), *to = filled(SMALL, 2);
    char both[2 * SMALL];
    for (int i = 0; i < 20 * ROUNDS; ++i) {
        check(gpudata_memset(from, 0, i & 127));
        copies(queue, &site, from, to);
        check(gpudata_read(both, from, 0, sizeof both));
        if (both[0] != (i & 127) || both[sizeof both - 1] != (i & 127))
            return 1;
        gpudata *a = filled(SMALL, i & 127), *b = filled(SMALL + i, 0);
        check(gpudata_move(b, i, a, 0, SMALL));
        gpudata_release(a);
        gpudata_release(b);
    }
    for (int i = 0; i < N; ++i)
        pthread_join(tasks[i].thread, NULL);
    for (int i = 0; i < N; ++i) {
        reads(&tasks[i]);
        gpudata_release(tasks[i].data);
    }
    queue_counts counts;
    queue_count(context, &counts);
    queue->forget(queue, site);
    gpudata_release(from);
    gpudata_release(to);
    gpucontext_release(context);
    return counts.runs != 20 * ROUNDS - 3;
}
