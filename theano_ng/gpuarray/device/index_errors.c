/* Errors that kernels find in indices; index_errors.h explains the method. */
#include "index_errors.h"

#include "launch_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BYTES (INDEX_SLOT_WORDS * sizeof(uint64_t))

struct index_errors {
    pthread_mutex_t lock;  /* held without the GIL, and by threads that wait for the device */
    gpudata *slots;        /* holds no reference to the context, which would be a cycle */
    uint64_t *seen;        /* the slots, if the host can access them, else the host's copy of them */
    int mapped;            /* whether the host can access the slots */
    _Atomic int recent;    /* whether there was a launch since the slots were copied last */
    _Atomic unsigned used; /* the number of slots in use, from the first slot */
};

/* The slot of this thread, from 1. 0: the thread has none yet. */
static __thread unsigned own_slot;
static _Atomic uint32_t taken; /* bit k: slot k + 1 belongs to a thread that has not ended */
static pthread_key_t end_of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t launches; /* the number of launches so far, in all contexts */
/* The number of launches when this thread got its slot, and the thread's last launch */
static __thread uint64_t launches_before, own_launch;
/* For each slot: the launch whose error this thread has seen last. */
static __thread uint64_t told[INDEX_SLOTS];
static __thread index_error found;

const index_error *index_error_found(void)
{
    return &found;
}

/* Free the slots. The device of the context is open, or was closed with all its memory. */
void index_errors_free(gpucontext *ctx)
{
    struct index_errors *errors = ctx->index_errors;
    if (errors == NULL)
        return;
    if (errors->mapped && context_is_open(ctx)) {
        ctx->table->sync(ctx->device); /* kernels that still run may write the slots */
        ctx->table->host_free(ctx->device, errors->seen);
    }
    if (!errors->mapped)
        free(errors->seen);
    if (errors->slots != NULL && !errors->mapped && context_is_open(ctx))
        ctx->table->release(ctx->device, errors->slots->memory, 0);
    free(errors->slots);
    pthread_mutex_destroy(&errors->lock);
    free(errors);
    ctx->index_errors = NULL;
}

static int allocate(gpucontext *ctx, struct index_errors *errors)
{
    enum { SIZE = INDEX_SLOTS * SLOT_BYTES };
    void *memory = NULL;
    device_memory at = 0;
    int code = ctx->table->host_alloc(ctx->device, SIZE, &memory);
    errors->mapped = code == GA_NO_ERROR;
    if (code == GA_UNSUPPORTED_ERROR) {
        memory = malloc(SIZE);
        code = memory == NULL ? device_failed(GA_MEMORY_ERROR, "the host is out of memory")
                              : ctx->table->alloc(ctx->device, 0, 0, SIZE, &at);
    }
    else
        at = (device_memory)(uintptr_t)memory;
    errors->seen = memory;
    if (code != GA_NO_ERROR)
        return context_checked(ctx, code);
    memset(memory, 0, SIZE);
    if (!errors->mapped)
        code = context_checked(ctx, ctx->table->fill(ctx->device, at, 0, SIZE, 0));
    if (code == GA_NO_ERROR && (errors->slots = gpudata_wrap(ctx, at, SIZE, NULL, NULL, &code)) != NULL)
        gpucontext_release(ctx);
    if (errors->slots == NULL && !errors->mapped)
        ctx->table->release(ctx->device, at, 0);
    return code;
}

static int open_errors(gpucontext *ctx)
{
    ctx->index_errors = calloc(1, sizeof *ctx->index_errors);
    if (ctx->index_errors == NULL)
        return context_failed(ctx, GA_MEMORY_ERROR, "the host is out of memory");
    pthread_mutex_init(&ctx->index_errors->lock, NULL);
    int code = allocate(ctx, ctx->index_errors);
    if (code != GA_NO_ERROR)
        index_errors_free(ctx);
    return code;
}

/* Give the slot of a thread that ends to later threads. */
static void leave(void *slot)
{
    taken &= ~(1u << ((uintptr_t)slot - 1));
}

static void make_key(void)
{
    pthread_key_create(&end_of_thread, leave);
}

static void enter(void)
{
    uint32_t before = taken;
    unsigned slot;
    do {
        slot = 0;
        while (slot < INDEX_SLOTS - 1 && before >> slot & 1)
            ++slot;
    } while (slot < INDEX_SLOTS - 1 && !atomic_compare_exchange_weak(&taken, &before, before | 1u << slot));
    own_slot = slot + 1;
    launches_before = launches;
    pthread_once(&once, make_key);
    if (own_slot < INDEX_SLOTS)
        pthread_setspecific(end_of_thread, (void *)(uintptr_t)own_slot);
}

