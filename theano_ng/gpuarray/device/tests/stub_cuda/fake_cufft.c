/* A fake libcufft, for machines that have no CUDA device. It is linked with the fake driver (fake_cuda.c).
 *
 * It checks plans, streams, layouts, memory and workspaces, and computes sums of exponentials by plain loops, in stream
 * order. Transforms to real arrays destroy their input, and give NaN if it is not conjugate-symmetric.
 *
 * -DFAKE_WITHOUT_INVERSE leaves out cufftExecZ2D, as a library of another kind does. */
#include <complex.h>
#include <math.h>

#include "cufft_api.h"
#include "fake_driver.h"

enum { MOST_PLANS = 200, MOST_AXES = 3 };

struct fake_fft {
    int version[3];
    int plans;        /* number of existing plans */
    size_t workspace; /* bytes that each plan needs */
};

static struct fake_fft state;

struct fake_fft *fake_fft_state(void)
{
    return &state;
}

static struct plan {
    int exists, is_made, rank, type, automatic;
    struct CUctx_st *context;
    struct CUstream_st *stream;
    long long n[MOST_AXES], stride, step, batch;
    void *workspace;
} plans[MOST_PLANS];

void fake_fft_reset(void)
{
    state = (struct fake_fft){.version = {11, 3, 3}, .workspace = 512};
    memset(plans, 0, sizeof plans);
}

int cufftGetProperty(int part, int *value)
{
    *value = state.version[part];
    return 0;
}

cufftResult cufftCreate(cufftHandle *handle)
{
    CALL("cufftCreate");
    for (int i = 0; i < MOST_PLANS; ++i)
        if (!plans[i].exists) {
            plans[i] = (struct plan){.exists = 1, .automatic = 1, .context = fake_current()};
            *handle = i;
            ++state.plans;
            return fake_current() ? 0 : CUFFT_SETUP_FAILED;
        }
    return CUFFT_SETUP_FAILED;
}

static struct plan *plan_of(cufftHandle handle)
{
    return handle >= 0 && handle < MOST_PLANS && plans[handle].exists ? &plans[handle] : NULL;
}

cufftResult cufftDestroy(cufftHandle handle)
{
    if (!plan_of(handle))
        return CUFFT_INVALID_PLAN;
    note("cufftDestroy");
    plans[handle].exists = 0;
    --state.plans;
    return 0;
}

cufftResult cufftSetStream(cufftHandle handle, struct CUstream_st *stream)
{
    CALL("cufftSetStream");
    plan_of(handle)->stream = stream;
    return 0;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int on)
{
    CALL("cufftSetAutoAllocation");
    plan_of(handle)->automatic = on;
    return 0;
}

cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long *n, long long *inembed, long long istride,
                                long long idist, long long *onembed, long long ostride, long long odist, int type,
                                long long batch, size_t *workspace)
{
    struct plan *plan = plan_of(handle);
    CALL("cufftMakePlanMany64");
    note("cufftMakePlanMany64 %d %x %lld", rank, type, batch);
    if (!plan || plan->is_made)
        return CUFFT_INVALID_PLAN;
    if (rank < 1 || rank > MOST_AXES || batch < 1 || !inembed != !onembed)
        return CUFFT_INVALID_VALUE;
    for (int i = 0; i < rank; ++i) {
        if (n[i] < 1)
            return CUFFT_INVALID_SIZE;
        plan->n[i] = n[i];
    }
    int of_pairs = type == CUFFT_C2C || type == CUFFT_Z2Z;
    if (inembed && (!of_pairs || istride != ostride || idist != odist || istride < 1 || idist < 1))
        return CUFFT_INVALID_VALUE;
    plan->is_made = 1;
    plan->rank = rank;
    plan->type = type;
    plan->batch = batch;
    plan->stride = inembed ? istride : 1;
    plan->step = inembed ? idist : 0;
    *workspace = state.workspace;
    return 0;
}

cufftResult cufftSetWorkArea(cufftHandle handle, void *workspace)
{
    CALL("cufftSetWorkArea");
    plan_of(handle)->workspace = workspace;
    return 0;
}

/* ---- the computation ---- */

struct work {
    struct plan plan;
    int direction;
    void *from, *to;
};

static int is_double(int type)
{
    return type == CUFFT_D2Z || type == CUFFT_Z2D || type == CUFFT_Z2Z;
}

/* Transform the axes of a compact array one after the other. */
static void transform(const struct plan *p, double complex *x, int direction)
{
    long total = 1;
    for (int axis = 0; axis < p->rank; ++axis)
        total *= p->n[axis];
    double complex *sums = malloc((size_t)total * sizeof *sums);
    long inner = 1;
    for (int axis = p->rank - 1; axis >= 0; inner *= p->n[axis--]) {
        long n = p->n[axis];
        for (long i = 0; i < total; ++i) {
            long k = i / inner % n, first = i - k * inner;
            sums[i] = 0;
            for (long j = 0; j < n; ++j)
                sums[i] += x[first + j * inner] * cexp(direction * 2 * M_PI * I * (double)(k * j % n) / (double)n);
        }
        memcpy(x, sums, (size_t)total * sizeof *x);
    }
    free(sums);
}

/* The place of the element with the opposite index along each axis, in a compact array */
static long opposite(const struct plan *p, long i)
{
    long place = 0, inner = 1;
    for (int axis = p->rank - 1; axis >= 0; inner *= p->n[axis--])
        place += (p->n[axis] - i / inner % p->n[axis]) % p->n[axis] * inner;
    return place;
}

