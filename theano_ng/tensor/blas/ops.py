"""Ops that are one BLAS call each: Gemm, Gemv, Ger, Dot22, Dot22Scalar, BatchedDot.

Users call `dot`, and rewriting rules (tensor/opt/blas.py) replace `Dot` nodes by nodes of these Ops. All inputs of a
node have the same dtype: float32, float64, complex64 or complex128. BatchedDot also accepts other dtypes, without
calling a BLAS. The Ops do not copy row-major, column-major and sliced matrices.
"""

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof.differentiate import Lop, Rop
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.provenance import is_from_package
from theano_ng.scalar import upcast
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import BLAS_DTYPES
from theano_ng.tensor.elemwise import DimShuffle
from theano_ng.tensor.elemwise.functions import cast, conj_if_complex
from theano_ng.tensor.linalg.products import dot, outer
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.type import TensorType

have_fblas = True


def ldflags(libs=True, flags=False, libs_dir=False, include_dir=False):
    """Return the selected parts of config.blas.ldflags.

    Parameters
    ----------
    libs, flags, libs_dir, include_dir : bool
        Whether to include the names of libraries, other flags, the folders of libraries, and the folders of headers.

    Returns
    -------
    list of str
    """
    return _ldflags(config.blas.ldflags, libs, flags, libs_dir, include_dir)


def _ldflags(ldflags_str, libs, flags, libs_dir, include_dir):
    """Return the selected parts of a string of linker arguments. See `ldflags`."""
    wanted = []
    for flag in ldflags_str.split():
        kind = flag[:2]
        if kind == "-l":
            part, value = libs, flag[2:]
        elif kind == "-L":
            part, value = libs_dir, flag[2:]
        elif kind == "-I":
            part, value = include_dir, flag[2:]
        else:
            part, value = flags, flag
        if part:
            wanted.append(value)
    return wanted


class BlasOp(NativeOp, Op):
    """The base class of BLAS Ops.

    It checks that the inputs have one dtype and the right ranks, and provides native code.

    Attributes
    ----------
    ranks : tuple of int
        Rank of each input.
    names : tuple of str
        Name of each input in error messages.
    function : str
        Name of the native function.
    """

    __props__ = ()
    check_input = False
    ranks = names = ()
    function = None

    def fails_on_values(self, node):
        return False

    def _call_signature(self):
        import inspect

        return inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.names]
        )

    def checked_inputs(self, inputs):
        """Return the inputs as tensor variables after checking their ranks and dtypes.

        Raises
        ------
        TypeError
            If a rank is wrong, or if the dtypes are not all equal to the same BLAS dtype.
        """
        if len(inputs) != len(self.ranks):
            raise TypeError(
                "%s takes %d inputs (%s), got %d" % (self, len(self.ranks), ", ".join(self.names), len(inputs))
            )
        inputs = [as_tensor_variable(i) for i in inputs]
        for name, rank, i in zip(self.names, self.ranks, inputs):
            if i.ndim != rank:
                raise TypeError("%s: %s must have %d dimensions; got %s of type %s" % (self, name, rank, i, i.type))
        dtypes = [i.dtype for i in inputs]
        if dtypes[0] not in BLAS_DTYPES or len(set(dtypes)) != 1:
            raise TypeError(
                "%s: all inputs must have one dtype among %s; got %s"
                % (self, ", ".join(BLAS_DTYPES), ", ".join(map("%s: %s".__mod__, zip(self.names, dtypes))))
            )
        return inputs

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.blas:" + self.function)

    def expression(self, *inputs):
        """Return an expression of basic Ops with the same value. The derivatives of this Op are computed from it."""
        raise NotImplementedError(type(self).__name__)

    def grad(self, inputs, output_grads):
        return Lop(self.expression(*inputs), inputs, output_grads[0])

    def R_op(self, inputs, eval_points):
        moving = [(i, point) for i, point in zip(inputs, eval_points) if point is not None]
        if not moving:
            return [None]
        return [Rop(self.expression(*inputs), *map(list, zip(*moving)))]


class GemmRelated(BlasOp):
    """The base class of Ops that multiply two matrices."""


