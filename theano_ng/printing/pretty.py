"""The functions `pp` and `pprint`: an expression as one line of mathematics.

`PPrinter` selects the printer of a variable by the Op that computes the variable, or by a condition on the variable.
The method ``process(output, pstate)`` of a printer returns text. The printers of this module also have a method
``parts(output, pstate)``, which returns a list of texts and of variables that remain to be printed. Thus the printers
do not recurse, and the depth of expressions is not limited.
"""

from copy import copy

from theano_ng import gof
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.utils import scratchpad

use_ascii = True

special = {"middle_dot": "\\dot", "big_sigma": "\\Sigma"}
greek = {
    name: "\\" + name
    for name in (
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "eta",
        "theta",
        "lambda",
        "mu",
        "nu",
        "pi",
        "rho",
        "sigma",
        "tau",
        "phi",
        "psi",
        "omega",
    )
}
if not use_ascii:
    special = {"middle_dot": "\u00b7", "big_sigma": "\u03a3"}


class PrinterState(scratchpad):
    """The state that printers pass to each other: the attribute ``pprinter``, and others such as ``precedence``.

    Parameters
    ----------
    props : scratchpad or dict, optional
        The names and values of the attributes.
    **more_props
        More attributes. They override the attributes in `props`.
    """

    def __init__(self, props=None, **more_props):
        if props is None:
            props = {}
        elif isinstance(props, scratchpad):
            self.__update__(props)
            props = {}
        for name, value in dict(props, **more_props).items():
            setattr(self, name, value)

    def clone(self, props=None, **new_props):
        """Return a state with the attributes of `self`, or of `props` if it is given. `new_props` override them."""
        return PrinterState(self if props is None else props, **new_props)


class _Printer:
    """A base class of printers. The method `parts` returns a list of strings and of pairs (variable, precedence)."""

    def process(self, output, pstate):
        """Return the text for the variable `output`."""
        return pstate.pprinter._expand(self.parts(output, pstate), pstate)


class OperatorPrinter(_Printer):
    """A printer that writes an operator between the inputs, or before a single input, in parentheses.

    Parameters
    ----------
    operator : str
    precedence : int
        The value of ``pstate.precedence`` that the printers of the operands get.
    assoc : {'left', 'right', 'either', 'none'}
        The side whose outermost operand is printed with exactly `precedence`. The printers of the other operands get a
        slightly higher value. With 'either', all operands get `precedence`. With 'none', all get the higher value.
    """

    def __init__(self, operator, precedence, assoc="left"):
        self.operator = operator
        self.precedence = precedence
        self.assoc = assoc

    def parts(self, output, pstate):
        node = _owner_of(self, output)
        last = len(node.inputs) - 1
        if last == 0:
            return ["(" + self.operator, (node.inputs[0], self.precedence), ")"]
        parts = ["("]
        for k, x in enumerate(node.inputs):
            closer = (self.assoc == "left" and k != 0) or (self.assoc == "right" and k != last) or self.assoc == "none"
            if k:
                parts.append(" %s " % self.operator)
            parts.append((x, self.precedence + (1e-6 if closer else 0)))
        parts.append(")")
        return parts


class PatternPrinter(_Printer):
    r"""A printer that inserts the inputs into a pattern.

    Parameters
    ----------
    *patterns : str or tuple
        A pattern for each output of the Op: a string such as ``'|%(0)s|'``, or a tuple of such a string and the
        precedences of the inputs. Inputs without a precedence get the last precedence.
    """

    def __init__(self, *patterns):
        self.patterns = [(p, ()) if isinstance(p, str) else (p[0], p[1:]) for p in patterns]

    def parts(self, output, pstate):
        node = _owner_of(self, output)
        pattern, precedences = self.patterns[node.outputs.index(output)]
        # Insert a marker for each input, and split the result at the markers.
        marks = {str(k): "\0%d\0" % k for k in range(len(node.inputs))}
        parts = []
        for k, piece in enumerate((pattern % marks).split("\0")):
            if k % 2 == 0:
                parts.append(piece)
            else:
                index = int(piece)
                precedence = precedences[min(index, len(precedences) - 1)] if precedences else -1000
                parts.append((node.inputs[index], precedence))
        return parts


class FunctionPrinter(_Printer):
    """A printer that shows a variable as a call of a function.

    Parameters
    ----------
    *names : str
        The name of the function for each output of the Op.
    """

    def __init__(self, *names):
        self.names = names

    def parts(self, output, pstate):
        node = _owner_of(self, output)
        return _call(self.names[node.outputs.index(output)], node.inputs)


class IgnorePrinter(_Printer):
    """A printer that shows the first input instead of the output."""

    def parts(self, output, pstate):
        return [(_owner_of(self, output).inputs[0], getattr(pstate, "precedence", -1000))]


class LeafPrinter(_Printer):
    """A printer that shows the name of a variable. If there is none, it shows the value of a constant or the type."""

    def parts(self, output, pstate):
        return [greek[output.name] if output.name in greek else output.__repr__(firstPass=False)]


