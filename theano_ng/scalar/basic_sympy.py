"""Scalar ops made from SymPy expressions."""

import importlib.util
import itertools

from theano_ng.extras import missing
from theano_ng.scalar.op import ScalarOp
from theano_ng.scalar.types import float32, float64, int64

imported_sympy = importlib.util.find_spec("sympy") is not None

_names = ("sympy_func_%d" % i for i in itertools.count())


def include_line(line):
    """Return True if a line of SymPy's C code is to be kept. Lines with includes or comments are dropped."""
    return "#include" not in line and "/*" not in line and "*/" not in line


def sympy_dtype(expr):
    """Return the kind of number that a SymPy expression yields: 'int' or 'float'."""
    return "int" if expr.is_integer else "float"


def theano_dtype(expr):
    """Return the scalar type for the value of a SymPy expression."""
    return {"int": int64, "float": float64}[sympy_dtype(expr)]


class SymPyCCode(ScalarOp):
    """A scalar op that computes a SymPy expression with the C code that SymPy prints for the expression.

    Parameters
    ----------
    inputs : list of sympy.Symbol
    expr : sympy expression
    name : str, optional

    Examples
    --------
    With ``x, y = sympy.symbols('x y')``, ``SymPyCCode([x, y], x + y)`` is an op of two inputs.
    """

    __props__ = ("inputs", "expr")

    def __init__(self, inputs, expr, name=None):
        if not imported_sympy:
            raise ImportError(missing("sympy", "SymPyCCode"))
        super().__init__(name=name or next(_names))
        self.inputs = tuple(inputs)
        self.expr = expr
        self.nin = len(self.inputs)

    def _sympy_c_code(self):
        from sympy.utilities.codegen import codegen

        (_, code), _ = codegen((self.name, self.expr), "C", "project", header=False, argument_sequence=self.inputs)
        return "\n".join(filter(include_line, code.split("\n")))

    def output_types_preference(self, *inputs):
        return [theano_dtype(self.expr)]

    def make_node(self, *inputs):
        return super().make_node(*inputs)

    def perform(self, node, inputs, output_storage):
        value = self.impl(*inputs)
        output_storage[0][0] = self._cast(value, node.outputs[0].type.dtype)

    def impl(self, *inputs):
        value = self.expr.subs(dict(zip(self.inputs, [x.item() if hasattr(x, "item") else x for x in inputs])))
        return int(value) if sympy_dtype(self.expr) == "int" else float(value)

    def grad(self, inputs, output_grads):
        return [SymPyCCode(self.inputs, self.expr.diff(x))(*inputs) * output_grads[0] for x in self.inputs]

    def c_headers(self):
        return ["<math.h>"]

    def c_support_code(self):
        return self._sympy_c_code()

    def c_code(self, node, name, input_names, output_names, sub):
        (output,) = output_names
        return "%s = %s(%s);" % (output, self.name, ", ".join(input_names))

    def c_code_cache_version(self):
        # The version can be constant: the cache key includes the support code, which contains the source of the
        # expression.
        return (1,)


__all__ = ["SymPyCCode", "float32", "float64", "imported_sympy", "include_line", "int64", "sympy_dtype", "theano_dtype"]
