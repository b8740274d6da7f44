"""Variables and Ops of typed lists.

The result of an Op is a new list with copies of the elements, so that later changes to the result do not affect the
inputs. An in-place Op changes its input list, but still copies the elements that it inserts. Only `GetItem` returns the
elements themselves, as a view.
"""

import operator

import numpy as np

from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import SliceType, make_slice
from theano_ng.typed_list.type import TypedListType, copied

__all__ = [
    "Append",
    "Apply",
    "Constant",
    "Count",
    "Extend",
    "GetItem",
    "Index",
    "Insert",
    "Length",
    "MakeList",
    "Op",
    "Remove",
    "Reverse",
    "SliceType",
    "TypedListConstant",
    "TypedListType",
    "TypedListVariable",
    "Variable",
    "append",
    "count",
    "extend",
    "getitem",
    "index_",
    "insert",
    "length",
    "make_list",
    "remove",
    "reverse",
]


class _typed_list_py_operators:
    """A mixin with the operators and methods of variables whose values are lists."""

    def __getitem__(self, index):
        """Return an element or a sublist; see `getitem`."""
        return getitem(self, index)

    def __len__(self):
        """Return the symbolic length.

        Python's ``len`` does not accept a symbolic length, because it requires an int. Use ``length(x)`` instead.
        """
        return length(self)

    def __bool__(self):
        raise TypeError(
            "The truth value of a typed list is unknown when the graph is built; use typed_list.length(x) in the graph."
        )

    def __iter__(self):
        raise TypeError(
            "A typed list cannot be iterated over when the graph is built, because its length is unknown. Use scan "
            "over arange(length(x), dtype='int64') with the list among the non_sequences."
        )

    def append(self, toAppend):
        """Return a list with an additional element at the end; see `append`."""
        return append(self, toAppend)

    def insert(self, index, toInsert):
        """Return a list with an additional element before the element at `index`; see `insert`."""
        return insert(self, index, toInsert)

    def extend(self, toAppend):
        """Return this list followed by the elements of another list; see `extend`."""
        return extend(self, toAppend)

    def count(self, elem):
        """Return the number of elements that equal `elem`; see `count`."""
        return count(self, elem)

    # This method cannot be called `index`: that attribute of a variable is its position among the outputs of its node.
    def ind(self, elem):
        """Return the position of the first element that equals `elem`; see `index_`."""
        return index_(self, elem)

    def reverse(self):
        """Return a list with the elements in reverse order; see `reverse`."""
        return reverse(self)

    def remove(self, toRemove):
        """Return a list without the first element that equals `toRemove`; see `remove`."""
        return remove(self, toRemove)

    ttype = property(lambda self: self.type.ttype, doc="The Type of the elements.")


class TypedListVariable(_typed_list_py_operators, Variable):
    """A variable whose value is a list. It can be indexed, and its list methods return new lists.

    Parameters
    ----------
    type : TypedListType
    owner : Apply, optional
    index : int, optional
    name : str, optional
    """


class TypedListConstant(_typed_list_py_operators, Constant):
    """A constant list. The data are copied.

    Parameters
    ----------
    type : TypedListType
    data : list
    name : str, optional
    """

    def __init__(self, type, data, name=None):
        Constant.__init__(self, type, copied(type.filter(data)), name)

    def _signature(self, of_element):
        def signature(type_, value):
            if isinstance(type_, TypedListType):
                return (type_, tuple([signature(type_.ttype, element) for element in value]))
            return getattr(type_.make_constant(value), of_element)()

        return signature(self.type, self.data)

    def signature(self):
        """Return a key that equal constants share: the type and the signatures of the elements."""
        return self._signature("signature")

    def merge_signature(self):
        """Return a key that mergeable constants share: the type and the merge signatures of the elements."""
        return self._signature("merge_signature")


TypedListType.Variable = TypedListVariable
TypedListType.Constant = TypedListConstant

_NO_GRADIENT = (
    "Gradients are defined for tensors, not for lists of them. Pad the elements to one tensor, or differentiate before the list"
    " is made."
)


