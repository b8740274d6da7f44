/* A stub device for tests: its memory is host memory. It accepts builds and launches of kernels, but runs no kernel. It
 * counts all calls (stub.h). Calls that a test selects fail. So contexts, the pool, transfers and launches can be
 * tested without a device. */
#include "stub.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY ((uint64_t)1 << 30)
#define ALIGNMENT 256

static const char MAGIC[] = "stub program\n";
static const char *const call_names[STUB_CALLS] = {"open",   "close",  "alloc", "block", "release",
                                                   "write",  "read",   "copy",  "fill",  "build",
                                                   "kernel", "launch", "fence", "sync",  "graph"};

static struct {
    stub_state state;
    char *text;
    size_t length, room;
    char **programs;
    unsigned n_programs;
} stubs[STUB_DEVICES] = {
    [0 ... STUB_DEVICES - 1] = {.state = {.capacity = CAPACITY, .failing_call = -1, .failing_code = GA_IMPL_ERROR}}};

/* The header in front of each allocation. */
struct stub_piece {
    size_t size;
};

struct stub_kernel {
    struct stub_kernel *next;
    char name[];
};

struct stub_program {
    struct stub_program *next;
    char text[];
};

typedef struct stub_device {
    device base;
    unsigned number;
    void *recording; /* the graph that is being recorded */
    struct stub_program *programs;
    struct stub_kernel *kernels;
} stub_device;

stub_state *stub_of(unsigned number)
{
    return number < STUB_DEVICES ? &stubs[number].state : NULL;
}

void stub_reset(unsigned number)
{
    stub_state *state = stub_of(number);
    if (!state)
        return;
    uint64_t held = state->held, allocated = state->allocated;
    *state = (stub_state){.held = held,
                          .held_most = held,
                          .allocated = allocated,
                          .capacity = CAPACITY,
                          .failing_call = -1,
                          .failing_code = GA_IMPL_ERROR};
    stubs[number].length = 0;
    while (stubs[number].n_programs)
        free(stubs[number].programs[--stubs[number].n_programs]);
}

const char *stub_program(unsigned number, unsigned i)
{
    return number < STUB_DEVICES && i < stubs[number].n_programs ? stubs[number].programs[i] : NULL;
}

const char *stub_text(unsigned number)
{
    return number < STUB_DEVICES && stubs[number].length ? stubs[number].text : "";
}

static stub_state *state_of(device *base)
{
    return &stubs[((stub_device *)base)->number].state;
}

static void note(unsigned number, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(unsigned number, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof line)
        length = sizeof line - 1;
    if (stubs[number].length + (size_t)length + 2 > stubs[number].room) {
        size_t room = 2 * stubs[number].room + sizeof line + 2;
        char *text = realloc(stubs[number].text, room);
        if (!text)
            return;
        stubs[number].text = text;
        stubs[number].room = room;
    }
    char *end = stubs[number].text + stubs[number].length;
    memcpy(end, line, (size_t)length);
    memcpy(end + length, "\n", 2);
    stubs[number].length += (size_t)length + 1;
}

/* Record the text of a program. */
static void note_program(unsigned number, const char *text)
{
    unsigned n = stubs[number].n_programs;
    char *copy = strdup(text), **programs = realloc(stubs[number].programs, (n + 1) * sizeof *programs);
    if (programs)
        stubs[number].programs = programs;
    if (!copy || !programs) {
        free(copy);
        return;
    }
    programs[n] = copy;
    stubs[number].n_programs = n + 1;
}

#define NOTE(base, ...)                                         \
    do {                                                        \
        if (__builtin_expect(state_of(base)->recording, 0))     \
            note(((stub_device *)(base))->number, __VA_ARGS__); \
    } while (0)

/* Count a call; fail if it is the call that a test has selected. */
static int counted(device *base, enum stub_call call)
{
    stub_state *state = state_of(base);
    ++state->calls[call];
    if (__builtin_expect(state->fails_in > 0, 0) && (state->failing_call < 0 || state->failing_call == (int)call)
        && --state->fails_in == 0)
        return device_failed(state->failing_code, "%s failed, as it was told to", call_names[call]);
    return GA_NO_ERROR;
}

#define COUNTED(base, call)              \
    do {                                 \
        int code_ = counted(base, call); \
        if (code_ != GA_NO_ERROR)        \
            return code_;                \
    } while (0)

