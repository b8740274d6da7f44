"""Fit a plane to points, with several processes::

    mpiexec -n 2 python several_processes.py cuda0 cuda1

The arguments are the devices of the processes. Each process has its own points.
"""

import sys

import numpy as np
from mpi4py import MPI

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gpuarray import devices
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.pygpu import collectives

rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
devices.init_dev(sys.argv[1 + rank], "dev")
comm = collectives.GpuComm(collectives.GpuCommCliqueId(get_context("dev")), size, rank, mpi=MPI.COMM_WORLD)

rng = np.random.default_rng(rank)
points = rng.normal(size=(500, 3)).astype("float32")
heights = points @ np.float32([1, -2, 3])

w = theano.shared(rng.normal(size=3).astype("float32"), target="dev")  # differs between the processes
array = w.get_value(borrow=True, return_internal_type=True)
comm.broadcast(array, root=-1 if rank == 0 else 0)  # now all have the value of process 0

x, y = T.fmatrix(), T.fvector()
cost = T.sqr(T.dot(x, w) - y).mean() / np.float32(size)
gradient = theano.function([x, y], T.grad(cost, w).transfer("dev"))
step = w.type()
descend = theano.function([step], updates=[(w, w - np.float32(0.2) * step)])
for _ in range(50):
    found = gradient(points, heights)
    descend(comm.all_reduce(found, "sum", dest=found))
print("process %d of %d, by %s: %s" % (rank, size, comm.transport, np.round(w.get_value(), 3).tolist()))
