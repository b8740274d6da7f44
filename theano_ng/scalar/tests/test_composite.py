"""Tests of Composite: printing, identity, flattening, evaluation, C code, gradients."""

import pickle
import subprocess
import sys
import unittest

import numpy as np

import theano_ng.scalar as scalar
from theano_ng.configdefaults import config
from theano_ng.gof.compiler import load_kernels
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.scalar import Composite, constant, float16, float32, float64, int8
from theano_ng.scalar import bool as bool_
from theano_ng.scalar.tests.kernels import call_kernel, op_kernel
from theano_ng.scalar.tests.test_basic import evaluate


class TestStructure(unittest.TestCase):
    def test_strings(self):
        x, y, z, b = float64("x"), float64("y"), float64("z"), bool_("b")
        for outputs, text in (
            ([(x + y) * x], "Composite{((i0 + i1) * i0)}"),
            ([scalar.log(x) * x], "Composite{(log(i0) * i0)}"),
            ([scalar.gt(scalar.exp(-((-x) - y)), z)], "Composite{GT(exp((-((-i0) - i1))), i2)}"),
            ([scalar.switch(x < y, x, y)], "Composite{Switch(LT(i0, i1), i0, i1)}"),
            ([scalar.switch(b, x, scalar.minimum(y, z))], "Composite{Switch(i3, i0, minimum(i1, i2))}"),
            (
                [x % y, x**y, x // y, scalar.add(x, y, z)],
                "Composite{(i0 % i1), (i0 ** i1), (i0 // i1), (i0 + i1 + i2)}",
            ),
            ([x * 2.0], "Composite{(i0 * %s)}" % constant(2.0)),
            ([scalar.cast(x, "float32")], "Composite{Cast{float32}(i0)}"),
        ):
            self.assertEqual(str(Composite([x, y, z, b], outputs)), text)

    def test_identity(self):
        def make(second):
            x, y = float64("x"), float64("y")
            return Composite([x, y], [scalar.exp(x + y) * (second(x) + 0.5)])

        one, same, other = make(scalar.log), make(scalar.log), make(scalar.sqrt)
        self.assertEqual(one, same)
        self.assertEqual(hash(one), hash(same))
        self.assertNotEqual(one, other)
        again = pickle.loads(pickle.dumps(one))
        self.assertEqual((again, hash(again), str(again)), (one, hash(one), str(one)))
        self.assertEqual(one.make_new_inplace(scalar.transfer_type(0)), one)
        x = float64("x")
        self.assertNotEqual(Composite([x], [x * 0.0]), Composite([x], [x * -0.0]))
        self.assertEqual(Composite([x], [x * np.nan]), Composite([x], [x * np.nan]))
        # The order of operands is part of the identity. Equal subexpressions become one instruction.
        y = float64("y")
        self.assertNotEqual(Composite([x, y], [x - y]), Composite([x, y], [y - x]))
        self.assertEqual(Composite([x], [scalar.exp(x) + scalar.exp(x)])._program.instructions.__len__(), 2)

    def test_flatten(self):
        x, y = float64("x"), float64("y")
        inner = Composite([x, y], [x + y, x * y])
        a, b = inner(y, x)
        outer = Composite([x, y], [scalar.exp(a) - x])
        self.assertEqual(outer, Composite([x, y], [scalar.exp(y + x) - x]))
        self.assertEqual([n.op for n in outer.fgraph.toposort()], [scalar.add, scalar.exp, scalar.sub])
        self.assertEqual(len(outer.inputs), 2)
        self.assertEqual(outer.outputs[0].owner.op, scalar.sub)

    def test_depth_and_width(self):
        x = float64("x")
        v = x
        for _ in range(5000):
            v = scalar.sin(v)
        deep = Composite([x], [v])
        self.assertEqual(pickle.loads(pickle.dumps(deep)), deep)
        self.assertLess(len(str(deep)), 200000)
        v = x
        for _ in range(60):
            v = v + v  # as a tree, 2**60 leaves
        self.assertEqual(Composite([x], [v]).impl(1.0), 2.0**60)
        self.assertLess(len(str(Composite([x], [v]))), 20000)

    def test_refused(self):
        x, y = float64("x"), float64("y")

        class Other(Op):
            __props__ = ()

            def make_node(self, v):
                return Apply(self, [v], [v.type()])

        self.assertRaises(ValueError, Composite, [x], [Other()(x) + x])
        self.assertRaises(ValueError, Composite, [x], [x + y])
        self.assertRaises(TypeError, Composite([x], [x + 1.0]), x, y)
        self.assertRaises(TypeError, Composite([x], [x + 1.0]).output_types, [int8])

    def test_other_input_types(self):
        x, y = float64("x"), float64("y")
        node = Composite([x, y], [(x + y) * 2]).make_node(float32("a"), int8("b"))
        self.assertEqual((node.op.inputs_type, node.outputs[0].dtype), ((float32, int8), "float32"))

    def test_hash_seed(self):
        program = (
            "from theano_ng.scalar import *\nx, y = float64('x'), float32('y')\n"
            "c = Composite([x, y], [switch(lt(x, y), exp(x) + 0.5, y), x * y])\n"
            "print(c, c.c_code(c.make_node(x, y), 'n', ['a', 'b'], ['p', 'q'], {'fail': ''}))"
        )
        texts = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
                capture_output=True,
                check=True,
                text=True,
            ).stdout
            for seed in ("1", "2")
        }
        self.assertEqual(len(texts), 1)


