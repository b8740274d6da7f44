"""Checks of the symbolic methods of an Op: shapes, connections, derivatives."""

import warnings

import numpy as np

from theano_ng import tensor
from theano_ng.audit import generate
from theano_ng.audit.finite_differences import (
    FINER,
    STEP,
    differences_of,
    is_additive,
    is_continuous,
    largest,
    one_sided_slopes,
    outputs_at,
    stepped,
)
from theano_ng.audit.forms import copied, dense, elements, with_elements
from theano_ng.audit.problems import Problem, Reject, first_line, one_line
from theano_ng.audit.running import reference
from theano_ng.gof.derivative import DisconnectedType, NullTypeGradError, disconnected_type
from theano_ng.gof.differentiate import DisconnectedInputError, grad, input_gradients
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.null_type import NullType
from theano_ng.gof.op import PureOp
from theano_ng.gof.utils import MethodNotDefined

#: Relative tolerance of derivatives.
TOLERANCE = 1e-4
#: Number of elements of each input whose derivatives are compared.
MAX_ELEMENTS = 40
# dtype -> tolerance of gradients, for dtypes that are less precise than float64.
_COARSE = {"float32": 1e-2, "float16": 2e-1}

_NOT_THERE = (NotImplementedError, MethodNotDefined, NullTypeGradError, DisconnectedInputError)


def _compile(inputs, outputs):
    """Return a function that runs the `perform` methods if possible, so that no C code is compiled."""
    from theano_ng.compile import In, Mode, function

    inputs = [v if isinstance(v, In) else In(v, mutable=True) for v in inputs]
    for linker in ("py", "vm"):
        try:
            return function(inputs, outputs, mode=Mode(linker, None), on_unused_input="ignore", accept_inplace=True)
        except (NotImplementedError, MethodNotDefined, TypeError):
            if linker == "vm":
                raise


# ------------------------------------------------- infer_shape


def check_infer_shape(context):
    """Check that inferred shapes, computed by a graph without the Op, are the shapes of the outputs."""
    if not hasattr(context.op, "infer_shape"):
        return context.skipped("no infer_shape")
    where, functions = context.target.location("infer_shape"), {}

    def attempt(example):
        built = example.built
        if built.index not in functions:
            functions[built.index] = _shape_function(built, where)
        function = functions[built.index]
        if function is None:
            raise Reject()
        outputs = reference(context, example)
        compute, places = function
        values = [copied(v) for v in example.node_values()]
        try:
            found = compute(values)
        except Exception as failure:
            raise Problem(
                "BadInferShape", "the inferred shape cannot be computed: %s" % one_line(failure), str(failure), where
            ) from None
        for i, lengths in zip(places, found):
            shape = tuple(np.shape(outputs[i]))
            if tuple(int(n) for n in lengths) != shape:
                raise Problem(
                    "BadInferShape",
                    "output %d has shape %s, but the inferred shape is %s" % (i, shape, tuple(int(n) for n in lengths)),
                    "node %s" % built.node,
                    where,
                )

    verdict = context.find(attempt, layouts=False, mild=True)
    if verdict.status == "skipped" and functions and not any(functions.values()):
        return context.skipped("infer_shape determines no shape")
    return verdict


