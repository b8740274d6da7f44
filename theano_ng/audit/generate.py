"""Generation of inputs from examples: Hypothesis draws lengths, layouts, contents and aliasing, and shrinks failing
inputs.

Generation proceeds in stages. A stage fixes the types of the inputs, so that shrinking never compiles anything. It also
lists the lengths, layouts, contents and kinds of aliasing from which Hypothesis draws. Each of the first stages varies
a single property, so every property is tested, and a failure shows which property causes it. The last stages vary all
properties at once.
"""

import random
import time
import zlib
from dataclasses import dataclass, replace

import numpy as np

from theano_ng import tensor
from theano_ng.audit import forms
from theano_ng.audit.problems import Problem, Reject
from theano_ng.audit.processes import step
from theano_ng.audit.targets import Built, destroyed
from theano_ng.extras import require

#: The properties of inputs that can be varied.
VARIATIONS = ("dtype", "rank", "broadcast", "length", "layout", "alias", "content", "parameter")

#: Layout -> function that copies an array to the layout.
LAYOUTS = {
    "C": forms.contiguous,
    "fortran": forms.fortran,
    "strided": forms.strided,
    "reversed": forms.reversed_,
    "offset": forms.offset,
    "read-only": forms.read_only,
    "repeated": forms.repeated,
    "misaligned": forms.misaligned,
    "records": forms.misaligned_strides,
    "swapped": forms.swapped,
    "subclass": forms.subclass,
    "memmap": forms.memmap,
}
# Layouts in which elements are shared or read-only. An input that the Op overwrites cannot have such a layout.
_NOT_WRITABLE = ("read-only", "repeated")

#: Kinds of array contents; see `fill`.
CONTENTS = ("given", "small", "zero", "equal", "spread", "constants", "tiny", "extreme", "huge", "nonfinite")

#: Ways to choose the lengths of dimensions. "given": the lengths of the examples. "tied": drawn lengths; dimensions
#: whose lengths are equal in the examples get equal lengths. "free": each length is drawn separately.
LENGTHS = ("given", "tied", "free")

ALIASES = ("none", "same", "overlap")

# Kinds of contents of which a few examples show only a part.
_RICH = ("constants", "tiny", "huge")

_MAX_SHRINKS = 400  # examples that Hypothesis may try while it shrinks
_SHRINK_SECONDS = 15.0


def require_hypothesis():
    """Import and return the module `hypothesis`.

    Raises
    ------
    ImportError
        The message explains how to install it.
    """
    return require("hypothesis", "the audit, which generates inputs,")


@dataclass
class Example:
    """Values for the inputs of a case.

    Attributes
    ----------
    built : Built
    values : tuple
        One value per slot, in the drawn layout.
    layouts : tuple of str
    alias : str
        "none", "same" or "overlap": whether and how two of the values share memory.
    """

    built: Built
    values: tuple
    layouts: tuple
    alias: str = "none"

    def node_values(self):
        """Return the values of the node's variables."""
        return self.built.values(self.values)

    def describe(self):
        """Return a description of each input: type, shape, layout, values."""
        texts = []
        for value, layout, t in zip(self.values, self.layouts, self.built.types):
            if isinstance(value, np.ndarray):
                text = "%s %s %s: %s" % (t, value.shape, layout, _short(value))
            else:
                text = "%s: %s" % (t, _short(value))
            texts.append(text)
        if self.alias != "none" and texts:
            texts[-1] += " (%s memory as another input)" % ("the same" if self.alias == "same" else "overlapping")
        return tuple(texts)

    def key(self):
        """Return a key that is equal for equal examples."""
        parts = [str(self.built.index), self.alias]
        values, layouts = list(self.values), list(self.layouts)
        for value in self.values:
            if hasattr(value, "indptr"):
                # In the key, represent a sparse matrix by its arrays and its shape.
                values += [value.data, value.indices, value.indptr, np.array(value.shape)]
                layouts += ["C"] * 4
        for value, layout in zip(values, layouts):
            if isinstance(value, np.ndarray) and not value.dtype.hasobject:
                parts += [
                    layout,
                    str(value.shape),
                    "%x" % zlib.crc32(value.tobytes()),
                    "%x" % zlib.adler32(value.tobytes()),
                ]
            elif isinstance(value, (tuple, list, dict)):
                parts.append(repr(value))
        return "|".join(parts)