def _check_product(x, y):
    if x.shape[1] != y.shape[0]:
        raise ValueError(
            "Shape mismatch: x has %d cols (and %d rows) but y has %d rows (and %d cols)"
            % (x.shape[1], x.shape[0], y.shape[0], y.shape[1])
        )


class InplaceBlasOp(BlasOp):
    """The base class of Ops that can overwrite their first input."""

    words = ("no_inplace", "inplace")

    def __init__(self, inplace):
        setattr(self, self.__props__[0], bool(inplace))
        if inplace:
            self.destroy_map = {0: [0]}

    def is_inplace(self):
        return getattr(self, self.__props__[0])

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.is_inplace():
            self.destroy_map = {0: [0]}

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.words[self.is_inplace()])

    def infer_shape(self, node, input_shapes):
        return [input_shapes[0]]

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.blas:" + self.function, in_place=bool(self.is_inplace()))

    def takes_memory(self, node):
        return not self.is_inplace() or not all(map(_is_contiguous, node.inputs))

    def target(self, value):
        """Return the array that `perform` writes to: the input itself if the Op works in place, otherwise a copy."""
        return value if self.is_inplace() else value.copy()


def _is_contiguous(r):
    """Return True if the value of a variable is C- or F-contiguous whenever the function's inputs are contiguous."""
    while r.owner is not None:
        op = r.owner.op
        if not getattr(op, "view_map", None):
            return is_from_package(type(op))
        if not isinstance(op, DimShuffle):
            return False
        r = r.owner.inputs[0]
    return True


def _scaled(scale, value):
    """Return ``scale * value``.

    If the scale is 0, the result is zero even if `value` contains NaN or infinities, as in BLAS.
    """
    return np.zeros_like(value) if scale == 0 else scale * value


class Gemm(InplaceBlasOp, GemmRelated):
    """An Op that computes ``b * z + a * dot(x, y)``.

    Inputs: z (m, n), a (scalar), x (m, k), y (k, n), b (scalar). If b is 0, the values of z are not read.
    """

    E_rank = "gemm only works for rank 2"
    E_scalar = "gemm requires scalar argument"
    E_z_uniq = "argument z aliased to x or y"
    E_mixed = "gemm requires matching dtypes"
    E_float = "gemm requires floating-point dtypes"

    __props__ = ("inplace",)
    params_type = ParamsType(inplace=scal.bool)
    ranks, names, function = (2, 0, 2, 2, 0), ("z", "a", "x", "y", "b"), "gemm"

    def make_node(self, *inputs):
        inputs = self.checked_inputs(inputs)
        z, _, x, y, _ = inputs
        if self.inplace and (z is x or z is y):
            raise InconsistencyError(self.E_z_uniq, (z, x, y))
        return Apply(self, inputs, [z.type()])

    def perform(self, node, inp, out, params=None):
        z, a, x, y, b = inp
        _check_product(x, y)
        if z.shape != (x.shape[0], y.shape[1]):
            raise ValueError(
                "Shape mismatch: z has shape %s but the product of x and y has shape %s"
                % (z.shape, (x.shape[0], y.shape[1]))
            )
        product = _scaled(a, np.dot(x, y))
        result = self.target(z)
        result[...] = _scaled(b, z)
        result += product
        out[0][0] = result

    def infer_shape(self, node, input_shapes):
        z, _, x, y, _ = input_shapes
        return [(x[0] if z[0] is None else z[0], y[1] if z[1] is None else z[1])]

    def expression(self, z, a, x, y, b):
        return b * z + a * dot(x, y)


gemm_no_inplace = Gemm(inplace=False)
gemm_inplace = Gemm(inplace=True)
gemm = gemm_no_inplace


def _factor_like(y, factor):
    """Cast a factor to the dtype of the vector `y`, unless the cast would lose the imaginary part."""
    real_only = factor.dtype.startswith("complex") and not y.dtype.startswith("complex")
    return factor if real_only or factor.dtype == y.dtype or y.dtype not in BLAS_DTYPES else cast(factor, y.dtype)


