/* The functions of contexts, memory and kernels. They check arguments, count references and store errors; the functions
 * of a back end's table do the work. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index_errors.h"
#include "launch_queue.h"

static const device_table *const tables[] = {&device_cuda, &device_opencl, &device_stub};
#define N_TABLES (sizeof tables / sizeof *tables)

/* ---- library paths and dialects that Python has set ---- */

static struct {
    const char *which;
    char *text;
} found[] = {{"cuda", NULL},  {"nvrtc", NULL}, {"cublasLt", NULL}, {"cublas", NULL}, {"cusolver", NULL},
             {"cufft", NULL}, {"cudnn", NULL}, {"nccl", NULL},     {"opencl", NULL}};
static struct {
    const char *which;
    char *text;
} dialects[] = {{"cuda", NULL}, {"opencl", NULL}};

#define LOOKUP(rows, name, result)                             \
    for (size_t i_ = 0; i_ < sizeof rows / sizeof *rows; ++i_) \
        if (strcmp(rows[i_].which, name) == 0)                 \
    result = &rows[i_].text

static int set_text(char **slot, const char *text)
{
    char *copy = text == NULL ? NULL : strdup(text);
    if (slot == NULL)
        return GA_VALUE_ERROR;
    if (text != NULL && copy == NULL)
        return GA_MEMORY_ERROR;
    free(*slot);
    *slot = copy;
    return GA_NO_ERROR;
}

const char *device_library(const char *which)
{
    char **slot = NULL;
    LOOKUP(found, which, slot);
    return slot == NULL ? NULL : *slot;
}

void *device_load_library(const char *which, const char *const *names)
{
    const char *path = device_library(which);
    if (path != NULL)
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *loaded = NULL;
    for (; loaded == NULL && *names != NULL; ++names)
        loaded = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return loaded;
}

const char *device_dialect(const char *table)
{
    char **slot = NULL;
    LOOKUP(dialects, table, slot);
    return slot == NULL || *slot == NULL ? "" : *slot;
}

int device_set_library(const char *which, const char *path)
{
    char **slot = NULL;
    LOOKUP(found, which, slot);
    return set_text(slot, path);
}

int device_set_dialect(const char *table, const char *text)
{
    char **slot = NULL;
    LOOKUP(dialects, table, slot);
    return set_text(slot, text);
}

/* ---- errors ---- */

/* The last failure in this thread. */
static __thread struct {
    const gpucontext *context; /* NULL if only the device is known */
    int code;
    int lost; /* whether the device cannot be used any longer */
    char message[4200];
} failure;

int device_failed(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure.message, sizeof failure.message, format, arguments);
    va_end(arguments);
    failure.context = NULL;
    failure.lost = 0;
    return code;
}

void device_note_loss(void)
{
    failure.lost = 1;
}

const char *device_message(void)
{
    return failure.message;
}

int context_failed(gpucontext *ctx, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure.message, sizeof failure.message, format, arguments);
    va_end(arguments);
    return context_checked(ctx, code);
}

int context_checked(gpucontext *ctx, int code)
{
    if (code != GA_NO_ERROR) {
        const char *function = failure.lost ? queue_latest_function(ctx) : NULL;
        failure.lost = 0;
        if (function != NULL) {
            size_t length = strlen(failure.message);
            snprintf(failure.message + length, sizeof failure.message - length,
                     ". The last graph of launches was that of the function %s", function);
        }
        failure.context = ctx;
        failure.code = code;
    }
    return code;
}

/* The number of forks that led to this process. Drivers do not work after a fork, so a child process treats
 * contexts of its parent as closed. */
static int forks;

static void note_fork(void)
{
    ++forks;
}

static inline int of_a_parent(const gpucontext *ctx)
{
    return ctx->forks != forks;
}

int context_is_open(const gpucontext *ctx)
{
    return ctx->device != NULL && !of_a_parent(ctx);
}

int context_usable(gpucontext *ctx)
{
    if (__builtin_expect(of_a_parent(ctx), 0))
        return context_failed(ctx, GA_INVALID_ERROR,
                              "the device %s was opened before this process was forked, and drivers cannot be used "
                              "after a fork; start worker processes by"
                              " 'spawn' or 'forkserver', or before the device is used",
                              ctx->name);
    if (__builtin_expect(ctx->device == NULL, 0))
        return context_failed(ctx, GA_INVALID_ERROR, "the context of %s is closed", ctx->name);
    return GA_NO_ERROR;
}

