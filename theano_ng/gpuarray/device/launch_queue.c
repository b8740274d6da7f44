/* The launch queue of a context; launch_queue.h explains its purpose.
 *
 * A machine opens the queue at a step, and closes it before the first step that is not for the device. The calls in
 * between are a piece. A piece belongs to the site where the queue was opened. A call that cannot be collected, such as
 * a transfer, ends a piece, and the site has a next site for the calls that follow.
 *
 * A site keeps its latest pieces as recordings. When the same piece has been seen ENOUGH times, it is recorded as a
 * graph. From then on, the calls at this site are held back until the piece ends, and are compared with the recordings.
 * At other sites, the calls are made at once, so that the device need not wait for the host.
 *
 * Most calls of two runs of a function are equal, because the pool gives the same blocks to the same sequence of
 * requests. A few arguments may be different: numbers that are passed by value, and the addresses of inputs. They are
 * replaced in the graph. */
#include "launch_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "index_errors.h"
#include "work_queue.h"

#define LEAST 8                  /* calls of the shortest piece that is recorded */
#define MOST 4096                /* calls of the longest piece; a longer one is divided */
#define ENOUGH 3                 /* how often a piece is seen before it is recorded */
#define KEPT 4                   /* recordings of a site */
#define FEW 2                    /* calls of a piece that may use other addresses */
#define MANY_MISSES 8            /* pieces without a recording, after which half of the calls may use other addresses */
#define LARGEST_KEPT (64u << 20) /* bytes of all recordings of a context */

/* A collected call. Its data follows. */
struct call {
    uint32_t size;  /* bytes of this record and the data, a multiple of 8 */
    uint32_t alike; /* bytes at the beginning of the data that must be equal if the call is to be replaced */
    int32_t step;   /* see WorkQueue */
    uint16_t kind;
    uint16_t numbered; /* whether an argument is a number that no other call has */
};

struct calls {
    char *bytes; /* the records, one after the other */
    size_t size;
    unsigned count;
};

/* A piece that was seen at a site */
struct recording {
    struct calls calls;
    unsigned seen;
    int recorded;
    void *graph; /* NULL if the device has no graphs; then the calls are made one by one */
};

struct site {
    struct launch_queue *queue;
    const char *function;               /* see WorkQueue */
    struct site *next;                  /* for the calls that follow a call that cannot be collected */
    struct recording *recordings[KEPT]; /* the latest use is first */
    int holds;                          /* whether calls are held back until the piece ends */
    unsigned misses;                    /* pieces without a recording */
    unsigned recorded, runs;            /* graphs, and their runs */
    int hopeless;                       /* whether no piece is recorded any longer */
};

struct launch_queue {
    WorkQueue base;
    gpucontext *context;
    WorkQueue **open_queue;
    int (*raise)(gpucontext *, int code);
    /* &here of the thread that collects calls; NULL if the queue is closed. Threads without the GIL read it, too. */
    const char *_Atomic owner;
    struct site *site; /* NULL: the calls are only held back or made, because memory is exhausted */
    struct calls calls;
    size_t room;
    size_t last; /* offset of the last call in `calls` */
    int holds, numbered;
    size_t kept; /* bytes of all recordings */
    queue_counts counts;
    struct site *latest; /* the site whose graph ran last, or NULL; then `latest_name` is the name of its function */
    char latest_name[200];
    int late_code; /* error of a piece that was ended by another thread, or before the GIL was released */
    int late_step; /* the step whose call failed */
    char late_message[600];
};

/* The address identifies the thread. */
static __thread char here;
/* The queue of the process that is open */
static struct launch_queue *current;

static struct call *call_at(const struct calls *calls, size_t at)
{
    return (struct call *)(calls->bytes + at);
}

static void *data_of(struct call *call)
{
    return call + 1;
}

/* ---- making calls ---- */

