"""Ops of batch normalization.

`batch_normalization_train` and `batch_normalization_test` make abstract Ops, which define the result and have a NumPy
implementation. Rules in `opt_bn` replace them by a faster implementation. The method is described in S. Ioffe and C.
Szegedy, Batch Normalization, 2015, arXiv:1502.03167.
"""

import numpy as np

from theano_ng.compile.ops import Shape_i
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.scalar.basic import upcast
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import cast, inv, sqr, sqrt
from theano_ng.tensor.shaping.allocation import alloc
from theano_ng.tensor.shaping.broadcasting import addbroadcast
from theano_ng.tensor.type import TensorType

register_loader("theano_ng.tensor.nnet.opt_bn")


def in_dtype(v, dtype):
    """Return `v`, cast to `dtype` if it has another dtype."""
    return v if v.dtype == dtype else cast(v, dtype)


def _average(x, axes):
    return x.mean(axis=axes, keepdims=True)


def _total(x, axes):
    return x.sum(axis=axes, keepdims=True)


def _sum_of_given(*terms):
    """Return the sum of the terms that are not None; return None if all terms are None."""
    terms = [term for term in terms if term is not None]
    return sum(terms[1:], terms[0]) if terms else None


def _connected(grads):
    """Return the gradients as a list. Replace disconnected gradients by None."""
    return [None if g is None or isinstance(g.type, DisconnectedType) else g for g in grads]


def _or_disconnected(inputs, grads):
    """Cast gradients to the dtypes of the inputs, and replace None by a variable of DisconnectedType."""
    return [DisconnectedType()() if g is None else in_dtype(g, i.dtype) for i, g in zip(inputs, grads)]