#define USABLE(ctx)                        \
    do {                                   \
        int usable_ = context_usable(ctx); \
        if (usable_ != GA_NO_ERROR)        \
            return usable_;                \
    } while (0)

static const char *sentence(int code)
{
    switch (code) {
    case GA_NO_ERROR: return "no error";
    case GA_MEMORY_ERROR: return "out of memory";
    case GA_VALUE_ERROR: return "an argument is invalid";
    case GA_INVALID_ERROR: return "an object is invalid, or belongs to another context";
    case GA_UNSUPPORTED_ERROR: return "not supported by this kind of device";
    case GA_SYS_ERROR: return "a system call failed";
    case GA_RUN_ERROR: return "a kernel failed during execution";
    case GA_DEVSUP_ERROR: return "the device has no such capability";
    case GA_READONLY_ERROR: return "the memory is read-only";
    case GA_WRITEONLY_ERROR: return "the memory is write-only";
    case GA_BLAS_ERROR: return "a BLAS call failed";
    case GA_UNALIGNED_ERROR: return "the memory is not aligned";
    case GA_COPY_ERROR: return "a copy is needed";
    case GA_NODEV_ERROR: return "no such device";
    case GA_COMM_ERROR: return "communication between devices failed";
    case GA_XLARGE_ERROR: return "the number of elements overflows";
    case GA_LOAD_ERROR: return "a shared library cannot be loaded";
    case GA_INDEX_ERROR: return "a kernel found an index that is out of bounds";
    default: return "the device reported an error";
    }
}

const char *gpucontext_error(gpucontext *ctx, int code)
{
    return ctx != NULL && code != GA_NO_ERROR && failure.context == ctx && failure.code == code ? failure.message
                                                                                                : sentence(code);
}

/* ---- contexts ---- */

static const device_table *table_of(const char *name)
{
    for (size_t i = 0; i < N_TABLES; ++i)
        if (strncmp(name, tables[i]->name, strlen(tables[i]->name)) == 0)
            return tables[i];
    return NULL;
}

static void context_free(gpucontext *ctx)
{
    int open = context_is_open(ctx);
    launch_queue_free(ctx);
    index_errors_free(ctx);
    if (open) {
        if (ctx->pool != NULL)
            pool_close(ctx);
        ctx->table->close(ctx->device);
    }
    copiers_free(ctx);
    free(ctx);
}

gpucontext *gpucontext_open(const char *name, int flags, double preallocate, int *code, char *text, size_t size)
{
    static int watching;
    const device_table *table = table_of(name);
    *code = GA_VALUE_ERROR;
    if (table == NULL) {
        snprintf(text, size, "'%s' is not a device name; expected cuda, cudaN, opencl, openclP or openclP:D", name);
        return NULL;
    }
    gpucontext *ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL) {
        *code = GA_MEMORY_ERROR;
        snprintf(text, size, "%s", sentence(*code));
        return NULL;
    }
    ctx->table = table;
    ctx->flags = flags;
    ctx->references = 1;
    ctx->forks = forks;
    snprintf(ctx->name, sizeof ctx->name, "%s", name);
    if (!watching)
        watching = pthread_atfork(NULL, NULL, note_fork) == 0;
    *code = table->open(name, flags, &ctx->device);
    if (*code == GA_NO_ERROR)
        *code = table->info(ctx->device, &ctx->info);
    if (*code != GA_NO_ERROR)
        snprintf(text, size, "%s", ctx->device == NULL ? sentence(*code) : device_message());
    else if ((*code = pool_open(ctx, preallocate)) != GA_NO_ERROR)
        snprintf(text, size, "%s", gpucontext_error(ctx, *code));
    if (*code == GA_NO_ERROR)
        return ctx;
    context_free(ctx);
    return NULL;
}

void gpucontext_retain(gpucontext *ctx)
{
    ctx->references++;
}

void gpucontext_release(gpucontext *ctx)
{
    if (--ctx->references == 0)
        context_free(ctx);
}

