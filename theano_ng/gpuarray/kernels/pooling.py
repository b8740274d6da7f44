"""Kernels of pooling: maxima, sums and averages of windows, and their gradients.

A thread computes a piece of a line of the result: a whole line on processors, and one element on GPUs. The kernels of
gradients compute an element of the image from all windows that contain the element, in a fixed order.
"""

import itertools

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

# The operation that a kernel computes. See native/pooling.c.
POOL, MAX_GRAD, AVERAGE_GRAD, MAX_SUMS, MAX_ROP = range(5)

# The arrays that a kernel reads, in the order of the node's inputs. x: the image; m: the maxima of the windows; g: the
# gradient. z is the result.
READ = {POOL: "x", MAX_GRAD: "xmg", AVERAGE_GRAD: "g", MAX_SUMS: "xmg", MAX_ROP: "xg"}
# The arrays with the shape of the image. The other arrays have one element for each window.
LIKE_IMAGE = {POOL: "x", MAX_GRAD: "xz", AVERAGE_GRAD: "xz", MAX_SUMS: "xg", MAX_ROP: "xg"}


def _nested(dtype, ndim, range_of, pointers, body, single=()):
    """Return nested loops over the pooled axes.

    Parameters
    ----------
    dtype : str
    ndim : int
    range_of : str
        The range of the index ``k<d>`` along the axis d is ``<range_of>_from<d>`` to ``<range_of>_to<d>``.
    pointers : str
        The arrays of which each iteration needs an element. The body gets its address as ``<array>_at``.
    body : str
    single : sequence of int
        Axes along which there is at most one iteration. There is no loop, so that compilers use vectors: if there is no
        iteration, the body runs for the last window, and ``inside<d>`` is false.
    """
    loops = []
    for d in range(ndim):
        text = "for (ga_ssize k%d = %s_from%d; k%d < %s_to%d; ++k%d) "
        if d in single:
            text = "const int inside%d = %s_from%d < %s_to%d; const ga_ssize k%d = inside%d ? %s_from%d : (ga_ssize)out%d - 1; "
        loops.append(text.replace("%s", range_of).replace("%d", str(d)) + "{ ")
    loops = "".join(loop if d not in single else "{ " + loop[:-2] for d, loop in enumerate(loops))
    places = "".join(
        "GLOBAL_MEM const %s *%s_at = %s%s;"
        % (snippets.element(dtype), p, p, "".join(" + k%d * w%d_%s" % (d, d, p) for d in range(ndim)))
        for p in pointers
    )
    return "%s %s %s %s" % (loops, places, body, "}" * ndim)


def _length(mode, d):
    """Return the length of a window along the axis d, as the divisor of an average counts it."""
    if mode == "average_inc_pad":
        return "(first%d + window%d < (ga_ssize)n%d + pad%d ? window%d : (ga_ssize)n%d + pad%d - first%d)" % ((d,) * 8)
    return "(x_to%d - x_from%d)" % (d, d)


def _window(d, index, whole):
    """Return statements that define the elements of the window ``index`` along the axis d. `whole`: no window is cut."""
    begin = "const ga_ssize first%d = (ga_ssize)%s * stride%d - pad%d;" % (d, index, d, d)
    if whole:
        return begin + "const ga_ssize x_from%d = first%d, x_to%d = first%d + window%d;" % ((d,) * 5)
    return begin + (
        "const ga_ssize x_from%d = first%d < 0 ? 0 : first%d, "
        "x_to%d = first%d + window%d < (ga_ssize)n%d ? first%d + window%d : (ga_ssize)n%d;" % ((d,) * 10)
    )


def _windows_of(d, numbers):
    """Return statements that define the windows that contain the element ``o<d>`` of the image along the axis d."""
    if numbers is not None and numbers[0][d] == numbers[1][d]:  # the windows are side by side
        return (
            "const ga_ssize y%d = (ga_ssize)o%d + pad%d, o_from%d = y%d / stride%d, "
            "o_to%d = o_from%d < (ga_ssize)out%d ? o_from%d + 1 : o_from%d;" % ((d,) * 11)
        )
    return (
        "const ga_ssize y%d = (ga_ssize)o%d + pad%d;"
        "const ga_ssize o_from%d = y%d < window%d ? 0 : (y%d - window%d) / stride%d + 1, "
        "o_to%d = y%d / stride%d + 1 < (ga_ssize)out%d ? y%d / stride%d + 1 : (ga_ssize)out%d;" % ((d,) * 16)
    )