struct launch {
    void *kernel;
    uint32_t ndim, count;
    uint32_t sizes[]; /* plus IS_ADDRESS for addresses; then, at a multiple of 8 bytes, a struct launch_arguments */
};

#define IS_ADDRESS 0x80000000u

struct launch_arguments {
    uint64_t groups[3], group[3], local_memory;
    uint64_t values[]; /* each value begins at a multiple of 8 bytes */
};

static size_t words(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

static size_t launch_alike(unsigned count)
{
    return words(sizeof(struct launch) + count * sizeof(uint32_t));
}

/* Do something with a launch: launch the kernel, or replace the arguments of launch number `number` of a graph. */
static int with_launch(gpucontext *ctx, const void *data, void *graph, unsigned number)
{
    const struct launch *launch = data;
    const struct launch_arguments *a = (const void *)((const char *)data + launch_alike(launch->count));
    void *values[launch->count + 1];
    size_t sizes[launch->count + 1], groups[3], group[3];
    const uint64_t *value = a->values;
    for (unsigned i = 0; i < launch->count; ++i) {
        values[i] = (void *)value;
        sizes[i] = launch->sizes[i] & ~IS_ADDRESS;
        value += words(sizes[i]) / 8;
    }
    for (int i = 0; i < 3; ++i) {
        groups[i] = a->groups[i];
        group[i] = a->group[i];
    }
    if (graph != NULL)
        return ctx->table->replace(ctx->device, graph, number, launch->kernel, launch->ndim, groups, group,
                                   a->local_memory, launch->count, values, sizes);
    return ctx->table->launch(ctx->device, launch->kernel, launch->ndim, groups, group, a->local_memory, launch->count,
                              values, sizes);
}

static int run_launch(gpucontext *ctx, const void *data)
{
    return with_launch(ctx, data, NULL, 0);
}

struct copy {
    device_memory to, from;
    uint64_t to_offset, from_offset, size;
};

static int run_copy(gpucontext *ctx, const void *data)
{
    const struct copy *copy = data;
    return ctx->table->copy(ctx->device, copy->to, copy->to_offset, copy->from, copy->from_offset, copy->size);
}

struct fill {
    device_memory memory;
    uint64_t offset, size, byte;
};

static int run_fill(gpucontext *ctx, const void *data)
{
    const struct fill *fill = data;
    return ctx->table->fill(ctx->device, fill->memory, fill->offset, fill->size, (uint8_t)fill->byte);
}

static int (*const run_kinds[CALL_KINDS])(gpucontext *, const void *) = {
    [CALL_LAUNCH] = run_launch,
    [CALL_COPY] = run_copy,
    [CALL_FILL] = run_fill,
    [CALL_PRODUCT] = cublas_run,
};

static int run(gpucontext *ctx, struct call *call)
{
    return run_kinds[call->kind](ctx, data_of(call));
}

/* Make the collected calls one by one. After a failure, the later calls are not made. */
static int submit(struct launch_queue *queue)
{
    for (size_t at = 0; at < queue->calls.size; at += call_at(&queue->calls, at)->size) {
        struct call *call = call_at(&queue->calls, at);
        int code = run(queue->context, call);
        if (code != GA_NO_ERROR) {
            queue->base.failed = call->step;
            return code;
        }
    }
    queue->counts.calls += queue->calls.count;
    return GA_NO_ERROR;
}

/* ---- recordings ---- */

static int can_call(const struct launch_queue *queue)
{
    return context_is_open(queue->context);
}

static void drop_graph(struct launch_queue *queue, struct recording *recording)
{
    if (recording->graph != NULL && can_call(queue))
        queue->context->table->graph(queue->context->device, DEVICE_GRAPH_RELEASE, &recording->graph);
    recording->graph = NULL;
    recording->recorded = 0;
}

static void free_recording(struct launch_queue *queue, struct recording *recording)
{
    if (recording == NULL)
        return;
    drop_graph(queue, recording);
    queue->kept -= recording->calls.size;
    free(recording->calls.bytes);
    free(recording);
}

/* Return whether two launches of the same kernel use different addresses. */
static int uses_other_addresses(struct call *now, struct call *then)
{
    const struct launch *launch = data_of(now);
    size_t at = launch_alike(launch->count);
    const struct launch_arguments *a = (const void *)((char *)data_of(now) + at);
    const struct launch_arguments *b = (const void *)((char *)data_of(then) + at);
    for (size_t i = 0, word = 0; i < launch->count; word += words(launch->sizes[i++] & ~IS_ADDRESS) / 8)
        if (launch->sizes[i] & IS_ADDRESS && a->values[word] != b->values[word])
            return 1;
    return 0;
}

struct difference {
    unsigned calls;     /* calls that differ, without calls that differ by their unique number */
    unsigned addresses; /* calls among them that use other addresses */
};

/* Compare the collected calls with a recording. Return 0 if no graph of the recording can make the collected calls. */
static int compare(const struct launch_queue *queue, const struct recording *recording, struct difference *found)
{
    const struct calls *now = &queue->calls, *then = &recording->calls;
    *found = (struct difference){0, 0};
    if (now->size != then->size || now->count != then->count)
        return 0;
    if (memcmp(now->bytes, then->bytes, now->size) == 0)
        return 1;
    for (size_t at = 0; at < now->size; at += call_at(now, at)->size) {
        struct call *a = call_at(now, at), *b = call_at(then, at);
        if (memcmp(a, b, sizeof *a + a->alike) != 0)
            return 0;
        if (!a->numbered && memcmp(a, b, a->size) != 0) {
            ++found->calls;
            found->addresses += (unsigned)uses_other_addresses(a, b);
        }
    }
    return 1;
}

/* Make the recording of the collected calls, or change a recording to them. Return 0 if memory is exhausted. */
static int keep(struct launch_queue *queue, struct recording *recording)
{
    struct calls *calls = &recording->calls;
    if (calls->size != queue->calls.size) {
        if (queue->kept + queue->calls.size > LARGEST_KEPT)
            return 0;
        if ((calls->bytes = malloc(queue->calls.size)) == NULL)
            return 0;
        queue->kept += queue->calls.size;
        calls->size = queue->calls.size;
        calls->count = queue->calls.count;
    }
    memcpy(calls->bytes, queue->calls.bytes, calls->size);
    return 1;
}

static void move_to_front(struct site *site, int i)
{
    struct recording *recording = site->recordings[i];
    memmove(site->recordings + 1, site->recordings, (size_t)i * sizeof *site->recordings);
    site->recordings[0] = recording;
}

/* Return the recording that is most like the collected calls. If none is like them, make one. Return NULL if memory is
 * exhausted. */
static struct recording *find(struct launch_queue *queue)
{
    struct site *site = queue->site;
    unsigned half = queue->calls.count / 2, most = site->misses > MANY_MISSES ? half : FEW, least = half + 1;
    int best = -1;
    for (int i = 0; i < KEPT && site->recordings[i] != NULL && least > 0; ++i) {
        struct difference difference;
        if (compare(queue, site->recordings[i], &difference) && difference.addresses <= most
            && difference.calls < least) {
            best = i;
            least = difference.calls;
        }
    }
    if (best >= 0) {
        move_to_front(site, best);
        return site->recordings[0];
    }
    struct recording *made = calloc(1, sizeof *made);
    if (made == NULL || !keep(queue, made)) {
        free(made);
        return NULL;
    }
    ++site->misses;
    free_recording(queue, site->recordings[KEPT - 1]);
    site->recordings[KEPT - 1] = made;
    move_to_front(site, KEPT - 1);
    return made;
}

/* Replace the arguments that differ in the graph of a recording. */
static int replace(struct launch_queue *queue, struct recording *recording)
{
    unsigned number = 0;
    for (size_t at = 0; at < queue->calls.size; at += call_at(&queue->calls, at)->size) {
        struct call *now = call_at(&queue->calls, at), *then = call_at(&recording->calls, at);
        if (memcmp(now, then, now->size) != 0) {
            int code = with_launch(queue->context, data_of(now), recording->graph, number);
            if (code != GA_NO_ERROR)
                return code;
            memcpy(then, now, now->size);
            ++queue->counts.replaced;
        }
        number += now->kind == CALL_LAUNCH;
    }
    return GA_NO_ERROR;
}

/* Run the graph of a recording, which is like the collected calls. If the graph cannot be changed, or needs memory that
 * the device does not have, drop it and make the calls one by one. */
static int run_graph(struct launch_queue *queue, struct recording *recording)
{
    gpucontext *ctx = queue->context;
    if (recording->graph == NULL) {
        keep(queue, recording);
        int code = submit(queue);
        queue->counts.runs += code == GA_NO_ERROR;
        return code;
    }
    int code = replace(queue, recording), runs = code == GA_NO_ERROR;
    if (runs)
        code = ctx->table->graph(ctx->device, DEVICE_GRAPH_RUN, &recording->graph);
    if (code == GA_NO_ERROR) {
        queue->latest = queue->site;
        ++queue->site->runs;
        ++queue->counts.runs;
        queue->counts.in_runs += queue->calls.count;
    }
    else if (!runs || code == GA_MEMORY_ERROR) {
        drop_graph(queue, recording);
        queue->site->hopeless = 1;
        code = submit(queue);
    }
    else
        queue->base.failed = call_at(&queue->calls, 0)->step;
    return code;
}

/* Record a graph of the calls of a recording. Failures are no errors: the calls are then made one by one. */
static void record(struct launch_queue *queue, struct recording *recording)
{
    gpucontext *ctx = queue->context;
    struct site *site = queue->site;
    if (site->recorded >= KEPT && site->runs < KEPT * site->recorded) { /* recording takes longer than it saves */
        site->hopeless = 1;
        return;
    }
    int code = ctx->table->graph(ctx->device, DEVICE_GRAPH_BEGIN, &recording->graph);
    if (code == GA_UNSUPPORTED_ERROR) {
        recording->graph = NULL;
        recording->recorded = 1;
        return;
    }
    if (code == GA_NO_ERROR) {
        const struct calls *calls = &recording->calls;
        int failed = 0;
        for (size_t at = 0; at < calls->size && !failed; at += call_at(calls, at)->size)
            failed = run(ctx, call_at(calls, at)) != GA_NO_ERROR;
        code = ctx->table->graph(ctx->device, DEVICE_GRAPH_END, &recording->graph);
        if (failed)
            code = GA_UNSUPPORTED_ERROR;
    }
    recording->recorded = code == GA_NO_ERROR;
    if (!recording->recorded) {
        drop_graph(queue, recording);
        site->hopeless = 1;
        return;
    }
    ++site->recorded;
    ++queue->counts.recorded;
}

/* ---- pieces ---- */

static struct site *new_site(struct launch_queue *queue)
{
    struct site *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->queue = queue;
        made->function = queue->base.function;
        gpucontext_retain(queue->context);
    }
    return made;
}