class TestValues(unittest.TestCase):
    def cases(self):
        x, y, h, n = float64("x"), float32("y"), float16("h"), int8("n")
        yield Composite([x, y], [(x + y) * x - 0.5, scalar.exp(y), x, constant(3)])
        yield Composite([y, x], [scalar.switch(y < x, y, scalar.sqr(y)) % 3.0])
        yield Composite([h, y], [scalar.exp(h) + 0.25, h * h + y])
        yield Composite([h], [h + np.float16(0.5)])
        yield Composite([n, n.clone()], [n * n // 3, n + n])
        yield Composite([x], [scalar.psi(x) + scalar.erf(x)])
        yield Composite([x], [x])
        yield Composite([x], [scalar.complex(x, x) * 2])

    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    def test_c_and_python(self):
        data = np.array([0.5, 1.0, 2.25, 100.0])
        for language in ("c", "c++"):
            nodes = [op.make_node(*[t.make_variable() for t in op.inputs_type]) for op in self.cases()]
            for node, address in zip(nodes, load_kernels([op_kernel(node, language) for node in nodes])):
                arrays = [data.astype(i.dtype) for i in node.inputs]
                got = call_kernel(address, node, arrays)
                cells = [[None] for _ in node.outputs]
                for k, numbers in enumerate(zip(*arrays)):
                    node.op.perform(node, list(numbers), cells)
                    for output, cell, column in zip(node.outputs, cells, got):
                        self.assertEqual(cell[0].dtype, output.dtype)
                        rtol = 2e-3 if output.dtype == "float16" else 1e-6
                        np.testing.assert_allclose(column[k], cell[0], rtol=rtol, err_msg=str(node))

    def test_template(self):
        x, y = int8("x"), int8("y")
        op = Composite([x, y], [x % y])
        code = op.c_code(op.make_node(x, y), "node", ["V1", "V2"], ["V3"], {"fail": "goto fail;"})
        self.assertIn("V3 = node_tmp0;", code)
        self.assertIn("npy_int8 node_tmp0;", code)
        self.assertIn("tng_mod_int8(V1, V2)", code)
        self.assertIn("tng_mod_##NAME", op.c_support_code())
        self.assertTrue(op.c_support_is_c)

    def test_user_op(self):
        class Twice(scalar.UnaryScalarOp):
            def impl(self, x):
                return 2 * x

            def c_code(self, node, name, inputs, outputs, sub):
                return "if (%s %% 2 == 7) { %s } %s = 2 * %s;" % (inputs[0], sub["fail"], outputs[0], inputs[0])

            def c_support_code(self):
                return "/* twice */"

            def c_headers(self):
                return ["<vector>"]

            def c_code_cache_version(self):
                return ()

        x = int8("x")
        op = Composite([x], [Twice(scalar.same_out)(x) + x])
        code = op.c_code(op.make_node(x), "n", ["a"], ["b"], {"fail": "{goto out;}"})
        self.assertIn("if (a % 2 == 7) { {goto out;} } n_tmp0 = 2 * a;", code)
        self.assertEqual((op.c_headers(), op.c_support_code(), op.c_support_is_c), (["<vector>"], "/* twice */", False))
        self.assertEqual(op.c_code_cache_version(), ())
        self.assertEqual(op.impl(np.int8(4)), 12)

    def test_gradient(self):
        x, y = float64("x"), float64("y")
        op = Composite([x, y], [scalar.exp(x * y) + scalar.sqr(x), scalar.log(y) * x])
        outputs = op(x, y)
        gx, gy = evaluate(
            op.L_op([x, y], outputs, [constant(1.0), constant(2.0)]), {x: np.float64(0.3), y: np.float64(1.7)}
        )
        e = np.exp(0.51)
        np.testing.assert_allclose([gx, gy], [1.7 * e + 0.6 + 2 * np.log(1.7), 0.3 * e + 2 * 0.3 / 1.7])

    def test_float16_upcast(self):
        h = float16("h")
        op = Composite([h], [scalar.cast(scalar.exp(h) * h, "float16")])
        wide = op.clone_float32()
        self.assertEqual((wide.inputs_type, wide.outputs_type), ((float32,), (float32,)))
        from theano_ng.gof.fg import FunctionGraph

        graph = scalar.composite_f32.apply(
            FunctionGraph([h], [op(scalar.cast(scalar.exp(h), "float16")) + np.float16(1)])
        )
        self.assertEqual({v.dtype for n in graph.toposort() for v in n.inputs + n.outputs}, {"float32"})


if __name__ == "__main__":
    unittest.main()
