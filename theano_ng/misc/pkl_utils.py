"""Pickles for long-term storage: without process-specific data, or with arrays in separate files of a zip archive.

`dump` writes a zip archive, and `load` reads it back. `numpy.load` can read the arrays of the archive without this
package. `StripPickler` writes smaller pickles that other machines can load. `CompatUnpickler` reads pickles of Python
2, Theano and older versions of NumPy.
"""

import io
import pickle
import reprlib
import zipfile
from collections import defaultdict
from contextlib import closing, contextmanager
from pickle import DEFAULT_PROTOCOL, HIGHEST_PROTOCOL
from urllib.parse import quote, unquote

import numpy as np

from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.pickling import reduce_in_graph
from theano_ng.gof.unpicklable import unpicklable_part
from theano_ng.gof.utils import writable

__all__ = [
    "CompatUnpickler",
    "PersistentGpuArrayID",
    "PersistentNdarrayID",
    "PersistentNdarrayLoad",
    "PersistentSharedVariableID",
    "StripPickler",
    "dump",
    "load",
    "zipadd",
]

# Pickling a graph is not recursive, so this variable is not used. It is kept for programs that set it.
min_recursion = 3000


@contextmanager
def _saying_what(obj, dumps=pickle.dumps):
    """Return a context manager that replaces a pickling error by a PicklingError that names the failed part."""
    try:
        yield
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as failure:
        way, part = unpicklable_part(obj, dumps)
        short = reprlib.Repr()
        short.maxother = 100
        if isinstance(failure, RecursionError):
            reason = "it contains objects nested too deeply for Python's recursion limit (sys.setrecursionlimit)"
        else:
            reason = str(failure)
            if "lambda" in reason or "local" in reason:
                reason += (
                    ". Lambdas, and functions and classes that are defined inside functions, cannot be pickled: define them "
                    "in a module"
                )
        raise pickle.PicklingError(
            "cannot pickle %s (%s of %s): %s"
            % (short.repr(part), ", ".join(reversed(way)) or "all", type(obj).__name__, reason)
        ) from failure


class StripPickler(pickle.Pickler):
    """A pickler that leaves out the stack traces and test values of variables and nodes.

    Parameters
    ----------
    file : file
        A file that is open for writing bytes.
    protocol : int
        The protocol of `pickle.Pickler`. -1 means the highest protocol.
    extra_tag_to_remove : str or list of str, optional
        Names of other attributes of tags to leave out.

    Notes
    -----
    If a part of an object cannot be pickled, the PicklingError names this part and its position in the object.

    Stack traces (``tag.trace``, ``tag.creation_traceback``), test values and inner functions of Ops are left out. This
    does not change the objects in memory.

    Examples
    --------
    ::

        fn_args = dict(inputs=inputs, outputs=outputs, updates=updates)
        with open("my_test.pkl", "wb") as f:
            StripPickler(f, protocol=-1).dump(fn_args)
    """

    def __init__(self, file, protocol=0, extra_tag_to_remove=None):
        super().__init__(file, protocol)
        self._protocol = HIGHEST_PROTOCOL if protocol < 0 else protocol
        self.tag_to_remove = ["trace", "test_value", "creation_traceback"]
        if extra_tag_to_remove is not None:
            self.tag_to_remove.extend(
                [extra_tag_to_remove] if isinstance(extra_tag_to_remove, str) else extra_tag_to_remove
            )

    def dump(self, obj):
        """Write one object. If it cannot be pickled, the exception names the part that failed."""
        with _saying_what(obj):
            super().dump(obj)

    def save(self, obj):
        """Write one object. This is the same as `dump`."""
        self.dump(obj)

    def reducer_override(self, obj):
        """Reduce variables and nodes as usual, but replace their tags by copies without the unwanted attributes."""
        if not isinstance(obj, (Variable, Apply)) or type(obj).__reduce__ is not object.__reduce__:
            return NotImplemented
        node = obj if isinstance(obj, Apply) else obj.owner
        reduced = list(reduce_in_graph(obj, node, self._protocol))
        if len(reduced) > 2 and isinstance(reduced[2], dict) and "tag" in reduced[2]:
            reduced[2] = dict(reduced[2], tag=self._stripped(reduced[2]["tag"]))
        return tuple(reduced)

    def _stripped(self, tag):
        kept = type(tag)()
        kept.__dict__.update((name, value) for name, value in tag.__dict__.items() if name not in self.tag_to_remove)
        return kept