class _OverAxes(Op):
    """The base class of Ops that normalize over axes.

    Parameters
    ----------
    axes : tuple of ints
        The axes over which the statistics are computed.
    """

    __props__ = ("axes",)

    def __init__(self, axes=(0,)):
        if not isinstance(axes, (tuple, list)) or len(axes) == 0:
            raise ValueError("%s: axes must be a tuple of ints, got %r" % (type(self).__name__, axes))
        self.axes = tuple(int(a) for a in axes)

    def fails_on_values(self, node):
        return False

    def _arguments(self, x, epsilon, *others):
        """Convert arguments to floating-point variables.

        All arguments except `x` and `epsilon` are statistics with length 1 along the axes.

        Returns
        -------
        list
            x, the statistics, epsilon.
        """
        name = type(self).__name__
        x, epsilon, *others = (as_tensor_variable(v) for v in (x, epsilon, *others))
        dtype = upcast(x.dtype, *[v.dtype for v in others])
        if dtype.startswith("complex"):
            raise TypeError("%s: batch normalization does not support complex numbers, got %s" % (name, dtype))
        if not dtype.startswith("float"):
            dtype = upcast(dtype, config.floatX)
        if any(not 0 <= a < x.ndim for a in self.axes):
            raise ValueError("%s: axes %s are invalid for an input with %d dimensions" % (name, self.axes, x.ndim))
        if epsilon.ndim != 0:
            raise TypeError("%s: epsilon must be a scalar, got %s" % (name, epsilon.type))
        result = [in_dtype(x, dtype)]
        for value in others:
            if value.ndim != x.ndim:
                raise TypeError(
                    "%s: statistics must have as many dimensions as x, got %s and %s" % (name, value.type, x.type)
                )
            value = addbroadcast(in_dtype(value, dtype), *self.axes)
            if any(
                v and not f for i, (v, f) in enumerate(zip(value.broadcastable, x.broadcastable)) if i not in self.axes
            ):
                value = alloc(value, *[1 if i in self.axes else x.shape[i] for i in range(x.ndim)])
            result.append(value)
        return result + [epsilon if epsilon.dtype.startswith("float") else cast(epsilon, dtype)]

    def _like(self, x):
        """Return the type of a statistic of `x`: length 1 along the axes."""
        return TensorType(x.dtype, [i in self.axes or flag for i, flag in enumerate(x.broadcastable)])

    def _check(self, x, **statistics):
        """Raise ValueError if a statistic does not have the shape of `x` with length 1 along the axes."""
        expected = tuple(1 if i in self.axes else n for i, n in enumerate(x.shape))
        for name, value in statistics.items():
            if value.shape != expected:
                raise ValueError(
                    "%s: Input dimension mis-match. %s has shape %s, expected %s"
                    % (type(self).__name__, name, value.shape, expected)
                )

    def _statistics(self, x):
        """Return the mean and variance of an array, in float64, and the number of elements of each mean."""
        count = np.prod([x.shape[a] for a in set(self.axes)], dtype=np.float64)
        x = x.astype(np.float64, copy=False)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = x.sum(axis=self.axes, keepdims=True) / count
            return mean, np.square(x - mean).sum(axis=self.axes, keepdims=True) / count, count

    def _gradients(self, inputs, mean, invstd, g_out, g_mean, g_invstd, g_var):
        """Return the gradients with respect to x, scale, bias and epsilon.

        `g_out`, `g_mean`, `g_invstd` and `g_var` are the gradients with respect to the normalized x, mean, invstd and
        variance. A gradient is None if the cost does not depend on that result.
        """
        x, scale, bias, epsilon = inputs
        dx = dscale = dbias = depsilon = None
        if g_out is not None:
            dx, dscale, dbias = AbstractBatchNormTrainGrad(self.axes)(x, g_out, scale, mean, invstd, epsilon)
            depsilon = -(dscale * scale * sqr(invstd)).sum() / 2
        if g_invstd is not None:
            of_var = -g_invstd * invstd**3 / 2
            depsilon = _sum_of_given(depsilon, of_var.sum())
            g_var = _sum_of_given(g_var, of_var)
        if g_mean is not None or g_var is not None:
            slope = None if g_var is None else 2 * g_var * (x - mean)
            dx = _sum_of_given(dx, _sum_of_given(g_mean, slope) / _count(x, self.axes) + x.zeros_like())
        return [dx, dscale, dbias, depsilon]

    def _directions(self, inputs, mean, invstd, points):
        """Return the directional derivatives of out, mean, invstd and variance.

        `points` contains the directions of x, scale, bias and epsilon. The direction of an input that does not change
        is None.
        """
        x, scale, _, epsilon = inputs
        dx, dscale, dbias, depsilon = points
        distance = x - mean
        d_out = d_mean = d_var = d_total = None
        if dx is not None:
            # The Jacobian of the normalized x is symmetric, so the Op of the gradient, applied to dx, computes d_out.
            d_out = AbstractBatchNormTrainGrad(self.axes)(x, dx, scale, mean, invstd, epsilon)[0]
            d_mean = _average(dx, self.axes)
            d_total = d_var = 2 * _average(distance * dx, self.axes)
        d_invstd = None
        if depsilon is not None:
            d_out = _sum_of_given(d_out, -distance * scale * invstd**3 * cast(depsilon, x.dtype) / 2)
            d_total = _sum_of_given(d_total, cast(depsilon, x.dtype))
        if d_total is not None:
            d_invstd = -(invstd**3) * d_total / 2
        if dscale is not None:
            d_out = _sum_of_given(d_out, distance * invstd * dscale)
        if dbias is not None:
            d_out = _sum_of_given(d_out, dbias)
        if d_out is not None:
            d_out = d_out + x.zeros_like()
        return [d_out, d_mean, d_invstd, d_var]


def _elements(x, axes):
    """Return the number of elements that each mean combines, as a float64."""
    count = np.float64(1)
    for a in axes:
        count = count * cast(Shape_i(a)(x), "float64")
    return count


def _count(x, axes):
    """Return the number of elements that each mean combines, in the dtype of `x`."""
    return cast(_elements(x, axes), x.dtype)


def correction(x, axes):
    """Return ``m / (m - 1)``, where m is the number of elements that each mean combines, in the dtype of `x`."""
    count = _elements(x, axes)
    return cast(count / (count - 1), x.dtype)


