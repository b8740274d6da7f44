/* The OpenCL back end: the functions of `device_opencl`. They call libOpenCL, which is loaded when a device is opened.
 *
 * Each device has one in-order queue. Copies from and to the host are blocking calls. `write` has to block: its caller
 * may reuse the source at once, and OpenCL does not guarantee that a non-blocking call has read the source. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* ---- the used part of OpenCL 1.2 (from the Khronos registry's cl.h) ---- */

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_bits;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef struct {
    size_t origin, size;
} cl_buffer_region;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_AVAILABLE = -2,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_BUILD_PROGRAM_FAILURE = -11,
    CL_INVALID_BINARY = -42,
    CL_INVALID_KERNEL_NAME = -46,
    CL_INVALID_WORK_GROUP_SIZE = -54,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_PLATFORM_NOT_FOUND_KHR = -1001,
};

enum {
    CL_PLATFORM_VERSION = 0x0901,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_MAX_PARAMETER_SIZE = 0x1017,
    CL_DEVICE_MEM_BASE_ADDR_ALIGN = 0x1019,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_NAME = 0x102B,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 0x103A,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
    CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 0x11B3,
    CL_BUFFER_CREATE_TYPE_REGION = 0x1220,
};

#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu
#define CL_DEVICE_TYPE_CPU 2
#define CL_DEVICE_TYPE_GPU 4
#define CL_MEM_READ_WRITE 1

/* X(result type, name, argument types) */
#define OPENCL_FUNCTIONS(X)                                                                                     \
    X(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                         \
    X(cl_int, clGetDeviceIDs, (cl_platform_id, cl_bits, cl_uint, cl_device_id *, cl_uint *))                    \
    X(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                               \
    X(cl_context, clCreateContext, (const intptr_t *, cl_uint, const cl_device_id *, void *, void *, cl_int *)) \
    X(cl_int, clReleaseContext, (cl_context))                                                                   \
    X(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bits, cl_int *))                    \
    X(cl_int, clReleaseCommandQueue, (cl_command_queue))                                                        \
    X(cl_mem, clCreateBuffer, (cl_context, cl_bits, size_t, void *, cl_int *))                                  \
    X(cl_mem, clCreateSubBuffer, (cl_mem, cl_bits, cl_uint, const void *, cl_int *))                            \
    X(cl_int, clReleaseMemObject, (cl_mem))                                                                     \
    X(cl_int, clEnqueueWriteBuffer,                                                                             \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *)) \
    X(cl_int, clEnqueueReadBuffer,                                                                              \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))       \
    X(cl_int, clEnqueueCopyBuffer,                                                                              \
      (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))        \
    X(cl_int, clEnqueueFillBuffer,                                                                              \
      (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))  \
    X(cl_int, clEnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))           \
    X(cl_int, clEnqueueBarrierWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))          \
    X(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))    \
    X(cl_program, clCreateProgramWithBinary,                                                                    \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *))  \
    X(cl_int, clBuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, void *, void *))        \
    X(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                                \
    X(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))             \
    X(cl_int, clReleaseProgram, (cl_program))                                                                   \
    X(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                                          \
    X(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                       \
    X(cl_int, clGetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_uint, size_t, void *, size_t *))           \
    X(cl_int, clReleaseKernel, (cl_kernel))                                                                     \
    X(cl_int, clEnqueueNDRangeKernel,                                                                           \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,           \
       const cl_event *, cl_event *))                                                                           \
    X(cl_int, clWaitForEvents, (cl_uint, const cl_event *))                                                     \
    X(cl_int, clReleaseEvent, (cl_event))                                                                       \
    X(cl_int, clFlush, (cl_command_queue))                                                                      \
    X(cl_int, clFinish, (cl_command_queue))

static struct {
#define X(result, name, arguments) result(*name) arguments;
    OPENCL_FUNCTIONS(X)
#undef X
} cl;