class _ListOp(NativeOp, Op):
    """A base class of Ops on lists.

    `native_name` is the name of the C function in tensor/native/arrays/typed_lists.c. `compares` is True if the Op
    compares elements. The C function can compare only arrays, so such an Op runs in Python if the elements are not
    arrays. `counts` is True if the result is an integer. An integer result is disconnected from the inputs. The
    gradient of other results with respect to lists and elements is undefined.
    """

    native_name = None
    compares = counts = False
    # The positions of inputs that are neither lists nor elements.
    indices = ()

    def native_code(self, node):
        if self.compares and not isinstance(node.inputs[0].type._innermost(), TensorType):
            return None
        return NativeCode("theano_ng.tensor.native.typed_lists:" + self.native_name, **self._packed_params())

    def _packed_params(self):
        """Return the parameters of the C code."""
        return {}

    def connection_pattern(self, node):
        return [[not self.counts and i not in self.indices] for i in range(len(node.inputs))]

    def grad(self, inputs, output_grads):
        """Return undefined gradients for lists and elements, and disconnected gradients for positions.

        If the result is an integer (`counts`), all gradients are disconnected.
        """
        return [
            DisconnectedType()() if self.counts or i in self.indices else grad_undefined(self, i, x, _NO_GRADIENT)
            for i, x in enumerate(inputs)
        ]

    def infer_shape(self, node, shapes):
        return [() if self.counts else None]

    def R_op(self, inputs, eval_points):
        if self.counts or all(point is None for point in eval_points):
            return [None]
        raise TypeError("%s has no R_op. %s" % (self, _NO_GRADIENT))

    def _list(self, x, what="x"):
        """Check that an argument is a typed list variable, and return it."""
        if not isinstance(x, Variable) or not isinstance(x.type, TypedListType):
            raise TypeError(
                "%s: %s must be a typed list (a variable of a TypedListType), got %s"
                % (type(self).__name__, what, _described(x))
            )
        return x

    def _element(self, x, value, what):
        """Convert `value` to a variable with the type of the list's elements."""
        try:
            return x.type.ttype.filter_variable(value)
        except (TypeError, ValueError) as failure:
            raise TypeError(
                "%s: %s must have the type of the list's elements, %s, got %s"
                % (type(self).__name__, what, x.type.ttype, _described(value))
            ) from failure

    def _position(self, index):
        """Convert `index` to an integer scalar variable."""
        try:
            variable = as_tensor_variable(index)
        except (TypeError, ValueError):
            variable = None
        if variable is None or variable.ndim != 0 or not variable.dtype.startswith(("int", "uint")):
            raise TypeError(
                "%s: the position must be an integer scalar%s, got %s"
                % (type(self).__name__, " or a slice" if isinstance(self, GetItem) else "", _described(index))
            )
        return variable


class _InplaceListOp(_ListOp):
    """A base class of Ops that return a changed copy of a list, or change the list itself if `inplace` is True."""

    __props__ = ("inplace",)

    def __init__(self, inplace=False):
        self.inplace = inplace
        if inplace:
            # The result is the input list itself. Inserted elements are copied.
            self.destroy_map = {0: [0]}

    def _packed_params(self):
        return dict(in_place=bool(self.inplace))

    def __str__(self):
        return type(self).__name__ + ("{inplace}" if self.inplace else "")

    def _copy_unless_inplace(self, x):
        return x if self.inplace else copied(x)


def _described(x):
    if isinstance(x, Variable):
        return "%s of type %s" % (x, x.type)
    text = " ".join(repr(x).split())
    return "%s of type %s" % (text if len(text) <= 60 else text[:57] + "...", type(x).__name__)


def _counted(op, inputs):
    return Apply(op, inputs, [TensorType("int64", ())()])


def _int64(number):
    return np.asarray(number, dtype="int64")