def _shape_function(built, where):
    """Compile a function that computes the inferred shapes of a node.

    Returns
    -------
    (callable, list of int) or None
        The function takes the values of the node's variables. It returns the shapes of the outputs whose indices are in
        the list. None if infer_shape infers no shape, or raises ShapeError or NotImplementedError.
    """
    from theano_ng.tensor.exceptions import ShapeError

    node = built.node
    lengths, shapes = [], []
    known = {}
    for v in node.inputs:
        if not hasattr(v.type, "ndim"):
            shapes.append(None)
            continue
        if isinstance(v, Constant):
            shapes.append(tuple(tensor.constant(np.int64(n)) for n in np.shape(v.data)))
            continue
        if v not in known:
            # Sparse types have no broadcast pattern: none of their dimensions broadcasts.
            pattern = getattr(v.type, "broadcastable", (False,) * v.type.ndim)
            known[v] = tuple(tensor.constant(np.int64(1)) if one else tensor.lscalar() for one in pattern)
            lengths += [(v, axis, n) for axis, n in enumerate(known[v]) if not isinstance(n, Constant)]
        shapes.append(known[v])
    try:
        answer = node.op.infer_shape(node, list(shapes))
    except (ShapeError, NotImplementedError):
        return None
    except Exception as failure:
        raise Problem("BadInferShape", "infer_shape raises %s" % one_line(failure), "node %s" % node, where) from None
    if not isinstance(answer, (list, tuple)) or len(answer) != len(node.outputs):
        raise Problem(
            "BadInferShape",
            "infer_shape returned %r; expected a list with one shape for each of %d outputs"
            % (answer, len(node.outputs)),
            "node %s" % node,
            where,
        )
    places, flat = [], []
    for i, (shape, out) in enumerate(zip(answer, node.outputs)):
        if shape is None:
            continue
        rank = getattr(out.type, "ndim", None)
        if rank is None:
            continue
        try:
            shape = tuple(shape)
        except TypeError:
            raise Problem(
                "BadInferShape",
                "the inferred shape of output %d is %r, not a tuple" % (i, shape),
                "node %s" % node,
                where,
            ) from None
        if len(shape) != rank:
            raise Problem(
                "BadInferShape",
                "the inferred shape of output %d has %d lengths; the output has %d dimensions" % (i, len(shape), rank),
                "node %s, shape %s" % (node, shape),
                where,
            )
        for length in shape:
            kind = (
                getattr(length.type, "dtype", None) if isinstance(length, Variable) else np.asarray(length).dtype.name
            )
            if kind is None or np.dtype(kind).kind not in "iu" or (isinstance(length, Variable) and length.type.ndim):
                raise Problem(
                    "BadInferShape",
                    "a length of output %d is %s, not an integer"
                    % (i, length.type if isinstance(length, Variable) else repr(length)),
                    "node %s" % node,
                    where,
                )
        places.append(i)
        flat.append([tensor.as_tensor_variable(n) for n in shape])
    if not places:
        return None
    symbolic = [n for shape in flat for n in shape]
    try:
        function = _compile([n for _, _, n in lengths] + list(built.variables), symbolic)
    except Exception as failure:
        raise Problem(
            "BadInferShape",
            "the graph of the inferred shape cannot be compiled: %s" % one_line(failure),
            "node %s" % node,
            where,
        ) from None

    def compute(values):
        by_variable = dict(zip(built.variables, values))
        result = iter(function(*[np.int64(np.shape(by_variable[v])[axis]) for v, axis, _ in lengths], *values))
        return [[next(result) for _ in shape] for shape in flat]

    return compute, places


# ------------------------------------------------- connections


def pattern_of(node):
    """Return the connection pattern of a node. The caller has checked its form."""
    method = getattr(node.op, "connection_pattern", None)
    return [[True] * len(node.outputs) for _ in node.inputs] if method is None else method(node)


def check_connection_pattern(context):
    """Check the form of the pattern, and check that floating-point inputs declared as disconnected have no effect."""
    if not hasattr(context.op, "connection_pattern"):
        return context.skipped("the Op has no connection_pattern: all inputs count as connected")
    where = context.target.location("connection_pattern")
    for built in context.target.built:
        _check_pattern_form(built.node, where)

    def attempt(example):
        node, variables = example.built.node, example.built.variables
        pattern = pattern_of(node)
        free = [i for i, v in enumerate(node.inputs) if is_continuous(v) and v in variables and not all(pattern[i])]
        if not free or context.runner(example.built, "any") is None:
            raise Reject()
        outputs = reference(context, example)
        values = [copied(v) for v in example.node_values()]
        for i in free:
            position = variables.index(node.inputs[i])
            if any(w is node.inputs[i] and j != i for j, w in enumerate(node.inputs)):
                continue  # the variable is also another input, which may be connected
            other = list(values)
            other[position] = with_elements(other[position], elements(other[position]) * 0.75 + 0.37)
            try:
                with np.errstate(all="ignore"):
                    changed = context.runner(example.built, "any")([copied(v) for v in other])
            except Exception:
                continue
            for k, out in enumerate(node.outputs):
                if not pattern[i][k] and is_continuous(out) and not out.type.values_eq(outputs[k], changed[k]):
                    raise Problem(
                        "BadConnectionPattern",
                        "input %d is declared as disconnected from output %d, but changes it" % (i, k),
                        "connection_pattern = %r\n%r\n%r" % (pattern, outputs[k], changed[k]),
                        where,
                    )

    # Integer inputs are not tested, because they have no derivatives.
    if not any(is_continuous(v) and not all(row) for v, row in zip(context.node.inputs, pattern_of(context.node))):
        return context.ok(len(context.target.built))
    return context.find(attempt, layouts=False)


