"""Tests that the audit reports reference counts and memory that grow or shrink over many calls, and nothing else."""

import unittest

import numpy as np

from theano_ng import tensor
from theano_ng.audit import audit
from theano_ng.gof import Apply, Op
from theano_ng.gof.compiler.toolchain import find_toolchain


class Twice(Op):
    """The Op 2 * x, to which subclasses add an error."""

    __props__ = ()

    def make_node(self, x):
        x = tensor.as_tensor_variable(x)
        if x.type != tensor.dvector:
            raise TypeError("not a dvector")
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0] * 2
        self.after(node, inputs[0], output_storage[0][0])

    def after(self, node, x, z):
        pass


class InC(Twice):
    __props__ = ("body",)
    perform = Op.perform

    def __init__(self, body):
        self.body = body

    def c_code(self, node, name, inputs, outputs, sub):
        (x,) = inputs
        (z,) = outputs
        fail = sub["fail"]
        return (
            """
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject*)PyArray_NewLikeArray(%(x)s, NPY_CORDER, NULL, 0);
            if (!%(z)s) %(fail)s
            for (npy_intp i = 0; i < PyArray_DIM(%(x)s, 0); i++)
                *(double*)PyArray_GETPTR1(%(z)s, i) = 2 * *(double*)PyArray_GETPTR1(%(x)s, i);
        """
            % locals()
            + self.body % locals()
        )

    def c_code_cache_version(self):
        return (1,)


class KeepsInputs(Twice):
    def __init__(self):
        self.kept = []

    def after(self, node, x, z):
        self.kept.append(x)


class KeepsOutputs(KeepsInputs):
    def after(self, node, x, z):
        self.kept.append(z)


class KeepsLast(KeepsInputs):
    def after(self, node, x, z):
        self.kept[:] = [x, z]


class KeepsCycles(KeepsInputs):
    def after(self, node, x, z):
        cycle = [z]
        cycle.append(cycle)  # the garbage collector frees the cycle, so this is no leak


class KeepsText(KeepsInputs):
    def after(self, node, x, z):
        self.kept.append("x" * 500 + str(len(self.kept)))


class FailsAndKeeps(KeepsInputs):
    def after(self, node, x, z):
        if not len(x):
            self.kept.append(node)
            raise ValueError("empty")


def found(op, *checks):
    """Return a list of (error name, message) of the findings, and the findings themselves."""
    report = audit(op, np.arange(3.0), checks=checks, max_examples=1)
    return [(finding.error, finding.message) for finding in report.findings], report.findings


class TestPython(unittest.TestCase):
    def test_fine(self):
        for op in Twice(), KeepsLast(), KeepsCycles():
            self.assertEqual(found(op, "references", "memory")[0], [])

    def test_references(self):
        self.assertEqual(
            found(KeepsInputs(), "references")[0],
            [("ReferenceLeak", "perform keeps 1 reference to input 0 in each call")],
        )
        self.assertEqual(
            found(KeepsOutputs(), "references")[0],
            [("ReferenceLeak", "perform keeps 1 reference to output 0 in each call")],
        )
        (name_message,), (finding,) = found(FailsAndKeeps(), "references")
        self.assertEqual(
            name_message,
            ("ReferenceLeak", "perform keeps 1 reference to the node in each call that fails (ValueError)"),
        )
        self.assertIn("(0,)", finding.inputs[0])
        self.assertRegex(finding.location, r"test_leaks\.py:\d+$")

    def test_memory(self):
        ((error, message),), (finding,) = found(KeepsText(), "memory")
        self.assertEqual(error, "MemoryLeak")
        per_call = int(message.split()[2])
        self.assertTrue(540 <= per_call <= 600, message)  # each call keeps a string of 500 characters and some digits
        self.assertRegex(finding.evidence, r"allocated in .*test_leaks\.py:\d+: ")
        ((error, message),), _ = found(KeepsOutputs(), "memory")
        self.assertEqual((error, message.split()[:2]), ("MemoryLeak", ["perform", "leaks"]))


@unittest.skipIf(find_toolchain() is None, "no C++ compiler")
class TestC(unittest.TestCase):
    def test_fine(self):
        self.assertEqual(found(InC(""), "references", "memory")[0], [])

    def test_references(self):
        for body, name, message in (
            ("Py_INCREF(%(x)s);", "ReferenceLeak", "c_code keeps 1 reference to input 0 in each call"),
            ("Py_INCREF(%(z)s);", "ReferenceLeak", "c_code keeps 1 reference to output 0 in each call"),
            ("Py_DECREF(%(x)s);", "ReferenceUnderflow", "c_code releases 1 reference to input 0 too many in each call"),
            (
                "if (PyArray_SIZE(%(x)s) == 0) { Py_INCREF(%(x)s); Py_INCREF(%(x)s); %(fail)s }",
                "ReferenceLeak",
                "c_code keeps 2 references to input 0 in each call that fails (RuntimeError)",
            ),
        ):
            self.assertEqual(found(InC(body), "references")[0], [(name, message)])

    def test_memory(self):
        ((error, message),), (finding,) = found(
            InC("{ static char *volatile lost; lost = (char*)malloc(1000); }"), "memory"
        )
        self.assertEqual((error, message), ("MemoryLeak", "c_code leaks 1008 bytes in each call"))
        self.assertIn("mallinfo2", finding.evidence)


if __name__ == "__main__":
    unittest.main()
