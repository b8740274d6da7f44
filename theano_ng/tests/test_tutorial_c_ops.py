"""The tutorials about C code, as written, in FAST_COMPILE, FAST_RUN and DebugMode: vector Ops, Fibby, and the double type and its Ops."""
import unittest

import numpy

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import gof
from theano_ng.gof import cmodule
from theano_ng.tensor.opt import NotScalarConstantError, get_scalar_constant_value

MODES = ("FAST_COMPILE", "FAST_RUN", "DebugMode")


class VectorTimesScalar(gof.Op):
    __props__ = ()

    def make_node(self, x, y):
        # Validate the inputs' type
        if x.type.ndim != 1:
            raise TypeError('x must be a 1-d vector')
        if y.type.ndim != 0:
            raise TypeError('y must be a scalar')

        # Create an output variable of the same type as x
        output_var = x.type()

        return gof.Apply(self, [x, y], [output_var])

    def c_code_cache_version(self):
        return (1, 0)

    def c_code(self, node, name, inp, out, sub):
        x, y = inp
        z, = out

        # Extract the dtypes of the inputs and outputs storage to
        # be able to declare pointers for those dtypes in the C
        # code.
        dtype_x = node.inputs[0].dtype
        dtype_y = node.inputs[1].dtype
        dtype_z = node.outputs[0].dtype

        itemsize_x = numpy.dtype(dtype_x).itemsize
        itemsize_z = numpy.dtype(dtype_z).itemsize

        fail = sub['fail']

        c_code = """
        // Validate that the output storage exists and has the same
        // dimension as x.
        if (NULL == %(z)s ||
            PyArray_DIMS(%(x)s)[0] != PyArray_DIMS(%(z)s)[0])
        {
            /* Reference received to invalid output variable.
            Decrease received reference's ref count and allocate new
            output variable */
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject*)PyArray_EMPTY(1,
                                                PyArray_DIMS(%(x)s),
                                                PyArray_TYPE(%(x)s),
                                                0);

            if (!%(z)s) {
                %(fail)s;
            }
        }

        // Perform the vector multiplication by a scalar
        {
            /* The declaration of the following variables is done in a new
            scope to prevent cross initialization errors */
            npy_%(dtype_x)s* x_data_ptr =
                            (npy_%(dtype_x)s*)PyArray_DATA(%(x)s);
            npy_%(dtype_z)s* z_data_ptr =
                            (npy_%(dtype_z)s*)PyArray_DATA(%(z)s);
            npy_%(dtype_y)s y_value =
                            ((npy_%(dtype_y)s*)PyArray_DATA(%(y)s))[0];
            int x_stride = PyArray_STRIDES(%(x)s)[0] / %(itemsize_x)s;
            int z_stride = PyArray_STRIDES(%(z)s)[0] / %(itemsize_z)s;
            int x_dim = PyArray_DIMS(%(x)s)[0];

            for(int i=0; i < x_dim; i++)
            {
                z_data_ptr[i * z_stride] = (x_data_ptr[i * x_stride] *
                                            y_value);
            }
        }
        """

        return c_code % locals()