class AbstractBatchNormTrain(_OverAxes):
    """Normalization by the statistics of the input. See `batch_normalization_train`.

    Inputs: x, scale, bias, epsilon, running_average_factor, and optionally running_mean and running_var. All statistics
    have the rank of x, and length 1 along the axes. Outputs: the normalized x, mean, invstd, and the new running
    averages if running_mean and running_var are inputs.
    """

    def make_node(self, x, scale, bias, epsilon=1e-4, running_average_factor=0.1, running_mean=None, running_var=None):
        if (running_mean is None) != (running_var is None):
            raise ValueError("running_mean and running_var must either both be given or both be None")
        running = [] if running_mean is None else [running_mean, running_var]
        x, scale, bias, *running, epsilon = self._arguments(x, epsilon, scale, bias, *running)
        factor = as_tensor_variable(running_average_factor)
        if factor.ndim != 0:
            raise TypeError("running_average_factor must be a scalar, got %s" % factor.type)
        if not factor.dtype.startswith("float"):
            factor = cast(factor, x.dtype)
        statistic = self._like(x)
        outputs = [x.type(), statistic(), statistic()] + [value.type() for value in running]
        return Apply(self, [x, scale, bias, epsilon, factor, *running], outputs)

    def infer_shape(self, node, shape):
        statistic = tuple(1 if i in self.axes else n for i, n in enumerate(shape[0]))
        return [shape[0]] + [statistic] * (len(node.outputs) - 1)

    def connection_pattern(self, node):
        running = len(node.outputs) > 3
        pattern = [
            [True, True, True, True, True],  # x
            [True, False, False, False, False],  # scale
            [True, False, False, False, False],  # bias
            [True, False, True, False, False],  # epsilon
            [False, False, False, True, True],  # running_average_factor
            [False, False, False, True, False],
            [False, False, False, False, True],
        ]
        return pattern if running else [row[:3] for row in pattern[:5]]

    def perform(self, node, inputs, output_storage):
        x, scale, bias, epsilon, factor, *running = inputs
        names = ("scale", "bias", "running_mean", "running_var")
        self._check(x, **dict(zip(names, (scale, bias, *running))))
        mean, var, count = self._statistics(x)
        invstd = 1 / np.sqrt(var + float(epsilon))
        results = [(x - mean) * (scale * invstd) + bias, mean, invstd]
        if running:
            keep, factor = 1 - np.float64(factor), np.float64(factor)
            with np.errstate(invalid="ignore", divide="ignore"):
                unbiased = count / (count - 1) * var
            results += [running[0] * keep + mean * factor, running[1] * keep + unbiased * factor]
        for cell, result in zip(output_storage, results):
            cell[0] = np.ascontiguousarray(result, dtype=x.dtype)

    def L_op(self, inputs, outputs, grads):
        x, scale, bias, epsilon, factor, *running = inputs
        g_out, g_mean, g_invstd, *g_running = _connected(grads)
        mean, invstd = outputs[1:3]
        of_running, g_var, dfactor = [], None, None
        if running:
            g_running_mean, g_running_var = g_running
            weight = cast(factor, x.dtype)
            if g_running_mean is not None:
                g_mean = _sum_of_given(g_mean, g_running_mean * weight)
                dfactor = (g_running_mean * (mean - running[0])).sum()
            if g_running_var is not None:
                unbiased = correction(x, self.axes)
                g_var = g_running_var * weight * unbiased
                var = _average(sqr(x - mean), self.axes)
                dfactor = _sum_of_given(dfactor, (g_running_var * (unbiased * var - running[1])).sum())
            of_running = [None if g is None else g * (1 - weight) for g in g_running]
        found = self._gradients((x, scale, bias, epsilon), mean, invstd, g_out, g_mean, g_invstd, g_var)
        return _or_disconnected(inputs, found + [dfactor] + of_running)

    def R_op(self, inputs, eval_points):
        x, scale, bias, epsilon, factor, *running = inputs
        mean, invstd = self(*inputs)[1:3]
        d_out, d_mean, d_invstd, d_var = self._directions((x, scale, bias, epsilon), mean, invstd, eval_points[:4])
        result = [d_out, d_mean, d_invstd]
        if running:
            weight, d_factor = cast(factor, x.dtype), eval_points[4]
            unbiased = correction(x, self.axes)
            var = _average(sqr(x - mean), self.axes)
            news = (mean, unbiased * var), (d_mean, None if d_var is None else unbiased * d_var)
            for value, d_value, new, d_new in zip(running, eval_points[5:], *news):
                result.append(
                    _sum_of_given(
                        None if d_value is None else d_value * (1 - weight),
                        None if d_new is None else d_new * weight,
                        None if d_factor is None else cast(d_factor, x.dtype) * (new - value),
                    )
                )
        return result


