"""The class TypedListType: the Type of lists whose elements have one Type."""

import copy

import numpy as np

from theano_ng.compile import ops
from theano_ng.gof.native import NativeCode, register_native_code
from theano_ng.gof.type import Type

__all__ = ["TypedListType", "copied"]


class TypedListType(Type):
    """The type of Python lists all of whose elements have one Type.

    Parameters
    ----------
    ttype : Type
        The Type of the elements, which may be a TypedListType.
    depth : int
        The number of additional levels of lists. 0: lists of `ttype`, 1: lists of lists of `ttype`, and so on.

    Raises
    ------
    TypeError
        If `ttype` is not a Type.
    ValueError
        If `depth` is negative or not an integer.

    Attributes
    ----------
    ttype : Type
        The Type of the elements. It is a TypedListType if `depth` is positive.

    Examples
    --------
    >>> from theano_ng import tensor
    >>> from theano_ng.typed_list import TypedListType
    >>> TypedListType(tensor.fvector, 1) == TypedListType(TypedListType(tensor.fvector))
    True
    """

    def __init__(self, ttype, depth=0):
        if not isinstance(depth, int) or depth < 0:
            raise ValueError("TypedListType: depth must be the number of enclosing lists, 0 or more, not %r" % (depth,))
        if not isinstance(ttype, Type):
            raise TypeError(
                "TypedListType: expected the Type of the elements, such as tensor.fvector, got %r of type %s"
                % (ttype, type(ttype).__name__)
            )
        for _ in range(depth):
            ttype = TypedListType(ttype)
        self.ttype = ttype

    def get_depth(self):
        """Return the number of levels of lists around the innermost lists: 0 for a list of tensors."""
        depth, inner = 0, self.ttype
        while isinstance(inner, TypedListType):
            depth, inner = depth + 1, inner.ttype
        return depth

    def _innermost(self):
        inner = self.ttype
        while isinstance(inner, TypedListType):
            inner = inner.ttype
        return inner

    def __eq__(self, other):
        if not isinstance(other, TypedListType):
            return NotImplemented
        return (
            type(self) is type(other)
            and self.get_depth() == other.get_depth()
            and self._innermost() == other._innermost()
        )

    def __hash__(self):
        return hash(("TypedListType", self.get_depth(), self._innermost()))

    def __str__(self):
        return "TypedList <%s>" % (self.ttype,)

    def __repr__(self):
        return "TypedListType(%r)" % (self.ttype,)

    def filter(self, x, strict=False, allow_downcast=None):
        """Convert a value to a list whose elements are valid values of `ttype`.

        Parameters
        ----------
        x : list, tuple or ndarray
            The value. The elements of an array are its parts along the first axis.
        strict : bool
            If True, `x` must be a list of valid values, and is returned itself.
        allow_downcast : bool, optional
            The argument `allow_downcast` of `filter` for the elements.

        Returns
        -------
        list
            `x` itself if it is a list and no element has to be converted, otherwise a new list.

        Raises
        ------
        TypeError
            If `x` is not a sequence, or an element cannot be converted. The message names the element.
        """
        if not isinstance(x, list if strict else (list, tuple, np.ndarray)) or (
            isinstance(x, np.ndarray) and x.ndim == 0
        ):
            raise TypeError(
                "%s: expected a list of values of type %s, got %s of type %s"
                % (self, self.ttype, _short(x), type(x).__name__)
            )
        elements = []
        for i, element in enumerate(x):
            try:
                elements.append(self.ttype.filter(element, strict=strict, allow_downcast=allow_downcast))
            except (TypeError, ValueError) as failure:
                # In the new exception, this message replaces the first argument of the original exception.
                message = "%s: element %d is not a valid value of type %s: %s" % (
                    self,
                    i,
                    self.ttype,
                    failure.args[0] if failure.args else failure,
                )
                raise TypeError(message, *failure.args[1:]) from failure
        if type(x) is list and all(a is b for a, b in zip(x, elements)):
            return x
        return x if strict else elements

    def values_eq(self, a, b):
        """Return True if two lists have the same length and equal elements."""
        return len(a) == len(b) and all(self.ttype.values_eq(x, y) for x, y in zip(a, b))

    def values_eq_approx(self, a, b, **kwargs):
        """Return True if two lists have the same length and approximately equal elements.

        Keyword arguments are passed to the method of the elements' Type.
        """
        return len(a) == len(b) and all(self.ttype.values_eq_approx(x, y, **kwargs) for x, y in zip(a, b))

    def may_share_memory(self, a, b):
        """Return True if changing one value may change the other.

        This is the case if both values are the same list, or if an element of one value, at any level, shares memory
        with an element of the other value.
        """
        if a is b:
            return a is not None
        leaves = [_leaves(value) for value in (a, b)]
        inner = self._innermost()
        overlap = getattr(inner, "may_share_memory", _same_mutable)
        return any(overlap(x, y) for x in leaves[0] for y in leaves[1])

    # In C, a value is a `PyListObject *`, an owned reference. NULL means that there is no value.

    def c_declare(self, name, sub, check_input=True):
        return "PyListObject* %s;" % name

    def c_init(self, name, sub):
        return "%s = NULL;" % name

    def c_extract(self, name, sub, check_input=True):
        check = """
        if (!PyList_Check(py_%(name)s)) {
            PyErr_Format(PyExc_TypeError, "expected a list, not a value of type %%s", Py_TYPE(py_%(name)s)->tp_name);
            %(fail)s
        }
        """ % dict(name=name, fail=sub["fail"])
        take = """
        %(name)s = (PyListObject*)py_%(name)s;
        Py_INCREF(py_%(name)s);
        """ % dict(name=name)
        return "%s = NULL;\n%s%s" % (name, check if check_input else "", take)

    def c_cleanup(self, name, sub):
        return "Py_XDECREF((PyObject*)%s);" % name

    def c_sync(self, name, sub):
        return """
        Py_XDECREF(py_%(name)s);
        py_%(name)s = %(name)s ? (PyObject*)%(name)s : Py_None;
        Py_INCREF(py_%(name)s);
        """ % dict(name=name)

    def c_code_cache_version(self):
        return (1,)


def copied(value):
    """Return a deep copy of a value. Copies of arrays are C-contiguous.

    Parameters
    ----------
    value : list, ndarray or object
    """
    if isinstance(value, np.ndarray):
        return np.array(value, order="C", copy=True, subok=False)
    if type(value) is list:
        return [copied(element) for element in value]
    return copy.deepcopy(value)


def _same_mutable(x, y):
    # A shared immutable object, such as a number or a string, does no harm. Its deep copy is the object itself.
    return x is y and copy.deepcopy(x) is not x


def _leaves(value):
    """Return, in order, the elements of nested lists that are not lists themselves.

    Return ``[value]`` if `value` is not a list.
    """
    found, todo = [], [value]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo.extend(reversed(value))
        else:
            found.append(value)
    return found


def _short(value):
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _code(name):
    code = NativeCode("theano_ng.tensor.native.typed_lists:" + name)
    return lambda op, node: code


for _op_class, _name in ((ops.ViewOp, "view"), (ops.OutputGuard, "view"), (ops.DeepCopyOp, "deep_copy")):
    register_native_code(_op_class, TypedListType, _code(_name))
del _op_class, _name