class CompatUnpickler(pickle._Unpickler):
    """An unpickler for pickles that Theano, Python 2 or NumPy 1 wrote.

    It maps the modules of Theano to modules of this package. It also loads arrays that Python 2 pickled, whose data are
    strings.

    Parameters
    ----------
    file : file
        A file that is open for reading bytes.
    **kwargs
        Arguments for `pickle.Unpickler`. Use ``encoding="latin1"`` for pickles of Python 2.

    Examples
    --------
    ::

        with open(fname, "rb") as fp:
            mat = CompatUnpickler(fp, encoding="latin1").load()
    """

    dispatch = dict(pickle._Unpickler.dispatch)

    def load_build(self):
        """Set the state of an object. If the data of an array are a string, convert them to bytes first."""
        state = self.stack[-1]
        instance = self.stack[-2]
        if (
            isinstance(instance, np.ndarray)
            and isinstance(state, tuple)
            and len(state) == 5
            and isinstance(state[4], str)
        ):
            self.stack[-1] = state[:4] + (state[4].encode("latin1"),)
        super().load_build()

    dispatch[pickle.BUILD[0]] = load_build

    def load_reduce(self):
        """Call a function with arguments. If the data of a NumPy scalar are a string, convert them to bytes first."""
        args = self.stack[-1]
        func = self.stack[-2]
        if (
            getattr(func, "__name__", "") == "scalar"
            and len(args) == 2
            and isinstance(args[1], str)
            and isinstance(args[0], np.dtype)
        ):
            self.stack[-1] = (args[0], args[1].encode("latin1"))
        super().load_reduce()

    dispatch[pickle.REDUCE[0]] = load_reduce

    def find_class(self, module, name):
        """Return the class or function of a name. First map module names of Theano and of older NumPy."""
        if module.startswith("numpy.core") and not hasattr(np, "core"):
            module = module.replace("numpy.core", "numpy._core", 1)
        if module == "theano" or module.startswith("theano."):
            module = module.replace("theano", __name__.partition(".")[0], 1)
        return super().find_class(module, name)


# Subclasses of `pickle._Unpickler` in other programs can use this function as an entry of `dispatch`.
load_reduce = CompatUnpickler.load_reduce


# ------------------------------------------------------------ zip archives


class PersistentNdarrayID:
    """A `persistent_id` function that writes arrays to NPY members ``array_0``, ``array_1`` ... of a zip archive.

    Parameters
    ----------
    zip_file : zipfile.ZipFile
        An archive that is open for writing.
    """

    def __init__(self, zip_file):
        self.zip_file = zip_file
        self.count = 0
        self.seen = {}  # id -> (name, object); the reference keeps the object alive, so that its id is not reused

    def _resolve_name(self, obj):
        """Return the name of the member for a new object."""
        name = "array_%d" % self.count
        self.count += 1
        return name

    def __call__(self, obj):
        """Write an array if it has not been written, and return its persistent id. Return None for other objects."""
        if type(obj) is np.ndarray and not obj.dtype.hasobject:
            return self._write(obj, lambda f: np.lib.format.write_array(f, obj, allow_pickle=False))
        return None

    def _write(self, obj, write, kind="ndarray"):
        if id(obj) not in self.seen:
            name = self._resolve_name(obj)
            zipadd(write, self.zip_file, name)
            self.seen[id(obj)] = ("%s.%s" % (kind, name), obj)
        return self.seen[id(obj)][0]