def _values(kind, mode, dtype, ndim, whole, numbers):
    """Return statements that compute the element ``result`` of the output."""
    number, axes = snippets.number(dtype), range(ndim)
    value = {p: snippets.load(dtype, p + "_at") for p in "xmg"}
    single = [d for d in axes if numbers is not None and numbers[0][d] == numbers[1][d]]
    around = "".join(_windows_of(d, numbers) for d in axes)
    # All values are loaded before the choice, so that compilers need no branches, which would often be mispredicted.
    inside = " & ".join("inside%d" % d for d in single) or "1"
    if kind == MAX_GRAD:
        body = "const %s top = %s, share = %s; result += (%s & (here == top)) ? share : 0;"
        body = body % (number, value["m"], value["g"], inside)
        result = "const %s here = %s; %s result = 0;" % (number, snippets.load(dtype, "x"), number)
        return around + result + _nested(dtype, ndim, "o", "mg", body, single)
    if kind == AVERAGE_GRAD:
        count = "" if mode == "sum" else " / (%s)(%s)" % (number, " * ".join(_length(mode, d) for d in axes))
        ranges = "" if mode == "sum" else "".join(_window(d, "k%d" % d, whole) for d in axes)
        body = "%s const %s share = %s%s; result += (%s) ? share : 0;" % (ranges, number, value["g"], count, inside)
        return around + "%s result = 0;" % number + _nested(dtype, ndim, "o", "g", body, single)
    code = "".join(_window(d, "o%d" % d, whole) for d in axes)
    if kind in (MAX_SUMS, MAX_ROP):
        if kind == MAX_ROP:
            code += _greatest(dtype, value["x"], ndim)
        else:
            code += "const %s top = %s;" % (number, snippets.load(dtype, "m"))
        body = "const %s here = %s, share = %s; result += here == top ? share : 0;" % (number, value["x"], value["g"])
        return code + "%s result = 0;" % number + _nested(dtype, ndim, "x", "xg", body)
    if mode == "max":
        return code + _greatest(dtype, value["x"], ndim) + "const %s result = top;" % number
    wide = number
    if not dtype.startswith("float"):
        wide = "ga_long" if dtype.startswith("int") else "ga_ulong"
    code += "%s total = 0;" % wide + _nested(dtype, ndim, "x", "x", "total += %s;" % value["x"])
    divisor = "" if mode == "sum" else " / (%s)(%s)" % (wide, " * ".join(_length(mode, d) for d in axes))
    return code + "const %s result = total%s;" % (wide, divisor)


def _greatest(dtype, value, ndim):
    """Return statements that define ``top``, the maximum of a window. NaN is greater than all numbers."""
    number = snippets.number(dtype)
    first = value.replace("x_at", "x" + "".join(" + x_from%d * w%d_x" % (d, d) for d in range(ndim)))
    body = "const %s v = %s; top = ((v > top) | (v != v)) ? v : top;" % (number, value)
    return "%s top = %s;" % (number, first) + _nested(dtype, ndim, "x", "x", body)


_SOURCE = """
KERNEL void KERNEL_NAME(ga_size n, ga_size pieces, ga_size span%(arrays)s%(declared)s%(axes)s)
{
    %(constants)s
    %(every)s {
        ga_size rest = i, k;
        const ga_size begin = ga_split(&rest, pieces) * span, end = begin + span < %(count)s ? begin + span : %(count)s;
        %(begin)s
        %(indices)s
        %(walk)s
        for (ga_size o%(last)d = begin; o%(last)d < end; ++o%(last)d) {
            %(moves)s
            %(values)s
            %(store)s
        }
    }
}
"""


