"""Kinds of work that run while allocations fail (see `allocation_faults`): calls, compilation, caches and copies of
functions.

A kind is a function that returns a `Case`. Its docstring describes the work.
"""

import contextlib
import copy
import gc
import os
import pickle
import threading
from dataclasses import dataclass

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import sparse
from theano_ng.compile import graph_cache
from theano_ng.compile.functions.maker import std_fgraph
from theano_ng.compile.io import In, Out
from theano_ng.compile.mode import get_mode
from theano_ng.gof import link, native
from theano_ng.gof._destroyhandler import DynamicOrder
from theano_ng.gof._lock import Lock
from theano_ng.gof.deferred import run_later
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.rewriting.base import Optimizer, constant_makers
from theano_ng.gof.utils import fewer_collections
from theano_ng.ifelse import ifelse
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams
from theano_ng.tensor.shared_randomstreams import RandomStreams
from theano_ng.tensor.signal.pool import pool_2d
from theano_ng.typed_list import TypedListType


@dataclass
class Case:
    """Work that can be repeated.

    Attributes
    ----------
    do : callable
        A function without arguments that returns arrays, or lists or dicts of arrays.
    shared : list of SharedVariable
        The variables that `do` may update.
    compiles : bool
        Whether `do` compiles functions, which takes thousands of allocations.
    """

    do: callable
    shared: list = ()
    compiles: bool = False


KINDS = {}


def kind(make):
    """Register a kind under the name of its function."""
    KINDS[make.__name__] = make
    return make


PLANTED = {}


def planted(make):
    """Register a kind with a planted fault, which must be found."""
    PLANTED[make.__name__] = make
    return make


def of_calls(inputs, outputs, updates, *arguments, **options):
    """Return the case that calls one function."""
    f = theano.function(inputs, outputs, updates=updates, **options)
    return Case(lambda: f(*arguments), [s for s, _ in updates])


class PythonOp(Op):
    """An Op in Python that adds 1, optionally in place."""

    __props__ = ("in_place",)

    def __init__(self, in_place=False):
        self.in_place = in_place
        if in_place:
            self.destroy_map = {0: [0]}

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        if self.in_place:
            x[:1] += 1
            x[1:] += np.ones_like(x[1:])  # if memory runs out here, one element has changed
            outputs[0][0] = x
        else:
            outputs[0][0] = x + 1


def vector(n=5):
    return np.arange(float(n))


def pair(n=5):
    """Return two shared vectors."""
    return theano.shared(vector(n), "a"), theano.shared(vector(n), "c")


@kind
def outputs_alone():
    """Several outputs of fused loops, reductions and views."""
    x = T.dvector()
    return of_calls([x], [T.exp(x) * 2, x.sum(), x[::-1], T.tanh(x).max()], [], vector())


@kind
def output_dictionary():
    """Outputs by name."""
    x = T.dvector()
    return of_calls([x], {"sum": x.sum(), "twice": x * 2}, [], vector())


@kind
def output_subset():
    """A call for some of the outputs, with an update."""
    x, (a, c) = T.dvector(), pair()
    f = theano.function([x], [x.sum(), T.exp(x)], updates=[(a, a + x), (c, c * 2)])
    return Case(lambda: f(vector(), output_subset=[1]), [a, c])


@kind
def converted_arguments():
    """Arguments that are converted to arrays, a default value that is restored, and a mutable argument."""
    x, y = T.dmatrix(), T.dscalar("y")
    f = theano.function(
        [x, theano.In(y, value=2.0), theano.In(T.dvector("z"), value=vector(), mutable=True)],
        [x * y, T.sort(x, axis=0)],
        on_unused_input="ignore",
    )
    return Case(lambda: f([[1.0, 2.0], [3.0, 4.0]], y=3))


@kind
def default_overwritten():
    """A default value that the graph overwrites."""
    z = T.dvector("z")
    return of_calls([theano.In(z, value=vector(), mutable=True)], [T.exp(z) + 1], [])


@kind
def updates_in_place():
    """Two shared vectors that are overwritten, and an output."""
    x, (a, c) = T.dvector(), pair()
    return of_calls([x], [(a * x).sum()], [(a, a + x), (c, c * 2 + x)], vector())


