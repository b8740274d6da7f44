"""Targets of the audit: the nodes that a case makes, for the types of its examples and for other accepted types."""

import numpy as np

from theano_ng import tensor
from theano_ng.audit.code_constants import c_text_or_none, constants_of
from theano_ng.audit.neighbours import neighbours
from theano_ng.audit.problems import RefusedInputs
from theano_ng.audit.stacks import place_in, raised
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.op import Op, has_c_implementation, has_perform
from theano_ng.gof.places import location_of
from theano_ng.gof.type import PureType

#: The maximum number of nodes of a target. The nodes have different input types, and C code is built for each node.
MAX_SIGNATURES = 12

#: The maximum numbers of neighbours of the Op (see the module `neighbours`): of all, and of those with other C code, which
#: has to be compiled.
MAX_NEIGHBOURS, MAX_COMPILED_NEIGHBOURS = 16, 4

_FLOATS = ("float64", "float32", "float16")
_DTYPES = (
    "float64",
    "float32",
    "int64",
    "int8",
    "uint8",
    "float16",
    "complex128",
    "bool",
    "int32",
    "uint64",
    "int16",
    "uint16",
    "complex64",
    "uint32",
)


class Slot:
    """One input of a case.

    Attributes
    ----------
    type : Type
    value : object
        The example value, or None if only a type was given.
    fixed : Constant or None
        A constant that is passed to the Op unchanged and is not varied.
    tensor, sparse : bool
        Whether the values are arrays, or sparse matrices.
    varied : bool
        Whether the audit varies the values of an array or of a sparse matrix.
    varied_object : bool
        Whether the audit varies the items of a tuple, a list or a dict.
    """

    def __init__(self, entry, index):
        self.value = self.fixed = None
        if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], (PureType, Variable)):
            entry, self.value = entry
        if isinstance(entry, Constant):
            self.fixed, self.type = entry, entry.type
        elif isinstance(entry, Variable):
            self.type = entry.type
            if self.value is None:
                self.value = getattr(entry.tag, "test_value", None)
        elif isinstance(entry, PureType):
            self.type = entry
        elif callable(entry) and hasattr(entry, "__name__") and not isinstance(entry, type):
            self.type = entry().type  # a function that returns a variable, for instance tensor.matrix
        else:
            self.type, self.value = _typed(entry, index)
        if self.value is not None:
            self.value = self.type.filter(self.value, allow_downcast=True)
        self.tensor = isinstance(self.type, tensor.TensorType)
        # For SciPy's sparse matrices, elements, shapes and dtypes are varied, as for arrays.
        self.sparse = hasattr(self.type, "format_cls") and self.value is not None
        self.varied = (self.tensor or self.sparse) and self.fixed is None
        self.varied_object = self.fixed is None and isinstance(self.value, (tuple, list, dict))
        if self.value is None and self.fixed is None and not self.tensor and not hasattr(self.type, "dtype"):
            raise ValueError(
                "input %d is of %s, for which no values can be generated: give a pair (type, example value)"
                % (index, self.type)
            )

    @property
    def shape(self):
        """The shape of the example. Without an example, a dimension has length 3, or 1 if it is broadcastable."""
        if self.value is not None:
            return self.value.shape
        return tuple(1 if one else 3 for one in self.type.broadcastable)


def _typed(value, index):
    """Return the Type and the value of an example."""
    if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex, list)):
        try:
            array = np.asarray(value)
            return tensor.TensorType(str(array.dtype.newbyteorder("=")), [n == 1 for n in array.shape]), array
        except TypeError:
            pass  # the elements are not numbers
    from theano_ng.compile import shared  # `shared` chooses the Types of all other values

    try:
        return shared(value).type, value
    except TypeError:
        raise TypeError(
            "input %d: the example %r has no known Type; give a pair (type, value)" % (index, value)
        ) from None


