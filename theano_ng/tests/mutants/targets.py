"""The source files that are changed, and the tests that must detect the changes."""

import glob
import os

from theano_ng.tests.mutants.records import PACKAGE

PYTHON = (
    "tensor/opt/*.py tensor/nnet/opt_*.py tensor/nnet/convolution/opt.py scan/opt/*.py sparse/opt/*.py gof/rewriting/*.py gof/optdb.py"
    " tensor/logarithms.py loops/program.py loops/source.py loops/kernel.py loops/fold.py loops/blocks/interpreter.py"
    " loops/blocks/steps.py loops/blocks/complex_steps.py loops/blocks/superinstructions.py tensor/elemwise/kernel.py"
    " tensor/elemwise/cgen.py tensor/elemwise/divisors.py tensor/elemwise/xlogx.py"
    " tensor/elemwise/inplace.py tensor/elemwise/perform.py scan/kernel.py scan/array_source.py scan/array_kernel.py scalar/contraction.py"
)
C = (
    "tensor/native/*/*.c tensor/native/*/*.h tensor/native/elementwise/blocks/*.c tensor/native/elementwise/blocks/*.h"
    " scalar/c_code/*.h"
)
DEVICES = "gpuarray/opt/*.py gpuarray/opt_util.py gpuarray/native/*.c gpuarray/native/*.h"
# C files that are not changed -> the reason. Most of them are source text of kernels, or only declare names.
LEFT_OUT = {
    "scan/row_table.h": "declarations",
    "scalar/c_code/half.h": "text for kernels that a compiler makes when a program runs: a trial compiles none of them anew",
    "scalar/c_code/half_blocks.h": "see half.h",
    "scalar/c_code/zero_in.h": "see half.h",
    "tensor/native/elementwise/blocks/instructions.h": "written from the C of scalar ops, which is tested there",
    "tensor/native/common/gomp.h": "names of OpenMP's functions",
    "tensor/native/common/threads.h": "how many threads there are",
    "tensor/native/common/target_clones.h": "instruction sets",
}
TESTS = (
    "tensor/tests tensor/nnet/tests tensor/signal/tests tensor/linalg/tests scan/tests sparse/tests scalar/tests sandbox/tests gof/tests compile/tests"
    " typed_list/tests tests"
)
# Files with tests that are not run on mutants. These tests start processes, draw pictures or install programs. They
# do not run the changed code, or they test something else.
TESTS_LEFT_OUT = (
    "tests/test_doc.py tests/test_commands.py tests/test_runner.py tests/test_built.py tests/test_flags.py tests/test_notebook.py"
    " tests/test_layers.py tests/test_signatures.py tests/test_moved.py tests/test_faults.py tests/test_config.py tests/test_mutants.py"
    " gof/tests/test_cmodule.py gof/tests/test_compilelock.py tests/test_tutorial_c_ops.py tests/test_tutorial_configuration.py"
)


def files(patterns):
    """Return the paths of the files that match patterns, except the files in `LEFT_OUT`."""
    found = {p for pattern in patterns.split() for p in glob.glob(os.path.join(PACKAGE, pattern))}
    paths = sorted(os.path.relpath(path, PACKAGE) for path in found)
    return [path for path in paths if path not in LEFT_OUT]


def test_modules(folders=TESTS):
    """Return the test modules. The tests of rules and native code come first."""
    patterns = " ".join(folder + "/test_*.py" for folder in folders.split())
    modules = [path for path in files(patterns) if path not in TESTS_LEFT_OUT.split()]
    modules.sort(
        key=lambda path: (
            "rule_examples" not in path,
            "test_opt" not in path,
            not path.startswith(("tensor/", "scan/", "sparse/")),
            path,
        )
    )
    return ["theano_ng." + path[:-3].replace(os.sep, ".") for path in modules]


def host():
    """Return (paths, test modules) of the rules and kernels of the host."""
    return files(PYTHON) + files(C), test_modules()


def devices():
    """Return (paths, test modules) of the rules of devices. The tests need OpenCL."""
    return files(DEVICES), test_modules("gpuarray/tests")
