/* Collective operations by NCCL.
 *
 * Communicators are nonblocking: calls return at once, and nccl_wait() asks the library and the device how far they are.
 * So a member can give up if another member does not come, or fails. ncclCommAbort() then ends the kernels that wait on
 * the device.
 *
 * ncclCommDestroy() and ncclCommAbort() may themselves wait for other members. Therefore a thread calls them; only
 * closing the device waits for this thread, for a limited time. The thread keeps the driver's context alive. */
#define _GNU_SOURCE
#include "nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "cuda.h"
#include "nccl_library.h"

#define MOST_DEVICES 64
#define LAST_WAIT 10     /* seconds that a device which is closed waits for the end of its communicators */
#define QUICK_ROUNDS 200 /* number of questions to the library without sleeping */
#define PAUSE 50         /* microseconds between later questions */

static struct {
#define X(name, result, arguments) result(*name) arguments;
    NCCL_FUNCTIONS(X)
#undef X
} nccl;

struct nccl_member {
    nccl_member *next;       /* on the same device */
    gpucontext *context;     /* NULL after the context was closed */
    cuda_device *device;     /* likewise */
    ncclComm_t communicator; /* NULL after it was destroyed or aborted */
    int size, rank;
    const char *call; /* the call that was begun, and is not known to be finished; else NULL */
    CUevent event;    /* recorded after a collective operation */
    int is_operation; /* whether `call` is a collective operation */
    int recorded;     /* whether `event` has been recorded after the operation */
};

/* Protects the lists of members of devices, and `endings`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int endings[MOST_DEVICES]; /* for each device of the driver, the number of threads that end communicators */

/* ---- the library ---- */