class Built:
    """The node that the Op makes for inputs of certain types.

    Attributes
    ----------
    index : int
        Index in `Target.built`.
    types : tuple of Type
        The input types, one per slot.
    node : Apply
        The audited node. Each of its inputs is a variable without owner, or a constant.
    made : Apply
        The node that the case made. It differs from `node` if the callable of the case computes inputs of the node. In
        this case, make_node may have derived the output types from facts about these inputs, such as known values.
    variables : list of Variable
        The inputs of `node` that are not constant, each once.
    change : str
        For a neighbour of the Op: the constructor argument that differs, such as ``alpha=0.0 instead of 0.3``.
        Otherwise "".
    """

    def __init__(self, target, types, op=None, change=""):
        self.index, self.types, self.change = 0, tuple(types), change
        given = [
            slot.fixed
            if slot.fixed is not None
            else t.make_variable("x%d" % i)
            if not isinstance(t, tensor.TensorType)
            else t("x%d" % i)
            for i, (slot, t) in enumerate(zip(target.slots, types))
        ]
        outputs = target.case.op(*given)
        first = outputs[0] if isinstance(outputs, (list, tuple)) and outputs else outputs
        if not isinstance(first, Variable) or first.owner is None:
            raise TypeError("%s returned %r, which is not the output of a node" % (target.case.name, outputs))
        self.given, node = given, first.owner
        if op is not None:
            node = op.make_node(*node.inputs)
        self.made, self._prepare = node, None
        free = [v for v in node.inputs if not isinstance(v, Constant)]
        if not all(v in given for v in free):
            # The callable computes inputs of the node. Replace them by new variables; `values` computes their values in
            # Python.
            fresh = {v: v.type() for v in free}
            self._before = list(fresh)
            node = node.clone_with_new_inputs([fresh.get(v, v) for v in node.inputs])
        else:
            self._before = None
        self.node = node
        self.variables = list(dict.fromkeys(v for v in node.inputs if not isinstance(v, Constant)))

    @property
    def op(self):
        return self.node.op

    def values(self, values):
        """Return the values of `variables`, computed from the values of the slots."""
        if self._before is None:
            by_variable = dict(zip(self.given, values))
            return [by_variable[v] for v in self.variables]
        if self._prepare is None:
            from theano_ng.compile import Mode, function  # imported when needed, since the import is slow

            inputs = [v for v in self.given if not isinstance(v, Constant)]
            self._prepare = function(inputs, self._before, mode=Mode("py", None), on_unused_input="ignore")
        return self._prepare(*[v for v, g in zip(values, self.given) if not isinstance(g, Constant)])

    def __str__(self):
        return ", ".join(str(t) for t in self.types)


