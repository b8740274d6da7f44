"""Draws random typed programs.

A program grows node by node, as a graph and as NumPy arrays at the same time. The arrays show which operands fit, so
that nearly every drawn program is valid. A seed and an index determine a program: it is the same in every process.
Three consecutive programs are a family: they are drawn with the same choices, except for lengths, ranks, taps and
values. Therefore a process compiles similar functions, which caches must not confuse.
"""

import random
from collections import Counter
from dataclasses import replace

import numpy as np

from theano_ng.gof.graph import ancestors
from theano_ng.tests.programs import (
    chapters,  # noqa: F401  (fills the table)
    source,
)
from theano_ng.tests.programs.chapters.bodies import body
from theano_ng.tests.programs.forms import FORMS
from theano_ng.tests.programs.operations import OPERATIONS, dense, floats
from theano_ng.tests.programs.precision import cast_plainly, settle_plainly, unit
from theano_ng.tests.programs.records import Input, Node, Program, all_nodes, needed

FAMILY = 3
ARITHMETIC = ("add", "sub", "mul", "true_div", "square_of_same", "times_constant")
LARGEST, LARGEST_HALF = 1e5, 1e3  # bounds of the values in ordinary programs
SHARE_LONG = 0.12  # share of the programs with long axes
MAX_ELEMENTS, MAX_ELEMENTS_LONG = 120, 10_000  # largest sizes of arrays, in programs without and with long axes
# Lengths of long axes. Above certain lengths, kernels compute several elements at once, divide an axis into blocks or
# halves, or call BLAS. The lengths in this list are just below, at, or just above such a limit, or far from all limits.
LONG = tuple(
    map(int, "8 15 16 17 31 33 64 65 100 127 129 250 255 257 500 511 513 1000 1024 1025 2048 2050 4097 8200".split())
)
SPECIAL = (0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), -float("inf"), -1.5, 2.0)
EXTREMES = {"float64": (5e-324, -1e-310, 1e308), "float32": (1e-45, -1e-40, 3e38)}
# Chapters that accept special values. The other chapters compute sums of products, in which special values would make
# most results NaN or infinite.
SPECIAL_CHAPTERS = ("elementwise", "reductions", "indexing", "shaping", "conditions", "loops")

# The shapes of the inputs that a chapter needs. Each letter is a length, and "1" is a broadcastable axis.
SHAPES = {
    "convolution and pooling": ("bcij", "ocuv"),
    "volumes": ("bcpqj", "ocuqu"),
    "linear algebra": ("nn", "n", "nn"),
    "sparse": ("mn", "nm", "mn"),
    "loops": ("tn", "n", "tn"),
    "products": ("mn", "nm", "n"),
    "networks": ("mn", "mn"),
}

#: Operations that raised an exception when a graph was built: (operation, exception) -> count and the first message.
refused = {}
#: Operations that the twin could not compute: (operation, exception) -> count and the first message. These are errors
#: in the tables.
uncomputed = {}


def note(table, key, error):
    table.setdefault(key, [0, str(error).strip()[:300]])[0] += 1


class Value:
    """A named value of a program that grows: its variable in the graph and its array in the twin.

    Attributes
    ----------
    name : str
    variable : Variable or list
    array : ndarray or list
    broadcastable : tuple of bool
    kind : {"dense", "sparse", "list", "other"}
    computed : bool
        Whether a node computes the value. If False, the value is an input or a parameter.
    """

    def __init__(self, name, variable, array, computed):
        self.name, self.variable, self.array, self.computed = name, variable, array, computed
        if isinstance(variable, list):
            self.kind, self.broadcastable = "list", ()
        elif hasattr(variable.type, "format"):
            self.kind, self.broadcastable = "sparse", (False, False)
        else:
            self.broadcastable = getattr(variable, "broadcastable", None)
            self.kind = "other" if self.broadcastable is None else "dense"


