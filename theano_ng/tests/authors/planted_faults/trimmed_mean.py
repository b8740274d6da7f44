"""Faults planted in TrimmedMean."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="rows_of_exactly_twice_trim",
        module="trimmed_mean",
        kind="length",
        why="Rows of exactly 2 * trim elements are accepted in C, and their mean is 0 / 0.",
        file="trimmed_mean.py",
        old="if (columns <= 2 * trim) {",
        new="if (columns < 2 * trim) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.TrimmedMean(2, False), T.dmatrix())
            for n in (3, 2, 4):
                assert_raises(ValueError, way, np.ones((2, n)))
            right = True
        """,
    ),
    PlantedFault(
        name="long_rows_only_partly_sorted",
        module="trimmed_mean",
        kind="length",
        why="A faster branch for rows of more than 64 elements separates the smallest elements, but not the largest.",
        file="trimmed_mean.py",
        old="std::sort(row, row + columns);",
        new=(
            "if (columns <= 64)\n"
            "                        std::sort(row, row + columns);\n"
            "                    else\n"
            "                        std::nth_element(row, row + trim, row + columns);"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.TrimmedMean(3, False), T.dmatrix(), ulps=16)
            for n in (7, 64, 65):
                both((np.arange(2.0 * n) * 7 % 11).reshape(2, n))
            right = True
        """,
    ),
    PlantedFault(
        name="nan_in_the_middle_forgotten",
        module="trimmed_mean",
        kind="value",
        why="Each element overwrites the note that a NaN was found, so only a NaN at the end counts.",
        file="trimmed_mean.py",
        old="nan = nan || std::isnan(row[j]);",
        new="nan = std::isnan(row[j]);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.TrimmedMean(1, False), T.dmatrix())
            both(np.array([[1, 2, 4, np.nan]]))
            both(np.array([[np.nan, 1, 2, 4]]))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_overflows_in_single_precision",
        module="trimmed_mean",
        kind="value",
        why="The C code adds float32 numbers in float32: the sum of large numbers is infinite, but their mean is not.",
        file="trimmed_mean.py",
        old="double total = 0;",
        new="number total = 0;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.TrimmedMean(0, False), T.fmatrix(), ulps=4)
            both(np.array([[1, 2.5, 3]], "float32"))
            both(np.array([[3e38, 3e38, 3e38]], "float32"))
            right = True
        """,
    ),
    PlantedFault(
        name="elements_of_eight_bytes",
        module="trimmed_mean",
        kind="dtype",
        why="The distance of elements is 8 bytes, which is wrong for float32.",
        file="trimmed_mean.py",
        old="*(const number *)PyArray_GETPTR2(%(x)s, i, j);",
        new="*(const number *)((const char *)PyArray_GETPTR1(%(x)s, i) + 8 * j);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "float32"):
                both = BothWays(op.TrimmedMean(0, False), T.matrix(dtype=dtype), ulps=4)
                both(np.arange(6).reshape(2, 3).astype(dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="row_taken_as_contiguous",
        module="trimmed_mean",
        kind="layout",
        why="The elements of a row are read without the stride of the columns.",
        file="trimmed_mean.py",
        old="*(const number *)PyArray_GETPTR2(%(x)s, i, j);",
        new="((const number *)PyArray_GETPTR1(%(x)s, i))[j];",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both, x = BothWays(op.TrimmedMean(0, False), T.dmatrix(), ulps=4), np.arange(20.0).reshape(4, 5)
            both(x[::-2])
            both(x[:, ::-2])
            right = True
        """,
    ),
    PlantedFault(
        name="rows_with_nan_left_unwritten",
        module="trimmed_mean",
        kind="output memory",
        why="Rows with a NaN are left out, so their results are what the memory contained before.",
        file="trimmed_mean.py",
        old="total = NPY_NAN;",
        new="continue;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.TrimmedMean(0, False), T.dmatrix())
            means = [way(np.array([[1.0, x, 3]]), old=[np.full(1, 77.0)])[0][0] for x in (2, np.nan)]
            right = means[0] == 2 and np.isnan(means[1])
        """,
    ),
    PlantedFault(
        name="end_of_the_sorted_range",
        module="trimmed_mean",
        kind="bounds",
        why="One element behind the row is sorted, too: it comes from other memory, or from the row of another thread.",
        file="trimmed_mean.py",
        old="std::sort(row, row + columns);",
        new="std::sort(row, row + columns + 1);",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.TrimmedMean(0, False), T.dmatrix())
            right = all((way(np.full((2, n), 3.0))[0] == 3).all() for n in (3, 5, 7, 9, 11))
        """,
    ),
    PlantedFault(
        name="scratch_never_freed",
        module="trimmed_mean",
        kind="memory",
        why="The scratch memory of the threads is not freed.",
        file="trimmed_mean.py",
        old="            free(scratch);\n",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way, growth
            x, way = np.ones((2, 1000)), Way(op.TrimmedMean(0, False), T.dmatrix())
            right = growth(lambda: way(x), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="rows_sorted_in_place",
        module="trimmed_mean",
        kind="aliasing",
        why="perform sorts the rows of its input.",
        file="trimmed_mean.py",
        old="        ordered = np.sort(x, axis=1)  # NaN is last\n",
        new="        x.sort(axis=1)  # NaN is last\n        ordered = x\n",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.TrimmedMean(1, False), T.dmatrix(), impl="py")
            for values in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0]):
                x = np.array([values])
                way(x)
                right = x.tolist() == [values]
        """,
    ),
    PlantedFault(
        name="scratch_shared_by_threads",
        module="trimmed_mean",
        kind="state",
        why="All threads use the first part of the scratch memory, so they disturb each other.",
        file="trimmed_mean.py",
        old="scratch + %(thread)s * columns;",
        new="scratch;",
        witness="""
            import os
            os.environ["OMP_NUM_THREADS"] = "4"
            from theano_ng.tests.authors.ways import Way
            x = np.random.RandomState(1).normal(size=(3000, 200))
            one, many = (Way(op.TrimmedMean(3, openmp), T.dmatrix()) for openmp in (False, True))
            right = all((many(x)[0] == one(x)[0]).all() for _ in range(20))
        """,
    ),
    PlantedFault(
        name="gradient_divided_by_all_columns",
        module="trimmed_mean",
        kind="gradient",
        why="The derivatives are divided by the number of all columns instead of the columns that are kept.",
        file="trimmed_mean.py",
        old="T.cast(count, x.dtype)",
        new="T.cast(x.shape[1], x.dtype)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for trim in (0, 1):
                utt.verify_grad(op.TrimmedMean(trim), [np.arange(10.0).reshape(2, 5)])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_without_trimming",
        module="trimmed_mean",
        kind="gradient",
        why="The slice [trim:-trim] is empty for trim=0, so the gradient is 0.",
        file="trimmed_mean.py",
        old="[:, self.trim : self.trim + count]",
        new="[:, self.trim : -self.trim]",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for trim in (1, 0):
                utt.verify_grad(op.TrimmedMean(trim), [np.arange(10.0).reshape(2, 5)])
            right = True
        """,
    ),
    PlantedFault(
        name="mean_of_each_column",
        module="trimmed_mean",
        kind="shape",
        why="infer_shape returns the number of columns instead of the number of rows.",
        file="trimmed_mean.py",
        old="return [(shapes[0][0],)]",
        new="return [(shapes[0][1],)]",
        witness="""
            x = T.dmatrix()
            f = theano.function([x], op.TrimmedMean(1)(x).shape)
            right = f(np.ones((4, 4)))[0] == 4 and f(np.ones((3, 4)))[0] == 3
        """,
    ),
    PlantedFault(
        name="version_without_threads",
        module="trimmed_mean",
        kind="declaration",
        why="The cache version is equal with and without OpenMP, although the C code differs.",
        file="trimmed_mean.py",
        old="return (1, self.openmp)",
        new="return (1,)",
        witness="""
            ops = [op.TrimmedMean(1, openmp) for openmp in (False, True)]
            node = ops[0].make_node(T.dmatrix())
            codes = [one.c_code(node, "n", ["x"], ["y"], {"fail": "", "params": "p"}) for one in ops]
            right = len(set(codes)) == len({one.c_code_cache_version() for one in ops})
        """,
    ),
    PlantedFault(
        name="short_rows_only_warned_about",
        module="trimmed_mean",
        kind="declaration",
        why="The C code gives a warning for short rows and returns the mean of nothing, but perform raises an error.",
        file="trimmed_mean.py",
        old=(
            'PyErr_Format(PyExc_ValueError, "TrimmedMean: rows of %%zd elements are too short for trim=%%zd",\n'
            "                             (Py_ssize_t)columns, (Py_ssize_t)trim);\n"
            "                %(fail)s"
        ),
        new='PyErr_WarnEx(PyExc_RuntimeWarning, "TrimmedMean: the rows are too short", 1);',
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.TrimmedMean(1, False), T.dmatrix())
            way(np.ones((2, 3)))
            assert_raises(ValueError, way, np.ones((2, 2)))
            right = True
        """,
    ),
    PlantedFault(
        name="fewer_rows_than_threads",
        module="trimmed_mean",
        kind="process",
        why="Each chunk has rows / threads rows: with fewer rows than threads, they are empty and the loop never ends.",
        file="trimmed_mean.py",
        old="schedule(static)",
        new="schedule(static, rows / threads)",
        witness="""
            import os, signal
            os.environ["OMP_NUM_THREADS"] = "4"
            from theano_ng.tests.authors.ways import Way
            way = Way(op.TrimmedMean(0, True), T.dmatrix())
            signal.alarm(20)
            right = all((way(np.ones((n, 3)))[0] == 1).all() for n in (8, 5, 3))
        """,
    ),
]