_devices = []  # arguments of `register_device_arrays`: tuples (cls, place, array)


def register_device_arrays(cls, place, array):
    """Register a class of device arrays, so that archives can store them.

    Parameters
    ----------
    cls : type
    place : callable
        ``place(value)`` returns the name of the device context of a device array. The name may be None.
    array : callable
        ``array(ndarray, place)`` returns a device array with the same elements, in this context.
    """
    _devices.append((cls, place, array))


class PersistentGpuArrayID(PersistentNdarrayID):
    """A `persistent_id` function that writes NumPy arrays and device arrays in NPY format.

    When the archive is loaded, each device array is restored in the context with the same name, as `pickle` does.
    """

    def __call__(self, obj):
        for cls, place, _ in _devices:
            if isinstance(obj, cls):
                where = place(obj)
                # Dots are escaped, because they separate the parts of a persistent id.
                kind = "gpuarray" if where is None else "gpuarray:" + quote(where, safe="").replace(".", "%2E")
                return self._write(
                    obj, lambda f: np.lib.format.write_array(f, np.asarray(obj), allow_pickle=False), kind
                )
        return super().__call__(obj)


class PersistentSharedVariableID(PersistentGpuArrayID):
    """A `persistent_id` function that writes the values of shared variables to members named after the variables.

    Other arrays are written to the members ``array_0``, ``array_1`` ...

    Parameters
    ----------
    zip_file : zipfile.ZipFile
        An archive that is open for writing.
    allow_unnamed : bool
        Whether shared variables without a name are allowed. Their values are named like other arrays.
    allow_duplicates : bool
        Whether several shared variables may have the same name. The second member is then ``name_2``, and so on.

    Raises
    ------
    ValueError
        If a shared variable has no name or a repeated name, and the parameters do not allow this. If a shared variable
        has the name ``pkl``, because the member ``pkl`` contains the pickle.
    """

    def __init__(self, zip_file, allow_unnamed=True, allow_duplicates=True):
        super().__init__(zip_file)
        self.name_counter = defaultdict(int)
        self.ndarray_names = {}
        self.allow_unnamed = allow_unnamed
        self.allow_duplicates = allow_duplicates

    def _resolve_name(self, obj):
        if id(obj) not in self.ndarray_names:
            while True:
                name = super()._resolve_name(obj)
                if not self.name_counter[name]:  # not the name of a shared variable
                    self.name_counter[name] += 1
                    return name
        name = self.ndarray_names[id(obj)][0]
        count = self.name_counter[name]
        self.name_counter[name] += 1
        if not count:
            return name
        if not self.allow_duplicates:
            raise ValueError(
                "Several shared variables have the name %r; give them different names, or allow duplicates" % name
            )
        while True:
            count += 1
            unique = "%s_%d" % (name, count)
            if not self.name_counter[unique]:
                self.name_counter[unique] += 1
                return unique

    def __call__(self, obj):
        if isinstance(obj, SharedVariable):
            if obj.name:
                if obj.name == "pkl":
                    raise ValueError(
                        "can't pickle a shared variable with the name `pkl`: the archive uses this name for the pickle"
                    )
                value = obj.container.storage[0]
                # The value itself is written later, with the state of the variable.
                self.ndarray_names[id(value)] = (writable(obj.name), value)
            elif not self.allow_unnamed:
                raise ValueError("unnamed shared variable, %s: give it a name, or allow unnamed ones" % obj)
        return super().__call__(obj)


