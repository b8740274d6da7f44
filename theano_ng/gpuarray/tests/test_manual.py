"""Tests that run programs like those of the manual for GPUs on an OpenCL device.

Each program runs in its own process, in which ``import theano`` imports this package.
"""

import os
import re
import subprocess
import sys
import unittest

import numpy as np

from theano_ng import legacy
from theano_ng.configdefaults import config
from theano_ng.gpuarray.tests.device import DEVICE, context

# "Testing Theano with GPU", with fewer iterations than in the manual.
EXPONENTIALS = """
from theano import function, config, shared, tensor
import numpy
import time

vlen = 10 * 30 * 768 # 10 x #cores x # threads per core
iters = 10

rng = numpy.random.RandomState(22)
x = shared(numpy.asarray(rng.rand(vlen), config.floatX))
f = function([], %s)
print(f.maker.fgraph.toposort())
t0 = time.time()
for i in range(iters):
    r = f()
t1 = time.time()
print("Looping %%d times took %%f seconds" %% (iters, t1 - t0))
print("Result is %%s" %% (numpy.asarray(r),))
if numpy.any([isinstance(x.op, tensor.Elemwise) and
               ('Gpu' not in type(x.op).__name__)
               for x in f.maker.fgraph.toposort()]):
    print('Used the cpu')
else:
    print('Used the gpu')
"""

# "A simple graph on two GPUs", with smaller matrices than in the manual.
TWO_DEVICES = """
import numpy
import theano

v01 = theano.shared(numpy.random.random((64, 64)).astype('float32'),
                    target='dev0')
v02 = theano.shared(numpy.random.random((64, 64)).astype('float32'),
                    target='dev0')
v11 = theano.shared(numpy.random.random((64, 64)).astype('float32'),
                    target='dev1')
v12 = theano.shared(numpy.random.random((64, 64)).astype('float32'),
                    target='dev1')

f = theano.function([], [theano.tensor.dot(v01, v02),
                        theano.tensor.dot(v11, v12)])

f()
print([s.type.context_name for s in (v01, v02, v11, v12)])
for found, (a, b) in zip(f(), [(v01, v02), (v11, v12)]):
    print(numpy.allclose(found, numpy.dot(a.get_value(), b.get_value()), rtol=1e-5))
"""

# "Explicit transfers of data".
TRANSFERS = """
import theano

v = theano.tensor.fmatrix()

# Move to the device associated with 'gpudev'
gv = v.transfer('gpudev')

# Move back to the cpu
cv = gv.transfer('cpu')

import numpy
a = numpy.arange(6, dtype='float32').reshape(2, 3)
print(gv.type, cv.type, (theano.function([v], cv)(a) == a).all())
theano.printing.debugprint(v.transfer('cpu'))
s = theano.shared(a, target='gpudev')
f = theano.function([], theano.tensor.exp(s), mode="FAST_RUN")
print(f.maker.fgraph.toposort())
print(numpy.allclose(f(), numpy.exp(a)))
"""

# A regression whose parameters are shared variables on the device.
REGRESSION = """
import numpy as np
import theano
from theano import tensor as T

source = np.random.RandomState(11)
points = source.normal(size=(250, 40)).astype(theano.config.floatX)
direction = source.normal(size=40)
sides = (points.dot(direction) > 0).astype(theano.config.floatX)

slopes = theano.shared(np.zeros(40, theano.config.floatX), name="slopes")
offset = theano.shared(np.zeros((), theano.config.floatX), name="offset")
data, target = T.matrix("data"), T.vector("target")
data.tag.test_value, target.tag.test_value = points, sides

score = T.dot(data, slopes) + offset
loss = T.nnet.softplus(score) - target * score
objective = loss.mean() + 1e-3 * T.sqr(slopes).sum()
descent = [(p, p - 0.5 * T.grad(objective, p)) for p in (slopes, offset)]
step = theano.function([data, target], [loss, score > 0], updates=descent)
classify = theano.function([data], score > 0)

first = step(points, sides)[0].mean()
for _ in range(200):
    losses, guesses = step(points, sides)
print(losses.mean() < first, (classify(points) == sides).mean() > 0.97)
print(type(slopes.type).__name__, type(offset.type).__name__, slopes.get_value().dtype)
print(any(isinstance(node.op, theano.gpuarray.elemwise.GpuElemwise) for node in step.maker.fgraph.apply_nodes))
np.savez(%r, w=slopes.get_value(), b=offset.get_value())
"""

# A 0-d shared variable stays on the host, and so does an input whose tag requests it.
ON_THE_HOST = """
import theano, numpy
from theano import tensor as T
count = theano.shared(0)
print(count.type)
x = T.fmatrix('x')
x.tag.target = 'cpu'
y = T.fmatrix('y')
f = theano.function([x, y], [x + 1, T.exp(y)], updates=[(count, count + 1)])
print(sorted(type(node.op).__name__ for node in f.maker.fgraph.toposort()))
f(numpy.ones((2, 2), 'float32'), numpy.ones((2, 2), 'float32'))
print(count.get_value())
a, b = T.fmatrices('ab')
theano.printing.debugprint(theano.function([a, b], (a + b) * a))
"""


