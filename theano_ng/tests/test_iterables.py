"""Tests that functions accept iterators, dictionary views and other collections instead of lists, or refuse them.

An iterator can be read only once. A function that reads it twice finds no elements the second time, and silently does
only a part of its work.
"""

import collections
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.sandbox.rng_mrg
import theano_ng.tensor as T
import theano_ng.tensor.shared_randomstreams
from theano_ng.compile.pfunc import pfunc, rebuild_collect_shared
from theano_ng.gof import graph, toolbox
from theano_ng.gof.utils import difference, uniq
from theano_ng.scan.editing import reconstruct_graph
from theano_ng.scan.mapping import map_variables
from theano_ng.tensor.nnet.bn import batch_normalization_train
from theano_ng.tensor.nnet.neighbours import images2neibs
from theano_ng.tensor.signal.pool import pool_2d

x, y = T.dvectors("x", "y")
s = T.dscalar("s")
A, B = T.dmatrices("A", "B")
t3 = T.dtensor3("t3")
random = np.random.RandomState(0)
VALUES = {
    x: random.rand(3),
    y: random.rand(3),
    s: np.array(0.5),
    A: random.rand(3, 3),
    B: random.rand(3, 3),
    t3: random.rand(2, 3, 4),
}

KINDS = {
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda elements: (e for e in elements),
    "map": lambda elements: map(lambda e: e, elements),
    "values": lambda elements: dict(enumerate(elements)).values(),
    "deque": collections.deque,
}


def array(elements):
    return np.array(elements)


def numbers_of(outputs):
    """Return the values of an expression, or of a list of expressions, as nested lists."""
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    f = theano.function(list(VALUES), outputs, on_unused_input="ignore", mode="FAST_COMPILE")
    return [np.asarray(value).tolist() for value in f(*VALUES.values())]


def updated(compiled):
    """Return a case: a function that returns the values of two shared variables after updates.

    `compiled` compiles a function from the updates.
    """

    def case(kind):
        a, b = theano.shared(1.0), theano.shared(2.0)
        compiled(kind([(a, a + 1), (b, b * 5)]))()
        return [float(a.get_value()), float(b.get_value())]

    return case


def ordered(pairs):
    updates = theano.OrderedUpdates()
    updates.update(pairs)
    return theano.function([], [], updates=updates)


def updates_of_step(kind):
    a, b = theano.shared(0.0), theano.shared(1.0)
    outputs, updates = theano.scan(lambda v: (v * 2, kind([(a, a + v), (b, b * 2)])), sequences=x)
    f = theano.function([x], outputs, updates=updates)
    return f(VALUES[x]).tolist(), float(a.get_value()), float(b.get_value())


def rebuilt(kind):
    a = theano.shared(1.0)
    inputs, outputs, (_, updates, _, found) = rebuild_collect_shared(
        [x * s, y], inputs=kind([x, y]), replace=kind([(s, y.sum())]), updates=kind([(a, a + 1)])
    )
    return len(inputs), [theano.pp(v) for v in outputs], [theano.pp(v) for v in updates.values()], found == [a]


def replaced(kind):
    fgraph = theano.gof.FunctionGraph([x, y, s], [x * s, y * s])
    fgraph.attach_feature(toolbox.ReplaceValidate())
    first, second, factor = fgraph.inputs
    fgraph.replace_all_validate(kind([(fgraph.outputs[0], first + factor), (fgraph.outputs[1], second - factor)]))
    return [theano.pp(v) for v in fgraph.outputs]


def rule(kind):
    found = theano.gof.local_optimizer(kind([T.elemwise.Elemwise, T.Dot]))(lambda node: [])
    return list(found.tracks()), found.transform(T.dot(x, y).owner), found.transform(T.sum(x).owner)


def given_constant(derivative):
    """Return a case: a function that returns a derivative of an expression in which two factors are constants."""

    def case(kind):
        factors = [x * 2, x + 1]
        return numbers_of(derivative(factors[0] * factors[1] * x * x, kind(factors)))

    return case


def random_stream(kind):
    stream = T.shared_randomstreams.RandomStreams(1)
    f = theano.function([], stream.normal(size=kind([2, 2]), avg=kind([1.0, 2.0])))
    return f().tolist()


