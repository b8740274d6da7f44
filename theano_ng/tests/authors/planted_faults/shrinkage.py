"""Faults planted in ScalarShrinkage."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="negative_of_unsigned_threshold",
        module="shrinkage",
        kind="dtype",
        why="-t is a large number if t is unsigned: in the mode 'hard' small unsigned numbers are not set to zero.",
        file="shrinkage.py",
        old="x > t || (std::numeric_limits<number>::is_signed && x < -t);",
        new="x > t || x < -t;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            for dtype in ("float64", "int32", "uint8", "uint32"):
                way = Way(op.shrinkage("hard"), T.vector(dtype=dtype), T.vector(dtype=dtype))
                right = way(np.array([2, 5], dtype), np.array([3, 3], dtype))[0].tolist() == [0, 5]
        """,
    ),
    PlantedFault(
        name="absolute_value_of_lowest_integer",
        module="shrinkage",
        kind="value",
        why="The absolute value of the lowest integer is negative, so this integer is set to zero.",
        file="shrinkage.py",
        old="x > t || (std::numeric_limits<number>::is_signed && x < -t);",
        new="(number)(x < 0 ? (number)0 - x : x) > t;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.shrinkage("hard"), T.bvector(), T.bvector())
            x = np.array([-128, -127, 4, 3], "int8")
            right = way(x[1:], np.full(3, 3, "int8"))[0].tolist() == [-127, 4, 0]
            right = right and way(x, np.full(4, 3, "int8"))[0].tolist() == [-128, -127, 4, 0]
        """,
    ),
    PlantedFault(
        name="unsigned_numbers_moved_below_zero",
        module="shrinkage",
        kind="dtype",
        why="The test compares x - t with 0, which is always true for unsigned numbers: small ones become large.",
        file="shrinkage.py",
        old="    if (x > t)\n        return x - t;\n",
        new="    const number moved = x - t;\n    if (x > 0 && moved > 0)\n        return moved;\n",
        witness="""
            from theano_ng.tests.authors.ways import Way
            for dtype in ("float64", "int32", "uint16"):
                way = Way(op.shrinkage("soft"), T.vector(dtype=dtype), T.vector(dtype=dtype))
                right = way(np.array([2, 5], dtype), np.array([3, 3], dtype))[0].tolist() == [0, 2]
        """,
    ),
    PlantedFault(
        name="integers_computed_in_double",
        module="shrinkage",
        kind="dtype",
        why="The C code converts all numbers to double, so integers above 2**53 are rounded.",
        file="shrinkage.py",
        old='number, nan = "npy_" + dtype, ""',
        new='number, nan = "double", ""',
        witness="""
            from theano_ng.tests.authors.ways import Way
            for dtype, number in (("int32", 2**31 - 1), ("int64", 100), ("int64", 2**53 + 3)):
                way = Way(op.shrinkage("soft"), T.vector(dtype=dtype), T.vector(dtype=dtype))
                right = way(np.array([number], dtype), np.array([2], dtype))[0].tolist() == [number - 2]
        """,
    ),
    PlantedFault(
        name="integers_computed_as_floats_in_python",
        module="shrinkage",
        kind="dtype",
        why="impl converts integers to float64 as well, so perform rounds integers above 2**53.",
        file="shrinkage.py",
        old='if isinstance(x, np.integer) and isinstance(t, np.integer) and self.mode != "garrote":',
        new="if isinstance(x, int) and isinstance(t, int):",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.shrinkage("soft"), T.lvector(), T.lvector())
            both(np.array([100, -7]), np.array([2, 2]))
            both(np.array([2**53 + 3]), np.array([2]))
            right = True
        """,
    ),
    PlantedFault(
        name="integers_divided_without_fraction",
        module="shrinkage",
        kind="dtype",
        why="The quotient of integers is computed before the conversion to double, so it is 0 in the mode 'garrote'.",
        file="shrinkage.py",
        old='        if dtype.startswith("float"):\n            number, nan',
        new=(
            '        if dtype.startswith("float") and node.inputs[0].type.dtype in scalar.discrete_dtypes:\n'
            '            number, nan = "npy_" + node.inputs[0].type.dtype, ""\n'
            '        elif dtype.startswith("float"):\n'
            "            number, nan"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            for dtype in ("float32", "float64", "int32"):
                way = Way(op.shrinkage("garrote"), T.vector(dtype=dtype), T.vector(dtype=dtype))
                right = way(np.array([4], dtype), np.array([2], dtype))[0].tolist() == [3]
        """,
    ),
    PlantedFault(
        name="threshold_itself_is_kept",
        module="shrinkage",
        kind="value",
        why="The C code keeps numbers that are equal to the threshold in the mode 'hard', and perform sets them to zero.",
        file="shrinkage.py",
        old="const bool kept = x > t ||",
        new="const bool kept = x >= t ||",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.shrinkage("hard"), T.dvector(), T.dvector())
            both(np.array([1.0, 3, -1, -2, -3]), np.full(5, 2.0))
            both(np.array([2.0]), np.full(1, 2.0))
            right = True
        """,
    ),
    PlantedFault(
        name="nan_counts_as_small",
        module="shrinkage",
        kind="value",
        why="Comparisons with NaN are false, so the C code replaces NaN by zero.",
        file="shrinkage.py",
        old='"if (x != x || t != t) %s = NPY_NAN; else" % outputs[0]',
        new='""',
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for mode in ("hard", "soft"):
                both = BothWays(op.shrinkage(mode), T.dvector(), T.dvector())
                both(np.array([1.0, 3, np.inf]), np.array([2.0, 1, np.inf]))
                both(np.array([np.nan, 3]), np.array([2.0, np.nan]))
            right = True
        """,
    ),
    PlantedFault(
        name="sign_of_number_for_zero",
        module="shrinkage",
        kind="value",
        why="The result gets the sign of x by copysign, so negative numbers that are set to zero become -0.0 in C.",
        file="shrinkage.py",
        old="    if (x > t)\n        return x - t;\n    return ",
        new=(
            "    if (!std::numeric_limits<number>::is_integer)\n"
            "        return copysign(fmax(fabs((double)x) - t, 0), (double)x);\n"
            "    if (x > t)\n        return x - t;\n    return "
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.shrinkage("soft"), T.dvector(), T.dvector())
            both(np.array([1.0, 3, -3]), np.full(3, 2.0))
            both(np.array([-1.0]), np.full(1, 2.0))
            right = True
        """,
    ),
    PlantedFault(
        name="square_of_threshold_overflows",
        module="shrinkage",
        kind="value",
        why="The square of a large threshold is infinite, although its quotient by x is not.",
        file="shrinkage.py",
        old="return x > t || x < -t ? x - t * (t / x) : 0;",
        new="return x > t || x < -t ? x - t * t / x : 0;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.shrinkage("garrote"), T.dvector(), T.dvector(), ulps=4)
            both(np.array([4.0, -8]), np.array([2.0, 2]))
            both(np.array([4e200]), np.array([2e200]))
            right = True
        """,
    ),
    PlantedFault(
        name="product_and_difference_rounded_once",
        module="shrinkage",
        kind="value",
        why="fma rounds x - t * (t / x) once and Python rounds twice, so differences near zero have other digits.",
        file="shrinkage.py",
        old="return x > t || x < -t ? x - t * (t / x) : 0;",
        new="return x > t || x < -t ? fma(-t, t / x, x) : 0;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.shrinkage("garrote"), T.dvector(), T.dvector())
            both(np.array([4.0, -8]), np.array([2.0, 2]))
            both(np.linspace(1.1, 1.2, 50), np.full(50, 1.1))
            right = True
        """,
    ),
    PlantedFault(
        name="negative_threshold_moves_away",
        module="shrinkage",
        kind="value",
        why="The C code does not replace a negative threshold by zero, so numbers move away from zero.",
        file="shrinkage.py",
        old="t = given < 0 ? (%(number)s)0 : given;",
        new="t = given;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.shrinkage("soft"), T.dvector(), T.dvector())
            both(np.array([3.0, -3]), np.array([1.0, 0]))
            both(np.array([3.0]), np.array([-1.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="threshold_of_last_element",
        module="shrinkage",
        kind="state",
        why="A NaN threshold is replaced by the last valid one, which a static variable keeps for the next elements.",
        file="shrinkage.py",
        old="            %(nan)s %(z)s = shrink_%(mode)s<%(number)s>(x, t);\n",
        new=(
            "            static %(number)s last = 0;\n"
            "            last = t != t ? last : t;\n"
            "            %(z)s = shrink_%(mode)s<%(number)s>(x, last);\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.shrinkage("hard"), T.dvector(), T.dvector())
            x, t = np.array([2.0, 2]), np.array([np.nan, 3])
            one, other = [way(x, t)[0] for _ in range(2)]
            np.testing.assert_array_equal(one, other)
            right = way(np.array([2.0]), np.array([3.0]))[0] == 0
        """,
    ),
    PlantedFault(
        name="result_like_first_input",
        module="shrinkage",
        kind="declaration",
        why="The result has the dtype of x, so small integers with a float threshold lose their fractions.",
        file="shrinkage.py",
        old="result = scalar.upcast_out(*types)[0]",
        new="result = scalar.get_scalar_type(types[0].dtype)",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.shrinkage(), T.dvector(), T.bvector())
            right = way(np.array([2.5]), np.array([1], "int8"))[0] == 1.5
            way = Way(op.shrinkage(), T.bvector(), T.dvector())
            right = right and way(np.array([2], "int8"), np.array([0.5]))[0] == 1.5
        """,
    ),
    PlantedFault(
        name="complex_numbers_accepted",
        module="shrinkage",
        kind="declaration",
        why="Complex numbers are not refused, but the C code and Python compare them, which is not defined.",
        file="shrinkage.py",
        old='one.dtype.startswith("complex") or one.dtype in ("bool", "float16")',
        new='one.dtype in ("bool", "float16")',
        witness="""
            from theano_ng.tests.authors.ways import assert_raises
            assert_raises(TypeError, op.shrinkage(), T.vector(dtype="bool"), T.dvector())
            assert_raises(TypeError, op.shrinkage(), T.zvector(), T.zvector())
            right = True
        """,
    ),
    PlantedFault(
        name="functions_of_all_modes_with_one_name",
        module="shrinkage",
        kind="declaration",
        why="The support code of each mode defines `shrink`: a loop that contains two modes does not compile.",
        file="shrinkage.py",
        old="        return SUPPORT_CODE\n",
        new=(
            "        used = 'template <typename number> static number shrink_%s(' % self.mode\n"
            "        parts = SUPPORT_CODE.split('\\n\\n')\n"
            "        (chosen,) = [part for part in parts if used in part]\n"
            "        header = 'shrink(number x, number t);\\n#define shrink_%s shrink\\n'\n"
            "        return parts[0] + '\\ntemplate <typename number> static number ' + header % self.mode + chosen\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, t = T.dvectors("x", "t")
            for mode in ("hard", "soft", "garrote"):
                Way(op.shrinkage(mode), x, t)(np.ones(1), np.zeros(1))
            f = theano.function([x, t], op.shrinkage("hard")(x, t) + op.shrinkage("soft")(x, t))
            right = f([3.0], [1.0]) == 5
        """,
    ),
    PlantedFault(
        name="version_is_a_list",
        module="shrinkage",
        kind="declaration",
        why="The cache version is a list, which cannot be hashed.",
        file="shrinkage.py",
        old="return (1, self.mode)",
        new="return [1, self.mode]",
        witness="""
            right = isinstance(hash(op.ScalarShrinkage().c_code_cache_version()), int)
        """,
    ),
    PlantedFault(
        name="gradient_of_positive_numbers_only",
        module="shrinkage",
        kind="gradient",
        why="The absolute value is forgotten in the gradient, so negative numbers seem to be constant.",
        file="shrinkage.py",
        old="beyond = scalar.gt(scalar.abs_(x), t)",
        new="beyond = scalar.gt(x, t)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            t = np.ones((2, 2))
            utt.verify_grad(op.shrinkage("hard"), [np.array([[3.0, 0.5], [2, -0.5]]), t])
            utt.verify_grad(op.shrinkage("hard"), [np.array([[3.0, 0.5], [-2, -0.5]]), t])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_threshold_without_sign",
        module="shrinkage",
        kind="gradient",
        why="The derivative of the soft result with respect to t is -1 for both signs of x.",
        file="shrinkage.py",
        old="scalar.switch(scalar.gt(x, zero), minus_one, one)",
        new="minus_one",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            t = np.ones((2, 2))
            utt.verify_grad(op.shrinkage("soft"), [np.array([[3.0, 0.5], [2, -0.5]]), t])
            utt.verify_grad(op.shrinkage("soft"), [np.array([[3.0, 0.5], [-2, -0.5]]), t])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_negative_threshold",
        module="shrinkage",
        kind="gradient",
        why="A negative threshold counts as zero, but the gradient treats it as if it moved the numbers.",
        file="shrinkage.py",
        old="moves = scalar.and_(beyond, scalar.ge(given, zero))",
        new="moves = beyond",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            x = np.array([[3.0, 0.5]])
            utt.verify_grad(op.shrinkage("soft"), [x, np.array([[1.0, 0.75]])])
            utt.verify_grad(op.shrinkage("soft"), [x, np.array([[1.0, -0.75]])])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_quotient_by_zero",
        module="shrinkage",
        kind="gradient",
        why="The quotient in the gradient is not replaced where x is 0: the second derivative there is NaN.",
        file="shrinkage.py",
        old="ratio = t / scalar.switch(beyond, x, one)",
        new="ratio = t / x",
        witness="""
            x, t = T.dvectors("x", "t")
            (g,) = T.grad(op.shrinkage("garrote")(x, t).sum(), [x])
            f = theano.function([x, t], T.grad(g.sum(), x))
            right = abs(f([2.0, 0.5], [1.0, 1.0]) - [-0.25, 0]).max() < 1e-12 and f([0.0], [1.0]) == 0
        """,
    ),
    PlantedFault(
        name="gradient_of_integer_threshold",
        module="shrinkage",
        kind="gradient",
        why="An integer threshold gets a derivative as if it were a float, instead of zero.",
        file="shrinkage.py",
        old='            if variable.dtype.startswith("float")\n',
        new='            if variable.dtype.startswith("float") or variable is inputs[1]\n',
        witness="""
            x, t, i = T.dvector("x"), T.dvector("t"), T.lvector("i")
            gradients = [T.grad(op.shrinkage("soft")(x, one).sum(), one) for one in (t, i)]
            right = [g.dtype for g in gradients] == ["float64", theano.config.floatX]
            f = theano.function([x, t, i], gradients)
            right = right and [float(one[0]) for one in f([3.0], [1.0], [1])] == [-1, 0]
        """,
    ),
]