int gpucontext_watch(gpucontext *ctx, unsigned site, index_watch *watch)
{
    int code = context_usable(ctx);
    if (code == GA_NO_ERROR && ctx->index_errors == NULL)
        code = open_errors(ctx);
    if (code != GA_NO_ERROR)
        return code;
    struct index_errors *errors = ctx->index_errors;
    if (own_slot == 0)
        enter();
    watch->slots = errors->slots;
    watch->launch = own_launch = INDEX_LAUNCH(++launches, own_slot - 1, site);
    watch->wait = own_slot == INDEX_SLOTS;
    queue_number_next(ctx);
    if (errors->used < own_slot)
        errors->used = own_slot;
    errors->recent = 1;
    return GA_NO_ERROR;
}

void gpucontext_watched(gpucontext *ctx)
{
    ctx->index_errors->recent = 1;
}

void index_errors_may_follow(gpucontext *ctx)
{
    if (ctx->index_errors != NULL)
        ctx->index_errors->recent = 1;
}

/* Copy the slots to the host, if there were launches since the last copy. */
static int refresh(gpucontext *ctx, struct index_errors *errors)
{
    if (errors->mapped || !errors->recent)
        return GA_NO_ERROR;
    errors->recent = 0;
    return context_checked(
        ctx, ctx->table->read(ctx->device, errors->seen, errors->slots->memory, 0, errors->used * SLOT_BYTES));
}

/* Remove the error of a slot, so that the next launch can write one. No kernel writes the slot now, because this thread
 * has waited for the launches of the slot. */
static int clear(gpucontext *ctx, struct index_errors *errors, unsigned slot)
{
    uint64_t *words = errors->seen + slot * INDEX_SLOT_WORDS;
    memset(words, 0, SLOT_BYTES);
    return errors->mapped ? GA_NO_ERROR
                          : context_checked(ctx, ctx->table->write(ctx->device, errors->slots->memory,
                                                                   slot * SLOT_BYTES, words, SLOT_BYTES));
}

static void take(const uint64_t *words, int of_other_thread)
{
    uint64_t first = ~words[1]; /* kernels write the largest complement, because cleared memory is 0 */
    found.site = INDEX_LAUNCH_SITE(words[0]);
    found.place = first >> 33;
    found.index = (int64_t)(first & (2 * (uint64_t)INDEX_LIMIT - 1)) - INDEX_LIMIT;
    memcpy(found.lengths, words + 2, sizeof found.lengths);
    found.of_other_thread = of_other_thread;
}

/* Whether this thread clears the errors of a launch from a slot. */
static int is_own(unsigned slot, uint64_t launch)
{
    return slot + 1 == own_slot && (slot < INDEX_SLOTS - 1 || launch == own_launch);
}

/* Take a slot whose thread has ended, so that no new thread uses it while this thread clears it. Return 0 if there is no
 * such thread. */
static int take_over(unsigned slot)
{
    const uint32_t bit = 1u << slot;
    return slot < INDEX_SLOTS - 1 && !(atomic_fetch_or(&taken, bit) & bit);
}

/* Look for an error in a slot. */
static int look_in(gpucontext *ctx, struct index_errors *errors, unsigned slot)
{
    const uint64_t *words = errors->seen + slot * INDEX_SLOT_WORDS;
    uint64_t launch = *(const volatile uint64_t *)words;
    int code = GA_NO_ERROR;
    if (launch == 0)
        return code;
    int own = is_own(slot, launch), ended = take_over(slot);
    if (ended) {
        /* The kernel may have been launched after this thread waited. */
        errors->recent = 1;
        code = context_checked(ctx, ctx->table->sync(ctx->device));
        if (code == GA_NO_ERROR)
            code = refresh(ctx, errors);
    }
    if (code == GA_NO_ERROR && (own || ended || told[slot] != launch)) {
        take(words, !own || INDEX_LAUNCH_NUMBER(launch) <= launches_before);
        told[slot] = launch;
        if (!(own || ended) || (code = clear(ctx, errors, slot)) == GA_NO_ERROR)
            code = context_failed(ctx, GA_INDEX_ERROR, "index %lld is out of bounds", (long long)found.index);
    }
    if (ended)
        leave((void *)(uintptr_t)(slot + 1));
    return code;
}

int index_errors_look(gpucontext *ctx)
{
    struct index_errors *errors = ctx->index_errors;
    if (errors == NULL)
        return GA_NO_ERROR;
    pthread_mutex_lock(&errors->lock);
    int code = refresh(ctx, errors);
    /* The thread's own error comes first, so that the call that made the error raises it. */
    if (code == GA_NO_ERROR && own_slot != 0 && own_slot <= errors->used)
        code = look_in(ctx, errors, own_slot - 1);
    for (unsigned slot = 0; slot < errors->used && code == GA_NO_ERROR; ++slot)
        code = look_in(ctx, errors, slot);
    pthread_mutex_unlock(&errors->lock);
    return code;
}
