"""Generators of C loops over tensors, for third-party Ops with the method `c_code` of Theano 1.0.

`Elemwise` and `CAReduce` do not use these functions: their loops are kernels that native/elementwise/elemwise.c and
native/reductions/reduce.c call.

The loop order of an operand is a sequence with one item for each dimension of the output, outermost first. An item is
the corresponding dimension of the operand, or ``'x'`` if the operand is broadcast along this dimension.

The dict `sub` maps ``lv0``, ``lv1`` ... to the names of the ``PyArrayObject*`` variables of the operands. It maps
``olv`` to the name of the output, and ``fail`` to the code that handles an error.
"""

__all__ = ["make_alloc", "make_checks", "make_declare", "make_loop", "make_loop_careduce", "make_reordered_loop"]


def _dims(order):
    """Return the pairs (loop position, dimension of the operand) of a loop order, except for broadcast dimensions."""
    return [(position, dim) for position, dim in enumerate(order) if dim != "x"]


def make_declare(loop_orders, dtypes, sub):
    """Return declarations of the C variables that `make_checks` sets.

    For each operand ``lv`` and loop position ``j``:

    * ``lv_n<j>``: the length, unless the operand is broadcast;
    * ``lv_stride<j>``: the stride in elements, unless the operand is broadcast;
    * ``lv_jump<j>``: the step of the pointer after each iteration, in elements.

    For each operand, ``lv_iter``: the pointer to the current element.

    Parameters
    ----------
    loop_orders : list of sequences
    dtypes : list of str
        C types of the elements.
    sub : dict
    """
    lines = []
    for i, (order, dtype) in enumerate(zip(loop_orders, dtypes)):
        name = sub["lv%d" % i]
        for position, dim in enumerate(order):
            if dim != "x":
                lines.append("npy_intp %s_n%d;" % (name, position))
                lines.append("ssize_t %s_stride%d;" % (name, position))
            lines.append("ssize_t %s_jump%d;" % (name, position))
        lines.append("%s* %s_iter;" % (dtype, name))
    return "\n".join(lines) + "\n"


def make_checks(loop_orders, dtypes, sub):
    """Return C code that sets the variables of `make_declare`, and raises `ValueError` if lengths differ."""
    lines = []
    reference = {}
    for i, (order, dtype) in enumerate(zip(loop_orders, dtypes)):
        name = sub["lv%d" % i]
        rank = len(_dims(order))
        lines.append(
            'if (PyArray_NDIM(%(name)s) < %(rank)d) {\n    PyErr_SetString(PyExc_ValueError, "Not enough dimensions on input.");\n'
            "    %(fail)s\n}" % dict(name=name, rank=rank, fail=sub["fail"])
        )
        # The jump of a dimension is its stride, minus the distance by which the inner loops have advanced the pointer.
        inner = "0"
        for position in reversed(range(len(order))):
            dim = order[position]
            if dim == "x":
                lines.append("%s_jump%d = -(%s);" % (name, position, inner))
                inner = "0"
                continue
            here = dict(name=name, j=position, dim=dim, dtype=dtype, inner=inner)
            lines.append("%(name)s_n%(j)d = PyArray_DIMS(%(name)s)[%(dim)d];" % here)
            lines.append(
                "%(name)s_stride%(j)d = PyArray_STRIDES(%(name)s)[%(dim)d] / (npy_intp)sizeof(%(dtype)s);" % here
            )
            lines.append("%(name)s_jump%(j)d = %(name)s_stride%(j)d - (%(inner)s);" % here)
            inner = "%(name)s_n%(j)d * %(name)s_stride%(j)d" % here
        for position, dim in _dims(order):
            if position not in reference:
                reference[position] = (i, name, dim)
                continue
            first, first_name, first_dim = reference[position]
            lines.append(
                "if (%(a)s_n%(j)d != %(b)s_n%(j)d) {\n"
                '    PyErr_Format(PyExc_ValueError, "Input dimension mis-match. (input[%%d].shape[%%d] = %%lld, input[%%d].shape[%%d] = %%lld)",\n'
                "                 %(ia)d, %(da)d, (long long) %(a)s_n%(j)d, %(ib)d, %(db)d, (long long) %(b)s_n%(j)d);\n"
                "    %(fail)s\n}"
                % dict(a=first_name, b=name, j=position, ia=first, da=first_dim, ib=i, db=dim, fail=sub["fail"])
            )
    return "\n".join(lines) + "\n"


