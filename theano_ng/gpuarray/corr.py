"""Correlations of images with kernels on devices, and their gradients.

The Ops have the parameters, inputs, shapes and derivatives of the Ops in `tensor.nnet.corr` and `tensor.nnet.corr3d`. The
arrays have one dtype, float16, float32 or float64, and may have any strides; float16 is summed in float32. The lengths of a
gradient stay on the host.
"""

import ast

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import obtain_kernels
from theano_ng.gpuarray.kernels.correlation import correlation_code
from theano_ng.gpuarray.kernels.product import DTYPES
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import host_variable, to_context_of
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.scalar import upcast
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.nnet.corr import BaseCorrMM, CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import BaseCorr3dMM, Corr3dMM, Corr3dMM_gradInputs, Corr3dMM_gradWeights
from theano_ng.tensor.nnet.corr_base import FORWARD, WEIGHTS, Forward, GradInputs, GradWeights

__all__ = [
    "BaseGpuCorr3dMM",
    "BaseGpuCorrMM",
    "GpuCorr3dMM",
    "GpuCorr3dMM_gradInputs",
    "GpuCorr3dMM_gradWeights",
    "GpuCorrMM",
    "GpuCorrMM_gradInputs",
    "GpuCorrMM_gradWeights",
]


_DIRECTIONS = ("forward", "backprop weights", "backprop inputs")

_C_CODE = """
{
    PyObject *module = PyImport_ImportModule("theano_ng.gpuarray.corr");
    PyObject *made = module == NULL ? NULL : PyObject_CallMethod(module, "correlated", "ss%(letters)s", "%(op)s", "%(options)s", %(names)s);
    Py_XDECREF(module);
    if (made == NULL) {
        %(fail)s
    }
    Py_XDECREF(%(result)s);
    %(result)s = (PyGpuArrayObject *)made;
}
"""

_codes = {}  # (name of the class, options, dtype, context) -> native code, and the addresses of its kernels


def correlated(name, options, first, second, *lengths):
    """Compute a correlation of device arrays, or one of its gradients. C code of `c_code_helper` calls this function.

    Parameters
    ----------
    name : str
        The name of the class of the Op.
    options : str
        The arguments of the class, a tuple of literals.
    first, second : GpuArray
    *lengths : array
        The lengths of the result's axes, on the host.

    Returns
    -------
    GpuArray
    """
    key = name, options, first.dtype.name, first.context
    if key not in _codes:
        op = globals()[name](*ast.literal_eval(options))
        code = correlation_code(first.dtype.name, first.typecode, first.context, **op._native_options())
        _codes[key] = code, obtain_kernels(code.kernels)
    code, kernels = _codes[key]
    cells = [[first], [second], *[[np.asarray(length)] for length in lengths]]
    out = [None]
    code.bind(kernels, cells, [out], [-1] * (len(cells) + 1))()
    return out[0]


