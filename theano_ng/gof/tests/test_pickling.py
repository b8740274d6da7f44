"""Tests of pickles of graphs: no recursion, linear growth, several picklers at the same time."""

import copy
import gc
import io
import pickle
import pickletools
import unittest
import unittest.mock
import weakref

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import pickling
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import inputs as graph_inputs
from theano_ng.gof.graph import io_toposort
from theano_ng.misc.pkl_utils import StripPickler

DEEP = 3000  # three times Python's recursion limit of 1000


def chain(length, start=None):
    """Return a list of all variables of a chain, from the input to the output."""
    variables = [T.dvector("x") if start is None else start]
    for _ in range(length):
        variables.append(T.tanh(variables[-1]))
    return variables


def length(variable):
    """Return the number of nodes of a chain."""
    return len(io_toposort([], [variable]))


class Refuses:
    """An object that cannot be pickled."""

    def __reduce__(self):
        raise pickle.PicklingError("no")


class Notes:
    """An object that records the thresholds of the garbage collector when it is unpickled."""

    seen = []

    def __setstate__(self, state):
        Notes.seen.append(gc.get_threshold())

    def __getstate__(self):
        return "something"


class TestGrowth(unittest.TestCase):
    def assert_linear(self, make, most):
        """Check that the numbers of opcodes and bytes grow at most linearly with the graph.

        There must be fewer than `most` bytes per node.
        """
        found = []
        for n in (200, 800):
            written = pickle.dumps(make(n), pickle.HIGHEST_PROTOCOL)
            found.append((len(written) / n, sum(1 for _ in pickletools.genops(written)) / n))
        (few_bytes, few_codes), (many_bytes, many_codes) = found
        self.assertLess(many_bytes, min(most, 1.2 * few_bytes))
        self.assertLess(many_codes, 1.05 * few_codes)

    def test_one_variable(self):
        self.assert_linear(lambda n: chain(n)[-1], 200)

    def test_many_variables_of_one_graph(self):
        self.assert_linear(lambda n: chain(n), 220)
        self.assert_linear(lambda n: [v.owner for v in chain(n)[1:]], 220)
        self.assert_linear(lambda n: {"last": chain(n)[-1], "all": dict.fromkeys(chain(n))}, 400)

    def test_graphs_that_share_a_trunk(self):
        def make(n):
            trunk = chain(n)[-1]
            return [T.exp(trunk) + k for k in range(n)]

        self.assert_linear(make, 1000)

    def test_defaults_of_shared_variables(self):
        def make(n):
            cost = T.dscalar()
            parameters = [theano.shared(float(k)) for k in range(n)]
            for p in parameters:
                cost = T.tanh(cost * p)
            for p in parameters:
                p.default_update = p - cost
            return cost

        self.assert_linear(make, 1500)
        cost = pickle.loads(pickle.dumps(make(3)))
        parameters = [v for v in graph_inputs([cost]) if hasattr(v, "get_value")]
        self.assertEqual(
            [(p.get_value().tolist(), str(p.default_update.owner.op)) for p in parameters],
            [(float(k), "Elemwise{sub,no_inplace}") for k in range(3)],
        )
        for p in parameters:
            self.assertEqual([v is w for v, w in zip(p.default_update.owner.inputs, (p, cost))], [True, True])

    def test_fgraphs(self):
        def make(n):
            variables = chain(n)
            return FunctionGraph([variables[0]], [variables[-1]])

        self.assert_linear(make, 350)
        # If variables are pickled together with their FunctionGraph, the pickle contains each variable only once.
        self.assert_linear(lambda n: (lambda fgraph: (fgraph, list(fgraph.variables)))(make(n)), 400)

    def test_stack_levels_are_written_once(self):
        variables = [T.exp(T.dscalar()) for _ in range(200)]
        written = pickle.dumps(variables, pickle.HIGHEST_PROTOCOL)
        self.assertEqual(written.count(b"test_stack_levels_are_written_once"), 1)
        for variable, loaded in zip(variables, pickle.loads(written)):
            self.assertEqual(loaded.tag.trace, variable.tag.trace)
        self.assertIn("test_pickling.py", pickle.loads(written)[0].tag.trace[0][-1][0])


