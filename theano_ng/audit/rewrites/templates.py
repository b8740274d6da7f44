"""Texts of the expressions on which a rule is tried: variations of its examples, and expressions with its Ops.

A text is a Python expression with names of `vocabulary`. A variation may be invalid. Then `instances.build` returns
None.
"""

import ast
import copy
import itertools

from theano_ng.audit.rewrites.vocabulary import VARIABLES

#: Integers that replace an integer in a text.
WHOLE = (-3, -2, -1, 0, 1, 2, 3)

#: Expressions that replace a part {0} of a text.
WRAPPERS = ("abs({0})", "-({0})", "({0}) * ({0})", "({0}) + ({0})", "sqr({0})", "exp({0})", "1 / ({0})")


def leaves(text):
    """Return the variables in a text, in the order in which they appear. Parameters of lambdas are left out."""
    found = {}
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Name) and node.id in VARIABLES:
            found.setdefault(node.id, (node.lineno, node.col_offset))
    own = {
        argument.arg
        for node in ast.walk(ast.parse(text, mode="eval"))
        if isinstance(node, ast.Lambda)
        for argument in node.args.args
    }
    outside = {
        node.id
        for node in _outside_lambdas(ast.parse(text, mode="eval").body)
        if isinstance(node, ast.Name) and node.id in VARIABLES
    }
    names = [name for name in found if name not in own or name in outside]
    return sorted(names, key=lambda name: found[name])


def _outside_lambdas(root):
    todo = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Lambda):
            continue
        yield node
        todo.extend(ast.iter_child_nodes(node))


class _Numbered(ast.NodeTransformer):
    """A transformer that replaces one node, given by its index in the order of traversal."""

    def __init__(self, number, make):
        self.number, self.make, self.count = number, make, -1

    def visit(self, node):
        self.count += 1
        if self.count == self.number:
            return self.make(node)
        return self.generic_visit(node)


def _replaced(tree, number, make):
    return ast.unparse(ast.fix_missing_locations(_Numbered(number, make).visit(copy.deepcopy(tree))))


class _Walk(ast.NodeVisitor):
    """A visitor that lists the nodes of a tree, in the order in which `_Numbered` counts them."""

    def __init__(self, tree):
        self.nodes = []
        self.visit(tree)

    def visit(self, node):
        self.nodes.append(node)
        self.generic_visit(node)


def _parsed(text):
    return ast.parse(text, mode="eval").body


def _parts(tree):
    """Yield (index, node) for the parts that can be varied: calls, operators, subscripts and names outside lambdas."""
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            inside.update(ast.walk(node))
        if isinstance(node, ast.Call):
            inside.add(node.func)
    for number, node in enumerate(_Walk(tree).nodes):
        if node in inside:
            continue
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript)):
            yield number, node
        elif isinstance(node, ast.Name) and node.id in VARIABLES:
            yield number, node


def wrapped(text):
    """Yield the texts in which one part is replaced by one of `WRAPPERS` around this part.

    For example, a variable becomes a product, or a square becomes a fourth power.
    """
    tree = _parsed(text)
    for number, node in _parts(tree):
        inner = ast.unparse(node)
        for wrapper in WRAPPERS:
            new = _parsed(wrapper.format(inner))
            yield _replaced(tree, number, lambda _, new=new: new)


def repeated(text):
    """Yield the texts in which a variable is replaced by another part of the text, so that a part occurs twice."""
    tree = _parsed(text)
    parts = list(_parts(tree))
    compound = {ast.unparse(node): node for _, node in parts if not isinstance(node, ast.Name)}
    for number, node in parts:
        if isinstance(node, ast.Name):
            for source, new in compound.items():
                if source != ast.unparse(tree):
                    yield _replaced(tree, number, lambda _, new=new: new)


