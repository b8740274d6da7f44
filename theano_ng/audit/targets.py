"""What is audited: the node that a case makes, for the input types of its examples and for others that the Op accepts."""

import inspect
import os

import numpy as np

from theano_ng import tensor
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.op import PureOp, has_c_implementation, has_perform
from theano_ng.gof.type import PureType

#: How many different tuples of input types C code is built for.
MAX_SIGNATURES = 12

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
        The example; None when there is only a type.
    fixed : Constant or None
        What is given to the Op as it is, and not varied.
    tensor, sparse : bool
        Whether values are arrays, or sparse matrices.
    varied : bool
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
            self.type = entry().type  # tensor.dmatrix and the like
        else:
            self.type, self.value = _typed(entry, index)
        if self.value is not None:
            self.value = self.type.filter(self.value, allow_downcast=True)
        self.tensor = isinstance(self.type, tensor.TensorType)
        # SciPy's matrices, which are varied as arrays are: their elements, shapes and dtypes.
        self.sparse = hasattr(self.type, "format_cls") and self.value is not None
        self.varied = (self.tensor or self.sparse) and self.fixed is None
        if self.value is None and self.fixed is None and not self.tensor and not hasattr(self.type, "dtype"):
            raise ValueError(
                "input %d is of %s, for which values cannot be made up: give a pair (type, example value)"
                % (index, self.type)
            )

    @property
    def shape(self):
        """The example's shape; that of a mere type has length 3 where it does not broadcast."""
        if self.value is not None:
            return self.value.shape
        return tuple(1 if one else 3 for one in self.type.broadcastable)


def _typed(value, index):
    """Type and value of an example."""
    if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex, list)):
        try:
            array = np.asarray(value)
            return tensor.TensorType(str(array.dtype.newbyteorder("=")), [n == 1 for n in array.shape]), array
        except TypeError:
            pass  # no numbers
    from theano_ng.compile import shared  # its constructors know the types of other values

    try:
        return shared(value).type, value
    except TypeError:
        raise TypeError(
            "input %d: no Type is known for the example %r; give a pair (type, value)" % (index, value)
        ) from None


class Built:
    """The node that the Op makes of inputs of certain types.

    Attributes
    ----------
    index : int
        Which of the signatures of the target.
    types : tuple of Type
        One for each slot.
    node : Apply
        The node under audit; each of its inputs is a variable without owner, or a constant.
    made : Apply
        The node as make_node gave it, whose inputs the callable may have computed. What make_node sees of them, such as the values that
        they are known to have, may be in the types of its outputs.
    variables : list of Variable
        Its inputs that are not constant, each once.
    """

    def __init__(self, target, types):
        self.index, self.types = 0, tuple(types)
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
            raise TypeError("%s made %r, which is not the output of a node" % (target.case.name, outputs))
        self.given, node = given, first.owner
        self.made, self._prepare = node, None
        free = [v for v in node.inputs if not isinstance(v, Constant)]
        if not all(v in given for v in free):
            # The callable computes inputs of the node; they are computed in Python and taken as its inputs.
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
        """The values of `variables`, from those of the slots."""
        if self._before is None:
            by_variable = dict(zip(self.given, values))
            return [by_variable[v] for v in self.variables]
        if self._prepare is None:
            from theano_ng.compile import Mode, function  # compile time

            inputs = [v for v in self.given if not isinstance(v, Constant)]
            self._prepare = function(inputs, self._before, mode=Mode("py", None), on_unused_input="ignore")
        return self._prepare(*[v for v, g in zip(values, self.given) if not isinstance(g, Constant)])

    def __str__(self):
        return ", ".join(str(t) for t in self.types)


