/* A program for ThreadSanitizer. Threads are members of groups on devices of the fake driver; other threads leave groups
 * in the middle. Arguments: the paths of the fake driver and of the fake NCCL. The exit status is 0 if all maxima are
 * right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "gpuarray/buffer.h"
#include "nccl.h"

enum { ROUNDS = 30, SIZE = 2, COUNT = 1000 };

struct task {
    pthread_t thread;
    gpucontext *context;
    gpudata *data;
    const char *id;
    int rank;
};

static void check(gpucontext *context, int code)
{
    if (code == GA_NO_ERROR)
        return;
    fprintf(stderr, "%s\n", gpucontext_error(context, code));
    exit(1);
}

static void finish(struct task *task, nccl_member *member)
{
    int finished = 0;
    while (!finished)
        check(task->context, nccl_wait(member, .1, &finished));
}

/* Take the maxima of the arrays of both members, several times. */
static void *maxima(void *given)
{
    struct task *task = given;
    nccl_member *member;
    float host[COUNT];
    check(task->context, nccl_join(task->context, task->id, SIZE, task->rank, &member));
    finish(task, member);
    nccl_work work = {NCCL_ALL_REDUCE, NCCL_MAX, GA_FLOAT, 0, COUNT, task->data, 0, task->data, 0};
    for (int i = 0; i < ROUNDS; ++i) {
        for (int k = 0; k < COUNT; ++k)
            host[k] = (float)(i + task->rank);
        check(task->context, gpudata_write(task->data, 0, host, sizeof host));
        check(task->context, nccl_begin(member, &work));
        finish(task, member);
        check(task->context, gpudata_read(host, task->data, 0, sizeof host));
        for (int k = 0; k < COUNT; ++k)
            if (host[k] != (float)(i + SIZE - 1)) {
                fprintf(stderr, "element %d is %g instead of %d\n", k, (double)host[k], i + SIZE - 1);
                exit(1);
            }
    }
    nccl_leave(member);
    return NULL;
}

/* Begin an operation that the other member never begins, and leave. */
static void *gives_up(void *given)
{
    struct task *task = given;
    nccl_member *member;
    int finished = 0;
    check(task->context, nccl_join(task->context, task->id, SIZE, task->rank, &member));
    finish(task, member);
    nccl_work work = {NCCL_ALL_REDUCE, NCCL_SUM, GA_FLOAT, 0, COUNT, task->data, 0, task->data, 0};
    if (task->rank == 0) {
        check(task->context, nccl_begin(member, &work));
        check(task->context, nccl_wait(member, .01, &finished));
    }
    nccl_leave(member);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { N = 4 };
    char text[4096], ids[2][128];
    struct task tasks[N];
    int code;
    void *driver = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL, *library = driver ? dlopen(argv[2], RTLD_NOW) : NULL;
    if (library == NULL || device_set_library("cuda", argv[1]) || device_set_library("nccl", argv[2]))
        return 2;
    ((void (*)(int))dlsym(driver, "fake_start"))(100);
    ((void (*)(void))dlsym(library, "fake_nccl_reset"))();
    for (int i = 0; i < N; ++i) {
        struct task *task = &tasks[i];
        task->context = gpucontext_open(i % 2 ? "cuda1" : "cuda0", 0, 0, &code, text, sizeof text);
        if (task->context == NULL) {
            fprintf(stderr, "%s\n", text);
            return 2;
        }
        task->data = gpudata_alloc(task->context, COUNT * sizeof(float), NULL, 0, &code);
        check(task->context, code);
        if (i % 2 == 0)
            check(task->context, nccl_make_id(task->context, ids[i / 2]));
        task->id = ids[i / 2];
        task->rank = i % 2;
    }
    for (int i = 0; i < N; ++i)
        if (pthread_create(&tasks[i].thread, NULL, i < 2 ? maxima : gives_up, &tasks[i]))
            return 2;
    for (int i = 0; i < N; ++i)
        pthread_join(tasks[i].thread, NULL);
    for (int i = 0; i < N; ++i) {
        gpudata_release(tasks[i].data);
        gpucontext_release(tasks[i].context);
    }
    return 0;
}
