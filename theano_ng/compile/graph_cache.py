"""A disk cache of rewritten graphs: another process that compiles the same function does not rewrite its graph again.

The key of an entry is a hash of everything that determines the result of rewriting: the original graph (structure, Ops,
types, constants, names), the permissions for inputs and outputs (mutable, borrow), the mode's query, and the flags that
differ from their defaults. An entry is valid as long as the files of this package do not change, and the questions that
rules asked (`optdb.consult`) have the same answers. A graph is not cached if the result depends on anything else: Ops of
other packages, rules that users registered, or test values. An entry that cannot be read is ignored, as if it were
missing.
"""

import functools
import os
import pickle
import threading

import numpy as np

from theano_ng.compile.io import In
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.configparser import flags_in_effect
from theano_ng.digests import blake2b
from theano_ng.gof import optdb as gof_optdb
from theano_ng.gof._files import stamps
from theano_ng.gof.compiler import trust
from theano_ng.gof.deferred import run_later
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.optdb import Query
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.toolbox import PreserveVariableAttributes
from theano_ng.gof.traversal import postorder

MAGIC = b"theano_ng graph 3\n"
DIGEST = 20  # length in bytes of checksums and fingerprints
MAX_CONSTANT_BYTES = 1 << 20  # graphs with larger constants are not cached

_CODE_SUFFIXES = (b".py", b".so")
_NO_CODE = frozenset((b"__pycache__", b"audit", b"tests"))  # folders whose files do not affect functions
_fingerprint = None


class Uncacheable(Exception):
    """Error: a part of a function cannot be described in a cache key.

    By default, a key describes an object by its class and state. If this describes too much or too little, the class
    defines a method ``describe_for_cache(key, depth)``. The method returns a text for the object. It calls
    ``key.text(part, depth)`` and ``key.inner_graph(inputs, outputs)`` to build the text.
    """


def package_fingerprint():
    """Return a digest of the names, sizes and times of the package's files (without tests and audit).

    The digest is part of every entry, so entries become invalid when the code changes.
    """
    global _fingerprint
    if _fingerprint is None:
        files = stamps(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), _CODE_SUFFIXES, _NO_CODE)
        _fingerprint = blake2b(b"\n".join([*sorted(files), np.__version__.encode()])).digest()
    return _fingerprint


# --- keys --------------------------------------------------------------------------------------------------------------------

_LITERAL_TYPES = (type(None), bool, int, str, bytes, complex)
_LITERAL_CLASSES = frozenset(_LITERAL_TYPES)
# Other packages whose classes and functions a key may name. An entry becomes invalid if NumPy changes, because the
# fingerprint of the package includes the version of NumPy.
_STABLE_PACKAGES = ("numpy.", "builtins.")
# Tags of variables that have no influence on rewriting, or that are determined by other parts of the key.
_SILENT_TAGS = frozenset(("trace", "test_value", "unique_value"))


