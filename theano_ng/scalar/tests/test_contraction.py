"""Tests of contraction: a product and the sum that uses it are computed with one rounding."""

import itertools
import platform
import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng import config, scalar
from theano_ng.gof._native import processor_level
from theano_ng.scalar.contraction import mul_add, mul_sub, sub_mul
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.tests.test_interpreter import bits_of, interpretation, run

# Functions of three floats. Each use builds a new product, because products that are used twice are not contracted.
TERMS = {
    "x*y": lambda x, y, z: x * y,
    "-(x*y)": lambda x, y, z: -(x * y),
    "-x*y": lambda x, y, z: -x * y,
    "sqr(x)": lambda x, y, z: scalar.sqr(x),
    "x*y*z": lambda x, y, z: scalar.mul(x, y, z),
    "z": lambda x, y, z: z,
    "-z": lambda x, y, z: -z,
    "x/z": lambda x, y, z: x / (z + 3),
}
FORMS = {
    "a+b": lambda a, b: a + b,
    "a-b": lambda a, b: a - b,
    "-(a+b)": lambda a, b: -(a + b),
    "-(a-b)": lambda a, b: -(a - b),
    "(a+b)*-1": lambda a, b: (a + b) * np.float64(-1),
    "-0.-(a+b)": lambda a, b: np.float64(-0.0) - (a + b),
    "-(a+b)-(-(a-b))": lambda a, b: -(a + b) - (-(a - b)),
    "a+b+a": lambda a, b: scalar.add(a, b, a),
    "(a-b)*a": lambda a, b: (a - b) * a,
}
NUMBERS = [-1.5, -0.5, -0.0, 0.0, 0.5, 1.0]


def names_of(outputs, inputs):
    """Return the names of the instructions in the generated code."""
    return [str(i.op) for i in scalar.Composite(inputs, outputs).lowered.instructions]


class TestPairs(unittest.TestCase):
    def setUp(self):
        self.x, self.y, self.z, self.w = [scalar.float64(name) for name in "xyzw"]

    def check(self, outputs, expected):
        self.assertEqual(names_of(outputs, [self.x, self.y, self.z, self.w]), expected)

    def test_sums(self):
        x, y, z, w = self.x, self.y, self.z, self.w
        self.check([x * y + z], ["mul_add"])
        self.check([z + x * y], ["mul_add"])
        self.check([x * y - z], ["mul_sub"])
        self.check([z - x * y], ["sub_mul"])
        self.check([z + -(x * y)], ["sub_mul"])
        self.check([z - -(x * y)], ["mul_add"])
        self.check([scalar.sqr(x) + z], ["mul_add"])
        self.check([x * y + z * w], ["mul", "mul_add"])
        self.check([x * y - z * w], ["mul", "mul_sub"])
        self.check([scalar.add(x * y, z, w)], ["mul_add", "add"])
        self.check([scalar.add(z, w, x * y)], ["add", "mul_add"])
        self.check([scalar.mul(x, y, z) + w], ["mul", "mul_add"])

    def test_products_of_sums(self):
        """If a product of three or more sums is subtracted, the last multiplication and the subtraction are contracted.

        One operand of this multiplication is the product of the other factors. This product is not a sum, so
        `sub_mul` may negate it.
        """
        x, y, z, w = self.x, self.y, self.z, self.w
        sums = [x * y + z, y * z + w, z * w + x, w * x + y]
        for n in (3, 4):
            before = ["mul_add"] * n + ["mul"]
            self.check([w - scalar.mul(*sums[:n])], [*before, "sub_mul"])
            self.check([w + -scalar.mul(*sums[:n])], [*before, "sub_mul"])
            self.check([w - -scalar.mul(*sums[:n])], [*before, "mul_add"])
            self.check([scalar.mul(*sums[:n]) - w], [*before, "mul_sub"])
        self.check([w - scalar.mul(*sums[:2])], ["mul_add", "mul_add", "mul", "sub"])
        self.check([w - sums[0] * z], ["mul_add", "sub_mul"])

    def test_what_stays(self):
        x, y, z, w = self.x, self.y, self.z, self.w
        product = x * y
        self.check([product + z, product - w], ["mul", "add", "sub"])  # used twice
        self.check([product + z, product], ["mul", "add"])  # the product is an output
        self.check([product + product], ["mul", "add"])
        self.check([-(product + z)], ["mul", "add", "neg"])
        self.check([-product - z], ["mul", "neg", "sub"])
        total = scalar.sqr(x * y + z)
        self.check([w - total], ["mul_add", "sqr", "sub"])  # sub_mul would negate a contracted sum
        self.check([x * y - (z * w + x)], ["mul", "mul_add", "sub"])
        self.check([product / z], ["mul", "true_div"])
        integer = scalar.int32("k")
        self.assertEqual(names_of([integer * integer + integer], [integer]), ["mul", "add"])
        single = scalar.float32("s")
        self.assertEqual(names_of([single * single + x], [single, x]), ["mul", "add"])  # terms of two dtypes

    def test_program_of_users(self):
        """Contraction changes neither the string of a Composite nor its equality with other Composites."""
        op = scalar.Composite([self.x, self.y, self.z], [self.x * self.y + self.z])
        self.assertEqual(str(op), "Composite{((i0 * i1) + i2)}")
        self.assertEqual(op, scalar.Composite([self.x, self.y, self.z], [self.x * self.y + self.z]))
        self.assertNotEqual(op.lowered.instructions, op._program.instructions)

    def test_python(self):
        for op, expected in ((mul_add, 7.0), (mul_sub, 5.0), (sub_mul, -5.0)):
            self.assertEqual(op.impl(np.float64(2), np.float64(3), np.float64(1)), expected)


