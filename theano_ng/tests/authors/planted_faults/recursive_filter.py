"""Faults planted in RecursiveFilter."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="rate_above_one_clipped",
        module="recursive_filter",
        kind="parameter",
        why="The C code limits the rate to 1, because the author thought of filters that decay.",
        file="recursive_filter.py",
        old="const double rate = %(params)s->rate;",
        new="const double rate = %(params)s->rate > 1 ? 1 : %(params)s->rate;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for rate in (0.5, -3, 1, 2):
                BothWays(op.RecursiveFilter(rate), T.dvector())(np.arange(1.0, 4))
            right = True
        """,
    ),
    PlantedFault(
        name="zero_rate_forgets_infinity",
        module="recursive_filter",
        kind="parameter",
        why="A filter without memory copies x in a faster way, which forgets that 0 * inf is NaN.",
        file="recursive_filter.py",
        old="value = rate * value + *(const number *)from;",
        new="value = (rate == 0 ? 0.0 : rate * value) + *(const number *)from;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for rate, x in ((0.5, [np.inf, 1]), (0, [3, 1]), (0, [np.inf, 1])):
                BothWays(op.RecursiveFilter(rate), T.dvector())(np.array(x, "float64"))
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_an_empty_vector",
        module="recursive_filter",
        kind="length",
        why="The gradient of the start reads the first element, which an empty vector does not have.",
        file="recursive_filter.py",
        old="rate * gradient[:1].sum()",
        new="rate * gradient[0]",
        witness="""
            x, start = T.dvector(), T.dscalar()
            f = theano.function([x, start], T.grad(op.RecursiveFilter(0.5)(x, start).sum(), start))
            right = [float(f(np.ones(n), 2.0)) for n in (2, 1, 0)] == [0.75, 0.5, 0]
        """,
    ),
    PlantedFault(
        name="value_rounded_in_each_step",
        module="recursive_filter",
        kind="value",
        why="The C code keeps float32 values between the steps: they overflow, although later results are finite.",
        file="recursive_filter.py",
        old="double value = *(const number *)PyArray_DATA(%(start)s);",
        new="number value = *(const number *)PyArray_DATA(%(start)s);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RecursiveFilter(0.5), T.fvector(), ulps=4)
            both(np.array([1, 2, 3], "float32"))
            both(np.array([3e38, 3e38, -3e38], "float32"))
            right = True
        """,
    ),
    PlantedFault(
        name="small_values_set_to_zero",
        module="recursive_filter",
        kind="value",
        why="The C code replaces values below 1e-30 by 0 to avoid slow denormal numbers, but they are normal numbers.",
        file="recursive_filter.py",
        old="                *(number *)to = (number)value;",
        new=(
            "                if (value < 1e-30 && value > -1e-30)\n"
            "                    value = 0;\n"
            "                *(number *)to = (number)value;"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RecursiveFilter(0.5), T.dvector(), ulps=4)
            both(np.array([1.0, -1.0]))
            both(np.array([1e-31, -1.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="start_read_as_double",
        module="recursive_filter",
        kind="dtype",
        why="The start is read as 8 bytes, also if it is a float32.",
        file="recursive_filter.py",
        old="*(const number *)PyArray_DATA(%(start)s);",
        new="*(const double *)PyArray_DATA(%(start)s);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "float32"):
                both = BothWays(op.RecursiveFilter(0.5), T.vector(dtype=dtype), T.scalar(dtype=dtype))
                both(np.ones(2, dtype), np.array([3, 5], dtype)[:1].reshape(()))
            right = True
        """,
    ),
    PlantedFault(
        name="start_of_another_dtype_accepted",
        module="recursive_filter",
        kind="declaration",
        why="make_node does not compare the dtypes of x and start, but the C code reads both as the same dtype.",
        file="recursive_filter.py",
        old="if start.ndim != 0 or start.dtype != x.dtype:",
        new="if start.ndim != 0:",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            BothWays(op.RecursiveFilter(0.5), T.fvector(), T.fscalar())(np.ones(2, "float32"), np.array(3, "float32"))
            try:
                BothWays(op.RecursiveFilter(0.5), T.fvector(), T.dscalar())(np.ones(2, "float32"), np.array(0.1))
            except TypeError:
                right = True
        """,
    ),
    PlantedFault(
        name="strides_of_input_for_output",
        module="recursive_filter",
        kind="layout",
        why="The output is written with the stride of the input, which is wrong if only one of them is contiguous.",
        file="recursive_filter.py",
        old="to_step = PyArray_STRIDE(%(y)s, 0);",
        new="to_step = from_step;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RecursiveFilter(0), T.dvector())
            olds = [np.zeros(4), np.zeros(4)[::-1]]
            right = all((way(np.arange(4.0), old=[old])[0] == np.arange(4)).all() for old in olds)
        """,
    ),
    PlantedFault(
        name="reversed_vectors_not_visited",
        module="recursive_filter",
        kind="layout",
        why="The loop compares addresses by <, so it ends at once if the stride is negative or zero.",
        file="recursive_filter.py",
        old="for (npy_intp i = 0; i < size; i++, from += from_step, to += to_step) {",
        new="for (const char *end = from + size * from_step; from < end; from += from_step, to += to_step) {",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way, x = Way(op.RecursiveFilter(0), T.dvector()), np.arange(6.0)
            right = all((way(one, old=[np.full(len(one), 9.0)])[0] == one).all() for one in (x, x[::2], x[::-1]))
        """,
    ),
    PlantedFault(
        name="wrong_input_in_destroy_map",
        module="recursive_filter",
        kind="aliasing",
        why="destroy_map names the start instead of x: a node that needs the old x may run after x is overwritten.",
        file="recursive_filter.py",
        old="self.destroy_map = {0: [0]}",
        new="self.destroy_map = {0: [1]}",
        witness="""
            x, start = T.dvector("x"), T.dscalar("s")
            y = op.RecursiveFilter(0.5, inplace=True)(x + 1, start + 1)
            f = theano.function([x, start], y, mode="DebugMode", accept_inplace=True)
            right = f([1.0, 2.0], 1.0).tolist() == [3, 4.5]
        """,
    ),
    PlantedFault(
        name="result_written_into_the_input",
        module="recursive_filter",
        kind="aliasing",
        why="perform uses numpy.asarray as if it copied its argument, so it overwrites x also without `inplace`.",
        file="recursive_filter.py",
        old="y = x if self.inplace else np.empty(x.shape, x.dtype)",
        new="y = np.asarray(x, dtype=node.outputs[0].type.dtype)",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.ones(3), Way(op.RecursiveFilter(0.5), T.dvector(), impl="py")
            right = way(x)[0].tolist() == [1, 1.5, 1.75] and x.tolist() == [1, 1, 1]
        """,
    ),
    PlantedFault(
        name="one_array_for_all_calls",
        module="recursive_filter",
        kind="output memory",
        why="perform keeps its result for the next call of the same length, so a later call changes earlier results.",
        file="recursive_filter.py",
        old="y = x if self.inplace else np.empty(x.shape, x.dtype)",
        new=(
            'key = "buffer of %d" % len(terms)\n'
            "        y = x if self.inplace else vars(node.tag).setdefault(key, np.empty(x.shape, x.dtype))"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RecursiveFilter(0), T.dvector(), impl="py")
            first, second = way(np.ones(2))[0], way(np.zeros(2))[0]
            right = first.tolist() == [1, 1] and second.tolist() == [0, 0]
        """,
    ),
    PlantedFault(
        name="one_step_too_many",
        module="recursive_filter",
        kind="bounds",
        why="The loop runs once more than necessary: it reads and writes one element beyond the ends of the arrays.",
        file="recursive_filter.py",
        old="i < size; i++, from",
        new="i <= size; i++, from",
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            way, x = Way(op.RecursiveFilter(0.5), T.dvector()), np.ones(8)[:3]
            right = way(x, old=[np.zeros(8)[:3]])[0][2] == 1.75 and way(x, old=[guarded(x)])[0][2] == 1.75
        """,
    ),
    PlantedFault(
        name="input_returned_without_reference",
        module="recursive_filter",
        kind="references",
        why="The in-place code returns x without a new reference, so the array is freed while it is still used.",
        file="recursive_filter.py",
        old="            Py_INCREF(%(x)s);\n",
        new="",
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RecursiveFilter(0.5, inplace=True), T.dvector())
            x = np.ones(3)
            held = [x] * 100
            before = sys.getrefcount(x)
            for _ in range(20):
                way(x)
            right = sys.getrefcount(x) >= before
        """,
    ),
    PlantedFault(
        name="filter_continues_in_next_call",
        module="recursive_filter",
        kind="state",
        why="The value is a static variable: it is set to the start in the first call only.",
        file="recursive_filter.py",
        old="            double value = *",
        new="            static double value = *",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RecursiveFilter(1), T.dvector())
            right = [way(np.ones(2))[0].tolist() for _ in range(2)] == [[1, 2], [1, 2]]
        """,
    ),
    PlantedFault(
        name="gradient_not_turned_back",
        module="recursive_filter",
        kind="gradient",
        why="The gradient is computed backwards, but not reversed again.",
        file="recursive_filter.py",
        old="RecursiveFilter(self.rate)(g[::-1])[::-1]",
        new="RecursiveFilter(self.rate)(g[::-1])",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for n in (1, 3):
                utt.verify_grad(op.RecursiveFilter(0.5), [np.ones(n), np.array(1.0)])
            right = True
        """,
    ),
    PlantedFault(
        name="tangent_of_start_forgotten",
        module="recursive_filter",
        kind="gradient",
        why="R_op filters the tangent of x only, as if the start were constant.",
        file="recursive_filter.py",
        old="return [RecursiveFilter(self.rate)(x, start)]",
        new="return [RecursiveFilter(self.rate)(x)]",
        witness="""
            x, s = T.dvector(), T.dscalar()
            y = op.RecursiveFilter(0.5)(x, s)
            products = [T.Rop(y, x, T.ones_like(x)), T.Rop(y, s, T.ones_like(s))]
            f = theano.function([x, s], products, on_unused_input="ignore")
            first, second = f([5.0, 5.0], 5.0)
            right = first.tolist() == [1, 1.5] and second.tolist() == [0.5, 0.25]
        """,
    ),
    PlantedFault(
        name="shape_of_the_start",
        module="recursive_filter",
        kind="shape",
        why="infer_shape returns the shape of the last input, which has no dimensions, so the Op must be computed.",
        file="recursive_filter.py",
        old="return [shapes[0]]",
        new="return [shapes[-1]]",
        witness="""
            x = T.dvector()
            f = theano.function([x], op.RecursiveFilter(0.5)(x).shape)
            ops = [type(node.op) for node in f.maker.fgraph.toposort()]
            right = f(np.ones(3))[0] == 3 and op.RecursiveFilter not in ops
        """,
    ),
    PlantedFault(
        name="inplace_missing_in_props",
        module="recursive_filter",
        kind="declaration",
        why="The Op that overwrites its input equals the Op that does not, so one can replace the other.",
        file="recursive_filter.py",
        old='__props__ = ("rate", "inplace")',
        new='__props__ = ("rate",)',
        witness="""
            right = op.RecursiveFilter(0.5, inplace=True) != op.RecursiveFilter(0.5)
        """,
    ),
]