static void begin_piece(struct launch_queue *queue, struct site *site)
{
    queue->site = site;
    queue->holds = site != NULL && site->holds;
    queue->calls.size = 0;
    queue->calls.count = 0;
    queue->numbered = 0;
}

/* End a piece: make the calls that were held back, and remember the piece. */
static int end_piece(struct launch_queue *queue)
{
    struct site *site = queue->site;
    int code = GA_NO_ERROR;
    struct recording *recording = NULL;
    if (queue->calls.count == 0)
        return code;
    if (queue->calls.count >= LEAST && site != NULL && !site->hopeless)
        recording = find(queue);
    if (recording != NULL && recording->recorded) {
        if (queue->holds)
            code = run_graph(queue, recording);
    }
    else {
        if (queue->holds)
            code = submit(queue);
        if (recording != NULL && code == GA_NO_ERROR && keep(queue, recording) && ++recording->seen >= ENOUGH)
            record(queue, recording);
    }
    if (queue->holds)
        index_errors_may_follow(queue->context);
    if (site != NULL)
        site->holds = recording != NULL && recording->recorded;
    return code;
}

static int end_and_continue(struct launch_queue *queue)
{
    if (queue->calls.count == 0)
        return GA_NO_ERROR;
    int code = end_piece(queue);
    struct site *site = queue->site;
    if (site != NULL && site->next == NULL)
        site->next = new_site(queue);
    begin_piece(queue, site == NULL ? NULL : site->next);
    return code;
}

