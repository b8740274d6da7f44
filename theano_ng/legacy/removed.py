"""Names that NumPy, SciPy and Python had when programs for Theano were written, and have removed since.

`give_back` restores them for a program. Each row of `NAMES` is a removed name and an expression for its former value.
In the expression, ``np`` is NumPy, ``sp`` is SciPy's `special`, and other names are defined in this file.
"""

import ast
import collections
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import math
import pickle
import re
import sys
import types
from importlib import metadata

import numpy as np

__all__ = ["MODULES", "NAMES", "give_back", "hint", "take_back"]

NAMES = {
    "numpy": {
        "float": "float",
        "int": "int",
        "object": "object",
        "str": "str",
        "unicode": "str",
        "complex": "complex",
        "float_": "np.float64",
        "longfloat": "np.longdouble",
        "complex_": "np.complex128",
        "cfloat": "np.complex128",
        "bool8": "np.bool_",
        "int0": "np.intp",
        "uint0": "np.uintp",
        "str0": "np.str_",
        "bytes0": "np.bytes_",
        "object0": "np.object_",
        "void0": "np.void",
        "math": "importlib.import_module('math')",
        "DataSource": "np.lib.npyio.DataSource",
        "issubsctype": "_issubsctype",
        "singlecomplex": "np.complex64",
        "longcomplex": "np.clongdouble",
        "clongfloat": "np.clongdouble",
        "string_": "np.bytes_",
        "unicode_": "np.str_",
        "Inf": "np.inf",
        "Infinity": "np.inf",
        "infty": "np.inf",
        "PINF": "np.inf",
        "NINF": "-np.inf",
        "PZERO": "0.0",
        "NZERO": "-0.0",
        "NaN": "np.nan",
        "NAN": "np.nan",
        "product": "np.prod",
        "cumproduct": "np.cumprod",
        "sometrue": "np.any",
        "alltrue": "np.all",
        "in1d": "_in1d",
        "row_stack": "np.vstack",
        "trapz": "np.trapezoid",
        "round_": "np.round",
        "mat": "np.asmatrix",
        "asfarray": "_asfarray",
        "asscalar": "_asscalar",
        "alen": "_alen",
        "rank": "np.ndim",
        "msort": "_msort",
        "find_common_type": "_find_common_type",
        "issctype": "_issctype",
        "issubclass_": "_issubclass",
        "obj2sctype": "_obj2sctype",
        "sctype2char": "_sctype2char",
        "maximum_sctype": "_maximum_sctype",
        "sctypes": "_sctypes()",
        "typeDict": "np.sctypeDict",
        "cast": "_Casts()",
        "nbytes": "_Sizes()",
        "byte_bounds": "np.lib.array_utils.byte_bounds",
        "safe_eval": "_safe_eval",
        "fastCopyAndTranspose": "_transposed_copy",
        "disp": "_disp",
        "loads": "_loads",
    },
    "numpy.testing": {"Tester": "_Tester"},
    # SciPy also exported these functions and constants of NumPy.
    "scipy": {
        **{
            name: "np." + name
            for name in (
                "absolute allclose angle arange array asarray ceil concatenate conj cos cosh cumprod cumsum diag dot e empty exp eye float32"
                " float64 floor histogram hstack identity imag inf inner int32 int64 interp isinf isnan linspace log log10 log2 logspace mean"
                " median meshgrid mgrid nan newaxis ogrid ones outer pi polyfit polyval power prod ravel real repeat reshape rint sign sin sinh"
                " sort sqrt squeeze std sum tan tanh tile transpose unique var vstack where zeros"
            ).split()
        },
        "rand": "np.random.rand",
        "randn": "np.random.randn",
    },
    "scipy.linalg": {
        "pinv2": "importlib.import_module('scipy.linalg').pinv",
        "tril": "np.tril",
        "triu": "np.triu",
        "kron": "np.kron",
    },
    "scipy.stats": {
        "nanmean": "np.nanmean",
        "nanmedian": "np.nanmedian",
        "chisqprob": "_chisqprob",
        "binom_test": "_binom_test",
    },
    "collections": {
        name: "importlib.import_module('collections.abc').%s" % name
        for name in (
            "Awaitable Coroutine AsyncIterable AsyncIterator AsyncGenerator Hashable Iterable Iterator Generator Reversible Sized Container"
            " Callable Collection Set MutableSet Mapping MutableMapping MappingView KeysView ItemsView ValuesView Sequence MutableSequence"
            " ByteString"
        ).split()
    },
    "inspect": {"getargspec": "_getargspec", "ArgSpec": "_ArgSpec"},
    "time": {"clock": "importlib.import_module('time').process_time"},
    "fractions": {"gcd": "importlib.import_module('math').gcd"},
    "base64": {
        "encodestring": "importlib.import_module('base64').encodebytes",
        "decodestring": "importlib.import_module('base64').decodebytes",
    },
    "os": {"errno": "importlib.import_module('errno')"},
    "scipy.signal": {
        name: "importlib.import_module('scipy.signal.windows').%s" % name
        for name in (
            "barthann bartlett blackman blackmanharris bohman boxcar chebwin cosine exponential flattop gaussian general_gaussian hamming hann"
            " kaiser nuttall parzen triang tukey"
        ).split()
    },
    "scipy.integrate": {
        "simps": "importlib.import_module('scipy.integrate').simpson",
        "trapz": "importlib.import_module('scipy.integrate').trapezoid",
        "cumtrapz": "importlib.import_module('scipy.integrate').cumulative_trapezoid",
    },
    "scipy.misc": {
        "logsumexp": "sp.logsumexp",
        "comb": "sp.comb",
        "factorial": "sp.factorial",
        "factorial2": "sp.factorial2",
        "factorialk": "sp.factorialk",
        "derivative": "_derivative",
    },
}
"""Module -> removed name -> an expression for its former value."""


