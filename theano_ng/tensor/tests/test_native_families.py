"""What the native code of tensors declares to read."""

import importlib
import os
import unittest

import theano_ng.tensor.native
from theano_ng.gof.native import native_function
from theano_ng.gof.native_words import SCRATCH


class TestDeclarations(unittest.TestCase):
    def test_all(self):
        """Python can read what every function that ships declares, and scratch memory is asked for where it is wanted."""
        folder = os.path.dirname(theano_ng.tensor.native.__file__)
        families = sorted(name[:-2] for name in os.listdir(folder) if name.endswith(".c") and name != "alloc.c")
        found = {}
        for family in families:
            module = importlib.import_module("theano_ng.tensor.native." + family)
            for name in module.words:
                if hasattr(module, name):
                    found[family, name] = native_function("theano_ng.tensor.native.%s:%s" % (family, name)).record
        self.assertEqual(
            {key for key, record in found.items() if SCRATCH in record.offsets},
            {("elemwise", "elemwise"), ("reduce", "reduce_elemwise")},
        )
        # The words of the elementwise operation inside a reduction, by the same declaration.
        outer, inner = found["reduce", "reduce_elemwise"].row, found["elemwise", "elemwise"].row
        self.assertEqual(outer.offsets, inner.offsets)


if __name__ == "__main__":
    unittest.main()
