"""C declarations and definitions of Fortran BLAS functions, for C code of users."""

import functools

from theano_ng.configdefaults import config
from theano_ng.tensor.blas.table import scipy_addresses

# Each line contains the name of a function without its type letter, the type letters, the type of the result, and the
# arguments.
# All arguments are passed by pointers. Their codes are:
#   c: a character
#   i: an integer, for instance a number of elements
#   t, r, v: scalars or arrays that are read. The type of t belongs to the type letter of the function. The type of r is
#            the corresponding real type, and the type of v is void.
#   T, R, V: scalars or arrays that are written, of the same types as t, r, v
_FUNCTIONS = """
swap   sdcz  void  i T i T i
scal   sdcz  void  i t T i
copy   sdcz  void  i t i T i
axpy   sdcz  void  i t t i T i
dot    sd    real  i t i t i
asum   sd    real  i t i
nrm2   sd    real  i t i
rot    sd    void  i T i T i r r
rotg   sd    void  T T T T
rotm   sd    void  i T i T i t
rotmg  sd    void  T T T t T
gemv   sdcz  void  c i i t t i t i t T i
gbmv   sdcz  void  c i i i i t t i t i t T i
symv   sd    void  c i t t i t i t T i
hemv   cz    void  c i t t i t i t T i
sbmv   sd    void  c i i t t i t i t T i
hbmv   cz    void  c i i t t i t i t T i
spmv   sd    void  c i t t t i t T i
hpmv   cz    void  c i t t t i t T i
trmv   sdcz  void  c c c i t i T i
trsv   sdcz  void  c c c i t i T i
tbmv   sdcz  void  c c c i i t i T i
tbsv   sdcz  void  c c c i i t i T i
tpmv   sdcz  void  c c c i t T i
tpsv   sdcz  void  c c c i t T i
ger    sd    void  i i t t i t i T i
geru   cz    void  i i t t i t i T i
gerc   cz    void  i i t t i t i T i
syr    sd    void  c i t t i T i
her    cz    void  c i r t i T i
spr    sd    void  c i t t i T
hpr    cz    void  c i r t i T
syr2   sd    void  c i t t i t i T i
her2   cz    void  c i t t i t i T i
spr2   sd    void  c i t t i t i T
hpr2   cz    void  c i t t i t i T
gemm   sdcz  void  c c i i i t t i t i t T i
symm   sdcz  void  c c i i t t i t i t T i
hemm   cz    void  c c i i t t i t i t T i
syrk   sdcz  void  c c i i t t i t T i
herk   cz    void  c c i i r t i r T i
syr2k  sdcz  void  c c i i t t i t i t T i
her2k  cz    void  c c i i t t i t i r T i
trmm   sdcz  void  c c c c i i t t i T i
trsm   sdcz  void  c c c c i i t t i T i
"""
# The names of these functions do not begin with a single type letter. Each line contains the full name, the type
# letter, the type of the result, and the arguments.
_OTHERS = """
csscal s  void  i r V i
zdscal d  void  i r V i
scasum s  real  i v i
dzasum d  real  i v i
scnrm2 s  real  i v i
dznrm2 d  real  i v i
isamax s  int   i t i
idamax d  int   i t i
icamax s  int   i v i
izamax d  int   i v i
"""
_TYPES = {"s": "float", "d": "double", "c": "void", "z": "void"}
_REAL = {"s": "float", "d": "double", "c": "float", "z": "double"}


@functools.cache
def signatures():
    """Return the signatures of the functions that `blas_header_text` declares.

    Returns
    -------
    dict
        Name, without underscore -> (C type of the result, tuple of C types of the arguments). Complex numbers have the
        type void.
    """
    found = {}
    for line in filter(None, (_FUNCTIONS + _OTHERS).split("\n")):
        name, letters, result, *arguments = line.split()
        prefixed = line in _FUNCTIONS
        for letter in letters:
            number, real = _TYPES[letter], _REAL[letter]
            types = dict(
                c="char *",
                i="const int *",
                t="const %s *" % number,
                r="const %s *" % real,
                v="const void *",
                T="%s *" % number,
            )
            types.update(R="%s *" % real, V="void *")
            found[letter * prefixed + name] = (
                real if result == "real" else result,
                tuple([types[argument] for argument in arguments]),
            )
    return found


def _addresses():
    """Return the addresses of the functions of `signatures`, in the same order.

    The C definitions that `blas_header_text` returns call this function when the compiled module is loaded.
    """
    names = list(signatures())
    return list(map(scipy_addresses("cython_blas", names).__getitem__, names))


def blas_header_text():
    """Return C source for `c_support_code` that provides the Fortran BLAS: ``sgemm_``, ``dgemv_``, ``ddot_`` etc.

    Returns
    -------
    str
        If `config.blas.ldflags` is set, declarations of the functions in the library that `ldflags()` links. Otherwise,
        definitions that call the BLAS inside SciPy, so that no library has to be linked.
    """
    linked = bool(config.blas.ldflags)
    lines = ['extern "C" {']
    for i, (name, (result, types)) in enumerate(signatures().items()):
        if linked:
            lines.append("%s %s_(%s);" % (result, name, ", ".join(types)))
            continue
        lines.append(
            "inline TNG_BLAS %s %s_(%s) { return ((%s (*)(%s))theano_ng_blas[%d])(%s); }"
            % (
                result,
                name,
                ", ".join("%sx%d" % (kind, k) for k, kind in enumerate(types)),
                result,
                ", ".join(types),
                i,
                ", ".join("x%d" % k for k in range(len(types))),
            )
        )
    lines.append("}")
    return "\n".join(lines if linked else [_TABLE % len(signatures()), *lines]) + "\n"


# Fill the table when the compiled module is loaded: this needs the GIL, but C code may call the functions without the
# GIL. If an address cannot be determined, the import of the compiled module raises an error.
_TABLE = """#define TNG_BLAS __attribute__((visibility("hidden")))
static void *theano_ng_blas[%d];

static struct TheanoNgBlas {
    TheanoNgBlas() {
        PyObject *home = PyImport_ImportModule("theano_ng.tensor.blas.headers");
        PyObject *addresses = home ? PyObject_CallMethod(home, "_addresses", NULL) : NULL;
        for (size_t i = 0; addresses && i < sizeof theano_ng_blas / sizeof *theano_ng_blas; ++i)
            theano_ng_blas[i] = PyLong_AsVoidPtr(PyList_GetItem(addresses, i));
        Py_XDECREF(addresses);
        Py_XDECREF(home);
    }
} theano_ng_blas_loader;
"""


def blas_header_version():
    """Return the version of `blas_header_text`, for `c_code_cache_version`."""
    return (2, bool(config.blas.ldflags))


def cblas_header_text():
    """Return the same text as `blas_header_text`. The text does not declare CBLAS functions."""
    return blas_header_text()


def detect_macos_sdot_bug():
    """Return False. Only the BLAS of old macOS versions has an sdot that returns a double."""
    return False


def openblas_threads_text():
    """Return the C declarations of the functions that control the threads of OpenBLAS."""
    return 'extern "C" { void openblas_set_num_threads(int); int openblas_get_num_threads(void); }\n'


def mkl_threads_text():
    """Return the C declarations of the functions that control the threads of MKL."""
    return 'extern "C" { int MKL_Set_Num_Threads_Local(int); int MKL_Get_Max_Threads(void); }\n'
