"""Tests of the Op interface: props, default outputs, params, custom thunks, test values, OpenMP, external C files."""

import os
import pickle
import re
import tempfile
import unittest
import warnings

import numpy as np

import theano_ng as theano
from theano_ng import gof
from theano_ng import tensor as T
from theano_ng.configdefaults import config
from theano_ng.gof.op import COp, Op, OpenMPOp, get_debug_values
from theano_ng.gof.params_type import ParamsType


class Pair(Op):
    __props__ = ("a", "b")
    default_output = 1

    def __init__(self, a, b=2):
        self.a, self.b = a, b

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        return gof.Apply(self, [x], [x.type(), x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0] * self.a
        output_storage[1][0] = inputs[0] * self.b


class WithParams(Op):
    __props__ = ("k", "n")
    params_type = ParamsType(k=theano.scalar.float64, n=theano.scalar.int32)

    def __init__(self, k, n):
        self.k, self.n = k, n

    def make_node(self, x):
        return gof.Apply(self, [T.as_tensor_variable(x)], [T.dvector()])

    def perform(self, node, inputs, output_storage, params):
        output_storage[0][0] = inputs[0] * params.k + params.n


class OwnThunk(Op):
    """An Op whose make_thunk has the older signature, without `impl`."""

    __props__ = ()
    made = 0

    def make_node(self, x):
        return gof.Apply(self, [x], [x.type()])

    def make_thunk(self, node, storage_map, compute_map, no_recycling):
        OwnThunk.made += 1
        source, target, computed = (
            storage_map[node.inputs[0]],
            storage_map[node.outputs[0]],
            compute_map[node.outputs[0]],
        )

        def thunk():
            target[0] = source[0] + 1
            computed[0] = True

        thunk.inputs, thunk.outputs, thunk.lazy = [source], [target], False
        return thunk


class TestOp(unittest.TestCase):
    def test_props(self):
        self.assertEqual(Pair(1), Pair(1, 2))
        self.assertEqual(hash(Pair(1)), hash(Pair(1, 2)))
        self.assertNotEqual(Pair(1), Pair(2))
        self.assertNotEqual(Pair(1), Pair(1, 3))
        self.assertEqual(str(Pair(1)), "Pair{a=1, b=2}")
        self.assertEqual((Pair(1)._props(), Pair(1)._props_dict()), ((1, 2), {"a": 1, "b": 2}))
        self.assertEqual(pickle.loads(pickle.dumps(Pair(4))), Pair(4))
        self.assertEqual(str(OwnThunk()), "OwnThunk")

    def test_outputs_and_literals(self):
        x = T.dvector("x")
        out = Pair(3)(x)
        self.assertEqual((out.index, out.owner.default_output()), (1, out))
        self.assertEqual(Pair(3)(x, return_list=True)[0].index, 1)
        f = theano.function([x], [out, Pair(3)([1.0, 2.0]), *out.owner.outputs], mode="FAST_COMPILE")
        for got, want in zip(f([1, 4]), ([2, 8], [2, 4], [3, 12], [2, 8])):
            np.testing.assert_array_equal(got, want)
        node = Pair(3).make_node(x)
        Pair.default_output = 5
        try:
            with self.assertRaises(AttributeError):
                node.default_output()
        finally:
            Pair.default_output = 1

    def test_params_and_own_thunk(self):
        x = T.dvector("x")
        y = WithParams(0.5, 3)(x)
        self.assertEqual((y.owner.run_params().k, y.owner.run_params().n), (0.5, 3))
        np.testing.assert_array_equal(theano.function([x], y)([2.0, 4.0]), [4, 5])
        for linker in ("py", "vm", "cvm", "c|py"):
            np.testing.assert_array_equal(theano.function([x], OwnThunk()(x) * 2, mode=theano.Mode(linker))([1.0]), [4])
        self.assertGreaterEqual(OwnThunk.made, 4)

    def test_test_values(self):
        with _flag("compute_test_value", "raise"):
            x = T.dvector("x")
            with self.assertRaises(ValueError):
                Pair(2)(x)
            x.tag.test_value = np.ones(3)
            y = Pair(2)(x)
            np.testing.assert_array_equal(y.tag.test_value, [2, 2, 2])
            self.assertEqual([v[0].shape for v in get_debug_values(y)], [(3,)])
            z = T.dvector("z")
            z.tag.test_value = np.ones(4)
            with self.assertRaises(ValueError):
                y + z

    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    def test_openmp_flag(self):
        op = OpenMPOp(openmp=False)
        self.assertEqual((op.c_compile_args(), op.c_headers()), ([], []))
        op = OpenMPOp(openmp=True)
        self.assertEqual((op.c_compile_args(), op.c_headers()), (["-fopenmp"], ["omp.h"]))


class _flag:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def __enter__(self):
        self.before = getattr(config, self.name)
        setattr(config, self.name, self.value)

    def __exit__(self, *exc):
        setattr(config, self.name, self.before)


class TestSections(unittest.TestCase):
    def op(self, text, name="APPLY_SPECIFIC(run)"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "code.c")
            with open(path, "w") as f:
                f.write(text)
            return COp([path], name)

    def test_split(self):
        op = self.op("#section support_code\nint a;\n#section init_code\nb();\n#section support_code\nint c;\n")
        text = "".join(op.c_support_code())
        self.assertLess(text.index("int a;"), text.index("int c;"))
        self.assertNotIn("b();", text)
        self.assertIn("b();", "".join(op.c_init_code()))
        other = self.op("#section support_code\nint d;\n")
        self.assertNotEqual(op.c_code_cache_version(), other.c_code_cache_version())
        self.assertEqual(
            other.c_code_cache_version(), self.op("#section support_code\nint d;\n").c_code_cache_version()
        )

    def test_without_a_compiler(self):
        """The error of an Op that has only C code names the missing compiler and the remedy."""

        class OnlyC(gof.Op):
            __props__ = ()

            def make_node(self, x):
                return gof.Apply(self, [x], [x.type()])

            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = NULL;" % outputs[0]

        x = T.dvector()
        files = self.op("#section support_code_apply\nint APPLY_SPECIFIC(run)(void) { return 0; }\n")
        files.itypes = files.otypes = [T.dvector]
        for cxx in ("", "/no/such/g++"):
            with config.change_flags(cxx=cxx), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for y in (OnlyC()(x), files(x)):
                    with self.assertRaisesRegex(
                        gof.utils.MethodNotDefined,
                        "C code only.*no C.. compiler: config.cxx is '%s'.*THEANO_FLAGS=cxx=" % re.escape(cxx),
                    ):
                        theano.function([x], y, mode="FAST_RUN")([1.0])

    def test_unknown_tag(self):
        with self.assertRaisesRegex(ValueError, "nonsense"):
            self.op("#section nonsense\nint a;\n")
        with self.assertRaises(ValueError):
            self.op("int a;\n")


if __name__ == "__main__":
    unittest.main()
