"""Run one node with its C code and with its Python code, for tests of Ops."""

import numpy as np

from theano_ng.gof.graph import Constant


def run_node(variable, values, impl):
    """Return the outputs of the node that computes `variable`.

    Parameters
    ----------
    variable : Variable
        An output of the node, whose inputs are keys of `values` or constants.
    values : dict
    impl : {"c", "py"}

    Returns
    -------
    list
    """
    node = variable.owner
    storage = {}
    for inp in node.inputs:
        storage[inp] = [inp.data if isinstance(inp, Constant) else values[inp]]
    for out in node.outputs:
        storage[out] = [None]
    computed = {v: [v not in node.outputs] for v in storage}
    thunk = node.op.make_thunk(node, storage, computed, [], impl=impl)
    thunk()
    return [storage[out][0] for out in node.outputs]


def check_node(test, variable, values, expected):
    """Check that C and Python code of a node give arrays with the expected dtype, shape and elements."""
    expected = expected if isinstance(expected, list) else [expected]
    for impl in ("c", "py"):
        for got, want in zip(run_node(variable, values, impl), expected):
            want = np.asarray(want)
            test.assertIsInstance(got, np.ndarray, impl)
            test.assertEqual((got.dtype, got.shape), (want.dtype, want.shape), impl)
            np.testing.assert_array_equal(got, want, err_msg=impl)
            test.assertEqual(got.dtype, variable.dtype)
