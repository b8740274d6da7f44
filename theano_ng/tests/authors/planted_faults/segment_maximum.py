"""Faults planted in SegmentMaximum."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="empty_wins_against_values",
        module="segment_maximum",
        kind="parameter",
        why="Values are compared with `empty`, so smaller values are ignored unless `empty` is minus infinity.",
        file="segment_maximum.py",
        old="if (*at < 0 || value > *best ||",
        new="if (value > *best || (value == *best && *at < 0) ||",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for empty in (-np.inf, -5.0, 0.0):
                BothWays(op.SegmentMaximum(empty), T.dvector(), T.lvector(), 2)(np.array([-1.0]), np.array([0]))
            right = True
        """,
    ),
    PlantedFault(
        name="surplus_segment_numbers_accepted",
        module="segment_maximum",
        kind="length",
        why="The C code accepts more segment numbers than values, which perform refuses.",
        file="segment_maximum.py",
        old="if (PyArray_DIM(%(segments)s, 0) != size) {",
        new="if (PyArray_DIM(%(segments)s, 0) < size) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for n in (1, 3):
                assert_raises(ValueError, way, np.ones(2), np.zeros(n, "int64"))
            right = True
        """,
    ),
    PlantedFault(
        name="nan_never_wins",
        module="segment_maximum",
        kind="value",
        why="A NaN is never larger, so it counts only if it is the first value of its segment.",
        file="segment_maximum.py",
        old=" || (value != value && *best == *best)) {",
        new=") {",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            both(np.array([np.nan, 3.0]), np.array([0, 0]))
            both(np.array([3.0, np.nan]), np.array([0, 0]))
            right = True
        """,
    ),
    PlantedFault(
        name="last_of_equal_values",
        module="segment_maximum",
        kind="value",
        why="Among equal values the C code chooses the last position, and perform the first.",
        file="segment_maximum.py",
        old="if (*at < 0 || value > *best ||",
        new="if (*at < 0 || value >= *best ||",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            both(np.array([3.0, 2.0]), np.array([0, 0]))
            both(np.array([3.0, 3.0]), np.array([0, 0]))
            right = True
        """,
    ),
    PlantedFault(
        name="segment_numbers_cut_to_32_bits",
        module="segment_maximum",
        kind="value",
        why="The C code keeps segment numbers in 32 bits, so 2**32 is taken for the segment 0.",
        file="segment_maximum.py",
        old="const npy_int64 segment = ",
        new="const npy_int32 segment = (npy_int32)",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for bad in (2, 2**32):
                assert_raises(IndexError, way, np.ones(1), np.array([bad]))
            right = True
        """,
    ),
    PlantedFault(
        name="segment_numbers_read_as_int64",
        module="segment_maximum",
        kind="dtype",
        why="Segment numbers of dtype int32 are read as 8 bytes each.",
        file="segment_maximum.py",
        old="*(const %(itype)s *)PyArray_GETPTR1(%(segments)s, i);",
        new="*(const npy_int64 *)PyArray_GETPTR1(%(segments)s, i);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("int64", "int32"):
                segments = np.array([0, 1, 1], dtype)
                BothWays(op.SegmentMaximum(), T.dvector(), T.vector(dtype=dtype), 2)(np.ones(2), segments[:2])
            right = True
        """,
    ),
    PlantedFault(
        name="positions_like_segment_numbers",
        module="segment_maximum",
        kind="dtype",
        why="perform returns positions of the dtype of the segment numbers instead of int64.",
        file="segment_maximum.py",
        old='position = np.full(count, -1, "int64")',
        new="position = np.full(count, -1, segments.dtype)",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("int64", "int32"):
                both = BothWays(op.SegmentMaximum(), T.dvector(), T.vector(dtype=dtype), 2)
                both(np.ones(2), np.array([0, 1], dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="segment_numbers_taken_as_contiguous",
        module="segment_maximum",
        kind="layout",
        why="The segment numbers are read without their stride.",
        file="segment_maximum.py",
        old="*(const %(itype)s *)PyArray_GETPTR1(%(segments)s, i);",
        new="((const %(itype)s *)PyArray_DATA(%(segments)s))[i];",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both, segments = BothWays(op.SegmentMaximum(), T.dvector(), T.lvector(), 2), np.array([1, 1, 0, 0])
            both(np.arange(8.0)[::2], segments)
            both(np.arange(2.0), segments[::2])
            right = True
        """,
    ),
    PlantedFault(
        name="positions_of_the_last_call",
        module="segment_maximum",
        kind="output memory",
        why="The positions are not reset, so those of the last call are compared and returned.",
        file="segment_maximum.py",
        old="                *(npy_int64 *)PyArray_GETPTR1(%(position)s, k) = -1;\n",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            olds = [[np.zeros(2), np.full(2, position)] for position in (-1, 5)]
            right = all(way(np.ones(1), np.array([1]), old=old)[1].tolist() == [-1, 0] for old in olds)
        """,
    ),
    PlantedFault(
        name="segment_number_equal_to_count",
        module="segment_maximum",
        kind="bounds",
        why="The number of segments itself is accepted as a segment number: the code writes beyond both outputs.",
        file="segment_maximum.py",
        old="if (segment < 0 || segment >= count) {",
        new="if (segment < 0 || segment > count) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for bad in (-1, 3, 2):
                assert_raises(IndexError, way, np.ones(1), np.array([bad]))
            right = True
        """,
    ),
    PlantedFault(
        name="negative_segment_number",
        module="segment_maximum",
        kind="bounds",
        why="Negative segment numbers are not refused: the code writes before the beginning of both outputs.",
        file="segment_maximum.py",
        old="if (segment < 0 || segment >= count) {",
        new="if (segment >= count) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for bad in (2, -1):
                assert_raises(IndexError, way, np.ones(1), np.array([bad]))
            right = True
        """,
    ),
    PlantedFault(
        name="message_reads_the_next_number",
        module="segment_maximum",
        kind="bounds",
        why="The error message contains the segment number after the wrong one, which may lie beyond the array.",
        file="segment_maximum.py",
        old="(long long)segment, (Py_ssize_t)(count - 1));",
        new=(
            "(long long)*(const %(itype)s *)PyArray_GETPTR1(%(segments)s, i + 1),\n"
            "                                 (Py_ssize_t)(count - 1));"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises, guarded
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            assert_raises(IndexError, way, np.ones(2), guarded(np.array([7, 0])))
            assert_raises(IndexError, way, np.ones(2), guarded(np.array([0, 7])))
            right = True
        """,
    ),
    PlantedFault(
        name="descriptor_stolen",
        module="segment_maximum",
        kind="references",
        why="PyArray_NewFromDescr takes over a reference to the dtype that the code does not own.",
        file="segment_maximum.py",
        old="PyArray_SimpleNew(1, &count, PyArray_TYPE(%(values)s));",
        new=(
            "PyArray_NewFromDescr(\n"
            "                    &PyArray_Type, PyArray_DESCR(%(values)s), 1, &count, NULL, NULL, 0, NULL);"
        ),
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SegmentMaximum(), T.fvector(), T.lvector(), 2)
            values, kind = np.ones(1, "float32"), np.dtype("float32")
            held = [kind] * 1000
            before = sys.getrefcount(kind)
            for _ in range(500):
                way(values, np.array([0]))
            right = abs(sys.getrefcount(kind) - before) < 100
        """,
    ),
    PlantedFault(
        name="values_declared_disconnected",
        module="segment_maximum",
        kind="gradient",
        why="connection_pattern declares that the maxima do not depend on the values, so the gradient is lost.",
        file="segment_maximum.py",
        old="return [[True, False], [False, False], [False, False]]",
        new="return [[False, False], [False, False], [False, False]]",
        witness="""
            x, s = T.dvector(), T.lvector()
            gradient = T.grad(op.SegmentMaximum()(x, s, 2)[0].sum(), x)
            right = theano.function([x, s], gradient)([1.0, 2.0], [0, 0]).tolist() == [0, 1]
        """,
    ),
    PlantedFault(
        name="gradient_of_empty_segments",
        module="segment_maximum",
        kind="gradient",
        why="The position -1 of an empty segment is used as an index: the last value gets the gradient of the segment.",
        file="segment_maximum.py",
        old="T.zeros_like(values)[position[found]], output_grads[0][found]",
        new="T.zeros_like(values)[position], output_grads[0]",
        witness="""
            x, s, n = T.dvector(), T.lvector(), T.lscalar()
            f = theano.function([x, s, n], T.grad(op.SegmentMaximum(0)(x, s, n)[0].sum(), x))
            right = all(f([2.0, 1.0], [0, 0], count).tolist() == [1, 0] for count in (1, 2))
        """,
    ),
    PlantedFault(
        name="shape_of_the_values",
        module="segment_maximum",
        kind="shape",
        why="infer_shape gives the positions the length of the values instead of the number of segments.",
        file="segment_maximum.py",
        old="return [(node.inputs[2],), (node.inputs[2],)]",
        new="return [(node.inputs[2],), shapes[0]]",
        witness="""
            x, s = T.dvector(), T.lvector()
            maximum, position = op.SegmentMaximum()(x, s, 3)
            f = theano.function([x, s], [maximum.shape, position.shape])
            right = all(f(np.ones(n), np.zeros(n, "int64"))[1][0] == 3 for n in (3, 2))
        """,
    ),
    PlantedFault(
        name="shape_of_one_output_missing",
        module="segment_maximum",
        kind="shape",
        why="infer_shape returns the shape of the maxima only, so the Op must be computed for the other shape.",
        file="segment_maximum.py",
        old="return [(node.inputs[2],), (node.inputs[2],)]",
        new="return [(node.inputs[2],)]",
        witness="""
            x, s = T.dvector(), T.lvector()
            f = theano.function([x, s], op.SegmentMaximum()(x, s, 3)[1].shape, on_unused_input="ignore")
            ops = [type(node.op) for node in f.maker.fgraph.toposort()]
            right = f(np.ones(2), np.zeros(2, "int64"))[0] == 3 and op.SegmentMaximum not in ops
        """,
    ),
    PlantedFault(
        name="positions_declared_like_segments",
        module="segment_maximum",
        kind="declaration",
        why="make_node declares positions of the dtype of the segment numbers, but they are computed as int64.",
        file="segment_maximum.py",
        old="T.lvector()])",
        new="segments.type()])",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("int64", "int32"):
                both = BothWays(op.SegmentMaximum(), T.dvector(), T.vector(dtype=dtype), 2)
                both(np.ones(2), np.array([0, 1], dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="number_of_segments_lost",
        module="segment_maximum",
        kind="declaration",
        why="make_node replaces a number of segments that is given as a number by a new variable without value.",
        file="segment_maximum.py",
        old='count = np.asarray(count, "int64")',
        new='count = T.lscalar("count")',
        witness="""
            x, s = T.dvector(), T.lvector()
            f = theano.function([x, s], op.SegmentMaximum(0)(x, s, 2))
            right = f([1.0], [1])[0].tolist() == [0, 1]
        """,
    ),
    PlantedFault(
        name="failure_without_message",
        module="segment_maximum",
        kind="declaration",
        why="The C code fails for a negative number of segments without an exception.",
        file="segment_maximum.py",
        old='PyErr_Format(PyExc_ValueError, "SegmentMaximum: %%zd segments", (Py_ssize_t)count);',
        new="/* the number of segments is negative */",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), T.lscalar())
            assert_raises(ValueError, way, np.ones(0), np.zeros(0, "int64"), np.array(-2))
            right = True
        """,
    ),
    PlantedFault(
        name="error_does_not_leave_the_loop",
        module="segment_maximum",
        kind="declaration",
        why="The C code sets an exception for a wrong segment number, but continues and uses the number as an index.",
        file="segment_maximum.py",
        old="(long long)segment, (Py_ssize_t)(count - 1));\n                    %(fail)s",
        new="(long long)segment, (Py_ssize_t)(count - 1));",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for bad in (-1, 2**50):
                assert_raises(IndexError, way, np.ones(1), np.array([bad]))
            right = True
        """,
    ),
    PlantedFault(
        name="positions_remembered_by_count",
        module="segment_maximum",
        kind="state",
        why="perform keeps its array of positions for the next call with the same number of segments, without a reset.",
        file="segment_maximum.py",
        old='position = np.full(count, -1, "int64")',
        new='position = vars(self).setdefault("positions", {}).setdefault(count, np.full(count, -1, "int64"))',
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2, impl="py")
            first = [one.copy() for one in way(np.array([5.0]), np.array([0]))]
            second = way(np.array([3.0]), np.array([1]))
            right = first[1].tolist() == [0, -1] and second[1].tolist() == [-1, 0]
        """,
    ),
    PlantedFault(
        name="result_remembered_by_identity",
        module="segment_maximum",
        kind="state",
        why="perform returns the last result if it gets the same array again, although its content may have changed.",
        file="segment_maximum.py",
        old="        output_storage[0][0], output_storage[1][0] = maximum, position\n",
        new=(
            '        memo = vars(self).setdefault("memo", {})\n'
            "        maximum, position = memo.setdefault((id(inputs[0]), id(segments), count), (maximum, position))\n"
            "        output_storage[0][0], output_storage[1][0] = maximum.copy(), position.copy()\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2, impl="py")
            values, segments = np.array([5.0]), np.array([0])
            way(values, segments)
            values[0] = 7
            right = way(values, segments)[0][0] == 7
        """,
    ),
]
