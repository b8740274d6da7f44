import copy
import logging
import pickle
import sys
import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile import ops
from theano_ng.compile.ops import as_op
from theano_ng.gof import CLinker
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.type import Generic
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor.tests.single_node import check_node, run_node


def _dot_shape(node, input_shapes):
    a, b = input_shapes
    return [a[:-1] + b[-1:]]


@as_op(itypes=[T.fmatrix, T.fmatrix], otypes=[T.fmatrix], infer_shape=_dot_shape)
def numpy_dot(a, b):
    return np.dot(a, b)


class Holder:
    @as_op(T.dscalar, T.dscalar)
    def doubled(a):
        return 2 * a


class TestNodes(unittest.TestCase):
    def test_copies_and_views(self):
        x = T.dmatrix()
        v = np.arange(6.0).reshape(2, 3).T[::-1]
        for op in (ops.deep_copy_op, ops.view_op, ops.OutputGuard()):
            check_node(self, op(x), {x: v}, v)
        for impl in ("c", "py"):
            self.assertFalse(np.shares_memory(run_node(ops.deep_copy_op(x), {x: v}, impl)[0], v))
            self.assertIs(run_node(ops.view_op(x), {x: v}, impl)[0], v)
        self.assertEqual((ops.OutputGuard().destroy_map, ops.OutputGuard().view_map), ({0: [0]},) * 2)

    def test_copies_of_numbers(self):
        c = theano.scalar.complex64("c")
        in_c = [theano.Mode("c", None)] if theano.config.cxx else []
        for mode in ("FAST_COMPILE", "FAST_RUN", *in_c, "DebugMode"):
            f = theano.function(
                [c], [c, ops.view_op(c), ops.deep_copy_op(ops.view_op(c)), ops.deep_copy_op(c) + c], mode=mode
            )
            self.assertEqual(f(1 + 2j), [1 + 2j, 1 + 2j, 1 + 2j, 2 + 4j])

    def test_shapes(self):
        x, s = T.dmatrix(), T.lvector()
        v = np.ones((2, 0))
        check_node(self, ops.shape(x), {x: v}, np.array([2, 0]))
        check_node(self, ops.Shape_i(1)(x), {x: v}, np.array(0))
        c = T.dscalar()
        check_node(self, ops.shape(c), {c: np.ones(())}, np.zeros(0, "int64"))
        check_node(self, ops.specify_shape(x, s), {x: v, s: np.array([2, 0])}, v)
        for wanted, text in (
            ([2, 1], "dim 1 of input has shape 0, expected 1"),
            ([2], "has 1 elements, but the input has 2"),
        ):
            for impl in ("c", "py"):
                with self.assertRaisesRegex(AssertionError, text):
                    run_node(ops.specify_shape(x, s), {x: v, s: np.array(wanted)}, impl)
        self.assertRaises(TypeError, ops.Shape_i(2), x)
        self.assertRaises(AssertionError, ops.specify_shape, x, (1, 2, 3))
        self.assertEqual(
            [str(op) for op in (ops.shape, ops.Shape_i(1), ops.specify_shape, ops.deep_copy_op, ops.view_op)],
            ["Shape", "Shape_i{1}", "SpecifyShape", "DeepCopyOp", "ViewOp"],
        )

    def test_rebroadcast(self):
        x = T.dmatrix()
        op = ops.Rebroadcast((0, True), (1, False))
        self.assertEqual((op(x).broadcastable, str(op)), ((True, False), "Rebroadcast{1,0}"))
        self.assertEqual(op, ops.Rebroadcast((1, False), (0, True)))
        self.assertEqual(hash(op), hash(pickle.loads(pickle.dumps(op))))
        check_node(self, op(x), {x: np.ones((1, 3))}, np.ones((1, 3)))
        for impl in ("c", "py"):
            with self.assertRaisesRegex(ValueError, "Dimension 0 in Rebroadcast's input was supposed to be 1 .got 2"):
                run_node(op(x), {x: np.ones((2, 3))}, impl)
        self.assertRaises(ValueError, ops.Rebroadcast((2, True)), x)
        self.assertRaises(TypeError, ops.Rebroadcast, (0, 1))
        self.assertRaises(TypeError, ops.Rebroadcast, ("0", True))
        self.assertRaisesRegex(ValueError, "two patterns for the same axis", ops.Rebroadcast, (0, True), (0, False))
        self.assertRaisesRegex(ValueError, "axes must not be negative", ops.Rebroadcast, (-1, True))
        self.assertRaisesRegex(ValueError, "non-existent dimension", ops.Rebroadcast((2, True)), x)
        self.assertEqual(ops.Rebroadcast((np.int64(0), np.bool_(True)))([[1.0, 2.0]]).broadcastable, (True, False))
        self.assertEqual(
            [str(ops.Rebroadcast(*pairs)) for pairs in ((), [(2, True)])], ["Rebroadcast{}", "Rebroadcast{?,?,1}"]
        )
        self.assertIn("Rebroadcast{1,0} [id A]", theano.printing.debugprint(op(x), file="str"))

    def test_specify_shape_refuses_what_is_no_complete_shape(self):
        x, n = T.dmatrix("x"), T.iscalar("n")
        for shape, error, text in (
            ((None, 3), TypeError, "complete shape, got .None, 3."),
            ([n], AssertionError, "1 sizes given for a variable"),
            (np.array([2]), AssertionError, "1 sizes given"),
            ((1.5, 2), AssertionError, "integer sizes, got dtype float64"),
            ((-1, 2), ValueError, r"negative size: \[-1, 2\]"),
            (T.lmatrix(), AssertionError, "vector of sizes"),
        ):
            with self.assertRaisesRegex(error, text):
                ops.specify_shape(x, shape)
        for shape in ((2, n), [2, n], np.array([2, 3]), T.as_tensor_variable([2, 3]), (np.int8(2), 3)):
            f = theano.function([x, n], ops.specify_shape(x, shape), on_unused_input="ignore", mode="FAST_COMPILE")
            self.assertEqual(f(np.ones((2, 3)), 3).shape, (2, 3))
            with self.assertRaisesRegex(AssertionError, "dim 0 of input has shape 3, expected 2"):
                f(np.ones((3, 3)), 3)
        self.assertEqual(theano.function([], ops.specify_shape([[1.0, 2.0]], (1, 2)))().tolist(), [[1, 2]])


