/* A program for ThreadSanitizer. Threads read, write and wait on one device of the fake driver, while another thread
 * allocates, copies and launches. Argument: the path of the fake driver. The exit status is 0 if all arrays have the
 * right elements. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "gpuarray/buffer.h"

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
    for (int i = 0; i < 20 * ROUNDS; ++i) {
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
    gpucontext_release(context);
    return 0;
}
