"""Tests of pickles that Theano 1.0.5 wrote: they load, compile, and give Theano's results.

Their origin is described in legacy_pickles/README.
"""

import io
import os
import pickle
import subprocess
import sys
import tarfile
import textwrap
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.function_module import Function
from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.configparser import change_flags
from theano_ng.gof.graph import Apply, Variable
from theano_ng.misc.pkl_utils import CompatUnpickler
from theano_ng.misc.tests.legacy_pickles import make

ARCHIVE = os.path.join(os.path.dirname(make.__file__), "pickles.tar.xz")
KINDS = ("0", "1", "2", "python2")
PYTHON = theano.Mode("py", "fast_compile")


def members():
    with tarfile.open(ARCHIVE) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}


def leaves(value):
    """Return the variables, Ops, types and values in lists, tuples and dictionaries, in order."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in leaves(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for one in value for leaf in leaves(one)]
    return [value]


class served:
    """A context manager: in its block, `theano` is this package, as after ``sys.modules["theano"] = theano_ng``."""

    def __enter__(self):
        self.before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "theano"}
        for name in self.before:
            del sys.modules[name]
        sys.modules["theano"] = theano

    def __exit__(self, *failure):
        for name in [name for name in sys.modules if name.partition(".")[0] == "theano"]:
            del sys.modules[name]
        sys.modules.update(self.before)


class TestPickles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.members = members()
        with change_flags(cxx=""):
            cls.fresh = make.build(theano)
        cls.names = list(cls.fresh)

    def data(self, name, kind):
        return make.as_python2(self.members[name + ".2"]) if kind == "python2" else self.members["%s.%s" % (name, kind)]

    def load(self, name, kind, plain=False):
        data, strings = self.data(name, kind), {"encoding": "latin1"} if kind == "python2" else {}
        if not plain:
            return CompatUnpickler(io.BytesIO(data), **strings).load()
        with served():
            return pickle.loads(data, **strings)

    def each(self, *names):
        for name in names:
            for kind in KINDS:
                with self.subTest(name, kind=kind):
                    yield self.load(name, kind), self.fresh[name], name

    def test_strings_of_python_2(self):
        """The pickles made for this test contain byte strings instead of text, as pickles of Python 2 do.

        Python 3 loads such pickles only with an encoding.
        """
        for name in self.names:
            data = self.data(name, "python2")
            self.assertNotIn(b"_codecs", data)
            kinds = {op.name for op, _, _ in make.pickletools.genops(data)}
            self.assertNotIn("BINUNICODE", kinds)
            self.assertIn("SHORT_BINSTRING", kinds)

    def test_variables_and_types(self):
        for loaded, fresh, _ in self.each("variables", "constants", "types"):
            self.assertEqual(len(loaded), len(fresh))
            for ours, theirs in zip(loaded, fresh):
                self.assertIs(type(ours), type(theirs))
                if not isinstance(ours, Variable):
                    self.assertEqual((ours, hash(ours), str(ours)), (theirs, hash(theirs), str(theirs)))
                    continue
                self.assertEqual((ours.type, ours.name, ours.owner), (theirs.type, theirs.name, None))
                if hasattr(theirs, "data"):
                    self.assertEqual(type(ours.data), type(theirs.data))
                    np.testing.assert_array_equal(ours.data, theirs.data)
                    self.assertEqual(getattr(ours.data, "dtype", None), getattr(theirs.data, "dtype", None))
                    self.assertEqual(ours.signature(), theirs.signature())

    def test_shared_variables(self):
        for loaded, fresh, _ in self.each("shared"):
            for ours, theirs in zip(loaded, fresh):
                self.assertIs(type(ours), type(theirs))
                self.assertEqual((ours.type, ours.name), (theirs.type, theirs.name))
                self.assertEqual(repr(ours.get_value()), repr(theirs.get_value()))
            w = loaded[0]
            f = theano.function([], w.sum(), updates=[(w, w + 1)], mode=PYTHON)
            before = w.get_value()
            f()
            np.testing.assert_array_equal(w.get_value(), before + 1)
            w.set_value(before)
            self.assertRaises(TypeError, w.set_value, np.zeros(3))

    def test_ops(self):
        for loaded, fresh, _ in self.each("ops"):
            for ours, theirs in zip(loaded, fresh):
                self.assertEqual((ours, hash(ours), str(ours)), (theirs, hash(theirs), str(theirs)))

    def test_graphs(self):
        """Every node of an unpickled graph runs, and the results equal those of Theano 1.0.5."""
        given = make.values()
        graphs = [name for name in self.names if isinstance(self.fresh[name], dict) and "inputs" in self.fresh[name]]
        self.assertEqual(len(graphs), 8)
        for loaded, fresh, name in self.each(*graphs):
            self.assertEqual([v.name for v in loaded["inputs"]], [v.name for v in fresh["inputs"]])
            f = theano.function(loaded["inputs"], loaded["outputs"], on_unused_input="ignore", mode=PYTHON)
            found = f(*[given[v.name] for v in loaded["inputs"]])
            with np.load(io.BytesIO(self.members[name + ".npz"])) as archive:
                wanted = [archive["arr_%d" % k] for k in range(len(archive.files))]
            self.assertEqual(len(found), len(wanted))
            for value, expected, output in zip(found, wanted, loaded["outputs"]):
                np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-12, err_msg=str(output))
                self.assertEqual(value.dtype, expected.dtype)

    def test_graphs_can_be_differentiated(self):
        given = make.values()
        for loaded, fresh, _ in self.each("networks"):
            slopes = []
            for graph in (loaded, fresh):
                m = graph["inputs"][0]
                slope = T.grad(graph["outputs"][0], m)
                slopes.append(
                    theano.function(graph["inputs"], slope, on_unused_input="ignore")(
                        given["m"], given["v"], given["x"]
                    )
                )
            np.testing.assert_allclose(*slopes)

    def test_functions(self):
        """Functions that are unpickled compute the results of Theano 1.0.5.

        Unpickling compiles the functions again. Functions that shared a container before pickling still share it.
        """
        with np.load(io.BytesIO(self.members["functions.npz"])) as archive:
            wanted = [archive["arr_%d" % k] for k in range(len(archive.files))]
        for loaded, fresh, _ in self.each("functions"):
            found = []
            for (f, calls), (g, _) in zip(loaded, fresh):
                self.assertIsInstance(f, Function)
                self.assertEqual((f.name, f.trust_input), (g.name, False))
                for arguments in calls:
                    output = f(*arguments)
                    output = [output[key] for key in sorted(output)] if isinstance(output, dict) else output
                    found += output if isinstance(output, list) else [output]
            self.assertEqual(len(found), len(wanted))
            for value, expected in zip(found, wanted):
                np.testing.assert_allclose(value, expected, rtol=1e-6)
            (add, _), (read, _), (nothing, _) = loaded[1], loaded[2], loaded[-1]
            add([1.0, 2.0, 3.0])
            np.testing.assert_array_equal(read(), 2 * add.get_shared()[0].get_value())
            nothing([0.0])
            np.testing.assert_array_equal(read(), [0, 0, 0])

    def test_functions_when_they_are_not_wanted(self):
        with change_flags(unpickle_function=False):
            self.assertEqual({f for f, _ in self.load("functions", "2")}, {None})

    def test_the_rest(self):
        for kind in KINDS:
            x, mode = T.dvector("x"), self.load("mode", kind)
            self.assertEqual(mode.provided_linker, "cvm")
            self.assertEqual(len(theano.function([x], T.exp(x) + 1 - 1, mode=mode).maker.fgraph.apply_nodes), 1)
            updates = self.load("updates", kind)
            self.assertEqual([v.name for v in updates], ["w", "b"])
            self.assertIsInstance(updates, theano.OrderedUpdates)
            graph, fresh = self.load("graph", kind), self.fresh["graph"]
            self.assertEqual(str(graph), str(fresh))
            graph.check_integrity()
            theano.gof.opt.MergeOptimizer().optimize(graph)
            self.assertEqual(str(self.load("scalars", kind)), str(self.fresh["scalars"]))

    def test_they_can_be_pickled_again(self):
        for name in ("shared", "networks", "other", "ops", "functions", "graph", "mode"):
            again = pickle.loads(pickle.dumps(self.load(name, "2"), 4))
            self.assertEqual(len(leaves(again)), len(leaves(self.fresh[name])))

    def test_plain_pickle(self):
        """If ``sys.modules["theano"]`` is this package, `pickle.loads` gives the same results as CompatUnpickler."""
        for name in self.names:
            for kind in ("0", "2"):
                with self.subTest(name, kind=kind):
                    ours, theirs = leaves(self.load(name, kind, plain=True)), leaves(self.load(name, kind))
                    self.assertEqual([type(one) for one in ours], [type(one) for one in theirs])
                    for one, other in zip(ours, theirs):
                        if isinstance(one, (Variable, Apply)):
                            self.assertEqual(one.type, other.type)
                        if isinstance(one, SharedVariable):
                            self.assertEqual(repr(one.container.storage[0]), repr(other.container.storage[0]))


class TestServed(unittest.TestCase):
    def test_imports(self):
        """One entry in sys.modules makes all imports of `theano` and its submodules find this package.

        No module is loaded twice, and no package loses a name.
        """
        code = """
            import sys, theano_ng
            sys.modules["theano"] = theano_ng
            import theano, theano.tensor as T, theano.tensor.sort, theano.tensor.var
            from theano import function, tensor
            from theano.tensor.nnet.nnet import softmax
            from theano.tensor.subtensor import Subtensor
            from theano.compile.function_module import Function
            import theano.misc.pkl_utils, theano.gof.opt
            import theano_ng.tensor.nnet, theano_ng.tensor as t
            from theano import sparse
            assert sparse is theano_ng.sparse
            assert theano is theano_ng and T is t is tensor is theano.tensor
            assert callable(T.sort) and callable(T.var)
            assert softmax is theano_ng.tensor.nnet.softmax and Subtensor is T.Subtensor
            assert type(function([], T.constant(1), mode=theano.Mode("py", None))) is Function
            twins = [n for n, m in sys.modules.items() if n.startswith("theano.") and m is not sys.modules["theano_ng" + n[6:]]]
            assert not twins, twins
            try:
                import theano.no_such_module
            except ImportError:
                print("ok")
            """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("ok\n", ""))


if __name__ == "__main__":
    unittest.main()