def _length(loop_orders, position, sub):
    """Return a C expression for the length of a loop. It is "1" if every operand is broadcast."""
    for i, order in enumerate(loop_orders):
        if order[position] != "x":
            return "%s_n%d" % (sub["lv%d" % i], position)
    return "1"


def make_alloc(loop_orders, dtype, sub, fortran="0"):
    """Return C code that makes ``sub['olv']`` an array of the shape of the loops.

    An existing array is reused if it fits.

    Parameters
    ----------
    loop_orders : list of sequences
    dtype : str
        NumPy type constant, for instance ``'NPY_DOUBLE'``, or the corresponding C type (``'npy_float64'``).
    sub : dict
    fortran : str
        A C expression. If its value is not 0, the array is F-contiguous.
    """
    dtype = dtype.upper().replace("THEANO_", "NPY_")
    nd = len(loop_orders[0])
    lengths = ["dims[%d] = %s;" % (j, _length(loop_orders, j, sub)) for j in range(nd)]
    return """
    {
        npy_intp dims[%(size)d];
        %(lengths)s
        if (!%(olv)s || PyArray_NDIM(%(olv)s) != %(nd)d || PyArray_TYPE(%(olv)s) != %(dtype)s || !PyArray_ISBEHAVED(%(olv)s)
            || !((%(fortran)s) ? PyArray_IS_F_CONTIGUOUS(%(olv)s) : PyArray_IS_C_CONTIGUOUS(%(olv)s))
            || !PyArray_CompareLists(PyArray_DIMS(%(olv)s), dims, %(nd)d)) {
            Py_XDECREF(%(olv)s);
            %(olv)s = (PyArrayObject*) PyArray_EMPTY(%(nd)d, dims, %(dtype)s, %(fortran)s);
        }
        if (!%(olv)s) {
            %(fail)s
        }
    }
    """ % dict(
        size=max(nd, 1),
        lengths=" ".join(lengths),
        nd=nd,
        olv=sub["olv"],
        dtype=dtype,
        fortran=fortran,
        fail=sub["fail"],
    )


def _iterators(dtypes, sub):
    return [
        "%(lv)s_iter = (%(dtype)s*) PyArray_DATA(%(lv)s);" % dict(lv=sub["lv%d" % i], dtype=dtype)
        for i, dtype in enumerate(dtypes)
    ]


def make_loop(loop_orders, dtypes, loop_tasks, sub, openmp=None):
    """Return C code of nested loops. The outermost loop is over the first dimension.

    Parameters
    ----------
    loop_orders : list of sequences
        The loop order of each operand, all of equal length.
    dtypes : list of str
        C types of the elements.
    loop_tasks : list
        For each dimension, a pair (code before the loop, code at the start of the loop body). The last item is a
        string: code after the loops. The code accesses the current element of operand ``lv`` as ``*lv_iter`` or
        ``lv_i``.
    sub : dict
    openmp : bool, optional
        This parameter has no effect. Pointers advance from one iteration to the next, so the loops are sequential. Only
        the loops of `make_reordered_loop` support threads.
    """
    return _make_loops(loop_orders, dtypes, loop_tasks, sub, reference=True)


def _make_loops(loop_orders, dtypes, loop_tasks, sub, reference):
    nd = len(loop_orders[0])
    names = [sub["lv%d" % i] for i in range(len(loop_orders))]
    element = "".join(
        "%(dtype)s%(ref)s %(lv)s_i = *%(lv)s_iter;\n" % dict(dtype=dtype, lv=name, ref="&" if reference else "")
        for name, dtype in zip(names, dtypes)
    )
    if nd == 0:
        before, body = loop_tasks[0] if len(loop_tasks) > 1 else ("", "")
        code = "%s\n{\n%s%s\n}\n" % (before, element, body)
        return "{\n%s\n%s%s\n}\n" % ("\n".join(_iterators(dtypes, sub)), code, loop_tasks[-1])
    code = ""
    for position in reversed(range(nd)):
        before, body = loop_tasks[position]
        step = "\n".join("%s_iter += %s_jump%d;" % (name, name, position) for name in names)
        if position == nd - 1:
            body = element + body
        code = """
%(before)s
{
    npy_intp N_%(j)d = %(length)s;
    for (npy_intp ITER_%(j)d = 0; ITER_%(j)d < N_%(j)d; ITER_%(j)d++) {
        %(body)s
        %(inner)s
        %(step)s
    }
}
""" % dict(before=before, j=position, length=_length(loop_orders, position, sub), body=body, inner=code, step=step)
    return "{\n%s\n%s%s\n}\n" % ("\n".join(_iterators(dtypes, sub)), code, loop_tasks[-1])