class TestGraphs(unittest.TestCase):
    def test_shape_functions(self):
        """A function that returns only the shape of a variable does not compute the values of the variable.

        Therefore a function for the shape of a join does not report mismatched inputs. Only the join itself does.
        """
        x, y = T.matrix(), T.matrix()
        f = theano.function([x], (x**2).shape)
        self.assertLessEqual(
            {type(n.op).__name__ for n in f.maker.fgraph.toposort()}, {"MakeVector", "Shape_i", "DeepCopyOp"}
        )
        self.assertEqual(f(np.ones((2, 3), x.dtype)).tolist(), [2, 3])
        z = T.join(0, x, y)
        a, b = np.ones((5, 4), x.dtype), np.ones((3, 3), x.dtype)
        self.assertEqual(theano.function([x, y], z.shape, mode="FAST_RUN")(a, b).tolist(), [8, 4])
        self.assertRaises(
            ValueError, theano.function([x, y], z.shape, mode="DebugMode"), a, b
        )  # DebugMode also runs the node that rewriting removed
        self.assertRaises(ValueError, theano.function([x, y], z), a, b)
        f = theano.function([x], (T.specify_shape(x, (2, 2)) ** 2).shape)
        self.assertEqual([type(n.op).__name__ for n in f.maker.fgraph.toposort()], ["DeepCopyOp"])
        self.assertEqual(f(np.ones((2, 2), x.dtype)).tolist(), [2, 2])

    def test_shapes_are_disconnected(self):
        x = T.dvector()
        with self.assertRaises(theano.gradient.DisconnectedInputError):
            T.grad(T.shape(x)[0].astype("float64"), x)
        np.testing.assert_array_equal(
            theano.function([x], T.grad((T.specify_shape(x, (2,)) ** 2).sum(), x), mode="FAST_COMPILE")([1, 2]), [2, 4]
        )

    def test_derivatives_of_assertions(self):
        x, n = T.dmatrix("x"), T.lvector("n")
        v, w = np.array([[1.0, 2.0, 3.0]]), np.array([[0.5, -1.0, 2.0]])
        e = T.dmatrix("e")
        for y, given in ((ops.specify_shape(x, n) ** 2, [1, 3]), (ops.Rebroadcast((0, True))(x) ** 2, [0])):
            f = theano.function(
                [x, e, n],
                [T.grad(y.sum(), x), T.Rop(y, x, e), T.Lop(y, x, e)],
                on_unused_input="ignore",
                mode="FAST_COMPILE",
            )
            for got, expected in zip(f(v, w, given), (2 * v, 2 * v * w, 2 * v * w)):
                np.testing.assert_allclose(got, expected)
        # SpecifyShape and Rebroadcast infer shapes without computing values. The inferred shapes are the asserted ones,
        # which are not checked.
        f = theano.function(
            [x, n],
            [ops.specify_shape(x, (1, 3)).shape, ops.specify_shape(x, n).shape[1], ops.Rebroadcast((0, True))(x).shape],
            mode="FAST_RUN",
        )
        self.assertNotIn(ops.SpecifyShape, {type(node.op) for node in f.maker.fgraph.toposort()})
        self.assertEqual([r.tolist() for r in f(v, [1, 7])], [[1, 3], 7, [1, 3]])
        with self.assertRaises(theano.gradient.DisconnectedInputError):
            T.grad(ops.specify_shape(v, n).sum(), n)

    def test_shape_i(self):
        """For a variable of a graph with ShapeFeature, shape_i returns the inferred length.

        For other variables, it builds an expression of the shape.
        """
        x = T.dmatrix("x")
        y = T.exp(x)
        fgraph = theano.gof.FunctionGraph([x], [y], clone=False, features=[T.opt.ShapeFeature()])
        known = ops.shape_i(y, 1)
        self.assertIs(known, fgraph.shape_feature.shape_of[y][1])
        self.assertNotIn(T.exp, [node.op for node in theano.gof.graph.io_toposort([x], [known])])
        new = x * 2  # not in the graph
        self.assertIs(ops.shape_i(new, 0, fgraph), fgraph.shape_feature.shape_of[new][0])
        z = T.dmatrix("z")
        self.assertIs(type(ops.shape_i(z, 0).owner.inputs[0].owner.op), ops.Shape)
        self.assertEqual(ops.shape_i(z, 1).eval({z: np.ones((2, 5))}), 5)
        self.assertIs(ops.shape_i_op(1), ops.shape_i_op(1))
        self.assertEqual((ops.shape_i_op(1), str(ops.shape_i_op(np.int64(2)))), (ops.Shape_i(1), "Shape_i{2}"))

    def test_output_guard(self):
        """No other node may overwrite the input of an OutputGuard.

        OutputGuard declares that it overwrites its input, but does not overwrite it.
        """
        x = T.dvector("x")
        guarded = ops.OutputGuard()(x)
        with self.assertRaisesRegex(TypeError, "must not contain inplace operations"):
            theano.function([x], guarded)
        # OutputGuard is for outputs only: another node must not read its result, which is declared destroyed. The
        # rewriter detects such a reader and raises an error.
        logger = logging.getLogger("theano_ng.gof.opt")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        self.addCleanup(logger.setLevel, level)
        refused = self.assertRaises((ValueError, theano.gof.InconsistencyError))
        with refused, theano.config.change_flags(on_opt_error="warn"):
            theano.function([theano.In(x, mutable=True)], guarded * 2, accept_inplace=True)

    def test_as_op(self):
        x, y = T.fmatrix(), T.fmatrix()
        p, q = np.ones((5, 4), "float32"), np.arange(28, dtype="float32").reshape(4, 7)
        z = numpy_dot(x, y)
        got, shp = theano.function([x, y], [z, z.shape])(p, q)
        np.testing.assert_allclose(got, p.dot(q))
        self.assertEqual(shp.tolist(), [5, 7])
        with self.assertRaisesRegex(AttributeError, "FromFunctionOp{numpy_dot} cannot be differentiated. Define grad"):
            T.grad(z.sum(), x)
        self.assertRaises(NotImplementedError, T.Rop, z, x, x)
        self.assertIs(pickle.loads(pickle.dumps(numpy_dot)), numpy_dot)
        self.assertEqual(str(z), "FromFunctionOp{numpy_dot}.0")
        # The pickle of an Op that `as_op` made contains only the name of the function. The name may be that of an
        # attribute of a class. If Python does not find the Op under this name, the Op cannot be pickled.
        self.assertIs(pickle.loads(pickle.dumps(Holder.doubled)), Holder.doubled)
        for lost in (as_op([T.dscalar], [T.dscalar])(lambda a: a), as_op([T.dscalar], [T.dscalar])(_dot_shape)):
            with self.assertRaisesRegex(pickle.PicklingError, "not found as|not the object at"):
                pickle.dumps(lost)
        self.assertRaises(TypeError, numpy_dot, x, T.dmatrix())
        np.testing.assert_allclose(theano.function([x], numpy_dot(x, q))(p), p.dot(q))
        self.assertRaises(TypeError, as_op, [float], [T.dmatrix])
        self.assertRaises(TypeError, as_op, [T.dmatrix], [T.dmatrix], "no function")

    def test_as_op_results(self):
        def fn(a):
            return copy.deepcopy(results[0])  # the graph may overwrite an array that the function returns

        op = as_op(T.dvector, [T.dscalar, T.fvector])(fn)
        same, others = (
            as_op([T.dvector], [T.dscalar, T.fvector])(fn),
            [
                as_op(T.dvector, [T.dscalar])(fn),
                as_op([T.dvector], [T.dscalar, T.fvector], lambda node, shapes: [(), shapes[0]])(fn),
                as_op(T.dvector, [T.dscalar, T.fvector])(lambda a: a),
            ],
        )
        self.assertEqual((op, hash(op)), (same, hash(same)))
        for other in others:
            self.assertNotEqual(op, other)
        x = T.dvector("x")
        f = theano.function([x], op(x))
        # Scalars are converted to 0-d arrays. If a value cannot be converted, the error names the value.
        for results in ([(np.float64(2), [1, 2])], [[3, np.ones(2, "float32")]]):  # noqa: B007, read by fn
            number, vector = f([0.0])
            self.assertEqual((number.shape, number.dtype, vector.dtype), ((), "float64", "float32"))
        for results, error, text in (  # noqa: B007, see above
            ([1.0], ValueError, "returned 1 values, expected 2"),
            ([(1.0, np.ones(2))], TypeError, r"fn}: the function returned array.* as output 1, .*float32, vector"),
            (
                [(None, [1])],
                TypeError,
                "returned None .NoneType. as output 0, which is not a valid value of TensorType",
            ),
        ):
            with self.assertRaisesRegex(error, text):
                f([0.0])


