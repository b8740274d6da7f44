/* A fake libcuda and libnvrtc in one file, for machines that have neither. The calls of cuda.c are recorded, and tests
 * set the results.
 * Copies, fills and launches are deferred until a caller waits for them, as on a real device, so that tests detect
 * memory that is reused too early. A kernel called "accumulate" computes y[0] = 3 * y[0] + x from its arguments y and x
 * (a number); other kernels do nothing. Several threads can call the functions. With `delay`, calls that wait return late, so
 * that another thread runs between the end of the work and the return.
 *
 * -DFAKE_WITHOUT_GRAPHS leaves out cuGraphLaunch, as an old driver does. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_driver.h"

/* ---- state that tests set and read ---- */

struct fake_state {
    int devices, capability, driver;
    int busy;     /* bit mask of devices that another process uses exclusively */
    int compiler; /* NVRTC's major version */
    uint64_t capacity, held;
    int contexts, streams, events, modules, graphs, pinned; /* numbers of existing objects */
    int fault;                                              /* the error returned by calls that wait for work */
    int delay;                                              /* microseconds that calls that wait for work sleep */
    int peers;                                              /* whether devices can access each other's memory */
};

static struct fake_state state;
static char *record;
static size_t record_length, record_room;
static struct {
    char name[64];
    int status, after;
} failing;

/* The lock of everything in this file. LOCKED holds it until the end of the C block. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void unlock(int *unused)
{
    (void)unused;
    pthread_mutex_unlock(&lock);
}

#define LOCKED                 \
    pthread_mutex_lock(&lock); \
    int locked_ __attribute__((cleanup(unlock), unused)) = 0

struct fake_state *fake_state(void)
{
    return &state;
}

void fake_reset(void)
{
    state = (struct fake_state){.devices = 2, .capability = 90, .driver = 12040, .compiler = 12, .capacity = 1 << 30};
    failing.name[0] = '\0';
    record_length = 0;
}

/* Reset the state, with a delay, for programs that do not know `struct fake_state`. */
void fake_start(int delay)
{
    fake_reset();
    state.delay = delay;
}

/* Make the function `name` fail once with the error `status`, after `after` successful calls. */
void fake_fail(const char *name, int status, int after)
{
    snprintf(failing.name, sizeof failing.name, "%s", name);
    failing.status = status;
    failing.after = after;
}