class VectorTimesVector(gof.Op):
    __props__ = ()

    def make_node(self, x, y):
        # Validate the inputs' type
        if x.type.ndim != 1:
            raise TypeError('x must be a 1-d vector')
        if y.type.ndim != 1:
            raise TypeError('y must be a 1-d vector')

        # Create an output variable of the same type as x
        output_var = theano.tensor.TensorType(
                        dtype=theano.scalar.upcast(x.dtype, y.dtype),
                        broadcastable=[False])()

        return gof.Apply(self, [x, y], [output_var])

    def c_code_cache_version(self):
        return (1, 0, 2)

    def c_support_code(self):
        c_support_code = """
        bool vector_same_shape(PyArrayObject* arr1,
            PyArrayObject* arr2)
        {
            return (PyArray_DIMS(arr1)[0] == PyArray_DIMS(arr2)[0]);
        }
        """

        return c_support_code

    def c_support_code_apply(self, node, name):
        dtype_x = node.inputs[0].dtype
        dtype_y = node.inputs[1].dtype
        dtype_z = node.outputs[0].dtype

        c_support_code = """
        void vector_elemwise_mult_%(name)s(npy_%(dtype_x)s* x_ptr,
            int x_str, npy_%(dtype_y)s* y_ptr, int y_str,
            npy_%(dtype_z)s* z_ptr, int z_str, int nbElements)
        {
            for (int i=0; i < nbElements; i++){
                z_ptr[i * z_str] = x_ptr[i * x_str] * y_ptr[i * y_str];
            }
        }
        """

        return c_support_code % locals()

    def c_code(self, node, name, inp, out, sub):
        x, y = inp
        z, = out

        dtype_x = node.inputs[0].dtype
        dtype_y = node.inputs[1].dtype
        dtype_z = node.outputs[0].dtype

        itemsize_x = numpy.dtype(dtype_x).itemsize
        itemsize_y = numpy.dtype(dtype_y).itemsize
        itemsize_z = numpy.dtype(dtype_z).itemsize

        typenum_z = numpy.dtype(dtype_z).num

        fail = sub['fail']

        c_code = """
        // Validate that the inputs have the same shape
        if ( !vector_same_shape(%(x)s, %(y)s) )
        {
            PyErr_Format(PyExc_ValueError, "Shape mismatch : "
                "x.shape[0] and y.shape[0] should match but "
                "x.shape[0] == %%i and y.shape[0] == %%i",
                PyArray_DIMS(%(x)s)[0], PyArray_DIMS(%(y)s)[0]);
            %(fail)s;
        }

        // Validate that the output storage exists and has the same
        // dimension as x.
        if (NULL == %(z)s || !(vector_same_shape(%(x)s, %(z)s)))
        {
            /* Reference received to invalid output variable.
            Decrease received reference's ref count and allocate new
            output variable */
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject*)PyArray_EMPTY(1,
                                                PyArray_DIMS(%(x)s),
                                                %(typenum_z)s,
                                                0);

            if (!%(z)s) {
                %(fail)s;
            }
        }

        // Perform the vector elemwise multiplication
        vector_elemwise_mult_%(name)s(
                                (npy_%(dtype_x)s*)PyArray_DATA(%(x)s),
                                PyArray_STRIDES(%(x)s)[0] / %(itemsize_x)s,
                                (npy_%(dtype_y)s*)PyArray_DATA(%(y)s),
                                PyArray_STRIDES(%(y)s)[0] / %(itemsize_y)s,
                                (npy_%(dtype_z)s*)PyArray_DATA(%(z)s),
                                PyArray_STRIDES(%(z)s)[0] / %(itemsize_z)s,
                                PyArray_DIMS(%(x)s)[0]);
        """

        return c_code % locals()


class VectorTimesVectorCOp(gof.COp):
    __props__ = ()

    func_file = "./vectorTimesVector.c"
    func_name = "APPLY_SPECIFIC(vector_times_vector)"

    def __init__(self):
        super().__init__(self.func_file, self.func_name)

    make_node = VectorTimesVector.make_node