class TestNumbers(unittest.TestCase):
    """Tests that generated code returns the same bits as Python, including the signs of zeros.

    The contracted products are exact, so one rounding gives the same result as two. The exception is
    `test_one_rounding`.
    """

    def programs(self):
        for (first, a), (second, b), (name, form) in itertools.product(TERMS.items(), TERMS.items(), FORMS.items()):
            yield (
                "%s with a = %s, b = %s" % (name, first, second),
                lambda x, y, z, a=a, b=b, form=form: form(a(x, y, z), b(x, y, z)),
            )

    def test_negated_sums(self):
        """The signs of zeros are correct if gcc merges a negation into a contracted sum."""
        x, y, z, u, w = [scalar.float64(name) for name in "xyzuw"]
        forms = [w - (x * y + z) * u, w - u * (x * y - z), w - scalar.sqr(x * y + z), w + -((x * y - z) * u)]
        forms += [
            x * y - (u * w + z),
            x * y - (z - u * w),
            (z - x * y) * (u * w + z) - x,
            z - (x * y + z) * (u * w - x),
        ]
        forms += [-(x * y + z) * u - w, w - scalar.mul(x * y + z, u, y), w - scalar.mul(u, y, x * y + z)]
        values = [v.reshape(-1) for v in np.meshgrid(*[[-0.5, -0.0, 0.0, 0.5, 1.0]] * 5)]
        for form in forms:
            op = scalar.Composite([x, y, z, u, w], [form])
            node = Elemwise(op).make_node(*[T.dvector() for _ in range(5)])
            expected = np.array([op.impl(*row) for row in zip(*values)])
            for loaded in (interpretation(node), *[None] * bool(config.cxx)):
                (got,) = run(node, [v.copy() for v in values], loaded)
                np.testing.assert_array_equal(bits_of(got), bits_of(expected), "%s, %s" % (op, loaded))

    def check(self, dtype, function, text, compiled):
        variables = [scalar.get_scalar_type(dtype)(name) for name in "xyz"]
        output = function(*variables)
        op = scalar.Composite(variables, [output if output.type.dtype == dtype else scalar.cast(output, dtype)])
        node = Elemwise(op).make_node(*[T.vector(dtype=dtype) for _ in variables])
        values = [v.reshape(-1).astype(dtype) for v in np.meshgrid(NUMBERS, NUMBERS, NUMBERS)]
        expected = np.array([op.impl(*row) for row in zip(*values)], dtype)
        ways = {"interpreted": interpretation(node), **({"compiled": None} if compiled else {})}
        for way, loaded in ways.items():
            (got,) = run(node, [v.copy() for v in values], loaded)
            np.testing.assert_array_equal(bits_of(got), bits_of(expected), "%s, %s, %s" % (text, dtype, way))

    def test_interpreted(self):
        for text, function in self.programs():
            for dtype in ("float32", "float64"):
                self.check(dtype, function, text, compiled=False)

    @unittest.skipUnless(config.cxx, "there is no compiler")
    def test_compiled(self):
        for text, function in itertools.islice(self.programs(), 0, None, 5):
            self.check("float64", function, text, compiled=True)

    def test_one_rounding(self):
        """The rounding error of a square is computed exactly if product and difference become one instruction.

        The result is 2.0**-60 for the square of 1 + 2**-30. It is 0 if the product is rounded first.
        """
        x, y, z = [scalar.float64(name) for name in "xyz"]
        node = Elemwise(scalar.Composite([x, y, z], [x * y - z])).make_node(T.dvector(), T.dvector(), T.dvector())
        factor = np.full(9, 1 + 2.0**-30)
        square = factor * factor
        self.assertEqual(square[0], 1 + 2.0**-29)
        one_instruction = processor_level() >= 3 or platform.machine() != "x86_64"
        for loaded in (interpretation(node), *[None] * bool(config.cxx)):
            (got,) = run(node, [factor, factor, square], loaded)
            np.testing.assert_array_equal(got, 2.0**-60 if one_instruction else 0.0)