/* ---- devices ---- */

static int stub_open(const char *name, int flags, device **opened)
{
    (void)flags;
    stub_device *stub = calloc(1, sizeof *stub);
    *opened = &stub->base;
    if (!stub)
        return GA_MEMORY_ERROR;
    stub->base.table = &device_stub;
    char *end;
    unsigned long number = strncmp(name, "stub", 4) == 0 ? strtoul(name + 4, &end, 10) : STUB_DEVICES;
    if (number >= STUB_DEVICES || *end)
        return device_failed(GA_NODEV_ERROR, "'%s' is none of the %d stub devices, stub0 to stub%d", name, STUB_DEVICES,
                             STUB_DEVICES - 1);
    stub->number = (unsigned)number;
    COUNTED(&stub->base, STUB_OPEN);
    return GA_NO_ERROR;
}

static void stub_close(device *base)
{
    stub_device *stub = (stub_device *)base;
    if (!stub)
        return;
    ++state_of(base)->calls[STUB_CLOSE];
    while (stub->programs) {
        struct stub_program *next = stub->programs->next;
        free(stub->programs);
        stub->programs = next;
    }
    while (stub->kernels) {
        struct stub_kernel *next = stub->kernels->next;
        free(stub->kernels);
        stub->kernels = next;
    }
    free(stub);
}

static int stub_info(device *base, device_info *info)
{
    const stub_state *state = state_of(base);
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "stub");
    snprintf(info->id, sizeof info->id, "stub:%u", ((stub_device *)base)->number);
    snprintf(info->binaries, sizeof info->binaries, "stub 1");
    info->memory = info->largest = state->capacity;
    info->free_memory = state->capacity > state->held ? state->capacity - state->held : 0;
    info->alignment = ALIGNMENT;
    info->local_memory = 48 << 10;
    info->max_group = 1024;
    for (int axis = 0; axis < 3; ++axis) {
        info->max_threads[axis] = info->max_group;
        info->max_groups[axis] = INT32_MAX;
    }
    info->processors = 1;
    info->warp = 32;
    info->arguments = 1024;
    info->has_double = info->has_half = info->has_long_atomics = info->shares_addresses = 1;
    return GA_NO_ERROR;
}

/* ---- memory ---- */

static int stub_alloc(device *base, device_memory parent, size_t offset, size_t size, device_memory *memory)
{
    stub_state *state = state_of(base);
    *memory = 0;
    COUNTED(base, parent ? STUB_BLOCK : STUB_ALLOC);
    if (parent) {
        NOTE(base, "block %zu %zu", offset, size);
        if (offset % ALIGNMENT)
            return device_failed(GA_VALUE_ERROR, "a block of memory begins at byte %zu, which is no multiple of %d",
                                 offset, ALIGNMENT);
        *memory = parent + offset;
        ++state->allocated;
        return GA_NO_ERROR;
    }
    NOTE(base, "alloc %zu", size);
    if (size > state->capacity || state->held > state->capacity - size)
        return device_failed(GA_MEMORY_ERROR, "out of memory");
    char *piece = NULL;
    if (size < SIZE_MAX / 2)
        piece = aligned_alloc(ALIGNMENT, ALIGNMENT + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!piece)
        return device_failed(GA_MEMORY_ERROR, "the host is out of memory");
    ((struct stub_piece *)piece)->size = size;
    *memory = (device_memory)(uintptr_t)(piece + ALIGNMENT);
    ++state->allocated;
    state->held += size;
    if (state->held > state->held_most)
        state->held_most = state->held;
    return GA_NO_ERROR;
}

static void stub_release(device *base, device_memory memory, int has_parent)
{
    stub_state *state = state_of(base);
    ++state->calls[STUB_RELEASE];
    --state->allocated;
    NOTE(base, "release");
    if (has_parent)
        return;
    struct stub_piece *piece = (struct stub_piece *)(uintptr_t)(memory - ALIGNMENT);
    state->held -= piece->size;
    free(piece);
}

static char *at(device_memory memory, size_t offset)
{
    return (char *)(uintptr_t)memory + offset;
}

static int stub_write(device *base, device_memory to, size_t offset, const void *from, size_t size)
{
    COUNTED(base, STUB_WRITE);
    NOTE(base, "write %zu", size);
    state_of(base)->written += size;
    memcpy(at(to, offset), from, size);
    return GA_NO_ERROR;
}