MODULES = {"pkg_resources": "_pkg_resources", "imp": "_imp"}
"""Removed module -> the function of this file that fills its replacement."""


BEHAVIOUR = {"h5py._hl.attrs": "_decodable_attributes"}
"""Module whose behavior has changed -> the function of this file that restores the former behavior.

The function returns another function, which undoes this.
"""


def give_back(report=None):
    """Restore removed names (`np.float`) and removed modules. Names and modules that exist are not replaced.

    Programs call `decode` on text that h5py reads from attributes. Since h5py 3, this text is a str, which has no
    `decode`. Therefore `give_back` makes h5py return a str with a method `decode`.

    Parameters
    ----------
    report : callable, optional
        A function that is called once for each name and each line that uses it. Its arguments are the name with its
        module, the replacement, the file and the line number. Default: a function that prints a line to standard error.
    """
    report = report or _print
    if not any(isinstance(finder, _LostModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Imports(report))
        # Append this finder, because it is for modules that no other finder finds.
        sys.meta_path.append(_LostModules(report))
    for module in (*NAMES, *BEHAVIOUR):
        if module in sys.modules:
            _attach(sys.modules[module], report)


def take_back():
    """Undo `give_back`."""
    for finder in [finder for finder in sys.meta_path if isinstance(finder, (_Imports, _LostModules))]:
        sys.meta_path.remove(finder)
        for module in finder.made:
            sys.modules.pop(module, None)
    while _undo:
        _undo.popitem()[1]()
    for module in NAMES:
        lost = vars(sys.modules.get(module, types)).get("__getattr__")
        if isinstance(lost, _Lost):
            if lost.former is None:
                del sys.modules[module].__getattr__
            else:
                sys.modules[module].__getattr__ = lost.former


def hint(error):
    """Return advice on an exception that a removed name has caused. Return None for other exceptions.

    Parameters
    ----------
    error : BaseException
    """
    while error is not None:
        found = _hint(str(error)) if isinstance(error, (AttributeError, ImportError)) else None
        if found is not None:
            return found
        error = error.__cause__ or error.__context__
    return None


def _hint(text):
    """Return advice on the exception that has this text. Return None if there is no advice."""
    for pattern in _COMPLAINTS:
        found = pattern.search(text)
        if found is None:
            continue
        module, name = found["module"], found["name"]
        module = "numpy" if module == "np" else module
        if name in NAMES.get(module, ()):
            replacement = _shown(NAMES[module][name])
            return "%s.%s was removed: theano_ng-run --numpy-names restores it, as %s" % (module, name, replacement)
    if text == "'str' object has no attribute 'decode'":
        return (
            "text that h5py reads is already decoded since h5py 3: with theano_ng-run --numpy-names programs can "
            "decode it again"
        )
    found = _NO_MODULE.search(text)
    if found is not None and found[1] in MODULES:
        return "%s was removed: theano_ng-run --numpy-names restores the parts that programs used" % found[1]
    return None


# Regular expressions for messages of Python and NumPy which report that a module lacks a name.
_COMPLAINTS = (
    re.compile(r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'"),
    re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'"),
    re.compile(r"`(?P<module>np)\.(?P<name>\w+)` was removed"),
)
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")


class _Lost:
    """The function ``__getattr__`` of a module from which names were removed."""

    def __init__(self, module, former, report):
        self.module, self.former, self.report = module, former, report
        self.reported = set()

    def __call__(self, name):
        expression = NAMES[self.module].get(name)
        if expression is None:
            if self.former is not None:
                return self.former(name)
            raise AttributeError("module %r has no attribute %r" % (self.module, name))
        value = _value(expression)
        place = (name, *_place(sys._getframe(1)))
        if place not in self.reported:
            self.reported.add(place)
            self.report("%s.%s" % (self.module, name), _shown(expression), *place[1:])
        return value


_undo = {}
"""Module of `BEHAVIOUR` -> the function that undoes the change to it."""


def _attach(module, report):
    if module.__name__ in BEHAVIOUR:
        if module.__name__ not in _undo:
            _undo[module.__name__] = _value(BEHAVIOUR[module.__name__])(module, report)
        return
    former = vars(module).get("__getattr__")
    if not isinstance(former, _Lost):
        module.__getattr__ = _Lost(module.__name__, former, report)


class _Imports:
    """A finder that restores the names of a module as soon as a program imports the module.

    Importing all these modules in advance would take longer than most programs run.
    """

    made = ()

    def __init__(self, report):
        self.report = report

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in NAMES and fullname not in BEHAVIOUR:
            return None
        others = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in others if spec is not None), None)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _attach(module, self.report)

            spec.loader.exec_module = exec_module
        return spec


