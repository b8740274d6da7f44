"""The examples in the docstrings of rewriting rules are executed.

An example is a line ``before  ->  after``, two spaces around the arrow; lines that follow and are indented further belong to it. Both
sides are Python expressions in the names of `VARIABLES` and `ABBREVIATIONS` and the functions and ops of the package. The rule is applied
to the first, alone and as long as it applies; the result must be the graph of the second, and the numbers of both must agree. A number on
the right side has the shape of the result. A list in brackets at the end of an example names all tags under which the rule is registered.
"""

import copy
import re
import unittest
from functools import partial

import numpy as np
import scipy.sparse

import theano_ng
import theano_ng.ifelse
import theano_ng.sparse.opt
import theano_ng.sandbox.linalg
import theano_ng.sandbox.rng_mrg
import theano_ng.scan.opt
import theano_ng.tensor.nnet.conv3d2d
import theano_ng.tensor.nnet.convolution.opt
import theano_ng.tensor as T
from theano_ng import gof, scalar
from theano_ng.compile.builders import OpFromGraph
from theano_ng.compile import mode as compile_mode
from theano_ng.compile import ops as compile_ops
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gof.opt import (
    ChangeTracker,
    EquilibriumOptimizer,
    LocalOptGroup,
    LocalOptimizer,
    MergeOptimizer,
    NavigatorOptimizer,
    Optimizer,
)
from theano_ng.gof.optdb import DB
from theano_ng.tensor import basic, nlinalg, nnet, opt, slinalg
from theano_ng.tensor.blas import ops as blas_ops
from theano_ng.tensor.blas.scipy_ger import scipy_ger_inplace, scipy_ger_no_inplace
from theano_ng.tensor.nnet import blocksparse, bn, crossentropy, ctc, opt_sigm
from theano_ng.tensor.nnet.softmax import logsoftmax_op, softmax_grad, softmax_op, softmax_with_bias
from theano_ng.tensor.opt.shape import ShapeFeature
from theano_ng.tensor.raw_random import RandomFunction, random_state_type
from theano_ng.tensor.shaping.allocation import sum_to_shape
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar
from theano_ng.tensor.tests.rewriting import shown
from theano_ng.typed_list import TypedListType

# Rules of which before and after are no expressions that this test could compare, and the reason.
NOT_EXECUTED = {
    "CheckStackTrace": "changes nothing",
    "Print1.21": "changes nothing",
    "Print1.51": "changes nothing",
    "ShapeOpt": "attaches a feature; graphs stay as they are",
    "UnShapeOpt": "detaches a feature; graphs stay as they are",
    "HintsOpt": "attaches a feature; graphs stay as they are",
    "add_destroy_handler": "attaches a feature; graphs stay as they are",
    "add_no_output_from_inplace": "attaches a feature; graphs stay as they are",
    "merge": "equal nodes become one: both sides of an example are merged before they are compared",
    "merge1": "see merge",
    "merge1.1": "see merge",
    "merge1.2": "see merge",
    "merge2": "see merge",
    "merge3": "see merge",
    "local_elemwise_reduction_fusion": "makes a function of the reduction in C, which has no name for an expression",
    "inplace_elemwise_opt": "the op that works in place has no name for an expression",
    "scanOp_make_inplace": "see inplace_elemwise_opt",
    "local_abstractconv_check": "raises an error",
    "use_c_ger": "the result exists in C only, and examples run without a compiler",
    "use_c_gemv": "see use_c_ger",
    "make_c_ger_destructive": "see use_c_ger",
    "make_c_gemv_destructive": "see use_c_ger",
}

# Rules whose results are not meant to have the numbers of what they replace.
OTHER_NUMBERS = {
    "local_ultra_fast_sigmoid": "an approximation, to be asked for",
    "local_hard_sigmoid": "an approximation, to be asked for",
    "local_alloc_empty_to_zeros": "the content was undefined",
}

# Examples of rules whose docstring is that of their class.
OF_INSTANCES = {
    "local_mul_canonizer": [
        "(x * y) / x  ->  y",
        "x / y / x  ->  1 / y",
        "(x / y) * (y / z)  ->  x / z",
        "2 * x / 2  ->  x",
    ],
    "local_add_canonizer": ["(x + y) - x  ->  y", "(x - y) + (y - z)  ->  x - z"],
    "remove_tensor_copy": ["tensor_copy(x)  ->  x"],
    "local_add_mul_fusion": ["(x + y) + z  ->  add(x, y, z)", "(x * y) * z  ->  mul(x, y, z)"],
    "composite_elemwise_fusion": [
        "exp(x) * y  ->  Elemwise(Composite([number, other], [scalar.exp(number) * other]))(x, y)"
    ],
}