/* Return one line for each call since the last call of this function. */
const char *fake_calls(void)
{
    static char *given;
    free(given);
    given = strndup(record ? record : "", record_length);
    record_length = 0;
    return given;
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* 0: calls are not recorded any longer, so that the record needs no more memory. */
static int records = 1;

void fake_record(int on)
{
    records = on;
}

static void note(const char *format, ...)
{
    LOCKED;
    char line[400];
    if (!records)
        return;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    length = length < (int)sizeof line ? length : (int)sizeof line - 1;
    if (record_length + (size_t)length + 1 > record_room) {
        record_room = 2 * record_room + sizeof line;
        record = realloc(record, record_room);
    }
    memcpy(record + record_length, line, (size_t)length);
    record[record_length + (size_t)length] = '\n';
    record_length += (size_t)length + 1;
}

static int fails(const char *name)
{
    LOCKED;
    if (strcmp(failing.name, name) != 0 || failing.after-- > 0)
        return 0;
    failing.name[0] = '\0';
    return failing.status;
}

#define CALL(name)                 \
    do {                           \
        int status_ = fails(name); \
        if (status_)               \
            return status_;        \
    } while (0)

/* ---- streams: work is queued until a caller waits ---- */

struct work {
    struct work *next;
    int kind; /* 'c'opy, 's'et, 'l'aunch, 'k'ernel of a graph, 'e'vent, 'w'ait, 'f'unction, 'p'oll */
    void *to;
    const void *from;
    size_t size;
    int byte, number;
    double value;
    CUevent event;
    void (*call)(void *);
    int (*poll)(void *);
    CUfunction function; /* of a kernel, like the next two */
    unsigned sizes[6];
    void **values;
};

struct CUctx_st {
    int device, references;
};

enum { MOST_WORK = 512 };

struct CUstream_st {
    struct work *first, **end;
    int capturing;
    struct work *captured, **captured_end;
    int count; /* of work since the last time that all of it was done because there was much of it */
};

struct CUevent_st {
    CUstream stream; /* the stream in which the event is recorded; NULL after the stream has passed it */
    int number;      /* number of the last cuEventRecord of this event; earlier records have no effect */
};

/* A graph that was captured. The graph owns the work, which its executable graphs use. A node is a piece of the work. */
struct CUgraph_st {
    struct work *first;
};

struct CUgraphExec_st {
    CUgraph graph;
};

struct CUmod_st {
    char *text;
};

struct CUfunc_st {
    char name[64];
    char *text; /* the program */
};

/* Runs a kernel on the host, for tests of whole functions; see fake_kernels.py. `sizes`: groups and threads along three
 * axes. NULL: kernels do nothing. */
static void **(*runner)(const char *text, const char *name, const unsigned sizes[6], void **values);

void fake_run_kernels(void **(*run)(const char *, const char *, const unsigned *, void **))
{
    runner = run;
}

static struct CUctx_st primary[16];
static CUstream streams[16];
static __thread CUcontext current;

static void free_work(struct work *work)
{
    if (work->kind == 'f' || work->kind == 'p')
        free(work->to);
    free(work->values);
    free(work);
}

/* Run the work of a stream up to an event, or all its work. Return 0 if the stream waits for something else. */
static int until(CUstream stream, CUevent event)
{
    LOCKED;
    while (stream->first) {
        struct work *work = stream->first;
        int last = 0;
        if (work->kind == 'c')
            memmove(work->to, work->from, work->size);
        else if (work->kind == 's')
            memset(work->to, work->byte, work->size);
        else if (work->kind == 'f')
            work->call(work->to);
        else if (work->kind == 'l' && work->to)
            *(double *)work->to = 3 * *(double *)work->to + work->value;
        else if (work->kind == 'p' && !work->poll(work->to))
            return 0;
        else if (work->kind == 'w' && work->event->stream)
            until(work->event->stream, work->event);
        else if (work->kind == 'e' && work->number == work->event->number) {
            work->event->stream = NULL;
            last = work->event == event;
        }
        stream->first = work->next;
        if (!stream->first)
            stream->end = &stream->first;
        free_work(work);
        if (last)
            return 1;
    }
    return 1;
}

static void put(CUstream stream, struct work made)
{
    LOCKED;
    struct work *work = malloc(sizeof *work);
    *work = made;
    work->next = NULL;
    if (work->kind == 'f' || work->kind == 'p') {
        work->to = malloc(work->size);
        memcpy(work->to, made.to, work->size);
    }
    struct work ***end = stream->capturing ? &stream->captured_end : &stream->end;
    **end = work;
    *end = &work->next;
    if (!stream->capturing && ++stream->count == MOST_WORK) { /* a real queue does not grow without limit, either */
        stream->count = 0;
        until(stream, NULL);
    }
}

/* Set the arguments of a launch. */
static CUresult set_launch(struct work *work, CUfunction function, const unsigned sizes[6], void **values)
{
    if (work->kind == 'k') {
        free(work->values);
        work->function = function;
        memcpy(work->sizes, sizes, sizeof work->sizes);
        work->values = runner(function->text, function->name, NULL, values);
        return work->values ? 0 : CUDA_ERROR_INVALID_VALUE;
    }
    if (strcmp(function->name, "accumulate") == 0) {
        work->to = *(void **)values[0];
        work->value = *(double *)values[1];
    }
    return 0;
}

#define NEEDS_CONTEXT   \
    do {                \
        if (!current)   \
            return 201; \
    } while (0)

/* ---- the driver ---- */

CUresult cuDriverGetVersion(int *version)
{
    *version = state.driver;
    return 0;
}

CUresult cuGetErrorName(CUresult status, const char **name)
{
    *name = status == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : status == 46  ? "CUDA_ERROR_DEVICE_UNAVAILABLE"
            : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                            : NULL;
    return 0;
}

CUresult cuGetErrorString(CUresult status, const char **text)
{
    *text = status == 2 ? "out of memory" : status == 700 ? "an illegal memory access was encountered" : NULL;
    return 0;
}

CUresult cuInit(unsigned flags)
{
    (void)flags;
    CALL("cuInit");
    return state.devices ? 0 : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = state.devices;
    return 0;
}

CUresult cuDeviceGet(CUdevice *device, int number)
{
    *device = number;
    return number < state.devices ? 0 : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    snprintf(name, (size_t)size, "Fake %d", device);
    return 0;
}

CUresult cuDeviceGetPCIBusId(char *name, int size, CUdevice device)
{
    snprintf(name, (size_t)size, "0000:%02x:00.0", 0x83 + device);
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device)
{
    (void)device;
    switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = state.capability / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = state.capability % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + 1: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + 2: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = INT32_MAX; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + 1:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + 2: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    default: *value = 0;
    }
    return 0;
}