@kind
def updates_in_place_large():
    """Updates in place of vectors that are too large to be copied before a call."""
    x, (a, c) = T.dvector(), pair(200000)
    return of_calls([x], [(a * x).sum(), T.exp(x) * 2], [(a, a + x), (c, c * 2 + x)], vector(200000))


@kind
def one_update_in_place():
    """A single node, which overwrites a shared vector."""
    x, a = T.dvector(), pair()[0]
    return of_calls([x], [], [(a, a + x)], vector())


@kind
def updates_swapped():
    """Two shared variables whose values are exchanged."""
    x, (a, c) = T.dvector(), pair()
    return of_calls([x], [a + x, c.sum()], [(a, c), (c, a)], vector())


@kind
def updates_of_other_shapes():
    """A shared variable whose value grows at each call."""
    x, a = T.dvector(), pair()[0]
    return of_calls([x], [a.shape], [(a, T.concatenate([a, x]))], vector())


@kind
def products_into_state():
    """Gemm, Gemv and Ger into shared arrays, followed by a loop."""
    x = T.dmatrix()
    w, b = theano.shared(np.ones((3, 4)), "w"), theano.shared(np.ones(4), "b")
    h = T.dot(x, w) + b
    cost = (h**2).sum()
    return of_calls([x], [cost], [(p, p - 0.01 * theano.grad(cost, p)) for p in (w, b)], np.ones((2, 3)))


@kind
def rows_of_state():
    """Increments and assignments of rows of two shared matrices, at variable indices."""
    i, x = T.lvector(), T.dvector()
    a, b = (theano.shared(np.zeros((6, 5)), name) for name in "ab")
    return of_calls(
        [i, x], [a.sum()], [(a, T.inc_subtensor(a[i], x)), (b, T.set_subtensor(b[i[0]], x))], [1, 3], vector()
    )


@kind
def streams():
    """Two streams of MRG_RandomStreams, and computations with the samples."""
    r, x = MRG_RandomStreams(7), T.dvector()
    u, v = r.uniform((5,), dtype="float64"), r.normal((6,), dtype="float64")
    f = theano.function([x], [T.exp(u * x).sum(), T.sort(v)], updates=[])
    return Case(lambda: f(vector()), [s for s, _ in r.state_updates])


@kind
def generators():
    """Two generators of RandomStreams, which are overwritten."""
    r, x = RandomStreams(7), T.dvector()
    u, v = r.uniform((5,)), r.normal((6,))
    f = theano.function([x], [T.exp(u * x).sum(), T.sort(v)])
    return Case(lambda: f(vector()), [s for s, _ in r.state_updates])


@kind
def python_op():
    """A Python Op after an update in place."""
    x, (a, c) = T.dvector(), pair()
    new = T.inc_subtensor(a[1:], x[1:])
    return of_calls([x], [PythonOp()(new).sum()], [(a, new), (c, c * 2)], vector())


@kind
def python_op_in_place():
    """A Python Op that overwrites shared state."""
    x, (a, c) = T.dvector(), pair()
    return of_calls([x], [], [(a, PythonOp(True)(a)), (c, c * 2 + x)], vector(), accept_inplace=True)


@kind
def python_machine():
    """Updates in place, run by the virtual machine in Python."""
    x, (a, c) = T.dvector(), pair()
    return of_calls([x], [(a * x).sum()], [(a, a + x), (c, c * 2 + x)], vector(), mode=theano.Mode("vm", "fast_run"))


@kind
def profiled():
    """A function that is profiled."""
    x, (a, c) = T.dvector(), pair()
    return of_calls(
        [x], [(a * x).sum()], [(a, a + x), (c, c * 2 + x)], vector(), profile=theano.ProfileStats(atexit_print=False)
    )


@kind
def times_of_nodes():
    """Lists that Cython creates from C numbers: the call counts and times of a virtual machine's nodes."""
    x = T.dvector()
    y = x
    for _ in range(12):
        y = T.sort(y * 2)
    f = theano.function([x], y)
    f.fn.time_thunks = True
    for _ in range(300):  # counts above 256, because CPython allocates an object for such integers
        f(vector())
    return Case(lambda: [f.fn.call_counts, f.fn.call_times])


@kind
def loop_by_kernel():
    """A loop that runs as one kernel."""
    x, h = T.dmatrix(), T.dvector()
    ys, _ = theano.scan(lambda row, state: T.tanh(row * state) + 1, sequences=x, outputs_info=[h])
    return of_calls([x, h], [ys[-1], ys.sum()], [], np.ones((4, 5)), vector())


