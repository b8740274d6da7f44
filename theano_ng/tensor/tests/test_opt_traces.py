"""New nodes have the stack traces of the nodes that they replace."""

import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.compile.ops import Rebroadcast
from theano_ng.gof.fg import FunctionGraph
from theano_ng.tensor.opt import dimshuffle, incsubtensor, inplace, join, subtensor, take
from theano_ng.tensor.opt.lift import lifts
from theano_ng.tensor.subtensor import Subtensor


def functions_of(v):
    """Return the names of the functions in the stack traces of a variable."""
    return {frame[2] for trace in getattr(v.tag, "trace", []) for frame in trace}


def first_view(v):
    return v[1:]


def second_view(v):
    return v[::2]


def exponential(v):
    return T.exp(v)


def without_pattern(v):
    return T.unbroadcast(v, 0)


def joined(*vectors):
    return T.concatenate(vectors)


def first_increment(v):
    return T.inc_subtensor(v[1:], 1.0)


def second_increment(v):
    return T.inc_subtensor(v[:2], 2.0)


def total(*vectors):
    return T.add(*vectors)


def sine(v):
    return T.sin(v)


class TestTraces(unittest.TestCase):
    def test_lifted_views(self):
        """Views and functions whose order changes keep their own stack traces."""
        x = T.dvector("x")
        fgraph = FunctionGraph([x], [second_view(exponential(first_view(sine(x))))])
        lifts(Subtensor)(fgraph)
        (new,) = subtensor.local_subtensor_lift.transform(fgraph.outputs[0].owner)
        found, v = [], new
        while v.owner is not None:
            found.append(v)
            v = v.owner.inputs[0]
        made_by = ("exponential", "sine", "second_view", "first_view")
        self.assertEqual(len(found), len(made_by))
        for v, name in zip(found, made_by):
            self.assertIn(name, functions_of(v))

    def test_transposed_increments(self):
        """If a rule transposes the value that is written, the new DimShuffle has the stack trace of this value."""
        x, y, i = T.dmatrix("x"), T.dmatrix("y"), T.lvector("i")
        out = T.inc_subtensor(x.T[i], exponential(y)).T
        fgraph = FunctionGraph([x, y, i], [out])
        (new,) = take.local_take_along_axis.transform(fgraph.outputs[0].owner)
        value = new.owner.inputs[1]
        self.assertIsInstance(value.owner.op, T.DimShuffle)
        self.assertIn("exponential", functions_of(value))

    def test_rebroadcast_operands(self):
        """If Rebroadcast and a function change places, each node has the stack trace of the old node of its kind."""
        row = T.drow("row")
        fgraph = FunctionGraph([row], [without_pattern(exponential(row))])
        (new,) = dimshuffle.local_rebroadcast_lift.transform(fgraph.outputs[0].owner)
        (moved,) = new.owner.inputs
        self.assertIsInstance(moved.owner.op, Rebroadcast)
        self.assertIn("exponential", functions_of(new))
        self.assertIn("without_pattern", functions_of(moved))

    def test_views_of_operands(self):
        """The Subtensor of each operand has the stack traces of the old Subtensor and of the function."""
        x, y = T.dvectors("x", "y")
        fgraph = FunctionGraph([x, y], [second_view(total(x, y))])
        lifts(Subtensor)(fgraph)
        (new,) = subtensor.local_subtensor_lift.transform(fgraph.outputs[0].owner)
        for v in (new, *new.owner.inputs):
            self.assertIsNotNone(v.owner)
            for name in ("second_view", "total"):
                self.assertIn(name, functions_of(v), v)

    def test_what_is_left_of_joins(self):
        """The assertion about the lengths of empty constants has the stack trace of the join, also below a cast."""
        for dtype in ("float64", "float32"):
            x = T.matrix("x", dtype=dtype)
            fgraph = FunctionGraph([x], [joined(np.zeros((0, 3)), x)])
            (new,) = join.local_join_empty.transform(fgraph.outputs[0].owner)
            self.assertEqual(new.dtype, "float64")
            found = 0
            while new is not fgraph.inputs[0]:
                found += 1
                self.assertIn("joined", functions_of(new), new.owner)
                new = new.owner.inputs[0]
            self.assertEqual(found, 1 if dtype == "float64" else 2)

    def test_increments_in_a_row(self):
        """A moved increment has the traces of the old increment and of the sum."""
        x, y = T.dvectors("x", "y")
        fgraph = FunctionGraph([x, y], [total(first_increment(x), y, second_increment(x))])
        (new,) = incsubtensor.local_IncSubtensor_serialize.transform(fgraph.outputs[0].owner)
        for name in ("second_increment", "first_increment"):
            self.assertLessEqual({name, "total"}, functions_of(new))
            new = new.owner.inputs[0]
        self.assertEqual(new.owner.op, T.add)
        self.assertIn("total", functions_of(new))

    def test_joined_elements(self):
        """The merged vector of elements has the stack trace of the join."""
        v = T.dvector("v")
        fgraph = FunctionGraph([v], [joined(T.stack([v[0]]), T.stack([v[1], v[2]]), v)])
        (new,) = join.local_join_make_vector.transform(fgraph.outputs[0].owner)
        self.assertEqual(len(new.owner.inputs[1].owner.inputs), 3)
        self.assertIn("joined", functions_of(new.owner.inputs[1]))

    def test_work_in_place(self):
        """In-place nodes have the stack traces of the nodes that they replace.

        The optimizer itself copies the traces: in this test, a new node without a trace raises an error.
        """
        x, y = T.dvectors("x", "y")
        fgraph = FunctionGraph([x, y], [sine(exponential(x) + y)])
        optimizer = inplace.inplace_elemwise_optimizer
        optimizer.add_requirements(fgraph)
        with theano_ng.change_flags(check_stack_trace="raise"):
            optimizer.apply(fgraph)
        nodes = fgraph.toposort()
        self.assertTrue(nodes[-1].op.inplace_pattern)
        self.assertIn("sine", functions_of(nodes[-1].outputs[0]))

    def test_no_trace_gets_lost(self):
        """Functions compile with ``check_stack_trace=raise``: no new node lacks a stack trace."""
        x, v, i = T.dmatrix("x"), T.dvector("v"), T.lvector("i")
        with theano_ng.change_flags(check_stack_trace="raise", cache_graphs=False, on_opt_error="raise"):
            for out in (
                T.exp(T.sin(x)[1:] + 1)[::2],
                T.inc_subtensor(x.T[i], T.exp(x[:, :2]).T).T * 2,
                T.concatenate([T.stack([v[0]]), T.stack([v[1], v[2]]), v]),
                T.tanh(T.exp(v) * v + v),
            ):
                f = theano_ng.function([x, v, i], out, mode=Mode("py", "fast_run"), on_unused_input="ignore")
                plain = theano_ng.function([x, v, i], out, mode=Mode("py", None), on_unused_input="ignore")
                values = np.arange(9.0).reshape(3, 3), np.arange(3.0), [2, 0]
                np.testing.assert_allclose(f(*values), plain(*values))


if __name__ == "__main__":
    unittest.main()