/* ---- collecting ---- */

int queue_collects(gpucontext *ctx)
{
    struct launch_queue *queue = ctx->queue;
    if (__builtin_expect(queue == NULL || queue->owner == NULL, 1))
        return 0;
    if (__builtin_expect(queue->owner == &here, 1))
        return 1;
    queue_close_any();
    return 0;
}

static int make_room(struct launch_queue *queue, size_t size)
{
    size_t wanted = queue->calls.size + size;
    if (wanted <= queue->room)
        return 1;
    char *bytes = realloc(queue->calls.bytes, 2 * wanted);
    if (bytes == NULL)
        return 0;
    queue->calls.bytes = bytes;
    queue->room = 2 * wanted;
    return 1;
}

/* Return in *space the space for the data of a call, which is zeroed. If calls of the kind can be replaced in a graph, the
 * first `alike` bytes of the data must stay the same; else `alike` is `size`. If memory is exhausted, *space is NULL. Then
 * the calls that were held back have been made, and the caller makes its call itself. The result is the error of calls
 * that were held back. */
static int append(gpucontext *ctx, enum call_kind kind, size_t size, size_t alike, void **space)
{
    struct launch_queue *queue = ctx->queue;
    size_t whole = words(sizeof(struct call) + size);
    int code = queue->calls.count == MOST ? end_and_continue(queue) : GA_NO_ERROR;
    *space = NULL;
    if (code == GA_NO_ERROR && !make_room(queue, whole)) {
        code = end_and_continue(queue);
        queue->holds = 0;
        return code;
    }
    if (code != GA_NO_ERROR)
        return code;
    struct call *call = call_at(&queue->calls, queue->calls.size);
    memset(call, 0, whole);
    call->size = (uint32_t)whole;
    call->alike = (uint32_t)(alike == size ? whole - sizeof *call : alike);
    call->step = queue->base.step;
    call->kind = (uint16_t)kind;
    if (kind == CALL_LAUNCH) {
        call->numbered = (uint16_t)queue->numbered;
        queue->numbered = 0;
    }
    queue->last = queue->calls.size;
    *space = data_of(call);
    return GA_NO_ERROR;
}

