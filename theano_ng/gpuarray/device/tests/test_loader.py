"""Tests of the search for libraries, in temporary folders."""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from theano_ng.configparser import change_flags
from theano_ng.gpuarray.device import loader


class TestNvidia(unittest.TestCase):
    """Tests of libraries from NVIDIA's wheels, which are folders below ``nvidia`` in the folders of packages."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = folder.name
        patch = mock.patch.object(loader, "_package_folders", lambda name: [os.path.join(self.site, name)])
        patch.start()
        self.addCleanup(patch.stop)
        # By default, these tests simulate a machine without cuda-pathfinder and without a driver.
        self.driver(None)
        absent = mock.patch.dict(sys.modules, {"cuda.pathfinder": None})
        absent.start()
        self.addCleanup(absent.stop)

    def driver(self, version):
        patch = mock.patch.object(loader, "_driver_version", lambda: version)
        patch.start()
        self.addCleanup(patch.stop)

    def wheel(self, *path):
        path = os.path.join(self.site, "nvidia", *path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()
        return path

    def test_nothing_is_there(self):
        self.assertIsNone(loader.nvrtc())

    def test_the_newest_that_the_driver_knows(self):
        twelve = self.wheel("cuda_nvrtc", "lib", "libnvrtc.so.12")
        self.wheel("cuda_nvrtc", "lib", "libnvrtc-builtins.so.12.9")
        thirteen = self.wheel("cu13", "lib", "libnvrtc.so.13")
        for driver, path in ((None, thirteen), (13, thirteen), (14, thirteen), (12, twelve), (11, thirteen)):
            self.driver(driver)
            self.assertEqual(loader.nvrtc(), path, driver)
        os.unlink(thirteen)
        self.assertEqual(loader.nvrtc(), twelve)

    def test_cublas(self):
        twelve = self.wheel("cublas", "lib", "libcublasLt.so.12")
        thirteen = self.wheel("cu13", "lib", "libcublasLt.so.13")
        for driver, path in ((None, thirteen), (13, thirteen), (12, twelve)):
            self.driver(driver)
            self.assertEqual(loader.cublas(), path, driver)

    def test_nccl(self):
        """The wheels for CUDA 12 and for CUDA 13 install the same file."""
        self.assertIsNone(loader.nccl())
        path = self.wheel("nccl", "lib", "libnccl.so.2")
        for driver in (None, 12, 13):
            self.driver(driver)
            self.assertEqual(loader.nccl(), path, driver)

    def test_numbers_of_their_own(self):
        """The numbers of cuSOLVER and cuFFT differ from those of CUDA."""
        for name, find in (("cusolver", loader.cusolver), ("cufft", loader.cufft)):
            twelve = self.wheel(name, "lib", "lib%s.so.11" % name)
            thirteen = self.wheel("cu13", "lib", "lib%s.so.12" % name)
            for driver, path in ((None, thirteen), (13, thirteen), (12, twelve)):
                self.driver(driver)
                self.assertEqual(find(), path, driver)
        blas = self.wheel("cublas", "lib", "libcublas.so.12")
        self.wheel("cublas", "lib", "libcublasLt.so.12")
        self.assertEqual(loader.cublas("cublas"), blas)

    def test_other_libraries(self):
        path = self.wheel("cublas", "lib", "libcublas.so.12")
        self.assertEqual(loader.nvidia("cublas", [13, 12]), path)
        self.assertIsNone(loader.nvidia("cublas", [11]))

    def test_pathfinder_is_asked_last(self):
        module = mock.Mock()
        module.load_nvidia_dynamic_lib.return_value.abs_path = "/opt/lib/libnvrtc.so.12"
        with mock.patch.dict(sys.modules, {"cuda": mock.Mock(pathfinder=module), "cuda.pathfinder": module}):
            self.assertEqual(loader.nvrtc(), "/opt/lib/libnvrtc.so.12")
            module.load_nvidia_dynamic_lib.side_effect = RuntimeError("not found")
            self.assertIsNone(loader.nvrtc())
            path = self.wheel("cu13", "lib", "libnvrtc.so.13")
            module.load_nvidia_dynamic_lib.reset_mock()
            self.assertEqual(loader.nvrtc(), path)
            module.load_nvidia_dynamic_lib.assert_not_called()


class TestUse(unittest.TestCase):
    def test_what_is_given_is_taken(self):
        names, later = ("cuda", "nvrtc", "cublasLt", "cudnn", "nccl"), ("cublas", "cusolver", "cufft")
        for which in (*names, *later, "opencl"):
            self.addCleanup(loader.use, which, None)
            loader.use(which, "/some/where.so")
        self.assertEqual(loader.libraries("cuda0"), dict.fromkeys(names, "/some/where.so"))
        self.assertEqual([loader.cublas("cublas"), loader.cusolver(), loader.cufft()], ["/some/where.so"] * 3)
        self.assertEqual(loader.libraries("opencl0:0"), {"opencl": "/some/where.so"})
        self.assertEqual(loader.libraries("stub0"), {})
        loader.use("cuda", None)
        self.assertNotEqual(loader.cuda(), "/some/where.so")


class TestCudnn(unittest.TestCase):
    def test_the_folder_of_the_flag_is_first(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "libcudnn.so.9")
            with change_flags({"dnn.library_path": folder}):
                self.assertNotEqual(loader.cudnn(), path)
                with open(path, "w"):
                    pass
                self.assertEqual(loader.cudnn(), path)
            self.assertNotEqual(loader.cudnn(), path)


class TestCluda(unittest.TestCase):
    def test_both_dialects_have_the_same_names(self):
        def names(dialect):
            words = re.findall(r"^(?:#define (\w+)|typedef [\w ]+ (\w+);)", loader.cluda(dialect), re.MULTILINE)
            shared = "ga_ LID LDIM GID GDIM KERNEL WITHIN GLOBAL LOCAL local GA_DECL GA_WARP".split()
            return {word for word in map("".join, words) if word.startswith(tuple(shared))}

        self.assertEqual(names("cuda"), names("opencl"))
        self.assertGreater(len(names("cuda")), 30)

    def test_other_kinds_of_devices(self):
        self.assertEqual(loader.cluda("stub"), "")


class TestOpenCL(unittest.TestCase):
    def test_what_is_found_knows_a_platform(self):
        path = loader.opencl()
        if path is None:
            self.skipTest("needs OpenCL: pip install 'theano_ng[opencl]'")
        count = ctypes.c_uint(0)
        ctypes.CDLL(path).clGetPlatformIDs(0, None, ctypes.byref(count))
        self.assertGreater(count.value, 0)

    def test_nothing_is_imported(self):
        # `opencl` does not import pyopencl: the import takes 0.2 s, and programs that use other devices do not need it.
        program = "import sys, theano_ng.gpuarray.device.loader as l; l.opencl(); print('pyopencl' in sys.modules)"
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(said.stdout.strip(), "False")


if __name__ == "__main__":
    unittest.main()