typedef struct {
    device base;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    int as_processor; /* whether kernels run as on CPUs: with few threads, which compute in vectors */
    int takes_turns;
    pthread_mutex_t turn;
    unsigned platform_number, number;
    const char *processor; /* name that opencl_name_processor() gave to PoCL; NULL if PoCL knows the processor */
    unsigned programs;     /* number of programs; they and their kernels live as long as the device */
    cl_program *built;
    cl_kernel *kernels;
    unsigned n_kernels;
} opencl_device;

/* ---- errors ---- */

static const char *opencl_name(cl_int status)
{
    switch (status) {
    case CL_DEVICE_NOT_AVAILABLE: return "CL_DEVICE_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES: return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY: return "CL_OUT_OF_HOST_MEMORY";
    case CL_BUILD_PROGRAM_FAILURE: return "CL_BUILD_PROGRAM_FAILURE";
    case CL_INVALID_BINARY: return "CL_INVALID_BINARY";
    case CL_INVALID_KERNEL_NAME: return "CL_INVALID_KERNEL_NAME";
    case CL_INVALID_WORK_GROUP_SIZE: return "CL_INVALID_WORK_GROUP_SIZE";
    case CL_INVALID_BUFFER_SIZE: return "CL_INVALID_BUFFER_SIZE";
    default: return "an OpenCL error";
    }
}

static int opencl_failed(opencl_device *d, cl_int status, const char *what)
{
    int code = GA_IMPL_ERROR;
    if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES || status == CL_OUT_OF_HOST_MEMORY
        || status == CL_INVALID_BUFFER_SIZE)
        code = GA_MEMORY_ERROR;
    return device_failed(code, "%s: %s (%d)", what, opencl_name(status), (int)status);
}

#define CHECK(d, call, what)                        \
    do {                                            \
        cl_int status_ = (call);                    \
        if (status_ != CL_SUCCESS)                  \
            return opencl_failed(d, status_, what); \
    } while (0)

/* On CPUs, the threads that enqueue work or wait for it also execute it, and PoCL 3.0 deadlocks if two of them use
 * the same queue. So the threads take turns. */
static void opencl_begin(opencl_device *d)
{
    if (d->takes_turns)
        pthread_mutex_lock(&d->turn);
}

static void opencl_end(opencl_device *d)
{
    if (d->takes_turns)
        pthread_mutex_unlock(&d->turn);
}

#define IN_TURN(d, call, what)   \
    do {                         \
        opencl_begin(d);         \
        cl_int turned_ = (call); \
        opencl_end(d);           \
        CHECK(d, turned_, what); \
    } while (0)

/* ---- devices ---- */