class Target:
    """The Op of a case, and the nodes that it makes.

    Parameters
    ----------
    case : Case
    seed : int

    Attributes
    ----------
    slots : list of Slot
    built : list of Built
        The nodes: first the node for the types of the examples, then nodes for other accepted types, at most
        `MAX_SIGNATURES`. The last nodes are those of neighbours of the Op, at most `MAX_NEIGHBOURS`.
    constants : code_constants.CodeConstants
        The numbers and texts in the code of the Op.

    Raises
    ------
    ValueError
        If the Op refuses the examples.
    """

    def __init__(self, case, seed=0):
        self.case, self.seed = case, seed
        entries = case.inputs
        if not entries and hasattr(case.op, "itypes"):
            entries = case.op.itypes
        self.slots = [Slot(entry, i) for i, entry in enumerate(entries)]
        base = [slot.type for slot in self.slots]
        try:
            self.base = Built(self, base)
        except Exception as failure:
            raise RefusedInputs(
                "%s refuses the example inputs (%s): %s"
                % (case.name, ", ".join(map(str, base)), raised(failure, case.op))
            ) from failure
        self.op = self.base.op
        self.op_text = _text(self.op)
        self.built = [self.base]
        seen = [self.base.types]  # not a set: a Type may have no hash. check_types reports such a Type
        for types in self._variations(base):
            types = tuple(types)
            if len(self.built) == MAX_SIGNATURES:
                break
            if types in seen:
                continue
            seen.append(types)
            try:
                built = Built(self, types)
            except Exception:
                continue  # the Op refuses these types
            if type(built.op) is not type(self.op):
                continue  # the callable uses another Op for these types
            built.index = len(self.built)
            self.built.append(built)
        self._twins, self._numbers = [], {}
        self.constants = constants_of(self.base.node)
        if self.varies("parameter"):
            self._add_neighbours()

    def _add_neighbours(self):
        """Append the nodes of neighbours of the Op to `built`."""
        count, codes = 0, {c_text_or_none(self.base.node)}
        for change, op in neighbours(self.op, self.constants):
            try:
                built = Built(self, self.base.types, op, change)
            except Exception:
                continue  # the Op refuses these inputs
            code = c_text_or_none(built.node)
            if code not in codes and len(codes) > MAX_COMPILED_NEIGHBOURS:
                continue
            codes.add(code)
            built.index = len(self.built)
            self.built.append(built)
            count += 1
            if count == MAX_NEIGHBOURS:
                return

    @property
    def neighbours(self):
        """The entries of `built` that are nodes of neighbours of the Op."""
        return [built for built in self.built if built.change]

    def special_numbers(self, built):
        """Return the numbers in the code of the Op and in the attributes of the Op of a node, without duplicates."""
        if built.index not in self._numbers:
            own = [v for op in (built.op, getattr(built.op, "scalar_op", None)) for v in _numbers_in(op)]
            self._numbers[built.index] = tuple(dict.fromkeys([0, *own, *self.constants.numbers]))
        return self._numbers[built.index]

    def in_float64(self, built):
        """Return the node of the same Op for inputs in float64 in place of float32 and float16. None if there is none."""
        types = tuple(
            _in_dtype(t, "float64") if getattr(t, "dtype", None) in ("float16", "float32") else t for t in built.types
        )
        known = next((b for b in self.built + self._twins if b.types == types and b.change == built.change), None)
        if known is not None:
            return known
        try:
            twin = Built(self, types, built.op if built.change else None, built.change)
        except Exception:
            return None  # the Op refuses these types
        twin.index = len(self.built) + len(self._twins)
        self._twins.append(twin)
        return twin

    @property
    def has_c(self):
        return has_c_implementation(self.op)

    @property
    def has_perform(self):
        return has_perform(self.op)

    @property
    def is_computable(self):
        """True if the Op has a method that computes its outputs."""
        make_thunk = getattr(type(self.op), "make_thunk", None)
        return self.has_c or self.has_perform or make_thunk is not Op.make_thunk or "make_thunk" in vars(self.op)

    def varies(self, what):
        """Return True if the case varies a property, one of `generate.VARIATIONS`."""
        return self.case.vary is None or what in self.case.vary

    def location(self, method):
        """Return ``file:line`` of a method of the Op, or "" if the Op lacks the method."""
        return location_of(self.op, method)

    def place_in(self, stack):
        """Return ``file:line`` of the call in a stack that is in the code of the Op. By default, that of its C code."""
        return place_in(stack, self.op) or self.location("c_code" if self.has_c else "perform")

    # -- variations of the types ---------------------------------------------------------------------------------

    def _variations(self, base):
        """Yield tuples of input types. The kinds of variation alternate, and the most promising types come first."""
        sources = []
        if self.varies("dtype"):
            sources += [self._together(base), self._apart(base)]
        if self.varies("broadcast"):
            sources.append(self._patterns(base))
        if self.varies("rank"):
            sources.append(self._ranks(base))
        while sources:
            for source in list(sources):
                types = next(source, None)
                if types is None:
                    sources.remove(source)
                else:
                    yield types

    def _change(self, base, change, chosen=None):
        """Return the types after `change(type)` for each varied slot. If `chosen` is given, change only these slots."""
        return [
            change(t) if slot.varied and (chosen is None or i in chosen) else t
            for i, (slot, t) in enumerate(zip(self.slots, base))
        ]

    def _arrays(self):
        """Return the indices of the varied slots whose types have a broadcast pattern."""
        return [i for i, slot in enumerate(self.slots) if slot.varied and slot.tensor]

    def _groups(self, base):
        """Return a dict from dtypes to the indices of their varied slots."""
        groups = {}
        for i, (slot, t) in enumerate(zip(self.slots, base)):
            if slot.varied:
                groups.setdefault(t.dtype, []).append(i)
        return groups

    def _together(self, base):
        """Yield types in which all inputs of one dtype get another dtype.

        Float inputs come first, because most Ops are for floats.
        """
        groups = sorted(self._groups(base).items(), key=lambda item: item[0] not in _FLOATS)
        for dtype in _DTYPES:
            for _, members in groups:
                yield self._change(base, lambda t: _in_dtype(t, dtype), members)

    def _apart(self, base):
        """Yield types in which one of several inputs with equal dtypes gets another dtype."""
        many = [i for members in self._groups(base).values() if len(members) > 1 for i in members]
        for dtype in ("float32", "int8", "float64", "complex128"):
            for i in many:
                yield self._change(base, lambda t: _in_dtype(t, dtype), [i])

    def _patterns(self, base):
        """Yield types whose broadcast patterns differ from the patterns of the base types."""
        arrays = self._arrays()
        yield self._change(base, lambda t: t.clone(broadcastable=(False,) * t.ndim), arrays)
        ranked = [i for i in arrays if base[i].ndim]
        for i in ranked:
            yield self._change(base, lambda t: t.clone(broadcastable=(True,) + t.broadcastable[1:]), [i])
        yield self._change(base, lambda t: t.clone(broadcastable=(True,) * t.ndim), arrays)
        for i in ranked:
            yield self._change(base, lambda t: t.clone(broadcastable=t.broadcastable[:-1] + (True,)), [i])

    def _ranks(self, base):
        """Yield types with one dimension more, one less, or no dimensions, for all inputs or for a single input."""
        arrays = self._arrays()
        ranked = [i for i in arrays if base[i].ndim]
        yield self._change(base, lambda t: t.clone(broadcastable=()), arrays)
        yield self._change(base, lambda t: t.clone(broadcastable=(False,) + t.broadcastable), ranked)
        yield self._change(base, lambda t: t.clone(broadcastable=t.broadcastable[1:]), ranked)
        for i in ranked if len(ranked) > 1 else ():
            yield self._change(base, lambda t: t.clone(broadcastable=(False,) + t.broadcastable), [i])
            yield self._change(base, lambda t: t.clone(broadcastable=t.broadcastable[1:]), [i])


def _numbers_in(op):
    """Return the finite numbers among the attributes of an Op."""
    return [
        value
        for value in getattr(op, "__dict__", {}).values()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    ]


def _in_dtype(t, dtype):
    """Return the type with another dtype, or the type itself if no such type exists (sparse float16 matrices)."""
    try:
        return t.clone(dtype=dtype)
    except NotImplementedError:
        return t


def _text(op):
    try:
        return str(op)
    except Exception:
        return object.__repr__(op)


def destroyed(node):
    """Return the inputs that a node overwrites, according to the valid entries of destroy_map.

    `check_maps` reports invalid entries.
    """
    table = getattr(node.op, "destroy_map", None)
    places = (
        [i for entry in table.values() if isinstance(entry, (list, tuple)) for i in entry]
        if isinstance(table, dict)
        else []
    )
    return {node.inputs[i] for i in places if isinstance(i, (int, np.integer)) and 0 <= i < len(node.inputs)}
