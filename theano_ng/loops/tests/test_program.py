"""Tests of loop programs: their text, their flattening, and the files of kernels."""

import os
import pathlib
import tempfile
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.configparser import change_flags
from theano_ng.gof.native import native_code_of
from theano_ng.loops.program import (
    Access,
    Fold,
    Guards,
    Literal,
    LoopProgram,
    Operand,
    Step,
    elementwise_program,
    flattened,
)

DOUBLE = Operand("float64")


def lines_of(program):
    return str(program).splitlines()


def evaluated(program, inputs):
    """Return the values that a program stores, computed with the Python functions of its scalar ops."""
    values = list(inputs)

    def value(v):
        return v.value if isinstance(v, Literal) else values[v]

    for op, arguments, dtypes in program.steps:
        results = op.impl(*map(value, arguments))
        for result, dtype in zip(results if len(dtypes) > 1 else [results], dtypes):
            values.append(np.asarray(result).astype(dtype)[()])
    return [value(v) for v in program.stores]


class TestText(unittest.TestCase):
    def test_parts(self):
        program = LoopProgram(
            inputs=(DOUBLE, Operand("int32", Access.HOISTED), Operand("int8", Access.MAYBE_BROADCAST, moves=True)),
            steps=(
                Step(scalar.int_div, (0, 1), ("float64",)),
                Step(scalar.mul, (3, Literal.of("float64", -0.0)), ("float64",)),
            ),
            stores=(4,),
            outputs=(Operand("float32", moves=True),),
            guards=Guards((1,), True),
            until=2,
        )
        self.assertEqual(
            lines_of(program),
            [
                "v0 = load float64",
                "v1 = load int32, once",
                "v2 = load int8, once if its stride is 0, a row for each step",
                "v3 = int_div(v0, v1) float64",
                "v4 = mul(v3, -0.0) float64",
                "refuse zero in v1",
                "refuse computed divisors that are zero",
                "store v4 as float32, a row for each step",
                "stop if v2",
            ],
        )
        folded = elementwise_program(scalar.sqr, ("float32",), ("float32",), fold=Fold(scalar.add, "float64"))
        self.assertEqual(lines_of(folded)[-1], "fold v1 by add in float64")
        self.assertTrue(folded.has_several_operations())
        self.assertFalse(folded._replace(fold=None).has_several_operations())

    def test_programs_of_functions(self):
        """The text of a function shows each fused loop over elements, also inside loops over steps."""
        x, y, z = T.dmatrix("x"), T.dvector("y"), T.dscalar("z")
        mode = theano.compile.get_mode("FAST_RUN").including("fusion")
        sequence, _ = theano.scan(lambda a, b: T.tanh(a * b) + a, sequences=y, outputs_info=z, mode=mode)
        spread = x - x.mean(1, keepdims=True)
        products, _ = theano.scan(lambda a, b: T.exp(T.dot(x, b)) + a, sequences=x, outputs_info=y, mode=mode)
        for inputs, out, shown, hidden in (
            ([x, y], T.exp(x * y), ["mul(v0, v1) float64", "exp(v2) float64", "store v3 as float64"], []),
            ([x, y], T.exp(x * y).sum(), ["exp(v2) float64", "fold v3 by add in float64"], ["store"]),
            ([x], T.exp(x), [], ["v0"]),
            ([y, z], sequence, ["tanh(v2) float64", "a row for each step"], ["AllocEmpty"]),
            ([x, y], products, ["Gemv", "|    | v2 = exp(v0) float64"], ["fold"]),
            ([x], (spread / T.sqrt((spread**2).mean(1, keepdims=True))), ["Sum{axis=[1]", "store v"], []),
        ):
            text = str(theano.function(inputs, out, mode=mode).fn.program)
            details = "\n".join([line for line in text.splitlines() if line.lstrip().startswith("|")])
            for part in shown:
                self.assertIn(part, details)
            for part in hidden:
                self.assertNotIn(part, details)

    def test_steps_without_a_program(self):
        """The text of a program shows the Ops of a step, unless the step runs in DebugMode."""
        x = T.dmatrix("x")
        for mode, shown in (("DebugMode", False), ("FAST_RUN", True)):
            out, _ = theano.scan(lambda b: T.exp(T.dot(x, b)), outputs_info=T.ones(2), n_steps=3, mode=mode)
            text = str(theano.function([x], out, mode=theano.compile.get_mode("FAST_RUN")).fn.program)
            self.assertRegex(text, "for{cpu|forall")
            self.assertEqual("Gemv" in text, shown)


class TestFlattened(unittest.TestCase):
    def test_values(self):
        """A flattened program computes the same values as the original program.

        The flattened program contains no Composite. Its stores and its condition refer to values by their new numbers.
        """
        x, y = scalar.float64("x"), scalar.float64("y")
        several = scalar.Composite([x, y], [x - y * 2.5, scalar.exp(x), y])
        program = LoopProgram(
            inputs=(DOUBLE, DOUBLE),
            steps=(
                Step(scalar.mul, (0, 1), ("float64",)),
                Step(several, (2, 1), ("float64",) * 3),
                Step(several, (3, 5), ("float64",) * 3),
                Step(scalar.add, (6, 8, Literal.of("float64", 3.0)), ("float64",)),
            ),
            stores=(9, 5, 4, 7),
            outputs=(DOUBLE,) * 4,
            until=5,
        )
        flat = flattened(program)
        self.assertFalse([step.op for step in flat.steps if isinstance(step.op, scalar.Composite)])
        self.assertEqual(flattened(flat), flat)
        self.assertEqual(flat.until, 1)  # the third result of the Composite is its second input
        rng = np.random.default_rng(3)
        for values in rng.normal(size=(20, 2)):
            np.testing.assert_allclose(evaluated(flat, values), evaluated(program, values), rtol=1e-14)
        self.assertEqual(flat.dtypes(), ["float64"] * (2 + len(flat.steps)))

    def test_results_without_steps(self):
        """A flattened program has no step for an output of a Composite that is an input or a constant."""
        x = scalar.float32("x")
        constant = scalar.Composite([x], [x, scalar.constant(2.0, dtype="float32")])
        program = elementwise_program(constant, ("float32",), ("float32", "float32"))
        self.assertEqual(flattened(program).stores, (0, Literal.of("float32", 2.0)))


class TestFiles(unittest.TestCase):
    def test_kernel_folder(self):
        """With the flag kernel_folder, the source code and loop program of each kernel are written to one file.

        The names and contents of the files are equal in each compilation.
        """
        x, y = T.dmatrix("x"), T.dvector("y")
        out = [T.exp(x * y) - y, T.log(x).sum()]
        seen = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                place = os.path.join(folder, "kernels")
                with change_flags(kernel_folder=place, mode="FAST_RUN"):
                    f = theano.function([x, y], out)
                names = sorted(os.listdir(place))
                texts = [pathlib.Path(place, name).read_text(encoding="utf-8") for name in names]
            seen.append(dict(zip(names, texts)))
        self.assertEqual(*seen)
        kernels = [k for node in f.maker.fgraph.toposort() for k in getattr(native_code_of(node), "kernels", ())]
        self.assertEqual(set(texts), {kernel.text() for kernel in kernels})
        self.assertEqual(len(texts), 2)
        for kernel in kernels:
            self.assertIn(kernel.source, kernel.text())
            self.assertIn(str(kernel.program).splitlines()[-1], kernel.text())
            self.assertTrue(kernel.text().startswith("/*\n * v0 = load float64"))
