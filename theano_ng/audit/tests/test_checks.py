"""Tests that the checks of the audit accept correct Ops of the package, and report Ops that are wrong in one way."""

import os
import signal
import unittest
from itertools import count
from types import SimpleNamespace
from unittest import mock

import numpy as np

import theano_ng as theano
from theano_ng import scalar
from theano_ng import tensor as T
from theano_ng.audit import CHECKS, NAMES, Case, assert_audit, audit, context, run
from theano_ng.audit.driver import select
from theano_ng.audit.problems import Reject
from theano_ng.audit.targets import Target, location_of
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.misc.doubleop import DoubleOp
from theano_ng.tensor.elemwise import CAReduce, Elemwise

MATRIX, ROW = np.arange(12.0).reshape(3, 4) / 7, np.arange(4.0).reshape(1, 4)
PYTHON = [check.name for check in select(sanitize=False, leaks=False)]


class Half(Op):
    """A correct Op of one float tensor. Some of its subclasses are wrong in one way."""

    __props__ = ()

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.dtype not in ("float32", "float64"):
            raise TypeError("not float")
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] * inputs[0].dtype.type(0.5))

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, grads):
        return [grads[0] * np.float32(0.5)]

    def R_op(self, inputs, points):
        return [points[0] * np.float32(0.5)]


class DiesOnEmpty(Half):
    def perform(self, node, inputs, outputs):
        if inputs[0].shape[0] == 0:
            os.kill(os.getpid(), signal.SIGABRT)
        super().perform(node, inputs, outputs)


class OneShapeForAll(Half):
    def infer_shape(self, node, shapes):
        return [(shapes[0][0],) * len(shapes[0])]


class GradOfTwo(Half):
    def grad(self, inputs, grads):
        return [grads[0] * 2]


class WithCode(Half):
    """A wrong Op: its C code rounds to float32."""

    def c_code(self, node, name, inputs, outputs, sub):
        x, z = inputs[0], outputs[0]
        return """
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject *)PyArray_NewLikeArray(%(x)s, NPY_CORDER, NULL, 0);
            if (!%(z)s || PyArray_CopyInto(%(z)s, %(x)s) < 0) %(fail)s
            for (npy_intp i = 0; i < PyArray_SIZE(%(z)s); i++)
                ((dtype_%(x)s *)PyArray_DATA(%(z)s))[i] = %(kind)s(PyArray_DATA(%(z)s) ? ((dtype_%(x)s *)PyArray_DATA(%(z)s))[i] * .5 : 0);
        """ % dict(x=x, z=z, fail=sub["fail"], kind=self.kind)

    kind = "(npy_float32)"

    def c_code_cache_version(self):
        return (1, self.kind)


class RightCode(WithCode):
    kind = "(npy_float64)"


class RefusesLess(RightCode):
    """A wrong Op: `perform` refuses empty inputs, but the C code accepts them."""

    def perform(self, node, inputs, outputs):
        if inputs[0].size == 0:
            raise ValueError("nothing there")
        super().perform(node, inputs, outputs)


class DoesNotCompile(RightCode):
    kind = "no_such_type"


class Scaled(Half):
    """A wrong Op: instances with different factors are equal."""

    __props__ = ("shift",)

    def __init__(self, factor, shift=0):
        self.factor, self.shift = factor, shift

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] * inputs[0].dtype.type(self.factor))


