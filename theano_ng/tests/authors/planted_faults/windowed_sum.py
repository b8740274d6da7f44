"""Faults planted in WindowedSum."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="average_divided_by_step",
        module="windowed_sum",
        kind="parameter",
        why="The sums are divided by the step instead of the width, which is right only if both are equal.",
        file="windowed_sum.py",
        old="total /= width;",
        new="total /= step;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            BothWays(op.WindowedSum(2, 2, True), T.dmatrix())(np.ones((2, 7)))
            BothWays(op.WindowedSum(3, 2, True), T.dmatrix())(np.ones((2, 7)))
            right = True
        """,
    ),
    PlantedFault(
        name="rows_after_last_block",
        module="windowed_sum",
        kind="length",
        why="More than 64 rows are computed in blocks of eight, and the rows after the last block are forgotten.",
        file="windowed_sum.py",
        old="i < rows; i++",
        new="i < (rows > 64 ? rows / 8 * 8 : rows); i++",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(2), T.dmatrix())
            right = all((way(np.ones((n, 3)), old=[np.zeros((n, 2))])[0] == 2).all() for n in (1, 63, 64, 72, 67))
        """,
    ),
    PlantedFault(
        name="negative_number_of_windows",
        module="windowed_sum",
        kind="length",
        why="infer_shape gives a negative length for rows that are much shorter than a window.",
        file="windowed_sum.py",
        old="return [(rows, T.maximum((columns - self.width) // self.step + 1, 0))]",
        new="return [(rows, (columns - self.width) // self.step + 1)]",
        witness="""
            x = T.dmatrix()
            f = theano.function([x], op.WindowedSum(4)(x).shape)
            right = [f(np.ones((2, n)))[1] for n in (5, 4, 3, 1, 0)] == [2, 1, 0, 0, 0]
        """,
    ),
    PlantedFault(
        name="running_sum_keeps_rounding_errors",
        module="windowed_sum",
        kind="value",
        why="A running sum adds one element and subtracts another, so rounding errors and NaN stay until the row ends.",
        file="windowed_sum.py",
        old=(
            "                for (npy_intp j = 0; j < shape[1]; j++) {\n"
            "                    const char *from = (const char *)PyArray_GETPTR2(%(x)s, i, j * step);\n"
            "                    double total = *(const number *)from;\n"
            "                    for (npy_intp k = 1; k < width; k++)\n"
            "                        total += *(const number *)(from + k * jump);\n"
        ),
        new=(
            "                double running = 0;\n"
            "                npy_intp added = 0;\n"
            "                for (npy_intp j = 0; j < shape[1]; j++) {\n"
            "                    const char *row = (const char *)PyArray_GETPTR2(%(x)s, i, 0);\n"
            "                    for (; added < j * step + width; added++) {\n"
            "                        running += *(const number *)(row + added * jump);\n"
            "                        if (added >= width)\n"
            "                            running -= *(const number *)(row + (added - width) * jump);\n"
            "                    }\n"
            "                    double total = running;\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.WindowedSum(2), T.dmatrix())
            both(np.arange(12.0).reshape(2, 6))
            both(np.array([[1e17, 1, 1, 1]]))
            both(np.array([[np.nan, 1, 1, 1]]))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_in_single_precision",
        module="windowed_sum",
        kind="dtype",
        why="The C code adds in the dtype of the input, but perform adds in float64: float32 sums differ.",
        file="windowed_sum.py",
        old="double total = *(const number *)from;",
        new="number total = *(const number *)from;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            x = np.array([[1e8, 1, -1e8]])
            for dtype in ("float64", "float32"):
                (y,) = BothWays(op.WindowedSum(3), T.matrix(dtype=dtype))(x.astype(dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="columns_taken_as_neighbours",
        module="windowed_sum",
        kind="layout",
        why="The stride of the columns is ignored, so transposed and strided matrices give the wrong elements.",
        file="windowed_sum.py",
        old="jump = PyArray_STRIDE(%(x)s, 1);",
        new="jump = sizeof(number);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.WindowedSum(2), T.dmatrix())
            both(np.arange(12.0).reshape(4, 3)[::-2])
            both(np.arange(12.0).reshape(4, 3).T)
            right = True
        """,
    ),
    PlantedFault(
        name="old_output_taken_as_c_ordered",
        module="windowed_sum",
        kind="layout",
        why="The output is written as one block, although the old output may have any strides.",
        file="windowed_sum.py",
        old="*(number *)PyArray_GETPTR2(%(y)s, i, j) = ",
        new="((number *)PyArray_DATA(%(y)s))[i * shape[1] + j] = ",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.arange(8.0).reshape(2, 4), Way(op.WindowedSum(1), T.dmatrix())
            right = all((way(x, old=[np.zeros((2, 4), order=order)])[0] == x).all() for order in "CF")
        """,
    ),
    PlantedFault(
        name="only_rows_of_old_output_compared",
        module="windowed_sum",
        kind="output memory",
        why="The columns of the old output are not counted: its shape is kept, or the code writes beyond it.",
        file="windowed_sum.py",
        old=" || PyArray_DIM(%(y)s, 1) != shape[1]",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(2), T.dmatrix())
            shapes = [way(np.ones((2, 5)), old=[np.zeros(shape)])[0].shape for shape in ((2, 4), (3, 4), (2, 6))]
            right = shapes == [(2, 4)] * 3
        """,
    ),
    PlantedFault(
        name="window_after_the_last_one",
        module="windowed_sum",
        kind="bounds",
        why="Each window reads one element more and subtracts it again, so the last window reads beyond the row.",
        file="windowed_sum.py",
        old=(
            "                    for (npy_intp k = 1; k < width; k++)\n"
            "                        total += *(const number *)(from + k * jump);\n"
        ),
        new=(
            "                    for (npy_intp k = 1; k <= width; k++) {\n"
            "                        const number next = *(const number *)(from + k * jump);\n"
            "                        total += k < width ? (double)next : next * 0.0;\n"
            "                    }\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            x, way = np.ones((2, 5)), Way(op.WindowedSum(2), T.dmatrix())
            right = (way(x[:1, :4])[0] == 2).all() and (way(guarded(x))[0] == 2).all()
        """,
    ),
    PlantedFault(
        name="descriptor_counted_twice",
        module="windowed_sum",
        kind="references",
        why="PyArray_DescrFromType returns a new reference already: each output keeps one more reference to the dtype.",
        file="windowed_sum.py",
        old="%(y)s = (PyArrayObject *)PyArray_SimpleNew(2, shape, PyArray_TYPE(%(x)s));",
        new=(
            "PyArray_Descr *descr = PyArray_DescrFromType(PyArray_TYPE(%(x)s));\n"
            "                Py_INCREF(descr);\n"
            "                %(y)s = (PyArrayObject *)PyArray_Empty(2, shape, descr, 0);"
        ),
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(2), T.dmatrix())
            x, before = np.ones((2, 3)), sys.getrefcount(np.dtype("float64"))
            for _ in range(500):
                way(x)
            right = abs(sys.getrefcount(np.dtype("float64")) - before) < 100
        """,
    ),
    PlantedFault(
        name="terms_added_to_the_input",
        module="windowed_sum",
        kind="aliasing",
        why="numpy.asarray does not copy a float64 array, so perform adds the other terms to the input.",
        file="windowed_sum.py",
        old='total = x[:, 0 : end : self.step].astype("float64")',
        new='total = np.asarray(x[:, 0 : end : self.step], "float64")',
        witness="""
            from theano_ng.tests.authors.ways import Way
            for dtype in ("float32", "float64"):
                x, way = np.ones((2, 4), dtype), Way(op.WindowedSum(2), T.matrix(dtype=dtype), impl="py")
                way(x)
                right = (x == 1).all()
        """,
    ),
    PlantedFault(
        name="stride_of_first_call",
        module="windowed_sum",
        kind="state",
        why="A static constant keeps the stride of the first call for all later inputs.",
        file="windowed_sum.py",
        old="const npy_intp jump",
        new="static const npy_intp jump",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.WindowedSum(2), T.dmatrix())
            both(np.arange(12.0).reshape(3, 4))
            both(np.arange(12.0).reshape(4, 3).T)
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_average_not_divided",
        module="windowed_sum",
        kind="gradient",
        why="The gradient of averages is the gradient of sums: it is too large by the factor `width`.",
        file="windowed_sum.py",
        old="gradient = WindowedSum(self.width, 1, self.average)(spread)",
        new="gradient = WindowedSum(self.width)(spread)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.WindowedSum(2, 3), [np.ones((2, 5))])
            utt.verify_grad(op.WindowedSum(2, 3, True), [np.ones((2, 5))])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_neighbouring_windows",
        module="windowed_sum",
        kind="gradient",
        why="The gradients are put at positions that are right only for step=1.",
        file="windowed_sum.py",
        old="first = self.width - 1",
        new="first = self.width - self.step",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.WindowedSum(3), [np.ones((2, 5))])
            utt.verify_grad(op.WindowedSum(3, 2), [np.ones((2, 5))])
            right = True
        """,
    ),
    PlantedFault(
        name="number_of_windows_rounded_down",
        module="windowed_sum",
        kind="shape",
        why="infer_shape divides before it adds one to the length: it misses the last window for some lengths.",
        file="windowed_sum.py",
        old="return [(rows, T.maximum((columns - self.width) // self.step + 1, 0))]",
        new="return [(rows, T.maximum((columns - self.width + 1) // self.step, 0))]",
        witness="""
            x = T.dmatrix()
            y = op.WindowedSum(3, 2)(x)
            f, g = theano.function([x], y.shape), theano.function([x], y)
            right = all(tuple(f(np.ones((2, n)))) == g(np.ones((2, n))).shape for n in (8, 6, 7))
        """,
    ),
    PlantedFault(
        name="broadcastable_column_kept",
        module="windowed_sum",
        kind="declaration",
        why="The output of a column is declared as a column, but it has no windows if the width is larger than one.",
        file="windowed_sum.py",
        old="T.TensorType(x.dtype, (x.broadcastable[0], False))()",
        new="x.type()",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(2), T.dcol())
            (y,) = way(np.ones((3, 1)))
            right = way.node.outputs[0].type.is_valid_value(y)
        """,
    ),
    PlantedFault(
        name="op_keeps_a_function",
        module="windowed_sum",
        kind="declaration",
        why="An attribute of the Op is a lambda expression, so the Op cannot be pickled.",
        file="windowed_sum.py",
        old="        self.average = bool(average)\n",
        new="        self.average = bool(average)\n        self.count = lambda n: (n - self.width) // self.step + 1\n",
        witness="""
            import pickle
            right = pickle.loads(pickle.dumps(op.WindowedSum(2))) == op.WindowedSum(2)
        """,
    ),
    PlantedFault(
        name="unsigned_number_of_windows",
        module="windowed_sum",
        kind="process",
        why="With unsigned numbers, 0 - 1 is huge: rows without windows let the loop run through all of the memory.",
        file="windowed_sum.py",
        old="for (npy_intp j = 0; j < shape[1]; j++) {",
        new="for (npy_uintp j = 0; j <= (npy_uintp)shape[1] - 1; j++) {",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(3), T.dmatrix())
            right = [way(np.ones((2, n)))[0].shape for n in (4, 3, 2)] == [(2, 2), (2, 1), (2, 0)]
        """,
    ),
]
