/* Fourier transforms by cuFFT.
 *
 * The library needs a plan for each form of a transform. The plans that were used last are kept. The workspace of a plan
 * is a block of the pool that is released at once: the work of a device runs in order, so later users of the block run
 * after the transform. */
#define _GNU_SOURCE
#include "cufft.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "cuda.h"
#include "launch_queue.h"
#include "cufft_api.h"

#define MOST_PLANS 64 /* a plan holds tables in device memory */

static struct {
#define X(name, arguments) cufftResult(*name) arguments;
    CUFFT_FUNCTIONS(X)
#undef X
} fft;

/* A plan, with the form for which it was made */
struct plan {
    fft_form form;
    cufftHandle handle;
    size_t workspace; /* bytes */
};

/* The state of a device. The plan that was used last comes first. */
struct cufft {
    struct plan plans[MOST_PLANS];
    unsigned count;
};

/* ---- the library ---- */

static const char *bind_functions(void *loaded)
{
#define X(name, arguments)                             \
    if (!(*(void **)&fft.name = dlsym(loaded, #name))) \
        return #name;
    CUFFT_FUNCTIONS(X)
#undef X
    return NULL;
}

static const char *const names[] = {"libcufft.so.12", "libcufft.so.11", NULL};

static struct cuda_library library = {"cufft", "cuFFT", "cufftGetProperty", names, {11, 0, 0}, 1, bind_functions};

int cufft_open(gpucontext *ctx, size_t *version)
{
    cuda_device *d = NULL;
    int code = cuda_library_open(&library, ctx, &d);
    if (code != GA_NO_ERROR)
        return code;
    if (!d->cufft && !(d->cufft = calloc(1, sizeof *d->cufft)))
        return context_failed(ctx, GA_MEMORY_ERROR, "out of host memory for cuFFT");
    *version = cuda_library_version(&library);
    return GA_NO_ERROR;
}

/* Free the state of a device that is being closed. If its context is lost, only host memory is freed. */
void cufft_close(cuda_device *d)
{
    if (!d->cufft)
        return;
    for (unsigned i = 0; i < d->cufft->count && !d->lost; ++i)
        fft.cufftDestroy(d->cufft->plans[i].handle);
    free(d->cufft);
    d->cufft = NULL;
}

static const char *result_name(cufftResult result)
{
    switch (result) {
    case CUFFT_INVALID_PLAN: return "CUFFT_INVALID_PLAN";
    case CUFFT_ALLOC_FAILED: return "CUFFT_ALLOC_FAILED";
    case CUFFT_INVALID_TYPE: return "CUFFT_INVALID_TYPE";
    case CUFFT_INVALID_VALUE: return "CUFFT_INVALID_VALUE";
    case CUFFT_INTERNAL_ERROR: return "CUFFT_INTERNAL_ERROR";
    case CUFFT_EXEC_FAILED: return "CUFFT_EXEC_FAILED";
    case CUFFT_SETUP_FAILED: return "CUFFT_SETUP_FAILED";
    case CUFFT_INVALID_SIZE: return "CUFFT_INVALID_SIZE";
    case CUFFT_NOT_SUPPORTED: return "CUFFT_NOT_SUPPORTED";
    default: return "an unknown result";
    }
}

/* Describe the transforms in an error message. */
static int call_failed(cufftResult result, const char *call, const fft_form *form)
{
    char lengths[128] = "";
    size_t used = 0;
    for (int axis = 0; axis < form->rank; ++axis)
        used += (size_t)snprintf(lengths + used, sizeof lengths - used, axis ? ", %lld" : "%lld",
                                 (long long)form->lengths[axis]);
    return device_failed(result == CUFFT_ALLOC_FAILED ? GA_MEMORY_ERROR : GA_BLAS_ERROR,
                         "%s: %s (%d), for %lld transforms of shape (%s%s), %s", call, result_name(result), result,
                         (long long)form->batch, lengths, form->rank == 1 ? "," : "",
                         form->typecode == GA_DOUBLE ? "float64" : "float32");
}

#define FFT_CHECK(form, call, ...)                         \
    do {                                                   \
        cufftResult result_ = fft.call(__VA_ARGS__);       \
        if (__builtin_expect(result_ != CUFFT_SUCCESS, 0)) \
            return call_failed(result_, #call, form);      \
    } while (0)

/* ---- plans ---- */

static int type_of(const fft_form *form)
{
    int is_double = form->typecode == GA_DOUBLE;
    switch (form->kind) {
    case FFT_FROM_REAL: return is_double ? CUFFT_D2Z : CUFFT_R2C;
    case FFT_TO_REAL: return is_double ? CUFFT_Z2D : CUFFT_C2R;
    default: return is_double ? CUFFT_Z2Z : CUFFT_C2C;
    }
}

/* Set up a plan that has been created. */
static int set_up(cuda_device *d, struct plan *plan)
{
    const fft_form *form = &plan->form;
    long long lengths[FFT_MOST_AXES];
    for (int axis = 0; axis < form->rank; ++axis)
        lengths[axis] = form->lengths[axis];
    /* With the lengths as the layout, strides have an effect. Only arrays of pairs have strides, and both of their
     * layouts are equal. */
    long long *layout = form->step ? lengths : NULL;
    FFT_CHECK(form, cufftSetAutoAllocation, plan->handle, 0);
    FFT_CHECK(form, cufftSetStream, plan->handle, d->stream);
    FFT_CHECK(form, cufftMakePlanMany64, plan->handle, (int)form->rank, lengths, layout, form->stride, form->step,
              layout, form->stride, form->step, type_of(form), form->batch, &plan->workspace);
    return GA_NO_ERROR;
}

static int make_plan(cuda_device *d, struct plan *plan)
{
    FFT_CHECK(&plan->form, cufftCreate, &plan->handle);
    int code = set_up(d, plan);
    if (code != GA_NO_ERROR)
        fft.cufftDestroy(plan->handle);
    return code;
}

/* Remove the plan that was not used for the longest time. Its tables may still be in use, so wait for the device. */
static int drop_plan(cuda_device *d)
{
    int code = d->base.table->sync(&d->base);
    if (code == GA_NO_ERROR)
        fft.cufftDestroy(d->cufft->plans[--d->cufft->count].handle);
    return code;
}

/* Put the plan for a form at the first place, and return it there. If memory is exhausted, free unused memory, and try
 * again. */
static int find_plan(gpucontext *ctx, const fft_form *form, struct plan **found)
{
    cuda_device *d = (cuda_device *)ctx->device;
    struct plan plan = {.form = *form}, *plans = d->cufft->plans;
    unsigned i = 0;
    int code = GA_NO_ERROR;
    *found = plans;
    while (i < d->cufft->count && memcmp(&plans[i].form, form, sizeof *form) != 0)
        ++i;
    if (i < d->cufft->count)
        plan = plans[i];
    else {
        if (d->cufft->count == MOST_PLANS)
            code = drop_plan(d);
        if (code == GA_NO_ERROR)
            code = make_plan(d, &plan);
        if (code == GA_MEMORY_ERROR) {
            pool_trim(ctx);
            code = make_plan(d, &plan);
        }
        if (code != GA_NO_ERROR)
            return code;
        i = d->cufft->count++;
    }
    memmove(plans + 1, plans, i * sizeof *plans);
    *plans = plan;
    return GA_NO_ERROR;
}

/* ---- transforms ---- */

static int execute(const struct plan *plan, void *from, void *to)
{
    const fft_form *form = &plan->form;
    int direction = form->kind == FFT_PAIRS ? CUFFT_FORWARD : CUFFT_INVERSE;
    switch (type_of(form)) {
    case CUFFT_R2C: FFT_CHECK(form, cufftExecR2C, plan->handle, from, to); break;
    case CUFFT_D2Z: FFT_CHECK(form, cufftExecD2Z, plan->handle, from, to); break;
    case CUFFT_C2R: FFT_CHECK(form, cufftExecC2R, plan->handle, from, to); break;
    case CUFFT_Z2D: FFT_CHECK(form, cufftExecZ2D, plan->handle, from, to); break;
    case CUFFT_C2C: FFT_CHECK(form, cufftExecC2C, plan->handle, from, to, direction); break;
    case CUFFT_Z2Z: FFT_CHECK(form, cufftExecZ2Z, plan->handle, from, to, direction); break;
    }
    return GA_NO_ERROR;
}

static int transform(gpucontext *ctx, const fft_form *form, device_memory from, device_memory to)
{
    cuda_device *d = (cuda_device *)ctx->device;
    struct plan *plan;
    CUDA_ENTER(d);
    int code = find_plan(ctx, form, &plan);
    if (code != GA_NO_ERROR)
        return code;
    gpudata *workspace = plan->workspace ? gpudata_alloc(ctx, plan->workspace, NULL, 0, &code) : NULL;
    if (code != GA_NO_ERROR)
        return code;
    cufftResult result =
        workspace ? fft.cufftSetWorkArea(plan->handle, (void *)(uintptr_t)workspace->memory) : CUFFT_SUCCESS;
    code = result == CUFFT_SUCCESS ? execute(plan, (void *)(uintptr_t)from, (void *)(uintptr_t)to)
                                   : call_failed(result, "cufftSetWorkArea", form);
    gpudata_release(workspace);
    return code;
}

int cufft_transform(gpucontext *ctx, const fft_form *form, device_memory from, device_memory to)
{
    size_t version;
    int code = cufft_open(ctx, &version);
    if (code == GA_NO_ERROR)
        code = queue_flush(ctx);
    if (code != GA_NO_ERROR)
        return context_checked(ctx, code);
    code = transform(ctx, form, from, to);
    if (code == GA_NO_ERROR && ctx->flags & GA_CTX_CHECKED)
        code = ctx->table->sync(ctx->device);
    return context_checked(ctx, code);
}
