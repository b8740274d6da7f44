"""Rewritten graphs on disk: a second process that compiles the same function does not rewrite it again.

An entry is found under a hash of everything that decides the result of rewriting: the graph before it (structure, Ops, types, constants,
names), what the function may do with its inputs and outputs, the mode's query, and the flags that differ from their defaults. It is of use
while the files of this package are those that made it. A graph that holds anything of which that cannot be said (Ops of other packages, rules registered by users, test values) is not
cached. An entry that cannot be read is as good as none.
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
from theano_ng.gof.compiler import trust
from theano_ng.gof import optdb as gof_optdb
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.later import later
from theano_ng.gof.optdb import Query
from theano_ng.gof.own import is_own
from theano_ng.gof.toolbox import PreserveVariableAttributes
from theano_ng.gof.traversal import postorder
from theano_ng.gof.type import Type

MAGIC = b"theano_ng graph 2\n"
DIGEST = 20  # bytes of checksums and fingerprints
MAX_CONSTANT_BYTES = 1 << 20  # graphs with more are not worth keeping

_NO_CODE = frozenset(("__pycache__", "audit", "tests"))  # folders that no function depends on
_fingerprint = None


class Uncacheable(Exception):
    """Something about a function cannot be part of a key.

    An object whose state says too much or too little has a method ``describe_for_cache(key, depth)``, which returns a text for it made with
    ``key.text(part, depth)`` and ``key.inner_graph(inputs, outputs)``.
    """


def package_fingerprint():
    """Names, sizes and times of the files of the package (tests and audit apart): what is cached is forgotten when the code changes."""
    global _fingerprint
    if _fingerprint is None:
        files, todo = [], [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
        while todo:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    name = entry.name
                    if name.endswith((".py", ".so")):
                        status = entry.stat()
                        files.append((entry.path, status.st_size, status.st_mtime_ns))
                    elif "." not in name and name not in _NO_CODE and entry.is_dir():
                        todo.append(entry.path)
        _fingerprint = blake2b(repr((sorted(files), np.__version__)).encode()).digest()
    return _fingerprint


# --- keys --------------------------------------------------------------------------------------------------------------------

_PLAIN = (type(None), bool, int, str, bytes, complex)
_PLAIN_CLASSES = frozenset(_PLAIN)
_BELOW = ("numpy.", "builtins.")  # packages whose versions are part of the fingerprint
# Tags of variables that say nothing about rewriting, or that follow from what is part of the key.
_SILENT_TAGS = frozenset(("trace", "test_value", "unique_value"))


class _Key:
    """Text that describes a function, in the making."""

    def __init__(self):
        self.parts = []
        self._known = {}  # id of an Op or type -> its text
        self._alive = []  # so that ids stay theirs

    def add(self, *values):
        for value in values:
            self.parts.append(self.text(value))

    def digest(self):
        return blake2b("\0".join(self.parts).encode("utf-8", "surrogatepass")).hexdigest()

    def text(self, value, depth=0):
        """A text that equals another's just when the values are equal, in any process."""
        cls = type(value)
        if cls in _PLAIN_CLASSES:
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
        if isinstance(value, _PLAIN):
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
                raise Uncacheable(value)  # state that the name does not tell
            return "function:" + self._home(value)
        if isinstance(value, Variable):
            raise Uncacheable(value)
        return self._instance(value, depth)

    def _instance(self, value, depth):
        """An Op, a type, a scalar op's rule for its output types ...: its class and its properties or state."""
        cls = type(value)
        if hasattr(cls, "describe_for_cache"):
            return "%s{%s}" % (self._home(cls), value.describe_for_cache(self, depth))
        props = getattr(cls, "__props__", None)
        if props is not None:
            # Neither an Op's name nor its threads are properties, but the one is printed, and who asks for the others gets them.
            beside = getattr(value, "__dict__", {})
            state = [(name, getattr(value, name)) for name in props] + [beside.get("name"), bool(beside.get("openmp"))]
        elif hasattr(cls, "__getstate__") and cls.__getstate__ is not getattr(object, "__getstate__", None):
            state = value.__getstate__()
        else:
            state = getattr(value, "__dict__", None)
        return "%s{%s}" % (self._home(cls), self.text(state, depth))

    @staticmethod
    def _home(thing):
        """Where a class or function is defined; only what belongs to this package or below it can be part of a key."""
        name = "%s.%s" % (getattr(thing, "__module__", None), thing.__qualname__)
        if not (is_own(thing) or name.startswith(_BELOW)) or "<" in name:
            raise Uncacheable(thing)
        return name

    def inner_graph(self, inputs, outputs):
        """A text for a graph inside an Op. Entries hold such graphs as they are, so where their variables were made is part of it."""
        inner = _Key()
        inner._known, inner._alive = self._known, self._alive
        order = inner.graph(inputs, outputs)
        inner.parts.append(repr([getattr(variable.tag, "trace", None) for variable in order]))
        return blake2b("\0".join(inner.parts).encode("utf-8", "surrogatepass")).hexdigest()

    def graph(self, inputs, outputs):
        """Add all nodes that outputs depend on, inputs first.

        Returns
        -------
        list of Variable
            Every variable that was met, in the order of their numbers.
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
                    raise Uncacheable(variable)  # a missing input: compiling it says so
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
    """Raise Uncacheable when something that cannot be part of a key has influence on rewriting."""
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


_unwritten = {}  # path -> pickle of an entry that is about to be written


def _write(path, body):
    """Put an entry on the disk."""
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
        _unwritten.pop(path, None)


class CachedGraph:
    """The place of one function in the cache.

    Attributes
    ----------
    path : str
    order : list of Variable
        The variables of the graph before rewriting, by number.
    """

    def __init__(self, path, order, n_inputs, update_mapping):
        self.path = path
        self.order = order
        self.n_inputs = n_inputs
        self.update_mapping = update_mapping

    # -- reading

    def load(self):
        """The rewritten graph as a FunctionGraph, or None when there is no readable entry."""
        try:
            content = _unwritten.get(self.path)
            if content is None:
                with trust.open_file(self.path) as f:
                    content = f.read()
                parts = len(MAGIC), len(MAGIC) + DIGEST, len(MAGIC) + 2 * DIGEST
                head, fingerprint, digest = [content[i:j] for i, j in zip((0, *parts), parts)]
                content = content[parts[-1] :]
                if head != MAGIC or fingerprint != package_fingerprint() or digest != blake2b(content).digest():
                    return None
            return self._build(*pickle.loads(content))
        except Exception:  # whatever is wrong with an entry: the graph is rewritten again
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
        """Store a rewritten graph, in a moment; what cannot be stored is not, silently."""
        try:
            body = pickle.dumps(self._record(fgraph), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # an Op or constant that cannot be pickled
            return
        _unwritten[self.path] = body
        try:
            later(functools.partial(_write, self.path, body))
        except BaseException:  # only `_write` would remove it
            _unwritten.pop(self.path, None)
            raise

    def _record(self, fgraph):
        # Trace -> number of the variable before rewriting that has it. Rewrites hand the very objects on.
        sources = {
            id(trace): i
            for i, variable in reversed(list(enumerate(self.order)))
            for trace in getattr(variable.tag, "trace", ())
        }
        ops, op_numbers, types, type_numbers = [], {}, [], {}

        def index(table, numbers, value):
            key = value, getattr(value, "name", None)  # equal Ops and types can have different names
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
    """Add all that decides the result of rewriting beside the graph and what may be done with its inputs and outputs."""
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
    """A text that two graphs inside Ops have in common when they are rewritten to the same, and their variables were made on the same lines.

    Parameters
    ----------
    mode : Mode
    inner_graph : InnerGraph
    features : list
        Of `std_fgraph`.

    Returns
    -------
    str or None
        None where that cannot be told.
    """
    key = _Key()
    try:
        _add_rewriting(key, mode, features)
        key.add(inner_graph)
    except Exception:  # as in `find`
        return None
    return key.digest()


def find(mode, inputs, outputs, accept_inplace, features):
    """Where a function's rewritten graph is or would be.

    Parameters
    ----------
    mode : Mode
    inputs : list of SymbolicInput
    outputs : list of SymbolicOutput
    accept_inplace : bool
    features : list
        Of `std_fgraph`.

    Returns
    -------
    CachedGraph or None
        None when the function cannot be cached.
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
    except Exception:  # Uncacheable, or properties that cannot be read: compiling says what is wrong
        return None
    folder = trust.directory(os.path.join(config.compiledir, "graphs"))
    return CachedGraph(os.path.join(folder, key.digest()), order, len(inputs), mapping)
