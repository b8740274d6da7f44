"""Comparison of symbolic gradients with finite differences.

The names are documented as members of `theano_ng.gradient`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.compile.function import function
from theano_ng.compile.mode import FAST_RUN, Mode, get_mode
from theano_ng.compile.sharedvalue import shared
from theano_ng.gof.differentiate import grad
from theano_ng.gof.graph import io_toposort
from theano_ng.gof.op import has_c_implementation, has_perform
from theano_ng.gof.places import location_of, scalar_ops_of_authors
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.gof.graph import Variable


class GradientError(Exception):
    """Error: a symbolic gradient differs from the numeric gradient.

    Parameters
    ----------
    arg : int
        The position of the argument.
    err_pos : int
        The flat index of the element in the argument.
    shape : tuple of int
        The shape of the argument.
    val1, val2 : float
        The symbolic and the numeric gradient of this element.
    abs_err, rel_err : float
        The absolute and the relative error of this element.
    abs_tol, rel_tol : float
        The tolerances that the errors exceed.
    """

    def __init__(self, arg, err_pos, shape, val1, val2, abs_err, rel_err, abs_tol, rel_tol):
        super().__init__(arg, err_pos, shape, val1, val2, abs_err, rel_err, abs_tol, rel_tol)
        self.arg, self.err_pos, self.shape = arg, err_pos, shape
        self.val1, self.val2 = val1, val2
        self.abs_err, self.abs_tol = abs_err, abs_tol
        self.rel_err, self.rel_tol = rel_err, rel_tol

    def __str__(self):
        return "\n".join(
            (
                "GradientError: numeric gradient and analytic gradient exceed tolerance:",
                "        At position %i of argument %i with shape %s," % (self.err_pos, self.arg, self.shape),
                "            val1 = %f      ,  val2 = %f" % (self.val1, self.val2),
                "            abs. error = %f,  abs. tolerance = %f" % (self.abs_err, self.abs_tol),
                "            rel. error = %f,  rel. tolerance = %f" % (self.rel_err, self.rel_tol),
                "Exception args: %s" % ", ".join(map(str, self.args)),
            )
        )


class numeric_grad:
    """The gradient of a function, computed by central differences.

    Parameters
    ----------
    f : callable
        A function from arrays to a scalar.
    pt : ndarray or list of ndarray
        The point at which the gradient is computed: the arguments of `f`. The dtypes are floating point or complex.
    eps : float, optional
        Half the distance between the two points of a difference. The default depends on the least precise dtype.
    out_type : str, optional
        The dtype of the output, if it is less precise than the inputs.

    Attributes
    ----------
    gf : ndarray or list of ndarray
        The gradients, one for each array in `pt`.
    """

    # dtype -> the step for which the truncation error of the difference quotient about equals the rounding error.
    type_eps = {
        "float64": 1e-7,
        np.dtype("float64"): 1e-7,
        "float32": 3e-4,
        np.dtype("float32"): 3e-4,
        "float16": 1e-1,
        np.dtype("float16"): 1e-1,
        "complex128": 1e-7,
        np.dtype("complex128"): 1e-7,
        "complex64": 3e-4,
        np.dtype("complex64"): 3e-4,
    }

    def __init__(self, f: Callable[..., Any], pt: Any, eps: float | None = None, out_type: Any = None) -> None:
        packed = not isinstance(pt, (list, tuple))
        points = [
            np.array(p, order="C") for p in ([pt] if packed else pt)
        ]  # the loop changes elements through a flat view, so the copies must be contiguous
        for i, p in enumerate(points):
            if p.dtype not in self.type_eps:
                raise TypeError(
                    "numeric_grad differentiates floating point arguments; argument %d has dtype %s" % (i, p.dtype)
                )
        if eps is None:
            kinds = [p.dtype for p in points]
            if out_type is not None:
                kinds.append(np.dtype(out_type))
            eps = max([self.type_eps[kind] for kind in kinds if kind in self.type_eps], default=1e-7)
        self.gf: Any = []
        for p in points:
            gradient = np.zeros_like(p)
            flat, out = p.reshape(-1), gradient.reshape(-1)
            for i in range(flat.size):
                old = flat[i]
                # ``old + eps`` and ``old - eps`` are rounded, so divide by the actual difference of the two points.
                flat[i] = old + eps
                above, f_above = flat[i], np.asarray(f(*points))
                flat[i] = old - eps
                below, f_below = flat[i], np.asarray(f(*points))
                flat[i] = old
                kind = np.promote_types(np.promote_types(f_above.dtype, p.dtype), "float64")
                out[i] = (f_above.astype(kind) - f_below.astype(kind)) / (
                    np.asarray(above, kind) - np.asarray(below, kind)
                )
            self.gf.append(gradient)
        if packed:
            self.gf = self.gf[0]

    @staticmethod
    def abs_rel_err(a, b):
        """Return the absolute and the relative error between two arrays.

        Returns
        -------
        (ndarray, ndarray)
            ``abs(a - b)``, and ``abs(a - b)`` divided by ``max(abs(a) + abs(b), 1e-8)``.
        """
        abs_err = abs(a - b)
        return abs_err, abs_err / np.maximum(abs(a) + abs(b), [1e-8])

    def abs_rel_errors(self, g_pt):
        """Return the absolute and relative errors of a gradient, compared with the gradient in this object.

        Parameters
        ----------
        g_pt : list of ndarray

        Returns
        -------
        list of (ndarray, ndarray)

        Raises
        ------
        ValueError
            If the numbers of arrays or their shapes differ.
        """
        gf = self.gf if isinstance(self.gf, list) else [self.gf]
        if len(g_pt) != len(gf):
            raise ValueError("argument has wrong number of elements", len(g_pt), "g_pt needs %d elements" % len(gf))
        errors = []
        for i, (a, b) in enumerate(zip(g_pt, gf)):
            if a.shape != b.shape:
                raise ValueError("argument element %i has wrong shapes %s, %s" % (i, a.shape, b.shape))
            errors.append(numeric_grad.abs_rel_err(a, b))
        return errors

    def max_err(self, g_pt, abs_tol, rel_tol):
        """Find the element at which a gradient differs most from the gradient in this object.

        Parameters
        ----------
        g_pt : list of ndarray
        abs_tol, rel_tol : float

        Returns
        -------
        (int, int, float, float)
            The position of the argument, the flat index of the element, its absolute error and its relative error. The
            element has the greatest ``min(abs_err / abs_tol, rel_err / rel_tol)``. If this value exceeds 1, both errors
            exceed their tolerances.
        """
        best = None
        for arg, (abs_err, rel_err) in enumerate(self.abs_rel_errors(g_pt)):
            if not np.all(np.isfinite(abs_err)):
                raise ValueError("abs_err not finite", repr(abs_err))
            if not np.all(np.isfinite(rel_err)):
                raise ValueError("rel_err not finite", repr(rel_err))
            if abs_err.size == 0:
                continue
            scaled = np.minimum(abs_err / abs_tol, rel_err / rel_tol)
            pos = int(np.argmax(scaled))
            value = scaled.reshape(-1)[pos]
            if best is None or value > best[0]:
                best = value, arg, pos, abs_err.reshape(-1)[pos], rel_err.reshape(-1)[pos]
        return (0, 0, 0.0, 0.0) if best is None else best[1:]


def mode_not_slow(mode):
    """Return the mode for reference values: FAST_RUN instead of FAST_COMPILE and DebugMode, otherwise the mode itself.

    Parameters
    ----------
    mode : str, Mode or None
    """
    if mode == "FAST_COMPILE":
        return FAST_RUN
    mode = get_mode(mode)
    debugmode = sys.modules.get("theano_ng.compile.debugmode")
    return FAST_RUN if debugmode is not None and isinstance(mode, debugmode.DebugMode) else mode


_tolerances = {"float16": 5e-2, "float32": 1e-2, "float64": 1e-4, "complex64": 1e-2, "complex128": 1e-4}


def _tolerance(dtypes):
    """Return the tolerance for the least precise of some dtypes."""
    return max([_tolerances.get(str(dtype), 1e-4) for dtype in dtypes], default=1e-4)


def _floating_points(pt):
    """Copy the points of `verify_grad`. Raise TypeError for points that are not real floating-point arrays."""
    if isinstance(pt, np.ndarray):
        pt = [pt]
    if not isinstance(pt, (list, tuple)):
        raise TypeError("pt has to be a list of arrays, not %s" % type(pt))
    pt = [np.array(p) for p in pt]
    for i, p in enumerate(pt):
        if str(p.dtype) not in ("float16", "float32", "float64"):
            raise TypeError(
                'verify_grad can work only with floating point inputs, but input %i has dtype "%s".' % (i, p.dtype)
            )
    return pt


def _random_projection(rng, shape, dtype):
    """Return random factors between 0.5 and 1.5.

    The factors are not near zero, so that every element of the gradient has an effect on the comparison.
    """
    return np.asarray((rng.rand(*shape) if hasattr(rng, "rand") else rng.random(shape)) + 0.5, dtype)


def verify_grad(
    fun: Callable[..., Any],
    pt: Sequence[Any],
    n_tests: int = 2,
    rng: Any = None,
    eps: float | None = None,
    out_type: Any = None,
    abs_tol: float | None = None,
    rel_tol: float | None = None,
    mode: str | Mode | None = None,
    cast_to_output_type: bool = False,
    no_debug_ref: bool = True,
) -> None:
    """Compare a symbolic gradient with finite differences. Raise an error if they differ.

    Parameters
    ----------
    fun : callable
        A function from variables to one variable, for instance an Op.
    pt : list of ndarray
        The point at which the gradient is computed: float16, float32 or float64 arrays. A single array is accepted,
        too.
    n_tests : int
        The number of random projections ``sum(u * fun)`` whose gradients are compared.
    rng : numpy.random.RandomState
        The source of the random projections. The module `numpy.random` is accepted, too.
    eps : float, optional
        The step; see `numeric_grad`. For a linear function, a larger step adds no error: increase the step rather than
        the tolerances.
    out_type : str, optional
        The dtype of the output, for complex outputs and for outputs that are less precise than the inputs.
    abs_tol, rel_tol : float, optional
        The tolerances. The defaults depend on the dtypes. An error is raised if both tolerances are exceeded.
    mode : Mode or str, optional
        The mode in which the functions are compiled.
    cast_to_output_type : bool
        If True, the projection of a float32 output has dtype float32. In all other cases, the projection is float64.
    no_debug_ref : bool
        If True, the reference values are computed in FAST_RUN if `mode` is FAST_COMPILE or a DebugMode.

    Raises
    ------
    GradientError
        If the gradients differ.
    TypeError
        If rng is missing, if points are not floating point arrays, or if `fun` returns a tuple.
    NotImplementedError
        If `fun` returns a list.
    """
    pt = _floating_points(pt)
    if rng is None:
        raise TypeError(
            "rng should be a valid instance of numpy.random.RandomState. You may want to use theano_ng.tests.unittest_tools.verify_grad"
            " instead of theano_ng.gradient.verify_grad."
        )
    default_tol = _tolerance([p.dtype for p in pt] + ([] if out_type is None else [np.dtype(out_type)]))
    abs_tol = default_tol if abs_tol is None else abs_tol
    rel_tol = default_tol if rel_tol is None else rel_tol
    reference_mode = mode_not_slow(mode) if no_debug_ref else mode

    def compiled(inputs, outputs, mode, name):
        return function(
            inputs,
            outputs,
            accept_inplace=True,
            allow_input_downcast=True,
            mode=mode,
            on_unused_input="ignore",
            name=name,
        )

    inputs = [TensorType(p.dtype, [n == 1 for n in p.shape])(name="input %i" % i) for i, p in enumerate(pt)]
    output = fun(*inputs)
    if isinstance(output, list):
        raise NotImplementedError("cant (yet) autotest gradient of fun with multiple outputs")
    value = compiled(inputs, output, reference_mode, "gradient.py fwd")(*[p.copy() for p in pt])
    if isinstance(value, (tuple, list)):
        raise TypeError(
            "It seems like you are trying to use verify_grad on an op or a function which outputs a list: there should be a single"
            " (array-like) output instead"
        )

    check_python_code(inputs, [output], [p.copy() for p in pt], [value])
    projected = "float32" if cast_to_output_type and output.dtype == "float32" else "float64"
    projection = shared(_random_projection(rng, value.shape, projected), borrow=True, name="random_projection")
    cost = (projection * output).sum()
    cost_fn = compiled(inputs, cost, reference_mode, "gradient.py cost")
    grad_fn = compiled(inputs, grad(cost, inputs, disconnected_inputs="ignore"), mode, "gradient.py symbolic grad")
    for test in range(n_tests):
        if test:
            projection.set_value(_random_projection(rng, value.shape, projected), borrow=True)
        # Copy the arguments, because the function may overwrite them.
        numeric = numeric_grad(lambda *points: cost_fn(*[p.copy() for p in points]), pt, eps, out_type)
        analytic = [np.asarray(g) for g in grad_fn(*[p.copy() for p in pt])]
        arg, pos, abs_err, rel_err = numeric.max_err(analytic, abs_tol, rel_tol)
        if abs_err > abs_tol and rel_err > rel_tol:
            raise GradientError(
                arg,
                pos,
                analytic[arg].shape,
                analytic[arg].reshape(-1)[pos],
                numeric.gf[arg].reshape(-1)[pos],
                abs_err,
                rel_err,
                abs_tol,
                rel_tol,
            )


def check_python_code(
    inputs: Sequence[Variable], outputs: Sequence[Variable], values: Sequence[Any], results: Sequence[Any]
) -> None:
    """Compare results with those of `perform`, if a graph contains Ops of other packages with `perform` and C code.

    By default, only the C code of such an Op runs. Then no test would notice an error in its `perform`.

    Parameters
    ----------
    inputs, outputs : list of Variable
    values : list
        The values of the inputs. They may be overwritten.
    results : list
        The values of the outputs.

    Raises
    ------
    AssertionError
        If a result differs.
    """
    ops = {
        node.op: None
        for node in io_toposort(list(inputs), list(outputs))
        if not is_from_package(type(node.op)) or scalar_ops_of_authors(node.op)
    }
    both = [op for op in ops if has_perform(op) and has_c_implementation(op)]
    if not both:
        return
    try:
        in_python = function(
            list(inputs), list(outputs), mode=Mode("py", None), on_unused_input="ignore", accept_inplace=True
        )
    except (NotImplementedError, MethodNotDefined):
        return  # another Op of the graph has no perform
    computed = in_python(*values)
    for i, (variable, expected, result) in enumerate(zip(outputs, computed, results)):
        if not variable.type.values_eq_approx(expected, result):
            raise AssertionError(
                "output %d: perform gives %s, but the function gave %s. The graph contains: %s"
                % (i, expected, result, ", ".join("%s (%s)" % (op, location_of(op, "perform")) for op in both))
            )


for _thing in (GradientError, numeric_grad, mode_not_slow, verify_grad):
    # Pickles and reprs contain the documented module path of these objects.
    _thing.__module__ = "theano_ng.gradient"
del _thing


verify_grad.E_grad = GradientError  # type: ignore[attr-defined]  # the classic name of the exception
