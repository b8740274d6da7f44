"""Kernels of batch normalization: statistics over several axes and elementwise operations, in one kernel.

A *row* consists of the elements that are averaged together. The arrays are in C order, and adjacent axes of the same
kind are merged, so that kept axes (which count rows) and averaged axes alternate. A kernel makes several passes over the
elements of a row: it computes sums, values per row from the sums, and finally the result.

If the last axis is averaged, the threads of a group are side by side along a row. Otherwise adjacent elements belong to
different rows, and the threads are first side by side along the rows. On processors one thread does the work of such a
group in vectors. Sums have a fixed order, so the same input gives the same result.
"""

from typing import NamedTuple

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE

DTYPES = ("float16", "float32", "float64")

# The maximum number of threads in a group, and the number of elements that a thread of a processor computes together
GROUP, LANES = 1024, 32


class Pass(NamedTuple):
    """A pass over the elements of a row.

    Attributes
    ----------
    sums : dict
        Name of a sum -> expression of its terms.
    store : str
        The expression of the element that the pass stores; "" if it stores nothing.
    after : str
        Statements that compute values per row after the pass.

    Values per row are arrays, with the index `r`. In `sums` and `store`, elements are ``<array>(at)``.
    """

    sums: dict
    store: str = ""
    after: str = ""


class Norm(NamedTuple):
    """A computation that consists of passes.

    Attributes
    ----------
    arrays : tuple of str
        Inputs with a value per element.
    rows : tuple of str
        Inputs with a value per row.
    number : str
        The name of an input with a single value, passed by value; "" if there is none.
    passes : tuple of Pass
        The last pass stores the first output.
    values : tuple of str
        Other values per row.
    outputs : tuple of str
        The values per row that are the other outputs.
    """

    arrays: tuple
    rows: tuple
    number: str
    passes: tuple
    values: tuple
    outputs: tuple


TRAIN = Norm(
    ("x",),
    ("scale", "bias"),
    "epsilon",
    (
        Pass({"total": "x(at)"}, after="mean[r] = total[r] / length;"),
        Pass(
            {"squares": "(x(at) - mean[r]) * (x(at) - mean[r])"},
            after="variance[r] = squares[r] / length; invstd[r] = 1 / sqrt(variance[r] + epsilon); factor[r] = scale[r] * invstd[r];",
        ),
        Pass({}, "(x(at) - mean[r]) * factor[r] + bias[r]"),
    ),
    ("mean", "invstd", "variance", "factor"),
    ("mean", "invstd", "variance"),
)

TRAIN_GRAD = Norm(
    ("x", "dy"),
    ("scale", "mean", "invstd"),
    "",
    (
        Pass(
            {"total": "dy(at)", "products": "dy(at) * (x(at) - mean[r])"},
            after="dscale[r] = length == 0 ? 0 : products[r] * invstd[r]; average[r] = total[r] / length; "
            "slope[r] = dscale[r] * invstd[r] / length; factor[r] = scale[r] * invstd[r];",
        ),
        Pass({}, "factor[r] * ((dy(at) - average[r]) - (x(at) - mean[r]) * slope[r])"),
    ),
    ("dscale", "average", "slope", "factor"),
    ("dscale", "total"),
)


def blocks(ndim, axes):
    """Return the axes of an array, merged: a list of lists of adjacent axes that are all averaged or all kept."""
    found = []
    for axis in range(ndim):
        if found and (found[-1][0] in axes) == (axis in axes):
            found[-1].append(axis)
        else:
            found.append([axis])
    return found


def kernel(norm, dtype, ndim, axes, context):
    """Return the kernel of a computation.

    Parameters
    ----------
    norm : Norm
        `TRAIN` or `TRAIN_GRAD`.
    dtype : str
        One of `DTYPES`. Sums have the dtype `snippets.precise`.
    ndim : int
    axes : collection of int
        The averaged axes.
    context : GpuContext or None

    Notes
    -----
    The arguments are the number of rows, the number of elements of a row, the number of threads of a group that are side
    by side along the rows (on GPUs), then the inputs and the outputs, each with its offset, then the length and the
    stride (in elements) of each merged kept axis and of each merged averaged axis.
    """
    return DeviceKernel(*_Writer(norm, dtype, ndim, frozenset(axes), context).parts(context))


