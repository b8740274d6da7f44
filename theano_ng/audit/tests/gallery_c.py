"""Ops whose C code is wrong on purpose, each in one way, with the error that must be reported.

`DoubleInC` and `SumInC` are correct. Their C code consists of named parts. A wrong Op replaces one of these parts.
"""

import numpy as np

from theano_ng import tensor as T
from theano_ng.audit.tests.gallery import VECTOR, as_float_tensor
from theano_ng.audit.tests.gallery import wrong as _wrong
from theano_ng.gof import Apply, Op

GALLERY = []


def wrong(error, found_by, *args, vary="usual", **kwargs):
    """Return the decorator `gallery.wrong` for a class with C code.

    By default, the audit does not vary types, because each type costs seconds of compilation.
    """
    if vary == "usual":
        vary = ("length", "content") if found_by == "sanitizer" else ("length", "layout", "alias", "content")
    return _wrong(error, found_by, *args, vary=vary, gallery=GALLERY, **kwargs)


class DoubleInC(Op):
    """x -> 2 x, for vectors.

    Attributes
    ----------
    BEFORE, ALLOCATE, LOOP, AFTER : str
        The parts of the C code. In these parts, n is the length, and the macros X(i) and Z(i) are the elements of the
        input and of the output.
    """

    __props__ = ()
    EXAMPLES = (VECTOR,)
    BEFORE = ""
    ALLOCATE = """
        if (!%(z)s || PyArray_DIM(%(z)s, 0) != n) {
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject *)PyArray_EMPTY(1, &n, PyArray_TYPE(%(x)s), 0);
            if (!%(z)s) %(fail)s
        }
    """
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = 2 * X(i);
    """
    AFTER = ""

    def make_node(self, x):
        x = as_float_tensor(x, 1)
        return Apply(self, [x], [T.TensorType(x.dtype, (False,))()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] + inputs[0]

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, gradients):
        return [gradients[0] * 2]

    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else [eval_points[0] * 2]

    def c_code(self, node, name, inputs, outputs, sub):
        parts = self.BEFORE + self.ALLOCATE + self.LOOP + self.AFTER
        names = dict(sub, x=inputs[0], z=outputs[0], type=node.inputs[0].type.dtype_specs()[1], name=name)
        return (
            """
        {
        #define X(i) (*(%(type)s *)PyArray_GETPTR1(%(x)s, i))
        #define Z(i) (*(%(type)s *)PyArray_GETPTR1(%(z)s, i))
        npy_intp n = PyArray_DIM(%(x)s, 0);
        """
            % names
            + parts % names
            + """
        #undef X
        #undef Z
        }
        """
        )

    def c_code_cache_version(self):
        return (1,)


class DoubleIntegersInC(DoubleInC):
    """`DoubleInC` for integers, which wrap around on overflow."""

    EXAMPLES = (np.array([3, -4, 2**62 + 1, 5]),)
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = (%(type)s)((npy_uint64)X(i) << 1);
    """

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.dtype not in ("int32", "int64") or x.ndim != 1:
            raise TypeError("the input is a %s; expected a vector of int32 or int64" % x.type)
        return Apply(self, [x], [T.TensorType(x.dtype, (False,))()])

    def grad(self, inputs, gradients):
        return [T.zeros_like(inputs[0], dtype="float64")]

    def R_op(self, inputs, eval_points):
        return [None]


class DoublePositiveInC(DoubleInC):
    """`DoubleInC` that raises ValueError if the first element is negative."""

    EXAMPLES = (np.array([1.0, 2.0, -3.0]),)
    BEFORE = """
        if (n > 0 && X(0) < 0) {
            PyErr_SetString(PyExc_ValueError, "the first element is negative; expected 0 or more");
            %(fail)s
        }
    """

    def perform(self, node, inputs, outputs):
        if len(inputs[0]) and inputs[0][0] < 0:
            raise ValueError("the first element is negative; expected 0 or more")
        super().perform(node, inputs, outputs)


class SumInC(DoubleInC):
    """x -> the sum of the elements, as a vector of length 1."""

    ALLOCATE = """
        npy_intp one = 1;
        if (!%(z)s || PyArray_DIM(%(z)s, 0) != 1) {
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject *)PyArray_EMPTY(1, &one, PyArray_TYPE(%(x)s), 0);
            if (!%(z)s) %(fail)s
        }
    """
    LOOP = """
        %(type)s sum = 0;
        for (npy_intp i = 0; i < n; i++)
            sum += X(i);
        Z(0) = sum;
    """

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0].cumsum()[-1:] if inputs[0].size else np.zeros(1, inputs[0].dtype)

    def infer_shape(self, node, shapes):
        return [(1,)]

    def grad(self, inputs, gradients):
        return [T.zeros_like(inputs[0]) + gradients[0][0]]

    def R_op(self, inputs, eval_points):
        return (
            [None]
            if eval_points[0] is None
            else [eval_points[0].sum().dimshuffle("x") + T.zeros((1,), inputs[0].dtype)]
        )


