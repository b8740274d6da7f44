"""Kernels of connectionist temporal classification: costs and gradients by the forward-backward algorithm.

The algorithm is that of the Op for the host (tensor/native/networks/ctc.c): the states of an example are its labels with
a blank before, between and after them, and sums of probabilities are computed in the log domain. Three kernels run one
after the other: `norms` computes the logarithms of the sums of softmax, `paths` goes through the time steps of each
example, and `gradients` computes the gradient of each time step. A group of threads computes a time step (`norms`,
`gradients`) or an example (`paths`). Sums have a fixed order, so the same input gives the same result.
"""

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

DTYPES = ("float16", "float32", "float64")

# The maximum number of threads in a group
GROUP = 256

# The arguments of all kernels. The strides of x are in bytes. `work` contains, for each time step of each example, the
# maximum of the activations, and the logarithm of the sum of softmax. At the offset `totals` are the logarithms of the
# total probabilities of the examples, at `backward` two rows of states for each example, and at `forward` `kept` rows
# of `states` elements for each example. `examples` contains a record for each example: the number of time steps, the
# number of labels, and three lists of `labels` elements: the labels, the place of the next equal label (or -1), and
# whether no equal label comes before.
_PARAMETERS = """GLOBAL_MEM const char *x, ga_size x_at, ga_ssize x0, ga_ssize x1, ga_ssize x2,
    GLOBAL_MEM %(real)s *work, ga_size totals, ga_size backward, ga_size forward,
    GLOBAL_MEM const ga_long *examples, ga_size labels, ga_size states, ga_size kept, ga_size time, ga_size batch, ga_size symbols"""
_TYPES = ("*", SIZE, SSIZE, SSIZE, SSIZE, "*", SIZE, SIZE, SIZE, "*", *(SIZE,) * 6)

_LOG_SUM = """
/* log(exp(a) + exp(b)) */
WITHIN_KERNEL %(real)s log_sum_%(real)s(%(real)s a, %(real)s b)
{
    const %(real)s high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}
"""

_BEGIN_STEP = """
    for (ga_size row = GID_0; row < time * batch; row += GDIM_0) {
        ga_size t = row;
        const ga_size b = ga_split(&t, batch);
        GLOBAL_MEM const ga_long *example = examples + b * (2 + 3 * labels);
        GLOBAL_MEM const char *from = x + x_at + (ga_ssize)t * x0 + (ga_ssize)b * x1;
"""

_REDUCE = """part[LID_0] = %(value)s;
        for (ga_uint step = LDIM_0 / 2; step > 0; step /= 2) {
            local_barrier();
            if (LID_0 < step)
                %(combine)s
        }
        local_barrier();
        %(value)s = part[0];
        local_barrier();"""

_NORMS = (
    """
KERNEL void KERNEL_NAME(%(parameters)s)
{
    LOCAL_MEM %(real)s part[%(group)d];"""
    + _BEGIN_STEP
    + """        /* Steps after the end of an example have no elements. No barrier is inside a condition. */
        const ga_size count = (ga_long)t < example[0] ? symbols : 0;
        %(real)s most = -INFINITY, sum = 0;
        for (ga_size k = LID_0; k < count; k += LDIM_0) {
            const %(real)s value = %(load)s;
            most = value > most ? value : most;
        }
        %(largest)s
        for (ga_size k = LID_0; k < count; k += LDIM_0)
            sum += exp(%(load)s - most);
        %(total)s
        if (LID_0 == 0) {
            work[2 * row] = most;
            work[2 * row + 1] = log(sum);
        }
    }
}
"""
)

# The logarithm of the probability of the symbol of state s in step t, and whether a path can skip the blank before state
# s: between different labels.
_EMITTED = """((%(load)s - work[2 * (t * batch + b)]) - work[2 * (t * batch + b) + 1])"""
_SKIPS = "((%(s)s) & 1 && (%(s)s) >= 3 && label[(%(s)s) / 2] != label[(%(s)s) / 2 - 1])"

