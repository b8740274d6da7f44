"""Collective operations of processes: ``mpiexec -n 3 python collectives_by_mpi.py DEVICE``. test_collectives.py starts the
processes.
"""

import sys

import numpy as np
from mpi4py import MPI

from theano_ng.gpuarray.pygpu import collectives
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests import collective_cases

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def says(part):
    print("rank %d: %s fine" % (RANK, part), flush=True)


def raises(action):
    try:
        action()
    except (ValueError, pygpu.GpuArrayException) as error:
        return str(error)
    raise AssertionError("no error")


context = pygpu.init(sys.argv[1])
cid = collectives.GpuCommCliqueId(context)
comm = collectives.GpuComm(cid, SIZE, RANK, timeout=60, mpi=WORLD)
collective_cases.run(comm, 3, 100)
assert comm.transport == "host"
says("numbers")

a = pygpu.array(np.zeros(2 + RANK % 2, "float32"), context=context)
said = raises(lambda: comm.all_reduce(a, "sum"))
assert said.startswith("the members of the group have arrays of different shapes: member 0: (2,); member 1: (3,)"), said
said = raises(lambda: comm.all_reduce(a, "median" if RANK == 1 else "sum"))
assert ("another member of the group failed: member 1: ValueError: unknown op" in said) == (RANK != 1), said
for _ in range(3):  # a member can be several failures ahead of the others
    if RANK == 0:
        raises(lambda: comm.all_reduce(a, "mean"))
for _ in range(3):
    if RANK != 0:
        assert "member 0: ValueError" in raises(lambda: comm.all_reduce(a, "sum"))
collective_cases.run(comm, 4, 20)
says("errors")

said = raises(lambda: collectives.GpuComm(cid, SIZE + 1, RANK, mpi=WORLD))
assert said == "member %d of %d is process %d of %d of the MPI communicator" % (RANK, SIZE + 1, RANK, SIZE), said
late = collectives.GpuComm(cid, SIZE, RANK, timeout=3, mpi=WORLD.Dup())
if RANK != 1:
    a = pygpu.array(np.zeros(2), context=context)
    for _ in range(2):
        said = raises(lambda: late.all_reduce(a, "sum"))
        assert said == "member %d of the group cannot go on: member 1 did not come within 3 s" % RANK, said
WORLD.Barrier()
says("absence")