/* Make the call whose data was filled in, unless calls are held back. */
static int finish(gpucontext *ctx)
{
    struct launch_queue *queue = ctx->queue;
    struct call *call = call_at(&queue->calls, queue->last);
    if (!queue->holds) {
        int code = run(ctx, call);
        if (code != GA_NO_ERROR)
            return context_checked(ctx, code);
        ++queue->counts.calls;
    }
    queue->calls.size += call->size;
    ++queue->calls.count;
    return GA_NO_ERROR;
}

void queue_number_next(gpucontext *ctx)
{
    if (ctx->queue != NULL)
        ctx->queue->numbered = 1;
}

int queue_launch(gpukernel *k, unsigned ndim, const size_t *groups, const size_t *group, size_t local_memory,
                 const size_t *sizes, void *const *values)
{
    size_t alike = launch_alike(k->count), size = alike + sizeof(struct launch_arguments);
    for (unsigned i = 0; i < k->count; ++i)
        size += words(sizes[i]);
    struct launch *launch;
    int code = append(k->context, CALL_LAUNCH, size, alike, (void **)&launch);
    if (code != GA_NO_ERROR)
        return code;
    if (launch == NULL)
        return k->context->table->launch(k->context->device, k->kernel.handle, ndim, groups, group, local_memory,
                                         k->count, values, sizes);
    struct launch_arguments *a = (void *)((char *)launch + alike);
    launch->kernel = k->kernel.handle;
    launch->ndim = ndim;
    launch->count = k->count;
    for (unsigned i = 0; i < 3; ++i) {
        a->groups[i] = i < ndim ? groups[i] : 1;
        a->group[i] = i < ndim ? group[i] : 1;
    }
    a->local_memory = local_memory;
    uint64_t *value = a->values;
    for (unsigned i = 0; i < k->count; ++i) {
        launch->sizes[i] = (uint32_t)sizes[i] | (k->types[i] == GA_BUFFER ? IS_ADDRESS : 0);
        memcpy(value, values[i], sizes[i]);
        value += words(sizes[i]) / 8;
    }
    return finish(k->context);
}