class Draw:
    """A scope that grows: the nodes so far, and the random choices of the next nodes.

    Attributes
    ----------
    random, detail : random.Random
        The generators of choices that are equal within a family, and of choices that differ within a family.
    special, long : bool
        Whether the program computes with special values, and whether its axes may be long.
    values : list of Value
    nodes : list of Node
    """

    def __init__(self, choices, detail, special, palette, long=False, counter=None, depth=0):
        self.random, self.detail, self.special, self.palette, self.long = choices, detail, special, palette, long
        self.values, self.nodes, self.depth = [], [], depth
        self.counter = counter if counter is not None else Counter()
        self.graph_names, self.twin_names = dict(source.NAMES), dict(source.TWIN_NAMES)
        self.twin_names.update(settle=settle_plainly, cast=cast_plainly, call=0)

    # --- choices ---

    def integer(self, low, high):
        return self.random.randint(low, high)

    def choice(self, options):
        return self.random.choice(list(options))

    def varied(self, options):
        """Return a random option. The choice differs between the programs of a family."""
        return self.detail.choice(list(options))

    def chance(self, probability):
        return self.random.random() < probability

    def value(self, predicate):
        """Return a value of the scope for which a predicate is true. Recent values are more likely.

        Return None if no value fits.
        """
        fitting = [v for v in self.values if predicate(v)]
        if not fitting:
            return None
        if len(fitting) > 3 and self.chance(0.5):
            fitting = fitting[-3:]
        return self.choice(fitting)

    def name(self, letter):
        self.counter[letter] += 1
        return letter + str(self.counter[letter])

    # --- growth ---

    def add(self, name, variable, array, computed):
        value = Value(name, variable, array, computed)
        self.values.append(value)
        self.graph_names[name], self.twin_names[name] = variable, array
        return value

    def grow(self, loops=False, operation=None):
        """Try to add a node. Return True if a node was added."""
        name = operation or self.choice(self.palette.loops if loops else self.palette.program)
        if name in ("loop", "op_from_graph") and self.depth >= (2 if name == "loop" else 1):
            return False
        operation = OPERATIONS[name]
        if self.depth and operation.stateful and operation.operands:
            return False  # the state is updated outside of the body, but the operands are known only inside
        pick = operation.pick(self)
        if pick is None:
            return False
        node = Node(
            self.name("v" if not self.depth else "b"),
            name,
            tuple([v.name for v in pick.values]),
            tuple([(key, _frozen(value)) for key, value in pick.parameters.items()]),
            pick.body,
        )
        return self.append(node)

    def append(self, node):
        """Compute the variable and the array of a node. Add the node to the scope if the array is acceptable.

        Return True if the node was added.
        """
        operation = OPERATIONS[node.operation]
        try:
            exec(source.code("\n".join(operation.graph_lines(node, source.GraphRenderer()))), self.graph_names)
            variable = self.graph_names[node.name]
        except Exception as error:
            note(refused, (node.operation, type(error).__name__), error)
            return False
        rounding = _least_precise(variable, [self.graph_names[name] for name in node.operands])
        node = replace(node, dtype="" if isinstance(variable, list) else variable.dtype, rounding=rounding)
        try:
            exec(source.code("\n".join(operation.twin_lines(node, source.TwinRenderer()))), self.twin_names)
        except Exception as error:
            note(uncomputed, (node.operation, type(error).__name__), error)
            return False
        array = self.twin_names[node.name]
        if not all([self.acceptable(part) for part in (array if isinstance(array, list) else [array])]):
            return False
        if operation.kink is not None and operation.kink(*[self.twin_names[name] for name in node.operands]):
            self.counter["kinks"] += 1
        self.nodes.append(node)
        value = self.add(node.name, variable, array, True)
        if value.kind == "list":
            for k in range(len(variable)):
                self.append(Node(self.name("v" if not self.depth else "b"), "item", (node.name,), (("k", k),)))
        return True

    def acceptable(self, array):
        """Return True if an array has few elements and, unless the program is about special values, no large values."""
        if array.size > (MAX_ELEMENTS_LONG if self.long else MAX_ELEMENTS):
            return False
        return self.special or is_ordinary(array)

    # --- graphs inside nodes ---

    def inside(self, rows):
        """Return a scope for a body with a parameter for each pair (value, row).

        If the row is None, the parameter has the type of the value. Otherwise it has the type of this row of the value.
        """
        inner = Draw(self.random, self.detail, self.special, self.palette, self.long, self.counter, self.depth + 1)
        inner.parameters = []
        for value, row in rows:
            pattern = value.broadcastable if row is None else value.broadcastable[1:]
            variable = source.tensor.TensorType(str(value.array.dtype), pattern)()
            name = self.name("b")
            inner.parameters.append(name)
            inner.add(name, variable, value.array if row is None else np.asarray(value.array[row]), False)
        return inner

    def computed(self):
        """Return the dense values that nodes compute."""
        return [v for v in self.values if v.computed and v.kind == "dense"]

    def like(self, value, row):
        """Return a value that can be the next value of a state.

        Add a node if no value fits. Return None if this fails.
        """
        array = value.array if row is None else value.array[row]
        pattern = value.broadcastable if row is None else value.broadcastable[1:]

        def fits(v):
            return (
                v.kind == "dense"
                and v.array.dtype == array.dtype
                and v.array.shape == array.shape
                and v.broadcastable == pattern
            )

        found = [v for v in self.computed() if fits(v)]
        if not found:
            given = [v for v in self.values if fits(v)]
            node = Node(self.name("b"), self.choice(("tanh", "sin", "neg")), (self.choice(given).name,))
            if not self.append(node):
                return None
            found = [self.values[-1]]
        return self.choice(found)

    def body(self, outputs):
        return body(self.parameters, self.nodes, [v.name for v in outputs])