_random = np.random.RandomState(1729)
_square = _random.uniform(0.3, 0.9, size=(3, 3))

# Names, dtype, and a value or the shape of random values; lengths of one are broadcastable.
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
    ("maps", "float64", (2, 3, 4, 3)),  # what images and kernels make
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
# Sparse matrices, and vectors of which one is made.
_matrix = scipy.sparse.csr_matrix(np.array([[0, 0.5, 0], [0.25, 0, 0], [0.75, 0, 0]]))
for _name, _filled in (("M", _matrix), ("N", _matrix.tocsc())):
    VARIABLES[_name] = theano_ng.sparse.matrix(_filled.format, _name, "float64"), _filled
for _name, _filled in (("columns", [1, 0, 0]), ("starts", [0, 1, 2, 3]), ("extent", [3, 3])):
    VARIABLES[_name] = T.ivector(_name), np.array(_filled, dtype="int32")
# Names that stand for expressions.
ABBREVIATIONS = {"even": 2, "every_row": T.arange(VARIABLES["labels"][0].shape[0])}
ABBREVIATIONS.update((name, T.constant(np.float64(number))) for number, name in enumerate(["zero", "unit", "two"]))


def _drawn(op, state):
    """A sample of three numbers."""
    return op(state, [3], *([0.0, 1.0] if isinstance(op, RandomFunction) else []))[1]


def _namespace():
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
    # Rows are shown with the names of the classes of their ops.
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
    # What tensors have under the same name (dot, add, sin ...) is theirs; `sparse_dot` and the like are those for matrices.
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


_ARROW = re.compile(r"\S  ->(  \S|$)")
_TAGS = re.compile(r"\s+\[([\w, ]+)\]$")


def examples(doc):
    """The examples in a docstring: triples (before, after, tags); tags is None where there are none."""
    found, indent = [], None
    for line in (doc or "").split("\n"):
        depth = len(line) - len(line.lstrip())
        if indent is not None and line.strip() and depth > indent:
            found[-1] += " " + line.strip()
        elif _ARROW.search(line):
            found.append(line.strip())
            indent = depth
        else:
            indent = None
    result = []
    for text in found:
        tags = _TAGS.search(text)
        text = _TAGS.sub("", text)
        before, after = re.split("  -> +", text)
        result.append((before, after, None if tags is None else tags.group(1).split(", ")))
    return result


def _registered(db, rules):
    """Add what a database contains, and what that consists of, to the dict `rules`: rule -> (name, set of tags)."""
    db.__db__
    for obj in sorted(db._order, key=db._order.__getitem__):
        if "gpuarray" in db._tags_of(obj):  # gpuarray.tests.test_opt has theirs
            continue
        if isinstance(obj, DB):
            _registered(obj, rules)
            continue
        tags = {tag for tag in db._tags_of(obj) if tag != type(obj).__name__}
        for rule in _parts(obj):
            name = getattr(rule, "__name__", None) or getattr(rule, "name", None) or type(rule).__name__
            rules.setdefault(rule, (name, set()))[1].update(tags)


def _parts(optimizer):
    """The rules that an optimizer applies; itself when it is one."""
    if isinstance(optimizer, LocalOptGroup):
        return [part for rule in optimizer.opts for part in _parts(rule)]
    if isinstance(optimizer, EquilibriumOptimizer):
        return [part for rule in optimizer.get_local_optimizers() for part in _parts(rule)]
    if isinstance(optimizer, NavigatorOptimizer) and optimizer.local_opt is not None:
        return _parts(optimizer.local_opt)
    return [optimizer]


def _is_own(rule):
    """Whether a rule is none that a test has registered in this process."""
    module = getattr(getattr(rule, "fn", None), "__module__", None) or type(rule).__module__
    return module.startswith("theano_ng.") and ".tests" not in module and not module.startswith("theano_ng.gpuarray.")


def all_rules():
    """Dict: rule -> (name, set of tags), of everything in the databases and of the rules by their documented names."""
    theano_ng.function([], T.constant(1.0))  # rules are loaded with the first function
    rules = {}
    _registered(compile_mode.optdb, rules)
    for module in (opt, opt_sigm, theano_ng.ifelse, theano_ng.sparse.opt):
        for name, value in vars(module).items():
            if isinstance(value, LocalOptimizer) and value not in rules:
                rules[value] = (name, set())
    return {rule: named for rule, named in rules.items() if _is_own(rule)}


def sources(outputs):
    """The inputs of a graph that are no constants."""
    return [v for v in gof.graph.inputs(outputs) if not isinstance(v, gof.Constant)]


