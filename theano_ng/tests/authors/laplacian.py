"""The Laplace operator on a grid of three dimensions, computed by several threads."""

import math

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import EnumList, OpenMPOp, ParamsType
from theano_ng.scalar import Scalar


class Laplacian(OpenMPOp):
    """Add the differences between each point and its six neighbours. Points and sums have the precision of float64.

    Parameters
    ----------
    weights : sequence of three floats
        The factors of the differences along the three axes.
    boundary : {'zero', 'periodic', 'insulated'}
        The neighbours of points at the boundary: zero, the points at the other end, or the points themselves.
    openmp : bool, optional
        Whether several threads share the first axis. By default, ``config.openmp``.
    """

    __props__ = ("weights", "boundary", "openmp")
    params_type = ParamsType(
        weight0=Scalar("float64"),
        weight1=Scalar("float64"),
        weight2=Scalar("float64"),
        boundary=EnumList(("ZERO", "zero"), ("PERIODIC", "periodic"), ("INSULATED", "insulated")),
    )
    weight0 = property(lambda self: self.weights[0])
    weight1 = property(lambda self: self.weights[1])
    weight2 = property(lambda self: self.weights[2])

    def __init__(self, weights=(1.0, 1.0, 1.0), boundary="zero", openmp=None):
        super().__init__(openmp=openmp)
        self.weights = tuple(float(one) + 0.0 for one in weights)  # -0.0 becomes 0.0, because the two are equal
        if len(self.weights) != 3 or not all(map(math.isfinite, self.weights)):
            raise ValueError("weights must be three finite numbers, not %r" % (weights,))
        if boundary not in ("zero", "periodic", "insulated"):
            raise ValueError("boundary must be 'zero', 'periodic' or 'insulated', not %r" % (boundary,))
        self.boundary = boundary

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.ndim != 3 or x.dtype not in ("float32", "float64"):
            raise TypeError("Laplacian needs a tensor of rank 3 of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage, params):
        x = inputs[0].astype("float64")
        mode = {"zero": "constant", "periodic": "wrap", "insulated": "edge"}[self.boundary]
        y = np.zeros(x.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            for axis, weight in enumerate(self.weights):
                if x.shape[axis] == 0:
                    continue
                wide = np.pad(x, [(int(i == axis),) * 2 for i in range(3)], mode)
                before, after = np.delete(wide, (-2, -1), axis), np.delete(wide, (0, 1), axis)
                y += weight * ((before - x) + (after - x))
            output_storage[0][0] = y.astype(inputs[0].dtype)

    def c_support_code(self):
        return """
        /* The position of a neighbour of a point, or -1 if the value of the neighbour is zero. */
        static inline npy_intp laplacian_neighbour(npy_intp i, npy_intp length, int boundary)
        {
            if (i >= 0 && i < length)
                return i;
            if (boundary == ZERO)
                return -1;
            if (boundary == PERIODIC)
                return i < 0 ? length - 1 : 0;
            return i < 0 ? 0 : length - 1;
        }
        """

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            typedef %(dtype)s number;
            const double weights[3] = {%(params)s->weight0, %(params)s->weight1, %(params)s->weight2};
            const int boundary = %(params)s->boundary;
            const npy_intp *shape = PyArray_DIMS(%(x)s), *strides = PyArray_STRIDES(%(x)s);
            if (%(y)s == NULL || !PyArray_SAMESHAPE(%(y)s, %(x)s)) {
                Py_XDECREF(%(y)s);
                %(y)s = (PyArrayObject *)PyArray_SimpleNew(3, PyArray_DIMS(%(x)s), PyArray_TYPE(%(x)s));
                if (%(y)s == NULL) {
                    %(fail)s
                }
            }
            %(parallel)s
            for (npy_intp i = 0; i < shape[0]; i++) {
                for (npy_intp j = 0; j < shape[1]; j++) {
                    for (npy_intp k = 0; k < shape[2]; k++) {
                        const npy_intp at[3] = {i, j, k};
                        const char *point = (const char *)PyArray_GETPTR3(%(x)s, i, j, k);
                        const double centre = *(const number *)point;
                        double total = 0;
                        for (int axis = 0; axis < 3; axis++) {
                            double differences = 0;
                            for (int side = -1; side <= 1; side += 2) {
                                const npy_intp next = laplacian_neighbour(at[axis] + side, shape[axis], boundary);
                                const char *place = point + (next - at[axis]) * strides[axis];
                                differences += (next < 0 ? 0.0 : (double)*(const number *)place) - centre;
                            }
                            total += weights[axis] * differences;
                        }
                        *(number *)PyArray_GETPTR3(%(y)s, i, j, k) = (number)total;
                    }
                }
            }
        }
        """ % dict(
            x=inputs[0],
            y=outputs[0],
            dtype=node.inputs[0].type.dtype_specs()[1],
            params=sub["params"],
            fail=sub["fail"],
            parallel="#pragma omp parallel for schedule(static)" if self.openmp else "",
        )

    def c_compile_args(self):
        return super().c_compile_args() + ["-ffp-contract=off"]  # round the product, as Python does

    def c_code_cache_version(self):
        return (1, self.openmp)

    def infer_shape(self, node, shapes):
        return shapes

    def product(self, v):
        """Return the product of the operator and a tensor. The operator is linear and symmetric."""
        return Laplacian(self.weights, self.boundary, self.openmp)(v)

    def grad(self, inputs, output_grads):
        return [self.product(output_grads[0])]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self.product(eval_points[0])]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    x = np.arange(24.0).reshape(2, 3, 4) ** 2 - 5
    return [
        (Laplacian((1.0, 0.5, -2.0), openmp=True), [x]),
        (Laplacian((1.0, 1.0, 1.0), "periodic", openmp=False), [x.astype("float32")]),
    ]