class GetItem(_ListOp):
    """The Op of ``getitem(x, index)``: the element at an index, or the list of the elements that a slice selects.

    Parameters
    ----------
    x : typed list
    index : integer scalar or slice
        A symbolic or Python index. Negative integers count from the end. The fields of a slice may be symbolic.

    Returns
    -------
    Variable
        A variable with the type of the elements. For a slice, a typed list. Elements are not copied.

    Raises
    ------
    TypeError
        If `x` is not a typed list, or `index` is neither an integer nor a slice.
    IndexError
        At run time, when the index is out of range.
    """

    __props__ = ()
    view_map = {0: [0]}
    native_name = "getitem"
    indices = (1,)

    def make_node(self, x, index):
        self._list(x)
        if isinstance(index, slice):
            fields = (index.start, index.stop, index.step)
            if any(isinstance(field, Variable) for field in fields):
                index = make_slice(index)
            else:
                index = SliceType.Constant(
                    SliceType(), slice(*[None if field is None else self._number(field) for field in fields])
                )
        if isinstance(index, Variable) and isinstance(index.type, SliceType):
            return Apply(self, [x, index], [x.type()])
        return Apply(self, [x, self._position(index)], [x.type.ttype()])

    @staticmethod
    def _number(field):
        try:
            return operator.index(field)
        except TypeError:
            raise TypeError(
                "GetItem: the fields of a slice must be integers or None, got %s" % _described(field)
            ) from None

    def perform(self, node, inputs, outputs):
        x, index = inputs
        if isinstance(index, slice):
            outputs[0][0] = x[index]
            return
        index = int(index)
        if not -len(x) <= index < len(x):
            raise IndexError("typed list index out of range: index %d of a list of %d elements" % (index, len(x)))
        outputs[0][0] = x[index]

    def __str__(self):
        return type(self).__name__


getitem = GetItem()


class Append(_InplaceListOp):
    """The Op of ``append(x, toAppend)``: the list with an additional element at the end.

    Parameters
    ----------
    x : typed list
    toAppend : variable or value of the type of the elements

    Raises
    ------
    TypeError
        For an element of another type.
    """

    native_name = "append"

    def make_node(self, x, toAppend):
        self._list(x)
        return Apply(self, [x, self._element(x, toAppend, "toAppend")], [x.type()])

    def perform(self, node, inputs, outputs):
        x, value = inputs
        value = copied(value)
        made = self._copy_unless_inplace(x)
        made.append(value)
        outputs[0][0] = made


append = Append()


class Extend(_InplaceListOp):
    """The Op of ``extend(x, toAppend)``: the list followed by all elements of another list.

    Parameters
    ----------
    x : typed list
    toAppend : typed list of the same type

    Raises
    ------
    TypeError
        For a list of another type.
    """

    native_name = "extend"

    def make_node(self, x, toAppend):
        self._list(x)
        self._list(toAppend, "toAppend")
        if toAppend.type != x.type:
            raise TypeError(
                "Extend: both lists must have the same type; x has type %s, toAppend is %s"
                % (x.type, _described(toAppend))
            )
        return Apply(self, [x, toAppend], [x.type()])

    def perform(self, node, inputs, outputs):
        x, tail = inputs
        tail = copied(tail)
        made = self._copy_unless_inplace(x)
        made.extend(tail)
        outputs[0][0] = made


extend = Extend()


class Insert(_InplaceListOp):
    """The Op of ``insert(x, index, toInsert)``: the list with an additional element before an index.

    Parameters
    ----------
    x : typed list
    index : integer scalar
        The index. As in Python, an index before the start or after the end of the list means the start or the end.
    toInsert : variable or value of the type of the elements

    Raises
    ------
    TypeError
        For an element of another type, or an index that is not an integer.
    """

    native_name = "insert"
    indices = (1,)

    def make_node(self, x, index, toInsert):
        self._list(x)
        return Apply(self, [x, self._position(index), self._element(x, toInsert, "toInsert")], [x.type()])

    def perform(self, node, inputs, outputs):
        x, index, value = inputs
        value = copied(value)
        made = self._copy_unless_inplace(x)
        made.insert(min(max(int(index), -len(x)), len(x)), value)
        outputs[0][0] = made


insert = Insert()


class Remove(_InplaceListOp):
    """The Op of ``remove(x, toRemove)``: the list without the first element that equals a value.

    Parameters
    ----------
    x : typed list
    toRemove : variable or value of the type of the elements

    Raises
    ------
    TypeError
        For a value of another type.
    ValueError
        At run time, when no element equals the value. An in-place Op leaves the list unchanged then.

    Notes
    -----
    Python's own ``remove`` fails for lists of arrays. Here two arrays are equal if all of their elements are equal. NaN
    equals NaN.
    """

    native_name = "remove"
    compares = True

    def make_node(self, x, toRemove):
        self._list(x)
        return Apply(self, [x, self._element(x, toRemove, "toRemove")], [x.type()])

    def perform(self, node, inputs, outputs):
        x, value = inputs
        at = _find(node, x, value, "remove")
        made = self._copy_unless_inplace(x)
        del made[at]
        outputs[0][0] = made


remove = Remove()


