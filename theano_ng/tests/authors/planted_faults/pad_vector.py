"""Faults planted in PadVector."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="nearest_element_behind_the_end",
        module="pad_vector",
        kind="parameter",
        why="In the mode 'nearest', the elements behind the end are read one position too far.",
        file="pad_vector.c",
        old="sources[i] = at < 0 ? 0 : length - 1;",
        new="sources[i] = at < 0 ? 0 : length;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x = np.arange(8.0)[:4]
            ways = [Way(op.PadVector(before, after, "nearest"), T.dvector()) for before, after in ((2, 0), (2, 2))]
            right = [way(x)[0].tolist() for way in ways] == [[0, 0, 0, 1, 2, 3], [0, 0, 0, 1, 2, 3, 3, 3]]
        """,
    ),
    PlantedFault(
        name="gradient_without_padding_behind",
        module="pad_vector",
        kind="parameter",
        why="g[before:-after] is empty for after=0.",
        file="pad_vector.py",
        old="g[self.before : self.before + x.shape[0]]",
        new="g[self.before : -self.after]",
        witness="""
            x = T.dvector()
            gradients = [theano.function([x], T.grad(op.PadVector(2, n)(x).sum(), x)) for n in (1, 0)]
            right = all(f(np.ones(3)).tolist() == [1, 1, 1] for f in gradients)
        """,
    ),
    PlantedFault(
        name="wraps_around_only_once",
        module="pad_vector",
        kind="length",
        why="The length is added or subtracted once: vectors that are shorter than the padding are read out of bounds.",
        file="pad_vector.c",
        old="            at %= length;\n            sources[i] = at < 0 ? at + length : at;",
        new="            sources[i] = at < 0 ? at + length : at - length;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.PadVector(3, 4, "wrap"), T.dvector())
            for n in (5, 4, 2, 1):
                both(np.arange(1.0, n + 1))
            right = True
        """,
    ),
    PlantedFault(
        name="fill_in_single_precision",
        module="pad_vector",
        kind="dtype",
        why="The fill value is converted to float32 also in float64 vectors, so 0.1 becomes 0.10000000149.",
        file="pad_vector.c",
        old="(DTYPE_OUTPUT_0)params->fill;",
        new="(npy_float32)params->fill;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for fill, dtype in ((1.5, "float64"), (0.1, "float32"), (0.1, "float64")):
                BothWays(op.PadVector(1, 1, fill=fill), T.vector(dtype=dtype))(np.ones(2, dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="vector_taken_as_contiguous",
        module="pad_vector",
        kind="layout",
        why="The elements of the input are read without its stride.",
        file="pad_vector.c",
        old="*(DTYPE_INPUT_0 *)PyArray_GETPTR1(x, sources[i]);",
        new="((DTYPE_INPUT_0 *)PyArray_DATA(x))[sources[i]];",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.PadVector(1, 1), T.dvector())
            both(np.arange(6.0))
            both(np.arange(6.0)[::-1])
            right = True
        """,
    ),
    PlantedFault(
        name="nothing_to_pad_returns_the_input",
        module="pad_vector",
        kind="aliasing",
        why="Without padding the C code returns the input itself, but no view_map declares this.",
        file="pad_vector.c",
        old="    npy_intp *sources = pad_vector_sources(length",
        new=(
            "    if (total == length) {\n"
            "        Py_INCREF(x);\n"
            "        Py_XDECREF(*y);\n"
            "        *y = x;\n"
            "        return 0;\n"
            "    }\n"
            "    npy_intp *sources = pad_vector_sources(length"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, ways = np.arange(3.0), [Way(op.PadVector(0, n), T.dvector()) for n in (1, 0)]
            right = not any(np.shares_memory(way(x)[0], x) for way in ways)
        """,
    ),
    PlantedFault(
        name="longer_output_kept",
        module="pad_vector",
        kind="output memory",
        why="An old output that is longer than the result is returned with its old length.",
        file="pad_vector.c",
        old="PyArray_DIM(*y, 0) != total",
        new="PyArray_DIM(*y, 0) < total",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.PadVector(1, 1), T.dvector())
            right = [len(way(np.ones(3), old=[np.zeros(n)])[0]) for n in (5, 4, 6)] == [5, 5, 5]
        """,
    ),
    PlantedFault(
        name="table_of_smaller_integers",
        module="pad_vector",
        kind="bounds",
        why="The table is allocated for int, but contains npy_intp: its second half lies beyond the allocated memory.",
        file="pad_vector.c",
        old="malloc((total + 1) * sizeof(npy_intp));",
        new="malloc((total + 1) * sizeof(int));",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way, x = Way(op.PadVector(3, 2, "wrap"), T.dvector()), np.arange(0.0, 300000.0)
            y = way(x)[0]
            for n in range(1, 2000):
                way(np.ones(n % 50 + 1))
            right = (y[3:-2] == x).all()
        """,
    ),
    PlantedFault(
        name="one_element_too_far",
        module="pad_vector",
        kind="bounds",
        why="The first new element behind the end is read from the memory behind the vector.",
        file="pad_vector.c",
        old="if (at >= 0 && at < length) {",
        new="if (at >= 0 && at <= length) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            ways = [Way(op.PadVector(2, after), T.dvector()) for after in (0, 1)]
            right = all(way(guarded(np.ones(4)))[0].sum() == 4 for way in ways)
        """,
    ),
    PlantedFault(
        name="old_output_never_released",
        module="pad_vector",
        kind="references",
        why="The pointer to the old output is overwritten without a release: outputs of other lengths stay forever.",
        file="pad_vector.c",
        old="        Py_XDECREF(*y);\n",
        new="",
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            old, way = np.zeros(9), Way(op.PadVector(1, 1), T.dvector())
            way(np.ones(3))
            before = sys.getrefcount(old)
            way(np.ones(3), old=[old])
            right = sys.getrefcount(old) == before
        """,
    ),
    PlantedFault(
        name="table_kept_after_an_error",
        module="pad_vector",
        kind="memory",
        why="The table is not freed if an empty vector cannot be padded.",
        file="pad_vector.c",
        old="            free(sources);\n            return NULL;",
        new="            return NULL;",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises, growth
            way = Way(op.PadVector(0, 2000, "wrap"), T.dvector())
            right = growth(lambda: assert_raises(ValueError, way, np.zeros(0)), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="table_never_freed",
        module="pad_vector",
        kind="memory",
        why="The table of sources is not freed after the elements have been copied.",
        file="pad_vector.c",
        old="    free(sources);\n    return 0;",
        new="    return 0;",
        witness="""
            from theano_ng.tests.authors.ways import Way, growth
            x, way = np.ones(2000), Way(op.PadVector(0, 2), T.dvector())
            right = growth(lambda: way(x), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="error_reported_as_success",
        module="pad_vector",
        kind="declaration",
        why="The C function returns 0 after an error: other C code of the same module continues without the output.",
        file="pad_vector.c",
        old="    if (sources == NULL)\n        return 1;",
        new="    if (sources == NULL)\n        return 0;",
        witness="""
            from theano_ng.tests.authors.ways import assert_raises
            x = T.dvector()
            f = theano.function([x], T.exp(op.PadVector(0, 2, "wrap")(x)), mode=theano.Mode(linker="c"))
            f(np.ones(3))
            assert_raises(ValueError, f, np.zeros(0))
            right = True
        """,
    ),
    PlantedFault(
        name="failure_without_an_exception",
        module="pad_vector",
        kind="declaration",
        why="The C function reports an error for empty vectors, but sets no exception.",
        file="pad_vector.c",
        old=(
            "PyErr_SetString(PyExc_ValueError, "
            "\"PadVector: an empty vector has elements only for the mode 'constant'\");"
        ),
        new="/* an empty vector has elements only for the mode 'constant' */",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.PadVector(0, 2, "wrap"), T.dvector())
            assert_raises(ValueError, way, np.zeros(0))
            right = True
        """,
    ),
    PlantedFault(
        name="fill_missing_in_props",
        module="pad_vector",
        kind="declaration",
        why="Ops that differ only in `fill` are equal, so one of them is computed for both.",
        file="pad_vector.py",
        old='__props__ = ("before", "after", "mode", "fill")',
        new='__props__ = ("before", "after", "mode")',
        witness="""
            x = T.dvector()
            y, z = theano.function([x], [op.PadVector(1, 0, fill=2)(x), op.PadVector(1, 0, fill=3)(x)])([1.0])
            right = y.tolist() == [2, 1] and z.tolist() == [3, 1]
        """,
    ),
    PlantedFault(
        name="equality_without_hash",
        module="pad_vector",
        kind="declaration",
        why="The class compares only the numbers of elements itself, so Ops with different modes are equal.",
        file="pad_vector.py",
        old="    def make_node(self, x):",
        new=(
            "    def __eq__(self, other):\n"
            "        return type(self) is type(other) and (self.before, self.after) == (other.before, other.after)\n"
            "\n"
            "    def make_node(self, x):"
        ),
        witness="""
            one, other = op.PadVector(1, 2, "wrap"), op.PadVector(1, 2, "nearest")
            right = one != other and hash(one) == hash(op.PadVector(1, 2, "wrap"))
        """,
    ),
    PlantedFault(
        name="pattern_of_the_short_vector",
        module="pad_vector",
        kind="declaration",
        why="The output of a vector of length 1 is declared to have length 1, too.",
        file="pad_vector.py",
        old="[T.vector(dtype=x.dtype)]",
        new="[x.type()]",
        witness="""
            x, y = T.TensorType("float64", (True,))(), T.dvector()
            f = theano.function([x, y], op.PadVector(1, 1)(x) + y)
            right = f(np.ones(1), np.zeros(3)).tolist() == [0, 1, 0]
        """,
    ),
    PlantedFault(
        name="reflection_in_one_element",
        module="pad_vector",
        kind="process",
        why="The period of reflections is 0 for a vector of one element, so the loop never ends.",
        file="pad_vector.c",
        old=(
            "            const npy_intp period = length > 1 ? 2 * (length - 1) : 1;\n"
            "            at %= period;\n"
            "            if (at < 0)\n"
            "                at += period;\n"
        ),
        new=(
            "            const npy_intp period = 2 * (length - 1);\n"
            "            while (at < 0)\n"
            "                at += period;\n"
            "            while (at >= period)\n"
            "                at -= period;\n"
        ),
        witness="""
            import signal
            from theano_ng.tests.authors.ways import Way
            way = Way(op.PadVector(1, 2, "reflect"), T.dvector())
            signal.alarm(10)
            right = [way(x)[0].tolist() for x in (np.arange(2.0), np.ones(1))] == [[1, 0, 1, 0, 1], [1, 1, 1, 1]]
        """,
    ),
    PlantedFault(
        name="remainder_of_an_empty_vector",
        module="pad_vector",
        kind="length",
        why="Without the check for empty vectors, the C code divides by zero and copies from other memory.",
        file="pad_vector.c",
        old="else if (length == 0) {",
        new="else if (length < 0) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.PadVector(1, 2, "wrap"), T.dvector())
            way(np.ones(1))
            assert_raises(ValueError, way, np.zeros(0))
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_repeated_elements",
        module="pad_vector",
        kind="gradient",
        why="set_subtensor keeps only one of the gradients of an element that occurs several times.",
        file="pad_vector.py",
        old="T.inc_subtensor(T.zeros_like(x)[sources], g)",
        new="T.set_subtensor(T.zeros_like(x)[sources], g)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for op_ in (op.PadVector(1, 2), op.PadVector(1, 2, "wrap")):
                utt.verify_grad(op_, [np.ones(3)])
            right = True
        """,
    ),
    PlantedFault(
        name="fill_in_the_tangent",
        module="pad_vector",
        kind="gradient",
        why="R_op pads the tangent with `fill`, but the derivative of a constant is 0.",
        file="pad_vector.py",
        old="return [PadVector(self.before, self.after, self.mode)(eval_points[0])]",
        new="return [self(eval_points[0])]",
        witness="""
            x, v = T.dvectors("x", "v")
            products = [T.Rop(op.PadVector(1, 1, fill=fill)(x), x, v) for fill in (0, 2)]
            right = all(product.eval({v: np.array([3.0])}).tolist() == [0, 3, 0] for product in products)
        """,
    ),
    PlantedFault(
        name="shape_of_symmetric_padding",
        module="pad_vector",
        kind="shape",
        why="infer_shape counts the elements before the vector twice instead of those behind it.",
        file="pad_vector.py",
        old="shapes[0][0] + (self.before + self.after)",
        new="shapes[0][0] + 2 * self.before",
        witness="""
            x = T.dvector()
            right = [theano.function([x], op.PadVector(2, n)(x).shape)(np.ones(3))[0] for n in (2, 1)] == [7, 6]
        """,
    ),
]
