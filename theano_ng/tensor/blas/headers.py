"""C declarations of Fortran BLAS functions, for users' C code that links a BLAS by `ldflags()`."""

from theano_ng.configdefaults import config

_TYPES = {"s": "float", "d": "double", "c": "void", "z": "void"}


def blas_header_text():
    """Declarations of ?gemm_, ?gemv_, ?ger_, ?axpy_, ?scal_, ?copy_ and ?dot_ as text for `c_support_code`."""
    lines = ['extern "C" {']
    for letter, kind in _TYPES.items():
        t = dict(p=letter, t=kind, r="ger" if letter in "sd" else "geru")
        lines += [
            "void %(p)sgemm_(char *, char *, const int *, const int *, const int *, const %(t)s *, const %(t)s *, const int *, "
            "const %(t)s *, const int *, const %(t)s *, %(t)s *, const int *);" % t,
            "void %(p)sgemv_(char *, const int *, const int *, const %(t)s *, const %(t)s *, const int *, const %(t)s *, "
            "const int *, const %(t)s *, %(t)s *, const int *);" % t,
            "void %(p)s%(r)s_(const int *, const int *, const %(t)s *, const %(t)s *, const int *, const %(t)s *, const int *, "
            "%(t)s *, const int *);" % t,
            "void %(p)saxpy_(const int *, const %(t)s *, const %(t)s *, const int *, %(t)s *, const int *);" % t,
            "void %(p)sscal_(const int *, const %(t)s *, %(t)s *, const int *);" % t,
            "void %(p)scopy_(const int *, const %(t)s *, const int *, %(t)s *, const int *);" % t,
        ]
    lines += [
        "float sdot_(const int *, const float *, const int *, const float *, const int *);",
        "double ddot_(const int *, const double *, const int *, const double *, const int *);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def blas_header_version():
    """Version of `blas_header_text`, for `c_code_cache_version`."""
    return (1,)


def cblas_header_text():
    """The same functions, for code that includes CBLAS declarations from here: none are declared beyond the Fortran ones."""
    return blas_header_text()


def detect_macos_sdot_bug():
    """Whether the BLAS has the sdot of old macOS versions, which returns a double; SciPy's and today's do not."""
    return False


def openblas_threads_text():
    """Declaration of OpenBLAS's thread control."""
    return 'extern "C" { void openblas_set_num_threads(int); int openblas_get_num_threads(void); }\n'


def mkl_threads_text():
    """Declaration of MKL's thread control."""
    return 'extern "C" { int MKL_Set_Num_Threads_Local(int); int MKL_Get_Max_Threads(void); }\n'
