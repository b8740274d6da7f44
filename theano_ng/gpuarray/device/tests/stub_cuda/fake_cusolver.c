/* A fake libcusolver, for machines that have no CUDA device. It is linked with the fake driver (fake_cuda.c).
 *
 * It checks handles, streams, sizes, memory and workspaces. It computes by plain loops, in stream order and in the
 * conventions of LAPACK: matrices by columns, one triangle of symmetric matrices, packed reflectors, numbers in `info`.
 *
 * -DFAKE_WITHOUT_SVD leaves out gesvd, as a library of another kind does. */
#include <math.h>

#include "cusolver_api.h"
#include "fake_driver.h"

/* ---- state that tests set and read ---- */

struct fake_solver {
    int version[3];
    int handles;     /* number of existing handles */
    int workspace;   /* elements that each routine needs */
    int wrong;       /* a number that is stored in `info`, if it is not 0 */
    int ignores_nan; /* potrf, gesvd and syevd do not report NaN */
};

static struct fake_solver state;

struct fake_solver *fake_solver_state(void)
{
    return &state;
}

void fake_solver_reset(void)
{
    state = (struct fake_solver){.version = {11, 7, 1}, .workspace = 19, .ignores_nan = 1};
}

enum { HANDLE = 0x501e7 };

struct cusolverDnContext {
    int kind;
    struct CUctx_st *context;
    struct CUstream_st *stream;
};

int cusolverGetProperty(int part, int *value)
{
    *value = state.version[part];
    return 0;
}

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle)
{
    CALL("cusolverDnCreate");
    if (!fake_current())
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    (*handle)->kind = HANDLE;
    (*handle)->context = fake_current();
    ++state.handles;
    return 0;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle)
{
    if (!handle || handle->kind != HANDLE)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    handle->kind = 0;
    free(handle);
    --state.handles;
    return 0;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, struct CUstream_st *stream)
{
    CALL("cusolverDnSetStream");
    handle->stream = stream;
    return 0;
}

/* ---- the algorithms, on compact matrices of doubles by columns ---- */

#define A(i, j) a[(i) + (long)(j) * m]

static int factor_lu(double *a, long m, int *pivots)
{
    int info = 0;
    for (long k = 0; k < m; ++k) {
        long best = k;
        for (long i = k + 1; i < m; ++i)
            if (fabs(A(i, k)) > fabs(A(best, k)))
                best = i;
        pivots[k] = (int)best + 1;
        if (A(best, k) == 0) {
            info = info ? info : (int)k + 1;
            continue;
        }
        for (long j = 0; j < m; ++j) {
            double value = A(k, j);
            A(k, j) = A(best, j);
            A(best, j) = value;
        }
        for (long i = k + 1; i < m; ++i) {
            A(i, k) /= A(k, k);
            for (long j = k + 1; j < m; ++j)
                A(i, j) -= A(i, k) * A(k, j);
        }
    }
    return info;
}

/* Solve a system with a triangle of a matrix, or with its transpose, for one right-hand side. */
static void substitute(const double *a, long m, int upper, int transposed, int unit, double *x)
{
    int backwards = upper != transposed;
    for (long step = 0; step < m; ++step) {
        long i = backwards ? m - 1 - step : step;
        for (long k = 0; k < step; ++k) {
            long j = backwards ? m - 1 - k : k;
            x[i] -= (transposed ? A(j, i) : A(i, j)) * x[j];
        }
        if (!unit)
            x[i] /= A(i, i);
    }
}

static void swap(double *x, long i, long j)
{
    double value = x[i];
    x[i] = x[j];
    x[j] = value;
}

static void solve_lu(const double *a, long m, int transposed, const int *pivots, double *x)
{
    for (long i = 0; i < m && !transposed; ++i)
        swap(x, i, pivots[i] - 1);
    substitute(a, m, transposed, transposed, !transposed, x);
    substitute(a, m, !transposed, transposed, transposed, x);
    for (long i = m - 1; i >= 0 && transposed; --i)
        swap(x, i, pivots[i] - 1);
}

/* Factorize the lower triangle. Return the order of a minor that is not positive, or 0. */
static int factor_cholesky(double *a, long m)
{
    for (long k = 0; k < m; ++k) {
        for (long j = 0; j < k; ++j)
            A(k, k) -= A(k, j) * A(k, j);
        if (state.ignores_nan ? A(k, k) <= 0 : !(A(k, k) > 0))
            return (int)k + 1;
        A(k, k) = sqrt(A(k, k));
        for (long i = k + 1; i < m; ++i) {
            for (long j = 0; j < k; ++j)
                A(i, k) -= A(i, j) * A(k, j);
            A(i, k) /= A(k, k);
        }
    }
    return 0;
}

