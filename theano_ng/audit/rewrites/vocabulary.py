"""The variables, values and functions that the examples in the docstrings of rules use."""

from functools import partial

import numpy as np
import scipy.sparse

import theano_ng
import theano_ng.ifelse
import theano_ng.sandbox.linalg
import theano_ng.sandbox.rng_mrg
import theano_ng.sparse.opt
import theano_ng.tensor as T
import theano_ng.tensor.nnet.convolution.conv3d2d
import theano_ng.tensor.nnet.convolution.opt
from theano_ng import scalar
from theano_ng.compile import ops as compile_ops
from theano_ng.compile.builders import OpFromGraph
from theano_ng.gof.graph import Constant
from theano_ng.gof.graph import inputs as inputs_of
from theano_ng.tensor import basic, nlinalg, nnet, opt, slinalg
from theano_ng.tensor.blas import ops as blas_ops
from theano_ng.tensor.blas.scipy_ger import scipy_ger_inplace, scipy_ger_no_inplace
from theano_ng.tensor.nnet import blocksparse, bn, crossentropy, ctc
from theano_ng.tensor.nnet.softmax import logsoftmax_op, softmax_grad, softmax_op, softmax_with_bias
from theano_ng.tensor.raw_random import RandomFunction, random_state_type
from theano_ng.tensor.shaping.allocation import sum_to_shape
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar
from theano_ng.typed_list import TypedListType

_random = np.random.RandomState(1729)
_square = _random.uniform(0.3, 0.9, size=(3, 3))

# Each entry: names of variables, their dtype, and their value or the shape of random values. Axes of length one are
# broadcastable.
_TABLE = [
    ("a b s", "float64", ()),
    ("u v x y z", "float64", (3,)),
    ("A B C G W", "float64", (3, 3)),
    ("t", "float64", (2, 3, 4)),
    ("row", "float64", (1, 3)),
    ("col", "float64", (3, 1)),
    ("one", "float64", (1, 1)),
    ("S", "float64", np.dot(_square, _square.T) + np.eye(3)),  # symmetric, positive definite
    ("f", "float32", (3,)),
    ("w", "complex128", np.array([0.5 + 1j, 2, -1j])),
    ("k", "int8", np.array([3, -5, 7])),
    ("c", "bool", np.array([False, True, True])),
    ("p", "bool", np.array([True, False, True])),
    ("flag", "bool", np.array(True)),
    ("labels", "int64", np.array([2, 0, 1])),
    ("axis", "int64", np.array(0)),
    ("i", "int64", np.array(1)),
    ("j", "int64", np.array(2)),
    ("n", "int64", np.array(3)),
    ("streams", "int32", np.arange(1, 13).reshape(2, 6)),
    ("blocks", "float64", (2, 2, 4, 4)),
    ("places", "int64", np.array([[0, 1, 1], [1, 0, 1]])),
    ("signs", "int64", np.array([[1], [2], [-1]])),
    ("ends", "int64", np.array([2, 2, 1])),
    ("images", "float64", (2, 2, 5, 4)),
    ("kernels", "float64", (3, 2, 2, 2)),
    ("maps", "float64", (2, 3, 4, 3)),  # the shape of images after convolution with kernels
    ("lengths", "int64", np.array([2, 2])),
    ("films", "float64", (2, 2, 3, 4, 4)),
    ("cubes", "float64", (2, 2, 2, 2, 2)),
    ("increments", "float64", (2, 2, 4)),
]

# name -> (variable, value)
VARIABLES = {}
for _names, _dtype, _value in _TABLE:
    for _name in _names.split():
        _filled = _random.uniform(0.3, 0.9, size=_value) if isinstance(_value, tuple) else _value
        VARIABLES[_name] = (
            T.TensorType(_dtype, [n == 1 for n in np.shape(_filled)])(_name),
            np.asarray(_filled, dtype=_dtype),
        )