def _check_pattern_form(node, where):
    try:
        pattern = node.op.connection_pattern(node)
    except Exception as failure:
        raise Problem(
            "BadConnectionPattern", "connection_pattern raises %s" % one_line(failure), "node %s" % node, where
        ) from None
    expected = "expected a list over %d inputs of lists over %d outputs of bools" % (
        len(node.inputs),
        len(node.outputs),
    )
    if not isinstance(pattern, list) or len(pattern) != len(node.inputs):
        raise Problem(
            "BadConnectionPattern", "connection_pattern returned %r; %s" % (pattern, expected), "node %s" % node, where
        )
    for row in pattern:
        if (
            not isinstance(row, list)
            or len(row) != len(node.outputs)
            or not all(isinstance(b, (bool, np.bool_, int)) and b in (0, 1) for b in row)
        ):
            raise Problem(
                "BadConnectionPattern",
                "connection_pattern has the row %r; %s" % (row, expected),
                "node %s" % node,
                where,
            )


# ------------------------------------------------- gradients


def has_grad(op):
    """Return True if the Op defines a gradient."""
    return hasattr(op, "grad") or type(op).L_op is not PureOp.L_op or "L_op" in vars(op)


def _connected(node, i, k):
    """Return True if the connection pattern connects input i of a node to output k."""
    pattern = getattr(node.op, "connection_pattern", None)
    return pattern is None or pattern(node)[i][k]


class Gradients:
    """The gradients of a node, and the function that computes them.

    Attributes
    ----------
    terms : list
        The gradient for each variable of the node, or None if the variable has no gradient.
    reason : str
        The reason why no gradient can be computed.
    """

    def __init__(self, built, where):
        node = built.node
        self.built, self.reason, self.function = built, "", None
        self.outs = [k for k, out in enumerate(node.outputs) if is_continuous(out)]
        self.weights = [node.outputs[k].type("u%d" % k) for k in self.outs]
        terms = self._terms(node, where)
        if terms is None:
            return
        self.terms = []
        for v in built.variables:
            mine = [t for w, t in zip(node.inputs, terms) if w is v]
            whole = is_continuous(v) and not any(isinstance(t.type, NullType) for t in mine)
            mine = [t for t in mine if not isinstance(t.type, (NullType, DisconnectedType))]
            if (
                whole
                and not mine
                and any(_connected(node, i, k) for i, w in enumerate(node.inputs) if w is v for k in self.outs)
            ):
                mine = [
                    v.zeros_like()
                ]  # connection_pattern connects the input, so a disconnected gradient is equivalent to zero
            self.terms.append(None if not whole or not mine else mine[0] if len(mine) == 1 else tensor.add(*mine))
        self.places = [i for i, t in enumerate(self.terms) if t is not None]
        if not self.outs or not self.places:
            self.reason = "no floating-point output depends differentiably on an input"
            return
        try:
            self.function = _compile(list(built.variables) + self.weights, [self.terms[i] for i in self.places])
        except Exception as failure:
            if getattr(node.op, "destroy_map", None):
                self.reason = "the gradient needs inputs that the Op overwrites"
                return
            raise Problem(
                "BadGradientType",
                "the graph of the gradient cannot be compiled: %s" % one_line(failure),
                str(failure),
                where,
            ) from None

    def _terms(self, node, where):
        """Return the checked result of L_op.

        If the Op has no gradient for these inputs, set `reason` and return None.
        """
        weights = dict(zip(self.outs, self.weights))
        cotangents = [weights[k] if k in weights else disconnected_type() for k in range(len(node.outputs))]
        if not self.outs:
            # The outputs are integers. Do not compute the gradients, but check their types.
            cotangents = [
                out.zeros_like(dtype="float64") if hasattr(out, "zeros_like") else disconnected_type()
                for out in node.outputs
            ]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                terms = input_gradients(node, cotangents)
        except _NOT_THERE as failure:
            self.reason = "not implemented: %s" % first_line(failure)
            return None
        except Exception as failure:
            text = str(failure)
            error = "BadConnectionPattern" if "connection_pattern" in text else "BadGradientType"
            raise Problem(
                error,
                "computing the graph of the gradient raises %s" % one_line(failure),
                "node %s\n%s" % (node, text),
                where,
            ) from None
        floats = {
            v.type.dtype
            for v in node.inputs + node.outputs
            if str(getattr(v.type, "dtype", "")).startswith(("float", "complex"))
        }
        for i, (v, term) in enumerate(zip(node.inputs, terms)):
            if isinstance(term.type, (NullType, DisconnectedType)) or not hasattr(v.type, "dtype"):
                continue
            rank, expected = getattr(term.type, "ndim", None), getattr(v.type, "ndim", None)
            dtype = getattr(term.type, "dtype", None)
            problem = ""
            if rank != expected:
                problem = "has %s dimensions, but the input has %s" % (rank, expected)
            elif is_continuous(v) and dtype not in ("float16", "float32", "float64"):
                problem = "has dtype %s, but the input has dtype %s" % (dtype, v.type.dtype)
            elif (
                is_continuous(v)
                and len(floats) == 1
                and dtype != v.type.dtype
                and (v.type.dtype, dtype) != ("float16", "float32")
            ):
                # A promotion from float16 to float32 by a constant is permitted, because it loses no precision.
                problem = "has dtype %s, but all inputs and outputs have dtype %s" % (dtype, v.type.dtype)
            if problem:
                raise Problem(
                    "BadGradientType",
                    "the gradient of input %d %s" % (i, problem),
                    "node %s\ngradient %s of %s" % (node, term, term.type),
                    where,
                )
        return terms

    def __call__(self, values, weights):
        """Compute the gradients of ``sum(weight * output)`` with respect to the variables that have a gradient.

        Gradients that are sparse matrices are converted to arrays."""
        with np.errstate(all="ignore"):
            terms = self.function(*[copied(v) for v in values], *[copied(w) for w in weights])
        return [dense(term) for term in terms]