class _Writer:
    def __init__(self, norm, dtype, ndim, axes, context):
        self.norm, self.dtype, self.real = norm, dtype, snippets.precise(dtype, context)
        averaged = [merged[0] in axes for merged in blocks(ndim, axes)]
        self.kept, self.averaged = averaged.count(False), averaged.count(True)
        self.along = averaged[-1]

    def parts(self, context):
        """Return the fields of the `DeviceKernel`."""
        norm, number = self.norm, snippets.element(self.real)
        kind = snippets.element(self.dtype)
        declared, types = ["ga_size rows", "ga_size length", "ga_uint across"], [SIZE, SIZE, "uint32"]
        begin = []
        for name in (*norm.arrays, *norm.rows, "z", *["z_" + name for name in norm.outputs]):
            declared.append("GLOBAL_MEM char *%s_data, ga_size %s_at" % (name, name))
            types += ["*", SIZE]
            pointer = "GLOBAL_MEM %s *" % kind
            begin.append("%s%s_p = (%s)(%s_data + %s_at);" % (pointer, name, pointer, name, name))
        if norm.number:
            declared.append("%s %s" % (number, norm.number))
            types.append(self.real)
        text = ",\n    ".join(declared)
        for prefix, count in (("k", self.kept), ("a", self.averaged)):
            more, kinds = snippets.axes(prefix, count, ("x",))
            text, types = text + more, types + kinds
        lines = ["KERNEL void KERNEL_NAME(%s)" % text, "{", *begin]
        lines += ["#ifdef GA_PROCESSOR", *self._for_processors(), "#else", *self._for_gpus(), "#endif", "}\n"]
        return "\n".join(lines), tuple(types), context, flags_of(self.dtype, self.real)

    # -- parts that all forms share ------------------------------------------------------------------------------------

    def _number(self):
        return snippets.element(self.real)

    def _values(self):
        """Return the names of all values per row."""
        sums = [name for one in self.norm.passes for name in one.sums]
        return [*self.norm.rows, *sums, *self.norm.values]

    def _declare(self, rows):
        """Return the declarations of the values per row, for several rows."""
        return ["%s %s;" % (self._number(), ", ".join("%s[%d]" % (name, rows) for name in self._values()))]

    def _place(self, prefix, count, index, to):
        """Return statements that add the offset of a row (prefix "k") or of an element of a row ("a") to a variable."""
        return "{ ga_size rest = %s, k; %s }" % (index, snippets.walk(prefix, count, {"x": to}, True))

    def _read_rows(self, row):
        """Return statements that read the inputs with a value per row."""
        return ["%s[r] = %s;" % (name, self._load("%s_p + %s" % (name, row))) for name in self.norm.rows]

    def _write_rows(self, row):
        return [snippets.store(self.dtype, "z_%s_p + %s" % (name, row), name + "[r]") for name in self.norm.outputs]

    def _load(self, at):
        return "(%s)%s" % (self._number(), snippets.load(self.dtype, at))

    def _expression(self, text):
        for name in self.norm.arrays:
            text = text.replace(name + "(at)", self._load(name + "_p + at"))
        return "(%s)" % text

    def _element(self, one, sums):
        """Return the statements of a pass for the element at the offset `at`. `sums`: suffix of the sums' names."""
        lines = ["%s%s += %s;" % (name, sums, self._expression(term)) for name, term in one.sums.items()]
        if one.store:
            lines.append(snippets.store(self.dtype, "z_p + at", self._expression(one.store)))
        return " ".join(lines)

    # -- processors: one thread computes a row, or several rows --------------------------------------------------------

    def _for_processors(self):
        return self._one_row() if self.along else self._several_rows()

    def _one_row(self):
        """Return statements in which the elements of a vector are side by side along a row."""
        lines = ["const int r = 0;", "const ga_size inner = a%d;" % (self.averaged - 1)]
        lines += ["for (ga_size row = GID_0; row < rows; row += GDIM_0) {", *self._declare(1), *self._read_rows("row")]
        lines += ["ga_ssize begin = 0;", self._place("k", self.kept, "row", "begin") if self.kept else ""]
        for one in self.norm.passes:
            lines.append("{")
            lines += ["%s %s_l[%d];" % (self._number(), name, LANES) for name in one.sums]
            if one.sums:
                zeros = " ".join("%s_l[l] = 0;" % name for name in one.sums)
                lines.append("for (int l = 0; l < %d; ++l) { %s }" % (LANES, zeros))
            lines.append("for (ga_size o = 0; o < length; o += inner) {")
            lines.append("ga_ssize start = begin; %s" % self._place("a", self.averaged, "o", "start"))
            lines.append("ga_size i = 0;")
            lines.append("for (; i + %d <= inner; i += %d)" % (LANES, LANES))
            lines.append("for (int l = 0; l < %d; ++l) {" % LANES)
            lines.append("const ga_ssize at = start + (ga_ssize)i + l; %s }" % self._element(one, "_l[l]"))
            lines.append("for (; i < inner; ++i) {")
            lines.append("const ga_ssize at = start + (ga_ssize)i; %s }" % self._element(one, "_l[i %% %d]" % LANES))
            lines.append("}")
            for name in one.sums:
                lines.append("for (int step = %d; step > 0; step /= 2)" % (LANES // 2))
                lines.append("for (int l = 0; l < step; ++l) %s_l[l] += %s_l[l + step];" % (name, name))
                lines.append("%s[0] = %s_l[0];" % (name, name))
            lines += [one.after, "}"]
        return [*lines, *self._write_rows("row"), "}"]

    def _several_rows(self):
        """Return statements in which the elements of a vector belong to different rows."""
        each = "for (int r = 0; r < count; ++r) {"
        lines = ["for (ga_size row = (ga_size)GID_0 * %d; row < rows; row += (ga_size)GDIM_0 * %d) {" % (LANES, LANES)]
        lines += ["const int count = rows - row < %d ? (int)(rows - row) : %d;" % (LANES, LANES)]
        lines += [*self._declare(LANES), "ga_ssize begin[%d];" % LANES]
        lines += [each, *self._read_rows("row + r"), "begin[r] = 0;"]
        lines += [self._place("k", self.kept, "row + r", "begin[r]"), "}"]
        for one in self.norm.passes:
            if one.sums:
                lines += [each, *["%s[r] = 0;" % name for name in one.sums], "}"]
            lines.append("for (ga_size e = 0; e < length; ++e) {")
            lines.append("ga_ssize start = 0; %s" % self._place("a", self.averaged, "e", "start"))
            # If all rows are adjacent, the compiler can use vectors.
            at = "begin[0] + r" if self.kept == 1 else "begin[r]"
            lines += [each, "const ga_ssize at = start + %s; %s" % (at, self._element(one, "[r]")), "} }"]
            if one.after:
                lines += [each, one.after, "}"]
        return [*lines, each, *self._write_rows("row + r"), "} }"]

    # -- GPUs: a group of threads computes one or several rows ---------------------------------------------------------

    def _for_gpus(self):
        number, sums = self._number(), any(one.sums for one in self.norm.passes)
        lines = ["LOCAL_MEM %s part[%d];" % (number, GROUP)] if sums else []
        lines += ["const int r = 0;", "const ga_uint lanes = LDIM_0 / across;"]
        if self.along:
            lines += ["const ga_uint which = LID_0 / lanes, lane = LID_0 % lanes, next = 1;"]
        else:
            lines += ["const ga_uint which = LID_0 % across, lane = LID_0 / across, next = across;"]
        lines += ["for (ga_size first = (ga_size)GID_0 * across; first < rows; first += (ga_size)GDIM_0 * across) {"]
        # Threads without a row read the last row, and have no elements. No barrier is inside a condition.
        lines += [
            "const int has_row = first + which < rows;",
            "const ga_size row = has_row ? first + which : rows - 1;",
        ]
        lines += ["const ga_size count = has_row ? length : 0;", *self._declare(1), *self._read_rows("row")]
        lines += ["ga_ssize begin = 0;", self._place("k", self.kept, "row", "begin") if self.kept else ""]
        for one in self.norm.passes:
            lines += ["%s[0] = 0;" % name for name in one.sums]
            lines += ["{", *self._elements_of_a_thread(one), "}"]
            for name in one.sums:
                lines += [
                    "part[LID_0] = %s[0];" % name,
                    "for (ga_uint step = lanes / 2; step > 0; step /= 2) {",
                    "local_barrier();",
                    "if (lane < step) part[LID_0] += part[LID_0 + step * next];",
                    "}",
                    "local_barrier();",
                    "%s[0] = part[LID_0 - lane * next];" % name,
                    "local_barrier();",
                ]
            lines.append(one.after)
        return [*lines, "if (has_row && lane == 0) {", *self._write_rows("row"), "} }"]

    def _elements_of_a_thread(self, one):
        """Return a loop over the elements of a thread. Two averaged axes are walked without a division per element."""
        loop = "for (ga_size e = lane; e < count; e += lanes) {"
        if self.averaged != 2:
            place = "ga_ssize at = begin; %s" % self._place("a", self.averaged, "e", "at")
            return [loop, place, self._element(one, "[0]"), "}"]
        return [
            "const ga_size inner = a1 == 0 ? 1 : a1;",
            "const ga_size skip0 = lanes / inner, skip1 = lanes % inner;",
            "ga_size i0 = lane / inner, i1 = lane % inner;",
            loop,
            "const ga_ssize at = begin + (ga_ssize)i0 * a0_x + (ga_ssize)i1 * a1_x;",
            self._element(one, "[0]"),
            "i0 += skip0; i1 += skip1;",
            "if (i1 >= inner) { i1 -= inner; ++i0; }",
            "}",
        ]


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    cases = ((4, (0, 2, 3)), (4, (0,)), (5, (1, 3)), (2, (0, 1)))
    return [
        sample(
            "batch normalization, %s" % dtype,
            [kernel(norm, dtype, *case, None) for norm in (TRAIN, TRAIN_GRAD) for case in cases],
        )
        for dtype in DTYPES
    ]
