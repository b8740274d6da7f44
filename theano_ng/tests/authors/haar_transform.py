"""The Haar transform of the rows of a matrix, which can overwrite its input."""

import operator

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import COp, EnumList, ParamsType
from theano_ng.scalar import Scalar

#: dtype -> dtype of the real part.
REAL = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}

#: norm -> norm of the transposed transform.
TRANSPOSED = {"orthonormal": "orthonormal", "average": "sum", "sum": "average"}


class HaarTransform(COp):
    """Split each row into coarse and fine parts. The C code is in haar_transform.c.

    A level replaces a row by the scaled sums of its pairs, followed by the scaled differences. The next level does the
    same with the sums only.

    Parameters
    ----------
    levels : int
        The number of levels. The number of columns must be divisible by ``2 ** levels``.
    norm : {'orthonormal', 'average', 'sum'}
        Sums and differences are multiplied by the square root of 1/2, by 1/2, or by 1.
    inverse : bool
        Whether to compute the rows from their transforms.
    inplace : bool
        Whether the result overwrites x.
    """

    __props__ = ("levels", "norm", "inverse", "inplace")
    params_type = ParamsType(
        levels=Scalar("int64"),
        norm=EnumList(("ORTHONORMAL", "orthonormal"), ("AVERAGE", "average"), ("SUM", "sum")),
        inverse=Scalar("bool"),
        inplace=Scalar("bool"),
    )

    def __init__(self, levels=1, norm="orthonormal", inverse=False, inplace=False):
        self.levels = operator.index(levels)
        if not 0 <= self.levels < 63:
            raise ValueError("levels must be in 0 .. 62, not %r" % (levels,))
        if norm not in ("orthonormal", "average", "sum"):
            raise ValueError("norm must be 'orthonormal', 'average' or 'sum', not %r" % (norm,))
        self.norm, self.inverse, self.inplace = norm, bool(inverse), bool(inplace)
        if self.inplace:
            self.destroy_map = {0: [0]}
        super().__init__("haar_transform.c", "APPLY_SPECIFIC(haar_transform)")

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.ndim != 2 or x.dtype not in REAL:
            raise TypeError("HaarTransform needs a matrix of %s, not %s" % (" or ".join(REAL), x.type))
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage, params):
        (x,) = inputs
        rows, columns = x.shape
        if columns % 2**self.levels:
            raise ValueError("HaarTransform: rows of %d elements cannot be halved %d times" % (columns, self.levels))
        real = np.dtype(REAL[x.dtype.name])
        scales = {"orthonormal": (0.5**0.5, 0.5**0.5), "average": (0.5, 1.0), "sum": (1.0, 0.5)}
        scale = real.type(scales[self.norm][self.inverse])
        # Real and imaginary parts are transformed independently.
        y = np.array(x, order="C")
        parts = y.view(real).reshape(rows, columns, x.itemsize // real.itemsize)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for level in range(self.levels):
                length = columns >> (self.levels - 1 - level if self.inverse else level)
                row = parts[:, :length].copy()
                if self.inverse:
                    first, second = row[:, : length // 2], row[:, length // 2 :]
                    parts[:, 0:length:2] = (first + second) * scale
                    parts[:, 1:length:2] = (first - second) * scale
                else:
                    first, second = row[:, ::2], row[:, 1::2]
                    parts[:, : length // 2] = (first + second) * scale
                    parts[:, length // 2 : length] = (first - second) * scale
        if self.inplace:
            x[...] = y
            y = x
        output_storage[0][0] = y

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, output_grads):
        return [HaarTransform(self.levels, TRANSPOSED[self.norm], not self.inverse)(output_grads[0])]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [HaarTransform(self.levels, self.norm, self.inverse)(eval_points[0])]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    matrix = np.arange(12.0).reshape(3, 4) ** 2 - 5
    return [
        (HaarTransform(1), [matrix]),
        (HaarTransform(2, inverse=True), [matrix.astype("float32")]),
        (HaarTransform(1, "average", inplace=True), [matrix]),
    ]