class MaximumInC(SumInC):
    """x -> the largest element, or NaN if an element is NaN; 0 for an empty vector. No gradient."""

    LOOP = """
        %(type)s max = n ? X(0) : 0;
        for (npy_intp i = 1; i < n; i++)
            if (X(i) > max || X(i) != X(i))
                max = X(i);
            else if (max != max)
                break;
        Z(0) = max;
    """

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0].max(keepdims=True) if inputs[0].size else np.zeros(1, inputs[0].dtype)

    def grad(self, inputs, gradients):
        from theano_ng.gradient import grad_not_implemented

        return [grad_not_implemented(self, 0, inputs[0])]

    def R_op(self, inputs, eval_points):
        return [None]


# ---------------------------------------------------------------- values that differ from those of perform


@wrong("BadThunkOutput", "debugmode", "single precision is computed otherwise", VECTOR.astype("float32"))
class WrongForSinglePrecision(DoubleInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = sizeof(%(type)s) == 4 ? 3 * X(i) : 2 * X(i);
    """


@wrong("BadThunkOutput", "c_code", "the same, and the example has double precision: the audit tries others", vary=None)
class WrongForTheOtherPrecision(DoubleInC):
    LOOP = WrongForSinglePrecision.LOOP


@wrong("BadThunkOutput", "debugmode", "strides of the input are ignored", np.arange(12.0)[::3])
class ExpectsContiguousInput(DoubleInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = 2 * ((%(type)s *)PyArray_DATA(%(x)s))[i];
    """


@wrong("BadThunkOutput", "c_code", "a negative stride is taken for a positive one, from the lowest address up")
class TurnsReversedInput(DoubleInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = 2 * X(PyArray_STRIDE(%(x)s, 0) < 0 ? n - 1 - i : i);
    """


@wrong(
    "BadThunkOutput", "c_code", "only every second element counts where the stride is not that of a contiguous vector"
)
class WrongForStridedInput(DoubleInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = i %% 2 && PyArray_STRIDE(%(x)s, 0) != (npy_intp)sizeof(%(type)s) ? 0 : 2 * X(i);
    """


@wrong("BadThunkOutput", "debugmode", "right in the first call of the process only")
class RightOnce(DoubleInC):
    BEFORE = "static int calls = 0;"
    AFTER = "if (calls++ && n) Z(0) = 0;"


@wrong("BadThunkOutput", "debugmode", "the sum of nothing is 1", np.zeros(0))
class WrongForNothing(SumInC):
    AFTER = "if (!n) Z(0) = 1;"


@wrong("BadThunkOutput", "c_code", "the same, and the example has elements: the audit tries none")
class WrongForNothingElse(SumInC):
    AFTER = "if (!n) Z(0) = 1;"


@wrong("BadThunkOutput", "c_code", "NaN is overlooked")
class OverlooksNaN(MaximumInC):
    LOOP = """
        %(type)s max = n ? X(0) : 0;
        for (npy_intp i = 1; i < n; i++)
            if (X(i) > max)
                max = X(i);
        Z(0) = max;
    """


@wrong("BadThunkOutput", "debugmode", "integers go through a double, and large ones lose digits")
class LosesDigits(DoubleIntegersInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = (%(type)s)(npy_uint64)(2.0 * (double)X(i));
    """


@wrong(
    "BadThunkOutput", "c_code", "elements are summed in pairs; the last one of an odd number, 5 or more, is left out"
)
class LosesTheLastOfMany(SumInC):
    LOOP = """
        %(type)s sum = 0;
        for (npy_intp i = 0; i + 1 < n; i += 2)
            sum += X(i) + X(i + 1);
        if (n %% 2 && n < 5) sum += X(n - 1);
        Z(0) = sum;
    """


@wrong("BadThunkOutput", "debugmode", "the output is one element too long")
class OutputTooLong(DoubleInC):
    ALLOCATE = """
        npy_intp more = n + 1;
        Py_XDECREF(%(z)s);
        %(z)s = (PyArrayObject *)PyArray_ZEROS(1, &more, PyArray_TYPE(%(x)s), 0);
        if (!%(z)s) %(fail)s
    """


@wrong("PythonCDisagree", "c_code", "refuses empty vectors")
class RefusesNothing(DoubleInC):
    BEFORE = """
        if (n == 0) {
            PyErr_SetString(PyExc_ValueError, "no elements");
            %(fail)s
        }
    """


@wrong("PythonCDisagree", "c_code", "accepts what perform refuses", np.array([1.0, -2.0]), twin=DoublePositiveInC)
class AcceptsNegative(DoublePositiveInC):
    BEFORE = ""


# ---------------------------------------------------------------- memory of inputs and outputs


@wrong("BadDestroyMap", "debugmode", "the input is doubled where it lies")
class ChangesInputInC(DoubleInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = X(i) *= 2;
    """


@wrong("BadViewMap", "debugmode", "the output is the input", np.zeros(3))
class ReturnsInputInC(DoubleInC):
    ALLOCATE = LOOP = ""
    AFTER = """
        Py_XDECREF(%(z)s);
        Py_INCREF(%(x)s);
        %(z)s = %(x)s;
    """


@wrong("BadThunkOutput", "debugmode", "adds to what is in the memory of the output")
class AddsToOldOutputInC(DoubleInC):
    ALLOCATE = DoubleInC.ALLOCATE.replace("PyArray_EMPTY", "PyArray_ZEROS")
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) += 2 * X(i);
    """


@wrong("AddressError", "debugmode", "takes the memory of the output for contiguous")
class ExpectsContiguousOutputInC(DoubleInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            ((%(type)s *)PyArray_BYTES(%(z)s))[PyArray_STRIDE(%(z)s, 0) < 0 ? -i : i] = 2 * X(i);
    """


@wrong("AddressError", "debugmode", "ignores the strides of the output, and writes past its end when they are negative")
class IgnoresStridesOfOutput(DoubleInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            ((%(type)s *)PyArray_DATA(%(z)s))[i] = 2 * X(i);
    """


@wrong("AddressError", "c_code", "the same, found by the audit", twin=DoubleInC)
class IgnoresStridesOfOutputToo(IgnoresStridesOfOutput):
    pass


# DebugMode finds the errors of the Ops that use FOUND only if the output cell already holds an array. Such an array has
# guard margins, but an array that the Op itself allocates has none.

FOUND = "int found = %(z)s && PyArray_DIM(%(z)s, 0) == n && n > 0;"


@wrong("AddressError", "debugmode", "writes one element past the end of memory that it finds")
class WritesPastFoundEnd(DoubleInC):
    BEFORE = FOUND
    AFTER = "if (found && PyArray_STRIDE(%(z)s, 0) == (npy_intp)sizeof(%(type)s)) Z(n) = 0;"


@wrong("AddressError", "debugmode", "writes one element before the start of memory that it finds")
class WritesBeforeFoundStart(DoubleInC):
    BEFORE = FOUND
    AFTER = "if (found && PyArray_STRIDE(%(z)s, 0) == (npy_intp)sizeof(%(type)s)) Z(-1) = 0;"


@wrong("AddressError", "c_code", "writes between the elements of memory that it finds, whose values stay right")
class WritesBetweenElements(DoubleInC):
    BEFORE = FOUND
    AFTER = "if (found && PyArray_STRIDE(%(z)s, 0) == 2 * (npy_intp)sizeof(%(type)s)) ((%(type)s *)PyArray_DATA(%(z)s))[1] = 0;"


@wrong("AddressError", "debugmode", "expects the memory to be as long as it has to be")
class OverrunsOldLength(DoubleInC):
    ALLOCATE = DoubleInC.ALLOCATE.replace("|| PyArray_DIM(%(z)s, 0) != n", "")


@wrong("AddressError", "debugmode", "writes double precision into single precision", VECTOR.astype("float32"))
class WritesWiderElements(DoubleInC):
    BEFORE = FOUND
    AFTER = """
        for (npy_intp i = 0; found && i < n; i++)
            ((double *)PyArray_DATA(%(z)s))[i] = 2 * X(i);
    """


@wrong("BadThunkOutput", "debugmode", "keeps memory of another length")
class KeepsOldLengthInC(DoubleInC):
    ALLOCATE = DoubleInC.ALLOCATE.replace("|| PyArray_DIM(%(z)s, 0) != n", "")
    LOOP = """
        for (npy_intp i = 0; i < n && i < PyArray_DIM(%(z)s, 0); i++)
            Z(i) = 2 * X(i);
    """


@wrong("InvalidValueError", "debugmode", "the output has single precision")
class SinglePrecisionInC(DoubleInC):
    ALLOCATE = """
        Py_XDECREF(%(z)s);
        %(z)s = (PyArrayObject *)PyArray_ZEROS(1, &n, NPY_FLOAT, 0);
        if (!%(z)s) %(fail)s
    """
    LOOP = ""


# ---------------------------------------------------------------- references and memory


@wrong("ReferenceLeak", "references", "keeps a reference to the input with each call")
class LeaksInput(DoubleInC):
    AFTER = "Py_INCREF(%(x)s);"


@wrong("ReferenceLeak", "references", "keeps a reference to the output with each call")
class LeaksOutput(DoubleInC):
    AFTER = "Py_INCREF(%(z)s);"


@wrong("ReferenceLeak", "references", "forgets what was in the output cell")
class LeaksOldOutput(DoubleInC):
    ALLOCATE = """
        %(z)s = (PyArrayObject *)PyArray_EMPTY(1, &n, PyArray_TYPE(%(x)s), 0);
        if (!%(z)s) %(fail)s
    """


@wrong("ReferenceLeak", "references", "keeps a reference to None with each call")
class LeaksNone(DoubleInC):
    AFTER = "Py_INCREF(Py_None);"


@wrong("ReferenceLeak", "references", "keeps a reference to a dtype with each call")
class LeaksDtype(DoubleInC):
    AFTER = "Py_INCREF(PyArray_DESCR(%(x)s));"


@wrong(
    "ReferenceLeak",
    "references",
    "keeps a reference to the input when it refuses it",
    np.array([-1.0, 2.0]),
    twin=DoublePositiveInC,
)
class LeaksWhenItFails(DoublePositiveInC):
    BEFORE = DoublePositiveInC.BEFORE.replace("PyErr_SetString", "Py_INCREF(%(x)s); PyErr_SetString")


@wrong("ReferenceUnderflow", "references", "gives back a reference to the input that is not its own")
class DropsInput(DoubleInC):
    AFTER = "Py_DECREF(%(x)s);"


@wrong("ReferenceUnderflow", "references", "gives back a reference to None that is not its own")
class DropsNone(DoubleInC):
    AFTER = "Py_DECREF(Py_None);"


@wrong("MemoryLeak", "memory", "scratch memory is not freed")
class LeaksScratch(DoubleInC):
    BEFORE = """
        double *scratch = (double *)malloc(100000);
        memset(scratch, 1, 100000);
    """
    AFTER = "if (n < 0) free(scratch);"


# ---------------------------------------------------------------- invalid memory accesses and undefined behavior


@wrong("AddressError", "sanitizer", "reads one element past the end of the input")
class ReadsPastTheEnd(SumInC):
    LOOP = SumInC.LOOP.replace("i < n", "i <= n")


@wrong("AddressError", "sanitizer", "writes one element past the end of the output")
class WritesPastTheEnd(DoubleInC):
    AFTER = "Z(n) = 0;"


@wrong("AddressError", "sanitizer", "reads the element before the first", twin=DoubleInC)
class ReadsBeforeTheStart(DoubleInC):
    AFTER = "volatile %(type)s before = X(-1); (void)before;"


@wrong("AddressError", "sanitizer", "uses scratch memory after it was freed")
class UsesFreedMemory(DoubleInC):
    BEFORE = "double *scratch = (double *)malloc(64); scratch[3] = 0; free(scratch);"
    AFTER = "if (n) Z(0) += scratch[3] * 0;"


@wrong("AddressError", "sanitizer", "keeps scratch memory of the first call's length")
class KeepsScratchOfFirstLength(DoubleInC):
    BEFORE = """
        static %(type)s *scratch = NULL;
        if (!scratch) scratch = (%(type)s *)malloc((n + 1) * sizeof(%(type)s));
    """
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            scratch[i] = 2 * X(i);
        for (npy_intp i = 0; i < n; i++)
            Z(i) = scratch[i];
    """


@wrong("AddressError", "sanitizer", "a table on the stack is too short for more than 3 elements")
class TableOnTheStackTooShort(DoubleInC):
    LOOP = """
        %(type)s table[4], *element = table;
        for (npy_intp i = 0; i < n; i++) {
            element[i] = 2 * X(i);
            Z(i) = element[i];
        }
    """


@wrong("UndefinedBehaviour", "sanitizer", "integers overflow", twin=DoubleIntegersInC)
class Overflows(DoubleIntegersInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            Z(i) = X(i) + X(i);
    """


@wrong("UndefinedBehaviour", "sanitizer", "shifts by as many bits as there are", twin=DoubleInC)
class ShiftsTooFar(DoubleInC):
    AFTER = "volatile int bits = 32; if (n > 1) Z(0) += 0 * (1 << bits);"


@wrong("UndefinedBehaviour", "sanitizer", "reads a double from an address that is not aligned")
class ReadsMisaligned(DoubleInC):
    AFTER = """
        if (n > 1 && sizeof(%(type)s) == 8) {
            volatile double odd = *(double *)(PyArray_BYTES(%(z)s) + (PyArray_STRIDE(%(z)s, 0) < 0 ? -4 : 4));
            (void)odd;
        }
    """


@wrong("UndefinedBehaviour", "sanitizer", "divides an integer by zero", twin=DoubleIntegersInC)
class DividesByZero(DoubleIntegersInC):
    AFTER = "volatile npy_int64 zero = 0; if (n > 2) Z(0) += 0 * (7 / zero);"


@wrong("UninitializedOutput", "sanitizer", "the last element is not written")
class ForgetsTheLast(DoubleInC):
    LOOP = DoubleInC.LOOP.replace("i < n;", "i < n - 1;")


@wrong("UninitializedOutput", "sanitizer", "negative elements are not written")
class ForgetsNegative(DoubleInC):
    LOOP = """
        for (npy_intp i = 0; i < n; i++)
            if (X(i) >= 0 || X(i) != X(i)) Z(i) = 2 * X(i);
    """


@wrong("Crash", "c_code", "writes to address 0 for one element", np.array([1.0]), twin=DoubleInC)
class WritesToNull(DoubleInC):
    AFTER = "volatile int *nowhere = 0; if (n == 1) *nowhere = 1;"


@wrong("Crash", "c_code", "ends the process when there are no elements")
class AbortsForNothing(DoubleInC):
    AFTER = "if (n == 0) abort();"


# ---------------------------------------------------------------- C code as text


class ScaleInC(DoubleInC):
    """x -> factor * x; the factor is in the text of the C code."""

    __props__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * inputs[0].dtype.type(self.factor)

    def grad(self, inputs, gradients):
        return [gradients[0] * self.factor]

    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else [eval_points[0] * self.factor]

    def c_code(self, node, name, inputs, outputs, sub):
        return super().c_code(node, name, inputs, outputs, sub).replace("2 * X(i)", "%d * X(i)" % self.factor)


#: Class of correct Ops -> arguments of the class.
RIGHT = {DoubleInC: (), DoubleIntegersInC: (), DoublePositiveInC: (), SumInC: (), MaximumInC: (), ScaleInC: (3,)}


@wrong("BadCacheVersion", "cache_version", "a number in place of a tuple", args=(3,))
class VersionIsANumber(ScaleInC):
    def c_code_cache_version(self):
        return 1


@wrong("BadCacheVersion", "cache_version", "a version with a list in it", args=(3,))
class VersionHasAList(ScaleInC):
    def c_code_cache_version(self):
        return (1, [2])


@wrong("BadCacheVersion", "cache_version", "no version: every process compiles anew", args=(3,))
class VersionIsEmpty(ScaleInC):
    def c_code_cache_version(self):
        return ()


@wrong("BadCacheVersion", "cache_version", "a version by identity, another one for each equal Op", args=(3,))
class VersionByIdentity(ScaleInC):
    def c_code_cache_version(self):
        return (id(self),)


@wrong("BadCacheVersion", "cache_version", "another text each time", args=(3,))
class TextByACounter(ScaleInC):
    made = 0

    def c_code(self, node, name, inputs, outputs, sub):
        type(self).made += 1
        return super().c_code(node, name, inputs, outputs, sub) + "/* %d */" % self.made


@wrong("CompileError", "c_code", "does not compile", args=(3,))
class DoesNotCompile(ScaleInC):
    AFTER = "Z(0) = nothing_of_this_name;"


@wrong("BadCacheVersion", "cache_version", "the version raises", args=(3,))
class VersionRaises(ScaleInC):
    def c_code_cache_version(self):
        raise OSError("no such file: scale.c")


@wrong("BadCacheVersion", "c_code", "the version raises, and nothing can be compiled", args=(3,), twin=ScaleInC)
class VersionRaisesForTheCompiler(VersionRaises):
    pass


@wrong("CompileError", "cache_version", "c_code raises", args=(3,))
class CodeRaises(ScaleInC):
    def c_code(self, node, name, inputs, outputs, sub):
        raise OSError("no such file: scale.c")


@wrong("CompileError", "c_code", "the support code raises, and nothing can be compiled", args=(3,))
class SupportCodeRaises(ScaleInC):
    def c_support_code(self):
        raise OSError("no such file: scale.h")