int gpucontext_property(gpucontext *ctx, int property, void *value)
{
    USABLE(ctx);
    if (property == GA_CTX_PROP_FREE_GMEM) {
        int code = context_checked(ctx, ctx->table->info(ctx->device, &ctx->info));
        if (code != GA_NO_ERROR)
            return code;
    }
    switch (property) {
    case GA_CTX_PROP_DEVNAME: snprintf(value, 256, "%s", ctx->info.name); break;
    case GA_CTX_PROP_UNIQUE_ID: snprintf(value, 16, "%.15s", ctx->info.id); break;
    case GA_CTX_PROP_BIN_ID: *(const char **)value = ctx->info.binaries; break;
    case GA_CTX_PROP_NUMPROCS: *(unsigned *)value = ctx->info.processors; break;
    case GA_CTX_PROP_LMEMSIZE: *(size_t *)value = ctx->info.local_memory; break;
    case GA_CTX_PROP_TOTAL_GMEM: *(size_t *)value = ctx->info.memory; break;
    case GA_CTX_PROP_FREE_GMEM: *(size_t *)value = ctx->info.free_memory; break;
    case GA_CTX_PROP_MAXLSIZE: *(size_t *)value = ctx->info.max_group; break;
    case GA_CTX_PROP_MAXLSIZE0:
    case GA_CTX_PROP_MAXLSIZE1:
    case GA_CTX_PROP_MAXLSIZE2: *(size_t *)value = ctx->info.max_threads[property - GA_CTX_PROP_MAXLSIZE0]; break;
    case GA_CTX_PROP_VECTOR_BYTES: *(size_t *)value = ctx->info.vector_bytes; break;
    case GA_CTX_PROP_HAS_DOUBLE: *(size_t *)value = ctx->info.has_double != 0; break;
    case GA_CTX_PROP_ARGUMENT_BYTES: *(size_t *)value = ctx->info.arguments; break;
    case GA_CTX_PROP_LONG_ATOMICS: *(size_t *)value = (size_t)ctx->info.has_long_atomics; break;
    case GA_CTX_PROP_MAXGSIZE: *(size_t *)value = ctx->info.max_groups[0]; break;
    case GA_CTX_PROP_MAXGSIZE0:
    case GA_CTX_PROP_MAXGSIZE1:
    case GA_CTX_PROP_MAXGSIZE2: *(size_t *)value = ctx->info.max_groups[property - GA_CTX_PROP_MAXGSIZE0]; break;
    case GA_CTX_PROP_LARGEST_MEMBLOCK: *(size_t *)value = ctx->info.largest; break;
    default: return context_failed(ctx, GA_INVALID_ERROR, "contexts have no property %d", property);
    }
    return GA_NO_ERROR;
}

/* Return the code of a call that waited for the device. If the call succeeded, look for errors that kernels have found. */
static int waited(gpucontext *ctx, int code)
{
    return code == GA_NO_ERROR ? index_errors_look(ctx) : context_checked(ctx, code);
}

/* Give collected calls to the device, before a call that is not collected. */
#define FLUSH(ctx)                                        \
    do {                                                  \
        int flushed_ = queue_flush(ctx);                  \
        if (__builtin_expect(flushed_ != GA_NO_ERROR, 0)) \
            return context_checked(ctx, flushed_);        \
    } while (0)

int gpucontext_sync(gpucontext *ctx)
{
    USABLE(ctx);
    FLUSH(ctx);
    return waited(ctx, ctx->table->sync(ctx->device));
}

int gpucontext_host_alloc(gpucontext *ctx, size_t size, void **memory)
{
    USABLE(ctx);
    return context_checked(ctx, ctx->table->host_alloc(ctx->device, size, memory));
}

void gpucontext_host_free(gpucontext *ctx, void *memory)
{
    if (context_is_open(ctx))
        ctx->table->host_free(ctx->device, memory);
}

/* ---- memory ---- */

/* Allocate a gpudata record that has one reference, and no device memory yet. */
static gpudata *memory_record(gpucontext *ctx, size_t size, int *code)
{
    if ((*code = context_usable(ctx)) != GA_NO_ERROR)
        return NULL;
    gpudata *made = calloc(1, sizeof *made);
    if (made == NULL) {
        *code = context_failed(ctx, GA_MEMORY_ERROR, "%s", sentence(GA_MEMORY_ERROR));
        return NULL;
    }
    made->context = ctx;
    gpucontext_retain(ctx);
    made->size = size;
    made->references = 1;
    return made;
}