def pooling(kind, mode, dtype, ndim, before, whole, numbers, context):
    """Return the kernel of a pooling or of one of its gradients.

    The strides are arguments, in elements.

    Parameters
    ----------
    kind : int
        POOL, MAX_GRAD, AVERAGE_GRAD, MAX_SUMS or MAX_ROP.
    mode : str
    dtype : str
    ndim : int
        Number of pooled axes.
    before : int
        Number of the other axes, which come first.
    whole : bool
        Whether no window is cut: there is no padding, and incomplete windows are ignored.
    numbers : list of list of int or None
        The window, stride and padding of each axis. None: they are arguments of the kernel.
    context : GpuContext or None
    """
    arrays = "z" + READ[kind]
    image = LIKE_IMAGE[kind]
    declared, types = snippets.axes("d", before, arrays)
    axes, axes_types, constants = "", [], []
    for d in range(ndim):
        names = ["%s%d" % (name, d) for name in ("window", "stride", "pad")]
        axes += ", ga_size n%d, ga_size out%d" % (d, d)
        axes += "".join(", ga_ssize %s" % (name if numbers is None else name + "_given") for name in names)
        axes += "".join(", ga_ssize w%d_%s" % (d, p) for p in arrays)
        axes_types += [SIZE, SIZE] + [SSIZE] * (3 + len(arrays))
        if numbers is not None:
            constants += ["const ga_ssize %s = %d;" % (name, row[d]) for name, row in zip(names, numbers)]
    element = snippets.element(dtype)
    last, length = ndim - 1, "n" if "z" in image else "out"
    moved = [p for p in arrays if (p in image) == ("z" in image)]  # each result has one element of these arrays
    indices = ["const ga_size o%d = ga_split(&rest, %s%d);" % (d, length, d) for d in reversed(range(last))]
    indices += ["%s += (ga_ssize)o%d * w%d_%s;" % (p + "0", d, d, p) for d in range(last) for p in moved]
    moves = [
        "GLOBAL_MEM %s%s *%s = %s0%s;"
        % (
            "" if p == "z" else "const ",
            element,
            p,
            p,
            " + (ga_ssize)o%d * w%d_%s" % (last, last, p) if p in moved else "",
        )
        for p in arrays
    ]
    result = "result != 0" if dtype == "bool" else "result"
    source = _SOURCE % dict(
        arrays="".join(", GLOBAL_MEM char *%s_data, ga_size %s_offset" % (p, p) for p in arrays),
        declared=declared,
        axes=axes,
        constants=" ".join(constants),
        every=snippets.GRID_STRIDE_LOOP,
        count=length + str(last),
        last=last,
        begin=" ".join(
            "GLOBAL_MEM %s *%s0 = (GLOBAL_MEM %s *)(%s_data + %s_offset);" % (element, p, element, p, p) for p in arrays
        ),
        indices=" ".join(indices),
        walk=snippets.walk("d", before, {p: p + "0" for p in arrays}, True),
        moves=" ".join(moves),
        values=_values(kind, mode, dtype, ndim, whole, numbers),
        store=snippets.store(dtype, "z", result),
    )
    kinds = (SIZE, SIZE, SIZE, *["*", SIZE] * len(arrays), *types, *axes_types)
    return DeviceKernel(source, kinds, context, flags_of(dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    modes = {
        POOL: ("max", "sum", "average_inc_pad", "average_exc_pad"),
        AVERAGE_GRAD: ("sum", "average_inc_pad", "average_exc_pad"),
    }
    found = []
    for dtype in ("float16", "float32", "float64"):
        cases = [(kind, mode) for kind in READ for mode in modes.get(kind, ("max",))]
        forms = ((2, 2, True, [[2, 2], [2, 2], [0, 0]]), (3, 1, False, None))
        kernels = [pooling(*case, dtype, *form, None) for case, form in itertools.product(cases, forms)]
        found.append(sample("pooling, %s" % dtype, kernels))
    kernels = [
        pooling(POOL, mode, dtype, 2, 1, False, None, None)
        for dtype in ("bool", "int8", "uint64")
        for mode in modes[POOL]
    ]
    return [*found, sample("pooling of integers", kernels)]