class TestRight(unittest.TestCase):
    def check(self, case, **options):
        report = audit(case, **dict(dict(max_examples=15, sanitize=False, leaks=False), **options))
        self.assertEqual([(f.check, f.error, f.message, f.inputs) for f in report.findings], [])
        return {verdict.check: verdict for verdict in report.verdicts}

    def test_in_python(self):
        verdicts = self.check(Case(Half(), [MATRIX]))
        self.assertEqual(list(verdicts), PYTHON)
        self.assertEqual(
            {name for name, v in verdicts.items() if v.status == "skipped"},
            {"cache_version", "c_code", "connection_pattern"},
        )
        for name in ("perform", "infer_shape", "grad", "R_op"):
            self.assertGreater(verdicts[name].examples, 20)

    def test_in_c(self):
        self.check(Case(RightCode(), [MATRIX]), checks="cache_version,c_code,mutation")

    def test_of_the_package(self):
        self.check(Case(DoubleOp(), [MATRIX]))
        self.check(Case(T.add, [MATRIX, ROW]), checks="perform,c_code,grad,R_op")
        self.check(
            Case(T.blas.gemm_no_inplace, [MATRIX[:, :3], np.array(2.0), MATRIX, MATRIX.T, np.array(0.5)]),
            max_examples=5,
            checks="c_code,infer_shape,grad",
        )
        self.check(
            Case(lambda x, i: x[i], [MATRIX, np.array([2, 0])], name="take"),
            checks="perform,c_code,connection_pattern,grad",
        )

    def test_types_are_enough(self):
        self.check(Case(Half(), [T.fmatrix]), checks="perform,grad")

    def test_run(self):
        reports = run([Case(DoubleOp(), [MATRIX]), Case(Half(), [ROW])], checks="props,maps")
        self.assertEqual([(r.case, r.ok, len(r.verdicts)) for r in reports], [("DoubleOp", True, 2), ("Half", True, 2)])


class TestWrong(unittest.TestCase):
    def finding(self, op, check, **options):
        report = audit(op, MATRIX, checks=[check], max_examples=15, **options)
        self.assertEqual(len(report.findings), 1, report)
        found = report.findings[0]
        self.assertIn(found.error, NAMES)
        self.assertEqual(found.check, check)
        return found

    def test_infer_shape(self):
        found = self.finding(OneShapeForAll(), "infer_shape")
        self.assertEqual(found.error, "BadInferShape")
        self.assertRegex(found.message, r"output 0 has shape \(0, 1\), but the inferred shape is \(0, 0\)")
        self.assertRegex(found.inputs[0], r"float64, matrix\) \(0, 1\) C: \[\]")
        self.assertRegex(found.location, r"test_checks.py:\d+$")

    def test_grad(self):
        found = self.finding(GradOfTwo(), "grad")
        self.assertEqual(found.error, "BadGradient")
        self.assertIn("finite differences give", found.message)

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_c_code(self):
        found = self.finding(WithCode(), "c_code")
        self.assertEqual(found.error, "BadThunkOutput")
        self.assertIn("perform and C code give different values", found.message)
        self.assertIn("thunk2", found.evidence)

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_refusals(self):
        found = self.finding(RefusesLess(), "c_code")
        self.assertEqual(found.error, "PythonCDisagree")
        self.assertIn("perform refuses inputs that C code accepts: ValueError: nothing there", found.message)

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_compile_error(self):
        found = self.finding(DoesNotCompile(), "c_code")
        self.assertEqual(found.error, "CompileError")
        self.assertIn("no_such_type", found.evidence)

    def test_equality(self):
        found = self.finding(Scaled(3.0), "props")
        self.assertEqual(found.error, "BadEquality")
        self.assertIn("built with factor=", found.message)

    @unittest.skipUnless(hasattr(os, "fork"), "processes are not forked on this system")
    def test_crash(self):
        found = self.finding(DiesOnEmpty(), "perform")
        self.assertEqual((found.error, found.message), ("Crash", "the process died: signal SIGABRT"))
        self.assertRegex(found.inputs[0], r" \(0, ")

    def test_same_report_again(self):
        self.assertEqual(self.finding(GradOfTwo(), "grad", seed=3), self.finding(GradOfTwo(), "grad", seed=3))


