/* A fake libnccl, for machines that have no CUDA devices. It is linked with the fake driver (fake_cuda.c).
 *
 * Members of a group meet as in the library: a communicator works after all members have joined, and an operation ends
 * after all members have begun it. Each operation copies its source when its stream reaches it, and computes by plain
 * loops. If the members' calls differ, the operation never ends. Communicators, contexts, streams, memory and arguments
 * are checked. Several threads can call the functions. */
#include <pthread.h>
#include <unistd.h>

#include "fake_driver.h"
#include "nccl_library.h"

int fake_enqueue_poll(struct CUstream_st *, int (*)(void *), void *, size_t);

/* ---- state that tests set and read ---- */

struct fake_nccl {
    int version;
    int communicators; /* number of existing communicators */
    int meets;       /* whether ncclCommAbort and ncclCommDestroy wait until all members that joined call one of them */
    int async_error; /* the error that the communicator of member `async_rank` reports during its next operation */
    int async_rank;
    int lags; /* number of questions that are answered by ncclInProgress before an operation is in its stream */
};

static struct fake_nccl state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void unlock(int *unused)
{
    (void)unused;
    pthread_mutex_unlock(&lock);
}

#define LOCKED                 \
    pthread_mutex_lock(&lock); \
    int locked_ __attribute__((cleanup(unlock), unused)) = 0

struct fake_nccl *fake_nccl_state(void)
{
    return &state;
}

void fake_nccl_reset(void)
{
    LOCKED;
    state = (struct fake_nccl){.version = 22803, .async_rank = -1};
}

/* ---- groups ---- */

enum { MOST = 16, COMMUNICATOR = 0x7acc1 };

struct operation {
    int kind; /* the first letter of the call: 'a'll-reduce, 'r'educe, 'b'roadcast, 'g'ather, 's'catter */
    size_t count;
    int type, reduction, root;
};

/* The operation with the same number at all members */
struct meeting {
    struct meeting *next;
    uint64_t number;
    struct operation operation;
    int arrived, left, differs;
    char *brought[MOST];
};

struct group {
    struct group *next;
    ncclUniqueId id;
    int size, joined, ended, failed;
    struct CUctx_st *contexts[MOST]; /* NULL before the member has joined */
    int aborted[MOST];
    struct meeting *meetings;
};

struct ncclComm {
    int kind, rank, begun, lag;
    struct group *group;
    struct CUctx_st *context;
    uint64_t operations;
};

static struct group *groups;

ncclResult_t ncclGetVersion(int *version)
{
    *version = state.version;
    return 0;
}

const char *ncclGetErrorString(ncclResult_t status)
{
    return status == ncclInvalidUsage         ? "invalid usage"
           : status == ncclRemoteError        ? "remote process exited or there was a network error"
           : status == ncclUnhandledCudaError ? "unhandled cuda error"
                                              : "another error";
}

const char *ncclGetLastError(ncclComm_t communicator)
{
    return communicator && communicator->group->failed == ncclInvalidUsage ? "Duplicate GPU detected" : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static int made;
    CALL("ncclGetUniqueId");
    LOCKED;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "fake NCCL %d", ++made);
    return 0;
}

static struct group *group_of(const ncclUniqueId *id, int size)
{
    struct group *group = groups;
    while (group && memcmp(&group->id, id, sizeof *id) != 0)
        group = group->next;
    if (!group) {
        group = calloc(1, sizeof *group); /* is never freed, as work in streams may refer to it */
        group->id = *id;
        group->size = size;
        group->next = groups;
        groups = group;
    }
    return group;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    CALL("ncclCommInitRankConfig");
    LOCKED;
    if (!fake_current())
        return ncclUnhandledCudaError;
    if (config->size != sizeof *config || config->magic != NCCL_API_MAGIC || config->version != NCCL_CONFIG_VERSION
        || config->blocking || size < 1 || size > MOST || rank < 0 || rank >= size
        || strncmp(id.internal, "fake NCCL ", 10) != 0)
        return ncclInvalidArgument;
    struct group *group = group_of(&id, size);
    if (group->size != size || group->contexts[rank])
        return ncclInvalidUsage;
    for (int i = 0; i < size; ++i)
        if (group->contexts[i] == fake_current())
            group->failed = ncclInvalidUsage; /* all members learn of the second member on a device */
    ncclComm_t made = calloc(1, sizeof *made);
    *made = (struct ncclComm){COMMUNICATOR, rank, 0, 0, group, fake_current(), 0};
    group->contexts[rank] = fake_current();
    ++group->joined;
    ++state.communicators;
    *communicator = made;
    return ncclInProgress;
}