/* Apply the reflector that is stored below the diagonal of column k to column j. */
static void reflect(double *a, long m, long k, double tau, long j)
{
    double sum = A(k, j);
    for (long i = k + 1; i < m; ++i)
        sum += A(i, k) * A(i, j);
    A(k, j) -= tau * sum;
    for (long i = k + 1; i < m; ++i)
        A(i, j) -= tau * sum * A(i, k);
}

static void factor_qr(double *a, long m, long n, double *tau)
{
    for (long k = 0; k < m && k < n; ++k) {
        double norm = 0, alpha = A(k, k);
        for (long i = k + 1; i < m; ++i)
            norm = hypot(norm, A(i, k));
        tau[k] = 0;
        if (norm != 0) {
            double beta = -copysign(hypot(alpha, norm), alpha);
            tau[k] = (beta - alpha) / beta;
            for (long i = k + 1; i < m; ++i)
                A(i, k) /= alpha - beta;
            for (long j = k + 1; j < n; ++j)
                reflect(a, m, k, tau[k], j);
            A(k, k) = beta;
        }
    }
}

/* Replace reflectors by the columns of Q. */
static void columns_of_q(double *a, long m, long n, const double *tau)
{
    for (long k = n - 1; k >= 0; --k) {
        for (long j = k + 1; j < n; ++j) {
            A(k, j) = 0;
            reflect(a, m, k, tau[k], j);
        }
        for (long i = k + 1; i < m; ++i)
            A(i, k) *= -tau[k];
        A(k, k) = 1 - tau[k];
        for (long i = 0; i < k; ++i)
            A(i, k) = 0;
    }
}

/* Rotate columns p and q. */
static void rotate(double *a, long m, long p, long q, double c, double s)
{
    for (long i = 0; i < m; ++i) {
        double x = A(i, p), y = A(i, q);
        A(i, p) = c * x - s * y;
        A(i, q) = s * x + c * y;
    }
}

/* Make the columns of a (m, n) orthogonal by rotations, which v (n, n) collects: one-sided Jacobi. */
static void make_orthogonal(double *a, long m, long n, double *v)
{
    for (int sweep = 0; sweep < 60; ++sweep)
        for (long p = 0; p < n; ++p)
            for (long q = p + 1; q < n; ++q) {
                double pp = 0, qq = 0, pq = 0;
                for (long i = 0; i < m; ++i) {
                    pp += A(i, p) * A(i, p);
                    qq += A(i, q) * A(i, q);
                    pq += A(i, p) * A(i, q);
                }
                if (fabs(pq) <= 1e-17 * sqrt(pp * qq))
                    continue;
                double zeta = (qq - pp) / (2 * pq);
                double t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta)), c = 1 / sqrt(1 + t * t);
                rotate(a, m, p, q, c, c * t);
                rotate(v, n, p, q, c, c * t);
            }
}

/* Replace column k by a unit vector that is orthogonal to the columns before it. */
static void complete(double *a, long m, long k)
{
    for (long trial = 0; trial < m; ++trial) {
        double norm = 0;
        for (long i = 0; i < m; ++i)
            A(i, k) = i == trial;
        for (int twice = 0; twice < 2; ++twice)
            for (long j = 0; j < k; ++j) {
                double sum = 0;
                for (long i = 0; i < m; ++i)
                    sum += A(i, j) * A(i, k);
                for (long i = 0; i < m; ++i)
                    A(i, k) -= sum * A(i, j);
            }
        for (long i = 0; i < m; ++i)
            norm = hypot(norm, A(i, k));
        if (norm > 0.1) {
            for (long i = 0; i < m; ++i)
                A(i, k) /= norm;
            return;
        }
    }
}

/* Compute the singular values s of a (m, n), m >= n, in descending order, with all left vectors u (m, m) and right
 * vectors v (n, n). */
static void singular_values(double *a, long m, long n, double *u, double *s, double *v)
{
    for (long i = 0; i < n * n; ++i)
        v[i] = i % (n + 1) == 0;
    make_orthogonal(a, m, n, v);
    for (long k = 0; k < n; ++k) {
        long best = k;
        double largest = -1;
        for (long j = k; j < n; ++j) {
            double norm = 0;
            for (long i = 0; i < m; ++i)
                norm = hypot(norm, A(i, j));
            if (norm > largest || norm != norm) {
                largest = norm;
                best = j;
            }
        }
        for (long i = 0; i < m; ++i)
            swap(a, i + k * m, i + best * m);
        for (long i = 0; i < n; ++i)
            swap(v, i + k * n, i + best * n);
        s[k] = largest;
        for (long i = 0; i < m; ++i)
            u[i + k * m] = A(i, k) / largest;
        if (largest < 1e-200)
            complete(u, m, k);
    }
    for (long k = n; k < m; ++k)
        complete(u, m, k);
}

