"""Tests of scalars given for 0-d inputs: the function receives what the Type's filter would return.

This also holds for scalars for which the function does not call the filter.
"""

import itertools
import re
import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.functions.inputs import quick_check
from theano_ng.configdefaults import config

TARGETS = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]
SCALARS = "?bBhHiIlLqQefd"


def edges():
    """Yield Python scalars around the limits of every dtype."""
    yield from (True, False, 0, 1, -1, 7, 0.0, -0.0, 1.0, -1.0, 0.5, 0.1, -2.5, 1e-3, 3.0, 1e300, 5e-324, 1e-40, 1e-8)
    yield from (float("inf"), -float("inf"), float("nan"))
    # limits of float16 and float32
    yield from (2.0**-24, 2.0**-25, 3 * 2.0**-25, 2.0**-14, 1023 * 2.0**-24, 65504.0, 65505.0, 65519.0, 65520.0)
    yield from (3.4028234663852886e38, 3.4028235677973366e38, 1 + 2.0**-10, 1 + 2.0**-11, 1 + 2.0**-23, 1 + 2.0**-24)
    for bits in (7, 8, 11, 16, 24, 31, 32, 53, 63, 64):
        for offset in (-1, 0, 1):
            yield from (2**bits + offset, -(2**bits) + offset, float(2**bits + offset), float(-(2**bits) + offset))


def values():
    for number in edges():
        yield number
        for code in SCALARS:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    array = np.asarray(number).astype(code) if type(number) is float else np.asarray(number, code)
                except (OverflowError, ValueError):
                    continue
            yield array[()]
            yield array


def outcome(give):
    """Return a pair of the outcome of `give()` and its warnings.

    The outcome consists of the properties of the value, or of the type and text of the exception.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = give()
            result = type(value), str(value.dtype), value.dtype.num, value.shape, value.tobytes(), value.flags.writeable
        except Exception as failure:
            # In the message of a function, the argument's name and the lines that created the input precede the message
            # of the Type. Remove this part.
            text = ", ".join(map(str, failure.args))
            result = type(failure), re.sub(r"^Bad input argument.*\n(Backtrace.*\n)?(\n?  .*\n)*", "", text)
    return result, [str(w.message) for w in caught]


class TestNumbers(unittest.TestCase):
    def compare(self, targets, downcasts, floatX="float64"):
        given = list(values())
        with config.change_flags(floatX=floatX):
            for target, allow_downcast in itertools.product(targets, downcasts):
                kind = T.TensorType(target, ())
                x = kind("x")
                f = theano.function(
                    [theano.In(x, allow_downcast=allow_downcast, borrow=True)],
                    theano.Out(x, borrow=True),
                    mode=theano.Mode("py", None),
                )
                for value in given:
                    ours = outcome(lambda: f(value))
                    theirs = outcome(lambda: kind.filter(value, allow_downcast=allow_downcast))
                    self.assertEqual(ours, theirs, (target, allow_downcast, floatX, type(value), value))

    def test_default(self):
        self.compare(TARGETS, [None])

    def test_allow_downcast(self):
        self.compare(TARGETS, [True, False])

    def test_float32(self):
        self.compare(["float16", "float32", "float64", "int32"], [None, False], "float32")

    def test_strict(self):
        for target in TARGETS:
            x = T.TensorType(target, ())("x")
            f = theano.function([theano.In(x, strict=True)], x, mode=theano.Mode("py", None))
            for value in (1, True, 1.0, np.dtype(target).type(1)):
                with self.assertRaises(TypeError):
                    f(value)
            self.assertEqual(f(np.ones((), target)), 1)

    def test_other_things(self):
        class Whole(int):
            pass

        class Real(float):
            pass

        class Scalar(np.float64):
            pass

        x = T.dscalar("x")
        f = theano.function([x], x)
        for value in (
            Whole(3),
            Real(3),
            Scalar(3),
            [3],
            (3,),
            np.ones(1),
            np.array([[3.0]]),
            np.array(3, ">i4"),
            np.array(3 + 0j),
            "3",
            np.ma.masked_array(3.0),
            np.longdouble(3),
            3 + 0j,
            10**400,
            b"3",
            np.datetime64(3, "s"),
        ):
            self.assertEqual(outcome(lambda: f(value)), outcome(lambda: x.type.filter(value)), type(value))

    def test_read_only_and_misaligned(self):
        x = T.dscalar("x")
        f = theano.function([x], x)
        frozen = np.asarray(3, "int32")
        frozen.flags.writeable = False
        shifted = np.frombuffer(b"\0" + np.int32(3).tobytes(), np.uint8)[1:].view("int32").reshape(())
        for value in (frozen, shifted):
            self.assertEqual(f(value), 3)

    def test_who_is_recognised(self):
        """A function calls the Type's filter only for scalars that do not fit the dtype of the input."""
        asked = []

        class Function(theano.compile.function_module.Function):
            def _filter(self, i, value):
                asked.append(value)
                return super()._filter(i, value)

        for target in TARGETS:
            x = T.TensorType(target, ())("x")
            maker = theano.compile.function_module.FunctionMaker(
                [theano.In(x)], [theano.Out(x)], mode=theano.compile.get_mode("FAST_RUN"), function_builder=Function
            )
            f = maker.create()
            fitting = [True, np.bool_(True), np.zeros((), target)]
            if target != "bool":
                fitting += [0, 1, 1.0, np.float64(1), np.float32(1), np.int64(1), np.uint8(1), np.int8(1)]
            for value in fitting:
                del asked[:]
                f(value)
                self.assertEqual(asked, [], (target, value))
            for value in [2**70, "1", [1], 2**54 + 1 if target != "uint64" and target != "int64" else 0.5]:
                del asked[:]
                outcome(lambda: f(value))
                self.assertEqual(asked, [value], (target, value))

    def test_types_that_only_know_themselves(self):
        """A function calls the filter for each scalar if the Type of the input is a subclass of TensorType.

        It also calls the filter for each scalar if the Type of the input refuses infinities.
        """

        class Positive(T.TensorType):
            def filter(self, data, strict=False, allow_downcast=None):
                data = super().filter(data, strict, allow_downcast)
                if not data > 0:
                    raise ValueError("not positive")
                return data

        x = Positive("float64", ())("x")
        f = theano.function([x], x + 1)
        self.assertEqual(f(1), 2)
        self.assertRaises(ValueError, f, -1)
        # The attribute is set on a new type, because all variables from `T.dscalar` share one type.
        finite = T.TensorType("float64", ())("finite")
        finite.type.filter_checks_isfinite = True
        f = theano.function([finite], finite + 1)
        self.assertIsNone(quick_check(f.input_storage[0]))
        self.assertRaises(ValueError, f, float("inf"))

    def test_defaults_and_names(self):
        x, n = T.fscalar("x"), T.lscalar("n")
        f = theano.function([x, theano.In(n, value=2)], x * n)
        self.assertEqual([f(3), f(3, 4), f(x=3), f(n=5, x=True), f(0.5)], [6, 12, 6, 5, 1])
        with self.assertRaisesRegex(TypeError, r"Bad input argument to theano function.* at index 1 \(0-based\)"):
            f(3, 0.5)


if __name__ == "__main__":
    unittest.main()