_PATHS = """
KERNEL void KERNEL_NAME(%(parameters)s, GLOBAL_MEM char *costs, ga_size costs_at, ga_uint with_gradient)
{
    for (ga_size b = GID_0; b < batch; b += GDIM_0) {
        GLOBAL_MEM const ga_long *example = examples + b * (2 + 3 * labels), *label = example + 2;
        const ga_size steps = (ga_size)example[0], own = 2 * (ga_size)example[1] + 1;
        GLOBAL_MEM %(real)s *rows = work + forward + b * kept * states, *here = rows, *before = rows;
        GLOBAL_MEM const char *from = x + x_at + (ga_ssize)b * x1;
        for (ga_size t = 0; t < steps; ++t, from += x0) {
            before = here;
            here = rows + t %% kept * states;
            for (ga_size s = LID_0; s < own; s += LDIM_0) {
                const ga_size k = s & 1 ? (ga_size)label[s / 2] : 0;
                %(real)s sum = s < 2 ? 0 : -INFINITY;
                if (t > 0) {
                    sum = before[s];
                    if (s > 0)
                        sum = log_sum_%(real)s(sum, before[s - 1]);
                    if (%(skips)s)
                        sum = log_sum_%(real)s(sum, before[s - 2]);
                }
                here[s] = sum + %(emitted)s;
            }
            local_barrier();
        }
        %(real)s total = own == 1 ? 0 : -INFINITY;
        if (steps > 0)
            total = own == 1 ? here[0] : log_sum_%(real)s(here[own - 1], here[own - 2]);
        local_barrier(); /* the elements from which the total is computed are overwritten below */
        if (LID_0 == 0) {
            work[totals + b] = total;
            %(store_cost)s
        }
        /* Replace the probabilities of the paths to each state by the probabilities of all paths through it. `later`: the
         * probabilities of the paths from each state in the next step, with the symbol of this state. */
        for (ga_size t = with_gradient && total != -INFINITY ? steps : 0; t-- > 0;) {
            GLOBAL_MEM %(real)s *now = work + backward + (2 * b + (t & 1)) * states,
                                *later = work + backward + (2 * b + ((t + 1) & 1)) * states;
            from -= x0;
            for (ga_size s = LID_0; s < own; s += LDIM_0) {
                const ga_size k = s & 1 ? (ga_size)label[s / 2] : 0;
                %(real)s sum = s + 2 >= own ? 0 : -INFINITY;
                if (t + 1 < steps) {
                    sum = later[s];
                    if (s + 1 < own)
                        sum = log_sum_%(real)s(sum, later[s + 1]);
                    if (s + 2 < own && %(skips_ahead)s)
                        sum = log_sum_%(real)s(sum, later[s + 2]);
                }
                now[s] = sum + %(emitted)s;
                rows[t * states + s] = exp(rows[t * states + s] + sum - total);
            }
            local_barrier();
        }
    }
}
"""

_GRADIENTS = (
    """
KERNEL void KERNEL_NAME(%(parameters)s, GLOBAL_MEM char *z, ga_size z_at)
{"""
    + _BEGIN_STEP
    + """        GLOBAL_MEM const ga_long *label = example + 2, *next = label + labels, *is_first = next + labels;
        GLOBAL_MEM const %(real)s *through = work + forward + (b * kept + t) * states;
        GLOBAL_MEM %(kind)s *to = (GLOBAL_MEM %(kind)s *)(z + z_at) + row * symbols;
        const ga_long count = example[1];
        const int is_zero = (ga_long)t >= example[0] || work[totals + b] == -INFINITY;
        for (ga_size k = LID_0; k < symbols; k += LDIM_0) {
            const %(real)s value = is_zero ? 0 : %(softmax)s;
            %(store)s
        }
        local_barrier();
        /* Subtract the probabilities of the paths. The last turn is for the blank. */
        for (ga_long l = LID_0; l <= count && !is_zero; l += LDIM_0) {
            %(real)s spent = 0;
            if (l < count && !is_first[l])
                continue;
            if (l == count)
                for (ga_long s = 0; s <= 2 * count; s += 2)
                    spent += through[s];
            else
                for (ga_long place = l; place >= 0; place = next[place])
                    spent += through[2 * place + 1];
            const ga_size k = l == count ? 0 : (ga_size)label[l];
            const %(real)s value = %(softmax)s - spent;
            %(store)s
        }
    }
}
"""
)


def _fields(dtype, real):
    """Return the fields of the texts. Elements have the dtype `dtype`, and sums the dtype `real`."""
    fields = dict(
        real=snippets.element(real),
        kind=snippets.element(dtype),
        group=GROUP,
        load="(%s)%s" % (snippets.element(real), snippets.load(dtype, "from + (ga_ssize)k * x2")),
    )
    fields["parameters"] = _PARAMETERS % fields
    fields["largest"] = _REDUCE % dict(
        value="most", combine="part[LID_0] = part[LID_0 + step] > part[LID_0] ? part[LID_0 + step] : part[LID_0];"
    )
    fields["total"] = _REDUCE % dict(value="sum", combine="part[LID_0] += part[LID_0 + step];")
    fields["emitted"] = _EMITTED % fields
    fields["skips"], fields["skips_ahead"] = _SKIPS % dict(s="s"), _SKIPS % dict(s="s + 2")
    fields["softmax"] = "exp((%s - work[2 * row]) - work[2 * row + 1])" % fields["load"]
    fields["store_cost"] = snippets.store(
        dtype, "costs + costs_at + b * sizeof(%s)" % fields["kind"], "total == 0 ? 0 : -total"
    )
    fields["store"] = snippets.store(dtype, "to + k", "value")
    return fields


def ctc(dtype, context):
    """Return the kernels `norms`, `paths` and `gradients`.

    Parameters
    ----------
    dtype : str
        One of `DTYPES`. Sums have the dtype `snippets.precise`.
    context : GpuContext or None

    Returns
    -------
    tuple of three DeviceKernel
    """
    real = snippets.precise(dtype, context)
    fields = _fields(dtype, real)
    support = (_LOG_SUM % fields,)

    def kernel(text, *more):
        return DeviceKernel(text % fields, (*_TYPES, *more), context, flags_of(dtype, real), support)

    return kernel(_NORMS), kernel(_PATHS, "*", SIZE, "uint32"), kernel(_GRADIENTS, "*", SIZE)


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    return [sample("ctc, %s" % dtype, ctc(dtype, None)) for dtype in DTYPES]