class TestOptions(unittest.TestCase):
    def test_skip(self):
        report = audit(Case(GradOfTwo(), [MATRIX], skip={"grad": "clipped"}), checks="grad")
        self.assertEqual([(v.status, v.reason) for v in report.verdicts], [("skipped", "clipped")])
        with self.assertRaisesRegex(ValueError, "there is no check 'gradient'; the checks are: make_node"):
            audit(Case(GradOfTwo(), [MATRIX], skip={"gradient": "clipped"}), checks="grad")

    def test_tolerance(self):
        self.assertTrue(audit(Case(GradOfTwo(), [MATRIX], tolerance=2.0), checks="grad").ok)

    def test_computed_inputs(self):
        """`make_node` accepts an input of the Op that the callable of a case computes from the inputs of the case.

        In the test, this input is the shape for Reshape. `make_node` finds from its graph that a length is always 1.
        """
        case = Case(lambda x: T.reshape(x, [x.shape[0] * x.shape[1], T.shape(x)[2]]), [MATRIX.reshape(4, 3, 1)])
        report = audit(case, checks="make_node,output_types")
        self.assertEqual((report.op, report.findings), ("Reshape{2}", []))

    def test_tied(self):
        case = Case(RefusesLess(), [MATRIX], tied=lambda values: values[0].size > 0)
        self.assertTrue(audit(case, checks="perform", max_examples=5).ok)

    def test_progress(self):
        seen = []
        audit(DoubleOp(), MATRIX, checks="props,maps", progress=lambda *event: seen.append(event))
        self.assertEqual(
            [(e[:4], e[4] is None) for e in seen],
            [
                (("DoubleOp", "props", 0, 2), True),
                (("DoubleOp", "props", 1, 2), False),
                (("DoubleOp", "maps", 1, 2), True),
                (("DoubleOp", "maps", 2, 2), False),
            ],
        )

    def test_time_limit(self):
        """A check ends when its time limit has passed.

        A fake clock advances by one second at each reading.
        """
        clock = SimpleNamespace(perf_counter=count().__next__)
        examples = []
        for limit in (100, 300):
            with mock.patch.object(context, "time", clock):
                report = audit(DoubleOp(), MATRIX, checks="perform", max_examples=100000, time_limit=limit)
            self.assertEqual(report.findings, [])
            examples.append(report.verdicts[0].examples)
        self.assertTrue(10 < examples[0] <= 100 < examples[1] <= 300, examples)

    def test_search_after_the_time_limit(self):
        """A check tries some examples even if its preparation took longer than the time limit.

        The check ends when an example is accepted, or after 20 rejected examples.
        """
        tried = []

        def reject_some(example):
            tried.append(example)
            if len(tried) < needed:
                raise Reject()

        for needed, outcome in ((1, ("ok", 1)), (5, ("ok", 1)), (1000, ("skipped", 0))):
            late = context.Context(Target(Case(DoubleOp(), [MATRIX])), "sanitizer", limit=0)
            self.assertLess(late.seconds_left(), 0)
            tried.clear()
            verdict = late.find(reject_some)
            self.assertEqual((verdict.status, verdict.examples), outcome)
            self.assertEqual(len(tried), min(needed, 20))

    def test_assert_audit(self):
        assert_audit(DoubleOp(), MATRIX, checks="props")
        with self.assertRaisesRegex(AssertionError, "BadGradient"):
            assert_audit(GradOfTwo(), MATRIX, checks="grad")

    def test_location_in_scalar_op(self):
        class Fivefold(scalar.UnaryScalarOp):
            def impl(self, x):
                return 5 * x

        op, first = Elemwise(Fivefold(scalar.same_out)), Fivefold.impl.__code__.co_firstlineno
        lines = [location_of(op, method).rpartition(":")[2] for method in ("perform", "c_code", "grad")]
        self.assertEqual(lines, [str(first), str(first - 1), str(first - 1)])
        self.assertIn("careduce.py", location_of(CAReduce(scalar.add), "infer_shape"))
        self.assertIn("ops_arith.py", location_of(CAReduce(scalar.add), "c_code"))

    def test_lazy_name(self):
        self.assertIs(theano.audit.audit, audit)

    def test_checks_have_meanings(self):
        self.assertEqual(len({check.name for check in CHECKS}), len(CHECKS))
        self.assertTrue(all(check.meaning for check in CHECKS))


if __name__ == "__main__":
    unittest.main()