class _LostModules:
    """A finder and loader of removed modules."""

    def __init__(self, report):
        self.report, self.made = report, []

    def find_spec(self, fullname, path=None, target=None):
        return importlib.machinery.ModuleSpec(fullname, self) if fullname in MODULES else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        _value(MODULES[module.__name__])(module)
        self.made.append(module.__name__)
        self.report(module.__name__, "emulated", *_place(sys._getframe(1)))


def _place(frame):
    """Return the file and line of a frame.

    For a frame of the import system, return the file and line of the program's import statement.
    """
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _print(name, replacement, file, line):
    print("%s:%d: %s was removed; it is replaced by %s" % (file, line, name, replacement), file=sys.stderr)


def _shown(expression):
    if expression.startswith("_"):
        return "emulated"
    return (
        expression.replace("np.", "numpy.")
        .replace("sp.", "scipy.special.")
        .replace("importlib.import_module('", "")
        .replace("')", "")
    )


@functools.cache
def _value(expression):
    scope = dict(globals())
    if expression.startswith("sp."):
        scope["sp"] = importlib.import_module("scipy.special")
    return eval(expression, scope)


# The following functions and classes replace names that have no equivalent today.

_ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def _getargspec(function):
    """Return the names and defaults of the parameters of a Python function.

    Raise ValueError for keyword-only parameters and annotations. `getargspec` did not support them.
    """
    spec = inspect.getfullargspec(function)
    if spec.kwonlyargs or spec.annotations:
        raise ValueError(
            "Function has keyword-only parameters or annotations, use inspect.signature() API which can support them"
        )
    return _ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