static ncclResult_t ended(ncclComm_t communicator, const char *name)
{
    struct group *group = communicator->group;
    pthread_mutex_lock(&lock);
    int is_valid = communicator->kind == COMMUNICATOR && communicator->context == fake_current();
    communicator->kind = 0;
    group->aborted[communicator->rank] = 1;
    ++group->ended;
    pthread_mutex_unlock(&lock);
    note("%s %d%s", name, communicator->rank, is_valid ? "" : " of no communicator");
    for (int waits = 1; waits;) {
        pthread_mutex_lock(&lock);
        waits = state.meets && group->ended < group->joined;
        if (!waits)
            --state.communicators;
        pthread_mutex_unlock(&lock);
        usleep(waits ? 1000 : 0);
    }
    free(communicator);
    return 0;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator)
{
    return ended(communicator, "ncclCommDestroy");
}

ncclResult_t ncclCommAbort(ncclComm_t communicator)
{
    return ended(communicator, "ncclCommAbort");
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *error)
{
    CALL("ncclCommGetAsyncError");
    LOCKED;
    struct group *group = communicator->group;
    if (communicator->kind != COMMUNICATOR)
        return ncclInvalidArgument;
    *error = group->failed;
    if (communicator->begun && communicator->rank == state.async_rank && state.async_error)
        *error = state.async_error;
    else if (!*error && (group->joined < group->size || communicator->lag-- > 0))
        *error = ncclInProgress;
    return 0;
}

/* ---- operations ---- */

static size_t type_size(int type)
{
    return type == ncclInt8 || type == ncclUint8                            ? 1
           : type == ncclFloat16                                            ? 2
           : type == ncclInt32 || type == ncclUint32 || type == ncclFloat32 ? 4
                                                                            : 8;
}

#define REDUCED(T)                                                            \
    {                                                                         \
        T *to = result;                                                       \
        const T *other = next;                                                \
        for (size_t i = 0; i < count; ++i)                                    \
            switch (reduction) {                                              \
            case ncclSum: to[i] = (T)(to[i] + other[i]); break;               \
            case ncclProd: to[i] = (T)(to[i] * other[i]); break;              \
            case ncclMax: to[i] = to[i] < other[i] ? other[i] : to[i]; break; \
            case ncclMin: to[i] = other[i] < to[i] ? other[i] : to[i]; break; \
            }                                                                 \
    }                                                                         \
    break

static void reduce(void *result, const void *next, size_t count, int type, int reduction)
{
    switch (type) {
    case ncclInt8: REDUCED(int8_t);
    case ncclUint8: REDUCED(uint8_t);
    case ncclInt32: REDUCED(int32_t);
    case ncclUint32: REDUCED(uint32_t);
    case ncclInt64: REDUCED(int64_t);
    case ncclUint64: REDUCED(uint64_t);
    case ncclFloat16: REDUCED(_Float16);
    case ncclFloat32: REDUCED(float);
    case ncclFloat64: REDUCED(double);
    }
}

/* An operation in the stream of one member */
struct step {
    struct group *group;
    struct operation operation;
    int rank;
    uint64_t number;
    const char *from;
    char *to;
};

static struct meeting *meeting_of(const struct step *it)
{
    struct meeting *meeting = it->group->meetings;
    while (meeting && meeting->number != it->number)
        meeting = meeting->next;
    if (!meeting) {
        meeting = calloc(1, sizeof *meeting);
        meeting->number = it->number;
        meeting->operation = it->operation;
        meeting->next = it->group->meetings;
        it->group->meetings = meeting;
    }
    return meeting;
}

static int is_same(const struct operation *a, const struct operation *b)
{
    return a->kind == b->kind && a->count == b->count && a->type == b->type && a->reduction == b->reduction
           && a->root == b->root;
}