class _Key:
    """A builder for the text of a cache key, which describes a function."""

    def __init__(self):
        self.parts = []
        self._known = {}  # id of an Op or type -> its text
        self._alive = []  # keeps these objects alive, so that their ids are not reused

    def add(self, *values):
        for value in values:
            self.parts.append(self.text(value))

    def digest(self):
        return blake2b("\0".join(self.parts).encode("utf-8", "surrogatepass")).hexdigest()

    def text(self, value, depth=0):
        """Return a text for a value.

        Two texts are equal if and only if the values are equal, also in different processes.
        """
        cls = type(value)
        if cls in _LITERAL_CLASSES:
            return "%s:%r" % (cls.__name__, value)
        if cls is float:
            return "float:" + value.hex()
        known = self._known.get(id(value))
        if known is None:
            if depth > 30:
                raise Uncacheable(type(value))
            known = self._known[id(value)] = self._describe(value, depth + 1)
            self._alive.append(value)
        return known

    def _describe(self, value, depth):
        if isinstance(value, _LITERAL_TYPES):
            return "%s:%r" % (type(value).__name__, value)
        if isinstance(value, float):
            return "float:" + value.hex()
        if isinstance(value, (list, tuple)):
            return "%s(%s)" % (type(value).__name__, ",".join([self.text(v, depth) for v in value]))
        if isinstance(value, (set, frozenset)):
            return "set(%s)" % ",".join(sorted([self.text(v, depth) for v in value]))
        if hasattr(value, "items") and hasattr(value, "keys"):
            return "dict(%s)" % ",".join(
                sorted(["%s=%s" % (self.text(k, depth), self.text(v, depth)) for k, v in value.items()])
            )
        if isinstance(value, np.dtype):
            return "dtype:%r" % value
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise Uncacheable(value.dtype)
            content = value.tobytes()
            return "array:%s%s%s" % (
                value.dtype.str,
                value.shape,
                content.hex() if len(content) < 64 else blake2b(content).hexdigest(),
            )
        if isinstance(value, type):
            return "class:" + self._home(value)
        if isinstance(value, slice):
            return "slice(%s)" % ",".join([self.text(v, depth) for v in (value.start, value.stop, value.step)])
        if callable(value) and hasattr(value, "__qualname__"):
            owner = getattr(value, "__self__", None)
            if getattr(value, "__closure__", None) or (owner is not None and not isinstance(owner, type(np))):
                raise Uncacheable(value)  # the function has state that its name does not identify
            return "function:" + self._home(value)
        if isinstance(value, Variable):
            raise Uncacheable(value)
        return self._instance(value, depth)

    def _instance(self, value, depth):
        """Return a text for an Op, a type or another instance: its class, and its properties or state."""
        cls = type(value)
        if hasattr(cls, "describe_for_cache"):
            return "%s{%s}" % (self._home(cls), value.describe_for_cache(self, depth))
        props = getattr(cls, "__props__", None)
        if props is not None:
            # The attributes `name` and `openmp` of an Op are not in `__props__`, but cached graphs must preserve both:
            # the name is printed, and the user chose the value of `openmp`.
            beside = getattr(value, "__dict__", {})
            state = [(name, getattr(value, name)) for name in props] + [beside.get("name"), bool(beside.get("openmp"))]
        elif hasattr(cls, "__getstate__") and cls.__getstate__ is not getattr(object, "__getstate__", None):
            state = value.__getstate__()
        else:
            state = getattr(value, "__dict__", None)
        return "%s{%s}" % (self._home(cls), self.text(state, depth))

    @staticmethod
    def _home(thing):
        """Return the name of a class or function.

        Raise Uncacheable unless this package or a stable package defines it.
        """
        name = "%s.%s" % (getattr(thing, "__module__", None), thing.__qualname__)
        if not (is_from_package(thing) or name.startswith(_STABLE_PACKAGES)) or "<" in name:
            raise Uncacheable(thing)
        return name

    def inner_graph(self, inputs, outputs):
        """Return a text for a graph inside an Op.

        A cache entry stores inner graphs unchanged, with the stack traces of their variables. Therefore the text
        contains these traces.
        """
        inner = _Key()
        inner._known, inner._alive = self._known, self._alive
        order = inner.graph(inputs, outputs)
        inner.parts.append(repr([getattr(variable.tag, "trace", None) for variable in order]))
        return blake2b("\0".join(inner.parts).encode("utf-8", "surrogatepass")).hexdigest()

    def graph(self, inputs, outputs):
        """Add descriptions of the inputs, and of all nodes on which the outputs depend.

        Returns
        -------
        list of Variable
            All variables of the graph. The description numbers the variables in this order.
        """
        numbers, order, parts = {}, [], self.parts
        constant_bytes = 0

        def number(variable):
            numbers[variable] = len(order)
            order.append(variable)
            tags = variable.tag.__dict__
            if not _SILENT_TAGS.issuperset(tags):
                parts.append(self.text({k: v for k, v in tags.items() if k not in _SILENT_TAGS}))

        for variable in inputs:
            number(variable)
            parts.append("in %s %s %r" % (type(variable).__qualname__, self.text(variable.type), variable.name))
        for variable in postorder(outputs, numbers):
            node = variable.owner
            if node is None:
                if not isinstance(variable, Constant):
                    raise Uncacheable(variable)  # a missing input, for which compilation raises an error
                number(variable)
                data = variable.data
                constant_bytes += getattr(data, "nbytes", 0)
                if constant_bytes > MAX_CONSTANT_BYTES:
                    raise Uncacheable("large constants")
                parts.append("const %s %s %r" % (self.text(variable.type), self.text(data), variable.name))
                continue
            parts.append("%s %s" % (self.text(node.op), [numbers[i] for i in node.inputs]))
            for output in node.outputs:
                number(output)
                parts.append("%s %r" % (self.text(output.type), output.name))
        parts.append("out %s" % [numbers[o] for o in outputs])
        return order


