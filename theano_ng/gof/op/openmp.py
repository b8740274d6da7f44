"""A base class of Ops whose C code uses OpenMP."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from theano_ng.configdefaults import config
from theano_ng.gof.compiler.gxx import GCC_compiler
from theano_ng.gof.op.base import Op

if TYPE_CHECKING:
    from theano_ng.gof.aliases import ComputeMap, StorageMap
    from theano_ng.gof.graph import Apply


class OpenMPOp(Op):
    """An Op whose C code has OpenMP pragmas.

    Parameters
    ----------
    openmp : bool, optional
        Whether to use OpenMP. By default, ``config.openmp``.

    Attributes
    ----------
    openmp : bool
        Whether OpenMP is used. It becomes False if the compiler does not support OpenMP. Subclasses write pragmas only
        if it is true.
    """

    # True if the compiler supports OpenMP. None: not tested yet.
    gxx_support_openmp: bool | None = None

    def __init__(self, openmp: bool | None = None) -> None:
        if openmp is None:
            openmp = config.openmp
        self.openmp = openmp

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__.update(d)
        # Old pickles do not have the attribute.
        if not hasattr(self, "openmp"):
            self.openmp = False

    def c_compile_args(self) -> list[str]:
        self.update_self_openmp()
        return ["-fopenmp"] if self.openmp else []

    def c_headers(self) -> list[str]:
        self.update_self_openmp()
        return ["omp.h"] if self.openmp else []

    @staticmethod
    def test_gxx_support() -> bool:
        """Return True if the compiler can compile and link an OpenMP program."""
        code = """
        #include <omp.h>
        int main( int argc, const char* argv[] )
        {
            int res[10];
            for(int i=0; i < 10; i++){
                res[i] = i;
            }
            return 0;
        }
        """
        return bool(
            GCC_compiler.try_compile_tmp(src_code=code, tmp_prefix="test_omp_", flags=["-fopenmp"], try_run=False)
        )

    def update_self_openmp(self) -> None:
        """Set `openmp` to False if the compiler does not support OpenMP."""
        if self.openmp:
            if OpenMPOp.gxx_support_openmp is None:
                OpenMPOp.gxx_support_openmp = OpenMPOp.test_gxx_support()
                if not OpenMPOp.gxx_support_openmp:
                    warnings.warn(
                        "Your g++ compiler fails to compile OpenMP code. OpenMP is disabled; set the flag openmp=False to silence"
                        " this warning.",
                        stacklevel=3,
                    )
                    # Disable OpenMP for other Ops, so that they do not repeat the test.
                    config.openmp = False
            if not OpenMPOp.gxx_support_openmp:
                self.openmp = False

    def prepare_node(
        self, node: Apply, storage_map: StorageMap, compute_map: ComputeMap | None, impl: str | None
    ) -> None:
        if impl == "c":
            self.update_self_openmp()