static int stub_read(device *base, void *to, device_memory from, size_t offset, size_t size)
{
    COUNTED(base, STUB_READ);
    NOTE(base, "read %zu", size);
    state_of(base)->read += size;
    memcpy(to, at(from, offset), size);
    return GA_NO_ERROR;
}

static int stub_copy(device *base, device_memory to, size_t to_offset, device_memory from, size_t from_offset,
                     size_t size)
{
    COUNTED(base, STUB_COPY);
    NOTE(base, "copy %zu", size);
    memcpy(at(to, to_offset), at(from, from_offset), size);
    return GA_NO_ERROR;
}

static int stub_fill(device *base, device_memory memory, size_t offset, size_t size, uint8_t byte)
{
    COUNTED(base, STUB_FILL);
    NOTE(base, "fill %zu %u", size, byte);
    memset(at(memory, offset), byte, size);
    return GA_NO_ERROR;
}

static int stub_host_alloc(device *base, size_t size, void **memory)
{
    *memory = malloc(size);
    return *memory ? GA_NO_ERROR : device_failed(GA_MEMORY_ERROR, "the host is out of memory");
}

static void stub_host_free(device *base, void *memory)
{
    (void)base;
    free(memory);
}

/* ---- programs ---- */

/* Build a program. A text that contains "#error" does not compile. The binary is a magic string followed by the
 * text. */
static int stub_build(device *base, const char *text, int flags, const char *options, const void *binary,
                      size_t binary_size, device_program *made)
{
    stub_device *stub = (stub_device *)base;
    (void)flags, (void)options;
    memset(made, 0, sizeof *made);
    COUNTED(base, STUB_BUILD);
    NOTE(base, "build %s", binary ? "of a binary" : "of a text");
    if (!binary && state_of(base)->recording)
        note_program(stub->number, text);
    if (binary && (binary_size < sizeof MAGIC || memcmp(binary, MAGIC, sizeof MAGIC - 1) != 0))
        return device_failed(GA_INVALID_ERROR, "the binary of a program is for another device");
    if (!binary) {
        const char *wrong = strstr(text, "#error");
        if (wrong) {
            int line = 1;
            for (const char *c = text; c < wrong; ++c)
                line += *c == '\n';
            made->log = malloc(64);
            if (made->log)
                snprintf(made->log, 64, "kernels(%d): error: #error directive", line);
            return device_failed(GA_IMPL_ERROR, "the program does not compile");
        }
        made->binary_size = sizeof MAGIC - 1 + strlen(text) + 1;
        made->binary = malloc(made->binary_size);
        if (!made->binary)
            return GA_MEMORY_ERROR;
        memcpy(made->binary, MAGIC, sizeof MAGIC - 1);
        strcpy((char *)made->binary + sizeof MAGIC - 1, text);
        binary = made->binary;
        binary_size = made->binary_size;
    }
    size_t length = binary_size - (sizeof MAGIC - 1);
    struct stub_program *program = malloc(sizeof *program + length + 1);
    if (!program)
        return device_failed(GA_MEMORY_ERROR, "the host is out of memory");
    memcpy(program->text, (const char *)binary + sizeof MAGIC - 1, length);
    program->text[length] = '\0';
    program->next = stub->programs;
    stub->programs = program;
    made->handle = program;
    return GA_NO_ERROR;
}

static int stub_kernel(device *base, void *program, const char *name, device_kernel *kernel)
{
    stub_device *stub = (stub_device *)base;
    COUNTED(base, STUB_KERNEL);
    NOTE(base, "kernel %s", name);
    if (!strstr(((struct stub_program *)program)->text, name))
        return device_failed(GA_VALUE_ERROR, "the program has no kernel '%s'", name);
    struct stub_kernel *made = malloc(sizeof *made + strlen(name) + 1);
    if (!made)
        return device_failed(GA_MEMORY_ERROR, "the host is out of memory");
    strcpy(made->name, name);
    made->next = stub->kernels;
    stub->kernels = made;
    kernel->handle = made;
    kernel->max_group = 1024;
    kernel->preferred = 32;
    return GA_NO_ERROR;
}

