"""Indexing of device arrays by integers and slices, which gives views, and increments of such views.

Indexing by arrays and masks is in `advanced_subtensor`, and diagonals are in `diagonals`. The names of both modules are
exported here, too.
"""

import os

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.advanced_subtensor import (
    BaseGpuAdvancedIncSubtensor,
    BaseGpuAdvancedSubtensor,
    GpuAdvancedBooleanIncSubtensor,
    GpuAdvancedBooleanSubtensor,
    GpuAdvancedIncSubtensor,
    GpuAdvancedIncSubtensor1,
    GpuAdvancedIncSubtensor1_dev20,
    GpuAdvancedSubtensor,
    GpuAdvancedSubtensor1,
    check_and_convert_boolean_masks,
    get_iadd,
)
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.diagonals import GpuAllocDiag, GpuExtractDiag
from theano_ng.gpuarray.kernels import indexing as kernels
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, on_host
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.lazy import lazy_names
from theano_ng.tensor.indexing.code import HOOKS
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor, integer_types

__all__ = [
    "BaseGpuAdvancedIncSubtensor",
    "BaseGpuAdvancedSubtensor",
    "GpuAdvancedBooleanIncSubtensor",
    "GpuAdvancedBooleanSubtensor",
    "GpuAdvancedIncSubtensor",
    "GpuAdvancedIncSubtensor1",
    "GpuAdvancedIncSubtensor1_dev20",
    "GpuAdvancedSubtensor",
    "GpuAdvancedSubtensor1",
    "GpuAllocDiag",
    "GpuExtractDiag",
    "GpuIncSubtensor",
    "GpuSubtensor",
    "check_and_convert_boolean_masks",
    "get_iadd",
    "integer_types",
]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(__name__, CLASSIC_IMPORTS)


class GpuSubtensor(TwinOp, Subtensor):
    """Index a device array by integers and slices: ``GpuSubtensor(idx_list)(x, *indices)``. The result is a view.

    Parameters
    ----------
    idx_list : sequence
        As for `tensor.subtensor.Subtensor`. The variables of the indices are on the host.

    Raises
    ------
    IndexError
        If `idx_list` has more entries than x has dimensions. At run time, if an index is out of bounds.
    """

    __module__ = "theano_ng.gpuarray.subtensor"

    def host_op(self, node):
        return Subtensor(self.idx_list)

    def make_node(self, x, *inputs):
        context_name = infer_context_name(x)
        x = as_gpuarray_variable(x, context_name)
        host = Subtensor(self.idx_list).make_node(host_from_gpu(x), *on_host(inputs))
        return self.on_device([x, *host.inputs[1:]], host, context_name)

    def native_code(self, node):
        return NativeCode("theano_ng.gpuarray.native.subtensor:subtensor", index=self._index_rows(node, 1))