def with_other_numbers(text):
    """Yield the texts in which one number is replaced: an axis, an index, an exponent or a factor."""
    tree = _parsed(text)
    for number, node in enumerate(_Walk(tree).nodes):
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
            for value in WHOLE:
                if value != node.value:
                    yield _replaced(tree, number, lambda _, value=value: ast.Constant(value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, float):
            for value in (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0):
                yield _replaced(tree, number, lambda _, value=value: ast.Constant(value))


def swapped(text):
    """Yield the texts in which the operands of one operator, or the first two arguments of one call, are exchanged."""
    tree = _parsed(text)
    for number, node in enumerate(_Walk(tree).nodes):
        if isinstance(node, ast.BinOp):
            yield _replaced(tree, number, lambda n: ast.BinOp(n.right, n.op, n.left))
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            yield _replaced(tree, number, lambda n: ast.Call(n.func, [n.args[1], n.args[0], *n.args[2:]], n.keywords))


def with_other_ranges(text):
    """Yield the texts in which one slice is replaced."""
    tree = _parsed(text)
    steps = [
        (None, None, -1),
        (1, None, None),
        (None, -1, None),
        (2, 0, -1),
        (None, None, 2),
        (5, 9, None),
        (-2, None, -2),
    ]
    for number, node in enumerate(_Walk(tree).nodes):
        if isinstance(node, ast.Slice):
            for bounds in steps:
                lower, upper, step = [None if v is None else ast.Constant(v) for v in bounds]
                new = ast.Slice(lower, upper, step)
                yield _replaced(tree, number, lambda _, new=new: new)


def variations(text):
    """Yield a text, then all its variations, without repetition.

    Yields
    ------
    (str, str)
        The kind of variation, and the text.
    """
    seen = {ast.unparse(_parsed(text))}
    yield "as it is", text
    kinds = [
        ("other numbers", with_other_numbers),
        ("other slices", with_other_ranges),
        ("swapped", swapped),
        ("wrapped", wrapped),
        ("repeated", repeated),
    ]
    for kind, make in kinds:
        for new in make(text):
            if new not in seen:
                seen.add(new)
                yield kind, new


# -- expressions with the Ops that a rule tracks -----------------------------------------------------------------------

#: Factors in `quotients`.
ATOMS = ("x", "abs(x)", "-x", "sgn(x)", "y", "x * y", "2")


def quotients():
    """Yield every quotient that contains x and has at most three factors from `ATOMS`, one at least in the divisor."""
    sides = [()] + [(a,) for a in ATOMS] + list(itertools.combinations_with_replacement(ATOMS, 2))
    for above, below in itertools.product(sides, sides):
        if below and len(above + below) <= 3 and any("x" in a for a in above + below):
            yield "(%s) / (%s)" % tuple(" * ".join("(%s)" % a for a in side) or "1" for side in (above, below))


def differences():
    """Yield every difference of two sums, each of one or two terms."""
    atoms = ("x", "-x", "y", "x + y", "x * y", "1")
    sides = [(a,) for a in atoms] + list(itertools.combinations_with_replacement(atoms, 2))
    for plus, minus in itertools.product(sides, sides):
        yield "(%s) - (%s)" % (" + ".join("(%s)" % a for a in plus), " + ".join("(%s)" % a for a in minus))


_UNARY = (
    "{0}",
    "-{0}",
    "abs({0})",
    "exp({0})",
    "log({0})",
    "sqr({0})",
    "sqrt({0})",
    "1 / {0}",
    "fill({0}, 1)",
    "cast({0}, 'int8')",
)
_BINARY = (
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} / {1}",
    "{0} // {1}",
    "{0} ** {1}",
    "maximum({0}, {1})",
    "lt({0}, {1})",
)
_OPERANDS = ("x", "y", "0", "1", "-1", "2", "x * y", "x + y", "-x", "abs(x)", "x.dimshuffle('x', 0)")


def around(name, arity):
    """Yield small expressions that apply a function to operands, and expressions that use the result of the function.

    Parameters
    ----------
    name : str
        The name of a function in `vocabulary`, or a template with ``{0}``, ``{1}``.
    arity : int
        The number of operands of the function.
    """
    pattern = name if "{0}" in name else "%s(%s)" % (name, ", ".join("{%d}" % i for i in range(arity)))
    for operands in itertools.product(_OPERANDS, repeat=min(arity, 2)):
        operands = ["(%s)" % o for o in operands] + ["(z)"] * (arity - 2)
        yield pattern.format(*operands)
    inner = pattern.format(*["(x)", "(y)", "(z)", "(x)"][:arity])
    for outer in _UNARY:
        yield outer.format("(%s)" % inner)
    for outer in _BINARY:
        for operand in ("x", "0", "1", "2", "-1"):
            yield outer.format("(%s)" % inner, "(%s)" % operand)
            yield outer.format("(%s)" % operand, "(%s)" % inner)
