/* The CUDA back end: the functions of `device_cuda`. They call libcuda, which is loaded when the first device is
 * opened.
 *
 * The back end uses the device's primary context, so that other libraries in the process see the same memory. All work
 * runs in one stream. It is a blocking stream (cuStreamCreate without flags): its work waits for earlier work in the
 * legacy default stream, and vice versa. Other libraries use the legacy default stream unless configured otherwise, so
 * arrays can be exchanged with them without further synchronization. Unlike the legacy stream, a blocking stream can
 * record graphs.
 *
 * Host memory is copied through staging buffers of page-locked memory, unless the source is page-locked. `write` returns
 * when the source can be reused; the target changes later, in stream order. Large copies to the device run in a second
 * stream, at the same time as computations. Several threads can call `write`, `read` and `sync` at the same time. */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Size of each half of a staging buffer, in bytes. It is so large that the transfer of a half (about 0.2 ms) takes
 * much longer than the calls to the driver. */
#define HALF ((size_t)4 << 20)
#define LARGE ((size_t)256 << 10) /* copies to the device of at least this number of bytes use the second stream */
#define STEP ((size_t)64)         /* pieces in the upload buffer begin at multiples of this number of bytes */

struct cuda_functions cuda;

/* ---- errors ---- */

/* Return true for errors after which the context is lost, and with it all work of this process on the device. */
static int is_lasting(CUresult status)
{
    return status == CUDA_ERROR_ECC_UNCORRECTABLE || status == CUDA_ERROR_NVLINK_UNCORRECTABLE
           || status == CUDA_ERROR_ILLEGAL_ADDRESS || status == CUDA_ERROR_LAUNCH_TIMEOUT
           || status == CUDA_ERROR_CONTEXT_IS_DESTROYED || status == CUDA_ERROR_ASSERT
           || status == CUDA_ERROR_INVALID_CONTEXT || status == CUDA_ERROR_EXTERNAL_DEVICE
           || status == CUDA_ERROR_UNKNOWN
           || (status >= CUDA_ERROR_HARDWARE_STACK_ERROR && status <= CUDA_ERROR_LAUNCH_FAILED);
}

int cuda_failed(cuda_device *d, CUresult status, const char *what)
{
    const char *name = NULL, *text = NULL;
    cuda.cuGetErrorName(status, &name);
    cuda.cuGetErrorString(status, &text);
    if (!name)
        name = "an unknown error";
    if (!text)
        text = "the driver does not describe the error";
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        return device_failed(GA_MEMORY_ERROR, "%s: %s (%s)", what, name, text);
    if (is_lasting(status)) {
        d->lost = 1;
        device_failed(GA_RUN_ERROR,
                      "%s: %s (%s). This call, or a kernel that was launched earlier, caused the error. The device "
                      "cannot be used any longer in this process",
                      what, name, text);
        device_note_loss();
        return GA_RUN_ERROR;
    }
    if (status == CUDA_ERROR_DEVICE_UNAVAILABLE)
        return device_failed(GA_NODEV_ERROR,
                             "%s: %s (%s): another process uses the device exclusively (compute mode "
                             "EXCLUSIVE_PROCESS), or its use is prohibited "
                             "(PROHIBITED); nvidia-smi -q -d COMPUTE shows the mode",
                             what, name, text);
    return device_failed(GA_IMPL_ERROR, "%s: %s (%s)", what, name, text);
}

/* ---- the driver ---- */

