"""Tests of pprint, debugprint, pydotprint, Print and descriptive strings, on graphs of scalars and tensors."""

import contextlib
import io
import os
import pickle
import shutil
import struct
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

from theano_ng import printing, scalar
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.printing import (
    FunctionPrinter,
    IgnorePrinter,
    PatternPrinter,
    PPrinter,
    Print,
    PrinterState,
    debugprint,
    hex_digest,
    leaf_printer,
    min_informative_str,
    position_independent_str,
    pp,
    pprint,
    var_descriptor,
)
from theano_ng.scalar import float64


class TwoOutputs(Op):
    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type(), x.type()])


class TestPretty(unittest.TestCase):
    def setUp(self):
        self.x, self.y = float64("x"), float64("y")

    def test_operators(self):
        x, y = self.x, self.y
        for variable, text in (
            (x + y, "(x + y)"),
            (x - y * 2.0, "(x - (y * Constant{2.0}))"),
            (-x, "(-x)"),
            (scalar.add(x, y, x), "(x + y + x)"),
            (scalar.exp((-x) - y), "exp(((-x) - y))"),
            (x**y, "(x ** y)"),
            (x // y % x, "mod((x // y), x)"),
            (abs(x), "|x|"),
            (x > y, "gt(x, y)"),
            (scalar.second(x, y), "fill(x, y)"),
            (scalar.switch(x, y, x), "switch(x, y, x)"),
            (scalar.cast(x, "int8"), "int8(x)"),
            (scalar.exp.make_new_inplace(scalar.transfer_type(0))(x), "exp(x)"),
            (float64(), "<float64>"),
            (TwoOutputs()(x)[1], "TwoOutputs(x)"),
            (float64("theta"), "\\theta"),
        ):
            self.assertEqual(pprint(variable), text)
            self.assertEqual(pp(variable), text)

    def test_assignments(self):
        x, y = self.x, self.y
        own = pprint.clone()
        own.assign(scalar.sin, FunctionPrinter("SIN"))
        own.assign(lambda pstate, r: r.owner is not None and r.owner.op == scalar.cos, PatternPrinter(("<%(0)s>", 5)))
        own.assign(scalar.identity, IgnorePrinter())
        own.assign(scalar.tan, lambda r, pstate: "tan!")
        self.assertEqual(own(scalar.sin(scalar.cos(scalar.identity(x)) + scalar.tan(y))), "SIN((<x> + tan!))")
        self.assertEqual(pprint(scalar.sin(x)), "sin(x)")
        # The printer that was assigned last has priority, whether it is assigned to an Op or to a condition.
        own.assign(scalar.sin, FunctionPrinter("late"))
        self.assertEqual(own(scalar.sin(x)), "late(x)")
        own.assign(lambda pstate, r: r.owner is not None and r.owner.op == scalar.sin, FunctionPrinter("later"))
        self.assertEqual(own(scalar.sin(x)), "later(x)")
        self.assertEqual(own.clone_assign(lambda pstate, r: r is x, leaf_printer)(x), "x")

    def test_precedence_reaches_custom_printers(self):
        seen = []

        class Recording:
            def process(self, output, pstate):
                seen.append(pstate.precedence)
                return pstate.pprinter.process(output.owner.inputs[0], pstate.clone(precedence=7))

        own = pprint.clone()
        own.assign(scalar.sin, Recording())
        s = scalar.sin(self.x)
        self.assertEqual(own((s - s) * s), "((x - x) * x)")
        self.assertEqual(seen, [-2, -2 + 1e-6, -1])

    def test_graph(self):
        x, y = self.x, self.y
        a = x + y
        a.name = "a"
        b = a * x
        self.assertEqual(pprint([x, y], [b]), "a = (x + y)\nout[0] = (a * x)")
        self.assertEqual(pprint.process_graph([x, y], [b], display_inputs=True).splitlines()[0], "inputs: x, y")
        self.assertEqual(pprint.process_graph([x, y], [], {x: b}).splitlines()[-1], "x = (a * x)")
        self.assertRaises(TypeError, pprint, 3)
        self.assertEqual(PrinterState({"a": 1}, b=2).clone(b=3).__dict__, {"a": 1, "b": 3})
        self.assertEqual(PPrinter()(x + y), "add(x, y)")

    def test_tensors(self):
        import theano_ng.tensor as T

        m, v, i = T.dmatrix("m"), T.dvector("v"), T.iscalar("i")
        for variable, text in (
            (m + v, "(m + v)"),
            (T.dot(m, v), "(m \\dot v)"),
            (m.dimshuffle(1, 0), "m.T"),
            (T.exp(m).sum(), "Sum{acc_dtype=float64}(exp(m))"),
            (m.prod(0), "Prod{axis=(0,), dtype='float64', acc_dtype='float64'}(m)"),
            (m.max(0), "MaxAndArgmax{axis=(0,)}(m)"),
            (m.trace(), "Sum{acc_dtype=float64}(ExtractDiag{offset=0, axis1=0, axis2=1, view=False}(m))"),
            (T.nlinalg.trace(m), "Sum{acc_dtype=float64}(ExtractDiag{offset=0, axis1=0, axis2=1, view=False}(m))"),
            (T.extra_ops.diff(v), "DiffOp{n=1, axis=-1}(v)"),
            (T.nlinalg.svd(m)[1], "SVD{full_matrices=1, compute_uv=1}(m)"),
            (T.nnet.sigmoid(v) * T.nnet.softplus(v), "(sigmoid(v) * softplus(v))"),
            (T.nnet.ultra_fast_sigmoid(v.copy()), "ultra_fast_sigmoid(v)"),
            (v % 2, "mod(v, TensorConstant{2})"),
            (T.join(0, v, v), "join(TensorConstant{0}, v, v)"),
            (T.stack([v[0], T.cast(i, "float64")]), "[v[Constant{0}], float64(i)]"),
            (T.alloc(0.0, i, 2), "alloc(TensorConstant{0.0}, i, TensorConstant{2})"),
            (v.dimshuffle(0, "x"), "DimShuffle{0, x}(v)"),
            (m[0, 1:], "m[Constant{0}, Constant{1}:]"),
            (m[i, -1], "m[ScalarFromTensor(i), Constant{-1}]"),
            (T.dmatrix() * 2, "(<TensorType(float64, matrix)> * TensorConstant{2})"),
        ):
            self.assertEqual(pprint(variable), text)

    def test_long_chain(self):
        v = self.x
        for _ in range(100000):
            v = scalar.sin(v)
        self.assertEqual(pprint(v), "sin(" * 100000 + "x" + ")" * 100000)
        self.assertEqual(len(debugprint(v, depth=1000, file="str").splitlines()), 1000)


class TestDebugprint(unittest.TestCase):
    def setUp(self):
        self.x, self.y = float64("x"), float64("y")
        self.z = scalar.exp(self.x + self.y) * 2.0 - self.x

    def test_layout(self):
        expected = [
            "sub [id A] ''   ",
            " |mul [id B] ''   ",
            " | |exp [id C] ''   ",
            " | | |add [id D] ''   ",
            " | |   |x [id E]",
            " | |   |y [id F]",
            " | |Constant{2.0} [id G]",
            " |x [id E]",
        ]
        self.assertEqual(debugprint(self.z, file="str").splitlines(), expected)
        out = io.StringIO()
        self.assertIs(debugprint(self.z, file=out), out)
        self.assertEqual(out.getvalue().splitlines(), expected)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertIsNone(debugprint(self.z.owner))
        self.assertEqual(out.getvalue().splitlines(), expected)
        self.assertEqual(
            debugprint(self.z, depth=2, file="str").splitlines(),
            ["sub [id A] ''   ", " |mul [id B] ''   ", " |x [id C]"],
        )

    def test_repeats_names_types_outputs(self):
        a = self.x + self.y
        a.name = "a"
        b = a * a
        self.assertEqual(
            debugprint(b, file="str", print_type=True).splitlines(),
            [
                "mul [id A] <float64> ''   ",
                " |add [id B] <float64> 'a'   ",
                " | |x [id C] <float64>",
                " | |y [id D] <float64>",
                " |add [id B] <float64> 'a'   ",
            ],
        )
        self.assertEqual(
            debugprint(b, file="str", stop_on_name=True).splitlines(),
            ["mul [id A] ''   ", " |add [id B] 'a'   ", " |add [id B] 'a'   "],
        )
        one, two = TwoOutputs()(self.x)
        self.assertEqual(
            debugprint([two, one], file="str").splitlines(),
            ["TwoOutputs.1 [id A] ''   ", " |x [id B]", "TwoOutputs.0 [id A] ''   "],
        )
        self.assertEqual(debugprint(float64(), file="str", print_type=True), "<float64> [id A]\n")

    def test_identifiers(self):
        self.assertEqual(debugprint(-self.x, file="str", ids="int").splitlines(), ["neg [id 0] ''   ", " |x [id 1]"])
        self.assertEqual(debugprint(-self.x, file="str", ids="").splitlines(), ["neg  ''   ", " |x "])
        self.assertIn("[id %d]" % id(self.x), debugprint(self.x, file="str", ids="id"))
        self.assertRaises(ValueError, debugprint, self.x, ids="other")
        self.assertEqual([printing.char_from_number(k) for k in (0, 25, 26, 701)], ["A", "Z", "BA", "BAZ"])
        done, used = {}, {}
        node = scalar.neg(self.x)
        debugprint(node, file="str", done=done, used_ids=used)
        self.assertEqual(
            debugprint(node + self.y, file="str", done=done, used_ids=used).splitlines(),
            ["add [id C] ''   ", " |neg [id A] ''   ", " |y [id D]"],
        )

    def test_graph_with_order_and_clients(self):
        a = scalar.exp(self.x)
        fgraph = FunctionGraph([self.x], [a + scalar.sin(a)], clone=False)
        self.assertEqual(
            debugprint(fgraph, file="str", print_clients=True).splitlines(),
            # An identifier is assigned at its first use, which may be in a list of clients.
            [
                "add [id A] ''   2",
                " |exp [id B] ''   0 clients:[('[id C]', 1), ('[id A]', 2)]",
                " | |x [id D]",
                " |sin [id C] ''   1",
                "   |exp [id B] ''   0 clients:[('[id C]', 1), ('[id A]', 2)]",
            ],
        )
        self.assertEqual(
            debugprint(FunctionGraph([self.x], [a, -a]), file="str", print_clients=True).splitlines()[0],
            "exp [id A] ''   0 clients:[('[id B]', 1), ('output', '')]",
        )
        self.assertRaises(TypeError, debugprint, 3)

    def test_inner_graphs(self):
        from theano_ng.gof.op import ops_with_inner_function

        a = float64("a")

        class Loop(Op):
            __props__ = ()
            inputs, outputs, fn = [a], [scalar.exp(a) + 1.0], None

            def make_node(self, x):
                return Apply(self, [x], [x.type()])

        ops_with_inner_function[Loop] = "fn"
        try:
            text = debugprint(Loop()(self.x), file="str")
        finally:
            del ops_with_inner_function[Loop]
        self.assertEqual(
            text.splitlines(),
            [
                "Loop [id A] ''   ",
                " |x [id B]",
                "",
                "Inner graphs of the scan ops:",
                "",
                "Loop [id A] ''   ",
                " >add [id C] ''   ",
                " > |exp [id D] ''   ",
                " > | |a [id E] -> [id B]",
                " > |Constant{1.0} [id F]",
            ],
        )

    def test_compiled_function(self):
        import theano_ng as theano

        x = theano.tensor.dvector("x")
        linker = theano.gof.vm.VM_Linker(allow_gc=False, use_cloop=False)
        f = theano.function([x], -theano.tensor.exp(x), mode=theano.Mode(linker=linker, optimizer=None))
        self.assertEqual(
            debugprint(f, file="str").splitlines(),
            ["Elemwise{neg,no_inplace} [id A] ''   1", " |Elemwise{exp,no_inplace} [id B] ''   0", "   |x [id C]"],
        )
        f(np.zeros(2))
        # The storage still contains the intermediate result, but no longer the output, which the function returned.
        self.assertIn("[id B] ''   0 [array([1., 1.])]", debugprint(f, file="str", print_storage=True))


class TestStrings(unittest.TestCase):
    def test_min_informative_str(self):
        x, y = float64("x"), float64("y")
        self.assertEqual(min_informative_str((x + y) * x), "A. mul\n B. add\n  C. x\n  D. y\n <C>")
        self.assertEqual(min_informative_str(x, indent_level=2), "  A. x")

    def test_descriptors(self):
        def make():
            x = float64("x")
            return var_descriptor(scalar.exp(x + 2.0) * x)

        self.assertEqual(make(), make())
        x = float64("x")
        self.assertNotEqual(make(), var_descriptor(scalar.exp(x + 3.0) * x))
        self.assertEqual(position_independent_str(x), "theano_var{type=float64}")
        self.assertRaises(TypeError, position_independent_str, 3)
        a = np.arange(6.0).reshape(2, 3)
        self.assertEqual(hex_digest(a), hex_digest(a.copy()))
        self.assertEqual(len({hex_digest(a), hex_digest(a.T), hex_digest(a + 1), hex_digest(a.ravel())}), 4)


class TestPrint(unittest.TestCase):
    def test_output(self):
        x = float64("x")
        op = Print("value", attrs=("dtype", "__str__"))
        node = op(x).owner
        cell = [None]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            node.op.perform(node, [np.float64(3)], [cell])
        self.assertEqual(out.getvalue(), "value dtype = float64\nvalue __str__ = 3.0\n")
        self.assertEqual(cell[0], 3)
        self.assertEqual(pickle.loads(pickle.dumps(op)), op)
        self.assertEqual(Print("a", ["shape"]), Print("a", ("shape",)))
        self.assertEqual(op.grad([x], [x]), [x])
        self.assertEqual(op.R_op([x], [None]), [None])
        calls = []
        quiet = Print("m", global_fn=lambda op, value: calls.append((op.message, value)))
        quiet.perform(quiet(x).owner, [4], [cell])
        self.assertEqual(calls, [("m", 4)])


class TestPydot(unittest.TestCase):
    def setUp(self):
        try:
            import pydot  # noqa: F401, tests whether pydot is installed
        except ImportError:
            self.skipTest(printing.pydot_imported_msg)

    def draw(self, *args, **kwargs):
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()) as out:
            path = os.path.join(directory, "g.raw")
            kwargs.pop("function", printing.pydotprint)(*args, outfile=path, format="raw", **kwargs)
            self.assertEqual(out.getvalue(), "The output file is available at %s\n" % path)
            with open(path) as f:
                return f.read()

    @staticmethod
    def drawn():
        return scalar.exp(float64("x")) * 2.0

    def test_picture(self):
        x, y = float64("x"), float64("y")
        z = scalar.exp(x + y) * 2.0 - x
        text = self.draw(z)
        for part in (
            'label="add", shape=ellipse',
            'label="x float64", shape=box, style=filled, fillcolor="green"',
            'label="0 float64"',
            'fillcolor="dodgerblue2"',
            'label="val=2.0"',
        ):
            self.assertIn(part, text)
        self.assertEqual(text.count("shape=ellipse"), 4)
        self.assertEqual(text.count("shape=box"), 4)
        self.assertIn('label="x"', self.draw(z, var_with_name_simple=True))
        self.assertEqual(self.draw(z, compact=False).count("shape=box"), 7)
        self.assertIn('label="add id=0"', self.draw(z, with_ids=True))
        self.assertIn('fillcolor="pink"', self.draw(z, colorCodes={"Add": "pink"}))
        self.assertIn('color="green"', self.draw(z, high_contrast=False))
        self.assertEqual(self.draw(z, depth=1, function=printing.pydotprint_variables).count("shape=ellipse"), 1)
        self.assertIn("color=blue", self.draw(Print()(x)))
        self.assertIn('fillcolor="grey"', self.draw(FunctionGraph([x, y], [scalar.exp(x)], clone=True)))
        self.assertIn("...", self.draw(z, max_label_size=6))
        self.assertRaises(ValueError, printing.pydotprint, 3)

    def test_highlighting_without_branches(self):
        with self.assertLogs("theano_ng.printing", "WARNING") as logged:
            self.draw(self.drawn(), cond_highlight=True)
        self.assertEqual(
            [record.getMessage() for record in logged.records],
            ["pydotprint: cond_highlight is set but there is no IfElse node in the graph"],
        )

    def test_missing_programs(self):
        absent = {"pydot": None, "pydot_ng": None, "pydotplus": None}
        with unittest.mock.patch.dict(sys.modules, absent):
            self.assertFalse(printing.pydot_imported)
            with self.assertRaisesRegex(RuntimeError, "^Failed to import pydot. You must install graphviz and either"):
                printing.pydotprint(self.drawn())
        for path, found in ((None, False), ("/usr/bin/dot", True)):
            with unittest.mock.patch("shutil.which", return_value=path):
                self.assertEqual(printing.pydot_imported, found)

    def test_large_graphs_fit_a_screen(self):
        def layer(v, w):
            for _ in range(20):
                v = scalar.tanh(v * w)
            return scalar.exp(v) + w

        x = float64("x")
        hidden = x
        for i in range(5):
            hidden = layer(hidden, float64("w%d" % i))
        z = scalar.exp(hidden)
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()) as out:
            path = os.path.join(directory, "g.raw")
            printing.pydotprint(z, path, format="raw")
            with open(path) as f:
                text = f.read()
        said = "211 ops: 1 drawn one by one, 210 summed up in 2 boxes, by function or line of the program"
        self.assertIn(said, text)
        self.assertIn(said + "; most_ops=None draws everything", out.getvalue())
        self.assertIn("v = scalar.tanh(v * w)\\ntest_printing.py:", text)
        self.assertIn("200 ops: 100 mul, 100 tanh", text)
        self.assertIn("layer  (test_printing.py)", text)
        self.assertEqual((text.count("shape=folder"), text.count("shape=ellipse")), (2, 1))
        self.assertIn("2 more inputs", text)
        self.assertIn('size="19,10.5"', text)
        whole = [self.draw(z, **kwargs) for kwargs in ({"most_ops": None}, {"most_ops": 211}, {"cond_highlight": True})]
        self.assertEqual([text.count("shape=ellipse") for text in whole], [211] * 3)

    def test_large_graph_without_lines(self):
        z = float64("x")
        for _ in range(150):
            z = scalar.exp(z)
            z.tag.trace = []
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "g.raw")
            printing.pydotprint(z, path, format="raw", print_output_file=False)
            with open(path) as f:
                self.assertIn("without a line of the program\\n150 ops: 150 exp", f.read())

    @unittest.skipUnless(shutil.which("dot"), "pictures are drawn by Graphviz, whose program dot is not installed")
    def test_circles_of_boxes(self):
        # `one` and `two` use each other's results. Their boxes depend on each other, so one frame surrounds both boxes.
        def one(v):
            v = scalar.exp(v)
            return inner(v) * v

        def two(v):
            return inner(scalar.tanh(v)) + one(v)

        def inner(v):
            return scalar.sqr(v) + scalar.exp(v)

        z = float64("x")
        for _ in range(30):
            z = two(one(z)) - one(two(z))
            z = scalar.tanh(z)
        image = printing.pydotprint(z, format="png", return_image=True)
        self.assertEqual(image[:4], b"\x89PNG")
        width, height = struct.unpack(">II", image[16:24])
        self.assertLessEqual(width, 1830)
        self.assertLessEqual(height, 1010)


if __name__ == "__main__":
    unittest.main()