static int opencl_load(device *d)
{
    static void *library;
    if (library != NULL)
        return GA_NO_ERROR;
    static const char *const names[] = {"libOpenCL.so.1", NULL};
    const char *path = device_library("opencl");
    void *loaded = device_load_library("opencl", names);
    if (loaded == NULL)
        return device_failed(GA_LOAD_ERROR,
                             "OpenCL cannot be loaded (%s); pip install 'theano_ng[opencl]' installs a loader and a "
                             "driver for processors",
                             dlerror());
#define X(result, name, arguments)                                                                \
    if ((*(void **)&cl.name = dlsym(loaded, #name)) == NULL) {                                    \
        dlclose(loaded);                                                                          \
        return device_failed(GA_LOAD_ERROR, "%s has no function " #name ": OpenCL 1.2 is needed", \
                             path ? path : names[0]);                                             \
    }
    OPENCL_FUNCTIONS(X)
#undef X
    library = loaded;
    return GA_NO_ERROR;
}

/* Parse "opencl", "opencl0" or "opencl0:1" into platform and device number; a missing number is 0. Return -1 for
 * other names. */
static int opencl_numbers(const char *name, unsigned *platform, unsigned *number)
{
    int used = 0;
    *platform = *number = 0;
    if (strncmp(name, "opencl", 6) != 0)
        return -1;
    if (name[6] == '\0')
        return 0;
    if (sscanf(name + 6, "%u%n:%u%n", platform, &used, number, &used) < 1 || name[6 + used] != '\0')
        return -1;
    return 0;
}

static void opencl_close(device *base)
{
    opencl_device *d = (opencl_device *)base;
    if (d == NULL)
        return;
    if (d->queue != NULL)
        cl.clFinish(d->queue);
    for (unsigned i = 0; i < d->n_kernels; ++i)
        cl.clReleaseKernel(d->kernels[i]);
    for (unsigned i = 0; i < d->programs; ++i)
        cl.clReleaseProgram(d->built[i]);
    if (d->queue != NULL)
        cl.clReleaseCommandQueue(d->queue);
    if (d->context != NULL)
        cl.clReleaseContext(d->context);
    if (d->takes_turns)
        pthread_mutex_destroy(&d->turn);
    free(d->kernels);
    free(d->built);
    free(d);
}

static int opencl_find(opencl_device *d, const char *name)
{
    unsigned platform, number;
    if (opencl_numbers(name, &d->platform_number, &d->number) < 0)
        return device_failed(
            GA_VALUE_ERROR,
            "'%s' is not the name of an OpenCL device; expected opencl, openclPLATFORM or openclPLATFORM:DEVICE", name);
    platform = d->platform_number;
    number = d->number;
    int code = opencl_load(&d->base);
    if (code != GA_NO_ERROR)
        return code;
    cl_uint n = 0;
    cl_int status = cl.clGetPlatformIDs(0, NULL, &n);
    if (status == CL_PLATFORM_NOT_FOUND_KHR || n == 0)
        return device_failed(GA_NODEV_ERROR,
                             "OpenCL has no platform: no driver is installed; pip install 'theano_ng[opencl]' installs "
                             "one for processors");
    CHECK(d, status, "clGetPlatformIDs");
    if (platform >= n)
        return device_failed(GA_NODEV_ERROR, "OpenCL has %u platform(s), but no platform number %u", n, platform);
    cl_platform_id platforms[64];
    CHECK(d, cl.clGetPlatformIDs(n < 64 ? n : 64, platforms, NULL), "clGetPlatformIDs");
    d->platform = platforms[platform < 64 ? platform : 0];
    cl_device_id devices[64];
    cl_uint n_devices = 0;
    status = cl.clGetDeviceIDs(d->platform, CL_DEVICE_TYPE_ALL, 64, devices, &n_devices);
    if (status != CL_SUCCESS || number >= n_devices)
        return device_failed(GA_NODEV_ERROR, "platform %u of OpenCL has %u device(s), but no device number %u",
                             platform, n_devices, number);
    d->id = devices[number];
    return GA_NO_ERROR;
}

#if defined(__x86_64__) && defined(__linux__)
#include <sys/uio.h>
#include <unistd.h>

/* Read memory that may be unmapped. Return true if the memory is readable. */
static int readable(const void *from, void *to, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)from, size};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

/* PoCL compiles for the processor that its LLVM recognizes. If LLVM does not know a newer processor, PoCL uses the name
 * "generic", which its clang rejects, so that no kernel could be built. For such a device, write the name of a
 * processor with the same features into PoCL's own record of the device. (PoCL's wheels have LLVM 14, of 2022.) */
static void opencl_name_processor(opencl_device *d)
{
    char version[256] = "", word[8];
    const char *known = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") ? "skylake-avx512"
                        : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")        ? "haswell"
                                                                                                 : "x86-64";
    if (cl.clGetDeviceInfo(d->id, CL_DEVICE_VERSION, sizeof version - 1, version, NULL) != CL_SUCCESS
        || strstr(version, " PoCL ") == NULL || strstr(version, "-generic") == NULL)
        return;
    const char **record = (const char **)d->id;
    for (size_t i = 0; i < 512; ++i) {
        const char *text;
        if (!readable(&record[i], &text, sizeof text))
            return;
        if (readable(text, word, sizeof word) && memcmp(word, "generic", sizeof word) == 0)
            d->processor = record[i] = known;
    }
}
#else
static void opencl_name_processor(opencl_device *d)
{
    (void)d;
}
#endif

/* Query an integer property (4 or 8 bytes) of the device; return 0 if the query fails. */
static uint64_t opencl_number(opencl_device *d, cl_uint what)
{
    union {
        uint32_t four;
        uint64_t eight;
    } value = {0};
    size_t size = 0;
    if (cl.clGetDeviceInfo(d->id, what, sizeof value, &value, &size) != CL_SUCCESS)
        return 0;
    return size == 4 ? value.four : value.eight;
}

/* Return true if the device is a CPU, which has few fast threads. (Oclgrind, which checks kernels, claims to have every
 * device type; treat it as a GPU.) */
static int opencl_on_processor(opencl_device *d)
{
    uint64_t type = opencl_number(d, CL_DEVICE_TYPE);
    return type & CL_DEVICE_TYPE_CPU && !(type & CL_DEVICE_TYPE_GPU);
}

static int as_gpus = 0; /* see device_opencl_as_gpus */

void device_opencl_as_gpus(int on)
{
    as_gpus = on;
}

static int opencl_open(const char *name, int flags, device **opened)
{
    (void)flags;
    opencl_device *d = calloc(1, sizeof *d);
    *opened = &d->base;
    if (d == NULL)
        return GA_MEMORY_ERROR;
    d->base.table = &device_opencl;
    int code = opencl_find(d, name);
    if (code != GA_NO_ERROR)
        return code;
    opencl_name_processor(d);
    d->as_processor = opencl_on_processor(d) && !as_gpus;
    d->takes_turns = opencl_on_processor(d) && pthread_mutex_init(&d->turn, NULL) == 0;
    cl_int status;
    d->context = cl.clCreateContext(NULL, 1, &d->id, NULL, NULL, &status);
    if (d->context == NULL)
        return opencl_failed(d, status, "clCreateContext");
    d->queue = cl.clCreateCommandQueue(d->context, d->id, 0, &status);
    if (d->queue == NULL)
        return opencl_failed(d, status, "clCreateCommandQueue");
    return GA_NO_ERROR;
}

static int opencl_info(device *base, device_info *info)
{
    opencl_device *d = (opencl_device *)base;
    char version[128] = "", driver[128] = "", *extensions = NULL;
    size_t size = 0;
    memset(info, 0, sizeof *info);
    CHECK(d, cl.clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof info->name - 1, info->name, NULL), "clGetDeviceInfo");
    cl.clGetDeviceInfo(d->id, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
    cl.clGetDeviceInfo(d->id, CL_DRIVER_VERSION, sizeof driver - 1, driver, NULL);
    snprintf(info->id, sizeof info->id, "%u:%u", d->platform_number, d->number);
    snprintf(info->binaries, sizeof info->binaries, "opencl %.50s %.60s %.30s %s%s", info->name, version, driver,
             d->processor == NULL ? "" : d->processor, opencl_on_processor(d) && !d->as_processor ? " as GPU" : "");
    info->memory = info->free_memory = opencl_number(d, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->largest = opencl_number(d, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->alignment = opencl_number(d, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
    if (info->alignment < 256)
        info->alignment = 256;
    info->local_memory = opencl_number(d, CL_DEVICE_LOCAL_MEM_SIZE);
    info->max_group = opencl_number(d, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    for (int axis = 0; axis < 3; ++axis) {
        info->max_threads[axis] = info->max_group;
        info->max_groups[axis] = (size_t)INT32_MAX; /* OpenCL does not limit the number of groups */
    }
    cl.clGetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof info->max_threads, info->max_threads, NULL);
    info->arguments = opencl_number(d, CL_DEVICE_MAX_PARAMETER_SIZE);
    info->processors = (unsigned)opencl_number(d, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->on_host = opencl_on_processor(d) ? 1 : (int)opencl_number(d, CL_DEVICE_HOST_UNIFIED_MEMORY);
    info->warp = d->as_processor ? 1 : 32;
    info->vector_bytes = d->as_processor ? 4 * (unsigned)opencl_number(d, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT) : 0;
    if (cl.clGetDeviceInfo(d->id, CL_DEVICE_EXTENSIONS, 0, NULL, &size) == CL_SUCCESS
        && (extensions = calloc(1, size + 1)) != NULL
        && cl.clGetDeviceInfo(d->id, CL_DEVICE_EXTENSIONS, size, extensions, NULL) == CL_SUCCESS) {
        info->has_double = strstr(extensions, "cl_khr_fp64") != NULL;
        info->has_long_atomics = strstr(extensions, "cl_khr_int64_base_atomics") != NULL;
    }
    free(extensions);
    info->has_half = 1; /* kernels use only vload_half and vstore_half, which every device has */
    return GA_NO_ERROR;
}

/* ---- memory ---- */

static int opencl_alloc(device *base, device_memory parent, size_t offset, size_t size, device_memory *memory)
{
    opencl_device *d = (opencl_device *)base;
    cl_int status;
    cl_buffer_region region = {offset, size};
    cl_mem made =
        parent ? cl.clCreateSubBuffer((cl_mem)parent, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status)
               : cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, size, NULL, &status);
    *memory = (device_memory)(uintptr_t)made;
    return made == NULL ? opencl_failed(d, status, parent ? "clCreateSubBuffer" : "clCreateBuffer") : GA_NO_ERROR;
}

static void opencl_release(device *base, device_memory memory, int has_parent)
{
    (void)base, (void)has_parent;
    cl.clReleaseMemObject((cl_mem)(uintptr_t)memory);
}

static int opencl_write(device *base, device_memory to, size_t offset, const void *from, size_t size)
{
    opencl_device *d = (opencl_device *)base;
    IN_TURN(d, cl.clEnqueueWriteBuffer(d->queue, (cl_mem)(uintptr_t)to, 1, offset, size, from, 0, NULL, NULL),
            "clEnqueueWriteBuffer");
    return GA_NO_ERROR;
}

static int opencl_read(device *base, void *to, device_memory from, size_t offset, size_t size)
{
    opencl_device *d = (opencl_device *)base;
    IN_TURN(d, cl.clEnqueueReadBuffer(d->queue, (cl_mem)(uintptr_t)from, 1, offset, size, to, 0, NULL, NULL),
            "clEnqueueReadBuffer");
    return GA_NO_ERROR;
}

static int opencl_copy(device *base, device_memory to, size_t to_offset, device_memory from, size_t from_offset,
                       size_t size)
{
    opencl_device *d = (opencl_device *)base;
    IN_TURN(d,
            cl.clEnqueueCopyBuffer(d->queue, (cl_mem)(uintptr_t)from, (cl_mem)(uintptr_t)to, from_offset, to_offset,
                                   size, 0, NULL, NULL),
            "clEnqueueCopyBuffer");
    return GA_NO_ERROR;
}

static int opencl_fill(device *base, device_memory memory, size_t offset, size_t size, uint8_t byte)
{
    opencl_device *d = (opencl_device *)base;
    IN_TURN(d, cl.clEnqueueFillBuffer(d->queue, (cl_mem)(uintptr_t)memory, &byte, 1, offset, size, 0, NULL, NULL),
            "clEnqueueFillBuffer");
    return GA_NO_ERROR;
}

/* OpenCL 1.2 has no host memory that kernels can access while the host accesses it. */
static int opencl_host_alloc(device *base, size_t size, void **memory)
{
    (void)base, (void)size;
    *memory = NULL;
    return device_failed(GA_UNSUPPORTED_ERROR, "OpenCL has no memory that the host and the device share");
}

static void opencl_host_free(device *base, void *memory)
{
    (void)base, (void)memory;
}

/* ---- programs ---- */

/* Append a value to an array of the device. The capacity of the array doubles when it is exhausted. */
static int opencl_keep(void ***array, unsigned *n, void *value)
{
    if ((*n & (*n - 1)) == 0) {
        void **grown = realloc(*array, (*n ? 2 * *n : 1) * sizeof *grown);
        if (grown == NULL)
            return GA_MEMORY_ERROR;
        *array = grown;
    }
    (*array)[(*n)++] = value;
    return GA_NO_ERROR;
}

static char *opencl_log(opencl_device *d, cl_program program)
{
    size_t size = 0;
    if (cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS || size <= 1)
        return NULL;
    char *log = calloc(1, size + 1);
    if (log != NULL)
        cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    return log;
}

/* Return a copy of the source without the lines that include "cluda.h": the prefix has been prepended, and the
 * compiler finds no such file. The lines become blank, so that line numbers stay. */
static char *without_cluda(const char *text)
{
    char *copy = strdup(text);
    for (char *line = copy; line != NULL && *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        char *c = line + strspn(line, " \t");
        if (*c++ != '#')
            continue;
        c += strspn(c, " \t");
        if (strncmp(c, "include", 7) != 0)
            continue;
        c += 7 + strspn(c + 7, " \t");
        if (strncmp(c, "\"cluda.h\"", 9) == 0 || strncmp(c, "<cluda.h>", 9) == 0)
            memset(line, ' ', (size_t)(c + 9 - line));
    }
    return copy;
}

static int opencl_build(device *base, const char *text, int flags, const char *options, const void *binary,
                        size_t binary_size, device_program *made)
{
    opencl_device *d = (opencl_device *)base;
    cl_int status, accepted = CL_SUCCESS;
    cl_program program;
    memset(made, 0, sizeof *made);
    if (flags & GA_USE_CUDA)
        return device_failed(GA_UNSUPPORTED_ERROR,
                             "the kernel is a CUDA kernel (by its flags), but the device is an OpenCL device");
    if (binary != NULL) {
        const unsigned char *bytes = binary;
        program = cl.clCreateProgramWithBinary(d->context, 1, &d->id, &binary_size, &bytes, &accepted, &status);
        if (program == NULL || status != CL_SUCCESS || accepted != CL_SUCCESS
            || cl.clBuildProgram(program, 1, &d->id, options, NULL, NULL) != CL_SUCCESS) {
            if (program != NULL)
                cl.clReleaseProgram(program);
            return device_failed(GA_INVALID_ERROR, "the binary of a program is for another device");
        }
    }
    else {
        char *own = flags & GA_USE_OPENCL ? NULL : without_cluda(text);
        /* For CPUs, define GA_PROCESSOR: kernels then loop over adjacent elements, and the compiler vectorizes these
         * loops. */
        const char *kind = d->as_processor ? "#define GA_PROCESSOR 1\n#line 1\n" : "";
        const char *texts[3] = {own != NULL ? kind : "", own != NULL ? device_dialect("opencl") : "",
                                own != NULL ? own : text};
        program = cl.clCreateProgramWithSource(d->context, 3, texts, NULL, &status);
        free(own);
        if (program == NULL)
            return opencl_failed(d, status, "clCreateProgramWithSource");
        void *given = release_outer_lock();
        status = cl.clBuildProgram(program, 1, &d->id, options, NULL, NULL);
        /* PoCL compiles the code for groups of threads when it is asked for the binary. */
        if (status == CL_SUCCESS
            && cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof made->binary_size, &made->binary_size, NULL)
                   == CL_SUCCESS
            && made->binary_size > 0 && (made->binary = malloc(made->binary_size)) != NULL)
            cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof made->binary, &made->binary, NULL);
        acquire_outer_lock(given);
        made->log = opencl_log(d, program);
        if (status != CL_SUCCESS) {
            cl.clReleaseProgram(program);
            return opencl_failed(d, status, "clBuildProgram");
        }
    }
    made->handle = program;
    return opencl_keep((void ***)&d->built, &d->programs, program);
}

static int opencl_kernel(device *base, void *program, const char *name, device_kernel *kernel)
{
    opencl_device *d = (opencl_device *)base;
    cl_int status;
    cl_kernel made = cl.clCreateKernel(program, name, &status);
    if (made == NULL)
        return status == CL_INVALID_KERNEL_NAME ? device_failed(GA_VALUE_ERROR, "the program has no kernel '%s'", name)
                                                : opencl_failed(d, status, "clCreateKernel");
    kernel->handle = made;
    kernel->max_group = kernel->preferred = 1;
    cl.clGetKernelWorkGroupInfo(made, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof kernel->max_group, &kernel->max_group,
                                NULL);
    cl.clGetKernelWorkGroupInfo(made, d->id, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof kernel->preferred,
                                &kernel->preferred, NULL);
    if (opencl_on_processor(d) && !d->as_processor)
        kernel->preferred = 32;
    return opencl_keep((void ***)&d->kernels, &d->n_kernels, made);
}

static cl_int opencl_start(opencl_device *d, cl_kernel kernel, unsigned ndim, const size_t *threads,
                           const size_t *group, size_t local_memory, unsigned count, void *const *values,
                           const size_t *sizes, const char **what)
{
    cl_int status = CL_SUCCESS;
    *what = "clSetKernelArg";
    for (unsigned i = 0; i < count && status == CL_SUCCESS; ++i)
        status = cl.clSetKernelArg(kernel, i, sizes[i], values[i]);
    if (local_memory > 0 && status == CL_SUCCESS) /* the last parameter is the local memory, see GA_DECL_SHARED_PARAM */
        status = cl.clSetKernelArg(kernel, count, local_memory, NULL);
    if (status != CL_SUCCESS)
        return status;
    *what = "clEnqueueNDRangeKernel";
    return cl.clEnqueueNDRangeKernel(d->queue, kernel, ndim, NULL, threads, group, 0, NULL, NULL);
}

static int opencl_launch(device *base, void *kernel, unsigned ndim, const size_t *groups, const size_t *group,
                         size_t local_memory, unsigned count, void *const *values, const size_t *sizes)
{
    opencl_device *d = (opencl_device *)base;
    size_t threads[3];
    const char *what;
    for (unsigned i = 0; i < ndim; ++i)
        threads[i] = groups[i] * group[i];
    IN_TURN(d, opencl_start(d, kernel, ndim, threads, group, local_memory, count, values, sizes, &what), what);
    return GA_NO_ERROR;
}

/* ---- order ---- */

/* Let the later work of `waiting` run after the work that is in the queue of `first` now. If both devices have the same
 * OpenCL context, the queue of `waiting` waits. Otherwise the calling thread waits. */
static cl_int opencl_order(opencl_device *first, opencl_device *waiting)
{
    cl_event event;
    cl_int status = cl.clEnqueueMarkerWithWaitList(first->queue, 0, NULL, &event);
    if (status != CL_SUCCESS)
        return status;
    status = first->context == waiting->context ? cl.clEnqueueBarrierWithWaitList(waiting->queue, 1, &event, NULL)
                                                : cl.clWaitForEvents(1, &event);
    cl.clReleaseEvent(event);
    return status;
}

static int opencl_fence(device *base, device *waiting_base)
{
    opencl_device *first = (opencl_device *)base, *waiting = (opencl_device *)waiting_base;
    opencl_begin(first);
    cl_int status = opencl_order(first, waiting);
    opencl_end(first);
    CHECK(waiting, status, "waiting for another device");
    return GA_NO_ERROR;
}

static int opencl_sync(device *base)
{
    opencl_device *d = (opencl_device *)base;
    IN_TURN(d, cl.clFinish(d->queue), "clFinish");
    return GA_NO_ERROR;
}

static int opencl_graph(device *base, enum device_graph_step step, void **graph)
{
    (void)step, (void)graph;
    return device_failed(GA_UNSUPPORTED_ERROR, "OpenCL does not support graphs of launches");
}

const device_table device_opencl = {
    "opencl",          opencl_open,      opencl_close, opencl_info,   opencl_alloc,
    opencl_release,    opencl_write,     opencl_read,  opencl_copy,   opencl_fill,
    opencl_host_alloc, opencl_host_free, opencl_build, opencl_kernel, opencl_launch,
    opencl_fence,      opencl_sync,      opencl_graph, NULL,
};
