"""Faults planted in ScalarSmoothMaximum."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="scale_written_with_six_digits",
        module="smooth_maximum",
        kind="parameter",
        why="The scale is written into the C code with six digits, so a scale such as 1 / 3 is rounded.",
        file="smooth_maximum.py",
        old="scale=repr(self.scale)",
        new='scale="%g" % self.scale',
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for scale in (0.5, 2, 1 / 3):
                BothWays(op.smooth_maximum(scale), T.dvector(), T.dvector(), ulps=4)(np.array([1.0]), np.array([1.5]))
            right = True
        """,
    ),
    PlantedFault(
        name="nan_without_smoothing",
        module="smooth_maximum",
        kind="parameter",
        why="A NaN in the first input is lost for scale=0, because comparisons with NaN are false.",
        file="smooth_maximum.py",
        old="            if (x != x || y != y)\n",
        new="            if (y != y)\n",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for scale in (1, 0):
                BothWays(op.smooth_maximum(scale), T.dvector(), T.dvector())(np.array([np.nan]), np.array([1.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="ties_with_scale_one",
        module="smooth_maximum",
        kind="value",
        why="The shortcut for equal inputs adds log(2) without the factor `scale`.",
        file="smooth_maximum.py",
        old="larger + scale * NPY_LOGE2;",
        new="larger + NPY_LOGE2;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.smooth_maximum(0.5), T.dvector(), T.dvector(), ulps=4)
            both(np.array([1.0]), np.array([1.5]))
            both(np.array([1.5]), np.array([1.5]))
            right = True
        """,
    ),
    PlantedFault(
        name="logarithm_of_one_plus",
        module="smooth_maximum",
        kind="value",
        why="log(1 + t) is 0 for small t, so results near 0 lose all digits.",
        file="smooth_maximum.py",
        old="scale * log1p(exp((smaller - larger) / scale));",
        new="scale * log(1 + exp((smaller - larger) / scale));",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.smooth_maximum(1), T.dvector(), T.dvector(), ulps=4)
            both(np.array([1.0]), np.array([1.5]))
            both(np.array([0.0]), np.array([-40.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="exponentials_overflow",
        module="smooth_maximum",
        kind="value",
        why="The exponentials of large inputs are infinite, although the result is finite.",
        file="smooth_maximum.py",
        old="larger + scale * log1p(exp((smaller - larger) / scale));",
        new="scale * log(exp(x / scale) + exp(y / scale));",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.smooth_maximum(1), T.dvector(), T.dvector(), ulps=4)
            both(np.array([1.0]), np.array([1.5]))
            both(np.array([1000.0]), np.array([1001.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="functions_of_single_precision",
        module="smooth_maximum",
        kind="dtype",
        why="expf and log1pf compute in single precision, so float64 results have only seven digits.",
        file="smooth_maximum.py",
        old="log1p(exp((smaller",
        new="log1pf(expf((smaller",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float32", "float64"):
                both = BothWays(op.smooth_maximum(1), T.vector(dtype=dtype), T.vector(dtype=dtype), ulps=4)
                both(np.array([1], dtype), np.array([1.3], dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="mixed_precision_becomes_single",
        module="smooth_maximum",
        kind="dtype",
        why="The result of a float32 and a float64 input is declared as float32.",
        file="smooth_maximum.py",
        old='all(one.dtype == "float32" for one in types)',
        new='any(one.dtype == "float32" for one in types)',
        witness="""
            dtypes = [("float32", "float32"), ("float64", "float64"), ("float32", "float64")]
            results = [op.smooth_maximum(1)(*(T.vector(dtype=one) for one in pair)).dtype for pair in dtypes]
            right = results == ["float32", "float64", "float64"]
        """,
    ),
    PlantedFault(
        name="gradient_without_scale",
        module="smooth_maximum",
        kind="gradient",
        why="The difference in the gradient is not divided by the scale.",
        file="smooth_maximum.py",
        old="scalar.switch(tie, zero, (x - y) / scale)",
        new="scalar.switch(tie, zero, x - y)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for scale in (1, 0.5):
                utt.verify_grad(op.smooth_maximum(scale), [np.array([1.0]), np.array([1.5])])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_equal_infinite_inputs",
        module="smooth_maximum",
        kind="gradient",
        why="Without the case of equal infinite inputs, their difference is NaN, and so is the gradient.",
        file="smooth_maximum.py",
        old="scalar.switch(tie, zero, (x - y) / scale)",
        new="(x - y) / scale",
        witness="""
            x, y = T.dvectors("x", "y")
            f = theano.function([x, y], T.grad(op.smooth_maximum(1)(x, y).sum(), x))
            right = f([2.0], [2.0])[0] == 0.5 and f([np.inf], [np.inf])[0] == 0.5
        """,
    ),
    PlantedFault(
        name="gradient_of_ties_without_smoothing",
        module="smooth_maximum",
        kind="parameter",
        why="For scale=0, the second of two equal inputs gets the whole gradient instead of a half.",
        file="smooth_maximum.py",
        old="scalar.switch(scalar.gt(x, y), one, scalar.switch(scalar.eq(x, y), half, zero))",
        new="scalar.switch(scalar.gt(x, y), one, zero)",
        witness="""
            x, y = T.dvectors("x", "y")
            gradients = [T.grad(op.smooth_maximum(scale)(x, y).sum(), x) for scale in (1, 0)]
            right = [gradient.eval({x: [2.0], y: [2.0]})[0] for gradient in gradients] == [0.5, 0.5]
        """,
    ),
    PlantedFault(
        name="both_inputs_get_one_share",
        module="smooth_maximum",
        kind="gradient",
        why="The second input gets the share of the first one, instead of what remains.",
        file="smooth_maximum.py",
        old="sigmoid(difference), sigmoid(-difference)",
        new="sigmoid(difference), sigmoid(difference)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for y in (1.0, 1.5):
                utt.verify_grad(op.smooth_maximum(1), [np.array([1.0]), np.array([y])])
            right = True
        """,
    ),
    PlantedFault(
        name="scale_missing_in_props",
        module="smooth_maximum",
        kind="declaration",
        why="Ops with different scales are equal, so one of them is computed for both.",
        file="smooth_maximum.py",
        old='__props__ = ("scale",)',
        new="__props__ = ()",
        witness="""
            x, y = T.dvectors("x", "y")
            one, other = theano.function([x, y], [op.smooth_maximum(0)(x, y), op.smooth_maximum(1)(x, y)])([1.0], [1.0])
            right = one[0] == 1 and abs(other[0] - 1 - np.log(2)) < 1e-15
        """,
    ),
    PlantedFault(
        name="version_without_scale",
        module="smooth_maximum",
        kind="declaration",
        why="The C code contains the scale, but the cache version does not depend on it.",
        file="smooth_maximum.py",
        old="return (1, self.scale)",
        new="return (1,)",
        witness="""
            right = len({op.ScalarSmoothMaximum(scale).c_code_cache_version() for scale in (1, 2)}) == 2
        """,
    ),
]