int queue_copy(gpucontext *ctx, device_memory to, size_t to_offset, device_memory from, size_t from_offset, size_t size)
{
    struct copy *copy;
    int code = append(ctx, CALL_COPY, sizeof *copy, sizeof *copy, (void **)&copy);
    if (code != GA_NO_ERROR)
        return code;
    if (copy == NULL)
        return ctx->table->copy(ctx->device, to, to_offset, from, from_offset, size);
    *copy = (struct copy){to, from, to_offset, from_offset, size};
    return finish(ctx);
}

int queue_fill(gpucontext *ctx, device_memory memory, size_t offset, size_t size, uint8_t byte)
{
    struct fill *fill;
    int code = append(ctx, CALL_FILL, sizeof *fill, sizeof *fill, (void **)&fill);
    if (code != GA_NO_ERROR)
        return code;
    if (fill == NULL)
        return ctx->table->fill(ctx->device, memory, offset, size, byte);
    *fill = (struct fill){memory, offset, size, byte};
    return finish(ctx);
}

int queue_product(gpucontext *ctx, const void *data, size_t size)
{
    void *space = NULL;
    int code = queue_collects(ctx) ? append(ctx, CALL_PRODUCT, size, size, &space) : GA_NO_ERROR;
    if (code != GA_NO_ERROR)
        return code;
    if (space == NULL)
        return cublas_run(ctx, data);
    memcpy(space, data, size);
    return finish(ctx);
}

int queue_make_held(gpucontext *ctx)
{
    struct launch_queue *queue = ctx->queue;
    if (!queue_collects(ctx))
        return GA_NO_ERROR;
    /* The caller's call is noted in a piece that holds nothing back, and that has room for it. */
    int code = queue->calls.count == MOST ? end_and_continue(queue) : queue->holds ? submit(queue) : GA_NO_ERROR;
    queue->holds = 0;
    return code;
}

void queue_note(gpucontext *ctx, enum call_kind kind, const void *data, size_t size)
{
    struct launch_queue *queue = ctx->queue;
    void *space = NULL;
    if (!queue_collects(ctx) || append(ctx, kind, size, size, &space) != GA_NO_ERROR || space == NULL)
        return;
    memcpy(space, data, size);
    queue->calls.size += call_at(&queue->calls, queue->last)->size;
    ++queue->calls.count;
    ++queue->counts.calls;
}

int queue_flush(gpucontext *ctx)
{
    struct launch_queue *queue = ctx->queue;
    if (__builtin_expect(queue == NULL || queue->owner != &here, 1))
        return GA_NO_ERROR;
    return end_and_continue(queue);
}

/* ---- opening and closing ---- */