class TestPicklers(unittest.TestCase):
    """Tests of several picklers that are used alternately. Each pickler must write all objects into its own stream."""

    def test_in_turns(self):
        variables = chain(DEEP)
        streams = [io.BytesIO() for _ in range(3)]
        picklers = [pickle.Pickler(stream, 4) for stream in streams[:2]] + [StripPickler(streams[2], 4)]
        for wanted in (
            variables[DEEP // 3],
            variables[-1],
            variables[DEEP // 2],
            variables[-1].owner,
            chain(DEEP, variables[-1])[-1],
        ):
            for pickler in picklers:
                pickler.dump(wanted)
        for stream in streams:
            stream.seek(0)
            unpickler = pickle.Unpickler(stream)
            third, whole, half, node, twice = (unpickler.load() for _ in range(5))
            self.assertEqual([length(v) for v in (third, whole, half, twice)], [DEEP // 3, DEEP, DEEP // 2, 2 * DEEP])
            self.assertIs(whole.owner, node)

    def test_a_memo_that_is_cleared(self):
        y = chain(DEEP)[-1]
        stream = io.BytesIO()
        pickler = pickle.Pickler(stream, 2)
        for _ in range(2):
            pickler.dump(y)
            pickler.clear_memo()
        stream.seek(0)
        self.assertEqual([length(pickle.load(stream)) for _ in range(2)], [DEEP, DEEP])

    def test_python_pickler(self):
        y = chain(DEEP)[-1]
        stream = io.BytesIO()
        pickle._Pickler(stream, 4).dump([y, y.owner.inputs[0]])
        loaded, before = pickle.loads(stream.getvalue())
        self.assertEqual(length(loaded), DEEP)
        self.assertIs(loaded.owner.inputs[0], before)

    def test_after_a_failure(self):
        variables = chain(DEEP)
        variables[DEEP // 2].tag.note = Refuses()
        failed = []  # keeps the picklers alive
        for kind in (pickle.Pickler, pickle._Pickler):
            failed.append(kind(io.BytesIO(), 4))
            self.assertRaisesRegex(pickle.PicklingError, "no", failed[-1].dump, variables[-1])
        del variables[DEEP // 2].tag.note
        self.assertEqual(length(pickle.loads(pickle.dumps(variables[-1]))), DEEP)

    def test_nothing_is_kept(self):
        y = chain(10)[-1]
        node = weakref.ref(y.owner)
        pickle.dumps(y)
        y.__reduce_ex__(4)
        self.assertIsNone(pickling._state.list_at_work())
        del y
        gc.collect()
        self.assertIsNone(node())

    def test_after_a_failure_of_memory(self):
        def fails(ends):
            raise MemoryError

        y = chain(10)[-1]
        with unittest.mock.patch.object(pickling, "_End", fails):
            self.assertRaises(MemoryError, pickle.dumps, y)
        self.assertIsNone(pickling._state.list_at_work())
        self.assertFalse(pickling._state.is_covered(y.owner))

    def test_collector(self):
        thresholds = gc.get_threshold()
        y = chain(10)[-1]
        y.tag.note = Notes()
        written = pickle.dumps(y)
        Notes.seen = []
        loaded = pickle.loads(written)
        self.assertEqual(gc.get_threshold(), thresholds)
        self.assertGreater(Notes.seen[0][0], thresholds[0])
        with self.assertRaises(Exception):
            pickle.loads(written[:-20])
        self.assertEqual(gc.get_threshold(), thresholds)
        self.assertEqual(length(loaded), 10)

    def test_a_graph_that_changes_between_dumps(self):
        x = T.dvector("x")
        y = T.tanh(T.exp(x))
        stream = io.BytesIO()
        pickler = pickle.Pickler(stream, 4)
        pickler.dump(y)
        top = T.tanh(chain(DEEP, y)[-1])
        pickler.dump(top)
        stream.seek(0)
        unpickler = pickle.Unpickler(stream)
        first, second = unpickler.load(), unpickler.load()
        self.assertEqual((length(first), length(second)), (2, DEEP + 3))
        self.assertIn(first, io_toposort([], [second])[1].outputs)


class TestCopies(unittest.TestCase):
    def test_deep(self):
        variables = chain(DEEP)
        twins = copy.deepcopy(variables)
        self.assertEqual(length(twins[-1]), DEEP)
        self.assertTrue(set(twins).isdisjoint(variables))
        fgraph = FunctionGraph([variables[0]], [variables[-1]])
        for twin in (copy.deepcopy(fgraph), pickle.loads(pickle.dumps(fgraph)), fgraph.clone()):
            twin.check_integrity()
            self.assertEqual(len(twin.apply_nodes), DEEP)


if __name__ == "__main__":
    unittest.main()