CUresult cuDeviceTotalMem_v2(size_t *size, CUdevice device)
{
    (void)device;
    *size = state.capacity;
    return 0;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    note("cuDevicePrimaryCtxSetFlags %d %u", device, flags);
    CALL("cuDevicePrimaryCtxSetFlags");
    return 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CALL("cuDevicePrimaryCtxRetain");
    LOCKED;
    if (state.busy >> device & 1)
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    primary[device].device = device;
    ++primary[device].references;
    ++state.contexts;
    *context = &primary[device];
    return 0;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    LOCKED;
    --primary[device].references;
    --state.contexts;
    return 0;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return 0;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return 0;
}

CUresult cuDeviceCanAccessPeer(int *possible, CUdevice device, CUdevice peer)
{
    *possible = state.peers && device != peer;
    return 0;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    (void)flags;
    NEEDS_CONTEXT;
    note("cuCtxEnablePeerAccess %d %d", current->device, peer->device);
    CALL("cuCtxEnablePeerAccess");
    return 0;
}

/* ---- memory ---- */

static struct allocation {
    struct allocation *next;
    char *memory;
    size_t size;
} *allocations;

CUresult cuMemGetInfo_v2(size_t *free_memory, size_t *total)
{
    NEEDS_CONTEXT;
    LOCKED;
    *free_memory = state.capacity - state.held;
    *total = state.capacity;
    return 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t size)
{
    NEEDS_CONTEXT;
    LOCKED;
    note("cuMemAlloc %zu", size);
    CALL("cuMemAlloc");
    if (size > state.capacity - state.held)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct allocation *made = malloc(sizeof *made);
    *made = (struct allocation){allocations, aligned_alloc(256, (size + 256) / 256 * 256), size};
    allocations = made;
    state.held += size;
    *memory = (CUdeviceptr)(uintptr_t)made->memory;
    return 0;
}

/* Wait for all work that may still use the memory, as the driver does. */
CUresult cuMemFree_v2(CUdeviceptr memory)
{
    LOCKED;
    for (int i = 0; i < 16; ++i)
        if (streams[i])
            until(streams[i], NULL);
    struct allocation **place = &allocations;
    while ((*place)->memory != (char *)(uintptr_t)memory)
        place = &(*place)->next;
    struct allocation *freed = *place;
    *place = freed->next;
    state.held -= freed->size;
    free(freed->memory);
    free(freed);
    return 0;
}

static struct {
    char *memory;
    size_t size;
} pinned[64];

CUresult cuMemAllocHost_v2(void **memory, size_t size)
{
    NEEDS_CONTEXT;
    LOCKED;
    CALL("cuMemAllocHost");
    *memory = malloc(size);
    ++state.pinned;
    for (int i = 0; i < 64; ++i)
        if (!pinned[i].memory) {
            pinned[i].memory = *memory;
            pinned[i].size = size;
            break;
        }
    return 0;
}