def pairs_of_default_updates(kind):
    stream = T.shared_randomstreams.RandomStreams(1)
    u = stream.uniform()
    f = theano.function([], u, no_default_updates=kind([u.rng]))
    return float(f()), float(f())


def printed(kind):
    seen = []
    op = theano.printing.Print("v", attrs=kind(["shape", "dtype"]), global_fn=lambda op, value: seen.append(op.attrs))
    f = theano.function([x], op(x))
    f(VALUES[x]), f(VALUES[x])
    return seen


# These functions read each element once, so they accept any iterable.
TAKEN = {
    "OrderedUpdates": updated(lambda pairs: theano.function([], [], updates=theano.OrderedUpdates(pairs))),
    "OrderedUpdates.update": updated(ordered),
    "OrderedUpdates +": updated(lambda pairs: theano.function([], [], updates=theano.OrderedUpdates() + pairs)),
    "OrderedUpdates |": updated(lambda pairs: theano.function([], [], updates=theano.OrderedUpdates() | pairs)),
    "function, updates": updated(lambda pairs: theano.function([], [], updates=pairs)),
    "pfunc, updates": updated(lambda pairs: pfunc([], [], updates=pairs)),
    "function, givens": lambda kind: theano.function(
        [x], x * s + A.sum(), givens=kind([(s, x.sum()), (A, T.outer(x, x))])
    )(VALUES[x]).tolist(),
    "pfunc, givens": lambda kind: pfunc([x], x * s, givens=kind([(s, x.sum())]))(VALUES[x]).tolist(),
    "rebuild_collect_shared": rebuilt,
    "clone, replace": lambda kind: numbers_of(theano.clone([x + y, x * s], replace=kind([(x, y), (s, y.sum())]))),
    "grad, consider_constant": given_constant(lambda e, v: theano.grad(e.sum(), x, consider_constant=v)),
    "Lop, consider_constant": given_constant(lambda e, v: theano.gradient.Lop([e], [x], [y], consider_constant=v)),
    "jacobian, consider_constant": given_constant(lambda e, v: theano.gradient.jacobian(e, x, consider_constant=v)),
    "hessian, consider_constant": given_constant(lambda e, v: theano.gradient.hessian(e.sum(), x, consider_constant=v)),
    "hessian, two variables": given_constant(
        lambda e, v: theano.gradient.hessian((e * y * y).sum(), [x, y], consider_constant=v)
    ),
    "grad, known_grads": lambda kind: (
        lambda square: numbers_of(theano.grad(None, [x], known_grads=collections.OrderedDict(kind([(square, y)]))))
    )(x * x),
    "replace_all_validate": replaced,
    "local_optimizer": rule,
    "map_variables": lambda kind: numbers_of(map_variables(lambda v: v * 2 if v is x else v, kind([x + y, x * y]))),
    "reconstruct_graph": lambda kind: [
        [str(v) for v in part] for part in reconstruct_graph(kind([x, y]), kind([x + y, x * y]))
    ],
    "uniq": lambda kind: [uniq(kind([1, 2, 1])), uniq(kind([[1], [2], [1]]))],
    "difference": lambda kind: [difference(kind([1, 2, 3]), kind([2])), difference(kind([[1], [2]]), kind([[2]]))],
    "TensorType": lambda kind: [
        T.TensorType("float64", kind([False, True])) == T.TensorType("float64", [False, True]),
        T.TensorType("float64", kind([False, True])).ndim,
        str(T.dmatrix.clone(broadcastable=kind([False, True]))),
        str(theano.shared(np.ones((1, 3)), broadcastable=kind([True, False])).type),
    ],
    "is_same_graph, givens": lambda kind: graph.is_same_graph(x + y, x + s, givens=kind([(s, y)])),
    "ancestors": lambda kind: len(list(graph.ancestors(kind([x + y]), blockers=kind([x])))),
    "inputs": lambda kind: [str(v) for v in graph.inputs(kind([x + y, x * s]))],
    "including": lambda kind: [
        rule.name for rule in theano.compile.get_mode("FAST_RUN").including(*kind(["inplace"])).optimizer
    ],
    "Query": lambda kind: [
        rule.name
        for rule in theano.compile.optdb.query(
            theano.gof.Query(include=kind(["fast_run"]), exclude=kind(["inplace", "fusion"]), require=kind([]))
        )
    ],
    "Print, attrs": printed,
    "Sum": lambda kind: numbers_of(T.elemwise.Sum(axis=kind([2, 0]))(t3)),
    "transpose": lambda kind: numbers_of([T.transpose(t3, kind([2, 0, 1])), t3.transpose(kind([2, 0, 1]))]),
    "tensordot": lambda kind: numbers_of(T.tensordot(A, B, axes=kind([kind([0, 1]), kind([1, 0])]))),
    "clone_with_new_inputs": lambda kind: str((x + y).owner.clone_with_new_inputs(kind([y, x]))),
}