gpudata *gpudata_alloc(gpucontext *ctx, size_t size, void *data, int flags, int *code)
{
    int unused;
    code = code == NULL ? &unused : code;
    gpudata *made = memory_record(ctx, size, code);
    if (made == NULL)
        return NULL;
    *code = pool_alloc(ctx, size, made);
    if (*code == GA_NO_ERROR && flags & GA_BUFFER_INIT)
        *code = gpudata_write(made, 0, data, size);
    if (*code == GA_NO_ERROR)
        return made;
    gpudata_release(made);
    return NULL;
}

gpudata *gpudata_wrap(gpucontext *ctx, uint64_t address, size_t size, void *owner, void (*free_owner)(void *),
                      int *code)
{
    int unused;
    gpudata *made = memory_record(ctx, size, code == NULL ? &unused : code);
    if (made == NULL)
        return NULL;
    made->memory = address;
    made->owner = owner;
    made->free_owner = free_owner;
    return made;
}

/* The caller can pass the address to other libraries, which order their work after the work that the device has got. */
uint64_t gpudata_address(gpudata *data)
{
    queue_give(data->context);
    return data->memory;
}

void gpudata_retain(gpudata *data)
{
    data->references++;
}

void gpudata_release(gpudata *data)
{
    if (data == NULL || --data->references > 0)
        return;
    gpucontext *ctx = data->context;
    if (data->block != NULL && context_is_open(ctx))
        pool_release(ctx, data);
    if (data->free_owner != NULL) {
        queue_give(ctx);
        data->free_owner(data->owner);
    }
    free(data);
    gpucontext_release(ctx);
}

gpucontext *gpudata_context(gpudata *data)
{
    return data->context;
}

size_t gpudata_size(gpudata *data)
{
    return data->size;
}

/* Check that a range of bytes is inside the memory. */
static int inside(gpudata *data, size_t offset, size_t size)
{
    if (size <= data->size && offset <= data->size - size)
        return GA_NO_ERROR;
    return context_failed(data->context, GA_VALUE_ERROR, "bytes %zu to %zu are out of bounds for memory of %zu bytes",
                          offset, offset + size, data->size);
}

int gpudata_move(gpudata *to, size_t to_offset, gpudata *from, size_t from_offset, size_t size)
{
    gpucontext *ctx = to->context;
    USABLE(ctx);
    if (from->context != ctx)
        return gpudata_transfer(to, to_offset, from, from_offset, size);
    int code = inside(to, to_offset, size);
    if (code == GA_NO_ERROR)
        code = inside(from, from_offset, size);
    if (code != GA_NO_ERROR || size == 0)
        return code;
    if (to == from && to_offset < from_offset + size && from_offset < to_offset + size)
        return context_failed(ctx, GA_VALUE_ERROR,
                              "source and target of a copy overlap: %zu bytes from offset %zu to offset %zu", size,
                              from_offset, to_offset);
    if (queue_collects(ctx))
        return context_checked(ctx, queue_copy(ctx, to->memory, to_offset, from->memory, from_offset, size));
    return context_checked(ctx, ctx->table->copy(ctx->device, to->memory, to_offset, from->memory, from_offset, size));
}

int gpudata_write(gpudata *to, size_t offset, const void *from, size_t size)
{
    gpucontext *ctx = to->context;
    USABLE(ctx);
    int code = inside(to, offset, size);
    if (code != GA_NO_ERROR || size == 0)
        return code;
    FLUSH(ctx);
    return context_checked(ctx, ctx->table->write(ctx->device, to->memory, offset, from, size));
}

int gpudata_read(void *to, gpudata *from, size_t offset, size_t size)
{
    gpucontext *ctx = from->context;
    USABLE(ctx);
    int code = inside(from, offset, size);
    if (code != GA_NO_ERROR)
        return code;
    if (size == 0) /* A call that returns an empty array raises the error of its wrong index, and not a later call. */
        return ctx->index_errors == NULL ? code : gpucontext_sync(ctx);
    FLUSH(ctx);
    return waited(ctx, ctx->table->read(ctx->device, to, from->memory, offset, size));
}

int memory_fill(gpudata *data, size_t offset, size_t size, int byte)
{
    gpucontext *ctx = data->context;
    USABLE(ctx);
    int code = inside(data, offset, size);
    if (code != GA_NO_ERROR || size == 0)
        return code;
    if (queue_collects(ctx))
        return context_checked(ctx, queue_fill(ctx, data->memory, offset, size, (uint8_t)byte));
    return context_checked(ctx, ctx->table->fill(ctx->device, data->memory, offset, size, (uint8_t)byte));
}