class BatchNormTrain(NativeOp, _OverAxes):
    """The implementation of `AbstractBatchNormTrain` on the CPU.

    Inputs: x, scale, bias, epsilon. Outputs: the normalized x, mean, invstd, variance.
    """

    def make_node(self, x, scale, bias, epsilon):
        x, scale, bias, epsilon = self._arguments(x, epsilon, scale, bias)
        statistic = self._like(x)
        return Apply(self, [x, scale, bias, epsilon], [x.type(), statistic(), statistic(), statistic()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.batchnorm:train", axes=self.axes)

    def infer_shape(self, node, shape):
        return [shape[0]] + [tuple(1 if i in self.axes else n for i, n in enumerate(shape[0]))] * 3

    def connection_pattern(self, node):
        return [[True] * 4, [True, False, False, False], [True, False, False, False], [True, False, True, False]]

    def perform(self, node, inputs, output_storage):
        x, scale, bias, epsilon = inputs
        self._check(x, scale=scale, bias=bias)
        mean, var, _ = self._statistics(x)
        invstd = 1 / np.sqrt(var + float(epsilon))
        for cell, result in zip(output_storage, ((x - mean) * (scale * invstd) + bias, mean, invstd, var)):
            cell[0] = np.ascontiguousarray(result, dtype=x.dtype)

    def L_op(self, inputs, outputs, grads):
        return _or_disconnected(inputs, self._gradients(inputs, *outputs[1:3], *_connected(grads)))

    def R_op(self, inputs, eval_points):
        return self._directions(inputs, *self(*inputs)[1:3], eval_points)


class AbstractBatchNormTrainGrad(_OverAxes):
    r"""Gradient of :class:`AbstractBatchNormTrain`.

    Inputs: x, dy, scale, mean, invstd, epsilon (which is not read). Here dy is the gradient with respect to the
    normalized x. Outputs: the gradients with respect to x, scale and bias. With
    :math:`\hat x = (x - mean) \cdot invstd` and with the average M over the axes, the gradients are
    :math:`scale \cdot invstd \cdot (dy - M(dy) - \hat x\, M(dy\, \hat x))`, :math:`\sum dy\, \hat x` and
    :math:`\sum dy`.
    """

    def make_node(self, x, dy, scale, x_mean, x_invstd, epsilon=1e-4):
        x, dy = as_tensor_variable(x), as_tensor_variable(dy)
        if dy.ndim != x.ndim:
            raise TypeError("%s: x and dy must have the same rank, got %s and %s" % (self, x.type, dy.type))
        x, scale, x_mean, x_invstd, epsilon = self._arguments(x, epsilon, scale, x_mean, x_invstd)
        dtype = upcast(x.dtype, dy.dtype)
        if dtype.startswith("complex"):
            raise TypeError("%s: batch normalization does not support complex numbers, got dy %s" % (self, dy.type))
        x, dy, scale, x_mean, x_invstd = (in_dtype(v, dtype) for v in (x, dy, scale, x_mean, x_invstd))
        return Apply(self, [x, dy, scale, x_mean, x_invstd, epsilon], [x.type(), scale.type(), scale.type()])

    def infer_shape(self, node, shape):
        return [shape[0], shape[2], shape[2]]

    def connection_pattern(self, node):
        return [
            [True, True, False],  # x
            [True, True, True],  # dy
            [True, False, False],  # scale
            [True, True, False],  # mean
            [True, True, False],  # invstd
            [False, False, False],
        ]

    def perform(self, node, inputs, output_storage):
        x, dy, scale, mean, invstd, _ = inputs
        if x.shape != dy.shape:
            raise ValueError("%s: Input dimension mis-match. x and dy do not have the same shape" % type(self).__name__)
        self._check(x, scale=scale, x_mean=mean, x_invstd=invstd)
        count = np.prod([x.shape[a] for a in set(self.axes)], dtype=np.float64)
        dtype = x.dtype
        x, dy, scale, mean, invstd = (v.astype(np.float64, copy=False) for v in (x, dy, scale, mean, invstd))
        # The order of the factors is that of the native code, so that infinities give the same results.
        distance = x - mean
        total, product = (v.sum(axis=self.axes, keepdims=True) for v in (dy, dy * distance))
        dx = dy
        if count:
            product = product * invstd
            dx = scale * invstd * (dy - total / count - distance * (product * invstd / count))
        for cell, result in zip(output_storage, (dx, product, total)):
            cell[0] = np.ascontiguousarray(result, dtype=dtype)

    def grad(self, inputs, grads):
        x, dy, scale, mean, invstd, _ = inputs
        g_dx, g_dscale, g_dbias = _connected(grads)
        axes = self.axes
        normal = (x - mean) * invstd
        of_x = of_dy = of_scale = of_mean = of_invstd = of_normal = None
        if g_dx is not None:
            factor = scale * invstd
            slope = _average(dy * normal, axes)
            core = dy - _average(dy, axes) - normal * slope
            h = g_dx * factor
            backward = _average(h * normal, axes)
            of_dy = h - _average(h, axes) - normal * backward
            of_normal = -(h * slope + dy * backward)
            common = _total(g_dx * core, axes)
            of_scale, of_invstd = common * invstd, common * scale
        if g_dscale is not None:
            of_dy, of_normal = _sum_of_given(of_dy, g_dscale * normal), _sum_of_given(of_normal, g_dscale * dy)
        if g_dbias is not None:
            of_dy = _sum_of_given(of_dy, g_dbias + dy.zeros_like())
        if of_normal is not None:
            of_x = of_normal * invstd
            of_mean = -_total(of_x, axes)
            of_invstd = _sum_of_given(of_invstd, _total(of_normal * (x - mean), axes))
        return _or_disconnected(inputs, [of_x, of_dy, of_scale, of_mean, of_invstd, None])

    def R_op(self, inputs, eval_points):
        x, dy, scale, mean, invstd, epsilon = inputs
        dx, ddy, dscale, dmean, dinvstd, _ = eval_points
        axes = self.axes
        normal = (x - mean) * invstd
        moved = _sum_of_given(dx, None if dmean is None else -dmean)
        d_normal = _sum_of_given(
            None if moved is None else moved * invstd, None if dinvstd is None else (x - mean) * dinvstd
        )
        slope = _average(dy * normal, axes)
        d_product = _sum_of_given(None if ddy is None else ddy * normal, None if d_normal is None else dy * d_normal)
        d_factor = _sum_of_given(
            None if dscale is None else dscale * invstd, None if dinvstd is None else scale * dinvstd
        )
        d_core = _sum_of_given(
            None if ddy is None else ddy - _average(ddy, axes),
            None if d_normal is None else -d_normal * slope,
            None if d_product is None else -normal * _average(d_product, axes),
        )
        first = _sum_of_given(
            None if d_factor is None else d_factor * (dy - _average(dy, axes) - normal * slope),
            None if d_core is None else scale * invstd * d_core,
        )
        return [
            first,
            None if d_product is None else _total(d_product, axes),
            None if ddy is None else _total(ddy, axes),
        ]


class BatchNormTrainGrad(NativeOp, AbstractBatchNormTrainGrad):
    """The implementation of `AbstractBatchNormTrainGrad` on the CPU."""

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.batchnorm:train_grad", axes=self.axes)


class AbstractBatchNormInference(_OverAxes):
    """Normalization by given statistics. See `batch_normalization_test`.

    Inputs: x, scale, bias, mean, variance, epsilon. The statistics have the rank of x, and length 1 along the axes.
    """

    def make_node(self, x, scale, bias, estimated_mean, estimated_variance, epsilon=1e-4):
        inputs = self._arguments(x, epsilon, scale, bias, estimated_mean, estimated_variance)
        return Apply(self, inputs, [inputs[0].type()])

    def infer_shape(self, node, shape):
        return [shape[0]]

    def connection_pattern(self, node):
        return [[True]] * 6

    def perform(self, node, inputs, output_storage):
        x, scale, bias, mean, var, epsilon = inputs
        self._check(x, scale=scale, bias=bias, estimated_mean=mean, estimated_variance=var)
        mean = mean.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = scale / np.sqrt(var.astype(np.float64) + float(epsilon))
            output_storage[0][0] = np.ascontiguousarray((x - mean) * factor + bias, dtype=x.dtype)

    def grad(self, inputs, grads):
        x, scale, bias, mean, var, epsilon = inputs
        (dy,) = grads
        axes = self.axes
        invstd = inv(sqrt(var + cast(epsilon, x.dtype)))
        dx = dy * (scale * invstd)
        dscale = _total(dy * (x - mean), axes) * invstd
        dvar = dscale * scale * sqr(invstd) / -2
        return _or_disconnected(inputs, [dx, dscale, _total(dy, axes), -_total(dx, axes), dvar, dvar.sum()])

    def R_op(self, inputs, eval_points):
        x, scale, bias, mean, var, epsilon = inputs
        dx, dscale, dbias, dmean, dvar, depsilon = eval_points
        invstd = inv(sqrt(var + cast(epsilon, x.dtype)))
        moved = _sum_of_given(dx, None if dmean is None else -dmean)
        widened = _sum_of_given(dvar, None if depsilon is None else cast(depsilon, x.dtype))
        found = _sum_of_given(
            None if moved is None else moved * (scale * invstd),
            None if dscale is None else (x - mean) * (dscale * invstd),
            None if widened is None else (x - mean) * (scale * invstd**3 * widened / -2),
            dbias,
        )
        return [None if found is None else found + x.zeros_like()]
