"""Ops that make, join and index arrays on devices, for the audit: ``theano_ng-audit theano_ng.gpuarray.tests.audit_cases_indexing``.

Checks run in forked processes, and a device cannot be shared with a child: each child opens it for itself, the process that began never does.
"""

import os

import numpy as np

from theano_ng import tensor as tt
from theano_ng.audit.records import Case
from theano_ng.gpuarray import subtensor
from theano_ng.gpuarray.basic_ops import GpuAlloc, GpuEye, GpuJoin, GpuReshape, GpuSplit, GpuTri, as_gpuarray_variable
from theano_ng.gpuarray.extra_ops import GpuCumOp
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax

NAME = "test"
RNG = np.random.RandomState(21)
X, Y = RNG.randn(3, 4).astype("float32"), RNG.randn(3, 4).astype("float32")
T3 = RNG.randn(2, 3, 4).astype("float32")
ROWS, COLUMNS = np.array([2, 0, 2]), np.array([1, 1, 3])


def _open():
    from theano_ng.gpuarray import contexts
    from theano_ng.gpuarray.tests import device

    for name in list(contexts.list_contexts()):
        contexts.unregister(name)
    device._opened.clear()
    device.context(NAME)


def _on_device(op, *places):
    """A callable that hands an Op the inputs with these numbers (all: none given) on the device."""

    def call(*inputs):
        return op(*[as_gpuarray_variable(v, NAME) if not places or i in places else v for i, v in enumerate(inputs)])

    return call


def _part(cls, **kwargs):
    """A callable that indexes x by ``[1:, i]``."""
    template = tt.fmatrix()[1:, tt.lscalar()].owner
    rest = template.inputs[1:2]
    return _on_device(
        lambda *v: cls(template.op.idx_list, **kwargs)(*v[:-1], *rest, tt.scalar_from_tensor(v[-1])),
        *range(kwargs and 2 or 1),
    )


def audit_cases():
    """The cases; registers what opens the device in processes that are forked later."""
    os.register_at_fork(after_in_child=_open)
    i = np.array(1)
    rows = (
        subtensor.GpuAdvancedSubtensor1(),
        subtensor.GpuAdvancedIncSubtensor1(),
        subtensor.GpuAdvancedIncSubtensor1(set_instead_of_inc=True),
    )
    table = [
        ("GpuAlloc", _on_device(lambda v: GpuAlloc(NAME)(v, 2, 3, 4)), [X]),
        ("GpuEye", lambda n, m, k: GpuEye("float32", NAME)(n, m, k), [np.array(3), np.array(4), i]),
        ("GpuTri", lambda n, m, k: GpuTri("float32", NAME)(n, m, k), [np.array(3), np.array(4), i]),
        ("GpuJoin", _on_device(lambda x, y: GpuJoin()(1, x, y)), [X, Y]),
        ("GpuSplit", _on_device(lambda x: GpuSplit(2)(x, 1, np.array([1, 3]))), [X]),
        ("GpuReshape", _on_device(lambda x: GpuReshape(1)(x, [-1])), [X]),
        ("GpuSubtensor", _part(subtensor.GpuSubtensor), [X, i]),
        ("GpuIncSubtensor", _part(subtensor.GpuIncSubtensor, set_instead_of_inc=False), [X, Y[1:, 0], i]),
        ("GpuIncSubtensor set", _part(subtensor.GpuIncSubtensor, set_instead_of_inc=True), [X, Y[1:, 0], i]),
        ("GpuAdvancedSubtensor1", _on_device(rows[0], 0), [X, ROWS]),
        ("GpuAdvancedIncSubtensor1", _on_device(rows[1], 0, 1), [X, Y, ROWS]),
        ("GpuAdvancedIncSubtensor1 set", _on_device(rows[2], 0, 1), [X, Y, ROWS]),
        ("GpuAdvancedIncSubtensor1_dev20", _on_device(subtensor.GpuAdvancedIncSubtensor1_dev20(), 0, 1), [X, Y, ROWS]),
        ("GpuAdvancedSubtensor", _on_device(subtensor.GpuAdvancedSubtensor(), 0), [X, ROWS, COLUMNS]),
        (
            "GpuAdvancedIncSubtensor",
            _on_device(subtensor.GpuAdvancedIncSubtensor(), 0, 1),
            [X, Y[0, :3], ROWS, COLUMNS],
        ),
        ("GpuAdvancedBooleanSubtensor", _on_device(subtensor.GpuAdvancedBooleanSubtensor(), 0), [X, X > 0]),
        (
            "GpuAdvancedBooleanIncSubtensor",
            _on_device(subtensor.GpuAdvancedBooleanIncSubtensor(), 0, 1),
            [X, np.float32(2), X > 0],
        ),
        ("GpuExtractDiag", _on_device(subtensor.GpuExtractDiag(1)), [X]),
        ("GpuExtractDiag view", _on_device(subtensor.GpuExtractDiag(-1, 2, 0, True)), [T3]),
        ("GpuAllocDiag", _on_device(subtensor.GpuAllocDiag(-1)), [X]),
        ("GpuCumOp", _on_device(GpuCumOp(1)), [X]),
        ("GpuCumOp product", _on_device(GpuCumOp(None, "mul")), [X]),
        ("GpuMaxAndArgmax", _on_device(GpuMaxAndArgmax((0, 2))), [T3]),
    ]
    skip = dict.fromkeys(
        ("grad", "R_op"), "its derivatives are those of the Op on the host, which has cases of its own"
    )
    return [Case(op, inputs, name, skip=skip) for name, op, inputs in table]