# These functions need a list. For any other collection, they return the same value as for a list, or raise an error.
# Without the error, many of them would treat the collection as a single object.
TAKEN_OR_REFUSED = {
    "function, inputs": lambda kind: theano.function(kind([x, y]), x + y)(VALUES[x], VALUES[y]).tolist(),
    "function, outputs": lambda kind: [
        v.tolist() for v in theano.function([x, y], kind([x + y, x * y]))(VALUES[x], VALUES[y])
    ],
    "function, no_default_updates": pairs_of_default_updates,
    "clone, output": lambda kind: numbers_of(theano.clone(kind([x + y, x * y]))),
    "grad, wrt": lambda kind: numbers_of(theano.grad((x * y).sum(), kind([x, y]))),
    "jacobian, wrt": lambda kind: numbers_of(theano.gradient.jacobian(x * y, kind([x, y]))),
    "hessian, wrt": lambda kind: numbers_of(theano.gradient.hessian((x * x * y).sum(), kind([x, y]))),
    "Rop": lambda kind: numbers_of(theano.gradient.Rop(kind([x * y, x + y]), kind([x, y]), kind([y, x]))),
    "Lop": lambda kind: numbers_of(theano.gradient.Lop(kind([x * y, x + y]), kind([x, y]), kind([y, x]))),
    "subgraph_grad": lambda kind: (
        lambda square: [
            numbers_of(part)
            for part in theano.gradient.subgraph_grad(kind([x]), kind([square]), cost=(square * y).sum())
        ]
    )(x * x),
    "scan, sequences": lambda kind: numbers_of(theano.scan(lambda a, b: a + b, sequences=kind([x, y]))[0]),
    "scan, non_sequences": lambda kind: numbers_of(
        theano.scan(lambda a, b, c: a + b * c.sum(), sequences=x, non_sequences=kind([y, y + 1]))[0]
    ),
    "scan, outputs_info": lambda kind: numbers_of(
        theano.scan(lambda a, p, q: [a + p * q, q + 1], sequences=x, outputs_info=kind([s, s + 1]))[0]
    ),
    "scan, taps": lambda kind: numbers_of(
        theano.scan(lambda a, b: a - b, sequences=dict(input=x, taps=kind([0, -1])))[0]
    ),
    "scan, taps of an output": lambda kind: numbers_of(
        theano.scan(lambda a, p, q: a + p * q, sequences=x, outputs_info=dict(initial=y[:2], taps=kind([-1, -2])))[0]
    ),
    "scan, outputs of a step": lambda kind: numbers_of(
        theano.scan(lambda a, b: kind([a + b, a * b]), sequences=[x, y])[0]
    ),
    "scan, updates of a step": updates_of_step,
    "map": lambda kind: numbers_of(theano.map(lambda a, b, c: a + b * c.sum(), kind([x, y]), kind([y]))[0]),
    "reduce": lambda kind: numbers_of(theano.reduce(lambda a, b, p: a + b * p, kind([x, y]), kind([s]))[0]),
    "foldl": lambda kind: numbers_of(theano.foldl(lambda a, p, c: a * p + c.sum(), kind([x]), s, kind([y]))[0]),
    "foldr": lambda kind: numbers_of(theano.foldr(lambda a, p, c: a * p + c.sum(), kind([x]), s, kind([y]))[0]),
    "ifelse": lambda kind: numbers_of(theano.ifelse.ifelse(s > 0, kind([x, y]), kind([y, x]))),
    "OpFromGraph": lambda kind: numbers_of(theano.OpFromGraph(kind([x, y]), kind([x + y, x * y]))(x, y)),
    "OpFromGraph, overrides": lambda kind: numbers_of(
        theano.grad(
            theano.OpFromGraph([x, y], [x * y], grad_overrides=kind([lambda i, g: g[0], lambda i, g: g[0] * 2]))(
                x, y
            ).sum(),
            [x, y],
        )
    ),
    "FunctionGraph": lambda kind: str(theano.gof.FunctionGraph(kind([x, y]), kind([x + y, x * y]))),
    "io_toposort": lambda kind: [str(node) for node in graph.io_toposort(kind([x, y]), kind([x + y, (x + y) * x]))],
    "clone_get_equiv": lambda kind: len(graph.clone_get_equiv(kind([x, y]), kind([x + y]))),
    "Apply": lambda kind: str(theano.gof.Apply((x + y).owner.op, kind([x, y]), kind([T.dvector()]))),
    "stack": lambda kind: numbers_of(T.stack(kind([x, y]))),
    "concatenate": lambda kind: numbers_of(T.concatenate(kind([x, y]))),
    "stacklists": lambda kind: numbers_of(T.stacklists(kind([kind([s, s + 1]), kind([s, s * 2])]))),
    "as_tensor_variable": lambda kind: numbers_of(T.as_tensor_variable(kind([s, s + 1]))),
    "choose": lambda kind: numbers_of(T.choose(T.constant([0, 1, 0]), kind([x, y]))),
    "ravel_multi_index": lambda kind: numbers_of(
        T.ravel_multi_index(kind([T.constant([0, 1]), T.constant([1, 2])]), kind([3, 4]))
    ),
    "reshape to variables": lambda kind: numbers_of(t3.reshape(kind([t3.shape[1], -1]))),
    "dimshuffle": lambda kind: numbers_of(t3.dimshuffle(kind([2, 0, "x", 1]))),
    "patternbroadcast": lambda kind: numbers_of(T.patternbroadcast(A, kind([False, False]))),
    "make_list": lambda kind: [
        v.tolist() for v in theano.function([x, y], theano.typed_list.make_list(kind([x, y])))(VALUES[x], VALUES[y])
    ],
    "value of a typed list": lambda kind: (
        lambda values: [v.tolist() for v in theano.function([values], values)(kind([VALUES[x], VALUES[y]]))]
    )(theano.typed_list.TypedListType(T.dvector)()),
    "verify_grad": lambda kind: T.verify_grad(
        lambda a, b: a * b, kind([VALUES[x], VALUES[y]]), rng=np.random.RandomState(1)
    ),
    "sparse.vstack": lambda kind: numbers_of(
        theano.sparse.dense_from_sparse(
            theano.sparse.vstack(kind([theano.sparse.csr_from_dense(A), theano.sparse.csr_from_dense(B)]))
        )
    ),
    "as_op": lambda kind: numbers_of(
        theano.compile.ops.as_op(kind([T.dvector, T.dvector]), kind([T.dvector]))(lambda a, b: a + b)(x, y)
    ),
    "Composite": lambda kind: (lambda a, b: str(theano.scalar.Composite(kind([a, b]), kind([a + b, a * b]))))(
        theano.scalar.float64("a"), theano.scalar.float64("b")
    ),
    "debugprint": lambda kind: theano.printing.debugprint(kind([x + y, x * y]), file="str"),
}