def _printed(fgraph):
    MergeOptimizer().optimize(fgraph)
    return shown(fgraph)


def _without_dtypes_of_numbers(text):
    return re.sub(r"(?<![\w.])(-?\d+)\.0?(?![\d])", r"\1", text).replace("True", "1").replace("False", "0")


class TestExamples(unittest.TestCase):
    def setUp(self):
        self._policy = config.on_opt_error
        config.on_opt_error = "raise"
        self.names = _namespace()

    def tearDown(self):
        config.on_opt_error = self._policy

    def graph(self, outputs):
        """A FunctionGraph with the features that rules ask."""
        fgraph = gof.FunctionGraph(sources(outputs), outputs, clone=True)
        fgraph.attach_feature(ShapeFeature())
        fgraph.attach_feature(theano_ng.sandbox.linalg.ops.HintsFeature())
        return fgraph

    def evaluated(self, text, like=None):
        """The variables of an expression."""
        value = eval(text, dict(self.names))
        outputs = list(value) if isinstance(value, (list, tuple)) else [value]
        if like is None:
            return outputs
        return [self.shaped(v, before) if isinstance(v, (bool, int, float)) else v for v, before in zip(outputs, like)]

    def shaped(self, number, like):
        value = T.constant(np.asarray(number, dtype=like.dtype))
        if not like.ndim:
            return value
        model = next(v for v in gof.graph.inputs([like]) if v.name and v.type.broadcastable == like.broadcastable)
        return T.fill(model, value)

    def values(self, outputs):
        inputs = sources(outputs)
        fn = theano_ng.function(inputs, outputs, mode=Mode("py", None), accept_inplace=True)
        with np.errstate(all="ignore"):
            return fn(*copy.deepcopy([VARIABLES[v.name][1] for v in inputs]))

    def check(self, rule, before, after, numbers=True):
        old = self.evaluated(before)
        new = self.evaluated(after, old)
        self.assertEqual(len(new), len(old))
        for a, b in zip(old, new):
            self.assertEqual(a.type, b.type)
        fgraph = self.graph(old)
        MergeOptimizer().optimize(fgraph)
        changes = ChangeTracker()
        fgraph.attach_feature(changes)
        if isinstance(rule, Optimizer):
            rule.optimize(fgraph)
        else:
            EquilibriumOptimizer([rule], max_use_ratio=10).optimize(fgraph)
        self.assertEqual([v.type for v in fgraph.outputs], [v.type for v in old])
        self.assertTrue(changes.changed, "the rule does not apply")
        self.assertEqual(
            _without_dtypes_of_numbers(_printed(fgraph)), _without_dtypes_of_numbers(_printed(self.graph(new)))
        )
        for a, b in zip(self.values(old), self.values(new)) if numbers else ():
            for one, other in zip(a, b) if isinstance(a, list) else [(a, b)]:
                self.assertEqual(one.dtype, other.dtype)
                one, other = (v.toarray() if scipy.sparse.issparse(v) else v for v in (one, other))
                np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)

    def test_every_rule_has_examples_that_hold(self):
        unexplained = []
        for rule, (name, tags) in all_rules().items():
            if name in NOT_EXECUTED:
                continue
            cases = examples("\n".join(OF_INSTANCES[name]) if name in OF_INSTANCES else rule.__doc__)
            if not cases:
                unexplained.append(name)
            for before, after, listed in cases:
                with self.subTest(rule=name, example="%s  ->  %s" % (before, after)):
                    self.check(rule, before, after, name not in OTHER_NUMBERS)
                if listed is not None:
                    with self.subTest(rule=name, tags=listed):
                        self.assertEqual(set(listed), tags)
        self.assertEqual(unexplained, [])

    def test_the_list_of_exceptions_is_needed(self):
        names = {name for name, _ in all_rules().values()}
        self.assertEqual((set(NOT_EXECUTED) | set(OTHER_NUMBERS)) - names, set())
        self.assertEqual(set(OF_INSTANCES) - names, set())

    def test_reading_examples(self):
        self.assertEqual(
            examples("""Title.

            f(x)  ->  g(x)          [canonicalize, fast_run]
            h(x)  ->  g(x,
                        1)

            This is f -> g in prose.
            """),
            [("f(x)", "g(x)", ["canonicalize", "fast_run"]), ("h(x)", "g(x, 1)", None)],
        )

    def test_wrong_examples_are_found(self):
        for before, after in [("x * x", "x"), ("x * y", "x * y"), ("x * x", "sqr(y)"), ("x * x", "sqr(f)")]:
            with self.assertRaises(AssertionError):
                self.check(opt.local_mul_to_sqr, before, after)


if __name__ == "__main__":
    unittest.main()
