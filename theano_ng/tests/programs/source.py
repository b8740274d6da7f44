"""The Python source code of programs, and the variables or arrays that this code computes.

The printed code of a program is the code that runs. Nothing else interprets the records.
"""

import functools

import numpy as np

import theano_ng as theano
import theano_ng.sparse  # the source code of programs uses these modules
import theano_ng.tensor.nlinalg
import theano_ng.tensor.shared_randomstreams
import theano_ng.tensor.signal.pool
import theano_ng.tensor.slinalg
from theano_ng import tensor
from theano_ng.ifelse import ifelse
from theano_ng.sandbox import rng_mrg  # noqa: F401, the source code of programs uses it
from theano_ng.tests.programs import twins
from theano_ng.tests.programs.forms import FORMS
from theano_ng.tests.programs.operations import OPERATIONS
from theano_ng.tests.programs.precision import unit

NAMES = {"theano": theano, "T": tensor, "np": np, "ifelse": ifelse, "nan": np.nan, "inf": np.inf}
TWIN_NAMES = {"np": np, **{name: getattr(twins, name) for name in twins.__all__}, "nan": np.nan, "inf": np.inf}

IMPORTS = """\
import numpy as np
from numpy import inf, nan
import theano_ng as theano
import theano_ng.sparse, theano_ng.tensor.nlinalg, theano_ng.tensor.slinalg, theano_ng.tensor.signal.pool
import theano_ng.tensor.shared_randomstreams, theano_ng.sandbox.rng_mrg
from theano_ng.ifelse import ifelse
T = theano.tensor
"""


class GraphRenderer:
    """A renderer of the source lines that create variables."""

    def lines(self, node):
        return OPERATIONS[node.operation].graph_lines(node, self)


class TwinRenderer:
    """A renderer of the source lines that compute arrays.

    Each result passes through ``settle``, which rounds it to the dtype of the variable or adds an error.
    """

    def lines(self, node):
        return OPERATIONS[node.operation].twin_lines(node, self)

    def dtype(self, node):
        return node.dtype

    def settled(self, node, expression, operation):
        if not node.dtype:
            return expression
        if operation.exact:
            return "settle(%s, %r)" % (expression, node.dtype)
        scale = "" if operation.scale is None else ", lambda: " + operation.filled(operation.scale, node, node.dtype)
        coarser = unit(node.rounding or node.dtype) / (unit(node.dtype) or 1.0)
        return "settle(%s, %r, %r%s)" % (expression, node.dtype, operation.ulps * max(1.0, coarser), scale)


def input_line(one):
    """Return the source line that creates the variable of an input."""
    if one.role == "shared":
        return "%s = theano.shared(np.reshape(np.array(%r, %r), %r), %r, broadcastable=%r)" % (
            one.name,
            list(one.values),
            one.dtype,
            one.shape,
            one.name,
            one.broadcastable,
        )
    return "%s = T.TensorType(%r, %r)(%r)" % (one.name, one.dtype, one.broadcastable, one.name)


def graph_lines(program):
    """Return the source lines that create the variables of a program."""
    return [line for part in _graph_parts(program) for line in part.splitlines()]


def _graph_parts(program):
    """Return the pieces of source code that create the variables of each input and node."""
    render = GraphRenderer()
    return [*[input_line(one) for one in program.inputs], *["\n".join(render.lines(node)) for node in program.nodes]]


@functools.lru_cache(maxsize=20000)
def code(text):
    """Return the compiled code of some lines.

    The code is cached, because programs share most lines, and compiling is slower than running.
    """
    return compile(text, "<program>", "exec")


def variables(program, more=(), names=None):
    """Return the variables of a program by name, and the variables that further lines define.

    Parameters
    ----------
    program : Program
    more : iterable of str
        Further lines that are run at the end.
    names : dict, optional
        The variables of the program by name, if they already exist. Then only the lines in `more` are run.
    """
    if names is None:
        names = dict(NAMES)
        for lines in _graph_parts(program):
            exec(code(lines), names)
    names = {**names, "weights": weights}
    exec("\n".join(more), names)
    return names


def twin(program):
    """Return a function that computes the arrays of outputs and of updates.

    The returned function takes ``settle``, ``cast``, ``call`` (the number of the call, for random streams), and the
    arrays of all inputs by name.
    """
    render = TwinRenderer()
    steps = [code("\n".join(render.lines(node))) for node in program.nodes]

    def computed(settle, cast, call, **arrays):
        names = {**TWIN_NAMES, **arrays, "settle": settle, "cast": cast, "call": call}
        for step in steps:
            exec(step, names)
        return [names[name] for name in program.outputs], [names[new] for _, new in program.updates]

    return computed


# --- derivatives -------------------------------------------------------------------------------------------------------------


def weights(shape, dtype="float64"):
    """Return weights of both signs, for the cost (a weighted sum of outputs) and for the directions of derivatives."""
    return np.cos(np.arange(1, 1 + int(np.prod(shape)))).reshape(shape).astype(dtype)


def differentiable(program):
    """Return the inputs with respect to which a program is differentiated."""
    return [one for one in program.inputs if one.dtype in ("float32", "float64")]


def derivative_lines(program, shapes):
    """Return the source lines that create `derived`, a list of the derivatives as variables.

    Parameters
    ----------
    program : Program
    shapes : dict
        Output -> its shape, for all outputs that are floats.
    """
    wrt = differentiable(program)
    lines = ["wrt = [%s]" % ", ".join([one.name for one in wrt])]
    if program.derivative == "Rop":
        points = ", ".join(["T.constant(weights(%r, %r))" % (one.shape, one.dtype) for one in wrt])
        return [*lines, "derived = T.Rop([%s], wrt, [%s])" % (", ".join(shapes), points)]
    terms = ["(%s * weights(%r)).sum()" % (name, shape) for name, shape in shapes.items()]
    lines.append("cost = " + " + ".join(terms))
    lines.append("derived = theano.grad(cost, wrt, disconnected_inputs='ignore')")
    if program.derivative == "second":
        terms = ["(derived[%d] * weights(%r)).sum()" % (k, one.shape) for k, one in enumerate(wrt)]
        lines.append("cost = " + " + ".join(terms))
        lines.append("derived = theano.grad(cost, wrt, disconnected_inputs='ignore')")
    return lines


# --- values ------------------------------------------------------------------------------------------------------------------


def array(one):
    """Return the value of an input in its memory layout."""
    return FORMS[one.form](plain(one))


def plain(one):
    """Return the value of an input as a C-contiguous array."""
    return np.array(one.values, one.dtype).reshape(one.shape)


def array_text(one):
    """Return the source code of the value of an input."""
    text = "np.array(%r, %r).reshape(%r)" % (list(one.values), one.dtype, one.shape)
    return text if one.form == "contiguous" else "forms.%s(%s)" % (FORMS[one.form].__name__, text)