static void run(void *arguments)
{
    struct work *w = arguments;
    const struct plan *p = &w->plan;
    int d = is_double(p->type), from_real = p->type == CUFFT_R2C || p->type == CUFFT_D2Z,
        to_real = p->type == CUFFT_C2R || p->type == CUFFT_Z2D;
    long total = 1, last = p->n[p->rank - 1], half = last / 2 + 1;
    for (int axis = 0; axis < p->rank; ++axis)
        total *= p->n[axis];
    long halves = total / last * half;
    double complex *x = malloc((size_t)total * sizeof *x);
    if (p->workspace)
        memset(p->workspace, 0xff, state.workspace);
    for (long batch = 0; batch < p->batch; ++batch) {
        long step = p->step ? p->step : from_real || to_real ? halves : total;
        for (long i = 0; i < total; ++i) {
            long row = i / last, column = i % last, at = batch * step + i * p->stride;
            if (from_real)
                x[i] = get(w->from, d, batch * total + i);
            else {
                if (to_real)
                    at = batch * halves + row * half + column;
                if (!to_real || column < half)
                    x[i] = get(w->from, d, 2 * at) + I * get(w->from, d, 2 * at + 1);
            }
        }
        double largest = 0;
        for (long i = 0; i < total && to_real; ++i)
            if (i % last < half)
                largest = fmax(largest, cabs(x[i]));
        for (long i = 0; i < total && to_real; ++i) {
            long other = opposite(p, i);
            if (i % last >= half)
                x[i] = conj(x[other]);
            else if (other % last < half && cabs(x[i] - conj(x[other])) > 1e-5 * largest)
                x[i] = NAN;
        }
        transform(p, x, w->direction);
        for (long i = 0; i < total; ++i) {
            long row = i / last, column = i % last, at = batch * step + i * p->stride;
            if (to_real) {
                put(w->to, d, batch * total + i, creal(x[i]));
                continue;
            }
            if (from_real && column >= half)
                continue;
            if (from_real)
                at = batch * halves + row * half + column;
            put(w->to, d, 2 * at, creal(x[i]));
            put(w->to, d, 2 * at + 1, cimag(x[i]));
        }
    }
    for (long i = 0; i < 2 * halves * p->batch && to_real; ++i)
        put(w->from, d, i, NAN);
    free(x);
}

static int execute(cufftHandle handle, int type, void *from, void *to, int direction)
{
    struct plan *p = plan_of(handle);
    if (!p || !p->is_made || p->type != type || p->context != fake_current())
        return CUFFT_INVALID_PLAN;
    size_t pair = 2 * size_of(is_double(type)), count = (size_t)p->batch;
    for (int axis = 0; axis < p->rank; ++axis)
        count *= (size_t)p->n[axis];
    size_t halves = count / (size_t)p->n[p->rank - 1] * (size_t)(p->n[p->rank - 1] / 2 + 1);
    int from_real = type == CUFFT_R2C || type == CUFFT_D2Z, to_real = type == CUFFT_C2R || type == CUFFT_Z2D;
    if (p->step)
        count = (size_t)((p->batch - 1) * p->step + (p->n[0] - 1) * p->stride + 1);
    size_t from_size = from_real ? count * pair / 2 : to_real ? halves * pair : count * pair;
    size_t to_size = to_real ? count * pair / 2 : from_real ? halves * pair : count * pair;
    if ((size_t)from % pair || (size_t)to % pair || !fake_is_memory(from, from_size) || !fake_is_memory(to, to_size)
        || ((from_real || to_real) && from == to))
        return CUFFT_INVALID_VALUE;
    if (state.workspace && (p->automatic || !fake_is_memory(p->workspace, state.workspace)))
        return CUFFT_INTERNAL_ERROR;
    note("cufftExec %x %lld %d", type, p->batch, direction);
    struct work w = {*p, direction, from, to};
    return fake_enqueue(p->stream, run, &w, sizeof w) ? CUFFT_EXEC_FAILED : 0;
}

cufftResult cufftExecR2C(cufftHandle handle, void *real, void *pairs)
{
    CALL("cufftExecR2C");
    return execute(handle, CUFFT_R2C, real, pairs, CUFFT_FORWARD);
}

cufftResult cufftExecD2Z(cufftHandle handle, void *real, void *pairs)
{
    CALL("cufftExecD2Z");
    return execute(handle, CUFFT_D2Z, real, pairs, CUFFT_FORWARD);
}

cufftResult cufftExecC2R(cufftHandle handle, void *pairs, void *real)
{
    CALL("cufftExecC2R");
    return execute(handle, CUFFT_C2R, pairs, real, CUFFT_INVERSE);
}

#ifndef FAKE_WITHOUT_INVERSE
cufftResult cufftExecZ2D(cufftHandle handle, void *pairs, void *real)
{
    CALL("cufftExecZ2D");
    return execute(handle, CUFFT_Z2D, pairs, real, CUFFT_INVERSE);
}
#endif

cufftResult cufftExecC2C(cufftHandle handle, void *from, void *to, int direction)
{
    CALL("cufftExecC2C");
    return execute(handle, CUFFT_C2C, from, to, direction);
}

cufftResult cufftExecZ2Z(cufftHandle handle, void *from, void *to, int direction)
{
    CALL("cufftExecZ2Z");
    return execute(handle, CUFFT_Z2Z, from, to, direction);
}