def check_grad(context):
    """Check the number, kinds, dtypes, shapes and values of gradients.

    Values are compared with finite differences. Gradients in float32 are compared with gradients in float64.
    """
    op, target = context.op, context.target
    if not has_grad(op):
        return context.skipped("no grad")
    where = target.location("L_op") if type(op).L_op is not PureOp.L_op else target.location("grad")
    made = {}

    def gradients(built):
        if built.index not in made:
            made[built.index] = Gradients(built, where)
        return made[built.index]

    def attempt(example):
        found = gradients(example.built)
        if found.function is None:
            if found.reason:
                example_outputs.append(found.reason)
            raise Reject()
        outputs = reference(context, example)
        node, values = example.built.node, [copied(v) for v in example.node_values()]
        weights = _weights(outputs, found.outs)
        try:
            analytic = found(values, weights)
        except Exception as failure:
            raise Problem(
                "BadGradient", "the gradient cannot be computed: %s" % one_line(failure), str(failure), where
            ) from None
        for i, g in zip(found.places, analytic):
            if np.shape(g) != np.shape(values[i]):
                if _broadcast_unsaid(example.built.variables[i].type, np.shape(values[i]), np.shape(g)):
                    raise Reject()
                raise Problem(
                    "BadGradient",
                    "the gradient of input %d has shape %s, but the input has shape %s"
                    % (i, np.shape(g), np.shape(values[i])),
                    "node %s" % node,
                    where,
                )
        if not _nice(values) or getattr(op, "destroy_map", None) and context.runner(example.built, "any") is None:
            return
        coarse = _coarse(example.built, found)
        if coarse:
            _compare_coarse(context, example, gradients, analytic, weights, coarse, where)
        else:
            _compare_numeric(context, example, found, values, weights, outputs, analytic, where)

    example_outputs = []
    verdict = context.find(attempt, stages=_derivative_stages(context))
    if verdict.status == "ok":
        problem = _second(made.get(0), where)
        if problem is not None:
            return context.verdict([problem], verdict.examples)
    if verdict.status == "skipped" and example_outputs:
        return context.skipped(example_outputs[0])
    return verdict