class GpuIncSubtensor(TwinOp, IncSubtensor):
    """Increment or set a part of a device array: ``(x, y, *indices)``. The result is x with y added to ``x[indices]``.

    Parameters
    ----------
    idx_list : sequence
        See `GpuSubtensor`.
    inplace : bool
        If True, overwrite x.
    set_instead_of_inc : bool
        If True, set the part to y.
    destroyhandler_tolerate_aliased : list of pairs of int, optional
        An argument for the destroy handler: (i, j) allows input j to share memory with the destroyed input i.

    Raises
    ------
    ValueError
        If y has more dimensions than the part. At run time, if y does not broadcast to the part.
    TypeError
        If y cannot be converted to the dtype of x.

    Notes
    -----
    If a subclass overrides one of the hooks for the C code of IncSubtensor, the linker compiles the C code of the
    subclass in place of the native code. The hooks below write C code for device arrays.
    """

    __module__ = "theano_ng.gpuarray.subtensor"

    def host_op(self, node):
        return IncSubtensor(self.idx_list, self.inplace, self.set_instead_of_inc)

    def make_node(self, x, y, *inputs):
        context_name = infer_context_name(x, y)
        x, y = as_gpuarray_variable(x, context_name), as_gpuarray_variable(y, context_name)
        host = self.host_op(None).make_node(host_from_gpu(x), host_from_gpu(y), *on_host(inputs))
        return Apply(self, [x, y, *host.inputs[2:]], [x.type()])

    def native_code(self, node):
        if self.has_own_code():  # the linker then compiles the C code of the subclass
            return None
        x = node.inputs[0].type
        axes = x.ndim - sum(not isinstance(entry, slice) for entry in self.idx_list)
        add = not self.set_instead_of_inc
        return NativeCode(
            "theano_ng.gpuarray.native.subtensor:inc_subtensor",
            in_place=bool(self.inplace),
            set_instead_of_inc=not add,
            simple=kernels.increment(x.dtype, 1, x.context) if add else 0,
            general=kernels.increment(x.dtype, axes, x.context) if add and axes > 1 else 0,
            general_axes=axes,
            index=self._index_rows(node, 2),
        )

    # -- parts of the C code, which subclasses may override --

    def has_own_code(self):
        """Return True if a subclass has overridden a hook for the C code."""
        return any(getattr(type(self), hook) is not getattr(GpuIncSubtensor, hook) for hook in HOOKS)

    def c_headers(self):
        return ["<gpuarray_api.h>"] if self.has_own_code() else super().c_headers()

    def c_header_dirs(self):
        return (
            [os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")]
            if self.has_own_code()
            else super().c_header_dirs()
        )

    def c_init_code(self):
        return ["import_pygpu__gpuarray();"] if self.has_own_code() else []

    def do_type_checking(self, node):
        """Check that `c_code` supports the types of a node.

        Raises
        ------
        NotImplementedError
            If x is not on a device.
        """
        if not isinstance(node.inputs[0].type, GpuArrayType):
            raise NotImplementedError("GpuIncSubtensor of %s" % (node.inputs[0].type,))

    def decl_view(self):
        """Return the C declaration of ``zview``, which is NULL at first."""
        return "PyGpuArrayObject *zview = NULL;"

    def copy_of_x(self, x):
        """Return a C expression for a new array with the value of the array `x`.

        Parameters
        ----------
        x : str
            C name of the array.
        """
        return "pygpu_copy(%s, GA_ANY_ORDER)" % x

    def copy_into(self, view, source):
        """Return a C expression that copies `source` into `view`, with broadcasting. Its value is 0 on success.

        Parameters
        ----------
        view, source : str
            C names of the arrays.
        """
        return "pygpu_raise(%s->context->ctx, GpuArray_setarray(&%s->ga, &%s->ga))" % (view, view, source)

    def get_helper_c_code_args(self):
        """Return a dict with `c_prefix` and `strides_mul`, by which `helper_c_code` accesses shape and strides."""
        return {"c_prefix": "PyGpuArray", "strides_mul": 1}

    def make_view_array(self, x, view_ndim):
        """Return a C expression for the view of the array `x` that ``xview_dims``, ``xview_strides`` and
        ``xview_offset`` describe.

        Parameters
        ----------
        x : str
            C name of the array.
        view_ndim : int
            Number of dimensions of the view.
        """
        return (
            "pygpu_fromgpudata(%(x)s->ga.data, %(x)s->ga.offset + xview_offset, %(x)s->ga.typecode, %(n)d, (const size_t *)xview_dims, "
            "(const ssize_t *)xview_strides, %(x)s->context, 1, (PyObject *)%(x)s, Py_None)" % dict(x=x, n=view_ndim)
        )

    def add_to_zview(self, name, x, fail):
        """Return C statements that add an array to ``zview``.

        Parameters
        ----------
        name : str
            The node's name.
        x : str
            C name of the array.
        fail : str
            Statement to execute after an error.
        """
        return """
        {
            PyObject *sum = PyNumber_InPlaceAdd((PyObject *)zview, (PyObject *)%(x)s);
            Py_XDECREF(sum);
            if (sum == NULL) {
                %(fail)s
            }
        }
        """ % dict(x=x, fail=fail)