def _checked_environment(mode, features):
    """Raise Uncacheable if rewriting depends on something that cannot be part of a key."""
    if type(mode) is not Mode or not isinstance(mode._optimizer, Query) or mode._optimizer.extra_optimizations:
        raise Uncacheable(mode)
    if gof_optdb.has_foreign_rules() or features != [PreserveVariableAttributes]:
        raise Uncacheable("rules or features of users")
    if (
        config.compute_test_value != "off"
        or config.compute_test_value_opt != "off"
        or config.check_stack_trace != "off"
        or config.optimizer_verbose
        or config.scan.debug
        or config.profile_optimizer
        or config.metaopt.verbose
    ):
        raise Uncacheable("flags that watch the rewriting")


_pending_entries = {}  # path -> pickle of an entry that has not been written yet


def _write(path, body):
    """Write an entry to disk. Errors of the file system are ignored."""
    temporary = "%s.%d.%d.tmp" % (path, os.getpid(), threading.get_ident())
    try:
        trust.make_directory(os.path.dirname(path))
        with open(temporary, "wb") as f:
            f.write(MAGIC + package_fingerprint() + blake2b(body).digest() + body)
        trust.publish(temporary, path)
    except BaseException as failure:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        if not isinstance(failure, OSError):
            raise
    finally:
        _pending_entries.pop(path, None)