class Fibby(theano.Op):
    """
    An arbitrarily generalized Fibonacci sequence
    """
    __props__ = ()

    def make_node(self, x):
        x_ = T.as_tensor_variable(x)
        assert x_.ndim == 1
        return theano.Apply(self,
            inputs=[x_],
            outputs=[x_.type()])
        # using x_.type() is dangerous, it copies x's broadcasting behaviour

    def perform(self, node, inputs, output_storage):
        x, = inputs
        y = output_storage[0][0] = x.copy()
        for i in range(2, len(x)):
            y[i] = y[i-1] * y[i-2] + x[i]

    def c_code(self, node, name, inames, onames, sub):
        x, = inames
        y, = onames
        fail = sub['fail']
        return """
Py_XDECREF(%(y)s);
%(y)s = (PyArrayObject*)PyArray_FromArray(
            %(x)s, 0, NPY_ARRAY_ENSURECOPY);
if (!(%(y)s))
  %(fail)s;
{ //New scope needed to make compilation work
  dtype_%(y)s * y = (dtype_%(y)s*)PyArray_DATA(%(y)s);
  dtype_%(x)s * x = (dtype_%(x)s*)PyArray_DATA(%(x)s);
  for (int i = 2; i < PyArray_DIMS(%(x)s)[0]; ++i)
    y[i] = y[i-1]*y[i-2] + x[i];
}
        """ % locals()

    def c_code_cache_version(self):
        return (1,)


fibby = Fibby()


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestVectorOps(unittest.TestCase):
    def test_vector_times_scalar(self):
        x, y = T.fvector("x"), T.dscalar("y")
        data = numpy.arange(12, dtype="float32")
        with self.assertRaisesRegex(TypeError, "x must be a 1-d vector"):
            VectorTimesScalar()(y, y)
        with self.assertRaisesRegex(TypeError, "y must be a scalar"):
            VectorTimesScalar()(x, x)
        for mode in MODES:
            f = theano.function([x, y], VectorTimesScalar()(x, y), mode=mode)
            for vector in (data, data[::3], data[::-2], data[:0]):
                numpy.testing.assert_allclose(f(vector, 1.5), vector * numpy.float32(1.5))

    def test_vector_times_vector(self):
        x, y = T.fvector("x"), T.dvector("y")
        data = numpy.arange(6.0)
        for op, names in ((VectorTimesVector(), "x.shape"), (VectorTimesVectorCOp(), "input0.shape")):
            for mode in MODES:
                z = op(x, y)
                self.assertEqual((z.dtype, z.broadcastable), ("float64", (False,)))
                f = theano.function([x, y], [z, op(z, y)], mode=mode)    # two nodes with different dtypes
                for a, b in ((data, data), (data[::-2], data[1::2]), (data[:0], data[:0])):
                    for got, expected in zip(f(a.astype("float32"), b), [a * b, a * b * b]):
                        numpy.testing.assert_allclose(got, expected)
                with self.assertRaisesRegex(ValueError, r"Shape mismatch : %s.*x.shape\[0\] == 6 and y.shape\[0\] == 2" % names):
                    f(data.astype("float32"), data[:2])


class TestFibby(unittest.TestCase):
    def test_fibby(self):
        @theano.tensor.opt.register_specialize
        @theano.gof.local_optimizer([fibby])
        def fibby_of_zero(node):
            if node.op == fibby:
                x = node.inputs[0]
                try:
                    if numpy.all(0 == get_scalar_constant_value(x)):
                        return [x]
                except NotScalarConstantError:
                    pass

        n = T.lscalar()

        def is_removed():    # of a vector whose length is not known: nothing folds it as a constant
            f = theano.function([n], fibby(T.zeros([n])))
            return not any(isinstance(node.op, Fibby) for node in f.maker.fgraph.toposort())

        def forget():    # other tests see the optdb as it was
            theano.compile.optdb["specialize"].remove_tags("fibby_of_zero", "fast_run")
            self.assertFalse(is_removed())

        self.addCleanup(forget)
        self.assertTrue(is_removed())

        for mode in MODES:
            # Test it does not apply when not needed
            x = T.dvector()
            f = theano.function([x], fibby(x), mode=mode)

            # We call the function to make sure it runs.
            # If you run in DebugMode, it will compare the C and Python outputs.
            values = numpy.random.RandomState(3).rand(5)
            expected = values.copy()
            for i in range(2, 5):
                expected[i] = expected[i - 1] * expected[i - 2] + values[i]
            numpy.testing.assert_allclose(f(values), expected)
            topo = f.maker.fgraph.toposort()
            assert len(topo) == 1
            assert isinstance(topo[0].op, Fibby)

            # Test that the optimization gets applied.
            f_zero = theano.function([], fibby(T.zeros([5])), mode=mode)

            # If you run in DebugMode, it will compare the output before
            # and after the optimization.
            numpy.testing.assert_array_equal(f_zero(), numpy.zeros(5))
            if mode == "FAST_COMPILE":
                continue    # without specialization the Op stays

            # Check that the optimization removes the Fibby Op.
            # For security, the Theano memory interface ensures that the output
            # of the function is always memory not aliased to the input.
            # That is why there is a DeepCopyOp op.
            topo = f_zero.maker.fgraph.toposort()
            assert len(topo) == 1
            assert isinstance(topo[0].op, theano.compile.ops.DeepCopyOp)