class DefaultPrinter(_Printer):
    """A printer that shows a variable as a call of its Op. It does not show which output of the Op the variable is."""

    def parts(self, output, pstate):
        node = output.owner
        if node is None:
            return leaf_printer.parts(output, pstate)
        return _call(str(node.op), node.inputs)


def _call(name, inputs):
    parts = [name + "("]
    for k, x in enumerate(inputs):
        if k:
            parts.append(", ")
        parts.append((x, -1000))
    parts.append(")")
    return parts


def _owner_of(printer, output):
    if output.owner is None:
        raise TypeError("%s cannot print %s, because no op computes it" % (type(printer).__name__, output))
    return output.owner


leaf_printer = LeafPrinter()
default_printer = DefaultPrinter()


class PPrinter:
    """The pretty printer. It selects a printer for each variable. A later call of `assign` overrides earlier calls.

    Examples
    --------
    >>> from theano_ng.printing import pprint
    >>> from theano_ng.scalar import float64
    >>> x, y = float64('x'), float64('y')
    >>> pprint(x + y)
    '(x + y)'
    """

    def __init__(self):
        self.printers = []
        # Op -> (rank of the assignment, printer). Most assignments are for a single Op. This dict gives their printers
        # without a search of the list `printers`.
        self._for_op = {}

    def assign(self, condition, printer):
        """Assign a printer to some variables.

        Parameters
        ----------
        condition : Op or callable
            An Op whose outputs get the printer, or a function of (pstate, variable) that returns True for the variables
            that get the printer.
        printer : object with ``process(output, pstate)``, or a function of (output, pstate)
        """
        if isinstance(condition, gof.Op):
            self._for_op[condition] = (len(self.printers), printer)
        self.printers.insert(0, (condition, printer))

    def _choose(self, variable, pstate):
        node = variable.owner
        by_op = None
        if node is not None and self._for_op:
            try:
                by_op = self._for_op.get(node.op)
            except TypeError:  # the Op cannot be hashed
                by_op = None
        # `printers` begins with the latest assignment, which has the highest rank.
        rank = len(self.printers)
        for condition, printer in self.printers:
            rank -= 1
            if by_op is not None and by_op[0] >= rank:
                return by_op[1]
            if not isinstance(condition, gof.Op) and condition(pstate, variable):
                return printer
        return default_printer if node is not None else leaf_printer

    def _expand(self, parts, pstate):
        """Print the variables in `parts`, and return the whole text."""
        text = []
        before = getattr(pstate, "precedence", None)
        stack = list(reversed(parts))
        try:
            while stack:
                part = stack.pop()
                if isinstance(part, str):
                    text.append(part)
                    continue
                variable, pstate.precedence = part
                printer = self._choose(variable, pstate)
                if hasattr(printer, "parts"):
                    stack.extend(reversed(printer.parts(variable, pstate)))
                elif hasattr(printer, "process"):
                    text.append(printer.process(variable, pstate))
                else:
                    text.append(printer(variable, pstate))
        finally:
            if before is None:
                pstate.__dict__.pop("precedence", None)
            else:
                pstate.precedence = before
        return "".join(text)

    def process(self, r, pstate=None):
        """Return the text for the variable `r`."""
        if pstate is None:
            pstate = PrinterState(pprinter=self)
        elif isinstance(pstate, dict):
            pstate = PrinterState(pprinter=self, **pstate)
        return self._expand([(r, getattr(pstate, "precedence", -1000))], pstate)

    def process_graph(self, inputs, outputs, updates=None, display_inputs=False):
        """Return lines ``name = expression`` for the outputs and the named variables of a graph.

        Inside an expression, a variable with a name is printed as its name.

        Parameters
        ----------
        inputs, outputs : list of Variable
        updates : dict, optional
            Variable -> new value. An output that is a new value gets the name of the updated variable.
        display_inputs : bool
            Whether to begin with a line that lists the inputs.
        """
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        if not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        targets = {new: old for old, new in (updates or {}).items()}
        lines = []
        if display_inputs:
            lines.append("inputs: " + ", ".join(str(i) for i in list(inputs) + list(targets.values())))
        current = None
        printer = self.clone_assign(lambda pstate, r: r.name is not None and r is not current, leaf_printer)
        for node in gof.graph.io_toposort(list(inputs) + list(targets.values()), list(outputs) + list(targets)):
            for output in node.outputs:
                if output in targets:
                    name = str(targets[output])
                elif output.name is not None or output in outputs:
                    name = "out[%d]" % outputs.index(output) if output.name is None else output.name
                else:
                    continue
                current = output
                try:
                    lines.append("%s = %s" % (name, printer.process(output)))
                finally:
                    current = None
        return "\n".join(lines)

    def __call__(self, *args):
        """Return the text for one variable. For (inputs, outputs[, updates]), return the lines of `process_graph`."""
        if len(args) == 1 and isinstance(args[0], Variable):
            return self.process(*args)
        if len(args) == 2 and isinstance(args[1], (PrinterState, dict)):
            return self.process(*args)
        if len(args) > 1:
            return self.process_graph(*args)
        raise TypeError(
            "Not enough arguments to call: pprint expected a Variable, or inputs and outputs; got %r" % (args,)
        )

    def clone(self):
        """Return an independent printer with the same assignments."""
        other = copy(self)
        other.printers = list(self.printers)
        other._for_op = dict(self._for_op)
        return other

    def clone_assign(self, condition, printer):
        """Return a clone with one more assignment."""
        other = self.clone()
        other.assign(condition, printer)
        return other