def run(program, flags):
    """Run a program that contains ``import theano``; return (stdout, stderr)."""
    environment = dict(os.environ, PYTHONPATH=legacy.folder_for_processes())
    environment["THEANO_FLAGS"] = "base_compiledir=%s,%s" % (config.base_compiledir, flags)
    root = os.path.dirname(os.path.dirname(os.path.abspath(legacy.__path__[0])))
    environment["PYTHONPATH"] += os.pathsep + root
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=300)
    if done.returncode:
        raise AssertionError("exit status %d\n%s\n%s" % (done.returncode, done.stdout, done.stderr))
    return done.stdout, done.stderr


class TestPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        context()
        cls.flags = "device=%s,floatX=float32" % DEVICE

    def results(self, text):
        numbers = [float(number) for number in re.findall(r"\d\.\d+", text.split("Result is")[1])]
        expected = np.exp(np.random.RandomState(22).rand(10 * 30 * 768))
        np.testing.assert_allclose(numbers, [*expected[:3], *expected[-3:]], rtol=1e-6)

    def test_exponentials(self):
        out, err = run(EXPONENTIALS % "tensor.exp(x)", self.flags)
        lines = out.splitlines()
        self.assertEqual(
            lines[0],
            "[GpuElemwise{exp,no_inplace}(<GpuArrayType<None>(float32, (False,))>), HostFromGpu(gpuarray)(GpuElemwise{exp,no_inplace}.0)]",
        )
        self.assertEqual(lines[-1], "Used the gpu")
        self.results(out)
        self.assertRegex(err, r"\AMapped name None to device %s: .+ \(.+\)\n\Z" % DEVICE)

    def test_exponentials_on_the_host(self):
        out, err = run(EXPONENTIALS % "tensor.exp(x)", "device=cpu")
        self.assertEqual(out.splitlines()[0], "[Elemwise{exp,no_inplace}(<TensorType(float64, vector)>)]")
        self.assertEqual((out.splitlines()[-1], err), ("Used the cpu", ""))
        self.results(out)

    def test_results_on_the_device(self):
        out, _ = run(EXPONENTIALS % "tensor.exp(x).transfer(None)", self.flags)
        self.assertEqual(out.splitlines()[0], "[GpuElemwise{exp,no_inplace}(<GpuArrayType<None>(float32, (False,))>)]")
        self.assertEqual(out.splitlines()[-1], "Used the gpu")
        self.results(out)

    def test_two_devices(self):
        out, err = run(TWO_DEVICES, "contexts=dev0->%s; dev1->%s" % (DEVICE, DEVICE))
        self.assertEqual(out, "['dev0', 'dev0', 'dev1', 'dev1']\nTrue\nTrue\n")
        self.assertRegex(
            err, r"\AMapped name dev0 to device %s: .+\nMapped name dev1 to device %s: .+\n\Z" % (DEVICE, DEVICE)
        )

    def test_transfers(self):
        out, _ = run(TRANSFERS, "contexts=gpudev->%s" % DEVICE)
        lines = out.splitlines()
        self.assertEqual(lines[0], "GpuArrayType<gpudev>(float32, (False, False)) TensorType(float32, matrix) True")
        self.assertEqual(lines[1], "<TensorType(float32, matrix)> [id A]")
        # The Op runs on the device of its input.
        self.assertIn("GpuElemwise{exp,no_inplace}(<GpuArrayType<gpudev>(float32, (False, False))>)", lines[2])
        self.assertEqual(lines[3], "True")

    def test_logistic_regression(self):
        found = []
        for device in (DEVICE, "cpu"):
            path = os.path.join(config.compiledir, "regression_%s.npz" % device.replace(":", "_"))
            out, _ = run(REGRESSION % path, "device=%s,floatX=float32" % device)
            on_device = device != "cpu"
            self.assertEqual(
                out,
                "True True\n%s TensorType float32\n%s\n" % ("GpuArrayType" if on_device else "TensorType", on_device),
            )
            with np.load(path) as values:
                found.append((values["w"], values["b"]))
        for here, there in zip(*found):
            np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-4)

    def test_what_stays_on_the_host(self):
        out, _ = run(ON_THE_HOST, self.flags)
        self.assertEqual(
            out,
            "TensorType(int64, scalar)\n['Elemwise', 'Elemwise', 'GpuElemwise', 'GpuFromHost', 'HostFromGpu']\n1\n"
            "HostFromGpu(gpuarray) [id A] ''   3\n"
            " |GpuElemwise{Composite{((i0 + i1) * i0)}}[(0, 0)]<gpuarray> [id B] ''   2\n"
            "   |GpuFromHost<None> [id C] ''   1\n"
            "   | |a [id D]\n"
            "   |GpuFromHost<None> [id E] ''   0\n"
            "     |b [id F]\n",
        )
