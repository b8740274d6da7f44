"""Faults planted in RaggedSum."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="first_row_taken_as_longest",
        module="ragged_sum",
        kind="bounds",
        why="Only the first row that is not None determines the length: longer rows are added beyond the sums.",
        file="ragged_sum.py",
        old="if (PySequence_Fast_GET_SIZE(row) > longest)",
        new="if (longest == 0)",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RaggedSum(), Generic()())
            both(((1.0, 2.0), None, [3.0]))
            both(((1.0,), (2.0, 3.0)))
            right = True
        """,
    ),
    PlantedFault(
        name="empty_rows_end_the_sum",
        module="ragged_sum",
        kind="length",
        why="An empty row is taken for the end of the rows, so the rows after it are not added.",
        file="ragged_sum.py",
        old="entry = PyLong_FromSsize_t(PySequence_Fast_GET_SIZE(row));",
        new=(
            "entry = PyLong_FromSsize_t(PySequence_Fast_GET_SIZE(row));\n"
            "                    if (PySequence_Fast_GET_SIZE(row) == 0)\n"
            "                        longest = 0;"
        ),
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RaggedSum(), Generic()())
            both(((1.0, 2.0), None))
            both(((), (2.0,)))
            right = True
        """,
    ),
    PlantedFault(
        name="integers_beyond_64_bits",
        module="ragged_sum",
        kind="value",
        why="Integers are converted to a C long first, so integers from 2**63 on raise an OverflowError.",
        file="ragged_sum.py",
        old="value = PyFloat_AsDouble(item);",
        new="value = PyLong_Check(item) ? (double)PyLong_AsLong(item) : PyFloat_AsDouble(item);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RaggedSum(), Generic()())
            both(((1, -(2**63), 2.5),))
            both(((2**63,),))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_allocated_as_double",
        module="ragged_sum",
        kind="dtype",
        why="The sum is always allocated as float64, but filled with numbers of the dtype of the Op.",
        file="ragged_sum.py",
        old="PyArray_SimpleNew(1, &longest, %(typenum)s);",
        new="PyArray_SimpleNew(1, &longest, NPY_DOUBLE);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "float32"):
                BothWays(op.RaggedSum(dtype), Generic()())(((1.0, 2.0),))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_of_perform_not_rounded",
        module="ragged_sum",
        kind="dtype",
        why="perform returns float64, also for dtype='float32'.",
        file="ragged_sum.py",
        old='np.array(total, "float64").astype(self.dtype)',
        new='np.array(total, "float64")',
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "float32"):
                BothWays(op.RaggedSum(dtype), Generic()())(((1.0, 2.0),))
            right = True
        """,
    ),
    PlantedFault(
        name="scratch_not_cleared",
        module="ragged_sum",
        kind="output memory",
        why="malloc does not clear the sums, so they begin with what the memory contained before.",
        file="ragged_sum.py",
        old="calloc(longest + 1, sizeof(double));",
        new="malloc((longest + 1) * sizeof(double));",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RaggedSum(), Generic()())
            right = all((way(((2.0,) * n,))[0] == 2).all() for n in (1, 5, 20, 100) for _ in range(50))
        """,
    ),
    PlantedFault(
        name="reference_to_none_missing",
        module="ragged_sum",
        kind="references",
        why="PyTuple_SET_ITEM takes over a reference to None that the code does not own.",
        file="ragged_sum.py",
        old="                    Py_INCREF(entry);\n",
        new="",
        witness="""
            import sys
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RaggedSum(), Generic()())
            rows, before = (None, (1.0,)), sys.getrefcount(None)
            for _ in range(100):
                way(rows)
            right = abs(sys.getrefcount(None) - before) < 50
        """,
    ),
    PlantedFault(
        name="old_lengths_never_released",
        module="ragged_sum",
        kind="references",
        why="The pointer to the old tuple of lengths is overwritten without a release.",
        file="ragged_sum.py",
        old="            Py_XDECREF(%(lengths)s);\n",
        new="",
        witness="""
            import sys
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way, old = Way(op.RaggedSum(), Generic()()), tuple([1, 2])
            way((None,), old=[None, old])
            way((None,))
            right = sys.getrefcount(old) == 2
        """,
    ),
    PlantedFault(
        name="number_counted_but_not_released",
        module="ragged_sum",
        kind="references",
        why="Each number gets a new reference that is never released, although the tuple keeps it alive anyway.",
        file="ragged_sum.py",
        old="PyObject *item = PySequence_Fast_GET_ITEM(row, i);",
        new="PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(row, i));",
        witness="""
            import sys
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way, number = Way(op.RaggedSum(), Generic()()), float("2.5")
            rows, before = ((number,),), sys.getrefcount(number)
            for _ in range(10):
                way(rows)
            right = sys.getrefcount(number) == before
        """,
    ),
    PlantedFault(
        name="lengths_kept_after_an_error",
        module="ragged_sum",
        kind="references",
        why="The tuple of lengths is not released if a later item is no number.",
        file="ragged_sum.py",
        old="                if (entry == NULL) {\n                    Py_DECREF(counts);\n",
        new="                if (entry == NULL) {\n",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, assert_raises, growth
            way, rows = Way(op.RaggedSum(), Generic()()), (None,) * 1000 + ("x",)
            way(rows[:1])
            rows = rows[:1000] + (["x"],)
            right = growth(lambda: assert_raises(TypeError, way, rows), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="reference_of_error_taken_from_row",
        module="ragged_sum",
        kind="references",
        why="After an error the code releases the wrong item, a reference that belongs to the row.",
        file="ragged_sum.py",
        old="                            Py_CLEAR(entry);",
        new="                            Py_CLEAR(entry);\n                            Py_DECREF(item);",
        witness="""
            import sys
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, assert_raises
            way, bad = Way(op.RaggedSum(), Generic()()), object()
            held = [bad] * 100
            rows, before = ((bad,),), sys.getrefcount(bad)
            for _ in range(10):
                assert_raises(TypeError, way, rows)
            right = sys.getrefcount(bad) == before
        """,
    ),
    PlantedFault(
        name="sums_never_freed",
        module="ragged_sum",
        kind="memory",
        why="The sums are not freed after they have been copied to the output.",
        file="ragged_sum.py",
        old="            free(sums);\n            Py_XDECREF(%(lengths)s);",
        new="            Py_XDECREF(%(lengths)s);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, growth
            way, rows = Way(op.RaggedSum(), Generic()()), ((1.0,) * 1000,)
            right = growth(lambda: way(rows), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="sums_kept_after_an_error",
        module="ragged_sum",
        kind="memory",
        why="The sums are not freed if an item is no number.",
        file="ragged_sum.py",
        old=(
            "                    free(sums);\n"
            "                    %(fail)s\n"
            "                }\n"
            "                PyTuple_SET_ITEM(counts, k, entry);"
        ),
        new="                    %(fail)s\n                }\n                PyTuple_SET_ITEM(counts, k, entry);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, assert_raises, growth
            way, rows = Way(op.RaggedSum(), Generic()()), ((1.0,) * 1000 + ("x",),)
            right = growth(lambda: assert_raises(TypeError, way, rows), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="wrong_items_count_as_zero",
        module="ragged_sum",
        kind="declaration",
        why="An item that is no number is ignored in C, but perform raises an error.",
        file="ragged_sum.py",
        old="Py_CLEAR(entry);",
        new="PyErr_Clear();",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.RaggedSum(), Generic()())
            way(((1.0,),))
            assert_raises(TypeError, way, ((1.0, "x"),))
            right = True
        """,
    ),
    PlantedFault(
        name="lists_read_as_tuples",
        module="ragged_sum",
        kind="process",
        why="The items of lists are read by the macro for tuples, which reads other memory and kills the process.",
        file="ragged_sum.py",
        old="PySequence_Fast_GET_ITEM(row, i);",
        new="PyTuple_GET_ITEM(row, i);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RaggedSum(), Generic()())
            both(((1.0, 2.0),))
            both(([1.0, 2.0, 3.0],))
            right = True
        """,
    ),
    PlantedFault(
        name="longest_row_of_all_calls",
        module="ragged_sum",
        kind="state",
        why="The longest length is a static variable, so results are as long as the longest row of any earlier call.",
        file="ragged_sum.py",
        old="npy_intp longest = 0;",
        new="static npy_intp longest = 0;",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RaggedSum(), Generic()())
            right = [len(way(((1.0,) * n,))[0]) for n in (2, 3, 1)] == [2, 3, 1]
        """,
    ),
]