def _broadcast_unsaid(kind, shape, grown):
    """Return True if shapes differ only because the Op broadcast an undeclared dimension of length 1.

    The type of the input does not declare the dimension as broadcastable. NumPy broadcasts such dimensions, and so does
    a `perform` that uses NumPy. But a gradient knows only the types. Broadcasting must be declared, so the gradient is
    not wrong if its shape differs in such an example."""
    return len(shape) == len(grown) and all(
        n == m or (n == 1 and not one) for n, m, one in zip(shape, grown, kind.broadcastable)
    )


def _derivative_stages(context):
    """Return stages with one layout and moderate contents, because derivatives are compared at smooth points."""
    return generate.stages(context.target, context.max_examples, layouts=False, mild=True)


def _nice(values):
    """Return True if all values are finite and below 1000, so that difference quotients are reliable."""
    return all(
        v.dtype.kind not in "fc" or (np.isfinite(v).all() and (np.abs(v) < 1e3).all())
        for v in map(elements, values)
        if isinstance(v, np.ndarray)
    )


def _weights(outputs, outs):
    """Return a cotangent for each output: different numbers between 0.5 and 1.5."""
    rng = np.random.RandomState(11)
    return [np.asarray(rng.uniform(0.5, 1.5, np.shape(outputs[k])), outputs[k].dtype) for k in outs]


def _coarse(built, found):
    """Return the tolerance for variables that are not float64, or 0 if all are float64."""
    kinds = {
        v.type.dtype for v in list(built.variables) + [built.node.outputs[k] for k in found.outs] if is_continuous(v)
    }
    return max([_COARSE.get(kind, 0) for kind in kinds], default=0)


def _compare_coarse(context, example, gradients, analytic, weights, tolerance, where):
    """Compare gradients in float32 or float16 with the gradients of a node for float64, if the target has one."""
    twin = context.target.in_float64(example.built)
    if twin is None:
        return
    fine = gradients(twin)
    if fine.function is None or [str(v.type.ndim) for v in twin.variables if hasattr(v.type, "ndim")] != [
        str(v.type.ndim) for v in example.built.variables if hasattr(v.type, "ndim")
    ]:
        return
    values = [v.astype("float64") if str(getattr(v, "dtype", "")) in _COARSE else v for v in example.node_values()]
    try:
        expected = fine(values, [w.astype("float64") for w in weights])
    except Exception:
        return
    # The limit is the largest number of the least precise dtype: an intermediate value of this dtype may overflow,
    # although the gradient has another dtype.
    limit = min(
        [
            float(np.finfo(v.type.dtype).max)
            for v in list(example.built.variables) + list(example.built.node.outputs)
            if is_continuous(v)
        ]
    )
    for i, g, e in zip(fine.places, analytic, expected):
        with np.errstate(all="ignore"):
            scale = max(np.abs(e).max(initial=0), 1.0)
            wrong = ~(np.abs(np.asarray(g, "float64") - e) <= tolerance * scale) & np.isfinite(e)
        if np.isfinite(scale) and scale < limit and wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            raise Problem(
                "BadGradient",
                "the gradient of input %d at %s is %s, but in float64 it is %s" % (i, list(at), g[at], e[at]),
                "%s\n%s" % (g, e),
                where,
            )


def _compare_numeric(context, example, found, values, weights, outputs, analytic, where):
    built, tolerance = example.built, context.case.tolerance or TOLERANCE
    for i, g in zip(found.places, analytic):
        flat = np.asarray(elements(values[i])).reshape(-1)
        places = (
            range(flat.size) if flat.size <= MAX_ELEMENTS else np.linspace(0, flat.size - 1, MAX_ELEMENTS).astype(int)
        )
        for place in places:

            def moved(t, i=i, flat=flat, place=place):
                other = flat.copy()
                other[place] += t
                shape = np.shape(elements(values[i]))
                return [with_elements(v, other.reshape(shape)) if k == i else copied(v) for k, v in enumerate(values)]

            slopes = one_sided_slopes(context, built, values, moved, found.outs, outputs, weights)
            if slopes is None:
                continue
            at = _coordinates(values[i], place)
            symbolic = float(np.asarray(g)[at])
            if not slopes.agrees(symbolic, tolerance):
                finer = one_sided_slopes(context, built, values, moved, found.outs, outputs, weights, STEP / FINER)
                if not slopes.confirm(finer, symbolic, tolerance):
                    continue  # the function jumps, the step is too large for its curvature, or the slope has no limit
                if not is_additive(context, built, values, found.outs, outputs):
                    return
                raise Problem(
                    "BadGradient",
                    "the gradient of input %d at %s is %.6g, but finite differences give %s"
                    % (i, list(at), symbolic, slopes),
                    "node %s\ngradient %s\nweights %s" % (built.node, g, weights),
                    where,
                )