def is_ordinary(array):
    """Return True if no element of an array has a large magnitude."""
    if array.dtype.kind not in "fc" or not array.size:
        return True
    return bool(np.abs(array).max() < (LARGEST_HALF if array.dtype == "float16" else LARGEST))


def _least_precise(results, operands):
    """Return the dtype of the least precise variable that is computed between operands and results.

    Return "" if no variable is computed.
    """
    given = _variables(operands)
    computed = [v for v in ancestors(_variables([results]), given) if v.owner is not None and v not in given]
    return max(sorted({v.dtype for v in computed if hasattr(v.type, "dtype")}), key=unit, default="")


def _variables(values):
    """Return a flat list of variables from a list of variables and lists of variables."""
    return [v for one in values for v in (one if isinstance(one, list) else [one])]


def _frozen(value):
    """Return a value in which lists are replaced by tuples."""
    return tuple([_frozen(item) for item in value]) if isinstance(value, (list, tuple)) else value


class Palette:
    """The few operations from which a program is drawn. With few operations, each combination of them is frequent.

    Attributes
    ----------
    chapters : list of str
        The names of the modules from which most operations of the program are drawn.
    program, loops : list of str
        The names of operations for the program, and for the bodies of loops.
    """

    def __init__(self, choices, special):
        allowed = [name for name in CHAPTER_WEIGHTS if not special or name in SPECIAL_CHAPTERS]
        self.chapters = choices.choices(allowed, [CHAPTER_WEIGHTS[name] for name in allowed], k=2)
        of_chapters = [o for o in OPERATIONS.values() if o.chapter in self.chapters]
        self.program = choices.choices([o.name for o in of_chapters], [o.weight for o in of_chapters], k=5)
        self.program += [name for name in ARITHMETIC if choices.random() < 0.4]
        if choices.random() < 0.3:
            self.program += choices.choices([o.name for o in OPERATIONS.values() if o.chapter == "elementwise"], k=2)
        stepping = [o for o in OPERATIONS.values() if o.loops]
        self.loops = choices.choices([o.name for o in stepping], [o.weight for o in stepping], k=4) + ["mul"]
        if choices.random() < 0.1:
            self.loops.append("loop")


