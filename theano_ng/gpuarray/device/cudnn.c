/* cuDNN: loading, the handle of a device, descriptors that are kept, workspaces and errors. The files cudnn_*.c contain
 * the computations; see cudnn_core.h.
 *
 * libcudnn.so.9 is small. It loads the libraries with the computations itself when they are first needed. If it does not
 * find one of them, it ends the process. Therefore they are loaded here first. */
#define _GNU_SOURCE
#include "cudnn_core.h"
#include "launch_queue.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024      /* of the table of objects, a power of two */
#define MOST_OBJECTS 4096 /* with more objects, the table is emptied before the next call */
#define LEAST_AXES 4      /* the library expects at least four axes */

struct cudnn_functions cudnn;

struct known_object {
    struct known_object *next; /* in the same bucket */
    const struct dnn_kind *kind;
    void *object;
    size_t size;
    char key[];
};

/* The state of a device */
struct dnn_state {
    cudnnHandle_t handle;
    size_t version;
    struct known_object *buckets[BUCKETS];
    unsigned count;
};

/* ---- the library ---- */

static void version_text(char *text, size_t size, size_t version)
{
    size_t major = version >= 90000 ? 10000 : 1000; /* the numbers of cuDNN 8 have one digit less */
    snprintf(text, size, "%zu.%zu.%zu", version / major, version % major / 100, version % 100);
}

/* Check that the library is new enough, and that the driver supports it. */
static int library_fits(const char *path, size_t version, size_t runtime)
{
    char text[64];
    int driver = 0;
    version_text(text, sizeof text, version);
    cuda.cuDriverGetVersion(&driver);
    if (version < CUDNN_OLDEST)
        return device_failed(
            GA_LOAD_ERROR, "cuDNN %s (%s) is too old: 9.0.0 is the oldest that can be used; " CUDA_ADVICE, text, path);
    if ((int)(runtime / 1000) > driver / 1000)
        return device_failed(GA_LOAD_ERROR,
                             "cuDNN %s (%s) is for CUDA %zu, but the driver is of CUDA %d.%d: pip install "
                             "'theano_ng[cuda%d]' installs the version for this driver",
                             text, path, runtime / 1000, driver / 1000, driver % 1000 / 10, driver / 1000);
    return GA_NO_ERROR;
}

static char folder[4096]; /* of the library; "" or ending with '/' */

int cudnn_load_part(const char *name)
{
    char path[sizeof folder + 64];
    snprintf(path, sizeof path, "%s%s", folder, name);
    return dlopen(path, RTLD_LAZY | RTLD_LOCAL) || dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

/* Load the libraries with the computations. */
static int load_parts(void *loaded, const char *path)
{
    static const char *const parts[] = {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9",
                                        "libcudnn_adv.so.9"};
    Dl_info found = {0};
    void *function = dlsym(loaded, "cudnnGetVersion");
    if (function && dladdr(function, &found) && found.dli_fname)
        path = found.dli_fname;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 0, path);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
        if (!cudnn_load_part(parts[i]))
            return device_failed(GA_LOAD_ERROR,
                                 "cuDNN (%s) is incomplete: %s; cuDNN 9.0.0 or later is needed: " CUDA_ADVICE, path,
                                 dlerror());
    return GA_NO_ERROR;
}

