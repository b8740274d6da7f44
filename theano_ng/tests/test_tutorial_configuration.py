"""Tests of the tutorial's listings and their documented results: configuration and modes."""

import unittest

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function
from theano_ng.tests.closeness import assert_close


class ConfigurationAndModes(unittest.TestCase):
    def test_precedence(self):
        import os
        import subprocess
        import sys
        import tempfile

        rc = tempfile.NamedTemporaryFile("w", suffix=".cfg", delete=False)  # noqa: SIM115, closed below
        rc.write("[global]\nfloatX = float32\n")
        rc.close()
        self.addCleanup(os.unlink, rc.name)

        def run(code, **env):
            e = {k: v for k, v in os.environ.items() if k not in ("THEANO_FLAGS", "THEANORC")}
            e.update(env)
            return subprocess.check_output([sys.executable, "-c", code], env=e).decode().split()[-1]

        code = "import theano_ng as theano; print(theano.config.floatX)"
        assert run(code, THEANORC=rc.name) == "float32"
        assert run(code, THEANORC=rc.name, THEANO_FLAGS="floatX=float64") == "float64"
        assert (
            run(
                "import theano_ng as theano; theano.config.floatX='float32'; import theano_ng.tensor as T; print(T.scalar().dtype)",
                THEANORC=rc.name,
                THEANO_FLAGS="floatX=float64",
            )
            == "float32"
        )

    def test_every_documented_mode_linker_and_optimizer(self):
        a = T.dvector("a")
        for mode in (
            ["FAST_COMPILE", "FAST_RUN", "DebugMode", "NanGuardMode"]
            + [theano.Mode(linker=l) for l in ("py", "c|py", "c|py_nogc", "vm", "cvm", "cvm_nogc")]
            + [
                theano.Mode(optimizer=o)
                for o in (None, "o1", "fast_compile", "o2", "o3", "o4", "fast_run", "unsafe", "stabilize")
            ]
        ):
            assert_close(function([a], 10 * a, mode=mode)([5]), [50])
        f = function([a], 10 * a, mode="DebugMode")
        assert_close(f([0]), [0])
        assert_close(f([7]), [70])

    def test_floatx_followed_at_construction(self):
        old = theano.config.floatX
        try:
            theano.config.floatX = "float64"
            assert T.scalar().dtype == "float64" and T.fscalar().dtype == "float32"
            theano.config.floatX = "float32"
            assert repr(T.scalar()) == "<TensorType(float32, scalar)>"
            assert T.iscalar().dtype == "int32" and T.dscalar().dtype == "float64"
        finally:
            theano.config.floatX = old

    def test_print_config_lists_flags(self):
        txt = str(theano.config)
        for flag in (
            "floatX",
            "device",
            "mode",
            "linker",
            "optimizer",
            "exception_verbosity",
            "profile",
            "compute_test_value",
            "openmp",
        ):
            assert flag in txt
