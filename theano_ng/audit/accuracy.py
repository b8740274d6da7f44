"""The check of the number of correct digits: results are compared with the same computation in higher precision."""

import numpy as np

from theano_ng.audit.conditioning import ROUNDINGS, output_change
from theano_ng.audit.forms import copied
from theano_ng.audit.problems import Problem, Reject
from theano_ng.audit.running import reference, run_or_error
from theano_ng.audit.value_checks import runner_or_none, without_underflow
from theano_ng.gof.op import has_perform

# The dtypes that are computed again in float64. Results in float64 are computed again in long double, by `perform`.
_NARROW = ("float16", "float32")


def check_accuracy(context):
    """Check that results in float32 and float64 have at least half of their digits, and do not overflow on the way.

    Inputs whose products would be rounded to zero are left out: a formula such as ``a * (x * y)`` may lose these products.

    Parameters
    ----------
    context : Context

    Returns
    -------
    Verdict
    """
    op, target = context.op, context.target
    if not any(getattr(v.type, "dtype", "") in (*_NARROW, "float64") for v in context.node.outputs):
        return context.skipped("no floating-point output")

    def attempt(example):
        reference(context, example)  # the Op has to accept the example itself
        if not without_underflow(example.node_values()):
            raise Reject()
        exact = _in_higher_precision(context, example)
        if exact is None:
            raise Reject()
        compute, values = exact
        true = _quiet(compute, values)
        if true is None:
            raise Reject()
        applied = False
        for kind, method in (("py", "perform"), ("c", "c_code")):
            if kind == "c" and runner_or_none(context, example.built) is None:
                continue
            outcome = run_or_error(context, kind, example, plain=True)
            if outcome is None or isinstance(outcome, Exception):
                continue
            applied = True
            for k, (value, better) in enumerate(zip(outcome, true)):
                problem = _inaccurate(method, k, value, better, compute, values, example)
                if problem is not None:
                    problem.location = target.location(method)
                    raise problem
        if not applied:
            raise Reject()

    verdict = context.find(attempt, layouts=False)
    if verdict.status == "skipped":
        return context.skipped(
            "no computation in higher precision: the Op refuses float64"
            if not has_perform(op)
            else "perform computes in no higher precision"
        )
    return verdict


def _in_higher_precision(context, example):
    """Return a function that computes outputs in higher precision, and its arguments. Return None if there is none.

    Inputs in float16 and float32 are converted to float64, for the node of the same Op in float64. Inputs in float64
    are converted to long double, for `perform`.
    """
    values = [copied(v) for v in example.node_values()]
    kinds = {str(v.dtype) for v in values if isinstance(v, np.ndarray) and v.dtype.kind == "f"}
    if kinds and kinds <= set(_NARROW):
        twin = context.target.in_float64(example.built)
        if twin is None or len(twin.variables) != len(values):
            return None
        try:
            run = context.runner(twin, "any")
        except Problem:
            return None
        return None if run is None else (run, [_as(v, "float64") for v in values])
    op = example.built.op
    if kinds != {"float64"} or not has_perform(op) or np.finfo(np.longdouble).eps == np.finfo("float64").eps:
        return None
    node = example.built.node

    def perform(values):
        by_variable = dict(zip(example.built.variables, values))
        cells = [[None] for _ in node.outputs]
        arguments = [by_variable[v] if v in by_variable else v.data for v in node.inputs]
        params = () if getattr(op, "params_type", None) is None else (node.run_params(),)
        op.perform(node, arguments, cells, *params)
        return [cell[0] for cell in cells]

    return perform, [_as(v, np.longdouble) for v in values]


def _as(value, dtype):
    """Return a copy in which floats have another dtype."""
    floats = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return np.asarray(value, dtype) if floats else copied(value)


def _quiet(compute, values):
    try:
        with np.errstate(all="ignore"):
            return [copied(v) for v in compute([copied(v) for v in values])]
    except Exception:
        return None


def _inaccurate(method, k, value, better, compute, values, example):
    """Return a `Problem` if a value has lost more than half of its digits. `better` is the more precise value."""
    if not isinstance(value, np.ndarray) or not isinstance(better, np.ndarray) or value.shape != better.shape:
        return None
    if value.dtype.kind != "f" or better.dtype.kind != "f" or np.finfo(better.dtype).eps >= np.finfo(value.dtype).eps:
        return None  # perform converts to float64, so that the result is not more precise
    info = np.finfo(value.dtype)
    with np.errstate(all="ignore"):
        wide = value.astype(better.dtype)
        # A result near the ends of the range may overflow or be a denormal number.
        usable = (
            np.isfinite(better) & (np.abs(better) < float(info.max) / 16) & (np.abs(better) > float(info.tiny) * 16)
        )
        wrong = usable & ~(np.abs(wide - better) <= np.sqrt(float(info.eps)) * np.abs(better))
        if not wrong.any():
            return None
        moved = output_change(compute, values, k, better, 1, np.random.RandomState(17), info.eps)
        if moved is None:
            return None
        wrong &= ~(np.abs(wide - better) <= ROUNDINGS * moved)
    if not wrong.any():
        return None
    at = tuple(int(n) for n in np.argwhere(wrong)[0])
    return Problem(
        "InaccurateResult",
        "output %d of %s%s is %s, but %s in %s"
        % (k, method, " at %s" % list(at) if at else "", value[at], better[at], better.dtype),
        "%d of %d elements have lost more than half of their digits\nnode %s"
        % (int(wrong.sum()), value.size, example.built.node),
    )
