"""Tests of zip archives that NumPy reads, of stripped pickles, and of pickles of Python 2."""

import io
import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.misc import pkl_utils


def dumped(obj, **kwargs):
    f = io.BytesIO()
    pkl_utils.dump(obj, f, **kwargs)
    f.seek(0)
    return f


class TestZip(unittest.TestCase):
    def test_members_have_the_names_of_shared_variables(self):
        foos = [theano.shared(i, name="foo") for i in range(3)]
        taken = theano.shared(np.arange(3), name="array_0")
        unnamed = theano.shared(np.array(9.0))
        array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        f = dumped((foos, taken, array, unnamed, array))
        with np.load(f) as members:
            self.assertEqual(list(members.keys()), ["foo", "foo_2", "foo_3", "array_0", "array_1", "array_2", "pkl"])
            self.assertEqual(members["foo_2"].tolist(), 1)
            np.testing.assert_array_equal(members["array_1"], array)
        f.seek(0)
        back, taken_back, a, unnamed_back, b = pkl_utils.load(f)
        self.assertEqual([v.get_value().tolist() for v in back], [0, 1, 2])
        self.assertEqual([v.name for v in back], ["foo"] * 3)
        self.assertEqual(taken_back.get_value().tolist(), [0, 1, 2])
        self.assertEqual(unnamed_back.get_value().tolist(), 9.0)
        self.assertIs(a, b)
        np.testing.assert_array_equal(a, array)

    def test_what_is_refused(self):
        self.assertRaises(ValueError, dumped, theano.shared(0, name="pkl"))
        strict = lambda **kwargs: lambda z: pkl_utils.PersistentSharedVariableID(z, **kwargs)
        self.assertRaises(
            ValueError,
            dumped,
            [theano.shared(0, "a"), theano.shared(1, "a")],
            persistent_id=strict(allow_duplicates=False),
        )
        self.assertRaises(ValueError, dumped, theano.shared(np.array(0)), persistent_id=strict(allow_unnamed=False))

    def test_numbered_arrays_objects_and_functions(self):
        objects = np.array(["text", None], dtype=object)
        f = dumped(
            (np.arange(2), objects, T.dscalar("x") + 1, np.random.RandomState(3)),
            persistent_id=pkl_utils.PersistentNdarrayID,
        )
        numbers, texts, expression, rng = pkl_utils.load(f)
        self.assertEqual((numbers.tolist(), texts.tolist()), ([0, 1], ["text", None]))
        self.assertEqual(theano.pp(expression), "(x + TensorConstant{1})")
        self.assertEqual(rng.rand(), np.random.RandomState(3).rand())
        w = theano.shared(np.arange(2.0), name="w")
        g = pkl_utils.load(dumped(theano.function([], w * 2, updates=[(w, w + 1)])))
        self.assertEqual([g().tolist(), g().tolist()], [[0, 2], [2, 4]])


class TestStripPickler(unittest.TestCase):
    def test_tags_are_stripped_in_the_pickle_only(self):
        x = T.vector("x")
        w = theano.shared(np.ones(2, theano.config.floatX), name="w")
        x.tag.test_value = np.zeros(50000, theano.config.floatX)
        x.tag.roles, x.tag.kept = "input", "kept"
        y = x
        for _ in range(3000):
            y = T.tanh(y)
        y = T.dot(y, w)
        for protocol in (0, -1):
            f = io.BytesIO()
            pkl_utils.StripPickler(f, protocol, extra_tag_to_remove=["roles"]).dump(
                dict(inputs=[x], outputs=y, updates=[(w, w * 2)])
            )
            back = pickle.loads(f.getvalue())
            tag = back["inputs"][0].tag.__dict__
            self.assertEqual(
                (tag.get("kept"), "roles" in tag, "test_value" in tag, "trace" in tag), ("kept", False, False, False)
            )
            self.assertFalse(hasattr(back["outputs"].tag, "trace"))
        self.assertEqual((x.tag.roles, len(x.tag.test_value)), ("input", 50000))
        self.assertTrue(hasattr(y.tag, "trace"))
        small = pickle.loads(f.getvalue())
        small["outputs"] = small["outputs"].owner.inputs[1] * 3
        g = theano.function([], small["outputs"], updates=small["updates"])
        self.assertEqual([g().tolist(), g().tolist()], [[3, 3], [6, 6]])


class TestCompatUnpickler(unittest.TestCase):
    def test_array_pickled_by_python_2(self):
        # pickle.dumps((numpy.array([1., 2.]), numpy.float64(3.))) of Python 2, protocol 2
        text = (
            b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03(K\x01K\x02\x85"
            b"cnumpy\ndtype\nq\x04U\x02f8K\x00K\x01\x87Rq\x05(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x10"
            + np.array([1.0, 2.0]).tobytes()
            + b"tbcnumpy.core.multiarray\nscalar\nq\x06h\x05U\x08"
            + np.array(-3.0).tobytes()
            + b"\x86R\x86."
        )
        array, scalar = pkl_utils.CompatUnpickler(io.BytesIO(text), encoding="latin1").load()
        self.assertEqual(array.tolist(), [1.0, 2.0])
        self.assertEqual(float(scalar), -3.0)


if __name__ == "__main__":
    unittest.main()
