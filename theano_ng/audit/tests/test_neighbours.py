"""Tests that the audit finds errors that only other parameters, lengths, values, calls or threads than the examples' show."""

import sys
import unittest
from unittest import mock

import numpy as np
import scipy.sparse

import theano_ng as theano
from theano_ng import scalar, sparse
from theano_ng import tensor as T
from theano_ng.audit import Case, audit, generate
from theano_ng.audit.causes import causes
from theano_ng.audit.code_constants import constants_of
from theano_ng.audit.line_coverage import LineCoverage
from theano_ng.audit.neighbours import neighbours, other_values
from theano_ng.audit.records import Finding
from theano_ng.audit.report import format_report, to_json
from theano_ng.audit.targets import Target
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.type import EnumList, Generic
from theano_ng.tensor.elemwise import Elemwise

VECTOR = np.array([0.5, -1.25, 2.0, 3.5, -0.75])
BLOCK = 96  # a global number that a method uses


class Shifted(Op):
    """x + shift, or x - shift if `down`: a correct Op with parameters, in Python and in C."""

    __props__ = ("shift", "down")

    def __init__(self, shift=1.5, down=False):
        self.shift, self.down = shift, down

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.dtype not in ("float32", "float64") or x.ndim != 1:
            raise TypeError("expected a vector of floats")
        return Apply(self, [x], [T.TensorType(x.dtype, (False,))()])

    def amount(self, x):
        return x.dtype.type(-self.shift if self.down else self.shift)

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] + self.amount(inputs[0])

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, gradients):
        return gradients

    def statement(self):
        """Return the C statement that computes an element, from X, S and the index i."""
        return "Z = X + S;"

    def c_code(self, node, name, inputs, outputs, sub):
        x, z = inputs[0], outputs[0]
        return """
        {
            npy_intp n = PyArray_DIM(%(x)s, 0);
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject *)PyArray_ZEROS(1, &n, PyArray_TYPE(%(x)s), 0);
            if (!%(z)s) %(fail)s
            const dtype_%(x)s S = %(shift)r;
            for (npy_intp i = 0; i < n; i++) {
                const dtype_%(x)s X = *(dtype_%(x)s *)PyArray_GETPTR1(%(x)s, i);
                dtype_%(z)s &Z = *(dtype_%(z)s *)PyArray_GETPTR1(%(z)s, i);
                %(statement)s
            }
        }
        """ % dict(
            x=x,
            z=z,
            fail=sub["fail"],
            shift=float(-self.shift if self.down else self.shift),
            statement=self.statement(),
        )

    def c_code_cache_version(self):
        return (1, self.statement())


class WrongDown(Shifted):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] + inputs[0].dtype.type(self.shift)


class GradientOfDown(Shifted):
    def grad(self, inputs, gradients):
        return [-gradients[0]] if self.down else gradients


class LostTail(Shifted):
    def statement(self):
        return "Z = i < 1024 ? X + S : X;"


class AfterBlock(Shifted):
    """A wrong Op: the element at the index 77 is wrong, a number that occurs in the code."""

    def statement(self):
        return "Z = i == 77 ? X : X + S;"


class NoNegativeZero(Shifted):
    """A wrong Op: for a shift of -0.0, the result of -0.0 is 0.0."""

    def __init__(self, shift=-0.0, down=False):
        super().__init__(shift, down)

    def statement(self):
        return "Z = X == 0 && S == 0 ? 0 : X + S;"


class Single(Shifted):
    def statement(self):
        return "Z = (float)(X + S);"


class Threshold(Shifted):
    """A wrong Op: it is wrong for a single value, which occurs in the code."""

    def statement(self):
        return "Z = X == 17.25 ? 0 : X + S;"


class Exponential(Shifted):
    """exp(x) - 1 loses digits near zero, in Python and in C."""

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.exp(inputs[0]) - inputs[0].dtype.type(1)

    def grad(self, inputs, gradients):
        return [gradients[0] * T.exp(inputs[0])]

    c_code = property()  # no C code


