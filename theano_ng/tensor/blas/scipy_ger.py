"""A variant of Ger that calls SciPy's BLAS wrapper, for functions that are compiled without C code."""

from theano_ng.lazy import lazy_names
from theano_ng.tensor.blas.ops import Ger, ger, ger_destructive, have_fblas


class ScipyGer(Ger):
    """A variant of Ger whose `perform` calls ``scipy.linalg.blas.?ger``."""

    def native_code(self, node):
        return None

    def perform(self, node, inputs, output_storage, params=None):
        from scipy.linalg import get_blas_funcs

        a, alpha, x, y = inputs
        if a.shape != (x.shape[0], y.shape[0]):
            raise ValueError("Shape mismatch: A has shape %s, x %s and y %s" % (a.shape, x.shape, y.shape))
        complex_dtype = a.dtype.kind == "c"
        (blas_ger,) = get_blas_funcs(("geru" if complex_dtype else "ger",), dtype=a.dtype)
        # The wrapper updates only column-major memory in place. Therefore, pass the transpose of a row-major matrix.
        target = self.target(a)
        if a.size == 0:
            output_storage[0][0] = target
        elif target.flags.c_contiguous:
            output_storage[0][0] = blas_ger(alpha, y, x, a=target.T, overwrite_a=1).T
        else:
            target[...] = blas_ger(alpha, x, y, a=target, overwrite_a=0)
            output_storage[0][0] = target


scipy_ger_inplace, scipy_ger_no_inplace = ScipyGer(destructive=True), ScipyGer(destructive=False)


# Theano 1.0 defined these names in this module. They are imported from `tensor/opt/blas.py` when they are first used.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "theano_ng.tensor.opt.blas": "blas_optdb make_ger_destructive make_scipy_blas_destructive optdb use_scipy_blas use_scipy_ger"
    },
)