int gpudata_memset(gpudata *data, size_t offset, int byte)
{
    return memory_fill(data, offset, offset < data->size ? data->size - offset : 0, byte);
}

int gpudata_sync(gpudata *data)
{
    return gpucontext_sync(data->context);
}

/* Make the later work of `waiting` wait for the work that is in the queue of `first` now. */
static int fence(gpucontext *first, gpucontext *waiting)
{
    return context_checked(waiting, first->table->fence(first->device, waiting->device));
}

/* Copy between devices that share an address space. The copy starts after the earlier work of the source device, and
 * later work of the source device waits for the copy. */
static int transfer_directly(gpudata *to, size_t to_offset, gpudata *from, size_t from_offset, size_t size)
{
    gpucontext *ctx = to->context, *other = from->context;
    int code = fence(other, ctx);
    if (code == GA_NO_ERROR)
        code =
            context_checked(ctx, ctx->table->copy(ctx->device, to->memory, to_offset, from->memory, from_offset, size));
    return context_checked(ctx, code == GA_NO_ERROR ? fence(ctx, other) : code);
}

/* Copy between contexts: directly if their devices share addresses, else through the host. */
int gpudata_transfer(gpudata *to, size_t to_offset, gpudata *from, size_t from_offset, size_t size)
{
    gpucontext *ctx = to->context, *other = from->context;
    int code = context_usable(ctx);
    if (code == GA_NO_ERROR)
        code = inside(to, to_offset, size);
    if (code == GA_NO_ERROR
        && ((code = context_usable(other)) != GA_NO_ERROR || (code = inside(from, from_offset, size)) != GA_NO_ERROR))
        context_checked(ctx, code);
    if (code != GA_NO_ERROR || size == 0)
        return code;
    FLUSH(other);
    FLUSH(ctx);
    if (ctx->table == other->table && ctx->info.shares_addresses)
        return transfer_directly(to, to_offset, from, from_offset, size);
    enum { CHUNK = 4 << 20 };
    size_t chunk = size < CHUNK ? size : CHUNK;
    char *host = malloc(chunk ? chunk : 1);
    if (host == NULL)
        return context_failed(ctx, GA_MEMORY_ERROR, "%s", sentence(GA_MEMORY_ERROR));
    for (size_t done = 0; done < size && code == GA_NO_ERROR; done += chunk) {
        size_t n = size - done < chunk ? size - done : chunk;
        code = gpudata_read(host, from, from_offset + done, n);
        if (code == GA_NO_ERROR)
            code = gpudata_write(to, to_offset + done, host, n);
        context_checked(ctx, code);
    }
    free(host);
    return code;
}

/* ---- kernels ---- */

program_cache device_program_cache;
device_lock device_outer_lock;

/* Build a program, or load its binary from the cache. */
static int program_built(gpucontext *ctx, const char *text, int flags, const char *options, device_program *program)
{
    size_t size;
    void *binary =
        device_program_cache.find == NULL ? NULL : device_program_cache.find(ctx, text, flags, options, &size);
    if (binary != NULL) {
        int code = ctx->table->build(ctx->device, NULL, flags, options, binary, size, program);
        free(binary);
        if (code == GA_NO_ERROR)
            return code;
        free(program->log);
        memset(program, 0, sizeof *program);
    }
    int code = ctx->table->build(ctx->device, text, flags, options, NULL, 0, program);
    if (code == GA_NO_ERROR && program->binary != NULL && device_program_cache.keep != NULL)
        device_program_cache.keep(ctx, text, flags, options, program->binary, program->binary_size);
    free(program->binary);
    return code;
}

