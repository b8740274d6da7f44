"""Tests that sparse Ops do not change the arrays of their arguments."""

import unittest

import numpy as np
import scipy.sparse

from theano_ng import sparse
from theano_ng.audit.driver import as_case
from theano_ng.audit.targets import Target
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.debugmode.errors import BadDestroyMap
from theano_ng.compile.function import function
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.sparse.tests.audit_cases import audit_cases
from theano_ng.tensor.type import TensorType


def reversed_lines(matrix):
    """Return an equal matrix in which the entries of each line are in reversed order."""
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(matrix.indptr, matrix.indptr[1:])])
    return type(matrix)((matrix.data[order], matrix.indices[order], matrix.indptr.copy()), shape=matrix.shape)


def halved_entries(matrix):
    """Return an equal matrix that stores two halves of each entry."""
    parts = np.repeat(matrix.data, 2) / 2, np.repeat(matrix.indices, 2), matrix.indptr * 2
    return type(matrix)(parts, shape=matrix.shape)


def bytes_of(value):
    """Return the bytes of an array, or of the arrays of a sparse matrix."""
    arrays = (value.data, value.indices, value.indptr) if scipy.sparse.issparse(value) else (np.asarray(value),)
    return [array.tobytes() for array in arrays]


class SortingSum(Op):
    """A wrong Op: SciPy's `sum_duplicates` sorts and merges the entries of the argument in place."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [TensorType(x.dtype, ())()])

    def perform(self, node, inputs, outputs):
        inputs[0].sum_duplicates()
        outputs[0][0] = np.asarray(inputs[0].data.sum())


class TestArguments(unittest.TestCase):
    def test_unsorted_entries_and_duplicates_stay(self):
        """Python and C code of all sparse Ops leave the entries of their arguments in their order."""
        runs = 0
        for case in audit_cases():
            target = Target(as_case(case))
            node, variables = target.base.node, target.base.variables
            overwritten = {i for places in (getattr(node.op, "destroy_map", None) or {}).values() for i in places}
            for change in (reversed_lines, halved_entries):
                for impl in ("py", "c"):
                    given = [change(slot.value) if slot.sparse else slot.value for slot in target.slots]
                    if any(value is None for value in given):
                        continue
                    values = target.base.values(given)
                    before = [bytes_of(value) for value in values]
                    storage = {v: [v.data] for v in node.inputs if v not in variables}
                    storage.update({v: [value] for v, value in zip(variables, values)})
                    storage.update({v: [None] for v in node.outputs})
                    try:
                        node.op.make_thunk(node, storage, {v: [True] for v in storage}, [], impl=impl)()
                    except (MethodNotDefined, NotImplementedError, TypeError, ValueError):
                        continue  # the Op has no such code, or refuses the values
                    runs += 1
                    for v, value, old in zip(variables, values, before):
                        if node.inputs.index(v) not in overwritten:
                            self.assertEqual(bytes_of(value), old, (case.name, impl, change.__name__))
        self.assertGreater(runs, 150)

    def test_debug_mode_detects_sorting(self):
        x = sparse.csr_matrix(dtype="float64")
        f = function([x], SortingSum()(x), mode=DebugMode(check_c_code=False))
        matrix = scipy.sparse.csr_matrix(np.array([[1.0, 2.0], [0.0, 3.0]]))
        self.assertEqual(f(matrix), 6.0)
        self.assertRaises(BadDestroyMap, f, reversed_lines(matrix))


if __name__ == "__main__":
    unittest.main()