class Norm(Exponential):
    """x * x / |x| overflows in between."""

    def perform(self, node, inputs, outputs):
        x = inputs[0]
        with np.errstate(all="ignore"):
            outputs[0][0] = np.where(x == 0, x, x * x / np.where(x == 0, 1, x))

    def grad(self, inputs, gradients):
        return gradients


class Kink(Exponential):
    """|x - 2|, with a wrong gradient at 2 only."""

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.abs(inputs[0] - inputs[0].dtype.type(2))

    def grad(self, inputs, gradients):
        x = inputs[0]
        return [gradients[0] * T.switch(T.eq(x, 2), np.float32(3), T.sgn(x - np.float32(2)))]


class RightKink(Kink):
    def grad(self, inputs, gradients):
        return [gradients[0] * T.sgn(inputs[0] - np.float32(2))]


class SmallKink(Exponential):
    """A right Op: its slope is 1 above 2, and slightly less below. At 2, the derivative is the one from above."""

    def perform(self, node, inputs, outputs):
        above = inputs[0] - inputs[0].dtype.type(2)
        outputs[0][0] = np.where(above < 0, above * above.dtype.type(0.994), above)

    def slope(self, x):
        return T.switch(x < 2, np.asarray(0.994, x.dtype), T.ones_like(x))

    def grad(self, inputs, gradients):
        return [gradients[0] * self.slope(inputs[0])]

    def R_op(self, inputs, eval_points):
        return [None if eval_points[0] is None else eval_points[0] * self.slope(inputs[0])]


class WrongAtSmallKink(SmallKink):
    def slope(self, x):
        return T.switch(x < 2, np.asarray(0.994, x.dtype), np.asarray(1.001, x.dtype) * T.ones_like(x))


class SparseSquare(Exponential):
    """The squares of the stored elements of a sparse matrix. `factor` is wrong if it is not 2."""

    factor = 2

    def make_node(self, x):
        x = sparse.as_sparse_variable(x)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0].multiply(inputs[0]).asformat(inputs[0].format)

    def product(self, x, v):
        return sparse.mul(sparse.mul(x, v), np.asarray(self.factor, x.dtype))

    def grad(self, inputs, gradients):
        return [self.product(inputs[0], gradients[0])]

    def R_op(self, inputs, eval_points):
        return [None if eval_points[0] is None else self.product(inputs[0], eval_points[0])]

    def connection_pattern(self, node):
        return [[True]]


class WrongSparseSquare(SparseSquare):
    factor = 3


class DisconnectedSparseSquare(SparseSquare):
    def connection_pattern(self, node):
        return [[False]]


class Memo(Exponential):
    """A wrong Op: it keeps the result for an array, whose content may change."""

    def perform(self, node, inputs, outputs):
        known = self.__dict__.setdefault("_memo", {})
        if id(inputs[0]) not in known:
            known.clear()
            known[id(inputs[0])] = inputs[0], inputs[0] + 1
        outputs[0][0] = known[id(inputs[0])][1].copy()

    def grad(self, inputs, gradients):
        return gradients


class OneScratch(Memo):
    """A wrong Op: all functions use the same scratch memory."""

    scratch = [None]

    def perform(self, node, inputs, outputs):
        self.scratch[0] = inputs[0]
        outputs[0][0] = self.scratch[0] + inputs[0].dtype.type(1)


class KeepsItem(Op):
    """A wrong Op: each call, or each call that fails, keeps a reference to an item of its input."""

    __props__ = ("when",)

    def __init__(self, when):
        self.when, self.kept = when, []

    def make_node(self, x):
        return Apply(self, [x], [T.lscalar()])

    def perform(self, node, inputs, outputs):
        first = inputs[0][0] if inputs[0] else None
        fails = not isinstance(first, np.ndarray) or len(first) < 2
        if self.when == ("failure" if fails else "success") and first is not None:
            self.kept.append(first)
        if fails:
            raise ValueError("expected an array of two or more elements first")
        outputs[0][0] = np.asarray(len(inputs[0]))