@kind
def loop_by_machine():
    """A loop whose step sorts, with a state of two taps and an ending condition."""
    x = T.dmatrix()

    def step(row, before, last):
        new = T.sort(row * last) + before
        return new, theano.scan_module.until(new.sum() > 1e6)

    ys, _ = theano.scan(step, sequences=x, outputs_info=[dict(initial=x[:2], taps=[-2, -1])])
    return of_calls([x], [ys, ys.sum(axis=0)], [], np.arange(20.0).reshape(4, 5))


@kind
def loop_with_state():
    """A loop whose steps update a shared variable and draw random samples."""
    a, r, x = theano.shared(vector(), "a"), MRG_RandomStreams(7), T.dmatrix()
    draws = r.uniform((5,), dtype="float64")
    ys, updates = theano.scan(lambda row: (row * a + draws, {a: a + row}), sequences=x)
    f = theano.function([x], ys, updates=updates)
    return Case(lambda: f(np.ones((3, 5))), [a, *[s for s in updates if s is not a]])


@kind
def gradient_of_a_loop():
    """The gradient of a loop, as an update."""
    w, x = theano.shared(vector(), "w"), T.dmatrix()
    ys, _ = theano.scan(lambda row, state: T.tanh(row * state * w), sequences=x, outputs_info=[T.ones_like(x[0])])
    return of_calls([x], [ys.sum()], [(w, w - 0.1 * theano.grad(ys.sum(), w))], np.ones((3, 5)))


@kind
def lazy_branches():
    """A conditional, with updates."""
    x, b, (a, c) = T.dvector(), T.bscalar(), pair()
    return of_calls(
        [b, x], [ifelse(b, T.exp(x).sum(), T.sort(x)[0])], [(a, ifelse(b, a + x, a)), (c, c + x)], 1, vector()
    )


@kind
def shapes_and_sorting():
    """Native Ops that arrange, sort and select."""
    x, i = T.dmatrix(), T.lvector()
    return of_calls(
        [x, i],
        [
            T.concatenate([x, x.T]).reshape((-1, 2)),
            T.sort(x, axis=0),
            T.argsort(x, axis=1),
            x[i],
            x[i, i],
            T.cumsum(x, axis=1),
            T.diag(x),
            T.repeat(x, 2, axis=0),
            T.max_and_argmax(x, axis=0)[1],
            T.extra_ops.Unique()(x),
            T.nonzero(x)[0],
            T.set_subtensor(x[i], 1.0),
            T.alloc(x[0], 3, 4),
            T.arange(i[0]),
            T.eye(i[0], 4, 0),
        ],
        [],
        np.arange(16.0).reshape(4, 4),
        [2, 1],
    )


@kind
def products_and_solutions():
    """Native Ops of linear algebra, also on strided operands."""
    x, y = T.dmatrix(), T.dvector()
    return of_calls(
        [x, y],
        [
            T.dot(x, y),
            T.dot(x[::2], x[:, ::2]),
            T.slinalg.solve(x, y),
            T.nlinalg.det(x),
            T.nlinalg.matrix_inverse(x),
            T.slinalg.cholesky(T.dot(x, x.T)),
            T.batched_dot(x.dimshuffle(0, "x", 1), x.dimshuffle(0, 1, "x")),
        ],
        [],
        np.eye(4) * 2 + 0.1,
        vector(4),
    )


@kind
def nets():
    """Convolution, pooling, softmax and batch normalization, with gradients."""
    x, w = T.dtensor4(), T.dtensor4()
    y = pool_2d(T.nnet.conv2d(x, w), (2, 2), ignore_border=True)
    cost = T.nnet.softmax(y.flatten(2)).max(axis=1).sum()
    rng = np.random.RandomState(0)
    return of_calls([x, w], [cost, *theano.grad(cost, [x, w])], [], rng.rand(2, 2, 6, 6), rng.rand(3, 2, 3, 3))


@kind
def lists():
    """Typed lists, one of them shared."""
    v, kind_ = T.dvector(), TypedListType(T.dvector)
    s = theano.compile.sharedvalue.SharedVariable(name="s", type=kind_, value=[vector(), vector(3)], strict=False)
    return of_calls([v], [theano.typed_list.length(s)], [(s, theano.typed_list.append(s, v))], vector())


