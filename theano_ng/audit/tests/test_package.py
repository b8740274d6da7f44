"""Every Op of the package has a case for the audit, and passes it."""
import importlib
import pkgutil
import unittest
import warnings

import numpy as np

import theano_ng
from theano_ng import tensor as tt
from theano_ng.gof.op import PureOp
from theano_ng.gof.traversal import ancestors
from theano_ng.gof.type import Type

MODULES = ("theano_ng.scalar.tests.audit_cases", "theano_ng.tensor.tests.audit_cases", "theano_ng.tests.audit_cases")

BASES = """Op COp OpenMPOp NativeOp ScalarOp UnaryScalarOp BinaryScalarOp UnaryMath BinaryBitOp UnaryBitOp LogicalComparison FixedLogicalComparison
_Extremum _Rounding _BinarySpecial _IncompleteGamma _LibmSpecial _UnarySpecial ScalarActivation BaseAdvancedSubtensor
BaseAdvancedIncSubtensor _BasicIndexing BlasOp GemmRelated InplaceBlasOp CAReduce CAReduceDtype _Logical _ArgmaxBase _IntegerParametrized
RowOp _Sorting CumsumOp CumprodOp""".split()

ELSEWHERE = {
    "MPIRecv": "needs a second process under MPI", "MPIRecvWait": "needs a second process under MPI",
    "MPISend": "needs a second process under MPI", "MPISendWait": "needs a second process under MPI",
    "LoadFromDisk": "its input is a path, its value that of a file: tested with tensor.io",
    "SymPyCCode": "needs SymPy",
    "Raise": "never gives a value: tested with raise_op",
    "MulWithoutZeros": "the scalar Op of ProdWithoutZeros, which is audited; not defined on zeros by itself",
}


def symbolic(value):
    """A variable for an entry of a case's inputs."""
    if isinstance(value, Type):
        return value()
    return value if hasattr(value, "type") else tt.TensorType(np.asarray(value).dtype, [False] * np.ndim(value))()


def ops_of_the_package():
    """All classes of Ops that modules of the package define, tests apart."""
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
    """The classes of the Ops in the graphs of all cases, with the scalar Ops inside."""
    seen = set()
    for module in MODULES:
        for case in importlib.import_module(module).audit_cases():
            outputs = case.op(*[symbolic(value) for value in case.inputs])
            for r in ancestors(outputs if isinstance(outputs, (list, tuple)) else [outputs]):
                if r.owner is not None:
                    seen.update([type(r.owner.op), type(getattr(r.owner.op, "scalar_op", None))])
    return seen


class TestEveryOp(unittest.TestCase):
    def test_has_a_case(self):
        seen = audited()
        left = sorted(name for cls, name in ops_of_the_package().items() if cls not in seen and name not in BASES and name not in ELSEWHERE)
        self.assertEqual(left, [])

    def test_reasons_are_current(self):
        names = set(ops_of_the_package().values()) | {"NativeOp"}
        self.assertEqual([name for name in list(ELSEWHERE) + BASES if name not in names], [])


if __name__ == "__main__":
    unittest.main()