VARIABLES["number"], VARIABLES["other"] = (scalar.float64("number"), 0.75), (scalar.float64("other"), 0.5)
VARIABLES["l"] = TypedListType(T.dvector)("l"), [np.array([0.25, 0.5]), np.array([1.0, 2, 3])]
VARIABLES["state"] = random_state_type("state"), np.random.RandomState(3)
# Sparse matrices, and the vectors that represent a sparse matrix.
_matrix = scipy.sparse.csr_matrix(np.array([[0, 0.5, 0], [0.25, 0, 0], [0.75, 0, 0]]))
for _name, _filled in (("M", _matrix), ("N", _matrix.tocsc())):
    VARIABLES[_name] = theano_ng.sparse.matrix(_filled.format, _name, "float64"), _filled
for _name, _filled in (("columns", [1, 0, 0]), ("starts", [0, 1, 2, 3]), ("extent", [3, 3])):
    VARIABLES[_name] = T.ivector(_name), np.array(_filled, dtype="int32")
# Short names of expressions.
ABBREVIATIONS = {"even": 2, "every_row": T.arange(VARIABLES["labels"][0].shape[0])}
ABBREVIATIONS.update((name, T.constant(np.float64(number))) for number, name in enumerate(["zero", "unit", "two"]))


def _drawn(op, state):
    """Return the three random numbers that `op` draws from the generator state `state`."""
    return op(state, [3], *([0.0, 1.0] if isinstance(op, RandomFunction) else []))[1]


def namespace():
    """Return a dict of the names that an example may use."""
    names = {}
    for module in (
        scalar.composite,
        theano_ng.typed_list,
        blas_ops,
        compile_ops,
        opt,
        basic,
        slinalg,
        nlinalg,
        nnet,
        nnet.nnet,
        crossentropy,
        blocksparse,
        bn,
        ctc,
        theano_ng.sandbox.linalg.ops,
        nnet.convolution.opt,
        nnet.convolution.convmm,
        nnet.convolution.conv3d2d,
        T,
        theano_ng.ifelse,
    ):
        names.update({name: value for name, value in vars(module).items() if not name.startswith("_")})
    names.update(softmax_op=softmax_op, softmax_grad=softmax_grad, softmax_with_bias=softmax_with_bias)
    # Some examples refer to these Ops by the names of their classes.
    for op in (
        softmax_op,
        logsoftmax_op,
        softmax_grad,
        crossentropy.crossentropy_softmax_1hot_with_bias_dx,
        T.Join(),
        TensorFromScalar(),
        ScalarFromTensor(),
        crossentropy.CrossentropyCategorical1HotGrad(),
    ):
        names[type(op).__name__] = op
    # A name that both `tensor` and `sparse` define (dot, add, sin ...) means the function of `tensor`. `sparse_dot` is
    # the dot of `sparse`.
    for name, value in vars(theano_ng.sparse).items():
        if not name.startswith("_"):
            names.setdefault(name, value)
    names.update({name: value for name, value in vars(theano_ng.sparse.opt).items() if not name.startswith("_")})
    names.update(sparse_dot=theano_ng.sparse.dot, sparse_transpose=theano_ng.sparse.transpose)
    names.update(
        _dot22=blas_ops._dot22,
        _dot22scalar=blas_ops._dot22scalar,
        scipy_ger_inplace=scipy_ger_inplace,
        scipy_ger_no_inplace=scipy_ger_no_inplace,
        sum_to_shape=sum_to_shape,
        OpFromGraph=OpFromGraph,
        scan=theano_ng.scan,
    )
    for inplace in (False, True):
        suffix = "_inplace" if inplace else ""
        names["uniform" + suffix] = partial(_drawn, RandomFunction("uniform", T.dvector, inplace=inplace))
        names["mrg_uniform" + suffix] = partial(
            _drawn, theano_ng.sandbox.rng_mrg.mrg_uniform(T.dvector, inplace=inplace)
        )
    names.update(abs=abs, np=np, scalar=scalar, slice=slice, consider_constant=theano_ng.gradient.consider_constant)
    names.update({name: v for name, (v, _) in VARIABLES.items()})
    names.update(ABBREVIATIONS)
    return names


def sources(outputs):
    """Return the inputs of a graph that are not constants."""
    return [v for v in inputs_of(outputs) if not isinstance(v, Constant)]