class _GpuCorr(GpuOp):
    """A mixin for correlations on devices.

    Attributes
    ----------
    host_class : type
        The equivalent Op for the host.
    """

    host_class = None

    def host_op(self, node):
        return self.host_class(openmp=False, **self._props_dict())

    def _twin(self, op):
        return op(**self._props_dict())

    def _operands(self, **operands):
        context_name = infer_context_name(*[v for v in operands.values() if hasattr(v, "type")])
        arrays = [as_gpuarray_variable(v, context_name) for v in operands.values()]
        dtype = upcast(*[v.dtype for v in arrays])
        if dtype not in DTYPES:
            given = ", ".join("%s: %s" % (name, v.dtype) for name, v in zip(operands, arrays))
            raise TypeError("%s: the dtype must be one of %s; got %s" % (self, ", ".join(DTYPES), given))
        arrays = [v if v.dtype == dtype else as_gpuarray_variable(cast(v, dtype), context_name) for v in arrays]
        for name, v in zip(operands, arrays):
            self._check_rank(name, v)
        return arrays

    def _lengths(self, shape, more):
        shape = [host_variable(v) for v in shape] if isinstance(shape, (list, tuple)) else host_variable(shape)
        return super()._lengths(shape, [host_variable(v) for v in more])

    def _apply(self, inputs, flags):
        like = inputs[0].type
        type_ = GpuArrayType(like.dtype, [*flags, *[False] * self.convdim], like.context_name)
        return Apply(self, inputs, [type_()])

    def native_code(self, node):
        type_ = node.outputs[0].type
        return correlation_code(type_.dtype, type_.typecode, type_.context, **self._native_options())

    def fails_on_values(self, node):
        return False

    def _c_code(self, bottom, weights, top, direction, sub, lengths):
        """Return the C code of `c_code_helper`. `lengths`: C variables or None."""
        if direction not in _DIRECTIONS:
            raise ValueError("direction must be one of %s, got %r" % (", ".join(map(repr, _DIRECTIONS)), direction))
        kind = _DIRECTIONS.index(direction)
        half = kind == WEIGHTS and self.border_mode == "half"
        missing = [i for i, length in enumerate(lengths) if length is None]
        needed = missing if half or len(missing) < len(lengths) else [i for i in missing if self.subsample[i] != 1]
        if kind != FORWARD and needed:
            raise ValueError(
                "the length along axis %d must be given for direction %r if the stride is not 1%s, or if another "
                "length is given" % (needed[0], direction, ", border_mode is 'half'" if half else "")
            )
        given = () if kind == FORWARD or missing else lengths
        names = [*((bottom, weights), (bottom, top), (weights, top))[kind], *given]
        return _C_CODE % dict(
            op=(self.forward, self.grad_weights, self.grad_inputs)[kind].__name__,
            options=repr(tuple(self._props_dict().values())),
            letters="O" * len(names),
            names=", ".join("(PyObject *)%s" % name for name in names),
            result=(top, weights, bottom)[kind],
            fail=sub["fail"],
        )

    def grad(self, inputs, output_grads):
        return [to_context_of(g, x) for g, x in zip(super().grad(inputs, output_grads), inputs)]

    def R_op(self, inputs, eval_points):
        context_name = inputs[0].type.context_name
        return [None if d is None else as_gpuarray_variable(d, context_name) for d in super().R_op(inputs, eval_points)]


class BaseGpuCorrMM(_GpuCorr, BaseCorrMM):
    """The base class of :class:`GpuCorrMM` and its gradients.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int, or a pair of int or pairs of int
        The number of zeros around images. 'valid': none; 'half': half the extent of the kernel; 'full': the extent of
        the kernel minus one; an int: this number on each side; a pair: the numbers for rows and for columns. Each
        number in the pair may be replaced by a pair: the numbers of zeros before the first and after the last element.
    subsample : pair of int
        The strides: the number of pixels that the kernel moves between neighboring elements of the output.
    filter_dilation : pair of int
        The distance in the image between neighboring elements of a kernel.
    num_groups : int
        The number of groups into which channels and filters are divided. A filter uses only the channels of its group.
    unshared : bool
        Whether each position of the output has a separate kernel.

    Raises
    ------
    ValueError, TypeError
        If parameters are invalid.
    """

    def __init__(self, border_mode="valid", subsample=(1, 1), filter_dilation=(1, 1), num_groups=1, unshared=False):
        super().__init__(border_mode, subsample, filter_dilation, num_groups, unshared, openmp=False)

    def c_code_helper(self, bottom, weights, top, direction, sub, height=None, width=None):
        """Return C code that computes a correlation, or one of its gradients, for Ops whose C code users write.

        Parameters
        ----------
        bottom, weights, top : str
            C variables of device arrays: images, kernels and output. The result is stored in `top` for the direction
            'forward', in `weights` for 'backprop weights', and in `bottom` for 'backprop inputs'.
        direction : {'forward', 'backprop weights', 'backprop inputs'}
        sub : dict
            The substitutions of `c_code`. ``sub["fail"]`` is used.
        height, width : str, optional
            C variables of arrays on the host: the lengths of the kernels for 'backprop weights', of the images for
            'backprop inputs'. They are required for axes with a stride, and for 'backprop weights' if the border mode is
            'half'. Give all of them or none. They have no effect for 'forward'.

        Raises
        ------
        ValueError
            If the direction is invalid, or if a length is required, but missing.
        """
        return self._c_code(bottom, weights, top, direction, sub, (height, width))