def double_filter(x, strict=False, allow_downcast=None):
    if strict:
        if isinstance(x, float):
            return x
        else:
            raise TypeError('Expected a float!')
    elif allow_downcast:
        return float(x)
    else:  # Covers both the False and None cases.
        x_float = float(x)
        if x_float == x:
            return x_float
        else:
            raise TypeError('The double type cannot accurately represent '
                            'value %s (of type %s): you must explicitly '
                            'allow downcasting if you want to do this.'
                            % (x, type(x)))


def values_eq_approx(x, y, tolerance=1e-4):
    return abs(x - y) / (abs(x) + abs(y)) < tolerance


C_TYPE = dict(
    c_declare=lambda name, sub: """
    double %(name)s;
    """ % dict(name=name),
    c_init=lambda name, sub: """
    %(name)s = 0.0;
    """ % dict(name=name),
    c_extract=lambda name, sub: """
    if (!PyFloat_Check(py_%(name)s)) {
        PyErr_SetString(PyExc_TypeError, "expected a float");
        %(fail)s
    }
    %(name)s = PyFloat_AsDouble(py_%(name)s);
    """ % dict(name=name, fail=sub['fail']),
    c_sync=lambda name, sub: """
    Py_XDECREF(py_%(name)s);
    py_%(name)s = PyFloat_FromDouble(%(name)s);
    if (!py_%(name)s) {
        printf("PyFloat_FromDouble failed on: %%f\\n", %(name)s);
        Py_XINCREF(Py_None);
        py_%(name)s = Py_None;
    }
    """ % dict(name=name),
    c_cleanup=lambda name, sub: "")


def make_double():
    """The type as a plain instance, without C code."""
    double = gof.Type()
    double.filter = double_filter
    double.values_eq_approx = values_eq_approx
    return double


def make_mul(double):
    """The Op as a plain instance."""
    def make_node(x, y):
        if isinstance(x, (int, float)):
            x = gof.Constant(double, x)
        if isinstance(y, (int, float)):
            y = gof.Constant(double, y)
        if x.type != double or y.type != double:
            raise TypeError('mul only works on doubles')
        return gof.Apply(mul, [x, y], [double()])

    def perform(node, inputs, output_storage):
        x, y = inputs[0], inputs[1]
        z = output_storage[0]
        z[0] = x * y

    mul = gof.Op()
    mul.make_node = make_node
    mul.perform = perform
    return mul


def c_code(node, name, input_names, output_names, sub):
    x_name, y_name = input_names[0], input_names[1]
    output_name = output_names[0]
    return """
    %(output_name)s = %(x_name)s * %(y_name)s;
    """ % locals()


class Double(gof.Type):
    """The final version."""

    def filter(self, x, strict=False, allow_downcast=None):
        if strict and not isinstance(x, float):
            raise TypeError('Expected a float!')
        return float(x)

    def values_eq_approx(self, x, y, tolerance=1e-4):
        return abs(x - y) / (x + y) < tolerance

    def __str__(self):
        return "double"

    def c_declare(self, name, sub):
        return C_TYPE["c_declare"](name, sub)

    def c_init(self, name, sub):
        return C_TYPE["c_init"](name, sub)

    def c_extract(self, name, sub):
        return C_TYPE["c_extract"](name, sub)

    def c_sync(self, name, sub):
        return C_TYPE["c_sync"](name, sub)

    def c_cleanup(self, name, sub):
        return ""