@kind
def sparse_matrices():
    """Native Ops on sparse matrices."""
    import scipy.sparse

    x, y = sparse.csr_matrix("x", "float64"), T.dmatrix()
    value = scipy.sparse.csr_matrix(np.eye(4))
    return of_calls([x, y], [sparse.structured_dot(x, y), sparse.sp_sum(x, axis=1)], [], value, np.ones((4, 3)))


@kind
def what_compiling_changes_for_a_while():
    """Flags, collector thresholds, constant makers and gathered kernels are restored, even if memory runs out."""
    x = T.dvector()
    sums = T.exp(x).sum() + T.dot(x, x)

    class TakesMemory(Optimizer):
        def apply(self, fgraph):
            bytearray(1000)

    def do():
        flags = theano.config.change_flags(cache_graphs=not theano.config.cache_graphs)
        with flags, fewer_collections(), link.native_kernels([v.owner for v in sums.owner.inputs]):
            TakesMemory().optimize(None)
        left = [make.enable for make in constant_makers], len(link._gathered), len(native._prepared)
        return str(left)

    return Case(do)


@kind
def a_lock():
    """A block with a lock, which is released even if memory runs out."""
    lock = Lock()

    def do():
        gc.collect()  # free the tuples that CPython keeps for reuse, so that each call allocates them
        with lock:
            bytearray(1000)
        return int(lock._is_owned())

    return Case(do)


@kind
def a_copy_of_a_function():
    """`Function.copy`, and a call of the copy."""
    x, (a, c) = T.dvector(), pair()
    f = theano.function([x], [(a * x).sum()], updates=[(a, a + x), (c, c * 2 + x)])
    return Case(lambda: f.copy()(vector()), [a, c], compiles=True)


@kind
def a_pickled_function():
    """Pickling and unpickling of a function, and a call of the copy."""
    x = T.dvector()
    f = theano.function([x], [T.exp(x).sum(), x[::-1]])
    return Case(lambda: pickle.loads(pickle.dumps(f))(vector()), compiles=True)


def compiled(**flags):
    """Return the case that compiles and calls a function with an update in place, a product and a view."""

    def do():
        with theano.config.change_flags(**flags):
            x = T.dvector("x")
            a = theano.shared(vector(), "a")
            f = theano.function([x], [T.exp(x * 2).sum(), T.dot(x, x), x[::-1]], updates=[(a, a + x)])
        return [*f(vector()), a.get_value()]

    return Case(do, compiles=True)


@kind
def compilation():
    """Rewriting and linking, without the cache of rewritten graphs."""
    return compiled(cache_graphs=False)


@kind
def compilation_of_known_graphs():
    """Linking of a graph that is in the cache of rewritten graphs."""
    return compiled()


@kind
def an_entry_of_the_graph_cache():
    """Writing and reading an entry of the cache of rewritten graphs, or reading the entry that a failed call left."""
    x = T.dvector("x")
    y = T.exp(x * (2 + os.getpid())).sum()  # no other process has this graph
    fgraph = FunctionGraph([x], [y])
    entry = graph_cache.find(get_mode(None), [In(x)], [Out(y)], False, std_fgraph.features)

    def do():
        run_later.finish()  # wait for the write that a failed call started
        loaded = entry.load()
        if loaded is None:
            entry.save(fgraph)
            run_later.finish()
            loaded = entry.load() or fgraph  # without memory for the entry, `save` stores nothing
        with contextlib.suppress(FileNotFoundError):
            os.unlink(entry.path)
        return [len(loaded.toposort()), theano.pp(loaded.outputs[0])]

    return Case(do)


@kind
def a_kernel_that_arrives():
    """Compiling for the interpreter, and a kernel that replaces the interpreted program."""

    def do():
        x = T.dvector("x")
        with theano.config.change_flags(tiered="on"):
            f = theano.function([x], T.exp(x * 2).sum())
        run_later.finish()
        return f(vector())

    return Case(do, compiles=True)