/* Write the lengths of a launch as text, such as "4, 2". */
static const char *lengths(char *text, size_t room, unsigned ndim, const size_t *numbers)
{
    size_t used = 0;
    for (unsigned i = 0; i < ndim; ++i)
        used += (size_t)snprintf(text + used, room - used, i ? ", %zu" : "%zu", numbers[i]);
    return text;
}

static int stub_launch(device *base, void *kernel, unsigned ndim, const size_t *groups, const size_t *group,
                       size_t local_memory, unsigned count, void *const *values, const size_t *sizes)
{
    (void)count, (void)values, (void)sizes;
    COUNTED(base, STUB_LAUNCH);
    if (__builtin_expect(state_of(base)->recording, 0)) {
        char of_groups[80], of_group[80];
        NOTE(base, "launch %s (%s) (%s) %zu", ((struct stub_kernel *)kernel)->name,
             lengths(of_groups, sizeof of_groups, ndim, groups), lengths(of_group, sizeof of_group, ndim, group),
             local_memory);
    }
    return GA_NO_ERROR;
}

/* ---- order ---- */

static int stub_fence(device *first, device *waiting)
{
    COUNTED(waiting, STUB_FENCE);
    NOTE(waiting, "fence stub%u", ((stub_device *)first)->number);
    return GA_NO_ERROR;
}

static int stub_sync(device *base)
{
    COUNTED(base, STUB_SYNC);
    NOTE(base, "sync");
    return GA_NO_ERROR;
}

/* Begin, end, run or release a graph. The record of a graph is only the number of its launches. */
static int stub_graph(device *base, enum device_graph_step step, void **graph)
{
    static const char *const names[] = {"begin", "end", "run", "release"};
    stub_device *stub = (stub_device *)base;
    uint64_t *launches = &state_of(base)->calls[STUB_LAUNCH];
    int code = step == DEVICE_GRAPH_RELEASE ? GA_NO_ERROR : counted(base, STUB_GRAPH);
    if (step == DEVICE_GRAPH_BEGIN)
        *graph = NULL;
    if (code != GA_NO_ERROR && step == DEVICE_GRAPH_END) {
        free(*graph);
        *graph = stub->recording = NULL;
    }
    if (code != GA_NO_ERROR)
        return code;
    NOTE(base, "graph %s", names[step]);
    switch (step) {
    case DEVICE_GRAPH_BEGIN:
        if (stub->recording)
            return device_failed(GA_INVALID_ERROR, "a graph is being recorded already");
        if (!(*graph = malloc(sizeof(uint64_t))))
            return device_failed(GA_MEMORY_ERROR, "the host is out of memory");
        *(uint64_t *)*graph = *launches;
        stub->recording = *graph;
        break;
    case DEVICE_GRAPH_END:
        if (!stub->recording)
            return device_failed(GA_INVALID_ERROR, "no graph is being recorded");
        *(uint64_t *)*graph = *launches - *(uint64_t *)*graph;
        *launches -= *(uint64_t *)*graph; /* do not count launches that were recorded, not run */
        stub->recording = NULL;
        break;
    case DEVICE_GRAPH_RUN: *launches += *(uint64_t *)*graph; break;
    case DEVICE_GRAPH_RELEASE:
        free(*graph);
        *graph = NULL;
        break;
    }
    return GA_NO_ERROR;
}

static int stub_replace(device *base, void *graph, unsigned number, void *kernel, unsigned ndim, const size_t *groups,
                        const size_t *group, size_t local_memory, unsigned count, void *const *values,
                        const size_t *sizes)
{
    (void)ndim, (void)groups, (void)group, (void)local_memory, (void)count, (void)values, (void)sizes;
    COUNTED(base, STUB_GRAPH);
    if (number >= *(uint64_t *)graph)
        return device_failed(GA_INVALID_ERROR, "the graph has no launch %u", number);
    NOTE(base, "graph replace %u %s", number, ((struct stub_kernel *)kernel)->name);
    return GA_NO_ERROR;
}

const device_table device_stub = {
    "stub",      stub_open,  stub_close, stub_info,       stub_alloc,     stub_release, stub_write,
    stub_read,   stub_copy,  stub_fill,  stub_host_alloc, stub_host_free, stub_build,   stub_kernel,
    stub_launch, stub_fence, stub_sync,  stub_graph,      stub_replace,
};