class Gemv(InplaceBlasOp):
    """An Op that computes ``beta * y + alpha * dot(A, x)``.

    Inputs: y (m), alpha (scalar), A (m, n), x (n), beta (scalar). If beta is 0, the values of y are not read.
    """

    __props__ = ("inplace",)
    ranks, names, function = (1, 0, 2, 1, 0), ("y", "alpha", "A", "x", "beta"), "gemv"

    def make_node(self, y, alpha, A, x, beta):
        y = as_tensor_variable(y)
        # Cast the factors to the dtype of y, because `as_tensor_variable` converts a Python float like 1.0 to float32.
        alpha, beta = (_factor_like(y, as_tensor_variable(factor)) for factor in (alpha, beta))
        inputs = self.checked_inputs((y, alpha, A, x, beta))
        return Apply(self, inputs, [inputs[0].type()])

    def perform(self, node, inputs, out_storage, params=None):
        y, alpha, a, x, beta = inputs
        if a.shape != (y.shape[0], x.shape[0]):
            raise ValueError(
                "Incompatible shapes for gemv (beta * y + alpha * dot(A, x)). y: %s, A: %s, x: %s"
                % (y.shape, a.shape, x.shape)
            )
        product = _scaled(alpha, np.dot(a, x))
        result = self.target(y)
        result[...] = _scaled(beta, y)
        result += product
        out_storage[0][0] = result

    def expression(self, y, alpha, a, x, beta):
        return beta * y + alpha * dot(a, x)


gemv_no_inplace = Gemv(inplace=False)
gemv_inplace = Gemv(inplace=True)
gemv = gemv_no_inplace


class Ger(InplaceBlasOp):
    """An Op that computes ``A + alpha * outer(x, y)``.

    Inputs: A (m, n), alpha (scalar), x (m), y (n).
    """

    __props__ = ("destructive",)
    words = ("non-destructive", "destructive")
    ranks, names, function = (2, 0, 1, 1), ("A", "alpha", "x", "y"), "ger"

    def __init__(self, destructive):
        super().__init__(destructive)

    def make_node(self, A, alpha, x, y):
        inputs = self.checked_inputs((A, alpha, x, y))
        return Apply(self, inputs, [inputs[0].type()])

    def perform(self, node, inp, out, params=None):
        a, alpha, x, y = inp
        if a.shape != (x.shape[0], y.shape[0]):
            raise ValueError("Shape mismatch: A has shape %s, x %s and y %s" % (a.shape, x.shape, y.shape))
        product = _scaled(alpha, np.outer(x, y))
        result = self.target(a)
        result += product
        out[0][0] = result

    def expression(self, a, alpha, x, y):
        return a + alpha * outer(x, y)


ger = Ger(destructive=False)
ger_destructive = Ger(destructive=True)


class CGemv(Gemv):
    """The variant of Gemv with which the rewrite `use_c_blas` replaces Gemv."""

    params_type = ParamsType(inplace=scal.bool)

    def __init__(self, inplace):
        super().__init__(inplace)


class CGer(Ger):
    """The variant of Ger with which the rewrite `use_c_blas` replaces Ger."""

    params_type = ParamsType(destructive=scal.bool)


cgemv_inplace, cgemv_no_inplace = CGemv(inplace=True), CGemv(inplace=False)
cger_inplace, cger_no_inplace = CGer(destructive=True), CGer(destructive=False)


class Dot22(GemmRelated):
    """An Op that multiplies two matrices of the same dtype. Inputs: x (m, k), y (k, n)."""

    ranks, names, function = (2, 2), ("x", "y"), "dot22"

    def make_node(self, x, y):
        inputs = self.checked_inputs((x, y))
        x, y = inputs
        return Apply(self, inputs, [TensorType(x.dtype, (x.broadcastable[0], y.broadcastable[1]))()])

    def perform(self, node, inp, out):
        x, y = inp
        _check_product(x, y)
        out[0][0] = np.dot(x, y)

    def infer_shape(self, node, input_shapes):
        return [(input_shapes[0][0], input_shapes[1][1])]

    def expression(self, x, y):
        return dot(x, y)


_dot22 = Dot22()