class Grid:
    """A value of a user's Type. It has a shape but is no array.

    The class attribute `notes` lists the operations on values, and whether Python or C code has made them.
    """

    notes = []

    def __init__(self, shape, cells):
        self.shape, self.cells = tuple(shape), list(cells)

    def note(self, what):
        self.notes.append(what)

    def copy(self):
        """Return a copy. Only Python code calls this method. C code calls `twin`."""
        self.note("copy in Python")
        return self.twin()

    def twin(self):
        return Grid(self.shape, self.cells)


class GridVariable(theano.Variable):
    ndim = property(lambda self: self.type.ndim)


class GridType(theano.gof.Type):
    """A Type whose C code handles a Grid as a Python object."""

    __props__ = ("broadcastable",)
    Variable = GridVariable
    c_declare, c_init, c_extract, c_sync, c_cleanup = (
        getattr(Generic, name) for name in ("c_declare", "c_init", "c_extract", "c_sync", "c_cleanup")
    )

    def __init__(self, broadcastable):
        self.broadcastable, self.ndim = tuple(broadcastable), len(broadcastable)

    def clone(self, dtype=None, broadcastable=None):
        return type(self)(self.broadcastable if broadcastable is None else broadcastable)

    def filter(self, data, strict=False, allow_downcast=None):
        if not isinstance(data, Grid) or len(data.shape) != self.ndim:
            raise TypeError("expected a Grid with %d dimensions, got %r" % (self.ndim, data))
        return data

    def values_eq(self, a, b):
        return (a.shape, a.cells) == (b.shape, b.cells)

    @staticmethod
    def may_share_memory(a, b):
        return a is b

    def c_code_cache_version(self):
        return (1,)