static int load_driver(device *d)
{
    static void *library;
    if (library)
        return GA_NO_ERROR;
    static const char *const names[] = {"libcuda.so.1", NULL};
    const char *path = device_library("cuda");
    if (!path)
        path = names[0];
    void *loaded = device_load_library("cuda", names);
    if (!loaded)
        return device_failed(GA_LOAD_ERROR,
                             "NVIDIA's driver cannot be loaded (%s); it is part of the system, not of a Python package",
                             dlerror());
    struct cuda_functions found;
    int version = 0;
    *(void **)&found.cuDriverGetVersion = dlsym(loaded, "cuDriverGetVersion");
    if (!found.cuDriverGetVersion || found.cuDriverGetVersion(&version) != CUDA_SUCCESS) {
        dlclose(loaded);
        return device_failed(GA_LOAD_ERROR, "%s is not NVIDIA's driver", path);
    }
    const char *missing = NULL;
#define X(name, arguments)                               \
    if (!(*(void **)&found.name = dlsym(loaded, #name))) \
        missing = #name;
    CUDA_FUNCTIONS(X)
#undef X
    if (missing || version < CUDA_OLDEST_DRIVER) {
        dlclose(loaded);
        return device_failed(
            GA_LOAD_ERROR,
            "NVIDIA's driver is too old: it is of CUDA %d.%d%s%s, and 11.4 is the oldest that can be used",
            version / 1000, version % 1000 / 10, missing ? " without " : "", missing ? missing : "");
    }
    cuda = found;
    library = loaded;
    return GA_NO_ERROR;
}

static int start_driver(cuda_device *d, int *count)
{
    int code = load_driver(&d->base);
    if (code != GA_NO_ERROR)
        return code;
    CUresult status = cuda.cuInit(0);
    if (status == CUDA_SUCCESS)
        status = cuda.cuDeviceGetCount(count);
    if (status == CUDA_ERROR_NO_DEVICE || (status == CUDA_SUCCESS && *count == 0))
        return device_failed(GA_NODEV_ERROR,
                             "NVIDIA's driver is installed, but finds no device (the environment variable "
                             "CUDA_VISIBLE_DEVICES may hide it)");
    if (status == CUDA_ERROR_NOT_INITIALIZED)
        return device_failed(
            GA_NODEV_ERROR,
            "the driver cannot be used in this process, because it was forked after its parent had used "
            "CUDA; start worker processes by 'spawn' or 'forkserver'");
    if (status == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
        return device_failed(
            GA_NODEV_ERROR,
            "libcuda and the driver in the kernel are of different versions, as after an update: restart the machine");
    if (status == CUDA_ERROR_STUB_LIBRARY)
        return device_failed(GA_LOAD_ERROR,
                             "the libcuda that is found first is the stub of CUDA's toolkit, which programs are linked "
                             "with, not the driver's");
    CUDA_CHECK(d, status, "cuInit");
    return GA_NO_ERROR;
}

/* ---- devices ---- */

static int open_number(cuda_device *d, int number, int flags)
{
    unsigned schedule = flags & GA_CTX_SCHED_MULTI    ? CU_CTX_SCHED_YIELD
                        : flags & GA_CTX_SCHED_SINGLE ? CU_CTX_SCHED_SPIN
                                                      : 0;
    int major = 0, minor = 0;
    CUDA_CHECK(d, cuda.cuDeviceGet(&d->id, number), "cuDeviceGet");
    if (schedule) {
        CUresult status = cuda.cuDevicePrimaryCtxSetFlags_v2(d->id, schedule);
        /* If the context is already active, ignore the error: its creator has chosen how threads wait. */
        if (status != CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE)
            CUDA_CHECK(d, status, "cuDevicePrimaryCtxSetFlags");
    }
    CUDA_CHECK(d, cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->id),
               "cuDeviceGetAttribute");
    CUDA_CHECK(d, cuda.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->id),
               "cuDeviceGetAttribute");
    d->capability = 10 * major + minor;
    CUDA_CHECK(d, cuda.cuDevicePrimaryCtxRetain(&d->context, d->id), "cuDevicePrimaryCtxRetain");
    d->retained = 1;
    return GA_NO_ERROR;
}

/* Open the device that a name such as "cuda3" gives. For the name "cuda", open the first usable device. */
static int open_named(cuda_device *d, const char *name, int flags)
{
    char *end = NULL;
    const char *digits = name + strlen("cuda");
    long number = strncmp(name, "cuda", 4) == 0 ? strtol(digits, &end, 10) : -1;
    int count = 0;
    if (!end || *end || number < 0 || (*digits && (*digits < '0' || *digits > '9')))
        return device_failed(GA_VALUE_ERROR,
                             "'%s' is not the name of a CUDA device; expected cuda, or cuda and its number", name);
    int code = start_driver(d, &count);
    if (code != GA_NO_ERROR)
        return code;
    if (*digits && number >= count)
        return device_failed(GA_NODEV_ERROR, "%s does not exist: the driver has %d device%s, the last is cuda%d", name,
                             count, count == 1 ? "" : "s", count - 1);
    if (*digits)
        return open_number(d, (int)number, flags);
    for (int i = 0; i < count; ++i)
        if ((code = open_number(d, i, flags)) == GA_NO_ERROR)
            break;
    return code;
}

/* Create the events of a staging buffer. The memory is allocated for the first copy. */
static int open_staging(cuda_device *d, struct cuda_staging *staging)
{
    for (int i = 0; i < 2; ++i)
        CUDA_CHECK(d, cuda.cuEventCreate(&staging->copied[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    return GA_NO_ERROR;
}

static void close_staging(struct cuda_staging *staging)
{
    for (int i = 0; i < 2; ++i)
        if (staging->copied[i])
            cuda.cuEventDestroy_v2(staging->copied[i]);
    if (staging->memory)
        cuda.cuMemFreeHost(staging->memory);
}

/* Create what large copies need, at the first of them. If memory on the device is scarce, return GA_MEMORY_ERROR. */
static int open_large_uploads(cuda_device *d)
{
    struct cuda_large_uploads *large = &d->large;
    if (large->stream)
        return GA_NO_ERROR;
    if (!large->memory)
        CUDA_CHECK(d, cuda.cuMemAlloc_v2(&large->memory, CUDA_UPLOAD_SLOTS * HALF), "cuMemAlloc");
    for (int i = 0; i < CUDA_UPLOAD_SLOTS; ++i) {
        if (!large->slot[i].landed)
            CUDA_CHECK(d, cuda.cuEventCreate(&large->slot[i].landed, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        if (!large->slot[i].taken)
            CUDA_CHECK(d, cuda.cuEventCreate(&large->slot[i].taken, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    }
    if (!large->staging.copied[0]) {
        int code = open_staging(d, &large->staging);
        if (code != GA_NO_ERROR)
            return code;
    }
    CUDA_CHECK(d, cuda.cuStreamCreate(&large->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return GA_NO_ERROR;
}

static void close_large_uploads(struct cuda_large_uploads *large)
{
    if (large->stream) {
        cuda.cuStreamSynchronize(large->stream);
        cuda.cuStreamDestroy_v2(large->stream);
    }
    for (int i = 0; i < CUDA_UPLOAD_SLOTS; ++i) {
        if (large->slot[i].landed)
            cuda.cuEventDestroy_v2(large->slot[i].landed);
        if (large->slot[i].taken)
            cuda.cuEventDestroy_v2(large->slot[i].taken);
    }
    if (large->memory)
        cuda.cuMemFree_v2(large->memory);
    close_staging(&large->staging);
}

static int open_stream(cuda_device *d)
{
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuStreamCreate(&d->stream, CU_STREAM_DEFAULT), "cuStreamCreate");
    int code = open_staging(d, &d->upload.staging);
    return code == GA_NO_ERROR ? open_staging(d, &d->download) : code;
}

static int cuda_open(const char *name, int flags, device **opened)
{
    cuda_device *d = calloc(1, sizeof *d);
    *opened = &d->base;
    if (!d)
        return GA_MEMORY_ERROR;
    d->base.table = &device_cuda;
    pthread_mutex_init(&d->upload.staging.lock, NULL);
    pthread_mutex_init(&d->large.staging.lock, NULL);
    pthread_mutex_init(&d->download.lock, NULL);
    int code = open_named(d, name, flags);
    return code == GA_NO_ERROR ? open_stream(d) : code;
}

/* Free the stream, the programs and the staging buffers. If the context is lost, do nothing. Errors are ignored. */
static void close_stream(cuda_device *d)
{
    struct cuda_guard guard;
    if (d->lost || cuda_enter(d, &guard) != CUDA_SUCCESS)
        return;
    if (d->stream)
        cuda.cuStreamSynchronize(d->stream);
    cublas_close(d);
    cudnn_close(d);
    cublas_solve_close(d);
    cusolver_close(d);
    cufft_close(d);
    cuda_forget_programs(d);
    close_large_uploads(&d->large);
    close_staging(&d->upload.staging);
    close_staging(&d->download);
    if (d->recorder)
        cuda.cuStreamDestroy_v2(d->recorder);
    if (d->stream)
        cuda.cuStreamDestroy_v2(d->stream);
    if (guard.before == NULL) /* the thread had no current context, and cuda_leave does not restore this state */
        cuda.cuCtxSetCurrent(NULL);
    cuda_leave(&guard);
}

static void cuda_close(device *base)
{
    cuda_device *d = (cuda_device *)base;
    if (!d)
        return;
    if (d->retained) {
        nccl_close(d); /* first, because kernels in the stream may wait for other members */
        close_stream(d);
        cuda.cuDevicePrimaryCtxRelease_v2(d->id);
    }
    cublas_close(d);
    cudnn_close(d);
    cublas_solve_close(d);
    cusolver_close(d);
    cufft_close(d);
    cuda_forget_programs(d);
    pthread_mutex_destroy(&d->upload.staging.lock);
    pthread_mutex_destroy(&d->large.staging.lock);
    pthread_mutex_destroy(&d->download.lock);
    free(d);
}

static int attribute(cuda_device *d, int which)
{
    int value = 0;
    return cuda.cuDeviceGetAttribute(&value, which, d->id) == CUDA_SUCCESS ? value : 0;
}

static int cuda_info(device *base, device_info *info)
{
    cuda_device *d = (cuda_device *)base;
    char compiler[96];
    memset(info, 0, sizeof *info);
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuDeviceGetName(info->name, sizeof info->name, d->id), "cuDeviceGetName");
    CUDA_CHECK(d, cuda.cuDeviceGetPCIBusId(info->id, sizeof info->id, d->id), "cuDeviceGetPCIBusId");
    CUDA_CHECK(d, cuda.cuMemGetInfo_v2(&info->free_memory, &info->memory), "cuMemGetInfo");
    cuda_compiler_name(compiler, sizeof compiler);
    snprintf(info->binaries, sizeof info->binaries, "cuda sm_%d %s", d->capability, compiler);
    info->largest = info->memory;
    info->alignment = 256; /* enough for kernels; only textures may need 512 */
    info->local_memory = (size_t)attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    info->max_group = (size_t)attribute(d, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    for (int axis = 0; axis < 3; ++axis) {
        info->max_threads[axis] = (size_t)attribute(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + axis);
        info->max_groups[axis] = (size_t)attribute(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + axis);
    }
    info->processors = (unsigned)attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    info->warp = (unsigned)attribute(d, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    info->arguments = 4096; /* on all devices; CUDA 12.1 passes more to devices since Volta */
    info->has_double = info->has_half = info->has_long_atomics = 1;
    info->shares_addresses = 1;
    info->on_host = attribute(d, CU_DEVICE_ATTRIBUTE_INTEGRATED);
    return GA_NO_ERROR;
}

/* ---- memory ---- */

static int cuda_alloc(device *base, device_memory parent, size_t offset, size_t size, device_memory *memory)
{
    cuda_device *d = (cuda_device *)base;
    *memory = 0;
    if (parent) {
        *memory = parent + offset;
        return GA_NO_ERROR;
    }
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuMemAlloc_v2(memory, size), "cuMemAlloc");
    return GA_NO_ERROR;
}

/* Free device memory. The driver first waits for work that still uses the memory. */
static void cuda_release(device *base, device_memory memory, int has_parent)
{
    cuda_device *d = (cuda_device *)base;
    struct cuda_guard guard;
    if (has_parent || d->lost || cuda_enter(d, &guard) != CUDA_SUCCESS)
        return;
    cuda.cuMemFree_v2(memory);
    cuda_leave(&guard);
}

static void unlock(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

/* Hold a lock until the end of the C block. */
#define LOCKED(lock)                                                    \
    pthread_mutex_t *locked_ __attribute__((cleanup(unlock))) = (lock); \
    pthread_mutex_lock(locked_)

static int staging_ready(cuda_device *d, struct cuda_staging *staging)
{
    if (!staging->memory)
        CUDA_CHECK(d, cuda.cuMemAllocHost_v2((void **)&staging->memory, 2 * HALF), "cuMemAllocHost");
    return GA_NO_ERROR;
}

/* Switch to the other half of the upload buffer, and wait until the device has read the data in that half. */
static int upload_turn(cuda_device *d)
{
    struct cuda_upload *upload = &d->upload;
    CUDA_CHECK(d, cuda.cuEventRecord(upload->staging.copied[upload->half], d->stream), "cuEventRecord");
    upload->on_its_way[upload->half] = 1;
    upload->half ^= 1;
    upload->used = 0;
    if (upload->on_its_way[upload->half])
        CUDA_CHECK(d, cuda.cuEventSynchronize(upload->staging.copied[upload->half]), "cuEventSynchronize");
    upload->on_its_way[upload->half] = 0;
    return GA_NO_ERROR;
}

/* Return whether host memory is page-locked, so that the device can read it itself. */
static int is_page_locked(const void *memory, size_t size)
{
    for (int last = 0; last < 2; ++last) {
        int type = 0;
        CUdeviceptr at = (CUdeviceptr)(uintptr_t)memory + (last ? size - 1 : 0);
        if (cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS
            || type != CU_MEMORYTYPE_HOST)
            return 0;
    }
    return 1;
}

/* Copy one piece to the next slot, and from there to the target. */
static int upload_piece(cuda_device *d, device_memory to, const void *from, size_t size)
{
    struct cuda_large_uploads *large = &d->large;
    unsigned i = large->next++ % CUDA_UPLOAD_SLOTS;
    CUdeviceptr memory = large->memory + i * HALF;
    if (large->slot[i].used)
        CUDA_CHECK(d, cuda.cuStreamWaitEvent(large->stream, large->slot[i].taken, 0), "cuStreamWaitEvent");
    CUDA_CHECK(d, cuda.cuMemcpyHtoDAsync_v2(memory, from, size, large->stream), "cuMemcpyHtoDAsync");
    CUDA_CHECK(d, cuda.cuEventRecord(large->slot[i].landed, large->stream), "cuEventRecord");
    CUDA_CHECK(d, cuda.cuStreamWaitEvent(d->stream, large->slot[i].landed, 0), "cuStreamWaitEvent");
    CUDA_CHECK(d, cuda.cuMemcpyAsync(to, memory, size, d->stream), "cuMemcpyAsync");
    CUDA_CHECK(d, cuda.cuEventRecord(large->slot[i].taken, d->stream), "cuEventRecord");
    large->slot[i].used = 1;
    return GA_NO_ERROR;
}

/* Copy to the device in pieces, in the stream of large copies. Wait until the device has read the source, if it is
 * page-locked. Return GA_MEMORY_ERROR, and copy nothing, if memory on the device is scarce. */
static int upload_large(cuda_device *d, device_memory to, const void *from, size_t size)
{
    struct cuda_staging *staging = &d->large.staging;
    int direct = is_page_locked(from, size);
    LOCKED(&staging->lock);
    int code = open_large_uploads(d);
    if (code == GA_NO_ERROR && !direct)
        code = staging_ready(d, staging);
    for (size_t done = 0; code == GA_NO_ERROR && done < size; done += HALF) {
        size_t piece = size - done < HALF ? size - done : HALF;
        int half = (int)(done / HALF & 1);
        const char *source = (const char *)from + done;
        if (!direct) {
            char *here = staging->memory + (size_t)half * HALF;
            CUDA_CHECK(d, cuda.cuEventSynchronize(staging->copied[half]), "cuEventSynchronize");
            source = memcpy(here, source, piece);
        }
        code = upload_piece(d, to + done, source, piece);
        if (code == GA_NO_ERROR)
            CUDA_CHECK(d, cuda.cuEventRecord(staging->copied[half], d->large.stream), "cuEventRecord");
        if (code == GA_NO_ERROR && direct && done + HALF >= size)
            CUDA_CHECK(d, cuda.cuEventSynchronize(staging->copied[half]), "cuEventSynchronize");
    }
    return code;
}

static int cuda_write(device *base, device_memory to, size_t offset, const void *from, size_t size)
{
    cuda_device *d = (cuda_device *)base;
    struct cuda_upload *upload = &d->upload;
    CUDA_ENTER(d);
    if (size >= LARGE) {
        int code = upload_large(d, to + offset, from, size);
        if (code != GA_MEMORY_ERROR)
            return code;
    }
    LOCKED(&upload->staging.lock);
    int code = staging_ready(d, &upload->staging);
    ++upload->copies;
    for (size_t done = 0; code == GA_NO_ERROR && done < size;) {
        if (upload->used == HALF && (code = upload_turn(d)) != GA_NO_ERROR)
            return code;
        size_t room = HALF - upload->used, piece = size - done < room ? size - done : room;
        char *here = upload->staging.memory + (size_t)upload->half * HALF + upload->used;
        memcpy(here, (const char *)from + done, piece);
        CUDA_CHECK(d, cuda.cuMemcpyHtoDAsync_v2(to + offset + done, here, piece, d->stream), "cuMemcpyHtoDAsync");
        upload->used += (piece + STEP - 1) / STEP * STEP;
        done += piece;
    }
    return code;
}

/* Return the number of copies to the device so far. */
static uint64_t copies_so_far(cuda_device *d)
{
    LOCKED(&d->upload.staging.lock);
    return d->upload.copies;
}

/* Reuse the whole upload buffer after the device has finished all work. `copies` is the number of copies before the
 * caller waited. If other threads have started copies since then, do nothing. */
static void reuse_upload_buffer(cuda_device *d, uint64_t copies)
{
    LOCKED(&d->upload.staging.lock);
    if (d->upload.copies != copies)
        return;
    d->upload.used = 0;
    d->upload.on_its_way[0] = d->upload.on_its_way[1] = 0;
}

/* Copy to the host in pieces: while a piece is copied out of one half of the download buffer, the device writes the
 * next piece into the other half. */
static int download(cuda_device *d, void *to, device_memory from, size_t size)
{
    struct cuda_staging *staging = &d->download;
    int code = staging_ready(d, staging);
    if (code != GA_NO_ERROR)
        return code;
    size_t asked = 0;
    for (size_t done = 0; done < size;) {
        for (; asked < size && asked - done < 2 * HALF; asked += HALF) {
            int half = (int)(asked / HALF & 1);
            size_t piece = size - asked < HALF ? size - asked : HALF;
            CUDA_CHECK(d,
                       cuda.cuMemcpyDtoHAsync_v2(staging->memory + (size_t)half * HALF, from + asked, piece, d->stream),
                       "cuMemcpyDtoHAsync");
            CUDA_CHECK(d, cuda.cuEventRecord(staging->copied[half], d->stream), "cuEventRecord");
        }
        int half = (int)(done / HALF & 1);
        size_t piece = size - done < HALF ? size - done : HALF;
        CUDA_CHECK(d, cuda.cuEventSynchronize(staging->copied[half]), "waiting for the device");
        memcpy((char *)to + done, staging->memory + (size_t)half * HALF, piece);
        done += piece;
    }
    return GA_NO_ERROR;
}

static int cuda_read(device *base, void *to, device_memory from, size_t offset, size_t size)
{
    cuda_device *d = (cuda_device *)base;
    CUDA_ENTER(d);
    LOCKED(&d->download.lock);
    uint64_t copies = copies_so_far(d);
    int code = download(d, to, from + offset, size);
    if (code == GA_NO_ERROR)
        reuse_upload_buffer(d, copies);
    return code;
}

/* Copy within one address space, which covers the memory of all devices in this process: `from` may belong to
 * another context. */
static int cuda_copy(device *base, device_memory to, size_t to_offset, device_memory from, size_t from_offset,
                     size_t size)
{
    cuda_device *d = (cuda_device *)base;
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuMemcpyAsync(to + to_offset, from + from_offset, size, cuda_stream(d)), "cuMemcpyAsync");
    return GA_NO_ERROR;
}

static int cuda_fill(device *base, device_memory memory, size_t offset, size_t size, uint8_t byte)
{
    cuda_device *d = (cuda_device *)base;
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuMemsetD8Async(memory + offset, byte, size, cuda_stream(d)), "cuMemsetD8Async");
    return GA_NO_ERROR;
}

/* All driver versions that are supported have unified addressing: the host's address is valid on the device. */
static int cuda_host_alloc(device *base, size_t size, void **memory)
{
    cuda_device *d = (cuda_device *)base;
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuMemAllocHost_v2(memory, size), "cuMemAllocHost");
    return GA_NO_ERROR;
}

static void cuda_host_free(device *base, void *memory)
{
    cuda_device *d = (cuda_device *)base;
    struct cuda_guard guard;
    if (d->lost || cuda_enter(d, &guard) != CUDA_SUCCESS)
        return;
    cuda.cuMemFreeHost(memory);
    cuda_leave(&guard);
}

/* ---- order ---- */

static int record_event(cuda_device *d, CUevent *event)
{
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    CUDA_CHECK(d, cuda.cuEventRecord(*event, d->stream), "cuEventRecord");
    return GA_NO_ERROR;
}

static int wait_for_event(cuda_device *d, CUevent event)
{
    CUDA_ENTER(d);
    CUDA_CHECK(d, cuda.cuStreamWaitEvent(d->stream, event, 0), "cuStreamWaitEvent");
    return GA_NO_ERROR;
}

/* Destroy an event. The driver frees the event after its completion. */
static void forget_event(cuda_device *d, CUevent event)
{
    struct cuda_guard guard;
    if (event && !d->lost && cuda_enter(d, &guard) == CUDA_SUCCESS) {
        cuda.cuEventDestroy_v2(event);
        cuda_leave(&guard);
    }
}

static int cuda_sync(device *base)
{
    cuda_device *d = (cuda_device *)base;
    CUDA_ENTER(d);
    uint64_t copies = copies_so_far(d);
    CUDA_CHECK(d, cuda.cuStreamSynchronize(d->stream), "waiting for the device");
    reuse_upload_buffer(d, copies);
    return GA_NO_ERROR;
}

/* Let a device access the memory of another device directly, if both can. Otherwise the driver copies through the host.
 * This is tried once for each pair of devices, and failures have no effect on results, so they are ignored. */
static void enable_peer_access(cuda_device *d, cuda_device *peer)
{
    struct cuda_guard guard;
    int possible = 0;
    uint64_t bit = (uint64_t)1 << (peer->id & 63);
    if (d->peers & bit || d->id == peer->id)
        return;
    d->peers |= bit;
    if (cuda.cuDeviceCanAccessPeer(&possible, d->id, peer->id) == CUDA_SUCCESS && possible
        && cuda_enter(d, &guard) == CUDA_SUCCESS) {
        cuda.cuCtxEnablePeerAccess(peer->context, 0);
        cuda_leave(&guard);
    }
}

static int cuda_fence(device *first, device *waiting)
{
    cuda_device *a = (cuda_device *)first, *b = (cuda_device *)waiting;
    CUevent event = NULL;
    if (a == b)
        return GA_NO_ERROR;
    enable_peer_access(b, a);
    int code = record_event(a, &event);
    if (code == GA_NO_ERROR)
        code = wait_for_event(b, event);
    forget_event(a, event);
    return code;
}

/* ---- graphs ---- */

static int begin_graph(cuda_device *d, void **made)
{
    if (d->recording)
        return device_failed(GA_INVALID_ERROR, "a graph is being recorded already");
    /* A non-blocking stream: work in the legacy default stream would otherwise break the recording. */
    if (!d->recorder)
        CUDA_CHECK(d, cuda.cuStreamCreate(&d->recorder, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    struct cuda_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return device_failed(GA_MEMORY_ERROR, "out of host memory for a graph");
    *made = d->recording = graph;
    d->recording_thread = (uintptr_t)pthread_self();
    /* In the relaxed mode, all threads may still call functions such as cuMemAlloc. */
    CUDA_CHECK(d, cuda.cuStreamBeginCapture_v2(d->recorder, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
    return GA_NO_ERROR;
}

static int end_graph(cuda_device *d, struct cuda_graph *graph)
{
    if (!graph || d->recording != graph)
        return device_failed(GA_INVALID_ERROR, "no graph is being recorded");
    d->recording = NULL;
    d->recording_thread = 0;
    CUDA_CHECK(d, cuda.cuStreamEndCapture(d->recorder, &graph->graph), "cuStreamEndCapture");
    CUDA_CHECK(d, cuda.cuGraphInstantiateWithFlags(&graph->executable, graph->graph, 0), "cuGraphInstantiate");
    return GA_NO_ERROR;
}

static void release_graph(struct cuda_graph *graph)
{
    if (graph->executable)
        cuda.cuGraphExecDestroy(graph->executable);
    if (graph->graph)
        cuda.cuGraphDestroy(graph->graph);
    free(graph->launches);
    free(graph);
}

static int cuda_graph(device *base, enum device_graph_step step, void **graph)
{
    cuda_device *d = (cuda_device *)base;
    int code = GA_NO_ERROR;
    if (step == DEVICE_GRAPH_BEGIN)
        *graph = NULL;
    CUDA_ENTER(d);
    switch (step) {
    case DEVICE_GRAPH_BEGIN: code = begin_graph(d, graph); break;
    case DEVICE_GRAPH_END: code = end_graph(d, *graph); break;
    case DEVICE_GRAPH_RUN:
        CUDA_CHECK(d, cuda.cuGraphLaunch(((struct cuda_graph *)*graph)->executable, d->stream), "cuGraphLaunch");
        break;
    case DEVICE_GRAPH_RELEASE: break;
    }
    if (*graph && (code != GA_NO_ERROR || step == DEVICE_GRAPH_RELEASE)) {
        if (d->recording == *graph) {
            d->recording = NULL;
            d->recording_thread = 0;
        }
        release_graph(*graph);
        *graph = NULL;
    }
    return code;
}

const device_table device_cuda = {
    "cuda",      cuda_open,  cuda_close, cuda_info,       cuda_alloc,     cuda_release, cuda_write,
    cuda_read,   cuda_copy,  cuda_fill,  cuda_host_alloc, cuda_host_free, cuda_build,   cuda_kernel,
    cuda_launch, cuda_fence, cuda_sync,  cuda_graph,      cuda_replace,
};