/* The attribute is the type of the memory. Pageable memory is unknown to the driver. */
CUresult cuPointerGetAttribute(void *type, int attribute, CUdeviceptr at)
{
    LOCKED;
    for (int i = 0; i < 64; ++i)
        if (pinned[i].memory && at - (CUdeviceptr)(uintptr_t)pinned[i].memory < pinned[i].size) {
            *(int *)type = CU_MEMORYTYPE_HOST;
            return attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? 0 : CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeHost(void *memory)
{
    LOCKED;
    for (int i = 0; i < 64; ++i)
        if (pinned[i].memory == memory)
            pinned[i].memory = NULL;
    free(memory);
    --state.pinned;
    return 0;
}

static int copy(const char *name, void *to, const void *from, size_t size, CUstream stream)
{
    note("%s %zu", name, size);
    CALL(name);
    put(stream, (struct work){.kind = 'c', .to = to, .from = from, .size = size});
    return 0;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    return copy("cuMemcpyHtoDAsync", (void *)(uintptr_t)to, from, size, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    return copy("cuMemcpyDtoHAsync", to, (void *)(uintptr_t)from, size, stream);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return copy("cuMemcpyAsync", (void *)(uintptr_t)to, (void *)(uintptr_t)from, size, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t size, CUstream stream)
{
    note("cuMemsetD8Async %zu", size);
    put(stream, (struct work){.kind = 's', .to = (void *)(uintptr_t)to, .byte = byte, .size = size});
    return 0;
}

/* ---- for other fake libraries ---- */

static int enqueue(CUstream stream, struct work work)
{
    NEEDS_CONTEXT;
    LOCKED;
    for (int i = 0; i < 16; ++i)
        if (streams[i] && streams[i] == stream) {
            put(stream, work);
            return 0;
        }
    return 400;
}

/* Call a function in stream order, with a copy of `size` bytes of arguments. Return 0, or an error if the stream does not
 * exist or no context is current. */
int fake_enqueue(CUstream stream, void (*call)(void *), void *arguments, size_t size)
{
    return enqueue(stream, (struct work){.kind = 'f', .call = call, .to = arguments, .size = size});
}

/* Likewise for a function that is called until it returns 1: meanwhile, the later work of the stream waits. */
int fake_enqueue_poll(CUstream stream, int (*poll)(void *), void *arguments, size_t size)
{
    return enqueue(stream, (struct work){.kind = 'p', .poll = poll, .to = arguments, .size = size});
}

/* Return whether a range of bytes is inside one allocation. */
int fake_is_memory(const void *from, size_t size)
{
    LOCKED;
    for (struct allocation *a = allocations; a; a = a->next)
        if ((char *)from >= a->memory && (char *)from + size <= a->memory + a->size)
            return 1;
    return 0;
}

void fake_note(const char *line)
{
    note("%s", line);
}

int fake_fails(const char *name)
{
    return fails(name);
}

CUcontext fake_current(void)
{
    return current;
}

/* ---- streams and events ---- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    NEEDS_CONTEXT;
    note("cuStreamCreate %u", flags);
    CALL("cuStreamCreate");
    LOCKED;
    *stream = calloc(1, sizeof **stream);
    (*stream)->end = &(*stream)->first;
    (*stream)->captured_end = &(*stream)->captured;
    for (int i = 0; i < 16; ++i)
        if (!streams[i]) {
            streams[i] = *stream;
            break;
        }
    ++state.streams;
    return 0;
}

/* The work of a stream that waits for other streams for ever is lost. */
static void forget(struct work *);

CUresult cuStreamDestroy_v2(CUstream stream)
{
    LOCKED;
    if (!until(stream, NULL))
        forget(stream->first);
    for (int i = 0; i < 16; ++i)
        if (streams[i] == stream)
            streams[i] = NULL;
    free(stream);
    --state.streams;
    return 0;
}

/* Return the result of a call that waits for work. */
static CUresult waited(void)
{
    if (state.delay)
        usleep((useconds_t)state.delay);
    return state.fault;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    note("cuStreamSynchronize");
    while (!until(stream, NULL))
        usleep(100);
    return waited();
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    note("cuStreamWaitEvent");
    LOCKED;
    if (event->stream) /* run the event's stream up to the event now: the event may be destroyed before `stream` runs */
        until(event->stream, event);
    (void)stream;
    return 0;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    NEEDS_CONTEXT;
    LOCKED;
    (void)flags;
    CALL("cuEventCreate");
    *event = calloc(1, sizeof **event);
    ++state.events;
    return 0;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    LOCKED;
    if (event->stream && !until(event->stream, event))
        for (struct work *work = event->stream->first; work; work = work->next)
            if (work->event == event)
                *work = (struct work){.next = work->next, .kind = 'l'}; /* the stream passes the event later */
    free(event);
    --state.events;
    return 0;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    LOCKED;
    event->stream = stream;
    put(stream, (struct work){.kind = 'e', .event = event, .number = ++event->number});
    return 0;
}

static int has_passed(CUevent event)
{
    LOCKED;
    return !event->stream || until(event->stream, event);
}

CUresult cuEventSynchronize(CUevent event)
{
    note("cuEventSynchronize");
    while (!has_passed(event))
        usleep(100);
    return waited();
}

CUresult cuEventQuery(CUevent event)
{
    CALL("cuEventQuery");
    return has_passed(event) ? state.fault : CUDA_ERROR_NOT_READY;
}

/* ---- graphs ---- */

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    note("cuStreamBeginCapture %d", mode);
    CALL("cuStreamBeginCapture");
    stream->capturing = 1;
    return 0;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **last,
                                   size_t *count)
{
    (void)id, (void)graph;
    static CUgraphNode node;
    CALL("cuStreamGetCaptureInfo");
    node = NULL;
    for (struct work *work = stream->captured; work; work = work->next)
        node = (CUgraphNode)work;
    *status = stream->capturing;
    *last = &node;
    *count = node ? 1 : 0;
    return 0;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    note("cuStreamEndCapture");
    if (!stream->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    stream->capturing = 0;
    *graph = calloc(1, sizeof **graph);
    (*graph)->first = stream->captured;
    stream->captured = NULL;
    stream->captured_end = &stream->captured;
    ++state.graphs;
    return fails("cuStreamEndCapture");
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    CALL("cuGraphInstantiateWithFlags");
    *executable = calloc(1, sizeof **executable);
    (*executable)->graph = graph;
    ++state.graphs;
    return 0;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    note("cuGraphExecKernelNodeSetParams %u %u", params->gridDimX, params->blockDimX);
    CALL("cuGraphExecKernelNodeSetParams");
    for (struct work *work = executable->graph->first; work; work = work->next)
        if (work == (struct work *)node && (work->kind == 'l' || work->kind == 'k')) {
            unsigned sizes[] = {params->gridDimX,  params->gridDimY,  params->gridDimZ,
                                params->blockDimX, params->blockDimY, params->blockDimZ};
            return set_launch(work, params->func, sizes, params->kernelParams);
        }
    return CUDA_ERROR_INVALID_VALUE;
}

#ifndef FAKE_WITHOUT_GRAPHS
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    note("cuGraphLaunch");
    CALL("cuGraphLaunch");
    for (struct work *work = executable->graph->first; work; work = work->next)
        if (work->kind == 'k') {
            until(stream, NULL);
            runner(work->function->text, work->function->name, work->sizes, work->values);
        }
        else
            put(stream, *work);
    return 0;
}
#endif

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    free(executable);
    --state.graphs;
    return 0;
}

static void forget(struct work *work)
{
    while (work) {
        struct work *next = work->next;
        free_work(work);
        work = next;
    }
}

CUresult cuGraphDestroy(CUgraph graph)
{
    forget(graph->first);
    free(graph);
    --state.graphs;
    return 0;
}

/* ---- programs: a binary is an ELF header, followed by the source code ---- */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *keys, void **values)
{
    (void)count, (void)keys, (void)values;
    NEEDS_CONTEXT;
    note("cuModuleLoadDataEx %s", memcmp(image, "\177ELF", 4) == 0 ? "cubin" : "ptx");
    CALL("cuModuleLoadDataEx");
    *module = malloc(sizeof **module);
    (*module)->text = strdup((const char *)image + (memcmp(image, "\177ELF", 4) == 0 ? 64 : 0));
    ++state.modules;
    return 0;
}

CUresult cuModuleUnload(CUmodule module)
{
    free(module->text);
    free(module);
    --state.modules;
    return 0;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    static struct CUfunc_st functions[64];
    static int n;
    if (!strstr(module->text, name))
        return CUDA_ERROR_NOT_FOUND;
    *function = runner ? calloc(1, sizeof **function) : &functions[n++ % 64];
    snprintf((*function)->name, sizeof(*function)->name, "%s", name);
    if (runner)
        (*function)->text = strdup(module->text);
    return 0;
}

CUresult cuFuncGetAttribute(int *value, int which, CUfunction function)
{
    (void)function;
    *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 512 : 1024;
    return 0;
}

CUresult cuFuncSetAttribute(CUfunction function, int which, int value)
{
    note("cuFuncSetAttribute %s %d %d", function->name, which, value);
    return value > 200 << 10 ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **values, void **extra)
{
    (void)extra;
    NEEDS_CONTEXT;
    note("cuLaunchKernel %s (%u %u %u) (%u %u %u) %u %g", function->name, gx, gy, gz, bx, by, bz, shared,
         values ? *(double *)values[0] : 0.);
    CALL("cuLaunchKernel");
    if (bx * by * bz > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned sizes[] = {gx, gy, gz, bx, by, bz};
    int runs = runner && function->text;
    if (runs && !stream->capturing) {
        until(stream, NULL);
        runner(function->text, function->name, sizes, values);
    }
    struct work work = {.kind = runs && stream->capturing ? 'k' : 'l'};
    CUresult result = set_launch(&work, function, sizes, values);
    if (result)
        return result;
    put(stream, work);
    return 0;
}

/* ---- the compiler ---- */

struct _nvrtcProgram {
    char *text;
    int is_virtual, failed;
};

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = state.compiler;
    *minor = 9;
    return 0;
}

static const int architectures[] = {75, 80, 90, 100};

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    *count = 4;
    return 0;
}

