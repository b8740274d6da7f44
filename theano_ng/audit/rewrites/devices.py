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
from theano_ng.gof.rewriting import Optimizer
from theano_ng.gpuarray import basic_ops, blas, elemwise, extra_ops, product_elemwise, reduction, subtensor, transfers
from theano_ng.gpuarray.contexts import list_contexts
from theano_ng.gpuarray.opt import arrays
from theano_ng.gpuarray.opt.graph_to_gpu import GraphToGPUDB
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.type import GpuArrayType, get_context

#: Rules that are not compared -> reason.
NOT_COMPARED = {
    "local_gpu_pdbbreakpoint_op": "enters a debugger",
    "local_gpua_print_op": "prints",
    "local_gpua_alloc_empty": "the content is undefined",
    "local_gpua_alloc_empty_to_zeros": "the content of the array that it replaces is undefined",
    "local_assert_no_cpu_op": "raises an error, warns, or enters a debugger",
    "local_gpua_scan_to_gpua": "the step is another graph; tests of loops on devices check it",
    "InputToGpuArrayOptimizer": "changes the inputs of any graph",
    **dict.fromkeys(
        "local_gpu_solve local_gpu_cholesky local_gpu_magma_cholesky local_gpu_magma_matrix_inverse local_gpu_magma_svd "
        "local_gpu_magma_qr local_gpu_magma_qr_incomplete local_gpu_magma_eigh local_inplace_gpu_solve "
        "local_inplace_gpu_cholesky local_inplace_gpu_magma_cholesky local_inplace_gpu_magma_matrix_inverse".split(),
        "needs a CUDA device; gpuarray/tests/test_linalg.py compares the values on a fake one",
    ),
}

DTYPES = ("float64", "float32", "float16", "int8", "uint8", "bool", "complex64")

_MODULES = (
    *(
        T,
        theano.compile.ops,
        T.basic,
        T.opt,
        T.extra_ops,
        T.subtensor,
        theano.printing,
        theano_ng.ifelse,
        theano_ng.breakpoint,
    ),
    *(T.shaping.allocation, T.shaping.creation, T.shaping.reshaping, T.shaping.joining, T.shaping.diagonals),
    *(T.reductions.extremes, T.assert_op, basic_ops, blas, elemwise, extra_ops),
    *(product_elemwise, reduction, subtensor, transfers, arrays),
)


def is_available():
    """Return True if a default context is open."""
    return None in list_contexts()


def namespace(dtype="float64"):
    """Return a dict of the names in the examples of rules about devices. Its arrays have the given dtype."""
    names = {}
    for module in _MODULES:
        names.update(vars(module))
    null = GpuArrayType("float64", (), None).make_constant(pygpu.array(np.float64(0), context=get_context(None)))
    names.update(host=basic_ops.host_from_gpu, gpu=basic_ops.GpuFromHost(None), scalar=scalar, np=np, slice=slice)
    names.update(zero=T.constant(np.float64(0)), unit=T.constant(np.float64(1)), null=null, x=T.dmatrix("x"))
    names.update(i=T.lvector("i"), j=T.lvector("j"), n=T.lscalar("n"), c=T.bscalar("c"))
    for name, rank in [("a", 1), ("b", 1), ("A", 2), ("B", 2)]:
        names[name] = GpuArrayType(dtype, (False,) * rank, None)(name)
    names["mask"] = GpuArrayType("bool", (False, False), None)("mask")
    return names


def _moved(values, inputs):
    """Return the values of inputs. Values of device variables are copied to their device."""
    return [
        pygpu.array(np.ascontiguousarray(value), context=v.type.context) if isinstance(v.type, GpuArrayType) else value
        for value, v in zip(values, inputs)
    ]


class DeviceJudge(Judge):
    """A tester of one rule for device arrays. It varies dtypes, numbers, slices and lengths in the rule's examples."""

    def run(self):
        name = self.one.name
        if name in NOT_COMPARED:
            self.verdict.reason = NOT_COMPARED[name]
        elif not is_available():
            self.verdict.reason = "there is no device: pip install 'theano_ng[opencl]'"
        elif any(isinstance(db, GraphToGPUDB) for db in self.one.databases) and len(self.one.databases) == 1:
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