def _pkg_resources(module):
    """Fill a module with functions of setuptools' `pkg_resources` for installed distributions."""

    class Distribution:
        def __init__(self, found):
            self.project_name = self.key = found.metadata["Name"]
            self.version = found.version

    module.get_distribution = lambda name: Distribution(metadata.distribution(name))
    module.require = lambda *names: [module.get_distribution(name) for name in names]
    module.DistributionNotFound = metadata.PackageNotFoundError
    module.Distribution = Distribution
    module.parse_version = _version


def _decodable_attributes(module, report):
    """Give text attributes of HDF5 files a method `decode`, which programs had to call before h5py 3.

    Return a function that undoes this.
    """
    read, reported = module.AttributeManager.__getitem__, set()

    class Text(str):
        def decode(self, encoding="utf-8", errors="strict"):
            place = _place(sys._getframe(1))
            if place not in reported:
                reported.add(place)
                report("decode() of text read by h5py", "decoded", *place)
            return str(self)

    def __getitem__(self, name):
        value = read(self, name)
        if isinstance(value, str):
            return Text(value)
        if isinstance(value, np.ndarray) and value.dtype == object:
            texts = [Text(v) if isinstance(v, str) else v for v in value.flat]
            value = np.array([*texts, None], object)[:-1].reshape(value.shape)
        return value

    module.AttributeManager.__getitem__ = __getitem__
    return lambda: setattr(module.AttributeManager, "__getitem__", read)


_STAGES = {
    "dev": -4,
    "a": -3,
    "alpha": -3,
    "b": -2,
    "beta": -2,
    "c": -1,
    "rc": -1,
    "pre": -1,
    "preview": -1,
    "post": 1,
    "rev": 1,
    "r": 1,
}


def _version(text):
    """Return a key that sorts versions in the order of PEP 440.

    The key consists of the epoch, the release numbers without zeros at the end, the stages (pairs of a rank and a
    number), and the local version.
    """
    epoch, _, rest = text.lower().strip().lstrip("v").rpartition("!")
    public, _, local = rest.partition("+")
    numbers = re.match(r"[\d.]*", public)[0]
    release = [int(n) for n in numbers.split(".") if n]
    while release and release[-1] == 0:
        release.pop()
    stages = [
        (_STAGES.get(name, -5), int(n or 0)) for name, n in re.findall(r"([a-z]+)[._-]?(\d*)", public[len(numbers) :])
    ]
    # (0, 0) ends the stages. Therefore a final release comes after its candidates and before its post-releases, and the
    # development releases of a stage come before the stage.
    return (
        int(epoch or 0),
        tuple(release),
        (*stages, (0, 0)),
        tuple((n.isdigit(), int(n) if n.isdigit() else n) for n in re.split(r"[._-]", local) if n),
    )


def _imp(module):
    """Fill a module with functions of `imp` that load a file as a module, reload a module, and make a new module."""

    def load_source(name, pathname, file=None):
        spec = importlib.util.spec_from_file_location(name, pathname)
        loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    module.load_source = load_source
    module.reload = importlib.reload
    module.new_module = types.ModuleType


class _Tester:
    """A substitute for the class `numpy.testing.Tester`, with which packages ran their tests by nose.

    The methods `test` and `bench` raise RuntimeError, because nose does not run on current versions of Python.
    """

    def __init__(self, package=None, raise_warnings="release", depth=0):
        self.package = package

    def test(self, *args, **kwargs):
        raise RuntimeError(
            "numpy.testing.Tester ran tests by nose, which does not run on this version of Python: run them with "
            "another program"
        )

    bench = test


def _in1d(ar1, ar2, assume_unique=False, invert=False):
    return np.isin(np.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)


def _asfarray(a, dtype=float):
    dtype = np.dtype(dtype)
    return np.asarray(a, dtype if dtype.kind in "fc" else float)


