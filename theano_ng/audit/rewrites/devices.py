"""The oracle for rules about device arrays.

The Ops for devices are computed by the `perform` methods of the corresponding Ops for the host.
"""

import numpy as np

import theano_ng as theano
import theano_ng.breakpoint
import theano_ng.ifelse
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.audit.rewrites.applying import rewritten
from theano_ng.audit.rewrites.comparing import Difference
from theano_ng.audit.rewrites.examples import examples_of
from theano_ng.audit.rewrites.input_values import shapes_and_values
from theano_ng.audit.rewrites.instances import Instance, Setting
from theano_ng.audit.rewrites.oracle import Coverage, Judge
from theano_ng.audit.rewrites.templates import variations
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.graph import inputs as inputs_of
from theano_ng.gof.rewriting import GraphToGPULocalOptGroup, Optimizer
from theano_ng.gpuarray import (
    basic_ops,
    batchnorm,
    blas,
    blocksparse,
    corr,
    ctc,
    elemwise,
    extra_ops,
    neighbours,
    nnet,
    opt,
    pool,
    product_elemwise,
    reduction,
    subtensor,
    transfers,
)
from theano_ng.gpuarray.contexts import list_contexts
from theano_ng.gpuarray.opt.graph_to_gpu import GraphToGPUDB
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.rng_mrg import GPUA_mrg_uniform
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.sandbox.rng_mrg import mrg_uniform
from theano_ng.tensor.nnet.softmax import softmax_grad, softmax_op, softmax_with_bias

#: Rules that are not compared -> reason.
NOT_COMPARED = {
    "local_gpu_pdbbreakpoint_op": "enters a debugger",
    "local_gpua_print_op": "prints",
    "local_gpua_alloc_empty": "the content is undefined",
    "local_gpua_alloc_empty_to_zeros": "the content of the array that it replaces is undefined",
    "local_assert_no_cpu_op": "raises an error, warns, or enters a debugger",
    "local_gpua_scan_to_gpua": "the step is another graph; tests of loops on devices check it",
    "InputToGpuArrayOptimizer": "changes the inputs of any graph",
    "NoCuDNNRaise": "raises an error",
    "conv_metaopt": "measures the results of other rules",
    **dict.fromkeys(
        "local_gpu_solve local_gpu_cholesky local_gpu_magma_cholesky local_gpu_magma_matrix_inverse local_gpu_magma_svd "
        "local_gpu_magma_qr local_gpu_magma_qr_incomplete local_gpu_magma_eigh local_inplace_gpu_solve "
        "local_inplace_gpu_cholesky local_inplace_gpu_magma_cholesky local_inplace_gpu_magma_matrix_inverse".split(),
        "needs a CUDA device; gpuarray/tests/test_linalg.py compares the values on a fake one",
    ),
    **dict.fromkeys(
        "local_abstract_batch_norm_train_cudnn local_abstract_batch_norm_train_grad_cudnn "
        "local_abstract_batch_norm_inference_cudnn local_gpua_pool_dnn_alternative local_gpua_pool_dnn_grad_stride "
        "local_gpua_avg_pool_dnn_grad_stride local_abstractconv_cudnn local_abstractconv_gw_cudnn "
        "local_abstractconv_gi_cudnn local_dnn_conv_alpha_merge local_dnn_convw_alpha_merge "
        "local_dnn_convi_alpha_merge local_dnn_conv_output_merge local_dnn_convw_output_merge "
        "local_dnn_convi_output_merge local_dnn_reduction local_dnn_argmax local_cudnn_maxandargmax local_softmax_dnn "
        "local_gpua_logsoftmax_to_dnn local_gpua_softmax_dnn_grad local_log_softmax_dnn local_dnn_conv_inplace "
        "local_dnn_convgw_inplace local_dnn_convgi_inplace local_dnn_dropout_inplace local_dnn_rnn_gradient_inplace "
        "local_batch_norm_inplace_output local_batch_norm_inplace_running_mean local_batch_norm_inplace_running_var "
        "local_batch_norm_inference_inplace local_gpua_dnn_conv_elemwise local_dnn_conv_elemwise_inplace".split(),
        "needs cuDNN; gpuarray/tests/test_dnn*.py compare the values on a fake device",
    ),
    "local_gpua_labels": "applies before equal nodes are merged; gpuarray/tests/test_nnet.py compares the values",
}

