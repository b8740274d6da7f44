"""Faults planted in HaarTransform."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="half_in_integers",
        module="haar_transform",
        kind="parameter",
        why="1 / 2 is 0 in C, so the norm 'average' gives only zeros.",
        file="haar_transform.c",
        old="scale = params->inverse ? 1.0 : 0.5;",
        new="scale = params->inverse ? 1 : 1 / 2;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for norm in ("orthonormal", "sum", "average"):
                BothWays(op.HaarTransform(1, norm), T.dmatrix())(np.ones((2, 4)))
            right = True
        """,
    ),
    PlantedFault(
        name="inverse_of_sum_not_halved",
        module="haar_transform",
        kind="parameter",
        why="The C code has one scale for each norm, so the inverse of the norm 'sum' is not multiplied by 1/2.",
        file="haar_transform.c",
        old="scale = params->inverse ? 0.5 : 1.0;",
        new="scale = 1.0;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for norm, inverse in (("sum", False), ("average", True), ("sum", True)):
                BothWays(op.HaarTransform(1, norm, inverse), T.dmatrix())(np.ones((2, 4)))
            right = True
        """,
    ),
    PlantedFault(
        name="inverse_in_order_of_the_transform",
        module="haar_transform",
        kind="parameter",
        why="The inverse begins with whole rows instead of the coarsest part, which is right only for one level.",
        file="haar_transform.c",
        old="columns >> (levels - 1 - level)",
        new="columns >> level",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for levels in (0, 1, 2):
                BothWays(op.HaarTransform(levels, inverse=True), T.dmatrix())(np.arange(8.0).reshape(2, 4))
            right = True
        """,
    ),
    PlantedFault(
        name="at_least_one_level",
        module="haar_transform",
        kind="parameter",
        why="The loop tests its condition at the end, so rows are transformed once for levels=0.",
        file="haar_transform.c",
        old="for (int level = 0; level < levels; level++) {",
        new="for (int level = 0; level == 0 || level < levels; level++) {",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for levels in (1, 2, 0):
                BothWays(op.HaarTransform(levels), T.dmatrix())(np.arange(8.0).reshape(2, 4))
            right = True
        """,
    ),
    PlantedFault(
        name="power_of_two_in_32_bits",
        module="haar_transform",
        kind="parameter",
        why="1 << levels has only 32 bits: for 32 levels the C code accepts rows that perform refuses.",
        file="haar_transform.c",
        old="((npy_intp)1 << levels)",
        new="(npy_intp)(1u << (levels & 31))",
        witness="""
            from theano_ng.tests.authors.ways import BothWays, assert_raises
            for levels in (3, 30, 32):
                assert_raises(ValueError, BothWays(op.HaarTransform(levels), T.dmatrix()), np.ones((1, 4)))
            right = True
        """,
    ),
    PlantedFault(
        name="only_even_lengths_required",
        module="haar_transform",
        kind="length",
        why="The C code checks only whether the length is even, but each further level needs an even length, too.",
        file="haar_transform.c",
        old="if (columns % ((npy_intp)1 << levels) != 0) {",
        new="if (levels > 0 && columns % 2 != 0) {",
        witness="""
            from theano_ng.tests.authors.ways import BothWays, assert_raises
            both = BothWays(op.HaarTransform(2), T.dmatrix())
            both(np.ones((1, 8)))
            for columns in (3, 6):
                assert_raises(ValueError, both, np.ones((1, columns)))
            right = True
        """,
    ),
    PlantedFault(
        name="complex_product_with_infinity",
        module="haar_transform",
        kind="value",
        why="Complex numbers are multiplied by a complex scale: an infinite part times the imaginary part 0 is NaN.",
        file="haar_transform.c",
        old=("    value.real = value.real * scale;\n    value.imag = value.imag * scale;\n    return value;\n"),
        new=(
            "    const double zero = 0, real = value.real;\n"
            "    value.real = real * scale - value.imag * zero;\n"
            "    value.imag = real * zero + value.imag * scale;\n"
            "    return value;\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "complex64", "complex128"):
                both = BothWays(op.HaarTransform(1), T.matrix(dtype=dtype))
                both(np.array([[1, 2, -3, 4]], dtype))
                both(np.array([[1, np.inf, -3, 4]], dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="difference_from_sum",
        module="haar_transform",
        kind="value",
        why="The C code computes a - b as (a + b) - b - b from the sum that it has already, which loses digits.",
        file="haar_transform.c",
        old="half[i] = haar_scaled(even - odd, scale);",
        new="half[i] = haar_scaled((even + odd) - odd - odd, scale);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.HaarTransform(1), T.dmatrix())
            both(np.array([[1.0, 2, -3, 4]]))
            both(np.array([[1 + 2.0**-52, 1, 1, 1]]))
            right = True
        """,
    ),
    PlantedFault(
        name="root_of_one_half_in_single_precision",
        module="haar_transform",
        kind="dtype",
        why="The constant ends with f, so it is a float: results of float64 and complex128 have seven digits.",
        file="haar_transform.c",
        old="scale = 0.70710678118654752440;",
        new="scale = 0.70710678118654752440f;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float32", "complex64", "float64"):
                BothWays(op.HaarTransform(1), T.matrix(dtype=dtype))(np.ones((1, 2), dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="imaginary_part_not_scaled",
        module="haar_transform",
        kind="dtype",
        why="The function for complex64 multiplies the real part only. That for complex128 is right.",
        file="haar_transform.c",
        old="    value.imag = value.imag * (npy_float32)scale;\n",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float32", "complex128", "complex64"):
                BothWays(op.HaarTransform(1), T.matrix(dtype=dtype))(np.sqrt(np.full((1, 2), -2, "complex")).astype(dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="imaginary_part_lost_by_perform",
        module="haar_transform",
        kind="dtype",
        why="perform converts the input to the dtype of the scale, so complex numbers lose their imaginary parts.",
        file="haar_transform.py",
        old='        y = np.array(x, order="C")\n',
        new='        y = np.array(x.real.astype(real), order="C").astype(x.dtype)\n',
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float32", "float64", "complex128"):
                BothWays(op.HaarTransform(1), T.matrix(dtype=dtype))(np.array([[3, 4 if dtype[0] == "f" else 4j]], dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="one_segment_copied_as_rows",
        module="haar_transform",
        kind="layout",
        why="PyArray_ISONESEGMENT is also true for arrays in Fortran order, whose memory does not contain row after row.",
        file="haar_transform.c",
        old=(
            "        for (npy_intp j = 0; j < columns; j++)\n"
            "            row[j] = *(DTYPE_INPUT_0 *)PyArray_GETPTR2(x, i, j);\n"
        ),
        new=(
            "        if (PyArray_ISONESEGMENT(x))\n"
            "            memcpy(row, (DTYPE_INPUT_0 *)PyArray_DATA(x) + i * columns, columns * sizeof(DTYPE_INPUT_0));\n"
            "        for (npy_intp j = 0; j < columns && !PyArray_ISONESEGMENT(x); j++)\n"
            "            row[j] = *(DTYPE_INPUT_0 *)PyArray_GETPTR2(x, i, j);\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            x, both = np.arange(8.0).reshape(2, 4), BothWays(op.HaarTransform(1), T.dmatrix())
            both(x)
            both(x[:, ::2])
            both(np.asfortranarray(x))
            right = True
        """,
    ),
    PlantedFault(
        name="no_levels_no_result",
        module="haar_transform",
        kind="output memory",
        why="For levels=0 the C function ends early, after the output is allocated and before it is written.",
        file="haar_transform.c",
        old="    DTYPE_INPUT_0 *row = (DTYPE_INPUT_0 *)PyArray_DATA(memory), *half = row + columns;\n",
        new=(
            "    if (levels == 0) {\n"
            "        Py_DECREF(memory);\n"
            "        return 0;\n"
            "    }\n"
            "    DTYPE_INPUT_0 *row = (DTYPE_INPUT_0 *)PyArray_DATA(memory), *half = row + columns;\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            x = np.arange(8.0).reshape(2, 4)
            ways = [Way(op.HaarTransform(levels), T.dmatrix()) for levels in (1, 0)]
            (y,), (z,) = [way(x, old=[np.full((2, 4), 77.0)]) for way in ways]
            right = y[0, 0] == 0.5**0.5 and (z == x).all()
        """,
    ),
    PlantedFault(
        name="scratch_for_the_row_only",
        module="haar_transform",
        kind="bounds",
        why="The memory has room for a row, but the differences are stored behind the row.",
        file="haar_transform.c",
        old="npy_intp size = columns + columns / 2;",
        new="npy_intp size = columns;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.HaarTransform(1), T.dmatrix())
            for columns in (200, 1000, 2000, 10000):
                for _ in range(20):
                    keep = [way(np.ones((1, columns))) for _ in range(2)]
            right = True
        """,
    ),
    PlantedFault(
        name="columns_copied_in_pairs",
        module="haar_transform",
        kind="bounds",
        why="The elements are copied in pairs. For levels=0 the number of columns may be odd: one more element is read.",
        file="haar_transform.c",
        old=(
            "        for (npy_intp j = 0; j < columns; j++)\n"
            "            row[j] = *(DTYPE_INPUT_0 *)PyArray_GETPTR2(x, i, j);\n"
        ),
        new=(
            "        for (npy_intp j = 0; j < columns; j += 2) {\n"
            "            row[j] = *(DTYPE_INPUT_0 *)PyArray_GETPTR2(x, i, j);\n"
            "            row[j + 1] = *(DTYPE_INPUT_0 *)PyArray_GETPTR2(x, i, j + 1);\n"
            "        }\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            for levels, columns in ((1, 4), (0, 4), (0, 5)):
                x = guarded(np.ones((2, columns)))
                (y,) = Way(op.HaarTransform(levels), T.dmatrix())(x)
                right = y.shape == x.shape
        """,
    ),
    PlantedFault(
        name="scratch_array_never_released",
        module="haar_transform",
        kind="references",
        why="The array with the scratch memory is not released at the end of the function.",
        file="haar_transform.c",
        old="    Py_DECREF(memory);\n    return 0;\n",
        new="    return 0;\n",
        witness="""
            from theano_ng.tests.authors.ways import Way, growth
            x, way = np.ones((1, 1024)), Way(op.HaarTransform(1), T.dmatrix())
            right = growth(lambda: way(x), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="old_output_lost_in_place",
        module="haar_transform",
        kind="references",
        why="The in-place code overwrites the pointer to the old output without releasing it.",
        file="haar_transform.c",
        old="        Py_INCREF(x);\n        Py_XDECREF(*y);\n        *y = x;\n",
        new="        Py_INCREF(x);\n        *y = x;\n",
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            way = Way(op.HaarTransform(1, inplace=True), T.dmatrix())
            old = np.zeros((1, 2))
            before = sys.getrefcount(old)
            for _ in range(5):
                way(np.ones((1, 2)))
                way(np.ones((1, 2)), old=[old])
            right = sys.getrefcount(old) <= before + 1
        """,
    ),
    PlantedFault(
        name="inverse_destroys_without_declaration",
        module="haar_transform",
        kind="aliasing",
        why="destroy_map is declared for the transform, but not for its inverse, which overwrites its input as well.",
        file="haar_transform.py",
        old="        if self.inplace:\n            self.destroy_map",
        new="        if self.inplace and not self.inverse:\n            self.destroy_map",
        witness="""
            x = T.dmatrix("x")
            for inverse in (False, True):
                y = x * 1
                z = op.HaarTransform(1, "sum", inverse, inplace=True)(y)
                f = theano.function([x], [z, y + 1], accept_inplace=True, mode=theano.Mode("cvm", None))
                one, other = f(np.array([[1.0, 2.0]]))
                right = (other == [[2.0, 3.0]]).all()
        """,
    ),
    PlantedFault(
        name="scratch_as_long_as_the_first_row",
        module="haar_transform",
        kind="state",
        why="The scratch memory is static and allocated by the first call: longer rows of later calls do not fit.",
        file="haar_transform.c",
        old=(
            "    PyArrayObject *memory = (PyArrayObject *)PyArray_ZEROS(1, &size, TYPENUM_INPUT_0, 0);\n"
            "    if (memory == NULL)\n"
            "        return 1;\n"
        ),
        new=(
            "    static PyArrayObject *memory = NULL;\n"
            "    if (memory == NULL)\n"
            "        memory = (PyArrayObject *)PyArray_ZEROS(1, &size, TYPENUM_INPUT_0, 0);\n"
            "    if (memory == NULL)\n"
            "        return 1;\n"
            "    Py_INCREF(memory);\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.HaarTransform(1), T.dmatrix())
            way(np.ones((1, 8)))
            way(np.ones((1, 4)))
            way(np.ones((1, 2**24)))
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_with_the_same_norm",
        module="haar_transform",
        kind="gradient",
        why="The gradient is the inverse with the same norm, which is the transposed transform only if orthonormal.",
        file="haar_transform.py",
        old="HaarTransform(self.levels, TRANSPOSED[self.norm], not self.inverse)",
        new="HaarTransform(self.levels, self.norm, not self.inverse)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.HaarTransform(2), [np.ones((2, 4))])
            utt.verify_grad(op.HaarTransform(2, "average"), [np.ones((2, 4))])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_the_inverse",
        module="haar_transform",
        kind="gradient",
        why="The gradient always is an inverse, also that of the inverse.",
        file="haar_transform.py",
        old="not self.inverse)(output_grads[0])",
        new="True)(output_grads[0])",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            x = np.arange(8.0).reshape(2, 4)
            utt.verify_grad(op.HaarTransform(2), [x])
            utt.verify_grad(op.HaarTransform(2, inverse=True), [x])
            right = True
        """,
    ),
    PlantedFault(
        name="shape_of_one_coarse_element",
        module="haar_transform",
        kind="shape",
        why="infer_shape takes for granted that a row has a coarse element: rows without elements seem to be longer.",
        file="haar_transform.py",
        old="    def infer_shape(self, node, shapes):\n        return shapes\n",
        new=(
            "    def infer_shape(self, node, shapes):\n"
            "        return [(shapes[0][0], T.maximum(shapes[0][1], 2**self.levels))]\n"
        ),
        witness="""
            x = T.dmatrix()
            f = theano.function([x], op.HaarTransform(1)(x).shape)
            right = [tuple(f(np.ones((3, n)))) for n in (4, 2, 0)] == [(3, 4), (3, 2), (3, 0)]
        """,
    ),
    PlantedFault(
        name="result_declared_real",
        module="haar_transform",
        kind="declaration",
        why="make_node declares results with the dtype of the scale, so the results of complex matrices are refused.",
        file="haar_transform.py",
        old="return theano.Apply(self, [x], [x.type()])",
        new="return theano.Apply(self, [x], [T.TensorType(REAL[x.dtype], x.broadcastable)()])",
        witness="""
            from theano_ng.tests.authors.ways import Way
            for dtype in ("float32", "float64", "complex64"):
                way = Way(op.HaarTransform(1), T.matrix(dtype=dtype), impl="py")
                (y,) = way(np.ones((1, 2), dtype))
                right = y.dtype == way.node.outputs[0].dtype
        """,
    ),
    PlantedFault(
        name="too_many_levels_end_the_process",
        module="haar_transform",
        kind="process",
        why="The C code counts how often a length can be halved. The length 0 can be halved without an end.",
        file="haar_transform.c",
        old="    if (columns % ((npy_intp)1 << levels) != 0) {\n",
        new=(
            "    int possible = 0;\n"
            "    for (volatile npy_intp rest = columns; rest % 2 == 0; rest = rest / 2)\n"
            "        possible = possible < levels ? possible + 1 : levels;\n"
            "    if (possible < levels) {\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.HaarTransform(1), T.dmatrix())
            right = [way(np.ones((1, n)))[0].shape for n in (2, 4, 0)] == [(1, 2), (1, 4), (1, 0)]
        """,
    ),
]