# Cases whose arguments are sequences of numbers. The test of arrays passes NumPy arrays for these sequences.
OF_NUMBERS = {
    **{
        name + ", axis": lambda kind, name=name: numbers_of(
            [getattr(T, name)(t3, axis=kind([0, 2])), getattr(T, name)(t3, axis=kind([0, 2]), keepdims=True)]
        )
        for name in "sum prod mean var std max min argmax argmin any all".split()
    },
    "reshape": lambda kind: numbers_of(t3.reshape(kind([3, 8]))),
    "zeros": lambda kind: numbers_of(T.zeros(kind([2, 3]))),
    "tile": lambda kind: numbers_of(T.tile(A, kind([2, 1]))),
    "repeat": lambda kind: numbers_of(T.repeat(x, kind([1, 2, 3]))),
    "split": lambda kind: numbers_of(T.split(x, kind([1, 2]), 2)),
    "take": lambda kind: numbers_of(T.take(A, kind([0, 2]), axis=0)),
    "switch": lambda kind: numbers_of(T.switch(kind([1, 0, 1]), x, y)),
    "dot": lambda kind: numbers_of(T.dot(kind([1.0, 2.0, 3.0]), A)),
    "constant": lambda kind: numbers_of(T.constant(kind([1.0, 2.0]))),
    "an argument": lambda kind: theano.function([x], x * 2)(kind([1.0, 2.0, 3.0])).tolist(),
    "unravel_index": lambda kind: numbers_of(T.unravel_index(T.constant([3, 4]), kind([3, 4]))),
    "pool_2d": lambda kind: numbers_of(
        pool_2d(t3, ws=kind([2, 2]), ignore_border=True, stride=kind([1, 1]), pad=kind([0, 0]))
    ),
    "conv2d": lambda kind: numbers_of(
        T.nnet.conv2d(
            t3.dimshuffle("x", 0, 1, 2),
            T.constant(np.ones((1, 2, 2, 2))),
            input_shape=kind([1, 2, 3, 4]),
            filter_shape=kind([1, 2, 2, 2]),
            subsample=kind([1, 2]),
            filter_dilation=kind([1, 1]),
        )
    ),
    "images2neibs": lambda kind: numbers_of(images2neibs(t3.dimshuffle("x", 0, 1, 2), kind([1, 2]), kind([1, 1]))),
    "batch_normalization_train": lambda kind: numbers_of(
        batch_normalization_train(t3, t3[:1, :, :1], t3[:1, :, :1], axes=kind([0, 2]))[0]
    ),
    "size of a random stream": random_stream,
    "size of MRG streams": lambda kind: theano.function(
        [], theano.sandbox.rng_mrg.MRG_RandomStreams(3).uniform(size=kind([2, 2]))
    )().tolist(),
    "seed of MRG streams": lambda kind: (
        theano.function([], theano.sandbox.rng_mrg.MRG_RandomStreams(kind([1, 2, 3, 4, 5, 6])).uniform(size=(2,)))()
    ).tolist(),
}