static int load_library(void)
{
    static void *library;
    if (library)
        return GA_NO_ERROR;
    static const char *const names[] = {"libcudnn.so.9", NULL};
    const char *path = device_library("cudnn");
    void *loaded = device_load_library("cudnn", names);
    if (!loaded)
        return device_failed(GA_LOAD_ERROR, "cuDNN cannot be loaded (%s); cuDNN 9.0.0 or later is needed: " CUDA_ADVICE,
                             dlerror());
    int code = load_parts(loaded, path ? path : names[0]);
    if (code != GA_NO_ERROR) {
        dlclose(loaded);
        return code;
    }
    /* Ask for the version first: an old library lacks other functions. */
    if (!(*(void **)&cudnn.cudnnGetVersion = dlsym(loaded, "cudnnGetVersion"))
        || !(*(void **)&cudnn.cudnnGetCudartVersion = dlsym(loaded, "cudnnGetCudartVersion"))) {
        dlclose(loaded);
        return device_failed(GA_LOAD_ERROR, "%s is no cuDNN library: it has no function cudnnGetVersion; " CUDA_ADVICE,
                             path ? path : "libcudnn");
    }
    code = library_fits(path ? path : "libcudnn", cudnn.cudnnGetVersion(), cudnn.cudnnGetCudartVersion());
    if (code != GA_NO_ERROR) {
        dlclose(loaded);
        return code;
    }
#define X(name, result, arguments)                                                      \
    if (!(*(void **)&cudnn.name = dlsym(loaded, #name))) {                              \
        dlclose(loaded);                                                                \
        return device_failed(GA_LOAD_ERROR,                                             \
                             "%s has no function " #name ": cuDNN 9.0.0 is the oldest " \
                             "that can be used; " CUDA_ADVICE,                          \
                             path ? path : "libcudnn");                                 \
    }
    CUDNN_FUNCTIONS(X)
#undef X
    library = loaded;
    return GA_NO_ERROR;
}

int cudnn_failed(cudnnStatus_t status, const char *name)
{
    char reason[512] = "";
    int code = GA_RUN_ERROR;
    cudnn.cudnnGetLastErrorString(reason, sizeof reason);
    reason[sizeof reason - 1] = '\0';
    if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
        || status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
        code = GA_MEMORY_ERROR;
    else if (status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH || status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED
             || status == CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE)
        code = GA_LOAD_ERROR;
    else if (status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000)
        code = GA_UNSUPPORTED_ERROR;
    return device_failed(code, "%s: %s%s%s%s%s", name, cudnn.cudnnGetErrorString(status), *reason ? " (" : "", reason,
                         *reason ? ")" : "",
                         code == GA_LOAD_ERROR ? "; reinstall cuDNN: all its files must be of one version" : "");
}

static int start(cuda_device *d)
{
    CUDA_ENTER(d);
    CUDNN_CALL(cudnnCreate, &d->cudnn->handle);
    CUDNN_CALL(cudnnSetStream, d->cudnn->handle, d->stream);
    d->cudnn->version = cudnn.cudnnGetVersion();
    return GA_NO_ERROR;
}

/* Open the library on the device of a context. Messages of errors are stored by device_failed(). */
static int open_library(gpucontext *ctx)
{
    if (ctx->table != &device_cuda)
        return device_failed(GA_UNSUPPORTED_ERROR, "%s is no CUDA device, so cuDNN does not run on it", ctx->name);
    cuda_device *d = (cuda_device *)ctx->device;
    if (d->cudnn)
        return GA_NO_ERROR;
    CUDNN_TRY(load_library());
    if (!(d->cudnn = calloc(1, sizeof *d->cudnn)))
        return device_failed(GA_MEMORY_ERROR, "out of host memory for cuDNN");
    int code = start(d);
    if (code != GA_NO_ERROR)
        cudnn_close(d);
    return code;
}

int cudnn_open(gpucontext *ctx, size_t *version)
{
    int code = context_usable(ctx);
    if (code != GA_NO_ERROR)
        return code;
    code = open_library(ctx);
    if (code == GA_NO_ERROR)
        *version = ((cuda_device *)ctx->device)->cudnn->version;
    return context_checked(ctx, code);
}

int cudnn_handle(gpucontext *ctx, void **handle)
{
    size_t version;
    int code = cudnn_open(ctx, &version);
    if (code == GA_NO_ERROR)
        *handle = ((cuda_device *)ctx->device)->cudnn->handle;
    return code;
}

/* ---- objects that are kept ---- */

static void free_object(struct known_object *known)
{
    known->kind->destroy(known->object);
    free(known);
}

static void forget_objects(struct dnn_state *state)
{
    for (int i = 0; i < BUCKETS; ++i)
        while (state->buckets[i]) {
            struct known_object *next = state->buckets[i]->next;
            free_object(state->buckets[i]);
            state->buckets[i] = next;
        }
    state->count = 0;
}

/* Free the state of a device that is being closed. If its context is lost, only host memory is freed. */
void cudnn_close(cuda_device *d)
{
    if (!d->cudnn)
        return;
    forget_objects(d->cudnn);
    if (!d->lost && d->cudnn->handle)
        cudnn.cudnnDestroy(d->cudnn->handle);
    free(d->cudnn);
    d->cudnn = NULL;
}

static size_t bucket_of(const struct dnn_kind *kind, const void *key, size_t size)
{
    uint64_t hash = (uint64_t)(uintptr_t)kind;
    for (size_t i = 0; i < size; i += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, (const char *)key + i, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    }
    return hash >> 32 & (BUCKETS - 1);
}

int cudnn_find(const struct dnn_call *call, const struct dnn_kind *kind, const void *key, size_t size, void **object)
{
    struct dnn_state *state = call->state;
    struct known_object **bucket = &state->buckets[bucket_of(kind, key, size)], *known;
    for (known = *bucket; known; known = known->next)
        if (known->kind == kind && known->size == size && memcmp(known->key, key, size) == 0) {
            *object = known->object;
            return GA_NO_ERROR;
        }
    if (!(known = calloc(1, sizeof *known + size)))
        return device_failed(GA_MEMORY_ERROR, "out of host memory for cuDNN");
    known->kind = kind;
    known->size = size;
    memcpy(known->key, key, size);
    int code = kind->make(key, &known->object);
    if (code != GA_NO_ERROR) {
        free_object(known);
        return code;
    }
    known->next = *bucket;
    *bucket = known;
    ++state->count;
    *object = known->object;
    return GA_NO_ERROR;
}

/* ---- tensors ---- */

/* The key of a tensor descriptor */
struct layout_key {
    int type, nd, dims[DNN_MOST_AXES], strides[DNN_MOST_AXES];
};

static int make_layout(const void *from, void **object)
{
    const struct layout_key *key = from;
    CUDNN_CALL(cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t *)object);
    CUDNN_CALL(cudnnSetTensorNdDescriptor, *object, key->type, key->nd, key->dims, key->strides);
    return GA_NO_ERROR;
}

static void destroy_layout(void *object)
{
    if (object)
        cudnn.cudnnDestroyTensorDescriptor(object);
}

static const struct dnn_kind layouts = {make_layout, destroy_layout};

int cudnn_type(int typecode)
{
    switch (typecode) {
    case GA_FLOAT: return CUDNN_DATA_FLOAT;
    case GA_DOUBLE: return CUDNN_DATA_DOUBLE;
    case GA_HALF: return CUDNN_DATA_HALF;
    default: return -1;
    }
}

int cudnn_layout(const struct dnn_call *call, const dnn_tensor *t, cudnnTensorDescriptor_t *layout)
{
    struct layout_key key = {.type = cudnn_type(t->typecode), .nd = t->nd < LEAST_AXES ? LEAST_AXES : (int)t->nd};
    uint64_t last = 0, packed = 1;
    if (key.type < 0)
        return device_failed(GA_UNSUPPORTED_ERROR, "cuDNN computes with float16, float32 and float64 only");
    for (int i = key.nd - 1; i >= 0; --i) {
        uint64_t dim = i < (int)t->nd ? t->dims[i] : 1;
        /* Along an axis of length 1 the stride has no meaning. */
        int64_t stride = dim > 1 ? t->strides[i] : (int64_t)packed;
        if (dim > INT_MAX || stride <= 0 || stride > INT_MAX || (last += (dim - 1) * (uint64_t)stride) >= INT_MAX)
            return device_failed(GA_UNSUPPORTED_ERROR,
                                 "cuDNN needs positive strides, and an extent of less than 2^31 elements");
        key.dims[i] = (int)dim;
        key.strides[i] = (int)stride;
        packed = dim * (uint64_t)stride;
    }
    return cudnn_find(call, &layouts, &key, sizeof key, (void **)layout);
}

union dnn_factor cudnn_factor(double value, int typecode)
{
    union dnn_factor factor;
    if (typecode == GA_DOUBLE)
        factor.number = value;
    else
        factor.single = (float)value;
    return factor;
}

int cudnn_workspace(const struct dnn_call *call, size_t size, gpudata **block)
{
    int code = GA_NO_ERROR;
    *block = size ? gpudata_alloc(call->ctx, size, NULL, 0, &code) : NULL;
    return code;
}

/* ---- calls ---- */

int cudnn_begin(struct dnn_call *call, gpucontext *ctx)
{
    *call = (struct dnn_call){.ctx = ctx};
    CUDNN_TRY(context_usable(ctx));
    CUDNN_TRY(queue_flush(ctx)); /* calls of cuDNN are not collected */
    CUDNN_TRY(open_library(ctx));
    call->device = (cuda_device *)ctx->device;
    call->state = call->device->cudnn;
    call->handle = call->state->handle;
    CUDA_CHECK(call->device, cuda_enter(call->device, &call->guard), "making a context current");
    call->entered = 1;
    if (call->state->count >= MOST_OBJECTS)
        forget_objects(call->state);
    return GA_NO_ERROR;
}

/* Append formatted text. */
static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

static void append_tensor(char *text, size_t size, const dnn_tensor *t)
{
    append(text, size, "(");
    for (unsigned i = 0; i < t->nd; ++i)
        append(text, size, "%zu%s", t->dims[i], i + 1 < t->nd ? ", " : t->nd == 1 ? "," : "");
    append(text, size, ") %s",
           t->typecode == GA_HALF     ? "float16"
           : t->typecode == GA_FLOAT  ? "float32"
           : t->typecode == GA_DOUBLE ? "float64"
                                      : "of another type");
}

int cudnn_end(struct dnn_call *call, int code, const char *what, int count, const dnn_tensor *const *tensors)
{
    if (code == GA_NO_ERROR && call->ctx->flags & GA_CTX_CHECKED)
        code = call->ctx->table->sync(call->ctx->device);
    if (call->entered) {
        cuda_leave(&call->guard);
        if (code != GA_NO_ERROR) {
            char text[1024];
            int shown = 0;
            snprintf(text, sizeof text, "%s, in %s%s", device_message(), what, count ? " of arrays with shapes " : "");
            for (int i = 0; i < count; ++i)
                if (tensors[i]) {
                    append(text, sizeof text, "%s", shown++ ? ", " : "");
                    append_tensor(text, sizeof text, tensors[i]);
                }
            device_failed(code, "%s", text);
        }
    }
    return context_checked(call->ctx, code);
}