NOTE = """
{
    PyObject* said = PyObject_CallMethod(%%(iname)s, "note", "s", "%s in C");
    if (said == NULL) { %%(fail)s }
    Py_DECREF(said);
}
"""
VIEW = (
    NOTE % "view"
    + """
Py_INCREF(%(iname)s);
Py_XDECREF(%(oname)s);
%(oname)s = %(iname)s;
"""
)
COPY = (
    NOTE % "copy"
    + """
{
    PyObject* twin = PyObject_CallMethod(%(iname)s, "twin", NULL);
    if (twin == NULL) { %(fail)s }
    Py_XDECREF(%(oname)s);
    %(oname)s = twin;
}
"""
)
SHAPE = (
    NOTE % "shape"
    + """
{
    PyObject* sizes = PyObject_GetAttrString(%(iname)s, "shape");
    Py_XDECREF(%(oname)s);
    %(oname)s = sizes == NULL ? NULL : (PyArrayObject*)PyArray_FROM_OTF(sizes, NPY_INT64, NPY_ARRAY_DEFAULT);
    Py_XDECREF(sizes);
    if (%(oname)s == NULL) { %(fail)s }
}
"""
)
CHECK_NDIM = (
    NOTE % "has axis %(i)s"
    + """
{
    PyObject* sizes = PyObject_GetAttrString(%(iname)s, "shape");
    Py_ssize_t ndim = sizes == NULL ? -1 : PyTuple_Size(sizes);
    Py_XDECREF(sizes);
    if (%(i)s >= ndim) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "no axis %(i)s");
        %(fail)s
    }
}
"""
)
SHAPE_I = """
{
    PyObject* sizes = PyObject_GetAttrString(%(iname)s, "shape");
    Py_XDECREF(%(oname)s);
    %(oname)s = sizes == NULL ? NULL : (PyArrayObject*)PyArray_FROM_OTF(PyTuple_GET_ITEM(sizes, %(i)s), NPY_INT64, NPY_ARRAY_DEFAULT);
    Py_XDECREF(sizes);
    if (%(oname)s == NULL) { %(fail)s }
}
"""
SPECIFY_SUPPORT = """
static int grid_has_shape(PyObject* grid, PyArrayObject* wanted) {
    PyObject* sizes = PyObject_GetAttrString(grid, "shape");
    int same = sizes == NULL ? -1 : PyTuple_GET_SIZE(sizes) == PyArray_DIM(wanted, 0);
    for (Py_ssize_t i = 0; same > 0 && i < PyTuple_GET_SIZE(sizes); ++i)
        same = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i)) == *(npy_int64*)PyArray_GETPTR1(wanted, i);
    Py_XDECREF(sizes);
    return same;
}
"""
SPECIFY = (
    NOTE % "specify"
    + """
if (grid_has_shape(%(iname)s, %(shape)s) != 1) {
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_AssertionError, "the grid has another shape");
    %(fail)s
}
Py_INCREF(%(iname)s);
Py_XDECREF(%(oname)s);
%(oname)s = %(iname)s;
"""
)
REBROADCAST = (
    NOTE % "axis %(axis)s is 1"
    + """
{
    PyObject* sizes = PyObject_GetAttrString(%(iname)s, "shape");
    long long size = sizes == NULL ? -1 : PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, %(axis)s));
    Py_XDECREF(sizes);
    if (size != 1) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "axis %(axis)s is %%lld long", size);
        %(fail)s
    }
}
"""
)
REGISTERED = [
    (ops.ViewOp, ops.register_view_op_c_code, (VIEW,)),
    (ops.DeepCopyOp, ops.register_deep_copy_op_c_code, (COPY,)),
    (ops.Shape, ops.register_shape_c_code, (SHAPE,)),
    (ops.Shape_i, ops.register_shape_i_c_code, (SHAPE_I, CHECK_NDIM)),
    (
        ops.SpecifyShape,
        lambda typ, code, **kw: ops.register_specify_shape_c_code(
            typ, code, c_support_code_apply=SPECIFY_SUPPORT, **kw
        ),
        (SPECIFY,),
    ),
    (ops.Rebroadcast, ops.register_rebroadcast_c_code, (REBROADCAST,)),
]