class Reverse(_InplaceListOp):
    """The Op of ``reverse(x)``: the list in reverse order.

    Parameters
    ----------
    x : typed list
    """

    native_name = "reverse"

    def make_node(self, x):
        return Apply(self, [self._list(x)], [x.type()])

    def perform(self, node, inp, outputs):
        made = self._copy_unless_inplace(inp[0])
        made.reverse()
        outputs[0][0] = made


reverse = Reverse()


def _equal(node):
    return node.inputs[0].type.ttype.values_eq


def _find(node, x, value, what):
    equal = _equal(node)
    for i, element in enumerate(x):
        if equal(element, value):
            return i
    raise ValueError("%s: no element of the typed list (of %d elements) equals the value" % (what, len(x)))


class Index(_ListOp):
    """The Op of ``index_(x, elem)``: the position of the first element that equals a value, an int64 scalar.

    Parameters
    ----------
    x : typed list
    elem : variable or value of the type of the elements

    Raises
    ------
    TypeError
        For a value of another type.
    ValueError
        At run time, when no element equals the value.
    """

    __props__ = ()
    native_name = "index"
    compares = counts = True

    def make_node(self, x, elem):
        self._list(x)
        return _counted(self, [x, self._element(x, elem, "elem")])

    def perform(self, node, inputs, outputs):
        x, value = inputs
        outputs[0][0] = _int64(_find(node, x, value, "index"))

    def __str__(self):
        return type(self).__name__


index_ = Index()


class Count(_ListOp):
    """The Op of ``count(x, elem)``: the number of elements that equal a value, an int64 scalar.

    Parameters
    ----------
    x : typed list
    elem : variable or value of the type of the elements

    Raises
    ------
    TypeError
        For a value of another type.

    Notes
    -----
    Python's own ``count`` fails for lists of arrays. Here two arrays are equal if all of their elements are equal. NaN
    equals NaN.
    """

    __props__ = ()
    native_name = "count"
    compares = counts = True

    def make_node(self, x, elem):
        self._list(x)
        return _counted(self, [x, self._element(x, elem, "elem")])

    def perform(self, node, inputs, outputs):
        x, value = inputs
        equal = _equal(node)
        outputs[0][0] = _int64(sum(bool(equal(element, value)) for element in x))

    def __str__(self):
        return type(self).__name__


count = Count()


class Length(_ListOp):
    """The Op of ``length(x)``: the number of elements, an int64 scalar.

    Parameters
    ----------
    x : typed list
    """

    __props__ = ()
    native_name = "length"
    counts = True

    def make_node(self, x):
        return _counted(self, [self._list(x)])

    def perform(self, node, x, outputs):
        outputs[0][0] = _int64(len(x[0]))

    def __str__(self):
        return type(self).__name__


length = Length()


class MakeList(_ListOp):
    """The Op of ``make_list(a)``: a typed list of some variables.

    Parameters
    ----------
    a : tuple or list
        At least one element. All variables must have the same type. Values become constants. If `a` contains
        variables, the constants get the type of the variables. Instead of `a`, the elements can be passed as separate
        arguments. `Apply.clone_with_new_inputs` calls `make_node` in this way.

    Raises
    ------
    TypeError
        If `a` is empty, or has elements of different types.
    """

    __props__ = ()
    native_name = "make_list"

    def make_node(self, a, *more):
        if more or isinstance(a, Variable):
            a = (a, *more)
        if not isinstance(a, (tuple, list)):
            raise TypeError("MakeList: expected a tuple or list of variables, got %s" % _described(a))
        if not a:
            raise TypeError(
                "MakeList: the type of the elements of an empty list is unknown. Make a constant: "
                "TypedListType(ttype).make_constant([])"
            )
        # Values are converted to the type of the variables.
        ttype = next((x.type for x in a if isinstance(x, Variable)), None)
        elements = [
            x if isinstance(x, Variable) else as_tensor_variable(x) if ttype is None else ttype.filter_variable(x)
            for x in a
        ]
        for i, x in enumerate(elements):
            if x.type != elements[0].type:
                raise TypeError(
                    "MakeList: all elements must have the same type. Element 0 is %s, element %d is %s"
                    % (_described(elements[0]), i, _described(x))
                )
        return Apply(self, elements, [TypedListType(elements[0].type)()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = [copied(value) for value in inputs]

    def __str__(self):
        return type(self).__name__


make_list = MakeList()