int gpukernel_build(gpucontext *ctx, const char *text, int flags, const char *options, unsigned n,
                    const char *const *names, const unsigned *counts, const int *const *types, gpukernel **kernels,
                    char **log)
{
    if (log != NULL)
        *log = NULL;
    USABLE(ctx);
    if (flags & GA_USE_DOUBLE && !ctx->info.has_double)
        return context_failed(ctx, GA_DEVSUP_ERROR, "%s does not support double precision", ctx->info.name);
    device_program program = {0};
    int code = program_built(ctx, text, flags, options, &program);
    if (log != NULL)
        *log = program.log;
    else
        free(program.log);
    if (code != GA_NO_ERROR)
        return context_checked(ctx, code);
    for (unsigned i = 0; i < n && code == GA_NO_ERROR; ++i) {
        gpukernel *k = calloc(1, sizeof *k + counts[i] * sizeof(int));
        kernels[i] = k;
        if (k == NULL) {
            code = context_failed(ctx, GA_MEMORY_ERROR, "%s", sentence(GA_MEMORY_ERROR));
            n = i;
            break;
        }
        k->context = ctx;
        gpucontext_retain(ctx);
        k->references = 1;
        k->count = counts[i];
        memcpy(k->types, types[i], counts[i] * sizeof(int));
        code = context_checked(ctx, ctx->table->kernel(ctx->device, program.handle, names[i], &k->kernel));
        if (code != GA_NO_ERROR)
            n = i + 1;
    }
    if (code != GA_NO_ERROR)
        for (unsigned i = 0; i < n; ++i)
            gpukernel_release(kernels[i]);
    return code;
}

void gpukernel_retain(gpukernel *k)
{
    k->references++;
}

void gpukernel_release(gpukernel *k)
{
    if (k == NULL || --k->references > 0)
        return;
    gpucontext *ctx = k->context;
    free(k);
    gpucontext_release(ctx);
}

gpucontext *gpukernel_context(gpukernel *k)
{
    return k->context;
}

int gpukernel_sched(gpukernel *k, size_t n, size_t *groups, size_t *group)
{
    const device_info *info = &k->context->info;
    size_t threads = *group, count = *groups;
    if (threads == 0) {
        size_t most = k->kernel.max_group < info->max_group ? k->kernel.max_group : info->max_group;
        /* 256 threads are enough. On a GPU, they hide the latency of memory. On a CPU, the compiler turns a group
         * into a loop and vectorizes it. */
        threads = most < 256 ? most : 256;
        if (count > 0 && (n + count - 1) / count < threads)
            threads = (n + count - 1) / count;
        if (k->kernel.preferred > 1)
            threads = (threads + k->kernel.preferred - 1) / k->kernel.preferred * k->kernel.preferred;
        if (threads > most)
            threads = most;
        if (threads == 0)
            threads = 1;
    }
    if (count == 0) {
        size_t most = (size_t)info->processors * (info->on_host ? 4 : 32);
        count = (n + threads - 1) / threads;
        if (count > most)
            count = most;
        if (count == 0)
            count = 1;
    }
    *groups = count;
    *group = threads;
    return GA_NO_ERROR;
}

int gpukernel_call(gpukernel *k, unsigned nd, const size_t *groups, const size_t *group, size_t local_memory,
                   void *const *args)
{
    gpucontext *ctx = k->context;
    USABLE(ctx);
    void *values[k->count + 1];
    size_t sizes[k->count + 1];
    if (nd == 0 || nd > 3)
        return context_failed(ctx, GA_VALUE_ERROR, "a kernel runs along 1 to 3 axes, not %u", nd);
    for (unsigned i = 0; i < nd; ++i) {
        if (groups[i] == 0)
            return GA_NO_ERROR;
    }
    for (unsigned i = 0; i < k->count; ++i) {
        if (k->types[i] == GA_BUFFER) {
            gpudata *data = args[i];
            if (data->context != ctx)
                return context_failed(
                    ctx, GA_INVALID_ERROR,
                    "argument %u of the kernel is memory of another context (%s) than the kernel's (%s)", i,
                    data->context->name, ctx->name);
            values[i] = &data->memory;
            sizes[i] = sizeof data->memory;
        }
        else {
            values[i] = args[i];
            sizes[i] = gpuarray_get_elsize(k->types[i]);
        }
    }
    if (queue_collects(ctx))
        return context_checked(ctx, queue_launch(k, nd, groups, group, local_memory, sizes, values));
    int code =
        ctx->table->launch(ctx->device, k->kernel.handle, nd, groups, group, local_memory, k->count, values, sizes);
    if (code == GA_NO_ERROR && ctx->flags & GA_CTX_CHECKED)
        return waited(ctx, ctx->table->sync(ctx->device));
    return context_checked(ctx, code);
}