def _coordinates(value, place):
    """Return the indices of one of the `elements` of a value; `place` is its number."""
    if elements(value) is not value:  # a sparse matrix
        entries = value.tocoo()
        return int(entries.row[place]), int(entries.col[place])
    return tuple(int(k) for k in np.unravel_index(place, np.shape(value)))


def _second(found, where):
    """Build the gradient of the gradient. Return the problem that occurs, or None."""
    if found is None or found.function is None:
        return None
    terms = [found.terms[i] for i in found.places]
    cost = sum([tensor.sum(dense(t) * (k + 1.0)) for k, t in enumerate(terms)], 0)
    wrt = [v for v in found.built.variables if is_continuous(v)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            grad(cost, wrt, disconnected_inputs="ignore", null_gradients="return")
    except _NOT_THERE:
        return None
    except AttributeError as failure:
        if "has no attribute 'grad'" in str(failure):
            return None  # an Op in the graph of the gradient defines no gradient
        return Problem(
            "BadGradientType", "the gradient cannot be differentiated: %s" % one_line(failure), str(failure), where
        )
    except Exception as failure:
        return Problem(
            "BadGradientType", "the gradient cannot be differentiated: %s" % one_line(failure), str(failure), where
        )
    return None


# ------------------------------------------------- R_op


def check_rop(context):
    """Compare R_op with directional derivatives: for a direction in all inputs and in each single input."""
    op, target = context.op, context.target
    if type(op).R_op is PureOp.R_op and "R_op" not in vars(op):
        return context.skipped("no R_op")
    where, made, reasons = target.location("R_op"), {}, []

    def attempt(example):
        built = example.built
        if built.index not in made:
            made[built.index] = _rop_functions(built, where)
        functions = made[built.index]
        if isinstance(functions, str):
            reasons.append(functions)
            raise Reject()
        outputs = reference(context, example)
        values = [copied(v) for v in example.node_values()]
        rng = np.random.RandomState(5)
        directions = {
            i: np.asarray(rng.uniform(-1, 1, np.shape(elements(v))), getattr(v, "dtype", "float64"))
            for i, v in enumerate(values)
            if is_continuous(built.variables[i])
        }
        for moving, outs, function in functions:
            try:
                with np.errstate(all="ignore"):
                    tangents = function(
                        *[copied(v) for v in values], *[with_elements(values[i], directions[i]) for i in moving]
                    )
            except Exception as failure:
                raise Problem(
                    "BadRop", "R_op cannot be computed: %s" % one_line(failure), str(failure), where
                ) from None
            for k, t in zip(outs, tangents):
                if np.shape(t) != np.shape(outputs[k]):
                    raise Problem(
                        "BadRop",
                        "R_op of output %d has shape %s, but the output has shape %s"
                        % (k, np.shape(t), np.shape(outputs[k])),
                        "node %s" % built.node,
                        where,
                    )
            kinds = {v.type.dtype for v in list(built.variables) + list(built.node.outputs) if is_continuous(v)}
            if kinds == {"float64"} and _nice(values):
                _compare_tangents(context, built, values, outputs, directions, moving, outs, tangents, where)

    verdict = context.find(attempt, stages=_derivative_stages(context))
    if verdict.status == "skipped" and reasons:
        return context.skipped(reasons[0])
    return verdict


def _rop_functions(built, where):
    """Return triples (variables with a direction, outputs with tangents, function that computes these tangents).

    Variables and outputs are given by their indices. If R_op gives no tangents, return the reason as a string.
    """
    node, result, reason = built.node, [], "R_op gives no tangents"
    free = [i for i, v in enumerate(built.variables) if is_continuous(v)]
    outs = [k for k, out in enumerate(node.outputs) if is_continuous(out)]
    if not free or not outs:
        return "no floating-point output, or no floating-point input"
    choices = [free] + [[i] for i in free if len(free) > 1]
    for moving in choices:
        points = {built.variables[i]: built.variables[i].type("d%d" % i) for i in moving}
        try:
            tangents = node.op.R_op(list(node.inputs), [points.get(v) for v in node.inputs])
        except _NOT_THERE as failure:
            reason = "not implemented: %s" % first_line(failure)
            continue  # R_op may be implemented for a direction in another input
        except Exception as failure:
            what = "all inputs" if moving is free else "input %d alone, the other eval_points None," % moving[0]
            raise Problem(
                "BadRop", "R_op for a direction in %s raises %s" % (what, one_line(failure)), "node %s" % node, where
            ) from None
        if not isinstance(tangents, (list, tuple)) or len(tangents) != len(node.outputs):
            raise Problem(
                "BadRop",
                "R_op returned %r; expected a list with one entry for each of %d outputs"
                % (tangents, len(node.outputs)),
                "node %s" % node,
                where,
            )
        given = [
            k
            for k in outs
            if isinstance(tangents[k], Variable) and not isinstance(tangents[k].type, (NullType, DisconnectedType))
        ]
        for k in outs:
            if tangents[k] is not None and not isinstance(tangents[k], Variable):
                raise Problem(
                    "BadRop",
                    "R_op returned %r for output %d, not a variable" % (tangents[k], k),
                    "node %s" % node,
                    where,
                )
        for k in given:
            t, out = tangents[k].type, node.outputs[k].type
            if getattr(t, "ndim", None) != out.ndim or not is_continuous(tangents[k]):
                raise Problem(
                    "BadRop",
                    "the result of R_op for output %d is of %s, but the output is of %s" % (k, t, out),
                    "node %s" % node,
                    where,
                )
        if not given:
            continue
        try:
            function = _compile(
                list(built.variables) + [points[built.variables[i]] for i in moving], [tangents[k] for k in given]
            )
        except Exception as failure:
            if getattr(node.op, "destroy_map", None):
                return "R_op needs inputs that the Op overwrites"
            raise Problem(
                "BadRop", "the graph of R_op cannot be compiled: %s" % one_line(failure), str(failure), where
            ) from None
        result.append((moving, given, function))
    return result or reason


def _compare_tangents(context, built, values, outputs, directions, moving, outs, tangents, where):
    def moved(t):
        return stepped(values, t, {i: directions[i] for i in moving})

    for k, tangent in zip(outs, map(dense, tangents)):
        ends = [outputs_at(context, built, moved(t)) for t in (STEP, -STEP)]
        if any(end is None for end in ends):
            return
        steps = [differences_of(outputs, end, [k]) for end in ends]
        if any(step is None for step in steps):
            continue
        right, left = steps[0][0] / STEP, steps[1][0] / -STEP
        level = largest(outputs[k])
        smooth = np.abs(right - left) <= 1e-2 * np.maximum(1.0, np.abs(right))
        finer = outputs_at(context, built, moved(STEP / FINER))
        nearer = None if finer is None else differences_of(outputs, finer, [k])
        if nearer is None:
            continue
        # A larger step crosses more jumps of a function such as floor. So compare the slope with the slope of a smaller
        # step.
        smooth &= np.abs(nearer[0] * FINER / STEP - right) <= 1e-2 * np.maximum(1.0, np.abs(right))
        size = np.maximum((np.abs(right) + np.abs(left)) / 2, 1e-2)
        bound = (context.case.tolerance or TOLERANCE) * np.maximum(
            size, np.abs(right).max(initial=0)
        ) + 5e-14 * level / STEP
        if not smooth.all():
            continue  # skip all elements: some may be smooth only by chance, for instance if the Op sorts its outputs
        # Small kinks count as smooth. There, the tangent is between the one-sided derivatives.
        wrong = ~((np.minimum(right, left) - bound <= tangent) & (tangent <= np.maximum(right, left) + bound))
        if wrong.any() and is_additive(context, built, values, [k], outputs):
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            raise Problem(
                "BadRop",
                "R_op of output %d at %s is %.6g, but the directional derivative is %.6g%s"
                % (
                    k,
                    list(at),
                    tangent[at],
                    ((right + left) / 2)[at],
                    "" if len(moving) == len(directions) else " (direction in input %d alone)" % moving[0],
                ),
                "node %s\n%s\n%s" % (built.node, tangent, (right + left) / 2),
                where,
            )