DTYPES = ("float64", "float32", "float16", "int8", "uint8", "bool", "complex64")

# The states of generators of random numbers, for the variable S
STATES = np.arange(1, 13, dtype=np.int32).reshape(2, 6)

# The modules whose names examples use. If two modules have the same name, the last one counts.
_MODULES = (
    *(T, theano.compile.ops, T.basic, T.opt, T.extra_ops, T.subtensor, theano.printing),
    *(theano_ng.ifelse, theano_ng.breakpoint, T.shaping.allocation, T.shaping.creation, T.shaping.reshaping),
    *(T.shaping.joining, T.shaping.diagonals, T.linalg.products, T.blas, T.blas.ops),
    *(pool, corr, T.signal.pool, T.nnet.convolution.abstract, T.nnet.convolution.legacy, T.reductions.extremes),
    *(T.assert_op, basic_ops, elemwise, extra_ops, reduction, subtensor, transfers, batchnorm, blas, blocksparse, ctc),
    *(neighbours, nnet, T.nnet.blocksparse, T.nnet.bn_ops, T.nnet.ctc, T.nnet.neighbours, product_elemwise),
    *(opt.lifts, opt.arrays, opt.random),
)


def is_available():
    """Return True if a default context is open."""
    return None in list_contexts()


def _moved_convolution(op, *inputs):
    """Return the output of an abstract convolution on the device."""
    hosts = [basic_ops.host_from_gpu(v) if isinstance(v.type, GpuArrayType) else v for v in inputs]
    return opt.conv.local_gpua_lift_abstractconv_graph(op, None, inputs, op.make_node(*hosts).outputs)[0]


def _sin_and_cos(x):
    """Return the outputs of one elementwise node, sin(x) and cos(x), for an array on the device."""
    element = scalar.Scalar(x.dtype)()
    both = scalar.Composite([element], [scalar.sin(element), scalar.cos(element)])
    return elemwise.GpuElemwise(both)(x, return_list=True)


def _in_halves(left, right):
    """Return a matrix with three rows and six columns on the device, whose halves are set to two matrices."""
    zero = transfers.as_gpuarray_variable(np.zeros((), left.dtype), None)
    both = basic_ops.GpuAlloc(None, memset_0=True)(zero, 3, 6)
    for start, stop, half in ((None, 3, left), (3, None, right)):
        columns = slice(*[None if n is None else scalar.int64 for n in (start, stop)])
        ends = [np.int64(n) for n in (start, stop) if n is not None]
        both = subtensor.GpuIncSubtensor([slice(None), columns], set_instead_of_inc=True)(both, half, *ends)
    return both


def _set_first(stack, matrix):
    """Return a stack of matrices on the device whose first matrix is set to another matrix."""
    matrix = elemwise.GpuDimShuffle(matrix.broadcastable, ("x", 0, 1))(matrix)
    first = [slice(None, scalar.int64)]
    return subtensor.GpuIncSubtensor(first, set_instead_of_inc=True)(stack, matrix, np.int64(1))