def make_loop_careduce(loop_orders, dtypes, loop_tasks, sub):
    """Return C code of nested loops for a reduction, as `make_loop` does.

    The code in `loop_tasks` may move the pointer of an accumulator.
    """
    return _make_loops(loop_orders, dtypes, loop_tasks, sub, reference=True)


def make_reordered_loop(init_loop_orders, olv_index, dtypes, inner_task, sub, openmp=None):
    """Return C code of loops in an order that is chosen at run time: by decreasing strides of the output.

    Parameters
    ----------
    init_loop_orders : list of sequences
    olv_index : int
        The index of the output among the operands.
    dtypes : list of str
    inner_task : str
        C code for one element. The element of operand ``lv`` is ``lv_i``.
    sub : dict
    openmp : bool, optional
        Whether to distribute the iterations of the outermost loop to threads.
    """
    nd = len(init_loop_orders[0])
    names = [sub["lv%d" % i] for i in range(len(init_loop_orders))]
    lines = _iterators(dtypes, sub)
    if nd == 0:
        element = "".join("%s& %s_i = *%s_iter;\n" % (dtype, name, name) for name, dtype in zip(names, dtypes))
        return "{\n%s\n%s%s\n}\n" % ("\n".join(lines), element, inner_task)
    lines.append(
        "npy_intp reorder_n[%d] = {%s};" % (nd, ", ".join(_length(init_loop_orders, j, sub) for j in range(nd)))
    )
    for name, order in zip(names, init_loop_orders):
        strides = ["0" if dim == "x" else "%s_stride%d" % (name, j) for j, dim in enumerate(order)]
        lines.append("ssize_t %s_loop[%d] = {%s};" % (name, nd, ", ".join(strides)))
    lines.append("int reorder[%d] = {%s};" % (nd, ", ".join(str(j) for j in range(nd))))
    lines.append(
        """
/* Insertion sort: the largest stride of the output comes first. */
for (int a = 1; a < %(nd)d; a++)
    for (int b = a; b > 0; b--) {
        ssize_t left = %(olv)s_loop[reorder[b - 1]], right = %(olv)s_loop[reorder[b]];
        if ((left < 0 ? -left : left) >= (right < 0 ? -right : right))
            break;
        int swap = reorder[b]; reorder[b] = reorder[b - 1]; reorder[b - 1] = swap;
    }
"""
        % dict(nd=nd, olv=names[olv_index])
    )
    # Compute the pointers of each iteration from its indices, so that threads can execute the iterations in any order.
    pointers = [
        "%s* %s_at%d = %s + ITER_0 * %s_loop[reorder[0]];" % (dtype, name, 0, name + "_iter", name)
        for name, dtype in zip(names, dtypes)
    ]
    code = (
        "".join("%s& %s_i = *%s_at%d;\n" % (dtype, name, name, nd - 1) for name, dtype in zip(names, dtypes))
        + inner_task
    )
    for j in reversed(range(1, nd)):
        inner = "\n".join(
            "%s* %s_at%d = %s_at%d + ITER_%d * %s_loop[reorder[%d]];" % (dtype, name, j, name, j - 1, j, name, j)
            for name, dtype in zip(names, dtypes)
        )
        code = "for (npy_intp ITER_%d = 0; ITER_%d < reorder_n[reorder[%d]]; ITER_%d++) {\n%s\n%s\n}\n" % (
            j,
            j,
            j,
            j,
            inner,
            code,
        )
    pragma = "#pragma omp parallel for schedule(static)\n" if openmp else ""
    outer = "for (npy_intp ITER_0 = 0; ITER_0 < reorder_n[reorder[0]]; ITER_0++) {\n%s\n%s\n}\n" % (
        "\n".join(pointers),
        code,
    )
    return "{\n%s\n%s%s}\n" % ("\n".join(lines), pragma, outer)