class DimShufflePrinter(_Printer):
    """A printer that hides axes that were added on the left for broadcasting, and shows a transposition as ``x.T``."""

    def parts(self, output, pstate):
        node = _owner_of(self, output)
        x = node.inputs[0]
        order = list(node.op.new_order)
        while order and order[0] == "x":
            del order[0]
        if order == list(range(x.type.ndim)):
            return [(x, getattr(pstate, "precedence", -1000))]
        if order == list(reversed(range(x.type.ndim))):
            return [(x, 1), ".T"]
        return ["DimShuffle{%s}(" % ", ".join(map(str, node.op.new_order)), (x, -1000), ")"]


class _CastPrinter(_Printer):
    """A printer that shows a conversion as a call of a function with the name of the dtype."""

    def parts(self, output, pstate):
        return _call(output.type.dtype, _owner_of(self, output).inputs)


def _scalar_printers():
    """Return a dict from the class name of a scalar Op to the printer of the Op and of its elementwise version."""
    printers = {
        "Add": OperatorPrinter("+", -2, "either"),
        "Sub": OperatorPrinter("-", -2, "left"),
        "Mul": OperatorPrinter("*", -1, "either"),
        "TrueDiv": OperatorPrinter("/", -1, "left"),
        "IntDiv": OperatorPrinter("//", -1, "left"),
        "Neg": OperatorPrinter("-", 0, "either"),
        "Pow": OperatorPrinter("**", 1, "right"),
        "Abs": PatternPrinter(("|%(0)s|", -1000)),
        "Cast": _CastPrinter(),
        "Identity": IgnorePrinter(),
    }
    functions = {
        "Second": "fill",
        "EQ": "eq",
        "NEQ": "neq",
        "GT": "gt",
        "GE": "ge",
        "LT": "lt",
        "LE": "le",
        "Mod": "mod",
        "Switch": "switch",
        "AND": "and_",
        "OR": "or_",
        "XOR": "xor",
        "Invert": "invert",
        "IsNan": "isnan",
        "IsInf": "isinf",
        "RoundHalfToEven": "round_half_to_even",
        "RoundHalfAwayFromZero": "round_half_away_from_zero",
        "ScalarSigmoid": "sigmoid",
        "ScalarSoftplus": "softplus",
        "UltraFastScalarSigmoid": "ultra_fast_sigmoid",
    }
    printers.update((cls, FunctionPrinter(name)) for cls, name in functions.items())
    return printers


_printers_of_scalar_ops = _scalar_printers()


class _ScalarPrinter(_Printer):
    """A printer of scalar and elementwise Ops. It delegates to the printer for the class of the scalar Op."""

    def __init__(self, printers):
        self.printers = printers

    def accepts(self, pstate, r):
        node = r.owner
        if node is None or len(node.outputs) != 1:
            return False
        scalar_op = _scalar_op(node.op)
        return scalar_op is not None and type(scalar_op).__name__ != "Composite"

    def parts(self, output, pstate):
        scalar_op = _scalar_op(output.owner.op)
        printer = self.printers.get(type(scalar_op).__name__)
        if printer is None:
            plain = type(scalar_op).__name__
            # The scalar Op of an in-place Op has no name, so its text is the name of its class. Print Exp as exp.
            printer = FunctionPrinter(plain.lower() if str(scalar_op) == plain else str(scalar_op))
        return printer.parts(output, pstate)


def _scalar_op(op):
    """Return the scalar Op of an elementwise Op. If `op` is a scalar Op, return it. For other Ops, return None."""
    if getattr(op, "is_scalar_op", False):
        return op
    return getattr(op, "scalar_op", None) if type(op).__name__ in ("Elemwise", "GpuElemwise") else None


def _class_condition(*names):
    return lambda pstate, r: r.owner is not None and type(r.owner.op).__name__ in names


def standard_printers(pprinter):
    """Register the printers for the Ops of the package, and return `pprinter`. Later assignments override them."""
    scalar_printer = _ScalarPrinter(_printers_of_scalar_ops)
    pprinter.assign(lambda pstate, r: isinstance(r, Constant) or r.owner is None, leaf_printer)
    pprinter.assign(_class_condition("Dot", "Dot22"), OperatorPrinter(special["middle_dot"], -1, "left"))
    pprinter.assign(_class_condition("DimShuffle"), DimShufflePrinter())
    pprinter.assign(_class_condition("Join"), FunctionPrinter("join"))
    pprinter.assign(_class_condition("Alloc"), FunctionPrinter("alloc"))
    pprinter.assign(scalar_printer.accepts, scalar_printer)
    return pprinter


pprint = standard_printers(PPrinter())
pp = pprint
