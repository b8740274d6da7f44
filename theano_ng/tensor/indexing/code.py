"""Hooks with which subclasses of IncSubtensor write to arrays that are not NumPy arrays, or change the write operation.

IncSubtensor itself has native code. If a subclass overrides a hook of `IncSubtensorHooks`, C code is compiled instead.
This code consists of the results of the hooks and of `index_code`, which computes the shape, strides and offset of the
indexed part.
"""

from theano_ng.gof.type import Type
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor.type import TensorType

HOOKS = (
    "do_type_checking",
    "decl_view",
    "copy_of_x",
    "get_helper_c_code_args",
    "helper_c_code",
    "make_view_array",
    "copy_into",
    "add_to_zview",
)

_SUPPORT = """
#ifndef THEANO_NG_CLIPPED_INDEX
#define THEANO_NG_CLIPPED_INDEX
// Convert an index of any C type. Values above the maximum length of a dimension are clipped.
template <typename T> static inline Py_ssize_t theano_ng_clipped_index(T index)
{
    if (index > 0 && (npy_uint64)index > (npy_uint64)PY_SSIZE_T_MAX)
        return PY_SSIZE_T_MAX;
    return (Py_ssize_t)index;
}
#endif
"""


def index_code(idx_list, x, indices, fail, c_prefix="PyArray", strides_mul=1):
    """Return C statements that compute the shape, strides and offset of the indexed part of an array.

    Parameters
    ----------
    idx_list : tuple
        The `idx_list` of `Subtensor`: a type for each index that is an input, None, and slices of types and None.
    x : str
        C name of the array.
    indices : sequence of str
        The C names of the index inputs, which are C integers.
    fail : str
        A C statement that is executed after an error.
    c_prefix : str
        ``<c_prefix>_DIMS(x)`` and ``<c_prefix>_STRIDES(x)`` are the shape and strides of the array.
    strides_mul : int
        The factor that converts the strides to bytes.

    Returns
    -------
    str
        C statements that set ``xview_dims``, ``xview_strides`` and ``xview_offset``. The caller must declare these
        variables.
    """
    remaining = iter(indices)
    lines = ["xview_offset = 0;"]
    dimension = 0

    def field(entry, default):
        if entry is None:
            return default
        return "theano_ng_clipped_index(%s)" % (next(remaining) if isinstance(entry, Type) else int(entry))

    for axis, entry in enumerate(idx_list):
        words = dict(
            axis=axis,
            dim=dimension,
            fail=fail,
            length="(Py_ssize_t)%s_DIMS(%s)[%d]" % (c_prefix, x, axis),
            stride="%s_STRIDES(%s)[%d] * %d" % (c_prefix, x, axis, strides_mul),
        )
        if isinstance(entry, slice):
            # Call `field` for start, stop and step in this order, because each call may use the next input.
            start, stop, step = (field(part, None) for part in (entry.start, entry.stop, entry.step))
            words.update(
                step=step or "1",
                start=start or "(step < 0 ? PY_SSIZE_T_MAX : 0)",
                stop=stop or "(step < 0 ? PY_SSIZE_T_MIN : PY_SSIZE_T_MAX)",
            )
            lines.append(
                """{
    Py_ssize_t step = %(step)s, start = %(start)s, stop = %(stop)s;
    if (step == 0) {
        PyErr_SetString(PyExc_ValueError, "slice step cannot be zero");
        %(fail)s
    }
    if (step < -PY_SSIZE_T_MAX)
        step = -PY_SSIZE_T_MAX;
    xview_dims[%(dim)d] = PySlice_AdjustIndices(%(length)s, &start, &stop, step);
    xview_strides[%(dim)d] = xview_dims[%(dim)d] > 1 ? %(stride)s * step : %(stride)s;
    if (xview_dims[%(dim)d] > 0)
        xview_offset += %(stride)s * start;
}"""
                % words
            )
            dimension += 1
        else:
            lines.append(
                """{
    Py_ssize_t index = %(index)s;
    if (index < -%(length)s || index >= %(length)s) {
        PyErr_Format(PyExc_IndexError, "index out of bounds: index %%zd is out of bounds for axis %(axis)d with size %%zd",
                     index, (Py_ssize_t)%(length)s);
        %(fail)s
    }
    xview_offset += %(stride)s * (index < 0 ? index + %(length)s : index);
}"""
                % dict(words, index=field(entry, "0"))
            )
    lines.append(
        """for (int i = %(first)d; i < %(ndim)s; i++) {
    xview_dims[i - %(less)d] = %(prefix)s_DIMS(%(x)s)[i];
    xview_strides[i - %(less)d] = %(prefix)s_STRIDES(%(x)s)[i] * %(mul)d;
}"""
        % dict(
            first=len(idx_list),
            less=len(idx_list) - dimension,
            ndim="%s_NDIM(%s)" % (c_prefix, x),
            prefix=c_prefix,
            x=x,
            mul=strides_mul,
        )
    )
    return "\n".join(lines)