static void write_result(const struct step *it, const struct meeting *meeting)
{
    const struct operation *o = &it->operation;
    size_t bytes = o->count * type_size(o->type);
    if (o->kind == 'b')
        memcpy(it->to, meeting->brought[o->root], bytes);
    else if (o->kind == 'g')
        for (int i = 0; i < it->group->size; ++i)
            memcpy(it->to + (size_t)i * bytes, meeting->brought[i], bytes);
    else if (o->kind != 'r' || o->root == it->rank) {
        size_t part = o->kind == 's' ? (size_t)it->rank * bytes : 0;
        memcpy(it->to, meeting->brought[0] + part, bytes);
        for (int i = 1; i < it->group->size; ++i)
            reduce(it->to, meeting->brought[i] + part, o->count, o->type, o->reduction);
    }
}

static void forget(struct group *group, struct meeting *meeting)
{
    struct meeting **place = &group->meetings;
    while (*place != meeting)
        place = &(*place)->next;
    *place = meeting->next;
    for (int i = 0; i < group->size; ++i)
        free(meeting->brought[i]);
    free(meeting);
}

/* Return 1 if the operation is finished at this member. */
static int run(void *arguments)
{
    struct step *it = arguments;
    LOCKED;
    if (it->group->aborted[it->rank])
        return 1;
    struct meeting *meeting = meeting_of(it);
    if (!meeting->brought[it->rank]) {
        size_t size = it->operation.count * type_size(it->operation.type);
        size *= it->operation.kind == 's' ? (size_t)it->group->size : 1;
        meeting->brought[it->rank] = malloc(size);
        memcpy(meeting->brought[it->rank], it->from, size);
        meeting->differs |= !is_same(&meeting->operation, &it->operation);
        ++meeting->arrived;
    }
    if (meeting->arrived < it->group->size || meeting->differs)
        return 0;
    write_result(it, meeting);
    if (++meeting->left == it->group->size)
        forget(it->group, meeting);
    return 1;
}

static ncclResult_t begin(const char *name, const void *from, void *to, struct operation operation,
                          ncclComm_t communicator, struct CUstream_st *stream)
{
    CALL(name);
    if (!communicator || communicator->kind != COMMUNICATOR || communicator->context != fake_current())
        return ncclInvalidArgument;
    struct group *group = communicator->group;
    size_t bytes = operation.count * type_size(operation.type), size = (size_t)group->size;
    /* A stream that runs an operation holds the lock of the driver, and then takes the lock of this file: the driver is
     * called without the lock of this file. */
    if (operation.type < 0 || operation.type > ncclFloat64 || operation.reduction < 0 || operation.reduction > ncclMin
        || operation.root < 0 || operation.root >= group->size
        || !fake_is_memory(from, operation.kind == 's' ? size * bytes : bytes)
        || ((operation.kind != 'r' || operation.root == communicator->rank)
            && !fake_is_memory(to, operation.kind == 'g' ? size * bytes : bytes)))
        return ncclInvalidArgument;
    struct step step;
    {
        LOCKED;
        if (group->joined < group->size || communicator->lag > 0)
            return ncclInvalidUsage;
        communicator->lag = state.lags;
        communicator->begun = 1;
        step = (struct step){group, operation, communicator->rank, communicator->operations++, from, to};
    }
    note("%s %d %zu %d %d %d", name, communicator->rank, operation.count, operation.type, operation.reduction,
         operation.root);
    return fake_enqueue_poll(stream, run, &step, sizeof step) ? ncclInvalidArgument : ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int reduction, ncclComm_t communicator,
                           struct CUstream_st *stream)
{
    return begin("ncclAllReduce", from, to, (struct operation){'a', count, type, reduction, 0}, communicator, stream);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t count, int type, int reduction, int root,
                        ncclComm_t communicator, struct CUstream_st *stream)
{
    return begin("ncclReduce", from, to, (struct operation){'r', count, type, reduction, root}, communicator, stream);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ncclComm_t communicator,
                           struct CUstream_st *stream)
{
    return begin("ncclBroadcast", from, to, (struct operation){'b', count, type, 0, root}, communicator, stream);
}

#ifndef FAKE_WITHOUT_GATHER
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, int type, ncclComm_t communicator,
                           struct CUstream_st *stream)
{
    return begin("ncclAllGather", from, to, (struct operation){'g', count, type, 0, 0}, communicator, stream);
}
#endif

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, int type, int reduction,
                               ncclComm_t communicator, struct CUstream_st *stream)
{
    return begin("ncclReduceScatter", from, to, (struct operation){'s', count, type, reduction, 0}, communicator,
                 stream);
}