final_double = Double()


class BinaryDoubleOp(gof.Op):

    __props__ = ("name", "fn", "ccode")

    def __init__(self, name, fn, ccode):
        self.name = name
        self.fn = fn
        self.ccode = ccode

    def make_node(self, x, y):
        if isinstance(x, (int, float)):
            x = gof.Constant(final_double, x)
        if isinstance(y, (int, float)):
            y = gof.Constant(final_double, y)
        if x.type != final_double or y.type != final_double:
            raise TypeError('%s only works on doubles' % self.name)
        return gof.Apply(self, [x, y], [final_double()])

    def perform(self, node, inp, out):
        x, y = inp
        z, = out
        z[0] = self.fn(x, y)

    def __str__(self):
        return self.name

    def c_code(self, node, name, inp, out, sub):
        x, y = inp
        z, = out
        return self.ccode % locals()


add = BinaryDoubleOp(name='add', fn=lambda x, y: x + y, ccode="%(z)s = %(x)s + %(y)s;")
sub = BinaryDoubleOp(name='sub', fn=lambda x, y: x - y, ccode="%(z)s = %(x)s - %(y)s;")
mul = BinaryDoubleOp(name='mul', fn=lambda x, y: x * y, ccode="%(z)s = %(x)s * %(y)s;")
div = BinaryDoubleOp(name='div', fn=lambda x, y: x / y, ccode="%(z)s = %(x)s / %(y)s;")


class TestDouble(unittest.TestCase):
    def test_plain_instances_in_python(self):
        double = make_double()
        mul = make_mul(double)
        x, y = double('x'), double('y')
        with self.assertRaisesRegex(TypeError, "mul only works on doubles"):
            mul(T.dscalar(), 2)
        with self.assertRaisesRegex(TypeError, "cannot accurately represent value 100000000000000001"):
            double.filter(10 ** 17 + 1)
        for mode in MODES:
            f = theano.function([x, y], mul(x, y), mode=mode)
            self.assertEqual(f(5, 6), 30.0)
            self.assertEqual(f(5.6, 6.7), 5.6 * 6.7)
            g = theano.function([x], mul(mul(x, 2), 3.5), mode=mode)
            self.assertEqual(g(2), 14.0)

    @unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
    def test_plain_instances_in_c(self):
        double = make_double()
        for name, method in C_TYPE.items():
            setattr(double, name, method)
        mul = make_mul(double)
        mul.c_code = c_code
        x, y = double('x'), double('y')
        for mode in MODES + (theano.Mode(linker="c"),):
            f = theano.function([x, y], mul(x, y), mode=mode)
            self.assertEqual(f(5.6, 6.7), 5.6 * 6.7)
        del mul.perform    # C only
        for mode in MODES[:2] + (theano.Mode(linker="c"), theano.Mode(linker="c|py"), theano.Mode(linker="cvm")):
            f = theano.function([x, y], mul(x, y), mode=mode)
            self.assertEqual(f(5.6, 6.7), 5.6 * 6.7)

    @unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
    def test_final_version(self):
        x, y, z = final_double('x'), final_double('y'), final_double('z')
        a = add(x, y)
        b = mul(a, z)
        for mode in MODES + (theano.Mode(linker="c"),):
            f = theano.function([x, y, z], b, mode=mode)
            self.assertEqual(f(1.0, 2.0, 3.0), 9.0)
        with self.assertRaisesRegex(TypeError, "div only works on doubles"):
            div(x, T.dscalar())
        f = theano.function([x, y], div(sub(x, y), 2), mode=theano.Mode(linker="c"))
        self.assertEqual(f(7.0, 2.0), 2.5)


if __name__ == "__main__":
    unittest.main()
