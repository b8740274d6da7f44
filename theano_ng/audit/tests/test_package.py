"""Tests that every Op of the package has a case for the audit.

Only a few cases run here; ``make audit`` runs all cases with every check.
"""

import importlib
import pkgutil
import unittest
import warnings

import numpy as np

import theano_ng
from theano_ng import tensor as tt
from theano_ng.audit import audit
from theano_ng.gof.op import PureOp
from theano_ng.gof.traversal import ancestors
from theano_ng.gof.type import Type

MODULES = (
    "theano_ng.scalar.tests.audit_cases",
    "theano_ng.tensor.tests.audit_cases",
    "theano_ng.tensor.signal.tests.audit_cases",
    "theano_ng.typed_list.tests.audit_cases",
    "theano_ng.scan.tests.audit_cases",
    "theano_ng.sandbox.tests.audit_cases",
    "theano_ng.sparse.tests.audit_cases",
    "theano_ng.tests.audit_cases",
    "theano_ng.gpuarray.tests.audit_cases",
    "theano_ng.gpuarray.tests.audit_library_cases",
)

BASES = """Op COp OpenMPOp NativeOp ScalarOp UnaryScalarOp BinaryScalarOp UnaryMath BinaryBitOp UnaryBitOp LogicalComparison FixedLogicalComparison
_Extremum _Rounding _BinarySpecial _IncompleteGamma _LibmSpecial _UnarySpecial ScalarActivation BaseAdvancedSubtensor
BaseAdvancedIncSubtensor _BasicIndexing BlasOp GemmRelated InplaceBlasOp CAReduce CAReduceDtype _Logical _ArgmaxBase _IntegerParametrized
RowOp _Sorting CumsumOp CumprodOp _ListOp _InplaceListOp mrg_uniform_base _RealTransform ConditionalOp RealDivision _Pooling PoolGrad
_OverAxes _Windows _Blocks BaseAbstractConv CorrBase BaseCorrMM BaseCorr3dMM _Diagonal _ComparisonOpSS _ComparisonOpSD _Scale
_StructuredDotGrad _OnParts _Elementwise _Random GpuOp TwinOp WideTwinOp _Transfer _DiagonalMatrix _IndexOp _GatherOp _ScatterOp BaseGpuAdvancedSubtensor
BaseGpuAdvancedIncSubtensor _GpuReduction GpuCumsumOp _GpuWindows _GpuBlocks _GpuNorm CGpuKernelBase _Contracted _CrossentropyOp
_InplaceBlasOp _RowOp _GpuSorting _GpuCorr BaseGpuCorrMM BaseGpuCorr3dMM _GpuLinalg _GpuSolving _CholeskyOfLibrary GpuMagmaBase
DnnBase DnnOp DeviceOp GpuDnnSoftmaxBase _DnnConv DnnForward GpuDnnPoolBase _Normalization _OfDescriptor _Transformer""".split()

ELSEWHERE = {
    "MPIRecv": "needs a second process under MPI",
    "MPIRecvWait": "needs a second process under MPI",
    "MPISend": "needs a second process under MPI",
    "MPISendWait": "needs a second process under MPI",
    "LoadFromDisk": "its input is a path, its value that of a file: tested with tensor.io",
    "MakeCData": "gives a C pointer, which has no value in Python: tested with CDataType.make_value",
    "SymPyCCode": "needs SymPy",
    "Reader": "part of the audit's own runs in DebugMode",
    "Raise": "never gives a value: tested with raise_op",
    "MulWithoutZeros": "the scalar Op of ProdWithoutZeros, which is audited; not defined on zeros by itself",
    **dict.fromkeys(
        "GpuDnnDropoutOp _DropoutDescriptor _DropoutGrad GpuDnnRNNOp GpuDnnRNNGradInputs GpuDnnRNNGradWeights "
        "_RNNDescriptor _RNNParamSize _RNNSplitParams".split(),
        "needs a descriptor, which exists only in the process that has made it: tested with gpuarray.dnn",
    ),
    **dict.fromkeys(
        ("DnnVersion", "GpuDnnConvDesc", "GpuDnnPoolDesc"),
        "has no inputs, so that nothing varies: tested with gpuarray.dnn",
    ),
    **dict.fromkeys(("MulAdd", "MulSub", "SubMul"), "in no graph, only in the C code of Composites, which are audited"),
}


# One case of each kind of Op and of implementation: scalar functions, C code with and without an inner graph, views,
# in-place Ops, BLAS, lazy Ops, Ops with Python code only.
SAMPLE = {
    "theano_ng.scalar.tests.audit_cases": ("pow(POSITIVE, Y)", "mod(INTS, MORE_INTS)", "Composite(X, Y)"),
    "theano_ng.tensor.tests.audit_cases": (
        "sum axis 0",
        "subtensor",
        "inc_subtensor inplace",
        "join",
        "gemm",
        "softmax",
        "SortOp",
    ),
    "theano_ng.tests.audit_cases": ("IfElse", "GradScale"),
}


def symbolic(value):
    """Return a variable for an entry of a case's inputs."""
    if isinstance(value, tuple) and value and isinstance(value[0], Type):
        value = value[0]
    if isinstance(value, Type):
        return value()
    return value if hasattr(value, "type") else tt.TensorType(np.asarray(value).dtype, [False] * np.ndim(value))()


def ops_of_the_package():
    """Return all classes of Ops that modules of the package define, except those of tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(theano_ng.__path__, "theano_ng."):
            if ".tests" not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found, waiting = {}, [PureOp]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            waiting.append(cls)
            if cls.__module__.startswith("theano_ng.") and ".tests" not in cls.__module__:
                found[cls] = cls.__name__
    return found


def audited():
    """Return the classes of the Ops in the graphs of all cases, and of the scalar Ops inside them."""
    seen = set()
    for name in MODULES:
        module = importlib.import_module(name)
        # If a module of device Ops has a function `cases`, call `cases`. The function `audit_cases` of such a module
        # would make every child process that is forked later open a device.
        for case in getattr(module, "cases", module.audit_cases)():
            outputs = case.op(*[symbolic(value) for value in case.inputs])
            for r in ancestors(outputs if isinstance(outputs, (list, tuple)) else [outputs]):
                if r.owner is not None:
                    seen.update([type(r.owner.op), type(getattr(r.owner.op, "scalar_op", None))])
    return seen


class TestEveryOp(unittest.TestCase):
    def test_has_a_case(self):
        seen = audited()
        left = sorted(
            name
            for cls, name in ops_of_the_package().items()
            if cls not in seen and name not in BASES and name not in ELSEWHERE
        )
        self.assertEqual(left, [])

    def test_reasons_are_current(self):
        names = set(ops_of_the_package().values()) | {"NativeOp"}
        self.assertEqual([name for name in list(ELSEWHERE) + BASES if name not in names], [])

    def test_sample_passes(self):
        """Some cases pass with few examples and without the slow checks. ``make audit`` runs all cases and checks."""
        found = {}
        for module, names in SAMPLE.items():
            cases = {case.name: case for case in importlib.import_module(module).audit_cases()}
            for name in names:
                report = audit(cases[name], max_examples=2, sanitize=False, leaks=False, time_limit=4)
                self.assertGreater(sum(verdict.examples for verdict in report.verdicts), 20, name)
                if not report.ok:
                    found[name] = [str(finding)[:1500] for finding in report.findings]
        self.assertEqual(found, {})


if __name__ == "__main__":
    unittest.main()
