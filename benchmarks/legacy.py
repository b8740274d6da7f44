"""Compare the types, shapes, values and exceptions of expressions in this package and in Theano 1.0.

    python benchmarks/legacy.py /path/to/python3.8            # an interpreter that can `import theano`
    python benchmarks/legacy.py /path/to/python3.8 reductions # one group

Each case is an expression of one operation on inputs of certain dtypes. It is built and run in both interpreters,
without rewriting and without C. Differences without a reason in `REASONS` are printed, and make the exit status 1.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool",) + INTEGERS + FLOATS + COMPLEX

UNARY = """abs_ neg sgn exp exp2 expm1 log log2 log10 log1p sqr sqrt inv ceil floor trunc iround round rad2deg deg2rad sin cos tan
arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh erf erfc erfinv erfcinv gamma gammaln psi real imag conj angle invert
isnan isinf zeros_like ones_like identity_like nonzero argsort sort shape""".split()
BINARY = """add sub mul true_div int_div floor_div mod pow maximum minimum eq neq lt le gt ge and_ or_ xor arctan2 power
clip switch complex complex_from_polar isclose allclose dot outer tensordot""".split()
NNET = "sigmoid ultra_fast_sigmoid hard_sigmoid softplus softmax logsoftmax relu elu selu softsign".split()
REDUCTIONS = "sum prod max min argmax argmin all any mean var std cumsum cumprod max_and_argmax ptp".split()

# Intended differences. A key is a regular expression for "case | answer of Theano 1.0 -> answer of the package". The
# value is the reason.
REASONS = {
    r"\| error (compiling|calling) \w+ -> error building": (
        "an expression that cannot be computed is refused when the graph is built"
    ),
    r"\| error calling ValueError -> value TensorType\(u?int": (
        "the Python code raises integers to negative powers as the C code of both packages does"
    ),
    r"(int_div|floor_div|mod)\(bool, bool\)": "quotients of bools are int8, as in NumPy",
    r"(int_div|floor_div).*complex": "complex numbers have no integer quotients, as in NumPy",
    r"(int_div|floor_div|mod)\(u?int\d+, bool\)": "division of integers by zero raises an error, in Python code too",
    r"(int_div|floor_div)\(float\d+, bool\)": "a float divided by zero is infinite, as in NumPy 2",
    r"\b(and_|or_|xor)\(.* -> value": "bools and integers can be combined, as in NumPy",
    r"\b(and_|or_|xor)\(": "bitwise operations on signed integers with uint64 are refused when the graph is built",
    r"\b(isclose|allclose)\(.*error building TypeError -> value": "isclose and allclose accept integers, too",
    r"arctan2\(float16|complex_from_polar|\bangle\(|softplus\(bool\)|unary: gamma\(": (
        "results are as accurate as their dtype allows; gamma at its poles is that of SciPy"
    ),
    r"pow(er)?\(bool, complex": "0 to the power of a complex number, as in NumPy 2",
    r"broadcasting: join\(.*IndexError -> error building TypeError": (
        "both packages refuse the argument, with different kinds of exceptions"
    ),
    r"(_dot22scalar|MakeVector\(\))\(.*error building AttributeError -> value": (
        "scalars, and integers of different dtypes, are accepted"
    ),
    r"broadcasting: grad of (inc|alloc)\(.*TensorType": (
        "the gradient has the shape of the repeated array, also if this shape is known only at run time"
    ),
    r"inplace: (eq|neq|lt|le|gt|ge|isnan|isinf)_inplace": (
        "in-place comparisons write zeros and ones into an array of any dtype"
    ),
    r"inplace: .* \| error building TypeError -> value": (
        "in-place operations compute in the common dtype of both operands and convert the result"
    ),
    r"inplace: inv_inplace\(int": "a quotient with an integer divisor is computed as a float and converted back",
    r"inplace: .*inplace=True\) of \w+ \| error building NotImplementedError": (
        "in-place increments by an advanced index are implemented"
    ),
    r"linalg: .* of int8 \|": "linear algebra on integers computes in floats",
    r"linalg: T\.nlinalg\.matrix_power\(a, (0|-1)\)": "powers 0 and -1 give the identity and the inverse, as in NumPy",
    r"linalg: T\.nlinalg\.(norm|tensorsolve)\(": (
        "types are those of the computed values; a norm is a float of the precision of its argument"
    ),
    r"linalg: .* error building AssertionError -> error building TypeError": "unsuitable ranks raise a TypeError",
    r"linalg: T\.grad\(T\.nlinalg\.svd": "a singular value decomposition has a gradient",
    r"error building AttributeError -> error building TypeError": (
        "a float or a list in place of a variable raises a TypeError"
    ),
    r"sorting: .*(topk|searchsorted\(T.sort|extra_ops.compress)": "works",
    r"sorting: .*bincount\(": "negative integers are refused, as in NumPy",
    r"sorting: .*(cumsum|cumprod|CumOp)\(": (
        "the Python code of cumulative sums returns the dtype that the type declares"
    ),
    r"sorting: T\.nonzero\(v, True\)": "the single row of the result is broadcastable",
    r"sorting: x\.reshape\(\(-2, 3\)": "only -1 means that a length is computed from the other lengths",
    r"sorting: T\.split\(v, \[2\], 1\)": "a split into one part of a wrong length is refused when the graph is built",
    r"axis=\(\)": "axis=() reduces nothing, as in NumPy",
    r"axis=int64\(1\)": "NumPy integers are accepted as an axis",
    r"axis=('a'|0\.5)": "an axis that is not an integer raises a TypeError",
    r"(mean|var|std)\(.*axis=(\(0, 0\)|\[0, 0\])": "the length of a repeated axis is counted once",
    r"(argmin|min|ptp)\(complex": "the minimum of complex numbers follows NumPy's order",
    r"(var|std)\(complex": "the variance of complex numbers is real, as in NumPy",
    r"(sum|prod|mean)\(complex.*dtype=": (
        "sums of complex numbers in a real dtype are refused, because they would lose the imaginary part"
    ),
    r"reductions: (cumsum|cumprod)\(": "the Python code of cumulative sums returns the dtype that the type declares",
    r"unary: relu\(bool": "relu of true is 1, where 0.5 * (x + abs(x)) is 0.5",
    r"grad\(relu\(int": "the derivative of relu at an integer is the float 0, 0.5 or 1, not a product of integers",
    r"\b(round|iround|sgn|real|imag|conj|angle|ceil|floor|trunc|ultra_fast_sigmoid|softsign|argsort)\(.* \| error building (TypeError|MethodNotDefined) -> value": (
        "Theano 1.0 refuses these arguments or derivatives"
    ),
    r"grad\((log2|log10|exp2|sqr|sqrt|[\w]+)\(\w+\)\) \| value TensorType\(float(32|64), (\w+)\) -> value TensorType\(float(16|32), ": (
        "a derivative has the dtype of its variable; no constant of a wider dtype widens it"
    ),
    r"grad\(log2\(": "the derivative of log2 is not infinite",
    r"\b(relu|elu|selu)\(float": "activations keep the dtype of their input",
    r"\b(relu|elu|selu|softsign)\(complex": "activations are not defined for complex numbers",
    r"casts: cast\(\w+, (int|nothing)\)": "an unknown dtype raises a TypeError; 'int' is NumPy's name of int64",
    r"given 1e\+300 ": "a float as the value of an integer raises a TypeError, however large it is",
    r"given array\(\[('a'|None)\]": "strings and objects raise a TypeError",
    r"indexing: .*'a'": "a string as an index is refused at once, not by Python's recursion limit",
    r"given None ": "a missing value raises a TypeError",
    r"shapes: (x\.reshape\(6\)|T\.reshape\(x, x\.shape|T\.extra_ops\.compress|T\.take\(x, \[0, 5\], mode|T\.(arg)?topk|x\.round|\+x|2 \*\* x|x @ x|T\.constant\(\[1, 2\], ndim)": "works",
    r"shapes: T\.(reshape\(x, \(3, 2\), ndim=3\)|stack\(\[\]\)|join\(2|as_tensor_variable\(2\*\*70)": (
        "both packages refuse the argument, with different kinds of exceptions"
    ),
    r"shapes: T\.extra_ops\.(unravel_index|ravel_multi_index)": "a result for one position is broadcastable",
    r"shapes: T\.var\(x, ddof=1\)": "ddof is subtracted from the number of elements, as in NumPy",
    r"shapes: iter\(x\)": "iter() refuses a tensor of unknown length",
    r"shapes: T\.constant\(300": "a constant that does not fit into its dtype is refused",
    r"indexing: .*\[\]\[": "the indices of a scalar are checked when the graph is built",
    r"indexing: x\[[\d, ]+\]\[1\.5\]|indexing: \w+\(x\[[\d, ]+\]\[1\.5\]": (
        "an index that is not an integer raises a TypeError"
    ),
    r"indexing: \w*\(?x\[[\d, ]+\]\[(\.\.\.|:|0|::|,|None)*None": (
        "increments of parts with new axes have the shape of the part; a new axis may come first"
    ),
}


def sample(dtype, shape):
    """Return an array of small numbers that every dtype of this kind can represent.

    Integers include 0 and 1, and signed dtypes include negative numbers, because some functions treat them specially.
    """
    numbers = np.array([0, 1, 2, 3, 1, 5, 0, 2, 4, 1, 3, 6]) if dtype != "bool" else np.array([0, 1, 1, 0, 1, 0] * 2)
    if dtype[0] in "fc":
        numbers = numbers * 0.5 - 0.75
    elif dtype[0] == "i":
        numbers = numbers - 1
    if dtype[0] == "c":
        numbers = numbers + 0.25j
    return numbers[: int(np.prod(shape))].reshape(shape).astype(dtype)


class Expressions:
    """The cases, with the variables of one of the two packages.

    Each method for a group of cases yields tuples. A tuple contains the name of a case, a function that builds the
    outputs, the input variables and the input values.
    """

    def __init__(self, theano):
        import importlib

        self.theano, self.T = theano, theano.tensor
        self.nnet = importlib.import_module(theano.__name__ + ".tensor.nnet")
        self.overwriting = importlib.import_module(theano.__name__ + ".tensor.inplace")
        for name in ("nlinalg", "slinalg", "blas"):
            importlib.import_module("%s.tensor.%s" % (theano.__name__, name))

    def inputs(self, *kinds):
        """Return input variables and their values.

        Each element of `kinds` is (dtype, shape) or (dtype, shape, broadcast pattern of the type).
        """
        variables = [
            self.T.TensorType(dtype, pattern[0] if pattern else [False] * len(shape))()
            for dtype, shape, *pattern in kinds
        ]
        return variables, [sample(dtype, shape) for dtype, shape, *_ in kinds]

    def case(self, name, build, *kinds):
        variables, values = self.inputs(*kinds)
        return name, lambda: build(*variables), variables, values

    def unary(self):
        for module, names in ((self.T, UNARY), (self.nnet, NNET)):
            for name in names:
                for dtype in DTYPES:
                    yield self.case(
                        "%s(%s)" % (name, dtype), lambda x, m=module, n=name: getattr(m, n)(x), (dtype, (2, 3))
                    )

    def gradients(self):
        for module, names in ((self.T, UNARY), (self.nnet, NNET)):
            for name in names:
                for dtype in ("int8", "int64", "float16", "float32", "float64"):
                    yield self.case(
                        "grad(%s(%s))" % (name, dtype),
                        lambda x, m=module, n=name: self.T.grad(getattr(m, n)(x).sum(), x),
                        (dtype, (2, 3)),
                    )

    def binary(self):
        calls = {
            "clip": lambda a, b: self.T.clip(a, b, b + 1),
            "switch": lambda a, b: self.T.switch(self.T.eq(a, a), a, b),
        }
        for name in BINARY:
            call = calls.get(name, lambda a, b, n=name: getattr(self.T, n)(a, b))
            shape = (2, 2) if name in ("dot", "tensordot") else (4,) if name == "outer" else (2, 3)
            for a in DTYPES:
                for b in DTYPES:
                    # divisors are not zero
                    yield self.case(
                        "%s(%s, %s)" % (name, a, b),
                        lambda x, y, c=call, n=name, d=b: (
                            c(x, y + 4) if n in ("int_div", "floor_div", "mod", "true_div") and d != "bool" else c(x, y)
                        ),
                        (a, shape),
                        (b, shape),
                    )

    def python_numbers(self):
        numbers = (
            True,
            2,
            -2,
            300,
            2**40,
            0.5,
            1e40,
            1j,
            np.int8(3),
            np.float32(0.5),
            np.float64(0.5),
            np.uint64(3),
            [1, 2, 3],
            [0.5, 1, 2],
        )
        for name in ("add", "mul", "true_div", "pow", "maximum", "eq"):
            for dtype in DTYPES:
                for number in numbers:
                    yield self.case(
                        "%s(%s, %s)" % (name, dtype, shown(number)),
                        lambda x, n=name, v=number: getattr(self.T, n)(x, v),
                        (dtype, (3,)),
                    )

    def reductions(self):
        for name in REDUCTIONS:
            for dtype in DTYPES:
                for axis in (None, 0, -1, 1, (0, 1), [0], (0, 0), 2, -3, (), "a", 0.5, np.int64(1)):
                    for keepdims in (False, True):
                        if name in ("cumsum", "cumprod", "ptp") and keepdims:
                            continue
                        arguments = {"keepdims": True} if keepdims else {}
                        yield self.case(
                            "%s(%s, axis=%s%s)" % (name, dtype, shown(axis), ", keepdims" if keepdims else ""),
                            lambda x, n=name, a=axis, k=arguments: getattr(self.T, n)(x, axis=a, **k),
                            (dtype, (2, 3)),
                        )
        for name in ("sum", "prod", "mean"):
            for dtype in DTYPES:
                for result in ("bool", "int8", "int64", "uint8", "float16", "float32", "float64", "complex128"):
                    for argument in ("dtype", "acc_dtype"):
                        yield self.case(
                            "%s(%s, %s=%s)" % (name, dtype, argument, result),
                            lambda x, n=name, a=argument, r=result: getattr(self.T, n)(x, **{a: r}),
                            (dtype, (2, 3)),
                        )

    def casts(self):
        for dtype in DTYPES:
            for other in DTYPES + ("floatX", "int", "nothing"):
                yield self.case("cast(%s, %s)" % (dtype, other), lambda x, o=other: self.T.cast(x, o), (dtype, (2, 3)))

    def indexing(self):
        indices = (
            "0 -1 5 -6 0:2 ::-1 1:-1 5:2 ::2 :0 None ... 0,1 0,:,None ...,0 None,0 :,1 ::-1,::-1 0,0,0 [0,1] [[0],[1]] [0,1],[1,0] "
            "[True,False] :,[0,1] [0,1],: 0,[0,1] 1.5 'a' x>1 ...,... i i,j i:j :i,j: ::i x.nonzero()"
        ).split()
        for shape in ((), (4,), (2, 3), (2, 3, 2)):
            for index in indices:
                yield self.case(
                    "x%s[%s]" % (list(shape), index),
                    lambda x, i, j, text=index: eval("x[%s]" % text, {"x": x, "i": i, "j": j}),
                    ("float64", shape),
                    ("int64", ()),
                    ("int8", ()),
                )
                for name in ("set_subtensor", "inc_subtensor"):
                    yield self.case(
                        "%s(x%s[%s], 9)" % (name, list(shape), index),
                        lambda x, i, j, text=index, n=name: getattr(self.T, n)(
                            eval("x[%s]" % text, {"x": x, "i": i, "j": j}), 9
                        ),
                        ("float64", shape),
                        ("int64", ()),
                        ("int8", ()),
                    )

    def shapes(self):
        texts = (
            "T.reshape(x, (3, 2)); T.reshape(x, (6,)); T.reshape(x, (-1,)); T.reshape(x, (4, 2)); T.reshape(x, [-1, -1]); x.reshape((2, -1));"
            "x.reshape(6); T.reshape(x, x.shape[::-1]); T.reshape(x, (3, 2), ndim=2); T.reshape(x, (3, 2), ndim=3); T.flatten(x); T.flatten(x, 2);"
            "T.flatten(x, 0); T.flatten(x, 3); x.dimshuffle(1, 0); x.dimshuffle('x', 0, 1); x.dimshuffle(0); x.dimshuffle(0, 0);"
            "x.dimshuffle((1, 'x', 0)); x.dimshuffle(2, 0); x.T; T.transpose(x, (1, 0)); T.transpose(x, (0,)); T.swapaxes(x, 0, 1);"
            "T.swapaxes(x, 0, 2); T.addbroadcast(x, 0); T.unbroadcast(x, 0); T.patternbroadcast(x, (False, False)); T.stack([x, x]);"
            "T.stack([x, x], axis=1); T.stack([x, x], axis=-1); T.stack([x, x], axis=3); T.stack([]); T.stack(x, x); T.join(0, x, x); T.join(1, x, x);"
            "T.join(-1, x, x); T.join(2, x, x); T.join(0, x, x[0]); T.concatenate([x, x], axis=1); T.concatenate(x); T.horizontal_stack(x, x);"
            "T.vertical_stack(x, x); T.split(x, [1, 1], 2); T.split(x, [1, 2], 2, axis=1); T.split(x, [1, 2], 3, axis=1); T.tile(x, 2); T.tile(x, (2, 1));"
            "T.tile(x, (2, 1, 1)); T.tile(x, (2, 2), ndim=3); T.repeat(x, 2); T.repeat(x, 2, 0); T.repeat(x, [1, 2], 0); T.repeat(x, [1, 2], 1); T.roll(x, 1);"
            "T.roll(x, 1, 0); T.roll(x, -1, axis=1); T.diag(x); T.diag(x[0]); T.diagonal(x); T.eye(3); T.eye(2, 3, 1); T.eye(2, None, -1); T.tri(3); T.tril(x);"
            "T.triu(x, 1); T.alloc(x, 2, 2, 3); T.alloc(x, 2, 3); T.alloc(x, 3, 2); T.alloc(1, 2); T.zeros((2, 3)); T.ones(3); T.zeros_like(x, dtype='int8');"
            "T.arange(4); T.arange(1, 9, 3); T.arange(9, 1, -3); T.arange(1, 4, 0.5); T.arange(0); T.arange(3, dtype='float32'); T.mgrid[0:2, 0:3];"
            "T.ogrid[0:2, 0:3:2]; T.fill(x, 3); T.fill(x[0], x); T.shape_padleft(x); T.shape_padright(x, 2); T.shape_padaxis(x, 1); T.extra_ops.diff(x);"
            "T.extra_ops.diff(x, 2, 0); T.extra_ops.bincount(T.cast(abs(x[0]), 'int64')); T.extra_ops.squeeze(x); T.extra_ops.squeeze(T.shape_padleft(x));"
            "T.extra_ops.compress([0, 1], x, axis=0); T.extra_ops.fill_diagonal(x, 3); T.extra_ops.unravel_index([3], (2, 3)); T.extra_ops.ravel_multi_index(([1], [2]), (2, 3));"
            "T.take(x, 1); T.take(x, [0, 1], 1); T.take(x, [0, 5]); T.take(x, [0, 5], mode='clip'); T.choose([0, 1, 0], x); T.where(x > 1, x, 0); T.inner(x, x);"
            "T.dot(x, x); T.dot(x, x.T); T.dot(x[0], x[0]); T.dot(x[0], x); T.dot(x, x[0]); T.tensordot(x, x, 2); T.tensordot(x, x, [[0], [0]]); T.tensordot(x, x, 3);"
            "T.batched_dot(x, x); T.batched_dot(x, x.T); T.batched_tensordot(x, x, 1); T.outer(x, x); T.sort(x); T.sort(x, 0); T.sort(x, None); T.argsort(x, axis=0);"
            "T.sort(x, 2); T.topk(x, 2); T.topk(x, -1, axis=0); T.topk(x, 0); T.argtopk(x, 2); T.clip(x, 0, 1); T.clip(x, 1, 0); T.isclose(x, x); T.allclose(x, x);"
            "T.nonzero(x); T.nonzero_values(x); T.flatnonzero(x); T.argmax(x, 0); T.max_and_argmax(x, 1); T.ptp(x); T.ptp(x, 0); T.norm(x, 2); T.norm(x, 'inf');"
            "T.var(x, corrected=True); T.var(x, ddof=1); T.std(x, axis=1); T.mean(x, axis=[0]); T.prod(x, no_zeros_in_input=True); x.norm(1); x.trace(); x.zeros_like();"
            "x.astype('int8'); x.nonzero(); x.fill(2); x.copy(); x.size; x.ndim; x.dtype; x.shape; x.shape[0]; x.take(0); x.diagonal(); x.round(); x.clip(0, 1); len(x); bool(x);"
            "iter(x); x == x; x != x; -x; +x; abs(x); ~x; x // 2; x % 2; divmod(x, 2); x ** 2; 2 ** x; x @ x.T; 1 / (x + 9); x << 1; x & x; float(x); int(x); hash(x) and x;"
            "T.as_tensor_variable([1, 2]); T.as_tensor_variable([x, x]); T.as_tensor_variable([x[0, 0], 1]); T.as_tensor_variable('a'); T.as_tensor_variable(None);"
            "T.as_tensor_variable(True); T.as_tensor_variable(300); T.as_tensor_variable(2**40); T.as_tensor_variable(2**70); T.as_tensor_variable(0.5); T.as_tensor_variable(1j);"
            "T.as_tensor_variable([[1], [2, 3]]); T.constant(3, dtype='int8'); T.constant(300, dtype='int8'); T.constant([1, 2], ndim=2); T.as_tensor_variable(x, ndim=3);"
            "T.as_tensor_variable(x, ndim=1); T.patternbroadcast(x, (True, False)); T.specify_shape(x, (2, 3)); T.specify_shape(x, (2, 4)); T.opt.Assert('no')(x, x.sum() > 1e9)"
        ).split(";")
        for text in texts:
            text = text.strip()
            for dtype in ("float64", "int8"):
                yield self.case(
                    "%s of %s" % (text, dtype),
                    lambda x, t=text: eval(t, {"T": self.T, "x": x, "np": np}),
                    (dtype, (2, 3)),
                )

    def texts(self, texts, names, *kinds):
        """Yield cases for each expression in `texts`, which separates expressions by semicolons.

        Each letter of `names` is the name of an input in the expressions. `kinds` contains a tuple for each input; see
        `inputs`. Each expression has three cases, in which a dtype None stands for float64, float32 or int8.
        """
        for text in texts.split(";"):
            text = text.strip()
            for dtype in ("float64", "float32", "int8"):
                yield self.case(
                    "%s of %s" % (text, dtype),
                    lambda *inputs, t=text: eval(
                        t, {"T": self.T, "theano": self.theano, "np": np, **dict(zip(names, inputs))}
                    ),
                    *[(dtype if kind is None else kind, *rest) for kind, *rest in kinds],
                )

    def broadcasting(self):
        shapes = {(): [()], (3,): [(False,)], (1,): [(False,), (True,)], (2, 3): [(False, False)], (1, 3): [(False, False), (True, False)],
                  (2, 1): [(False, False), (False, True)], (1, 1): [(False, True), (True, True)]}  # fmt: skip
        calls = {
            "add": lambda a, b: a + b,
            "lt": lambda a, b: a < b,
            "switch": lambda a, b: self.T.switch(a > 0, b, a),
            "fill": lambda a, b: self.T.fill(a, b),
            "alloc": lambda a, b: self.T.alloc(a, 2, 3),
            "set": lambda a, b: self.T.set_subtensor(a[:], b),
            "inc": lambda a, b: self.T.inc_subtensor(a[[0, 0]], b),
            "grad of add": lambda a, b: self.T.grad((a * b).sum(), [a, b]),
            "grad of inc": lambda a, b: self.T.grad((self.T.inc_subtensor(a[0], b) ** 2).sum(), [a, b]),
            "grad of alloc": lambda a, b: self.T.grad((self.T.alloc(a, 2, 3) ** 2).sum(), a),
            "join": lambda a, b: self.T.join(0, a, b),
            "dot": lambda a, b: self.T.dot(a, b),
        }
        for name, call in calls.items():
            for a, patterns in shapes.items():
                for pattern in patterns:
                    for b, others in shapes.items():
                        for other in others:
                            yield self.case(
                                "%s(%s, %s)" % (name, declared(a, pattern), declared(b, other)),
                                call,
                                ("float64", a, pattern),
                                ("float64", b, other),
                            )

    def inplace(self):
        """Yield cases of Ops that work in place.

        The Ops overwrite intermediate results, because a function does not let them overwrite its inputs.
        """
        names = [name + "_inplace" for name in UNARY + BINARY if name not in ("clip", "dot", "outer", "tensordot")]
        module = self.overwriting
        for name in names:
            for a in ("int8", "int64", "float32", "float64"):
                if name[: -len("_inplace")] in UNARY:
                    yield self.case("%s(%s)" % (name, a), lambda x, n=name: getattr(module, n)(x * 1), (a, (2, 3)))
                    continue
                for b in ("int8", "int64", "float32", "float64"):
                    yield self.case(
                        "%s(%s, %s)" % (name, a, b),
                        lambda x, y, n=name: getattr(module, n)(x * 1, y + 4),
                        (a, (2, 3)),
                        (b, (2, 3)),
                    )
        yield from self.texts(
            "T.set_subtensor((x * 1)[0], y[1], inplace=True); T.inc_subtensor((x * 1)[0], y[1], inplace=True); T.inc_subtensor((x * 1)[:, 1:], y[:, 1:], inplace=True);"
            "T.inc_subtensor((x * 1)[[0, 0]], y, inplace=True); T.set_subtensor((x * 1)[[0, 1], [1, 0]], y[0, :2], inplace=True); T.inc_subtensor((x * 1)[(x > 1).nonzero()], 3, inplace=True);"
            "T.set_subtensor((x * 1)[0], 1, tolerate_inplace_aliasing=True); T.inc_subtensor(x, y); T.inc_subtensor(x[0], y); T.set_subtensor(x[0], T.ones((2,)));"
            "T.set_subtensor(x[0], 0.5); T.set_subtensor(x[0], T.zscalar()); T.inc_subtensor(x.T[0], 1); T.inc_subtensor(x[0].reshape((3, 1)), 1); T.set_subtensor(T.take(x, [0, 1], 1), 3);"
            "T.inc_subtensor(x[::-1][0], 1); T.inc_subtensor(T.diagonal(x), 1); T.inc_subtensor((x + 1)[0], 1)", "xy", (None, (2, 3)), (None, (2, 3)),
        )  # fmt: skip

    def linalg(self):
        yield from self.texts(
            "T.nlinalg.matrix_inverse(a); T.nlinalg.pinv(a); T.nlinalg.det(a); T.nlinalg.trace(a); T.nlinalg.svd(a); T.nlinalg.svd(a, 0); T.nlinalg.svd(a, compute_uv=0)[0];"
            "T.nlinalg.qr(a); T.nlinalg.qr(a, 'r'); T.nlinalg.eigh(a + a.T)[0]; T.nlinalg.eig(a + a.T)[0]; T.nlinalg.lstsq(a, v, 1e-9)[0]; T.nlinalg.matrix_power(a, 3); T.nlinalg.matrix_power(a, 0);"
            "T.nlinalg.matrix_power(a, -1); T.nlinalg.norm(a, None); T.nlinalg.norm(a, 'fro'); T.nlinalg.norm(a, 1); T.nlinalg.norm(a, -1); T.nlinalg.norm(a, 'inf'); T.nlinalg.norm(v, 3);"
            "T.nlinalg.norm(v, 0); T.nlinalg.norm(a, 5); T.nlinalg.tensorinv(a, 1); T.nlinalg.tensorsolve(a, v); T.nlinalg.alloc_diag(v); T.nlinalg.extract_diag(a); T.nlinalg.diag(a); T.nlinalg.diag(v);"
            "T.nlinalg.diag(a[0, 0]); T.nlinalg.matrix_dot(a, a, v); T.nlinalg.matrix_dot(a); T.nlinalg.det(v); T.nlinalg.matrix_inverse(v); T.nlinalg.kron(a, a);"
            "T.slinalg.solve(a, v); T.slinalg.solve(a, a); T.slinalg.Solve(A_structure='lower_triangular', lower=True)(a, v); T.slinalg.cholesky(T.dot(a, a.T)); T.slinalg.Cholesky(lower=False)(T.dot(a, a.T));"
            "T.slinalg.solve_lower_triangular(a, v); T.slinalg.solve_upper_triangular(a, v); T.slinalg.expm(a); T.slinalg.kron(a, a); T.slinalg.kron(v, v); T.slinalg.kron(v, a); T.slinalg.eigvalsh(a + a.T, T.eye(3));"
            "T.slinalg.cholesky(v); T.slinalg.solve(v, v); T.slinalg.cholesky(-T.dot(a, a.T)); T.nlinalg.matrix_inverse(a * 0);"
            "T.grad(T.nlinalg.det(a), a); T.grad(T.nlinalg.matrix_inverse(a).sum(), a); T.grad(T.slinalg.cholesky(T.dot(a, a.T)).sum(), a); T.grad(T.slinalg.solve(a, v).sum(), [a, v]); T.grad(T.slinalg.expm(a).sum(), a);"
            "T.grad(T.nlinalg.trace(a), a); T.grad(T.nlinalg.eigh(a)[0].sum(), a); T.grad(T.nlinalg.svd(a)[1].sum(), a); T.grad(T.slinalg.kron(a, a).sum(), a); T.grad(T.nlinalg.norm(a, 'fro'), a);"
            "T.blas.gemm(a, 2.0, a, a, 0.5); T.blas.gemm(a, 2, a, a, 1); T.blas.gemm(a, 1.0, a, v, 0.5); T.blas.gemm(a, v, a, a, 1.0); T.blas.gemv(v, 2.0, a, v, 0.5); T.blas.gemv(v, 1.0, v, a, 0.5); T.blas.gemv(a, 1.0, a, v, 0.5);"
            "T.blas.ger(a, 2.0, v, v); T.blas.ger(a, 1.0, a, v); T.blas.ger(v, 1.0, v, v); T.blas._dot22(a, a); T.blas._dot22(a, v); T.blas._dot22scalar(a, a, 2.0); T.blas._dot22scalar(a, a, v); T.blas.gemm_no_inplace(a, 1.0, a, a, 1.0);"
            "T.blas.gemm_inplace(a * 1, 1.0, a, a, 1.0); T.blas.gemv_inplace(v * 1, 1.0, a, v, 1.0); T.blas.gemv_no_inplace(v, 1.0, a, v, 1.0); T.blas.ger_destructive(a * 1, 1.0, v, v); T.blas.batched_dot(t, t); T.blas.batched_dot(t, a);"
            "T.batched_dot(a, t); T.batched_dot(v, v); T.batched_dot(a, a); T.batched_dot(t, t.dimshuffle(0, 2, 1)); T.batched_dot(t[:2], t); T.batched_tensordot(t, t, 1); T.batched_tensordot(t, t, [[1], [1]]); T.batched_tensordot(t, t, [[2, 1], [1, 2]]);"
            "T.tensordot(t, t, 1); T.tensordot(t, t, 0); T.tensordot(t, a, [[2], [0]]); T.tensordot(t, t, [[0, 1], [1, 0]]); T.tensordot(t, v, [2, 0]); T.tensordot(a, a, [[0, 1], [0]]); T.tensordot(a, a, -1); T.tensordot(v, v, 2); T.tensordot(a, a, axes=[(1,), (0,)]);"
            "T.dot(t, a); T.dot(a, t); T.dot(t, t); T.dot(t, v); T.dot(a[0, 0], a); T.dot(2, a); T.dot(v, t); T.outer(v, v); T.outer(a[0, 0], v); T.grad(T.batched_dot(t, t).sum(), t); T.grad(T.tensordot(t, t, [[0, 1], [1, 0]]).sum(), t)",
            "avt", (None, (3, 3)), (None, (3,)), (None, (2, 2, 2)),
        )  # fmt: skip

    def sorting(self):
        yield from self.texts(
            "T.sort(x, kind='mergesort'); T.sort(x, 0, 'heapsort'); T.sort(x, axis=-3); T.sort(v, None); T.sort(x, order='f'); T.argsort(x); T.argsort(x, None); T.argsort(x, 0, 'mergesort'); T.argsort(v, 1); T.sort(x[0, 0]); x.sort(); x.argsort(0); x.sort(axis=None);"
            "T.topk(v, 2); T.topk(v, 2, sorted=False); T.topk(x, 2, None); T.topk(v, 7); T.topk(v, -2); T.argtopk(v, 2, idx_dtype='int32'); T.topk_and_argtopk(v, 2); T.topk_and_argtopk(x, 1, 0); T.argtopk(v, 0); T.grad(T.sort(v)[0], v); T.grad(T.topk(v, 2).sum(), v);"
            "T.extra_ops.searchsorted(T.sort(v), x); T.extra_ops.searchsorted(T.sort(v), x, 'right'); T.extra_ops.searchsorted(v, x, sorter=T.argsort(v)); T.extra_ops.searchsorted(x, v); T.extra_ops.searchsorted(T.sort(v), 1, 'middle'); T.searchsorted(T.sort(v), v);"
            "T.extra_ops.Unique()(v); T.extra_ops.Unique(True, True, True)(v); T.extra_ops.Unique()(x); T.extra_ops.cumsum(x); T.extra_ops.cumsum(x, 1); T.extra_ops.cumprod(x, 0); T.extra_ops.cumsum(x, 3); T.extra_ops.CumOp(axis=1, mode='add')(x); T.extra_ops.CumOp(mode='max')(x);"
            "T.extra_ops.diff(v, 0); T.extra_ops.diff(v, 9); T.extra_ops.diff(x, 1, 5); T.extra_ops.bincount(i); T.extra_ops.bincount(i, minlength=9); T.extra_ops.bincount(i, v); T.extra_ops.bincount(i, assert_nonneg=True); T.extra_ops.bincount(v); T.extra_ops.squeeze(x.dimshuffle('x', 0, 1, 'x'));"
            "T.extra_ops.squeeze(v.dimshuffle(0, 'x')); T.extra_ops.repeat(x, i[:2], 0); T.extra_ops.repeat(v, i); T.extra_ops.repeat(x, -1); T.extra_ops.repeat(x, 1, 1); T.extra_ops.repeat(x, x, 0); T.extra_ops.bartlett(5); T.extra_ops.bartlett(-1); T.extra_ops.bartlett(2.5);"
            "T.extra_ops.fill_diagonal(x, v[0]); T.extra_ops.fill_diagonal(x, v); T.extra_ops.fill_diagonal_offset(x, 2, 1); T.extra_ops.fill_diagonal_offset(x, 2, -1); T.extra_ops.fill_diagonal(v, 2); T.extra_ops.to_one_hot(i, 9); T.extra_ops.to_one_hot(i, 9, 'int8'); T.extra_ops.to_one_hot(i, 1);"
            "T.extra_ops.compress(v > 0, v); T.extra_ops.compress([1, 0, 1], x, 1); T.extra_ops.unravel_index(i, (3, 3)); T.extra_ops.unravel_index(i, (3, 3), 'F'); T.extra_ops.unravel_index(9, (3, 3)); T.extra_ops.unravel_index(v, (3, 3)); T.extra_ops.ravel_multi_index((i, i), (7, 7));"
            "T.extra_ops.ravel_multi_index((i, i), (3, 3), 'wrap'); T.extra_ops.ravel_multi_index((i, i), (3, 3), 'clip'); T.extra_ops.ravel_multi_index((i, i), (1, 1)); T.nonzero(v); T.nonzero(v, True); T.nonzero(x[0, 0]); T.flatnonzero(x); T.nonzero_values(v); T.inverse_permutation(i);"
            "T.permute_row_elements(x, [2, 0, 1]); T.permute_row_elements(v, i); T.permute_row_elements(x, [[1, 0, 2], [0, 2, 1]]); T.roll(v, 2); T.roll(v, -1); T.roll(x, 1, 1); T.roll(x, 4, 0); T.roll(v, i[0]); T.tri(2, 3, 1); T.tril(v); T.triu(x, -1);"
            "T.identity_like(x); T.identity_like(v); T.eye(2, dtype='int8'); T.MakeVector()(v[0], i[0]); T.stacklists([[v[0], 1], [2, 3]]); T.stacklists([v, v]); T.atleast_nd; T.transpose(v); T.transpose(x, [1, 0]); T.swapaxes(x, -1, 0); T.flatten(x, -1);"
            "T.nnet.softmax(v); T.nnet.softmax(x.dimshuffle('x', 0, 1)); T.addbroadcast(v, 0); T.addbroadcast(x, 2); T.unbroadcast(v.dimshuffle('x', 0), 0); T.patternbroadcast(x, (True, True)); x.reshape((3, 2), 2); x.reshape(i[:2]); x.reshape((2, 'a')); x.reshape((-2, 3)); v.reshape((0, 3));"
            "T.Reshape(2)(v, [2, -1]); T.Reshape(3)(v, [2, 2]); T.tile(v, 0); T.tile(v, (2, 2)); T.tile(x, i[:2], ndim=2); T.tile(x, i[0]); T.tile(v, -1); T.split(v, [2, 2], 2); T.split(v, [1, 1, 2], 3); T.split(v, [5, -1], 2); T.split(v, [2], 1); T.split(v, 2, 2)", "xvi", (None, (2, 3)), (None, (4,)), ("int64", (4,)),
        )  # fmt: skip

    def calls(self):
        """Yield cases in which values of many kinds are passed to functions as arguments."""
        given = (True, 1, -1, 300, 0.5, 1.0, 1e300, 1j, "a", None, [1], [[1, 2], [3, 4]], [1, 0.5], [], np.int8(1), np.float32(0.5), np.float64(0.1), np.array([1.5], "float32"),
                 np.array(3), np.array([True]), np.zeros((2, 2, 2)), np.array(["a"]), np.array([None]))  # fmt: skip
        for dtype in DTYPES:
            for shape in ((), (2,), (2, 2)):
                for value in given:
                    variables, _ = self.inputs((dtype, shape))
                    yield (
                        "%s%s given %s" % (dtype, list(shape), shown(value)),
                        lambda v=variables[0]: v + v,
                        variables,
                        [value],
                    )

    def shared(self):
        given = (True, 1, 2**40, 0.5, 1j, "a", None, [1], [[1, 2], [3, 4]], (1, 2), np.int8(1), np.float32(0.5), np.zeros(2, "float16"), np.zeros((2, 2)), np.array(3), [np.zeros(2)])  # fmt: skip
        for value in given:
            yield "shared(%s)" % shown(value), lambda v=value: self.theano.shared(v), [], []


GROUPS = [name for name in vars(Expressions) if name[0] != "_" and name not in ("inputs", "case", "texts")]


def declared(shape, pattern):
    """Return a shape as text, with an exclamation mark after the length of each broadcastable dimension."""
    return str([("%d!" if flag else "%d") % n for n, flag in zip(shape, pattern)]).replace("'", "")


def shown(value):
    if isinstance(value, np.ndarray):
        return "array(%s, %s)" % (value.tolist(), value.dtype)
    return "%s(%s)" % (type(value).__name__, value) if isinstance(value, np.generic) else repr(value)


def plain(value):
    """Convert a result to a list that JSON can represent: dtype, shape and numbers."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    value = np.asarray(value)
    if value.dtype == object:
        return "object"
    numbers = value.astype("complex128").ravel() if value.dtype.kind == "c" else value.ravel()
    numbers = [
        repr(complex(v)) if value.dtype.kind == "c" else float(v) if value.dtype.kind == "f" else int(v)
        for v in numbers
    ]
    return [str(value.dtype), list(value.shape), numbers]