def _short(value, limit=300):
    if isinstance(value, np.ndarray):
        with np.printoptions(threshold=40, edgeitems=3, linewidth=10000):
            text = repr(value.tolist()) if value.size <= 30 else str(value).replace("\n", "")
    else:
        text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


# ------------------------------------------------- contents


def pool(dtype):
    """Return the values of a dtype that are most likely to reveal errors."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return sorted(
            {info.min, info.max, 0, 1, 2, max(info.min, -1), info.max - 1, max(info.min, -info.max), info.max // 2}
        )
    if dtype.kind == "f":
        info = np.finfo(dtype)
        # Huge numbers are not included, because their sums and products depend on the order of the operands. `fill`
        # inserts them.
        return [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            float(info.eps),
            float(info.tiny),
            float(info.smallest_subnormal),
            -float(info.smallest_subnormal),
            1e-4,
        ]
    return [0j, 1j, -1j, 1 + 0j, complex(-0.0, 0.0), complex(1e3, -1e3)]


_NONFINITE = (np.nan, np.inf, -np.inf)


def nonfinite(dtype):
    """Return the non-finite values of a real float dtype. Return an empty list for other dtypes.

    Complex dtypes have no values here, because C and NumPy do not define the products of non-finite complex numbers.
    """
    return list(_NONFINITE) if np.dtype(dtype).kind == "f" else []


def huge(dtype):
    """Return numbers of a float dtype for which a square, a cube or an exponential overflows, or is close to that."""
    info = np.finfo(np.dtype(dtype))
    most = float(info.max)
    return [
        2 * most ** (1 / 3),
        2 * most**0.5,
        most / 3,
        np.log(most) * 0.99,
        np.log(most) * 1.01,
        2 * np.log(most),
        2.0 ** (info.nmant + 1) + 2,
    ]


def near(numbers, dtype):
    """Return numbers of a dtype, and the next smaller and the next larger values, with both signs.

    Parameters
    ----------
    numbers : sequence of int or float
    dtype : dtype

    Returns
    -------
    list
        The values in order, without duplicates. Values that the dtype cannot represent are left out.
    """
    dtype, found = np.dtype(dtype), {}
    for number in numbers:
        for signed in (number, -number):
            if dtype.kind == "f" and abs(signed) <= float(np.finfo(dtype).max):
                value = dtype.type(signed)
                around = (value, np.nextafter(value, dtype.type(-np.inf)), np.nextafter(value, dtype.type(np.inf)))
            elif dtype.kind in "iu" and signed == int(signed):
                around = (int(signed), int(signed) - 1, int(signed) + 1)
            else:
                continue
            for value in around:
                if dtype.kind == "f" or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                    found.setdefault(value)
    return list(found)


def fill(shape, dtype, kind, example, rng, numbers=()):
    """Return an array with contents of the given kind.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype
    kind : str
        One of `CONTENTS`.
    example : ndarray or None
        The example of the case for this input.
    rng : numpy.random.RandomState
    numbers : sequence
        Numbers from the code of the Op, for the kind "constants".
    """
    dtype = np.dtype(dtype)
    size = int(np.prod(shape))
    with np.errstate(all="ignore"):
        if kind == "given":
            flat = _given(size, dtype, example)
        elif kind == "small":
            # Integers are often indices or lengths. Draw them from the values of the example, which are valid.
            if example is not None and example.size and example.dtype.kind in "biu" and dtype.kind in "biu":
                flat = rng.choice(example.reshape(-1), size)
            else:
                flat = rng.randint(0 if dtype.kind in "bu" else -3, 4, size) * (0.5 if dtype.kind in "fc" else 1)
                flat = flat + (0.5j * rng.randint(-2, 3, size) if dtype.kind == "c" else 0)
        elif kind == "zero":
            flat = np.zeros(size)
        elif kind == "equal":
            flat = np.repeat(_given(1, dtype, example), size)
        elif kind == "spread":
            if dtype.kind in "biu":
                low, high = (0, 2) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
                flat = np.array([rng.randint(0, 1 << 30) * (high - low) // (1 << 30) + low for _ in range(size)], dtype)
            else:
                flat = rng.standard_normal(size) * 10.0 ** rng.randint(-3, 3, size)
                flat = flat + (1j * rng.standard_normal(size) if dtype.kind == "c" else 0)
        elif kind == "constants" and near(numbers, dtype):
            choices = near(numbers, dtype)
            flat = np.array([choices[k] for k in rng.randint(0, len(choices), size)], dtype)
        elif kind == "tiny" and dtype.kind in "fc":
            flat = rng.choice([-1.0, 1.0], size) * 10.0 ** -rng.randint(1, 3 * np.finfo(dtype).precision, size)
        elif kind == "huge" and dtype.kind == "f":
            # One huge number among moderate numbers: see the kind "extreme".
            flat = _given(size, dtype, example)
            flat = np.array(flat, dtype)
            if size:
                flat[rng.randint(size)] = rng.choice(huge(dtype)) * rng.choice([-1, 1])
        else:
            choices = (
                pool(dtype) if kind == "extreme" or not nonfinite(dtype) else nonfinite(dtype) + [1.0, -0.0, 0.0, 2.5]
            )
            flat = np.array([choices[k] for k in rng.randint(0, len(choices), size)], dtype)
            if kind == "extreme" and dtype.kind == "f" and size:
                # Insert one huge number. If it is a term of a sum, the other terms have no effect, in any order of
                # summation. The product of two such numbers is finite.
                flat[rng.randint(size)] = np.sqrt(float(np.finfo(dtype).max)) / 4
        flat = flat.real if np.iscomplexobj(flat) and dtype.kind != "c" else flat
        return np.asarray(flat).astype(dtype).reshape(shape)


def _given(size, dtype, example):
    """Return `size` elements of the example, repeated as needed. Without an example, return various numbers."""
    if example is None or not example.size:
        if dtype.kind in "fc":
            flat = (np.arange(size) * 7 % 11 - 4.0) * 0.3 + 0.1 + np.arange(size) * 0.01
            return flat + 0.2j * np.arange(size) if dtype.kind == "c" else flat
        return np.arange(size) % 3 if dtype.kind != "b" else np.arange(size) % 2
    return np.resize(np.ascontiguousarray(example), size)


# ------------------------------------------------- lengths


def groups_of(target, built):
    """Return for each slot the groups of its dimensions, or None if the slot is not varied.

    Dimensions with equal lengths in the examples form a group, named by that length. A broadcastable dimension has the
    group None.
    """
    groups = []
    for slot, t in zip(target.slots, built.types):
        if not slot.varied:
            groups.append(None)
            continue
        shape = slot.shape
        shape = (2,) * (t.ndim - len(shape)) + tuple(shape[max(len(shape) - t.ndim, 0) :])
        groups.append([None if one else n for n, one in zip(shape, getattr(t, "broadcastable", (False,) * t.ndim))])
    return groups


def _draw_shapes(draw, st, target, built, modes, most):
    """Draw a shape for each slot. A slot that is not varied has the shape None."""
    groups = groups_of(target, built)
    known = sorted({n for g in groups if g is not None for n in g if n is not None})
    mode = draw(st.sampled_from(modes))
    if mode == "given":
        return [None if g is None else tuple(1 if n is None else n for n in g) for g in groups]
    lengths = {n: draw(st.integers(0, most)) for n in known if n != 1}
    # Non-broadcastable dimensions of length 1 in the examples form a group, too. Their drawn length is 1, or the drawn
    # length of one of the other groups.
    lengths[1] = draw(st.sampled_from([1] + [lengths[n] for n in known if n != 1]))
    shapes = []
    for g in groups:
        if g is None:
            shapes.append(None)
            continue
        shape = [1 if n is None else lengths[n] for n in g]
        if mode == "free":
            shape = [n if g[i] is None else draw(st.sampled_from([n, n, n, 1, n + 1, 0])) for i, n in enumerate(shape)]
        shapes.append(tuple(shape))
    return shapes


#: Lengths at which loops over blocks, unrolled loops and tables often go wrong. Lengths near integers in the code of the Op
#: are tried, too.
LENGTHS_OF_BLOCKS = (
    *(15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2049, 4097),
)

#: The maximum number of elements of an array with such a length, and the maximum number of tuples of shapes.
MOST_ELEMENTS, MOST_SHAPES = 1 << 14, 64


def long_shapes(target, built):
    """Return tuples of shapes in which one group of dimensions has a length near the length of a block.

    Lengths near integers in the code of the Op are included. The number of elements ascends, so that a search can shrink
    a shape by choosing an earlier one.
    """
    groups = groups_of(target, built)
    own = target.constants.lengths(4, MOST_ELEMENTS // 2)[:6]
    own = [n for c in own for n in (c - 1, c, c + 1, 2 * c + 1)]
    found = {}
    for length in dict.fromkeys(own + list(LENGTHS_OF_BLOCKS)):
        for group in _names_of(groups):
            places = [(i, axis) for i, g in enumerate(groups) if g for axis, name in enumerate(g) if name == group]
            shapes = _shapes_with(groups, dict.fromkeys(places, length))
            if max(int(np.prod(shape)) for shape in shapes if shape is not None) <= MOST_ELEMENTS:
                found.setdefault(shapes)
                continue
            for place in places:  # the dimensions of one array are tied to each other: change one of them alone
                shapes = _shapes_with(groups, {place: length})
                if max(int(np.prod(shape)) for shape in shapes if shape is not None) <= MOST_ELEMENTS:
                    found.setdefault(shapes)
    return tuple(sorted(list(found)[:MOST_SHAPES], key=_elements))


def short_shapes(target, built):
    """Return tuples of shapes with all combinations of two lengths from 0 to 3: one of the lengths is the length of one
    dimension, and the other one is the length of all other dimensions of its group.
    """
    groups, found = groups_of(target, built), {}
    for rest in (2, 0, 1, 3):
        for own in (2, 0, 1, 3):
            for i, g in enumerate(groups):
                for axis, group in enumerate(g or ()):
                    if group is not None:
                        lengths = {
                            (k, a): rest
                            for k, other in enumerate(groups)
                            for a, name in enumerate(other or ())
                            if name == group
                        }
                        found.setdefault(_shapes_with(groups, {**lengths, (i, axis): own}))
    return tuple(found)[:MOST_SHAPES]


def _elements(shapes):
    """Return the number of elements of arrays with the given shapes."""
    return sum(int(np.prod(shape)) for shape in shapes if shape is not None)


def _names_of(groups):
    return list(dict.fromkeys(n for g in groups if g for n in g if n is not None))


def _shapes_with(groups, lengths):
    """Return shapes with the given lengths, a dict from pairs (slot, axis). The other dimensions are at most 3 long."""
    return tuple(
        None if g is None else tuple(1 if n is None else lengths.get((i, axis), min(n, 3)) for axis, n in enumerate(g))
        for i, g in enumerate(groups)
    )


# ------------------------------------------------- examples


@dataclass(frozen=True)
class Stage:
    """A stage of generation: the choices for the properties of inputs, and the number of examples.

    Attributes
    ----------
    built : Built
    examples : int
    lengths, layouts, contents, aliases : tuple of str
        The choices from which Hypothesis draws: subsets of LENGTHS, LAYOUTS, CONTENTS and ALIASES.
    longest : int
        The maximum of the drawn lengths. For "free" (an entry of `lengths`), a length may exceed this maximum by 1.
    specials : bool
        Whether to replace a few elements by special values; see `pool`.
    mild : bool
        If True, integer arrays get the contents "small" in place of "spread".
    shapes : tuple
        Tuples of shapes, one shape for each slot and None for a slot that is not varied. If any are given, Hypothesis
        draws from them, and `lengths` has no effect.
    objects : bool
        Whether to vary values that are not arrays, such as tuples; see `variants_of`.
    """

    built: Built
    examples: int
    lengths: tuple = ("given",)
    layouts: tuple = ("C",)
    contents: tuple = ("given",)
    aliases: tuple = ("none",)
    longest: int = 4
    specials: bool = False
    mild: bool = False
    shapes: tuple = ()
    objects: bool = False


def stages(target, max_examples, layouts=True, contents=True, mild=False):
    """Return the stages for a target. The stages that are most likely to find errors come first.

    Parameters
    ----------
    target : Target
    max_examples : int
        Number of random examples, in addition to the examples of the stages that vary one property.
    layouts, contents : bool
        Whether to vary layouts and contents.
    mild : bool
        Whether to leave out special and extreme values.

    Returns
    -------
    list of Stage
    """
    base, case = target.base, target.case
    varied = any(slot.varied for slot in target.slots)
    result = [Stage(base, 1)]
    if target.varies("content") and any(slot.varied_object for slot in target.slots) and max_examples > 0:
        result.append(Stage(base, 12, objects=True))
    if not varied or max_examples <= 0:
        return result
    kinds = CONTENTS if contents and target.varies("content") else ("given",)
    finite = tuple(k for k in kinds if k not in ("nonfinite", "extreme", "huge", "spread"))
    if mild:
        kinds = tuple(k for k in kinds if k not in ("nonfinite", "extreme", "huge"))
    ways = tuple(LAYOUTS) if layouts and target.varies("layout") else ("C",)
    lengths = LENGTHS if target.varies("length") else ("given",)
    alias = ALIASES[1:] if layouts and target.varies("alias") and _can_alias(target, base) else ()
    result += [Stage(built, 1) for built in target.built[1:]]
    if "tied" in lengths:
        result += [
            Stage(built, 2, lengths=("tied",), longest=longest)
            for built in target.built[:4] + target.neighbours
            for longest in (0, 1, 4)
        ]
    result += [Stage(base, 2, layouts=(way,)) for way in ways[1:]]
    result += [Stage(base, 2, aliases=(kind,)) for kind in alias]
    result += [Stage(base, 6 if kind in _RICH else 2, contents=(kind,), mild=mild) for kind in kinds[1:]]
    result += [Stage(built, 2, contents=(kind,), mild=mild) for built in target.neighbours for kind in kinds[1:]]
    if "tied" in lengths:
        result += [
            Stage(base, len(shapes), shapes=shapes)
            for shapes in (short_shapes(target, base), long_shapes(target, base))
            if shapes
        ]
    result += [
        Stage(built, 2, contents=(kind,), mild=mild)
        for built in target.built[1:]
        if not built.change
        for kind in kinds
        if kind in ("spread", "extreme", "huge", "nonfinite")
    ]
    if len(lengths) > 1:
        result.append(Stage(base, max(max_examples // 5, 1), lengths=lengths, longest=4, contents=finite))
    everything = dict(
        lengths=lengths, layouts=ways, contents=kinds, aliases=("none",) + alias, specials=not mild, mild=mild
    )
    result += [
        Stage(built, max(max_examples // (3 * len(target.built)), 1), **everything) for built in target.built[1:]
    ]
    result.append(Stage(base, max_examples, **everything))
    if "tied" in lengths:
        # Draw lengths that are long enough for the unrolled and the blocked parts of loops.
        result.append(
            Stage(
                base,
                max(max_examples // 10, 1),
                lengths=("tied",),
                layouts=ways,
                contents=finite,
                longest=40 if max((t.ndim for t in _tensors(base)), default=0) < 3 else 12,
            )
        )
    return [stage for stage in result if case.vary is None or stage.examples]


def _tensors(built):
    return [t for t in built.types if isinstance(t, tensor.TensorType)]


def _can_alias(target, built):
    """Return True if two varied inputs of a node have the same type, and the Op overwrites no input."""
    if destroyed(built.node):
        return False
    types = [t for slot, t in zip(target.slots, built.types) if slot.varied and slot.tensor]
    return len(types) > len(set(types))


def strategy(target, stage):
    """Return a strategy of Hypothesis for the examples of a stage."""
    st = require_hypothesis().strategies

    @st.composite
    def examples(draw):
        return draw_example(draw, st, target, stage)

    return examples()


def draw_example(draw, st, target, stage):
    """Return an `Example`. `draw` is the function by which Hypothesis draws values."""
    built = stage.built
    if stage.shapes:
        shapes = draw(st.sampled_from(stage.shapes))
    else:
        shapes = _draw_shapes(draw, st, target, built, list(stage.lengths), stage.longest)
    overwritten = _destroyed(built)
    variant = draw(st.integers(0, 255)) if stage.contents != ("given",) else 0
    rng = np.random.RandomState(variant + 1)
    values, layouts = [], []
    for i, (slot, t, shape) in enumerate(zip(target.slots, built.types, shapes)):
        if shape is None:
            value = _unvaried(slot, t)
            variants = variants_of(t, value) if stage.objects and slot.fixed is None else []
            values.append(draw(st.sampled_from([value, *variants])) if variants else value)
            layouts.append("")
            continue
        kind = stage.contents[0] if len(stage.contents) == 1 else draw(st.sampled_from(list(stage.contents)))
        if stage.mild and kind == "spread" and np.dtype(t.dtype).kind in "iu":
            kind = "small"
        numbers = target.special_numbers(built)
        value = fill(shape, t.dtype, kind, slot.value.toarray() if slot.sparse else slot.value, rng, numbers)
        if stage.specials and value.size and draw(st.integers(0, 3)) == 3:
            choices = pool(t.dtype) + (nonfinite(t.dtype) if "nonfinite" in stage.contents else [])
            for position, chosen in draw(
                st.lists(st.tuples(st.integers(0, value.size - 1), st.sampled_from(choices)), max_size=3)
            ):
                value.reshape(-1)[position] = chosen
        if slot.sparse:
            given = stage.lengths == ("given",) and kind == "given" and t.dtype == slot.value.dtype
            values.append(slot.value.copy() if given else _sparse(t, value, rng))
            layouts.append("")
            continue
        ways = [way for way in stage.layouts if i not in overwritten or way not in _NOT_WRITABLE] or ["C"]
        way = ways[0] if len(ways) == 1 else draw(st.sampled_from(ways))
        values.append(LAYOUTS[way](value))
        layouts.append(way)
    alias = stage.aliases[0] if len(stage.aliases) == 1 else draw(st.sampled_from(list(stage.aliases)))
    if alias != "none":
        alias = _alias(alias, target, built, values)
    return Example(built, tuple(values), tuple(layouts), alias)


def variants_of(t, value):
    """Return other values of a Type for a container: with fewer items, in another order, and with changed items.

    Parameters
    ----------
    t : Type
    value : object
        A tuple, a list or a dict; for other values, the result is empty.

    Returns
    -------
    list
    """
    found = []
    if isinstance(value, (tuple, list)):
        found = [value[:-1], value[:0], value[::-1], value + value[:1]]
        for place, item in enumerate(value):
            found += [value[:place] + type(value)([other]) + value[place + 1 :] for other in _other_items(item)]
    elif isinstance(value, dict):
        for key, item in value.items():
            found.append({k: v for k, v in value.items() if k != key})
            found += [{**value, key: other} for other in _other_items(item)]
    valid = []
    for other in found:
        try:
            if t.is_valid_value(other):
                valid.append(other)
        except Exception:
            continue  # check_types reports this exception
    return valid


def _other_items(item):
    """Return other values for an item of a container."""
    if isinstance(item, np.ndarray):
        other = "float32" if item.dtype != "float32" else "float64"
        shorter = [item[:-1].copy(), item[:0].copy(), forms.strided(item)] if item.ndim else []
        return [*shorter, item.astype(other), None, "text"]
    if isinstance(item, (tuple, list, dict)):
        return [type(item)(), None]
    return [None, "text", 0, -1, 2.5]


def given_example(target, built):
    """Return the `Example` with the values of the case, without random choices."""
    shapes = [None if g is None else tuple(1 if n is None else n for n in g) for g in groups_of(target, built)]
    values = [
        _unvaried(slot, t) if shape is None or slot.sparse else fill(shape, t.dtype, "given", slot.value, None)
        for slot, t, shape in zip(target.slots, built.types, shapes)
    ]
    return Example(built, tuple(values), tuple("" if shape is None else "C" for shape in shapes))


def _sparse(t, dense, rng):
    """Return a sparse matrix of type `t` with some of the elements of an array.

    Two out of three matrices store no zeros. The entries of the others are unordered, and include duplicates and zeros.
    """
    kept = dense * (rng.uniform(size=dense.shape) < 0.6).astype(dense.dtype)
    matrix = t.format_cls[t.format](np.where(kept == 0, 0, dense).astype(t.dtype))
    if rng.randint(3) == 0 and matrix.nnz:
        places = matrix.tocoo()
        again = rng.randint(matrix.nnz, size=2)
        order = rng.permutation(matrix.nnz + 2)
        rows, columns = (np.r_[v, v[again]][order] for v in (places.row, places.col))
        data = np.r_[places.data, np.array([0, 1], dtype=t.dtype)][order]
        lines, others = (rows, columns) if t.format == "csr" else (columns, rows)
        by_line = np.argsort(lines, kind="stable")
        counts = np.bincount(lines, minlength=len(matrix.indptr) - 1)
        parts = data[by_line], others[by_line], np.r_[0, np.cumsum(counts)]
        matrix = t.format_cls[t.format](parts, shape=dense.shape)
    return matrix


def _unvaried(slot, t):
    if slot.fixed is not None:
        return slot.fixed.data
    if slot.value is not None:
        return slot.value
    return t.filter(1)  # a Scalar


def _destroyed(built):
    """Return the indices of the slots that the Op overwrites."""
    overwritten = destroyed(built.node)
    return {i for i, v in enumerate(built.given) if v in overwritten}


def _alias(kind, target, built, values):
    """Let one input share memory with an earlier input of the same type and shape, by changing the list `values`.

    Return the kind of aliasing that was achieved.
    """
    for j in reversed(range(len(values))):
        for i in range(j):
            slots = target.slots[i], target.slots[j]
            if all(slot.varied and slot.tensor for slot in slots) and built.types[i] == built.types[j]:
                if values[i].shape != values[j].shape:
                    continue
                if kind == "same" or not values[i].ndim:
                    values[j] = values[i]
                    return "same"
                # Make both inputs views of one array. The second view begins one row after the first.
                n = values[i].shape[0]
                base = np.concatenate([values[i], values[j][:1]])
                values[i], values[j] = base[:n], base[1 : n + 1] if len(base) > n else base[:n]
                return "overlap"
    return "none"


# ------------------------------------------------- search


class _TimeIsUp(BaseException):
    """The exception that ends a search by Hypothesis when the time is over.

    It is a BaseException, because Hypothesis regards an Exception as a failure of the example and would shrink it.
    """


#: If the time of a search is over before an example was accepted, the search continues until it accepts an example or has
#: tried this number of examples. For example, compiling with sanitizers may take longer than the whole time limit.
_LEAST_TRIES = 20


class Search:
    """A search that runs a function on the examples of stages, and shrinks failing examples.

    Parameters
    ----------
    attempt : callable
        ``attempt(example)`` raises `Problem` for an error, and `Reject` for an example that does not apply.
    seed : int
    left : callable
        ``left()`` returns the remaining time in seconds.

    Attributes
    ----------
    tried, accepted : int
        The number of different examples that were tried, and how many of them were not rejected.
    """

    def __init__(self, attempt, seed, left):
        self.attempt, self.seed, self.left = attempt, seed, left
        self.tried = self.accepted = 0
        self._known = {}

    def _goes_on(self):
        """Return True if another example shall be tried: time is left, or no example was accepted (`_LEAST_TRIES`)."""
        return self.left() > 0 or (not self.accepted and self.tried < _LEAST_TRIES)

    def outcome(self, example):
        """Return the Problem of an example, or None.

        Each example is tried only once, so that an intermittent failure counts as a failure from then on.
        """
        key = example.key()
        if key not in self._known:
            self.tried += 1
            step(example.describe)
            try:
                self.attempt(example)
                found = None
            except Reject:
                found = None
                self.accepted -= 1
            except Problem as problem:
                found = problem
            self.accepted += 1
            self._known[key] = found
        return self._known[key]

    def run(self, target, all_stages, most=4):
        """Search for problems with different names. Return each problem with the smallest example that was found.

        Parameters
        ----------
        target : Target
        all_stages : list of Stage
        most : int
            The number of problems after which the search ends.

        Returns
        -------
        list of (Problem, Example)
        """
        found = []
        for number, stage in enumerate(all_stages):
            while len(found) < most and self._goes_on():
                known = {problem.error for problem, _ in found}
                new = self._find(target, stage, number, lambda error, known=known: error not in known)
                if new is None:
                    break
                found.append(self._shorter(target, stage, number, new))
        return found

    def _shorter(self, target, stage, number, found):
        """Search for shorter inputs that show a found problem, if the stage uses the lengths of the examples.

        `found` is a pair (Problem, Example). Return a pair with shorter inputs, or `found` if there is none.
        """
        if stage.lengths != ("given",) or not target.varies("length"):
            return found
        short = replace(stage, examples=8, lengths=("tied",), longest=2)
        return self._find(target, short, number, lambda error: error == found[0].error) or found

    def _find(self, target, stage, number, wanted):
        hypothesis = require_hypothesis()
        state = {"error": None, "tries": 0, "end": None}

        def fails(example):
            if state["error"] is None and not self._goes_on():
                raise _TimeIsUp
            if state["error"] is not None:
                state["tries"] += 1
                if (
                    state["tries"] > _MAX_SHRINKS or time.perf_counter() > state["end"]
                ) and example.key() not in self._known:
                    return False
            problem = self.outcome(example)
            if problem is None or not wanted(problem.error):
                return False
            if state["error"] is None:
                # From now on Hypothesis shrinks the example. Only a problem of the same name counts.
                state["error"], state["end"] = problem.error, time.perf_counter() + _SHRINK_SECONDS
            return problem.error == state["error"]

        settings = hypothesis.settings(
            max_examples=stage.examples,
            database=None,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
            print_blob=False,
            verbosity=hypothesis.Verbosity.quiet,
        )
        try:
            example = hypothesis.find(
                strategy(target, stage), fails, settings=settings, random=random.Random(self.seed * 1000003 + number)
            )
        except (hypothesis.errors.NoSuchExample, _TimeIsUp):
            return None
        return self.outcome(example), example