@kind
def compilation_beside_another_thread():
    """Compiling and calling a function while another thread does the same. The allocations of that thread succeed."""
    begin, done = threading.Lock(), threading.Lock()
    failures = []

    def build():
        x = T.dvector("x")
        return theano.function([x], T.tanh(x * 2).sum())(vector())

    def serve():
        while True:
            begin.acquire()
            try:
                np.testing.assert_equal(build(), expected)
            except Exception as failure:
                failures.append(str(failure))
            done.release()

    def do():
        begin.release()
        try:
            return build()
        finally:
            done.acquire()
            if failures:
                raise ValueError("the other thread failed: " + failures[0])

    expected = build()
    begin.acquire()
    done.acquire()
    threading.Thread(target=serve, daemon=True).start()
    return Case(do, compiles=True)


@kind
def compilation_of_a_loop():
    """Linking of a loop, whose step is compiled too."""

    def do():
        x, h = T.dmatrix("x"), T.dvector("h")
        ys, _ = theano.scan(lambda row, state: T.sort(T.tanh(row * state)), sequences=x, outputs_info=[h])
        return theano.function([x, h], ys)(vector(15).reshape(3, 5), vector())

    return Case(do, compiles=True)


@kind
def compilation_of_an_inlined_graph():
    """Linking of a graph with two OpFromGraph nodes, of which one is inlined."""

    def do():
        x, y = T.dvectors("xy")
        twice, kept = (theano.OpFromGraph([x], [T.exp(x) + x], inline=inline) for inline in (True, False))
        return theano.function([y], [twice(y), kept(y)])(vector())

    return Case(do, compiles=True)


def graph_with_a_loop():
    """Return a vector, and a scalar that is computed from it by a loop, a product and an index."""
    x = T.dvector("x")
    ys, _ = theano.scan(lambda state: T.tanh(state * x), outputs_info=[T.ones_like(x)], n_steps=3)
    return x, (T.dot(ys[-1], x) + x[1:].sum())


@kind
def cloning():
    """`theano.clone` with a replacement."""
    x, cost = graph_with_a_loop()
    z = T.dvector("z")
    return Case(lambda: theano.pp(theano.clone(cost, {x: z * 2})), compiles=True)


@kind
def differentiation():
    """`theano.grad` alone."""
    x, cost = graph_with_a_loop()
    return Case(lambda: theano.pp(theano.grad(cost, x)), compiles=True)


@kind
def deep_copies():
    """`copy.deepcopy` of a function."""
    x = T.dvector()
    f = theano.function([x], [T.exp(x).sum(), x[::-1]])
    return Case(lambda: copy.deepcopy(f)(vector()), compiles=True)


@kind
def order_of_nodes():
    """The destroy handler's order of nodes: nodes are added and moved. After a failure, all nodes can be removed."""
    nodes = range(40)
    before = {n: [n - 2] if n > 2 else [] for n in nodes}
    after = {n: [m for m in nodes if n in before[m]] for n in nodes}

    def do():
        order = DynamicOrder(after.get, before.get)
        try:
            for n in nodes:
                order.place(n)
            order.add_edges([(n + 1, n) for n in range(0, 40, 4)])
            return list(order)
        finally:
            for n in nodes:
                order.remove(n)
            if list(order):
                raise ValueError("nodes are left")

    return Case(do)


@kind
def values_of_shared_variables():
    """`set_value` and `get_value`."""
    a = theano.shared(vector(), "a")

    def do():
        value = a.get_value()
        a.set_value(value + 1)
        return value

    return Case(do, [a])


def faulty(fault, shared=()):
    """Return a case that makes forty allocations, and calls `fault` if the allocation in the middle fails."""

    def do():
        for i in range(40):
            try:
                bytes(1000)  # one allocation; a bytearray takes two
            except MemoryError:
                if i == 20:
                    fault()
                raise
        return 0

    return Case(do, shared)


@planted
def a_block_is_left():
    """A failure at one position leaks one block of memory."""
    kept = []
    return faulty(lambda: kept.append(object()))


@planted
def a_reference_is_left():
    """A failure at one position leaks one reference to an existing object."""
    kept = []
    return faulty(lambda: kept.append(T.exp))


@planted
def state_is_torn():
    """A failure at one position changes a shared variable."""
    a = theano.shared(vector(), "a")
    return faulty(lambda: a.set_value(vector() + 1), [a])


@planted
def a_flag_is_left():
    """A failure at one position changes a flag."""
    return faulty(lambda: setattr(theano.config, "cache_graphs", not theano.config.cache_graphs))