class Ramp(scalar.UnaryScalarOp):
    """slope * x for negative x, otherwise x. The parameter `wrong` of the class makes other slopes wrong."""

    __props__ = ("slope",)

    def __init__(self, slope=0.25):
        self.slope = slope
        super().__init__(scalar.upgrade_to_float_no_complex, name="ramp")

    def impl(self, x):
        return x * (self.slope if self.slope == 0.25 else 2) if x < 0 else x

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = %s < 0 ? %r * %s : %s;" % (outputs[0], inputs[0], self.slope, inputs[0], inputs[0])

    def c_code_cache_version(self):
        return (1,)


def findings(op, check, *inputs, **options):
    report = audit(op, *(inputs or (VECTOR,)), checks=[check], max_examples=10, **options)
    return [(f.error, f.change) for f in report.findings], report


needs_compiler = unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")


class TestSearch(unittest.TestCase):
    def error(self, op, check, *inputs):
        found, report = findings(op, check, *inputs)
        self.assertEqual(len(found), 1, report.findings)
        return found[0]

    @needs_compiler
    def test_right(self):
        for check in ("c_code", "perform", "infer_shape", "grad", "accuracy", "state"):
            self.assertEqual(findings(Shifted(), check)[0], [], check)
        self.assertEqual(findings(RightKink(), "grad")[0], [])

    @needs_compiler
    def test_other_parameters(self):
        self.assertEqual(self.error(WrongDown(), "c_code"), ("BadThunkOutput", "down=True instead of False"))

    def test_gradient_of_other_parameters(self):
        error, report = findings(GradientOfDown(), "grad")
        self.assertEqual(error, [("BadGradient", "down=True instead of False")])
        self.assertIn("     with down=True instead of False", format_report(report))
        finding = to_json([report])["reports"][0]["verdicts"][0]["findings"][0]
        self.assertEqual(finding["change"], "down=True instead of False")

    @needs_compiler
    def test_parameters_of_a_scalar_op(self):
        name, change = self.error(Elemwise(Ramp()), "c_code")
        self.assertEqual(name, "BadThunkOutput")
        self.assertRegex(change, r"^scalar_op\.slope=\S+ instead of 0.25$")

    @needs_compiler
    def test_lengths(self):
        for cls, shape in ((LostTail, "(1025,)"), (AfterBlock, "(78,)")):
            found, report = findings(cls(), "c_code")
            self.assertEqual(found, [("BadThunkOutput", "")])
            self.assertIn(shape, report.findings[0].inputs[0])

    @needs_compiler
    def test_values(self):
        self.assertEqual(self.error(NoNegativeZero(), "c_code")[0], "BadThunkOutput")
        excluded = Case(NoNegativeZero(), [VECTOR], skip={"zero_signs": "they have no meaning here"})
        self.assertTrue(audit(excluded, checks="c_code", max_examples=10).ok)
        self.assertEqual(self.error(Single(), "c_code")[0], "BadThunkOutput")
        self.assertEqual(self.error(Threshold(), "c_code")[0], "BadThunkOutput")

    def test_accuracy(self):
        self.assertEqual(self.error(Exponential(), "accuracy")[0], "InaccurateResult")
        self.assertEqual(self.error(Norm(), "accuracy")[0], "InaccurateResult")

    def test_gradient_at_a_kink(self):
        found, report = findings(Kink(), "grad")
        self.assertEqual(found, [("BadGradient", "")])
        self.assertRegex(report.findings[0].message, r"finite differences give -\S+ to \S+ at a kink")

    def test_small_kinks(self):
        for check, name in (("grad", "BadGradient"), ("R_op", "BadRop")):
            self.assertEqual(findings(SmallKink(), check)[0], [])
            self.assertEqual(findings(WrongAtSmallKink(), check)[0], [(name, "")])

    def test_derivatives_of_sparse_matrices(self):
        matrix = scipy.sparse.csr_array(np.array([[0.5, 0, -1.25, 2.0], [0, 0, 1.5, 0], [-0.75, 3.0, 0, 0.25]]))
        self.assertEqual(findings(SparseSquare(), "grad", matrix.astype("float32"))[0], [])
        for check, name in (("grad", "BadGradient"), ("R_op", "BadRop")):
            self.assertEqual(findings(SparseSquare(), check, matrix)[0], [])
            found, report = findings(WrongSparseSquare(), check, matrix.tocsc())
            self.assertEqual(found, [(name, "")])
            self.assertRegex(report.findings[0].message, r"at \[\d+, \d+\] is ")
        self.assertEqual(findings(SparseSquare(), "connection_pattern", matrix)[0], [])
        found = self.error(DisconnectedSparseSquare(), "connection_pattern", matrix)
        self.assertEqual(found, ("BadConnectionPattern", ""))

    def test_state(self):
        found, report = findings(Memo(), "state")
        self.assertEqual(found, [("DependsOnState", "")])
        self.assertIn("returns the result of the call before", report.findings[0].message)

    def test_threads(self):
        found, report = findings(OneScratch(), "state")
        self.assertEqual(found, [("DependsOnState", "")])
        self.assertIn("if another function computes the Op at the same time", report.findings[0].message)

    def test_references_to_items(self):
        item = np.array([1.0, 2.0, 3.0])
        for when in ("success", "failure"):
            op = KeepsItem(when)
            report = audit(Case(op, [(Generic(), (item, "text"))]), checks="references")
            self.assertEqual([f.error for f in report.findings], ["ReferenceLeak"], when)
            self.assertIn("inside input 0", report.findings[0].message)
        self.assertTrue(audit(Case(KeepsItem("never"), [(Generic(), (item, "text"))]), checks="references").ok)