int gpukernel_property(gpukernel *k, int property, void *value)
{
    switch (property) {
    case GA_KERNEL_PROP_MAXLSIZE: *(size_t *)value = k->kernel.max_group; break;
    case GA_KERNEL_PROP_PREFLSIZE: *(size_t *)value = k->kernel.preferred; break;
    case GA_KERNEL_PROP_NUMARGS: *(unsigned *)value = k->count; break;
    case GA_KERNEL_PROP_TYPES: *(const int **)value = k->types; break;
    default: return context_failed(k->context, GA_INVALID_ERROR, "kernels have no property %d", property);
    }
    return GA_NO_ERROR;
}

/* ---- GpuKernel: kernels that the C code of Ops uses ---- */

int GpuKernel_init(GpuKernel *kernel, gpucontext *ctx, unsigned count, const char **texts, const size_t *lengths,
                   const char *name, unsigned n, const int *types, int flags, char **text)
{
    size_t size = 1;
    memset(kernel, 0, sizeof *kernel);
    if (text != NULL)
        *text = NULL;
    for (unsigned i = 0; i < count; ++i)
        size += lengths == NULL || lengths[i] == 0 ? strlen(texts[i]) : lengths[i];
    char *joined = malloc(size), *end = joined, *log = NULL;
    kernel->args = calloc(n + 1, sizeof *kernel->args);
    if (joined == NULL || kernel->args == NULL) {
        free(joined);
        GpuKernel_clear(kernel);
        return context_failed(ctx, GA_MEMORY_ERROR, "%s", sentence(GA_MEMORY_ERROR));
    }
    for (unsigned i = 0; i < count; ++i) {
        size_t length = lengths == NULL || lengths[i] == 0 ? strlen(texts[i]) : lengths[i];
        memcpy(end, texts[i], length);
        end += length;
    }
    *end = '\0';
    int code = gpukernel_build(ctx, joined, flags, "", 1, &name, &n, &types, &kernel->k, &log);
    if (code != GA_NO_ERROR) {
        if (text != NULL)
            *text = numbered_listing(joined, log);
        GpuKernel_clear(kernel);
    }
    free(log);
    free(joined);
    return code;
}

void GpuKernel_clear(GpuKernel *kernel)
{
    gpukernel_release(kernel->k);
    free(kernel->args);
    memset(kernel, 0, sizeof *kernel);
}

gpucontext *GpuKernel_context(GpuKernel *kernel)
{
    return kernel->k->context;
}

int GpuKernel_sched(GpuKernel *kernel, size_t n, size_t *groups, size_t *group)
{
    return gpukernel_sched(kernel->k, n, groups, group);
}

int GpuKernel_call(GpuKernel *kernel, unsigned nd, const size_t *groups, const size_t *group, size_t local_memory,
                   void **args)
{
    if (kernel->k == NULL)
        return GA_INVALID_ERROR;
    return gpukernel_call(kernel->k, nd, groups, group, local_memory, args == NULL ? kernel->args : args);
}

int GpuKernel_setarg(GpuKernel *kernel, unsigned i, void *value)
{
    if (i >= kernel->k->count)
        return context_failed(kernel->k->context, GA_VALUE_ERROR,
                              "the kernel has %u arguments and no argument number %u", kernel->k->count, i);
    kernel->args[i] = value;
    return GA_NO_ERROR;
}

const char *GpuKernel_error(const GpuKernel *kernel, int code)
{
    return gpucontext_error(kernel->k == NULL ? NULL : kernel->k->context, code);
}

/* Return a malloc'd text: the source with line numbers, followed by the compiler's output. Return NULL if memory is
 * exhausted. */
char *numbered_listing(const char *text, const char *log)
{
    size_t lines = 1;
    for (const char *c = text; *c != '\0'; ++c)
        lines += *c == '\n';
    size_t size = strlen(text) + 10 * lines + (log == NULL ? 0 : strlen(log)) + 64;
    char *listing = malloc(size), *end = listing;
    if (listing == NULL)
        return NULL;
    for (size_t line = 1; *text != '\0'; ++line) {
        size_t length = strcspn(text, "\n");
        end += sprintf(end, "%4zu\t%.*s\n", line, (int)length, text);
        text += length + (text[length] == '\n');
    }
    if (log != NULL)
        sprintf(end, "\nOutput of the compiler:\n%s\n", log);
    else
        *end = '\0';
    return listing;
}
