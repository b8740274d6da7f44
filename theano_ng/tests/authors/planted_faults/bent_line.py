"""Faults planted in BentLine."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="mirror_image_of_linear_part",
        module="bent_line",
        kind="parameter",
        why="The sign is not turned back in the branch of the shape 'linear': mirrored=True gives wrong signs there.",
        file="bent_line.py",
        old="to[i] = sign * (alpha * v);",
        new="to[i] = alpha * v;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            x = np.array([1.5, -2.0])
            BothWays(op.BentLine(0.5), T.dvector())(x)
            BothWays(op.BentLine(0.5, mirrored=True), T.dvector())(x)
            right = True
        """,
    ),
    PlantedFault(
        name="negative_alpha_taken_as_size",
        module="bent_line",
        kind="parameter",
        why="The C code assumes that slopes are positive and takes the absolute value of alpha.",
        file="bent_line.py",
        old="(number)%(params)s->alpha;",
        new="(number)std::fabs(%(params)s->alpha);",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.array([-1.0, 2.0]), Way(op.BentLine(-0.5), T.dvector())
            right = way(x)[0].tolist() == [0.5, 2.0]
        """,
    ),
    PlantedFault(
        name="zero_alpha_times_infinity",
        module="bent_line",
        kind="parameter",
        why="Without the case alpha == 0, the flat part is NaN at minus infinity in C, and 0 in Python.",
        file="bent_line.py",
        old="                else if (alpha == 0)\n                    to[i] = sign * (number)0;\n",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            right = Way(op.BentLine(0), T.dvector())(np.array([-np.inf, 1.0]))[0].tolist() == [0.0, 1.0]
        """,
    ),
    PlantedFault(
        name="exponential_minus_one",
        module="bent_line",
        kind="value",
        why="exp(v) - 1 cancels for small v, so small negative inputs lose most of their digits.",
        file="bent_line.py",
        old="(alpha * std::expm1(v));",
        new="(alpha * (std::exp(v) - 1));",
        witness="""
            from theano_ng.tests.authors.ways import Way
            (y,) = Way(op.BentLine(1, "exponential"), T.dvector())(np.array([-1e-10, -1.0]))
            right = abs(y[0] / -1e-10 - 1) < 1e-9 and abs(y[1] - np.expm1(-1)) < 1e-15
        """,
    ),
    PlantedFault(
        name="saturation_begins_too_early",
        module="bent_line",
        kind="value",
        why="A shortcut for large negative inputs begins at -8, where exp(v) is not yet negligible.",
        file="bent_line.py",
        old="(alpha * std::expm1(v));",
        new="(alpha * (v < -8 ? (number)-1 : std::expm1(v)));",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.BentLine(1, "exponential"), T.dvector(), ulps=4)
            both(np.array([-7.9, -100.0, 3.0]))
            both(np.array([-8.5]))
            right = True
        """,
    ),
    PlantedFault(
        name="logarithm_of_single_precision",
        module="bent_line",
        kind="value",
        why="log1pf computes in single precision, so float64 results have only seven digits.",
        file="bent_line.py",
        old="std::log1p(-v));",
        new="log1pf(-v));",
        witness="""
            from theano_ng.tests.authors.ways import Way
            (y,) = Way(op.BentLine(1, "logarithmic"), T.dvector())(np.array([-0.3]))
            right = abs(y[0] + np.log1p(0.3)) < 1e-14
        """,
    ),
    PlantedFault(
        name="perform_always_returns_float64",
        module="bent_line",
        kind="dtype",
        why="perform converts the result to float64, also for a float32 input.",
        file="bent_line.py",
        old="dtype=node.outputs[0].type.dtype)",
        new='dtype="float64")',
        witness="""
            from theano_ng.tests.authors.ways import Way
            ways = [Way(op.BentLine(0.5), T.vector(dtype=dtype), impl="py") for dtype in ("float64", "float32")]
            right = [way(np.ones(2, way.variables[0].dtype))[0].dtype.name for way in ways] == ["float64", "float32"]
        """,
    ),
    PlantedFault(
        name="input_taken_as_contiguous",
        module="bent_line",
        kind="layout",
        why="The C code reads the input as one block, so transposed and strided inputs give the wrong elements.",
        file="bent_line.py",
        old="(PyArrayObject *)PyArray_GETCONTIGUOUS(%(x)s);",
        new="%(x)s;\n            Py_XINCREF(x);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.BentLine(0.5), T.dmatrix())
            x = np.arange(6.0).reshape(2, 3) - 3
            both(x)
            both(x.T)
            right = True
        """,
    ),
    PlantedFault(
        name="old_output_taken_as_contiguous",
        module="bent_line",
        kind="layout",
        why="An old output in Fortran order is filled in C order, so the elements are exchanged.",
        file="bent_line.py",
        old=" || !PyArray_ISCARRAY(%(y)s)",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.arange(6.0).reshape(2, 3), Way(op.BentLine(0.5), T.dmatrix())
            olds = [np.zeros((2, 3)), np.zeros((2, 3), order="F"), np.zeros((2, 6))[:, ::2]]
            right = all((way(x, old=[old])[0] == x).all() for old in olds)
        """,
    ),
    PlantedFault(
        name="old_output_of_equal_size",
        module="bent_line",
        kind="output memory",
        why="Only the numbers of elements are compared: an old output of shape (3, 2) is returned for an input (2, 3).",
        file="bent_line.py",
        old="!PyArray_SAMESHAPE(%(y)s, x)",
        new="PyArray_SIZE(%(y)s) != PyArray_SIZE(x)",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.BentLine(0.5), T.dmatrix())
            shapes = [way(np.ones((2, 3)), old=[np.zeros(shape)])[0].shape for shape in ((2, 3), (2, 2), (3, 2))]
            right = shapes == [(2, 3)] * 3
        """,
    ),
    PlantedFault(
        name="tail_after_blocks_of_1024",
        module="bent_line",
        kind="length",
        why="Long arrays are computed in blocks of 1,024 elements, and elements after the last block are forgotten.",
        file="bent_line.py",
        old="const npy_intp size = PyArray_SIZE(x);",
        new="npy_intp size = PyArray_SIZE(x);\n            if (size >= 1024)\n                size -= size %% 1024;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.BentLine(0.5), T.dvector())
            right = all(way(np.ones(n), old=[np.zeros(n)])[0].all() for n in (0, 1, 1000, 2048, 1025))
        """,
    ),
    PlantedFault(
        name="last_block_of_four_is_full",
        module="bent_line",
        kind="bounds",
        why="The number of elements is rounded up to blocks of four, so the code writes beyond the end of the output.",
        file="bent_line.py",
        old="i < size; i++",
        new="i < (size + 3) / 4 * 4; i++",
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            way = Way(op.BentLine(0.5), T.dvector())
            right = all(way(guarded(np.ones(n)), old=[guarded(np.zeros(n))])[0].all() for n in (4, 8, 5))
        """,
    ),
    PlantedFault(
        name="contiguous_array_never_released",
        module="bent_line",
        kind="references",
        why="The reference that PyArray_GETCONTIGUOUS returns is kept, so inputs and their copies are never freed.",
        file="bent_line.py",
        old="            }\n            Py_DECREF(x);\n",
        new="            }\n",
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way, growth
            x, way = np.ones((100, 20)), Way(op.BentLine(0.5), T.dmatrix())
            before = sys.getrefcount(x)
            for _ in range(10):
                way(x)
            right = sys.getrefcount(x) <= before + 1 and growth(lambda: way(x.T), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="result_written_into_contiguous_array",
        module="bent_line",
        kind="aliasing",
        why="PyArray_GETCONTIGUOUS copies only if necessary: the result overwrites an input that is contiguous.",
        file="bent_line.py",
        old=(
            "            if (%(y)s == NULL || !PyArray_ISCARRAY(%(y)s) || !PyArray_SAMESHAPE(%(y)s, x)) {\n"
            "                Py_XDECREF(%(y)s);\n"
            "                %(y)s = (PyArrayObject *)"
            "PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x));\n"
        ),
        new=(
            "            if (%(y)s != x) {\n"
            "                Py_XDECREF(%(y)s);\n"
            "                Py_INCREF(x);\n"
            "                %(y)s = x;\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = -np.ones((2, 3)), Way(op.BentLine(0.5), T.dmatrix())
            right = (way(x.T)[0] == -0.5).all() and (way(x)[0] == -0.5).all() and (x == -1).all()
        """,
    ),
    PlantedFault(
        name="alpha_of_first_call",
        module="bent_line",
        kind="state",
        why="A static constant is initialized once for all Ops that share the module: other alphas are ignored.",
        file="bent_line.py",
        old="const number alpha = ",
        new="static const number alpha = ",
        witness="""
            from theano_ng.tests.authors.ways import Way
            ys = [float(Way(op.BentLine(alpha), T.dvector())(np.array([-1.0]))[0][0]) for alpha in (0.5, 0.25)]
            right = ys == [-0.5, -0.25]
        """,
    ),
    PlantedFault(
        name="slope_of_logarithm_squared",
        module="bent_line",
        kind="gradient",
        why="The derivative of -log(1 - x) is 1 / (1 - x), but the gradient is the square of this.",
        file="bent_line.py",
        old="bent = alpha / (1 - below)",
        new="bent = alpha / (1 - below) ** 2",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.BentLine(0.5, "exponential"), [np.array([-2.0, 1.0])])
            utt.verify_grad(op.BentLine(0.5, "logarithmic"), [np.array([-2.0, 1.0])])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_mirror_image",
        module="bent_line",
        kind="gradient",
        why="The slope ignores mirrored=True, so the gradient belongs to the other side of zero.",
        file="bent_line.py",
        old="        if self.mirrored:\n            x = -x\n        below",
        new="        below",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.BentLine(0.5), [np.array([-2.0, 1.0])])
            utt.verify_grad(op.BentLine(0.5, mirrored=True), [np.array([-2.0, 1.0])])
            right = True
        """,
    ),
    PlantedFault(
        name="slope_at_the_direction",
        module="bent_line",
        kind="gradient",
        why="R_op computes the slope at the direction instead of at the input.",
        file="bent_line.py",
        old="return [eval_points[0] * self.slope(inputs[0])]",
        new="return [eval_points[0] * self.slope(eval_points[0])]",
        witness="""
            x, v = T.dvectors("x", "v")
            product = theano.function([x, v], T.Rop(op.BentLine(0.5)(x), x, v), on_unused_input="ignore")
            right = product([-1.0, 1.0], [-1.0, 1.0]).tolist() == [-0.5, 1] and product([-1.0], [1.0]) == 0.5
        """,
    ),
    PlantedFault(
        name="shape_of_transposed_input",
        module="bent_line",
        kind="shape",
        why="infer_shape lists the dimensions in the wrong order, which is noticed only if they differ.",
        file="bent_line.py",
        old="        return shapes\n",
        new="        return [shapes[0][::-1]]\n",
        witness="""
            x = T.dmatrix()
            f = theano.function([x], op.BentLine()(x).shape)
            right = tuple(f(np.ones((2, 2)))) == (2, 2) and tuple(f(np.ones((2, 3)))) == (2, 3)
        """,
    ),
    PlantedFault(
        name="mirrored_missing_in_props",
        module="bent_line",
        kind="declaration",
        why="Ops that differ only in `mirrored` are equal, so one of them is computed for both.",
        file="bent_line.py",
        old='__props__ = ("alpha", "shape", "mirrored")',
        new='__props__ = ("alpha", "shape")',
        witness="""
            x = T.dvector()
            y, z = theano.function([x], [op.BentLine(0.5)(x), op.BentLine(0.5, mirrored=True)(x)])([1.0, -1.0])
            right = y.tolist() == [1, -0.5] and z.tolist() == [0.5, -1]
        """,
    ),
]