class Dot22Scalar(GemmRelated):
    """An Op that computes ``scalar * dot(x, y)``. Inputs: x (m, k), y (k, n), scalar (0-d)."""

    ranks, names, function = (2, 2, 0), ("x", "y", "scalar"), "dot22scalar"

    def make_node(self, x, y, a):
        inputs = self.checked_inputs((x, y, a))
        x, y, _ = inputs
        return Apply(self, inputs, [TensorType(x.dtype, (x.broadcastable[0], y.broadcastable[1]))()])

    def perform(self, node, inp, out):
        x, y, scalar = inp
        _check_product(x, y)
        out[0][0] = np.asarray(_scaled(scalar, np.dot(x, y)))

    def infer_shape(self, node, input_shapes):
        return [(input_shapes[0][0], input_shapes[1][1])]

    def expression(self, x, y, a):
        return a * dot(x, y)


_dot22scalar = Dot22Scalar()


class BatchedDot(BlasOp):
    """An Op that multiplies two batches of matrices: ``z[i] = dot(x[i], y[i])``.

    Each input has rank 3, or rank 2 for a batch of vectors (row vectors in x, column vectors in y).
    """

    def make_node(self, *inputs):
        if len(inputs) != 2:
            raise TypeError("%s takes 2 inputs, got %d" % (self, len(inputs)))
        inputs = [as_tensor_variable(i) for i in inputs]
        for name, i in zip(("first", "second"), inputs):
            if i.ndim not in (2, 3):
                raise TypeError(
                    "theano.tensor.blas.BatchedDot: input %s must have 2 or 3 dimensions; got %s of type %s"
                    % (name, i, i.type)
                )
        dtype = upcast(*[i.dtype for i in inputs])
        inputs = [i if i.dtype == dtype else i.astype(dtype) for i in inputs]
        x, y = inputs
        pattern = (x.broadcastable[0] or y.broadcastable[0],) + x.broadcastable[1:-1] + y.broadcastable[2:]
        return Apply(self, inputs, [TensorType(dtype, pattern)()])

    def native_code(self, node):
        if node.inputs[0].dtype in BLAS_DTYPES:
            return NativeCode("theano_ng.tensor.native.blas:batched_dot")
        return None

    def perform(self, node, inp, out):
        x, y = inp
        shapes = "x.shape is %s, y.shape is %s." % (x.shape, y.shape)
        if x.shape[0] != y.shape[0]:
            raise TypeError("Shape mismatch: batch sizes unequal. " + shapes)
        if x.shape[-1] != y.shape[1]:
            raise TypeError("Shape mismatch: summation axis sizes unequal. " + shapes)
        left = x[:, None, :] if x.ndim == 2 else x
        right = y[:, :, None] if y.ndim == 2 else y
        z = np.matmul(left, right)
        out[0][0] = z.reshape(x.shape[:-1] + y.shape[2:])

    def grad(self, inp, grads):
        x, y = [conj_if_complex(v) for v in inp]
        (g,) = grads
        # If `y` is a batch of vectors, the gradient with respect to `x` contains outer products or multiples of
        # vectors. Elementwise products with broadcasting compute both. The same holds with `x` and `y` exchanged.
        if y.ndim == 3:
            gx = self(g, y.dimshuffle(0, 2, 1))
        elif x.ndim == 3:
            gx = g.dimshuffle(0, 1, "x") * y.dimshuffle(0, "x", 1)
        else:
            gx = g.dimshuffle(0, "x") * y
        if x.ndim == 3:
            gy = self(x.dimshuffle(0, 2, 1), g)
        elif y.ndim == 3:
            gy = x.dimshuffle(0, 1, "x") * g.dimshuffle(0, "x", 1)
        else:
            gy = g.dimshuffle(0, "x") * x
        return patternbroadcast(gx, x.broadcastable), patternbroadcast(gy, y.broadcastable)

    def R_op(self, inputs, eval_points):
        x, y = inputs
        dx, dy = eval_points
        terms = []
        if dx is not None:
            terms.append(self(dx, y))
        if dy is not None:
            terms.append(self(x, dy))
        if not terms:
            return [None]
        return [terms[0] if len(terms) == 1 else terms[0] + terms[1]]

    def infer_shape(self, node, shapes):
        xs, ys = shapes
        return [xs[:-1] + ys[2:]]


batched_dot = BatchedDot()