def namespace(dtype="float64"):
    """Return a dict of the names in the examples of rules about devices. Its arrays of numbers have the given dtype."""
    names = {}
    for module in _MODULES:
        names.update(vars(module))
    names.update(T=T, np=np, scalar=scalar, slice=slice, GpuArrayType=GpuArrayType)
    # Arrays of one matrix, so that no undefined elements are left when it is set
    names.update(memory_of_one=lambda: basic_ops.GpuAllocEmpty(dtype, None)(1, 3, 3))
    names.update(moved=_moved_convolution, sin_and_cos=_sin_and_cos, in_halves=_in_halves, set_first=_set_first)
    names.update(mrg_uniform=mrg_uniform, GPUA_mrg_uniform=GPUA_mrg_uniform)
    names.update(softmax_grad=softmax_grad, softmax_op=softmax_op, softmax_with_bias=softmax_with_bias)
    for op in (scalar.add, scalar.sub, scalar.mul, scalar.true_div, scalar.sqrt):
        names[op.name] = elemwise.GpuElemwise(op)
    null = GpuArrayType("float64", (), None).make_constant(pygpu.array(np.float64(0), context=get_context(None)))
    names.update(host=basic_ops.host_from_gpu, gpu=basic_ops.GpuFromHost(None), null=null)
    names.update(zero=T.constant(np.float64(0)), unit=T.constant(np.float64(1)), x=T.dmatrix("x"), s=T.dscalar("s"))
    names.update(i=T.lvector("i"), j=T.lvector("j"), n=T.lscalar("n"), c=T.bscalar("c"), I=T.lmatrix("I"))
    for rank, letters in enumerate(["ab", "AB", "PQ", "MNF", "UV"], 1):
        for name in letters:
            names[name] = GpuArrayType(dtype, (False,) * rank, None)(name)
    names["row"] = GpuArrayType(dtype, (True, False), None)("row")
    names["mask"] = GpuArrayType("bool", (False, False), None)("mask")
    names["S"] = GpuArrayType("int32", (False, False), None)("S")
    return names


def _moved(values, inputs):
    """Return the values of inputs. Values of device variables are copied to their device."""
    values = [STATES if v.name == "S" else value for value, v in zip(values, inputs)]
    return [
        pygpu.array(np.ascontiguousarray(value), context=v.type.context) if isinstance(v.type, GpuArrayType) else value
        for value, v in zip(values, inputs)
    ]


def _is_for_whole_graphs(db):
    """Return True if a database contains rules for the pass that moves whole graphs."""
    return isinstance(db, GraphToGPUDB) or getattr(db, "local_opt", None) is GraphToGPULocalOptGroup


class DeviceJudge(Judge):
    """A tester of one rule for device arrays. It varies dtypes, numbers, slices and lengths in the rule's examples."""

    def run(self):
        name = self.one.name
        if name in NOT_COMPARED:
            self.verdict.reason = NOT_COMPARED[name]
        elif not is_available():
            self.verdict.reason = "there is no device: pip install 'theano_ng[opencl]'"
        elif all(map(_is_for_whole_graphs, self.one.databases)):
            self.verdict.reason = (
                "the rule for single nodes has the same name and content; the pass that moves whole graphs applies it"
            )
        else:
            return self._tried()
        return self.verdict

    def _tried(self):
        own = [before for before, _, _ in examples_of(self.one.name, self.one.rule)]
        for text in own:
            for dtype in DTYPES:
                self._try_on_device(text, namespace(dtype), text if dtype == "float64" else None)
            texts = [pair for pair in variations(text)][1:]
            for _, other in self._some(texts, 2 * self.effort.texts):
                self._try_on_device(other, namespace(), None)
        return self._concluded(own)

    def _try_on_device(self, text, names, example):
        try:
            value = eval(text, dict(names))  # eval is safe: the text comes from this package
        except Exception:  # an Op refused its inputs: the text has no graph
            return
        outputs = list(value) if isinstance(value, (list, tuple)) else [value]
        if not outputs or not all(isinstance(v, Variable) for v in outputs):
            return
        inputs = sorted((v for v in inputs_of(outputs) if not isinstance(v, Constant)), key=lambda v: v.name or "")
        instance = Instance(text, Setting("on a device"), inputs, outputs)
        try:
            change = rewritten(self.one.rule, inputs, outputs)
        except Exception as failure:  # any error of a rule is a fault
            self._report(Difference("crash", after="%s: %s" % (type(failure).__name__, failure)), instance, None)
            return
        if not change.applied:
            return
        self.verdict.graphs += 1
        if not change.ended and not isinstance(self.one.rule, Optimizer):
            self._report(Difference("endless", after=str(change.after)[:300]), instance, None)
            return
        sets, over = shapes_and_values(inputs, self.rng, self.effort.sets if example else 8)
        self._compare(change, instance, [_moved(values, inputs) for values in sets])
        if example:
            self.covered[example] = {("array",): [Coverage(over=over)]}
