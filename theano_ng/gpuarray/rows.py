"""Row programs on devices: reductions of rows and elementwise operations that one kernel computes."""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.kernels.row_loop import ELEMENT, ONE, ROW, Map, Number, Place, RowFold, RowLoop
from theano_ng.gpuarray.kernels.rows import elements_per_pack, row_kernel
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.type import GpuArrayType

NATIVE = "theano_ng.gpuarray.native.rows:rows"


class LoopBuilder:
    """A builder of row programs. Its methods return the numbers of values.

    Parameters
    ----------
    inputs : sequence of RowInput
    """

    def __init__(self, inputs):
        self.inputs, self.steps = tuple(inputs), []

    def _value(self, k):
        return (*self.inputs, *self.steps)[k]

    def dtype(self, k):
        """Return the dtype of a value."""
        return self._value(k).dtype

    def _added(self, step):
        self.steps.append(step)
        return len(self.inputs) + len(self.steps) - 1

    def map(self, op, *arguments, dtype=None):
        """Apply a scalar op. By default, the result has the dtype of the last argument."""
        values = [self._value(a) for a in arguments]
        return self._added(Map(op, arguments, dtype or values[-1].dtype, max(ROW, *[v.level for v in values])))

    def fold(self, op, argument, accumulator=None):
        """Reduce a value per element to a value per row, of the same dtype."""
        dtype = self._value(argument).dtype
        return self._added(RowFold(op, argument, accumulator or dtype, dtype))

    def number(self, dtype, value):
        """Add a constant."""
        return self._added(Number(dtype, value))

    def place(self):
        """Add the position of an element in its row."""
        return self._added(Place())

    def loop(self, *stores):
        """Return the `RowLoop` whose outputs are the values `stores`."""
        return RowLoop(self.inputs, tuple(self.steps), stores)


# Kinds of nodes, as in native/rows.c. Each kind except ANY has its own error messages.
ANY, SOFTMAX, SOFTMAX_GRAD, CROSSENTROPY, CROSSENTROPY_GRAD, ONEHOT, ONEHOT_GRAD = range(7)


def row_code(loop, inputs, outputs, outer, kind=ANY, may_fail=True, label_check=0, site=0):
    """Return the native code of a node that computes a row program.

    Parameters
    ----------
    loop : RowLoop
    inputs, outputs : list of Variable
        Device variables. Inputs of the level ONE may be on the host.
    outer : int
        The number of axes that count rows.
    kind : int
        ANY, SOFTMAX, ... Only inputs of the kind ANY broadcast. The last input of the cross-entropies contains the
        labels.
    may_fail : bool
        Whether rows without elements raise an error if a reduction has no identity.
    label_check : DeviceKernel or 0
        The kernel that checks the labels; see `kernels.indexing.check_labels`.
    site : int
        The number of the node for errors that this kernel reports; see `device.index_errors.site_of`.

    Returns
    -------
    NativeCode
    """
    context = outputs[0].type.context
    is_number = [x.level == ONE and not isinstance(v.type, GpuArrayType) for x, v in zip(loop.inputs, inputs)]
    loop = loop._replace(inputs=tuple([x._replace(is_number=n) for x, n in zip(loop.inputs, is_number)]))
    for x, v in zip(loop.inputs, inputs):
        if isinstance(v.type, GpuArrayType) and v.type.dtype != x.dtype:
            raise TypeError("the program reads %s, but an input is of type %s" % (x.dtype, v.type))
    levels = [x.level for x in loop.inputs] + [loop.values[k].level for k in loop.stores]
    operands = [
        dict(
            is_output=k >= len(inputs),
            level=level,
            typecode=pygpu.dtype_to_typecode(v.type.dtype),
            on_host=not isinstance(v.type, GpuArrayType),
            ndim=v.type.ndim,
            broadcastable=sum(1 << d for d, b in enumerate(v.type.broadcastable) if b) if kind == ANY else 0,
        )
        for k, (v, level) in enumerate(zip([*inputs, *outputs], levels))
    ]
    rank = max(v.type.ndim for v, level in zip([*inputs, *outputs], levels) if level == ELEMENT)
    folds = [step for step in loop.steps if isinstance(step, RowFold)]
    return NativeCode(
        NATIVE,
        context=context_address(context),
        kernel=row_kernel(loop, context),
        width=elements_per_pack(loop),
        outer=outer,
        rank=rank,
        nonempty=may_fail and any(getattr(step.op, "identity", None) is None for step in folds),
        kind=kind,
        label_check=label_check,
        site=site,
        operands=operands,
    )