class PersistentNdarrayLoad:
    """A `persistent_load` function that reads the arrays that `PersistentNdarrayID` and its subclasses wrote.

    Parameters
    ----------
    zip_file : zipfile.ZipFile
        An archive that is open for reading.
    """

    def __init__(self, zip_file):
        self.zip_file = zip_file
        self.cache = {}

    def __call__(self, persid):
        array_type, _, name = persid.partition(".")
        array_type, colon, where = array_type.partition(":")
        if array_type not in ("ndarray", "gpuarray"):
            raise pickle.UnpicklingError(
                "unknown kind of array %r in the archive; load it with the matching persistent_load" % (persid,)
            )
        if name not in self.cache:
            with self.zip_file.open(name) as member:
                value = np.lib.format.read_array(io.BytesIO(member.read()), allow_pickle=False)
            for _, _, array in _devices if array_type == "gpuarray" else ():
                value = array(value, unquote(where) if colon else None)
            self.cache[name] = value
        return self.cache[name]


def zipadd(func, zip_file, name):
    """Write a member of a zip archive.

    Parameters
    ----------
    func : callable
        ``func(file)`` writes the contents of the member as bytes.
    zip_file : zipfile.ZipFile
        An archive that is open for writing.
    name : str
    """
    content = io.BytesIO()
    func(content)
    zip_file.writestr(zipfile.ZipInfo(name), content.getbuffer())


def dump(obj, file_handler, protocol=DEFAULT_PROTOCOL, persistent_id=PersistentSharedVariableID):
    """Pickle an object into a zip archive, with arrays in separate members.

    Parameters
    ----------
    obj : object
    file_handler : file
        A file that is open for writing bytes. It need not be seekable.
    protocol : int, optional
        The pickle protocol.
    persistent_id : callable
        ``persistent_id(zip_file)`` returns a function that writes some objects to separate members, and returns
        persistent ids for them. `PersistentSharedVariableID` names the members after shared variables.
        `PersistentNdarrayID` numbers the members.

    Raises
    ------
    pickle.PicklingError
        If a part of the object cannot be pickled. The message names this part and its position in the object.

    Notes
    -----
    The member ``pkl`` contains the pickle. The other members are in NPY format, so that `numpy.load` can read the
    archive.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import theano_ng as theano
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "model.zip")
    >>> foo_1 = theano.shared(0, name='foo')
    >>> foo_2 = theano.shared(1, name='foo')
    >>> with open(path, 'wb') as f:
    ...     dump((foo_1, foo_2, np.array(2)), f)
    >>> list(np.load(path).keys())
    ['foo', 'foo_2', 'array_0', 'pkl']
    >>> np.load(path)['foo']
    array(0)
    >>> with open(path, 'rb') as f:
    ...     foo_1, foo_2, array = load(f)
    >>> array
    array(2)
    """
    with closing(zipfile.ZipFile(file_handler, "w", zipfile.ZIP_DEFLATED, allowZip64=True)) as zip_file:

        def write(f):
            pickler = _Pickler(f, protocol)
            pickler.persist = persistent_id(zip_file)
            with _saying_what(obj):
                pickler.dump(obj)

        zipadd(write, zip_file, "pkl")


class _Pickler(pickle.Pickler):
    """A pickler that calls its attribute `persist` for the persistent id of every object."""

    def persistent_id(self, obj):
        return self.persist(obj)


class _Unpickler(CompatUnpickler):
    """An unpickler that calls its attribute `find` to load objects that are stored outside of the pickle."""

    def persistent_load(self, persid):
        return self.find(persid)


def load(f, persistent_load=PersistentNdarrayLoad):
    """Load an object from an archive that `dump` wrote.

    Parameters
    ----------
    f : file
        A file that is open for reading bytes.
    persistent_load : callable
        ``persistent_load(zip_file)`` returns a function that reads the members. It must match the argument
        `persistent_id` of `dump`.

    Returns
    -------
    object
    """
    with closing(zipfile.ZipFile(f, "r")) as zip_file, zip_file.open("pkl") as member:
        unpickler = _Unpickler(io.BytesIO(member.read()))
        unpickler.find = persistent_load(zip_file)
        return unpickler.load()