nvrtcResult nvrtcGetSupportedArchs(int *numbers)
{
    memcpy(numbers, architectures, sizeof architectures);
    return 0;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name, int count,
                               const char *const *headers, const char *const *names)
{
    note("nvrtcCreateProgram %s %d %s %d", name, count, names[0], *headers[0] != '\0');
    CALL("nvrtcCreateProgram");
    *program = calloc(1, sizeof **program);
    (*program)->text = strdup(text);
    return 0;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    free((*program)->text);
    free(*program);
    *program = NULL;
    return 0;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    char line[300] = "nvrtcCompileProgram";
    for (int i = 0; i < count; ++i)
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s", options[i]);
    note("%s", line);
    program->is_virtual = strstr(line, "compute_") != NULL;
    program->failed = strstr(program->text, "#error") != NULL;
    return program->failed ? NVRTC_ERROR_COMPILATION : 0;
}

static const char *log_of(nvrtcProgram program)
{
    return program->failed ? "kernels(3): error: #error directive\n" : "";
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    *size = strlen(log_of(program)) + 1;
    return 0;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *text)
{
    strcpy(text, log_of(program));
    return 0;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    *size = 64 + strlen(program->text) + 1;
    return 0;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *binary)
{
    memset(binary, 0, 64);
    memcpy(binary, "\177ELF\2\1", 6);
    binary[58] = 64;
    strcpy(binary + 64, program->text);
    return 0;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size)
{
    *size = strlen(program->text) + 8;
    return 0;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *text)
{
    sprintf(text, "// PTX\n%s", program->text);
    return 0;
}
