/* CUDA programs, kernels and launches. NVRTC compiles source to the device's machine code (cubins, which do not depend
 * on the driver). NVRTC is loaded when the first source is compiled: if all binaries are in the cache, NVRTC is not
 * needed. */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 64
#define LOCAL_MEMORY (48u << 10) /* bytes of local memory that a group can use by default */

static struct {
#define X(name, arguments) nvrtcResult(*name) arguments;
    NVRTC_FUNCTIONS(X)
#undef X
} nvrtc;

static int nvrtc_major, nvrtc_minor;

struct cuda_program {
    struct cuda_program *next;
    CUmodule module;
};

struct cuda_kernel {
    struct cuda_kernel *next;
    CUfunction function;
    size_t local_memory; /* bytes of dynamic local memory that a launch may use without a call of cuFuncSetAttribute */
    char name[];
};

/* ---- the compiler ---- */

static int load_compiler(device *d)
{
    static void *library;
    if (library)
        return GA_NO_ERROR;
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    const char *path = device_library("nvrtc");
    void *loaded = device_load_library("nvrtc", names);
    if (!loaded)
        return device_failed(GA_LOAD_ERROR, "CUDA's compiler NVRTC cannot be loaded (%s); " CUDA_ADVICE, dlerror());
#define X(name, arguments)                                                               \
    if (!(*(void **)&nvrtc.name = dlsym(loaded, #name))) {                               \
        dlclose(loaded);                                                                 \
        return device_failed(GA_LOAD_ERROR,                                              \
                             "CUDA's compiler %s has no function " #name                 \
                             ": CUDA 11.2 is the oldest that can be used; " CUDA_ADVICE, \
                             path ? path : "libnvrtc");                                  \
    }
    NVRTC_FUNCTIONS(X)
#undef X
    nvrtc.nvrtcVersion(&nvrtc_major, &nvrtc_minor);
    library = loaded;
    return GA_NO_ERROR;
}

/* Describe the compiler by the name and size of its file, because loading the compiler takes a tenth of a second. */
void cuda_compiler_name(char *text, size_t size)
{
    const char *path = device_library("nvrtc"), *name = path ? strrchr(path, '/') : NULL;
    FILE *file = path ? fopen(path, "rb") : NULL;
    long long bytes = file && fseek(file, 0, SEEK_END) == 0 ? (long long)ftell(file) : 0;
    if (file)
        fclose(file);
    snprintf(text, size, "%.60s %lld", name ? name + 1 : path ? path : "libnvrtc", bytes);
}

/* Write the architecture option. If the compiler knows the device's architecture, the option names it, for example as
 * "sm_90". For other devices, the option is "compute_" with the newest known architecture that is not newer than the
 * device. Then the compiler makes PTX, which the driver translates. */
static int architecture(cuda_device *d, char *text, size_t size, int *is_virtual)
{
    int count = 0, known[128], newest = 0, oldest = 0, exact = 0;
    if (nvrtc.nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count > (int)(sizeof known / sizeof *known)
        || nvrtc.nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS)
        return device_failed(GA_IMPL_ERROR, "CUDA's compiler does not report its compute capabilities");
    for (int i = 0; i < count; ++i) {
        exact |= known[i] == d->capability;
        if (known[i] <= d->capability && known[i] > newest)
            newest = known[i];
        if (!oldest || known[i] < oldest)
            oldest = known[i];
    }
    if (!newest)
        return device_failed(GA_UNSUPPORTED_ERROR,
                             "the device is of compute capability %d.%d, and NVRTC %d.%d compiles for %d.%d and newer; "
                             "an older one is needed: " CUDA_ADVICE,
                             d->capability / 10, d->capability % 10, nvrtc_major, nvrtc_minor, oldest / 10,
                             oldest % 10);
    *is_virtual = !exact;
    snprintf(text, size, "--gpu-architecture=%s_%d", exact ? "sm" : "compute", exact ? d->capability : newest);
    return GA_NO_ERROR;
}

/* Append the words of `options`, which is split in place, to `words`. Two options of OpenCL compilers are translated
 * to NVRTC's names. */
static int split_options(cuda_device *d, char *options, const char **words, int *count)
{
    char *rest = NULL;
    for (char *word = options ? strtok_r(options, " \t\n", &rest) : NULL; word; word = strtok_r(NULL, " \t\n", &rest)) {
        if (*count == MAX_OPTIONS)
            return device_failed(GA_VALUE_ERROR, "more than %d options for the compiler", MAX_OPTIONS - 1);
        words[(*count)++] = strcmp(word, "-g") == 0                      ? "--generate-line-info"
                            : strcmp(word, "-cl-fast-relaxed-math") == 0 ? "--use_fast_math"
                                                                         : word;
    }
    return GA_NO_ERROR;
}

static char *compiler_log(nvrtcProgram program)
{
    size_t size = 0;
    if (nvrtc.nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size <= 1)
        return NULL;
    char *log = malloc(size);
    if (log && nvrtc.nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS) {
        free(log);
        log = NULL;
    }
    return log;
}

static int take_binary(cuda_device *d, nvrtcProgram program, int is_virtual, device_program *made)
{
    nvrtcResult status = is_virtual ? nvrtc.nvrtcGetPTXSize(program, &made->binary_size)
                                    : nvrtc.nvrtcGetCUBINSize(program, &made->binary_size);
    if (status == NVRTC_SUCCESS && !(made->binary = malloc(made->binary_size)))
        return device_failed(GA_MEMORY_ERROR, "out of host memory for a program");
    if (status == NVRTC_SUCCESS)
        status = is_virtual ? nvrtc.nvrtcGetPTX(program, made->binary) : nvrtc.nvrtcGetCUBIN(program, made->binary);
    return status == NVRTC_SUCCESS
               ? GA_NO_ERROR
               : device_failed(GA_IMPL_ERROR, "NVRTC compiled a program but does not return it (error %d)", status);
}

static int compile_text(cuda_device *d, const char *text, const char *const *words, int count, int is_virtual,
                        device_program *made)
{
    const char *header = device_dialect("cuda"), *header_name = "cluda.h";
    nvrtcProgram program = NULL;
    nvrtcResult status = nvrtc.nvrtcCreateProgram(&program, text, "kernels", 1, &header, &header_name);
    if (status != NVRTC_SUCCESS)
        return device_failed(GA_IMPL_ERROR, "nvrtcCreateProgram failed (error %d)", status);
    void *given = release_outer_lock();
    status = nvrtc.nvrtcCompileProgram(program, count, words);
    acquire_outer_lock(given);
    made->log = compiler_log(program);
    int code = GA_NO_ERROR;
    if (status != NVRTC_SUCCESS)
        code = device_failed(GA_IMPL_ERROR, "a program does not compile (NVRTC %d.%d for %s, error %d)", nvrtc_major,
                             nvrtc_minor, strchr(words[0], '=') + 1, status);
    else
        code = take_binary(d, program, is_virtual, made);
    nvrtc.nvrtcDestroyProgram(&program);
    return code;
}

static int compile(cuda_device *d, const char *text, int flags, const char *options, device_program *made)
{
    char target[64], *whole = NULL, *copy = NULL;
    const char *words[MAX_OPTIONS] = {target};
    int count = 1, is_virtual = 0;
    int code = load_compiler(&d->base);
    if (code == GA_NO_ERROR)
        code = architecture(d, target, sizeof target, &is_virtual);
    if (code != GA_NO_ERROR)
        return code;
    const char *front = flags & GA_USE_CUDA ? "" : device_dialect("cuda");
    whole = malloc(strlen(front) + strlen(text) + 1);
    copy = options ? strdup(options) : NULL;
    if (!whole || (options && !copy))
        code = device_failed(GA_MEMORY_ERROR, "out of host memory for the source of a program");
    if (code == GA_NO_ERROR) {
        strcpy(stpcpy(whole, front), text);
        code = split_options(d, copy, words, &count);
    }
    if (code == GA_NO_ERROR)
        code = compile_text(d, whole, words, count, is_virtual, made);
    free(copy);
    free(whole);
    return code;
}

/* ---- programs ---- */

/* Check that a binary is complete, because the driver's function that loads a binary does not take its length. All
 * sections of a cubin (an ELF file) must be inside the binary. PTX text must be null-terminated. */
static int is_whole(const void *binary, size_t size)
{
    const unsigned char *bytes = binary;
    if (size < 64 || memcmp(bytes, "\177ELF\2\1", 6) != 0)
        return size > 1 && bytes[size - 1] == '\0' && (bytes[0] == '/' || bytes[0] == '.' || bytes[0] == '\n');
    uint64_t sections;
    uint16_t each, count;
    memcpy(&sections, bytes + 40, sizeof sections);
    memcpy(&each, bytes + 58, sizeof each);
    memcpy(&count, bytes + 60, sizeof count);
    if (each < 64 || sections > size || (uint64_t)each * count > size - sections)
        return 0;
    for (unsigned i = 0; i < count; ++i) {
        const unsigned char *section = bytes + sections + (uint64_t)i * each;
        uint32_t kind;
        uint64_t offset, length;
        memcpy(&kind, section + 4, sizeof kind);
        memcpy(&offset, section + 24, sizeof offset);
        memcpy(&length, section + 32, sizeof length);
        /* sections of type 8 (SHT_NOBITS) occupy no space in the file */
        if (kind != 8 && (offset > size || length > size - offset))
            return 0;
    }
    return 1;
}

static int load_module(cuda_device *d, const void *binary, size_t size, int fresh, device_program *made)
{
    char log[1024] = "";
    int keys[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    if (!is_whole(binary, size))
        return device_failed(GA_INVALID_ERROR, "the binary of a program is for another device, or incomplete");
    struct cuda_program *program = malloc(sizeof *program);
    if (!program)
        return device_failed(GA_MEMORY_ERROR, "out of host memory for a program");
    CUresult status = cuda.cuModuleLoadDataEx(&program->module, binary, 2, keys, values);
    if (status != CUDA_SUCCESS) {
        free(program);
        int code = cuda_failed(d, status, "cuModuleLoadDataEx");
        if (status == CUDA_ERROR_INVALID_IMAGE || status == CUDA_ERROR_NO_BINARY_FOR_GPU
            || status == CUDA_ERROR_INVALID_PTX || status == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
            code =
                device_failed(fresh ? GA_IMPL_ERROR : GA_INVALID_ERROR, "the driver does not accept a program%s%s%s",
                              fresh ? ": it may be older than the compiler; " CUDA_ADVICE : " that was compiled before",
                              *log ? ": " : "", log);
        return code;
    }
    program->next = d->programs;
    d->programs = program;
    made->handle = program;
    return GA_NO_ERROR;
}

int cuda_build(device *base, const char *text, int flags, const char *options, const void *binary, size_t binary_size,
               device_program *made)
{
    cuda_device *d = (cuda_device *)base;
    memset(made, 0, sizeof *made);
    if (flags & GA_USE_OPENCL)
        return device_failed(GA_UNSUPPORTED_ERROR,
                             "the kernel is an OpenCL kernel (by its flags), but the device is a CUDA device");
    CUDA_ENTER(d);
    int fresh = binary == NULL, code = GA_NO_ERROR;
    if (fresh) {
        code = compile(d, text, flags, options, made);
        binary = made->binary;
        binary_size = made->binary_size;
    }
    if (code == GA_NO_ERROR)
        code = load_module(d, binary, binary_size, fresh, made);
    if (code != GA_NO_ERROR) {
        free(made->binary);
        made->binary = NULL;
        made->binary_size = 0;
    }
    return code;
}

int cuda_kernel(device *base, void *program, const char *name, device_kernel *kernel)
{
    cuda_device *d = (cuda_device *)base;
    int threads = 0, fixed = 0;
    CUDA_ENTER(d);
    struct cuda_kernel *made = malloc(sizeof *made + strlen(name) + 1);
    if (!made)
        return device_failed(GA_MEMORY_ERROR, "out of host memory for a kernel");
    strcpy(made->name, name);
    CUresult status = cuda.cuModuleGetFunction(&made->function, ((struct cuda_program *)program)->module, name);
    if (status == CUDA_SUCCESS)
        status = cuda.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, made->function);
    if (status == CUDA_SUCCESS)
        status = cuda.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, made->function);
    if (status != CUDA_SUCCESS) {
        free(made);
        return status == CUDA_ERROR_NOT_FOUND ? device_failed(GA_VALUE_ERROR, "the program has no kernel '%s'", name)
                                              : cuda_failed(d, status, "cuModuleGetFunction");
    }
    made->local_memory = (unsigned)fixed < LOCAL_MEMORY ? LOCAL_MEMORY - (unsigned)fixed : 0;
    made->next = d->kernels;
    d->kernels = made;
    kernel->handle = made;
    kernel->max_group = (size_t)threads;
    kernel->preferred = 32;
    return GA_NO_ERROR;
}

/* Free all programs and kernels of a device that is being closed. An open device keeps all of them. */
void cuda_forget_programs(cuda_device *d)
{
    while (d->kernels) {
        struct cuda_kernel *next = d->kernels->next;
        free(d->kernels);
        d->kernels = next;
    }
    while (d->programs) {
        struct cuda_program *next = d->programs->next;
        if (!d->lost)
            cuda.cuModuleUnload(d->programs->module);
        free(d->programs);
        d->programs = next;
    }
}

/* ---- launches ---- */

static int launch_failed(cuda_device *d, CUresult status, const struct cuda_kernel *kernel, const unsigned *groups,
                         const unsigned *group, size_t local_memory)
{
    char what[512];
    snprintf(what, sizeof what,
             "launching %.200s with %u x %u x %u groups of %u x %u x %u threads and %zu bytes of local memory each",
             kernel->name, groups[0], groups[1], groups[2], group[0], group[1], group[2], local_memory);
    int code = cuda_failed(d, status, what);
    return status == CUDA_ERROR_INVALID_VALUE || status == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ? GA_VALUE_ERROR : code;
}

/* The size of a launch, as the driver takes it */
struct launch_size {
    unsigned groups[3], group[3];
};

/* Convert the size of a launch, and check it. Let the kernel use as much local memory as the launch needs. */
static int prepare_launch(cuda_device *d, struct cuda_kernel *kernel, unsigned ndim, const size_t *groups,
                          const size_t *group, size_t local_memory, struct launch_size *size)
{
    *size = (struct launch_size){{1, 1, 1}, {1, 1, 1}};
    for (unsigned i = 0; i < ndim; ++i) {
        if (__builtin_expect(groups[i] > UINT32_MAX || group[i] > UINT32_MAX, 0))
            return device_failed(
                GA_VALUE_ERROR,
                "the launch of %s has %zu groups of %zu threads, which exceeds the limits of the device", kernel->name,
                groups[i], group[i]);
        size->groups[i] = (unsigned)groups[i];
        size->group[i] = (unsigned)group[i];
    }
    if (__builtin_expect(local_memory > kernel->local_memory, 0)) {
        CUresult status =
            local_memory <= INT32_MAX
                ? cuda.cuFuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          (int)local_memory)
                : CUDA_ERROR_INVALID_VALUE;
        if (status != CUDA_SUCCESS)
            return launch_failed(d, status, kernel, size->groups, size->group, local_memory);
        kernel->local_memory = local_memory;
    }
    return GA_NO_ERROR;
}

/* Remember the node of the launch that was recorded last. If a node is not found, `count` differs from `launched`, and no
 * launch of the graph can be replaced. */
static void note_launch(cuda_device *d, struct cuda_graph *graph)
{
    const CUgraphNode *last = NULL;
    int status = 0;
    size_t count = 0;
    ++graph->launched;
    if (graph->count == graph->room) {
        unsigned room = 2 * graph->room + 16;
        CUgraphNode *more = realloc(graph->launches, room * sizeof *more);
        if (!more)
            return;
        graph->launches = more;
        graph->room = room;
    }
    if (cuda.cuStreamGetCaptureInfo_v2(d->recorder, &status, NULL, NULL, &last, &count) == CUDA_SUCCESS && count == 1)
        graph->launches[graph->count++] = last[0];
}

int cuda_launch(device *base, void *handle, unsigned ndim, const size_t *groups, const size_t *group,
                size_t local_memory, unsigned count, void *const *values, const size_t *sizes)
{
    cuda_device *d = (cuda_device *)base;
    struct cuda_kernel *kernel = handle;
    struct launch_size size;
    (void)count, (void)sizes; /* unused: the binary tells the driver the number and sizes of the arguments */
    CUDA_ENTER(d);
    int code = prepare_launch(d, kernel, ndim, groups, group, local_memory, &size);
    if (code != GA_NO_ERROR)
        return code;
    const unsigned *g = size.groups, *t = size.group;
    CUresult status = cuda.cuLaunchKernel(kernel->function, g[0], g[1], g[2], t[0], t[1], t[2], (unsigned)local_memory,
                                          cuda_stream(d), (void **)values, NULL);
    if (__builtin_expect(status != CUDA_SUCCESS, 0))
        return launch_failed(d, status, kernel, g, t, local_memory);
    if (cuda_is_recording(d))
        note_launch(d, d->recording);
    return GA_NO_ERROR;
}

int cuda_replace(device *base, void *recorded, unsigned number, void *handle, unsigned ndim, const size_t *groups,
                 const size_t *group, size_t local_memory, unsigned count, void *const *values, const size_t *sizes)
{
    cuda_device *d = (cuda_device *)base;
    struct cuda_graph *graph = recorded;
    struct cuda_kernel *kernel = handle;
    struct launch_size size;
    (void)count, (void)sizes;
    if (number >= graph->count || graph->count != graph->launched)
        return device_failed(GA_UNSUPPORTED_ERROR, "launch %u of the graph cannot be replaced", number);
    CUDA_ENTER(d);
    int code = prepare_launch(d, kernel, ndim, groups, group, local_memory, &size);
    if (code != GA_NO_ERROR)
        return code;
    CUDA_KERNEL_NODE_PARAMS_v1 params = {
        .func = kernel->function,
        .gridDimX = size.groups[0],
        .gridDimY = size.groups[1],
        .gridDimZ = size.groups[2],
        .blockDimX = size.group[0],
        .blockDimY = size.group[1],
        .blockDimZ = size.group[2],
        .sharedMemBytes = (unsigned)local_memory,
        .kernelParams = (void **)values,
    };
    CUDA_CHECK(d, cuda.cuGraphExecKernelNodeSetParams(graph->executable, graph->launches[number], &params),
               "cuGraphExecKernelNodeSetParams");
    return GA_NO_ERROR;
}