static int close_queue(struct launch_queue *queue)
{
    int code = can_call(queue) ? end_piece(queue) : GA_NO_ERROR;
    queue->owner = NULL;
    queue->site = NULL;
    current = NULL;
    *queue->open_queue = NULL;
    return context_checked(queue->context, code);
}

/* Remember an error that the caller cannot report. */
static void report_later(struct launch_queue *queue, int code)
{
    if (code == GA_NO_ERROR || queue->late_code != GA_NO_ERROR)
        return;
    context_checked(queue->context, code);
    queue->late_code = code;
    queue->late_step = queue->base.failed;
    strncpy(queue->late_message, gpucontext_error(queue->context, code), sizeof queue->late_message - 1);
}

void queue_close_any(void)
{
    if (current != NULL) {
        struct launch_queue *queue = current;
        report_later(queue, close_queue(queue));
    }
}

void queue_give(gpucontext *ctx)
{
    if (queue_collects(ctx))
        report_later(ctx->queue, queue_flush(ctx));
}

static void open_site(WorkQueue *base, void **site)
{
    struct launch_queue *queue = (struct launch_queue *)base;
    if (!can_call(queue) || queue->context->flags & GA_CTX_CHECKED)
        return;
    if (current != NULL)
        queue_close_any();
    if (*site == NULL)
        *site = new_site(queue);
    begin_piece(queue, *site);
    queue->owner = &here;
    current = queue;
    *queue->open_queue = base;
}

static int close_base(WorkQueue *base)
{
    struct launch_queue *queue = (struct launch_queue *)base;
    base->failed = base->step;
    int code = current == queue ? close_queue(queue) : GA_NO_ERROR;
    if (code == GA_NO_ERROR && queue->late_code != GA_NO_ERROR) {
        code = context_failed(queue->context, queue->late_code, "%s", queue->late_message);
        queue->late_code = GA_NO_ERROR;
        base->failed = queue->late_step;
    }
    return code == GA_NO_ERROR ? 0 : queue->raise(queue->context, code);
}

static void forget_site(WorkQueue *base, void *given)
{
    struct launch_queue *queue = (struct launch_queue *)base;
    struct site *site = given, *next;
    if (current == queue)
        queue_close_any();
    for (; site != NULL; site = next) {
        next = site->next;
        if (site == queue->latest) {
            strncpy(queue->latest_name, site->function, sizeof queue->latest_name - 1);
            queue->latest = NULL;
        }
        for (int i = 0; i < KEPT; ++i)
            free_recording(queue, site->recordings[i]);
        free(site);
        gpucontext_release(queue->context);
    }
}

WorkQueue *launch_queue_of(gpucontext *ctx, WorkQueue **open_queue, int (*raise)(gpucontext *, int))
{
    struct launch_queue *queue = ctx->queue;
    if (queue == NULL && (queue = calloc(1, sizeof *queue)) != NULL) {
        queue->base = (WorkQueue){.open = open_site, .close = close_base, .forget = forget_site, .function = ""};
        queue->context = ctx;
        queue->open_queue = open_queue;
        queue->raise = raise;
        ctx->queue = queue;
    }
    return queue == NULL ? NULL : &queue->base;
}

void launch_queue_free(gpucontext *ctx)
{
    if (ctx->queue == NULL)
        return;
    if (current == ctx->queue)
        queue_close_any();
    free(ctx->queue->calls.bytes);
    free(ctx->queue);
    ctx->queue = NULL;
}

const char *queue_latest_function(gpucontext *ctx)
{
    struct launch_queue *queue = ctx->queue;
    if (queue == NULL || (queue->latest == NULL && queue->latest_name[0] == 0))
        return NULL;
    return queue->latest == NULL ? queue->latest_name : queue->latest->function;
}

void queue_count(gpucontext *ctx, queue_counts *counts)
{
    if (ctx->queue != NULL)
        *counts = ctx->queue->counts;
    else
        memset(counts, 0, sizeof *counts);
}