/* Compute the eigenvalues w of a symmetric matrix in ascending order, and its eigenvectors v: Jacobi's rotations. */
static void eigenvalues(double *a, long m, double *w, double *v)
{
    for (long i = 0; i < m * m; ++i)
        v[i] = i % (m + 1) == 0;
    for (int sweep = 0; sweep < 60; ++sweep)
        for (long p = 0; p < m; ++p)
            for (long q = p + 1; q < m; ++q) {
                if (A(p, q) == 0)
                    continue;
                double theta = (A(q, q) - A(p, p)) / (2 * A(p, q));
                double t = copysign(1, theta) / (fabs(theta) + sqrt(1 + theta * theta)), c = 1 / sqrt(1 + t * t);
                rotate(a, m, p, q, c, c * t);
                for (long i = 0; i < m; ++i) {
                    double x = A(p, i), y = A(q, i);
                    A(p, i) = c * x - c * t * y;
                    A(q, i) = c * t * x + c * y;
                }
                rotate(v, m, p, q, c, c * t);
            }
    for (long k = 0; k < m; ++k) {
        long best = k;
        for (long j = k + 1; j < m; ++j)
            if (A(j, j) < A(best, best))
                best = j;
        swap(a, k * (m + 1), best * (m + 1));
        for (long i = 0; i < m; ++i)
            swap(v, i + k * m, i + best * m);
        w[k] = A(k, k);
    }
}

#undef A

/* ---- deferred calls ---- */

struct work {
    int is_double, upper, transposed, vectors;
    char job;
    long m, n, k, leading, other_leading, size;
    void *a, *b, *s, *u, *vt, *work;
    int *pivots, *info;
};

static double *load(const void *at, int is_double, long m, long n, long leading)
{
    double *made = malloc((size_t)(m * n) * sizeof *made);
    for (long j = 0; j < n; ++j)
        for (long i = 0; i < m; ++i)
            made[i + j * m] = get(at, is_double, i + j * leading);
    return made;
}

/* Store a compact matrix, and free it. */
static void store(double *made, void *at, int is_double, long m, long n, long leading)
{
    for (long j = 0; j < n; ++j)
        for (long i = 0; i < m; ++i)
            put(at, is_double, i + j * leading, made[i + j * m]);
    free(made);
}

/* Overwrite the workspace, so that tests detect memory that is used for something else. */
static void use_workspace(const struct work *w)
{
    for (long i = 0; i < w->size; ++i)
        put(w->work, w->is_double, i, NAN);
}

static void report(const struct work *w, int info)
{
    *w->info = state.wrong ? state.wrong : info;
}

static void run_getrf(void *arguments)
{
    struct work *w = arguments;
    double *a = load(w->a, w->is_double, w->n, w->n, w->leading);
    use_workspace(w);
    report(w, factor_lu(a, w->n, w->pivots));
    store(a, w->a, w->is_double, w->n, w->n, w->leading);
}

static void run_getrs(void *arguments)
{
    struct work *w = arguments;
    double *a = load(w->a, w->is_double, w->n, w->n, w->leading);
    double *b = load(w->b, w->is_double, w->n, w->k, w->other_leading);
    for (long j = 0; j < w->k; ++j)
        solve_lu(a, w->n, w->transposed, w->pivots, b + j * w->n);
    report(w, 0);
    store(b, w->b, w->is_double, w->n, w->k, w->other_leading);
    free(a);
}

/* Load a triangle as the lower triangle of a compact matrix. */
static double *load_triangle(const struct work *w)
{
    double *a = malloc((size_t)(w->n * w->n) * sizeof *a);
    for (long j = 0; j < w->n; ++j)
        for (long i = 0; i < w->n; ++i)
            a[i + j * w->n] = i < j ? 0 : get(w->a, w->is_double, w->upper ? j + i * w->leading : i + j * w->leading);
    return a;
}

static void run_potrf(void *arguments)
{
    struct work *w = arguments;
    double *a = load_triangle(w);
    use_workspace(w);
    report(w, factor_cholesky(a, w->n));
    for (long j = 0; j < w->n; ++j)
        for (long i = j; i < w->n; ++i)
            put(w->a, w->is_double, w->upper ? j + i * w->leading : i + j * w->leading, a[i + j * w->n]);
    free(a);
}

