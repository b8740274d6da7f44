"""Two processes that send each other arrays: ``mpiexec -n 2 python exchange_by_mpi.py``. The test of tensor.io starts
them.

Every process prints ``rank <n>: <what> fine`` for each part; a part that fails ends the program.
"""

import sys

import numpy as np
from mpi4py import MPI

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng.gof.sched import sort_schedule_fn
from theano_ng.tensor import io

RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
OTHER = 1 - RANK
IN_TURN = sort_schedule_fn(*io.mpi_cmps)


def fine(what):
    print("rank %d: %s fine" % (RANK, what), flush=True)


def blocking():
    """Send arrays from one process; the other receives them and sends back twice the values."""
    x = tt.dmatrix()
    if RANK == 0:
        sent = theano.function([x], io.send(x, 1, 11))
        back = theano.function([], io.recv((2, 3), "float64", 1, 12))
        for k in range(3):
            v = np.arange(6.0).reshape(3, 2).T + k  # not contiguous
            assert sent(v) is True
            np.testing.assert_array_equal(back(), v * 2)
    else:
        got = io.recv((2, 3), "float64", 0, 11)
        answer = theano.function([], io.send(got * 2, 0, 12))
        for _ in range(3):
            answer()


def exchange():
    """Call a function that sends and receives, in both processes and with every linker that takes a schedule.

    The schedule puts nodes that wait after all nodes that start a transfer, and nodes with lower tags first.
    """
    for linker in (
        theano.gof.OpWiseCLinker(schedule=IN_TURN),
        theano.gof.PerformLinker(schedule=IN_TURN),
        theano.gof.vm.VM_Linker(schedule=IN_TURN, use_cloop=True),
    ):
        x = tt.dvector()
        sends = [io.send(x * k, OTHER, k) for k in (3, 1, 2)]
        gets = [io.recv((1000,), "float64", OTHER, k) for k in (1, 2, 3)]
        f = theano.function([x], [*sends, *[g + 1 for g in gets]], mode=theano.Mode(linker, "fast_run"))
        order = [n.op for n in IN_TURN(f.maker.fgraph)]
        first_wait = min(i for i, op in enumerate(order) if isinstance(op, (io.MPISendWait, io.MPIRecvWait)))
        assert all(i < first_wait for i, op in enumerate(order) if isinstance(op, (io.MPISend, io.MPIRecv))), order
        for kind in (io.MPIRecv, io.MPIRecvWait, io.MPISendWait):
            assert [op.tag for op in order if isinstance(op, kind)] == [1, 2, 3], order
        for _ in range(2):
            *sent, one, two, three = f(np.full(1000, RANK + 1.0))
            assert sent == [True] * 3
            assert [set(v) for v in (one, two, three)] == [
                {OTHER + 2.0},
                {(OTHER + 1) * 2.0 + 1},
                {(OTHER + 1) * 3.0 + 1},
            ]


def kinds():
    """Exchange arrays of several dtypes, some of which are 0-d or have no elements.

    Each call of the function sends the same constant again.
    """
    for tag, (dtype, shape) in enumerate(
        [
            ("bool", (2,)),
            ("int8", ()),
            ("float16", (2, 2)),
            ("complex64", (3,)),
            ("float64", (0, 4)),
            ("uint64", (2, 1, 2)),
        ]
    ):
        value = np.ones(shape, dtype)
        out = [io.send(tt.constant(value), OTHER, tag), io.recv(shape, dtype, OTHER, tag)]
        f = theano.function([], out)
        for _ in range(2):
            sent, got = f()
            assert sent is True and got.dtype == dtype, (got, dtype)
            np.testing.assert_array_equal(got, value)


def in_place():
    """Check that an update in place does not overwrite an array before it has been sent."""
    s = theano.shared(np.full(100000, 1.0 + RANK))
    request, data = io.isend(s, OTHER, 5)
    f = theano.function(
        [], [io.MPISendWait(5)(request, data), io.recv((100000,), "float64", OTHER, 5)], updates=[(s, s * 10)]
    )
    for k in range(3):
        got = f()[1]
        assert set(got) == {(1.0 + OTHER) * 10**k}, set(got)


def sizes():
    """Check that a message of an unexpected length is an error, and that the next message still arrives."""
    x = tt.dvector()
    send = theano.function([x], io.send(x, OTHER, 21))
    get = theano.function([], io.recv((4,), "float64", OTHER, 21))
    for length, error in ((3, ValueError), (5, Exception), (4, None)):
        if RANK == 0:
            send(np.ones(length))
        elif error is None:
            np.testing.assert_array_equal(get(), np.ones(4))
        else:
            try:
                get()
            except error as failure:
                assert (
                    length != 3
                    or "expected an array of 32 bytes (shape (4,), dtype float64), got a message of 24 bytes"
                    in str(failure)
                )
            else:
                raise AssertionError("a message of %d elements was accepted" % length)


if __name__ == "__main__":
    if SIZE != 2:
        print("started alone: mpiexec and mpi4py belong to different MPIs")
        sys.exit(0)
    for part in (blocking, exchange, kinds, in_place, sizes):
        part()
        MPI.COMM_WORLD.Barrier()
        fine(part.__name__)