class Target:
    """The Op of a case, and the nodes it makes.

    Parameters
    ----------
    case : Case
    seed : int

    Attributes
    ----------
    slots : list of Slot
    built : list of Built
        For the types of the examples first; then for others that make_node accepts, at most `MAX_SIGNATURES`.

    Raises
    ------
    ValueError
        When the examples themselves are refused.
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
            raise ValueError(
                "%s refuses the example inputs (%s): %s: %s"
                % (case.name, ", ".join(map(str, base)), type(failure).__name__, failure)
            ) from failure
        self.op = self.base.op
        self.op_text = _text(self.op)
        self.built = [self.base]
        seen = [self.base.types]  # a Type that has no hash is for check_types to find
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
                continue  # refused: what matters is what is accepted
            if type(built.op) is not type(self.op):
                continue  # a callable that uses another Op for these types
            built.index = len(self.built)
            self.built.append(built)

    @property
    def has_c(self):
        return has_c_implementation(self.op)

    @property
    def has_perform(self):
        return has_perform(self.op)

    def varies(self, what):
        """Whether the case wants something varied: one of `generate.VARIATIONS`."""
        return self.case.vary is None or what in self.case.vary

    def location(self, method):
        """``file:line`` of a method of the Op; "" where it has none."""
        return location_of(self.op, method)

    # -- variations of the types ---------------------------------------------------------------------------------

    def _variations(self, base):
        """Tuples of input types, the most telling first: kinds of variation take turns."""
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
        """The types with `change(type)` in place of each varied one (of those chosen)."""
        return [
            change(t) if slot.varied and (chosen is None or i in chosen) else t
            for i, (slot, t) in enumerate(zip(self.slots, base))
        ]

    def _arrays(self):
        """Indices of the varied slots whose types have broadcastable dimensions."""
        return [i for i, slot in enumerate(self.slots) if slot.varied and slot.tensor]

    def _groups(self, base):
        """Indices of the varied slots, by dtype."""
        groups = {}
        for i, (slot, t) in enumerate(zip(self.slots, base)):
            if slot.varied:
                groups.setdefault(t.dtype, []).append(i)
        return groups

    def _together(self, base):
        """All inputs that share a dtype get another: first those of floating point, which are what most Ops are about."""
        groups = sorted(self._groups(base).items(), key=lambda item: item[0] not in _FLOATS)
        for dtype in _DTYPES:
            for _, members in groups:
                yield self._change(base, lambda t: _in_dtype(t, dtype), members)

    def _apart(self, base):
        """One input gets another dtype."""
        many = [i for members in self._groups(base).values() if len(members) > 1 for i in members]
        for dtype in ("float32", "int8", "float64", "complex128"):
            for i in many:
                yield self._change(base, lambda t: _in_dtype(t, dtype), [i])

    def _patterns(self, base):
        """Dimensions declared to broadcast, or not."""
        arrays = self._arrays()
        yield self._change(base, lambda t: t.clone(broadcastable=(False,) * t.ndim), arrays)
        ranked = [i for i in arrays if base[i].ndim]
        for i in ranked:
            yield self._change(base, lambda t: t.clone(broadcastable=(True,) + t.broadcastable[1:]), [i])
        yield self._change(base, lambda t: t.clone(broadcastable=(True,) * t.ndim), arrays)
        for i in ranked:
            yield self._change(base, lambda t: t.clone(broadcastable=t.broadcastable[:-1] + (True,)), [i])

    def _ranks(self, base):
        """One dimension more, one less, none; of all inputs that have any, or of one."""
        arrays = self._arrays()
        ranked = [i for i in arrays if base[i].ndim]
        yield self._change(base, lambda t: t.clone(broadcastable=()), arrays)
        yield self._change(base, lambda t: t.clone(broadcastable=(False,) + t.broadcastable), ranked)
        yield self._change(base, lambda t: t.clone(broadcastable=t.broadcastable[1:]), ranked)
        for i in ranked if len(ranked) > 1 else ():
            yield self._change(base, lambda t: t.clone(broadcastable=(False,) + t.broadcastable), [i])
            yield self._change(base, lambda t: t.clone(broadcastable=t.broadcastable[1:]), [i])


def _in_dtype(t, dtype):
    """A type with another dtype; itself when there is none (no sparse matrices of float16)."""
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
    """The inputs of a node that it overwrites, as far as its destroy_map makes sense: `check_maps` tells when it does not."""
    table = getattr(node.op, "destroy_map", None)
    places = (
        [i for entry in table.values() if isinstance(entry, (list, tuple)) for i in entry]
        if isinstance(table, dict)
        else []
    )
    return {node.inputs[i] for i in places if isinstance(i, (int, np.integer)) and 0 <= i < len(node.inputs)}


# What a scalar Op may call what the Op around it (Elemwise, CAReduce) has under a method's name; the first that it defines counts.
_OF_SCALAR_OP = {
    "perform": ("impl",),
    "c_code": ("c_expression", "c_code"),
    "grad": ("gradient", "L_op", "grad"),
    "L_op": ("gradient", "L_op", "grad"),
    "R_op": ("R_op", "gradient", "L_op", "grad"),
    "c_code_cache_version": ("c_code_cache_version",),
}
_BASES = ("theano_ng.scalar.op", "theano_ng.gof.op")


def location_of(op, method):
    """``file:line`` where a method of an Op is defined; "" where that cannot be known.

    An Op that applies a `scalar_op` to the elements of tensors is the same for all of them. What counts is the method of the scalar Op, or
    its class where it leaves the method to a base class.
    """
    if method in _OF_SCALAR_OP and isinstance(getattr(op, "scalar_op", None), PureOp):
        return _location_in_scalar_op(op.scalar_op, _OF_SCALAR_OP[method]) or _location(op, method)
    return _location(op, method)


def _location_in_scalar_op(op, names):
    for name in names:
        owner = next((cls for cls in type(op).__mro__ if name in vars(cls)), None)
        if name in vars(op) or owner is not None and owner.__module__ not in _BASES:
            return _location(op, name)
    try:
        return _place(inspect.getsourcefile(type(op)), inspect.getsourcelines(type(op))[1])
    except (OSError, TypeError):  # no source
        return ""


def _location(op, method):
    if method == "c_code" and hasattr(op, "native_code"):
        method = "native_code"
    found = vars(op).get(method) if hasattr(op, "__dict__") else None
    found = found if found is not None else getattr(type(op), method, None)
    if method == "c_code" and getattr(op, "func_files", None):
        return "%s:1" % op.func_files[0]
    try:
        found = inspect.unwrap(found)
        code = getattr(getattr(found, "__func__", found), "__code__")
    except (AttributeError, TypeError, ValueError):
        return ""
    return _place(code.co_filename, code.co_firstlineno)


def _place(file, line):
    return "%s:%d" % (os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file, line)
