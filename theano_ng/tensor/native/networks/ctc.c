/* Connectionist temporal classification: costs and gradients by the forward-backward algorithm in the log domain.
 *
 * A. Graves, S. Fernandez, F. Gomez, J. Schmidhuber, Connectionist Temporal Classification, ICML 2006, section 4. The
 * states of an example are its labels with a blank before, between and after them: state s is blank if s is even, else
 * label s / 2. Sums are in double. */
#include "networks/ctc_examples.h"
#include "common/threads.h"
#include <math.h>

typedef struct {
    npy_intp steps, symbols, n_labels;
    const npy_int64 *labels;
    const char *activations; /* activations of step 0; contiguous along the symbols */
    npy_intp step_stride;    /* in bytes */
    char *gradient;          /* gradient of step 0, also with step_stride; NULL: no gradient is requested */
} Example;

static inline double log_sum(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

static inline npy_intp symbol_of(const Example *e, npy_intp state)
{
    return state % 2 ? (npy_intp)e->labels[state / 2] : 0;
}

/* Return 1 if a path can reach a state directly from the state two positions before it. A path must not skip a blank
 * that separates equal labels. */
static inline int skips(const Example *e, npy_intp state)
{
    return state % 2 && state >= 3 && e->labels[state / 2] != e->labels[state / 2 - 1];
}

#define DEFINE_READ(T)                                                                                 \
    /* Compute log softmax of one step. */                                                             \
    static void log_softmax_##T(npy_intp n, const char *from, double *out)                             \
    {                                                                                                  \
        const T *x = (const T *)from;                                                                  \
        double most = -INFINITY, sum = 0;                                                              \
        for (npy_intp k = 0; k < n; ++k)                                                               \
            most = (double)x[k] > most ? (double)x[k] : most;                                          \
        for (npy_intp k = 0; k < n; ++k)                                                               \
            sum += exp((double)x[k] - most);                                                           \
        sum = log(sum);                                                                                \
        for (npy_intp k = 0; k < n; ++k)                                                               \
            out[k] = ((double)x[k] - most) - sum;                                                      \
    }                                                                                                  \
    /* Store the gradient: softmax minus the probability that the paths give to each symbol. */        \
    static void put_gradient_##T(npy_intp n, const double *log_softmax, const double *spent, char *to) \
    {                                                                                                  \
        for (npy_intp k = 0; k < n; ++k)                                                               \
            ((T *)to)[k] = (T)(exp(log_softmax[k]) - spent[k]);                                        \
    }                                                                                                  \
    static void put_zeros_##T(npy_intp n, char *to)                                                    \
    {                                                                                                  \
        memset(to, 0, (size_t)n * sizeof(T));                                                          \
    }
typedef npy_float32 f32;
typedef npy_float64 f64;
DEFINE_READ(f32)
DEFINE_READ(f64)

/* Compute the cost of one example, and store its gradient at e->gradient. Return 0, or -1 without an exception if there
 * is no memory. */
static int solve(const Example *e, int type, double *cost)
{
    npy_intp n = e->symbols, states = 2 * e->n_labels + 1, steps = e->steps;
    size_t room = (size_t)(steps * n + steps * states + 2 * states + n);
    double *memory = malloc((room + 1) * sizeof(double));
    if (memory == NULL)
        return -1;
    double *frames = memory, *forward = frames + steps * n, *now = forward + steps * states, *next = now + states,
           *spent = next + states;
    for (npy_intp t = 0; t < steps; ++t)
        (type == NPY_FLOAT32 ? log_softmax_f32 : log_softmax_f64)(n, e->activations + t * e->step_stride,
                                                                  frames + t * n);
    for (npy_intp t = 0; t < steps; ++t) {
        double *here = forward + t * states, *before = here - states;
        for (npy_intp s = 0; s < states; ++s) {
            double sum;
            if (t == 0)
                sum = s < 2 ? 0 : -INFINITY;
            else {
                sum = before[s];
                if (s > 0)
                    sum = log_sum(sum, before[s - 1]);
                if (skips(e, s))
                    sum = log_sum(sum, before[s - 2]);
            }
            here[s] = sum + frames[t * n + symbol_of(e, s)];
        }
    }
    double total;
    if (steps == 0)
        total = e->n_labels == 0 ? 0 : -INFINITY;
    else {
        const double *last = forward + (steps - 1) * states;
        total = states > 1 ? log_sum(last[states - 1], last[states - 2]) : last[0];
    }
    *cost = total == 0 ? 0 : -total;
    if (e->gradient != NULL && total == -INFINITY)
        /* No path gives these labels. Changes of the activations do not affect the cost, so the gradient is zero. */
        for (npy_intp t = 0; t < steps; ++t)
            (type == NPY_FLOAT32 ? put_zeros_f32 : put_zeros_f64)(n, e->gradient + t * e->step_stride);
    else if (e->gradient != NULL)
        /* now[s]: logarithm of the probability of all continuations of the paths that are in state s at step t. */
        for (npy_intp t = steps - 1; t >= 0; --t) {
            for (npy_intp s = 0; s < states; ++s) {
                if (t == steps - 1) {
                    next[s] = s >= states - 2 ? 0 : -INFINITY;
                    continue;
                }
                const double *frame = frames + (t + 1) * n;
                double sum = now[s] + frame[symbol_of(e, s)];
                if (s + 1 < states)
                    sum = log_sum(sum, now[s + 1] + frame[symbol_of(e, s + 1)]);
                if (s + 2 < states && skips(e, s + 2))
                    sum = log_sum(sum, now[s + 2] + frame[symbol_of(e, s + 2)]);
                next[s] = sum;
            }
            double *other = now;
            now = next;
            next = other;
            memset(spent, 0, (size_t)n * sizeof(double));
            for (npy_intp s = 0; s < states; ++s)
                spent[symbol_of(e, s)] += exp(forward[t * states + s] + now[s] - total);
            (type == NPY_FLOAT32 ? put_gradient_f32 : put_gradient_f64)(n, frames + t * n, spent,
                                                                        e->gradient + t * e->step_stride);
        }
    free(memory);
    return 0;
}

/* Inputs: activations (time, batch, symbol), labels (batch, length), input lengths (batch). Outputs: costs (batch),
 * gradients. */
NATIVE_FUNCTION(ctc, openmp)
static int tng_ctc(int nin, int nout, PyObject **in, PyObject **out, const struct ctc_params *params)
{
    PyArrayObject *given = (PyArrayObject *)in[0], *x = NULL;
    npy_intp time = PyArray_DIM(given, 0), batch = PyArray_DIM(given, 1), symbols = PyArray_DIM(given, 2);
    int type = PyArray_TYPE(given), status = -1, lacking = 0;
    double *costs = NULL;
    Examples e;
    (void)nin;
    if (read_examples(&e, in[1], in[2], time, batch, symbols) < 0
        || (x = (PyArrayObject *)PyArray_FROM_OTF(in[0], type, NPY_ARRAY_CARRAY_RO)) == NULL)
        goto done;
    if ((costs = PyMem_New(double, batch + 1)) == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    npy_intp item = PyArray_ITEMSIZE(x);
    PyArrayObject *cost = native_alloc(out, 1, &batch, type);
    PyArrayObject *gradient = cost == NULL || nout < 2 ? NULL : native_alloc(out + 1, 3, PyArray_DIMS(x), type);
    if (cost == NULL || (nout > 1 && gradient == NULL))
        goto done;
    if (gradient != NULL)
        /* Steps after the end of an example do not affect its cost, so their gradient is zero. */
        memset(PyArray_DATA(gradient), 0, (size_t)PyArray_NBYTES(gradient));
    int threads = params->openmp ? native_threads() : 1;
    (void)threads;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1) reduction(|| : lacking)
#endif
    for (npy_intp i = 0; i < batch; ++i) {
        Example one = {(npy_intp)e.lengths[i],
                       symbols,
                       e.counts[i],
                       e.labels + i * e.width,
                       PyArray_BYTES(x) + i * symbols * item,
                       batch * symbols * item,
                       gradient == NULL ? NULL : PyArray_BYTES(gradient) + i * symbols * item};
        lacking = lacking || solve(&one, type, costs + i) < 0;
    }
    if (lacking) {
        PyErr_NoMemory();
        goto done;
    }
    for (npy_intp i = 0; i < batch; ++i)
        if (type == NPY_FLOAT32)
            ((npy_float32 *)PyArray_DATA(cost))[i] = (npy_float32)costs[i];
        else
            ((npy_float64 *)PyArray_DATA(cost))[i] = costs[i];
    status = 0;
done:
    drop_examples(&e);
    PyMem_Free(costs);
    Py_XDECREF(x);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(ctc), {NULL}};
NATIVE_MODULE(ctc, entries)