class IncSubtensorHooks:
    """The methods that return parts of the C code of an IncSubtensor.

    ``zview`` is the C name of the part that is written.
    """

    def do_type_checking(self, node):
        """Check that `c_code` supports the types of a node.

        Raises
        ------
        NotImplementedError
            If the types are not supported. The compiled function then calls `perform` for the node.
        """
        if not isinstance(node.inputs[0].type, TensorType):
            raise NotImplementedError("IncSubtensor of %s" % (node.inputs[0].type,))

    def decl_view(self):
        """Return a C declaration of ``zview``, initialized to NULL."""
        return "PyArrayObject * zview = NULL;"

    def copy_of_x(self, x):
        """Return a C expression for a copy of the array `x`.

        Parameters
        ----------
        x : str
            C name of the array.
        """
        return "(PyArrayObject *)PyArray_FromAny((PyObject *)%s, NULL, 0, 0, NPY_ARRAY_ENSURECOPY, NULL)" % x

    def get_helper_c_code_args(self):
        """Return a dict with the arguments `c_prefix` and `strides_mul` of `helper_c_code`. See `index_code`."""
        return {"c_prefix": "PyArray", "strides_mul": 1}

    def helper_c_code(self, node, name, inputs, outputs, sub, idx_list, view_ndim, c_prefix="PyArray", strides_mul=1):
        """Return C code that computes the position of the indexed part.

        The code sets the shape (``xview_dims``), the strides (``xview_strides``) and the offset (``xview_offset``). The
        strides and the offset are in bytes.

        Parameters
        ----------
        node : Apply
        name : str
        inputs, outputs : list of str
            C names. ``outputs[0]`` is the array, ``inputs[2:]`` are the indices.
        sub : dict
            A dict that contains ``fail``.
        idx_list : tuple
        view_ndim : int
            The number of dimensions of the part.
        c_prefix, strides_mul
            See `index_code`.
        """
        declare = "npy_intp xview_dims[%(n)d], xview_strides[%(n)d], xview_offset;" % dict(n=max(view_ndim, 1))
        return "%s\n%s" % (declare, index_code(idx_list, outputs[0], inputs[2:], sub["fail"], c_prefix, strides_mul))

    def make_view_array(self, x, view_ndim):
        """Return a C expression for a view of the array `x`. Later code sets the shape, strides and data of the view.

        Parameters
        ----------
        x : str
            C name of the array.
        view_ndim : int
            The number of dimensions of the view, which is not greater than the number of dimensions of x.
        """
        return (
            "(Py_INCREF(PyArray_DESCR(%(x)s)), (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(%(x)s), %(n)s, "
            "PyArray_DIMS(%(x)s), PyArray_STRIDES(%(x)s), PyArray_DATA(%(x)s), PyArray_FLAGS(%(x)s), NULL))"
            % dict(x=x, n=view_ndim)
        )

    def copy_into(self, view, source):
        """Return a C expression that copies `source` into `view`, with broadcasting. It evaluates to 0 on success.

        Parameters
        ----------
        view, source : str
            The C names of the arrays.
        """
        return "PyArray_CopyInto(%s, %s)" % (view, source)

    def add_to_zview(self, name, x, fail):
        """Return C statements that add an array to ``zview``.

        Parameters
        ----------
        name : str
            The name of the node.
        x : str
            The C name of the array.
        fail : str
            A C statement that is executed after an error.
        """
        return """
        {
            PyObject *addend = PyArray_Cast(%(x)s, PyArray_TYPE(zview));
            PyObject *sum = addend == NULL ? NULL : PyNumber_InPlaceAdd((PyObject *)zview, addend);
            Py_XDECREF(addend);
            Py_XDECREF(sum);
            if (sum == NULL) {
                %(fail)s
            }
        }
        """ % dict(x=x, fail=fail)

    def _set_view(self, c_prefix):
        if c_prefix != "PyArray":  # For other arrays than NumPy's, make_view_array already uses the xview variables.
            return ""
        return """
        for (int i = 0; i < PyArray_NDIM(zview); i++) {
            PyArray_DIMS(zview)[i] = xview_dims[i];
            PyArray_STRIDES(zview)[i] = xview_strides[i];
        }
        ((PyArrayObject_fields *)zview)->data += xview_offset;
        PyArray_UpdateFlags(zview, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
        """

    def has_own_code(self):
        """Return True if a subclass overrides a hook."""
        return any(getattr(type(self), hook) is not getattr(IncSubtensorHooks, hook) for hook in HOOKS)

    def hooked_c_code(self, node, name, inputs, outputs, sub):
        """Return the C code that is composed of the results of the hooks. See `CLinkerOp.c_code`."""
        try:
            self.do_type_checking(node)
        except NotImplementedError as error:
            raise MethodNotDefined("c_code", type(self), type(self).__name__) from error
        x, y = inputs[:2]
        z = outputs[0]
        view_ndim = node.inputs[0].ndim - sum(not isinstance(entry, slice) for entry in self.idx_list)
        arguments = self.get_helper_c_code_args()
        fail = "{ Py_XDECREF(zview); %s }" % sub["fail"]
        if self.inplace:
            target = """
        if (%(x)s != %(z)s) {
            Py_XDECREF(%(z)s);
            Py_INCREF(%(x)s);
            %(z)s = %(x)s;
        }
        """
            if arguments.get("c_prefix", "PyArray") == "PyArray":
                target += """
        if (!PyArray_ISWRITEABLE(%(z)s)) {
            PyErr_SetString(PyExc_ValueError, "the input of an in-place increment is read-only");
            %(fail)s
        }
        """
        else:
            target = """
        Py_XDECREF(%(z)s);
        %(z)s = %(copy)s;
        if (%(z)s == NULL) {
            %(fail)s
        }
        """
        if self.set_instead_of_inc:
            write = "if (%s) %s" % (self.copy_into("zview", y), fail)
        else:
            write = self.add_to_zview(name, y, fail)
        return """
    {
        %(declare)s
        %(target)s
        %(helper)s
        zview = %(view)s;
        if (zview == NULL) {
            %(fail)s
        }
        %(set_view)s
        %(write)s
        Py_DECREF(zview);
    }
        """ % dict(
            declare=self.decl_view(),
            target=target % dict(x=x, z=z, fail=fail, copy=self.copy_of_x(x)),
            helper=self.helper_c_code(
                node, name, inputs, outputs, dict(sub, fail=fail), self.idx_list, view_ndim, **arguments
            ),
            view=self.make_view_array(z, view_ndim),
            set_view=self._set_view(arguments.get("c_prefix", "PyArray")),
            write=write,
            fail=fail,
        )

    def c_support_code(self):
        """Return the C helper function for indices if a subclass overrides a hook.

        Otherwise, raise MethodNotDefined.
        """
        if not self.has_own_code():
            raise MethodNotDefined("c_support_code", type(self), type(self).__name__)
        return _SUPPORT