class CachedGraph:
    """The cache entry of one function, which may or may not exist on disk.

    Attributes
    ----------
    path : str
        The path of the entry's file.
    order : list of Variable
        The variables of the graph before rewriting, in the order of their numbers.
    """

    def __init__(self, path, order, n_inputs, update_mapping):
        self.path = path
        self.order = order
        self.n_inputs = n_inputs
        self.update_mapping = update_mapping

    # -- reading

    def load(self):
        """Return the rewritten graph as a FunctionGraph. Return None if no valid entry exists."""
        try:
            content = _pending_entries.get(self.path)
            if content is None:
                with trust.open_file(self.path) as f:
                    content = f.read()
                parts = len(MAGIC), len(MAGIC) + DIGEST, len(MAGIC) + 2 * DIGEST
                head, fingerprint, digest = [content[i:j] for i, j in zip((0, *parts), parts)]
                content = content[parts[-1] :]
                if head != MAGIC or fingerprint != package_fingerprint() or digest != blake2b(content).digest():
                    return None
            answers, graph = pickle.loads(content)
            if any(gof_optdb.consult(question, *arguments) != answer for question, arguments, answer in answers):
                return None
            return self._build(*pickle.loads(graph))
        except Exception:  # if the entry has any defect, the graph is rewritten again
            return None

    def _build(self, ops, types, constants, nodes, outputs):
        inputs = [variable.clone() for variable in self.order[: self.n_inputs]]
        variables = list(inputs)
        for type_index, data, name in constants:
            constant = types[type_index].make_constant(data, name=name)
            variables.append(constant)
        for op_index, input_numbers, output_specs in nodes:
            made = []
            for type_index, name, trace_of, tags in output_specs:
                variable = types[type_index].make_variable(name)
                if trace_of:
                    variable.tag.trace = self._traces(trace_of)
                if tags:
                    variable.tag.__dict__.update(tags)
                made.append(variable)
            Apply(ops[op_index], [variables[i] for i in input_numbers], made)
            variables.extend(made)
        fgraph = FunctionGraph(
            inputs, [variables[i] for i in outputs], clone=False, update_mapping=dict(self.update_mapping)
        )
        if any(getattr(op, "destroy_map", None) for op in ops):
            fgraph.attach_feature(DestroyHandler())
        return fgraph

    def _traces(self, numbers):
        return [trace for i in numbers for trace in getattr(self.order[i].tag, "trace", ())]

    # -- writing

    def save(self, fgraph):
        """Schedule the storage of a rewritten graph. If the graph cannot be pickled, do nothing."""
        try:
            graph = pickle.dumps(self._record(fgraph), protocol=pickle.HIGHEST_PROTOCOL)
            body = pickle.dumps((gof_optdb.answers(), graph), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # an Op or constant that cannot be pickled
            return
        _pending_entries[self.path] = body
        try:
            run_later(functools.partial(_write, self.path, body))
        except BaseException:  # `_write`, which removes the entry from `_pending_entries`, will not be called
            _pending_entries.pop(self.path, None)
            raise

    def _record(self, fgraph):
        # Id of a stack trace -> number of the original variable that has this trace. Rewrites give the same trace to
        # new variables, so the id of a trace identifies the original variable.
        sources = {
            id(trace): i
            for i, variable in reversed(list(enumerate(self.order)))
            for trace in getattr(variable.tag, "trace", ())
        }
        ops, op_numbers, types, type_numbers = [], {}, [], {}

        def index(table, numbers, value):
            key = value, getattr(value, "name", None)  # equal Ops and types can have different names: keep both
            found = numbers.get(key)
            if found is None:
                found = numbers[key] = len(table)
                table.append(value)
            return found

        numbers = {variable: i for i, variable in enumerate(fgraph.inputs)}
        order = fgraph.toposort()
        constants = []
        leaves = [i for node in order for i in node.inputs] + list(fgraph.outputs)
        for variable in leaves:
            if variable.owner is None and variable not in numbers:
                numbers[variable] = len(numbers)
                constants.append((index(types, type_numbers, variable.type), variable.data, variable.name))
        nodes = []
        for node in order:
            specs = []
            for variable in node.outputs:
                trace_of = [sources[key] for key in map(id, getattr(variable.tag, "trace", ())) if key in sources]
                tags = {k: v for k, v in variable.tag.__dict__.items() if k not in ("trace", "test_value")}
                specs.append((index(types, type_numbers, variable.type), variable.name, trace_of, tags or None))
            nodes.append((index(ops, op_numbers, node.op), [numbers[i] for i in node.inputs], specs))
            for variable in node.outputs:
                numbers[variable] = len(numbers)
        return ops, types, constants, nodes, [numbers[o] for o in fgraph.outputs]


def _add_rewriting(key, mode, features):
    """Add to a key everything that determines the result of rewriting, except the graph, its inputs and its outputs."""
    _checked_environment(mode, features)
    query = mode._optimizer
    key.add(
        sorted(query.include),
        sorted(query.require),
        sorted(query.exclude),
        query.position_cutoff,
        flags_in_effect(),
        gof_optdb.decided_by(),
        bool(config.cxx),
    )
    key.add({name: None if sub is None else sub._key() for name, sub in query.subquery.items()})


def identity(mode, inner_graph, features):
    """Return a digest that identifies the result of rewriting a graph inside an Op.

    If two graphs have the same digest, rewriting yields the same graph for both, and their variables were created on
    the same lines of the program. Graphs with different digests may also yield the same graph.

    Parameters
    ----------
    mode : Mode
    inner_graph : InnerGraph
    features : list
        The features of `std_fgraph`.

    Returns
    -------
    str or None
        The digest. None if the graph or the mode cannot be part of a key.
    """
    key = _Key()
    try:
        _add_rewriting(key, mode, features)
        key.add(inner_graph)
    except Exception:  # Uncacheable, or an error in reading properties, which compilation reports later
        return None
    return key.digest()


def find(mode, inputs, outputs, accept_inplace, features):
    """Return the cache entry for a function's rewritten graph. The entry need not exist on disk.

    Parameters
    ----------
    mode : Mode
    inputs : list of SymbolicInput
    outputs : list of SymbolicOutput
    accept_inplace : bool
    features : list
        The features of `std_fgraph`.

    Returns
    -------
    CachedGraph or None
        None if the function cannot be cached.
    """
    if not config.cache_graphs:
        return None
    key = _Key()
    try:
        _add_rewriting(key, mode, features)
        key.add(accept_inplace)
        updates, mapping = [], {}
        for i, spec in enumerate(inputs):
            if spec.update is not None:
                mapping[len(outputs) + len(updates)] = i
                updates.append(spec.update)
            key.add(
                (
                    bool(spec.mutable),
                    bool(getattr(spec, "borrow", False)),
                    bool(spec.implicit),
                    bool(getattr(spec, "shared", False)),
                    spec.update is not None,
                    isinstance(spec, In),
                )
            )
        key.add([bool(spec.borrow) for spec in outputs])
        order = key.graph([spec.variable for spec in inputs], [spec.variable for spec in outputs] + updates)
    except Exception:  # Uncacheable, or an error in reading properties: compilation reports such errors
        return None
    folder = trust.directory(os.path.join(config.compiledir, "graphs"))
    return CachedGraph(os.path.join(folder, key.digest()), order, len(inputs), mapping)