CHAPTER_WEIGHTS = {
    "elementwise": 6,
    "reductions": 3,
    "indexing": 3,
    "shaping": 3,
    "products": 2.5,
    "linear algebra": 1.2,
    "loops": 4,
    "OpFromGraph": 0.8,
    "conditions": 0.8,
    "networks": 1.5,
    "convolution and pooling": 0.8,
    "volumes": 0.4,
    "sparse": 1.4,
    "random streams": 1.2,
}
# Chapters without long axes: their twins would take too long, or their results would depend too strongly on rounding.
SHORT_CHAPTERS = ("linear algebra", "convolution and pooling", "volumes")


def generate(seed, index, names=None):
    """Return the program of a seed and an index, which is the same in every process.

    Parameters
    ----------
    seed : object
    index : int
    names : dict, optional
        If given, the variables of the program's graph are added to it by name.

    Returns
    -------
    Program or None
        None if no program could be drawn.
    """
    choices, detail = random.Random("family %s %s" % (seed, index // FAMILY)), random.Random("%s %s" % (seed, index))
    special = choices.random() < 0.12
    palette = Palette(choices, special)
    long = not set(SHORT_CHAPTERS).intersection(palette.chapters) and choices.random() < SHARE_LONG
    draw = Draw(choices, detail, special, palette, long)
    with np.errstate(all="ignore"):
        inputs = _inputs(draw)
        wanted = choices.randint(2, 9)
        for _ in range(3 * wanted):
            if len(draw.nodes) < wanted:
                draw.grow()
        if names is not None:
            names.update(draw.graph_names)
        return _finished(draw, inputs)


# --- inputs ------------------------------------------------------------------------------------------------------------------

DTYPES = (
    ("float64",) * 9
    + ("float32",) * 6
    + ("float16", "int64", "int32", "int8", "uint8", "bool", "complex128", "complex128", "complex64")
)


def _inputs(draw):
    """Draw inputs, and add them to the scope."""
    shapes = [shape for chapter in draw.palette.chapters for shape in SHAPES.get(chapter, ())][:3]
    while len(shapes) < draw.integer(1, 3):
        shapes.append("".join([draw.choice("mmnnn1") for _ in range(draw.varied((0, 1, 1, 2, 2, 2, 3)))]))
    if draw.detail.random() < 0.04:
        axis = draw.detail.randrange(max(1, len(shapes[0])))
        shapes[0] = shapes[0][:axis] + "e" + shapes[0][axis + 1 :]
    lengths = _lengths(draw)
    while draw.long and max([_size(shape, lengths) for shape in shapes]) > MAX_ELEMENTS_LONG:
        lengths = _lengths(draw)
    main = draw.choice(DTYPES)
    found = []
    for shape in shapes:
        dtype = main if draw.chance(0.8) else draw.choice(DTYPES)
        if draw.special and dtype not in ("float64", "float32"):
            dtype = "float64"
        one = _input(draw, shape, dtype, lengths)
        found.append(one)
        exec(source.code(source.input_line(one)), draw.graph_names)
        draw.add(one.name, draw.graph_names[one.name], source.plain(one), False)
    return found


def _lengths(draw):
    """Return a dict from each letter of a shape to a length."""
    lengths = {letter: draw.varied((2, 3, 3, 4, 5, 1)) for letter in "mnoc"}
    lengths.update(b=draw.varied((1, 2)), i=draw.varied((4, 5)), j=draw.varied((3, 5)), u=2, v=draw.varied((1, 2, 3)))
    lengths.update(p=draw.varied((2, 3)), q=draw.varied((2, 2, 3)))
    lengths.update({"t": draw.varied((3, 4, 6)), "e": 0, "1": 1})
    if draw.long:
        lengths.update({letter: draw.varied(LONG) for letter in "mno" if draw.detail.random() < 0.6})
        lengths["t"] = draw.varied((3, 6, 40, 200))
    return lengths


def _size(shape, lengths):
    """Return the number of elements of an input."""
    return int(np.prod([lengths[letter] for letter in shape]))


def _input(draw, shape, dtype, lengths):
    pattern = tuple([letter == "1" for letter in shape])
    values = _values(draw, dtype, _size(shape, lengths))
    lengths = tuple([lengths[letter] for letter in shape])
    role = draw.choice(("argument",) * 8 + ("shared", "mutable"))
    form = draw.detail.choice(["contiguous"] * 8 + list(FORMS)) if role == "argument" else "contiguous"
    return Input(draw.name("x"), dtype, pattern, lengths, tuple(np.array(values, dtype).tolist()), form, role)


def _values(draw, dtype, count):
    """Return a list of random Python scalars of one kind, for example positive numbers or integers."""
    numbers, kind = draw.detail, draw.choice(("any", "any", "positive", "unit", "integers"))
    if draw.special and numbers.random() < 0.8:
        extremes = EXTREMES[dtype] if draw.detail.random() < 0.4 else ()
        return [numbers.choice((*SPECIAL, *extremes)) for _ in range(count)]
    if np.dtype(dtype).kind == "b":
        return [numbers.random() < 0.5 for _ in range(count)]
    if np.dtype(dtype).kind in "iu":
        if kind == "unit" and numbers.random() < 0.5:  # draw integers whose sums and products wrap around
            least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            return [numbers.choice((least, least + 1, 0, 1, 2, most // 2 + 1, most - 1, most)) for _ in range(count)]
        low = -5 if kind in ("any", "unit") and np.dtype(dtype).kind == "i" else 0 if kind == "integers" else 1
        return [numbers.randint(low, 5) for _ in range(count)]
    low, high = {"any": (-3, 3), "positive": (0.2, 3), "unit": (-0.9, 0.9), "integers": (-3, 3)}[kind]
    real = [numbers.uniform(low, high) for _ in range(count)]
    if kind == "integers":
        real = [float(round(x)) for x in real]
    if np.dtype(dtype).kind == "c":
        return [complex(x, numbers.uniform(low, high)) for x in real]
    return real


# --- outputs, updates and derivatives
# ----------------------------------------------------------------------------------------


def _finished(draw, inputs):
    """Choose outputs, updates and a derivative, and return the program. Return None if this is not possible."""
    computed = draw.computed()
    if not computed:
        return None
    used = {name for node in draw.nodes for name in node.operands}
    ends = [v.name for v in computed if v.name not in used] or [computed[-1].name]
    outputs = ends[-2:]
    if draw.chance(0.2):
        outputs.append(draw.choice(computed).name)
    if draw.chance(0.05):
        outputs.append(outputs[0])
    updates = tuple([pair for one in inputs for pair in _update(draw, one)])
    stateful = any([OPERATIONS[node.operation].stateful for node in draw.nodes])
    calls = draw.choice((2, 3)) if updates or stateful else 1
    program = needed(
        Program(tuple(inputs), tuple(draw.nodes), tuple(outputs), updates, None, draw.special, draw.chance(0.1), calls)
    )
    shapes = {v.name: v.array.shape for v in draw.values if v.kind != "list"}
    for one in (_aliased(draw, program), program):
        # Without aliased arguments, the first call is ordinary, because the program was built with the arrays of this
        # call. Therefore a program with a single call needs no check.
        calls = 1 if one is program and program.calls == 1 else _ordinary_calls(one, shapes)
        if calls:
            return replace(one, calls=calls, derivative=_derivative(draw, one), smooth=_is_smooth(draw, one))
    return None


def _ordinary_calls(program, shapes):
    """Return the number of ordinary calls before the first call that is not ordinary.

    In an ordinary call, operands are in the domains of operations, and shapes are equal to `shapes`. Even the first
    call may not be ordinary if one array is passed for two arguments.
    """
    nodes = [node for node in program.nodes if node.dtype]
    computed = source.twin(replace(program, outputs=tuple([node.name for node in nodes])))
    state = {one.name: source.plain(one) for one in program.inputs}
    for call in range(program.calls):
        try:
            outputs, updates = computed(settle_plainly, cast_plainly, call, **state)
        except Exception:  # for example, because an index is too large, or an array is empty
            return call
        arrays = {**state, **dict(zip([node.name for node in nodes], outputs))}
        if any([np.shape(array) != shapes[name] for name, array in arrays.items()]):
            return call
        if not all([_in_domain(node, arrays, program.special) for node in nodes]):
            return call
        state.update({name: value for (name, _), value in zip(program.updates, updates)})
    return program.calls


def _in_domain(node, arrays, special):
    """Return True if the operands of a node are in the domain of its operation, and its result is acceptable."""
    operands = [arrays.get(name) for name in node.operands]
    return (special or is_ordinary(arrays[node.name])) and OPERATIONS[node.operation].takes(operands, special)


# Operations that may divide by zero or read out of bounds if a call has other integers than the first call. Programs
# with these operations do not update integers.
PARTICULAR = ("floor_div", "mod", "index_by_variable")


def _update(draw, one):
    if one.role != "shared" or not draw.chance(0.8):
        return []
    if np.dtype(one.dtype).kind in "iu" and any([n.operation in PARTICULAR for n in all_nodes(draw.nodes)]):
        return []
    mine = next(v for v in draw.values if v.name == one.name)

    def fits(v):
        return (
            v.computed
            and dense(v)
            and v.array.dtype == mine.array.dtype
            and v.broadcastable == mine.broadcastable
            and v.array.shape == mine.array.shape
        )

    fitting = [v for v in draw.values if fits(v)]
    return [(one.name, draw.choice(fitting).name)] if fitting else []


def _aliased(draw, program):
    """Return a program whose calls may pass the array of the first input for other inputs of equal type and shape."""
    inputs = list(program.inputs)
    for k in range(1, len(inputs)):
        first, second = inputs[0], inputs[k]
        if (
            draw.chance(0.3)
            and first.role == second.role == "argument"
            and (first.dtype, first.shape, first.broadcastable) == (second.dtype, second.shape, second.broadcastable)
        ):
            inputs[k] = replace(second, values=first.values, form=first.form, same_as=first.name)
    return replace(program, inputs=tuple(inputs)) if inputs != list(program.inputs) else program


def _is_smooth(draw, program):
    """Return True if finite differences approximate the derivatives of a program, as far as its operations tell.

    In long arrays, some element is probably so close to a kink that central differences step over the kink.
    """
    return not draw.counter["kinks"] and not (
        draw.long and any([OPERATIONS[node.operation].kink for node in all_nodes(program.nodes)])
    )


def _derivative(draw, program):
    if not draw.chance(0.3) or program.special or not _is_smooth(draw, program) and draw.chance(0.7):
        return None
    values = {v.name: v for v in draw.values}
    if not any([floats(values[one.name]) and one.dtype != "float16" for one in program.inputs]):
        return None
    if not any([floats(values[name]) and values[name].array.size for name in program.outputs]):
        return None
    kinds = ["gradient"] * 3
    if not any([OPERATIONS[n.operation].undefined for n in all_nodes(program.nodes)]):
        kinds.append("Rop")
    # Compiling a second derivative of a loop takes as long as twenty other programs.
    if not any([n.operation == "loop" for n in all_nodes(program.nodes)]) or draw.chance(0.3):
        kinds.append("second")
    return draw.choice(kinds)


def chapters_of(program):
    """Return the chapters of the operations of a program and its bodies, and other properties of the program."""
    found = {OPERATIONS[node.operation].chapter for node in all_nodes(program.nodes)}
    if program.derivative:
        found.add(program.derivative)
    for mark, holds in (
        ("special values", program.special),
        ("updates", program.updates),
        ("complex", any([one.dtype.startswith("complex") for one in program.inputs])),
        ("float16", any([one.dtype == "float16" for one in program.inputs])),
        ("long axes", any([length > 6 for one in program.inputs for length in one.shape])),
        ("empty", any([0 in one.shape for one in program.inputs])),
        ("layouts", any([one.form != "contiguous" for one in program.inputs])),
        ("mutable arguments", any([one.role == "mutable" for one in program.inputs])),
        ("one array twice", any([one.same_as for one in program.inputs])),
    ):
        if holds:
            found.add(mark)
    found.discard("parts")
    return sorted(found)