static int load_library(void)
{
    static void *library;
    if (library)
        return GA_NO_ERROR;
    static const char *const names[] = {"libnccl.so.2", NULL};
    const char *path = device_library("nccl");
    void *loaded = device_load_library("nccl", names);
    if (!loaded)
        return device_failed(GA_LOAD_ERROR, "NCCL cannot be loaded (%s); " CUDA_ADVICE, dlerror());
    if (!path)
        path = names[0];
    const char *missing = NULL;
#define X(name, result, arguments)                      \
    if (!(*(void **)&nccl.name = dlsym(loaded, #name))) \
        missing = #name;
    NCCL_FUNCTIONS(X)
#undef X
    int version = 0, code = GA_NO_ERROR;
    if (nccl.ncclGetVersion)
        nccl.ncclGetVersion(&version);
    if (version && version < NCCL_OLDEST)
        code = device_failed(GA_LOAD_ERROR,
                             "NCCL %d.%d.%d (%s) is too old: 2.18.0 is the oldest that can be used; " CUDA_ADVICE,
                             version / 10000, version / 100 % 100, version % 100, path);
    else if (missing)
        code = device_failed(GA_LOAD_ERROR,
                             "%s has no function %s: NCCL 2.18.0 is the oldest that can be used; " CUDA_ADVICE, path,
                             missing);
    if (code == GA_NO_ERROR)
        library = loaded;
    else
        dlclose(loaded);
    return code;
}

int nccl_open(gpucontext *ctx, int *version)
{
    int code = context_usable(ctx);
    if (code != GA_NO_ERROR)
        return code;
    if (ctx->table != &device_cuda)
        return context_failed(ctx, GA_UNSUPPORTED_ERROR, "%s is no CUDA device, so NCCL does not run on it", ctx->name);
    pthread_mutex_lock(&lock);
    code = load_library();
    pthread_mutex_unlock(&lock);
    if (code == GA_NO_ERROR)
        nccl.ncclGetVersion(version);
    return context_checked(ctx, code);
}

/* Store the error of a call before there is a communicator, or of a member's call. */
static int call_failed(gpucontext *ctx, const nccl_member *m, ncclResult_t status, const char *call)
{
    char who[64] = "";
    const char *details = nccl.ncclGetLastError(m ? m->communicator : NULL), *advice = "";
    if (m)
        snprintf(who, sizeof who, ", at member %d of %d", m->rank, m->size);
    if (status == ncclUnhandledCudaError && (!m || !m->is_operation))
        advice = ". If NCCL is for a newer CUDA version than the driver's, " CUDA_ADVICE;
    return context_failed(ctx, GA_COMM_ERROR, "%s: %s%s%s%s%s on %s%s", call, nccl.ncclGetErrorString(status),
                          details && *details ? " (" : "", details && *details ? details : "",
                          details && *details ? ")" : "", who, ctx->name, advice);
}

int nccl_make_id(gpucontext *ctx, char *id)
{
    ncclUniqueId made;
    int version, code = nccl_open(ctx, &version);
    if (code != GA_NO_ERROR)
        return code;
    ncclResult_t status = nccl.ncclGetUniqueId(&made);
    if (status != ncclSuccess)
        return call_failed(ctx, NULL, status, "ncclGetUniqueId");
    memcpy(id, made.internal, sizeof made.internal);
    return GA_NO_ERROR;
}

/* ---- the end of a communicator ---- */

struct ending {
    ncclComm_t communicator;
    ncclResult_t (*call)(ncclComm_t);
    CUdevice device;
    CUcontext context;
};

static void *end(void *given)
{
    struct ending *it = given;
    cuda.cuCtxSetCurrent(it->context);
    it->call(it->communicator);
    cuda.cuCtxSetCurrent(NULL);
    cuda.cuDevicePrimaryCtxRelease_v2(it->device);
    pthread_mutex_lock(&lock);
    --endings[it->device % MOST_DEVICES];
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    free(it);
    return NULL;
}

/* Destroy or abort the communicator of a member, in a thread. Errors are ignored. If the device's context is lost, or if
 * there are no resources for a thread, the communicator is not freed. */
static void end_communicator(nccl_member *m, int abort)
{
    struct ending *it = m->communicator ? malloc(sizeof *it) : NULL;
    pthread_attr_t detached;
    pthread_t thread;
    if (it) {
        *it = (struct ending){m->communicator, abort ? nccl.ncclCommAbort : nccl.ncclCommDestroy, m->device->id, NULL};
        if (m->device->lost || cuda.cuDevicePrimaryCtxRetain(&it->context, it->device) != CUDA_SUCCESS)
            free(it);
        else {
            pthread_mutex_lock(&lock);
            ++endings[it->device % MOST_DEVICES];
            pthread_mutex_unlock(&lock);
            pthread_attr_init(&detached);
            pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
            if (pthread_create(&thread, &detached, end, it))
                end(it);
            pthread_attr_destroy(&detached);
        }
    }
    m->communicator = NULL;
    m->call = NULL;
}

static void wait_for_endings(CUdevice device)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LAST_WAIT;
    pthread_mutex_lock(&lock);
    while (endings[device % MOST_DEVICES] && pthread_cond_timedwait(&changed, &lock, &until) == 0)
        ;
    pthread_mutex_unlock(&lock);
}

static void forget_event(nccl_member *m)
{
    struct cuda_guard guard;
    if (m->event && !m->device->lost && cuda_enter(m->device, &guard) == CUDA_SUCCESS) {
        cuda.cuEventDestroy_v2(m->event);
        cuda_leave(&guard);
    }
    m->event = NULL;
}

/* End the communicators of a device that is being closed. Its members remain, but cannot be used. */
void nccl_close(cuda_device *d)
{
    for (nccl_member *m = d->members; m; m = m->next) {
        end_communicator(m, m->call != NULL);
        forget_event(m);
        m->context = NULL;
        m->device = NULL;
    }
    d->members = NULL;
    if (!d->lost)
        wait_for_endings(d->id);
}

/* ---- members ---- */

static int join(nccl_member *m, const char *id)
{
    ncclUniqueId unique;
    ncclConfig_t config = {sizeof config, NCCL_API_MAGIC, NCCL_CONFIG_VERSION, 0};
    memcpy(unique.internal, id, sizeof unique.internal);
    cuda_device *d = m->device;
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuEventCreate(&m->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    m->call = "ncclCommInitRankConfig";
    ncclResult_t status = nccl.ncclCommInitRankConfig(&m->communicator, m->size, unique, m->rank, &config);
    return status == ncclSuccess || status == ncclInProgress ? GA_NO_ERROR
                                                             : call_failed(m->context, m, status, m->call);
}

int nccl_join(gpucontext *ctx, const char *id, int size, int rank, nccl_member **joined)
{
    int version, code = nccl_open(ctx, &version);
    *joined = NULL;
    if (code != GA_NO_ERROR)
        return code;
    nccl_member *m = calloc(1, sizeof *m);
    if (!m)
        return context_failed(ctx, GA_MEMORY_ERROR, "out of host memory for NCCL");
    m->context = ctx;
    m->device = (cuda_device *)ctx->device;
    m->size = size;
    m->rank = rank;
    pthread_mutex_lock(&lock);
    m->next = m->device->members;
    m->device->members = m;
    pthread_mutex_unlock(&lock);
    code = context_checked(ctx, join(m, id));
    if (code == GA_NO_ERROR)
        *joined = m;
    else
        nccl_leave(m);
    return code;
}

void nccl_abort(nccl_member *m)
{
    if (m->device && context_is_open(m->context))
        end_communicator(m, 1);
}

void nccl_leave(nccl_member *m)
{
    if (m->device && context_is_open(m->context)) {
        pthread_mutex_lock(&lock);
        nccl_member **place = &m->device->members;
        while (*place != m)
            place = &(*place)->next;
        *place = m->next;
        pthread_mutex_unlock(&lock);
        end_communicator(m, m->call != NULL);
        forget_event(m);
    }
    free(m);
}

/* ---- operations ---- */

/* The library's type for reductions, or -1 if it has none */
static int type_of(int typecode)
{
    switch (typecode) {
    case GA_BYTE: return ncclInt8;
    case GA_UBYTE: return ncclUint8;
    case GA_INT: return ncclInt32;
    case GA_UINT: return ncclUint32;
    case GA_LONG: return ncclInt64;
    case GA_ULONG: return ncclUint64;
    case GA_HALF: return ncclFloat16;
    case GA_FLOAT: return ncclFloat32;
    case GA_DOUBLE: return ncclFloat64;
    default: return -1;
    }
}

static int is_inside(nccl_member *m, gpudata *data, size_t offset, size_t size)
{
    if (data->context != m->context)
        return context_failed(m->context, GA_INVALID_ERROR,
                              "an array of member %d is memory of %s, but the member belongs to %s", m->rank,
                              data->context->name, m->context->name);
    if (size > data->size || offset > data->size - size)
        return context_failed(m->context, GA_VALUE_ERROR, "%zu bytes at %zu are out of bounds for memory of %zu bytes",
                              size, offset, data->size);
    return GA_NO_ERROR;
}

static int begin(nccl_member *m, const nccl_work *work, int type, size_t count)
{
    static const int operations[] = {ncclSum, ncclProd, ncclMax, ncclMin};
    const void *from = (const void *)(uintptr_t)(work->from->memory + work->from_offset);
    void *to = work->to ? (void *)(uintptr_t)(work->to->memory + work->to_offset) : NULL;
    int operation = operations[work->operation];
    ncclComm_t communicator = m->communicator;
    cuda_device *d = m->device;
    ncclResult_t status = ncclInvalidArgument;
    CUDA_ENTER(d);
    m->is_operation = 1;
    m->recorded = 0;
    switch (work->call) {
    case NCCL_ALL_REDUCE:
        m->call = "ncclAllReduce";
        status = nccl.ncclAllReduce(from, to, count, type, operation, communicator, d->stream);
        break;
    case NCCL_REDUCE:
        m->call = "ncclReduce";
        status = nccl.ncclReduce(from, to, count, type, operation, work->root, communicator, d->stream);
        break;
    case NCCL_BROADCAST:
        m->call = "ncclBroadcast";
        status = nccl.ncclBroadcast(from, to, count, type, work->root, communicator, d->stream);
        break;
    case NCCL_ALL_GATHER:
        m->call = "ncclAllGather";
        status = nccl.ncclAllGather(from, to, count, type, communicator, d->stream);
        break;
    case NCCL_REDUCE_SCATTER:
        m->call = "ncclReduceScatter";
        status = nccl.ncclReduceScatter(from, to, count, type, operation, communicator, d->stream);
        break;
    }
    return status == ncclSuccess || status == ncclInProgress ? GA_NO_ERROR
                                                             : call_failed(m->context, m, status, m->call);
}

/* Check that a member can begin something. */
static int is_ready(nccl_member *m)
{
    int code = m->context ? context_usable(m->context) : GA_INVALID_ERROR;
    if (code != GA_NO_ERROR)
        return code;
    if (!m->communicator)
        return context_failed(m->context, GA_INVALID_ERROR,
                              "member %d of the group cannot be used any longer, because an earlier call failed",
                              m->rank);
    return GA_NO_ERROR;
}

int nccl_begin(nccl_member *m, const nccl_work *work)
{
    int code = is_ready(m), type = type_of(work->typecode);
    if (code != GA_NO_ERROR)
        return code;
    if (m->call)
        return context_failed(m->context, GA_INVALID_ERROR, "%s of member %d is not finished", m->call, m->rank);
    size_t count = work->count, size = gpuarray_get_elsize(work->typecode), members = (size_t)m->size;
    size_t sources = work->call == NCCL_REDUCE_SCATTER ? members : 1;
    size_t results = work->call == NCCL_ALL_GATHER ? members : 1;
    if (count == 0)
        return GA_NO_ERROR;
    if ((code = is_inside(m, work->from, work->from_offset, sources * count * size)) != GA_NO_ERROR)
        return code;
    if ((work->to || work->call != NCCL_REDUCE || work->root == m->rank)
        && (code = is_inside(m, work->to, work->to_offset, results * count * size)) != GA_NO_ERROR)
        return code;
    if (work->call == NCCL_BROADCAST || work->call == NCCL_ALL_GATHER) { /* any type can be copied as bytes */
        type = type < 0 ? ncclUint8 : type;
        count *= type == ncclUint8 ? size : 1;
    }
    if (type < 0)
        return context_failed(m->context, GA_UNSUPPORTED_ERROR, "NCCL does not reduce arrays of this dtype");
    code = context_checked(m->context, begin(m, work, type, count));
    if (code != GA_NO_ERROR)
        nccl_abort(m);
    return code;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Ask the library, and then the device, whether the call is finished. */
static int ask(nccl_member *m, int *finished)
{
    cuda_device *d = m->device;
    ncclResult_t state = ncclSuccess, status = nccl.ncclCommGetAsyncError(m->communicator, &state);
    if (status != ncclSuccess)
        return call_failed(m->context, m, status, "ncclCommGetAsyncError");
    if (state == ncclInProgress)
        return GA_NO_ERROR;
    if (state != ncclSuccess)
        return call_failed(m->context, m, state, m->call);
    if (!m->is_operation) {
        *finished = 1;
        return GA_NO_ERROR;
    }
    CUDA_ENTER(d);
    if (!m->recorded) { /* only now is it certain that the operation is in the stream */
        CUDA_CHECK(d, cuda.cuEventRecord(m->event, d->stream), "cuEventRecord");
        m->recorded = 1;
    }
    CUresult done = cuda.cuEventQuery(m->event);
    if (done != CUDA_ERROR_NOT_READY)
        CUDA_CHECK(d, done, m->call);
    *finished = done == CUDA_SUCCESS;
    return GA_NO_ERROR;
}

int nccl_wait(nccl_member *m, double seconds, int *finished)
{
    double end_of_wait = seconds_now() + seconds;
    int code = is_ready(m);
    *finished = code == GA_NO_ERROR && !m->call;
    for (int round = 0; code == GA_NO_ERROR && !*finished; ++round) {
        code = context_checked(m->context, ask(m, finished));
        if (code != GA_NO_ERROR)
            nccl_abort(m);
        else if (*finished)
            m->call = NULL;
        else if (seconds_now() >= end_of_wait)
            break;
        else if (round < QUICK_ROUNDS)
            sched_yield();
        else
            usleep(PAUSE);
    }
    return code;
}