def answer(theano, build, variables, values):
    """Run a case and return its answer.

    The answer contains the types and the values of the results. If an exception is raised, the answer contains the
    stage (building, compiling or calling) and the name of the exception instead.
    """
    stage = "building"
    try:
        outputs = build()
        if not isinstance(outputs, (list, tuple, theano.Variable)):
            return ["python", repr(outputs)]
        several = isinstance(outputs, (list, tuple))
        outputs = list(outputs) if several else [outputs]
        types = [str(v.type) for v in outputs]
        stage = "compiling"
        function = theano.function(
            variables,
            outputs,
            mode=theano.compile.mode.Mode(linker="py", optimizer=None),
            accept_inplace=True,
            on_unused_input="ignore",
        )
        stage = "calling"
        return ["value", types, [plain(v) for v in function(*values)]]
    except Exception as error:
        return ["error", stage, type(error).__name__]


def child(package, groups):
    """Run the cases of some groups in one package, and write all answers as JSON to the standard output."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    out, sys.stdout = sys.stdout, sys.stderr  # other output must not be mixed with the answers
    theano = __import__(package)
    __import__(package + ".tensor")
    expressions = Expressions(theano)
    answers = {}
    for group in groups:
        for name, build, variables, values in getattr(expressions, group)():
            answers["%s: %s" % (group, name)] = answer(theano, build, variables, values)
    json.dump(answers, out)


def described(answer):
    """Return the types in an answer, or its stage and exception, as text."""
    kind, *rest = answer
    return "value " + " ".join(rest[0]) if kind == "value" else " ".join(answer)


def close(a, b):
    """Return True if two answers agree. Values may differ in the last digits of their dtype."""
    if a[0] != b[0] or a[0] != "value":
        return a == b
    return a[1] == b[1] and all(close_results(p, q) for p, q in zip(a[2], b[2])) and len(a[2]) == len(b[2])


def close_results(a, b):
    if a == b or not (isinstance(a, list) and isinstance(b, list)) or not a or not b or a[:2] != b[:2]:
        return a == b
    if not isinstance(a[0], str):
        return len(a) == len(b) and all(close_results(p, q) for p, q in zip(a, b))
    dtype = np.dtype(a[0])
    if dtype.kind not in "fc":
        return False
    a, b = (np.array([complex(v) for v in x[2]], "complex128") for x in (a, b))
    return np.allclose(a, b, rtol=64 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps, equal_nan=True)


def answers_of(python, package, groups, cache):
    environment = dict(os.environ)
    if package == "theano":
        environment["THEANO_FLAGS"] = "device=cpu,cxx=,base_compiledir=" + cache
        environment.pop("PYTHONPATH", None)
    out = subprocess.run(
        [python, os.path.abspath(__file__), "--child", package, *groups],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return json.loads(out.stdout)


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    groups = sys.argv[2:] or GROUPS
    with tempfile.TemporaryDirectory() as cache:
        theirs = answers_of(sys.argv[1], "theano", groups, cache)
    ours = answers_of(sys.executable, "theano_ng", groups, None)
    known, unknown = {}, []
    for name, answer in theirs.items():
        if not close(answer, ours[name]):
            text = "%s | %s -> %s" % (name, described(answer), described(ours[name]))
            reason = next((reason for pattern, reason in REASONS.items() if re.search(pattern, text)), None)
            if reason is None:
                unknown.append(name)
            else:
                known.setdefault(reason, []).append(name)
    for name in unknown:
        print(
            name, "\n    Theano 1.0:", json.dumps(theirs[name])[:160], "\n    theano_ng: ", json.dumps(ours[name])[:160]
        )
    print("%d cases, %d the same, %d differ on purpose, %d for no known reason" % (
        len(theirs), len(theirs) - len(unknown) - sum(map(len, known.values())), sum(map(len, known.values())), len(unknown)))  # fmt: skip
    for reason, names in known.items():
        print("  %5d  %s (%s)" % (len(names), reason, names[0]))
    sys.exit(bool(unknown))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    else:
        main()
