"""Generated indices of mixed kinds, compared with NumPy: parts, assignments, increments, their shapes, gradients and
errors.
"""

import unittest

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor import subtensor as sub
from theano_ng.tensor.tests.generated import ALL_DTYPES, INTEGERS, LAYOUTS, Compared, arrays, generated, shapes
from theano_ng.tensor.tests.single_node import run_node

NATIVE = ("C", "fortran", "strided")
HUGE = (2**63 - 1, -(2**63), 2**31, -(2**40))


class Slot:
    """A placeholder in an index. An argument takes its place."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return "Slot(%d)" % self.number


def filled(index, values):
    """Return an index whose slots are replaced by values or variables."""

    def fill(entry):
        if isinstance(entry, slice):
            return slice(*[fill(field) for field in (entry.start, entry.stop, entry.step)])
        return values[entry.number] if isinstance(entry, Slot) else entry

    return tuple([fill(entry) for entry in index])


@st.composite
def indices(draw, shape, masks=True, wrong=False, new_axes=True):
    """Draw (index, values): an index for a shape, with constants and slots, and the values of the slots.

    Parameters
    ----------
    shape : tuple of int
    masks, new_axes : bool
        Whether the index may contain masks and None, respectively.
    wrong : bool
        Whether positions may be out of bounds, and masks may be too long.
    """
    values, index, axis = [], [], 0
    joint = draw(shapes(ndim=(0, 2), sides=(0, 3)))
    rng = np.random.RandomState(draw(st.integers(0, 999)))

    def given(value, dtypes=None):
        """Return the value as a constant, or add it to the arguments and return a slot."""
        if not draw(st.booleans()):
            return value
        if dtypes is not None:
            kind = np.dtype(draw(st.sampled_from(dtypes)))
            if np.iinfo(kind).min <= value <= np.iinfo(kind).max:
                value = np.array(value, kind)
            else:
                value = np.array(value, "int64")
        values.append(value)
        return Slot(len(values) - 1)

    def field():
        value = draw(st.one_of(st.none(), st.integers(-6, 6), st.sampled_from(HUGE)))
        return value if value is None else given(value, INTEGERS)

    ellipsis = draw(st.integers(0, 6))
    while len(index) < 6:
        if len(index) == ellipsis:
            index.append(Ellipsis)
            axis += draw(st.integers(0, len(shape) - axis))
            ellipsis = -1
            continue
        kinds = ["none"] * new_axes
        if axis < len(shape):
            n = shape[axis]
            # After an Ellipsis, the index must have entries up to the last dimension, so "stop" is not allowed.
            kinds += ["slice", "slice", "array", "array"] + ["stop"] * (ellipsis >= 0)
            kinds += ["integer"] * (n > 0 or wrong) + ["mask"] * masks
        else:
            kinds += ["stop"] * 3
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "none":
            index.append(None)
            continue
        if kind == "slice":
            step = draw(st.sampled_from([None, 1, -1, 2, -2, 3, *HUGE]))
            index.append(slice(field(), field(), step if step is None else given(step, INTEGERS)))
        elif kind == "integer":
            value = draw(
                st.integers(-n - wrong, n - 1 + wrong) if not wrong else st.sampled_from([-n - 1, n, 0, *HUGE])
            )
            index.append(given(value, INTEGERS))
        elif kind == "array":
            dtype = np.dtype(draw(st.sampled_from(INTEGERS)))
            low, high = 0 if dtype.kind == "u" else -n, n + (wrong and draw(st.booleans()))
            if high <= low:
                high = low + 1
            own = tuple(
                [
                    1 if draw(st.booleans()) and draw(st.booleans()) else side
                    for side in joint[draw(st.integers(0, len(joint))) :]
                ]
            )
            array = np.asarray(rng.randint(low, high, own)).astype(dtype)
            if not own and not n:
                break
            layout = draw(st.sampled_from(["C", "reversed", "swapped"]))
            if own and layout == "reversed":
                array = array[::-1].copy()[::-1]
            index.append(given(array if own else array.reshape(())))
        else:
            rank = draw(st.integers(1, min(2, len(shape) - axis)))
            mask = rng.rand(*shape[axis : axis + rank]) < draw(st.sampled_from([0.1, 0.5, 1.0]))
            if not mask.size and (wrong or ellipsis < 0):
                break  # NumPy accepts any mask without elements, even for axes of another length
            if wrong and draw(st.booleans()):
                mask = np.concatenate([mask, mask[:1]])
            index.append(given(mask))
            axis += rank - 1
        axis += 1
    return tuple(index), values


def places_of(x, index):
    """Return the positions in ``x.ravel()`` of the elements of ``x[index]``; none if NumPy refuses the index."""
    try:
        return positions(x, index)
    except IndexError:
        return np.zeros(0)


def positions(x, index):
    return np.arange(x.size).reshape(x.shape)[index]


def changed(x, y, *values, index=(), setting=False):
    """Return a copy of x in which ``x[index]`` is set to y or incremented by y, one element after the other."""
    places = positions(x, filled(index, values))
    flat = np.array(x, order="C").ravel()
    y = np.broadcast_to(y, places.shape).ravel()
    if setting:
        flat[places.ravel()] = y
    else:
        np.add.at(flat, places.ravel(), y)
    return flat.reshape(x.shape).astype(x.dtype.newbyteorder("="))


def change(x, y, *values, index=(), setting=False):
    return sub.inc_subtensor(x[filled(index, values)], y, set_instead_of_inc=setting)


@st.composite
def cases(draw, dtypes, value=False, layouts=tuple(LAYOUTS), **options):
    """Draw (x, values, index) or, if `value` is true, (x, y, values, index), where y is a value for ``x[index]``."""
    x = draw(arrays(dtypes, ndim=(1, 3), contents=("small", "distinct"), layouts=layouts))
    index, values = draw(indices(x.shape, **options))
    if not value:
        return x, values, index
    try:
        part = x[filled(index, values)]
    except (IndexError, ValueError, OverflowError):
        part = np.zeros(())
    own = part.shape[draw(st.integers(0, part.ndim)) :]
    own = tuple([1 if draw(st.integers(0, 4)) == 0 else n for n in own])
    return x, draw(arrays(x.dtype.newbyteorder("=").name, shape=own, layouts=layouts)), values, index


class TestParts(unittest.TestCase):
    part = Compared(
        lambda x, *values, index: x[filled(index, values)], lambda x, *values, index: x[filled(index, values)]
    )
    rewritten = Compared(part.build, part.reference, modes=("fast_run",))
    debugged = Compared(part.build, part.reference, modes=("debug",))

    @generated(cases(ALL_DTYPES), examples=70)
    def test_values(self, case):
        x, values, index = case
        self.part.check(x, *values, index=index)

    @generated(cases(("int16", "float64"), wrong=True), examples=30)
    def test_out_of_bounds(self, case):
        x, values, index = case
        self.part.check(x, *values, index=index)

    @generated(cases(("float32",)), examples=14)
    def test_rewritten(self, case):
        x, values, index = case
        self.rewritten.check(x, *values, index=index)

    @generated(cases(("float64",)), examples=5)
    def test_debug_mode(self, case):
        x, values, index = case
        self.debugged.check(x, *values, index=index)

    @generated(cases(("float64",), layouts=NATIVE), examples=6)
    def test_gradient(self, case):
        x, values, index = case
        assume(places_of(x, filled(index, values)).size)
        self.part.check_gradient(x, *values, index=index, wrt=[0])


class TestChanges(unittest.TestCase):
    change = Compared(change, changed)
    rewritten = Compared(change.build, changed, modes=("fast_run",))
    debugged = Compared(change.build, changed, modes=("debug",))

    @generated(cases(ALL_DTYPES, value=True), st.booleans(), examples=50)
    def test_values(self, case, setting):
        x, y, values, index = case
        self.change.check(x, y, *values, index=index, setting=setting)

    @generated(cases(("int16", "float64"), value=True, wrong=True), st.booleans(), examples=30)
    def test_out_of_bounds(self, case, setting):
        x, y, values, index = case
        self.change.check(x, y, *values, index=index, setting=setting)

    @generated(cases(("float64",), value=True), st.booleans(), examples=14)
    def test_rewritten(self, case, setting):
        x, y, values, index = case
        self.rewritten.check(x, y, *values, index=index, setting=setting)

    @generated(cases(("float64",), value=True), st.booleans(), examples=5)
    def test_debug_mode(self, case, setting):
        x, y, values, index = case
        self.debugged.check(x, y, *values, index=index, setting=setting)

    @generated(cases(("float64",), value=True, layouts=NATIVE), st.booleans(), examples=8)
    def test_gradient(self, case, setting):
        x, y, values, index = case
        places = places_of(x, filled(index, values))
        assume(y.size and places.size)
        # If an element is set twice, the derivative is undefined.
        assume(not setting or len(np.unique(places)) == places.size)
        self.change.check_gradient(x, y, *values, index=index, setting=setting, wrt=[0, 1])


def raised(f, *values):
    """Return the exception that a call raises, or None."""
    try:
        f(*values)
    except Exception as error:
        return error
    return None


class TestErrors(unittest.TestCase):
    """A position out of bounds raises an IndexError that names the position.

    State that the function updates in place stays unchanged.
    """

    STATE = np.arange(12.0).reshape(4, 3)

    def changes(self, s, y, rows, columns, mask, n):
        yield s[rows], np.array([0, 4]), "index 4 is out of bounds for axis 0 with size 4"
        yield s[:, rows], np.array([2, -4]), "index -4 is out of bounds for axis 1 with size 3"
        yield s[rows, columns], np.array([3, -5]), "index -5 is out of bounds for axis 0 with size 4"
        yield s[columns, None, rows], np.array([0, 3]), "index 3 is out of bounds for axis 1 with size 3"
        yield s[rows], np.array([0, 2**63 - 1]), "index 9223372036854775807 is out of bounds"
        yield s[rows], np.array([0, -(2**63)]), "index -9223372036854775808 is out of bounds"
        yield s[mask], np.array([True] * 3), "boolean index did not match indexed array along axis 0; size of axis is 4"
        yield (
            s[:, mask],
            np.array([True] * 4),
            "boolean index did not match indexed array along axis 1; size of axis is 3",
        )
        yield s[n], np.array(4), "index 4 is out of bounds for axis 0 with size 4"
        yield s[1, n], np.array(-4), "index -4 is out of bounds for axis 1 with size 3"

    def test_state_is_unchanged(self):
        s = theano.shared(self.STATE.copy(), "s")
        y, rows, columns, mask, n = (
            T.dscalar("y"),
            T.lvector("rows"),
            T.lvector("columns"),
            T.vector("mask", dtype="bool"),
            T.lscalar("n"),
        )
        inputs = [y, rows, columns, mask, n]
        good = dict(y=2.0, rows=np.array([0, 1]), columns=np.array([1, 0]), mask=np.array([True] * 4), n=np.array(0))
        for part, wrong, text in self.changes(s, *inputs):
            given = dict(good)
            name = "mask" if wrong.dtype == bool else "n" if wrong.ndim == 0 else "rows"
            given[name] = wrong
            for assign in (T.set_subtensor, T.inc_subtensor):
                f = theano.function(inputs, updates=[(s, assign(part, y))], on_unused_input="ignore")
                self.assertTrue(
                    any(getattr(node.op, "inplace", False) for node in f.maker.fgraph.apply_nodes), part.owner
                )
                error = raised(f, *given.values())
                self.assertIsInstance(error, IndexError, text)
                for words in (
                    "Apply node that caused the error: ",
                    "Inputs shapes",
                    "Backtrace when the node is created",
                    "test_generated_indexing.py",
                ):
                    self.assertIn(words, str(error))
                self.assertIn(text, str(error))
                np.testing.assert_array_equal(s.get_value(), self.STATE)
        f = theano.function([y, rows], updates=[(s, T.inc_subtensor(s[rows], y))])
        f(1.0, np.array([0, 0]))
        np.testing.assert_array_equal(s.get_value()[0], self.STATE[0] + 2)

    def test_unsigned_and_short(self):
        """Unsigned indices that do not fit into int64 are out of bounds, not negative.

        Indices of short dtypes may be the smallest or the largest number of their dtype.
        """
        x, v = T.dvector(), np.arange(300.0)
        for dtype, numbers in (("int8", [127, -128]), ("uint8", [255, 0]), ("uint64", [299]), ("int16", [-300])):
            rows = T.vector(dtype=dtype)
            numbers = np.array(numbers, dtype)
            first = int(numbers[0])
            f = theano.function([x, rows], [x[rows], x[rows[0] :], x[: rows[0] : -1]], mode="FAST_COMPILE")
            for got, expected in zip(f(v, numbers), (v[numbers], v[first:], v[:first:-1])):
                np.testing.assert_array_equal(got, expected)
        rows, n = T.vector(dtype="uint64"), T.scalar(dtype="uint64")
        huge = np.array([2**64 - 1], "uint64")
        for linker in ("py", "cvm"):
            mode = theano.Mode(linker, None)
            for part in (x[rows], T.inc_subtensor(x[rows], 1.0), sub.advanced_subtensor(x, rows)):
                self.assertIsInstance(raised(theano.function([x, rows], part, mode=mode), v, huge), IndexError)
            self.assertIsInstance(raised(theano.function([x, n], x[n], mode=mode), v, huge[0]), IndexError)
            f = theano.function([x, n], [x[n:], x[:n], x[n:0:-1], x[n:].shape, x[:n].shape[0]], mode=mode)
            for got, want in zip(f(v, huge[0]), (v[:0], v, v[:0:-1], [0], 300)):
                np.testing.assert_array_equal(got, want)
        self.assertRaises(IndexError, lambda: x[2**64])
        self.assertRaises(IndexError, lambda: x[2**64, [1]])
        np.testing.assert_array_equal(x[-(2**70) : 2**70].eval({x: v}), v)

    def test_repeated_places(self):
        """At repeated positions, an increment adds all values, and an assignment keeps the last value.

        The index is a matrix. Each row of the index gets the same values y.
        """
        x, y, i = T.dvector(), T.dvector(), T.lmatrix()
        places, w = np.array([[0, 1], [-3, 1]]), np.array([1.0, 2.0])
        for linker in ("py", "cvm"):
            f = theano.function(
                [x, y, i], [T.inc_subtensor(x[i], y), T.set_subtensor(x[i], y)], mode=theano.Mode(linker, None)
            )
            inc, put = f(np.zeros(3), w, places)
            np.testing.assert_array_equal(inc, [2, 4, 0])
            np.testing.assert_array_equal(put, [1, 2, 0])

    def test_overlapping(self):
        """Indices that share memory with the tensor are read before an in-place increment changes it."""
        x, y, rows = T.lvector(), T.lvector(), T.lvector()
        for impl in ("c", "py"):
            v = np.array([1, 2, 0, 0])
            op = sub.AdvancedIncSubtensor1(inplace=True)
            run_node(op(x, y, rows), {x: v, y: np.array([7, 7, 7, 7]), rows: v}, impl)
            np.testing.assert_array_equal(v, [15, 9, 7, 0])


def taken(x, i, axis, mode):
    """Call `numpy.take`; for the mode "wrap", reduce the indices first.

    For this mode, NumPy subtracts the length until the index is in bounds, which takes years for a huge index.
    """
    if mode == "wrap":
        i = i.astype("int64") % (x.size if axis is None else x.shape[axis])
    return x.take(i, axis, mode=mode)


class TestTake(unittest.TestCase):
    take = Compared(lambda x, i, axis, mode: x.take(i, axis, mode), taken)
    rewritten = Compared(take.build, take.reference, modes=("fast_run",))

    @generated(
        arrays(("float32", "int8", "complex128"), ndim=(1, 3)),
        arrays(INTEGERS, ndim=(0, 2), contents=("small", "extreme")),
        st.sampled_from(["raise", "wrap", "clip"]),
        st.data(),
        examples=24,
    )
    def test_values(self, x, i, mode, data):
        # NumPy reads an unsigned index that does not fit into int64 as negative.
        assume(i.dtype.kind != "u" or not (i > 2**63 - 1).any())
        # From an empty array, NumPy takes any index without an error, unlike with indexing.
        assume(x.size)
        axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
        for compared in (self.take, self.rewritten):
            compared.check(x, i, axis=axis, mode=mode)

    @generated(arrays("float64", ndim=(2, 3), sides=(2, 4), layouts=NATIVE), st.sampled_from([None, 0, -1]), examples=4)
    def test_gradient(self, x, axis):
        self.take.check_gradient(x, np.array([[0, 1], [-1, 0]]), axis=axis, mode="raise", wrt=[0])


class TestSelecting(unittest.TestCase):
    choose = Compared(
        lambda a, *choices, mode: T.choose(a, choices if len(choices) > 1 else choices[0], mode=mode),
        lambda a, *choices, mode: np.choose(a, choices if len(choices) > 1 else list(choices[0]), mode=mode),
    )
    nonzero = Compared(
        lambda x: list(x.nonzero()) + [x.nonzero(return_matrix=True), x.nonzero_values(), T.flatnonzero(x)],
        lambda x: (
            list(np.nonzero(x))
            + [np.array(np.nonzero(x)), x.astype(x.dtype.newbyteorder("="))[np.nonzero(x)], np.flatnonzero(x)]
        ),
    )
    compress = Compared(lambda c, x, axis: x.compress(c, axis), lambda c, x, axis: np.compress(c, x, axis))

    @staticmethod
    def drawn_choices(data, dtypes, shape, layouts=tuple(LAYOUTS)):
        def part():
            return tuple(
                [1 if data.draw(st.integers(0, 4)) == 0 else n for n in shape[data.draw(st.integers(0, len(shape))) :]]
            )

        if data.draw(st.booleans()):
            number = data.draw(st.integers(2, 4))
            return part(), number, [data.draw(arrays(dtypes, shape=part(), layouts=layouts)) for _ in range(number)]
        number = data.draw(st.integers(1, 4))
        return part(), number, [data.draw(arrays(dtypes, shape=(number, *part()), layouts=layouts))]

    @generated(
        shapes(ndim=(0, 3), sides=(0, 3)),
        st.sampled_from(["raise", "wrap", "clip"]),
        st.sampled_from(["int8", "uint8", "int32", "int64"]),
        st.data(),
        examples=50,
    )
    def test_choose(self, shape, mode, dtype, data):
        own, number, choices = self.drawn_choices(data, ("float32", "float64", "int16", "complex64"), shape)
        numbers = np.random.RandomState(number).randint(
            *((0, number) if mode == "raise" and data.draw(st.booleans()) else (-6, 7)), own
        )
        self.choose.check(np.asarray(numbers).astype(dtype), *choices, mode=mode)

    @generated(shapes(ndim=(1, 2), sides=(1, 3)), st.sampled_from(["raise", "wrap", "clip"]), st.data(), examples=6)
    def test_gradient_of_choose(self, shape, mode, data):
        own, number, choices = self.drawn_choices(data, "float64", shape, NATIVE)
        numbers = np.random.RandomState(number).randint(*((0, number) if mode == "raise" else (-6, 7)), own)
        self.choose.check_gradient(np.asarray(numbers), *choices, mode=mode, wrt=list(range(1, len(choices) + 1)))

    @generated(arrays(ALL_DTYPES, ndim=(1, 3), contents=("ties", "nonfinite")), examples=30)
    def test_nonzero(self, x):
        self.nonzero.check(x)

    @generated(
        arrays(("bool", "int8", "float32"), ndim=1, contents="ties"),
        arrays("float64", ndim=(1, 2)),
        st.data(),
        examples=14,
    )
    def test_compress(self, condition, x, data):
        assume(x.size)
        self.compress.check(condition, x, axis=data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)])))


if __name__ == "__main__":
    unittest.main()