class TestIterables(unittest.TestCase):
    def _compare(self, cases, kinds, refusals):
        for name, case in cases.items():
            expected = case(list)
            for kind, collection in kinds.items():
                with self.subTest(given=name, kind=kind):
                    try:
                        got = case(collection)
                    except refusals:
                        continue
                    np.testing.assert_equal(got, expected)

    def test_taken(self):
        self._compare(TAKEN, KINDS, ())

    def test_taken_or_refused(self):
        # `function` refuses inputs with an Exception, as documented.
        self._compare(TAKEN_OR_REFUSED, KINDS, Exception)

    def test_numbers(self):
        self._compare(OF_NUMBERS, KINDS, (TypeError, ValueError))

    def test_arrays_of_numbers(self):
        sizes_only_in_tuples = {"size of MRG streams", "an argument"}
        self._compare(
            {name: case for name, case in OF_NUMBERS.items() if name not in sizes_only_in_tuples}, {"array": array}, ()
        )

    def test_tuples_are_lists(self):
        for name, case in {**TAKEN_OR_REFUSED, **OF_NUMBERS}.items():
            if name != "subgraph_grad":  # this function accepts lists only
                with self.subTest(given=name):
                    np.testing.assert_equal(case(tuple), case(list))

    def test_updates_that_disagree(self):
        a = theano.shared(1.0)
        for join in (
            lambda updates: updates.update(iter([(a, a + 3)])),
            lambda updates: updates | {a: a + 3},
            lambda updates: {a: a + 3} | updates,
            lambda updates: updates.__ior__({a: a + 3}),
            lambda updates: updates + {a: a + 3},
        ):
            with self.assertRaises(KeyError):
                join(theano.OrderedUpdates([(a, a + 2)]))
