"""Generated tests of Ops: Hypothesis draws the arguments, NumPy computes the expected results.

    class TestRoll(unittest.TestCase):
        roll = Compared(lambda x, shift, axis: tensor.roll(x, shift, axis), lambda x, shift, axis: np.roll(x, shift, axis))

        @generated(arrays(("float32", "int8", "bool"), ndim=(1, 3)), st.integers(-7, 7), st.data())
        def test_values(self, x, shift, data):
            axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
            self.roll.check(x, np.int64(shift), axis=axis)

        @generated(arrays("float64", ndim=(1, 2)), examples=5)
        def test_gradient(self, x):
            self.roll.check_gradient(x, np.int64(1), axis=0, wrt=[0])

Every run draws the same arguments. `Compared` compiles one function for each combination of types and keyword
arguments: draw few of these combinations, and many shapes, layouts and contents.
"""

import functools
import sys

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from theano_ng import gradient, tensor
from theano_ng.audit import forms
from theano_ng.compile.function import function
from theano_ng.compile.mode import Mode, get_mode
from theano_ng.tests import unittest_tools as utt

__all__ = ["ALL_DTYPES", "COMPLEX", "Compared", "FLOATS", "INTEGERS", "LAYOUTS", "arrays", "generated", "shapes"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL_DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)

LAYOUTS = {
    "C": forms.contiguous,
    "fortran": forms.fortran,
    "strided": forms.strided,
    "reversed": forms.reversed_,
    "offset": forms.offset,
    "read-only": forms.read_only,
    "misaligned": forms.misaligned,
    "records": forms.misaligned_strides,
    "swapped": forms.swapped,
}