class TestConstants(unittest.TestCase):
    def test_numbers_and_texts(self):
        class Author(Shifted):
            def perform(self, node, inputs, outputs):
                """A docstring with 12345."""
                if self.down == "upside":
                    outputs[0][0] = helper(inputs[0])
                elif len(inputs[0]) > BLOCK:
                    outputs[0][0] = [x / 3.25 for x in inputs[0]]

            def c_code(self, node, name, inputs, outputs, sub):
                return 'int a = 0x40; /* 777 */ float b = 1.5e3f; // 888 \n char *c = "999"; long d = 12345678L + x32;'

        constants = constants_of(Author().make_node(T.dvector()))
        self.assertLessEqual({BLOCK, 3.25, 6.5, 64, 1500, 12345678}, set(constants.numbers))
        self.assertTrue({777, 888, 999, 32}.isdisjoint(constants.numbers))
        self.assertIn("upside", constants.texts)
        self.assertEqual([n for n in constants.lengths() if n in (64, 96, 1500)], [64, 96, 1500])


def helper(x):
    return x * 6.5


class TestNeighbours(unittest.TestCase):
    def test_arguments_alternate(self):
        constants = constants_of(Shifted().make_node(T.dvector()))
        changes = [change for change, _ in neighbours(Shifted(), constants)]
        self.assertEqual(
            changes[:3], ["shift=0.0 instead of 1.5", "down=True instead of False", "shift=-1.5 instead of 1.5"]
        )
        self.assertEqual(len(changes), len(set(changes)))

    def test_values(self):
        constants = mock.Mock(numbers=(3.5,), texts=("left", "right"), lengths=lambda *limits: [48])
        self.assertIn(48, other_values(5, constants))
        self.assertIn(3.5, other_values(0.5, constants))
        self.assertEqual(other_values("left", constants), ["right", "left_"])
        self.assertEqual(other_values(False, constants), [True, None])
        self.assertIn((1, 0), other_values((0, 1), constants))
        self.assertEqual(other_values(object(), constants), [])

    def test_choices(self):
        """The values of an argument that the code knows, and the values of an enumeration."""

        class Chooses(Shifted):
            __props__ = ("way", "border")
            params_type = ParamsType(border=EnumList(("BORDER_ZERO", "zero"), ("BORDER_WRAP", "wrap")))

            def __init__(self, way="up", border="zero"):
                self.way, self.border = way, border

            def perform(self, node, inputs, outputs, params):
                if self.way == "down" or self.way in ("left", "right"):
                    return
                outputs[0][0] = {"up": inputs[0], "far": -inputs[0]}[self.way]
                if node == "something else":
                    return

        changes = [change for change, _ in neighbours(Chooses(), mock.Mock(numbers=(), texts=()))]
        both = "way='down' and border='wrap' instead of 'up' and 'zero'"
        self.assertIn(both, changes)
        self.assertEqual(
            {change.split(" instead")[0] for change in changes[: changes.index(both)] if " and " not in change},
            {"way=%r" % way for way in ("down", "left", "right", "far")}
            | {"border=%r" % border for border in ("wrap", "BORDER_ZERO", "BORDER_WRAP")},
        )

    def test_unknown_arguments(self):
        class Renamed(Shifted):
            def __init__(self, size):
                super().__init__(size)

        self.assertEqual(list(neighbours(Renamed(2.0), constants_of(Shifted().make_node(T.dvector())))), [])

    def test_neighbours_that_refuse_the_examples(self):
        class Needs(Shifted):
            def perform(self, node, inputs, outputs):
                if self.shift <= 0:
                    raise ValueError("shift has to be positive")
                super().perform(node, inputs, outputs)

            def infer_shape(self, node, shapes):
                return shapes if self.shift > 0 else [(shapes[0][0] + 1,)]

        self.assertEqual(findings(Needs(), "infer_shape")[0], [])
        self.assertEqual(findings(Needs(), "infer_shape")[1].verdicts[0].status, "ok")

    def test_off(self):
        self.assertEqual(Target(Case(Shifted(), [VECTOR], vary=("length",))).neighbours, [])