def _asscalar(a):
    return a.item()


def _alen(a):
    return len(np.atleast_1d(a))


def _msort(a):
    return np.sort(a, axis=0)


def _find_common_type(array_types, scalar_types):
    """Return the common dtype of arrays and scalars.

    Scalars count only if their kind comes after the kind of the arrays in the order bool, integer, float, complex.
    """
    arrays, scalars = ([np.dtype(t) for t in types] for types in (array_types, scalar_types))
    of_arrays, of_scalars = (np.result_type(*types) if types else None for types in (arrays, scalars))
    if of_arrays is None or of_scalars is None:
        return of_arrays or of_scalars
    kinds = "buifcmMSUV"
    return of_scalars if kinds.find(of_scalars.kind) > kinds.find(of_arrays.kind) else of_arrays


def _issctype(rep):
    if not isinstance(rep, (type, np.dtype)):
        return False
    try:
        return np.dtype(rep).type is not np.object_
    except TypeError:
        return False


def _issubclass(a, b):
    try:
        return issubclass(a, b)
    except TypeError:
        return False


def _issubsctype(arg1, arg2):
    return issubclass(_obj2sctype(arg1), _obj2sctype(arg2))


def _chisqprob(chisq, df):
    return importlib.import_module("scipy.special").chdtrc(df, chisq)


def _binom_test(x, n=None, p=0.5, alternative="two-sided"):
    successes, trials = (x, n) if np.ndim(x) == 0 else (x[0], x[0] + x[1])
    return importlib.import_module("scipy.stats").binomtest(int(successes), int(trials), p, alternative).pvalue


def _obj2sctype(rep, default=None):
    if isinstance(rep, type) and issubclass(rep, np.generic):
        return rep
    try:
        return np.asarray(rep).dtype.type if isinstance(rep, np.ndarray) else np.dtype(rep).type
    except TypeError:
        return default


def _sctype2char(sctype):
    return np.dtype(sctype).char


def _maximum_sctype(t):
    kind = np.dtype(t).kind
    return {"i": np.int64, "u": np.uint64, "f": np.longdouble, "c": np.clongdouble}.get(kind, np.dtype(t).type)


def _sctypes():
    return {
        "int": [np.int8, np.int16, np.int32, np.int64],
        "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
        "float": [np.float16, np.float32, np.float64, np.longdouble],
        "complex": [np.complex64, np.complex128, np.clongdouble],
        "others": [bool, object, bytes, str, np.void],
    }


class _Casts(dict):
    """A dict from a type to the function that converts values to arrays of this type."""

    def __missing__(self, key):
        dtype = np.dtype(key)
        return lambda x: np.asarray(x).astype(dtype)


class _Sizes(dict):
    """A dict from a type to the number of bytes of an element."""

    def __missing__(self, key):
        return np.dtype(key).itemsize


def _safe_eval(source):
    return ast.literal_eval(source)


def _transposed_copy(a):
    return a.T.copy()


def _disp(mesg, device=None, linefeed=True):
    (device or sys.stdout).write("%s%s" % (mesg, "\n" if linefeed else ""))


def _loads(*args, **kwargs):
    return pickle.loads(*args, **kwargs)


def _derivative(func, x0, dx=1.0, n=1, args=(), order=3):
    """Return the n-th derivative at a point, by central differences through `order` points.

    The weights are computed from a Vandermonde matrix. The definition is the same as in SciPy 1.0.
    """
    if order < n + 1:
        raise ValueError(
            "'order' (the number of points used to compute the derivative), must be at least the derivative order 'n' + 1."
        )
    if order % 2 == 0:
        raise ValueError("'order' (the number of points used to compute the derivative) must be odd.")
    points = np.arange(order) - order // 2
    weights = np.linalg.inv(np.vander(points, increasing=True))[n] * math.factorial(n)
    return sum(w * func(x0 + k * dx, *args) for k, w in zip(points, weights)) / np.prod((dx,) * n, axis=0)