static void run_potrs(void *arguments)
{
    struct work *w = arguments;
    double *a = load_triangle(w), *b = load(w->b, w->is_double, w->n, w->k, w->other_leading);
    for (long j = 0; j < w->k; ++j) {
        substitute(a, w->n, 0, 0, 0, b + j * w->n);
        substitute(a, w->n, 0, 1, 0, b + j * w->n);
    }
    report(w, 0);
    store(b, w->b, w->is_double, w->n, w->k, w->other_leading);
    free(a);
}

static void run_geqrf(void *arguments)
{
    struct work *w = arguments;
    long k = w->m < w->n ? w->m : w->n;
    double *a = load(w->a, w->is_double, w->m, w->n, w->leading), *tau = malloc((size_t)k * sizeof *tau);
    use_workspace(w);
    factor_qr(a, w->m, w->n, tau);
    report(w, 0);
    store(a, w->a, w->is_double, w->m, w->n, w->leading);
    store(tau, w->b, w->is_double, k, 1, k);
}

static void run_orgqr(void *arguments)
{
    struct work *w = arguments;
    double *a = load(w->a, w->is_double, w->m, w->n, w->leading), *tau = load(w->b, w->is_double, w->n, 1, w->n);
    use_workspace(w);
    columns_of_q(a, w->m, w->n, tau);
    report(w, 0);
    store(a, w->a, w->is_double, w->m, w->n, w->leading);
    free(tau);
}

static void run_gesvd(void *arguments)
{
    struct work *w = arguments;
    long m = w->m, n = w->n;
    double *a = load(w->a, w->is_double, m, n, w->leading), *u = calloc((size_t)(m * m), sizeof *u);
    double *s = malloc((size_t)n * sizeof *s), *v = malloc((size_t)(n * n) * sizeof *v);
    double *vt = malloc((size_t)(n * n) * sizeof *vt);
    use_workspace(w);
    singular_values(a, m, n, u, s, v);
    report(w, s[0] == s[0] || state.ignores_nan ? 0 : 1);
    for (long i = 0; i < m * n; ++i) /* the matrix is destroyed */
        a[i] = NAN;
    for (long i = 0; i < n * n; ++i)
        vt[i] = v[i / n + i % n * n];
    if (w->job != 'N') {
        store(u, w->u, w->is_double, m, w->job == 'A' ? m : n, w->other_leading);
        store(vt, w->vt, w->is_double, n, n, w->k);
    }
    else {
        free(u);
        free(vt);
    }
    store(a, w->a, w->is_double, m, n, w->leading);
    store(s, w->s, w->is_double, n, 1, n);
    free(v);
}

static void run_syevd(void *arguments)
{
    struct work *w = arguments;
    long n = w->n;
    double *a = load_triangle(w), *values = malloc((size_t)n * sizeof *values),
           *v = malloc((size_t)(n * n) * sizeof *v);
    for (long j = 0; j < n; ++j)
        for (long i = 0; i < j; ++i)
            a[i + j * n] = a[j + i * n];
    use_workspace(w);
    eigenvalues(a, n, values, v);
    report(w, values[0] == values[0] || state.ignores_nan ? 0 : 1);
    for (long i = 0; i < n * n && !w->vectors; ++i)
        v[i] = NAN;
    store(v, w->a, w->is_double, n, n, w->leading);
    store(values, w->s, w->is_double, n, 1, n);
    free(a);
}

/* ---- checks ---- */

static int is_workspace(const struct work *w)
{
    return w->size >= state.workspace && fake_is_memory(w->work, (size_t)w->size * size_of(w->is_double));
}

static int submit(cusolverDnHandle_t handle, const char *name, void (*run)(void *), struct work *w)
{
    if (!handle || handle->kind != HANDLE || handle->context != fake_current())
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (!fake_is_memory(w->info, sizeof *w->info))
        return CUSOLVER_STATUS_INVALID_VALUE;
    note("cusolverDn%c%s %ld %ld", w->is_double ? 'D' : 'S', name, w->m, w->n);
    return fake_enqueue(handle->stream, run, w, sizeof *w) ? CUSOLVER_STATUS_EXECUTION_FAILED : 0;
}

static int size_is(int *size)
{
    *size = state.workspace;
    return 0;
}

#define REFUSE_UNLESS(condition) \
    if (!(condition))            \
    return CUSOLVER_STATUS_INVALID_VALUE

#define D 0
#define NAME(name) cusolverDnS##name
#define TEXT(name) "cusolverDnS" name
#include "fake_cusolver_routines.h"
#undef D
#undef NAME
#undef TEXT
#define D 1
#define NAME(name) cusolverDnD##name
#define TEXT(name) "cusolverDnD" name
#include "fake_cusolver_routines.h"