class TestShapes(unittest.TestCase):
    def test_lengths(self):
        target = Target(Case(Shifted(), [VECTOR]))
        lengths = [shapes[0][0] for shapes in generate.long_shapes(target, target.base)]
        self.assertLessEqual({31, 32, 33, 1023, 1024, 1025, 4097}, set(lengths))
        self.assertEqual({s[0][0] for s in generate.short_shapes(target, target.base)}, {0, 1, 2, 3})

    def test_square_matrices_stay_small(self):
        target = Target(Case(T.add, [np.ones((3, 3)), np.ones((3, 3))]))
        shapes = generate.long_shapes(target, target.base)
        self.assertTrue(shapes)
        self.assertLessEqual(max(np.prod(s) for pair in shapes for s in pair), generate.MOST_ELEMENTS)

    def test_row_with_nothing(self):
        target = Target(Case(T.add, [np.ones((4, 3)), np.ones((4, 3))]))
        self.assertIn(((1, 3), (0, 3)), generate.short_shapes(target, target.base))


class TestCoverage(unittest.TestCase):
    def test_missing_lines(self):
        class Branches(Shifted):
            def perform(self, node, inputs, outputs):
                if len(inputs[0]) == 123456:
                    outputs[0][0] = None
                super().perform(node, inputs, outputs)

        first = Branches.perform.__code__.co_firstlineno
        report = audit(Branches(), VECTOR, checks="perform", max_examples=5)
        note = report.verdicts[0].note
        self.assertIn("no example reached line %d of perform" % (first + 2), note)
        self.assertIn("no example reached line", " ".join(format_report(report).split()))

    def test_another_tracer(self):
        coverage = LineCoverage(Shifted())
        before = sys.gettrace()
        sys.settrace(other := lambda *event: None)
        try:
            with coverage:
                self.assertIs(sys.gettrace(), other)
            self.assertIs(sys.gettrace(), other)
        finally:
            sys.settrace(before)


class TestCauses(unittest.TestCase):
    def test_order(self):
        found = [
            Finding("perform", "NonDeterministic", "differs"),
            Finding("perform", "BadDestroyMap", "overwrites"),
            Finding("c_code", "BadDestroyMap", "overwrites"),
            Finding("grad", "BadGradient", "wrong"),
            Finding("props", "BadHash", "unequal"),
        ]
        first, second = causes(found)
        self.assertEqual((first.error, second.error), ("BadDestroyMap", "BadHash"))
        self.assertEqual([f.error for f in first.consequences], ["NonDeterministic", "BadDestroyMap", "BadGradient"])
        self.assertEqual(causes([]), [])
        self.assertEqual([f.error for f in causes(found[-2:])], ["BadHash", "BadGradient"])


if __name__ == "__main__":
    unittest.main()