def in_c(inputs, outputs):
    """Compile the graph without rewriting, as one C module."""
    return theano.function(inputs, outputs, mode=theano.Mode("c", None))


class TestUserType(unittest.TestCase):
    """Tests of the Ops of `compile.ops` on a user's Type, with and without registered C code."""

    def setUp(self):
        self.x = GridType((False, False, False))("x")
        self.s = T.lvector("s")
        self.nodes = [
            ops.view_op(self.x),
            ops.deep_copy_op(self.x),
            ops.shape(self.x),
            ops.Shape_i(1)(self.x),
            ops.specify_shape(self.x, self.s),
            ops.Rebroadcast((2, True), (1, False), (0, True))(self.x),
        ]

    def register(self, **version):
        for op_class, register, texts in REGISTERED:
            register(GridType, *texts, **version)
            self.addCleanup(op_class.c_code_and_version.pop, GridType, None)

    def check(self, f, where):
        grid = Grid((1, 3, 1), "abc")
        del Grid.notes[:]
        view, copied, shape, size, specified, rebroadcast = f(grid, [1, 3, 1])
        self.assertIsNot(copied, grid)
        for other in (view, copied, specified, rebroadcast):
            self.assertEqual((other.shape, other.cells), (grid.shape, grid.cells))
        np.testing.assert_array_equal(shape, [1, 3, 1])
        self.assertEqual((int(size), shape.dtype, size.dtype, size.ndim), (3, "int64", "int64", 0))
        for args, error, text in (
            ((Grid((2, 3, 1), ""), [2, 3, 1]), ValueError, {"C": "axis 0 is 2 long", "Python": "got 2 instead"}),
            ((grid, [1, 2, 1]), AssertionError, {"C": "another shape", "Python": "dim 1 of input has shape 3"}),
            ((grid, [1, 3]), AssertionError, {"C": "another shape", "Python": "vector of shape has 2 elements"}),
        ):
            with self.assertRaisesRegex(error, text[where]):
                f(*args)
        return Grid.notes

    def test_without_c_code(self):
        for mode in ("FAST_COMPILE", "FAST_RUN", "DebugMode"):
            notes = self.check(theano.function([self.x, self.s], self.nodes, mode=mode), "Python")
            self.assertIn("copy in Python", notes)
        with self.assertRaises(MethodNotDefined):
            in_c([self.x, self.s], self.nodes)
        self.assertEqual(self.nodes[5].type.broadcastable, (True, False, True))
        self.assertRaises(TypeError, ops.Shape_i(3), self.x)
        # This Type has no dimensions.
        for op in (ops.Shape_i(0), ops.Rebroadcast((0, True)), lambda v: ops.specify_shape(v, (1,))):
            with self.assertRaisesRegex(TypeError, "needs a variable with an ndim, not one of type Generic"):
                op(Generic()())

    @unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
    def test_registered_c_code(self):
        self.register(version=(1,))
        f = in_c([self.x, self.s], self.nodes)
        notes = self.check(f, "C")
        first = [
            "view in C",
            "copy in C",
            "shape in C",
            "has axis 1 in C",
            "specify in C",
            "axis 0 is 1 in C",
            "axis 2 is 1 in C",
        ]
        self.assertEqual(sorted(set(notes)), sorted(first))  # nothing ran in Python
        # The reference counts of objects that outlive the call do not change: no reference is missing or left over.
        grid = Grid((1, 1, 1), "z")
        results = f(grid, [1, 1, 1])
        count = sys.getrefcount(grid)
        for _ in range(20):
            results = f(grid, [1, 1, 1])
        self.assertEqual(sys.getrefcount(grid), count)
        del results
        # A function that returns its input copies the input by the registered C code, in every mode that uses C.
        for mode in ("FAST_RUN", "DebugMode"):
            del Grid.notes[:]
            self.assertIsNot(theano.function([self.x], self.x, mode=mode)(grid), grid)
            self.assertIn("copy in C", Grid.notes)

    def test_versions(self):
        self.register(version=3)
        for out, (op_class, register, texts) in zip(self.nodes, REGISTERED):
            op = out.owner.op
            self.assertEqual(op.c_code_cache_version_apply(out.owner), (2, (__name__ + ".GridType", 3)))
            self.assertIn((__name__ + ".GridType", 3), op.c_code_cache_version())
            key = CLinker().accept(theano.gof.FunctionGraph([self.x, self.s], [out])).cmodule_key()
            self.assertTrue(key[0])
            # If the version changes, another module is compiled. Without a version, each process compiles its own
            # module, and there is a warning.
            register(GridType, *texts, version=4)
            self.assertNotEqual(CLinker().accept(theano.gof.FunctionGraph([self.x, self.s], [out])).cmodule_key(), key)
            register(GridType, *texts)
            with self.assertWarnsRegex(
                UserWarning, "GridType'> has C code for %s, but it has no version" % op_class.__name__
            ):
                self.assertEqual(op.c_code_cache_version(), ())
            with self.assertWarnsRegex(UserWarning, "no version"):
                self.assertEqual(
                    CLinker().accept(theano.gof.FunctionGraph([self.x, self.s], [out])).cmodule_key()[0], ()
                )
            # A node whose types are not GridType still has a version.
            v = T.dtensor3()
            tensors = op(*[v, self.s][: out.owner.nin]).owner
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertTrue(op.c_code_cache_version_apply(tensors))

    def test_text_is_for_the_class_itself(self):
        """A subclass of a Type does not inherit registered C code, because its values may differ.

        As documented, C code is registered for "the Type class, and not an instance".
        """

        class Other(GridType):
            pass

        self.register(version=1)
        with self.assertRaises(MethodNotDefined):
            ops.view_op.c_code(ops.view_op(Other((False,))()).owner, "n", ["I"], ["O"], {"fail": "F"})


if __name__ == "__main__":
    unittest.main()