def generated(*strategies, examples=30, **named):
    """Return a decorator of a test method. The method runs for drawn arguments, which are the same in every run.

    Parameters
    ----------
    *strategies, **named
        As for `hypothesis.given`.
    examples : int
        The number of runs of the method, each with newly drawn arguments.
    """

    def decorate(method):
        tried = settings(
            max_examples=examples,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(given(*strategies, **named)(method))

        @functools.wraps(method)
        def test(self):
            return tried(self)

        # Hide the parameters that Hypothesis fills: test loaders (pytest) must not treat them as fixtures.
        del test.__wrapped__
        return test

    return decorate


@st.composite
def shapes(draw, ndim=(0, 3), sides=(0, 4)):
    """Draw shapes; the lengths 0 and 1 are frequent."""
    rank = draw(st.integers(*ndim)) if isinstance(ndim, tuple) else ndim
    return tuple(draw(st.integers(*sides)) for _ in range(rank))


def fill(shape, dtype, content, rng):
    """Return an array of random contents.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
    content : {"small", "distinct", "positive", "ties", "nonfinite", "extreme"}
        "small" is from -3 to 3 in quarters. "distinct" has no two equal elements (if the dtype has enough values), far
        enough apart for finite differences. "positive" is from 0.25 to 3. "ties" has few different values. "nonfinite"
        and "extreme" add NaN, infinities, and the limits of the dtype.
    rng : numpy.random.RandomState
    """
    size = int(np.prod(shape))
    kind = np.dtype(dtype).kind
    if kind == "b":
        return (rng.randint(0, 2, size) > 0).reshape(shape)
    low = 1 if content == "positive" else 0 if kind == "u" else -12
    if content == "distinct":
        values = rng.permutation(size) - (0 if kind == "u" else size // 2)
        values = values * (1.0 if kind in "iu" else 0.25)
    elif content == "ties":
        values = rng.randint(max(low, -2), 3, size)
    else:
        values = rng.randint(low, 13, size) / (1 if kind in "iu" else 4)
    if kind == "c":
        values = values + 1j * rng.randint(-12, 13, size) / 4
    values = np.asarray(values).astype(dtype)
    if content in ("nonfinite", "extreme") and size:
        chosen = rng.rand(size) < 0.4
        odd = []
        if kind in "iu":
            odd += [np.iinfo(dtype).min, np.iinfo(dtype).max]
        else:
            odd += [np.nan, np.inf, -np.inf, -0.0]
            if content == "extreme":
                odd += [np.finfo(dtype).max, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal]
        values[chosen] = rng.choice(np.array(odd, dtype), chosen.sum())
    return values.reshape(shape)


@st.composite
def arrays(draw, dtypes="float64", ndim=(0, 3), sides=(0, 4), shape=None, contents=("small",), layouts=tuple(LAYOUTS)):
    """Draw arrays of one of the dtypes, in any layout.

    Parameters
    ----------
    dtypes : str or sequence of str
    ndim : int or pair of int
        The rank, or its minimum and maximum.
    sides : pair of int
        Minimum and maximum length of a dimension.
    shape : tuple of int or strategy, optional
        Replaces `ndim` and `sides`.
    contents : str or sequence of str
        See `fill`.
    layouts : sequence of str
        Keys of `LAYOUTS`.
    """
    dtype = draw(st.sampled_from((dtypes,) if isinstance(dtypes, str) else tuple(dtypes)))
    if shape is None:
        shape = draw(shapes(ndim, sides))
    elif not isinstance(shape, tuple):
        shape = draw(shape)
    content = draw(st.sampled_from((contents,) if isinstance(contents, str) else tuple(contents)))
    layout = draw(st.sampled_from(layouts))
    rng = np.random.RandomState(draw(st.integers(0, 2**16)))
    return LAYOUTS[layout](fill(shape, dtype, content, rng))


def _as_list(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


class Compared:
    """A graph, a NumPy reference, and the comparison of their results.

    Parameters
    ----------
    build : callable
        Makes a variable or a list of variables from variables and keyword arguments.
    reference : callable
        Computes the expected array or list from the corresponding values. If it raises, the graph must raise too.
    errors : tuple of exception classes
        Exceptions of `reference` and of compiled functions that count as a refusal. The reference and the function may
        raise different exceptions.
    modes : sequence of str
        Keys of `MODES`: "py" and "c" run the graph without rewriting, by Python code and by C code. "fast_run" and
        "debug" are the modes FAST_RUN and DEBUG_MODE.
    rtol, atol : float, optional
        Tolerances for inexact results. By default results have to be equal (NaN where NaN is expected).
    roundings : int
        Replaces `rtol` and `atol` by this many times the spacing of the output's dtype next to 1: the tolerance depends
        on the dtype.
    dtypes : bool
        Whether the dtypes of the results have to be equal, too.
    declare : {"ones", "none"}
        Whether the types of inputs declare lengths of 1 as broadcastable.
    """

    MODES = {
        "py": lambda: Mode("py", None),
        "c": lambda: Mode("cvm", None),
        "fast_run": lambda: get_mode("FAST_RUN"),
        "debug": lambda: get_mode("DEBUG_MODE"),
    }

    def __init__(
        self,
        build,
        reference,
        errors=(ValueError, IndexError, TypeError, AssertionError),
        modes=("py", "c"),
        rtol=0,
        atol=0,
        roundings=0,
        dtypes=True,
        declare="ones",
    ):
        self.build, self.reference, self.errors, self.modes = build, reference, errors, modes
        self.rtol, self.atol, self.roundings, self.dtypes, self.declare = rtol, atol, roundings, dtypes, declare
        self._compiled = {}

    def variables(self, values):
        """Return input variables for the values."""
        types = [
            tensor.TensorType(
                str(np.asarray(v).dtype.newbyteorder("=")), [n == 1 and self.declare == "ones" for n in np.shape(v)]
            )
            for v in values
        ]
        return [t("input%d" % i) for i, t in enumerate(types)]

    def _functions(self, values, static):
        inputs = self.variables(values)
        key = (*(v.type for v in inputs), repr(static))
        if key not in self._compiled:
            outputs = _as_list(self.build(*inputs, **static))
            # A function converts inputs in the other byte order, so the nodes get only arrays in native byte order.
            made = {
                mode: function(inputs, outputs, mode=self.MODES[mode](), on_unused_input="ignore")
                for mode in self.modes
            }
            shape = function(
                inputs,
                [o.shape for o in outputs if hasattr(o.type, "broadcastable")],
                mode=get_mode("FAST_COMPILE").including("canonicalize"),
                on_unused_input="ignore",
            )
            self._compiled[key] = made, shape, [getattr(o, "broadcastable", ()) for o in outputs]
        return self._compiled[key]

    def check(self, *values, **static):
        """Check that every mode gives the reference's values, dtype and shape, or raises if the reference raises.

        The inferred shapes must be equal to the shapes of the reference.
        """
        values = [np.asarray(v) if np.isscalar(v) else v for v in values]
        try:
            expected = [np.asarray(e) for e in _as_list(self.reference(*values, **static))]
        except self.errors as error:
            self._check_refused(values, static, error)
            return
        functions, shape, patterns = self._functions(values, static)
        before = [np.array(v) for v in values]
        for mode, f in functions.items():
            found = f(*values)
            assert len(found) == len(expected), (mode, len(found), len(expected))
            for k, (got, want) in enumerate(zip(found, expected)):
                where = "output %d, %s, of %s" % (k, mode, describe(values, static))
                assert np.shape(got) == want.shape, "%s: shape %s, expected %s" % (where, np.shape(got), want.shape)
                if self.dtypes:
                    assert got.dtype == want.dtype.newbyteorder("="), "%s: dtype %s, expected %s" % (
                        where,
                        got.dtype,
                        want.dtype,
                    )
                rtol, atol = self._tolerances(want.dtype)
                if rtol or atol:
                    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=where)
                else:
                    np.testing.assert_array_equal(got, want, err_msg=where)
                for length, broadcastable in zip(want.shape, patterns[k]):
                    assert length == 1 or not broadcastable, "%s: its type says a length of 1: %s" % (
                        where,
                        patterns[k],
                    )
            for v, b in zip(values, before):
                np.testing.assert_array_equal(v, b, err_msg="an input was changed by %s" % mode)
        for got, want in zip(shape(*values), expected):
            assert tuple(got) == want.shape, "infer_shape of %s: %s, expected %s" % (
                describe(values, static),
                tuple(got),
                want.shape,
            )

    def _tolerances(self, dtype):
        if dtype.kind not in "fc":
            return 0, 0
        if self.roundings:
            return (self.roundings * np.finfo(dtype).eps,) * 2
        return self.rtol, self.atol

    def _check_refused(self, values, static, error):
        try:
            functions = self._functions(values, static)[0]
        except self.errors:
            return
        for mode, f in functions.items():
            try:
                found = f(*values)
            except self.errors:
                continue
            raise AssertionError(
                "NumPy refuses %s (%s: %s); %s gives %s"
                % (describe(values, static), type(error).__name__, error, mode, found)
            )

    def check_gradient(self, *values, wrt=None, eps=None, rop=True, **static):
        """Check that the gradient agrees with finite differences, and R_op with the gradient.

        Parameters
        ----------
        *values, **static
            Arguments at which the graph is differentiable.
        wrt : list of int, optional
            Positions of the values to differentiate by; all of float64 by default. The others are constant.
        eps : float, optional
            Step of the finite differences.
        rop : bool
            If False, R_op is not tested.
        """
        if wrt is None:
            wrt = [i for i, v in enumerate(values) if np.asarray(v).dtype.newbyteorder("=") == "float64"]

        def build(*moving):
            arguments = list(values)
            for i, v in zip(wrt, moving):
                arguments[i] = v
            return self.build(*[a if hasattr(a, "owner") else tensor.constant(a) for a in arguments], **static)

        def smooth(*moving):
            outputs = [o for o in _as_list(build(*moving)) if o.dtype in ("float64", "complex128")]
            return tensor.concatenate([o.flatten() for o in outputs]) if len(outputs) > 1 else outputs[0]

        points = [np.array(values[i], "float64") for i in wrt]
        utt.verify_grad(smooth, points, n_tests=1, eps=eps, mode=Mode("cvm", "fast_compile"))
        if rop:
            self._check_rop(smooth, points)

    def _check_rop(self, smooth, points):
        inputs = self.variables(points)
        directions = [v.type("direction%d" % i) for i, v in enumerate(inputs)]
        out = smooth(*inputs)
        weights = out.type("weights")
        forward = gradient.Rop(out, inputs, directions)
        backward = gradient.Lop(out, inputs, weights, disconnected_inputs="ignore")
        f = function(
            [*inputs, *directions, weights], [forward, *backward], mode="FAST_COMPILE", on_unused_input="ignore"
        )
        rng = np.random.RandomState(len(points))
        moves = [rng.randn(*p.shape) for p in points]
        weight = rng.randn(*np.shape(function(inputs, out, mode="FAST_COMPILE", on_unused_input="ignore")(*points)))
        tangent, *cotangents = f(*points, *moves, weight)
        np.testing.assert_allclose(
            np.sum(tangent * weight),
            sum(np.sum(c * m) for c, m in zip(cotangents, moves)),
            rtol=1e-7,
            atol=1e-9,
            err_msg="R_op against the gradient",
        )


def describe(values, static):
    """Return a text of values and keyword arguments, for messages."""
    with np.printoptions(threshold=60, linewidth=sys.maxsize):
        texts = [
            "%s%s %s strides %s" % (v.dtype, list(v.shape), str(v).replace("\n", ""), v.strides)
            if isinstance(v, np.ndarray)
            else repr(v)
            for v in values
        ]
    return ", ".join(texts + ["%s=%r" % item for item in static.items()])
