"""Ops that draw categories from probabilities and uniform random numbers on devices.

The results equal the results of `sandbox.multinomial` on the host, to the last bit.
"""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.fp16_help import work_dtype
from theano_ng.gpuarray.kernels import multinomial as kernels
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, host_variable
from theano_ng.lazy import lazy_names
from theano_ng.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform

__all__ = ["GPUAChoiceFromUniform", "GPUAMultinomialFromUniform", "GPUAMultinomialWOReplacementFromUniform"]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(
    __name__, {**CLASSIC_IMPORTS, "theano_ng.gpuarray.opt.random": "local_gpua_multinomial local_gpua_multinomial_wor"}
)


class GPUAMultinomialFromUniform(TwinOp):
    """Count how often each category is drawn in n trials, for each row of probabilities on a device.

    The inputs are a matrix of probabilities, a vector of ``n * rows`` uniform numbers, and n (default: 1), which is on
    the host. See `sandbox.multinomial.MultinomialFromUniform`.

    Parameters
    ----------
    odtype : str
        The dtype of the counts. 'auto' means the dtype of the probabilities.

    Raises
    ------
    ValueError
        At run time, if n is negative or the number of uniform numbers is wrong.
    """

    __props__ = ("odtype",)

    def __init__(self, odtype):
        self.odtype = odtype

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.odtype)

    def host_op(self, node):
        return MultinomialFromUniform(self.odtype)

    def make_node(self, pvals, unis, n=1):
        context_name = infer_context_name(pvals, unis)
        host = self.host_op(None).make_node(
            *[host_from_gpu(as_gpuarray_variable(v, context_name)) for v in (pvals, unis)], host_variable(n)
        )
        inputs = [as_gpuarray_variable(v, context_name) for v in host.inputs[:2]]
        return self.on_device([*inputs, host.inputs[2]], host, context_name)

    def native_code(self, node):
        (pvals, unis), z = [v.type for v in node.inputs[:2]], node.outputs[0].type
        return NativeCode(
            "theano_ng.gpuarray.native.random:multinomial",
            typecode=z.typecode,
            kernel=kernels.counts(pvals.dtype, unis.dtype, pvals.context),
        )


class GPUAChoiceFromUniform(GPUAMultinomialFromUniform):
    """Return the categories drawn in n trials, for each row of probabilities on a device.

    The inputs are the same as for `GPUAMultinomialFromUniform`. The result has n columns. See
    `sandbox.multinomial.ChoiceFromUniform`.

    Parameters
    ----------
    odtype : str
        The dtype of the result. 'auto' means int64.
    replace : bool
        If True, a category can be drawn again.

    Raises
    ------
    ValueError
        At run time, if n is negative, the number of uniform numbers is wrong, or n is greater than the number of
        categories and `replace` is False.
    """

    __props__ = ("odtype", "replace")

    def __init__(self, odtype, replace=False):
        super().__init__(odtype)
        self.replace = replace

    def __str__(self):
        return "%s{odtype=%r, replace=%s}" % (type(self).__name__, self.odtype, self.replace)

    def host_op(self, node):
        return ChoiceFromUniform(self.odtype, self.replace)

    def native_code(self, node):
        (pvals, unis), z = [v.type for v in node.inputs[:2]], node.outputs[0].type
        return NativeCode(
            "theano_ng.gpuarray.native.random:choice",
            typecode=z.typecode,
            kernel=kernels.choices(pvals.dtype, unis.dtype, z.dtype, bool(self.replace), pvals.context),
            work_type=-1 if self.replace else pygpu.dtype_to_typecode(work_dtype(pvals.dtype)),
        )


class GPUAMultinomialWOReplacementFromUniform(GPUAChoiceFromUniform):
    """The old name of `GPUAChoiceFromUniform`."""