class GpuCorrMM(Forward, BaseGpuCorrMM):
    """Correlation of images with kernels, which are not flipped, on a device.

    Inputs: images (batch, channels, rows, columns), and kernels (filters, channels per group, rows, columns). Output:
    (batch, filters, rows, columns). For the parameters, see :class:`BaseGpuCorrMM`.
    """

    host_class = CorrMM


class GpuCorrMM_gradWeights(GradWeights, BaseGpuCorrMM):
    """Gradient of :class:`GpuCorrMM` with respect to the kernels.

    Inputs: the images, the gradient of the output, and the two lengths of the kernels. The lengths may be omitted if
    `subsample` is (1, 1) and `border_mode` is not 'half'.
    """

    host_class = CorrMM_gradWeights


class GpuCorrMM_gradInputs(GradInputs, BaseGpuCorrMM):
    """Gradient of :class:`GpuCorrMM` with respect to the images.

    Inputs: the kernels, the gradient of the output, and the two lengths of the images. The lengths may be omitted if
    `subsample` is (1, 1).
    """

    host_class = CorrMM_gradInputs


class BaseGpuCorr3dMM(_GpuCorr, BaseCorr3dMM):
    """The base class of :class:`GpuCorr3dMM` and its gradients.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int or three int
        The number of zeros around images, as in :class:`BaseGpuCorrMM`; three ints: one number for each axis.
    subsample, filter_dilation : three int
        See :class:`BaseGpuCorrMM`.
    num_groups : int
        See :class:`BaseGpuCorrMM`.

    Raises
    ------
    ValueError, TypeError
        If parameters are invalid.
    """

    def __init__(self, border_mode="valid", subsample=(1, 1, 1), filter_dilation=(1, 1, 1), num_groups=1):
        super().__init__(border_mode, subsample, filter_dilation, False, num_groups)

    def c_code_helper(self, bottom, weights, top, direction, sub, height=None, width=None, depth=None):
        """Return C code that computes a correlation, or one of its gradients; see `BaseGpuCorrMM.c_code_helper`.

        Parameters
        ----------
        bottom, weights, top, direction, sub
            See `BaseGpuCorrMM.c_code_helper`.
        height, width, depth : str, optional
            C variables of the lengths along the three axes, in this order.
        """
        return self._c_code(bottom, weights, top, direction, sub, (height, width, depth))


class GpuCorr3dMM(Forward, BaseGpuCorr3dMM):
    """Correlation of images with kernels in three dimensions, on a device. The kernels are not flipped.

    Inputs: images (batch, channels, depth, rows, columns), and kernels (filters, channels per group, depth, rows,
    columns). Output: (batch, filters, depth, rows, columns). For the parameters, see :class:`BaseGpuCorr3dMM`.
    """

    host_class = Corr3dMM


class GpuCorr3dMM_gradWeights(GradWeights, BaseGpuCorr3dMM):
    """Gradient of :class:`GpuCorr3dMM` with respect to the kernels.

    Inputs: the images, the gradient of the output, and the three lengths of the kernels. The lengths may be omitted if
    `subsample` is (1, 1, 1) and `border_mode` is not 'half'.
    """

    host_class = Corr3dMM_gradWeights


class GpuCorr3dMM_gradInputs(GradInputs, BaseGpuCorr3dMM):
    """Gradient of :class:`GpuCorr3dMM` with respect to the images.

    Inputs: the kernels, the gradient of the output, and the three lengths of the images. The lengths may be omitted if
    `subsample` is (1, 1, 1).
    """

    host_class = Corr3dMM_gradInputs


for _op in (GpuCorrMM, GpuCorrMM_gradWeights, GpuCorrMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = GpuCorrMM, GpuCorrMM_gradWeights, GpuCorrMM_gradInputs
for _op in (GpuCorr3dMM, GpuCorr3dMM_gradWeights, GpuCorr3dMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = GpuCorr3dMM, GpuCorr3dMM_gradWeights, GpuCorr3dMM_gradInputs
