"""Tests of flags and functions that open devices, with and without a device."""

import os
import subprocess
import sys
import textwrap
import unittest

from theano_ng import gpuarray
from theano_ng.configdefaults import config
from theano_ng.gpuarray import devices
from theano_ng.gpuarray.tests.device import context


def run(code, flags, ok=True, **variables):
    """Run code in a process with these flags and environment variables; return (stdout, stderr)."""
    environment = dict(os.environ, THEANO_FLAGS="base_compiledir=%s,%s" % (config.base_compiledir, flags))
    environment.pop("CUDA_LAUNCH_BLOCKING", None)
    environment.update(variables)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=environment, timeout=300
    )
    if ok != (done.returncode == 0):
        raise AssertionError("exit status %d\n%s\n%s" % (done.returncode, done.stdout, done.stderr))
    return done.stdout, done.stderr


class TestNoDevice(unittest.TestCase):
    """Tests without a device: programs continue on the CPU, unless they force a device."""

    def test_fall_back(self):
        for device, reason, advice in (
            ("cuda7000", "(NVIDIA's driver|there is no cuda7000)", "nvidia-smi"),
            ("opencl99:0", "OpenCL", r"pip install 'theano_ng\[opencl\]'"),
        ):
            out, err = run(
                """
                import numpy as np, theano_ng as theano, theano_ng.tensor as T
                x = T.dvector()
                print(theano.function([x], x + 1)(np.zeros(2)), theano.config.device)
                print(theano.gpuarray.pygpu_activated, list(theano.gpuarray.list_contexts()), theano.shared(np.ones(2)).type)
                """,
                "device=" + device,
            )
            self.assertEqual(out, "[1. 1.] %s\nFalse [] TensorType(float64, vector)\n" % device)
            self.assertRegex(
                err,
                "TheanoConfigWarning: device=%s: no GPU can be used; computations run on the CPU: .*%s.*%s"
                % (device, reason, advice),
            )
            self.assertEqual(err.count("\n"), 1, err)

    def test_forced(self):
        _, err = run("import theano_ng", "device=cuda7000,force_device=True", ok=False)
        self.assertRegex(
            err,
            "TheanoConfigError: device=cuda7000: no GPU can be used, and force_device is True: .*Use device=cpu, or use force_device=False",
        )

    def test_forced_cpu(self):
        code = """
            import sys, theano_ng
            print([name for name in sys.modules if name.startswith("theano_ng.gpuarray")])
            """
        flags = "force_device=True,init_gpu_device=cuda7000,contexts=a->cuda7000"
        self.assertEqual(run(code, flags), ("[]\n", ""))

    def test_contradiction(self):
        _, err = run("import theano_ng", "device=cuda,init_gpu_device=cuda", ok=False)
        self.assertIn("init_gpu_device=cuda requires device=cpu", err)

    def test_versions(self):
        self.assertEqual(devices.pygpu_parse_version("0.7.6"), (0, 7, 6, ""))
        self.assertEqual(devices.pygpu_parse_version("0.7.6+20.g5a7b5e7"), (0, 7, 6, "+20.g5a7b5e7"))
        self.assertEqual(devices.pygpu_parse_version("1.2"), (1, 2, 0, ""))
        with self.assertRaisesRegex(ValueError, "'unknown' is not a version"):
            gpuarray.pygpu_parse_version("unknown")

    def test_contexts_of_the_flag(self):
        self.assertEqual(
            devices.contexts_of_flag("dev0->cuda0; dev1->opencl0:1;"), [("dev0", "cuda0"), ("dev1", "opencl0:1")]
        )

    def test_bad_names(self):
        for name in ("gpu0", "quantum"):
            with self.assertRaisesRegex(ValueError, "'%s' is not a device that can be forced" % name):
                gpuarray.use(name, force=True)


class TestOneDevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        context()

    def test_default(self):
        out, err = run(
            """
            import numpy as np, theano_ng as theano, theano_ng.tensor as T
            gpuarray = theano.gpuarray
            values = np.ones(3, "float32"), 0, np.float32(1), 1.5, np.asarray(1.5), np.ones(2, "complex64"), np.arange(3)
            print([type(theano.shared(value).type).__name__ for value in values])
            print(theano.shared(values[0], target="cpu").type)
            print(gpuarray.pygpu_activated, gpuarray.theano_gpu_is_already_active, list(gpuarray.list_contexts()))
            print(T.fvector().transfer(None).type)
            context = gpuarray.get_context(None)
            print(context.memory["reserved"] >= 3 * 2**20, context.kernel_cache_path == theano.config.gpuarray.cache_path)
            try:
                gpuarray.init_dev("opencl0:0")
            except ValueError as failure:
                print(failure)
            gpuarray.use("opencl0:0")
            gpuarray.init_dev("opencl0:0", "second", preallocate=-1)
            print(list(gpuarray.list_contexts()))
            """,
            "device=opencl0:0,floatX=float32,gpuarray.preallocate=3,gpuarray.sched=multi",
        )
        self.assertEqual(
            out,
            "['GpuArrayType', 'TensorType', 'TensorType', 'TensorType', 'TensorType', 'TensorType', 'GpuArrayType']\n"
            "TensorType(float32, vector)\nTrue True [None]\nGpuArrayType<None>(float32, (False,))\nTrue True\n"
            "context name None is already registered\n[None, 'second']\n",
        )
        self.assertRegex(
            err,
            r"\APreallocating 3/\d+ Mb \(0\.\d{6}\) on opencl0:0\nMapped name None to device opencl0:0: .+ \(.+\)\n"
            r"Mapped name second to device opencl0:0: .+ \(.+\)\n\Z",
        )

    def test_only_opened(self):
        out, err = run(
            """
            import numpy as np, theano_ng as theano, theano_ng.tensor as T
            print(theano.shared(np.ones(3)).type, theano.shared(np.ones(3), target=None).type)
            x = T.dvector()
            print([type(node.op).__name__ for node in theano.function([x], x + 1).maker.fgraph.toposort()], theano.config.gpuarray.sync)
            """,
            "init_gpu_device=opencl0:0,print_active_device=False",
            CUDA_LAUNCH_BLOCKING="1",
        )
        self.assertEqual(out, "TensorType(float64, vector) GpuArrayType<None>(float64, (False,))\n['Elemwise'] True\n")
        self.assertEqual(err, "")

    def test_contexts(self):
        out, err = run(
            """
            import numpy as np, theano_ng as theano, theano_ng.tensor as T
            v = [theano.shared(np.full((2, 2), i, "float32"), target="dev%d" % (i % 2)) for i in range(4)]
            print([s.type.context_name for s in v], theano.shared(np.ones(2)).type)
            x = T.fmatrix()
            f = theano.function([x], x.transfer("dev0").transfer("dev1").transfer("cpu") + v[3])
            print(f(np.ones((2, 2), "float32")).tolist())
            try:
                x.transfer(None)
            except ValueError as failure:
                print(str(failure).split(".")[0])
            """,
            "contexts=dev0->opencl0:0; dev1->opencl0:0",
        )
        self.assertEqual(
            out,
            "['dev0', 'dev1', 'dev0', 'dev1'] TensorType(float64, vector)\n[[4.0, 4.0], [4.0, 4.0]]\n"
            "Can't transfer <TensorType(float32, matrix)> to target None\n",
        )
        self.assertRegex(
            err, r"\AMapped name dev0 to device opencl0:0: .+\nMapped name dev1 to device opencl0:0: .+\n\Z"
        )

    def test_children(self):
        """A spawned child process runs without a device. A forked child process cannot use the device of its parent."""
        code = """
            import multiprocessing, sys
            def work(queue):
                import theano_ng as theano
                queue.put((theano.gpuarray.pygpu_activated, list(theano.gpuarray.list_contexts())))
            if __name__ == "__main__":
                import numpy as np, theano_ng as theano
                queue = multiprocessing.get_context("spawn").Queue()
                child = multiprocessing.get_context("spawn").Process(target=work, args=(queue,))
                child.start()
                print(queue.get(timeout=100))
                child.join()
                s = theano.shared(np.ones(3, "float32"))
                import os
                if os.fork() == 0:
                    try:
                        s.get_value()
                    except Exception as failure:
                        print(str(failure))
                    sys.stdout.flush()
                    os._exit(0)
                os.wait()
            """
        path = os.path.join(config.compiledir, "children_of_devices.py")
        with open(path, "w") as file:
            file.write(textwrap.dedent(code))
        environment = dict(os.environ, THEANO_FLAGS="base_compiledir=%s,device=opencl0:0" % config.base_compiledir)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", path], capture_output=True, text=True, env=environment, timeout=300
        )
        self.assertEqual(done.stdout.split("\n")[0], "(False, [])", done.stderr)
        self.assertIn("opened before this process was forked", done.stdout)
        self.assertEqual(done.stderr.count("Mapped name"), 1, done.stderr)

    def test_moved_paths(self):
        out, _ = run(
            """
            import sys, warnings
            warnings.simplefilter("ignore")
            import theano_ng.legacy
            theano_ng.legacy.install(force=True)
            import theano
            import theano.gpuarray, theano.sandbox.gpuarray
            from theano.sandbox.gpuarray.type import GpuArrayType
            from theano.gpuarray.basic_ops import GpuKernelBase
            import pygpu
            from pygpu.gpuarray import GpuArray
            print(theano.sandbox.gpuarray is theano.gpuarray is theano_ng.gpuarray, GpuArrayType is theano.gpuarray.GpuArrayType)
            print(pygpu is theano_ng.gpuarray.pygpu, GpuArray.__module__)
            theano_ng.legacy.uninstall()
            print([name for name in sys.modules if name.startswith("pygpu")])
            """,
            "device=cpu",
        )
        self.assertEqual(out, "True True\nTrue theano_ng.gpuarray.pygpu.gpuarray\n[]\n")
